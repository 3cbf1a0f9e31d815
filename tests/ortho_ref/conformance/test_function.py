"""check_function: right backward passes pass, each wrong one is seen, kinks are left out and counted, nothing is
modified."""

import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ortho_ref.conformance import FunctionReport, check_function

SEEDS = {"seed": st.integers(0, 2**32 - 1)}


def layer(inputs):
    """Two outputs of three inputs, a square matrix among them; one output is integers."""
    h = np.tanh(inputs["x"] @ inputs["W"].T + inputs["b"])
    return {"h": h, "energy": (h**2).sum(), "tokens": inputs["tokens"]}


def layer_backward(inputs, upstream):
    h = layer(inputs)["h"]
    dh = upstream["h"] + 2 * h * upstream["energy"]
    da = dh * (1 - h**2)
    return {"W": da.T @ inputs["x"], "b": da.sum(axis=0), "x": da @ inputs["W"]}


def layer_inputs(seed, B=4, n=3):
    rng = np.random.default_rng(seed)
    own = {"W": rng.standard_normal((n, n)), "b": rng.standard_normal(n), "x": rng.standard_normal((B, n))}
    return own | {"tokens": np.arange(3)}


def unitary(inputs):
    """A complex function of complex and real inputs."""
    return (inputs["U"] @ inputs["z"]) * np.exp(1j * inputs["w"])


def unitary_backward(inputs, upstream):
    d = upstream * np.exp(-1j * inputs["w"])
    dw = (upstream.conj() * 1j * unitary(inputs)).real
    return {"U": np.outer(d, inputs["z"].conj()), "z": inputs["U"].conj().T @ d, "w": dw}


def unitary_inputs(seed, n=3):
    rng = np.random.default_rng(seed)
    U, z = (rng.standard_normal(s) + 1j * rng.standard_normal(s) for s in ((n, n), (n,)))
    return {"U": U, "z": z, "w": rng.standard_normal(n)}


def of(report, name):
    """The result of one input."""
    return next(result for result in report.results if result.name == name)


def relu(inputs):
    return np.maximum(inputs["x"] @ inputs["W"].T, 0)


def relu_backward(inputs, upstream):
    da = upstream * (inputs["x"] @ inputs["W"].T > 0)
    return {"W": da.T @ inputs["x"], "x": da @ inputs["W"]}


@settings(max_examples=12)
@given(**SEEDS, entries=st.sampled_from([0, 5, 400]))
def test_right_functions_pass(seed, entries):
    """Real and complex, entry by entry and by directions, far below the tolerance; integers are left alone."""
    for forward, backward, inputs in (
        (layer, layer_backward, layer_inputs(seed)),
        (unitary, unitary_backward, unitary_inputs(seed)),
    ):
        report = check_function(forward, backward, inputs, entries=entries, seed=seed % 7)
        assert report.ok, f"\n{report}"
        assert report.largest < 3e-8
        assert [result.name for result in report.results] == [n for n, a in inputs.items() if a.dtype.kind in "fc"]


def test_how_many_places():
    """Every entry, a complex one twice; or so many directions; of a skew matrix the free ones."""
    report = check_function(unitary, unitary_backward, unitary_inputs(0))
    assert [result.checked for result in report.results] == [18, 6, 3]
    report = check_function(unitary, unitary_backward, unitary_inputs(0), entries=6, directions=4)
    assert [(result.checked, result.unit) for result in report.results] == [
        (4, "directions"),
        (6, "entries"),
        (3, "entries"),
    ]
    assert (report.checked, report.skipped) == (13, 0)


def one_entry(gradient):
    """Its largest entry is 0.05 % off."""
    off = gradient.copy()
    off.flat[abs(off).argmax()] *= 1.0005
    return off


