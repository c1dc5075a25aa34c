"""Figures that look the same every time: one style, colours for all eyes, byte-identical files, alt text."""

import io
import os
import re
import shutil
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib import ticker

from causalnb.errors import LabError
from causalnb.lab import fitting, latex, manifest, pictures
from causalnb.paths import given, shown

COLOURS = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#000000",
    "yellow": "#F0E442",
}  # Okabe and Ito
LINES = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (6, 2, 1, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
RC = {
    "axes.prop_cycle": cycler(color=list(COLOURS.values()))
    + cycler(linestyle=LINES)
    + cycler(marker=MARKERS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "figure.constrained_layout.use": True,
    "figure.figsize": (5.8, 3.6),
    "figure.dpi": 100,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "legend.frameon": False,
    "lines.markersize": 4,
    "image.cmap": "cividis",
    "svg.hashsalt": "causalnb",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
LIMIT = 200_000  # bytes in a file
NEAR, NEARER = 24, 17  # of 255, the most that fewer colours may change a pixel in a notebook; of a heat map
HEADLINE = 9.5  # points of the message over a figure
DENSE = 2_000  # points from which a layer is drawn as pixels
IDS = re.compile(rb'(?<=[#"])[a-z]+[0-9a-f]{10}(?=[")])')
PLAIN = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "pgf": None,
}
FIXED = ("svg.hashsalt", "svg.fonttype", "pdf.fonttype")
STYLES = Path(__file__).parent / "styles"


@dataclass(frozen=True)
class Request:
    """How the figures that are saved shall differ: settings of matplotlib, width in inches, formats."""

    formats: tuple[str, ...] = ()
    settings: Mapping = field(default_factory=dict)
    width: float | None = None


NOTHING = Request()
_request: ContextVar[Request] = ContextVar("request", default=NOTHING)


@contextmanager
def requested(
    formats: Iterable[str] = (), style: str | Path | None = None, width: float | None = None
) -> Iterator[None]:
    """Within this context save_figure writes these formats too, in a style, `width` inches wide.

    `style`: paper, slides or a file of settings; it wins over the house style, and its figure.figsize is the
    width unless `width` is given. LabError for what is no format, style or width.
    """
    formats, settings = tuple(formats), _settings(style) if style else {}
    if unknown := [format for format in formats if format not in PLAIN]:
        raise LabError(f"a figure is not saved as {unknown[0]!r}: use {', '.join(PLAIN)}.")
    width = settings.get("figure.figsize", (None,))[0] if width is None else width
    if width is not None and not 1 <= width <= 40:
        raise LabError(f"a figure is not {width:g} inches wide: give a width between 1 and 40.")
    token = _request.set(Request(formats, settings, width))
    try:
        yield
    finally:
        _request.reset(token)


def _settings(style: str | Path) -> dict:
    house = STYLES / f"{style}.mplstyle"
    path = house if os.path.isfile(house) else given(style, "--style")
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in STYLES.glob("*.mplstyle")))
        raise LabError(f"there is no style {str(style)!r}: use {known}, or the path of a file of settings.")
    try:
        settings = dict(mpl.rc_params_from_file(path, use_default_template=False))
    except (OSError, ValueError) as error:
        raise LabError(
            f"{shown(path)} cannot be read ({error}): give a file of matplotlib settings."
        ) from error
    if not settings:
        raise LabError(f"{shown(path)} sets nothing: write lines such as `font.size: 12`.")
    return settings


def style() -> ExitStack:
    """Set the house style now, and what was `requested`; in a `with`, the style before comes back."""
    wanted = {**RC, **_request.get().settings}
    before, undo = {key: mpl.rcParams[key] for key in wanted}, ExitStack()
    undo.callback(mpl.rcParams.update, before)
    mpl.rcParams.update(wanted)
    return undo


def text_size(points: float) -> float:
    """Points, in the style that was `requested`, of a text that has `points` in the house style.

    A font.size that a notebook sets for itself does not change them.
    """
    return points * _request.get().settings.get("font.size", RC["font.size"]) / RC["font.size"]


