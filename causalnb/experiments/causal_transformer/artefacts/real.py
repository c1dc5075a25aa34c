"""The Markov-blanket loss on a real pre-trained encoder: arms, differences, and the search before them."""

from causalnb.experiments.causal_transformer import real
from causalnb.experiments.causal_transformer.artefacts.overlap import ARMS as SMALL
from causalnb.experiments.causal_transformer.artefacts.overlap import IDS, PLAIN, SHARES
from causalnb.experiments.causal_transformer.artefacts.table3 import HALVES, READERS
from causalnb.experiments.causal_transformer.artefacts.translation import NAMES, SNLI
from causalnb.experiments.causal_transformer.real_choose import OPEN, STILL
from causalnb.lab import registry
from causalnb.lab.report import (
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
)
from causalnb.lab.statistics import mean_ci

HOME = "causal_transformer.real_base"
ON_SNLI = "causal_transformer.real.snli"
LONGER = f"{ON_SNLI}.longer"
ON_PAIRS = {minority: f"causal_transformer.real.nli.{minority}" for minority in ("m5", "m1")}
KEPT = "causal_transformer.real.adapters"
SEARCHES = {name: f"causal_transformer.real.search.{name}" for name in real.TASKS}
TASKS = {"snli": "SNLI", "nli": "templates"}
EXTRA = {"extra": True, "printed_as": "ours", "kind": "measured", "notebook": real.NOTEBOOK}


def _words(name: str, given: dict) -> str:
    """An arm of one of the experiments in words, with what its settings say."""
    weight, nats = f"weight {given.get('weight', 1):g}", f"{given.get('entropy') or 0:g} nats"
    return {
        "vanilla": "vanilla",
        "loss": f"+ loss, {weight}, from the first step",
        "loss_late": f"+ loss, {weight}, late",
        "entropy": f"+ entropy alone, {nats}",
        "entropy_late": f"+ entropy alone, {nats}, late",
        "balanced": "counter-examples balanced",
        "hypothesis": "hypothesis alone",
        "band": "band mask",
        "compared": "sentences compared",
        "gcn": "+ value update",
        "both": f"+ value update, + loss, {weight}, late",
        "interchanged": "words interchanged",
        "held": f"words interchanged, maps held, weight {given.get('held', 0):g}",
        "interchanged_entropy": f"words interchanged, + entropy, {nats}",
    }[name]


LATER = (
    *("loss_late", "entropy", "entropy_late", "balanced", "hypothesis", "band", "gcn", "both", "compared"),
    *("interchanged", "held", "interchanged_entropy"),
)
NAMED = {  # {task: {arm: its name}}
    task: {name: _words(name, given) for name, given in real.arms_of(task, *LATER).items()}
    for task in real.TASKS
}
NAMED["longer"] = {
    name: _words(name, registry.config(LONGER, name, "laptop")) for name in registry.arms(LONGER)
}
ARMS = NAMED["nli"]
OUTSIDE, ENTROPY, GATES = "outside the bounds", "row entropy, nats", "gates, mean size"
SHIFT = "shift of maps"
HALF, END = "validation, half-way", "validation, end"
TWICE = "twice the steps"


def _line(label, id: str, name: str, headings: dict[str, str], looks: bool = False) -> Row:
    """A row of one arm: {heading: metric}, and, if it `looks`, its accuracy on validation pairs.

    The shift of maps is told only of arms whose words are interchanged; of others it was not measured.
    """
    if not registry.config(id, name, "laptop").get("interchanged"):
        headings = {heading: metric for heading, metric in headings.items() if heading != SHIFT}
    cells: dict[str, Values] = {heading: arm(id, name, metric) for heading, metric in headings.items()}
    if looks:
        cells |= {heading: looked(id, name, "accuracy", at) for at, heading in enumerate((HALF, END))}
    return Row(label, cells)


SNLI_CELLS = {
    "test": "test_accuracy",
    "hard test": "hard_accuracy",
    OUTSIDE: "test_violated",
    ENTROPY: "test_entropy",
}


