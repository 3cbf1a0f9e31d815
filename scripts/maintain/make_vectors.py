"""Make the conformance kit's vectors: python -m scripts.maintain.make_vectors [--check | --withdraw ID --why WHY]

Every case of scripts/maintain/vectors/conformance_cases.py is computed in float64 by ortho_ref and, before it is
written, once more by a second route (`oracle`; needs torch).  What is stored stays as it is, to the bit: a case that is
there is compared, never changed.  A wrong one is withdrawn, and comes again under another name.

--check writes nothing: every case again, compared with what is stored, and confirmed where torch is installed.
"""

import hashlib
import importlib.util
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer
from safetensors.numpy import load, save

from ortho_ref import files
from ortho_ref.conformance.cases import case_files as stored
from ortho_ref.conformance.cases.case import KINDS, Arrays, Vector
from ortho_ref.conformance.cases.case_files import FORMAT, MANIFEST, VECTORS, Manifest, file_of, key_of
from scripts.maintain.vectors.conformance_cases import specs
from scripts.maintain.vectors.kills import kills
from scripts.maintain.vectors.making import compared, confirmed, drawn, entry, roles, vector
from scripts.maintain.vectors.spec import Spec
from scripts.program import fail, run, say

CASES = "scripts/maintain/vectors/conformance_cases.py"
ROLES = ("inputs", "expected", "low", "high")


def write(vectors: list[Vector], withdrawn: list[dict[str, Any]], arrays: dict[str, Arrays]) -> None:
    """The manifest and the files it names."""
    VECTORS.mkdir(exist_ok=True)
    hashes = {}
    for kind in KINDS:
        own = arrays.get(kind, {})
        if own:
            data = save(dict(sorted(own.items())))
            files.write(VECTORS / file_of(kind), data)
            hashes[file_of(kind)] = hashlib.sha256(data).hexdigest()
    entries = [entry(made) for made in vectors] + withdrawn
    files.write_sealed(VECTORS / MANIFEST, FORMAT, {"files": hashes, "cases": entries}, Manifest, indent=0)


def to_make(old: Collection[str], gone: list[dict[str, Any]], withdraw: str | None) -> list[Spec]:
    """Every case but the one that is to be withdrawn.

    ValueError where one that is stored has gone, and where a withdrawn name is used again.
    """
    named = {spec.id: spec for spec in specs()}
    if lost := sorted(set(old) - set(named) - {withdraw}):
        raise ValueError(f"stored, but not in {CASES}: {', '.join(lost)}; withdraw them")
    if again := sorted(set(named) & {e["id"] for e in gone}):
        raise ValueError(f"withdrawn, and in {CASES}: {', '.join(again)}; give other names")
    return [spec for spec in named.values() if spec.id != withdraw]


def remade(spec: Spec, known: Vector | None, check: bool, can_confirm: bool) -> tuple[Vector, float]:
    """A case's vector, with the arrays that are stored where it is `known`, and how far the second route is from it.

    ValueError where it is not what is stored, cannot be confirmed, or, with check, would be written otherwise.
    """
    # a stored case keeps its inputs: which draw is the first good one may hang on a rounding
    made = vector(spec, drawn(spec) if known is None else known.case.inputs)
    if known is not None:
        compared(made, known)
    elif check:
        raise ValueError(f"{spec.id} is not stored yet; run without --check")
    elif not can_confirm:
        raise ValueError(f"{spec.id} is new and cannot be confirmed: torch is not installed")
    confirmation = confirmed(made) if can_confirm else known.confirmed if known is not None else {}
    values = made if known is None else known
    seen = tuple(kills(values))
    if check and known is not None and (seen != known.kills or spec.equations != list(known.equations)):
        raise ValueError(f"{spec.id}: its kills or equations are not those stored; run without --check")
    stays = confirmation if known is None else known.confirmed
    equations, why = tuple(spec.equations), spec.why
    result = replace(values, equations=equations, why=why, kills=seen, confirmed=stays)
    return result, confirmation["error"]


def arrays_by_kind(vectors: list[Vector], withdrawn: list[dict[str, Any]]) -> dict[str, Arrays]:
    """What the files hold: the vectors' arrays, and those that withdrawn cases have there."""
    arrays: dict[str, Arrays] = {}
    for e in withdrawn:
        if e["drawn"] is not None:
            continue
        whole = load((VECTORS / file_of(e["kind"])).read_bytes())
        keys = [key_of(e["id"], role, name) for role in ROLES for name in e[role]]
        arrays.setdefault(e["kind"], {}).update({key: whole[key] for key in keys})
    for made in vectors:
        if made.drawn is not None:
            continue
        own = arrays.setdefault(made.case.kind, {})
        for role, values_of_role in roles(made).items():
            own |= {key_of(made.id, role, name): np.array(a, order="C") for name, a in values_of_role.items()}
    return arrays


def main(
    check: Annotated[bool, typer.Option("--check", help="Compare and confirm; write nothing.")] = False,
    withdraw: Annotated[str | None, typer.Option(help="Withdraw this wrong case.")] = None,
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
    try:
        made = [remade(spec, old.get(spec.id), check, can_confirm) for spec in to_make(old, gone, withdraw)]
    except ValueError as error:
        fail(str(error))
    result, worst = [v for v, _ in made], max((error for _, error in made), default=0.0)
    if withdraw is not None:
        entry_of = next(e for e in manifest["cases"] if e["id"] == withdraw)
        gone.append({**entry_of, "withdrawn": why})
    if not check:
        write(result, gone, arrays_by_kind(result, gone))
    how = f"confirmed to {worst:.1e}" if can_confirm else "not confirmed again: torch is not installed"
    size = sum(path.stat().st_size for path in VECTORS.iterdir())
    say(f"{len(result)} cases, {len(result) - len(old) if not check else 0} new; {how}; {size / 1e6:.2f} MB")


if __name__ == "__main__":
    run(main)
