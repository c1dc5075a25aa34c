"""The spurious token game: labels by the rule, rows by hash and against the files, H by its distribution."""

import json
import os
from collections import Counter
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from causalnb.errors import DataError
from causalnb.tasks import files, load, stg, words

REAL = Path(os.environ.get("CAUSALNB_DATA", ""), "stg")
needs_files = pytest.mark.skipif(not REAL.is_dir(), reason="needs CAUSALNB_DATA, a mirror of the data files")
PROMPT = (
    "Here is the statistical data for a person. Please predict the probability of cancer. Certain "
    "gene: 5, Room size: 6, Clothing size: 4, Exercise: 2, Weight: 4, Hormones: 1, Smoking: 8, Yellow "
    "fingers: 12 Answer: "
)  # the first published training row
# sha256 of the (prompt, label) pairs of the published files as a JSON list
PUBLISHED = {
    "train": "26ccca635faf7d97f74b1e34defcefeb54dceae97fe6a7caafaf9e1e770f5aa1",
    "test": "52f44ec9bb1209bd807a359d54b0e41c02f0e4e97b88c10900cd0f63796e77a2",
    "ood": "5be6668aa7ac0054fd2b4c938b46999e76fb9c020d0ea7c28d2d06f2fef0f9a6",
}
# mean and standard deviation of the 3,000 and 1,000 rows of the published H, attribute by attribute
PUBLISHED_H = {
    "train": (
        (49.98, 11.60),
        (40.23, 11.82),
        (29.86, 11.54),
        (19.96, 5.89),
        (59.90, 11.70),
        (69.82, 11.84),
        (27.86, 5.11),
        (4.00, 3.22),
        (54.93, 12.87),
        (6.01, 2.65),
        (-6.00, 1.55),
        (50.13, 29.00),
        (100.12, 11.87),
        (29.75, 11.75),
    ),
    "ood": (
        (49.83, 11.22),
        (40.27, 11.65),
        (29.67, 11.46),
        (20.08, 5.82),
        (60.13, 11.93),
        (70.03, 11.85),
        (6.98, 1.12),
        (4.00, 1.17),
        (5.01, 1.24),
        (6.01, 1.79),
        (-5.96, 1.14),
        (50.02, 29.21),
        (100.07, 11.48),
        (30.58, 11.85),
    ),
}


def numbers(pairs):
    rows = [stg.values(prompt) for prompt, _ in pairs]
    assert all(tuple(row) == stg.ATTRIBUTES_H for row in rows)
    return np.array([list(row.values()) for row in rows])


def test_labels_over_the_whole_space():
    space = [(a, b, c) for a in range(1, 11) for b in range(1, 11) for c in range(1, 11)]
    assert Counter(stg.risk(*row) for row in space) == {"High Risk": 329, "Low Risk": 669, "Middle Risk": 2}
    assert [row for row in space if stg.risk(*row) == "Middle Risk"] == [(1, 5, 2), (5, 1, 4)]
    meant = Counter(stg.risk(*row, middle="intended") for row in space)
    assert meant == {"High Risk": 329, "Low Risk": 335, "Middle Risk": 336}
    with pytest.raises(DataError, match="rule 'none' for the middle risk; choose one of published, intended"):
        stg.risk(1, 1, 1, "none")


@pytest.mark.parametrize("part", PUBLISHED)
def test_seed_42_gives_the_published_rows(part):
    rows = json.dumps(stg.generate()[part])
    assert sha256(rows.encode()).hexdigest() == PUBLISHED[part]


def test_rows():
    data = stg.generate(seed=7, n_train=300, n_test=50, n_ood=200)
    assert {part: len(pairs) for part, pairs in data.items()} == {"train": 300, "test": 50, "ood": 200}
    assert stg.generate()["train"][0] == (PROMPT, "High Risk") and data != stg.generate(8, 300, 50, 200)
    follows = Counter()
    for part, pairs in data.items():
        for prompt, label in pairs:
            found = stg.values(prompt)
            assert sorted(found) == sorted(stg.ATTRIBUTES)
            assert label == stg.risk(*(found[name] for name in stg.CAUSES))
            follows[part] += (found["Yellow fingers"], found["Clothing size"], found["Hormones"]) == (
                int(1.5 * found["Smoking"]),
                found["Weight"],
                int(0.5 * found["Exercise"]),
            )
    assert follows["train"] == 300 and follows["test"] == 50 and follows["ood"] < 10
    assert len({tuple(stg.values(prompt)) for prompt, _ in data["train"]}) > 290  # shuffled


