"""Nearly right code: the kit sees it, and says nothing of it that is not so."""

import pytest

from ortho_ref.conformance.mistakes import MISTAKES
from tests.ortho_ref.conformance.everyday_bugs import EVERYDAY
from tests.ortho_ref.conformance.near_misses import NEAR_MISSES, NONE, RIGHT, WRONG, NearMiss, counted, judged, moved

#: Those of `make test`; `make fuzz` has all. What was once said to be float32, and is not, is among them.
SOME = {
    *(miss.name for miss in (*NEAR_MISSES[::8], *EVERYDAY[::5])),
    *(
        "peepholes",
        "c clipped to [-1, 1]",
        "(I + A)^-1 in float32",
        "the sigmoid clipped to [1e-5, 1 - 1e-5]",
        "AMSGrad",
    ),
    *("exp by 18 terms of Taylor's series", "|v|^2 + 1e-6 in Householder's reflections", "a map that is 5e-6 off"),
}


@pytest.mark.parametrize("miss", [*NEAR_MISSES, *EVERYDAY], ids=lambda miss: miss.name)
def test_it_is_seen_and_not_called_what_it_is_not(miss, request):
    """A sentence for each; the name of those that have a number, and float32 where it is so."""
    if miss.name not in SOME and request.config.getoption("--hypothesis-profile", None) != "random":
        pytest.skip("of make fuzz")
    found = judged(miss)
    assert found.sentences
    assert found.verdict != WRONG, found.sentences
    assert found.verdict == RIGHT or not (miss.right or miss.says)


def test_a_wrong_name_counts_as_wrong():
    """And a right one as right, which is how they are told apart."""
    outputs = next(m for m in MISTAKES if m.name == "mse-half").outputs
    for right, verdict in (((), WRONG), (("mse-half",), RIGHT)):
        assert judged(NearMiss("half", "loss/mean_squared_error", outputs, right=right)).verdict == verdict
    nothing = judged(NearMiss("noise", "parametrization/tunable_rotations", moved(5e-6)))
    assert nothing.verdict == NONE
    assert counted([nothing]) == "1 near-misses: 0 right, 0 close, 1 none, 0 wrong"
