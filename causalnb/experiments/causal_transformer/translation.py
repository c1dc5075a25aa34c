"""One arm on translation: train on pairs of sentences, decode the test parts, score them by BLEU."""

from causalnb.errors import LabError
from causalnb.experiments.causal_transformer.data import BOS, EOS, PAD, padded, parts
from causalnb.experiments.causal_transformer.models import (
    EXAMPLE,
    fit,
    map_measures,
    read_tokens,
    settings,
    shown_map,
)
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run
from causalnb.tasks import bpe

IGNORED = -100


def bleu_metric(**settings):
    """sacrebleu's BLEU, by default with its own settings; LabError where sacrebleu is not installed."""
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise LabError(
            "BLEU needs the package sacrebleu, which is not installed: run `pip install sacrebleu`."
        ) from None
    return BLEU(**settings)


def sentence_counts(said: list[str], references: list[str]) -> str:
    """What corpus BLEU is summed from, "6 7 6 4 3 2;..." for sentence after sentence.

    Words written, words of the reference, and common 1- to 4-grams, by sacrebleu's default tokenization.
    """
    score, rows = bleu_metric(effective_order=True).sentence_score, []
    for one, reference in zip(said, references, strict=True):
        found = score(one, [reference])
        rows.append(" ".join(map(str, (found.sys_len, found.ref_len, *found.counts))))
    return ";".join(rows)


def encoded(rows: list[dict], tokenizer) -> list[dict]:
    """input_ids of `<s> source </s>` and labels `target </s>` of each row."""
    sources, targets = (
        tokenizer([row[side] for row in rows], return_attention_mask=False)["input_ids"]
        for side in ("source", "target")
    )
    return [{"input_ids": one, "labels": two[1:]} for one, two in zip(sources, targets, strict=True)]


def collate(rows: list[dict]) -> dict:
    """A batch of encoded rows: input_ids and attention_mask (B, S), labels (B, T) with -100 on padding."""
    return padded(rows, ("input_ids",)) | {"labels": padded(rows, ("labels",), IGNORED)["labels"]}


def build_translator(config: dict, vocabulary: int, steps: int):
    """The encoder-decoder of an arm over a vocabulary."""
    from causalnb.causal_transformer import CausalTransformerConfig, CausalTransformerForConditionalGeneration

    return CausalTransformerForConditionalGeneration(
        CausalTransformerConfig(
            vocab_size=vocabulary,
            decoder_layers=config["decoder_layers"],
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            label_smoothing=config["label_smoothing"],
            **settings(config, steps),
        )
    )


def by_batch(model, rows: list[dict], size: int = 128):
    """(row numbers, batch on the model's device) of encoded rows, those of like lengths together."""
    from causalnb.lab.evaluation import by_length

    for chosen in by_length([len(row["input_ids"]) for row in rows], size):
        given = collate([rows[i] for i in chosen])
        yield chosen, {name: value.to(model.device) for name, value in given.items()}


def told(model, rows: list[dict]) -> dict[str, float]:
    """validation_loss, nats a label, and accuracy, the share of labels that are the likeliest."""
    import torch
    import torch.nn.functional as F

    model.eval()
    sums = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for _, given in by_batch(model, rows):
            real = given["labels"] != IGNORED
            logits, labels = model(**given).logits[real], given["labels"][real]
            sums += torch.tensor(
                [
                    F.cross_entropy(logits, labels, reduction="sum").item(),
                    (logits.argmax(-1) == labels).sum().item(),
                    len(labels),
                ]
            )
    return {"validation_loss": float(sums[0] / sums[2]), "accuracy": float(sums[1] / sums[2])}


def translations(model, rows: list[dict], tokenizer, beams: int, longest: int) -> list[str]:
    """The text that the model writes for each encoded row, greedily or with `beams`, of `longest` tokens."""
    import torch

    model.eval()
    found = [""] * len(rows)
    with torch.no_grad():
        for chosen, given in by_batch(model, rows):
            out = model.generate(
                input_ids=given["input_ids"],
                attention_mask=given["attention_mask"],
                num_beams=beams,
                do_sample=False,
                max_new_tokens=longest,
            )
            for i, text in zip(chosen, tokenizer.batch_decode(out, skip_special_tokens=True), strict=True):
                found[i] = text.strip()
    return found


def attention_of(model, rows: list[dict]) -> dict[str, dict[str, float]]:
    """{stack: `map_measures`} in encoder and decoder, the right answers read."""
    import torch

    ((_, given),) = by_batch(model, rows, len(rows))
    model.eval()
    with torch.no_grad():
        out = model(**given, output_attentions=True)
    return {
        "encoder": map_measures(out.encoder_attentions, given["attention_mask"]),
        "decoder": map_measures(out.decoder_attentions, given["labels"] != IGNORED, causal=True),
    }


def example_maps(model, tokenizer) -> list[dict]:
    """`shown_map` of both stacks: the encoder reads the paper's premise, the decoder the hypothesis."""
    import torch

    ((_, given),) = by_batch(
        model, encoded([dict(zip(("source", "target"), EXAMPLE, strict=False))], tokenizer)
    )
    model.eval()
    with torch.no_grad():
        out = model(**given, output_attentions=True)
    read = {
        "encoder": given["input_ids"],
        "decoder": model.prepare_decoder_input_ids_from_labels(given["labels"]),
    }
    return [
        row
        for stack, ids in read.items()
        for row in shown_map(stack, out[f"{stack}_attentions"], read_tokens(ids, tokenizer))
    ]


def run_translation(run: Run) -> dict:
    """BLEU (0 to 100) of the test parts, greedy and with beams.

    The history ends with sacrebleu's signature, the `sentence_counts` of each part and decoding, and the maps
    of the paper's example.
    """
    from transformers import set_seed

    config, bleu = run.config, bleu_metric()
    found = parts("translation", config["data"], config["data_seed"])
    texts = [row[side] for row in found["train"] for side in ("source", "target")]
    tokenizer = bpe.tokenizer(texts, config["vocabulary"])
    rows = {part: encoded(one, tokenizer) for part, one in found.items()}
    validation = scored(rows["validation"][: config["validation_rows"]])
    set_seed(run.seed)
    model = build_translator(config, len(tokenizer), config["steps"])
    order = grouped(rows["train"], config["batch"], config["steps"], run.seed)
    history = fit(run, model, rows["train"], order, lambda model: told(model, validation), collate)
    metrics, counts = {"": {"parameters": model.num_parameters()}, "train": {"rows": len(rows["train"])}}, []
    for part in config["cells"]:
        asked = scored(rows[part][: config["test_rows"]])
        references = [row["target"] for row in found[part][: len(asked)]]
        metrics[part] = {"rows": len(asked)}
        for name, beams in (("greedy", 1), ("beams", config["beams"])):
            said = translations(model, asked, tokenizer, beams, config["longest"])
            metrics[f"{part}/{name}"] = {"bleu": bleu.corpus_score(said, [references]).score}
            counts.append({"part": part, "decoding": name, "sentences": sentence_counts(said, references)})
    metrics |= attention_of(model, validation[: config["map_rows"]])
    return {
        "metrics": metrics,
        "history": [
            *history,
            {"signature": str(bleu.get_signature())},
            *counts,
            *example_maps(model, tokenizer),
        ],
    }
