"""Stored files are damaged, and whatever reads them is asked."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from unittest import mock

from causalnb.lab import codebase, manifest, registry, training, weights
from causalnb.tasks import files, scan
from tests.attack.course import SOURCE, Course
from tests.attack.damage import ANY, JSON, TEXT, damaged
from tests.attack.tries import Kind, Seen, Try, seen

LIST = ("list", "--source", SOURCE, "--extras")


def spoiled(file: Path, data: bytes, work: Callable[[], Seen], restore: Callable[[], object]) -> Seen:
    """What `work` gives while a file holds other data."""
    file.unlink()
    file.write_bytes(data)
    try:
        return work()
    finally:
        restore()


def of_course(patterns: tuple[str, ...], ways, commands: Callable) -> Callable:
    """Tries that damage the files of a course that fit the patterns.

    commands(random, course, file) gives command lines, and what else a refusal may name.
    """

    def tries(random: Random, folder: Path) -> Iterator[Try]:
        course = Course(folder)
        found = [file for file in course.files(*patterns) if file.stat().st_size]
        usual = cache(lambda *lines: restored(course, lambda: course.each(lines)))
        while True:
            file = random.choice(found)
            how, data = damaged(random, course.before[file][0], ways)
            lines, names = commands(random, course, file)
            name = (
                f"{how} {course.shown(file)}; causalnb {'; causalnb '.join(' '.join(line) for line in lines)}"
            )
            yield Try(
                name,
                lambda: spoiled(file, data, lambda: course.each(lines), course.restore),  # noqa: B023
                lambda: usual(*lines),  # noqa: B023
                (course.shown(file), *names),
            )

    return tries


def restored(course: Course, work: Callable[[], Seen]) -> Seen:
    """What `work` gives, and the course as it was before."""
    try:
        return work()
    finally:
        course.restore()


def _artefacts(experiment: str) -> list[str]:
    return [a.id for a in registry.artefacts(extras=True) if a.build and experiment in a.needs]


def of_results(random: Random, course: Course, file: Path):
    """Commands that read a result."""
    experiment = file.parts[-3]
    tables = [("tables", id, "--out", str(course.home / "out")) for id in _artefacts(experiment)]
    lines = [("run", experiment, "--dry-run"), ("run", experiment), LIST, *tables]
    return (random.choice(lines),), ()


def of_probes(random: Random, course: Course, file: Path):
    """Commands that read a probe."""
    experiment = file.parts[-2]
    return (random.choice([("verify", experiment, "--dry-run"), ("run", experiment, "--dry-run"), LIST]),), ()


def of_manifest(random: Random, course: Course, file: Path):
    """Commands that read the manifest, and one that writes it."""
    strict = [(*LIST, "--strict"), ("list", "--source", SOURCE, "--json", "--strict")]
    return (random.choice([*strict, ("tables", f"{SOURCE}.table2")]),), ("changed after it was made",)


def of_artefacts(random: Random, course: Course, file: Path):
    """Does `list` see that a file of an artefact is another one."""
    return ((*LIST, "--strict"),), (f"{SOURCE}/{file.name} ",)


def of_printed(random: Random, course: Course, file: Path):
    """Does `list` see that a printed number is another one, where a table reads it: others do not change."""
    id = random.choice([a.id for a in registry.artefacts(extras=True) if a.source == SOURCE and a.build])
    tables = ("tables", id, "--out", str(course.home / "out"))
    if any(read.split()[0] == file.name for read in manifest.entries()[id]["paper"]):
        return ((*LIST, "--strict"), tables), (f"{id}\tstale",)
    return (tables,), ()


def of_weights(random: Random, folder: Path) -> Iterator[Try]:
    """Small models in one file, and the sha256 beside it."""
    model, file = tiny_model(), folder / "model.safetensors"
    weights.save_weights(model, file)
    kept = {place: place.read_bytes() for place in (file, folder / f"{file.name}.sha256")}

    def load():
        state = weights.load_weights(tiny_model(), file, "causalnb run x").state_dict()
        return {name: value.tolist() for name, value in state.items()}

    usual = cache(lambda: seen(load))
    while True:
        place = random.choice([*kept])
        how, data = damaged(random, kept[place])
        yield Try(
            f"{how} {place.name}; lab.weights.load_weights",
            lambda: spoiled(place, data, lambda: seen(load), lambda: restore(kept)),  # noqa: B023
            usual,
            (file.name,),
        )


def restore(kept: dict[Path, bytes]) -> None:
    """Write files as they were."""
    for file, data in kept.items():
        file.unlink(missing_ok=True)
        file.write_bytes(data)


def tiny_model():
    """A decoder of a layer, 4 wide, always the same."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=8, max_position_embeddings=8, **sizes))


