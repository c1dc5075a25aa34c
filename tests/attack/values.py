"""One argument of a public function is NaN, negative, no count, empty, or of another shape or type."""

import dataclasses
import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import numpy
import torch

import causalnb.tasks
from causalnb import c2dlm, causal_transformer, iclm, sci
from causalnb.lab import batches, report, results, statistics, tables, verdicts
from causalnb.lab.training import TrainingSettings
from causalnb.tasks import raven, sentence_pairs
from tests.attack.tries import Kind, Seen, Try, seen

COUNT = re.compile(
    r"n|n_\w+|num_\w+|\w*layers|\w*heads|\w+_size|size|count|steps|rows|pairs|tokens|contents|examples|per_\w+|"
    r"\w*width|components|modules|iterations|max_\w+|blanks|sets|dim|d_\w+|gen_length|block_length|attempts|retries|"
    r"random_rows|window|vocabulary|level_count|epochs|evaluate_every"
)
TORCH = (RuntimeError, IndexError, NotImplementedError)  # which name the sizes or types that do not fit
LARGE, SMALL = 40, 12


def draws(seed: int = 0) -> torch.Generator:
    """Chance of its own."""
    return torch.Generator().manual_seed(seed)


def normal(*shape: int) -> torch.Tensor:
    """Always the same."""
    return torch.randn(*shape, generator=draws())


def attention(*shape: int) -> torch.Tensor:
    """Rows that sum to 1."""
    return normal(*shape).softmax(-1)


def graph() -> c2dlm.ConceptGraph:
    """A graph of two edges."""
    return c2dlm.ConceptGraph({"b": ["a"], "c": ["b"]})


def built(make: Callable, *shapes: tuple[int, ...]) -> Callable:
    """A call that makes a module, and gives what it makes of tensors."""

    def call(**given):
        torch.manual_seed(0)
        return make(**given)(*(normal(*shape) for shape in shapes))

    return call


def of_logits(logits, mask, structures=None):
    """A contrastive loss."""
    return sci.StructuralContrastiveLoss()(logits, mask)


def decoder(layers: int = 2):
    """The settings of a small decoder."""
    from transformers import LlamaConfig

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    return LlamaConfig(vocab_size=11, num_hidden_layers=layers, max_position_embeddings=32, **sizes)


def masked_model():
    """A small diffusion model."""
    torch.manual_seed(0)
    return c2dlm.MaskedDiffusionModel(c2dlm.MaskedDiffusionConfig(decoder(), mask_token_id=10)).eval()


def sampled(**given):
    """What a small diffusion model writes."""
    return c2dlm.sample(masked_model(), mask_token_id=10, eos_token_id=2, generator=draws(), **given)


def collated(rows, **given):
    """A batch of masked rows."""
    return c2dlm.MaskedDiffusionCollator(10, 2, **given)(rows)


