"""Table 1 of ICLM as printed, with what its test sizes imply, and as measured here; and the true shifts."""

from functools import lru_cache
from itertools import product

from causalnb.lab.registry import artefact
from causalnb.lab.statistics import sign_flip
from causalnb.lab.tables import points

FAMILIES = ("acre", "raven")
SETS = {  # cell -> heading in the paper, the i.i.d. one first
    "acre": {"IID": "ACRE", "Comp": "ACRE-Comp", "Sys": "ACRE-Sys"},
    "raven": {"center": "RAVEN", "four": "RAVEN-Four", "in_center": "RAVEN-In-Center"},
}
FORMATS = {"text": "Text", "symbolic": "Symb"}
CHOSEN = {"acre": "exact", "raven": "choice"}  # as the paper scores: one of three words, one of eight panels
BASELINE, ICLM = "LLaMA2-Finetuned-All", "ICLM"
ROWS = {  # row -> arm, score, row in the paper ("" for ours)
    "base": ("base", "exact", "LLaMA2-Base"),
    "fine-tuned": ("finetuned", "exact", BASELINE),
    "fine-tuned, ICLM's size": ("finetuned_wide", "exact", ""),
    "ICLM": ("iclm", "exact", ICLM),
    "no invariant module": ("no_invariant", "exact", "ICLM-No-Inv"),
    "no invariant module, ICLM's head": ("no_invariant_head", "exact", ""),
    "invariant module alone": ("iclm", "invariant", "ICLM-Invariant"),
    "domain module alone": ("iclm", "domain", "ICLM-Domain"),
    "oracle router": ("oracle", "exact", "LLaMA2-Finetuned-Oracle-Router"),
}
CONTRASTS = (
    ("ICLM", "fine-tuned"),
    ("ICLM", "fine-tuned, ICLM's size"),
    ("ICLM", "no invariant module, ICLM's head"),
    ("invariant module alone", "fine-tuned"),
    ("ICLM", "oracle router"),
    ("fine-tuned, ICLM's size", "fine-tuned"),
)
SHIFTS = ("iclm.shift.acre_comp", "iclm.shift.acre_sys", "iclm.shift.raven")
SHIFTED = {
    "comp_true": "ACRE, unseen objects",
    "sys_true": "ACRE, unseen structure",
    "four": "RAVEN, one to four figures",
    "in_center": "RAVEN, a figure in another",
}
SAME = {
    "comp_iid": "ACRE i.i.d., objects of training",
    "sys_iid": "ACRE i.i.d., structure of training",
    "center": "RAVEN i.i.d., one figure",
}  # beside the shifts: what is lost where nothing shifts
NAMED = {**SAME, **SHIFTED}
# Objects become symbols that are drawn anew for every row: none is unseen.
NO_SHIFT = {("comp_true", "symbolic"), ("comp_iid", "symbolic")}
ARMS = {"finetuned_wide": "fine-tuned, ICLM's size", "strong": "ICLM, best try"}
GATE = {
    "the paper's adapters: rank 8, attention alone": ("iclm.gate", "paper_lora"),
    "Table 1's adapters: rank 16, all linear maps": ("iclm", "finetuned"),
    "the same, in more steps": ("iclm.gate", "longer"),
    "adapters and all weights": ("iclm.gate", "all_weights"),
}
PAIRS = (("strong", "finetuned_wide"),)
SHIFT_ROWS = tuple(id.replace("shift", "shift_rows") for id in SHIFTS)
SEARCHES = {family: f"iclm.search.{family}" for family in FAMILIES}


# As printed


def printed_scores() -> dict[str, dict[tuple[str, str], float]]:
    """{row: {(set, format): accuracy}} of the paper's Table 1."""
    from causalnb.lab.tables import paper

    found = {}
    for line in paper("iclm.table1").itertuples():
        found.setdefault(line.row, {})[line.group, line.column] = line.value
    return found


def starred() -> list[str]:
    """The rows that the paper measured itself; the others are taken over."""
    from causalnb.lab.tables import paper

    table = paper("iclm.table1")
    return [*table[table.note.fillna("").str.startswith("star")].row.unique()]


def shares_of(items: int, digits: int = 3) -> set[float]:
    """All accuracies that a test of so many items can print."""
    return {round(k / items, digits) for k in range(items + 1)}


