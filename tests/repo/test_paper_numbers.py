"""The printed numbers of the sources: shape, digits, totals and averages, and the claims built on them."""

import csv
import re
from collections import Counter
from itertools import groupby
from statistics import mean, stdev

import pytest

from tests.repo.tree import ROOT

PAPER = ROOT / "data" / "paper"
KEYS = ("row_group", "row", "group", "bound", "column")
SHAPES = {  # rows and columns as printed
    "causal_transformer_table1": (10, 4),
    "causal_transformer_table2": (11, 4),
    "causal_transformer_table3": (7, 2),
    "sci_table1": (5, 2),
    "sci_table2": (5, 2),
    "iclm_table1": (7, 12),
    "iclm_table2": (5, 12),
    "iclm_table3": (2, 6),
    "iclm_table4": (3, 6),
    "iclm_table5": (3, 6),
    "iclm_table6": (3, 6),
    "iclm_table7": (3, 6),
    "iclm_fig4": (12, 3),
    "c2dlm_table1": (4, 11),
    "c2dlm_table2": (3, 1),
    "c2dlm_table3": (6, 3),
    "c2dlm_table4": (6, 8),
    "c2dlm_table5": (4, 7),
    "c2dlm_table6": (6, 4),
    "c2dlm_table7": (2, 5),
    "c2dlm_cost": (1, 11),
}
TEXTS = {"causal_transformer_text": 20, "sci_text": 20, "iclm_text": 21, "c2dlm_text": 70}  # numbers in prose
WORDS = {"Two": 2, "four": 4, "five": 5}
SFT, LLAMA = "LLaDA-8B-Instruct (SFT)", "Llama-3.1-8B"
CT1, CT3 = "causal_transformer_table1", "causal_transformer_table3"
ICLM1, ICLM2, ICLM3 = "iclm_table1", "iclm_table2", "iclm_table3"
C1, C2, C3, C4, C5, C6, C7 = (f"c2dlm_table{number}" for number in range(1, 8))
CT_TEXT, SCI_TEXT, C_TEXT = "causal_transformer_text", "sci_text", "c2dlm_text"


def read(name: str, **where: str) -> list[dict[str, str]]:
    """The lines of a file that agree with `where`, in printed order."""
    with open(PAPER / f"{name}.csv", newline="", encoding="utf-8") as file:
        return [line for line in csv.DictReader(file) if where.items() <= line.items()]


def cells(name: str, **where: str) -> list[float]:
    """The numbers of those lines, '-' left out."""
    return [float(line["value"]) for line in read(name, **where) if line["value"]]


def cell(name: str, row: str, column: str, group: str | None = None) -> float:
    """The one number at a row and column."""
    (value,) = cells(name, row=row, column=column, **({} if group is None else {"group": group}))
    return value


def less(ours: tuple, base: tuple) -> float:
    """The number of one cell minus that of another: (table, row, column, group if needed)."""
    return cell(*ours) - cell(*base)


def parse(printed: str) -> float | None:
    """What a printed string says: 72.8, +1.50%, ~5M, <1%, 1/3, 0,0001, $0.46, 2×e^{-5}, Two; None for '-'."""
    if printed == "-":
        return None
    if printed in WORDS:
        return WORDS[printed]
    if power := re.fullmatch(r"(\d+)×e\^\{(-\d+)\}", printed):
        return float(f"{power[1]}e{power[2]}")
    if share := re.fullmatch(r"(\d+)/(\d+)", printed):
        return int(share[1]) / int(share[2])
    number = re.fullmatch(r"[~<$+]?(\d+(?:[.,]\d*)?(?:e-\d+)?)[%$×kMB]?(?: \(shared\))?", printed)
    return float(number[1].replace(",", "."))


# ------------------------------------------------------------------------------------------ every file
def test_every_file_is_known():
    assert {path.stem for path in PAPER.glob("*.csv")} == {*SHAPES, *TEXTS, "artefacts", "claims"}


@pytest.mark.parametrize("path", sorted(PAPER.glob("*.csv")), ids=lambda path: path.stem)
def test_plain_text(path):
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n") and not text.endswith("\n\n") and "\r" not in text
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert {len(line) for line in lines} == {len(lines[0])}
    assert all(entry == entry.strip() for line in lines for entry in line)


