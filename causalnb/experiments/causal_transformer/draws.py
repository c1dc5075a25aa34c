"""Table 1's random mask, drawn anew: is what it does the mask's, or that of one draw?"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from causalnb.experiments.causal_transformer.runs import run_pairs
from causalnb.lab.registry import Run


@contextmanager
def drawn(seed: int) -> Iterator[None]:
    """Within, encoders draw the random pattern with this seed; the configuration knows the draw 0 alone."""
    from causalnb.causal_transformer import layers

    pattern = layers.attention_pattern
    layers.attention_pattern = partial(pattern, seed=seed)
    try:
        yield
    finally:
        layers.attention_pattern = pattern


def run_draw(run: Run) -> dict:
    """`run_pairs` with the mask of config's `draw`."""
    with drawn(run.config["draw"]):
        return run_pairs(run)
