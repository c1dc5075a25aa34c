"""One arm of C2DLM on one task: train, follow a validation sample, decode the test parts, score."""

from causalnb.experiments.c2dlm.data import DATA
from causalnb.experiments.c2dlm.models import EOS, MASK, build_model, decode, fit, row_order
from causalnb.lab.probes import scored
from causalnb.lab.registry import Run


def attribute_map(model, rows: list[dict]) -> dict[str, dict[str, float]]:
    """How attention flows between attributes of the spurious token game: mean over layers, heads and rows.

    {kind/effect: {cause: share}}: kind is raw or weighted (by |V| of the key, each row summing to 1); effect
    is an attribute, whose tokens' rows are averaged, or Answer, the row that decides the first word of the
    answer, which is masked; a cause's tokens are summed. {kind: {"causal": share}}: what part of the
    attention that the answer pays to attributes goes to its causes. Rows must be equally long.
    """
    import torch

    from causalnb.attention import tap
    from causalnb.c2dlm import MaskedDiffusionModel, value_weighted_attention
    from causalnb.tasks import stg, words

    known = {name.replace(" ", "_"): name for name in (*stg.ATTRIBUTES, *stg.ATTRIBUTES_H)}
    spoken, prompt = list(words.VOCABULARY), sum(rows[0]["prompt_mask"])
    ids = torch.tensor([row["input_ids"] for row in rows], device=model.device)
    decides = prompt - 1
    if isinstance(model, MaskedDiffusionModel):
        ids[:, prompt:], decides = MASK, prompt
    owners, names = torch.full(ids.shape, -1), []
    for number, row in enumerate(ids[:, : prompt - 1].tolist()):  # without the separator
        current = -1
        for place, token in enumerate(row):
            if spoken[token] in known:
                name = known[spoken[token]]
                names += [name] * (name not in names)
                current = names.index(name)
            owners[number, place] = current
    columns = torch.stack([owners == i for i in range(len(names))], -1).to(ids.device, torch.float32)
    lines = torch.cat([columns / columns.sum(1, keepdim=True), torch.zeros_like(columns[..., :1])], -1)
    lines[:, decides, -1] = 1.0  # (B, T, names + 1)
    model.eval()
    with torch.no_grad(), tap(model) as records:
        model(input_ids=ids)
    found = {}
    for kind, norm_index in (("raw", "none"), ("weighted", "key")):
        maps = [value_weighted_attention(record.attention(), record.value, norm_index) for record in records]
        flow = sum(one / one.sum(-1, keepdim=True) for one in maps) / len(maps)  # (B, T, T)
        flow = torch.einsum("bte,bts,bsc->ec", lines, flow, columns) / len(rows)
        found |= {
            f"{kind}/{effect}": {cause: round(share, 5) for cause, share in zip(names, line, strict=True)}
            for effect, line in zip((*names, "Answer"), flow.tolist(), strict=True)
        }
        answer = dict(zip(names, flow[-1].tolist(), strict=True))
        causes = sum(answer.get(name, 0.0) for name in (*stg.CAUSES, *stg.CAUSES_H))
        found[kind] = {"causal": causes / sum(answer.values())}
    return found


def relation_flow(
    model, rows: list[dict], step_rule: str, mask: int = MASK, end: int = EOS
) -> dict[str, dict[str, float]]:
    """Where the attention of tokens that have causes goes: mean over layers, heads, tokens and rows.

    {flow/kind: {"causes", "against", "others"}}, shares of what the token pays to keys that are not ignored:
    to its causes, to what it must not see, to all others; kind as in attribute_map. The responses are noised
    as in training, by seed 0; mask and end are tokens of the model's. Rows must carry supervision and be
    equally long.
    """
    import torch

    from causalnb.attention import tap
    from causalnb.c2dlm import MaskedDiffusionCollator, value_weighted_attention

    noised = MaskedDiffusionCollator(mask, end)([{**row, "draw": draw} for draw, row in enumerate(rows)])
    dense = torch.stack([row["supervision"].dense(step_rule) for row in rows]).to(model.device)  # (B, T, T)
    model.eval()
    with torch.no_grad(), tap(model) as records:
        model(input_ids=noised["input_ids"].to(model.device))
    asked, flow = (dense == 1).any(-1), {}  # (B, T): tokens that have causes
    kinds = {name: dense[asked] == value for name, value in (("causes", 1), ("against", -1), ("others", 0))}
    for kind, norm_index in (("raw", "none"), ("weighted", "key")):
        maps = [value_weighted_attention(record.attention(), record.value, norm_index) for record in records]
        paid = sum(maps).masked_fill(dense == 2, 0)[asked]  # (n, T)
        paid = paid / paid.sum(-1, keepdim=True)
        flow[f"flow/{kind}"] = {name: float((paid * keys).sum(-1).mean()) for name, keys in kinds.items()}
    return flow


def run_task(run: Run) -> dict:
    """Metrics {part: {measure: share}} of every test part; history with the validation sample's measures.

    With also_ranked the same model decodes again in the order of the graph: ranked/part. With maps, of
    the spurious token game, also the attribute_map of 200 rows of the first part; with watched above 0, of
    diffusion models, the relation_flow of so many training rows under the task's graph.
    """
    from transformers import set_seed

    config = run.config
    train, validation, parts, score = DATA[config["task"]](config, run.seed)
    order = row_order(len(train), config["batch"], config["steps"], run.seed)
    validation = scored(validation)
    set_seed(run.seed)
    model = build_model(config)

    def measure(model) -> dict:
        return score(validation, decode(model, validation, config, config["in_order"]))

    history = fit(run, model, train, order, measure)
    counted = {
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    metrics = {"": counted}
    for part, rows in parts.items():
        rows = scored(rows)
        found = score(rows, decode(model, rows, config, config["in_order"]))
        metrics[part] = {"rows": len(rows), **found}
        if config["also_ranked"]:
            metrics[f"ranked/{part}"] = score(rows, decode(model, rows, config, True))
    if config["maps"]:
        metrics |= attribute_map(model, next(iter(parts.values()))[:200])
    if config["watched"] and config["model"] == "diffusion":
        plain = {"graph": "causal", "enforced": 0.0, "train_rows": config["watched"]}
        metrics |= relation_flow(
            model, DATA[config["task"]](config | plain, run.seed)[0], config["step_rule"]
        )
    return {"metrics": metrics, "history": history}
