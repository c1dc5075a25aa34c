"""Models by name with their tokenizers: a folder, a repository of the hub, or a tiny one made at once."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from causalnb.errors import LabError
from causalnb.paths import moved

TINY = "tiny"  # the base of this name is made on the spot, with a tokenizer trained on the task
LICENCES = {"google/gemma-3-270m": "gemma"}  # of bases whose folder may lack its card
SPEED = 1.5e14  # operations a second that a large GPU reaches in 16 bits, about half of what it is sold with


def downloaded(name: str) -> Path:
    """The folder of a base: `name` if it is one, or $CAUSALNB_BASES/name, else a snapshot from the hub."""
    mirror = moved("CAUSALNB_BASES")
    for folder in (Path(name), *([mirror / name] if mirror else [])):
        if os.path.isdir(folder):
            return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"]))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        raise LabError(
            f"the base {name} is no folder here and cannot be downloaded ({error}): give a "
            "folder, point CAUSALNB_BASES at one that has it under its name, or go online."
        ) from error


def origin(name: str) -> dict[str, str]:
    """What a base is before anything was cut: sha256 of its files of weights, and its licence; {} of TINY."""
    if name == TINY:
        return {}
    from huggingface_hub import ModelCard

    folder, whole = downloaded(name), sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as weights:
            while part := weights.read(2**24):
                whole.update(part)
    card = folder / "README.md"
    licence = ModelCard.load(card).data.license if card.is_file() else None
    licence = licence or LICENCES.get(name, "not named")
    return {f"{name}, files": whole.hexdigest(), f"{name}, licence": licence}


@dataclass
class Pretrained:
    """A pre-trained model in float32, cut to the tokens in use; `places`: {tokenizer's id: model's id}.

    `digest` is the sha256 of the weights that were left, without a head that was drawn anew.
    """

    name: str
    model: object
    tokenizer: object
    places: dict[int, int]
    digest: str

    def ids(self, text: str, second: str | None = None, special: bool = False) -> list[int]:
        """The model's ids of a text, or of two; LabError for a token that the model was not cut to."""
        texts = (text,) if second is None else (text, second)
        return self.placed(self.tokenizer(*texts, add_special_tokens=special)["input_ids"])  # type: ignore[operator]

    def placed(self, ids: Iterable[int]) -> list[int]:
        """The model's ids of the tokenizer's; LabError as `ids`."""
        try:
            return [self.places[one] for one in ids]
        except KeyError as error:
            token = self.tokenizer.decode([error.args[0]])  # type: ignore[attr-defined]
            raise LabError(
                f"{self.name} was cut to the tokens in use, and {token!r} is none of them: name the texts "
                "that have it when the base is loaded."
            ) from None

    def special(self, kind: str) -> int:
        """The model's id of the tokenizer's "pad", "bos", "eos", "cls", "sep", "mask" or "unk" token."""
        return self.places[getattr(self.tokenizer, f"{kind}_token_id")]


def pretrained(name: str, texts: Iterable[str], kind: str = "decoder", **keywords) -> Pretrained:
    """The base `name`, cut to the tokens of texts and the special ones; texts alone decide what is kept.

    kind: "decoder"; "classifier", whose head is drawn anew (keywords: num_labels); or "filler", an encoder
    that fills masks, its head drawn anew where there is none. Keywords are the configuration's. TINY gives a
    small one with random weights. The vocabulary is most of a small model: of gemma-3-270m 168 of its 268
    million parameters. LabError where the base is not to be had.
    """
    import torch
    from transformers.utils import logging

    from causalnb import checkpoints

    logging.disable_progress_bar()
    texts = [*dict.fromkeys(texts)]
    if name == TINY:
        model, tokenizer = _tiny(kind, texts, keywords)
    else:
        folder, load = (
            downloaded(name),
            {
                "decoder": checkpoints.decoder,
                "classifier": checkpoints.classifier,
                "filler": checkpoints.filler,
            },
        )
        tokenizer = checkpoints.tokenizer(folder)
        model = load[kind](folder, dtype=torch.float32, **keywords)
    used = {one for ids in tokenizer(texts)["input_ids"] for one in ids}
    kept = sorted(used | set(_named_specials(tokenizer)))
    cut(model, kept)
    places = {one: at for at, one in enumerate(kept)}
    return Pretrained(name, model, tokenizer, places, digest(model.base_model))


