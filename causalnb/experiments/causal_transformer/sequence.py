"""One arm on three tasks of sentence pairs in sequence: what is kept of each, and what is forgotten."""

from dataclasses import replace

from causalnb.experiments.causal_transformer.data import LABELS, encoded, pair_tokenizer, parts
from causalnb.experiments.causal_transformer.forgetting import (
    SEEN,
    count_forgotten,
    lost_later,
    packed,
    unpacked,
)
from causalnb.experiments.causal_transformer.models import build_classifier, fit, right
from causalnb.experiments.causal_transformer.runs import spread
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run


def restart_ramp(model) -> None:
    """Let the weight of the Markov-blanket loss rise anew, where the model has one."""
    if hasattr(model, "passes"):
        model.passes.zero_()


def run_sequence(run: Run) -> dict:
    """Train an arm on one task after the other; accuracies of all tasks after each, and what was forgotten.

    Each task has labels of its own, and is asked for these alone; its probe is looked at from its own stage
    on, as what it was not trained on yet cannot be forgotten. Metrics: the accuracy on OTHER of after/TASK,
    and on its challenge of after/TASK/OTHER; of lost, by task, of the probe's examples right at the end of
    their stage the share wrong at a later look; and of forgotten as count_forgotten, which counts the ups and
    downs of learning too.
    """
    from transformers import set_seed

    config, stages = run.config, dict(run.config["stages"])
    found = {task: parts(task, data, run.seed) for task, data in stages.items()}
    tokenizer = pair_tokenizer([row for one in found.values() for row in one["train"]], config["vocabulary"])
    among, first = {}, 0
    for task in stages:
        among[task] = slice(first, first := first + len(LABELS[task]))
    rows = {
        task: {
            part: encoded(one[part], tokenizer, among[task].start)
            for part in ("train", "validation", "test", "challenge")
        }
        for task, one in found.items()
    }
    probes = {task: scored(spread(one["train"], config["probe_rows"])) for task, one in rows.items()}
    set_seed(run.seed)
    model = build_classifier(config, len(tokenizer), first, config["steps"])

    def share(task: str, part: str) -> float:
        return float(right(model, scored(rows[task][part]), among[task]).mean())

    history, metrics, trained = [], {"": {"parameters": model.num_parameters()}}, []

    def measure(model) -> dict:
        return {f"accuracy_{task}": share(task, "validation") for task in stages} | {
            f"{SEEN}{task}": packed(right(model, probes[task], among[task])) for task in trained
        }

    for task in stages:
        trained.append(task)
        restart_ramp(model)
        order = grouped(rows[task]["train"], config["batch"], config["steps"], run.seed)
        stage = fit(replace(run, folder=run.folder / task), model, rows[task]["train"], order, measure)
        history += [{"task": task, **entry} for entry in stage]
        metrics[f"after/{task}"] = {other: share(other, "test") for other in stages}
        for other in stages:
            metrics[f"after/{task}/{other}"] = {"challenge": share(other, "challenge")}
    lost = metrics["lost"] = {}
    for task in trained[:-1]:
        looks = [
            (entry["task"], unpacked(entry[f"{SEEN}{task}"], len(probes[task])))
            for entry in history
            if f"{SEEN}{task}" in entry
        ]
        own, later = ([look for stage, look in looks if (stage == task) == here] for here in (True, False))
        lost[task] = lost_later([own[-1], *later])
    history, forgotten = count_forgotten(history, {task: len(probe) for task, probe in probes.items()})
    return {"metrics": metrics | forgotten, "history": history}
