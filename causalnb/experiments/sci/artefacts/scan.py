"""Tables and figures of SCI, made from stored results."""

from causalnb.lab import evidence
from causalnb.lab.registry import artefact

ARMS = {"plain": "plain decoder", "plain_labels": "plain + labels", "sci": "SCI"}
LOOKS = {"plain": ("black", ":", "o"), "plain_labels": ("orange", "--", "s"), "sci": ("blue", "-", "^")}
SPLITS = {
    "simple": "simple (random split)",
    "add_prim_jump": "add_prim_jump (new verb)",
    "add_prim_turn_left": "add_prim_turn_left (new turn)",
    "template_around_right": "around_right (new phrase)",
    "length": "length (longer answers)",
}
SEPARATED = "SCI separated (ours)"
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
# row of the guide's table -> (arm, what stands for it here)
CONTRASTS = {
    "Information Bottleneck": ("information_bottleneck", "slots with noise and a KL penalty"),
    "Slot Attention": ("slot_attention", "slots that compete for tokens, 3 rounds"),
    "Relational Attention": ("relational_attention", "attention to symbols, by relations alone"),
    "CausalVAE": ("causal_vae", "noisy factors mixed by a learned DAG"),
    "Construction Grammar NNs": ("construction_templates", "a table of the grammar's structures"),
}

# finding -> (what is measured, what it should be)
FINDINGS = {
    "word_order": ("S(x) moves when words are reordered", "well above rounding"),
    "neighbour_in_batch": ("sample 0 moves when sample 1 changes (K = N)", "0"),
    "base_disturbed": ("hidden states move at step 0", "0"),
    "cycles": ("NOTEARS h of the edges", "0"),
    "held_slot_drift": ("a slot drifts from the value do() gave it", "0"),
    "effect_upstream": ("setting a slot moves the slots before it", "0"),
    "content_on_slots": ("largest |cosine| of projected content and a slot", "0"),
    "anchors_with_positives": ("share of rows with a positive in a batch of 64", "large"),
}


def findings_table(profile: str | None = None):
    """Each finding: the guide's version beside the corrected one, mean and interval over seeds."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    found = evidence.require("sci.components", profile)

    def cell(version, finding):
        summary = mean_ci(found[f"{version}.{finding}"])
        half = f" ± {summary.half:.1g}" if summary.half > 0 else ""
        return f"{summary.mean:.2g}{half} ({summary.n})"

    rows = [
        [what, should, cell("guide", finding), cell("corrected", finding)]
        for finding, (what, should) in FINDINGS.items()
    ]
    return Table(
        "sci.components",
        ["measured on random weights", "should be", "the guide's", "corrected"],
        rows,
        "The guide's components and the corrected ones: mean ± half of the 95 % interval (seeds)",
    )


def findings_figure(profile: str | None = None):
    """(figure, alt): each finding as a pair of dots, and the answer leak, forced against decoded match."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    found, leak = evidence.require("sci.components", profile), evidence.require("sci.leak", profile)
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), width_ratios=[1.75, 1])
    places = np.arange(len(FINDINGS))[::-1]
    looks = (
        ("guide", COLOURS["vermillion"], "X", "the guide's"),
        ("corrected", COLOURS["blue"], "o", "corrected"),
    )
    values = {
        version: [found[f"{version}.{finding}"].mean() for finding in FINDINGS] for version, *_ in looks
    }
    left.hlines(places, values["guide"], values["corrected"], color="0.7", zorder=1)
    for version, colour, marker, label in looks:
        left.scatter(values[version], places, color=colour, marker=marker, s=42, label=label, zorder=2)
    left.set_xscale("symlog", linthresh=1e-6, linscale=0.6)
    left.set_xticks([0, 1e-5, 1e-3, 1e-1, 10], ["0", r"$10^{-5}$", r"$10^{-3}$", r"$10^{-1}$", "10"])
    left.set_yticks(
        places, [f"{what}\n(should be {should})" for what, should in FINDINGS.values()], fontsize=7.5
    )
    left.set_xlabel("measured (relative size, h, cosine or share)")
    left.set_title("on random weights", fontsize=9, loc="left")
    left.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8, borderaxespad=0)
    for place, arm in enumerate(("prompt_and_answer", "prompt")):
        rows = leak[leak.arm == arm]
        for shift, metric, colour, hatch, label in (
            (-0.2, "forced_exact_match", "sky", "", "answer given (forced)"),
            (0.2, "greedy_exact_match", "green", "//", "decoded (greedy)"),
        ):
            summary = mean_ci(rows[metric])
            right.bar(
                place + shift,
                summary.mean,
                0.38,
                yerr=np.nan_to_num(summary.half),
                color=COLOURS[colour],
                hatch=hatch,
                edgecolor="black",
                capsize=3,
                label=label if place == 0 else None,
            )
    right.set_xticks([0, 1], ["prompt and\nanswer (guide)", "prompt\nonly"])
    right.set_xlabel("the encoders see")
    right.set_ylabel("exact match on held-out commands")
    right.set_title("after training", fontsize=9, loc="left")
    right.set_ylim(0, 1.3)
    right.set_yticks(np.linspace(0, 1, 6))
    right.legend(loc="upper center", fontsize=8)
    means = leak.groupby("arm")[["forced_exact_match", "greedy_exact_match"]].mean()
    dots = "; ".join(
        f"{what}: {values['guide'][place]:.1g} and {values['corrected'][place]:.1g}"
        for place, (what, _) in enumerate(FINDINGS.values())
    )
    bars = "; ".join(
        f"encoders see {arm.replace('_', ' ')}: forced {row.iloc[0]:.2f}, greedy {row.iloc[1]:.2f}"
        for arm, row in means.iterrows()
    )
    return fig, f"Left, a cross for the guide's version, a dot for the corrected one. {dots}. Right, {bars}."


