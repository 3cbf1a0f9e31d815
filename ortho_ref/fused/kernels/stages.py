"""What the stages of several cells share.

sigmoid:  1 / (1 + exp(-a))  [bp:sigmoid]      value:  tanh [bp:tanh]   relu [bp:relu]   modrelu [ncgru:20]
"""

from typing import Any

from ortho_ref.backend import Array


def sigmoid(xp: Any, negative: Array) -> Array:
    """sigma(a) from -a."""
    return 1 / (xp.exp(negative) + 1)  # [bp:sigmoid]


def value(xp: Any, activation: str, a: Array, b: Array) -> Array:
    """Phi(a, b), shaped like a; b is modrelu's bias, any other's is in a (`sequence.bias_before`)."""
    if activation == "tanh":
        return xp.tanh(a)  # [bp:tanh]
    if activation == "relu":
        return xp.maximum(a, 0)  # [bp:relu]
    return xp.sign(a) * xp.maximum(xp.abs(a) + b, 0)  # [ncgru:20]
