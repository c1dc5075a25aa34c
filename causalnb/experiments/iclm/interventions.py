"""Equations 5 to 8 by intervention: a state is changed in a training step, and all weights are compared."""

from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass

from causalnb.lab.registry import Experiment, Run, register

ROWS, TOKENS, ANSWER, WIDTH, VOCABULARY = 4, 8, 2, 16, 32
PARTS = {"WS0": "domain_0", "WS1": "domain_1", "WI": "invariant", "WR": "router", "WO": "shared_head"}


@dataclass(frozen=True)
class Settings:
    """One intervention on a small ICLM."""

    invariant: bool = True
    epsilon: float = 0.0
    clip: bool = False
    router: str = "vq"
    aggregation: str = "probability"
    train_shared: bool = True
    mixed: bool = False
    do: int | str = 0
    noise: float = 1.0
    before: int = 0
    steps: int = 4
    optimiser: str = "SGD"
    lr: float = 0.3
    max_norm: float = 0.1
    precision: str = "float64"


DEFAULTS = asdict(Settings())
ALONE = {"invariant": False, "aggregation": "own"}
NORM = {"invariant": False, "aggregation": "logit", "train_shared": False}
PAPER = {"aggregation": "latent", "epsilon": 0.01}
LATER = PAPER | {"before": 50, "steps": 2, "lr": 0.1}
ARMS = {  # what differs from DEFAULTS
    "no_invariant": ALONE,
    "no_invariant_mixed": ALONE | {"mixed": True},
    "no_invariant_norm": NORM,
    "no_invariant_norm_mixed": NORM | {"mixed": True},
    "no_invariant_head": {"invariant": False, "aggregation": "latent"},
    "no_invariant_clip": ALONE | {"clip": True},
    "no_invariant_soft": ALONE | {"router": "distance"},
    "invariant": {},
    "invariant_clip": {"clip": True},
    "invariant_soft": {"router": "distance"},
    "information": {"epsilon": 0.01},
    "information_clip": {"epsilon": 0.01, "clip": True},
    "do_invariant": {"do": "invariant"},
    "do_invariant_clip": {"do": "invariant", "clip": True},
    "paper": PAPER,
    "paper_clip": PAPER | {"clip": True},
    "later_without": LATER | {"epsilon": 0.0},
    "later": LATER,
    "later_strong": LATER | {"epsilon": 100.0},
}


def settings(arm: str, **changes) -> dict:
    """All settings of an arm; LabError for an unknown arm or setting."""
    from causalnb.errors import LabError

    if arm not in ARMS:
        raise LabError(f"there is no intervention {arm!r}: choose among {', '.join(ARMS)}.")
    if unknown := set(changes) - set(DEFAULTS):
        raise LabError(f"an intervention has no setting {min(unknown)!r}: there are {', '.join(DEFAULTS)}.")
    return DEFAULTS | ARMS[arm] | changes


def plan(config: dict) -> list[tuple[int, ...]]:
    """The domains in the batch of each step: 0 and 1 in turn, or both."""
    return [(0, 1) if config["mixed"] else (step % 2,) for step in range(config["before"] + config["steps"])]


def graph(config: dict):
    """The temporal graph of what is trained from the intervention on, up to the weights after the last step.

    A batch has a row for each of its domains, and information a term for each module, as in the model.
    """
    from causalnb.iclm import temporal_graph

    variant = "no_invariant"
    if config["invariant"]:
        variant = "mutual_information" if config["epsilon"] else "base"
    norm = config["aggregation"] in ("latent", "logit")
    routes = {"routing": "soft"}
    if config["router"] == "vq":
        routes = {
            "active": [*plan(config)[config["before"] :], (0,)],
            "per_sample_loss": True,
            "information": "routed",
        }
    return temporal_graph(
        variant,
        config["steps"] + 1,
        clipping=config["clip"],
        shared_batch_norm=norm,
        shared_head=norm and config["train_shared"],
        **routes,
    )


