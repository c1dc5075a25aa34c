"""Tables 2 and 3 of the Causal Transformer: translation and inference, the printed numbers beside ours."""

from causalnb.lab import evidence
from causalnb.lab.registry import artefact

SOURCE = "causal_transformer"
NO_DATA = "not attempted: no data"
DIRECTIONS = {"EN-DE": f"{SOURCE}.translation.en_de", "DE-EN": f"{SOURCE}.translation.de_en"}
LANGUAGES = (*DIRECTIONS, "EN-RO", "RO-EN")  # the columns of Table 2
ARMS = {
    "vanilla": "vanilla Transformer",
    "gcn": "GCN value update",
    "loss_encoder": "loss in the encoder",
    "loss_both": "loss in both stacks",
    "both": "GCN and loss in both stacks",
}
DECODINGS = {"greedy": "greedy", "beams": "beams"}
SNLI, READERS = f"{SOURCE}.snli", f"{SOURCE}.readers"
HALVES = {
    "commonest": "the commonest answer",
    "premise": "words of the premise alone",
    "hypothesis": "words of the hypothesis alone",
}  # arms of READERS
ATTENTIONS = {  # row of Table 3 -> arm ("" where not rebuilt), row in the paper ("" where not printed)
    "full attention": ("full", "Transformer"),
    "relative positions": ("relative", "Transformer-RPR"),
    "Transformer-XL": ("", "Transformer-XL"),
    "Adapted Transformer": ("", "Adapted Transformer"),
    "star mask": ("star", "Star-Transformer"),
    "DA-Transformer": ("", "DA-Transformer"),
    "band mask": ("band", ""),
    "dilated mask": ("dilated", ""),
    "block mask": ("block", ""),
    "random mask": ("random", ""),
    "GCN and loss": ("both", "CausalTransformer"),
}
NAMES = {arm: name for name, (arm, _) in ATTENTIONS.items() if arm}  # arm of SNLI -> row of Table 3
HOLD = {"outside the bounds": "test_violated", "neighbours": "test_neighbours"}  # is attention held at all?
PARTS = {"test": "test 2016", "test2017": "test 2017"}  # of Multi30k
SCORES = {"Acc": "test_accuracy", "Macro-F": "test_macro_f"}
BEST = {f"{SOURCE}.claim28": "Acc", f"{SOURCE}.claim29": "Macro-F"}  # claims to be the best attention
ORDERS = 4  # of n-grams in BLEU
DRAWS = 1000  # of the test sentences
TOKENS = 32  # of a pair, somewhat more than SNLI's mean


def printed(id: str) -> dict[tuple[str, str], str]:
    """{(row, column): number as printed} of a table of the paper."""
    from causalnb.lab.tables import paper

    return {(line.row, line.column): line.printed for line in paper(f"{SOURCE}.{id}").itertuples()}


def gain(differences, digits: int = 2) -> str:
    """A mean difference with its sign, 95 % interval and count: "+0.42 [-0.10, +0.94] (3)"."""
    from causalnb.lab.statistics import mean_ci

    found = mean_ci(differences)
    ends = f" [{found.low:+.{digits}f}, {found.high:+.{digits}f}]" if found.half == found.half else ""
    return f"{found.mean:+.{digits}f}{ends} ({found.n})"


def side(differences) -> str:
    """Whether differences are above 0, below it, or not to be told from it, by their 95 % interval."""
    from causalnb.lab.statistics import mean_ci

    found = mean_ci(differences)
    return "above 0" if found.low > 0 else "below 0" if found.high < 0 else "not to be told from 0"


def decided(id: str, profile: str | None = None, beside: dict | None = None) -> list[tuple]:
    """[(claim, contrast in words, Verdict)] of the claims on an artefact.

    beside: {claim: (contrast in words, its differences by seed)} of claims that no stored metric decides.
    """
    from causalnb.lab.verdicts import claims, decide, not_attempted, verdict

    told = []
    for claim in claims(SOURCE).query("artefact == @id").itertuples():
        words, differences = (beside or {}).get(claim.id, ("", None))
        if differences is None:
            found = decide(claim, profile)
        elif len(differences):
            found = verdict(
                [*differences],
                None if claim.size != claim.size else claim.size,
                -1 if claim.direction == "-" else 1,
            )
        else:
            found = not_attempted(f"there is nothing to compare: {words}")
        names = NAMES if claim.experiment == SNLI else ARMS
        arms = [names.get(arm, arm) for arm in (claim.our_treatment, claim.our_baseline)]
        told.append((claim, words or f"{arms[0]} - {arms[1]}, {claim.our_metric}", found))
    return told


