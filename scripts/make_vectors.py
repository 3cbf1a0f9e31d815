"""Make the conformance kit's vectors: python -m scripts.make_vectors [--check | --withdraw ID --why WHY]

Every case of scripts/conformance_cases.py is computed in float64 by ortho_ref and, before it is written, once more by a
second route (scripts/second_route.py; needs torch).  What is stored stays as it is, to the bit: a case that is there
already is compared, never changed, and names are only added.  A case that is wrong is withdrawn and comes again under
another name.

--check writes nothing: every case again, compared with what is stored, and confirmed where torch is installed.
"""

import hashlib
import importlib.util
import json
from typing import Annotated, Any

import numpy as np
import typer
from safetensors.numpy import load, save

from ortho_ref import checkpoint
from ortho_ref.conformance import case as stored
from ortho_ref.conformance.case import FORMAT, KINDS, MANIFEST, VECTORS, Arrays, Vector, file_of, key_of
from ortho_ref.conformance.compare import MINIMUM, scales
from ortho_ref.conformance.kills import kills
from scripts.conformance_cases import Spec, specs
from scripts.program import fail, run, say

#: How far a case may be from what is stored, and from the second route, relative to its scale.
SAME = {"update": 1e-9, "train": 1e-9}
#: Inputs moved by 1e-5 move outputs by less than this: so float32 can pass, and no kink is near.
MOVED = 1e-3
ATTEMPTS = 300
ROLES = ("inputs", "expected", "low", "high", "control")


def difference(ours: Arrays, theirs: Arrays, own: dict[str, float]) -> float:
    """The largest difference of two answers, on the scales of the second.  ValueError for other names or shapes."""
    if {n: a.shape for n, a in ours.items()} != {n: a.shape for n, a in theirs.items()}:
        raise ValueError(f"outputs {sorted(ours)} and {sorted(theirs)}, or their shapes, differ")
    size = scales(theirs, own)
    return max(float(np.abs(ours[name] - theirs[name]).max(initial=0)) / size[name] for name in theirs)


def limit(kind: str) -> float:
    """The largest difference that counts as none."""
    return SAME.get(kind, 1e-12)


def conditioned(spec: Spec, inputs: Arrays) -> bool:
    """Whether the answer is there, is above noise and follows small changes of its inputs."""
    if spec.kind in ("task", "invalid"):
        return True
    answer = spec.outputs(inputs)
    largest = {name: float(np.abs(array).max()) for name, array in answer.items()}
    if not all(size > spec.scales.get(name, 1.0) * MINIMUM or name in spec.zeros for name, size in largest.items()):
        return False
    if not spec.smooth:
        return True
    rng = np.random.default_rng(0)
    moved = {name: _moved(name, array, rng) for name, array in inputs.items()}
    return difference(spec.outputs(moved), answer, spec.scales) < MOVED


