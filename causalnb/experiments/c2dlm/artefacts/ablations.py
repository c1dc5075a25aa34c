"""C2DLM's Tables 5 and 6, as printed with what test sizes imply and as measured here, and its verdicts."""

import math
import re
from dataclasses import dataclass

from causalnb.lab import evidence
from causalnb.lab.registry import artefact

BASE, SFT, OURS = "LLaDA-8B-Instruct", "LLaDA-8B-Instruct (SFT)", "C2DLM"
# published sizes of the test sets; every printed score is a count of them
ITEMS = {"GSM8K": 1319, "MATH500": 500, "GPQA": 448, "MMLU_STEM": 3153, "ARC_C": 1172, "SAT": 220}
ABLATED = ("GSM8K", "MATH500", "SAT")  # the columns of Table 6
WITHOUT = ("α=3, w/o S_γ", "α=3, w/o V-aware")
ARMS = {
    "autoregressive": "autoregressive",
    "diffusion": "diffusion (SFT)",
    "c2dlm": "C2DLM",
    "placebo": "placebo graph",
}
CONTRASTS = (("c2dlm", "diffusion"), ("placebo", "diffusion"), ("c2dlm", "placebo"))
LOOKS = {
    "autoregressive": ("black", "D"),
    "diffusion": ("orange", "s"),
    "c2dlm": ("blue", "o"),
    "placebo": ("vermillion", "^"),
}
# task -> its metrics with their headings, and where the arms are that its ablation does not repeat
TASKS = {
    "sudoku": (
        {"test_cells": "Sudoku: cells"},
        {"c2dlm": "c2dlm.sudoku.n5000", "diffusion": "c2dlm.sudoku.n5000", "no_v": "c2dlm.sudoku.controls"},
    ),
    "cot": (
        {"test_exact": "chain of thought: exact"},
        {"c2dlm": "c2dlm.cot.normal", "diffusion": "c2dlm.cot.normal", "no_v": "c2dlm.cot.controls"},
    ),
    "stg": (
        {"iid_accuracy": "token game L: i.i.d.", "ood_accuracy": "token game L: o.o.d."},
        {"c2dlm": "c2dlm.stg.l", "diffusion": "c2dlm.stg.l", "no_v": "c2dlm.stg.l"},
    ),
}
ALPHAS = (2, 3, 4, 5)
PARTS = {
    "no_schedule": "w/o schedule of γ",
    "no_v": "w/o V-aware",
    "query_norm": "norm of the query, as printed",
    "diffusion": "diffusion (SFT)",
}
NEEDED = tuple(
    dict.fromkeys(
        id for task, (_, homes) in TASKS.items() for id in (f"c2dlm.ablation.{task}", *homes.values())
    )
)


# ------------------------------------------------------------------------------------------ as printed
def scores(table: str) -> dict[str, dict[str, float]]:
    """{row: {column: printed value}} of "table5" or "table6"."""
    from causalnb.lab.tables import paper

    found = {}
    for line in paper(f"c2dlm.{table}").itertuples():
        found.setdefault(line.row, {})[line.column] = line.value
    return found


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


def mean_gain(before: dict[str, float], after: dict[str, float], tasks=tuple(ITEMS)) -> tuple[float, float]:
    """(gain, standard error) of the mean over tasks, in points, from printed percentages; test items only."""
    each = [difference(count(before[t], ITEMS[t]), count(after[t], ITEMS[t]), ITEMS[t]) for t in tasks]
    return (
        math.fsum(gain for gain, _ in each) / len(each),
        math.sqrt(math.fsum(error**2 for _, error in each)) / len(each),
    )


def interval(percent: float, items: int) -> str:
    """A printed percentage with Wilson's 95 % interval."""
    from causalnb.lab.statistics import wilson

    summary = wilson(count(percent, items), items)
    return f"{percent:.2f} [{100 * summary.low:.1f}, {100 * summary.high:.1f}]"


def average(row: dict[str, float], tasks) -> float:
    """The mean of a printed row, from the counts behind it; in percent."""
    return math.fsum(100 * count(row[task], ITEMS[task]) / ITEMS[task] for task in tasks) / len(tasks)


