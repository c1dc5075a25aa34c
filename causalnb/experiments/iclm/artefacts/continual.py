"""Table 2 and Figures 16 and 17 of ICLM, made from stored results: ACRE first, then RAVEN.

Beside the paper's rows: modules, centroids and router of ACRE kept as they were; which part forgets; whether
a module of ACRE is used on RAVEN; and a measure for a collapsed module.
"""

from collections import Counter

from causalnb.experiments.iclm.continual import PARTS, TASKS
from causalnb.experiments.iclm.data import FORMATS
from causalnb.lab import evidence
from causalnb.lab.registry import artefact
from causalnb.lab.tables import percent, points

CONTINUAL = "iclm.continual"
SINGLE = dict(zip(TASKS, ("iclm.acre", "iclm.raven"), strict=True))
SHORT = dict(zip(FORMATS, ("Text", "Symb"), strict=True))  # as the paper's columns have them
ROUTED = {"iclm": "ICLM", "kept": "ICLM, ACRE's part kept"}
ARMS = {**ROUTED, "finetuned": "Finetuned-Sequential"}
SINGLE_TASK, IN_TURN = "Table 1", "ACRE → RAVEN"  # headings over the paper's rows
SIDES = {"reproduced": "above 0", "opposite": "below 0", "inconclusive": "0 is inside"}
CONTROLS = {  # contrasts of ours, in words: (treatment, baseline, metric) as in claims.csv
    "one fine-tuned module on RAVEN In-Center text, after ACRE - RAVEN only": (
        "finetuned",
        "iclm.raven:finetuned",
        "after_raven_in_center_text_choice|in_center_text_choice",
    ),
    "ACRE symbolic after RAVEN, kept - sequential": ("kept", "finetuned", "after_acre_IID_symbolic_exact"),
    "ACRE after RAVEN, kept - ICLM": (
        "kept",
        "iclm",
        "after_acre_IID_text_exact+after_acre_IID_symbolic_exact",
    ),
    "RAVEN, kept - ICLM": ("kept", "iclm", "after_raven_center_text_exact+after_raven_center_symbolic_exact"),
}
BACK = (*PARTS, "served")  # what is put back: a part, or the one domain module that served these inputs
BACK_NAMES = dict(zip(PARTS, PARTS, strict=False)) | {"served": "serving module"}
LOST = 0.1  # of ACRE's questions, from which a single run is asked which part forgot
COLLAPSED = 0.5  # of the other domain modules' mean tie: below it a module counts as collapsed


def cells(task: str, profile: str | None = None) -> list[str]:
    """The cells of a task's three sets, in the order of the paper's columns."""
    from causalnb.lab import registry

    return registry.config(CONTINUAL, "iclm", profile)[task]["cells"]


def by_arm(experiment: str, arms, profile: str | None = None) -> dict[tuple[str, str], object]:
    """{(experiment, arm): DataFrame by seed}; LabError where results are missing."""

    found = evidence.require(experiment, profile, arms)
    return {(experiment, arm): found[found.arm == arm].set_index("seed") for arm in arms}


# Table 2


def columns(profile: str | None = None) -> list[tuple[str, str, str]]:
    """(task, cell, format) of Table 2's columns."""
    return [(task, cell, format) for task in TASKS for cell in cells(task, profile) for format in FORMATS]


def printed_rows() -> dict[tuple[str, str], dict]:
    """{(heading, row): {(group, Text or Symb): fraction or None}} of the paper's Table 2."""
    from causalnb.lab.tables import paper

    found = {}
    for line in paper("iclm.table2").itertuples():
        value = None if line.value != line.value else line.value
        found.setdefault((line.row_group, line.row), {})[line.group, line.column] = value
    return found


def _ours(found: dict, chosen: dict, kind: str, wanted: list[tuple]) -> list:
    """Cells of a row and its number of seeds: `kind` of what `chosen` takes for each task.

    chosen is {task: ((experiment, arm), what the metric's name begins with)}.
    """
    from causalnb.lab.statistics import mean_ci

    told, seeds = [], set()
    for task, cell, format in wanted:
        place, before = chosen.get(task, (None, ""))
        metric = f"{before}{cell}_{format}_{kind}"
        if place is None or metric not in found[place]:
            told.append("")
            continue
        summary = mean_ci(found[place][metric])
        seeds.add(summary.n)
        told.append(percent(summary).partition(" (")[0])
    return [", ".join(map(str, sorted(seeds))), *told]


