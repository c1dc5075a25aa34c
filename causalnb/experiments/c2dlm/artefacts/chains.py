"""Tables 1 and 2 and Figure 4 of C2DLM: chains of thought in any order, from stored results."""

from causalnb.experiments.c2dlm.artefacts.cot import shortcuts, step_shortcuts
from causalnb.lab import evidence
from causalnb.lab.registry import artefact

NORMAL, CONTROLS = "c2dlm.cot.normal", "c2dlm.cot.controls"
ORDER, SCRATCH, BASE = "c2dlm.cot.order", "c2dlm.cot.scratch", "c2dlm.base"
SHUFFLED = ("DFS", "LR", "OF", "RE", "R1", "R2", "R3")
TWINS = {"autoregressive": "ours, autoregressive", "diffusion": "ours, diffusion (SFT)"}
SHORTCUTS = ("most frequent answer", "nearest training input", "cubic fit")
LARGE = "LLaDA-8B-Instruct (SFT)"
CURVES = {  # arm -> label, colour, line, marker
    "diffusion": ("diffusion (SFT)", "black", "--", "s"),
    "c2dlm": ("C2DLM", "blue", "-", "o"),
    "placebo": ("placebo graph", "vermillion", "-.", "^"),
    "autoregressive": ("autoregressive", "orange", ":", "D"),
}
SPED = ("exact", "within_1", "steps")  # scores of the validation inputs from which speed-ups are read


def scores(metric: str = "test_exact", profile: str | None = None) -> dict:
    """{twin: DataFrame, a row for each seed, a column for each mode}: percent, NaN for a seed not run."""
    import pandas as pd

    normal = evidence.require(NORMAL, profile, TWINS)
    arms = [f"{twin}_{mode}" for twin in TWINS for mode in (*SHUFFLED, "no_cot")]
    others = evidence.require(ORDER, profile, arms)
    found = {}
    for twin in TWINS:
        columns = {"normal": normal[normal.arm == twin]}
        columns |= {mode: others[others.arm == f"{twin}_{mode}"] for mode in (*SHUFFLED, "no_cot")}
        found[twin] = 100 * pd.DataFrame(
            {mode: rows.set_index("seed")[metric] for mode, rows in columns.items()}
        )
    return found


def over_orders(row) -> str:
    """Mean and sample standard deviation over the seven orders, as the paper computes them."""
    from statistics import mean, stdev

    return f"{mean(row):.2f} ± {stdev(row):.2f}"


def printed_rows() -> dict:
    """{model: Series by mode} of the paper's Table 1, in percent."""
    from causalnb.lab.tables import paper

    names = {"Normal COT": "normal", "No COT": "no_cot"}
    table = paper("c2dlm.table1").pivot(index="row", columns="column", values="value").rename(columns=names)
    order = paper("c2dlm.table1")["row"].unique()
    return {model: table.loc[model, ["normal", *SHUFFLED, "no_cot"]].astype(float) for model in order}


def _inputs(profile: str | None):
    """(training, test) inputs of the experiments."""
    from causalnb.lab import registry
    from causalnb.tasks import cot_order_perturb as cot

    config = registry.config(NORMAL, "diffusion", profile)
    held = config["test_rows"] + config["validation_rows"]
    train, rest = cot.split(config["train_rows"], held, config["split_seed"])
    return train, rest[: config["test_rows"]]


def baselines(profile: str | None = None) -> dict[str, float]:
    """Share of test answers of readers without a chain, on the inputs of the experiments; of SHORTCUTS."""
    found = shortcuts(*_inputs(profile))
    return {name: found[name] for name in SHORTCUTS}


def _over_seeds(series, digits: int = 1) -> str:
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import estimate

    return estimate(mean_ci(series.dropna()), digits)


