"""LaTeX of tables: escapes, layouts, packages."""

import pytest

from causalnb.lab import latex

WORDS = "a sentence of words that is so long that no line of a page could hold it, and so it is broken"


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a_b & 5 % #1 {x} $", r"a\_\allowbreak{}b \& 5 \% \#1 \{x\} \$"),
        ("~ ^ \\ < > |", r"\textasciitilde{} \textasciicircum{} \textbackslash{} \textless{} \textgreater{} "
         r"\textbar{}"),
        ("τ Σ Α ς λ", r"$\tau$ $\Sigma$ $\mathrm{A}$ $\varsigma$ $\lambda$"),
        ("0.9 ± 0.1 × 2 − 1", r"0.9 $\pm$~0.1 $\times$ 2 $-$ 1"),
        ("[-5.0, +3] 1e-5 15-20", r"[$-$5.0, +3] 1e-5 15-20"),
        ("a -> b <- c", r"a $\to$ b $\leftarrow$ c"),
        ('"so" it is', "``so'' it is"),
        ("`run --a_b` and --fit", r"\texttt{run -{}-a\_\allowbreak{}b} and -{}-fit"),
    ],
)  # fmt: skip
def test_escaped(text, shown):
    assert latex.escaped(text) == shown


def test_narrow_tables_stay_as_wide_as_their_cells():
    text = latex.table("toy.table1", [["a", "b"], ["1", "2"]], "Two.")
    assert r"\begin{tabular}{@{}ll@{}}" in text and r"\normalsize" in text and r"\raggedright" not in text


def widths(rows):
    plan = latex.layout(rows)
    return plan, sum(plan.widths) + plan.gap * (len(plan.widths) - 1)


def test_long_cells_wrap_within_the_text():
    plan, total = widths([["what", "why"], ["short", WORDS], ["other", WORDS]])
    assert plan.wraps and not plan.sideways and total == pytest.approx(0.98 * latex.WIDE, abs=0.1)
    assert plan.widths[0] < 50 < plan.widths[1]
    text = latex.table("toy.table1", [["what", "why"], ["short", WORDS]], "Long.")
    assert text.count(r"\linewidth-2\tabcolsep") == 2


def test_many_columns_are_set_smaller_then_sideways():
    sizes, sideways = [], []
    for count in (2, 5, 10):
        plan, total = widths([["a column"] * count, ["0.984 ± 0.003 (5)"] * count])
        assert total <= plan.wide
        sizes.append(latex.SIZES[plan.size][0])
        sideways.append(plan.sideways)
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1] and sideways[0] < sideways[-1]


@pytest.mark.parametrize(
    "rows, options, packages, environments",
    [
        (3, {}, "array,booktabs", ["table", "tabular"]),
        (3, {"fit": True}, "array,booktabs,adjustbox", ["table", "adjustbox", "tabular"]),
        (3, {"longtable": True}, "array,booktabs,longtable", ["longtable"]),
        (90, {}, "array,booktabs,longtable", ["longtable"]),
        (90, {"fit": True}, "array,booktabs,longtable", ["longtable"]),
    ],
)
def test_packages_are_named_first(rows, options, packages, environments):
    text = latex.table("toy.table1", [["a", "b"], *[["1", "2"]] * rows], "Rows.", **options)
    assert text.splitlines()[1] == rf"% \usepackage{{{packages}}}"
    assert all(rf"\begin{{{name}}}" in text and rf"\end{{{name}}}" in text for name in environments)


def test_sideways_tables_name_their_packages():
    for rows, package, environment in ((1, "rotating", "sidewaystable"), (60, "pdflscape", "landscape")):
        text = latex.table("toy.table1", [["a"] * 14, *[["0.984 ± 0.003 (5)"] * 14] * rows], "Wide.")
        assert package in text.splitlines()[1] and rf"\begin{{{environment}}}" in text
    fitted = latex.table("toy.table1", [["a"] * 14, ["0.984 ± 0.003 (5)"] * 14], "Wide.", fit=True)
    assert r"\begin{table}" in fitted and "max width" in fitted and "sideways" not in fitted


def test_notes_stand_below():
    for options in ({}, {"longtable": True}):
        text = latex.table("toy.table1", [["a"], ["1"]], "One.", "100 % of it", **options)
        assert text.index(r"\bottomrule") < text.index(r"100 \% of it")
