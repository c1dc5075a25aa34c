"""The small decoder of the C2DLM experiments, bidirectional or causal: built, loaded, trained and decoded."""

from itertools import groupby

from causalnb.lab.registry import Run
from causalnb.paths import models_dir
from causalnb.tasks import words

MODELS = ("diffusion", "autoregressive")
MASK, PAD, BOS, EOS = (words.VOCABULARY[f"<{name}>"] for name in ("mask", "pad", "bos", "eos"))
LORA_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def number_embeddings(width: int, numbers=words.NUMBERS):
    """Sines and cosines of each number at wave lengths from 4 to 800: (len(numbers), width)."""
    import torch

    waves = torch.logspace(0.6, 2.9, width // 2)
    angles = 2 * torch.pi * torch.tensor(list(numbers))[:, None] / waves
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def small_llama(config: dict):
    """A Llama of config's hidden_size, layers and heads, in whose embeddings numbers lie in their order."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words.vocabulary(config.get("encoding", "compact"))),
            hidden_size=config["hidden_size"],
            intermediate_size=4 * config["hidden_size"],
            num_hidden_layers=config["layers"],
            num_attention_heads=config["heads"],
            max_position_embeddings=256,
            initializer_range=0.4 / config["hidden_size"] ** 0.5,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
        )
    )
    table = model.get_input_embeddings().weight
    with torch.no_grad():
        smooth = number_embeddings(config["hidden_size"]) * table.std() * 0.9
        places = list(words.NUMBER_IDS.values())
        table[places] = 0.4 * table[places] + smooth
    return model


def base_file(model: str, size: int, profile: str = "laptop"):
    """Where the weights of a pre-trained base of a hidden size are kept."""
    return models_dir(profile) / f"c2dlm_base_{model}_{size}.safetensors"


def load_base(model: str, config: dict):
    """The pre-trained decoder, in float32; LabError as lab.weights.load_weights."""
    from causalnb.lab.weights import load_weights

    return load_weights(
        small_llama(config), base_file(model, config["hidden_size"]), "causalnb run c2dlm.base"
    )


def build_model(config: dict):
    """The model of an arm: base or scratch, LoRA where lora_rank > 0, bidirectional for diffusion."""
    from peft import LoraConfig, get_peft_model

    from causalnb.c2dlm import MaskedDiffusionModel, ReattentionLoss

    kind = config["model"]
    decoder = load_base(kind, config) if config["pretrained"] else small_llama(config)
    if config["pretrained"] and config["lora_rank"]:
        rank = config["lora_rank"]
        decoder = get_peft_model(
            decoder, LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=LORA_TARGETS)
        ).get_base_model()
    if kind == "autoregressive":
        return decoder
    if config["graph"] == "none" or config.get("enforced"):
        return MaskedDiffusionModel.from_base(decoder, MASK)
    loss = ReattentionLoss(
        config["alpha"],
        config["lam"],
        config["guided_layers"],
        norm_index=config["norm_index"],
        step_rule=config["step_rule"],
        over_layers=config["over_layers"],
    )
    gamma = config["gamma"]
    if config["gamma_schedule"]:
        gamma = {"total_steps": config["steps"], "gamma_min": 0.0, "gamma_max": gamma}
    return MaskedDiffusionModel.from_base(decoder, MASK, loss, gamma=gamma)


def row_order(rows: int, batch: int, steps: int, seed: int) -> list[int]:
    """Row numbers of `steps` batches: permutations of all rows, one after the other."""
    from numpy.random import default_rng

    draw, order = default_rng(seed), []
    while len(order) < batch * steps:
        order += draw.permutation(rows).tolist()
    return order[: batch * steps]


def fit(run: Run, model, rows: list[dict], order: list[int], measure=None) -> list[dict]:
    """Train a model on rows[order[0]], ...; noise is a function of seed and place, the same for every arm."""
    from causalnb.c2dlm import MaskedDiffusionCollator, NumberedRows
    from causalnb.lab.training import PromptAnswerCollator, TrainingSettings, train

    config = run.config
    if config["model"] == "autoregressive":
        collator = PromptAnswerCollator(PAD)
    else:
        noise = {"in_order": config.get("in_order", False), "enforced": config.get("enforced", 0.0)}
        collator = MaskedDiffusionCollator(MASK, EOS, seed=run.seed, **noise)
    size = config["batch"]
    batches = [list(range(at, at + size)) for at in range(0, len(order), size)]
    settings = TrainingSettings.of(config, seed=run.seed)
    return train(
        model,
        NumberedRows(rows, order),
        collator,
        batches,
        settings,
        run.folder,
        measure,
        run.progress,
        run.device,
    )


def decode(
    model, rows: list[dict], config: dict, in_order: bool = False, batch: int = 256
) -> list[list[str]]:
    """Words each model answers to the prompts of rows, up to the end: greedy, or by `sample`.

    With in_order a diffusion model fills tokens in the order of their rank, else the surest first. It reads
    rows that say what is `visible` under that mask.
    """
    import torch

    from causalnb.c2dlm import MaskedDiffusionModel, sample

    names, found = list(words.vocabulary(config.get("encoding", "compact"))), [[] for _ in rows]
    model.eval()
    prompts = [row["input_ids"][: sum(row["prompt_mask"])] for row in rows]
    by_length = sorted(range(len(rows)), key=lambda i: len(prompts[i]))
    for length, group in groupby(by_length, key=lambda i: len(prompts[i])):
        group = list(group)
        for start in range(0, len(group), batch):
            part = group[start : start + batch]
            ids = torch.tensor([prompts[i] for i in part], device=model.device)
            if isinstance(model, MaskedDiffusionModel):
                ranks = torch.tensor([rows[i]["rank"][length:] for i in part]) if in_order else None
                masked = "visible" in rows[part[0]]
                seen = torch.stack([rows[i]["visible"] for i in part])[:, None] if masked else None
                out = sample(
                    model,
                    ids,
                    config["gen_length"],
                    config["block_length"],
                    config["decode_steps"],
                    eos_token_id=EOS,
                    rank=ranks,
                    attention_mask=None if seen is None else seen.to(model.device),
                )
            else:
                out = model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    max_new_tokens=config["gen_length"],
                    pad_token_id=PAD,
                    eos_token_id=EOS,
                )
            for i, answer in zip(part, out[:, length:].tolist(), strict=True):
                answer = answer[: answer.index(EOS)] if EOS in answer else answer
                found[i] = [names[token] for token in answer]
    return found
