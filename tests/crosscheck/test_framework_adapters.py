"""`ortho_ref.adapters` on the frameworks: their own layers pass, modules of a user's too, wrong ones are named.

Each part is skipped where its framework is not installed.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from ortho_ref import adapters, converters, models, scan
from ortho_ref.adapters.weight_map import WeightMap
from ortho_ref.conformance import check
from ortho_ref.conformance.findings import findings

ROOT = Path(__file__).parent.parent.parent
GRU = converters.config_of("gru")


def passed(run, only="cell/*", dtype="float64"):
    """How many cases; none may fail."""
    report = check(run, only, dtype)
    assert report.ok, str(report)
    return report.counts["passed"]


class TestTorch:
    torch = None

    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

    @pytest.mark.parametrize("suffix", ["", "Cell"])
    def test_its_layers(self, suffix):
        """Classes, by name alone."""
        for name, count in {"RNN": 25, "LSTM": 13, "GRU": 24}.items():
            assert passed(adapters.from_torch(getattr(self.torch.nn, name + suffix))) == count

    def test_its_layers_whole(self):
        """No state or biases, two directions, three layers, packed sequences, resets; of a Cell what it can be."""
        nn = self.torch.nn
        for kind, count in ((nn.RNN, 15), (nn.LSTM, 19), (nn.GRU, 19), (nn.GRUCell, 3)):
            assert passed(adapters.from_torch(kind), "layer/*") == count

    def test_instances_keep_their_options(self):
        """batch_first, the nonlinearity, layers, directions, biases; what the kit has no cases of is refused."""
        nn = self.torch.nn
        assert passed(adapters.from_torch(nn.LSTM(2, 3, batch_first=True))) == 13
        assert passed(adapters.from_torch(nn.RNN(2, 3, nonlinearity="relu"))) == 13
        for options, names in (
            ({"num_layers": 2}, ["two-layers", "two-layers-resets", "stack-rows"]),
            (
                {"num_layers": 2, "bidirectional": True},
                ["two-layers-bidirectional", "stack-step", "stack-units", "stack-cut", "stack-lengths"],
            ),
            ({"bidirectional": True}, ["bidirectional", "bidirectional-lengths"]),
            ({"bias": False, "batch_first": True}, ["no-bias", "no-h0-no-bias"]),
        ):
            report = check(adapters.from_torch(nn.GRU(2, 3, **options)), ["cell/*", "layer/*"])
            found = [result.id for result in report.results if result.status == "passed"]
            assert found == [f"layer/gru_reset_after/{name}" for name in names]
            assert report.ok
        with pytest.raises(ValueError, match="proj_size=1; allowed: 0"):
            adapters.from_torch(nn.LSTM(2, 3, proj_size=1))

    def stacked(self, order=(0, 1, 2, 3)):
        """Two layers in two directions, and its wiring; the last states in another order are a mistake."""
        torch = self.torch

        class Stack(torch.nn.Module):
            def __init__(self, m, n):
                super().__init__()
                self.inner = torch.nn.GRU(m, n, num_layers=2, bidirectional=True, batch_first=True)

            def forward(self, x, h):
                y, last = self.inner(x, h)
                return y, last[list(order)]

        weights = {}
        for layer in range(2):
            for end in ("", "_reverse"):
                own, at = f"inner.{{}}_l{layer}{end}", f"layer{layer}{end}"
                weights[own.format("weight_ih")] = [f"{at}.W_{gate}" for gate in "rzh"]
                weights[own.format("weight_hh")] = [f"{at}.U_{gate}" for gate in "rzh"]
                weights[own.format("bias_ih")] = [f"{at}.b_{gate}" for gate in "rzh"]
                weights[own.format("bias_hh")] = ["0", "0", f"{at}.b_hh"]
        wiring = {"cell": "gru-cudnn", "weights": weights, "layers": 2, "bidirectional": True, "batch_first": True}
        return adapters.from_torch(Stack, **wiring)

    def test_several_layers_of_yours(self):
        """As a whole, layers before directions in the states."""
        assert passed(self.stacked(), "layer/gru_reset_after/two-layers-bidirectional") == 1
        report = check(self.stacked((1, 0, 3, 2)), "layer/gru_reset_after/two-layers-bidirectional")
        assert report.results[0].status == "failed"

    @pytest.mark.parametrize("side", ["right", "left"])
    @pytest.mark.parametrize("made", ["U_c.A", "U_c.A.triu"])
    def test_a_module_with_a_map(self, made, side):
        """NC-GRU with its own A and D: A free, or made of what is above its diagonal; D on the wrong side fails."""
        torch = self.torch

        class NCGRU(torch.nn.Module):
            def __init__(self, m, n):
                super().__init__()
                for gate in "ruc":
                    self.register_parameter(f"W_{gate}", torch.nn.Parameter(torch.zeros(n, m)))
                    self.register_parameter(f"b_{gate}", torch.nn.Parameter(torch.zeros(n)))
                self.U_r, self.U_u, self.A = (torch.nn.Parameter(torch.zeros(n, n)) for _ in range(3))
                self.register_buffer("D", torch.ones(n))

            def forward(self, x, h):
                A = self.A.triu(1) - self.A.triu(1).T if made.endswith("triu") else self.A
                I = torch.eye(len(A), dtype=A.dtype)
                U = torch.linalg.solve(I + A, I - A)
                U, states = U * self.D if side == "right" else self.D[:, None] * U, []
                for x_t in x:
                    r = torch.sigmoid(x_t @ self.W_r.T + h @ self.U_r.T + self.b_r)
                    u = torch.sigmoid(x_t @ self.W_u.T + h @ self.U_u.T + self.b_u)
                    a = x_t @ self.W_c.T + (r * h) @ U.T
                    h = (1 - u) * h + u * torch.sign(a) * torch.relu(a.abs() + self.b_c)
                    states.append(h)
                return torch.stack(states)

        weights = {name: name for name in ("W_r", "W_u", "W_c", "U_r", "U_u", "b_r", "b_u", "b_c")}
        run = adapters.from_torch(NCGRU, cell="nc-gru", weights=weights | {"A": made, "D": "U_c.D"})
        report = check(run, ["cell/gru_reset_before*", "layer/nc_gru/*"])
        supported = {result.id: result.status for result in report.results if result.status != "unsupported"}
        names = ("", "-step", "-rows", "-units", "-cut")
        assert supported == {f"layer/nc_gru/parametrized{s}": "passed" if side == "right" else "failed" for s in names}

    def test_the_matrix_called_A(self):
        """Which of the two is meant is said."""
        with pytest.warns(UserWarning, match=r"'A'\] is 'U_c', the matrix; say 'U_c.A' if A is that of U_c = "):
            WeightMap({**{n: n for n in ("W_r", "W_u", "W_c", "U_r", "U_u", "b_r", "b_u", "b_c")}, "A": "U_c"}, GRU)

    def module(self, inner="before"):
        """A GRU with stacked weights."""
        torch = self.torch

        class Mine(torch.nn.Module):
            def __init__(self, m, n):
                super().__init__()
                self.weight_ih = torch.nn.Parameter(torch.zeros(3 * n, m))
                self.weight_hh = torch.nn.Parameter(torch.zeros(3 * n, n))
                self.bias = torch.nn.Parameter(torch.zeros(3 * n))

            def forward(self, x, h):
                states = []
                for x_t in x:
                    a, b, c = (x_t @ self.weight_ih.T + self.bias).chunk(3, -1)
                    R, U, C = self.weight_hh.chunk(3)
                    r, u = torch.sigmoid(a + h @ R.T), torch.sigmoid(b + h @ U.T)
                    new = (r * h) @ C.T if inner == "before" else r * (h @ C.T)
                    h = (1 - u) * h + u * torch.tanh(c + new)
                    states.append(h)
                return torch.stack(states), h

        return Mine

    WEIGHTS: ClassVar = {
        "weight_ih": ["W_r", "W_u", "W_c"],
        "weight_hh": ["U_r", "U_u", "U_c"],
        "bias": ["b_r", "b_u", "b_c"],
    }

    def test_a_module(self):
        """By its class, by a function that makes it, called otherwise; a wrong one is named."""
        mine = self.module()
        assert passed(adapters.from_torch(mine, cell="gru", weights=self.WEIGHTS), "cell/gru_reset_before") == 12
        make = adapters.from_torch(
            lambda m, n: mine(m, n), cell="gru", weights=self.WEIGHTS, call=lambda module, x, h: module(x, h)[0]
        )
        assert passed(make, "cell/gru_reset_before", "float32") == 12
        wrong = adapters.from_torch(self.module("after"), cell="gru", weights=self.WEIGHTS)
        report = str(check(wrong, "cell/gru_reset_before/tanh*"))
        found = report[report.index("[1] Your outputs") : report.index("\n\n0 passed, 12 failed")]
        assert "reset gate applied after U_c" in found
        assert found in Path("docs/site/index.md").read_text(), "the front page shows another report"

    def test_a_module_without_initial_state(self):
        """forward(x), call(module, x), a call that ignores h0: the answers of h0 = 0, which the report says."""
        nn = self.torch.nn

        class Mine(nn.Module):
            def __init__(self, m, n):
                super().__init__()
                self.rnn = nn.LSTM(m, n)

            def forward(self, x):
                return self.rnn(x)

        weights = {f"rnn.weight_{k}h_l0": [f"{w}_{gate}" for gate in "ifgo"] for k, w in (("i", "W"), ("h", "U"))}
        weights |= {"rnn.bias_ih_l0": ["b_i", "b_f", "b_g", "b_o"], "rnn.bias_hh_l0": ["0"] * 4}
        for call in (None, lambda module, x: module(x)):
            run = adapters.from_torch(Mine, cell="lstm", weights=weights, call=call)
            report = check(run, ["cell/lstm*", "layer/lstm/*"])
            assert (report.ok, report.counts["passed"]) == (True, 16)
            assert "Assumed: h0-ignored" in str(report)
        run = adapters.from_torch(Mine, cell="lstm", weights=weights, call=lambda module, x, h0: module(x))
        assert check(run, "cell/lstm*", assume="h0-ignored").counts["passed"] == 13
        assert [own.says for own in findings(check(run, "cell/lstm*").results)] == [
            "your outputs equal lstm with h_0 = 0: the initial state is not taken"
        ]
        with pytest.raises(TypeError, match=r"Mine.forward\(x\) takes no state, which step=True has to be given"):
            adapters.from_torch(Mine, cell="lstm", weights=weights, step=True)
        with pytest.raises(TypeError, match=r"call\(module, ...\) takes 3 arguments; it is called \(x, h0\), or \(x\)"):
            adapters.from_torch(Mine, cell="lstm", weights=weights, call=lambda module, x, h, more: module(x))
        with pytest.raises(ValueError, match=r"made of \(hidden_size, input_size\) it fits"):
            adapters.from_torch(lambda m, n: Mine(n, m), cell="lstm", weights=weights)

    def test_a_module_that_keeps_state(self):
        """From one call to the next, as none of nn's does."""

        class Mine(self.module()):
            kept = None

            def forward(self, x, h):
                states, self.kept = super().forward(x, h if self.kept is None else self.kept.detach())
                return states

        report = check(adapters.from_torch(Mine, cell="gru", weights=self.WEIGHTS), "cell/gru_reset_before/tanh*")
        assert report.counts["failed"] == 12
        assert "a second run on the same case gave other outputs" in report.results[0].message

    def test_what_is_no_adapter_yet(self):
        """A class or module of the framework: the function that makes an adapter of it."""
        for run in (self.torch.nn.GRU, self.torch.nn.GRU(3, 4)):
            with pytest.raises(TypeError, match=r"GRU; it becomes a run\(case\) by ortho_ref.adapters.from_torch"):
                check(run, "cell/gru*")

    def test_wiring_that_does_not_fit(self):
        """Said before the first case, with the name, the shape, what there is."""
        mine, nn = self.module(), self.torch.nn

        def made_complex(m, n):
            module = mine(m, n)
            module.bias = nn.Parameter(module.bias.to(self.torch.complex64))
            return module

        with pytest.raises(ValueError, match="Mine has complex bias; allowed: real parameters"):
            adapters.from_torch(made_complex, cell="gru", weights=self.WEIGHTS)
        for weights, message in (
            ({**self.WEIGHTS, "weight_hh": ["U_r", "U_u"]}, "weights leaves out U_c; gru_reset_before has W_r, "),
            ({**self.WEIGHTS, "bias_hh": "0"}, "weights names 'bias_hh', which Mine does not have; it has 'weight_ih'"),
            (
                {**self.WEIGHTS, "weight_ih": ["W_r.T", "W_u.T", "W_c.T"]},
                r"'weight_ih'\] makes an array \(3, 12\); Mine",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                adapters.from_torch(mine, cell="gru", weights=weights)
        for call, message in (
            (lambda: adapters.from_torch(mine), "from_torch needs cell="),
            (lambda: adapters.from_torch(mine, cell="gru"), "needs weights="),
            (lambda: adapters.from_torch(mine(2, 3), cell="gru"), "instance of Mine, whose sizes are fixed"),
            (lambda: adapters.from_torch(nn.GRU, cell="gru"), "leave out cell"),
            (lambda: adapters.from_torch(3, cell="gru"), "target is 3; allowed"),
        ):
            with pytest.raises(TypeError, match=message):
                call()

    def test_a_function(self):
        """One that is detached, one of a wrong shape: clear failures of the case."""
        for function, message in (
            (lambda x, h, w: x[..., :1].detach() + h.detach(), "no gradient can be taken"),
            (lambda x, h, w: h, r"h has shape .* time first; expected"),
            (lambda x, h, w: {"h": h}, "the forward pass returned dict; expected h of every step"),
        ):
            report = check(adapters.from_torch(function, cell="gru"), "cell/gru_reset_before/tanh")
            assert re.search(message, report.results[0].message), report.results[0].message

    def test_complex_states_as_pairs(self):
        """uRNN's cell: the gradient's convention is the kit's without a word."""
        torch = self.torch

        def step(x, h, w):
            h, W, U = (torch.view_as_complex(a.contiguous()) for a in (h, w["W"], w["U"]))
            a = x.to(h.dtype) @ W.T + h @ U.T
            return torch.view_as_real(a / a.abs() * torch.relu(a.abs() + w["b"]))

        assert passed(adapters.from_torch(step, cell="urnn", step=True), "cell/elman") == 12


def test_a_scan_in_jax():
    """Jitted; float64 is on while it runs, and off after; the LSTM as a step."""
    jax = pytest.importorskip("jax", reason="jax is not installed: pip install jax")

    @jax.jit
    def step(x, state, w):
        h, c = state
        i, f, o = (jax.nn.sigmoid(x @ w[f"W_{g}"].T + h @ w[f"U_{g}"].T + w[f"b_{g}"]) for g in "ifo")
        c = f * c + i * jax.numpy.tanh(x @ w["W_g"].T + h @ w["U_g"].T + w["b_g"])
        return o * jax.numpy.tanh(c), c

    run = adapters.from_jax(step, cell="lstm", step=True)
    assert run.cell == "lstm"
    assert passed(run, "cell/lstm") == 13
    assert jax.numpy.zeros(1, "float32").dtype == jax.numpy.asarray(np.zeros(1)).dtype


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_half_precision(framework, dtype):
    """A function of yours gets its arrays in it, not in float32; a wrong one fails there too."""
    library = pytest.importorskip(framework, reason=f"{framework} is not installed: pip install {framework}")
    numpy, run = (library, adapters.from_torch) if framework == "torch" else (library.numpy, adapters.from_jax)
    seen = set()

    def step(x, h, w, U=lambda w: w["U"].T):
        seen.update(str(a.dtype).removeprefix("torch.") for a in (x, h, w["W"]))
        return numpy.tanh(x @ w["W"].T + h @ U(w) + w["b"])

    def report(step):
        return check(run(step, cell="rnn", step=True), "cell/elman/tanh", dtype, forward=True)

    assert report(lambda x, h, w: step(x, h, w)).ok
    assert seen == {dtype}
    assert not report(lambda x, h, w: step(x, h, w, lambda w: w["U"])).ok


@pytest.mark.parametrize("framework", ["jax", "equinox"])
def test_several_layers_of_yours_in_jax(framework):
    """Two layers in both directions, by a function or a module of one sequence; states by directions first fail."""
    pytest.importorskip(framework, reason=f"{framework} is not installed: pip install {framework}")
    import jax
    from jax import numpy as jnp

    wiring = {"cell": {"cell": "elman", "activation": "tanh"}, "layers": 2, "bidirectional": True}
    ways = ["layer0", "layer0_reverse", "layer1", "layer1_reverse"]

    def run(x, h0, weights, places=(0, 1, 2, 3)):
        last = {}
        for layer in (0, 2):
            outputs = []
            for place, way in list(zip(places, ways, strict=True))[layer : layer + 2]:
                W, U, b = (weights[f"{way}.{name}"] for name in "WUb")

                def step(h, x, W=W, U=U, b=b):
                    h = jnp.tanh(x @ W.T + h @ U.T + b)
                    return h, h

                last[place], states = jax.lax.scan(step, h0[place], x, reverse=way.endswith("reverse"))
                outputs.append(states)
            x = jnp.concatenate(outputs, -1)
        return x, jnp.stack([last[place] for place in range(4)])

    def adapter(places):
        if framework == "jax":
            return adapters.from_jax(lambda x, h0, weights: run(x, h0, weights, places), **wiring)
        import equinox

        class Stack(equinox.Module):
            w: dict

            def __init__(self, m, n, *, key):
                shapes = {"W": lambda way: (n, m if "0" in way else 2 * n), "U": lambda _: (n, n), "b": lambda _: (n,)}
                self.w = {f"{way}.{name}": jnp.zeros(shapes[name](way)) for way in ways for name in "WUb"}

            def __call__(self, x, h0):
                return run(x, h0, self.w, places)

        names = {f"w.{way}.{name}": f"{way}.{name}" for way in ways for name in "WUb"}
        return adapters.from_equinox(Stack, weights=names, **wiring)

    only = ["layer/elman/stack-units", "layer/elman/stack-step", "layer/elman/two-layers"]
    report = check(adapter((0, 1, 2, 3)), only)
    assert report.ok, str(report)
    assert [result.status for result in report.results].count("unsupported") == 1  # of one direction
    assert not check(adapter((1, 0, 2, 3)), only).ok


def test_flax_cells():
    """linen's and nnx's; a class of a user's by its parameters."""
    pytest.importorskip("flax", reason="flax is not installed: pip install flax")
    from flax import linen, nnx

    for library, gru in ((linen, 36), (nnx, 24)):
        for name, count in {"SimpleCell": 25, "LSTMCell": 13, "OptimizedLSTMCell": 13, "GRUCell": gru}.items():
            assert passed(adapters.from_flax(getattr(library, name)), "cell/*") == count
        stacks = ["layer/lstm/stack-units", "layer/lstm/stack-step", "layer/lstm/no-h0", "layer/lstm/lengths"]
        assert adapters.from_flax(library.LSTMCell).cell == "lstm"
        assert passed(adapters.from_flax(library.LSTMCell), stacks) == 2  # in RNN; h0 is given to one cell, no lengths
    weights = {"dense_i/kernel": "W.T", "dense_i/bias": "b", "dense_h/kernel": "U.T"}
    make = adapters.from_flax(lambda m, n: nnx.SimpleCell(m, n, rngs=nnx.Rngs(0)), cell="rnn", weights=weights)
    assert make.cell == "elman"
    assert passed(make, "cell/elman/tanh", "float32") == 1
    wrong = {"dense_i/kernel": [["W.T"], ["U.T"]], "dense_i/bias": "b"}
    with pytest.raises(ValueError, match="weights leaves out 'dense_h/kernel' of SimpleCell"):
        adapters.from_flax(lambda m, n: nnx.SimpleCell(m, n, rngs=nnx.Rngs(0)), cell="rnn", weights=wrong)


class TestEquinox:
    eqx = None

    @pytest.fixture(autouse=True)
    def _equinox(self):
        self.eqx = pytest.importorskip("equinox", reason="equinox is not installed: pip install equinox")

    def test_its_cells(self):
        """By name alone, and as a layer without biases or with the batch first; of ReLU there is none."""
        nn, lstm, gru = self.eqx.nn, "lstm", "gru_reset_after"
        lstms = ["cell/lstm/step", "cell/lstm/square", "layer/lstm/no-bias"]
        grus = [f"cell/{gru}/{name}" for name in ("tanh-step", "recurrent-bias-square", "relu-step")]
        for kind, only, cell in ((nn.LSTMCell, lstms, lstm), (nn.GRUCell, grus, gru)):
            report = check(adapters.from_equinox(kind), [*only, f"layer/{cell}/batch-first", f"layer/{cell}/lengths"])
            assert report.ok, str(report)
            left = {result.id for result in report.results if result.status == "unsupported"}
            assert adapters.from_equinox(kind).cell == cell
            assert left == {f"layer/{cell}/lengths"} | {id for id in only if "relu" in id}

    def gru(self):
        """A GRU around Equinox's own."""
        eqx = self.eqx

        class Mine(eqx.Module):
            inner: eqx.nn.GRUCell

            def __init__(self, m, n, *, key):
                self.inner = eqx.nn.GRUCell(m, n, key=key)

            def __call__(self, x, h):
                return self.inner(x, h)

        return Mine

    WEIGHTS: ClassVar = {
        "inner.weight_ih": ["W_r", "W_z", "W_h"],
        "inner.weight_hh": ["U_r", "U_z", "U_h"],
        "inner.bias": ["b_r", "b_z", "b_h"],
        "inner.bias_n": "b_hh",
    }

    def test_a_module_of_yours(self):
        """By its class, and by a function that makes it; another order of gates is named."""
        import jax

        mine = self.gru()
        run = adapters.from_equinox(mine, cell="gru-cudnn", weights=self.WEIGHTS)
        assert run.cell == "gru_reset_after"
        assert passed(run, "cell/gru_reset_after/recurrent-bias-step") == 1
        make = adapters.from_equinox(
            lambda m, n: mine(m, n, key=jax.random.key(0)), cell="gru-cudnn", weights=self.WEIGHTS
        )
        assert passed(make, "cell/gru_reset_after/recurrent-bias-step", "float32") == 1
        swapped = self.WEIGHTS | {f"inner.weight_{k}h": [f"{w}_z", f"{w}_r", f"{w}_h"] for k, w in ("iW", "hU")}
        wrong = adapters.from_equinox(mine, cell="gru-cudnn", weights=swapped | {"inner.bias": ["b_z", "b_r", "b_h"]})
        (result,) = check(wrong, "cell/gru_reset_after/recurrent-bias-square").results
        assert "the weights of r and z exchanged" in result.diagnosis

    def test_targets_that_do_not_fit(self):
        """Said before the first case."""
        import jax

        nn, mine = self.eqx.nn, self.gru()
        own = {"cell": "gru-cudnn", "weights": self.WEIGHTS}
        for call, message in (
            (
                lambda: adapters.from_equinox(nn.GRUCell, **own),
                "from_equinox of GRUCell knows the cell and its weights",
            ),
            (lambda: adapters.from_equinox(mine(2, 3, key=jax.random.key(0)), **own), "target is a Mine; allowed"),
            (lambda: adapters.from_equinox(mine), "from_equinox needs cell="),
            (lambda: adapters.from_equinox(mine, cell="gru-cudnn"), "needs weights="),
            (lambda: adapters.from_equinox(lambda m, n: 3, **own), "target made an int; expected a module of Equinox"),
        ):
            with pytest.raises(TypeError, match=message):
                call()
        bare = {name: a for name, a in self.WEIGHTS.items() if name != "inner.bias_n"}
        with pytest.raises(ValueError, match=r"weights leaves out 'inner\.bias_n' of Mine"):
            adapters.from_equinox(mine, cell="gru_reset_after", weights=bare)


def test_keras_layers():
    """In float32 on any backend."""
    keras = pytest.importorskip("keras", reason="keras is not installed: pip install keras")
    for name, count in {"SimpleRNN": 25, "LSTM": 13, "GRU": 60}.items():
        assert passed(adapters.from_keras(getattr(keras.layers, name)), "cell/*", "float32") == count
    assert passed(adapters.from_keras(keras.layers.GRU(3, reset_after=False)), "cell/*", "float32") == 12
    for layer, count in ((keras.layers.GRU, 30), (keras.layers.LSTM, 15), (keras.layers.GRU(3, use_bias=False), 2)):
        assert passed(adapters.from_keras(layer), "layer/*", "float32") == count  # no state, no biases, masks, stacks

    names = [adapters.from_keras(getattr(keras.layers, name)).cell for name in ("SimpleRNN", "LSTM", "GRU")]
    assert names == ["elman", "lstm", ""]  # a GRU is either

    class Turned(keras.layers.LSTM):
        def call(self, sequences, initial_state=None, mask=None, training=False):
            start = None if initial_state is None else initial_state[::-1]
            return super().call(sequences, start, mask, training)

    assert not check(adapters.from_keras(Turned), "layer/lstm/stack-units", "float32").ok


@pytest.mark.parametrize("model", ["rnn", "lstm", "gru-cudnn"])
def test_mlx_runs_our_weights(model):
    """Its layers with what the converter gives, in float32."""
    mx = pytest.importorskip("mlx.core", reason="mlx is not installed: pip install mlx")
    from mlx import nn

    config, rng, cell = converters.config_of(model), np.random.default_rng(0), models.build(model, 3, 4).cell
    layer = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru-cudnn": nn.GRU}[model](3, 4)
    weights = {k: rng.standard_normal(s) for k, s in cell.shapes(3, 4).items()}
    arrays = converters.by_name("mlx").to_framework(config, weights)
    assert {k: v.shape for k, v in layer.parameters().items()} == {k: a.shape for k, a in arrays.items()}
    layer.update({k: mx.array(a.astype(np.float32)) for k, a in arrays.items()})
    x, h, c = rng.standard_normal((5, 2, 3)), *rng.standard_normal((2, 2, 4))
    given = [mx.array(a.astype(np.float32)) for a in (x.swapaxes(0, 1), h, c)[: 3 if model == "lstm" else 2]]
    theirs = layer(*given)
    expected = scan.forward(cell, weights, x, (h, c) if model == "lstm" else h)[0]
    for ours, own in zip(
        expected if model == "lstm" else [expected], theirs if model == "lstm" else [theirs], strict=True
    ):
        np.testing.assert_allclose(np.array(own).swapaxes(0, 1), ours[1:], atol=1e-5)


@pytest.mark.parametrize(
    ("framework", "says"), [("torch", "24 passed, 0"), ("jax", "applied after"), ("keras", "60 passed, 0")]
)
def test_the_page_s_three_lines(framework, says):
    """Those of docs/conformance.md and docs/check/adapters.md, as they stand there."""
    pytest.importorskip(framework, reason=f"{framework} is not installed: pip install {framework}")
    page = "".join((ROOT / "docs" / name).read_text() for name in ("conformance.md", "check/adapters.md"))
    (block,) = re.findall(rf"```py\n(import {framework}\b.*?)```", page, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
