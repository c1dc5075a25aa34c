"""C2DLM's tasks in full text, with any decoder by name: LLaDA-8B in the paper profile, a tiny one elsewhere.

The other C2DLM experiments use one word a token and a base of their own; here texts, masks, decoding and
scores are those that a checkpoint of the Hugging Face hub with its tokenizer needs.
"""

import json
from pathlib import Path

from causalnb.errors import LabError
from causalnb.lab.bases import SPEED, TINY, base_parameters, downloaded, question, tiny_base
from causalnb.lab.registry import Run

LLADA_8B = {"hidden_size": 4096, "intermediate_size": 12_288, "layers": 32, "vocabulary": 126_464}
HALF, KEPT = 2, 18  # bytes of a 16-bit number; (tokens, width) tensors that a layer's backward pass needs
PROMPT = 256  # tokens of a prompt, for estimates


def text_base(config: dict, texts: list[str]):
    """(decoder, tokenizer, id of the mask, id of the end) of config's base_model: tiny, a folder, a hub name.

    A folder or repository whose config.json says "llada" is converted, without remote code. LabError for one
    that cannot be had or read.
    """
    import torch

    from causalnb import checkpoints

    name = config["base_model"]
    if name == TINY:
        return tiny_base(config, texts)
    folder, dtype = downloaded(name), torch.bfloat16 if config["bf16"] else torch.float32
    try:
        tokenizer = checkpoints.tokenizer(folder)
        if json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type") == "llada":
            from causalnb.c2dlm import load_llada

            wrapped = load_llada(folder, dtype=dtype)
            decoder, mask = wrapped.base, wrapped.config.mask_token_id
        else:
            decoder = checkpoints.decoder(folder, dtype=dtype)
            if tokenizer.mask_token_id is None:
                tokenizer.add_special_tokens({"mask_token": "<|mask|>"})
                decoder.resize_token_embeddings(max(len(tokenizer), decoder.config.vocab_size))
            mask = tokenizer.mask_token_id
    except (OSError, ValueError) as error:
        raise LabError(
            f"the base {name} cannot be read ({error}): give a folder with config.json, weights "
            "and tokenizer, or a name on the hub."
        ) from error
    if tokenizer.eos_token_id is None or not tokenizer.is_fast:
        raise LabError(
            f"the tokenizer of {name} has no end of text, or no offsets: choose a base with a "
            "fast tokenizer and an eos token."
        )
    return decoder, tokenizer, mask, tokenizer.eos_token_id


def stories(config: dict, seed: int):
    """(training, {part: test}, score) of config's task in full text.

    A story has prompt, response and what its score needs; guided training stories also a graph, the options
    of its mask and, where they are known, the spans of its concepts in the two texts.
    """
    return {"cot": cot_stories, "sudoku": sudoku_stories, "stg": stg_stories, "reasoning": reasoning_stories}[
        config["task"]
    ](config, seed)


def guided(edges: dict, config: dict, seed: int, spans=None, steps=None, among=None, **options) -> dict:
    """What a guided story has besides: graph, options, spans; nothing where config asks for no graph."""
    from causalnb.experiments.c2dlm.data import concept_graph

    if config["graph"] == "none" or not edges:
        return {}
    graph, more = concept_graph(edges, config, seed, steps, among)
    return {"graph": graph, "options": {**more, **options}, "spans": spans}


def cot_stories(config: dict, seed: int):
    """COT-OrderPerturb as printed, in the order of config's mode."""
    from causalnb.experiments.c2dlm.data import cot_score
    from causalnb.tasks import cot_order_perturb as cot

    train, test = cot.split(config["train_rows"], config["test_rows"], seed=config["split_seed"])
    steps = cot.steps(config["mode"])
    edges = {effect: causes for effect, causes in cot.GRAPH.items() if effect in steps}

    def story(pair, settings: dict) -> dict:
        prompt, response = cot.render(*pair, config["mode"])
        spans = cot.spans(*pair, config["mode"], scope=config["scope"])
        return {
            "prompt": prompt,
            "response": response,
            "values": cot.values(*pair),
            **guided(edges, settings, seed, spans, steps),
        }

    plain = {**config, "graph": "none"}
    return (
        [story(pair, config) for pair in train],
        {"test": [story(pair, plain) for pair in test]},
        cot_score,
    )


def sudoku_stories(config: dict, seed: int):
    """4x4 puzzles with the rules; an answer's causes are the clues of its cell and its peers."""
    from causalnb.experiments.c2dlm.data import sudoku_data, sudoku_score
    from causalnb.tasks import sudoku4

    plain = {**config, "graph": "none", "validation_rows": 0}
    train, _, parts, _ = sudoku_data(plain, seed)
    clues = [f"clue {i}" for i in range(sudoku4.CELLS)]
    edges = {
        effect: [cause for cause in causes if cause in clues] for effect, causes in sudoku4.GRAPH.items()
    }

    def story(row: dict, settings: dict) -> dict:
        prompt, response = sudoku4.render(row["puzzle"], row["solution"])
        return {
            "prompt": prompt,
            "response": response,
            "puzzle": row["puzzle"],
            "solution": row["solution"],
            **guided(edges, settings, seed, sudoku4.spans(), among=clues),
        }

    return (
        [story(row, config) for row in train],
        {"test": [story(row, plain) for row in parts["test"]]},
        sudoku_score,
    )


