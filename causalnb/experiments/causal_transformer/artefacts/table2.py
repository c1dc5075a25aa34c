"""Table 2 of the Causal Transformer: translation, the printed BLEU beside ours."""

from functools import partial
from math import ceil

from causalnb.experiments.causal_transformer.artefacts.overlap import Scored, asked
from causalnb.experiments.causal_transformer.artefacts.translation import (
    ARMS,
    DIRECTIONS,
    SOURCE,
    printed,
    signed,
    verdict_table,
)
from causalnb.lab import evidence, registry, results
from causalnb.lab.report import Measured, Report, Row, Values, arm, builds, number, values
from causalnb.lab.statistics import mean_ci

NO_DATA = "not attempted: no data"
LANGUAGES = (*DIRECTIONS, "EN-RO", "RO-EN")  # the columns of Table 2
DECODINGS = ("greedy", "beams")
PARTS = {"test": "test 2016", "test2017": "test 2017"}  # of Multi30k
STACKS = ("encoder", "decoder")
OTHERS = {name: words for name, words in ARMS.items() if name != "vanilla"}
FIRST = "test_beams_bleu"  # the metric of Table 2
ORDERS = 4  # of n-grams in BLEU
DRAWS = 1000  # of the test sentences


def signature(profile: str | None = None) -> str:
    """The signatures by sacreBLEU of all results of Table 2."""
    frames = (results.curves(id, profile) for id in DIRECTIONS.values())
    return "; ".join(sorted({text for frame in frames for text in frame["signature"].dropna()}))


def tested(profile: str | None = None) -> list[str]:
    """The test parts that a run translates, the one of Table 2 first."""
    return registry.config(DIRECTIONS["EN-DE"], "vanilla", profile)["cells"]


def longest(profile: str | None = None) -> str:
    """How long our captions may be, and where all of them are, in a sentence; "" where any length may be."""
    every = results.path(DIRECTIONS["EN-DE"], "vanilla", 0, "gpu").is_file()
    most = registry.config(DIRECTIONS["EN-DE"], "vanilla", profile)["data"].get("max_words")
    return (
        f"Our captions have at most {most} words on each side; the gpu profile has all of Multi30k"
        f"{'' if every else ', and has not been run'}. "
        if most
        else ""
    )


def unpacked(counts: str):
    """An array (sentences, 10) of `sentence_counts`, with how many 1- to 4-grams were written."""
    import numpy as np

    found = np.array([row.split() for row in counts.split(";")], dtype=int)
    written = (found[:, :1] - np.arange(ORDERS)).clip(min=0)
    return np.concatenate([found, written], 1)


def corpus_bleu(sums) -> float:
    """BLEU of summed `unpacked` counts (10), smoothed as sacreBLEU does by default."""
    from sacrebleu.metrics import BLEU

    length, wanted, *counts = map(int, sums)
    return BLEU.compute_bleu(counts[:ORDERS], counts[ORDERS:], length, wanted, smooth_method="exp").score


def bootstrap(one, other, draws: int = DRAWS, seed: int = 0) -> tuple[float, float, float]:
    """BLEU of one minus other, and its 95 % interval where test sentences are drawn anew, for both the same.

    one and other are counts (seeds, sentences, 10) of the same sentences; seeds are taken together.
    """
    import numpy as np

    n = one.shape[1]
    times = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), draws)
    times = np.vstack([np.ones(n, int), times])  # first each sentence once
    scores = [[corpus_bleu(sums) for sums in times @ part.sum(0)] for part in (one, other)]
    whole, *drawn = np.subtract(*scores)
    return float(whole), *map(float, np.quantile(drawn, [0.025, 0.975]))


def over_sentences(id: str, name: str, profile: str | None = None) -> str:
    """A table cell: an arm minus vanilla with the interval of `bootstrap`, beams on the first test part."""
    import numpy as np

    evidence.require(id, profile, [name, "vanilla"])
    told = (
        results.curves(id, profile, [name, "vanilla"])
        .query("decoding == 'beams'")
        .set_index(["part", "arm", "seed"])["sentences"]
        .sort_index()
    )
    counts = [np.stack([*map(unpacked, told[tested(profile)[0], one])]) for one in (name, "vanilla")]
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*bootstrap(*counts))


def _paper_rows(profile):
    said = printed("table2")
    for row in dict.fromkeys(row for row, _ in said):
        yield [f"paper: {row}", *(said[row, column] for column in LANGUAGES), *[""] * len(DIRECTIONS)]


def _ours(name: str) -> Row:
    apart = [partial(over_sentences, id, name) for id in DIRECTIONS.values() if name in OTHERS]
    missing = [NO_DATA] * (len(LANGUAGES) - len(DIRECTIONS))
    return Row((f"ours: {ARMS[name]}", *missing, *apart), arm(None, name))


bleu = Report(
    f"{SOURCE}.table2",
    [
        "",
        *(Measured(column, FIRST, number(2), experiment=id) for column, id in DIRECTIONS.items()),
        *LANGUAGES[len(DIRECTIONS) :],
        *(f"{column} - vanilla's, over sentences" for column in DIRECTIONS),
    ],
    [_paper_rows, *map(_ours, ARMS)],
    "Table 2: BLEU; the paper's on WMT, one number each; ours on captions of Multi30k, mean ± "
    "half of the 95 % interval (seeds)",
    lambda profile: (
        f"{longest(profile)}Ours is sacreBLEU with beams, {signature(profile)}. The paper does not say how "
        "its BLEU was computed, and mixes models that write from left to right with models that do not. Its "
        f"model is our last arm. {sizes_remark(profile)} Captions and news differ in level; contrasts of "
        "arms can be compared. Over sentences: BLEU of all seeds' translations together, and the 95 % "
        f"interval where test sentences are drawn anew, {DRAWS:,} times, for both arms the same."
    ),
)


