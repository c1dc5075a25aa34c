"""The Causal Transformer as Hugging Face models: an encoder that classifies, and an encoder-decoder."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin, PreTrainedModel, initialization
from transformers.utils import ModelOutput, can_return_tuple

from causalnb.cards import plain, unfit, upload_card, write_card
from causalnb.checkpoints import whole
from causalnb.parallel import part_of_step, shared_average

from .configuration import CausalTransformerConfig
from .fused import Visible
from .layers import Stack, StackOutput, check_tokens, refuse, unknown
from .loss import MarkovBlanketLoss
from .measure import checked_valid
from .values import GCNValueUpdate

IGNORED = -100  # the label of a token that the loss leaves out


def wide(logits: Tensor) -> Tensor:
    """logits in float32 at least."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


@dataclass
class CausalTransformerOutput(ModelOutput):
    """loss = task_loss + weight * causal_loss (Equation 6); violated, the share of nodes outside the bounds.

    The latter is of the softmax map, which the model reads by, under normalise="sinkhorn" as well. logits
    (B, C) of classes or (B, T, V) of tokens; causal_loss is the mean over measured layers.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    task_loss: Tensor | None = None
    causal_loss: Tensor | None = None
    violated: Tensor | None = None
    past_key_values: EncoderDecoderCache | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None
    decoder_attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None


class CausalTransformerPreTrainedModel(PreTrainedModel):
    """What both models share: initial weights, the losses of their layers, and the weight of Equation 6.

    The buffer `passes` counts forward passes in training, for causal_ramp.
    """

    config_class = CausalTransformerConfig
    base_model_prefix = "transformer"
    supports_gradient_checkpointing = True
    _supports_sdpa = True  # attention is scaled_dot_product_attention where no map is asked for
    accepts_loss_kwargs = False  # a mean over items, which the Trainer divides by its accumulated batches

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *arguments, **keywords):
        """As in transformers; ValueError as `checkpoints.whole`.

        Multipliers and classes of words, which a plain transformer's checkpoint lacks, start anew.
        """
        passing = r"^(losses\..*multipliers|classes)$"
        load = super().from_pretrained
        return whole(load, pretrained_model_name_or_path, *arguments, passing=passing, **keywords)

    @property
    def card(self) -> Mapping | None:
        """What its model card is told: data, task, metrics and command, as `cards.card`."""
        return vars(self).get("_card")

    @card.setter
    def card(self, told: Mapping | None):
        self._card = plain(told)

    def save_pretrained(self, save_directory, *arguments, **keywords):
        """As in transformers, with a model card, for which .card says what the model cannot know.

        Raises ValueError for a .card that `cards.card` refuses.
        """
        if unfit(self.card):
            raise ValueError(unfit(self.card))
        super().save_pretrained(save_directory, *arguments, **keywords)
        if keywords.get("is_main_process", True):
            told = getattr(self, "card", None)  # of the training: data, metrics, command
            write_card(save_directory, self.config, (type(self).__doc__ or "").split("\n")[0], told=told)

    def _upload_modified_files(self, working_dir, *arguments, **keywords):
        upload_card(working_dir, self.config, (type(self).__doc__ or "").split("\n")[0], told=self.card)
        return super()._upload_modified_files(working_dir, *arguments, **keywords)

    def _build(self, *stacks: str) -> None:
        """The stacks and, for those that are held to a blanket, a loss for each layer."""
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))
        self.losses = nn.ModuleDict()
        for name in stacks:
            stack = Stack(self.config, name == "decoder")
            setattr(self, name, stack)
            losses = [self.config.loss_of(name) for _ in stack.layers]
            if all(losses):
                self.losses[name] = nn.ModuleList(losses)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        if isinstance(module, nn.Linear):
            initialization.xavier_uniform_(module.weight)
            if module.bias is not None:
                initialization.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            initialization.normal_(module.weight, std=module.embedding_dim**-0.5)
        elif isinstance(module, nn.LayerNorm):
            initialization.ones_(module.weight)
            initialization.zeros_(module.bias)
        elif isinstance(module, GCNValueUpdate) and module.mode != "none":
            initialization.normal_(module.weight, std=module.weight.shape[-1] ** -0.5)
        elif isinstance(module, MarkovBlanketLoss) and module.mode == "auglag":
            initialization.copy_(module.multipliers, module.start())
        elif module is self:
            initialization.zeros_(self.passes)

    def get_input_embeddings(self):
        """The encoder's embedding, which the decoder shares where the configuration ties them."""
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value):
        """Put another embedding in its place, in the encoder and in a decoder that shares it."""
        self.encoder.embed_tokens = value
        if hasattr(self, "decoder") and self.config.tie_word_embeddings:
            self.decoder.embed_tokens = value

    def causal_weight(self) -> float:
        """The weight of the Markov-blanket loss at the present count of training passes."""
        most, ramp = self.config.causal_weight, self.config.causal_ramp
        if ramp is None:
            return most
        return most * min(1.0, max(0.0, (int(self.passes) - ramp[0]) / (ramp[1] - ramp[0])))

    def _measured(self, name: str, labels) -> dict:
        """What a stack is asked for: sums of tau, or maps for Sinkhorn; nothing where no loss needs them."""
        if name not in self.losses or labels is None or self.causal_weight() == 0:
            return {}
        doubly = self.losses[name][0].normalise == "sinkhorn"
        return dict(measure=True, output_attentions=True) if doubly else dict(measure=True)

    def _parts(self, task_loss: Tensor, stacks: dict[str, StackOutput]) -> dict[str, Tensor]:
        """loss, task_loss, causal_loss and violated, from what the stacks were measured at."""
        found, broken = [], []
        for name, out in stacks.items():
            for number, sums in enumerate(out.sums or ()):
                loss, given = self.losses[name][number], (out.valid, name == "decoder", out.measured)
                with torch.autocast(task_loss.device.type, enabled=False):
                    if loss.normalise == "sinkhorn":
                        found.append(loss(wide(out.attentions[number]), out.valid))
                    else:
                        found.append(loss.of_excess(*sums, *given))
                    broken.append(loss.violated(*sums, *given))
        weight = self.causal_weight()
        if self.training:
            self.passes += 1
        if not found:
            return dict(loss=task_loss, task_loss=task_loss.detach())
        causal = torch.stack(found).mean()
        return dict(
            loss=task_loss + weight * causal,
            task_loss=task_loss.detach(),
            causal_loss=causal.detach(),
            violated=torch.stack(broken).mean(),
        )


