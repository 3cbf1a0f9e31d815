"""Losses with their gradients, and the metrics reported beside them.

Cross-entropy from logits, by log-sum-exp
    L = mean over entries of log sum_k exp(o_k) - o_y          [bp:heads/loss]
    do = (softmax(o) - 1_y) / entries                          [bp:heads/gradient]

Mean squared error
    L = mean over numbers of (o - y)^2                         [bp:heads/mse]
    do = 2 (o - y) / numbers                                   [bp:heads/mse_gradient]
"""

import math
from collections.abc import Callable

from ortho_ref.backend import Array, xp_of
from ortho_ref.checks import check, check_indices


def cross_entropy(outputs: Array, y: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """Softmax cross-entropy in nats and its gradient.

    Parameters
    ----------
    outputs : Array (..., G K)
        Logits, G groups of K classes; K follows from the sizes of outputs and y.
    y : Array (..., G), or (...) for one group
        Integer classes; valid also where the mask is False.
    mask : Array (...), optional
        bool: entries that count; None is all.

    Returns
    -------
    loss : Array ()
        The mean over the entries that count.
    doutputs : Array (..., G K)
        Its gradient.

    Raises
    ------
    ValueError
        The sizes do not fit, a class is not below K, or nothing counts.
    TypeError
        y is not of integers, or the mask not of bool.
    """
    xp = xp_of(outputs, y, mask)
    K = _classes(outputs, y)
    weight = _weight(outputs, mask)
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
    if weight is None:
        p *= 1 / N
        return losses.mean(), p.reshape(outputs.shape)  # [bp:heads/loss]
    weight = xp.repeat(weight * (weight.size / N), N // weight.size)
    p *= weight[:, None]
    return (losses * weight).sum(), p.reshape(outputs.shape)  # [bp:heads/loss]


def mean_squared_error(outputs: Array, y: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """Mean squared error and its gradient, over every number of outputs.

    Parameters
    ----------
    outputs : Array (..., q)
        What the network gives.
    y : Array
        Numbers shaped like outputs; or integer classes as `cross_entropy` takes them, which stand for their one-hot
        vectors.
    mask : Array (...), optional
        bool: entries that count; None is all.

    Returns
    -------
    loss : Array ()
        The mean over the numbers that count.
    doutputs : Array (..., q)
        Its gradient.

    Raises
    ------
    ValueError
        The sizes do not fit, a class is out of range, or nothing counts.
    TypeError
        The mask is not of bool.
    """
    xp = xp_of(outputs, y, mask)
    if y.dtype.kind in "iu":
        difference = outputs.copy()
        rows = difference.reshape(-1, _classes(outputs, y))
        rows[xp.arange(len(rows)), y.reshape(-1)] -= 1
    elif y.shape != outputs.shape or y.size == 0:
        raise ValueError(f"y has shape {y.shape}; expected {outputs.shape} with entries, or integer classes")
    else:
        difference = outputs - y.astype(outputs.dtype, copy=False)
    weight = _weight(outputs, mask)
    if weight is None:
        loss = (difference * difference).mean()  # [bp:heads/mse]
        difference *= 2 / difference.size
        return loss, difference  # [bp:heads/mse_gradient]
    weighted = difference * (weight / outputs.shape[-1]).reshape(*outputs.shape[:-1], 1)
    return (weighted * difference).sum(), 2 * weighted  # [bp:heads/mse] [bp:heads/mse_gradient]


def _classes(outputs: Array, y: Array) -> int:
    """K of outputs (..., G K) and classes y (..., G), or (...) for one group; ValueError if they do not fit."""
    if y.dtype.kind not in "iu":
        raise TypeError(f"y is {y.dtype}; expected integer classes")
    entries = outputs.shape[:-1]
    fits = y.shape[: len(entries)] == entries and y.ndim <= len(entries) + 1
    if not fits or y.size == 0 or outputs.size % y.size:
        raise ValueError(f"y has shape {y.shape}; expected {entries} or {entries} + (groups,)")
    K: int = outputs.size // y.size
    check_indices("y", "class", y, K)
    return K


def _weight(outputs: Array, mask: Array | None) -> Array | None:
    """mask / how many entries count, flat; None for no mask."""
    if mask is None:
        return None
    if mask.shape != outputs.shape[:-1]:
        raise ValueError(f"mask has shape {mask.shape}; expected {outputs.shape[:-1]}")
    if mask.dtype.kind != "b":
        raise TypeError(f"mask is {mask.dtype}; expected bool")
    weight = mask.reshape(-1).astype(outputs.dtype)
    count = weight.sum()
    check(count > 0, ValueError("mask leaves no entry to count"))
    return weight / count


def accuracy(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of the entries of y, of those that count under the mask, whose class has the largest logit.

    Parameters
    ----------
    loss : float
        The loss of these outputs; not needed here.
    outputs : Array (..., G K)
        Logits.
    y : Array (..., G), or (...) for one group
        Integer classes.
    mask : Array (...), optional
        bool: entries that count; None is all.

    Returns
    -------
    float
        From 0 to 1.
    """
    xp_of(outputs, y, mask)
    right = outputs.reshape(*y.shape, -1).argmax(axis=-1) == y
    return float((right if mask is None else right[mask]).mean())


def bits_per_character(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Cross-entropy in bits: loss / ln 2.

    Parameters
    ----------
    loss : float
        Cross-entropy in nats.
    outputs, y, mask : Array
        As `accuracy` takes them; not needed here.

    Returns
    -------
    float
        In bits.
    """
    return loss / math.log(2)


def within(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of the numbers of y that outputs misses by less than 0.04.

    Parameters
    ----------
    loss : float
        The loss of these outputs; not needed here.
    outputs, y : Array
        Numbers, shaped alike.
    mask : Array (...), optional
        bool: entries that count; None is all.

    Returns
    -------
    float
        From 0 to 1.

    References
    ----------
    Hochreiter and Schmidhuber 1997, the adding task.
    """
    xp_of(outputs, y, mask)
    right = abs(outputs - y) < 0.04
    return float((right if mask is None else right[mask]).mean())


LOSSES: dict[str, Callable[[Array, Array, Array | None], tuple[Array, Array]]] = {
    "cross_entropy": cross_entropy,
    "mean_squared_error": mean_squared_error,
}
METRICS: dict[str, Callable[[float, Array, Array, Array | None], float]] = {
    "accuracy": accuracy,
    "bits_per_character": bits_per_character,
    "within_0.04": within,
}
