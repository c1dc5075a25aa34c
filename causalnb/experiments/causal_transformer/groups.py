"""What whoever is told the counter-examples would do first: reweighting, GroupDRO and IRM, on the comparison.

All are told one thing, which training pairs are counter-examples, and learn from the same draws, in which
these come as often as the pairs on which overlap is right (`data.balanced`). So GroupDRO without a step, and
IRM without its penalty, would be reweighting.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path

from causalnb.errors import FileError
from causalnb.experiments.causal_transformer.data import (
    COUNTEREXAMPLES,
    LABELS,
    balanced,
    cells,
    collate,
    encoded,
    pair_tokenizer,
    parts,
)
from causalnb.experiments.causal_transformer.grid import (
    BOTH_LABELS,
    COMPARED_RATES,
    DEVELOPMENT,
    MINORITIES,
    PAIRED,
    STRONG,
    TOLD,
    PairsSettings,
    matched,
    pairs_settings,
    register_pairs,
)
from causalnb.experiments.causal_transformer.models import attention_measures, fit, logits, right, settings
from causalnb.experiments.causal_transformer.runs import cell_scores, spread
from causalnb.lab.batches import grouped
from causalnb.lab.probes import scored
from causalnb.lab.records import parsed
from causalnb.lab.registry import Run

FILE = Path(__file__).with_name("groups_chosen.json")  # what the searches chose; `groups_choose` writes it
RIGHT, CONTRARY = 0, 1  # environments: overlap tells the label, or misleads often
OWN = ("compared", "objective", "step", "penalty_weight")  # settings of the grouped model's configuration


@dataclass(frozen=True)
class GroupsSettings(PairsSettings):
    """Pairs of sentences, of which it is told which are counter-examples.

    objective: "mean" of the rows, "dro" with its step, "irm" with a penalty whose weight is 1, and
    penalty_weight after the share `warm` of training. probe_rows are of each environment.
    """

    balanced: bool = True
    auc: bool = True
    causal_weight: float = 0.0
    ramp: list | None = None
    probe_rows: int = 300
    compared: bool = True
    objective: str = "mean"
    step: float = 0.01
    penalty_weight: float = 1.0
    warm: float = 0.3
    weight_decay: float = 0.01
    mapped: list = field(default_factory=lambda: ["challenge"])


def groups(task: str, rows: list[dict]) -> list[int]:
    """The group of each row, numbered from 0 in the order of (counter-example or not, label).

    The labels of both tasks come with overlap's consent; against it stands one of them alone.
    """
    kinds = [(COUNTEREXAMPLES[task](row), row["label"]) for row in rows]
    numbers = {kind: number for number, kind in enumerate(sorted(set(kinds)))}
    return [numbers[kind] for kind in kinds]


def environments(task: str, rows: list[dict], seed: int) -> list[int]:
    """The environment of each row: both have the labels in like shares, overlap is right in RIGHT alone.

    CONTRARY has all counter-examples, and of the rows with the other label a random part; RIGHT has the rest
    of these, and all other rows with the label of counter-examples. All are RIGHT without counter-examples.
    """
    draw, against = random.Random(f"environments {seed}"), [COUNTEREXAMPLES[task](row) for row in rows]
    labels = {row["label"] for row, rare in zip(rows, against, strict=True) if rare}
    agreeing = sum(row["label"] in labels and not rare for row, rare in zip(rows, against, strict=True))
    share = sum(against) / max(1, sum(against) + agreeing)
    return [
        CONTRARY if rare or row["label"] not in labels and draw.random() < share else RIGHT
        for row, rare in zip(rows, against, strict=True)
    ]


def told(task: str, rows: list[dict], tokenizer, seed: int) -> list[dict]:
    """The rows encoded, each with the numbers of its group and of its environment."""
    numbers = zip(groups(task, rows), environments(task, rows, seed), strict=True)
    return [
        row | {"groups": group, "environments": environment}
        for row, (group, environment) in zip(encoded(rows, tokenizer), numbers, strict=True)
    ]


def collate_told(rows: list[dict]) -> dict:
    """A batch of `told` rows: as `collate`, with groups and environments (B,)."""
    import torch

    names = ("groups", "environments")
    return {**collate(rows), **{name: torch.tensor([row[name] for row in rows]) for name in names}}


def build_grouped(config: dict, vocabulary: int, labels: int, count: int):
    """The model of an arm, for `count` groups and the two environments."""
    from causalnb.causal_transformer.groups import GroupedConfig, GroupedForSequenceClassification

    own = {name: config[name] for name in OWN} | {"penalty_from": round(config["warm"] * config["steps"])}
    return GroupedForSequenceClassification(
        GroupedConfig(
            vocab_size=vocabulary,
            num_labels=labels,
            groups=count,
            directed=False,
            **own,
            **settings(config, config["steps"]),
        )
    )


def group_measures(model, rows: list[dict]) -> dict[str, float]:
    """Of `told` rows the largest mean loss of a group, and IRM's penalty; how much the last group weighs."""
    import torch
    import torch.nn.functional as F

    from causalnb.causal_transformer.groups import irm_penalty, part_means

    said = torch.from_numpy(logits(model, rows)).double()
    labels, group, environment = (
        torch.tensor([row[name] for row in rows]) for name in ("labels", "groups", "environments")
    )
    means, _ = part_means(F.cross_entropy(said, labels, reduction="none"), group, model.config.groups)
    return {
        "worst_loss": float(means.max()),
        "penalty": float(irm_penalty(said, labels, environment, model.config.environments)),
        "counter_weight": float(model.log_weights[-1].exp()),
    }


