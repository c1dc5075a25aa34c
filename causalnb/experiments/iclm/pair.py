"""ICLM on two domains whose modules must differ, and what its losses of independence do there.

Each arm tunes adapters on a small frozen random base, on all rows of `causalnb.tasks.two_mechanisms`. `none`
is the paper's loss without its mutual information, `paper` has it as printed, over all modules (Equation 3),
`strong` many times as much, `ours` the alignment (debiased CKA) in its place. In `free` arms the domain
modules need not answer by themselves (beta 0) and the invariant one all the more (alpha 1). `code` has the
losses as the paper's repository weighs them. `built` modules are independent by construction: no word reaches
the domain modules, and no domain the invariant one. `separate` has no invariant module, `oracle` is `none`
told the domain, `single` one module with as many trained parameters as ICLM, `small` one module that is the
invariant one and no more.
"""

import json
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

from causalnb.experiments.iclm.grid import LINEAR
from causalnb.experiments.iclm.models import ICLM_SETTINGS, at_labels, collate, fit, on_device, row_order
from causalnb.experiments.iclm.runs import independence, trained_parameters
from causalnb.lab.probes import scored
from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import two_mechanisms

PAD, BOS, ANY = range(3)  # ANY stands where a module is not shown what is there, and for no domain
DOMAIN, WORD = 1, 2  # places in a row; at the second the answer is predicted
PARTS = ("iid", "ood")
LEAST = 4  # rows of a module from which its states are compared


@dataclass(frozen=True)
class PairSettings:
    """One arm on one pair of domains."""

    hidden_size: int = 32
    intermediate_size: int = 64
    layers: int = 2
    heads: int = 2
    bf16: bool = False
    words: int = 96
    classes: int = 8
    both: float = 0.5
    similarity: float = 0.0
    first_seed: int = 0  # of the pairs: those of the search are others
    lora_rank: int = 32
    lora_targets: list = field(default_factory=lambda: LINEAR)
    num_modules: int = 2
    invariant: bool = True
    router: str = "vq"
    router_settings: dict = field(default_factory=lambda: {"init": "data"})
    router_trainable: bool = False
    routed_by: str = "router"
    aggregation: str = "latent"
    weights: dict = field(default_factory=dict)
    information: str = "routed"
    direction: str = "forward"
    clamp: float | None = None
    apart: bool = False
    batch: int = 64
    steps: int = 400
    learning_rate: float = 1e-2
    weight_decay: float = 0.0  # it would shrink modules that are idle
    evaluate_every: int = 100


def word_ids(config: dict) -> dict[str, int]:
    """{word: token id} of a pair's rows."""
    words = two_mechanisms.vocabulary(config["words"], config["classes"])
    return {word: number for number, word in enumerate(words, ANY + 1)}


def encoded(rows: list[dict], config: dict) -> list[dict]:
    """input_ids (4,) of each row, beginning, domain, word, answer; prompt_mask, labels; how it is routed."""
    ids, ready = word_ids(config), []
    for row in rows:
        given = [BOS, *map(ids.__getitem__, row["text"].split())]
        how = {"router": {"routed": True}, "domain": {"module": row["domain"]}, "nobody": {"module": 0}}
        ready.append(
            {
                "input_ids": [*given, ids[row["answer"]]],
                "prompt_mask": [1] * len(given) + [0],
                "labels": [-100] * len(given) + [ids[row["answer"]]],
            }
            | how[config["routed_by"]]
        )
    return ready


