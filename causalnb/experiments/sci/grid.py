"""Which arms, seeds and settings make SCI's results on SCAN: splits, search, ablations, contrasts."""

from dataclasses import dataclass, field

from causalnb.experiments.sci.contrasts import run_arm
from causalnb.experiments.sci.later import run_later
from causalnb.experiments.sci.scan import run_scan
from causalnb.lab.registry import Experiment, register


@dataclass(frozen=True)
class ScanSettings:
    """One arm on one split of SCAN."""

    hidden_size: int = 64
    layers: int = 3
    heads: int = 4
    structural_slots: int = 4
    content_slots: str = "structural"  # or "tokens"; of SCI separated
    cbm_layers: list = field(default_factory=lambda: [0, 1])
    scl_weight: float = 0.1
    ortho: str = "project"
    invariance_weight: float = 100.0
    abstraction_noise: float = 0.1
    structure_level: str = "verb_direction"
    anchors: str = "rows"
    renamed: bool = False
    swaps: int = 0  # copies of the training rows, with words swapped as the labels of structure tell
    steps: int = 1500
    learning_rate: float = 2e-3
    random_rows: int = 48
    pairs: int = 13
    evaluate_every: int = 150
    validation_rows: int = 400
    curve_rows: int = 400
    test_rows: int | None = None
    decoded_rows: int = 300
    probe_rows: int = 200
    bf16: bool = False
    split: str = "add_prim_jump"
    model: str = "plain"


@dataclass(frozen=True)
class ArmSettings(ScanSettings):
    """SCI with a part left out, or another in its place."""

    model: str = "sci"
    without: str = ""
    primitives: int = 0
    penalty_weight: float = 1e-3


@dataclass(frozen=True)
class LaterSettings(ScanSettings):
    """A verb that is no part of training: rows of tables fitted to its one example afterwards."""

    primitives: int = 0
    new_words: list = field(default_factory=lambda: [1, 8])  # learned at once
    fit_tables: list = field(default_factory=lambda: ["all"])
    fit_rates: list = field(default_factory=lambda: [1e-3, 3e-3, 1e-2])
    fit_steps: list = field(default_factory=lambda: [30, 100, 300, 1000])  # after which it is tested


PROFILES = {
    "quick": {
        "hidden_size": 32,
        "layers": 2,
        "steps": 6,
        "random_rows": 12,
        "pairs": 4,
        "evaluate_every": 3,
        "validation_rows": 20,
        "curve_rows": 20,
        "test_rows": 40,
        "decoded_rows": 8,
        "probe_rows": 12,
    },
    "gpu": {
        "hidden_size": 256,
        "layers": 6,
        "heads": 8,
        "structural_slots": 8,
        "cbm_layers": [2, 3, 4],
        "steps": 10_000,
        "learning_rate": 5e-4,
        "random_rows": 256,
        "pairs": 64,
        "evaluate_every": 500,
        "bf16": True,
    },
    "paper": {
        "hidden_size": 2048,
        "layers": 22,
        "heads": 32,
        "structural_slots": 8,
        "cbm_layers": [6, 11, 16],
        "steps": 20_000,
        "learning_rate": 1e-4,
        "evaluate_every": 1000,
        "bf16": True,
    },
}
SCAN_ARMS = {
    **{arm: {"model": arm} for arm in ("plain", "plain_labels", "sci")},
    "sci_separated": {"model": "sci_separated", "structural_slots": 8},
}
TOKENS = {**SCAN_ARMS["sci_separated"], "content_slots": "tokens"}
THREE_ARMS = {arm: SCAN_ARMS[arm] for arm in ("plain", "sci", "sci_separated")}
APPROACHES = ("information_bottleneck", "slot_attention", "relational_attention", "causal_vae")


