"""One arm of ICLM on one family of tasks: tune, follow the modules' independence, score every cell."""

from dataclasses import replace

from causalnb.experiments.iclm import data as iclm_tasks
from causalnb.experiments.iclm import maps as iclm_maps
from causalnb.experiments.iclm.models import (
    EOS,
    PAD,
    answered,
    answers_right,
    build_model,
    collate,
    encoded,
    fit,
    on_device,
    row_order,
)
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run
from causalnb.tasks import icl_words


def prepared(rows: list[dict], config: dict, labelled: str = "labels") -> list[dict]:
    """Encoded rows, `routed`; or with the module that an arm without a router gives to all, or each format.

    ACRE is asked for its one word: a tuned row ends after many queries, a tested one after the first.
    """
    modules = {
        "router": {},
        "nobody": dict.fromkeys(iclm_tasks.FORMATS, 0),
        "format": {format: i for i, format in enumerate(iclm_tasks.FORMATS)},
    }[config["routed_by"]]
    ready = [encoded(row, labelled) for row in rows]
    if config["family"] == "acre" and labelled == "labels":
        ready = [{name: values[:-1] for name, values in row.items()} for row in ready]
    return [
        row | ({"module": modules[one["format"]]} if modules else {"routed": True})
        for row, one in zip(ready, rows, strict=True)
    ]


def independence(model, rows: list[dict]) -> dict[str, float]:
    """How alike the invariant module's states are to a domain's, at the labels of rows: means over domains.

    Mutual information forward, reverse, and reverse as the published code clamps it; Pearson's correlation;
    debiased CKA. Every module reads every row, whatever the router says.
    """
    import torch

    from causalnb.iclm import linear_cka, mutual_information, pearson

    batch = on_device(collate(rows), model)
    where = batch["labels"][:, 1:] != -100
    model.eval()

    def states(module):
        return model.states(batch["input_ids"], batch["attention_mask"], module)[:, :-1][where]

    with torch.no_grad():
        first = states("invariant")
        measured = [
            {
                "forward": mutual_information(first, other),
                "reverse": mutual_information(first, other, "reverse"),
                "clamped": mutual_information(first, other, "reverse", 1e-6),
                "pearson": pearson(first, other),
                "cka": linear_cka(first, other),
            }
            for other in map(states, range(model.config.num_modules))
        ]
    return {name: sum(float(one[name]) for one in measured) / len(measured) for name in measured[0]}


def panels_answered(
    model, rows: list[dict], config: dict, alone: bool = False, batch: int = 32
) -> list[tuple]:
    """(whether the panel is written, whether it is the likeliest of eight, module) of RAVEN's compact rows.

    Written: every word is the likeliest after those before it, to the end. Module: the domain that the row is
    routed to, None where a module answers `alone`.
    """
    import torch

    ready, found = prepared(rows, config), [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda i: len(ready[i]["input_ids"]))
    model.eval()
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        target = torch.tensor([rows[i]["target"] for i in chosen])
        prompts = [
            [
                token
                for token, read in zip(ready[i]["input_ids"], ready[i]["prompt_mask"], strict=False)
                if read
            ]
            for i in chosen
        ]
        said = [[[*icl_words.ids(words), EOS] for words in rows[i]["candidates"]] for i in chosen]
        routing, modules = None, [None] * len(chosen)
        with torch.no_grad():
            if not alone:
                given = on_device(collate([ready[i] for i in chosen]), model)
                routing = (
                    given["routing"]
                    if "routing" in given
                    else model.router(
                        model.router_states(
                            given["input_ids"], given["attention_mask"], prompt_mask=given["prompt_mask"]
                        )
                    )
                )
                modules = getattr(routing, "module", routing).tolist()
            told, written = candidates_told(model, prompts, said, routing)
        told, written = told.cpu(), written.cpu()
        likeliest, right = told.argmax(1) == target, written[range(len(chosen)), target]
        for i, *one in zip(chosen, right.tolist(), likeliest.tolist(), modules, strict=True):
            found[i] = tuple(one)
    return found


