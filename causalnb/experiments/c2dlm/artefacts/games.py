"""C2DLM's tables and figures on Sudoku and the spurious token game, made from stored results."""

from causalnb.experiments.c2dlm import curves
from causalnb.lab import evidence, registry
from causalnb.lab.registry import artefact
from causalnb.lab.tables import percent, points
from causalnb.lab.verdicts import reading

NAMES = {
    "autoregressive": "autoregressive",
    "diffusion": "diffusion, SFT",
    "c2dlm": "C2DLM",
    "placebo": "placebo graph",
    "no_v": "C2DLM without V",
    "isolated": "every concept isolated (ours)",
    "mutual": "cells decide each other (mutual)",
}
SFT, PAPER_SFT = "diffusion", "LLaDA-8B-Instruct (SFT)"
PAPER = {"diffusion": PAPER_SFT, "c2dlm": "C2DLM"}
SIZES = ("S", "M", "L", "H")
MANY = "c2dlm.stg.many"  # shown where it is registered
KINDS = {"causal": ("purple", ""), "spurious": ("green", "//"), "irrelevant": ("yellow", "..")}
MAPPED = ("diffusion", "c2dlm")
STG = (*(f"c2dlm.stg.{size.lower()}" for size in SIZES), *((MANY,) if MANY in registry._experiments else ()))


def by_seed(experiment: str, arm: str, metric: str, profile: str | None = None) -> dict[int, float]:
    """{seed: value} of an arm's metric; LabError, as evidence.require, where results are missing."""

    found = evidence.require(experiment, profile, [arm]).set_index("seed")[metric]
    return {int(seed): float(value) for seed, value in found.items()}


def difference(left: dict[int, float], right: dict[int, float]) -> list[float]:
    """left - right on the seeds that both have."""
    return [left[seed] - right[seed] for seed in sorted(left.keys() & right.keys())]


def _stated(claim: str) -> float:
    from causalnb.lab.verdicts import claims

    return float(claims("c2dlm").set_index("id")["size"][claim])


# the spurious token game


def simple_rules(size: str, parts: dict) -> dict[str, dict[str, float]]:
    """{rule: {"iid", "ood"}}: readers without a network on parts {"train", "test", "ood"} of a size.

    A constant; least squares on the causes and on the spurious attributes (above 1/2 is high risk; of H the
    rounded index from 0 to 100); of S, M and L also the true rule with each cause read off the attribute that
    copies it.
    """
    import numpy as np

    from causalnb.tasks import stg

    hard = size == "H"
    causes, spurious = (stg.CAUSES_H, stg.SPURIOUS_H) if hard else (stg.CAUSES, stg.SPURIOUS)
    said = {part: [answer for _, answer in pairs] for part, pairs in parts.items()}
    asked = {part: [stg.values(prompt) for prompt, _ in pairs] for part, pairs in parts.items()}

    def answers(scores):
        if hard:
            return [str(int(score)) for score in np.rint(np.clip(scores, 0, 100))]
        return [stg.LABELS[0] if score > 0.5 else stg.LABELS[2] for score in scores]

    def least_squares(names):
        inputs = {
            part: np.array([[row[name] for name in names] + [1.0] for row in rows])
            for part, rows in asked.items()
        }
        wanted = np.array([float(answer) if hard else answer == stg.LABELS[0] for answer in said["train"]])
        weights = np.linalg.lstsq(inputs["train"], wanted.astype(float), rcond=None)[0]
        return {part: answers(inputs[part] @ weights) for part in ("test", "ood")}

    common = max(sorted(set(said["train"])), key=said["train"].count)
    told = {
        "the most frequent answer": {part: [common] * len(said[part]) for part in ("test", "ood")},
        "least squares, causes": least_squares(causes),
        "least squares, spurious": least_squares(tuple(spurious)),
    }
    if not hard:

        def rule(row):
            score = 1.2 * row["Yellow fingers"] / 1.5 + 0.7 * row["Clothing size"] - 2 * row["Hormones"]
            return stg.LABELS[0] if score > 7.2 else stg.LABELS[2]

        told["the rule, read off the spurious"] = {
            part: [rule(row) for row in asked[part]] for part in ("test", "ood")
        }
    return {
        name: {
            short: sum(map(str.__eq__, guess[part], said[part])) / len(said[part])
            for part, short in (("test", "iid"), ("ood", "ood"))
        }
        for name, guess in told.items()
    }