# What is done to the gradients, and which inputs fail.
WRONG = {
    "a missing factor": lambda g: g | {"W": g["W"] / 2},
    "transposed": lambda g: g | {"W": g["W"].T},
    "one entry 0.05 % off": lambda g: g | {"W": one_entry(g["W"])},
    "the sign of one entry": lambda g: g | {"W": np.where(abs(g["W"]) == abs(g["W"]).max(), -1, 1) * g["W"]},
    "zero": lambda g: g | {"W": np.zeros_like(g["W"])},
    "missing": lambda g: {name: value for name, value in g.items() if name != "W"},
    "None": lambda g: g | {"W": None},
    "another name": lambda g: {("weight" if name == "W" else name): value for name, value in g.items()},
    "another shape": lambda g: g | {"W": g["W"][None]},
    "a row too many": lambda g: g | {"W": np.concatenate([g["W"], g["W"][:1]])},
    "not a number": lambda g: g | {"W": g["W"] * np.where(g["W"] == g["W"].max(), np.nan, 1)},
    "float32": lambda g: g | {"W": g["W"].astype(np.float32)},
    "complex": lambda g: g | {"W": g["W"] + 0j},
    "a list": lambda g: g | {"W": g["W"].tolist()},
}


@pytest.mark.parametrize("entries", [0, 400])
@pytest.mark.parametrize("kind", WRONG)
@settings(max_examples=3)
@given(**SEEDS)
def test_wrong_backwards_are_seen(kind, entries, seed):
    """Each in the input that is wrong, and in no other."""
    backward = lambda inputs, upstream: WRONG[kind](layer_backward(inputs, upstream))  # noqa: E731
    report = check_function(layer, backward, layer_inputs(seed), entries=entries)
    failed = {result.name for result in report.results if result.status == "failed"}
    assert failed == ({"W", "weight"} if kind == "another name" else {"W"}), f"\n{report}"


@pytest.mark.parametrize("entries", [0, 400])
@pytest.mark.parametrize("change", [np.conj, np.real])
def test_conjugates_are_seen(change, entries):
    """JAX's convention is not ours; nor is the real part alone.  Forgetting one output is seen in all inputs."""
    backward = lambda i, u: unitary_backward(i, u) | {"U": change(unitary_backward(i, u)["U"])}  # noqa: E731
    report = check_function(unitary, backward, unitary_inputs(0), entries=entries)
    assert [result.name for result in report.results if result.status == "failed"] == ["U"]
    backward = lambda i, u: layer_backward(i, u | {"energy": 0.0})  # noqa: E731
    report = check_function(layer, backward, layer_inputs(0), entries=entries)
    assert {result.status for result in report.results} == {"failed"}


@settings(max_examples=10)
@given(**SEEDS, entries=st.sampled_from([0, 400]))
def test_kinked_functions_pass_off_their_kinks(seed, entries):
    """relu at random points, 40 units in all; the step gets shorter until a kink is beyond it."""
    rng = np.random.default_rng(seed)
    inputs = {"W": rng.standard_normal((8, 6)), "x": rng.standard_normal((5, 6))}
    report = check_function(relu, relu_backward, inputs, entries=entries)
    assert report.ok, f"\n{report}"
    assert report.largest < 3e-8
    wrong = lambda i, u: relu_backward(i, u) | {"W": 1.0005 * relu_backward(i, u)["W"]}  # noqa: E731
    assert not check_function(relu, wrong, inputs, entries=entries).ok


KINKED = {
    "relu": (lambda a: np.maximum(a, 0), lambda a: 1.0 * (a > 0)),
    "clip": (lambda a: np.clip(a, -5, 0), lambda a: 1.0 * (a < 0)),
    "leaky": (lambda a: np.where(a > 0, a, 0.1 * a), lambda a: np.where(a > 0, 1, 0.1)),
}


