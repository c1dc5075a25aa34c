"""Profiles change values (sizes, steps, seeds, device), never the code path."""

import os
from dataclasses import dataclass
from math import inf

from causalnb.errors import LabError


@dataclass(frozen=True)
class Profile:
    """How big a run is; `live_seconds`: the core-seconds a notebook may train without being asked."""

    name: str
    purpose: str
    device: str
    jobs: int
    live_seconds: float = 60.0
    progress: bool = True


PROFILES = {
    p.name: p
    for p in (
        Profile("quick", "tests: a few steps of a tiny model, thrown away", "cpu", 1, inf, False),
        Profile("laptop", "the evidence in the notebooks, on two CPU cores", "cpu", 2),
        Profile("gpu", "one GPU: bigger models, full data", "cuda", 1),
        Profile("paper", "the size of the published setting", "cuda", 1),
    )
}
DEVICES = ("cpu", "cuda")
FALLBACK = {
    "quick": ("quick", "laptop"),
    "laptop": ("laptop",),
    "gpu": ("gpu", "laptop"),
    "paper": ("paper", "gpu", "laptop"),
}


def current(name: str | Profile | None = None) -> Profile:
    """The profile called `name`, else $CAUSALNB_PROFILE, else laptop; LabError if there is none so called."""
    name = name or os.environ.get("CAUSALNB_PROFILE") or "laptop"
    if isinstance(name, Profile):
        return name
    if name not in PROFILES:
        raise LabError(f"there is no profile {name!r}: use one of {', '.join(PROFILES)}.")
    return PROFILES[name]


def pick(profile: str | Profile | None = None, **values):
    """The value for the profile; missing: quick -> laptop, gpu -> laptop, paper -> gpu -> laptop."""
    if unknown := set(values) - set(PROFILES):
        raise LabError(f"there is no profile {min(unknown)!r}: give values for {', '.join(PROFILES)}.")
    name = current(profile).name
    for candidate in FALLBACK[name]:
        if candidate in values:
            return values[candidate]
    raise LabError(f"no value for profile {name!r} among {sorted(values)}: give one for laptop.")


def wanted_device(profile: str | Profile | None = None) -> str:
    """$CAUSALNB_DEVICE, else the profile's device: "cpu" or "cuda"; LabError for another word."""
    asked = os.environ.get("CAUSALNB_DEVICE") or current(profile).device
    if asked not in DEVICES:
        raise LabError(f"CAUSALNB_DEVICE is {asked!r}: set it to one of {', '.join(DEVICES)}.")
    return asked


def device(profile: str | Profile | None = None) -> str:
    """`wanted_device`; LabError if that is a GPU and there is none."""
    asked = wanted_device(profile)
    if asked == "cuda":
        import torch

        if not torch.cuda.is_available():
            instead = "unset CAUSALNB_DEVICE" if os.environ.get("CAUSALNB_DEVICE") else "use --profile laptop"
            raise LabError(f"there is no GPU for the {current(profile).name} profile: {instead}.")
    return asked
