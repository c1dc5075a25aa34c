"""The approaches the guide sets SCI against, each as the encoder of slots that one decoder reads.

Four replace structure and content by slots of their own, without structure labels: what they lack is the
point of the comparison. The fifth keeps SCI's binding and takes its structures from a fixed list of
constructions. Each is the idea at its smallest, in the width and depth of SCI's own encoder.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers.utils import can_return_tuple

from causalnb.parallel import shared_mean, shared_rows
from causalnb.wrapping import check_finite, unknown_keywords

from .binding import SlotReader
from .configuration import SCIConfig
from .model import HIDDEN, SCIOutput, SCITransformer
from .structure import Attention, StructuralEncoder


class TokenSlots(nn.Module):
    """Slots (B, K, D), each a learned query's reading of tokens (B, T, D) that know their order.

    forward returns slots, edges or None, and the penalty that an approach adds to the loss, or None.
    """

    def __init__(self, d_model: int, n_slots: int, n_heads: int = 4):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(n_slots, d_model))
        self.order_norm, self.order_attention = nn.LayerNorm(d_model), Attention(d_model, n_heads)
        self.cross_attention = Attention(d_model, n_heads)

    def ordered(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Tokens (B, T, D) after self-attention with rotary positions."""
        positions = (mask.long().cumsum(1) - 1).clamp(min=0)
        normed = self.order_norm(tokens)
        return tokens + self.order_attention(normed, normed, mask, positions)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor):
        """Slots (B, K, D) of tokens (B, T, D) where mask (B, T) allows; no edges, no penalty."""
        tokens = self.ordered(tokens, mask)
        return self.cross_attention(self.queries.expand(len(tokens), -1, -1), tokens, mask), None, None


