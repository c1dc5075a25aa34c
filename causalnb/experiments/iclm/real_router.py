"""What a router and a loss between modules see in a real language model's states; nothing is trained.

The source's own prompts, ACRE and RAVEN in two formats, pointer values and ARC, are read by the bare base. A
router reads the mean of a prompt's states; for control the same router reads the mean of its word vectors,
its first tokens alone, as many of each prompt, or nothing but its length. Measures of dependence are taken
where they can be known: between states and themselves, which is how low-rank modules begin, and between
states and those of other prompts; at the tokens that an answer is said from, and at any tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from statistics import fmean

from causalnb.experiments.iclm.data import FORMATS
from causalnb.experiments.iclm.maps import flattened
from causalnb.experiments.iclm.real import NOTEBOOK
from causalnb.experiments.iclm.text import asked
from causalnb.lab.probes import scored
from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import arc, pvr

SETS = {"acre": ("IID", "Comp", "Sys"), "raven": ("center", "four", "in_center")}  # i.i.d. first
READ = ("length", "words", "first_words", "first_states", "half_way", "last")
ROUTERS = {
    "printed": {"kind": "vq"},
    "data": {"kind": "vq", "init": "data"},
    "kmeans": {"kind": "kmeans"},
}
QUERIES = {"acre": 4, "raven": 1}  # of a problem; one of them is asked
PLACES, PAIRS = ("answer", "any"), ("itself", "another")


@dataclass(frozen=True)
class RouterSettings:
    """So many prompts of each set; codebooks take `steps` of Adam on Equation 1's loss.

    longest: characters of a prompt of pointer values or ARC, which has some of many thousands. label_rows:
    numbers of rows that dependence is measured on; clamp: the least probability of the published measure.
    """

    base: str = "google/gemma-3-270m"
    source: str = "file"
    open: bool = False
    train_rows: int = 40
    test_rows: int = 24
    longest: int = 1000
    split_seed: int = 42
    steps: int = 300
    learning_rate: float = 1e-2
    label_rows: list = field(default_factory=lambda: [16, 48, 80])
    clamp: float = 1e-6


def prompts(config: dict, seed: int) -> dict[str, dict[str, list[str]]]:
    """{"train" and "test": {set: prompts}}, one a problem; sets: "family cell format", "pvr" and "arc".

    Routers are fitted to drawn problems of the first cell, and tested on published ones.
    """
    from numpy.random import default_rng

    n = {"train": config["train_rows"], "test": config["test_rows"]}
    made: dict[str, dict[str, list[str]]] = {part: {} for part in n}
    for family, cells in SETS.items():
        queries = QUERIES[family]
        for part, some, source in (("train", cells[:1], "generator"), ("test", cells, config["source"])):
            drawn = {**config, "family": family, "source": source}
            for cell in some:
                told = asked(drawn, cell, [config["split_seed"], seed, len(part)], queries * n[part])  # type: ignore[arg-type]
                for format, pairs in told.items():
                    made[part][f"{family} {cell} {format}"] = scored(
                        [prompt for prompt, _ in pairs[::queries]]
                    )
    total, draw = sum(n.values()), default_rng([config["split_seed"], seed])
    for name, task in (("pvr", pvr), ("arc", arc)):
        whole = task.read() if config["source"] == "file" else task.generate(2 * total, seed)  # type: ignore[attr-defined]
        every = (task.prompt(whole[i])[0] for i in draw.permutation(len(whole)))  # type: ignore[attr-defined]
        short = [text for text in every if len(text) <= config["longest"]]
        made["train"][name], made["test"][name] = (
            scored(short[: n["train"]]),
            scored(short[n["train"] : total]),
        )
    return made


def loaded(config: dict, made: dict[str, dict[str, list[str]]], device: str):
    """The base, cut to the tokens of all prompts."""
    from causalnb.lab.bases import pretrained

    every = (text for part in made.values() for some in part.values() for text in some)
    base = pretrained(config["base"], every)
    base.model.eval().to(device)  # type: ignore[attr-defined]
    return base


def layers_of(base, texts: Sequence[str], batch: int = 8) -> Iterator[tuple]:
    """(numbers of texts, mask (B, T) of their tokens, states (B, T, D) of all layers), short texts first."""
    import torch

    ids = [base.ids(text, special=True) for text in texts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        width = max(len(ids[i]) for i in some)
        filled = [ids[i] + [0] * (width - len(ids[i])) for i in some]
        given = torch.tensor(filled, device=base.model.device)
        mask = torch.tensor([[1] * len(ids[i]) + [0] * (width - len(ids[i])) for i in some]).to(given)
        with torch.no_grad():
            told = base.model.base_model(input_ids=given, attention_mask=mask, output_hidden_states=True)
        yield some, mask, told.hidden_states


def read(base, texts: Sequence[str], first: int) -> dict:
    """{what is read: (n, D)} of texts.

    words: the mean word vector; half_way and last: the mean state there; the others: of the first tokens.
    """
    import torch

    from causalnb.iclm import mean_pooled

    depth, found = base.model.config.num_hidden_layers, [None] * len(texts)  # type: int, list
    for some, mask, layers in layers_of(base, texts):
        head = mask.clone()
        head[:, first:] = 0
        of = {
            "length": mask.sum(1, keepdim=True).float(),
            "words": mean_pooled(layers[0], mask),
            "first_words": mean_pooled(layers[0], head),
            "first_states": mean_pooled(layers[-1], head),
            "half_way": mean_pooled(layers[depth // 2], mask),
            "last": mean_pooled(layers[-1], mask),
        }
        for at, i in enumerate(some):
            found[i] = {name: value[at].cpu() for name, value in of.items()}
    return {name: torch.stack([one[name] for one in found]) for name in READ}


def places(base, texts: Sequence[str], seed: int) -> dict:
    """{place: (n, D)}: the last layer's state of each text at its end, and at one token after the first."""
    import torch
    from numpy.random import default_rng

    drawn, found = default_rng([seed, 2]).random(len(texts)), [None] * len(texts)  # type: ignore[var-annotated]
    for some, mask, layers in layers_of(base, texts):
        for at, (i, length) in enumerate(zip(some, mask.sum(1).tolist(), strict=True)):
            tokens = {"answer": length - 1, "any": 1 + int(drawn[i] * (length - 1))}
            found[i] = {place: layers[-1][at, token].cpu() for place, token in tokens.items()}
    return {place: torch.stack([one[place] for one in found]) for place in PLACES}