def headline(fig, message: str) -> None:
    """Say over a figure the one thing that it shows, in lines as long as it is wide."""
    letters = int(fig.get_figwidth() * 72 / (0.6 * HEADLINE))
    lines = textwrap.wrap(message, letters, break_long_words=False, break_on_hyphens=False)
    fig.suptitle("\n".join(lines), fontsize=text_size(HEADLINE))


@contextmanager
def closed() -> Iterator[None]:
    """Close at the end the figures that were opened within this context."""
    import matplotlib.pyplot as plt

    before = set(plt.get_fignums())
    try:
        yield
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def signed(values) -> dict:
    """Keywords for imshow and the like: RdBu centred at 0, reaching the largest |value|."""
    reach = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    return {"cmap": "RdBu", "vmin": -reach, "vmax": reach}


def _points(artist) -> int:
    from matplotlib import collections, lines

    if isinstance(artist, collections.QuadMesh):
        return artist.get_coordinates().size // 2  # type: ignore[union-attr]
    if isinstance(artist, collections.Collection):
        return max(len(artist.get_offsets()), sum(len(path.vertices) for path in artist.get_paths()))  # type: ignore[arg-type, misc]
    return len(artist.get_xdata()) if isinstance(artist, lines.Line2D) else 0  # type: ignore[arg-type]


@contextmanager
def _laid_out(fig, dpi: int = 150) -> Iterator[None]:
    """Within, everything in the figure has the place that its layout gives it, for every format the same.

    A layout starts from the grid, not from where the last one left it, and is done again until it settles.
    dpi: of the pixels to which the edges of letters move, which makes texts wider or narrower.
    """
    engine, before, places = fig.get_layout_engine(), fig.dpi, None
    for ax in fig.axes:
        if ax.get_in_layout() and ax.get_subplotspec():
            ax.set_subplotspec(ax.get_subplotspec())
    try:
        fig.dpi = dpi
        for _ in range(5 if engine and fig.axes else 0):
            last, places = places, _laid(fig, engine)
            if places == last:
                break
        fig.dpi = before
        fig.set_layout_engine("none")
        yield
    finally:
        fig.dpi = before
        fig.set_layout_engine(engine or "none")  # None would be the engine of the style


def _laid(fig, engine) -> list:
    engine.execute(fig)
    return [round(at, 6) for ax in fig.axes for at in ax.get_position().bounds]


def render(fig, format: str, dpi: int = 150) -> bytes:
    """`fig` as svg, png or pdf bytes, the same bytes every time; dense layers become pixels at `dpi`."""
    if format not in PLAIN or format == "pgf":
        raise LabError(f"a figure is not drawn as {format!r}: use svg, png or pdf.")
    with _laid_out(fig, dpi):
        return _drawn(fig, format, dpi)


def _drawn(fig, format: str, dpi: int = 150) -> bytes:
    _dense_as_pixels(fig)
    out = io.BytesIO()
    settings = {"savefig.bbox": None, **{key: RC[key] for key in FIXED}, **_request.get().settings}
    with mpl.rc_context(settings):
        fig.savefig(out, format=format, dpi=dpi, metadata=PLAIN[format])
    # ids are hashes of positions to the last bit: number them instead
    return _numbered(out.getvalue()) if format == "svg" else out.getvalue()


def _numbered(svg: bytes) -> bytes:
    names: dict[bytes, int] = {}
    return IDS.sub(lambda id: b"x%d" % names.setdefault(id[0], len(names)), svg)


def _dense_as_pixels(fig) -> None:
    for artist in fig.findobj(lambda a: _points(a) > DENSE):
        artist.set_rasterized(True)


