"""The experiments of ICLM: data, models, runs, and the grid of arms, seeds and settings."""
