"""Beyond the paper: dependencies between tokens that stay as they are when words are intervened on.

What a token depends on should be invariant: do(w := w') in both sentences, for a word w that they share,
leaves the answer and all attention maps as they were, if w' is of w's class. And the answer should not depend
on the bag of words, which the weights of rows make independent of it. Classes and weights are inferred from
the training pairs. That words of a class can be interchanged is an assumption: it is true of templates by
construction, and in real texts of some words alone.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import coo_array, hstack
from sklearn.cluster import AgglomerativeClustering
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from torch import Tensor, nn
from transformers import initialization

from .configuration import CausalTransformerConfig
from .model import CausalTransformerForSequenceClassification, CausalTransformerOutput


def counts(tokens: Sequence[Sequence[int]], vocabulary: int):
    """How often each word is in each list of tokens: a sparse matrix (rows, V)."""
    row = np.repeat(np.arange(len(tokens)), [len(one) for one in tokens])
    word = np.concatenate([np.asarray(one, dtype=int) for one in tokens])
    return coo_array((np.ones(len(word)), (row, word)), shape=(len(tokens), vocabulary)).tocsr()


def independence_weights(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]],
                         labels: Sequence[int], vocabulary: int, seed: int = 0, folds: int = 5,
                         smallest: float = 0.01) -> np.ndarray:
    """Weights w = p(y) / p(y | b) of pairs, which make labels y independent of their bags of words b.

    first and second are the tokens of the two sentences. p(y | b) is a logistic regression on what they share
    and what only one of them has, asked about the folds that it has not seen, and at least `smallest`. The
    weights (rows,) have mean 1. Raises ValueError where a label has fewer rows than there are folds.
    """
    labels = np.asarray(labels)
    known, place, often = np.unique(labels, return_inverse=True, return_counts=True)
    if often.min() < folds:
        raise ValueError(f"label {known[often.argmin()]} has {often.min()} rows and there are {folds} folds: "
                         "choose fewer folds")
    one, other = counts(first, vocabulary), counts(second, vocabulary)
    apart = one - other
    kinds = (one.minimum(other), apart.maximum(0), (-apart).maximum(0))
    bags = hstack([*kinds, *(coo_array(kind.sum(1)[:, None]) for kind in kinds)]).tocsr()
    given = cross_val_predict(LogisticRegression(max_iter=1000), bags, place, method="predict_proba",
                              cv=StratifiedKFold(folds, shuffle=True, random_state=seed))
    weights = often[place] / given[np.arange(len(place)), place].clip(smallest)
    return weights / weights.mean()


def word_classes(tokens: Sequence[Sequence[int]], vocabulary: int, distance: float = 0.4,
                 alone: Sequence[int] = ()) -> Tensor:
    """Classes (V,) of words that are met in like contexts, numbered from 0.

    A word's context is how its neighbours on the left and on the right are distributed; words are joined,
    on average, up to `distance` between the square roots of these, in (0, sqrt 2). Those in `alone`, as
    sentence marks, and those never met are classes of their own. Memory grows with the square of the number
    of words met: for vocabularies of some thousands.
    """
    pairs = np.concatenate([np.stack([one[:-1], one[1:]]) for one in map(np.asarray, tokens)], 1)
    ends = np.concatenate([pairs[::-1], pairs + [[0], [vocabulary]]], 1)  # word, left; word, V + right
    near = coo_array((np.ones(ends.shape[1]), ends), shape=(vocabulary, 2 * vocabulary)).tocsr()
    met = np.setdiff1d(np.flatnonzero(near.sum(1)), alone)
    contexts = near[met].toarray()
    contexts = np.sqrt(contexts / contexts.sum(1, keepdims=True))
    found = np.arange(vocabulary) + vocabulary
    found[met] = AgglomerativeClustering(None, linkage="average",
                                         distance_threshold=distance).fit_predict(contexts)
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
    shuffled = (groups + 0.5 * torch.rand(groups.shape, device=groups.device)).argsort()
    return torch.empty_like(ordered).scatter_(1, ordered, shuffled).gather(1, input_ids)


def attention_shift(maps: Sequence[Tensor], others: Sequence[Tensor], valid: Tensor | None = None) -> Tensor:
    """1/2 sum_j (A_ij - A'_ij)^2, in [0, 1], averaged over layers, heads and valid (B, T) queries i.

    maps and others hold a map (B, H, T, T) for each layer. Raises ValueError where their shapes differ.
    """
    one, other = torch.stack(tuple(maps)), torch.stack(tuple(others))  # (L, B, H, T, T)
    if one.shape != other.shape:
        raise ValueError(f"maps are {tuple(one.shape)} and {tuple(other.shape)}: give those of the same "
                         "layers, for sentences of the same lengths")
    rows = (one - other).square().sum(-1) / 2
    if valid is None:
        return rows.mean()
    there = valid[:, None].to(rows.dtype).expand_as(rows)
    return (rows * there).sum() / there.sum()


class InvariantConfig(CausalTransformerConfig):
    """Settings of a Causal Transformer, and whether it is trained to answer where words are interchanged.

    gcn is "none" unless given. Raises ValueError as CausalTransformerConfig, and for a blanket.
    """

    model_type = "causal_transformer_invariant"

    def __init__(self, interchanged: bool = True, gcn: str = "none", blanket: str = "none", **kwargs):
        if blanket != "none":
            raise ValueError(f"blanket is {blanket!r}: choose 'none', the penalty here is on invariance")
        self.interchanged = interchanged
        super().__init__(gcn=gcn, blanket=blanket, **kwargs)


class InvariantForSequenceClassification(CausalTransformerForSequenceClassification):
    """A Transformer whose answer and attention are held to what they are where words are interchanged.

    In training the loss is the mean of w CE(f(do(x)), y), or of w CE(f(x), y) unless config.interchanged,
    plus causal_weight times attention_shift between x and do(x). The buffer `classes` (V,) holds the words'
    classes; at first each is alone, and do(x) = x. Otherwise the model is a vanilla Transformer.
    """

    config_class = InvariantConfig

    def _build(self, *stacks: str) -> None:
        self.register_buffer("classes", torch.arange(self.config.vocab_size))
        super()._build(*stacks)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if module is self:
            initialization.copy_(self.classes, torch.arange(self.config.vocab_size))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, labels: Tensor | None = None,
                output_attentions: bool = False, weights: Tensor | None = None,
                **kwargs) -> CausalTransformerOutput:
        """As CausalTransformerForSequenceClassification; weights (B,) of the rows count in training alone.

        Raises ValueError where training lacks token_type_ids.
        """
        if labels is None or not self.training:
            return super().forward(input_ids, attention_mask, token_type_ids, labels, output_attentions)
        if token_type_ids is None:
            raise ValueError("token_type_ids are missing: give 0 for the first sentence and 1 for the second")
        plain, weight, inputs = super().forward, self.causal_weight(), [input_ids]
        if weight > 0 or self.config.interchanged:
            inputs.append(interchange(input_ids, token_type_ids, self.classes))
        answered = inputs.pop() if self.config.interchanged else inputs.pop(0)
        shown = output_attentions or weight > 0
        out = plain(answered, attention_mask, token_type_ids, output_attentions=shown)
        each = F.cross_entropy(out.logits.float(), labels, reduction="none",
                               label_smoothing=self.config.label_smoothing)
        found = self._parts((each if weights is None else weights * each).mean(), {})
        if weight > 0:
            other = plain(*inputs, attention_mask, token_type_ids, output_attentions=True)
            shift = attention_shift(out.encoder_attentions, other.encoder_attentions, attention_mask)
            found |= dict(loss=found["loss"] + weight * shift, causal_loss=shift.detach())
        maps = out.encoder_attentions if output_attentions else None
        return CausalTransformerOutput(**found, logits=out.logits, encoder_attentions=maps)
