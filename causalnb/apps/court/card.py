"""The card of a method: by rule from the numbers of the court, a verdict per task, a table and a figure."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from causalnb.errors import FileError, LabError, sentence
from causalnb.lab import files
from causalnb.lab.profiles import current
from causalnb.lab.records import parsed, sealed, unsealed
from causalnb.lab.statistics import Summary, mean_ci, paired
from causalnb.lab.verdicts import judged
from causalnb.paths import TEMPORARY, shown

from .cases import CASES, FLOOR, Case, case
from .judge import ARMS, SCHEMA, SHIPPED, Asked, alike, named

CARD = "card.json"
FEWEST = 5  # seeds of a verdict
RISING = 0.01  # i.i.d., by twice the steps, from which plain tuning is not over
SHAPE: dict[str, type] = {"schema": int, "method": str, "about": str, "profile": str, "tasks": dict}
VERDICTS = ("helps", "no more than a control", "no effect shown", "harms", "no verdict")
SHORT = {  # of the arms, in tables and the figure
    "plain": "plain",
    "longer": "twice the steps",
    "informed": "same labels as rows",
    "placebo": "placebo",
    "compute": "same compute",
}


def competence(arms: Mapping[str, Mapping[int, dict]]) -> str:
    """Why plain tuning cannot be compared with, "" where it can: it does the task, and is trained."""
    plain, longer = (
        mean_ci([record["iid"] for record in arms[arm].values()]).mean for arm in ("plain", "longer")
    )
    if plain < FLOOR:
        return f"plain tuning has {100 * plain:.1f} % i.i.d., below {100 * FLOOR:g} %"
    if longer - plain >= RISING:
        return f"twice the steps give plain tuning {100 * (longer - plain):.1f} points more i.i.d."
    return ""


def contrast(arms: Mapping[str, Mapping[int, dict]], control: str, measure: str = "challenge") -> Summary:
    """The method's difference to a control, in points, over seeds."""
    ours, theirs = (
        {seed: 100 * record[measure] for seed, record in arms[arm].items()} for arm in ("method", control)
    )
    return mean_ci(paired(ours, theirs))


def blind(arms: Mapping[str, Mapping[int, dict]]) -> bool:
    """Whether the method uses nothing of what it is told: its state and scores are those of the placebo."""
    return all(alike(arms["method"][seed], arms["placebo"][seed]) for seed in arms["method"])


def verdict(arms: Mapping[str, Mapping[int, dict]]) -> tuple[str, str]:
    """(one of VERDICTS, why), from {arm: {seed: record}}: each record has iid, challenge and weights.

    no verdict: plain tuning is not competent, or there are fewer than FEWEST seeds; harms: the interval of
    method - plain in the challenge is below 0; no effect shown: 0 is in it; no more than a control: it is
    above 0, and that to another control is not; helps: all are above 0. A method that is blind has no
    controls of what is told. What the method loses i.i.d., if its interval is below 0, is said.
    """
    if why := competence(arms):
        return "no verdict", why
    if (n := len(arms["method"])) < FEWEST:
        return "no verdict", f"{n} seed{'s' * (n > 1)} of at least {FEWEST}"
    word, why = _compared(arms)
    paid = contrast(arms, "plain", "iid")
    if judged(paid).label == "opposite":
        why += f"; it loses {-paid.mean:.1f} points i.i.d."
    return word, why


def _compared(arms: Mapping[str, Mapping[int, dict]]) -> tuple[str, str]:
    controls = ("plain", "longer", "compute") if blind(arms) else SHORT
    sides = {control: judged(contrast(arms, control)).label for control in controls}
    if sides["plain"] == "opposite":
        return "harms", "below plain tuning"
    if sides["plain"] != "reproduced":
        return "no effect shown", "0 is in the interval of its difference to plain tuning"
    equals = [SHORT[control] for control, side in sides.items() if side != "reproduced"]
    if equals:
        return "no more than a control", f"above plain tuning, not above {' and '.join(equals)}"
    told = ", uses nothing of what it is told" if blind(arms) else ""
    return "helps", f"above plain tuning and every control{told}"


def command(asked: Asked, output: Path | None = None) -> str:
    """The line that asks for the same card again; one that ships by its name, another as it was named.

    output: the folder that it names with --output, None where it need not.
    """
    method = asked.method.stem if asked.method.parent == SHIPPED else str(asked.method)
    words = ["causalnb", "try", method, "--on", ",".join(asked.tasks), "--seeds", str(asked.seeds)]
    words += ["--profile", current(asked.profile).name]
    words += ["--seconds", str(asked.seconds)] if asked.seconds != Asked.seconds else []
    return shlex.join(words + ([] if output is None else ["--output", str(output)]))


