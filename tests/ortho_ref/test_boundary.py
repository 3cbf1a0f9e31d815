"""The door: what one engine refuses the other refuses, for every cell and every argument; what both take is equal."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradients.checks import cells
from gradients.problem import random_problem
from ortho_ref import fused, losses, scan
from ortho_ref.backend import NotFiniteError
from ortho_ref.boundary import named
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.layers import affine, affine_pullback

T, B, M, N = 4, 3, 2, 5
CELLS = cells()


def another_shape(draw, array):
    """The array with an axis dropped, of length 1, one longer or shorter, moved, or one more; the same is possible."""
    how = draw(st.sampled_from(["same", "dropped", "one", "longer", "shorter", "moved", "more"]))
    if how == "more" or array.ndim == 0:
        return array if how == "same" else array[None]
    axis = draw(st.integers(0, array.ndim - 1))
    return {
        "same": lambda: array,
        "dropped": lambda: array.take(0, axis),
        "one": lambda: array.take([0], axis),
        "longer": lambda: np.concatenate([array, array.take([0], axis)], axis),
        "shorter": lambda: array.take(range(array.shape[axis] - 1), axis),
        "moved": lambda: np.moveaxis(array, axis, 0),
    }[how]()


def another(draw, value):
    """Another value of an argument: of another shape, dtype or kind, or with an entry that is not allowed."""
    if not isinstance(value, np.ndarray):
        return draw(st.sampled_from([value, value[0] if isinstance(value, tuple) else (value,), None]))
    how = draw(st.sampled_from(["shape", "dtype", "entry", "kind"]))
    if how == "shape":
        return another_shape(draw, value)
    if how == "dtype":
        return value.astype(draw(st.sampled_from([value.dtype, np.float32, np.float64, np.int64, np.complex128, bool])))
    if how == "entry":
        value = value.copy()
        bad = [-1, M, M - 1] if value.dtype.kind == "i" else [np.nan, np.inf, 0.5]
        value.reshape(-1)[draw(st.integers(0, value.size - 1))] = draw(st.sampled_from(bad))
        return value
    return draw(st.sampled_from([value.tolist(), "x", 0, np.ma.masked_array(value)]))


def outcome(engine, cell, weights, x, h0, dh, dh_T, tape=None):
    """What an engine makes of it, flat; or the words with which it refuses."""
    try:
        h, own = engine.forward(cell, weights, x, h0)
        gradients = engine.backward(cell, weights, own if tape is None else tape, dh, dh_T)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    dweights = [gradients.weights[name] for name in sorted(weights)]
    flat = [*parts_of(cell, h), *dweights, *parts_of(cell, gradients.h0)]
    return [*flat, *([] if gradients.x is None else [gradients.x])]


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("name", CELLS)
@given(data=st.data())
def test_engines_refuse_alike(name, data):
    """Of one argument another value: the same words from both engines, or the same numbers."""
    cell = CELLS[name]
    p = random_problem(cell, np.random.default_rng(0), T=T, B=B, m=M, n=N, tokens=data.draw(st.booleans()))
    arguments = {"x": p.x, "h0": p.h0, "dh": p.dh, "dh_T": p.dh_T}
    victim = data.draw(st.sampled_from([*arguments, *p.weights, "a name", "no weights"]))
    weights = dict(p.weights)
    if victim in arguments:
        arguments[victim] = another(data.draw, arguments[victim])
    elif victim in weights:
        weights[victim] = another(data.draw, weights[victim])
        if isinstance(weights[victim], np.ndarray) and not np.isfinite(weights[victim]).all():
            return  # parameters that stop being finite show in the loss
    elif victim == "a name":
        weights["W_x"] = weights.pop(next(iter(weights)))
    else:
        weights = list(weights)
    by_scan, by_fused = (outcome(engine, cell, weights, **arguments) for engine in (scan, fused))
    if isinstance(by_scan, str):
        assert by_fused == by_scan
        assert "\n" not in by_scan
        return
    for ours, theirs in zip(by_fused, by_scan, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", [scan, fused])
@pytest.mark.parametrize("name", ["GRUResetAfter tanh", "GRUResetBefore tanh", "Elman tanh", "FastRNN tanh", "LSTM"])
def test_what_was_taken_in_silence(engine, name):
    """Each of these once gave wrong gradients, or memory that nobody had written to, without a word."""
    cell = CELLS[name]
    p = random_problem(cell, np.random.default_rng(0), T=T, B=B, m=M, n=N)
    h, tape = engine.forward(cell, p.weights, p.x)
    first = parts_of(cell, h)[0]

    def refuses(message, x=p.x, h0=None, weights=p.weights, dh=p.dh, dh_T=None):
        with pytest.raises((TypeError, ValueError), match=message):
            engine.forward(cell, weights, x, h0) and engine.backward(cell, weights, tape, dh, dh_T)

    refuses(r"^dh has shape \(5, 3, 5\); expected \(4, 3, 5\)$", dh=first)  # h for h[1:]
    refuses(r"^dh has shape \(3, 3, 5\); expected \(4, 3, 5\)$", dh=p.dh[1:])
    for shape in ((N,), (1, N), (B, 1)):
        refuses(r"^h0 has shape ", h0=state_of((np.zeros(shape),) * len(cell.states)))
        refuses(r"^dh_T has shape ", dh_T=state_of((np.zeros(shape),) * len(cell.states)))
    refuses(r"^x is float32; expected float64", x=p.x.astype(np.float32))
    refuses(r"^x holds token -1; allowed: 0 to 1$", x=np.array([[-1] * B] * T))
    for shape in ((T, 1, N), (T, B, 1)):
        refuses(r"^dh has shape ", dh=np.ones(shape))
    bias = next(weight for weight in p.weights if weight.startswith("b"))
    refuses(rf"^{bias} has shape \(1,\); expected \(5,\)$", weights=p.weights | {bias: np.zeros(1)})
    with pytest.raises(ValueError, match=r"^tape is of "):
        engine.backward(
            CELLS["Elman relu"],
            random_problem(CELLS["Elman relu"], np.random.default_rng(0), m=M, n=N).weights,
            tape,
            p.dh,
        )


@pytest.mark.parametrize("shape", [(4,), (2, 4), (3, 2, 4), (2, 3, 2, 4), (2, 2, 3, 2, 4)])
def test_every_number_of_axes(shape):
    """A readout and its cross-entropy over any axes, as over rows: all of them are computed."""
    rng = np.random.default_rng(0)
    W, b, h, do = (rng.standard_normal(own) for own in ((3, 4), (3,), shape, (*shape[:-1], 3)))
    y, rows = rng.integers(0, 3, shape[:-1]), (h.reshape(-1, 4), do.reshape(-1, 3))
    np.testing.assert_allclose(affine(W, b, h).reshape(-1, 3), affine(W, b, rows[0]), rtol=1e-12)
    dh, dweights = affine_pullback(W, h, do)
    flat, of_rows = affine_pullback(W, *rows)
    np.testing.assert_allclose(dh.reshape(-1, 4), flat, rtol=1e-12)
    for name, value in of_rows.items():
        np.testing.assert_allclose(dweights[name], value, rtol=1e-12)
    if len(shape) > 1:
        loss, dh, *_ = losses.cross_entropy_of_readout(h, W, b, y, None, 2)
        value, flat, *_ = losses.cross_entropy_of_readout(rows[0], W, b, y.reshape(-1), None, 5)
        np.testing.assert_allclose(loss, value, rtol=1e-12)
        np.testing.assert_allclose(dh.reshape(-1, 4), flat, rtol=1e-12)


def test_errors_of_a_layer_begin_with_its_name():
    """Those that are made of a message; any other stays what it is."""
    for kind, message, said in (
        (ValueError, "U_c: A is not skew", "layer1: U_c: A is not skew"),
        (NotFiniteError, "U_c: A holds nan", "layer1.U_c: A holds nan"),
        (KeyError, "A_tilde", "layer1 holds no A_tilde; expected all that init gives"),
    ):
        with pytest.raises(Exception, match=f"^{said}$"), named("layer1", "."):
            raise kind(message)
    with pytest.raises(UnicodeDecodeError, match="can't decode"), named("layer1", "."):
        b"\xff".decode()
