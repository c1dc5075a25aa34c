"""Work is killed, or its disk is full, at any call that writes; again, it has to end as if undisturbed."""

import errno
import gc
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from unittest import mock

from causalnb.lab import building, codebase, probes, registry, runner, weights
from causalnb.tasks import scan
from tests.attack.course import Course
from tests.attack.stored import few, tiny_model, tiny_training
from tests.attack.tries import Kind, Seen, Try, seen

EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
REMOVING = {"os.remove", "os.rmdir"}  # which a full disk allows
SIZES = (0, 1, 100, 1000, 3000, 10_000, 30_000)
VARYING = {"wall_seconds", "cpu_seconds", "date", "checksum", "seconds", "git"}
LATER = 0.05, 1.2  # when a process is killed, in shares of the time it takes


@dataclass(frozen=True)
class Scenario:
    """Work on a folder that `prepare` fills, once; all files below it are compared afterwards.

    A refusal has to hold one of `names`.
    """

    name: str
    prepare: Callable[[Path], None]
    work: Callable[[Path], object]
    names: tuple[str, ...]


def watch(act: Callable[[str, tuple], None], first: int, last: float, frees: bool = True) -> list[int]:
    """From here on act(event, its arguments) precedes events number `first` to `last` that write; [count].

    frees=False leaves out those that remove. For a process of its own: there is no way back.
    """
    count, acting = [0], False

    def hook(event: str, given: tuple) -> None:
        nonlocal acting
        if event == "open":
            path, _, flags = given
            writes = not isinstance(path, int) and isinstance(flags, int) and flags & WRITING
            if not writes or str(path).startswith("/dev/"):
                return
        elif event not in EVENTS or event in REMOVING and not frees:
            return
        if acting:
            return
        count[0] += 1
        if first <= count[0] <= last:
            acting = True
            try:
                act(event, given)
            finally:
                acting = False

    sys.addaudithook(hook)
    return count


def kill(event: str, given: tuple) -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def open_and_kill(event: str, given: tuple) -> None:
    """The same, just after a file was opened."""
    if event == "open":
        os.close(os.open(given[0], given[2], 0o644))
    kill(event, given)


