"""What a router and a loss between modules see in a real base's states: tables and a figure."""

from functools import partial
from itertools import product

from causalnb.experiments.iclm.artefacts.fig4 import printed_matrices
from causalnb.experiments.iclm.artefacts.scores import FAMILIES
from causalnb.experiments.iclm.real import NOTEBOOK
from causalnb.experiments.iclm.real_router import PAIRS, PLACES, READ, ROUTERS, SETS
from causalnb.lab import evidence, registry, results
from causalnb.lab.report import Measured, Report, Row, Values, arm, builds, draw, first, mean, number, share

HOME, ARM = "iclm.real.router", "bare"
STATES_OF = {**dict.fromkeys(PLACES, "iclm.real.dependence"), "said": "iclm.real.said"}  # place -> experiment
ID = "iclm.real_router"
EXTRA = {"extra": True, "printed_as": "ours", "kind": "measured", "notebook": NOTEBOOK}
WHAT = dict(
    zip(
        READ,
        (
            "its length alone",
            "its mean word vector",
            "the same, of its first tokens",
            "the mean state, of its first tokens",
            "the mean state, half-way up",
            "the mean state, last layer",
        ),
        strict=True,
    )
)
KINDS = dict(zip(ROUTERS, ("as printed", "started from data", "K-means"), strict=True))
STATES = dict(zip(PAIRS, ("the same states", "another prompt's"), strict=True))
GIVEN = "what is read of a prompt"


def _of(cell: str, measure: str, home: str = HOME) -> Values:
    return arm(home, ARM, f"{cell}_{measure}".replace("/", "_"))


def _shifted(family: str, what: str, kind: str) -> Values:
    """The share over the shifted cells of a family, by seed."""
    return mean(*(_of(f"{family}/{what}/{kind}", cell) for cell in SETS[family][1:]))


def _routed_rows():
    for family, what in product(SETS, READ):
        cells: dict[str, Values] = {}
        for kind, name in KINDS.items():
            cells[f"{name}, i.i.d."] = _of(f"{family}/{what}/{kind}", SETS[family][0])
            cells[f"{name}, shifted"] = _shifted(family, what, kind)
        yield Row((FAMILIES[family], WHAT[what]), cells)


def _routed_notes(profile):
    config = registry.config(HOME, ARM, profile)
    evidence.require(HOME, profile)
    tokens = results.read(HOME, ARM, 0, profile).value("", "first_tokens")
    return (
        f"{config['base']}, untuned. A router of two modules is fitted to {config['train_rows']} drawn "
        f"problems of the i.i.d. set in both formats, and tested on {config['test_rows']} published ones of "
        "each set; which module is whose is settled on what it was fitted to. Shifted: the mean over the two "
        f"shifted sets. First tokens: as many of each prompt as the shortest has, {tokens:.0f} in the first "
        "seed. As printed: Equation 1, centroids near the origin; started from data: at inputs that lie far "
        "apart. What the base has read is not listed, and these sets are public."
    )


routed_table = Report(
    ID,
    [
        "task",
        GIVEN,
        *(
            Measured(f"{name}, {where}", format=share)
            for name in KINDS.values()
            for where in ("i.i.d.", "shifted")
        ),
    ],
    _routed_rows,
    "Prompts that an unsupervised router sends to their format's module, %, mean ± half of the 95 % "
    "interval (seeds)",
    _routed_notes,
)

APART = {
    "six sets": "sets",
    **{f"{said}, formats": f"{family} formats" for family, said in FAMILIES.items()},
    **{f"{said}, i.i.d. and shifted": f"{family} shifts" for family, said in FAMILIES.items()},
}
apart_table = Report(
    f"{ID}_apart",
    [GIVEN, *(Measured(heading, format=number(2)) for heading in APART)],
    lambda: [
        Row(said, {heading: _of(f"apart/{what}", measure) for heading, measure in APART.items()})
        for what, said in WHAT.items()
    ],
    "How far apart prompts lie in what is read of them: silhouettes, mean ± half of the 95 % interval "
    "(seeds)",
    "1: apart, 0: not. At full width, on published prompts. Six sets: ACRE and RAVEN i.i.d. in two formats, "
    "pointer values, ARC. I.i.d. and shifted: within a format, mean over both formats and both shifts.",
)


def _nats(values) -> str:
    return number(4)([max(0.0, value) for value in values])  # below 0 is rounding


SIZES = 3  # numbers of rows that dependence is measured on
MEASURES = {  # heading -> measure, format
    "MI, as printed": ("printed", _nats),
    "norm of its gradient": ("printed_gradient", number(4)),
    "MI, as published": ("published", number(4)),
    "joint above the clamp, %": ("kept", number(3, 100)),
    "Pearson's r": ("pearson", number(2)),
    "r without the mean state": ("centred", number(2)),
    "CKA, debiased": ("cka", number(2)),
}
TOKENS = {"answer": "where answers begin", "said": "at an answer's first token", "any": "anywhere"}


