"""The Causal Transformer: attention held to a Markov blanket, and values that pass a graph convolution."""

from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

from .configuration import CausalTransformerConfig
from .fused import Visible, attention_with_tau
from .gated import GatedValueUpdate, gate_values
from .loss import MarkovBlanketLoss, describe
from .measure import excess_bounds, markov_blanket_bounds, no_loop, sinkhorn, tau
from .model import (
    CausalTransformerForConditionalGeneration,
    CausalTransformerForSequenceClassification,
    CausalTransformerOutput,
)
from .patterns import attention_pattern
from .penalty import MarkovBlanketPenalty, markov_blanket_penalty
from .self_attention import CausalSelfAttention
from .values import GCNValueUpdate

AutoConfig.register(CausalTransformerConfig.model_type, CausalTransformerConfig)
AutoModelForSequenceClassification.register(
    CausalTransformerConfig, CausalTransformerForSequenceClassification
)
AutoModelForSeq2SeqLM.register(CausalTransformerConfig, CausalTransformerForConditionalGeneration)

__all__ = [
    "CausalSelfAttention",
    "CausalTransformerConfig",
    "CausalTransformerForConditionalGeneration",
    "CausalTransformerForSequenceClassification",
    "CausalTransformerOutput",
    "GCNValueUpdate",
    "GatedValueUpdate",
    "MarkovBlanketLoss",
    "MarkovBlanketPenalty",
    "Visible",
    "attention_pattern",
    "attention_with_tau",
    "describe",
    "excess_bounds",
    "gate_values",
    "markov_blanket_bounds",
    "markov_blanket_penalty",
    "no_loop",
    "sinkhorn",
    "tau",
]
