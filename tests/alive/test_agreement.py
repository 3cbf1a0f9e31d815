"""The numbers of the pages on gradients and on a cell of your own are ortho_ref's, to 1e-10, at three settings each."""

import re
import sys

import numpy as np
import pytest

from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.cells.elman import Elman
from ortho_ref.cells.gru_reset_after import GRUResetAfter
from ortho_ref.cells.gru_reset_before import GRUResetBefore
from ortho_ref.cells.lstm import LSTM
from ortho_ref.losses import cross_entropy
from ortho_ref.scan import forward, zero_state
from scripts.maintain.book import weights
from tasks.copying import Copying
from tests.alive.node import PAGES, ROOT, answer, needs_node

pytestmark = needs_node

TOLERANCE = 1e-10
CELLS = {
    "rnn": Elman("tanh"),
    "lstm": LSTM(),
    "gru": GRUResetBefore("tanh"),
    "nc-gru": GRUResetBefore("modrelu"),
    "scornn": Elman("modrelu"),
    "urnn": Elman("modrelu", complex=True),
}
#: The bias that the page moves, and which way.
BIAS = {"rnn": ("b", 1), "lstm": ("b_f", 1), "gru": ("b_u", -1), "nc-gru": ("b_u", -1), "scornn": ("b", 1)}
BIAS["urnn"] = BIAS["rnn"]
DATA = np.array([3, 1, 4, 1, 5, 2, 6, 5, 3, 5])
SETTINGS = [
    {"when": "before", "T": 30, "gain": 1.0, "bias": 0.0},
    {"when": "after", "T": 10, "gain": 1.0, "bias": -0.25},
    {"when": "after", "T": 120, "gain": 0.93, "bias": 0.4},
]
GRADIENTS = """
const gradients = require(scripts + "gradients.js");
const weights = require(given.weights);
const found = given.settings.map((settings) => ({
  ...gradients.numbers(weights[given.model][settings.when], given.model, settings),
  tokens: gradients.tokens(settings.T),
}));
console.log(JSON.stringify(found));
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The weights, as the page gets them."""
    path = tmp_path_factory.mktemp("script") / "weights.js"
    path.write_text(weights.script(ROOT))
    return str(path)


def stored(model, when):
    """The weights of a file, in double precision and complex where they are."""
    found = weights.read(ROOT / weights.FOLDER / f"{model}.safetensors")[0][when]
    double = {name: value.astype(float) for name, value in found.items()}
    if model == "urnn":
        double |= {name: double[name][..., 0] + 1j * double[name][..., 1] for name in ("W", "U", "h0")}
    return double


