"""Weights of recurrent layers in the layouts of other libraries, and in ours; gradients too.

    from ortho_ref import converters

    pytorch, config = converters.by_name("pytorch"), "lstm"  # or "gru-cudnn", or {"cell": "lstm"}
    state = pytorch.to_framework(config, weights)            # as load_state_dict takes them
    weights = pytorch.from_framework(config, state)
    gradients = pytorch.gradients_from(config, theirs)       # by weight_ih_l0 ... -> by W_i ...

            PyTorch       ONNX                            Keras                    Flax
elman       RNN           RNN                             SimpleRNN                SimpleCell
lstm        LSTM i f g o  LSTM i o f c                    LSTM i f c o             LSTMCell, OptimizedLSTMCell by name
gru_reset_  GRU r z n     GRU z r h,                      GRU z r h,               GRUCell by name
  after                     linear_before_reset = 1         reset_after=True
gru_reset_                GRU z r h,                      GRU z r h,
  before                    linear_before_reset = 0         reset_after=False

            Equinox       Flax nnx                        MLX                      haste
elman       -             SimpleCell                      RNN                      -
lstm        LSTMCell      OptimizedLSTMCell "nnx",        LSTM i f g o             LSTM i g f o
              i f g o       LSTMCell "nnx-by-gate"
gru_reset_  GRUCell r z n GRUCell r z n, without b_hh     GRU r z n                GRU z r g
  after

One layer in one direction; no projection, no peepholes.  With {"cell": "lstm", "bias": False} there are no biases: ours
are 0.  bfloat16 is read as float32.  Their arrays: `stacked` and `flax`.

Of PyTorch also several layers, two directions, Cells, modules within modules, and whole networks (`torch_state`,
`torch_network`):

    layers = converters.layers_from_torch("lstm", model.state_dict(), prefix="encoder.rnn")     # "layer0_reverse" ...
    state = converters.to_torch(network, params, buffers)             # weight_ih_l0 ..., or layer0.W_r ...
    params, buffers = converters.from_torch(network, module.state_dict(), params, buffers)

A network as a file of ONNX, for inference (`onnx_network`):

    converters.to_onnx(network, params, buffers, "mine.onnx")

A dense orthogonal U becomes the parameters of a map, ours or another library's, with a certificate (`parameters`,
`other_maps`):

    found = converters.params_of("scaled_cayley", U)                  # .params, .buffers, .defect, .distance
    U = converters.matrix_of("torch-cayley", {"original": X, "base": B})

Where input and recurrent bias are summed they are one bias of ours: `to_framework` puts it first and 0 second,
`from_framework` adds the two, and its gradient is either's (`gradients_from` takes the first).  Of gru_reset_after's
candidate the two are b_h and b_hh; without `recurrent_bias` b_hh is 0, and a gradient of it is dropped.  z of ONNX and
Keras weighs the old state, u of gru_reset_before the new: z = 1 - u, that is sigmoid(-a), so W_u, U_u, b_u and their
gradients change sign.

`config` is a conformance case's: {"cell": "lstm"}, {"cell": "elman", "activation": "relu", "complex": False}, where an
option left out has its cell's default; or the name of a cell, or of a model, whose cell it is.

Everything is pure, keeps the dtype, and returns fresh arrays.
"""

from ortho_ref.boundary import check_choice
from ortho_ref.converters.config import config_of as config_of
from ortho_ref.converters.flax import Flax, NNXByGate
from ortho_ref.converters.framework import Framework as Framework, UnsupportedError as UnsupportedError
from ortho_ref.converters.onnx_network import to_onnx as to_onnx
from ortho_ref.converters.other_maps import OTHER_MAPS as OTHER_MAPS
from ortho_ref.converters.parameters import Certified as Certified, matrix_of as matrix_of, params_of as params_of
from ortho_ref.converters.stacked import MLX, NNX, ONNX, Equinox, Haste, Keras, PyTorch
from ortho_ref.converters.torch_network import from_torch as from_torch, to_torch as to_torch
from ortho_ref.converters.torch_state import layers_from_torch as layers_from_torch, layers_to_torch as layers_to_torch

#: Name -> converter.
FRAMEWORKS: dict[str, Framework] = {
    "pytorch": PyTorch(),
    "onnx": ONNX(),
    "keras": Keras(),
    "flax": Flax(),
    "nnx": NNX(),
    "nnx-by-gate": NNXByGate(),
    "equinox": Equinox(),
    "mlx": MLX(),
    "haste": Haste(),
}


def by_name(name: str) -> Framework:
    """The converter of a framework.

    Parameters
    ----------
    name : str
        One of `FRAMEWORKS`.

    Returns
    -------
    Framework
        With `to_framework`, `from_framework` and `gradients_from`.

    Raises
    ------
    ValueError
        Another name; the message lists those there are.
    """
    check_choice("framework", name, FRAMEWORKS)
    return FRAMEWORKS[name]
