"""Dynamic trivialization: U = base exp(A), rebased from time to time."""

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import both, neither, updates
from ortho_ref.conformance.mistakes.changes import nothing
from ortho_ref.conformance.mistakes.mistake import Base, given, reference, table
from ortho_ref.conformance.mistakes.optimizers import optimizing
from ortho_ref.conformance.mistakes.patched import Patched, around, instead
from ortho_ref.conformance.mistakes.ways import configured

rebasing = updates("dynamic_trivialization")
_several = both(rebasing, lambda case: case.config["rebase_every"] > 1)
_with_memory = both(rebasing, neither(optimizing("sgd", lambda own: own["momentum"] == 0)))


def _forgetting(case: Case, base: Base) -> Arrays:
    """Each stretch between two rebases with an optimizer of its own."""
    every, inputs = case.config["rebase_every"], case.inputs
    parts, U0 = [], inputs["U0"]
    for start in range(0, len(inputs["dU"]), every):
        parts.append(base(given(case, {"U0": U0, "dU": inputs["dU"][start : start + every]})))
        U0 = parts[-1]["U"][-1]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


MISTAKES = table(
    ("never-rebased", "no rebase", rebasing, configured(rebase_every=1 << 30)),
    ("rebased-one-late", "the rebase one update late",
     _several, instead(reference, "rebases")(lambda own, k, every: own(k - 1, every) and k > 1)),
    ("rebase-keeps-A", "A kept where the base moves",
     rebasing, instead(reference, "rebased")(lambda own, base, A, U: (U, A))),
    ("rebase-clears-A-alone", "A set to 0 where the base should move, and the base kept",
     rebasing, instead(reference, "rebased")(lambda own, base, A, U: (base, nothing(A)))),
    ("base-on-the-right", "exp(A) base in place of base exp(A), with its gradient",
     rebasing, Patched(around(reference, "on_base", lambda own, base, E: E @ base),
                       around(reference, "through_base", lambda own, base, dU: dU @ base.T))),
    ("gradient-without-base", "the gradient of exp(A) taken at dL/dU, without the base",
     rebasing, instead(reference, "through_base")(lambda own, base, dU: dU)),
    ("rebase-resets-optimizer", "the optimizer begun anew at every rebase", _with_memory, _forgetting),
)  # fmt: skip
