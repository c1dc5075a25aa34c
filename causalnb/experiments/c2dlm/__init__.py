"""The experiments of C2DLM: data, models, runs, and the grid of arms, seeds and settings."""
