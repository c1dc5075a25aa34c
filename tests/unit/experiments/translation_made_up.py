"""Results of translation and SNLI-10k, made up: a number of its own for each metric, maps of known kind."""

from itertools import product

import torch

from causalnb.causal_transformer import describe
from causalnb.causal_transformer.arcs import count_arcs
from causalnb.experiments.causal_transformer.artefacts.table2 import DECODINGS, LONGER, tested
from causalnb.experiments.causal_transformer.artefacts.table3 import READERS, SCORES
from causalnb.experiments.causal_transformer.artefacts.translation import DIRECTIONS, SNLI
from causalnb.experiments.causal_transformer.models import shown_map
from tests.unit.experiments.made_up import counted, moved, number, write

SIGNATURE, SENTENCES, LOOKS = "made-up", 12, 12
TOKENS = ("<s>", "no", ",", "sir", "</s>")
FLAT = torch.full((5, 5), 1 / 5)
MEASURES = (*describe(FLAT[None, None]), *count_arcs(FLAT[None, None]))


def drawn(stack: str, arm: str):
    """The map (5, 5) of an arm: flat in vanilla arms; else a cycle, in the decoder a chain."""
    if arm in ("full", "vanilla"):
        flat = FLAT.tril() if stack == "decoder" else FLAT
        return flat / flat.sum(1, keepdim=True)
    chain = torch.eye(5).roll(1, 0)
    if stack == "decoder":
        chain[0] = torch.eye(5)[0]
    return chain


def metrics(experiment: str, arm: str, seed: int) -> dict:
    """The columns of SNLI-10k or translation that Tables 2 and 3 and Figure 9 read."""
    stacks = ["test"] if experiment == SNLI else ["encoder", "decoder"]
    names = [f"{stack}_{measure}" for stack in stacks for measure in MEASURES]
    names += (
        [*SCORES.values()]
        if experiment == SNLI
        else [
            "train_rows",
            *(f"{cell}_rows" for cell in tested()),
            *(f"{cell}_{decoding}_bleu" for cell, decoding in product(tested(), DECODINGS)),
        ]
    )
    return {name: number(experiment, arm, seed, name) for name in names}


def counts(*of) -> str:
    """Made-up `sentence_counts`: seven words written and wanted, of which five to seven in common."""
    each = [5 + round(2 * number(*of, place)) for place in range(SENTENCES)]
    return ";".join(f"7 7 {most} {most - 1} {most - 2} {most - 3}" for most in each)


def history(experiment: str, arm: str, seed: int = 0) -> list[dict]:
    """One measurement, or LOOKS; of a translation its signature, its counts, and the maps of the example."""
    stacks = ["encoder"] if experiment == SNLI else ["encoder", "decoder"]
    rows = [{"step": 1, "loss": 1.0}]
    if experiment == LONGER:
        looks = range(1, LOOKS + 1)
        rows = [{"step": at, "loss": 1.0, "accuracy": number(experiment, arm, seed, at)} for at in looks]
    if experiment != SNLI:
        rows += [
            {"signature": SIGNATURE},
            *(
                {
                    "part": cell,
                    "decoding": decoding,
                    "sentences": counts(experiment, arm, seed, cell, decoding),
                }
                for cell, decoding in product(tested(), DECODINGS)
            ),
        ]
    for stack in stacks:
        rows += shown_map(stack, (drawn(stack, arm)[None, None],), [*TOKENS])
    return rows


def store(monkeypatch, folder, seeds: int = 3) -> None:
    """Write quick results of the experiments into folder, registered with that many seeds."""
    moved(monkeypatch, folder)
    for arm in (spec := counted(monkeypatch, READERS, 1)).arms:
        write(spec, arm, 0, {"": {name: number(READERS, arm, name) for name in SCORES.values()}}, [])
    for id in (SNLI, LONGER, *DIRECTIONS.values()):
        spec = counted(monkeypatch, id, seeds)
        for arm in spec.arms:
            for seed in range(seeds):
                write(spec, arm, seed, {"": metrics(id, arm, seed)}, history(id, arm, seed))
