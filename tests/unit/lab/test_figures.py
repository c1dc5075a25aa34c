"""Figures: the same bytes every time, small, described; and graphs."""

import base64
import io
import os
import re
import shutil
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
from causalnb.lab import building, figures, fitting, manifest, pictures, registry

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
        return subprocess.run(
            words, cwd=home, check=True, encoding="utf-8", capture_output=True, env=env
        ).stdout

    first = digests("1")
    assert first == digests("2") and len(set(first.split())) == 2


def test_a_change_changes_the_bytes(axes):
    axes.plot([0, 1], [1, 2])
    kinds = ("svg", "png", "pdf")
    before = [figures.render(axes.figure, kind) for kind in kinds]
    assert before == [figures.render(axes.figure, kind) for kind in kinds]
    axes.plot([0, 1], [2, 1])
    assert not set(before) & {figures.render(axes.figure, kind) for kind in kinds}


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


def test_every_format_has_the_same_layout_and_no_label_is_cut():
    from PIL import Image

    with figures.style():
        fig, ax = plt.subplots(figsize=(9, 3))
        ax.barh([f"{word} " * 6 for word in ("first", "largest", "sample 0")], [1, 2, 3])
    engine, dpi = fig.get_layout_engine(), fig.dpi
    for size in (72, 100, 150, 300):
        picture = np.asarray(Image.open(io.BytesIO(figures.render(fig, "png", size))).convert("L"))
        assert picture[:, 0].min() == 255 and picture.min() < 50, size
    places = set()
    for kind in ("png", "svg", "pdf"):
        figures.render(fig, kind)
        places.add(ax.get_position().bounds)
    assert len(places) == 1
    assert fig.get_layout_engine() is engine and fig.dpi == dpi
    plt.close(fig)


def test_a_figure_without_a_layout_gets_none():
    fig, ax = plt.subplots()
    assert fig.get_layout_engine() is None
    with figures.style():
        before = ax.get_position().bounds
        assert figures.render(fig, "svg") == figures.render(fig, "svg")
    assert ax.get_position().bounds == before
    plt.close(fig)


def test_no_date_no_text_elements(axes):
    axes.set_title("a title")
    text = figures.render(axes.figure, "svg").decode()
    assert "<text" not in text and "<dc:date>" not in text and mpl.__version__ not in text
    assert b"Software" not in figures.render(axes.figure, "png")
    with pytest.raises(LabError, match="not drawn as 'gif': use svg, png or pdf"):
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
    for alt in ("", "a figure", " " * 30):
        with pytest.raises(LabError, match="describes no figure"):
            figures.save_figure(axes.figure, "toy.fig1", alt=alt)


def test_a_pdf_on_request_stays_and_is_made_anew(lab, axes):
    axes.plot([0, 1])
    with figures.requested(["pdf"]):
        saved = figures.save_figure(axes.figure, "toy.fig1", alt=ALT)
    assert [path.suffix for path in saved] == [".svg", ".png", ".pdf"]
    before = saved[-1].read_bytes()
    axes.plot([1, 0])

    @registry.artefact("toy.fig1")
    def build(profile):
        figures.save_figure(axes.figure, "toy.fig1", alt=ALT)

    assert saved[-1] in building.build("toy.fig1")
    assert saved[-1].read_bytes()[:4] == b"%PDF" and saved[-1].read_bytes() != before
    assert set(manifest.entries()["toy.fig1"]["files"]) == {"toy/fig1.svg", "toy/fig1.png"}


@pytest.mark.parametrize("width", [3.0, 8.0])
def test_a_headline_breaks_where_its_figure_ends(width):
    fig = plt.figure(figsize=(width, 3))
    figures.headline(fig, "what it shows, with 95 % intervals and words of many letters " * 3)
    fig.draw_without_rendering()
    box, lines = fig._suptitle.get_window_extent(), fig._suptitle.get_text().split("\n")
    assert fig.bbox.x0 <= box.x0 and box.x1 <= fig.bbox.x1
    assert box.width > 0.6 * fig.bbox.width and len(lines) == {3.0: 6, 8.0: 2}[width]
    plt.close(fig)


def test_a_build_leaves_no_figure_open(lab):
    mine = plt.figure()
    before = plt.get_fignums()

    @registry.artefact("toy.fig1")
    def build(profile):
        for name in ("toy.fig1", "toy.fig1_part"):
            figures.save_figure(plt.figure(), name, alt=ALT)

    building.build("toy.fig1")
    assert plt.get_fignums() == before
    plt.close(mine)


def test_elsewhere_nothing_in_figures_changes(lab, axes, tmp_path):
    with manifest.aside(tmp_path / "out", {".pdf"}), figures.requested(["pdf", "svg"], width=4.0):
        saved = figures.save_figure(axes.figure, "toy.fig1", alt=ALT)
    assert saved == [tmp_path / "out" / "toy_fig1.pdf"] and [*(tmp_path / "out").iterdir()] == saved
    assert not (lab.folder / "figures").exists() and b"MediaBox [ 0 0 288 " in saved[0].read_bytes()


