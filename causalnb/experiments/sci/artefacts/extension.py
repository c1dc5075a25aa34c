"""SCI separated, our extension, beside SCI and plain decoders: a table and a figure."""

from functools import cache

from causalnb.experiments.sci.artefacts.names import (
    BY_TOKENS,
    EXTRA,
    JUMP,
    LONGER,
    LOOKS,
    MODELS,
    SWAPPED,
    TOKENS,
    WHOLE,
    by_tokens,
    longer,
    scores,
    swapped,
    trained,
)
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw, gain

SPLITS = {
    "add_prim_jump": "add_prim_jump (new verb)",
    "renamed": "the same, actions renamed",
    "add_prim_run": "add_prim_run (untried verb)",
    "add_prim_turn_left": "add_prim_turn_left",
    "template_around_right": "template_around_right",
    "simple": "simple (random split)",
    "length": "length (longer answers)",
}
SHOWN = {}  # and, behind the split that it is of, the one in twice the steps
for split, title in SPLITS.items():
    SHOWN[split] = title
    if LONGER.endswith(split):
        SHOWN[LONGER] = "the same, in twice the steps"
COMPARED = MODELS | SWAPPED | TOKENS
PARTS = {
    "separated_no_invariance": "no aligned invariance",
    "separated_no_contrastive": "no contrastive loss",
    "separated_no_noise": "no noise",
    "separated_4_slots": "four slots, not eight",
    "separated_pairs_by_structure": "pairs drawn by structure",
}
CONTRASTS = (
    ("plain_swap", "plain"),
    (WHOLE, "plain_swap"),
    (BY_TOKENS, "plain_swap"),
    (BY_TOKENS, WHOLE),
    ("sci_swap", "plain_swap"),
    ("sci_swap", "sci"),
)


def _all(split: str) -> dict:
    """Every model of a split: those trained on its rows, on swapped words too, and with a slot a token."""
    found = longer() if split == LONGER else trained(split) | swapped(split) | by_tokens(split)
    return {name: found[name] for name in COMPARED if name in found}


def _rows():
    for split, title in SHOWN.items():
        for name, value in _all(split).items():
            yield Row((title, COMPARED[name]), value)
    for name, part in PARTS.items():
        yield Row((SPLITS["add_prim_jump"], f"{MODELS[WHOLE]}, {part}"), arm("sci.ablations", name))


extension_table = Report(
    "sci.extension",
    ["split", "model", *scores("exact_match", "greedy_exact_match", "validation_exact_match")],
    _rows,
    "SCI separated, an extension that is not the guide's: mean ± half of the 95 % interval (seeds)",
    "Validation holds commands of the training kind. Decoded: greedy decoding of a sample of the test "
    "commands. Renamed: the six actions are permuted at random, anew for each seed. Swapped words: four "
    "copies of the training rows, words exchanged as the labels of structure tell; as many steps. A slot a "
    "token: content is bound to each word of the command, not to eight slots that choose words.",
)
swapped_table = Report(
    "sci.extension_swapped",
    [
        "split",
        *(
            Measured(f"{COMPARED[name]} - {COMPARED[other]}", "exact_match", gain, of=f"{name} {other}")
            for name, other in CONTRASTS
        ),
    ],
    lambda: [
        Row(
            title,
            {
                f"{name} {other}": found[name] - found[other]
                for name, other in CONTRASTS
                if {name, other} <= set(found)
            },
        )
        for split, title in SHOWN.items()
        if "plain_swap" in (found := _all(split))
    ],
    "What swapped words are worth, and SCI beside them: differences of test exact match in points, mean "
    "[95 % interval] (seeds)",
)

SPELLED = ("add_prim_jump", "template_around_right")


@cache
def _told(split: str, validation_rows: int, level: str, copies: int) -> list[str]:
    """Of a split: swaps by the labels, and by one; test and validation among the copies of seed 0."""
    from causalnb.experiments.sci.scan import scan_data, swapped_rows
    from causalnb.tasks import swaps

    def pairs(rows):
        return [(row["text"], row["actions"]) for row in rows]

    rows, *held_out = scan_data(split, validation_rows, None, level)
    labels = [row["structure"] for row in rows], [""] * len(rows)
    found = [f"{len(swaps.find(pairs(rows), structures))}" for structures in labels]
    made = {*pairs(swapped_rows(rows, level, 0, copies))}
    among = [f"{sum(one in made for one in pairs(part)):,} of {len(part):,}" for part in held_out]
    return [*found, *reversed(among)]


