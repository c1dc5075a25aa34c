"""Figures: the same bytes every time, small, described; and graphs."""

import io
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest

from causalnb import paths
from causalnb.errors import LabError
from causalnb.lab import figures, manifest

ALT = "Two lines that rise from left to right."


@pytest.fixture
def axes():
    with figures.style():
        fig, ax = plt.subplots()
        yield ax
        plt.close(fig)


DRAW = """
import hashlib
import numpy as np
import matplotlib.pyplot as plt
from causalnb.lab import figures
figures.style()
fig, (left, right, last) = plt.subplots(1, 3)
left.plot([0, 1], [1, 2], label="a $x^2$")
left.scatter(np.arange(3000) % 97, np.arange(3000) % 89)
left.legend()
right.imshow(np.eye(5) - 0.5, **figures.signed(np.eye(5) - 0.5))
figures.draw_graph(last, np.triu(np.ones((3, 3)), 1))
for kind in ("svg", "png"):
    print(hashlib.sha256(figures.render(fig, kind)).hexdigest())
"""


def test_the_same_bytes_in_another_process():
    def digests(seed):
        env = {**os.environ, "PYTHONHASHSEED": seed, "MPLBACKEND": "agg"}
        home = Path(paths.__file__).parents[1]
        words = [sys.executable, "-c", DRAW]
        return subprocess.run(words, cwd=home, check=True, text=True, capture_output=True, env=env).stdout

    first = digests("1")
    assert first == digests("2") and len(set(first.split())) == 2


def test_a_change_changes_the_bytes(axes):
    axes.plot([0, 1], [1, 2])
    before = [figures.render(axes.figure, kind) for kind in figures.PLAIN]
    assert before == [figures.render(axes.figure, kind) for kind in figures.PLAIN]
    axes.plot([0, 1], [2, 1])
    assert not set(before) & {figures.render(axes.figure, kind) for kind in figures.PLAIN}


def test_what_was_drawn_before_does_not_matter():
    found = set()
    with figures.style():
        for before in ([], ["png"], ["svg", "png"]):
            fig, both = plt.subplots(1, 2, figsize=(7, 4))
            for scale, ax in enumerate(both):
                ax.plot(np.random.default_rng(scale).normal(size=10) * 10**scale, label=f"l{scale}")
                ax.set(title=f"t {scale}", xlabel="x", ylabel="why (%)")
                ax.legend()
            fig.suptitle("all")
            for kind in before:
                fig.savefig(io.BytesIO(), format=kind, dpi=150)
            found.add(figures.render(fig, "svg"))
            plt.close(fig)
    assert len(found) == 1


def test_no_date_no_text_elements(axes):
    axes.set_title("a title")
    text = figures.render(axes.figure, "svg").decode()
    assert "<text" not in text and "<dc:date>" not in text and mpl.__version__ not in text
    assert b"Software" not in figures.render(axes.figure, "png")
    with pytest.raises(LabError, match="not saved as 'gif': use svg, png, pdf"):
        figures.render(axes.figure, "gif")


LAYERS = {
    "plot": lambda ax, n: ax.plot(np.arange(n), np.arange(n) % 7),
    "scatter": lambda ax, n: ax.scatter(np.arange(n), np.arange(n) % 7),
    "mesh": lambda ax, n: ax.pcolormesh(np.arange(n).reshape(-1, 50)),
    "fill": lambda ax, n: ax.fill_between(np.arange(n), np.arange(n) % 7),
}


def test_sparse_layers_stay_lines(axes):
    for draw in LAYERS.values():
        draw(axes, 50)
    assert b"<image" not in figures.render(axes.figure, "svg")


@pytest.mark.parametrize("kind", LAYERS)
def test_dense_layers_become_pixels(axes, kind):
    LAYERS[kind](axes, 5000)
    assert b"<image" in figures.render(axes.figure, "svg")


def test_style_can_be_undone():
    mpl.rcParams.update({key: mpl.rcParamsDefault[key] for key in figures.RC})
    before = dict(mpl.rcParams)
    with figures.style():
        assert mpl.rcParams["image.cmap"] == "cividis"
        cycle = mpl.rcParams["axes.prop_cycle"].by_key()
        assert cycle["color"] == list(figures.COLOURS.values())
        for name in ("color", "linestyle", "marker"):
            assert len(set(cycle[name])) == len(figures.COLOURS)
    assert dict(mpl.rcParams) == before
    undo = figures.style()
    assert mpl.rcParams["image.cmap"] == "cividis"
    undo.close()
    assert dict(mpl.rcParams) == before


def test_signed_is_centred():
    assert figures.signed([[-0.5, 0.2]]) == {"cmap": "RdBu", "vmin": -0.5, "vmax": 0.5}
    assert figures.signed([np.nan, 3.0])["vmin"] == -3.0 and figures.signed([0.0])["vmax"] == 1.0
    assert figures.signed([])["vmax"] == 1.0


