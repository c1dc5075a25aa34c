"""The SCI guide's pseudocode as printed, completed only where it names something it does not define.

The reference the course demonstrates each finding on and the tests compare the package with: slow, literal,
and wrong where the guide is wrong. Every class keeps the guide's name and signature.
"""

import torch
import torch.nn.functional as F
from torch import nn


class AbstractionLayer(nn.Module):
    """The guide's feature mask: x * scores + g * x, x (B, N, D)."""

    def __init__(self, d_model):
        super().__init__()
        self.structural_detector = nn.Sequential(
            nn.Linear(d_model, d_model * 2), nn.GELU(), nn.Linear(d_model * 2, d_model), nn.Sigmoid()
        )
        self.residual_gate = nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        """x * scores(x) + gate * x, for x (B, N, D)."""
        structural_scores = self.structural_detector(x)  # (B, N, D)
        return x * structural_scores + self.residual_gate * x


class EdgePredictor(nn.Module):
    """Completed: a sigmoid of a bilinear form, so every slot points at every slot, itself included."""

    def __init__(self, d_model):
        super().__init__()
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, slots):
        """Edge weights (B, K, K) of slots (B, K, D)."""
        scores = self.query(slots) @ self.key(slots).transpose(1, 2)
        return torch.sigmoid(scores / slots.shape[-1] ** 0.5)  # (B, K, K)


class StructuralGNN(nn.Module):
    """Completed: n_layers of h <- LayerNorm(h + GELU(E^T h W))."""

    def __init__(self, d_model, n_layers):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))

    def forward(self, slots, edge_weights):
        """New slots (B, K, D) from slots (B, K, D) and edge weights (B, K, K)."""
        for linear, norm in zip(self.linears, self.norms):  # noqa: B905  (as printed)
            slots = norm(slots + F.gelu(linear(edge_weights.transpose(1, 2) @ slots)))
        return slots


class StructuralEncoder(nn.Module):
    """The guide's encoder: queries attend to token embeddings that carry no position."""

    def __init__(self, d_model, n_slots, n_layers):
        super().__init__()
        self.structure_queries = nn.Parameter(torch.randn(n_slots, d_model))
        self.structural_gnn = StructuralGNN(d_model, n_layers)
        self.abstraction_layer = AbstractionLayer(d_model)
        self.edge_predictor = EdgePredictor(d_model)
        self.cross_attention = nn.MultiheadAttention(d_model, 4, batch_first=True)  # completed

    def forward(self, hidden_states, attention_mask):
        """Slots and edges from hidden states (B, N, D) and their mask (B, N)."""
        abstracted = self.abstraction_layer(hidden_states)  # (B, N, D)
        queries = self.structure_queries.expand(len(hidden_states), -1, -1)  # (B, K, D)
        slot_values, _ = self.cross_attention(
            queries, abstracted, abstracted, key_padding_mask=~attention_mask.bool()
        )
        edge_weights = self.edge_predictor(slot_values)  # (B, K, K)
        return self.structural_gnn(slot_values, edge_weights), edge_weights


class OrthogonalProjector(nn.Module):
    """The guide's projector, slot by slot; s (B, D) meets content (B, N, D) without its token axis."""

    def __init__(self, d_model):
        super().__init__()
        self.d_model = d_model

    def forward(self, content, structure):
        """Content (B, N, D) less its part along each slot of structure (B, K, D)."""
        for s in structure.unbind(1):
            s_norm = s / (s.norm(dim=-1, keepdim=True) + 1e-8)
            content = content - (content * s_norm).sum(dim=-1, keepdim=True) * s_norm
        return content


class ContentEncoder(nn.Module):
    """The guide's content encoder, with a second embedding table of its own."""

    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.content_embedding = nn.Embedding(vocab_size, d_model)
        self.content_refiner = nn.Sequential(
            nn.Linear(d_model, d_model), nn.LayerNorm(d_model), nn.GELU(), nn.Linear(d_model, d_model)
        )
        self.orthogonal_projector = OrthogonalProjector(d_model)

    def forward(self, input_ids, structural_features=None):
        """Content (B, N, D) of input_ids (B, N), orthogonal to structural features (B, K, D) if given."""
        content = self.content_refiner(self.content_embedding(input_ids))
        if structural_features is not None:
            content = self.orthogonal_projector(content, structural_features)
        return content


