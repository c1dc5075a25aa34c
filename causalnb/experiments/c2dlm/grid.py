"""Which arms, seeds and settings make C2DLM's tables and figures."""

from dataclasses import asdict, dataclass, field, replace

from causalnb.experiments.c2dlm.base import run_base
from causalnb.experiments.c2dlm.models import MODELS, base_file
from causalnb.experiments.c2dlm.runs import run_task
from causalnb.experiments.c2dlm.text import memory_gib, run_text, seconds
from causalnb.lab import weights
from causalnb.lab.bases import TINY
from causalnb.lab.registry import Experiment, register
from causalnb.tasks.cot_order_perturb import MODES


def digests(hidden_size: int) -> dict[str, str]:
    """The first characters of the sha256 of the two bases, "" for one that was not made yet."""
    return {kind: weights.digest(base_file(kind, hidden_size))[:16] for kind in MODELS}


@dataclass(frozen=True)
class Settings:
    """What all tasks share."""

    model: str = "diffusion"
    graph: str = "none"
    pretrained: bool = True
    base: dict = field(default_factory=lambda: digests(128))
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    lora_rank: int = 32
    batch: int = 32
    learning_rate: float = 1e-3  # of two, the best for both models on another draw of Sudoku, and of STG
    alpha: float = 5.0
    lam: float = 10.0
    gamma: float | dict = 1.0
    gamma_schedule: bool = True
    norm_index: str = "key"
    step_rule: str = "no_lookahead"
    over_layers: str = "map"
    guided_layers: str | list = "all"  # those whose attention the loss sees
    enforced: float = 0.0  # the share of training rows under a hard mask; at 1 test rows are, too
    in_order: bool = False
    also_ranked: bool = False
    maps: bool = False
    watched: int = 0  # training rows whose attention is read against the graph
    split_seed: int = 42
    bf16: bool = False


QUICK = {
    "steps": 2,
    "batch": 4,
    "evaluate_every": 1,
    "train_rows": 8,
    "test_rows": 4,
    "validation_rows": 2,
    "lora_rank": 2,
}
GPU = {
    "base": digests(512),
    "hidden_size": 512,
    "layers": 10,
    "heads": 8,
    "lora_rank": 64,
    "batch": 128,
    "learning_rate": 5e-4,
    "bf16": True,
}


@dataclass(frozen=True)
class CotSettings(Settings):
    """Chains of thought in an order."""

    task: str = "cot"
    mode: str = "normal"
    encoding: str = "compact"
    scope: str = "result"
    alpha: float = 3.0
    lam: float = 100.0
    learning_rate: float = 3e-3  # of three, the best for both models on another draw of inputs
    train_rows: int = 2000
    test_rows: int = 500
    validation_rows: int = 100
    steps: int = 600
    evaluate_every: int = 60
    gen_length: int = 29
    block_length: int = 29
    decode_steps: int = 29


@dataclass(frozen=True)
class SudokuSettings(Settings):
    """4x4 Sudoku."""

    task: str = "sudoku"
    source: str = "file"
    blanks: int = 8
    gamma: float | dict = 0.3
    train_rows: int = 5000
    test_rows: int = 500
    validation_rows: int = 100
    steps: int = 600
    evaluate_every: int = 100
    gen_length: int = 17
    block_length: int = 17
    decode_steps: int = 9


@dataclass(frozen=True)
class ReasoningSettings(Settings):
    """Six synthetic tasks."""

    task: str = "reasoning"
    alpha: float = 3.0
    train_rows: int = 686
    test_rows: int = 200
    validation_rows: int = 120
    steps: int = 400
    evaluate_every: int = 100
    gen_length: int = 24
    block_length: int = 24
    decode_steps: int = 12