def build_base(config: dict):
    """A Llama over the pair's words, as it is drawn."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(word_ids(config)) + ANY + 1,
            hidden_size=config["hidden_size"],
            intermediate_size=config["intermediate_size"],
            num_hidden_layers=config["layers"],
            num_attention_heads=config["heads"],
            max_position_embeddings=8,
            initializer_range=0.4 / config["hidden_size"] ** 0.5,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=None,
        )
    )


def build_model(config: dict, base):
    """The ICLM of an arm on a base, independent by construction where it is to be `apart`."""
    from causalnb.iclm import ICLMForCausalLM

    lora = {
        "r": config["lora_rank"],
        "alpha": 2 * config["lora_rank"],
        "dropout": 0.0,
        "target_modules": config["lora_targets"],
    }
    settings = {name: config[name] for name in (*ICLM_SETTINGS, "information") if name in config}
    model = ICLMForCausalLM.from_base(base, lora=lora, **settings)
    return kept_apart(model) if config["apart"] else model


def kept_apart(model):
    """The model with the domain hidden from its invariant module, and the word from its domain modules."""
    import torch

    def hide(_, given, named):
        module, ids = model.rows.module, named["input_ids"].clone()
        if module is None:  # the router's
            return given, named
        shared = (torch.as_tensor(module) == model.number("invariant")).expand(len(ids))
        ids[shared, DOMAIN] = ANY
        ids[~shared, WORD] = ANY
        return given, named | {"input_ids": ids}

    model.base.base_model.register_forward_pre_hook(hide, with_kwargs=True)
    return model


def answers(model, rows: list[dict], module: int | str | None = None) -> tuple[list[int], list]:
    """(token, domain module or None) that a model answers encoded rows with, or one module alone."""
    from contextlib import nullcontext

    said, modules = [0] * len(rows), [None] * len(rows)
    with nullcontext() if module is None else model.only(module):
        for chosen, _, _, out in at_labels(model, rows):
            routed = [None] * len(chosen) if out.module is None else out.module.tolist()
            for i, token, number in zip(chosen, out.logits.argmax(-1).tolist(), routed, strict=True):
                said[i], modules[i] = token, number
    return said, modules


def share(one: list, other: list) -> float:
    """How many of two lists' entries are equal."""
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def homes(domains: list[int], modules: list[int], many: int) -> dict[int, int]:
    """{domain: the module that most of its rows are sent to}."""
    rows = [*zip(domains, modules, strict=True)]
    return {
        domain: max(range(many), key=lambda module: rows.count((domain, module)))
        for domain in sorted({*domains})
    }


def rightly(domains: list[int], modules: list[int]) -> float:
    """The share of rows whose module has most of its rows from their domain."""
    rows = [*zip(domains, modules, strict=True)]
    return sum(max(rows.count((domain, module)) for domain in {*domains}) for module in {*modules}) / len(
        rows
    )


def states_at_answers(model, rows: list[dict]) -> dict:
    """{module: last states (n, H)} of the invariant and of all domain modules where rows are answered."""
    import torch

    batch = on_device(collate(rows), model)
    model.eval()
    with torch.no_grad():
        return {
            module: model.states(batch["input_ids"], batch["attention_mask"], module)[:, WORD]
            for module in ("invariant", *range(model.config.num_modules))
        }


def own_dependence(states: dict, modules: list[int]) -> dict[str, float]:
    """As runs.independence, of each domain module on the rows that are sent to it: means over modules."""
    import torch

    from causalnb.iclm import linear_cka, mutual_information, pearson

    sent = torch.tensor(modules, device=states["invariant"].device)
    found = []
    for module in sorted({*modules}):
        first, other = (states[one][sent == module] for one in ("invariant", module))
        if len(first) >= LEAST:
            measures = {"forward": mutual_information, "pearson": pearson, "cka": linear_cka}
            found.append({name: float(measure(first, other)) for name, measure in measures.items()})
    return {name: sum(one[name] for one in found) / len(found) for name in found[0]} if found else {}


def exchanged(model, states: dict, rows: list[dict], domains: list[int], modules: list[int]) -> dict:
    """{"domain", "invariant"}: accuracy where that module's state is of another row of domain and module.

    An answer that stays is not made by what the module says about the row: interventions, not correlations.
    """
    import torch

    places = list(range(len(rows)))
    groups: dict = {}
    for i, group in enumerate(zip(domains, modules, strict=True)):
        groups.setdefault(group, []).append(i)
    for group in groups.values():
        half = len(group) // 2
        for i, other in zip(group, group[half:] + group[:half], strict=True):
            places[i] = other
    first = states["invariant"]
    domain = torch.stack([states[module][i] for i, module in enumerate(modules)])
    targets = [row["labels"][-1] for row in rows]
    weights = torch.ones(1, len(rows), device=first.device)

    def accuracy(first, domain):
        with torch.no_grad():
            return share(model._logits(torch.stack([first, domain]), weights).argmax(-1).tolist(), targets)

    return {"domain": accuracy(first, domain[places]), "invariant": accuracy(first[places], domain)}


def alone(model, ready: dict[str, list[dict]], domains: dict[str, list[int]], home: dict[int, int]) -> dict:
    """{"<module>/<part>": scores} of single modules, by the base's head, on encoded rows of each part.

    invariant; own, the module that most rows of a row's domain are sent to; other, that of the other domain.
    disagreeing, of own: how many rows it answers otherwise than the invariant module.
    """
    found = {}
    asked_alone: list[int | str] = ["invariant", *sorted({*home.values()})]
    for part, rows in ready.items():
        right = [row["labels"][-1] for row in rows]
        said = {one: answers(model, rows, one)[0] for one in asked_alone}
        own, other = (
            [said[home[domain if domain in home else 1 - domain]][i] for i, domain in enumerate(asked)]
            for asked in (domains[part], [1 - domain for domain in domains[part]])
        )
        found[f"invariant/{part}"] = {"accuracy": share(said["invariant"], right)}
        found[f"own/{part}"] = {
            "accuracy": share(own, right),
            "disagreeing": 1 - share(own, said["invariant"]),
        }
        found[f"other/{part}"] = {"accuracy": share(other, right)}
    return found


