"""The experiments of the Causal Transformer: data, models, runs, and the grid of arms, seeds and settings."""
