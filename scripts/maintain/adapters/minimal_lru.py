"""minimal-LRU's `LRU` in JAX and Flax, a parallel scan; gradients by jax.grad.

B, C and D are such that it takes u and gives x as they are, real and imaginary part side by side.  An initial state
is the input of a step before the first, over gamma.  Its gamma is learned, and it knows no resets.
"""

from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from ortho_ref.adapters.jax import precision
from ortho_ref.conformance import Case
from scripts.maintain.scoreboard.sources import importable

importable("NicolasZucchet/minimal-LRU", "bbd71b1104c399ec0d13819527d791949e66f599")

from lru.model import LRU


def run(case: Case) -> dict[str, np.ndarray] | None:
    """Of complex arrays as real ones, so that the gradients are the kit's."""
    if case.config.get("recurrence") != "lru" or case.config["gamma"] != "learned" or case.config["resets"]:
        return None
    given = case.inputs
    T, B, n, _ = given["u"].shape
    one, zero = np.eye(n), np.zeros((n, n))
    plain = {"B_re": np.hstack([one, zero]), "B_im": np.hstack([zero, one]), "D": np.zeros(2 * n)}
    plain |= {"C_re": np.vstack([one, zero]), "C_im": np.vstack([zero, -one])}

    def side_by_side(a: Any) -> Any:
        return jnp.moveaxis(a, -1, -2).reshape(*a.shape[:-2], 2 * n)

    def states(own: Any) -> Any:
        u = own["u"]
        if "x0" in own:
            u = jnp.concatenate([own["x0"][None] / jnp.exp(own["gamma_log"])[:, None], u])
        weights = plain | {name: own[name] for name in ("nu_log", "theta_log", "gamma_log")}
        layer = LRU(d_hidden=n, d_model=2 * n)
        x = jax.vmap(lambda u: layer.apply({"params": weights}, u), 1, 1)(side_by_side(u))[-T:]
        return jnp.moveaxis(x.reshape(T, B, 2, n), 2, 3)

    def loss(own: Any) -> Any:
        x = states(own)
        return jnp.sum(given["do"] * x) + jnp.sum(given["dx_T"] * x[-1]), x

    names = [name.removeprefix("d_") for name in case.outputs if name.startswith("d_")]
    with precision(case.dtype):
        gradients, x = jax.grad(loss, has_aux=True)({name: jnp.asarray(given[name]) for name in names})
        found = {"o": x, "x_T": x[-1]} | {f"d_{name}": a for name, a in gradients.items()}
        return {name: np.asarray(a) for name, a in found.items()}