def write(asked: Asked, found: Mapping, output: Path, named_output: Path | None = None) -> dict:
    """Write card.json, card.md, card.svg and card.png into the method's folder; returns the first.

    named_output: the folder that the card's command names, None for none.
    """
    from causalnb.lab import figures

    profile = current(asked.profile).name
    tasks = {}
    for name, arms in found.items():
        word, why = verdict(arms)
        rows = {arm: _row(arms, arm) for arm in ARMS}
        tasks[name] = {"verdict": word, "why": why, "seeds": len(arms["method"]), "arms": rows}
    card = {
        "schema": SCHEMA,
        "method": asked.name,
        "about": named(asked.method, "__doc__").partition("\n")[0],
        "profile": profile,
        "tasks": tasks,
    }
    folder = output / asked.name
    folder.mkdir(parents=True, exist_ok=True)
    with figures.closed(), figures.style():
        figure, alt = draw(card)
        for format in ("svg", "png"):
            files.write_atomic(folder / f"card.{format}", figures.render(figure, format))
    cases = {name: case(name, asked.profile) for name in tasks}
    files.write_atomic(folder / "card.md", _markdown(card, cases, alt, command(asked, named_output)).encode())
    files.write_atomic(folder / CARD, sealed(card))
    return card


def _row(arms: Mapping, arm: str) -> dict:
    """What the card says of an arm: means over seeds, and the method's difference to it [mean, low, high]."""
    records = [arms[arm][seed] for seed in sorted(arms[arm])]
    row: dict = {}
    for measure in ("iid", "challenge"):
        summary = mean_ci([100 * record[measure] for record in records])
        row[measure] = _bounds(summary)
    row["seconds"] = mean_ci([record["seconds"] for record in records]).mean
    row |= {name: records[0][name] for name in ("parameters", "trained")}
    names = sorted({name for record in records for name in record["measures"]})
    row["measures"] = {name: mean_ci([record["measures"][name] for record in records]).mean for name in names}
    if arm != "method":
        row["difference"] = _bounds(contrast(arms, arm))
        row["difference_iid"] = _bounds(contrast(arms, arm, "iid"))
    return row


def _bounds(summary: Summary) -> list:
    """[mean, low, high], None for what one seed does not have."""
    return [None if value != value else value for value in (summary.mean, summary.low, summary.high)]


def _summary(bounds: list, n: int) -> Summary:
    mean, low, high = (float("nan") if value is None else value for value in bounds)
    return Summary(mean, low, high, n)


def _interval(bounds: list, sign: bool = False) -> str:
    """Of a difference with its sign, of a score within 0 and 100."""
    if not sign:
        bounds = [value if value is None else min(max(value, 0.0), 100.0) for value in bounds]
    form = "{:+.1f}" if sign else "{:.1f}"
    mean, low, high = ("" if value is None else form.format(value) for value in bounds)
    return f"{mean} [{low}, {high}]" if low else mean