def _snli_rows():
    for name in registry.arms(ON_SNLI):
        yield _line(NAMED["snli"][name], ON_SNLI, name, SNLI_CELLS, looks=True)
    for name in registry.arms(LONGER):
        yield _line(f"{TWICE}: {NAMED['longer'][name]}", LONGER, name, SNLI_CELLS, looks=True)
    for name in ("commonest", "hypothesis"):
        yield _line(f"{HALVES[name]}, no network", READERS, name, {"test": "test_accuracy"})
    yield _line(f"from scratch: {NAMES['full']}", SNLI, "full", {"test": "test_accuracy"})
    yield _line(f"from scratch: {NAMES['both']}", SNLI, "both", {"test": "test_accuracy"})


def _base_notes(id: str):
    def said(profile) -> str:
        config = registry.config(id, "vanilla", profile)
        return (
            f"{config['base']}, all weights tuned, {config['steps']:,} steps of {config['batch']} rows, rate "
            f"{config['learning_rate']:g}, which is best for vanilla. Outside the bounds: the share of "
            "nodes, self-loops tolerated in all arms. "
        )

    return said


def _snli_notes(profile):
    reach = registry.config(ON_SNLI, "gcn", profile)["reach"]
    return (
        f"{_base_notes(ON_SNLI)(profile)}Hard: the test rows on which a reader of the words of the "
        "hypothesis is wrong. Value update: Equation 4 in every layer, behind gates that begin closed, of "
        f"reach {reach:,g}. The base was tuned by its authors on pairs of SNLI's and MNLI's training sets, "
        "among others. From scratch: the small encoders of notebook 12, same pairs."
    )


snli = Report(
    f"{HOME}_snli",
    [
        "arm",
        Measured("test", format=share),
        Measured("hard test", format=share),
        Measured(HALF, format=share),
        Measured(END, format=share),
        Measured(OUTSIDE, format=share),
        Measured(ENTROPY, format=number(2)),
    ],
    _snli_rows,
    "SNLI-10k on MiniLM: accuracy in %, mean ± half of the 95 % interval (seeds)",
    _snli_notes,
)

PAIR_CELLS = {
    "in distribution": "test_accuracy",
    "challenge": "challenge_accuracy",
    "other templates": "held_out_accuracy",
    "challenge, AUC": "challenge_auc",
    "MNLI's overlapping pairs, AUC": "mnli_overlapping_auc",
    "PAWS-QQP, AUC": "paws_qqp_auc",
    OUTSIDE: "challenge_violated",
    ENTROPY: "challenge_entropy",
    SHIFT: "challenge_shift",
}
BEFORE = dict([*PAIR_CELLS.items()][:3])  # what the small encoders of notebook 11 were asked, too


def _pair_rows():
    for minority, id in ON_PAIRS.items():
        for name in registry.arms(id):
            yield _line((SHARES[minority], ARMS[name]), id, name, PAIR_CELLS)
        for name in registry.arms(KEPT) if minority == "m5" else ():
            yield _line((SHARES[minority], f"{ARMS[name]}, adapters"), KEPT, name, PAIR_CELLS)
        for name in (PLAIN, "both", "bilstm"):
            yield _line(
                (SHARES[minority], f"from scratch: {SMALL[name]}"), IDS["nli", minority], name, BEFORE
            )


def _pair_notes(profile):
    kept = registry.config(KEPT, "vanilla", profile)
    return (
        f"{_base_notes(ON_PAIRS['m5'])(profile)}Late: the weight rises between {100 * real.RAMP[0]:.0f} and "
        f"{100 * real.RAMP[1]:.0f} % of the steps. Adapters: low-rank ones of rank {kept['lora']} and the "
        f"head are trained, and no other weights, at rate {kept['learning_rate']:g}. Compared: each sentence "
        "is read by itself, and the answer from both means. Balanced: "
        "counter-examples again, as often as makes them half of the rows with full overlap. Interchanged and "
        "held: as in the search, which chose the weight; held takes a second pass in each step. AUC: chance "
        "is 0.5. The base was tuned by its authors on pairs of MNLI's training set and on Quora's questions, "
        "from which PAWS-QQP is made. From scratch: "
        f"notebook 11, {registry.config(IDS['nli', 'm5'], PLAIN, profile)['steps']:,} steps."
    )


