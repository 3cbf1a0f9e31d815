"""The kit replaces functions in modules of its own alone: what others compute meanwhile is as ever."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from ortho_ref import activations, backend, scan
from ortho_ref.cells import CELLS, GRUResetBefore
from ortho_ref.conformance import check
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case_files import vectors
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import made
from ortho_ref.conformance.mistakes.patched import replaced
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.trees import under
from tests.ortho_ref.conformance.adapters import BY_ID, right
from tests.ortho_ref.conformance.attributes import attributes, changed, private_modules, public_modules

GRU = "cell/gru_reset_before/tanh"
#: The names that the kit's own modules have themselves.
NAMES = {module.__name__ for module in private_modules().values()}


def wrong(case):
    """Of every case the outputs with the first mistake that it shows, of one what is none, so that pairs are tried."""
    if case.id == GRU:
        return {name: array + np.random.default_rng(0).random(array.shape) for name, array in right(case).items()}
    named = [mistake for mistake in MISTAKES if mistake.name in BY_ID[case.id].kills]
    return made(named[:1], replace(BY_ID[case.id], case=case))


def gradients():
    """The gradients of a case by `scan`, as anybody computes them."""
    inputs, cell = BY_ID[GRU].case.inputs, GRUResetBefore("tanh")
    weights = under("weights.", inputs)
    _, tape = scan.forward(cell, weights, inputs["x"], inputs["h0"])
    found = scan.backward(cell, weights, tape, inputs["dh"], inputs["dh_T"])
    return [found.x.tobytes(), found.h0.tobytes(), *(array.tobytes() for array in found.weights.values())]


def in_thread(function):
    """What a function returns, or raises, as a future of a thread of its own."""
    return ThreadPoolExecutor(1).submit(function)


# Which modules there are


def test_nobody_imports_them():
    """Second instances of the same files: not in sys.modules, and nothing outside the kit has anything of theirs."""
    own = private_modules()
    assert {
        "ortho_ref",
        "ortho_ref.conformance.cases.reference",
        "ortho_ref.scan",
        "ortho_ref.cells.lstm",
    } <= own.keys()
    assert all(module.__file__ == sys.modules[name].__file__ for name, module in own.items())
    entries = {id(e) for m in own.values() for e in (m, *vars(m).values()) if getattr(e, "__module__", "") in NAMES}
    entries |= {id(module) for module in own.values()}
    assert not entries & {id(module) for module in sys.modules.values()}
    public = {name: module for name, module in public_modules().items() if name in own or "conformance" not in name}
    assert not entries & {id(entry) for entry in attributes(public).values()}
    assert private("ortho_ref.parametrizations.neumann").NotFiniteError is backend.NotFiniteError  # of the one backend


def test_an_import_within_a_function_is_private_as_well():
    """And what is not ours is what is imported anywhere, of which there is no second instance."""
    module, found = private("ortho_ref.scan"), {}
    lines = "def later():\n import numpy, ortho_ref.scan as s\n from ortho_ref import cells\n return numpy, s, cells"
    exec(lines, {"__builtins__": vars(module)["__builtins__"]}, found)
    assert found["later"]() == (np, module, private("ortho_ref.cells"))
    for name in ("ortho_ref.backend", "ortho_ref.conformance.cases.case", "ortho_ref.training.trainer", "numpy"):
        with pytest.raises(KeyError, match=name):
            private(name)


# What is replaced, and where


@pytest.mark.parametrize(
    ("owner", "name"),
    [(reference, "sigmoid"), (GRUResetBefore, "step_backward"), (activations.ACTIVATIONS, "tanh"), (CELLS, "lstm")],
    ids=["module", "class", "dict", "another dict"],
)
def test_what_is_public_cannot_be_replaced(owner, name):
    """Nor is what comes before it in the list left replaced."""
    before, own = attributes(public_modules()), attributes(private_modules())
    first = (private("ortho_ref.conformance.cases.reference"), "sigmoid", lambda own: None)
    refused = pytest.raises(ValueError, match=f"{name} is to be replaced in .*, which is not private")
    with refused, replaced(first, (owner, name, lambda own: None)):
        pass
    assert not changed(before, public_modules())
    assert not changed(own, private_modules())


def test_while_a_mistake_is_in_force_nothing_public_is_changed():
    """Looked at in the place of the computation that each is around, which fails; what is private comes back.

    Every sixth; that all of them leave nothing changed is seen where they are all computed.
    """
    gradients()  # the backend notes which libraries it has loaded
    before, own, seen = attributes(public_modules()), attributes(private_modules()), []

    def look(case):
        seen.append(bool(changed(own, private_modules())))
        assert not changed(before, public_modules())
        raise ArithmeticError("seen")

    cases = [vector.case for vector in vectors()]
    for mistake in MISTAKES[::6]:
        with pytest.raises(ArithmeticError, match="seen"):
            mistake.outputs(next(case for case in cases if mistake.applies(case)), look)
        assert not changed(own, private_modules()), mistake.name
    assert not changed(before, public_modules())
    assert len(seen) > 60
    assert sum(seen) > 8


# Other threads


#: Some of every kind, the GRU's among them.
SOME = [
    GRU,
    "cell/elman",
    "activation",
    "loss",
    "optimizer/adam*",
    "update/*/order-1",
    "parametrization/*/complex",
]


@pytest.fixture(scope="module")
def diagnosed():
    """A diagnosis of many cases in one thread; meanwhile, in another, gradients and what anybody could see changed.

    (the report, the gradients of each turn, what was changed)
    """
    check(right, GRU)  # what is imported at first use is there
    right_ones, before = gradients(), attributes(public_modules())
    diagnosing, turns, seen = in_thread(lambda: check(wrong, SOME)), [], []
    while not diagnosing.done():
        turns.append(gradients() == right_ones)
        seen += changed(before, public_modules())
        time.sleep(0.01)  # so that the diagnosis gets on as well
    return diagnosing.result(), turns, seen + changed(before, public_modules())


def test_gradients_of_another_thread_are_as_ever(diagnosed):
    """Bit by bit, of the same cell, while mistakes in it are tried."""
    report, turns, _ = diagnosed
    assert not report.ok
    assert next(result for result in report.results if result.id == GRU).diagnosis
    assert len(turns) > 10
    assert all(turns)


def test_nothing_public_is_assigned_to_in_a_diagnosis(diagnosed):
    """No attribute of a module or class and no entry of a dict was another object at any time, nor is afterwards."""
    assert not diagnosed[2]


def test_two_diagnoses_at_once_are_each_as_alone():
    """They wait for one another."""
    of = {name: next(m for m in MISTAKES if m.name == name) for name in ("reset-after", "path-r")}

    def diagnosis(name):
        report = check(lambda case: made((of[name],), BY_ID[case.id]), GRU)
        return [(result.status, result.diagnosis) for result in report.results]

    alone = [diagnosis(name) for name in of]
    threads = [in_thread(lambda name=name: diagnosis(name)) for name in of]
    assert [thread.result() for thread in threads] == alone
    assert of["reset-after"].says in alone[0][0][1]
