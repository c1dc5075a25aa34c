"""The model card beside saved weights: base, data, method, settings, metrics, the command to repeat it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData

FILE = "README.md"
OURS = "<!-- Written by causalnb with the weights; remove this line to keep your own text. -->"
EMPTY = (  # what transformers says of a model of which it knows nothing
    "This is the model card of a 🤗 transformers model that has been pushed on the Hub. This model card has "
    "been automatically generated."
)
ON_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+")
CARD = {"data", "task", "metrics", "command"}
NO_SETTINGS = {"base_config", "transformers_version", "architectures", "dtype", "model_type"}


def plain(told: Mapping | None) -> Mapping | None:
    """What a card is told, with metrics of NumPy and tensors of no axes as numbers of Python."""
    if not isinstance(told, Mapping) or not isinstance(told.get("metrics"), Mapping):
        return told
    numbers = {
        name: value.item() if getattr(value, "ndim", None) == 0 else value
        for name, value in told["metrics"].items()
    }
    return {**told, "metrics": numbers}


def unfit(told: Mapping | None) -> str:
    """What is wrong with what a card is told, or ""."""
    if not isinstance(told or {}, Mapping):
        return f"the card is {told!r}: give a dictionary of {', '.join(sorted(CARD))}"  # unprobed: a fault
    if unknown := (told or {}).keys() - CARD:
        return f"a card has no {min(unknown)!r}: give {', '.join(sorted(CARD))}"  # unprobed: a fault
    metrics = (told or {}).get("metrics") or {}
    if not isinstance(metrics, Mapping):
        return f"the card's metrics are {metrics!r}: give a dictionary of numbers"  # unprobed: a fault
    wrong = [(name, value) for name, value in metrics.items() if type(value) not in (int, float)]
    return f"the card's metric {wrong[0][0]} is {wrong[0][1]!r}: give a number" if wrong else ""


def write_card(folder: str | Path, config, method: str, base: str = "", told: Mapping | None = None) -> None:
    """Write the `card` of a model into `folder`, unless another hand wrote one there."""
    text, file = card(config, method, base, told), Path(folder) / FILE
    if not file.exists() or OURS in file.read_text(encoding="utf-8", errors="replace"):
        text.save(file)


def upload_card(folder: str | Path, config, method: str, base: str = "", told: Mapping | None = None) -> None:
    """As `write_card`, where transformers put the hub's card, or an empty one, whose tags are kept."""
    file = Path(folder) / FILE
    there = ModelCard(file.read_text(encoding="utf-8", errors="replace") if file.exists() else "")
    if _empty(there):
        file.unlink()
    write_card(folder, config, method, base, told)
    written = ModelCard(file.read_text(encoding="utf-8", errors="replace"))
    if OURS in written.text:
        written.data.tags = list(dict.fromkeys([*written.data.tags, *(there.data.tags or [])]))
        written.save(file)


def _empty(there: ModelCard) -> bool:
    """Whether a card is the one that transformers writes of any model, as nobody filled it in."""
    if EMPTY not in there.text:
        return False
    return there.text == ModelCard.from_template(ModelCardData(), model_description=EMPTY).text


def card(config, method: str, base: str = "", told: Mapping | None = None, name: str = "") -> ModelCard:
    """The card of a model with a `config` of transformers.

    method says in words what the model is, base where it started; told has what a training knows: data, task
    (the hub's name of it), metrics {name: number} and command. Raises ValueError for other keys, and for
    metrics that are no numbers of Python.
    """
    told, name = dict(told or {}), name or config.model_type
    settings = {key: value for key, value in config.to_diff_dict().items() if key not in NO_SETTINGS}
    if unknown := told.keys() - CARD:
        raise ValueError(f"a card has no {min(unknown)!r}: give {', '.join(sorted(CARD))}")
    if unfit(told):
        raise ValueError(unfit(told))
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