def size_parts(size: str) -> dict:
    """Train, test and ood of a size as the experiments draw them: S, M and L are the published rows."""
    from causalnb.tasks import stg

    if size == "H":
        return stg.generate_h()
    parts = stg.generate()
    return {**parts, "train": parts["train"][: stg.SIZES[size]]}


def stg_table(profile: str | None = None, sizes: tuple[str, ...] = SIZES):
    """Table 4: every model and rule by size, on the i.i.d. and the o.o.d. test; the paper's rows first."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, paper

    columns = [(size, part) for size in sizes for part in ("iid", "ood")]
    printed = paper("c2dlm.table4")
    models = [row for row in printed.row.unique() if row != "Δ"]
    cells = printed.set_index(["row", "group", "column"]).printed
    found = [
        [f"paper: {model}", *(cells[model, f"STG_{size}", part.upper()] for size, part in columns)]
        for model in models
    ]
    trained = {size: registry.arms(f"c2dlm.stg.{size.lower()}") for size in sizes}

    def cell(arm, size, part):
        if arm not in trained[size]:
            return None
        scores = by_seed(f"c2dlm.stg.{size.lower()}", arm, f"{part}_accuracy", profile)
        return percent(mean_ci(list(scores.values())))

    arms = [arm for arm in NAMES if any(arm in known for known in trained.values())]
    found += [[f"ours: {NAMES[arm]}", *(cell(arm, *column) for column in columns)] for arm in arms]
    rules = {size: simple_rules(size, size_parts(size)) for size in sizes}
    names = dict.fromkeys(name for found_rules in rules.values() for name in found_rules)
    found += [
        [
            f"no network: {name}",
            *(
                f"{100 * rules[size][name][part]:.2f}" if name in rules[size] else None
                for size, part in columns
            ),
        ]
        for name in names
    ]
    return Table(
        "c2dlm.table4",
        ["", *(f"{size} {part}" for size, part in columns)],
        found,
        "The spurious token game: percent right, ours as mean ± half of the 95 % interval (seeds)",
        "S, M and L are the published rows; H has the published distribution, drawn anew. The rules without "
        "a network are computed from the same rows.",
    )


def stg_contrasts(profile: str | None = None, sizes: tuple[str, ...] = SIZES):
    """Differences of Table 4, paired by seed, in points: guidance, controls, isolation, robustness."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, paper

    printed = paper("c2dlm.table4").set_index(["row", "group", "column"])
    best = {"S": "c2dlm.claim19", "M": "c2dlm.claim20", "L": "c2dlm.claim21"}
    found, gains = [], {}

    def scores(size, arm, part):
        return by_seed(f"c2dlm.stg.{size.lower()}", arm, f"{part}_accuracy", profile)

    def row(size, name, said, sides, size_of_claim=None):
        told = ["" if part is None else points(mean_ci(part)) for part in sides]
        last = [part for part in sides if part is not None][-1]
        found.append([size, name, said, *told, reading(last, size_of_claim)])

    for size in sizes:

        def gap(arm, other, size=size):
            return [difference(scores(size, arm, part), scores(size, other, part)) for part in ("iid", "ood")]

        said = " / ".join(printed.printed["Δ", f"STG_{size}", part] for part in ("IID", "OOD"))
        row(size, "C2DLM - SFT", said, gap("c2dlm", SFT), printed.value["Δ", f"STG_{size}", "OOD"])
        row(size, "C2DLM - placebo graph", "none", gap("c2dlm", "placebo"))
        row(size, "isolated (ours) - SFT", "none", gap("isolated", SFT))
        if size in best:
            stated = _stated(best[size])
            row(size, "C2DLM - autoregressive", f"/ +{stated:.2f}%", gap("c2dlm", "autoregressive"), stated)
        for seed in scores(size, SFT, "iid"):
            for part in ("iid", "ood"):
                gains.setdefault(seed, {})[size, part] = (
                    scores(size, "c2dlm", part)[seed] - scores(size, SFT, part)[seed]
                )
    whole = [one for one in gains.values() if len(one) == 2 * len(sizes)]
    average = [sum(one.values()) / len(one) for one in whole]
    lost = [
        sum(value if part == "ood" else -value for (_, part), value in one.items()) / len(sizes)
        for one in whole
    ]
    stated = _stated("c2dlm.claim18")
    row(
        "all",
        "C2DLM - SFT, mean of all columns",
        f"+{stated:.2f}%",
        (None, average),
        stated if set(sizes) == set(SIZES) else None,
    )
    row("all", "o.o.d. minus i.i.d., C2DLM - SFT", "less is lost", (None, lost), 0.0)
    return Table(
        "c2dlm.table4_contrasts",
        ["size", "difference", "paper, iid / ood", "iid, points", "ood, points", "reading (ood)"],
        found,
        "The spurious token game: differences of the same seeds, mean [95 % interval] (seeds)",
        "Where the paper claims a gain the reading is the verdict by rule, else the side of 0 on which the "
        "interval lies. The two last rows take the seeds that all sizes have. Gains "
        "over autoregressive: differences of printed cells.",
    )


