"""Table 3 of ICLM: where the router sends each set and format, beside routers that read one number alone."""

from causalnb.experiments.iclm.artefacts.scores import (
    FAMILIES,
    FORMATS,
    SETS,
    columns,
    headings,
    home,
    placed,
    rows_of,
    scored,
    symbolic_module,
)
from causalnb.experiments.iclm.artefacts.training import NAMES
from causalnb.lab.report import Measured, OfRows, Report, Row, arm, builds, fraction, printed_row

ROUTED = ("iclm", "uniform_start", "matched", "untrained")
SPLIT, EXACT = "split, i.i.d.", "exact, i.i.d."


def routed(rows, family: str):
    """DataFrame by seed of the share of each (cell, format) that is sent to the symbolic module."""
    rows, own = placed(rows), symbolic_module(rows, family)
    rows = rows[rows.measure == "module" + rows.seed.map(own).astype(str)]
    return rows.pivot(index="seed", columns=["cell", "format"], values="value")


def split(sent, cell: str):
    """How far apart a set's formats are sent, in [-1, 1]; `sent` as of routed. The paper's Table 3: 1."""
    return sent[cell, "symbolic"] - sent[cell, "text"]


def apart(family: str, cell: str) -> OfRows:
    """A metric of arms: `split` of a set."""
    return OfRows(lambda rows: split(routed(rows, family), cell))


def cut_between(short: list[int], others: list[int]) -> float:
    """The length that best tells two lists of lengths apart: of the best ones, that in the widest gap."""
    import numpy as np

    known = np.unique([*short, *others])
    cuts = np.array([known[0] - 1, *(known[:-1] + known[1:]) / 2, known[-1] + 1])
    missed = np.array([np.greater(short, cut).sum() + np.less(others, cut).sum() for cut in cuts])
    gaps = np.array([0, *np.diff(known), 0])
    return float(cuts[max(np.flatnonzero(missed == missed.min()), key=lambda i: gaps[i])])


def own_words(row: dict) -> float:
    """The share of a prompt's words that are no filler."""
    from causalnb.tasks.icl_rows import prompt_length, without_fillers

    return prompt_length(without_fillers(row)) / prompt_length(row)


def prompt_lengths(family: str, rows: int = 100, matched: int = 0, seed: int = 0, measure=None) -> dict:
    """{"train" or cell: {format: lengths in words, or `measure`}} of compact prompts, drawn by the rules."""
    from causalnb.experiments.iclm.data import test_rows, training_rows
    from causalnb.lab import registry
    from causalnb.tasks.icl_rows import prompt_length

    measure = measure or prompt_length
    drawn = {"source": "generator", "train_rows": rows, "test_rows": rows, "matched": matched}
    config = registry.config(f"iclm.{family}", "iclm", "laptop") | drawn
    made = {"train": training_rows(config, seed)}
    for cell in SETS[family]:
        made[cell] = [row for rows in test_rows(config, cell).values() for row in rows]
    return {
        part: {format: [measure(row) for row in rows if row["format"] == format] for format in FORMATS}
        for part, rows in made.items()
    }


def printed_lengths(family: str, rows: int = 100, seed: int = 0) -> dict:
    """{"train" or cell: {format: lengths in characters}} of prompts in the source's words, drawn."""
    from causalnb.experiments.iclm.data import CELLS
    from causalnb.tasks import acre, raven

    def prompts(cell, part, format):
        if family == "acre":
            drawn = acre.generate(cell, rows, seed, part)
            return [acre.prompt(problem, query, format)[0] for problem in drawn for query in problem.queries]
        drawn = raven.generate(CELLS[family][cell], rows, [seed, part == "test"])
        return [raven.prompt(problem, format)[0] for problem in drawn]

    parts = {"train": (next(iter(SETS[family])), "train")} | {cell: (cell, "test") for cell in SETS[family]}
    return {
        name: {format: [*map(len, prompts(*where, format))] for format in FORMATS}
        for name, where in parts.items()
    }


