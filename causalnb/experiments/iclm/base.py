"""The base of the ICLM experiments: a small language model that all modules share, before any task."""

from causalnb.experiments.iclm.models import answers_right, base_file, encoded, fit, small_llama
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run
from causalnb.tasks import icl_pretraining


def run_base(run: Run) -> dict:
    """Train the base on the mix and keep its weights, in float16; the share of skill rows answered."""
    from transformers import set_seed

    from causalnb.lab.weights import save_weights

    config = run.config
    rows = [encoded(row, "supervised") for row in icl_pretraining.generate(config["rows"], run.seed)]
    held = icl_pretraining.generate(config["evaluation_rows"], run.seed + 10_000)
    skills = scored([encoded(row) for row in held if any(row["answer"])])
    set_seed(run.seed)
    model = small_llama(config)

    def measure(model) -> dict:
        right = answers_right(model, skills)
        return {"skills": sum(right) / len(right)}

    history = fit(run, model, rows, grouped(rows, config["batch"], config["steps"]), measure)
    file = base_file(config["hidden_size"], run.profile)
    save_weights(model, file)
    return {
        "metrics": {
            "": {
                "skills": history[-1]["skills"],
                "parameters": sum(p.numel() for p in model.parameters()),
                "megabytes": file.stat().st_size / 1e6,
            }
        },
        "history": history,
    }
