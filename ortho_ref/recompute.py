"""Loss and gradients of a sequence in little memory: what backward needs is computed again, segment by segment.

Times 0 = t_0 < t_1 < ... < t_S = T cut the sequence; h_t is the state of all layers.

    forward      h at t_1, ..., t_S; of them alone anything is kept                  [bp:recompute/forward]
    backward     s = S, ..., 1: from h at t_{s-1} the segment's steps again, with all that backward needs of them, its
                 readout and loss, and through its layers                            [bp:recompute/segment]
                 d_s = dL / dh at t_s, which the segment before takes as that of its last state   [bp:recompute/g]
    gradients    a weight's is the sum of the segments' parts, s falling; of a matrix that is kept orthogonal it is
                 mapped to its parameters once, at the end                           [bp:recompute/sum]

Of T steps there are T / K states and one segment of K steps at a time: least for K near sqrt(T).  The time is that of
one more forward pass, less the last segment's, which is still there.

The same bits.  Segments end where chunks of time of `fused.sequence` do, and every sum over time goes through these
chunks one by one, the last first, with or without segments: loss, gradients and last states are those of the whole pass
to the bit, in any number of segments, on the host and on a device, whose chunks are larger.

Dropout is drawn before the first step, in the order in which the whole pass draws it; it and the embedding are as in
`network` [bp:lm-dropout/scale_gradient] [bp:lm-embedding/gradient].

Griewank, Walther: Evaluating Derivatives, SIAM 2008, chapter 12; Chen, Xu, Zhang, Guestrin: Training Deep Nets with
Sublinear Memory Cost, arXiv:1604.06174.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ortho_ref.backend import Array, NotFiniteError, xp_of
from ortho_ref.brief import brief
from ortho_ref.cells import State
from ortho_ref.cells.cell import Weights, parts_of, state_of
from ortho_ref.checks import check
from ortho_ref.dropout import Dropout, Redrawn
from ortho_ref.fused import sequence
from ortho_ref.layers import real_features_pullback
from ortho_ref.losses import LOSSES, count, cross_entropy_of_readout
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import NamedBuffers, Recurrent, RecurrentTape, check_input

if TYPE_CHECKING:
    from ortho_ref.network import Network, NetworkTape


def check_recompute(recompute: object) -> None:
    """An error for a value that is none.

    Parameters
    ----------
    recompute : int or "auto" or None
        Steps of a segment.

    Raises
    ------
    ValueError
        For any other value.
    """
    whole = isinstance(recompute, int | np.integer) and not isinstance(recompute, bool) and recompute >= 1
    if recompute is not None and recompute != "auto" and not whole:
        raise ValueError(f"recompute is {recompute!r}; allowed: an integer >= 1, 'auto', or None")


def segments(x: Array, recompute: int | str, layers: Sequence[Recurrent]) -> list[slice]:
    """The segments of a sequence, the first one first; it may be shorter.

    Parameters
    ----------
    x : Array (T, B, ...)
        Tells T, B and the device.
    recompute : int or "auto"
        Steps of a segment, rounded up to whole chunks of time; "auto" is the square root of T.
    layers : sequence of Recurrent
        What runs: products with a large W take several chunks at once.

    Returns
    -------
    list of slice
        Of time.
    """
    T = len(x)
    steps = math.isqrt(T - 1) + 1 if recompute == "auto" else int(recompute)
    at_once = max(sequence.chunks_at_once(_real_rows(layer), (layer.sizes or (1, 1))[0]) for layer in layers)
    chunk = sequence.chunks(x, at_once)[0]
    steps = math.ceil(steps / chunk) * chunk
    return [slice(max(0, stop - steps), stop) for stop in range(T, 0, -steps)][::-1]


def _real_rows(layer: Recurrent) -> int:
    size = layer.output_size
    assert size is not None
    return size


class Segments:
    """The layers of a network over a sequence, a segment at a time, forward or again.

    Parameters
    ----------
    network : Network
        The network.
    params, buffers : dict
        Its own.
    x : Array (T, B, m), or integer tokens (T, B)
        The input.
    h0 : list or None
        A state for each layer.
    rng : numpy.random.Generator or None
        Draws the dropout.
    recompute : int or "auto"
        Steps of a segment.
    """

    def __init__(
        self,
        network: "Network",
        params: Params,
        buffers: NamedBuffers,
        x: Array,
        h0: list[State] | None,
        rng: np.random.Generator | None,
        recompute: int | str,
    ) -> None:
        self._network, self._params, self._buffers = network, params, buffers
        network.check_params(params, buffers)
        self.x = check_input(x, network.input_size, next(iter(params.values())).real)
        self.times = segments(self.x, recompute, network.layers)
        dropout = Dropout(network.dropout, network.regularizers, network.layers, rng)
        self._dropout = self._redrawn(dropout) if rng is not None else dropout
        self._starts: list[list[State] | None] = [h0]

    def _redrawn(self, dropout: Dropout) -> Redrawn:
        network, xp = self._network, xp_of(self.x)
        params = [network.own(i, self._params, self._buffers)[0] for i in range(len(network.layers))]
        E, step = self._params.get("embedding.E"), self.x[:1]
        if E is not None:
            step = xp.empty((*step.shape, E.shape[1]), E.dtype)
        return Redrawn(dropout, params, E, step, [t.stop - t.start for t in self.times])

    def run(self, s: int) -> "NetworkTape":
        """Segment s from the state that it begins with; of segments that run for the first time the next begins there.

        Parameters
        ----------
        s : int
            Its number, at most one above all that have run.

        Returns
        -------
        NetworkTape
            Of its steps.
        """
        if isinstance(self._dropout, Redrawn):
            self._dropout.segment = s
        arguments = (self._params, self._buffers, self.x[self.times[s]], self._starts[s], self._dropout, s > 0)
        last, tape = self._network.features(*arguments)  # [bp:recompute/forward] [bp:recompute/segment]
        if s + 1 == len(self._starts):
            # copies: a view would keep the states of all of the segment's steps
            self._starts.append([_copy(layer, h) for layer, h in zip(self._network.layers, last, strict=True)])
        return tape

    def reads(self, last: list[State]) -> Iterator[Array]:
        """What the readout reads, segment by segment; "last" alone of the last one.

        Parameters
        ----------
        last : list
            Empty; then the layers' last states.
        """
        for s in range(len(self.times)):
            read = self.run(s).read
            if self._network.readout == "every" or s + 1 == len(self.times):
                yield read
        last += self.last

    def outputs(self) -> Array:
        """The network's outputs (T, B, q), or (B, q)."""
        network, own = self._network, self._network.readout_weights(self._params)
        each = (network.dense.forward(own, read) for read in self.reads([]))
        if network.readout == "last":
            return next(each)
        outputs = xp_of(self.x).empty((*self.x.shape[:2], network.output_size), own["W"].dtype)
        for t, part in zip(self.times, each, strict=True):
            outputs[t] = part
        return outputs

    @property
    def last(self) -> list[State]:
        """The layers' states after the last segment that has run for the first time."""
        states = self._starts[-1]
        assert states is not None
        return states


