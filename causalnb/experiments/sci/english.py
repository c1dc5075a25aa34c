"""SCI on English: sentences translated into a verb-final language, new words trained in one frame alone.

The labels of structure are the grammar's, which masks open-class words; those of dependencies, by which
sentences with other determiners are alike, too; or how alike dependencies are, from 0 to 1. The settings are
those that were chosen on SCAN ('look'), with more slots; nothing is chosen on new words here, and nothing for
labels between 0 and 1. In all arms a part of each batch is drawn in pairs of one structure.
"""

from dataclasses import dataclass

from causalnb.experiments.sci.grid import PROFILES, SCAN_ARMS, ScanSettings
from causalnb.experiments.sci.scan import build_model, collators, fit, small_llama
from causalnb.lab.probes import scored
from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import english, scan, swaps, verb_final
from causalnb.tasks.structures import structures_from_text

PAD, END = verb_final.VOCABULARY["<pad>"], verb_final.VOCABULARY["<eos>"]
SLOTS = 16  # a sentence has up to twelve words of content
SWAPPED_BY = {"pairs": swaps.find, "places": swaps.by_places}


@dataclass(frozen=True)
class EnglishSettings(ScanSettings):
    """One arm on the translation of English."""

    split: str = "new_words"
    structure_level: str = "grammar"  # or dependency
    structures: int = 500
    contents: int = 12
    structural_slots: int = SLOTS
    swapped_by: str = "pairs"  # that differ in one word; or "places" of structures, and a lexicon
    test_rows: int = 2000


def translated(pairs, level: str) -> list[dict]:
    """Encoded rows of (sentence, translation) with text, answer and structure."""
    told = structures_from_text([text for text, _ in pairs], level, verb_final.Parser())
    return [
        {**verb_final.encode(text, answer), "text": text, "answer": answer, "structure": structure}
        for (text, answer), structure in zip(pairs, told, strict=True)
    ]


def english_data(config: dict, seed: int) -> tuple[list[dict], list[dict], list[dict]]:
    """(train, validation, test) rows of sentences drawn by the seed; validation is taken out of training."""
    from numpy.random import default_rng

    draw, level = default_rng(seed), config["structure_level"]
    train, test = (
        [(text, verb_final.translate(text)) for text in draw.permutation(part).tolist()]
        for part in verb_final.split(config["structures"], config["contents"], seed)
    )
    new = {word for words in english.NEW.values() for word in words}
    held = [pair for pair in train if not new & {*pair[0].split()}][: config["validation_rows"]]
    taken = {*held}
    train = [pair for pair in train if pair not in taken]
    if config["swaps"]:
        told = [row["structure"] for row in translated(train, level)]
        train += swaps.augmented(train, told, seed, config["swaps"], SWAPPED_BY[config["swapped_by"]])
    return tuple(translated(part, level) for part in (train, held, test[: config["test_rows"]]))  # type: ignore[return-value]


def english_model(config: dict, rows: list[dict]):
    """The model of an arm, on the words of both languages; SoftSCI is told the structures of the rows."""
    spare = len(verb_final.VOCABULARY) - len(scan.VOCABULARY)  # build_model counts from SCAN's
    if config["model"] != "sci_soft":
        return build_model(config, spare)

    from causalnb.apps.sci.soft import SoftSCI

    soft = SoftSCI.from_base(
        small_llama(config, len(verb_final.VOCABULARY)),
        n_structural_slots=config["structural_slots"],
        scl_weight=config["scl_weight"],
        cbm_layers=config["cbm_layers"],
        ortho=config["ortho"],
    )
    soft.tell(rows)
    return soft


def run_english(run: Run) -> dict:
    """Train one arm; exact translations of sentences with a new word, and of held-out ones without."""
    from transformers import set_seed

    from causalnb.lab.evaluation import greedy_matches, teacher_forced_matches

    config = run.config
    rows, validation, test = english_data(config, run.seed)
    validation, test = scored(validation), scored(test)
    set_seed(run.seed)
    model = english_model(config, rows)
    _, plainly = collators(model, PAD)
    curve = test[: config["curve_rows"]]

    def exact(model, some: list[dict]) -> float:
        return float(teacher_forced_matches(model, some, plainly).mean())

    history = fit(
        run,
        model,
        rows,
        lambda model: {"validation": exact(model, validation), "test_sample": exact(model, curve)},
        PAD,
    )
    decoded = greedy_matches(model, test[: config["decoded_rows"]], PAD, END, max_new_tokens=50)
    return {
        "metrics": {
            "": {
                "exact_match": exact(model, test),
                "greedy_exact_match": float(decoded.mean()),
                "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            },
            "validation": {"exact_match": exact(model, validation)},
            "test": {"rows": len(test)},
            "train": {"rows": len(rows), "structures": len({row["structure"] for row in rows})},
        },
        "history": history,
    }


ARMS = {
    "plain": SCAN_ARMS["plain"],
    "plain_swap": {**SCAN_ARMS["plain"], "swaps": 4},
    "plain_labels": SCAN_ARMS["plain_labels"],
    "sci": SCAN_ARMS["sci"],
    "sci_dependency": {**SCAN_ARMS["sci"], "structure_level": "dependency"},
    "sci_soft": {"model": "sci_soft", "structure_level": "dependency"},
    "sci_separated": {"model": "sci_separated"},
    "separated_tokens": {"model": "sci_separated", "content_slots": "tokens"},
}
register(
    Experiment(
        id="sci.english",
        title="English into a verb-final language: new words are trained in one frame, tested in all others",
        arms=ARMS,
        run=run_english,
        notebook="24_sci_english",
        settings={
            **{name: settings | {"structural_slots": SLOTS} for name, settings in PROFILES.items()},
            "laptop": EnglishSettings(),
            "quick": {**PROFILES["quick"], "structures": 30, "contents": 3},
        },
        seeds={"quick": 1, "laptop": 3},
        cost={"quick": 4, "laptop": 250, "gpu": 400},
        at_most={"quick": {"swaps": 1}},
    )
)
COPIES = 16  # four times those of the full runs: rows are few
FEW = {
    "plain": ARMS["plain"],
    "plain_swap": {**ARMS["plain"], "swaps": COPIES},
    "plain_places": {**ARMS["plain"], "swaps": COPIES, "swapped_by": "places"},
    "separated_tokens": ARMS["separated_tokens"],
}
for name, structures, contents, arms, seeds in (
    ("few", 100, 6, FEW, 5),
    ("fewer", 200, 2, {arm: FEW[arm] for arm in ("plain_places", "separated_tokens")}, 3),
):
    register(
        Experiment(
            id=f"sci.english.{name}",
            title=f"English from few rows: sentences of {structures} structures, {contents} of each",
            arms=arms,
            run=run_english,
            notebook="24_sci_english",
            settings={
                "laptop": EnglishSettings(structures=structures, contents=contents, validation_rows=150),
                "quick": {**PROFILES["quick"], "structures": 30, "contents": 3},
            },
            seeds={"quick": 1, "laptop": seeds},
            cost={"quick": 4, "laptop": 120},
            at_most={"quick": {"swaps": 1}},
        )
    )