def verdict_table(id: str, profile: str | None = None, digits: int = 2, beside: dict | None = None):
    """The claims of `decided`: stated size, contrast of paired seeds and verdict, or why there is none."""
    from causalnb.lab.tables import Table, estimate

    rows = []
    for claim, words, found in decided(id, profile, beside):
        size = f" {claim.size:g} {claim.unit}" if claim.size == claim.size else ""
        contrast, ours = (words, estimate(found.summary, digits)) if found.summary else ("", "")
        rows.append(
            [claim.claim, ("higher" if claim.direction == "+" else "lower") + size, contrast, ours, found]
        )
    return Table(
        f"{id}_verdicts",
        ["the paper's claim", "stated", "contrast here", "ours", "verdict"],
        rows,
        "The paper's claims: difference of paired seeds, mean ± half of the 95 % interval (seeds), "
        "and the verdict by rule",
    )


def excluded_remark(id: str, profile: str | None = None, beside: dict | None = None) -> str:
    """Which stated sizes lie outside the intervals of `decided`, and which could have been missed."""
    told = []
    for claim, words, found in decided(id, profile, beside):
        if found.summary and found.size:
            sign = -1 if claim.direction == "-" else 1
            most = max(sign * found.summary.low, sign * found.summary.high)
            told.append(
                f"{words}: stated {found.size:g} {claim.unit}, the interval ends at {most:+.2f}, so "
                "that size is " + ("outside it." if most < found.size else "inside it.")
            )
    return " ".join(told)


# Table 2


def translated(column: str, profile: str | None = None):
    """DataFrame of a direction's results by (arm, seed); LabError where results are missing."""

    return evidence.require(DIRECTIONS[column], profile).set_index(["arm", "seed"])


def signature(profile: str | None = None) -> str:
    """sacreBLEU's signature of all results of Table 2."""
    from causalnb.lab import results

    found = {one for id in DIRECTIONS.values() for one in results.curves(id, profile)["signature"].dropna()}
    return "; ".join(sorted(found))


def bleu_name(cell: str, decoding: str = "beams") -> str:
    """The metric of a test part."""
    return f"{cell}_{decoding}_bleu"


def tested(profile: str | None = None) -> list[str]:
    """The test parts that a run translates, the one of Table 2 first."""
    from causalnb.lab import registry

    return registry.config(DIRECTIONS["EN-DE"], "vanilla", profile)["cells"]


def longest(profile: str | None = None) -> str:
    """How long our captions may be, and where all of them are, in a sentence; "" where any length may be."""
    from causalnb.lab import registry, results

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

    found = np.array([row.split() for row in counts.split(";")], dtype=float)
    written = (found[:, :1] - np.arange(ORDERS)).clip(min=0)
    return np.concatenate([found, written], 1)


def corpus_bleu(sums):
    """BLEU (...) of summed `unpacked` counts (..., 10), smoothed as sacreBLEU does by default."""
    import numpy as np

    length, wanted, common, written = np.split(np.asarray(sums, float), [1, 2, 2 + ORDERS], -1)
    none = 2.0 ** -(common == 0).cumsum(-1)  # an order without a match counts 1/2, 1/4, ... of one
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(common > 0, common, none) / written
        short = np.minimum(1, np.exp(1 - wanted / length))[..., 0]
        scores = 100 * short * np.exp(np.log(shares).mean(-1))
    return np.where((written > 0).all(-1) & (common > 0).any(-1), scores, 0.0)


def bootstrap(one, other, draws: int = DRAWS, seed: int = 0) -> tuple[float, float, float]:
    """BLEU of one minus other, and its 95 % interval where test sentences are drawn anew, for both the same.

    one and other are counts (seeds, sentences, 10) of the same sentences; seeds are taken together.
    """
    import numpy as np

    pooled = [part.sum(0) for part in (one, other)]
    n = len(pooled[0])
    times = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), draws)  # (draws, sentences)
    whole, drawn = (
        np.subtract(*(corpus_bleu(counts @ part) for part in pooled)) for counts in (np.ones(n), times)
    )
    return float(whole), *map(float, np.quantile(drawn, [0.025, 0.975]))


def over_sentences(column: str, arm: str, profile: str | None = None) -> str:
    """A table cell: an arm minus vanilla with the interval of `bootstrap`, beams on the first test part."""
    import numpy as np

    from causalnb.lab import results

    told = (
        results.curves(DIRECTIONS[column], profile, [arm, "vanilla"])
        .query("decoding == 'beams'")
        .set_index(["part", "arm", "seed"])["sentences"]
        .sort_index()
    )
    counts = [np.stack([*map(unpacked, told[tested(profile)[0], one])]) for one in (arm, "vanilla")]
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*bootstrap(*counts))


