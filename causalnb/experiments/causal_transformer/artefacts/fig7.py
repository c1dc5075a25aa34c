"""Figure 7 of the Causal Transformer: how far word overlap tells the label, in published sets and in ours."""

from causalnb.experiments.causal_transformer.artefacts.overlap import PUBLISHED, published
from causalnb.experiments.causal_transformer.published import GROUPS, PAIRS
from causalnb.lab import evidence
from causalnb.lab.report import Claim, Contrast, Decided, Ours, Report, Row, builds, draw, higher
from causalnb.lab.statistics import Summary, wilson
from causalnb.lab.tables import estimate

SETS = {  # arm of PUBLISHED -> name, label that overlap should tell
    "snli_train": ("SNLI, validation set", "entailment"),
    "snli_test": ("SNLI, test set", "entailment"),
    "mnli": ("MNLI, development set", "entailment"),
    "mnli_contradicting": ("MNLI, contradicting pairs", "entailment"),
    "paws_qqp": ("PAWS-QQP", "paraphrase"),
    "our_nli": ("ours, entailment", "entailment"),
    "our_challenge": ("ours, challenge", "entailment"),
    "our_questions": ("ours, questions", "paraphrase"),
    "our_swapped": ("ours, swapped questions", "paraphrase"),
}
CURVES = {
    "snli_train": ("blue", "-", "o"),
    "mnli": ("green", "--", "s"),
    "our_nli": ("purple", "-.", "^"),
    "paws_qqp": ("vermillion", ":", "D"),
}
SHOWN = (  # arm of PUBLISHED, whether the pair has the label that overlap should tell
    ("snli_train", True),
    ("mnli", True),
    ("our_challenge", False),
    ("mnli_contradicting", False),
    ("paws_qqp", True),
    ("paws_qqp", False),
)
CLAIMS = {  # claim -> arm of PUBLISHED, its name, direction
    "causal_transformer.claim15": ("mnli", "MNLI", 1),
    "causal_transformer.claim16": ("paws_qqp", "PAWS-QQP", -1),
}
LEAST = 20  # pairs of a group of which the figure shows a share
FULL = len(GROUPS) - 1


def counted(profile: str | None = None) -> dict[str, list[tuple[int, int]]]:
    """{arm of PUBLISHED: (pairs, those with the label that overlap should tell) of each of GROUPS}."""
    counts = {name: published(name, profile) for name in PAIRS}
    return {
        name: [(int(its["pairs"][str(k)]), int(its["label"][str(k)])) for k in range(len(GROUPS))]
        for name, its in counts.items()
    }


def total(groups) -> tuple[int, int]:
    """(pairs, those with the label) of several groups."""
    return tuple(map(sum, zip(*groups, strict=True)))


def shown_pairs(profile: str | None = None) -> list[tuple[str, str, str, str]]:
    """(set, label, first sentence, second) of the examples SHOWN."""
    from causalnb.lab import results

    evidence.require(PUBLISHED, profile, PAIRS)
    lines = results.curves(PUBLISHED, profile, PAIRS).set_index(["arm", "has_label"])
    told = []
    for name, has in SHOWN:
        line, (title, label) = lines.loc[(name, has)], SETS[name]
        told.append((title, label if has else f"not {label}", line.sentence1, line.sentence2))
    return told


