"""Tables and figures of SCI's cost and of its identifiability theorem, made from stored results."""

from causalnb.experiments.sci.identifiability import FACTORS
from causalnb.experiments.sci.overhead import PARTS
from causalnb.lab import evidence
from causalnb.lab.registry import artefact

ROWS = dict(zip(PARTS, ("Structural Encoder", "Content Encoder", "Causal Binding Mechanism"), strict=False))
VERSIONS = {
    "guide": "the guide's code",
    "full": "corrected, d_s = 2048",
    "d1024": "corrected, d_s = 1024",
    "d512": "corrected, d_s = 512",
    "d384": "corrected, d_s = 384",
    "shipped": "as shipped, d_s = 192",
    "d128": "corrected, d_s = 128",
}
SHOWN = ("guide", "full", "shipped")
LOOKS = {"guide": ("vermillion", "-", "X"), "full": ("orange", "--", "s"), "shipped": ("blue", "-.", "o")}
STAGES = {"untrained": "untrained", "brief": "200 steps", "trained": "800 steps"}
PAIRS = {  # what is compared across two encoders, and what the theorem needs
    "mcc": ("MCC across seeds", "near 1"),
    "mcc_rotated": ("MCC of a rotated copy", ""),
    "mcc_shuffled": ("MCC, rows shuffled", ""),
    "slot_mcc": ("MCC, slots matched", "near 1"),
    "procrustes_r2": ("Procrustes R2", ""),
    "linear_r2": ("ridge R2", "near 1"),
    "rsa": ("RSA", ""),
}
ALONE = {
    "cosine_same": ("cosine, same structure", "1"),
    "cosine_different": ("cosine, other structure", "below"),
    "retrieval": ("retrieval@1", "1"),
    "slot_cosine_same": ("cosine by slot, same structure", "1"),
    "slot_cosine_different": ("cosine by slot, other structure", "below"),
    "new_cosine_same": ("new word: cosine, same structure", "1"),
    "new_retrieval": ("new word: retrieval@1", "1"),
}


def overhead(profile: str | None = None):
    """The counts by version, seeds averaged (they are equal): DataFrame, a row per arm."""

    return evidence.require("sci.overhead", profile).groupby("arm").mean(numeric_only=True)


def lengths(profile: str | None = None) -> list[int]:
    """The prompt lengths at which operations are counted."""
    from causalnb.lab import registry

    return registry.config("sci.overhead", "guide", profile)["tokens"]


