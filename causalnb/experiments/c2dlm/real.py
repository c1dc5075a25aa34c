"""The spurious token game on a real language model that fills masks: an encoder, or a decoder made one.

The encoder sees both sides already, so that with its embeddings as head it is a masked diffusion model. All
of its weights are tuned; for a reader who wants to ask such a model, also adapters alone, which are kept. The
decoder loses its causal mask and learns with adapters to read what follows, and to fill a mask where it
stands, in place of the token after it; or, as in `causalnb.c2dlm.adapted`, keeps predicting that token, and
comes to see what follows a little at a time.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean

from causalnb.errors import LabError
from causalnb.experiments.c2dlm.data import at_test
from causalnb.experiments.c2dlm.grid import ISOLATED
from causalnb.experiments.c2dlm.real_data import data, end_of, pairs, rows_of
from causalnb.lab import adapters
from causalnb.lab.bases import Pretrained
from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import stg

CHOSEN = Path(__file__).with_name("real_chosen.json")  # written by real_choose
NOTEBOOK = "49_c2dlm_real_base"
WATCHED = 200  # i.i.d. test rows whose attention is read, and in which numbers are set


@dataclass(frozen=True)
class RealSettings:
    """One arm; the graph's settings are those of the small models.

    kind: of the base, "filler" or "decoder". lora: the rank of adapters; those of a filler are kept in a
    file; 0 tunes all weights and keeps none. Of a decoder without a graph, shifted: its head goes on to
    predict the next token; annealed: the share of the steps in which it comes to see what follows. bf16:
    mixed precision, in training and when it is scored.
    `decoder`, `model` and `lora_rank` decide nothing: stored results name them.
    """

    base: str = "sentence-transformers/all-MiniLM-L6-v2"
    kind: str = "filler"
    decoder: str = "google/gemma-3-270m"
    model: str = "diffusion"
    graph: str = "none"
    enforced: float = 0.0
    alpha: float = 5.0
    lam: float = 10.0
    gamma: float | dict = 0.3
    gamma_schedule: bool = True
    norm_index: str = "key"
    step_rule: str = "no_lookahead"
    over_layers: str = "map"
    lora_rank: int = 32
    lora: int = 0
    shifted: bool = False
    annealed: float = 0.0
    bf16: bool = False
    shift: str = "published"
    split_seed: int = 42
    train_rows: int = 1600
    swapped: int = 0  # copies of the rows whose numbers of no cause are those of other rows
    test_rows: int = 400
    validation_rows: int = 200
    batch: int = 32
    steps: int = 1500
    evaluate_every: int = 500
    learning_rate: float = 1e-4


def loaded(config: dict, texts: dict) -> Pretrained:
    """The base, cut to the tokens of all texts; an encoder without dropout, as the small ones."""
    from causalnb.lab.bases import pretrained

    said = [prompt.rstrip() for part in texts.values() for prompt, _ in part]
    said += [f" {response}" for part in texts.values() for _, response in part]
    if config["kind"] == "decoder":
        base = pretrained(config["base"], said)
        readable(base, said[0])
        return base
    without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return pretrained(config["base"], said, "filler", **without)


def readable(base: Pretrained, text: str) -> None:
    """Show on a text that the tap reads the base's attention; ValueError where it does not."""
    import torch

    from causalnb import attention

    shown = {"input_ids": torch.tensor([base.ids(text)])}
    attention.verify(base.model.eval(), shown)  # type: ignore[attr-defined]


def build(config: dict, base: Pretrained):
    """The model of an arm around its base."""
    from causalnb.c2dlm import MaskedDiffusionModel, ReattentionLoss

    mask = base.special("mask")
    if config["graph"] == "none" or config["enforced"]:
        return MaskedDiffusionModel.from_base(base.model, mask)  # type: ignore[arg-type]
    names = ("norm_index", "step_rule", "over_layers")
    loss = ReattentionLoss(config["alpha"], config["lam"], **{name: config[name] for name in names})
    gamma = config["gamma"]
    if config["gamma_schedule"]:
        gamma = {"total_steps": config["steps"], "gamma_min": 0.0, "gamma_max": gamma}
    return MaskedDiffusionModel.from_base(base.model, mask, loss, gamma=gamma)  # type: ignore[arg-type]


