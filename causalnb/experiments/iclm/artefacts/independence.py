"""Table 3 and Figures 3, 4 and 7 of ICLM, each beside the controls that can have it without reasoning."""

from itertools import product

from causalnb.experiments.c2dlm.curves import draw_curve
from causalnb.experiments.iclm.artefacts import reasoning
from causalnb.experiments.iclm.artefacts.reasoning import FAMILIES, FORMATS, SETS
from causalnb.lab.registry import arms, artefact

NEEDS = tuple(f"iclm.{part}{family}" for part in ("", "controls.") for family in FAMILIES)
NAMES = {
    "iclm": "ICLM",
    "untrained": "untrained base",
    "matched": "equal lengths",
    "uniform_start": "centroids from a uniform start",
    "no_information": "no information loss",
    "aligned": "CKA in place of information",
    "frozen_router": "frozen router",
}
ROUTED = ("iclm", "uniform_start", "matched", "untrained")  # in Table 3
LOOKS = {"iclm": ("blue", "-", "o"), "untrained": ("vermillion", "--", "s")}
ALIGNED = {"iclm": ("sky", (0, (1, 1)), "v"), "untrained": ("orange", "-.", "D")}  # of CKA
ESTIMATORS = {
    "forward": ("Equation 2", "blue", "-", "o"),
    "reverse": ("reversed", "green", "-.", "^"),
    "clamped": ("reversed and clamped, the code's", "orange", ":", "D"),
}
MODULES = ("Inv", "Dom 0", "Dom 1")
INFORMATION = "I at the end, nats"


def home(family: str, arm: str) -> str:
    """The experiment that has an arm."""
    return f"iclm.{family}" if arm == "iclm" else f"iclm.controls.{family}"


def scores(family: str, arm: str, profile: str | None = None):
    """DataFrame of an arm's metrics by seed; LabError where results are missing."""
    from causalnb.lab import evidence

    return evidence.require(home(family, arm), profile, [arm]).set_index("seed")


def histories(family: str, arm: str, profile: str | None = None):
    """DataFrame of an arm's histories, all kinds of rows; LabError where results are missing."""
    from causalnb.lab import evidence, results

    evidence.require(home(family, arm), profile, [arm])
    return results.curves(home(family, arm), profile, [arm])


# Routing


def symbolic_module(found, family: str):
    """Series by seed: the module, 0 or 1, that gets a larger share of symbolic i.i.d. prompts than of others.

    It is the paper's n = 0; which number it has is chance.
    """
    first = next(iter(SETS[family]))
    apart = found[f"{first}_symbolic_module0"] - found[f"{first}_text_module0"]
    return (apart < 0).astype(int)


def routed(found, family: str):
    """DataFrame by seed of the share of each set and format, (cell, format), sent to the symbolic module."""
    import pandas as pd

    own = symbolic_module(found, family)
    places = [*product(SETS[family], FORMATS)]
    return pd.DataFrame(
        {
            (cell, format): found[f"{cell}_{format}_module0"].where(
                own == 0, found[f"{cell}_{format}_module1"]
            )
            for cell, format in places
        }
    )


def split(shares, cell: str):
    """How far apart a set's formats are sent, in [-1, 1]; shares as of routed. The paper's Table 3: 1."""
    return shares[cell, "symbolic"] - shares[cell, "text"]


def cut_between(short: list[int], long: list[int]) -> float:
    """The length that best tells two lists of lengths apart: of the best ones, that in the widest gap."""
    import numpy as np

    known = np.unique([*short, *long])
    cuts = np.array([known[0] - 1, *(known[:-1] + known[1:]) / 2, known[-1] + 1])
    missed = np.array([np.greater(short, cut).sum() + np.less(long, cut).sum() for cut in cuts])
    gaps = np.array([0, *np.diff(known), 0])
    return float(cuts[max(np.flatnonzero(missed == missed.min()), key=lambda i: gaps[i])])


def own_words(row: dict) -> float:
    """The share of a prompt's words that are no filler."""
    from causalnb.tasks.icl_rows import prompt_length, without_fillers

    return prompt_length(without_fillers(row)) / prompt_length(row)