def _spelled(profile):
    for split in SPELLED:
        config = registry.config(f"sci.scan.swapped_{split}", "plain", profile)
        told = _told(split, config["validation_rows"], config["structure_level"], config["swaps"])
        yield [SPLITS[split], *told]


spelled = Report(
    "sci.extension_spelled",
    [
        "split",
        "swaps by the labels",
        "with one label for all",
        "test commands among the copies",
        "validation commands among them",
    ],
    [_spelled],
    "What the copies with swapped words spell out, with their answers: seed 0",
    "Swaps are found in the training rows of the runs, without those of validation. What one label for all "
    "finds beyond the labels is false: *twice* for *left*, and back.",
)


def _dots(ax, height: float, values, model: str, label: str | None = None) -> float:
    """Draw a mean with its interval, cut at 0 and 1, over small dots for the seeds; the mean."""
    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    summary, (colour, _, marker) = mean_ci(values), LOOKS[model]
    look = {"color": COLOURS[colour], "edgecolors": "black", "linewidths": 0.5}
    ax.scatter(values, [height] * len(values), s=12, zorder=2.5, **look)
    if summary.half == summary.half:
        ends = [min(max(end, 0), 1) for end in (summary.low, summary.high)]
        ax.hlines(height, *ends, color=COLOURS[colour], linewidth=1.6, zorder=2)
    ax.scatter([summary.mean], [height], s=34, marker=marker, label=label, zorder=3, clip_on=False, **look)
    return summary.mean


def extension_figure(profile: str | None = None):
    """(figure, alt): exact match on each split by model, and on add_prim_jump without each part."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline, text_size

    size = (9.2, 1.8 + 0.66 * len(SHOWN))
    fig, (left, right) = plt.subplots(1, 2, figsize=size, width_ratios=[1.3, 1])
    lines, means, unnamed = [], {}, dict(COMPARED)  # a model stands in the legend once
    for place, (split, title) in enumerate(SHOWN.items()):
        for name, value in _all(split).items():
            height = place + 0.12 * ([*COMPARED].index(name) - 3)
            label = unnamed.pop(name, None)
            mean = _dots(left, height, value.of("exact_match", profile), name, label)
            means[split, name] = mean
            lines.append(f"{COMPARED[name]} on {title} {mean:.3f}")
    missing = {"complete": arm(JUMP, WHOLE)}
    missing |= {part: arm("sci.ablations", name) for name, part in PARTS.items()}
    for height, (part, value) in enumerate(missing.items()):
        mean = _dots(right, height, value.of("exact_match", profile), WHOLE)
        lines.append(f"{part} {mean:.3f}")
    for ax, names in ((left, SHOWN.values()), (right, missing)):
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set(xlim=(-0.03, 1.03), xlabel="test exact match")
    headline(fig, _message(means))
    left.hlines([i + 0.5 for i in range(len(SHOWN) - 1)], -0.03, 1.03, color="0.85", linewidth=0.6)
    right.set_title("SCI separated, add_prim_jump", fontsize=text_size(9))
    fig.legend(loc="outside lower center", ncols=len(MODELS) - 1, fontsize=text_size(8))
    return fig, "Dot plots of test exact match, means over seeds. " + "; ".join(lines) + "."


def _message(means: dict[tuple[str, str], float]) -> str:
    """The extension beside a plain decoder with the same labels, as swapped words; means: by split, model."""
    told = [
        f"{what} {means[split, BY_TOKENS]:.2f}, {means[split, 'plain_swap']:.2f}"
        for split, what in (
            ("add_prim_jump", "a new verb"),
            (LONGER, "a new phrase"),
            ("length", "longer answers"),
        )
    ]
    return f"{TOKENS[BY_TOKENS]}, and {COMPARED['plain_swap']}: {'; '.join(told)}"


@builds(
    "sci.extension",
    extension_table,
    swapped_table,
    spelled,
    **EXTRA,
    shows="SCI separated, an extension of SCI: exact match by split, and without a part",
    notebook="23_sci_separated",
)
def extension(profile):
    """Our extension beside SCI and the plain decoders: table and figure."""
    caption = (
        "Exact match by split and model, and of our extension without a part. Small "
        "dots are seeds; lines are 95 % intervals of the mean, cut at 0 and 1."
    )
    draw(profile, "sci.extension", extension_figure(profile), caption)
