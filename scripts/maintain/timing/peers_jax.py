"""JAX's contender: lax.scan over products x W + b that are formed before it, forward and vjp in one jit.

It shares the process: jitted code allocates through the same C library, and its time is this process's.  The number of
its threads is told by the environment, before JAX is imported for the first time.
"""

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.cells import LSTM, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.cells.cell import Weights, weight_name
from scripts.maintain.timing.steps import CellProblem, Contender, Gradients, first_states

#: Of one thread, none of Eigen's pool.
_FLAG = "--xla_cpu_multi_thread_eigen=false"


def jax_version(threads: int = 1) -> str | None:
    """JAX's version, imported with so many threads on XLA's host platform; None where it is not installed."""
    if not importlib.util.find_spec("jax"):
        return None
    os.environ.update({"NPROC": str(threads), "JAX_PLATFORMS": "cpu"})
    if threads == 1 and _FLAG not in (flags := os.environ.get("XLA_FLAGS", "")):
        os.environ["XLA_FLAGS"] = f"{flags} {_FLAG}".strip()
    import jax

    jax.config.update("jax_enable_x64", True)  # or float64 would be float32; what is float32 stays so
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    version: str = jax.__version__
    return version


def _phi(cell: Any, a: Any, b: Any) -> Any:
    import jax
    import jax.numpy as jnp

    if cell.complex:  # sign's derivative is 0 in JAX, of complex numbers too
        rho = jnp.abs(a)
        return a * (jax.nn.relu(rho + b) / rho)
    if cell.activation == "modrelu":
        return jnp.sign(a) * jax.nn.relu(jnp.abs(a) + b)
    return {"tanh": jnp.tanh, "relu": jax.nn.relu}[cell.activation](a)  # b is in P


def _gru_reset_before(cell: Any, w: Any, P: Any, state: Any) -> Any:
    import jax

    (h,), n = state, state[0].shape[1]
    ru = jax.nn.sigmoid(P[:, : 2 * n] + h @ w["U"][:, : 2 * n])
    r, u = ru[:, :n], ru[:, n:]
    c = _phi(cell, P[:, 2 * n :] + (r * h) @ w["U"][:, 2 * n :], w.get("b"))
    return (h + u * (c - h),)


def _gru_reset_after(cell: Any, w: Any, P: Any, state: Any) -> Any:
    import jax

    (h,), n = state, state[0].shape[1]
    Uh = h @ w["U"]
    rz = jax.nn.sigmoid(P[:, : 2 * n] + Uh[:, : 2 * n])
    r, z = rz[:, :n], rz[:, n:]
    p = Uh[:, 2 * n :] + w.get("b_hh", 0)
    c = _phi(cell, P[:, 2 * n :] + r * p, w.get("b"))
    return (c + z * (h - c),)


def _lstm(cell: Any, w: Any, P: Any, state: Any) -> Any:
    import jax
    import jax.numpy as jnp

    (h, c), n = state, state[0].shape[1]
    a = P + h @ w["U"]
    ifo = jax.nn.sigmoid(a[:, : 3 * n])
    c = ifo[:, n : 2 * n] * c + ifo[:, :n] * jnp.tanh(a[:, 3 * n :])
    return ifo[:, 2 * n :] * jnp.tanh(c), c


def _elman(cell: Any, w: Any, P: Any, state: Any) -> Any:
    return (_phi(cell, P + state[0] @ w["U"], w.get("b")),)


def _fastrnn(cell: Any, w: Any, P: Any, state: Any) -> Any:
    import jax
    import jax.numpy as jnp

    alpha, beta = jax.nn.sigmoid(w["alpha"]), jax.nn.sigmoid(w["beta"])
    if cell.constraint == "sgornn":
        alpha = jnp.minimum(alpha, 0.5)
    if cell.constraint is not None:
        beta = jnp.minimum(beta, 1 - 2 * alpha)
    return (alpha * _phi(cell, P + state[0] @ w["U"], w.get("b")) + beta * state[0],)


#: Kind of cell -> its gates, in the order in which they are joined, and its step.
_CELLS: dict[type, tuple[tuple[str, ...], Callable[..., Any]]] = {
    GRUResetBefore: (("r", "u", "c"), _gru_reset_before),
    GRUResetAfter: (("r", "z", "h"), _gru_reset_after),
    LSTM: (("i", "f", "o", "g"), _lstm),
    Elman: (("",), _elman),
    FastRNN: (("",), _fastrnn),
}


def contender(own: CellProblem) -> Contender:
    """The cell; JAX is installed, and `jax_version` was called."""
    import jax

    gates, body = _CELLS[type(own.cell)]
    inside = own.cell.phi_bias if getattr(own.cell, "activation", "") == "modrelu" else None
    params = {name: jax.numpy.asarray(a) for name, a in _params(own.weights, gates, inside).items()}
    x, *h0 = (jax.numpy.asarray(array) for array in (own.x, *own.h0))
    # a vjp of JAX is linear in dh: of complex states the derivative is the conjugate of that by the conjugate
    dh = jax.numpy.asarray(own.dh.conj())

    @jax.jit
    def both(params: Any, x: Any, h0: Any, dh: Any) -> Any:
        def states(params: Any, x: Any, h0: Any) -> Any:
            P = x @ params["W"] + params["b_before"] if "b_before" in params else x @ params["W"]

            def one(state: Any, P_t: Any) -> Any:
                state = body(own.cell, params, P_t, state)
                return state, state[0]

            return jax.lax.scan(one, h0, P)[1]

        h, pull = jax.vjp(states, params, x, h0)
        return h, pull(dh)

    def step() -> Any:
        return jax.block_until_ready(both(params, x, tuple(h0), dh))[1]

    def gradients(found: Any) -> Gradients:
        of_params, dx, dh0 = found
        named: Gradients = {}
        for kind, joined in of_params.items():
            array = np.conj(np.asarray(joined))
            if kind in ("W", "U", "b_before"):
                parts = array.T.reshape(len(gates), -1, *array.shape[:-1])
                named |= {weight_name(kind[0], g): part for g, part in zip(gates, parts, strict=True)}
            else:
                named[inside if kind == "b" else kind] = array  # type: ignore[index]
        if inside is not None and "b_before" in of_params and inside.startswith("b_"):
            named[inside] = np.asarray(of_params["b"])  # the joined bias has zeros there
        return named | {"x": np.asarray(dx)} | dict(zip(first_states(own), map(np.conj, dh0), strict=True))

    return Contender(step, gradients)


def _params(weights: Weights, gates: tuple[str, ...], inside: str | None) -> Weights:
    """W (m, G n) and U (n, G n), the gates side by side; biases before Phi as b_before, modReLU's as b."""
    joined = {
        kind: np.ascontiguousarray(np.concatenate([weights[weight_name(kind, g)].T for g in gates], axis=1))
        for kind in "WU"
    }
    before = [weights[weight_name("b", g)] * (weight_name("b", g) != inside) for g in gates]
    if len(gates) > 1 or inside is None:
        joined["b_before"] = np.concatenate(before)
    if inside is not None:
        joined["b"] = weights[inside]
    return joined | {name: weights[name] for name in ("alpha", "beta", "b_hh") if name in weights}