def collator_of(config: dict, base: Pretrained, seed: int):
    """The collator of an arm's rows."""
    from causalnb.c2dlm import MaskedDiffusionCollator
    from causalnb.c2dlm.adapted import AnnealedCollator

    mask, end = base.special("mask"), end_of(base)
    if config["annealed"]:
        rows = round(config["annealed"] * config["steps"] * config["batch"])
        return AnnealedCollator(mask, end, seed=seed, anneal_rows=rows)
    return MaskedDiffusionCollator(mask, end, seed=seed, enforced=config["enforced"])


def answers(model, rows: list[dict], base: Pretrained, batch: int = 200) -> list[list[int]]:
    """What the model says to each row's prompt, in its tokens and up to the end."""
    import torch

    from causalnb.c2dlm import sample

    model.eval()
    end, length = end_of(base), 1 + max(len(row["said"]) for row in rows)
    asked, said = [sum(row["prompt_mask"]) for row in rows], [[] for _ in rows]  # type: list[int], list[list]
    for width, group in groupby(sorted(range(len(rows)), key=asked.__getitem__), key=asked.__getitem__):
        numbers = [*group]
        for part in (numbers[at : at + batch] for at in range(0, len(numbers), batch)):
            ids = torch.tensor([rows[i]["input_ids"][:width] for i in part], device=model.device)
            seen = None
            if "visible" in rows[part[0]]:
                seen = torch.stack([rows[i]["visible"] for i in part])[:, None].to(model.device)
            out = sample(model, ids, length, length, length, eos_token_id=end, attention_mask=seen)
            for i, answer in zip(part, out[:, width:].tolist(), strict=True):
                said[i] = answer[: answer.index(end)] if end in answer else answer
    return said


def accuracy(model, rows: list[dict], base: Pretrained) -> float:
    """The share of rows whose answer is the one on record, word by word."""
    said = answers(model, rows, base)
    return sum(row["said"] == answer for row, answer in zip(rows, said, strict=True)) / len(rows)


def measured(model, parts: dict[str, list[dict]], accuracy: Callable[[list[dict]], float]) -> dict:
    """What the model counts in parameters, and its accuracy of the i.i.d. and the shifted rows."""
    from causalnb.lab.probes import scored

    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    metrics = {
        "": {"trainable_parameters": trained, "parameters": sum(p.numel() for p in model.parameters())}
    }
    for part in ("iid", "ood"):
        rows = scored(parts[part])
        metrics[part] = {"rows": len(rows), "accuracy": accuracy(rows)}
    return metrics


def moved(model, base: Pretrained, part: list[tuple[str, str]], config: dict, seed: int) -> dict:
    """{do/attribute: {"changed", "should"}}: in how many rows another number of it changes the answer.

    Numbers are drawn from 1 to 10; should: in how many rows the game's rule changes its answer.
    """
    from random import Random

    def said(pairs: list[tuple[str, str]]) -> list[list[int]]:
        return answers(model, rows_of(base, pairs, at_test(config), seed), base)

    found, before = {}, said(part)
    for name in stg.ATTRIBUTES:
        draw, others = Random(f"{name} {seed}"), []
        for prompt, _ in part:
            was = stg.values(prompt)
            new = draw.choice([number for number in range(1, 11) if number != was[name]])
            causes = ({**was, name: new}[cause] for cause in stg.CAUSES)
            others.append((stg.put(prompt, name, new), stg.risk(*causes)))
        after = said(others)
        found[f"do/{name}"] = {
            "changed": fmean(a != b for a, b in zip(before, after, strict=True)),
            "should": fmean(a != b for (_, a), (_, b) in zip(part, others, strict=True)),
        }
    return found