def scan_experiment(
    name: str,
    title: str,
    split: str,
    arms: dict,
    laptop_seeds: int,
    quick_seeds: int = 1,
    times: int = 1,
    **settings,
) -> Experiment:
    """Register sci.scan.<name>: `arms` on `split`, the shared settings under `settings`.

    times: of the steps that a profile has, but quick.
    """
    longer = {name: {**PROFILES[name], "steps": times * PROFILES[name]["steps"]} for name in ("gpu", "paper")}
    here = ScanSettings(split=split, **{"steps": times * ScanSettings.steps, **settings})
    return register(
        Experiment(
            id=f"sci.scan.{name}",
            title=title,
            arms=arms,
            run=run_scan,
            notebook="21_sci_scan",
            settings={**PROFILES, **longer, "laptop": here},
            seeds={
                "quick": quick_seeds,
                "laptop": laptop_seeds,
                "paper": min(3, laptop_seeds),
            },
            cost={"quick": 4, "laptop": 150, "gpu": 400, "paper": 200_000},
            at_most={"quick": {"swaps": 1}},
        )
    )


scan_experiment(
    "add_prim_jump",
    "SCAN add_prim_jump: 'jump' is trained alone and tested in every composition",
    "add_prim_jump",
    SCAN_ARMS,
    5,
    quick_seeds=2,
)
scan_experiment(
    "add_prim_run",
    "SCAN add_prim_run: the same with 'run', a verb on which nothing was tried or chosen",
    "add_prim_run",
    SCAN_ARMS,
    5,
    quick_seeds=2,
)
scan_experiment(
    "renamed",
    "SCAN add_prim_jump with the actions renamed at random, anew for each seed",
    "add_prim_jump",
    {arm: SCAN_ARMS[arm] for arm in ("plain", "sci_separated")},
    3,
    renamed=True,
)
for name, title in (
    ("simple", "a random split, nothing has to be recombined"),
    ("add_prim_turn_left", "'turn left' is trained alone and tested in every composition"),
    ("template_around_right", "'around right' is never trained with any verb"),
    ("length", "trained up to 22 actions, tested from 24"),
):
    scan_experiment(name, f"SCAN {name}: {title}", name, THREE_ARMS, 3)
SPLITS = "simple", "length", "add_prim_jump", "add_prim_run", "add_prim_turn_left", "template_around_right"
MORE = {"template_around_right": 5}  # seeds, where three leave the difference of the two open
SWAPPED = {arm: SCAN_ARMS[arm] for arm in ("plain", "sci")}
for split in SPLITS:
    scan_experiment(
        f"swapped_{split}",
        f"SCAN {split}: and copies of the training rows, words swapped as SCI's labels tell",
        split,
        SWAPPED,
        MORE.get(split, 3),
        swaps=4,
    )
for split in SPLITS:
    scan_experiment(
        f"tokens_{split}",
        f"SCAN {split}: SCI separated with content bound to the tokens of the prompt, a slot each",
        split,
        {"sci_separated": TOKENS},
        MORE.get(split, 3),
    )
scan_experiment(
    "longer_template_around_right",
    "SCAN template_around_right in twice the steps: swapped words, and a slot a token",
    "template_around_right",
    {"plain_swap": {**SCAN_ARMS["plain"], "swaps": 4}, "sci_separated_tokens": TOKENS},
    5,
    times=2,
)
scan_experiment(
    "swapped_search",
    "The rate, and how many copies with swapped words, on another held-out verb ('look')",
    "add_prim_look",
    {
        f"{arm}_{copies}_lr{1000 * rate:g}": {**settings, "swaps": copies, "learning_rate": rate}
        for arm, settings in SWAPPED.items()
        for copies, rate in ((1, 2e-3), (4, 1e-3), (4, 2e-3), (4, 4e-3))
    },
    1,
    test_rows=1000,
)

