"""What the Causal Transformer is compared with on sentence pairs: older models, and entropy held alone."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.utils import can_return_tuple

from causalnb.checkpoints import whole
from causalnb.wrapping import check_counts, is_number

from .configuration import CausalTransformerConfig
from .layers import check_tokens, refuse, unknown
from .model import CausalTransformerForSequenceClassification, CausalTransformerOutput, no_classes, wide

KINDS = ("constant", "bow", "bilstm")


class ContrastConfig(PreTrainedConfig):
    """Settings of a contrast: its kind among KINDS, width d_model (even), dropout in [0, 1), num_labels.

    Raises ValueError for another kind, an odd width, and a dropout outside.
    """

    model_type = "causal_transformer_contrast"

    def __init__(
        self,
        kind: str = "bow",
        vocab_size: int = 32_000,
        d_model: int = 512,
        dropout: float = 0.1,
        pad_token_id: int = 0,
        **kwargs,
    ):
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}: choose among {', '.join(map(repr, KINDS))}")
        if not is_number(d_model) or d_model < 2 or d_model % 2:
            raise ValueError(f"d_model is {d_model!r}: choose an even width, one half for each direction")
        if not is_number(dropout) or not 0 <= dropout < 1:
            raise ValueError(f"dropout is {dropout!r}: choose it in [0, 1)")
        check_counts(1, vocab_size=vocab_size, d_model=d_model)
        self.kind, self.vocab_size, self.d_model, self.dropout = kind, vocab_size, d_model, dropout
        super().__init__(pad_token_id=pad_token_id, **kwargs)


class ContrastForSequenceClassification(PreTrainedModel):
    """A label for a pair of sentences, from what each of them is summed up to.

    "bow" is the mean of a sentence's token vectors, which knows no order; "bilstm" the maximum over its
    tokens of the states of a bidirectional LSTM that reads both sentences; "constant" reads nothing and
    learns how frequent the labels are. Two sums u and v are compared as [u, v, |u - v|, u v].
    """

    config_class = ContrastConfig
    base_model_prefix = "contrast"
    accepts_loss_kwargs = False

    def __init__(self, config: ContrastConfig):
        super().__init__(config)
        width, self.kind = config.d_model, config.kind
        if self.kind == "constant":
            self.logits = nn.Parameter(torch.zeros(config.num_labels))
        else:
            self.embed_tokens = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
            self.dropout = nn.Dropout(config.dropout)
            self.hidden = nn.Linear(4 * width, width)
            self.classifier = nn.Linear(width, config.num_labels)
        if self.kind == "bilstm":
            self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.post_init()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *arguments, **keywords):
        """As in transformers; ValueError as `checkpoints.whole`."""
        return whole(super().from_pretrained, pretrained_model_name_or_path, *arguments, **keywords)

    def _init_weights(self, module: nn.Module):
        """Weights stay as torch draws them."""

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor,
        labels: Tensor | None = None,
        **kwargs,
    ) -> CausalTransformerOutput:
        """Logits (B, num_labels); with labels (B,) the cross-entropy.

        input_ids, attention_mask (1 = a token, padding on the right) and token_type_ids (0 and 1, the two
        sentences) are (B, T), and all have to be given; "constant" looks at none, and takes None for the last
        two. Raises ValueError for an empty batch, where the others get None for a mask or types or a pair
        lacks one of its sentences, for a token after padding if an LSTM reads, and for what is in
        layers.ABSENT.
        """
        refuse(kwargs)
        if unknown(kwargs):
            raise ValueError(unknown(kwargs))
        check_tokens(input_ids, "input_ids")
        if self.kind != "constant" and (attention_mask is None or token_type_ids is None):
            raise ValueError(
                "attention_mask or token_type_ids are missing: give 1 for a token and 0 for "
                "padding, and 0 for the first sentence and 1 for the second"
            )
        if self.kind == "bilstm" and (attention_mask.bool().int().diff(dim=1) > 0).any():
            raise ValueError(
                "attention_mask has a token after padding, which an LSTM would misread: pad on the right"
            )
        if self.kind == "bilstm" and not attention_mask.bool().any(1).all():
            raise ValueError("attention_mask hides every token of a pair: leave each sentence at least one")
        if self.kind == "constant":
            logits = self.logits.expand(len(input_ids), -1)
        else:
            logits = self.classifier(
                self.dropout(
                    F.gelu(
                        self.hidden(
                            self.dropout(self._compared(input_ids, attention_mask.bool(), token_type_ids))
                        )
                    )
                )
            )
        if no_classes(labels, self.config):
            raise ValueError(no_classes(labels, self.config))
        loss = None if labels is None else F.cross_entropy(wide(logits), labels)
        return CausalTransformerOutput(
            loss=loss, logits=logits, task_loss=None if loss is None else loss.detach()
        )

    def _compared(self, input_ids, mask, types) -> Tensor:
        states = self.dropout(self.embed_tokens(input_ids))
        if self.kind == "bilstm":
            packed = pack_padded_sequence(states, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=input_ids.shape[1]
            )
        u, v = (self._summed(states, mask & (types == kind)) for kind in (0, 1))
        return torch.cat([u, v, (u - v).abs(), u * v], -1)  # (B, 4 D)

    def _summed(self, states, there) -> Tensor:
        """States (B, T, D) to (B, D), over the tokens that are `there` (B, T)."""
        if not there.any(1).all():
            raise ValueError(
                "a pair has tokens of one type alone: give token_type_ids of 0 and 1, for the "
                "first sentence and the second"
            )
        there = there[..., None]
        if self.kind == "bilstm":
            return states.masked_fill(~there, -torch.inf).amax(1)
        return (states * there).sum(1) / there.sum(1)


class EntropyPenaltyConfig(CausalTransformerConfig):
    """Settings of a Causal Transformer, and entropy_target >= 0 in nats; ValueError for a negative one."""

    model_type = "causal_transformer_entropy"

    def __init__(self, entropy_target: float = 0.0, **kwargs):
        if not is_number(entropy_target) or not entropy_target >= 0:
            raise ValueError(f"entropy_target is {entropy_target!r}: choose 0 nats or more")
        self.entropy_target = entropy_target
        super().__init__(**kwargs)


class EntropyPenaltyForSequenceClassification(CausalTransformerForSequenceClassification):
    """The control of the Markov-blanket loss: causal_weight times |H - entropy_target|.

    H is the mean entropy of attention's rows, so that they are as spread out as with the loss, or at 0 as
    sparse as can be, without a graph. Raises ValueError in training if its configuration has a blanket too.
    """

    config_class = EntropyPenaltyConfig

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool = False,
        **kwargs,
    ) -> CausalTransformerOutput:
        """As CausalTransformerForSequenceClassification; causal_loss is |H - entropy_target|."""
        if labels is not None and self.config.blanket != "none":
            raise ValueError(
                f"blanket is {self.config.blanket!r} beside a penalty on entropy: choose "
                "blanket='none', so that one of them is measured"
            )
        weight = 0.0 if labels is None else self.causal_weight()
        out = super().forward(
            input_ids,
            attention_mask,
            token_type_ids,
            labels,
            output_attentions or weight > 0,
            **kwargs | dict(return_dict=True),
        )
        if weight > 0:
            off = (row_entropy(out.encoder_attentions, attention_mask) - self.config.entropy_target).abs()
            out.loss, out.causal_loss = out.loss + weight * off, off.detach()
        if not output_attentions:
            out.encoder_attentions = None
        return out


def row_entropy(maps: tuple[Tensor, ...], valid: Tensor | None = None) -> Tensor:
    """Mean entropy in nats of the rows of maps (B, H, T, T), over layers, heads and valid (B, T) tokens.

    Its gradient is finite where a weight is 0. Raises ValueError for no maps.
    """
    if not len(maps):
        raise ValueError("there are no maps: ask a model with output_attentions=True")
    attention = torch.stack(maps)  # (L, B, H, T, T)
    smallest = torch.finfo(attention.dtype).tiny
    rows = -(attention * attention.clamp(min=smallest).log()).sum(-1)
    if valid is None:
        return rows.mean()
    there = valid[:, None].to(rows.dtype).expand_as(rows)
    return (rows * there).sum() / there.sum()


for _config, _model in (
    (ContrastConfig, ContrastForSequenceClassification),
    (EntropyPenaltyConfig, EntropyPenaltyForSequenceClassification),
):
    AutoConfig.register(_config.model_type, _config)
    AutoModelForSequenceClassification.register(_config, _model)
