"""The guide's quick start as an experiment, trained in the quick profile, and its table."""

import pytest

from causalnb.experiments.sci.artefacts.quickstart import quickstart_table
from causalnb.lab import building, results
from causalnb.tasks import scan
from tests.unit.experiments.made_up import wide


@pytest.fixture(autouse=True)
def short_rows(monkeypatch):
    """The shortest rows of a split, so that little is decoded."""
    split = scan.split

    def small(name, seed=None):
        train, test = (sorted(set(part), key=lambda pair: (len(pair[1]), pair)) for part in split(name, seed))
        return train[:400], test[:40]

    monkeypatch.setattr(scan, "split", small)


def test_the_table_has_the_flags_of_the_guide_and_ours():
    table = quickstart_table("quick")
    cells = {row[0]: row[1:] for row in table.rows}
    shares = "27, 50, 73 % of depth"
    assert cells["--cbm-layers"] == ["6,11,16", shares, shares, "6,11,16"]
    assert cells["--epochs"] == ["20", "20", "20", "1"]
    assert cells["--base-model"][1:] == ["tiny", "tiny", "tiny:22"]
    assert cells["--split"] == ["length", "length", "simple", "length"]
    assert cells["--n-structural-slots"] == ["8"] * 4 and cells["--scl-weight"] == ["0.1"] * 4
    assert cells["steps"] == ["no number printed", "6", "6", "6"]
    measured = {run.arm: wide(run.rows) for run in results.usable("sci.quickstart", "quick")}
    assert cells["test exact match, forced"][1].mean == measured["sci"]["exact_match"]
    assert cells["parameters"][3] == f"{measured['sci_22']['parameters']:,}"
    assert "`causalnb train sci --base-model tiny:22 --dataset scan --split length --n-structural-slots 8 " \
           "--cbm-layers 6,11,16 --scl-weight 0.1 --epochs 1`" in table.notes  # fmt: skip
    assert {file.suffix for file in building.build("sci.quickstart", "quick")} == {".md", ".tex", ".csv"}
