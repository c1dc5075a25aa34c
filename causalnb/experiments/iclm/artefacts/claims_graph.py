"""Equations 5 to 8 of ICLM decided in every graph of training, with the paths by which they fail."""

from causalnb.experiments.iclm.artefacts.graphs import path_figure, spell
from causalnb.lab.report import Report, builds, draw, save
from causalnb.lab.tables import Table

TURNS, STEPS = (0, 1, 0, 1), 4
PRINTED = "6b (Figure 2)"
BATCHES = ((0, 1),) * STEPS
ROWS = {"active": BATCHES, "per_sample_loss": True}
ALTERNATE = {"active": TURNS}
SETTINGS = {  # name -> variant and options of temporal_graph, of which literal is one step
    "6b, one step as printed": ("base", {"literal": True}),
    "6a, if every module fed the output": ("no_invariant", {}),
    "6a, one module a step": ("no_invariant", ALTERNATE),
    "6a, both modules in a batch, one loss node": ("no_invariant", {"active": BATCHES}),
    "6a, both modules in a batch, a loss per sample": ("no_invariant", ROWS),
    "the same with shared batch normalisation": ("no_invariant", ROWS | {"shared_batch_norm": True}),
    "6a with a trained shared head": ("no_invariant", ALTERNATE | {"shared_head": True}),
    "6a with gradient clipping": ("no_invariant", ALTERNATE | {"clipping": True}),
    "6a with soft routing": ("no_invariant", {"routing": "soft"}),
    PRINTED: ("base", ALTERNATE),
    "6b with gradient clipping": ("base", ALTERNATE | {"clipping": True}),
    "6b with soft routing": ("base", {"routing": "soft"}),
    "6c": ("mutual_information", ALTERNATE),
    "6c, a term for the active module only": ("mutual_information", ALTERNATE | {"information": "routed"}),
    "6c with gradient clipping": ("mutual_information", ALTERNATE | {"clipping": True}),
    "6c with soft routing": ("mutual_information", {"routing": "soft"}),
}


def graph_of(setting: str):
    """The graph of one of SETTINGS, unrolled over STEPS, or one printed step without its links."""
    from causalnb.iclm.graphs import temporal_graph, without_links

    variant, options = SETTINGS[setting]
    if "literal" in options:
        return without_links(temporal_graph(variant, 1, **options))
    return temporal_graph(variant, STEPS, **options)


def cells(setting: str) -> dict[str, str]:
    """{"Eq. 5": "holds" | "fails at lag 1" | ""} of one of SETTINGS."""
    from causalnb.iclm.graphs import CLAIMS, check_claims

    told = {f"Eq. {equation}": "" for equation in CLAIMS}
    for claim in check_claims(graph_of(setting)):
        lag = claim.path[-1].step - claim.path[0].step if claim.path else 0
        if told[f"Eq. {claim.equation}"] in ("", "holds"):
            told[f"Eq. {claim.equation}"] = "holds" if claim.holds else f"fails at lag {lag}"
    return told


def claims_table(profile: str | None = None) -> Table:
    """Equations 5 to 8 in every graph."""
    from causalnb.iclm.graphs import CLAIMS, check_claims

    statements = dict(claim[:2] for claim in check_claims(graph_of(PRINTED)))
    return Table(
        "iclm.claims_graph",
        ["graph", *(f"Eq. {number}: {statements[number]}" for number in CLAIMS)],
        [[name, *cells(name).values()] for name in SETTINGS],
        "Which do-statements hold in which graph of training, by d-separation",
        f"{STEPS} steps, 2 domain modules, active in turn ({', '.join(map(str, TURNS))}) unless said "
        "otherwise. One state is set at one step; lag: the training steps until another state depends on it, "
        "the fewest. Empty: the graph has no invariant module.",
    )


def _failures(profile):
    from causalnb.iclm.graphs import check_claims

    for name in SETTINGS:
        for claim in check_claims(graph_of(name)):
            if not claim.holds:
                yield [name, claim.equation, spell(claim.path)]


paths_table = Report(
    "iclm.claims_graph_paths",
    ["graph", "Eq.", "path from what is set to what changes"],
    [_failures],
    "How each equation fails: HS1_2 is the state of module 1 at step 2; G, the norm of all "
    "gradients; WO, the shared head; [0], row 0 of the batch",
)


def appendix_figure():
    """(figure, alt): the path of Appendix A in the unrolled graph."""
    from causalnb.iclm.graphs import check_claims

    graph = graph_of(PRINTED)
    (path,) = (claim.path for claim in check_claims(graph) if claim.equation == 7 and not claim.holds)
    graph = graph.subgraph(node for node in graph if node.step <= path[-1].step)
    title = "Equation 7 with an invariant module: module 0 reaches module 1 in two steps."
    return path_figure(graph, path, title)


@builds(
    "iclm.claims_graph",
    extra=True,
    printed_as="ours",
    notebook="31_causal_graphs",
    shows="Equations 5 to 8 in every variant by d-separation, with the paths by which they fail",
)
def claims_graph(profile):
    """Equations 5 to 8 decided in every graph, the paths, and the one of Appendix A drawn."""
    save(profile, claims_table, paths_table)
    draw(profile, "iclm.claims_graph", appendix_figure(), "The path of Appendix A in the unrolled graph.")