def table5():
    """Table 5 as printed, with what its counts imply: intervals, z by task, the mean with and without SAT."""
    from causalnb.lab.tables import Table

    found, tasks = scores("table5"), tuple(ITEMS)
    plain, guided = found[SFT], found[OURS]
    some = tuple(task for task in tasks if task != "SAT")
    rows = [
        [
            name,
            *(interval(found[name][task], ITEMS[task]) for task in tasks),
            f"{found[name]['Avg']:.2f}; {average(found[name], tasks):.2f}",
            f"{average(found[name], some):.2f}",
        ]
        for name in (BASE, SFT, OURS)
    ]
    gains = {
        task: difference(count(plain[task], ITEMS[task]), count(guided[task], ITEMS[task]), ITEMS[task])
        for task in tasks
    }
    gains |= {"all": mean_gain(plain, guided), "some": mean_gain(plain, guided, some)}
    rows.append(["gain ± standard error", *(f"{gain:+.2f} ± {error:.2f}" for gain, error in gains.values())])
    rows.append(["z, two samples", *(f"{gain / error:.2f}" for gain, error in gains.values())])
    pairs = [(count(plain[task], ITEMS[task]), count(guided[task], ITEMS[task])) for task in tasks]
    rows.append(
        [
            "z, same items: least to greatest",
            *(
                "{:.2f} to {:.2f}".format(*paired_z(*pair, ITEMS[task]))
                for task, pair in zip(tasks, pairs, strict=True)
            ),
            "",
            "",
        ]
    )
    rows.append(
        [
            "items",
            *(f"{items:,}" for items in ITEMS.values()),
            f"{sum(ITEMS.values()):,}",
            f"{sum(ITEMS[task] for task in some):,}",
        ]
    )
    rows.append(
        [
            "items gained",
            *(f"{b - a:+d}" for a, b in pairs),
            f"{sum(b - a for a, b in pairs):+d}",
            f"{sum(b - a for a, b in pairs[:-1]):+d}",
        ]
    )
    return Table(
        "c2dlm.table5",
        ["", *tasks, "mean: printed; from counts", "mean without SAT"],
        rows,
        "Table 5 as printed, with Wilson's 95 % intervals and what the test sizes imply (percent)",
        "Standard errors hold the sampling of test items only: one training seed is reported. Both models "
        "answer the same items; z of the pairs depends on how many items change, which is not printed. "
        "Gains are from counts: the printed ones are 1.22 on GSM8K and 0.59 on ARC_C.",
    )


