"""C2DLM beside plain diffusion SFT: step time, peak memory, and sampling speed; CPU time on one thread.

A step is forward, loss and backward. The forms of the loss are checked to agree, then all steps are run in
turn; medians, and the ratio of medians to the plain step. Peak memory is taken in a process of its own.
python -m tests.benchmarks.bench_c2dlm [--repeats N] [--json PATH]
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from causalnb import c2dlm
from tests.benchmarks import common
from tests.benchmarks.bench_sci import medians

MASK, CONCEPTS, ALPHA, LAM = 1, 16, 5.0, 10.0
# what -> T, B, D, H, layers, share of rows that are supervised
SHAPES = {
    "T=1600 D=512": dict(tokens=1600, batch=1, width=512, heads=8, layers=4, share=0.25),
    "T=1600 D=256": dict(tokens=1600, batch=1, width=256, heads=4, layers=4, share=0.25),
    "T=192 D=128": dict(tokens=192, batch=16, width=128, heads=4, layers=4, share=0.5),
}
# form -> settings of the loss; the eager ones are what the fast ones are compared with
FORMS = {
    "plain": None,
    "ratio + neg, all layers": dict(lam=LAM, backend="rows"),
    "ratio + neg, last layer": dict(lam=LAM, backend="rows", layers=[-1]),
    "ratio through mass": dict(lam=0.0, backend="mass"),
    "eager, ratio + neg": dict(lam=LAM, backend="eager"),
    "eager, ratio": dict(lam=0.0, backend="eager"),
}
EQUAL = (("ratio + neg, all layers", "eager, ratio + neg"), ("ratio through mass", "eager, ratio"))
# (shape, form) -> the most it may take beside plain
BARS = {
    ("T=1600 D=512", "ratio + neg, all layers"): 1.15,
    ("T=1600 D=512", "ratio + neg, last layer"): 1.06,
    ("T=1600 D=512", "ratio through mass"): 1.20,  # measured: 1.08 to 1.15
    ("T=1600 D=256", "ratio + neg, all layers"): 1.30,
    ("T=1600 D=256", "ratio + neg, last layer"): 1.10,
    ("T=1600 D=256", "ratio through mass"): 1.30,  # measured: 1.20
    ("T=192 D=128", "ratio + neg, all layers"): 1.25,
}
MEMORY_BAR, MEASURED = 1.25, "T=1600 D=512"
VOCABULARY, PROMPT, GENERATED, BLOCK = 32_000, 32, 64, 32  # of sampling


def decoder(width, heads, layers, vocabulary=1000) -> LlamaForCausalLM:
    """A Llama with random weights, its feed-forward layers four times as wide as the model."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            max_position_embeddings=2048,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
        )
    )


def noised(tokens, batch, share, vocabulary=1000) -> dict:
    """A batch: a tenth of it prompt, a share of the tokens concepts, each caused by the two before it."""
    draw = torch.Generator().manual_seed(0)
    concept = torch.full((tokens,), -1)
    owned = torch.arange(0, tokens, round(1 / share))
    concept[owned] = torch.arange(len(owned)) * CONCEPTS // len(owned)
    relation, number = torch.zeros(CONCEPTS, CONCEPTS), torch.arange(CONCEPTS)
    before = number[:, None] - number
    relation[(before == 1) | (before == 2)], relation[(before == -1) | (before == -2)] = 1, -1
    mask = c2dlm.Supervision(concept, relation, number, torch.zeros(tokens), torch.ones(tokens))
    prompt = (torch.arange(tokens) < tokens // 10).long().tolist()
    rows = [
        dict(
            input_ids=torch.randint(4, vocabulary, (tokens,), generator=draw),
            prompt_mask=prompt,
            supervision=mask,
            draw=i,
        )
        for i in range(batch)
    ]
    return c2dlm.MaskedDiffusionCollator(MASK, 3)(rows)


def model_of(form: str, width, heads, layers, **_) -> c2dlm.MaskedDiffusionModel:
    """The model of a form; every form has the same weights."""
    settings, loss = FORMS[form], None
    if settings is not None:
        chosen = settings.get("layers", "all")
        chosen = chosen if chosen == "all" else [layers + number for number in chosen]
        loss = c2dlm.ReattentionLoss(ALPHA, settings["lam"], chosen, backend=settings["backend"])
    return c2dlm.MaskedDiffusionModel.from_base(decoder(width, heads, layers), MASK, loss).train()


def step(model, batch: dict):
    """A call that runs forward, loss and backward, and returns the loss."""

    def run():
        model.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        return loss.detach()

    return run


def steps(shape: dict) -> dict:
    """{form: step} of one shape; raises where two forms of the same loss differ, in loss or gradients."""
    batch = noised(shape["tokens"], shape["batch"], shape["share"])
    models = {form: model_of(form, **shape) for form in FORMS}
    found = {form: step(model, batch) for form, model in models.items()}
    for pair in EQUAL:
        losses = [found[form]() for form in pair]
        torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-6)
        for one, other in zip(*(models[form].parameters() for form in pair), strict=True):
            close = 1e-5 * float(other.grad.abs().max())
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=close)
    assert not torch.isclose(found["plain"](), found[EQUAL[0][0]](), rtol=1e-3)  # the loss is there at all
    del found["eager, ratio"]  # it costs what the other eager one does
    return found


