"""SCAN: the grammar against its laws, every split against the published files (by hash)."""

import os
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalnb.errors import DataError
from causalnb.tasks import load, scan

# sha256 of the sorted lines of the published files, joined by newlines
PUBLISHED = {
    "simple": (
        "e34b60a1bdad3b55a83d91116bb312c195fa2f39d21092de929a6184ca911943",
        "faa3707d325ccaf3d2d0a4f03d613a7985e3c7a3bcc09c832a21f7e251cd4509",
    ),
    "length": (
        "114e6bdb1575f27d8d6d4449081970cef4846b2ec89b260dc2a0e5297c3e75d5",
        "45bb5e5f0e0678da016725d880ba4349267b93262762a2c66f9b51b04535a2ce",
    ),
    "add_prim_jump": (
        "1e5ab3357dc958267480a6012d3970953f35bb098a115b1754a1ad36d371b7cb",
        "48956239771e67ded4d090164919ab79d21756218a3e94f9abc2cbe346c0cd1c",
    ),
    "add_prim_turn_left": (
        "4f1ccb48ec39aed79ac69c8da9d2c8061b1bb8ea8199ab8931b6939068a3b626",
        "81acae1af5137165debf8630986733b2581aea19cb98e32f4026bccce8042b09",
    ),
    "template_around_right": (
        "aaf218dfd82a8b6a88e32deeb096cf498ee58e56a3808b17f715182f0ca90130",
        "f5f94bb13ea393fbac7d963a13f5eb9831e51090b2e7210831674c4f77a1fa7b",
    ),
}
# characters of the published files for which no file is registered
PUBLISHED_SIZES = {"template_right": (3_173_282, 729_823), "template_opposite_right": (2_990_057, 871_363)}
ROWS = {
    "simple": (16_728, 4_182),
    "length": (16_990, 3_920),
    "add_prim_jump": (14_670, 7_706),
    "add_prim_turn_left": (21_890, 1_208),
    "template_around_right": (15_225, 4_476),
    "template_opposite_right": (15_225, 4_476),
    "template_right": (15_225, 4_476),
    "template_jump_around_right": (18_528, 1_173),
}
REAL = Path(os.environ.get("CAUSALNB_DATA", ""), "scan")

repeated = st.sampled_from([command for command, _ in scan.generate()[:102]])
command_text = st.sampled_from([command for command, _ in scan.generate()])


def lines(pairs):
    return sorted(f"IN: {command} OUT: {actions}" for command, actions in pairs)


def test_every_pair_is_generated_once_and_agrees_with_the_parser():
    pairs = scan.generate()
    assert len(pairs) == len({command for command, _ in pairs}) == 102 + 2 * 102**2
    assert all(scan.interpret(command) == actions for command, actions in pairs)
    assert {word for command, _ in pairs for word in command.split()} == set(scan.WORDS)
    assert {word for _, actions in pairs for word in actions.split()} == set(scan.ACTIONS)
    pairs.clear()
    assert len(scan.generate()) == 20_910, "generate() hands out its cache"


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        ("turn left", "I_TURN_LEFT"),
        ("jump left", "I_TURN_LEFT I_JUMP"),
        ("look opposite right", "I_TURN_RIGHT I_TURN_RIGHT I_LOOK"),
        ("turn opposite left", "I_TURN_LEFT I_TURN_LEFT"),
        ("turn around right", "I_TURN_RIGHT I_TURN_RIGHT I_TURN_RIGHT I_TURN_RIGHT"),
        ("run around left", "I_TURN_LEFT I_RUN I_TURN_LEFT I_RUN I_TURN_LEFT I_RUN I_TURN_LEFT I_RUN"),
        ("walk twice after jump", "I_JUMP I_WALK I_WALK"),
        ("walk  and turn right thrice ", "I_WALK I_TURN_RIGHT I_TURN_RIGHT I_TURN_RIGHT"),
    ],
)
def test_meanings_by_hand(command, actions):
    assert scan.interpret(command) == actions


@given(repeated, repeated)
def test_and_concatenates_and_after_reverses(a, b):
    assert scan.interpret(f"{a} and {b}") == f"{scan.interpret(a)} {scan.interpret(b)}"
    assert scan.interpret(f"{a} after {b}") == scan.interpret(f"{b} and {a}")


@given(repeated.filter(lambda command: command.split()[-1] not in ("twice", "thrice")))
def test_twice_and_thrice_repeat(phrase):
    once = scan.interpret(phrase).split()
    assert scan.interpret(f"{phrase} twice").split() == once * 2
    assert scan.interpret(f"{phrase} thrice").split() == once * 3


@given(st.lists(st.sampled_from(scan.WORDS), max_size=6).map(" ".join))
def test_any_other_sequence_of_words_is_refused(command):
    known = dict(scan.generate())
    if command in known:
        assert scan.interpret(command) == known[command]
    else:
        with pytest.raises(DataError, match="is not a SCAN command"):
            scan.interpret(command)


