"""Kind linear: every step's adjoint, every recurrence by a second route, and that every mistake is seen."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ortho_ref.conformance import check, check_function
from ortho_ref.conformance.cases import drawing
from ortho_ref.conformance.cases.case import Case, joined
from ortho_ref.conformance.cases.reference import outputs as base
from ortho_ref.conformance.linear import delta, diagonal
from ortho_ref.conformance.linear.table import RECURRENCES
from ortho_ref.conformance.linear.through_time import forward
from ortho_ref.conformance.mistakes.linear import MISTAKES
from scripts.maintain.vectors.linear_cases import Plan, arrays_of, config_of
from tests.ortho_ref.conformance.adapters import BY_ID

TOLERANCE = 1e-9  # the kit's, in float64
VECTORS = {id: vector for id, vector in BY_ID.items() if vector.case.kind == "linear"}
CASES = {id: vector.case for id, vector in VECTORS.items()}
DELTA = ("gated_delta_rule", "delta_product", "kda")
# of what the usual options leave out
VARIANTS = {
    "lru": [{}, {"gamma": "computed"}],
    "mingru": [{}, {"activation": "identity"}],
    "mlstm": [{}, {"forget": "exp", "eps": 1e-3}],
    "slstm": [{}, {"forget": "exp"}],
} | {name: [{}, {"normalise": False}, {"eps": 0.1}] for name in (*DELTA, "rwkv7")}


def right(id):
    return VECTORS[id].expected


def outputs(config, inputs):
    return base(Case("made/up", "linear", config, inputs))


def draw(seed, r, sizes, **ranges):
    return drawing.inputs_of({"seed": seed, "arrays": arrays_of(r, sizes, ranges)})


def error(found, expected):
    """The largest, in each output's own size; of all the outputs where one is 0."""
    whole, errors = max(np.abs(a).max() for a in expected.values()), []
    for name, a in expected.items():
        if not np.isfinite(found[name]).all():
            return np.inf
        errors.append(np.abs(found[name] - a).max() / (np.abs(a).max() or whole))
    return max(errors)


def checked(run, case, **options):
    """Gradients of a run(case), which has them among its outputs, beside differences."""
    kinds = {n: a for n, a in case.inputs.items() if n not in ("do", "resets") and not n.endswith("_T")}
    fixed = {n: a for n, a in case.inputs.items() if n not in kinds}

    def given_(inputs, upstream=None):
        upstream = {} if upstream is None else {f"d{name}": a for name, a in upstream.items()}
        return run(replace(case, inputs={**fixed, **inputs, **upstream}))

    def of_forward(inputs):
        return {name: a for name, a in given_(inputs).items() if not name.startswith("d_")}

    def of_backward(inputs, upstream):
        found = given_(inputs, upstream)
        return {name: found[f"d_{name}"] for name in kinds}

    return check_function(of_forward, of_backward, kinds, may_vanish=tuple(kinds), **options)


# Every step's adjoint


@st.composite
def drawn(draw_, name):
    """A case with sizes, options, resets of its own."""
    sizes = {"T": draw_(st.integers(1, 4)), **{a: draw_(st.integers(1, 2)) for a in "BHN"}}
    sizes |= {a: draw_(st.integers(2, 3)) for a in "KVD"}
    options = draw_(st.sampled_from(VARIANTS[name]))
    marks = draw_(st.sets(st.tuples(st.integers(0, sizes["T"] - 1), st.integers(0, sizes["B"] - 1)), max_size=3))
    without = "gamma_log" if options.get("gamma") == "computed" else ""
    how = {"options": options, "initial": draw_(st.booleans()), "marks": marks, "without": without}
    spec = Plan("drawn", name, "", sizes, **how).spec()
    return spec.case(drawing.inputs_of(spec.drawn(draw_(st.integers(0, 99)))))


