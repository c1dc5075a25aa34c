"""The base of the C2DLM experiments: a small diffusion language model and its autoregressive twin."""

from causalnb.experiments.c2dlm.models import base_file, decode, fit, small_llama
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run
from causalnb.tasks import pretraining, words


def base_rows(n: int, seed: int, whole: bool) -> tuple[list[dict], list[dict]]:
    """Encoded (skills, stories) of the mix; with `whole`, every second row is a text without a prompt."""
    rows = [words.encode(*pair) for pair in pretraining.generate(n, seed)]
    parts = [row for i, row in enumerate(rows) if i % 3 < 2], rows[2::3]
    for row in (row for part in parts for row in part[1::2] if whole):
        row["prompt_mask"] = [0] * len(row["input_ids"])
        row["labels"] = row["input_ids"]
    return parts


def base_order(parts: tuple[list[dict], list[dict]], batch: int, window: int = 16) -> list[int]:
    """Numbers of the rows (stories after skills): two batches of skills, one of stories, and so on.

    Among `window` batches rows are grouped by the length of the response: padding is an ordinary target of a
    diffusion model, and one word among sixteen ends of text is hardly learned.
    """
    from random import Random

    draw, batches, start = Random(0), [], 0
    for rows in parts:
        found, size = [], window * batch
        for at in range(0, len(rows), size):
            near = sorted(
                range(at, min(at + size, len(rows))),
                key=lambda i: sum(rows[i]["prompt_mask"]) - len(rows[i]["input_ids"]),
            )
            chunks = [near[i : i + batch] for i in range(0, len(near), batch)]
            draw.shuffle(chunks)
            found += chunks
        batches.append([[start + i for i in chunk] for chunk in found])
        start += len(rows)
    skills, stories = batches
    turns = ((*skills[2 * n : 2 * n + 2], story) for n, story in enumerate(stories))
    return [i for turn in turns for chunk in turn for i in chunk]


def answers_right(model, rows: list[dict], config: dict) -> float:
    """The share of rows whose last word, the answer, is decoded."""
    longest = max(len(row["input_ids"]) - sum(row["prompt_mask"]) for row in rows)
    lengths = dict.fromkeys(("gen_length", "block_length", "decode_steps"), longest)
    said = decode(model, rows, {**config, **lengths})
    names = list(words.VOCABULARY)
    wanted = [
        [names[i] for i, prompt in zip(row["input_ids"], row["prompt_mask"], strict=False) if not prompt][:-1]
        for row in rows
    ]
    last = [-2 if answer[-1] == "}" else -1 for answer in wanted]  # \boxed{ 5 }
    right = [
        len(a) >= 2 and a[at] == b[at] if at == -2 else a[-1:] == b[-1:]
        for a, b, at in zip(said, wanted, last, strict=True)
    ]
    return sum(right) / len(right)


def run_base(run: Run) -> dict:
    """Train one of the twins on the mix and keep its weights, in float16."""
    from transformers import set_seed

    from causalnb.c2dlm import MaskedDiffusionModel
    from causalnb.lab.weights import save_weights

    config = run.config
    rows = base_rows(config["batch"] * config["steps"], run.seed, whole=True)
    order = base_order(rows, config["batch"])
    skills, stories = base_rows(config["evaluation_rows"], run.seed + 10_000, whole=False)
    set_seed(run.seed)
    model = small_llama(config)
    if config["model"] == "diffusion":
        model = MaskedDiffusionModel.from_base(model, words.VOCABULARY["<mask>"])

    def measure(model) -> dict:
        parts = {"skills": scored(skills), "stories": scored(stories)}
        return {name: answers_right(model, rows, config) for name, rows in parts.items()}

    history = fit(run, model, [*rows[0], *rows[1]], order, measure)
    decoder = model.base if config["model"] == "diffusion" else model
    file = base_file(config["model"], config["hidden_size"], run.profile)
    save_weights(decoder, file)
    metrics = {
        "skills": history[-1]["skills"],
        "stories": history[-1]["stories"],
        "parameters": sum(p.numel() for p in decoder.parameters()),
        "megabytes": file.stat().st_size / 1e6,
    }
    return {"metrics": {"": metrics}, "history": history}