def _kl_from_standard_normal(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    """KL(N(mean, exp(log_variance)) || N(0, 1)) in nats, summed over a row and averaged over rows."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).flatten(1).sum(1).mean()


class InformationBottleneck(TokenSlots):
    """Slots drawn from N(mu(x), sigma(x)); the penalty is their KL divergence from N(0, 1), in nats."""

    def __init__(self, d_model: int, n_slots: int, n_heads: int = 4):
        super().__init__(d_model, n_slots, n_heads)
        self.moments = nn.Linear(d_model, 2 * d_model)

    def forward(self, tokens, mask):
        """Slots (B, K, D), a sample in training and the mean in evaluation; no edges; the penalty."""
        mean, log_variance = self.moments(super().forward(tokens, mask)[0]).chunk(2, dim=-1)
        penalty = _kl_from_standard_normal(mean, log_variance)
        if self.training:
            mean = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        return mean, None, penalty


class SlotAttention(TokenSlots):
    """Slots compete for tokens: softmax over slots, weighted means, a GRU; three times."""

    def __init__(self, d_model: int, n_slots: int, n_heads: int = 4, n_iterations: int = 3):
        super().__init__(d_model, n_slots, n_heads)
        del self.cross_attention
        self.n_iterations = n_iterations
        self.token_norm, self.slot_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value, self.update = nn.Linear(d_model, d_model, bias=False), nn.GRUCell(d_model, d_model)

    def forward(self, tokens, mask):
        """Slots (B, K, D) of tokens (B, T, D) where mask (B, T) allows; no edges, no penalty."""
        tokens = self.token_norm(self.ordered(tokens, mask))
        keys, values = self.key(tokens), self.value(tokens)
        slots = self.queries.expand(len(tokens), -1, -1)
        for _ in range(self.n_iterations):
            scores = self.query(self.slot_norm(slots)) @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5
            share = (scores.softmax(1) + 1e-8) * mask[:, None]  # (B, K, T): slots compete for each token
            read = (share / share.sum(-1, keepdim=True)) @ values
            slots = self.update(read.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        return slots, None, None


class RelationalAttention(TokenSlots):
    """Attention whose values are symbols of the positions: what words mean passes only as their relations."""

    def __init__(self, d_model: int, n_slots: int, n_heads: int = 4, longest: int = 512):
        super().__init__(d_model, n_slots, n_heads)
        self.symbols = nn.Parameter(torch.randn(longest, d_model) / d_model**0.5)

    def ordered(self, tokens, mask):
        """Symbols (B, T, D) mixed by the attention of tokens (B, T, D); ValueError for too long a prompt."""
        positions = (mask.long().cumsum(1) - 1).clamp(min=0)
        if (longest := int(positions.max()) + 1) > len(self.symbols):
            raise ValueError(
                f"a prompt has {longest} tokens and relational attention symbols for {len(self.symbols)}: "
                "shorten it"
            )
        symbols, attention = self.symbols[positions], self.order_attention
        weights = attention.weights(self.order_norm(tokens), self.order_norm(tokens), mask)
        related = weights @ attention.heads(attention.value(symbols))  # (B, H, T, D/H)
        return symbols + attention.output(related.transpose(1, 2).flatten(2))


class CausalVAE(TokenSlots):
    """Factors z = (I - A^T)^-1 e of noise e ~ N(mu(x), sigma(x)); A (K, K) is a DAG, learned."""

    def __init__(self, d_model: int, n_slots: int, n_heads: int = 4):
        super().__init__(d_model, n_slots, n_heads)
        self.moments = nn.Linear(d_model, 2 * d_model)
        self.effects = nn.Parameter(torch.zeros(n_slots, n_slots))

    def forward(self, tokens, mask):
        """Factors (B, K, D), of a sample in training and of the mean in evaluation, edges A and penalty."""
        mean, log_variance = self.moments(super().forward(tokens, mask)[0]).chunk(2, dim=-1)
        penalty = _kl_from_standard_normal(mean, log_variance)
        if self.training:
            mean = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        edges, noise = self.effects.triu(1), mean.transpose(0, 1)  # (K, K), (K, B, D)
        unmixed = torch.eye(len(edges), dtype=edges.dtype, device=edges.device) - edges.T
        wide = torch.promote_types(noise.dtype, torch.float32)  # there is no solve in half precision
        with torch.autocast(noise.device.type, enabled=False):
            factors = torch.linalg.solve_triangular(
                unmixed.to(wide), noise.flatten(1).to(wide), upper=False, unitriangular=True
            )
        return factors.view_as(noise).transpose(0, 1).to(mean.dtype), edges.expand(len(mean), -1, -1), penalty


class StructureOnly(StructuralEncoder):
    """SCI's own structural encoder, read by itself: SCI without content and its binding."""

    def __init__(self, d_model: int, n_slots: int, n_heads: int = 4):
        super().__init__(d_model, n_slots, n_heads=n_heads)

    def forward(self, tokens, mask):
        """Slots (B, K, D) and edges (B, K, K) of tokens (B, T, D) where mask (B, T) allows; no penalty."""
        return *super().forward(tokens, mask), None


APPROACHES = {
    "information_bottleneck": InformationBottleneck,
    "slot_attention": SlotAttention,
    "relational_attention": RelationalAttention,
    "causal_vae": CausalVAE,
    "structure_only": StructureOnly,
}


class RawContent(nn.Module):
    """SCI without its content encoder: content is the embeddings themselves."""

    def forward(self, embeddings, structural_features=None):
        """The embeddings (B, T, D) as they are."""
        return embeddings


class LeakingSCIConfig(SCIConfig):
    """SCIConfig under another name, so that no checkpoint is taken for SCI's."""

    model_type = "sci_leaking"

    def __init__(self, base_config=None, **kwargs):
        super().__init__(base_config, **kwargs)


class LeakingSCI(SCITransformer):
    """SCI without the leak control, as in the guide: the encoders see the answer that training gives away."""

    config_class = LeakingSCIConfig

    def forward(
        self, input_ids, attention_mask=None, prompt_mask=None, labels=None, structure_ids=None, **kwargs
    ):
        """As SCITransformer.forward, the prompt_mask ignored."""
        seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return super().forward(input_ids, attention_mask, seen, labels, structure_ids, **kwargs)


class SlotDecoderConfig(SCIConfig):
    """SCIConfig with an approach out of APPROACHES and the penalty_weight >= 0 of its own loss."""

    model_type = "sci_contrast"

    def __init__(
        self, base_config=None, approach: str = "slot_attention", penalty_weight: float = 1e-3, **kwargs
    ):
        if not isinstance(approach, str) or approach not in APPROACHES:
            raise ValueError(f"approach {approach!r} is unknown: choose one of {', '.join(APPROACHES)}")
        check_finite(penalty_weight=penalty_weight)
        self.approach, self.penalty_weight = approach, penalty_weight
        super().__init__(base_config, **kwargs)


class SlotDecoder(SCITransformer):
    """SCI's decoder reading the slots of another approach, unbound; loss = lm + penalty_weight * penalty.

    structure_ids add SCI's contrastive loss where scl_weight is not 0.
    """

    config_class = SlotDecoderConfig

    def _build(self, config: SlotDecoderConfig) -> None:
        hidden, width = config.base_config.hidden_size, config.d_structure
        self.down_proj = nn.Linear(hidden, width, bias=False)
        self.down_norm = nn.LayerNorm(width)
        heads = config.n_structural_heads
        self.structural_encoder = APPROACHES[config.approach](width, config.n_structural_slots, heads)
        self.causal_binding = SlotReader(width, hidden, len(config.cbm_layers), heads)

    def slots(self, input_ids, prompt_mask):
        """The approach's slots (B, K, d_s), edges and penalty, of the prompt's columns."""
        columns = self.prompt_columns(prompt_mask)
        tokens = self.down_norm(self.down_proj(self.get_input_embeddings()(input_ids[:, columns])))
        return self.structural_encoder(tokens, prompt_mask[:, columns].bool())

    @can_return_tuple
    def forward(
        self,
        input_ids,
        attention_mask=None,
        prompt_mask=None,
        labels=None,
        structure_ids=None,
        num_items_in_batch=None,
        **kwargs,
    ) -> SCIOutput:
        """As SCITransformer.forward, without do, which it refuses."""
        if kwargs.get("past_key_values") is not None:
            raise ValueError(
                "forward reads the whole prompt and takes no past_key_values: call generate to use the cache"
            )
        if unknown_keywords(self, kwargs):
            raise ValueError(unknown_keywords(self, kwargs))
        if self._answers_hidden(labels, prompt_mask, structure_ids):
            raise ValueError(HIDDEN)
        prompt_mask = self._checked_mask(input_ids, attention_mask, prompt_mask, labels)
        slots, edges, penalty = self.slots(input_ids, prompt_mask)
        with self.binding(self.causal_binding.fold(slots)):
            out = self.base(input_ids=input_ids, attention_mask=attention_mask, labels=labels, **kwargs)
        lm_loss = loss = None if labels is None else shared_mean(out.loss, labels)
        if loss is not None and penalty is not None:
            loss = loss + self.config.penalty_weight * penalty
        contrastive = None
        if structure_ids is not None and self.config.scl_weight:
            contrastive = self.contrastive.of_ids(*shared_rows(slots, structure_ids))
            loss = self.config.scl_weight * contrastive + (0 if loss is None else loss)
        loss = self.part_of_step(loss, labels, num_items_in_batch)
        return SCIOutput(
            loss, out.logits, slots, edges, slots, out.get("hidden_states"), lm_loss, contrastive
        )

    @torch.no_grad()
    def generate(self, input_ids, attention_mask=None, **kwargs):
        """The base's generate, the slots read once from the whole input, which is the prompt; ids (B, T)."""
        attention_mask = self._attended(input_ids, attention_mask, kwargs)
        prompt_mask = self._checked_mask(input_ids, attention_mask, None, None)
        with self.binding(self.causal_binding.fold(self.slots(input_ids, prompt_mask)[0])):
            return self.base.generate(input_ids=input_ids, attention_mask=attention_mask, **kwargs)


class ConstructionConfig(SCIConfig):
    """SCIConfig with word_classes (V,), a class for each token, and the constructions, lists of classes."""

    model_type = "sci_constructions"

    def __init__(self, base_config=None, word_classes=(0,), constructions=((0,),), **kwargs):
        self.word_classes = list(word_classes)
        self.constructions = [list(construction) for construction in constructions]
        super().__init__(base_config, **kwargs)


class ConstructionTransformer(SCITransformer):
    """SCI with predefined constructions: a prompt's slots are looked up by its sequence of word classes.

    Prompts of no known construction share one more entry of the table.
    """

    config_class = ConstructionConfig

    def _build(self, config: ConstructionConfig) -> None:
        if len(config.word_classes) < config.base_config.vocab_size:
            raise ValueError(
                f"word_classes has {len(config.word_classes)} classes for {config.base_config.vocab_size} "
                "tokens: give each token of the base a class"
            )
        super()._build(config)
        self.structural_encoder = nn.Embedding(
            len(config.constructions) + 1, config.n_structural_slots * config.d_structure
        )
        # a buffer would be lost on the meta device, where checkpoints are loaded: the table is in the config
        known = {tuple(classes): number for number, classes in enumerate(config.constructions)}
        self._known, self._classes = known, config.word_classes

    resize_token_embeddings = SCITransformer.keep_vocabulary

    def construction_of(self, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The number of each prompt's construction (B,), of ids (B, P) under mask (B, P)."""
        unknown = len(self._known)
        numbers = [
            self._known.get(
                tuple(self._classes[token] for token, kept in zip(row, keep, strict=False) if kept), unknown
            )
            for row, keep in zip(input_ids.tolist(), mask.tolist(), strict=False)
        ]
        return torch.tensor(numbers, device=input_ids.device)

    def _structure(self, input_ids, tokens, mask):
        slots = self.structural_encoder(self.construction_of(input_ids, mask))
        slots = F.layer_norm(slots.unflatten(-1, (self.config.n_structural_slots, -1)), tokens.shape[-1:])
        ones = slots.new_ones(len(slots), *[slots.shape[1]] * 2)
        return slots, ones.triu(1)  # each slot informs those after it