@pytest.mark.parametrize("name", [*SHAPES, *TEXTS])
def test_columns_and_order(name):
    lines = read(name)
    columns = list(lines[0])
    assert columns == [key for key in KEYS if key in columns] + ["value", "unit", "printed", "note"]
    keys = [tuple(line.get(key, "") for key in KEYS) for line in lines]
    assert len(keys) == len(set(keys))
    rows = [row for row, _ in groupby(key[:2] for key in keys)]
    assert len(rows) == len(set(rows)), "the lines of a row stand together"


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name):
    lines, (height, width) = read(name), SHAPES[name]
    rows = {(line.get("row_group"), line["row"]) for line in lines}
    columns = {(line.get("group"), line["column"]) for line in lines}
    assert (len(rows), len(columns)) == (height, width)
    assert len(lines) == height * width + ("bound" in lines[0])  # a range takes two lines


@pytest.mark.parametrize("name", TEXTS)
def test_size_of_a_text(name):
    assert len(read(name)) == TEXTS[name]


@pytest.mark.parametrize("name", sorted({*SHAPES, *TEXTS} - {"sci_table2"}))
def test_value_is_what_is_printed(name):
    for line in read(name):
        if line.get("bound"):
            low, high = re.fullmatch(r"~(\d+)-(\d+)%", line["printed"]).groups()
            said = {"low": float(low), "high": float(high)}[line["bound"]]
        else:
            said = parse(line["printed"])
        value = float(line["value"]) if line["value"] else None
        assert value == (said if said is None else pytest.approx(said, rel=1e-9)), line


def test_a_table_of_words_has_no_values():
    assert all(line["value"] == "" and line["printed"] for line in read("sci_table2"))


# ---------------------------------------------------------------------------------- Causal Transformer
@pytest.mark.parametrize("name", [CT1, "causal_transformer_table2", CT3])
def test_bold_is_the_best_of_its_column(name):
    bold = [line for line in read(name) if line["note"].startswith("bold")]
    assert bold
    assert all(float(line["value"]) == max(cells(name, column=line["column"])) for line in bold)


@pytest.mark.parametrize(
    "quantity, said, printed, where",
    [  # known errors: the text against its own table
        ("PAWS-QQP accuracy", 78.0, 78.1, (CT1, "Causal Transformer", "PAWS-QQP")),
        ("SNLI accuracy", 86.7, 86.78, (CT3, "CausalTransformer", "Acc")),
        ("SNLI Macro-F", 85.2, 85.56, (CT3, "CausalTransformer", "Macro-F")),
    ],
)
def test_text_and_table_disagree(quantity, said, printed, where):
    assert (cells(CT_TEXT, column=quantity), cell(*where)) == ([said], printed)
    assert round(printed, 1) != said


def test_text_and_table_agree_on_hans():
    assert cells(CT_TEXT, column="HANS accuracy") == [cell(CT1, "Causal Transformer", "HANS")]


# ------------------------------------------------------------------------------------------------- SCI
def test_sci_totals():
    *parts, total = cells("sci_table1", column="Additional Parameters")
    assert sum(parts) == total == 10
    *parts, low, high = cells("sci_table1", column="FLOPS Overhead")
    assert parts == [5, 3, 5, 7] and sum(parts) == high == 20 and low == 15
    assert [low, high] == cells(SCI_TEXT, row="Conclusion")
    (base,), (bound,) = (cells(SCI_TEXT, column=f"{which} parameters") for which in ("base", "additional"))
    assert 100 * total / (1000 * base) < bound


def test_sci_layers_are_the_same_in_model_and_command():
    model, command = (
        [x["value"] for x in read(SCI_TEXT, row=place) if x["column"].startswith("cbm_layers")]
        for place in ("Full SCI Model", "Quick Start")
    )
    assert model == command == ["6", "11", "16"]


# ------------------------------------------------------------------------------------------------ ICLM
def starred() -> list[dict[str, str]]:
    """The starred cells of Tables 1 to 7, repeated rows left out."""
    lines = read(ICLM1) + read(ICLM2, row_group="ACRE → RAVEN")
    lines += [line for n in (4, 5, 6, 7) for line in read(f"iclm_table{n}") if line["row"] != "ICLM"]
    return [line for line in lines if "star" in line["note"]]


def test_starred_numbers_are_counts_of_101():
    counts = {f"{k / 101:.3f}" for k in range(102)}
    misfit = [line for line in starred() if line["printed"] not in counts]
    assert (len(starred()), len(misfit)) == (144, 3)
    assert sorted(line["printed"] for line in misfit) == ["0.268", "0.732", "0.833"]
    assert misfit == [line for line in starred() if "err: no multiple of 1/101" in line["note"]]


