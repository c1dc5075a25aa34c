"""Text sizes in figures follow the style: no number of points stands in an artefact."""

import ast

import pytest

from tests.repo.tree import ROOT, python

FILES = [path for path in python("causalnb") if "experiments" in path.parts]
SIZES = {"fontsize", "title_fontsize", "labelsize", "font_size"}
SCALED = {"draw_graph", "draw_temporal"}  # these scale what they are given


def literal(source: str) -> list[int]:
    """Lines at which a text gets its size as a number, as a keyword or in a dict of keywords."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            pairs = [*zip(keys, node.values, strict=True)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] not in SCALED:
            pairs = [(word.arg, word.value) for word in node.keywords]
            if ast.unparse(node.func).rpartition(".")[2] in ("text", "annotate"):
                pairs += [("fontsize", value) for name, value in pairs if name == "size"]
        else:
            continue
        found += [
            value.lineno
            for name, value in pairs
            if name in SIZES and isinstance(value, ast.Constant) and isinstance(value.value, int | float)
        ]
    return sorted(found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes_follow_the_style(path):
    assert literal(path.read_text(encoding="utf-8")) == []


def test_a_literal_size_is_seen():
    assert literal(
        "ax.legend(fontsize=8)\n"
        "ax.set_title('a', fontsize='small')\n"
        "ax.tick_params(labelsize=7.5)\n"
        "ax.text(0, 0, 'a', size=6)\n"
        "look = {'fontsize': 7, 'rotation': 90}\n"
        "nx.draw_networkx_labels(graph, places, font_size=10)\n"
        "ax.legend(fontsize=text_size(8))\n"
        "draw_graph(ax, graph, size=300, font_size=7)\n"
    ) == [1, 3, 4, 5, 6]
