"""What was made of a plan in one file, for a machine that goes on from there or keeps it.

    results/laptop/sci.scan/plain/seed0.json      and probes/
    models/laptop/sci.scan.plain.safetensors      adapters that an arm keeps, their sha256 beside
    runs/laptop/sci.scan/plain/seed1-.../         the last checkpoints of a run that is not done

`causalnb.lab.merging` reads it.
"""

import gzip
import os
import re
import shutil
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from causalnb.errors import FileError, LabError
from causalnb.lab import adapters, files, probes, profiles, results, runner, weights
from causalnb.paths import shown

ENDINGS = (".tar.gz", ".tgz")
SUMS = "checksums.json"  # of a checkpoint, as `lab.training` writes it
LARGEST = 64 * 2**20  # bytes of a file that is no part of a checkpoint
PART = r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*"  # of a name; none leads out of a folder
RESULT = re.compile(rf"(results|probes)(/{PART})+\.json")
ADAPTER = re.compile(rf"models/{PART}/{PART}\.safetensors(\.sha256)?")
OF_CHECKPOINT = (  # JSON, safetensors, and what the Trainer reads as tensors and numbers alone
    r"(checksums|config|generation_config|trainer_state)\.json|model(-\d{5}-of-\d{5})?\.safetensors|"
    r"model\.safetensors\.index\.json|(optimizer|scheduler|scaler)\.pt|rng_state(_\d+)?\.pth|"
    r"training_args\.bin"  # which nothing reads
)
RUN = re.compile(
    rf"(runs/{PART}/{PART}/{PART}/seed\d{{1,9}}-[0-9a-f]+-[0-9a-f]+)/"
    rf"(seconds\.json|({PART}/)*checkpoint-\d{{1,9}}/({OF_CHECKPOINT}))"
)
CHUNK = 2**20


def check(file: Path) -> None:
    """LabError for a path at which no archive can be written."""
    if not file.name.endswith(ENDINGS) or file.name in ENDINGS:
        raise LabError(f"the archive is {str(file)!r}: give a name that ends in {ENDINGS[0]}.")
    if not file.parent.is_dir() or file.is_dir():
        raise LabError(f"{shown(file)} cannot be an archive: give a file in a folder that is there.")


def pack(
    planned: Iterable[runner.Job], file: Path, profile: str | None = None
) -> tuple[dict[str, int], list[str]]:
    """Write an archive of what is there of a plan; (how many of each kind, sentences on what is left out).

    Results that are fresh or unverified, with their probes and adapters, and of what is not done yet the
    last checkpoints. The same content gives the same bytes. LabError where it cannot be written.
    """
    scale, counts, left = profiles.current(profile), Counter(), []
    arms: dict[tuple[str, str], None] = {}
    with _written(file) as tar:
        for job in planned:
            if results.state(*job[:3], scale.name)[0] in results.USABLE:
                place = results.path(*job[:3], scale.name)
                _add(tar, place, f"results/{scale.name}/{job.experiment}/{job.arm}/{place.name}")
                arms[job.experiment, job.arm] = None
                counts["results"] += 1
                continue
            try:
                counts["unfinished runs"] += _add_run(tar, job, scale.name)
            except LabError as error:
                left.append(f"{job} is not in the archive: {error}")
        for experiment, arm in arms:
            probe, kept = probes.path(experiment, arm), adapters.file_of(experiment, arm, scale.name)
            if scale.name == probes.PROFILE and probe.is_file():
                _add(tar, probe, f"probes/{scale.name}/{experiment}/{probe.name}")
                counts["probes"] += 1
            if kept.is_file():
                for part in (kept, kept.with_name(f"{kept.name}.sha256")):
                    _add(tar, part, f"models/{scale.name}/{part.name}")
                counts["adapters"] += 1
    return {kind: number for kind, number in counts.items() if number}, left


@contextmanager
def _written(file: Path) -> Iterator[tarfile.TarFile]:
    """An archive to add to, which is at its place when the block is done, or what was there before is."""
    temporary = file.with_name(f".{file.name}.tmp")
    busy = f"another command is writing {shown(file)}: wait for it or give another name."
    with files.lock(file, busy):
        try:
            with open(temporary, "wb") as out:
                with (
                    gzip.GzipFile("", "wb", compresslevel=1, fileobj=out, mtime=0) as packed,
                    tarfile.open(fileobj=packed, mode="w|") as tar,
                ):
                    yield tar
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, file)
        except OSError as error:
            raise files.disk_error(file, error) from error
        finally:
            temporary.unlink(missing_ok=True)


