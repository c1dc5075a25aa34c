"""Appendix D of C2DLM: the cost of annotation recomputed, and what it depends on."""

from causalnb.lab.report import builds, draw, save
from causalnb.lab.tables import Table, printed


def printed_cost() -> dict[str, float]:
    """The numbers of Appendix D by name."""
    return printed("c2dlm_cost").set_index("column")["value"].to_dict()


def cost(hidden: float = 0.0, failed: float = 0.0, **changes) -> dict[str, float]:
    """annotation_cost with the numbers of Appendix D; hidden output tokens a call, share of failed calls."""
    from causalnb.c2dlm import annotation_cost

    p = printed_cost()
    given = {
        "text_tokens": p["input tokens, average"],
        "prompt_tokens": p["prompt overhead"],
        "output_tokens": p["T_out"],
        "price_in": p["P_in"],
        "price_out": p["P_out"],
        "usd_per_cny": p["USD per RMB"],
    } | changes
    given["output_tokens"] += hidden
    return {unit: value / (1 - failed) for unit, value in annotation_cost(**given).items()}


def cost_variants() -> dict[str, dict[str, float]]:
    """What is changed -> cost per million tokens of text, in CNY and USD."""
    text = printed("c2dlm_text").set_index("column")["value"]
    p, lost = printed_cost(), float(text["decoding error rate"]) / 100
    twice = {"price_in": 2 * p["P_in"], "price_out": 2 * p["P_out"]}
    return {
        "as printed": cost(),
        "the instructions cost nothing (cached)": cost(prompt_tokens=0),
        "both prices doubled": cost(**twice),
        f"{lost:.0%} of the calls fail and are repeated": cost(failed=lost),
        "1,000 hidden reasoning tokens a call": cost(hidden=1000),
        "5,000 hidden reasoning tokens a call": cost(hidden=5000),
        "5,000 hidden tokens, failures repeated, prices doubled": cost(hidden=5000, failed=lost, **twice),
    }


def cost_table(profile: str | None = None) -> Table:
    """Appendix D recomputed, and what its result depends on."""
    p, base = printed_cost(), cost()["usd"]
    return Table(
        "c2dlm.cost",
        ["annotation", "RMB", "USD", "times the first row"],
        [
            [what, f"{one['cny']:.4f}", f"{one['usd']:.4f}", f"{one['usd'] / base:.2f}"]
            for what, one in cost_variants().items()
        ],
        "Appendix D: cost per million tokens of annotated text, recomputed and varied",
        f"Printed: {p['cost']:.2f} RMB and ${p['cost in USD']:.2f}. Prices are the paper's, its exchange "
        "rate of October 2025. "
        "A failed call is repeated until it succeeds, and costs as much as one that succeeds.",
    )


def cost_figure():
    """(figure, alt): cost against hidden reasoning tokens, output at the printed price and at twice that."""
    import matplotlib.pyplot as plt

    from causalnb.lab.figures import COLOURS, text_size

    p, hidden = printed_cost(), range(0, 6001, 500)
    fig, ax = plt.subplots(figsize=(5.6, 3.0))
    told, looks = [], {"printed prices": (1, "blue", "-", "o")}
    looks["output at twice the price"] = (2, "vermillion", "--", "s")
    for label, (factor, colour, line, marker) in looks.items():
        values = [cost(hidden=tokens, price_out=factor * p["P_out"])["usd"] for tokens in hidden]
        ax.plot(hidden, values, color=COLOURS[colour], linestyle=line, marker=marker, label=label)
        told.append(f"{label}: {values[0]:.2f} to {values[-1]:.2f} dollars")
    stated = p["cost in USD"]
    ax.axhline(stated, color="black", linewidth=1, linestyle=":", marker="")
    ax.text(hidden[-1], stated, f"printed: ${stated:.2f}", ha="right", va="bottom", fontsize=text_size(8))
    ax.set(xlabel="hidden reasoning tokens a call", ylim=(0, None))
    ax.set_ylabel("dollars per million\ntokens of text")
    ax.legend(fontsize=text_size(8))
    return fig, (
        f"Cost against 0 to {hidden[-1]:,} hidden tokens a call. {'; '.join(told)}; "
        "a line at the printed cost."
    )


@builds("c2dlm.cost")
def annotation(profile):
    """Appendix D: the cost recomputed, and its sensitivity."""
    save(profile, cost_table)
    draw(profile, "c2dlm.cost", cost_figure(), "What a teacher thinks and does not show is billed too.")