@lru_cache(None)
def implied_items(most: int = 500) -> tuple[int, int, int]:
    """(items, cells that are a share of them, cells): the size of test that explains the starred cells best.

    The best is the one by which so many fits are the least likely by luck: each three-digit number fits with
    the frequency of shares among all of them.
    """
    from scipy.stats import binom

    values = [value for row in starred() for value in printed_scores()[row].values()]
    sizes = range(20, most + 1)
    shares = [shares_of(n) for n in sizes]
    fits = [sum(value in known for value in values) for known in shares]
    luck = binom.logsf([k - 1 for k in fits], len(values), [len(known) / 1001 for known in shares])
    best = int(luck.argmin())
    return sizes[best], fits[best], len(values)


def count(accuracy: float, items: int) -> int:
    """How many right answers out of `items` a printed accuracy stands for."""
    return round(accuracy * items)


def fisher(row: str, other: str) -> dict[tuple[str, str], tuple[int, float]]:
    """{(set, format): (right answers more than the other row, p of Fisher's exact test)} of printed rows."""
    from scipy.stats import fisher_exact

    n, found = implied_items()[0], printed_scores()
    told = {}
    for cell, accuracy in found[row].items():
        a, b = count(accuracy, n), count(found[other][cell], n)
        told[cell] = a - b, float(fisher_exact([[a, n - a], [b, n - b]])[1])
    return told


def wins(row: str, other: str, level: float = 0.05) -> dict[str, int]:
    """{"more", "fewer", "significantly more", "significantly fewer"}: sets, of the printed counts."""
    found = fisher(row, other).values()
    signs, found = {"more": 1, "fewer": -1}, [*found]
    return {
        f"{sure}{word}": sum(sign * gain > 0 and (p < level or not sure) for gain, p in found)
        for sure in ("", "significantly ")
        for word, sign in signs.items()
    }


def printed_table():
    """Table 1 as printed, with Wilson's intervals and Fisher's tests at the size of test that it implies."""
    from causalnb.lab.statistics import wilson
    from causalnb.lab.tables import Table

    n, fits, cells = implied_items()
    measured, rows = starred(), []
    for row, found in printed_scores().items():
        told = []
        for value in found.values():
            one = wilson(count(value, n), n)
            told.append(f"{value:.3f} [{one.low:.2f}, {one.high:.2f}]" if row in measured else f"{value:.3f}")
        rows.append([row, *told])
    for row in (ICLM, "ICLM-Invariant"):
        rows.append(
            [
                f"{row} - {BASELINE}: items, p",
                *(f"{gain:+d}, {p:.2g}" for gain, p in fisher(row, BASELINE).values()),
            ]
        )
    columns = [f"{group} {column}" for group, column in printed_scores()[ICLM]]
    return Table(
        "iclm.table1_paper",
        ["", *columns],
        rows,
        f"Table 1 as printed, with Wilson's 95 % intervals and Fisher's exact test at {n} items",
        f"{n} test items are inferred: {fits} of {cells} starred accuracies are whole {n}ths. Rows "
        "without intervals were taken over from an earlier paper. " + printed_remark(),
    )


def printed_remark() -> str:
    """How many printed cells tell ICLM, or its invariant module, from the baseline; in sentences."""
    told = []
    for row in (ICLM, "ICLM-Invariant"):
        found = wins(row, BASELINE)
        told.append(
            f"{row} has more right answers than {BASELINE} on {found['more']} of 12 sets and fewer "
            f"on {found['fewer']}; by Fisher's test at 5 % it is better on "
            f"{found['significantly more']} and worse on {found['significantly fewer']}."
        )
    return " ".join(told)


# As measured


def measured(families=FAMILIES, profile: str | None = None) -> dict:
    """{family: DataFrame of all arms by (arm, seed)} of Table 1; LabError where results are missing."""
    from causalnb.lab import evidence

    return {
        family: evidence.require(f"iclm.{family}", profile).set_index(["arm", "seed"]) for family in families
    }


def columns(family: str, score: str = "exact", which: str = "all") -> list[str]:
    """Names of a score's metrics on "all" sets of a family, its "iid" or its "ood" ones, in both formats."""
    first, *others = SETS[family]
    cells = {"all": [first, *others], "iid": [first], "ood": others}[which]
    return [f"{cell}_{format}_{score}" for cell in cells for format in FORMATS]


def measure_of(row: str, score: str) -> str:
    """What a row of ROWS is scored by: "exact" or "choice", of the model or of a module alone."""
    own = ROWS[row][1]
    return own if score == "exact" else score if own == "exact" else f"{own}_{score}"


