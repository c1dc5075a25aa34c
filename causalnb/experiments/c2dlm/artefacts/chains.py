"""What the tables and figures on chains of thought share: experiments, the paper's numbers, shortcuts."""

from causalnb.lab import registry
from causalnb.lab.report import Arm, Reader, arm
from causalnb.lab.tables import paper
from causalnb.tasks import cot_order_perturb as cot

NORMAL, PARTS, ORDER = "c2dlm.long.cot", "c2dlm.parts.cot", "c2dlm.long.order"
MORE, FURTHER = "c2dlm.long.more", "c2dlm.long.further"
SHUFFLED = ("DFS", "LR", "OF", "RE", "R1", "R2", "R3")
MODES = ("normal", *SHUFFLED, "no_cot")
TWINS = {"autoregressive": "ours, autoregressive", "diffusion": "ours, diffusion (SFT)"}
LARGE = "LLaDA-8B-Instruct (SFT)"
SPED = {"exact": "exact", "within_1": "within 1", "steps": "steps right"}  # scores, and as a table has them


def trained(twin: str, mode: str) -> Arm:
    """A model that learned chains in one order; "no_cot" without any."""
    if mode != "normal":
        return arm(ORDER, f"{twin}_{mode}")
    return arm(NORMAL if twin == "autoregressive" else PARTS, twin)  # where it has as many steps


def scores(profile: str | None = None, metric: str = "test_exact") -> dict:
    """{twin: DataFrame, a row for each seed, a column for each mode}: percent, NaN for a seed not run."""
    import pandas as pd

    at = Reader(profile)
    return {
        twin: 100 * pd.DataFrame({mode: trained(twin, mode).by_seed(at, metric) for mode in MODES})
        for twin in TWINS
    }


def printed_rows() -> dict:
    """{model: Series by mode} of the paper's Table 1, in percent."""
    lines = paper("c2dlm.table1")
    table = lines.pivot(index="row", columns="column", values="value")
    table = table.rename(columns={"Normal COT": "normal", "No COT": "no_cot"})
    return {model: table.loc[model, [*MODES]].astype(float) for model in lines["row"].unique()}


def inputs(profile: str | None = None) -> tuple[list, list]:
    """(training, test) inputs of the experiments."""
    config = registry.config(NORMAL, "diffusion", profile)
    held = config["test_rows"] + config["validation_rows"]
    train, rest = cot.split(config["train_rows"], held, config["split_seed"])
    return train, rest[: config["test_rows"]]


def shortcuts(train, test) -> dict[str, float]:
    """Share of test answers that readers without a chain get: a constant, a neighbour, polynomials."""
    import numpy as np
    from sklearn.neighbors import KNeighborsClassifier

    asked, wanted = (np.array(part) for part in (train, test))
    told, truth = (np.array([cot.values(*pair)[cot.TARGET] for pair in part]) for part in (train, test))
    numbers, counts = np.unique(told, return_counts=True)
    guesses = {
        "most frequent answer": np.full(len(truth), numbers[counts.argmax()]),
        "nearest training input": KNeighborsClassifier(1).fit(asked, told).predict(wanted),
    }
    for degree, name in ((1, "linear fit"), (3, "cubic fit"), (6, "fit of degree 6")):
        guesses[name] = np.rint(_polynomial(degree).fit(asked, told).predict(wanted))
    return {name: float((guess == truth).mean()) for name, guess in guesses.items()}


def step_shortcuts(train, test) -> dict[str, float]:
    """Share of test steps that are right in the chain of the nearest input, or by a cubic fit a step."""
    import numpy as np
    from sklearn.neighbors import KNeighborsRegressor

    told, truth = (
        np.array([[cot.values(*pair)[step] for step in cot.STEPS] for pair in part]) for part in (train, test)
    )
    readers = {
        "the chain of the nearest training input": KNeighborsRegressor(1),
        "a cubic fit for each step": _polynomial(3),
    }
    guesses = {name: np.rint(reader.fit(train, told).predict(test)) for name, reader in readers.items()}
    return {name: float((guess == truth).mean()) for name, guess in guesses.items()}


def _polynomial(degree: int):
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    return make_pipeline(StandardScaler(), PolynomialFeatures(degree), LinearRegression())
