"""Make the conformance kit's vectors: python -m scripts.maintain.make_vectors [--check | --withdraw ID --why WHY]

A new case of scripts/maintain/vectors is computed in float64 by ortho_ref and, before it is written, once more by a
second route (`oracle`; needs torch).  What is stored stays as it is, to the bit: a case that is there is compared,
never changed.  A wrong one is withdrawn, and comes again under another name.

--check writes nothing: every case again, compared with what is stored, and confirmed where torch is installed.
"""

import importlib.util
from typing import Annotated, Any

import typer

from ortho_ref import files
from ortho_ref.conformance.cases import case_files as stored
from ortho_ref.conformance.cases.case import KINDS, Vector
from ortho_ref.conformance.cases.case_files import FORMAT, MANIFEST, VECTORS, Manifest
from scripts.maintain.vectors.cases import specs
from scripts.maintain.vectors.kills import kills
from scripts.maintain.vectors.making import compared, confirmed, entry, vector
from scripts.maintain.vectors.spec import Spec, equations_of
from scripts.program import fail, run, say

CASES = "scripts/maintain/vectors"


def again(known: Vector, spec: Spec | None, check: bool, can_confirm: bool) -> tuple[dict[str, Any], float]:
    """Of a case that is stored what its entry says anew, and how far the second route is from it.

    ValueError where it is not what is stored, cannot be confirmed or, with check, would be written otherwise.
    """
    compared(known, spec)
    confirmation = confirmed(known) if can_confirm else known.confirmed
    own = {"kills": kills(known), "equations": equations_of(known.case), "why": known.why if spec is None else spec.why}
    if check and own != {"kills": list(known.kills), "equations": list(known.equations), "why": known.why}:
        raise ValueError(f"{known.id}: its kills, equations or purpose are not those stored; run without --check")
    return own, confirmation["error"]


def added(spec: Spec, check: bool, can_confirm: bool) -> tuple[dict[str, Any], float]:
    """The entry of a case that is new, and how far the second route is from it.  ValueError where it cannot be made."""
    if check:
        raise ValueError(f"{spec.id} is not stored yet; run without --check")
    if not can_confirm:
        raise ValueError(f"{spec.id} is new and cannot be confirmed: torch is not installed")
    made = vector(spec)
    confirmation = confirmed(made)
    return entry(made, kills(made), confirmation), confirmation["error"]


def main(
    check: Annotated[bool, typer.Option("--check", help="Compare and confirm; write nothing.")] = False,
    withdraw: Annotated[str | None, typer.Option(help="Withdraw this wrong case.")] = None,
    why: Annotated[str | None, typer.Option(help="Why it is withdrawn.")] = None,
) -> None:
    """Make the vectors of the conformance kit, or check them."""
    if (withdraw is None) != (why is None) or (check and withdraw is not None):
        fail("--withdraw ID and --why WHY go together, and not with --check.")
    manifest, old = stored.read_manifest(), {v.id: v for v in stored.vectors()}
    if withdraw is not None and withdraw not in old:
        fail(f"--withdraw {withdraw} is no case of the kit; `python -m ortho_ref.conformance list` has them.")
    if withdraw is not None:
        old.pop(withdraw)
    named = {spec.id: spec for spec in specs() if spec.id != withdraw}
    can_confirm, errors, entries = importlib.util.find_spec("torch") is not None, [0.0], []
    try:
        for e in manifest["cases"]:
            if e["id"] in old:
                own, error = again(old[e["id"]], named.pop(e["id"], None), check, can_confirm)
                errors.append(error)
            elif e["id"] in named:
                raise ValueError(f"{e['id']} is withdrawn, and in {CASES}; give it another name")
            else:
                own = {"withdrawn": why} if e["id"] == withdraw else {}
            entries.append({**e, **own})
        for spec in named.values():
            own, error = added(spec, check, can_confirm)
            errors.append(error)
            entries.append(own)
    except ValueError as error:
        fail(str(error))
    if not check:
        entries.sort(key=lambda e: KINDS.index(e["kind"]))
        whole = {"files": manifest["files"], "cases": entries}
        files.write_sealed(VECTORS / MANIFEST, FORMAT, whole, Manifest, indent=0)
    how = f"confirmed to {max(errors):.1e}" if can_confirm else "not confirmed again: torch is not installed"
    size = sum(path.stat().st_size for path in VECTORS.iterdir())
    say(f"{len(old) + len(named)} cases, {len(named)} new; {how}; {size / 1e6:.2f} MB")


if __name__ == "__main__":
    run(main)
