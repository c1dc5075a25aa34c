"""What SCI costs: parameters and operations at TinyLlama's shape, time on a smaller decoder."""

from dataclasses import dataclass, field

from causalnb.lab.registry import Experiment, Run, register

PARTS = ("structural_encoder", "content_encoder", "causal_binding")
STATED = {  # data/paper/sci_table1.csv: millions of parameters, and percent
    "parameters_structural_encoder": 5.0,
    "parameters_content_encoder": 2.0,
    "parameters_causal_binding": 3.0,
    "parameters_total": 10.0,
    "parameters_share": 1.0,
    "flops_largest": 20.0,
}
STATED_STEP = 7.0


def parameters(*modules) -> int:
    """Parameters of modules, each counted once."""
    return sum(p.numel() for p in {id(p): p for module in modules for p in module.parameters()}.values())


def flops(call) -> int:
    """Floating-point operations of the matrix products in call(), as PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def base_model(config: dict):
    """The base decoder on the meta device: shapes without values."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = LlamaConfig(
        vocab_size=config["vocabulary"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_hidden_layers=config["layers"],
        num_attention_heads=config["heads"],
        num_key_value_heads=config["key_value_heads"],
    )
    with torch.device("meta"):
        return LlamaForCausalLM(settings).eval()


def base_flops(base, tokens: int) -> int:
    """Operations of the base's forward on one row of tokens; the 4-D mask spares a look at values."""
    import torch

    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    mask = torch.zeros(1, 1, tokens, tokens, device="meta")
    return flops(lambda: base(input_ids=ids, attention_mask=mask))


def guide_parts(config: dict):
    """(parameters by part, parameters of its second embedding table, operations(N) by part) of the guide's.

    Its encoders read all N tokens, and the binding runs as a whole at each of its layers.
    """
    import torch

    from causalnb.sci import guide

    width, slots = config["hidden_size"], config["structural_slots"]
    with torch.device("meta"):
        structure = guide.StructuralEncoder(width, slots, 2)
        content = guide.ContentEncoder(width, config["vocabulary"])
        binding = guide.CausalBindingMechanism(width, slots, batch_first=True)  # as printed it needs N = K
    embedding = parameters(content.content_embedding)
    sizes = dict(
        zip(
            PARTS, (parameters(structure), parameters(content) - embedding, parameters(binding)), strict=False
        )
    )

    def operations(tokens: int) -> dict[str, int]:
        with torch.device("meta"):
            states, slot_values = torch.zeros(1, tokens, width), torch.zeros(1, slots, width)
            ids, mask = torch.zeros(1, tokens, dtype=torch.long), torch.ones(1, tokens)
        counts = (
            flops(lambda: structure(states, mask)),
            flops(lambda: content(ids, slot_values)),
            len(config["cbm_layers"]) * flops(lambda: binding(slot_values, states, states)),
        )
        return dict(zip(PARTS, counts, strict=False))

    return sizes | {"projection": 0}, embedding, operations


def package_parts(config: dict, base):
    """The same of the package, all N tokens being prompt: the most its encoders can be asked to read."""
    import torch

    from causalnb.sci import SCITransformer

    layers = [layer for layer in config["cbm_layers"] if layer < config["layers"]]
    with torch.device("meta"):
        model = SCITransformer.from_base(
            base,
            n_structural_slots=config["structural_slots"],
            d_structure=config["d_structure"],
            cbm_layers=layers,
        ).eval()
    modules = [getattr(model, part) for part in PARTS]
    projection = (model.down_proj, model.down_norm)
    sizes = {part: parameters(module) for part, module in zip(PARTS, modules, strict=False)}
    sizes["projection"] = parameters(*projection)
    if parameters(model) - parameters(model.base) != sum(sizes.values()):
        raise ValueError("the parts do not add up to the model: name the module that is missing here")
    for module in (*modules, *projection):  # they look at their masks, which a meta tensor has no values for
        module.to_empty(device="cpu")
        for weight in module.parameters():
            torch.nn.init.normal_(weight, std=0.02)
    encode, fill, binding = modules

    def operations(tokens: int) -> dict[str, int]:
        states, mask = torch.randn(1, tokens, config["hidden_size"]), torch.ones(1, tokens)
        kept = {}

        def project():
            kept["tokens"] = model.down_norm(model.down_proj(states))

        def structure():
            kept["slots"], kept["edges"] = encode(kept["tokens"], mask)

        def content():
            kept["content"] = fill(kept["tokens"], kept["slots"])

        def bind():
            bound = binding.bind(kept["slots"], kept["edges"], kept["content"], mask.bool())
            for place in range(len(layers)):
                binding.read(states, bound, place)

        order = {"projection": project, "structural_encoder": structure, "content_encoder": content}
        return {part: flops(call) for part, call in (order | {"causal_binding": bind}).items()}

    return sizes, 0, operations


