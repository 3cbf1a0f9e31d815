"""Losses with their gradients, and the metrics reported beside them.

L = mean over entries of log sum_k exp(o_k) - o_y          [bp:heads/loss]
do = (softmax(o) - 1_y) / entries                          [bp:heads/gradient]
"""

import math
from collections.abc import Callable

from ortho_ref.backend import Array, xp_of


def cross_entropy(outputs: Array, y: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """Softmax cross-entropy in nats and its gradient.

    outputs (..., G K): logits, G groups of K classes.  y integer (..., G), or (...) for one group; K follows from the
    two sizes.  mask (...): entries that count; None is all.  Returns the mean over the entries that count (0-d), and
    its gradient, shaped like outputs.  ValueError if the sizes do not fit, a class is not below K, or nothing counts.
    """
    xp = xp_of(outputs, y, mask)
    entries = outputs.shape[:-1]
    fits = y.shape[: len(entries)] == entries and y.ndim <= len(entries) + 1
    if not fits or y.size == 0 or outputs.size % y.size:
        raise ValueError(f"y has shape {y.shape}; expected {entries} or {entries} + (groups,)")
    if mask is not None and mask.shape != entries:
        raise ValueError(f"mask has shape {mask.shape}; expected {entries}")
    K = outputs.size // y.size
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= K:
        raise ValueError(f"y holds class {low if low < 0 else high}; allowed: 0 to {K - 1}")
    rows = outputs.reshape(-1, K)
    N, target = rows.shape[0], y.reshape(-1)
    # NumPy takes the maximum over short rows ten times faster along the other axis of a transposed copy
    p = rows - xp.ascontiguousarray(rows.T).max(axis=0)[:, None]
    o_y = p[xp.arange(N), target]
    xp.exp(p, out=p)
    total = p @ xp.ones(K, p.dtype)
    losses = xp.log(total) - o_y  # [bp:heads/loss]
    p /= total[:, None]
    p[xp.arange(N), target] -= 1  # [bp:heads/gradient]
    if mask is None:
        p *= 1 / N
        return losses.mean(), p.reshape(outputs.shape)  # [bp:heads/loss]
    weight = xp.repeat(mask.reshape(-1).astype(p.dtype), N // mask.size)
    count = float(weight.sum())
    if count == 0:
        raise ValueError("mask leaves no entry to count")
    p *= (weight / count)[:, None]
    return (losses * weight).sum() / count, p.reshape(outputs.shape)  # [bp:heads/loss]


def accuracy(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of the entries of y, of those that count under the mask, whose class has the largest logit."""
    right = outputs.reshape(*y.shape, -1).argmax(axis=-1) == y
    return float((right if mask is None else right[mask]).mean())


def bits_per_character(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Cross-entropy in bits: loss / ln 2."""
    return loss / math.log(2)


LOSSES: dict[str, Callable[[Array, Array, Array | None], tuple[Array, Array]]] = {"cross_entropy": cross_entropy}
METRICS: dict[str, Callable[[float, Array, Array, Array | None], float]] = {
    "accuracy": accuracy,
    "bits_per_character": bits_per_character,
}
