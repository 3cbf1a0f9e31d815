"""Which cell is meant: by a conformance case's config, a cell's name, or that of a model."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from ortho_ref import models
from ortho_ref.boundary import not_among
from ortho_ref.cells import Cell
from ortho_ref.cells.by_name import CELLS, by_name, name_of

Config: TypeAlias = Mapping[str, Any]

#: Units and inputs that every model can be built for, to look at its cell.
_SIZE = 4


def config_of_cell(cell: Cell) -> dict[str, Any]:
    """{"cell": its name} and every option, as a conformance case has it."""
    return {"cell": name_of(cell), **asdict(cell)}  # type: ignore[call-overload]


def cell_of(config: Config) -> Cell:
    """The cell of {"cell": its name} and options."""
    return by_name(str(config.get("cell")), **{key: value for key, value in config.items() if key != "cell"})


def config_of(given: str | Config) -> dict[str, Any]:
    """The config that is meant, with every option.

    Parameters
    ----------
    given : str or mapping
        The name of a cell, "lstm", which has its defaults then, or of a model, "gru-cudnn"; or a cell and options,
        {"cell": "elman", "activation": "relu"}.

    Returns
    -------
    dict
        {"cell": ...} and every option of the cell.

    Raises
    ------
    ValueError
        There is no such cell or model, the message lists those there are; or an option has a value not allowed.
    TypeError
        The cell has no such option.
    """
    if isinstance(given, Mapping):
        return config_of_cell(cell_of(given))
    if isinstance(given, str) and given in CELLS:
        return config_of_cell(by_name(given))
    if given in models.names():
        return config_of_cell(models.build(given, _SIZE, _SIZE).cell)
    allowed = dict.fromkeys((*CELLS, *models.names()))
    raise ValueError(not_among("cell", given, allowed, str))
