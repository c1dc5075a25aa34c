"""SCI on SCAN: a plain decoder, the same with SCI's labels, and SCI, trained alike on a split."""

import numpy as np

from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import scan

CODE = ("causalnb.sci", "causalnb.tasks.scan", "causalnb.lab.training", "causalnb.lab.evaluation", __name__)

SCAN_SETTINGS = {
    "laptop": {
        "hidden_size": 64,
        "layers": 3,
        "heads": 4,
        "structural_slots": 4,
        "cbm_layers": [0, 1],
        "scl_weight": 0.1,
        "ortho": "project",
        "steps": 1500,
        "learning_rate": 2e-3,
        "random_rows": 48,
        "pairs": 13,
        "evaluate_every": 150,
        "validation_rows": 400,
        "curve_rows": 400,
        "test_rows": None,
        "decoded_rows": 300,
        "probe_rows": 200,
        "bf16": False,
    },
    "quick": {
        "hidden_size": 32,
        "layers": 2,
        "steps": 6,
        "random_rows": 12,
        "pairs": 4,
        "evaluate_every": 3,
        "validation_rows": 20,
        "curve_rows": 20,
        "test_rows": 40,
        "decoded_rows": 8,
        "probe_rows": 12,
    },
    "gpu": {
        "hidden_size": 256,
        "layers": 6,
        "heads": 8,
        "structural_slots": 8,
        "cbm_layers": [2, 3, 4],
        "steps": 10_000,
        "learning_rate": 5e-4,
        "random_rows": 256,
        "pairs": 64,
        "evaluate_every": 500,
        "bf16": True,
    },
    "paper": {
        "hidden_size": 2048,
        "layers": 22,
        "heads": 32,
        "structural_slots": 8,
        "cbm_layers": [6, 11, 16],
        "steps": 20_000,
        "learning_rate": 1e-4,
        "evaluate_every": 1000,
        "bf16": True,
    },
}
SCAN_ARMS = {"plain": {"model": "plain"}, "plain_labels": {"model": "plain_labels"}, "sci": {"model": "sci"}}


def scan_rows(pairs) -> list[dict]:
    """Rows with input_ids, prompt_mask, labels and structure for (command, actions) pairs."""
    return [
        {**scan.encode(command, actions), "structure": scan.structure(command), "text": command}
        for command, actions in pairs
    ]


def scan_data(
    split: str, validation_rows: int, test_rows: int | None
) -> tuple[list[dict], list[dict], list[dict]]:
    """(train, validation, test); validation_rows commands are taken out of the published training rows."""
    train, test = (scan_rows(part) for part in scan.split(split))
    draw = np.random.default_rng(0)  # one held-out draw for all arms and seeds
    repeated = {
        text
        for text, count in zip(*np.unique([row["text"] for row in train], return_counts=True))
        if count > 1
    }
    candidates = sorted({row["text"] for row in train} - repeated)
    held_out = set(draw.choice(candidates, size=validation_rows, replace=False).tolist())
    validation = [row for row in train if row["text"] in held_out]
    test = [test[i] for i in draw.permutation(len(test))[:test_rows]]
    return [row for row in train if row["text"] not in held_out], validation, test


