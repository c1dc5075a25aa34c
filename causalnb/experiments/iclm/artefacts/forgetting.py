"""What is lost of ACRE after RAVEN, and which part of ICLM forgets."""

from collections import Counter

from causalnb.experiments.iclm.artefacts.continual import ARMS, BACK, FIRST, PARTS, ROUTED, on_acre
from causalnb.experiments.iclm.artefacts.scores import FORMATS, SETS
from causalnb.experiments.iclm.artefacts.table2 import IN_TURN, SINGLE_TASK, printed_rows
from causalnb.lab.report import Measured, Reader, Report, Row, Values, builds, draw
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import points

LOST = 0.1  # of ACRE's questions, from which a single run is asked which part forgot


def states(name: str, format: str) -> dict[str, Values]:
    """{when: ACRE's score}: before and after RAVEN; and for arms with a router, a part back as it was."""
    times = ["before", "after", *(f"{part}_back" for part in (BACK if name in ROUTED else ()))]
    return {when: on_acre(name, format, when) for when in times}


def changes(name: str, format: str) -> dict[str, Values]:
    """{"lost": before - after, part: what putting it back regains}."""
    score = states(name, format)
    back = {part: score[f"{part}_back"] - score["after"] for part in BACK if f"{part}_back" in score}
    return {"lost": score["before"] - score["after"]} | back


def forgetting(profile: str | None = None) -> dict[tuple[str, str], dict[str, dict[int, float]]]:
    """{(arm, format): {when: {seed: share}}}, as `states`."""
    at = Reader(profile)
    return {
        (name, format): {when: score.by_seed(at) for when, score in states(name, format).items()}
        for name in ARMS
        for format in FORMATS
    }


def losses(profile: str | None = None) -> dict[tuple[str, str], dict[str, list[float]]]:
    """{(arm, format): {"lost": by seed, part: what putting it back regains, by seed}}."""
    return {
        (name, format): {what: each.of(profile=profile) for what, each in changes(name, format).items()}
        for name in ARMS
        for format in FORMATS
    }


def _changes():
    for name, label in ARMS.items():
        for format in FORMATS:
            score, gone = states(name, format), changes(name, format)
            value = {"before RAVEN": score["before"], "after": score["after"], "lost": gone["lost"]}
            yield Row(
                (label, format),
                value | {f"{said} back": gone[part] for part, said in BACK.items() if part in gone},
            )


forgetting_table = Report(
    "iclm.forgetting",
    ["model", "format", *map(Measured, ("before RAVEN", "after", "lost"))]
    + [Measured(f"{said} back") for said in BACK.values()],
    _changes,
    "ACRE before and after RAVEN, mean of its three sets: percent right, and differences in points (seeds)",
    "Back: what is regained when that part alone is as it was before RAVEN. domains: the adapters "
    "of all domain modules; serving module: of the one that most of these inputs went to before "
    "RAVEN. head: normalisation and the fused head. They need not sum to what is lost.",
)


def _alone():
    for name, label in ROUTED.items():
        for format in FORMATS:
            for said, first, second in (
                ("serving", "domain", "served"),
                ("invariant", "invariant", "invariant"),
            ):
                before = on_acre(name, format, "before", first)
                after = on_acre(name, format, "after", second)
                value = {"before RAVEN": before, "after": after, "lost": before - after}
                yield Row((label, format, said), value)


alone_table = Report(
    "iclm.forgetting_alone",
    ["model", "format", "module alone", *map(Measured, ("before RAVEN", "after", "lost"))],
    _alone,
    "Modules of ACRE alone, without router and fused head, mean of three sets: percent right, and the "
    "difference in points (seeds)",
    "The serving module: the one that most inputs of this set and format went to before RAVEN; "
    "afterwards the same module is asked, wherever the router would send them.",
)


def forgetting_remarks(profile: str | None = None) -> list[str]:
    """Which part brings most of what is lost back, by arm and format and over single runs, in sentences."""
    said, firsts = [], Counter()
    for (arm, format), gone in losses(profile).items():
        lost, name = mean_ci(gone["lost"]), f"{ARMS[arm]}, {format}"
        for place in range(len(gone["lost"]) if PARTS[0] in gone else 0):
            if gone["lost"][place] >= LOST:
                firsts[max(PARTS, key=lambda part: gone[part][place])] += 1
        if not lost.low > 0:
            had = forgetting(profile)[arm, format]["before"]
            by_seed = ", ".join(
                f"{100 * value:+.1f} of {100 * had[seed]:.1f}"
                for seed, value in zip(sorted(had), gone["lost"], strict=True)
            )
            said.append(
                f"{name}: {points(lost)} points are lost, an interval that does not show a loss; by "
                f"seed {by_seed}."
            )
            continue
        back = {BACK[part]: mean_ci(gone[part]) for part in BACK if part in gone}
        tail = ""
        if back:
            least, *_, best = sorted(back, key=lambda part: back[part].mean)
            tail = f"; most comes back with the {best} ({points(back[best])}), least with the {least}"
        said.append(f"{name}: {points(lost)} points are lost{tail}.")
    if runs := firsts.total():
        whole = {"invariant": "invariant module", "domains": "domain modules"}
        parts = ", ".join(f"the {whole.get(part, part)} in {n}" for part, n in firsts.most_common())
        said.append(
            f"Run by run, of the {runs} losses of {100 * LOST:.0f} points or more in models with "
            f"modules, most comes back with {parts}; both arms share their first stages."
        )
    return said


