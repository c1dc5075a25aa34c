"""The spurious token game in full sentences, in the tokens of a pre-trained base.

Isolated, every token that is no concept's is of one more, REST: numbers must not pass through words, commas
and the tokens at both ends.
"""

from collections.abc import Iterable

from causalnb.experiments.c2dlm.data import (
    at_test,
    concept_graph,
    guided,
    isolated,
    reversed_spurious,
)
from causalnb.lab.bases import Pretrained
from causalnb.tasks import stg

REST = "Rest"


def pairs(config: dict) -> dict[str, list[tuple[str, str]]]:
    """(prompt, response) of "train", "validation", "iid" and "ood", as data.stg_data draws them.

    Where `swapped` is above 0, so many swapped copies of the training rows take their place.
    """
    parts, held = stg.generate(config["split_seed"]), config["test_rows"]
    spare = stg.generate(config["split_seed"] + 1000)["test"]
    shifted = reversed_spurious(parts["test"]) if config["shift"] == "reversed" else parts["ood"]
    train = parts["train"][: config["train_rows"]]
    return {
        "train": stg.swapped(train, config["swapped"], config["split_seed"]) if config["swapped"] else train,
        "validation": spare[: config["validation_rows"]],
        "iid": parts["test"][:held],
        "ood": shifted[:held],
    }


def starts_of(base: Pretrained) -> list[int]:
    """The base's token before a prompt, or none."""
    named = (getattr(base.tokenizer, f"{kind}_token_id") for kind in ("cls", "bos"))
    return base.placed([one for one in named if one is not None][:1])


def end_of(base: Pretrained) -> int:
    """The base's token after an answer."""
    return base.special("eos" if base.tokenizer.sep_token_id is None else "sep")  # type: ignore[attr-defined]


def rows_of(base: Pretrained, part: list[tuple[str, str]], config: dict, seed: int) -> list[dict]:
    """Rows of (prompt, response); `said` are the answer's tokens."""
    rows = []
    for prompt, response in part:
        text, start = prompt + response, len(prompt.rstrip())
        ids, lengths = starts_of(base), []
        offsets = [(0, 0)] * len(ids)
        for piece, before in ((text[:start], 0), (text[start:], start)):  # apart, as in decoding
            found = base.tokenizer(piece, return_offsets_mapping=True, add_special_tokens=False)  # type: ignore[operator]
            ids += base.placed(found["input_ids"])
            offsets += [(before + a, before + b) for a, b in found["offset_mapping"]]
            lengths.append(len(ids))
        asked, told = lengths
        row = {
            "input_ids": [*ids, end_of(base)],
            "prompt_mask": [1] * asked + [0] * (told + 1 - asked),
            "said": ids[asked:],
        }
        if config["graph"] != "none":
            mask = masked_by(prompt, response, [*offsets, (len(text),) * 2], config, seed)
            row = guided(row, mask, config)
        rows.append(row)
    return rows


def graph_of(names: Iterable[str], config: dict, seed: int):
    """As data.concept_graph, of a text with the concepts `names`; a placebo's causes are never the rest."""
    others = {name: () for name in sorted(names) if name != "Risk"}
    among = [*dict.fromkeys([*stg.CAUSES, *others])]
    if isolated(config):
        others[REST] = ()
    return concept_graph({"Risk": stg.CAUSES, **others}, config, seed, among=among)


def masked_by(prompt: str, response: str, offsets: list[tuple[int, int]], config: dict, seed: int):
    """The supervision of one text, prompt and response joined, by the arm's graph."""
    from causalnb.c2dlm import supervision

    spans = stg.spans(prompt, response)
    graph, options = graph_of(spans, config, seed)
    mask = supervision(
        graph,
        prompt + response,
        offsets,
        response_start=len(prompt.rstrip()),
        places={
            name: [(a + part * len(prompt), b + part * len(prompt))] for name, (part, a, b) in spans.items()
        },
        **options,
    )
    if isolated(config):
        mask.concept[mask.concept < 0] = graph.concepts.index(REST)
    return mask


def data(base: Pretrained, texts: dict, config: dict, seed: int) -> dict[str, list[dict]]:
    """The rows of each part of `pairs`; those that are only read have no graph, but where it is enforced."""
    plain = at_test(config)
    return {
        part: rows_of(base, some, config if part == "train" else plain, seed) for part, some in texts.items()
    }
