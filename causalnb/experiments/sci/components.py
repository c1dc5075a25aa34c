"""The SCI guide's components: the answer leak trained both ways, and each finding as a number."""

from dataclasses import dataclass, field

from causalnb.experiments.sci.scan import collators, decoded_matches, fit, scan_rows, small_llama
from causalnb.lab.probes import scored
from causalnb.lab.registry import Experiment, Run, register
from causalnb.tasks import scan


def run_leak(run: Run) -> dict:
    """Train SCI with encoders that see the prompt, or the answer too; forced against greedy match."""
    import torch
    from numpy.random import default_rng
    from transformers import set_seed

    from causalnb.lab.evaluation import teacher_forced_matches
    from causalnb.sci import SCITransformer
    from causalnb.sci.contrasts import LeakingSCI

    config = run.config
    rows, held_out = (
        scan_rows([pair for pair in part if pair[1].count(" ") < config["longest"]])
        for part in scan.split("simple")
    )
    test = scored([held_out[i] for i in default_rng(0).permutation(len(held_out))[: config["test_rows"]]])
    set_seed(run.seed)
    kind = LeakingSCI if config["sees"] == "prompt and answer" else SCITransformer
    model = kind.from_base(
        small_llama(config),
        n_structural_slots=config["structural_slots"],
        cbm_layers=config["cbm_layers"],
        scl_weight=config["scl_weight"],
        ortho=config["ortho"],
    )
    history = fit(run, model, rows)
    _, plainly = collators(model)
    row = max(test, key=lambda row: len(row["input_ids"]))
    *before, last, end = row["input_ids"]
    other = next(scan.VOCABULARY[action] for action in scan.ACTIONS if scan.VOCABULARY[action] != last)
    with torch.no_grad():
        first = sum(row["prompt_mask"]) - 1  # the position that predicts the first action
        both = plainly([row, {**row, "input_ids": [*before, other, end]}])
        logits = model(**{name: value.to(model.device) for name, value in both.items()}).logits[:, first]
    return {
        "metrics": {
            "": {
                "forced_exact_match": float(teacher_forced_matches(model, test, plainly).mean()),
                "greedy_exact_match": float(decoded_matches(model, test).mean()),
                "first_logit_change": float((logits[0] - logits[1]).abs().max()),
                **trained_parts(model, test, plainly),
            }
        },
        "history": history,
    }


def trained_parts(model, rows, collator) -> dict:
    """What the guide claims of abstraction, content, projector and do(), on a trained SCITransformer.

    Scores of the structural detector for function words and for verbs; distances of a verb's content from
    the same verb's elsewhere and from other verbs' in its place, relative to the content's size; largest
    |cosine| of content and slots with and without the projector; how far setting slot 1 moves later slots and
    the one before, relative to their size.
    """
    import torch
    import torch.nn.functional as F

    rows = [row for row in rows if len([w for w in row["text"].split() if w in scan.VERBS]) == 1]
    swapped = []
    for row in rows:
        verb = next(word for word in row["text"].split() if word in scan.VERBS)
        other = scan.VERBS[(scan.VERBS.index(verb) + 1) % len(scan.VERBS)]
        command = row["text"].replace(verb, other)
        swapped += scan_rows([(command, scan.interpret(command))])
    verbs = {scan.VOCABULARY[verb] for verb in scan.VERBS}
    with torch.no_grad():
        inputs, others = (
            {name: value.to(model.device) for name, value in collator(part).items()}
            for part in (rows, swapped)
        )
        ids, mask = inputs["input_ids"], inputs["prompt_mask"]
        structure, edges, content, seen = model.encode(ids, mask)
        elsewhere = model.encode(others["input_ids"], others["prompt_mask"])[2]
        ids = ids[:, : seen.shape[1]]
        place = torch.isin(ids, torch.tensor(sorted(verbs), device=ids.device))  # one a row
        verb, kind, swap = content[place], ids[place], elsewhere[place]  # (n, d), (n,), (n, d)
        size = verb.norm(dim=1).mean()
        alike = (kind[:, None] == kind) & ~torch.eye(len(kind), dtype=torch.bool, device=kind.device)
        tokens = model.down_norm(model.down_proj(model.get_input_embeddings()(ids)))
        scores = model.structural_encoder.abstraction_layer.structural_detector(tokens).mean(-1)
        function = torch.tensor(
            [scan.VOCABULARY[word] for word in ("and", "after", "twice", "thrice", "opposite", "around")],
            device=ids.device,
        )
        slots = F.normalize(structure, dim=-1).transpose(1, 2)
        with_it, without = (
            (F.normalize(states, dim=-1) @ slots)[seen].abs().amax(-1).mean()
            for states in (content, model.content_encoder.content_refiner(tokens))
        )
        free = model.causal_binding.bind(structure, edges, content, seen).slots
        held = model.causal_binding.bind(structure, edges, content, seen, {1: -free[:, 1]}).slots
        moved = ((held - free).norm(dim=-1) / free.norm(dim=-1)).mean(0)
    return {
        "score_function_words": float(scores[torch.isin(ids, function)].mean()),
        "score_verbs": float(scores[place].mean()),
        "content_same_verb": float(torch.cdist(verb, verb)[alike].mean() / size),
        "content_other_verb": float((verb - swap).norm(dim=1).mean() / size),
        "cosine_projected": float(with_it),
        "cosine_unprojected": float(without),
        "do_moves_later": float(moved[2:].mean()),
        "do_moves_earlier": float(moved[0]),
    }