def full(event: str, given: tuple) -> None:
    """What a full disk says."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(given[0]))


def limit(size: int, deadly: bool) -> None:
    """No file may grow beyond a size: an error, or the end of the process in the middle of a write."""
    if deadly:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def forked(
    work: Callable[[], object], prepare: Callable[[], object] = lambda: None, after: float = 0
) -> Seen:
    """What work() gives in a process of its own, after prepare() there; it is killed `after` seconds."""
    ours, theirs = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    pid = os.fork()
    if not pid:
        try:
            os.close(ours)
            for standard in (1, 2):
                os.dup2(nothing, standard)
            given = prepare()
            came = seen(work)
            counted = given[0] if isinstance(given, list) else 0
            os.write(theirs, json.dumps([counted, came.told, came.refused, came.raw]).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    os.close(nothing)
    late = threading.Timer(after, os.kill, (pid, signal.SIGKILL))
    if after:
        late.start()
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.read()
    late.cancel()
    os.waitpid(pid, 0)
    counted, told, refused, raw = json.loads(said) if said else (0, "", False, "")
    return Seen(counted, told, refused, raw)


def plain(file: Path):
    """The content of a file, without what differs from run to run."""
    data = file.read_bytes()
    if file.suffix == ".json" and data[:1] == b"{":
        try:
            return {name: value for name, value in json.loads(data).items() if name not in VARYING}
        except ValueError:
            pass
    return data


def left(folder: Path) -> dict:
    """{name: content} of what work leaves, without locks."""
    return {
        str(file.relative_to(folder)): plain(file)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.endswith(".lock")
    }


def other(one: dict, two: dict) -> str:
    """The first name whose content differs, "" where all agree."""
    for name in sorted({*one, *two}):
        if one.get(name) != two.get(name):
            kind = "gone" if name not in two else "left behind" if name not in one else "another"
            return f"{name} is {kind}: {str(two.get(name))[:200]}"
    return ""


@dataclass
class Prepared:
    """A scenario: how the folder was and is in the end, how many calls write, and the seconds it takes."""

    scenario: Scenario
    home: Path
    start: Path
    before: dict
    after: dict
    calls: int
    seconds: float


def prepared(scenario: Scenario, folder: Path) -> Prepared:
    """The scenario, done once undisturbed."""
    home, start = folder / "home", folder / f"start of {scenario.name}"
    home.mkdir(exist_ok=True)
    shutil.rmtree(home)
    home.mkdir()
    came = forked(partial(scenario.prepare, home))
    if came.raw or came.refused:
        raise RuntimeError(f"{scenario.name} cannot be prepared: {came}")
    shutil.copytree(home, start)
    before, since = left(home), time.monotonic()
    came = forked(partial(scenario.work, home), partial(watch, kill, 1, 0))
    seconds = time.monotonic() - since
    if came.raw or came.refused:
        raise RuntimeError(f"{scenario.name} does not work undisturbed: {came}")
    return Prepared(scenario, home, start, before, left(home), came.value, seconds)


def disturbed(one: Prepared, disturb: Callable[[], object], after: float = 0) -> Seen:
    """What the work says while disturbed; then it is done again, and compared with the undisturbed one."""
    shutil.rmtree(one.home)
    shutil.copytree(one.start, one.home)
    first = forked(partial(one.scenario.work, one.home), disturb, after)
    between = left(one.home)
    lost = [name for name in one.before if between.get(name) not in (one.before[name], one.after.get(name))]
    if lost:
        return Seen(f"{lost[0]} is lost, or half of it is there: {str(between.get(lost[0]))[:200]}")
    again = forked(partial(one.scenario.work, one.home))
    if again.raw or again.refused:
        return Seen(raw=f"the same again: {again.raw or again.told}")
    if difference := other(one.after, left(one.home)):
        return Seen(difference)
    return Seen("as ever", first.told, first.refused, first.raw)


def each_scenario(scenarios, disturbances: Callable) -> Callable:
    """Tries of a kind; disturbances(random, prepared) gives what is done, how, and after how long."""

    def tries(random: Random, folder: Path) -> Iterator[Try]:
        os.environ |= {
            "CAUSALNB_PROFILE": "laptop",
            "CAUSALNB_HOME": str(folder / "home"),
            "ACCELERATE_USE_CPU": "1",
        }
        for name in ("RESULTS", "FIGURES", "CACHE", "PROBES", "DATA"):
            os.environ.pop(f"CAUSALNB_{name}", None)
        warm()
        known: dict[str, Prepared] = {}
        while True:
            scenario = random.choice(scenarios)
            one = known.get(scenario.name) or known.setdefault(scenario.name, prepared(scenario, folder))
            how, disturb, after = disturbances(random, one)
            yield Try(
                f"{scenario.name}: {how}",
                partial(disturbed, one, disturb, after),
                lambda: Seen("as ever"),
                (*scenario.names, str(one.home)),
            )

    return tries


def killed(random: Random, one: Prepared):
    """Killed before or within a call that writes, or at some moment."""
    way = random.randrange(4)
    if way == 0:
        after = random.uniform(*LATER) * one.seconds
        return f"kill after {after:.3f} s", lambda: None, after
    if way == 1:
        size = random.choice(SIZES)
        return f"kill where a file grows beyond {size} bytes", partial(limit, size, True), 0
    number, act = random.randint(1, one.calls), kill if way == 2 else open_and_kill
    when = "before" if way == 2 else "just after"
    return f"kill {when} call {number} of {one.calls} that write", partial(watch, act, number, number), 0


def full_disk(random: Random, one: Prepared):
    """No room from a call on, for one call, or for files beyond a size."""
    if random.random() < 0.3:
        size = random.choice(SIZES)
        return f"no file above {size} bytes", partial(limit, size, False), 0
    number, alone = random.randint(1, one.calls), random.random() < 0.5
    last = number if alone else float("inf")
    said = f"no room at call {number}{' alone' * alone} of {one.calls} that write"
    return said, partial(watch, full, number, last, False), 0


# the work


def warm() -> None:
    """Once, before processes are forked: what all of them import and read."""
    import seaborn  # noqa: F401
    import transformers.trainer  # noqa: F401

    import causalnb.apps.sci  # noqa: F401
    import causalnb.c2dlm  # noqa: F401
    import causalnb.sci  # noqa: F401

    registry.load_all()
    codebase.index(), codebase.current(), scan.split("length")
    gc.collect()
    gc.freeze()  # or each process would look at all of it again, and copy it


def run_toy(seed: int, home: Path) -> None:
    """Make a result of six steps; only the process of its own knows the experiment."""

    def run(run):
        history = tiny_training(run.folder)
        return {"metrics": {"": {"size": history[-1]["size"]}}, "history": history}

    registry.register(
        registry.Experiment(
            "attack.toy", "six steps", {"one": {}}, {"laptop": {"x": 1}}, {"laptop": 2}, run, {"laptop": 1.0}
        )
    )
    runner.execute("attack.toy", "one", seed)


def stored_course(home: Path) -> None:
    """What is stored, with files of an artefact that are older than its results."""
    (home.parent / "stored").mkdir()
    Course(home.parent / "stored")
    needs = registry.find("sci.table2").needs
    for name in ("data", "figures", "pyproject.toml"):
        os.rename(home.parent / "stored" / "course" / name, home / name)
    for place in home.glob("data/*/laptop/*"):
        if place.name not in needs:
            shutil.rmtree(place)
    for file in (home / "figures" / "sci").glob("table2.*"):
        file.write_text("as it was before\n", encoding="utf-8")


def build(home: Path) -> None:
    """Make the files of an artefact."""
    building.build("sci.table2", "laptop")


def annotations(count: int, home: Path) -> None:
    """Annotate some items and save what came."""
    from causalnb.c2dlm import teacher

    reply = teacher.RuleTeacher(lambda question, answer: {answer: [question]})
    items = [(f"Question {n}?", f"Answer {n}.") for n in range(count)]
    try:
        teacher.save_annotations(teacher.annotate(reply, items), home / "annotations.jsonl")
    except OSError as error:  # a room says what Python says, which names the file
        raise ValueError(str(error)) from error


def save_weights(words: int, home: Path) -> None:
    """Save a model's weights, of one size or another."""
    import torch

    model = tiny_model()
    with torch.no_grad():
        model.lm_head.weight.fill_(words)
    weights.save_weights(model, home / "model.safetensors")


