"""A user's own text: each of the four systems trained on her base and data, and evaluated."""

from .data import columns
from .evaluate import evaluate_text, load_text
from .settings import Settings
from .train import train_text

__all__ = ["Settings", "columns", "evaluate_text", "load_text", "train_text"]
