"""Two domains whose modules must differ: what the losses of independence do there, and what it is worth."""

from collections.abc import Sequence

from causalnb.experiments.iclm.pair import (
    COUNTS,
    PLAIN,
    RATES,
    SIMILARITIES,
    WEIGHED,
    PairSettings,
    chosen,
    name_of,
    searched,
    tried,
)
from causalnb.experiments.iclm.pair_choose import LEARNED
from causalnb.lab import evidence, registry
from causalnb.lab.report import (
    Arm,
    Measured,
    Reading,
    Report,
    Row,
    Values,
    arm,
    builds,
    draw,
    fraction,
    gain,
    number,
    values,
)
from causalnb.tasks import two_mechanisms

HOME, SEARCH = "iclm.pair", "iclm.pair.search"
NAMES = {
    "single": "one module",
    "small": "one module of the invariant one's size",
    "separate": "domain modules, no invariant one",
    "none": "ICLM, no loss of independence",
    "paper": "ICLM, Equation 3 as printed",
    "code": "ICLM, all losses, Equation 3 clamped",
    "strong": "ICLM, Equation 3, strong",
    "strongest": "ICLM, Equation 3, the most tried",
    "ours": "ICLM, alignment",
    "free": "free: none",
    "free_strong": "free: Equation 3, strong",
    "free_strongest": "free: Equation 3, the most tried",
    "free_ours": "free: alignment",
    "oracle": "ICLM, told the domain",
    "built": "ICLM, each module shown its part alone",
}
LOOKS = {
    "none": ("black", "o"),
    "paper": ("black", "s"),
    "code": ("black", "D"),
    "oracle": ("black", "P"),
    "strong": ("orange", "o"),
    "strongest": ("orange", "s"),
    "ours": ("blue", "o"),
    "free": ("black", "^"),
    "free_strong": ("orange", "^"),
    "free_strongest": ("orange", "v"),
    "free_ours": ("blue", "^"),
    "built": ("green", "*"),
}
LEAST_SHOWN, LITTLE = 1e-5, 0.005  # nats: where smaller ones are drawn, and below which information is little
DIFFERENCES = (
    *((arm, "none") for arm in ("paper", "code", "strong", "strongest", "ours", "free", "oracle")),
    *((arm, "free") for arm in ("free_strong", "free_strongest", "free_ours")),
    *((arm, "small") for arm in ("none", "free", "free_strong", "free_ours", "built")),
    *((arm, "single") for arm in ("none", "separate", "free_strong", "built")),
    ("built", "oracle"),
)
DEPENDENCE = {
    "mutual information": ("own_states", "forward"),
    "Pearson's correlation": ("own_states", "pearson"),
    "alignment (debiased CKA)": ("own_states", "cka"),
    "answers that change with the domain module's state": ("exchanged", "domain"),
}
ALONE = tuple(name for name in LOOKS if name != "built" and not name.startswith("free"))
OVER = {f"all {len(LOOKS)}": tuple(LOOKS), f"the {len(ALONE)} whose modules must answer alone": ALONE}
READERS = {"composer": "reader of both tables", "lookup": "reader of pairs", "borrower": "reader of words"}


def tuned(name: str, similarity: float = 0.0, modules: int = 2) -> Arm:
    """An arm in a cell of the map, "untrained" in none."""
    return arm(HOME, name if name == "untrained" else name_of(name, similarity, modules))


def _expected(reader: str) -> list:
    """A finished row of the table: what a reader is expected to reach."""
    reached = two_mechanisms.reached(reader, PairSettings.classes, 0.0, PairSettings.both)
    return [f"expected: {READERS[reader]}", f"{reached['iid']:.3f}", f"{reached['ood']:.3f}", *[""] * 5]


def _rows():
    yield from map(_expected, READERS)
    for name, label in (NAMES | {"untrained": "ICLM, untrained"}).items():
        whole = {head: tuned(name) for head in ("i.i.d.", "o.o.d.")}
        parts = {head: tuned(name) for head in PARTS if name not in ("single", "small", "separate")}
        yield Row(label, whole | parts)


