"""The guide's table of alternatives with numbers: each implemented and trained like SCI on add_prim_jump."""

from causalnb.experiments.sci.artefacts.names import JUMP, WITH_OURS, means
from causalnb.lab.report import Measured, Report, Row, arm, builds

CONTRASTS = {  # row of the guide's table -> (arm, what stands for it here)
    "Information Bottleneck": ("information_bottleneck", "slots with noise and a KL penalty"),
    "Slot Attention": ("slot_attention", "slots that compete for tokens, 3 rounds"),
    "Relational Attention": ("relational_attention", "attention to symbols, by relations alone"),
    "CausalVAE": ("causal_vae", "noisy factors mixed by a learned DAG"),
    "Construction Grammar NNs": ("construction_templates", "a table of the grammar's structures"),
}


def _said(row: str, column: str):
    """What the guide's table says, in words."""

    def read(profile=None):
        from causalnb.lab.tables import paper

        return paper("sci.table2").set_index(["row", "column"]).printed[row, column]

    return read


def _rows():
    for row, (name, how) in CONTRASTS.items():
        words = _said(row, "What It Does"), _said(row, "Why SCI Is Different")
        yield Row((row, *words, how), arm("sci.contrasts", name))
    for name, title in WITH_OURS.items():
        yield Row((title, "", "", "the same decoder, data and steps"), arm(JUMP, name))


contrasts_table = Report(
    "sci.table2",
    [
        "approach",
        "what it does (guide)",
        "why SCI is different (guide)",
        "here",
        Measured("exact match on jump", "exact_match", means),
        Measured("validation", "validation_exact_match", means),
        Measured("retrieval@1", "structure_retrieval", means),
    ],
    _rows,
    "Why this is different: the alternatives on add_prim_jump; mean ± half of the 95 % interval (seeds)",
    "The guide prints words only. The first four get no structure labels; the fifth is given them as its "
    "constructions. The plain decoder with SCI's labels is the control for the labels.",
)


@builds("sci.table2", contrasts_table)
def table2(profile):
    """The guide's table of alternatives with numbers."""
