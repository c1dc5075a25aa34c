"""Table 1 of ICLM as printed, with what the size of test that it implies says of its differences."""

from functools import lru_cache

from causalnb.experiments.iclm.artefacts.scores import ROWS, headings
from causalnb.lab.report import Report

BASELINE, ICLM = ROWS["fine-tuned"][2], ROWS["ICLM"][2]
TOLD = (ICLM, "ICLM-Invariant")  # rows that are compared with the baseline


def printed_scores() -> dict[str, dict[tuple[str, str], float]]:
    """{row: {(set, format): accuracy}} of the paper's Table 1."""
    from causalnb.lab.tables import paper

    lines = paper("iclm.table1").groupby("row", sort=False)
    return {row: its.set_index(["group", "column"])["value"].to_dict() for row, its in lines}


def starred() -> list[str]:
    """The rows that the paper measured itself; the others are taken over."""
    from causalnb.lab.tables import paper

    table = paper("iclm.table1")
    return [*table[table.note.fillna("").str.startswith("star")].row.unique()]


def shares_of(items: int, digits: int = 3) -> set[float]:
    """All accuracies that a test of so many items can print."""
    return {round(k / items, digits) for k in range(items + 1)}


def implied_items(most: int = 500) -> tuple[int, int, int]:
    """(items, cells that are a share of them, cells): the size of test that explains the starred cells best.

    The best is the one by which so many fits are the least likely by luck: each three-digit number fits with
    the frequency of shares among all of them.
    """
    scores = printed_scores()
    return _explained(tuple(value for row in starred() for value in scores[row].values()), most)


@lru_cache(None)
def _explained(values: tuple[float, ...], most: int) -> tuple[int, int, int]:
    from scipy.stats import binom

    sizes = range(20, most + 1)
    shares = [shares_of(n) for n in sizes]
    fits = [sum(value in known for value in values) for known in shares]
    luck = binom.logsf([k - 1 for k in fits], len(values), [len(known) / 1001 for known in shares])
    best = int(luck.argmin())
    return sizes[best], fits[best], len(values)


def count(accuracy: float, items: int) -> int:
    """How many right answers out of `items` a printed accuracy stands for."""
    return round(accuracy * items)


def fisher(row: str, other: str) -> dict[tuple[str, str], tuple[int, float]]:
    """{(set, format): (right answers more than the other row, p of Fisher's exact test)} of printed rows."""
    from scipy.stats import fisher_exact

    n, scores = implied_items()[0], printed_scores()
    told = {}
    for place, accuracy in scores[row].items():
        a, b = count(accuracy, n), count(scores[other][place], n)
        told[place] = a - b, float(fisher_exact([[a, n - a], [b, n - b]])[1])
    return told


def wins(row: str, other: str, level: float = 0.05) -> dict[str, int]:
    """{"more", "fewer", "significantly more", "significantly fewer"}: sets, of the printed counts."""
    return {
        f"{sure}{word}": sum(
            sign * gain > 0 and (p < level or not sure) for gain, p in fisher(row, other).values()
        )
        for sure in ("", "significantly ")
        for word, sign in {"more": 1, "fewer": -1}.items()
    }


def printed_remark(profile: str | None = None) -> str:
    """How many printed cells tell ICLM, or its invariant module, from the baseline; in sentences."""
    return " ".join(
        "{row} has more right answers than {other} on {more} of 12 sets and fewer on {fewer}; by Fisher's "
        "test at 5 % it is better on {significantly more} and worse on {significantly fewer}.".format(
            row=row, other=BASELINE, **wins(row, BASELINE)
        )
        for row in TOLD
    )


def _rows(profile):
    from causalnb.lab.statistics import wilson

    n, measured = implied_items()[0], starred()
    for row, scores in printed_scores().items():
        bounds = [wilson(count(value, n), n) if row in measured else None for value in scores.values()]
        yield [
            row,
            *(
                f"{value:.3f} [{one.low:.2f}, {one.high:.2f}]" if one else f"{value:.3f}"
                for value, one in zip(scores.values(), bounds, strict=True)
            ),
        ]
    for row in TOLD:
        cells = (f"{gain:+d}, {p:.2g}" for gain, p in fisher(row, BASELINE).values())
        yield [f"{row} - {BASELINE}: items, p", *cells]


printed_table = Report(
    "iclm.table1_paper",
    ["", *headings("acre"), *headings("raven")],
    [_rows],
    lambda profile: (
        "Table 1 as printed, with Wilson's 95 % intervals and Fisher's exact test at "
        f"{implied_items()[0]} items"
    ),
    lambda profile: (
        "{0} test items are inferred: {1} of {2} starred accuracies are whole {0}ths. Rows without "
        "intervals were taken over from an earlier paper. ".format(*implied_items())
        + printed_remark()
    ),
)