def continual_table(profile: str | None = None):
    """Table 2: the paper's rows and ours, and the arm that keeps what ACRE used."""
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    found, wanted, printed = by_arm(CONTINUAL, ARMS, profile), columns(profile), printed_rows()
    for home in SINGLE.values():
        found |= by_arm(home, ["iclm"], profile)
    groups = list(dict.fromkeys(group for group, _ in next(iter(printed.values()))))
    names = dict(zip([(task, cell) for task in TASKS for cell in cells(task, profile)], groups, strict=True))
    modules = {id: registry.config(id, "iclm", profile)["num_modules"] for id, _ in found}

    def said(*row):
        values = [printed[row][names[task, cell], SHORT[format]] for task, cell, format in wanted]
        return [f"paper: {row[1]}", "1", *("" if value is None else f"{100 * value:.1f}" for value in values)]

    def after(arm):
        return {task: ((CONTINUAL, arm), f"after_{task}_") for task in TASKS}

    def ours(name, chosen, kind="exact"):
        return [f"ours: {name}", *_ours(found, chosen, kind, wanted)]

    rows = []
    for task in TASKS:
        home = SINGLE[task]
        rows += [
            said(SINGLE_TASK, f"ICLM {task.upper()}"),
            ours(f"ICLM {task.upper()} only, N = {modules[home]}", {task: ((home, "iclm"), "")}),
        ]
    before = {"acre": ((CONTINUAL, "iclm"), "before_acre_")}
    rows += [
        ours(f"ICLM before RAVEN, N = {modules[CONTINUAL]}", before),
        said(IN_TURN, "ICLM"),
        ours(ARMS["iclm"], after("iclm")),
        ours("ICLM, likeliest of eight", after("iclm"), "choice"),
        ours(ARMS["kept"], after("kept")),
        said(IN_TURN, "ICLM-Invariant"),
        ours("ICLM-Invariant", after("iclm"), "invariant"),
        ours("ICLM-Domain", after("iclm"), "domain"),
        said(IN_TURN, "LLaMA2-Finetuned-Sequential"),
        ours(ARMS["finetuned"], after("finetuned")),
    ]
    heads = [f"{names[task, cell]} {SHORT[format]}" for task, cell, format in wanted]
    asked = registry.config(CONTINUAL, "iclm", profile)["test_rows"]
    return Table(
        "iclm.table2",
        ["model", "seeds", *heads],
        rows,
        "ACRE, then RAVEN: percent right, ours as mean ± half of the 95 % interval over seeds",
        f"Ours: {asked:,} questions a cell, whole answers; of RAVEN the whole ninth panel is written, and in "
        "one row it is the likeliest of eight. The paper: one run, 101 questions a cell, RAVEN by letter. "
        "Kept: modules used by ACRE, their centroids and the router are not trained on RAVEN.",
    )


def first_task_modules(rows, profile: str | None = None) -> dict[int, list[int]]:
    """{seed: domain modules that serve ACRE before RAVEN}, of an arm's DataFrame by seed.

    They are given at least the share of i.i.d. inputs from which the experiment calls a module used.
    """
    from causalnb.lab import registry

    config, first = registry.config(CONTINUAL, "iclm", profile), cells(TASKS[0], profile)[0]
    shares = {i: _module_share(rows, f"before_{TASKS[0]}_{first}", [i]) for i in range(config["num_modules"])}
    return {
        seed: [i for i, share in shares.items() if share[seed] >= config["used_share"]] for seed in rows.index
    }


def _module_share(rows, cell: str, modules: list[int], formats=FORMATS):
    """Series by seed: share of a cell's inputs that go to some modules, mean over formats."""
    return sum(rows[f"{cell}_{format}_module{i}"] for i in modules for format in formats) / len(formats)