def gains_figure():
    """(figure, alt): the printed gains of Table 5 with 95 % intervals; the mean with and without SAT."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS

    found, some = scores("table5"), tuple(task for task in ITEMS if task != "SAT")
    plain, guided = found[SFT], found[OURS]
    rows = [
        (f"{task} ({items:,})", *difference(count(plain[task], items), count(guided[task], items), items))
        for task, items in ITEMS.items()
    ]
    rows.append(("mean of six", *mean_gain(plain, guided)))
    rows.append(("mean without SAT", *mean_gain(plain, guided, some)))
    fig, ax = plt.subplots(figsize=(5.8, 3.0))
    for place, (name, gain, error) in enumerate(rows[::-1]):
        mean = name.startswith("mean")
        ax.errorbar(
            gain,
            place,
            xerr=1.96 * error,
            linestyle="",
            capsize=3,
            marker="D" if mean else "o",
            color=COLOURS["vermillion" if mean else "blue"],
        )
    ax.axvline(0, color="black", linewidth=1, linestyle=":")
    ax.axhline(1.5, color="0.8", linewidth=1)
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows[::-1]])
    ax.set_xlabel("C2DLM − SFT, points (95 % interval over test items)")
    told = "; ".join(
        f"{name} {gain:+.2f}, from {gain - 1.96 * error:+.2f} to {gain + 1.96 * error:+.2f}"
        for name, gain, error in rows
    )
    return fig, f"Gains of Table 5 as dots with 95 % intervals, in points, a line at 0. {told}."


def table6():
    """Table 6 as printed, with intervals, averages from counts, and z against the default and against SFT."""
    from causalnb.lab.tables import Table

    found = scores("table6")
    plain = {task: scores("table5")[SFT][task] for task in ABLATED}
    default = found["α=3"]
    rows = []
    for name, row in {"SFT (Table 5)": plain, **found}.items():
        cells = [interval(row[task], ITEMS[task]) for task in ABLATED]
        told = []
        for other in (default, plain):
            gain, error = mean_gain(other, row, ABLATED)
            said = f"{gain:+.2f} ± {error:.2f} (z {gain / error:.2f})"
            told.append("" if row is other or gain == 0 else said)
        printed = f"{row['Avg']:.2f}" if "Avg" in row else "not printed"
        rows.append([name, *cells, f"{printed}; {average(row, ABLATED):.2f}", *told])
    return Table(
        "c2dlm.table6",
        [
            "setting",
            *(f"{task} ({ITEMS[task]:,})" for task in ABLATED),
            "mean: printed; from counts",
            "minus default α=3",
            "minus SFT",
        ],
        rows,
        "Table 6 as printed, with Wilson's 95 % intervals, and differences of means ± standard error",
        " ".join(remarks6()),
    )


def remarks6() -> list[str]:
    """What the printed Table 6 says about alpha and about the two parts, in sentences that are computed."""
    found, plain = scores("table6"), scores("table5")[SFT]
    by_alpha = {alpha: average(found[f"α={alpha}"], ABLATED) for alpha in ALPHAS}
    steps = [by_alpha[b] - by_alpha[a] for a, b in zip(ALPHAS, ALPHAS[1:])]
    signs = "".join("+" if step > 0 else "-" for step in steps)
    one_peak = re.fullmatch(r"\+*-*", signs) is not None
    best = max(by_alpha, key=by_alpha.get)
    sft = average(plain, ABLATED)
    below = [name for name in WITHOUT if average(found[name], ABLATED) < sft]
    changes = ", ".join(f"{step:+.2f}" for step in steps)
    return [
        f"From α = {ALPHAS[0]} to {ALPHAS[-1]} the mean changes by {changes}: it "
        f"{'rises and then falls' if one_peak else 'does not rise to one peak and then fall'}.",
        f"The best mean is at α = {best}, which is "
        f"{'the default' if best == 3 else 'not the default'}; no validation set is named.",
        f"{len(below)} of the {len(WITHOUT)} rows without a part are below plain SFT ({sft:.2f}).",
    ]


# --------------------------------------------------------------------------- picking the best of several
def best_of(settings: int, draws: int, settled: float = 0.0, seed: int = 0, rows: dict | None = None):
    """(draws,) points by which the best of equally good settings is above their mean, on the same test items.

    Each setting answers the items of ABLATED with the same probabilities, those of `rows` (the printed
    default); a share `settled` of the items comes out the same for all settings. Best is the best mean.
    """
    import numpy as np

    if not 0 <= settled <= 1 or settings < 1:
        raise ValueError(
            f"{settings} settings with a share {settled} of settled items: give 1 or more, and "
            "a share in [0, 1]"
        )
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

    from causalnb.lab.figures import COLOURS

    fig, ax = plt.subplots(figsize=(5.8, 2.9))
    found, told, bins, lead = {}, [], np.linspace(0, 4, 41), printed_lead()
    looks = (("blue", "-"), ("green", "--"), ("orange", "-."))
    for share, (colour, line) in zip(settled, looks, strict=False):
        gains = found[share] = best_of(len(ALPHAS), draws, share)
        heights, _ = np.histogram(gains, bins)
        ax.step(
            bins[:-1],
            100 * heights / draws,
            where="post",
            color=COLOURS[colour],
            linestyle=line,
            marker="",
            label=f"{share:.0%} of the items settled: mean {gains.mean():.2f}",
        )
        told.append(
            f"{share:.0%} settled: mean {gains.mean():.2f} points, {(gains >= lead).mean():.0%} at "
            "or above the line"
        )
    ax.axvline(lead, color="black", linewidth=1, linestyle=":")
    ax.text(
        lead + 0.05, 0.99, f"printed: {lead:.2f}", fontsize=8, va="top", transform=ax.get_xaxis_transform()
    )
    ax.set(
        xlabel="best of four equal settings − mean of the four, points",
        ylim=(0, None),
        ylabel="percent of repetitions",
    )
    ax.legend(fontsize=8, loc="upper right", bbox_to_anchor=(1, 0.92))
    return (
        fig,
        (
            f"Histograms of the lead that the best of {len(ALPHAS)} equally good settings has by luck. "
            f"{'; '.join(told)}. A line at the printed lead, {lead:.2f} points."
        ),
        found,
    )


# ------------------------------------------------------------------------------------------- as measured
def downstream(profile: str | None = None):
    """DataFrame of c2dlm.downstream: arm, seed, percents of each synthetic task, and their mean."""
    from causalnb.tasks.reasoning import SYNTHETIC

    found = evidence.require("c2dlm.downstream", profile, ARMS)
    table = found[["arm", "seed"]].copy()
    for task in SYNTHETIC:
        table[task] = 100 * found[f"{task}_accuracy"]
    table["mean"] = table[list(SYNTHETIC)].mean(axis=1)
    return table


def _of(found, arm: str, column: str) -> dict[int, float]:
    return found[found.arm == arm].set_index("seed")[column].to_dict()


def contrasts(profile: str | None = None) -> dict[tuple[str, str], dict]:
    """{(arm, other): {task or "mean": Summary of paired differences in points}} of c2dlm.downstream."""
    from causalnb.lab.statistics import mean_ci, paired
    from causalnb.tasks.reasoning import SYNTHETIC

    found = downstream(profile)
    return {
        (a, b): {
            column: mean_ci(paired(_of(found, a, column), _of(found, b, column)))
            for column in (*SYNTHETIC, "mean")
        }
        for a, b in CONTRASTS
    }


def downstream_table(profile: str | None = None):
    """Our small table in the shape of Table 5: four arms on six synthetic tasks, and paired differences."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate
    from causalnb.tasks.reasoning import SYNTHETIC

    found, columns = downstream(profile), (*SYNTHETIC, "mean")
    rows = [
        [name, *(estimate(mean_ci(list(_of(found, arm, column).values())), 1) for column in columns)]
        for arm, name in ARMS.items()
    ]
    for (a, b), cells in contrasts(profile).items():
        rows.append([f"{ARMS[a]} − {ARMS[b]}", *(estimate(cells[column], 1) for column in columns)])
    return Table(
        "c2dlm.table5_ours",
        ["small scale", *(f"{task} (for {real})" for task, real in SYNTHETIC.items()), "mean"],
        rows,
        "Ours, small scale, in the shape of Table 5: accuracy on six synthetic tasks in percent, mean ± half "
        "of the 95 % interval (seeds), and differences of paired seeds",
        "The tasks are generated and have the shape of the real ones only; a number here says nothing about "
        "GSM8K or GPQA. The intervals are over training seeds; all runs are tested on the same items.",
    )