def _label_rows(profile: str | None) -> list[int]:
    return registry.config(STATES_OF["any"], ARM, profile)["label_rows"]


def _said_rows(at: int, profile: str | None = None) -> str:
    return f"{_label_rows(profile)[at]}"


def _dependence_rows():
    for place, family, at, pair in product(TOKENS, SETS, range(SIZES), PAIRS):
        found = {
            head: _of(f"{family}/{place}/{pair}/{at}", measure, STATES_OF[place])
            for head, (measure, _) in MEASURES.items()
        }
        yield Row((TOKENS[place], FAMILIES[family], partial(_said_rows, at), STATES[pair]), found)


def _dependence_notes(profile):
    config = registry.config(STATES_OF["any"], ARM, profile)
    return (
        f"{config['base']}, untuned, the last layer's states, one of each of the prompts that routers were "
        "fitted to. The same states: what two modules give whose low-rank maps begin at 0. MI: Equation 2, "
        f"in nats; as published: reversed, and probabilities below {config['clamp']:g} set to it. "
        "What the base has read is not listed, and these sets are public."
    )


dependence_table = Report(
    f"{ID}_dependence",
    [
        "tokens",
        "task",
        "rows",
        "states beside",
        *(Measured(head, format=its) for head, (_, its) in MEASURES.items()),
    ],
    _dependence_rows,
    "Measures of dependence where it is known: the same states, and another prompt's; mean ± half of the "
    "95 % interval (seeds)",
    _dependence_notes,
)
PEAKS = {  # heading -> measure, format
    "features": ("width", first("{:.0f}")),
    "standard deviation": ("deviation", number(2)),
    "mean probability of the largest, %": ("largest", share),
    "rows that share their largest, %": ("commonest", share),
}
peaks_table = Report(
    f"{ID}_peaks",
    ["tokens", "task", *(Measured(head, format=its) for head, (_, its) in PEAKS.items())],
    lambda: [
        Row(
            (TOKENS[place], FAMILIES[family]),
            {
                head: _of(f"{family}/{place}", measure, STATES_OF[place])
                for head, (measure, _) in PEAKS.items()
            },
        )
        for place, family in product(TOKENS, SETS)
    ],
    "How peaked softmax over the features of a state is: mean ± half of the 95 % interval (seeds)",
    "Equation 2 reads a state as logits over its features. Largest: a row's most probable feature.",
)
FAST = 1e-4  # nats: below this the paper's mutual information falls quickly (claim 21)
MARKS = {"text": "o", "symbolic": "^"}
SHADES = {"acre": "blue", "raven": "vermillion", "pvr": "green", "arc": "purple"}


def _map(ax, profile) -> None:
    from causalnb.lab.figures import COLOURS, text_size

    evidence.require(HOME, profile)
    rows = results.curves(HOME, profile, [ARM])
    rows = rows[rows["seed"] == rows["seed"].min()]
    for name, its in rows.groupby("set", sort=False):
        family, *cell = name.split()
        shifted = bool(cell) and cell[0] != SETS[family][0]
        mark = MARKS[cell[1]] if cell else "s"
        look = {
            "facecolors": "none" if shifted else COLOURS[SHADES[family]],
            "edgecolors": COLOURS[SHADES[family]],
        }
        label = None if shifted else " ".join((FAMILIES.get(family, family.upper()), *cell[1:]))
        ax.scatter(its["x"], its["y"], s=14, marker=mark, linewidths=0.7, label=label, **look)
    ax.legend(fontsize=text_size(7), loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3)
    ax.set(xlabel="first axis", ylabel="second axis")
    ax.set_title("what the router reads, last layer; filled: i.i.d.", fontsize=text_size(9))