def tiny_training(folder: Path, stop: int | None = None) -> list:
    """The history of six steps, with a checkpoint after every other; `stop` ends it after so many."""
    import torch

    rows = [
        {"input_ids": [1, 2, 3 + n], "prompt_mask": [1, 0, 0], "labels": [-100, 2, 3 + n]} for n in range(4)
    ]
    settings = training.TrainingSettings(steps=6, learning_rate=0.01, evaluate_every=2)

    def progress(done, *_):
        if done == stop:
            raise KeyboardInterrupt

    def size(model):
        return {"size": sum(float(p.detach().double().abs().sum()) for p in model.parameters())}

    torch.manual_seed(0)
    collate = training.PromptAnswerCollator(0)
    return training.train(tiny_model(), rows, collate, [[0, 1], [2, 3]] * 3, settings, folder, size, progress)


def of_checkpoints(random: Random, folder: Path) -> Iterator[Try]:
    """The newest checkpoint of an interrupted training, which goes on from it."""
    stopped, place = folder / "stopped", folder / "run"
    try:
        tiny_training(stopped, stop=5)
    except KeyboardInterrupt:
        pass
    names = sorted(str(file.relative_to(stopped)) for file in stopped.rglob("*") if file.is_file())

    def resume(name: str = "", data: bytes | None = None) -> Seen:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(stopped, place)
        if name:
            (place / name).unlink()
            if data is not None:
                (place / name).write_bytes(data)
        return seen(lambda: tiny_training(place))

    usual = cache(resume)
    while True:
        name = random.choice(names)
        how, data = damaged(random, (stopped / name).read_bytes(), JSON if name.endswith("json") else ANY)
        if random.random() < 0.1:
            how, data = "remove", None
        yield Try(
            f"{how} {name}; lab.training.train",
            lambda: resume(name, data),  # noqa: B023
            usual,
            (Path(name).name, Path(name).parent.name),
        )


def few(split: Callable) -> Callable:
    """SCAN with 400 training rows and 40 test rows, short ones."""

    def small(name, seed=None):
        train, test = (sorted(set(part), key=lambda pair: (len(pair[1]), pair)) for part in split(name, seed))
        return train[:400], test[:40]

    return small


def of_trained(random: Random, folder: Path) -> Iterator[Try]:
    """What `causalnb train sci` saved, for `causalnb evaluate sci`."""
    from causalnb.apps import sci

    os.environ |= {"ACCELERATE_USE_CPU": "true", "TRANSFORMERS_VERBOSITY": "error"}
    course, place = Course(folder), folder / "course" / "trained"
    with mock.patch.object(scan, "split", few(scan.split)):
        sci.train_sci(sci.Settings("tiny:1", max_steps=2, batch_size=10, n_structural_slots=2), place)
        course.keep()
        words = ("evaluate", "sci", "--checkpoint", str(place), "--rows", "8", "--decoded", "2", "--json")
        usual = cache(lambda: course.ask(*words))

        while True:
            file = random.choice(course.files("trained/**/*"))
            content = course.before[file][0]
            how, data = damaged(random, content, JSON if file.suffix == ".json" else ANY)
            yield Try(
                f"{how} {course.shown(file)}; causalnb evaluate sci",
                lambda: spoiled(file, data, lambda: course.ask(*words), course.restore),  # noqa: B023
                usual,
                (file.name,),
            )


