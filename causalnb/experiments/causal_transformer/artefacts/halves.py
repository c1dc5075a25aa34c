"""Both halves of published sets, and AUC: what a gain on one label leaves beyond a habit of answering."""

from collections.abc import Iterator, Sequence

from causalnb.experiments.causal_transformer.artefacts.beyond import ARMS as BEYOND
from causalnb.experiments.causal_transformer.artefacts.beyond import CHOSEN
from causalnb.experiments.causal_transformer.artefacts.overlap import DECISIVE, EXTRA, PLAIN, SHARES, TASKS
from causalnb.experiments.causal_transformer.grid import BLANKETS, BOTH_HALVES
from causalnb.lab import evidence
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, fraction, gain, mean_of, tested
from causalnb.lab.statistics import mean_ci

HOME = "causal_transformer.halves"
IDS = {task: f"causal_transformer.beyond.halves.{task}" for task in TASKS}
REWEIGHTED = {task: f"causal_transformer.balanced.{task}" for task in TASKS}  # of Table 1's Transformer
SETS = {"nli": ("MNLI", "mnli_overlapping"), "paraphrase": ("PAWS-QQP", "paws_qqp")}  # all of full overlap
NAMES = {PLAIN: BEYOND[PLAIN], "balanced": f"{BEYOND[PLAIN]}, reweighted"}
NAMES |= {name: BEYOND[name] for name in BOTH_HALVES}
SAID = {
    "entailment": "that follow",
    "non-entailment": "that do not",
    "paraphrase": "paraphrases",
    "other": "no paraphrases",
}
PAIRS = (*((name, "compared") for name in BLANKETS), (CHOSEN, "compared"), ("balanced", PLAIN))
MEAN, AREA = "mean of both", "AUC"
GAPS = ("overlap is right", "overlap misleads", MEAN, AREA)


def metrics(task: str) -> list:
    """Of a task's published set: both halves, first the one on which overlap is right, their mean, AUC."""
    cell = SETS[task][1]
    halves = [f"{cell}_{label}" for label in TASKS[task][2]]
    return [*halves, mean_of(*halves), f"{cell}_auc"]


def asked(task: str, name: str, metric: object = None) -> Arm:
    """An arm that was asked both halves."""
    return arm((IDS if name in BOTH_HALVES else REWEIGHTED)[task], name, metric)


def both(task: str) -> Report:
    """Both halves of a task's published set, their mean and AUC, by arm."""
    (words, _, labels), (title, cell) = TASKS[task], SETS[task]

    def notes(profile: str | None) -> str:
        rows = int(evidence.require(REWEIGHTED[task], profile, [PLAIN])[f"{cell}_rows"].iloc[0])
        return (
            f"{rows} pairs of {title}; {SHARES[DECISIVE]} of counter-examples in training. AUC: how often a "
            "pair of one label is rated above one of the other, whatever answer a model prefers. Chance is "
            f"0.5, and 50 % of {MEAN}. Reweighted: told which pairs are counter-examples, and learns from "
            "them as often as from those on which overlap is right."
        )

    headings = [*(f"{title}, {SAID[label]}" for label in labels), MEAN, AREA]
    return Report(
        f"{HOME}_{task}",
        [
            "arm",
            *(
                Measured(heading, metric, fraction() if heading == AREA else None)
                for heading, metric in zip(headings, metrics(task), strict=True)
            ),
        ],
        [Row(said, asked(task, name)) for name, said in NAMES.items()],
        f"{words.capitalize()}, real pairs of both labels: % right, mean ± half of the 95 % interval (seeds)",
        notes,
    )


def _gap_rows() -> Iterator[Row]:
    for task, (words, *_) in TASKS.items():
        for name, other in PAIRS:
            gaps = {
                heading: asked(task, name, metric) - asked(task, other, metric)
                for heading, metric in zip(GAPS, metrics(task), strict=True)
            }
            yield Row((words, f"{NAMES[name]} - {NAMES[other]}"), gaps)


contrasts = Report(
    f"{HOME}_contrasts",
    ["task", "difference, points", *(Measured(heading, format=tested) for heading in GAPS)],
    _gap_rows,
    "Real pairs of both labels: differences of the same seeds, mean [95 % interval] (seeds), and the p of "
    "the exact sign-flip test",
    "Points of AUC are hundredths. A habit of one answer moves the halves against each other, and AUC not at "
    "all.",
)


def parted(gap: Sequence[float]) -> str:
    """What differences in AUC show of how well an arm parts the pairs, beside another."""
    found = mean_ci(gap)
    if found.low > 0:
        return "the pairs are parted better"
    return "the pairs are parted worse" if found.high < 0 else "no better parting is shown"


def habit_remark(profile: str | None = None) -> list[str]:
    """What the arms of PAIRS gain in each half and in AUC, and what that shows; a line each."""
    told = []
    for task, (words, *_) in TASKS.items():
        for name, other in PAIRS:
            gaps = [
                (asked(task, name, its) - asked(task, other, its)).of(None, profile) for its in metrics(task)
            ]
            parts = "; ".join(f"{said} {gain(gap)}" for said, gap in zip(GAPS, gaps, strict=True))
            told.append(
                f"{words.capitalize()}, {NAMES[name]} - {NAMES[other]}, points: {parts}: {parted(gaps[-1])}."
            )
    return told


@builds(
    HOME,
    *map(both, TASKS),
    contrasts,
    shows="both halves of real pairs with full overlap, and AUC, where one label alone tells of a habit",
    **EXTRA | {"notebook": "13_directed_dependencies"},
)
def halves(profile):
    """Both halves and AUC of both tasks' published sets, and paired differences."""
