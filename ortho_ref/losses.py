"""Losses with their gradients, and the metrics reported beside them.

Cross-entropy from logits, by log-sum-exp
    L = mean over entries of log sum_k exp(o_k) - o_y          [bp:heads/loss]
    do = (softmax(o) - 1_y) / entries                          [bp:heads/gradient]

Cross-entropy of a readout o = W h + b, rows of h in chunks: the same, no more than a chunk of o at a time
    o, do of the chunk                                         [bp:lm-chunks/o] [bp:lm-chunks/do]
    dh = W^T do of the chunk; dW, db = sums over the chunks    [bp:lm-chunks/dh] [bp:lm-chunks/sums]

Mean squared error
    L = mean over numbers of (o - y)^2                         [bp:heads/mse]
    do = 2 (o - y) / numbers                                   [bp:heads/mse_gradient]

Binary cross-entropy, y 0 or 1, from one logit: cross-entropy of the logits (0, o).  With p = sigmoid(o) it is
-y log p - (1 - y) log(1 - p), and log(1 - p) = -log(1 + exp(o)), log p = log(1 - p) + o
    L = mean over entries of log(1 + exp(o)) - y o             [bp:heads/bce]
    do = (sigmoid(o) - y) / entries                            [bp:heads/bce_gradient]
log(1 + exp(o)) is formed as max(o, 0) + log1p(exp(-|o|)), which overflows for no o.

Under a mask the means are over the rows that count: each has the weight 1 / (rows that count * entries in a row).
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.activations import sigmoid
from ortho_ref.backend import Array, is_array, library_of, xp_of
from ortho_ref.boundary import check_indices, kind_of

#: From this vocabulary on outputs are computed in chunks of rows, and how many numbers one has: 16 MiB in float32.
LARGE, CHUNK = 2048, 2**22
#: Below so many classes NumPy is slower over rows of them than over columns, one for each class: up to three times.
FEW = 128


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
        y is no array of integers, or the mask none of bool.
    """
    _check_array("outputs", outputs)
    check_targets("cross_entropy", outputs.shape, y, mask)
    return _cross_entropy(outputs, y, mask)


def _cross_entropy(outputs: Array, y: Array, mask: Array | None) -> tuple[Array, Array]:
    losses, do = _entropies(outputs.reshape(-1, outputs.shape[-1]), y)
    if mask is None:
        do *= 1 / y.size
        return losses.sum() / y.size, do.reshape(outputs.shape)  # [bp:heads/loss]
    weight = _of_entries(mask, outputs.dtype, y.size)
    do *= weight[:, None]
    return (losses * weight).sum(), do.reshape(outputs.shape)  # [bp:heads/loss]


def _entropies(rows: Array, y: Array) -> tuple[Array, Array]:
    """The loss of each entry, and its gradient softmax(o) - 1_y, (entries, K), from rows (N, G K) and y (N, G)."""
    library, K = library_of(rows, y), rows.size // y.size
    xp, entries = library.xp, library.xp.arange(y.size)
    o, y = rows.reshape(-1, K), y.reshape(-1).astype("int64", copy=False)
    few = K < FEW and library.device == "cpu"  # then the classes lie along axis 0
    o, axis, at = (xp.ascontiguousarray(o.T), 0, (y, entries)) if few else (o, 1, (entries, y))
    o = o - o.max(axis=axis, keepdims=True)
    e = xp.exp(o)
    total = e.sum(axis=axis, keepdims=True)
    losses = xp.log(total).reshape(-1) - o[at]  # [bp:heads/loss]
    do = xp.divide(e, total, out=e)
    do[at] -= 1  # [bp:heads/gradient]
    return losses, do.T if few else do