def test_the_graphs():
    assert stg.GRAPH["Risk"] == ("Smoking", "Weight", "Exercise")
    assert [len(causes) for causes in stg.GRAPH.values()] == [3, 1, 1, 1]
    assert len(stg.GRAPH_H["Answer"]) == 6 and {*stg.GRAPH_H} == {"Answer", *stg.SPURIOUS_H}
    assert stg.graph(PROMPT, "High Risk") == {"High Risk": ["Exercise: 2", "Weight: 4", "Smoking: 8"]}
    small = stg.compact(PROMPT, "High Risk")
    assert small == (
        "Certain_gene 5 Room_size 6 Clothing_size 4 Exercise 2 Weight 4 Hormones 1 Smoking 8 "
        "Yellow_fingers 12",
        "High",
    )
    assert stg.graph(*small) == {"High": ["Exercise 2", "Weight 4", "Smoking 8"]}
    assert stg.values(small[0]) == stg.values(PROMPT) and stg.values(PROMPT)["Yellow fingers"] == 12


def test_size_h_in_words():
    ((prompt, answer),) = stg.generate_h(seed=0, n_train=1)["train"]
    found, small = stg.values(prompt), stg.compact(prompt, answer)
    assert tuple(found) == stg.ATTRIBUTES_H and stg.values(small[0]) == found
    assert prompt.startswith(f"Industrial Emissions: {found['Industrial Emissions']:.1f}; Vehicle Emiss")
    assert f"City Anniversary: {found['City Anniversary']}th; " in prompt
    ((effect, causes),) = stg.graph(prompt, answer).items()
    assert effect == f"Answer: {answer}" and effect in prompt + answer
    assert [prompt.count(cause) for cause in causes] == [1] * 6 and causes[2].endswith("%")
    assert list(stg.graph(*small)) == [f"Answer {answer}"] == [small[1]]
    assert len(words.encode(*small)["input_ids"]) == 14 + 11 * 2 + 3 + 4
    places = stg.spans(*small)
    assert small[0][places["Water Awareness Score"][1] :][:23] == "Water_Awareness_Score -"
    assert places["Answer"] == (1, 0, len(small[1])) and "Risk" in stg.spans(PROMPT, "Low Risk")


def test_a_number_just_below_zero_keeps_its_sign():
    ((prompt, _),) = stg.generate_h(seed=0, n_train=1)["train"]
    score = stg.values(prompt)["Water Awareness Score"]
    small, _ = stg.compact(prompt.replace(f"Score: {score}", "Score: -0.4"), "5")
    assert "Water_Awareness_Score -0 .4" in small and stg.values(small)["Water Awareness Score"] == -0.4


@pytest.mark.parametrize("part", PUBLISHED_H)
def test_size_h_has_the_published_moments(part):
    found = numbers(stg.generate_h()[part])
    for column, (name, (mean, deviation)) in enumerate(
        zip(stg.ATTRIBUTES_H, PUBLISHED_H[part], strict=False)
    ):
        error = deviation * (1 / len(found) + 1 / (3000 if part == "train" else 1000)) ** 0.5
        assert abs(found[:, column].mean() - mean) < 4 * error, name
        assert 0.93 < found[:, column].std() / deviation < 1.07, name


def test_size_h_follows_its_rule():
    data = stg.generate_h(n_train=1000, n_test=1, n_ood=1000)
    for part, low in (("train", 0.95), ("ood", 0.95)):
        found, answers = numbers(data[part]), np.array([int(answer) for _, answer in data[part]])
        index = np.rint(2 * (np.clip(found[:, :6] @ (0.3, 0.25, 0.2, 0.15, -0.2, -0.3), -20, 30) + 20))
        assert (np.abs(index - answers) <= 1).all() and (index == answers).mean() > low
        tied = np.corrcoef(found[:, 6], found[:, 5])[0, 1]
        assert tied > 0.85 if part == "train" else abs(tied) < 0.15


@pytest.mark.parametrize("size", stg.SIZES)
def test_load(size):
    data = load("stg", size=size, encoding="compact")
    n = 1000 if size == "H" else 400
    assert [rows.num_rows for rows in data.values()] == [stg.SIZES[size], n, n]
    assert data["ood"].column_names == ["prompt", "response", "graph"]
    row = data["train"][0]
    assert json.loads(row["graph"]) == stg.graph(row["prompt"], row["response"])
    assert words.encode(row["prompt"], row["response"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (dict(size="XL"), "size 'XL' .*; choose one of S, M, L, H"),
        (dict(encoding="long"), "encoding 'long'"),
        (dict(source="web"), "Source 'web'"),
        (dict(source="file", seed=1), "with seed 1"),
        (dict(source="file", middle="intended"), "middle 'intended'"),
        (dict(middle="none"), "rule 'none'"),
    ],
)
def test_load_refuses_what_it_does_not_know(options, sentence):
    with pytest.raises(DataError, match=sentence) as refusal:
        load("stg", **options)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Smoking: 8",
        PROMPT.replace("Weight: 4", "Weight: four"),
        PROMPT.replace("Weight: 4", "Smoking: 4"),
    ],
)
def test_other_prompts_are_refused(prompt):
    for use in (stg.values, lambda text: stg.graph(text, "High Risk")):
        with pytest.raises(DataError, match="is no prompt of the spurious token game"):
            use(prompt)