def test_parse_gives_the_tree():
    assert scan.parse("jump left twice and walk") == ("and", ("twice", ("left", ("jump",))), ("walk",))
    assert scan.parse("turn around right") == ("around", "right", ("turn",))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("jump backwards twice", "Unknown word 'backwards' in 'jump backwards twice'; .* walk, .*, after"),
        ("Jump", "Unknown word 'Jump'"),
        ("", "word 1 must be one of walk, look, run, jump, turn, found the end"),
        ("turn", "word 2 must be one of left, right, opposite, around, found the end"),
        ("jump opposite twice", "word 3 must be one of left, right, found 'twice'"),
        ("jump and", "word 3 must be one of walk, .* found the end"),
        ("jump twice thrice", "'thrice' cannot follow 'twice' as word 3"),
        ("walk and run and jump", "'and' cannot follow 'run' as word 4"),
        (None, "a text such as 'jump twice', got None"),
    ],
)
def test_bad_commands_are_refused_in_one_sentence(command, sentence):
    for use in (scan.interpret, scan.structure):
        with pytest.raises(DataError, match=sentence) as refusal:
            use(command)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("level", "sizes"),
    [
        ("verb", {1: 666, 4: 1_533, 16: 882}),
        ("verb_coindexed", {1: 666, 4: 2_415, 12: 882}),
        ("verb_direction", {2: 9, 4: 165, 8: 117, 16: 342, 32: 108, 64: 162}),
    ],
)
def test_structure_classes(level, sizes):
    classes = Counter(scan.structure(command, level) for command, _ in scan.generate())
    assert Counter(classes.values()) == sizes
    assert len(classes) == {"verb": 3_081, "verb_coindexed": 3_963, "verb_direction": 903}[level]
    assert sum(size * n for size, n in sizes.items()) == 20_910


def test_structures_by_hand():
    command = "jump left twice and walk"
    assert scan.structure(command) == "_ left twice and _"
    assert scan.structure(command, "verb_coindexed") == "A0 left twice and A1"
    assert scan.structure("run after run", "verb_coindexed") == "A0 after A0"
    assert scan.structure("turn left", "verb_direction") == "turn *"
    assert scan.Grammar("verb_coindexed").extract_structure(command) == "A0 left twice and A1"
    assert scan.Grammar().extract_structure(command) == scan.structure(command)
    with pytest.raises(DataError, match="level 'noun'.* verb, verb_coindexed, verb_direction"):
        scan.structure(command, "noun")


@given(command_text, st.permutations(scan.VERBS))
def test_structure_ignores_which_verb(command, verbs):
    renamed = " ".join(dict(zip(scan.VERBS, verbs, strict=False)).get(word, word) for word in command.split())
    for level in scan.LEVELS:
        assert scan.structure(command, level) == scan.structure(renamed, level)
    assert len(scan.interpret(command).split()) == len(scan.interpret(renamed).split())


def test_published_names():
    assert set(scan.PUBLISHED) == set(ROWS) and set(scan.SPLITS) == {*scan.PUBLISHED, *scan.DEVELOPMENT}


@pytest.mark.parametrize("name", ROWS)
def test_published_row_counts(name):
    train, test = scan.split(name)
    assert (len(train), len(test)) == ROWS[name]
    assert not set(train) & set(test)
    order = {pair: i for i, pair in enumerate(scan.generate())}
    once = [pair for pair in train if pair != train[0]]
    assert once == sorted(once, key=order.get) and test == sorted(test, key=order.get)


@pytest.mark.parametrize("name", PUBLISHED)
def test_splits_equal_the_published_ones_by_hash(name):
    hashes = [sha256("\n".join(lines(part)).encode()).hexdigest() for part in scan.split(name)]
    assert tuple(hashes) == PUBLISHED[name]


@pytest.mark.parametrize("name", PUBLISHED_SIZES)
def test_splits_have_the_published_size_in_characters(name):
    sizes = [sum(len(line) + 1 for line in lines(part)) for part in scan.split(name)]
    assert tuple(sizes) == PUBLISHED_SIZES[name]


@pytest.mark.skipif(not REAL.is_dir(), reason="needs CAUSALNB_DATA, a mirror of the data files")
@pytest.mark.parametrize("name", PUBLISHED)
def test_splits_equal_the_files(name):
    real = load("scan", split=name, source="file")
    for part, pairs in zip(("train", "test"), scan.split(name), strict=False):
        assert Counter(zip(real[part]["command"], real[part]["actions"], strict=False)) == Counter(pairs)


def test_template_splits_drop_the_turning_commands():
    train, test = scan.split("template_around_right")
    dropped = {command for command, _ in scan.generate()} - {command for command, _ in train + test}
    assert len(dropped) == 1_209 and all("turn around right" in command for command in dropped)
    assert not any("around right" in command for command, _ in train)


@pytest.mark.parametrize(
    ("name", "primitive"),
    [("add_prim_turn_left", "turn left"), *((f"add_prim_{verb}", verb) for verb in scan.VERBS)],
)
def test_added_primitives_share_one_rule(name, primitive):
    train, test = scan.split(name)
    alone = [pair for pair in train if pair == (primitive, scan.interpret(primitive))]
    assert len(alone) * 10 == len(train)
    assert not any(primitive in command for command, _ in train[len(alone) :])
    assert all(primitive in command and command != primitive for command, _ in test)
    assert len(set(train)) + len(test) == 20_910