@dataclass(frozen=True)
class StgSettings(Settings):
    """The spurious token game."""

    task: str = "stg"
    size: str = "S"
    shift: str = "published"
    cue: float = 1.0  # the share of spurious numbers that follow their cause in training
    swapped: int = 0  # copies of the rows whose numbers of no cause are those of other rows
    gamma: float | dict = 0.3
    train_rows: int = 400
    test_rows: int = 400
    validation_rows: int = 200
    steps: int = 300
    evaluate_every: int = 30
    gen_length: int = 2
    block_length: int = 2
    decode_steps: int = 2


@dataclass(frozen=True)
class ChainSettings(Settings):
    """Chains over graphs drawn anew for each row."""

    task: str = "chain"
    encoding: str = "chains"
    chain_steps: int = 6
    hidden_size: int = 64
    layers: int = 3
    batch: int = 64
    learning_rate: float = 2e-3
    alpha: float = 3.0
    lam: float = 100.0
    gamma: float | dict = 0.1
    pretrained: bool = False
    base: dict = field(default_factory=dict)
    train_rows: int = 2000
    test_rows: int = 500
    validation_rows: int = 200
    steps: int = 1200
    evaluate_every: int = 50
    gen_length: int = 7
    block_length: int = 7
    decode_steps: int = 7


SETTINGS = {
    "chain": ChainSettings(),
    "cot": CotSettings(),
    "sudoku": SudokuSettings(),
    "stg": StgSettings(),
    "reasoning": ReasoningSettings(),
}
NO_COT = {"gen_length": 3, "block_length": 3, "decode_steps": 3}
AT_THE_END = 10**6  # evaluate_every, where no figure shows the curve
SIZES = {
    "S": {"size": "S"},
    "M": {"size": "M", "train_rows": 800},
    "L": {"size": "L", "train_rows": 1600, "steps": 500, "evaluate_every": 50, "maps": True},
    "H": {"size": "H", "train_rows": 3000, "steps": 600, "evaluate_every": 60, "test_rows": 1000, **NO_COT},
}
MANY = {**SIZES["L"], "train_rows": 20_000, "steps": 1200, "evaluate_every": 100}
ISOLATED = {
    "graph": "isolated",
    "lam": 300.0,
    "norm_index": "none",
    "over_layers": "loss",
    "gamma_schedule": False,
}  # raw attention of every layer, and a weight that grows to the end
QUICKS = {
    "cot": {**QUICK, "decode_steps": 2},
    "sudoku": {**QUICK, "source": "generator", "decode_steps": 2},
    "stg": QUICK,
    "reasoning": {**QUICK, "train_rows": 12, "validation_rows": 6, "decode_steps": 2},
    "chain": {**QUICK, "decode_steps": 2},
}
NOTEBOOKS = {
    "chain": "43_chain_of_thought_order",
    "cot": "43_chain_of_thought_order",
    "sudoku": "44_sudoku_and_stg",
    "stg": "44_sudoku_and_stg",
    "reasoning": "45_downstream_ablations_costs",
}


def arms(*names: str) -> dict[str, dict]:
    """The arms called so, each as its changes of the settings.

    NAME_scratch starts from random weights; NAME_base from a base all of whose weights are trained.
    """
    known = {
        "autoregressive": {"model": "autoregressive"},
        "diffusion": {},
        "c2dlm": {"graph": "causal"},
        "c2dlm_gamma0_3": {"graph": "causal", "gamma": 0.3},
        "c2dlm_gamma1": {"graph": "causal", "gamma": 1.0},
        "c2dlm_gamma3": {"graph": "causal", "gamma": 3.0},
        "c2dlm_lr3": {"graph": "causal", "learning_rate": 3e-3},
        "diffusion_lr3": {"learning_rate": 3e-3},
        "autoregressive_lr3": {"model": "autoregressive", "learning_rate": 3e-3},
        "no_v": {"graph": "causal", "norm_index": "none"},
        "placebo": {"graph": "placebo"},
        "isolated": ISOLATED,
        "enforced": {"graph": "isolated", "enforced": 1.0},
        "half_enforced": {"graph": "isolated", "enforced": 0.5},
        "half_placebo": {"graph": "isolated_placebo", "enforced": 0.5},
        "mutual": {"graph": "mutual"},
        "swapped": {"swapped": 10},  # of the spurious token game: the graph as augmentation
        "half_swapped": {"graph": "isolated", "enforced": 0.5, "swapped": 10},
        "ordered": {"in_order": True},
    }
    alone = {"pretrained": False, "base": {}, "learning_rate": 1e-3}
    scratch = {f"{name}_scratch": {**changes, **alone} for name, changes in known.items()}
    whole = {"pretrained": True, "base": digests(Settings.hidden_size), "lora_rank": 0}
    based = {f"{name}_base": {**changes, **whole} for name, changes in known.items()}
    return {name: {**known, **scratch, **based}[name] for name in names}


