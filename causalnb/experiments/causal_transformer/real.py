"""The Markov-blanket loss on a real encoder that reads both sentences, all of its weights tuned."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from causalnb.errors import FileError
from causalnb.experiments.causal_transformer.data import LABELS, balanced, cells, encoded, parts
from causalnb.experiments.causal_transformer.grid import DEVELOPMENT, MINORITIES, OVERLAP, SMALL
from causalnb.experiments.causal_transformer.models import EXAMPLE, fit, right
from causalnb.experiments.causal_transformer.readers import word_reader
from causalnb.experiments.causal_transformer.real_model import (
    added,
    classes_of,
    example_map,
    gates,
    map_shape,
    shift_of,
    shut,
)
from causalnb.experiments.causal_transformer.runs import cell_scores, spread
from causalnb.lab import adapters
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.records import parsed
from causalnb.lab.registry import Experiment, Run, register

FILE = Path(__file__).with_name("real_chosen.json")  # what the searches chose; `real_choose` writes it
NAMES = {
    *("snli", "nli", "late", "reach", "held"),
    *("entropy", "snli_entropy", "longer_entropy", "held_entropy"),
}
NOTEBOOK = "19_causal_transformer_real_base"
MIRRORED = ("paws_qqp",)  # cells whose label 1 is the one that follows, which is 0 of entailment


def read_chosen() -> dict:
    """By NAMES: rates of tasks, the tries of LATE, REACHES and HELD that are used, nats of controls.

    FileError without one.
    """
    try:
        found = parsed(FILE.read_bytes())
    except (OSError, ValueError) as error:
        raise FileError(f"{FILE.name} holds no choices ({error}): restore it from git.") from error
    if missing := NAMES - set(found):
        raise FileError(f"{FILE.name} lacks {min(missing)!r}: restore it from git.")
    return found


@dataclass(frozen=True)
class RealSettings:
    """One arm on one task; cells, real, by and auc are those of PairsSettings.

    blanket and weight: the Markov-blanket loss and its weight, which rises between the shares `ramp` of
    training, or is there from the first step on. entropy: nats that the rows of maps are pulled to in the
    same way. band: how far tokens see, beside the first one. alone: the second sentence is read alone.
    compared: each sentence is read by itself, and the answer from a comparison of their means.
    interchanged: trained on pairs whose shared pieces of words are replaced by others of their class, as
    `word_classes` has them within `distance`. held: the weight of attention_shift between these pairs' maps
    and those of the pairs as they were.
    gcn: the mode of value updates in all layers; their gates open up to about `reach` times what the rates
    of all steps add up to, and less where gradients change their sign. shown: more is told of maps, and one
    of the paper's pair is kept. lora: the rank of adapters, which are kept in a file; 0 tunes all weights and
    keeps none.
    """

    base: str = "sentence-transformers/all-MiniLM-L6-v2"
    task: str = "snli"
    data: dict = field(default_factory=dict)
    data_seed: int = 0
    cells: list = field(default_factory=lambda: ["test", "hard"])
    real: list = field(default_factory=list)
    mapped: list = field(default_factory=lambda: ["test"])
    by: str = ""
    auc: bool = False
    blanket: str = "none"
    blanket_settings: dict = field(default_factory=dict)
    weight: float = 1.0
    ramp: list | None = None
    entropy: float | None = None
    band: int = 0
    gcn: str = "none"
    reach: float = 1.0
    alone: bool = False
    compared: bool = False
    interchanged: bool = False
    distance: float = 0.4
    held: float = 0.0
    balanced: bool = False
    shown: bool = False
    lora: int = 0
    map_rows: int = 128
    batch: int = 32
    steps: int = 840
    learning_rate: float = 1e-4


def reader(base, alone: bool, apart: bool = False):
    """A tokenizer for `encoded` whose ids are those of a base that was cut.

    alone: of the second sentence alone; apart: of each as it is by itself, one behind the other.
    """

    def read(first: list[str], second: list[str], **asked) -> dict:
        if apart:
            pairs = [
                *zip(*(base.tokenizer(one, **asked)["input_ids"] for one in (first, second)), strict=True)
            ]
            return {
                "input_ids": [base.placed(one + other) for one, other in pairs],
                "token_type_ids": [[0] * len(one) + [1] * len(other) for one, other in pairs],
            }
        tokens = base.tokenizer(*([second] if alone else [first, second]), **asked)
        return {**tokens, "input_ids": [base.placed(ids) for ids in tokens["input_ids"]]}

    return read


def scored_cells(found: dict[str, list[dict]], config: dict) -> dict[str, list[dict]]:
    """{cell: rows} of config, without those that have no row; labels of MIRRORED cells are turned round.

    "hard" has the test rows whose label is not what a reader of words makes of the second sentence alone.
    """
    if "hard" in config["cells"]:
        said = zip(found["test"], word_reader(found, "sentence2"), strict=True)
        found = {**found, "hard": [row for row, label in said if row["label"] != label]}
    asked = cells(found, config["cells"], config["real"])
    for cell in asked.keys() & MIRRORED:
        asked[cell] = [{**row, "label": 1 - row["label"]} for row in asked[cell]]
    return {cell: rows for cell, rows in asked.items() if rows}


def run_real(run: Run) -> dict:
    """Tune the base on an arm's pairs and score all cells, of `mapped` ones also what maps are like.

    The history looks twice at validation pairs: accuracy, and `map_shape` of `map_rows` of them. Of value
    updates: `gate`, the mean of |r g|, and of mapped cells `shut`, the accuracy with all gates closed. Where
    words are interchanged: `shift`, how far that moves maps. Where maps are `shown`, the history ends with
    head 1 of layer 1 on the paper's pair.
    """
    import torch
    from transformers import set_seed

    from causalnb.lab.bases import pretrained

    config = run.config
    found = parts(config["task"], config["data"], run.seed + config["data_seed"])
    asked = scored_cells(found, config)
    everything = [row for some in (found, asked) for rows in some.values() for row in rows]
    texts = [row[name] for row in everything for name in ("sentence1", "sentence2")]
    set_seed(run.seed)
    base = pretrained(
        config["base"],
        [*texts, *EXAMPLE] if config["shown"] else texts,
        "classifier",
        num_labels=len(LABELS[config["task"]]),
        hidden_dropout_prob=0.0,  # so that arms differ in nothing else
        attention_probs_dropout_prob=0.0,
    )
    read = reader(base, config["alone"], config["compared"])
    train = found["train"]
    rows = encoded(balanced(config["task"], train) if config["balanced"] else train, read)
    validation = scored(encoded(found["validation"], read))
    followed = spread(validation, config["map_rows"])

    def measure(model) -> dict:
        return {"accuracy": float(right(model, validation).mean()), **map_shape(model, followed)}

    model, classes = base.model, None
    if config["interchanged"]:
        marks = [base.special(name) for name in ("pad", "cls", "sep")]
        classes = classes_of(rows, model.config.vocab_size, config["distance"], marks)
    if config["lora"]:
        adapters.add(model, config["lora"])
    with added(model, config, classes):
        here = replace(run, config={**config, "evaluate_every": max(1, config["steps"] // 2)})
        batches = grouped(rows, config["batch"], config["steps"], run.seed)
        history = fit(here, model, rows, batches, measure)
        asked = {cell: scored(some) for cell, some in asked.items()}
        metrics = cell_scores(model, asked, read, {**config, "mapped": []})
        for cell in config["mapped"]:
            ready = encoded(asked[cell], read)
            mapped = spread(ready, config["map_rows"])
            metrics[cell] |= map_shape(model, mapped, config["shown"])
            if config["interchanged"]:
                metrics[cell]["shift"] = shift_of(model, mapped, classes, run.seed)
            if config["gcn"] != "none":
                with shut(model):
                    metrics[cell]["shut"] = float(right(model, ready).mean())
        if config["shown"]:
            history = history + example_map(model, base, read)
    counted = {"parameters": model.num_parameters(), "rows": len(rows)}
    if opened := gates(model):
        counted["gate"] = float(torch.stack(opened).abs().mean())
    if config["lora"]:
        counted["trained"] = model.num_parameters(only_trainable=True)
        adapters.save(model, adapters.file_of(run.experiment, run.arm, run.profile))
    return {
        "metrics": {"": counted, **metrics},
        "history": history,
        "bases": {base.name: base.digest},
    }


TASKS = {  # settings that differ, at laptop and at quick
    "snli": (
        {"task": "snli", "data": {"source": "snli", "n_validation": 900}},
        {"data": {"source": "generator", **SMALL}},
    ),
    "nli": (
        {
            "task": "overlap",
            "data": OVERLAP["nli"]["data"],
            "cells": ["test", "challenge", "held_out"],
            "real": ["mnli_contradicting", "mnli_overlapping", "paws_qqp"],
            "mapped": ["challenge"],
            "by": "subcase",
            "auc": True,
            "steps": 1000,
        },
        {"data": OVERLAP["nli"]["quick"], "real": []},
    ),
}
SEARCHED = {  # the development shift of the templates, where there is one
    "snli": {"cells": ["validation"], "mapped": []},
    "nli": {
        **{name: DEVELOPMENT[name] for name in ("data_seed", "real", "cells")},
        "data": {**DEVELOPMENT["data"], "minority": MINORITIES["m5"]},
    },
}
QUICK = {"base": "tiny", "batch": 4, "steps": 2, "map_rows": 4}
# Weights and nats stay those of the small base: what arms hold in maps tells whether they serve a larger one.
LARGER = {"base": "google-bert/bert-base-uncased"}
FULL = 549_367 // 128  # steps of one pass through all of SNLI
GPU = {
    "snli": {**LARGER, "data": {"source": "snli_full"}, "batch": 128, "steps": FULL // 2},
    "nli": {**LARGER, "steps": 2000},
}
GPU_RATE = 5e-5  # of all weights, set beforehand: a base of this size takes no more
GPU_COST = {"snli": 400, "nli": 250}  # guessed from the small base's seconds on an H100
RATES = {"rate_3e-5": 3e-5, "rate_1e-4": 1e-4, "rate_3e-4": 3e-4}  # tried for the plain arm
ADAPTED = 1e-3  # of adapters, which take more than all weights
RAMP = [0.1, 0.4]  # of losses that come late, when there is something to keep
HINGE = {f"hinge_{weight}": {"blanket": "hinge", "weight": float(weight)} for weight in (3, 10, 30)}
LATE = {
    f"late_{weight}": {"blanket": "hinge", "weight": float(weight), "ramp": RAMP} for weight in (10, 30, 100)
}
REACHES = {f"reach_{r}": {"gcn": "paper", "reach": float(r)} for r in (25, 250, 1000)}  # of value updates
OTHERS = {"interchanged": {"interchanged": True}}  # words
HELD = {f"held_{weight}": {**OTHERS["interchanged"], "held": float(weight)} for weight in (1, 10)}
TRIES = {
    "snli": HINGE | REACHES,
    "nli": {name: HINGE[name] for name in ("hinge_10", "hinge_30")} | LATE | OTHERS | HELD,
}
CHOSEN = read_chosen()
TITLES = {"snli": "SNLI-10k", "nli": "Entailment where word overlap misleads"}


def register_real(
    id: str, name: str, title: str, arms: dict, seeds: int, changes: dict, gpu: dict | None = None, **more
) -> None:
    """Register arms on one of TASKS with `changes` of its settings, whose data come on top of its own.

    gpu: what else is given for that profile, over what all have there.
    """
    own, small = TASKS[name]
    laptop, quick = (
        {**some, **changes, "data": {**some["data"], **changes.get("data", {})}} for some in (own, small)
    )
    gpu = {"steps": GPU[name]["steps"], "seeds": 3, "rate": GPU_RATE, **(gpu or {})}
    cost = GPU_COST[name] * gpu["steps"] / GPU[name]["steps"]
    register(
        Experiment(
            id=f"causal_transformer.real.{id}",
            title=f"{TITLES[name]}, on a real language model: {title}",
            run=run_real,
            notebook=NOTEBOOK,
            arms=arms,
            settings={
                "laptop": RealSettings(**laptop),
                "quick": {**quick, **QUICK},
                "gpu": {**GPU[name], "steps": gpu["steps"]},
            },
            seeds={"quick": 1, "laptop": seeds, "gpu": gpu["seeds"]},
            cost={"quick": 2, "laptop": {"snli": 1600, "nli": 1000}[name], "gpu": cost},
            at_most={"gpu": {"learning_rate": gpu["rate"]}},
            **more,
        )
    )


def arms_of(name: str, *also: str) -> dict[str, dict]:
    """The arms on one of TASKS: vanilla, loss, and `also`; at the rate that is best for vanilla."""
    arms = {
        "vanilla": {},
        "loss": HINGE["hinge_10"],  # was set before the search had told of it
        "loss_late": LATE[CHOSEN["late"]],
        "entropy": {"entropy": 1.5},  # set beforehand, too
        # as loss_late ended with: in the search, of SNLI on validation pairs with the first seed
        "entropy_late": {"entropy": CHOSEN[{"nli": "entropy", "snli": "snli_entropy"}[name]], "ramp": RAMP},
        "balanced": {"balanced": True},
        "hypothesis": {"alone": True},
        "band": {"band": 3},
        "compared": {"compared": True},
        "gcn": REACHES[CHOSEN["reach"]],
        "both": {**REACHES[CHOSEN["reach"]], **LATE[CHOSEN["late"]]},
        "interchanged": OTHERS["interchanged"],
        "held": HELD[CHOSEN["held"]],
        # from the first step on, as held, to what it ended with in the search, on validation pairs
        "interchanged_entropy": {**OTHERS["interchanged"], "entropy": CHOSEN["held_entropy"]},
    }
    return {arm: {"learning_rate": CHOSEN[name], **arms[arm]} for arm in ("vanilla", "loss", *also)}


for name, changes in SEARCHED.items():
    tries = {arm: {"learning_rate": rate} for arm, rate in RATES.items()} | TRIES[name]
    gpu = {"seeds": 1, "rate": max(RATES.values())}
    more = {"snli": ", reach of gates", "nli": ", other words, held maps"}[name]
    register_real(f"search.{name}", name, f"rates, weights of the loss{more}", tries, 1, changes, gpu)
register_real(
    "snli",
    "snli",
    "the Markov blanket against plain tuning",
    arms_of("snli", "loss_late", "entropy", "entropy_late", "hypothesis", "band", "gcn", "both"),
    1,
    {},
    more_seeds={
        "laptop": dict.fromkeys(("vanilla", "loss", "loss_late", "entropy", "entropy_late", "hypothesis"), 3)
    },
)
register_real(
    "snli.longer",
    "snli",
    "the same in twice the steps",
    {
        **{arm: one for arm, one in arms_of("snli", "loss_late", "entropy_late").items() if arm != "loss"},
        "entropy_late": {
            **arms_of("snli", "entropy_late")["entropy_late"],
            "entropy": CHOSEN["longer_entropy"],
        },
    },
    1,
    {"steps": 2 * RealSettings.steps},
    {"steps": FULL},
    more_seeds={"laptop": {"loss_late": 2, "entropy_late": 2}},
)
register_real(
    "maps",
    "snli",
    "what maps are like",
    {arm: one for arm, one in arms_of("snli", "loss_late", "entropy_late").items() if arm != "loss"},
    1,
    {"cells": ["validation"], "mapped": ["validation"], "shown": True},
    {"seeds": 1},
)
register_real(
    "nli.m5",
    "nli",
    "5 % of counter-examples",
    arms_of(
        "nli",
        *("loss_late", "entropy", "entropy_late", "balanced", "compared"),
        *("interchanged", "held", "interchanged_entropy"),
    ),
    3,
    {"data": {"minority": MINORITIES["m5"]}},
    {"seeds": 5},
)
register_real(
    "nli.m1",
    "nli",
    "1 % of counter-examples",
    arms_of("nli", "balanced"),
    1,
    {"data": {"minority": MINORITIES["m1"]}},
    more_seeds={"laptop": {"vanilla": 2}},
)
register_real(
    "adapters",
    "nli",
    "adapters that are kept, with 5 % of counter-examples",
    {
        arm: {**one, "learning_rate": ADAPTED, "lora": 16}
        for arm, one in arms_of("nli", "loss_late", "balanced").items()
        if arm != "loss"
    },
    1,
    {"data": {"minority": MINORITIES["m5"]}},
    {"seeds": 0, "rate": ADAPTED},  # the files that are kept are the laptop's, which notebooks load
)
