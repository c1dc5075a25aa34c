"""What is kept of a tuned ICLM for its maps: layers' correlations, and where its router sees the inputs."""

from causalnb.experiments.iclm.models import collate, on_device

FIRST = ("router", "invariant")  # in the order of the paper's panels, then the domains


def layer_rows(model, rows: list[dict], cell: str) -> list[dict]:
    """Pearson's correlation of every layer of every pair of modules: rows with cell, pair, layer, to_0, ...

    Each module is paired with itself too. States are those that predict a label; every module reads every
    encoded row, whatever the router says.
    """
    import torch

    from causalnb.iclm import layer_correlations

    batch = on_device(collate(rows), model)
    where = batch["labels"][:, 1:] != -100
    known = model.modules_in_order()
    names = [*(name for name in FIRST if name in known), *range(model.config.num_modules)]
    model.eval()
    with torch.no_grad():
        states = {
            name: model.states(batch["input_ids"], batch["attention_mask"], name, all_layers=True)[:, :, :-1][
                :, where
            ]
            for name in names
        }
        found = {
            (a, b): layer_correlations(states[a], states[b]) for i, a in enumerate(names) for b in names[i:]
        }
    return [
        {"cell": cell, "pair": f"{a}|{b}", "layer": layer}
        | {f"to_{i}": round(value, 4) for i, value in enumerate(values)}
        for (a, b), table in found.items()
        for layer, values in enumerate(table.tolist())
    ]


def routed_states(model, rows: list[dict]):
    """(states (n, D) as the router compares them with its centroids, modules (n,)) of encoded rows."""
    import torch

    batch = on_device(collate(rows), model)
    model.eval()
    with torch.no_grad():
        pooled = model.router_states(
            batch["input_ids"], batch["attention_mask"], prompt_mask=batch["prompt_mask"]
        )
        states = model.router.norm(model.router.project(pooled.to(model.router.norm.mean.dtype)))
        return states.cpu(), model.router(pooled).module.cpu()


def flattened(states, seed: int = 0):
    """Two coordinates (n, 2) whose distances come near those of states (n, D): metric scaling by SMACOF."""
    from sklearn.manifold import MDS

    return MDS(2, n_init=1, init="classical_mds", random_state=seed).fit_transform(states)


def map_rows(model, places: list[tuple[str, str]], rows: list[dict]) -> list[dict]:
    """One map of the encoded rows of (cell, format) places: rows with cell, format, module, x, y."""
    states, modules = routed_states(model, rows)
    flat = flattened(states.double().numpy()).tolist()
    return [
        {"cell": cell, "format": format, "module": module, "x": round(x, 3), "y": round(y, 3)}
        for (cell, format), module, (x, y) in zip(places, modules.tolist(), flat, strict=True)
    ]


def followed(model, cells: dict[str, dict[str, list[dict]]]) -> list[dict]:
    """Rows of both kinds for {cell: {format: encoded rows}}."""
    layers = [
        entry
        for cell, formats in cells.items()
        for entry in layer_rows(model, [row for rows in formats.values() for row in rows], cell)
    ]
    every = [
        ((cell, format), row)
        for cell, formats in cells.items()
        for format, rows in formats.items()
        for row in rows
    ]
    return layers + map_rows(model, [place for place, _ in every], [row for _, row in every])
