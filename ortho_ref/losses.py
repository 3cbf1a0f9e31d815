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

Each of them takes a `total` too, where its outputs are a part of a sequence's: what it gives is that part of the mean,
and of its gradient.  Sums over time go through the chunks of `fused.sequence`, the last first.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.activations import sigmoid
from ortho_ref.backend import Array, is_array, library_of, xp_of
from ortho_ref.checks import check, check_indices
from ortho_ref.fused.sequence import chunks_of_rows
from ortho_ref.schema import kind_of

#: From this vocabulary on outputs are computed in chunks of rows, and how many numbers one has: 16 MiB in float32.
LARGE, CHUNK = 2048, 2**22
#: Below so many classes NumPy is slower over rows of them than over columns, one for each class: up to ten times.
FEW = 128


def cross_entropy(
    outputs: Array, y: Array, mask: Array | None = None, total: Array | int | None = None
) -> tuple[Array, Array]:
    """Softmax cross-entropy in nats and its gradient.

    Parameters
    ----------
    outputs : Array (..., G K)
        Logits, G groups of K classes; K follows from the sizes of outputs and y.
    y : Array (..., G), or (...) for one group
        Integer classes; valid also where the mask is False.
    mask : Array (...), optional
        bool: entries that count; None is all.
    total : Array () or int, optional
        As `count` gives it, where these are a part of what it was given; y is not looked at again.

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
    xp = xp_of(outputs, y, mask)
    K = outputs.size // y.size if total is not None else _classes_of(outputs.shape, y)
    weight = _weight(outputs, mask, total)
    parts = _chunks(outputs, y.size)
    losses, p = _entropies(outputs.reshape(-1, outputs.shape[-1]), y, K)
    N = losses.size
    if weight is None:
        entries = _all(outputs, N, total)
        p *= 1 / entries
        return _sum(losses, parts, entries), p.reshape(outputs.shape)  # [bp:heads/loss]
    weight = weight * (weight.size / N)
    p *= weight[:, None]
    return _sum(losses * xp.repeat(weight, N // weight.size), parts), p.reshape(outputs.shape)  # [bp:heads/loss]


def _chunks(outputs: Array, entries: int) -> list[slice]:
    """The chunks of time of outputs that have so many entries, as slices of these; the last first."""
    if outputs.ndim != 3:
        return [slice(0, entries)]
    each = entries * outputs.shape[-1] // outputs.size
    return [slice(own.start * each, own.stop * each) for own in chunks_of_rows(outputs)]


def _sum(values: Array, parts: list[slice], entries: int = 1) -> Array:
    """The sum of the values / entries, one part after the other."""
    first, *others = (values[own].sum() / entries for own in parts)
    return sum(others, first)


def _entropies(rows: Array, y: Array, K: int) -> tuple[Array, Array]:
    """The loss of each entry of rows (N, G K) and y (N, G), one by one; and its gradient, softmax(o) - 1_y (N, G K).

    Classes along axis 1 of o and p; few of them lie one after the other in memory, each over all entries.
    """
    library = library_of(rows, y)
    xp, N, G = library.xp, len(rows), rows.shape[1] // K
    of_row, of_group = xp.arange(N)[:, None], xp.arange(G)
    y = y.reshape(N, G).astype("int64", copy=False)
    by_class = K < FEW and library.device == "cpu"
    if by_class:
        o = xp.array(rows.T, order="C").reshape(G, K, N)
        at = (of_group * K + y) * N + of_row
    else:
        o = xp.ascontiguousarray(rows).reshape(N * G, K)  # of another order p would have it too, and no flat view
        at = (of_row * G + of_group) * K + y
    p = xp.subtract(o, o.max(axis=1, keepdims=True), out=o if by_class else None)
    o_y = p.reshape(-1)[at]
    xp.exp(p, out=p)
    total = _in_turn(p) if by_class else p.sum(axis=1)
    losses = xp.log(total).T.reshape(N, G) - o_y  # [bp:heads/loss]
    p /= total[:, None]
    p.reshape(-1)[at] -= 1  # [bp:heads/gradient]
    return losses.reshape(-1), p.reshape(G * K, N).T if by_class else p.reshape(N, G * K)


def _in_turn(p: Array) -> Array:
    """The sum over axis 1 in its order, in which NumPy takes it of several entries, but not of a single one."""
    if p.shape[2] > 1:
        return p.sum(axis=1)
    total = p[:, 0].copy()
    for k in range(1, p.shape[1]):
        total += p[:, k]
    return total


def rows_at_a_time(rows: int, output_size: int) -> int:
    """How many rows of outputs are computed at a time.

    Parameters
    ----------
    rows : int
        All there are: steps times sequences.
    output_size : int
        Numbers in a row.

    Returns
    -------
    int
        All of them, but for a vocabulary of `LARGE` or more: then as many as make `CHUNK` numbers, one at least.
    """
    return rows if output_size < LARGE else max(1, min(rows, CHUNK // output_size))


def cross_entropy_of_readout(
    h: Array,
    W: Array,
    b: Array,
    y: Array,
    mask: Array | None,
    step: int,
    total: Array | int | None = None,
    sums: tuple[Array, Array] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """`cross_entropy` of o = W h + b and its gradients; at no time are there more than `step` rows of o.

    Of a sequence it goes through chunks of time, the last first, and in each through its rows.

    Parameters
    ----------
    h : Array (..., n)
        What is read.
    W : Array (q, n)
        Of the readout.
    b : Array (q,)
        Of the readout.
    y : Array (...), or (..., G)
        As of `cross_entropy`.
    mask : Array (...), optional
        As of `cross_entropy`.
    step : int
        Rows at a time.
    total : Array () or int, optional
        As of `cross_entropy`.
    sums : tuple of Array, optional
        dW and db of other parts of the sequence, which these are added to; zeros unless given.

    Returns
    -------
    loss : Array ()
        The mean over the entries that count.
    dh : Array (..., n)
        Its gradient by h.
    dW : Array (q, n)
        By W.
    db : Array (q,)
        By b.

    Raises
    ------
    ValueError, TypeError
        As of `cross_entropy`.
    """
    xp = xp_of(h, W, b, y, mask)
    shape = (*h.shape[:-1], len(b))
    K = math.prod(shape) // y.size if total is not None else _classes_of(shape, y)
    weight = _weight(h, mask, total)
    rows, N = h.reshape(-1, h.shape[-1]), y.size
    targets, entries = y.reshape(len(rows), -1), _all(h, N, total)
    dh, loss = xp.empty_like(rows), 0
    dW, db = (xp.zeros_like(W), xp.zeros_like(b)) if sums is None else sums
    for chunk in chunks_of_rows(h):
        value = 0
        for part in _parts(chunk, step):
            o = rows[part] @ W.T + b  # [bp:lm-chunks/o]
            losses, do = _entropies(o, targets[part], K)
            if weight is None:
                do *= 1 / entries  # [bp:lm-chunks/do]
                value = value + losses.sum() / entries
            else:
                own = weight[part] * (len(rows) / N)
                do *= own[:, None]  # [bp:lm-chunks/do]
                value = value + (losses * xp.repeat(own, N // len(rows))).sum()
            dh[part] = do @ W  # [bp:lm-chunks/dh]
            dW += do.T @ rows[part]  # [bp:lm-chunks/sums]
            db += do.sum(axis=0)  # [bp:lm-chunks/sums]
            del o, do  # before there are the next ones
        loss = loss + value
    return loss, dh.reshape(h.shape), dW, db


def _parts(rows: slice, step: int) -> Iterator[slice]:
    """Rows in parts of about the same size, no larger than `step`."""
    there = rows.stop - rows.start
    size = math.ceil(there / math.ceil(there / step))
    for start in range(rows.start, rows.stop, size):
        yield slice(start, min(start + size, rows.stop))


def mean_squared_error(
    outputs: Array, y: Array, mask: Array | None = None, total: Array | int | None = None
) -> tuple[Array, Array]:
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
    total : Array () or int, optional
        As of `cross_entropy`.

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
        y is no array, or the mask is none of bool.
    """
    xp = xp_of(outputs, y, mask)
    if total is None:
        _check_numbers(outputs.shape, y)
    if y.dtype.kind in "iu":
        difference = outputs.copy()
        rows = difference.reshape(y.size, -1)
        rows[xp.arange(len(rows)), y.reshape(-1)] -= 1
    else:
        difference = outputs - y.astype(outputs.dtype, copy=False)
    weight = _weight(outputs, mask, total)
    if weight is None:
        numbers = _all(outputs, difference.size, total)
        squares = (difference * difference).reshape(-1)
        loss = _sum(squares, _chunks(outputs, squares.size), numbers)  # [bp:heads/mse]
        difference *= 2 / numbers
        return loss, difference  # [bp:heads/mse_gradient]
    weighted = difference * (weight / outputs.shape[-1]).reshape(*outputs.shape[:-1], 1)
    squares = (weighted * difference).reshape(-1)
    return _sum(squares, _chunks(outputs, squares.size)), 2 * weighted  # [bp:heads/mse] [bp:heads/mse_gradient]