def prompt_lengths(family: str, rows: int = 100, matched: int = 0, seed: int = 0, measure=None) -> dict:
    """{"train" or cell: {format: lengths in words, or `measure`}} of compact prompts, drawn by the rules."""
    from causalnb.experiments.iclm import data as iclm_tasks
    from causalnb.lab import registry
    from causalnb.tasks.icl_rows import prompt_length

    measure = measure or prompt_length
    config = registry.config(f"iclm.{family}", "iclm", "laptop") | {
        "source": "generator",
        "train_rows": rows,
        "test_rows": rows,
        "matched": matched,
    }
    made = {"train": iclm_tasks.training_rows(config, seed)}
    made |= {
        cell: [row for rows in iclm_tasks.test_rows(config, cell).values() for row in rows]
        for cell in SETS[family]
    }
    return {
        part: {format: [measure(row) for row in found if row["format"] == format] for format in FORMATS}
        for part, found in made.items()
    }


def printed_lengths(family: str, rows: int = 100, seed: int = 0) -> dict:
    """{"train" or cell: {format: lengths in characters}} of prompts in the source's words, drawn."""
    from causalnb.experiments.iclm.data import CELLS
    from causalnb.tasks import acre, raven

    def prompts(cell, part, format):
        if family == "acre":
            drawn = acre.generate(cell, rows, seed, part)
            return [acre.prompt(problem, query, format)[0] for problem in drawn for query in problem.queries]
        drawn = raven.generate(CELLS[family][cell], rows, [seed, part == "test"])
        return [raven.prompt(problem, format)[0] for problem in drawn]

    parts = {"train": (next(iter(SETS[family])), "train")} | {cell: (cell, "test") for cell in SETS[family]}
    return {
        name: {format: [*map(len, prompts(*where, format))] for format in FORMATS}
        for name, where in parts.items()
    }


def by_length(lengths: dict) -> tuple[float, dict[tuple[str, str], float]]:
    """(cut found on the training prompts, {(cell, format): share of prompts that are shorter})."""
    train = lengths["train"]
    cut = cut_between(train["symbolic"], train["text"])
    return cut, {
        (cell, format): sum(length < cut for length in found) / len(found)
        for cell, formats in lengths.items()
        if cell != "train"
        for format, found in formats.items()
    }


def length_rows(family: str, rows: int = 100) -> dict[str, dict[tuple[str, str], float]]:
    """{what is read, where it is cut: {(cell, format): share}} of routers that know one number alone.

    The length; and, where fillers make all lengths equal, how much of a prompt is its own.
    """
    kinds = {
        "length alone: the paper's prompts, characters": printed_lengths(family, rows),
        "length alone: our prompts, words": prompt_lengths(family, rows),
        "length alone: our prompts of equal length, words": prompt_lengths(family, rows, matched=8),
        "fillers alone: our prompts of equal length, share of other words": prompt_lengths(
            family, rows, matched=8, measure=own_words
        ),
    }
    found = {}
    for name, lengths in kinds.items():
        cut, shares = by_length(lengths)
        found[f"{name}, cut at {round(cut, 2):g}"] = shares
    return found


