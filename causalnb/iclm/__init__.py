"""ICLM: independent language modules on one frozen base, an invariant one beside them, and a router."""

from causalnb.wrapping import register_decoder

from .aggregation import (
    LatentAggregation,
    LogitAggregation,
    ProbabilityAggregation,
    SharedBatchNorm,
    shared_batch_norm,
)
from .configuration import ICLMConfig
from .graphs import Finding, Node, check_claims, do, temporal_graph, without_links, witness
from .independence import (
    layer_correlations,
    linear_cka,
    mutual_information,
    pearson,
    routed_alignment,
    routed_mutual_information,
)
from .model import ICLMForCausalLM, ICLMOutput
from .routing import (
    DistanceWeightingRouter,
    KMeansRouter,
    Router,
    Routing,
    VectorQuantizer,
    mean_pooled,
)

__all__ = [
    "DistanceWeightingRouter",
    "Finding",
    "ICLMConfig",
    "ICLMForCausalLM",
    "ICLMOutput",
    "KMeansRouter",
    "LatentAggregation",
    "LogitAggregation",
    "Node",
    "ProbabilityAggregation",
    "Router",
    "Routing",
    "SharedBatchNorm",
    "VectorQuantizer",
    "check_claims",
    "do",
    "layer_correlations",
    "linear_cka",
    "mean_pooled",
    "mutual_information",
    "pearson",
    "routed_alignment",
    "routed_mutual_information",
    "shared_batch_norm",
    "temporal_graph",
    "without_links",
    "witness",
]

register_decoder(ICLMForCausalLM)
