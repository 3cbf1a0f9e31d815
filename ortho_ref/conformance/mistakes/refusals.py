"""What has to be refused, and what has not."""

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import Base, Family, Predicate

MISTAKES = Family()
M = MISTAKES.add


def _accepted(case: Case, base: Base) -> Arrays:
    return {"U": np.zeros(1)}


def _invalid(*flaws: str) -> Predicate:
    """An invalid case whose name ends in one of these, or any."""
    return lambda case: case.kind == "invalid" and (not flaws or case.id.endswith(flaws))


M("accepts-all", "nothing refused", _invalid(), _accepted)
M("accepts-not-skew", "a matrix taken that is not skew", _invalid("not-skew"), _accepted)
M("accepts-nan", "NaN taken", _invalid("nan"), _accepted)
M("accepts-shapes", "wrong shapes taken", _invalid("shape"), _accepted)


def _refused(case: Case, base: Base) -> Arrays:
    raise ValueError("refused")


M("refuses-all", "everything refused", _invalid(), _refused)