def routing_shares(rows, profile: str | None = None, formats=FORMATS) -> dict[str, dict[int, float]]:
    """{what: {seed: share}} of an arm's DataFrame by seed, i.i.d. sets, mean over formats.

    first: inputs of ACRE that go to ACRE's modules after RAVEN; overlap: of the shares of all modules before
    and after, an upper bound of the inputs of ACRE whose module is the same; second: inputs of RAVEN that go
    to ACRE's modules.
    """
    first, second = (cells(task, profile)[0] for task in TASKS)
    before, after, other = (f"before_acre_{first}", f"after_acre_{first}", f"after_raven_{second}")
    modules = {int(name.rpartition("module")[2]) for name in rows if name.startswith(f"{after}_text_module")}
    found = {"first": {}, "overlap": {}, "second": {}}
    for seed, used in first_task_modules(rows, profile).items():
        row = rows.loc[[seed]]
        for what, cell in (("first", after), ("second", other)):
            found[what][seed] = float(_module_share(row, cell, used, formats).iloc[0])
        same = [
            min(float(row[f"{cell}_{format}_module{i}"].iloc[0]) for cell in (before, after))
            for i in modules
            for format in formats
        ]
        found["overlap"][seed] = sum(same) / len(formats)
    return found


def routing_table(profile: str | None = None):
    """Where inputs go after RAVEN, by what ACRE used: claim 16's numbers."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    rows = []
    for (_, arm), by_seed in by_arm(CONTINUAL, ROUTED, profile).items():
        used = mean_ci([len(modules) for modules in first_task_modules(by_seed, profile).values()])
        for format in FORMATS:
            shares = routing_shares(by_seed, profile, (format,))
            told = [mean_ci(list(shares[what].values())) for what in ("overlap", "first", "second")]
            rows.append([ROUTED[arm], format, f"{used.mean:.1f}", *map(percent, told)])
    return Table(
        "iclm.table2_routing",
        [
            "model",
            "format",
            "modules ACRE uses",
            "ACRE: same module, at most",
            "ACRE: in a module of ACRE",
            "RAVEN: in a module of ACRE",
        ],
        rows,
        "Routing after RAVEN, percent of i.i.d. inputs, mean ± half of the 95 % interval (seeds)",
        "A module of ACRE served it before RAVEN began. At most: what the shares of all modules before and "
        "after have in common.",
    )


# what is forgotten, and where


def forgetting(profile: str | None = None) -> dict[tuple[str, str], dict[str, dict[int, float]]]:
    """{(arm, format): {measure: {seed: share}}}, means over ACRE's sets.

    before and after RAVEN; and for arms with a router, part_back: after, with that part as it was before.
    """
    sets, told = cells(TASKS[0], profile), {}
    for (_, arm), rows in by_arm(CONTINUAL, ARMS, profile).items():
        for format in FORMATS:

            def mean(when, rows=rows, format=format):
                names = [f"{when}_acre_{cell}_{format}_exact" for cell in sets]
                return rows[names].mean(axis=1).to_dict()

            times = ["before", "after", *(f"{part}_back" for part in (BACK if arm in ROUTED else ()))]
            told[arm, format] = {when: mean(when) for when in times}
    return told


def losses(profile: str | None = None) -> dict[tuple[str, str], dict[str, list[float]]]:
    """{(arm, format): {"lost": by seed, part: what putting it back regains, by seed}}."""
    from causalnb.lab.statistics import paired

    found = {}
    for key, one in forgetting(profile).items():
        back = {part: one[f"{part}_back"] for part in BACK if f"{part}_back" in one}
        found[key] = {
            "lost": paired(one["before"], one["after"]),
            **{part: paired(scores, one["after"]) for part, scores in back.items()},
        }
    return found


def forgetting_table(profile: str | None = None):
    """What is lost of ACRE, and what comes back with one part as it was, by arm and format."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    scores, rows = forgetting(profile), []
    for (arm, format), one in losses(profile).items():
        ends = [percent(mean_ci(list(scores[arm, format][when].values()))) for when in ("before", "after")]
        parts = [points(mean_ci(one[part])) if part in one else "" for part in BACK]
        rows.append([ARMS[arm], format, *ends, points(mean_ci(one["lost"])), *parts])
    return Table(
        "iclm.forgetting",
        [
            "model",
            "format",
            "before RAVEN",
            "after",
            "lost",
            *(f"{name} back" for name in BACK_NAMES.values()),
        ],
        rows,
        "ACRE before and after RAVEN, mean of its three sets: percent right, and differences in points "
        "(seeds)",
        "Back: what is regained when that part alone is as it was before RAVEN. domains: the adapters "
        "of all domain modules; serving module: of the one that most of these inputs went to before "
        "RAVEN. head: normalisation and the fused head. They need not sum to what is lost.",
    )