def no_classes(labels: Tensor | None, config) -> str:
    """What is wrong with labels that number no class of each item (regression, several an item), or ""."""
    kind = getattr(config, "problem_type", None)
    if kind not in (None, "single_label_classification"):
        return f"problem_type is {kind!r}: this model chooses one of num_labels classes"
    if labels is not None and (labels.dim() != 1 or labels.is_floating_point()):
        shape = tuple(labels.shape)
        return f"labels have shape {shape} and type {labels.dtype}: give each item its class's number, (B,)"
    if labels is not None and config.num_labels < 2:
        return "num_labels is 1, and with one class nothing is learned: choose 2 or more"
    return ""


class CausalTransformerForSequenceClassification(CausalTransformerPreTrainedModel):
    """The encoder with a linear head on its first token: [CLS] premise [SEP] hypothesis [SEP] to num_labels.

    The paper does not say how its encoder-decoder yields a label; this is our choice.
    """

    def __init__(self, config: CausalTransformerConfig):
        super().__init__(config)
        self._build("encoder")
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, config.num_labels)
        self.post_init()

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
        """Logits (B, num_labels); with labels (B,) the loss of Equation 6.

        input_ids, attention_mask (1 = a token) and token_type_ids are (B, T). Raises ValueError for an empty
        batch, for a mask that hides every token of an item, for fewer than two tokens where the loss measures
        them, and for what is in layers.ABSENT.
        """
        refuse(kwargs)
        if unknown(kwargs):
            raise ValueError(unknown(kwargs))
        asked = dict(output_attentions=output_attentions) | self._measured("encoder", labels)
        out = self.encoder(input_ids, attention_mask, token_type_ids, return_dict=True, **asked)
        if no_classes(labels, self.config):
            raise ValueError(no_classes(labels, self.config))
        first = torch.zeros_like(input_ids[:, 0]) if out.valid is None else out.valid.int().argmax(1)
        logits = self.classifier(self.dropout(out.last_hidden_state[torch.arange(len(first)), first]))
        parts = {}
        if labels is not None:
            task = F.cross_entropy(wide(logits), labels, label_smoothing=self.config.label_smoothing)
            parts = self._parts(task, dict(encoder=out))
        return CausalTransformerOutput(
            **parts, logits=logits, encoder_attentions=out.attentions if output_attentions else None
        )


