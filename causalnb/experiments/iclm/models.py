"""The small decoder of the ICLM experiments, its modules, and how rows become batches and scores."""

from causalnb.lab.registry import Run
from causalnb.paths import models_dir
from causalnb.tasks import icl_words

PAD, BOS, EOS = (icl_words.VOCABULARY[f"<{name}>"] for name in ("pad", "bos", "eos"))
MAKE = "causalnb run iclm.base"
ICLM_SETTINGS = (
    "num_modules",
    "router",
    "router_settings",
    "router_trainable",
    "router_projection",
    "aggregation",
    "aggregation_settings",
    "invariant",
    "weights",
    "shared_layers",
    "direction",
    "clamp",
    "norm_over",
)


def small_llama(config: dict):
    """A Llama of config's hidden_size, layers and heads over the compact rows' words."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(icl_words.VOCABULARY),
            hidden_size=config["hidden_size"],
            intermediate_size=config["intermediate_size"],
            num_hidden_layers=config["layers"],
            num_attention_heads=config["heads"],
            max_position_embeddings=512,
            initializer_range=0.4 / config["hidden_size"] ** 0.5,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
        )
    )


def base_file(hidden_size: int, profile: str = "laptop"):
    """Where the weights of the pre-trained base are kept."""
    return models_dir(profile) / f"iclm_base_{hidden_size}.safetensors"


def build_base(config: dict):
    """The decoder that all modules share: pre-trained, or with pretrained=False as it is drawn."""
    from causalnb.lab.weights import load_weights

    model = small_llama(config)
    return load_weights(model, base_file(config["hidden_size"]), MAKE) if config["pretrained"] else model


def build_model(config: dict):
    """The ICLM of an arm; one module with its own logits and no router is plain LoRA."""
    from causalnb.iclm import ICLMForCausalLM

    lora = {
        "r": config["lora_rank"],
        "alpha": 2 * config["lora_rank"],
        "dropout": config["lora_dropout"],
        "target_modules": config["lora_targets"],
    }
    settings = {name: config[name] for name in ICLM_SETTINGS if name in config}
    return ICLMForCausalLM.from_base(build_base(config), lora=lora, **settings)


def encoded(row: dict, labelled: str = "labels") -> dict:
    """Token ids of a compact row and its "labels", the answers, or as labels all that is "supervised"."""
    tokens = icl_words.encode(row)
    return {
        "input_ids": tokens["input_ids"],
        "prompt_mask": tokens["prompt_mask"],
        "labels": tokens[labelled],
    }


def row_order(rows: int, batch: int, steps: int, seed: int) -> list[list[int]]:
    """Row numbers of `steps` batches: permutations of all rows, one after the other."""
    from numpy.random import default_rng

    draw, order = default_rng(seed), []
    while len(order) < batch * steps:
        order += draw.permutation(rows).tolist()
    return [order[i * batch : (i + 1) * batch] for i in range(steps)]


def collate(rows: list[dict]) -> dict:
    """A padded batch of encoded rows, and what routes it.

    Where rows name their module that is the routing (B,), where they are `routed` the prompt_mask (B, T) that
    the router reads; a plain decoder takes neither.
    """
    import torch

    from causalnb.lab.training import PromptAnswerCollator

    read = ("prompt_mask",) if rows[0].get("routed") else ()
    batch = PromptAnswerCollator(PAD, ("input_ids", "attention_mask", "labels", *read))(rows)
    if "module" in rows[0]:
        batch["routing"] = torch.tensor([row["module"] for row in rows])
    return batch


def on_device(batch: dict, model) -> dict:
    """A batch where the model's weights are."""
    device = next(model.parameters()).device
    return {name: value.to(device) for name, value in batch.items()}


def fit(run: Run, model, rows: list[dict], batches: list[list[int]], measure=None) -> list[dict]:
    """Train a model on batches of encoded rows; the history."""
    from causalnb.lab.training import TrainingSettings, train

    settings = TrainingSettings.of(run.config, seed=run.seed)
    return train(model, rows, collate, batches, settings, run.folder, measure, run.progress, run.device)


def at_labels(model, rows: list[dict], batch: int = 128):
    """(row numbers, batch, its labels (n,), the row of each, output) of a model's passes over encoded rows.

    Rows of like lengths go together. The output's logits (n, V) stand where the labels are predicted.
    """
    import torch

    from causalnb.iclm import ICLMForCausalLM

    fast = {"answers_only": True} if isinstance(model, ICLMForCausalLM) else {}
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    model.eval()
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        given = on_device(collate([rows[i] for i in chosen]), model)
        with torch.no_grad():
            out = model(**given, **fast)
        where = given["labels"][:, 1:] != -100
        if out.logits.dim() == 3:  # of a plain decoder, which gives them everywhere
            out.logits = out.logits[:, :-1][where]
        yield chosen, given["labels"][:, 1:][where], where.nonzero()[:, 0], out


def answered(model, rows: list[dict]) -> list[tuple[bool, int | None]]:
    """(whether every label is the likeliest word, the domain module it is routed to) of each encoded row.

    Greedy decoding writes the whole answer if and only if each of its words is the likeliest after the ones
    before it. A plain decoder, or one module alone, routes nothing: None.
    """
    import torch

    found = [(False, None)] * len(rows)
    for chosen, targets, owner, out in at_labels(model, rows):
        wrong = (out.logits.argmax(-1) != targets).float()
        missed = torch.zeros(len(chosen), device=wrong.device).index_add(0, owner, wrong)
        given = getattr(out, "module", None)
        modules = given.tolist() if given is not None else [None] * len(chosen)
        for i, count, module in zip(chosen, missed.tolist(), modules, strict=True):
            found[i] = count == 0, module
    return found


def answers_right(model, rows: list[dict]) -> list[bool]:
    """Of each encoded row whether every label is the likeliest word: an exact answer, decoded greedily."""
    return [right for right, _ in answered(model, rows)]


def modules_of(model, rows: list[dict]) -> list[int]:
    """The domain module that each encoded row is routed to."""
    return [module for _, module in answered(model, rows)]