def alone_table(profile: str | None = None):
    """What modules that served ACRE answer alone, through the base's head, before and after RAVEN."""
    from causalnb.lab.statistics import mean_ci, paired
    from causalnb.lab.tables import Table

    sets, rows = cells(TASKS[0], profile), []
    for (_, arm), found in by_arm(CONTINUAL, ROUTED, profile).items():
        for format in FORMATS:
            for name, first, second in (
                ("serving", "domain", "served"),
                ("invariant", "invariant", "invariant"),
            ):
                before, after = (
                    found[[f"{when}_acre_{cell}_{format}_{kind}" for cell in sets]].mean(axis=1).to_dict()
                    for when, kind in (("before", first), ("after", second))
                )
                rows.append(
                    [
                        ROUTED[arm],
                        format,
                        name,
                        *(percent(mean_ci([*scores.values()])) for scores in (before, after)),
                        points(mean_ci(paired(before, after))),
                    ]
                )
    return Table(
        "iclm.forgetting_alone",
        ["model", "format", "module alone", "before RAVEN", "after", "lost"],
        rows,
        "Modules of ACRE alone, without router and fused head, mean of three sets: percent right, and the "
        "difference in points (seeds)",
        "The serving module: the one that most inputs of this set and format went to before RAVEN; "
        "afterwards the same module is asked, wherever the router would send them.",
    )


def forgetting_remarks(profile: str | None = None) -> list[str]:
    """Which part brings most of what is lost back, by arm and format and over single runs, in sentences."""
    from causalnb.lab.statistics import mean_ci

    said, firsts, runs = [], Counter(), 0
    for (arm, format), one in losses(profile).items():
        lost, name = mean_ci(one["lost"]), f"{ARMS[arm]}, {format}"
        for place in range(len(one["lost"]) if PARTS[0] in one else 0):
            if one["lost"][place] >= LOST:
                runs += 1
                firsts[max(PARTS, key=lambda part: one[part][place])] += 1
        if not lost.low > 0:
            had = forgetting(profile)[arm, format]["before"]
            by_seed = ", ".join(
                f"{100 * value:+.1f} of {100 * had[seed]:.1f}"
                for seed, value in zip(sorted(had), one["lost"], strict=True)
            )
            said.append(
                f"{name}: {points(lost)} points are lost, an interval that does not show a loss; by "
                f"seed {by_seed}."
            )
            continue
        back = {BACK_NAMES[part]: mean_ci(one[part]) for part in BACK if part in one}
        best = max(back, key=lambda part: back[part].mean, default=None)
        tail = (
            ""
            if best is None
            else (
                f"; most comes back with the {best} ({points(back[best])}), least with "
                f"the {min(back, key=lambda part: back[part].mean)}"
            )
        )
        said.append(f"{name}: {points(lost)} points are lost{tail}.")
    if runs:
        whole = {"invariant": "invariant module", "domains": "domain modules"}
        parts = ", ".join(f"the {whole.get(part, part)} in {n}" for part, n in firsts.most_common())
        said.append(
            f"Run by run, of the {runs} losses of {100 * LOST:.0f} points or more in models with "
            f"modules, most comes back with {parts}; both arms share their first stages."
        )
    return said


LOOKS = {  # when: colour, marker, fill, height above the row
    "before": ("black", "o", "white", 0),
    "after": ("black", "o", None, 0),
    "router_back": ("green", "^", None, 0.3),
    "invariant_back": ("blue", "v", None, 0.3),
    "domains_back": ("orange", "s", None, 0.3),
    "head_back": ("purple", "D", None, 0.3),
    "served_back": ("sky", "P", None, 0.53),
}


