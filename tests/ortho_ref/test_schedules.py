"""Learning-rate schedules: their values at the corners, and what they refuse."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortho_ref.schedules import Constant, LinearToZero, Step, as_schedule


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


def test_schedules_compare_and_print_by_their_options():
    """Frozen dataclasses."""
    assert Step(0.1, 3) == Step(0.1, 3, 0.1) != Step(0.1, 4)
    assert repr(LinearToZero(0.1, 5)) == "LinearToZero(rate=0.1, updates=5)"


@pytest.mark.parametrize("bad", [-1e-3, -math.inf, math.inf, math.nan])
def test_bad_rates(bad):
    """Named with the value, in every schedule and for a bare number."""
    for make in (Constant, lambda rate: LinearToZero(rate, 3), lambda rate: Step(rate, 3)):
        with pytest.raises(ValueError, match=rf"^rate is {bad}; allowed: a finite number >= 0$"):
            make(bad)
    with pytest.raises(ValueError, match=rf"^learning_rate is {bad}; allowed: a finite number >= 0 or a schedule$"):
        as_schedule(bad)


@pytest.mark.parametrize("bad", [0, -1, 2.5, 2.0, math.inf, math.nan, True])
def test_bad_counts(bad):
    """Integers from 1 on."""
    with pytest.raises(ValueError, match=rf"^updates is {bad}; allowed: an integer >= 1$"):
        LinearToZero(0.1, bad)
    with pytest.raises(ValueError, match=rf"^every is {bad}; allowed: an integer >= 1$"):
        Step(0.1, bad)


@pytest.mark.parametrize("bad", [0, -0.5, 1.5, math.inf, math.nan])
def test_bad_factors(bad):
    """(0, 1]."""
    with pytest.raises(ValueError, match=rf"^factor is {bad}; allowed: 0 < factor <= 1$"):
        Step(0.1, 3, bad)


@pytest.mark.parametrize("schedule", [Constant(0.1), LinearToZero(0.1, 3), Step(0.1, 3)])
def test_a_schedule_is_its_numbers(schedule):
    """Two of the same numbers are equal and can be keys; none can be changed."""
    assert dataclasses.replace(schedule) == schedule
    assert hash(dataclasses.replace(schedule)) == hash(schedule)
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.rate = 0.2