class CausalInterventionLayer(nn.Module):
    """The guide's "do-operator": K (K - 1) calls of the message network, n_iterations times."""

    def __init__(self, d_model, n_iterations=3):
        super().__init__()
        self.n_iterations = n_iterations
        self.message_fn = nn.Sequential(
            nn.Linear(d_model * 2, d_model), nn.GELU(), nn.Linear(d_model, d_model)
        )
        self.update_fn = nn.GRUCell(d_model, d_model)

    def forward(self, slot_values, edge_weights):
        """Slots (B, K, D) after the messages along edge weights (B, K, K)."""
        B, K, D = slot_values.shape
        h = slot_values
        for _ in range(self.n_iterations):
            messages = [torch.zeros_like(h[:, 0]) for _ in range(K)]
            for i in range(K):
                for j in range(K):
                    if i != j:
                        message = self.message_fn(torch.cat([h[:, i], h[:, j]], dim=-1))
                        messages[i] = messages[i] + edge_weights[:, j, i].unsqueeze(-1) * message
            messages = torch.stack(messages, dim=1)
            h = self.update_fn(messages.reshape(B * K, D), h.reshape(B * K, D)).view(B, K, D)
        return h


class CausalBindingMechanism(nn.Module):
    """The guide's binding: attention that takes batch for sequence, and an output without a residual."""

    def __init__(self, d_model, n_slots, batch_first=False):
        super().__init__()
        self.n_slots = n_slots
        self.binding_attention = nn.MultiheadAttention(d_model, num_heads=8, batch_first=batch_first)
        self.edge_predictor = EdgePredictor(d_model)  # completed: compute_edges
        self.intervention_layer = CausalInterventionLayer(d_model)
        self.output_proj = nn.Linear(d_model * 2, d_model)

    def forward(self, structural_graph, content, hidden_states):
        """Features (B, N, D) of a graph (B, K, D), content (B, N, D) and hidden states (B, N, D)."""
        bound, _ = self.binding_attention(structural_graph, content, content)  # (B, K, D)
        intervened = self.intervention_layer(bound, self.edge_predictor(structural_graph))
        reads = (hidden_states @ intervened.transpose(1, 2) / hidden_states.shape[-1] ** 0.5).softmax(-1)
        contributions = reads @ intervened  # completed: broadcast_to_tokens
        return self.output_proj(torch.cat([hidden_states, contributions], dim=-1))


class StructuralContrastiveLoss(nn.Module):
    """The guide's loss: a loop over anchors, divided by the batch however few anchors have a positive."""

    def __init__(self, temperature=0.07):
        super().__init__()
        self.temperature = temperature

    def forward(self, structural_reps, pair_labels):
        """The loss, a scalar, of slots (B, K, D) and pair labels (B, B)."""
        B = structural_reps.shape[0]
        z = F.normalize(structural_reps.mean(dim=1), dim=-1)
        similarity = z @ z.T / self.temperature
        mask = torch.eye(B, device=z.device).bool()
        pos_mask = pair_labels.bool() & ~mask
        neg_mask = ~pair_labels.bool() & ~mask
        loss = 0
        for i in range(B):
            if pos_mask[i].any():
                pos_sim, neg_sim = similarity[i, pos_mask[i]], similarity[i, neg_mask[i]]
                loss = loss - pos_sim.mean() + torch.logsumexp(torch.cat([pos_sim, neg_sim]), dim=0)
        return loss / B


def generate_structural_pairs(batch, grammar):
    """The guide's pair labels (B, B): two parses for each of B (B - 1) ordered pairs."""
    pair_labels = torch.zeros(len(batch), len(batch))
    for i, first in enumerate(batch):
        for j, second in enumerate(batch):
            if i != j:
                pair_labels[i, j] = grammar.extract_structure(first) == grammar.extract_structure(second)
    return pair_labels