def _unsigned_zero(digits: int):
    """`number`, without the sign that rounding leaves before zeros."""
    return lambda values: number(digits)([round(value, digits + 2) + 0.0 for value in values])


PARTS = {  # columns on the modules of ICLM
    "mutual information": ("own_states_forward", _unsigned_zero(4)),
    "alignment": ("own_states_cka", _unsigned_zero(3)),
    "invariant module alone": ("invariant_iid_accuracy", fraction()),
    "domain module alone": ("own_iid_accuracy", fraction()),
    "domain module's state exchanged": ("exchanged_domain", fraction()),
}


def _settings(profile: str | None) -> str:
    weights = ", ".join(f"{NAMES[arm]} {weight:g}" for arm, weight in chosen()["weights"].items())
    return (
        "A model answers what a domain says to a word: whose class is shared, what is said to a class the "
        "domain's own; o.o.d. asks for words in the domain in which they were not trained. Measured i.i.d.: "
        "how dependent a domain module's states are on the invariant one's, on its own rows; accuracy of one "
        "module alone; accuracy where the domain module's state is that of another row of its domain. "
        "'free': domain modules need not answer by themselves (α = 1, β = 0). Weights, chosen on other "
        f"pairs: {weights}; Equation 3 as printed has 0.01."
    )


pair_table = Report(
    HOME,
    [
        "",
        Measured("i.i.d.", "iid_accuracy", fraction()),
        Measured("o.o.d.", "ood_accuracy", fraction()),
        *(Measured(head, metric, format) for head, (metric, format) in PARTS.items()),
    ],
    _rows,
    "Two domains that share one mechanism and no answer: accuracy, and what the modules have become",
    _settings,
)


def _compared():
    for name, other in DIFFERENCES:
        yield Row(f"{NAMES[name]} - {NAMES[other]}", tuned(name) - tuned(other))


pair_differences = Report(
    "iclm.pair_differences",
    ["difference", Measured("o.o.d. accuracy, points", "ood_accuracy", gain), Reading("reading")],
    _compared,
    "Two domains that share no answer: paired differences of accuracy o.o.d., mean [95 % interval]",
)


def _mapped():
    for modules in COUNTS:
        for name in MAPPED:
            cells = {f"{similarity:g}": tuned(name, similarity, modules) for similarity in SIMILARITIES}
            yield Row((NAMES[name], f"{modules}"), cells)


MAPPED = ("single", *PLAIN, *WEIGHED)
pair_map = Report(
    "iclm.pair_map",
    [
        "",
        "domain modules",
        *(Measured(f"{similarity:g}", "ood_accuracy", fraction()) for similarity in SIMILARITIES),
    ],
    _mapped,
    "Accuracy o.o.d. by the share of classes to which both domains say the same, and domain modules",
    "One module trains as much as ICLM does in its domain modules and the invariant one.",
)


def steps_of(name: str) -> str:
    """How many steps an arm of the search trains."""
    return f"{registry.config(SEARCH, name, 'laptop')['steps']:,}"


def predicted(cell: str, measure: str, ways: Sequence[str] = tuple(LOOKS)) -> Values:
    """Spearman's correlation over ICLM's arms of a measure of dependence with accuracy o.o.d., by seed.

    Of the exchange: of the share of answers that change.
    """
    names = [name_of(name, 0.0) for name in ways]

    def make(profile):
        rows = evidence.rows(HOME, profile, names)

        def of(cell, measure):
            some = rows[(rows.cell == cell) & (rows.measure == measure)]
            return some.pivot(index="seed", columns="arm", values="value")[names]

        dependence, right = of(cell, measure), of("ood", "accuracy")
        dependence = 1 - dependence if cell == "exchanged" else dependence
        return dependence.corrwith(right, axis=1, method="spearman")

    return values(make, HOME)


pair_predicts = Report(
    "iclm.pair_predicts",
    ["over", "measure of dependence", Measured("correlation", format=number(2)), Reading("reading")],
    [
        Row((over, label), predicted(*place, ways))
        for over, ways in OVER.items()
        for label, place in DEPENDENCE.items()
    ],
    "Does independence predict accuracy? Rank correlation with accuracy o.o.d. over ways of training",
    "Over ICLM's ways of training on one pair of domains without common answers, then mean ± half of the "
    "95 % interval over pairs. Below 0: the more independent, the better.",
)