def run_real(run: Run) -> dict:
    """Tune, decode the i.i.d. and the shifted test; where no graph is enforced also where attention goes.

    LabError for a shift or an annealed mask of what is no decoder, or has a graph.
    """
    import torch
    from transformers import set_seed

    from causalnb.apps.bases import with_lora
    from causalnb.c2dlm import NumberedRows
    from causalnb.c2dlm.adapted import keep_shift
    from causalnb.experiments.c2dlm.models import row_order
    from causalnb.experiments.c2dlm.runs import relation_flow
    from causalnb.lab.bases import halve
    from causalnb.lab.probes import scored
    from causalnb.lab.training import TrainingSettings, train

    config, size = run.config, run.config["batch"]
    if (config["shifted"] or config["annealed"]) and (
        config["kind"] != "decoder" or config["graph"] != "none" or config["enforced"]
    ):
        raise LabError("shifted and annealed are for a decoder without a graph: set neither, or no graph.")
    texts = pairs(config)
    set_seed(run.seed)
    base = loaded(config, texts)
    parts = data(base, texts, config, run.seed)
    kept = config["lora"] and config["kind"] == "filler"  # a decoder's would fall under its terms
    if kept:
        adapters.add(base.model, config["lora"])
    elif config["lora"]:
        with_lora(base.model, config["lora"])
    if config["shifted"]:
        keep_shift(base.model)  # type: ignore[arg-type]
    model = build(config, base)
    if config["bf16"]:
        halve(model.base)
    order = row_order(len(parts["train"]), size, config["steps"], run.seed)

    def right(model, rows: list[dict]) -> float:
        with torch.autocast(model.device.type, torch.bfloat16, enabled=config["bf16"]):
            return accuracy(model, rows, base)

    history = train(
        model,
        NumberedRows(parts["train"], order),
        collator_of(config, base, run.seed),
        [list(range(at, at + size)) for at in range(0, len(order), size)],
        TrainingSettings.of(config, seed=run.seed),
        run.folder,
        lambda model: {"accuracy": right(model, scored(parts["validation"]))},
        run.progress,
        run.device,
    )
    metrics = measured(model, parts, lambda rows: right(model, rows))
    if not (config["enforced"] or config["shifted"]):  # shifted, tokens are written one place before theirs
        watched = rows_of(base, texts["iid"][:WATCHED], {**config, "graph": "causal"}, run.seed)
        watched = [row for row in watched if len(row["input_ids"]) == len(watched[0]["input_ids"])]
        ends = {"mask": base.special("mask"), "end": end_of(base)}
        with torch.autocast(model.device.type, torch.bfloat16, enabled=config["bf16"]):
            metrics |= relation_flow(model, watched, config["step_rule"], **ends)
    if kept:
        metrics |= moved(model, base, scored(texts["iid"][:WATCHED]), config, run.seed)
        adapters.save(base.model, adapters.file_of(run.experiment, run.arm, run.profile))
    return {"metrics": metrics, "history": history, "bases": {base.name: base.digest}}


def settled(steps: int = RealSettings.steps) -> dict[str, dict]:
    """The arms, each with what the search chose: what has a graph takes what is best for C2DLM."""
    chosen = json.loads(CHOSEN.read_text(encoding="utf-8"))
    rate = {"learning_rate": chosen["c2dlm"]["learning_rate"]}
    growing = {"total_steps": steps, "gamma_min": 1.0, "gamma_max": 10.0, "warmup": 1.0}
    return {
        "diffusion": chosen["diffusion"],
        "c2dlm": {"graph": "causal", **chosen["c2dlm"]},
        "placebo": {"graph": "placebo", **chosen["c2dlm"]},
        "no_v": {"graph": "causal", **chosen["c2dlm"], "norm_index": "none"},
        "isolated": {**ISOLATED, "gamma": growing, **rate},
        "isolated_placebo": {**ISOLATED, "graph": "isolated_placebo", "gamma": growing, **rate},
        "enforced": {"graph": "isolated", "enforced": 1.0, **rate},
        "swapped": {"swapped": 10, **chosen["diffusion"]},  # the graph as augmentation
    }


GPU = {"base": "google-bert/bert-base-uncased"}  # steps are those to which weights of guidance grow
GPU_RATE = 5e-5  # of all weights, set beforehand: a base of this size takes no more
QUICK = {
    "base": "tiny",
    "steps": 2,
    "batch": 4,
    "evaluate_every": 1,
    "train_rows": 8,
    "test_rows": 4,
    "validation_rows": 2,
}
RATES = {"3e-5": 3e-5, "1e-4": 1e-4, "3e-4": 3e-4}  # of all weights: at high ones states collapse
ADAPTED, FEWER = 1e-3, 1000  # rate and steps of adapters, as the Causal Transformer's; not searched
KEPT = ("diffusion", "c2dlm", "isolated")
WEIGHTS = (1.0, 3.0)  # beside that of the settings, and at their rate
SEARCHED = {
    **{f"diffusion_lr{name}": {"learning_rate": rate} for name, rate in RATES.items()},
    **{f"c2dlm_lr{name}": {"graph": "causal", "learning_rate": rate} for name, rate in RATES.items()},
    **{f"c2dlm_gamma{gamma:g}": {"graph": "causal", "gamma": gamma} for gamma in WEIGHTS},
}