def cost_table(profile: str | None = None):
    """The guide's table of overhead, beside its code counted and the package as shipped."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate, paper

    found, time = overhead(profile), evidence.require("sci.overhead.time", profile)
    printed = paper("sci.table1").drop_duplicates(["row", "column"]).pivot(
        index="row", columns="column", values="printed"
    )  # fmt: skip
    short, *_, long = lengths(profile)

    def cells(part):
        for arm in SHOWN:
            size, few, many = (
                found.loc[arm, name]
                for name in (f"parameters_{part}", f"flops_{part}_{short}", f"flops_{part}_{long}")
            )
            yield from (f"{size:.2f}M", f"{few:.2f} to {many:.2f} %")

    def said(row):
        return [printed.loc[row, column] for column in ("Additional Parameters", "FLOPS Overhead")]

    rows = [[name, *said(name), *cells(part)] for part, name in ROWS.items()]
    shared = [["", ""], *([f"{found.loc[arm, 'parameters_projection']:.2f}M",
               f"{found.loc[arm, f'flops_projection_{short}']:.2f} to "
               f"{found.loc[arm, f'flops_projection_{long}']:.2f} %"] for arm in SHOWN[1:])]  # fmt: skip
    rows.append(["projection to width d_s", "", "", *(cell for pair in shared for cell in pair)])
    step = f"{estimate(mean_ci(time.step_contrastive), 1)} % of a step's time"
    rows.append(["SCL", *said("SCL"), "0", "", "0", "", "0", step])
    rows.append(["Total", *said("Total"), *cells("total")])
    shares = [cell for arm in SHOWN for cell in (f"{found.loc[arm, 'parameters_share']:.2f} %", "")]
    rows.append(["share of the base", "<1%", "", *shares])
    heads = [head for arm in SHOWN for head in (f"{VERSIONS[arm]}: parameters", "FLOPs")]
    base = found.loc["guide", "parameters_base"]
    return Table(
        "sci.table1",
        ["component", "guide: parameters", "guide: FLOPs", *heads],
        rows,
        f"Overhead on a base of {base:,.1f} million parameters; FLOPs of a forward as a share of the base's, "
        f"for prompts of {short} to {long} tokens",
        "All tokens are prompt, so the encoders read all of them, in every version; batch 1. The content "
        "encoder shares the base's embedding; a second table, as the guide's code has it, adds "
        f"{found.loc['guide', 'parameters_second_embedding']:.1f}M. The guide gives no prompt length. FLOPs "
        "are those of matrix products; elementwise functions and the projector's solve are not counted.",
    )


def lengths_table(profile: str | None = None):
    """Parameters, and operations by prompt length, for every version and width."""
    from causalnb.lab.tables import Table

    found, tokens = overhead(profile), lengths(profile)
    rows = [
        [name, f"{found.loc[arm, 'parameters_total']:.2f}M", f"{found.loc[arm, 'parameters_share']:.2f} %"]
        + [f"{found.loc[arm, f'flops_total_{count}']:.2f} %" for count in tokens]
        for arm, name in VERSIONS.items()
    ]
    rows.append(["the guide prints", "~10M", "<1 %", *["15-20 %"] * len(tokens)])
    return Table(
        "sci.table1_lengths",
        ["version", "parameters", "share", *(f"FLOPs, {count} tokens" for count in tokens)],
        rows,
        "What SCI adds, by width and prompt length",
    )


def time_table(profile: str | None = None):
    """Step times and what SCI adds to them, in percent."""
    from causalnb.lab import registry
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    found = evidence.require("sci.overhead.time", profile)
    config = registry.config("sci.overhead.time", "timed", profile)

    def row(what, before, after, name):
        return [
            what,
            *(f"{found[f'{column}_ms'].mean():.1f}" for column in (before, after)),
            f"{estimate(mean_ci(found[name]), 1)} %",
        ]

    step = f"training step, {config['rows']} x {config['row_tokens']} tokens"
    return Table(
        "sci.table1_time",
        ["what", "before (ms)", "after (ms)", "added"],
        [
            row(f"{step}: plain, SCI", "step_plain", "step_sci", "step_sci"),
            row(f"{step}: SCI, with contrastive loss", "step_sci", "step_contrastive", "step_contrastive"),
            row(f"{step}: plain, SCI with contrastive loss", "step_plain", "step_contrastive", "step_both"),
            row(
                f"prompt of {config['prompt_tokens']} and first token: plain, SCI",
                "first_token_plain",
                "first_token_sci",
                "first_token_sci",
            ),
            row("each further token, cached: plain, SCI", "token_plain", "token_sci", "token_sci"),
        ],
        f"Time on a decoder of width {config['hidden_size']} with {config['layers']} layers; "
        f"{config['prompt_tokens']} tokens of a row are prompt",
        "CPU time of one thread, in turn in one process; the median over turns of the ratio, then mean ± "
        f"half of the 95 % interval (runs). SCI adds {found.parameters_share.mean():.1f} % parameters to "
        "this small decoder. Milliseconds are this machine's.",
    )


def verdict_table(artefact_id: str, profile: str | None = None):
    """The claims that one artefact decides: contrast and verdict."""
    from causalnb.lab.tables import Table
    from causalnb.lab.verdicts import claims, decide

    rows = []
    for _, claim in claims("sci").query("artefact == @artefact_id").iterrows():
        verdict = decide(claim, profile)
        contrast = f"{claim.treatment} - {claim.baseline} ({claim.metric})"
        rows.append([claim.claim, contrast, verdict.summary, verdict])
    return Table(
        f"{artefact_id}_verdicts",
        ["the guide's claim", "contrast", "ours", "verdict"],
        rows,
        "The guide's claims and what was measured: difference, mean ± half of the 95 % interval (seeds)",
    )


def cost_figure(profile: str | None = None):
    """(figure, alt): parameters by component on a log scale, and FLOPs against prompt length."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.tables import paper

    found, tokens = overhead(profile), lengths(profile)
    printed = paper("sci.table1").query("column == 'Additional Parameters'").set_index("row")["value"]
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), width_ratios=[1.25, 1])
    names = [*ROWS.items(), ("total", "Total")]
    places, told = np.arange(len(names))[::-1], []
    stated = [printed[name] for _, name in names]
    look = {"color": "black", "linewidth": 3, "zorder": 3, "label": "the guide prints"}
    left.vlines(stated, places - 0.3, places + 0.3, **look)
    for shift, arm in zip((0.22, 0, -0.22), SHOWN, strict=False):
        colour, line, marker = LOOKS[arm]
        values = [found.loc[arm, f"parameters_{part}"] for part, _ in names]
        look, label = {"color": COLOURS[colour]}, VERSIONS[arm]
        left.hlines(places + shift, stated, values, linestyle=line, linewidth=1, zorder=1, **look)
        left.scatter(values, places + shift, marker=marker, s=45, label=label, zorder=2, **look)
        told.append(f"{label} {values[-1]:.1f} million")
        shares = [found.loc[arm, f"flops_total_{count}"] for count in tokens]
        right.plot(tokens, shares, linestyle=line, marker=marker, **look)
    left.set_yticks(places, [name for _, name in names])
    left.set(xscale="log", xlabel="added parameters (millions)", ylim=(-0.5, len(names) - 0.5))
    left.xaxis.set_major_formatter("{x:g}")
    left.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2, fontsize=8)
    right.axhspan(15, 20, color="0.8", zorder=0)
    right.text(tokens[-1], 17.3, "printed: 15-20 %", ha="right", va="center", fontsize=8)
    right.set(xscale="log", yscale="log", xlabel="tokens of the prompt", ylabel="added FLOPs (% of the base)")
    right.set_xticks(tokens, tokens)
    right.minorticks_off()
    right.yaxis.set_major_formatter("{x:g}")
    ends = "; ".join(
        f"{VERSIONS[arm]} {found.loc[arm, f'flops_total_{tokens[0]}']:.2f} % at {tokens[0]} tokens and "
        f"{found.loc[arm, f'flops_total_{tokens[-1]}']:.2f} % at {tokens[-1]}"
        for arm in SHOWN
    )
    return fig, (
        "Left, added parameters by component on a logarithmic axis, with a black bar where the guide's "
        f"number is; totals: printed {printed['Total']:.0f} million, {', '.join(told)}. Right, added "
        f"FLOPs against prompt length, with the guide's 15 to 20 % as a grey band: {ends}."
    )


