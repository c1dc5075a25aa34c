"""Told which pairs are counter-examples: reweighting, GroupDRO and IRM beside what is not told."""

from collections.abc import Iterator

from causalnb.experiments.causal_transformer.artefacts import halves
from causalnb.experiments.causal_transformer.artefacts.beyond import CHOSEN, SHOWN, SIMPLE
from causalnb.experiments.causal_transformer.artefacts.beyond import trained as untold
from causalnb.experiments.causal_transformer.artefacts.overlap import (
    DECISIVE,
    EXTRA,
    IDS,
    PLAIN,
    SHARES,
    Scored,
    asked,
    scores,
)
from causalnb.experiments.causal_transformer.artefacts.table1 import but_exceptions
from causalnb.experiments.causal_transformer.grid import BLANKETS, MATCHED, TOLD
from causalnb.experiments.causal_transformer.groups import OBJECTIVES, tries, used
from causalnb.lab import registry
from causalnb.lab.report import (
    Arm,
    Measured,
    Report,
    Row,
    Values,
    arm,
    builds,
    fraction,
    gain,
    looked,
    number,
    share,
    tested,
)
from causalnb.lab.statistics import mean_ci

HOME = "causal_transformer.groups"
ID, SEARCH, DECAY = f"{HOME}.nli.{DECISIVE}", f"{HOME}.search.nli", f"{HOME}.decay.nli"
OURS = {
    "balanced": "+ comparison, reweighted",
    "groupdro": "+ comparison, GroupDRO",
    "irm": "+ comparison, IRM",
}
NO, YES = "nothing", "counter-examples"
NAMES = SHOWN | {"loss": "+ loss"} | OURS
FIRST = "reweighted"  # Table 1's Transformer on the same draws as OURS
NAMES[FIRST] = halves.NAMES["balanced"]
CROSSED = {  # arms of DECAY, of which the others have their like in ROWS
    "compared_high": "+ comparison, decay 1",
    "balanced_low": "+ comparison, reweighted, decay 0.01",
    "irm_high": "+ comparison, IRM, decay 1",
}
HIGH, READER = (f"causal_transformer.beyond.{kind}decay.nli" for kind in ("", "reader."))
LONGER, TOLD_LONGER = "all_longer", "balanced_longer"  # for held attention's seconds
AT_ONE = {  # at a strong weight decay -> (experiment, its arm)
    "held_high": (HIGH, CHOSEN),
    "all_high": (HIGH, "all"),
    "bilstm_high": (READER, SIMPLE),
    LONGER: ("causal_transformer.beyond.compute.decay.nli", "all"),
    TOLD_LONGER: (f"{HOME}.longer.nli", "balanced"),
}
LIKES = {"held_high": CHOSEN, "all_high": "all", "bilstm_high": SIMPLE}  # the same at decay 0.01
NAMES |= CROSSED | {name: f"{NAMES[like]}, decay 1" for name, like in LIKES.items()}
NAMES |= {
    name: f"{NAMES[AT_ONE[name][1]]}, decay 1, {MATCHED:g} times the steps" for name in (LONGER, TOLD_LONGER)
}
ROWS = {  # arm -> what its training is told of the pairs, beside their labels
    **dict.fromkeys((PLAIN, "loss", SIMPLE, "compared", *BLANKETS, CHOSEN), NO),
    **dict.fromkeys(("bilstm_high", "compared_high", "held_high", LONGER), NO),
    **dict.fromkeys((FIRST, *OURS, TOLD_LONGER), YES),
}
PAIRS = (
    ("balanced", "compared"),
    ("groupdro", "balanced"),
    ("irm", "balanced"),
    ("groupdro", "compared"),
    ("irm", "compared"),
    *((name, "balanced") for name in BLANKETS),
    *((CHOSEN, name) for name in OURS),
)
DECAYED = dict.fromkeys(("compared", "irm", "all", CHOSEN, SIMPLE), ", decay 0.01") | {
    "balanced": ", decay 1"
}
EQUAL = (  # what decay does to an arm, then arms at one decay
    ("compared_high", "compared"),
    ("balanced", "balanced_low"),
    ("irm_high", "irm"),
    *LIKES.items(),
    ("balanced_low", "compared"),
    ("balanced", "compared_high"),
    ("irm", "balanced_low"),
    ("irm_high", "balanced"),
    *((name, "balanced") for name in LIKES),
    ("held_high", "all_high"),
    ("held_high", LONGER),
    (LONGER, TOLD_LONGER),
)
TEMPLATES = ("in distribution", "challenge", "other templates")  # begin the headings of columns
CHECKS = {  # of training pairs, at the end -> how it is shown
    "worst_loss": ("largest loss of a group", number(3)),
    "counter_weight": ("weight of counter-examples in GroupDRO", fraction(2)),
    "penalty": ("IRM's penalty", number(4)),
}


