"""Masked arrays and matrices are refused wherever an array is taken: an answer would ignore the mask."""

import copy

import numpy as np
import pytest

from ortho_ref import models
from ortho_ref.backend import is_array, library_of, to_device, to_host, xp_of
from ortho_ref.conformance import check, check_function
from ortho_ref.losses import LOSSES, METRICS, OF_THE_LOSS
from ortho_ref.parametrizations.by_name import by_name
from ortho_ref.training.optimizers import OPTIMIZERS, clip_by_global_norm, clip_by_value, global_norm
from tests.ortho_ref.conformance.adapters import right

T, B, M, N = 4, 3, 2, 6
MASKED = r"an array is a MaskedArray, whose mask would be ignored; allowed: a plain array, as by \.filled\(0\)"
MATRIX = r"an array is a numpy.matrix, whose \* is another product; allowed: a plain array, as by numpy\.asarray"


def masked(array):
    return np.ma.masked_array(array, mask=np.zeros(np.shape(array), bool))


def matrix(array):
    return np.asarray(array).view(np.matrix) if np.ndim(array) == 2 else np.matrix([[1.0]])


HOW = {"masked": (masked, MASKED), "matrix": (matrix, MATRIX)}


@pytest.mark.parametrize("how", HOW)
def test_the_backend_refuses(how):
    """The one place through which arrays go; plain subclasses, as memory maps, are arrays."""
    make, words = HOW[how]
    array = make(np.zeros((2, 2)))
    for function in (library_of, xp_of, to_host, lambda a: to_device({"a": [a]}, "cpu"), lambda a: xp_of(a[:1], a)):
        for _ in range(2):
            with pytest.raises(TypeError, match=words):
                function(array)
    assert is_array(array)
    with pytest.raises(TypeError, match=words):
        xp_of(np.zeros(2), array, None)
    assert library_of(np.zeros(2).view(np.recarray)).xp is np
    assert not is_array(np.float64(1))
    with pytest.raises(TypeError, match=MASKED):
        library_of(np.ma.masked)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("model", models.names())
def test_a_layer_refuses(how, model):
    """x, h0, every parameter, dh and every delta."""
    make, words = HOW[how]
    layer = models.build(model, M, 8)
    rng = np.random.default_rng(0)
    params, buffers = layer.init(rng, dtype=np.float64)
    x = rng.standard_normal((T, B, M))
    h, tape = layer.forward(params, buffers, x)
    states = h if isinstance(h, tuple) else (h,)
    dh = np.ones_like(states[0][1:])
    with pytest.raises(TypeError, match=MASKED):
        layer.forward(params, buffers, masked(x))
    h0 = tuple(part[0] for part in states)
    for wrong in range(len(h0)):
        parts = tuple(make(part) if i == wrong else part for i, part in enumerate(h0))
        with pytest.raises((TypeError, ValueError), match=words):
            layer.forward(params, buffers, x, parts if len(parts) > 1 else parts[0])
    with pytest.raises(TypeError, match=MASKED):
        layer.backward(params, buffers, tape, dh=masked(dh))
    for name, value in params.items():
        if value.ndim != 2 and how == "matrix":
            continue
        with pytest.raises(TypeError, match=words):
            layer.forward(params | {name: make(value)}, buffers, x)
        if "." in name:  # the others are not read
            with pytest.raises(TypeError, match=words):
                layer.rebuild(params | {name: make(value)}, buffers)
        deltas = {key: 0 * p for key, p in params.items()}
        with pytest.raises(TypeError, match=words):
            layer.retract(params, buffers, deltas | {name: make(deltas[name])})


@pytest.mark.parametrize("name", [*LOSSES, *METRICS])
def test_losses_and_metrics_refuse(name):
    """Outputs, targets and masks."""
    outputs, y, mask = np.zeros((T, B, 3)), np.zeros((T, B), int), np.ones((T, B), bool)
    if name in ("mean_squared_error", "within_0.04"):
        y = np.zeros((T, B, 3))
    if name in OF_THE_LOSS:
        return
    if name.startswith("binary"):
        outputs = outputs[..., :1]
    function = LOSSES[name] if name in LOSSES else lambda *a: METRICS[name](0.0, *a)
    function(outputs, y, mask)
    for wrong in range(3):
        arguments = [outputs, y, mask]
        arguments[wrong] = masked(arguments[wrong])
        with pytest.raises(TypeError, match=MASKED):
            function(*arguments)


def test_optimizers_and_clipping_refuse():
    g, p = masked(np.ones(3)), np.ones(3)
    for name in OPTIMIZERS:
        own = OPTIMIZERS[name](1e-3)
        for arguments in ((p, g), (masked(p), np.ones(3))):
            with pytest.raises(TypeError, match=MASKED):
                copy.deepcopy(own).delta("p", *arguments)
    for clip in (lambda g: clip_by_value(g, 1.0), lambda g: clip_by_global_norm(g, 1.0), global_norm):
        with pytest.raises(TypeError, match=MASKED):
            clip({"g": g})


@pytest.mark.parametrize(
    "how", ["scaled_cayley:2", "neumann_cayley:2", "exponential", "householder:2", "fft_rotations"]
)
def test_maps_refuse(how):
    p = by_name(how, 4)
    params, buffers = p.init(np.random.default_rng(0), 4, dtype=np.float64)
    wrong = {name: masked(value) for name, value in params.items()}
    with pytest.raises(TypeError, match=MASKED):
        p.rebuild(wrong, buffers)
    with pytest.raises(TypeError, match=MASKED):
        p.pullback(params, buffers, masked(np.ones((4, 4))))


@pytest.mark.parametrize("how", HOW)
def test_the_kit_fails_such_outputs(how):
    """A failed case that says so, whatever the numbers are."""
    make, _ = HOW[how]

    def run(case):
        found = right(case)
        return found and {name: make(a) if np.ndim(a) == 2 else a for name, a in found.items()}

    result = check(run, only="activation/tanh").results[0]
    assert result.status == "failed"
    kind = "MaskedArray" if how == "masked" else "matrix"
    assert f"is a {kind}; expected a NumPy array" in result.remarks
    report = check_function(
        lambda inputs: inputs["x"] ** 2,
        lambda inputs, upstream: {"x": make(2 * inputs["x"] * upstream)},
        {"x": np.ones((2, 2))},
    )
    assert not report.ok
    with pytest.raises(TypeError, match=kind):
        check_function(lambda i: make(i["x"]), lambda i, u: {"x": u}, {"x": np.ones((2, 2))})
    with pytest.raises(TypeError, match=kind):
        check_function(lambda i: i["x"], lambda i, u: {"x": u}, {"x": make(np.ones((2, 2)))})
