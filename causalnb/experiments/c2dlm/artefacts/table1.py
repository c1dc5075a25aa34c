"""Table 1 of C2DLM: accuracy by the order of the steps, and the claims on it."""

from causalnb.experiments.c2dlm.artefacts import chains
from causalnb.experiments.c2dlm.artefacts.chains import (
    FURTHER,
    MODES,
    MORE,
    NORMAL,
    ORDER,
    SHUFFLED,
    TWINS,
    printed_rows,
    scores,
    trained,
)
from causalnb.lab import registry, report
from causalnb.lab.report import Claim, Contrast, Decided, Measured, Ours, Report, Row, builds, draw
from causalnb.lab.statistics import mean_ci
from causalnb.tasks import cot_order_perturb as cot

SHORTCUTS = ("most frequent answer", "nearest training input", "cubic fit")
SPREAD, OVER_SEEDS = "mean ± std over the 7 orders", "their mean over seeds"
HEADS = {mode: mode for mode in MODES[:-1]} | {"no_cot": "no COT"}


def over_orders(row) -> str:
    """Mean and sample standard deviation over the seven orders, as the paper computes them."""
    from statistics import mean, stdev

    return f"{mean(row):.2f} ± {stdev(row):.2f}"


def baselines(profile: str | None = None) -> dict[str, float]:
    """Share of test answers of readers without a chain, on the inputs of the experiments; of SHORTCUTS."""
    shares = chains.shortcuts(*chains.inputs(profile))
    return {name: shares[name] for name in SHORTCUTS}


def _ours():
    for twin, name in TWINS.items():

        def spread(profile, twin=twin):
            return over_orders(scores(profile)[twin][[*SHUFFLED]].mean())

        value = {HEADS[mode]: trained(twin, mode) for mode in MODES}
        value[OVER_SEEDS] = report.mean(*(trained(twin, mode) for mode in SHUFFLED))
        yield Row(name, value, cells={SPREAD: spread})
    after = {HEADS[arm.partition("_")[2]]: report.arm(FURTHER, arm) for arm in registry.arms(FURTHER)}
    yield Row(f"{TWINS['diffusion']}, twice the steps", {"normal": report.arm(NORMAL, "diffusion"), **after})


def _drawn_and_printed(profile):
    told = [cot.order(mode) for mode in MODES[:-1]]
    yield ["edges whose effect is said first", *map(cot.violations, told), "", "", ""]
    yield ["place of Stardust among 13", *(order.index(cot.TARGET) + 1 for order in told), "", "", ""]
    for model, row in printed_rows().items():
        *orders, bare = (f"{row[mode]:.1f}" for mode in MODES)
        yield [f"paper: {model}", *orders, over_orders(row[[*SHUFFLED]]), "one seed", bare]


def _shortcuts(profile):
    for name, share in baselines(profile).items():
        yield [name, *[""] * (len(MODES) + 1), f"{100 * share:.1f}"]


HEADINGS = (*MODES[:-1], SPREAD, OVER_SEEDS, HEADS["no_cot"])
orders = Report(
    "c2dlm.table1",
    ["model", *(Measured(heading, "test_exact") for heading in HEADINGS)],
    lambda: [_drawn_and_printed, *_ours(), _shortcuts],
    "Accuracy in % by the order of the steps; ours: mean ± half of the 95 % interval (seeds)",
    "The paper's ± is the spread over orders of one seed each, not an uncertainty; ours beside it is "
    "computed from means over seeds. Edges and places of DFS and R1 to R3 are of our orders; the paper's are "
    "not printed. The last rows read the two inputs alone.",
)


def _spreads(profile):
    """By seed, how much more the diffusion model varies over the seven orders, as shares."""
    left, right = (scores(profile)[twin][[*SHUFFLED]].dropna().std(axis=1) / 100 for twin in TWINS)
    return (right - left).dropna()


CONTRASTS = {  # those of claims.csv, in words
    1: "C2DLM, γ = 3 - diffusion, normal order",
    3: "C2DLM, γ = 3 - autoregressive, normal order",
    4: "autoregressive: mean of 7 orders - normal",
    5: "mean of 7 orders: diffusion - autoregressive",
    6: "spread over 7 orders: diffusion - autoregressive",
    7: "normal order: diffusion - autoregressive",
    8: "diffusion: no COT - normal in twice the steps",
    9: "autoregressive: normal - no COT",
    11: "autoregressive, more inputs: normal - RE",
    12: "attention to later steps: C2DLM - diffusion",
}
SPREAD_OF_ORDERS = Row(CONTRASTS[6], report.values(_spreads, ORDER), claim="c2dlm.claim6")


