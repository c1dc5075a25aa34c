"""The model card beside saved weights: base, data, method, settings, metrics, the command to repeat it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData

FILE = "README.md"
OURS = "<!-- Written by causalnb with the weights; remove this line to keep your own text. -->"
ON_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+")
CARD = {"data", "task", "metrics", "command"}
NO_SETTINGS = {"base_config", "transformers_version", "architectures", "dtype", "model_type"}


def write_card(folder: str | Path, config, method: str, base: str = "", told: Mapping | None = None) -> None:
    """Write the `card` of a model into `folder`, unless another hand wrote one there."""
    text, file = card(config, method, base, told), Path(folder) / FILE
    if not file.exists() or OURS in file.read_text(encoding="utf-8", errors="replace"):
        text.save(file)


def card(config, method: str, base: str = "", told: Mapping | None = None, name: str = "") -> ModelCard:
    """The card of a model with a `config` of transformers.

    method says in words what the model is, base where it started; told has what a training knows: data, task
    (the hub's name of it), metrics {name: number} and command. Raises ValueError for other keys.
    """
    told, name = dict(told or {}), name or config.model_type
    settings = {key: value for key, value in config.to_diff_dict().items() if key not in NO_SETTINGS}
    if unknown := told.keys() - CARD:
        raise ValueError(f"a card has no {min(unknown)!r}: give {', '.join(sorted(CARD))}")
    data, metrics = told.get("data"), told.get("metrics") or {}
    known = ModelCardData(
        library_name="transformers",
        tags=["causalnb", name],
        base_model=base if ON_THE_HUB.fullmatch(base) and not Path(base).exists() else None,
        model_name=name if metrics else None,
        eval_results=[
            EvalResult(
                task_type=told.get("task", "text-generation"),
                dataset_type=re.sub(r"[^\w.-]+", "-", str(data or "unnamed")).strip("-") or "unnamed",
                dataset_name=str(data or "unnamed"),
                metric_type=metric,
                metric_value=value,
            )
            for metric, value in metrics.items()
        ]
        or None,
    )
    unsaid = "not recorded"
    lines = [f"| {metric} | {value:.4g} |" for metric, value in metrics.items()]
    text = "\n".join(
        [
            f"---\n{known.to_yaml()}\n---\n{OURS}\n\n# {name}\n\n{method}\n",
            f"- **Base:** {base or 'none: trained from random weights'}",
            f"- **Data:** {data or unsaid}\n",
            "## Metrics\n",
            *(["| metric | value |", "|---|---|", *lines] if lines else [unsaid]),
            "\n## Settings\n\n```json",
            json.dumps(settings, indent=1, ensure_ascii=False, default=str),
            "```\n\n## To repeat it\n",
            f"```\n{told['command']}\n```" if told.get("command") else unsaid,
            "",
        ]
    )
    return ModelCard(text)
