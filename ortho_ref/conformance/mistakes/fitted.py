"""A mistake with a number of its own, an epsilon or a decay, that is found from the outputs.

One output of one case gives the number; whether outputs are those of the mistake with this number is then asked of
every output of every case, as of any other mistake.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Vector
from ortho_ref.conformance.compare import Matcher, compare, scales, tolerance
from ortho_ref.conformance.mistakes.mistake import Mistake, Outputs, Predicate, made, tried

_CASES = 2  # on which a number is looked for
_ROUNDS, _STEP = 12, 1e-4  # of Gauss and Newton's method; for its differences
_CLOSER = 1e-3  # of what was off, at most so much is left, or it is another mistake
_LEFT = {3: 0.3, 6: _CLOSER}  # after so many rounds
_DIGITS = 6


class Fitted(NamedTuple):
    """Mistakes that differ in one number."""

    name: str  # as in lists, before the number
    says: str  # in words, as of a `Mistake`; {} stands for the number
    applies: Predicate
    outputs: Callable[[float], Outputs]  # outputs(number) -> the `outputs` of a mistake
    near: tuple[float, ...]  # numbers to begin from, positive
    below_1: bool = False  # numbers are between 0 and 1
    whole: bool = False  # there are no numbers but `near`

    def at(self, number: float, name: str = "") -> Mistake:
        """The mistake with this number; under a name of its own, where it has one."""
        words = self.says.format(f"{number:g}")
        return Mistake(name or f"{self.name}-{number:g}", words, self.applies, self.outputs(number))


def fitted(families: Sequence[Fitted], failing: Sequence[tuple[Vector, Arrays]], dtype: str) -> Iterator[Mistake]:
    """The mistakes, with their numbers, whose outputs are all that were given of a failing case.

    failing: cases of one subject with these outputs, computed from inputs in `dtype`.
    """
    by_size = sorted(failing, key=lambda case: sum(a.size for a in case[0].case.inputs.values()))
    for family in families:
        for vector, given in [(v, g) for v, g in by_size if family.applies(v.case)][:_CASES]:
            number = _number(family, vector, given, dtype)
            if number is not None and Matcher(given, vector, dtype).matches(made((family.at(number),), vector)):
                yield family.at(number)
                break


def _number(family: Fitted, vector: Vector, given: Arrays, dtype: str) -> float | None:
    """The number with which the mistake is nearest to one output that is wrong; None where none is near."""
    off = compare(vector, given, dtype)
    wrong = sorted((name for name in off if not off[name].passed), key=lambda name: name.startswith("d_"))
    if not wrong:
        return None
    name = wrong[0]
    theirs, scale = given[name].astype(np.float64), scales(vector.expected)[name]

    def rest(number: float) -> np.ndarray:
        """What is left of the output without the mistake's; infinite where there is no such mistake."""
        outputs = tried((family.at(number),), vector)
        left = theirs - (np.inf if outputs is None else outputs[name])
        return left if np.isfinite(left).all() else np.full(theirs.shape, np.inf)

    def size(number: float) -> float:
        return float(np.abs(rest(number)).max(initial=0)) / scale

    begin = min(family.near, key=size)
    if family.whole:
        return begin
    number = _nearest(rest, begin, family.below_1, off[name].error * scale)
    if number is None:
        return None
    least = max(2 * size(number), tolerance(vector.case.kind, dtype) / 1000)
    shorter = [0.0, *(float(f"{number:.{digits}e}") for digits in range(_DIGITS))]  # 0, and with one digit, two ...
    return next((short for short in shorter if size(short) <= least), number)


def _nearest(rest: Callable[[float], np.ndarray], begin: float, below_1: bool, off: float) -> float | None:
    """The number at which least is left: by its logarithm, between 0 and 1 by that of x / (1 - x).

    None where of `off` too much is left, after a few rounds or in the end.
    """

    def at(s: float) -> float:
        return float(1 / (1 + np.exp(-s)) if below_1 else np.exp(s))

    def most(left: np.ndarray) -> float:
        return float(np.abs(left).max(initial=0))

    s = float(np.log(begin / (1 - begin) if below_1 else begin))
    left = rest(at(s))
    for k in range(_ROUNDS):
        if most(left) > _LEFT.get(k, np.inf) * off:
            return None
        slope = (left - rest(at(s + _STEP))) / _STEP
        square = float((slope * slope).sum())
        if not 0 < square < np.inf:
            break
        step = float(np.clip((slope * left).sum() / square, -1, 1))
        closer = next(
            ((s + d, r) for d in (step, step / 4, step / 16) if most(r := rest(at(s + d))) < most(left)), None
        )
        if closer is None:
            break
        s, left = closer
    return at(s) if most(left) <= _CLOSER * off else None
