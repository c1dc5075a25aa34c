"""The settings of a Causal Transformer: its size, its arm, and the weight of its loss."""

from collections.abc import Mapping
from inspect import signature
from numbers import Integral

from transformers import PretrainedConfig

from causalnb.checkpoints import DEEPEST
from causalnb.wrapping import check_counts, is_number

from .loss import MODES, MarkovBlanketLoss
from .patterns import PATTERNS
from .values import ACTIVATIONS, GCN_MODES

STACKS = ("encoder", "decoder")
BLANKET_SETTINGS = tuple(
    name for name in signature(MarkovBlanketLoss).parameters if name not in ("mode", "self_loop")
)


class CausalTransformerConfig(PretrainedConfig):
    """Settings of the encoder and of the encoder-decoder; the default sizes are section 4.2's.

    The arm: gcn "paper", "two_hop" or "none" (GCNValueUpdate), and blanket, a mode of MarkovBlanketLoss or
    "none", in the stacks blanket_in; both "none" is the vanilla Transformer. self_loop is the encoder's
    (Definition 2 gives the decoder none), blanket_settings are further ones of the loss. The loss has weight
    causal_weight >= 0; causal_ramp = [first, last] raises it from 0 to that between two counts of training
    passes. pattern ("full", "band", "dilated", "block", "random", "star") with pattern_width, pattern_share,
    pattern_seed and pattern_global (attention_pattern's seed and global_tokens), and relative, are the
    encoder's sparse attention and relative positions. dropout in [0, 1) stands everywhere but inside
    attention; pre_norm puts norms before the sublayers. Raises ValueError for settings out of range.
    """

    model_type = "causal_transformer"
    attribute_map = {
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "encoder_layers",
    }
    keys_to_ignore_at_inference = [
        "task_loss",
        "causal_loss",
        "violated",
        "past_key_values",
        "encoder_last_hidden_state",
        "encoder_attentions",
        "decoder_attentions",
        "cross_attentions",
    ]

    def __init__(
        self,
        vocab_size: int = 32_000,
        d_model: int = 512,
        num_heads: int = 8,
        d_ff: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        type_vocab_size: int = 2,
        dropout: float = 0.1,
        activation: str = "gelu",
        pre_norm: bool = False,
        gcn: str = "paper",
        blanket: str = "hinge",
        blanket_in=STACKS,
        self_loop: bool | str = True,
        blanket_settings: dict | None = None,
        causal_weight: float = 0.1,
        causal_ramp: list[int] | None = None,
        pattern: str = "full",
        pattern_width: int = 1,
        pattern_share: float = 0.25,
        pattern_global: int = 0,
        pattern_seed: int = 0,
        relative: int = 0,
        label_smoothing: float = 0.0,
        pad_token_id: int = 0,
        bos_token_id: int = 1,
        eos_token_id: int = 2,
        decoder_start_token_id: int = 1,
        is_encoder_decoder: bool = False,
        tie_word_embeddings: bool = True,
        **kwargs,
    ):
        choices = dict(
            gcn=(gcn, GCN_MODES),
            activation=(activation, ACTIVATIONS),
            pattern=(pattern, PATTERNS),
            blanket=(blanket, (*MODES, "none")),
        )
        for name, (chosen, known) in choices.items():
            if not isinstance(chosen, str) or chosen not in known:
                raise ValueError(f"{name} is {chosen!r}: choose among {', '.join(map(repr, known))}")
        if not isinstance(blanket_in, (list, tuple, set)):
            raise ValueError(f"blanket_in is {blanket_in!r}: give a list, such as ['encoder']")
        if not set(blanket_in) <= set(STACKS):
            raise ValueError(f"blanket_in is {blanket_in!r}: choose among 'encoder' and 'decoder'")
        if not isinstance(blanket_settings or {}, Mapping):
            raise ValueError(
                f"blanket_settings is {blanket_settings!r}: give a dictionary, such as {{'rho': 1}}"
            )
        if unknown := set(blanket_settings or {}) - set(BLANKET_SETTINGS):
            raise ValueError(
                f"blanket_settings has {min(unknown)!r}: choose among "
                f"{', '.join(map(repr, BLANKET_SETTINGS))}"
            )
        check_counts(
            1, num_heads=num_heads, d_ff=d_ff, vocab_size=vocab_size, type_vocab_size=type_vocab_size
        )
        check_counts(0, relative=relative, pattern_seed=pattern_seed, pattern_global=pattern_global)
        check_counts(1, pattern_width=pattern_width)
        for name, id in dict(
            pad_token_id=pad_token_id,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            decoder_start_token_id=decoder_start_token_id,
        ).items():
            if id is not None:
                check_counts(0, **{name: id})
        if (
            not isinstance(d_model, Integral)
            or isinstance(d_model, bool)
            or d_model < 1
            or d_model % num_heads
        ):
            raise ValueError(
                f"a width d_model of {d_model!r} does not divide among {num_heads} heads: choose a multiple"
            )
        if not is_number(pattern_share) or not 0 <= pattern_share <= 1:
            raise ValueError(f"pattern_share is {pattern_share!r}: choose a share in [0, 1]")
        layers = (encoder_layers, decoder_layers)
        if not all(type(number) is int and 1 <= number <= DEEPEST for number in layers):
            raise ValueError(
                f"there are {encoder_layers} encoder and {decoder_layers} decoder layers: "
                f"choose 1 or more of each, and at most {DEEPEST}"
            )
        if (
            isinstance(causal_weight, bool)
            or not isinstance(causal_weight, (int, float))
            or not 0 <= causal_weight < float("inf")
        ):
            raise ValueError(f"causal_weight is {causal_weight}: choose a number from 0 on")
        if causal_ramp is not None and not (
            isinstance(causal_ramp, (list, tuple))
            and len(causal_ramp) == 2
            and all(map(is_number, causal_ramp))
            and 0 <= causal_ramp[0] < causal_ramp[1]
        ):
            raise ValueError(
                f"causal_ramp is {causal_ramp}: give the training passes [first, last] between "
                "which the weight rises"
            )
        for name, share in (("dropout", dropout), ("label_smoothing", label_smoothing)):
            if not is_number(share) or not 0 <= share < 1:
                raise ValueError(f"{name} is {share!r}: choose it in [0, 1)")
        self.vocab_size, self.d_model, self.num_heads, self.d_ff = vocab_size, d_model, num_heads, d_ff
        self.encoder_layers, self.decoder_layers = encoder_layers, decoder_layers
        self.type_vocab_size, self.dropout, self.activation = type_vocab_size, dropout, activation
        self.pre_norm, self.gcn, self.blanket, self.blanket_in = pre_norm, gcn, blanket, list(blanket_in)
        self.self_loop, self.blanket_settings = self_loop, blanket_settings
        self.causal_weight, self.causal_ramp = causal_weight, causal_ramp
        self.pattern, self.pattern_width, self.pattern_share = pattern, pattern_width, pattern_share
        self.pattern_global, self.pattern_seed = pattern_global, pattern_seed
        self.relative, self.label_smoothing = relative, label_smoothing
        super().__init__(
            pad_token_id=pad_token_id,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            decoder_start_token_id=decoder_start_token_id,
            is_encoder_decoder=is_encoder_decoder,
            tie_word_embeddings=tie_word_embeddings,
            **kwargs,
        )
        if blanket != "none":
            self.loss_of("encoder")

    def loss_of(self, stack: str) -> MarkovBlanketLoss | None:
        """A new loss for a layer of a stack, None where it has none; ValueError as MarkovBlanketLoss."""
        if self.blanket == "none" or stack not in self.blanket_in:
            return None
        self_loop = self.self_loop if stack == "encoder" else False
        settings = {"heads": self.num_heads} | (self.blanket_settings or {})
        loss = MarkovBlanketLoss(self.blanket, self_loop=self_loop, **settings)
        loss.check_causal(stack == "decoder")
        return loss