@pytest.mark.parametrize(
    "number, row, data",
    [
        (2, "ICLM ACRE", "ACRE"),
        (2, "ICLM RAVEN", "RAVEN"),
        (4, "ICLM", "ACRE"),
        (5, "ICLM", "RAVEN"),
        (6, "ICLM", "ACRE"),
        (7, "ICLM", "RAVEN"),
    ],
)
def test_rows_repeated_from_table1(number, row, data):
    where = {"row_group": "Table 1"} if number == 2 else {}
    again = [line for line in read(f"iclm_table{number}", row=row, **where) if line["value"]]
    first = [line for line in read(ICLM1, row="ICLM") if line["group"].startswith(data)]
    assert len(again) == 6
    assert [line["printed"] for line in again] == [line["printed"] for line in first]
    assert [line["group"] for line in again] == [line["group"] for line in first]


@pytest.mark.parametrize(
    "row, average",
    [  # not printed
        ("LLaMA2-Finetuned-All", 0.793),
        ("ICLM", 0.738),
        ("ICLM-No-Inv", 0.724),
        ("ICLM-Invariant", 0.794),
        ("ICLM-Domain", 0.752),
        ("LLaMA2-Finetuned-Oracle-Router", 0.794),
    ],
)
def test_average_over_the_twelve_sets(row, average):
    assert mean(cells(ICLM1, row=row)) == pytest.approx(average, abs=5e-4)


def test_iclm_wins_six_sets_of_twelve_not_most():
    ours, base = (cells(ICLM1, row=row) for row in ("ICLM", "LLaMA2-Finetuned-All"))
    pairs = list(zip(ours, base, strict=True))
    assert (sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)) == (6, 6)


@pytest.mark.parametrize("group", ["ACRE", "ACRE-Comp", "ACRE-Sys"])
def test_each_format_has_one_module(group):
    text, symbolic = (cells("iclm_table3", group=group, column=column) for column in ("Text", "Symb"))
    assert text == [0, 1] and symbolic == [1, 0]


def test_correlations_are_symmetric():
    at = {(x["row_group"], x["row"], x["column"]): float(x["value"]) for x in read("iclm_fig4")}
    assert all(value == at[panel, b, a] and (value == 1) == (a == b) for (panel, a, b), value in at.items())


# ----------------------------------------------------------------------------------------------- C2DLM
@pytest.mark.parametrize("row", ["Llama-3.2-1B", "Qwen3-8B", LLAMA, SFT])
def test_average_and_sample_deviation_over_orders(row):
    *orders, average, spread = cells(C1, row=row, group="Shuffle COT")
    assert len(orders) == 7
    assert [average, spread] == pytest.approx([mean(orders), stdev(orders)], abs=0.0051)


@pytest.mark.parametrize("name", [C2, C3, C4, C5])
def test_delta_rows(name):
    ours, base, delta = (cells(name, row=row) for row in ("C2DLM", SFT, "Δ"))
    assert delta == pytest.approx([a - b for a, b in zip(ours, base, strict=True)], abs=1e-9)


def test_average_gain_on_stg():
    assert mean(cells(C4, row="Δ")) == pytest.approx(7.43125)
    assert set(cells(C_TEXT, column="gain on STG, average")) == {7.43}


@pytest.mark.parametrize(
    "name, row",
    [
        *[(C5, row) for row in ("LLaDA-8B-Instruct", SFT, "C2DLM", "Δ")],
        *[(C6, row) for row in ("α=3", "α=3, w/o S_γ", "α=3, w/o V-aware", "α=4", "α=5")],
    ],
)
def test_averages_over_tasks(name, row):
    *tasks, average = cells(name, row=row)
    assert average == pytest.approx(mean(tasks), abs=0.0051)


def test_the_printed_average_at_alpha_2_is_off_by_a_digit():
    *tasks, average = cells(C6, row="α=2")
    assert (average, round(mean(tasks), 2)) == (65.58, 65.59)


def test_ablations_are_below_plain_tuning():
    plain = mean(cell(C5, SFT, task) for task in ("GSM8K", "MATH500", "SAT"))
    assert round(plain, 2) == 63.98
    assert all(cell(C6, f"α=3, w/o {part}", "Avg") < plain for part in ("S_γ", "V-aware"))


@pytest.mark.parametrize("task", ["GSM8K", "MATH500", "SAT"])
def test_tables_5_and_6_share_the_default_setting(task):
    assert cell(C6, "α=3", task) == cell(C5, "C2DLM", task)


