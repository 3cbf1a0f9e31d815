"""What `python -m ortho_ref.conformance new` writes: adapters that run as they are, to put a cell of one's own in.

A file is a frame, by the framework, around a step, by the cell.  The step's lines are the same in every frame: each has
sigmoid, tanh, relu and sign by these names.
"""

import re
import shlex
from collections.abc import Callable
from typing import Any

from ortho_ref import models
from ortho_ref.adapters.starting_linear import imports_of_jax, starting_linear
from ortho_ref.boundary import not_among
from ortho_ref.cells.by_name import CELLS
from ortho_ref.conformance.linear.table import RECURRENCES
from ortho_ref.converters.config import cell_of, config_of

_PHI = {
    "tanh": "{new} = tanh({a} + {b})",
    "relu": "{new} = relu({a} + {b})",
    "modrelu": "a = {a}\n{new} = sign(a) * relu(abs(a) + {b})",
}


def _phi(new: str, a: str, b: str, config: dict[str, Any]) -> str:
    return _PHI[config["activation"]].format(new=new, a=a, b=b)


def _gates(names: str) -> str:
    return "\n".join(f'{g} = sigmoid(x @ w["W_{g}"].T + h @ w["U_{g}"].T + w["b_{g}"])' for g in names)


def _elman(config: dict[str, Any]) -> str:
    return _phi("h", 'x @ w["W"].T + h @ w["U"].T', 'w["b"]', config)


def _fastrnn(config: dict[str, Any]) -> str:
    new = _phi("c", 'x @ w["W"].T + h @ w["U"].T', 'w["b"]', config)
    gates = 'alpha = sigmoid(w["alpha"])\nbeta = sigmoid(w["beta"])'
    if config["constraint"] is not None:  # by relu: some libraries' minimum takes no numbers
        gates += "\nalpha = 0.5 - relu(0.5 - alpha)\nbeta = 1 - 2 * alpha - relu(1 - 2 * alpha - beta)"
    return f"{new}\n{gates}\nh = alpha * c + beta * h"


def _gru_reset_before(config: dict[str, Any]) -> str:
    new = _phi("c", 'x @ w["W_c"].T + (r * h) @ w["U_c"].T', 'w["b_c"]', config)
    return f"{_gates('ru')}\n{new}\nh = (1 - u) * h + u * c"


def _gru_reset_after(config: dict[str, Any]) -> str:
    inner = '(h @ w["U_h"].T + w["b_hh"])' if config["recurrent_bias"] else '(h @ w["U_h"].T)'
    new = _phi("c", f'x @ w["W_h"].T + r * {inner}', 'w["b_h"]', config)
    return f"{_gates('rz')}\n{new}\nh = z * h + (1 - z) * c"


def _lstm(config: dict[str, Any]) -> str:
    g = 'g = tanh(x @ w["W_g"].T + h @ w["U_g"].T + w["b_g"])'
    return f"{_gates('ifo')}\n{g}\nc = f * c + i * g\nh = o * tanh(c)"


_STEPS: dict[str, Callable[[dict[str, Any]], str]] = {
    "elman": _elman,
    "fastrnn": _fastrnn,
    "gru_reset_before": _gru_reset_before,
    "gru_reset_after": _gru_reset_after,
    "lstm": _lstm,
}

_TORCH = '''"""{title}, in PyTorch.  Put yours in step, and run

{command}
"""

import torch
from torch import {names}

from ortho_ref.adapters import from_torch


def step(x, state, w):
    """The new state, from x (B, m) and the old one (B, n); w by name, W (n, m), U (n, n), b (n,)."""
{step}


class Layer(torch.nn.Module):
    """The steps of a sequence, x (T, B, m) -> h (T, B, n) and the last state; `converters.to_torch` fills it."""

    def __init__(self, m, n):
        super().__init__()
        self.n = n
        shapes = {{
{shapes}
        }}
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape)))

    def forward(self, x, state=None):
        w, every = dict(self.named_parameters()), []
        if state is None:
            state = {start}
        for x_t in x:
            state = step(x_t, state, w)
            every.append({h})
        return torch.stack(every), state


run = from_torch(step, cell="{cell}", step=True)  # gradients by autograd
'''