def many_table(profile: str | None = None):
    """The same game with many more people to learn from, where that experiment is registered; else None."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    if MANY not in STG:
        return None
    arms, found = registry.arms(MANY), []
    plain = next(arm for arm in arms if arm.removesuffix("_scratch") == SFT)
    for arm in arms:
        scores = {part: by_seed(MANY, arm, f"{part}_accuracy", profile) for part in ("iid", "ood")}
        cells = [percent(mean_ci(list(part.values()))) for part in scores.values()]
        gaps = {
            other: difference(scores["ood"], by_seed(MANY, other, "ood_accuracy", profile))
            for other in (plain, plain.replace(SFT, "placebo"))
        }
        scratch = ", from scratch" if arm.endswith("_scratch") else ""
        found.append(
            [
                NAMES[arm.removesuffix("_scratch")] + scratch,
                *cells,
                *("" if arm == other else points(mean_ci(gap)) for other, gap in gaps.items()),
            ]
        )
    rows = registry.config(MANY, plain, profile)["train_rows"]
    return Table(
        "c2dlm.table4_many",
        ["model", "iid", "ood", "ood - SFT, points", "ood - placebo, points"],
        found,
        f"The spurious token game with {rows:,} training rows: percent right, mean ± half of the "
        "95 % interval (seeds)",
    )


@artefact(
    "c2dlm.table4",
    needs=STG,
)
def table4(profile):
    """Table 4, the spurious token game: accuracies with simple rules beside them, and paired differences."""
    from causalnb.lab.tables import save_table

    save_table(stg_table(profile))
    save_table(stg_contrasts(profile))
    if many := many_table(profile):
        save_table(many)


LOOKS = {
    "diffusion": ("black", ":", "o"),
    "c2dlm": ("blue", "-", "^"),
    "placebo": ("orange", "--", "s"),
    "isolated": ("purple", "-.", "D"),
}
WINDOW = 3  # evaluations


def speed_ups(
    profile: str | None = None,
    experiment: str = "c2dlm.stg.h",
    metric: str = "accuracy",
    window: int = WINDOW,
) -> dict:
    """{arm: SpeedUp over plain SFT} of C2DLM, the placebo and the isolated arm, on the validation sample."""
    from causalnb.lab import results

    evidence.require(experiment, profile, LOOKS)
    found = results.curves(experiment, profile, LOOKS)
    plain = found[found.arm == SFT]
    return {
        arm: curves.speed_up(plain, found[found.arm == arm], metric, window) for arm in LOOKS if arm != SFT
    }


def curves_figure(profile: str | None = None):
    """(figure, alt): Figure 5, accuracy during training on STG_H, and the speed-up of every seed."""
    import matplotlib.pyplot as plt

    from causalnb.lab import results
    from causalnb.lab.figures import COLOURS
    from causalnb.lab.tables import paper

    found = speed_ups(profile)  # LabError first, where results are missing
    history = results.curves("c2dlm.stg.h", profile, LOOKS)
    fig, axes = plt.subplots(1, 3, figsize=(8.0, 2.5), width_ratios=[1, 1, 0.85])
    told = []
    for ax, metric, title in zip(
        axes[:2], ("accuracy", "within_5"), ("exact index", "index within 5"), strict=True
    ):
        for arm, (colour, line, marker) in LOOKS.items():
            end = curves.draw_curve(
                ax, history[history.arm == arm], metric, WINDOW, NAMES[arm], colour, line, marker
            )
            told.append(f"{title}, {NAMES[arm]} ends at {end:.3f}")
        ax.set(xlabel="training step", ylabel="share right, smoothed", title=title)
        ax.set_ylim(bottom=0)
    axes[1].set_ylabel("")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    text = paper("c2dlm.text")
    printed = float(text[text.column == "training speed-up on STG_H"].value.iloc[0])
    last = axes[2]
    for place, (arm, one) in enumerate(found.items()):
        colour, _, marker = LOOKS[arm]
        for seed, quotient in one.quotients.items():
            missed = quotient is None
            last.plot(
                quotient or 0.0,
                -place + 0.12 * (seed - (len(one.quotients) - 1) / 2),
                marker="x" if missed else marker,
                color=COLOURS[colour],
                linestyle="",
            )
        told.append(f"speed-up of {NAMES[arm]}: {one}")
    last.axvline(1, color="0.4", linewidth=1, linestyle="-", marker="")
    last.axvline(printed, color="0.4", linewidth=1, linestyle="--", marker="")
    last.set_yticks(
        [-place for place in range(len(found))],
        [NAMES[arm].replace(" (ours)", "").replace(" ", "\n", 1) for arm in found],
        fontsize=8,
    )
    most = max(quotient or 0.0 for one in found.values() for quotient in one.quotients.values())
    last.set(
        xlabel="speed-up over SFT, by seed\n(× at 0: not reached)",
        ylim=(-len(found) + 0.5, 0.5),
        xlim=(-0.15, max(printed, most) + 0.4),
        title=f"dashed: the paper, {printed:g}",
    )
    return fig, (
        f"Two panels of learning curves on STG_H and one of speed-ups. {'; '.join(told)}. "
        f"The paper states {printed:g}."
    )


@artefact(
    "c2dlm.fig5",
    needs=("c2dlm.stg.h",),
)
def fig5(profile):
    """Figure 5: learning curves on STG_H and the speed-up over seeds."""
    from causalnb.lab.figures import save_figure

    fig, alt = curves_figure(profile)
    save_figure(
        fig,
        "c2dlm.fig5",
        alt=alt,
        profile=profile,
        caption=(
            f"STG_H, validation sample; mean of the last {WINDOW} evaluations, bands span the seeds. Speed-up: "
            "steps until SFT's best smoothed score, SFT's over the arm's; a cross at 0 was not reached."
        ),
    )


# attention


def kinds() -> dict[str, str]:
    """{attribute: "causal", "spurious" or "irrelevant"} of S, M and L, in that order."""
    from causalnb.tasks import stg

    parts = (stg.CAUSES, stg.SPURIOUS, stg.IRRELEVANT)
    return {name: kind for kind, names in zip(KINDS, parts, strict=True) for name in names}


def attribute_flow(arm: str, kind: str, profile: str | None = None, experiment: str = "c2dlm.stg.l"):
    """(seeds, 9, 8) shares of attention, kind "raw" or "weighted": rows the 8 attributes and the answer."""
    import numpy as np

    found, names = evidence.require(experiment, profile, [arm]), list(kinds())
    return np.array(
        [
            [[row[f"{kind}_{effect}_{cause}"] for cause in names] for effect in (*names, "Answer")]
            for _, row in found.iterrows()
        ]
    )


def _bars(ax, shares) -> list[float]:
    """Draw the answer's row (seeds, 8) as bars with intervals over seeds; the means."""
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    summaries = [mean_ci(column) for column in shares.T]
    for place, (summary, kind) in enumerate(zip(summaries, kinds().values(), strict=True)):
        colour, hatch = KINDS[kind]
        ax.bar(
            place,
            summary.mean,
            yerr=np.nan_to_num(summary.half),
            capsize=2,
            color=COLOURS[colour],
            hatch=hatch,
            edgecolor="black",
            linewidth=0.6,
        )
    ax.set_xticks(range(len(summaries)), kinds(), rotation=40, ha="right", fontsize=7)
    ax.grid(axis="x", visible=False)
    return [summary.mean for summary in summaries]


