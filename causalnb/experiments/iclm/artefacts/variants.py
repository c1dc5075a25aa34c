"""Tables 4 to 7 and Figure 8 of ICLM: other routers and other aggregations, beside the default of both."""

import math
from dataclasses import dataclass

from causalnb.errors import LabError
from causalnb.lab import evidence
from causalnb.lab.registry import artefact
from causalnb.lab.tables import points
from causalnb.lab.verdicts import reading

DEFAULT, ITEMS = "iclm", 101  # items: all printed accuracies but three are k / 101
NAMES = {
    "iclm": "ICLM",
    "weighted": "ICLM-Weighted",
    "kmeans": "ICLM-K-Means",
    "logit": "ICLM-Logits",
    "probability": "ICLM-Probas",
}  # arm -> the paper's row
FORMATS = {"text": "Text", "symbolic": "Symb"}
FAMILIES = {"acre": "ACRE", "raven": "RAVEN"}
SCORES = {"acre": {"exact": "exact"}, "raven": {"exact": "exact panel", "choice": "choice of eight"}}
SOFT = "weighted"  # its shares of modules are of the largest weight, which says little
ROUTERS, AGGREGATIONS = ("weighted", "kmeans"), ("logit", "probability")
CLAIMS = {  # table -> family, arms, {claim: the arms whose mean it compares with the default}
    "iclm.table4": ("acre", ROUTERS, {"iclm.claim24": ROUTERS[:1], "iclm.claim25": ROUTERS[1:]}),
    "iclm.table5": ("raven", ROUTERS, {"iclm.claim26": ROUTERS}),
    "iclm.table6": ("acre", AGGREGATIONS, {"iclm.claim27": AGGREGATIONS}),
    "iclm.table7": ("raven", AGGREGATIONS, {"iclm.claim28": AGGREGATIONS[:1]}),
}
NEEDS = {family: (f"iclm.{family}", f"iclm.variants.{family}") for family in FAMILIES}
SPIKE, NEAR = 1.5, 3  # a spike is so many times the medians of so many evaluations before and after


def over_seeds(values):
    """Summary of values, one a seed."""
    from causalnb.lab.statistics import mean_ci

    return mean_ci([*values])


def decided(claim: str, contrasts):
    """The Verdict on a claim of ICLM from contrasts, by the direction and the size of claims.csv."""
    from causalnb.lab.verdicts import claims, verdict

    row = claims("iclm").set_index("id").loc[claim]
    size = None if row["size"] != row["size"] else float(row["size"])
    return verdict([*contrasts], size, -1 if row["direction"] == "-" else 1)


# ------------------------------------------------------------------------------------------------ scores
def places(family: str) -> list[tuple[str, str]]:
    """The six (cell, format) of a family in the paper's order."""
    from causalnb.experiments.iclm import grid as iclm_grid

    return [(cell, format) for cell in iclm_grid.FAMILIES[family]["cells"] for format in FORMATS]


def headings(table: str) -> list[str]:
    """The paper's headings of the six columns of a table."""
    from causalnb.lab.tables import paper

    return list(dict.fromkeys(f"{line.group} {line.column}" for line in paper(table).itertuples()))


def printed_rows(table: str) -> dict[str, list[float]]:
    """{the paper's row: its six accuracies} of a table."""
    from causalnb.lab.tables import paper

    return {row: lines["value"].tolist() for row, lines in paper(table).groupby("row", sort=False)}


def home(family: str, arm: str) -> str:
    """The experiment that trains an arm."""
    return f"iclm.{family}" if arm == DEFAULT else f"iclm.variants.{family}"


def measured(family: str, arm: str, score: str = "exact", profile: str | None = None):
    """DataFrame of an arm, a row for each seed and a column for each of `places`; LabError if missing."""

    found = evidence.require(home(family, arm), profile, [arm]).set_index("seed")
    named = {f"{cell}_{format}_{score}": (cell, format) for cell, format in places(family)}
    return found[[*named]].rename(columns=named)


