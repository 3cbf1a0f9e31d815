"""The second route of updates against ortho_ref, with every option; the others: test_autograd and test_mistakes."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from gradients.problem import relative_error, standard_normal
from ortho_ref.conformance.cases.case import parted as pairs
from ortho_ref.parametrizations import GeodesicUnitary, NeumannCayley, ScaledCayley
from ortho_ref.parametrizations.cayley import signs
from ortho_ref.training.optimizers import SGD, Adam, RMSprop
from scripts.maintain.oracle.second_route import second_route


def compare(kind, config, inputs, expected, tolerance=1e-12):
    """Every output by its name and shape, to `tolerance` of its largest entry."""
    before = {name: array.copy() for name, array in inputs.items()}
    _, outputs = second_route(kind, config, inputs)
    assert all((inputs[name] == array).all() for name, array in before.items())
    assert set(outputs) == set(expected)
    for name, array in expected.items():
        got = outputs[name]
        assert (got.shape, got.dtype.kind) == (np.shape(array), np.asarray(array).dtype.kind), name
        floor = 1e-3 * max(float(np.abs(value).max(initial=0)) for value in expected.values())
        assert relative_error(got, array, floor) < tolerance, name


KINDS = {"sgd": SGD, "adam": Adam, "rmsprop": RMSprop}
OPTIMIZERS = {
    "sgd": {"momentum": 0.0, "weight_decay": 0.0},
    "sgd, momentum": {"momentum": 0.9, "weight_decay": 0.1},
    "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0},
    "adam, weight decay": {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3, "weight_decay": 0.1},
}
RMSPROP = {"decay": 0.9, "initial": 0.0, "epsilon": 1e-8, "epsilon_inside": False, "weight_decay": 0.0}
OPTIMIZERS |= {
    "rmsprop": RMSPROP,
    "rmsprop, inside": RMSPROP | {"epsilon": 1e-4, "epsilon_inside": True},
    "rmsprop, tensorflow": RMSPROP | {"initial": 1.0, "epsilon": 1e-10, "epsilon_inside": True, "weight_decay": 0.1},
    "rmsprop, theano": RMSPROP | {"initial": 1e-3, "epsilon": 0.0},
    "rmsprop, theano inside": RMSPROP | {"initial": 1e-3, "epsilon": 0.0, "epsilon_inside": True, "weight_decay": 0.1},
}
OPTIMIZERS = {
    name: {"name": name.split(",")[0], "learning_rate": 0.05 if name.startswith("sgd") else 0.01, **options}
    for name, options in OPTIMIZERS.items()
}


def optimizer_of(config):
    """ortho_ref's."""
    return KINDS[config["name"]](**{key: value for key, value in config.items() if key != "name"})


def skew(rng, n):
    """A random skew matrix."""
    X = np.triu(rng.standard_normal((n, n)), 1)
    return X - X.T


def follow(p, params, buffers, gradients, optimizer):
    """Parameters and state after each update."""
    for dU in gradients:
        deltas = {
            name: optimizer.delta(name, params[name], gradient)
            for name, gradient in p.pullback(params, buffers, dU).items()
        }
        params, buffers = p.retract(params, buffers, deltas)
        yield params, buffers


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("order", "reset_every", "scale"), [(1, None, 1), (2, 2, 1), (3, 4, 1), (2, None, 200)])
def test_update_by_the_series(name, order, reset_every, scale):
    """Algorithm 1 with every order; scale 200: of the learning rate, so that resets are forced."""
    rng, n, k = np.random.default_rng(order), 5, 6
    optimizer = OPTIMIZERS[name] | {"learning_rate": scale * OPTIMIZERS[name]["learning_rate"]}
    p, A, dU = NeumannCayley(2, order, reset_every), skew(rng, n), rng.standard_normal((k, n, n))
    zero = {"U": A, "D": signs(n, 2, float), "step": 0, "forced_resets": 0}
    steps = list(follow(p, {"A": A}, p.rebuild({"A": A}, zero), dU, optimizer_of(optimizer)))
    assert (steps[-1][1]["forced_resets"] > 0) == (scale > 1)
    expected = {"A": np.array([params["A"] for params, _ in steps])}
    expected |= {name: np.array([state[name] for _, state in steps]) for name in ("A_tilde", "U")}
    config = {"algorithm": "neumann_cayley", "negative_ones": 2, "order": order, "reset_every": reset_every}
    compare("update", config | {"optimizer": optimizer}, {"A0": A, "dU": dU}, expected, 1e-9)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_update_by_the_exact_inverse(name):
    """scaled_cayley."""
    rng, n = np.random.default_rng(0), 5
    p, A, dU = ScaledCayley(3), skew(rng, n), rng.standard_normal((6, n, n))
    state = p.rebuild({"A": A}, {"U": A, "D": signs(n, 3, float)})
    steps = list(follow(p, {"A": A}, state, dU, optimizer_of(OPTIMIZERS[name])))
    expected = {"A": np.array([params["A"] for params, _ in steps])}
    expected |= {name: np.array([state[name] for _, state in steps]) for name in ("A_tilde", "U")}
    config = {"algorithm": "scaled_cayley", "negative_ones": 3, "optimizer": OPTIMIZERS[name]}
    compare("update", config, {"A0": A, "dU": dU}, expected, 1e-9)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_update_along_the_geodesic(name):
    """geodesic_unitary."""
    rng, n = np.random.default_rng(0), 5
    p = GeodesicUnitary()
    params, buffers = p.init(rng, n, dtype=np.float64)
    dU = standard_normal(rng, (6, n, n), True)
    steps = list(follow(p, params, buffers, dU, optimizer_of(OPTIMIZERS[name])))
    config = {"algorithm": "geodesic_unitary", "optimizer": OPTIMIZERS[name]}
    inputs = {"X0": pairs(params["X"]), "dU": pairs(dU)}
    compare("update", config, inputs, {"U": pairs(np.array([buffers["U"] for _, buffers in steps]))}, 1e-9)


@pytest.mark.parametrize("kind", ["initial", "Cell"])
def test_kinds_without_a_second_route(kind):
    """What is drawn has no outputs that are right to the bit."""
    with pytest.raises(ValueError, match="kind is"):
        second_route(kind, {}, {})