def sizes_remark(profile: str | None = None) -> str:
    """How many pairs are learned from, and how many captions translated; a sentence."""
    sizes = {part: f"{part}_rows" for part in ("train", *tested(profile))}
    rows = {
        part: arm(DIRECTIONS["EN-DE"], "vanilla", metric).of(profile=profile)[0]
        for part, metric in sizes.items()
    }
    learned = rows.pop("train")
    asked = " and ".join(f"{count:,.0f} of {PARTS[part]}" for part, count in rows.items())
    return f"We train on {learned:,.0f} pairs and translate {asked}; Table 2 has the first."


def gained(column: str, name: str, metric: str, profile: str | None = None) -> list[float]:
    """An arm minus vanilla by seed."""
    id = DIRECTIONS[column]
    return (arm(id, name) - arm(id, "vanilla")).of(metric, profile)


gains = Report(
    f"{SOURCE}.table2_gains",
    [
        "difference",
        *(
            Scored(
                f"{column}, {words}, {decoding}",
                asked(f"{part}_{decoding}_bleu"),
                signed(),
                experiment=id,
            )
            for column, id in DIRECTIONS.items()
            for part, words in PARTS.items()
            for decoding in DECODINGS
        ),
        *(
            Measured(f"{column}, nodes outside the bounds, {stack}", f"{stack}_violated", signed(), id)
            for column, id in DIRECTIONS.items()
            for stack in STACKS
        ),
    ],
    [
        Row(f"{words} - {ARMS['vanilla']}", arm(None, name) - arm(None, "vanilla"))
        for name, words in OTHERS.items()
    ],
    "Table 2: differences of the same seeds, mean [95 % interval] (seeds)",
    "BLEU in points; nodes as shares. Seeds differ in initial weights and in the order of "
    "batches; training and test sentences are the same.",
)
verdicts = verdict_table(f"{SOURCE}.table2")


def parts_remark(profile: str | None = None) -> str:
    """Of how many differences in BLEU the mean is above 0, by test part; sentences."""
    told = []
    for part in tested(profile):
        means = [
            mean_ci(gained(column, name, f"{part}_{decoding}_bleu", profile)).mean
            for column in DIRECTIONS
            for name in OTHERS
            for decoding in DECODINGS
        ]
        told.append(
            f"On {PARTS[part]} {sum(mean > 0 for mean in means)} of {len(means)} means are above 0, "
            f"from {min(means):+.2f} to {max(means):+.2f}."
        )
    return " ".join(told) + (
        " Arms share the vanilla models of their direction, and greedy and beams share "
        "a model, so these are not as many independent signs."
    )


def bounds_remark(profile: str | None = None) -> str:
    """How many nodes are outside the bounds in vanilla models, by stack and direction; a sentence."""
    told = []
    for stack in STACKS:
        levels = (
            f"{arm(id, 'vanilla').summary(f'{stack}_violated', profile).mean:.2f} ({column})"
            for column, id in DIRECTIONS.items()
        )
        told.append(f"in the {stack} {', '.join(levels)}")
    return f"In vanilla models the share of nodes outside the bounds is {'; '.join(told)}."


def at_share(id: str, name: str, part: float) -> Values:
    """The share of right next tokens on validation pairs, the right ones before them, after a part of it."""

    def make(profile):
        evidence.require(id, profile, [name])
        looks = results.curves(id, profile, [name]).dropna(subset="accuracy")
        return looks.groupby("seed")["accuracy"].apply(lambda found: found.iloc[ceil(part * len(found)) - 1])

    return values(make, id)


LONGER, PARTS_OF_IT = f"{SOURCE}.translation.longer", {"at 2/5": 0.4, "at 4/5": 0.8, "at the end": 1.0}
OURS = {
    "extra": True,
    "printed_as": "ours",
    "kind": "measured",
    "notebook": "12_translation_and_inference",
}


def _longer_rows():
    for name in registry.arms(LONGER):
        cells: dict = {
            "BLEU": arm(DIRECTIONS["EN-DE"], name, FIRST),
            "BLEU, longer": arm(LONGER, name, FIRST),
        }
        cells |= {at: at_share(LONGER, name, part) for at, part in PARTS_OF_IT.items()}
        yield Row((ARMS[name], partial(over_sentences, LONGER, name) if name in OTHERS else ""), cells)


def _longer_notes(profile):
    ids = DIRECTIONS["EN-DE"], LONGER
    once, more = (registry.config(id, "vanilla", profile)["steps"] for id in ids)
    return (
        f"EN-DE; Table 2's models have {once:,} steps, the longer ones {more:,}. BLEU with beams, on test "
        "2016. At about 2/5 of the longer training, and so on: tokens, in %, that are the likeliest after "
        "the right ones before them, on validation pairs. Over sentences: as in Table 2."
    )


longer = Report(
    f"{SOURCE}.table2_longer",
    [
        "arm",
        Measured("BLEU", format=number(2)),
        Measured("BLEU, longer", format=number(2)),
        *map(Measured, PARTS_OF_IT),
        "BLEU, longer, - vanilla's, over sentences",
    ],
    _longer_rows,
    "Table 2's Transformer and causal model in more steps: mean ± half of the 95 % interval (seeds)",
    _longer_notes,
)


@builds(f"{SOURCE}.table2_longer", longer, shows="Table 2 in more steps", **OURS)
def table2_longer(profile):
    """Whether BLEU has flattened, and what the causal model gains then."""


@builds(f"{SOURCE}.table2", bleu, gains, verdicts)
def table2(profile):
    """Table 2, the differences of its arms, and the claims on it."""
