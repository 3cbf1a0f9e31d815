"""Every mistake by name: wrong versions that people ship, and that they plausibly would.

They serve twice: the kit has to see every one (its vectors name them), and a failing implementation is told which one
it equals (`diagnosis`).  A file for each family; what makes a mistake stands next to its line.
"""

from ortho_ref.conformance.mistakes import (
    activations,
    algorithm_1,
    blocks,
    cayley,
    complex_states,
    gates,
    householder,
    initial_values,
    layers,
    linear,
    losses,
    lstm_places,
    maps,
    optimizers,
    scalar_gates,
    stacks,
    stale,
    states,
    through_time,
    trivialization,
)
from ortho_ref.conformance.mistakes.fitted import Fitted
from ortho_ref.conformance.mistakes.mistake import Mistake

#: In the order in which they are listed, and told where several fit.
MISTAKES: tuple[Mistake, ...] = (
    *gates.MISTAKES,
    *blocks.MISTAKES,
    *scalar_gates.MISTAKES,
    *activations.MISTAKES,
    *lstm_places.MISTAKES,
    *states.MISTAKES,
    *through_time.MISTAKES,
    *complex_states.MISTAKES,
    *cayley.MISTAKES,
    *algorithm_1.MISTAKES,
    *stale.MISTAKES,
    *maps.MISTAKES,
    *householder.MISTAKES,
    *optimizers.MISTAKES,
    *losses.MISTAKES,
    *layers.MISTAKES,
    *stacks.MISTAKES,
    *trivialization.MISTAKES,
    *initial_values.MISTAKES,
    *linear.MISTAKES,
)

#: With a number that is found from the outputs; where others have that number, it is among `MISTAKES` as well.
FITTED: tuple[Fitted, ...] = (*activations.FITTED, *cayley.FITTED, *optimizers.FITTED)
