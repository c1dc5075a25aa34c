"""An extension of SCI in which structure and content meet at the output only: it composes where SCI does not.

The guide makes the encoder invariant and leaves the decoder as it is, which goes on reading the words
themselves. Here every token, of prompt and answer, enters the decoder through the abstraction layer, tokens
in the same place of the same structure are pulled together there, a little noise closes what distance is
left. The words' content reaches the logits through bound slots alone, and there it chooses among words of
one structural class only: which class comes next, the end included, is for structure to say. A slot is one
of K that read the prompt, or a token of it; of the former one may come to read two words of a class by
halves, and then cannot tell them apart.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, pairwise

import torch
import torch.nn.functional as F
from torch import nn
from transformers.utils import can_return_tuple

from causalnb.parallel import shared_mean, shared_rows
from causalnb.wrapping import check_finite, matrix, unknown_keywords

from .configuration import SCIConfig
from .content import ContentEncoder
from .model import HIDDEN, SCIOutput, SCITransformer
from .structure import AbstractionLayer, StructuralEncoder

SLOTS = ("structural", "tokens")


class SeparatedSCIConfig(SCIConfig):
    """SCIConfig without cbm_layers; invariance_weight, content_scale and two widths in standard deviations.

    content_slots is what content is bound to: "structural", the encoder's n_structural_slots, which choose
    what they read, or "tokens", those of the prompt, a slot each. abstraction_noise is added to abstracted
    features in training; class_width > 0 is the distance, per feature, within which two tokens count as one
    structural class. All are finite, 0 or more.
    """

    model_type = "sci_separated"

    def __init__(
        self,
        base_config=None,
        invariance_weight: float = 100.0,
        abstraction_noise: float = 0.1,
        class_width: float = 0.1,
        content_scale: float = 10.0,
        content_slots: str = "structural",
        **kwargs,
    ):
        check_finite(
            invariance_weight=invariance_weight,
            abstraction_noise=abstraction_noise,
            content_scale=content_scale,
            class_width=class_width,
        )
        if class_width == 0:
            raise ValueError(f"class_width is {class_width}: choose more than 0")
        if kwargs.get("cbm_layers"):
            raise ValueError(
                f"cbm_layers is {kwargs['cbm_layers']}: leave it out, content meets the output alone here"
            )
        self.invariance_weight, self.abstraction_noise = invariance_weight, abstraction_noise
        if content_slots not in SLOTS:
            raise ValueError(
                f"content_slots is {content_slots!r}: choose 'structural' (n_structural_slots of them) or "
                "'tokens' (one for each of the prompt)"
            )
        self.class_width, self.content_scale, self.content_slots = class_width, content_scale, content_slots
        super().__init__(base_config, **kwargs | {"cbm_layers": []})


@dataclass
class SeparatedSlots:
    """What tokens read: keys (B, K, D) and, for each slot, its vote on the vocabulary, values (B, K, V).

    content (B, K, d_s) holds the slots' bound content, weights (B, K, P) the prompt tokens it came from,
    table (V, D) the abstracted output embeddings and kinship (V, V), in [0, 1], how far two tokens are one
    structural class, in float32 at least. What `filled` (B, K) leaves out is not read; None: all are.
    """

    keys: torch.Tensor
    values: torch.Tensor
    content: torch.Tensor
    weights: torch.Tensor
    table: torch.Tensor
    kinship: torch.Tensor
    filled: torch.Tensor | None = None

    def expand(self, batch: int) -> "SeparatedSlots":
        """Repeat rows for their beams or samples, up to `batch` rows; ValueError when they do not divide."""
        rows = self.keys.shape[0]
        if batch == rows:
            return self
        if batch % rows:
            raise ValueError(f"slots were prepared for {rows} prompts, but the model runs {batch} rows")
        repeated = {  # unprobed: runs decode without beams
            name: part.repeat_interleave(batch // rows, 0)
            for name in ("keys", "values", "filled")
            if (part := getattr(self, name)) is not None
        }
        return replace(self, **repeated)  # unprobed: the same


@dataclass
class SeparatedSCIOutput(SCIOutput):
    """As SCIOutput, with the invariance loss and the weights (B, K, P) of the binding."""

    invariance_loss: torch.Tensor | None = None
    binding_weights: torch.Tensor | None = None


def kinship(table: torch.Tensor, class_width: float) -> torch.Tensor:
    """exp(-|a - b|^2 / (2 D w^2 var)) (V, V) of abstracted tokens (V, D), var being a feature's variance.

    In float32 at least: in half precision the squares of close tokens cancel.
    """
    check_finite(class_width=class_width)
    wide = torch.promote_types(table.dtype, torch.float32)
    half = table.dtype != wide
    with torch.autocast(table.device.type, enabled=False):
        table = table.to(wide)
        if half:
            table = table - table.mean(0)
        squares = table.square().sum(-1)
        apart = (squares[:, None] + squares - 2 * table @ table.T).clamp(min=0)
        if half:
            apart = apart.masked_fill(torch.eye(len(apart), dtype=torch.bool, device=apart.device), 0)
        spread = table.var(0).sum().clamp(min=torch.finfo(wide).tiny)
        return torch.exp(-apart / (2 * class_width**2 * spread))


def check_kinship(kin: torch.Tensor) -> None:
    """Raise ValueError for kinship with NaN or infinity, and for what is no square."""
    if kin.dim() != 2 or kin.shape[0] != kin.shape[1]:
        raise ValueError(f"kin has shape {tuple(kin.shape)}: give the table of `kinship`, (V, V)")
    if not kin.isfinite().all():
        raise ValueError("kin has NaN or infinity: give the table of `kinship` of finite tokens")


def company(kin: torch.Tensor) -> torch.Tensor:
    """1 - 1 / sum_w M_uw (V,) of kinship M (V, V): 0 for a token without kin, near 1 in a large class.

    Without gradient: it is not what the classes are made for. ValueError for NaN and infinity.
    """
    check_kinship(kin)
    return 1 - 1 / kin.detach().sum(-1)


def within_classes(votes: torch.Tensor, kin: torch.Tensor) -> torch.Tensor:
    """votes - log(exp(votes) kin): log-probabilities within a token's class; votes (..., V), kin (V, V).

    Where the product underflows it is its own lower bound, exp(votes), since kin has ones on its diagonal.
    """
    check_kinship(kin)
    wide = torch.promote_types(votes.dtype, torch.float32)
    tiny = torch.finfo(wide).tiny
    with torch.autocast(votes.device.type, enabled=False):
        steep = votes.to(wide)
        steep = steep - steep.amax(-1, keepdim=True)
        total = steep.exp() @ kin.to(wide)
        return (steep - torch.where(total > tiny, total.clamp(min=tiny).log(), steep)).to(votes.dtype)


def aligned_invariance(tokens, mask, structure_ids, word_ids=None) -> torch.Tensor:
    """Mean squared distance of tokens (B, T, D) to the mean of their place in their structure.

    A place is the n-th token under mask (B, T); rows with one of structure_ids (B,) share their places, rows
    with a negative id take no part, and places that one row has are left out. 0 when no place is shared.
    With word_ids (B, T), by which neighbours of one number are one word, rows share words: a word of n tokens
    is n equal parts of it, cut further where the same word of another row has its cuts, each piece a place
    and weighted by its share of a token. Words of as many tokens align as without word_ids.
    In float32 at least. Raises ValueError when rows of one structure differ in length, in tokens or in words:
    they do not align.
    """
    if structure_ids.is_floating_point():
        raise ValueError(f"structure_ids are {structure_ids.dtype}: number the structures with whole numbers")
    named = structure_ids >= 0
    wide = torch.promote_types(tokens.dtype, torch.float32)  # half precision counts to 256
    tokens, mask = tokens[named].to(wide), mask[named].bool()
    groups, ids = structure_ids[named].unique(return_inverse=True)
    if word_ids is None:
        row, column, place = _places(groups, ids, mask)
        weight = torch.ones_like(place, dtype=tokens.dtype)
    else:
        parts = _pieces(ids.tolist(), mask.tolist(), word_ids[named].tolist())  # unprobed: words in pieces
        row, column, place = (ids.new_tensor(part) for part in parts[:3])  # unprobed: words in pieces
        weight = tokens.new_tensor(parts[3])  # unprobed: words in pieces
    states, size = tokens[row, column], int(place.max()) + 1 if len(place) else 1  # (n, D)
    count = states.new_zeros(size).index_add(0, place, torch.ones_like(weight))
    share = states.new_zeros(size).index_add(0, place, weight)
    total = states.new_zeros(size, states.shape[-1]).index_add(0, place, states * weight[:, None])
    weight = weight * (count[place] > 1)
    away = states - total[place] / share[place, None]
    return (away.square().sum(-1) * weight).sum() / weight.sum().clamp(min=1)


def _places(groups, ids, mask) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(row, column, place) of tokens under mask (B, T), the n-th of a row in the n-th place of its group."""
    lengths = mask.sum(1)
    longest = lengths.new_zeros(len(groups)).scatter_reduce(0, ids, lengths, "amax")
    if not torch.equal(longest[ids], lengths):
        row = int((longest[ids] != lengths).nonzero()[0])
        raise ValueError(
            f"a row of {int(lengths[row])} tokens shares its structure with one of {int(longest[ids][row])}: "
            "give their word_ids, by which words align, or different structure_ids"
        )
    place = ids[:, None] * mask.shape[1] + mask.cumsum(1) - 1  # (B, T)
    return *mask.nonzero(as_tuple=True), place[mask]


