"""The control: a plain decoder that gets SCI's labels and loss, and none of its modules."""

import torch
from transformers import GenerationConfig
from transformers.utils import can_return_tuple

from causalnb.parallel import shared_mean, shared_rows
from causalnb.wrapping import DecoderWrapper, unknown_keywords

from .configuration import SCIConfig
from .contrastive import StructuralContrastiveLoss
from .model import SCIOutput, prompt_before_labels, with_generation_config


class ContrastiveDecoderConfig(SCIConfig):
    """SCIConfig, of which scl_weight and scl_temperature matter."""

    model_type = "sci_contrastive_decoder"

    def __init__(self, base_config=None, **kwargs):
        super().__init__(base_config, **kwargs)


class ContrastiveDecoder(DecoderWrapper):
    """A decoder with lm + scl_weight * contrastive loss on its last state at the prompt's last token."""

    config_class = ContrastiveDecoderConfig
    accepts_loss_kwargs = True

    def _build(self, config: SCIConfig) -> None:
        self.loss_type = "ForCausalLM"  # by which a Trainer counts labels from the second token on
        self.contrastive = StructuralContrastiveLoss(config.scl_temperature)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *arguments, **keywords):
        """As DecoderWrapper.from_pretrained, with the base's generation_config."""
        load = super().from_pretrained
        return with_generation_config(load, pretrained_model_name_or_path, *arguments, **keywords)

    @classmethod
    def can_generate(cls) -> bool:
        """Yes, by the base; so save_pretrained keeps its generation_config."""
        return True

    @property
    def generation_config(self) -> GenerationConfig:
        """The base's, by which it generates."""
        return self.base.generation_config

    @generation_config.setter
    def generation_config(self, value):
        if "base" in self._modules:  # PreTrainedModel sets one before there is a base
            self.base.generation_config = value

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
    ):
        """Logits (B, T, V), .structure (B, 1, D) at the last prompt token; loss as in SCITransformer.

        Padding is no prompt, whatever prompt_mask says of it.

        Raises ValueError for a prompt_mask of another shape and for keywords that the base does not know.
        """
        if unknown_keywords(self, kwargs):
            raise ValueError(unknown_keywords(self, kwargs))
        if kwargs.get("past_key_values") is not None or kwargs.get("output_hidden_states"):
            raise ValueError(
                "forward reads whole texts, and takes no past_key_values and no output_hidden_states: call "
                ".base, or generate"
            )
        if prompt_mask is None and labels is not None:
            prompt_mask = prompt_before_labels(labels, attention_mask)  # unprobed: rows without a mask
        if prompt_mask is not None and prompt_mask.shape != input_ids.shape:
            raise ValueError(
                f"prompt_mask has shape {tuple(prompt_mask.shape)}, but input_ids {tuple(input_ids.shape)}"
            )
        if prompt_mask is not None and attention_mask is not None:
            prompt_mask = prompt_mask * (attention_mask != 0)
        out = self.base(
            input_ids, attention_mask=attention_mask, labels=labels, output_hidden_states=True, **kwargs
        )
        if prompt_mask is not None and not prompt_mask.any(1).all():
            raise ValueError(
                "a row's prompt_mask marks nothing that is seen: mark at least one token of each"
            )
        prompt = prompt_mask if prompt_mask is not None else attention_mask
        prompt = torch.ones_like(input_ids) if prompt is None else prompt
        last = (prompt * torch.arange(input_ids.shape[1], device=input_ids.device)).argmax(1)
        state = out.hidden_states[-1][torch.arange(len(last), device=last.device), last][:, None]  # (B, 1, D)
        lm_loss = loss = None if labels is None else shared_mean(out.loss, labels)
        contrastive = None
        if structure_ids is not None:
            contrastive = self.contrastive.of_ids(*shared_rows(state, structure_ids))
            loss = self.config.scl_weight * contrastive + (0 if loss is None else loss)
        loss = self.part_of_step(loss, labels, num_items_in_batch)
        return SCIOutput(
            loss=loss, logits=out.logits, structure=state, lm_loss=lm_loss, contrastive_loss=contrastive
        )

    def prepare_inputs_for_generation(self, *arguments, **keywords):
        """The base's, which peft asks for."""
        return self.base.prepare_inputs_for_generation(*arguments, **keywords)

    def generate(self, input_ids, **kwargs):
        """The base's generate."""
        return self.base.generate(input_ids=input_ids, **kwargs)


for _name in ("_supports_sdpa", "_supports_flash_attn", "_supports_flex_attn"):
    setattr(ContrastiveDecoder, _name, True)  # as far as the base does