def forgetting_figure(profile: str | None = None):
    """(figure, alt): ACRE before and after RAVEN, the paper's and ours, and with each part put back."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import COLOURS

    scores, printed = forgetting(profile), printed_rows()
    names = ["paper: ICLM", "paper: Finetuned-Sequential", *(f"ours: {name}" for name in ARMS.values())]
    fig, axes = plt.subplots(1, len(FORMATS), figsize=(8.6, 2.9), sharex=True, sharey=True)
    told = []
    for ax, format in zip(axes, FORMATS, strict=True):

        def mean(*row, format=format):
            values = [value for (_, column), value in printed[row].items() if column == SHORT[format]]
            return np.mean(values[: len(cells(TASKS[0], profile))])  # ACRE's sets stand first

        rows = [
            {"before": mean(SINGLE_TASK, "ICLM ACRE"), "after": mean(IN_TURN, "ICLM")},
            {"after": mean(IN_TURN, "LLaMA2-Finetuned-Sequential")},
            *(
                {when: np.mean(list(by_seed.values())) for when, by_seed in scores[arm, format].items()}
                for arm in ARMS
            ),
        ]
        for place, (name, row, arm) in enumerate(zip(names, rows, [None, None, *ARMS], strict=True)):
            if "before" in row:
                ax.plot(
                    [100 * row["before"], 100 * row["after"]],
                    [-place] * 2,
                    color="0.6",
                    linewidth=2,
                    linestyle="-",
                    marker="",
                    zorder=1,
                )
            for when in ("before", "after") if arm else ():
                by_seed = 100 * np.array(list(scores[arm, format][when].values()))
                ax.plot(
                    by_seed,
                    [-0.28 - place] * len(by_seed),
                    linestyle="",
                    marker="o",
                    markersize=3,
                    color="black",
                    markerfacecolor=LOOKS[when][2] or "black",
                    markeredgewidth=0.7,
                )
            for when, (colour, marker, fill, up) in LOOKS.items():
                if when in row:
                    ax.plot(
                        100 * row[when],
                        up - place,
                        marker=marker,
                        color=COLOURS[colour],
                        markersize=6.5,
                        markerfacecolor=fill or COLOURS[colour],
                        markeredgecolor="black",
                        linestyle="",
                    )
            values = ", ".join(f"{when.replace('_', ' ')} {100 * value:.1f}" for when, value in row.items())
            told.append(f"{format}, {name}: {values}")
        ax.set(
            xlabel="ACRE right, % (small: each seed)",
            title=format,
            xlim=(-3, 103),
            ylim=(0.6 - len(names), 0.6),
        )
        ax.set_yticks([-place for place in range(len(names))], names)
    handles = [
        plt.Line2D(
            [],
            [],
            linestyle="",
            marker=marker,
            markersize=6.5,
            markeredgecolor="black",
            markerfacecolor=fill or COLOURS[colour],
        )
        for colour, marker, fill, _ in LOOKS.values()
    ]
    labels = ["before RAVEN", "after", *(f"after, {name} put back" for name in BACK_NAMES.values())]
    fig.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=7.5)
    return fig, (
        f"ACRE right before and after RAVEN, a row for each model, and the score with one part put "
        f"back. {'; '.join(told)}."
    )


# layer by layer


def layer_tables(
    task: str, profile: str | None = None, cell: str | None = None, seed: int = 0
) -> dict[tuple[str, str], object]:
    """{(one, other): correlations (L + 1, L + 1)} of the transfer model's modules on a cell of a task.

    Rows are layers of the one, columns of the other; cell None is the task's i.i.d. one.
    """
    from causalnb.lab import results

    evidence.require(CONTINUAL, profile, ["iclm"])
    rows = results.curves(CONTINUAL, profile, ["iclm"])
    return tables_of(rows[(rows.seed == seed) & (rows.task == task)], cell or cells(task, profile)[0])


def tables_of(rows, cell: str) -> dict[tuple[str, str], object]:
    """`layer_tables` of a run's history, or of what iclm_maps.layer_rows returns, as a DataFrame."""
    rows = rows[rows.pair.notna() & (rows.cell == cell)].sort_values("layer", kind="stable")
    places = [f"to_{i}" for i in range(rows.layer.nunique())]
    return {
        tuple(pair.split("|")): its[places].to_numpy(float) for pair, its in rows.groupby("pair", sort=False)
    }


def panels(tables: dict) -> list[tuple[str, str]]:
    """The pairs in the order of the paper's panels: the router's, the invariant's, own ones, the others."""
    domains = [(a, b) for a, b in tables if a.isdigit()]
    return (
        [pair for pair in tables if not pair[0].isdigit()]
        + [(a, b) for a, b in domains if a == b]
        + [(a, b) for a, b in domains if a != b]
    )


def ties(tables: dict) -> dict[str, tuple[float, float]]:
    """{domain module: (mean correlation with its own other layers, with all layers of other modules)}."""
    import numpy as np

    found = {}
    for name in (a for a, b in tables if a == b and a.isdigit()):
        own = tables[name, name]
        others = [table.mean() for pair, table in tables.items() if name in pair and pair[0] != pair[1]]
        found[name] = (float(own[~np.eye(len(own), dtype=bool)].mean()), float(np.mean(others)))
    return found