@settings(max_examples=30)
@given(**SEEDS, distance=st.floats(-3e-6, 3e-6), kind=st.sampled_from([*KINKED]))
def test_places_near_a_kink_are_left_out_and_counted(seed, distance, kind):
    """One of ten entries so near that no step fits in: whatever is given there, the others decide."""
    (f, slope), rng = KINKED[kind], np.random.default_rng(seed)
    a = rng.uniform(0.1, 1, 10) * rng.choice([-1, 1], 10)
    a[:3] = distance / 2, 0.5, -0.5
    backward = lambda i, u: {"a": u * slope(i["a"])}  # noqa: E731
    report = check_function(lambda i: f(i["a"]), backward, {"a": a}, seed=seed % 5)
    (result,) = report.results
    assert report.ok, f"{distance}\n{report}"
    assert result.checked + result.skipped == 10
    assert result.skipped == (1 if abs(distance) < 1e-6 else result.skipped) <= 1
    if result.skipped:
        assert "9 entries, 1 near a kink" in str(report)
        assert "1 near a kink;" in report.summary()


def test_no_wrong_gradient_hides_behind_a_kink():
    """What backward gives has no part in what is left out; more near a kink than not is a failure."""
    a, forward = np.concatenate([np.zeros(3), np.linspace(0.5, 1, 7)]), lambda i: np.maximum(i["a"], 0)
    for factor in (2, 1e9):
        report = check_function(forward, lambda i, u, f=factor: {"a": f * u * (i["a"] > 0)}, {"a": a})
        assert (of(report, "a").status, of(report, "a").skipped) == ("failed", 3)
    report = check_function(forward, lambda i, u: {"a": 0 * u}, {"a": np.zeros(4)})
    assert "too many places near a kink" in of(report, "a").remarks


def test_a_function_that_is_not_exact_to_double_precision_is_said_to_be():
    forward = lambda i: np.tanh(i["a"].astype(np.float32)).astype(float)  # noqa: E731
    backward = lambda i, u: {"a": u * (1 - np.tanh(i["a"]) ** 2)}  # noqa: E731
    report = check_function(forward, backward, {"a": np.linspace(0.1, 1, 10)})
    assert not report.ok
    assert "not exact to double precision" in str(report)


def test_nothing_to_check_is_a_failure():
    """An input that has no influence, unless that is what is expected; a gradient of it that is not 0 is wrong."""
    forward = lambda i: np.sin(i["x"])  # noqa: E731
    inputs = {"x": np.ones(2), "y": np.ones(3)}
    for dy, allowed, ok in ((0.0, (), False), (0.0, ("y",), True), (1e-9, ("y",), False), (1.0, (), False)):
        backward = lambda i, u, dy=dy: {"x": u * np.cos(i["x"]), "y": np.full(3, dy)}  # noqa: E731
        report = check_function(forward, backward, inputs, may_vanish=allowed)
        assert report.ok == ok, f"\n{report}"
        if dy == 0:
            assert "nothing to check, all are 0" in of(report, "y").remarks


def test_upstream_gradients_are_not_the_inputs_numbers():
    """Who draws inputs from default_rng of the same seed, and takes the input for the upstream gradient, is wrong."""
    inputs = {"x": np.random.default_rng(0).standard_normal(4)}
    assert check_function(lambda i: i["x"] ** 2, lambda i, u: {"x": 2 * i["x"] * u}, inputs).ok
    assert not check_function(lambda i: i["x"] ** 2, lambda i, u: {"x": 2 * i["x"] * i["x"]}, inputs).ok


def test_a_difference_below_the_outputs_rounding_is_no_error():
    """softmax does not see a number added to all: its gradient is 0 but for rounding, on either side."""

    def forward(inputs):
        e = np.exp(inputs["a"] + inputs["shift"])
        return e / e.sum()

    def backward(inputs, upstream):
        y = forward(inputs)
        da = y * (upstream - (y * upstream).sum())
        return {"a": da, "shift": da.sum()}

    for seed in range(30):
        inputs = {"a": np.random.default_rng(seed).standard_normal(5), "shift": np.array(0.3)}
        report = check_function(forward, backward, inputs, may_vanish=("shift",), seed=seed)
        assert report.ok, f"\n{report}"
    assert not check_function(forward, backward, inputs).ok


