"""The court: a method and its controls, each trained in a process of its own, and what they answered.

Each training is a file that is written once: what is there is not trained again. plain, longer and informed
do not depend on the method and are shared by all methods of a folder. Two are not made: the placebo where on
the first seed the method did the same with it, and equal compute where a method takes plain's seconds.
"""

import ast
import json
import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab import files
from causalnb.lab.records import canonical, parsed, sealed, short, unsealed
from causalnb.paths import shown

from ..records import owned
from .cases import CASES, Case, case

ARMS = {  # what the card says of them
    "plain": "plain tuning of the same base",
    "longer": "plain tuning for twice the steps",
    "informed": "plain tuning on rows made of what is told",
    "method": "the method",
    "placebo": "the method, told what is another row's",
    "compute": "plain tuning for the method's seconds",
}
ORDER = ("method", "placebo", "plain", "longer", "informed", "compute")  # what may be refused comes first
SHARED, CONTROLS = ("plain", "longer", "informed"), "controls"  # arms of every method, and their folder
SHIPPED = Path(__file__).parent / "methods"
SCHEMA = 2
LONGER = 1.05  # times the seconds of plain tuning, from which a method has a control of the same compute
PATIENCE = 4  # times a method's bound, in which a control must end
MOST_SEEDS = 100
SHAPE: dict[str, type] = {
    "schema": int,
    "case": str,
    "arm": str,
    "seed": int,
    "key": str,
    "iid": float,
    "challenge": float,
    "development": float,
    "seconds": float,
    "steps": int,
    "parameters": int,
    "trained": int,
    "weights": str,
    "measures": dict,
}


@dataclass(frozen=True)
class Asked:
    """What is to be judged: a method's file, tasks, number of seeds, seconds that one training may take.

    on: None takes those that the file names in ON, as "shortcut,modules", or all.
    """

    method: Path
    on: tuple[str, ...] | None = None
    seeds: int = 5
    seconds: float = 600.0
    profile: str | None = None

    def __post_init__(self):
        text = named(self.method, "ON")
        meant = tuple(part.strip() for part in text.split(",")) if text else tuple(CASES)
        asked = meant if self.on is None else self.on
        for where, names in (("the ON of " + self.method.name, meant), ("--on", asked)):
            if unknown := set(names) - set(CASES):
                raise LabError(f"{where} names {min(unknown)!r}: choose among {','.join(CASES)}.")
        if other := set(asked) - set(meant):
            raise LabError(
                f"{self.method.name} is for {','.join(meant)}, as its ON says: leave {min(other)} out "
                "of --on."
            )
        object.__setattr__(self, "on", asked)
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise LabError(f"--seeds is {self.seeds}: give 1 to {MOST_SEEDS}, at least 5 for a verdict.")
        if not 0 < self.seconds < math.inf:
            raise LabError(
                f"--seconds is {self.seconds}: give the seconds that one training may take, above 0."
            )

    @property
    def name(self) -> str:
        """The method's name, that of its file."""
        return self.method.stem

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in the order of the course."""
        return tuple(name for name in CASES if name in (self.on or ()))


def named(path: Path, name: str) -> str:
    """The text that a file's first level gives a name, its docstring for "__doc__", "" where it has none.

    LabError where it gives the name what is no text.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # which the child process tells
        return ""
    if name == "__doc__":
        return ast.get_docstring(tree) or ""
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        if name in map(ast.unparse, node.targets if isinstance(node, ast.Assign) else [node.target]):
            value = getattr(node.value, "value", None)
            if not isinstance(node.value, ast.Constant) or not isinstance(value, str):
                raise LabError(f'the {name} of {path.name} is no text: write {name} = "shortcut,modules".')
            return value
    return ""


def method_file(given: str) -> Path:
    """The file of a method, or of one that ships, by its name; LabError for neither."""
    shipped = {file.stem: file for file in sorted(SHIPPED.glob("[!_]*.py"))}
    path = shipped.get(given, Path(given))
    if not path.is_file() or path.suffix != ".py" or path.stem == CONTROLS:
        raise LabError(
            f"{given!r} is no method: give a .py file with def build(base, task), or one of "
            f"{', '.join(shipped)}."
        )
    return path


def judge(
    asked: Asked,
    output: Path,
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int, str], None] = lambda done, total, note: None,
) -> dict:
    """Train what is missing of a method and its controls in `output`; the results by task, arm and seed.

    {task: {arm: {seed: record}}}; LabError for a method that is refused, FileError for a damaged file. The
    same call goes on where it was stopped; a file of another version of the method or the task is made again.
    """
    found: dict = {name: {arm: {} for arm in ARMS} for name in asked.tasks}
    with owned(output):
        source = _source(asked.method)
        total, done = len(asked.tasks) * len(ARMS) * asked.seeds, 0
        for name in asked.tasks:
            room = _Room(asked, case(name, asked.profile), output, source, say)
            for seed in range(asked.seeds):
                for arm in ORDER:
                    progress(done, total, f"{name}, {arm}, seed {seed}")
                    found[name][arm][seed] = room.same_names(arm, seed, room.record(arm, seed, found[name]))
                    done += 1
        progress(done, total, "done")
    return found