def peak(form: str, shape: str = MEASURED) -> None:
    """Print the MiB of tensors that one step holds at most, after a short one."""
    torch.set_num_threads(1)
    model, settings = model_of(form, **SHAPES[shape]), SHAPES[shape]
    step(model, noised(64, 1, settings["share"]))()
    batch = noised(settings["tokens"], settings["batch"], settings["share"])
    common.print_peak(step(model, batch))


def peaks(forms) -> dict:
    """{form: MiB} of one step at the largest shape, each in a process of its own."""
    return {form: common.alone("tests.benchmarks.bench_c2dlm", f"peak({form!r})") for form in forms}


@torch.no_grad()
def plain_sample(model, prompt, generated, block):
    """The loop with logits of every position in every pass, which fixes the surest token of the block."""
    ids = torch.cat([prompt, prompt.new_full((len(prompt), generated), MASK)], 1)
    for first in range(prompt.shape[1], ids.shape[1], block):
        for _ in range(block):
            logits = model(input_ids=ids).logits.double()
            logits[..., MASK] = -torch.inf
            sure, token = logits.softmax(-1).max(-1)
            open_here = ids == MASK
            open_here[:, :first], open_here[:, first + block :] = False, False
            place = sure.masked_fill(~open_here, -1).argmax(1, keepdim=True)
            ids.scatter_(1, place, token.gather(1, place))
    return ids


def sampling() -> dict:
    """Both ways of sampling one text, greedily; they fix the same tokens."""
    base = decoder(256, 4, 2, VOCABULARY)
    with torch.no_grad():
        for weight in base.parameters():
            weight.add_(0.1 * torch.randn_like(weight))  # no ties between tokens
    model = c2dlm.MaskedDiffusionModel.from_base(base, MASK).eval()
    prompt = torch.randint(4, VOCABULARY, (1, PROMPT), generator=torch.Generator().manual_seed(0))
    runs = {
        "plain": lambda: plain_sample(model, prompt, GENERATED, BLOCK),
        "sample": lambda: c2dlm.sample(model, prompt, GENERATED, BLOCK, GENERATED),
    }
    assert torch.equal(runs["plain"](), runs["sample"]())
    return runs


def measure(repeats: int, say=lambda what: None) -> list[dict]:
    """All rows: what, unit, plain, ours, their ratio, and the bar or None."""
    found = []

    def add(*given):
        found.append(common.row(*given))
        say(given[0])

    for shape, settings in SHAPES.items():
        times = medians(steps(settings), repeats)
        for form in list(times)[1:]:
            add(f"{shape}: {form}", "ms", times["plain"], times[form], BARS.get((shape, form)))
    memory = peaks([form for form in FORMS if form != "eager, ratio"])
    for form in list(memory)[1:]:
        limit = None if form.startswith("eager") else MEMORY_BAR
        add(f"{MEASURED}: {form}", "MiB", memory["plain"], memory[form], limit)
    times = medians(sampling(), repeats)
    speed = {name: 1e3 * GENERATED / value for name, value in times.items()}
    add(f"sampling, vocabulary {VOCABULARY:,}", "tokens/s", speed["plain"], speed["sample"])
    return found


def main() -> None:
    """Measure, print a table, and add the rows under "c2dlm" to the file given as --json."""
    common.show(
        "c2dlm",
        "C2DLM beside plain diffusion: median CPU time on one thread, peak memory of a step",
        __doc__.splitlines()[0],
        measure,
    )


if __name__ == "__main__":
    main()