def over_sets(found: dict, row: str, which: str = "all", score: dict | None = None):
    """Series by seed: the mean over sets of all families in `found` of one of ROWS.

    Of exact answers, or of the score which `score` names for a family.
    """
    import pandas as pd

    parts = [
        table.loc[ROWS[row][0]][columns(family, measure_of(row, (score or {}).get(family, "exact")), which)]
        for family, table in found.items()
    ]
    return pd.concat(parts, axis=1).dropna().mean(axis=1)


def table1(family: str, found: dict, score: str = "exact"):
    """Table 1 on one family: every row as printed and as measured; score "choice" is RAVEN's among eight."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    said, rows = printed_scores(), []
    for name, (arm, _, printed) in ROWS.items():
        if printed:
            cells = [
                said[printed][group, column] for group in SETS[family].values() for column in FORMATS.values()
            ]
            rows.append([f"paper: {printed}", *(f"{value:.3f}" for value in cells)])
        values = found[family].loc[arm][columns(family, measure_of(name, score))]
        rows.append([f"ours: {name}", *(estimate(mean_ci(values[one])) for one in values)])
    heads = [f"{group} {column}" for group, column in product(SETS[family].values(), FORMATS.values())]
    how = {"exact": "every word of the answer right", "choice": "the right panel is the likeliest of eight"}
    chance = (
        "chance is 1/8"
        if score == "choice"
        else {"acre": "chance is near 1/3", "raven": "the answer is written, not chosen"}[family]
    )
    id = "iclm.table1" + "_raven" * (family == "raven") + "_choice" * (score == "choice")
    return Table(
        id,
        ["", *heads],
        rows,
        f"Table 1, {family.upper()}: accuracy, mean ± half of the 95 % interval (seeds); ours: {how[score]}",
        "The paper's accuracies are of one run, and of letters or words picked by an LLM of 7 "
        "billion parameters; ours of a small model on the same problems in compact rows; "
        f"{chance}. {gate_remark({family: found[family]})}",
    )


def contrasts_table(found: dict):
    """Differences of rows by paired seeds, means over i.i.d. and over o.o.d. sets of each family."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table

    heads = [
        (family, which, score)
        for family in found
        for which in ("iid", "ood")
        for score in dict.fromkeys(("exact", CHOSEN[family]))
    ]
    rows = []
    for row, other in CONTRASTS:
        cells = []
        for family, which, score in heads:
            one, by = {family: found[family]}, {family: score}
            gap = over_sets(one, row, which, by) - over_sets(one, other, which, by)
            cells.append(points(mean_ci(gap.dropna())))
        rows.append([f"{row} - {other}", *cells])
    titles = [
        f"{family.upper()} {'i.i.d.' if which == 'iid' else 'o.o.d.'}, {score}"
        for family, which, score in heads
    ]
    return Table(
        "iclm.table1_contrasts",
        ["difference, points", *titles],
        rows,
        "Table 1: differences of the same seeds, mean [95 % interval] (seeds)",
        "Means over both formats, and over both o.o.d. sets as the paper names them. Seeds differ "
        "in training problems, their order and the adapters; the test problems are the same.",
    )


def gate_remark(found: dict, wanted: float = 0.9) -> str:
    """Whether plain tuning solves what it was tuned on, in one sentence a family."""
    told = []
    for family, table in found.items():
        value = over_sets({family: table}, "fine-tuned", "iid").mean()
        so = (
            "and the o.o.d. columns ask what they should"
            if value >= wanted
            else "and differences are also differences in how much of the task was learned"
        )
        told.append(
            f"{family.upper()}: the fine-tuned model answers {value:.1%} of the i.i.d. problems "
            f"exactly, {'at or above' if value >= wanted else 'below'} our gate of "
            f"{wanted:.0%}, {so}."
        )
    return " ".join(told)


def gate_table(families=FAMILIES, profile: str | None = None):
    """What one module learns i.i.d., by what is trained and for how long; the row of Table 1 among them."""
    from causalnb.lab import evidence, registry
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, percent

    rows = []
    for name, (experiment, arm) in GATE.items():
        cells, steps, parameters = [], {}, {}  # dictionaries as ordered sets
        for family in families:
            found = evidence.require(f"{experiment}.{family}", profile, [arm])
            config = registry.config(f"{experiment}.{family}", arm, profile)
            trained = int(found["trainable_parameters"].iloc[0])
            steps[f"{config['steps'] * config['length']:,}"] = parameters[f"{trained:,}"] = None
            cells += [percent(mean_ci(found[one])) for one in columns(family, which="iid")]
        rows.append([name, ", ".join(steps), ", ".join(parameters), *cells])
    heads = [
        f"{next(iter(SETS[family].values()))} {column}" for family in families for column in FORMATS.values()
    ]
    return Table(
        "iclm.gate",
        ["what is tuned", "steps", "trained parameters", *heads],
        rows,
        "One module, i.i.d.: percent of exact answers, mean ± half of the 95 % interval (seeds)",
        "Our gate is 90 %: below it, arms also differ in how much of the task they have learned.",
    )


