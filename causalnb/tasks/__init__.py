"""Tasks: a file each, with a generator and a loader of the real files. They know no model."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING

from causalnb.errors import DataError

if TYPE_CHECKING:
    from datasets import DatasetDict

NAMES = ("scan", "english", "cot_order_perturb", "sudoku4", "stg", "reasoning", "acre", "raven", "pvr", "arc",
         "overlap", "paraphrase", "snli", "fact_check", "translation")


def load(name: str, **options) -> DatasetDict:
    """Data of a task of NAMES, with the options of its own load(); DataError on an unknown name or option."""
    if name not in NAMES:
        raise DataError(f"Unknown task {name!r}; choose one of {', '.join(NAMES)}.")
    loader = import_module(f"causalnb.tasks.{name}").load
    known = inspect.signature(loader).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        raise DataError(f"Task {name!r} has no option {unknown[0]!r}; it has {', '.join(known)}.")
    return loader(**options)
