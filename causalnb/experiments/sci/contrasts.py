"""SCI taken apart on add_prim_jump: ablations, the guide's own model, controls and the five contrasts."""

from causalnb.experiments.sci.scan import build_model, run_scan, scan_data, small_llama
from causalnb.lab.registry import Run
from causalnb.tasks import scan


def renamed(row: dict, verbs: dict[str, int], first: int) -> dict:
    """The row with new verbs for some: number i and its action have the ids first + 2 i and the next."""
    ids = {
        scan.VOCABULARY[word]: first + 2 * number + part
        for verb, number in verbs.items()
        for part, word in enumerate((verb, f"I_{verb.upper()}"))
    }
    return {
        **row,
        **{name: [ids.get(token, token) for token in row[name]] for name in ("input_ids", "labels")},
    }


def invented_rows(rows: list[dict], primitives: int, seed: int) -> list[dict]:
    """Each row that has a verb again, its verbs replaced by different ones of `primitives` invented verbs.

    Invented verbs stand alone and in compositions; word and action i have the ids V + 2 i and V + 2 i + 1.
    """
    from numpy.random import default_rng

    draw, more = default_rng(2000 + seed), []
    for row in rows:
        if not any(verb in row["text"].split() for verb in scan.VERBS):
            continue
        chosen = draw.permutation(primitives)[: len(scan.VERBS)].tolist()
        named = dict(zip(scan.VERBS, chosen, strict=False))
        text = " ".join(f"verb{named[word]}" if word in named else word for word in row["text"].split())
        more.append({**renamed(row, named, len(scan.VOCABULARY)), "text": text})
    return more


def build_arm(config: dict):
    """The model of an arm; SCI and its extension come from sci_scan.build_model and lose a part here."""
    from torch import nn

    from causalnb.sci import contrasts, guide_model

    kind = config["model"]
    if kind == "plain":
        return small_llama(config, len(scan.VOCABULARY) + 2 * config["primitives"])
    settings = {
        "n_structural_slots": config["structural_slots"],
        "cbm_layers": config["cbm_layers"],
        "scl_weight": config["scl_weight"],
    }
    if kind == "guide":
        return guide_model.GuideSCITransformer.from_base(small_llama(config), **settings)
    if kind in contrasts.APPROACHES:
        return contrasts.SlotDecoder.from_base(
            small_llama(config), approach=kind, penalty_weight=config["penalty_weight"], **settings
        )
    if kind == "construction_templates":
        return contrasts.ConstructionTransformer.from_base(small_llama(config), **constructions(), **settings)
    if config["without"] == "leak control":
        return contrasts.LeakingSCI.from_base(small_llama(config), **settings)
    model = build_model(config)
    if config["without"] == "abstraction":
        model.structural_encoder.abstraction_layer = nn.Identity()
    elif config["without"] == "content encoder":
        model.content_encoder = contrasts.RawContent()
    return model


def constructions() -> dict:
    """word_classes and constructions of SCAN for ConstructionConfig: the grammar's own structures."""
    classes = {word: index for index, word in enumerate(scan.VOCABULARY)}
    classes |= {verb: classes[scan.VERBS[0]] for verb in scan.VERBS}
    classes |= {direction: classes[scan.DIRECTIONS[0]] for direction in scan.DIRECTIONS}
    known = {
        ("<bos>", *scan.structure(command, "verb_direction").split(), "<sep>")
        for command, _ in scan.generate()
    }
    shown = {"_": scan.VERBS[0], "*": scan.DIRECTIONS[0]}
    return {
        "word_classes": [classes[word] for word in scan.VOCABULARY],
        "constructions": [[classes[shown.get(word, word)] for word in words] for words in sorted(known)],
    }


def run_arm(run: Run) -> dict:
    """As run_scan; primitives > 0 adds invented verbs to the training rows."""
    if not run.config["primitives"]:
        return run_scan(run, build_arm)

    def data(*arguments):
        rows, *others = scan_data(*arguments)
        return rows + invented_rows(rows, run.config["primitives"], run.seed), *others

    return run_scan(run, build_arm, data)
