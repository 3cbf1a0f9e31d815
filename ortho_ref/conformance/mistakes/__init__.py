"""Every mistake by name: wrong versions that people ship, and that they plausibly would.

They serve twice: the kit has to see every one (its vectors name them), and a failing implementation is told which one
it equals (`diagnosis`).  A file for each family, with a table below the functions that make its mistakes.
"""

from ortho_ref.conformance.mistakes import (
    activations,
    algorithm_1,
    blocks,
    cayley,
    gates,
    initial_values,
    layers,
    linear,
    losses,
    lstm_places,
    maps,
    optimizers,
    scalar_gates,
    states,
    through_time,
    trivialization,
)
from ortho_ref.conformance.mistakes.fitted import Fitted
from ortho_ref.conformance.mistakes.mistake import Mistake

#: In the order in which their mistakes are listed, and told where several fit.
_FAMILIES = (
    gates, blocks, scalar_gates, activations, lstm_places, states, through_time, cayley, algorithm_1, maps, optimizers,
    losses, layers, trivialization, initial_values, linear,
)  # fmt: skip
MISTAKES: tuple[Mistake, ...] = tuple(mistake for family in _FAMILIES for mistake in family.MISTAKES)

#: With a number that is found from the outputs; where others have that number, it is among `MISTAKES` as well.
FITTED: tuple[Fitted, ...] = (*activations.FITTED, *cayley.FITTED, *optimizers.FITTED)