def run_overhead(run: Run) -> dict:
    """Count the parameters and the operations of one version beside its base."""
    config = run.config
    base = base_model(config)
    version = guide_parts(config) if config["version"] == "guide" else package_parts(config, base)
    sizes, embedding, operations = version
    whole = parameters(base)
    metrics = {f"stated_{name}": value for name, value in STATED.items()}
    metrics |= {f"parameters_{part}": size / 1e6 for part, size in sizes.items()}
    metrics |= {
        "parameters_total": sum(sizes.values()) / 1e6,
        "parameters_share": 100 * sum(sizes.values()) / whole,
        "parameters_base": whole / 1e6,
        "parameters_second_embedding": embedding / 1e6,
    }
    totals = []
    for done, tokens in enumerate(config["tokens"]):
        run.progress(done, len(config["tokens"]), f"{tokens} tokens")
        below, added = base_flops(base, tokens), operations(tokens)
        metrics[f"gflop_base_{tokens}"] = below / 1e9
        metrics |= {f"flops_{part}_{tokens}": 100 * count / below for part, count in added.items()}
        totals.append(100 * sum(added.values()) / below)
        metrics[f"flops_total_{tokens}"] = totals[-1]
    return {"metrics": {"": metrics | {"flops_largest": max(totals)}}, "history": []}


WIDTHS = {"d128": 128, "shipped": None, "d384": 384, "d512": 512, "d1024": 1024, "full": 2048}


@dataclass(frozen=True)
class CountedSettings:
    """A shape whose parameters and operations are counted."""

    version: str = "package"
    d_structure: int | None = None
    vocabulary: int = 32_000
    hidden_size: int = 2048
    intermediate_size: int = 5632
    layers: int = 22
    heads: int = 32
    key_value_heads: int = 4
    structural_slots: int = 8
    cbm_layers: list = field(default_factory=lambda: [6, 11, 16])
    tokens: list = field(default_factory=lambda: [32, 64, 128, 512])


register(
    Experiment(
        id="sci.overhead",
        title="Parameters and operations that SCI adds to TinyLlama's shape",
        run=run_overhead,
        notebook="22_sci_overhead_identifiability",
        arms={"guide": {"version": "guide"}} | {arm: {"d_structure": width} for arm, width in WIDTHS.items()},
        settings={
            "laptop": CountedSettings(),
            "quick": {
                "vocabulary": 500,
                "hidden_size": 64,
                "intermediate_size": 176,
                "layers": 4,
                "heads": 4,
                "key_value_heads": 2,
                "cbm_layers": [1, 2],
                "tokens": [8, 16],
            },
        },
        seeds={"quick": 1, "laptop": 3},  # nothing is drawn: three counts that have to agree
        cost={"quick": 1, "laptop": 8},
    )
)


# --- the time of a step


def in_turn(runs: dict, repeats: int, progress=lambda *_: None) -> dict:
    """CPU milliseconds of each call in `runs`, `repeats` of each, in turn after one warm-up.

    The order is reversed from turn to turn, so that a machine that slows down favours nobody.
    """
    import time

    times = {name: [] for name in runs}
    for turn in range(repeats + 1):
        progress(turn, repeats + 1, "timing")
        for name in list(runs)[:: -1 if turn % 2 else 1]:
            start = time.process_time()
            runs[name]()
            if turn:
                times[name].append(1e3 * (time.process_time() - start))
    return times


def added(times: list[float], before: list[float]) -> float:
    """Percent that a call takes longer than another: the median of the ratios of one turn."""
    from statistics import median

    return 100 * (median(one / other for one, other in zip(times, before, strict=True)) - 1)


