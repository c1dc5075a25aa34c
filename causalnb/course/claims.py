"""Every claim of the sources with its verdict, as rows of a page and as the page."""

import re
import sys
from html import escape
from typing import NamedTuple

from causalnb.errors import LabError, sentence
from causalnb.lab import evidence, manifest, registry, report, verdicts

BESIDE = re.compile(r"^(?P<why>.*\b(decided|settled|counted|computed|differentiated)\b.*)$")
HEADINGS = ("claim", "source", "stated", "ours", "verdict", "where")


class Judged(NamedTuple):
    """A claim with the word beside it; `artefact`: the table or figure it is about."""

    id: str
    source: str
    claim: str
    stated: str
    ours: str
    seeds: str
    verdict: str
    why: str
    artefact: str
    printed_as: str
    notebook: str


def judged(profile: str = "laptop") -> list[Judged]:
    """All claims of data/paper/claims.csv: as a table of the course decides them, else as their row says.

    A claim that is decided apart from the rule is said to be, with the place.
    """
    items = {item.id: item for item in registry.artefacts(extras=True)}
    with evidence.stored_only(), evidence.unchanged():
        decided = _by_reports(profile)
        return [
            _judged(claim, _verdict(claim, decided, profile), items)
            for claim in verdicts.claims().itertuples()
        ]


def _by_reports(profile: str) -> dict[str, verdicts.Verdict]:
    """{claim: Verdict} of the claims that are rows of a declared table."""
    registry.load_all()
    modules = [
        module for name, module in sorted(sys.modules.items()) if name.startswith("causalnb.experiments.")
    ]
    reports = {id(part): part for module in modules for part in vars(module).values()}
    found: dict[str, verdicts.Verdict] = {}
    for table in reports.values():
        if isinstance(table, report.Report):
            for claim, verdict in table.verdicts(profile, strict=False).items():
                if verdict is not None:
                    found.setdefault(claim, verdict)
    return found


def _verdict(claim, decided: dict, profile: str) -> verdicts.Verdict:
    try:
        return decided.get(claim.id) or verdicts.decide(claim, profile)
    except LabError as error:
        return verdicts.not_attempted(sentence(error))


def _judged(claim, verdict: verdicts.Verdict, items: dict) -> Judged:
    label = "beside its table" if BESIDE.match(verdict.why) else verdict.label
    sign = {"+": "+", "-": "−"}.get(str(claim.direction), "")
    unit = "" if claim.unit != claim.unit else str(claim.unit)
    stated = (
        f"{sign}{claim.size:g} {unit}".strip()
        if claim.size == claim.size
        else {"+": "more", "-": "less"}.get(str(claim.direction), "")
    )
    summary = verdict.summary
    digits = 1 if unit == "pp" else 3
    ours = (
        ""
        if summary is None
        else f"{summary.mean:.{digits}f} ± {summary.half:.{digits}f} {unit}".strip().replace("-", "−")
    )
    artefact = claim.artefact if isinstance(claim.artefact, str) else ""
    item = items.get(artefact)
    named, notebook = (item.printed_as, item.notebook) if item else ("", "")
    seeds = "" if summary is None else str(summary.n)
    return Judged(
        claim.id,
        claim.source,
        claim.claim,
        stated,
        ours,
        seeds,
        label,
        verdict.why,
        artefact,
        named,
        notebook,
    )


def page(rows: list[Judged], names: dict[str, str]) -> str:
    """The rows as Markdown around an HTML table that filters by source and verdict; `names` of sources."""
    kinds = [
        label for label in (*verdicts.LABELS, "beside its table") if any(row.verdict == label for row in rows)
    ]
    counts = ", ".join(f"{sum(row.verdict == kind for row in rows)} {kind}" for kind in kinds)
    lines = [
        "# Results: every claim and its verdict\n",
        f"The four sources make {len(rows)} claims that can be checked: {counts}. A verdict follows from a "
        "rule ([notebook 00](notebooks/00_start_here.ipynb) has it), at the scale of the models here: at "
        "most 1.6 million parameters. *Ours*: the mean over seeds and half of its 95 % interval. *Beside its "
        "table*: decided by another rule than an interval over seeds, in the notebook that is named.\n",
        '<div class="claims">',
        '<form class="filters" aria-label="Filter the claims">',
        _choice("source", "source", {"": "all sources", **names}),
        _choice("verdict", "verdict", {"": "all verdicts", **{kind: kind for kind in kinds}}),
        '<output id="claims-shown" aria-live="polite"></output>',
        "</form>",
        '<div class="wide" tabindex="0" role="region" aria-label="Claims">',
        "<table><thead><tr>"
        + "".join(f'<th scope="col">{head}</th>' for head in HEADINGS)
        + "</tr></thead><tbody>",
    ]
    lines += [_row(row, names) for row in rows]
    return "\n".join([*lines, "</tbody></table>", "</div>", "</div>"]) + "\n"


def _choice(id: str, label: str, options: dict[str, str]) -> str:
    inner = "".join(f'<option value="{escape(key)}">{escape(said)}</option>' for key, said in options.items())
    return f'<label>{label} <select id="claims-{id}">{inner}</select></label>'


def _row(row: Judged, names: dict[str, str]) -> str:
    made = manifest.entries("laptop")
    where = [f'<a href="figures/{row.source}.html#{anchor(row.artefact)}">{escape(row.printed_as)}</a>'] * (
        row.artefact in made
    )
    where += [f'<a href="notebooks/{row.notebook}.html">notebook {row.notebook[:2]}</a>'] * bool(row.notebook)
    why = f"<br><small>{escape(row.why)}</small>" if row.why else ""
    cells = (
        escape(row.claim),
        escape(names[row.source]),
        escape(row.stated),
        escape(row.ours) + (f"<br><small>{row.seeds} seeds</small>" if row.seeds else ""),
        f"<b>{row.verdict}</b>{why}",
        "<br>".join(where),
    )
    inner = "".join(f'<td data-head="{head}">{cell}</td>' for head, cell in zip(HEADINGS, cells, strict=True))
    return f'<tr id="{row.id}" data-source="{row.source}" data-verdict="{row.verdict}">{inner}</tr>'


def anchor(artefact: str) -> str:
    """The id of an artefact's heading on the page of its source's figures."""
    return artefact.replace(".", "-").replace("_", "-")