@pytest.mark.parametrize("name", RECURRENCES)
@settings(max_examples=8)
@given(data=st.data())
def test_backward_is_the_derivative(name, data):
    report = checked(base, data.draw(drawn(name)), entries=30, directions=4)
    assert report.ok, report
    assert report.checked > 4 * report.skipped


@pytest.mark.parametrize("name", RECURRENCES)
def test_a_gradient_that_is_off_is_seen(name):
    """By a part in 10^5, in every input."""
    run = lambda case: {n: a * (1 + 1e-5) if n.startswith("d_") else a for n, a in base(case).items()}  # noqa: E731
    report = checked(run, CASES[f"linear/{name}/one-step"], entries=20)
    assert {r.status for r in report.results} == {"failed"}


# Second routes


def pairs(left, log_left, right_, log_right, diagonal):
    """<left_t, exp(log_left_t - log_right_s) right_s> for s < t, or s <= t: no exponential that overflows."""
    T = len(left)
    earlier = np.tri(T, k=0 if diagonal else -1, dtype=bool)[..., None]
    factor = np.exp(np.where(earlier, log_left[:, None] - log_right[None], -np.inf))
    return np.einsum("tk,tsk,sk->ts", left, factor, right_)


def chunk_of_delta(q, k, v, beta, g, S):
    """The gated delta rule of one head at once, by a triangular solve.  q (T, K), g (T, K)."""
    G, b = np.cumsum(g, axis=0), beta[:, None] * k
    u = np.linalg.solve(np.eye(len(k)) + pairs(k, G, b, G, diagonal=False), v - (k * np.exp(G)) @ S)
    o = pairs(q, G, b, G, diagonal=True) @ u + (q * np.exp(G)) @ S
    return o, np.exp(G[-1])[:, None] * S + (b * np.exp(G[-1] - G)).T @ u


def chunk_of_rwkv7(r, w, k, v, kappa, a, S):
    """The same of RWKV-7, whose removal reads the state before its decay."""
    G, b = np.cumsum(w, axis=0), a * kappa
    before = G - w
    known = pairs(kappa, before, k, G, diagonal=False) @ v + (kappa * np.exp(before)) @ S
    u = -np.linalg.solve(np.eye(len(k)) + pairs(kappa, before, b, G, diagonal=False), known)
    o = pairs(r, G, b, G, diagonal=True) @ u + pairs(r, G, k, G, diagonal=True) @ v + (r * np.exp(G)) @ S
    late = np.exp(G[-1] - G)
    return o, np.exp(G[-1])[:, None] * S + (b * late).T @ u + (k * late).T @ v


def chunked(case, size):
    """o and S_T by chunks: writes of a step one after another, the decay with the first, the query with the last."""
    x, config = case.inputs, case.config
    name, unit = config["recurrence"], lambda a: delta.unit(config, a)[0]
    T, (B, H, K, V) = len(x["do"]), x["dS_T"].shape
    o, S_T = np.zeros_like(x["do"]), np.zeros((B, H, K, V))
    n = x["k"].shape[1] if name == "delta_product" else 1
    for b, h in np.ndindex(B, H):
        S = x["S0"][b, h] if "S0" in x else np.zeros((K, V))
        if name == "rwkv7":
            own = {i: x[i][:, b, h] for i in ("r", "w", "k", "v", "a")} | {"kappa": unit(x["kappa"])[:, b, h]}
            own = [own[i] for i in ("r", "w", "k", "v", "kappa", "a")]
        else:
            k, v, beta = (a.reshape(T * n, B, H, -1)[:, b, h] for a in (unit(x["k"]), x["v"], x["beta"]))
            q, g = np.zeros((T * n, K)), np.zeros((T * n, K))
            q[n - 1 :: n], g[::n] = config["scale"] * unit(x["q"])[:, b, h], x["g"].reshape(T, B, H, -1)[:, b, h]
            own = [q, k, v, beta[:, 0], g]
        rows = []
        for start in range(0, T * n, size):
            o_chunk, S = (chunk_of_rwkv7 if name == "rwkv7" else chunk_of_delta)(
                *(a[start : start + size] for a in own), S
            )
            rows.append(o_chunk)
        o[:, b, h], S_T[b, h] = np.concatenate(rows)[n - 1 :: n], S
    return {"o": o, "S_T": S_T}