def reference(model, when, T, gain, bias):
    """Loss of the last step, and the norm of the gradient by each part of the state at every step, t = 1 first."""
    cell, w = CELLS[model], stored(model, when)
    readout, h0 = {name: w.pop(f"readout.{name}") for name in "Wb"}, w.pop("h0", None)
    w |= {name: gain * w[name] for name in cell.recurrent_weights}
    name, sign = BIAS[model]
    w[name] = w[name] + sign * bias
    batch = Copying(T).batch(DATA[:, None])
    first = zero_state(cell, w, 1) if h0 is None else h0[None]
    h, tape = forward(cell, w, batch.x, first)
    last = parts_of(cell, h)[0][-1]
    features = np.concatenate([last.real, last.imag], axis=1) if cell.complex else last
    loss, d_o = cross_entropy(features @ readout["W"].T + readout["b"], batch.y[-1])
    d = d_o @ readout["W"]
    d = d[:, : d.shape[1] // 2] + 1j * d[:, d.shape[1] // 2 :] if cell.complex else d
    g = state_of((d, *(np.zeros_like(d) for _ in cell.states[1:])))
    norms = []
    for cache in reversed(tape.caches):
        norms.insert(0, [np.linalg.norm(part) for part in parts_of(cell, g)])
        _, g, _ = cell.step_backward(w, g, cache)
    return batch.x[:, 0].tolist(), loss, dict(zip(cell.states, np.transpose(norms), strict=True))


def close(found, expected):
    """Whether every number is within the tolerance of the largest one that is expected."""
    return bool(np.all(np.abs(np.subtract(found, expected)) <= TOLERANCE * np.max(np.abs(expected))))


def norms_of_page(model, script, *settings):
    """What the page shows of a model, at each of the settings."""
    return answer(GRADIENTS, {"model": model, "weights": script, "settings": settings})


@pytest.mark.parametrize("model", CELLS)
def test_gradients_over_time(model, script):
    """[urnn:diag] ||dL/dh_t|| of the page, of each model, before and after training, and the loss."""
    for settings, found in zip(SETTINGS, norms_of_page(model, script, *SETTINGS), strict=True):
        tokens, loss, norms = reference(model, **settings)
        assert found["tokens"] == tokens
        assert close(found["loss"], loss)
        assert found["norms"].keys() == norms.keys()
        for state, expected in norms.items():
            assert close(found["norms"][state], expected)
            np.testing.assert_allclose(found["norms"][state], expected, rtol=1e-8)  # the small ones too


def test_the_weights_are_small_and_trained():
    """At most 56 units and 60 KB a model; training has changed every weight that it may, and the loss."""
    for model in weights.MODELS:
        path = ROOT / weights.FOLDER / f"{model}.safetensors"
        found, facts = weights.read(path)
        assert path.stat().st_size < 60_000
        assert len(found["before"]["readout.W"][0]) <= 2 * 56
        assert found["before"].keys() == found["after"].keys()
        assert all(np.any(found["before"][name] != found["after"][name]) for name in found["before"])
        assert float(facts["loss after"]) < float(facts["loss before"])


def test_orthogonal_weights_are_orthogonal():
    """U is orthogonal or unitary in NC-GRU, scoRNN and uRNN, before and after training, as far as float32 goes."""
    for model, name in (("nc-gru", "U_c"), ("scornn", "U"), ("urnn", "U")):
        for when in ("before", "after"):
            U = stored(model, when)[name]
            assert np.linalg.norm(U.conj().T @ U - np.eye(len(U)), 2) < 1e-5
    free = stored("gru", "before")["U_c"]
    assert np.linalg.norm(free.T @ free - np.eye(len(free)), 2) > 0.1


def left(model, when, T, gain=1.0, bias=0.0):
    """How much of the gradient by the last state is left at the first."""
    norms = reference(model, when, T, gain, bias)[2]["h"]
    return norms[0] / norms[-1]


def test_what_the_page_tells_to_try():
    """What docs/alive/gradients.md says is to be seen, by ortho_ref."""
    gated = ("lstm", "gru", "nc-gru")
    before, after = ({name: left(name, when, 200) for name in CELLS} for when in ("before", "after"))
    assert before["nc-gru"] < 1e-26 < 1e-10 < before["lstm"] < 1e-8 < 1e-4 < before["gru"] < 1e-2
    assert before["scornn"] == pytest.approx(1, abs=1e-4)
    assert before["urnn"] == pytest.approx(1, abs=1e-4)
    assert all(after[name] > 1e-3 for name in gated)
    assert before["rnn"] == pytest.approx(0.13, abs=0.005)
    norms = reference("rnn", "before", 30, 1.0, 0.0)[2]["h"]
    assert norms[-11] / norms[-1] == pytest.approx(0.2, abs=0.05)
    assert norms[0] / norms[-1] == pytest.approx(0.04, abs=0.005)
    assert left("lstm", "before", 30) == pytest.approx(0.04, abs=0.005)
    assert after["rnn"] < 1e-30
    assert after["scornn"] == pytest.approx(1, abs=1e-4)
    assert after["urnn"] > 10
    for gain in (0.95, 1.05):
        for name in ("scornn", "urnn"):
            assert left(name, "before", 30, gain) == pytest.approx(gain**49, rel=1e-4)
    half = np.log(left("nc-gru", "before", 30)) / 2
    assert np.log(left("nc-gru", "before", 30, bias=1.0)) == pytest.approx(half, rel=0.15)
    assert left("scornn", "before", 30, bias=-1.0) == left("urnn", "before", 30, bias=-1.0) == 0
    for name in ("scornn", "urnn"):
        assert np.mean(stored(name, "after")["b"] > 0) > 0.5


def test_the_losses_of_the_page_are_those_of_the_files():
    """The table of docs/alive/gradients.md, to three digits, and the baseline."""
    page = (ROOT / PAGES / "gradients.md").read_text(encoding="utf-8")
    for when in ("before", "after"):
        row = [cell.strip() for cell in re.search(rf"^\| {when} \|(.*)\|$", page, re.M)[1].split("|")]
        files = [weights.read(ROOT / weights.FOLDER / f"{name}.safetensors")[1] for name in weights.MODELS]
        assert row[:6] == [f"{float(facts[f'loss {when}']):.3f}" for facts in files]
    assert row[6] == f"{Copying(10).baseline:.3f}"


#: The cells of the page "your own cell", by the name and the activation that it has for them.
STEPS = {
    ("gru_reset_before", "tanh"): GRUResetBefore("tanh"),
    ("gru_reset_before", "modrelu"): GRUResetBefore("modrelu"),
    ("gru_reset_after", "tanh"): GRUResetAfter("tanh"),
    ("gru_reset_after", "modrelu"): GRUResetAfter("modrelu"),
    ("lstm", "tanh"): LSTM(),
    ("elman", "tanh"): Elman("tanh"),
    ("elman", "modrelu"): Elman("modrelu"),
}
SIZES = [(2, 3), (3, 1), (5, 5)]  # n and m
LINES = """
const { fields, lines } = require(scripts + "your_own_cell.js");
const all = ({ cell, phi, texts }) => ({ fields: fields(cell), lines: lines(cell, phi, texts) });
console.log(JSON.stringify(given.map(all)));
"""
REFUSAL = """
const { fields, lines } = require(scripts + "your_own_cell.js");
const texts = Object.fromEntries(fields("gru_reset_before").map(({ name, text }) => [name, text]));
const refusal = (own) => {
  try {
    lines("gru_reset_before", "tanh", { ...texts, ...own });
  } catch ({ field, message }) {
    return [field, message];
  }
};
console.log(JSON.stringify(given.map(refusal)));
"""


def drawn(cell, n, m, seed):
    """A step's weights, input, state and what comes back to it, of a batch of one."""
    rng = np.random.default_rng(seed)
    w = {name: rng.standard_normal(shape) for name, shape in cell.shapes(m, n).items()}
    x, *states = (rng.standard_normal((1, size)) for size in (m, *[n] * 2 * len(cell.states)))
    return w, x, states[: len(cell.states)], states[len(cell.states) :]


def texts_of(cell, w, x, before, g):
    """What a person pastes, as NumPy prints it."""
    with np.printoptions(floatmode="unique"):
        fields = {name: str(value) for name, value in w.items()} | {"x": str(x[0])}
        fields |= {name: str(value[0]) for name, value in zip(cell.states, before, strict=True)}
        return fields | {f"d{name}": str(value[0]) for name, value in zip(cell.states, g, strict=True)}


def lines_of(cell, w, x, before, g):
    """What ortho_ref computes, by the names of the page: its caches and results, and what its lines hold on the way."""
    h, cache = cell.step_forward(w, x, state_of(tuple(before)))
    (dx, dh_prev, dweights), held = with_locals(cell.step_backward, w, state_of(tuple(g)), cache)
    named = {name: held[name] for name in held if name.startswith(("d", "da_", "db_")) and name != "dweights"}
    named |= cache._asdict() | dict(zip(cell.states, parts_of(cell, h), strict=True)) | {"dx": dx}
    named |= {f"d{name}_prev": part for name, part in zip(cell.states, parts_of(cell, dh_prev), strict=True)}
    named |= {f"d{name}": value for name, value in dweights.items()}
    if isinstance(cell, GRUResetBefore):
        named["dh_kept"] = g[0] * (1 - named["u"])
        named["dh_reset"] = named["dh_kept"] + named["ds"] * named["r"]
    if isinstance(cell, GRUResetAfter):
        named |= {"dh_kept": g[0] * named["z"], "da_r": named["db_r"], "da_z": named["db_z"]}
        named["dh_product"] = named["dh_kept"] + named["dp"] @ w["U_h"]
    if isinstance(cell, Elman):
        named["z"] = cache.a
    return named


def with_locals(function, *arguments):
    """What a function returns, and its local variables as it did."""
    held = {}

    def note(frame, event, argument):
        if event == "return" and frame.f_code is function.__code__:
            held.update(frame.f_locals)

    sys.setprofile(note)
    try:
        return function(*arguments), held
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("name", STEPS, ids="-".join)
def test_a_step_of_your_own(name):
    """Every line of a step forward and back, and that no line of the page is without a value."""
    cell = STEPS[name]
    page = (ROOT / PAGES / "your-own-cell.md").read_text(encoding="utf-8")
    (section,) = (part for part in page.split("\n## ") if f"/cells/{name[0]}.py)" in part)
    shown = re.findall(r'<span data-line="(\w+)"', section)
    steps = [drawn(cell, n, m, seed) for seed, (n, m) in enumerate(SIZES)]
    given = [{"cell": name[0], "phi": name[1], "texts": texts_of(cell, *step)} for step in steps]
    for step, found, (n, m) in zip(steps, answer(LINES, given), SIZES, strict=True):
        expected = lines_of(cell, *step)
        asked = {*cell.states, "x", *(f"d{state}" for state in cell.states), *cell.shapes(m, n)}
        assert {field["name"] for field in found["fields"]} == asked
        assert set(shown) <= set(found["lines"])
        for line, value in found["lines"].items():
            assert close(value, np.reshape(expected[line], np.shape(value))), line


WRONG = [
    ({"h": ""}, "h", "h has 0 numbers; allowed: 1 to 16 numbers"),
    ({"x": "1 two 3"}, "x", "x has 'two'; allowed: numbers, as 0.5 or -1e-3"),
    ({"x": "1 nan 3"}, "x", "x has 'nan'; allowed: numbers, as 0.5 or -1e-3"),
    ({"dh": "1 2 3"}, "dh", "dh has 3 numbers; allowed: 2, as h has"),
    ({"b_u": "1"}, "b_u", "b_u has 1 numbers; allowed: 2, as h has"),
    ({"U_c": "1 2\n3"}, "U_c", "U_c has 2 rows, of 2, 1 numbers; allowed: 2 rows of 2, as h has"),
    ({"x": "1 2"}, "W_r", "W_r has 2 rows, of 3, 3 numbers; allowed: 2 rows of 2, as h and x have"),
]


def test_what_is_pasted_wrong():
    """A message names the field, what was given and what is allowed."""
    assert answer(REFUSAL, [texts for texts, *_ in WRONG]) == [[field, message] for _, field, message in WRONG]


#: A matrix as people, NumPy and PyTorch write it.
PASTED = [
    "1 2; 3 4.5",
    "1, 2\n3, 4.5",
    "[[1, 2], [3, 4.5]]",
    "[[1.  2. ]\n [3.  4.5]]",
    "array([[1. , 2. ],\n       [3. , 4.5]], dtype=float32)",
    "tensor([[1.0, 2.0],\n        [3.0, 4.5]], dtype=torch.float64, requires_grad=True)",
    "tensor([[1.0, 2.0],\n        [3.0, 4.5]], grad_fn=<MulBackward0>)",
    "[[ 1.\n   2.]\n [ 3.\n   4.5]]",
]


def test_what_is_printed_can_be_pasted():
    """Each is the same matrix."""
    cell = Elman("tanh")
    w, x, before, g = drawn(cell, 2, 2, seed=0)
    w["U"] = np.array([[1, 2], [3, 4.5]])
    texts = texts_of(cell, w, x, before, g)
    found = answer(LINES, [{"cell": "elman", "phi": "tanh", "texts": texts | {"U": text}} for text in PASTED])
    assert all(close(one["lines"]["h"], cell.step_forward(w, x, before[0])[0][0]) for one in found)
