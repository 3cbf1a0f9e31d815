"""Every mistake by name: wrong versions that people ship, and that they plausibly would.

They serve twice: the kit has to see every one (scripts/kill_table.py), and a failing implementation is told which one
it equals (`diagnosis`).  A file for each family; what makes a mistake stands above its line.
"""

from ortho_ref.conformance.mistake import Mistake
from ortho_ref.conformance.mistakes import (
    activations,
    algorithm_1,
    cayley,
    complex_states,
    gates,
    jacobians,
    layouts,
    losses,
    maps,
    optimizers,
    refusals,
    scalar_gates,
    through_time,
)

#: In the order in which they are listed, and told where several fit.
MISTAKES: tuple[Mistake, ...] = (
    *gates.MISTAKES,
    *scalar_gates.MISTAKES,
    *activations.MISTAKES,
    *through_time.MISTAKES,
    *complex_states.MISTAKES,
    *jacobians.MISTAKES,
    *cayley.MISTAKES,
    *algorithm_1.MISTAKES,
    *maps.MISTAKES,
    *optimizers.MISTAKES,
    *losses.MISTAKES,
    *layouts.MISTAKES,
    *refusals.MISTAKES,
)
