"""The search before the Causal Transformer's Table 1: every try of every arm."""

from causalnb.experiments.causal_transformer.artefacts.overlap import (
    ARMS,
    DECISIVE,
    EXTRA,
    IDS,
    PLAIN,
    SHARES,
    TASKS,
    trained,
)
from causalnb.experiments.causal_transformer.grid import GCN_RATES
from causalnb.lab import evidence, registry
from causalnb.lab.report import Report, arm, builds, draw, share

SEARCHES = {task: f"causal_transformer.search.{task}" for task in TASKS}
AGAIN = {task: f"causal_transformer.search.rate.{task}" for task in GCN_RATES}  # + both, at + GCN's rate
AGAIN_USED = {task: f"causal_transformer.rate.{task}" for task in GCN_RATES}
CELLS = ("validation", "challenge")


def numbered(id: str, profile: str | None = None):
    """DataFrame of a search's tries by (arm, number), and the whole name of each."""
    lines = evidence.require(id, profile).rename(columns={"arm": "name"})
    split = lines.name.str.rpartition("_")
    return lines.assign(arm=split[0], number=split[2].astype(int)).set_index(["arm", "number"])


def tries(task: str, profile: str | None = None):
    """DataFrame of all tries by (arm, number): settings, what varies as a text; used, in Table 1; scores."""
    found, given = numbered(SEARCHES[task], profile), registry.experiment(SEARCHES[task]).arms
    configs = {name: registry.config(SEARCHES[task], name, profile) for name in found.name}
    settings, used = [], []
    for (kind, _), name in found.name.items():
        tried, ran = configs[name], registry.config(IDS[task, DECISIVE], kind, profile)
        siblings = [configs[other] for other in found.name.loc[kind]]
        varied = [key for key in tried if any(config[key] != tried[key] for config in siblings)]
        settings.append(
            ", ".join(
                f"{key} {'constant' if value is None else value}"  # of a schedule alone
                for key, value in given[name].items()
                if key in varied
            )
        )
        used.append(all(tried[key] == ran[key] for key in varied))
    return found.assign(settings=settings, used=used).sort_index()


def _percent(line) -> list[str]:
    return [f"{100 * line[f'{cell}_accuracy']:.1f}" for cell in CELLS]


def _rows(profile):
    found = {task: tries(task, profile) for task in TASKS}
    settings = found["nli"].settings
    for kind in (kind for kind in ARMS if kind in settings):
        for number, varied in settings.loc[kind].items():
            lines = {task: frame.loc[(kind, number)] for task, frame in found.items()}
            used = ", ".join(TASKS[task][0] for task, line in lines.items() if line.used)
            yield [ARMS[kind], varied, *(cell for line in lines.values() for cell in _percent(line)), used]
    more = {task: numbered(id, profile).loc["both"] for task, id in AGAIN.items()}
    for number, varied in settings.loc["both"].items():
        cells = (_percent(more[task].loc[number]) if task in more else [""] * len(CELLS) for task in TASKS)
        yield [
            f"{ARMS['both']}, at {ARMS['gcn']}'s rate",
            varied,
            *(cell for pair in cells for cell in pair),
            "",
        ]


def _notes(profile):
    base = registry.config(SEARCHES["nli"], f"{PLAIN}_0", profile)
    return (
        f"Data of another seed and of a family of templates that Table 1 never sees; "
        f"{SHARES[DECISIVE]} of counter-examples; {base['steps']:,} steps, where Table 1 has "
        f"{registry.config(IDS['nli', DECISIVE], PLAIN, profile)['steps']:,}. Every arm here has as "
        "many tries as any other: learning rates without a penalty, and with one its weight and "
        f"schedule (constant: at weight {base['causal_weight']:g}) at the Transformer's best rate. "
        "Used is the best mean of validation and challenge, so that counter-examples are chosen "
        f"for, here alone. {again_remark(profile)}"
    )


