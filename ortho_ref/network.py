"""Input -> recurrent layers -> readout -> loss, with the exact gradient of every parameter.

Parameter names are paths: "layer0.U_c.A", "layer0.W_r", "readout.W".
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array, NotFiniteError, xp_of
from ortho_ref.cells import State, Weights
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.checks import Pending, check, prefixed, together
from ortho_ref.layers import Dense, dropout_scale, real_features, real_features_pullback
from ortho_ref.losses import LOSSES
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import NamedBuffers, Recurrent, RecurrentTape


class Forward(NamedTuple):
    """What `Network.forward` gives.

    Attributes
    ----------
    outputs : Array (T, B, q), or (B, q) for readout "last"
        Of the readout.
    last : list
        Each layer's state after step T.
    tape : NetworkTape
        For `backward`.
    """

    outputs: Array
    last: list[State]
    tape: "NetworkTape"


class NetworkTape(NamedTuple):
    """What backward needs.

    Attributes
    ----------
    layers : list of RecurrentTape
        The layers' tapes.
    scales : list of Array or None
        Their dropout, None without.
    read : Array
        What the readout read.
    shape : tuple of int
        Of the last layer's features.
    """

    layers: list[RecurrentTape]
    scales: list[Array | None]
    read: Array
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Network:
    """Recurrent layers and a dense readout.

    Parameters
    ----------
    layers : tuple of Recurrent
        Each built with its `sizes`; the input size of one is the hidden size of the one before, twice that if it is
        complex: complex states are read on as [Re h, Im h] (urnn:9).
    output_size : int
        Width of the readout.
    readout : str
        At "every" step, or the "last" one only.
    loss : str
        A name in `losses.LOSSES`.
    dropout : float
        The share of every layer's outputs that is dropped before they are read on; the recurrence is left alone.

    Raises
    ------
    ValueError
        For layers that do not fit each other, and values out of range.
    """

    layers: tuple[Recurrent, ...]
    output_size: int
    readout: str = "every"
    loss: str = "cross_entropy"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError("layers is empty; expected at least one Recurrent")
        for i, layer in enumerate(self.layers):
            if layer.sizes is None:
                raise ValueError(f"layers[{i}] has no sizes; build it with sizes=(input_size, hidden_size)")
            before = self.layers[i - 1].output_size if i else layer.sizes[0]
            if layer.sizes[0] != before:
                raise ValueError(f"layers[{i}] takes {layer.sizes[0]} inputs; the layer before gives {before}")
        if not isinstance(self.output_size, int | np.integer) or self.output_size < 1:
            raise ValueError(f"output_size is {self.output_size!r}; allowed: an integer >= 1")
        if self.readout not in ("every", "last"):
            raise ValueError(f"readout is {self.readout!r}; allowed: 'every', 'last'")
        if self.loss not in LOSSES:
            raise ValueError(f"loss is {self.loss!r}; allowed: {', '.join(map(repr, LOSSES))}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; allowed: 0 <= dropout < 1")

    def __repr__(self) -> str:
        named = [(layer.name or type(layer.cell).__name__, *(layer.sizes or ())) for layer in self.layers]
        parts = ["{} {} -> {}".format(*layer) for layer in named]
        parts.append(
            f"{self.output_size} outputs at {'every' if self.readout == 'every' else 'the last'} step, {self.loss}"
        )
        if self.dropout:
            parts.append(f"dropout {self.dropout}")
        if self.free_parameters is not None:
            parts.append(f"{self.free_parameters:,} parameters")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def _dense(self) -> Dense:
        size = self.layers[-1].output_size
        assert size is not None
        return Dense(size, self.output_size)

    def init(self, rng: np.random.Generator, dtype: Any = np.float32) -> tuple[Params, NamedBuffers]:
        """Parameters and buffers, on the host.

        Parameters
        ----------
        rng : numpy.random.Generator
            Every layer draws from its own child of it.
        dtype : dtype
            The real precision, float32 or float64.

        Returns
        -------
        params : dict of Array
            By path, "layer0.U_c.A", "readout.W".
        buffers : dict of dict
            Path of a parametrized weight -> its buffers.
        """
        readout_rng, *rngs = rng.spawn(1 + len(self.layers))
        params: Params = {}
        buffers: NamedBuffers = {}
        for i, (layer, child) in enumerate(zip(self.layers, rngs, strict=True)):
            own, own_buffers = layer.init(child, dtype=dtype)
            params |= _with_prefix(f"layer{i}.", own)
            buffers |= _with_prefix(f"layer{i}.", own_buffers)
        return params | _with_prefix("readout.", self._dense.init(readout_rng, np.dtype(dtype))), buffers

    def forward(
        self,
        params: Params,
        buffers: NamedBuffers,
        x: Array,
        h0: list[State] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Forward:
        """Run over a sequence.

        Parameters
        ----------
        params, buffers : dict
            As `init` gives them, on any device.
        x : Array (T, B, m), or integer tokens (T, B)
            The input.
        h0 : list, optional
            A state for each layer; each layer's own start unless given.
        rng : numpy.random.Generator, optional
            Draws the dropout; without it nothing is dropped.

        Returns
        -------
        Forward
            Outputs, last states, and the tape.

        Raises
        ------
        ValueError, TypeError
            Naming the argument, for what does not fit.
        """
        if h0 is not None and len(h0) != len(self.layers):
            raise ValueError(f"h0 holds {len(h0)} states; expected one for each of the {len(self.layers)} layers")
        tapes, last = [], []
        scales: list[Array | None] = [None] * len(self.layers)
        for i, layer in enumerate(self.layers):
            state, tape = layer.forward(*self._own(i, params, buffers), x, None if h0 is None else h0[i])
            parts = parts_of(layer.cell, state)
            last.append(state_of(tuple(part[-1] for part in parts)))
            tapes.append(tape)
            x = real_features(parts[0][1:])
            if rng is not None and self.dropout:
                scales[i] = dropout_scale(rng, self.dropout, x)
                x = scales[i] * x
        read = x if self.readout == "every" else x[-1]
        outputs = self._dense.forward(_without_prefix("readout.", params), read)
        return Forward(outputs, last, NetworkTape(tapes, scales, read, x.shape))

    def backward(self, params: Params, buffers: NamedBuffers, tape: NetworkTape, doutputs: Array) -> Params:
        """The gradient of every parameter.

        Parameters
        ----------
        params, buffers : dict
            Those of `forward`.
        tape : NetworkTape
            From `forward`.
        doutputs : Array
            dL/doutputs, of their shape.

        Returns
        -------
        dict of Array
            Under the parameters' names.
        """
        dread, dreadout = self._dense.backward(_without_prefix("readout.", params), tape.read, doutputs)
        gradients = _with_prefix("readout.", dreadout)
        if self.readout == "every":
            dh = dread
        else:
            dh = xp_of(dread).zeros(tape.shape, dread.dtype)
            dh[-1] = dread
        for i in reversed(range(len(self.layers))):
            scale, layer = tape.scales[i], self.layers[i]
            dh = real_features_pullback(dh if scale is None else scale * dh, layer.cell.complex)
            own = layer.backward(*self._own(i, params, buffers), tape.layers[i], dh)
            gradients |= _with_prefix(f"layer{i}.", own.params)
            dh = own.x
        return {name: gradients[name] for name in params}

    def loss_and_gradients(
        self,
        params: Params,
        buffers: NamedBuffers,
        x: Array,
        y: Array,
        mask: Array | None = None,
        h0: list[State] | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[Array, Params, Forward]:
        """The loss of a batch, and its gradients.

        Parameters
        ----------
        params, buffers, x, h0, rng
            As of `forward`.
        y : Array
            What the loss takes.
        mask : Array (T, B) of bool, optional
            Which steps count; all unless given.

        Returns
        -------
        loss : Array
            0-d.
        gradients : dict of Array
            Under the parameters' names.
        result : Forward
            The forward pass.

        Raises
        ------
        NotFiniteError
            For a loss that is not finite.
        """
        result = self.forward(params, buffers, x, h0, rng)
        loss, doutputs = LOSSES[self.loss](result.outputs, y, mask)
        finite = xp_of(loss).isfinite(loss)
        check(finite, NotFiniteError("loss is not finite"), lambda: f"loss is {float(loss)}")
        return loss, self.backward(params, buffers, result.tape, doutputs), result

    def retract(self, params: Params, buffers: NamedBuffers, deltas: Params) -> tuple[Params, NamedBuffers]:
        """Subtract the optimizer's deltas; every U follows its parameters.

        On a device the numbers that all layers' updates have to know are read in one copy.

        Parameters
        ----------
        params, buffers : dict
            As they are.
        deltas : dict of Array
            Under the parameters' names: what is subtracted, learning rate included.

        Returns
        -------
        params, buffers : dict
            New ones.
        """
        pending: dict[str, Pending] = {}
        for i, layer in enumerate(self.layers):
            name = f"layer{i}"
            with prefixed(f"{name}."):
                own_deltas = _without_prefix(f"{name}.", deltas)
                pending[name] = layer.begin_retract(*self._own(i, params, buffers), own_deltas)

        def finish(updated: dict[str, tuple[Params, NamedBuffers]]) -> tuple[Params, NamedBuffers]:
            new_params = {name: params[name] - deltas[name] for name in params if name.startswith("readout.")}
            new_buffers: NamedBuffers = {}
            for name, (own, own_buffers) in updated.items():
                new_params |= _with_prefix(f"{name}.", own)
                new_buffers |= _with_prefix(f"{name}.", own_buffers)
            return {name: new_params[name] for name in params}, new_buffers

        moved: tuple[Params, NamedBuffers] = together(pending, finish, "{}.").complete()
        return moved

    def rebuild(self, params: Params, buffers: NamedBuffers) -> NamedBuffers:
        """Buffers with every U afresh from the parameters, for parameters that were set by hand."""
        rebuilt: NamedBuffers = {}
        for i, layer in enumerate(self.layers):
            rebuilt |= _with_prefix(f"layer{i}.", layer.rebuild(*self._own(i, params, buffers)))
        return rebuilt

    @property
    def free_parameters(self) -> int | None:
        """What `count` counts, from the sizes alone; None where a parametrization refuses its n."""
        total = (self._dense.input_size + 1) * self.output_size
        for layer in self.layers:
            if layer.free_parameters is None:
                return None
            total += layer.free_parameters
        return total

    def count(self, params: Params) -> int:
        """Free real parameters of all layers and the readout."""
        own = sum(layer.count(_without_prefix(f"layer{i}.", params)) for i, layer in enumerate(self.layers))
        return own + sum(value.size for value in _without_prefix("readout.", params).values())

    def health(self, buffers: NamedBuffers) -> dict[str, dict[str, float]]:
        """Path of a weight, layer0.U_c, -> the figures its parametrization watches."""
        figures: dict[str, dict[str, float]] = {}
        for i, layer in enumerate(self.layers):
            figures |= _with_prefix(f"layer{i}.", layer.health(_without_prefix(f"layer{i}.", buffers)))
        return figures

    def layer_weights(self, i: int, params: Params, buffers: NamedBuffers) -> Weights:
        """The dense weights that layer i's cell sees."""
        return self.layers[i].weights(*self._own(i, params, buffers))

    def _own(self, i: int, params: Params, buffers: NamedBuffers) -> tuple[Params, NamedBuffers]:
        return _without_prefix(f"layer{i}.", params), _without_prefix(f"layer{i}.", buffers)


def _with_prefix(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in values.items()}


def _without_prefix(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}