def stg_stories(config: dict, seed: int):
    """The spurious token game as published, of config's size."""
    from causalnb.experiments.c2dlm.data import stg_score
    from causalnb.tasks import stg

    held = config["test_rows"]
    parts = (
        stg.generate_h(config["split_seed"], config["train_rows"], held, held)
        if config["size"] == "H"
        else stg.generate(config["split_seed"])
    )

    def story(pair, settings: dict) -> dict:
        prompt, response = pair
        spans = stg.spans(prompt, response)
        effect, causes = ("Risk", stg.CAUSES) if "Risk" in spans else ("Answer", stg.CAUSES_H)
        others = {name: () for name in sorted(spans) if name != effect}
        return {
            "prompt": prompt,
            "response": response,
            "said": [response],
            **guided({effect: causes, **others}, settings, seed, spans),
        }

    plain = {**config, "graph": "none"}
    return (
        [story(pair, config) for pair in parts["train"][: config["train_rows"]]],
        {
            name: [story(pair, plain) for pair in parts[part][:held]]
            for name, part in (("iid", "test"), ("ood", "ood"))
        },
        stg_score,
    )


def reasoning_stories(config: dict, seed: int):
    """Reasoning with a teacher's graphs: rows of config's `annotated`, tested on each of config's `tests`.

    annotated is a file of JSON lines with prompt, response and graph, as `annotate` writes them, or
    "synthetic", where the rules of our tasks are the teacher. LabError if the file is not there.
    """
    from causalnb.experiments.c2dlm.data import reasoning_score
    from causalnb.tasks import reasoning

    def rows(task: str, part: str, n: int) -> list[dict]:
        found = reasoning.load(task, config["train_rows"], config["test_rows"], config["split_seed"])
        return [{**row, "task": task} for row in found[part].select(range(min(n, len(found[part]))))]

    if config["annotated"] == "synthetic":
        train = [row for task in config["tests"] for row in rows(task, "train", config["train_rows"])]
    else:
        file = Path(config["annotated"])
        if not file.is_file():
            raise LabError(
                f"there are no teacher's graphs in {file}: annotate the training texts with "
                "causalnb.c2dlm.annotate and write a JSON line with prompt, response and graph "
                "for each."
            )
        with file.open(encoding="utf-8") as lines:  # which end at "\n" alone, unlike those of splitlines
            train = [json.loads(line) for line in lines][: config["train_rows"]]
    stories = []
    for row in train:
        graph = json.loads(row["graph"]) if isinstance(row["graph"], str) else row["graph"]
        stories.append({"prompt": row["prompt"], "response": row["response"], **guided(graph, config, seed)})
    tests = {task: rows(task, "test", config["test_rows"]) for task in config["tests"]}
    return stories, tests, reasoning_score


def encode(tokenizer, story: dict, end: int, max_length: int) -> dict | None:
    """Tokens of a story under the chat template, if there is one: input_ids, prompt_mask, supervision.

    None for a story of more than max_length tokens.
    """
    from causalnb.c2dlm import supervision

    asked, shift = question(tokenizer, story["prompt"])
    text, ids, offsets, prompt_mask = asked + story["response"], [], [], []
    for part, before in ((asked, 0), (story["response"], len(asked))):  # apart, as in decoding
        found = tokenizer(part, return_offsets_mapping=True, add_special_tokens=False)
        ids += found["input_ids"]
        offsets += [(start + before, stop + before) for start, stop in found["offset_mapping"]]
        prompt_mask += [int(before == 0)] * len(found["input_ids"])
    row = {"input_ids": [*ids, end], "prompt_mask": [*prompt_mask, 0]}
    offsets.append((len(text), len(text)))
    if len(offsets) > max_length:
        return None
    if "graph" in story:
        places = story["spans"] and {
            name: [(start + shifted, stop + shifted)]
            for name, (part, start, stop) in story["spans"].items()
            for shifted in [len(asked) if part else shift]
        }
        rows = {"rows": "response", **story["options"]}
        row["supervision"] = supervision(
            story["graph"], text, offsets, response_start=len(asked), places=places, **rows
        )
    return row