def batches(config: dict, seed: int) -> list[dict]:
    """A batch for each step: ROWS rows split among its domains, which use two halves of the vocabulary."""
    import torch

    draw, half, found = torch.Generator().manual_seed(seed), VOCABULARY // 2, []
    for domains in plan(config):
        rows = ROWS // len(domains)
        ids = torch.cat(
            [torch.randint(half * n, half * (n + 1), (rows, TOKENS), generator=draw) for n in domains]
        )
        labels = ids.clone()
        labels[:, :-ANSWER] = -100
        found.append({"input_ids": ids, "labels": labels})
    return found


def base(seed: int):
    """A random Llama in whose embedding the two halves of the vocabulary lie apart."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=TOKENS,
            initializer_range=0.2,
        )
    )
    side = torch.where(torch.arange(VOCABULARY) < VOCABULARY // 2, 1, -1)[:, None]
    with torch.no_grad():
        words = torch.randn(VOCABULARY, WIDTH) + side * torch.randn(WIDTH)
        model.get_input_embeddings().weight.copy_(2 * words)
    return model


def build(config: dict, seed: int):
    """A tiny ICLM with a trained router, which begins by sending each half of the words to its module."""
    import torch

    from causalnb.iclm import ICLMForCausalLM

    model = ICLMForCausalLM.from_base(
        base(seed),
        num_modules=2,
        lora={"r": 2, "dropout": 0.0},
        router=config["router"],
        router_trainable=True,
        aggregation=config["aggregation"],
        invariant=config["invariant"],
        weights={"epsilon": config["epsilon"]},
    ).to(getattr(torch, config["precision"]))
    if model.aggregation is not None:
        model.aggregation.requires_grad_(config["train_shared"])
    with torch.no_grad():
        texts = batches(DEFAULTS | {"steps": 2 * ROWS}, seed + 1)
        states = torch.stack([model.router_states(**text) for text in texts])  # (steps, B, D)
        model.router.fit(states.flatten(0, 1))
        for seen in states:  # so that one batch of a single domain does not move the statistics far
            model.router.norm.update(seen)
        normed = model.router.norm.eval()(states.flatten(0, 1)).view_as(states)
        for domain, centroid in enumerate(model.router.choose.codebook):
            centroid.copy_(normed[domain::2].mean((0, 1)))
    return model.train()


@contextmanager
def changed_state(model, module: int | str, noise: float, seed: int):
    """Within this context fixed noise of a given size is added to the last hidden states of a module."""
    import torch

    number = model.number(module)

    def shift(decoder, arguments, output):
        rows = model.rows.module
        if torch.is_tensor(rows):  # the router's own pass has no rows
            states = output.last_hidden_state  # (R, T, D)
            draw = torch.randn(states.shape, generator=torch.Generator().manual_seed(seed)).to(states)
            output.last_hidden_state = states + noise * draw * (rows == number)[:, None, None]
        return output

    hook = model.base.base_model.register_forward_hook(shift)
    try:
        yield
    finally:
        hook.remove()


def weights(model) -> dict:
    """Trained parameters of each part that there is, flat: {"WS0", "WS1", "WI", "WR", "WO": (P,)}."""
    import torch

    adapters = [weight for name, weight in model.named_parameters() if name.endswith((".A", ".B"))]
    owner = {0: "WS0", 1: "WS1", "invariant": "WI", "router": "WR"}
    found = {
        owner[module]: [weight[place] for weight in adapters]
        for place, module in enumerate(model.modules_in_order())
    }
    found["WR"] += model.router.parameters()
    shared = () if model.aggregation is None else model.aggregation.parameters()
    found["WO"] = [weight for weight in shared if weight.requires_grad]
    return {part: torch.cat([one.detach().flatten() for one in some]) for part, some in found.items() if some}


def train(config: dict, seed: int, intervened: bool) -> list[tuple[dict, float]]:
    """(weights, mutual information in nats) before the step of the intervention, and after it and each later.

    By default plain gradient descent, so that nothing but the losses moves a weight. Raises LabError where a
    batch is not routed as planned.
    """
    import torch

    from causalnb.errors import LabError

    model, found, information = build(config, seed), [], float("nan")
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = getattr(torch.optim, config["optimiser"])(trained, lr=config["lr"])
    for step, (domains, batch) in enumerate(zip(plan(config), batches(config, seed), strict=False)):
        if step == config["before"]:
            found.append((weights(model), information))
        acts = intervened and step == config["before"]
        with changed_state(model, config["do"], config["noise"], seed) if acts else nullcontext():
            out = model(**batch)
        wanted = torch.tensor(domains).repeat_interleave(ROWS // len(domains))
        if config["router"] == "vq" and not torch.equal(out.module, wanted):
            raise LabError(f"step {step} was routed to {out.module.tolist()}: lower lr or take another seed.")
        information = float(out.losses.get("mutual_information", torch.nan))
        optimiser.zero_grad()
        out.loss.backward()
        if config["clip"]:
            torch.nn.utils.clip_grad_norm_(trained, config["max_norm"])
        optimiser.step()
        if step >= config["before"]:
            found.append((weights(model), information))
    return found


def effects(config: dict, seed: int) -> list[dict]:
    """What a changed state of one step does to all weights after it and each later step, by part.

    Rows: step, part; change, the largest absolute difference to the run without; share, its norm by that of
    the step's own update (nan without one); path, () where the graph separates cause and weights; and the
    information, in nats, of the run without.
    """
    from causalnb.iclm import Node, witness

    drawn = graph(config)
    kind, module = ("HI", None) if config["do"] == "invariant" else ("HS", config["do"])
    causes = [node for node in drawn if (node.kind, node.step, node.module) == (kind, 0, module)]
    control, treated = train(config, seed, False), train(config, seed, True)
    found = []
    for step in range(config["steps"]):
        (before, _), (plain, information), (moved, _) = control[step], control[step + 1], treated[step + 1]
        for part, name in PARTS.items():
            if part in plain:
                effect = Node(part[:2], step + 1, int(part[2:]) if part[2:] else None)
                difference, update = moved[part] - plain[part], (plain[part] - before[part]).norm()
                found.append(
                    {
                        "step": step,
                        "part": name,
                        "change": difference.abs().max().item(),
                        "share": (difference.norm() / update).item() if update else float("nan"),
                        "path": witness(drawn, causes, effect),
                        "information": information,
                    }
                )
    return found


def intervene(arm: str, seed: int = 0, **changes) -> list[dict]:
    """The `effects` in an arm of ARMS, with some settings changed; LabError for unknown ones."""
    return effects(settings(arm, **changes), seed)


def measure(arms, seeds, **changes):
    """DataFrame of the effects in several arms and seeds: arm, seed and the columns of a result's history."""
    import pandas as pd

    return pd.DataFrame(
        [
            {"arm": arm, "seed": seed, **row}
            for arm in arms
            for seed in seeds
            for row in told(intervene(arm, seed, **changes))
        ]
    )