def test_length_split_is_cut_between_22_and_24():
    train, test = (Counter(len(actions.split()) for _, actions in part) for part in scan.split("length"))
    assert (max(train), min(test), max(test)) == (22, 24, 48)


def test_a_seed_redraws_simple_only():
    draws = [scan.split("simple", seed=seed) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2] and draws[0] != scan.split("simple")
    for train, test in draws:
        assert (len(train), len(test)) == ROWS["simple"] and set(train) | set(test) == set(scan.generate())
    for name, seed in (("length", 0), ("simple", -1), ("simple", "0")):
        with pytest.raises(DataError, match=f"Seed .* for SCAN split '{name}'"):
            scan.split(name, seed=seed)


def test_unknown_split_is_named():
    with pytest.raises(DataError, match="Unknown SCAN split 'add_prim_skip'; choose one of simple, length"):
        scan.split("add_prim_skip")


def test_load_has_the_columns():
    data = load("scan", split="add_prim_jump", level="verb_coindexed")
    train, test = scan.split("add_prim_jump")
    assert {part: rows.column_names for part, rows in data.items()} == dict.fromkeys(
        ("train", "test"), ["command", "actions", "structure", "n_actions"]
    )
    assert list(zip(data["test"]["command"], data["test"]["actions"], strict=False)) == test
    assert data["train"].num_rows == len(train)
    row = data["test"][-1]
    assert row["structure"] == scan.structure(row["command"], "verb_coindexed")
    assert row["n_actions"] == len(row["actions"].split())


def test_load_refuses_what_it_does_not_know():
    for options, sentence in [
        (dict(source="web"), "source 'web'"),
        (dict(source="file", seed=3), "with seed 3"),
        (dict(split="template_right", source="file"), "no registered file"),
        (dict(level="noun"), "level 'noun'"),
        (dict(splits="simple"), "no option 'splits'"),
    ]:
        with pytest.raises(DataError, match=sentence):
            load("scan", **options)
    with pytest.raises(DataError, match="Unknown task 'scam'; choose one of scan"):
        load("scam")


def test_lines_are_parsed_and_a_malformed_one_is_numbered():
    pairs = scan.generate()[:3]
    text = "\n".join(f"IN: {command} OUT: {actions}" for command, actions in pairs) + "\n"
    assert scan.parse_lines(text, "few.txt") == pairs
    for wrong in ("jump OUT: I_JUMP", "IN: jump I_JUMP", "IN: jump OUT: ", ""):
        with pytest.raises(DataError, match="few.txt, line 4: expected 'IN: <command> OUT: <actions>'"):
            scan.parse_lines(f"{text}{wrong}\n", "few.txt")


@pytest.mark.parametrize("side", ["left", "right"])
def test_tokenizer_survives_saving(tmp_path, side):
    from transformers import AutoTokenizer

    scan.tokenizer(side).save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == scan.VOCABULARY and len(again) == 5 + 13 + 6
    assert again.padding_side == side
    assert [getattr(again, kind) for kind in scan.SPECIALS] == list(scan.SPECIALS.values())
    batch = again(["jump twice", "walk"], padding=True)["input_ids"]
    assert batch[1].index(again.pad_token_id) == (0 if side == "left" else 1)
    assert again.decode(batch[0]) == "jump twice"
    assert again.convert_ids_to_tokens(again("jump skip")["input_ids"]) == ["jump", "<unk>"]


@given(command_text)
def test_encode_equals_the_tokenizer(command):
    actions, words = scan.interpret(command), scan.tokenizer()
    encoded = scan.encode(command, actions)
    assert encoded["input_ids"] == words(f"<bos> {command} <sep> {actions} <eos>")["input_ids"]
    prompt = scan.encode(command)
    assert set(prompt) == {"input_ids", "prompt_mask"} and all(prompt["prompt_mask"])
    n = len(prompt["input_ids"])
    assert encoded["input_ids"][:n] == prompt["input_ids"]
    assert encoded["prompt_mask"] == [1] * n + [0] * (len(encoded["input_ids"]) - n)
    assert encoded["labels"] == [-100] * n + encoded["input_ids"][n:]


def test_encode_names_the_unknown_word():
    with pytest.raises(DataError, match="Unknown word 'skip' in 'skip twice'"):
        scan.encode("skip twice")
    with pytest.raises(DataError, match="Unknown word 'JUMP' in 'JUMP'; SCAN knows I_WALK"):
        scan.encode("jump", "JUMP")


def test_the_data_card_states_the_true_sizes():
    card = (Path(__file__).parents[3] / "data" / "README.md").read_text(encoding="utf-8")
    for name in scan.SPLITS:
        train, test = scan.split(name)
        assert f"| {name} | {len(train):,} | {len(set(train)):,} | {len(test):,} |" in card
