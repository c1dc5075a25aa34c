"""The spurious token game on a real pre-trained encoder: arms, sizes, differences, placebos, the search."""

import json
from collections.abc import Iterable
from functools import partial

from causalnb.experiments.c2dlm import real
from causalnb.experiments.c2dlm.artefacts.games import NAMES, PAPER, SFT, STG_L, kinds
from causalnb.experiments.c2dlm.artefacts.table4 import simple_rules, size_parts
from causalnb.experiments.c2dlm.real_choose import KEPT, SEARCH
from causalnb.lab import evidence, registry
from causalnb.lab.report import (
    Measured,
    Printed,
    Reading,
    Report,
    Row,
    Values,
    arm,
    builds,
    cell,
    draw,
    gain,
    looked,
    printed_row,
    share,
)

ID, HOME = "c2dlm.real_base", "c2dlm.real.stg_l"
DECODER, LEFT = "c2dlm.real.decoder", "autoregressive"
BOTH, LONGER = "c2dlm.real.bidirectional", "c2dlm.real.longer"
ADAPTED, SHIFTED = "c2dlm.real.adapted", "shifted"
SIZES = {"S": "c2dlm.real.stg_s", "M": "c2dlm.real.stg_m", "L": HOME}
MOVED, KEPT_BY = "c2dlm.real_moved", "c2dlm.real.adapters"
EXTRA = {"extra": True, "printed_as": "ours", "kind": "measured", "notebook": real.NOTEBOOK}
ARMS = (SFT, "placebo", "c2dlm", "no_v", "isolated", "isolated_placebo", "swapped", "enforced")
PLACEBOS = ("placebo", "isolated_placebo")  # of one seed with the same causes
BASES = {
    HOME: "MiniLM",
    LONGER: "MiniLM, twice the steps",
    **{home: f"MiniLM, size {size}" for size, home in SIZES.items() if home != HOME},
    BOTH: "gemma-3-270m, bidirectional",
    ADAPTED: "gemma-3-270m, bidirectional by degrees",
    DECODER: "gemma-3-270m",
    STG_L: "from scratch",
}
THEIRS = "Llama-3.2-1B"  # the smallest of the paper's autoregressive models
IID, OOD, CAUSES, RAW = "iid", "ood", "weighted attention on causes", "raw attention on causes"
RULES = (
    "the most frequent answer",
    "least squares, spurious",
    "least squares, all",
    "least squares, causes",
)
LATE, END = "validation, before the end", "validation, end"
LOOKS = {  # arm -> colour, marker
    SFT: ("black", "s"),
    "placebo": ("orange", "^"),
    "c2dlm": ("blue", "o"),
    "no_v": ("sky", "v"),
    "isolated": ("purple", "D"),
    "isolated_placebo": ("vermillion", "X"),
    "swapped": ("green", "P"),
}


def _printed(size: str = "L") -> dict[str, str]:
    """Where the paper's Table 4 has a size of the game."""
    return {"group": f"STG_{size}"}


def _graph(name: str) -> str:
    return {
        SFT: "none",
        LEFT: "none",
        "placebo": "random, in the loss",
        "c2dlm": "true, in the loss",
        "no_v": "true, in the loss",
        "isolated": "true, strict, in the loss",
        "isolated_placebo": "random, strict, in the loss",
        "swapped": "true, by which rows are made",
        "enforced": "true, as a mask, at test too",
    }[name]


def _weight(home: str, name: str) -> str:
    """The highest weight of the loss of an arm, "" without one."""
    config = registry.config(home, name, "laptop")
    if config["graph"] == "none" or config["enforced"]:
        return ""
    gamma = config["gamma"]
    return f"{gamma['gamma_max'] if isinstance(gamma, dict) else gamma:g}"


