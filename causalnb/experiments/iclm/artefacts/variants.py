"""Tables 4 to 7 of ICLM: other routers and other aggregations, beside the default of both."""

import math
from dataclasses import dataclass, replace
from functools import partial

from causalnb.experiments.iclm.artefacts.scores import (
    CHOSEN,
    FAMILIES,
    SETS,
    columns,
    headings,
    history,
    home,
    in_columns,
    scored,
    shares,
    stated,
)
from causalnb.lab.report import (
    Arm,
    Claim,
    Measured,
    OfRows,
    Printed,
    Reading,
    Report,
    Row,
    Values,
    arm,
    claims_of,
    fraction,
    gain,
    mean,
    number,
    printed_row,
    values,
)
from causalnb.lab.verdicts import reading

DEFAULT, ITEMS = "iclm", 101  # items: all printed accuracies but three are k / 101
NAMES = {
    "iclm": "ICLM",
    "weighted": "ICLM-Weighted",
    "kmeans": "ICLM-K-Means",
    "logit": "ICLM-Logits",
    "probability": "ICLM-Probas",
}  # arm -> the paper's row
SCORES = {"acre": {"exact": "exact"}, "raven": {"exact": "exact panel", "choice": "choice of eight"}}
SOFT = "weighted"  # its shares of modules are of the largest weight, which says little
ROUTERS, AGGREGATIONS = ("weighted", "kmeans"), ("logit", "probability")
MEAN, APART, LOSS, FLOOR = "mean of 6", "formats apart", "loss at the end, nats", "floor, nats"


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
    from causalnb.tasks import icl_words

    return {"ours": len(icl_words.VOCABULARY), "LLaMA2": round(1000 * stated("vocabulary V"))}


# ------------------------------------------------------------------------------------------- by seed
def trained(family: str, name: str, score: str, cells=None, formats=None) -> Arm:
    """An arm of a family in a score, by default the mean of the six cells."""
    place = (SETS[family],) if cells is None else (cells, formats)
    return arm(home(family, name), name, scored(score, *place))


def gap(family: str, arms: tuple[str, ...], *place) -> Values:
    """The mean of arms minus the default in what the paper scores, in all six cells or one (cell, format)."""
    ours, default = (
        mean(*(trained(family, name, CHOSEN[family], *place) for name in names))
        for names in (arms, [DEFAULT])
    )
    return ours - default


def told_apart(family: str) -> OfRows:
    """A metric: how differently the two formats are routed, 0 (alike) to 1 (to different modules).

    Half the sum over modules of the difference of shares, the mean over cells.
    """

    def read(rows):
        text, symbolic = (
            [shares(rows, cell, format) for cell in SETS[family]] for format in ("text", "symbolic")
        )
        apart = [abs(a - b).sum(axis=1) / 2 for a, b in zip(text, symbolic, strict=True)]
        return sum(apart) / len(apart)

    return OfRows(read)


def final_loss(family: str, name: str, profile: str | None = None):
    """Series by seed: the training loss of Equation 4 at the last evaluation."""
    return history(family, name, profile, "loss").sort_values("step").groupby("seed")["loss"].last()


# ---------------------------------------------------------------------------------------- as printed
def printed_rows(id: str) -> dict[str, list[float]]:
    """{the paper's row: its six accuracies} of a table."""
    from causalnb.lab.tables import paper

    return {row: lines["value"].tolist() for row, lines in paper(id).groupby("row", sort=False)}


def clear(before: float, after: float, items: int = ITEMS) -> bool:
    """Whether two printed accuracies differ by Fisher's exact test at 5 %, each of so many items."""
    from scipy.stats import fisher_exact

    right = [round(value * items) for value in (before, after)]
    return fisher_exact([[k, items - k] for k in right])[1] < 0.05


def printed_gap(id: str, arms: tuple[str, ...]) -> tuple[float, str]:
    """(mean difference of arms from the default in points, cells above and below) as the paper prints."""
    printed = printed_rows(id)
    pairs = [
        pair for name in arms for pair in zip(printed[NAMES[DEFAULT]], printed[NAMES[name]], strict=True)
    ]
    sides = {
        "above": [pair for pair in pairs if pair[1] > pair[0]],
        "below": [pair for pair in pairs if pair[1] < pair[0]],
    }
    told = (
        f"{len(side)} {name} ({sum(clear(*pair) for pair in side)} clearly)" for name, side in sides.items()
    )
    return 100 * sum(after - before for before, after in pairs) / len(pairs), ", ".join(told)


def sides(summaries) -> str:
    """How many of several Summaries have an interval above and below 0."""
    each = [*summaries]
    return f"{sum(one.low > 0 for one in each)} above, {sum(one.high < 0 for one in each)} below"


