"""Every claim of the sources with its verdict, as rows of a page and as the page."""

import re
from html import escape
from itertools import chain
from typing import NamedTuple

from causalnb.errors import LabError, sentence
from causalnb.lab import evidence, manifest, registry, report, verdicts

BESIDE = re.compile(r"^(?P<why>.*\b(decided|settled|counted|computed|differentiated)\b.*)$")
HEADINGS = ("claim", "stated", "ours", "verdict")
ELSEWHERE = "beside its table"
MEANINGS = {
    "reproduced": "the interval is beyond zero, and the mean as large as stated",
    "same direction": "beyond zero, and smaller than stated",
    "opposite": "beyond zero, the other way",
    "excluded": "zero is in the interval, and the size stated is not (of gains without one, a point)",
    "undecided": "both are in it",
    "not attempted": "for the reason below the claim",
    ELSEWHERE: "settled by counting or computing, without runs, in the notebook that is named",
}


class Judged(NamedTuple):
    """A claim with the word beside it; `artefact`: the table or figure it is about."""

    id: str
    source: str
    claim: str
    stated: str
    ours: str
    counted: str
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
    found: dict[str, verdicts.Verdict] = {}
    for table in chain(*report.built().values()):
        for claim, verdict in table.verdicts(profile, strict=False).items():
            if verdict is not None and verdict.label != "not attempted":
                found.setdefault(claim, verdict)
    return found


def _verdict(claim, decided: dict, profile: str) -> verdicts.Verdict:
    try:
        return decided.get(claim.id) or verdicts.decide(claim, profile)
    except LabError as error:
        return verdicts.not_attempted(sentence(error))


def _judged(claim, verdict: verdicts.Verdict, items: dict) -> Judged:
    label = ELSEWHERE if BESIDE.match(verdict.why) else verdict.label
    sign = {"+": "+", "-": "−"}.get(str(claim.direction), "")
    unit = "" if claim.unit != claim.unit else str(claim.unit)
    stated = (
        f"{sign}{claim.size:g} {unit}".strip()
        if claim.size == claim.size
        else {"+": "more", "-": "less", verdicts.AS_WELL: "as well"}.get(str(claim.direction), "")
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
    counted = "" if summary is None else f"{summary.n} {verdict.counted}"
    return Judged(
        claim.id,
        claim.source,
        claim.claim,
        stated,
        ours,
        counted,
        label,
        verdict.why or (f"but {verdict.but}" if verdict.but else ""),
        artefact,
        named,
        notebook,
    )


def page(rows: list[Judged], names: dict[str, str]) -> str:
    """The rows as Markdown around an HTML table that filters by source and verdict; `names` of sources."""
    kinds = [label for label in MEANINGS if any(row.verdict == label for row in rows)]
    legend = "".join(f"<dt>{badge(kind)}</dt><dd>{MEANINGS[kind]}</dd>" for kind in kinds)
    lines = [
        "# Results: every claim and its verdict\n",
        f"The four sources make {len(rows)} claims that can be checked. A verdict follows from a rule, which "
        "looks at the 95 % interval, over seeds unless it says so, of the contrast that a claim is about "
        "([notebook 00](notebooks/00_start_here.ipynb) has it), at the scale of the models here: those that "
        "were trained from random weights have at most 1.8 million parameters. Choose a count to see its "
        "claims.\n",
        bars(rows, names),
        f'<dl class="verdicts">{legend}</dl>\n',
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
    made = manifest.entries("laptop")
    lines += [_row(row, names, made.get(row.artefact)) for row in rows]
    told = "*Ours*: the mean over seeds, or what else is counted, ± half of its 95 % interval."
    return "\n".join([*lines, "</tbody></table>", "</div>", "</div>\n", told]) + "\n"


def bars(rows: list[Judged], names: dict[str, str]) -> str:
    """A bar of HTML for each source: how many of its claims have which verdict, each a link to them."""
    lines = ['<div class="bars">']
    for source, name in names.items():
        counts = {
            kind: sum(row.source == source and row.verdict == kind for row in rows) for kind in MEANINGS
        }
        parts = "".join(
            f'<a class="{_style(kind)}" style="flex-grow: {count}" title="{count} {kind}" '
            f'aria-label="{escape(name)}: {count} {kind}" '
            f'href="results.html?source={source}&amp;verdict={kind.replace(" ", "+")}">{count}</a>'
            for kind, count in counts.items()
            if count
        )
        lines += [f'<span>{escape(name)}</span><div class="bar">{parts}</div>']
    return "\n".join([*lines, "</div>"]) + "\n"


def badge(kind: str) -> str:
    """A verdict as HTML, in its colour."""
    return f'<b class="verdict {_style(kind)}">{kind}</b>'


def _style(kind: str) -> str:
    return kind.replace(" ", "-")


def _choice(id: str, label: str, options: dict[str, str]) -> str:
    inner = "".join(f'<option value="{escape(key)}">{escape(said)}</option>' for key, said in options.items())
    return f'<label>{label} <select id="claims-{id}">{inner}</select></label>'


def _row(row: Judged, names: dict[str, str], made: dict | None) -> str:
    about = [escape(names[row.source])]
    if made:
        about.append(
            f'<a href="figures/{row.source}.html#{anchor(row.artefact)}">{escape(row.printed_as)}</a>'
        )
    if row.notebook:
        about.append(f'<a href="notebooks/{row.notebook}.html">notebook&nbsp;{row.notebook[:2]}</a>')
    if row.why:
        about.append(escape(row.why))
    cells = (
        f"{escape(row.claim)}<br><small>{' · '.join(about)}</small>{_figure(row, made)}",
        escape(row.stated),
        escape(row.ours).replace(" ± ", "&nbsp;±&nbsp;")
        + (f"<br><small>{row.counted}</small>" if row.counted else ""),
        badge(row.verdict),
    )
    inner = "".join(f'<td data-head="{head}">{cell}</td>' for head, cell in zip(HEADINGS, cells, strict=True))
    return f'<tr id="{row.id}" data-source="{row.source}" data-verdict="{row.verdict}">{inner}</tr>'


def _figure(row: Judged, made: dict | None) -> str:
    """What unfolds to the picture of a claim's artefact; "" for a table."""
    files = [name for name in sorted(made["files"]) if name.endswith(".svg")] if made else []
    if not made or not files:
        return ""
    inner = picture(files[0], made["alt"], "")
    return f"<details><summary>Show {escape(row.printed_as)}</summary>{inner}</details>"


def picture(file: str, alt: str, up: str) -> str:
    """An `<img>` of a file of figures/, `up` from its page to the first one; loaded once it is in sight."""
    return (
        f'<img class="figure" loading="lazy" src="{up}_static/figures/{file}" '
        f'alt="{escape(" ".join(alt.split()))}">'
    )


def anchor(artefact: str) -> str:
    """The id of an artefact's heading on the page of its source's figures."""
    return artefact.replace(".", "-").replace("_", "-")
