"""How many of the kit's named mistakes do node tests of ONNX see: the kit's exported cases, and ONNX's own.

    python -m scripts.maintain.node_test_kills

Counted are the mistakes of an LSTM and of a GRU that change what a forward pass gives, of tokens and masks apart, which
ONNX's operators do not take.  A node test sees a mistake where an output that the test has is off by more than its
tolerance, in float32.  ONNX's own are taken one direction at a time, and whole; their peepholes, which the kit does
not have, are left out of the right answer and of the wrong one alike.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import converters
from ortho_ref.backend import NotFiniteError
from ortho_ref.conformance.cases.case import Arrays, Case, Vector
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.cases.node_tests import node_test, outputs_of
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import Mistake, made

TITLES = {"lstm": "LSTM", "gru_reset_before": "GRU", "gru_reset_after": "GRU, linear_before_reset = 1"}


class Seen(NamedTuple):
    """A case, and what a test compares of it."""

    vector: Vector
    outputs: tuple[str, ...]
    rtol: float
    atol: float


def main() -> None:
    """Print a line for each cell."""
    ours, theirs = list(of_the_kit()), list(of_onnx())
    for cell, title in TITLES.items():
        own, other = ([test for test in tests if test.vector.case.config["cell"] == cell] for tests in (ours, theirs))
        # those of the forward pass: they change some digit of it
        mistakes = [m for m in MISTAKES if any(_differs(test, m, 0.0, 0.0) for test in (*own, *other))]
        kit, onnx = (
            [m.name for m in mistakes if any(_differs(test, m, test.rtol, test.atol) for test in tests)]
            for tests in (own, other)
        )
        missed = ", ".join(m.name for m in mistakes if m.name not in kit) or "none"
        print(f"{title}: of {len(mistakes)} mistakes the kit's node tests see {len(kit)}, ONNX's own {len(onnx)}")
        print(f"  not seen by the kit's: {missed}")
        print(f"  seen by ONNX's own: {', '.join(onnx) or 'none'}")


def of_the_kit() -> Iterator[Seen]:
    """The cases that are exported; not those of tokens, which become vectors."""
    for vector in sorted(select(("cell", "layer")), key=lambda vector: vector.case.inputs["x"].size):
        test = node_test(vector, "float32")
        if test is not None and vector.case.inputs["x"].dtype.kind == "f":
            yield Seen(vector, tuple(test.outputs), 0.0, test.atol)


def of_onnx() -> Iterator[Seen]:
    """ONNX's own tests of LSTM and GRU."""
    from onnx import helper
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():  # of the operators that onnx draws its tests of
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    for test in tests:
        node = test.model.graph.node[0] if test.model is not None else None
        if node is None or test.data_sets is None or node.op_type not in ("LSTM", "GRU"):
            continue
        attributes = {own.name: helper.get_attribute_value(own) for own in node.attribute}
        names = [name for name in node.input if name]
        given = dict(zip(names, test.data_sets[0][0], strict=True))
        outputs = tuple(name for name in node.output if name)
        for case in _cases(node.op_type, attributes, given):
            vector = Vector(case, {}, {}, {}, (), test.name, (), {})
            yield Seen(vector, outputs, test.rtol, test.atol)


def _cases(operator: str, attributes: dict[str, Any], given: Arrays) -> Iterator[Case]:
    """Each direction as a cell, and the whole as a layer."""
    after = operator == "GRU" and attributes.get("linear_before_reset", 0)
    cell = "lstm" if operator == "LSTM" else "gru_reset_after" if after else "gru_reset_before"
    config = converters.config_of(cell) | ({"recurrent_bias": True} if after else {})
    states, layout = ("h", "c")[: 1 + (cell == "lstm")], converters.by_name("onnx")
    x = given["X"].swapaxes(0, 1) if attributes.get("layout") else given["X"]
    x = x.astype(np.float64)
    (D, _, n), (T, B, _) = given["R"].shape, x.shape
    zeros = np.zeros((D, B, n))
    start = {f"{s}0": given.get(f"initial_{s}", zeros).astype(np.float64) for s in states}
    ways = []
    for d in range(D):
        own: Arrays = {name: given[name][d : d + 1].astype(np.float64) for name in ("W", "R", "B") if name in given}
        ways.append(layout.from_framework(config | {"bias": "B" in given}, own))
    direction = attributes.get("direction", b"forward")
    for d, weights in enumerate(ways):
        turned = direction == b"reverse" or d == 1
        inputs = {"x": x[::-1] if turned else x, "dh": np.zeros((T, B, n))}
        inputs |= {name: a[d] for name, a in start.items()} | {f"d{s}_T": np.zeros((B, n)) for s in states}
        yield Case("", "cell", config, inputs | {f"weights.{name}": a for name, a in weights.items()})
    if direction == b"reverse":  # which is no layer of the kit alone
        return
    around = {"layers": 1, "bidirectional": D == 2, "bias": "B" in given, "initial_state": "initial_h" in given}
    around |= {"padding": None, "batch_first": bool(attributes.get("layout")), "parametrized": None}
    inputs = {"x": x.swapaxes(0, 1) if around["batch_first"] else x, "dy": np.zeros((T, B, D * n))}
    inputs["dy"] = inputs["dy"].swapaxes(0, 1) if around["batch_first"] else inputs["dy"]
    inputs |= {f"d{s}_T": zeros for s in states} | (start if around["initial_state"] else {})
    for end, weights in zip(("", "_reverse"), ways, strict=False):
        kept = {name: a for name, a in weights.items() if around["bias"] or not name.startswith("b")}
        inputs |= {f"weights.layer0{end}.{name}": a for name, a in kept.items()}
    yield Case("", "layer", config | around, inputs)


def _found(mistakes: Sequence[Mistake], test: Seen) -> Arrays:
    found = outputs_of(test.vector.case, made(mistakes, test.vector))
    return {name: found[name] for name in test.outputs}


def _differs(test: Seen, mistake: Mistake, rtol: float, atol: float) -> bool:
    """Whether an implementation with a mistake gives a test's outputs otherwise than to within these."""
    if not mistake.applies(test.vector.case):
        return False
    try:
        wrong = _found((mistake,), test)
    except NotFiniteError:
        return True
    right = _found((), test)
    return any(
        wrong[name].shape != right[name].shape
        or not (np.abs(wrong[name] - right[name]) <= atol + rtol * np.abs(right[name])).all()
        for name in test.outputs
    )


if __name__ == "__main__":
    main()