def _pgf(fig, name: str, dpi: int = 150) -> dict[str, bytes]:
    """`fig` for LaTeX to read, in the document's font: suffix -> bytes, of <name>.pgf and its pictures."""
    from matplotlib.text import Text

    system = next(filter(shutil.which, (mpl.rcParams["pgf.texsystem"], "pdflatex", "lualatex")), None)
    if system is None:
        raise LabError("pgf needs LaTeX, which is not installed: install TeX, or use pdf.")
    _dense_as_pixels(fig)
    for text in fig.findobj(Text):
        text.set_text(_in_latex(text.get_text()))
    for axis in (axis for ax in fig.axes for axis in (ax.xaxis, ax.yaxis)):
        if isinstance(axis.get_major_formatter(), ticker.FixedFormatter | ticker.FuncFormatter):
            axis.set_major_formatter(_escaping(axis.get_major_formatter()))
    settings = {"pgf.texsystem": system, "pgf.rcfonts": False, "savefig.bbox": None}
    with (
        tempfile.TemporaryDirectory() as folder,
        mpl.rc_context({**settings, **_request.get().settings}),  # type: ignore[dict-item]
        _laid_out(fig),
    ):
        fig.savefig(Path(folder) / f"{name}.pgf", dpi=dpi)
        return {file.name.removeprefix(name): file.read_bytes() for file in Path(folder).iterdir()}


def _in_latex(text: str) -> str:
    parts = re.split(r"((?<!\\)\$[^$]*\$)", text)
    return "".join(part if at % 2 else latex.escaped(part) for at, part in enumerate(parts))


def _escaping(formatter):
    return ticker.FuncFormatter(lambda value, place: _in_latex(formatter(value, place)))


def _described(alt: str) -> str:
    if len(alt.strip()) < 20:
        raise LabError(f"the alt text {alt!r} describes no figure: write a sentence, 20 characters or more.")
    return alt.strip()


def save_figure(
    fig,
    id: str,
    *,
    alt: str,
    caption: str = "",
    profile: str | None = None,
    formats: Iterable[str] = ("svg", "png"),
) -> list[Path]:
    """Write figures/<source>/<name>.<format> and the manifest; LabError without alt text or above LIMIT."""
    alt, request = _described(alt), _request.get()
    beside = [format for format in PLAIN if manifest.present(id, f".{format}", profile)]  # are made anew
    wanted = [f for f in dict.fromkeys((*formats, *request.formats, *beside)) if manifest.wants(f".{f}")]
    if wanted and request.width:
        fitting.fit(fig, request.width, text_size(1))
    with _laid_out(fig):
        content = {f".{format}": _drawn(fig, format) for format in wanted if format != "pgf"}
    for suffix, data in content.items():
        if suffix in manifest.RECORDED and len(data) > LIMIT and not manifest.is_aside():
            raise LabError(
                f"{id}{suffix} has {len(data):,} bytes and may have {LIMIT:,}: "
                "draw fewer points or a smaller figure."
            )
    if "pgf" in wanted:  # last: it changes the texts
        content |= _pgf(fig, manifest.file_name(id))
    return manifest.save(id, content, alt, caption, profile)


def _palette(png: bytes, near: int = NEAR) -> bytes:
    """The same picture in as few colours as leave all of its pixels near: a notebook has room for 300 KB.

    Each channel of each pixel is within `near` of what it was, if 256 colours can do that; most are nearer
    where that is less than NEAR.
    """
    from PIL import Image, ImageChops

    picture, out = Image.open(io.BytesIO(png)).convert("RGB"), io.BytesIO()
    means = int(near < NEAR)  # moves colours to the middle of what has them, for more bytes
    for colours in (32, 48, 64, 96, 128, 256):  # the quantiser that keeps rare ones: bright cells of a map
        fewer = picture.quantize(colours, Image.Quantize.MAXCOVERAGE, means, dither=Image.Dither.NONE)
        off = ImageChops.difference(picture, fewer.convert("RGB"))
        if max(high for _, high in off.getextrema()) <= near:  # type: ignore[misc]
            break
    fewer.save(out, "png", optimize=True)
    return out.getvalue()