def gap(family: str, arms: tuple[str, ...], score: str = "", profile: str | None = None):
    """DataFrame like `measured`: the mean of arms minus the default, on the seeds that all have.

    By default of what the paper scores: ACRE's word, RAVEN's choice of eight.
    """
    score = score or [*SCORES[family]][-1]
    ours = sum(measured(family, arm, score, profile) for arm in arms) / len(arms)
    return (ours - measured(family, DEFAULT, score, profile)).dropna()


def told_apart(family: str, arm: str, profile: str | None = None):
    """Series by seed: how differently the two formats are routed, 0 (alike) to 1 (to different modules).

    Half the sum over modules of the difference of shares, the mean over cells.
    """

    found = evidence.require(home(family, arm), profile, [arm]).set_index("seed")
    apart = []
    for cell in dict.fromkeys(cell for cell, _ in places(family)):
        shares = [
            found[sorted(found.filter(regex=f"^{cell}_{format}_module"))].to_numpy() for format in FORMATS
        ]
        apart.append(abs(shares[0] - shares[1]).sum(1) / 2)
    return found.assign(apart=sum(apart) / len(apart))["apart"]


# -------------------------------------------------------------------------------- the floor of Appendix C
def largest_factor(weights) -> float:
    """How many times as likely as another a word can be by Equations 14 to 16, modules weighted in [0, 1).

    A module of weight w moves a word between (1 - w)/2 and (1 + w)/2, and the modules' factors multiply.
    """
    return math.prod((1 + weight) / (1 - weight) for weight in weights)


def entropy_floor(words: int, weights=(0.5, 0.5)) -> float:
    """The least cross-entropy, nats, of a vocabulary by Equations 14 to 16: log((V - 1 + g) / g).

    g is `largest_factor`; with two weights of one half it is 9, and the floor log((V + 8) / 9).
    """
    factor = largest_factor(weights)
    return math.log((words - 1 + factor) / factor)


def vocabularies() -> dict[str, int]:
    """{whose: words} of our vocabulary and of LLaMA2's as the paper states it."""
    from causalnb.lab.tables import paper
    from causalnb.tasks import icl_words

    stated = paper("iclm.text").set_index("column")["value"]["vocabulary V"]
    return {"ours": len(icl_words.VOCABULARY), "LLaMA2": round(1000 * stated)}


def final_loss(family: str, arm: str, profile: str | None = None):
    """Series by seed: the training loss of Equation 4 at the last evaluation."""
    from causalnb.lab import results

    evidence.require(home(family, arm), profile, [arm])
    found = results.curves(home(family, arm), profile, [arm])
    return found[found["loss"].notna()].sort_values("step").groupby("seed")["loss"].last()


