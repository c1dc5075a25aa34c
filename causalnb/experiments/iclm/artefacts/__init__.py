"""Tables and figures of ICLM."""
