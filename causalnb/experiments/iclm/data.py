"""Rows of the ICLM experiments: what is trained on, and the cells of the tables, in both formats."""

from causalnb.lab.probes import scored
from causalnb.tasks import acre, icl_rows, raven

FORMATS = acre.FORMATS  # text, symbolic
CELLS = {  # what the paper calls its sets, by family: i.i.d., then two o.o.d.
    "acre": {
        "IID": ("IID", "test"),
        "Comp": ("Comp", "test"),
        "Sys": ("Sys", "test"),
        "comp_iid": ("comp_true", "train"),
        "comp_true": ("comp_true", "test"),
        "sys_iid": ("sys_true", "train"),
        "sys_true": ("sys_true", "test"),
    },
    "raven": {
        "center": "center_single",
        "four": "distribute_four",
        "in_center": "in_center_single_out_center_single",
    },
}
TRUE = ("comp_iid", "comp_true", "sys_iid", "sys_true")  # drawn here: no file has them


def problems(family: str, cell: str, source: str, n: int, seed: int, answers: str = "published") -> list:
    """About n problems of a cell, of the published file ("file") or drawn; answers for RAVEN's."""
    from numpy.random import default_rng

    if family == "acre":
        regime, part = CELLS[family][cell]
        if source == "generator" or cell in TRUE:
            return acre.generate(regime, n, seed, part)
        found = acre.read(regime, part)
    elif source == "generator":
        return raven.generate(CELLS[family][cell], n, seed, answers)
    else:
        found = raven.read(CELLS[family][cell])
    return [found[i] for i in default_rng(seed).permutation(len(found))[:n]]


def training_rows(config: dict, seed: int) -> list[dict]:
    """Compact rows of config's train_rows problems in each of its formats, drawn from its regime.

    A problem of ACRE is of the regime's `trained_part`, and asks for all its objects and some groups; in
    RAVEN every word of a panel is predicted.
    """
    n, family = config["train_rows"], config["family"]
    if family == "acre":
        drawn = acre.generate(config["regime"], n, [seed, 1], config["trained_part"])
        made = {format: acre.rows(drawn, format, seed, dense=True) for format in config["formats"]}
    else:
        drawn = raven.generate(CELLS[family][config["regime"]], n, [seed, 1], config["answer_set"])
        made = {format: raven.rows(drawn, format) for format in config["formats"]}
    return [row for rows in _matched(made, config).values() for row in rows]


def _matched(made: dict[str, list[dict]], config: dict) -> dict[str, list[dict]]:
    """Rows of both formats with prompts of equal length, up to config's `matched` words longer, if not 0."""
    if not config["matched"]:
        return made
    return dict(
        zip(
            FORMATS,
            icl_rows.match_lengths(*(made[format] for format in FORMATS), extra=config["matched"]),
            strict=True,
        )
    )


def test_rows(config: dict, cell: str) -> dict[str, list[dict]]:
    """{format: compact rows} of config's test_rows queries of a cell; each problem in both formats."""
    n, family = config["test_rows"], config["family"]
    queries = 4 if family == "acre" else 1
    found = problems(
        family, cell, config["source"], -(-n // queries), config["split_seed"], config["answer_set"]
    )
    made = {
        format: acre.rows(found, format, config["split_seed"])
        if family == "acre"
        else raven.rows(found, format)
        for format in FORMATS
    }
    matched = _matched({format: rows[:n] for format, rows in made.items()}, config)
    return {format: scored(rows) for format, rows in matched.items()}
