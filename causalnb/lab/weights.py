"""A small model's weights in one committed file: half precision, once each."""

from __future__ import annotations

from pathlib import Path

from causalnb.errors import LabError
from causalnb.paths import shown


def save_weights(model, file: Path) -> str:
    """Write a model's weights to `file` in float16, whole or not at all; their sha256. Tied ones go once."""
    import os
    from hashlib import sha256

    import torch
    from safetensors.torch import save_file

    seen, weights = set(), {}
    for name, value in model.state_dict().items():
        if value.data_ptr() not in seen:
            weights[name] = value.detach().to(torch.float16).contiguous()
        seen.add(value.data_ptr())
    file.parent.mkdir(parents=True, exist_ok=True)
    staged = file.with_suffix(".part")
    save_file(weights, staged)
    digest = sha256(staged.read_bytes()).hexdigest()
    os.replace(staged, file)
    return digest


def load_weights(model, file: Path, command: str):
    """The model with the weights of `file`, in float32. LabError says which command makes a missing file."""
    import torch
    from safetensors.torch import load_file

    if not file.is_file():
        raise LabError(f"there is no {shown(file)}: make it with `{command}`.")
    weights = {name: value.to(torch.float32) for name, value in load_file(file).items()}
    state = model.state_dict()
    wrong = [name for name, value in weights.items() if name not in state or state[name].shape != value.shape]
    if wrong:
        raise LabError(f"{shown(file)} has a {wrong[0]} that does not fit: make it again with `{command}`.")
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model
