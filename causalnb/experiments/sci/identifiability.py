"""What the contrastive loss determines: two encoders trained with it alone are compared on new structures.

The guide's theorem says that S(x) is unique up to permutation and elementwise maps. A run trains two encoders
that differ in their seed only, and asks how far maps of several families carry one into the other.
"""

import re
from dataclasses import dataclass

import numpy as np

from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import english, scan

FACTORS = {
    "scan": ("connective", "repeat", "manner", "direction"),
    "english": ("connective", "predicate", "modifier", "determiner"),
}
RELATIVE = re.compile(r" that (?:VI|VT \S+ N|\S+ N VT)")


# --- data: trained structures, unseen structures with several contents each, and new words


def scan_factors(command: str) -> dict[str, str]:
    """The connective; repeat, manner and direction of the first part; the first verb as "content"."""
    words = command.split()
    joint = next((word for word in words if word in ("and", "after")), "none")
    first = words[: words.index(joint)] if joint in words else words
    kinds = {
        "repeat": ("twice", "thrice"),
        "manner": ("opposite", "around"),
        "direction": scan.DIRECTIONS,
    }
    found = {kind: next((word for word in first if word in some), "none") for kind, some in kinds.items()}
    verb = next((word for word in words if word in scan.VERBS), "none")
    return {"connective": joint, **found, "content": verb}


def english_factors(sentence: str) -> dict[str, str]:
    """The connective; predicate, modifier and determiner of the first clause; the first noun as "content"."""
    words, parts = sentence.split(), english.structure(sentence).split()
    joint = next((word for word in words if word in english.JOINTS), "none")
    clause = parts[: parts.index(joint)] if joint in parts else parts
    main = RELATIVE.sub("", " ".join(clause)).split()
    noun = parts.index("N")
    after = parts[noun + 1]
    return {
        "connective": joint,
        "predicate": next(word for word in ("was", "VT", "VI") if word in main),
        "modifier": "that" if after == "that" else "place" if after in english.PREPOSITIONS else "none",
        "determiner": words[0],
        "content": words[noun],
    }


def scan_texts(config: dict, seed: int):
    """(trained commands, unseen structures with their commands, nothing new) of SCAN."""
    draw, groups = np.random.default_rng(seed), {}
    for command, _ in scan.generate():
        groups.setdefault(scan.structure(command), []).append(command)
    groups = [group for group in groups.values() if len(group) >= config["contents"]]
    order = draw.permutation(len(groups))[: config["train_structures"] + config["unseen_structures"]]
    cut = config["train_structures"]
    trained = [command for i in order[:cut] for command in groups[i]]
    unseen = [draw.permutation(groups[i])[: config["contents"]].tolist() for i in order[cut:]]
    return trained, unseen, []


