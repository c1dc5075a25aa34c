"""How C2DLM's six tasks are set up here: masks, settings beside the paper's, and its costs."""

from causalnb.lab import registry
from causalnb.lab.tables import Table, printed
from causalnb.tasks.reasoning import SYNTHETIC, generate

SIGNS = {1: ("blue", "s", "+1: cause"), -1: ("vermillion", "x", "−1: effect")}


def masks_figure(seed: int = 0):
    """(figure, alt): one row of each synthetic task as the mask that its rule teacher's graph becomes."""
    import matplotlib.pyplot as plt

    from causalnb.experiments.c2dlm.data import reasoning_rows
    from causalnb.lab.figures import COLOURS, text_size

    fig, axes = plt.subplots(2, 3, figsize=(7.4, 5.0))
    told = []
    for ax, task in zip(axes.flat, SYNTHETIC, strict=True):
        (row,) = reasoning_rows(task, generate(task, 1, seed), {"graph": "causal"}, 0)
        mask, prompt = row["supervision"].dense().numpy(), sum(row["prompt_mask"])
        for value, (colour, marker, label) in SIGNS.items():
            rows, columns = (mask == value).nonzero()
            look = {"color": COLOURS[colour], "marker": marker, "label": label}
            ax.scatter(columns, rows, s=7, linewidths=0.7, **look)
        ax.axvspan(-0.5, prompt - 0.5, color="0.9", zorder=0)
        ax.set(xlim=(-0.5, len(mask) - 0.5), ylim=(len(mask) - 0.5, prompt - 0.5), title=task)
        ax.grid(False)
        ax.yaxis.get_major_locator().set_params(integer=True)
        told.append(
            f"{task}: {len(mask)} tokens, {prompt} of them prompt, {(mask == 1).sum()} entries +1 "
            f"and {(mask == -1).sum()} entries −1"
        )
    for ax in axes[:, 0]:
        ax.set_ylabel("query: token of the response")
    for ax in axes[1]:
        ax.set_xlabel("key: token of the text")
    axes[0, 0].legend(fontsize=text_size(7), loc="lower left", markerscale=1.5)
    return fig, (
        "Six masks, one a task; rows are the tokens of the response, columns those of the whole "
        f"text, the prompt shaded. {'; '.join(told)}."
    )


def kept_table(drawn: int = 100, seed: int = 0) -> Table:
    """What the mask of a rule teacher's graph holds of the six tasks, means over `drawn` rows."""
    import numpy as np

    from causalnb.experiments.c2dlm.data import reasoning_rows

    def held(row):
        supervised, prompt = row["supervision"], sum(row["prompt_mask"])
        mask = supervised.dense().numpy()[prompt:]
        valid, report = mask[(mask != 0).any(1)], supervised.report
        owned = float((supervised.concept >= 0).float().mean())
        shares = owned, report.kept / report.edges, len(valid) / len(mask)
        signs = [(valid == sign).sum(1).mean() for sign in (1, -1)]
        return [len(supervised.concept), len(mask), *shares, *signs]

    lines, formats = [], ("{:.0f}", "{:.0f}", "{:.0%}", "{:.0%}", "{:.0%}", "{:.1f}", "{:.1f}")
    for task, real in SYNTHETIC.items():
        rows = reasoning_rows(task, generate(task, drawn, seed), {"graph": "causal"}, 0)
        means = np.mean([held(row) for row in rows], 0)
        cells = (text.format(mean) for text, mean in zip(formats, means, strict=True))
        lines.append([f"{task} (for {real})", *cells])
    return Table(
        "c2dlm.table5_masks",
        ["task", "tokens", "in the response", "of all tokens in concepts", "edges kept"]
        + ["rows supervised", "+1 a row", "−1 a row"],
        lines,
        f"What a rule teacher's graph becomes, means of {drawn} rows a task",
        "A row is supervised if it has any entry other than 0; the last two columns are over such rows.",
    )


