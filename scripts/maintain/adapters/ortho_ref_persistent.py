"""ortho_ref's persistent kernels, on a GPU: every case of a cell is to pass.

python -m ortho_ref.conformance run --adapter scripts/maintain/adapters/ortho_ref_persistent.py --only 'cell/*'
"""

from ortho_ref.conformance import Case
from ortho_ref.conformance.cases.case import Arrays
from ortho_ref.fused import persistent
from scripts.maintain.adapters.ortho_ref_fused import cell


def run(case: Case) -> Arrays | None:
    """A cell over a sequence, and its gradients."""
    return cell(case, persistent, "gpu") if case.kind == "cell" else None
