"""Odd words, odd settings in the environment, and an output that cannot be written, for every command."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from random import Random
from unittest import mock

from causalnb.tasks import scan
from tests.attack.course import ROOT, SOURCE, Course
from tests.attack.interrupted import left
from tests.attack.stored import few, restored
from tests.attack.tries import Kind, Seen, Try

LONG = "x" * 300
TEXTS = (
    "",
    " ",
    "nan",
    LONG,
    "çok-güzel",
    "\ud800",
    "a\nb",
    "--",
    "-1",
    "../..",
    "%s",
    "{0}",
    "'\"",
    "sci;ls",
    "\x1b[31m",
)
TARGETS = tuple(text for text in TEXTS if text != "--")  # which ends the options
COUNTS = ("", "nan", "inf", "-1", "1.5", "x", "1e3", "9" * 20, "9" * 5000, "0x10", "-" + "9" * 20)
AMOUNTS = ("", "nan", "inf", "-inf", "-1", "x", "1e999", "1,5", "9" * 400)
PLACES = (
    "/dev/null/x",
    "/dev/null",
    f"/tmp/{'x' * 300}",
    "/proc/x/y",
    "~nobodyhere/x",
    "a/" * 3000,
    "{file}",
    "{file}/x",
)
OPTIONS = {  # of each command: what is always said, and the odd values of each option, "" for its targets
    ("list",): ([], {"--source": TEXTS}),
    ("list", "--json"): ([], {"--source": TEXTS}),
    ("run", "--dry-run"): (
        ["sci.leak"],
        {"": TARGETS, "--profile": TEXTS, "--seeds": (*COUNTS, "0", "50000000"), "--jobs": (*COUNTS, "0")},
    ),
    ("run",): (
        ["sci.leak"],
        {
            "": TARGETS,
            "--profile": TEXTS,
            "--seeds": (*COUNTS, "0", "50000000"),
            "--jobs": (*COUNTS, "0"),
            "--shard": (*TEXTS, "0/4", "5/4", "a/b", "1/0", "1/9999999", "٣/٤"),
            "--executor": TEXTS,
            "--executor-folder": PLACES,
            "--slurm": (*TEXTS, "=x", "time=x"),
        },
    ),
    ("merge", "--dry-run"): (["{home}/data/results"], {"": (*TARGETS, *PLACES)}),
    ("verify", "--dry-run"): (["sci.leak"], {"": TARGETS, "--jobs": (*COUNTS, "0")}),
    ("tables",): (
        ["sci.table2", "--out", "{home}/out"],
        {"": TARGETS, "--profile": TEXTS, "--format": TEXTS, "--columns": TEXTS, "--out": PLACES},
    ),
    ("figures",): (
        ["sci.components", "--format", "svg", "--out", "{home}/out"],
        {
            "": TARGETS,
            "--profile": TEXTS,
            "--format": TEXTS,
            "--style": (*TEXTS, *PLACES),
            "--width": (*AMOUNTS, "1e9in", "0in", "-5cm", "5parsec"),
            "--out": PLACES,
        },
    ),
    ("reproduce",): ([], {"--profile": TEXTS, "--jobs": (*COUNTS, "0"), "--cell-timeout": AMOUNTS}),
    ("data", "fetch"): (["scan/length_split"], {"": TARGETS}),
    ("data", "verify"): ([], {}),
    ("train", "sci"): (
        ["--base-model", "tiny:1", "--max-steps", "1", "--output", "{home}/trained"],
        {
            "--base-model": (*TEXTS, *PLACES, "tiny:0", "tiny:-1", "tiny:nan", f"tiny:{'9' * 10}", "tiny:٣"),
            "--dataset": TEXTS,
            "--split": TEXTS,
            "--n-structural-slots": (*COUNTS, "0"),
            "--cbm-layers": (*TEXTS, *COUNTS, "0,,1", ",", "7", "0,99999999999999999999"),
            "--scl-weight": AMOUNTS,
            "--epochs": (*COUNTS, "0"),
            "--learning-rate": (*AMOUNTS, "0", "1"),
            "--batch-size": (*COUNTS, "0", "1"),
            "--structure-level": TEXTS,
            "--max-steps": (*COUNTS, "0"),
            "--evaluate-every": (*COUNTS, "0"),
            "--lora": COUNTS,
            "--seed": COUNTS,
            "--output": PLACES,
        },
    ),
    ("evaluate", "sci", "--json"): (
        ["--checkpoint", "{home}/trained", "--rows", "8", "--decoded", "2"],
        {
            "--checkpoint": (*TEXTS, *PLACES, "{home}"),
            "--dataset": TEXTS,
            "--split": TEXTS,
            "--rows": (*COUNTS, "0"),
            "--decoded": (*COUNTS, "0"),
        },
    ),
}
FOLDERS = ("HOME", "RESULTS", "FIGURES", "CACHE", "PROBES", "DATA", "BASES")
COMMAND = [sys.executable, "-m", "causalnb"]
VARIABLES = {
    **{f"CAUSALNB_{name}": (*PLACES, LONG) for name in FOLDERS},
    **dict.fromkeys(("CAUSALNB_PROFILE", "CAUSALNB_DEVICE"), [text for text in TEXTS if text]),
    **dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("x", "-1", "1.5", "9" * 20)),
    **dict.fromkeys(("OMP_NUM_THREADS", "COLUMNS", "LINES", "SOURCE_DATE_EPOCH"), ("x", "-1", "9" * 20, "")),
    "MPLBACKEND": ("x",),
    "FRESH": ("x", "0"),
    "TMPDIR": PLACES[:4],
    "TERM": ("", "x"),
    "FORCE_COLOR": ("1",),
}


@contextmanager
def with_trained(folder: Path) -> Iterator[Course]:
    """A course with a trained folder, short data, and the working directory in it."""
    from causalnb.apps import sci

    os.environ |= {"ACCELERATE_USE_CPU": "true", "TRANSFORMERS_VERBOSITY": "error"}
    course, before = Course(folder), Path.cwd()
    with mock.patch.object(scan, "split", few(scan.split)):
        settings = sci.Settings("tiny:1", max_steps=1, batch_size=64)
        sci.train_sci(settings, course.home / "trained")
        course.keep()
        os.chdir(course.home)
        try:
            yield course
        finally:
            os.chdir(before)


def words_of(random: Random, course: Course) -> tuple[list[str], list[str], str, str]:
    """(a right command line, the same with an odd value, the option, the value)."""
    command = random.choice([command for command in OPTIONS if OPTIONS[command][1]])
    said, odd = OPTIONS[command]
    option = random.choice([*odd])
    value = random.choice(odd[option])
    places = {"{home}": str(course.home), "{file}": str(course.home / "pyproject.toml")}

    def filled(word: str) -> str:
        for name, place in places.items():
            word = word.replace(name, place)
        return word

    right = [*command, *map(filled, said)]
    value = filled(value)
    if not option:
        wrong = [value if word == said[0] else word for word in right]
    elif option in right:
        wrong = [
            value if before == option else word for before, word in zip(["", *right], right, strict=False)
        ]
    else:
        wrong = [*right, option, value]
    return right, wrong, option, value


def of_words(random: Random, folder: Path) -> Iterator[Try]:
    """A command line with one odd value."""
    with with_trained(folder) as course:
        usual = cache(lambda *words: restored(course, lambda: course.ask(*words)))
        while True:
            right, wrong, option, value = words_of(random, course)
            named = {option, value.strip()[:40], repr(value)[:40], Path(value).name[:40]} - {""}
            yield Try(
                f"causalnb {' '.join(word[:60] for word in wrong)!r}",
                lambda: restored(course, lambda: course.ask(*wrong)),  # noqa: B023
                lambda: usual(*right),  # noqa: B023
                tuple(named),
                120.0,
            )


def of_environment(random: Random, folder: Path) -> Iterator[Try]:
    """A command line with one odd variable."""
    with with_trained(folder) as course:
        usual = cache(lambda *words: restored(course, lambda: course.ask(*words)))
        lines = [
            ("list", "--source", SOURCE),
            ("run", "sci.leak", "--dry-run"),
            ("run", "sci.leak", "--dry-run", "--profile", "quick"),
            ("tables", "sci.table2", "--out", str(course.home / "out")),
            ("data", "verify"),
            ("data", "fetch", "scan/length_split"),
            (
                "evaluate",
                "sci",
                "--checkpoint",
                str(course.home / "trained"),
                "--rows",
                "8",
                "--decoded",
                "2",
            ),
            ("train", "sci", "--base-model", "tiny:1", "--output", str(course.home / "other")),
        ]
        while True:
            variable, words = random.choice([*VARIABLES]), random.choice(lines)
            value = random.choice(VARIABLES[variable]).replace("{file}", str(course.home / "pyproject.toml"))
            asked = partial(course.ask, *words, environment={variable: value})
            yield Try(
                f"{variable}={value[:60]!r} causalnb {' '.join(words)}",
                lambda: restored(course, asked),  # noqa: B023
                lambda: usual(*words),  # noqa: B023
                (variable, value[:40]),
                120.0,
            )


OUTPUTS = {  # what the standard output of a process is
    "closed": lambda: os.close(1),
    "full": lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1),
    "a pipe that nobody reads": lambda: os.dup2(_unread(), 1),
}


def _unread() -> int:
    reads, writes = os.pipe()
    os.close(reads)
    return writes


def process(words: list[str], prepare: Callable[[], object] = lambda: None, **environment) -> Seen:
    """What a command says on standard error in a process of its own, and what it exits with."""
    done = subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        preexec_fn=prepare,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    said, code = done.stderr.decode(errors="replace"), done.returncode
    bad = "Traceback" in said or "Exception ignored" in said or code < 0 and -code != signal.SIGPIPE
    return Seen((code, done.stdout), said, code != 0, f"{code}: {said[-400:]}" if bad else "")


def of_outputs(random: Random, folder: Path) -> Iterator[Try]:
    """A standard output that takes nothing, and terminals without the letters that are printed."""
    course = Course(folder)
    lines = [
        ["list", "--source", SOURCE],
        ["list", "--source", SOURCE, "--json"],
        ["run", "sci.leak", "--dry-run"],
        ["tables", "sci.table2", "--format", "csv"],
        ["data", "verify"],
        ["--help"],
    ]

    def quiet(output: str, words: list[str]) -> Seen:
        """Of an output that is closed or full a reader is told, of one that nobody reads she need not be."""
        came = restored(course, lambda: process(words, OUTPUTS[output]))
        told = came.refused and (came.told.strip() or output not in ("closed", "full"))
        return came if came.raw else Seen("") if told else Seen("lost", came.told)

    def ascii(words: list[str]) -> Seen:
        known = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
        came = restored(course, lambda: process(words, **known))
        return came if came.raw else Seen(came.refused)

    while True:
        words, output = random.choice(lines), random.choice([*OUTPUTS, "ASCII alone"])
        name = f"causalnb {' '.join(words)}, and the standard output is {output}"
        if output == "ASCII alone":
            yield Try(name, partial(ascii, words), lambda: Seen(False), ("",), 120.0)
        else:
            yield Try(name, partial(quiet, output, words), lambda: Seen(""), ("",), 120.0)


RUNNING = ["run", "sci.components", "--profile", "quick", "--jobs", "2"]


def of_parents(random: Random, folder: Path) -> Iterator[Try]:
    """A command that runs others is killed, stopped or left alone with its children."""
    place = {name: str(folder / name.lower()) for name in ("RESULTS", "CACHE", "PROBES", "FIGURES")}
    known = {f"CAUSALNB_{name}": path for name, path in place.items()}
    signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

    def state() -> dict:
        passing = re.compile(r"seconds\.json$|^cache/code-")  # what any command makes again
        return {name: data for name, data in left(folder).items() if not passing.search(name)}

    def clean() -> None:
        for path in place.values():
            shutil.rmtree(path, ignore_errors=True)

    def again() -> Seen:
        came = process(RUNNING, **known)
        return came if came.raw or came.refused else Seen(state())

    def stopped(after: float, number: int) -> Seen:
        clean()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **known}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(
            [*COMMAND, *RUNNING], env=environment, start_new_session=True, **quiet
        ) as child:
            try:
                child.wait(after)
            except subprocess.TimeoutExpired:
                child.send_signal(number)
            said = child.stderr.read().decode(errors="replace")
        if "Traceback" in said:
            return Seen(raw=said[-400:])
        return again()

    clean()
    start = time.monotonic()
    usual = again()
    seconds = time.monotonic() - start
    while True:
        after, number = random.uniform(0, 1.1) * seconds, random.choice(signals)
        name = f"causalnb {' '.join(RUNNING)}, {signal.Signals(number).name} after {after:.2f} s"
        yield Try(name, partial(stopped, after, number), lambda: usual, ("",), 300.0)


KINDS = (
    Kind("outputs", of_outputs, 16, 0),
    Kind("parents", of_parents, 8, 0),
    Kind("words", of_words, 400, 5),
    Kind("environment", of_environment, 100, 2),
)
