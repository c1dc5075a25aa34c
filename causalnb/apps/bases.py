"""The base model that a user names, and its tokenizer: whole, causal where needed, fitting each other."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from causalnb.errors import LabError
from causalnb.paths import moved

SHOWN = 8  # tokens on which a base of an unknown kind is tapped
TINY = re.compile(r"tiny(?::([0-9]{1,9}))?")


def tiny_depth(name: str) -> int | None:
    """The layers of "tiny" (3) or "tiny:<layers>", None for other names; LabError out of range."""
    from causalnb.checkpoints import DEEPEST

    if not (tiny := TINY.fullmatch(name)):
        return None
    depth = int(tiny[1] or 3)
    if not 1 <= depth <= DEEPEST:
        raise LabError(f"--base-model {name} has {depth or 'no'} layers: give at least 1, at most {DEEPEST}.")
    return depth


def mirrored(name: str) -> str:
    """The folder that $CAUSALNB_BASES has under a name, else the name."""
    mirror = moved("CAUSALNB_BASES")
    return str(mirror / name) if mirror and not Path(name).is_dir() and (mirror / name).is_dir() else name


def loaded(name: str, load: Callable, what: str = "language model", by: str = "--base-model"):
    """(model, tokenizer) of a folder, or of a name in $CAUSALNB_BASES or on the hub.

    Raises LabError for what cannot be loaded or padded.
    """
    from transformers.utils import logging

    from causalnb import checkpoints

    logging.disable_progress_bar()
    where = mirrored(name)
    try:
        tokenizer = checkpoints.tokenizer(where)
        model = load(where)
        model.name_or_path = model.config.name_or_path = name  # as cards and configurations tell it
    except Exception as error:  # whatever a half-copied folder makes transformers raise
        tiny = "tiny, " if by == "--base-model" else ""
        why = (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
        raise LabError(
            f"no {what} could be loaded from {by} {name!r} ({why}): give {tiny}a folder that transformers "
            "saved, or a name in the folder CAUSALNB_BASES or, with a network, on the Hugging Face hub."
        ) from error
    return model, tokenizer


def decoder_of(name: str):
    """(decoder, tokenizer) in float32, padded with the end where it has no padding; LabError without one."""
    import torch

    from causalnb import checkpoints

    base, tokenizer = loaded(name, lambda where: checkpoints.decoder(where, dtype=torch.float32))
    if tokenizer.eos_token_id is None:
        raise LabError(f"the tokenizer of {name!r} has no end-of-text token: set its eos_token and save it.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # never read: masked, and no label
    return base, tokenizer


def check_ids(base, tokenizer, ids: Sequence[int], name: str) -> None:
    """LabError for ids that the base does not have, or a base that sees what follows; ids: four or more."""
    import torch

    known = base.get_input_embeddings().num_embeddings
    if max(*ids, tokenizer.eos_token_id, tokenizer.pad_token_id) >= known:
        raise LabError(
            f"the tokenizer of {name!r} has ids beyond the {known} of its model: save them together."
        )
    other = next((id for id in ids if id != ids[3]), tokenizer.eos_token_id)
    with torch.no_grad():
        first = base.eval()(torch.tensor([[*ids[:4]], [*ids[:3], other]])).logits[:, 0]
    if not first.isfinite().all():
        raise LabError(
            f"{name!r} says {float(first[~first.isfinite()][0])} of some words, so its weights are damaged: "
            "copy or download it again."
        )
    if not torch.allclose(*first, rtol=1e-4, atol=1e-5):
        raise LabError(f"{name!r} sees the words that follow: choose a causal decoder as --base-model.")


def admit(model, tokenizer, text: str, name: str) -> None:
    """Show on a text that the tap reproduces a base of a kind that it does not know; LabError where not.

    Gradients are compared in weights of one dimension, norms and biases, which stand in all layers.
    """
    from causalnb import attention

    if model.config.model_type in attention.KNOWN:
        return
    trained = {weight: weight.requires_grad for weight in model.parameters()}
    with _read_right(name):
        try:
            for weight in trained:
                weight.requires_grad_(weight.dim() == 1)
            attention.verify(model.eval(), _shown(model, tokenizer, text))
        finally:
            for weight, asked in trained.items():
                weight.requires_grad_(asked)


def same_maps(model, tokenizer, text: str, name: str, read: Callable) -> None:
    """LabError unless the maps that `read` makes of a tapped model's records are its own, on a text."""
    import torch

    from causalnb import attention

    with _read_right(name):
        with torch.no_grad(), attention.tap(model.eval()) as records:
            model(**_shown(model, tokenizer, text))
        if not all(torch.allclose(read(one), one.attention().float(), 1e-4, 1e-5) for one in records):
            raise ValueError("its maps are not softmax(q k^T s + mask)")


def _shown(model, tokenizer, text: str) -> dict:
    """SHOWN tokens of a text, and an end where there is one."""
    import torch

    ids = (tokenizer(text, add_special_tokens=False)["input_ids"] or [0]) * SHOWN
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return {"input_ids": torch.tensor([[*ids[:SHOWN], *end]], device=model.device)}


@contextmanager
def _read_right(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever a model of another kind makes of the inputs
        from causalnb.attention import KNOWN

        why = (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".:")
        raise LabError(
            f"the attention of {name!r} cannot be read as it is ({why}): choose another base, such as a "
            f"{', '.join(KNOWN)}."
        ) from error


def check_rank(model, rank: int, name: str) -> None:
    """LabError for adapters of a rank above the width of a base, which is no low rank."""
    if rank > model.get_input_embeddings().embedding_dim:
        raise above_width(model, rank, name)


def above_width(model, rank: int, name: str) -> LabError:
    """What is said of adapters of a rank above the width of a base."""
    width = model.get_input_embeddings().embedding_dim
    return LabError(f"--lora is {rank}, and {name} is {width} wide: give a rank below, such as 16.")


def with_lora(model, rank: int, **more):
    """The model in peft's wrapper, with LoRA adapters in all linear layers; alpha is twice the rank."""
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", **more))
