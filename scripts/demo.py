"""NC-GRU(U_c) and GRU on the parenthesis task at the paper's sizes, in one picture: python -m scripts.demo --out DIR"""

from pathlib import Path
from typing import Annotated, Any

import matplotlib
import typer

from ortho_ref.optimizers import Adam
from ortho_ref.training import Record, Trainer
from scripts.train import console, fail, limit_threads, make_network, train
from tasks.parenthesis import Parenthesis

matplotlib.use("agg")
import matplotlib.pyplot as plt

# ncgru:hyper: hidden sizes, batch 16, Adam 1e-3 for every parameter, 40 entries -1, exact inverse every 50 updates
RUNS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "NC-GRU(U_c), n = 56": ("nc-gru", 56, {"orthogonal": "c", "negative_ones": 40, "reset_every": 50}),
    "GRU, n = 50": ("gru", 50, {}),
}
LENGTH, BATCH, RATE = 100, 16, 1e-3


def draw(runs: dict[str, list[Record]], baseline: float, picture: Path) -> None:
    """Training loss of every run over iterations, with the baseline, to a PNG file."""
    figure, axes = plt.subplots(figsize=(7, 4), constrained_layout=True)
    for (label, records), color in zip(runs.items(), ("#c1272d", "#0f4c81"), strict=True):
        axes.plot([r["iteration"] for r in records], [r["loss"] for r in records], label=label, color=color)
    axes.axhline(baseline, color="black", linestyle="--", linewidth=1, label="best constant prediction")
    axes.set(
        xlabel="iteration",
        ylabel="cross-entropy per type and step, nats",
        title=f"Parenthesis task, T = {LENGTH}, batch {BATCH}, Adam {RATE:g}",
        ylim=(0, None),
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=150)


def main(
    out: Annotated[Path, typer.Option(help="Folder for the runs and demo.png; an earlier demo in it is replaced.")],
    iterations: Annotated[int, typer.Option(min=1, help="Updates of each model.")] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="Of initial weights and data.")] = 0,
) -> None:
    """Train both models and draw their losses into OUT/demo.png."""
    limit_threads(1)
    task = Parenthesis(LENGTH)
    runs = {}
    try:
        for label, (model, hidden, options) in RUNS.items():
            network = make_network(task, model, hidden, 1, options)
            trainer = Trainer(network, task, Adam(RATE), iterations, BATCH, seed, evaluate_every=iterations)
            config = {"task": task.name, "length": LENGTH, "batch": BATCH, "model": model, "hidden": hidden, **options}
            for name in ("config.json", "metrics.jsonl"):
                (out / model / name).unlink(missing_ok=True)
            runs[label] = train(trainer, out / model, {**config, "iterations": iterations, "seed": seed}, label)
        draw(runs, task.baseline, out / "demo.png")
    except (OSError, FloatingPointError) as error:
        fail(error)
    console.print(f"baseline (best constant prediction per step): {task.baseline:.4f}", highlight=False)
    for label, records in runs.items():
        last = records[-1]
        line = f"{label}: held-out loss {last['evaluation_loss']:.4f}, accuracy {last['accuracy']:.4f}"
        console.print(line, highlight=False)
    console.print(f"picture: {out / 'demo.png'}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