@artefact("sci.components", needs=("sci.components", "sci.leak"))
def components(profile):
    """Components 1-4: the findings as a table and a figure."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(findings_table(profile))
    fig, alt = findings_figure(profile)
    save_figure(
        fig,
        "sci.components",
        alt=alt,
        caption="What the guide's pseudocode does, and what its corrected form does.",
    )


MEASURED = {
    "exact_match": "test exact match",
    "greedy_exact_match": "decoded (sample)",
    "validation_exact_match": "validation",
    "cosine_same": "cosine same",
    "cosine_different": "cosine different",
    "structure_retrieval": "retrieval@1",
}


def _means(found, arm: str, metrics=tuple(MEASURED)) -> list:
    """mean_ci over the seeds of an arm, for each metric; "-" for one that has nothing to compare."""
    from causalnb.lab.statistics import mean_ci

    rows = found[found.arm == arm]
    return [mean_ci(rows[metric]) if rows[metric].notna().any() else "-" for metric in metrics]


def _arms(split: str) -> list[str]:
    """Those of ARMS that are trained on a split."""
    from causalnb.lab import registry

    return [arm for arm in ARMS if arm in registry.arms(f"sci.scan.{split}")]


def scan_table(profile: str | None = None):
    """Exact match by split and model, forced and decoded, and how invariant the compared states are."""
    from causalnb.lab.tables import Table

    rows = []
    for split, title in SPLITS.items():
        arms = _arms(split)
        found = evidence.require(f"sci.scan.{split}", profile, arms)
        rows += [[title, ARMS[arm], *_means(found, arm)] for arm in arms]
    return Table(
        "sci.scan",
        ["split", "model", *MEASURED.values()],
        rows,
        "SCAN: mean ± half of the 95 % interval (seeds)",
        "The guide prints no accuracy. Cosines and retrieval compare a test command with training commands "
        "of the same and of other structures, on the mean slot (SCI) or the last state at the prompt's end; "
        "where no structure is shared there is nothing to compare.",
    )


def _contrast(claim) -> str:
    """What a row of claims.csv compares, in words."""
    ours, _, theirs = claim.our_metric.partition("|")
    if theirs and claim.our_treatment == claim.our_baseline:
        return f"{ours} - {theirs} of {claim.our_treatment}"
    return f"{ours} of {claim.our_treatment} - {theirs or ours} of {claim.our_baseline}"


def verdict_table(profile: str | None = None, artefacts: tuple[str, ...] = ()):
    """The guide's claims, or those on some artefacts: contrast of paired seeds and verdict."""
    from causalnb.lab.tables import Table
    from causalnb.lab.verdicts import claims, decide

    decided = [
        (row, decide(row, profile))
        for _, row in claims("sci").iterrows()
        if isinstance(row.experiment, str) and (not artefacts or row.artefact in artefacts)
    ]
    rows = [
        [
            row.claim,
            f"{row.experiment}: {_contrast(row)}",
            "no number printed",
            verdict.summary,
            verdict,
        ]
        for row, verdict in decided
    ]
    return Table(
        "sci.verdicts",
        ["the guide's claim", "contrast", "guide", "ours", "verdict"],
        rows,
        "The guide's claims and what was measured: difference of paired seeds, mean ± half of the 95 % "
        "interval (seeds)",
    )


