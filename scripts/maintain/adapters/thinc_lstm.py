"""thinc's LSTM, forward and backward; float32 whatever the inputs.  Tokens are given as one-hot vectors.

Its initial state is a parameter of the layer, one for the whole batch: each sequence is run alone.  The layer names
the two halves of that parameter H0 and C0, in this order; THINC_STATE=ch puts c0 first.  It returns neither c nor
gradients of the initial state, and takes none by c_T: its backward is run only where that is 0.
THINC_OPS=Ops takes the implementation in NumPy in place of the compiled one.
"""

import os
from typing import Any

import numpy as np
from thinc.api import LSTM, NumpyOps, Ops
from thinc.types import Padded

from ortho_ref import converters
from ortho_ref.trees import under

LAYOUT = converters.by_name("pytorch")
ORDER = ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0")
GATES = [1, 0, 3, 2]  # thinc's f i o g among PyTorch's i f g o, and the other way round
OPS = {"Ops": Ops, "NumpyOps": NumpyOps}[os.environ.get("THINC_OPS", "NumpyOps")]
STATE = {"hc": ("h0", "c0"), "ch": ("c0", "h0")}[os.environ.get("THINC_STATE", "hc")]


def run(case: Any) -> dict[str, np.ndarray] | None:
    """h; d_x and the gradients of the weights where dc_T is 0."""
    if case.kind != "cell" or case.config["cell"] != "lstm":
        return None
    given, dtype = case.inputs, case.inputs["h0"].dtype
    weights = LAYOUT.to_framework(case.config, under("weights.", given))
    shapes = [weights[k].shape for k in ORDER]
    flat = np.concatenate([_permuted(weights[k]).ravel() for k in ORDER]).astype("f")
    tokens, (T, B) = given["x"].dtype.kind == "i", given["x"].shape[:2]
    x = np.eye(shapes[0][1])[given["x"]] if tokens else given["x"]
    upstream = np.concatenate([given["dh"][:-1], given["dh"][-1:] + given["dh_T"]])

    h, d_x, total = [], [], np.zeros_like(flat)
    for b in range(B):
        model: Any = LSTM(given["h0"].shape[1], x.shape[2])
        model.ops = OPS()
        model.set_param("LSTM", flat)
        model.set_param("HC0", np.stack([given[k][b] for k in STATE])[:, None, None].astype("f"))
        steps = [np.ones(T, "i"), np.array([T], "i"), np.arange(1)]
        y, backward = model(Padded(x[:, b : b + 1].astype("f"), *steps), is_train=True)
        h.append(np.concatenate([given["h0"][b : b + 1], y.data[:, 0]]))
        d_x.append(backward(Padded(upstream[:, b : b + 1].astype("f"), *steps)).data[:, 0])
        total += model.get_grad("LSTM")
    outputs = {"h": np.stack(h, axis=1).astype(dtype)}
    if not given["dc_T"].any():
        parts = np.split(total, np.cumsum([np.prod(s) for s in shapes])[:-1])
        named = {k: _permuted(p.reshape(s)) for k, p, s in zip(ORDER, parts, shapes, strict=True)}
        gradients = LAYOUT.gradients_from(case.config, named)
        outputs |= {f"d_weights.{k}": g.astype(dtype) for k, g in gradients.items()}
        outputs |= {"d_x": np.stack(d_x, axis=1).astype(dtype)} if not tokens else {}
    return outputs


def _permuted(a: np.ndarray) -> np.ndarray:
    return a.reshape(4, -1, *a.shape[1:])[GATES].reshape(a.shape)
