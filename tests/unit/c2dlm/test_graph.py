"""Concept graphs: reading, cycles, finding them in a text, and the mask against its formula by loops."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from causalnb.c2dlm import ConceptGraph, Supervision, supervision
from causalnb.c2dlm.graph import STEP_RULES
from tests.unit.c2dlm.small import masks

TEXT = "x = 5, y = 53. Then x + y = 58. Answer: 58"
WORDS = {w: i for i, w in enumerate("[U] x y = + . , : Then Answer 5 53 58".split())}


def offsets_of(text):
    """Offsets of a fast tokenizer of words and signs, a special token in front."""
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[U]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    found = PreTrainedTokenizerFast(tokenizer_object=tokenizer)(text, return_offsets_mapping=True)
    return [(0, 0), *found["offset_mapping"]]


def literal(graph, spans, offsets, start, step_rule, rows="response"):
    """The mask of section 3.1 by loops over tokens and pairs: row = effect, column = cause."""
    owner = []
    for s, e in offsets:
        here = {c for c in graph.concepts for a, b in spans[c] if s < b and e > a and e > s}
        owner.append(here.pop() if len(here) == 1 else None)
    mask = torch.zeros(len(offsets), len(offsets), dtype=torch.int8)
    for i, (_, e) in enumerate(offsets):
        for j in range(len(offsets)):
            q, k = owner[i], owner[j]
            if q is None or k is None or q == k or (rows == "response" and e <= start):
                continue
            forward, backward = k in graph.edges.get(q, ()), q in graph.edges.get(k, ())
            value = 0
            if forward and not backward:
                value = 1
            elif backward and not forward:
                value = -1
            elif q in graph.steps and k in graph.steps:
                a, b = graph.steps[q], graph.steps[k]
                if (step_rule == "no_lookahead" and b > a) or (step_rule == "prune_earlier" and b < a):
                    value = -1
            mask[i, j] = value
    return mask


@pytest.mark.parametrize("step_rule", STEP_RULES)
@pytest.mark.parametrize(
    "edges, steps",
    [
        ({"58": ["5", "53"]}, {}),
        ({"58": ["5", "53"], "53": ["x"], "y": []}, {"5": 0, "53": 1, "58": 2, "x": 1}),
        ({"58": ["53"], "53": ["58"], "y = 53": ["Then"]}, {"58": 0, "53": 1, "Then": 1}),
    ],
)
def test_the_mask_is_the_literal_one(step_rule, edges, steps):
    graph, offsets = ConceptGraph(edges, steps), offsets_of(TEXT)
    for start in (0, 15):
        found = supervision(graph, TEXT, offsets, response_start=start)
        expected = literal(graph, graph.find(TEXT), offsets, start, step_rule)
        assert torch.equal(found.dense(step_rule), expected) and found.dense().dtype == torch.int8
    everything = supervision(graph, TEXT, offsets, response_start=15, rows="all")
    assert torch.equal(
        everything.dense(step_rule), literal(graph, graph.find(TEXT), offsets, 15, step_rule, "all")
    )


def test_a_mask_by_hand():
    """Tokens: special x = 5 , y = 53 . Then x + y = 58 . Answer : 58; both 58 look at 5 and 53."""
    mask = supervision(ConceptGraph({"58": ["5", "53"]}), TEXT, offsets_of(TEXT), response_start=15).dense()
    assert mask.shape == (19, 19) and mask.nonzero().tolist() == [[14, 3], [14, 7], [18, 3], [18, 7]]
    assert (mask[mask != 0] == 1).all()
    back = supervision(ConceptGraph({"5": ["58"]}), TEXT, offsets_of(TEXT), response_start=15).dense()
    assert back.nonzero().tolist() == [[14, 3], [18, 3]] and back.sum() == -2


def test_own_tokens_and_unrelated_pairs_may_be_supervised():
    graph = ConceptGraph({"58": ["53"], "5": ["53"]})
    mask = supervision(graph, TEXT, offsets_of(TEXT), rows="all", same=1, unrelated=-1).dense()
    assert mask[14, [14, 18, 7, 3]].tolist() == [1, 1, 1, -1] and (mask[14] != 0).sum() == 4
    assert mask[3, [3, 7, 14]].tolist() == [1, 1, -1]
    ignored = supervision(graph, TEXT, offsets_of(TEXT), rows="all", same=2).dense()
    assert ignored[14, [14, 18, 7, 3]].tolist() == [2, 2, 1, 0]


def test_mutual_causes_and_reverse_edges_may_be_anything():
    graph = ConceptGraph({"58": ["53", "5"], "5": ["53"], "53": ["5"]})
    given = (graph, TEXT, offsets_of(TEXT))
    mask = supervision(*given, rows="all", mutual=1, reverse=2).dense()
    assert mask[3, [7, 14]].tolist() == [1, 2] and mask[7, [3, 14]].tolist() == [1, 2]
    assert supervision(*given, rows="all").dense()[3, [7, 14]].tolist() == [0, -1]


def test_places_replace_the_search():
    graph, offsets = ConceptGraph({"the end": ["the beginning", "nothing"]}), offsets_of(TEXT)
    places = {"the end": [(40, 42)], "the beginning": [(4, 5)]}
    found = supervision(graph, TEXT, offsets, places=places)
    assert (found.dense() == 1).nonzero().tolist() == [[18, 3]] and found.report.missing_causes == ["nothing"]
    assert found.report.kept == 1


def test_a_graph_that_is_nowhere_in_the_text_supervises_nothing():
    for graph in (ConceptGraph({"rain": ["clouds"]}), ConceptGraph({})):
        found = supervision(graph, TEXT, offsets_of(TEXT))
        assert found.dense().count_nonzero() == 0 and found.report.kept == 0
        assert found.report.missing_effects == [*graph.edges]


def test_reading_json():
    graph = ConceptGraph.from_json('{"a b": ["c", "d", "c"], "c": "e", "f": []}')
    assert graph.edges == {"a b": ("c", "d"), "c": ("e",), "f": ()}
    assert graph.concepts == ("a b", "c", "d", "e", "f")
    assert graph.pairs == [("c", "a b"), ("d", "a b"), ("e", "c")]
    listed = ConceptGraph.from_json('[{"a": ["b"]}, {"c": ["a"]}, {"a": ["d"]}]')
    assert listed.edges == {"a": ("b", "d"), "c": ("a",)}
    assert ConceptGraph.from_json('{"a": "b", "a": ["c"]}').edges == {"a": ("b", "c")}  # repeated, not lost
    assert ConceptGraph.from_json('{"4": [5, 1.50]}').edges == {"4": ("5", "1.50")}
    stepped = ConceptGraph.from_json('{"edges": {"a": ["b"]}, "steps": {"a": 1, "b": 0}}')
    assert stepped.steps == {"a": 1, "b": 0} and ConceptGraph.from_json(stepped.to_json()) == stepped
    assert ConceptGraph.from_json(graph.to_json()) == graph


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"a": ["b"', r"the graph is no JSON \(Expecting ',' delimiter.*\): pass an object"),
        (None, "the graph is no JSON"),
        ('"a"', r"a concept graph needs an object \{effect: \[causes\]\}, not 'a'"),
        ('{"a": [null]}', r"the causes of 'a' are \[None\]: give a list of quoted phrases"),
        ('{"a": {"b": 1}}', "the causes of 'a' are"),
        ('{"a": [" "]}', "the causes of 'a' are"),
        ('{"": ["a"]}', "the causes of '' are"),
        ('{"edges": {"a": ["b"]}, "steps": {"a": "soon"}}', r"the steps are \{'a': 'soon'\}: give \{concept"),
        ('{"edges": {"a": ["b"]}, "steps": {"a": -1}}', "a step is -1: number steps 0, 1, 2"),
        ('{"edges": {"a": ["b"]}, "steps": {"c": 1}}', "a step is given for 'c', which is no concept of the"),
    ],
)
def test_json_that_is_no_graph(text, said):
    with pytest.raises(ValueError, match=said):
        ConceptGraph.from_json(text)


def test_cycles_are_found_and_named():
    assert ConceptGraph({"b": ["a"], "c": ["b", "a"]}).cycles() == []
    assert ConceptGraph({}).cycles() == []
    assert ConceptGraph({"a": ["a"]}).cycles() == [["a"]]
    looped = ConceptGraph({"b": ["a"], "c": ["b"], "a": ["c"], "e": ["d"], "d": ["e"], "f": ["a"]})
    knots = looped.cycles()
    assert [set(cycle) for cycle in knots] == [{"a", "b", "c"}, {"d", "e"}]
    for cycle in knots:
        assert all(
            cause in looped.edges[effect]
            for cause, effect in zip(cycle, [*cycle[1:], cycle[0]], strict=False)
        )


def test_a_cyclic_graph_is_reported_and_both_directions_cancel():
    graph = ConceptGraph({"58": ["53"], "53": ["58"]})
    found = supervision(graph, TEXT, offsets_of(TEXT))
    assert found.report.problems == ["1 cycle(s) in the graph, so it is no causal order: 58 -> 53 -> 58."]
    assert (found.dense() == 0).all() and found.report.edges == found.report.kept == 2
    with pytest.raises(ValueError, match="1 cycle.s. in the graph, so it is no causal order"):
        supervision(graph, TEXT, offsets_of(TEXT), strict=True)


def test_what_is_not_in_the_text_is_counted_and_listed():
    graph = ConceptGraph({"58": ["5", "six"], "seven": ["53", "eight"]})
    found = supervision(graph, TEXT, offsets_of(TEXT), response_start=15)
    assert found.report.missing_effects == ["seven"] and found.report.missing_causes == ["six", "eight"]
    assert found.report.edges == 4 and found.report.kept == 1
    assert found.report.problems == [
        "1 effect(s) are not in the text and give no row: 'seven'.",
        "2 cause(s) are not in the text and give no column: 'six', 'eight'.",
    ]
    assert found.dense().nonzero().tolist() == [[14, 3], [18, 3]]


def test_overlapping_concepts_lose_the_tokens_they_share():
    found = supervision(ConceptGraph({"y = 53": ["x"], "Then": ["53"]}), TEXT, offsets_of(TEXT))
    assert found.report.overlapping == ["y = 53", "53"] and found.report.erased == ["53"]
    assert found.report.problems == [
        "2 concept(s) share tokens with another, which count as context: 'y = 53', '53'.",
        "1 concept(s) have no token of their own left: '53'.",
    ]
    assert found.concept[5:8].tolist() == [0, 0, -1] and found.report.kept == 1


def test_occurrences():
    graph = ConceptGraph({"58": ["5"]})
    rows = {}
    for name in ("all", "first", "unique_only"):
        mask = supervision(graph, TEXT, offsets_of(TEXT), occurrences=name).dense()
        rows[name] = mask.any(1).nonzero()[:, 0].tolist()
    assert rows == {"all": [3, 14, 18], "first": [3, 14], "unique_only": []}
    found = supervision(graph, TEXT, offsets_of(TEXT), occurrences="unique_only").report
    assert found.problems == ["1 concept(s) stand in the text more than once and are left out: '58'."]


@pytest.mark.parametrize(
    "concept, text, places",
    [
        ("5", "53 5 1.5 5.3 1,500 -5 3-5 5. 5", [3, 24, 26, 29]),
        ("-5", "x = -5", [4]),
        ("have", "haven't have", [8]),
        ("(x", "f(x) (x", [1, 5]),
        ("a.b", "aXb a.b", [4]),
        ("\\boxed{25}", "is \\boxed{25}.", [3]),
        ("1", "x^{-1} = 1", [9]),
        ("4", "80 - 4", [5]),
        ("tre", "théâtre tre", [8]),
        ("x", "Δx x", [3]),
        ("5", "−5 5 3−5", [3, 7]),
        ("été", "étés été", [5]),
        ("猫", "这只猫很小", [2]),
        ("ねこ", "このねこは", [2]),
    ],
)  # no spaces, so no ends of words
def test_words_and_numbers_are_found_whole(concept, text, places):
    assert [a for a, _ in ConceptGraph({concept: []}).find(text)[concept]] == places


@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1, max_size=8),
    st.sampled_from(["ab", "b", "c a", "abc"]),
    st.sampled_from(["a", "bc", "b a"]),
)
def test_any_offsets_agree_with_the_loops(cuts, effect, cause):
    text = "abc ab c a b abc bc b a ab c abcabc "
    offsets = [(s, min(s + n, len(text))) for s, n in cuts]
    graph = ConceptGraph({effect: [cause]}, {effect: 1, cause: 0})
    found = supervision(graph, text, offsets, response_start=4)
    expected = literal(graph, graph.find(text), offsets, 4, "prune_earlier")
    assert torch.equal(found.dense("prune_earlier"), expected)


def test_a_placebo_keeps_how_many_causes():
    graph = ConceptGraph({"a": ["b", "c"], "d": ["a"], "e": []}, {"a": 1})
    placebo = graph.shuffled(3)
    assert {e: len(c) for e, c in placebo.edges.items()} == {"a": 2, "d": 1, "e": 0}
    assert all(effect not in causes for effect, causes in placebo.edges.items())
    assert placebo.steps == {"a": 1} and graph.shuffled(3) == placebo
    assert len({json.dumps(graph.shuffled(seed).edges) for seed in range(20)}) > 3
    among = graph.shuffled(3, among=["d", "e", "f"])
    assert sorted(map(len, among.edges.values())) == [0, 1, 2]
    assert {cause for causes in among.edges.values() for cause in causes} <= {"d", "e", "f"}
    assert graph.shuffled(3, among=["d", "e", "f"]).steps == {"a": 1}
    steps = ConceptGraph({"a": ["b"], "d": ["c"]}, {"b": 0, "c": 1, "a": 2})
    for seed in range(10):  # a cause that nothing draws is no concept, and has no step
        found = steps.shuffled(seed, among=["a", "b", "c"])
        assert found.steps == {name: step for name, step in steps.steps.items() if name in found.concepts}
    assert any("c" not in steps.shuffled(seed, among=["a", "b", "c"]).steps for seed in range(10))


def test_a_batch_is_padded_and_dense_like_its_items():
    items = [*masks(3, 9), masks(1, 7, concepts=3)[0].to_lists(), None]
    batch = Supervision(**Supervision.stack(items, 9))
    assert batch.relation.shape == (5, 5, 5)
    for rule in STEP_RULES:
        whole = batch.dense(rule)
        for i in range(3):
            assert torch.equal(whole[i], items[i].dense(rule))
        assert torch.equal(whole[3, :7, :7], Supervision.of(items[3]).dense(rule))
        assert (whole[3, :, 7:] == 2).all()
    assert not (whole[4].abs() == 1).any()
    assert Supervision.of(items[0]) is items[0]


def test_any_dense_mask_can_be_supervision():
    mask = torch.randint(-1, 3, (6, 6), dtype=torch.int8)
    assert torch.equal(Supervision.from_dense(mask).dense(), mask)
    for wrong in (mask[:5], mask + 3):
        with pytest.raises(ValueError, match="is no square of -1, 0, 1 and 2"):
            Supervision.from_dense(wrong)


def test_what_does_not_fit_is_refused():
    graph, offsets = ConceptGraph({"58": ["5"]}), offsets_of(TEXT)
    with pytest.raises(ValueError, match=r"offsets have shape \(1, 19, 2\): pass \(tokens, 2\), one text"):
        supervision(graph, TEXT, [offsets])
    with pytest.raises(ValueError, match="offsets reach to 42 in a text of 10 characters: take them"):
        supervision(graph, TEXT[:10], offsets)
    with pytest.raises(ValueError, match="rows is 'some': choose 'response' or 'all'"):
        supervision(graph, TEXT, offsets, rows="some")
    with pytest.raises(ValueError, match=r"unrelated is 3: choose -1, 0, 1 or 2 \(ignored\)"):
        supervision(graph, TEXT, offsets, unrelated=3)
    with pytest.raises(ValueError, match="mutual is None: choose -1, 0, 1 or 2"):
        supervision(graph, TEXT, offsets, mutual=None)
    with pytest.raises(ValueError, match="occurrences is 'last': choose among all, first, unique_only"):
        graph.find(TEXT, "last")
    with pytest.raises(ValueError, match="step_rule is 'none': choose among no_lookahead, prune"):
        supervision(graph, TEXT, offsets).dense("none")
    with pytest.raises(ValueError, match="supervision of 3 tokens and 1 concepts has parts of other lengths"):
        Supervision([0, 0, 0], [[0]], [0], [False], [True] * 3)


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(concept=[0, 7, 1]), "concept has numbers from 0 to 7: give -1, or 0 to 1 as relation has"),
        (dict(concept=[0, -2, 1]), "concept has numbers from -2 to 1: give -1, or 0 to 1"),
        (dict(relation=torch.full((2, 2), 5)), r"relation has values from 5 to 5: give -1, 0, 1 or 2 "),
        (dict(relation=torch.full((2, 2), 0.7)), "relation has values from 0.7 to 0.7"),
        (dict(relation=torch.full((2, 2), 257)), "relation has values from 257 to 257"),
        (
            dict(relation=torch.zeros(3, 2)),
            "supervision of 3 tokens and 2 concepts has parts of other lengths",
        ),
    ],
)
def test_supervision_whose_parts_do_not_fit(change, said):
    parts = dict(
        concept=[0, -1, 1], relation=torch.zeros(2, 2), step=[-1] * 2, ignore=[False] * 3, rows=[True] * 3
    )
    assert Supervision(**parts).dense().shape == (3, 3)
    with pytest.raises(ValueError, match=said):
        Supervision(**parts | change)


def test_a_batch_shorter_than_its_items_is_refused():
    with pytest.raises(ValueError, match="supervision of 9 tokens does not fit 7: raise tokens or cut it"):
        Supervision.stack([None, masks(1, 9)[0]], 7)


def test_json_that_is_nested_too_deep_is_refused():
    with pytest.raises(ValueError, match="the graph is no JSON"):
        ConceptGraph.from_json("[" * 100_000 + "]" * 100_000)


def test_a_truth_is_no_step():
    with pytest.raises(ValueError, match="a step is True"):
        ConceptGraph({"b": ["a"]}, {"b": True})
