"""The base of the ICLM experiments: a small language model that all modules share, before any task."""

from causalnb.experiments.iclm_models import answers_right, base_file, encoded, fit, small_llama
from causalnb.lab.registry import Run
from causalnb.tasks import icl_pretraining


def grouped(rows: list[dict], batch: int, steps: int, window: int = 16, seed: int = 0) -> list[list[int]]:
    """`steps` batches of rows of like lengths: in permutations of all rows, `window` batches are sorted."""
    from numpy.random import default_rng

    draw, found = default_rng(seed), []
    while len(found) < steps:
        order = draw.permutation(len(rows)).tolist()
        for at in range(0, len(order), window * batch):
            near = sorted(order[at : at + window * batch], key=lambda i: len(rows[i]["input_ids"]))
            chunks = [near[i : i + batch] for i in range(0, len(near), batch)]
            found += [chunks[i] for i in draw.permutation(len(chunks))]
    return found[:steps]


def run_base(run: Run) -> dict:
    """Train the base on the mix and keep its weights, in float16; the share of skill rows answered."""
    from transformers import set_seed

    from causalnb.lab.weights import save_weights

    config = run.config
    rows = [encoded(row, "supervised") for row in icl_pretraining.generate(config["rows"], run.seed)]
    held = icl_pretraining.generate(config["evaluation_rows"], run.seed + 10_000)
    skills = [encoded(row) for row in held if any(row["answer"])]
    set_seed(run.seed)
    model = small_llama(config)

    def measure(model) -> dict:
        right = answers_right(model, skills)
        return {"skills": sum(right) / len(right)}

    history = fit(run, model, rows, grouped(rows, config["batch"], config["steps"]), measure)
    file = base_file(config["hidden_size"], run.profile)
    save_weights(model, file)
    return {
        "metrics": {"skills": history[-1]["skills"], "parameters": sum(p.numel() for p in model.parameters()),
                    "megabytes": file.stat().st_size / 1e6},
        "history": history,
    }