def fitted(states, kind: dict, config: dict, seed: int, modules: int = 2):
    """A router whose statistics, and codebook by Equation 1's loss, are fitted to pooled states (n, D)."""
    import torch

    from causalnb.iclm.routing import Router

    torch.manual_seed(seed)
    settings = {name: value for name, value in kind.items() if name != "kind"}
    router = Router(kind["kind"], modules, states.shape[1], **settings).fit(states, seed).train()
    weights = [one for one in router.parameters() if one.requires_grad]
    optimizer = torch.optim.Adam(weights, lr=config["learning_rate"]) if weights else None
    for _ in range(config["steps"] if optimizer else 0):
        optimizer.zero_grad()  # type: ignore[union-attr]
        router(states).loss.backward()
        optimizer.step()  # type: ignore[union-attr]
    return router.eval()


def named(modules, owners, many: int) -> tuple[int, ...]:
    """Which module is whose: the permutation that sends the most of the inputs to their owner's."""
    return max(
        permutations(range(many)),
        key=lambda order: sum(order[own] == one for one, own in zip(modules, owners, strict=True)),
    )


def routed(states: dict[str, dict], config: dict, seed: int) -> dict[str, dict[str, float]]:
    """{family/read/router: {cell: share of prompts that go to their format's module, "used": modules}}."""
    import torch

    found = {}
    for family, cells in SETS.items():
        for what in READ:
            seen = [states["train"][f"{family} {cells[0]} {format}"][what] for format in FORMATS]
            owners = [own for own, some in enumerate(seen) for _ in range(len(some))]
            for router, kind in ROUTERS.items():
                model = fitted(torch.cat(seen), kind, config, seed)
                with torch.no_grad():
                    sent = model(torch.cat(seen)).module.tolist()
                    order = named(sent, owners, len(FORMATS))
                    right = {}
                    for cell in cells:
                        tested = [states["test"][f"{family} {cell} {format}"][what] for format in FORMATS]
                        homes = [model(some).module == own for own, some in zip(order, tested, strict=True)]
                        right[cell] = torch.cat(homes).double().mean().item()
                found[f"{family}/{what}/{router}"] = right | {"used": len(set(sent))}
    return found


