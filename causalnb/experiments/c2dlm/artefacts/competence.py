"""Whether the baselines can do their tasks: development scores before, at and after the steps used."""

from functools import partial

from causalnb.experiments.c2dlm.artefacts.games import NAMES, PAPER
from causalnb.experiments.c2dlm.curves import draw_curve
from causalnb.lab import evidence, registry, results
from causalnb.lab.report import Arm, Measured, Report, Row, arm, builds, cell, draw, save
from causalnb.lab.tables import Table
from causalnb.tasks.stg import SIZES

LLADA = PAPER["diffusion"]
SUDOKU, COT, STG = "c2dlm.curves.sudoku", "c2dlm.curves.cot", "c2dlm.curves.stg"
FORMULAS, SAME = (
    "c2dlm.curves.formulas",
    "diffusion_n2000_s3000",
)  # an arm of the chains with their rules, too
# task -> curves, where it is trained for the tables, rows, measure, what the source's baseline has
TASKS = {
    "Sudoku, 200 puzzles": (
        SUDOKU,
        "c2dlm.long.sudoku_n200",
        200,
        "test_cells",
        {"diffusion": cell("c2dlm.table3", "{printed}", row=LLADA, column="n=200")},
    ),
    "Sudoku, 5,000 puzzles": (
        SUDOKU,
        "c2dlm.long.sudoku_n5000",
        5000,
        "test_cells",
        {"diffusion": cell("c2dlm.table3", "{printed}", row=LLADA, column="n=5000")},
    ),
    "chain of thought, normal order": (
        COT,
        "c2dlm.long.cot",
        2000,
        "test_exact",
        {
            "diffusion": cell("c2dlm.table1", "{value:.1f}", row=LLADA, column="Normal COT"),
            "autoregressive": cell("c2dlm.table1", "{value:.1f}", row="Llama-3.1-8B", column="Normal COT"),
        },
    ),
} | {
    f"spurious token game {size}, i.i.d.": (
        f"{STG}{'' if size == 'L' else f'_{size.lower()}'}",
        f"c2dlm.long.stg_{size.lower()}",
        rows,
        "iid_accuracy",
        {
            name: cell("c2dlm.table4", "{value:.1f}", row=model, group=f"STG_{size}", column="IID")
            for name, model in (("diffusion", LLADA), ("autoregressive", "Llama-3.1-8B"))
        },
    )
    for size, rows in SIZES.items()
}
MODELS = ("autoregressive", "diffusion", "c2dlm")
PANELS = {  # title -> curves, validation measure, arms
    "Sudoku, 200 puzzles": (
        SUDOKU,
        "cells",
        {
            "autoregressive": "autoregressive_n200_s4000",
            "diffusion": "diffusion_n200_s8000",
            "c2dlm": "c2dlm_n200_s8000",
        },
    ),
    "Sudoku, 5,000 puzzles": (
        SUDOKU,
        "cells",
        {
            "autoregressive": "autoregressive_n5000_s2000",
            "diffusion": "diffusion_n5000_s4000",
            "c2dlm": "c2dlm_n5000_s4000",
        },
    ),
    "chains, 2,000 inputs": (
        COT,
        "exact",
        {
            "autoregressive": "autoregressive_n2000_s6000",
            "diffusion": "diffusion_n2000_s12000",
            "c2dlm": "c2dlm_n2000_s6000",
        },
    ),
    "chains, 9,000 inputs": (
        COT,
        "exact",
        {
            "autoregressive": "autoregressive_n9000_s6000",
            "diffusion": "diffusion_n9000_s6000",
            "c2dlm": "c2dlm_n9000_s6000",
        },
    ),
}
TRIED = {  # heading -> curves, size and steps of their arms, measure
    "Sudoku, 200 puzzles": (SUDOKU, "_n200_s2000", "test_cells"),
    "chain of thought": (COT, "_n2000_s3000", "test_exact"),
    "token game L, i.i.d.": (STG, "_n1600_s1000", "iid_accuracy"),
    "token game L, o.o.d.": (STG, "_n1600_s1000", "ood_accuracy"),
}
LOOKS = {
    "autoregressive": ("orange", ":", "D"),
    "diffusion": ("black", "--", "s"),
    "c2dlm": ("blue", "-", "o"),
}


