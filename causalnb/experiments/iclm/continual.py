"""ACRE first, then RAVEN: what is learned, what is forgotten, and in which part of the model."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from causalnb.experiments.iclm.data import FORMATS, test_rows, training_rows
from causalnb.experiments.iclm.models import answers_right, build_model, modules_of
from causalnb.experiments.iclm.runs import cell_scores, followed, mean, prepared, trained_parameters, tuned
from causalnb.lab.registry import Run

TASKS = ("acre", "raven")  # in their order
PARTS = ("router", "invariant", "domains", "head")


def part_masks(model) -> dict[str | int, dict]:
    """{part: {name of a tensor: which of its entries belong to it}} of all that training moves.

    Parts are PARTS, and each domain module by its number.
    """
    import torch

    names = model.modules_in_order()
    owned = {part: [name == part for name in names] for part in names}
    owned["domains"] = [not isinstance(name, str) for name in names]
    masks = {part: {} for part in (*PARTS, *owned)}
    for name, value in model.state_dict().items():
        if name.startswith("aggregation."):
            masks["head"][name] = torch.ones_like(value, dtype=torch.bool)
        elif name.startswith("router."):
            masks["router"][name] = torch.ones_like(value, dtype=torch.bool)
        elif name.endswith((".A", ".B")):
            for part, rows in owned.items():
                its = torch.tensor(rows, device=value.device)
                masks[part][name] = its[:, None, None].expand_as(value)
    return masks


@contextmanager
def put_back(model, before: dict, part: str | int) -> Iterator[None]:
    """Within this context a part of the model, as part_masks has it, is what it was in the state `before`."""
    import torch

    masks = part_masks(model)[part]
    now = {name: value.clone() for name, value in model.state_dict().items() if name in masks}
    model.load_state_dict(
        {name: torch.where(mask, before[name], now[name]) for name, mask in masks.items()}, strict=False
    )
    try:
        yield
    finally:
        model.load_state_dict(now, strict=False)


def used_modules(model, config: dict, seed: int) -> list[int]:
    """The domain modules that are given at least `used_share` of the training rows."""
    rows = prepared(training_rows({**config, "train_rows": config["count_rows"]}, seed), config)
    given = modules_of(model, rows)
    return [i for i in range(config["num_modules"]) if given.count(i) >= config["used_share"] * len(given)]


def task_config(config: dict, task: str) -> dict:
    """The settings of one of the two tasks: `acre` or `raven` of config over the rest."""
    return {**config, **config[task]}


def scores(model, config: dict, when: str) -> dict[str, dict[str, float]]:
    """{when/task/cell/format: its scores} of all cells of a task's config."""
    return {
        f"{when}/{config['family']}/{place}": its
        for cell in config["cells"]
        for place, its in cell_scores(model, config, cell).items()
    }


def exact_scores(model, config: dict, places=None) -> dict[str, float]:
    """{cell/format: share of exact answers} of the whole model, or of the module that a context names."""
    found = {}
    for cell in config["cells"]:
        for format, rows in test_rows(config, cell).items():
            if places is None or f"{cell}/{format}" in places:
                right = answers_right(model, prepared(rows, config))
                found[f"{cell}/{format}"] = mean(right)
    return found


def noted(metrics: dict[str, dict], scores: dict[str, float], when: str, measure: str = "exact") -> None:
    """Add exact_scores on the first task to metrics: as `measure` of the cells when/task/cell/format."""
    for place, value in scores.items():
        metrics.setdefault(f"{when}/{TASKS[0]}/{place}", {})[measure] = value


def serving(metrics: dict[str, dict], config: dict) -> dict[int, set[str]]:
    """{domain module: the places cell/format of the first task whose rows mostly went to it before}."""
    found = {}
    for place in (f"{cell}/{format}" for cell in config["cells"] for format in FORMATS):
        its = metrics[f"before/{TASKS[0]}/{place}"]
        shares = [its[f"module{i}"] for i in range(config["num_modules"])]
        found.setdefault(shares.index(max(shares)), set()).add(place)
    return found


def run_continual(run: Run) -> dict:
    """Tune an arm on ACRE, then on RAVEN; cells before and after, and after with one part put back.

    Of each domain module that served ACRE, too, what it answers alone afterwards (the measure served), and
    what the model does with that module as it was (the cells served_back/...). `keep` freezes what ACRE used
    before RAVEN begins: its modules with their centroids, and the router.
    """
    from transformers import set_seed

    first, second = (task_config(run.config, task) for task in TASKS)
    set_seed(run.seed)
    model = build_model(run.config)
    history = [
        {"task": TASKS[0], **row} for row in tuned(replace(run, folder=run.folder / TASKS[0]), model, first)
    ]
    metrics = {"": {"trainable_parameters": trained_parameters(model)}} | scores(model, first, "before")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    routed = run.config["routed_by"] == "router"
    if routed:
        used = used_modules(model, first, run.seed)
        metrics[""]["modules_used"] = len(used)
        if run.config["keep"]:
            model.freeze_modules([*used, *["router"] * run.config["router_trainable"]])
            model.router.norm.held.fill_(True)
    history += [
        {"task": TASKS[1], **row} for row in tuned(replace(run, folder=run.folder / TASKS[1]), model, second)
    ]
    for config in (first, second):
        metrics |= scores(model, config, "after")
    for part in PARTS if routed else ():
        with put_back(model, before, part):
            noted(metrics, exact_scores(model, first), f"{part}_back")
    for module, places in (serving(metrics, first) if routed else {}).items():
        with model.only(module):
            noted(metrics, exact_scores(model, first, places), "after", "served")
        with put_back(model, before, module):
            noted(metrics, exact_scores(model, first, places), "served_back")
    if run.config["map_rows"]:
        history += [
            {"task": task, **row}
            for task, config in zip(TASKS, (first, second), strict=False)
            for row in followed(model, config)
        ]
    return {"metrics": metrics, "history": history}
