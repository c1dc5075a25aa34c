"""A small model's weights in one committed file: half precision, once each, their sha256 in a file beside."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from causalnb.errors import FileError, LabError
from causalnb.lab import files
from causalnb.paths import shown


def _sums(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def digest(file: Path) -> str:
    """The sha256 that is kept beside weights, as `sha256sum` writes it; "" where there are none."""
    beside = _sums(file)
    try:
        return beside.read_text(encoding="ascii").partition(" ")[0] if beside.exists() else ""
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(beside)} cannot be read ({error}): restore it from git.") from error


def check(file: Path, command: str) -> bytes:
    """The content of a file of weights; LabError if it is not what was written, `command` makes it again."""
    if not file.is_file():
        raise LabError(f"there is no {shown(file)}: make it with `{command}`.")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FileError(f"{shown(file)} cannot be read ({error}): make it readable.") from error
    if sha256(data).hexdigest() != digest(file):
        raise FileError(
            f"{shown(file)} is damaged: its sha256 is not the one in {_sums(file).name}. Restore both from "
            f"git, or make them again with `{command}`."
        )
    return data


def _first_names(model) -> dict:
    """{name: tensor} of a model's state, tensors that share their memory once."""
    found: dict = {}
    for name, value in model.state_dict().items():
        found.setdefault(value.data_ptr(), (name, value))
    return dict(found.values())


def save_weights(model, file: Path) -> str:
    """Write a model's weights to `file` in float16, tied ones once, and beside it their sha256; the sha256.

    A kill between the two files leaves weights that `load_weights` refuses.
    """
    import torch
    from safetensors.torch import save

    data = save({n: v.detach().to(torch.float16).contiguous() for n, v in _first_names(model).items()})
    sums = sha256(data).hexdigest()
    files.write_atomic(file, data)
    files.write_atomic(_sums(file), f"{sums}  {file.name}\n".encode())
    return sums


def load_weights(model, file: Path, command: str):
    """The model with the weights of `file`, in float32.

    LabError, with the `command` that makes them again, if they are missing or damaged, or not all that the
    model has and no others.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    again = f"make it again with `{command}`"
    try:
        weights = {name: value.to(torch.float32) for name, value in load(check(file, command)).items()}
    except SafetensorError as error:
        raise FileError(f"{shown(file)} holds no weights ({error}): {again}.") from error
    wanted = _first_names(model)
    for name in (*wanted, *weights):
        if name not in weights:
            raise LabError(f"{shown(file)} has no {name}: {again}.")
        if name not in wanted or wanted[name].shape != weights[name].shape:
            raise LabError(
                f"{shown(file)} has a {name} of {tuple(weights[name].shape)} that does not fit: {again}."
            )
    model.load_state_dict(weights, strict=False)  # tied ones stand in the file once
    model.tie_weights()
    return model