def build_model(config: dict):
    """The model of an arm (plain, plain_labels, sci) on a small Llama, and the names of its inputs."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from causalnb.sci import ContrastiveDecoder, SCITransformer

    vocabulary = scan.VOCABULARY
    base = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=config["hidden_size"],
            intermediate_size=4 * config["hidden_size"],
            num_hidden_layers=config["layers"],
            num_attention_heads=config["heads"],
            max_position_embeddings=128,
            initializer_range=0.4 / config["hidden_size"] ** 0.5,
            tie_word_embeddings=True,
            pad_token_id=vocabulary["<pad>"],
            bos_token_id=vocabulary["<bos>"],
            eos_token_id=vocabulary["<eos>"],
        )
    )
    inputs = ("input_ids", "attention_mask", "labels")
    if config["model"] == "plain":
        return base, inputs
    if config["model"] == "plain_labels":
        model = ContrastiveDecoder.from_base(base, scl_weight=config["scl_weight"])
        return model, (*inputs, "prompt_mask", "structure_ids")
    layers = [layer for layer in config["cbm_layers"] if layer < config["layers"]]
    model = SCITransformer.from_base(
        base,
        n_structural_slots=config["structural_slots"],
        cbm_layers=layers,
        scl_weight=config["scl_weight"],
        ortho=config["ortho"],
    )
    return model, (*inputs, "prompt_mask", "structure_ids")


def run_scan(run: Run) -> dict:
    """Train one arm on one split; exact match, forced and decoded, and how invariant its states are."""
    from transformers import set_seed

    from causalnb.lab.evaluation import greedy_matches, teacher_forced_matches
    from causalnb.lab.training import PromptAnswerCollator, TrainingSettings, train
    from causalnb.sci import StructureBalancedBatches

    config = run.config
    rows, validation, test = scan_data(config["split"], config["validation_rows"], config["test_rows"])
    set_seed(run.seed)
    model, inputs = build_model(config)
    collator = PromptAnswerCollator(scan.VOCABULARY["<pad>"], inputs)
    plainly = PromptAnswerCollator(scan.VOCABULARY["<pad>"], tuple(n for n in inputs if n != "structure_ids"))
    batches = StructureBalancedBatches(
        [row["structure"] for row in rows],
        [row["text"] for row in rows],
        config["random_rows"],
        config["pairs"],
        config["steps"],
        run.seed,
        lengths=[len(row["input_ids"]) for row in rows],
    )
    curve = test[: config["curve_rows"]]

    def measure(model) -> dict:
        return {
            "validation": float(teacher_forced_matches(model, validation, plainly).mean()),
            "test_sample": float(teacher_forced_matches(model, curve, plainly).mean()),
        }

    settings = TrainingSettings.of(config, seed=run.seed)
    history = train(model, rows, collator, batches, settings, run.folder, measure, run.progress, run.device)
    forced = teacher_forced_matches(model, test, plainly)
    decoded = greedy_matches(
        model,
        test[: config["decoded_rows"]],
        scan.VOCABULARY["<pad>"],
        scan.VOCABULARY["<eos>"],
        max_new_tokens=50,
    )
    metrics = {
        "exact_match": float(forced.mean()),
        "greedy_exact_match": float(decoded.mean()),
        "forced_equals_greedy": float((forced[: len(decoded)] == decoded).mean()),
        "validation_exact_match": history[-1]["validation"],
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "test_rows": len(test),
        **invariance(model, test, rows, plainly, config["probe_rows"]),
    }
    return {"metrics": metrics, "history": history}


def representations(model, rows, collator) -> np.ndarray:
    """What the loss compares, as unit vectors (rows, D): the mean slot, or a plain model's state at <sep>."""
    import torch
    import torch.nn.functional as F

    model.eval()
    with torch.no_grad():
        inputs = {name: value.to(model.device) for name, value in collator(rows).items()}
        if "prompt_mask" in inputs:
            states = model(**inputs).structure.mean(1)
        else:
            hidden = model(**inputs, output_hidden_states=True).hidden_states[-1]
            last = torch.tensor([sum(row["prompt_mask"]) - 1 for row in rows], device=hidden.device)
            states = hidden[torch.arange(len(rows)), last]
    return F.normalize(states.float(), dim=-1).cpu().numpy()


def invariance(model, test, train, collator, probe_rows: int) -> dict:
    """Cosine of test with training commands, same structure and another, and retrieval@1 among them."""
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
    queries, keys = zip(*list(pairs.values())[:probe_rows])
    cosines = representations(model, list(queries), collator) @ representations(model, list(keys), collator).T
    same = np.eye(len(cosines), dtype=bool)
    return {
        "cosine_same": float(cosines[same].mean()),
        "cosine_different": float(cosines[~same].mean()),
        "structure_retrieval": float((cosines.argmax(1) == np.arange(len(cosines))).mean()),
    }


def scan_experiment(
    name: str, title: str, split: str, arms: dict, laptop_seeds: int, **settings
) -> Experiment:
    """Register sci.scan.<name>: `arms` on `split`, the shared settings under `settings`."""
    laptop = {**SCAN_SETTINGS["laptop"], "split": split, "model": "plain", **settings}
    return register(
        Experiment(
            id=f"sci.scan.{name}",
            title=title,
            arms=arms,
            run=run_scan,
            code=CODE,
            notebook="21_sci_scan",
            settings={**SCAN_SETTINGS, "laptop": laptop},
            seeds={"quick": min(2, laptop_seeds), "laptop": laptop_seeds, "paper": min(3, laptop_seeds)},
            cost={"quick": 4, "laptop": 150, "gpu": 400, "paper": 200_000},
        )
    )


scan_experiment("simple", "SCAN simple: a random split, nothing has to be recombined", "simple", SCAN_ARMS, 5)
scan_experiment(
    "add_prim_jump",
    "SCAN add_prim_jump: 'jump' is trained alone and tested in every composition",
    "add_prim_jump",
    SCAN_ARMS,
    5,
)
scan_experiment(
    "search",
    "The learning rate, searched alike for every arm on another held-out verb ('look')",
    "add_prim_look",
    {
        f"{arm}_lr{1000 * rate:g}": {**setting, "learning_rate": rate}
        for arm, setting in SCAN_ARMS.items()
        for rate in (1e-3, 2e-3, 4e-3)
    },
    1,
    test_rows=1000,  # lr2 is 2e-3
)