FORMATS = {ENTROPY: number(2), SHIFT: number(4)} | {
    heading: fraction() for heading in PAIR_CELLS if heading.endswith("AUC")
}
pairs = Report(
    f"{HOME}_nli",
    [
        "counter-examples",
        "arm",
        *(Measured(heading, format=FORMATS.get(heading, share)) for heading in PAIR_CELLS),
    ],
    _pair_rows,
    "Entailment where word overlap misleads, on MiniLM: accuracy in %, mean ± half of the 95 % interval "
    "(seeds)",
    _pair_notes,
)

CONTRASTS = {  # against the plain arm, and against what is fair
    "snli": (
        ("loss", "vanilla"),
        ("loss", "entropy"),
        ("loss_late", "vanilla"),
        ("loss_late", "entropy_late"),
        ("entropy", "vanilla"),
        ("entropy_late", "vanilla"),
        ("band", "vanilla"),
        ("gcn", "vanilla"),
        ("both", "vanilla"),
        ("both", "loss_late"),
        ("vanilla", "hypothesis"),
    ),
    "longer": (("loss_late", "vanilla"), ("loss_late", "entropy_late"), ("entropy_late", "vanilla")),
    "m5": (
        ("loss", "vanilla"),
        ("loss", "entropy"),
        ("loss_late", "vanilla"),
        ("loss_late", "entropy_late"),
        ("loss_late", "balanced"),
        ("entropy", "vanilla"),
        ("entropy_late", "vanilla"),
        ("balanced", "vanilla"),
        ("compared", "vanilla"),
        ("interchanged", "vanilla"),
        ("held", "interchanged"),
        ("held", "vanilla"),
        ("held", "interchanged_entropy"),
        ("interchanged_entropy", "interchanged"),
    ),
    "m1": (("loss", "vanilla"), ("balanced", "vanilla")),
}
ASKED = {  # by task: heading -> metric
    "snli": {
        "in distribution": "test_accuracy",
        "where it is hard": "hard_accuracy",
        OUTSIDE: "test_violated",
    },
    "nli": {
        "in distribution": "test_accuracy",
        "where it is hard": "challenge_accuracy",
        "other templates": "held_out_accuracy",
        OUTSIDE: "challenge_violated",
    },
}


def _gap_rows():
    on_snli = {"snli": (ON_SNLI, TASKS["snli"]), "longer": (LONGER, f"{TASKS['snli']}, {TWICE}")}
    for key, contrasts in CONTRASTS.items():
        task = "snli" if key in on_snli else "nli"
        id, data = on_snli.get(key) or (ON_PAIRS[key], f"{TASKS[task]}, {SHARES[key]}")
        named = NAMED[key if key in on_snli else task]
        for one, other in contrasts:
            gaps = {head: arm(id, one, its) - arm(id, other, its) for head, its in ASKED[task].items()}
            yield Row((data, f"{named[one]} - {named[other]}"), gaps)
    causal = IDS["nli", "m5"]
    gaps = {
        head: arm(causal, "both", its) - arm(ON_PAIRS["m5"], "vanilla", its)
        for head, its in [*ASKED["nli"].items()][:3]
    }
    label = f"from scratch: {SMALL['both']} - {ARMS['vanilla']} on MiniLM"
    yield Row((f"{TASKS['nli']}, {SHARES['m5']}", label), gaps)


contrasts = Report(
    f"{HOME}_contrasts",
    [
        "data",
        "difference, points",
        *(Measured(heading, format=gain) for heading in ASKED["nli"]),
    ],
    _gap_rows,
    "On MiniLM: differences of the same seeds, mean [95 % interval] (seeds)",
    "Where it is hard: SNLI's hard test rows, the templates' challenge. Without an interval: one seed, which "
    f"decides nothing. {ARMS['entropy']} is no match of the loss from the first step, whose maps are more "
    f"concentrated; {ARMS['entropy_late']} is set to where the late loss ended in the search, and "
    f"{NAMED['snli']['entropy_late']} to where it ended on SNLI's validation pairs with the first seed. "
    "Held maps are more concentrated than those of words interchanged alone: "
    f"{ARMS['interchanged_entropy']} is set to where they ended in the search. They take half as much time "
    "again or more, which no control does.",
)