def table3(family: str, profile: str | None = None, rows: int = 100):
    """Table 3: the share of each set and format sent to a module, by ICLM, controls, and one number alone."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate, paper

    places, first, lines = [*product(SETS[family], FORMATS)], next(iter(SETS[family])), []
    printed = paper("iclm.table3").set_index(["row", "group", "column"])["value"]
    for row in ("n=0", "n=1") if family == "acre" else ():
        said = [printed[row, SETS[family][cell], FORMATS[format]] for cell, format in places]
        lines.append([f"paper: {row}", *(f"{share:.1f}" for share in said), "", ""])
    for arm in ROUTED:
        found = scores(family, arm, profile)
        shares = routed(found, family)
        right = found[reasoning.columns(family, which="iid")].mean(axis=1)
        ends = [estimate(mean_ci(values), 2) for values in (split(shares, first), right)]
        for n in (0, 1) if arm == "iclm" else (0,):
            told = [estimate(mean_ci(1 - shares[place] if n else shares[place]), 2) for place in places]
            lines.append([f"ours: {NAMES[arm]}, n={n}", *told, *ends])
    for name, shares in length_rows(family, rows).items():
        lines.append(
            [name, *(f"{shares[place]:.2f}" for place in places), f"{split(shares, first):.2f}", "none"]
        )
    heads = [f"{SETS[family][cell]} {FORMATS[format]}" for cell, format in places]
    return Table(
        "iclm.table3" + "_raven" * (family == "raven"),
        ["", *heads, "split, i.i.d.", "exact, i.i.d."],
        lines,
        f"Table 3, {family.upper()}: share of prompts sent to a module, mean ± half of the 95 % interval "
        "(seeds)",
        "n=0 is, seed by seed, the module that gets a larger share of the symbolic i.i.d. prompts than of "
        "those in text. split: that share less the other, so that it cannot be negative i.i.d.; exact: right "
        f"answers. Length alone: shorter prompts to n=0, the cut found on {rows} drawn training problems; "
        "fillers alone: those with more of them.",
    )


def routing_remark(family: str, profile: str | None = None) -> str:
    """What ICLM, its controls and a length reader split i.i.d., and what they answer; one sentence each."""
    first, told = next(iter(SETS[family])), []
    for arm in ROUTED:
        found = scores(family, arm, profile)
        right = found[reasoning.columns(family, which="iid")].mean(axis=None)
        told.append(
            f"{NAMES[arm]}: split {split(routed(found, family), first).mean():.2f}, "
            f"{right:.0%} of the answers right."
        )
    apart = split(by_length(printed_lengths(family))[1], first)
    return f"{family.upper()}. {' '.join(told)} The length of the paper's prompts alone: split {apart:.2f}."


# Independence in training


def steps(found):
    """The rows of histories that were measured in training."""
    return found[found["step"].notna()]


def at_end(found):
    """DataFrame by seed: the last measurement in training."""
    return steps(found).sort_values("step").groupby("seed").last()


def at_step(found, step: float):
    """DataFrame by seed: the first measurement at or after a step, the last where training ends before."""
    late = steps(found).sort_values("step")
    return late[late.step >= min(step, late.step.max())].groupby("seed").first()


def _log_steps(ax) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _told(curve, metric: str) -> str:
    mean = curve.groupby("step")[metric].mean()
    ends = f"{mean.iloc[0]:.2g} at step {mean.index[0]:g}", f"{mean.iloc[-1]:.2g} at the end"
    return f"{ends[0]}, lowest {mean.min():.2g}, {ends[1]}"


def fig3(families=FAMILIES, profile: str | None = None):
    """(figure, alt): Figure 3, correlation on the left, mutual information on the right, a row a family."""
    import matplotlib.pyplot as plt

    curves = {(family, arm): steps(histories(family, arm, profile)) for family in families for arm in LOOKS}
    fig, axes = plt.subplots(len(families), 2, figsize=(6.8, 2.2 * len(families)), sharex=True, squeeze=False)
    told = []
    for (left, right), family in zip(axes, families, strict=True):
        for arm in LOOKS:
            curve = curves[family, arm]
            for ax, metric, name, look in (
                (left, "pearson", "Pearson's r", LOOKS[arm]),
                (left, "cka", "CKA", ALIGNED[arm]),
                (right, "forward", "mutual information", LOOKS[arm]),
            ):
                draw_curve(ax, curve, metric, 1, f"{NAMES[arm]}: {name}", *look)
                told.append(f"{family.upper()}, {NAMES[arm]}, {name}: {_told(curve, metric)}")
        left.set(
            title=f"{family.upper()}: correlation of states",
            ylabel="r, debiased CKA",
            ylim=(min(-0.05, left.get_ylim()[0]), 1.05),
        )
        right.set(title=f"{family.upper()}: mutual information", ylabel="nats", yscale="log")
        _log_steps(left)
        _log_steps(right)
    for ax in axes[-1]:
        ax.set_xlabel("training step")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    both = [label.replace("Pearson's r", "Pearson's r; mutual information") for label in labels]
    fig.legend(handles, both, loc="outside lower center", ncols=2, fontsize=8)
    return fig, (
        "States of the invariant and the domain modules in training, correlation on the left, "
        "mutual information on the right, mean over seeds in a band of all. "
        f"{'; '.join(told)}."
    )


def stated_floor() -> float:
    """The mutual information that Appendix D.1 says training falls below."""
    from causalnb.lab.tables import printed

    table = printed("iclm_text")
    return float(table[table.column == "mutual information falls below"].value.iloc[0])


def fig7(families=FAMILIES, profile: str | None = None):
    """(figure, alt): Figure 7, mutual information in training by three estimators, and untrained."""
    import matplotlib.pyplot as plt

    floor, told = stated_floor(), []
    curves = {(family, arm): steps(histories(family, arm, profile)) for family in families for arm in LOOKS}
    fig, axes = plt.subplots(1, len(families), figsize=(3.9 * len(families), 3.1), sharey=True, squeeze=False)
    for ax, family in zip(axes[0], families, strict=True):
        curve, other = curves[family, "iclm"], curves[family, "untrained"]
        for metric, (name, *look) in ESTIMATORS.items():
            draw_curve(ax, curve, metric, 1, name, *look)
            told.append(f"{family.upper()}, {name}: {_told(curve, metric)}")
        draw_curve(ax, other, "forward", 1, "untrained base, Equation 2", *LOOKS["untrained"])
        told.append(f"{family.upper()}, untrained base: {_told(other, 'forward')}")
        ax.axhline(floor, color="black", linestyle="-", linewidth=0.8, marker="")
        _log_steps(ax)
        ax.set(yscale="log", xlabel="training step", title=family.upper())
        ax.set_ylim(bottom=floor / 4)
    axes[0, 0].set_ylabel("mutual information, nats")
    axes[0, 0].annotate(
        f"the paper: below {floor:g}",
        (0.03, floor),
        (0, 3),
        fontsize=7,
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
    )
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    return fig, (
        f"Mutual information against training steps, both axes logarithmic, a line at {floor:g}. "
        f"{'; '.join(told)}. What is 0 or below leaves the picture at the bottom."
    )


# Correlation at test time


def matrices(family: str, arm: str, profile: str | None = None) -> dict[str, object]:
    """{"iid", "ood": (seeds, 3, 3)}: Pearson's r of last states of MODULES; Dom 0 is the symbolic one."""
    import numpy as np

    found, own = histories(family, arm, profile), symbolic_module(scores(family, arm, profile), family)
    rows = found[found["pair"].notna()]
    last = int(rows.layer.max())
    rows = rows[rows.layer == last]
    first, *others = SETS[family]
    told = {}
    for name, cells in (("iid", [first]), ("ood", others)):
        means = rows[rows.cell.isin(cells)].groupby(["seed", "pair"])[f"to_{last}"].mean()
        told[name] = np.ones((len(own), 3, 3))
        for place, (seed, swapped) in enumerate(own.items()):
            order = ("invariant", *("10" if swapped else "01"))
            for i, j in ((0, 1), (0, 2), (1, 2)):
                pair = "|".join(sorted((order[i], order[j]), key=["invariant", "0", "1"].index))
                told[name][place, i, j] = told[name][place, j, i] = means[seed, pair]
    return told


