"""halves.py RANK FOLDER: one of two processes that hold the halves of batches; says what differs from one.

For each case a model's loss on half of a batch is derived, gradients are averaged over the processes as
DistributedDataParallel does, and loss, gradients and buffers are compared with those of the whole batch.
"""

import copy
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

from causalnb import parallel
from causalnb.c2dlm import MaskedDiffusionCollator, MaskedDiffusionModel, ReattentionLoss, supervision
from causalnb.c2dlm.graph import ConceptGraph
from causalnb.causal_transformer import (
    CausalTransformerConfig,
    CausalTransformerForConditionalGeneration,
    CausalTransformerForSequenceClassification,
    MarkovBlanketLoss,
    markov_blanket_penalty,
)
from causalnb.iclm import ICLMForCausalLM
from causalnb.sci import SeparatedSCI

WORDS, ROWS, TOKENS = 30, 8, 9
SMALL = dict(
    vocab_size=WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2
)


def decoder() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SMALL, pad_token_id=0, bos_token_id=1, eos_token_id=2))


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    """Ids (8, 9) and their mask, the second half of rows much shorter than the first."""
    torch.manual_seed(1)
    ids = torch.randint(4, WORDS, (ROWS, TOKENS))
    mask = (torch.arange(TOKENS) < torch.tensor([9, 8, 9, 7, 4, 5, 4, 5])[:, None]).long()
    return ids * mask, mask


def narrowed(batch: dict) -> dict:
    """A batch without the columns that are padding in all of its rows."""
    wide = int(batch["attention_mask"].sum(1).max())
    return {name: value[:, :wide] for name, value in batch.items()}


def modules(name: str, only=None, routing=False, narrow=False, **settings):
    """An ICLM, and answers that begin after three tokens."""
    torch.manual_seed(2)
    lora = {"r": 2, "dropout": 0.0}
    model = ICLMForCausalLM.from_base(decoder(), lora=lora, num_modules=2, **settings).train()
    for part in model.modules():  # so that modules differ
        if hasattr(part, "B") and part.B.requires_grad:
            torch.nn.init.normal_(part.B, std=0.3)
    ids, mask = padded()
    batch = dict(input_ids=ids, attention_mask=mask, labels=ids.masked_fill((mask == 0), -100))
    batch["labels"][:, :3] = -100
    if routing:
        batch["routing"] = torch.tensor([0, 1, 1, 1, 1, 1, 1, 0])
    if narrow:
        return f"iclm {name}", model, batch, lambda given: model(**narrowed(given)).loss
    if only is None:
        return f"iclm {name}", model, batch, lambda given: model(**given).loss

    def alone(given):
        with model.only(only):
            return model(**given).loss

    return f"iclm {name}", model, batch, alone


def guided(backend: str, graphs=(0, 1, 6), hard: bool = False, **settings):
    """A masked diffusion model with graphs for some of its rows; a part without any has no supervision.

    hard: such a part comes with a mask of queries and keys, in which all are seen.
    """
    model = MaskedDiffusionModel.from_base(
        decoder(), 3, ReattentionLoss(2.0, 1.0, backend=backend, **settings), gamma=1.0
    ).train()
    graph = ConceptGraph.from_json('{"c": ["a"]}')
    places = [(2 * i, 2 * i + 1) for i in range(TOKENS)]
    rows, (ids, _) = [], padded()
    for number in range(ROWS):
        text = "a b d e a b c c c" if number in graphs else "e e e e e e e e e"
        row = {
            "input_ids": ids[number].clamp(min=4).tolist(),
            "prompt_mask": [1] * 6 + [0] * 3,
            "draw": number,
        }
        if number in graphs:
            row["supervision"] = supervision(graph, text, places, response_start=12)
        rows.append(row)
    batch = dict(MaskedDiffusionCollator(3, 2, seed=0)(rows))

    def loss(given):
        if not given["supervision"]["rows"].any():
            given = {name: value for name, value in given.items() if name != "supervision"}
            if hard:
                given["attention_mask"] = torch.ones(len(given["p"]), 1, TOKENS, TOKENS, dtype=torch.bool)
        return model(**given).loss

    return f"c2dlm {backend}, graphs for {graphs}", model, batch, loss


def classifier(mode: str, **settings):
    config = CausalTransformerConfig(
        vocab_size=WORDS, d_model=16, num_heads=2, d_ff=24, encoder_layers=2, dropout=0.0, blanket=mode,
        causal_weight=1.0, pad_token_id=0, bos_token_id=1, eos_token_id=2, blanket_settings=settings,
    )  # fmt: skip
    torch.manual_seed(3)
    model = CausalTransformerForSequenceClassification(config).train()
    ids, mask = padded()
    batch = dict(input_ids=ids, attention_mask=mask, labels=torch.arange(ROWS) % 2)
    return f"causal transformer {mode} {settings}", model, batch, lambda given: model(**given).loss