def downstream_figure(profile: str | None = None):
    """(figure, alt): paired differences from plain diffusion, for C2DLM and for the placebo graph."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.tasks.reasoning import SYNTHETIC

    found, columns = contrasts(profile), (*SYNTHETIC, "mean")
    fig, ax = plt.subplots(figsize=(5.8, 3.0))
    places, told = np.arange(len(columns))[::-1], []
    for shift, arm in ((0.14, "c2dlm"), (-0.14, "placebo")):
        colour, marker = LOOKS[arm]
        for place, column in zip(places, columns, strict=True):
            summary = found[arm, "diffusion"][column]
            ax.errorbar(
                summary.mean,
                place + shift,
                xerr=np.nan_to_num(summary.half),
                linestyle="",
                capsize=3,
                color=COLOURS[colour],
                marker=marker,
                label=ARMS[arm] if column == "mean" else None,
            )
            told.append(f"{ARMS[arm]} on {column} {summary.mean:+.1f} ± {summary.half:.1f}")
    ax.axvline(0, color="black", linewidth=1, linestyle=":")
    ax.axhline(0.5, color="0.8", linewidth=1)
    ax.set_yticks(places, columns)
    ax.set_xlabel("minus plain diffusion, points (paired seeds, 95 % interval)")
    ax.legend(fontsize=8, loc="best")
    return fig, (
        "Differences from plain diffusion on six synthetic tasks and their mean, points with 95 % "
        f"intervals, a line at 0. {'; '.join(told)}."
    )


def said(name: str, summary) -> str:
    """A sentence about a difference in points: above 0, below 0, or not to be told from 0."""
    reading = "above 0" if summary.low > 0 else "below 0" if summary.high < 0 else "not to be told from 0"
    half = f" ± {summary.half:.1f}" if summary.half == summary.half else ""
    return f"{name}: {summary.mean:+.1f}{half} points ({summary.n} seeds), {reading}."


def downstream_remarks(profile: str | None = None) -> list[str]:
    """The mean over the six tasks of every contrast, and without the task that gains most, in sentences."""
    from causalnb.lab.statistics import mean_ci, paired
    from causalnb.tasks.reasoning import SYNTHETIC

    found, told = downstream(profile), []
    for (a, b), cells in contrasts(profile).items():
        told.append(said(f"{ARMS[a]} minus {ARMS[b]}, mean of six tasks", cells["mean"]))
        if cells["mean"].low > 0:
            most = max(SYNTHETIC, key=lambda task: cells[task].mean)
            rest = found.assign(mean=found[[task for task in SYNTHETIC if task != most]].mean(axis=1))
            ends = [mean_ci(list(_of(found, arm, most).values())).mean for arm in (b, a)]
            told[-1] += f" Its largest part is `{most}`, from {ends[0]:.1f} to {ends[1]:.1f} %; " + said(
                "without it", mean_ci(paired(_of(rest, a, "mean"), _of(rest, b, "mean")))
            )
    return told


@dataclass(frozen=True)
class Place:
    """Where an arm of the ablation is trained."""

    experiment: str
    arm: str


def rows_of(task: str) -> dict[str, Place]:
    """{row of our Table 6: where it is}; the row of the default alpha is C2DLM's own arm."""
    from causalnb.lab import registry

    _, homes = TASKS[task]
    default = registry.config(homes["c2dlm"], "c2dlm", "laptop")["alpha"]
    found = {
        f"α={alpha}": Place(homes["c2dlm"], "c2dlm")
        if alpha == default
        else Place(f"c2dlm.ablation.{task}", f"alpha{alpha}")
        for alpha in ALPHAS
    }
    return found | {name: Place(homes.get(arm, f"c2dlm.ablation.{task}"), arm) for arm, name in PARTS.items()}