pair_search = Report(
    "iclm.pair_search",
    [
        "",
        "rate",
        "steps",
        *(
            Measured(head, f"{part}_accuracy", fraction())
            for head, part in (("i.i.d.", "iid"), ("o.o.d.", "ood"))
        ),
    ],
    lambda: [
        Row(
            (
                name.replace("_", " "),
                f"{registry.config(SEARCH, name, 'laptop')['learning_rate']:g}",
                steps_of(name),
            ),
            arm(SEARCH, name),
        )
        for name in searched()
    ],
    "What was tried on two other pairs of domains: rates, weights of the losses, twice the steps",
    lambda profile: (
        f"Used: of what reaches {LEARNED:.0%} i.i.d., the best o.o.d. The least or the most of the weights "
        f"that were tried is used by {_at_edges()}."
    ),
)


def _at_edges() -> str:
    """The arms whose chosen weight is at an end of those that were tried."""
    weights = chosen()["weights"]
    return "; ".join(
        NAMES[arm] for arm, (_, tried) in WEIGHED.items() if weights[arm] in (tried[0], tried[-1])
    )


def _mean(name: str, metric: str, profile: str | None) -> float:
    """Mean over seeds of an arm's metric, where the domains share no answer."""
    found = tuned(name).of(metric, profile)
    return abs(sum(found) / len(found))


def pair_remarks(profile: str | None = None) -> list[str]:
    """What the table says of composing, of modules alone, and of modules that say nothing."""
    names = ("built", "single", "small", "none", "separate")
    new = {name: _mean(name, "ood_accuracy", profile) for name in names}
    lookup = two_mechanisms.reached("lookup", PairSettings.classes)["ood"]
    most, free = (
        [
            _mean(name, metric, profile)
            for metric in ("own_states_forward", "invariant_iid_accuracy", "own_iid_accuracy", "ood_accuracy")
        ]
        for name in ("strongest", "free_strongest")
    )
    said = (
        "{:.4f} nats; alone the invariant module answers {:.2f} of the trained pairs, the domain's {:.2f}; "
        "both together {:.2f} of the new ones"
    )
    return [
        f"New pairs: {', '.join(f'{NAMES[name]} {share:.2f}' for name, share in new.items())}; a lookup "
        f"table is expected to have {lookup:.3f}.",
        f"ICLM without a loss of independence has {new['none']:.2f} of the new pairs, its invariant module "
        f"alone {_mean('none', 'invariant_ood_accuracy', profile):.2f}.",
        f"{NAMES['strongest']}: {said.format(*most)}.",
        f"{NAMES['free_strongest']}: {said.format(*free)}.",
        *(
            f"Rank correlation with accuracy o.o.d. over {over}: "
            + ", ".join(
                f"{label} {predicted(*place, ways).summary(profile=profile).mean:+.2f}"
                for label, place in DEPENDENCE.items()
            )
            + "."
            for over, ways in OVER.items()
        ),
    ]


def pair_longer(profile: str | None = None) -> str:
    """What twice the steps change of accuracy o.o.d. on the pairs of the search, in a sentence."""
    told = []
    for name, side in (("single", "single"), ("none", "iclm")):
        rate = next(rate for rate, value in RATES.items() if value == chosen()["rates"][side])
        once, twice = (arm(SEARCH, tried(name, what)).of("ood_accuracy", profile) for what in (rate, "twice"))
        told.append(f"{NAMES[name]} from {sum(once) / len(once):.2f} to {sum(twice) / len(twice):.2f}")
    seeds = registry.seeds(SEARCH, "laptop", tried("single", "twice"))
    return f"Twice the steps, on {len(seeds)} other pairs, change accuracy o.o.d.: {', '.join(told)}."


def shares(name: str, measure: str, profile: str | None = None, cell: str = "ood") -> list[float]:
    """A measure of an arm by seed, where the domains share no answer."""
    return tuned(name).of(f"{cell}_{measure}", profile)


