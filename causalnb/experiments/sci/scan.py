"""SCI on SCAN: a plain decoder, the same with SCI's labels, and SCI, trained alike on a split."""

from causalnb.apps.sci.base import tiny_llama
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run
from causalnb.tasks import scan, swaps


def scan_rows(pairs, level: str = "verb", names: dict | None = None) -> list[dict]:
    """Rows with input_ids, prompt_mask, labels, structure and texts for (command, actions) pairs.

    `level` as in scan.structure; names={action: action} renames the actions.
    """
    rows = []
    for command, actions in pairs:
        if names:
            actions = " ".join(names[action] for action in actions.split())
        structure = scan.structure(command, level)
        texts = {"text": command, "actions": actions}
        rows.append({**scan.encode(command, actions), "structure": structure, **texts})
    return rows


def swapped_rows(rows: list[dict], level: str, seed: int, copies: int) -> list[dict]:
    """Copies of each training row with words swapped: what the labels give away without a model."""
    pairs = [(row["text"], row["actions"]) for row in rows]
    return scan_rows(swaps.augmented(pairs, [row["structure"] for row in rows], seed, copies), level)


def scan_data(
    split: str,
    validation_rows: int,
    test_rows: int | None,
    level: str = "verb",
    names: dict | None = None,
) -> tuple[list[dict], list[dict], list[dict]]:
    """(train, validation, test); validation_rows commands are taken out of the published training rows."""
    from collections import Counter

    from numpy.random import default_rng

    train, test = (scan_rows(part, level, names) for part in scan.split(split))
    draw = default_rng(0)  # one held-out draw for all arms and seeds
    counts = Counter(row["text"] for row in train)
    candidates = sorted(text for text, count in counts.items() if count == 1)
    held_out = set(draw.choice(candidates, size=validation_rows, replace=False).tolist())
    validation = [row for row in train if row["text"] in held_out]
    test = [test[i] for i in draw.permutation(len(test))[:test_rows]]
    return [row for row in train if row["text"] not in held_out], validation, test


def renaming(seed: int) -> dict:
    """A random permutation of the actions, {action: action}."""
    from numpy.random import default_rng

    return dict(zip(scan.ACTIONS, default_rng(1000 + seed).permutation(scan.ACTIONS).tolist(), strict=True))


def small_llama(config: dict, vocabulary_size: int = len(scan.VOCABULARY)):
    """The plain decoder that every arm starts from: a Llama of config's hidden_size, layers and heads."""
    return tiny_llama(config["layers"], config["hidden_size"], config["heads"], vocabulary_size)


def build_model(config: dict, spare: int = 0):
    """The model of an arm (plain, plain_labels, sci, sci_separated), on a Llama with `spare` more tokens."""
    from causalnb.sci import ContrastiveDecoder, SCITransformer, SeparatedSCI

    base = small_llama(config, len(scan.VOCABULARY) + spare)
    if config["model"] == "plain":
        return base
    if config["model"] == "plain_labels":
        return ContrastiveDecoder.from_base(base, scl_weight=config["scl_weight"])
    settings = {"n_structural_slots": config["structural_slots"], "scl_weight": config["scl_weight"]}
    if config["model"] == "sci_separated":
        return SeparatedSCI.from_base(
            base,
            invariance_weight=config["invariance_weight"],
            abstraction_noise=config["abstraction_noise"],
            content_slots=config["content_slots"],
            **settings,
        )
    return SCITransformer.from_base(base, cbm_layers=config["cbm_layers"], ortho=config["ortho"], **settings)


def collators(model, pad: int = scan.VOCABULARY["<pad>"]):
    """(for training, for evaluation): batches with what the model's forward takes, the second unlabelled."""
    from inspect import signature

    from causalnb.lab.training import PromptAnswerCollator

    taken = signature(model.forward).parameters
    names = ("input_ids", "attention_mask", "labels", "prompt_mask", "structure_ids")
    inputs = tuple(name for name in names if name in taken)
    unlabelled = tuple(name for name in inputs if name != "structure_ids")
    return PromptAnswerCollator(pad, inputs), PromptAnswerCollator(pad, unlabelled)