def test_lines_are_parsed_and_a_malformed_one_is_numbered():
    good = json.dumps({"input": PROMPT, "target": 3})
    assert stg.parse_lines(good, "few.jsonl") == [(PROMPT, "3")]
    for wrong in ("{", '{"input": "x"}', "[]", json.dumps({"input": "x", "target": "Low Risk"}), "3"):
        with pytest.raises(DataError, match="few.jsonl, line 2: expected JSON with input and target"):
            stg.parse_lines(f"{good}\n{wrong}", "few.jsonl")


@needs_files
@pytest.mark.parametrize("size", ["S", "M", "L"])
def test_rows_equal_the_files(size):
    real, ours = load("stg", size=size, source="file"), load("stg", size=size)
    assert all(real[part].to_dict() == ours[part].to_dict() for part in ("train", "test", "ood"))


@needs_files
@pytest.mark.parametrize("size", ["L", "H"])
def test_the_graph_is_the_published_one(size):
    for line in files.read(stg.file_names(size)[0]).decode().splitlines():
        row = json.loads(line)
        ((effect, causes),) = stg.graph(row["input"], str(row["target"])).items()
        bare = causes if size == "L" else [cause.split(": ")[1] for cause in causes]
        assert row["important"] == [{effect: bare}]


@needs_files
def test_size_h_is_distributed_as_the_files():
    from scipy.stats import ks_2samp

    real, ours = load("stg", size="H", source="file"), load("stg", size="H")
    for part in ("train", "ood"):
        pairs = [
            list(zip(data[part]["prompt"], data[part]["response"], strict=False)) for data in (real, ours)
        ]
        left, right = map(numbers, pairs)
        assert min(ks_2samp(left[:, i], right[:, i]).pvalue for i in range(14)) > 0.001
        assert ks_2samp(*([int(answer) for _, answer in some] for some in pairs)).pvalue > 0.001


@pytest.mark.parametrize("cue", [0.0, 0.3, 0.8, 1.0])
def test_the_cue_is_the_share_of_numbers_that_follow(cue):
    rows = [stg.values(prompt) for prompt, _ in stg.generate(3, n_train=4000, cue=cue)["train"]]
    same = np.mean([row["Clothing size"] == row["Weight"] for row in rows])
    assert same == pytest.approx(cue + (1 - cue) / 10, abs=0.03)


@pytest.mark.parametrize("cue", [-0.1, 1.1, float("nan"), True])
def test_a_cue_that_is_no_share_is_refused(cue):
    with pytest.raises(DataError, match=f"cue is {cue!r}"):
        stg.generate(cue=cue)


@pytest.mark.parametrize("pairs", [stg.generate(5)["train"][:300], stg.generate_h(5, n_train=300)["train"]])
def test_swapped_numbers_come_from_other_rows_and_causes_stay(pairs):
    causes = {*stg.CAUSES, *stg.CAUSES_H}
    made = stg.swapped(pairs, 2, seed=0)
    assert made[:300] != made[300:] and len(made) == 600
    before, after = ([stg.values(prompt) for prompt, _ in rows] for rows in (pairs, made[:300]))
    assert [response for _, response in made[:300]] == [response for _, response in pairs]
    for name in before[0]:
        was, now = ([row[name] for row in rows] for rows in (before, after))
        assert (was == now) is (name in causes) and sorted(was) == sorted(now)
    for effect, (cause,) in (stg.SPURIOUS | stg.SPURIOUS_H).items():
        if effect in before[0]:
            pairs_of = [(row[cause], row[effect]) for row in after]
            assert abs(np.corrcoef(np.array(pairs_of).T)[0, 1]) < 0.2
    assert [prompt.split(":")[0] for prompt, _ in pairs] == [prompt.split(":")[0] for prompt, _ in made[:300]]


@pytest.mark.parametrize("copies", [0, -1, 1.0, True])
def test_swapped_refuses_what_is_no_number_of_copies(copies):
    with pytest.raises(DataError, match="copies"):
        stg.swapped(stg.generate()["train"][:3], copies, 0)


def test_put_sets_one_number_and_leaves_the_rest():
    for prompt, response in stg.generate(5)["train"][:50]:
        for text in (prompt, stg.compact(prompt, response)[0]):
            before = stg.values(text)
            for name in stg.ATTRIBUTES:
                made = stg.put(text, name, 11)
                assert stg.values(made) == {**before, name: 11} and [*stg.values(made)] == [*before]
                assert stg.put(made, name, before[name]) == text


def test_put_refuses_what_the_game_has_not():
    prompt = stg.generate()["train"][0][0]
    with pytest.raises(
        DataError, match="'Height' is no attribute of a prompt of S, M or L; choose one of Smoking"
    ):
        stg.put(prompt, "Height", 3)
    for name in ("Smoking", "City Anniversary"):
        with pytest.raises(DataError, match=f"{name!r} is no attribute of a prompt of S"):
            stg.put(stg.generate_h(n_train=1)["train"][0][0], name, 3)
    with pytest.raises(DataError, match="no prompt of the spurious token game"):
        stg.put("Smoking: 3", "Smoking", 4)