def measured(model, asked: dict[str, list[dict]], config: dict) -> dict[str, dict[str, float]]:
    """All metrics of a tuned model; `asked`: rows of the task by part, of PARTS.

    iid, ood: accuracy, and borrowed, the share answered as the other domain does. routing, where there is
    one: rightly, used. With an invariant module `alone`, and on "iid" states as runs.independence, own_states
    of modules on the rows that are sent to them, exchanged.
    """
    ready = {part: encoded(rows, config) for part, rows in asked.items()}
    domains = {part: [row["domain"] for row in rows] for part, rows in asked.items()}
    ids, modules = word_ids(config), []
    found: dict[str, dict[str, float]] = {"": {"trainable_parameters": trained_parameters(model)}}
    for part in reversed(PARTS):  # "iid" last, by whose modules all else is judged
        said, modules = answers(model, ready[part])
        found[part] = {
            "accuracy": share(said, [row["labels"][-1] for row in ready[part]]),
            "borrowed": share(said, [ids[row["borrowed"]] for row in asked[part]]),
        }
    if config["num_modules"] > 1:
        found["routing"] = {"rightly": rightly(domains["iid"], modules), "used": len({*modules})}
    if config["invariant"]:
        found |= alone(model, ready, domains, homes(domains["iid"], modules, config["num_modules"]))
        states = states_at_answers(model, ready["iid"])
        found["states"] = independence(model, ready["iid"])
        found["own_states"] = own_dependence(states, modules)
        found["exchanged"] = exchanged(model, states, ready["iid"], domains["iid"], modules)
    return found


def run_pair(run: Run) -> dict:
    """Tune one arm on one pair, drawn by first_seed and the run's seed; `measured`, and a history of it."""
    from transformers import set_seed

    config = run.config
    seed = config["first_seed"] + run.seed
    pair = two_mechanisms.draw(config["words"], config["classes"], config["similarity"], config["both"], seed)
    asked = {part: [pair.row(*one) for one in pair.combinations(part)] for part in PARTS}
    rows, asked = encoded(asked["iid"], config), {part: scored(rows) for part, rows in asked.items()}
    set_seed(seed)
    base = build_base(config)
    model = build_model(config, base)
    ready = {part: encoded(some, config) for part, some in asked.items()}

    def watch(model) -> dict:
        found = {
            part: share(answers(model, some)[0], [row["labels"][-1] for row in some])
            for part, some in ready.items()
        }
        return found | (independence(model, ready["iid"]) if config["invariant"] else {})

    batches = row_order(len(rows), config["batch"], config["steps"], seed)
    history = fit(replace(run, seed=seed), model, rows, batches, watch) if config["steps"] else []
    return {"metrics": measured(model, asked, config), "history": history}


def mutual(weight: float, **more: float) -> dict:
    """Settings of Equation 3 with a weight, over all modules on all rows."""
    return {"weights": {**more, "epsilon": weight}, "information": "all"}


def alignment(weight: float, **more: float) -> dict:
    """Settings of the modules' alignment (debiased CKA) with a weight, in the place of Equation 3."""
    return {"weights": {**more, "epsilon": 0.0, "delta": weight}, "information": "all"}


Arms = dict[str, dict]
CHOSEN = Path(__file__).with_name("pair_chosen.json")  # written by pair_choose
SIMILARITIES, COUNTS, RATES = (0.0, 0.5, 1.0), (2, 4), {"1e-3": 1e-3, "3e-3": 3e-3, "1e-2": 1e-2}
HEADLINE = 6  # seeds where the domains share no answer and ICLM has two domain modules
PRINTED = 0.01  # the paper's weight of the mutual information
FREE: dict[str, float] = {"alpha": 1.0, "beta": 0.0}
WEIGHED: dict = {  # arm -> its loss of a weight, and the weights that are tried
    "strong": (mutual, (1.0, 10.0, 100.0)),
    "ours": (alignment, (0.03, 0.1, 1.0)),
    "free_strong": (partial(mutual, **FREE), (0.1, 1.0, 10.0)),
    "free_ours": (partial(alignment, **FREE), (0.03, 0.1, 1.0)),
}
PLAIN: Arms = {"none": {"weights": {"epsilon": 0.0}}, "free": {"weights": {**FREE, "epsilon": 0.0}}}
DOSES: Arms = {  # of Equation 3: as printed, as the paper's repository has it, and the most that was tried
    "paper": mutual(PRINTED),
    "code": {"direction": "reverse", "clamp": 1e-6, **mutual(PRINTED, alpha=1.0, beta=1.0)},
    "strongest": mutual(WEIGHED["strong"][1][-1]),
    "free_strongest": mutual(WEIGHED["free_strong"][1][-1], **FREE),
}
ONE: dict = {"num_modules": 1, "invariant": False, "routed_by": "nobody"}
CONTROLS: Arms = {
    "small": ONE,
    "separate": {"invariant": False},
    "oracle": {**PLAIN["none"], "routed_by": "domain"},
    "built": {**PLAIN["none"], "routed_by": "domain", "apart": True},
}