def scores(profile: str | None = None) -> list[dict]:
    """A dict for each task and model: its curve's score at half the steps used, at them, and at twice."""
    rows = []
    for task, (home, used, n, measure, printed) in TASKS.items():
        known = registry.arms(home)
        for model in MODELS:
            if model not in registry.arms(used):
                continue
            steps = registry.config(used, model, "laptop")["steps"]
            tried = {
                name: f"{model}_n{n}_s{number}"
                for name, number in (("half", steps // 2), ("used", steps), ("twice", 2 * steps))
            }
            tried = {name: its for name, its in tried.items() if its in known}
            lines = evidence.require(home, profile, tried.values()).set_index("arm")[measure]
            found = {name: 100 * float(lines[its]) for name, its in tried.items()}
            rows.append(
                {"task": task, "model": model, "steps": steps, **found, "printed": printed.get(model)}
            )
    return rows


def competence(profile: str | None = None) -> Table:
    """What the models reach on development draws, and whether twice the steps would have given more."""

    def shown(row, name: str) -> str:
        return f"{row[name]:.1f}" if name in row else "not run"

    rows = [
        [row["task"], NAMES[row["model"]], f"{row['steps']:,}"]
        + [shown(row, name) for name in ("half", "used", "twice")]
        + [row["printed"]() if row["printed"] else ""]
        for row in scores(profile)
        if any(name in row for name in ("half", "used", "twice"))
    ]
    return Table(
        "c2dlm.competence",
        ["task", "model", "steps used", "at half of them", "at them", "at twice", "the source's baseline"],
        rows,
        "Can the models do the task? Percent right on a development draw, one seed, from random weights",
        "Each score is of a run of its own, whose rate falls to 0 at its end. The steps used in the tables "
        "are chosen here, never on the rows of a test. Sudoku: empty cells; chain: the answer. Sudoku and "
        "the token game are notebook 44's; our Sudoku draw has puzzles with one solution only, the source's "
        "has others, too.",
    )


def curves_figure(profile: str | None = None):
    """(figure, alt): validation scores of the longest runs, a panel for each task."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import headline

    fig, axes = plt.subplots(1, len(PANELS), figsize=(9.4, 3.1))
    told, ranges = [], []
    for ax, (title, (home, measure, arms)) in zip(axes, PANELS.items(), strict=True):
        evidence.require(home, profile, arms.values())
        history, ends = results.curves(home, profile, arms.values()), []
        for model, name in arms.items():
            end = draw_curve(ax, history[history.arm == name], measure, 1, NAMES[model], *LOOKS[model])
            told.append(f"{title}, {NAMES[model]} ends at {end:.2f}")
            ends.append(end)
        ranges.append(f"{title} {min(ends):.2f} to {max(ends):.2f}")
        ax.set(title=title, xlabel="training step", ylim=(0, 1.03))
        ax.locator_params(axis="x", nbins=4)
    headline(fig, f"Share right at the end, lowest to highest model: {'; '.join(ranges)}")
    axes[0].set_ylabel("share right")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig, f"Learning curves on development draws, one seed. {'; '.join(told)}."


def _with(home: str, size: str, model: str, **wanted) -> Arm | None:
    """The arm of some curves that has a model's name and these settings, None where none was run."""
    for name in registry.arms(home):
        config = registry.config(home, name, "laptop")
        if name.startswith(model) and name.endswith(size) and wanted.items() <= config.items():
            return arm(home, name)
    return None


def _tried():
    for model, rate, gamma in (
        *((model, rate, None) for model in ("autoregressive", "diffusion") for rate in (1e-3, 3e-3)),
        *(("c2dlm", 1e-3, gamma) for gamma in (0.3, 1.0, 3.0)),
        ("c2dlm", 3e-3, 1.0),
    ):
        wanted = {"learning_rate": rate, "pretrained": False} | ({} if gamma is None else {"gamma": gamma})
        arms = {head: _with(home, size, model, **wanted) for head, (home, size, _) in TRIED.items()}
        label = NAMES[model], f"{rate:g}", "" if gamma is None else f"{gamma:g}"
        yield Row(label, {head: its for head, its in arms.items() if its})


tried = Report(
    "c2dlm.competence_tried",
    [
        "model",
        "learning rate",
        "γ",
        *(Measured(head, measure) for head, (_, _, measure) in TRIED.items()),
    ],
    _tried,
    "Learning rates and weights of the guidance on a development draw: percent right, one seed",
    "Sudoku: empty cells; chain: the answer. In the tables all models have 0.001, and C2DLM γ = 0.3 on "
    "Sudoku and the token game, 1 on the chain of thought. Steps here: "
    + ", ".join(f"{head} {int(size.rpartition('_s')[2]):,}" for head, (_, size, _) in TRIED.items())
    + ".",
)


def _with_rules():
    for label, home in (("its name and number", COT), ("its name, rule and number", FORMULAS)):

        def setting(name, profile=None, home=home):
            return f"{registry.config(home, SAME, profile)[name]:,}"

        yield Row((label, partial(setting, "gen_length"), partial(setting, "batch")), arm(home, SAME))


formulas = Report(
    "c2dlm.competence_formulas",
    [
        "a step of the chain is",
        "tokens",
        "rows an update",
        Measured("answers, %", "test_exact"),
        Measured("steps, %", "test_steps"),
    ],
    _with_rules,
    "The chain as appendix C.1 prints it, with the rule in each step, and without it: SFT, 2,000 inputs",
    "Percent right on a development draw, one seed, after 3,000 updates from random weights.",
)


@builds(
    "c2dlm.competence",
    tried,
    formulas,
    needs=tuple(dict.fromkeys(home for home, *_ in TASKS.values())),
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="learning curves on development draws, and whether the models can do their tasks",
    notebook="43_chain_of_thought_order",
)
def build_competence(profile):
    """How long the models must train, and what they then can do."""
    save(profile, competence)
    caption = "Validation scores during training on development draws, one seed, from random weights."
    draw(profile, "c2dlm.competence", curves_figure(profile), caption)