def translator():
    config = CausalTransformerConfig(
        vocab_size=WORDS, d_model=16, num_heads=2, d_ff=24, encoder_layers=1, decoder_layers=1, dropout=0.0,
        blanket="hinge", causal_weight=1.0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(4)
    model = CausalTransformerForConditionalGeneration(config).train()
    ids, mask = padded()
    batch = dict(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100))
    return "causal transformer, translation", model, batch, lambda given: model(**given).loss


def penalised(mode: str):
    """A BERT under the penalty."""
    torch.manual_seed(5)
    config = BertConfig(
        **SMALL, max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = BertForSequenceClassification(config).train()
    model.bounds = MarkovBlanketLoss(mode)
    ids, mask = padded()
    batch = dict(input_ids=ids, attention_mask=mask, labels=torch.arange(ROWS) % 2)

    def loss(given):
        with markov_blanket_penalty(model, criterion=model.bounds, weight=1.0):
            return model(**given).loss

    return f"penalty {mode}", model, batch, loss


def penalised_decoder():
    """A Llama under the penalty."""
    ids, mask = padded()
    model = decoder().train()
    batch = dict(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100))

    def loss(given):
        with markov_blanket_penalty(model, weight=1.0):
            return model(**given, use_cache=False).loss

    return "penalty on a decoder", model, batch, loss


def separated():
    """SCI separated, rows of one structure in both halves."""
    torch.manual_seed(6)
    model = SeparatedSCI.from_base(
        decoder(), d_structure=8, n_structural_slots=3, abstraction_noise=0.0
    ).train()
    ids = torch.randint(4, WORDS, (ROWS, TOKENS))
    labels = torch.where(torch.arange(TOKENS) < torch.arange(ROWS)[:, None] % 4 + 3, -100, ids)
    batch = dict(input_ids=ids, labels=labels, structure_ids=torch.arange(ROWS) % 3)
    return "sci separated", model, batch, lambda given: model(**given).loss


def counted(name, model, batch, loss, shifts: bool = True):
    """A case as a Trainer asks for it: all labels of a step are counted, the loss times the processes."""
    number = ((batch["labels"][:, 1:] if shifts else batch["labels"]) != -100).sum()

    def part(given):
        return loss(given | {"num_items_in_batch": number}) * parallel.processes()

    return f"{name}, counted", model, batch, part


def cases() -> Iterator[tuple]:
    """(name, model, batch, what gives the loss of a part of it)."""
    data = {"router_settings": {"init": "data"}}
    yield modules("as printed")
    yield modules("own norm of a batch, centroids from data", router_norm="batch", **data)
    yield modules("by distance, alignment", router="distance", weights={"delta": 0.1})
    yield modules(
        "shared layers, all modules", shared_layers=1, information="all", router_trainable=False, **data
    )
    yield modules("norm over tokens", norm_over="tokens", **data)
    yield modules("parts of unlike widths", narrow=True)
    yield modules("logits", aggregation="logit")
    yield modules("modules given", routing=True)
    yield modules("one module", only="invariant")
    yield guided("eager")
    yield guided("rows")
    yield guided("mass")
    yield guided("rows", (0, 1))
    yield guided("mass", (6,), hard=True)
    yield classifier("hinge")
    yield classifier("auglag", heads=2)
    yield translator()
    yield penalised("hinge")
    yield penalised("auglag")
    yield separated()
    yield counted(*modules("as printed"))
    yield counted(*modules("one module", only="invariant"))
    yield counted(*separated())
    yield counted(*translator(), shifts=False)
    yield counted(*penalised_decoder())


def half(value, rank: int):
    """This process's part of a batch."""
    if isinstance(value, dict):
        return {name: half(part, rank) for name, part in value.items()}
    return value.chunk(2)[rank]


def derived(model, loss) -> tuple:
    """(loss, gradients, buffers) of a model after two passes."""
    value = None
    for _ in range(2):
        model.zero_grad()
        value = loss()
        value.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return value.detach(), gradients, {name: part.clone() for name, part in model.named_buffers()}


def main(rank: int, folder: Path) -> None:
    """Print the names of cases, and what differs in them."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    alone = SimpleNamespace(is_available=lambda: False)
    for name, model, batch, loss in cases():
        start = copy.deepcopy(model.state_dict())
        parallel.dist = alone
        whole = derived(model, partial(loss, batch))
        parallel.dist = dist
        model.load_state_dict(start)
        mine = derived(model, partial(loss, half(batch, rank)))
        average = [mine[0].clone(), *(gradient.clone() for gradient in mine[1].values())]
        for part in average:
            dist.all_reduce(part)
            part /= 2
        found = dict(zip(["loss", *mine[1]], average, strict=True)) | mine[2]
        for place, wanted in ({"loss": whole[0]} | whole[1] | whole[2]).items():
            if place not in found or not torch.allclose(found[place], wanted, rtol=1e-3, atol=1e-5):
                print(name, "differs in", place, found.get(place), wanted)
                break
        else:
            print(name, "is equal")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