def scan_figure(profile: str | None = None):
    """(figure, alt): learning curves on add_prim_jump (thin: validation), and exact match on every split."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab import results
    from causalnb.lab.figures import COLOURS

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7), width_ratios=[1, 1.15])
    evidence.require("sci.scan.add_prim_jump", profile, ARMS)
    found, told = results.curves("sci.scan.add_prim_jump", profile, ARMS), []
    for arm, name in ARMS.items():
        colour, line, marker = LOOKS[arm]
        by_step = found[found.arm == arm].groupby("step")
        mean, low, high = (by_step["test_sample"].agg(how) for how in ("mean", "min", "max"))
        validation = by_step["validation"].mean()
        look = {"color": COLOURS[colour], "linestyle": line}
        left.fill_between(mean.index, low, high, color=look["color"], alpha=0.1, linewidth=0)
        left.plot(mean.index, mean, marker=marker, markevery=2, label=name, **look)
        left.plot(mean.index, validation, linewidth=0.9, marker="", alpha=0.8, **look)
        told.append(f"{name} ends at {mean.iloc[-1]:.2f} (validation {validation.iloc[-1]:.2f})")
    left.set(xlabel="training step", ylabel="exact match", title="add_prim_jump")
    left.legend(loc="center right", bbox_to_anchor=(1, 0.32), fontsize=8)
    for height, text in (
        (0.46, "thin: held-out commands\nof the training kind"),
        (0.06, "test: 'jump' composed"),
    ):
        left.text(0.98, height, text, transform=left.transAxes, ha="right", va="bottom", fontsize=8)
    places, dots = np.arange(len(SPLITS))[::-1], []
    for shift, (arm, name) in zip((0.2, 0.0, -0.2), ARMS.items(), strict=True):
        colour, _, marker = LOOKS[arm]
        for place, split in zip(places, SPLITS, strict=False):
            if arm not in _arms(split):
                continue
            stored = evidence.require(f"sci.scan.{split}", profile, [arm])
            (summary,) = _means(stored, arm, ("exact_match",))
            right.errorbar(
                summary.mean,
                place + shift,
                xerr=np.nan_to_num(summary.half),
                color=COLOURS[colour],
                marker=marker,
                linestyle="",
                capsize=2,
            )
            dots.append(f"{name} on {split} {summary.mean:.3f}")
    right.set_yticks(places, SPLITS.values(), fontsize=8)
    right.set(xlim=(-0.06, 1.06), xlabel="exact match on the test set", title="all splits")
    return fig, (
        "Left, exact match against training step on add_prim_jump: "
        f"{'; '.join(told)}. Right, final exact match by split: {'; '.join(dots)}."
    )


@artefact(
    "sci.scan",
    needs=tuple(f"sci.scan.{split}" for split in SPLITS),
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="SCI, a plain decoder and the labels control on SCAN",
    notebook="21_sci_scan",
)
def scan(profile):
    """SCAN by split and model: table and learning curves."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(scan_table(profile))
    fig, alt = scan_figure(profile)
    save_figure(
        fig,
        "sci.scan",
        alt=alt,
        caption="Left: bands span the seeds, thin lines are held-out commands from the training "
        "distribution. Right: mean and 95 % interval over seeds.",
    )


