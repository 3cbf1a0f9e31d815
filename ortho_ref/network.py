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
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array, NotFiniteError, xp_of
from ortho_ref.boundary import (
    as_array,
    check_array,
    check_choice,
    check_deltas,
    check_dicts,
    check_has,
    check_input,
    check_integer,
    check_number,
    check_state,
    check_switch,
    generator,
    is_tokens,
    kind_of,
    named,
    nearest,
    precision,
    precision_of_most,
)
from ortho_ref.cells import State, Weights
from ortho_ref.cells.cell import draw, parts_of, state_of
from ortho_ref.fused.compiled import pool
from ortho_ref.language.dropout import Dropout
from ortho_ref.language.embedding import Embedding
from ortho_ref.language.regularizers import Regularizers
from ortho_ref.layers import affine, affine_pullback, dropped, real_features, real_features_pullback
from ortho_ref.losses import COMPUTED, LOSSES, check_targets, cross_entropy_of_readout, parts, rows_at_a_time
from ortho_ref.parametrizations import Params
from ortho_ref.printing import ArraysByName, brief
from ortho_ref.recurrent import NamedBuffers, Recurrent, RecurrentTape
from ortho_ref.trees import prefixed, under


class Forward(NamedTuple):
    """What `Network.forward` gives.

    Attributes
    ----------
    outputs : Array (T, B, q), or (B, q) for readout "last"
        Of the readout; None from `loss_and_gradients` for a vocabulary so large that it never has all of them.
    last : list
        Each layer's state after step T.
    tape : NetworkTape
        For `backward`.
    """

    outputs: Array
    last: list[State]
    tape: Any

    def __repr__(self) -> str:
        return brief(self)