def trained(name: str) -> Arm:
    """An arm of ROWS, CROSSED or AT_ONE."""
    if name in AT_ONE:
        return arm(*AT_ONE[name])
    if name in CROSSED:
        return arm(DECAY, name)
    if name in OURS:
        return arm(ID, name)
    if name == FIRST:
        return arm(halves.REWEIGHTED, "balanced")
    return arm(IDS["nli", DECISIVE], name) if name == "loss" else untold("nli", DECISIVE, name)


OWN = [column for column in scores("nli") if column.heading.partition(",")[0] in TEMPLATES]
PUBLISHED = [  # both halves and AUC
    *(
        Scored(f"{halves.TITLE}, {halves.SAID[label]}", asked(metric))
        for label, metric in zip(halves.LABELS, halves.HALVES, strict=True)
    ),
    Scored(f"{halves.TITLE}, {halves.AREA}", asked(halves.METRICS[-1]), fraction()),
]


def _line(name: str) -> Row:
    """A row of an arm: published sets are read where both halves were asked."""
    here = trained(name)
    there = halves.asked(name) if name in halves.NAMES and name != "balanced" else here
    values: dict[str, Values] = {column.heading: here for column in OWN}
    if name != LONGER:  # which was asked nothing published
        values |= {column.heading: there for column in PUBLISHED}
    return Row((ROWS[name], NAMES[name]), values)


def _notes(profile: str | None) -> str:
    return (
        f"{SHARES[DECISIVE]} of counter-examples. Told: what training knows of a pair beside its label. "
        "Reweighted, GroupDRO and IRM are told the same, and learn from the same draws, in which "
        "counter-examples come as often as pairs on which overlap is right. Groups: the label, by whether "
        "overlap tells it; environments: in one overlap tells every label, in the other it misleads on most "
        f"of the pairs. Each has the best of {len(tries()) // len(OURS)} tries of a search on "
        "development templates, one seed. Weight decay is 0.01 where a row does not say 1, but for the "
        "comparison reweighted or under GroupDRO, which have 1. Without a cell: not asked."
    )


beside = Report(
    f"{HOME}_nli",
    ["told", "arm", *OWN, *PUBLISHED],
    [_line(name) for name in ROWS],
    "Entailment, told or not which pairs are counter-examples: accuracy in %, mean ± half of the 95 % "
    "interval (seeds)",
    _notes,
)


def gap(pair: tuple[str, str]) -> Values:
    """The difference of two arms that `trained` knows."""
    return trained(pair[0]) - trained(pair[1])


DIFFERENCES = [
    "difference, points",
    Scored("challenge", "challenge_accuracy", tested),
    Scored("in distribution", "test_accuracy", tested),
    Scored("other templates", "held_out_accuracy", tested),
]
contrasts = Report(
    f"{HOME}_contrasts",
    DIFFERENCES,
    [Row(f"{NAMES[pair[0]]} - {NAMES[pair[1]]}", gap(pair)) for pair in PAIRS],
    "Told which pairs are counter-examples: differences of the same seeds, mean [95 % interval] (seeds), and "
    "the p of the exact sign-flip test",
    "Reweighting, GroupDRO and IRM make something else of one piece of knowledge, so the last two are held "
    "against the first. Held attention and the paper's method know nothing of it.",
)


MISLED = Scored(f"{halves.TITLE}, does not follow", "mnli_contradicting_accuracy", tested)


def _at_one(pair: tuple[str, str]) -> Row:
    """A row of two arms at one decay, or of one at two; without what was not asked."""
    columns = DIFFERENCES[1:] if LONGER in pair else [*DIFFERENCES[1:], MISLED]
    return Row(" - ".join(map(_decayed, pair)), {column.heading: gap(pair) for column in columns})


def _decayed(name: str) -> str:
    return NAMES[name] + DECAYED.get(name, "")


decays = Report(
    f"{HOME}_decays",
    [*DIFFERENCES, MISLED],
    [_at_one(pair) for pair in EQUAL],
    "Weight decay, searched for reweighting and GroupDRO alone: differences of the same seeds, mean "
    "[95 % interval] (seeds), and the p of the exact sign-flip test",
    "The first six rows: what the decay does to each arm. The others: arms at one decay.",
)


def checked(name: str, measure: str) -> Values:
    """What an arm of OURS ended training with, of CHECKS."""
    return looked(ID, name, measure, -1)


