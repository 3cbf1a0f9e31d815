"""The cases that the kit draws; those that are stored with arrays, of other kinds too, are in the manifest alone."""

from scripts.maintain.vectors.cell_cases import cell_cases
from scripts.maintain.vectors.layer_cases import layer_cases
from scripts.maintain.vectors.linear_cases import linear_cases
from scripts.maintain.vectors.map_cases import map_cases
from scripts.maintain.vectors.spec import Spec


def specs() -> list[Spec]:
    """Every case."""
    return [*cell_cases(), *layer_cases(), *map_cases(), *linear_cases()]