def _tried(task: str, name: str) -> str:
    """What a try of a search was used for: the rate of all arms, a loss, a value update; "" for nothing."""
    if name in real.RATES:
        return "rate of all arms" if real.RATES[name] == real.CHOSEN[task] else ""
    used = ("loss", "loss_late", "gcn", "interchanged", "held")
    given, tried = real.arms_of(task, *used[1:]), real.TRIES[task][name]
    tried = {"learning_rate": real.CHOSEN[task]} | tried
    names = [arm for arm in used if given[arm] == tried]
    return ", ".join(ARMS[name] for name in names)


def _search_rows():
    for task, id in SEARCHES.items():
        for name in registry.arms(id):
            cells: dict[str, Values] = {"validation": arm(id, name, "validation_accuracy")}
            if "challenge" in registry.config(id, name, "laptop")["cells"]:
                cells["challenge"] = arm(id, name, "challenge_accuracy")
            if name in real.REACHES:
                cells[GATES] = arm(id, name, "gate")
            if name in real.OTHERS | real.HELD:
                cells[SHIFT] = arm(id, name, "challenge_shift")
            cells |= {
                f"{heading}, {when}": looked(id, name, measure, at)
                for heading, measure in ((OUTSIDE, "violated"), (ENTROPY, "entropy"))
                for at, when in enumerate(("half-way", "end"))
            }
            yield Row((TASKS[task], name.replace("_", " "), _tried(task, name)), cells)


search = Report(
    f"{HOME}_search",
    [
        "data",
        "try",
        "used as",
        Measured("validation", format=share),
        Measured("challenge", format=share),
        Measured(GATES, format=number(2)),
        Measured(SHIFT, format=number(4)),
        *(Measured(f"{OUTSIDE}, {when}", format=share) for when in ("half-way", "end")),
        *(Measured(f"{ENTROPY}, {when}", format=number(2)) for when in ("half-way", "end")),
    ],
    _search_rows,
    "Every try on MiniLM: accuracy in % on development data, one seed",
    "hinge: the loss from the first step with that weight; late: with a weight that rises to it. SNLI: "
    "validation pairs. Templates: a family and a seed of their own, 5 % of counter-examples. Bounds and "
    "entropy on validation pairs. The loss from the first step was set before the search. Of the late tries "
    "the most accurate of those is used that leave less than 10 % of the nodes outside; where none does, the "
    "one that leaves the fewest. Reach: r of value updates, whose gates r g begin at 0. The most accurate of "
    f"those is used whose gates end at {OPEN} or more in mean size, a mark set when 25 had left them nearly "
    "closed; where none does, the one whose gates open most. Interchanged: pieces of words that both "
    "sentences have are replaced by others of their class in training. Held: with a penalty of that weight "
    "on how far that moves maps, which takes a second pass. Shift: how far interchanging moves them after "
    "training, one draw; of held, whether the penalty did its work. The most accurate of the held ones is "
    f"used whose shift is at most {STILL:g} of what interchanging alone leaves, a mark set when weight 10 "
    "had been seen and 1 had not; where none is, the one that moves least.",
)


def _told(id: str, name: str, cell: str, hard: str, profile: str | None) -> str:
    """What an arm did against vanilla: its maps, then its accuracy; a sentence."""
    plain, ours = arm(id, "vanilla"), arm(id, name)
    out, before = (100 * one.summary(f"{cell}_violated", profile).mean for one in (ours, plain))
    near, wide = (one.summary(f"{cell}_entropy", profile).mean for one in (ours, plain))
    gaps = (
        f"{words} {gain((ours - plain).of(metric, profile))}"
        for words, metric in (("in distribution", "test_accuracy"), (hard, f"{hard}_accuracy"))
    )
    return (
        f"{out:.0f} % of the nodes outside the bounds (vanilla {before:.0f}), rows of {near:.2f} nats "
        f"({wide:.2f}); against vanilla, points: {', '.join(gaps)}"
    )