def by_length(lengths: dict) -> tuple[float, dict[tuple[str, str], float]]:
    """(cut found on the training prompts, {(cell, format): share of prompts that are shorter})."""
    train = lengths["train"]
    cut = cut_between(train["symbolic"], train["text"])
    return cut, {
        (cell, format): sum(length < cut for length in its) / len(its)
        for cell, formats in lengths.items()
        if cell != "train"
        for format, its in formats.items()
    }


def length_rows(family: str, rows: int = 100) -> dict[str, dict[tuple[str, str], float]]:
    """{what is read, where it is cut: {(cell, format): share}} of routers that know one number alone.

    The length; and, where fillers make all lengths equal, how much of a prompt is its own.
    """
    kinds = {
        "length alone: the paper's prompts, characters": printed_lengths(family, rows),
        "length alone: our prompts, words": prompt_lengths(family, rows),
        "length alone: our prompts of equal length, words": prompt_lengths(family, rows, matched=8),
        "fillers alone: our prompts of equal length, share of other words": prompt_lengths(
            family, rows, matched=8, measure=own_words
        ),
    }
    cuts = {name: by_length(lengths) for name, lengths in kinds.items()}
    return {f"{name}, cut at {round(cut, 2):g}": sent for name, (cut, sent) in cuts.items()}


def routing(family: str, rows: int = 100) -> Report:
    """Table 3: the share of each set and format sent to a module, by ICLM, controls, and one number alone."""
    first, places = next(iter(SETS[family])), headings(family)

    def sent(place, n):
        return OfRows(lambda rows: abs(n - routed(rows, family)[place]))

    def ours(name):
        ends = {SPLIT: apart(family, first), EXACT: scored("exact", first)}
        for n in (0, 1) if name == "iclm" else (0,):
            metrics = {head: sent(place, n) for head, place in places.items()} | ends
            value = {head: arm(home(family, name), name, metric) for head, metric in metrics.items()}
            yield Row(f"ours: {NAMES[name]}, n={n}", value)

    def alone(profile):
        for name, sent in length_rows(family, rows).items():
            yield [
                name,
                *(f"{sent[place]:.2f}" for place in places.values()),
                f"{split(sent, first):.2f}",
                "none",
            ]

    printed = ("n=0", "n=1") if family == "acre" else ()
    return Report(
        "iclm.table3" + "_raven" * (family == "raven"),
        ["", *columns(family, fraction(2)), *(Measured(head, format=fraction(2)) for head in (SPLIT, EXACT))],
        [
            *(printed_row(f"paper: {row}", "iclm.table3", "{value:.1f}", row=row) for row in printed),
            *(row for name in ROUTED for row in ours(name)),
            alone,
        ],
        f"Table 3, {family.upper()}: share of prompts sent to a module, mean ± half of the 95 % interval "
        "(seeds)",
        "n=0 is, seed by seed, the module that gets a larger share of the symbolic i.i.d. prompts than of "
        "those in text. split: that share less the other, so that it cannot be negative i.i.d.; exact: right "
        f"answers. Length alone: shorter prompts to n=0, the cut found on {rows} drawn training problems; "
        "fillers alone: those with more of them.",
    )


def routing_remark(family: str, profile: str | None = None) -> str:
    """What ICLM, its controls and a length reader split i.i.d., and what they answer; one sentence each."""
    first, told = next(iter(SETS[family])), []
    for name in ROUTED:
        rows = rows_of(family, name, profile)
        sent, right = (metric.read(rows).mean() for metric in (apart(family, first), scored("exact", first)))
        told.append(f"{NAMES[name]}: split {sent:.2f}, {right:.0%} of the answers right.")
    sent = split(by_length(printed_lengths(family))[1], first)
    return f"{family.upper()}. {' '.join(told)} The length of the paper's prompts alone: split {sent:.2f}."


@builds("iclm.table3", *map(routing, FAMILIES))
def table3(profile):
    """Table 3 for both families, with what a reader of lengths splits."""
