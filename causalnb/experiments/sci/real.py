"""SCI on a real language model: SCAN in plain words, one verb of which has a single example.

    IN: zim opposite left twice OUT: Left Left Rax Left Left Rax

Each word and each action is a token of the base, so that rows of one structure align. The verb that stands
alone in training is `jump -> Jump`, which a base has read before, or a word and an action without a meaning,
drawn anew for each seed. These differ in two things, which two more pairs tell apart: the word is known, and
its action is the word itself with a capital.
"""

from dataclasses import dataclass
from random import Random

from causalnb.apps.bases import with_lora
from causalnb.errors import LabError
from causalnb.experiments.sci.grid import ScanSettings
from causalnb.experiments.sci.scan import collators, fit, scan_data, swapped_rows
from causalnb.lab.probes import scored
from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import scan

NOTEBOOK = "29_sci_real_base"
SEEDS: dict[str, dict] = {  # the GPU's time was short
    "jump": {"seeds": {"quick": 1, "laptop": 2, "gpu": 5}},
    "nonce": {
        "seeds": {"quick": 1, "laptop": 2, "gpu": 5},
        "more_seeds": {"laptop": {"plain": 3, "sci": 3}},
    },
    "around_right": {"seeds": {"quick": 1, "laptop": 1, "gpu": 5}, "more_seeds": {"laptop": {"plain": 2}}},
    "apart": {"seeds": {"quick": 1, "laptop": 1, "gpu": 5}},
    "search": {"seeds": {"quick": 1, "laptop": 1, "gpu": 1}},
}
SPLITS = {"jump": "add_prim_jump", "nonce": "add_prim_jump", "around_right": "template_around_right"}
SURFACE = {action: action.split("_")[-1].capitalize() for action in scan.ACTIONS}  # I_TURN_LEFT -> Left
VERBS = ("lug", "zim", "toma", "pim", "rif", "bik", "tib", "bax", "hod", "kef", "lom", "mab", "pog", "tav")
ACTIONS = ("Dop", "Lod", "Nim", "Sep", "Dob", "Rud", "Sug", "Wol", "Yap", "Nol", "Gop", "Vek", "Rem", "Dax")
TRIED = 4  # the first of both lists are of the search alone
DRAWN = {  # what has no meaning, of those that a seed draws: the verb, its action
    "nonce": (True, True),
    "tried": (True, True),
    "copied": (True, False),  # whose action is the verb with a capital
    "known": (False, True),
}


@dataclass(frozen=True)
class RealSettings(ScanSettings):
    """One arm on one split, from a pre-trained base with LoRA adapters."""

    base: str = "google/gemma-3-270m"
    lora_rank: int = 16
    words: str = "plain"  # or one of DRAWN
    held_out: str = "jump"
    structural_slots: int = 8
    cbm_layers: list | None = None
    steps: int = 600
    learning_rate: float = 1e-3  # of all arms, set beforehand
    random_rows: int = 20
    pairs: int = 6
    evaluate_every: int = 300
    test_rows: int | None = 1000


def nonce_words(kind: str, held_out: str, seed: int) -> dict[str, str]:
    """{word: what stands for it} of the held-out verb and its action; LabError for an unknown kind."""
    if kind == "plain":
        return {}
    if kind not in DRAWN:
        raise LabError(f"words is {kind!r}: choose plain, {', '.join(DRAWN)}.")
    of = slice(TRIED) if kind == "tried" else slice(TRIED, None)
    draw = Random(f"{'tried' if kind == 'tried' else 'nonce'} {seed}")
    verb, action = draw.choice(VERBS[of]), draw.choice(ACTIONS[of])
    said = SURFACE[f"I_{held_out.upper()}"]
    other_verb, other_action = DRAWN[kind]
    return {
        **({held_out: verb} if other_verb else {}),
        said: action if other_action else verb.capitalize(),
    }


def told(command: str, actions: str, nonce: dict[str, str]) -> tuple[str, str]:
    """A pair of SCAN as the base reads it: the prompt, and after a space the answer."""
    said = [SURFACE[action] for action in actions.split()]
    words, said = ([nonce.get(word, word) for word in some] for some in (command.split(), said))
    return f"IN: {' '.join(words)} OUT:", "".join(f" {word}" for word in said)


def encoded(rows: list[dict], base, nonce: dict[str, str]) -> list[dict]:
    """Rows of `scan_data` in the base's tokens; structure and text are kept as they were."""
    if not rows:
        return []
    texts = [told(row["text"], row["actions"], nonce) for row in rows]
    prompts, answers = zip(*texts, strict=True)
    read = base.tokenizer(list(prompts))["input_ids"]
    said = base.tokenizer(list(answers), add_special_tokens=False)["input_ids"]
    made = []
    for row, prompt, answer in zip(rows, map(base.placed, read), map(base.placed, said), strict=True):
        answer.append(base.special("eos"))
        made.append(
            row
            | {
                "input_ids": prompt + answer,
                "prompt_mask": [1] * len(prompt) + [0] * len(answer),
                "labels": [-100] * len(prompt) + answer,
            }
        )
    return made