def _source(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(
            f"{shown(path)} cannot be read ({sentence(error)}): give a Python file in UTF-8."
        ) from error


@dataclass
class _Room:
    """Where one method is judged on one task."""

    asked: Asked
    case: Case
    output: Path
    source: str
    say: Callable[[str], None]
    measured: set[str] | None = None  # the names that the method's measure gave first

    @cached_property
    def contents(self) -> str:
        """A hash of what the case is made of."""
        case = self.case
        parts = [case.steps, case.learning_rate, case.batch_size]
        return short(json.dumps([*parts, case.train, case.development, case.iid, case.challenge]))

    def record(self, arm: str, seed: int, known: dict) -> dict:
        """The record of an arm's training, read or made; known: those of other arms, by seed."""
        steps = self.case.steps * (2 if arm == "longer" else 1)
        if arm == "compute":
            ratio = known["method"][seed]["seconds"] / max(known["plain"][seed]["seconds"], 1e-9)
            if ratio <= LONGER:
                return known["plain"][seed] | {"arm": arm}
            steps = math.ceil(ratio * self.case.steps)
        if arm == "placebo" and seed and alike(known["method"][0], known["placebo"][0]):
            return known["method"][seed] | {"arm": arm}
        own = self.source if arm in ("method", "placebo") else ""
        key = short(canonical([SCHEMA, arm, seed, steps, own, self.contents]))
        folder = CONTROLS if arm in SHARED else self.asked.name
        file = self.output / folder / f"{self.case.name}-{arm}-{seed}.json"
        there = read(file)
        if there and there["key"] == key:
            return there
        if there:
            self.say(f"{shown(file)} is of another version of the method or the task: it is made again")
        made = {"schema": SCHEMA, "case": self.case.name, "arm": arm, "seed": seed, "key": key}
        made |= self._trained(arm, seed, steps)
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomic(file, sealed(made))
        self.say(
            f"{self.case.name}, {arm}, seed {seed}: {made['iid']:.3f} i.i.d., {made['challenge']:.3f} in the "
            f"challenge, {made['seconds']:.0f} s"
        )
        return made

    def same_names(self, arm: str, seed: int, made: dict) -> dict:
        """The record; LabError for a method whose measures have other names than before."""
        names = set(made["measures"])
        if arm in ("method", "placebo") and self.measured is not None and names != self.measured:
            now, before = (", ".join(sorted(some)) or "nothing" for some in (names, self.measured))
            raise LabError(
                f"{self.asked.method.name}, on {self.case.name}, {arm}, seed {seed}: measure gave {now} and "
                f"before {before}: give the same names for each training; what was trained is kept."
            )
        self.measured = names if arm == "method" else self.measured
        return made

    def _trained(self, arm: str, seed: int, steps: int) -> dict:
        case, own = self.case, arm in ("method", "placebo")
        rows = {"informed": case.informed, "placebo": lambda: case.placebo(seed)}.get(
            arm, lambda: case.train
        )()
        request = request_of(case, self.asked.method if own else None, rows, steps, seed)
        tests = case.iid + case.challenge
        bound = self.asked.seconds * (1 if own else PATIENCE)
        told = trial(request, [row["prompt"] for row in tests], bound)
        if "refused" in told:
            who = self.asked.method.name if own else f"the control {arm}"
            raise LabError(
                f"{who}, on {case.name}, seed {seed}: {told['refused']}; what was trained is kept."
            )
        right = _right(told.pop("answers"), tests, _tokenizer(tuple(case.words)))
        n = len(case.iid)
        return told | {"iid": sum(right[:n]) / n, "challenge": sum(right[n:]) / len(case.challenge)}


def alike(one: dict, other: dict) -> bool:
    """Whether two trainings ended in the same state with the same scores."""
    return all(one[name] == other[name] for name in ("weights", "iid", "challenge"))


def request_of(case: Case, method: Path | None, train: list[dict], steps: int, seed: int) -> dict:
    """What a child process is told: no row of the tests. method None: plain tuning."""
    return {
        "method": None if method is None else str(method.resolve()),
        "tokenizer": _tokenizer(tuple(case.words)).backend_tokenizer.to_str(),
        "name": case.name,
        "label": case.label,
        "train": train,
        "development": case.development,
        "steps": steps,
        "batch_size": case.batch_size,
        "learning_rate": case.learning_rate,
        "seed": seed,
    }


@lru_cache(maxsize=4)
def _tokenizer(words: tuple[str, ...]):
    from ..text.systems import word_tokenizer

    return word_tokenizer(words)


def _right(answers: Sequence[Sequence[int]], tests: list[dict], tokenizer) -> list[bool]:
    """Whether each answer begins with its row's, the end included."""
    truth = tokenizer([row["answer"] for row in tests], add_special_tokens=False)["input_ids"]
    end = tokenizer.eos_token_id
    return [list(said[: len(t) + 1]) == [*t, end] for said, t in zip(answers, truth, strict=True)]


def trial(request: dict, prompts: list[str], seconds: float) -> dict:
    """What a child process tells of a training, its answers to the prompts among it, or {"refused": why}.

    The prompts are sent when the training is over; the child ends within `seconds` or is ended.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["causalnb.apps.court.child"])
    ours, theirs = context.Pipe()
    from .child import serve

    child = context.Process(target=serve, args=(theirs, request), daemon=True)
    child.start()
    theirs.close()
    end = time.monotonic() + seconds
    try:
        told: dict = {"trained": True}
        for message in (None, prompts):
            if message is not None:
                ours.send_bytes(json.dumps(message).encode())
            if not ours.poll(max(0.0, end - time.monotonic())):
                return {
                    "refused": f"it took more than {seconds:g} s, the bound of one training: make it faster, "
                    "or raise --seconds"
                }
            told = json.loads(ours.recv_bytes())
            if "refused" in told:
                return told
        return told
    except (EOFError, OSError, ValueError):
        child.join(5)
        return {"refused": f"its process ended by itself with code {child.exitcode}: let it return"}
    finally:
        child.kill()
        child.join(5)
        ours.close()


def read(file: Path) -> dict | None:
    """The record of a training, None if there is none; FileError for one that cannot be read."""
    try:
        return unsealed(parsed(file.read_bytes()), "training of the court", SHAPE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(file)} cannot be read ({sentence(error)}): restore or delete it.") from error