def collapse(task: str, profile: str | None = None, cell: str | None = None) -> dict[int, dict]:
    """{seed: `ties`} of the transfer model on a cell of a task, None for its i.i.d. one."""
    from causalnb.lab import results

    seeds = evidence.require(CONTINUAL, profile, ["iclm"]).seed
    rows, cell = results.curves(CONTINUAL, profile, ["iclm"]), cell or cells(task, profile)[0]
    rows = rows[rows.task == task]
    return {int(seed): ties(tables_of(rows[rows.seed == seed], cell)) for seed in seeds}


def shares_of_others(found: dict[str, tuple[float, float]]) -> dict[str, float]:
    """{domain module: its tie, the mean of its two numbers, over the other domain modules' mean tie}."""
    tie = {name: sum(both) / 2 for name, both in found.items()}
    return {name: one * (len(tie) - 1) / (sum(tie.values()) - one) for name, one in tie.items()}


def collapse_contrast(task: str, profile: str | None = None) -> dict[int, float]:
    """{seed: the lowest module's tie as a share of the others' mean tie, less COLLAPSED}; below 0: collapsed.

    The lowest of several is always below the others' mean, so that a mere difference could not fail.
    """
    return {
        seed: min(shares_of_others(found).values()) - COLLAPSED
        for seed, found in collapse(task, profile).items()
    }


def ties_table(task: str, profile: str | None = None):
    """Every domain module of every seed: its ties, what it is given, and whether it has collapsed."""
    from causalnb.lab.tables import Table

    given, rows = by_arm(CONTINUAL, ["iclm"], profile)[CONTINUAL, "iclm"], []
    for seed, found in collapse(task, profile).items():
        for name, part in shares_of_others(found).items():
            shares = [
                _module_share(given.loc[[seed]], f"after_{one}_{cells(one, profile)[0]}", [int(name)])
                for one in TASKS
            ]
            rows.append(
                [
                    seed,
                    f"Dom {name}",
                    *(f"{value:.2f}" for value in (*found[name], part)),
                    *(f"{100 * share.iloc[0]:.0f}" for share in shares),
                    "yes" if part < COLLAPSED else "",
                ]
            )
    figure = {"acre": "fig16", "raven": "fig17"}[task]
    return Table(
        f"iclm.{figure}_ties",
        [
            "seed",
            "module",
            "own layers",
            "other modules",
            "of the others' tie",
            "% of ACRE",
            "% of RAVEN",
            "collapsed",
        ],
        rows,
        f"Mean correlations of the domain modules on {task.upper()}, i.i.d., after both tasks",
        "A module's tie is the mean of its two correlations, with its own other layers and with all layers "
        f"of other modules; it has collapsed where its tie is below {COLLAPSED:g} of the other domain "
        "modules' mean tie. Shares are of inputs that the router gives to it.",
    )


def _title(name: str) -> str:
    return f"Dom {name}" if name.isdigit() else {"router": "Router", "invariant": "Inv"}[name]


WIDE, SHIFT = 6, (1.22, 1.38)  # panels in a row, and from one to the next, in widths of a panel


def draw_panels(ax, tables: dict):
    """Draw each table of layers in the paper's order on one ax, on one scale from -1 to 1; the last image."""
    from matplotlib.patches import Rectangle

    last = len(next(iter(tables.values()))) - 1
    for place, pair in enumerate(panels(tables)):
        row, column = divmod(place, WIDE)
        left, top = column * SHIFT[0], row * SHIFT[1]
        image = ax.imshow(tables[pair], cmap="RdBu", vmin=-1, vmax=1, extent=(left, left + 1, top + 1, top))
        ax.add_patch(Rectangle((left, top), 1, 1, fill=False, linewidth=0.6))
        ax.text(
            left + 0.5,
            top - 0.05,
            f"({chr(ord('a') + place)}) {_title(pair[0])}-{_title(pair[1])}",
            fontsize=7.5,
            ha="center",
        )
        for layer in (0, last):
            near = (layer + 0.5) / (last + 1)
            if column == 0:
                ax.text(left - 0.04, top + near, layer, fontsize=6, ha="right", va="center")
            ax.text(left + near, top + 1.04, layer, fontsize=6, ha="center", va="top")
    ax.text(
        -0.2,
        SHIFT[1] * row / 2 + 0.5,
        "layer of the first",
        fontsize=7,
        rotation=90,
        ha="center",
        va="center",
    )
    ax.text(0.5, top + 1.2, "layer of the second", fontsize=7, ha="center", va="top")
    ax.set(xlim=(-0.3, SHIFT[0] * WIDE - 0.2), ylim=(top + 1.35, -0.25), aspect="equal")
    ax.set_axis_off()
    return image