@pytest.mark.parametrize("id", [i for i, c in CASES.items() if "S0" in c.inputs and "resets" not in c.inputs])
@pytest.mark.parametrize("size", [3, 64])
def test_matrix_states_by_chunks(id, size):
    found, expected = chunked(CASES[id], size), right(id)
    assert error(found, {name: expected[name] for name in found}) < 1e-12


def changed(case, options=(), **inputs):
    return replace(case, config={**case.config, **dict(options)}, inputs={**case.inputs, **inputs})


def test_one_write_and_one_decay_are_the_gated_delta_rule():
    """DeltaProduct of one write, KDA of equal decays: the same outputs, the same gradients."""
    case = CASES["linear/gated_delta_rule/resets"]
    one = {name: case.inputs[name][:, None] for name in ("k", "v", "beta")}
    product = base(changed(case, {"recurrence": "delta_product"}, **one))
    K = case.inputs["q"].shape[-1]
    kda = base(changed(case, {"recurrence": "kda"}, g=np.repeat(case.inputs["g"][..., None], K, axis=-1)))
    for name, a in right(case.id).items():
        p, q = product[name], kda[name]
        p, q = p[:, 0] if name[2:] in one else p, q.sum(axis=-1) if name == "d_g" else q
        assert np.abs(p - a).max() < 1e-13 * np.abs(a).max()
        assert np.abs(q - a).max() < 1e-13 * np.abs(a).max()


def test_resets_are_sequences_of_their_own():
    """A sequence with a reset gives what its two parts give, and the first does not see the second."""
    for name, r in RECURRENCES.items():
        case = CASES[f"linear/{name}/resets-129"]
        parts, borders = [], [0, 63, 64, 100, 129]
        for start, stop in pairwise(borders):
            own = {n: a[start:stop] if n in ("do", *(i for i, x in r.inputs.items() if x.axes[0] == "T")) else a
                   for n, a in case.inputs.items() if n != "resets"}  # fmt: skip
            own = {n: a for n, a in own.items() if start == 0 or n[:-1] not in r.states or n[-1] != "0"}
            own |= {n: a * 0 for n, a in own.items() if n.endswith("_T") and stop < 129}
            parts.append(outputs(case.config, own))
        whole = right(case.id)
        time_first = [n for n in whole if n == "o" or (n[2:] in r.inputs and r.inputs[n[2:]].axes[0] == "T")]
        joined_ = {n: np.concatenate([p[n] for p in parts]) for n in time_first}
        joined_ |= {n: sum(p[n] for p in parts) for n in whole if n[2:] in r.inputs and n not in time_first}
        joined_ |= {f"{s}_T": parts[-1][f"{s}_T"] for s in r.states} | {
            f"d_{s}0": parts[0][f"d_{s}0"] for s in r.states
        }
        assert error(joined_, whole) < 1e-12


def test_lru_by_powers():
    """x_t = lambda^(t+1) x_0 + sum_s lambda^(t-s) gamma u_s."""
    for name in ("plain", "length-129", "strong-decay", "gamma-computed"):
        x = CASES[f"linear/lru/{name}"].inputs
        u, x0, T = joined(x["u"]), joined(x["x0"]) if "x0" in x else 0, len(x["u"])
        log = -np.exp(x["nu_log"]) + 1j * np.exp(x["theta_log"])
        gamma = np.exp(x["gamma_log"]) if "gamma_log" in x else np.sqrt(1 - np.exp(2 * log.real))
        lag = np.arange(T)[:, None] - np.arange(T)
        powers = np.where((lag >= 0)[..., None], np.exp(np.maximum(lag, 0)[..., None] * log), 0)
        o = np.einsum("tsd,sbd->tbd", powers * gamma, u) + np.exp((np.arange(T) + 1)[:, None] * log)[:, None] * x0
        expected = joined(right(f"linear/lru/{name}")["o"])
        assert np.abs(o - expected).max() < 1e-12 * np.abs(expected).max()