def measured(place: Place, metric: str, profile: str | None = None) -> dict[int, float]:
    """{seed: percent} of an arm; the usual LabError if it is not there."""

    found = evidence.require(place.experiment, profile, [place.arm])
    return (100 * found.set_index("seed")[metric]).to_dict()


def ablations(profile: str | None = None) -> dict[str, dict[str, tuple]]:
    """{heading of a metric: {row: (Summary in percent, Summary of row minus default on common seeds)}}."""
    from causalnb.lab.statistics import mean_ci, paired

    found = {}
    for task, (metrics, homes) in TASKS.items():
        default = Place(homes["c2dlm"], "c2dlm")
        for metric, heading in metrics.items():
            whole = measured(default, metric, profile)
            found[heading] = {}
            for name, place in rows_of(task).items():
                values = measured(place, metric, profile)
                both = values.keys() & whole.keys()
                apart = (
                    None
                    if place == default
                    else mean_ci(paired({s: values[s] for s in both}, {s: whole[s] for s in both}))
                )
                found[heading][name] = mean_ci(list(values.values())), apart
    return found


def ablation_table(profile: str | None = None):
    """Our small table in the shape of Table 6: settings, and paired differences from C2DLM's default."""
    from causalnb.lab.tables import Table, estimate

    found = ablations(profile)
    names = list(next(iter(found.values())))
    rows = []
    for name in names:
        cells = []
        for column in found.values():
            value, apart = column[name]
            cells += [estimate(value, 1), "default" if apart is None else estimate(apart, 1)]
        rows.append([name, *cells])
    heads = [head for column in found for head in (column, "minus default")]
    return Table(
        "c2dlm.table6_ours",
        ["small scale", *heads],
        rows,
        "Ours, small scale, in the shape of Table 6: percent, mean ± half of the 95 % interval (seeds), and "
        "the difference from C2DLM with its default α on the seeds that both have",
        "The default α is the paper's for each task: 5 for Sudoku and the token game, 3 for the chain of "
        "thought. γ has no printed value; 0.3, for Sudoku and the token game, and 1, for the chain of "
        "thought, are two of three tried on another draw with one seed (notebook 45).",
    )


