"""minimal-LRU's `LRU` in JAX and Flax, a parallel scan; gradients by jax.grad.

B, C and D are such that it takes u and gives x as they are, real and imaginary part side by side.  An initial state
is the input of a step before the first, over gamma.  Its gamma is learned, and it knows no resets.
"""

from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from ortho_ref.adapters import from_jax
from scripts.maintain.scoreboard.sources import importable

importable("NicolasZucchet/minimal-LRU", "bbd71b1104c399ec0d13819527d791949e66f599")

from lru.model import LRU


def _forward(x: dict[str, Any], config: dict[str, Any]) -> dict[str, Any] | None:
    """Of complex arrays as real ones, so that the gradients are the kit's."""
    if config["gamma"] != "learned" or config["resets"]:
        return None
    T, B, n, _ = x["u"].shape
    one, zero = np.eye(n), np.zeros((n, n))
    weights = {"B_re": np.hstack([one, zero]), "B_im": np.hstack([zero, one]), "D": np.zeros(2 * n)}
    weights |= {"C_re": np.vstack([one, zero]), "C_im": np.vstack([zero, -one])}
    weights |= {name: x[name] for name in ("nu_log", "theta_log", "gamma_log")}
    u = x["u"]
    if "x0" in x:
        u = jnp.concatenate([x["x0"][None] / jnp.exp(x["gamma_log"])[:, None], u])
    u = jnp.moveaxis(u, -1, -2).reshape(*u.shape[:-2], 2 * n)  # side by side
    layer = LRU(d_hidden=n, d_model=2 * n)
    every = jax.vmap(lambda u: layer.apply({"params": weights}, u), 1, 1)(u)[-T:]
    every = jnp.moveaxis(every.reshape(T, B, 2, n), 2, 3)
    return {"o": every, "x_T": every[-1]}


run = from_jax(_forward, cell="lru")
