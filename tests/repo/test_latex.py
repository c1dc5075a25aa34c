"""All tables that are committed, in one run of LaTeX: they compile, and stay within the text."""

import re
import shutil
import subprocess

import pytest

from causalnb.lab import latex
from tests.repo.tree import ROOT

pytestmark = pytest.mark.skipif(
    not shutil.which("pdflatex"), reason="no TeX: apt install texlive-latex-extra"
)
FILES = sorted((ROOT / "figures").glob("*/*.tex"))


def complaints(folder, parts, options="") -> list[str]:
    """What LaTeX says of `parts`, each a text that names its packages in a comment, on pages of its own."""
    packages = {name for part in parts for name in re.search(r"% \\usepackage\{(.+)\}", part)[1].split(",")}
    head = f"\\documentclass{options}{{article}}\n\\usepackage{{{','.join(sorted(packages))}}}\n"
    body = "\n\\clearpage\n".join(parts)
    (folder / "all.tex").write_text(
        f"{head}\\begin{{document}}\n{body}\n\\end{{document}}\n", encoding="utf-8"
    )
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    run = subprocess.run(words, cwd=folder, capture_output=True, timeout=300)
    log = (folder / "all.log").read_text(errors="replace", encoding="utf-8")
    assert (run.returncode == 0) == (not re.search("^!", log, re.M)), log[-2000:]
    return re.findall(r"^(?:!|Overfull \\hbox|LaTeX Warning: Float too large|Missing character).*", log, re.M)


def test_all_compile_within_the_text(tmp_path):
    assert len(FILES) >= 100
    assert complaints(tmp_path, [file.read_text(encoding="utf-8") for file in FILES]) == []


def test_what_is_too_wide_or_wrong_is_seen(tmp_path):
    head = "% \\usepackage{booktabs}\n"
    wide = head + "\\begin{tabular}{l}" + "wide " * 40 + "\\end{tabular}"
    assert "Overfull" in complaints(tmp_path, [wide])[0]
    assert complaints(tmp_path, [head + "50 & α"])[0].startswith("!")


def test_fitted_tables_stay_within_a_narrow_column(tmp_path):
    rows = [["a column"] * 12, *[["0.984 ± 0.003 (5)", *["words that are long"] * 11]] * 4]
    parts = [
        latex.table(f"toy.t{count}", [row[:count] for row in rows], "A.", fit=True) for count in (2, 6, 12)
    ]
    assert complaints(tmp_path, parts, "[twocolumn]") == []