def add(
    id: str,
    title: str,
    task: str,
    arms: dict,
    seeds: int,
    cost: float,
    notebook: str = "",
    more_seeds: dict | None = None,
    **changes,
) -> None:
    """Register an experiment on a task, its laptop settings with `changes`; cost in seconds of one run."""
    settings = replace(SETTINGS[task], **changes)
    growing = {"total_steps": settings.steps, "gamma_min": 1.0, "gamma_max": 10.0, "warmup": 1.0}
    arms = {
        name: {"gamma": growing} | changed if ISOLATED.items() <= changed.items() else changed
        for name, changed in arms.items()
    }
    register(
        Experiment(
            id=id,
            title=title,
            run=run_task,
            notebook=notebook or NOTEBOOKS[task],
            arms=arms,
            settings={"laptop": settings, "quick": QUICKS[task], "gpu": GPU},
            seeds={"quick": 1, "laptop": seeds},
            cost={"quick": 3, "laptop": cost, "gpu": 300},
            more_seeds={"laptop": more_seeds} if more_seeds else {},
            at_most={
                "quick": {name: QUICKS[task][name] for name in ("train_rows", "steps", "evaluate_every")}
            },
        )
    )


GUIDED = ("autoregressive", "diffusion", "c2dlm", "placebo")
add(
    "c2dlm.stg.many",
    "The spurious token game with 20,000 people, without a pre-trained base",
    "stg",
    arms("diffusion_scratch", "c2dlm_scratch", "placebo_scratch", "isolated_scratch"),
    5,
    130,
    **MANY,
)
add(
    "c2dlm.downstream",
    "Six synthetic reasoning tasks, tuned on 686 rows of all",
    "reasoning",
    arms(*GUIDED),
    3,
    70,
    evaluate_every=AT_THE_END,
)


# Learning curves on development draws: how many steps each model needs, one seed, from random weights.
SCRATCH = {"pretrained": False, "base": {}, "learning_rate": 1e-3, "split_seed": 7}


TRIED = ("autoregressive", "diffusion", "c2dlm")
RATES = ("autoregressive_lr3", "diffusion_lr3")


def curve_arms(*wanted: tuple[str, int, int]) -> dict[str, dict]:
    """An arm for each (name, rows, steps), evaluated eight times."""
    known = arms(
        *GUIDED,
        *RATES,
        "c2dlm_lr3",
        "c2dlm_gamma0_3",
        "c2dlm_gamma1",
        "c2dlm_gamma3",
        "no_v",
        "isolated",
        "enforced",
        "half_enforced",
        "half_placebo",
        "swapped",
        "half_swapped",
        "diffusion_base",
    )
    return {
        f"{name}_n{rows}_s{steps}": {
            **known[name],
            "train_rows": rows,
            "steps": steps,
            "evaluate_every": steps // 8,
        }
        for name, rows, steps in wanted
    }


