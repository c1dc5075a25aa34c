"""Questions whose order alone tells a paraphrase: what gained where the place of an addition told it, too."""

from causalnb.experiments.causal_transformer.beyond import build_invariant
from causalnb.experiments.causal_transformer.data import (
    COUNTEREXAMPLES,
    LABELS,
    balanced,
    cells,
    encoded,
    pair_tokenizer,
    parts,
)
from causalnb.experiments.causal_transformer.grid import (
    BEYOND,
    CHOSEN,
    COMPARED,
    GPU,
    OVERLAP,
    TEMPLATES,
    TOLD,
    BeyondSettings,
    at_their_rates,
    pairs_settings,
    register_pairs,
    tuned,
)
from causalnb.experiments.causal_transformer.models import attention_measures, build_classifier, fit, right
from causalnb.experiments.causal_transformer.obeyed import TRIES, USED
from causalnb.experiments.causal_transformer.runs import cell_scores, spread
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run
from causalnb.tasks import paraphrase

TASK = "paraphrase"
PLAIN = {"bilstm": tuned(TASK)["bilstm"], "transformer": {}, "random": {"pattern": "random"}}
ON_COMPARISON = {
    "compared": COMPARED,
    "compared_balanced": {**COMPARED, "balanced": True},
    "obeyed": TRIES[USED],  # the loss, at the weight at which entailment obeys it
    "directed": BEYOND["directed"],  # the window of the last, alone
    CHOSEN: BEYOND[CHOSEN],
}
ARMS = PLAIN | ON_COMPARISON


def run_crossed(run: Run) -> dict:
    """Train an arm on `paraphrase.crossed` and score all cells and the pairs before that, as `run_beyond`."""
    from transformers import set_seed

    config = run.config
    drawn = parts(TASK, config["data"], run.seed + config["data_seed"])
    found = paraphrase.crossed(drawn) | {"uncrossed": drawn["challenge"]}
    tokenizer = pair_tokenizer(found["train"], config["vocabulary"])
    train = balanced(TASK, found["train"]) if config["balanced"] else found["train"]
    rows = encoded(train, tokenizer)
    validation = scored(encoded(found["validation"], tokenizer)[: config["validation_rows"]])
    followed = spread(validation, config["follow_rows"])
    set_seed(run.seed)
    size = len(tokenizer), len(LABELS[TASK])
    if config["compared"]:
        model = build_invariant(config, *size, rows)
    else:
        model = build_classifier(config, *size, config["steps"])

    def measure(model) -> dict:
        attention = attention_measures(model, followed)
        entropy = {"entropy": attention["entropy"]} if attention else {}
        return {"accuracy": float(right(model, validation).mean()), **entropy}

    history = fit(run, model, rows, grouped(rows, config["batch"], config["steps"], run.seed), measure)
    asked = {cell: scored(some) for cell, some in cells(found, config["cells"], config["real"]).items()}
    same = sum(row["kind"] in paraphrase.SAME_WORDS for row in found["train"])
    rare = sum(map(COUNTEREXAMPLES[TASK], found["train"]))
    own = {"parameters": model.num_parameters(), "rows": len(found["train"]), "minority": rare / same}
    return {"metrics": {"": own, **cell_scores(model, asked, tokenizer, config)}, "history": history}


for id, title, arms, seeds, times in (
    ("crossed", "", ARMS, 4, 1),
    ("crossed.longer", ", twice the steps", {"compared": COMPARED}, 2, 2),
):
    settings = pairs_settings(
        TASK,
        0.06,  # of which crossing leaves 5 %
        BeyondSettings,
        real=OVERLAP[TASK]["real"],
        cells=["test", "challenge", "held_out", "uncrossed"],
        auc=True,
        steps=times * TEMPLATES["steps"],
    )
    register_pairs(
        id,
        TASK,
        f" where order alone tells a counter-example, 5 % of them{title}",
        at_their_rates(TASK, arms),
        seeds,
        110 * times,
        settings | {"gpu": {**GPU, "steps": times * GPU["steps"]}},
        gpu=150 * times,
        run=run_crossed,
        notebook=TOLD,
    )