def _levels(home: str, name: str) -> dict[str, Values]:
    """An arm's accuracies on validation rows, at the last looks, and on both tests."""
    looks: dict[str, Values] = {
        said: looked(home, name, "accuracy", at) for said, at in ((LATE, -2), (END, -1))
    }
    return looks | {part: arm(home, name, f"{part}_accuracy") for part in (IID, OOD)}


def _arms():
    for model in PAPER.values():
        yield printed_row(("LLaDA 8B, as printed", model), "c2dlm.table4", row=model, **_printed())
    yield printed_row(("as printed", THEIRS), "c2dlm.table4", row=THEIRS, **_printed())
    for home in (HOME, LONGER, BOTH):
        for name in (one for one in ARMS if one in registry.arms(home)):
            cells = _levels(home, name)
            if name in LOOKS:
                cells[CAUSES] = arm(home, name, "flow_weighted_causes")
                cells[RAW] = arm(home, name, "flow_raw_causes")
            yield Row((BASES[home], NAMES[name], _graph(name), _weight(home, name)), cells)
    yield Row((BASES[ADAPTED], NAMES[SFT], _graph(SFT), ""), _levels(ADAPTED, SHIFTED))
    for name in registry.arms(DECODER):
        told = NAMES[LEFT] if name == LEFT else f"{NAMES[LEFT]}, {NAMES[name]}"
        yield Row((BASES[DECODER], told, _graph(name), ""), _levels(DECODER, name))
    for name in (one for one in (*ARMS, LEFT) if one in registry.arms(STG_L)):
        cells = {part: arm(STG_L, name, f"{part}_accuracy") for part in (IID, OOD)}
        yield Row((BASES[STG_L], NAMES[name], _graph(name), _weight(STG_L, name)), cells)
    yield _without_network


def _without_network(profile):
    found = simple_rules("L", size_parts("L"))
    for name in RULES:
        yield [
            "no network",
            name,
            "",
            "",
            "",
            "",
            "",
            "",
            *(f"{100 * found[name][part]:.1f}" for part in (IID, OOD)),
        ]


def _caption(profile):
    config = registry.config(HOME, SFT, profile)
    return (
        f"The spurious token game L in full sentences, {config['train_rows']:,} rows, {config['steps']:,} "
        f"steps of {config['batch']}: percent right, mean ± half of the 95 % interval (seeds)"
    )


def _notes(profile):
    config, left = registry.config(HOME, SFT, profile), registry.config(DECODER, LEFT, profile)
    adapted = registry.config(ADAPTED, SHIFTED, profile)
    before, sooner, later = (one["steps"] - one["evaluate_every"] for one in (config, left, adapted))
    return (
        f"{config['base']}, all weights tuned at the rate {config['learning_rate']:g}, that of the best try "
        f"of both methods. Validation: {config['validation_rows']} rows drawn as in training, after "
        f"{before:,} steps and after all. Attention on causes: what a token of the answer pays "
        "to the words of its three causes, raw or weighted by value norms, mean over heads, layers and "
        f"{real.WATCHED} i.i.d. rows; under the mask it was not measured. γ returns to 0 at the end; where "
        "concepts are isolated it grows to the highest. Strict: every other concept, and the rest of the "
        "sentence, is drawn to itself alone. Swapped: each number that is no cause is that of another row, "
        f"{registry.config(HOME, 'swapped', profile)['swapped']} copies. {left['base']}: adapters of rank "
        f"{left['lora_rank']}, the same rows, {left['steps']} steps of {left['batch']} at "
        f"{left['learning_rate']:g}, set beforehand, validation after {sooner}, too; bidirectional, it fills "
        "masks where they stand, after as many steps and nothing before; by degrees (attention-mask "
        f"annealing), what follows comes into sight over {100 * adapted['annealed']:.0f} % of "
        f"{adapted['steps']:,} steps, and the head still predicts the token after its place; at the same "
        f"rate, trained and scored in bfloat16, validation after {later}, too. From scratch: the small "
        f"models of notebook 44, in a compact text, {registry.config(STG_L, SFT, profile)['steps']:,} steps. "
        "MiniLM was tuned by its authors on a billion pairs of texts, older than these rows; what gemma has "
        "read is not listed."
    )