CALLS: dict[str, tuple[Callable, Mapping]] = {  # what is called, and arguments that are right
    "lab.statistics.mean_ci": (statistics.mean_ci, {"values": [1.0, 2.0, 4.0], "level": 0.95}),
    "lab.statistics.paired": (statistics.paired, {"a": [1.0, 2.0], "b": [0.5, 1.0]}),
    "lab.statistics.sign_flip": (statistics.sign_flip, {"differences": [1.0, 2.0, 0.5]}),
    "lab.statistics.wilson": (statistics.wilson, {"k": 3, "n": 10, "level": 0.95}),
    "lab.verdicts.verdict": (verdicts.verdict, {"differences": [1.0, 2.0, 3.0], "size": 1.0, "direction": 1}),
    "lab.verdicts.reading": (verdicts.reading, {"differences": [1.0, 2.0, 3.0], "size": 1.0}),
    "lab.report.share": (report.share, {"values": [0.5, 0.6, 0.7]}),
    "lab.report.gain": (report.gain, {"values": [0.5, 0.6, 0.7]}),
    "lab.report.tested": (report.tested, {"values": [0.5, 0.6, 0.7]}),
    "lab.results.duration": (results.duration, {"seconds": 100.0}),
    "lab.batches.grouped": (
        batches.grouped,
        {
            "rows": [{"input_ids": [1] * n} for n in range(1, 9)],
            "size": 2,
            "steps": 3,
            "seed": 0,
            "window": 2,
        },
    ),
    "lab.training.TrainingSettings": (
        TrainingSettings,
        {
            "steps": 3,
            "learning_rate": 0.1,
            "warmup": 0.1,
            "weight_decay": 0.1,
            "max_grad_norm": 1.0,
            "evaluate_every": 2,
        },
    ),
    "lab.tables.estimate": (tables.estimate, {"summary": statistics.mean_ci([1.0, 2.0]), "digits": 3}),
    "c2dlm.annotation_cost": (
        c2dlm.annotation_cost,
        {
            "text_tokens": 865.2,
            "prompt_tokens": 1981.0,
            "output_tokens": 295.3,
            "price_in": 0.8,
            "price_out": 2.0,
            "usd_per_cny": 0.14,
        },
    ),
    "c2dlm.gamma_schedule": (
        c2dlm.gamma_schedule,
        {"step": 3, "total_steps": 10, "gamma_min": 0.1, "gamma_max": 1.0, "warmup": 0.1},
    ),
    "c2dlm.Rating": (c2dlm.Rating, {"evaluator": "x", "scores": [[1.0, 0.5], [0.0]]}),
    "c2dlm.spread": (c2dlm.spread, {"accuracies": [0.5, 0.7]}),
    "c2dlm.scripted_rater": (
        c2dlm.scripted_rater,
        {"name": "x", "found": [graph()], "gold": [graph()], "slip": 0.5, "seed": 0},
    ),
    "c2dlm.Endpoint": (
        c2dlm.Endpoint,
        {"url": "http://127.0.0.1:1", "model": "x", "timeout": 1.0, "max_tokens": 10},
    ),
    "c2dlm.annotate": (
        c2dlm.annotate,
        {
            "teacher": c2dlm.RuleTeacher(lambda q, a: {a: [q]}),
            "items": [("q", "a")],
            "retries": 0,
            "wait": 0.0,
        },
    ),
    "c2dlm.diffusion_loss": (
        c2dlm.diffusion_loss,
        {
            "logits": normal(2, 4, 11),
            "input_ids": torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]]),
            "masked": torch.tensor([[0, 0, 1, 1], [0, 0, 1, 0]]).bool(),
            "p": torch.tensor([0.5, 0.5]),
            "prompt_mask": torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]]),
        },
    ),
    "c2dlm.mask_tokens": (
        lambda **given: c2dlm.mask_tokens(mask_token_id=10, generator=draws(), **given),
        {
            "input_ids": torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]]),
            "prompt_mask": torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]]),
            "t": torch.tensor([0.5, 0.5]),
            "eps": 0.001,
        },
    ),
    "c2dlm.mask_in_order": (
        lambda **given: c2dlm.mask_in_order(mask_token_id=10, generator=draws(), **given),
        {
            "input_ids": torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]]),
            "prompt_mask": torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]]),
            "rank": torch.tensor([[0, 0, 1, 2], [0, 1, 2, 3]]),
        },
    ),
    "c2dlm.sample": (
        sampled,
        {
            "prompt_ids": torch.tensor([[1, 2, 3]]),
            "gen_length": 4,
            "block_length": 4,
            "steps": 2,
            "temperature": 0.5,
            "rank": torch.tensor([[0, 1, 2, 3]]),
        },
    ),
    "c2dlm.MaskedDiffusionCollator": (
        collated,
        {
            "rows": [{"input_ids": [1, 2, 3], "prompt_mask": [1, 0, 0]}],
            "eps": 0.001,
            "max_length": 4,
            "enforced": 1.0,
        },
    ),
    "c2dlm.MaskedDiffusionConfig": (
        partial(c2dlm.MaskedDiffusionConfig, decoder()),
        {"mask_token_id": 10, "gamma": 1.0, "reattention": {"alpha": 4.0, "lam": 1.0}},
    ),
    "c2dlm.ReattentionLoss": (c2dlm.ReattentionLoss, {"alpha": 4.0, "lam": 1.0, "chunk_rows": 8}),
    "c2dlm.row_loss": (
        c2dlm.row_loss,
        {"weighted": attention(3, 5), "mask": torch.tensor([[1, -1, 0, 0, 1]] * 3), "alpha": 2.0, "lam": 1.0},
    ),
    "c2dlm.value_weighted_attention": (
        c2dlm.value_weighted_attention,
        {"attention": attention(1, 2, 4, 4), "value": normal(1, 2, 4, 3)},
    ),
    "sci.acyclicity": (sci.acyclicity, {"edges": normal(2, 4, 4).sigmoid()}),
    "sci.aligned_invariance": (
        sci.aligned_invariance,
        {"tokens": normal(4, 3, 8), "mask": torch.ones(4, 3), "structure_ids": torch.tensor([0, 0, 1, 1])},
    ),
    "sci.company": (sci.company, {"kin": attention(5, 5) + 0.1}),
    "sci.kinship": (sci.kinship, {"table": normal(5, 4), "class_width": 0.1}),
    "sci.within_classes": (sci.within_classes, {"votes": normal(2, 5), "kin": attention(5, 5)}),
    "sci.StructuralContrastiveLoss": (sci.StructuralContrastiveLoss, {"temperature": 0.07}),
    "sci.StructureBalancedBatches": (
        lambda **given: list(sci.StructureBalancedBatches(**given)),
        {
            "structures": ["a", "a", "b", "b"],
            "texts": ["p", "q", "r", "s"],
            "random_rows": 2,
            "pairs": 1,
            "steps": 3,
            "seed": 0,
            "window": 2,
        },
    ),
    "sci.AbstractionLayer": (
        built(sci.AbstractionLayer, (1, 3, 8)),
        {"d_model": 8, "residual_gate": 0.1, "width": 4},
    ),
    "sci.OrthogonalProjector": (sci.OrthogonalProjector, {"d_model": 8, "eps": 1e-6}),
    "sci.SCIConfig": (
        partial(sci.SCIConfig, decoder()),
        {
            "n_structural_slots": 2,
            "n_structural_layers": 1,
            "d_structure": 8,
            "n_structural_heads": 2,
            "cbm_layers": [0, 1],
            "n_iterations": 2,
            "scl_weight": 0.1,
            "scl_temperature": 0.07,
        },
    ),
    "sci.SeparatedSCIConfig": (
        partial(sci.SeparatedSCIConfig, decoder(), n_structural_slots=2),
        {"invariance_weight": 100.0, "abstraction_noise": 0.1, "class_width": 0.1, "content_scale": 10.0},
    ),
    "iclm.layer_correlations": (
        iclm.layer_correlations,
        {"first": normal(3, 6, 4), "second": normal(3, 6, 4) ** 2},
    ),
    "iclm.linear_cka": (iclm.linear_cka, {"a": normal(6, 4), "b": normal(6, 4) ** 2}),
    "iclm.pearson": (iclm.pearson, {"a": normal(6, 4), "b": normal(6, 4) ** 2}),
    "iclm.mean_pooled": (
        iclm.mean_pooled,
        {"states": normal(2, 3, 4), "mask": torch.tensor([[1, 1, 0], [1, 1, 1]])},
    ),
    "iclm.mutual_information": (
        iclm.mutual_information,
        {"h_invariant": normal(4, 6), "h_specific": normal(4, 6) ** 2, "clamp": 0.4},
    ),
    "iclm.routed_mutual_information": (
        iclm.routed_mutual_information,
        {
            "h_invariant": normal(4, 6),
            "h_specific": normal(4, 6) ** 2,
            "module": torch.tensor([0, 1, 0, 1]),
            "num_modules": 2,
            "clamp": 0.4,
        },
    ),
    "iclm.routed_alignment": (
        iclm.routed_alignment,
        {
            "h_invariant": normal(4, 6),
            "h_specific": normal(4, 6) ** 2,
            "module": torch.tensor([0, 1, 0, 1]),
            "num_modules": 2,
        },
    ),
    "iclm.shared_batch_norm": (
        lambda a, b, eps: iclm.shared_batch_norm(a, b, eps=eps),
        {"a": normal(4, 6), "b": normal(4, 6), "eps": 1e-5},
    ),
    "iclm.VectorQuantizer": (built(iclm.VectorQuantizer, (4, 6)), {"num_modules": 2, "dim": 6, "nu": 0.25}),
    "iclm.DistanceWeightingRouter": (
        built(iclm.DistanceWeightingRouter, (4, 6)),
        {"num_modules": 2, "dim": 6, "temperature": 1.0},
    ),
    "iclm.SharedBatchNorm": (iclm.SharedBatchNorm, {"width": 6, "modules": 2, "momentum": 0.1, "eps": 1e-5}),
    "iclm.ICLMConfig": (
        partial(iclm.ICLMConfig, decoder()),
        {
            name: part.default
            for name, part in inspect.signature(iclm.ICLMConfig).parameters.items()
            if type(part.default) in (int, float)
        },
    ),
    "iclm.temporal_graph": (
        lambda **given: sorted(map(str, iclm.temporal_graph("mutual_information", **given).edges)),
        {"steps": 2, "modules": 2},
    ),
    "causal_transformer.CausalTransformerConfig": (
        causal_transformer.CausalTransformerConfig,
        {
            name: part.default
            for name, part in inspect.signature(causal_transformer.CausalTransformerConfig).parameters.items()
            if type(part.default) in (int, float)
        },
    ),
    "causal_transformer.attention_pattern": (
        causal_transformer.attention_pattern,
        {"kind": "random", "tokens": 6, "width": 1, "share": 0.25, "seed": 0, "global_tokens": 1},
    ),
    "causal_transformer.attention_with_tau": (
        causal_transformer.attention_with_tau,
        {
            "query": normal(1, 2, 4, 3),
            "key": normal(1, 2, 4, 3) ** 2,
            "value": normal(1, 2, 4, 3),
            "chunk": 2,
        },
    ),
    "causal_transformer.describe": (causal_transformer.describe, {"attention": attention(1, 2, 4, 4)}),
    "causal_transformer.tau": (causal_transformer.tau, {"attention": attention(1, 2, 4, 4)}),
    "causal_transformer.sinkhorn": (
        causal_transformer.sinkhorn,
        {"attention": attention(1, 2, 4, 4), "iterations": 3},
    ),
    "causal_transformer.no_loop": (causal_transformer.no_loop, {"weights": attention(1, 2, 4, 4)}),
    "causal_transformer.markov_blanket_bounds": (causal_transformer.markov_blanket_bounds, {"n": 5}),
    "causal_transformer.MarkovBlanketLoss": (
        causal_transformer.MarkovBlanketLoss,
        {"rho": 1.0, "gamma_max": 10.0, "heads": 2},
    ),
    "tasks.acre.rows": (
        lambda **given: causalnb.tasks.acre.rows(causalnb.tasks.acre.generate(n=2), dense=True, **given),
        {"sets": 2, "seed": 0},
    ),
    "tasks.raven.rows": (lambda n: raven.rows(raven.generate(n=n)), {"n": 2}),
    "tasks.sentence_pairs.counterexamples": (sentence_pairs.counterexamples, {"n": 40, "minority": 0.05}),
}


