"""A LoRA step on a real decoder, measure by measure: seconds on all cores, beside the step as it is loaded.

A step is forward, loss, backward and AdamW of adapters in all layers, on 16 rows of 32 tokens of SCAN, of
which half are labels. Without the base, in CAUSALNB_BASES or on the hub, nothing is measured.
python -m tests.benchmarks.bench_bases [--repeats N] [--json PATH]
"""

import os
import statistics
import time
from collections.abc import Callable

import torch

from causalnb.apps.bases import with_lora
from causalnb.errors import LabError
from causalnb.experiments.sci.real import every_word
from causalnb.lab import bases
from tests.benchmarks import common

BASE, ROWS, TOKENS, RANK = "google/gemma-3-270m", 16, 32, 16
AIM = 1.5  # seconds a step on two idle cores
MEASURES = {  # name -> (the vocabulary cut to the words in use, bfloat16)
    "as loaded": (False, False),
    "vocabulary cut": (True, False),
    "vocabulary cut, bfloat16": (True, True),
}


def step(cut: bool, half: bool) -> Callable[[], float]:
    """A training step, which returns its loss."""
    kept = bases.pretrained(BASE, every_word({})) if cut else None
    model = kept.model if kept else _whole()
    torch.manual_seed(0)
    model = with_lora(model, RANK).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-4)
    ids = torch.randint(4, model.get_input_embeddings().num_embeddings, (ROWS, TOKENS))
    labels = ids.masked_fill(torch.arange(TOKENS) < TOKENS // 2, -100)

    def run() -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def _whole():
    """The base with all of its vocabulary."""
    from causalnb import checkpoints

    return checkpoints.decoder(bases.downloaded(BASE), dtype=torch.float32)


def seconds(run: Callable[[], float], repeats: int) -> float:
    """Median wall-clock seconds of a call, after one that warms up."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def measure(repeats: int, say: Callable[[str], None]) -> list[dict]:
    """All rows: seconds a step as loaded, and with each measure."""
    torch.set_num_threads(os.cpu_count() or 1)
    found = {}
    for name, settings in MEASURES.items():
        found[name] = seconds(step(*settings), repeats)
        say(name)
    whole = found.pop("as loaded")
    return [common.row(name, "s", whole, each) for name, each in found.items()]


def main() -> None:
    """Measure, print a table, and add the rows under "bases" to the file given as --json."""
    try:
        bases.downloaded(BASE)
    except LabError as error:
        print(f"no step on a real base was timed: {error}")
        return
    title = f"A LoRA step on {BASE}: wall-clock seconds, all cores; aim {AIM} on two idle ones"
    common.show("bases", title, __doc__ or "", measure)


if __name__ == "__main__":
    main()