accuracies = Report(
    ID,
    [
        "base",
        "model",
        "graph",
        "highest γ",
        Measured(LATE, format=share),
        Measured(END, format=share),
        Measured(CAUSES, format=share),
        Measured(RAW, format=share),
        Measured(IID, format=share, paper={"column": "IID"}),
        Measured(OOD, format=share, paper={"column": "OOD"}),
    ],
    _arms,
    _caption,
    _notes,
)


def _sizes():
    for letter, home in SIZES.items():
        for model in PAPER.values():
            label = letter, "LLaDA 8B, as printed", model
            yield printed_row(label, "c2dlm.table4", row=model, **_printed(letter))
        for name in (SFT, "c2dlm"):
            cells = _levels(home, name) | {CAUSES: arm(home, name, "flow_weighted_causes")}
            yield Row((letter, "MiniLM", NAMES[name]), cells)
        yield partial(_readers, letter)


def _readers(size, profile):
    found = simple_rules(size, size_parts(size))
    for name in RULES[1:]:
        right = (f"{100 * found[name][part]:.1f}" for part in (IID, OOD))
        yield [size, "no network", name, "", "", "", *right]


def _sizes_notes(profile):
    config = registry.config(HOME, SFT, profile)
    rows = (f"{registry.config(home, SFT, profile)['train_rows']:,}" for home in SIZES.values())
    return (
        f"{', '.join(rows)} training rows, the smaller a part of the larger; the same tests, "
        f"{config['steps']:,} steps of {config['batch']}, rates and weight, which were searched with L's "
        f"rows. {config['base']}; columns as in the table of size L."
    )


sizes = Report(
    f"{ID}_sizes",
    [
        "size",
        "base",
        "model",
        Measured(LATE, format=share),
        Measured(END, format=share),
        Measured(CAUSES, format=share),
        Measured(IID, format=share, paper={"column": "IID"}),
        Measured(OOD, format=share, paper={"column": "OOD"}),
    ],
    _sizes,
    "The spurious token game in three sizes: percent right, mean ± half of the 95 % interval (seeds)",
    _sizes_notes,
)

PAIRS = {
    HOME: (
        ("c2dlm", SFT),
        ("c2dlm", "placebo"),
        ("c2dlm", "no_v"),
        ("placebo", SFT),
        ("no_v", SFT),
        ("isolated", SFT),
        ("isolated", "placebo"),
        ("isolated", "c2dlm"),
        ("isolated", "isolated_placebo"),
        ("isolated_placebo", SFT),
        ("swapped", SFT),
        ("swapped", "c2dlm"),
        ("swapped", "isolated"),
        ("enforced", SFT),
        ("enforced", "c2dlm"),
        ("enforced", "isolated"),
    ),
    LONGER: (("c2dlm", SFT),),
    **{home: (("c2dlm", SFT),) for home in SIZES.values() if home != HOME},
    STG_L: (
        ("c2dlm", SFT),
        ("c2dlm", "placebo"),
        ("isolated", SFT),
        ("swapped", SFT),
        ("swapped", "c2dlm"),
        ("enforced", SFT),
    ),
}
SHIFT = f"{OOD} - {IID}, points"


def _differences():
    size_of = {home: size for size, home in SIZES.items()}
    for home, pairs in PAIRS.items():
        where = {"row": "Δ", **_printed(size_of.get(home, "L"))}
        both = cell("c2dlm.table4", join=" / ", **where)
        stated = cell("c2dlm.table4", "{value}", column="OOD", **where)
        compared = [(name, home, other, NAMES[other]) for name, other in pairs]
        if home == LONGER:
            compared += [(name, HOME, name, "the same in half of them") for name in registry.arms(home)]
        for name, its, other, told in compared:
            iid, ood = (
                arm(home, name, f"{part}_accuracy") - arm(its, other, f"{part}_accuracy")
                for part in (IID, OOD)
            )
            said = {"printed": both, "size": stated} if (name, other) == ("c2dlm", SFT) else {}
            label = BASES[home], f"{NAMES[name]} - {told}"
            yield Row(label, {"iid, points": iid, "ood, points": ood, SHIFT: ood - iid}, **said)