def table2(profile: str | None = None):
    """Table 2: the printed BLEU of eleven models on WMT, and of our arms on Multi30k."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    said = printed("table2")
    rows = [
        [f"paper: {row}", *(said[row, column] for column in LANGUAGES), *[""] * len(DIRECTIONS)]
        for row in dict.fromkeys(row for row, _ in said)
    ]
    found = {column: translated(column, profile) for column in DIRECTIONS}
    for arm, name in ARMS.items():
        ours = [
            estimate(mean_ci(found[column].loc[arm][bleu_name(tested(profile)[0])]), 2)
            for column in DIRECTIONS
        ]
        apart = ["" if arm == "vanilla" else over_sentences(column, arm, profile) for column in DIRECTIONS]
        rows.append([f"ours: {name}", *ours, *[NO_DATA] * (len(LANGUAGES) - len(ours)), *apart])
    heads = [f"{column} - vanilla's, over sentences" for column in DIRECTIONS]
    return Table(
        f"{SOURCE}.table2",
        ["", *LANGUAGES, *heads],
        rows,
        "Table 2: BLEU; the paper's on WMT, one number each; ours on captions of Multi30k, mean ± "
        "half of the 95 % interval (seeds)",
        f"{longest(profile)}Ours is sacreBLEU with beams, {signature(profile)}. The paper does not "
        "say how its BLEU was computed, and mixes models that write from left to right with models "
        f"that do not. Its model is our last arm. {sizes_remark(profile)} Captions and news differ "
        "in level; contrasts of arms can be compared. Over sentences: BLEU of all seeds' "
        "translations together, and the 95 % interval where test sentences are drawn anew, "
        f"{DRAWS:,} times, for both arms the same.",
    )


def sizes_remark(profile: str | None = None) -> str:
    """How many pairs are learned from, and how many captions translated; a sentence."""
    one = translated("EN-DE", profile).iloc[0]
    asked = " and ".join(f"{one[f'{cell}_rows']:,.0f} of {PARTS[cell]}" for cell in tested(profile))
    return f"We train on {one['train_rows']:,.0f} pairs and translate {asked}; Table 2 has the first."


def gains(column: str, arm: str, metric: str, profile: str | None = None):
    """Series by seed: an arm minus vanilla."""
    found = translated(column, profile)[metric]
    return (found[arm] - found["vanilla"]).dropna()


def gains_table(profile: str | None = None):
    """Arms minus vanilla by paired seeds: BLEU of every test part, greedy and with beams, and the bounds."""
    from causalnb.lab.tables import Table

    heads = {
        f"{column}, {PARTS[cell]}, {words}": (column, bleu_name(cell, decoding))
        for column in DIRECTIONS
        for cell in tested(profile)
        for decoding, words in DECODINGS.items()
    }
    heads |= {
        f"{column}, nodes outside the bounds, {stack}": (column, f"{stack}_violated")
        for column in DIRECTIONS
        for stack in ("encoder", "decoder")
    }
    rows = [
        [
            f"{name} - {ARMS['vanilla']}",
            *(gain(gains(column, arm, metric, profile)) for column, metric in heads.values()),
        ]
        for arm, name in ARMS.items()
        if arm != "vanilla"
    ]
    return Table(
        f"{SOURCE}.table2_gains",
        ["difference", *heads],
        rows,
        "Table 2: differences of the same seeds, mean [95 % interval] (seeds)",
        "BLEU in points; nodes as shares. Seeds differ in initial weights and in the order of "
        "batches; training and test sentences are the same.",
    )


def table2_remark(profile: str | None = None) -> str:
    """The printed gain of the causal model on EN-DE and ours of each arm, in sentences."""
    said, told = printed("table2"), []
    stated = float(said["Causal Transformer", "EN-DE"]) - float(said["Transformer", "EN-DE"])
    for column in DIRECTIONS:
        parts = []
        for arm, name in ARMS.items():
            if arm != "vanilla":
                found = gains(column, arm, bleu_name(tested(profile)[0]), profile)
                parts.append(f"{name} {gain(found)}, {side(found)}")
        told.append(f"{column}, minus vanilla: {'; '.join(parts)}.")
    return f"The paper's gain on EN-DE is {stated:+.2f} BLEU. " + " ".join(told)


def parts_remark(profile: str | None = None) -> str:
    """Of how many differences in BLEU the mean is above 0, by test part; sentences."""
    told = []
    for cell in tested(profile):
        means = [
            gains(column, arm, bleu_name(cell, decoding), profile).mean()
            for column in DIRECTIONS
            for arm in ARMS
            if arm != "vanilla"
            for decoding in DECODINGS
        ]
        told.append(
            f"On {PARTS[cell]} {sum(mean > 0 for mean in means)} of {len(means)} means are above 0, "
            f"from {min(means):+.2f} to {max(means):+.2f}."
        )
    return " ".join(told) + (
        " Arms share the vanilla models of their direction, and greedy and beams share "
        "a model, so these are not as many independent signs."
    )


def bounds_remark(profile: str | None = None) -> str:
    """How many nodes are outside the bounds in vanilla models, by stack and direction; a sentence."""
    told = []
    for stack in ("encoder", "decoder"):
        levels = {
            column: translated(column, profile)[f"{stack}_violated"]["vanilla"].mean()
            for column in DIRECTIONS
        }
        told.append(
            f"in the {stack} " + ", ".join(f"{level:.2f} ({column})" for column, level in levels.items())
        )
    return f"In vanilla models the share of nodes outside the bounds is {'; '.join(told)}."


@artefact(f"{SOURCE}.table2", needs=tuple(DIRECTIONS.values()))
def build_table2(profile):
    """Table 2, the differences of its arms, and the claims on it."""
    from causalnb.lab.tables import save_table

    for table in (table2(profile), gains_table(profile), verdict_table(f"{SOURCE}.table2", profile)):
        save_table(table)


# Table 3


def inferred(profile: str | None = None):
    """DataFrame of SCORES in per cent by (arm, seed); LabError where results are missing."""

    found = evidence.require(SNLI, profile).set_index(["arm", "seed"])
    return 100 * found[[*SCORES.values()]].rename(columns={metric: name for name, metric in SCORES.items()})


def holding(profile: str | None = None):
    """DataFrame of HOLD's metrics, means over seeds, by arm."""

    return evidence.require(SNLI, profile).groupby("arm")[[*HOLD.values()]].mean()