def _pieces(ids: list[int], mask: list, word_ids: list) -> tuple[list, list, list, list]:
    """(row, column, place, weight) of the pieces of tokens under mask, as in `aligned_invariance`."""
    words = [
        [list(word) for _, word in groupby((t for t, kept in enumerate(keep) if kept), numbers.__getitem__)]
        for keep, numbers in zip(mask, word_ids, strict=True)
    ]
    cuts: dict[tuple[int, int], set[Fraction]] = {}  # of a structure's word
    known: dict[int, int] = {}
    for structure, row in zip(ids, words, strict=True):
        if known.setdefault(structure, len(row)) != len(row):
            raise ValueError(
                f"a row of {len(row)} words shares its structure with one of {known[structure]}: words "
                "align only where a structure fixes their number; give such rows different structure_ids"
            )
        for number, word in enumerate(row):
            cuts.setdefault((structure, number), set()).update(
                Fraction(part, len(word)) for part in range(len(word) + 1)
            )
    first, places = 0, {}
    for where, marks in cuts.items():
        places[where] = first, sorted(marks)
        first += len(marks) - 1
    found: tuple[list, list, list, list] = [], [], [], []
    for row, (structure, own) in enumerate(zip(ids, words, strict=True)):
        for number, word in enumerate(own):
            start, marks = places[structure, number]
            for piece, (low, high) in enumerate(pairwise(marks)):
                column = word[int(low * len(word))]
                for part, value in zip(
                    found, (row, column, start + piece, float((high - low) * len(word))), strict=True
                ):
                    part.append(value)
    return found


