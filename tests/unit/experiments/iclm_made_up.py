"""Results of ICLM's experiments, made up: maps, layers and clusters whose structure is known."""

import numpy as np

from causalnb.experiments.iclm import grid as iclm_grid
from causalnb.experiments.iclm.artefacts.maps import SIX
from causalnb.lab import registry
from tests.unit.experiments.made_up import counted, number, write

SEEDS = {
    "iclm.acre": 4,
    "iclm.raven": 4,
    "iclm.variants.acre": 3,
    "iclm.variants.raven": 3,
    "iclm.controls.acre": 3,
    "iclm.controls.raven": 3,
    "iclm.clusters": 1,
}
ARMS = {
    "iclm.acre": ("iclm",),
    "iclm.raven": ("iclm",),
    "iclm.controls.acre": ("untrained", "matched"),
    "iclm.controls.raven": ("untrained", "matched"),
}  # those that are read here; elsewhere all
FORMATS = ("text", "symbolic")
BLOCKS = [[0], [1, 2], [3, 4]]  # of the layers of every module
STEPS = range(40, 441, 40)


def family_of(experiment: str) -> str:
    return experiment.rpartition(".")[2]


def text_module(seed: int) -> int:
    """The domain module that takes the text inputs: another from seed to seed."""
    return seed % 2


def metrics(experiment: str, arm: str, seed: int) -> dict:
    found = {"": {"trainable_parameters": 7}}
    for cell in iclm_grid.FAMILIES[family_of(experiment)]["cells"]:
        for format in FORMATS:
            name, its = f"{cell}_{format}", found.setdefault(f"{cell}/{format}", {})
            its |= {
                score: number(experiment, arm, seed, name, score)
                for score in ("exact", "choice", "domain", "invariant")
            }
            mine = text_module(seed) if format == "text" else 1 - text_module(seed)
            its |= {f"module{mine}": 0.875, f"module{1 - mine}": 0.125}
    return found


def information(arm: str, step: int) -> float:
    """Falls as 1 / step; the variants have a spike of three times that at step 240."""
    return (3 if arm in ("logit", "probability") and step == 240 else 1) * 4 / step


def layers(cell: str, seed: int) -> list[dict]:
    """0.8 within a block, 0.2 outside; with the text's module 0.1 less; 1 on the diagonal of a module."""
    block = np.repeat(range(len(BLOCKS)), [len(one) for one in BLOCKS])
    names = ["router", "invariant", "0", "1"]
    rows = []
    for i, a in enumerate(names):
        for b in names[i:]:
            table = np.where(block[:, None] == block, 0.8, 0.2) - 0.1 * (str(text_module(seed)) in (a, b))
            table = np.where(np.eye(5), 1.0, table) if a == b else table - np.triu(np.ones((5, 5)), 4) * 0.05
            rows += [
                {"cell": cell, "pair": f"{a}|{b}", "layer": i}
                | {f"to_{j}": round(float(value), 4) for j, value in enumerate(line)}
                for i, line in enumerate(table)
            ]
    return rows


def routes(family: str, seed: int, each: int) -> list[dict]:
    """Formats lie 8 apart; RAVEN's sets 3 apart within a format, ACRE's on one another."""
    draw, rows = np.random.default_rng([seed, each]), []
    for place, cell in enumerate(iclm_grid.FAMILIES[family]["cells"]):
        for format in FORMATS:
            centre = (8.0 * (format == "text"), 3.0 * place * (family == "raven"))
            sent = text_module(seed) if format == "text" else 1 - text_module(seed)
            rows += [
                {
                    "cell": cell,
                    "format": format,
                    "module": sent,
                    "x": round(float(x), 3),
                    "y": round(float(y), 3),
                }
                for x, y in draw.normal(centre, 0.5, (each, 2))
            ]
    return rows


def history(experiment: str, arm: str, seed: int, each: int) -> list[dict]:
    rows = [
        {
            "step": step,
            "loss": 3 - step / 500,
            "exact": step / 500,
            "forward": information(arm, step),
            "reverse": 0.1,
            "clamped": 0.0,
            "pearson": 0.7,
            "cka": 0.8,
        }
        for step in STEPS
    ]
    if arm in ("iclm", "untrained", "matched"):
        family = family_of(experiment)
        for cell in iclm_grid.FAMILIES[family]["cells"]:
            rows += layers(cell, seed)
        rows += routes(family, seed, each)
    return rows


def clusters(arm: str, each: int) -> tuple[dict, list[dict]]:
    """Sets in a row, 4 apart in the last layer and 1 in the one before; a cluster for every two sets."""
    names = (
        [*SIX]
        if arm == "six"
        else [f"{cell} {format}" for cell in iclm_grid.FAMILIES[arm]["cells"] for format in FORMATS]
    )
    draw, rows = np.random.default_rng(each), []
    for layer, apart in ((-1, 4.0), (-2, 1.0)):
        for place, name in enumerate(names):
            rows += [
                {
                    "layer": layer,
                    "set": name,
                    "cluster": place // 2,
                    "x": round(float(x), 3),
                    "y": round(float(y), 3),
                }
                for x, y in draw.normal((apart * place, 0), 0.4, (each, 2))
            ]
    kinds = [f"{kind}_layer{n}" for kind in ("silhouette_sets", "silhouette_formats", "rand") for n in (1, 2)]
    return {"": {kind: number(arm, kind) for kind in kinds}}, rows


def store(monkeypatch, folder, each: int = 5) -> None:
    """Write made-up quick results of SEEDS into `folder`, `each` inputs of a set in every map."""
    for name in ("RESULTS", "FIGURES", "CACHE"):
        monkeypatch.setenv(f"CAUSALNB_{name}", str(folder / name.lower()))
    for id, seeds in SEEDS.items():
        spec = counted(monkeypatch, id, seeds)
        for arm in ARMS.get(id, spec.arms):
            for seed in range(seeds):
                if id == "iclm.clusters":
                    said, past = clusters(arm, each)
                else:
                    said, past = metrics(id, arm, seed), history(id, arm, seed, each)
                write(spec, arm, seed, said, past)


def real(id: str, arm: str, folder) -> dict:
    """What a quick run of an arm returns, seed 0."""
    config = registry.config(id, arm, "quick")
    return registry.experiment(id).run(
        registry.Run(id, arm, 0, "quick", config, folder, "cpu", lambda *_: None)
    )