def build(config: dict, decoder, mask: int):
    """LoRA of config's rank on the decoder, then the diffusion model with the arm's loss."""
    from peft import LoraConfig, get_peft_model

    from causalnb.c2dlm import MaskedDiffusionModel, ReattentionLoss

    decoder = get_peft_model(
        decoder,
        LoraConfig(
            r=config["lora_rank"],
            lora_alpha=2 * config["lora_rank"],
            lora_dropout=config["lora_dropout"],
            target_modules=config["lora_targets"],
        ),
    )
    loss = (
        None
        if config["graph"] == "none"
        else ReattentionLoss(
            config["alpha"],
            config["lam"],
            norm_index=config["norm_index"],
            step_rule=config["step_rule"],
            backend="auto",
        )
    )
    gamma = config["gamma"]
    if config["gamma_schedule"]:
        gamma = {"total_steps": config["steps"], "gamma_min": 0.0, "gamma_max": gamma}
    model = MaskedDiffusionModel.from_base(decoder, mask, loss, gamma=gamma)
    if config["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    return model


def lengths(config: dict, part: str) -> tuple[int, int, int]:
    """(gen_length, block_length, passes) for a test part: config's, or what its `shorter` says of the part.

    The number of passes falls with the length.
    """
    whole = config["gen_length"]
    length = config.get("shorter", {}).get(part, whole)
    return length, min(config["block_length"], length), max(1, config["decode_steps"] * length // whole)


def decode(model, tokenizer, rows: list[dict], plan: tuple[int, int, int], end: int) -> list[list[str]]:
    """What the model answers to each story's prompt by a plan of `lengths`, up to the end: [text]."""
    import torch

    from causalnb.c2dlm import sample

    model.eval()
    answers = []
    for row in rows:
        ids = tokenizer(question(tokenizer, row["prompt"])[0], add_special_tokens=False)["input_ids"]
        out = sample(model, torch.tensor([ids], device=model.device), *plan, eos_token_id=end)
        out = out[0, len(ids) :].tolist()
        out = out[: out.index(end)] if end in out else out
        answers.append([tokenizer.decode(out, skip_special_tokens=True).strip()])
    return answers


def run_text(run: Run) -> dict:
    """Tune with LoRA, decode every test part, score: {part: {measure: share}}; and count the rows left out.

    edges_kept: the share of the graphs' edges that stand in the tokens; others share a token or are missing.
    """
    from transformers import set_seed

    from causalnb.c2dlm import MaskedDiffusionCollator, NumberedRows
    from causalnb.experiments.c2dlm.models import row_order
    from causalnb.lab.training import TrainingSettings, train

    config = run.config
    told, parts, score = stories(config, run.seed)
    set_seed(run.seed)
    decoder, tokenizer, mask, end = text_base(config, [f"{one['prompt']}\n{one['response']}" for one in told])
    rows = [encode(tokenizer, story, end, config["max_length"]) for story in told]
    kept = [row for row in rows if row is not None]
    if not kept:
        raise LabError(f"every training text has more than {config['max_length']} tokens: raise max_length.")
    model = build(config, decoder, mask).to(run.device)
    order = row_order(len(kept), config["batch"], config["steps"], run.seed)
    batches = [list(range(at, at + config["batch"])) for at in range(0, len(order), config["batch"])]
    history = train(
        model,
        NumberedRows(kept, order),
        MaskedDiffusionCollator(mask, end, seed=run.seed),
        batches,
        TrainingSettings.of(config, seed=run.seed),
        run.folder,
        None,
        run.progress,
        run.device,
    )
    counted = {
        "rows": len(kept),
        "rows_too_long": len(rows) - len(kept),
        "parameters": sum(p.numel() for p in model.parameters()),
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }
    if config["graph"] != "none":
        reports = [row["supervision"].report for row in kept if "supervision" in row]
        counted["edges_kept"] = sum(r.kept for r in reports) / max(1, sum(r.edges for r in reports))
    metrics = {"": counted}
    for part, test in parts.items():
        found = score(test, decode(model, tokenizer, test, lengths(config, part), end))
        metrics[part] = {"rows": len(test), **found}
    return {"metrics": metrics, "history": history}


def memory_gib(config: dict, shape: dict = LLADA_8B) -> dict[str, float]:
    """Estimated GiB that a training takes on the device: weights, adapters, activations, logits, total.

    With gradient checkpointing, in 16 bits; every token of a full-length batch is taken to be masked.
    """
    tokens, width = config["batch"] * config["max_length"], shape["hidden_size"]
    adapters = shape["layers"] * len(config["lora_targets"]) * 2 * config["lora_rank"] * width
    found = {
        "weights": base_parameters(shape) * HALF,
        "adapters": adapters * (4 + 4 + 8),  # weight, gradient and two moments in 32 bits
        "activations": tokens
        * HALF
        * (shape["layers"] * width + KEPT * width + 3 * shape["intermediate_size"]),
        "logits": tokens * shape["vocabulary"] * (HALF + 4),
    }
    found = {name: value / 2**30 for name, value in found.items()}
    return {**found, "total": sum(found.values())}


def seconds(config: dict, tests: dict[str, int], shape: dict = LLADA_8B) -> dict[str, float]:
    """Estimated seconds on one GPU at SPEED: training, and decoding tests {part: rows}, in total.

    A training step is three forward passes, one of them the recomputed one; prompts have PROMPT tokens.
    """
    each = 2 * base_parameters(shape)  # operations of a token's forward pass
    trained = 3 * each * config["steps"] * config["batch"] * config["max_length"]
    decoded = 0
    for part, rows in tests.items():
        length, _, passes = lengths(config, part)
        decoded += each * rows * passes * (PROMPT + length)
    return {"training": trained / SPEED, "decoding": decoded / SPEED, "total": (trained + decoded) / SPEED}
