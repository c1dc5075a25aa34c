"""What Tables 2 and 3 and Figures 8 and 9 share: experiments, names, signed numbers, and verdicts."""

from causalnb.lab.report import Claim, Contrast, Decided, Ours, Report, Row, claim_rows, higher
from causalnb.lab.statistics import mean_ci

SOURCE = "causal_transformer"
DIRECTIONS = {"EN-DE": f"{SOURCE}.translation.en_de", "DE-EN": f"{SOURCE}.translation.de_en"}
ARMS = {
    "vanilla": "vanilla Transformer",
    "gcn": "GCN value update",
    "loss_encoder": "loss in the encoder",
    "loss_both": "loss in both stacks",
    "both": "GCN and loss in both stacks",
}
SNLI = f"{SOURCE}.snli"
ATTENTIONS = {  # row of Table 3 -> arm ("" where not rebuilt), row in the paper ("" where not printed)
    "full attention": ("full", "Transformer"),
    "relative positions": ("relative", "Transformer-RPR"),
    "Transformer-XL": ("", "Transformer-XL"),
    "Adapted Transformer": ("", "Adapted Transformer"),
    "star mask": ("star", "Star-Transformer"),
    "DA-Transformer": ("", "DA-Transformer"),
    "band mask": ("band", ""),
    "dilated mask": ("dilated", ""),
    "block mask": ("block", ""),
    "random mask": ("random", ""),
    "GCN and loss": ("both", "CausalTransformer"),
}
NAMES = {name: words for words, (name, _) in ATTENTIONS.items() if name}  # arm of SNLI -> row of Table 3


def printed(id: str) -> dict[tuple[str, str], str]:
    """{(row, column): number as printed} of a table of the paper."""
    from causalnb.lab.tables import paper

    return {(line.row, line.column): line.printed for line in paper(f"{SOURCE}.{id}").itertuples()}


def signed(digits: int = 2, scale: float = 1.0):
    """A format of differences times `scale`: "+0.42 [-0.10, +0.94] (3)", mean, 95 % interval and count."""

    def format(values) -> str:
        mean = mean_ci([scale * value for value in values])
        ends = f" [{mean.low:+.{digits}f}, {mean.high:+.{digits}f}]" if mean.half == mean.half else ""
        return f"{mean.mean:+.{digits}f}{ends} ({mean.n})"

    return format


def side(differences) -> str:
    """Whether differences are above 0, below it, or not to be told from it, by their 95 % interval."""
    mean = mean_ci(differences)
    return "above 0" if mean.low > 0 else "below 0" if mean.high < 0 else "not to be told from 0"


def _contrast(claim) -> str:
    names = NAMES if claim["experiment"] == SNLI else ARMS
    ours, theirs = (names.get(name, name) for name in (claim["our_treatment"], claim["our_baseline"]))
    return f"{ours} - {theirs}, {claim['our_metric']}"


def verdict_table(id: str, digits: int = 2, beside: dict[str, Row] | None = None) -> Report:
    """The claims on an artefact: stated size, contrast of paired seeds and verdict, or why there is none.

    beside: {claim: its row} of claims that no stored metric decides.
    """
    return Report(
        f"{id}_verdicts",
        [
            Claim("the paper's claim"),
            Claim("stated", higher),
            Contrast("contrast here", _contrast),
            Ours("ours", digits),
            Decided("verdict"),
        ],
        lambda: claim_rows(SOURCE, id, beside),
        "The paper's claims: difference of paired seeds, mean ± half of the 95 % interval (seeds), "
        "and the verdict by rule",
    )


def excluded_remark(report: Report, profile: str | None = None) -> str:
    """Which stated sizes lie outside the intervals of a `verdict_table`, and which could have been missed."""
    from causalnb.lab.verdicts import claims

    lines, told = claims(SOURCE).set_index("id"), []
    decided = report.verdicts(profile).items()
    for (id, verdict), (_, _, contrast, *_) in zip(decided, report(profile).rows, strict=True):
        if verdict.summary and verdict.size:
            low, high, sign = verdict.summary.low, verdict.summary.high, lines.direction[id]
            most = -low if sign == "-" else high
            told.append(
                f"{contrast}: stated {verdict.size:g} {lines.unit[id]}, the interval ends at {most:+.2f}, so "
                f"that size is {'outside' if most < verdict.size else 'inside'} it."
            )
    return " ".join(told)
