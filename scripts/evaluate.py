"""Evaluate a run's weights on its task's held-out set: python -m scripts.evaluate runs/text --sample 300"""

import json
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from ortho_ref import models
from ortho_ref.backend import to_device
from ortho_ref.fused import compiled, kernels
from ortho_ref.terminal import shown_lines
from ortho_ref.training.run_folder import DamagedRun, RunFolder
from ortho_ref.training.runs import Loaded, load
from ortho_ref.training.task import Task, check_integer
from ortho_ref.training.trainer import Record, evaluate
from scripts.grid.build import by_engine, engine_of
from scripts.grid.config import read_run, task_of
from scripts.grid.options import places_in
from scripts.grid.predictions import check_examples, confusion, predictions, write
from scripts.grid.run import quiet_arithmetic
from scripts.program import BAD_INPUT, fail, give, limit_threads, run, say
from tasks.text import Text


def sample(loaded: Loaded, task: Text, prompt: str, length: int, temperature: float, seed: int) -> str:
    """`length` characters drawn one by one after the prompt, from softmax(o / temperature)."""
    rng = np.random.default_rng(seed)
    tokens = np.searchsorted(task.alphabet, [ord(character) for character in prompt])
    drawn: list[int] = []
    last = None
    for _ in range(length):
        outputs, last, _ = loaded.network.forward(loaded.params, loaded.buffers, tokens[:, None], last)
        logits = outputs[-1, 0].astype(np.float64)
        with np.errstate(over="ignore"):  # to -inf, at a temperature near 0
            p = np.exp((logits - logits.max()) / temperature)
        drawn.append(int(rng.choice(len(p), p=p / p.sum())))
        tokens = np.array(drawn[-1:])
    return prompt + "".join(chr(task.alphabet[token]) for token in drawn)


def _begin(task: Task, name: str, prompt: str | None, characters: int | None) -> str:
    """What a sample begins with; ValueError for a prompt that cannot be, or a sample of what is no text."""
    if not isinstance(task, Text):
        for option, value in (("prompt", prompt), ("sample", characters)):
            if value is not None:
                raise ValueError(f"--{option} is for text; {name} has none")
        return ""
    begin = chr(task.alphabet[task.held_out[0]]) if prompt is None else prompt
    if not begin or not np.isin([ord(character) for character in begin], task.alphabet).all():
        raise ValueError(f"prompt is {begin!r}; allowed: characters of the text, at least one")
    return begin


def _predictions(table: Path | None, loaded: Loaded, task: Task) -> Table | None:
    """What was said of each example, written into a file; a table of classes, if any."""
    if table is None:
        return None
    found = predictions(loaded, task)
    write(table, found, task)
    return confusion(found, getattr(task, "labels", None))


def _engine(config: Record, device: str) -> str:
    """What ran a run, so that its figures come again to the bit, where that is here."""
    loops, launches = device == "cpu" and compiled.is_installed(), device == "gpu" and kernels.are_on()
    here = {"compiled": loops, "factored": loops, "persistent": launches}
    engine = engine_of(config)
    return engine if here.get(engine, True) else "fused"


def _loaded(folder: Path, which: str | None, model: str | None) -> tuple[Loaded, Record]:
    """A run's weights and config; its cell is of the file `model`, where that is given."""
    if model is not None:
        models.own(model)
    with RunFolder(folder) as run:
        return load(run, which), read_run(run)


def _give(figures: Record, said: Table | None, text: str, as_json: bool) -> None:
    """Print the figures: as JSON, with the sample in it, or with the table and the sample below."""
    if as_json:
        give(json.dumps(figures | ({"sample": text} if text else {})))
        return
    give("; ".join(f"{name} {value:.6g}" for name, value in figures.items()))
    if said is not None:
        give(said)
    if text:
        give(shown_lines(text))


def main(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    which: Annotated[str | None, typer.Option(help="Checkpoint: best, last or previous; best unless given.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="For a run of your own cell: its file.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Where the run's data are: a folder, for text the file.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="arrays: the held-out file, if there was one.")] = None,
    eval_part: Annotated[str | None, typer.Option(help="Another part of the data set: test, or test:0-1000.")] = None,
    characters: Annotated[
        int | None, typer.Option("--sample", help="text: number of characters to write; default 400.")
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="text: beginning of the sample.")] = None,
    temperature: Annotated[
        float, typer.Option(help="text: sampling temperature; below 1 safer, above 1 more varied.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(help="text: seed of the sample.")] = 0,
    table: Annotated[
        Path | None,
        typer.Option(
            "--predictions", metavar="OUT.csv", help="Write every prediction beside its target, to a new file."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or gpu.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Threads of BLAS, or of the compiled engine.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Loss and metric on the held-out set; for text also a sample, --predictions: also of each example."""
    try:
        length = 400 if characters is None else characters
        check_integer("sample", length, least=0, most=1_000_000)
        check_integer("seed", seed, least=0)
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature is {temperature}; allowed: a finite number above 0")
        loaded, config = _loaded(folder, which, model)
        engine = _engine(config, device)
        limit_threads(threads, engine)
        task = task_of(folder, config, places_in({"data": data, "held_out": held_out}))
        if eval_part is not None:
            if not hasattr(task, "on"):
                raise ValueError(f"--eval-part is for tasks on a data set with parts; {config['task']} has none")
            task = task.on(eval_part)
        check_examples(table, task)
        begin = _begin(task, config["task"], prompt, characters)
        params, buffers = to_device((loaded.params, loaded.buffers), device)
        with quiet_arithmetic():
            figures = evaluate(by_engine(loaded.network, engine), params, buffers, task)
        if not math.isfinite(figures["evaluation_loss"]):
            fail(f"{folder}: the loss is {figures['evaluation_loss']}: its weights are too large to compute with", 1)
        said = _predictions(table, loaded, task)
        text = ""
        if isinstance(task, Text) and not (as_json and characters is None and prompt is None):
            text = sample(loaded, task, begin, length, temperature, seed)
    except DamagedRun as error:
        whole = ", ".join(f"--which {name}" for name in error.choices)
        fail(f"{error.damage}; whole: {whole}" if whole else error)
    except BAD_INPUT as error:
        fail(error)
    on = f" on {eval_part}" if eval_part else ""
    say(f"{config['model']}, n = {config['hidden']}, {config['task']}{on}; baseline loss {task.baseline:.4g}")
    _give(figures, said, text, as_json)


if __name__ == "__main__":
    run(main, keeps_memory=True)