def remark(name: str, profile: str | None = None) -> list[str]:
    """What an arm did to maps and accuracy, a line for each experiment that has it."""
    homes = {TASKS["snli"]: ("snli", ON_SNLI, "test", "hard")} | {
        f"{TASKS['nli']}, {SHARES[key]}": ("nli", id, "challenge", "challenge")
        for key, id in ON_PAIRS.items()
    }
    return [
        f"{data[0].upper()}{data[1:]}, *{NAMED[task][name]}*: {_told(id, name, cell, hard, profile)}."
        for data, (task, id, cell, hard) in homes.items()
        if name in registry.arms(id)
    ]


def gate_remark(profile: str | None = None) -> list[str]:
    """How far the gates of value updates opened, and what the tuned models are without them; a line each."""
    told = []
    for name in ("gcn", "both"):
        open_, right, shut = (
            arm(ON_SNLI, name).summary(metric, profile).mean
            for metric in ("gate", "test_accuracy", "test_shut")
        )
        told.append(
            f"*{NAMED['snli'][name]}*: gates at {open_:.2f}; {100 * right:.1f} % of the test, and "
            f"{100 * shut:.1f} % once they are shut."
        )
    return told


def competence_remark(profile: str | None = None) -> list[str]:
    """Whether vanilla can do its tasks, and what it reads; a line each."""
    plain, half = (
        arm(ON_SNLI, name).summary("test_accuracy", profile).mean for name in ("vanilla", "hypothesis")
    )
    small = arm(SNLI, "full").summary("test_accuracy", profile).mean
    looks = [looked(ON_SNLI, "vanilla", "accuracy", at) for at in (0, 1)]
    later = gain((looks[1] - looks[0]).of(profile=profile))
    told = [
        f"{TASKS['snli']}: vanilla {100 * plain:.1f} %, from the hypothesis alone {100 * half:.1f} %, the "
        f"encoder from scratch {100 * small:.1f} %. In the second half of training vanilla gains {later} "
        "points on validation pairs."
    ]
    for key, id in ON_PAIRS.items():
        score, first = (
            100 * one.summary("challenge_accuracy", profile).mean
            for one in (arm(id, "vanilla"), arm(IDS["nli", key], PLAIN))
        )
        told.append(
            f"{TASKS['nli'].capitalize()}, {SHARES[key]}: on the challenge vanilla has {score:.1f} %, the "
            f"encoder from scratch {first:.1f} %."
        )
    return told


def device_remark(profile: str | None = None) -> list[str]:
    """On what the arms on the templates with 5 % were trained; a line for each device."""
    from causalnb.lab import results

    places: dict[str, dict] = {}
    for one in results.usable(ON_PAIRS["m5"], profile):
        places.setdefault(one.device, {})[ARMS[one.arm]] = None  # each once
    return [f"Trained on {place}: *{'*; *'.join(names)}*." for place, names in places.items()]


def held_remark(profile: str | None = None) -> list[str]:
    """What holding maps still does to the ranking of pairs on the challenge; a line for each partner."""
    id = ON_PAIRS["m5"]
    return [
        f"*{ARMS['held']}* - *{ARMS[other]}*, AUC on the challenge, hundredths: "
        f"{gain((arm(id, 'held') - arm(id, other)).of('challenge_auc', profile))}."
        for other in ("interchanged", "interchanged_entropy", "vanilla")
    ]


def carried_remark(profile: str | None = None) -> str:
    """Between which values the AUC of arms without adapters lies on the published sets; a sentence."""
    told = []
    for heading in ("MNLI's overlapping pairs, AUC", "PAWS-QQP, AUC"):
        means = [
            mean_ci(arm(id, name).of(PAIR_CELLS[heading], profile)).mean
            for id in ON_PAIRS.values()
            for name in registry.arms(id)
        ]
        told.append(f"{heading.removesuffix(', AUC')} {min(means):.2f} to {max(means):.2f}")
    return f"AUC over arms with all weights tuned, at both shares: {'; '.join(told)}. Chance is 0.5."


@builds(
    HOME,
    snli,
    pairs,
    contrasts,
    shows="the Markov-blanket loss on a pre-trained encoder, on SNLI and where word overlap misleads",
    **EXTRA,
)
def base(profile):
    """Arms on the real base and their differences."""


@builds(
    f"{HOME}_search",
    search,
    shows="every try of the search on a pre-trained encoder: rates, losses, reach of gates, other words",
    **EXTRA,
)
def tries(profile):
    """The search on the real base."""