def of_downloads(random: Random, folder: Path) -> Iterator[Try]:
    """Files of a mirror, plain and gzipped."""
    import gzip
    from hashlib import sha256

    os.environ |= {"CAUSALNB_DATA": str(folder), "CAUSALNB_OFFLINE": "1"}
    text = "".join(json.dumps({"row": n, "words": "a b c"}) + "\n" for n in range(50)).encode()
    plain, packed = folder / "toy" / "plain.jsonl", folder / "toy" / "packed.jsonl.gz"
    kept = {plain: text, packed: gzip.compress(text, mtime=0)}
    plain.parent.mkdir()
    restore(kept)
    rows = {
        f"toy/{n}.jsonl": files.File(f"toy/{n}.jsonl", "", sha256(text).hexdigest(), "none")
        for n in ("plain", "packed")
    }
    with mock.patch.dict(files.REGISTRY, rows):
        while True:
            place = random.choice([*kept])
            name = f"toy/{place.name.removesuffix('.gz')}"
            how, data = damaged(random, kept[place])

            def read(name=name) -> Seen:
                return seen(lambda: files.read(name))

            yield Try(
                f"{how} {place.name}; tasks.files.read",
                lambda: spoiled(place, data, read, lambda: restore(kept)),  # noqa: B023
                read,
                (place.name,),
            )


def of_annotations(random: Random, folder: Path) -> Iterator[Try]:
    """What a teacher's replies were made to."""
    from causalnb.c2dlm import teacher

    reply = teacher.RuleTeacher(lambda question, answer: {answer: [question]})
    items = [(f"Question {n}, çok güzel?", f"Answer {n}.") for n in range(6)]
    file = folder / "annotations.jsonl"
    teacher.save_annotations(teacher.annotate(reply, items), file)
    kept = {file: file.read_bytes()}

    def load() -> Seen:
        return seen(lambda: teacher.load_annotations(file))

    while True:
        how, data = damaged(random, kept[file], TEXT)
        if random.random() < 0.2:
            lines = kept[file].splitlines(keepends=True)
            gone = random.randrange(len(lines))
            how, data = f"remove line {gone + 1} of", b"".join(lines[:gone] + lines[gone + 1 :])
        yield Try(
            f"{how} {file.name}; c2dlm.load_annotations",
            lambda: spoiled(file, data, load, lambda: restore(kept)),  # noqa: B023
            load,
            (file.name,),
        )


def of_caches(random: Random, folder: Path) -> Iterator[Try]:
    """What is kept to be faster: made again where it is damaged."""
    from causalnb.cli.course import Schedule

    os.environ["CAUSALNB_CACHE"] = str(folder)
    codebase.index.cache_clear()
    codebase.index()
    schedule = Schedule("laptop", {"a": 1.0, "b": 2.0})
    schedule.starts("a")
    schedule.ends(3.0)
    kept = {file: file.read_bytes() for file in sorted(folder.rglob("*.json"))}

    def read() -> Seen:
        codebase.index.cache_clear()
        numbers = [*map(float, Schedule("laptop", {"a": 1.0, "b": 2.0}).left.values())]
        return Seen([json.dumps(codebase.index().names), all(0 <= number < 1e9 for number in numbers)])

    while True:
        file = random.choice([*kept])
        how, data = damaged(random, kept[file], JSON)
        yield Try(
            f"{how} {file.name}",
            lambda: spoiled(file, data, read, lambda: restore(kept)),  # noqa: B023
            read,
            (file.name,),
        )


KINDS = (
    Kind("results", of_course(("data/results/**/*.json",), JSON, of_results), 400, 2),
    Kind("probes", of_course(("data/probes/**/*.json",), JSON, of_probes), 150, 3),
    Kind("manifest", of_course(("figures/manifest.json",), JSON, of_manifest), 100, 3),
    Kind("artefact files", of_course((f"figures/{SOURCE}/*",), ANY, of_artefacts), 60, 1),
    Kind("printed numbers", of_course(("data/paper/*.csv",), TEXT, of_printed), 100, 0),
    Kind("weights", of_weights, 200, 10),
    Kind("checkpoints", of_checkpoints, 80, 1),
    Kind("trained folder", of_trained, 100, 1),
    Kind("data files", of_downloads, 200, 10),
    Kind("caches", of_caches, 40, 0),
    Kind("annotations", of_annotations, 300, 10),
)
