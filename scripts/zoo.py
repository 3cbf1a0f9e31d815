"""Every model on the copying task, one after the other: python -m scripts.zoo --out runs/zoo

For each what `python -m scripts.train copying --length 100 --model M --iterations 200` does; the table, in Markdown, is
that of docs/models.md.
"""

from pathlib import Path
from typing import Annotated

import typer

from ortho_ref import models
from ortho_ref.training import Record
from scripts.grid.build import make_trainer
from scripts.grid.config import config_of, remove_run
from scripts.grid.run import train
from scripts.program import BAD_INPUT, blas, check_device, device_option, fail, give, limit_threads, run, say


def main(
    out: Annotated[Path, typer.Option(help="Folder for the runs; an earlier zoo in it is replaced.")],
    length: Annotated[int, typer.Option(min=1, help="T of the copying task.")] = 100,
    iterations: Annotated[int, typer.Option(min=1, help="Updates of each model.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of initial weights and data.")] = 0,
    device: Annotated[str, device_option()] = "cpu",
) -> None:
    """Parameters, updates per second and held-out loss of every model, as a Markdown table on stdout."""
    limit_threads(1)
    rows = []
    try:
        check_device(device)
        for model in models.names():
            remove_run(out, model, "zoo")
        for model in models.names():
            own: Record = {"model": model, "length": length, "iterations": iterations, "seed": seed, "device": device}
            config = config_of("copying", **own)
            trainer = make_trainer(config)
            last = train(trainer, out / model, config | {"zoo": True}, model)[-1]
            parameters = trainer.network.count(trainer.params)
            rows.append((model, config["hidden"], parameters, last["steps_per_second"], last["evaluation_loss"]))
    except (*BAD_INPUT, FloatingPointError) as error:
        fail(error)
    of_lstm = next(speed for model, _, _, speed, _ in rows if model == "lstm")
    lines = [
        "| model | n | parameters | updates per second | of the LSTM's | held-out loss |",
        "|---|---|---|---|---|---|",
    ]
    for model, hidden, parameters, speed, loss in rows:
        lines.append(f"| `{model}` | {hidden} | {parameters:,} | {speed:.1f} | {speed / of_lstm:.2f} | {loss:.4f} |")
    give("\n".join(lines))
    say(f"baseline {trainer.task.baseline:.4f}; device {device}; {', '.join(blas())}")


if __name__ == "__main__":
    run(main, keeps_memory=True)
