"""Chains over a graph of their own in every text: where the graph is news, what is it worth to be told it?"""

import re
from functools import partial
from math import inf
from statistics import median_low

from causalnb.experiments.c2dlm.curves import speed_up, times
from causalnb.lab import evidence, registry, results
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw, gain, save, share
from causalnb.lab.tables import Table

HOME, DRAWN, WHY = "c2dlm.long.chain", "c2dlm.curves.chain", "c2dlm.why.chain"
SFT = "diffusion"
NAMES = {
    SFT: "diffusion (SFT)",
    "c2dlm": "C2DLM",
    "placebo": "placebo graph",
    "enforced": "graph enforced, at test too",
}
LOOKS = {
    SFT: ("black", "--", "s"),
    "c2dlm": ("blue", "-", "o"),
    "placebo": ("vermillion", "-.", "^"),
    "enforced": ("green", ":", "D"),
}
LEVELS = (0.5, 0.7, 0.9)  # of steps right on the validation rows


def _curves(profile: str | None, *names: str, home: str = HOME):
    evidence.require(home, profile, names)
    found = results.curves(home, profile, names)
    return [found[found.arm == name] for name in names]


def _reached(name: str, level: float, profile: str | None = None, home: str = HOME) -> str:
    """The median number of steps to a level (of two in the middle the lower), and its range."""
    (runs,) = _curves(profile, name, home=home)
    found = [inf if step is None else step for step in times(runs, "steps", level).values()]
    middle, first, last = (
        "never" if step == inf else f"{step:.0f}" for step in (median_low(found), min(found), max(found))
    )
    reached = len(found) - found.count(inf)
    among = "" if reached == len(found) else f"; {reached} of {len(found)} seeds"
    return f"{middle} ({first} to {last}{among})"


varying_table = Report(
    "c2dlm.varying",
    [
        "a graph of its own in every text",
        *(f"steps to {level:.0%}" for level in LEVELS),
        Measured("steps right", "test_steps", share),
        Measured("exact", "test_exact", share),
    ],
    [
        Row((NAMES[name], *(partial(_reached, name, level) for level in LEVELS)), arm(HOME, name))
        for name in NAMES
    ],
    "Chains over a graph drawn for each row: training steps until so many steps of the chains are right, and "
    "test scores in %",
    "Median over seeds (range), on 200 validation rows after every 50 steps; test scores are of the end.",
)
PAIRS = [(name, SFT) for name in NAMES if name != SFT] + [("c2dlm", "placebo")]
gains_table = Report(
    "c2dlm.varying_gains",
    [
        "model",
        "minus, points",
        *(
            Measured(head, f"test_{name}", gain)
            for name, head in (("steps", "steps right"), ("exact", "exact"))
        ),
    ],
    [Row((NAMES[name], NAMES[other]), arm(HOME, name) - arm(HOME, other)) for name, other in PAIRS],
    "Chains over a graph drawn for each row: paired differences at the end",
)


PARTS = {
    SFT: (NAMES[SFT], HOME),
    "c2dlm": ("C2DLM", HOME),
    "placebo": ("placebo graph", HOME),
    "ratio": ("C2DLM, the ratio alone (λ = 0)", WHY),
    "ratio_placebo": ("placebo graph, the ratio alone", WHY),
    "penalty": ("the penalty alone, which any order of the steps gives", WHY),
}
GOES = {"causes": "to its cause", "against": "to later steps"}  # attention of a step, by value norm
why_table = Report(
    "c2dlm.why",
    [
        "what the loss asks for",
        *(f"steps to {level:.0%}" for level in LEVELS[::2]),
        *(Measured(head, f"flow_weighted_{name}", share) for name, head in GOES.items()),
    ],
    [
        Row((said, *(partial(_reached, name, level, home=home) for level in LEVELS[::2])), arm(WHY, name))
        for name, (said, home) in PARTS.items()
    ],
    "Chains over a graph drawn for each row: each part of C2DLM's loss alone, and where attention goes",
    "Median steps over seeds (range). Attention: % of what the token of a step pays, weighted by the norm of "
    "values, mean over layers, heads and 200 noised training rows, at the end.",
)