class SeparatedSCI(SCITransformer):
    """A decoder that sees abstracted tokens, and whose content passes from the prompt to the logits by slots.

    logits = h A(W)^T + v - log(e^v M) with the votes v = s softmax(q(h) k(S)^T / sqrt(d)) B C[x] C^T: A
    abstracts embeddings, W are the output embeddings, S the slots, B (K, P) their binding to the prompt's
    tokens x, C (V, d_s) unit content vectors from an embedding of their own, M (V, V) the kinship of tokens.
    Where each token is a slot, B C[x] is chi[x] C[x] with the `company` chi: a word without kin has nothing
    to say within its class, and could learn what its neighbours say instead.

    So the probability of a class is structure's, and that of a word within it content's. The kinship takes
    V^2 numbers: for vocabularies of some thousands. do={slot: (B, d_s)} replaces what is bound to a slot; of
    tokens that is the n-th of the columns that hold prompt in any row.
    """

    config_class = SeparatedSCIConfig

    def _build(self, config: SeparatedSCIConfig) -> None:
        hidden, width = config.base_config.hidden_size, config.d_structure
        self.abstraction_layer = AbstractionLayer(hidden, width=2 * width)
        self.down_proj = nn.Linear(hidden, width, bias=False)
        self.down_norm = nn.LayerNorm(width)
        self.structural_encoder = StructuralEncoder(
            width,
            config.n_structural_slots,
            config.n_structural_layers,
            config.n_structural_heads,
            config.dag,
        )
        self.content_embedding = nn.Embedding(config.base_config.vocab_size, width)
        self.content_encoder = ContentEncoder(width, "none")
        if config.content_slots == "structural":
            self.slot_query, self.prompt_key = nn.Linear(width, width), nn.Linear(width, width)
        self.token_query = nn.Linear(hidden, width, bias=False)
        self.slot_key = nn.Linear(width, width, bias=False)
        self.content_scale = nn.Parameter(torch.tensor(float(config.content_scale)))

    def _connect(self, config: SeparatedSCIConfig) -> None:
        head = self.get_output_embeddings()
        flaws = {
            f"is a {type(head).__module__}.{type(head).__name__}": type(head) is not nn.Linear,
            "has a bias": getattr(head, "bias", None) is not None,
            "has a forward or a hook of its own, as after another wrapping": (
                "forward" in vars(head) or head._forward_hooks
            ),
        }
        for flaw in (text for text, present in flaws.items() if present):
            raise ValueError(
                f"the output layer of {type(self.base).__name__} {flaw}: pass a fresh base whose head is a "
                "plain nn.Linear without bias"
            )
        self.get_input_embeddings().register_forward_hook(self._abstract)
        head.register_forward_hook(self._logits)

    resize_token_embeddings = SCITransformer.keep_vocabulary

    def _one_table(self) -> bool:
        """Whether tokens enter the base by the rows of the output layer."""
        embeddings = self.get_input_embeddings()
        return type(embeddings) is nn.Embedding and embeddings.weight is self.get_output_embeddings().weight

    def _abstract(self, embedding: nn.Module, arguments: tuple, output: torch.Tensor) -> torch.Tensor:
        """Forward hook of the input embeddings: what the base decodes from, within `binding`."""
        return output if self._bound is None else self.abstraction_layer(output)

    def _logits(self, head: nn.Module, arguments: tuple, output: torch.Tensor) -> torch.Tensor:
        """Forward hook of the output layer: structure's vote and content's (B, T, V), within `binding`."""
        return output if self._bound is None else self._voted(arguments[0])

    def _voted(self, hidden: torch.Tensor) -> torch.Tensor:
        bound = self._bound.expand(len(hidden))
        votes = self.reads(hidden, bound) @ bound.values  # (B, T, V)
        return F.linear(hidden, bound.table) + within_classes(votes, bound.kinship)

    @staticmethod
    def reads(hidden: torch.Tensor, bound: SeparatedSlots) -> torch.Tensor:
        """The share (B, T, K) of each slot in what tokens (B, T, D) read; rows sum to one."""
        scores = hidden @ bound.keys.transpose(1, 2)
        if bound.filled is not None:
            scores = scores.masked_fill(~bound.filled[:, None], float("-inf"))
        return scores.softmax(-1)

    def _noisy(self, states: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
        if not self.training or not self.config.abstraction_noise:
            return states
        return states + self.config.abstraction_noise * spread.detach().sqrt() * torch.randn_like(states)

    def unhooked(self) -> str:
        """What is wrong where embeddings or head are not those that carry this model's hooks, or ""."""
        for name, part in (
            ("embeddings", self.get_input_embeddings()),
            ("output layer", self.get_output_embeddings()),
        ):
            hooks = part._forward_hooks.values()
            replica = getattr(self, "_is_replica", False)  # which is refused by name
            if not replica and not any(getattr(hook, "__self__", None) is self for hook in hooks):
                return (
                    f"the base's {name} were copied or replaced after from_base (peft's modules_to_save, a "
                    "resize of .base), and content would not reach the answer: change the base before "
                    "from_base wraps it"
                )  # unprobed: no run replaces them
        return ""

    def content_table(self) -> torch.Tensor:
        """Unit content vectors (V, d_s) of all tokens, from an embedding that structure does not touch.

        As in the guide. One that both share is pulled together where words share a structure, and two words
        with one embedding have one content.
        """
        return F.normalize(self.content_encoder(self.content_embedding.weight), dim=-1)

    def content_of(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Unit content vectors (..., d_s) of tokens (...): what do() may bind to a slot."""
        return self.content_table()[input_ids]

    def _chosen(self, structure, tokens, mask) -> torch.Tensor:
        """The binding (B, K, P) of structural slots to the tokens that their queries choose."""
        scores = (
            self.slot_query(structure) @ self.prompt_key(tokens).transpose(1, 2) / tokens.shape[-1] ** 0.5
        )
        return scores.masked_fill(~mask[:, None], float("-inf")).softmax(-1)

    def bind(self, embeddings, input_ids, prompt_mask, do=None):
        """Bound slots, structure (B, K, d_s), edges (B, K, K), variance of an input feature, table (V, D).

        embeddings (B, T, D) are the abstracted tokens; their prompt, and its input_ids (B, T), are read. The
        table is that of the abstracted output embeddings, without noise.
        """
        table = self.abstraction_layer(self.get_output_embeddings().weight)  # (V, D)
        spread = read = table.var(0).mean()
        if not self._one_table():
            words = self.get_input_embeddings()(torch.arange(len(table), device=table.device))
            read = self.abstraction_layer(words).var(0).mean()
        columns = self.prompt_columns(prompt_mask)
        mask = prompt_mask[:, columns].bool()
        tokens = self.down_norm(self.down_proj(self._noisy(embeddings[:, columns], read)))
        encoder = self.structural_encoder
        tokens = encoder.ordered(tokens, mask)  # (B, P, d_s)
        structure = encoder.fill(tokens, mask)
        edges = encoder.edge_predictor(structure)
        structure = encoder.structural_gnn(structure, edges)
        kin, prompt = kinship(table, self.config.class_width), input_ids[:, columns]
        if self.config.content_slots == "tokens":
            slots, weights, filled = tokens, torch.diag_embed(mask.to(tokens.dtype)), mask
        else:
            slots, weights, filled = structure, self._chosen(structure, tokens, mask), None
        contents = self.content_table()
        content = weights @ contents[prompt]  # (B, K, d_s)
        for slot, value in (do or {}).items():
            if not 0 <= slot < content.shape[1] or value.shape != content[:, 0].shape:
                raise ValueError(
                    f"do() on slot {slot} got a value of shape {tuple(value.shape)}: choose a slot from 0 to "
                    f"{content.shape[1] - 1} and pass {tuple(content[:, 0].shape)}"
                )
            held = torch.arange(content.shape[1], device=content.device)[:, None] == slot
            content = torch.where(held, value[:, None].to(content), content)
        votes = self.content_scale * content @ contents.T
        if filled is not None:
            votes = votes * company(kin).to(votes)[prompt, None]
        keys = self.slot_key(slots) @ matrix(self.token_query) / tokens.shape[-1] ** 0.5
        bound = SeparatedSlots(keys, votes, content, weights, self._noisy(table, spread), kin, filled)
        return bound, structure, edges, read, table

    @can_return_tuple
    def forward(
        self,
        input_ids,
        attention_mask=None,
        prompt_mask=None,
        labels=None,
        structure_ids=None,
        do=None,
        word_ids=None,
        num_items_in_batch=None,
        **kwargs,
    ) -> SeparatedSCIOutput:
        """As SCITransformer.forward; structure_ids (B,) add contrastive and aligned invariance loss.

        word_ids (B, T) align rows of one structure word by word where their tokens differ in number.
        The latter is of the abstracted tokens and, where the base is not tied, of their output rows too.
        """
        if kwargs.get("past_key_values") is not None:
            raise ValueError(
                "forward reads the whole prompt and takes no past_key_values: call generate to use the cache"
            )
        if kwargs.pop("inputs_embeds", None) is not None:  # peft passes None
            raise ValueError("forward abstracts the tokens of input_ids and takes no inputs_embeds: pass ids")
        if unknown_keywords(self, kwargs):
            raise ValueError(unknown_keywords(self, kwargs))
        if self._answers_hidden(labels, prompt_mask, structure_ids):
            raise ValueError(HIDDEN)
        if self.unhooked():
            raise ValueError(self.unhooked())
        prompt_mask = self._checked_mask(input_ids, attention_mask, prompt_mask, labels)
        abstracted = self.abstraction_layer(self.get_input_embeddings()(input_ids))
        bound, structure, edges, spread, table = self.bind(abstracted, input_ids, prompt_mask, do)
        with self.binding(bound):
            out = self.base(
                inputs_embeds=self._noisy(abstracted, spread),
                attention_mask=attention_mask,
                labels=labels,
                **kwargs,
            )
        lm_loss = loss = None if labels is None else shared_mean(out.loss, labels)
        contrastive = invariance = None
        if structure_ids is not None:
            whole = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            words = () if word_ids is None else (word_ids,)
            rows = shared_rows(abstracted, whole, structure_ids, *words)
            invariance = aligned_invariance(*rows) / (spread * abstracted.shape[-1])
            if not self._one_table():
                rows = shared_rows(table[input_ids], whole, structure_ids, *words)  # unprobed: two tables
                invariance = invariance + aligned_invariance(*rows) / table.var(0).sum()
            contrastive = self.contrastive.of_ids(*shared_rows(structure, structure_ids))
            extra = self.config.scl_weight * contrastive + self.config.invariance_weight * invariance
            loss = extra + (0 if loss is None else loss)
        loss = self.part_of_step(loss, labels, num_items_in_batch)
        return SeparatedSCIOutput(
            loss, out.logits, structure, edges, bound.content, out.get("hidden_states"), lm_loss, contrastive,
            invariance, bound.weights,
        )  # fmt: skip

    @torch.no_grad()
    def generate(self, input_ids, attention_mask=None, do=None, **kwargs):
        """The base's generate, slots bound once from the whole input, which is the prompt; ids (B, T)."""
        if self.unhooked():
            raise ValueError(self.unhooked())
        attention_mask = self._attended(input_ids, attention_mask, kwargs)
        prompt_mask = self._checked_mask(input_ids, attention_mask, None, None)
        abstracted = self.abstraction_layer(self.get_input_embeddings()(input_ids))
        bound, *_ = self.bind(abstracted, input_ids, prompt_mask, do)
        with self.binding(bound):
            return self.base.generate(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