def binary_cross_entropy(
    outputs: Array, y: Array, mask: Array | None = None, total: Array | int | None = None
) -> tuple[Array, Array]:
    """Cross-entropy of yes or no from one logit each, in nats, and its gradient.

    Parameters
    ----------
    outputs : Array (..., G)
        Logits of yes, G of them an entry.
    y : Array (..., G), or (...) for G = 1
        Integers, 0 for no and 1 for yes; valid also where the mask is False.
    mask : Array (...), optional
        bool: entries that count; None is all.
    total : Array () or int, optional
        As of `cross_entropy`.

    Returns
    -------
    loss : Array ()
        The mean over the logits that count.
    doutputs : Array (..., G)
        Its gradient.

    Raises
    ------
    ValueError
        The sizes do not fit, an entry of y is not 0 or 1, or nothing counts.
    TypeError
        y is no array of integers, or the mask none of bool.
    """
    xp = xp_of(outputs, y, mask)
    if total is None:
        _check_yes_or_no(outputs.shape, y)
    y = y.reshape(outputs.shape).astype(outputs.dtype)
    weight, parts = _weight(outputs, mask, total), _chunks(outputs, y.size)
    losses = xp.maximum(outputs, 0) + xp.log1p(xp.exp(-abs(outputs))) - y * outputs  # [bp:heads/bce]
    difference = sigmoid(outputs) - y  # [bp:heads/bce_gradient]
    if weight is None:
        logits = _all(outputs, difference.size, total)
        # [bp:heads/bce] [bp:heads/bce_gradient]
        return _sum(losses.reshape(-1), parts, logits), difference * (1 / logits)
    weight = (weight / outputs.shape[-1]).reshape(*outputs.shape[:-1], 1)
    return _sum((losses * weight).reshape(-1), parts), difference * weight  # [bp:heads/bce] [bp:heads/bce_gradient]


