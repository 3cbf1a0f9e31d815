"""What results/ has of the papers' files.  A run that one file stored counts for every other that asks for the same."""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from scripts.grid.experiment.begun import check_begun
from scripts.grid.experiment.cells import Cell, cells_of
from scripts.grid.experiment.file import Experiment, read
from scripts.grid.experiment.states import State, state_of
from scripts.grid.experiment.storing import is_stored


class Results:
    """The papers' files, and the runs of them that are stored."""

    def __init__(self, root: Path) -> None:
        self._files, self._results = root / "scripts" / "experiments", root / "results" / "experiments"

    def is_papers(self, experiment: Experiment) -> bool:
        """Whether an experiment's file is one of the papers', so that results/ has a place for it."""
        return self._files in experiment.path.resolve().parents

    def place(self, experiment: Experiment) -> Path:
        """Where the runs are that an experiment's own file stored."""
        return self._results / experiment.name

    @cached_property
    def experiments(self) -> list[Experiment]:
        """Those of all files."""
        return [read(path) for path in sorted(self._files.rglob("*.toml"))]

    @cached_property
    def _by_options(self) -> dict[str, list[Path]]:
        """What a run was given -> the folders where such a one is stored."""
        found: dict[str, list[Path]] = {}
        for experiment in self.experiments:
            if self.place(experiment).exists():
                for cell in cells_of(experiment):
                    folder = self.place(experiment) / cell.folder
                    if is_stored(folder, cell):
                        found.setdefault(_options(cell), []).append(folder)
        return found

    def folder(self, experiment: Experiment, cell: Cell) -> Path | None:
        """Where a cell's run is stored: by its own file, or by another that has it and measured as much."""
        own = self.place(experiment) / cell.folder
        if is_stored(own, cell):
            return own
        others = self._by_options.get(_options(cell), [])
        return next((folder for folder in others if is_stored(folder, cell)), None)

    def states(self, experiment: Experiment, cells: Iterable[Cell]) -> list[State]:
        """How far each cell's run is: "done" where it is stored, "failed" where a stored one diverged."""
        own = self.place(experiment)
        states = [state_of(cell, self.folder(experiment, cell) or own / cell.folder) for cell in cells]
        check_begun(states, experiment, 1.0)
        return states

    def lenders(self, experiment: Experiment, states: Sequence[State]) -> list[str]:
        """The names of the other experiments, some of whose runs these are."""
        names = {state.config["experiment"]["name"] for state in states if state.config}
        return sorted(names - {experiment.name})


def _options(cell: Cell) -> str:
    return json.dumps(cell.options | {"seed": cell.seed}, sort_keys=True, default=str)
