"""ICLM beside plain LoRA on the same base, rows and label-row head: step time, peak memory; CPU, one thread.

A step is forward, loss, backward and AdamW. The mutual information is checked against its literal form first.
With CAUSALNB_ICLM_REFERENCE at a copy of the published implementation its step is timed beside ours.
python -m tests.benchmarks.bench_iclm [--repeats N] [--json PATH]
"""

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from causalnb import iclm
from tests.benchmarks import common
from tests.benchmarks.bench_sci import medians

WIDTH, LAYERS, VOCABULARY, BATCH, TOKENS, ANSWER = 256, 6, 4096, 8, 256, 6
REFERENCE = "CAUSALNB_ICLM_REFERENCE"
# form -> settings; the first is the plain LoRA step. The router is frozen unless said
FORMS = {
    "plain": dict(num_modules=1, invariant=False, aggregation="own"),
    "N = 2": dict(num_modules=2),
    "N = 6": dict(num_modules=6),
    "N = 16": dict(num_modules=16),
    "N = 2, cached router states": dict(num_modules=2),
    "N = 2, lower half shared": dict(num_modules=2, shared_layers=LAYERS // 2),
    "N = 2, trained router": dict(num_modules=2, router_trainable=True),
    "N = 2, logits": dict(num_modules=2, aggregation="logit"),  # without a trained head, nor its gradient
}
BARS = {"N = 2": 2.5, "N = 6": 2.5, "N = 16": 2.5, "N = 2, cached router states": 2.1}
GROWTH, MEMORY, FASTER = 1.05, 2.0, 20.0
ROWS, FEATURES = 48, 1024  # of the mutual information


def base() -> LlamaForCausalLM:
    """A Llama with random weights."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            intermediate_size=4 * WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=8,
            max_position_embeddings=TOKENS,
        )
    )


def rows() -> dict:
    """A batch whose last tokens are the answer."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(VOCABULARY, (BATCH, TOKENS), generator=draw)
    labels = ids.clone()
    labels[:, :-ANSWER] = -100
    return dict(input_ids=ids, labels=labels)


def trained(model, loss_of):
    """A call that runs one whole step of a model and returns the loss."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-4)

    def run():
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return run


def step(form: str):
    """A whole step of a form; the plain one is routed by nobody."""
    settings = {"router_trainable": False} | FORMS[form]
    model, batch = iclm.ICLMForCausalLM.from_base(base(), **settings).train(), rows()
    if form == "plain" or "cached" in form:
        batch["router_states"] = model.router_states(**batch)
    return trained(model, lambda: model(**batch).loss)


def peak(form: str) -> None:
    """Print the MiB of tensors that one step holds at most."""
    torch.set_num_threads(1)
    common.print_peak(step(form))


def literal_information(invariant, specific):
    """Equation 2 with the joint distribution of every row by itself: (n, C, C)."""
    p, q = invariant.softmax(-1), specific.softmax(-1)
    joint = (p[:, :, None] * q[:, None]).mean(0)
    product = p.mean(0)[:, None] * q.mean(0)
    return (joint * (joint.log() - product.log())).sum()


def information() -> dict:
    """The literal form and ours, forward and backward, checked to agree."""
    torch.manual_seed(0)
    states = torch.randn(2, ROWS, FEATURES, dtype=torch.float64).mul(2)

    def of(form, given):
        given = given.detach().requires_grad_()
        form(*given).backward()
        return given.grad

    torch.testing.assert_close(
        of(literal_information, states), of(iclm.mutual_information, states), rtol=1e-8, atol=1e-14
    )
    states = states.float()
    return {
        "plain": lambda: of(literal_information, states),
        "ours": lambda: of(iclm.mutual_information, states),
    }


def reference(modules: int):
    """A step of the published implementation, from the folder that CAUSALNB_ICLM_REFERENCE names."""
    sys.path.insert(0, str(Path(os.environ[REFERENCE]) / "src"))
    published = import_module("modular_lm.model.modular")
    with tempfile.TemporaryDirectory() as folder:
        base().save_pretrained(folder)
        model = published.ModularModel(
            published.ModularConfig(
                base_model_path=folder,
                base_model_config={},
                nb_modules=modules,
                mi_dim_reduce_method="no",
                routing_strategy_name="InputReductionQuantizer",
                routing_strategy_config=dict(
                    num_embeddings=modules, embedding_dim=WIDTH, quantize_fn="vector", reduction_dim=64
                ),
                is_peft=True,
                hidden_size=WIDTH,
                vocab_size=VOCABULARY,
                peft_config=dict(
                    peft_type="LORA",
                    task_type="CAUSAL_LM",
                    r=8,
                    lora_alpha=16,
                    lora_dropout=0.05,
                    target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
                    bias="none",
                ),
            )
        ).train()
    batch = rows() | {"attention_mask": torch.ones(BATCH, TOKENS, dtype=torch.long)}

    def loss():
        out = model(**batch)
        return out.loss + 0.1 * out.routing_loss + 0.01 * out.mi_loss

    return trained(model, loss)


def measure(repeats: int, say=lambda what: None) -> list[dict]:
    """All rows: what, unit, plain, ours, their ratio, and the bar or None."""
    found = []

    def add(*given):
        found.append(common.row(*given))
        say(given[0])

    steps = {form: step(form) for form in FORMS}
    if os.environ.get(REFERENCE):
        steps |= {f"published, N = {modules}": reference(modules) for modules in (2, 6)}
    times = medians(steps, repeats)
    for form in list(times)[1:]:
        add(f"step, {form}", "ms", times["plain"], times[form], BARS.get(form))
    add("step, N = 16 beside N = 2", "ms", times["N = 2"], times["N = 16"], GROWTH)
    memory = {
        form: common.alone("tests.benchmarks.bench_iclm", f"peak({form!r})")
        for form in ("plain", "N = 2", "N = 16", "N = 2, logits")
    }
    for form in list(memory)[1:]:
        add(f"peak memory of a step, {form}", "MiB", memory["plain"], memory[form], MEMORY)
    times = medians(information(), repeats)
    add(f"mutual information, C = {FEATURES}", "ms", times["plain"], times["ours"], 1 / FASTER)
    return found


def main() -> None:
    """Measure, print a table, and add the rows under "iclm" to the file given as --json."""
    common.show(
        "iclm",
        "ICLM beside plain LoRA: median CPU time on one thread, peak memory of a step",
        __doc__.splitlines()[0],
        measure,
    )


if __name__ == "__main__":
    main()
