"""ICLM: independent causal language models, modules behind a router that should not influence each other."""

from .graphs import Finding, Node, check_claims, do, layout, temporal_graph, without_links, witness

__all__ = [
    "Finding",
    "Node",
    "check_claims",
    "do",
    "layout",
    "temporal_graph",
    "without_links",
    "witness",
]