@artefact("sci.table1", needs=("sci.overhead", "sci.overhead.time"))
def table1(profile):
    """Expected computational overhead: counts, times, verdicts, and a figure."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    for table in (cost_table, lengths_table, time_table):
        save_table(table(profile))
    save_table(verdict_table("sci.table1", profile))
    fig, alt = cost_figure(profile)
    save_figure(fig, "sci.table1", alt=alt, caption="What SCI adds to TinyLlama, printed and counted.")


def stages(profile: str | None = None) -> dict:
    """{stage: DataFrame} of SCAN encoders, a row per pair of seeds."""

    main = evidence.require("sci.identifiability", profile)
    brief = evidence.require("sci.identifiability.brief", profile)
    return {
        "untrained": main[main.arm == "scan_untrained"],
        "brief": brief,
        "trained": main[main.arm == "scan"],
    }


def theorem_table(profile: str | None = None):
    """Every measure, what the theorem needs, and what was measured: SCAN by training, and English."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    main = evidence.require("sci.identifiability", profile)
    english = {arm: main[main.arm == arm] for arm in ("english_untrained", "english")}
    frames = [*stages(profile).values(), *english.values()]

    def cell(found, name):
        return mean_ci(found[name]) if found[name].notna().all() else None

    rows = [
        [title, needed, *(cell(found, name) for found in frames)]
        for name, (title, needed) in {**ALONE, **PAIRS}.items()
    ]
    heads = [*(f"SCAN, {name}" for name in STAGES.values()), "English, untrained", "English, 800 steps"]
    return Table(
        "sci.theorem",
        ["measure on unseen structures (new word: on trained ones)", "the theorem needs", *heads],
        rows,
        "Encoders trained with the contrastive loss alone: mean ± half of the 95 % interval (pairs of seeds)",
        "The first block concerns each encoder, the second two encoders that differ in their seed. A new "
        "word was trained in one frame and is tested in others, which were trained with other words. "
        "R2 is measured on structures that the map was not fitted on.",
    )


