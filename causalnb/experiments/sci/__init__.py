"""The experiments of SCI: data, models, runs, and the grid of arms, seeds and settings."""
