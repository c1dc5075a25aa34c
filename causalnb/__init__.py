"""causalnb: a course on four systems that put causality into language models."""

__version__ = "0.1.0"