class NetworkTape(NamedTuple):
    """What backward needs."""

    layers: list[RecurrentTape]
    scales: list[Array | None]  # the layers' dropout, None without
    read: Array  # what the readout read
    features: Array  # (T, B, n): the last layer's, before dropout
    tokens: Array | None  # what the embedding read; of a `reader.Reader` two `task.Padded`
    words: Array | None  # the dropout of the embedding's words
    inputs: Array | None  # the dropout of what the first layer reads: what the embedding gave, or x
    weights: list[Weights]  # of each layer, the dropout of recurrent weights by name
    # (): what the regularizers add to the loss, of `loss_and_gradients`; of a forward pass alone None
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
        check_switch("tied", self.tied)
        for i, layer in enumerate(self.layers):
            if layer.sizes is None:
                raise ValueError(f"layers[{i}] has no sizes; build it with sizes=(input_size, hidden_size)")
        self._check_layers()
        check_integer("output_size", self.output_size)
        check_choice("readout", self.readout, ("every", "last"))
        check_choice("loss", self.loss, LOSSES)
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
            check_has(f"layers[{i}]", layer, "run_back", "a Recurrent, as models.gru(10, 56)")
        if self.embedding is not None:
            check_has("embedding", self.embedding, "vocabulary", "an Embedding, as Embedding(10_000, 400), or None")
        check_has("regularizers", self.regularizers, "dropped_weights", "Regularizers, as Regularizers(words=0.1)")

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
    def read_size(self) -> int:
        """Of the vectors that the readout reads."""
        size = self.layers[-1].output_size
        assert size is not None
        return size

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
        shapes = {"W": (self.output_size, self.read_size), "b": (self.output_size,)}
        readout = draw(shapes, readout_rng, own_dtype)
        params: Params = ArraysByName()
        buffers: NamedBuffers = ArraysByName()
        if self.embedding is not None:
            params |= prefixed("embedding.", self.embedding.init(readout_rng.spawn(1)[0], dtype=own_dtype))
        if self.tied:
            del readout["W"]
        for i, (layer, child) in enumerate(zip(self.layers, rngs, strict=True)):
            own, own_buffers = layer.init(child, dtype=own_dtype)
            params |= prefixed(f"layer{i}.", own)
            buffers |= prefixed(f"layer{i}.", own_buffers)
        params |= prefixed("readout.", readout)
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
        self._check(params, buffers, x, h0, rng)
        last, tape = self.features(params, buffers, x, h0, rng)
        return Forward(affine(*self.readout_weights(params), tape.read), last, tape)

    def _check(
        self, params: Params, buffers: NamedBuffers, x: Any, h0: Any, rng: np.random.Generator | None = None
    ) -> None:
        """The door: an error unless all of these fit the network."""
        self.check_params(params, buffers)
        self.check_input(x, params["readout.b"])
        if rng is not None:
            generator(rng)
            self._check_dropped(x)
        if h0 is None:
            return
        check_has("h0", h0, "__len__", "a list with a state for each layer")
        if len(h0) != len(self.layers):
            raise ValueError(f"h0 holds {len(h0)} states; expected one for each of the {len(self.layers)} layers")
        for i, (layer, state) in enumerate(zip(self.layers, h0, strict=True)):
            if state is not None:
                W = self.layer_weights(i, params, buffers)[layer.cell.recurrent_weights[0]]
                check_state("h0", layer.cell, state, self._outputs_shape(x)[-2], W)

    def check_input(self, x: Any, like: Array) -> None:
        """An error unless x is what the network reads, vectors of the dtype of `like`, and beside it."""
        check_input(x, self.input_size, like)
        if self.embedding is not None and not is_tokens(x):
            raise TypeError(f"x is {x.dtype}; expected integer tokens (T, B): the network has an embedding")

    def check_batch(self, x: Any, y: Any, mask: Any, like: Array) -> None:
        """As `check_input`, for training: and an error unless y and mask are what the loss takes."""
        self.check_input(x, like)
        self._check_dropped(x)
        check_targets(self.loss, self._outputs_shape(x), y, mask)

    def _check_dropped(self, x: Any) -> None:
        """TypeError where inputs are to be dropped, and are tokens."""
        if self.regularizers.inputs and self.embedding is None and is_tokens(x):
            raise TypeError("x holds tokens, and dropout of inputs is of vectors; allowed: vectors, or an embedding")

    def _outputs_shape(self, x: Array) -> tuple[int, ...]:
        """(T, B, q), or (B, q) where the readout is of the last step."""
        return (*(x.shape[:2] if self.readout == "every" else x.shape[1:2]), self.output_size)

    def features(
        self, params: Params, buffers: NamedBuffers, x: Array, h0: list[State] | None, rng: np.random.Generator | None
    ) -> tuple[list[State], NetworkTape]:
        """Embedding and layers, of what has been checked: each layer's last state, views, and the tape."""
        dropout = Dropout(self.dropout, self.regularizers, self.layers, rng)
        tokens = words = None
        if self.embedding is not None:
            E = params["embedding.E"]
            tokens, words = x, dropout.words(E)
            x = self.embedding.forward({"E": E}, tokens, words)
        inputs = dropout.inputs(x)
        x = dropped(inputs, x)  # [bp:lm-dropout/scale]
        tapes, last, weights, scales = [], [], [], []
        for i, layer in enumerate(self.layers):
            weights.append(dropout.weights(i, under(f"layer{i}.", params)))
            own, _, taken = self._layer(i, params, buffers, weights[i])
            h, tape = layer.run(own, taken, x, None if h0 is None else h0[i])
            tapes.append(tape)
            h = parts_of(layer.cell, h)
            last.append(state_of(tuple(part[-1] for part in h)))
            x = features = real_features(h[0][1:])
            scales.append(dropout.outputs(i, x))
            x = dropped(scales[i], x)  # [bp:lm-dropout/scale]
        read = x if self.readout == "every" else x[-1]
        return last, NetworkTape(tapes, scales, read, features, tokens, words, inputs, weights)

    def check_params(self, params: Params, buffers: NamedBuffers) -> None:
        """An error unless params and buffers hold what every part needs, by its path, and no more."""
        check_dicts(params=params, buffers=buffers)
        shapes = self.shapes_around()
        lacking = [name for name in shapes if name not in params]
        for i, layer in enumerate(self.layers):
            lacking += [f"layer{i}.{name}" for name in layer.lacking(under(f"layer{i}.", params))]
        if lacking:
            raise ValueError(f"params holds no {', no '.join(lacking)}; expected all that init gives")
        of_layers = tuple(f"layer{i}." for i in range(len(self.layers)))
        for name in params:
            if name not in shapes and not name.startswith(of_layers):
                raise ValueError(f"params holds {name!r}{nearest(name, shapes)}; expected what init gives alone")
        self._check_buffers(buffers)
        for i, layer in enumerate(self.layers):
            with named(f"layer{i}", "."):
                layer.weights(*self._own(i, params, buffers))
        dtype = precision_of_most(params.values())
        for name, shape in shapes.items():
            check_array(name, params[name], shape, dtype)

    def shapes_around(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every parameter that is no layer's."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.embedding is not None:
            shapes["embedding.E"] = (self.embedding.vocabulary, self.embedding.size)
        if not self.tied:
            shapes["readout.W"] = (self.output_size, self.read_size)
        return shapes | {"readout.b": (self.output_size,)}

    def _check_buffers(self, buffers: NamedBuffers) -> None:
        """ValueError unless there are buffers of every parametrized weight, by its path."""
        needed = [f"layer{i}.{name}" for i, layer in enumerate(self.layers) for name in layer.constrained]
        if lacking := [name for name in needed if name not in buffers]:
            raise ValueError(f"buffers holds no {', no '.join(lacking)}; expected all that init gives")

    def readout_weights(self, params: Params) -> tuple[Array, Array]:
        """W (q, n) and b (q,) of the readout."""
        return params["embedding.E" if self.tied else "readout.W"], params["readout.b"]

    def outputs_in_chunks(
        self, params: Params, tape: NetworkTape, y: Array, mask: Array | None
    ) -> Iterator[tuple[Array, Array, Array | None]]:
        """Outputs with their y and mask, all at once; those of a large vocabulary in chunks of rows, as (rows, q)."""
        W, b = self.readout_weights(params)
        shape = tape.read.shape[:-1]
        rows, step = math.prod(shape), self._rows_at_a_time(tape.read)
        if step == rows:
            yield affine(W, b, tape.read), y, mask
            return
        read, targets = tape.read.reshape(rows, -1), y.reshape(rows, *y.shape[len(shape) :])
        counts = None if mask is None else mask.reshape(rows)
        for part in parts(rows, step):
            yield affine(W, b, read[part]), targets[part], None if counts is None else counts[part]

    def _rows_at_a_time(self, read: Array) -> int:
        """How many rows of what is read have their outputs computed at a time."""
        rows = math.prod(read.shape[:-1])
        return rows_at_a_time(rows, self.output_size) if self.loss == "cross_entropy" else rows

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
        self.check_params(params, buffers)
        if not isinstance(tape, NetworkTape):
            raise TypeError(f"tape is {kind_of(tape)}; expected that of what forward returned")
        own = [(layer.cell, layer.sizes and layer.sizes[1], layer.engine) for layer in self.layers]
        made = [(each.cell, each.shape[2], each.name_of_engine) for each in tape.layers]
        embedded, axes = tape.tokens is not None, 3 if self.readout == "every" else 2
        if made != own or embedded != (self.embedding is not None) or tape.read.ndim != axes:
            raise ValueError("tape is another network's; expected that of what this one's forward returned")
        check_array("doutputs", doutputs, (*tape.read.shape[:-1], self.output_size), tape.read.dtype)
        read = affine_pullback(self.readout_weights(params)[0], tape.read, doutputs)
        return self._gradients(params, buffers, tape, *read)

    def _gradients(
        self, params: Params, buffers: NamedBuffers, tape: NetworkTape, dread: Array, dreadout: Weights
    ) -> Params:
        """Of every parameter, from the gradients by what the readout read and by its weights."""
        gradients = prefixed("readout.", dreadout) | self.below_readout(params, buffers, tape, dread)
        if self.tied:
            gradients["embedding.E"] = gradients["embedding.E"] + gradients["readout.W"]  # [bp:lm-embedding/tied]
        return ArraysByName({name: gradients[name] for name in params})

    def below_readout(self, params: Params, buffers: NamedBuffers, tape: NetworkTape, dread: Array) -> Params:
        """The gradients of layers and embedding."""
        gradients: Params = {}
        if self.readout == "every":
            dx = dread
        else:
            dx = xp_of(dread).zeros(tape.features.shape, dread.dtype)
            dx[-1] = dread
        dk = dh = None
        if tape.penalty is not None and self.regularizers.penalize:
            dk, dh = self.regularizers.penalty_gradients(_read(tape), tape.features)
        dx = dx if dk is None else dx + dk
        for i in reversed(range(len(self.layers))):
            dx = dropped(tape.scales[i], dx)  # [bp:lm-dropout/scale_gradient]
            if i == len(self.layers) - 1 and dh is not None:
                dx = dx + dh
            own, dx = self.layer_gradients(i, params, buffers, tape, dx)
            gradients |= own
        if self.embedding is not None:
            de = dropped(tape.inputs, dx)  # [bp:lm-dropout/scale_gradient]
            gradients["embedding.E"] = self.embedding.backward(tape.tokens, de, tape.words)["E"]
        return gradients

    def layer_gradients(
        self, i: int, params: Params, buffers: NamedBuffers, tape: NetworkTape, dfeatures: Array
    ) -> tuple[Params, Array | None]:
        """The gradients of layer i's parameters, by path, and of what it read, from that of its features (T, B, n)."""
        layer = self.layers[i]
        dh = real_features_pullback(dfeatures, layer.cell.complex)
        own = layer.run_back(*self._layer(i, params, buffers, tape.weights[i]), tape.layers[i], dh)
        gradients = _scaled(own.params, tape.weights[i])  # [bp:lm-dropout/weights_gradient]
        return prefixed(f"layer{i}.", gradients), own.x

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

        Returns
        -------
        loss : Array
            0-d; without the penalty, which is `result.tape.penalty`.
        gradients : dict of Array
            Of the sum of both, under the parameters' names.
        result : Forward
            The forward pass.

        Raises
        ------
        NotFiniteError
            For a loss that is not finite.
        ValueError, TypeError
            Naming the argument, for what does not fit.
        """
        self._check(params, buffers, x, h0, rng)
        check_targets(self.loss, self._outputs_shape(x), y, mask)
        loss, gradients, result = self.compute(params, buffers, x, y, mask, h0, rng)
        if not math.isfinite(float(loss)):
            raise NotFiniteError(f"loss is {float(loss)}")
        return loss, gradients, result

    def compute(
        self,
        params: Params,
        buffers: NamedBuffers,
        x: Array,
        y: Array,
        mask: Array | None = None,
        h0: list[State] | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[Array, Params, Forward]:
        """`loss_and_gradients` of what has been checked, finite or not, without a warning where it is not."""
        with np.errstate(over="ignore", invalid="ignore"):
            last, tape = self.features(params, buffers, x, h0, rng)
            W, b = self.readout_weights(params)
            rows, step, outputs = math.prod(tape.read.shape[:-1]), self._rows_at_a_time(tape.read), None
            apart = self.loss == "cross_entropy" and self.layers[-1].engine == "compiled"
            if step < rows or apart:
                if step == rows:
                    outputs = np.empty((*tape.read.shape[:-1], self.output_size), W.dtype)
                own = partial(cross_entropy_of_readout, tape.read, W, b, y, mask, outputs=outputs)
                loss, dread, dW, db = own(min(step, pool.share(rows)), each=pool.each) if apart else own(step)
                dreadout = {"W": dW, "b": db}
            else:
                outputs = affine(W, b, tape.read)
                loss, doutputs = COMPUTED[self.loss](outputs, y, mask)
                dread, dreadout = affine_pullback(W, tape.read, doutputs)
            penalty = self.regularizers.penalty(_read(tape), tape.features) if self.regularizers.penalize else 0.0
            tape = tape._replace(penalty=penalty)
            return loss, self._gradients(params, buffers, tape, dread, dreadout), Forward(outputs, last, tape)

    def retract(self, params: Params, buffers: NamedBuffers, deltas: Params) -> tuple[Params, NamedBuffers]:
        """Subtract the optimizer's deltas, by the parameters' names; every U follows.  As `Recurrent.retract`."""
        self.check_params(params, buffers)
        check_deltas(params, deltas)
        return self.move(params, buffers, {name: as_array(delta) for name, delta in deltas.items()})

    def move(self, params: Params, buffers: NamedBuffers, deltas: Params) -> tuple[Params, NamedBuffers]:
        """`retract` of what has been checked."""
        moved = {name: params[name] - deltas[name] for name in params if name.startswith(("readout.", "embedding."))}
        new_buffers: NamedBuffers = ArraysByName()
        for i, layer in enumerate(self.layers):
            with named(f"layer{i}", "."):
                own, own_buffers = layer.move(*self._own(i, params, buffers), under(f"layer{i}.", deltas))
            moved |= prefixed(f"layer{i}.", own)
            new_buffers |= prefixed(f"layer{i}.", own_buffers)
        return ArraysByName({name: moved[name] for name in params}), new_buffers

    def rebuild(self, params: Params, buffers: NamedBuffers) -> NamedBuffers:
        """Buffers with every U afresh from the parameters, for parameters that were set by hand."""
        self.check_params(params, buffers)
        rebuilt: NamedBuffers = ArraysByName()
        for i, layer in enumerate(self.layers):
            with named(f"layer{i}", "."):
                rebuilt |= prefixed(f"layer{i}.", layer.rebuild(*self._own(i, params, buffers)))
        return rebuilt

    @property
    def free_parameters(self) -> int | None:
        """What `count` counts, from the sizes alone; None where a parametrization refuses its n."""
        total = self.output_size * (1 if self.tied else self.read_size + 1)
        if self.embedding is not None:
            total += self.embedding.vocabulary * self.embedding.size
        for layer in self.layers:
            if layer.free_parameters is None:
                return None
            total += layer.free_parameters
        return total

    def count(self, params: Params) -> int:
        """Free real parameters of embedding, layers and readout; of a tied W once."""
        own = sum(layer.count(under(f"layer{i}.", params)) for i, layer in enumerate(self.layers))
        return own + sum(value.size for name, value in params.items() if name.startswith(("readout.", "embedding.")))

    def health(self, buffers: NamedBuffers) -> dict[str, dict[str, float]]:
        """Path of a weight, layer0.U_c, -> the figures its parametrization watches."""
        check_dicts(buffers=buffers)
        self._check_buffers(buffers)
        figures: dict[str, dict[str, float]] = {}
        for i, layer in enumerate(self.layers):
            with named(f"layer{i}", "."):
                figures |= prefixed(f"layer{i}.", layer.health(under(f"layer{i}.", buffers)))
        return figures

    def layer_weights(self, i: int, params: Params, buffers: NamedBuffers) -> Weights:
        """The dense weights that layer i's cell sees."""
        return self.layers[i].dense(*self._own(i, params, buffers))

    def taken(self, i: int, params: Params, buffers: NamedBuffers) -> Weights:
        """What layer i's engine takes."""
        return self._layer(i, params, buffers, {})[2]

    def _layer(
        self, i: int, params: Params, buffers: NamedBuffers, scales: Weights
    ) -> tuple[Params, NamedBuffers, Weights]:
        """Layer i's parameters and buffers by its own names, and what its engine takes, after dropout of weights."""
        own, own_buffers = self._own(i, params, buffers)
        own = _scaled(own, scales)  # [bp:lm-dropout/weights]
        return own, own_buffers, self.layers[i].run_on(own, own_buffers)

    def _own(self, i: int, params: Params, buffers: NamedBuffers) -> tuple[Params, NamedBuffers]:
        """Layer i's parameters and buffers, by its own names."""
        return under(f"layer{i}.", params), under(f"layer{i}.", buffers)


def _read(tape: NetworkTape) -> Array:
    """What the readout reads, at every step."""
    return dropped(tape.scales[-1], tape.features)


def _scaled(values: Params, scales: Weights) -> Params:
    """The values, each times its scale, if it has one."""
    return values | {name: scale * values[name] for name, scale in scales.items()} if scales else values
