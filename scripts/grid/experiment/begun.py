"""Whether the runs in a grid's folder are those that its file tells: no other scale, no other options."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.grid.experiment.cells import Cell
from scripts.grid.experiment.file import Experiment
from scripts.grid.experiment.states import State
from scripts.grid.settled import known, model_options_of

#: What follows the scale wherever it is not 1, besides what the file names.
_WITH_SCALE = ("iterations", "eval_every", "log_every", "checkpoint_every", "schedule")


def check_begun(states: Iterable[State], experiment: Experiment, scale: float) -> None:
    """Refuse runs that are not the grid's."""
    for state in states:
        if not state.config:
            continue
        mark = mark_of(state.folder, state.config)
        if mark["scale"] != scale:
            raise ValueError(
                f"scale is {scale:g}; the run in {state.folder} has {mark['scale']:g}: give --scale {mark['scale']:g}, "
                "or choose another --out"
            )
        if (found := differs(state.cell, experiment, scale, state.config)) is not None:
            raise ValueError(changed(found, state.cell.options[found], state.folder, state.config))


def mark_of(folder: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a run's config says of the grid that it is of; ValueError where it is of none."""
    if "experiment" not in config:
        raise ValueError(f"{folder} holds a run that belongs to no experiment; choose another --out")
    mark: Mapping[str, Any] = config["experiment"]
    return mark


def changed(name: str, wanted: Any, folder: Any, config: Any) -> str:
    """The words of an error: a run has another option than its file."""
    return (
        f"{name} is {wanted!r}; the run in {folder} has {config.get(name)!r}: the file was changed since; choose "
        "another --out, or remove that run"
    )


def differs(cell: Cell, experiment: Experiment, scale: float, config: Mapping[str, Any]) -> str | None:
    """An option that a cell's run does not have as its file gives it; None where there is none.

    What follows the scale is left out where that is not 1: it depends on the task's own defaults.
    """
    follows = () if scale == 1 else (*experiment.scaling, *_WITH_SCALE)
    given = known({name: value for name, value in cell.options.items() if name not in follows})
    if "model_options" in given:  # a config has the task's beside them
        sized = {"model": config["model"], **cell.options, "hidden": config["hidden"]}
        given["model_options"] = model_options_of(cell.options["task"], sized)
    # a config has None where an option is given as 0, "no embedding"
    return next((name for name, value in given.items() if (config.get(name) or None) != (value or None)), None)
