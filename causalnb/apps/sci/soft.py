"""SCI with soft labels: how alike structures are, from 0 to 1, in the place of whether they are equal."""

import torch

from causalnb.sci import SCITransformer
from causalnb.tasks.structures import similarities


class SoftSCI(SCITransformer):
    """SCI whose contrastive loss is told how alike the structures of rows are, not whether they are equal."""

    known: dict[tuple[int, ...], int] | None = None  # prompt -> number of its structure
    alike = None  # of structures, (S, S) in [0, 1]

    def tell(self, rows: list[dict]) -> None:
        """Know the structures of these rows, by their prompts, and how alike they are."""
        names = sorted({row["structure"] for row in rows})
        self.known = {
            _prompt(row["input_ids"], row["prompt_mask"]): names.index(row["structure"]) for row in rows
        }
        self.alike = torch.tensor(similarities(names))

    def forward(
        self, input_ids, attention_mask=None, prompt_mask=None, labels=None, structure_ids=None, **kwargs
    ):
        """As SCITransformer's; rows whose structure_ids (B,) are not negative take part in the loss.

        ValueError with structure_ids before `tell`.
        """
        out = super().forward(input_ids, attention_mask, prompt_mask, labels, **kwargs)
        if structure_ids is not None:
            if self.known is None:
                raise ValueError("the model knows no structures yet: call tell(rows) before it is trained")
            named = (structure_ids >= 0).nonzero()[:, 0]
            prompts = zip(input_ids[named].tolist(), prompt_mask[named].tolist(), strict=True)
            numbers = torch.tensor([self.known[_prompt(*one)] for one in prompts])
            pairs = self.alike[numbers][:, numbers].to(out.structure)
            out.contrastive_loss = self.contrastive(out.structure[named], pairs)
            soft = self.config.scl_weight * out.contrastive_loss
            out.loss = out.loss + self.part_of_step(soft, labels, kwargs.get("num_items_in_batch"))
        return out


def _prompt(ids: list[int], mask: list[int]) -> tuple[int, ...]:
    return tuple(token for token, asked in zip(ids, mask, strict=True) if asked)
