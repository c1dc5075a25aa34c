"""The feature updater of Equation 4 on any Hugging Face model, behind gates that are closed at first.

gate_values(model)  # the model says what it said before
Trainer(model, arguments, train_dataset=rows).train()  # its parameters have gates and convolutions among them
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from causalnb.attention import Record, _namespace, tap
from causalnb.wrapping import check_finite

from .values import GCNValueUpdate

BEHIND = ("sdpa", "eager")  # implementations that may stand behind the gates
NAME = "value_update"  # of the module in an attention layer


class GatedValueUpdate(GCNValueUpdate):
    """A V + r g sigma(A sigma(V) W1): what a layer attends to, and Equation 4 of its values behind gates g.

    V is (B, G, S, d), of as many heads as queries or fewer; W1 is (G, d, d), g (H,) and 0 at first. Adam
    moves g by at most its rate a step: reach r makes that far enough at the rate of a whole model. mode
    "two_hop" is A V + r g sigma(A sigma(A V) W1). Raises ValueError as GCNValueUpdate, for
    "two_hop" with fewer heads of values than of queries, and for a reach that is not finite.
    """

    def __init__(
        self,
        heads: int,
        groups: int,
        width: int,
        mode: str = "paper",
        activation: str = "gelu",
        reach: float = 1.0,
    ):
        super().__init__(groups, width, mode, activation)
        check_finite(reach=reach)
        if mode == "none":
            raise ValueError(
                "mode 'none' adds nothing: choose 'paper' or 'two_hop', or leave the model as it is"
            )
        if mode == "two_hop" and groups != heads:
            raise ValueError(
                f"two_hop needs values of all {heads} heads, and there are {groups}: choose 'paper'"
            )
        self.reach = reach
        self.gate = nn.Parameter(torch.zeros(heads))

    def extra_repr(self) -> str:
        """What print(model) shows of the settings."""
        return f"{super().extra_repr()}, reach={self.reach:g}"

    def forward(self, attend: Callable[[Tensor], tuple], value: Tensor) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]
        """(features (B, T, H, d), what else `attend` returns); it takes values and gives A V (B, T, H, .)."""
        weight = self.weight.to(value.dtype)
        if self.mode == "two_hop":
            plain, maps = attend(value)
            if plain.shape[1] != value.shape[2]:
                raise ValueError(
                    "two_hop needs what every token before attended to, which a cache does not keep: pass "
                    "whole sentences, with use_cache=False"
                )
            gathered = attend(self.sigma(plain).transpose(1, 2) @ weight)[0]
        else:  # one look for both: A [V, sigma(V) W1]
            both, maps = attend(torch.cat((value, self.sigma(value) @ weight), -1))
            plain, gathered = both.split(value.shape[-1], -1)
        gate = (self.reach * self.gate).to(plain.dtype)
        return plain + gate[:, None] * self.sigma(gathered), maps


def gate_values(
    model: PreTrainedModel, mode: str = "paper", activation: str = "gelu", reach: float = 1.0
) -> list[GatedValueUpdate]:
    """Put a GatedValueUpdate into each self-attention layer of a model, for good, and return them.

    They belong to the model: its parameters, state_dict and copies have them. To load such weights, gate the
    same base and use load_state_dict. Layers that a cache serves are right under "paper". Add LoRA before, or
    peft freezes them. Raises ValueError as the tap and GatedValueUpdate do, for a model that has them, and
    under implementations of attention other than sdpa and eager.
    """
    before = model.config._attn_implementation
    if before not in BEHIND:
        raise ValueError(
            f"the model's attention is {before!r}, behind which no gates can stand: load it with "
            "attn_implementation='sdpa'."
        )
    updates = {}
    for record in _layers(model):
        if record.module not in updates:
            heads, groups, width = record.query.shape[1], *record.value.shape[1::2]
            update = GatedValueUpdate(heads, groups, width, mode, activation, reach)
            updates[record.module] = update.to(record.value.device, record.value.dtype)
    for module, update in updates.items():
        module.add_module(NAME, update)
    model.set_attn_implementation(f"gated_{before}")
    return [*updates.values()]


def _layers(model: PreTrainedModel) -> list[Record]:
    """A record of each self-attention layer, of a pass over two tokens."""
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    given = {"input_ids": ids} | ({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {})
    trains = model.training
    try:
        with torch.no_grad(), tap(model.eval()) as records:
            model(**given)
    finally:
        model.train(trains)
    return records


def _gated(behind: str) -> Callable:
    """The attention function that passes a layer's values through its update, where it has one."""

    def attention(module, query, key, value, attention_mask, **options):
        space = _namespace(module)
        function = space["ALL_ATTENTION_FUNCTIONS"].get_interface(behind, space["eager_attention_forward"])

        def attend(value: Tensor) -> tuple:
            return function(module, query, key, value, attention_mask, **options)

        update = getattr(module, NAME, None)
        return attend(value) if update is None else update(attend, value)

    attention.root = behind  # type: ignore[attr-defined]  # for the tap
    return attention


for _behind in BEHIND:
    AttentionInterface.register(f"gated_{_behind}", _gated(_behind))
    if _behind in ALL_MASK_ATTENTION_FUNCTIONS:
        AttentionMaskInterface.register(f"gated_{_behind}", ALL_MASK_ATTENTION_FUNCTIONS[_behind])
