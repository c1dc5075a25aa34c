"""A LoRA step on a real decoder, measure by measure: wall-clock time, each beside the step before it.

A step is forward, loss, backward and AdamW of adapters, on 16 rows of SCAN cut to 32 tokens; grouping is
timed on 64 whole rows. Before that, each is shown to have the loss and the gradients of the one before: a cut
vocabulary those of the whole logits over the tokens kept, frozen layers those of the adapters left.
Cached states cost one pass of the lower layers a row, which is not timed. Without the base, in
CAUSALNB_BASES or on the hub, nothing is measured.
python -m tests.benchmarks.bench_bases [--repeats N] [--json PATH]
"""

import copy
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import torch
from torch import nn
from torch.nn import functional as F

from causalnb import checkpoints
from causalnb.apps.bases import with_lora
from causalnb.errors import LabError
from causalnb.experiments.sci.real import encoded, every_word
from causalnb.lab import bases
from causalnb.lab.training import PromptAnswerCollator
from causalnb.tasks import scan
from causalnb.wrapping import decoder_layers
from tests.benchmarks import common

BASE, ROWS, TOKENS, RANK, GROUPS = "google/gemma-3-270m", 16, 32, 16, 4
AIM = 1500.0  # ms a step on two idle cores
CHAIN = (  # each has what those before it have
    "as loaded, one core",
    "as loaded, all cores",
    "vocabulary cut",
    "label rows alone through the head",
    "lower two thirds frozen",
    "their states cached",
    "bfloat16",
)
GROUPED = ("rows as drawn", "rows grouped by length")
OVER_KEPT = "as loaded, over the tokens kept"  # what a cut vocabulary computes; it is not timed
EQUAL = (
    CHAIN[:2],
    (OVER_KEPT, CHAIN[2]),
    CHAIN[2:4],
    CHAIN[3:5],
    CHAIN[4:6],
    GROUPED,
)


@dataclass
class Step:
    """A training step on batches whose gradients add up; called, it gives the mean loss of their labels."""

    model: nn.Module
    batches: list[dict]
    alone: bool = False  # label rows alone go through the head
    half: bool = False  # bfloat16
    kept: list[int] | None = None  # of the logits, these
    threads: int = os.cpu_count() or 1

    def __post_init__(self):
        self.trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, 1e-4)
        self.labelled = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in self.batches)

    def __call__(self) -> float:
        loss = self.backward()
        self.optimizer.step()
        return loss

    def backward(self) -> float:
        """The loss; its gradients are left in what is trained."""
        torch.set_num_threads(self.threads)
        self.optimizer.zero_grad()
        total = 0.0
        for batch in self.batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
                loss = self.loss(**batch)
            loss.backward()
            total += loss.item()
        return total

    def loss(self, labels: torch.Tensor, **inputs) -> torch.Tensor:
        """A batch's part of the loss."""
        model, inputs = self.model, inputs | {"use_cache": False}
        if self.alone:
            where, wanted = labels[:, 1:] != -100, labels[:, 1:]
            states = model.base_model(**inputs).last_hidden_state[:, :-1][where]
            logits = model.get_output_embeddings()(states).float()
            return F.cross_entropy(logits, wanted[where], reduction="sum") / self.labelled
        if self.kept is None:
            return model(**inputs, labels=labels, num_items_in_batch=self.labelled).loss
        logits = model(**inputs).logits[..., self.kept]
        return model.loss_function(logits, labels, len(self.kept), num_items_in_batch=self.labelled)


def adapted(model: nn.Module, frozen: int = 0) -> nn.Module:
    """The decoder with adapters above its `frozen` layers, drawn by the number of their layer.

    B is drawn in the upper third and 0 below, so that frozen layers have no adapters to miss.
    """
    below = rf".*\.layers\.({'|'.join(map(str, range(frozen)))})\..*" if frozen else None
    model = with_lora(model, RANK, exclude_modules=below).get_base_model().train()
    for number, layer in enumerate(decoder_layers(model)):
        draw = torch.Generator().manual_seed(number)
        for name, weight in layer.named_parameters():
            if "lora_A" in name or ("lora_B" in name and number >= lower(model)):
                nn.init.normal_(weight, std=0.02, generator=draw)
    return model


def lower(model: nn.Module) -> int:
    """The layers in the lower two thirds of a decoder."""
    return 2 * model.config.num_hidden_layers // 3


def above(model: nn.Module, batches: list[dict]) -> tuple[nn.Module, list[dict]]:
    """A copy of the decoder without the lower two thirds, and the batches as what these make of them."""
    model, first = copy.deepcopy(model), lower(model)
    cached = []
    for batch in batches:
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            states = model.base_model(**inputs, use_cache=False, output_hidden_states=True).hidden_states
        kept = {name: batch[name] for name in ("attention_mask", "labels")}
        cached.append({"inputs_embeds": states[first].clone(), **kept})
    del decoder_layers(model)[:first]
    model.config.num_hidden_layers -= first
    if kinds := getattr(model.config, "layer_types", None):
        model.config.layer_types = kinds[first:]
    return model, cached


def halved(model: nn.Module) -> nn.Module:
    """A copy whose frozen maps are kept in bfloat16, as autocast would make them anew in every pass."""
    model = copy.deepcopy(model)
    for part in decoder_layers(model).modules():
        if isinstance(part, nn.Linear) and not part.weight.requires_grad:
            part.to(torch.bfloat16)
    return model