def off_grid(lines: list[dict[str, str]], items: int) -> list[str]:
    """The printed percentages that no count of `items` gives."""
    counts = {f"{100 * k / items:.2f}%" for k in range(items + 1)}
    return [line["printed"] for line in lines if line["unit"] == "%" and line["printed"] not in counts]


def test_scores_are_counts_of_the_test_items():
    orders = [line for line in read(C1) if line["column"] not in ("avg", "std")]
    assert off_grid(orders, 500) == ["2.41%"]
    ar, dlm = (read(C3, row_group=kind) for kind in ("AR", "DLM"))
    assert not off_grid(ar, 500) and not off_grid(dlm, 2048) and len(off_grid(dlm, 500)) == 6  # two metrics
    assert not off_grid(read(C4, group="STG_H"), 1000)
    assert not [hit for size in "SML" for hit in off_grid(read(C4, group=f"STG_{size}"), 400)]


@pytest.mark.parametrize(
    "task, items",
    [("GSM8K", 1319), ("MATH500", 500), ("GPQA", 448), ("MMLU_STEM", 3153), ("ARC_C", 1172), ("SAT", 220)],
)
def test_reasoning_scores_are_counts_of_the_test_items(task, items):
    scores = read(C5, column=task) + read(C6, column=task)
    assert len(scores) >= 4 and not off_grid(scores, items)


@pytest.mark.parametrize("rater, printed, recomputed", [("Human 1", 94.84, 94.53), ("Human 2", 92.02, 91.80)])
def test_human_scores(rater, printed, recomputed):
    total, right, partly, wrong, average = cells(C7, row=rater)
    assert right + partly + wrong == total == 311 and average == printed
    assert round(100 * (right + 0.5 * partly) / total, 2) == recomputed  # all pairs alike, not all instances


def test_mean_and_spread_of_the_raters():
    first, second = cells(C7, column="Average Accuracy")
    assert (cell(C_TEXT, "Appendix F", "graph accuracy"), round(mean([first, second]), 2)) == (93.42, 93.43)
    assert cell(C_TEXT, "Appendix F", "graph accuracy, ±") == pytest.approx((first - second) / 2)


def test_sample_of_annotations():
    seen, share, lost, rate = (
        cell(C_TEXT, "Appendix F", quantity)
        for quantity in ("evaluated instances", "evaluated share", "decoding errors", "decoding error rate")
    )
    every = cell(C_TEXT, "Section 4.4", "annotated instances")
    assert (round(100 * seen / every, 1), 100 * lost / seen) == (share, rate)


def test_annotation_cost():
    at = {line["column"]: float(line["value"]) for line in read("c2dlm_cost")}
    assert at["T_in"] == pytest.approx(at["input tokens, average"] + at["prompt overhead"])
    assert at["T_out"] == at["output tokens, average"]
    cost = (at["T_in"] * at["P_in"] + at["T_out"] * at["P_out"]) / at["input tokens, average"]
    dollars = cost * at["USD per RMB"]
    assert (round(cost, 2), round(dollars, 2)) == (at["cost"], at["cost in USD"]) == (3.31, 0.46)
    assert set(cells(C_TEXT, column="annotation cost")) == {at["cost in USD"]}


@pytest.mark.parametrize(
    "quantity, name, column",
    [
        ("accuracy gain on COT-OrderPerturb", C2, "Normal COT"),
        ("gain over SFT, normal COT", C2, "Normal COT"),
        ("gain on Sudoku, n=200", C3, "n=200"),
        ("average gain on six tasks", C5, "Avg"),
        ("average gain", C5, "Avg"),
    ],
)
def test_headline_numbers(quantity, name, column):
    assert cells(C_TEXT, column=quantity) == [cell(name, "Δ", column)]


# -------------------------------------------------------------------------------- artefacts and claims
def test_artefacts():
    artefacts = read("artefacts")
    assert list(artefacts[0]) == ["id", "source", "printed as", "what it shows", "kind", "notebook"]
    assert len(artefacts) == len({a["id"] for a in artefacts}) == 60
    part = {"causal_transformer": "1", "sci": "2", "iclm": "3", "c2dlm": "4"}
    for a in artefacts:
        assert a["id"].startswith(a["source"] + ".") and all(a.values())
        assert re.fullmatch(rf"{part[a['source']]}\d_[a-z_]+", a["notebook"])
    notebooks = {a["notebook"] for a in artefacts}
    assert len({notebook[:2] for notebook in notebooks}) == len(notebooks)


