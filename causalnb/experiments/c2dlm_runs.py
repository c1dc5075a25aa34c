"""One arm of C2DLM on one task: train, follow a validation sample, decode the test parts, score."""

from causalnb.experiments.c2dlm_models import build_model, decode, fit, row_order
from causalnb.experiments.c2dlm_tasks import DATA
from causalnb.lab.registry import Run


def run_task(run: Run) -> dict:
    """Metrics {part_metric: share} of every test part; history with the validation sample's metrics.

    With also_ranked the same model decodes again in the order of the graph: ranked_part_metric.
    """
    from transformers import set_seed

    config = run.config
    train, validation, parts, score = DATA[config["task"]](config, run.seed)
    order = row_order(len(train), config["batch"], config["steps"], run.seed)
    set_seed(run.seed)
    model = build_model(config)

    def measure(model) -> dict:
        return score(validation, decode(model, validation, config, config["in_order"]))

    history = fit(run, model, train, order, measure)
    ways = {"": config["in_order"], **({"ranked_": True} if config["also_ranked"] else {})}
    metrics = {
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    for part, rows in parts.items():
        metrics[f"{part}_rows"] = len(rows)
        for before, in_order in ways.items():
            found = score(rows, decode(model, rows, config, in_order))
            metrics |= {f"{before}{part}_{name}": value for name, value in found.items()}
    return {"metrics": metrics, "history": history}