def _copy(layer: Recurrent, state: State) -> State:
    return state_of(tuple(part.copy() for part in parts_of(layer.cell, state)))


class _Readout:
    """The readout and its loss, chunk by chunk of time, the last first."""

    def __init__(self, network: "Network", params: Params, x: Array, y: Array, mask: Array | None) -> None:
        self._network, self._y, self._mask = network, y, mask
        self._own = network.readout_weights(params)
        self._rows = network.outputs_at_a_time(x)
        self._sums = {name: xp_of(value).zeros_like(value) for name, value in self._own.items()}
        shape = (*(x.shape[:2] if network.readout == "every" else x.shape[1:2]), network.output_size)
        self._total = count(network.loss, shape, y, mask, self._own["W"].dtype)
        self.loss: Array | int = 0

    def add(self, t: slice, read: Array) -> Array:
        """The gradient by what is read at these steps, (steps, B, n), or at the last, (B, n)."""
        y, mask = (self._y, self._mask)
        if self._network.readout == "every":
            y, mask = y[t], None if mask is None else mask[t]
        W, b = self._own["W"], self._own["b"]
        if self._rows is not None:
            sums = (self._sums["W"], self._sums["b"])
            own, dread = cross_entropy_of_readout(read, W, b, y, mask, self._rows, self._total, sums)[:2]
        else:
            outputs = self._network.dense.forward(self._own, read)
            own, doutputs = LOSSES[self._network.loss](outputs, y, mask, self._total)
            dread, dweights = self._network.dense.backward(self._own, read, doutputs)
            for name, gradient in dweights.items():
                self._sums[name] += gradient  # [bp:recompute/sum]
        self.loss = self.loss + own
        loss = self.loss
        check(xp_of(loss).isfinite(loss), NotFiniteError("loss is not finite"), lambda: f"loss is {float(loss)}")
        return dread

    @property
    def gradients(self) -> Params:
        return {f"readout.{name}": value for name, value in self._sums.items()}