def _markdown(card: dict, cases: Mapping[str, Case], alt: str, again: str) -> str:
    lines = [f"# {card['method']}", "", card["about"] or "A method without a docstring.", ""]
    if card["profile"] in TEMPORARY:
        lines += [f"Made in the {card['profile']} profile, a few steps of a tiny model: **no finding**.", ""]
    lines += [f"![{alt}](card.png)", ""]
    for name, task in card["tasks"].items():
        one = cases[name]
        lines += [
            f"## {name}: {task['verdict']}",
            "",
            f"{one.about[0].upper()}{one.about[1:]} (part {one.part} of the course); told: the {one.label} "
            "of a row. "
            f"{task['why'][0].upper()}{task['why'][1:].rstrip('.')}.",
            "",
            "| arm | i.i.d., % | challenge, % | method - arm, points | seconds | parameters | trained |",
            "|---|---|---|---|---|---|---|",
        ]
        for arm, row in task["arms"].items():
            cells = [
                ARMS[arm] + (f" ({one.information})" if arm == "informed" else ""),
                _interval(row["iid"]),
                _interval(row["challenge"]),
                _interval(row["difference"], True) if "difference" in row else "",
                f"{row['seconds']:.0f}",
                f"{row['parameters']:,}",
                f"{row['trained']:,}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
        for measure, value in task["arms"]["method"]["measures"].items():
            placebo = task["arms"]["placebo"]["measures"][measure]
            lines += ["", f"Measured after training: {measure} {value:.4g}, with the placebo {placebo:.4g}."]
        lines.append("")
    seeds = max(task["seeds"] for task in card["tasks"].values())
    lines += [
        f"Means over {seeds} seeds with their 95 % intervals (Student's t; of scores cut to 0 and 100). "
        "Seconds are those of one core. A "
        "verdict compares the challenge only where plain tuning does the task: at least "
        f"{100 * FLOOR:g} % i.i.d., and under {100 * RISING:g} point more in twice the steps.",
        "",
        "```",
        again,
        "```",
        "",
    ]
    return "\n".join(lines)


def draw(card: dict):
    """(figure, its alt text): challenge accuracy of the method and its controls, an axis for each task."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import intervals

    names = list(card["tasks"])
    figure, axes = plt.subplots(
        1, len(names), figsize=(1.9 + 1.7 * len(names), 2.4), sharey=True, squeeze=False
    )
    arms = [*SHORT, "method"]
    said = []
    for ax, name in zip(axes[0], names, strict=True):
        task = card["tasks"][name]
        for place, arm in enumerate(arms):
            summary = _summary(task["arms"][arm]["challenge"], task["seeds"])
            look = ("vermillion", "D") if arm == "method" else ("blue", "o")
            intervals(ax, [place], [summary], *look, across=True, within=(0, 100))
        ax.set(title=f"{name}\n{task['verdict']}", xlim=(-4, 104), xlabel="challenge, %")
        means = {arm: task["arms"][arm]["challenge"][0] for arm in ("method", *SHORT)}
        parts = ", ".join(f"{SHORT.get(arm, card['method'])} {mean:.0f} %" for arm, mean in means.items())
        said.append(f"{name}, {task['verdict']}: {parts}")
    axes[0][0].set_yticks(range(len(arms)), [*SHORT.values(), card["method"]])
    axes[0][0].invert_yaxis()
    return figure, f"Accuracy in the challenge of {card['method']} and of its controls. {'; '.join(said)}."


def draw_board(cards: Sequence[dict]):
    """(figure, its alt text): challenge accuracy of each card's method beside plain tuning and same labels.

    An axis for each task; all cards must be of one folder, which share those two controls.
    """
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import intervals

    tasks = [name for name in CASES if any(name in card["tasks"] for card in cards)]
    controls = ("plain", "informed")
    names = [*(SHORT[arm] for arm in controls), *(card["method"] for card in cards)]
    figure, axes = plt.subplots(
        1, len(tasks), figsize=(1.9 + 1.7 * len(tasks), 0.9 + 0.21 * len(names)), sharey=True, squeeze=False
    )
    said = []
    for ax, name in zip(axes[0], tasks, strict=True):
        those = [(i, card["tasks"][name]) for i, card in enumerate(cards, 2) if name in card["tasks"]]
        rows = [(i, those[0][1], arm, "blue", "o") for i, arm in enumerate(controls)]
        rows += [(i, task, "method", "vermillion", "D") for i, task in those]
        parts = []
        for place, task, arm, *look in rows:
            summary = _summary(task["arms"][arm]["challenge"], task["seeds"])
            intervals(ax, [place], [summary], *look, across=True, within=(0, 100))
            word = f" ({task['verdict']})" if arm == "method" else ""
            parts.append(f"{names[place]} {summary.mean:.0f} %{word}")
        for i in set(range(2, len(names))) - {i for i, _ in those}:
            ax.text(50, i, "not for this task", ha="center", va="center", fontsize=7, color="0.45")
        ax.axhline(1.5, color="0.8", lw=0.8)
        ax.set(title=name, xlim=(-4, 104), xlabel="challenge, %")
        said.append(f"{name}: {', '.join(parts)}")
    axes[0][0].set_yticks(range(len(names)), names)
    axes[0][0].invert_yaxis()
    return figure, f"Accuracy in the challenge of each task. {'; '.join(said)}."


def board_table(cards: Sequence[dict]) -> str:
    """The cards as a table in Markdown, a line for each method and task."""
    lines = [
        "| method | task | verdict | method - plain, points | - same labels as rows | - placebo | "
        "i.i.d. - plain | seconds / plain's (the rows' / plain's) | measured (with the placebo) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for card in cards:
        for name, task in card["tasks"].items():
            arms = task["arms"]
            placebos = arms["placebo"]["measures"]
            measured = "; ".join(
                f"{key} {value:.2f} ({placebos[key]:.2f})"
                for key, value in arms["method"]["measures"].items()
            )
            ours, rows = (arms[arm]["seconds"] / arms["plain"]["seconds"] for arm in ("method", "informed"))
            cells = [
                card["method"],
                name,
                task["verdict"],
                _interval(arms["plain"]["difference"], True),
                _interval(arms["informed"]["difference"], True),
                _interval(arms["placebo"]["difference"], True),
                _interval(arms["plain"]["difference_iid"], True),
                f"{ours:.2f} ({rows:.2f})",
                measured,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def board(folder: Path) -> list[dict]:
    """The cards of a folder, by the methods' names; LabError where there is none, FileError for a bad one."""
    found = []
    for file in sorted(folder.glob(f"*/{CARD}")):
        try:
            found.append(unsealed(parsed(file.read_bytes()), "card of the court", SHAPE))
        except (OSError, ValueError) as error:
            raise FileError(
                f"{shown(file)} cannot be read ({sentence(error)}): restore or delete it."
            ) from error
    if not found:
        raise LabError(f"{shown(folder)} holds no card: give the --output of causalnb try.")
    return found
