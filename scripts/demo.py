"""NC-GRU(U_c) and GRU on the parenthesis task at the paper's sizes, in one picture: python -m scripts.demo --out DIR"""

from pathlib import Path
from typing import Annotated

import typer

from ortho_ref.training import Record
from scripts.grid.build import make_trainer
from scripts.grid.config import config_of, remove_run
from scripts.grid.run import train
from scripts.pictures.losses import draw, run_of
from scripts.program import BAD_INPUT, check_device, device_option, fail, limit_threads, run, say

MODELS = ("nc-gru", "gru")


def main(
    out: Annotated[Path, typer.Option(help="Folder for the runs and demo.png; an earlier demo in it is replaced.")],
    iterations: Annotated[int, typer.Option(help="Updates of each model.")] = 4000,
    seed: Annotated[int, typer.Option(help="Of initial weights and data.")] = 0,
    device: Annotated[str, device_option()] = "cpu",
) -> None:
    """Train both models and draw their losses into OUT/demo.png."""
    limit_threads(1)
    lines = []
    try:
        check_device(device)
        common: Record = {"iterations": iterations, "seed": seed, "device": device}
        configs = {model: config_of("parenthesis", model=model, **common) | {"demo": True} for model in MODELS}
        for model in MODELS:
            remove_run(out, model, "demo")
        for model, config in configs.items():
            trainer = make_trainer(config)
            last = train(trainer, out / model, config, model)[-1]
            lines.append(f"{model}: held-out loss {last['evaluation_loss']:.4f}, accuracy {last['accuracy']:.4f}")
        title = "Parenthesis task, T = 100, batch 16, Adam 0.001: nats per type and step"
        draw([run_of(out / model) for model in MODELS], out / "demo.png", title)
    except (*BAD_INPUT, FloatingPointError) as error:
        fail(error)
    say(f"baseline (best constant prediction per step): {trainer.task.baseline:.4f}")
    for line in lines:
        say(line)
    say(f"picture: {out / 'demo.png'}")


if __name__ == "__main__":
    run(main, keeps_memory=True)