def of_tasks() -> dict[str, tuple[Callable, Mapping]]:
    """Every function of a task that takes counts or shares, with small ones."""
    found = {}
    for module in pkgutil.iter_modules(causalnb.tasks.__path__):
        task = importlib.import_module(f"causalnb.tasks.{module.name}")
        for name, function in vars(task).items():
            if (
                name.startswith("_")
                or not inspect.isfunction(function)
                or function.__module__ != task.__name__
            ):
                continue
            given = {}
            parts = inspect.signature(function).parameters
            for argument, part in parts.items():
                if COUNT.fullmatch(argument) and "int" in str(part.annotation):
                    given[argument] = (
                        LARGE
                        if argument in ("n_train", "n")
                        else part.default
                        if argument in ("blanks", "examples", "pairs", "steps")
                        and part.default is not part.empty
                        else SMALL
                    )
                elif argument in ("minority", "seed") and part.default is not part.empty:
                    given[argument] = 0.1 if argument == "minority" else part.default
            needed = [a for a, part in parts.items() if part.default is part.empty and a not in given]
            known = {"name": "structures", "task": "purchases"} if name != "hold_out" else {}
            if (
                any(COUNT.fullmatch(argument) for argument in given)
                and set(needed) <= known.keys()
                and name != "read"
            ):
                call = partial(function, **{argument: known[argument] for argument in needed})
                found[f"tasks.{module.name}.{name}"] = call, given
    return found


