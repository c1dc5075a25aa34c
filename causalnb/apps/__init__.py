"""Applications: what trains and evaluates on a user's own model, as a source's quick start does."""
