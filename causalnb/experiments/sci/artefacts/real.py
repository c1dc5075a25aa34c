"""SCI on a real pre-trained decoder: arms, their differences, and what was tried on another verb."""

from collections.abc import Callable, Sequence
from math import log, sqrt

from causalnb.experiments.sci.artefacts.names import EXTRA, MODELS, WHOLE
from causalnb.experiments.sci.real import ARMS, NOTEBOOK, SPLITS, nonce_words
from causalnb.lab import registry
from causalnb.lab.report import Measured, Reading, Report, Row, Values, arm, builds, gain, looked

HOME = "sci.real_base"
IDS = {name: f"sci.real.{name}" for name in SPLITS}
SEARCH, APART = "sci.real.search", "sci.real.apart"
SWAP = "plain_swap"
TOLD = dict(
    zip(ARMS, ("plain LoRA", "plain LoRA + swapped words", "SCI", f"{MODELS[WHOLE]} (ours)"), strict=True)
)
HELD = {
    "jump": "jump -> Jump, a known word",
    "nonce": "a verb without meaning",
    "around_right": "around right, a phrase",
}
PLAIN = {  # a verb and its action by whether it is known, and copied: its name, (experiment, arm)
    "jump": ("known, its action the word with a capital", (IDS["jump"], "plain")),
    "known": ("known, an action without meaning", (APART, "known")),
    "copied": ("without meaning, its action the word with a capital", (APART, "copied")),
    "nonce": ("without meaning, an action without meaning", (IDS["nonce"], "plain")),
}
TEST, UNTUNED, LOSS = "held out", "untuned", "loss"
HALF, END = "i.i.d., half-way", "i.i.d., end"
MEASURES = {TEST: "test_exact_match", END: "validation_exact_match"}


def each(values: Sequence[float]) -> str:
    """Shares in percent, one a seed: "85.9, 92.9"."""
    return ", ".join(f"{100 * value:.1f}" for value in values)


def signed(values: Sequence[float]) -> str:
    """Differences of shares in points, one a seed: "+9.1, -22.9"."""
    return ", ".join(f"{100 * value:+.1f}" for value in values)


def plainly(digits: int) -> Callable[[Sequence[float]], str]:
    """A format of numbers, one a seed, to so many digits."""
    return lambda values: ", ".join(f"{value:.{digits}f}" for value in values)


def untuned(id: str, name: str) -> Values:
    """What the base says before it is tuned, by seed: exact match on validation and test rows together."""

    def made(frame):
        return frame[["untuned_validation_exact_match", "untuned_test_exact_match"]].mean(axis=1)

    return arm(id, name, made)


def _arm_row(label, id: str, name: str) -> Row:
    return Row(
        label,
        {
            TEST: arm(id, name, MEASURES[TEST]),
            HALF: looked(id, name, "validation", 0),
            END: arm(id, name, MEASURES[END]),
            UNTUNED: untuned(id, name),
            LOSS: looked(id, name, "loss", 1),
        },
    )


def _rows():
    for held, id in IDS.items():
        for name, words in TOLD.items():
            yield _arm_row((HELD[held], words), id, name)
        scratch = f"sci.scan.{SPLITS[held]}"
        for name in ("plain", "sci", WHOLE) if held != "nonce" else ():
            cells = {
                TEST: arm(scratch, name, "exact_match"),
                END: arm(scratch, name, "validation_exact_match"),
            }
            yield Row((HELD[held], f"from scratch: {MODELS[name]}"), cells)


def _settings(id: str, profile: str | None) -> str:
    config = registry.config(id, "plain" if "plain" in registry.arms(id) else "plain_lr10", profile)
    return (
        f"{config['base']}, LoRA of rank {config['lora_rank']} in all linear maps, {config['steps']} steps "
        f"of {config['random_rows'] + 2 * config['pairs']} rows"
    )


