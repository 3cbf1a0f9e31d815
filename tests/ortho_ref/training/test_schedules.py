"""Learning-rate schedules: their values at the corners, and what they refuse."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ortho_ref.training.schedules import Constant, LinearToZero, Step, as_schedule


@settings(max_examples=20)
@given(rate=st.floats(0, 1e6), k=st.integers(0, 10**9))
def test_constant(rate, k):
    """The rate at every update; a number is a constant schedule, a schedule stays what it is."""
    assert Constant(rate)(k) == rate == as_schedule(rate)(k)
    schedule = Step(rate, 3)
    assert as_schedule(schedule) is schedule
    assert as_schedule(math.sqrt) is math.sqrt


def test_linear_to_zero():
    """Equal steps: the whole rate at the first update, rate / updates at the last of them, exactly 0 from there on."""
    assert [LinearToZero(8.0, 4)(k) for k in (0, 1, 2, 3, 4, 5, 1000)] == [8.0, 6.0, 4.0, 2.0, 0.0, 0.0, 0.0]
    assert [LinearToZero(8.0, 1)(k) for k in (0, 1, 2)] == [8.0, 0.0, 0.0]
    assert LinearToZero(0.3, 7)(5) == pytest.approx(0.3 * 2 / 7, rel=1e-15)


def test_step():
    """The factor comes in at updates every, 2 every, ...: not one update before."""
    schedule = Step(8.0, 3, 0.5)
    assert [schedule(k) for k in range(10)] == [8.0] * 3 + [4.0] * 3 + [2.0] * 3 + [1.0]
    assert [Step(1.0, 1)(k) for k in (0, 1, 2)] == pytest.approx([1.0, 0.1, 0.01], rel=1e-15)
    assert Step(2.0, 5, 1)(10**9) == 2.0
    assert Step(1.0, 1, 0.1)(10**6) == 0.0  # underflows without an error


@pytest.mark.parametrize("schedule", [Constant, lambda rate: LinearToZero(rate, 3), lambda rate: Step(rate, 3)])
@pytest.mark.parametrize("rate", [1, 0, np.float32(0.5), np.float64(0.5)])
def test_rates_are_plain_numbers(schedule, rate):
    """Python floats: a NumPy scalar would turn float32 deltas into float64."""
    for k in (0, 2, np.int64(5)):
        assert type(schedule(rate)(k)) is float
    assert schedule(rate)(0) == rate


BAD = [
    *(("rate", rate, "a finite number >= 0") for rate in (-1e-3, -math.inf, math.inf, math.nan)),
    *((name, n, "an integer >= 1") for name in ("updates", "every") for n in (0, 2.0, True)),
    *(("factor", factor, "0 < factor <= 1") for factor in (0, -0.5, 1.5, math.inf, math.nan)),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_what_is_refused(name, value, allowed):
    """Named with the value, in every schedule that has the option; a rate also as a bare number."""
    for good in (Constant(0.1), LinearToZero(0.1, 3), Step(0.1, 3)):
        if hasattr(good, name):
            with pytest.raises(ValueError, match=f"^{name} is {value}; allowed: {allowed}$"):
                dataclasses.replace(good, **{name: value})
    if name == "rate":
        with pytest.raises(ValueError, match=f"^learning_rate is {value}; allowed: {allowed} or a schedule$"):
            as_schedule(value)


@pytest.mark.parametrize("schedule", [Constant(0.1), LinearToZero(0.1, 3), Step(0.1, 3)])
def test_a_schedule_is_its_numbers(schedule):
    """Two of the same numbers are equal, can be keys and say what they are; none can be changed."""
    assert dataclasses.replace(schedule) == schedule != dataclasses.replace(schedule, rate=0.2)
    assert hash(dataclasses.replace(schedule)) == hash(schedule)
    assert repr(schedule).startswith(f"{type(schedule).__name__}(rate=0.1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.rate = 0.2
