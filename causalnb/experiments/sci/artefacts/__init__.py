"""Tables and figures of SCI."""
