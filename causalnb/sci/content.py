"""Component 2: the content encoder and its orthogonal projector."""

import torch
from torch import nn

PROJECTIONS = ("gram", "qr", "sequential")


class OrthogonalProjector(nn.Module):
    """Content (B, T, D) minus its part in the span of the K slots (B, K, D), K < D.

    "gram" solves with S S^T + eps I (safe when slots coincide), "qr" uses an orthonormal basis of K
    directions, which needs independent slots: of others it takes out directions that they do not span, and
    "sequential" is the guide's loop: one slot after the other, so the result is not orthogonal to earlier
    slots. Raises ValueError for an unknown method and for shapes that do not fit.
    """

    def __init__(self, d_model: int, method: str = "gram", eps: float = 1e-6):
        super().__init__()
        if method not in PROJECTIONS:
            raise ValueError(
                f"projection method {method!r} is unknown: choose one of {', '.join(PROJECTIONS)}"
            )
        self.d_model, self.method, self.eps = d_model, method, eps

    def forward(self, content: torch.Tensor, structure: torch.Tensor) -> torch.Tensor:
        """Projected content (B, T, D), which zero slots leave as it is, except by "qr".

        Raises ValueError for shapes that do not fit.
        """
        if content.shape[-1] != self.d_model or structure.shape[-1] != self.d_model:
            raise ValueError(
                f"content of width {content.shape[-1]} and slots of width {structure.shape[-1]} "
                f"do not both have the projector's width {self.d_model}"
            )
        if content.shape[0] != structure.shape[0]:
            raise ValueError(
                f"content has {content.shape[0]} rows and structure {structure.shape[0]}: pass one batch"
            )
        if self.method == "sequential":
            for slot in structure.unbind(1):
                unit = (slot / (slot.norm(dim=-1, keepdim=True) + 1e-8)).unsqueeze(1)  # (B, 1, D)
                content = content - (content * unit).sum(-1, keepdim=True) * unit
            return content
        wide = torch.promote_types(content.dtype, torch.float32)  # there is no solve or qr in half precision
        with torch.autocast(content.device.type, enabled=False):
            projected = self._off_the_span(content.to(wide), structure.to(wide))
        return projected.to(content.dtype)

    def _off_the_span(self, content, structure):
        if self.method == "qr":
            basis = torch.linalg.qr(structure.transpose(1, 2)).Q  # (B, D, K)
            return content - (content @ basis) @ basis.transpose(1, 2)
        gram = structure @ structure.transpose(1, 2)  # (B, K, K)
        scale = gram.diagonal(dim1=1, dim2=2).mean(-1).clamp(min=torch.finfo(gram.dtype).eps)
        ridge = (
            self.eps * scale[:, None, None] * torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
        )
        coefficients = torch.linalg.solve(gram + ridge, structure @ content.transpose(1, 2))  # (B, K, T)
        return content - coefficients.transpose(1, 2) @ structure


class ContentEncoder(nn.Module):
    """C(x) (B, T, D): a two-layer refinement of the base's token embeddings, orthogonal to the slots.

    `ortho="none"` leaves the projection out, so that a word's content is the same in every sentence.
    """

    def __init__(self, d_model: int, ortho: str = "project", method: str = "gram"):
        super().__init__()
        if ortho not in ("project", "none"):
            raise ValueError(f"ortho is {ortho!r}: choose 'project' or 'none'")
        self.ortho = ortho
        self.content_refiner = nn.Sequential(
            nn.Linear(d_model, d_model), nn.LayerNorm(d_model), nn.GELU(), nn.Linear(d_model, d_model)
        )
        self.orthogonal_projector = OrthogonalProjector(d_model, method)

    def forward(
        self, embeddings: torch.Tensor, structural_features: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Content (B, T, D) of embeddings (B, T, D), given slots (B, K, D)."""
        content = self.content_refiner(embeddings)
        if structural_features is not None and self.ortho == "project":
            content = self.orthogonal_projector(content, structural_features)
        return content
