"""What is published on HANS: its file, the predictions of four models on it, and a hundred runs of BERT.

The 30,000 pairs of the file are 1,000 of each subcase in the order of `overlap.SUBCASES`, and their pairIDs
count them: so predictions can be scored without the sentences.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import numpy as np

from causalnb.errors import DataError
from causalnb.tasks import files, overlap, sentence_pairs, snli

COLUMNS = (
    "gold_label",
    "sentence1_binary_parse",
    "sentence2_binary_parse",
    "sentence1_parse",
    "sentence2_parse",
    "sentence1",
    "sentence2",
    "pairID",
    "heuristic",
    "subcase",
    "template",
)
MODELS = {
    "BERT": "hans/bert_preds.txt",
    "Decomposable attention": "hans/decomp_attn_heur_preds.txt",
    "ESIM": "hans/esim_heur_preds.txt",
    "SPINN": "hans/spinn_preds_heur.txt",
}
RUNS = "hans/berts_of_a_feather_accuracies_by_run.csv"
CONTRADICTING = "hans/mnli_contradicting_examples"
PER_SUBCASE = 1000

_NLI = ("entailment", "neutral", "contradiction")  # of models of three classes; the last two are one here


def parse(text: str, source: str) -> list[dict]:
    """Rows of the published file: as overlap.challenge, and pairID; DataError names `source` and the line."""
    rows = []
    for number, cells in sentence_pairs.table(text, source, COLUMNS):
        label = sentence_pairs.label_of(cells["gold_label"], overlap.LABELS, source, number)
        if cells["subcase"] not in overlap.SUBCASES:
            raise DataError(
                f"{source}, line {number}: {cells['subcase']!r} is no subcase of HANS; take a "
                f"fresh copy of the file."
            )
        rows.append(
            {
                **{name: cells[name] for name in ("sentence1", "sentence2")},
                "label": label,
                **{name: cells[name] for name in ("heuristic", "subcase", "template", "pairID")},
            }
        )
    return rows


def read(path: str | Path) -> list[dict]:
    """parse() of heuristics_evaluation_set.txt or heuristics_train_set.txt of a reader who has it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as HANS ({error}): give the path of its TSV file.") from None
    return parse(text, str(path))


def report(rows: Sequence[dict], predictions: Sequence[int | str]) -> dict:
    """Accuracies, 0 to 1: of all, of the two halves by label, of heuristics within these, of subcases.

    rows need label, heuristic and subcase. Predictions are labels of overlap.LABELS, or places in it;
    "neutral" and "contradiction" count as non-entailment. DataError if there are too few or unknown ones.
    """
    if len(rows) != len(predictions) or not rows:
        raise DataError(f"{len(predictions)} predictions for {len(rows)} rows: give one for each row.")
    said = {"entailment": 0, "non-entailment": 1, "neutral": 1, "contradiction": 1, 0: 0, 1: 1}
    groups: dict[tuple, list[bool]] = {}
    for row, prediction in zip(rows, predictions, strict=False):
        if prediction not in said:
            raise DataError(
                f"{prediction!r} is no prediction on HANS; give one of {', '.join(map(repr, said))}."
            )
        right, half = said[prediction] == row["label"], overlap.LABELS[row["label"]]
        for key in (
            ("accuracy",),
            (half,),
            ("heuristics", half, row["heuristic"]),
            ("subcases", row["subcase"]),
        ):
            groups.setdefault(key, []).append(right)
    found: dict = {}
    for (*outer, last), right in groups.items():
        place = found
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = sum(right) / len(right)
    return found


def published_rows() -> list[dict]:
    """Label, heuristic and subcase of the 30,000 published pairs, in the order of their pairIDs."""
    return [
        {"label": int(subcase[1] == "n"), "heuristic": overlap.HEURISTICS[subcase[0]], "subcase": subcase}
        for subcase in overlap.SUBCASES
        for _ in range(PER_SUBCASE)
    ]


def parse_predictions(text: str, source: str) -> list[str]:
    """One of three labels for each published pair, in the order of pairIDs, from lines "ex0,entailment".

    DataError names `source` and the line that is none or comes twice, or a pair that is missing.
    """
    names = [f"ex{i}" for i in range(PER_SUBCASE * len(overlap.SUBCASES))]
    found: dict[str, str] = {}
    left = {*names}
    for number, line in enumerate(text.splitlines()[1:], 2):
        name, _, label = line.partition(",")
        if name not in left or label not in _NLI:
            raise DataError(
                f"{source}, line {number}: expected a new pairID and a label, as in "
                f"ex0,entailment, found {line[:60]!r}; take a fresh copy of the file."
            )
        left.remove(name)
        found[name] = label
    if left:
        raise DataError(
            f"{source} has no prediction for {len(left)} of {len(names)} pairs, such as "
            f"{min(left)}; take a fresh copy of the file."
        )
    return [found[name] for name in names]


def predictions(model: str) -> list[str]:
    """Published predictions of one of MODELS; DataError on another, or if there is no copy of the file."""
    if model not in MODELS:
        raise DataError(
            f"No predictions of {model!r} on HANS are published; choose one of {', '.join(MODELS)}."
        )
    return parse_predictions(files.read(MODELS[model]).decode(), MODELS[model])


def bert_runs() -> dict[str, np.ndarray]:
    """{"MNLI dev acc.", "Overall accuracy", a subcase ...: (100,) accuracies, 0 to 1}, one of each run."""
    return parse_runs(files.read(RUNS).decode("utf-8-sig"), RUNS)


def parse_runs(text: str, source: str) -> dict[str, np.ndarray]:
    """Columns of the lines "Run 0" and so on; DataError names `source` if one lacks a number."""
    head, *lines = [line for line in csv.reader(StringIO(text)) if line] or [[]]
    runs = [line[1:] for line in lines if line[0].startswith("Run ")]
    try:
        values = np.array(runs, dtype=float)
    except ValueError:
        values = np.empty(0)
    if values.shape != (len(runs), len(head) - 1) or not runs:
        raise DataError(
            f"{source}: expected a line of names, then lines that begin with 'Run' and have a "
            f"number for each; take a fresh copy of the file."
        )
    return dict(zip(head[1:], values.T, strict=False))


def contradicting() -> list[dict]:
    """The 261 of MNLI's 392,702 training pairs whose hypothesis fits a heuristic and does not follow."""
    rows = []
    for number, line in enumerate(files.read(CONTRADICTING).decode().splitlines(), 1):
        cells = line.split("\t")
        if len(cells) != 3:
            raise DataError(
                f"{CONTRADICTING}, line {number}: expected two sentences and a label, found "
                f"{line[:60]!r}; take a fresh copy of the file."
            )
        sentence_pairs.label_of(cells[2], _NLI, CONTRADICTING, number)
        rows.append({"sentence1": cells[0].strip(), "sentence2": cells[1].strip(), "label": 1})
    return rows


def overlapping() -> list[dict]:
    """`contradicting`, and MNLI's development pairs without a new word that do follow: 261 and 214."""

    def words(sentence: str) -> set[str]:
        return set(re.findall("[a-z']+", sentence.lower()))

    entailed = [row for row in snli.read("mnli") if snli.LABELS[row["label"]] == "entailment"]
    return contradicting() + [
        {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "label": 0}
        for row in entailed
        if words(row["sentence2"]) <= words(row["sentence1"])
    ]