# -------------------------------------------------------------------------------------------- tables
@dataclass(frozen=True)
class Variants:
    """One of Tables 4 to 7: a family, and the arms that are compared with the default."""

    id: str
    family: str
    arms: tuple[str, ...]

    def scores(self) -> Report:
        """The paper's rows and ours, six cells and their mean, and how the formats are routed."""
        family, joined = self.family, self.arms == AGGREGATIONS

        def floor(whose):
            return lambda profile: f"{entropy_floor(vocabularies()[whose]):.2f}"

        def rows():
            for name in (DEFAULT, *self.arms):
                printed = printed_row(f"paper: {NAMES[name]}", self.id, "{value:.3f}", row=NAMES[name])
                bound = floor("LLaMA2") if name == "probability" else None
                yield replace(printed, printed=bound, cells={MEAN: partial(self._printed_mean, name)})
            for name in (DEFAULT, *self.arms):
                place = home(family, name)
                for score, said in SCORES[family].items():
                    value = in_columns(family, place, name, score) | {MEAN: trained(family, name, score)}
                    bound, cells = None, {}
                    if score == "exact":
                        value[APART] = arm(place, name, told_apart(family))
                        value[LOSS] = values(partial(final_loss, family, name), place)
                        bound = floor("ours") if name == "probability" else None
                        cells = {APART: "soft"} if name == SOFT else {}
                    yield Row(f"ours: {NAMES[name]}, {said}", value, bound, cells=cells)

        measured = [MEAN, APART, *[LOSS] * joined]
        what = "aggregations" if joined else "routers"
        return Report(
            self.id,
            ["model", *columns(family, fraction())]
            + [Measured(head, format=number() if head == LOSS else fraction()) for head in measured]
            + [Printed(FLOOR)] * joined,
            rows,
            f"{FAMILIES[family]}: accuracy with other {what}; ours: mean ± half of the 95 % interval (seeds)",
            self._notes,
        )

    def _printed_mean(self, name, profile) -> str:
        each = printed_rows(self.id)[NAMES[name]]
        return f"{sum(each) / len(each):.3f}"

    def _notes(self, profile) -> str:
        notes = (
            f"The paper's are single runs on {ITEMS} items. Formats apart: half the sum over modules of the "
            "difference between the formats' shares; 1: each format has modules of its own"
            f"{'; soft: every prompt goes to all modules' if SOFT in self.arms else ''}."
        )
        if self.family == "raven":
            notes += (
                " The paper asks for a letter; ours says the panel word by word, and chooses where it "
                "rates eight candidates, which it never saw in training, by likelihood."
            )
        if self.arms == AGGREGATIONS:
            words = vocabularies()
            notes += (
                f" Floor: with w_I = 1/2 Equations 14 to 16 allow no cross-entropy below ln((V + 8)/9), V "
                f"= {words['ours']} words here, {words['LLaMA2']:,} for LLaMA2. Loss: "
                "Equation 4 on training batches, of which that cross-entropy is one part."
            )
        return notes

    def contrasts(self) -> Report:
        """Differences from the default, paired by seed, and the verdicts on the claims of the table."""

        def rows():
            claimed = {
                tuple(claim["our_treatment"].split("+")): claim["id"] for claim in claims_of("iclm", self.id)
            }
            for on in dict.fromkeys([*((name,) for name in self.arms), *claimed]):
                label = f"{' and '.join(NAMES[name] for name in on)} − {NAMES[DEFAULT]}"
                printed, told = (partial(self._printed, on, part) for part in (0, 1))
                labels = (label, printed, told, partial(self._sides, on))
                yield Row(labels, gap(self.family, on), claim=claimed.get(on))

        return Report(
            f"{self.id}_contrasts",
            [
                "difference",
                "paper, points",
                "paper, cells",
                Measured("ours, points"),
                "ours, cells",
                Reading("verdict"),
                Claim("the paper's claim"),
            ],
            rows,
            f"{FAMILIES[self.family]}: differences of accuracy from the default, mean of six cells; ours: "
            "same seeds, mean [95 % interval] (seeds)",
            f"Clearly: by Fisher's exact test at 5 % on {ITEMS} items. Ours, cells: those whose interval "
            "lies above or below 0. Where the paper claims something the verdict is by rule; scored here: "
            f"{[*SCORES[self.family].values()][-1]}; "
            '"as well": reproduced above -1 point, opposite below, else undecided.',
        )

    def _printed(self, on, part, profile) -> str:
        told = printed_gap(self.id, on)[part]
        return told if part else f"{told:+.1f}"

    def _sides(self, on, profile) -> str:
        places = headings(self.family).values()
        return sides(gap(self.family, on, *place).summary(profile=profile) for place in places)

    def remarks(self, profile: str | None = None) -> list[str]:
        """What the contrasts of the table say, a sentence each."""
        told = []
        for name in self.arms:
            each = gap(self.family, (name,)).of(profile=profile)
            told.append(
                f"{NAMES[name]} differs from {NAMES[DEFAULT]} on {FAMILIES[self.family]} by {gain(each)} "
                f"points over six cells ({reading(each)}); the paper prints "
                f"{printed_gap(self.id, (name,))[0]:+.1f}."
            )
        return told