def count(loss: str, shape: tuple[int, ...], y: Array, mask: Array | None, dtype: DTypeLike) -> Array | int:
    """How many rows of outputs count, once targets and mask have been looked at.

    Parameters
    ----------
    loss : str
        A name in `LOSSES`.
    shape : tuple of int
        Of all outputs, (..., q).
    y, mask : Array
        As the loss takes them.
    dtype : dtype
        Of the outputs.

    Returns
    -------
    Array () or int
        For the loss of a part of them.

    Raises
    ------
    ValueError, TypeError
        As of the loss.
    """
    _CHECKS[loss](shape, y)
    return math.prod(shape[:-1]) if mask is None else _counting(shape, mask, dtype)[1]


def _all(outputs: Array, own: int, total: Array | int | None) -> int:
    """How many entries the mean is over, without a mask: `own` of these outputs, or of all `total` rows."""
    return own if total is None else int(total) * (own * outputs.shape[-1] // outputs.size)


def _check_array(argument: str, value: Any) -> None:
    """TypeError for a list, say, or None."""
    if not (is_array(value) or isinstance(value, np.generic)):
        raise TypeError(f"{argument} is {kind_of(value)}; expected an array")


def _check_yes_or_no(shape: tuple[int, ...], y: Array) -> None:
    """TypeError or ValueError unless y is of 0 and 1, one for each logit of outputs of this shape."""
    _check_array("y", y)
    if y.dtype.kind not in "iu":
        raise TypeError(f"y is {y.dtype}; expected integers, 0 or 1")
    if (y.shape != shape and (*y.shape, 1) != shape) or y.size == 0:
        raise ValueError(f"y has shape {y.shape}; expected {shape} with entries, one for each logit")
    check_indices("y", "class", y, 2)


def _check_numbers(shape: tuple[int, ...], y: Array) -> None:
    """TypeError or ValueError unless y is of numbers shaped like this, or of integer classes."""
    _check_array("y", y)
    if y.dtype.kind in "iu":
        _classes_of(shape, y)
    elif y.shape != shape or y.size == 0:
        raise ValueError(f"y has shape {y.shape}; expected {shape} with entries, or integer classes")


def _classes_of(shape: tuple[int, ...], y: Array) -> int:
    """K of outputs (..., G K) of this shape and classes y (..., G), or (...) for one group; an error if none fits."""
    _check_array("y", y)
    if y.dtype.kind not in "iu":
        raise TypeError(f"y is {y.dtype}; expected integer classes")
    entries, size = shape[:-1], math.prod(shape)
    fits = y.shape[: len(entries)] == entries and y.ndim <= len(entries) + 1
    if not fits or y.size == 0 or size % y.size:
        raise ValueError(f"y has shape {y.shape}; expected {entries} or {entries} + (groups,)")
    K = size // y.size
    check_indices("y", "class", y, K)
    return K


def _weight(outputs: Array, mask: Array | None, total: Array | int | None) -> Array | None:
    """mask / how many entries count, of these or in all, flat; None for no mask."""
    if mask is None:
        return None
    if total is not None:
        return mask.reshape(-1).astype(outputs.dtype) / total
    weight, own = _counting(outputs.shape, mask, outputs.dtype)
    return weight / own


def _counting(shape: tuple[int, ...], mask: Array, dtype: DTypeLike) -> tuple[Array, Array]:
    """The mask of outputs of this shape in their precision, flat, and its sum."""
    _check_array("mask", mask)
    if mask.shape != shape[:-1]:
        raise ValueError(f"mask has shape {mask.shape}; expected {shape[:-1]}")
    if mask.dtype.kind != "b":
        raise TypeError(f"mask is {mask.dtype}; expected bool")
    weight = mask.reshape(-1).astype(dtype)
    total = weight.sum()
    check(total > 0, ValueError("mask leaves no entry to count"))
    return weight, total


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


def binary_accuracy(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of the entries of y, of those that count under the mask, that the sign of their logit tells.

    Parameters
    ----------
    loss : float
        The loss of these outputs; not needed here.
    outputs : Array (..., G)
        Logits of yes; yes is said above 0.
    y : Array (..., G), or (...) for G = 1
        Integers, 0 or 1.
    mask : Array (...), optional
        bool: entries that count; None is all.

    Returns
    -------
    float
        From 0 to 1.
    """
    xp_of(outputs, y, mask)
    right = (outputs.reshape(y.shape) > 0) == (y == 1)
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


def perplexity(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """exp(loss), at most exp(700): JSON has no infinity.

    Parameters
    ----------
    loss : float
        Cross-entropy in nats.
    outputs, y, mask : Array
        As `accuracy` takes them; not needed here.

    Returns
    -------
    float
        Of as many equally likely words.
    """
    return math.exp(min(loss, 700.0))


def root_mean_squared_error(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """The square root of the mean squared error, in the unit of y.

    Parameters
    ----------
    loss : float
        Mean squared error.
    outputs, y, mask : Array
        As `within` takes them; not needed here.

    Returns
    -------
    float
        At least 0.
    """
    return math.sqrt(loss)


def sequence_accuracy(loss: float, outputs: Array, y: Array, mask: Array | None = None) -> float:
    """Share of sequences of which every class that counts under the mask has the largest logit.

    Parameters
    ----------
    loss : float
        The loss of these outputs; not needed here.
    outputs : Array (T, B, K)
        Logits.
    y : Array (T, B)
        Integer classes.
    mask : Array (T, B), optional
        bool: steps that count; None is all.

    Returns
    -------
    float
        From 0 to 1; a sequence of which nothing counts is right.

    Raises
    ------
    ValueError
        y has other axes than steps and sequences.
    """
    xp_of(outputs, y, mask)
    return share_of_sequences(outputs.argmax(axis=-1), y, mask)


def share_of_sequences(classes: Array, y: Array, mask: Array | None = None) -> float:
    """`sequence_accuracy` of the classes with the largest logits, however they were found.

    Parameters
    ----------
    classes, y : Array (T, B)
        Integer classes: those that are said, and those that are right.
    mask : Array (T, B), optional
        As of `sequence_accuracy`.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        y has other axes than steps and sequences.
    """
    if y.ndim != 2 or classes.shape != y.shape:
        raise ValueError(f"y has shape {y.shape}; expected (T, B), outputs (T, B, K)")
    right = classes == y
    return float((right if mask is None else right | ~mask).all(axis=0).mean())


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


LOSSES: dict[str, Callable[..., tuple[Array, Array]]] = {
    "cross_entropy": cross_entropy,
    "mean_squared_error": mean_squared_error,
    "binary_cross_entropy": binary_cross_entropy,
}
#: What each of them asks of y, for outputs of a shape.
_CHECKS: dict[str, Callable[[tuple[int, ...], Array], object]] = {
    "cross_entropy": _classes_of,
    "mean_squared_error": _check_numbers,
    "binary_cross_entropy": _check_yes_or_no,
}
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
