"""Tasks: a file each, with a generator and a loader of the real files. They know no model."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from causalnb.errors import DataError

if TYPE_CHECKING:
    from datasets import DatasetDict

NAMES = (
    "scan",
    "english",
    "cot_order_perturb",
    "dag_chains",
    "sudoku4",
    "stg",
    "reasoning",
    "acre",
    "raven",
    "pvr",
    "arc",
    "overlap",
    "paraphrase",
    "snli",
    "fact_check",
    "translation",
    "fan_in",
)


ON_THE_HUB = {
    "overlap": ("hans",),
    "paraphrase": ("qqp", "paws_wiki"),
    "snli": ("snli_full", "mnli_full"),
    "translation": ("wmt14", "wmt16"),
}


def load(name: str, path: str | Path | Mapping[str, str | Path] | None = None, **options) -> DatasetDict:
    """Data of a task of NAMES, with the options of its own loader; or of a file that you have, at `path`.

    path, or {part: path}, is for sentence pairs: see pair_files. DataError on an unknown name or option, and
    where a source of the hub cannot be had.
    """
    if name not in NAMES:
        raise DataError(f"Unknown task {name!r}; choose one of {', '.join(NAMES)}.")
    if path is not None:
        if options:
            raise DataError(f"A file at path is read as it is: leave {', '.join(options)} out.")
        return import_module("causalnb.tasks.pair_files").from_files(name, path)
    loader = import_module(f"causalnb.tasks.{name}").load
    known = inspect.signature(loader).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        raise DataError(f"Task {name!r} has no option {unknown[0]!r}; it has {', '.join(known)}.")
    if (source := options.get("source")) in ON_THE_HUB.get(name, ()):
        return _from_hub(lambda: loader(**options), name, source)
    return loader(**options)


def _from_hub(loader: Callable[[], DatasetDict], name: str, source: str) -> DatasetDict:
    instead = "choose another source" if name == "translation" else "give path= if you have its files"
    if os.environ.get("CAUSALNB_OFFLINE", "0") not in ("", "0"):
        raise DataError(
            f"{source!r} is on the hub and CAUSALNB_OFFLINE forbids the download: unset it, or {instead}."
        )
    try:
        return loader()
    except (OSError, RuntimeError) as error:  # no network, no such data set, or one that needs a script
        raise DataError(
            f"{source!r} cannot be had from the hub ({' '.join(str(error).split())[:120]}): go "
            f"online, or {instead}."
        ) from None