def again_remark(profile: str | None = None) -> str:
    """What the best try of + both at + GCN's rate reaches in Table 1, where that is not the Transformer's."""
    told = []
    for task, id in AGAIN_USED.items():
        arms = arm(id, "both"), *(trained(task, DECISIVE, name) for name in ("both", PLAIN))
        parts = []
        for name, metric in (("in distribution", "test_accuracy"), ("challenge", "challenge_accuracy")):
            ours, used, plain = (share(values.of(metric, profile)) for values in arms)
            parts.append(f"{name} {ours}, {ARMS['both']} as used {used}, the Transformer {plain}")
        told.append(
            f"Last, as a check: {ARMS['both']} in {TASKS[task][0]} at {ARMS['gcn']}'s best rate, which is "
            f"another there. The best of these tries has on Table 1's data: {'; '.join(parts)}."
        )
    return " ".join(told)


every = Report(
    "causal_transformer.search",
    [
        "arm",
        "settings",
        *(f"{words}, {cell}" for words, *_ in TASKS.values() for cell in CELLS),
        "used in Table 1",
    ],
    [_rows],
    "Every try of the search: accuracy in % on the development templates, one seed",
    _notes,
    needs=(
        *SEARCHES.values(),
        *AGAIN.values(),
        *AGAIN_USED.values(),
        *(IDS[task, DECISIVE] for task in AGAIN),
    ),
)


def _size(settings: str) -> float:
    """What to sort tries by: the number that varies, behind all of them where a schedule does."""
    try:
        return float(settings.rpartition(" ")[2])
    except ValueError:
        return float("inf")


def search_figure(profile: str | None = None):
    """(figure, alt): the challenge score of every try, a column for each arm; those used are filled."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig, axes = plt.subplots(1, len(TASKS), figsize=(7.4, 3.1), sharey=True)
    look = {"color": COLOURS["blue"], "linestyle": ""}
    told: list[str] = []
    apart: dict[str, float] = {}
    for ax, (task, (words, *_)) in zip(axes, TASKS.items(), strict=True):
        found = tries(task, profile)
        arms = {kind: name for kind, name in ARMS.items() if kind in found.index}
        for place, (kind, name) in enumerate(arms.items()):
            lines, scores = found.loc[kind], 100 * found.loc[kind].challenge_accuracy
            for rank, number in enumerate(lines.settings.map(_size).sort_values(kind="stable").index):
                across = place + 0.1 * (rank - (len(lines) - 1) / 2)
                filled = "full" if lines.used[number] else "none"
                ax.plot(across, scores[number], "o", fillstyle=filled, **look)
            told.append(f"{words}, {name}: {scores.min():.0f} to {scores.max():.0f}")
            apart[f"{name} ({words})"] = scores.max() - scores.min()
        ax.set_xticks(range(len(arms)), arms.values(), rotation=30, ha="right")
        ax.set(title=words)
    (most, points), (_, next_points) = sorted(apart.items(), key=lambda one: one[1], reverse=True)[:2]
    headline(
        fig,
        f"Settings alone move {most} by {points:.0f} points on the challenge, no other arm by more than "
        f"{next_points:.0f}",
    )
    fig.supxlabel(
        "tries of an arm, left to right: rising learning rate, or rising weight of the penalty, last its "
        "constant schedule",
        fontsize=text_size(8),
    )
    axes[0].set_ylabel("challenge, %")
    axes[-1].legend(handles=[Line2D([], [], marker="o", label="used in Table 1", **look)], loc="best")
    return fig, (
        "Two panels, a column of dots for each arm: the challenge score of every try in %, by rising "
        f"learning rate or weight, filled where Table 1 uses the settings. {'; '.join(told)}."
    )


def search_remark(profile: str | None = None) -> str:
    """For each task, how far tries of one arm are apart, and those that are used of different arms."""
    told = []
    for task, (words, *_) in TASKS.items():
        found = tries(task, profile)
        scores = 100 * found.challenge_accuracy
        each, used = scores.groupby("arm"), scores[found.used].groupby("arm").mean()
        spread = (each.max() - each.min()).mean()
        told.append(
            f"{words.capitalize()}: the best and the worst try of an arm are {spread:.1f} points apart on "
            "average; of the tries that are used, + both scores "
            f"{used['both'] - used[PLAIN]:+.1f} points against the Transformer."
        )
    return " ".join(told)


@builds(
    "causal_transformer.search",
    every,
    shows="every try of the search for learning rates, and for weights and schedules of the loss",
    **EXTRA,
)
def search(profile):
    """The search."""
    caption = "Every try of the search, on templates that Table 1 does not train on."
    draw(profile, "causal_transformer.search_tries", search_figure(profile), caption)