def add(
    id: str,
    title: str,
    arms: dict,
    seeds: int,
    more: dict[str, int] | None = None,
    gpu: int = 5,
    rate: float = GPU_RATE,
    **changes,
) -> None:
    """Register one of the experiments, its laptop settings with `changes`; `more`: arms with more seeds.

    gpu: seeds there, and rate: the most that arms learn with there.
    """
    register(
        Experiment(
            id=f"c2dlm.real.{id}",
            title=title,
            run=run_real,
            notebook=NOTEBOOK,
            arms=arms,
            settings={"laptop": RealSettings(**changes), "quick": QUICK, "gpu": GPU},
            seeds={"quick": 1, "laptop": seeds, "gpu": gpu},
            more_seeds={"laptop": more or {}},
            cost={
                "quick": 5,
                "laptop": 1500,
                "gpu": 250 * changes.get("steps", RealSettings.steps) / RealSettings.steps,
            },
            at_most={"gpu": {"learning_rate": rate}},
        )
    )


add(
    "search",
    "The spurious token game on a real base: rates and the weight of guidance, on another shift",
    SEARCHED,
    1,
    gpu=1,
    rate=max(RATES.values()),
    shift="reversed",
    split_seed=7,
)
add(
    "stg_l",
    "The spurious token game on a real base, size L",
    settled(),
    1,
    {arm: 5 for arm in settled() if arm not in ("no_v", "isolated_placebo")},
)
add(
    "longer",
    "The spurious token game on a real base, size L, in twice the steps",
    {arm: settled(2 * RealSettings.steps)[arm] for arm in ("diffusion", "c2dlm")},
    1,
    steps=2 * RealSettings.steps,
)
for size in ("S", "M"):
    add(
        f"stg_{size.lower()}",
        f"The spurious token game on a real base, size {size}",
        {arm: settled()[arm] for arm in ("diffusion", "c2dlm")},
        1,
        train_rows=stg.SIZES[size],
    )
add(
    "adapters",
    "The spurious token game on a real base: adapters that are kept",
    {arm: {**settled(FEWER)[arm], "learning_rate": ADAPTED} for arm in KEPT},
    1,
    gpu=0,  # the files that are kept are the laptop's, which notebooks load
    rate=ADAPTED,
    lora=16,
    steps=FEWER,
)
register(
    Experiment(
        id="c2dlm.real.bidirectional",
        title="The spurious token game on gemma-3-270m made bidirectional, with LoRA, size L",
        run=run_real,
        notebook=NOTEBOOK,
        arms={"diffusion": {}},
        settings={
            "laptop": RealSettings(
                base="google/gemma-3-270m",
                kind="decoder",
                lora=16,
                batch=16,
                steps=400,
                evaluate_every=100,
                learning_rate=1e-3,
            ),
            "quick": {**QUICK, "lora": 2},
            "gpu": {"base": "google/gemma-3-1b-pt", "steps": 1200, "evaluate_every": 200},
        },
        seeds={"quick": 1, "laptop": 1, "gpu": 3},
        cost={"quick": 5, "laptop": 6000, "gpu": 450},
    )
)
register(
    Experiment(
        id="c2dlm.real.adapted",
        title="The spurious token game on gemma-3-270m made bidirectional by degrees, with LoRA, size L",
        run=run_real,
        notebook=NOTEBOOK,
        arms={"shifted": {"shifted": True, "annealed": 0.3}},
        settings={
            "laptop": RealSettings(
                base="google/gemma-3-270m",
                kind="decoder",
                lora=16,
                bf16=True,
                batch=16,
                steps=1000,  # of some 1,100 tokens
                evaluate_every=200,
                learning_rate=1e-3,
            ),
            "quick": {**QUICK, "lora": 2, "bf16": False},
            "gpu": {"base": "google/gemma-3-1b-pt", "steps": 1200},
        },
        seeds={"quick": 1, "laptop": 1, "gpu": 3},
        cost={"quick": 5, "laptop": 4000, "gpu": 450},
    )
)
