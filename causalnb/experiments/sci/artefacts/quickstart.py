"""The guide's quick start as a table: its flags, the flags of our runs, and what those measured."""

from causalnb.apps.sci import option
from causalnb.lab.registry import artefact

ARMS = {"sci": "ours: 3 layers", "sci_22": "ours: 22 layers"}
FLAGS = ("base_model", "dataset", "split", "n_structural_slots", "cbm_layers", "scl_weight", "epochs")
MEASURED = {
    "exact_match": "test exact match, forced",
    "greedy_exact_match": "test exact match, decoded (sample)",
    "validation_exact_match": "validation exact match",
    "steps": "steps",
    "parameters": "parameters",
    "sci_parameters": "of them SCI's",
}


def command(config: dict) -> str:
    """`causalnb train sci` with the flags of a config; those left out have their default."""
    said = {name: config[name] for name in FLAGS if config[name] is not None}
    if "cbm_layers" in said:
        said["cbm_layers"] = ",".join(map(str, said["cbm_layers"]))
    return " ".join(["causalnb train sci", *(f"{option(n)} {v}" for n, v in said.items())])


def printed_flags() -> dict[str, str]:
    """The guide's flags as it prints them."""
    from causalnb.lab.tables import printed

    text = printed("sci_text")
    numbers = dict(text[text.row == "Quick Start"][["column", "printed"]].astype(str).values)
    layers = ",".join(numbers[f"cbm_layers, {place}"] for place in ("first", "second", "third"))
    return {
        "base_model": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        "dataset": "scan",
        "split": "length",
        "cbm_layers": layers,
        **{name: numbers[name] for name in ("n_structural_slots", "scl_weight", "epochs")},
    }


def quickstart_table(profile: str | None = None):
    """Flags and measurements by row; the guide's column has flags only, since it prints no number."""
    from statistics import median

    from causalnb.lab import evidence, registry, results
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    id, guide = "sci.quickstart", printed_flags()
    found, runs = evidence.require(id, profile), results.usable(id, profile)
    configs = {arm: registry.config(id, arm, profile) for arm in ARMS}

    def flag(name, value):
        if name == "cbm_layers":
            return "27, 50, 73 % of depth" if value is None else ",".join(map(str, value))
        return str(value)

    rows = [[option(n), guide[n], *(flag(n, configs[arm][n]) for arm in ARMS)] for n in FLAGS]
    for metric, name in MEASURED.items():
        values = [found[found.arm == arm][metric] for arm in ARMS]
        whole = metric in ("steps", "parameters", "sci_parameters")
        cells = [f"{int(value.iloc[0]):,}" if whole else mean_ci(value) for value in values]
        rows.append([name, "no number printed", *cells])
    seconds = [median(run.cpu_seconds for run in runs if run.arm == arm) for arm in ARMS]
    rows.append(["core-seconds a run", "no number printed", *(f"{value:.0f}" for value in seconds)])
    evaluation = "causalnb evaluate sci --checkpoint outputs/sci --dataset scan --split length"
    return Table(
        id,
        ["", "guide", *ARMS.values()],
        rows,
        "The quick start: the guide's flags, ours, and what was measured (mean ± half of the 95 % interval, "
        "seeds)",
        f"The guide says {guide['epochs']} epochs and prints no number; ours are random bases trained for "
        "fewer, so that a run takes minutes. "
        + "; ".join(f"`{command(config)}`" for config in configs.values())
        + f"; then `{evaluation}`.",
    )


@artefact("sci.quickstart", needs=("sci.quickstart",))
def quickstart(profile):
    """The quick start as a table."""
    from causalnb.lab.tables import save_table

    save_table(quickstart_table(profile))
