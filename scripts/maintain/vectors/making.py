"""How a case becomes a vector: inputs drawn, the answer computed, confirmed, and compared with what is stored."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.conformance.cases import drawing, initial, reference
from ortho_ref.conformance.cases.case import Arrays, Case, Vector
from ortho_ref.conformance.compare import scales, tolerance
from scripts.maintain.vectors.spec import Spec, equations_of

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


def answer(case: Case) -> Arrays:
    """What is expected of a case."""
    return initial.expected_of(case.config) if case.kind == "initial" else reference.outputs(case)


def conditioned(spec: Spec, inputs: Arrays) -> bool:
    """Whether the answer is there, is above noise and follows small changes of its inputs."""
    own = answer(spec.case(inputs))
    if not all(np.abs(array).max() > spec.least or name in spec.zeros for name, array in own.items()):
        return False
    rng = np.random.default_rng(0)
    moved = {name: _moved(name, array, rng) for name, array in inputs.items()}
    return difference(answer(spec.case(moved)), own) < MOVED


def _moved(name: str, array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    size = min(1.0, float(np.abs(array).max(initial=0)))  # of small inputs less
    noise = 1e-5 * size * rng.standard_normal(array.shape) * (array != 0)  # zeros of V and A are no entries
    return array + (noise - np.swapaxes(noise, 0, 1) if name.endswith((".A", "A0")) else noise)


def vector(spec: Spec) -> Vector:
    """The vector of a new case, by the first draw that is well conditioned; not confirmed yet."""
    for attempt in range(ATTEMPTS):
        drawn = spec.drawn(attempt)
        inputs = drawing.inputs_of(drawn)
        if conditioned(spec, inputs):
            expected = answer(spec.case(inputs))
            case = replace(spec.case(inputs), outputs={name: array.shape for name, array in expected.items()})
            drawn |= {"sha256": drawing.hash_of(inputs), "checks": drawing.checks_of(expected)}
            return Vector(case, expected, {}, {}, tuple(equations_of(case)), spec.why, (), {}, drawn)
    raise ValueError(f"{spec.id}: no well-conditioned inputs in {ATTEMPTS} draws")


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


def entry(made: Vector, kills: Sequence[str], confirmation: dict[str, Any]) -> dict[str, Any]:
    """A new case's entry in the manifest."""
    return {
        "id": made.id,
        "kind": made.case.kind,
        "config": made.case.config,
        **{role: [] for role in ("inputs", "expected", "low", "high")},
        "equations": list(made.equations),
        "why": made.why,
        "kills": list(kills),
        "confirmed": confirmation,
        "drawn": made.drawn,
        "withdrawn": None,
    }


def compared(known: Vector, spec: Spec | None) -> None:
    """ValueError where the answer of a case is no longer what is stored, or its spec is another case's."""
    if spec is not None and (spec.kind, spec.config) != (known.case.kind, known.case.config):
        raise ValueError(f"{known.id}: its kind or config is not the stored one; give the changed case another name")
    if spec is not None and known.drawn is not None:
        inputs = drawing.inputs_of(known.drawn | {"arrays": spec.arrays})
        if drawing.hash_of(inputs) != known.drawn["sha256"]:
            raise ValueError(f"{known.id}: its inputs are not those stored; give the changed case another name")
    try:
        apart = difference(answer(known.case), known.expected)
    except ValueError as error:
        raise ValueError(f"{known.id}: {error}") from None
    if not apart <= limit(known.case.kind):
        raise ValueError(f"{known.id}: the answer is {apart:.1e} away from what is stored")