def test_save_figure(lab, axes):
    axes.plot([0, 1])
    saved = figures.save_figure(axes.figure, "toy.fig1", alt=f" {ALT} ", caption="Lines.")
    assert [path.relative_to(lab.folder).as_posix() for path in saved] == [
        "figures/toy/fig1.svg",
        "figures/toy/fig1.png",
    ]
    entry = manifest.entries()["toy.fig1"]
    assert entry["files"] == {f"toy/{path.name}": sha256(path.read_bytes()).hexdigest() for path in saved}
    assert (entry["alt"], entry["caption"], entry["profile"]) == (ALT, "Lines.", "laptop")
    assert (
        figures.save_figure(axes.figure, "toy.fig1", alt=ALT, formats=["pdf"])[0].read_bytes()[:4] == b"%PDF"
    )
    with figures.also("pdf"):
        kinds = [path.suffix for path in figures.save_figure(axes.figure, "toy.fig1", alt=ALT)]
    assert kinds == [".svg", ".png", ".pdf"]
    assert len(figures.save_figure(axes.figure, "toy.fig1", alt=ALT)) == 2
    for alt in ("", "a figure", " " * 30):
        with pytest.raises(LabError, match="describes no figure"):
            figures.save_figure(axes.figure, "toy.fig1", alt=alt)


def test_other_formats_on_request(lab, axes):
    axes.plot([0, 1])
    with figures.also("pdf"):
        saved = figures.save_figure(axes.figure, "toy.fig1", alt=ALT)
    assert [path.suffix for path in saved] == [".svg", ".png", ".pdf"]
    assert [path.suffix for path in figures.save_figure(axes.figure, "toy.fig1", alt=ALT)] == [".svg", ".png"]


def test_a_large_figure_is_refused(lab, axes, monkeypatch):
    monkeypatch.setattr(figures, "LIMIT", 1000)
    with pytest.raises(LabError, match=r"toy.fig1.svg has [\d,]+ bytes and may have 1,000"):
        figures.save_figure(axes.figure, "toy.fig1", alt=ALT)
    assert not (lab.folder / "figures").exists()


def test_show_gives_the_alt_text(axes, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda data, **options: shown.append((data, options)))
    figures.show(axes.figure, ALT)
    ((data, options),) = shown
    assert (
        data["image/png"][:4] == b"\x89PNG"
        and options["metadata"] == {"image/png": {"alt": ALT}}
        and options["raw"]
    )
    assert not plt.fignum_exists(axes.figure.number)
    assert len(data["image/png"]) < 0.8 * len(figures.render(axes.figure, "png"))
    with pytest.raises(LabError, match="describes no figure"):
        figures.show(axes.figure, "short")


def test_show_draws_at_the_resolution_asked_for(axes, monkeypatch):
    import io

    import IPython.display
    from PIL import Image

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda data, **_: shown.append(data["image/png"]))
    width = axes.figure.get_figwidth()
    for dpi in (150, 60):
        figures.show(axes.figure, ALT, dpi=dpi)
    assert [Image.open(io.BytesIO(png)).width for png in shown] == [round(width * 150), round(width * 60)]


def arrows(ax):
    return [patch for patch in ax.patches if patch.__class__.__name__ == "FancyArrowPatch"]


def test_a_dag_runs_from_causes_to_effects(axes):
    pos = figures.draw_graph(axes, [[0, 1, 1], [0, 0, -2], [0, 0, 0]], labels="ABC", colours={0: "orange"})
    assert pos[0][0] < pos[1][0] < pos[2][0]
    assert [text.get_text() for text in axes.texts] == ["A", "B", "C"] and len(arrows(axes)) == 3
    widths = sorted((arrow.get_linewidth(), arrow.get_linestyle()) for arrow in arrows(axes))
    assert widths[-1][0] == 2.0 and widths[0][0] == 1.25 and widths[-1][1] in ("--", "dashed")
    (nodes,) = [c for c in axes.collections if len(c.get_offsets()) == 3]
    assert mpl.colors.to_hex(nodes.get_facecolor()[0]).upper() == figures.COLOURS["orange"]


def test_other_graphs_lie_on_a_circle(axes):
    pos = figures.draw_graph(
        axes,
        nx.DiGraph([("x", "y"), ("y", "x"), ("y", "z"), ("z", "z")]),
        labels={"x": "X", "y": "Y", "z": "Z"},
    )
    assert np.allclose([np.hypot(*pos[node]) for node in "xyz"], 1, atol=0.02) and len(arrows(axes)) == 4
    assert figures.draw_graph(axes, np.zeros((2, 2)), pos={0: (0, 0), 1: (1, 1)}) == {0: (0, 0), 1: (1, 1)}
    for wrong in (np.zeros((2, 3)), np.zeros(3)):
        with pytest.raises(LabError, match="is no graph"):
            figures.draw_graph(axes, wrong)
