"""The control of held attention: maps as spread out as its own, and nothing asked of renamed words."""

from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.utils import can_return_tuple

from causalnb.wrapping import is_number

from .contrasts import row_entropy
from .invariance import InvariantConfig, InvariantForSequenceClassification
from .model import CausalTransformerOutput


class SpreadConfig(InvariantConfig):
    """Settings of an invariant Transformer, entropy_target >= 0 in nats and entropy_weight >= 0.

    Raises ValueError as InvariantConfig, for a negative one of the two, and for a causal_weight above 0, so
    that one penalty is measured.
    """

    model_type = "causal_transformer_spread"

    def __init__(self, entropy_target: float = 0.0, entropy_weight: float = 1.0, **kwargs):
        for name, value in (("entropy_target", entropy_target), ("entropy_weight", entropy_weight)):
            if not is_number(value) or not value >= 0:
                raise ValueError(f"{name} is {value!r}: choose 0 or more")
        self.entropy_target, self.entropy_weight = entropy_target, entropy_weight
        super().__init__(**kwargs)
        if self.causal_weight != 0:
            raise ValueError(
                f"causal_weight is {self.causal_weight} beside a penalty on entropy: choose 0, "
                "so that one of them is measured"
            )


class SpreadForSequenceClassification(InvariantForSequenceClassification):
    """An invariant Transformer with entropy_weight times |H - entropy_target| in place of attention_shift.

    H is the mean entropy of the rows of the maps that the answer is read from.
    """

    config_class = SpreadConfig

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
        """As InvariantForSequenceClassification; in training causal_loss is |H - entropy_target|."""
        held = self.training and labels is not None and self.config.entropy_weight > 0
        out = super().forward(
            input_ids,
            attention_mask,
            token_type_ids,
            labels,
            output_attentions or held,
            **kwargs | dict(return_dict=True),
        )
        if held:
            off = (row_entropy(out.encoder_attentions, attention_mask) - self.config.entropy_target).abs()
            out.loss, out.causal_loss = out.loss + self.config.entropy_weight * off, off.detach()
        if not output_attentions:
            out.encoder_attentions = None
        return out


AutoConfig.register(SpreadConfig.model_type, SpreadConfig)
AutoModelForSequenceClassification.register(SpreadConfig, SpreadForSequenceClassification)