@artefact(
    "sci.verdicts",
    needs=(
        *(f"sci.scan.{split}" for split in SPLITS),
        "sci.leak",
        "sci.ablations",
        "sci.contrasts",
        "sci.overhead",
        "sci.overhead.time",
        "sci.identifiability",
    ),
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="every claim of the guide with its contrast and verdict",
    notebook="21_sci_scan",
)
def verdicts(profile):
    """The guide's claims, each with what decides it."""
    from causalnb.lab.tables import save_table

    save_table(verdict_table(profile))


def contrasts_table(profile: str | None = None):
    """The guide's table of alternatives, each implemented and trained like SCI on add_prim_jump."""
    from causalnb.lab.tables import Table, printed

    guide = printed("sci_table2").pivot(index="row", columns="column", values="printed")
    ours, main = (
        evidence.require("sci.contrasts", profile),
        evidence.require("sci.scan.add_prim_jump", profile),
    )
    metrics = ("exact_match", "validation_exact_match", "structure_retrieval")
    rows = [
        [name, guide.loc[name, "What It Does"], guide.loc[name, "Why SCI Is Different"], how]
        + _means(ours, arm, metrics)
        for name, (arm, how) in CONTRASTS.items()
    ]
    for arm, name in {**ARMS, "sci_separated": SEPARATED}.items():
        rows.append([name, "", "", "the same decoder, data and steps", *_means(main, arm, metrics)])
    return Table(
        "sci.table2",
        ["approach", "what it does (guide)", "why SCI is different (guide)", "here", "exact match on jump",
         "validation", "retrieval@1"],
        rows,
        "Why this is different: the alternatives on add_prim_jump; mean ± half of the 95 % interval (seeds)",
        "The guide prints words only. The first four get no structure labels; the fifth is given them as its "
        "constructions. The plain decoder with SCI's labels is the control for the labels.",
    )  # fmt: skip


@artefact("sci.table2", needs=("sci.contrasts", "sci.scan.add_prim_jump"))
def contrasts(profile):
    """The guide's table of alternatives with numbers."""
    from causalnb.lab.tables import save_table

    save_table(contrasts_table(profile))


def ablations_table(profile: str | None = None):
    """SCI and its extension with one part removed each, the guide's own model, and augmentation."""
    from causalnb.lab.tables import Table

    found = evidence.require("sci.ablations", profile)
    main = evidence.require("sci.scan.add_prim_jump", profile)
    metrics = ("exact_match", "greedy_exact_match", "validation_exact_match", "structure_retrieval")
    whole = {"sci": "SCI, whole", "sci_separated": SEPARATED}
    rows = [[name, *_means(main, arm, metrics)] for arm, name in whole.items()]
    rows += [[name, *_means(found, arm, metrics)] for arm, name in ABLATIONS.items()]
    return Table(
        "sci.ablations",
        ["model", *(MEASURED[metric] for metric in metrics)],
        rows,
        "add_prim_jump with one part removed: mean ± half of the 95 % interval (seeds)",
        "Encoders that see the answer make every column but the decoded one unfair.",
    )