def _notes(profile):
    rate = registry.config(IDS["jump"], "plain", profile)["learning_rate"]
    return (
        f"{_settings(IDS['jump'], profile)}, rate {rate:g} for all arms. i.i.d.: held-out commands of the "
        "training kind. Untuned: the base before the first step. Loss: the mean of the second half of "
        "training, with what the method adds. From scratch: the small decoders of notebooks 21 and 23. What "
        "the base has read is not listed, and SCAN is public; words without meaning are drawn for each seed."
    )


WIDE = {TEST: each, HALF: each, END: each, UNTUNED: each, LOSS: plainly(3)}
arms_table = Report(
    HOME,
    ["held out of training", "arm", *(Measured(heading, format=its) for heading, its in WIDE.items())],
    _rows,
    "SCAN on gemma-3-270m: exact match in %, one number a seed",
    _notes,
)

BY_SEED, WHOLLY, READ = f"{TEST}, by seed", f"{TEST}, mean [95 % interval] (seeds)", "interval"
PAIRS = ((SWAP, "plain"), ("sci", "plain"), (WHOLE, "plain"), ("sci", SWAP), (WHOLE, SWAP))


def _gap_row(label: tuple[str, str], gap: Callable[[str], Values]) -> Row:
    """A row of the difference that `gap` makes of a metric."""
    test = gap(MEASURES[TEST])
    return Row(label, {BY_SEED: test, WHOLLY: test, END: gap(MEASURES[END])})


def _minus(one: tuple[str, str], other: tuple[str, str]) -> Callable[[str], Values]:
    """One (experiment, arm) minus another, by metric."""
    return lambda its: arm(*one, its) - arm(*other, its)


def _gap_rows():
    for held, id in IDS.items():
        for one, other in PAIRS:
            yield _gap_row((HELD[held], f"{TOLD[one]} - {TOLD[other]}"), _minus((id, one), (id, other)))
    for name, words in TOLD.items():
        label = "known word - word without meaning", words
        yield _gap_row(label, _minus((IDS["jump"], name), (IDS["nonce"], name)))


GAPS = (
    Measured(BY_SEED, format=signed),
    Measured(WHOLLY, format=gain),
    Reading(READ, of=WHOLLY),
    Measured(END, format=signed),
)
differences = Report(
    f"{HOME}_differences",
    [
        "held out of training",
        "difference, points",
        *GAPS,
    ],
    _gap_rows,
    "SCAN on gemma-3-270m: differences of the same seeds, in points",
    "The interval is Student's, as everywhere; of two seeds it is wide. Where it holds 0, or where there is "
    "one seed, it decides nothing.",
)


def _apart_rows():
    for words, home in PLAIN.values():
        yield _arm_row(words, *home)


apart = Report(
    f"{HOME}_apart",
    ["verb", *(Measured(heading, format=its) for heading, its in WIDE.items())],
    _apart_rows,
    "Known or copied: plain LoRA with another verb held out, exact match in %, one number a seed",
    "The first and the last line are those of the first table. What a line draws, the last one draws with "
    "that seed, too. A model has the words of its own rows alone: Jump only where it is the action.",
)

APART_PAIRS = (("copied", "nonce"), ("known", "nonce"), ("jump", "known"), ("jump", "copied"))


def _apart_gaps():
    homes = {name: home for name, (_, home) in PLAIN.items()}
    for one, other in APART_PAIRS:
        yield _gap_row((PLAIN[one][0], PLAIN[other][0]), _minus(homes[one], homes[other]))
    known, unknown = _minus(homes["jump"], homes["known"]), _minus(homes["copied"], homes["nonce"])
    label = "a copied action to a known verb", "a copied action to one without meaning"
    yield _gap_row(label, lambda its: known(its) - unknown(its))


apart_differences = Report(
    f"{HOME}_apart_differences",
    [
        "verb",
        "minus",
        *GAPS,
    ],
    _apart_gaps,
    "Known or copied: differences of the same seeds, in points",
    "The first two: what a copied action, and what a known word, are worth to a verb that has neither. The "
    "next two: what either is worth to a verb that has the other. The last: whether they add up (0).",
)


