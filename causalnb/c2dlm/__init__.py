"""C2DLM: a masked diffusion language model whose attention is drawn to the causes in a concept graph."""

from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

from .diffusion import diffusion_loss, logits_at, mask_in_order, mask_tokens
from .graph import ConceptGraph, Report, Supervision, supervision
from .llada import from_llada, llada_config, load_llada, to_llada
from .model import (
    MaskedDiffusionCollator,
    MaskedDiffusionConfig,
    MaskedDiffusionModel,
    MaskedDiffusionOutput,
    NumberedRows,
)
from .ratings import Rating, agreement, precision_recall, scripted_rater, spread
from .reattention import ReattentionLoss, ReattentionOutput, gamma_schedule
from .sampling import sample
from .teacher import (
    Annotation,
    Endpoint,
    LocalChat,
    Recorded,
    RuleTeacher,
    TeacherFailed,
    annotate,
    annotation_cost,
    parse_answer,
)
from .weighted import row_loss, value_weighted_attention

__all__ = [
    "Annotation",
    "ConceptGraph",
    "Endpoint",
    "LocalChat",
    "MaskedDiffusionCollator",
    "MaskedDiffusionConfig",
    "MaskedDiffusionModel",
    "MaskedDiffusionOutput",
    "NumberedRows",
    "Rating",
    "ReattentionLoss",
    "ReattentionOutput",
    "Recorded",
    "Report",
    "RuleTeacher",
    "Supervision",
    "TeacherFailed",
    "agreement",
    "annotate",
    "annotation_cost",
    "diffusion_loss",
    "from_llada",
    "gamma_schedule",
    "llada_config",
    "load_llada",
    "logits_at",
    "mask_in_order",
    "mask_tokens",
    "parse_answer",
    "precision_recall",
    "row_loss",
    "sample",
    "scripted_rater",
    "spread",
    "supervision",
    "to_llada",
    "value_weighted_attention",
]

AutoConfig.register(MaskedDiffusionConfig.model_type, MaskedDiffusionConfig)
AutoModel.register(MaskedDiffusionConfig, MaskedDiffusionModel)
AutoModelForMaskedLM.register(MaskedDiffusionConfig, MaskedDiffusionModel)
