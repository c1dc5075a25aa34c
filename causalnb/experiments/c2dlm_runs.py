"""One arm of C2DLM on one task: train, follow a validation sample, decode the test parts, score."""

from causalnb.experiments.c2dlm_models import build_model, decode, fit, row_order
from causalnb.experiments.c2dlm_tasks import DATA
from causalnb.lab.registry import Run


def run_task(run: Run) -> dict:
    """Metrics {part_metric: share} of every test part; history with the validation sample's metrics."""
    from transformers import set_seed

    config = run.config
    train, validation, parts, score = DATA[config["task"]](config, run.seed)
    order = row_order(len(train), config["batch"], config["steps"], run.seed)
    set_seed(run.seed)
    model = build_model(config)

    def measure(model) -> dict:
        return score(validation, decode(model, validation, config))

    history = fit(run, model, train, order, measure)
    metrics = {}
    for part, rows in parts.items():
        found = score(rows, decode(model, rows, config))
        metrics |= {f"{part}_{name}": value for name, value in found.items()}
        metrics[f"{part}_rows"] = len(rows)
    metrics["trainable_parameters"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    metrics["parameters"] = sum(p.numel() for p in model.parameters())
    return {"metrics": metrics, "history": history}