LOOKS = {  # when: colour, marker, fill, height above the row
    "before": ("black", "o", "white", 0),
    "after": ("black", "o", None, 0),
    "router_back": ("green", "^", None, 0.3),
    "invariant_back": ("blue", "v", None, 0.3),
    "domains_back": ("orange", "s", None, 0.3),
    "head_back": ("purple", "D", None, 0.3),
    "served_back": ("sky", "P", None, 0.53),
}


def forgetting_figure(profile: str | None = None):
    """(figure, alt): ACRE before and after RAVEN, the paper's and ours, and with each part put back."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size

    scores, printed = forgetting(profile), printed_rows()
    names = ["paper: ICLM", "paper: Finetuned-Sequential", *(f"ours: {name}" for name in ARMS.values())]
    fig, axes = plt.subplots(1, len(FORMATS), figsize=(8.6, 3.3), sharex=True, sharey=True)
    told = []
    for ax, (format, column) in zip(axes, FORMATS.items(), strict=True):

        def mean(*row, column=column):
            return np.mean([printed[row][group, column] for group in SETS[FIRST].values()])

        rows = [
            {"before": mean(SINGLE_TASK, "ICLM ACRE"), "after": mean(IN_TURN, "ICLM")},
            {"after": mean(IN_TURN, "LLaMA2-Finetuned-Sequential")},
            *(
                {when: np.mean(list(by_seed.values())) for when, by_seed in scores[arm, format].items()}
                for arm in ARMS
            ),
        ]
        for place, (name, row, arm) in enumerate(zip(names, rows, [None, None, *ARMS], strict=True)):
            if "before" in row:
                look = {"color": "0.6", "linewidth": 2, "linestyle": "-", "marker": "", "zorder": 1}
                ax.plot([100 * row["before"], 100 * row["after"]], [-place] * 2, **look)
            for when in ("before", "after") if arm else ():
                by_seed = 100 * np.array(list(scores[arm, format][when].values()))
                look = {"color": "black", "markerfacecolor": LOOKS[when][2] or "black", "marker": "o"}
                look |= {"linestyle": "", "markersize": 3, "markeredgewidth": 0.7}
                ax.plot(by_seed, [-0.28 - place] * len(by_seed), **look)
            for when, (colour, marker, fill, up) in LOOKS.items():
                if when in row:
                    look = {"color": COLOURS[colour], "markerfacecolor": fill or COLOURS[colour]}
                    look |= {"markersize": 6.5, "markeredgecolor": "black", "linestyle": ""}
                    ax.plot(100 * row[when], up - place, marker=marker, **look)
            values = ", ".join(f"{when.replace('_', ' ')} {100 * value:.1f}" for when, value in row.items())
            told.append(f"{format}, {name}: {values}")
        limits = {"xlim": (-3, 103), "ylim": (0.6 - len(names), 0.6)}
        ax.set(xlabel="ACRE right, % (small: each seed)", title=format, **limits)
        ax.set_yticks([-place for place in range(len(names))], names)
    headline(fig, _message(scores))
    look = {"linestyle": "", "markersize": 6.5, "markeredgecolor": "black"}
    handles = [
        plt.Line2D([], [], marker=marker, markerfacecolor=fill or COLOURS[colour], **look)
        for colour, marker, fill, _ in LOOKS.values()
    ]
    labels = ["before RAVEN", "after", *(f"after, {name} put back" for name in BACK.values())]
    fig.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=text_size(7.5))
    return fig, (
        f"ACRE right before and after RAVEN, a row for each model, and the score with one part put "
        f"back. {'; '.join(told)}."
    )


def _message(scores: dict[tuple[str, str], dict[str, dict[int, float]]]) -> str:
    """What RAVEN costs ICLM of ACRE, and the part that alone brings most of it back; scores: `forgetting`."""
    told, each_lost = [], []
    for format in FORMATS:
        before, after = (scores["iclm", format][when] for when in ("before", "after"))
        each_lost += [100 * (before[seed] - after[seed]) for seed in before]
        score = {when: 100 * sum(each.values()) / len(each) for when, each in scores["iclm", format].items()}
        best = max(BACK, key=lambda part: score[f"{part}_back"])
        back = score[f"{best}_back"] - score["after"]
        told.append(f"{format} {score['after'] - score['before']:+.0f}, {back:+.0f} ({BACK[best]})")
    said = (
        f"{ARMS['iclm']} on ACRE after RAVEN, mean points (seeds lose {min(each_lost):.0f} to "
        f"{max(each_lost):.0f}), and with the part put back that regains most"
    )
    return f"{said}: {'; '.join(told)}"


@builds(
    "iclm.forgetting",
    forgetting_table,
    alone_table,
    extra=True,
    printed_as="Section 5.4",
    notebook="33_continual_learning",
    kind="measured",
    shows="what is lost of ACRE after RAVEN, and which part forgets",
)
def forgotten(profile):
    """What is lost of ACRE and what comes back with each part."""
    caption = (
        "ACRE before and after RAVEN, mean of its three sets and over seeds; triangles, squares, diamonds, "
        "crosses: after RAVEN, with that part alone as it was before."
    )
    draw(profile, "iclm.forgetting", forgetting_figure(profile), caption)