@pytest.mark.parametrize(
    ("offset", "factor", "ok", "remarks"),
    [
        (0, 1.00001, False, "1.00001 times what it should be"),
        (1e9, 1.001, True, "checked to 4e-03 only: the outputs are so large that rounding hides the rest"),
        (1e9, 1.01, False, "by differences"),
        (1e13, 1, False, "nothing to check, all are 0, or below the rounding of the outputs"),
    ],
)
def test_what_the_outputs_rounding_hides_is_said(offset, factor, ok, remarks):
    """A number added to the outputs takes digits from the differences, and the tolerance is no longer what is held."""
    inputs = {"x": np.random.default_rng(0).standard_normal((5, 3))}
    report = check_function(lambda i: i["x"] ** 2 + offset, lambda i, u: {"x": 2 * factor * i["x"] * u}, inputs)
    assert report.ok == ok, f"\n{report}"
    assert remarks in of(report, "x").remarks


def test_inputs_are_not_modified():
    """Not the caller's, by us nor by what is checked; a function that modifies its own copies is told so."""

    def forward(inputs):
        inputs["x"] *= 2
        return layer(inputs)["h"]

    def backward(inputs, upstream):
        gradients = good_backward(inputs, upstream)
        inputs.clear()
        upstream *= 0
        return gradients

    buffer = np.zeros((4, 3))  # written over, as fast code does: it does no harm
    good = lambda i: np.tanh(i["x"] @ i["W"].T + i["b"], out=buffer)  # noqa: E731
    good_backward = lambda i, u: layer_backward(i, {"h": u, "energy": 0.0})  # noqa: E731
    inputs = layer_inputs(0)
    before = {name: array.copy() for name, array in inputs.items()}
    assert check_function(good, good_backward, inputs).ok
    for f, b, who in ((forward, good_backward, "forward"), (good, backward, "backward")):
        report = check_function(f, b, inputs)
        assert not report.ok
        assert f"was modified by {who}" in of(report, "x").message
    assert inputs.keys() == before.keys()
    assert all(np.array_equal(inputs[name], array) for name, array in before.items())


@pytest.mark.parametrize("entries", [0, 400])
def test_skew_matrices(entries):
    """The gradient by the free entries passes, its half and that of all entries do not."""
    rng = np.random.default_rng(0)
    C, X = rng.standard_normal((2, 5, 5))

    def forward(inputs):
        assert not (inputs["A"] + inputs["A"].T).any()
        return np.sin(C * inputs["A"]).sum()

    def gradient(inputs, upstream):
        return upstream * C * np.cos(C * inputs["A"])

    for change, ok in ((lambda g: g - g.T, True), (lambda g: g, False), (lambda g: (g - g.T) / 2, False)):
        backward = lambda i, u, change=change: {"A": change(gradient(i, u))}  # noqa: E731
        assert check_function(forward, backward, {"A": X - X.T}, skew=["A"], entries=entries).ok == ok


def test_fixed_inputs_have_no_gradient():
    """Floats too, if they are named; what backward gives for them is not looked at."""
    forward = lambda i: i["x"] * i["mask"]  # noqa: E731
    inputs = {"x": np.ones(3), "mask": np.array([1.0, 0.5, 1.0]), "n": np.array(3)}
    for more in ({}, {"mask": None}, {"n": np.zeros(())}):
        backward = lambda i, u, more=more: {"x": u * i["mask"]} | more  # noqa: E731
        report = check_function(forward, backward, inputs, fixed=["mask"])
        assert report.ok
        assert [result.name for result in report.results] == ["x"]
    assert not check_function(forward, backward, inputs).ok


def test_what_is_random_has_a_seed():
    """The same report twice; another seed, another upstream."""
    seen = []

    def backward(inputs, upstream):
        seen.append(upstream["h"].copy())
        return layer_backward(inputs, upstream)

    reports = [check_function(layer, backward, layer_inputs(0), entries=0, seed=seed) for seed in (3, 3, 4)]
    assert reports[0] == reports[1] != reports[2]
    assert np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])