def _add(tar: tarfile.TarFile, place: Path, name: str) -> None:
    with open(place, "rb") as source:
        member = tarfile.TarInfo(name)
        member.size = os.fstat(source.fileno()).st_size
        tar.addfile(member, source)


def _add_run(tar: tarfile.TarFile, job: runner.Job, profile: str) -> bool:
    """Add the last checkpoints of a run, if it has any; LabError where one is damaged, or being written."""
    folder = runner.checkpoints(*job[:3], profile)
    if not runner.newest(folder):
        return False
    with runner.held(*job[:3], profile, wait=1.0):
        places = [place / name for place in runner.newest(folder) for name in sorted(_named(place))]
        if (clock := folder / runner.CLOCK).is_file():
            places.append(clock)
        names = [
            f"runs/{profile}/{job.experiment}/{place.relative_to(folder.parents[1])}" for place in places
        ]
        if unknown := [name for name in names if not RUN.fullmatch(name)]:
            raise LabError(f"{unknown[0]} is no part of a checkpoint that is known here.")
        for place, name in zip(places, names, strict=True):
            _add(tar, place, name)
    return True


def _named(checkpoint: Path) -> set[str]:
    """The names of a checkpoint's files; LabError unless they are as they were written, and all."""
    try:
        named = files.check_sums(checkpoint, SUMS) | {SUMS}
    except (OSError, ValueError) as error:
        raise LabError(f"a checkpoint is damaged ({error}).") from error
    if more := {str(at.relative_to(checkpoint)) for at in checkpoint.rglob("*") if at.is_file()} - named:
        raise LabError(f"{SUMS} of a checkpoint does not name {min(more)}.")
    return named


def steps(folder: Path) -> int:
    """How far a run is: the steps of its last checkpoints; LabError unless all are as they were written."""
    found = runner.newest(folder)
    for checkpoint in found:
        _named(checkpoint)
    return sum(found.values())


def adapter(file: Path) -> bytes:
    """The content of adapters; LabError where they are not what was written, or no tensors."""
    from safetensors import SafetensorError, safe_open

    if not file.is_file() or not (sums := weights.digest(file)) or files.digest(file) != sums:
        raise LabError(f"its sha256 is not the one in {file.name}.sha256.")
    try:
        with safe_open(file, "numpy"):
            return file.read_bytes()
    except SafetensorError as error:
        raise LabError(f"it holds no tensors ({error}).") from error


def unpack(file: Path, folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Write what an archive holds into an empty folder: names of its files; (name, why) of what is refused.

    A name alone decides what a file is. FileError for what is no archive, or is cut off or damaged.
    """
    found, refused = [], []
    try:
        with gzip.open(file) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for member in tar:
                    name = member.name.removeprefix("./")
                    if why := _unfit(member, name, found):
                        refused.append((member.name, why))
                    elif not member.isdir():
                        _extract(tar, member, folder / name)
                        found.append(name)
            while stream.read(CHUNK):  # to its own checksum
                continue
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(
            f"{shown(file)} is no archive of `causalnb run`, or is cut off ({error}): bring it anew."
        ) from error
    except OSError as error:
        raise files.disk_error(folder, error) from error
    return found, refused


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    source: BinaryIO = tar.extractfile(member)  # type: ignore[assignment]
    with source, open(place, "xb") as target:
        shutil.copyfileobj(source, target, CHUNK)


def _unfit(member: tarfile.TarInfo, name: str, found: list[str]) -> str:
    """Why a member of an archive is not taken out of it, "" if it is."""
    parts = name.split("/")
    if name.startswith(("/", "\\")) or ".." in parts or re.match("[A-Za-z]:", name):
        return "its name leads out of the archive"
    if member.isdir():
        return ""
    if not member.isreg() or member.issparse():
        return "it is a link, or no plain file"
    if not (RESULT.fullmatch(name) or ADAPTER.fullmatch(name) or RUN.fullmatch(name)):
        return "it is nothing that a run leaves"
    if member.size > LARGEST and (not RUN.fullmatch(name) or name.endswith(".json")):
        return f"it is larger than {LARGEST >> 20} MiB"
    return "it comes twice" if name in found else ""