class _Layer:
    """A layer's backward pass, chunk by chunk of time, the last first."""

    def __init__(self, network: "Network", i: int, params: Params, buffers: NamedBuffers, dropped: Weights) -> None:
        self._network, self._i, self._params, self._buffers, self._dropped = network, i, params, buffers, dropped
        self._layer: Recurrent = network.layers[i]
        self._weights = network.layer_weights(i, params, buffers, dropped)
        self._sums = {name: xp_of(weight).zeros_like(weight) for name, weight in self._weights.items()}
        self._dh_T: State | None = None

    def add(self, tape: RecurrentTape, t: slice, dfeatures: Array) -> Array | None:
        """The gradient by what it read at the steps t of the tape."""
        dh = real_features_pullback(dfeatures, self._layer.cell.complex)
        own = (self._sums, self._weights, tape, t, dh, self._dh_T)
        dx, self._dh_T = self._layer.add_gradients(*own)  # [bp:recompute/g] [bp:recompute/sum]
        return dx

    def gradients(self, from_trained_h0: bool) -> Params:
        """Of its parameters, by the network's names."""
        return self._network.pulled_back(
            self._i, self._params, self._buffers, self._dropped, self._sums, self._dh_T, from_trained_h0
        )


class Recomputed(NamedTuple):
    """What comes of it.

    Attributes
    ----------
    loss : Array ()
        Of the batch.
    gradients : dict of Array
        Under the parameters' names.
    last : list
        Each layer's state after step T.
    """

    loss: Array
    gradients: Params
    last: list[State]

    def __repr__(self) -> str:
        return brief(self)


def loss_and_gradients(
    network: "Network",
    params: Params,
    buffers: NamedBuffers,
    x: Array,
    y: Array,
    mask: Array | None,
    h0: list[State] | None,
    rng: np.random.Generator | None,
    recompute: int | str,
) -> Recomputed:
    """`Network.loss_and_gradients` in segments.

    Parameters
    ----------
    network : Network
        The network.
    params, buffers, x, y, mask, h0, rng
        As of `Network.loss_and_gradients`.
    recompute : int or "auto"
        Steps of a segment.

    Returns
    -------
    Recomputed
        Loss, gradients and last states.

    Raises
    ------
    ValueError
        For a network that is not computed again, and another `recompute`.
    NotFiniteError
        For a loss that is not finite.
    """
    network.check_recompute(recompute)
    run = Segments(network, params, buffers, x, h0, rng, recompute)
    readout = _Readout(network, params, run.x, y, mask)
    tape = None
    for s in range(len(run.times)):
        del tape  # before there is the next one
        tape = run.run(s)  # [bp:recompute/forward]
    assert tape is not None
    layers = [_Layer(network, i, params, buffers, dropped) for i, dropped in enumerate(tape.weights)]
    dE = None if network.embedding is None else xp_of(x).zeros_like(params["embedding.E"])
    for s in reversed(range(len(run.times))):
        if tape is None:
            tape = run.run(s)  # [bp:recompute/segment]
        for t, dx in _upstream(network, readout, tape, run.times[s], s + 1 == len(run.times)):
            for i in reversed(range(len(layers))):
                scale = tape.scales[i]
                scale = scale if scale is None or len(scale) == 1 else scale[t]
                dx = dx if scale is None else scale * dx  # [bp:lm-dropout/scale_gradient]
                dx = layers[i].add(tape.layers[i], t, dx)
            if network.embedding is not None:
                assert dx is not None
                assert tape.tokens is not None
                de = dx if tape.inputs is None else tape.inputs * dx  # [bp:lm-dropout/scale_gradient]
                network.embedding.add(dE, tape.tokens[t].reshape(-1), de.reshape(-1, de.shape[-1]))
        words, from_trained_h0 = tape.words, [own.from_trained_h0 for own in tape.layers]
        tape = None
    gradients = readout.gradients
    for own, trained in zip(layers, from_trained_h0, strict=True):
        gradients |= own.gradients(trained)
    if dE is not None:
        gradients["embedding.E"] = dE if words is None else words * dE  # [bp:lm-embedding/gradient]
    return Recomputed(readout.loss, network.tie(params, gradients), run.last)


def _upstream(
    network: "Network", readout: _Readout, tape: "NetworkTape", segment: slice, last: bool
) -> Iterator[tuple[slice, Array]]:
    """Chunks of a segment's steps, the last first, and the gradient by what the readout reads there."""
    for t in sequence.chunks(tape.features)[1]:
        if network.readout == "every":
            yield t, readout.add(slice(segment.start + t.start, segment.start + t.stop), tape.read[t])
            continue
        features = tape.features[t]
        dx = xp_of(features).zeros(features.shape, features.dtype)
        if last and t.stop == len(tape.features):
            dx[-1] = readout.add(t, tape.read)
        yield t, dx
