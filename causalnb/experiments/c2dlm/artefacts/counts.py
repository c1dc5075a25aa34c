"""The printed scores of C2DLM's Tables 5 and 6 as counts of test items, and what picking the best gains."""

import math

from causalnb.lab.statistics import wilson
from causalnb.lab.tables import paper

BASE, SFT, OURS = "LLaDA-8B-Instruct", "LLaDA-8B-Instruct (SFT)", "C2DLM"
# published sizes of the test sets; every printed score is a count of them
ITEMS = {"GSM8K": 1319, "MATH500": 500, "GPQA": 448, "MMLU_STEM": 3153, "ARC_C": 1172, "SAT": 220}
ABLATED = ("GSM8K", "MATH500", "SAT")  # the columns of Table 6
ALPHAS = (2, 3, 4, 5)


def scores(table: str) -> dict[str, dict[str, float]]:
    """{row: {column: printed value}} of "table5" or "table6"."""
    return {
        row: dict(zip(lines.column, lines.value, strict=True))
        for row, lines in paper(f"c2dlm.{table}").groupby("row", sort=False)
    }


def count(percent: float, items: int) -> int:
    """How many of `items` a printed percentage stands for; ValueError if none is printed so."""
    k = round(percent * items / 100)
    if round(100 * k / items + 1e-9, 2) != round(percent, 2):
        raise ValueError(f"{percent} % is no count of {items} items: check the size of the test set")
    return k


def fitting(percents, most: int = 4000) -> list[int]:
    """Sizes up to `most` of which all the printed percentages are counts."""

    def fits(items: int) -> bool:
        try:
            return all(count(percent, items) is not None for percent in percents)
        except ValueError:
            return False

    return [items for items in range(1, most + 1) if fits(items)]


def difference(before: int, after: int, items: int) -> tuple[float, float]:
    """(difference, standard error) of two proportions of `items`, as if two samples; in points."""
    p, q = before / items, after / items
    return 100 * (q - p), 100 * math.sqrt((p * (1 - p) + q * (1 - q)) / items)


def paired_z(before: int, after: int, items: int) -> tuple[float, float]:
    """Least and greatest |z| of McNemar's test that two counts on the same items allow.

    Only items that change count: gained b, lost c with b - c = after - before, z = (b - c) / sqrt(b + c).
    """
    moved = abs(after - before)
    most = min(min(before, after), items - max(before, after))  # items that can change and change back
    return (moved / math.sqrt(moved + 2 * most) if moved else 0.0, math.sqrt(moved))


def pairs(before: dict[str, float], after: dict[str, float], tasks=tuple(ITEMS)) -> dict[str, tuple]:
    """{task: (count before, count after, items)} of printed percentages."""
    return {t: (count(before[t], ITEMS[t]), count(after[t], ITEMS[t]), ITEMS[t]) for t in tasks}


def mean_gain(before: dict[str, float], after: dict[str, float], tasks=tuple(ITEMS)) -> tuple[float, float]:
    """(gain, standard error) of the mean over tasks, in points, from printed percentages; test items only."""
    gains, errors = zip(*(difference(*pair) for pair in pairs(before, after, tasks).values()), strict=True)
    return math.fsum(gains) / len(gains), math.sqrt(math.fsum(e**2 for e in errors)) / len(errors)


def interval(percent: float, items: int) -> str:
    """A printed percentage with Wilson's 95 % interval."""
    summary = wilson(count(percent, items), items)
    return f"{percent:.2f} [{100 * summary.low:.1f}, {100 * summary.high:.1f}]"


def average(row: dict[str, float], tasks) -> float:
    """The mean of a printed row, from the counts behind it; in percent."""
    return math.fsum(100 * count(row[task], ITEMS[task]) / ITEMS[task] for task in tasks) / len(tasks)


def best_of(settings: int, draws: int, settled: float = 0.0, seed: int = 0, rows: dict | None = None):
    """(draws,) points by which the best of equally good settings is above their mean, on the same test items.

    Each setting answers the items of ABLATED with the same probabilities, those of `rows` (the printed
    default); a share `settled` of the items comes out the same for all settings. Best is the best mean.
    """
    import numpy as np

    if not 0 <= settled <= 1 or settings < 1:
        given = f"{settings} settings with a share {settled} of settled items"
        raise ValueError(f"{given}: give 1 or more, and a share in [0, 1]")
    draw, rows = np.random.default_rng(seed), rows or scores("table6")["α=3"]
    means = np.zeros((draws, settings))
    for task in ABLATED:
        items, p = ITEMS[task], count(rows[task], ITEMS[task]) / ITEMS[task]
        right = draw.binomial(items - round(settled * items), p, (draws, settings))  # what is settled cancels
        means += 100 * right / items / len(ABLATED)
    return means.max(1) - means.mean(1)


def printed_lead() -> float:
    """The best printed mean of Table 6 over alpha, minus the mean of the four, in points."""
    means = [average(scores("table6")[f"α={alpha}"], ABLATED) for alpha in ALPHAS]
    return max(means) - math.fsum(means) / len(means)


def selection_figure(draws: int = 20_000, settled=(0.0, 0.5, 0.8)):
    """(figure, alt, {settled: gains}): what picking the best of four on the test sets gains by luck."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, text_size

    fig, ax = plt.subplots(figsize=(5.8, 2.9))
    luck, told, bins, lead = {}, [], np.linspace(0, 4, 41), printed_lead()
    for share, (colour, line) in zip(
        settled, (("blue", "-"), ("green", "--"), ("orange", "-.")), strict=False
    ):
        gains = luck[share] = best_of(len(ALPHAS), draws, share)
        look = {"color": COLOURS[colour], "linestyle": line, "marker": ""}
        look["label"] = f"{share:.0%} of the items settled: mean {gains.mean():.2f}"
        ax.step(bins[:-1], 100 * np.histogram(gains, bins)[0] / draws, where="post", **look)
        told.append(
            f"{share:.0%} settled: mean {gains.mean():.2f} points, {(gains >= lead).mean():.0%} at "
            "or above the line"
        )
    ax.axvline(lead, color="black", linewidth=1, linestyle=":")
    above = {"va": "top", "transform": ax.get_xaxis_transform()}
    ax.text(lead + 0.05, 0.99, f"printed: {lead:.2f}", fontsize=text_size(8), **above)
    ax.set(xlabel="best of four equal settings − mean of the four, points", ylim=(0, None))
    ax.set_ylabel("percent of repetitions")
    ax.legend(fontsize=text_size(8), loc="upper right", bbox_to_anchor=(1, 0.92))
    alt = (
        f"Histograms of the lead that the best of {len(ALPHAS)} equally good settings has by luck. "
        f"{'; '.join(told)}. A line at the printed lead, {lead:.2f} points."
    )
    return fig, alt, luck