def show(fig, alt: str, dpi: int = 150) -> None:
    """Display `fig` as a PNG in HTML, with its alt text, and close it; `notebooks.clean` stores the PNG."""
    import matplotlib.pyplot as plt
    from IPython.display import display

    alt, near = _described(alt), NEARER if any(map(_heat_map, fig.axes)) else NEAR
    png = _palette(render(fig, "png", dpi), near)
    display({"text/html": pictures.html(png, alt), "text/plain": alt}, raw=True)
    plt.close(fig)


def _heat_map(ax) -> bool:
    """Whether colours are values in it, which a reader compares."""
    from matplotlib.collections import QuadMesh

    return bool(ax.images) or any(isinstance(one, QuadMesh) for one in ax.collections)


def draw_graph(
    ax,
    graph,
    labels: Sequence[str] | Mapping | None = None,
    pos: Mapping | None = None,
    colours: Mapping | None = None,
    size: float = 700,
    font_size: float = 9,
) -> Mapping:
    """Draw a graph (networkx, or an adjacency (N, N) whose entry i, j is the edge i -> j); returns positions.

    A DAG is laid out from causes to effects, another graph on a circle; `colours`: node -> name in COLOURS;
    an edge's weight is its width, and a negative one is dashed. `size`, `font_size`: as in the house style.
    """
    import networkx as nx

    size, font_size = size * text_size(1) ** 2, text_size(font_size)

    if not isinstance(graph, nx.Graph):
        matrix = np.asarray(graph, dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise LabError(f"an adjacency of shape {matrix.shape} is no graph: give (N, N).")
        graph = nx.from_numpy_array(matrix, create_using=nx.DiGraph)
    nodes = list(graph)
    if not isinstance(labels, Mapping):
        labels = dict(zip(nodes, labels or map(str, nodes), strict=True))
    if pos is None and graph.is_directed() and nx.is_directed_acyclic_graph(graph):
        pos = nx.multipartite_layout(graph, subset_key=dict(enumerate(nx.topological_generations(graph))))
    pos = nx.circular_layout(graph) if pos is None else pos
    weights = {edge: float(graph.edges[edge].get("weight", 1.0)) for edge in graph.edges}
    largest = max(map(abs, weights.values()), default=1.0) or 1.0
    nx.draw_networkx_nodes(
        graph,
        pos,
        ax=ax,
        node_size=size,
        edgecolors="black",
        linewidths=1,
        node_color=[COLOURS[(colours or {}).get(node, "sky")] for node in nodes],
    )
    nx.draw_networkx_labels(graph, pos, labels, ax=ax, font_size=font_size)
    for edge, weight in weights.items():
        bend = "arc3,rad=0.15" if graph.has_edge(*edge[::-1]) and edge[0] != edge[1] else "arc3"
        nx.draw_networkx_edges(
            graph,
            pos,
            [edge],
            ax=ax,
            node_size=size,
            connectionstyle=bend,
            width=0.5 + 1.5 * abs(weight) / largest,
            style="--" if weight < 0 else "-",
        )
    ax.margins(0.15)
    ax.set_axis_off()
    return pos


def intervals(
    ax,
    places: Sequence[float],
    summaries: Sequence,
    colour: str,
    marker: str = "o",
    line="",
    *,
    across: bool = False,
    within: tuple[float, float] | None = None,
    capsize: float = 3,
    **look,
) -> None:
    """Draw means with their intervals at places along x, or along y if `across`; a mean alone has none.

    summaries: Summary each; colour: a name in COLOURS; within: intervals are cut to it; look: of `errorbar`.
    """
    means = [summary.mean for summary in summaries]
    ends = np.nan_to_num([summary.half for summary in summaries])
    if within is not None:
        low, high = within
        below = [summary.mean - max(summary.low, low) for summary in summaries]
        ends = np.nan_to_num([below, [min(summary.high, high) - summary.mean for summary in summaries]])
    look |= {"color": COLOURS[colour], "marker": marker, "linestyle": line, "capsize": capsize}
    if across:
        ax.errorbar(means, places, xerr=ends, **look)
    else:
        ax.errorbar(places, means, yerr=ends, **look)
