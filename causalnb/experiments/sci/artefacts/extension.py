"""SCI separated, our extension, beside SCI and plain decoders: a table and a figure from stored results."""

from collections.abc import Iterable

from causalnb.lab import evidence
from causalnb.lab.registry import artefact

MODELS = {"plain": "plain decoder", "plain_labels": "plain + labels", "sci": "SCI",
          "sci_separated": "SCI separated"}  # fmt: skip
LOOKS = {
    "plain": ("black", "o"),
    "plain_labels": ("orange", "s"),
    "sci": ("blue", "^"),
    "sci_separated": ("vermillion", "D"),
}
SPLITS = {
    "add_prim_jump": "add_prim_jump (new verb)",
    "renamed": "the same, actions renamed",
    "add_prim_run": "add_prim_run (untried verb)",
    "add_prim_turn_left": "add_prim_turn_left",
    "template_around_right": "template_around_right",
    "simple": "simple (random split)",
    "length": "length (longer answers)",
}
WHOLE = "sci_separated"
PARTS = {
    "separated_no_invariance": "no aligned invariance",
    "separated_no_contrastive": "no contrastive loss",
    "separated_no_noise": "no noise",
    "separated_4_slots": "four slots, not eight",
    "separated_pairs_by_structure": "pairs drawn by structure",
}
METRICS = {
    "exact_match": "test exact match",
    "greedy_exact_match": "decoded (sample)",
    "validation_exact_match": "validation",
}


def by_split(profile: str | None = None, splits: Iterable[str] = SPLITS) -> list[tuple]:
    """(split, arm, frame of its seeds) for each split and each of MODELS trained on it."""
    from causalnb.lab import registry

    found = []
    for split in splits:
        arms = [arm for arm in MODELS if arm in registry.arms(f"sci.scan.{split}")]
        frame = evidence.require(f"sci.scan.{split}", profile, arms)
        found += [(split, arm, frame[frame.arm == arm]) for arm in arms]
    return found


def by_part(profile: str | None = None, parts: Iterable[str] = PARTS) -> list[tuple]:
    """(name, frame of its seeds) on add_prim_jump: the complete model, then without each part."""

    parts = list(parts)
    whole = evidence.require("sci.scan.add_prim_jump", profile, [WHOLE])
    frame = evidence.require("sci.ablations", profile, parts)
    return [("complete", whole), *((PARTS[arm], frame[frame.arm == arm]) for arm in parts)]


def extension_table(profile: str | None = None, splits: Iterable[str] = SPLITS, parts: Iterable[str] = PARTS):
    """Exact match by split and model, forced and decoded, then of SCI separated without one of its parts."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    rows = [
        [SPLITS[split], MODELS[arm], *(mean_ci(frame[metric]) for metric in METRICS)]
        for split, arm, frame in by_split(profile, splits)
    ]
    rows += [
        [SPLITS["add_prim_jump"], f"{MODELS[WHOLE]}, {name}", *(mean_ci(frame[m]) for m in METRICS)]
        for name, frame in by_part(profile, parts)[1:]
    ]
    return Table(
        "sci.extension",
        ["split", "model", *METRICS.values()],
        rows,
        "SCI separated, an extension that is not the guide's: mean ± half of the 95 % interval (seeds)",
        "Validation holds commands of the training kind. Decoded: greedy decoding of a sample of the test "
        "commands. Renamed: the six actions are permuted at random, anew for each seed.",
    )


def settings_table(profile: str | None = None, arms: Iterable[str] | None = None):
    """The settings that were tried for SCI separated on another held-out verb; `arms` narrows them."""
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    id = "sci.scan.search"
    names = ("structural_slots", "learning_rate", "invariance_weight", "abstraction_noise")
    configs = {arm: registry.config(id, arm, profile) for arm in registry.arms(id, arms)}
    tried = [arm for arm, config in configs.items() if config["model"] == WHOLE]
    found = evidence.require(id, profile, tried).set_index("arm")
    rows = [
        [
            *(f"{configs[arm][name]:g}" for name in names),
            found.validation_exact_match[arm],
            found.exact_match[arm],
        ]
        for arm in tried
    ]
    return Table(
        "sci.extension_settings",
        ["slots", "learning rate", "invariance weight", "noise", "validation", "'look' in new compositions"],
        rows,
        "Exact match of SCI separated in the search for its settings: 'look' held out, one seed",
    )


def _dots(ax, height: float, values, colour: str, marker: str, label: str | None):
    """A mean with its interval, cut at 0 and 1, over small dots for the seeds."""
    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    summary = mean_ci(values)
    seeds = {"s": 12, "edgecolors": "black", "linewidths": 0.5}
    ax.scatter(values, [height] * len(values), color=COLOURS[colour], zorder=2.5, **seeds)
    if summary.half == summary.half:
        ends = [min(max(end, 0), 1) for end in (summary.low, summary.high)]
        ax.hlines(height, *ends, color=COLOURS[colour], linewidth=1.6, zorder=2)
    ax.scatter(
        [summary.mean], [height], s=34, color=COLOURS[colour], marker=marker, edgecolors="black",
        linewidths=0.5, label=label, zorder=3, clip_on=False,
    )  # fmt: skip
    return summary


def extension_figure(
    profile: str | None = None, splits: Iterable[str] = SPLITS, parts: Iterable[str] = PARTS
):
    """(figure, alt): exact match on each split by model, and on add_prim_jump without each part."""
    import matplotlib.pyplot as plt

    splits, missing = list(splits), by_part(profile, parts)
    size = (9.2, 1.3 + 0.52 * max(len(splits), 4))
    fig, (left, right) = plt.subplots(1, 2, figsize=size, width_ratios=[1.3, 1])
    told, shown, arms = [], set(), list(MODELS)
    for split, arm, frame in by_split(profile, splits):
        colour, marker = LOOKS[arm]
        height = splits.index(split) + 0.17 * (arms.index(arm) - 1.5)
        label = None if arm in shown else MODELS[arm]
        summary = _dots(left, height, frame.exact_match, colour, marker, label)
        told.append(f"{MODELS[arm]} on {SPLITS[split]} {summary.mean:.3f}")
        shown.add(arm)
    for height, (name, frame) in enumerate(missing):
        summary = _dots(right, height, frame.exact_match, *LOOKS[WHOLE], None)
        told.append(f"{name} {summary.mean:.3f}")
    for ax, names in ((left, [SPLITS[split] for split in splits]), (right, [name for name, _ in missing])):
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set(xlim=(-0.03, 1.03), xlabel="test exact match")
    left.hlines([i + 0.5 for i in range(len(splits) - 1)], -0.03, 1.03, color="0.85", linewidth=0.6)
    right.set_title("SCI separated, add_prim_jump", fontsize=9)
    fig.legend(loc="outside upper left", ncols=len(shown), fontsize=8)
    return fig, "Dot plots of test exact match, means over seeds. " + "; ".join(told) + "."


@artefact(
    "sci.extension",
    needs=(*(f"sci.scan.{split}" for split in SPLITS), "sci.ablations"),
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="SCI separated, an extension of SCI: exact match by split, and without a part",
    notebook="23_sci_separated",
)
def extension(profile):
    """Our extension beside SCI and the plain decoders: table and figure."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(extension_table(profile))
    fig, alt = extension_figure(profile)
    save_figure(
        fig,
        "sci.extension",
        alt=alt,
        caption="Exact match by split and model, and of our extension without a part. Small "
        "dots are seeds; lines are 95 % intervals of the mean, cut at 0 and 1.",
    )