def plainly(value):
    """A value that can be compared: tensors as lists, NaN as text."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), list(value.shape), plainly(value.tolist())]
    if isinstance(value, numpy.ndarray | numpy.generic):
        return plainly(value.tolist())
    if isinstance(value, torch.nn.Module):
        return [repr(value), *sorted((k, list(v.shape)) for k, v in value.state_dict().items())]
    if isinstance(value, float):
        return repr(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *map(plainly, vars(value).items())]
    if hasattr(value, "to_dict") and not hasattr(value, "columns"):
        return plainly(value.to_dict())
    if isinstance(value, Mapping):
        return [[str(key), plainly(item)] for key, item in value.items()]
    if isinstance(value, list | tuple | set | frozenset | range) or hasattr(value, "column_names"):
        return [*map(plainly, value)]
    return list(map(plainly, islice(value, 50))) if isinstance(value, Iterator) else str(value)


def has_nan(value) -> bool:
    """Whether there is a NaN anywhere in what `plainly` gives; a text for a reader may say diverged."""
    return (
        any(map(has_nan, value)) if isinstance(value, list) else bool(re.search("nan|diverged", str(value)))
    )


def spoiled(random: Random, name: str, value) -> tuple[str, object]:
    """(what was done, a bad value) in the place of a right one."""
    if isinstance(value, torch.Tensor):
        return _tensor(random, value)
    if isinstance(value, bool) or isinstance(value, str):
        return "another text", "nonsense"
    if isinstance(value, int | float):
        odd = [math.nan, math.inf, -math.inf]
        if COUNT.fullmatch(name):
            odd += [-1, -10, 0, 1.5, True] if isinstance(value, int) else [-1.0, 0.0]
        bad = random.choice(odd)
        return repr(bad), bad
    if isinstance(value, list | tuple) and value and all(isinstance(item, int | float) for item in value):
        bad = random.choice(
            [[], [math.nan, *value[1:]], [*value[:-1], math.inf], [None, *value[1:]], [math.nan] * len(value)]
        )
        return repr(bad), bad
    if isinstance(value, list | tuple):
        return "empty", type(value)()
    return "nothing", None


def _tensor(random: Random, value: torch.Tensor) -> tuple[str, torch.Tensor]:
    ways: dict[str, Callable] = {
        "no row": lambda: value[:0],
        "a dimension more": lambda: value[None],
        "a dimension less": lambda: value[0],
        "a row less": lambda: value[..., :-1],
    }
    if value.is_floating_point():
        ways["all NaN"] = lambda: torch.full_like(value, math.nan)
        ways["one NaN"] = lambda: (
            value.clone().view(-1).index_fill(0, torch.tensor([1]), math.nan).view(value.shape)
        )
        ways["whole numbers"] = lambda: value.long()
    else:
        ways["NaN in place of whole numbers"] = lambda: torch.full(value.shape, math.nan)
        ways["sevens"] = lambda: torch.full(value.shape, 7)
        ways["negative"] = lambda: torch.full(value.shape, -3)
        ways["halves"] = lambda: torch.full(value.shape, 0.5)
    how = random.choice([*ways])
    return how, ways[how]()


def called(call: Callable, given: Mapping, tensor: bool) -> Seen:
    """What a call gives; of a tensor's shape and type torch itself may complain."""

    def work():
        try:
            torch.manual_seed(0)
            return plainly(call(**given))
        except TORCH as error:
            if tensor:
                raise ValueError(str(error)) from error
            raise

    return seen(work)