def apart(states: dict[str, dict]) -> dict[str, dict[str, float]]:
    """Silhouettes at full width: of all sets, of a family's formats, of i.i.d. and o.o.d. within a format."""
    import torch
    from sklearn.metrics import silhouette_score

    def silhouette(parts: list) -> float:
        names = [at for at, part in enumerate(parts) for _ in range(len(part))]
        return float(silhouette_score(torch.cat(parts).double().numpy(), names))

    found = {}
    for what in READ:
        test = {name: parts[what] for name, parts in states["test"].items()}
        six = [test[f"{family} {cells[0]} {format}"] for family, cells in SETS.items() for format in FORMATS]
        of = {"sets": silhouette([*six, test["pvr"], test["arc"]])}
        for family, cells in SETS.items():
            of[f"{family} formats"] = silhouette(
                [torch.cat([test[f"{family} {cell} {format}"] for cell in cells]) for format in FORMATS]
            )
            of[f"{family} shifts"] = fmean(
                silhouette([test[f"{family} {cells[0]} {format}"], test[f"{family} {cell} {format}"]])
                for format in FORMATS
                for cell in cells[1:]
            )
        found[f"apart/{what}"] = of
    return found


def dependence(states, rows: Sequence[int], clamp: float, seed: int) -> dict[str, dict[str, float]]:
    """{pair/0, pair/1, ...: measures} between states (n, D) and themselves or others', on so many rows each.

    Mutual information in nats, forward, as printed, and reversed and clamped, as published, and the norm of
    each one's gradient; the share of the joint above the clamp; Pearson's r, and that of states without their
    mean; debiased CKA.
    """
    import torch

    from causalnb.iclm import linear_cka, mutual_information, pearson

    order = torch.randperm(len(states), generator=torch.Generator().manual_seed(seed))
    found = {}
    for at, n in enumerate(rows):
        some = states[order[:n]].double()
        for pair, other in zip(PAIRS, (some, some.roll(1, 0)), strict=True):
            one = some.clone().requires_grad_()
            printed = mutual_information(one, other)
            published = mutual_information(one, other, "reverse", clamp)
            pulls = [torch.autograd.grad(value, one)[0].norm() for value in (printed, published)]
            joint = some.softmax(1).mT @ other.softmax(1) / n
            centred = [each - each.mean(0) for each in (some, other)]
            measured = {
                "printed": printed,
                "published": published,
                "printed_gradient": pulls[0],
                "published_gradient": pulls[1],
                "kept": (joint > clamp).double().mean(),
                "pearson": pearson(some, other),
                "centred": pearson(*centred),
                "cka": linear_cka(some, other),
            }
            found[f"{pair}/{at}"] = {name: value.item() for name, value in measured.items()}
    return found


def peaks(states) -> dict[str, float]:
    """How peaked softmax over the features of states (n, D) is.

    largest: the mean probability of a row's largest feature; commonest: the share of the rows that have the
    feature which is largest in the most of them; deviation: of all entries.
    """
    probability, feature = states.double().softmax(1).max(1)
    return {
        "width": states.shape[1],
        "deviation": states.double().std().item(),
        "largest": probability.mean().item(),
        "commonest": feature.bincount().max().item() / len(states),
    }


def answered(config: dict, seed: int) -> dict[str, list[tuple[str, str]]]:
    """{family: (prompt, answer)} of the problems that routers are fitted to, in both formats."""
    found = {}
    for family, cells in SETS.items():
        queries = QUERIES[family]
        drawn = {**config, "family": family, "source": "generator"}
        told = asked(
            drawn,
            cells[0],
            [config["split_seed"], seed, len("train")],  # type: ignore[arg-type]
            queries * config["train_rows"],
        )
        found[family] = scored([pair for pairs in told.values() for pair in pairs[::queries]])
    return found