def contrasts(found: dict) -> dict[str, tuple[str, object]]:
    """{claim: (contrast in words, differences by seed)} of the claims on Table 1, over the families given.

    All are compared by CHOSEN.
    """
    import numpy as np

    def gap(row, other, which="all"):
        return over_sets(found, row, which, CHOSEN) - over_sets(found, other, which, CHOSEN)

    by_set = sum(
        np.sign((table.loc["iclm"] - table.loc["finetuned"])[columns(family, CHOSEN[family])]).sum(axis=1)
        for family, table in found.items()
    )
    alone = "invariant module alone", "domain module alone"
    told = {
        "iclm.claim1": ("ICLM - fine-tuned, mean of o.o.d. sets", gap("ICLM", "fine-tuned", "ood")),
        "iclm.claim3": ("sets won - sets lost, ICLM against fine-tuned", by_set),
        "iclm.claim4": (f"{alone[0]} - fine-tuned, all sets", gap(alone[0], "fine-tuned")),
        "iclm.claim5": (f"{alone[1]} - oracle router, all sets", gap(alone[1], "oracle router")),
    }
    if "raven" in found:
        raven, hardest = found["raven"], f"in_center_symbolic_{CHOSEN['raven']}"
        one = {"raven": raven}
        single = sum(over_sets(one, row, "all", CHOSEN) for row in alone) / 2
        told |= {
            "iclm.claim2": (
                "ICLM - fine-tuned, RAVEN In-Center, symbolic",
                raven.loc["iclm"][hardest] - raven.loc["finetuned"][hardest],
            ),
            "iclm.claim6": (
                "single modules - oracle router, RAVEN",
                single - over_sets(one, "oracle router", "all", CHOSEN),
            ),
        }
    return dict(sorted(told.items()))


def verdicts(differences: dict[str, tuple[str, object]]) -> dict:
    """{claim: (claim's row, contrast in words, Verdict)} of {claim: (words, differences by seed)}."""
    from causalnb.lab.verdicts import claims, verdict

    rows = claims("iclm").set_index("id")
    found = {}
    for id, (words, values) in differences.items():
        row = rows.loc[id]
        size = None if row["size"] != row["size"] else float(row["size"])
        found[id] = row, words, verdict([*values.dropna()], size, -1 if row.direction == "-" else 1)
    return found


def verdict_table(id: str, differences: dict, more: dict | None = None, head: str = ""):
    """Claims with the contrast of paired seeds and the verdict; `more` is a last column by claim."""
    from causalnb.lab.tables import Table, estimate

    rows = []
    for claim, (row, words, found) in verdicts(differences).items():
        size = f" {row['size']:g} {row.unit}" if row["size"] == row["size"] else ""
        told = [
            row.claim,
            words,
            ("higher" if row.direction == "+" else "lower") + size,
            estimate(found.summary, 4),
            found,
        ]
        rows.append([*told, more.get(claim, "")] if more else told)
    heads = ["the paper's claim", "contrast", "stated", "ours", "verdict"]
    return Table(
        id,
        [*heads, head] if more else heads,
        rows,
        "The paper's claims: mean ± half of the 95 % interval (seeds), and the verdict by rule",
    )


# True shifts


def shift_scores(ids=SHIFTS, profile: str | None = None) -> dict[tuple[str, str, str], object]:
    """{(cell, format, score): DataFrame, a row for each seed, a column for each arm}, i.i.d. and shifted."""
    from causalnb.lab import evidence, registry

    told = {}
    for id in ids:
        config = registry.config(id, "strong", profile)
        found = evidence.require(id, profile, ARMS).set_index(["seed", "arm"])
        for cell, format in product(config["cells"], FORMATS):
            for score in ("exact", "choice")[: 1 + (config["family"] == "raven")]:
                told[cell, format, score] = found[f"{cell}_{format}_{score}"].unstack()[[*ARMS]]
    return told