def test_every_table_is_recorded():
    ids = {a["id"].replace(".", "_", 1) for a in read("artefacts")}
    assert SHAPES.keys() <= ids and {id for id in ids if re.search(r"_table\d$", id)} <= SHAPES.keys()


CLAIMS = {claim["id"]: claim for claim in read("claims")}


def test_claims_are_numbered_and_distinct():
    claims, number = read("claims"), Counter()
    assert list(claims[0]) == [
        "id",
        "source",
        "artefact",
        "where",
        "claim",
        "treatment",
        "baseline",
        "metric",
        "setting",
        "direction",
        "size",
        "unit",
        "margin",
        "experiment",
        "our_treatment",
        "our_baseline",
        "our_metric",
        "reason",
        "but",
        "counted",
    ]
    assert len(CLAIMS) == len({claim["claim"] for claim in claims}) == len(claims)
    for claim in claims:
        number[claim["source"]] += 1
        assert claim["id"] == f"{claim['source']}.claim{number[claim['source']]}"
    assert set(number) == {"causal_transformer", "sci", "iclm", "c2dlm"} and min(number.values()) >= 10


@pytest.mark.parametrize("id", CLAIMS)
def test_claim_is_complete(id):
    claim, artefacts = CLAIMS[id], {a["id"]: a["source"] for a in read("artefacts")}
    assert not claim["artefact"] or artefacts[claim["artefact"]] == claim["source"]
    assert all(claim[key] for key in ("where", "claim", "treatment", "baseline", "metric", "setting"))
    assert re.fullmatch(r"[A-Z][^\n]*\.", claim["claim"]) and not re.search(r"\. [A-Z]", claim["claim"])
    assert claim["direction"] in ("+", "-", ">=") and (claim["direction"] != ">=" or claim["margin"])
    assert (claim["unit"] or not claim["size"]) and float(claim["size"] or 1) > 0
    ours = [bool(claim[key]) for key in ("experiment", "our_treatment", "our_baseline", "our_metric")]
    assert all(ours) or not any(ours)
    one = {"pp": "1"}.get(claim["unit"], "0.01")
    assert claim["margin"] in ("", one) and not (claim["margin"] and claim["size"]), (
        "one point, without a size"
    )
    measured = all(ours) or re.search("decided (over seeds )?beside", claim["reason"])
    assert not claim["margin"] or claim["direction"] in ("+", ">=") and measured, "a gain that is measured"
    assert claim["size"] or not claim["unit"] or measured, "a unit without a size is that of our contrast"
    assert bool(claim["reason"]) != all(ours), "an experiment decides a claim, or a reason says why none does"
    assert not any(ours) or claim["experiment"].startswith(claim["source"] + ".")
    assert not claim["but"] or measured or re.search("^(a difference|a spread)", claim["reason"])
    assert not re.search(r"^[A-Z]|\.$", claim["but"]), "what follows 'reproduced, but'"
    assert not claim["counted"] or not all(ours), "what the rule compares is counted in seeds"


