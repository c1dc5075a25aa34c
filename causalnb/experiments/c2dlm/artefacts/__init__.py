"""Tables and figures of C2DLM."""
