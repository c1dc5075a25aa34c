"""A verb that comes after training: its rows are fitted to its one example, and all else stands still."""

from collections.abc import Iterator, Sequence

from causalnb.experiments.sci.contrasts import invented_rows, renamed
from causalnb.experiments.sci.scan import build_model, collators, fit, scan_data, swapped_rows
from causalnb.lab.probes import looked_at, scored
from causalnb.lab.registry import Run
from causalnb.tasks import scan


def tables_of(model, kind: str) -> list:
    """The tables of a model in which a word has a row: "all", or "content", SCI separated's of contents."""
    from torch import nn

    if kind == "content":
        return [model.content_embedding]
    size = model.get_input_embeddings().num_embeddings
    return [
        part for part in model.modules() if isinstance(part, nn.Embedding) and part.num_embeddings == size
    ]


def composed(rows: Sequence[dict], verb: str, first: int, words: int, seed: int) -> list[dict]:
    """The rows with new verbs: one for `verb`, or, of four and more, different ones for a row's verbs."""
    from numpy.random import default_rng

    if words == 1:
        return [renamed(row, {verb: 0}, first) for row in rows]
    draw, found = default_rng(3000 + seed), []
    for row in rows:
        numbers = dict(zip(scan.VERBS, draw.permutation(words).tolist(), strict=False))
        found.append(renamed(row, numbers, first))
    return found


def learned(
    model, kind: str, examples: list[dict], verb: str, first: int, rate: float, marks: Sequence[int]
) -> Iterator[tuple[int, float]]:
    """Fit the rows of new verbs, one an example, from `first` on by Adam; yields (step, loss) at marks.

    A verb that is not `verb` is known, and in all tables the new ones begin as the mean of known verbs' rows,
    and of their actions'. Only tables of `kind` are fitted, and only these rows move.
    """
    import torch

    known = [name for name in scan.VERBS if name != verb]
    words = [scan.VOCABULARY[name] for name in known]
    actions = [scan.VOCABULARY[f"I_{name.upper()}"] for name in known]
    last = first + 2 * len(examples)
    model.eval().requires_grad_(False)
    with torch.no_grad():
        for table in tables_of(model, "all"):
            table.weight[first:last:2] = table.weight[words].mean(0)
            table.weight[first + 1 : last : 2] = table.weight[actions].mean(0)
    rows = [table.weight.requires_grad_() for table in tables_of(model, kind)]
    _, collator = collators(model)
    batch = {name: value.to(model.device) for name, value in collator(examples).items()}
    optimizer = torch.optim.Adam(rows, lr=rate)
    for step in range(1, max(marks) + 1):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        for row in rows:
            row.grad[:first] = row.grad[last:] = 0
        optimizer.step()
        if step in marks:
            yield step, float(loss.detach())


def run_later(run: Run) -> dict:
    """Train without a verb, fit its rows to one example, and test its compositions.

    Metrics {words/tables_rate_step: {composed, loss}}: the share of test rows right with one new verb for the
    one held out, or with so many learned at once; {"validation": {exact_match}} of verbs that were trained.
    """
    from copy import deepcopy

    from transformers import set_seed

    from causalnb.lab.evaluation import teacher_forced_matches

    config, level = run.config, run.config["structure_level"]
    verb = config["split"].removeprefix("add_prim_")
    rows, validation, test = scan_data(config["split"], config["validation_rows"], config["test_rows"], level)
    single = next(row for row in rows if row["text"] == verb)
    rows = [row for row in rows if verb not in row["text"].split()]
    validation, test = scored(validation), scored(test)
    if config["swaps"]:
        rows = rows + swapped_rows(rows, level, run.seed, config["swaps"])
    if config["primitives"]:
        rows = rows + invented_rows(rows, config["primitives"], run.seed)
    first = len(scan.VOCABULARY) + 2 * config["primitives"]
    set_seed(run.seed)
    model = build_model(config, 2 * config["primitives"] + 2 * max(config["new_words"]))
    _, plainly = collators(model)
    history = fit(
        run,
        model,
        rows,
        lambda model: {"validation": float(teacher_forced_matches(model, validation, plainly).mean())},
    )
    metrics = {"validation": {"exact_match": history[-1]["validation"]}, "test": {"rows": len(test)}}
    trained = deepcopy(model.state_dict())
    for words in config["new_words"]:
        examples = [renamed(single, {verb: number}, first) for number in range(words)]
        asked = composed(test, verb, first, words, run.seed)
        for kind in config["fit_tables"]:
            for rate in config["fit_rates"]:
                model.load_state_dict(trained)
                given = model, kind, examples, verb, first, rate, looked_at(config["fit_steps"])
                for step, loss in learned(*given):
                    right = float(teacher_forced_matches(model, asked, plainly).mean())
                    metrics[f"{words}/{kind}_{rate:g}_{step}"] = {"composed": right, "loss": loss}
    return {"metrics": metrics, "history": history}