def chosen() -> dict:
    """What pair_choose wrote: "rates" by side, and "weights" of the arms of WEIGHED."""
    return json.loads(CHOSEN.read_text(encoding="utf-8"))


def single(modules: int) -> dict:
    """Settings of one module that trains as much as ICLM does in its domain modules and the invariant one."""
    return {**ONE, "lora_rank": (modules + 1) * PairSettings.lora_rank}


def tried(arm: str, value: float | str) -> str:
    """The arm of the search that has this rate, weight or length."""
    return f"{arm}_{value}".replace(".", "_")


def searched() -> Arms:
    """The arms of the search: rates of both sides, weights at the rate that ICLM takes, twice the steps."""
    rates = chosen()["rates"]
    sides = {"single": single(2), "none": PLAIN["none"]}
    arms = {
        tried(arm, name): {**settings, "learning_rate": rate}
        for arm, settings in sides.items()
        for name, rate in RATES.items()
    }
    at = {"learning_rate": rates["iclm"]}
    arms |= {
        tried(arm, weight): {**loss(weight), **at}
        for arm, (loss, weights) in WEIGHED.items()
        for weight in weights
    }
    twice = {"steps": 2 * PairSettings.steps}
    arms[tried("none", "twice")] = {**PLAIN["none"], **at, **twice}
    arms[tried("single", "twice")] = {**single(2), "learning_rate": rates["single"], **twice}
    return arms


def name_of(arm: str, similarity: float, modules: int = 2) -> str:
    """The name of an arm in a cell of the map."""
    return f"{arm}_n{modules}_s{round(100 * similarity)}"


def settled() -> Arms:
    """The arms of every cell of the map, with the rates and weights that the search chose."""
    found = chosen()
    weighed = {arm: loss(found["weights"][arm]) for arm, (loss, _) in WEIGHED.items()}
    arms: Arms = {"untrained": {**PLAIN["none"], "steps": 0, "routed_by": "domain"}}
    for similarity, modules in product(SIMILARITIES, COUNTS):
        cell = PLAIN | weighed
        cell |= CONTROLS if modules == 2 else {}
        cell |= DOSES if modules == 2 and similarity == 0 else {}
        cell = {arm: {**its, "learning_rate": found["rates"]["iclm"]} for arm, its in cell.items()}
        cell["single"] = {**single(modules), "learning_rate": found["rates"]["single"]}
        for arm, its in cell.items():
            more = {} if arm in ("single", "small") else {"num_modules": modules}
            arms[name_of(arm, similarity, modules)] = its | more | {"similarity": similarity}
    return arms


QUICK = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "layers": 1,
    "words": 16,
    "classes": 2,
    "lora_rank": 2,
    "batch": 8,
    "steps": 2,
    "evaluate_every": 1,
}
NOTEBOOK = "35_when_modules_pay"


def _register(id: str, title: str, arms: dict, seeds: int, more: dict | None = None, **changes) -> None:
    register(
        Experiment(
            id=id,
            title=title,
            run=run_pair,
            notebook=NOTEBOOK,
            arms=arms,
            settings={"laptop": PairSettings(**changes), "quick": QUICK, "gpu": {}},
            seeds={"quick": 1, "laptop": seeds},
            more_seeds={"laptop": more} if more else {},
            cost={"quick": 2, "laptop": 25, "gpu": 20},
            at_most={"quick": {"steps": 2}},
        )
    )


_register(
    "iclm.pair",
    "Two domains whose modules must differ: similarity, regularisers, modules",
    settled(),
    1,
    {arm: HEADLINE for arm in settled() if arm.endswith("_n2_s0")},
)
_register(
    "iclm.pair.search",
    "Two domains whose modules must differ: rates and weights, on other pairs",
    searched(),
    2,
    first_seed=1000,
)
