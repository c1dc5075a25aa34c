"""Tables and figures of SCI, made from stored results."""

from causalnb.lab.registry import artefact

ARMS = {"plain": "plain decoder", "plain_labels": "plain + labels", "sci": "SCI"}
LOOKS = {"plain": ("black", ":", "o"), "plain_labels": ("orange", "--", "s"), "sci": ("blue", "-", "^")}
SPLITS = {"simple": "simple (random split)", "add_prim_jump": "add_prim_jump (new verb)"}

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
    from causalnb.lab import results
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    found = results.require("sci.components", profile)

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

    from causalnb.lab import results
    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    found, leak = results.require("sci.components", profile), results.require("sci.leak", profile)
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


def scan_table(profile: str | None = None):
    """Exact match by split and model, forced and decoded, and how invariant the compared states are."""
    from causalnb.lab import results
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    columns = {
        "exact_match": "test exact match",
        "greedy_exact_match": "decoded (sample)",
        "validation_exact_match": "validation",
        "cosine_same": "cosine same",
        "cosine_different": "cosine different",
        "structure_retrieval": "retrieval@1",
    }
    rows = []
    for split, title in SPLITS.items():
        found = results.require(f"sci.scan.{split}", profile)
        for arm, name in ARMS.items():
            rows.append([title, name, *(mean_ci(found[found.arm == arm][metric]) for metric in columns)])
    return Table(
        "sci.scan",
        ["split", "model", *columns.values()],
        rows,
        "SCAN: mean ± half of the 95 % interval (seeds)",
        "The guide prints no accuracy. Cosines and retrieval compare a test command with training commands "
        "of the "
        "same and of other structures, on the mean slot (SCI) or the last state at the prompt's end.",
    )


def _contrast(claim) -> str:
    """What a row of claims.csv compares, in words."""
    ours, _, theirs = claim.our_metric.partition("|")
    if theirs and claim.our_treatment == claim.our_baseline:
        return f"{ours} - {theirs} of {claim.our_treatment}"
    return f"{ours} of {claim.our_treatment} - {theirs or ours} of {claim.our_baseline}"


def verdict_table(profile: str | None = None):
    """The guide's claims that these runs decide: contrast over paired seeds and verdict."""
    from causalnb.lab.tables import Table
    from causalnb.lab.verdicts import claims, decide

    decided = [
        (row, decide(row, profile)) for _, row in claims("sci").iterrows() if isinstance(row.experiment, str)
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
        "sci.scan_verdicts",
        ["the guide's claim", "contrast", "guide", "ours", "verdict"],
        rows,
        "The guide's claims and what was measured: difference of paired seeds, mean ± half of the 95 % "
        "interval (seeds)",
    )


def scan_figure(profile: str | None = None):
    """(figure, alt): exact match in training, on test (bands span the seeds) and on validation (thin)."""
    import matplotlib.pyplot as plt

    from causalnb.lab import results
    from causalnb.lab.figures import COLOURS

    fig, axes = plt.subplots(1, 2, figsize=(9.0, 3.5), sharey=True)
    told = []
    for ax, (split, title) in zip(axes, SPLITS.items(), strict=True):
        results.require(f"sci.scan.{split}", profile)
        found = results.curves(f"sci.scan.{split}", profile)
        for arm, name in ARMS.items():
            colour, line, marker = LOOKS[arm]
            by_step = found[found.arm == arm].groupby("step")
            mean, low, high = (by_step["test_sample"].agg(how) for how in ("mean", "min", "max"))
            validation = by_step["validation"].mean()
            look = {"color": COLOURS[colour], "linestyle": line}
            ax.fill_between(mean.index, low, high, color=look["color"], alpha=0.1, linewidth=0)
            ax.plot(mean.index, mean, marker=marker, markevery=2, label=name, **look)
            if split != "simple":  # there, validation and test are one distribution
                ax.plot(mean.index, validation, linewidth=0.9, marker="", alpha=0.8, **look)
            told.append(
                f"{name} on {split} ends at {mean.iloc[-1]:.2f} (validation {validation.iloc[-1]:.2f})"
            )
        ax.set_title(title)
        ax.set_xlabel("training step")
    axes[0].set_ylabel("exact match")
    axes[0].legend(loc="lower right")
    for height, text in (
        (0.6, "thin: held-out commands\nof the training kind"),
        (0.06, "test: 'jump' in compositions"),
    ):
        axes[1].text(0.98, height, text, transform=axes[1].transAxes, ha="right", va="bottom", fontsize=9)
    return fig, "Exact match against training step, two panels by split. " + "; ".join(told) + "."


@artefact(
    "sci.scan",
    needs=("sci.scan.simple", "sci.scan.add_prim_jump"),
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="SCI, a plain decoder and the labels control on SCAN",
    notebook="21_sci_scan",
)
def scan(profile):
    """SCAN by split and model: table, verdicts and learning curves."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(scan_table(profile))
    save_table(verdict_table(profile))
    fig, alt = scan_figure(profile)
    save_figure(
        fig,
        "sci.scan",
        alt=alt,
        caption="Learning curves; bands span the seeds, thin lines are held-out commands "
        "from the training distribution.",
    )


def search_table(profile: str | None = None):
    """The learning-rate search on another held-out verb, the same for every arm."""
    from statistics import mean

    from causalnb.lab import registry, results
    from causalnb.lab.tables import Table

    found = results.require("sci.scan.search", profile)
    rows, by_rate = [], {}
    for arm in registry.arms("sci.scan.search"):
        row, config = found[found.arm == arm].iloc[0], registry.config("sci.scan.search", arm, profile)
        rate = f"{config['learning_rate']:g}"
        rows.append([ARMS[config["model"]], rate, row.validation_exact_match, row.exact_match])
        by_rate.setdefault(rate, []).append(row.validation_exact_match)
    means = ", ".join(f"{rate}: {mean(values):.4f}" for rate, values in by_rate.items())
    used = registry.config("sci.scan.add_prim_jump", "sci", profile)["learning_rate"]
    return Table(
        "sci.search",
        ["model", "learning rate", "validation", "'look' in new compositions"],
        rows,
        "Exact match in the search for a learning rate: another verb held out, one seed",
        f"Mean validation over the models by rate: {means}. One rate serves all models: {used:g}.",
    )


@artefact(
    "sci.search",
    needs=("sci.scan.search",),
    extra=True,
    printed_as="ours",
    kind="measured",
    shows="the learning rate, searched on another verb",
    notebook="21_sci_scan",
)
def search(profile):
    """The search for a learning rate as a table."""
    from causalnb.lab.tables import save_table

    save_table(search_table(profile))
