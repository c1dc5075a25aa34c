"""causalnb: a course on four systems that put causality into language models."""

from causalnb.registration import register_later

__version__ = "0.2.0"

CATALOGUES = ("causalnb.experiments",)  # packages whose modules register experiments and artefacts

register_later()
del register_later