def write_probe(number: int, home: Path) -> None:
    """Store a probe."""
    record = dict.fromkeys(probes.FIELDS, number) | {"experiment": "attack.toy", "arm": "one"}
    probes.write(record)


def train_sci(home: Path) -> None:
    """The quick start, two steps of it."""
    from causalnb.apps import sci

    settings = sci.Settings("tiny:1", max_steps=2, evaluate_every=1, batch_size=10, n_structural_slots=2)
    with mock.patch.object(scan, "split", few(scan.split)):
        sci.train_sci(settings, home / "trained")


SCENARIOS = (
    Scenario("a run", partial(run_toy, 1), partial(run_toy, 0), ("data/",)),
    Scenario("a build", stored_course, build, ("figures/", "data/")),
    Scenario("annotations", partial(annotations, 3), partial(annotations, 4), ("annotations.jsonl",)),
    Scenario("weights", partial(save_weights, 1), partial(save_weights, 2), ("model.safetensors",)),
    Scenario("a probe", partial(write_probe, 1), partial(write_probe, 2), ("data/probes",)),
    Scenario("train sci", lambda home: None, train_sci, ("trained", "data/")),
)

KINDS = (
    Kind("kills", each_scenario(SCENARIOS, killed), 300, 3),
    Kind("full disk", each_scenario(SCENARIOS, full_disk), 200, 3),
)
