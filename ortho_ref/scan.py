"""Time: any cell over a sequence, forward and backward, by calling its step functions.  The reference for `fused`.

h_t from (x_t, h_{t-1}), t = 1..T, starting at h_0                                [bp:bptt/forward]
g_T = dh_T + d_T;  g_{t-1} = d_{t-1} + (adjoint of step t at g_t)                 [bp:bptt/g]
every weight's gradient is the sum over t of its parts                           [bp:bptt/sum]

d_t is the loss's own derivative by h_t, dh[t - 1] in the array dh (T, B, n); dh_T comes on top of d_T.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ortho_ref.backend import Array, xp_of
from ortho_ref.brief import brief
from ortho_ref.cells.cell import Cell, State, Weights, check_sequence, check_weights, parts_of, state_of


class Tape(NamedTuple):
    """What backward needs.

    Attributes
    ----------
    caches : list
        The cell's cache of each step, the first step's first.
    """

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


def zero_state(cell: Cell, weights: Weights, batch: int) -> State:
    """The state of zeros, in the weights' precision and on their device.

    Parameters
    ----------
    cell : Cell
        Whose state it is.
    weights : Weights
        Its dense weights.
    batch : int
        B, the number of sequences.

    Returns
    -------
    State
        (B, n); for LSTM a pair of such arrays.
    """
    U = weights[cell.recurrent_weights[0]]
    zeros = xp_of(U).zeros((batch, U.shape[0]), U.dtype)
    return state_of((zeros,) * len(cell.states))


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

    References
    ----------
    [bp:bptt], docs/equations.md.
    """
    check_sequence(cell, x)
    check_weights(cell, weights)
    h = zero_state(cell, weights, x.shape[1]) if h0 is None else h0
    xp = xp_of(x, *parts_of(cell, h), *weights.values())
    history, caches = [h], []
    for x_t in x:
        h, cache = cell.step_forward(weights, x_t, h)  # [bp:bptt/forward]
        history.append(h)
        caches.append(cache)
    by_part = zip(*(parts_of(cell, state) for state in history), strict=True)
    return state_of(tuple(xp.stack(list(steps)) for steps in by_part)), Tape(caches)


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

    References
    ----------
    [bp:bptt], docs/equations.md.
    """
    check_weights(cell, weights)
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


def chunks(cell: Cell, dh: Array) -> Iterator[slice]:
    """Stretches of time, the last first, whose gradients `backward` adds up: single steps.

    The gradients of a sequence are to the bit the sums, from zero on and in this order, of those of its stretches, each
    of `backward` with the `part` of the tape, and the state's gradient from the stretch after it.

    Parameters
    ----------
    cell : Cell
        As given to `forward`.
    dh : Array (T, B, n)
        Tells T.

    Returns
    -------
    iterator of slice
        Of time.
    """
    return (slice(t, t + 1) for t in reversed(range(len(dh))))


def part(cell: Cell, tape: Tape, t: slice) -> Tape:
    """The tape of some of the steps.

    Parameters
    ----------
    cell : Cell
        As given to `forward`.
    tape : Tape
        What `forward` returned.
    t : slice
        The steps, start and stop.

    Returns
    -------
    Tape
        For `backward`.
    """
    return Tape(tape.caches[t])