def settings_table() -> Table:
    """Section 4.1 and Appendix B beside our settings for the six tasks; gaps of the paper are marked."""
    text = {line.column: line.printed for line in printed("c2dlm_text").itertuples()}
    ours = registry.config("c2dlm.downstream", "c2dlm", "laptop")
    theirs = registry.config("c2dlm.downstream", "autoregressive", "laptop")
    lengths = [text[f"generation length, {tasks}"] for tasks in ("GSM8K, MATH500 and SAT", "choice tasks")]
    none, epochs = "— not given", ours["steps"] * ours["batch"] / ours["train_rows"]
    rows = [
        ["training rows", text["annotated instances"], ours["train_rows"]],
        ["training context (tokens)", text["training context, six tasks"], "the longest of a batch"],
        ["epochs, six tasks", none, f"{epochs:.1f}"],
        ["batch size", none, ours["batch"]],
        ["learning rate, diffusion", text["learning rate"], f"{ours['learning_rate']:g}"],
        ["learning rate, autoregressive", text["AR LoRA learning rate"], f"{theirs['learning_rate']:g}"],
        ["epochs, autoregressive", text["AR epochs, other tasks"], f"{epochs:.1f}"],
        ["LoRA rank", text["LoRA rank"], ours["lora_rank"]],
        ["LoRA scale, targets, dropout", none, f"{2 * ours['lora_rank']}, all linear maps, 0"],
        ["α, other tasks", text["α, other tasks"], f"{ours['alpha']:g}"],
        ["λ, other tasks", text["λ, other tasks"], f"{ours['lam']:g}"],
        ["γ_min and γ_max", none, f"0 and {ours['gamma']:g}"],
        ["T1 / T2", text["T1 over T2"], "0.1"],
        ["layers whose attention is guided", none, "all, mean map"],
        ["generation length", f"{lengths[0]}; {lengths[1]} for choices", ours["gen_length"]],
        ["block length", text["block length, default"], ours["block_length"]],
        ["decoding steps, temperature", none, f"{ours['decode_steps']}, 0"],
        ["seeds", f"1 (it is {text['seed']})", len(registry.seeds("c2dlm.downstream", "laptop"))],
        ["data for choosing settings", "— none named", "another draw of Sudoku, for the rate"],
    ]
    missing = sum(str(row[1]).startswith("—") for row in rows)
    return Table(
        "c2dlm.table5_settings",
        ["setting", "paper", "ours, small scale"],
        rows,
        "Settings of the six tasks, Section 4.1 and Appendix B",
        f"{missing} of {len(rows)} lines are not given in the paper.",
    )


def map_bytes(tokens: int, layers: int = 32, heads: int = 32, size: int = 2) -> int:
    """Bytes of the attention maps of one text in all layers and heads, `size` bytes a number."""
    return layers * heads * tokens**2 * size


def paper_costs() -> dict[str, dict[str, float]]:
    """{task: steps, gib, hours of training and of decoding} of one run in the paper profile, by estimate."""
    from causalnb.experiments.c2dlm.grid import PAPERS, TESTED
    from causalnb.experiments.c2dlm.text import memory_gib, seconds

    found = {}
    for task in PAPERS:
        config = registry.config(f"c2dlm.text.{task}", "c2dlm", "paper")
        time = seconds(config, TESTED[task])
        found[task] = {
            "steps": config["steps"],
            "gib": memory_gib(config)["total"],
            "training": time["training"] / 3600,
            "decoding": time["decoding"] / 3600,
        }
    return found


def paper_costs_table() -> Table:
    """What the published setting would take on one large GPU, as `causalnb doctor` estimates it."""
    from causalnb.experiments.c2dlm.text import SPEED

    rows = []
    for task, cost in paper_costs().items():
        arms = len(registry.arms(f"c2dlm.text.{task}"))
        once = cost["training"] + cost["decoding"]
        told = (
            f"{cost['steps']:,}",
            f"{cost['gib']:.0f}",
            f"{cost['training']:.1f}",
            f"{cost['decoding']:.1f}",
        )
        rows.append([f"c2dlm.text.{task}", *told, arms, f"{arms * once:.0f}"])
    return Table(
        "c2dlm.table5_costs",
        ["experiment", "steps", "GiB", "hours of training", "hours of testing", "arms", "hours, all arms"],
        rows,
        "The paper profile, LLaDA-8B with adapters of rank 128: estimates for one GPU and one seed",
        f"At {SPEED / 1e12:.0f} TFLOP/s. Epochs of the six tasks, batch size and decoding steps are not "
        "printed; these are ours.",
    )
