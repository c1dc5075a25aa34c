"""Where the bare base sees the inputs of six data sets: what a router has to tell apart."""

from causalnb.experiments.iclm import data as iclm_tasks
from causalnb.experiments.iclm.maps import flattened
from causalnb.experiments.iclm.models import build_base, collate, encoded
from causalnb.lab.registry import Run
from causalnb.tasks import arc, pvr


def sets_of(config: dict) -> dict[str, list[dict]]:
    """{"set format": compact rows} of config's map: a family's cells, or four tasks as they fit."""
    if config["map"] == "six":
        made = {
            f"{family} {format}": rows
            for family, cell in (("acre", "IID"), ("raven", "center"))
            for format, rows in iclm_tasks.test_rows({**config, "family": family}, cell).items()
        }
        n, seed, real = config["test_rows"], config["split_seed"], config["source"] == "file"
        made["pvr"] = pvr.rows((pvr.read() if real else pvr.generate(n, seed))[:n])
        grids = arc.read() if real else arc.generate(n, seed)
        made["arc"] = arc.rows(grids, config["longest"])[:n]
        return made
    return {
        f"{cell} {format}": rows
        for cell in config["cells"]
        for format, rows in iclm_tasks.test_rows(config, cell).items()
    }


def pooled_states(model, rows: list[dict], layers: tuple[int, ...], batch: int = 64):
    """Mean states over the prompts (len(layers), n, H) of compact rows, of a plain decoder's layers."""
    import torch

    from causalnb.iclm import mean_pooled

    found = []
    for start in range(0, len(rows), batch):
        given = collate([encoded(row) for row in rows[start : start + batch]])
        prompt = given["attention_mask"].bool() & (given["labels"] == -100)
        with torch.no_grad():
            out = model(
                input_ids=given["input_ids"],
                attention_mask=given["attention_mask"],
                output_hidden_states=True,
            )
        found.append(torch.stack([mean_pooled(out.hidden_states[layer], prompt) for layer in layers]))
    return torch.cat(found, 1)


def cluster_scores(states, names: list[str], seed: int) -> tuple[list[int], dict[str, float]]:
    """(cluster of each state by K-means of four, how well sets and formats are told apart).

    silhouette of the sets and of the formats, in [-1, 1]; the adjusted Rand index of clusters and sets.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, silhouette_score

    clusters = KMeans(4, n_init=10, random_state=seed).fit_predict(states).tolist()
    formats = [name.rpartition(" ")[2] for name in names]
    return clusters, {
        "silhouette_sets": silhouette_score(states, names),
        "silhouette_formats": silhouette_score(states, formats),
        "rand": adjusted_rand_score(names, clusters),
    }


def run_clusters(run: Run) -> dict:
    """Map the base's pooled states of config's sets, last layer and the one before; no training."""
    from transformers import set_seed

    config = run.config
    made = sets_of(config)
    rows = [row for some in made.values() for row in some]
    names = [name for name, some in made.items() for _ in some]
    set_seed(run.seed)
    model = build_base(config).eval()
    layers = (-1, -2)
    metrics, history = {}, []
    for layer, states in zip(layers, pooled_states(model, rows, layers), strict=False):
        states = states.double().numpy()
        clusters, found = cluster_scores(states, names, run.seed)
        metrics |= {f"{name}_layer{-layer}": value for name, value in found.items()}
        places = zip(names, clusters, flattened(states).tolist(), strict=True)
        history += [
            {"layer": layer, "set": name, "cluster": cluster, "x": round(x, 3), "y": round(y, 3)}
            for name, cluster, (x, y) in places
        ]
    return {"metrics": {"": metrics}, "history": history}