def test_the_report_prints(capsys):
    """A row an input, with the place and both numbers where it fails, and a factor where it is one."""
    backward = lambda i, u: layer_backward(i, u) | {"b": 2 * layer_backward(i, u)["b"]}  # noqa: E731
    report = check_function(layer, backward, layer_inputs(0))
    assert isinstance(report, FunctionReport)
    rows = str(report).splitlines()
    assert [row.split()[:2] for row in rows[:3]] == [["W", "passed"], ["b", "failed"], ["x", "passed"]]
    result = of(report, "b")
    assert result.error == pytest.approx(0.5)
    assert result.given == pytest.approx(2 * result.expected)
    assert f"2 times what it should be; at {result.where} {result.given:.6g}, by differences" in rows[1]
    assert rows[-1].startswith("2 passed, 1 failed; 24 derivatives; tolerance 1e-07, seed 0, ortho_ref ")
    zero = check_function(layer, lambda i, u: layer_backward(i, u) | {"b": np.zeros(3)}, layer_inputs(0))
    assert "all zeros" in str(zero)
    report.print()
    assert capsys.readouterr().out == f"{report}\n"


def drawing(inputs):
    """Dropout without a seed: no derivative means anything."""
    return inputs["x"] * np.random.default_rng().random(2)


X, GOOD = np.ones(2), {"forward": lambda i: i["x"], "backward": lambda i, u: {"x": u}, "inputs": {"x": np.ones(2)}}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("inputs", [X], "inputs is a list; allowed: a dict of NumPy arrays by name"),
        ("inputs", {"x": 1.0}, "inputs['x'] is a float; allowed: a NumPy array"),
        ("inputs", {"x": X.astype("f")}, "inputs['x'] is float32; allowed: float64, complex128"),
        ("inputs", {"x": np.array(["a"])}, "inputs['x'] is <U1; allowed"),
        ("inputs", {"x": X * np.nan}, "inputs['x'] has an entry that is not finite"),
        ("inputs", {"x": np.arange(2)}, "inputs has nothing to differentiate by; allowed: at least one"),
        ("fixed", ["x"], "inputs has nothing to differentiate by"),
        ("fixed", "x", "fixed is 'x'; allowed: a list of names out of 'x'"),
        ("fixed", ["y"], "fixed is ['y']; allowed: a list of names out of 'x'"),
        ("may_vanish", ["y"], "may_vanish is ['y']; allowed: a list of names out of 'x'"),
        ("skew", ["x"], "skew names 'x', which is not A = -A^T; allowed: square matrices that are"),
        ("entries", -1, "entries is -1; allowed: an integer >= 0"),
        ("directions", 0, "directions is 0; allowed: an integer >= 1"),
        ("seed", -1, "seed is -1; allowed: an integer >= 0"),
        ("tolerance", 0, "tolerance is 0; allowed: above 0, below 1"),
        ("forward", lambda i: (i["x"], 1), "forward's output is a tuple; allowed: a NumPy array, or a dict"),
        ("forward", lambda i: {"y": None}, "forward's output 'y' is None; allowed: a NumPy array"),
        ("forward", lambda i: i["x"].astype("f"), "forward's output is float32; allowed: float64, complex"),
        ("forward", lambda i: np.arange(3), "forward's outputs are all integers; at least one has to be"),
        ("forward", lambda i: i["x"] / 0, "forward's output has an entry that is not finite"),
        ("forward", lambda i: np.ones(2 + int(i["x"][0] > 1)), "has shape (2,) at one point and not"),
        ("forward", drawing, "forward gives other outputs when it is called again, "),
        ("forward", lambda i: i["no such"], "no such"),
        ("backward", lambda i, u: u, "backward gives an ndarray; allowed: a dict of arrays by the inp"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_errors_name_what_is_wrong(name, value, message):
    """The argument, what was given, what is allowed; what a function raises is passed on."""
    types = (" is a ", " is None; allowed: a NumPy", " gives an ", "no such")
    error = (TypeError, KeyError) if any(word in message for word in types) else ValueError
    with pytest.raises(error, match=re.escape(message)):
        check_function(**{**GOOD, name: value})