def answered(call: Callable, given: Mapping, name: str, bad, usual: Seen, doc: str) -> Seen:
    """What a call says of a bad value.

    Fair are an error, and what it says without the attack; NaN from NaN in a tensor or a list, which
    shows, and what the docstring says of NaN; zero, another shape or type where the function takes it.
    """
    tensor = isinstance(bad, torch.Tensor)
    came = called(call, {**given, name: bad}, tensor)
    if came.raw or came.refused:
        return came
    number = isinstance(bad, int | float) and not isinstance(bad, bool)
    nan = number and not math.isfinite(bad) or "nan" in repr(bad)
    infinite = "inf" in repr(bad)
    if nan or infinite:
        fair = re.search(r"\bnan\b|diverged", doc, re.I) or not number and has_nan(came.value)
    elif tensor:
        fair = True
    elif number and bad == 0 or isinstance(bad, list | tuple) or bad is None or isinstance(bad, str):
        fair = True
    else:
        fair = False
    return usual if fair else Seen(came.value, f"{name}={bad!r} gave {str(came.value)[:150]}")


def of_calls(random: Random, folder: Path) -> Iterator[Try]:
    """One bad argument of one call."""
    calls = {**CALLS, **of_tasks()}
    known: dict[str, Seen] = {}
    while True:
        place = random.choice(sorted(calls))
        call, given = calls[place]
        if place not in known:
            known[place] = called(call, given, False)
            if known[place].raw or known[place].refused:
                raise RuntimeError(f"{place} does not work undisturbed: {known[place]}")
        name = random.choice([*given])
        how, bad = spoiled(random, name, given[name])
        doc = inspect.getdoc(getattr(call, "func", call)) or ""
        usual = known[place]
        names = (name, name.replace("_", " "), repr(bad)[:20], str(bad)[:20])
        yield Try(
            f"{place}({name}={how})",
            partial(answered, call, given, name, bad, usual, doc),
            lambda: usual,  # noqa: B023
            ("",) if not isinstance(bad, int | float) else names,
            20.0,
        )


KINDS = (Kind("values", of_calls, 1200, 60),)
