"""ICLM on ACRE and RAVEN in the source's own prompts, with any decoder by name: LLaMA-2-7B on paper scale.

The other ICLM experiments use one word a token and a base of their own; here texts, decoding and scores are
those that a checkpoint of the Hugging Face hub with its tokenizer needs.
"""

from contextlib import nullcontext

from causalnb.errors import LabError
from causalnb.experiments.iclm.data import FORMATS, problems
from causalnb.experiments.iclm.models import ICLM_SETTINGS, row_order
from causalnb.lab.bases import SPEED, TINY, base_parameters, downloaded, question, tiny_base
from causalnb.lab.registry import Run

LLAMA_2_7B = {"hidden_size": 4096, "intermediate_size": 11_008, "layers": 32, "vocabulary": 32_000}
KEPT = 18  # (tokens, width) tensors of 16 bits that a layer's backward pass needs


def text_base(config: dict, texts: list[str]):
    """(decoder, tokenizer) of config's base_model: tiny, a folder or a hub name, in 4 bit where `bits` is 4.

    LabError for one that cannot be had or read, and for 4 bit without bitsandbytes.
    """
    import torch

    from causalnb import checkpoints

    name = config["base_model"]
    if name == TINY:
        return tiny_base(config, texts)[:2]
    folder, more = downloaded(name), {}
    if config["bits"] == 4:
        from transformers import BitsAndBytesConfig

        more["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
        )
    try:
        tokenizer = checkpoints.tokenizer(folder)
        decoder = checkpoints.decoder(
            folder, dtype=torch.bfloat16 if config["bf16"] else torch.float32, **more
        )
    except (OSError, ValueError, ImportError) as error:
        raise LabError(
            f"the base {name} cannot be read ({error}): give a folder with config.json, weights "
            "and tokenizer, or a name on the hub; 4 bit needs bitsandbytes."
        ) from error
    if tokenizer.eos_token_id is None:
        raise LabError(f"the tokenizer of {name} has no end of text: choose a base with an eos token.")
    return decoder, tokenizer