def _tiny(kind: str, texts: list[str], keywords: dict):
    """A small model with random weights, and a tokenizer made from texts: pairs of bytes, or BERT's words."""
    if kind == "decoder":
        return tiny_base({"vocabulary": 400, "hidden_size": 32, "layers": 2, "heads": 2}, texts)[:2]
    from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

    tokenizer = _words_of(texts)
    shape: dict = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    ours: dict = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **shape, **keywords}
    config = BertConfig(**ours)
    return {"classifier": BertForSequenceClassification, "filler": BertForMaskedLM}[kind](config), tokenizer


def _words_of(texts: list[str]):
    """A tokenizer of the words and marks of texts, lower-cased, that joins two texts as BERT's does."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    split = pre_tokenizers.Whitespace()
    words = {word for text in texts for word, _ in split.pre_tokenize_str(text.lower())}
    places = {word: at for at, word in enumerate([*specials, *sorted(words)])}
    core = Tokenizer(models.WordLevel(places, unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer = normalizers.Lowercase(), split
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, places[name]) for name in ("[CLS]", "[SEP]")],
    )
    kinds = ("pad", "unk", "cls", "sep", "mask")
    names = {f"{kind}_token": name for kind, name in zip(kinds, specials, strict=True)}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=inputs, **names)


def _named_specials(tokenizer) -> list[int]:
    ids = (
        getattr(tokenizer, f"{kind}_token_id") for kind in ("pad", "bos", "eos", "cls", "sep", "mask", "unk")
    )
    return [one for one in ids if one is not None]


def cut(model, kept: list[int]) -> None:
    """Leave the tokens `kept` of a model, in their order, in its embedding and in the head over them.

    Its configuration gets the new places of the special tokens, None for one that is gone.
    """
    import torch
    from torch import nn

    def rows(weight: nn.Parameter) -> nn.Parameter:
        return nn.Parameter(weight.detach()[torch.tensor(kept, device=weight.device)].clone())

    inside, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = head is not None and head.weight is inside.weight
    places = {one: at for at, one in enumerate(kept)}
    inside.weight, inside.num_embeddings = rows(inside.weight), len(kept)
    if inside.padding_idx is not None:
        inside.padding_idx = places.get(inside.padding_idx)
    if head is not None:
        head.weight, head.out_features = inside.weight if tied else rows(head.weight), len(kept)
        if head.bias is not None:
            head.bias = rows(head.bias)
        model.set_output_embeddings(head)  # where its bias has a second name, that is the same again
    for module in (model, model.base_model, model.config):
        if hasattr(module, "vocab_size"):
            module.vocab_size = len(kept)
    for config in filter(None, (model.config, getattr(model, "generation_config", None))):
        for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
            one = getattr(config, name, None)
            if isinstance(one, list):
                setattr(config, name, [places[each] for each in one if each in places] or None)
            elif one is not None:
                setattr(config, name, places.get(one))


def halve(decoder) -> None:
    """Keep the frozen maps of a decoder's layers in bfloat16, as autocast would make them anew each pass."""
    import torch

    for part in decoder.base_model.modules():  # without the head
        if isinstance(part, torch.nn.Linear) and not part.weight.requires_grad:
            part.to(torch.bfloat16)


def digest(model) -> str:
    """sha256 of a model's weights, in the order of their names: what a training began with. 0 has no sign."""
    import torch

    whole = sha256()
    for name, weight in sorted(model.state_dict().items()):
        whole.update(name.encode())
        unsigned = weight.detach().cpu() + 0  # files unpacked in another way differ in the signs of zeros
        whole.update(unsigned.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def tiny_base(config: dict, texts: list[str]):
    """(decoder, tokenizer, id of the mask, id of the end): a random Llama of config's size.

    The tokenizer's byte pairs are learned from texts, digits apart.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=config["vocabulary"],
            show_progress=False,
            special_tokens=["<eos>", "<mask>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<eos>", mask_token="<mask>", pad_token="<eos>"
    )
    decoder = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config["hidden_size"],
            intermediate_size=4 * config["hidden_size"],
            num_hidden_layers=config["layers"],
            num_attention_heads=config["heads"],
            max_position_embeddings=2048,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    return decoder, tokenizer, tokenizer.mask_token_id, tokenizer.eos_token_id


def question(tokenizer, prompt: str) -> tuple[str, int]:
    """The text up to the answer, and where the prompt begins in it."""
    if not tokenizer.chat_template:
        return f"{prompt}\n", 0
    said = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    return said, said.index(prompt.strip())


def base_parameters(shape: dict) -> int:
    """Parameters of a Llama of this shape without grouped keys and without its few norms."""
    width = shape["hidden_size"]
    layer = 4 * width**2 + 3 * width * shape["intermediate_size"]
    return shape["layers"] * layer + 2 * shape["vocabulary"] * width
