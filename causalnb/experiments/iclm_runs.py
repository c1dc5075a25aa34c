"""One arm of ICLM on one family of tasks: tune, follow the modules' independence, score every cell."""

from causalnb.experiments import iclm_maps, iclm_tasks
from causalnb.experiments.iclm_models import (
    answered,
    answers_right,
    build_model,
    collate,
    encoded,
    fit,
    likelihoods,
    row_order,
)
from causalnb.lab.registry import Run
from causalnb.tasks import icl_rows


def prepared(rows: list[dict], config: dict, labelled: str = "labels") -> list[dict]:
    """Encoded rows; with the module that an arm without a router gives to all, or to each format.

    ACRE is asked for its one word: a tuned row ends after many queries, a tested one after the first.
    """
    modules = {"router": {}, "nobody": dict.fromkeys(iclm_tasks.FORMATS, 0),
               "format": {format: i for i, format in enumerate(iclm_tasks.FORMATS)}}[config["routed_by"]]
    ready = [encoded(row, labelled) for row in rows]
    if config["family"] == "acre" and labelled == "labels":
        ready = [{name: values[:-1] for name, values in row.items()} for row in ready]
    return [row | ({"module": modules[one["format"]]} if modules else {})
            for row, one in zip(ready, rows, strict=True)]


def independence(model, rows: list[dict]) -> dict[str, float]:
    """How alike the invariant module's states are to a domain's, at the labels of rows: means over domains.

    Mutual information forward, reverse, and reverse as the published code clamps it; Pearson's correlation;
    debiased CKA. Every module reads every row, whatever the router says.
    """
    import torch

    from causalnb.iclm import linear_cka, mutual_information, pearson

    batch = collate(rows)
    where = batch["labels"][:, 1:] != -100
    model.eval()

    def states(module):
        return model.states(batch["input_ids"], batch["attention_mask"], module)[:, :-1][where]

    with torch.no_grad():
        first = states("invariant")
        measured = [{
            "forward": mutual_information(first, other),
            "reverse": mutual_information(first, other, "reverse"),
            "clamped": mutual_information(first, other, "reverse", 1e-6),
            "pearson": pearson(first, other),
            "cka": linear_cka(first, other),
        } for other in map(states, range(model.config.num_modules))]
    return {name: sum(float(one[name]) for one in measured) / len(measured) for name in measured[0]}


def choices_right(model, rows: list[dict], config: dict) -> float:
    """The share of RAVEN's rows whose right candidate is the likeliest of the eight."""
    told = []
    for row in rows:
        asked = icl_rows.plain(row["words"][: icl_rows.prompt_length(row)])
        told += [icl_rows.make([*asked, *((word, icl_rows.ANSWER) for word in said)], format=row["format"])
                 for said in row["candidates"]]
    scores = likelihoods(model, prepared(told, config))
    eights = [scores[i : i + 8] for i in range(0, len(scores), 8)]
    right = [eight.index(max(eight)) == row["target"] for eight, row in zip(eights, rows, strict=True)]
    return sum(right) / len(right)


def cell_scores(model, config: dict, cell: str) -> dict[str, float]:
    """{cell_format_measure: value}: exact answers of the model and of its modules alone, and its routing."""
    found = {}
    for format, rows in iclm_tasks.test_rows(config, cell).items():
        ready, name = prepared(rows, config), f"{cell}_{format}"
        right, modules = zip(*answered(model, ready), strict=True)
        found[f"{name}_exact"] = sum(right) / len(right)
        if config["family"] == "raven":
            found[f"{name}_choice"] = choices_right(model, rows[: config["choice_rows"]], config)
        if config["routed_by"] != "router":
            continue
        shares = [modules.count(i) / len(modules) for i in range(config["num_modules"])]
        found |= {f"{name}_module{i}": share for i, share in enumerate(shares)}
        alone = {"domain": shares.index(max(shares))}
        alone |= {"invariant": "invariant"} if config["invariant"] else {}
        for kind, module in alone.items():
            with model.only(module):
                found[f"{name}_{kind}"] = sum(answers_right(model, ready)) / len(ready)
    return found


def followed(model, config: dict) -> list[dict]:
    """The maps of iclm_maps over config's `map_rows` first test rows of each cell in each format."""
    cells = {cell: iclm_tasks.test_rows(config, cell) for cell in config["cells"]}
    return iclm_maps.followed(model, {
        cell: {format: prepared(rows[: config["map_rows"]], config) for format, rows in formats.items()}
        for cell, formats in cells.items()})


def started(model, rows: list[dict], config: dict) -> None:
    """Give a K-means router its centroids, those of the first `fit_rows` training rows."""
    import torch

    if config["router"] == "kmeans":
        batch = collate(rows[:: max(1, len(rows) // config["fit_rows"])])
        with torch.no_grad():
            states = model.router_states(batch["input_ids"], batch["attention_mask"], batch["labels"])
        model.router.fit(states)


def tuned(run: Run, model, config: dict) -> list[dict]:
    """Tune a model on config's family in run's folder; the history of validation and independence."""
    rows = prepared(iclm_tasks.training_rows(config, run.seed), config, "supervised")
    held = {**config, "train_rows": config["validation_rows"]}
    validation = prepared(iclm_tasks.training_rows(held, run.seed + 1000), config)
    started(model, rows, config)

    def measure(model) -> dict:
        found = {"exact": sum(answers_right(model, validation)) / len(validation)}
        return found | (independence(model, validation) if config["invariant"] else {})

    return fit(run, model, rows, row_order(len(rows), config["batch"], config["steps"], run.seed), measure)


def trained_parameters(model) -> int:
    """How many parameters an optimiser moves."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def run_reasoning(run: Run) -> dict:
    """Tune one arm on one family and score its cells; the history holds the maps of iclm_maps too."""
    from transformers import set_seed

    config = run.config
    set_seed(run.seed)
    model = build_model(config)
    if config["unfrozen"]:
        model.base.requires_grad_(True)
    history = tuned(run, model, config) if config["steps"] else []  # none for the base as it is
    metrics = {"trainable_parameters": trained_parameters(model)}
    for cell in config["cells"]:
        metrics |= cell_scores(model, config, cell)
    return {"metrics": metrics, "history": history + (followed(model, config) if config["map_rows"] else [])}