def rows_at_a_time(rows: int, output_size: int) -> int:
    """How many rows of outputs are computed at a time: all, but for a vocabulary of `LARGE` or more."""
    return rows if output_size < LARGE else max(1, min(rows, CHUNK // output_size))


def cross_entropy_of_readout(
    h: Array,
    W: Array,
    b: Array,
    y: Array,
    mask: Array | None,
    step: int,
    outputs: Array | None = None,
    each: Callable[..., Iterable[Any]] = map,
) -> tuple[Array, Array, Array, Array]:
    """`cross_entropy` of o = W h + b and its gradients; at no time are there more than `step` rows of o.

    h (..., n), W (q, n), b (q,).  y and mask are as of `cross_entropy`, and as `check_targets` lets them through: not
    checked again.  o goes to `outputs` (..., q), if given.  `each` goes through the chunks as `map` does: a pool's
    takes them to threads.  Returns the loss (), the mean over the entries that count, and its gradients dh, dW and db.
    """
    rows = h.reshape(-1, h.shape[-1])
    xp, N = xp_of(rows, W, b, y, mask), len(rows)
    targets = y.reshape(N, -1)
    weight = None if mask is None else _of_entries(mask, h.dtype, y.size).reshape(targets.shape)
    dh, dW, db, loss = xp.empty_like(rows), xp.zeros_like(W), xp.zeros_like(b), 0
    whole = None if outputs is None else outputs.reshape(N, -1)

    def of(part: slice) -> tuple[Array, Array, Array]:
        o = xp.matmul(rows[part], W.T, out=None if whole is None else whole[part])
        o += b  # [bp:lm-chunks/o]
        losses, do = _entropies(o, targets[part])
        share = 1 / y.size if weight is None else weight[part].reshape(-1)
        do *= share if weight is None else share[:, None]  # [bp:lm-chunks/do]
        do = do.reshape(o.shape)
        dh[part] = do @ W  # [bp:lm-chunks/dh]
        return (losses * share).sum(), do.T @ rows[part], do.sum(axis=0)

    for own_loss, own_dW, own_db in each(of, parts(N, step)):
        loss = loss + own_loss
        dW += own_dW  # [bp:lm-chunks/sums]
        db += own_db  # [bp:lm-chunks/sums]
    return loss, dh.reshape(h.shape), dW, db


def parts(rows: int, step: int) -> Iterator[slice]:
    """Rows in parts of about the same size, no larger than `step`."""
    size = math.ceil(rows / math.ceil(rows / step))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def mean_squared_error(outputs: Array, y: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """Mean squared error and its gradient, over every number of outputs; mask, results and errors as `cross_entropy`'s.

    Parameters
    ----------
    outputs : Array (..., q)
        What the network gives.
    y : Array
        Numbers shaped like outputs, floats; or integer classes as `cross_entropy` takes them, two or more, which stand
        for their one-hot vectors.
    """
    _check_array("outputs", outputs)
    check_targets("mean_squared_error", outputs.shape, y, mask)
    return _mean_squared_error(outputs, y, mask)


def _mean_squared_error(outputs: Array, y: Array, mask: Array | None) -> tuple[Array, Array]:
    xp = xp_of(outputs, y, mask)
    if y.dtype.kind in "iu":
        difference = outputs.copy()
        rows = difference.reshape(y.size, -1)
        rows[xp.arange(len(rows)), y.reshape(-1)] -= 1
    else:
        difference = outputs - y.astype(outputs.dtype, copy=False)
    if mask is None:
        loss = (difference * difference).sum() / difference.size  # [bp:heads/mse]
        return loss, difference * (2 / difference.size)  # [bp:heads/mse_gradient]
    weighted = difference * _of_entries(mask, outputs.dtype, difference.size).reshape(outputs.shape)
    return (weighted * difference).sum(), 2 * weighted  # [bp:heads/mse] [bp:heads/mse_gradient]


def binary_cross_entropy(outputs: Array, y: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """Cross-entropy of yes or no from one logit each, in nats, and its gradient; the rest as `cross_entropy`'s.

    Parameters
    ----------
    outputs : Array (..., G)
        Logits of yes, G of them an entry.
    y : Array (..., G), or (...) for G = 1
        Integers, 0 for no and 1 for yes; valid also where the mask is False.
    """
    _check_array("outputs", outputs)
    check_targets("binary_cross_entropy", outputs.shape, y, mask)
    return _binary_cross_entropy(outputs, y, mask)


def _binary_cross_entropy(outputs: Array, y: Array, mask: Array | None) -> tuple[Array, Array]:
    xp = xp_of(outputs, y, mask)
    y = y.reshape(outputs.shape).astype(outputs.dtype)
    losses = xp.maximum(outputs, 0) + xp.log1p(xp.exp(-abs(outputs))) - y * outputs  # [bp:heads/bce]
    difference = sigmoid(outputs) - y  # [bp:heads/bce_gradient]
    if mask is None:
        return losses.sum() / y.size, difference * (1 / y.size)  # [bp:heads/bce] [bp:heads/bce_gradient]
    weight = _of_entries(mask, outputs.dtype, y.size).reshape(outputs.shape)
    return (losses * weight).sum(), difference * weight  # [bp:heads/bce] [bp:heads/bce_gradient]


def _of_entries(mask: Array, dtype: DTypeLike, entries: int) -> Array:
    """The weight of each entry, flat: 0 in rows that do not count, else 1 / (those that do * entries in a row)."""
    counts, in_row = mask.reshape(-1).astype(dtype), entries // mask.size
    return xp_of(mask).repeat(counts / counts.sum() / in_row, in_row)


def check_targets(loss: str, shape: tuple[int, ...], y: Any, mask: Any) -> None:
    """The door of every loss: an error unless y and mask fit outputs of this shape, and something counts."""
    _check_array("y", y)
    _CHECKS[loss](shape, y)
    if mask is None:
        return
    _check_array("mask", mask)
    if mask.shape != shape[:-1]:
        raise ValueError(f"mask has shape {mask.shape}; expected {shape[:-1]}")
    if mask.dtype.kind != "b":
        raise TypeError(f"mask is {mask.dtype}; expected bool")
    if not bool(mask.any()):
        raise ValueError("mask leaves no entry to count")


def _check_array(argument: str, value: Any) -> None:
    """TypeError for a list, say, or None."""
    if not (is_array(value) or isinstance(value, np.generic)):
        raise TypeError(f"{argument} is {kind_of(value)}; expected an array")


def _check_classes(shape: tuple[int, ...], y: Any) -> None:
    """Classes (..., G), or (...) for one group, of outputs (..., G K)."""
    if y.dtype.kind not in "iu":
        raise TypeError(f"y is {y.dtype}; expected integer classes")
    entries, size = shape[:-1], math.prod(shape)
    fits = y.shape[: len(entries)] == entries and y.ndim <= len(entries) + 1
    if not fits or y.size == 0 or size % y.size:
        raise ValueError(f"y has shape {y.shape}; expected {entries} or {entries} + (groups,)")
    check_indices("y", "class", y, size // y.size)


def _check_numbers(shape: tuple[int, ...], y: Any) -> None:
    """Numbers shaped like the outputs, or integer classes."""
    if y.dtype.kind in "iu" and shape in (y.shape, (*y.shape, 1)) and y.size > 0:
        raise TypeError(f"y is {y.dtype}, a class for each output, of which there would be one; give numbers as floats")
    if y.dtype.kind in "iu":
        _check_classes(shape, y)
    elif y.dtype.kind not in "bf":
        raise TypeError(f"y is {y.dtype}; expected real numbers, or integer classes")
    elif y.shape != shape or y.size == 0:
        raise ValueError(f"y has shape {y.shape}; expected {shape} with entries, or integer classes")


def _check_yes_or_no(shape: tuple[int, ...], y: Any) -> None:
    """0 or 1 for each logit."""
    if y.dtype.kind not in "iu":
        raise TypeError(f"y is {y.dtype}; expected integers, 0 or 1")
    if (y.shape != shape and (*y.shape, 1) != shape) or y.size == 0:
        raise ValueError(f"y has shape {y.shape}; expected {shape} with entries, one for each logit")
    check_indices("y", "class", y, 2)


LOSSES: dict[str, Callable[..., tuple[Array, Array]]] = {
    "cross_entropy": cross_entropy,
    "mean_squared_error": mean_squared_error,
    "binary_cross_entropy": binary_cross_entropy,
}
#: The same behind the door, of what `check_targets` has seen.
COMPUTED: dict[str, Callable[[Array, Array, Array | None], tuple[Array, Array]]] = {
    "cross_entropy": _cross_entropy,
    "mean_squared_error": _mean_squared_error,
    "binary_cross_entropy": _binary_cross_entropy,
}
_CHECKS: dict[str, Callable[[tuple[int, ...], Any], None]] = {
    "cross_entropy": _check_classes,
    "mean_squared_error": _check_numbers,
    "binary_cross_entropy": _check_yes_or_no,
}

# Metrics: (loss, outputs, y, mask) -> float, of the entries that count under the mask; outputs as the loss takes them.


def accuracy(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of the entries of y whose class has the largest logit."""
    xp_of(outputs, y, mask)
    right = outputs.reshape(*y.shape, -1).argmax(axis=-1) == y
    return float((right if mask is None else right[mask]).mean())


def binary_accuracy(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of the entries of y that the sign of their logit tells; yes is said above 0."""
    xp_of(outputs, y, mask)
    right = (outputs.reshape(y.shape) > 0) == (y == 1)
    return float((right if mask is None else right[mask]).mean())


def bits_per_character(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Cross-entropy in bits: loss / ln 2."""
    return loss / math.log(2)


def perplexity(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """exp(loss), of as many equally likely words; at most exp(700): JSON has no infinity."""
    return math.exp(min(loss, 700.0))


def root_mean_squared_error(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """The square root of the mean squared error, in the unit of y."""
    return math.sqrt(loss)


def sequence_accuracy(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of sequences, y (T, B), of which every class that counts has the largest logit; all of none are right."""
    xp_of(outputs, y, mask)
    return share_of_sequences(outputs.argmax(axis=-1), y, mask)


def share_of_sequences(classes: Array, y: Array, mask: Array | None = None) -> float:
    """`sequence_accuracy` of the classes (T, B) with the largest logits, however they were found."""
    if y.ndim != 2 or classes.shape != y.shape:
        raise ValueError(f"y has shape {y.shape}; expected (T, B), outputs (T, B, K)")
    right = classes == y
    return float((right if mask is None else right | ~mask).all(axis=0).mean())


def within(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of the numbers of y missed by less than 0.04 (Hochreiter and Schmidhuber 1997, the adding task)."""
    xp_of(outputs, y, mask)
    right = abs(outputs - y) < 0.04
    return float((right if mask is None else right[mask]).mean())


METRICS: dict[str, Callable[[float, Array, Array, Array | None], float]] = {
    "accuracy": accuracy,
    "binary_accuracy": binary_accuracy,
    "bits_per_character": bits_per_character,
    "perplexity": perplexity,
    "root_mean_squared_error": root_mean_squared_error,
    "sequence_accuracy": sequence_accuracy,
    "within_0.04": within,
}
#: Metrics that are functions of the loss, and smaller is better: of a whole set, of its loss.
OF_THE_LOSS = ("bits_per_character", "perplexity", "root_mean_squared_error")
#: Metrics that count sequences, not entries.
OF_SEQUENCES = ("sequence_accuracy",)
