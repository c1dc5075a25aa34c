"""Figure 1 of the Causal Transformer: what is forgotten when three tasks are learned in sequence."""

from causalnb.experiments.causal_transformer.artefacts.overlap import ARMS, LOOKS, percentage
from causalnb.experiments.causal_transformer.grid import STAGES
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw, mean_of
from causalnb.lab.tables import points

SEQUENCE = "causal_transformer.sequence"
HATCHES = {"bow": "//", "bilstm": "..", "transformer": "", "both": "xx"}
MODELS = {name: arm(SEQUENCE, name) for name in HATCHES}
NAMES = {"overlap": "entailment", "paraphrase": "paraphrase", "fact_check": "fact check"}
*EARLIER, LAST = STAGES  # tasks that others follow, and the last
LOST = [f"lost_{task}" for task in EARLIER]
METRICS = {  # heading -> metric of the table
    **{f"{NAMES[task]}, lost": metric for task, metric in zip(EARLIER, LOST, strict=True)},
    **{f"{NAMES[task]}, forgotten": f"forgotten_{task}" for task in STAGES},
    **{
        f"{NAMES[task]}, {'its own stage' if stage == task else 'the end'}": f"after_{stage}_{task}"
        for task in STAGES
        for stage in dict.fromkeys((task, LAST))
    },
}


def probes(profile: str | None = None) -> int:
    """How many training examples of a task are looked at again and again."""
    return registry.config(SEQUENCE, [*MODELS][0], profile)["probe_rows"]


def sequence_figure(profile: str | None = None):
    """(figure, alt): the share of learned examples lost in later stages, and accuracies after each stage."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline

    fig, (bars, *lines) = plt.subplots(1, 1 + len(STAGES), figsize=(9.4, 3.2), width_ratios=[1.4, 1, 1, 1])
    width, told = 0.8 / len(MODELS), []
    for place, (name, model) in enumerate(MODELS.items()):
        each = [percentage(model, metric, profile) for metric in LOST]
        where = np.arange(len(EARLIER)) + (place - (len(MODELS) - 1) / 2) * width
        look = {"color": COLOURS[LOOKS[name][0]], "hatch": HATCHES[name]}
        look["edgecolor"] = "black" if HATCHES[name] else "white"
        ends = np.nan_to_num([lost.half for lost in each])
        look |= {"yerr": ends, "capsize": 2, "error_kw": {"ecolor": "0.4"}}
        bars.bar(where, [lost.mean for lost in each], width, **look)
        shares = (f"{lost.mean:.0f} % of {NAMES[task]}" for lost, task in zip(each, EARLIER, strict=True))
        told.append(f"{ARMS[name]} lost {', '.join(shares)}")
    lost = (one for one, name in zip(told, MODELS, strict=True) if name in ("transformer", "both"))
    headline(fig, "; ".join(lost))
    bars.set_xticks(range(len(EARLIER)), [NAMES[task] for task in EARLIER])
    bars.set(ylabel="lost in later stages, %", title="(a) learned, then lost")
    bars.set_ylim(bottom=0)
    for stage, (ax, task) in enumerate(zip(lines, STAGES, strict=True), 1):
        told += _after_stages(ax, task, profile)
        ax.axvline(stage - 1, color="0.5", linestyle=":", marker="", linewidth=1)
        ax.set_xticks(range(len(STAGES)), range(1, len(STAGES) + 1))
        ax.set(title=f"(b) {stage}: {NAMES[task]}", ylim=(0, 103), xlabel="after stage")
        ax.tick_params(labelleft=ax is lines[0])
    lines[0].set_ylabel("test accuracy, %")
    fig.legend(*lines[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(MODELS))
    return fig, (
        f"Left, bars: of those of {probes(profile)} training examples a task that were right at the end of "
        "their own stage, the share that was wrong at a later look. Right, a panel for each task with its "
        f"test accuracy after each of three stages, its own stage marked by a dotted line. {'; '.join(told)}."
    )


def _after_stages(ax, task: str, profile) -> list[str]:
    """Accuracy on a task after each stage, a line for each of MODELS; what it shows, in words."""
    from causalnb.lab.figures import intervals

    told = []
    for name, model in MODELS.items():
        each = [percentage(model, f"after_{stage}_{task}", profile) for stage in STAGES]
        intervals(ax, range(len(each)), each, *LOOKS[name], capsize=2, label=ARMS[name])
        told.append(f"{NAMES[task]}, {ARMS[name]}: " + " / ".join(f"{score.mean:.0f}" for score in each))
    return told


forgotten = Report(
    "causal_transformer.fig1_forgotten",
    [
        "model",
        *(Measured(heading, metric) for heading, metric in METRICS.items()),
    ],
    [Row(ARMS[name], model) for name, model in MODELS.items()],
    "Three tasks in sequence: training examples lost and forgotten, and test accuracy, in %, "
    "mean ± half of the 95 % interval (seeds)",
    lambda profile: (
        f"Of {probes(profile)} training examples a task. Lost: of those right at the end of their "
        "own stage the share that is wrong at a later look. Forgotten: right at one look and wrong "
        "at the next, from the own stage on, so that the ups and downs of slow learning count too. "
        "The first task is looked at through two later stages, the second through one. Each model "
        "has one learning rate, searched on the first task alone."
    ),
)


def forgetting_remark(profile: str | None = None) -> str:
    """The claim on Figure 1 and the whole method beside the plain Transformer, in two sentences."""
    from causalnb.lab.verdicts import claims, decide

    claim = claims("causal_transformer").set_index("id", drop=False).loc["causal_transformer.claim14"]
    verdict = decide(claim, profile)
    method = (MODELS["both"] - MODELS["transformer"]).summary(mean_of(*LOST), profile)
    return (
        f"Mean of the tasks that others follow: the Transformer loses {points(verdict.summary)} points "
        f"of what it had learned more than BoW and BiLSTM; the claim that it forgets fewer: {verdict}. "
        f"+ both loses {points(method)} points more than the Transformer."
    )


@builds("causal_transformer.fig1", forgotten)
def fig1(profile):
    """Figure 1: what later stages lose, and accuracies, when three tasks are learned in sequence."""
    caption = "Three tasks learned in sequence: what later stages lose of each, and what is left."
    draw(profile, "causal_transformer.fig1", sequence_figure(profile), caption)