def printed_matrices() -> dict[tuple[str, str], object]:
    """{(family, "iid" | "ood"): (3, 3)} of the paper's Figure 4."""
    from causalnb.lab.tables import paper

    table = paper("iclm.fig4")
    return {
        (family, which): table[table.row_group == family.upper() + " o.o.d." * (which == "ood")]
        .pivot(index="row", columns="column", values="value")
        .loc[[*MODULES], [*MODULES]]
        .to_numpy()
        for family, which in product(FAMILIES, ("iid", "ood"))
    }


def fig4(families=FAMILIES, profile: str | None = None):
    """(figure, alt): Figure 4, matrices of correlations: the paper's, ICLM's and the untrained control's."""
    import matplotlib.pyplot as plt
    import numpy as np

    from causalnb.lab.figures import signed

    panels, said, told = [*product(families, ("iid", "ood"))], printed_matrices(), []
    lines = {"the paper": {panel: said[panel][None] for panel in panels}}
    for arm in LOOKS:
        made = {family: matrices(family, arm, profile) for family in families}
        lines[NAMES[arm]] = {(family, which): made[family][which] for family, which in panels}
    fig, axes = plt.subplots(
        len(lines),
        len(panels),
        figsize=(1.75 * len(panels) + 0.6, 4.8),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="compressed",
    )
    for row, (name, found) in zip(axes, lines.items(), strict=True):
        for ax, panel in zip(row, panels, strict=True):
            values = found[panel]
            mean, spread = values.mean(0), values.max(0) - values.min(0)
            image = ax.imshow(mean, **signed([-1, 1]))
            for i, j in np.ndindex(3, 3):
                half = f"\n±{spread[i, j] / 2:.2f}" if len(values) > 1 and i != j else ""
                ax.text(
                    j,
                    i,
                    f"{mean[i, j]:.2f}{half}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if abs(mean[i, j]) > 0.65 else "black",
                )
            ax.set_xticks(range(3), MODULES, fontsize=6.5)
            ax.set_yticks(range(3), MODULES, fontsize=6.5)
            ax.grid(False)
            title = f"{panel[0].upper()}{'' if panel[1] == 'iid' else ' o.o.d.'}"
            told.append(
                f"{name}, {title}: Inv and Dom 0 {mean[0, 1]:.2f}, Inv and Dom 1 {mean[0, 2]:.2f}, "
                f"Dom 0 and Dom 1 {mean[1, 2]:.2f}"
            )
            if name == "the paper":
                ax.set_title(title, fontsize=9)
        row[0].set_ylabel(name)
    fig.colorbar(image, ax=axes.ravel().tolist(), label="Pearson's r of last states", shrink=0.5)
    return fig, (
        "Matrices of correlations between the invariant module and two domain modules at test time, "
        f"a row for the paper, ICLM and the untrained control. {'; '.join(told)}."
    )