def overlap_figure(profile: str | None = None):
    """(figure, alt): pairs with their common words in blue and bold; the share of a label by overlap."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, headline, text_size

    fig, (texts, ax) = plt.subplots(1, 2, figsize=(8.6, 3.7), width_ratios=[1.05, 1])
    pairs, found, told, shared = shown_pairs(profile), counted(profile), [], []
    for place, (name, label, *sentences) in enumerate(pairs):
        _pair(texts, 1 - place / len(pairs), f"{name}: {label}", sentences)
        told.append(f"{name}, {label}: {' / '.join(sentences)}")
    texts.set_axis_off()
    for name, (colour, line, marker) in CURVES.items():
        there = {k: wilson(labelled, n) for k, (n, labelled) in enumerate(found[name]) if n >= LEAST}
        low, mean, high = (
            [100 * getattr(share, part) for share in there.values()] for part in ("low", "mean", "high")
        )
        ends = [[b - a for a, b in zip(*pair, strict=True)] for pair in ((low, mean), (mean, high))]
        look = {"color": COLOURS[colour], "linestyle": line, "marker": marker, "capsize": 2}
        ax.errorbar([*there], mean, yerr=ends, label=SETS[name][0], **look)
        shares = (f"{GROUPS[k]} {share:.0f} %" for k, share in zip(there, mean, strict=True))
        told.append(f"{SETS[name][0]}: {', '.join(shares)}")
        shared.append(f"{SETS[name][0]} {mean[-1]:.0f} %")
    ax.set_xticks(range(len(GROUPS)), [name.replace(" to ", "\nto ") for name in GROUPS])
    headline(fig, f"Where all words are shared the label that overlap tells is right: {', '.join(shared)}")
    words = "words of the second sentence that the first has"
    ax.set(xlabel=words, ylim=(-3, 103), ylabel="entailment or paraphrase, %")
    ax.legend(fontsize=text_size(7))
    return fig, (
        "Left, pairs of sentences, words that both have in blue and bold. Right, a line for each "
        f"set: the share of pairs with the label that overlap should tell. {'; '.join(told)}."
    )


def _pair(ax, top: float, title: str, sentences: list[str]) -> None:
    """A title and two sentences below each other, common words in blue and bold."""
    from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea, VPacker

    from causalnb.lab.figures import COLOURS
    from causalnb.tasks.sentence_pairs import words

    common = {*words(sentences[0])} & {*words(sentences[1])}
    blue = {"color": COLOURS["blue"], "weight": "bold", "size": 8}
    lines = [TextArea(title, textprops={"style": "italic", "size": 7.5})]
    for sentence in sentences:
        looks = ((word, blue if common & {*words(word)} else {"size": 8}) for word in sentence.split())
        said = [TextArea(word, textprops=look) for word, look in looks]
        lines.append(HPacker(children=said, pad=0, sep=2.5))
    look = {"frameon": False, "pad": 0, "xycoords": "axes fraction", "box_alignment": (0, 1)}
    ax.add_artist(AnnotationBbox(VPacker(children=lines, pad=0, sep=1.5), (0, top), **look))


def _overlap_rows(profile):
    for name, groups in counted(profile).items():
        parts = [total(part) for part in (groups, groups[FULL:], groups[:2])]
        yield [*SETS[name], *(_share(*part) if part[0] else "" for part in parts)]


def _share(n: int, labelled: int) -> str:
    share = wilson(labelled, n)
    return f"{100 * share.mean:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}] ({n:,})"


shares = Report(
    "causal_transformer.fig7_overlap",
    ["pairs", "label", "all", "every word in common", "less than half in common"],
    [_overlap_rows],
    "How often a pair has the label: %, Wilson's 95 % interval (pairs)",
    "In common: words of the second sentence that stand in the first. Of MNLI, the development "
    "set without its numerals. HANS itself has 50.0 by design, and every word in common.",
    needs=(PUBLISHED,),
)


def between(one: tuple[int, int], two: tuple[int, int], direction: int):
    """Verdict on the share of one group's (pairs, labelled) less another's; Newcombe's 95 % interval."""
    from causalnb.lab.verdicts import judged

    first, second = (wilson(labelled, n) for n, labelled in (one, two))
    mean = first.mean - second.mean
    low = ((first.mean - first.low) ** 2 + (second.high - second.mean) ** 2) ** 0.5
    high = ((first.high - first.mean) ** 2 + (second.mean - second.low) ** 2) ** 0.5
    return judged(Summary(mean, mean - low, mean + high, one[0]), direction=direction)


def overlap_verdicts(profile: str | None = None) -> dict:
    """{claim: Verdict} of the two claims on overlap; the unit is a pair, not a seed.

    The second claim is decided as its words have it, within a challenge set. HANS is none that could decide:
    its pairs all have full overlap and half of them are entailed, by design.
    """
    found = counted(profile)
    return {
        claim: between(found[name][FULL], total(found[name][:FULL]), direction)
        for claim, (name, _, direction) in CLAIMS.items()
    }


def _row(id: str) -> Row:
    label = f"{CLAIMS[id][1]}: full overlap - the rest"
    return Row(label, claim=id, decided=lambda profile: overlap_verdicts(profile)[id])


verdicts = Report(
    "causal_transformer.fig7_verdicts",
    [
        Claim("the paper's claim"),
        Contrast("contrast"),
        Claim("stated", higher),
        Ours("ours", estimate),
        Decided("verdict"),
    ],
    [*map(_row, CLAIMS)],
    "The paper's claims on overlap: difference of shares, mean ± half of the 95 % interval (pairs)",
    "In HANS all pairs have full overlap and half are entailed, by design: overlap says nothing "
    "there, and nothing is to be estimated. In PAWS-QQP nearly all have it. A link weaker than "
    "in training is not a reversed one.",
    needs=(PUBLISHED,),
)


@builds("causal_transformer.fig7", shares, verdicts)
def fig7(profile):
    """Figure 7: example pairs and how far overlap tells the label in published sets and in ours."""
    caption = "Example pairs, and the share of entailment or paraphrase by word overlap."
    draw(profile, "causal_transformer.fig7", overlap_figure(profile), caption)