def test_mingru_in_log_space():
    """The authors' form: h_t = exp(A_t) (h_0 + sum_s exp(log z_s + log g(c_s) - A_s)), A the summed log(1 - z)."""
    for name in ("plain", "length-129", "strong-decay", "saturated"):
        x = CASES[f"linear/mingru/{name}"].inputs
        a, c, log_h0 = x["a"], x["c"], np.log(x["h0"]) if "h0" in x else np.full(x["dh_T"].shape, -np.inf)
        A = np.cumsum(-np.logaddexp(0, a), axis=0)
        log_g = np.where(c >= 0, np.log(np.maximum(c, 0) + 0.5), -np.logaddexp(0, -c))
        terms = np.concatenate([log_h0[None], -np.logaddexp(0, -a) + log_g - A])
        expected = right(f"linear/mingru/{name}")["o"]
        o = np.exp(A + np.logaddexp.accumulate(terms, axis=0)[1:])
        assert np.abs(o - expected).max() < 1e-12 * np.abs(expected).max()


def log_forget(case, name):
    f = case.inputs[name]
    return -np.logaddexp(0, -f) if case.config["forget"] == "sigmoid" else f


@pytest.mark.parametrize("name", ["plain", "no-initial-state", "length-129", "forget-exp", "floor", "eps"])
def test_mlstm_in_parallel_without_a_stabiliser(name):
    """o_t = sum_s D_ts (q_t k_s) v_s / max(|sum_s D_ts (q_t k_s)|, 1), D_ts = f_t ... f_{s+1} exp(i_s)."""
    case = CASES[f"linear/mlstm/{name}"]
    x, expected = case.inputs, right(case.id)
    k, F = case.config["scale"] * x["k"], np.cumsum(log_forget(case, "f"), axis=0)
    later = np.tri(len(k), dtype=bool)[..., None, None]
    D = np.exp(np.where(later, F[:, None] - F[None] + x["i"][None], -np.inf))
    weights = D * np.einsum("tbhk,sbhk->tsbh", x["q"], k)
    top, s = np.einsum("tsbh,sbhv->tbhv", weights, x["v"]), weights.sum(axis=1)
    if "m0" in x:
        q = x["q"] * np.exp(F + x["m0"])[..., None]
        top, s = top + np.einsum("tbhk,bhkv->tbhv", q, x["C0"]), s + np.einsum("tbhk,bhk->tbh", q, x["n0"])
    if name in ("floor", "plain"):
        assert (np.abs(s) < 1).any()
    m = F + np.maximum(np.maximum.accumulate(x["i"] - F, axis=0), x.get("m0", 0))  # eps is beside exp(-m)
    o = top / (np.maximum(np.abs(s), 1) + case.config["eps"] * np.exp(m))[..., None]
    assert np.abs(o - expected["o"]).max() < 1e-12 * np.abs(expected["o"]).max()
    last = np.exp(expected["m_T"])
    C = np.einsum("sbh,sbhk,sbhv->bhkv", D[-1], k, x["v"])
    C = C + np.exp(F[-1] + x["m0"])[..., None, None] * x["C0"] if "m0" in x else C
    assert np.abs(C - last[..., None, None] * expected["C_T"]).max() < 1e-12 * np.abs(C).max()


