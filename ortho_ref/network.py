"""Input -> embedding -> recurrent layers -> readout -> loss, with the exact gradient of every parameter.

Parameter names are paths: "embedding.E", "layer0.U_c.A", "layer0.W_r", "readout.W".

Dropout, of what a layer reads or gives; s of every entry, or one for all steps of a window ("locked")
    y_t = s_t * x_t                                   [bp:lm-dropout/scale]
    dx_t = s_t * dy_t                                 [bp:lm-dropout/scale_gradient]

Dropout of a free recurrent weight, one s for a window
    V = s * U takes the place of U                    [bp:lm-dropout/weights]
    dU = s * dV                                       [bp:lm-dropout/weights_gradient]

Tied readout, o = E k + b with the embedding's E: the two gradients add up
    dE = (sum of do k^T) + (that of the rows of E)    [bp:lm-embedding/tied]
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.arguments import check_has, check_number, check_size, generator, precision
from ortho_ref.backend import Array, NotFiniteError, is_array, xp_of
from ortho_ref.brief import ArraysByName, brief
from ortho_ref.cells import State, Weights
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.checks import check, prefixed
from ortho_ref.dropout import Dropout, Redrawn
from ortho_ref.layers import Dense, Embedding, real_features, real_features_pullback
from ortho_ref.losses import LOSSES, cross_entropy_of_readout, rows_at_a_time
from ortho_ref.parametrizations import Params
from ortho_ref.pending import Pending, together
from ortho_ref.recompute import Segments, check_recompute
from ortho_ref.recompute import loss_and_gradients as in_segments
from ortho_ref.recurrent import (
    NamedBuffers,
    Recurrent,
    RecurrentTape,
    check_array,
    check_deltas,
    check_dicts,
    check_input,
    precision_of_most,
)
from ortho_ref.regularizers import Regularizers
from ortho_ref.schema import kind_of, nearest, not_among


class Forward(NamedTuple):
    """What `Network.forward` gives.

    Attributes
    ----------
    outputs : Array (T, B, q), or (B, q) for readout "last"
        Of the readout; None from `loss_and_gradients` where it never has all of them, see `losses.rows_at_a_time`.
    last : list
        Each layer's state after step T.
    tape : NetworkTape
        For `backward`; with `recompute` None, as the outputs.
    """

    outputs: Array
    last: list[State]
    tape: Any

    def __repr__(self) -> str:
        return brief(self)


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
    features : Array (T, B, n)
        These, before dropout.
    tokens, words, inputs : Array or None
        What the embedding read (of a `reader.Reader` two `task.Padded`), and the dropout of its words and of what it
        gave.
    weights : list of dict
        Of each layer, the dropout of recurrent weights by name.
    penalty : Array () or float or None
        What the regularizers add to the loss, of `loss_and_gradients`; of a forward pass alone None.
    """

    layers: list[RecurrentTape]
    scales: list[Array | None]
    read: Array
    shape: tuple[int, ...]
    features: Array
    tokens: Array | None
    words: Array | None
    inputs: Array | None
    weights: list[Weights]
    penalty: Array | float | None = None

    def __repr__(self) -> str:
        return brief(self)


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
    embedding : Embedding, optional
        What turns tokens into the vectors that the first layer reads; without one tokens name columns of its W.
    tied : bool
        Whether the readout's W is the embedding's E.
    regularizers : Regularizers
        AWD-LSTM's; `loss_and_gradients` has them, and dropout wherever a generator is given.

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
    embedding: Embedding | None = None
    tied: bool = False
    regularizers: Regularizers = field(default_factory=Regularizers)

    def __post_init__(self) -> None:
        self._check_kinds()
        for i, layer in enumerate(self.layers):
            if layer.sizes is None:
                raise ValueError(f"layers[{i}] has no sizes; build it with sizes=(input_size, hidden_size)")
        self._check_layers()
        check_size("output_size", self.output_size)
        if self.readout not in ("every", "last"):
            raise ValueError(not_among("readout", self.readout, ("every", "last")))
        if self.loss not in LOSSES:
            raise ValueError(not_among("loss", self.loss, LOSSES))
        check_number("dropout", self.dropout, lambda rate: 0 <= rate < 1, "0 <= dropout < 1")
        self._check_embedding()
        self._check_dropped_weights()

    def _check_kinds(self) -> None:
        """An error unless layers is some layers, and embedding one if there is any."""
        if not isinstance(self.layers, list | tuple):
            raise TypeError(
                f"layers is {kind_of(self.layers)}; allowed: a tuple of layers, (layer,) where there is one"
            )
        if not self.layers:
            raise ValueError("layers is empty; expected at least one Recurrent")
        object.__setattr__(self, "layers", tuple(self.layers))
        for i, layer in enumerate(self.layers):
            check_has(f"layers[{i}]", layer, "begin_retract", "a Recurrent, as models.gru(10, 56)")
        if self.embedding is not None:
            check_has("embedding", self.embedding, "vocabulary", "an Embedding, as Embedding(10_000, 400), or None")

    def _check_layers(self) -> None:
        """ValueError unless each layer takes what the one before gives."""
        for i, (before, layer) in enumerate(itertools.pairwise(self.layers), 1):
            assert layer.sizes is not None
            if layer.sizes[0] != before.output_size:
                raise ValueError(
                    f"layers[{i}] takes {layer.sizes[0]} inputs; the layer before gives {before.output_size}"
                )

    def _check_embedding(self) -> None:
        """ValueError unless embedding, readout and what is dropped of them fit each other."""
        own, last = self.embedding, self.layers[-1].output_size
        assert self.layers[0].sizes is not None
        if own is not None and own.size != self.layers[0].sizes[0]:
            raise ValueError(f"the embedding gives {own.size} numbers; layers[0] takes {self.layers[0].sizes[0]}")
        if own is None and self.regularizers.words:
            raise ValueError(
                f"dropout of words is {self.regularizers.words}, but there is no embedding; allowed: 0, or an embedding"
            )
        if self.tied and (own is None or (own.vocabulary, own.size) != (self.output_size, last)):
            has = "none" if own is None else f"E ({own.vocabulary}, {own.size})"
            raise ValueError(
                f"tied needs an embedding with E ({self.output_size}, {last}), as the readout's W; has {has}"
            )

    def _check_dropped_weights(self) -> None:
        for i, layer in enumerate(self.layers):
            try:
                self.regularizers.dropped_weights(layer)
            except ValueError as error:
                raise ValueError(f"layers[{i}]: {error}") from None

    def __repr__(self) -> str:
        named = [(layer.name or type(layer.cell).__name__, *(layer.sizes or ())) for layer in self.layers]
        parts = [f"{role}{{}} {{}} -> {{}}".format(*layer) for role, layer in zip(self._roles, named, strict=True)]
        step, many = "every" if self.readout == "every" else "the last", "s" if self.output_size > 1 else ""
        parts.append(f"{self.output_size} output{many} at {step} step, {self.loss}")
        if self.embedding is not None:
            parts.insert(0, f"embedding {self.embedding.vocabulary} -> {self.embedding.size}")
        if self.tied:
            parts.append("tied")
        if self.dropout:
            parts.append(f"dropout {self.dropout}")
        if self.regularizers != Regularizers():
            parts.append(f"regularizers {self.regularizers}")
        if self.free_parameters is not None:
            parts.append(f"{self.free_parameters:,} parameters")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def _roles(self) -> tuple[str, ...]:
        """What each layer is called before its sizes."""
        return ("",) * len(self.layers)

    @property
    def dense(self) -> Dense:
        """The readout."""
        size = self.layers[-1].output_size
        assert size is not None
        return Dense(size, self.output_size)

    @property
    def input_size(self) -> int:
        """Of the vectors that it reads, or of the vocabulary."""
        if self.embedding is not None:
            return self.embedding.vocabulary
        assert self.layers[0].sizes is not None
        return self.layers[0].sizes[0]

    def init(self, rng: np.random.Generator, *, dtype: Any = np.float32) -> tuple[Params, NamedBuffers]:
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

        Raises
        ------
        TypeError
            rng is no generator, but a seed, say.
        ValueError
            For another dtype.
        """
        own_dtype = precision(dtype)
        readout_rng, *rngs = generator(rng).spawn(1 + len(self.layers))
        readout = self.dense.init(readout_rng, dtype=own_dtype)
        params: Params = ArraysByName()
        buffers: NamedBuffers = ArraysByName()
        if self.embedding is not None:
            params |= _with_prefix("embedding.", self.embedding.init(readout_rng.spawn(1)[0], dtype=own_dtype))
        if self.tied:
            del readout["W"]
        for i, (layer, child) in enumerate(zip(self.layers, rngs, strict=True)):
            own, own_buffers = layer.init(child, dtype=own_dtype)
            params |= _with_prefix(f"layer{i}.", own)
            buffers |= _with_prefix(f"layer{i}.", own_buffers)
        params |= _with_prefix("readout.", readout)
        return params, buffers

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
        last, tape = self._features(params, buffers, x, h0, rng)
        return Forward(self.dense.forward(self.readout_weights(params), tape.read), last, tape)

    def _features(
        self, params: Params, buffers: NamedBuffers, x: Array, h0: list[State] | None, rng: np.random.Generator | None
    ) -> tuple[list[State], NetworkTape]:
        """All but the readout: each layer's last state, and the tape, whose `read` is what the readout reads."""
        return self.features(params, buffers, x, h0, self._dropout(rng))

    def features(
        self,
        params: Params,
        buffers: NamedBuffers,
        x: Array,
        h0: list[State] | None,
        dropout: Dropout | Redrawn,
        go_on: bool = False,
    ) -> tuple[list[State], NetworkTape]:
        """Embedding and layers over a sequence or a stretch of it.

        Parameters
        ----------
        params, buffers, x, h0
            As of `forward`.
        dropout : Dropout or Redrawn
            What is dropped.
        go_on : bool
            Whether h0 is what this gave for the stretch before; it is not looked at then.

        Returns
        -------
        last : list
            Each layer's state after the last step; views.
        tape : NetworkTape
            Its `read` is what the readout reads.
        """
        self.check_params(params, buffers)
        self._check_states(h0)
        x, tokens, words = self._embedded(params, x, dropout)
        inputs = dropout.inputs(x)
        x = x if inputs is None else inputs * x  # [bp:lm-dropout/scale]
        tapes, last, weights = [], [], []
        scales: list[Array | None] = []
        for i in range(len(self.layers)):
            parts, tape, dropped = self._run_layer(i, params, buffers, x, h0, dropout, go_on)
            weights.append(dropped)
            last.append(state_of(tuple(part[-1] for part in parts)))
            tapes.append(tape)
            x = features = real_features(parts[0][1:])
            scales.append(dropout.outputs(i, x))
            x = x if scales[i] is None else scales[i] * x  # [bp:lm-dropout/scale]
        read = x if self.readout == "every" else x[-1]
        return last, NetworkTape(tapes, scales, read, x.shape, features, tokens, words, inputs, weights)

    def check_params(self, params: Params, buffers: NamedBuffers) -> None:
        """An error unless params and buffers are dicts that hold what every part needs, by its path, and no more.

        What a layer's own parameters are is the layer's to check.

        Parameters
        ----------
        params, buffers : dict
            What was given.

        Raises
        ------
        TypeError, ValueError
            Naming what is no dict, what is not there, and what nothing needs.
        """
        check_dicts(params=params, buffers=buffers)
        shapes = self._shapes()
        lacking = [name for name in shapes if name not in params]
        for i, layer in enumerate(self.layers):
            lacking += [f"layer{i}.{name}" for name in layer.lacking(_without_prefix(f"layer{i}.", params))]
        if lacking:
            raise ValueError(f"params holds no {', no '.join(lacking)}; expected all that init gives")
        of_layers = tuple(f"layer{i}." for i in range(len(self.layers)))
        for name in params:
            if name not in shapes and not name.startswith(of_layers):
                near = nearest(name, shapes)
                raise ValueError(f"params holds {name!r}{near}; expected what init gives alone")
        W = params[f"layer0.{self.layers[0].cell.input_weights[0]}"]
        if is_array(W):  # what is none, the layer says
            dtype = W.real.dtype
            if any(getattr(params[name], "dtype", dtype) != dtype for name in shapes):
                dtype = precision_of_most(params.values())
            for name, shape in shapes.items():
                check_array(name, params[name], shape, dtype)
        self._check_buffers(buffers)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Those of what is no layer's."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.embedding is not None:
            shapes["embedding.E"] = (self.embedding.vocabulary, self.embedding.size)
        if not self.tied:
            shapes["readout.W"] = (self.output_size, self.dense.input_size)
        return shapes | {"readout.b": (self.output_size,)}

    def _check_buffers(self, buffers: NamedBuffers) -> None:
        """ValueError unless there are buffers of every parametrized weight, by its path."""
        needed = [f"layer{i}.{name}" for i, layer in enumerate(self.layers) for name in layer.constrained]
        if lacking := [name for name in needed if name not in buffers]:
            raise ValueError(f"buffers holds no {', no '.join(lacking)}; expected all that init gives")

    def _check_states(self, h0: list[State] | None) -> None:
        """ValueError unless there is one for each layer, or none at all."""
        if h0 is not None and len(h0) != len(self.layers):
            raise ValueError(f"h0 holds {len(h0)} states; expected one for each of the {len(self.layers)} layers")

    def _dropout(self, rng: np.random.Generator | None) -> Dropout:
        """What this generator drops; nothing without one."""
        return Dropout(self.dropout, self.regularizers, self.layers, rng)

    def _run_layer(
        self,
        i: int,
        params: Params,
        buffers: NamedBuffers,
        x: Array,
        h0: list[State] | None,
        dropout: Dropout | Redrawn,
        go_on: bool = False,
    ) -> tuple[tuple[Array, ...], RecurrentTape, Weights]:
        """The parts of layer i's states (T+1, B, n), its tape, and the dropout of its recurrent weights."""
        layer = self.layers[i]
        layer_params, layer_buffers = self.own(i, params, buffers)
        dropped = dropout.weights(i, layer_params)
        layer_params = _scaled(layer_params, dropped)  # [bp:lm-dropout/weights]
        run = layer.go_on if go_on else layer.forward
        state, tape = run(layer_params, layer_buffers, x, None if h0 is None else h0[i])
        return parts_of(layer.cell, state), tape, dropped

    def _run_layer_back(
        self, i: int, params: Params, buffers: NamedBuffers, tape: RecurrentTape, dropped: Weights, dfeatures: Array
    ) -> tuple[Params, Array | None]:
        """The gradients of layer i's parameters, and of what it read, from that of its features (T, B, n)."""
        layer = self.layers[i]
        layer_params, layer_buffers = self.own(i, params, buffers)
        layer_params = _scaled(layer_params, dropped)  # [bp:lm-dropout/weights]
        dh = real_features_pullback(dfeatures, layer.cell.complex)
        own = layer.backward(layer_params, layer_buffers, tape, dh)
        return self._named(i, own.params, dropped), own.x

    def pulled_back(
        self,
        i: int,
        params: Params,
        buffers: NamedBuffers,
        dropped: Weights,
        dweights: Weights,
        dh0: State,
        from_trained_h0: bool,
    ) -> Params:
        """The gradients of layer i's parameters from those of its dense weights; see `Recurrent.pullback`."""
        layer_params, layer_buffers = self.own(i, params, buffers)
        layer_params = _scaled(layer_params, dropped)  # [bp:lm-dropout/weights]
        own = self.layers[i].pullback(layer_params, layer_buffers, dweights, dh0, from_trained_h0)
        return self._named(i, own, dropped)

    @staticmethod
    def _named(i: int, gradients: Params, dropped: Weights) -> Params:
        """Layer i's gradients by the network's names, of the recurrent weights before dropout."""
        return _with_prefix(f"layer{i}.", _scaled(gradients, dropped))  # [bp:lm-dropout/weights_gradient]

    def _embedded(
        self, params: Params, x: Array, dropout: Dropout | Redrawn
    ) -> tuple[Array, Array | None, Array | None]:
        """What the first layer reads; the tokens, and the dropout of words."""
        if self.embedding is None:
            return x, None, None
        E = params["embedding.E"]
        x = check_input(x, self.embedding.vocabulary, E)
        if x.dtype.kind not in "iu":
            raise TypeError(f"x is {x.dtype}; expected integer tokens (T, B): the network has an embedding")
        words = dropout.words(E)
        return self.embedding.forward({"E": E}, x, words), x, words

    def readout_weights(self, params: Params) -> Weights:
        """W and b of the readout."""
        own = _without_prefix("readout.", params)
        return own | {"W": params["embedding.E"]} if self.tied else own

    def forward_in_chunks(
        self,
        params: Params,
        buffers: NamedBuffers,
        x: Array,
        y: Array,
        mask: Array | None = None,
        h0: list[State] | None = None,
        recompute: int | str | None = None,
    ) -> tuple[Iterator[tuple[Array, Array, Array | None]], list[State]]:
        """`forward`, with no more outputs at a time than `losses.rows_at_a_time` says.

        Parameters
        ----------
        params, buffers, x, h0
            As of `forward`.
        y, mask : Array
            What the loss takes.
        recompute : int or "auto", optional
            As of `loss_and_gradients`: the layers run so many steps at a time.

        Returns
        -------
        chunks : iterator
            Of outputs, y and mask; where it is one chunk they have their own shapes, else the steps' axes are one.
        last : list
            Each layer's state after step T, there at the latest when the last chunk has been taken.
        """
        step = self.outputs_at_a_time(x)
        if recompute is not None:
            self.check_recompute(recompute)
            segments = Segments(self, params, buffers, x, h0, None, recompute)
            if step is None:
                outputs = segments.outputs()
                return iter([(outputs, y, mask)]), segments.last
            last: list[State] = []
            return self._in_chunks(params, segments.reads(last), y, mask, step), last
        if step is None:
            result = self.forward(params, buffers, x, h0)
            return iter([(result.outputs, y, mask)]), result.last
        last, tape = self._features(params, buffers, x, h0, None)
        return self._in_chunks(params, [tape.read], y, mask, step), last

    def _in_chunks(
        self, params: Params, reads: Iterable[Array], y: Array, mask: Array | None, step: int
    ) -> Iterator[tuple[Array, Array, Array | None]]:
        """Outputs of so many rows of what is read, wherever it is cut, with y and mask."""
        shape = y.shape[: 2 if self.readout == "every" else 1]
        targets = y.reshape(-1, *y.shape[len(shape) :])
        counts = None if mask is None else mask.reshape(-1)
        start, waiting = 0, []
        for read in reads:
            waiting.append(read.reshape(-1, read.shape[-1]))
            while (there := sum(map(len, waiting))) >= step or there == len(targets) - start > 0:
                rows = waiting[0] if len(waiting) == 1 else xp_of(read).concatenate(waiting)
                own, waiting = slice(start, start + step), [rows[step:]]
                outputs = self.dense.forward(self.readout_weights(params), rows[:step])
                yield outputs, targets[own], None if counts is None else counts[own]
                start += step

    def outputs_at_a_time(self, x: Array) -> int | None:
        """Of outputs, where that is not all of them."""
        if not is_array(x) or self.loss != "cross_entropy":
            return None
        rows = math.prod(x.shape[:2] if self.readout == "every" else x.shape[1:2])
        step = rows_at_a_time(rows, self.output_size)
        return step if step < rows else None

    def backward(self, params: Params, buffers: NamedBuffers, tape: NetworkTape, doutputs: Array) -> Params:
        """The gradient of every parameter; with the penalty's, if the tape has one.

        Parameters
        ----------
        params, buffers : dict
            Those of `forward`.
        tape : NetworkTape
            From `forward`.
        doutputs : Array
            dL/doutputs, of their shape and dtype.

        Returns
        -------
        dict of Array
            Under the parameters' names.

        Raises
        ------
        ValueError, TypeError
            Naming the argument, for what does not fit.
        """
        if not isinstance(tape, NetworkTape):
            raise TypeError(f"tape is {kind_of(tape)}; expected that of what forward returned")
        check_array("doutputs", doutputs, (*tape.read.shape[:-1], self.output_size), tape.read.dtype)
        dread, dreadout = self.dense.backward(self.readout_weights(params), tape.read, doutputs)
        return self._backward(params, buffers, tape, dread, dreadout)

    def _backward(
        self, params: Params, buffers: NamedBuffers, tape: NetworkTape, dread: Array, dreadout: Weights
    ) -> Params:
        """From the gradients by what the readout read and by its weights."""
        return self.tie(params, _with_prefix("readout.", dreadout) | self._below_readout(params, buffers, tape, dread))

    def tie(self, params: Params, gradients: Params) -> Params:
        """The gradients of the parameters, in their order; a tied W's is a part of E's."""
        if self.tied:
            gradients["embedding.E"] = gradients["embedding.E"] + gradients["readout.W"]  # [bp:lm-embedding/tied]
        return ArraysByName({name: gradients[name] for name in params})

    def check_recompute(self, recompute: int | str | None) -> None:
        """An error where `recompute` is none, or this network is not computed again.

        Parameters
        ----------
        recompute : int or "auto" or None
            As `loss_and_gradients` takes it.

        Raises
        ------
        ValueError
            Naming both options.
        """
        check_recompute(recompute)
        own = [f"{name} {getattr(self.regularizers, name)}" for name in ("alpha", "beta")]
        if recompute is not None and self.regularizers.penalize:
            raise ValueError(
                f"recompute is {recompute!r}, but the network has the regularizers {', '.join(own)}, which are of all "
                f"steps at once; allowed: None, or alpha 0 and beta 0"
            )

    def _below_readout(self, params: Params, buffers: NamedBuffers, tape: NetworkTape, dread: Array) -> Params:
        """The gradients of layers and embedding."""
        gradients: Params = {}
        if self.readout == "every":
            dx = dread
        else:
            dx = xp_of(dread).zeros(tape.shape, dread.dtype)
            dx[-1] = dread
        dk = dh = None
        if tape.penalty is not None and self.regularizers.penalize:
            dk, dh = self.regularizers.penalty_gradients(_read(tape), tape.features)
        dx = dx if dk is None else dx + dk
        for i in reversed(range(len(self.layers))):
            scale = tape.scales[i]
            dx = dx if scale is None else scale * dx  # [bp:lm-dropout/scale_gradient]
            if i == len(self.layers) - 1 and dh is not None:
                dx = dx + dh
            own, dx = self._run_layer_back(i, params, buffers, tape.layers[i], tape.weights[i], dx)
            gradients |= own
        if self.embedding is not None:
            de = dx if tape.inputs is None else tape.inputs * dx  # [bp:lm-dropout/scale_gradient]
            gradients["embedding.E"] = self.embedding.backward(tape.tokens, de, tape.words)["E"]
        return gradients

    def loss_and_gradients(
        self,
        params: Params,
        buffers: NamedBuffers,
        x: Array,
        y: Array,
        mask: Array | None = None,
        h0: list[State] | None = None,
        rng: np.random.Generator | None = None,
        recompute: int | str | None = None,
    ) -> tuple[Array, Params, Forward]:
        """The loss of a batch, and the gradients of it and of the regularizers' penalty.

        Of a large vocabulary the outputs, the loss and its gradient are computed in chunks of rows.

        Parameters
        ----------
        params, buffers, x, h0, rng
            As of `forward`.
        y : Array
            What the loss takes.
        mask : Array (T, B) of bool, optional
            Which steps count; all unless given.
        recompute : int or "auto", optional
            Keep the states of every so many steps alone and compute the others again, see `recompute`; None: keep all.

        Returns
        -------
        loss : Array
            0-d; without the penalty, which is `result.tape.penalty`.
        gradients : dict of Array
            Of the sum of both, under the parameters' names.
        result : Forward
            The forward pass; with `recompute` its last states alone.

        Raises
        ------
        NotFiniteError
            For a loss that is not finite.
        ValueError
            For a network that is not computed again.
        """
        if recompute is not None:
            again = in_segments(self, params, buffers, x, y, mask, h0, rng, recompute)
            return again.loss, again.gradients, Forward(None, again.last, None)
        step = self.outputs_at_a_time(x)
        if step is None:
            result = self.forward(params, buffers, x, h0, rng)
            loss, doutputs = LOSSES[self.loss](result.outputs, y, mask)
        else:
            result = Forward(None, *self._features(params, buffers, x, h0, rng))
            own = self.readout_weights(params)
            loss, dread, dW, db = cross_entropy_of_readout(result.tape.read, own["W"], own["b"], y, mask, step)
        finite = xp_of(loss).isfinite(loss)
        check(finite, NotFiniteError("loss is not finite"), lambda: f"loss is {float(loss)}")
        tape = result.tape
        own_penalty = self.regularizers.penalty(_read(tape), tape.features) if self.regularizers.penalize else 0.0
        tape = tape._replace(penalty=own_penalty)
        result = result._replace(tape=tape)
        if step is None:
            return loss, self.backward(params, buffers, tape, doutputs), result
        return loss, self._backward(params, buffers, tape, dread, {"W": dW, "b": db}), result

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

        Raises
        ------
        ValueError, TypeError
            Where names, shapes or dtypes do not fit, or a parametrization refuses its delta.
        """
        self.check_params(params, buffers)
        check_deltas(params, deltas)
        pending: dict[str, Pending] = {}
        for i, layer in enumerate(self.layers):
            name = f"layer{i}"
            with prefixed(f"{name}."):
                own_deltas = _without_prefix(f"{name}.", deltas)
                pending[name] = layer.begin_retract(*self.own(i, params, buffers), own_deltas)

        def finish(updated: dict[str, tuple[Params, NamedBuffers]]) -> tuple[Params, NamedBuffers]:
            new_params = {
                name: params[name] - deltas[name] for name in params if name.startswith(("readout.", "embedding."))
            }
            new_buffers: NamedBuffers = ArraysByName()
            for name, (own, own_buffers) in updated.items():
                new_params |= _with_prefix(f"{name}.", own)
                new_buffers |= _with_prefix(f"{name}.", own_buffers)
            return ArraysByName({name: new_params[name] for name in params}), new_buffers

        moved: tuple[Params, NamedBuffers] = together(pending, finish, "{}.").complete()
        return moved

    def rebuild(self, params: Params, buffers: NamedBuffers) -> NamedBuffers:
        """Buffers with every U afresh from the parameters, for parameters that were set by hand."""
        self.check_params(params, buffers)
        rebuilt: NamedBuffers = ArraysByName()
        for i, layer in enumerate(self.layers):
            rebuilt |= _with_prefix(f"layer{i}.", layer.rebuild(*self.own(i, params, buffers)))
        return rebuilt

    @property
    def free_parameters(self) -> int | None:
        """What `count` counts, from the sizes alone; None where a parametrization refuses its n."""
        total = self.output_size * (1 if self.tied else self.dense.input_size + 1)
        if self.embedding is not None:
            total += self.embedding.vocabulary * self.embedding.size
        for layer in self.layers:
            if layer.free_parameters is None:
                return None
            total += layer.free_parameters
        return total

    def count(self, params: Params) -> int:
        """Free real parameters of embedding, layers and readout; of a tied W once."""
        own = sum(layer.count(_without_prefix(f"layer{i}.", params)) for i, layer in enumerate(self.layers))
        return own + sum(value.size for name, value in params.items() if name.startswith(("readout.", "embedding.")))

    def health(self, buffers: NamedBuffers) -> dict[str, dict[str, float]]:
        """Path of a weight, layer0.U_c, -> the figures its parametrization watches."""
        check_dicts(buffers=buffers)
        self._check_buffers(buffers)
        figures: dict[str, dict[str, float]] = {}
        for i, layer in enumerate(self.layers):
            figures |= _with_prefix(f"layer{i}.", layer.health(_without_prefix(f"layer{i}.", buffers)))
        return figures

    def layer_weights(self, i: int, params: Params, buffers: NamedBuffers, dropped: Weights | None = None) -> Weights:
        """The dense weights that layer i's cell sees; dropped is the dropout of recurrent ones, by name."""
        layer_params, layer_buffers = self.own(i, params, buffers)
        return self.layers[i].weights(_scaled(layer_params, dropped or {}), layer_buffers)

    def own(self, i: int, params: Params, buffers: NamedBuffers) -> tuple[Params, NamedBuffers]:
        """Layer i's parameters and buffers, by its own names."""
        return _without_prefix(f"layer{i}.", params), _without_prefix(f"layer{i}.", buffers)


def _read(tape: NetworkTape) -> Array:
    """What the readout reads, at every step."""
    return tape.features if tape.scales[-1] is None else tape.scales[-1] * tape.features


def _scaled(values: Params, scales: Weights) -> Params:
    """The values, each times its scale, if it has one."""
    return values | {name: scale * values[name] for name, scale in scales.items()}


def _with_prefix(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in values.items()}


def _without_prefix(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}
