"""How a case becomes a vector: inputs drawn, the answer computed, confirmed, and compared with what is stored."""

from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.conformance.cases import drawing, initial, reference
from ortho_ref.conformance.cases.case import Arrays, Vector
from ortho_ref.conformance.compare import scales, tolerance
from scripts.maintain.vectors.spec import Spec

#: How far a case may be from what is stored, and from the second route, relative to its scale.
SAME = {"update": 1e-9}
#: Inputs moved by 1e-5 move outputs by less than this: so float32 can pass, and no kink is near.
MOVED = 1e-3
ATTEMPTS = 300


def difference(ours: Arrays, theirs: Arrays) -> float:
    """The largest difference of two answers, on the scales of the second.  ValueError for other names or shapes."""
    if {n: a.shape for n, a in ours.items()} != {n: a.shape for n, a in theirs.items()}:
        raise ValueError(f"outputs {sorted(ours)} and {sorted(theirs)}, or their shapes, differ")
    size = scales(theirs)
    return max(float(np.abs(ours[name] - theirs[name]).max(initial=0)) / size[name] for name in theirs)


def limit(kind: str) -> float:
    """The largest difference that counts as none."""
    return SAME.get(kind, 1e-12)


def conditioned(spec: Spec, inputs: Arrays) -> bool:
    """Whether the answer is there, is above noise and follows small changes of its inputs."""
    if spec.kind == "initial":
        return True
    answer = spec.outputs(inputs)
    largest = {name: float(np.abs(array).max()) for name, array in answer.items()}
    if not all(size > spec.least or name in spec.zeros for name, size in largest.items()):
        return False
    if not spec.smooth:
        return True
    rng = np.random.default_rng(0)
    moved = {name: _moved(name, array, rng) for name, array in inputs.items()}
    return difference(spec.outputs(moved), answer) < MOVED


def _moved(name: str, array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    size = min(1.0, float(np.abs(array).max(initial=0)))  # of small inputs less
    noise = 1e-5 * size * rng.standard_normal(array.shape) * (array != 0)  # zeros of V and A are no entries
    return array + (noise - np.swapaxes(noise, 0, 1) if name.endswith((".A", "A0")) else noise)


def drawn(spec: Spec) -> Arrays:
    """The inputs: the first draw that is well conditioned."""
    for attempt in range(ATTEMPTS):
        inputs = spec.inputs(attempt)
        if conditioned(spec, inputs):
            return inputs
    raise ValueError(f"{spec.id}: no well-conditioned inputs in {ATTEMPTS} draws")


def vector(spec: Spec, inputs: Arrays) -> Vector:
    """The vector of a case, not confirmed yet."""
    expected = initial.expected_of(spec.config) if spec.kind == "initial" else spec.outputs(inputs)
    low, high = spec.between(inputs) if spec.between is not None else ({}, {})
    shapes = {name: array.shape for name, array in expected.items()}
    case = replace(spec.case(inputs), outputs=shapes)
    how = _drawing(spec, inputs, expected)
    return Vector(case, expected, low, high, tuple(spec.equations), spec.why, (), {}, how)


def _drawing(spec: Spec, inputs: Arrays, expected: Arrays) -> dict[str, Any] | None:
    """How a case that is not stored is drawn, by the first of its seeds that gives these inputs."""
    if not isinstance(spec.draw, dict):
        return None
    own = {"sha256": drawing.hash_of(inputs), "checks": drawing.checks_of(expected)}
    for attempt in range(ATTEMPTS):
        drawn = {"seed": spec.seed(attempt), "arrays": spec.draw}
        if drawing.hash_of(drawing.inputs_of(drawn)) == own["sha256"]:
            return drawn | own
    raise ValueError(f"{spec.id}: its inputs are not those of a seed")


def confirmed(made: Vector) -> dict[str, Any]:
    """The second route's name, and how far it is from the answer.  ValueError where that is too far."""
    from scripts.maintain.oracle.second_route import second_route

    if made.case.kind == "initial":
        return _drawn_right(made)
    case = made.given("float64")
    route, outputs = second_route(case.kind, case.config, case.inputs)
    error = difference(outputs, made.expected)
    if not error <= limit(made.case.kind):
        raise ValueError(f"{made.id}: {route} is {error:.1e} away; allowed: {limit(made.case.kind):.0e}")
    return {"route": route, "error": float(f"{error:.1e}")}


def _drawn_right(made: Vector) -> dict[str, Any]:
    """The config's values are the papers', the models draw theirs by their own code: in ten runs none is off."""
    worst = 0.0
    for seed in range(10):
        found = reference.outputs(replace(made.case, inputs={"seed": np.array(seed)}))
        for name, entry in made.case.config["values"].items():
            off, remark = initial.judged(entry, found[name], tolerance("initial", "float64"))
            if remark:
                raise ValueError(f"{made.id}: {name} of ortho_ref.models {remark}")
            worst = max(worst, off)
    return {"route": f"draws of ortho_ref.models, at most {worst:.2f} of the bound away", "error": 0.0}


def roles(made: Vector) -> dict[str, Arrays]:
    """The arrays of a vector, by their role."""
    return {
        "inputs": made.case.inputs,
        "expected": {} if made.case.kind == "initial" else made.expected,
        "low": made.low,
        "high": made.high,
    }


def entry(made: Vector) -> dict[str, Any]:
    """A vector's entry in the manifest."""
    return {
        "id": made.id,
        "kind": made.case.kind,
        "config": made.case.config,
        **{role: sorted(arrays) if made.drawn is None else [] for role, arrays in roles(made).items()},
        "equations": list(made.equations),
        "why": made.why,
        "kills": list(made.kills),
        "confirmed": made.confirmed,
        "drawn": made.drawn,
        "withdrawn": None,
    }


def compared(made: Vector, old: Vector) -> None:
    """ValueError where a case is not what is stored under its name."""
    if made.case.config != old.case.config:
        raise ValueError(f"{made.id}: its config is not the stored one; give the changed case another name")
    if made.case.kind != old.case.kind:
        raise ValueError(f"{made.id}: its kind is not the stored one; give the changed case another name")
    theirs = roles(old)
    for role, arrays in roles(made).items():
        if role == "inputs":
            if not all(
                _equal(arrays.get(name), theirs[role].get(name)) for name in arrays.keys() | theirs[role].keys()
            ):
                raise ValueError(f"{made.id}: its inputs are not those stored")
        elif arrays or theirs[role]:
            try:
                apart = difference(arrays, theirs[role])
            except ValueError as error:
                raise ValueError(f"{made.id}: {role}: {error}") from None
            if not apart <= limit(made.case.kind):
                raise ValueError(f"{made.id}: {role} are {apart:.1e} away from what is stored")


def _equal(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return (
        a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    )