@pytest.mark.parametrize("name", ["plain", "no-initial-state", "length-129", "forget-exp", "resets"])
def test_slstm_without_a_stabiliser(name):
    """Equations (8) to (14) as they stand, exp(i) and all."""
    case = CASES[f"linear/slstm/{name}"]
    x, expected = case.inputs, right(case.id)
    h, c, n = (x.get(f"{s}0", np.zeros_like(x["dh_T"])) for s in "hcn")
    c, n = (s * np.exp(x.get("m0", 0)) for s in (c, n))
    for t in range(len(x["do"])):
        if "resets" in x:
            h, c, n = (np.where(x["resets"][t][:, None, None], 0, s) for s in (h, c, n))
        a = {g: x[f"x_{g}"][t] + (x[f"R_{g}"] @ h[..., None])[..., 0] for g in "ifzo"}
        f = 1 / (1 + np.exp(-a["f"])) if case.config["forget"] == "sigmoid" else np.exp(a["f"])
        c, n = f * c + np.exp(a["i"]) * np.tanh(a["z"]), f * n + np.exp(a["i"])
        h = c / n / (1 + np.exp(-a["o"]))
        assert np.abs(h - expected["o"][t]).max() < 1e-12
    assert np.abs(n - expected["n_T"] * np.exp(expected["m_T"])).max() < 1e-12 * np.abs(n).max()


@pytest.mark.parametrize("name", ["mlstm", "slstm"])
def test_no_output_sees_m(name):
    """A state times exp(s), with m - s, is the same state: the same o, and d_m0 = <C0, d_C0> + <n0, d_n0>."""
    case = CASES[f"linear/{name}/plain"]
    x, states = case.inputs, {"mlstm": "Cn", "slstm": "cn"}[name]
    moved = {f"{s}0": x[f"{s}0"] * np.exp(0.7) for s in states} | {"m0": x["m0"] - 0.7}
    assert np.abs(base(changed(case, **moved))["o"] - right(case.id)["o"]).max() < 1e-13
    still = {f"d{s}_T": np.zeros_like(x[f"d{s}_T"]) for s in (*states, "m")}
    found = base(changed(case, **still))
    product = sum((x[f"{s}0"] * found[f"d_{s}0"]).reshape(*found["d_m0"].shape, -1).sum(axis=-1) for s in states)
    assert np.abs(product - found["d_m0"]).max() < 1e-13 * np.abs(product).max()


# Orthogonal or not: what docs/linear.md says


def transition(name, K=3, N=1, **given_):
    """dS_t / dS_{t-1} of one step, a K x K matrix: the step applied to I, nothing written."""
    r = RECURRENCES[name]
    sizes = {"T": 1, "B": 1, "H": 1, "K": K, "V": K, "N": N, "D": K}
    inputs = draw(f"transition {name}", r, sizes)
    inputs |= {"S0": np.eye(K)[None, None], "v": np.zeros_like(inputs["v"])}
    inputs |= {n: np.broadcast_to(value, inputs[n].shape) for n, value in given_.items()}
    found, _ = forward(config_of(r, sizes, eps=0.0), inputs)
    return found["S_T"][0, 0]


@pytest.mark.parametrize("name", ["gated_delta_rule", "kda"])
def test_the_delta_rule_reflects_projects_and_between(name):
    for beta in (0.0, 0.3, 1.0, 1.7, 2.0):
        A = transition(name, g=0.0, beta=beta)
        assert np.allclose(np.linalg.eigvalsh(A), np.sort([1 - beta, 1, 1]), atol=1e-14)
        assert np.allclose(A @ A.T, np.eye(3), atol=1e-14) == (beta in (0.0, 2.0))
        assert np.allclose(A @ A, A, atol=1e-14) == (beta in (0.0, 1.0))


@pytest.mark.parametrize("N", [1, 2, 3])
def test_delta_product_turns(N):
    """At beta = 2 a product of N reflections: orthogonal, of determinant (-1)^N."""
    A = transition("delta_product", N=N, g=0.0, beta=2.0)
    assert np.allclose(A @ A.T, np.eye(3), atol=1e-14)
    assert np.isclose(np.linalg.det(A), (-1) ** N)


