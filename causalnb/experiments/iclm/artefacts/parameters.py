"""Parameters that ICLM trains and holds on LLaMA2-7B."""

from causalnb.lab.report import Report, builds

PAPER = {"num_modules": 2, "router_trainable": True, "router_projection": 64}  # the published code's router


def full_size(**settings):
    """An ICLM on a decoder of LLaMA2-7B's shape, without memory: its tensors have shapes and no numbers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from causalnb.iclm import ICLMForCausalLM

    shape = LlamaConfig(
        vocab_size=32_000,
        hidden_size=4096,
        intermediate_size=11_008,
        num_hidden_layers=32,
        num_attention_heads=32,
        tie_word_embeddings=False,
    )
    with torch.device("meta"):
        return ICLMForCausalLM.from_base(LlamaForCausalLM(shape), **settings)


def parameter_counts() -> dict[str, int]:
    """{part: number of parameters} of the paper's model, counted on our classes at full size."""
    model = full_size(**PAPER)
    modules = len(model.modules_in_order())
    adapters = sum(layer.A.numel() + layer.B.numel() for layer in model._adapted.values())
    return {
        "base": sum(p.numel() for p in model.base.parameters()) - adapters,
        "one module's adapters": adapters // modules,
        "all adapters": adapters,
        "router projection": sum(p.numel() for p in model.router.project.parameters()),
        "centroids": model.router.choose.codebook.numel(),
        "fused head": model.aggregation.head.weight.numel(),
        "normalisation": sum(p.numel() for p in model.aggregation.norm.parameters()),
    }


def _rows(profile):
    counts = parameter_counts()
    base = counts.pop("base")
    counts.pop("one module's adapters")
    trained, modules = sum(counts.values()), PAPER["num_modules"] + 2

    def share(part, whole):
        return f"{part / whole:.2%}" if part / whole >= 5e-5 else "below 0.01%"

    for name, n in counts.items():
        yield [name, f"{n:,}", share(n, base), share(n, trained)]
    yield ["all that is trained", f"{trained:,}", share(trained, base), share(trained, trained)]
    yield ["base, frozen, held once here", f"{base:,}", share(base, base), ""]
    yield [f"base, {modules} copies in the published code", f"{modules * base:,}", share(modules, 1), ""]


def _notes(profile) -> str:
    from causalnb.iclm.configuration import LORA

    return (
        f"{PAPER['num_modules']} domain modules, an invariant one and the router; LoRA of rank "
        f"{LORA['r']} on q, k, v and o; the router's {PAPER['router_projection']} features as in "
        "the published code. Counted on our classes at full size, without their numbers."
    )


parameters_table = Report(
    "iclm.parameters",
    ["part", "parameters", "of the base", "of what is trained"],
    [_rows],
    "Parameters of ICLM on LLaMA2-7B",
    _notes,
)


@builds(
    "iclm.parameters",
    parameters_table,
    extra=True,
    printed_as="Section 5.1",
    notebook="30_iclm_modules",
    shows="parameters that ICLM trains and holds on LLaMA2-7B",
)
def parameters(profile):
    """Section 5.1's sentence on parameters, counted."""