def two_models(config: dict):
    """A plain decoder and SCI around a copy of it, with the same base weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from causalnb.sci import SCITransformer

    settings = LlamaConfig(
        vocab_size=config["vocabulary"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_hidden_layers=config["layers"],
        num_attention_heads=config["heads"],
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    plain, base = LlamaForCausalLM(settings), LlamaForCausalLM(settings)
    base.load_state_dict(plain.state_dict())
    return plain, SCITransformer.from_base(base, n_structural_slots=config["structural_slots"])


def training_steps(config: dict, plain, wrapped) -> dict:
    """Calls that make one step of AdamW on the same rows: plain, SCI, SCI with the contrastive loss."""
    import torch

    ids = torch.randint(3, config["vocabulary"], (config["rows"], config["row_tokens"]))
    prompt = (torch.arange(config["row_tokens"]) < config["prompt_tokens"]).long().expand(len(ids), -1)
    labels = ids.masked_fill(prompt.bool(), -100)
    structures = torch.arange(len(ids)) // 2

    def step(model, **inputs):
        optimizer = torch.optim.AdamW(model.train().parameters(), 1e-5, fused=True)  # the Trainer's

        def run():
            optimizer.zero_grad()
            model(input_ids=ids, labels=labels, **inputs).loss.backward()
            optimizer.step()

        return run

    return {
        "plain": step(plain),
        "sci": step(wrapped, prompt_mask=prompt),
        "contrastive": step(wrapped, prompt_mask=prompt, structure_ids=structures),
    }


def decodings(config: dict, plain, wrapped) -> dict:
    """Calls that decode one prompt with the cache: one token, and `new_tokens` more."""
    import torch

    ids = torch.randint(3, config["vocabulary"], (1, config["prompt_tokens"]))

    def decode(model, count):
        return lambda: model.eval().generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
        )

    models = {"plain": plain, "sci": wrapped}
    return {
        (name, count): decode(model, count)
        for count in (1, 1 + config["new_tokens"])
        for name, model in models.items()
    }


def run_time(run: Run) -> dict:
    """Time a training step and a decoded token, plain and with SCI, in turn in this process."""
    from statistics import median

    import torch

    config = run.config
    torch.manual_seed(run.seed)
    plain, wrapped = two_models(config)
    steps = in_turn(training_steps(config, plain, wrapped), config["repeats"], run.progress)
    decoded = in_turn(decodings(config, plain, wrapped), config["repeats"], run.progress)
    new, token = config["new_tokens"], {}
    for name in ("plain", "sci"):
        turns = zip(decoded[name, 1 + new], decoded[name, 1], strict=True)
        token[name] = [(whole - first) / new for whole, first in turns]
    metrics = {
        "step_plain_ms": median(steps["plain"]),
        "step_sci_ms": median(steps["sci"]),
        "step_contrastive_ms": median(steps["contrastive"]),
        "step_sci": added(steps["sci"], steps["plain"]),
        "step_both": added(steps["contrastive"], steps["plain"]),
        "step_contrastive": added(steps["contrastive"], steps["sci"]),
        "first_token_plain_ms": median(decoded["plain", 1]),
        "first_token_sci_ms": median(decoded["sci", 1]),
        "first_token_sci": added(decoded["sci", 1], decoded["plain", 1]),
        "token_plain_ms": median(token["plain"]),
        "token_sci_ms": median(token["sci"]),
        "token_sci": added(token["sci"], token["plain"]),
        "parameters_share": 100 * (parameters(wrapped) / parameters(plain) - 1),
        "stated_step_contrastive": STATED_STEP,
    }
    return {"metrics": {"": metrics}, "history": []}


@dataclass(frozen=True)
class TimedSettings:
    """A shape whose steps are timed."""

    vocabulary: int = 1000
    hidden_size: int = 512
    intermediate_size: int = 1408
    layers: int = 6
    heads: int = 8
    structural_slots: int = 8
    rows: int = 16
    row_tokens: int = 48
    prompt_tokens: int = 10
    new_tokens: int = 16
    repeats: int = 6


register(
    Experiment(
        id="sci.overhead.time",
        title="The time SCI adds to a training step and to a decoded token",
        run=run_time,
        timed=("step_*", "first_token_*", "token_*"),
        notebook="22_sci_overhead_identifiability",
        arms={"timed": {}},
        settings={
            "laptop": TimedSettings(),
            "quick": {
                "vocabulary": 100,
                "hidden_size": 32,
                "intermediate_size": 64,
                "layers": 2,
                "heads": 2,
                "rows": 4,
                "row_tokens": 12,
                "prompt_tokens": 4,
                "new_tokens": 4,
                "repeats": 2,
            },
        },
        seeds={"quick": 2, "laptop": 5},
        cost={"quick": 2, "laptop": 35},
    )
)