def fit(run: Run, model, rows, measure=None, pad: int = scan.VOCABULARY["<pad>"]) -> list[dict]:
    """Train a model on rows by the run's settings, in structure-balanced batches; its history."""
    from causalnb.lab.training import TrainingSettings, train
    from causalnb.sci import StructureBalancedBatches

    config = run.config
    batches = StructureBalancedBatches(
        [row["structure"] for row in rows],
        [row["text"] for row in rows],
        config["random_rows"],
        config["pairs"],
        config["steps"],
        run.seed,
        lengths=[len(row["input_ids"]) for row in rows],
        anchors=config["anchors"],
    )
    settings = TrainingSettings.of(config, seed=run.seed)
    collator, _ = collators(model, pad)
    return train(model, rows, collator, batches, settings, run.folder, measure, run.progress, run.device)


def decoded_matches(model, rows):
    """Whether greedy decoding gives a row's actions and the end: bool (rows,)."""
    from causalnb.lab.evaluation import greedy_matches

    pad, end = scan.VOCABULARY["<pad>"], scan.VOCABULARY["<eos>"]
    return greedy_matches(model, rows, pad, end, max_new_tokens=50)


def run_scan(run: Run, build=build_model, data=scan_data) -> dict:
    """Train one arm on one split; exact match, forced and decoded, and how invariant its states are."""
    from transformers import set_seed

    from causalnb.lab.evaluation import teacher_forced_matches

    config = run.config
    names = renaming(run.seed) if config["renamed"] else None
    sizes = config["validation_rows"], config["test_rows"]
    rows, validation, test = data(config["split"], *sizes, config["structure_level"], names)
    validation, test = scored(validation), scored(test)
    if config["swaps"]:
        rows = rows + swapped_rows(rows, config["structure_level"], run.seed, config["swaps"])
    set_seed(run.seed)
    model = build(config)
    _, plainly = collators(model)
    curve = test[: config["curve_rows"]]

    def measure(model) -> dict:
        return {
            "validation": float(teacher_forced_matches(model, validation, plainly).mean()),
            "test_sample": float(teacher_forced_matches(model, curve, plainly).mean()),
        }

    history = fit(run, model, rows, measure)
    forced = teacher_forced_matches(model, test, plainly)
    decoded = decoded_matches(model, test[: config["decoded_rows"]])
    whole = {
        "exact_match": float(forced.mean()),
        "greedy_exact_match": float(decoded.mean()),
        "forced_equals_greedy": float((forced[: len(decoded)] == decoded).mean()),
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        **invariance(model, test, rows, plainly, config["probe_rows"]),
    }
    validated = {"exact_match": history[-1]["validation"]}
    metrics = {"": whole, "validation": validated, "test": {"rows": len(test)}}
    return {"metrics": metrics, "history": history}


def representations(model, rows, collator):
    """What the loss compares, as unit vectors (rows, D): the mean slot, or a plain model's state at <sep>."""
    import torch
    import torch.nn.functional as F

    model.eval()
    with torch.no_grad():
        inputs = {name: value.to(model.device) for name, value in collator(rows).items()}
        if model.config.model_type.startswith("sci"):
            states = model(**inputs).structure.mean(1)
        else:
            hidden = model(**inputs, output_hidden_states=True).hidden_states[-1]
            last = torch.tensor([sum(row["prompt_mask"]) - 1 for row in rows], device=hidden.device)
            states = hidden[torch.arange(len(rows)), last]
    return F.normalize(states.float(), dim=-1).cpu().numpy()


def invariance(model, test, train, collator, probe_rows: int) -> dict:
    """Cosine of test with training commands, same structure and another, and retrieval@1 among them."""
    import numpy as np

    partners: dict[str, dict] = {}
    for row in train:
        partners.setdefault(row["structure"], row)
    pairs = {
        row["structure"]: (row, partners[row["structure"]])
        for row in test
        if row["structure"] in partners and partners[row["structure"]]["text"] != row["text"]
    }
    if len(pairs) < 2:
        return {"cosine_same": None, "cosine_different": None, "structure_retrieval": None}
    queries, keys = zip(*list(pairs.values())[:probe_rows], strict=False)
    cosines = representations(model, list(queries), collator) @ representations(model, list(keys), collator).T
    same = np.eye(len(cosines), dtype=bool)
    return {
        "cosine_same": float(cosines[same].mean()),
        "cosine_different": float(cosines[~same].mean()),
        "structure_retrieval": float((cosines.argmax(1) == np.arange(len(cosines))).mean()),
    }
