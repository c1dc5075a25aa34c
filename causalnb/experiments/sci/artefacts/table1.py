"""Expected computational overhead: the guide's table beside its code counted and the package as shipped."""

from causalnb.experiments.sci.artefacts.verdicts import claims_on
from causalnb.experiments.sci.overhead import PARTS
from causalnb.lab import evidence, registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, draw, number, save
from causalnb.lab.statistics import mean_ci

OVERHEAD, TIME = "sci.overhead", "sci.overhead.time"
TIMED = arm(TIME, "timed")
COMPONENTS = "Structural Encoder", "Content Encoder", "Causal Binding Mechanism"
ROWS = dict(zip(PARTS, COMPONENTS, strict=True))
VERSIONS = {
    "guide": "the guide's code",
    "full": "corrected, d_s = 2048",
    "d1024": "corrected, d_s = 1024",
    "d512": "corrected, d_s = 512",
    "d384": "corrected, d_s = 384",
    "shipped": "as shipped, d_s = 192",
    "d128": "corrected, d_s = 128",
}
LOOKS = {"guide": ("vermillion", "-", "X"), "full": ("orange", "--", "s"), "shipped": ("blue", "-.", "o")}


def overhead(profile: str | None = None):
    """The counts by version, seeds averaged (they are equal): DataFrame, a row per arm."""
    return evidence.require(OVERHEAD, profile).groupby("arm").mean(numeric_only=True)


def lengths(profile: str | None = None) -> list[int]:
    """The prompt lengths at which operations are counted."""
    return registry.config(OVERHEAD, "guide", profile)["tokens"]


def cost_table(profile: str | None = None):
    """The guide's table of overhead, beside its code counted and the package as shipped."""
    from causalnb.lab.tables import Table, paper

    counts, (short, *_, long) = overhead(profile), lengths(profile)
    printed = paper("sci.table1").drop_duplicates(["row", "column"]).set_index(["row", "column"]).printed

    def said(name):
        return [printed[name, column] for column in ("Additional Parameters", "FLOPS Overhead")]

    def counted(part):
        for version in LOOKS:
            size, few, many = counts.loc[
                version, [f"parameters_{part}", f"flops_{part}_{short}", f"flops_{part}_{long}"]
            ]
            yield from (f"{size:.2f}M", f"{few:.2f} to {many:.2f} %")

    step = number(1)(TIMED.of("step_contrastive", profile))
    rows = [[name, *said(name), *counted(part)] for part, name in ROWS.items()]
    rows += [
        ["projection to width d_s", "", "", "", "", *[*counted("projection")][2:]],  # the guide has none
        ["SCL", *said("SCL"), "0", "", "0", "", "0", f"{step} % of a step's time"],
        ["Total", *said("Total"), *counted("total")],
    ]
    shares = [cell for name in LOOKS for cell in (f"{counts.loc[name, 'parameters_share']:.2f} %", "")]
    heads = [head for name in LOOKS for head in (f"{VERSIONS[name]}: parameters", "FLOPs")]
    base, second = (counts.loc["guide", f"parameters_{name}"] for name in ("base", "second_embedding"))
    return Table(
        "sci.table1",
        ["component", "guide: parameters", "guide: FLOPs", *heads],
        [*rows, ["share of the base", "<1%", "", *shares]],
        f"Overhead on a base of {base:,.1f} million parameters; FLOPs of a forward as a share of the base's, "
        f"for prompts of {short} to {long} tokens",
        "All tokens are prompt, so the encoders read all of them, in every version; batch 1. The content "
        "encoder shares the base's embedding; a second table, as the guide's code has it, adds "
        f"{second:.1f}M. The guide gives no prompt length. FLOPs "
        "are those of matrix products; elementwise functions and the projector's solve are not counted.",
    )


def lengths_table(profile: str | None = None):
    """Parameters, and operations by prompt length, for every version and width."""
    from causalnb.lab.tables import Table

    counts, tokens = overhead(profile), lengths(profile)
    names = ["parameters_share", *(f"flops_total_{count}" for count in tokens)]
    rows = [
        [title, f"{counts.loc[version, 'parameters_total']:.2f}M"]
        + [f"{counts.loc[version, name]:.2f} %" for name in names]
        for version, title in VERSIONS.items()
    ]
    return Table(
        "sci.table1_lengths",
        ["version", "parameters", "share", *(f"FLOPs, {count} tokens" for count in tokens)],
        [*rows, ["the guide prints", "~10M", "<1 %", *["15-20 %"] * len(tokens)]],
        "What SCI adds, by width and prompt length",
    )


def _timed(text: str):
    """`text` with the settings of the timed runs, as a function of the profile."""
    return lambda profile=None: text.format_map(registry.config(TIME, "timed", profile))


