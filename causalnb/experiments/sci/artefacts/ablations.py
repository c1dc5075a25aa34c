"""SCI and its extension with one part removed each, the guide's own model, and augmentation."""

from causalnb.experiments.sci.artefacts.names import EXTRA, JUMP, WHOLE, WITH_OURS, scores
from causalnb.experiments.sci.artefacts.table2 import CONTRASTS
from causalnb.lab.report import Report, Row, arm, builds, draw

ABLATIONS = {
    "guide": "the guide's own model",
    "no_contrastive": "SCI without contrastive loss",
    "no_binding": "SCI without content and binding",
    "no_abstraction": "SCI without abstraction layer",
    "no_content_encoder": "SCI without content encoder",
    "no_leak_control": "SCI without leak control",
    "augmentation": "plain + 100 invented verbs",
    "separated_no_invariance": "separated, no invariance loss",
    "separated_no_contrastive": "separated, no contrastive loss",
    "separated_no_noise": "separated, no noise",
    "separated_4_slots": "separated, four slots",
    "separated_pairs_by_structure": "separated, pairs by structure",
}
ablations_table = Report(
    "sci.ablations",
    [
        "model",
        *scores("exact_match", "greedy_exact_match", "validation_exact_match", "structure_retrieval"),
    ],
    [
        Row("SCI, whole", arm(JUMP, "sci")),
        Row(WITH_OURS[WHOLE], arm(JUMP, WHOLE)),
        *(Row(title, arm("sci.ablations", name)) for name, title in ABLATIONS.items()),
    ],
    "add_prim_jump with one part removed: mean ± half of the 95 % interval (seeds)",
    "Encoders that see the answer make every column but the decoded one unfair.",
)
FAMILIES = (
    (JUMP, WITH_OURS, "black", "s", "main models"),
    ("sci.ablations", ABLATIONS, "vermillion", "o", "ablations and controls"),
    ("sci.contrasts", {name: row for row, (name, _) in CONTRASTS.items()}, "blue", "^", "contrasts"),
)


def ablations_figure(profile: str | None = None):
    """(figure, alt): invariance beside composition on add_prim_jump, a row for every model trained there."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, headline, text_size

    points = []
    for experiment, arms, colour, marker, family in FAMILIES:
        look = {"color": COLOURS[colour], "marker": marker, "label": family}
        for name, title in arms.items():
            value = arm(experiment, name)
            across, up = (
                value.summary(metric, profile).mean
                for metric in ("structure_retrieval", "greedy_exact_match")
            )
            points.append((across, up, title, look))
    points.sort(key=lambda point: (point[1] > 0.5, point[0]))
    fig, axes = plt.subplots(1, 2, figsize=(6.9, 4.3), sharey=True)
    for height, (*pair, _, look) in enumerate(points):
        for ax, value in zip(axes, pair, strict=True):
            ax.hlines(height, 0, value, color="0.8", linewidth=1, zorder=1)
            ax.scatter(value, height, s=40, zorder=3, clip_on=False, **look)
    axes[0].set_yticks(range(len(points)), [title for _, _, title, _ in points], fontsize=text_size(6.5))
    axes[0].set(xlim=(0, 1.02), xlabel="retrieval@1 of the same structure", title="invariance")
    axes[1].set(xlim=(0, 1.02), xlabel="decoded exact match on 'jump'", title="composition")
    labels = dict(zip(*reversed(axes[1].get_legend_handles_labels()), strict=True))
    axes[1].legend(labels.values(), labels.keys(), loc="center right", fontsize=text_size(8))
    invariant = [up for across, up, *_ in points if across > 0.9]
    headline(
        fig,
        f"Of {len(invariant)} models that find the same structure in more than 90 % of cases, "
        f"{sum(up > 0.5 for up in invariant)} compose more than half of the commands",
    )
    listed = "; ".join(f"{title}: {across:.2f}, {up:.2f}" for across, up, title, _ in points)
    return fig, f"Retrieval of the same structure, and beside it decoded exact match on jump. {listed}."


@builds(
    "sci.ablations",
    ablations_table,
    needs=("sci.contrasts",),
    **EXTRA,
    shows="what each part of SCI, and of the extension, contributes on add_prim_jump",
    notebook="21_sci_scan",
)
def ablations(profile):
    """SCI taken apart: table, and invariance against composition."""
    caption = "Every model trained on add_prim_jump: how invariant its states are, and how it composes."
    draw(profile, "sci.ablations", ablations_figure(profile), caption)