# ------------------------------------------------------------------------------------------------ tables
def scores_table(table: str, profile: str | None = None):
    """Tables 4 to 7: the paper's rows and ours, six cells and their mean, and how the formats are routed."""
    from causalnb.lab.tables import Table

    family, arms, _ = CLAIMS[table]
    joined = arms == AGGREGATIONS
    floors = {whose: entropy_floor(words) for whose, words in vocabularies().items()}

    def more(arm, whose, loss=""):
        return [loss, f"{floors[whose]:.2f}" if arm == "probability" else ""] if joined else []

    rows = [
        [
            f"paper: {NAMES[arm]}",
            *(f"{value:.3f}" for value in values),
            f"{sum(values) / len(values):.3f}",
            "",
            *more(arm, "LLaMA2"),
        ]
        for arm in (DEFAULT, *arms)
        for values in [printed_rows(table)[NAMES[arm]]]
    ]
    for arm in (DEFAULT, *arms):
        apart = "soft" if arm == SOFT else over_seeds(told_apart(family, arm, profile))
        loss = over_seeds(final_loss(family, arm, profile))
        for score, said in SCORES[family].items():
            found, first = measured(family, arm, score, profile), score == "exact"
            rows.append(
                [
                    f"ours: {NAMES[arm]}, {said}",
                    *(over_seeds(found[place]) for place in found),
                    over_seeds(found.mean(axis=1)),
                    apart if first else "",
                    *(more(arm, "ours", loss) if first else more("", "ours")),
                ]
            )
    what = "aggregations" if joined else "routers"
    notes = (
        f"The paper's are single runs on {ITEMS} items. Formats apart: half the sum over modules of the "
        "difference between the formats' shares; 1: each format has modules of its own"
        f"{'; soft: every prompt goes to all modules' if SOFT in arms else ''}."
    )
    if family == "raven":
        notes += (
            " The paper asks for a letter; ours says the panel word by word, and chooses where it "
            "rates eight candidates, which it never saw in training, by likelihood."
        )
    if joined:
        notes += (
            f" Floor: with w_I = 1/2 Equations 14 to 16 allow no cross-entropy below ln((V + 8)/9), V "
            f"= {vocabularies()['ours']} words here, {vocabularies()['LLaMA2']:,} for LLaMA2. Loss: "
            "Equation 4 on training batches, of which that cross-entropy is one part."
        )
    return Table(
        table,
        [
            "model",
            *headings(table),
            "mean of 6",
            "formats apart",
            *(["loss at the end, nats", "floor, nats"] if joined else []),
        ],
        rows,
        f"{FAMILIES[family]}: accuracy with other {what}; ours: mean ± half of the 95 % interval (seeds)",
        notes,
    )


def clear(before: float, after: float, items: int = ITEMS) -> bool:
    """Whether two printed accuracies differ by Fisher's exact test at 5 %, each of so many items."""
    from scipy.stats import fisher_exact

    right = [round(value * items) for value in (before, after)]
    return fisher_exact([[k, items - k] for k in right])[1] < 0.05


def printed_gap(table: str, arms: tuple[str, ...]) -> tuple[float, str]:
    """(mean difference of arms from the default in points, cells above and below) as the paper prints."""
    printed = printed_rows(table)
    pairs = [
        (default, value)
        for arm in arms
        for default, value in zip(printed[NAMES[DEFAULT]], printed[NAMES[arm]], strict=True)
    ]
    sides = {
        "above": [pair for pair in pairs if pair[1] > pair[0]],
        "below": [pair for pair in pairs if pair[1] < pair[0]],
    }
    told = (
        f"{len(side)} {name} ({sum(clear(*pair) for pair in side)} clearly)" for name, side in sides.items()
    )
    return 100 * sum(after - before for before, after in pairs) / len(pairs), ", ".join(told)


def sides(found) -> str:
    """Of the cells of a `gap`, how many have an interval above and below 0."""
    each = [over_seeds(found[place]) for place in found]
    return f"{sum(one.low > 0 for one in each)} above, {sum(one.high < 0 for one in each)} below"


def contrasts_table(table: str, profile: str | None = None):
    """Differences from the default, paired by seed, and the verdicts on the claims of one of the tables."""
    from causalnb.lab.tables import Table
    from causalnb.lab.verdicts import claims, decide

    family, arms, decisive = CLAIMS[table]
    said, claimed = claims("iclm").set_index("id", drop=False), {on: id for id, on in decisive.items()}
    rows = []
    for on in dict.fromkeys([*((arm,) for arm in arms), *claimed]):
        found, (printed, cells) = gap(family, on, profile=profile), printed_gap(table, on)
        means = found.mean(axis=1)
        row = said.loc[claimed[on]] if on in claimed else None
        rows.append(
            [
                f"{' and '.join(NAMES[arm] for arm in on)} − {NAMES[DEFAULT]}",
                f"{printed:+.1f}",
                cells,
                points(over_seeds(means)),
                sides(found),
                reading([*means]) if row is None else str(decide(row, profile)),
                "" if row is None else row["claim"],
            ]
        )
    return Table(
        f"{table}_contrasts",
        [
            "difference",
            "paper, points",
            "paper, cells",
            "ours, points",
            "ours, cells",
            "verdict",
            "the paper's claim",
        ],
        rows,
        f"{FAMILIES[family]}: differences of accuracy from the default, mean of six cells; ours: same seeds, "
        "mean [95 % interval] (seeds)",
        f"Clearly: by Fisher's exact test at 5 % on {ITEMS} items. Ours, cells: those whose interval lies "
        f"above or below 0. Where the paper claims something the verdict is by rule; scored here: "
        f"{[*SCORES[family].values()][-1]}; "
        '"as well" is not refuted where 0 is inside, and the interval says how much worse it may be.',
    )