_JAX = '''"""{title}, as a scan in JAX.  Put yours in forward, and run

{command}
"""

import jax
{imports}
from ortho_ref.adapters import from_jax


@jax.jit
def forward(x, start, w):
    """The states of every step (T, B, n), from x (T, B, m); w by name, W (n, m), U (n, n), b (n,)."""

    def step(state, x):
{step}

    return jax.lax.scan(step, start, x)[1]


run = from_jax(forward, cell="{cell}")  # gradients by jax.grad
'''

_KERAS = '''"""{title}, as a Keras cell.  Put yours in Cell, and run

{command}
"""

import keras
from keras.ops import {names}

from ortho_ref.adapters import from_keras

NAMES = "{weights}".split()


class Cell(keras.layers.Layer):
    """One step, as keras.layers.RNN takes it."""

    def __init__(self, units):
        super().__init__()
        self.units, self.state_size = units, {sizes}

    def build(self, shape):
        m, n = shape[-1], self.units
        shapes = {{
{shapes}
        }}
        self.w = {{name: self.add_weight(shape=shape, name=name) for name, shape in shapes.items()}}
        self.built = True

    def call(self, x, states):
        w = self.w
{step}


run = from_keras(Cell, cell="{cell}", weights={{name: name for name in NAMES}})  # gradients by the backend
'''

_FLAX = '''"""{title}, as a cell of Flax (linen).  Put yours in Cell, and run

{command}
"""

from flax import linen as nn
{imports}
from ortho_ref.adapters import from_flax

NAMES = "{weights}".split()


class Cell(nn.Module):
    """One step, as nn.RNN takes it: the carry, of an LSTM (c, h), and x -> the new carry and h."""

    features: int

    @nn.compact
    def __call__(self, carry, x):
        m, n = x.shape[-1], self.features
        shapes = {{
{shapes}
        }}
        w = {{name: self.param(name, nn.initializers.zeros, shape) for name, shape in shapes.items()}}
{step}


run = from_flax(Cell, cell="{cell}", weights={{name: name for name in NAMES}})  # gradients by jax.grad
'''

_EQUINOX = '''"""{title}, as a cell of Equinox.  Put yours in Cell, and run

{command}
"""

import equinox
from jax import numpy as jnp
{imports}
from ortho_ref.adapters import from_equinox

NAMES = "{weights}".split()
WEIGHTS = {{f"w.{{name}}": name for name in NAMES}}


class Cell(equinox.Module):
    """One step of one sequence: x (m,) and the state, of an LSTM (h, c) -> the new state."""

    w: dict

    def __init__(self, m, n, *, key):
        shapes = {{
{shapes}
        }}
        self.w = {{name: jnp.zeros(shape) for name, shape in shapes.items()}}

    def __call__(self, x, state):
        w = self.w
{step}


run = from_equinox(Cell, cell="{cell}", weights=WEIGHTS)  # gradients by jax.grad
'''

_FUNCTION = '''"""{title}, in NumPy, forward alone.  Put yours in step, and run

{command}

Its cases are partial: a complete adapter also returns {missing} and d_weights.NAME for every weight.
"""

import numpy as np
{imports}
CONFIG = {{
{config}
}}


def step(x, state, w):
    """The new state, from x (B, m) and the old one (B, n); w by name, W (n, m), U (n, n), b (n,)."""
{step}


def run(case):
    """The states (T+1, B, n); None for another cell, and for tokens."""
    if case.kind != "cell" or case.config != CONFIG or case.inputs["x"].ndim != 3:
        return None
    w = {{name.removeprefix("weights."): a for name, a in case.inputs.items() if name.startswith("weights.")}}
    states = [{start}]
    for x in case.inputs["x"]:
        states.append(step(x, states[-1], w))
    return {outputs}
'''


def cells() -> list[str]:
    """Names that there is a starting point for: cells and models, but for complex ones."""
    return [name for name in dict.fromkeys((*CELLS, *models.names())) if not config_of(name).get("complex")]


