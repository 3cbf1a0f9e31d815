"""Where no name fits: the implementation is asked again with something turned off, and what makes it right is told.

Right once may be chance: one sequence in which c stays small is right where c is clipped.  What is told makes it right
for other values too, for which it is wrong without.

At most `CALLS` times for the cases of one cell, map, optimizer or whatever it is: questions end by their number, so
that a report does not depend on how busy the machine is.  Whatever the implementation raises is no answer.
"""

from dataclasses import replace

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, Vector
from ortho_ref.conformance.compare import compare
from ortho_ref.conformance.diagnosis import precision, seen, switches
from ortho_ref.conformance.diagnosis.failure import Failure, comparable, parted
from ortho_ref.conformance.diagnosis.switches import Switch
from ortho_ref.conformance.mistakes.mistake import tried
from ortho_ref.conformance.running.implementation import Raised, Run
from ortho_ref.conformance.running.outputs import given

#: Questions for one family of cases, of these for rounding, and for other values.
CALLS, _FOR_ROUNDING, _FOR_OTHERS = 20, 4, 4
_SHOWN, _FEW = 3, 6
#: A gradient that is this much of what it was is none.
_NOTHING = 1e-13


class Asker:
    """An implementation that can be asked again about one family of cases, with inputs of a dtype."""

    def __init__(self, run: Run | None, dtype: str) -> None:
        self._run, self._dtype = run, dtype
        #: Questions that can still be asked.
        self.left = 0 if run is None else CALLS

    def __call__(self, vector: Vector) -> Arrays | None:
        """What it gives for a case, of that what can be compared; None for no answer."""
        if self._run is None or self.left <= 0:
            return None
        self.left -= 1
        outputs = given(self._run, vector.given(self._dtype))
        if isinstance(outputs, Raised):
            return None
        return {name: a for name, a in (outputs or {}).items() if isinstance(a, np.ndarray)}


def answered(vector: Vector, case: Case) -> Vector | None:
    """A changed case of a vector, of other inputs or another config, with its answer.

    None where the reference has none, or not a finite one.
    """
    changed = replace(vector, case=case)
    expected = tried((), changed)
    if expected is None or not all(np.isfinite(array).all() for array in expected.values()):
        return None
    case = replace(case, outputs={name: array.shape for name, array in expected.items()})
    return replace(changed, case=case, expected=expected, low={}, high={})


def rounding(failure: Failure, asker: Asker) -> bool | None:
    """Whether the small errors of a case are rounding, by asking for the case beside it.

    None where the errors are not small, or nobody can say.
    """
    vector, given = failure.vector, failure.usable
    wrong = {name: c for name, c in compare(vector, given, failure.dtype).items() if not c.passed}
    if failure.dtype != "float64" or not wrong or not seen.nearly_right(vector, wrong):
        return None
    if precision.in_float32(given, vector, wrong):
        return True
    if asker.left <= CALLS - _FOR_ROUNDING:
        return None
    beside = answered(vector, replace(vector.case, inputs=precision.beside(vector.case.inputs)))
    found = None if beside is None else asker(beside)
    return None if beside is None or found is None else precision.is_rounding(given, vector, found, beside, wrong)


def localised(failure: Failure, asker: Asker, rounded: bool | None = None) -> str:
    """Which switches make a wrong case right, and so where to look, in one line; "" where there is nothing to say.

    rounded is what `rounding` says of it: rounding that is left with all off but phi may be anywhere.
    """
    trial = _Trial(failure.vector, failure.given, asker, failure.dtype)
    if not trial.wrong:
        return ""
    for switch in switches.first(failure.vector.case):
        trial.sort(switch)
    for switch in switches.then(failure.vector.case, trial.right_with):
        trial.sort(switch)
    if trial.right_with:
        trial.confirm()
    elif not (rounded or trial.misplaced):
        trial.ask_rest()
    return trial.told() if trial.heard else ""