def _legend(fig) -> None:
    from matplotlib.patches import Patch

    from causalnb.lab.figures import COLOURS

    fig.legend(
        handles=[
            Patch(facecolor=COLOURS[colour], hatch=hatch, edgecolor="black", label=kind)
            for kind, (colour, hatch) in KINDS.items()
        ],
        loc="outside lower center",
        ncols=3,
        fontsize=8,
    )


def _said(means) -> str:
    return ", ".join(f"{name} {share:.3f}" for name, share in zip(kinds(), means, strict=True))


def answer_figure(profile: str | None = None):
    """(figure, alt): Figure 6, the answer's weighted attention to attributes, as a map and as bars."""
    import matplotlib.pyplot as plt

    flows = {arm: attribute_flow(arm, "weighted", profile)[:, -1] for arm in MAPPED}
    fig, axes = plt.subplots(2, 2, figsize=(5.8, 2.7), sharex="col", sharey="row", height_ratios=[0.3, 1])
    top, told = max(flow.mean(0).max() for flow in flows.values()), []
    for (strip, bars), (arm, flow) in zip(axes.T, flows.items(), strict=True):
        strip.imshow(flow.mean(0)[None], aspect="auto", vmin=0, vmax=top)
        strip.set_yticks([0], ["answer"], fontsize=8)
        strip.set_title(NAMES[arm], fontsize=9, loc="left")
        strip.grid(False)
        told.append(f"{NAMES[arm]}: {_said(_bars(bars, flow))}")
    axes[1, 0].set_ylabel("share of the answer's\nweighted attention")
    axes[1, 0].set_ylim(bottom=0)
    _legend(fig)
    return fig, (
        "Weighted attention of the answer to the eight attributes, each as a strip above bars. "
        f"{'; '.join(told)}."
    )


