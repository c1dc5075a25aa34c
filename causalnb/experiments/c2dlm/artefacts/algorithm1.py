"""Algorithm 1 of C2DLM: what it draws, in the paper's words and computed here."""

from hashlib import sha256

from causalnb.lab.report import builds, save
from causalnb.lab.tables import Table
from causalnb.tasks import cot_order_perturb as cot


def algorithm_table(profile: str | None = None):
    """Algorithm 1: what is drawn, by the paper's words and by ours, computed anew."""
    table = cot.table()
    target = table[:, cot.VARIABLES.index(cot.TARGET)]
    train, test = cot.split()
    digest = sha256(",".join(map(str, target.tolist())).encode()).hexdigest()[:16]
    signatures, both = {(*row[:2], row[-1]) for row in table.tolist()}, set(train) & set(test)
    values, negative = sorted(set(target.tolist())), (target < 0).sum()
    said_of_test = "500 different ones (text); the training inputs (Algorithm 1)"
    rows = [
        ["inputs", "Zorin, Vortex uniform on 0 to 100", f"{len(table):,} pairs, all of them in a table"],
        ["signature (Zorin, Vortex, Stardust)", "sampled until new"]
        + [f"{len(signatures):,} different: the inputs alone decide"],
        ["Stardust", "not said"]
        + [f"{len(values)} values from {values[0]} to {values[-1]}; {negative} are negative"],
        ["Stardust of all inputs, sha256", "not said", digest],
        ["training inputs", "2,000", f"{len(set(train)):,}"],
        ["test inputs", said_of_test, f"{len(set(test)):,}, of which {len(both)} are training inputs"],
        ["random orders", "R1 to R3 (text), R1 to R4 (Algorithm 1)", "R1, R2, R3"],
        ["the same inputs for every order", "yes", "yes"],
    ]
    return Table(
        "c2dlm.algorithm1",
        ["", "paper", "here"],
        rows,
        "COT-OrderPerturb: what Algorithm 1 draws, in the paper's words and computed here",
    )


@builds("c2dlm.algorithm1")
def algorithm1(profile):
    """What Algorithm 1 draws."""
    save(profile, algorithm_table)