def probes_table(profile: str | None = None):
    """What linear probes read from the mean slot and from all slots, beside chance."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    main, rows = evidence.require("sci.identifiability", profile), []
    for task, title, content in (("scan", "SCAN", "first verb"), ("english", "English", "first noun")):
        before, after = main[main.arm == f"{task}_untrained"], main[main.arm == task]
        for name in (*FACTORS[task], "content"):
            shown = f"content: {content}" if name == "content" else f"structure: {name}"
            columns = [f"probe_{name}_mean", f"probe_{name}_slots"]
            rows.append(
                [title, shown, mean_ci(after[f"chance_{name}"])]
                + [mean_ci(found[column]) for found in (before, after) for column in columns]
            )
    return Table(
        "sci.theorem_probes",
        ["task", "what is read", "commonest", *(f"{when}, {place}" for when in ("untrained", "trained")
                                                for place in ("mean slot", "all slots"))],
        rows,
        "Accuracy of linear probes on unseen structures: mean ± half of the 95 % interval (pairs of seeds)",
    )  # fmt: skip


def theorem_figure(profile: str | None = None):
    """(figure, alt): agreement of two encoders against training, and what probes read from the slots."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS
    from causalnb.lab.statistics import mean_ci

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), width_ratios=[1, 1.1])
    by_stage, told = stages(profile), []
    for name, label, colour, line, marker in (
        ("retrieval", "retrieval@1, each encoder", "green", "-", "D"),
        ("linear_r2", "ridge R2 across seeds", "sky", "--", "s"),
        ("mcc_rotated", "MCC of a rotated copy", "black", ":", "v"),
        ("mcc", "MCC across seeds", "vermillion", "-", "o"),
        ("mcc_shuffled", "MCC, rows shuffled", "purple", "-.", "^"),
    ):
        summaries = [mean_ci(found[name]) for found in by_stage.values()]
        left.errorbar(
            range(len(STAGES)),
            [one.mean for one in summaries],
            yerr=np.nan_to_num([one.half for one in summaries]),
            color=COLOURS[colour],
            linestyle=line,
            marker=marker,
            capsize=2,
            label=label,
        )
        told.append(f"{label} {', '.join(f'{one.mean:.2f}' for one in summaries)}")
    left.axhline(1, color="0.5", linewidth=1)
    left.text(1.5, 0.975, "MCC that the theorem needs", ha="center", va="top", fontsize=8)
    left.set_xticks(range(len(STAGES)), STAGES.values())
    left.set(ylim=(-0.03, 1.05), ylabel="on unseen SCAN structures")
    left.set_xlabel("training with the contrastive loss")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=8)
    main = evidence.require("sci.identifiability", profile)
    names = [(task, name) for task in FACTORS for name in (*FACTORS[task], "content")]
    places, read = np.arange(len(names))[::-1], []
    looks = (("_untrained", "untrained", "orange", "s"), ("", "trained", "blue", "o"))
    for end, label, colour, marker in looks:
        values = [main[main.arm == task + end][f"probe_{name}_slots"].mean() for task, name in names]
        right.scatter(values, places, color=COLOURS[colour], marker=marker, s=38, label=label, zorder=3)
        numbers = (f"{task} {name} {value:.2f}" for (task, name), value in zip(names, values, strict=False))
        read.append(f"{label}: {', '.join(numbers)}")
    chance = [main[main.arm == task][f"chance_{name}"].mean() for task, name in names]
    bar = {"color": "black", "marker": "|", "s": 160, "linewidths": 2, "zorder": 2}
    right.scatter(chance, places, label="commonest label", **bar)
    for place, (_, name) in zip(places, names, strict=False):
        if name == "content":
            right.axhspan(place - 0.45, place + 0.45, color="0.9", zorder=0)
    titles = {"scan": "SCAN", "english": "English"}
    right.set_yticks(places, [f"{titles[task]}: {name}" for task, name in names], fontsize=8)
    right.set(xlim=(-0.03, 1.05), xlabel="accuracy of a linear probe on the slots")
    right.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3, fontsize=8)
    return fig, (
        f"Left, at {', '.join(STAGES.values())}: {'; '.join(told)}. Right, accuracy of probes on the slots, "
        f"content rows shaded. {'; '.join(read)}."
    )


@artefact("sci.theorem", needs=("sci.identifiability", "sci.identifiability.brief"))
def theorem(profile):
    """The identifiability theorem: agreement across seeds, probes, verdicts and a figure."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    for table in (theorem_table, probes_table):
        save_table(table(profile))
    save_table(verdict_table("sci.theorem", profile))
    fig, alt = theorem_figure(profile)
    save_figure(
        fig,
        "sci.theorem",
        alt=alt,
        caption="Left: what encoders of two seeds share, mean and 95 % interval. Right: what S(x) tells.",
    )