def orders_table(profile: str | None = None):
    """Table 1: the paper's models and our twins by the order of the steps, and readers without a chain."""
    from causalnb.lab.tables import Table
    from causalnb.tasks import cot_order_perturb as cot

    modes = ("normal", *SHUFFLED)
    rows = [
        [
            "edges whose effect is said first",
            *(cot.violations(cot.order(mode)) for mode in modes),
            "",
            "",
            "",
        ],
        [
            "place of Stardust among 13",
            *(cot.order(mode).index(cot.TARGET) + 1 for mode in modes),
            "",
            "",
            "",
        ],
    ]
    for model, row in printed_rows().items():
        rows.append(
            [
                f"paper: {model}",
                *(f"{row[mode]:.1f}" for mode in modes),
                over_orders(row[[*SHUFFLED]]),
                "one seed",
                f"{row['no_cot']:.1f}",
            ]
        )
    for twin, found in scores(profile=profile).items():
        over = found[[*SHUFFLED]].dropna()
        rows.append(
            [
                TWINS[twin],
                *(_over_seeds(found[mode]) for mode in modes),
                over_orders(found[[*SHUFFLED]].mean()),
                _over_seeds(over.mean(axis=1)),
                _over_seeds(found["no_cot"]),
            ]
        )
    rows += [
        [name, *[""] * (len(modes) + 2), f"{100 * share:.1f}"] for name, share in baselines(profile).items()
    ]
    return Table(
        "c2dlm.table1",
        ["model", "normal", *SHUFFLED, "mean ± std over the 7 orders", "their mean over seeds", "no COT"],
        rows,
        "Accuracy in % by the order of the steps; ours: mean ± half of the 95 % interval (seeds)",
        "The paper's ± is the spread over orders of one seed each, not an uncertainty; ours beside it is "
        "computed from means over seeds. The last rows read the two inputs alone.",
    )


PRINTED = {  # the paper's models: colour, line, marker
    "Llama-3.2-1B": ("yellow", "-", "v"),
    "Qwen3-8B": ("orange", "--", "s"),
    "Llama-3.1-8B": ("vermillion", "-.", "D"),
    LARGE: ("blue", "-", "o"),
}
OURS = {"autoregressive": ("vermillion", "-.", "D"), "diffusion": ("blue", "-", "o")}


