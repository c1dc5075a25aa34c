"""Figures of another width or style: texts that stay inside, titles and legends that break their lines."""

import logging
import re
import textwrap
from collections.abc import Iterator
from itertools import combinations, pairwise
from math import sqrt

SMALLEST = 0.6  # of its size, that a text may shrink to where breaking its lines is not enough
TALLER = 1.12, 4  # times its height, and how often at most, where texts one above the other meet
MARGIN = 2.0  # pixels


def fit(fig, width: float, scale: float) -> None:
    """Make `fig` `width` inches wide; its texts have `scale` times the size they have in the house style.

    Where texts grow more than the width, so does the height, and more where labels of a vertical axis meet,
    or a legend and the name of an axis. A text that sticks out or a title that meets another is broken into
    lines; where that is not enough it shrinks, to SMALLEST, and so do labels of a horizontal axis and texts
    within axes that meet; a warning names what sticks out still.
    """
    from matplotlib.text import Text

    wide, high = fig.get_size_inches()
    zoom = width / wide
    fig.set_size_inches(width, high * max(zoom, sqrt(zoom * scale)))
    texts = {text: (text.get_text(), text.get_fontsize()) for text in fig.findobj(Text)}

    def broken(text, share: float) -> bool:
        before, whole = text.get_text(), texts[text][0]
        longest = max(map(len, before.split("\n")))
        text.set_text("\n".join(_lines(part, int(share * longest)) for part in whole.split("\n")))
        return text.get_text() != before

    def smaller(text, share: float) -> bool:
        before = text.get_fontsize()
        text.set_fontsize(max(before * max(share, 0.9), SMALLEST * texts[text][1]))
        return text.get_fontsize() < before

    for change in (broken, smaller):
        for _ in range(10):
            excess = {text: share for text, share in _excess(fig).items() if text in texts}
            if change is smaller:
                excess = {text: share for text, share in _crowded(fig).items() if text in texts} | excess
            if not any([change(text, share) for text, share in excess.items()]):
                break
        for _ in range(TALLER[1] if change is broken else 0):
            fig.draw_without_rendering()
            if not any(_too_low(ax) for ax in fig.axes if ax.get_visible()):
                break
            fig.set_figheight(fig.get_figheight() * TALLER[0])
    if left := _excess(fig):
        names = ", ".join(repr(text.get_text()) for text in left)
        logging.getLogger(__name__).warning("%s sticks out: ask for more width.", names)


def _lines(text: str, length: int) -> str:
    """`text` in lines of `length` characters where words allow it; maths stays whole."""
    whole = re.sub(r"\$[^$]*\$", lambda maths: maths[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, max(length, 1), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def _legends(fig) -> list:
    return [*fig.legends, *filter(None, (ax.get_legend() for ax in fig.axes))]


def _too_low(ax) -> bool:
    """Whether labels of its vertical axis meet, or its legend and the name of its horizontal axis."""
    legend, name = ax.get_legend(), ax.xaxis.label
    beneath = legend and name.get_text() and legend.get_window_extent().overlaps(name.get_window_extent())
    return bool(beneath or ax.get_aspect() == "auto" and _meeting(ax.get_yticklabels(), 1))


def _meeting(labels, axis: int) -> float:
    """The share of their length along `axis` (0 across, 1 up) at which no labels meet; 0.0 where none do."""
    boxes = [
        label.get_window_extent() for label in labels if label.get_visible() and label.get_text().strip()
    ]
    ends = sorted((box.min[axis], box.max[axis]) for box in boxes)
    shares = [
        (after[0] + after[1] - before[0] - before[1] - 4 * MARGIN)
        / (after[1] - after[0] + before[1] - before[0])
        for before, after in pairwise(ends)
        if before[1] + MARGIN > after[0]
    ]
    return min(shares, default=0.0)


def _crowded(fig) -> dict:
    """Labels of a horizontal axis, and texts within axes, that meet: {text: share at which they do not}."""
    found: dict = {}
    for ax in (ax for ax in fig.axes if ax.get_visible()):
        labels = [label for label in ax.get_xticklabels() if not label.get_rotation()]
        if share := _meeting(labels, 0):
            found |= dict.fromkeys(labels, share)
        boxes = [
            (text, (text.get_bbox_patch() or text).get_window_extent())
            for text in ax.texts
            if text.get_visible() and text.get_text().strip() and not text.get_rotation()
        ]
        for (one, here), (other, there) in combinations(boxes, 2):
            apart = 6 * MARGIN if one.get_bbox_patch() and other.get_bbox_patch() else 0.0
            over = [min(here.max[k], there.max[k]) - max(here.min[k], there.min[k]) + apart for k in (0, 1)]
            if min(over) > MARGIN:
                share = 1 - min(over[0] / (here.width + there.width), over[1] / (here.height + there.height))
                found |= {text: min(share, found.get(text, 1.0)) for text in (one, other)}
    return found


def _excess(fig) -> dict:
    """Texts that stick out of the figure or meet another title: {text: share of its length that fits}."""
    from matplotlib.text import Text

    fig.draw_without_rendering()
    ticks = {
        label
        for ax in fig.axes
        for axis in (ax.xaxis, ax.yaxis)
        for label in (*axis.get_ticklabels(), *axis.get_ticklabels(minor=True))
    }
    texts = [t for t in fig.findobj(Text) if t.get_visible() and t.get_text().strip() and t not in ticks]
    excess = {}
    for text in texts:
        box, upright = text.get_window_extent(), text.get_rotation() == 90
        low, high, end = (box.y0, box.y1, fig.bbox.y1) if upright else (box.x0, box.x1, fig.bbox.x1)
        out = max(-low, high - end)
        if out > MARGIN:
            place = text.get_verticalalignment() if upright else text.get_horizontalalignment()
            excess[text] = 1 - (2 if place == "center" else 1) * (out + MARGIN) / (high - low)
    for text, box, over in _meetings(fig, texts):
        excess[text] = min(excess.get(text, 1), 1 - (over + 4 * MARGIN) / box.width)
    for legend in _legends(fig):
        box = legend.get_window_extent()
        out = max(-box.x0, 0) + max(box.x1 - fig.bbox.x1, 0)
        if out > MARGIN:
            excess |= dict.fromkeys(legend.get_texts(), 1 - (out + MARGIN) / box.width)
    return excess


def _meetings(fig, texts) -> Iterator[tuple]:
    """Axes' titles among `texts` that meet the title or labels of others: text, box, pixels in common."""
    from matplotlib.text import Text

    titles = [
        (t, ax) for ax in fig.axes for t in ax.get_children() if isinstance(t, Text) and t not in ax.texts
    ]
    boxes = [(text, ax, text.get_window_extent()) for text, ax in titles if text in texts]
    taken = [(None, ax, ax.get_tightbbox(for_layout_only=True)) for ax in fig.axes if ax.get_visible()]
    for text, ax, box in boxes:
        for other, beside, space in boxes + taken:
            over = min(box.x1, space.x1) - max(box.x0, space.x0)
            above = min(box.y1, space.y1) - max(box.y0, space.y0)
            apart = other is not text if other else beside is not ax and not beside.bbox.overlaps(ax.bbox)
            if apart and over > 0 and above > 0 and (other is None or box.width >= space.width):
                yield text, box, over