differences = Report(
    f"{ID}_differences",
    [
        "base",
        "difference",
        Printed("paper, iid / ood", "none"),
        Measured("iid, points"),
        Measured("ood, points"),
        Measured(SHIFT),
        Reading("reading (ood)", "ood, points"),
    ],
    _differences,
    "The spurious token game, L where no size is named: differences of the same seeds, mean [95 % interval] "
    "(seeds)",
    "Where the paper prints a gain the reading is the verdict by rule on that size, else the side of 0 on "
    "which the interval lies.",
)


def drawn(seed: int) -> tuple[str, ...]:
    """The attributes that the placebo graph of a seed calls the causes of the risk."""
    from causalnb.experiments.c2dlm.real_data import graph_of
    from causalnb.tasks import stg

    config = registry.config(HOME, "placebo", "laptop")
    return graph_of(stg.ATTRIBUTES, config, seed)[0].edges["Risk"]


def true_ones(seed: int) -> int:
    """How many of a placebo's causes are true."""
    from causalnb.tasks import stg

    return len({*drawn(seed)} & {*stg.CAUSES})


def _placebos(profile):
    for name in PLACEBOS:
        found = evidence.require(HOME, profile, [name]).set_index("seed")
        for seed, row in found.iterrows():
            shares = (
                f"{100 * row[its]:.1f}" for its in ("flow_weighted_causes", "iid_accuracy", "ood_accuracy")
            )
            yield [NAMES[name], str(seed), ", ".join(drawn(seed)), str(true_ones(seed)), *shares]


placebos = Report(
    f"{ID}_placebos",
    ["model", "seed", "the placebo's causes", "of them true", "attention on the true causes", IID, OOD],
    [_placebos],
    "MiniLM under placebo graphs, a row for each seed: percent",
    needs=(HOME,),
)


def _tried():
    chosen = json.loads(real.CHOSEN.read_text(encoding="utf-8"))
    for method, names in KEPT.items():
        for name in (one for one in real.SEARCHED if one.startswith(f"{method}_")):
            config = registry.config(SEARCH, name, "laptop")
            gamma = f"{config['gamma']:g}" if config["graph"] != "none" else ""
            cells = {part: arm(SEARCH, name, f"{part}_accuracy") for part in (IID, OOD)}
            used = "yes" if {its: config[its] for its in names} == chosen[method] else ""
            yield Row((NAMES[method], f"{config['learning_rate']:g}", gamma, used), cells)


search = Report(
    f"{ID}_search",
    [
        "model",
        "learning rate",
        "γ",
        "used",
        Measured(IID, format=share),
        Measured(OOD, format=share),
    ],
    _tried,
    "Every try on MiniLM: percent right on development rows, one seed",
    "Rows of another draw than those of the test. Here ood are i.i.d. rows whose spurious numbers are turned "
    "round. The highest mean of both columns is used.",
)


