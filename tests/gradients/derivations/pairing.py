"""What the tests of derivations share: the pairing of a gradient with a change, changes by differences, draws."""

import numpy as np
from hypothesis import given, settings, strategies as st

from gradients.problem import random_problem, relative_error, standard_normal


def paired(gradient, change):
    """<gradient, change> = Re tr(gradient^H change), of arrays of one shape."""
    assert np.shape(gradient) == np.shape(change)
    return float((np.conj(gradient) * change).real.sum())


def change_of(f, h=2e-5):
    """f'(0) of f(s), an array or a number, by differences of fourth order; h is less than any distance from a kink."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def same(ours, theirs, scale=1.0):
    """Two analytic forms agree to 1e-12 of their largest entry, or of `scale` where sums of that size cancel."""
    return relative_error(np.asarray(ours), np.asarray(theirs), scale) < 1e-12


def as_differences(ours, f):
    """A change agrees with that of f(s) at s = 0 to 1e-7."""
    return relative_error(np.asarray(ours), np.asarray(change_of(f)), 1e-3) < 1e-7


def cotangents_hold(loss, cotangents, draw):
    """Each cotangent, by its name, pairs with a change of that quantity alone as the loss changes; loss(shift) takes
    what is added to the quantities, by their names."""
    for name, cotangent in cotangents.items():
        change = draw.like(cotangent)
        assert as_differences(paired(cotangent, change), lambda s, name=name, by=change: loss({name: s * by})), name


def moved(shift):
    """A function that gives a quantity of a name with its shift added, if there is one."""
    return lambda name, value: value + shift.get(name, 0)


def one_step(cell, seed):
    """A step of one sequence at a point off the kinks: weights, x, h_{t-1}, and g, all of dL/dh_t."""
    problem = random_problem(cell, np.random.default_rng(seed), T=1, B=1)
    return problem.weights, problem.x[0, 0], problem.h0[0], problem.dh[0, 0]


class Draw:
    """Standard normals by their shape, from one seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def real(self, *shape):
        return np.asarray(standard_normal(self.rng, shape, False))

    def complex(self, *shape):
        return np.asarray(standard_normal(self.rng, shape, True))

    def like(self, array):
        return np.asarray(standard_normal(self.rng, np.shape(array), np.iscomplexobj(array)))

    def skew(self, n):
        X = self.real(n, n)
        return X - X.T

    def gates(self, *shape):
        """Numbers between 0 and 1."""
        return self.rng.uniform(0.05, 0.95, shape)


def drawn(test):
    """Runs a test on draws, with n from 1 to 6."""
    arguments = given(draw=st.builds(Draw, st.integers(0, 2**32 - 1)), n=st.integers(1, 6))
    return settings(max_examples=12)(arguments(test))