def _heat(ax, modules: int, profile: str | None) -> str:
    import numpy as np

    from causalnb.lab.figures import text_size

    means = np.array(
        [
            [
                np.mean(tuned(name, similarity, modules).of("ood_accuracy", profile))
                for similarity in SIMILARITIES
            ]
            for name in MAPPED
        ]
    )
    ax.imshow(means, aspect="auto", cmap="Greys", vmin=0.0, vmax=1.6)
    for row, line in enumerate(means):
        for column, value in enumerate(line):
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=text_size(8))
    ax.set_xticks(range(len(SIMILARITIES)), [f"{similarity:g}" for similarity in SIMILARITIES])
    ax.set_yticks(range(len(MAPPED)), [NAMES[name] for name in MAPPED])
    ax.set_title(f"{modules} domain modules", fontsize=text_size(9))
    ax.set_xlabel("answers in common", fontsize=text_size(8))
    ax.grid(False)
    best = MAPPED[int(means[:, 0].argmax())]
    return (
        f"with {modules} domain modules and no shared answer {NAMES[best]} is best, {means[:, 0].max():.2f}"
    )


def _scatter(ax, profile: str | None) -> str:
    """Accuracy o.o.d. against the information of the modules, a point for each seed."""
    import numpy as np

    from causalnb.lab.figures import COLOURS, text_size

    told, points = [], []
    for name, (colour, marker) in LOOKS.items():
        x, y = shares(name, "forward", profile, "own_states"), shares(name, "accuracy", profile)
        shown = np.maximum(x, LEAST_SHOWN)
        ax.scatter(shown, y, s=26, color=COLOURS[colour], marker=marker, alpha=0.7, label=NAMES[name])
        told.append(f"{NAMES[name]}: {abs(np.mean(x)):.4f} nats, {np.mean(y):.2f}")
        points += zip(x, y, strict=True)
    little = [right for information, right in points if information < LITTLE]
    one = np.mean(shares("single", "accuracy", profile))
    ax.axhline(one, color="black", linestyle="--", marker="", linewidth=1)
    ax.text(
        1, one + 0.01, "one module", ha="right", fontsize=text_size(7), transform=ax.get_yaxis_transform()
    )
    ax.set(xscale="log", ylim=(-0.03, 1.05))
    ax.set_xlabel("mutual information of the modules, nats", fontsize=text_size(8))
    ax.set_title(
        f"Less than {LITTLE:g} nats: {min(little):.2f} to {max(little):.2f} right"
        if little
        else "accuracy o.o.d.",
        fontsize=text_size(9),
    )
    ax.legend(fontsize=text_size(7), loc="center left", bbox_to_anchor=(1.0, 0.5))
    return f"{'; '.join(told)}; one module has {one:.2f}"


def pair_figure(profile: str | None = None):
    """(figure, alt): maps of accuracy o.o.d., and accuracy against the dependence of modules."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import headline

    fig, (*maps, ax) = plt.subplots(1, 3, figsize=(10.6, 3.6), width_ratios=[1, 1, 1.9])
    told = [_heat(place, modules, profile) for place, modules in zip(maps, COUNTS, strict=True)]
    maps[1].set_yticklabels([])
    told.append(_scatter(ax, profile))
    best, other = (shares(name, "accuracy", profile) for name in ("built", "none"))
    headline(
        fig,
        f"New pairs right where no answer is shared: {np.mean(best):.2f} with modules shown their part "
        f"alone, {np.mean(other):.2f} with ICLM's",
    )
    return fig, f"Two maps and a scatter plot of accuracy out of distribution. {'; '.join(told)}."


@builds(
    HOME,
    pair_table,
    pair_differences,
    pair_map,
    pair_predicts,
    pair_search,
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="35_when_modules_pay",
    shows="losses of independence where modules must differ: accuracy, dependence, idle modules",
)
def pair(profile):
    """What independence is worth, by how it was come by."""
    caption = (
        "Accuracy o.o.d. by shared answers, loss and number of modules; accuracy against the dependence of "
        "the modules where no answer is shared, a point for each seed."
    )
    draw(profile, HOME, pair_figure(profile), caption)
