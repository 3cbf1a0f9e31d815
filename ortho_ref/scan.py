"""Time: any cell over a sequence, forward and backward, by calling its step functions.  The reference for `fused`.

h_t from (x_t, h_{t-1}), t = 1..T, starting at h_0                                [bp:bptt/forward]
g_T = dh_T + d_T;  g_{t-1} = d_{t-1} + (adjoint of step t at g_t)                 [bp:bptt/g]
every weight's gradient is the sum over t of its parts                           [bp:bptt/sum]

d_t is the loss's own derivative by h_t, dh[t - 1] in the array dh (T, B, n); dh_T comes on top of d_T.
"""

from typing import Any, NamedTuple

from ortho_ref.backend import Array, xp_of
from ortho_ref.cells.cell import Cell, State, Weights, parts_of, state_of


class Tape(NamedTuple):
    """What backward needs: one cache per step."""

    caches: list[Any]


class SequenceGradients(NamedTuple):
    """Gradients over a sequence.  weights: as these; x (T, B, m), or None for tokens; h0: as a state, (B, n) each."""

    weights: Weights
    x: Array | None
    h0: State


def zero_state(cell: Cell, weights: Weights, batch: int) -> State:
    """The state of zeros for `batch` sequences, in the weights' precision and on their device."""
    U = weights[cell.recurrent_weights[0]]
    zeros = xp_of(U).zeros((batch, U.shape[0]), U.dtype)
    return state_of((zeros,) * len(cell.states))


def forward(cell: Cell, weights: Weights, x: Array, h0: State | None = None) -> tuple[State, Tape]:
    """Run `cell` over x (T, B, m), or integer tokens (T, B), from h0 (B, n) (zeros if None).

    Returns the states (T+1, B, n), entry 0 being h0 (for LSTM the pair of such arrays), and the tape for `backward`.
    """
    xp = xp_of(x, *weights.values())
    h = zero_state(cell, weights, x.shape[1]) if h0 is None else h0
    history, caches = [h], []
    for x_t in x:
        h, cache = cell.step_forward(weights, x_t, h)  # [bp:bptt/forward]
        history.append(h)
        caches.append(cache)
    by_part = zip(*(parts_of(cell, state) for state in history), strict=True)
    return state_of(tuple(xp.stack(list(steps)) for steps in by_part)), Tape(caches)


def backward(cell: Cell, weights: Weights, tape: Tape, dh: Array, dh_T: State | None = None) -> SequenceGradients:
    """Backpropagation through time.

    dh (T, B, n): the loss's own gradient with respect to h[1:], step by step (for LSTM: of its h).
    dh_T: a further gradient with respect to the last state, as a state ((dh_T, dc_T) for LSTM); None is 0.
    """
    xp = xp_of(dh, *weights.values())
    g = zero_state(cell, weights, dh.shape[1]) if dh_T is None else dh_T
    dx, dweights = [], {name: xp.zeros_like(weight) for name, weight in weights.items()}
    for dh_t, cache in zip(dh[::-1], reversed(tape.caches), strict=True):
        g_h, *rest = parts_of(cell, g)
        g = state_of((g_h + dh_t, *rest))  # [bp:bptt/g]
        dx_t, g, parts = cell.step_backward(weights, g, cache)  # [bp:bptt/g]
        dx.append(dx_t)
        dweights = {name: xp.asarray(dweights[name] + parts[name]) for name in dweights}  # [bp:bptt/sum]
    return SequenceGradients(dweights, None if dx[0] is None else xp.stack(dx[::-1]), g)
