"""What a changed state of one module does to the weights of all, on real training steps."""

from causalnb.lab.report import builds, draw, save
from causalnb.lab.tables import Table

ARMS = {  # arm of iclm.interventions -> how tables call it
    "no_invariant": "no invariant module",
    "no_invariant_mixed": "no invariant module, both domains in a batch",
    "no_invariant_norm": "shared batch normalisation",
    "no_invariant_norm_mixed": "shared batch normalisation, both in a batch",
    "no_invariant_head": "no invariant module, trained shared head",
    "no_invariant_clip": "no invariant module, gradient clipping",
    "no_invariant_soft": "no invariant module, soft routing",
    "invariant": "invariant module",
    "invariant_clip": "invariant module, gradient clipping",
    "invariant_soft": "invariant module, soft routing",
    "information": "mutual information loss",
    "information_clip": "mutual information loss, gradient clipping",
    "do_invariant": "invariant module, whose state is changed",
    "do_invariant_clip": "the same with gradient clipping",
    "paper": "the paper's: information loss, trained head",
    "paper_clip": "the paper's, gradient clipping",
    "later_without": "the paper's without information loss, after 50 steps",
    "later": "the paper's, after 50 steps",
    "later_strong": "the paper's with 10,000 times that loss, after 50 steps",
}


def interventions_table(effects) -> Table:
    """What a changed state did to each part's weights: effects as of `iclm_interventions.measure`."""
    from causalnb.experiments.iclm.interventions import PARTS

    def cell(rows):
        if rows.empty or not rows.change.any():
            return "" if rows.empty else "0"
        moved = 1 + rows[rows.change > 0].step.min()
        return f"{rows.groupby('seed').change.max().mean():.1e} after {moved}"

    rows = []
    for arm, mine in effects.groupby("arm", sort=False):
        apart = mine[mine.separated]
        cells = (cell(mine[mine.part == part]) for part in PARTS.values())
        rows.append([ARMS[arm], *cells, f"{(apart.change > 0).sum()} of {len(apart)}"])
    seeds, steps = effects.seed.nunique(), 1 + effects.step.max()
    return Table(
        "iclm.interventions",
        ["setting", *(part.replace("_", " ") for part in PARTS.values()), "changed though separated"],
        rows,
        "Largest change of any weight when a state, of domain module 0 unless said otherwise, is changed in "
        "one training step",
        f"Within {steps} steps, or 2 after the 50; mean over {seeds} seeds, and steps until the first "
        "change. 0: equal to the run without, bit by bit; empty: there is no such part. Last column: "
        "weights, by part and step, that the graph separates from the intervention, and how many changed.",
    )


def interventions_figure(effects):
    """(figure, alt): a row for each arm, a column for each part and step; colour is the largest change."""
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    from causalnb.experiments.iclm.interventions import PARTS
    from causalnb.lab.figures import headline, text_size

    arms, steps = list(dict.fromkeys(effects.arm)), 1 + effects.step.max()
    columns = [(part, step) for part in PARTS.values() for step in range(steps)]
    cells = effects.groupby(["arm", "part", "step"]).agg({"change": "max", "separated": "all"})
    grid = np.full((len(arms), len(columns)), np.nan)
    there = np.zeros(grid.shape, dtype=bool)
    fig, ax = plt.subplots(figsize=(1.9 + 0.36 * len(columns), 1.5 + 0.27 * len(arms)))
    for (arm, part, step), (change, separated) in cells.iterrows():
        row, column = arms.index(arm), columns.index((part, step))
        grid[row, column] = change if change else np.nan
        there[row, column] = True
        if not change:
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color="white"))
            ax.text(column, row, "0", ha="center", va="center", fontsize=text_size(8))
        if separated:
            ax.add_patch(Rectangle((column - 0.45, row - 0.42), 0.9, 0.84, fill=False, linewidth=1.1))
    for row, column in np.argwhere(~there):
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color="0.8", fill=False, hatch="////", lw=0))
    image = ax.imshow(grid, aspect="auto", norm=LogNorm(), cmap="cividis")
    fig.colorbar(image, label="largest change of a weight")
    ax.set_xticks(range(len(columns)), [step + 1 for _, step in columns], fontsize=text_size(7))
    ax.set_yticks(range(len(arms)), [ARMS[arm] for arm in arms], fontsize=text_size(8))
    for place, part in enumerate(PARTS.values()):
        ax.text(
            steps * (place + 0.5) - 0.5, -0.75, part.replace("_", " "), ha="center", fontsize=text_size(8)
        )
        ax.axvline(steps * place - 0.5, color="black", linewidth=0.8, marker="", linestyle="-")
    ax.set(xlabel="training steps after the change of the state", facecolor="white")
    ax.grid(False)
    apart = cells.separated.astype(bool)
    kept = (cells.change == 0).groupby(apart).sum()
    headline(
        fig,
        f"Exactly 0: {kept.get(True, 0)} of {apart.sum()} cells that the graph separates from the "
        f"changed state, and {kept.get(False, 0)} of the {(~apart).sum()} others",
    )
    still = (
        cells[cells.change == 0]
        .reset_index()
        .groupby("arm")
        .apply(
            lambda rows: ", ".join(
                f"{part} {step + 1}" for part, step in zip(rows.part, rows.step, strict=True)
            )
        )
    )
    told = "; ".join(f"{ARMS[arm]}: {still.get(arm, 'none')}" for arm in arms)
    return fig, (
        "Changes of weights by part and step, cells framed where the graph separates them from the "
        f"intervention. Cells that are exactly 0, by setting: {told}."
    )


@builds(
    "iclm.interventions",
    needs=["iclm.interventions"],
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="31_causal_graphs",
    shows="what a changed state of one module does to the weights of all",
)
def interventions(profile):
    """Interventions on real training steps, beside what the graphs allow."""
    from causalnb.lab import evidence, results

    evidence.require("iclm.interventions", profile)  # or say which are missing
    effects = results.curves("iclm.interventions", profile)
    save(profile, lambda profile: interventions_table(effects))
    made = interventions_figure(effects[~effects.arm.str.startswith("later")])
    caption = (
        "What a changed state did to the weights. Framed cells must be 0 by the graph; grey: there is no "
        "such part."
    )
    draw(profile, "iclm.interventions", made, caption)
