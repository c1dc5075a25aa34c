"""The spurious token game on an autoregressive language model, C2DLM's baseline: gemma, tuned with LoRA.

The rows are those of the encoder in `real`, in the decoder's tokens. There is nothing to guide: what the
model may learn of the game lies in its rows alone, plain or swapped.
"""

from dataclasses import dataclass

from causalnb.experiments.c2dlm.real import NOTEBOOK, QUICK, measured
from causalnb.experiments.c2dlm.real_data import pairs
from causalnb.lab.bases import Pretrained
from causalnb.lab.registry import Experiment, Run, register


@dataclass(frozen=True)
class DecoderSettings:
    """One arm; rows are drawn as RealSettings says."""

    base: str = "google/gemma-3-270m"
    lora_rank: int = 16
    shift: str = "published"
    split_seed: int = 42
    train_rows: int = 1600
    swapped: int = 0  # as in RealSettings
    test_rows: int = 400
    validation_rows: int = 200
    batch: int = 16
    steps: int = 400
    evaluate_every: int = 100
    learning_rate: float = 1e-3  # as SCI's and ICLM's on this base, set beforehand


def rows_of(base: Pretrained, part: list[tuple[str, str]]) -> list[dict]:
    """Rows of (prompt, response): the answer and the end after it are labels."""
    rows = []
    for prompt, response in part:
        asked = base.ids(prompt.rstrip(), special=True)
        answer = [*base.ids(f" {response}"), base.special("eos")]
        rows.append({"input_ids": asked + answer, "prompt_mask": [1] * len(asked) + [0] * len(answer)})
        rows[-1]["labels"] = [-100] * len(asked) + answer
    return rows


def accuracy(model, rows: list[dict], base: Pretrained) -> float:
    """The share of rows whose whole answer greedy decoding gives."""
    from causalnb.lab.evaluation import teacher_forced_matches
    from causalnb.lab.training import PromptAnswerCollator

    return float(teacher_forced_matches(model, rows, PromptAnswerCollator(base.special("pad")), 64).mean())


def run_decoder(run: Run) -> dict:
    """Tune, then answer the i.i.d. and the shifted test."""
    from transformers import set_seed

    from causalnb.apps.bases import with_lora
    from causalnb.experiments.c2dlm.models import row_order
    from causalnb.lab.bases import pretrained
    from causalnb.lab.probes import scored
    from causalnb.lab.training import PromptAnswerCollator, TrainingSettings, train

    config, size = run.config, run.config["batch"]
    parts = pairs(config)
    set_seed(run.seed)
    said = [
        text for some in parts.values() for prompt, answer in some for text in (prompt.rstrip(), f" {answer}")
    ]
    base = pretrained(config["base"], said)
    rows = {part: rows_of(base, some) for part, some in parts.items()}
    model = with_lora(base.model, config["lora_rank"]).get_base_model().to(run.device)
    order = row_order(len(rows["train"]), size, config["steps"], run.seed)
    history = train(
        model,
        [rows["train"][i] for i in order],
        PromptAnswerCollator(base.special("pad")),
        [list(range(at, at + size)) for at in range(0, len(order), size)],
        TrainingSettings.of(config, seed=run.seed),
        run.folder,
        lambda model: {"accuracy": accuracy(model, scored(rows["validation"]), base)},
        run.progress,
        run.device,
    )
    metrics = measured(model, rows, lambda some: accuracy(model, some, base))
    return {"metrics": metrics, "history": history, "bases": {base.name: base.digest}}


register(
    Experiment(
        id="c2dlm.real.decoder",
        title="The spurious token game on gemma-3-270m with LoRA, size L",
        run=run_decoder,
        notebook=NOTEBOOK,
        arms={"autoregressive": {}, "swapped": {"swapped": 10}},
        settings={
            "laptop": DecoderSettings(),
            "quick": {**QUICK, "lora_rank": 2},
            "gpu": {"base": "google/gemma-3-1b-pt", "steps": 1200, "evaluate_every": 200},
        },
        seeds={"quick": 1, "laptop": 1, "gpu": 3},
        cost={"quick": 4, "laptop": 5000, "gpu": 350},
    )
)