def run_groups(run: Run) -> dict:
    """Train an arm and score all cells, as `run_beyond`; the history follows `group_measures`, too."""
    from transformers import set_seed

    config, task = run.config, run.config["task"]
    found = parts(task, config["data"], run.seed + config["data_seed"])
    tokenizer = pair_tokenizer(found["train"], config["vocabulary"])
    train = balanced(task, found["train"]) if config["balanced"] else found["train"]
    rows = told(task, train, tokenizer, run.seed)
    apart = [[row for row in rows if row["environments"] == one] for one in (RIGHT, CONTRARY)]
    probe = [row for part in apart for row in scored(spread(part, config["probe_rows"]))]
    validation = scored(encoded(found["validation"], tokenizer)[: config["validation_rows"]])
    followed = spread(validation, config["follow_rows"])
    count = 1 + max(row["groups"] for row in rows)
    set_seed(run.seed)
    model = build_grouped(config, len(tokenizer), len(LABELS[task]), count)

    def measure(model) -> dict:
        return {
            "accuracy": float(right(model, validation).mean()),
            "entropy": attention_measures(model, followed)["entropy"],
            **group_measures(model, probe),
        }

    batches = grouped(rows, config["batch"], config["steps"], run.seed)
    history = fit(run, model, rows, batches, measure, collate_told)
    asked = {cell: scored(some) for cell, some in cells(found, config["cells"], config["real"]).items()}
    own = {"parameters": model.num_parameters(), "groups": count, "rows": len(rows)}
    return {"metrics": {"": own, **cell_scores(model, asked, tokenizer, config)}, "history": history}


TRIES = 6  # for every arm
DECAYS = (
    0.01,
    STRONG,
)  # the second is strong: without it all groups are learned by heart (Sagawa et al. 2020)
OBJECTIVES = {
    "balanced": [
        {"learning_rate": rate, "weight_decay": decay} for decay in DECAYS for rate in (2e-3, 1e-3, 4e-3)
    ],
    "groupdro": [
        {"objective": "dro", "step": step, "weight_decay": decay}
        for decay in DECAYS
        for step in (0.01, 0.1, 1.0)
    ],
    "irm": [
        {"objective": "irm", "penalty_weight": weight, "warm": warm}
        for weight, warm in ((1.0, 0.0), (10.0, 0.2), (100.0, 0.2), (10.0, 0.5), (100.0, 0.5), (1000.0, 0.5))
    ],
}


def read_chosen() -> dict[str, int]:
    """{arm: number of the try that is used}; FileError where one is missing."""
    try:
        found = parsed(FILE.read_bytes())
    except (OSError, ValueError) as error:
        raise FileError(f"{FILE.name} holds no choices ({error}): restore it from git.") from error
    if missing := set(OBJECTIVES) - set(found):
        raise FileError(f"{FILE.name} lacks {min(missing)!r}: restore it from git.")
    return found


CHOSEN = read_chosen()


def tries() -> dict[str, dict]:
    """{arm_number: settings} of all tries, at the comparison's rate unless that is tried."""
    return {
        f"{arm}_{number}": {"learning_rate": COMPARED_RATES["nli"], **one}
        for arm, found in OBJECTIVES.items()
        for number, one in enumerate(found)
    }


def used() -> dict[str, dict]:
    """{arm: settings} that the search chose."""
    return {arm: tries()[f"{arm}_{number}"] for arm, number in CHOSEN.items()}


def crossed_decays() -> dict[str, dict]:
    """{arm: settings} that tell weight decay, searched for two of the three alone, from what is told."""
    low, high = DECAYS
    return {
        "compared_high": {"balanced": False, "weight_decay": high},
        "balanced_low": used()["balanced"] | {"weight_decay": low},
        "irm_high": used()["irm"] | {"weight_decay": high},
    }


DRAWN = pairs_settings("nli", MINORITIES["m5"], GroupsSettings, real=BOTH_LABELS)
TRIED = pairs_settings("nli", MINORITIES["m5"], GroupsSettings, **DEVELOPMENT)
for id, title, arms, seeds, cost, made in (
    ("search.nli", "tries on templates for development", tries(), 1, 60, TRIED),
    ("nli.m5", "reweighting, GroupDRO and IRM, 5 % of counter-examples", used(), PAIRED, 115, DRAWN),
    (
        "decay.nli",
        "weight decay crossed with what is told, 5 % of counter-examples",
        crossed_decays(),
        5,
        115,
        DRAWN,
    ),
    (
        "longer.nli",
        "reweighting for as many steps as all three without held attention have in its seconds",
        {"balanced": used()["balanced"]},
        5,
        180,
        matched(GroupsSettings, real=BOTH_LABELS),
    ),
):
    register_pairs(
        f"groups.{id}",
        "nli",
        f", told the counter-examples: {title}",
        arms,
        seeds,
        cost,
        made,
        gpu=150,
        run=run_groups,
        notebook=TOLD,
    )
