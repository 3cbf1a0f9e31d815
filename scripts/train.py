"""Train a model on a task: python -m scripts.train denoise --model nc-gru --out runs/denoise"""

import contextlib
import json
import shlex
import signal
from pathlib import Path
from typing import Any

import typer

from ortho_ref import models
from ortho_ref.terminal import STDOUT
from ortho_ref.training.run_folder import CHECKPOINTS, CONFIG, LAST, DamagedRun, RunFolder
from ortho_ref.training.runs import Loaded, TrainingRun
from ortho_ref.training.task import Task, check_choice
from ortho_ref.training.trainer import Record
from scripts.grid.build import make_trainer
from scripts.grid.config import begun, length_of, resumed, tell, weights_of
from scripts.grid.options import DEFAULT, OPTIONS, given_in, places_in, takes_options
from scripts.grid.run import preparing, signals, train
from scripts.program import BAD_INPUT, fail, run, say


def _begun(folder: RunFolder | None, task: str, given: Record, values: Record) -> tuple[Record, Task, Loaded | None]:
    """Config, task and first weights of a new run, or those of the one in the folder; the process has its threads."""
    which, exact, places = values["which"], values["exact"], places_in(values)
    if folder is not None:
        if which is not None:
            check_choice("which", which, CHECKPOINTS)
        if values["init_from"] is not None:
            raise ValueError("--init-from is for a new run; one that goes on has its own weights")
        config, its_task = resumed(folder, task, given, places, which, exact)
        if "init_from" in config and folder.state_to_go_on(which) is None:
            again = "allowed: a new run, in another folder, with --init-from"
            began = f"the run in {folder.path} began with another run's weights"
            raise ValueError(f"{began}, and has no checkpoint yet; {again}")
        return config, its_task, None
    if which is not None or exact:
        raise ValueError(f"--{'exact' if exact else 'which'} is for --resume")
    config, its_task = begun(task, **given, **places)
    if values["init_from"] is None:
        return config, its_task, None
    own, weights = weights_of(values["init_from"])
    return config | own, its_task, weights


def _trainer(
    config: Record, task: Task, folder: RunFolder | None, given: Record, values: Record, weights: Loaded | None
) -> TrainingRun:
    """The trainer of a config; ValueError names the file where that is a run's."""
    length = None if folder is None else length_of(folder, config, given["iterations"], values["which"])
    try:
        trainer = make_trainer(config, task, length)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder.path / CONFIG}: {error}") if folder is not None else error from None
    if weights is not None:
        try:
            trainer.begin_with(weights)
        except ValueError as error:
            its, ours = (network.layers[0].name for network in (weights.network, trainer.network))
            models = f" of {its}; this is {ours}" if its != ours else ""
            raise ValueError(f"init_from is {values['init_from']}{models}: {error}") from error
    return trainer


@takes_options
def main(task: str, **values: Any) -> None:
    """Train a model on a task.  Options you leave out take the NC-GRU paper's values for it, as docs/training.md says.

    The folder gets config.json, metrics.jsonl, summary.json, last.safetensors, best.safetensors and curve.png.

    Ctrl-C saves; --resume goes on, from an older checkpoint with --which, to a later end with --iterations.
    """
    out = values["out"]
    if out == Path():
        fail("out is the current folder; name another")
    model, seed = (DEFAULT[name] if values[name] is None else values[name] for name in ("model", "seed"))
    out = out or Path("runs") / f"{task}-{model.rpartition(':')[2]}-{seed}"
    where = "".join(f" {OPTIONS[name].flag} {shlex.quote(str(place))}" for name, place in places_in(values).items())
    where += f" --model {shlex.quote(model)}" if models.is_of_file(model) else ""
    to_go_on = f"python -m scripts.train {task} --out {shlex.quote(str(out))}{where} --resume"
    try:
        given, resume, which = given_in(values), values["resume"], values["which"]
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(RunFolder(out, "a")) if resume else None
            with preparing(f"{model} {task}"):
                config, its_task, weights = _begun(folder, task, given, values)
            tell(its_task)
            trainer = _trainer(config, its_task, folder, given, values, weights)
            folder = folder or stack.enter_context(RunFolder(out, "w"))
            received, label = stack.enter_context(signals()), f"{config['model']} {task}"
            records = train(trainer, folder, config, label, resume, which, lambda: bool(received), values["track"])
        if trainer.iteration < trainer.iterations:
            name = signal.Signals(received[0]).name
            say(f"{name}: saved after update {trainer.iteration} of {trainer.iterations}; to go on:")
            say(to_go_on)
            raise typer.Exit(128 + received[0])
        from scripts.pictures.runs import draw_folders

        draw_folders([out], out / "curve.png")
    except FloatingPointError as error:
        fail(f"{error}; the last good checkpoint is {out / LAST}", 1)
    except DamagedRun as error:
        whole = ", ".join(error.choices)
        fail(f"{error.damage}; whole: {whole}; to go on: {to_go_on} --which {error.choices[0]}" if whole else error)
    except BAD_INPUT as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"interrupted{f'; go on from the last checkpoint: {to_go_on}' if (out / LAST).exists() else ''}", 130)
    last = records[-1]
    say(
        f"{trainer.network.count(trainer.params)} parameters; held out: loss {last['evaluation_loss']:.4g}, "
        f"{trainer.task.metric} {last[trainer.task.metric]:.4f}; baseline loss {trainer.task.baseline:.4g}; {out}"
    )
    say(f"picture: {out / 'curve.png'}")
    say(f"its best weights, evaluated: python -m scripts.evaluate {shlex.quote(str(out))}{where}")
    if config["schedule"] != "linear" and "experiment" not in config:  # what `length_of` refuses
        say(f"longer: {to_go_on} --iterations {2 * trainer.iterations}")
    if values["json"]:
        STDOUT.say(json.dumps(last))  # the folder has it as well: where it cannot be written, nothing is lost


if __name__ == "__main__":
    run(main, keeps_memory=True)
