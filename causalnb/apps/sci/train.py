"""Train SCI on SCAN over a base model, going on where an interrupted training stopped."""

from collections.abc import Callable
from pathlib import Path

from causalnb.errors import LabError, sentence
from causalnb.lab.probes import scored

from ..training import Prepared, train_prepared
from .base import TINY, build, fits
from .data import INPUTS, held_out, sample, scan_pairs, scan_rows
from .settings import Settings

VALIDATION_ROWS, CURVE_ROWS = 200, 200


def prepare(settings: Settings, processes: int = 1) -> Prepared:
    """Data, model and batches of the settings; an epoch passes once through the batches' random rows."""
    from transformers import set_seed

    from causalnb.lab.evaluation import teacher_forced_matches
    from causalnb.lab.training import PromptAnswerCollator
    from causalnb.sci import StructureBalancedBatches

    pairs, test = scan_pairs(settings.dataset, settings.split)
    if settings.batch_size % processes:
        raise LabError(
            f"--batch-size {settings.batch_size} cannot be shared evenly by {processes} processes: give a "
            f"multiple of {processes}."
        )
    set_seed(settings.seed)
    model, tokenizer = build(settings)
    level, curve = settings.structure_level, sample(test, CURVE_ROWS)
    rows, validation = held_out(scan_rows(pairs, tokenizer, level), VALIDATION_ROWS)
    curve = scan_rows(curve, tokenizer, level)
    fits(model, [*rows, *curve], settings.base_model)
    paired = settings.batch_size // 5  # two rows each
    random_rows = settings.batch_size - 2 * paired
    epoch = -(-len(rows) // random_rows)
    steps = min(settings.epochs * epoch, settings.max_steps or settings.epochs * epoch)
    try:
        batches = StructureBalancedBatches(
            [row["structure"] for row in rows],
            [row["text"] for row in rows],
            random_rows,
            paired,
            steps,
            settings.seed,
            lengths=[len(row["input_ids"]) for row in rows],
        )
    except ValueError as error:
        raise LabError(f"--batch-size {settings.batch_size} is too large: {sentence(error)}.") from error
    whole, base = (sum(p.numel() for p in part.parameters()) for part in (model, model.base))
    plainly = PromptAnswerCollator(tokenizer.pad_token_id, INPUTS)

    def measure(model) -> dict:
        return {
            "validation": float(teacher_forced_matches(model, scored(validation), plainly).mean()),
            "test_sample": float(teacher_forced_matches(model, scored(curve), plainly).mean()),
        }

    return Prepared(
        model,
        tokenizer,
        rows,
        PromptAnswerCollator(tokenizer.pad_token_id, (*INPUTS, "structure_ids")),
        batches,
        settings.evaluate_every or min(epoch, -(-steps // 5)),
        settings.learning_rate or (2e-3 if TINY.fullmatch(settings.base_model) else 1e-4),
        f"{settings.base_model}: {base:,} parameters, SCI adds {whole - base:,}; it binds after layers "
        f"{', '.join(map(str, model.config.cbm_layers))}; {len(rows):,} commands",
        measure,
    )


def said(scores: dict) -> str:
    """An evaluation in words, "exact match 0.81 on validation, 0.02 on a sample ..."."""
    return (
        f"exact match {scores['validation']:.3f} on validation, {scores['test_sample']:.3f} on a sample of "
        "the test rows"
    )


def train_sci(
    settings: Settings,
    output: Path,
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int, str], None] = lambda done, total, note: None,
    device: str | None = None,
) -> dict:
    """Train SCI and save it with its tokenizer and settings in `output`, as `train_prepared` does."""
    return train_prepared(
        lambda processes: prepare(settings, processes), settings.record(), output, said, say, progress, device
    )
