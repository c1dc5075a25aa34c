"""The search on another held-out verb: a learning rate for every arm, and the extension's settings."""

from functools import partial

from causalnb.experiments.sci.artefacts.names import EXTRA, JUMP, WHOLE, WITH_OURS
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, first

SEARCH = "sci.scan.search"
VALIDATION = Measured("validation", "validation_exact_match", first("{:.4g}"))
COMPOSED = Measured("'look' in new compositions", "exact_match", first("{:.4g}"))


def _setting(arm: str, name: str, profile: str | None = None) -> str:
    return f"{registry.config(SEARCH, arm, profile)[name]:g}"


def _changed(arm: str, profile: str | None = None) -> list[str]:
    """The settings, the rate apart, in which an arm of the search differs from its model's."""
    config = registry.config(SEARCH, arm, profile)
    used = registry.config(JUMP, config["model"], profile)
    return [
        f"{name.replace('_', ' ')} {config[name]:g}"
        for name in ("invariance_weight", "abstraction_noise", "structural_slots")
        if config[name] != used[name]
    ]


def _model(arm: str, profile: str | None = None) -> str:
    return ", ".join([WITH_OURS[registry.config(SEARCH, arm, profile)["model"]], *_changed(arm, profile)])


def _notes(profile: str | None = None) -> str:
    from statistics import mean

    by_rate = {}
    for name in registry.arms(SEARCH):
        if not _changed(name, profile):
            scores = arm(SEARCH, name).of("validation_exact_match", profile)
            by_rate.setdefault(_setting(name, "learning_rate", profile), []).append(scores[0])
    by_rate = ", ".join(f"{rate}: {mean(values):.4f}" for rate, values in by_rate.items())
    sci, ours = (registry.config(JUMP, name, profile) for name in ("sci", WHOLE))
    return (
        f"Mean validation over the models by rate: {by_rate}. One rate serves all models: "
        f"{ours['learning_rate']:g}. SCI uses {sci['structural_slots']} slots; the extension "
        f"{ours['structural_slots']}, invariance weight {ours['invariance_weight']:g} and noise "
        f"{ours['abstraction_noise']:g}."
    )


search_table = Report(
    "sci.search",
    ["model", "learning rate", VALIDATION, COMPOSED],
    lambda: [
        Row((partial(_model, name), partial(_setting, name, "learning_rate")), arm(SEARCH, name))
        for name in registry.arms(SEARCH)
    ],
    "Exact match in the search for settings: another verb held out, one seed",
    _notes,
)
SETTINGS = {
    "structural_slots": "slots",
    "learning_rate": "learning rate",
    "invariance_weight": "invariance weight",
    "abstraction_noise": "noise",
}
settings_table = Report(
    "sci.extension_settings",
    [*SETTINGS.values(), VALIDATION, COMPOSED],
    lambda: [
        Row(tuple(partial(_setting, name, setting) for setting in SETTINGS), arm(SEARCH, name))
        for name in registry.arms(SEARCH)
        if name.startswith(WHOLE)
    ],
    "Exact match of SCI separated in the search for its settings: 'look' held out, one seed",
)


@builds(
    "sci.search",
    search_table,
    **EXTRA,
    shows="learning rate and settings, searched on another verb",
    notebook="21_sci_scan",
)
def search(profile):
    """The search for settings as a table."""