def test_reflections_keep_the_norm():
    """Over 200 steps; at beta = 1.9 they do not."""
    r, sizes = RECURRENCES["gated_delta_rule"], {"T": 200, "B": 1, "H": 1, "K": 3, "V": 2}
    for beta, kept in ((2.0, True), (1.9, False)):
        inputs = draw("norm", r, sizes, beta=(beta, beta), g=(0, 0), v=(0, 0))
        found, _ = forward(config_of(r, sizes, eps=0.0), inputs)
        ratio = np.linalg.norm(found["S_T"]) / np.linalg.norm(inputs["S0"])
        assert (abs(ratio - 1) < 1e-13) == kept


def test_rwkv7_projects_and_need_not_be_symmetric():
    one = transition("rwkv7", w=0.0, a=1.0)
    assert np.allclose(one @ one, one, atol=1e-14)
    assert np.allclose(one, one.T, atol=1e-14)
    mixed = transition("rwkv7")
    assert not np.allclose(mixed, mixed.T, atol=1e-2)
    assert np.allclose(transition("rwkv7", a=0.0), np.diag(np.diag(transition("rwkv7", a=0.0))))


def test_rwkv7_has_real_eigenvalues_and_may_grow_for_a_step():
    """Between min(w) - max(a) and max(w); w = 1, a = (1, 0), kappa = (1, 1) / sqrt(2) has the norm 1.144."""
    for K in (2, 3, 5):
        A = transition("rwkv7", K=K)
        eigenvalues = np.linalg.eigvals(A)
        assert np.abs(eigenvalues.imag).max() < 1e-12
        assert eigenvalues.real.min() > -1
        assert eigenvalues.real.max() < 1
    A = np.eye(2) - np.outer([1, 0], [1, 1]) / 2
    given_ = {
        "w": np.zeros((1, 1, 1, 2)),
        "a": np.array([1.0, 0.0]).reshape(1, 1, 1, 2),
        "kappa": np.ones((1, 1, 1, 2)),
    }
    assert np.allclose(transition("rwkv7", K=2, **given_), A, atol=1e-14)
    assert np.isclose(np.linalg.norm(A, 2), 1.144, atol=1e-3)


def test_gamma_keeps_the_variance():
    """gamma^2 sum |lambda|^(2 t) = 1: inputs of variance 1 give a state of variance 1."""
    nu = np.exp(np.linspace(-6, 1, 8))
    gamma, _, _ = diagonal.gamma({"gamma": "computed"}, {"nu_log": np.log(nu)})
    assert np.allclose(gamma**2 * np.exp(-2 * nu[:, None] * np.arange(20_000)).T.sum(axis=0), 1, atol=1e-12)


def test_slstm_is_a_mean_of_contents():
    """From the empty state |h| < 1, whatever the gates."""
    for name in ("no-initial-state", "large-gates", "strong-decay"):
        case = CASES[f"linear/slstm/{name}"]
        own = {n: a for n, a in case.inputs.items() if n not in ("h0", "c0", "n0", "m0")}
        assert np.abs(outputs(case.config, own)["o"]).max() < 1


@pytest.mark.parametrize("name", ["lru", "mingru"])
def test_diagonal_states_contract(name):
    """|d o_T / d s_0| falls with every step."""
    case = CASES[f"linear/{name}/plain"]
    state = {"lru": "x", "mingru": "h"}[name]
    found = base(changed(case, do=case.inputs["do"] * 0))
    assert np.abs(found[f"d_{state}0"]).max() < np.abs(case.inputs[f"d{state}_T"]).max()
    d = joined(found["d_x0"]) if name == "lru" else found["d_h0"]
    given_ = joined(case.inputs["dx_T"]) if name == "lru" else case.inputs["dh_T"]
    assert (np.abs(d) < np.abs(given_)).all()


# The cases, and the mistakes


def test_cases_are_finite_and_off_kinks():
    """Inputs 1e-7 away give gradients that are about as near."""
    rng = np.random.default_rng(0)
    for id, case in CASES.items():
        expected = right(id)
        assert all(np.isfinite(a).all() for a in expected.values())
        near = {
            n: a + 1e-7 * rng.standard_normal(a.shape) if a.dtype.kind == "f" else a for n, a in case.inputs.items()
        }
        assert error(base(changed(case, **near)), expected) < 1e-3, id


