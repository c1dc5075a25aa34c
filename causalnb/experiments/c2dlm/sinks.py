"""Attention sinks and their value vectors in real language models as they are; nothing is trained.

The source weighs attention by value norms since tokens that draw much attention carry short values, and names
punctuation and prepositions. The spurious token game is read in full sentences by an encoder and a decoder.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from string import punctuation

from causalnb.experiments.c2dlm.real import NOTEBOOK
from causalnb.lab.bases import TINY, Pretrained
from causalnb.lab.probes import scored
from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import stg

SPECIAL, MARK, WORD, BLANK = range(4)  # kinds of tokens; a mark is punctuation or a preposition
PREPOSITIONS = frozenset(("about", "at", "by", "for", "from", "in", "of", "on", "to", "with"))
ARMS: dict[str, dict] = {  # bare: without the special tokens around a text
    "encoder": {"kind": "filler"},
    "decoder": {"kind": "decoder"},
    "encoder_bare": {"kind": "filler", "special": False},
    "decoder_bare": {"kind": "decoder", "special": False},
}
HOME = "c2dlm.real.sinks"


@dataclass(frozen=True)
class SinkSettings:
    """So many i.i.d. test rows of the game, drawn by split_seed and the run's seed.

    share: a head's token is a sink if those that see it give it more than this share of their attention in
    the mean. seen: a token that fewer see is none. special: with the special tokens that the base puts around
    a text.
    """

    encoder: str = "sentence-transformers/all-MiniLM-L6-v2"
    decoder: str = "google/gemma-3-270m"
    kind: str = "filler"
    special: bool = True
    split_seed: int = 42
    rows: int = 100
    share: float = 0.3
    seen: int = 10


def loaded(config: dict, texts: Sequence[str]) -> Pretrained:
    """The base of an arm, shown to be read right."""
    import torch

    from causalnb.attention import verify
    from causalnb.lab.bases import pretrained

    base = pretrained(config["decoder" if config["kind"] == "decoder" else "encoder"], texts, config["kind"])
    base.model.eval()  # type: ignore[attr-defined]
    verify(base.model, {"input_ids": torch.tensor([base.ids(texts[0], special=True)])})  # type: ignore[arg-type]
    return base


def kinds_of(base: Pretrained, ids: Sequence[int]):
    """The kind of each token (T)."""
    import torch

    tokens, found = {place: one for one, place in base.places.items()}, []
    for one in ids:
        said = base.tokenizer.decode([tokens[one]]).strip().lower()  # type: ignore[attr-defined]
        mark = said in PREPOSITIONS or bool(said) and set(said) <= set(punctuation)
        special = tokens[one] in base.tokenizer.all_special_ids  # type: ignore[attr-defined]
        found.append(SPECIAL if special else MARK if mark else WORD if said else BLANK)
    return torch.tensor(found)


def drawn(attention, causal: bool, seen: int = 1):
    """(H, T): the mean share of attention that those who see a token give it; 0 if fewer than `seen` do."""
    import torch

    tokens = attention.shape[-1]
    who = torch.arange(tokens, 0, -1) if causal else torch.full((tokens,), tokens)
    return attention.sum(1) / who * (who >= seen)


def fair(tokens: int, causal: bool):
    """(T): what each token would get of all attention if every query looked at all it sees alike."""
    import torch

    sees = torch.ones(tokens, tokens).tril() if causal else torch.ones(tokens, tokens)
    return (sees / sees.sum(1, keepdim=True)).sum(0)


def measured(attention, values, kind, config: dict) -> Iterator[dict[str, float]]:
    """For each head of maps (H, T, T), values (H, T, d): what sinks, marks and words are like.

    Norms are mean logarithms. drawn: what tokens of a kind get of all attention, as a share of `fair`. raw
    and weighted: the share of words' attention that goes to special tokens, and of attention times norm.
    """
    causal = config["kind"] == "decoder"
    norm, got = values.norm(dim=-1), attention.sum(1)  # (H, T)
    share, even = drawn(attention, causal, config["seen"]), fair(attention.shape[-1], causal)
    special, mark, word = (kind == one for one in (SPECIAL, MARK, WORD))
    weighted = attention * norm[:, None]  # (H, T, T)
    for head in range(len(attention)):
        sink, log = share[head] > config["share"], norm[head].log()
        spared = special & ~sink
        found = {"sinks": sink.sum(), "word_norm": log[word].mean(), "mark_norm": log[mark].mean()}
        for name, asked in (("raw", attention), ("weighted", weighted)):
            rows = asked[head][word]
            found[name] = (rows[:, special].sum(1) / rows.sum(1)).mean()
        for name, some in (("sink", sink), ("spared", spared), ("mark", mark), ("word", word)):
            if some.any():
                found[f"{name}_drawn"] = got[head][some].sum() / even[some].sum()
        if sink.any():
            found |= {"sink_norm": log[sink].mean(), "word_norm_beside": found["word_norm"]}
            first = kind.new_ones(len(kind)).cumsum(0) == 1
            for name, some in (("special", special), ("mark", mark), ("first", first)):
                found[f"sinks_{name}"] = some[sink].double().mean()
        if spared.any():
            found |= {"spared_norm": log[spared].mean(), "word_norm_spared": found["word_norm"]}
        yield {name: float(value) for name, value in found.items()}


def run_sinks(run: Run) -> dict:
    """Read all rows with the bare base: means over texts, heads and layers, and by layer in the history."""
    import torch
    from transformers import set_seed

    from causalnb.attention import tap

    config = run.config
    set_seed(run.seed)  # by which the tiny base of a quick run is drawn
    part = stg.generate(config["split_seed"] + run.seed)["test"][: config["rows"]]
    texts = [prompt + response for prompt, response in scored(part)]
    base = loaded(config, texts)
    layers: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, text in enumerate(texts):
        ids = base.ids(text, special=config["special"])
        kind = kinds_of(base, ids)

        def keep(record, kind=kind) -> None:
            maps, values = record.attention()[0], record.value[0]
            values = values.repeat_interleave(len(maps) // len(values), 0)  # (H, T, d)
            for head in measured(maps.double(), values.double(), kind, config):
                for name, value in head.items():
                    layers[record.layer][name].append(value)

        with torch.no_grad(), tap(base.model, keep):  # type: ignore[arg-type]
            base.model.base_model(input_ids=torch.tensor([ids]))  # type: ignore[attr-defined]
        run.progress(number + 1, len(texts), "")
    history = [
        {"layer": layer, **{name: fmean(some) for name, some in found.items()}}
        for layer, found in sorted(layers.items())
    ]
    names = dict.fromkeys(name for found in layers.values() for name in found)
    every = {name: fmean([one for found in layers.values() for one in found[name]]) for name in names}
    return {
        "metrics": {"": every | {"texts": len(texts)}},
        "history": history,
        "bases": {base.name: base.digest},
    }


register(
    Experiment(
        id=HOME,
        title="Attention sinks and value norms in two language models, untuned",
        run=run_sinks,
        notebook=NOTEBOOK,
        arms=ARMS,
        settings={
            "laptop": SinkSettings(),
            "quick": {"encoder": TINY, "decoder": TINY, "rows": 2, "share": 0.0},
        },
        seeds={"quick": 1, "laptop": 5},
        cost={"quick": 2, "laptop": 60},
    )
)
