"""Tables and figures of C2DLM."""

from causalnb.experiments.c2dlm import grid  # noqa: F401  (registers what they are made from)