add(
    "c2dlm.curves.sudoku",
    "Learning curves of 4x4 Sudoku from random weights, on another draw of puzzles",
    "sudoku",
    curve_arms(
        *((name, 200, steps) for name in TRIED for steps in (2000, 4000)),
        *((name, 200, 2000) for name in (*RATES, "c2dlm_gamma1", "c2dlm_gamma3")),
        *((name, n, 2000) for name in ("enforced", "half_enforced", "half_placebo") for n in (50, 200)),
        *((name, 200, 8000) for name in ("diffusion", "c2dlm")),
        *(("diffusion", 50, steps) for steps in (2000, 4000, 8000)),
        *((name, rows, 4000) for name in ("diffusion", "c2dlm") for rows in (500, 1000)),
        *((name, 5000, 2000) for name in (*TRIED, "diffusion_base")),
        *((name, 5000, 4000) for name in ("diffusion", "c2dlm")),
    ),
    1,
    480,
    source="generator",
    **SCRATCH,
)
add(
    "c2dlm.curves.cot",
    "Learning curves of chains of thought from random weights, on another draw of inputs",
    "cot",
    curve_arms(
        *((name, 2000, 3000) for name in ("diffusion", "c2dlm", *RATES)),
        *((name, 2000, 3000) for name in ("c2dlm_lr3", "c2dlm_gamma0_3", "c2dlm_gamma3")),
        *((name, 2000, 6000) for name in (*TRIED, "enforced")),
        ("diffusion", 2000, 12_000),
        ("autoregressive", 2000, 3000),
        *((name, 9_000, 6000) for name in TRIED),  # of the 10,201 inputs there are
    ),
    1,
    800,
    **SCRATCH,
)
FORMULAS = {"encoding": "formulas", "gen_length": 167, "block_length": 167, "decode_steps": 167}
add(
    "c2dlm.curves.formulas",
    "A learning curve of chains of thought whose steps have their rules, on another draw of inputs",
    "cot",
    curve_arms(("diffusion", 2000, 3000)),
    1,
    2400,
    **{**SCRATCH, **FORMULAS, "validation_rows": 50, "batch": 16},
)
add(
    "c2dlm.curves.stg",
    "Learning curves of the spurious token game from random weights, on another shift",
    "stg",
    curve_arms(
        *(
            (name, 1600, 1000)
            for name in (*TRIED, "placebo", "isolated", "enforced", "half_enforced", "swapped", *RATES)
        ),
        *((name, 1600, 1000) for name in ("c2dlm_gamma1", "c2dlm_gamma3")),
        *((name, 1600, 2000) for name in ("diffusion", "half_enforced")),
        ("diffusion_base", 1600, 1000),
        ("swapped", 1600, 4000),
        *(("half_swapped", 1600, steps) for steps in (1000, 2000)),
        *((name, 20_000, 2000) for name in ("diffusion", "enforced", "half_enforced")),
        ("diffusion", 20_000, 4000),
    ),
    1,
    80,
    shift="reversed",
    **{**SIZES["L"], **SCRATCH},
)
for size in ("S", "M", "H"):
    rows = SIZES[size].get("train_rows", StgSettings.train_rows)
    add(
        f"c2dlm.curves.stg_{size.lower()}",
        f"Learning curves of the spurious token game, size {size}, from random weights",
        "stg",
        curve_arms(
            *(
                ("diffusion", rows, steps)
                for steps in (500, 1000, 2000, *([4000, 8000] if size == "H" else []))
            ),
            ("c2dlm", rows, 1000),
        ),
        1,
        80,
        shift="reversed",
        **{**SIZES[size], **SCRATCH},
    )
LAST = {"graph": "causal", "guided_layers": [ChainSettings.layers - 1]}  # which knows the cause's name
GUIDANCE = {**arms("c2dlm"), "c2dlm_last": LAST}


def lettered(number: float) -> str:
    """A number as part of an arm's name: 0_3."""
    return f"{number:g}".replace(".", "_")