def ablation_figure(profile: str | None = None):
    """(figure, alt): every setting's paired difference from C2DLM's default, a panel for each metric."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS

    found = ablations(profile)
    names = list(next(iter(found.values())))
    fig, axes = plt.subplots(1, len(found), figsize=(8.6, 3.1), sharey=True)
    told, places = [], np.arange(len(names))[::-1]
    for ax, (heading, column) in zip(axes, found.items(), strict=True):
        for place, name in zip(places, names, strict=True):
            _, apart = column[name]
            if apart is None:
                ax.scatter(0, place, marker="|", color="black", s=60)
                continue
            colour, marker = ("vermillion", "s") if name in PARTS.values() else ("blue", "o")
            ax.errorbar(
                apart.mean,
                place,
                xerr=np.nan_to_num(apart.half),
                linestyle="",
                capsize=3,
                color=COLOURS[colour],
                marker=marker,
            )
            told.append(f"{heading}, {name} {apart.mean:+.1f} ± {apart.half:.1f}")
        ax.axvline(0, color="black", linewidth=1, linestyle=":")
        ax.set_title(heading.replace(": ", ":\n"), fontsize=9)
    axes[0].set_yticks(places, names)
    fig.supxlabel("minus C2DLM's default, points (paired seeds, 95 % interval)", fontsize=9)
    return fig, (
        "Differences from C2DLM with its default alpha, points with 95 % intervals, a panel for "
        f"each metric, a line at 0; a bar marks the default. {'; '.join(told)}."
    )


def ablation_remarks(profile: str | None = None) -> list[str]:
    """How many differences of our ablation are beyond 0, by row, in sentences."""
    found = ablations(profile)
    said_of = []
    for name in next(iter(found.values())):
        apart = {heading: column[name][1] for heading, column in found.items() if column[name][1] is not None}
        worse = [heading for heading, summary in apart.items() if summary.high < 0]
        better = [heading for heading, summary in apart.items() if summary.low > 0]
        said_of.append(
            f"{name}: beside the default below 0 on {len(worse)} of {len(apart)} measures"
            f"{' (' + '; '.join(worse) + ')' if worse else ''}, above 0 on {len(better)}"
            f"{' (' + '; '.join(better) + ')' if better else ''}."
        )
    return said_of


# ----------------------------------------------------------------------------- tasks, settings and costs
def masks_figure(seed: int = 0):
    """(figure, alt): one row of each synthetic task as the mask that its rule teacher's graph becomes."""
    import matplotlib.pyplot as plt

    from causalnb.experiments.c2dlm.data import reasoning_rows
    from causalnb.lab.figures import COLOURS
    from causalnb.tasks.reasoning import SYNTHETIC, generate

    fig, axes = plt.subplots(2, 3, figsize=(7.4, 5.0))
    told = []
    for ax, task in zip(axes.flat, SYNTHETIC, strict=True):
        (row,) = reasoning_rows(task, generate(task, 1, seed), {"graph": "causal"}, 0)
        mask, prompt = row["supervision"].dense().numpy(), sum(row["prompt_mask"])
        for value, colour, marker in ((1, "blue", "s"), (-1, "vermillion", "x")):
            rows, columns = (mask == value).nonzero()
            label = {1: "+1: cause", -1: "−1: effect"}[value]
            ax.scatter(columns, rows, s=7, color=COLOURS[colour], marker=marker, linewidths=0.7, label=label)
        ax.axvspan(-0.5, prompt - 0.5, color="0.9", zorder=0)
        ax.set(xlim=(-0.5, len(mask) - 0.5), ylim=(len(mask) - 0.5, prompt - 0.5), title=task)
        ax.grid(False)
        ax.yaxis.get_major_locator().set_params(integer=True)
        told.append(
            f"{task}: {len(mask)} tokens, {prompt} of them prompt, {(mask == 1).sum()} entries +1 "
            f"and {(mask == -1).sum()} entries −1"
        )
    for ax in axes[:, 0]:
        ax.set_ylabel("query: token of the response")
    for ax in axes[1]:
        ax.set_xlabel("key: token of the text")
    axes[0, 0].legend(fontsize=7, loc="lower left", markerscale=1.5)
    return fig, (
        "Six masks, one a task; rows are the tokens of the response, columns those of the whole "
        f"text, the prompt shaded. {'; '.join(told)}."
    )


