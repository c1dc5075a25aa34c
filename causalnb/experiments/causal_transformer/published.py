"""What published files say of word overlap and of HANS, counted: nothing is trained here.

It is an experiment so that Table 1 and Figure 7 can be built again without the data files.
"""

from dataclasses import dataclass

from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import hans, overlap, paraphrase, snli

CUTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # where groups of pairs begin, by the share of common words
GROUPS = ("below 1/4", "1/4 to 1/2", "1/2 to 3/4", "3/4 to 1", "all words")
SHORT = 9  # words of a sentence that is shown as an example
PAIRS = {  # arm -> (rows, given n and minority; the label that overlap should tell)
    "snli_train": (lambda n, minority: snli.read("train"), 0),
    "snli_test": (lambda n, minority: snli.read("test"), 0),
    "mnli": (lambda n, minority: snli.read("mnli"), 0),
    "mnli_contradicting": (lambda n, minority: hans.contradicting(), 0),
    "paws_qqp": (lambda n, minority: paraphrase.read(), 1),
    "our_nli": (overlap.pairs, 0),
    "our_challenge": (lambda n, minority: overlap.challenge(max(1, n // len(overlap.SUBCASES))), 0),
    "our_questions": (paraphrase.pairs, 1),
    "our_swapped": (lambda n, minority: paraphrase.challenge(n), 1),
}
HALVES = ("entailed", "nonent")  # as the file of the 100 runs calls them
BERT_RUNS = {
    "mnli": ("MNLI dev acc.",),
    "accuracy": ("Overall accuracy",),
    **{
        label: tuple(f"{kind} ({half})" for kind in ("Lexical", "Subseq", "Constituent"))
        for label, half in zip(overlap.LABELS, HALVES, strict=False)
    },
}


def group_of(share: float) -> int:
    """The place in GROUPS of pairs with such a share of common words, 0 to 1."""
    return sum(share >= cut for cut in CUTS) - 1


def count_overlaps(rows: list[dict], label: int) -> dict[str, dict[str, float]]:
    """{"pairs": {"0": pairs in the first of GROUPS, ...}, "label": {"0": those with the label, ...}}."""
    from causalnb.tasks.sentence_pairs import overlap as common

    found = {name: {str(k): 0.0 for k in range(len(GROUPS))} for name in ("pairs", "label")}
    for row in rows:
        k = str(group_of(common(row["sentence1"], row["sentence2"])))
        found["pairs"][k] += 1
        found["label"][k] += row["label"] == label
    return found


def examples(rows: list[dict], label: int) -> list[dict]:
    """The first short pair with full overlap and the label, and the first one without the label."""
    from causalnb.tasks.sentence_pairs import overlap as common
    from causalnb.tasks.sentence_pairs import words

    found = {}
    for row in rows:
        one, two = (words(row[name]) for name in ("sentence1", "sentence2"))
        alike = common(row["sentence1"], row["sentence2"]) == 1
        if alike and one != two and max(len(one), len(two)) <= SHORT:
            found.setdefault(row["label"] == label, row)
    return [
        {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "has_label": has}
        for has, row in sorted(found.items(), reverse=True)
    ]


def answers() -> tuple[dict, list]:
    """Metrics of the published predictions on HANS, {model: {measure: share}}, and no history."""
    rows = hans.published_rows()
    scores = {model: hans.report(rows, hans.predictions(model)) for model in hans.MODELS}
    names = ("accuracy", *overlap.LABELS)
    return {model: {name: one[name] for name in names} for model, one in scores.items()}, []


def bert_runs() -> tuple[dict, list]:
    """How many runs of BERT are published, and a line for each: its scores by the names of BERT_RUNS."""
    found = hans.bert_runs()
    means = {
        name: sum(found[column] for column in columns) / len(columns) for name, columns in BERT_RUNS.items()
    }
    runs = [
        dict(zip(means, map(float, values), strict=False)) for values in zip(*means.values(), strict=False)
    ]
    return {"": {"runs": float(len(runs))}}, runs


def pairs(source: str, n: int, minority: float) -> tuple[dict, list]:
    """count_overlaps of a set of pairs, and examples of it."""
    read, label = PAIRS[source]
    rows = read(n, minority)
    return count_overlaps(rows, label), examples(rows, label)


def run_published(run: Run) -> dict:
    """Counts by overlap, and examples; "hans": scores of published predictions; "bert_runs": every run."""
    source = run.config["source"]
    metrics, history = ANSWERS[source]() if source in ANSWERS else pairs(**run.config)
    return {"metrics": metrics, "history": history}


ANSWERS = {"hans": answers, "bert_runs": bert_runs}  # arms that are no pairs


@dataclass(frozen=True)
class Settings:
    """Which pairs are counted."""

    source: str = "mnli"
    n: int = 12_000
    minority: float = 0.05


register(
    Experiment(
        id="causal_transformer.published",
        title="Word overlap in published pairs and in ours; HANS as published models answer it",
        run=run_published,
        notebook="11_spurious_correlations",
        arms={source: {"source": source} for source in (*PAIRS, *ANSWERS)},
        settings={"laptop": Settings(), "quick": {"n": 300}},
        seeds={"laptop": 1},
        cost={"laptop": 2},
    )
)