def remarks(table: str, profile: str | None = None) -> list[str]:
    """What the contrasts of a table say, a sentence each."""

    family, arms, _ = CLAIMS[table]
    told = []
    for arm in arms:
        means = gap(family, (arm,), profile=profile).mean(axis=1)
        told.append(
            f"{NAMES[arm]} differs from {NAMES[DEFAULT]} on {FAMILIES[family]} by "
            f"{points(over_seeds(means))} points over six cells ({reading([*means])}); the paper "
            f"prints {printed_gap(table, (arm,))[0]:+.1f}."
        )
    return told


def _save(table: str, profile) -> None:
    from causalnb.lab.tables import save_table

    save_table(scores_table(table, profile))
    save_table(contrasts_table(table, profile))


@artefact("iclm.table4", needs=NEEDS["acre"])
def table4(profile):
    """Table 4: routers on ACRE, and what differs."""
    _save("iclm.table4", profile)


@artefact("iclm.table5", needs=NEEDS["raven"])
def table5(profile):
    """Table 5: routers on RAVEN, and what differs."""
    _save("iclm.table5", profile)


@artefact("iclm.table6", needs=NEEDS["acre"])
def table6(profile):
    """Table 6: aggregations on ACRE, and what differs."""
    _save("iclm.table6", profile)


@artefact("iclm.table7", needs=NEEDS["raven"])
def table7(profile):
    """Table 7: aggregations on RAVEN, and what differs."""
    _save("iclm.table7", profile)


# ---------------------------------------------------------------------------------------------- figure 8
LINES = {  # arm -> label, colour, line, marker
    "iclm": ("one head for both", "blue", "-", "o"),
    "logit": ("logits", "vermillion", "--", "s"),
    "probability": ("probabilities", "green", "-.", "^"),
}


@dataclass(frozen=True)
class Spikes:
    """Of one curve: how many evaluations are spikes, and the tallest as a multiple of its neighbourhood."""

    count: int
    tallest: float


def spike_start() -> float:
    """The training step after which the paper sees spikes."""
    from causalnb.lab.tables import paper

    return float(paper("iclm.text").set_index("column")["value"]["variants spike after"])


def spikes(curve, after: float = 0.0, factor: float = SPIKE, near: int = NEAR) -> Spikes:
    """Evaluations of a Series by step at least `factor` times the medians of `near` before and after.

    Both sides, so that a steep fall has none; the first and the last evaluation have only one. Those from
    step `after` on count. LabError for fewer than 3 values.
    """
    import numpy as np

    curve = curve.sort_index()
    values, heights = curve.to_numpy(float), []
    if len(values) < 3:
        raise LabError(f"a curve of {len(values)} evaluations has no spikes: follow it at 3 or more.")
    for i in range(1, len(values) - 1):
        sides = values[max(0, i - near) : i], values[i + 1 : i + 1 + near]
        usual = float(max(map(np.median, sides)))
        if curve.index[i] >= after and usual > 0:
            heights.append(float(values[i]) / usual)
    return Spikes(sum(height >= factor for height in heights), max(heights, default=0.0))


def information(family: str, arm: str, profile: str | None = None):
    """DataFrame of seed, step and `forward`, the mutual information in nats; LabError if missing."""
    from causalnb.lab import results

    evidence.require(home(family, arm), profile, [arm])
    found = results.curves(home(family, arm), profile, [arm])
    return found[found["forward"].notna()][["seed", "step", "forward"]]