add(
    "c2dlm.curves.chain",
    "Learning curves of chains over a graph that varies by row, on another draw",
    "chain",
    {
        **{f"diffusion_lr{1000 * rate:g}": {"learning_rate": rate} for rate in (1e-3, 2e-3, 4e-3)},
        "c2dlm_gamma0_03": {"graph": "causal", "gamma": 0.03},
        **{
            f"{name}_gamma{lettered(gamma)}": {**changes, "gamma": gamma}
            for gamma in (0.1, 0.3, 1.0, 3.0)
            for name, changes in GUIDANCE.items()
        },
        # among many keys three times the mean is little
        **{f"{name}_alpha30": {**changes, "gamma": 0.3, "alpha": 30.0} for name, changes in GUIDANCE.items()},
        **arms("half_enforced", "enforced"),
        **{
            f"{name}_n300": {**changes, "train_rows": 300}
            for name, changes in arms("diffusion", "c2dlm", "enforced").items()
        },
    },
    1,
    80,
    split_seed=7,
)


# Trained to competence, on the draws that are tested once: from random weights, for as many steps as the
# curves say. What learns from few rows is stopped where its own curve is highest.
LONG = {"pretrained": False, "base": {}, "learning_rate": 1e-3}
FEW = {"autoregressive": {"model": "autoregressive", "steps": 2000}}
OBEYED = {"enforced": {**arms("enforced")["enforced"], "steps": 2000}}
MORE = {  # arms beside plain tuning and C2DLM
    50: arms("half_enforced", "half_placebo") | OBEYED,
    200: arms("placebo", "half_enforced", "half_placebo") | FEW | OBEYED,
    5000: arms("autoregressive"),
}
MORE_SEEDS = {50: dict.fromkeys(("diffusion", "c2dlm", "half_enforced", "half_placebo"), 5)}  # of the fewest
for rows, steps in ((50, 4000), (200, 8000), (500, 4000), (5000, 4000)):
    add(
        f"c2dlm.long.sudoku_n{rows}",
        f"4x4 Sudoku with {rows} training puzzles, trained to competence",
        "sudoku",
        arms("diffusion", "c2dlm") | MORE.get(rows, {}),
        3,
        steps / 8,
        more_seeds=MORE_SEEDS.get(rows),
        train_rows=rows,
        steps=steps,
        evaluate_every=steps // 20,
        **LONG,
    )