LATER = {
    "plain": SCAN_ARMS["plain"],
    "plain_swap": {**SCAN_ARMS["plain"], "swaps": 4},
    "plain_invented": {**SCAN_ARMS["plain"], "primitives": 100},  # copies with invented verbs, as swaps allow
    "sci": SCAN_ARMS["sci"],
    "sci_separated": {**SCAN_ARMS["sci_separated"], "fit_tables": ["content", "all"]},
    "sci_separated_tokens": {**TOKENS, "fit_tables": ["content", "all"]},
}
for name, split, seeds, more in (
    ("search", "add_prim_look", 1, {}),
    ("jump", "add_prim_jump", 3, dict.fromkeys(("plain_swap", "sci_separated"), 5)),
):
    register(
        Experiment(
            id=f"sci.later.{name}",
            title=f"A verb learned after training from one example: {split.removeprefix('add_prim_')}",
            arms=LATER,
            run=run_later,
            notebook="23_sci_separated",
            settings={
                **PROFILES,
                "laptop": LaterSettings(split=split, test_rows=1000),
                "quick": {**PROFILES["quick"], "new_words": [1, 4], "fit_rates": [1e-2], "fit_steps": [1, 2]},
            },
            seeds={"quick": 1, "laptop": seeds},
            more_seeds={"laptop": more},
            cost={"quick": 4, "laptop": 300, "gpu": 600},
            at_most={"quick": {"swaps": 1, "primitives": 4}},
        )
    )

scan_experiment(
    "search",
    "Settings, searched on another held-out verb ('look'): the rate for every arm, and SCI separated's own",
    "add_prim_look",
    {
        f"{arm}_lr{1000 * rate:g}": {**settings, "learning_rate": rate}
        for arm, settings in SCAN_ARMS.items()
        for rate in (1e-3, 2e-3, 4e-3)
    }
    | {
        f"{arm}_{name}": {**SCAN_ARMS[arm], **setting}
        for arm, name, setting in (
            ("sci", "slots8", {"structural_slots": 8}),
            ("sci_separated", "slots4", {"structural_slots": 4}),
            ("sci_separated", "weight10", {"invariance_weight": 10.0}),
            ("sci_separated", "noise0", {"abstraction_noise": 0.0}),
            ("sci_separated", "noise0_2", {"abstraction_noise": 0.2}),
        )
    },
    1,
    test_rows=1000,  # lr2 is 2e-3
)

COMMON = {
    "run": run_arm,
    "notebook": "21_sci_scan",
    "settings": {**{name: PROFILES[name] for name in ("quick", "gpu", "paper")}, "laptop": ArmSettings()},
    "seeds": {"quick": 1, "laptop": 3},
    "cost": {"quick": 4, "laptop": 150, "gpu": 400, "paper": 200_000},
}

ABLATIONS = {
    "guide": {"model": "guide"},
    "no_contrastive": {"scl_weight": 0.0},
    "no_binding": {"model": "structure_only"},
    "no_abstraction": {"without": "abstraction"},
    "no_content_encoder": {"without": "content encoder"},
    "no_leak_control": {"without": "leak control"},
    "augmentation": {"model": "plain", "primitives": 100},
    "separated_no_invariance": {**SCAN_ARMS["sci_separated"], "invariance_weight": 0.0},
    "separated_no_contrastive": {**SCAN_ARMS["sci_separated"], "scl_weight": 0.0},
    "separated_no_noise": {**SCAN_ARMS["sci_separated"], "abstraction_noise": 0.0},
    "separated_4_slots": {**SCAN_ARMS["sci_separated"], "structural_slots": 4},
    "separated_pairs_by_structure": {**SCAN_ARMS["sci_separated"], "anchors": "structures"},
}
register(
    Experiment(
        id="sci.ablations",
        title="SCI on add_prim_jump without one of its parts, and the guide's own model",
        arms=ABLATIONS,
        **COMMON,
    )
)
register(
    Experiment(
        id="sci.contrasts",
        title="The five approaches of the guide's comparison on add_prim_jump",
        arms={
            **{approach: {"model": approach, "scl_weight": 0.0} for approach in APPROACHES},
            "construction_templates": {"model": "construction_templates", "scl_weight": 0.0},
        },
        **COMMON,
    )
)
