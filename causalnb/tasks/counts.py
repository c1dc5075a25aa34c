"""How many: numbers of rows and the like, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from numbers import Integral
from typing import ParamSpec, TypeVar

from causalnb.errors import DataError

P = ParamSpec("P")
R = TypeVar("R")


def _is_seed(seed: object, default: object) -> bool:
    if isinstance(seed, bool | float):
        return False  # unprobed: it is refused
    return int(seed) >= 0 if isinstance(seed, Integral) else seed is not None or default is None


def counted(**least: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates what draws rows: DataError for an argument that is no whole number from `least` on.

    None stands for all where it is the default. So does a seed have to be one, 0 or more; but a text, a list
    or a generator is taken as it is, as tasks that are made of other tasks give it.
    """

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        parameters = signature(make)  # unprobed: at import, before a probe looks

        @wraps(make)
        def checked(*values: P.args, **named: P.kwargs) -> R:
            given = parameters.bind(*values, **named).arguments
            for name in least.keys() & given.keys():
                value = given[name]
                whole = (
                    isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least[name]
                )
                if not whole and (value is not None or parameters.parameters[name].default is not None):
                    raise DataError(f"{name} is {value!r}: give a whole number, {least[name]} or more.")
            if "seed" in given and not _is_seed(given["seed"], parameters.parameters["seed"].default):
                raise DataError(f"seed is {given['seed']!r}: give a whole number, 0 or more.")
            return make(*values, **named)

        return checked  # unprobed: at import

    return decorate  # unprobed: at import