class CausalTransformerForConditionalGeneration(CausalTransformerPreTrainedModel, GenerationMixin):
    """The encoder-decoder of Figure 6 with one vocabulary, its embeddings shared with the output layer.

    The decoder's self-attention is masked; its cross-attention is ordinary, and not held to a blanket.
    """

    accepts_loss_kwargs = True  # a mean over tokens, which forward makes a part of num_items_in_batch
    _tied_weights_keys = {
        "lm_head.weight": "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight": "encoder.embed_tokens.weight",
    }

    def __init__(self, config: CausalTransformerConfig):
        if config.pad_token_id is None or config.decoder_start_token_id is None:
            raise ValueError(
                f"pad_token_id is {config.pad_token_id} and decoder_start_token_id "
                f"{config.decoder_start_token_id}: a decoder needs both, so give the vocabulary's numbers"
            )
        config.is_encoder_decoder = True
        super().__init__(config)
        self._build("encoder", "decoder")
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self):
        """The linear map (D -> vocabulary) before the softmax."""
        return self.lm_head

    def set_output_embeddings(self, value):
        """Put another linear map in its place."""
        self.lm_head = value

    def resize_token_embeddings(self, *arguments, **keywords) -> nn.Module:  # type: ignore[override]
        """As in transformers; a decoder that does not share the encoder's embedding has its own resized."""
        if not self.config.tie_word_embeddings:
            own = self.decoder.embed_tokens
            self.decoder.embed_tokens = self._get_resized_embeddings(own, *arguments, **keywords)
        return super().resize_token_embeddings(*arguments, **keywords)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Labels (B, T) one place later, after decoder_start_token_id, with padding for -100."""
        start = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)
        return torch.cat([start, labels[:, :-1]], 1).masked_fill(
            torch.cat([start, labels[:, :-1]], 1) == IGNORED, self.config.pad_token_id
        )

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: StackOutput | None = None,
        labels: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs,
    ) -> CausalTransformerOutput:
        """Logits (B, T, V) for decoder_input_ids (B, T); with labels (B, T), -100 on padding, Equation 6.

        input_ids and attention_mask are (B, S). Labels without decoder_input_ids are shifted to make them,
        and hide their padding from the decoder; beside decoder_input_ids they change no logits. Only decoder
        tokens with a label are measured. With num_items_in_batch, the labels of an optimiser step of several
        batches, loss is this batch's part. Encoder outputs that are handed in are not measured again. Raises
        ValueError where there is nothing to decode, for an empty batch, for labels or masks that hide every
        token of an item, for fewer than two tokens where the loss measures them, for caches that are not
        dynamic, and for what is in layers.ABSENT.
        """
        refuse(kwargs)
        if unknown(kwargs):
            raise ValueError(unknown(kwargs))
        _check_cache(past_key_values)
        asked = {
            name: dict(output_attentions=output_attentions, return_dict=True) | self._measured(name, labels)
            for name in ("encoder", "decoder")
        }
        derived, among = decoder_input_ids is None, None
        if derived and labels is None:
            raise ValueError(
                "neither decoder_input_ids nor labels were given: pass the target, or call generate"
            )
        if labels is not None:
            among = labels != IGNORED
            _check_labels(among, derived, 1 + ("measure" in asked["decoder"]))
        if derived:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
            if decoder_attention_mask is None:
                decoder_attention_mask, among = among, None
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask, **asked["encoder"])
        elif not isinstance(encoder_outputs, StackOutput):
            encoder_outputs = StackOutput(encoder_outputs[0])
        states = encoder_outputs.last_hidden_state
        there = Visible(checked_valid(attention_mask, *states.shape[:2], "attention_mask", 1))
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(), DynamicCache())
        out = self.decoder(
            decoder_input_ids,
            decoder_attention_mask,
            states=states,
            there=there,
            past_key_values=past_key_values,
            among=among,
            **asked["decoder"],
        )
        logits = self.lm_head(out.last_hidden_state)
        parts = {}
        if labels is not None:
            task = F.cross_entropy(
                wide(logits).flatten(0, 1), labels.flatten(), label_smoothing=self.config.label_smoothing
            )
            counted = (labels != IGNORED).sum()
            task = task * (counted / shared_average(counted))
            parts = self._parts(task, dict(encoder=encoder_outputs, decoder=out))
            if num_items_in_batch is not None:
                share = part_of_step(labels, num_items_in_batch, shifts=False)  # unprobed: no batches add up
                parts["loss"] = parts["loss"] * share  # unprobed: the same
        return CausalTransformerOutput(
            **parts,
            logits=logits,
            past_key_values=past_key_values,
            encoder_last_hidden_state=states,
            encoder_attentions=encoder_outputs.attentions if output_attentions else None,
            decoder_attentions=out.attentions if output_attentions else None,
            cross_attentions=out.cross_attentions if output_attentions else None,
        )


def _check_labels(real: Tensor, derived: bool, least: int) -> None:
    """Raise ValueError where no target has a label among real (B, T).

    Where the decoder's inputs are derived from the labels, each target needs `least`, and padding ends it.
    """
    check_tokens(real, "labels")
    counts = real.sum(1)
    wrong = counts < least if derived else ~real.any().expand(len(real))
    if derived:
        inside = (real[:, 1:] & ~real[:, :-1]).any(1)
        if inside.any():
            raise ValueError(
                f"labels of item {int(inside.int().argmax())} are {IGNORED} before its last "
                "token: pad at the end, or pass decoder_input_ids beside them"
            )
    if wrong.any():
        item = int(wrong.int().argmax())
        hidden = "all tokens but one" if counts[item] else "every token"
        raise ValueError(
            f"labels are {IGNORED} for {hidden} of item {item}: give each target at least "
            f"{least if derived else 1}"
        )


def _check_cache(cache) -> None:
    """Raise ValueError for a cache other than the one that this decoder fills."""
    kept = getattr(cache, "self_attention_cache", cache)
    if cache is not None and not (isinstance(cache, EncoderDecoderCache) and isinstance(kept, DynamicCache)):
        raise ValueError(
            f"past_key_values holds a {type(kept).__name__}: leave cache_implementation out, or "
            "pass EncoderDecoderCache(DynamicCache(), DynamicCache())"
        )