def every_word(nonce: dict[str, str]) -> list[str]:
    """A text with all words that rows can have."""
    words = [nonce.get(word, word) for word in (*scan.WORDS, *SURFACE.values())]
    return [f"IN: {' '.join(words)} OUT:"]


def build_model(base, config: dict):
    """An arm's model on the base with LoRA adapters in all its layers."""
    from causalnb.sci import SCITransformer, SeparatedSCI

    adapted = with_lora(base.model, config["lora_rank"])
    settings = {"n_structural_slots": config["structural_slots"], "scl_weight": config["scl_weight"]}
    if config["model"] == "plain":
        return adapted.get_base_model()
    if config["model"] == "sci":
        return SCITransformer.from_base(adapted, ortho=config["ortho"], **settings)
    return SeparatedSCI.from_base(
        adapted,
        invariance_weight=config["invariance_weight"],
        abstraction_noise=config["abstraction_noise"],
        content_slots=config["content_slots"],
        **settings,
    )


def run_real(run: Run) -> dict:
    """Tune one arm on one split; exact match, teacher-forced, on validation and test rows."""
    from transformers import set_seed

    from causalnb.lab import bases
    from causalnb.lab.evaluation import teacher_forced_matches

    config = run.config
    sizes = config["validation_rows"], config["test_rows"]
    rows, *held = scan_data(config["split"], *sizes, config["structure_level"])
    if config["swaps"]:
        rows = rows + swapped_rows(rows, config["structure_level"], run.seed, config["swaps"])
    nonce = nonce_words(config["words"], config["held_out"], run.seed)
    set_seed(run.seed)
    base = bases.pretrained(config["base"], every_word(nonce))
    model, pad = build_model(base, config).to(run.device), base.special("pad")
    rows, validation, test = (encoded(part, base, nonce) for part in (rows, *map(scored, held)))
    _, plainly = collators(model, pad)
    curve = test[: config["curve_rows"]]

    def exact(some: list[dict]) -> float:
        return float(teacher_forced_matches(model, some, plainly).mean())

    before = {"validation": exact(validation), "test": exact(curve)}
    history = fit(
        run, model, rows, lambda _: {"validation": exact(validation), "test_sample": exact(curve)}, pad
    )
    return {
        "metrics": {
            "": {
                "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
                "parameters": sum(p.numel() for p in model.parameters()),
            },
            "untuned/validation": {"exact_match": before["validation"]},
            "untuned/test": {"exact_match": before["test"]},
            "validation": {"exact_match": history[-1]["validation"]},
            "test": {"exact_match": exact(test), "rows": len(test)},
        },
        "history": history,
        "bases": {base.name: base.digest},
    }


ARMS = {
    "plain": {"model": "plain"},
    "plain_swap": {"model": "plain", "swaps": 4},
    "sci": {"model": "sci"},
    "sci_separated": {"model": "sci_separated"},
}
GPU = {  # a larger base with the same tokens, in which each word is one; all of the test rows
    "base": "google/gemma-3-1b-pt",
    "steps": 900,
    "test_rows": None,
}
QUICK = {
    "base": "tiny",
    "lora_rank": 2,
    "steps": 2,
    "random_rows": 4,
    "pairs": 2,
    "evaluate_every": 1,
    "validation_rows": 4,
    "curve_rows": 4,
    "test_rows": 6,
}


def real_experiment(name: str, title: str, arms: dict, **settings) -> None:
    """Register sci.real.<name>."""
    register(
        Experiment(
            id=f"sci.real.{name}",
            title=title,
            arms=arms,
            run=run_real,
            notebook=NOTEBOOK,
            settings={"laptop": RealSettings(**settings), "quick": QUICK, "gpu": GPU},
            **SEEDS[name],
            cost={"quick": 4, "laptop": 5000, "gpu": 500},
            at_most={"quick": {"swaps": 1}},
        )
    )


for name, split in SPLITS.items():
    real_experiment(
        name,
        f"SCAN {name} on gemma-3-270m with LoRA",
        ARMS,
        split=split,
        words="nonce" if name == "nonce" else "plain",
    )
real_experiment(
    "apart",
    "SCAN with a verb that is known or one whose action can be copied, on gemma-3-270m with LoRA",
    {name: ARMS["plain"] | {"words": name} for name in ("copied", "known")},
    split=SPLITS["nonce"],
)
real_experiment(
    "search",
    "Another held-out verb with other words, and a second rate for plain tuning",
    {f"{arm}_lr10": settings for arm, settings in ARMS.items()}
    | {"plain_lr3": ARMS["plain"] | {"learning_rate": 3e-4}},
    split="add_prim_look",
    held_out="look",
    words="tried",
)