def test_right_code_passes_in_float32():
    """The kit's tolerance there is 5e-5; no output is so small that float32 loses it."""
    for id, case in CASES.items():
        inputs = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in case.inputs.items()}
        found, expected = outputs(case.config, inputs), right(id)
        assert all(a.dtype == np.float32 for a in found.values())
        assert all(a.max() == a.min() == 0 or np.abs(a).max() > 1e-30 for a in expected.values()), id
        assert error(found, expected) < 2e-5, id


ROUNDED = {"linear-state-bfloat16", "linear-decay-gradient-float32"}  # differences do not see it, or see nothing else
BACKWARD = {"linear-final-gradient-ignored", "lru-gamma-no-gradient", "lru-conjugate-gradients"}


def smallest_seen(mistake):
    """The smallest case that shows it by twenty times the tolerance; of more than one step, if there is one."""
    own = sorted((c for c in CASES.values() if mistake.applies(c)), key=lambda c: c.inputs["do"].size)
    with np.errstate(all="ignore"):
        seen = (c for c in own if error(mistake.outputs(c, base), right(c.id)) > 20 * TOLERANCE)
        first = next(seen)
        return first if len(first.inputs["do"]) > 1 else next((c for c in seen if len(c.inputs["do"]) > 1), first)


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.name not in ROUNDED], ids=lambda mistake: mistake.name)
def test_backward_of_a_wrong_forward_is_its_derivative(mistake):
    """As automatic differentiation of the wrong code gives it; of those of the backward pass alone it is not."""
    case = smallest_seen(mistake)
    report = checked(lambda case: mistake.outputs(case, base), case, entries=20, directions=3)
    assert report.ok == (mistake.name not in BACKWARD), report


def test_two_mistakes_together():
    """One around the other: neither hides the other, in either order."""
    named, case = {mistake.name: mistake for mistake in MISTAKES}, CASES["linear/kda/plain"]
    one, other = named["delta-write-before-decay"], named["linear-state-bfloat16"]
    both = one.outputs(case, lambda c: other.outputs(c, base))
    turned = other.outputs(case, lambda c: one.outputs(c, base))
    assert all(np.array_equal(both[name], a) for name, a in turned.items())
    for alone in (one, other):
        assert error(alone.outputs(case, base), both) > 1e-4


# As a kind of the kit


def test_what_nothing_explains_is_told_by_step():
    """A step of the kit's answer changed in one place: the step is named."""

    def wrong(case):
        found = {name: a.copy() for name, a in right(case.id).items()}
        found["o"][3:] *= 1.01
        return found

    (result,) = check(wrong, "linear/kda/plain").results
    assert "o: off from entry 3 on" in result.diagnosis


def test_the_forward_pass_alone():
    """Without a gradient among the outputs; in half precision there are none of these cases."""
    report = check(lambda case: {n: right(case.id)[n] for n in case.outputs}, "linear/mlstm/plain", forward=True)
    assert report.ok
    assert {name for result in report.results for name in result.outputs} == {"o", "C_T", "n_T", "m_T"}
    with pytest.raises(ValueError, match="no case that was chosen"):
        check(lambda case: None, "linear/mlstm/plain", "bfloat16", forward=True)


def test_the_page_names_them_all():
    """docs/linear.md: every recurrence, and every mistake with what the kit says of it."""
    page = (Path(__file__).parents[3] / "docs/linear.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", page.split("## Mistakes")[1], re.MULTILINE)
    assert {name: says.replace(r"\|", "|") for name, says in rows} == {m.name: m.says for m in MISTAKES}
    assert set(re.findall(r"^### .*`([a-z0-9_]+)`", page, re.MULTILINE)) == set(RECURRENCES)