def orders_figure(profile: str | None = None):
    """(figure, alt): accuracy by order, the paper's models on the left, our twins over seeds on the right."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    modes = ("normal", "LR", "DFS", "R2", "R1", "OF", "R3", "RE", "no_cot")  # by the place of the answer
    ours, nearest = scores(profile=profile), 100 * baselines(profile)["nearest training input"]
    fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.3), sharey=True)
    places, told = np.arange(len(modes)), []
    for model, row in printed_rows().items():
        colour, line, marker = PRINTED[model]
        axes[0].plot(
            places,
            row[[*modes]],
            color=COLOURS[colour],
            linestyle=line,
            marker=marker,
            label=model,
            markeredgecolor="black",
            markeredgewidth=0.4,
        )
    for twin, found in ours.items():
        colour, line, marker = OURS[twin]
        each = [mean_ci(found[mode].dropna()) for mode in modes]
        axes[1].errorbar(
            places,
            [one.mean for one in each],
            yerr=np.nan_to_num([one.half for one in each]),
            color=COLOURS[colour],
            linestyle=line,
            marker=marker,
            capsize=2,
            label=TWINS[twin],
        )
        means = (f"{mode} {one.mean:.1f}" for mode, one in zip(modes, each, strict=True))
        told.append(f"{TWINS[twin]}: {', '.join(means)}")
    axes[1].axhline(nearest, color="0.5", linestyle=":", marker="", label="nearest training input")
    for ax, title in zip(axes, ("the paper, one seed", "ours"), strict=True):
        ax.set_xticks(places, [mode.replace("no_cot", "no\nCOT") for mode in modes])
        ax.set(xlabel="order of the steps", title=title, ylim=(-3, None))
        ax.legend(fontsize=7, loc="best")
    axes[0].set_ylabel("accuracy, %")
    return fig, (
        "Accuracy by the order of the steps. Left, the four models of the paper. Right, "
        f"{'; '.join(told)}; a line at {nearest:.1f} for the nearest training input."
    )


def _arms(profile) -> dict:
    """{label: DataFrame by seed} of Table 2, in the order of its rows."""

    main = evidence.require(NORMAL, profile)
    more, alone = evidence.require(CONTROLS, profile), evidence.require(SCRATCH, profile)
    wanted = (
        ("diffusion (SFT)", main, "diffusion"),
        ("C2DLM", main, "c2dlm"),
        ("C2DLM, placebo graph", main, "placebo"),
        ("C2DLM without values", more, "no_v"),
        ("autoregressive", main, "autoregressive"),
        ("from scratch: diffusion (SFT)", alone, "diffusion_scratch"),
        ("from scratch: C2DLM", alone, "c2dlm_scratch"),
        ("from scratch: autoregressive", alone, "autoregressive_scratch"),
        ("ordered noise, filled in order (ours)", more, "ordered"),
        ("C2DLM, ordered noise, filled in order (ours)", more, "c2dlm_ordered"),
    )
    return {label: found[found.arm == arm].set_index("seed") for label, found, arm in wanted}


def _ranked(found):
    """The same models, decoded in the order of the graph."""
    return found.rename(
        columns={f"ranked_test_{name}": f"test_{name}" for name in SPED}
        | {f"test_{name}": f"free_test_{name}" for name in SPED}
    )


def guidance_rows(profile: str | None = None) -> list[tuple[str, object, str | None, object]]:
    """(label, DataFrame by seed, what it is compared with, that DataFrame) for each row of Table 2."""
    arms = _arms(profile)
    for label in ("diffusion (SFT)", "C2DLM"):
        arms[f"{label}, filled in order (ours)"] = _ranked(arms[label])
    plain, alone = "diffusion (SFT)", "from scratch: diffusion (SFT)"
    filled = f"{plain}, filled in order (ours)"
    against = {
        label: alone if "scratch" in label else filled if "filled" in label and label != filled else plain
        for label in arms
    }
    return [
        (label, found, None if label == against[label] else against[label], arms[against[label]])
        for label, found in arms.items()
    ]


def difference(found, other, metric: str = "test_exact"):
    """Summary of found - other in percentage points, on the seeds that both have."""
    from causalnb.lab.statistics import mean_ci, paired

    both = found.index.intersection(other.index)
    return mean_ci([100 * value for value in paired(found.loc[both, metric], other.loc[both, metric])])


def guidance_table(profile: str | None = None):
    """Table 2: the normal order with and without guidance, its controls, and our two extensions."""
    from causalnb.lab.tables import Table, estimate, paper

    printed = paper("c2dlm.table2").set_index("row")["value"]
    said = {
        "diffusion (SFT)": printed[LARGE],
        "C2DLM": printed["C2DLM"],
        "autoregressive": printed_rows()["Llama-3.1-8B"]["normal"],
    }
    rows = []
    for label, found, against, other in guidance_rows(profile):
        cells = [_over_seeds(100 * found[f"test_{metric}"]) for metric in SPED]
        gain = "" if against is None else estimate(difference(found, other), 1)
        rows.append([label, f"{said[label]:.1f}" if label in said else "", *cells, gain])
    rows += [
        [name, "", "", "", f"{100 * share:.1f}", ""]
        for name, share in step_shortcuts(*_inputs(profile)).items()
    ]
    return Table(
        "c2dlm.table2",
        ["normal order", "paper, exact", "exact", "within 1", "steps right", "exact, minus SFT"],
        rows,
        "Normal order, % of 500 test inputs; ours: mean ± half of the 95 % interval (seeds)",
        f"The paper's gain is {printed['C2DLM'] - printed[LARGE]:.1f} points with one seed; its "
        "autoregressive model is Llama-3.1-8B. The last column pairs seeds, with plain diffusion trained "
        "alike, from scratch or filled in order where the row is. Rows that do not say so are decoded by low "
        "confidence. The last two rows are shortcuts, and read no causes.",
    )


def speed_ups(profile: str | None = None) -> dict:
    """{score: SpeedUp} of C2DLM over plain diffusion on the validation inputs, for each of SPED."""
    from causalnb.experiments.c2dlm.curves import speed_up
    from causalnb.lab import results

    evidence.require(NORMAL, profile, ["diffusion", "c2dlm"])
    found = results.curves(NORMAL, profile, ["diffusion", "c2dlm"])
    arms = [found[found.arm == arm] for arm in ("diffusion", "c2dlm")]
    return {name: speed_up(*arms, name) for name in SPED}


def stated_speed_up() -> float:
    """The speed-up that the paper's section 4.2 states."""
    from causalnb.lab.tables import printed

    text = printed("c2dlm_text")
    return float(text[(text.row == "Section 4.2") & (text.column == "training speed-up")].value.iloc[0])


