"""The random mask of the Causal Transformer's Table 1 drawn anew, and relative positions in its place."""

from causalnb.experiments.causal_transformer.artefacts.overlap import (
    ARMS,
    DECISIVE,
    EXTRA,
    IDS,
    MASKED,
    PLAIN,
    SHARES,
    kinds,
)
from causalnb.lab import evidence, registry
from causalnb.lab.report import Report, builds, share
from causalnb.lab.statistics import mean_ci
from causalnb.lab.tables import points

DRAWS = "causal_transformer.draws.paraphrase"
BEFORE = {
    PLAIN: (PLAIN, IDS["paraphrase", DECISIVE]),
    "draw_0": ("random", MASKED["paraphrase"]),
}  # Table 1's
NAMES = {PLAIN: ARMS[PLAIN], "draw_0": "draw 0, Table 1's", "relative": "no mask, relative positions"}
HEADS = {
    "in distribution": "test_accuracy",
    "challenge": "challenge_accuracy",
    **{f"challenge, {kind}": f"challenge_{kind}" for kind in kinds("paraphrase")},
    "other templates": "held_out_accuracy",
}


def by_draw(profile: str | None = None) -> dict[str, object]:
    """{arm: DataFrame by seed} on paraphrases: Table 1's Transformer, each draw of the mask, relative places.

    All have the seeds of DRAWS; the draw 0 is Table 1's "+ random mask".
    """
    frames = {
        name: evidence.require(id, profile, [arm]).set_index("seed") for name, (arm, id) in BEFORE.items()
    }
    more = evidence.require(DRAWS, profile).set_index(["arm", "seed"])
    frames |= {arm: more.loc[arm] for arm in more.index.unique("arm")}
    seeds = sorted(set.intersection(*(set(frame.index) for frame in frames.values())))
    return {arm: frame.loc[seeds] for arm, frame in frames.items()}


def _rows(profile):
    for arm, frame in by_draw(profile).items():
        yield [NAMES.get(arm, arm.replace("_", " ")), *(share(frame[metric]) for metric in HEADS.values())]


def _notes(profile):
    seen = registry.config(MASKED["paraphrase"], "random", profile)["pattern_share"]
    return (
        f"A draw lets a token see each other one with probability {seen:g}, the same in all layers, heads "
        "and sentences; the first token sees all and is seen by all. "
        f"{SHARES[DECISIVE]} of counter-examples, settings of Table 1's Transformer. Draws 1 to 4 "
        "were made after Table 1 was seen, and answer the same challenge pairs."
    )


drawn = Report(
    "causal_transformer.draws",
    ["", *HEADS],
    [_rows],
    "The random mask of Table 1 drawn anew, paraphrase: accuracy in %, mean ± half of the 95 % "
    "interval (seeds)",
    _notes,
    needs=(*(id for _, id in BEFORE.values()), DRAWS),
)


def draws_remark(profile: str | None = None) -> str:
    """What the mask adds to the Transformer, draws being the units; three sentences."""
    scores = {arm: frame.challenge_accuracy for arm, frame in by_draw(profile).items()}
    plain = scores.pop(PLAIN)
    gains = {arm: (score - plain).mean() for arm, score in scores.items()}
    places = gains.pop("relative")
    each = ", ".join(f"{100 * gain:+.1f}" for gain in gains.values())
    return (
        f"Over {len(gains)} draws of the mask, each the mean of the same {len(plain)} seeds, the "
        f"challenge score moves by {points(mean_ci([*gains.values()]))} points; by draw {each}. "
        "The interval holds for the Transformers of these seeds, whose own error is not in it. "
        f"Relative positions without a mask move it by {100 * places:+.1f} points."
    )


@builds(
    "causal_transformer.draws",
    drawn,
    shows="the random mask of Table 1 drawn four more times, and relative positions in its place",
    **EXTRA,
)
def draws(profile):
    """Whether what the random mask does is the mask's or that of one draw."""