def english_texts(config: dict, seed: int):
    """(trained sentences, unseen structures with theirs, pairs of a sentence and one with a new word)."""
    forms = english.structures(config["train_structures"] + config["unseen_structures"], seed)
    cut = config["train_structures"]
    trained = [text for form in forms[:cut] for text in english.sentences(form, 6, seed)]
    trained += english.frame_sentences(len(trained) // 9, seed)
    unseen = [english.sentences(form, config["contents"], seed) for form in forms[cut:]]
    draw, new = np.random.default_rng(seed), []
    for form in forms[:cut]:
        part = draw.choice([part for part in english.NEW if part in form.split()])
        new.append((english.sentences(form, 1, seed + 1)[0], english.sentences(form, 1, seed, part)[0]))
    new = new[: config["unseen_structures"]]
    return trained, unseen, new


TASKS = {"scan": (scan, scan_texts, scan_factors), "english": (english, english_texts, english_factors)}


# --- the encoder


def build_encoder(config: dict, words: int):
    """Embedding, down-projection, StructuralEncoder and the contrastive loss; forward gives {"loss"}."""
    from torch import nn

    from causalnb.sci.contrastive import StructuralContrastiveLoss
    from causalnb.sci.structure import StructuralEncoder

    class Encoder(nn.Module):
        """S(x) (B, K, D) of token ids, trained with the contrastive loss and nothing else."""

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(words, config["hidden_size"])
            self.down_proj = nn.Linear(config["hidden_size"], config["width"], bias=False)
            self.down_norm = nn.LayerNorm(config["width"])
            self.structural_encoder = StructuralEncoder(config["width"], config["structural_slots"])
            self.contrastive = StructuralContrastiveLoss(config["temperature"])

        def slots(self, input_ids, attention_mask):
            tokens = self.down_norm(self.down_proj(self.embedding(input_ids)))
            return self.structural_encoder(tokens, attention_mask)[0]

        def forward(self, input_ids, attention_mask, structure_ids):
            return {"loss": self.contrastive.of_ids(self.slots(input_ids, attention_mask), structure_ids)}

    return Encoder()


def rows_of(task, texts) -> list[dict]:
    """Rows for the collator: a prompt without an answer, and its structure."""
    rows = []
    for text in texts:
        row = task.encode(text)
        rows.append({**row, "labels": [-100] * len(row["input_ids"]), "structure": task.structure(text)})
    return rows


def slots_of(encoder, task, texts) -> np.ndarray:
    """S(x) (texts, K, D) as float64."""
    import torch

    from causalnb.lab.training import PromptAnswerCollator

    collator = PromptAnswerCollator(task.VOCABULARY["<pad>"], ("input_ids", "attention_mask"))
    device = next(encoder.parameters()).device
    with torch.no_grad():
        parts = []
        for start in range(0, len(texts), 512):
            batch = collator(rows_of(task, texts[start : start + 512]))
            parts.append(encoder.slots(**{name: value.to(device) for name, value in batch.items()}))
    return torch.cat(parts).double().cpu().numpy()


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows (..., D) at length 1."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


# --- one encoder: is it invariant, and what can be read from it?


def invariance(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """(cosine of same, cosine of different, retrieval@1) of unit rows (N, D), one structure a row."""
    cosines = one @ other.T
    same = np.eye(len(cosines), dtype=bool)
    found = cosines.argmax(1) == np.arange(len(cosines))
    return float(cosines[same].mean()), float(cosines[~same].mean()), float(found.mean())


def probe(features: np.ndarray, labels, fit: np.ndarray) -> tuple[float, float]:
    """(accuracy, that of the commonest label) on the other rows of a discriminant fitted on rows `fit`."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    labels = np.asarray(labels)
    kinds, counts = np.unique(labels[fit], return_counts=True)
    commonest = float((labels[~fit] == kinds[counts.argmax()]).mean())
    used = fit & np.isin(labels, kinds[counts > 1])  # a kind with one row has no spread
    if len(np.unique(labels[used])) < 2:
        return commonest, commonest
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    return float(model.fit(features[used], labels[used]).score(features[~fit], labels[~fit])), commonest


# --- two encoders: which maps carry one into the other?


def correlations(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """|Pearson correlation| (D, D') of the columns of (N, D) and (N, D')."""
    one, other = (part - part.mean(0) for part in (one, other))
    scale = np.outer(np.linalg.norm(one, axis=0), np.linalg.norm(other, axis=0))
    return np.abs(one.T @ other) / np.maximum(scale, 1e-12)


def mcc(one: np.ndarray, other: np.ndarray) -> float:
    """Mean correlation coefficient: mean |correlation| of columns under their best one-to-one matching."""
    from scipy.optimize import linear_sum_assignment

    found = correlations(one, other)
    return float(found[linear_sum_assignment(found, maximize=True)].mean())


def slot_mcc(one: np.ndarray, other: np.ndarray) -> float:
    """The same for slots (N, K, D): best matching of slots, and of columns within each pair of slots."""
    from scipy.optimize import linear_sum_assignment

    count = one.shape[1]
    found = np.array([[mcc(one[:, i], other[:, j]) for j in range(count)] for i in range(count)])
    return float(found[linear_sum_assignment(found, maximize=True)].mean())


def rotation(width: int, seed: int) -> np.ndarray:
    """A random orthogonal matrix (D, D)."""
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((width, width)))
    return q * np.sign(np.diagonal(r))


def procrustes_r2(one: np.ndarray, other: np.ndarray, fit: np.ndarray) -> float:
    """R2 on the other rows of the best orthogonal map, scale and shift from one to other on rows `fit`."""
    from scipy.linalg import orthogonal_procrustes

    a, b = one - one[fit].mean(0), other - other[fit].mean(0)
    turn, scale = orthogonal_procrustes(a[fit], b[fit])
    guess = a[~fit] @ turn * scale / (a[fit] ** 2).sum()
    return _r2(b[~fit], guess)


def linear_r2(one: np.ndarray, other: np.ndarray, fit: np.ndarray) -> float:
    """R2 on the other rows of a ridge regression fitted on rows `fit`."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(np.logspace(-4, 1, 6)).fit(one[fit], other[fit])
    return _r2(other[~fit], model.predict(one[~fit]))


def _r2(truth, guess) -> float:
    return float(1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean(0)) ** 2).sum())


