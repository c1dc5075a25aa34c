"""The court: anyone's method on four fixed tasks, beside the controls that make its gain mean something."""

from .task import Task, collated, row_losses

__all__ = ["Task", "collated", "row_losses"]