def _moved(name: str, array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    noise = 1e-5 * rng.standard_normal(array.shape) * (array != 0)  # zeros of V and A are no entries
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
    expected = {} if spec.kind == "invalid" else spec.outputs(inputs)
    low, high = spec.between(inputs) if spec.between is not None else ({}, {})
    flawed = spec.flaw(inputs) if spec.flaw is not None else inputs
    case = spec.case(flawed)
    shapes = {name: array.shape for name, array in expected.items()}
    own = stored.Case(case.id, case.kind, case.config, case.inputs, shapes)
    control = inputs if spec.flaw is not None else {}
    return Vector(own, expected, spec.scales, low, high, control, tuple(spec.equations), spec.why, (), {})


def confirmed(made: Vector) -> dict[str, Any]:
    """The second route's name, and how far it is from the answer.  ValueError where that is too far."""
    from scripts.second_route import second_route

    if made.case.kind == "invalid":
        return {"route": "refused, and accepted without the flaw, by ortho_ref", "error": 0.0}
    case = made.given("float64")
    route, outputs = second_route(case.kind, case.config, case.inputs)
    error = difference(outputs, made.expected, made.scales)
    if not error <= limit(made.case.kind):
        raise ValueError(f"{made.id}: {route} is {error:.1e} away; allowed: {limit(made.case.kind):.0e}")
    return {"route": route, "error": float(f"{error:.1e}")}


def roles(made: Vector) -> dict[str, Arrays]:
    """The arrays of a vector, by their role."""
    return {
        "inputs": made.case.inputs,
        "expected": made.expected,
        "low": made.low,
        "high": made.high,
        "control": made.control,
    }


def entry(made: Vector) -> dict[str, Any]:
    """A vector's entry in the manifest."""
    return {
        "id": made.id,
        "kind": made.case.kind,
        "config": made.case.config,
        **{role: sorted(arrays) for role, arrays in roles(made).items()},
        "scales": made.scales,
        "equations": list(made.equations),
        "why": made.why,
        "kills": list(made.kills),
        "confirmed": made.confirmed,
        "withdrawn": None,
    }


def compared(made: Vector, old: Vector) -> None:
    """ValueError where a case is not what is stored under its name."""
    if made.case.config != old.case.config:
        raise ValueError(f"{made.id}: its config is not the stored one; give the changed case another name")
    if made.case.kind != old.case.kind or made.scales != old.scales:
        raise ValueError(f"{made.id}: its kind or scales are not those stored; give the changed case another name")
    theirs = roles(old)
    for role, arrays in roles(made).items():
        if role in ("inputs", "control"):
            if not all(
                _equal(arrays.get(name), theirs[role].get(name)) for name in arrays.keys() | theirs[role].keys()
            ):
                raise ValueError(f"{made.id}: its {role} are not those stored")
        elif arrays or theirs[role]:
            try:
                apart = difference(arrays, theirs[role], made.scales)
            except ValueError as error:
                raise ValueError(f"{made.id}: {role}: {error}") from None
            if not apart <= limit(made.case.kind):
                raise ValueError(f"{made.id}: {role} are {apart:.1e} away from what is stored")


def _equal(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return (
        a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    )


def write(vectors: list[Vector], withdrawn: list[dict[str, Any]], arrays: dict[str, Arrays]) -> None:
    """The manifest and the files it names."""
    VECTORS.mkdir(exist_ok=True)
    files = {}
    for kind in KINDS:
        own = arrays.get(kind, {})
        if own:
            data = save(dict(sorted(own.items())))
            checkpoint.write(VECTORS / file_of(kind), data)
            files[file_of(kind)] = hashlib.sha256(data).hexdigest()
    entries = [entry(made) for made in vectors] + withdrawn
    manifest = {"format": FORMAT, "files": files, "cases": entries}
    checkpoint.write(VECTORS / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def main(
    check: Annotated[bool, typer.Option(help="Compare and confirm; write nothing.")] = False,
    withdraw: Annotated[str | None, typer.Option(help="A case that is wrong, to be run no more.")] = None,
    why: Annotated[str | None, typer.Option(help="Why it is withdrawn.")] = None,
) -> None:
    """Make the vectors of the conformance kit, or check them."""
    if (withdraw is None) != (why is None) or (check and withdraw is not None):
        fail("--withdraw ID and --why WHY go together, and not with --check.")
    there = stored.vectors() if (VECTORS / MANIFEST).exists() else ()
    manifest = stored.read_manifest() if there else {"cases": []}
    old, gone = {v.id: v for v in there}, [e for e in manifest["cases"] if e["withdrawn"]]
    if withdraw is not None and withdraw not in old:
        fail(f"--withdraw {withdraw} is no case of the kit; `python -m ortho_ref.conformance list` has them.")
    can_confirm = importlib.util.find_spec("torch") is not None
    named = {spec.id: spec for spec in specs()}
    try:
        if lost := sorted(set(old) - set(named) - {withdraw}):
            raise ValueError(f"stored, but not in scripts/conformance_cases.py: {', '.join(lost)}; withdraw them")
        if again := sorted(set(named) & {e["id"] for e in gone}):
            raise ValueError(f"withdrawn, and in scripts/conformance_cases.py: {', '.join(again)}; give other names")
        result, worst = [], 0.0
        for spec in named.values():
            if spec.id == withdraw:
                continue
            # a stored case keeps its inputs: which draw is the first good one may hang on a rounding
            known = old.get(spec.id)
            inputs = drawn(spec) if known is None else (known.control or known.case.inputs)
            made = vector(spec, inputs)
            if known is not None:
                compared(made, known)
            elif check:
                raise ValueError(f"{spec.id} is not stored yet; run without --check")
            elif not can_confirm:
                raise ValueError(f"{spec.id} is new and cannot be confirmed: torch is not installed")
            confirmation = confirmed(made) if can_confirm else known.confirmed if known is not None else {}
            worst = max(worst, confirmation["error"])
            values = made if known is None else known
            seen = tuple(kills(values))
            if check and known is not None and (seen != known.kills or spec.equations != list(known.equations)):
                raise ValueError(f"{spec.id}: its kills or equations are not those stored; run without --check")
            result.append(
                Vector(
                    values.case,
                    values.expected,
                    spec.scales,
                    values.low,
                    values.high,
                    values.control,
                    tuple(spec.equations),
                    spec.why,
                    seen,
                    confirmation if known is None else known.confirmed,
                )
            )
    except ValueError as error:
        fail(str(error))
    if withdraw is not None:
        entry_of = next(e for e in manifest["cases"] if e["id"] == withdraw)
        gone.append({**entry_of, "withdrawn": why})
    how = f"confirmed to {worst:.1e}" if can_confirm else "not confirmed again: torch is not installed"
    if not check:
        arrays: dict[str, Arrays] = {}
        for e in gone:
            whole = load((VECTORS / file_of(e["kind"])).read_bytes())
            keys = [key_of(e["id"], role, name) for role in ROLES for name in e[role]]
            arrays.setdefault(e["kind"], {}).update({key: whole[key] for key in keys})
        for made in result:
            own = arrays.setdefault(made.case.kind, {})
            for role, values_of_role in roles(made).items():
                own |= {key_of(made.id, role, name): np.array(a, order="C") for name, a in values_of_role.items()}
        write(result, gone, arrays)
    size = sum(path.stat().st_size for path in VECTORS.iterdir())
    say(f"{len(result)} cases, {len(result) - len(old) if not check else 0} new; {how}; {size / 1e6:.2f} MB")


if __name__ == "__main__":
    run(main)
