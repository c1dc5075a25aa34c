"""Tables and figures of the Causal Transformer."""