STEP = "training step, {rows} x {row_tokens} tokens: "
TIMES = (  # what; before, after and their ratio, as the experiment measures them
    (STEP + "plain, SCI", "step_plain", "step_sci", "step_sci"),
    (STEP + "SCI, with contrastive loss", "step_sci", "step_contrastive", "step_contrastive"),
    (STEP + "plain, SCI with contrastive loss", "step_plain", "step_contrastive", "step_both"),
    (
        "prompt of {prompt_tokens} and first token: plain, SCI",
        "first_token_plain",
        "first_token_sci",
        "first_token_sci",
    ),
    ("each further token, cached: plain, SCI", "token_plain", "token_sci", "token_sci"),
)


def _mean(values) -> str:
    return f"{mean_ci(values).mean:.1f}"


def _notes(profile: str | None = None) -> str:
    return (
        "CPU time of one thread, in turn in one process; the median over turns of the ratio, then mean ± "
        f"half of the 95 % interval (runs). SCI adds {_mean(TIMED.of('parameters_share', profile))} % "
        "parameters to this small decoder. Milliseconds are this machine's."
    )


time_table = Report(
    "sci.table1_time",
    [
        "what",
        Measured("before (ms)", "{before}_ms", _mean),
        Measured("after (ms)", "{after}_ms", _mean),
        Measured("added", "{ratio}", lambda values: f"{number(1)(values)} %"),
    ],
    [
        Row(_timed(text), arm(TIME, "timed", before=before, after=after, ratio=ratio))
        for text, before, after, ratio in TIMES
    ],
    _timed(
        "Time on a decoder of width {hidden_size} with {layers} layers; {prompt_tokens} tokens of a row are "
        "prompt"
    ),
    _notes,
)


def cost_figure(profile: str | None = None):
    """(figure, alt): parameters by component on a log scale, and FLOPs against prompt length."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS, headline, text_size
    from causalnb.lab.tables import paper

    counts, tokens = overhead(profile), lengths(profile)
    printed = paper("sci.table1").query("column == 'Additional Parameters'").set_index("row")["value"]
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), width_ratios=[1.25, 1])
    names = ROWS | {"total": "Total"}
    places = np.arange(len(names))[::-1]
    stated = [printed[name] for name in names.values()]
    look = {"color": "black", "linewidth": 3, "zorder": 3, "label": "the guide prints"}
    left.vlines(stated, places - 0.3, places + 0.3, **look)
    totals, ends = [], []
    for shift, (version, (colour, line, marker)) in zip((0.22, 0, -0.22), LOOKS.items(), strict=True):
        values = [counts.loc[version, f"parameters_{part}"] for part in names]
        look, label = {"color": COLOURS[colour]}, VERSIONS[version]
        left.hlines(places + shift, stated, values, linestyle=line, linewidth=1, zorder=1, **look)
        left.scatter(values, places + shift, marker=marker, s=45, label=label, zorder=2, **look)
        totals.append(f"{values[-1]:.1f} ({label})")
        shares = [counts.loc[version, f"flops_total_{count}"] for count in tokens]
        right.plot(tokens, shares, linestyle=line, marker=marker, **look)
        ends.append(
            f"{label}: {shares[0]:.2f} % at {tokens[0]} tokens and {shares[-1]:.2f} % at {tokens[-1]}"
        )
    told = f"{printed['Total']:.0f} (printed), {', '.join(totals)}"
    headline(fig, f"Millions of added parameters: {told}")
    left.set_yticks(places, names.values())
    left.set(xscale="log", xlabel="added parameters (millions)", ylim=(-0.5, len(names) - 0.5))
    left.xaxis.set_major_formatter("{x:g}")
    left.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2, fontsize=text_size(8))
    right.axhspan(15, 20, color="0.8", zorder=0)
    right.text(tokens[-1], 17.3, "printed: 15-20 %", ha="right", va="center", fontsize=text_size(8))
    right.set(xscale="log", yscale="log", xlabel="tokens of the prompt", ylabel="added FLOPs (% of the base)")
    right.set_xticks(tokens, tokens)
    right.minorticks_off()
    right.yaxis.set_major_formatter("{x:g}")
    return fig, (
        "Left, added parameters by component on a logarithmic axis, with a black bar where the guide's "
        f"number is; totals in millions: {told}. Right, added FLOPs against prompt length, with the guide's "
        f"15 to 20 % as a grey band: {'; '.join(ends)}."
    )


@builds("sci.table1", needs=(OVERHEAD, TIME))
def table1(profile):
    """Expected computational overhead: counts, times, verdicts, and a figure."""
    save(profile, cost_table, lengths_table, time_table, claims_on("sci.table1"))
    draw(profile, "sci.table1", cost_figure(profile), "What SCI adds to TinyLlama, printed and counted.")
