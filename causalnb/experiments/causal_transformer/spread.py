"""Held attention has flatter maps: is it the invariance that helps, or the flatness alone?"""

from collections.abc import Iterator
from contextlib import contextmanager

from causalnb.experiments.causal_transformer import beyond
from causalnb.lab.registry import Run

SPREAD = ("entropy_target", "entropy_weight")  # settings of the spread model's configuration


@contextmanager
def spread(config: dict) -> Iterator[None]:
    """Within, `run_beyond` trains the spread model; a parameter there would make its results stale."""
    from causalnb.causal_transformer import invariance
    from causalnb.causal_transformer.spread import SpreadConfig, SpreadForSequenceClassification

    def settings(**given):
        return SpreadConfig(**given, **{name: config[name] for name in SPREAD})

    before = invariance.InvariantConfig, invariance.InvariantForSequenceClassification
    invariance.InvariantConfig, invariance.InvariantForSequenceClassification = (
        settings,
        SpreadForSequenceClassification,
    )
    try:
        yield
    finally:
        invariance.InvariantConfig, invariance.InvariantForSequenceClassification = before


def run_spread(run: Run) -> dict:
    """`run_beyond` with maps as spread as config's entropy_target says."""
    with spread(run.config):
        return beyond.run_beyond(run)
