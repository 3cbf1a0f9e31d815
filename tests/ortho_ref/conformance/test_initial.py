"""Initial values by range and moments: what is right passes by whatever seed, what is near fails."""

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.initial import judged

UNIFORM = {"is": "uniform", "shape": [5, 4], "low": -0.5, "high": 0.5}
NORMAL = {"is": "normal", "shape": [5, 4], "mean": 0.0, "deviation": 0.1}
DRAWS = (300, 5, 4)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_right_passes(seed):
    rng = np.random.default_rng(seed)
    assert judged(UNIFORM, rng.uniform(-0.5, 0.5, DRAWS), 1e-9)[0] <= 1
    assert judged(NORMAL, 0.1 * rng.standard_normal(DRAWS), 1e-9)[0] <= 1


@pytest.mark.parametrize(
    ("entry", "draw"),
    [
        (UNIFORM, lambda rng: rng.uniform(-0.51, 0.51, DRAWS)),
        (UNIFORM, lambda rng: rng.uniform(-0.45, 0.45, DRAWS)),
        (UNIFORM, lambda rng: np.clip(0.29 * rng.standard_normal(DRAWS), -0.5, 0.5)),
        (UNIFORM, lambda rng: np.repeat(rng.uniform(-0.5, 0.5, (1, 5, 4)), 300, axis=0)),
        (NORMAL, lambda rng: 0.11 * rng.standard_normal(DRAWS)),
        (NORMAL, lambda rng: rng.uniform(-0.1732, 0.1732, DRAWS)),
        (NORMAL, lambda rng: 0.01 + 0.1 * rng.standard_normal(DRAWS)),
    ],
)
def test_what_is_near_fails(entry, draw):
    """Another range, another distribution of the same moments, copies, another mean; and it is said in words."""
    off, remark = judged(entry, draw(np.random.default_rng(0)), 1e-9)
    assert off > 1
    assert remark


def test_a_forget_bias_of_0_is_said():
    def run(case):
        found = reference.outputs(case)
        return found | {"b_f": found["b_f"] * 0} if "b_f" in found else found

    report = check(run, "initial/lstm")
    assert "b_f is 0; expected 1" in str(report)
    assert not any(result.wrong for result in report.results)  # no draw's entry has a right value
    assert check(reference.outputs, "initial/lstm").ok
