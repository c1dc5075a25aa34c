"""The Causal Transformer beside a vanilla one: step time and peak memory; CPU time on one thread.

A step is forward, loss, backward and AdamW of an encoder of the paper's width. The loss of the fast form is
checked against the one of whole maps, then all steps are run in turn; medians, and the ratio of medians to
the vanilla step, whose attention is the fused kernel. Peak memory, of a whole step too, is taken in a
process of its own.
python -m tests.benchmarks.bench_causal_transformer [--repeats N] [--json PATH]
"""

import torch

from causalnb.causal_transformer import (
    CausalTransformerConfig,
    CausalTransformerForSequenceClassification,
    MarkovBlanketLoss,
)
from causalnb.causal_transformer.fused import KEPT, Visible, attention_with_excess
from tests.benchmarks import common
from tests.benchmarks.bench_sci import medians

LAYERS, TOKENS, VOCABULARY = 1, 1024, 1000  # tokens of a batch, whatever the length of its sentences
HEADS, WIDTH = 8, 64
ARMS = {
    "vanilla": dict(gcn="none", blanket="none"),
    "GCN": dict(gcn="paper", blanket="none"),
    "loss": dict(gcn="none", blanket="hinge"),
    "GCN + loss": dict(gcn="paper", blanket="hinge"),
    "GCN of two hops + loss": dict(gcn="two_hop", blanket="hinge"),
}
LENGTHS = (32, 128, 512)
KEPT_AT = (64, 128, 256, 512, 1024)  # where keeping the map is compared with computing it again
# (T, arm) -> the most it may take beside vanilla
BARS = {(32, "GCN + loss"): 1.10, (128, "GCN + loss"): 1.10, (512, "GCN + loss"): 1.25}
MEMORY_BAR, LONGEST = 1.2, 2048


def model_of(arm: str) -> CausalTransformerForSequenceClassification:
    """An encoder of section 4.2's width with random weights, without dropout."""
    torch.manual_seed(0)
    config = CausalTransformerConfig(
        VOCABULARY, d_model=512, num_heads=8, d_ff=2048, encoder_layers=LAYERS, dropout=0.0, **ARMS[arm]
    )
    return CausalTransformerForSequenceClassification(config).train()


def batch_of(length: int, tokens: int = TOKENS) -> dict:
    """tokens / length sentences, one at least, of random words without padding, and labels."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(3, VOCABULARY, (max(1, tokens // length), length), generator=draw)
    return dict(input_ids=ids, labels=torch.zeros(len(ids), dtype=torch.long))


def step(model, batch: dict):
    """A call that runs forward, loss, backward and the optimiser."""
    optimiser = torch.optim.AdamW(model.parameters(), 1e-5)

    def run():
        optimiser.zero_grad()
        model(**batch).loss.backward()
        optimiser.step()

    return run


def steps(length: int) -> dict:
    """{arm: step} at one length; raises where the loss is not that of the whole maps."""
    batch, found = batch_of(length), {}
    for arm in ARMS:
        model = model_of(arm)
        with torch.no_grad():
            out = model(**batch)
            maps = model(batch["input_ids"], output_attentions=True).encoder_attentions
        if ARMS[arm]["blanket"] == "hinge":
            literal = torch.stack([MarkovBlanketLoss(self_loop=True)(one) for one in maps]).mean()
            torch.testing.assert_close(out.causal_loss, literal, rtol=1e-3, atol=1e-3)
        found[arm] = step(model, batch)
    return found


def kept_or_computed(length: int) -> dict:
    """{"kept", "computed again": attention with tau and its gradients}: what becomes of the map."""
    draw = torch.Generator().manual_seed(0)
    shape = (3, max(1, TOKENS // length), HEADS, length, WIDTH)
    given = [part.requires_grad_() for part in torch.randn(shape, generator=draw)]

    def of(keep: bool):
        def run():
            output, rows, columns = attention_with_excess(*given, Visible(), keep=keep)
            return torch.autograd.grad(output.sum() + (rows * columns).sum(), given)

        return run

    found = {"kept": of(True), "computed again": of(False)}
    for one, other in zip(*(call() for call in found.values()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    return found


def peak(arm: str) -> None:
    """Print the MiB of tensors that one step at the longest length holds at most, after a short one."""
    torch.set_num_threads(1)
    model = model_of(arm)
    step(model, batch_of(32, 64))()
    common.print_peak(step(model, batch_of(LONGEST)))


def measure(repeats: int, say=lambda what: None) -> list[dict]:
    """All rows: what, unit, plain, ours, their ratio, and the bar or None."""
    found = []

    def add(*given):
        found.append(common.row(*given))
        say(given[0])

    for length in LENGTHS:
        times = medians(steps(length), repeats)
        for arm in list(times)[1:]:
            add(f"step, T={length}: {arm}", "ms", times["vanilla"], times[arm], BARS.get((length, arm)))
    for length in KEPT_AT:
        times = medians(kept_or_computed(length), repeats)
        add(
            f"attention with tau, T={length}: map computed again / kept (kept up to {KEPT})",
            "ms",
            times["kept"],
            times["computed again"],
        )
    module = "tests.benchmarks.bench_causal_transformer"
    memory = {arm: common.alone(module, f"peak({arm!r})") for arm in ARMS}
    for arm in list(memory)[1:]:
        bar = MEMORY_BAR if arm == "GCN + loss" else None
        add(f"memory of a step, T={LONGEST}: {arm}", "MiB", memory["vanilla"], memory[arm], bar)
    return found


def main() -> None:
    """Measure, print a table, and add the rows under "causal_transformer" to the file given as --json."""
    common.show(
        "causal_transformer",
        "The Causal Transformer beside a vanilla one: median CPU time on one thread, peak memory of a step",
        __doc__.splitlines()[0],
        measure,
    )


if __name__ == "__main__":
    main()