def curves_figure(profile: str | None = None):
    """(figure, alt): Figure 8, mutual information by training step for the three aggregations."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    from causalnb.experiments.c2dlm.curves import draw_curve

    found = {(family, arm): information(family, arm, profile) for family in FAMILIES for arm in LINES}
    fig, axes = plt.subplots(1, 2, figsize=(8.0, 3.2), sharex=True, sharey=True)
    told = []
    for ax, (family, name) in zip(axes, FAMILIES.items(), strict=False):
        ends = []
        for arm, (label, *look) in LINES.items():
            end = draw_curve(ax, found[family, arm], "forward", 1, label, *look)
            ends.append(f"{label} {end:.4f}")
        ax.axvline(spike_start(), color="black", linestyle=":", marker="", linewidth=1)
        ax.set(title=name, xlabel="training step", xscale="log", yscale="log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
        told.append(f"{name}: {', '.join(ends)}")
    axes[0].set_ylabel("mutual information, nats")
    axes[0].legend(fontsize=8)
    return fig, (
        "Mutual information of the invariant and the domain modules against training steps, both "
        "axes logarithmic, mean over seeds in a band from the lowest to the highest. At the end "
        f"{'; '.join(told)}. A dotted line marks step {spike_start():g}."
    )


def counted(profile: str | None = None) -> dict[tuple[str, str], dict[int, Spikes]]:
    """{(family, arm): {seed: Spikes}} of every curve of Figure 8, after the paper's step."""
    return {
        (family, arm): {
            int(seed): spikes(rows.set_index("step")["forward"], spike_start())
            for seed, rows in information(family, arm, profile).groupby("seed")
        }
        for family in FAMILIES
        for arm in LINES
    }


def steadier(profile: str | None = None):
    """(differences by seed, Verdict) of claim 23: spikes a curve with one shared head minus without."""
    found = counted(profile)
    common = set.intersection(*(set(one) for one in found.values()))

    def mean(arms, seed):
        counts = [found[family, arm][seed].count for family in FAMILIES for arm in arms]
        return sum(counts) / len(counts)

    differences = {seed: mean((DEFAULT,), seed) - mean(AGGREGATIONS, seed) for seed in sorted(common)}
    return differences, decided("iclm.claim23", differences.values())


def spikes_table(profile: str | None = None):
    """Spikes of mutual information by aggregation, and the verdict on claim 23."""
    from causalnb.lab.tables import Table

    found, rows = counted(profile), []
    for family, name in FAMILIES.items():
        for arm, (label, *_) in LINES.items():
            ends = information(family, arm, profile).sort_values("step").groupby("seed")["forward"].last()
            one = found[family, arm].values()
            rows.append(
                [
                    name,
                    label,
                    f"{over_seeds(ends).mean:.4f}",
                    over_seeds([each.count for each in one]),
                    f"{max(each.tallest for each in one):.2f}",
                ]
            )
    differences, verdict = steadier(profile)
    rows.append(["both", "one head − the others", "", over_seeds(differences.values()), str(verdict)])
    return Table(
        "iclm.fig8",
        ["task", "aggregation", "at the end, nats", "spikes in a run", "tallest"],
        rows,
        f"Spikes of mutual information after step {spike_start():g}: mean ± half of the 95 % interval "
        "(seeds)",
        f"A spike is an evaluation at least {SPIKE:g} times the median of the {NEAR} before it and that of "
        f"the {NEAR} after it; tallest: the largest such multiple of all seeds. Shorter ones than the time "
        "between evaluations are not seen. Last row: below 0 is what the claim predicts.",
    )


@artefact(
    "iclm.fig8",
    needs=(*NEEDS["acre"], *NEEDS["raven"]),
)
def fig8(profile):
    """Figure 8: mutual information in training by aggregation, and its spikes."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    fig, alt = curves_figure(profile)
    save_figure(
        fig,
        "iclm.fig8",
        alt=alt,
        caption="Mutual information during training with one head for "
        "both modules, and with weighted sums of logits or of probabilities.",
    )
    save_table(spikes_table(profile))