@pytest.mark.parametrize("asked", [3.3, 5.5, 12.0])
def test_the_width_asked_for_is_the_width_of_the_file(lab, axes, tmp_path, asked):
    from PIL import Image

    axes.set(title="a title that is long, with many words, and still is not cut", ylabel="y" * 50)
    with manifest.aside(tmp_path, {".png"}), figures.requested(["png"], "slides", asked):
        (path,) = figures.save_figure(axes.figure, "toy.fig1", alt=ALT)
    assert Image.open(path).width == round(asked * 150)


def inside(fig, texts):
    fig.draw_without_rendering()
    boxes = [text.get_window_extent() for text in texts]
    return all(box.x0 >= -2 and box.x1 <= fig.bbox.x1 + 2 for box in boxes), boxes


def test_titles_and_legends_are_broken_until_they_fit():
    with figures.style():
        fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
        for ax in (left, right):
            ax.set_title("a title with $a + b$ of many words that meets the other")
            ax.plot([0, 1], label="a line that has a name of many words, all of them long")
        legend = fig.legend(loc="outside lower center", ncols=2)
        before = [text.get_text() for text in (left.title, right.title, *legend.get_texts())]
        fitting.fit(fig, 4.0, 1.0)
        texts = [left.title, right.title, *legend.get_texts()]
        within, (one, other, *_) = inside(fig, texts)
        assert within and (one.x1 < other.x0 or one.y0 > other.y1) and fig.get_figwidth() == 4.0
        assert [" ".join(text.get_text().split()) for text in texts] == before
        assert "\n" in left.title.get_text() and "$a + b$" in left.title.get_text()
        plt.close(fig)


def meeting(texts):
    boxes = [text.get_window_extent() for text in texts]
    return [(i, j) for i, one in enumerate(boxes) for j in range(i) if one.overlaps(boxes[j])]


def test_labels_one_above_the_other_get_height_and_those_in_a_row_shrink():
    names = [f"name {number},\nin two lines" for number in range(6)]
    with figures.style():
        fig, (upright, across) = plt.subplots(1, 2, figsize=(9, 1.6))
        upright.set_yticks(range(6), names)
        across.set_xticks(range(6), names)
        fig.draw_without_rendering()
        assert meeting(upright.get_yticklabels())
        fitting.fit(fig, 9.0, 1.0)
        fig.draw_without_rendering()
        assert not meeting(upright.get_yticklabels()) and 1.6 < fig.get_figheight() < 3
        assert not meeting(across.get_xticklabels())
        assert {label.get_fontsize() for label in upright.get_yticklabels()} == {9}
        assert 5.4 <= {label.get_fontsize() for label in across.get_xticklabels()}.pop() < 9
        plt.close(fig)


def test_a_legend_below_leaves_the_name_of_the_axis_free():
    with figures.style():
        fig, ax = plt.subplots(figsize=(4, 2))
        ax.plot([0, 1], label="a line")
        ax.set(xlabel="the name of the axis")
        legend = ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25))
        fig.draw_without_rendering()
        assert meeting([legend, ax.xaxis.label])
        fitting.fit(fig, 4.0, 1.0)
        fig.draw_without_rendering()
        assert not meeting([legend, ax.xaxis.label])
        plt.close(fig)


@pytest.mark.parametrize("boxed, near", [(False, 0.5), (True, 0.52)])
def test_texts_within_axes_that_meet_shrink(boxed, near):
    look = {"bbox": {"boxstyle": "round"}} if boxed else {}
    with figures.style():
        fig, ax = plt.subplots(figsize=(4, 2))
        texts = [ax.text(x, 0.5, "a text", ha="center", **look) for x in (0.4, near, 0.9)]
        fitting.fit(fig, 4.0, 1.0)
        fig.draw_without_rendering()
        assert not meeting([text.get_bbox_patch() or text for text in texts] if boxed else texts)
        sizes = [text.get_fontsize() for text in texts]
        assert 5.4 <= sizes[0] < 9 and sizes[1] < 9 and sizes[2] == 9
        plt.close(fig)


def test_a_word_that_is_too_long_shrinks_or_is_named(caplog):
    with figures.style():
        for letters, named in ((60, False), (200, True)):
            fig, ax = plt.subplots(figsize=(4, 3))
            ax.set_title("w" * letters, fontsize=figures.text_size(8))
            fitting.fit(fig, 4.0, 1.0)
            assert (("w" * letters) in caplog.text) is named and inside(fig, [ax.title])[0] is not named
            assert ax.title.get_fontsize() < 8
            plt.close(fig)


