"""Results of ICLM's experiments, made up: every metric a number in (0, 1) of its own, histories that fall."""

from itertools import product

from causalnb.experiments.iclm.data import FORMATS
from causalnb.lab import registry
from tests.unit.experiments.made_up import counted, number, write

PAIRS = (
    "router|router",
    "router|invariant",
    "router|0",
    "router|1",
    "invariant|invariant",
    "invariant|0",
    "invariant|1",
    "0|0",
    "0|1",
    "1|1",
)


def sent(experiment: str, arm: str, seed: int, cell: str, format: str) -> float:
    """The share sent to module 0, which is the symbolic one in even seeds."""
    own = (seed % 2 == 0) == (format == "symbolic")
    return (0.9 if own else 0.0) + number(experiment, arm, seed, cell, format) / 10


def metrics(experiment: str, arm: str, seed: int) -> dict:
    """What iclm_runs.run_reasoning measures."""
    config, found = registry.config(experiment, arm, "quick"), {"": {"trainable_parameters": 7}}
    for cell, format in product(config["cells"], FORMATS):
        name, its = f"{cell}_{format}", found.setdefault(f"{cell}/{format}", {})
        kinds = ["exact", *["choice"] * (config["family"] == "raven")]
        if config["routed_by"] == "router":
            alone = ["domain", *["invariant"] * config["invariant"]]
            kinds += alone + [f"{kind}_choice" for kind in alone if config["family"] == "raven"]
            share = sent(experiment, arm, seed, cell, format)
            its |= {"module0": share, "module1": 1 - share}
        its |= {kind: number(experiment, arm, seed, name, kind) for kind in kinds}
    return found


def history(experiment: str, arm: str, seed: int) -> list[dict]:
    """Ten measurements, steps 20 to 200, falling; and the correlations of two layers where arms have maps."""
    config, rows = registry.config(experiment, arm, "quick"), []
    for i in range(1, 11):
        rows.append({"step": 20 * i, "loss": 1.0, "exact": 0.1 * i})
        if config["invariant"]:
            scale = 1 + seed / 10
            rows[-1] |= {
                "forward": scale * 0.1 / i**2,
                "reverse": scale * 0.2 / i**2,
                "cka": 0.9 / i,
                "clamped": scale * 0.1 / i**2 - 0.002,
                "pearson": 0.5 + scale * 0.4 / i,
            }
    if config["map_rows"]:
        for cell, pair, layer in product(config["cells"], PAIRS, range(2)):
            rows.append(
                {"cell": cell, "pair": pair, "layer": layer}
                | {f"to_{k}": number(experiment, arm, seed, cell, pair, layer, k) for k in range(2)}
            )
    return rows


def store(monkeypatch, seeds: dict[str, int]) -> None:
    """Write quick results of {experiment: seeds}, registered with that many seeds."""
    for id, count in seeds.items():
        spec = counted(monkeypatch, id, count)
        for arm in spec.arms:
            for seed in range(count):
                write(spec, arm, seed, metrics(id, arm, seed), history(id, arm, seed))