EARLY = {"model": "autoregressive", "steps": 3000}  # its development curve falls from there on
ranked = {name: {**changes, "also_ranked": True} for name, changes in arms("diffusion", "c2dlm").items()}
STRONGER = {"c2dlm_gamma3": {**ranked["c2dlm"], "gamma": 3.0}}  # highest on the development draw
add(
    "c2dlm.long.cot",
    "Chains of thought in causal order, trained to competence",
    "cot",
    arms("placebo") | {"autoregressive": EARLY} | ranked | STRONGER,
    3,
    830,
    more_seeds=dict.fromkeys(("autoregressive", "diffusion", "c2dlm"), 5),
    steps=6000,
    evaluate_every=300,
    **LONG,
)
add(
    "c2dlm.long.order",
    "Chains of thought in other orders, and none, trained to competence",
    "cot",
    {
        f"{name}_{mode}": {**changes, "mode": mode, **(NO_COT if mode == "no_cot" else {})}
        for name, changes in arms("autoregressive", "diffusion").items()
        for mode in MODES
        if mode != "normal"  # which is in c2dlm.long.cot, and in c2dlm.parts.cot
    },
    3,
    350,
    steps=3000,
    evaluate_every=AT_THE_END,
    **LONG,
)
add(
    "c2dlm.long.further",
    "A diffusion model without chains, after as many steps as in Table 2",
    "cot",
    {"diffusion_no_cot": {"mode": "no_cot", **NO_COT}},
    3,
    300,
    steps=6000,
    evaluate_every=300,
    **LONG,
)
add(
    "c2dlm.long.more",
    "An autoregressive model on most inputs there are, causes first and effects first",
    "cot",
    {f"autoregressive_{mode}": {"model": "autoregressive", "mode": mode} for mode in ("normal", "RE")},
    5,
    400,
    train_rows=9000,
    steps=3000,
    evaluate_every=AT_THE_END,
    **LONG,
)
add(
    "c2dlm.long.chain",
    "Chains over a graph that varies by row, trained to competence",
    "chain",
    arms("diffusion", "enforced")
    | {name: {**changes, "gamma": 0.03} for name, changes in arms("c2dlm", "placebo").items()},
    8,
    80,
)
NO_RATIO, NO_PENALTY = {"alpha": 1e-6}, {"lam": 0.0}  # the ratio is above it from the start
PULLED = {
    "penalty": {"graph": "causal", **NO_RATIO},
    "ratio": {"graph": "causal", **NO_PENALTY},
    "ratio_placebo": {"graph": "placebo", **NO_PENALTY},
}
add(
    "c2dlm.why.chain",
    "Chains over a graph that varies by row: each part of the loss alone, and where attention goes",
    "chain",
    {
        name: {"gamma": 0.03, "watched": 200, **changes}
        for name, changes in {**arms("diffusion", "c2dlm", "placebo"), **PULLED}.items()
    },
    3,
    80,
    more_seeds=dict.fromkeys(PULLED, 8),
)
LONG_STG = {  # size -> settings, arms beside plain tuning and C2DLM, seeds
    "S": ({**SIZES["S"], "steps": 500}, ("autoregressive", "enforced"), 8),
    "M": ({**SIZES["M"], "steps": 500}, ("autoregressive", "enforced"), 3),
    "L": (
        {**SIZES["L"], "steps": 1000},
        ("autoregressive", "placebo", "no_v", "isolated", "enforced", "swapped", "half_swapped"),
        5,
    ),
    "H": ({**SIZES["H"], "steps": 4000}, ("placebo",), 3),
}
for size, (more, others, seeds) in LONG_STG.items():
    tried = arms("diffusion", "c2dlm", *others)
    if size == "L":  # ten copies of the rows ask for more steps, and plain tuning is given them, too
        tried |= {f"{name}_s2000": {**tried[name], "steps": 2000} for name in ("diffusion", "half_swapped")}
    add(
        f"c2dlm.long.stg_{size.lower()}",
        f"The spurious token game, size {size}, trained to competence",
        "stg",
        tried,
        seeds,
        more["steps"] / 11,
        **{**more, **LONG, "evaluate_every": more["steps"] // 20},
    )

# C2DLM without one of its parts, other alphas, and the graph used otherwise; its default on STG_L is in
# c2dlm.long.stg_l.
PARTS = {"no_schedule": {"gamma_schedule": False}, "query_norm": {"norm_index": "query_as_printed"}}
OTHER_ALPHAS = {f"alpha{alpha}": {"alpha": float(alpha)} for alpha in (2, 3, 4)}  # 5 is the default
AGAIN_OF_PARTS = {  # what the source claims something of; five where three nearly decide
    **dict.fromkeys(("diffusion", "no_v", *OTHER_ALPHAS), 3),
    **dict.fromkeys(("c2dlm", "no_schedule"), 5),
}
for task, guided, others, seeds, more in (
    (
        "sudoku",
        PARTS | OTHER_ALPHAS,
        arms("diffusion", "c2dlm", "no_v", "mutual"),
        1,
        {"train_rows": 200, "steps": 2000, "more_seeds": AGAIN_OF_PARTS},
    ),
    ("stg", PARTS | OTHER_ALPHAS, {}, 5, {**SIZES["L"], "steps": 1000, "maps": False}),
    (
        "cot",
        {"no_schedule": PARTS["no_schedule"]},
        {name: {**changes, "watched": 100} for name, changes in ranked.items()}
        | arms("no_v", "enforced", "ordered"),
        3,
        {"steps": 3000},
    ),
):
    add(
        f"c2dlm.parts.{task}",
        f"C2DLM without one of its parts: {task}",
        task,
        others | {name: {"graph": "causal", **changes} for name, changes in guided.items()},
        seeds,
        more["steps"] / 8,
        NOTEBOOKS["reasoning"],
        **{**more, **LONG, "evaluate_every": AT_THE_END},
    )

# Where guidance pays: the strength of the spurious cue, the number of rows, and what the model is told.
REGIME = {"rows": (400, 1600, 6400), "cue": (0.5, 0.9, 1.0)}
AGAIN = ((400, 0.5), (1600, 0.5))  # (rows, cue) where with seed 0 C2DLM gains most
TOLD = arms("diffusion", "placebo", "c2dlm", "isolated", "half_swapped", "enforced")
MAP = {**SIZES["L"], **LONG, "steps": 1000, "evaluate_every": AT_THE_END, "maps": False}


def on_the_map(name: str, rows: int, cue: float) -> dict[str, dict]:
    """The arm of one cell of the map, by its name."""
    return {f"{name}_n{rows}_cue{round(100 * cue)}": {**TOLD[name], "train_rows": rows, "cue": cue}}


again: dict[str, dict] = {}
for place in AGAIN:
    for name in ("diffusion", "placebo", "c2dlm"):
        again |= on_the_map(name, *place)
cells: dict[str, dict] = {}
for cue in REGIME["cue"]:
    for rows in REGIME["rows"]:
        for name in TOLD:
            cells |= on_the_map(name, rows, cue)
add(
    "c2dlm.regime",
    "The spurious token game by strength of its cue, number of rows and guidance",
    "stg",
    cells,
    1,
    90,
    more_seeds=dict.fromkeys(again, 5),
    **MAP,
)
add(
    "c2dlm.regime.longer",
    "The cells of the map where C2DLM gains, with twice the steps",
    "stg",
    again,
    3,
    200,
    **{**MAP, "steps": 2 * MAP["steps"]},
)


@dataclass(frozen=True)
class TextSettings:
    """Tasks in full text; what only some have is None in others."""

    split_seed: int = 42
    graph: str = "none"
    gamma: float | dict = 1.0
    gamma_schedule: bool = True
    norm_index: str = "key"
    step_rule: str = "no_lookahead"
    lora_rank: int = 8
    lora_targets: list = field(default_factory=lambda: ["q_proj", "k_proj", "v_proj"])
    lora_dropout: float = 0.05
    learning_rate: float = 1e-3
    base_model: str = TINY
    vocabulary: int = 400
    hidden_size: int = 32
    layers: int = 2
    heads: int = 2
    checkpointing: bool = False
    bf16: bool = False
    batch: int = 4
    steps: int = 10
    evaluate_every: int = 10
    train_rows: int = 40
    test_rows: int = 4
    max_length: int = 800
    decode_steps: int = 8


@dataclass(frozen=True)
class CotText(TextSettings):
    """Chains of thought in an order, in full text."""

    task: str = "cot"
    mode: str = "normal"
    scope: str = "result"
    alpha: float = 3.0
    lam: float = 100.0
    gen_length: int = 512
    block_length: int = 512


@dataclass(frozen=True)
class SudokuText(TextSettings):
    """4x4 Sudoku in full text."""

    task: str = "sudoku"
    source: str = "generator"
    blanks: int = 8
    alpha: float = 5.0
    lam: float = 10.0
    gen_length: int = 256
    block_length: int = 32


@dataclass(frozen=True)
class StgText(TextSettings):
    """The spurious token game in full text."""

    task: str = "stg"
    size: str = "L"
    alpha: float = 5.0
    lam: float = 10.0
    gen_length: int = 8
    block_length: int = 8


@dataclass(frozen=True)
class ReasoningText(TextSettings):
    """Reasoning tasks in full text."""

    task: str = "reasoning"
    annotated: str = "synthetic"
    tests: list = field(default_factory=lambda: ["purchases", "kinds"])
    alpha: float = 3.0
    lam: float = 10.0
    gen_length: int = 64
    block_length: int = 32
    shorter: dict = field(default_factory=lambda: {"kinds": 32})


TEXTS = {"cot": CotText(), "sudoku": SudokuText(), "stg": StgText(), "reasoning": ReasoningText()}
PAPER = {
    "base_model": "GSAI-ML/LLaDA-8B-Instruct",
    "lora_rank": 128,
    "learning_rate": 2e-5,
    "bf16": True,
    "checkpointing": True,
    "batch": 8,
}  # batch, rate schedule, gamma, decoding steps: not printed, ours
PAPERS = {  # epochs as printed, where they are: steps = epochs x rows / batch
    "cot": {"train_rows": 2000, "test_rows": 500, "steps": 2500, "max_length": 1024, "decode_steps": 256},
    "sudoku": {
        "source": "file",
        "train_rows": 5000,
        "test_rows": 500,
        "steps": 6250,
        "max_length": 512,
        "decode_steps": 128,
    },
    "stg": {"train_rows": 1600, "test_rows": 400, "steps": 2000, "max_length": 256, "decode_steps": 8},
    "reasoning": {
        "annotated": "data/annotations/s1k.jsonl",
        "train_rows": 686,
        "test_rows": 5000,
        "tests": ["gsm8k", "math500", "gpqa", "mmlu_stem", "arc_c", "sat"],
        "steps": 430,
        "max_length": 1600,
        "gen_length": 512,
        "block_length": 32,
        "decode_steps": 256,
        "shorter": {"gpqa": 32, "mmlu_stem": 32, "arc_c": 32},
    },
}  # five epochs of 686 rows: not printed, ours
TESTED = {
    "cot": {"test": 500},
    "sudoku": {"test": 500},
    "stg": {"iid": 400, "ood": 400},
    "reasoning": {"gsm8k": 1319, "math500": 500, "gpqa": 448, "mmlu_stem": 3153, "arc_c": 1172, "sat": 220},
}  # test rows, for estimates
for task, laptop in TEXTS.items():
    paper = {**PAPER, **PAPERS[task], "evaluate_every": PAPERS[task]["steps"]}
    tried_too = {f"alpha{alpha}": {"graph": "causal", "alpha": float(alpha)} for alpha in (2, 4, 5)}
    tried_too["no_schedule"] = {"graph": "causal", "gamma_schedule": False}
    register(
        Experiment(
            id=f"c2dlm.text.{task}",
            title=f"In full text, with a base by name: {task}",
            run=run_text,
            notebook=NOTEBOOKS["reasoning"],
            arms=arms("diffusion", "c2dlm", "no_v", "placebo") | (tried_too if task == "reasoning" else {}),
            settings={
                "laptop": laptop,
                "quick": {"steps": 2, "evaluate_every": 1, "batch": 2, "train_rows": 6, "test_rows": 2},
                "paper": paper,
            },
            seeds={"quick": 1, "laptop": 1, "paper": 1},
            cost={
                "quick": 3,
                "laptop": 20,
                "paper": seconds({**asdict(laptop), **paper}, TESTED[task])["total"],
            },
            memory={"paper": memory_gib({**asdict(laptop), **paper})["total"]},
        )
    )


@dataclass(frozen=True)
class BaseSettings:
    """The bases, before any task."""

    model: str = "diffusion"
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    steps: int = 8000
    batch: int = 32
    learning_rate: float = 1.5e-3
    evaluate_every: int = 1000
    evaluation_rows: int = 300
    bf16: bool = False


register(
    Experiment(
        id="c2dlm.base",
        title="A small diffusion language model and its autoregressive twin, before any task",
        run=run_base,
        notebook="43_chain_of_thought_order",
        arms={kind: {"model": kind} for kind in ("diffusion", "autoregressive")},
        settings={
            "laptop": BaseSettings(),
            "quick": {
                "hidden_size": 32,
                "layers": 2,
                "heads": 2,
                "steps": 2,
                "batch": 8,
                "evaluate_every": 1,
                "evaluation_rows": 6,
            },
            "gpu": {
                "hidden_size": 512,
                "layers": 10,
                "heads": 8,
                "steps": 20_000,
                "batch": 128,
                "learning_rate": 5e-4,
                "evaluate_every": 2000,
                "bf16": True,
            },
        },
        seeds={"laptop": 1},
        cost={"quick": 4, "laptop": 1000, "gpu": 1500},
    )
)