def kept_table(drawn: int = 100, seed: int = 0):
    """What the mask of a rule teacher's graph holds of the six tasks, means over `drawn` rows."""
    import numpy as np

    from causalnb.experiments.c2dlm.data import reasoning_rows
    from causalnb.lab.tables import Table
    from causalnb.tasks.reasoning import SYNTHETIC, generate

    lines = []
    for task, real in SYNTHETIC.items():
        found = []
        for row in reasoning_rows(task, generate(task, drawn, seed), {"graph": "causal"}, 0):
            one, prompt = row["supervision"], sum(row["prompt_mask"])
            mask = one.dense().numpy()[prompt:]
            valid = mask[(mask != 0).any(1)]
            found.append(
                [
                    len(one.concept),
                    len(mask),
                    float((one.concept >= 0).float().mean()),
                    len(valid) / len(mask),
                    one.report.kept / one.report.edges,
                    (valid == 1).sum(1).mean(),
                    (valid == -1).sum(1).mean(),
                ]
            )
        tokens, said, owned, valid, kept, plus, minus = np.mean(found, 0)
        lines.append(
            [
                f"{task} (for {real})",
                f"{tokens:.0f}",
                f"{said:.0f}",
                f"{owned:.0%}",
                f"{kept:.0%}",
                f"{valid:.0%}",
                f"{plus:.1f}",
                f"{minus:.1f}",
            ]
        )
    return Table(
        "c2dlm.table5_masks",
        [
            "task",
            "tokens",
            "in the response",
            "of all tokens in concepts",
            "edges kept",
            "rows supervised",
            "+1 a row",
            "−1 a row",
        ],
        lines,
        f"What a rule teacher's graph becomes, means of {drawn} rows a task",
        "A row is supervised if it has any entry other than 0; the last two columns are over such rows.",
    )


def settings_table():
    """Section 4.1 and Appendix B beside our settings for the six tasks; gaps of the paper are marked."""
    from causalnb.lab import registry
    from causalnb.lab.tables import Table, printed

    text = {line.column: line.printed for line in printed("c2dlm_text").itertuples()}
    ours = registry.config("c2dlm.downstream", "c2dlm", "laptop")
    theirs = registry.config("c2dlm.downstream", "autoregressive", "laptop")
    none, epochs = "— not given", ours["steps"] * ours["batch"] / ours["train_rows"]
    rows = [
        ["training rows", text["annotated instances"], ours["train_rows"]],
        ["training context (tokens)", text["training context, six tasks"], "the longest of a batch"],
        ["epochs, six tasks", none, f"{epochs:.1f}"],
        ["batch size", none, ours["batch"]],
        ["learning rate, diffusion", text["learning rate"], f"{ours['learning_rate']:g}"],
        ["learning rate, autoregressive", text["AR LoRA learning rate"], f"{theirs['learning_rate']:g}"],
        ["epochs, autoregressive", text["AR epochs, other tasks"], f"{epochs:.1f}"],
        ["LoRA rank", text["LoRA rank"], ours["lora_rank"]],
        ["LoRA scale, targets, dropout", none, f"{2 * ours['lora_rank']}, all linear maps, 0"],
        ["α, other tasks", text["α, other tasks"], f"{ours['alpha']:g}"],
        ["λ, other tasks", text["λ, other tasks"], f"{ours['lam']:g}"],
        ["γ_min and γ_max", none, f"0 and {ours['gamma']:g}"],
        ["T1 / T2", text["T1 over T2"], "0.1"],
        ["layers whose attention is guided", none, "all, mean map"],
        [
            "generation length",
            f"{text['generation length, GSM8K, MATH500 and SAT']}; "
            f"{text['generation length, choice tasks']} for choices",
            ours["gen_length"],
        ],
        ["block length", text["block length, default"], ours["block_length"]],
        ["decoding steps, temperature", none, f"{ours['decode_steps']}, 0"],
        ["seeds", f"1 (it is {text['seed']})", len(registry.seeds("c2dlm.downstream", "laptop"))],
        ["data for choosing settings", "— none named", "another draw of Sudoku, for the rate"],
    ]
    missing = sum(str(row[1]).startswith("—") for row in rows)
    return Table(
        "c2dlm.table5_settings",
        ["setting", "paper", "ours, small scale"],
        rows,
        "Settings of the six tasks, Section 4.1 and Appendix B",
        f"{missing} of {len(rows)} lines are not given in the paper.",
    )