def router_figure(profile: str | None = None):
    """(figure, alt): the map of prompts, correlations and mutual information where dependence is known."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(9.8, 3.6), width_ratios=[1.4, 1, 1])
    _map(left, profile)
    rows, told, means = [*product(PAIRS, TOKENS, SETS)], [], {}
    for ax, measure, name in ((middle, "pearson", "r"), (right, "printed", "mutual information")):
        for height, (pair, place, family) in enumerate(rows):
            cell = f"{family}/{place}/{pair}/{SIZES - 1}"
            found = _of(cell, measure, STATES_OF[place]).of(profile=profile)
            ax.scatter(found, [height] * len(found), s=16, color=COLOURS[SHADES[family]], zorder=3)
            means[measure, pair, place, family] = np.mean(found)
            told.append(f"{name} of {STATES[pair]}, {TOKENS[place]}, {FAMILIES[family]} {np.mean(found):.2g}")
        ax.set_ylim(len(rows) + 0.7, -0.5)
    for at, (family, matrix) in enumerate(_printed().items()):
        values = matrix[np.triu_indices(3, 1)]
        look = {"color": COLOURS[SHADES[family]], "marker": "x", "linewidths": 1.0}
        middle.scatter(values, [len(rows) + 0.3 * at] * len(values), s=20, zorder=3, **look)
    names = [f"{STATES[pair]}, {TOKENS[place]}" for pair, place, _ in rows[:: len(SETS)]]
    heights = [*np.arange(0.5, len(rows), len(SETS)), len(rows) + 0.15]
    middle.set_yticks(heights, [*names, "two modules, printed"], fontsize=text_size(7.5))
    middle.set(xlim=(0, 1.05), xlabel="Pearson's r")
    right.axvline(FAST, color="black", linestyle=":", linewidth=1)
    right.annotate(" printed: falls below", (FAST, len(rows) + 0.2), fontsize=text_size(7.5))
    right.set_xscale("symlog", linthresh=1e-6)
    right.set(xlim=(-5e-7, 5), xlabel="mutual information, nats", xticks=[0, 1e-4, 1e-2, 1])
    right.set_yticks(heights, [])
    same, other = (
        np.mean([means[measure, pair, "answer", family] for family in SETS])
        for measure, pair in zip(("printed", "pearson"), PAIRS, strict=True)
    )
    headline(
        fig,
        f"Where answers begin: a module and its copy share {abs(same):.3f} nats; unrelated prompts have "
        f"r = {other:.2f}",
    )
    return fig, (
        "A map of prompts in two dimensions, by task and format, filled where i.i.d.; beside it Pearson's r "
        f"and mutual information of states that are the same or another prompt's. {'; '.join(told)}."
    )


def _printed() -> dict:
    """{family: (3, 3)} of the paper's Figure 4, i.i.d."""
    return {family: values for (family, which), values in printed_matrices().items() if which == "iid"}


@builds(
    ID,
    routed_table,
    apart_table,
    peaks_table,
    dependence_table,
    shows="what a router and a loss between modules see in a real language model's states",
    **EXTRA,
)
def real_router(profile):
    """A real base's states as a router and as a loss between modules read them: tables and a figure."""
    caption = (
        "Left: prompts in two dimensions, filled where i.i.d., first seed. Middle and right: measures of "
        "dependence of states that are the same, or another prompt's; a dot is a seed, crosses are the "
        "paper's modules at test time."
    )
    draw(profile, ID, router_figure(profile), caption)


def routed_remark(profile: str | None = None) -> list[str]:
    """What K-means sends rightly by length, word vectors and the last layer's states; a line a task."""
    told = []
    for family, said in FAMILIES.items():
        parts = []
        for what in ("length", "words", "last"):
            near = _of(f"{family}/{what}/kmeans", SETS[family][0]).of(profile=profile)
            far = _shifted(family, what, "kmeans").of(profile=profile)
            parts.append(f"by {WHAT[what]} {share(near)} % i.i.d. and {share(far)} % of shifted prompts")
        told.append(f"{said}, K-means: {'; '.join(parts)}.")
    return told


def dependence_remark(profile: str | None = None) -> list[str]:
    """What is the same and what is not, in nats and by correlation, beside printed values; a line a task."""
    import numpy as np

    n, pairs, told = _label_rows(profile)[-1], np.triu_indices(3, 1), []

    def mean_of(cell: str, measure: str) -> float:
        place = cell.split("/")[1]
        return _of(cell, measure, STATES_OF[place]).summary(profile=profile).mean

    for place, (family, said) in product(TOKENS, FAMILIES.items()):
        nats, r, cka = (
            [abs(mean_of(f"{family}/{place}/{pair}/{SIZES - 1}", measure)) for pair in PAIRS]
            for measure in ("printed", "pearson", "cka")
        )
        peak = 100 * mean_of(f"{family}/{place}", "commonest")
        printed = _printed()[family][pairs]
        told.append(
            f"{said}, {TOKENS[place]}: {peak:.0f} % of the rows have the same largest feature. In {n} rows "
            f"a module and its copy share {nats[0]:.4f} nats, two prompts {nats[1]:.4f}; "
            f"{np.log(n):.1f} are possible. Two prompts have r = {r[1]:.2f}, the paper's modules at test "
            f"time {min(printed):.2f} to {max(printed):.2f}. Debiased CKA: {cka[0]:.2f} and {cka[1]:.2f}."
        )
    return told