def speed_table(profile: str | None = None):
    """The speed-up of C2DLM by each score, beside the one stated."""
    from causalnb.lab.tables import Table

    titles = dict(zip(SPED, ("exact", "within 1", "steps right")))
    rows = [
        [titles[name], f"{stated_speed_up():g}×" if name == "exact" else "not stated", str(found)]
        for name, found in speed_ups(profile).items()
    ]
    return Table(
        "c2dlm.fig4",
        ["smoothed score", "paper", "ours, median over seeds"],
        rows,
        "How many times sooner C2DLM is as good as plain diffusion is at its best",
    )


def curves_figure(profile: str | None = None):
    """(figure, alt): Figure 4, exact answers and right steps on validation inputs during training, by arm."""
    import matplotlib.pyplot as plt

    from causalnb.experiments.c2dlm.curves import draw_curve
    from causalnb.lab import registry, results

    evidence.require(NORMAL, profile, CURVES)
    found = results.curves(NORMAL, profile, CURVES)
    config = registry.config(NORMAL, "diffusion", profile)
    steps = config["train_rows"] / config["batch"]  # of an epoch
    fig, axes = plt.subplots(1, 2, figsize=(8.2, 3.2), sharex=True)
    told = []
    for ax, metric, title in zip(axes, ("exact", "steps"), ("exact answers", "steps right"), strict=True):
        ends = [
            f"{label} {draw_curve(ax, found[found.arm == arm], metric, 3, label, *look):.2f}"
            for arm, (label, *look) in CURVES.items()
        ]
        told.append(f"{title}, at the end: {', '.join(ends)}")
        ax.set(xlabel="training step", ylabel=f"{title}, share (smoothed)", ylim=(0, None))
        upper = ax.secondary_xaxis("top", functions=(lambda step: step / steps, lambda epoch: epoch * steps))
        upper.set_xlabel("epoch")
    axes[0].legend(fontsize=8)
    return fig, (
        "Two panels of learning curves over training steps, the mean over seeds in a band from the "
        f"lowest to the highest seed. {'; '.join(told)}."
    )


def _spread(found):
    """Sample standard deviation over the seven orders, by seed."""
    return found[[*SHUFFLED]].dropna().std(axis=1)


def contrasts(profile: str | None = None) -> dict[str, tuple[str, object]]:
    """{claim: (contrast in words, differences by seed in points)} of what claims.csv says of these tables."""

    found = scores(profile=profile)
    left, diffusion = found["autoregressive"], found["diffusion"]
    main = evidence.require(NORMAL, profile).set_index("seed")
    guided = 100 * main[main.arm == "c2dlm"]["test_exact"]
    means = {twin: rows[[*SHUFFLED]].dropna().mean(axis=1) for twin, rows in found.items()}
    return {
        "c2dlm.claim1": ("C2DLM - diffusion, normal order", guided - diffusion["normal"]),
        "c2dlm.claim3": ("C2DLM - autoregressive, normal order", guided - left["normal"]),
        "c2dlm.claim4": (
            "autoregressive: mean of 7 orders - normal",
            means["autoregressive"] - left["normal"],
        ),
        "c2dlm.claim5": (
            "mean of 7 orders: diffusion - autoregressive",
            means["diffusion"] - means["autoregressive"],
        ),
        "c2dlm.claim6": (
            "spread over 7 orders: diffusion - autoregressive",
            _spread(diffusion) - _spread(left),
        ),
        "c2dlm.claim7": ("normal order: diffusion - autoregressive", diffusion["normal"] - left["normal"]),
        "c2dlm.claim8": ("diffusion: no COT - normal", diffusion["no_cot"] - diffusion["normal"]),
        "c2dlm.claim9": ("autoregressive: normal - no COT", left["normal"] - left["no_cot"]),
    }