def states_of_answers(base, pairs: Sequence[tuple[str, str]]):
    """(n, D): the last layer's state of the first token of each answer, which stands behind its prompt."""
    import torch

    found = []
    for prompt, answer in pairs:
        before = base.ids(prompt, special=True)
        given = torch.tensor([before + base.ids(answer)], device=base.model.device)
        with torch.no_grad():
            told = base.model.base_model(input_ids=given, output_hidden_states=True)
        found.append(told.hidden_states[-1][0, len(before)].cpu())
    return torch.stack(found)


def run_router(run: Run) -> dict:
    """Read all prompts with the bare base; routers, silhouettes and a map."""
    import torch
    from transformers import set_seed

    config, states = run.config, {}
    set_seed(run.seed)  # by which the tiny base of a quick run is drawn
    made = prompts(config, run.seed)
    base = loaded(config, made, run.device)
    first = min(
        len(base.ids(text, special=True)) for part in made.values() for some in part.values() for text in some
    )
    total = sum(map(len, made.values()))
    for part, sets in made.items():
        states[part] = {}
        for name, texts in sets.items():
            states[part][name] = read(base, texts, first)
            run.progress(sum(map(len, states.values())), total, f"{part} {name}")
    last = {name: some["last"] for name, some in states["test"].items()}
    names = [name for name, some in last.items() for _ in range(len(some))]
    flat = flattened(torch.cat([*last.values()]).double().numpy(), run.seed).tolist()
    metrics = {"": {"first_tokens": first, "prompts": len(names)}}
    metrics |= routed(states, config, run.seed) | apart(states)
    history = [
        {"set": name, "x": round(x, 3), "y": round(y, 3)} for name, (x, y) in zip(names, flat, strict=True)
    ]
    return {"metrics": metrics, "history": history, "bases": {base.name: base.digest}}


def run_dependence(run: Run) -> dict:
    """Measures of dependence between states and themselves or other prompts', and how peaked states are."""
    from transformers import set_seed

    config, metrics = run.config, {}
    set_seed(run.seed)
    made = prompts(config, run.seed)
    base = loaded(config, made, run.device)
    for at, (family, cells) in enumerate(SETS.items()):
        texts = [text for format in FORMATS for text in made["train"][f"{family} {cells[0]} {format}"]]
        for place, states in places(base, texts, run.seed).items():
            metrics[f"{family}/{place}"] = peaks(states)
            found = dependence(states, config["label_rows"], config["clamp"], run.seed)
            metrics |= {f"{family}/{place}/{cell}": measured for cell, measured in found.items()}
        run.progress(at + 1, len(SETS), family)
    return {"metrics": metrics, "history": [], "bases": {base.name: base.digest}}


def run_said(run: Run) -> dict:
    """As run_dependence, at the first token of each answer, where the published code takes its states."""
    from transformers import set_seed

    config, metrics = run.config, {}
    set_seed(run.seed)
    pairs = answered(config, run.seed)
    parts = {family: [part for pair in some for part in pair] for family, some in pairs.items()}
    base = loaded(config, {"train": parts}, run.device)
    for at, (family, some) in enumerate(pairs.items()):
        states = states_of_answers(base, some)
        metrics[f"{family}/said"] = peaks(states)
        found = dependence(states, config["label_rows"], config["clamp"], run.seed)
        metrics |= {f"{family}/said/{cell}": measured for cell, measured in found.items()}
        run.progress(at + 1, len(pairs), family)
    return {"metrics": metrics, "history": [], "bases": {base.name: base.digest}}


QUICK = {
    "base": "tiny",
    "source": "generator",
    "train_rows": 4,
    "test_rows": 4,
    "steps": 2,
    "label_rows": [4, 6, 8],
}
for name, title, run, cost in (
    ("router", "What a router sees in gemma-3-270m, untuned", run_router, 700),
    ("dependence", "What a loss between modules sees in gemma-3-270m, untuned", run_dependence, 120),
    ("said", "The same where answers have begun", run_said, 120),
):
    register(
        Experiment(
            id=f"iclm.real.{name}",
            title=title,
            arms={"bare": {}},
            run=run,
            notebook=NOTEBOOK,
            settings={"laptop": RouterSettings(), "quick": QUICK},
            seeds={"quick": 1, "laptop": 3},
            cost={"quick": 5, "laptop": cost},
        )
    )