def told(rows: list[dict]) -> list[dict]:
    """Effects with `separated` in place of the path."""
    return [
        {**{name: value for name, value in row.items() if name != "path"}, "separated": not row["path"]}
        for row in rows
    ]


def metrics(rows: list[dict]) -> dict[str, float]:
    """By part the largest change; share of the invariant module's first update; information at the start.

    separated: cells (step, part) that the graph separates from the intervention; broken: those that changed.
    """
    found = {
        part: max(row["change"] for row in rows if row["part"] == part)
        for part in PARTS.values()
        if any(row["part"] == part for row in rows)
    }
    shares = [row["share"] for row in rows if row["part"] == "invariant"]
    return found | {
        "share": shares[0] if shares else float("nan"),
        "information": rows[0]["information"],
        "separated": float(sum(not row["path"] for row in rows)),
        "broken": float(sum(not row["path"] and row["change"] > 0 for row in rows)),
    }


def run_interventions(run: Run) -> dict:
    """One intervention of one arm."""
    rows = effects(run.config, run.seed)
    return {"metrics": {"": metrics(rows)}, "history": told(rows)}


register(
    Experiment(
        id="iclm.interventions",
        title="What a changed state of one module does to the weights of all",
        run=run_interventions,
        notebook="31_causal_graphs",
        arms=ARMS,
        settings={"laptop": Settings()},
        seeds={"quick": 1, "laptop": 5},
        cost={"quick": 5, "laptop": 5},
    )
)
