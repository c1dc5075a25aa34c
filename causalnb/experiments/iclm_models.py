"""The small decoder of the ICLM experiments, its modules, and how rows become batches and scores."""

from causalnb.lab.registry import Run
from causalnb.paths import models_dir
from causalnb.tasks import icl_words

PAD, BOS, EOS = (icl_words.VOCABULARY[f"<{name}>"] for name in ("pad", "bos", "eos"))
MAKE = "causalnb run iclm.base"
ICLM_SETTINGS = ("num_modules", "router", "router_settings", "router_trainable", "router_projection",
                 "aggregation", "aggregation_settings", "invariant", "weights", "shared_layers", "direction",
                 "clamp", "norm_over")


def small_llama(config: dict):
    """A Llama of config's hidden_size, layers and heads over the compact rows' words."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(
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
    ))


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

    lora = {"r": config["lora_rank"], "alpha": 2 * config["lora_rank"], "dropout": config["lora_dropout"],
            "target_modules": config["lora_targets"]}
    settings = {name: config[name] for name in ICLM_SETTINGS if name in config}
    return ICLMForCausalLM.from_base(build_base(config), lora=lora, **settings)


def encoded(row: dict, labelled: str = "labels") -> dict:
    """Token ids of a compact row with its labels: answers ("labels") or all that can be deduced ("supervised")."""
    tokens = icl_words.encode(row)
    return {"input_ids": tokens["input_ids"], "prompt_mask": tokens["prompt_mask"], "labels": tokens[labelled]}


def row_order(rows: int, batch: int, steps: int, seed: int) -> list[list[int]]:
    """Row numbers of `steps` batches: permutations of all rows, one after the other."""
    from numpy.random import default_rng

    draw, order = default_rng(seed), []
    while len(order) < batch * steps:
        order += draw.permutation(rows).tolist()
    return [order[i * batch : (i + 1) * batch] for i in range(steps)]


def fit(run: Run, model, rows: list[dict], batches: list[list[int]], measure=None) -> list[dict]:
    """Train a model on batches of encoded rows; the history."""
    from causalnb.lab.training import PromptAnswerCollator, TrainingSettings, train

    settings = TrainingSettings.of(run.config, seed=run.seed)
    return train(model, rows, PromptAnswerCollator(PAD), batches, settings, run.folder, measure, run.progress,
                 run.device)


def answers_right(model, rows: list[dict], batch: int = 128, forward=None) -> list[bool]:
    """Of each encoded row whether every label is the likeliest word: an exact answer, decoded greedily.

    Greedy decoding writes the whole answer if and only if each of its words is the likeliest after the ones
    before it. forward(model, batch) gives logits (n, V) where labels are; by default model's own.
    """
    import torch

    from causalnb.lab.training import PromptAnswerCollator

    collate, right = PromptAnswerCollator(PAD), [False] * len(rows)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    model.eval()
    device = next(model.parameters()).device
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        given = {name: value.to(device) for name, value in collate([rows[i] for i in chosen]).items()}
        with torch.no_grad():
            logits = model(**given).logits if forward is None else forward(model, given)
        targets = given["labels"][:, 1:]
        if logits.dim() == 3:
            logits = logits[:, :-1][targets != -100]
        hit = torch.ones_like(targets, dtype=torch.bool)
        hit[targets != -100] = logits.argmax(-1) == targets[targets != -100]
        for i, found in zip(chosen, hit.all(1).tolist(), strict=True):
            right[i] = found
    return right
