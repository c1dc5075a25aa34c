"""The guide's quick start as a table: its flags, the flags of our runs, and what those measured."""

from causalnb.apps.sci import option
from causalnb.lab import evidence, registry, results
from causalnb.lab.report import Report, builds
from causalnb.lab.statistics import share_ci

ID = "sci.quickstart"
ARMS = {"sci": "ours: 3 layers", "simple": "ours, a random split", "sci_22": "ours: 22 layers"}
FLAGS = ("base_model", "dataset", "split", "n_structural_slots", "cbm_layers", "scl_weight", "epochs")
SCORES = {
    "exact_match": "test exact match, forced",
    "greedy_exact_match": "test exact match, decoded (sample)",
    "validation_exact_match": "validation exact match",
}
COUNTS = {"steps": "steps", "parameters": "parameters", "sci_parameters": "of them SCI's"}
DEPTHS = "27, 50, 73 % of depth"  # where SCI binds if it is not told


def _flag(value) -> str:
    """The value of a flag as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def command(config: dict) -> str:
    """`causalnb train sci` with the flags of a config; those left out have their default."""
    given = (f"{option(n)} {_flag(config[n])}" for n in FLAGS if config[n] is not None)
    return " ".join(["causalnb train sci", *given])


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


def _rows(profile: str | None = None):
    from statistics import median

    guide, configs = printed_flags(), _configs(profile)
    for name in FLAGS:
        ours = (DEPTHS if config[name] is None else _flag(config[name]) for config in configs)
        yield [option(name), guide[name], *ours]
    runs = [(evidence.require(ID, profile, [arm]), results.usable(ID, profile, [arm])) for arm in ARMS]
    for metric, name in SCORES.items():
        yield [name, "no number printed", *(share_ci(frame[metric]) for frame, _ in runs)]
    for metric, name in COUNTS.items():
        yield [name, "no number printed", *(f"{int(frame[metric].iloc[0]):,}" for frame, _ in runs)]
    seconds = (median(result.cpu_seconds for result in found) for _, found in runs)
    yield ["core-seconds a run", "no number printed", *(f"{value:.0f}" for value in seconds)]


def _configs(profile: str | None = None) -> list[dict]:
    return [registry.config(ID, arm, profile) for arm in ARMS]


def _notes(profile: str | None = None) -> str:
    trained = "; ".join(f"`{command(config)}`" for config in _configs(profile))
    return (
        f"The guide says {printed_flags()['epochs']} epochs and prints no number; ours are random bases, and "
        f"22 layers are trained for one epoch. {trained}; then `causalnb evaluate sci "
        "--checkpoint outputs/sci --dataset scan`, with the same `--split`."
    )


quickstart_table = Report(
    ID,
    ["", "guide", *ARMS.values()],
    [_rows],
    "The quick start: the guide's flags, ours, and what was measured (mean ± half of the 95 % interval, "
    "seeds)",
    _notes,
    needs=(ID,),
)


@builds(ID, quickstart_table)
def quickstart(profile):
    """The quick start as a table."""
