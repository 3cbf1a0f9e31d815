"""Time: any cell over a sequence, forward and backward, by calling its step functions.  The reference for `fused`.

h_t from (x_t, h_{t-1}), t = 1..T, starting at h_0                                [bp:bptt/forward]
g_T = dh_T + d_T;  g_{t-1} = d_{t-1} + (adjoint of step t at g_t)                 [bp:bptt/g]
every weight's gradient is the sum over t of its parts                           [bp:bptt/sum]

d_t is the loss's own derivative by h_t, dh[t - 1] in the array dh (T, B, n); dh_T comes on top of d_T.
"""

from typing import Any, NamedTuple

from ortho_ref.backend import Array, xp_of
from ortho_ref.boundary import check_backward, check_forward
from ortho_ref.cells.cell import Cell, State, Weights, parts_of, state_of, zero_state
from ortho_ref.printing import brief


class Tape(NamedTuple):
    """What backward needs.

    Attributes
    ----------
    cell : Cell
        What ran.
    shape : tuple of int
        (T, B, n).
    caches : list
        The cell's cache of each step, the first step's first.
    """

    cell: Cell
    shape: tuple[int, int, int]
    caches: list[Any]

    def __repr__(self) -> str:
        return brief(self)


class SequenceGradients(NamedTuple):
    """Gradients over a sequence.

    Attributes
    ----------
    weights : Weights
        Under the weights' names and of their shapes.
    x : Array (T, B, m) or None
        None for tokens.
    h0 : State
        As a state, (B, n) each.
    """

    weights: Weights
    x: Array | None
    h0: State

    def __repr__(self) -> str:
        return brief(self)


def forward(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Tape]:
    """Run `cell` over a sequence.

    Parameters
    ----------
    cell : Cell
        Which recurrence.
    weights : Weights
        Its dense weights.
    x : Array (T, B, m), or integer tokens (T, B)
        The sequence.
    h0 : State, optional
        (B, n), for LSTM a pair; zeros if None.

    Returns
    -------
    h : State
        (T+1, B, n), entry 0 being h0; for LSTM the pair of such arrays.
    tape : Tape
        For `backward`.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, for wrong names, shapes, dtypes, devices and values.

    References
    ----------
    [bp:bptt], docs/equations.md.
    """
    check_forward(cell, weights, x, h0)
    return unroll(cell, weights, x, h0)


def unroll(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Tape]:
    """`forward` of arguments that have been checked."""
    h = zero_state(cell, weights, x.shape[1]) if h0 is None else h0
    xp = xp_of(x, *parts_of(cell, h), *weights.values())
    history, caches = [h], []
    for x_t in x:
        h, cache = cell.step_forward(weights, x_t, h)  # [bp:bptt/forward]
        history.append(h)
        caches.append(cache)
    by_part = zip(*(parts_of(cell, state) for state in history), strict=True)
    states = state_of(tuple(xp.stack(list(steps)) for steps in by_part))
    return states, Tape(cell, (len(x), *parts_of(cell, h)[0].shape), caches)


def backward(cell: Cell, weights: Weights, tape: Tape, dh: Array, dh_T: State | None = None) -> SequenceGradients:
    """Backpropagation through time.

    Parameters
    ----------
    cell : Cell
        As given to `forward`.
    weights : Weights
        As given to `forward`.
    tape : Tape
        What `forward` returned.
    dh : Array (T, B, n)
        The loss's own gradient with respect to h[1:], step by step (for LSTM: of its h).
    dh_T : State, optional
        A further gradient with respect to the last state, as a state ((dh_T, dc_T) for LSTM); None is 0.

    Returns
    -------
    SequenceGradients
        Of the weights, of x and of h0.

    Raises
    ------
    ValueError, TypeError
        As `forward`, and for the tape of another cell or engine.

    References
    ----------
    [bp:bptt], docs/equations.md.
    """
    check_backward(cell, weights, tape, Tape, dh, dh_T)
    return unroll_back(cell, weights, tape, dh, dh_T)


def unroll_back(cell: Cell, weights: Weights, tape: Tape, dh: Array, dh_T: State | None = None) -> SequenceGradients:
    """`backward` of arguments that have been checked."""
    g = zero_state(cell, weights, dh.shape[1]) if dh_T is None else dh_T
    xp = xp_of(dh, *parts_of(cell, g), *weights.values())
    dx, dweights = [], {name: xp.zeros_like(weight) for name, weight in weights.items()}
    for dh_t, cache in zip(dh[::-1], reversed(tape.caches), strict=True):
        g_h, *rest = parts_of(cell, g)
        g = state_of((g_h + dh_t, *rest))  # [bp:bptt/g]
        dx_t, g, parts = cell.step_backward(weights, g, cache)  # [bp:bptt/g]
        dx.append(dx_t)
        dweights = {name: xp.asarray(dweights[name] + parts[name]) for name in dweights}  # [bp:bptt/sum]
    return SequenceGradients(dweights, None if dx[0] is None else xp.stack(dx[::-1]), g)
