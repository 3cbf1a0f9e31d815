"""The second route of every kind of conformance case against ortho_ref, over random cases and every option."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from gradients.checks import cells
from gradients.map_problem import random_map_problem
from gradients.problem import random_problem, relative_error, standard_normal
from ortho_ref import scan
from ortho_ref.activations import ACTIVATIONS, sigmoid, sigmoid_derivative
from ortho_ref.cells import CELLS as KINDS_OF_CELLS
from ortho_ref.cells.cell import parts_of
from ortho_ref.losses import LOSSES
from ortho_ref.parametrizations import (
    Exponential,
    FFTRotations,
    GeodesicUnitary,
    Householder,
    NeumannCayley,
    ScaledCayley,
    StructuredUnitary,
    TunableRotations,
    VolumePreserving,
)
from ortho_ref.parametrizations.cayley import signs
from ortho_ref.training.optimizers import SGD, Adam, RMSprop
from scripts.maintain.oracle.second_route import second_route

SEEDS = given(seed=st.integers(0, 2**32 - 1))
BOOLEANS = (False, True)


def pairs(array):
    """An array as the kit stores it."""
    return np.stack([array.real, array.imag], axis=-1) if np.iscomplexobj(array) else array


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


NAMES = {kind: name for name, kind in KINDS_OF_CELLS.items()}
CELLS = [({"cell": NAMES[type(cell)]} | asdict(cell), cell) for cell in cells().values()]
IDS = [" ".join(map(str, config.values())) for config, _ in CELLS]


def compare_cell(config, problem):
    """States and every gradient of a problem."""
    cell = problem.cell
    inputs = {f"weights.{name}": pairs(value) for name, value in problem.weights.items()}
    inputs |= {"x": problem.x, "dh": pairs(problem.dh)}
    inputs |= {f"{name}0": pairs(part) for name, part in zip(cell.states, parts_of(cell, problem.h0), strict=True)}
    inputs |= {f"d{name}_T": pairs(part) for name, part in zip(cell.states, parts_of(cell, problem.dh_T), strict=True)}
    states, _ = scan.forward(cell, problem.weights, problem.x, problem.h0)
    expected = {name: pairs(part) for name, part in zip(cell.states, parts_of(cell, states), strict=True)}
    for name, gradient in problem.gradients(scan).items():
        expected[f"d_weights.{name}" if name in problem.weights else f"d_{name}"] = pairs(gradient)
    compare("cell", config, inputs, expected)


@pytest.mark.parametrize(("config", "cell"), CELLS, ids=IDS)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1), tokens=st.booleans(), T=st.integers(1, 5))
def test_cell(config, cell, seed, tokens, T):
    """Every cell with every option."""
    compare_cell(config, random_problem(cell, np.random.default_rng(seed), T=T, B=2, m=3, n=4, tokens=tokens))


MAPS = {
    "scaled_cayley": (5, ScaledCayley(2), {"negative_ones": 2}),
    "neumann_cayley": (5, NeumannCayley(2), {"negative_ones": 2}),
    "exponential": (5, Exponential(), {}),
    "householder": (5, Householder(3), {"reflections": 3}),
    "householder, m = n": (5, Householder(5), {"reflections": 5}),
    "tunable_rotations": (6, TunableRotations(4), {"capacity": 4, "complex": False}),
    "tunable_rotations, complex": (6, TunableRotations(4, complex=True), {"capacity": 4, "complex": True}),
    "fft_rotations": (8, FFTRotations(), {"complex": False}),
    "fft_rotations, complex": (8, FFTRotations(complex=True), {"complex": True}),
    "volume_preserving": (6, VolumePreserving(3), {"sublayers": 3}),
    "structured_unitary": (5, StructuredUnitary(), {}),
    "householder, n = 1": (1, Householder(1), {"reflections": 1}),
    "tunable_rotations, n = 2": (2, TunableRotations(2, complex=True), {"capacity": 2, "complex": True}),
    "fft_rotations, n = 2": (2, FFTRotations(), {"complex": False}),
}


@pytest.mark.parametrize("name", MAPS)
@settings(max_examples=10)
@SEEDS
def test_parametrization(name, seed):
    """The matrix and the way back; neumann_cayley where A_tilde is not quite the inverse."""
    n, p, options = MAPS[name]
    rng = np.random.default_rng(seed)
    problem = random_map_problem(p, n, rng)
    buffers, constants = problem.buffers, {}
    if isinstance(p, NeumannCayley):
        A_tilde = buffers["A_tilde"] + 0.01 * rng.standard_normal((n, n))
        U = A_tilde @ (np.eye(n) - problem.params["A"]) @ np.diag(buffers["D"])
        buffers = {**buffers, "A_tilde": A_tilde, "U": U}
        constants = {"A_tilde": A_tilde}
    constants |= {key: buffers[key] for key in ("permutation", "permutations") if key in buffers}
    inputs = {**{f"params.{k}": pairs(v) for k, v in problem.params.items()}, **constants, "dU": pairs(problem.dU)}
    gradients = p.pullback(problem.params, buffers, problem.dU)
    expected = {"U": pairs(buffers["U"]), **{f"d_params.{key}": pairs(value) for key, value in gradients.items()}}
    compare("parametrization", {"parametrization": name.split(",")[0], **options}, inputs, expected)


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


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("is_complex", BOOLEANS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_optimizer(name, is_complex, shape):
    """Parameters after each of six updates."""
    rng, optimizer = np.random.default_rng(0), optimizer_of(OPTIMIZERS[name])
    p, gradients = (np.asarray(standard_normal(rng, s, is_complex)) for s in (shape, (6, *shape)))
    inputs, history = {"parameter0": pairs(p), "gradient": pairs(gradients)}, []
    for gradient in gradients:
        p = np.asarray(p - optimizer.delta("p", p, np.asarray(gradient)))
        history.append(p)
    config = {"optimizer": OPTIMIZERS[name], "complex": is_complex}
    compare("optimizer", config, inputs, {"parameter": pairs(np.array(history))})


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


@pytest.mark.parametrize(
    ("name", "is_complex"), [(name, False) for name in ("sigmoid", *ACTIVATIONS)] + [("modrelu", True)]
)
@settings(max_examples=10)
@SEEDS
def test_activation(name, is_complex, seed):
    """Values and pullbacks."""
    rng = np.random.default_rng(seed)
    a, dy, b = *(standard_normal(rng, (4, 3), is_complex) for _ in range(2)), rng.standard_normal(3)
    inputs = {"a": pairs(a), "dy": pairs(dy)}
    if name == "sigmoid":
        expected = {"y": sigmoid(a), "d_a": dy * sigmoid_derivative(sigmoid(a))}
    else:
        inputs["b"] = b
        y = ACTIVATIONS[name].value(a, b)
        d_a, d_b = ACTIVATIONS[name].pullback(dy, a, b, y)
        expected = {"y": pairs(y), "d_a": pairs(d_a), "d_b": d_b.sum(axis=0)}
    compare("activation", {"activation": name, "complex": is_complex, "kinks": False}, inputs, expected)


@pytest.mark.parametrize(("name", "is_complex"), [("relu", False), ("modrelu", False), ("modrelu", True)])
def test_activation_on_its_kinks(name, is_complex):
    """a at 0 and where |a| + b = 0 or a + b = 0, and off them, for b of every sign."""
    b = np.array([-0.5, 0.0, 0.5])
    a = np.array([[0.5, 0.0, -0.5], [-0.5, 0.0, 0.0], [0.0, 0.3, 0.5], [0.8, -0.7, 0.2]])
    a = a * np.array([1, 1j, -1j, 0.6 + 0.8j])[:, None] if is_complex else a
    dy = standard_normal(np.random.default_rng(0), a.shape, is_complex)
    y = ACTIVATIONS[name].value(a, b)
    d_a, d_b = ACTIVATIONS[name].pullback(dy, a, b, y)
    expected = {"y": pairs(y), "d_a": pairs(d_a), "d_b": d_b.sum(axis=0)}
    config = {"activation": name, "complex": is_complex, "kinks": True}
    compare("activation", config, {"a": pairs(a), "b": b, "dy": pairs(dy)}, expected)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [("cross_entropy", "classes"), ("mean_squared_error", "classes"), ("mean_squared_error", "numbers")],
)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("masked", BOOLEANS)
@settings(max_examples=8)
@SEEDS
def test_loss(loss, targets, groups, masked, seed):
    """Value and gradient of PyTorch's own functions, the mean over the groups of the entries that count."""
    rng, T, B, K = np.random.default_rng(seed), 4, 3, 5
    outputs = rng.standard_normal((T, B, groups * K))
    y = rng.integers(0, K, (T, B, groups) if groups > 1 else (T, B))
    y = rng.standard_normal(outputs.shape) if targets == "numbers" else y
    mask = rng.random((T, B)) < 0.5 if masked else None
    if masked:
        mask.flat[rng.integers(mask.size)] = True
    value, gradient = LOSSES[loss](outputs, y, mask)
    inputs = {"outputs": outputs, "y": y, **({"mask": mask} if masked else {})}
    config = {"loss": loss, "groups": groups, "masked": masked, "targets": targets}
    compare("loss", config, inputs, {"loss": value, "d_outputs": gradient})


@pytest.mark.parametrize("kind", ["initial", "Cell"])
def test_kinds_without_a_second_route(kind):
    """What is drawn has no outputs that are right to the bit."""
    with pytest.raises(ValueError, match="kind is"):
        second_route(kind, {}, {})