def rsa(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman correlation of the two matrices of cosines, of unit rows (N, D), off the diagonal."""
    from scipy.stats import spearmanr

    upper = np.triu_indices(len(one), 1)
    return float(spearmanr((one @ one.T)[upper], (other @ other.T)[upper]).statistic)


# --- the run


def run_identifiability(run: Run) -> dict:
    """Train encoders of seeds 2s and 2s + 1 on the same structures; measure each, and both together."""
    from transformers import set_seed

    from causalnb.lab.training import PromptAnswerCollator, TrainingSettings, train
    from causalnb.sci.contrastive import StructureBalancedBatches

    config = run.config
    task, texts_of, factors_of = TASKS[config["task"]]
    trained, unseen, new = texts_of(config, run.seed)
    rows = rows_of(task, trained)
    collator = PromptAnswerCollator(
        task.VOCABULARY["<pad>"], ("input_ids", "attention_mask", "structure_ids")
    )
    encoders, histories = [], []
    for number in (2 * run.seed, 2 * run.seed + 1):
        set_seed(number)
        encoder = build_encoder(config, len(task.VOCABULARY))
        if config["steps"]:
            batches = StructureBalancedBatches(
                [row["structure"] for row in rows],
                trained,
                0,
                config["pairs"],
                config["steps"],
                number,
                lengths=[len(row["input_ids"]) for row in rows],
            )

            def measure(model):
                names = ("cosine_same", "cosine_different", "retrieval")
                return dict(zip(names, invariance(*_means(model, task, unseen)), strict=False))

            settings = TrainingSettings.of(config, seed=number)
            folder = run.folder / f"encoder{number}"
            histories.append(
                train(encoder, rows, collator, batches, settings, folder, measure, run.progress, run.device)
            )
        encoders.append(encoder.eval())
    history = [
        first | {f"second_{name}": value for name, value in second.items() if name != "step"}
        for first, second in zip(*histories or ([], []), strict=False)
    ]
    return {"metrics": measures(config, task, encoders, unseen, new, factors_of), "history": history}


def _means(encoder, task, groups) -> list[np.ndarray]:
    """Unit mean slots (structures, D) of the first and of the second text of each group."""
    return [unit(slots_of(encoder, task, [group[i] for group in groups]).mean(1)) for i in (0, 1)]


def measures(config, task, encoders, unseen, new, factors_of) -> dict[str, dict]:
    """The metrics of two encoders on `unseen` structures, texts of each, and `new` pairs of texts."""
    texts = [text for group in unseen for text in group]
    count = len(unseen[0])
    structures = np.repeat(np.arange(len(unseen)), count)
    fit = structures < len(unseen) // 2
    slots = [slots_of(encoder, task, texts) for encoder in encoders]
    means = [unit(part.mean(1)) for part in slots]
    one, other = means
    first = np.arange(0, len(texts), count)
    draw = np.random.default_rng(0)
    agreement = {
        "mcc": mcc(one, other),
        "mcc_shuffled": mcc(one, other[draw.permutation(len(other))]),
        "mcc_rotated": mcc(one, one @ rotation(one.shape[1], 0)),
        "procrustes_r2": procrustes_r2(one, other, fit),
        "linear_r2": linear_r2(one, other, fit),
        "rsa": rsa(one[first], other[first]),
    }
    found = {"": agreement, "slot": {"mcc": slot_mcc(*slots)}}
    each = [
        _measure(task, *parts, unseen, new, factors_of, fit)
        for parts in zip(encoders, slots, means, strict=False)
    ]
    for cell, its in each[0].items():
        for name in its:
            values = [one[cell][name] for one in each]
            found.setdefault(cell, {})[name] = None if None in values else float(np.mean(values))
    return found


def _measure(task, encoder, slots, means, unseen, new, factors_of, fit) -> dict[str, dict]:
    """Invariance, of slots and on new pairs too, and probes of each factor, of one encoder."""
    count = len(unseen[0])
    same, different, retrieved = invariance(means[::count], means[1::count])
    by_slot = [invariance(unit(slots[::count, k]), unit(slots[1::count, k])) for k in range(slots.shape[1])]
    names = ("cosine_same", "cosine_different", "retrieval")
    values = invariance(*_means(encoder, task, [pair[::-1] for pair in new])) if new else (None,) * 3
    found = {
        "": dict(zip(names, (same, different, retrieved), strict=True)),
        "slot": {
            "cosine_same": float(np.mean([one[0] for one in by_slot])),
            "cosine_different": float(np.mean([one[1] for one in by_slot])),
        },
        "new": dict(zip(names, values, strict=True)),
        "chance": {},
    }
    factors = [factors_of(text) for group in unseen for text in group]
    for name in factors[0]:
        labels = np.array([one[name] for one in factors])
        its = found[f"probe/{name}"] = {}
        for place, features in (("mean", means), ("slots", slots.reshape(len(slots), -1))):
            its[place], found["chance"][name] = probe(features, labels, fit)
    return found


@dataclass(frozen=True)
class Settings:
    """Two encoders on the same structures."""

    task: str = "scan"
    train_structures: int = 1600
    unseen_structures: int = 600
    contents: int = 4
    hidden_size: int = 64
    width: int = 64
    structural_slots: int = 4
    temperature: float = 0.07
    pairs: int = 48
    steps: int | None = 800
    learning_rate: float = 2e-3
    evaluate_every: int = 200
    bf16: bool = False


SETTINGS = {
    "laptop": Settings(),
    "quick": {
        "train_structures": 60,
        "unseen_structures": 24,
        "hidden_size": 16,
        "width": 16,
        "pairs": 8,
        "steps": 6,
        "evaluate_every": 3,
    },
}

register(
    Experiment(
        id="sci.identifiability",
        title="What the contrastive loss determines, compared across seeds",
        run=run_identifiability,
        notebook="22_sci_overhead_identifiability",
        arms={
            "scan": {"task": "scan"},
            "scan_untrained": {"task": "scan", "steps": None},
            "english": {"task": "english"},
            "english_untrained": {"task": "english", "steps": None},
        },
        settings=SETTINGS,
        seeds={"quick": 2, "laptop": 5},
        cost={"quick": 2, "laptop": 40},
    )
)
register(
    Experiment(
        id="sci.identifiability.brief",
        title="The same after a quarter of the training",
        run=run_identifiability,
        notebook="22_sci_overhead_identifiability",
        arms={"scan": {"task": "scan"}},
        settings=SETTINGS | {"laptop": Settings(steps=200, evaluate_every=100)},
        seeds={"quick": 2, "laptop": 5},
        cost={"quick": 2, "laptop": 15},
    )
)
