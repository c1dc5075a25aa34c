"""SCI, structural causal invariance: structure kept apart from content and bound by a causal mechanism."""

from .baseline import ContrastiveDecoder
from .binding import BoundSlots, CausalBindingMechanism, CausalInterventionLayer
from .configuration import SCIConfig
from .content import ContentEncoder, OrthogonalProjector
from .contrastive import (
    StructuralContrastiveLoss,
    StructureBalancedBatches,
    generate_structural_pairs,
    structure_ids,
)
from .model import SCIOutput, SCITransformer
from .structure import AbstractionLayer, EdgePredictor, StructuralEncoder, StructuralGNN, acyclicity

__all__ = [
    "AbstractionLayer",
    "BoundSlots",
    "CausalBindingMechanism",
    "CausalInterventionLayer",
    "ContentEncoder",
    "ContrastiveDecoder",
    "EdgePredictor",
    "OrthogonalProjector",
    "SCIConfig",
    "SCIOutput",
    "SCITransformer",
    "StructuralContrastiveLoss",
    "StructuralEncoder",
    "StructuralGNN",
    "StructureBalancedBatches",
    "acyclicity",
    "generate_structural_pairs",
    "structure_ids",
]