def _search_rows():
    for name in registry.arms(SEARCH):
        config = registry.config(SEARCH, name, "laptop")
        words = TOLD[SWAP if config["swaps"] else config["model"]]
        yield _arm_row((words, f"{config['learning_rate']:g}"), SEARCH, name)


search = Report(
    f"{HOME}_search",
    ["arm", "rate", *(Measured(heading, format=its) for heading, its in WIDE.items())],
    _search_rows,
    "Another held-out verb, 'look', with other words without meaning, on gemma-3-270m: exact match in %, one "
    "seed",
    lambda profile: f"{_settings(SEARCH, profile)}. The rate was tried with plain LoRA alone.",
)


def words_drawn() -> dict[int, str]:
    """{seed: the verb and the action without meaning that it draws}."""
    config = registry.config(IDS["nonce"], "plain", "laptop")
    held = config["held_out"]
    seeds = registry.seeds(IDS["nonce"], "laptop", "plain")
    return {seed: " -> ".join(nonce_words(config["words"], held, seed).values()) for seed in seeds}


def bounds(held: str, name: str, profile: str | None = None) -> dict[str, float]:
    """What the losses of a method were at most, on average over the second half of training, in any seed.

    contrastive: the loss; invariance: the distance of aligned tokens to their mean, root mean square, in
    units of the noise; both follow from the whole loss, of which they are parts, none below 0.
    """
    config = registry.config(IDS[held], name, profile)
    whole = max(looked(IDS[held], name, "loss", 1).of(profile=profile))
    found = {"contrastive": whole / config["scl_weight"]}
    if name == WHOLE:
        found["invariance"] = sqrt(whole / config["invariance_weight"]) / config["abstraction_noise"]
    return found


def blind(profile: str | None = None) -> float:
    """The contrastive loss of slots that are all alike, on a batch of different rows."""
    config = registry.config(IDS["jump"], "sci", profile)
    return log(config["random_rows"] + 2 * config["pairs"] - 1)


def held_remark(profile: str | None = None) -> list[str]:
    """Whether the methods did what they say, as far as the stored losses tell; a line each."""
    sci, ours = ([bounds(held, name, profile) for held in IDS] for name in ("sci", WHOLE))
    alike = blind(profile)
    least = max(one["contrastive"] for one in sci), max(one["contrastive"] for one in ours)
    apart = max(one["invariance"] for one in ours)
    return [
        f"{TOLD['sci']}: the contrastive loss is at most {least[0]:.2f} in each experiment; of slots that "
        f"are all alike it is {alike:.2f} in a batch of different rows.",
        f"{TOLD[WHOLE]}: at most {least[1]:.2f}, and aligned tokens lie at most {apart:.2f} of the noise "
        "from their mean, root mean square over places.",
    ]


def competence_remark(profile: str | None = None) -> list[str]:
    """How good each arm is on commands of the training kind, half-way and at the end; a line each."""
    told = []
    for name, words in TOLD.items():
        ends = [value for id in IDS.values() for value in arm(id, name).of(MEASURES[END], profile)]
        halves = [
            value for id in IDS.values() for value in looked(id, name, "validation", 0).of(None, profile)
        ]
        told.append(
            f"{words}: {100 * min(halves):.1f} to {100 * max(halves):.1f} % half-way, "
            f"{100 * min(ends):.1f} to {100 * max(ends):.1f} % at the end."
        )
    return told


@builds(
    HOME,
    arms_table,
    differences,
    apart,
    apart_differences,
    search,
    **EXTRA,
    shows="SCI on a pre-trained decoder: a known word held out, one without meaning, known or copied, and a "
    "phrase",
    notebook=NOTEBOOK,
)
def base(profile):
    """Arms on the real base, their differences, known or copied, and what was tried on another verb."""
