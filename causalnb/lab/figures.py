"""Figures that look the same every time: one style, colours for all eyes, byte-identical files, alt text."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

import matplotlib as mpl
import numpy as np
from cycler import cycler

from causalnb.errors import LabError
from causalnb.lab import manifest

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
DENSE = 2_000  # points from which a layer is drawn as pixels
IDS = re.compile(rb'(?<=[#"])[a-z]+[0-9a-f]{10}(?=[")])')
PLAIN = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_asked: ContextVar[tuple[str, ...]] = ContextVar("asked", default=())


@contextmanager
def also(*formats: str) -> Iterator[None]:
    """Within this context save_figure writes these formats too."""
    token = _asked.set(formats)
    try:
        yield
    finally:
        _asked.reset(token)


def style() -> ExitStack:
    """Set the house style now; in a `with`, the style before comes back at its end."""
    before, undo = {key: mpl.rcParams[key] for key in RC}, ExitStack()  # type: ignore[index]
    undo.callback(mpl.rcParams.update, before)  # type: ignore[arg-type]
    mpl.rcParams.update(RC)  # type: ignore[arg-type]
    return undo


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


def render(fig, format: str, dpi: int = 150) -> bytes:
    """`fig` as svg, png or pdf bytes, the same bytes every time; dense layers become pixels at `dpi`."""
    if format not in PLAIN:
        raise LabError(f"a figure is not saved as {format!r}: use {', '.join(PLAIN)}.")
    for artist in fig.findobj(lambda a: _points(a) > DENSE):
        artist.set_rasterized(True)
    for ax in fig.axes:  # the layout starts from its grid, not from where the last drawing left it
        if ax.get_in_layout() and ax.get_subplotspec():
            ax.set_subplotspec(ax.get_subplotspec())
    last = b""
    for _ in range(5):  # and is drawn until it has settled
        out, names = io.BytesIO(), {}
        with mpl.rc_context({key: RC[key] for key in ("svg.hashsalt", "svg.fonttype", "pdf.fonttype")}):
            fig.savefig(out, format=format, dpi=dpi, metadata=PLAIN[format])
        data = out.getvalue()
        if format == "svg":  # ids are hashes of positions to the last bit: number them instead
            data = IDS.sub(lambda id: b"x%d" % names.setdefault(id[0], len(names)), data)  # noqa: B023  (called at once)
        if data == last:
            break
        last = data
    return last


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
    alt, wanted = _described(alt), dict.fromkeys((*formats, *_asked.get()))
    content = {f".{format}": render(fig, format) for format in wanted}
    for suffix, data in content.items():
        if len(data) > LIMIT:
            raise LabError(
                f"{id}{suffix} has {len(data):,} bytes and may have {LIMIT:,}: "
                "draw fewer points or a smaller figure."
            )
    return manifest.save(id, content, alt, caption, profile)


def _palette(png: bytes) -> bytes:
    """The same picture in 256 colours, a third of the bytes: a notebook may hold 300 KB of outputs."""
    from PIL import Image

    out = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(out, "png", optimize=True)
    return out.getvalue()


def show(fig, alt: str, dpi: int = 150) -> None:
    """Display `fig` as a PNG with its alt text in the output's metadata, and close it."""
    import matplotlib.pyplot as plt
    from IPython.display import display

    alt = _described(alt)
    data = {"image/png": _palette(render(fig, "png", dpi)), "text/plain": alt}
    display(data, raw=True, metadata={"image/png": {"alt": alt}})
    plt.close(fig)


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
    an edge's weight is its width, and a negative one is dashed.
    """
    import networkx as nx

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
