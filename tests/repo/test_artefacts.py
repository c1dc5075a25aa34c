"""The 60 artefacts, and the files in figures/ as the manifest describes them."""

import json
import re
import warnings
from hashlib import sha256

import pytest

from causalnb.course import claims
from causalnb.experiments.c2dlm.artefacts import table4
from causalnb.experiments.c2dlm.artefacts.games import PAPER
from causalnb.lab import building, registry, results
from causalnb.lab.report import arm, cell
from tests.repo.tree import ROOT, files, notebooks

FIGURES = ROOT / "figures"


@pytest.fixture
def checkout(monkeypatch):
    """The results and figures of the checkout itself."""
    for name in ("RESULTS", "FIGURES", "CACHE", "PROBES"):
        monkeypatch.delenv(f"CAUSALNB_{name}")


def manifest_problems(entries: dict, content: dict[str, bytes]) -> list[str]:
    """Where manifest entries and the files (name below figures/ -> bytes) disagree, or break a rule."""
    named = {name: digest for entry in entries.values() for name, digest in entry["files"].items()}
    found = [f"{name} is not in the manifest" for name in content if name not in named]
    found += [f"{name} is not there" for name in named if name not in content]
    found += [
        f"{name} is not what was made"
        for name, digest in named.items()
        if name in content and sha256(content[name]).hexdigest() != digest
    ]
    found += [f"{name} has {len(data)} bytes" for name, data in content.items() if len(data) > 200_000]
    found += [f"{id} has no alt text" for id, entry in entries.items() if len(entry["alt"]) < 20]
    return found + [
        f"{id} was made in the {entry['profile']} profile"
        for id, entry in entries.items()
        if entry["profile"] != "laptop"
    ]


def test_sixty_artefacts_each_with_its_place():
    items = registry.artefacts()
    assert len(items) == len({item.id for item in items}) == 60
    assert all(item.id.startswith(f"{item.source}.") for item in items)
    assert all(item.printed_as and item.shows and item.notebook for item in items)


def test_what_is_built_has_its_notebook(checkout):
    books = {path.stem for path in notebooks()}
    homeless = [
        item.id
        for item in registry.artefacts(extras=True)
        if building.status(item.id)[0] in ("built", "unverified") and item.notebook not in books
    ]
    assert not homeless


def test_nothing_is_stale(checkout):
    """Unverified results only bring a warning: `causalnb verify` is for whoever changed the code they ran."""
    states = {item.id: building.status(item.id) for item in registry.artefacts(extras=True)}
    assert not {id: reason for id, (state, reason) in states.items() if state == "stale"}
    if unverified := [id for id, (state, _) in states.items() if state == "unverified"]:
        warnings.warn(f"unverified, run causalnb verify: {', '.join(unverified)}", stacklevel=1)


def test_only_what_is_settled_without_results_is_decided_apart_from_the_rule(checkout):
    rows = claims.judged("laptop")
    apart = {row.id: row.why for row in rows if row.verdict == claims.ELSEWHERE}
    assert {*apart} == {"iclm.claim34", *(f"causal_transformer.claim{n}" for n in (20, 32, 33))}
    assert all(re.search(r"settled without training|counted, not measured", why) for why in apart.values())


def test_the_manifest_tells_the_truth():
    path = FIGURES / "manifest.json"
    entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    content = {
        str(file.relative_to(FIGURES)): file.read_bytes()
        for file in files()
        if file.is_relative_to(FIGURES) and file != path
    }
    assert not manifest_problems(entries, content)
    assert set(entries) <= {item.id for item in registry.artefacts(extras=True)}


ENTRY = {
    "files": {"a/b.svg": sha256(b"x").hexdigest()},
    "alt": "A sentence that describes it.",
    "profile": "laptop",
}


@pytest.mark.parametrize(
    "change, content, problem",
    [
        ({}, {"a/b.svg": b"x", "a/c.svg": b""}, "a/c.svg is not in"),
        ({}, {}, "a/b.svg is not there"),
        ({}, {"a/b.svg": b"y"}, "not what was made"),
        ({"alt": "short"}, {"a/b.svg": b"x"}, "no alt text"),
        ({"profile": "quick"}, {"a/b.svg": b"x"}, "quick profile"),
        ({}, {"a/b.svg": b"x" * 200_001}, "has 200001 bytes"),
    ],
)
def test_a_wrong_manifest_is_seen(change, content, problem):
    assert any(problem in found for found in manifest_problems({"a.b": ENTRY | change}, content))
    assert not manifest_problems({"a.b": ENTRY}, {"a/b.svg": b"x"})


def test_what_decides_c2dlm_s_first_claim_has_the_weight_that_was_best_on_the_development_draw(checkout):
    tried = {}
    for name in registry.arms("c2dlm.curves.cot"):
        run = results.read("c2dlm.curves.cot", name, 0, "laptop")
        if name.startswith("c2dlm") and (run.config["steps"], run.config["learning_rate"]) == (3000, 1e-3):
            tried[run.config["gamma"]] = run.value("test", "exact")
    assert len(tried) == 3
    assert registry.config("c2dlm.long.cot", "c2dlm_gamma3", "laptop")["gamma"] == max(tried, key=tried.get)


def test_no_gain_is_judged_where_plain_tuning_is_below_the_source_s(checkout):
    below = []
    for size in table4.SIZES:
        where = {"row": PAPER["diffusion"], "group": f"STG_{size}", "column": "IID"}
        ours = arm(table4.home(size), "diffusion").summary("iid_accuracy", "laptop").mean
        below += [size] * (100 * ours < float(cell("c2dlm.table4", "{value}", **where)()))
    assert tuple(below) == table4.BELOW