def hold_remark(profile: str | None = None) -> str:
    """Whether the causal attention was held to its bounds, beside full attention; a sentence."""
    found = holding(profile)
    both, full = (found.loc[arm, [*HOLD.values()]] for arm in ("both", "full"))
    return (
        f"With GCN and loss {both.iloc[0]:.0%} of the tokens are outside the bounds, with full attention "
        f"{full.iloc[0]:.0%}; a row attends to {both.iloc[1]:.1f} tokens, with full attention to "
        f"{full.iloc[1]:.1f}."
    )


def held_out(profile: str | None = None) -> str:
    """How many of SNLI's validation pairs are not trained on, in words; "" where the pairs are others."""
    from causalnb.lab import registry

    data = registry.config(SNLI, "full", profile)["data"]
    return f" ({data['n_validation']} of them held out)" if data["source"] == "snli" else ""


def read_by_half(profile: str | None = None):
    """DataFrame of SCORES in per cent of who reads half of a pair, by arm of READERS."""

    found = evidence.require(READERS, profile).set_index("arm")
    return 100 * found[[*SCORES.values()]].rename(columns={metric: name for name, metric in SCORES.items()})


def tokens_seen(arm: str, profile: str | None = None) -> int:
    """On how many of the first TOKENS tokens of a pair the label depends, through masks and all layers.

    By differentiation of an untrained model. What lies outside can teach it nothing.
    """
    import torch

    from causalnb.experiments.causal_transformer.models import build_classifier
    from causalnb.lab import registry

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_classifier(registry.config(SNLI, arm, profile), TOKENS + 1, 3, 1).eval()
    kept = []
    model.encoder.embed_tokens.register_forward_hook(lambda _, given, states: kept.append(states))
    logits = model(torch.arange(1, TOKENS + 1)[None]).logits
    (slope,) = torch.autograd.grad(logits.square().sum(), kept)
    return int((slope.abs().amax(-1) > 0).sum())