def starting_point(framework: str, cell: str, file: str) -> str:
    """The text of an adapter to begin from, in a `file` of that name; ValueError for another cell."""
    if cell in RECURRENCES:
        return starting_linear(framework, cell, file)
    if cell in models.names() and cell not in cells():
        raise ValueError(f"cell is {cell!r}, whose states are complex: there is no file to begin from; write run(case)")
    if cell not in cells():
        linear = RECURRENCES if framework in ("torch", "jax") else ()
        raise ValueError(not_among("cell", cell, [*cells(), *linear], str))
    config = config_of(cell)
    pair, body, shapes = config["cell"] == "lstm", _STEPS[config["cell"]](config), _shapes(config)
    new = "h, c" if pair else "h"
    used = [name for name in ("sigmoid", "tanh", "relu", "sign") if f"{name}(" in body]
    own = {
        "title": f"The kit's {cell}",
        "cell": cell,
        "command": f"python -m ortho_ref.conformance run --adapter {shlex.quote(file)} --only 'cell/{config['cell']}*'",
        "names": ", ".join(sorted(used)),
        "imports": "".join(f"{line}\n" for line in imports_of_jax(used)),
        "shapes": _written(shapes),
        "weights": " ".join(shapes),
    }
    if framework == "torch":
        zeros = "x.new_zeros(x.shape[1], self.n)"
        own |= {
            "step": _indented([f"{new} = state", body, f"return {new}"], 4),
            "start": f"({zeros}, {zeros})" if pair else zeros,
            "h": "state[0]" if pair else "state",
        }
        if cell in models.names() and models.build(cell, 4, 4).trained_h0:
            own |= {"shapes": _written(shapes | {"h0": "(n,)"}), "start": 'w["h0"].expand(x.shape[1], -1)'}
        return _TORCH.format(**own)
    if framework == "jax":
        returned = f"return ({new}), ({new})" if pair else "return h, h"
        return _JAX.format(**own, step=_indented([f"{new} = state", body, returned], 8))
    if framework == "flax":
        carry, out = ("c, h", "(c, h)") if pair else ("h", "h")
        return _FLAX.format(**own, step=_indented([f"{carry} = carry", body, f"return {out}, h"], 8))
    if framework == "equinox":
        return _EQUINOX.format(**own, step=_indented([f"{new} = state", body, f"return {new}"], 8))
    if framework == "keras":
        turned = re.sub(r'(w\["\w+"\])\.T', r"transpose(\1)", body)  # not every backend's arrays have .T
        own |= {
            "command": f"{own['command']} --dtype float32",
            "names": ", ".join(sorted([*used, "transpose"])),
            "sizes": "[units, units]" if pair else "units",
            "step": _indented([f"{new} = states" if pair else "(h,) = states", turned, f"return h, [{new}]"], 8),
        }
        return _KERAS.format(**own)
    made = {
        "sigmoid": "def sigmoid(a):\n    return 1 / (1 + np.exp(-a))\n",
        "relu": "def relu(a):\n    return np.maximum(a, 0)\n",
        "tanh": "tanh = np.tanh\n",
        "sign": "sign = np.sign\n",
    }
    lines = "".join(made[name] for name in ("tanh", "sign") if name in used)
    functions = "".join(f"\n\n{made[name]}" for name in ("sigmoid", "relu") if name in used)
    every = 'dict(zip("hc", map(np.stack, zip(*states, strict=True)), strict=True))'
    own |= {
        "command": f"{own['command']} --allow-partial",
        "missing": "d_x, d_h0, d_c0" if pair else "d_x, d_h0",
        "imports": ("\n" + lines if lines else "") + functions + ("\n" if functions else ""),
        "step": _indented([f"{new} = state", body, f"return {new}"], 4),
        "config": _indented([f'"{key}": {_quoted(value)},' for key, value in config.items()], 4),
        "start": '(case.inputs["h0"], case.inputs["c0"])' if pair else 'case.inputs["h0"]',
        "outputs": every if pair else '{"h": np.stack(states)}',
    }
    return _FUNCTION.format(**own)


def _indented(parts: list[str], by: int) -> str:
    return "\n".join(" " * by + line for part in parts for line in part.splitlines())


def _written(shapes: dict[str, str]) -> str:
    return _indented([f'"{name}": {shape},' for name, shape in shapes.items()], 12)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _shapes(config: dict[str, Any]) -> dict[str, str]:
    """Name -> how its shape is written, in m and n."""
    words = {2: "m", 3: "n"}
    return {
        name: f"({', '.join(words[s] for s in shape)}{',' if len(shape) == 1 else ''})"
        for name, shape in cell_of(config).shapes(2, 3).items()
    }