class _Trial:
    """What is wrong in a case, and whether it is with a switch.

    Of a wrong forward pass that is asked alone: gradients follow it.  With a switch the gradients by what it sets are
    judged too: one that takes away what is wrong proves nothing.  An answer that is wrong is looked at as any other.
    """

    def __init__(self, vector: Vector, given: Arrays, asker: Asker, dtype: str) -> None:
        self._vector, self._asker, self._dtype = vector, asker, dtype
        off = self._off(vector, given)
        #: What is wrong of the forward pass, and of what is judged.
        self.forward = {name for name in off if not name.startswith("d_")} - {"h[0]", "c[0]"}
        self.wrong = self.forward or off
        #: The switches with which it is right, and those with which it is wrong.
        self.right_with, self.wrong_with = list[Switch](), list[Switch]()
        #: Whether an answer was another one than before: who gives stored outputs has not been asked anything.
        self.heard = False
        #: What the first wrong answer looks like of which that can be said, where nothing could of the case itself.
        self.seen = ""
        #: Whether these are right entries in wrong places, which is no matter of phi.
        self.misplaced = False
        #: With which all is off but phi, where it is wrong all the same.
        self.left: Switch | None = None
        self._given, self._idle = given, dict[str, set[str]]()
        self._others = switches.redrawn(vector.case)

    def _off(self, vector: Vector, given: Arrays) -> set[str]:
        parts = replace(vector, expected=parted(vector.expected, vector.case))
        return {name for name, c in compare(parts, given, self._dtype).items() if not c.passed}

    def sort(self, switch: Switch) -> None:
        """Ask, and put the switch where it belongs; nowhere without an answer."""
        if self.forward and set(switch.own) & {"dh", "dh_T"}:
            return
        if self._asker.left > _FOR_OTHERS:
            right = self._is_right(switch.change(self._vector.case), switch)
            if right is not None:
                (self.right_with if right else self.wrong_with).append(switch)

    def ask_rest(self) -> None:
        """Ask with all turned off but phi: what is wrong then is there."""
        rest = switches.rest(self._vector.case) if self.forward and self._asker.left else None
        if rest is not None and self._is_right(rest.change(self._vector.case), rest) is False:
            self.left = rest

    def confirm(self) -> None:
        """Leave of the switches that make it right those out that would be told, and do not for other values."""
        if self._is_right(self._others) is not False:
            self.right_with.clear()
        confirmed: list[Switch] = []
        while open_ones := [switch for switch in self._finest()[:_SHOWN] if switch not in confirmed]:
            for switch in open_ones:
                if self._is_right(switch.change(self._others), switch):
                    confirmed.append(switch)
                else:
                    self.right_with.remove(switch)

    def _is_right(self, case: Case, switch: Switch | None = None) -> bool | None:
        """Whether what is wrong is right in another form of the case; None without an answer."""
        changed = answered(self._vector, case)
        if changed is None or (switch is not None and not self._leaves_phi(switch, changed)):
            return None
        outputs = self._asker(changed)
        if not outputs:
            return None
        outputs = {n: a for n, a in outputs.items() if n in changed.expected}
        good = all(comparable(a, changed.expected[n]) for n, a in outputs.items())
        given = parted(outputs, changed.case)
        self.heard |= any(name in given and not np.array_equal(given[name], a) for name, a in self._given.items())
        judged = {name for name in self.wrong if name.removesuffix("[0]") in changed.expected}
        if not good or not judged <= set(given) | {"h[0]", "c[0]"}:
            return False
        off = self._off(changed, given)
        off = {name for name in off if not name.startswith("d_")} if self.forward else off
        if not off and all(self._vanishes(name, changed) for name in judged):  # 0 is right whatever was wrong
            return None
        if off and switch is not None and not self.seen:
            hints = [(n, seen.hint_of(n, changed, outputs, self._dtype)) for n in sorted(off & outputs.keys())]
            name, hint = next(((n, h) for n, h in hints if h and seen.is_whole(h)), ("", ""))
            self.seen = f"with {switch.name}, {name} is {hint}" if hint else ""
            self.misplaced = seen.is_misplaced(hint)
        return not off

    def _look(self, switch: Switch) -> str:
        """Where to look; a gate that does not matter with what it multiplies off may be what is wrong."""
        told = switches.look(switch, self.wrong_with, bool(self.forward))
        idle = self._idle.get(switch.name, set())
        gates = switches.gates_in(self._vector.case, idle.difference(switch.own)) if len(switch.own) == 1 else []
        return f"{told} and at how {' and '.join(gates)} is computed" if gates else told

    def _leaves_phi(self, switch: Switch, changed: Vector) -> bool:
        """Whether open gates let the candidate through; and note which inputs do not matter with a switch."""
        zero = {n for n in changed.case.inputs if f"d_{n}" in changed.expected and self._vanishes(f"d_{n}", changed)}
        self._idle[switch.name] = zero
        return not (switch.at and zero & {*switches.candidate(changed.case)})

    def _vanishes(self, name: str, changed: Vector) -> bool:
        before, now = (float(np.abs(v.expected.get(name, np.zeros(1))).max(initial=0)) for v in (self._vector, changed))
        return now <= _NOTHING * before

    def _finest(self) -> list[Switch]:
        """Of those with which it is right those that take least away, first those that set one thing alone."""
        right = self.right_with
        takes = {s.name: {*s.own, *self._idle.get(s.name, ())} for s in right}

        def less(t: Switch, s: Switch) -> bool:
            if not t.own:
                return False
            finer = takes[t.name] < takes[s.name] or (not s.own and takes[t.name] == takes[s.name])
            return finer or set(t.own) < set(s.own)

        finest = [s for s in right if not any(less(t, s) for t in right)]
        return sorted(finest, key=lambda switch: len(set(switch.own)) != 1)

    def told(self) -> str:
        """What comes of it, in one line."""
        finest = self._finest()[:_SHOWN]
        if not finest:
            if not self.wrong_with:
                return ""
            end = f"; {self.seen}" if self.seen else ""
            rest = f": look at {self.left.look}" if self.left else ""
            wrong = [*self.wrong_with[: _FEW - 1], self.left] if self.left else self.wrong_with[:_FEW]
            return f"asked again, it is as wrong with {', with '.join(s.name for s in wrong)}{rest}{end}"
        what = "the forward pass is right" if self.forward else "it is right"
        begun = any(s.name == switches.ONE_STEP for s in self.wrong_with)
        names = " or with ".join(switch.name for switch in finest)
        names += ", and wrong in the first step already" if begun else ""
        looks = dict.fromkeys(map(self._look, finest))
        return f"asked again, {what} with {names}: look at {' and at '.join(looks)}"