def attention_figure(profile: str | None = None):
    """(figure, alt): o.o.d. accuracy against attention on the causes, a dot for each seed of an arm."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, text_size

    fig, ax = plt.subplots(figsize=(5.8, 3.9))
    found = {
        name: evidence.require(HOME, profile, [name])[["seed", "flow_weighted_causes", "ood_accuracy"]]
        for name in LOOKS
    }
    for name, (colour, marker) in LOOKS.items():
        look = {"color": COLOURS[colour], "edgecolors": "black", "linewidths": 0.5}
        for seed, looks, right in found[name].itertuples(index=False):
            ax.scatter(100 * looks, 100 * right, s=42, marker=marker, **look)
            if name in PLACEBOS:
                beside = {"xytext": (-6, -3), "ha": "right"} if looks > 0.5 else {"xytext": (6, -3)}
                where = {**beside, "textcoords": "offset points", "fontsize": text_size(8)}
                ax.annotate(f"{true_ones(seed)} true", (100 * looks, 100 * right), **where)
        ax.scatter([], [], s=42, marker=marker, label=_short(name), **look)
    means = {name: 100 * frame.mean() for name, frame in found.items()}
    full = [name for name in means if len(found[name]) == len(found[SFT])]  # one seed decides nothing
    looking, best = (max(full, key=lambda name: means[name][of]) for of in [*means[SFT].index][1:])
    said = (
        f"Of these arms, with all seeds, {_short(looking)} looks most at the causes.\n"
        f"Best out of distribution: {', '.join(map(_short, _level(best, full, profile)))}"
    )
    ax.set(xlabel="attention on causes, weighted by value norms, %", ylabel="o.o.d., % right")
    ax.set_title(said, fontsize=text_size(9), loc="left")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=text_size(8))
    told = (
        f"{NAMES[name]} {looks:.0f} and {right:.1f} ({len(found[name])})"
        for name, (_, looks, right) in means.items()
    )
    return fig, (
        "O.o.d. accuracy on MiniLM against the share of weighted attention that goes to the causes, a mark "
        f"for each seed. In percent, attention and accuracy, means over seeds: {'; '.join(told)}."
    )


def _level(best: str, names: Iterable[str], profile: str | None) -> list[str]:
    """The arm `best`, and those of `names` that are not shown to be below it o.o.d."""
    least = {
        name: (arm(HOME, best, "ood_accuracy") - arm(HOME, name, "ood_accuracy")).summary(profile=profile).low
        for name in names
        if name != best
    }
    return [best, *(name for name, low in least.items() if low <= 0)]


def _short(name: str) -> str:
    return NAMES[name].removesuffix(" (ours)")


def competence_remark(profile: str | None = None) -> list[str]:
    """Whether plain tuning can play, and whether its curve was flat; a line each."""
    config = registry.config(HOME, SFT, "laptop")
    plain = arm(HOME, SFT).summary("iid_accuracy", profile).mean
    their = cell("c2dlm.table4", row=PAPER[SFT], column="IID", **_printed())()
    later = gain((looked(HOME, SFT, "accuracy", -1) - looked(HOME, SFT, "accuracy", -2)).of(profile=profile))
    return [
        f"Plain tuning on MiniLM has {100 * plain:.1f} % i.i.d., the LLaDA of the paper {their}.",
        f"In the last third of its {config['steps']:,} steps it gains {later} points on validation rows.",
    ]


@builds(
    ID,
    accuracies,
    sizes,
    placebos,
    search,
    shows="C2DLM on a pre-trained encoder: the spurious token game, its placebos, and the search before",
    **EXTRA,
)
def base(profile):
    """The arms on a real base beside small ones, and how much attention the causes get."""
    caption = (
        "STG_L on MiniLM: where attention goes and what is answered; beside placebos, their true causes."
    )
    draw(profile, ID, attention_figure(profile), caption)


@builds(
    f"{ID}_differences",
    differences,
    shows="C2DLM on a pre-trained encoder: paired differences from plain tuning and from a placebo graph",
    **EXTRA,
)
def base_differences(profile):
    """What guidance adds on a real base, and on small ones."""


def _kept():
    for name in real.KEPT:
        cells: dict[str, Values] = {part: arm(KEPT_BY, name, f"{part}_accuracy") for part in (IID, OOD)}
        cells |= {
            END: looked(KEPT_BY, name, "accuracy", -1),
            CAUSES: arm(KEPT_BY, name, "flow_weighted_causes"),
        }
        yield Row((NAMES[name], _graph(name)), cells)


def _kept_notes(profile):
    config = registry.config(KEPT_BY, SFT, profile)
    return (
        f"Rank {config['lora']}, {config['steps']:,} steps of {config['batch']} at "
        f"{config['learning_rate']:g}, which was not searched; graphs, weights and rows as of the models "
        "whose weights are all tuned."
    )


kept = Report(
    f"{MOVED}_scores",
    ["model", "graph", *(Measured(its, format=share) for its in (END, CAUSES, IID, OOD))],
    _kept,
    "Adapters on MiniLM that come with the course: percent right (seeds)",
    _kept_notes,
)


def moves(profile: str | None = None):
    """DataFrame by attribute: in how many i.i.d. rows another number moves the rule's answer, or an arm's."""
    import pandas as pd

    found = evidence.rows(KEPT_BY, profile, real.KEPT)
    found = found[found["cell"].str.startswith("do/")]
    told = found.pivot_table(index=found["cell"].str[3:], columns=["measure", "arm"], values="value")
    frame = told["changed"][[*real.KEPT]].loc[[*kinds()]]
    return pd.concat([told["should"][real.KEPT[0]].loc[frame.index].rename("rule"), frame], axis=1)


def _moved(profile):
    for (name, line), kind in zip(moves(profile).iterrows(), kinds().values(), strict=True):
        yield [str(name), kind, *(f"{100 * one:.1f}" for one in line)]


moved = Report(
    MOVED,
    ["number that is set", "kind", "by the rule", *(NAMES[name] for name in real.KEPT)],
    [_moved],
    "In how many i.i.d. rows another number changes the answer: percent",
    f"{real.WATCHED} rows, one training each. The number is drawn from 1 to 10, all others stay. By the "
    "rule: in how many the game's own answer changes. Over rows alone the 95 % interval "
    f"of a share is at most {196 * (0.25 / real.WATCHED) ** 0.5:.0f} points to either side.",
    needs=(KEPT_BY,),
)


def moved_figure(profile: str | None = None):
    """(figure, alt): what the rule and each arm answer otherwise when one number is set, by attribute."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size

    found = 100 * moves(profile)
    looks = {"rule": ("the rule of the game", "yellow", "")}
    looks |= {
        name: (_short(name), LOOKS[name][0], hatch)
        for name, hatch in zip(real.KEPT, ("", "..", "//"), strict=True)
    }
    fig, ax = plt.subplots(figsize=(6.6, 3.2))
    for place, (name, (label, colour, hatch)) in enumerate(looks.items()):
        at = np.arange(len(found)) + 0.21 * (place - 1.5)
        look = {"color": COLOURS[colour], "hatch": hatch, "edgecolor": "black", "linewidth": 0.6}
        ax.bar(at, found[name], 0.19, label=label, **look)
    ax.set_xticks(range(len(found)), found.index, rotation=30, ha="right", fontsize=text_size(8))
    ax.set_ylabel("answers that change, %")
    ax.grid(axis="x", visible=False)
    ax.legend(fontsize=text_size(8))
    copies = [name for name, kind in kinds().items() if kind == "spurious"]
    means = found.loc[copies].mean()
    told = ", ".join(f"{_short(name)} {means[name]:.0f}\N{NO-BREAK SPACE}%" for name in real.KEPT)
    headline(fig, f"Answers that move when a copy of a cause is set, and should not: {told}")
    listed = "; ".join(
        f"{label}: {', '.join(f'{name} {one:.1f}' for name, one in found[arm].items())}"
        for arm, (label, *_) in looks.items()
    )
    return fig, f"Answers that change when one number is set, in percent. {listed}."


@builds(
    MOVED,
    kept,
    moved,
    shows="What moves the answer of a tuned encoder: one number of the token game set, all others as before",
    **EXTRA,
)
def base_moved(profile):
    """Which numbers decide the answers of models whose adapters are kept."""
    caption = (
        "STG_L on MiniLM with adapters: in how many rows another number of an attribute moves the answer."
    )
    draw(profile, MOVED, moved_figure(profile), caption)
