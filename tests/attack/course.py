"""A course in a folder of its own, with what is stored of one source, and its command line."""

import os
import re
import shutil
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from unittest import mock

from typer.testing import CliRunner

from tests.attack.tries import Seen

ROOT = Path(__file__).parents[2]
SOURCE = "sci"
STORED = ("data/paper", "data/models", f"figures/{SOURCE}", "figures/manifest.json", "pyproject.toml")
NAMES = ("RESULTS", "FIGURES", "CACHE", "PROBES", "DATA", "BASES")
BOX = re.compile(r"[─│╭╮╰╯]")


class WouldWork(Exception):
    """A request was right, and hours of work would begin."""


def no_work(what, *_, **__):
    """In the place of what begins work."""
    raise WouldWork(what)


class Course:
    """The stored files of a source below `home`, and a victim beside it that nothing may touch."""

    def __init__(self, folder: Path):
        self.home, self.victim = folder / "course", folder / "victim.txt"
        self.victim.write_text("kept", encoding="utf-8")
        for name in STORED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, self.home / name)
        for kind in ("results", "probes"):
            for place in (ROOT / "data" / kind / "laptop").glob(f"{SOURCE}.*"):
                shutil.copytree(place, self.home / "data" / kind / "laptop" / place.name)
        (self.home / "notebooks").mkdir()
        (self.home / "notebooks" / "00_start_here.ipynb").write_text("{}", encoding="utf-8")
        environment = {f"CAUSALNB_{name}": "" for name in NAMES}
        os.environ |= {**environment, "CAUSALNB_HOME": str(self.home), "CAUSALNB_PROFILE": "laptop"}
        os.environ |= {"CAUSALNB_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "1000", "TERM": "dumb"}
        self.keep()

    def keep(self) -> None:
        """From here on, `restore` gives the files as they are now."""
        self.before = {file: (file.read_bytes(), self._stamp(file)) for file in self.files()}

    def files(self, *patterns: str) -> list[Path]:
        """The files that are there, or those that a pattern below the home fits."""
        found = [file for pattern in patterns or ("**/*",) for file in self.home.glob(pattern)]
        return sorted({file for file in found if file.is_file()})

    @staticmethod
    def _stamp(file: Path) -> tuple:
        kept = file.stat()
        return kept.st_ino, kept.st_mtime_ns, kept.st_size

    def restore(self) -> None:
        """All files as they were, and no others."""
        now = {file: self._stamp(file) for file in self.files()}
        for file in now.keys() - self.before.keys():
            file.unlink()
        for file, (data, stamp) in self.before.items():
            if now.get(file) != stamp:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.unlink(missing_ok=True)
                file.write_bytes(data)
                self.before[file] = data, self._stamp(file)

    def shown(self, file: Path) -> str:
        """The name of a file as messages have it."""
        return str(file.relative_to(self.home))

    def ask(self, *words: str, environment: dict[str, str] | None = None) -> Seen:
        """What a command prints, its exit code, and what it left of figures/ and of the victim."""
        from causalnb import cli

        with ExitStack() as stack:
            for place in (
                "subprocess.Popen",
                "causalnb.apps.training._train",
                "causalnb.lab.notebooks.execute",
            ):
                stack.enter_context(mock.patch(place, no_work))
            done = CliRunner().invoke(cli.app, [*words], env=environment)
        error = done.exception
        if isinstance(error, WouldWork):
            return Seen(f"work begins: {error}")
        raw = ""
        if error is not None and not isinstance(error, SystemExit):
            raw = "".join(traceback.format_exception(error)[-2:])
        text = BOX.sub("", f"{done.stdout}\n{done.stderr}")
        made = [self.victim, *self.files("out/**/*")]
        left = {file.name: sha256(file.read_bytes()).hexdigest() for file in made if file.exists()}
        return Seen((done.exit_code, done.stdout, left), text, done.exit_code != 0, raw)

    def each(self, commands: Iterable[tuple[str, ...]]) -> Seen:
        """What several commands give, one after the other."""
        came = [self.ask(*words) for words in commands]
        return Seen(
            [one.value for one in came],
            "\n".join(one.told for one in came),
            any(one.refused for one in came),
            "\n".join(filter(None, (one.raw for one in came))),
        )
