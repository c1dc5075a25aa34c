"""The guide's components and the corrected ones: each finding as a number, and the answer leak."""

from causalnb.lab.report import Measured, Report, Row, arm, builds, draw
from causalnb.lab.statistics import mean_ci

# finding -> (what is measured, what it should be)
FINDINGS = {
    "word_order": ("S(x) moves when words are reordered", "well above rounding"),
    "neighbour_in_batch": ("sample 0 moves when sample 1 changes (K = N)", "0"),
    "base_disturbed": ("hidden states move at step 0", "0"),
    "cycles": ("NOTEARS h of the edges", "0"),
    "held_slot_drift": ("a slot drifts from the value do() gave it", "0"),
    "effect_upstream": ("setting a slot moves the slots before it", "0"),
    "content_on_slots": ("largest |cosine| of projected content and a slot", "0"),
    "anchors_with_positives": ("share of rows with a useful positive in a batch of 64", "large"),
}
VERSIONS = {"guide": ("the guide's", "vermillion", "X"), "corrected": ("corrected", "blue", "o")}


def _brief(values) -> str:
    """Mean to two digits ± half of the interval to one, where there is an interval."""
    summary = mean_ci(values)
    half = f" ± {summary.half:.1g}" if summary.half > 0 else ""
    return f"{summary.mean:.2g}{half} ({summary.n})"


findings_table = Report(
    "sci.components",
    ["measured on random weights", "should be"]
    + [Measured(name, version + ".{finding}", _brief) for version, (name, *_) in VERSIONS.items()],
    [Row(texts, arm("sci.components", "findings", finding=name)) for name, texts in FINDINGS.items()],
    "The guide's components and the corrected ones: mean ± half of the 95 % interval (seeds)",
)


def findings_figure(profile: str | None = None):
    """(figure, alt): each finding as a pair of dots, and the answer leak, forced against decoded match."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.2), width_ratios=[1.75, 1])
    places, measured = np.arange(len(FINDINGS))[::-1], arm("sci.components", "findings")
    values = {
        version: [measured.summary(f"{version}.{finding}", profile).mean for finding in FINDINGS]
        for version in VERSIONS
    }
    left.hlines(places, values["guide"], values["corrected"], color="0.7", zorder=1)
    for version, (label, colour, marker) in VERSIONS.items():
        look = {"color": COLOURS[colour], "marker": marker, "label": label}
        left.scatter(values[version], places, s=42, zorder=2, **look)
    left.set_xscale("symlog", linthresh=1e-6, linscale=0.6)
    left.set_xticks([0, 1e-5, 1e-3, 1e-1, 10], ["0", r"$10^{-5}$", r"$10^{-3}$", r"$10^{-1}$", "10"])
    titles = [f"{what}\n(should be {should})" for what, should in FINDINGS.values()]
    left.set_yticks(places, titles, fontsize=text_size(7.5))
    left.set_xlabel(r"measured (relative size, h, cosine or share; linear below $10^{-6}$)")
    left.set_title("on random weights", fontsize=text_size(9), loc="left")
    left.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=text_size(8), borderaxespad=0)
    bars, decoded = [], {}
    for place, name in enumerate(("prompt_and_answer", "prompt")):
        matches = []
        for shift, metric, colour, hatch, label in (
            (-0.2, "forced_exact_match", "sky", "", "answer given (forced)"),
            (0.2, "greedy_exact_match", "green", "//", "decoded (greedy)"),
        ):
            summary = arm("sci.leak", name).summary(metric, profile)
            look = {"color": COLOURS[colour], "hatch": hatch, "edgecolor": "black", "capsize": 3}
            label = label if place == 0 else None
            ends = np.nan_to_num(summary.half)
            right.bar(place + shift, summary.mean, 0.38, yerr=ends, label=label, **look)
            decoded[name] = 100 * summary.mean  # the last of the two
            matches.append(f"{metric.partition('_')[0]} {summary.mean:.2f}")
        bars.insert(0, f"encoders see {name.replace('_', ' ')}: {', '.join(matches)}")
    zero = [place for place, (_, should) in enumerate(FINDINGS.values()) if should == "0"]
    least, most = min(values["guide"][i] for i in zero), max(values["corrected"][i] for i in zero)
    headline(
        fig,
        f"What should be 0 is at least {least:.2g} in the guide's version and at most {most:.2g} corrected; "
        f"decoded right are {decoded['prompt_and_answer']:.0f} % if the encoders see the answer, else "
        f"{decoded['prompt']:.0f} %",
    )
    right.set_xticks([0, 1], ["prompt and\nanswer (guide)", "prompt\nonly"])
    right.set_xlabel("the encoders see")
    right.set_ylabel("exact match on held-out commands")
    right.set_title("after training", fontsize=text_size(9), loc="left")
    right.set_ylim(0, 1.3)
    right.set_yticks(np.linspace(0, 1, 6))
    right.legend(loc="upper center", fontsize=text_size(8))
    dots = "; ".join(
        f"{what}: {guide:.1g} and {ours:.1g}"
        for (what, _), guide, ours in zip(FINDINGS.values(), *values.values(), strict=True)
    )
    return fig, (
        "Left, a cross for the guide's version, a dot for the corrected one. "
        f"{dots}. Right, {'; '.join(bars)}."
    )


@builds("sci.components", findings_table, needs=("sci.leak",))
def components(profile):
    """Components 1-4: the findings as a table and a figure."""
    caption = "What the guide's pseudocode does, and what its corrected form does."
    draw(profile, "sci.components", findings_figure(profile), caption)
