"""What training and evaluating ask of each system: rows, model, batches, and whether it answers right."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from causalnb.errors import DataError, LabError, sentence

from ..bases import admit, check_ids, check_rank, decoder_of, loaded, same_maps, tiny_depth, with_lora
from .settings import Settings

if TYPE_CHECKING:
    import numpy

MOST_WORDS = 20_000  # of a tiny base, and of a vocabulary whose kinship SCI separated can hold
BATCH = 32  # rows at a time that are answered
SCORED = 200  # rows of the validation that are scored on the way
LEAST = 3  # rows of a step of SCI


def word_tokenizer(texts: Sequence[str], pairs: bool = False):
    """A tokenizer of the words and marks of texts, beginning with <bos>; pairs: it tells two texts apart."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    from causalnb.tasks import scan

    core = Tokenizer(models.WordLevel(unk_token=scan.SPECIALS["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    specials = list(scan.SPECIALS.values())
    trainer = trainers.WordLevelTrainer(
        vocab_size=MOST_WORDS, special_tokens=specials, show_progress=False, min_frequency=1
    )
    core.train_from_iterator(texts, trainer)
    core.post_processor = processors.TemplateProcessing(
        single="<bos> $A",
        pair="<bos> $A <sep> $B:1",
        special_tokens=[(name, core.token_to_id(name)) for name in ("<bos>", "<sep>")],
    )
    names = ["input_ids", "attention_mask", *["token_type_ids"] * pairs]
    return PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=names, **scan.SPECIALS)


class System:
    """One of the four. `needs` and `may` name its columns, `rows` makes of them what its model takes.

    A child has start, which gives model and tokenizer; and, where it differs from what decoders share, how
    rows are made and batched, what the model says to encoded rows, and of which it is right.
    """

    needs: tuple[str, ...] = ("prompt", "answer")
    may: tuple[str, ...] = ("domain",)
    task = "text-generation"  # the hub's name of it

    def __init__(self, settings: Settings):
        self.settings = settings
        self.notes = ""  # what training_rows found that its reader should know

    def base(self, rows: list[dict]):
        """(decoder, tokenizer): the one asked for, or a tiny one over the words of rows."""
        from causalnb.apps.sci.base import tiny_llama

        name = self.settings.base_model
        if depth := tiny_depth(name):
            tokenizer = word_tokenizer([text for row in rows for text in (row["prompt"], row["answer"])])
            return tiny_llama(depth, words=len(tokenizer)), tokenizer
        base, tokenizer = decoder_of(name)
        row = rows[0]
        ids = tokenizer(f"{row['prompt']} {row['answer']}", add_special_tokens=False)["input_ids"]
        ids = ids or [tokenizer.eos_token_id]  # `rows` names a text that has none
        check_ids(base, tokenizer, (ids * 4)[: max(4, len(ids))], name)
        return base, tokenizer

    def adapted(self, base):
        """The base with LoRA adapters where they are asked for; LabError for too high a rank."""
        if not (rank := self.settings.lora):
            return base
        check_rank(base, rank, self.settings.base_model)
        return with_lora(base, rank)

    def start(self, rows: list[dict]):
        """(model, tokenizer) before training; LabError for a base or options that do not fit."""
        raise NotImplementedError

    def load(self, folder: Path):
        """The model that a training saved in `folder`."""
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)

    def rows(self, rows: list[dict], tokenizer, model) -> list[dict]:
        """Encoded rows: ids of prompt and answer, what marks them, and `at`.

        A prompt is what tokenizer(prompt) gives, without an end; an answer follows a space, and ends.
        DataError names the first row of `misfits`.
        """
        made = self.made(rows, tokenizer, model)
        for sentence_ in self.misfits(rows, made, tokenizer, model).values():
            raise DataError(sentence_)
        return made

    def made(self, rows: list[dict], tokenizer, model) -> list[dict]:
        """`rows`, whether the model can read and answer them or not."""
        prompts, answers = self.encoded(rows, tokenizer)
        ends = {tokenizer.eos_token_id, tokenizer.sep_token_id}
        made = []
        for i, row in enumerate(rows):
            prompt, answer = prompts["input_ids"][i], answers["input_ids"][i] + [tokenizer.eos_token_id]
            prompt = prompt[:-1] if len(prompt) > 1 and prompt[-1] in ends else prompt
            made.append(
                {
                    "input_ids": prompt + answer,
                    "prompt_mask": [1] * len(prompt) + [0] * len(answer),
                    "labels": [-100] * len(prompt) + answer,
                    "text": row["prompt"],
                    "at": row["at"],
                }
            )
        return made

    def misfits(self, rows: list[dict], made: list[dict], tokenizer, model) -> dict[int, str]:
        """{number: sentence} of rows that are too long, or whose answer has no token or an unknown one."""
        found = {}
        for i, (row, one) in enumerate(zip(rows, made, strict=True)):
            answer = [label for label in one["labels"][:-1] if label != -100]
            if not answer:
                found[i] = (
                    f"{row['at']}: the tokenizer of {self.settings.base_model} makes nothing of its answer "
                    f"{row['answer'][:40]!r}: choose a base that knows its words."
                )
            elif tokenizer.unk_token_id is not None and tokenizer.unk_token_id in answer:
                words = row["answer"].split()
                each = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
                strange = (w for w, ids in zip(words, each, strict=True) if tokenizer.unk_token_id in ids)
                found[i] = (
                    f"{row['at']}: the tokenizer of {self.settings.base_model} does not know "
                    f"{next(strange, row['answer'])[:40]!r} of its answer: choose a base that knows its "
                    "words."
                )
        return self.too_long(made, model) | found

    @staticmethod
    def encoded(rows: list[dict], tokenizer, **more):
        """(prompts, answers) of rows as the tokenizer gives them, prompts with its special tokens."""
        prompts = tokenizer([row["prompt"] for row in rows], **more)
        return prompts, tokenizer([f" {row['answer']}" for row in rows], add_special_tokens=False, **more)

    def too_long(self, rows: list[dict], model) -> dict[int, str]:
        """{number: sentence} of encoded rows that have more tokens than the model has positions."""
        room = _room(model)
        return {
            i: f"{row['at']} has {len(row['input_ids'])} tokens and {self.settings.base_model} reads {room}: "
            "shorten it, or choose another --base-model."
            for i, row in enumerate(rows)
            if room is not None and len(row["input_ids"]) > room
        }

    def training_rows(self, rows: list[dict], tokenizer, model) -> list[dict]:
        """`rows` with what training alone needs."""
        return self.rows(rows, tokenizer, model)

    def collator(self, tokenizer) -> Callable:
        """Of batches of training rows."""
        from causalnb.apps.sci.data import INPUTS
        from causalnb.lab.training import PromptAnswerCollator

        return PromptAnswerCollator(tokenizer.pad_token_id, INPUTS)

    def epoch(self, rows: list[dict]) -> int:
        """Batches of one pass through the rows."""
        return -(-len(rows) // self.settings.batch_size)

    def batches(self, rows: list[dict], steps: int) -> Sequence[list[int]]:
        """`steps` batches of row numbers, a function of the seed."""
        from causalnb.lab.batches import grouped

        return grouped(rows, min(self.settings.batch_size, len(rows)), steps, self.settings.seed)

    def sequence(self, rows: list[dict], batches: Sequence[list[int]]):
        """Rows and batches as the training takes them, so that a resumed one is the same."""
        return rows, batches

    def within(self, model) -> AbstractContextManager:
        """What is entered around training."""
        return nullcontext()

    def right(self, model, rows: list[dict], tokenizer) -> numpy.ndarray:
        """Whether every token of each row's answer is the likeliest after those before it: bool (rows,)."""
        from causalnb.apps.sci.data import INPUTS
        from causalnb.lab.evaluation import teacher_forced_matches
        from causalnb.lab.training import PromptAnswerCollator

        return teacher_forced_matches(
            model, rows, PromptAnswerCollator(tokenizer.pad_token_id, INPUTS), BATCH
        )

    def said(self, model, rows: list[dict], tokenizer) -> list[str]:
        """What the model says to each prompt, greedily, in as many tokens as the longest answer has."""
        longest = max(len(row["input_ids"]) - sum(row["prompt_mask"]) for row in rows)

        def generated(ids):
            return model.generate(
                input_ids=ids,
                attention_mask=ids.new_ones(ids.shape),
                max_new_tokens=longest,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
            )

        return _texts(_by_prompt(model, rows, generated), tokenizer)

    def finished(self, model):
        """What is saved of the trained model."""
        return model


def _room(model) -> int | None:
    """The most tokens that a model reads, None without a bound; RoBERTa's kind counts from its padding."""
    config = getattr(model.config, "base_config", model.config)
    room = getattr(config, "max_position_embeddings", None)
    for name, part in model.named_modules():
        if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None:
            room = part.num_embeddings - part.padding_idx - 1
    return room


def _by_prompt(model, rows: list[dict], answered: Callable) -> list[list[int]]:
    """Of each encoded row the ids that answered(ids (B, T)) puts after its prompt, one length at once."""
    import torch

    found: list[list[int]] = [[]] * len(rows)
    by_length: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        by_length.setdefault(sum(row["prompt_mask"]), []).append(i)
    model.eval()
    for length, members in sorted(by_length.items()):
        for first in range(0, len(members), BATCH):
            chosen = members[first : first + BATCH]
            ids = torch.tensor([rows[i]["input_ids"][:length] for i in chosen], device=model.device)
            with torch.no_grad():
                answers = answered(ids)[:, length:].tolist()
            for i, answer in zip(chosen, answers, strict=True):
                found[i] = answer
    return found


def _texts(answers: list[list[int]], tokenizer) -> list[str]:
    """Ids up to their end as text."""
    end = tokenizer.eos_token_id
    cut = (ids[: ids.index(end)] if end in ids else ids for ids in answers)
    return [tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in cut]


class SCI(System):
    """SCI, or SCI separated, on a decoder."""

    may = ("domain", "structure")

    def start(self, rows):
        """(SCITransformer or SeparatedSCI, tokenizer); LabError for fewer rows a step than `_parts` gives."""
        from causalnb.sci import SCITransformer, SeparatedSCI

        if self.settings.batch_size < LEAST:
            raise LabError(
                f"--batch-size is {self.settings.batch_size}, and a step of SCI has a row and a pair of one "
                f"structure: give at least {LEAST}."
            )
        options = dict(self.settings.options)
        separated, _ = options.pop("separated"), options.pop("structure_level")
        if options["cbm_layers"] is None:
            options.pop("cbm_layers")
        base, tokenizer = self.base(rows)
        if separated and (words := base.config.vocab_size) > MOST_WORDS:
            raise LabError(
                f"SCI separated compares all {words:,} tokens of {self.settings.base_model} with each "
                f"other: leave --separated out, or choose a base of at most {MOST_WORDS:,}."
            )
        try:
            if separated:
                options["content_slots"] = "tokens"  # prompts may have several words of a class
            kind = SeparatedSCI if separated else SCITransformer
            return kind.from_base(self.adapted(base), **options), tokenizer
        except ValueError as error:
            raise LabError(f"{sentence(error)}.") from error

    def structures(self, rows: list[dict]) -> list[str]:
        """The structure of each row, of its column or found in its prompt."""
        from causalnb.tasks.structures import structures_from_text

        level = self.settings.options["structure_level"]
        if level == "grammar":
            return [self._of_grammar(row) for row in rows]
        if level != "column":
            return structures_from_text([row["prompt"] for row in rows], level)
        for row in rows:
            if "structure" not in row:
                raise DataError(
                    f"{row['at']} has no column 'structure': name it with --columns structure=..., or have "
                    "structures found by --structure-level grammar, pos or dependency."
                )
        return [row["structure"] for row in rows]

    @staticmethod
    def _of_grammar(row: dict) -> str:
        from causalnb.tasks.structures import structures_from_text

        try:
            return structures_from_text([row["prompt"]], "grammar")[0]
        except DataError as error:
            raise DataError(
                f"{row['at']}: {sentence(error).rstrip('.')}; name a column with --columns structure=..., or "
                "have structures found by --structure-level pos or dependency."
            ) from error

    def training_rows(self, rows, tokenizer, model):
        """Rows with structure, and with word_ids for SCI separated."""
        made = self.rows(rows, tokenizer, model)
        for row, structure in zip(made, self.structures(rows), strict=True):
            row["structure"] = structure
        if self.settings.options["separated"]:
            prompts, answers = self.encoded(rows, tokenizer)
            for i, row in enumerate(made):
                words = [-1 if word is None else word for word in prompts.word_ids(i)]
                words, first = words[: sum(row["prompt_mask"])], max(words) + 1
                words += [first + word for word in answers.word_ids(i)]
                row["word_ids"] = [*words, max(words) + 1]
            _check_words(made)
        return made

    def collator(self, tokenizer):
        """With structure_ids, and word_ids for SCI separated."""
        from causalnb.apps.sci.data import INPUTS
        from causalnb.lab.training import PromptAnswerCollator

        collate = PromptAnswerCollator(tokenizer.pad_token_id, (*INPUTS, "structure_ids"))
        return _with_words(collate) if self.settings.options["separated"] else collate

    def epoch(self, rows):
        """Batches of one pass through their random rows."""
        return -(-len(rows) // self._parts(rows)[0])

    def _parts(self, rows) -> tuple[int, int]:
        """(random rows, pairs) of a batch: two rows in five are of pairs, at least two."""
        size = min(self.settings.batch_size, len(rows))
        pairs = max(1, size // 5)
        return max(1, size - 2 * pairs), pairs

    def batches(self, rows, steps):
        """Random rows and pairs of one structure."""
        from causalnb.sci import StructureBalancedBatches

        structures, texts = ([row[name] for row in rows] for name in ("structure", "text"))
        lengths = [len(row["input_ids"]) for row in rows]
        try:
            return StructureBalancedBatches(
                structures, texts, *self._parts(rows), steps, self.settings.seed, lengths
            )
        except ValueError as error:
            raise DataError(
                f"{self.settings.data} has no structure with two different prompts ({sentence(error)}): "
                "give rows that share a structure, or another --structure-level."
            ) from error


def _check_words(rows: list[dict]) -> None:
    """DataError for two rows of one structure that differ in words, by which SCI separated aligns them."""
    first: dict[str, tuple[dict, int]] = {}
    for row in rows:
        count = len(list(groupby(row["word_ids"]))) - 1  # without the end
        other, known = first.setdefault(row["structure"], (row, count))
        if count != known:
            raise DataError(
                f"{row['at']} has {count} words, marks included, and {other['at']}, of the same structure "
                f"{row['structure'][:60]!r}, has {known}: give them different structures, or leave "
                "--separated out."
            )


def _with_words(collate: Callable) -> Callable:
    import torch

    def padded(rows: list[dict]) -> dict:
        batch = collate(rows)
        width = batch["input_ids"].shape[1]
        words = [[*row["word_ids"], *[-1] * (width - len(row["word_ids"]))] for row in rows]
        return batch | {"word_ids": torch.tensor(words)}

    return padded


class ICLM(System):
    """Modules on a frozen decoder."""

    def start(self, rows):
        """(ICLMForCausalLM, tokenizer)."""
        from causalnb.iclm import ICLMForCausalLM

        base, tokenizer = self.base(rows)
        rank = self.settings.lora or 8
        if self.settings.lora:
            check_rank(base, rank, self.settings.base_model)
        try:
            model = ICLMForCausalLM.from_base(
                base, lora={"r": rank, "alpha": 2 * rank}, **self.settings.options
            )
        except ValueError as error:
            raise LabError(f"{sentence(error)}.") from error
        return model, tokenizer


class C2DLM(System):
    """Masked diffusion on a decoder, its attention drawn to causes where there are graphs."""

    def start(self, rows):
        """(MaskedDiffusionModel, tokenizer), a mask token added to both where there is none."""
        from causalnb.c2dlm import MaskedDiffusionModel, ReattentionLoss
        from causalnb.c2dlm.forms import map_of

        base, tokenizer = self.base(rows)
        if tokenizer.mask_token_id is None:
            tokenizer.add_special_tokens({"mask_token": "<mask>"})
        if (words := len(tokenizer)) > base.get_input_embeddings().num_embeddings:
            base.resize_token_embeddings(words)
        options = self.settings.options
        guided = ReattentionLoss(options["alpha"], options["lam"]) if options["graphs"] else None
        shown = tokenizer, rows[0]["prompt"], self.settings.base_model
        admit(base, *shown)
        try:
            model = MaskedDiffusionModel.from_base(
                self.adapted(base), tokenizer.mask_token_id, guided, gamma=options["gamma"]
            )
        except ValueError as error:
            raise LabError(f"{sentence(error)}.") from error
        if guided:
            same_maps(model.base, *shown, map_of)
        longest = max(
            map(len, tokenizer([f" {r['answer']}" for r in rows], add_special_tokens=False)["input_ids"])
        )
        model.config.answer_tokens = longest + 1  # of every answer, ends included: what `sample` has to fill
        return model, tokenizer

    def load(self, folder):
        """The model that a training saved in `folder`."""
        from transformers import AutoModelForMaskedLM

        return AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=False)

    def made(self, rows, tokenizer, model):
        """Rows whose answers are filled up with ends, as `sample` fills them."""
        made = System.made(self, rows, tokenizer, model)
        for row in made:
            ends = model.config.answer_tokens - (len(row["input_ids"]) - sum(row["prompt_mask"]))
            row["input_ids"] = row["input_ids"] + [tokenizer.eos_token_id] * max(ends, 0)
            row["prompt_mask"] = row["prompt_mask"] + [0] * max(ends, 0)
        return made

    def misfits(self, rows, made, tokenizer, model):
        """Those too whose answer is longer than what `sample` fills in."""
        most = model.config.answer_tokens
        tokens = [sum(label != -100 for label in row["labels"]) for row in made]
        long = {
            i: f"{made[i]['at']} has an answer of {count} tokens, its end included, and the model was "
            f"trained to fill in {most}: train on answers as long."
            for i, count in enumerate(tokens)
            if count > most
        }
        return long | System.misfits(self, rows, made, tokenizer, model)

    def training_rows(self, rows, tokenizer, model):
        """Rows with the supervision of their graphs; DataError for a graph that has no edge in its text."""
        from causalnb.c2dlm import supervision

        made = self.rows(rows, tokenizer, model)
        if not self.settings.options["graphs"]:
            return made
        prompts, answers = self.encoded(rows, tokenizer, return_offsets_mapping=True)
        guided, edges, heeded = 0, 0, 0
        for i, (one, row) in enumerate(zip(made, rows, strict=True)):
            if (graph := row.get("graph")) is None or not graph.pairs:
                continue
            text, start = f"{row['prompt']} {row['answer']}", len(row["prompt"])
            prompt = prompts["offset_mapping"][i][: sum(one["prompt_mask"])]
            places = [*prompt, *((start + a, start + b) for a, b in answers["offset_mapping"][i])]
            found = one["supervision"] = supervision(graph, text, places, response_start=start)
            if not found.report.kept:
                raise DataError(
                    f"{row['graph_at']} has no cause and effect in the text of {row['at']} "
                    f"({' '.join(found.report.problems)[:200].rstrip('.')}): quote phrases of its prompt and "
                    "answer, or write null."
                )
            count = _guiding(found)
            guided, edges, heeded = guided + bool(count), edges + len(graph.pairs), heeded + count
        if not guided:
            raise DataError(
                f"no graph of {self.settings.options['graphs']} guides an answer: give effects that stand in "
                "the answers, each with a cause that is not its effect in turn."
            )
        self.notes = f"graphs guide {guided:,} of {len(rows):,} rows, by {heeded:,} of their {edges:,} causes"
        return made

    def collator(self, tokenizer):
        """Noise that is a function of the seed and of a row's place in the training."""
        from causalnb.c2dlm import MaskedDiffusionCollator

        seed = self.settings.seed
        return MaskedDiffusionCollator(tokenizer.mask_token_id, tokenizer.eos_token_id, seed=seed)

    def sequence(self, rows, batches):
        """Numbered rows, each once for each time that a batch has it."""
        from causalnb.c2dlm import NumberedRows

        order, places = [], []
        for batch in batches:
            places.append(list(range(len(order), len(order) + len(batch))))
            order += batch
        return NumberedRows(rows, order), places

    def right(self, model, rows, tokenizer):
        """Whether `sample` fills in each row's answer, in as many passes as it has tokens: bool (rows,)."""
        import numpy as np

        answers = ([label for label in row["labels"] if label != -100] for row in rows)
        filled = zip(self._filled(model, rows), answers, strict=True)
        return np.array([said[: len(answer)] == answer for said, answer in filled], dtype=bool)

    def said(self, model, rows, tokenizer):
        """What `sample` fills in after each prompt, up to its first end."""
        return _texts(self._filled(model, rows), tokenizer)

    @staticmethod
    def _filled(model, rows: list[dict]) -> list[list[int]]:
        from causalnb.c2dlm import sample

        room = model.config.answer_tokens
        return _by_prompt(model, rows, lambda ids: sample(model, ids, room, room, room))


def _guiding(found) -> int:
    """Edges of a supervision by which a token of the answer is drawn to a cause."""
    import torch

    number = torch.arange(len(found.step))
    there = torch.isin(number, found.concept)
    asked = torch.isin(number, found.concept[found.rows])
    return int(((found.relation == 1) & asked[:, None] & there).sum())


def _in_order(label: str) -> tuple:
    """By which labels are sorted: whole numbers by size, before texts."""
    return (0, int(label), label) if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label)


class CausalTransformer(System):
    """A classifier with attention held to a Markov blanket: ours where the base is tiny, else any encoder."""

    needs, may = ("prompt", "label"), ("second", "domain")
    task = "text-classification"

    def start(self, rows):
        """(classifier, tokenizer); DataError for fewer than two classes."""
        model, tokenizer = self._classifier(rows)
        model.config.pairs = "second" in rows[0]  # whether it reads one text or two
        return model, tokenizer

    def _classifier(self, rows: list[dict]):
        from causalnb.causal_transformer import (
            CausalTransformerConfig,
            CausalTransformerForSequenceClassification,
        )

        classes = sorted({row["label"] for row in rows}, key=_in_order)
        if len(classes) < 2:
            raise DataError(
                f"all {len(rows)} rows of {self.settings.data} have the label {classes[0]!r}: give rows of "
                "at least two classes."
            )
        names = {
            "id2label": dict(enumerate(classes)),
            "label2id": {name: i for i, name in enumerate(classes)},
        }
        name = self.settings.base_model
        if not (depth := tiny_depth(name)):
            return self._encoder(name, names, rows)
        texts = [text for row in rows for text in (row["prompt"], row.get("second", ""))]
        tokenizer = word_tokenizer(texts, pairs=True)
        ids = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("pad", "bos", "eos")}
        config = CausalTransformerConfig(
            vocab_size=len(tokenizer),
            d_model=64,
            num_heads=4,
            d_ff=256,
            encoder_layers=depth,
            decoder_layers=depth,
            causal_weight=self.settings.options["causal_weight"],
            **ids,
            **names,
        )
        return CausalTransformerForSequenceClassification(config), tokenizer

    def _encoder(self, name: str, names: dict, rows: list[dict]):
        import torch

        from causalnb import checkpoints

        model, tokenizer = loaded(
            name,
            lambda where: checkpoints.classifier(where, dtype=torch.float32, **names),
            "classifier",
        )
        if tokenizer.pad_token_id is None and tokenizer.eos_token_id is None:
            raise LabError(f"the tokenizer of {name!r} has no padding token: set its pad_token and save it.")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id
        model.accepts_loss_kwargs = False  # its loss is a mean, however many processes have a batch
        admit(model, tokenizer, rows[0]["prompt"], name)
        if rank := self.settings.lora:
            check_rank(model, rank, name)
            model = with_lora(model, rank, task_type="SEQ_CLS")
        return model, tokenizer

    def load(self, folder):
        """The model that a training saved in `folder`."""
        from transformers import AutoModelForSequenceClassification

        from causalnb.checkpoints import whole

        return whole(AutoModelForSequenceClassification.from_pretrained, folder, trust_remote_code=False)

    def made(self, rows, tokenizer, model):
        """Ids and the label of each row, -1 where it was not trained on.

        DataError for half of the pairs, and for one text or two where the model was trained on the other.
        """
        seconds = [row.get("second") for row in rows]
        if any(seconds) and not all(seconds):
            raise DataError(
                f"{rows[seconds.index(None)]['at']} has no second text and others have: give it to all."
            )
        if all(seconds) and not getattr(model.config, "pairs", True):
            raise DataError(
                f"{rows[0]['at']} has a second text and the model was trained on single ones: leave the "
                "column out."
            )
        if not all(seconds) and getattr(model.config, "pairs", False):
            raise DataError(
                f"{rows[0]['at']} has no second text and the model was trained on pairs: name it with "
                "--columns or --challenge-columns second=..."
            )
        pairs = (seconds,) if all(seconds) else ()
        encoded = tokenizer([row["prompt"] for row in rows], *pairs, return_attention_mask=False)
        known = model.config.label2id
        return [
            {name: values[i] for name, values in encoded.items()}
            | {"labels": known.get(row["label"], -1), "at": row["at"]}
            for i, row in enumerate(rows)
        ]

    def misfits(self, rows, made, tokenizer, model):
        """{number: sentence} of rows that are too long, or whose label was not trained on."""
        strange = {
            i: f"{row['at']} has the label {row['label']!r}, none of those trained on: "
            f"{', '.join(model.config.label2id)}."
            for i, (row, one) in enumerate(zip(rows, made, strict=True))
            if one["labels"] < 0
        }
        return self.too_long(made, model) | strange

    def collator(self, tokenizer):
        """Padding, by transformers' own collator."""
        from transformers import DataCollatorWithPadding

        pad = DataCollatorWithPadding(tokenizer)
        return lambda rows: pad([{name: row[name] for name in row if name != "at"} for row in rows])

    def within(self, model):
        """The penalty on a model that has none of its own."""
        from causalnb.causal_transformer import CausalTransformerConfig, markov_blanket_penalty

        if isinstance(model.config, CausalTransformerConfig):
            return nullcontext()
        return markov_blanket_penalty(model, weight=self.settings.options["causal_weight"])

    def right(self, model, rows, tokenizer):
        """Whether the likeliest class is each row's: bool (rows,)."""
        import numpy as np

        return self._likeliest(model, rows, tokenizer) == np.array([row["labels"] for row in rows])

    def said(self, model, rows, tokenizer):
        """The likeliest class of each row."""
        return [model.config.id2label[i] for i in self._likeliest(model, rows, tokenizer).tolist()]

    def _likeliest(self, model, rows: list[dict], tokenizer) -> numpy.ndarray:
        import numpy as np
        import torch

        from causalnb.lab.evaluation import by_length

        found, collate = np.zeros(len(rows), dtype=int), self.collator(tokenizer)
        model.eval()
        for chosen in by_length([len(row["input_ids"]) for row in rows], BATCH):
            batch = collate([rows[i] for i in chosen]).to(model.device)
            with torch.no_grad():
                found[chosen] = model(**batch).logits.argmax(-1).cpu().numpy()
        return found

    def outside(self, model, rows: list[dict], tokenizer) -> float:
        """The share of nodes outside the bounds of the Markov blanket on rows: what the penalty holds."""
        import torch

        from causalnb.causal_transformer import CausalTransformerConfig, markov_blanket_penalty

        collate = self.collator(tokenizer)
        own = isinstance(model.config, CausalTransformerConfig)
        model.eval()
        shares, counts = [], []
        for first in range(0, len(rows), BATCH):
            batch = collate(rows[first : first + BATCH]).to(model.device)
            with torch.no_grad():
                if own:
                    shares.append(_outside(model, batch))
                else:
                    with markov_blanket_penalty(model) as penalty:
                        model(**batch)
                        shares.append(float(penalty.violated()))
            counts.append(int(batch["attention_mask"].sum()))
        return sum(share * count for share, count in zip(shares, counts, strict=True)) / sum(counts)

    def finished(self, model):
        """The model, its adapters merged."""
        return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def _outside(model, batch) -> float:
    """The share of nodes outside the bounds in a CausalTransformer, whatever the weight of its loss."""
    import torch

    out = model.encoder(
        **{name: part for name, part in batch.items() if name != "labels"}, measure=True, return_dict=True
    )
    layers = zip(model.losses["encoder"], out.sums, strict=True)
    return float(
        torch.stack([loss.violated(*sums, out.valid, False, out.measured) for loss, sums in layers]).mean()
    )


KINDS = {"sci": SCI, "iclm": ICLM, "c2dlm": C2DLM, "causal-transformer": CausalTransformer}
