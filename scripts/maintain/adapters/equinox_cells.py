"""Equinox's LSTMCell and GRUCell, forward and by jax.grad, step by step.  Tokens are given as one-hot vectors.

A cell takes one sequence: the batch is by jax.vmap.
"""

from typing import Any

import equinox as eqx
import jax

from ortho_ref.adapters import either, from_jax


def _lstm(x: Any, state: Any, weights: Any) -> Any:
    return jax.vmap(_with(eqx.nn.LSTMCell, weights))(x, state)


def _gru(x: Any, state: Any, weights: Any) -> Any:
    return jax.vmap(_with(eqx.nn.GRUCell, weights))(x, state)


def _with(kind: Any, weights: dict[str, Any]) -> Any:
    """A cell that has these weights."""
    gates_n, m = weights["weight_ih"].shape
    cell = kind(m, gates_n // (4 if kind is eqx.nn.LSTMCell else 3), key=jax.random.key(0))
    return eqx.tree_at(lambda own: [getattr(own, name) for name in weights], cell, [*weights.values()])


def _stacked(gates: str) -> dict[str, Any]:
    return {name: [f"{letter}_{gate}" for gate in gates] for name, letter in _NAMES.items()}


_NAMES = {"weight_ih": "W", "weight_hh": "U", "bias": "b"}
run = either(
    from_jax(_lstm, cell="lstm", weights=_stacked("ifgo"), step=True),
    from_jax(_gru, cell="gru-cudnn", weights=_stacked("rzh") | {"bias_n": "b_hh"}, step=True),
)