def verdicts(profile: str | None = None) -> dict:
    """{claim: (claim's row, contrast in words, Verdict)} for each of contrasts."""
    from causalnb.lab.verdicts import claims, verdict

    rows = claims("c2dlm").set_index("id")
    return {
        id: (
            rows.loc[id],
            words,
            verdict(
                [*differences.dropna()],
                float(rows.loc[id, "size"]),
                -1 if rows.loc[id, "direction"] == "-" else 1,
            ),
        )
        for id, (words, differences) in contrasts(profile).items()
    }


def verdict_table(profile: str | None = None):
    """The paper's claims on Tables 1 and 2: contrast of paired seeds, sizes and verdict."""
    from causalnb.lab.tables import Table, estimate

    rows = [
        [row.claim, words, f"{row.direction}{row['size']:g}", estimate(found.summary, 1), found]
        for row, words, found in verdicts(profile).values()
    ]
    columns = ["the paper's claim", "contrast", "paper, points", "ours, points", "verdict"]
    return Table(
        "c2dlm.table1_verdicts",
        columns,
        rows,
        "Claims on Tables 1 and 2: mean ± half of the 95 % interval (seeds)",
    )


def base_table(profile: str | None = None):
    """What the two bases can do before any task."""
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    arms = ("diffusion", "autoregressive")
    found = evidence.require(BASE, profile, arms)
    names = {"skills": "single skills, answers right, %", "stories": "stories, answers right, %"}
    by_arm = {arm: found[found.arm == arm].iloc[0] for arm in arms}
    rows = [[title, *(f"{100 * by_arm[arm][name]:.1f}" for arm in arms)] for name, title in names.items()]
    rows.append(["parameters", *(f"{int(by_arm[arm]['parameters']):,}" for arm in arms)])
    config = registry.config(BASE, "diffusion", profile)
    rows.append(["rows read", *[f"{config['steps'] * config['batch']:,}"] * len(arms)])
    return Table(
        "c2dlm.base",
        ["", *arms],
        rows,
        "The two bases after pre-training, on rows drawn anew",
        f"One seed; {config['evaluation_rows']} rows drawn, two thirds of them skills.",
    )


@artefact(
    "c2dlm.table1",
    needs=(NORMAL, ORDER),
)
def table1(profile):
    """Accuracy by the order of the steps, and the claims on it."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(orders_table(profile))
    save_table(verdict_table(profile))
    fig, alt = orders_figure(profile)
    save_figure(
        fig,
        "c2dlm.table1_orders",
        alt=alt,
        caption="Table 1 as a picture; orders in which the answer comes early are on the right.",
    )


@artefact("c2dlm.table2", needs=(NORMAL, CONTROLS, SCRATCH))
def table2(profile):
    """The normal order with and without guidance."""
    from causalnb.lab.tables import save_table

    save_table(guidance_table(profile))


@artefact(
    "c2dlm.fig4",
    needs=(NORMAL,),
)
def fig4(profile):
    """Learning curves, and the speed-up read from them."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    fig, alt = curves_figure(profile)
    save_figure(
        fig,
        "c2dlm.fig4",
        alt=alt,
        caption="Validation scores during training, normal order: mean "
        "over seeds, band from the lowest to the highest.",
    )
    save_table(speed_table(profile))
