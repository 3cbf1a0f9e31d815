"""Mistakes of a cell or a loss within training: `train` is diagnosed by what the other kinds have named.

A mistake of a cell is a way to compute a sequence, forward and backward; here the network's sequence is computed so.
What a case of kind cell, loss, update or optimizer was found to have, several of them together, is what can be wrong
in training.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.diagnosis.beginning import Combination
from ortho_ref.conformance.mistake import Base, Mistake, patched, reference
from ortho_ref.conformance.private import private

scan = private("ortho_ref.scan")
COMPUTED = private("ortho_ref.losses").COMPUTED
CELLS = private("ortho_ref.cells").CELLS

#: Tries of several mistakes at once, each as long as the whole training.
_TRIES = 24


def together(found: Iterable[Combination], case: Case) -> list[Combination]:
    """Which of the mistakes that other kinds have named can be in training, all of them first.

    Parameters
    ----------
    found : iterable of tuple of Mistake
        What other cases have, those first that explain most.
    case : Case
        Of kind train.

    Returns
    -------
    list of tuple of Mistake
        Each with one mistake or more, most of which come first, at most `_TRIES`.
    """
    named = list({m.name: own for c in found for m in c if (own := within(m, case)) is not None}.values())
    sets = (chosen for size in range(len(named), 0, -1) for chosen in combinations(named, size))
    return [chosen for chosen, _ in zip(sets, range(_TRIES), strict=False)]


def within(mistake: Mistake, case: Case) -> Mistake | None:
    """The mistake in training: itself, where it applies; one of the cell or of the loss for the network's; or None."""
    if mistake.applies(case):
        return mistake
    for outputs, applies in ((_of_cell, _cell_case(case)), (_of_loss, _loss_case(case))):
        if mistake.applies(applies):
            return Mistake(mistake.name, mistake.says, lambda c: c.kind == "train", outputs(mistake))
    return None


def _cell_case(case: Case) -> Case:
    """A case of the network's cell, which a mistake is asked whether it applies to."""
    _, T, B, m = case.inputs["x"].shape
    n = len(case.inputs["params.layer0.W_r"])
    weights = {f"weights.{kind}_{gate}": np.zeros((n, *rest)) for gate in "ruc" for kind, rest in _shapes(m, n)}
    h0 = np.zeros((B, n))
    inputs = {"x": np.zeros((T, B, m)), "h0": h0, **weights, "dh": np.zeros((T, B, n)), "dh_T": h0}
    return Case(case.id, "cell", {"cell": "gru_reset_before", "activation": "modrelu"}, inputs)


def _shapes(m: int, n: int) -> Sequence[tuple[str, tuple[int, ...]]]:
    return (("W", (m,)), ("U", (n,)), ("b", ()))


def _loss_case(case: Case) -> Case:
    _, T, B, _ = case.inputs["x"].shape
    q = len(case.inputs["params.readout.W"])
    config = {"loss": case.config["loss"], "groups": 1, "masked": False, "targets": "classes"}
    inputs = {"outputs": np.zeros((T, B, q)), "y": np.zeros((T, B), np.int64)}
    return Case(case.id, "loss", config, inputs)


def _of_cell(mistake: Mistake) -> Any:
    """The network's sequences as the mistake computes them."""

    def outputs(case: Case, base: Base) -> Arrays:
        busy: list[bool] = []

        def computed(config: dict[str, Any], inputs: Arrays) -> Arrays:
            busy.append(True)  # what the mistake computes with is the right scan
            try:
                return mistake.outputs(Case(case.id, "cell", config, inputs), reference.outputs)
            finally:
                busy.pop()

        def forward(own: Any) -> Any:
            def sequence(cell: Any, weights: Any, x: Any, h0: Any = None) -> Any:
                if busy or _comes_first(own):
                    return own(cell, weights, x, h0)
                config = {"cell": next(name for name, kind in CELLS.items() if type(cell) is kind), **asdict(cell)}
                n, (T, B) = len(next(iter(weights.values()))), x.shape[:2]
                h0 = np.zeros((B, n)) if h0 is None else h0
                named = {f"weights.{name}": array for name, array in weights.items()}
                nothing = {"dh": np.zeros((T, B, n)), "dh_T": np.zeros((B, n))}
                inputs = {"x": x, "h0": h0, **named, **nothing}
                return computed(config, inputs)["h"], _Tape(config, inputs)

            return _marked(sequence, busy)

        def backward(own: Any) -> Any:
            def sequence(cell: Any, weights: Any, tape: Any, dh: Any, dh_T: Any = None) -> Any:
                if busy or _comes_first(own):
                    return own(cell, weights, tape, dh, dh_T)
                further = {"dh": dh} | ({} if dh_T is None else {"dh_T": dh_T})
                found = computed(tape.config, {**tape.inputs, **further})
                gradients = {name: found[f"d_weights.{name}"] for name in weights}
                return scan.SequenceGradients(gradients, found["d_x"], found["d_h0"])

            return _marked(sequence, busy)

        return patched((scan, "unroll", forward), (scan, "unroll_back", backward))(case, base)

    return outputs


def _marked(function: Any, busy: list[bool]) -> Any:
    """A function in a mistake's place; `busy` while that computes."""
    function.busy = busy
    return function


def _comes_first(own: Any) -> bool:
    """Whether what was there before is a mistake's too, and has not begun: the first mistake is around the next."""
    return getattr(own, "busy", None) == []


class _Tape:
    """What the way back needs: the sequence."""

    def __init__(self, config: dict[str, Any], inputs: Arrays) -> None:
        self.config, self.inputs = config, inputs


def _of_loss(mistake: Mistake) -> Any:
    """The network's loss as the mistake computes it."""

    def outputs(case: Case, base: Base) -> Arrays:
        name, busy = case.config["loss"], list[bool]()

        def make(own: Any) -> Any:
            def loss(outputs: Any, y: Any, mask: Any = None) -> Any:
                if busy or _comes_first(own):
                    return own(outputs, y, mask)
                config = {"loss": name, "groups": 1, "masked": False, "targets": "classes"}
                busy.append(True)
                try:
                    one = Case(case.id, "loss", config, {"outputs": outputs, "y": y})
                    found = mistake.outputs(one, reference.outputs)
                finally:
                    busy.pop()
                return found["loss"], found["d_outputs"]

            return _marked(loss, busy)

        return patched((COMPUTED, name, make))(case, base)

    return outputs
