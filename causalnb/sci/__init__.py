"""SCI, structural causal invariance: structure kept apart from content and bound by a causal mechanism."""

from causalnb.wrapping import register_decoder

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
from .contrasts import ConstructionTransformer, SlotDecoder
from .model import SCIOutput, SCITransformer
from .separated import (
    SeparatedSCI,
    SeparatedSCIConfig,
    aligned_invariance,
    company,
    kinship,
    within_classes,
)
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
    "SeparatedSCI",
    "SeparatedSCIConfig",
    "StructuralContrastiveLoss",
    "StructuralEncoder",
    "StructuralGNN",
    "StructureBalancedBatches",
    "acyclicity",
    "aligned_invariance",
    "company",
    "generate_structural_pairs",
    "kinship",
    "structure_ids",
    "within_classes",
]

for kind in (SCITransformer, SeparatedSCI, SlotDecoder, ConstructionTransformer, ContrastiveDecoder):
    register_decoder(kind)
del kind