def asked(config: dict, cell: str, seed: int, n: int) -> dict[str, list[tuple[str, str]]]:
    """{format: (prompt, answer)} of n queries of a cell, each in both formats, in the source's words."""
    from causalnb.tasks import acre, raven

    family = config["family"]
    if family == "acre":
        found = problems(family, cell, config["source"], -(-n // 4), seed)
        return {
            format: [acre.prompt(problem, query, format) for problem in found for query in problem.queries][
                :n
            ]
            for format in FORMATS
        }
    found = problems(family, cell, config["source"], n, seed)
    return {
        format: [raven.prompt(problem, format, config["open"]) for problem in found] for format in FORMATS
    }


def training_texts(config: dict, seed: int) -> list[tuple[str, str]]:
    """(prompt, answer) of config's train_rows drawn queries of its first cell in both formats."""
    drawn = {**config, "source": "generator"}
    return [
        pair
        for pairs in asked(drawn, config["cells"][0], seed, config["train_rows"]).values()
        for pair in pairs
    ]


def prompt_ids(tokenizer, prompt: str) -> list[int]:
    """Token ids up to the answer, with the mark of a text's beginning that the base was trained with.

    A chat template writes its own marks.
    """
    ids = tokenizer(question(tokenizer, prompt)[0], add_special_tokens=not tokenizer.chat_template)[
        "input_ids"
    ]
    return ids[:-1] if ids[-1] == tokenizer.eos_token_id else ids


def encode(tokenizer, prompt: str, answer: str, max_length: int) -> dict | None:
    """input_ids, prompt_mask and labels of a text and its end; None for more than max_length tokens."""
    before = prompt_ids(tokenizer, prompt)
    said = [*tokenizer(answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    if len(before) + len(said) > max_length:
        return None
    return {
        "input_ids": before + said,
        "prompt_mask": [1] * len(before) + [0] * len(said),
        "labels": [-100] * len(before) + said,
    }


def build(config: dict, decoder):
    """The ICLM of an arm on a decoder; one module with its own logits and no router is plain LoRA."""
    from causalnb.iclm import ICLMForCausalLM

    lora = {
        "r": config["lora_rank"],
        "alpha": 2 * config["lora_rank"],
        "dropout": config["lora_dropout"],
        "target_modules": config["lora_targets"],
    }
    model = ICLMForCausalLM.from_base(
        decoder, lora=lora, **{name: config[name] for name in ICLM_SETTINGS if name in config}
    )
    if config["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def decoded(model, tokenizer, prompt: str, tokens: int) -> str:
    """What the model says to a prompt, greedily, up to the end."""
    import torch

    ids = torch.tensor([prompt_ids(tokenizer, prompt)], device=model.device)
    out = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        do_sample=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)


def exact(model, tokenizer, pairs: list[tuple[str, str]], tokens: int) -> float:
    """The share of answers that the model writes, up to letter case and outer spaces, as in the source."""
    model.eval()
    right = [
        decoded(model, tokenizer, prompt, tokens).strip().lower() == answer.strip().lower()
        for prompt, answer in pairs
    ]
    return sum(right) / len(right)


def scores(model, tokenizer, config: dict) -> dict[str, float]:
    """{cell/format: share of exact answers} over config's cells."""
    return {
        f"{cell}/{format}": exact(model, tokenizer, pairs, config["answer_tokens"])
        for cell in config["cells"]
        for format, pairs in asked(config, cell, config["split_seed"], config["test_rows"]).items()
    }


def run_text(run: Run) -> dict:
    """Tune with LoRA on both formats and decode: {cell/format: {"exact": share}}, and the rows left out."""
    from transformers import set_seed

    from causalnb.lab.training import PromptAnswerCollator, TrainingSettings, train

    config = run.config
    texts = training_texts(config, run.seed)
    set_seed(run.seed)
    decoder, tokenizer = text_base(config, ["\n".join(pair) for pair in texts])
    rows = [encode(tokenizer, *pair, config["max_length"]) for pair in texts]
    kept = [row for row in rows if row is not None]
    if not kept:
        raise LabError(f"every training text has more than {config['max_length']} tokens: raise max_length.")
    model = build(config, decoder).to(run.device)
    settings = TrainingSettings.of(config, seed=run.seed)
    with model.only(0) if config["routed_by"] == "nobody" else nullcontext():
        history = train(
            model,
            kept,
            PromptAnswerCollator(tokenizer.eos_token_id),
            row_order(len(kept), config["batch"], config["steps"], run.seed),
            settings,
            run.folder,
            None,
            run.progress,
            run.device,
        )
        found = {"exact": scores(model, tokenizer, config)}
    if config["invariant"]:
        with model.only("invariant"):
            found["invariant"] = scores(model, tokenizer, config)
    counted = {
        "rows": len(kept),
        "rows_too_long": len(rows) - len(kept),
        "parameters": sum(p.numel() for p in model.parameters()),
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }
    cells = {cell: {measure: its[cell] for measure, its in found.items()} for cell in found["exact"]}
    return {"metrics": {"": counted, **cells}, "history": history}


def memory_gib(config: dict, shape: dict = LLAMA_2_7B) -> dict[str, float]:
    """Estimated GiB that a training takes on the device: weights, adapters, activations, head, total.

    Every input is two rows, the invariant module's and a domain's, and one more of the router where that is
    trained; with gradient checkpointing, in 16 bits. One copy of the base serves all modules.
    """
    width, depth, modules = shape["hidden_size"], shape["layers"], config["num_modules"]
    rows = config["batch"] * (1 + config["invariant"] + config["router_trainable"])
    tokens = rows * config["max_length"]
    adapters = depth * len(config["lora_targets"]) * 2 * config["lora_rank"] * width
    heads = 2 * width * shape["vocabulary"] if config["aggregation"] == "latent" else 0
    found = {
        "weights": base_parameters(shape) * config["bits"] / 8,
        "adapters": adapters * (modules + config["invariant"] + config["router_trainable"]) * 16,
        "head": heads * 16,  # weight, gradient and two moments in 32 bits
        "activations": tokens * 2 * (depth * width + KEPT * width + 3 * shape["intermediate_size"]),
    }
    found = {name: value / 2**30 for name, value in found.items()}
    return {**found, "total": sum(found.values())}


def seconds(config: dict, shape: dict = LLAMA_2_7B) -> dict[str, float]:
    """Estimated seconds on one GPU at SPEED: training, and decoding all cells, in total.

    A training step is three forward passes of each module's row, one of them the recomputed one. An answer is
    read once with its prompt, by the model and by the invariant module alone.
    """
    each = 2 * base_parameters(shape)  # operations of a token's forward pass
    rows = 1 + config["invariant"] + config["router_trainable"]
    trained = 3 * each * rows * config["steps"] * config["batch"] * config["max_length"]
    texts = len(FORMATS) * len(config["cells"]) * config["test_rows"]
    decoded = each * (rows + config["invariant"]) * texts * config["max_length"]
    return {"training": trained / SPEED, "decoding": decoded / SPEED, "total": (trained + decoded) / SPEED}
