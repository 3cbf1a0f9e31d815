"""A story and a question -> two encoders -> a third recurrent layer on what they give -> readout (goru:task-babi).

Texts e (story, T words) and f (question, Q words) are of one embedding, and of different lengths in a batch: b's story
has T_b words, its question Q_b.  What is behind a text's end runs through the layers and is read by nothing.

    s_t = story encoder on e_1 .. e_t,  s = s_{T_b}              [bp:reader/last]
    q_t = question encoder on f_1 .. f_t,  q = q_{Q_b}           [bp:reader/last]

The two as a single input of the third layer, whose output k is read
    once    v_1 = [s, q],  k = k_1                               [bp:reader/join]
    steps   v_t = [s_t, q],  k = k_{T_b}                         [bp:reader/join]

Backward.  Of k_t, s_t and q_t a text's own last one alone has a gradient, but s_t of "steps":
    dk_t = dk at t = T_b, else 0;  ds_t, dq_t in the same way    [bp:reader/last_gradient]
    once    ds = first part of dv_1,  dq = the rest              [bp:reader/join_gradient]
    steps   ds_t = first part of dv_t,  dq = sum_t of the rest   [bp:reader/join_gradient]
    dE = (that of the story's words) + (of the question's)       [bp:reader/words]

Complex states are read on as [Re h, Im h] (urnn:9).  Dropout is that of `network`, of v and of k as it is read
    y = s * x,  dx = s * dy         [bp:lm-dropout/scale] [bp:lm-dropout/scale_gradient]

The GORU paper (4.4): "we concatenate the outputs of the two RNNs into a single input for a third RNN that then outputs
the correct word".  Taken at its word this is "once".  A third layer that begins at zero then never uses its recurrent
weights in a product with anything but zero: their gradient is 0.  In "steps" it goes over the story, the question
beside each word.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortho_ref.backend import Array, is_array, library_of, xp_of
from ortho_ref.boundary import check_choice, check_input, is_tokens, kind_of, read
from ortho_ref.cells import State
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.language.dropout import Dropout
from ortho_ref.layers import dropped, real_features
from ortho_ref.network import Network, NetworkTape
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import NamedBuffers
from ortho_ref.training.task import JOINS, Padded

STORY, QUESTION, THIRD = range(3)
#: Regularizers that are of windows read at every step.
_NOT_HERE = ("inputs", "hidden", "outputs", "alpha", "beta")


@dataclass(frozen=True, repr=False)
class Reader(Network):
    """Story encoder, question encoder, a third recurrent layer on both, and a dense readout of its last output.

    The methods are `Network`'s; x is a pair of `task.Padded`, the story and the question, and outputs are (B, q).
    Parameters are named alike: layer0 is the story's encoder, layer1 the question's, layer2 the third.  Last states and
    h0 are theirs, in this order, each at its text's own end.

    Parameters
    ----------
    layers : tuple of Recurrent
        Three; the third takes as many inputs as the two others give together.
    readout : str
        "last".
    embedding : Embedding
        Of the words of both texts.
    regularizers : Regularizers
        Dropout of words and of recurrent weights alone.
    join : str
        "once" or "steps".

    Raises
    ------
    ValueError
        For layers that do not fit each other, and values that are not allowed.

    See Also
    --------
    ortho_ref.network.Network : the other parameters.
    """

    join: str = "once"

    def __post_init__(self) -> None:
        check_choice("join", self.join, JOINS)
        super().__post_init__()
        if self.readout != "last":
            raise ValueError(f"readout of a reader is {self.readout!r}; allowed: 'last'")
        if self.embedding is None:
            raise ValueError("a reader needs an embedding; there is none")
        if own := [name for name in _NOT_HERE if getattr(self.regularizers, name)]:
            raise ValueError(f"regularizers has {', '.join(own)}; allowed for a reader: words, weights, weights_of")

    def _check_layers(self) -> None:
        """ValueError unless there are three that fit each other."""
        if len(self.layers) != 3:
            raise ValueError(f"a reader has {len(self.layers)} layers; allowed: 3, of story, question and both")
        story, question, third = ((layer.sizes or (0, 0))[0] for layer in self.layers)
        if question != story:
            raise ValueError(
                f"layers[1] takes {question} inputs, layers[0] {story}; allowed: the same, of one embedding"
            )
        both = sum(layer.output_size or 0 for layer in self.layers[:THIRD])
        if third != both:
            raise ValueError(f"layers[2] takes {third} inputs; the two before give {both} together")

    @property
    def _roles(self) -> tuple[str, ...]:
        return "story ", "question ", f"both ({self.join}) "

    def features(
        self, params: Params, buffers: NamedBuffers, x: Any, h0: list[State] | None, rng: np.random.Generator | None
    ) -> tuple[list[State], NetworkTape]:
        """As `Network.features`; x is the story and the question."""
        assert self.embedding is not None
        E, texts = params["embedding.E"], x
        dropout = Dropout(self.dropout, self.regularizers, self.layers, rng)
        words = dropout.words(E)
        rows = xp_of(E).arange(texts[STORY].tokens.shape[1])
        last, tapes, weights, features = [], [], [], []

        def run(i: int, x: Array) -> tuple[Array, ...]:
            weights.append(dropout.weights(i, self._own(i, params, buffers)[0]))
            own, _, taken = self._layer(i, params, buffers, weights[i])
            h, tape = self.layers[i].run(own, taken, x, None if h0 is None else h0[i])
            tapes.append(tape)
            return parts_of(self.layers[i].cell, h)

        for i, own in enumerate(texts):
            parts = run(i, self.embedding.forward({"E": E}, own.tokens, words))
            last.append(state_of(tuple(part[own.lengths, rows] for part in parts)))
            features.append(real_features(parts[0][1:]))
        v = self._joined(features, texts, rows)
        scales = [dropout.outputs(QUESTION, v)]
        v = dropped(scales[0], v)  # [bp:lm-dropout/scale]
        parts = run(THIRD, v)
        length = texts[STORY].lengths if self.join == "steps" else 1
        k = real_features(parts[0][1:])
        read = k[length - 1, rows]  # [bp:reader/last]
        last.append(state_of(tuple(part[length, rows] for part in parts)))
        scales.append(dropout.outputs(THIRD, read))
        read = dropped(scales[1], read)  # [bp:lm-dropout/scale]
        return last, NetworkTape(tapes, scales, read, k, texts, words, None, weights)

    def _joined(self, features: list[Array], texts: tuple[Padded, Padded], rows: Array) -> Array:
        """What the third layer reads."""
        xp = xp_of(rows)
        s, q = features
        q = q[texts[QUESTION].lengths - 1, rows]  # [bp:reader/last]
        if self.join == "once":
            s = s[texts[STORY].lengths - 1, rows][None]  # [bp:reader/last]
        return xp.concatenate([s, xp.broadcast_to(q, (len(s), *q.shape))], axis=-1)  # [bp:reader/join]

    def below_readout(self, params: Params, buffers: NamedBuffers, tape: NetworkTape, dread: Array) -> Params:
        """As `Network.below_readout`."""
        assert tape.tokens is not None
        texts: tuple[Padded, Padded] = tape.tokens
        rows = xp_of(dread).arange(len(dread))
        ends = [own.lengths - 1 for own in texts]
        dk = dropped(tape.scales[1], dread)  # [bp:lm-dropout/scale_gradient]
        dk = _only_at(ends[STORY] if self.join == "steps" else 0, rows, dk, len(tape.features))
        gradients, dv = self.layer_gradients(THIRD, params, buffers, tape, dk)
        dv = dropped(tape.scales[0], dv)  # [bp:lm-dropout/scale_gradient]
        assert dv is not None
        n = self.layers[STORY].output_size
        ds, dq = dv[..., :n], dv[..., n:].sum(axis=0)  # [bp:reader/join_gradient]
        if self.join == "once":
            ds = _only_at(ends[STORY], rows, ds[0], len(texts[STORY].tokens))
        else:
            ds = xp_of(ds).ascontiguousarray(ds)
        dq = _only_at(ends[QUESTION], rows, dq, len(texts[QUESTION].tokens))
        assert self.embedding is not None
        dE: Array | int = 0
        for i, own, dfeatures in zip((STORY, QUESTION), texts, (ds, dq), strict=True):
            of_layer, de = self.layer_gradients(i, params, buffers, tape, dfeatures)
            gradients |= of_layer
            dE = dE + self.embedding.backward(own.tokens, de, tape.words)["E"]  # [bp:reader/words]
        return gradients | {"embedding.E": dE}

    def check_input(self, x: Any, like: Array) -> None:
        """An error, naming what is wrong, unless x is a story and a question."""
        if not isinstance(x, tuple) or len(x) != 2 or not all(isinstance(own, Padded) for own in x):
            raise TypeError(f"x is {kind_of(x)}; expected a pair of Padded, the story and the question")
        for name, own in zip(("story", "question"), x, strict=True):
            tokens, lengths = own
            check_input(tokens, self.input_size, like)
            if not is_tokens(tokens):
                raise TypeError(f"tokens of the {name} are {tokens.dtype}; expected integers (T, B)")
            if not is_array(lengths) or lengths.dtype.kind not in "iu" or lengths.shape != tokens.shape[1:]:
                kind = f"{lengths.dtype} {lengths.shape}" if is_array(lengths) else kind_of(lengths)
                raise ValueError(f"lengths of the {name} are {kind}; expected integers {tokens.shape[1:]}")
            library_of(tokens, lengths)
            low, high = read(lengths.min(), lengths.max())
            if low < 1 or high > len(tokens):
                given = int(low if low < 1 else high)
                raise ValueError(f"lengths of the {name} hold {given}; allowed: 1 to {len(tokens)}")
        story, question = (own.tokens.shape[1] for own in x)
        if story != question:
            raise ValueError(f"the story's batch is {story}, the question's {question}")

    def _outputs_shape(self, x: Any) -> tuple[int, ...]:
        return x[STORY].tokens.shape[1], self.output_size


def _only_at(step: Array | int, rows: Array, values: Array, steps: int) -> Array:
    """Zeros (steps, B, n) with each row's values (B, n) at its own step."""
    spread = xp_of(values).zeros((steps, *values.shape), values.dtype)
    spread[step, rows] = values  # [bp:reader/last_gradient]
    return spread