def ablations_figure(profile: str | None = None):
    """(figure, alt): invariance beside composition on add_prim_jump, a row for every model trained there."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS

    families = (
        ("sci.scan.add_prim_jump", {**ARMS, "sci_separated": SEPARATED}, "black", "s", "main models"),
        ("sci.ablations", ABLATIONS, "vermillion", "o", "ablations and controls"),
        ("sci.contrasts", {arm: name for name, (arm, _) in CONTRASTS.items()}, "blue", "^", "contrasts"),
    )
    points = []
    for experiment, arms, colour, marker, family in families:
        found = evidence.require(experiment, profile)
        for arm, name in arms.items():
            across, up = (s.mean for s in _means(found, arm, ("structure_retrieval", "greedy_exact_match")))
            points.append((across, up, name, (COLOURS[colour], marker, family)))
    points.sort(key=lambda point: (point[1] > 0.5, point[0]))
    fig, axes = plt.subplots(1, 2, figsize=(6.9, 4.1), sharey=True)
    for height, (across, up, _, (colour, marker, family)) in enumerate(points):
        for ax, value in zip(axes, (across, up), strict=True):
            ax.hlines(height, 0, value, color="0.8", linewidth=1, zorder=1)
            look = {"color": colour, "marker": marker, "label": family}
            ax.scatter(value, height, s=40, zorder=3, clip_on=False, **look)
    axes[0].set_yticks(range(len(points)), [name for _, _, name, _ in points], fontsize=6.5)
    axes[0].set(xlim=(0, 1.02), xlabel="retrieval@1 of the same structure", title="invariance")
    axes[1].set(xlim=(0, 1.02), xlabel="decoded exact match on 'jump'", title="composition")
    labels = dict(zip(*reversed(axes[1].get_legend_handles_labels()), strict=True))
    axes[1].legend(labels.values(), labels.keys(), loc="center right", fontsize=8)
    told = "; ".join(f"{name}: {across:.2f}, {up:.2f}" for across, up, name, _ in points)
    return fig, f"Retrieval of the same structure, and beside it decoded exact match on jump. {told}."


@artefact(
    "sci.ablations",
    needs=("sci.ablations", "sci.contrasts", "sci.scan.add_prim_jump"),
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="what each part of SCI, and of the extension, contributes on add_prim_jump",
    notebook="21_sci_scan",
)
def ablations(profile):
    """SCI taken apart: table, and invariance against composition."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(ablations_table(profile))
    fig, alt = ablations_figure(profile)
    save_figure(
        fig,
        "sci.ablations",
        alt=alt,
        caption="Every model trained on add_prim_jump: how invariant its states are, and how it composes.",
    )


def search_table(profile: str | None = None):
    """The search on another held-out verb: a learning rate for every arm, and the extension's settings."""
    from statistics import mean

    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    main, rows, by_rate = "sci.scan.add_prim_jump", [], {}
    found = evidence.require("sci.scan.search", profile)
    for arm in registry.arms("sci.scan.search"):
        row, config = found[found.arm == arm].iloc[0], registry.config("sci.scan.search", arm, profile)
        used = registry.config(main, config["model"], profile)
        rate = f"{config['learning_rate']:g}"
        changed = [
            f"{name.replace('_', ' ')} {config[name]:g}"
            for name in ("invariance_weight", "abstraction_noise", "structural_slots")
            if config[name] != used[name]
        ]
        name = {**ARMS, "sci_separated": SEPARATED}[config["model"]]
        rows.append([", ".join([name, *changed]), rate, row.validation_exact_match, row.exact_match])
        if not changed:
            by_rate.setdefault(rate, []).append(row.validation_exact_match)
    means = ", ".join(f"{rate}: {mean(values):.4f}" for rate, values in by_rate.items())
    return Table(
        "sci.search",
        ["model", "learning rate", "validation", "'look' in new compositions"],
        rows,
        "Exact match in the search for settings: another verb held out, one seed",
        f"Mean validation over the models by rate: {means}. One rate serves all models: "
        f"{used['learning_rate']:g}. SCI uses {registry.config(main, 'sci', profile)['structural_slots']} "
        f"slots; the extension {used['structural_slots']}, invariance weight {used['invariance_weight']:g} "
        f"and noise {used['abstraction_noise']:g}.",
    )


@artefact(
    "sci.search",
    needs=("sci.scan.search",),
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="learning rate and settings, searched on another verb",
    notebook="21_sci_scan",
)
def search(profile):
    """The search for settings as a table."""
    from causalnb.lab.tables import save_table

    save_table(search_table(profile))
