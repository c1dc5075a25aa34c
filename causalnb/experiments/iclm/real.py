"""ICLM on a real language model: ACRE and RAVEN in two formats, one module, two with an invariant one.

Each arm tunes low-rank adapters on the same rows in as many steps: `single` is plain LoRA, `single_matched`
the same with as many trained parameters as ICLM has in all, `iclm` has an invariant and two domain modules
behind the router and the paper's losses, and `oracle` is ICLM whose router is told the format.

What fits two cores, `laptop`: the lower two layers are left as they are, run once for all modules, and
give the states that the router reads; batch and rank are the paper's, with fewer steps at twice its rate.
Both were chosen with `single` on validation rows, where adapters of the upper third alone learnt much
more slowly. `gpu` adapts all layers and trains the router's own adapters. Rates can be chosen for
`single` and for `iclm` by iclm.real.search, on mirrored shifts.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from causalnb.experiments.iclm.grid import ALONE, LINEAR
from causalnb.experiments.iclm.models import fit, row_order
from causalnb.experiments.iclm.real_data import IID, WORDS, cells, spoken, test_rows, training_rows
from causalnb.experiments.iclm.runs import independence, trained_parameters
from causalnb.experiments.iclm.text import build
from causalnb.lab.registry import Experiment, Run, register

NOTEBOOK = "39_iclm_real_base"
CHOSEN = Path(__file__).with_name("real_chosen.json")  # written by real_choose
WATCHED = 48  # validation rows at which modules are compared


@dataclass(frozen=True)
class RealSettings:
    """One arm on one family, from a pre-trained base."""

    base: str = "google/gemma-3-270m"
    family: str = "acre"
    mirrored: bool = False
    num_modules: int = 2
    invariant: bool = True
    router: str = "vq"
    router_settings: dict = field(default_factory=lambda: {"init": "data"})
    router_trainable: bool = False
    shared_layers: int = 2  # of 18
    routed_by: str = "router"
    aggregation: str = "latent"
    aggregation_settings: dict = field(default_factory=dict)
    lora_rank: int = 8  # printed
    lora_dropout: float = 0.0
    lora_targets: list = field(default_factory=lambda: LINEAR)
    matched: bool = False
    checkpointing: bool = False
    bf16: bool = True
    batch: int = 16
    steps: int = 360  # by a curve of `single` on RAVEN's validation rows
    evaluate_every: int = 60
    learning_rate: float = 1e-3
    weight_decay: float = 0.0  # it would shrink modules that are idle
    train_rows: int = 4000
    validation_rows: int = 20
    test_rows: int = 48
    split_seed: int = 42


def matched_rank(config: dict, decoder) -> int:
    """The rank at which one module trains as many parameters as ICLM with all of its parts at lora_rank."""
    from causalnb.wrapping import decoder_layers

    maps = [
        part
        for layer in decoder_layers(decoder)[config["shared_layers"] :]
        for name, part in layer.named_modules()
        if name.rpartition(".")[2] in config["lora_targets"]
    ]
    each = sum(part.in_features + part.out_features for part in maps)
    vocabulary, width = decoder.get_output_embeddings().weight.shape
    modules = 3 if config["shared_layers"] else 4  # two domains', the invariant one's, the router's adapters
    others = 2 * width * vocabulary + 2 * width + 2 * width  # head, norm, centroids
    return round(modules * config["lora_rank"] + others / each)


def told(
    model, asked: list[list[dict]], bf16: bool, batch: int = 16
) -> list[list[tuple[float, bool, int | None]]]:
    """Of each question's rows (log-probability of the labels, whether each is the likeliest, the module).

    All questions have as many rows. What a question's rows share, up to the first label, is read once, and
    its keys and values serve each of them.
    """
    import torch

    found: list = [None] * len(asked)
    starts = [next(i for i, one in enumerate(rows[0]["labels"]) if one != -100) for rows in asked]
    model.eval()
    with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        for start in sorted({*starts}):
            those = [i for i, one in enumerate(starts) if one == start]
            for chosen in (those[at : at + batch] for at in range(0, len(those), batch)):
                questions = [asked[i] for i in chosen]
                for i, answers in zip(chosen, _told(model, questions, start), strict=True):
                    found[i] = answers
    return found


def _told(model, asked: list[list[dict]], start: int) -> list[list[tuple[float, bool, int | None]]]:
    """`told` of one batch of questions whose labels begin at `start`."""
    import torch

    def tensor(values):
        return torch.tensor(values, device=model.device)

    shared = [rows[0] for rows in asked]
    routing = tensor([row["module"] for row in shared]) if "module" in shared[0] else None
    prompt = tensor([row["input_ids"][:start] for row in shared])
    read = model(input_ids=prompt, routing=routing, use_cache=True, logits_to_keep=1)
    options = len(asked[0])
    ends = [row["labels"][start:] for rows in asked for row in rows]
    width = max(map(len, ends))
    labels = tensor([end + [-100] * (width - len(end)) for end in ends])
    logits = read.logits.repeat_interleave(options, 0)
    if width > 1:
        cache = read.past_key_values
        cache.batch_repeat_interleave(options)
        more = model(input_ids=labels[:, :-1].clamp(min=0), past_key_values=cache, use_cache=True)
        logits = torch.cat([logits, more.logits], 1)
    logits, given = logits.float(), labels != -100
    each = logits.log_softmax(-1).gather(2, labels.clamp(min=0)[..., None])[..., 0]
    sums = (each * given).sum(1).unflatten(0, (-1, options)).tolist()
    exact = ((logits.argmax(-1) == labels) | ~given).all(1).unflatten(0, (-1, options)).tolist()
    modules = [None] * len(asked) if read.module is None else read.module.tolist()
    return [
        [(total, right, module) for total, right in zip(*both, strict=True)]
        for *both, module in zip(sums, exact, modules, strict=True)
    ]


def scores(model, asked: list[list[dict]], config: dict) -> dict[str, float]:
    """exact: the share of exact answers; choice: of RAVEN's whose panel is the likeliest of eight.

    module0, ...: the share of questions that the router sends to each domain module.
    """
    answers = told(model, asked, config["bf16"])
    found = {"exact": fmean(options[0][1] for options in answers)}
    if len(asked[0]) > 1:
        found["choice"] = fmean(
            options[0][0] > max(other for other, *_ in options[1:]) for options in answers
        )
    if config["routed_by"] == "router":
        modules = [options[0][2] for options in answers]
        found |= {f"module{i}": modules.count(i) / len(modules) for i in range(config["num_modules"])}
    return found


def measure_of(family: str) -> str:
    """What decides on a family: ACRE's exact word, RAVEN's choice among eight."""
    return {"acre": "exact", "raven": "choice"}[family]


def run_real(run: Run) -> dict:
    """Tune one arm on one family and score every cell in both formats."""
    import torch
    from transformers import set_seed

    from causalnb.lab.bases import halve, pretrained

    config = run.config
    set_seed(run.seed)
    base = pretrained(config["base"], [spoken(word) for word in WORDS[config["family"]]])
    config = {**config, "lora_rank": matched_rank(config, base.model)} if config["matched"] else config
    model = build(config, base.model).to(run.device)
    if config["bf16"]:
        halve(model.base)
    validation = test_rows(config, base, IID, config["validation_rows"], run.seed + 1000)
    watched = [rows[0] for asked in validation.values() for rows in asked[: WATCHED // 2]]

    def watch(model) -> dict:
        with torch.autocast(model.device.type, torch.bfloat16, enabled=config["bf16"]):
            return independence(model, watched) if config["invariant"] else {}

    def measure(model) -> dict:
        name = measure_of(config["family"])
        of_formats = [scores(model, asked, config)[name] for asked in validation.values()]
        return {name: fmean(of_formats)} | watch(model)

    rows = training_rows(config, base, run.seed)
    order = row_order(len(rows), config["batch"], config["steps"], run.seed)
    history = fit(replace(run, config=config), model, rows, order, measure)
    counted = {
        "trainable_parameters": trained_parameters(model),
        "parameters": sum(one.numel() for one in model.parameters()),
    }
    metrics = {"": counted} | ({"modules": alike} if (alike := watch(model)) else {})
    drawn = config["split_seed"] + run.seed  # so that the spread of seeds has the luck of problems in it
    for cell in cells(config):
        for format, asked in test_rows(config, base, cell, config["test_rows"], drawn).items():
            metrics[f"{cell}/{format}"] = scores(model, asked, config)
    return {"metrics": metrics, "history": history, "bases": {base.name: base.digest}}


ICLM = {"aggregation_settings": {"start": "base"}}
ARMS = {
    "single": ALONE,
    "single_matched": {**ALONE, "matched": True},
    "iclm": ICLM,
    "oracle": {**ICLM, "routed_by": "format", "router_trainable": False},
}
CONTROLS = {"single_matched": "_matched", "oracle": "_oracle"}  # experiments of their own, run later
LATER = {"acre": {**CONTROLS, "iclm": "_iclm"}, "raven": CONTROLS}  # by family; ICLM once one module was seen
TUNED_AS = {"single": "single", "single_matched": "single", "iclm": "iclm", "oracle": "iclm"}
RATES = {"lr2e-4": 2e-4, "lr5e-4": 5e-4, "lr15e-4": 1.5e-3}
FAMILIES: dict[str, dict] = {  # family -> its test; of RAVEN no problem of the first look
    "acre": {},
    "raven": {"test_rows": 192, "split_seed": 43},
}
MORE_SEEDS = {  # than one, which takes an hour or two of a core
    "raven": {"single": 2, "iclm": 2},
    "raven_matched": {"single_matched": 2},
}
SEARCHED = {
    f"{family}_{arm}_{name}": {"family": family, **ARMS[arm], "learning_rate": rate}
    for family in FAMILIES
    for arm in ("single", "iclm")
    for name, rate in RATES.items()
}
GPU = {
    "shared_layers": 0,
    "router_trainable": True,
    "checkpointing": True,  # three rows run for each
    "steps": 600,
    "evaluate_every": 100,  # a checkpoint each, within minutes
    "validation_rows": 60,
    "test_rows": 200,
}
QUICK = {
    "base": "tiny",
    "shared_layers": 1,
    "bf16": False,
    "lora_rank": 2,
    "batch": 4,
    "steps": 2,
    "evaluate_every": 1,
    "train_rows": 4,
    "validation_rows": 2,
    "test_rows": 2,
}


def settled(family: str) -> dict[str, dict]:
    """The arms, each with the rate that the search chose for it or for what it is a control of."""
    chosen = json.loads(CHOSEN.read_text(encoding="utf-8"))[family]
    return {arm: {**settings, "learning_rate": chosen[TUNED_AS[arm]]} for arm, settings in ARMS.items()}


def add(name: str, title: str, arms: dict, seeds: int, **settings) -> None:
    """Register iclm.real.<name>."""
    register(
        Experiment(
            id=f"iclm.real.{name}",
            title=title,
            arms=arms,
            run=run_real,
            notebook=NOTEBOOK,
            settings={"laptop": RealSettings(**settings), "gpu": GPU, "quick": QUICK},
            seeds={"quick": 1, "laptop": seeds, "gpu": 3},
            more_seeds={"laptop": MORE_SEEDS.get(name, {})},
            cost={"quick": 4, "laptop": 4000, "gpu": 2000},
            at_most={"quick": {"steps": 2, "evaluate_every": 1}},
        )
    )


for family, test in FAMILIES.items():
    title = f"{family.upper()} on gemma-3-270m with LoRA modules"
    arms = settled(family)
    for arm, suffix in LATER[family].items():
        add(f"{family}{suffix}", f"{title}: {arm}", {arm: arms.pop(arm)}, 1, family=family, **test)
    add(family, title, arms, 1, family=family, **test)
add(
    "search",
    "Rates of one module and of ICLM on a real base, on mirrored shifts",
    SEARCHED,
    1,
    mirrored=True,
    split_seed=4242,
)