def steps() -> dict[str, Step]:
    """All steps, none of them run: of CHAIN and GROUPED, and OVER_KEPT."""
    base = bases.pretrained(BASE, every_word({}))
    kept, collator = [*base.places], PromptAnswerCollator(base.special("pad"))
    pairs = Random(0).sample(scan.split("simple")[0], 50 * ROWS)
    drawn = encoded([{"text": text, "actions": actions} for text, actions in pairs], base, {})
    mixed = drawn[: GROUPS * ROWS]
    shorter = [{name: row[name][:TOKENS] for name in ("input_ids", "prompt_mask", "labels")} for row in drawn]
    batch = collator([row for row in shorter if len(row["input_ids"]) == TOKENS][:ROWS])
    ids, labels = (torch.tensor(kept)[batch[name].clamp(min=0)] for name in ("input_ids", "labels"))
    uncut = batch | {"input_ids": ids}
    loaded = uncut | {"labels": labels.where(batch["labels"] != -100, -100)}

    def in_batches(rows: list[dict]) -> list[dict]:
        return [collator(rows[at : at + ROWS]) for at in range(0, len(rows), ROWS)]

    whole = adapted(checkpoints.decoder(bases.downloaded(BASE), dtype=torch.float32))
    frozen = adapted(copy.deepcopy(base.model), lower(base.model))
    cut = adapted(base.model)
    upper, cached = above(frozen, [batch])
    by_length = sorted(mixed, key=lambda row: len(row["input_ids"]))
    chain = (
        Step(whole, [loaded], threads=1),
        Step(whole, [loaded]),
        Step(cut, [batch]),
        Step(cut, [batch], alone=True),
        Step(frozen, [batch], alone=True),
        Step(upper, cached, alone=True),
        Step(halved(upper), cached, alone=True, half=True),
    )
    grouped = (Step(cut, in_batches(rows), alone=True) for rows in (mixed, by_length))
    return {
        **dict(zip(CHAIN, chain, strict=True)),
        **dict(zip(GROUPED, grouped, strict=True)),
        OVER_KEPT: Step(whole, [uncut], kept=kept),
    }


def agree(plain: Step, ours: Step) -> None:
    """Raise where steps differ in their loss, or in the gradients of ours, the upper of plain's."""
    (wanted, before), (loss, after) = (
        (step.backward(), [weight.grad.clone() for weight in step.trained]) for step in (plain, ours)
    )
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=0)
    for one, other in zip(after, before[-len(after) :], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5 * float(other.abs().max()))


def check(made: dict[str, Step]) -> float:
    """Raise where a step computes something else than the one before it; what bfloat16 adds to the loss."""
    for plain, ours in EQUAL:
        agree(made[plain], made[ours])
    wanted, loss = (made[name].backward() for name in CHAIN[-2:])
    torch.testing.assert_close(loss, wanted, rtol=0.05, atol=0)
    return loss - wanted


def medians(made: dict[str, Step], repeats: int, say: Callable[[str], None]) -> dict[str, float]:
    """Median wall-clock milliseconds of each step, run in turn after one that warms up."""
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(1 + repeats):
        for name, step in made.items():
            start = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - start))
            say(name)
    return {name: statistics.median(some[1:]) for name, some in times.items()}


def has_bfloat16() -> bool:
    """Whether the processor multiplies in bfloat16, as far as torch tells."""
    able = getattr(torch.cpu, "get_capabilities", dict)()
    return any(has is True for name, has in able.items() if "bf16" in name)


def padded(step: Step) -> int:
    """The tokens of a step's batches, padding included."""
    return sum(batch["input_ids"].numel() for batch in step.batches)


def measure(repeats: int, say: Callable[[str], None]) -> list[dict]:
    """All rows: a step with each measure beside the one before, with all beside none and the aim."""
    made = steps()
    more = check(made)
    del made[OVER_KEPT]
    widths = " and ".join(f"{padded(made[name]):,} tokens as {name}" for name in GROUPED)
    where = "in the processor" if has_bfloat16() else "which the processor has not, so that it is emulated"
    print(f"bfloat16, {where}: loss {more:+.4f}; {GROUPS * ROWS} rows take {widths}, padding included")
    times = medians(made, repeats, say)
    rows = [
        common.row(ours, "ms", times[plain], times[ours])
        for plain, ours in zip(CHAIN, CHAIN[1:], strict=False)
    ]
    drawn, grouped = (times[name] / (GROUPS * ROWS) for name in GROUPED)
    rows.append(common.row(f"{GROUPED[1]}, a row", "ms", drawn, grouped))
    fastest = min(CHAIN[-2:], key=times.__getitem__)
    print(
        f"a step takes {times[fastest] / 1e3:.2f} s ({fastest}): the aim of {AIM / 1e3} s on two idle cores"
    )
    rows.append(common.row("all measures, beside as loaded", "ms", times[CHAIN[1]], times[fastest]))
    return [*rows, common.row("all measures, beside the aim", "ms", AIM, times[fastest])]


def main() -> None:
    """Measure, print a table, and add the rows under "bases" to the file given as --json."""
    try:
        bases.downloaded(BASE)
    except LabError as error:
        print(f"no step on a real base was timed: {error}")
        return
    title = f"A LoRA step on {BASE}: wall-clock time, each measure beside the line before it"
    common.show("bases", title, __doc__ or "", measure)


if __name__ == "__main__":
    main()