def _draw_ties(ax, task: str, profile, cell, seed: int) -> str:
    """Every seed's domain modules as shares of the others' tie, the panels' seed filled; it in words."""
    from causalnb.lab.figures import COLOURS, MARKERS

    told = []
    every = collapse(task, profile, cell)
    for place, (one, found) in enumerate(every.items()):
        parts, aside = shares_of_others(found), 0.12 * (place - (len(every) - 1) / 2)
        ax.plot(
            [at + aside for at in range(len(parts))],
            list(parts.values()),
            linestyle="",
            markersize=6,
            label=f"seed {one}",
            marker=MARKERS[place % len(MARKERS)],
            color=COLOURS["blue"],
            markerfacecolor=COLOURS["blue"] if one == seed else "white",
            zorder=3 if one == seed else 2,
        )
        told.append(f"seed {one}: " + ", ".join(f"Dom {name} {part:.2f}" for name, part in parts.items()))
    ax.axhline(COLLAPSED, color=COLOURS["vermillion"], linestyle="--", marker="", linewidth=1)
    ax.text(
        0.99,
        COLLAPSED - 0.02,
        "collapsed below",
        color=COLOURS["vermillion"],
        fontsize=7,
        ha="right",
        va="top",
        transform=ax.get_yaxis_transform(),
    )
    ax.set_xticks(range(len(parts)), [_title(name) for name in parts], fontsize=7)
    ax.set(xlim=(-0.5, len(parts) - 0.5), ylim=(min(0.0, ax.get_ylim()[0]), max(1.6, ax.get_ylim()[1] + 0.3)))
    ax.tick_params(axis="y", labelsize=7)
    ax.set_title("tie, as a share of the others'", fontsize=7.5)
    ax.legend(fontsize=6, loc="upper center", ncols=len(every), borderaxespad=0.1)
    return "; ".join(told)