DIRECT = {  # claim -> column (and group) of its artefact's table; the rows are its treatment and its baseline
    **{
        f"causal_transformer.claim{number}": (column,)
        for number, column in {
            1: "HANS",
            2: "PAWS-QQP",
            3: "HANS",
            4: "PAWS-QQP",
            5: "MNLI-m",
            6: "QQP",
            8: "QQP",
            9: "MNLI-m",
            10: "HANS",
            11: "PAWS-QQP",
            12: "HANS",
            23: "DE-EN",
            24: "EN-RO",
            25: "RO-EN",
            26: "EN-DE",
            27: "EN-DE",
            28: "Acc",
            29: "Macro-F",
            30: "Acc",
            35: "EN-DE",
        }.items()
    },
    "iclm.claim2": ("Symb", "RAVEN-In-Center"),
    **{
        f"c2dlm.claim{number}": where
        for number, where in {
            1: ("Normal COT",),
            5: ("avg",),
            6: ("std",),
            7: ("Normal COT",),
            13: ("n=200",),
            14: ("n=500",),
            15: ("n=5000",),
            17: ("n=200",),
            19: ("OOD", "STG_S"),
            20: ("OOD", "STG_M"),
            21: ("OOD", "STG_L"),
            27: ("Avg",),
            28: ("GPQA",),
            31: ("Avg",),
            32: ("Avg",),
        }.items()
    },
}
SYMBOLIC, HARD = ("Symb", "ACRE"), ("Text", "RAVEN-In-Center")
COMPUTED = {  # claim -> printed treatment minus printed baseline, or the size its text states
    "iclm.claim7": lambda: less((ICLM3, "n=0", *SYMBOLIC), (ICLM3, "n=0", "Text", "ACRE")),
    "iclm.claim12": lambda: less((ICLM2, "ICLM", *HARD), (ICLM2, "ICLM RAVEN", *HARD)),
    "iclm.claim13": lambda: less((ICLM2, "ICLM-Invariant", *HARD), (ICLM2, "ICLM RAVEN", *HARD)),
    "iclm.claim14": lambda: less(
        (ICLM2, "ICLM", *SYMBOLIC), (ICLM2, "LLaMA2-Finetuned-Sequential", *SYMBOLIC)
    ),
    "iclm.claim15": lambda: (
        less((ICLM2, "ICLM ACRE", "Symb", "ACRE"), (ICLM2, "ICLM", "Symb", "ACRE"))
        - less((ICLM2, "ICLM ACRE", "Text", "ACRE"), (ICLM2, "ICLM", "Text", "ACRE"))
    ),
    "c2dlm.claim2": lambda: cell(C_TEXT, "Section 4.2", "training speed-up"),
    "c2dlm.claim3": lambda: less((C2, "C2DLM", "Normal COT"), (C1, LLAMA, "Normal COT")),
    "c2dlm.claim4": lambda: less((C1, LLAMA, "avg"), (C1, LLAMA, "Normal COT")),
    "c2dlm.claim8": lambda: less((C1, SFT, "No COT"), (C1, SFT, "Normal COT")),
    "c2dlm.claim9": lambda: less((C1, LLAMA, "Normal COT"), (C1, LLAMA, "No COT")),
    "c2dlm.claim10": lambda: less(
        (C_TEXT, "Section 4.2", "epochs to converge, DLM"), (C_TEXT, "Section 4.2", "epochs to converge, AR")
    ),
    "c2dlm.claim16": lambda: less((C3, "Δ", "n=200"), (C3, "Δ", "n=5000")),
    "c2dlm.claim18": lambda: round(mean(cells(C4, row="Δ")), 2),
    "c2dlm.claim23": lambda: cell(C_TEXT, "Section 4.3.2", "training speed-up on STG_H"),
    "c2dlm.claim29": lambda: less((C6, "α=3, w/o S_γ", "Avg"), (C6, "α=3", "Avg")),
    "c2dlm.claim30": lambda: less((C6, "α=3, w/o V-aware", "Avg"), (C6, "α=3", "Avg")),
    "c2dlm.claim33": lambda: cell(C_TEXT, "Appendix F", "graph accuracy"),
    "c2dlm.claim35": lambda: cell("c2dlm_cost", "Appendix D", "cost in USD"),
}


def test_every_size_is_checked():
    assert DIRECT.keys() | COMPUTED.keys() == {id for id, claim in CLAIMS.items() if claim["size"]}


@pytest.mark.parametrize("id", [*DIRECT, *COMPUTED])
def test_size_and_direction_follow_from_the_printed_numbers(id):
    claim = CLAIMS[id]
    name = claim["artefact"].replace(".", "_")
    difference = (
        COMPUTED[id]()
        if id in COMPUTED
        else less((name, claim["treatment"], *DIRECT[id]), (name, claim["baseline"], *DIRECT[id]))
    )
    if claim["source"] == "iclm" and claim["unit"] == "pp":
        difference *= 100  # ICLM prints fractions
    assert float(claim["direction"] + claim["size"]) == pytest.approx(difference, abs=1e-9)


def test_claims_against_the_printed_numbers():
    """Three claims assert the opposite of what their own tables print; no size is recorded for them."""
    printed = {
        "causal_transformer.claim7": less((CT1, "Causal Transformer", "MNLI-m"), (CT1, "ESIM", "MNLI-m")),
        "causal_transformer.claim13": sum(
            less((CT1, "BERT-scratch", test), (CT1, "ESIM", test)) for test in ("HANS", "PAWS-QQP")
        ),
        "iclm.claim1": sum(
            less((ICLM1, "ICLM", form, group), (ICLM1, "LLaMA2-Finetuned-All", form, group))
            for group in ("ACRE-Comp", "ACRE-Sys", "RAVEN-Four", "RAVEN-In-Center")
            for form in ("Text", "Symb")
        ),
    }
    for id, difference in printed.items():
        assert CLAIMS[id]["size"] == "" and float(CLAIMS[id]["direction"] + "1") * difference < 0, id
