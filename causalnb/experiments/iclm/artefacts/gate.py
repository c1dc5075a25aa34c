"""What one module learns of both families i.i.d., by what is trained and for how long."""

from causalnb.experiments.iclm.artefacts.scores import CHOSEN, FAMILIES, FORMATS, SETS, scored
from causalnb.lab import registry
from causalnb.lab.report import Measured, Report, Row, arm, builds

GATE = {
    "the paper's adapters: rank 8, attention alone": ("iclm.gate", "paper_lora"),
    "Table 1's adapters: rank 16, all linear maps": ("iclm", "finetuned"),
    "the same, in more steps": ("iclm.gate", "longer"),
    "adapters and all weights": ("iclm.gate", "all_weights"),
}


def gate_table(families=FAMILIES) -> Report:
    """What one module learns i.i.d.; the row of Table 1 among them."""
    heads = {
        f"{SETS[family][cell]} {column}{', of eight' * (score == 'choice')}": (family, score, cell, format)
        for family in families
        for score in dict.fromkeys(("exact", CHOSEN[family]))
        for cell in [*SETS[family]][:1]
        for format, column in FORMATS.items()
    }

    def row(label, home, name):
        def steps(profile):
            configs = [registry.config(f"{home}.{family}", name, profile) for family in families]
            return ", ".join(dict.fromkeys(f"{one['steps'] * one['length']:,}" for one in configs))

        def parameters(profile):
            trained = [
                arm(f"{home}.{family}", name, "trainable_parameters").of(profile=profile)[0]
                for family in families
            ]
            return ", ".join(dict.fromkeys(f"{one:,.0f}" for one in trained))

        scores = {
            head: arm(f"{home}.{family}", name, scored(*place)) for head, (family, *place) in heads.items()
        }
        return Row((label, steps, parameters), scores)

    return Report(
        "iclm.gate",
        ["what is tuned", "steps", "trained parameters", *map(Measured, heads)],
        [row(label, *place) for label, place in GATE.items()],
        "One module, i.i.d.: percent of exact answers, and of right panels of eight, mean ± half of the 95 % "
        "interval (seeds)",
        "Our gate is 90 % of what decides the claims: exact answers for ACRE, panels of eight for RAVEN. "
        "Below it, arms also differ in how much of the task they have learned.",
    )


@builds(
    "iclm.gate",
    gate_table(),
    extra=True,
    printed_as="ours",
    kind="measured",
    notebook="32_reasoning",
    shows="what one module learns of both families, with the paper's adapters and with more",
)
def gate(profile):
    """The gate."""