# All controls


def control_rows(families=FAMILIES, profile: str | None = None) -> list[tuple[str, str, dict]]:
    """(family, arm, {column: Series by seed}) of ICLM and every control that a family has."""
    found = []
    for family, arm in product(families, NAMES):
        if arm != "iclm" and arm not in arms(home(family, arm)):
            continue
        table, end = scores(family, arm, profile), at_end(histories(family, arm, profile))
        first = next(iter(SETS[family]))
        told = {
            f"exact, {which}": table[reasoning.columns(family, which=name)].mean(axis=1)
            for which, name in (("i.i.d.", "iid"), ("o.o.d.", "ood"))
        }
        if family == "raven":
            told["choice, o.o.d."] = table[reasoning.columns(family, "choice", "ood")].mean(axis=1)
        told |= {
            INFORMATION: end.forward,
            "CKA": end.cka,
            "Pearson": end.pearson,
            "split, i.i.d.": split(routed(table, family), first),
        }
        found.append((family, arm, told))
    return found


def controls_table(families=FAMILIES, profile: str | None = None):
    """ICLM and its controls: accuracy, dependence of the modules at the end of training, routing."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    found = control_rows(families, profile)
    heads = [*dict.fromkeys(head for *_, told in reversed(found) for head in told)]
    digits = {INFORMATION: 5}
    rows = [
        [
            family.upper(),
            NAMES[arm],
            *(estimate(mean_ci(told[head]), digits.get(head, 3)) if head in told else "" for head in heads),
        ]
        for family, arm, told in found
    ]
    return Table(
        "iclm.controls",
        ["", "setting", *heads],
        rows,
        "ICLM and its controls: mean ± half of the 95 % interval (seeds)",
        "I is Equation 2 on the states that predict validation labels, over all of them; means over "
        "the domain modules. The untrained base has random, frozen weights below its adapters.",
    )


def contrasts(families=FAMILIES, profile: str | None = None, arm: str = "iclm") -> dict[str, tuple]:
    """{claim: (contrast in words, differences by seed)} of claims 7 and 18 to 22, means over families."""
    import pandas as pd

    from causalnb.lab.tables import printed

    told, text = {}, printed("iclm_text")
    soon = float(text[text.column == "mutual information near zero after"].value.iloc[0])

    def add(claim, words, values):
        told.setdefault(claim, (words, []))[1].append(values)

    for family in families:
        found = histories(family, arm, profile)
        first, later, end = at_step(found, 0), at_step(found, soon), at_end(found)
        lowest, table = steps(found).groupby("seed").forward.min(), scores(family, arm, profile)
        alike = sum(each[:, 0, 1:].mean(axis=1) for each in matrices(family, arm, profile).values()) / 2
        tested = pd.Series(alike, index=table.index)
        if family == "acre":
            shares = routed(table, family)
            others = [*SETS[family]][1:]  # n=0 was chosen by the first
            apart = sum(split(shares, cell) for cell in others) / len(others)
            add("iclm.claim7", "share of symbolic - share of text sent to n=0, o.o.d. sets", apart)
        add("iclm.claim18", "Pearson, last - first measured", end.pearson - first.pearson)
        add("iclm.claim19", "I, last - first measured", end.forward - first.forward)
        near = first.forward / 10  # the paper does not say what "close to zero" is
        add("iclm.claim20", f"I, after {soon:g} steps - a tenth of the first", later.forward - near)
        add("iclm.claim21", f"lowest I - {stated_floor():g}", lowest - stated_floor())
        add("iclm.claim22", "Pearson, tests i.i.d. and o.o.d. - end of training", tested - end.pearson)
    return {
        claim: (words, pd.concat(values, axis=1).dropna().mean(axis=1))
        for claim, (words, values) in told.items()
    }


def verdict_table(families=FAMILIES, profile: str | None = None):
    """Claims 7 and 18 to 22: the verdict on ICLM, and the one that the untrained control would get."""
    ours, control = (contrasts(families, profile, arm) for arm in LOOKS)
    other = {
        claim: f"{found.summary.mean:.4f}: {found}"
        for claim, (_, _, found) in reasoning.verdicts(control).items()
    }
    return reasoning.verdict_table("iclm.controls_verdicts", ours, other, "untrained base")


@artefact(
    "iclm.table3",
    needs=NEEDS,
)
def build_table3(profile):
    """Table 3 for both families, with what a reader of lengths splits."""
    from causalnb.lab.tables import save_table

    for family in FAMILIES:
        save_table(table3(family, profile))


@artefact(
    "iclm.fig3",
    needs=NEEDS,
)
def build_fig3(profile):
    """Figure 3: correlation and mutual information in training."""
    from causalnb.lab.figures import save_figure

    fig, alt = fig3(profile=profile)
    save_figure(
        fig,
        "iclm.fig3",
        alt=alt,
        profile=profile,
        caption=(
            "States of the invariant and the domain modules that predict validation labels: mean over seeds, "
            "band from the lowest to the highest. At step 0, not shown, the modules are equal by construction."
        ),
    )


@artefact(
    "iclm.fig4",
    needs=NEEDS,
)
def build_fig4(profile):
    """Figure 4: correlation of the modules' last states at test time."""
    from causalnb.lab.figures import save_figure

    fig, alt = fig4(profile=profile)
    save_figure(
        fig,
        "iclm.fig4",
        alt=alt,
        profile=profile,
        caption=(
            "Pearson's r over all entries of last states that predict test labels, both formats; mean over "
            "seeds, ± half of their range. Dom 0 gets the symbolic prompts."
        ),
    )


@artefact(
    "iclm.fig7",
    needs=NEEDS,
)
def build_fig7(profile):
    """Figure 7: the mutual information loss in training."""
    from causalnb.lab.figures import save_figure

    fig, alt = fig7(profile=profile)
    save_figure(
        fig,
        "iclm.fig7",
        alt=alt,
        profile=profile,
        caption=(
            "Three readings of the mutual information loss: mean over seeds, band from the lowest to the "
            "highest."
        ),
    )


@artefact(
    "iclm.controls",
    needs=NEEDS,
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="accuracy, dependence and routing of ICLM's controls, and verdicts on independence",
)
def controls(profile):
    """All controls, and the claims on routing and independence."""
    from causalnb.lab.tables import save_table

    save_table(controls_table(profile=profile))
    save_table(verdict_table(profile=profile))
