"""SCI, a plain decoder and the labels control on SCAN by split: a table, learning curves and means."""

from causalnb.experiments.sci.artefacts.names import ARMS, EXTRA, JUMP, LOOKS, SCORES, scores, trained
from causalnb.lab.report import Report, Row, builds, draw

SPLITS = {
    "simple": "simple (random split)",
    "add_prim_jump": "add_prim_jump (new verb)",
    "add_prim_turn_left": "add_prim_turn_left (new turn)",
    "template_around_right": "template_around_right (new phrase)",
    "length": "length (longer answers)",
}
scan_table = Report(
    "sci.scan",
    ["split", "model", *scores(*SCORES)],
    lambda: [
        Row((title, ARMS[name]), value)
        for split, title in SPLITS.items()
        for name, value in trained(split, ARMS).items()
    ],
    "SCAN: mean ± half of the 95 % interval (seeds)",
    "The guide prints no accuracy. Cosines and retrieval compare a test command with training commands "
    "of the same and of other structures, on the mean slot (SCI) or the last state at the prompt's end; "
    "where no structure is shared there is nothing to compare.",
)


def scan_figure(profile: str | None = None):
    """(figure, alt): learning curves on add_prim_jump (thin: validation), and exact match on every split."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab import evidence, results
    from causalnb.lab.figures import COLOURS, headline, intervals, text_size

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9), width_ratios=[1, 1.15])
    whole = evidence.require(JUMP, profile, ARMS).groupby("arm")["exact_match"].mean()
    curves, ends, finals = results.curves(JUMP, profile, ARMS), [], []
    for arm, name in ARMS.items():
        colour, line, marker = LOOKS[arm]
        by_step = curves[curves.arm == arm].groupby("step")
        mean, low, high = (by_step["test_sample"].agg(how) for how in ("mean", "min", "max"))
        validation = by_step["validation"].mean()
        look = {"color": COLOURS[colour], "linestyle": line}
        left.fill_between(mean.index, low, high, color=look["color"], alpha=0.1, linewidth=0)
        left.plot(mean.index, mean, marker=marker, markevery=2, label=name, **look)
        left.plot(mean.index, validation, linewidth=0.9, marker="", alpha=0.8, **look)
        finals.append((whole[arm], validation.iloc[-1]))
        ends.append(f"{name} ends at {mean.iloc[-1]:.2f} (validation {validation.iloc[-1]:.2f})")
    composed, held = zip(*finals, strict=True)
    headline(
        fig,
        f"On add_prim_jump the models solve {min(held):.1%} or more of held-out commands in the mean, and "
        f"at most {max(composed):.2%} of those that compose 'jump'",
    )
    left.set(xlabel="training step", ylabel="exact match", title="add_prim_jump")
    left.legend(loc="center right", bbox_to_anchor=(1, 0.32), fontsize=text_size(8))
    for height, text in (
        (0.46, "thin: held-out commands\nof the training kind"),
        (0.06, "test: 'jump' composed"),
    ):
        left.text(
            0.98, height, text, transform=left.transAxes, ha="right", va="bottom", fontsize=text_size(8)
        )
    places, dots = np.arange(len(SPLITS))[::-1], []
    for shift, (arm, name) in zip((0.2, 0.0, -0.2), ARMS.items(), strict=True):
        colour, _, marker = LOOKS[arm]
        for place, split in zip(places, SPLITS, strict=True):
            for value in trained(split, [arm]).values():
                summary = value.summary("exact_match", profile)
                intervals(right, [place + shift], [summary], colour, marker, across=True, capsize=2)
                dots.append(f"{name} on {split} {summary.mean:.3f}")
    right.set_yticks(places, SPLITS.values(), fontsize=text_size(8))
    right.set(xlim=(-0.06, 1.06), xlabel="exact match on the test set", title="all splits")
    return fig, (
        "Left, exact match against training step on add_prim_jump: "
        f"{'; '.join(ends)}. Right, final exact match by split: {'; '.join(dots)}."
    )


@builds(
    "sci.scan",
    scan_table,
    **EXTRA,
    shows="SCI, a plain decoder and the labels control on SCAN",
    notebook="21_sci_scan",
)
def scan(profile):
    """SCAN by split and model: table and learning curves."""
    caption = (
        "Left: bands span the seeds, thin lines are held-out commands from the training "
        "distribution. Right: mean and 95 % interval over seeds."
    )
    draw(profile, "sci.scan", scan_figure(profile), caption)
