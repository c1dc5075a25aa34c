"""Table 3 of the Causal Transformer: attentions on SNLI, as printed and as measured."""

from causalnb.experiments.causal_transformer.artefacts.translation import (
    ATTENTIONS,
    NAMES,
    SNLI,
    SOURCE,
    excluded_remark,
    printed,
    side,
    signed,
    verdict_table,
)
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, arm, builds, number, values

READERS = f"{SOURCE}.readers"
HALVES = {
    "commonest": "the commonest answer",
    "premise": "words of the premise alone",
    "hypothesis": "words of the hypothesis alone",
}  # arms of READERS
HOLD = {"outside the bounds": "test_violated", "neighbours": "test_neighbours"}  # is attention held at all?
SCORES = {"Acc": "test_accuracy", "Macro-F": "test_macro_f"}
BEST = {f"{SOURCE}.claim28": "Acc", f"{SOURCE}.claim29": "Macro-F"}  # claims to be the best attention
TOKENS = 32  # of a pair, somewhat more than SNLI's mean
MODELS = {name: arm(SNLI, name) for name in NAMES}
OTHERS = [name for name in NAMES if name != "both"]


def hold_remark(profile: str | None = None) -> str:
    """Whether the causal attention was held to its bounds, beside full attention; a sentence."""
    (out, wide), (full_out, full_wide) = (
        [MODELS[name].summary(metric, profile).mean for metric in HOLD.values()] for name in ("both", "full")
    )
    return (
        f"With GCN and loss {out:.0%} of the tokens are outside the bounds, with full attention "
        f"{full_out:.0%}; a row attends to {wide:.1f} tokens, with full attention to {full_wide:.1f}."
    )


def held_out(profile: str | None = None) -> str:
    """How many of SNLI's validation pairs are not trained on, in words; "" where the pairs are others."""
    data = registry.config(SNLI, "full", profile)["data"]
    return f" ({data['n_validation']} of them held out)" if data["source"] == "snli" else ""


def tokens_seen(name: str, profile: str | None = None) -> int:
    """On how many of the first TOKENS tokens of a pair the label depends, through masks and all layers.

    By differentiation of an untrained model. What lies outside can teach it nothing.
    """
    import torch

    from causalnb.experiments.causal_transformer.models import build_classifier

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_classifier(registry.config(SNLI, name, profile), TOKENS + 1, 3, 1).eval()
    kept = []
    model.encoder.embed_tokens.register_forward_hook(lambda _, given, states: kept.append(states))
    logits = model(torch.arange(1, TOKENS + 1)[None]).logits
    (slope,) = torch.autograd.grad(logits.square().sum(), kept)
    return int((slope.abs().amax(-1) > 0).sum())


def _attention(words: str) -> Row:
    name, row = ATTENTIONS[words]
    said = [(lambda profile, score=score: printed("table3")[row, score]) if row else "" for score in SCORES]
    if not name:
        return Row((words, *said), cells={f"ours: {score}": "not rebuilt" for score in SCORES})
    return Row((words, *said, lambda profile: tokens_seen(name, profile)), MODELS[name])


def _halves(profile):
    for name, words in HALVES.items():
        scores = (100 * arm(READERS, name).of(metric, profile)[0] for metric in SCORES.values())
        yield [words, *[""] * len(SCORES), *(f"{score:.2f}" for score in scores), *[""] * (2 + len(HOLD))]


def _notes(profile):
    from causalnb.lab.tables import paper

    text = paper(f"{SOURCE}.text").set_index(["row", "column"])["printed"]
    accuracy, macro = (text["Section 4.3", f"SNLI {name}"] for name in ("accuracy", "Macro-F"))
    return (
        f"SNLI-10k: the published validation pairs as training set{held_out(profile)}, the published test "
        "set. The star mask has Star-Transformer's connections and not its layers; the random mask is one "
        "draw, for all seeds. The label is read from the first token; what it does not depend on, through "
        "all layers, is not seen. Outside the bounds: the share of tokens; neighbours: tokens that a row "
        "attends to (e to the power of its entropy); means over layers, heads and seeds. For the causal "
        f"model the paper's text prints {accuracy} and {macro}. {line_remark(profile)}"
    )


attentions = Report(
    f"{SOURCE}.table3",
    [
        "attention",
        *(f"paper: {score}" for score in SCORES),
        *(Measured(f"ours: {score}", metric, number(2, 100)) for score, metric in SCORES.items()),
        Measured("ours: Acc - full", SCORES["Acc"], signed(2, 100), minus=MODELS["full"]),
        f"tokens seen, of {TOKENS}",
        *(
            Measured(heading, metric, lambda held: f"{sum(held) / len(held):.2f}")
            for heading, metric in HOLD.items()
        ),
    ],
    [*map(_attention, ATTENTIONS), _halves],
    "Table 3: per cent; the paper's on SNLI, one number each; ours on SNLI-10k, mean ± half of "
    "the 95 % interval (seeds)",
    _notes,
    needs=(READERS,),
)


def line_remark(profile: str | None = None) -> str:
    """How many attentions score more than the words of the hypothesis alone, and what that means."""
    line, *means = (
        model.summary("test_accuracy", profile).mean
        for model in (arm(READERS, "hypothesis"), *MODELS.values())
    )
    return (
        f"{sum(mean > line for mean in means)} of {len(means)} attentions are above the words of the "
        f"hypothesis alone ({100 * line:.2f} %). One that is not has not been shown to compare two "
        "sentences, and differences among such say how well they read half of a pair."
    )


def _against_best(claim: str, metric: str) -> Row:
    """The causal attention minus the best of the others, by means."""

    def best(profile) -> str:
        return max(OTHERS, key=lambda name: MODELS[name].summary(metric, profile).mean)

    return Row(
        lambda profile: f"{NAMES['both']} - {NAMES[best(profile)]}, the best of the others, {metric}",
        values(lambda profile: (MODELS["both"] - MODELS[best(profile)]).of(metric, profile), SNLI),
        claim=claim,
    )


verdicts = verdict_table(
    f"{SOURCE}.table3", beside={claim: _against_best(claim, SCORES[score]) for claim, score in BEST.items()}
)


def table3_remark(profile: str | None = None) -> str:
    """The causal attention against each of the others, by paired seeds, in sentences."""
    gaps = {name: (MODELS["both"] - MODELS[name]).of("test_accuracy", profile) for name in OTHERS}
    parts = (f"{NAMES[name]} {signed(2, 100)(gap)}, {side(gap)}" for name, gap in gaps.items())
    return f"Accuracy of GCN and loss in points, minus {'; '.join(parts)}."


def table3_excluded(profile: str | None = None) -> str:
    """`excluded_remark` of the claims on Table 3."""
    return excluded_remark(verdicts, profile)


@builds(f"{SOURCE}.table3", attentions, verdicts)
def table3(profile):
    """Table 3 and the claims on it."""