def _stated(claim) -> str:
    return claim["direction"] + (f"{claim['size']:g}" if claim["size"] == claim["size"] else ", no size")


claims = Report(
    "c2dlm.table1_verdicts",
    [
        Claim("the paper's claim"),
        Contrast("contrast"),
        Claim("paper, points", _stated),
        Ours("ours, points", 1),
        Decided("verdict"),
    ],
    [
        SPREAD_OF_ORDERS if number == 6 else Row(words, claim=f"c2dlm.claim{number}")
        for number, words in CONTRASTS.items()
    ],
    "Claims on Tables 1 and 2: mean ± half of the 95 % interval (seeds)",
)


def _more():
    for home in (ORDER, MORE):
        last, first = report.arm(home, "autoregressive_RE"), report.arm(home, "autoregressive_normal")
        first = first if home == MORE else trained("autoregressive", "normal")
        count = registry.config(home, "autoregressive_RE", "laptop")["train_rows"]
        yield Row(f"{count:,}", {"causes first": first, "effects first": last, "difference": first - last})


more = Report(
    "c2dlm.table1_more",
    [
        "training inputs",
        *(Measured(head, "test_exact") for head in ("causes first", "effects first", "difference")),
    ],
    _more,
    "The autoregressive model in two orders, in %, by the number of training inputs",
    "Causes first is the normal order, effects first is RE. Mean ± half of the 95 % interval (seeds).",
)
LOOKS = {  # the paper's models, and ours: colour, marker, place beside the order's mark
    "Llama-3.2-1B": ("yellow", "v", -0.24),
    "Qwen3-8B": ("orange", "s", -0.08),
    "Llama-3.1-8B": ("vermillion", "D", 0.08),
    "LLaDA-8B-Instruct (SFT)": ("blue", "o", 0.24),
    "autoregressive": ("vermillion", "D", -0.1),
    "diffusion": ("blue", "o", 0.1),
}


def orders_figure(profile: str | None = None):
    """(figure, alt): accuracy by order, the paper's models on the left, our twins over seeds on the right."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, intervals, text_size

    modes = ("normal", "LR", "DFS", "R2", "R1", "OF", "R3", "RE", "no_cot")  # by the place of the answer
    ours, nearest = scores(profile), 100 * baselines(profile)["nearest training input"]
    fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.3), sharey=True)
    places, told, ends = np.arange(len(modes)), [], []
    for model, row in printed_rows().items():
        colour, marker, beside = LOOKS[model]
        look = {"color": COLOURS[colour], "linestyle": "", "marker": marker, "label": model}
        axes[0].plot(places + beside, row[[*modes]], markeredgecolor="black", markeredgewidth=0.4, **look)
    for twin, found in ours.items():
        colour, marker, beside = LOOKS[twin]
        each = [mean_ci(found[mode].dropna()) for mode in modes]
        intervals(axes[1], places + beside, each, colour, marker, capsize=2, label=TWINS[twin])
        means = (f"{mode} {one.mean:.1f}" for mode, one in zip(modes, each, strict=True))
        told.append(f"{TWINS[twin]}: {', '.join(means)}")
        apart = max(one.mean for one in each[:-1]) - min(one.mean for one in each[:-1])
        ends.append(f"{TWINS[twin]} {apart:.1f}")
    axes[1].axhline(nearest, color="0.5", linestyle=":", marker="", label="nearest training input")
    for ax, title in zip(axes, ("the paper, one seed", "ours"), strict=True):
        ax.set_xticks(places, [mode.replace("no_cot", "no\nCOT") for mode in modes])
        ax.set(xlabel="order of the steps", title=title, ylim=(-3, None))
        for border in places[1:] - 0.5:
            ax.axvline(border, color="0.85", linewidth=0.6, linestyle="-", marker="")
        ax.grid(axis="x", visible=False)
        ax.legend(fontsize=text_size(7), loc="best")
    axes[0].set_ylabel("accuracy, %")
    headline(fig, f"From the best order of the steps to the worst, points: {', '.join(ends)}")
    return fig, (
        "Accuracy by the order of the steps. Left, the four models of the paper. Right, "
        f"{'; '.join(told)}; a line at {nearest:.1f} for the nearest training input."
    )


@builds("c2dlm.table1", orders, claims, more)
def table1(profile):
    """Accuracy by the order of the steps, and the claims on it."""
    caption = "Table 1 as a picture; orders in which the answer comes early are on the right."
    draw(profile, "c2dlm.table1_orders", orders_figure(profile), caption)