def map_bytes(tokens: int, layers: int = 32, heads: int = 32, size: int = 2) -> int:
    """Bytes of the attention maps of one text in all layers and heads, `size` bytes a number."""
    return layers * heads * tokens**2 * size


def paper_costs() -> dict[str, dict[str, float]]:
    """{task: steps, gib, hours of training and of decoding} of one run in the paper profile, by estimate."""
    from causalnb.experiments.c2dlm.grid import PAPERS, TESTED
    from causalnb.experiments.c2dlm.text import memory_gib, seconds
    from causalnb.lab import registry

    found = {}
    for task in PAPERS:
        config = registry.config(f"c2dlm.text.{task}", "c2dlm", "paper")
        time = seconds(config, TESTED[task])
        found[task] = {
            "steps": config["steps"],
            "gib": memory_gib(config)["total"],
            "training": time["training"] / 3600,
            "decoding": time["decoding"] / 3600,
        }
    return found


def paper_costs_table():
    """What the published setting would take on one large GPU, as `causalnb doctor` estimates it."""
    from causalnb.experiments.c2dlm.text import SPEED
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    rows = []
    for task, cost in paper_costs().items():
        arms = len(registry.arms(f"c2dlm.text.{task}"))
        once = cost["training"] + cost["decoding"]
        rows.append(
            [
                f"c2dlm.text.{task}",
                f"{cost['steps']:,}",
                f"{cost['gib']:.0f}",
                f"{cost['training']:.1f}",
                f"{cost['decoding']:.1f}",
                arms,
                f"{arms * once:.0f}",
            ]
        )
    return Table(
        "c2dlm.table5_costs",
        ["experiment", "steps", "GiB", "hours of training", "hours of testing", "arms", "hours, all arms"],
        rows,
        "The paper profile, LLaDA-8B with adapters of rank 128: estimates for one GPU and one seed",
        f"At {SPEED / 1e12:.0f} TFLOP/s. Epochs of the six tasks, batch size and decoding steps are not "
        "printed; these are ours.",
    )


@artefact(
    "c2dlm.table5",
    needs=("c2dlm.downstream",),
)
def build_table5(profile):
    """Table 5: the printed rows with their intervals, and four arms on six synthetic tasks."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(table5())
    save_table(downstream_table(profile))
    fig, alt = gains_figure()
    save_figure(
        fig, "c2dlm.table5", alt=alt, caption="The printed gains, with the uncertainty of the test items."
    )
    fig, alt = downstream_figure(profile)
    save_figure(
        fig, "c2dlm.table5_ours", alt=alt, caption="Ours, small scale: differences from plain diffusion."
    )


@artefact("c2dlm.table6", needs=NEEDED)
def build_table6(profile):
    """Table 6: the printed rows with their intervals, and our ablation on three tasks."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(table6())
    save_table(ablation_table(profile))
    fig, alt = ablation_figure(profile)
    save_figure(fig, "c2dlm.table6", alt=alt, caption="Ours, small scale: differences from C2DLM's default.")
