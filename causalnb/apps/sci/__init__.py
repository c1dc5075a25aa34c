"""SCI's quick start: train SCI on SCAN over any base model, and evaluate what was saved."""

from .evaluate import evaluate_sci, load_sci
from .settings import Settings, layers, option
from .train import train_sci

__all__ = ["Settings", "evaluate_sci", "layers", "load_sci", "option", "train_sci"]