def table3(profile: str | None = None):
    """Table 3: each attention as printed and as measured, and its difference to full attention."""
    from causalnb.lab.statistics import mean_ci
    from causalnb.lab.tables import Table, estimate

    said, found, held, rows = printed("table3"), inferred(profile), holding(profile), []
    for name, (arm, row) in ATTENTIONS.items():
        cells = [said[row, score] if row else "" for score in SCORES]
        if arm:
            one = found.loc[arm]
            cells += [estimate(mean_ci(one[score]), 2) for score in SCORES]
            cells.append("" if arm == "full" else gain((one["Acc"] - found.loc["full"]["Acc"]).dropna()))
            cells.append(str(tokens_seen(arm, profile)))
            cells += [f"{held.loc[arm, metric]:.2f}" for metric in HOLD.values()]
        else:
            cells += ["not rebuilt", "not rebuilt", "", "", *[""] * len(HOLD)]
        rows.append([name, *cells])
    for arm, line in read_by_half(profile).iterrows():
        rows.append(
            [
                HALVES[arm],
                *[""] * len(SCORES),
                *(f"{line[score]:.2f}" for score in SCORES),
                "",
                "",
                *[""] * len(HOLD),
            ]
        )
    return Table(
        f"{SOURCE}.table3",
        [
            "attention",
            *(f"{who}: {score}" for who in ("paper", "ours") for score in SCORES),
            "ours: Acc - full",
            f"tokens seen, of {TOKENS}",
            *HOLD,
        ],
        rows,
        "Table 3: per cent; the paper's on SNLI, one number each; ours on SNLI-10k, mean ± half of "
        "the 95 % interval (seeds)",
        f"SNLI-10k: the published validation pairs as training set{held_out(profile)}, the "
        "published test set. The star mask has Star-Transformer's connections and not its layers; "
        "the random mask is one draw, for all seeds. The label is read from the first token; what "
        "it does not depend on, through all layers, is not seen. Outside the bounds: the share of "
        "tokens; neighbours: tokens that a row attends to (e to the power of its entropy); means "
        "over layers, heads and seeds. For the causal model the paper's text prints "
        f"{text_scores()}. {line_remark(profile)}",
    )


def line_remark(profile: str | None = None) -> str:
    """How many attentions score more than the words of the hypothesis alone, and what that means."""
    line = read_by_half(profile).loc["hypothesis", "Acc"]
    means = inferred(profile)["Acc"].groupby("arm").mean()
    return (
        f"{(means > line).sum()} of {len(means)} attentions are above the words of the hypothesis alone "
        f"({line:.2f} %). One that is not has not been shown to compare two sentences, and differences "
        "among such say how well they read half of a pair."
    )


def text_scores() -> str:
    """What section 4.3 prints where Table 3 prints other digits."""
    from causalnb.lab.tables import paper

    found = paper(f"{SOURCE}.text").set_index(["row", "column"])["printed"]
    return " and ".join(found["Section 4.3", f"SNLI {name}"] for name in ("accuracy", "Macro-F"))


def best_contrast(profile: str | None = None, score: str = "Acc") -> tuple:
    """(words, Series by seed in points): the causal attention minus the best of the others, by means."""
    found = inferred(profile)[score]
    others = [arm for arm, _ in ATTENTIONS.values() if arm not in ("", "both")]
    best = max(others, key=lambda arm: found[arm].mean())
    words = f"{NAMES['both']} - {NAMES[best]}, the best of the others, {SCORES[score]}"
    return words, (found["both"] - found[best]).dropna()


def table3_remark(profile: str | None = None) -> str:
    """The causal attention against each of the others, by paired seeds, in sentences."""
    found = inferred(profile)["Acc"]
    parts = []
    for name, (arm, _) in ATTENTIONS.items():
        if arm not in ("", "both"):
            gap = (found["both"] - found[arm]).dropna()
            parts.append(f"{name} {gain(gap)}, {side(gap)}")
    return f"Accuracy of GCN and loss in points, minus {'; '.join(parts)}."


def best_contrasts(profile: str | None = None) -> dict[str, tuple]:
    """{claim: its contrast} of the claims to be the best: against the best of the other attentions."""
    return {claim: best_contrast(profile, score) for claim, score in BEST.items()}


def table3_verdicts(profile: str | None = None):
    """The claims on Table 3."""
    return verdict_table(f"{SOURCE}.table3", profile, beside=best_contrasts(profile))


def table3_excluded(profile: str | None = None) -> str:
    """`excluded_remark` of the claims on Table 3."""
    return excluded_remark(f"{SOURCE}.table3", profile, best_contrasts(profile))


@artefact(
    f"{SOURCE}.table3",
    needs=(SNLI, READERS),
)
def build_table3(profile):
    """Table 3 and the claims on it."""
    from causalnb.lab.tables import save_table

    for table in (table3(profile), table3_verdicts(profile)):
        save_table(table)