def _tried():
    names = NAMES | {
        "c2dlm_last": "C2DLM, the last layer alone",
        "half_enforced": "graph enforced in half of the rows",
    }
    for name in registry.arms(DRAWN):
        model = re.sub(r"_(lr|gamma|alpha|n)\d.*", "", name)
        keys = ("train_rows", "learning_rate", *(("gamma", "alpha") if model.startswith("c2dlm") else ()))
        settings = [partial(_setting, name, key) for key in keys]
        yield Row((names[model], *settings, *[""] * (4 - len(keys))), arm(DRAWN, name))


def _setting(name: str, key: str, profile: str | None = None) -> str:
    return f"{registry.config(DRAWN, name, profile)[key]:g}"


tried_table = Report(
    "c2dlm.varying_tried",
    ["model", "rows", "learning rate", "γ", "α", Measured("steps right", "test_steps", share)],
    _tried,
    "Settings tried on another draw of the chains, one seed",
)


def speed_ups(profile: str | None = None) -> dict:
    """{arm: SpeedUp over plain tuning, by steps right} of the arms that are no plain tuning."""
    plain, *others = _curves(profile, *NAMES)
    names = [name for name in NAMES if name != SFT]
    return {name: speed_up(plain, runs, "steps", 1) for name, runs in zip(names, others, strict=True)}


def speed_table(profile: str | None = None):
    """How many times sooner each model is as good as plain tuning at its best."""
    return Table(
        "c2dlm.varying_speed",
        ["model", "speed-up, median over seeds"],
        [[NAMES[name], str(found)] for name, found in speed_ups(profile).items()],
        "How many times sooner a model has as many steps right as plain tuning at its best",
    )


def varying_figure(profile: str | None = None):
    """(figure, alt): steps right on the validation rows by training step."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig, ax = plt.subplots(figsize=(6.2, 3.6))
    ends, steps = [], []
    for name, runs in zip(NAMES, _curves(profile, *NAMES), strict=True):
        colour, line, marker = LOOKS[name]
        look = {"color": COLOURS[colour], "linestyle": line, "marker": marker}
        seeds = runs.pivot(index="step", columns="seed", values="steps")
        ax.plot(seeds.index, seeds, linestyle="-", marker="", linewidth=0.6, alpha=0.35, color=look["color"])
        mean = seeds.mean(axis=1)
        ax.plot(mean.index, mean, markevery=max(1, len(mean) // 5), label=NAMES[name], **look)
        end = mean.iloc[-1]
        ends.append(f"{NAMES[name]} ends at {end:.2f}, steps to 90 %: {_reached(name, 0.9, profile)}")
        steps.append(f"{NAMES[name]} {_reached(name, 0.9, profile)}")
    headline(fig, f"Training steps until 90 % are right: {', '.join(steps)}")
    ax.set(xlabel="training step", ylabel="steps right", ylim=(0, 1.02))
    ax.legend(fontsize=text_size(8))
    told = "Share of right steps against training step: a thin line for each seed, a thick one for the mean"
    return fig, f"{told}. {'; '.join(ends)}."


@builds(
    "c2dlm.varying",
    varying_table,
    gains_table,
    tried_table,
    extra=True,
    needs=[HOME],
    printed_as="ours",
    kind="measured",
    shows="chains over a graph of their own in every text: how soon each model can follow it",
    notebook="43_chain_of_thought_order",
)
def varying(profile):
    """Learning curves, and how much sooner guided models get where plain tuning does."""
    save(profile, speed_table)
    caption = "Right steps on validation rows: a thin line for each seed, a thick one for the mean."
    draw(profile, "c2dlm.varying", varying_figure(profile), caption)


@builds(
    "c2dlm.why",
    why_table,
    extra=True,
    needs=[HOME],
    printed_as="ours",
    kind="measured",
    shows="chains over a graph of their own in every text: parts of the loss alone, and where attention goes",
    notebook="43_chain_of_thought_order",
)
def why(profile):
    """What of the loss speeds training up, and whether attention obeys it."""
