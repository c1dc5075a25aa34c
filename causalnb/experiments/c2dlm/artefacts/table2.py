"""Table 2 of C2DLM: the normal order with and without guidance, its controls, and our two extensions."""

from causalnb.experiments.c2dlm.artefacts import chains
from causalnb.experiments.c2dlm.artefacts.chains import LARGE, NORMAL, PARTS, SPED
from causalnb.lab.report import Against, Measured, Printed, Report, Row, arm, builds, cell
from causalnb.lab.statistics import Summary, mean_ci

LOOKED_AT = {"causes": "its causes", "against": "what breaks the order", "others": "all else"}
CHOSEN = "C2DLM, γ = 3, best on the development draw"
METRIC = "{way}test_%s"  # way: "ranked_" where the same model is decoded in the order of the graph


def _rows():
    said = {name: cell("c2dlm.table2", "{value:.1f}", row=name) for name in (LARGE, "C2DLM")}
    left = cell("c2dlm.table1", "{value:.1f}", row="Llama-3.1-8B", column="Normal COT")
    plain, filled = arm(NORMAL, "diffusion"), arm(NORMAL, "diffusion", way="ranked_")
    yield Row("diffusion (SFT)", plain, said[LARGE])
    yield Row("C2DLM", arm(NORMAL, "c2dlm"), said["C2DLM"], against=plain)
    yield Row(CHOSEN, arm(NORMAL, "c2dlm_gamma3"), said["C2DLM"], against=plain)
    yield Row("C2DLM, placebo graph", arm(NORMAL, "placebo"), against=plain)
    yield Row("autoregressive, half the steps", arm(NORMAL, "autoregressive"), left, against=plain)
    yield Row("diffusion (SFT), filled in order (ours)", filled, against=plain)
    yield Row("C2DLM, filled in order (ours)", arm(NORMAL, "c2dlm", way="ranked_"), against=filled)
    plain, filled = arm(PARTS, "diffusion"), arm(PARTS, "diffusion", way="ranked_")
    yield Row("half the steps: diffusion (SFT)", plain)
    yield Row("half the steps: C2DLM", arm(PARTS, "c2dlm"), against=plain)
    yield Row("half the steps: C2DLM without values", arm(PARTS, "no_v"), against=plain)
    yield Row("half the steps: graph enforced, at test too (ours)", arm(PARTS, "enforced"), against=plain)
    yield Row("half the steps: ordered noise, filled in order (ours)", arm(PARTS, "ordered"), against=filled)


def _shortcuts(profile):
    for name, share in chains.step_shortcuts(*chains.inputs(profile)).items():
        yield [name, "", "", "", f"{100 * share:.1f}", ""]


def _notes(profile):
    guided, plain = (float(cell("c2dlm.table2", "{value}", row=name)()) for name in ("C2DLM", LARGE))
    return (
        f"The paper's gain is {guided - plain:.1f} points with one seed; its autoregressive model is "
        "Llama-3.1-8B. The last column pairs seeds, with plain diffusion of as many steps, filled in order "
        "where the row is. Rows that do not say so are decoded by low confidence. The last two rows are "
        "shortcuts, and read no causes."
    )


guidance = Report(
    "c2dlm.table2",
    [
        "normal order",
        Printed("paper, exact"),
        *(Measured(head, METRIC % name) for name, head in SPED.items()),
        Against("exact, minus SFT", METRIC % "exact"),
    ],
    lambda: [*_rows(), _shortcuts],
    "Normal order, % of 500 test inputs; ours: mean ± half of the 95 % interval (seeds)",
    _notes,
)


def gains(profile: str | None = None) -> dict[str, dict[str, Summary]]:
    """{row of Table 2: {score: its paired difference, in points, from what it is compared with}}."""
    pairs = {row.label: row.value - row.against for row in _rows() if row.against}
    return {
        label: {name: mean_ci([100 * one for one in gap.of(METRIC % name, profile)]) for name in SPED}
        for label, gap in pairs.items()
    }


attention = Report(
    "c2dlm.table2_attention",
    ["normal order", *(Measured(head, f"flow_weighted_{name}") for name, head in LOOKED_AT.items())],
    [Row(name, arm(PARTS, made)) for name, made in (("diffusion (SFT)", "diffusion"), ("C2DLM", "c2dlm"))],
    "Where the steps look: share of a step's attention, weighted by value norms, in %",
    "Mean over layers, heads and tokens of noised training texts; ± half of the 95 % interval (seeds). The "
    "loss asks for the first and penalises the second.",
)


@builds("c2dlm.table2", guidance, attention)
def table2(profile):
    """The normal order with and without guidance."""
