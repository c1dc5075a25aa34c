"""The guide's SCITransformer as printed, completed only where it does not run, so that it can be trained.

Completed: the positions a Llama layer asks for, compute_lm_loss, the token axis of the projector and
batch-first binding attention (without either, a batch raises an error). Kept: encoders that see the answer,
an embedding read under no_grad, hidden states replaced by the binding, no final norm, no cache.
"""

from typing import Self

import torch
import torch.nn.functional as F
from transformers.utils import can_return_tuple

from causalnb.wrapping import DecoderWrapper

from . import guide
from .configuration import SCIConfig
from .model import SCIOutput


class _TokenAxisProjector(guide.OrthogonalProjector):
    """The guide's projector with the token axis it forgets: s (B, 1, D) meets content (B, N, D)."""

    def forward(self, content, structure):
        return super().forward(content, structure.unsqueeze(2))


class GuideSCIConfig(SCIConfig):
    """SCIConfig, of which slots, layers, cbm_layers, scl_weight and scl_temperature matter."""

    model_type = "sci_guide"

    def __init__(self, base_config=None, **kwargs):
        super().__init__(base_config, **kwargs)


class GuideSCITransformer(DecoderWrapper):
    """The guide's model on a Llama; logits (B, T, V) and loss as printed, scl_weight * SCL included."""

    config_class = GuideSCIConfig
    resize_token_embeddings = DecoderWrapper.keep_vocabulary

    def _build(self, config: SCIConfig) -> None:
        width = config.base_config.hidden_size
        self.structural_encoder = guide.StructuralEncoder(
            width, config.n_structural_slots, config.n_structural_layers
        )
        self.content_encoder = guide.ContentEncoder(width, config.base_config.vocab_size)
        self.content_encoder.orthogonal_projector = _TokenAxisProjector(width)
        self.causal_binding = guide.CausalBindingMechanism(width, config.n_structural_slots, batch_first=True)
        self.scl_loss = guide.StructuralContrastiveLoss(config.scl_temperature)

    @classmethod
    def from_base(cls, base_model, **settings) -> Self:
        """Wrap a Llama in place; settings as in SCIConfig."""
        model = super().from_base(base_model, **settings)
        return model.to(model.base.dtype)

    @can_return_tuple
    def forward(self, input_ids, attention_mask, labels=None, structure_ids=None, **kwargs) -> SCIOutput:
        """Logits (B, T, V) of the whole input, answer included; labels (B, T), structure_ids (B,)."""
        with torch.no_grad():
            base_embeds = self.base.get_input_embeddings()(input_ids)
        structural_graph, edge_weights = self.structural_encoder(base_embeds, attention_mask)
        content = self.content_encoder(input_ids, structural_graph)
        hidden_states = base_embeds
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        rotary = self.base.model.rotary_emb(hidden_states, positions)
        for i, layer in enumerate(self.base.model.layers):
            hidden_states = layer(hidden_states, position_embeddings=rotary)
            if i in self.config.cbm_layers:
                hidden_states = self.causal_binding(structural_graph, content, hidden_states)
        logits = self.base.lm_head(hidden_states)
        loss = lm_loss = contrastive = None
        if labels is not None:
            loss = lm_loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        if structure_ids is not None:
            pairs = (structure_ids[:, None] == structure_ids) & (structure_ids >= 0)
            contrastive = self.scl_loss(structural_graph, pairs)
            loss = self.config.scl_weight * contrastive + (0 if loss is None else loss)
        return SCIOutput(loss, logits, structural_graph, edge_weights, None, None, lm_loss, contrastive)

    @torch.no_grad()
    def generate(
        self, input_ids, attention_mask, max_new_tokens, pad_token_id, eos_token_id, **kwargs
    ) -> torch.Tensor:
        """Greedy decoding without a cache, ids (B, T + max_new_tokens); prompts of one length at a time.

        Nothing in the guide masks padding for the content, so prompts are never padded here.
        """
        new = input_ids.new_full((len(input_ids), max_new_tokens), pad_token_id)
        lengths = attention_mask.sum(1)
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero()[:, 0]
            ids = input_ids[rows][attention_mask[rows].bool()].view(len(rows), length)
            running = torch.ones(len(rows), dtype=torch.bool, device=ids.device)
            for step in range(max_new_tokens):
                token = self(ids, torch.ones_like(ids)).logits[:, -1].argmax(-1)
                new[rows, step] = torch.where(running, token, pad_token_id)
                running &= token != eos_token_id
                if not running.any():
                    break
                ids = torch.cat([ids, token[:, None]], dim=1)
        return torch.cat([input_ids, new], dim=1)