def shares_table(profile: str | None = None):
    """What part of the answer's attention to attributes is on the causes, in every arm of size L."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    arms = registry.arms("c2dlm.stg.l")
    found = {
        (arm, kind): by_seed("c2dlm.stg.l", arm, f"{kind}_causal", profile)
        for arm in arms
        for kind in ("raw", "weighted")
    }
    rows = []
    for arm in arms:
        against = difference(found[arm, "weighted"], found[SFT, "weighted"])
        means = [percent(mean_ci(list(found[arm, kind].values()))) for kind in ("raw", "weighted")]
        rows.append(
            [
                NAMES[arm],
                *means,
                "" if arm == SFT else points(mean_ci(against)),
                "" if arm == SFT else reading(against, 0.0 if arm == "c2dlm" else None),
            ]
        )
    even = 100 * sum(kind == "causal" for kind in kinds().values()) / len(kinds())
    return Table(
        "c2dlm.fig6_shares",
        ["model", "raw", "weighted", "weighted - SFT, points", "reading"],
        rows,
        "STG_L: percent of the answer's attention to attributes that goes to the three causes, "
        "mean ± half of the 95 % interval (seeds)",
        f"Spread evenly it would be {even:.1f}.",
    )


@artefact("c2dlm.fig6", needs=("c2dlm.stg.l",))
def fig6(profile):
    """Figure 6: weighted attention of the answer, SFT and C2DLM; and the causes' part of it in every arm."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(shares_table(profile))
    fig, alt = answer_figure(profile)
    save_figure(
        fig,
        "c2dlm.fig6",
        alt=alt,
        profile=profile,
        caption=(
            "STG_L, attention weighted by value norms, mean over layers, heads, 200 people and seeds; bars with "
            "95 % intervals over seeds."
        ),
    )