@dataclass(frozen=True)
class LeakSettings:
    """SCI with encoders that see the prompt, or more."""

    sees: str = "prompt"
    longest: int = 8
    hidden_size: int = 64
    layers: int = 3
    heads: int = 4
    structural_slots: int = 4
    cbm_layers: list = field(default_factory=lambda: [0, 1])
    scl_weight: float = 0.1
    ortho: str = "project"
    steps: int = 400
    learning_rate: float = 2e-3
    random_rows: int = 48
    pairs: int = 13
    anchors: str = "rows"
    evaluate_every: int = 100
    test_rows: int = 300
    bf16: bool = False


register(
    Experiment(
        id="sci.leak",
        title="The answer leak: what the encoders may see",
        run=run_leak,
        notebook="20_sci_components",
        arms={"prompt": {"sees": "prompt"}, "prompt_and_answer": {"sees": "prompt and answer"}},
        settings={
            "laptop": LeakSettings(),
            "quick": {
                "hidden_size": 32,
                "layers": 2,
                "steps": 6,
                "random_rows": 12,
                "pairs": 4,
                "evaluate_every": 3,
                "test_rows": 12,
            },
        },
        seeds={"quick": 1, "laptop": 5},
        cost={"quick": 3, "laptop": 25},
    )
)


# --- the guide's findings, each as a number for its version and for ours


def run_findings(run: Run) -> dict:
    """Each finding as `guide.<finding>` and `corrected.<finding>`, on random weights of one seed."""
    import torch

    torch.manual_seed(run.seed)
    found = {}
    for finding in FINDINGS:
        guide, corrected = finding(run.config)
        found |= {
            f"guide.{finding.__name__}": float(guide),
            f"corrected.{finding.__name__}": float(corrected),
        }
    return {"metrics": {"": found}, "history": []}


def word_order(config):
    """How far S(x) moves when the words of a command are reordered, relative to its size."""
    import torch

    from causalnb import sci
    from causalnb.sci import guide

    states = torch.randn(1, 9, config["width"])
    shuffled, mask = states[:, torch.randperm(9)], torch.ones(1, 9)

    def moved(encoder):
        one, other = encoder(states, mask)[0], encoder(shuffled, mask)[0]
        return (one - other).norm() / one.norm()

    with torch.no_grad():
        return (
            moved(guide.StructuralEncoder(config["width"], config["slots"], 2).eval()),
            moved(sci.StructuralEncoder(config["width"], config["slots"]).eval()),
        )


def neighbour_in_batch(config):
    """How far sample 0 moves when sample 1 gets another content, with as many tokens as slots."""
    import torch

    from causalnb import sci
    from causalnb.sci import guide

    width, slots = config["width"], config["slots"]
    structure, content, hidden = (
        torch.randn(3, slots, width),
        torch.randn(3, slots, width),
        torch.randn(3, slots, width),
    )
    other = content.clone()
    other[1] = torch.randn(slots, width)
    literal = guide.CausalBindingMechanism(width, slots)
    ours = sci.CausalBindingMechanism(width, width)
    torch.nn.init.normal_(ours.output_proj[0].weight, std=width**-0.5)
    edges = sci.EdgePredictor(width)(structure)
    with torch.no_grad():
        return tuple(
            (run(content) - run(other))[0].norm() / run(content)[0].norm()
            for run in (lambda c: literal(structure, c, hidden), lambda c: ours(structure, edges, c, hidden))
        )


