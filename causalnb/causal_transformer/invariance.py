"""Beyond the paper: dependencies between tokens that are sparse, have a direction, and are invariant.

Sparse and directed: a head's map is a graph in which a token has few parents, all before it or all after it,
so that there is no cycle but the loops. Invariant: no parent is in the other sentence, so that what stands
there can be intervened on and a sentence's states stay as they were, to the bit; and do(w := w') in both
sentences, for a word w that they share, leaves the answer and all maps as they were, if w' is of w's class,
which models are trained for. Classes are inferred from the training pairs. That words of a class can be
interchanged is an assumption: it is true of templates by construction, and in real texts of some words alone.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import coo_array
from sklearn.cluster import AgglomerativeClustering
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, initialization
from transformers.utils import can_return_tuple

from .configuration import CausalTransformerConfig
from .layers import check_tokens, refuse, unknown
from .measure import checked_valid
from .model import CausalTransformerForSequenceClassification, CausalTransformerOutput, no_classes, wide


def word_classes(
    tokens: Sequence[Sequence[int]], vocabulary: int, distance: float = 0.4, alone: Sequence[int] = ()
) -> Tensor:
    """Classes (V,) of words that are met in like contexts, numbered from 0.

    A word's context is how its neighbours on the left and on the right are distributed; words are joined,
    on average, up to `distance` > 0 between the square roots of these; above sqrt 2 all are. Those in
    `alone`, as sentence marks, and those never met are classes of their own. Memory grows with the square of
    the number of words met: for vocabularies of some thousands. Raises ValueError for a distance of 0 or
    less, and where fewer than two words are met beside another.
    """
    if not distance > 0:
        raise ValueError(f"distance is {distance}: choose a number above 0")
    if not any(len(one) > 1 for one in tokens):
        raise ValueError("no word has a neighbour: give sentences of two tokens or more")
    pairs = np.concatenate([np.stack([one[:-1], one[1:]]) for one in map(np.asarray, tokens)], 1)
    ends = np.concatenate([pairs[::-1], pairs + [[0], [vocabulary]]], 1)  # word, left; word, V + right
    near = coo_array((np.ones(ends.shape[1]), ends), shape=(vocabulary, 2 * vocabulary)).tocsr()
    met = np.setdiff1d(np.flatnonzero(near.sum(1)), alone)
    if len(met) < 2:
        raise ValueError(f"there are {len(met)} words to classify: give sentences of more, or fewer in alone")
    contexts = near[met].toarray()
    contexts = np.sqrt(contexts / contexts.sum(1, keepdims=True))
    found = np.arange(vocabulary) + vocabulary
    found[met] = AgglomerativeClustering(None, linkage="average", distance_threshold=distance).fit_predict(
        contexts
    )
    return torch.from_numpy(np.unique(found, return_inverse=True)[1])


def interchange(input_ids: Tensor, token_type_ids: Tensor, classes: Tensor) -> Tensor:
    """do(w := pi(w)) in both sentences of pairs (B, T): for each pair another random permutation pi.

    pi maps words to words of their class, of classes (V,). A word that is in one sentence alone is kept, and
    no other is put in its place, so that two words of a pair are equal exactly where they were.
    """
    batch, vocabulary = len(input_ids), len(classes)
    met = torch.zeros(2, batch, vocabulary, dtype=torch.bool, device=input_ids.device)
    for kind in (0, 1):
        at, place = (token_type_ids == kind).nonzero(as_tuple=True)
        met[kind, at, input_ids[at, place]] = True
    words = torch.arange(vocabulary, device=input_ids.device)
    groups = torch.where(met[0] ^ met[1], vocabulary + words, classes)  # (B, V)
    ordered = groups.argsort(stable=True)
    mixed = torch.rand(groups.shape, device=groups.device).argsort()
    shuffled = mixed.gather(1, groups.gather(1, mixed).argsort(stable=True))
    return torch.empty_like(ordered).scatter_(1, ordered, shuffled).gather(1, input_ids)


def attention_shift(maps: Sequence[Tensor], others: Sequence[Tensor], valid: Tensor | None = None) -> Tensor:
    """1/2 sum_j (A_ij - A'_ij)^2, in [0, 1], averaged over layers, heads and valid (B, T) queries i.

    maps and others hold a map (B, H, T, T) for each layer. Raises ValueError for none of them, and where
    their shapes differ.
    """
    if not (len(maps) and len(others)):
        raise ValueError("there are no maps to compare: ask both times with output_attentions=True")
    one, other = torch.stack(tuple(maps)), torch.stack(tuple(others))  # (L, B, H, T, T)
    if one.shape != other.shape:
        raise ValueError(
            f"maps are {tuple(one.shape)} and {tuple(other.shape)}: give those of the same "
            "layers, for sentences of the same lengths"
        )
    rows = (one - other).square().sum(-1) / 2
    if valid is None:
        return rows.mean()
    there = valid[:, None].to(rows.dtype).expand_as(rows)
    return (rows * there).sum() / there.sum()


def parents_pattern(place: Tensor, types: Tensor, heads: int, parents: int, directed: bool = True) -> Tensor:
    """Which tokens a token may attend to, (B, H, T, T): itself and its nearest ones in its own sentence.

    In the first half of the heads these are the `parents` before it, in the other half those after it; unless
    directed, those on both sides in all heads. place (B, T) is a token's place, types (B, T) its sentence.
    """
    away = place[:, None] - place[..., None]  # (B, T, T), from the query to the key
    near = (away.abs() <= parents) & (types[:, None] == types[..., None])
    if not directed:
        return near[:, None].expand(-1, heads, -1, -1)
    before = (torch.arange(heads, device=place.device) < heads // 2)[:, None, None]
    return near[:, None] & torch.where(before, away[:, None] <= 0, away[:, None] >= 0)


class InvariantConfig(CausalTransformerConfig):
    """Settings of a Transformer for pairs of sentences whose dependencies are sparse, directed and invariant.

    parents >= 1 and directed as in parents_pattern; parents=None is attention to all tokens of both
    sentences. compared: the label is read from both sentences' sums u and v, maxima over their tokens, as
    [u, v, |u - v|, u v]; otherwise from the first token. interchanged: trained where words are interchanged.
    causal_weight is that of attention_shift, or of the Markov-blanket loss where there is a blanket; it and
    gcn are off unless given. Raises ValueError as CausalTransformerConfig, for parents below 1, a single head
    that is directed, a pattern, and a blanket beside parents or interchanged words.
    """

    model_type = "causal_transformer_invariant"

    def __init__(
        self,
        parents: int | None = 2,
        directed: bool = True,
        compared: bool = True,
        interchanged: bool = True,
        gcn: str = "none",
        blanket: str = "none",
        causal_weight: float = 0.0,
        **kwargs,
    ):
        if blanket != "none" and (parents is not None or interchanged):
            raise ValueError(
                f"blanket is {blanket!r} beside parents={parents} and interchanged="
                f"{interchanged}: choose 'none', or parents=None and interchanged=False"
            )
        if parents is not None and (not isinstance(parents, int) or parents < 1):
            raise ValueError(f"parents is {parents}: choose a count from 1 on, or None for all tokens")
        self.parents, self.directed, self.compared = parents, directed, compared
        self.interchanged = interchanged
        super().__init__(gcn=gcn, blanket=blanket, causal_weight=causal_weight, **kwargs)
        if self.pattern != "full":
            raise ValueError(f"pattern is {self.pattern!r}: choose 'full', parents say who sees whom")
        if parents is not None and directed and self.num_heads < 2:
            raise ValueError(
                "a single head cannot look both ways: choose num_heads=2 or more, or directed=False"
            )


class InvariantForSequenceClassification(CausalTransformerForSequenceClassification):
    """A Transformer that compares two sentences, each read by sparse and directed attention of its own.

    With parents and compared, no state of a sentence depends on the other one, and the answer on their sums
    alone. In training the loss is CE(f(do(x)), y), or CE(f(x), y) unless config.interchanged, plus
    causal_weight times attention_shift between x and do(x); with a blanket it is Equation 6 of the source.
    The buffer `classes` (V,) holds the words' classes; at first each is alone, and do(x) = x.
    """

    config_class = InvariantConfig

    def _build(self, *stacks: str) -> None:
        self.register_buffer("classes", torch.arange(self.config.vocab_size))
        super()._build(*stacks)
        if self.config.compared:
            self.hidden = nn.Linear(4 * self.config.d_model, self.config.d_model)

    def resize_token_embeddings(self, *arguments, **keywords) -> nn.Module:  # type: ignore[override]
        """As in transformers; a new word is alone in its class."""
        embeddings, before = super().resize_token_embeddings(*arguments, **keywords), self.classes
        words = torch.arange(self.config.vocab_size, device=before.device)
        self.classes = torch.cat([before[: len(words)], words[len(before) :]])
        if len(words) < len(before):  # class numbers stay below the vocabulary's
            self.classes = self.classes.unique(return_inverse=True)[1]
        return embeddings

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if module is self:
            initialization.copy_(self.classes, torch.arange(self.config.vocab_size))

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
        """Logits (B, num_labels); with labels (B,) the loss, in evaluation without attention_shift.

        input_ids, attention_mask (1 = a token) and token_type_ids (0 and 1, the two sentences) are (B, T).
        Raises ValueError for an empty batch, where token_type_ids are missing or, if sums are compared, a
        pair has tokens of one type alone, and for what is in layers.ABSENT.
        """
        refuse(kwargs)
        if unknown(kwargs):
            raise ValueError(unknown(kwargs))
        check_tokens(input_ids, "input_ids")
        if no_classes(labels, self.config):
            raise ValueError(no_classes(labels, self.config))
        if token_type_ids is None:
            raise ValueError("token_type_ids are missing: give 0 for the first sentence and 1 for the second")
        trained, held = self.training and labels is not None, self._measured("encoder", labels)
        weight = self.causal_weight() if trained and self.config.blanket == "none" else 0.0
        inputs, given = [input_ids], (attention_mask, token_type_ids)
        if trained and (weight > 0 or self.config.interchanged):
            inputs.append(interchange(input_ids, token_type_ids, self.classes))
        answered = inputs.pop() if trained and self.config.interchanged else inputs.pop(0)
        asked = dict(output_attentions=output_attentions or weight > 0) | held
        logits, out = self._read(answered, *given, **asked)
        found = {}
        if labels is not None:
            task = F.cross_entropy(wide(logits), labels, label_smoothing=self.config.label_smoothing)
            found = self._parts(task, dict(encoder=out))
        if weight > 0:
            other = self._read(*inputs, *given, output_attentions=True)[1]
            shift = attention_shift(out.attentions, other.attentions, attention_mask)
            found |= dict(loss=found["loss"] + weight * shift, causal_loss=shift.detach())
        return CausalTransformerOutput(
            **found, logits=logits, encoder_attentions=out.attentions if output_attentions else None
        )

    def _read(self, input_ids, attention_mask, types, measure: bool = False, **asked):
        """Logits, and of the encoder what is asked for: maps, and what a Markov-blanket loss measures."""
        config, sparse = self.config, {}
        valid = checked_valid(attention_mask, *input_ids.shape, "attention_mask", 1 + measure)
        there = torch.ones_like(input_ids, dtype=torch.bool) if valid is None else valid
        if config.parents is not None:  # each sentence has places of its own
            first, second = ((there & (types == kind)).cumsum(1) for kind in (0, 1))
            place = (torch.where(types == 0, first, second) - 1).clamp(min=0)
            pattern = parents_pattern(place, types, config.num_heads, config.parents, config.directed)
            sparse = dict(place=place, pattern=pattern)
        out = self.encoder(
            input_ids, attention_mask, types, measure=measure, return_dict=True, **sparse, **asked
        )
        hidden = out.last_hidden_state
        read = (
            self._compared(hidden, there, types)
            if config.compared
            else hidden[torch.arange(len(there)), there.int().argmax(1)]
        )
        return self.classifier(self.dropout(read)), out

    def _compared(self, hidden, there, types) -> Tensor:
        """What the sentences' sums are compared to, (B, D)."""
        sums = []
        for kind in (0, 1):
            mine = there & (types == kind)
            if not mine.any(1).all():
                raise ValueError(
                    "a pair has tokens of one type alone: give token_type_ids of 0 and 1, for "
                    "the first sentence and the second"
                )
            sums.append(hidden.masked_fill(~mine[..., None], -torch.inf).amax(1))
        u, v = sums
        return F.gelu(self.hidden(torch.cat([u, v, (u - v).abs(), u * v], -1)))


AutoConfig.register(InvariantConfig.model_type, InvariantConfig)
AutoModelForSequenceClassification.register(InvariantConfig, InvariantForSequenceClassification)
