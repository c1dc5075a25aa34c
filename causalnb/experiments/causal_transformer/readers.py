"""What a reader of half a pair knows of the label: the commonest answer, and words of one sentence alone."""

from causalnb.experiments.causal_transformer.data import parts
from causalnb.lab.registry import Run


def commonest(found: dict[str, list[dict]]):
    """Of every test pair of {part: rows} the label that training pairs have most often: an array."""
    import numpy as np

    labels = np.bincount([row["label"] for row in found["train"]])
    return np.full(len(found["test"]), labels.argmax())


def word_reader(found: dict[str, list[dict]], column: str):
    """The test labels that a logistic regression reads off the words and word pairs of one column."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        CountVectorizer(ngram_range=(1, 2), min_df=2), LogisticRegression(C=0.3, max_iter=400)
    )
    model.fit([row[column] for row in found["train"]], [row["label"] for row in found["train"]])
    return model.predict([row[column] for row in found["test"]])


def run_readers(run: Run) -> dict:
    """Accuracy and macro-F on the test pairs of config's `task` of who reads `column`; "" reads nothing."""
    import numpy as np
    from sklearn.metrics import f1_score

    config = run.config
    found = parts(config["task"], config["data"], run.seed)
    answers = word_reader(found, config["column"]) if config["column"] else commonest(found)
    truth = np.array([row["label"] for row in found["test"]])
    macro = f1_score(truth, answers, labels=np.unique(truth), average="macro", zero_division=0)
    return {
        "metrics": {
            "test": {
                "rows": float(len(truth)),
                "accuracy": float((answers == truth).mean()),
                "macro_f": float(macro),
            }
        },
        "history": [],
    }