def candidates_told(model, prompts: list[list[int]], said: list[list[list[int]]], routing=None) -> tuple:
    """Log-probabilities (B, K) of K candidates after each of B prompts, and whether each is written (B, K).

    routing is a Routing, or modules (B,). One row holds a prompt and all its candidates: each begins with the
    prompt's last token, stands where it would stand alone, and sees the prompt and itself.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    rows = []  # (token, part: 0 the prompt, k the k-th candidate; place, label)
    for (*prompt, last), candidates in zip(prompts, said, strict=True):
        row = [(token, 0, place, -100) for place, token in enumerate(prompt)]
        for k, words in enumerate(candidates, 1):
            row += [
                (token, k, len(prompt) + i, label)
                for i, (token, label) in enumerate(zip([last, *words], [-100, *words], strict=False))
            ]
        rows.append(torch.tensor(row))
    device = next(model.parameters()).device
    ids, part, place, labels = (
        pad_sequence([row[:, i] for row in rows], True, fill).to(device)
        for i, fill in enumerate((PAD, -1, 0, -100))
    )
    before = place[:, None] <= place[..., None]
    seen = before & ((part[:, None] == 0) | (part[:, None] == part[..., None]))  # (B, T, T)
    given = {} if routing is None else {"routing": routing}
    logits = model(
        input_ids=ids,
        attention_mask=seen[:, None],
        position_ids=place,
        labels=labels,
        answers_only=True,
        **given,
    ).logits
    where = labels[:, 1:] != -100
    targets, many = labels[:, 1:][where], len(said[0])
    owner = where.nonzero()[:, 0] * many + part[:, 1:][where] - 1
    words = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
    none = torch.zeros(len(said) * many, device=device)
    told = none.index_add(0, owner, words)
    missed = none.index_add(0, owner, (logits.argmax(-1) != targets).float())
    return told.view(-1, many), missed.view(-1, many) == 0


def mean(values: list) -> float:
    """The mean of numbers or truths."""
    return sum(values) / len(values)


def cell_scores(model, config: dict, cell: str) -> dict[str, dict[str, float]]:
    """{cell/format: {measure: value}}: scores of the model and of its modules alone, and its routing.

    exact: the share of exact answers; choice: of RAVEN's rows whose panel is the likeliest of eight. Alone
    are the invariant module (invariant, invariant_choice) and the domain module that has most of the rows
    (domain, domain_choice), choices on the first `alone_choices` rows; with 0 nobody is asked alone.
    module0, ...: the share of the rows that is sent to each domain module.
    """
    scores, choices = {}, config["family"] == "raven"
    for format, rows in iclm_tasks.test_rows(config, cell).items():
        found, ready = scores.setdefault(f"{cell}/{format}", {}), prepared(rows, config)
        if choices:
            right, chosen, modules = map(list, zip(*panels_answered(model, rows, config), strict=True))
            found["choice"] = mean(chosen)
        else:
            right, modules = map(list, zip(*answered(model, ready), strict=True))
        found["exact"] = mean(right)
        if config["routed_by"] != "router":
            continue
        shares = [modules.count(i) / len(modules) for i in range(config["num_modules"])]
        found |= {f"module{i}": share for i, share in enumerate(shares)}
        alone = {"domain": shares.index(max(shares))}
        alone |= {"invariant": "invariant"} if config["invariant"] else {}
        for kind, module in alone.items() if config["alone_choices"] else ():
            with model.only(module):
                found[kind] = mean(answers_right(model, ready))
                if choices:
                    some = panels_answered(model, rows[: config["alone_choices"]], config, alone=True)
                    found[f"{kind}_choice"] = mean([choice for _, choice, _ in some])
    return scores


def followed(model, config: dict) -> list[dict]:
    """The maps of iclm_maps over config's `map_rows` first test rows of each cell in each format."""
    cells = {cell: iclm_tasks.test_rows(config, cell) for cell in config["cells"]}
    return iclm_maps.followed(
        model,
        {
            cell: {format: prepared(rows[: config["map_rows"]], config) for format, rows in formats.items()}
            for cell, formats in cells.items()
        },
    )


def started(model, rows: list[dict], config: dict) -> None:
    """Give a K-means router its centroids, those of the first `fit_rows` training rows."""
    import torch

    if config["router"] == "kmeans":
        batch = on_device(collate(rows[:: max(1, len(rows) // config["fit_rows"])]), model)
        with torch.no_grad():
            states = model.router_states(
                batch["input_ids"], batch["attention_mask"], prompt_mask=batch["prompt_mask"]
            )
        model.router.fit(states)


def tuned(run: Run, model, config: dict) -> list[dict]:
    """Tune a model on config's family in run's folder; the history of validation and independence."""
    config = {**config, "steps": config["steps"] * config["length"]}
    rows = prepared(iclm_tasks.training_rows(config, run.seed), config, "supervised")
    held = {**config, "train_rows": config["validation_rows"]}
    validation = scored(prepared(iclm_tasks.training_rows(held, run.seed + 1000), config))
    started(model, rows, config)

    def measure(model) -> dict:
        found = {"exact": mean(answers_right(model, validation))}
        return found | (independence(model, validation) if config["invariant"] else {})

    wanted = config["batch"], config["steps"], run.seed
    batches = grouped(rows, *wanted) if config["by_length"] else row_order(len(rows), *wanted)
    return fit(replace(run, config=config), model, rows, batches, measure)


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
    metrics = {"": {"trainable_parameters": trained_parameters(model)}}
    for cell in config["cells"]:
        metrics |= cell_scores(model, config, cell)
    return {"metrics": metrics, "history": history + (followed(model, config) if config["map_rows"] else [])}