def test_texts_follow_the_style(tmp_path):
    (tmp_path / "mine.mplstyle").write_text("font.size: 12\nimage.cmap: gray\n", encoding="utf-8")
    with mpl.rc_context({"axes.labelcolor": "red", "font.size": 30}):
        with figures.style():
            assert [figures.text_size(size) for size in (5.5, 6.5, 7.5, 8, 9)] == [5.5, 6.5, 7.5, 8, 9]
            assert mpl.rcParams["axes.labelcolor"] == "red" and mpl.rcParams["font.size"] == 9
        with figures.requested(style=tmp_path / "mine.mplstyle"), figures.style():
            assert figures.text_size(6) == 8 and mpl.rcParams["image.cmap"] == "gray"
            assert mpl.rcParams["axes.labelcolor"] == "red" and not mpl.rcParams["axes.spines.top"]
        assert mpl.rcParams["font.size"] == 30
        assert figures.text_size(8) == 8


def test_requests_that_are_refused(tmp_path):
    (tmp_path / "empty").write_text("# nothing\n", encoding="utf-8")
    for wrong, why in (
        ({"formats": ["gif"]}, "not saved as 'gif': use svg, png, pdf, pgf"),
        ({"style": "posters"}, "no style 'posters': use paper, slides, or the path"),
        ({"style": tmp_path / "empty"}, "empty sets nothing"),
        ({"width": 0.1}, "not 0.1 inches wide"),
        ({"width": 0}, "not 0 inches wide"),
    ):
        with pytest.raises(LabError, match=why), figures.requested(**wrong):
            pass


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no TeX")
def test_pgf_is_read_by_latex(lab, axes, tmp_path):
    axes.set(title="τ & 50 % of a_b → $x^2$", xlabel="α ± 1")
    axes.set_xticks([0, 1], ["a_b", "β #1"])
    axes.imshow(np.eye(3))
    with manifest.aside(tmp_path, {".pgf"}), figures.requested(["pgf"], width=3.0):
        saved = figures.save_figure(axes.figure, "toy.fig1", alt=ALT)
    assert {path.name for path in saved} == {"toy_fig1.pgf", "toy_fig1-img0.png"}
    (tmp_path / "t.tex").write_text(
        "\\documentclass{article}\\usepackage{pgf}\\def\\mathdefault#1{#1}\\begin{document}"
        "\\setbox0\\hbox{\\input{toy_fig1.pgf}}\\typeout{WIDTH \\the\\wd0}\\box0\\end{document}",
        encoding="utf-8",
    )
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    run = subprocess.run(
        words, cwd=tmp_path, capture_output=True, timeout=120, encoding="utf-8", errors="replace"
    )
    assert run.returncode == 0, run.stdout[-2000:]
    width = float(re.search(r"WIDTH ([\d.]+)pt", run.stdout)[1])
    assert width == pytest.approx(3 * 72.27, abs=0.1)


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
    output = {"data": data, "metadata": {}}
    pictures.to_png(output)
    png = base64.b64decode(output["data"]["image/png"])
    assert data["text/plain"] == ALT and options == {"raw": True}
    assert png[:4] == b"\x89PNG" and output["metadata"] == {"image/png": {"alt": ALT}}
    assert not plt.fignum_exists(axes.figure.number)
    assert len(png) < 0.8 * len(figures.render(axes.figure, "png"))
    with pytest.raises(LabError, match="describes no figure"):
        figures.show(axes.figure, "short")


def test_show_draws_at_the_resolution_asked_for(axes, monkeypatch):
    import io

    import IPython.display
    from PIL import Image

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda data, **_: shown.append(data["text/html"]))
    width = axes.figure.get_figwidth()
    for dpi in (150, 60):
        figures.show(axes.figure, ALT, dpi=dpi)
    pngs = [base64.b64decode(pictures.PICTURE.fullmatch(html)[2]) for html in shown]
    assert [Image.open(io.BytesIO(png)).width for png in pngs] == [round(width * 150), round(width * 60)]


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


def test_fewer_colours_keep_a_map_s_one_bright_cell():
    from PIL import Image

    fig, axes = plt.subplots(1, 2, figsize=(6, 3))
    cells = np.random.default_rng(0).random((40, 40)) * 0.3
    cells[7, 7] = 1.0
    axes[0].imshow(cells)
    axes[1].plot(np.arange(9) ** 2, color="crimson")
    png = figures.render(fig, "png", 110)
    plt.close(fig)
    assert [figures._heat_map(ax) for ax in axes] == [True, False]
    before = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=int)
    for near in (figures.NEAR, figures.NEARER):
        small = figures._palette(png, near)
        after = np.asarray(Image.open(io.BytesIO(small)).convert("RGB"), dtype=int)
        assert np.abs(after - before).max() <= near and len(small) < len(png) / 2
    median = np.asarray(Image.open(io.BytesIO(png)).convert("RGB").quantize(32, dither=0).convert("RGB"))
    assert np.abs(median - before).max() > 3 * figures.NEAR  # what this is instead of
