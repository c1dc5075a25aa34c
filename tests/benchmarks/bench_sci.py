"""SCI's pieces against the guide's loops, and SCI's cost beside a plain decoder: CPU time on one thread.

Each pair is checked to give the same result, then both are run in turn; medians, and the ratio of medians.
python -m tests.benchmarks.bench_sci [--repeats N] [--json PATH]
"""

import argparse
import json
import statistics
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM, logging

from causalnb import sci
from causalnb.experiments.sci.overhead import in_turn
from causalnb.sci import guide
from causalnb.tasks import scan

SLOTS, BATCH = 8, 16
TRAINED = dict(
    vocab_size=1000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=6,
    num_attention_heads=8,
    max_position_embeddings=128,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
TINY_LLAMA = dict(
    vocab_size=32_000,
    hidden_size=2048,
    intermediate_size=5632,
    num_hidden_layers=22,
    num_attention_heads=32,
    num_key_value_heads=4,
)
NEW_TOKENS = 32
WIDTH = 192  # of slots and content, as shipped
# what -> the ratio to keep: at least that many times faster than the guide, at most that many times plain
BARS = {
    "slot messages": 4.0,
    "contrastive loss": 10.0,
    "training step, SCI": 1.10,
    "training step, SCI + contrastive": 1.15,
    "decoding, each token after it": 1.05,
}
LARGEST = {"parameters": 10e6, "share of parameters": 0.01}  # added to TinyLlama's shape


def medians(runs: dict, repeats: int) -> dict:
    """Median CPU milliseconds of each call in `runs`, run in turn `repeats` times after one warm-up."""
    return {name: statistics.median(times) for name, times in in_turn(runs, repeats).items()}


def backward(call, *inputs):
    """A call that runs forward and backward and returns the output and the gradients of the inputs."""

    def run():
        given = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
        out = call(*given)
        out.square().sum().backward()
        return [out.detach(), *(x.grad for x in given if x.grad is not None)]

    return run


def same(one, other, tolerance: float = 1e-3) -> None:
    """Raise unless both calls give the same tensors."""
    for ours, theirs in zip(one(), other(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def intervention(width: int) -> dict:
    """Message passing between slots, forward and backward, three iterations."""
    literal, ours = guide.CausalInterventionLayer(width), sci.CausalInterventionLayer(width, normalize=False)
    ours.load_state_dict(literal.state_dict())
    inputs = torch.randn(BATCH, SLOTS, width), torch.rand(BATCH, SLOTS, SLOTS)
    runs = {"guide": backward(literal, *inputs), "ours": backward(ours, *inputs)}
    same(*runs.values())
    return runs


def contrastive(rows: int) -> dict:
    """The contrastive loss, forward and backward; every row has a positive, so the guide's is equal."""
    ids = torch.arange(rows) // 2
    labels = (ids[:, None] == ids) & ~torch.eye(rows, dtype=torch.bool)
    reps = torch.randn(rows, SLOTS, WIDTH)
    runs = {
        "guide": backward(lambda x: guide.StructuralContrastiveLoss()(x, labels), reps),
        "ours": backward(lambda x: sci.StructuralContrastiveLoss()(x, labels), reps),
    }
    same(*runs.values())
    return runs


def pair_labels(rows: int) -> dict:
    """Which commands share a structure."""
    commands = [command for command, _ in scan.generate()[:: 20_910 // rows][:rows]]
    runs = {
        "guide": lambda: guide.generate_structural_pairs(commands, scan.Grammar()),
        "ours": lambda: sci.generate_structural_pairs(commands, scan.Grammar()),
    }
    assert torch.equal(runs["guide"]().bool(), runs["ours"]())
    return runs


def projection(width: int, method: str) -> dict:
    """Content off the span of the slots, forward and backward; the guide's loop with its axis repaired."""
    content, structure = torch.randn(BATCH, 32, width), torch.randn(BATCH, SLOTS, width)
    structure, _ = torch.linalg.qr(structure.transpose(1, 2))  # orthogonal slots, where the loop is exact too
    structure = structure.transpose(1, 2).contiguous()
    runs = {
        name: backward(sci.OrthogonalProjector(width, how), content, structure)
        for name, how in (("guide", "sequential"), ("ours", method))
    }
    torch.testing.assert_close(runs["guide"]()[0], runs["ours"]()[0], rtol=1e-3, atol=1e-3)
    return runs


def models():
    """The plain decoder and SCI around a copy of it, with the same base weights."""
    torch.manual_seed(0)
    plain, base = LlamaForCausalLM(LlamaConfig(**TRAINED)), LlamaForCausalLM(LlamaConfig(**TRAINED))
    base.load_state_dict(plain.state_dict())
    wrapped = sci.SCITransformer.from_base(base)
    assert wrapped.config.d_structure == WIDTH
    return plain, wrapped


def training() -> dict:
    """A step of AdamW on 16 rows of 48 tokens, 10 of them prompt: plain, SCI, SCI with its loss."""
    plain, wrapped = models()
    ids = torch.randint(3, TRAINED["vocab_size"], (BATCH, 48))
    prompt = (torch.arange(48) < 10).long().expand(BATCH, -1)
    labels = ids.masked_fill(prompt.bool(), -100)
    structures = torch.arange(BATCH) // 2

    def step(model, **inputs):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)  # as the Trainer's default

        def run():
            optimizer.zero_grad()
            loss = model(input_ids=ids, labels=labels, **inputs).loss
            loss.backward()
            optimizer.step()
            return loss.detach()

        return run

    runs = {
        "plain": step(plain.train()),
        "SCI": step(wrapped.train(), prompt_mask=prompt),
        "SCI + contrastive": step(wrapped, prompt_mask=prompt, structure_ids=structures),
    }
    torch.testing.assert_close(runs["plain"](), runs["SCI"](), rtol=1e-5, atol=0)  # binding starts at zero
    return runs


def decoding(new_tokens: int) -> dict:
    """Cached greedy decoding of one prompt of 10 tokens."""
    plain, wrapped = models()
    ids = torch.randint(3, TRAINED["vocab_size"], (1, 10))

    def decode(model):
        return lambda: model.eval().generate(
            input_ids=ids, max_new_tokens=new_tokens, min_new_tokens=new_tokens, do_sample=False
        )

    runs = {"plain": decode(plain), "SCI": decode(wrapped)}
    assert torch.equal(runs["plain"](), runs["SCI"]())  # binding starts at zero
    return runs


def parameters() -> list[dict]:
    """What SCI adds to the benchmark's decoder and to the shape of TinyLlama, at the default width."""
    rows = []
    for name, settings in (("this decoder", TRAINED), ("TinyLlama", TINY_LLAMA)):
        with torch.device("meta"):
            model = sci.SCITransformer.from_base(LlamaForCausalLM(LlamaConfig(**settings)))
        base = sum(p.numel() for p in model.base.parameters())
        added = sum(p.numel() for p in model.parameters()) - base
        rows.append({"what": f"parameters, {name}", "base": base, "added": added, "share": added / base})
    return rows


def measure(repeats: int, say=lambda row: None) -> list[dict]:
    """All rows: what, compared, CPU milliseconds of both, and their ratio."""
    torch.manual_seed(0)
    cases = [(f"slot messages, D={width}", intervention, (width,)) for width in (256, 512)]
    cases += [(f"contrastive loss, B={rows}", contrastive, (rows,)) for rows in (64, 256)]
    cases += [(f"pair labels, B={rows}", pair_labels, (rows,)) for rows in (64, 256)]
    cases += [
        (f"projection {method}, D={width}", projection, (width, method))
        for width in (WIDTH, 2048)
        for method in ("gram", "qr")
    ]
    found = []
    for what, build, settings in cases:
        times = medians(build(*settings), repeats)
        found.append(
            {
                "what": what,
                "against": "guide",
                "reference_ms": times["guide"],
                "ours_ms": times["ours"],
                "guide_over_ours": times["guide"] / times["ours"],
            }
        )
        say(found[-1])
    times = medians(training(), repeats)
    found += [beside_plain(f"training step, {name}", times, name) for name in ("SCI", "SCI + contrastive")]
    say(found[-1])
    times = medians(
        {(name, new): call for new in (1, 1 + NEW_TOKENS) for name, call in decoding(new).items()}, repeats
    )
    first = {name: times[name, 1] for name in ("plain", "SCI")}
    each = {name: (times[name, 1 + NEW_TOKENS] - first[name]) / NEW_TOKENS for name in first}
    found += [
        beside_plain("decoding, prompt and first token", first),
        beside_plain("decoding, each token after it", each),
    ]
    return found


def bar(row: dict) -> str:
    """The ratio that a row has to keep, and whether it does; nothing where none is set."""
    name = row["what"]
    found = [
        limit for what, limit in BARS.items() if name == what or name.startswith((f"{what}, D", f"{what}, B"))
    ]
    if not found:
        return ""
    if "guide_over_ours" in row:
        return f">= {found[0]:g}x, {'kept' if row['guide_over_ours'] >= found[0] else 'MISSED'}"
    return f"<= {found[0]:.2f}x, {'kept' if row['ours_over_plain'] <= found[0] else 'MISSED'}"


def beside_plain(what: str, times: dict, name: str = "SCI") -> dict:
    """A row that compares with the plain decoder."""
    return {
        "what": what,
        "against": "plain",
        "reference_ms": times["plain"],
        "ours_ms": times[name],
        "ours_over_plain": times[name] / times["plain"],
    }


def main() -> None:
    """Measure, print a table, and add the rows under "sci" to the file given as --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="runs of each call after a warm-up (7)")
    parser.add_argument("--json", type=Path, help="a file to write the rows to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    console = Console()
    table = Table(
        "what", "against", "reference", "ours", "ratio", "bar", title="SCI: median CPU ms on one thread"
    )
    with console.status("measuring") as status:
        rows = measure(options.repeats, lambda row: status.update(f"measured: {row['what']}"))
    for row in rows:
        quicker = "guide_over_ours" in row
        ratio = (
            f"{row['guide_over_ours']:.1f}x faster" if quicker else f"{row['ours_over_plain']:.2f}x the time"
        )
        table.add_row(
            row["what"],
            row["against"],
            f"{row['reference_ms']:.2f}",
            f"{row['ours_ms']:.2f}",
            ratio,
            bar(row),
        )
    for row in (added := parameters()):
        within = row["added"] <= LARGEST["parameters"] and row["share"] <= LARGEST["share of parameters"]
        limit = f"<= 10M, 1 %, {'kept' if within else 'MISSED'}" if row["what"].endswith("TinyLlama") else ""
        share = f"{100 * row['share']:.2f} %"
        table.add_row(row["what"], "", f"{row['base']:,}", f"{row['added']:,}", share, limit)
    console.print(table)
    if options.json:
        known = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
        options.json.write_text(
            json.dumps(known | {"sci": {"times": rows, "parameters": added}}, indent=1) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