def base_disturbed(config):
    """How far the base's hidden states move at step 0, before anything is learned, relative to their size."""
    import torch

    from causalnb import sci
    from causalnb.sci import guide

    width, slots = config["width"], config["slots"]
    structure, content, hidden = (
        torch.randn(3, slots, width),
        torch.randn(3, 9, width),
        torch.randn(3, 9, width),
    )
    literal, ours = (
        guide.CausalBindingMechanism(width, slots, batch_first=True),
        sci.CausalBindingMechanism(width, width),
    )
    with torch.no_grad():
        edges = sci.EdgePredictor(width)(structure)
        return (
            (literal(structure, content, hidden) - hidden).norm() / hidden.norm(),
            (ours(structure, edges, content, hidden) - hidden).norm() / hidden.norm(),
        )


def cycles(config):
    """NOTEARS h of the edges: 0 for an acyclic graph."""
    import torch

    from causalnb import sci
    from causalnb.sci import guide

    slots = torch.randn(16, config["slots"], config["width"])
    with torch.no_grad():
        return tuple(
            sci.acyclicity(predictor(config["width"])(slots).double()).mean()
            for predictor in (guide.EdgePredictor, sci.EdgePredictor)
        )


def held_slot_drift(config):
    """How far a slot is from the value it was set to, after propagation, relative to that value."""
    return _intervention(config)[0]


def effect_upstream(config):
    """How far slots that the set slot does not cause move when it is set, relative to their size."""
    return _intervention(config)[1]


def _intervention(config):
    """(drift, upstream effect) of setting a slot: ((guide, corrected), (guide, corrected))."""
    import torch

    from causalnb import sci
    from causalnb.sci import guide

    width, slots = config["width"], config["slots"]
    values, target = torch.randn(4, slots, width), slots // 2
    new = torch.randn(4, width)
    started = values.clone()
    started[:, target] = new
    dense, acyclic = guide.EdgePredictor(width)(values), sci.EdgePredictor(width)(values)
    literal, ours = guide.CausalInterventionLayer(width), sci.CausalInterventionLayer(width)
    with torch.no_grad():
        runs = (
            (literal(values, dense), literal(started, dense)),
            (ours(values, acyclic), ours(values, acyclic, do={target: new})),
        )
    drift = tuple((after[:, target] - new).norm() / new.norm() for _, after in runs)
    upstream = tuple(
        (after - before)[:, :target].norm() / before[:, :target].norm() for before, after in runs
    )
    return drift, upstream


def content_on_slots(config):
    """Largest |cosine| of projected content and a (correlated) slot; the guide's loop, axis repaired."""
    import torch
    import torch.nn.functional as F

    from causalnb import sci

    width, slots = config["width"], config["slots"]
    structure = 0.3 * torch.randn(4, slots, width) + 0.7 * torch.randn(4, 1, width)
    content = torch.randn(4, 20, width)

    def left(method):
        projected = sci.OrthogonalProjector(width, method)(content, structure)
        return (F.normalize(projected, dim=-1) @ F.normalize(structure, dim=-1).transpose(1, 2)).abs().max()

    return left("sequential"), left("gram")


def anchors_with_positives(config):
    """Share of a batch's rows with another text of their structure beside them: random or balanced."""
    import torch
    from numpy import mean

    from causalnb.sci import StructureBalancedBatches

    rows = scan.split("add_prim_jump")[0]
    structures, texts = [scan.structure(command) for command, _ in rows], [command for command, _ in rows]
    draw = int(torch.randint(2**31, ()))

    def share(random_rows, pairs):
        shares = []
        for batch in StructureBalancedBatches(structures, texts, random_rows, pairs, config["batches"], draw):
            others = {}
            for row in batch:
                others.setdefault(structures[row], set()).add(texts[row])
            shares.append(mean([len(others[structures[row]]) > 1 for row in batch]))
        return mean(shares)

    return share(config["batch"], 0), share(config["batch"] - 2 * config["pairs"], config["pairs"])


FINDINGS = (
    word_order,
    neighbour_in_batch,
    base_disturbed,
    cycles,
    held_slot_drift,
    effect_upstream,
    content_on_slots,
    anchors_with_positives,
)


@dataclass(frozen=True)
class FindingsSettings:
    """The sizes at which findings are measured."""

    width: int = 64
    slots: int = 8
    batch: int = 64
    pairs: int = 13
    batches: int = 50


register(
    Experiment(
        id="sci.components",
        title="The guide's findings in numbers",
        run=run_findings,
        notebook="20_sci_components",
        arms={"findings": {}},
        settings={
            "laptop": FindingsSettings(),
            "quick": {"batches": 5},
        },
        seeds={"quick": 2, "laptop": 5},
        cost={"quick": 3, "laptop": 6},
    )
)