def layers_figure(task: str, profile: str | None = None, cell: str | None = None, seed: int = 0):
    """(figure, alt): Figure 16 or 17, every pair of modules layer by layer, and the domain modules' ties."""
    import matplotlib.pyplot as plt

    tables = layer_tables(task, profile, cell, seed)
    deep, rest = -(-len(tables) // WIDE), len(tables) % WIDE
    fig = plt.figure(figsize=(8.8, 1.62 * deep))
    fig.set_layout_engine("none")  # the places of all parts are known
    ax = fig.add_axes((0, 0, 0.92, 1))
    image = draw_panels(ax, tables)
    bar = fig.colorbar(image, cax=fig.add_axes((0.93, 0.35, 0.012, 0.4)), ticks=(-1, 0, 1))
    bar.ax.tick_params(labelsize=7)
    bar.set_label("Pearson correlation", fontsize=7.5, labelpad=-4)
    told = ""
    if rest:  # what is left of the last row
        right, (bottom, top) = SHIFT[0] * WIDE - 0.2, ax.get_ylim()
        low = (deep - 1) * SHIFT[1] + 1
        inset = ax.inset_axes(
            (
                (rest * SHIFT[0] + 0.55) / (right + 0.3),
                (bottom - low) / (bottom - top),
                (right - rest * SHIFT[0] - 0.4) / (right + 0.3),
                1 / (bottom - top),
            )
        )
        told = _draw_ties(inset, task, profile, cell, seed)
    means = ", ".join(f"{_title(a)}-{_title(b)} {tables[a, b].mean():.2f}" for a, b in panels(tables))
    return fig, (
        f"{len(tables)} maps of correlations between layers of two modules on {task.upper()}, seed "
        f"{seed}; their means: {means}. Ties of domain modules as shares of the others': {told}."
    )


# verdicts


def verdicts(profile: str | None = None) -> dict:
    """{claim: (claim's row, Verdict)} on Table 2 and Figure 16."""
    from causalnb.lab.verdicts import claims, decide, verdict

    rows = claims("iclm").set_index("id", drop=False)
    found = {id: decide(rows.loc[id], profile) for id in rows.id[rows.artefact == "iclm.table2"]}
    shares = routing_shares(by_arm(CONTINUAL, ["iclm"], profile)[CONTINUAL, "iclm"], profile)["second"]
    found["iclm.claim16"] = verdict([2 * share - 1 for share in shares.values()], None, -1)
    found["iclm.claim17"] = verdict(list(collapse_contrast("acre", profile).values()), None, -1)
    return {id: (rows.loc[id], one) for id, one in found.items()}


def controls(profile: str | None = None) -> dict:
    """{contrast of ours in words: Verdict, without a size and a claim}."""
    from causalnb.lab.verdicts import decide

    return {
        words: decide(
            {
                "id": words,
                "experiment": CONTINUAL,
                "our_treatment": treatment,
                "our_baseline": baseline,
                "our_metric": metric,
                "unit": "",
                "size": float("nan"),
                "direction": "+",
            },
            profile,
        )
        for words, (treatment, baseline, metric) in CONTROLS.items()
    }


def verdict_table(profile: str | None = None):
    """The paper's claims on Table 2 and Figure 16 with their verdicts, and our controls beside them."""
    from causalnb.lab.tables import Table

    words = {
        "iclm.claim16": "share of RAVEN in ACRE's modules - share in others",
        "iclm.claim17": f"lowest tie, in % of the others' - {100 * COLLAPSED:g}",
    }
    rows = [
        [
            row.claim,
            words.get(id, f"{row.treatment} - {row.baseline}: {row.metric}, {row.setting}"),
            "" if row["size"] != row["size"] else f"{row.direction}{100 * row['size']:.1f}",
            points(found.summary),
            found,
        ]
        for id, (row, found) in verdicts(profile).items()
    ]
    rows += [
        ["(ours, a control)", contrast, "", points(found.summary), SIDES[found.label]]
        for contrast, found in controls(profile).items()
    ]
    return Table(
        "iclm.table2_verdicts",
        ["the paper's claim", "contrast", "paper, points", "ours, points", "verdict"],
        rows,
        "Claims on continual learning: differences of the same seeds, mean [95 % interval] (seeds)",
        "For a control the last column is the side of 0 on which its interval lies.",
    )


@artefact("iclm.table2", needs=(CONTINUAL, *SINGLE.values()))
def table2(profile):
    """Table 2, with where inputs are routed, and the claims on it."""
    from causalnb.lab.tables import save_table

    for build in (continual_table, routing_table, verdict_table):
        save_table(build(profile))


@artefact(
    "iclm.forgetting",
    needs=(CONTINUAL,),
    extra=True,
    printed_as="Section 5.4",
    notebook="33_continual_learning",
    kind="measured",
    shows="what is lost of ACRE after RAVEN, and which part forgets",
)
def forgotten(profile):
    """What is lost of ACRE and what comes back with each part."""
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(forgetting_table(profile))
    save_table(alone_table(profile))
    fig, alt = forgetting_figure(profile)
    save_figure(
        fig,
        "iclm.forgetting",
        alt=alt,
        profile=profile,
        caption=(
            "ACRE before and after RAVEN, mean of its three sets and over seeds; triangles, squares, diamonds, "
            "crosses: after RAVEN, with that part alone as it was before."
        ),
    )


def _layers(task: str, id: str, profile) -> None:
    from causalnb.lab.figures import save_figure
    from causalnb.lab.tables import save_table

    save_table(ties_table(task, profile))
    fig, alt = layers_figure(task, profile)
    save_figure(
        fig,
        id,
        alt=alt,
        profile=profile,
        caption=(
            f"Pearson correlations between the layers of two modules on {task.upper()}, i.i.d., at the states "
            "that predict an answer; one seed, and the domain modules' ties of all seeds."
        ),
    )


@artefact("iclm.fig16", needs=(CONTINUAL,))
def fig16(profile):
    """Figure 16: the transfer model's modules layer by layer on ACRE."""
    _layers("acre", "iclm.fig16", profile)


@artefact("iclm.fig17", needs=(CONTINUAL,))
def fig17(profile):
    """Figure 17: the same on RAVEN."""
    _layers("raven", "iclm.fig17", profile)