def maps_figure(profile: str | None = None):
    """(figure, alt): Figure 8, attention from attribute to attribute, raw and weighted, SFT and C2DLM."""
    import matplotlib.pyplot as plt

    flows = {
        (arm, kind): attribute_flow(arm, kind, profile).mean(0)
        for arm in MAPPED
        for kind in ("raw", "weighted")
    }
    fig, axes = plt.subplots(2, 2, figsize=(5.6, 4.6), sharex=True, sharey=True)
    top, told = max(flow.max() for flow in flows.values()), []
    for ax, ((arm, kind), flow) in zip(axes.flat, flows.items(), strict=True):
        image = ax.imshow(flow, vmin=0, vmax=top)
        ax.axhline(7.5, color="white", linewidth=2, marker="", linestyle="-")
        for edge in (2.5, 5.5):
            ax.axvline(edge, color="white", linewidth=1, marker="", linestyle="--")
        ax.set_title(f"{NAMES[arm]}, {kind}", fontsize=9, loc="left")
        ax.set_xticks(range(8), kinds(), rotation=40, ha="right", fontsize=6)
        ax.set_yticks(range(9), [*kinds(), "Answer"], fontsize=6)
        ax.grid(False)
        told.append(
            f"{NAMES[arm]}, {kind}: the answer's row is {_said(flow[-1])}; the largest entry is "
            f"{flow.max():.3f}"
        )
    for ax in axes[-1]:
        ax.set_xlabel("key: causal | spurious | irrelevant", fontsize=7)
    fig.supylabel("query", fontsize=8)
    fig.colorbar(image, ax=axes.ravel().tolist(), label="share of the query's attention", shrink=0.6)
    return fig, f"Four maps, nine queries by eight attributes. {'; '.join(told)}."


def bars_figure(profile: str | None = None):
    """(figure, alt): Figure 9, the answer's attention to each attribute, raw and weighted, SFT and C2DLM."""
    import matplotlib.pyplot as plt

    flows = {
        (arm, kind): attribute_flow(arm, kind, profile)[:, -1]
        for arm in MAPPED
        for kind in ("raw", "weighted")
    }
    fig, axes = plt.subplots(4, 1, figsize=(4.4, 4.9), sharex=True, sharey=True)
    told = []
    for ax, ((arm, kind), flow) in zip(axes, flows.items(), strict=True):
        means = _bars(ax, flow)
        ax.set_title(f"{NAMES[arm]}, {kind}", fontsize=9, loc="left")
        ax.set_ylabel("share")
        told.append(f"{NAMES[arm]}, {kind}: {_said(means)}")
    ax.set_ylim(bottom=0)
    _legend(fig)
    return fig, f"Four rows of bars, the answer's attention to the eight attributes. {'; '.join(told)}."


@artefact("c2dlm.fig8", needs=("c2dlm.stg.l",))
def fig8(profile):
    """Figure 8: maps between attributes, raw and weighted."""
    from causalnb.lab.figures import save_figure

    fig, alt = maps_figure(profile)
    save_figure(
        fig,
        "c2dlm.fig8",
        alt=alt,
        profile=profile,
        caption=(
            "STG_L: attention from attribute to attribute, name and number together; mean over layers, heads, "
            "200 people and seeds. The last row is the place where the answer is decoded."
        ),
    )


@artefact("c2dlm.fig9", needs=("c2dlm.stg.l",))
def fig9(profile):
    """Figure 9: the answer's attention to each attribute, raw and weighted."""
    from causalnb.lab.figures import save_figure

    fig, alt = bars_figure(profile)
    save_figure(
        fig,
        "c2dlm.fig9",
        alt=alt,
        profile=profile,
        caption=("STG_L: the last row of Figure 8, with 95 % intervals over seeds."),
    )