def named(cell: str, format: str) -> str:
    """A cell in a format in words, and where it is called a shift and is none."""
    none = " (no shift)" if cell in SHIFTED and (cell, format) in NO_SHIFT else ""
    return f"{NAMED[cell]}, {format}{none}"


def shift_groups(found: dict) -> dict[str, object]:
    """{"ACRE shifted, exact": DataFrame as of shift_scores, mean of cells and formats, ...}; both, by CHOSEN.

    What NO_SHIFT names is counted with the i.i.d. cells.
    """
    groups = {}
    for (cell, format, score), table in found.items():
        cell = "comp_iid" if (cell, format) in NO_SHIFT else cell
        where = f"{NAMED[cell].split()[0].rstrip(',')} {'shifted' if cell in SHIFTED else 'i.i.d.'}"
        groups.setdefault(f"{where}, {score}", []).append(table)
    means = {name: sum(tables) / len(tables) for name, tables in groups.items()}
    both = [f"{family.upper()} shifted, {score}" for family, score in CHOSEN.items()]
    whole = means.keys() >= set(both)
    return means | ({" and ".join(both): sum(means[name] for name in both) / len(both)} if whole else {})


def shifts_table(ids=SHIFTS, profile: str | None = None):
    """Every arm on the true shifts, differences of paired seeds, and exact sign-flip tests."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    found = shift_scores(ids, profile)
    lines = {f"{named(cell, format)}, {score}": table for (cell, format, score), table in found.items()}
    lines |= {f"mean: {name}": table for name, table in shift_groups(found).items()}
    rows = []
    for name, table in lines.items():
        cells = [estimate(mean_ci(table[arm].dropna())) for arm in ARMS]
        for arm, other in PAIRS:
            gap = (table[arm] - table[other]).dropna()
            cells.append(f"{points(mean_ci(gap))}, p {sign_flip(gap):.2g}")
        rows.append([name, *cells])
    seeds = min(len(table) for table in lines.values())
    return Table(
        "iclm.shifts",
        ["cell", *ARMS.values(), *(f"{ARMS[a]} - {ARMS[b]}, points" for a, b in PAIRS)],
        rows,
        "True shifts and the i.i.d. cells beside them: accuracy, mean ± half of the 95 % interval "
        "(seeds); differences of the same seeds with their interval and the p of an exact sign-flip test",
        f"With {seeds} seeds no sign-flip p can be below {2 / 2**seeds:.2g}. exact: every word right; "
        "choice: the right panel is the likeliest of eight, also where the model cannot write it.",
    )


def shifts_remark(ids=SHIFTS, profile: str | None = None) -> str:
    """ICLM at its strongest against one module of the same size, in one sentence a group."""
    from causalnb.lab.statistics import mean_ci

    told = []
    for name, table in shift_groups(shift_scores(ids, profile)).items():
        gap = mean_ci((table["strong"] - table["finetuned_wide"]).dropna())
        side = "better" if gap.low > 0 else "worse" if gap.high < 0 else "not to be told apart"
        told.append(f"{name}: {points(gap)} points, {side}.")
    return f"{ARMS['strong']} minus {ARMS['finetuned_wide']}. " + " ".join(told)


def shift_rows_table(ids=SHIFTS, profile: str | None = None):
    """The rows of Table 1 on the true shifts and beside them, by CHOSEN.

    ICLM's size is an arm of SHIFTS; so is ICLM where its best try was Table 1's.
    """
    from causalnb.lab import evidence, registry
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    heads, cells = [], {name: [] for name in ROWS if name != "no invariant module, ICLM's head"}
    for id in ids:
        config = registry.config(id, "strong", profile)
        score, other = CHOSEN[config["family"]], id.replace("shift", "shift_rows")
        arms = registry.experiment(other).arms
        for cell, format in product(config["cells"], FORMATS):
            heads.append(named(cell, format))
            for name, told in cells.items():
                arm = ROWS[name][0]
                place, arm = (other, arm) if arm in arms else (id, "strong" if arm == "iclm" else arm)
                found = evidence.require(place, profile, [arm])
                told.append(estimate(mean_ci(found[f"{cell}_{format}_{measure_of(name, score)}"])))
    return Table(
        "iclm.shift_rows",
        ["", *heads],
        [[name, *told] for name, told in cells.items()],
        "Table 1's rows on true shifts and the i.i.d. cells beside them: accuracy, mean ± half of "
        "the 95 % interval (seeds)",
        "ACRE: exact answers; RAVEN: the likeliest of eight, of balanced candidates. Rows that the "
        "next table has too have its seeds.",
    )


def tries(family: str, profile: str | None = None) -> dict[str, list[tuple[dict, float, float]]]:
    """{arm of TRIES: [(its settings, i.i.d. score, score under the mirrored shift)]}, by CHOSEN.

    What NO_SHIFT names is not in the score under shift.
    """
    from causalnb.experiments.iclm.grid import TRIES
    from causalnb.lab import evidence, registry

    found = evidence.require(SEARCHES[family], profile).set_index("arm")
    told = {}
    for arm, settings in TRIES.items():
        first, *others = registry.config(SEARCHES[family], f"{arm}_0", profile)["cells"]
        for number, one in enumerate(settings):
            row = found.loc[f"{arm}_{number}"]
            scores = [
                row[
                    [
                        f"{cell}_{format}_{CHOSEN[family]}"
                        for cell, format in product(cells, FORMATS)
                        if cell == first or (cell, format) not in NO_SHIFT
                    ]
                ].mean()
                for cells in ([first], others)
            ]
            told.setdefault(arm, []).append((one, *scores))
    return told


def tries_table(families=FAMILIES, profile: str | None = None):
    """What was tried for the true shifts, on mirrored ones, and what is used."""
    from causalnb.experiments.iclm.grid import USED, WIDE
    from causalnb.lab import registry
    from causalnb.lab.tables import Table

    asked = registry.config(SEARCHES[families[0]], "strong_0", profile)["test_rows"]
    text = "; ACRE's score under shift is of text, as symbols have no unseen objects" * ("acre" in families)
    found, rows = {family: tries(family, profile) for family in families}, []
    for arm, name in (("finetuned_wide", "fine-tuned, ICLM's size"), ("strong", "ICLM")):
        for number, (settings, *_) in enumerate(found[families[0]][arm]):
            known = WIDE if arm == "finetuned_wide" else {}
            said = ", ".join(f"{key} {value}" for key, value in settings.items() if known.get(key) != value)
            scores = [f"{value:.3f}" for family in families for value in found[family][arm][number][1:]]
            used = ", ".join(family.upper() for family in families if USED[family][arm] == number)
            rows.append([name, said or "as in Table 1", *scores, used])
    heads = [f"{family.upper()}, {what}" for family in families for what in ("i.i.d.", "shifted")]
    return Table(
        "iclm.search",
        ["arm", "settings", *heads, "used on the true shift"],
        rows,
        "Every try for the true shifts, on mirrored ones: accuracy, mean over formats, one seed",
        "Mirrored: trained on what the true shift asks for, tested on what it trains on, with "
        f"{asked:,} questions a cell{text}. Used is the best score under shift; each side has as "
        "many tries, but the single module's vary the learning rate, and ICLM's do not.",
    )


@artefact("iclm.table1", needs=("iclm.acre", "iclm.raven"))
def build_table1(profile):
    """Table 1: as printed, both families as measured, paired differences, and the claims on it."""
    from causalnb.lab.tables import save_table

    found = measured(profile=profile)
    tables = [table1("acre", found), table1("raven", found), table1("raven", found, "choice")]
    for table in (
        *tables,
        printed_table(),
        contrasts_table(found),
        verdict_table("iclm.table1_verdicts", contrasts(found)),
    ):
        save_table(table)


@artefact(
    "iclm.gate",
    needs=("iclm.acre", "iclm.raven", "iclm.gate.acre", "iclm.gate.raven"),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="what one module learns of both families, with the paper's adapters and with more",
)
def gate(profile):
    """The gate."""
    from causalnb.lab.tables import save_table

    save_table(gate_table(profile=profile))


@artefact(
    "iclm.shifts",
    needs=SHIFTS,
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="ICLM at its strongest and one module of its size where tests do leave the training support",
)
def shifts(profile):
    """The true shifts."""
    from causalnb.lab.tables import save_table

    save_table(shifts_table(profile=profile))


@artefact(
    "iclm.shift_rows",
    needs=(*SHIFTS, *SHIFT_ROWS),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="the rows of Table 1 where tests do leave the training support",
)
def shift_rows(profile):
    """Table 1's rows on the true shifts."""
    from causalnb.lab.tables import save_table

    save_table(shift_rows_table(profile=profile))


@artefact(
    "iclm.search",
    needs=tuple(SEARCHES.values()),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="what was tried for the true shifts, on mirrored ones",
)
def search(profile):
    """The search."""
    from causalnb.lab.tables import save_table

    save_table(tries_table(profile=profile))