checks = Report(
    f"{HOME}_checks",
    ["arm", *(Measured(said, format=shown) for said, shown in CHECKS.values())],
    [Row(NAMES[name], {said: checked(name, its) for its, (said, _) in CHECKS.items()}) for name in OURS],
    "Did each do what it says? At the end of training, on training pairs: mean ± half of the 95 % interval "
    "(seeds)",
    "GroupDRO is to make the largest loss of a group small, and IRM its penalty: the mean over environments "
    "of the squared slope of the risk by a scale of the logits. The weight is what GroupDRO ended with; the "
    "others leave it at the start.",
)


def _competent(profile: str | None) -> str:
    looks = registry.config(ID, "balanced", profile)
    half = looks["steps"] // looks["evaluate_every"] // 2 - 1
    told = []
    for name in ("compared", "balanced"):
        found = trained(name)
        late, early = (looked(found.needs[0], found.name, "accuracy", at) for at in (-1, max(0, half)))
        told.append(
            f"{NAMES[name]}: {share(found.of('test_accuracy', profile))} in distribution, and "
            f"{gain((late - early).of(None, profile))} points on validation pairs in the second half"
        )
    return (
        f"{'; '.join(told)}. Who misses nothing but counter-examples has {100 * but_exceptions('nli'):.1f}."
    )


def _manipulated(profile: str | None) -> str:
    told = []
    for name, measure in (("groupdro", "worst_loss"), ("irm", "penalty")):
        less = mean_ci((checked(name, measure) - checked("balanced", measure)).of(None, profile))
        word = "lower" if less.high < 0 else "higher" if less.low > 0 else "not shown to differ"
        told.append(
            f"{CHECKS[measure][0]} under {NAMES[name].rpartition(' ')[2]} - under reweighting: "
            f"{less.mean:+.3g} [{less.low:+.3g}, {less.high:+.3g}], {word}"
        )
    return "; ".join(told) + "."


def _fair(profile: str | None) -> str:
    told = (
        f"{NAMES[pair[0]]} - {NAMES[pair[1]]} {gain(gap(pair).of('challenge_accuracy', profile))}"
        for pair in PAIRS[1:3]
    )
    return f"Told the same, learning from the same draws; points on the challenge: {'; '.join(told)}."


def _powerful(profile: str | None) -> str:
    found = [mean_ci(gap(pair).of("challenge_accuracy", profile)) for pair in PAIRS]
    widest = 100 * max(one.half for one in found)
    apart = sum(one.low > 0 or one.high < 0 for one in found)
    return (
        f"{min(one.n for one in found)} seeds; the widest interval of a difference on the challenge is "
        f"± {widest:.1f} points, and {apart} of {len(found)} leave out 0."
    )


RULES = {
    "competence: does the plain arm do the task?": _competent,
    "manipulation: did each do what it says?": _manipulated,
    "fair control: what does it add to what is told the same?": _fair,
    "power: could a difference be seen?": _powerful,
}


rules = Report(
    f"{HOME}_rules",
    ["question", "answer"],
    [lambda profile: [[rule, answer(profile)] for rule, answer in RULES.items()]],
    "Reweighting, GroupDRO and IRM before the four questions that every comparison is asked",
    needs=tuple(dict.fromkeys(id for pair in PAIRS for name in pair for id in trained(name).needs)),
)


def _try_rows() -> Iterator[Row]:
    chosen = used()
    for name, given in tries().items():
        kind = name.rpartition("_")[0]
        varied = {key for one in OBJECTIVES[kind] for key in one} - {"objective"}
        settings = ", ".join(f"{key} {given[key]:g}" for key in sorted(varied))
        yield Row((NAMES[kind], settings, "yes" if given == chosen[kind] else ""), arm(SEARCH, name))


searched = Report(
    f"{HOME}_tries",
    [
        "arm",
        "settings",
        "used",
        Measured("validation", "validation_accuracy"),
        Measured("challenge", "challenge_accuracy"),
    ],
    _try_rows,
    "Every try of reweighting, GroupDRO and IRM: accuracy in % on the development templates, one seed",
    "Used is the best mean of both columns. step is GroupDRO's; warm is the share of training after which "
    "IRM's penalty has its weight.",
)


@builds(
    HOME,
    beside,
    contrasts,
    decays,
    checks,
    rules,
    searched,
    shows="reweighting, GroupDRO and IRM, told the counter-examples, beside what is told nothing of them",
    **EXTRA | {"notebook": TOLD},
)
def groups(profile):
    """What is told the counter-examples beside what is not, and whether the comparison is fair."""
