"""The cases of kind `cell`: every cell, with every activation, in every shape.

The shapes are those at which optimised code takes another branch: no tile divides them, several blocks and a rest, one
row and many; a graph that is cut; pre-activations that saturate; inputs and states that are very small or very large.
What was stored with arrays, before the kit drew its cases, is listed here where it has a shape, and stays as it is.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import Config
from ortho_ref.conformance.compare import MINIMUM
from scripts.maintain.vectors.spec import Ranges, Spec, beside, ranged

AFTER = {"reset_gate": True, "update_gate": True, "recurrent_bias": False}
# cell/variant -> config, what it is there for
VARIANTS: dict[str, tuple[Config, str]] = {
    "elman/tanh": ({"activation": "tanh", "complex": False}, "tanh"),
    "elman/relu": ({"activation": "relu", "complex": False}, "ReLU"),
    "elman/modrelu": ({"activation": "modrelu", "complex": False}, "modReLU"),
    "elman/complex": ({"activation": "modrelu", "complex": True}, "complex states"),
    "fastrnn/tanh": ({"activation": "tanh", "constraint": None}, "tanh"),
    "fastrnn/relu": ({"activation": "relu", "constraint": None}, "ReLU"),
    "fastrnn/modrelu": ({"activation": "modrelu", "constraint": None}, "modReLU"),
    "fastrnn/sgornn": ({"activation": "relu", "constraint": "sgornn"}, "SGORNN's gates where no bound is active"),
    "fastrnn/sgornn-beta-clipped": ({"activation": "relu", "constraint": "sgornn"}, "beta at its bound"),
    "fastrnn/sgornn-alpha-clipped": ({"activation": "relu", "constraint": "sgornn"}, "alpha at its bound, beta 0"),
    "fastrnn/sgornn-as-printed": (
        {"activation": "relu", "constraint": "sgornn-as-printed"},
        "the bound as printed where it is below 0",
    ),
    "gru_reset_before/tanh": ({"activation": "tanh"}, "tanh: the GRU of ncgru:1"),
    "gru_reset_before/relu": ({"activation": "relu"}, "ReLU"),
    "gru_reset_before/modrelu": ({"activation": "modrelu"}, "modReLU: NC-GRU"),
    "gru_reset_after/tanh": ({"activation": "tanh"} | AFTER, "tanh: the GRU of goru:2.2"),
    "gru_reset_after/relu": ({"activation": "relu"} | AFTER, "ReLU"),
    "gru_reset_after/modrelu": ({"activation": "modrelu"} | AFTER, "modReLU: GORU"),
    "gru_reset_after/recurrent-bias": (
        {"activation": "tanh"} | AFTER | {"recurrent_bias": True},
        "b_hh: the GRU of PyTorch and cuDNN",
    ),
    "gru_reset_after/no-reset-gate": ({"activation": "modrelu"} | AFTER | {"reset_gate": False}, "a vector for r"),
    "gru_reset_after/no-update-gate": ({"activation": "modrelu"} | AFTER | {"update_gate": False}, "a vector for z"),
    "gru_reset_after/no-gates": (
        {"activation": "modrelu"} | AFTER | {"reset_gate": False, "update_gate": False},
        "vectors for both gates",
    ),
    "lstm": ({}, "the LSTM"),
}
#: Outputs that are 0 throughout, and gates that have one value.
STILL = {
    "fastrnn/sgornn-beta-clipped": ("d_weights.beta",),
    "fastrnn/sgornn-alpha-clipped": ("d_weights.alpha", "d_weights.beta"),
    "fastrnn/sgornn-as-printed": ("d_weights.beta",),
}
GATES = {
    "fastrnn/sgornn": {"alpha": -1.5, "beta": 0.25},
    "fastrnn/sgornn-beta-clipped": {"alpha": -1.0, "beta": 2.0},
    "fastrnn/sgornn-alpha-clipped": {"alpha": 1.0, "beta": 0.5},
    "fastrnn/sgornn-as-printed": {"alpha": 1.0, "beta": 0.5},
}


class Shape(NamedTuple):
    """Sizes, and by what powers of two the arrays are larger than usual."""

    why: str
    T: int
    B: int
    m: int
    n: int
    tokens: bool = False
    powers: Mapping[str, int] = {}  # of "x", "h" (the states at the start), "W", "U", "b"

    @property
    def least(self) -> float:
        """The smallest answer that counts: gradients have inputs and states as factors, up to three."""
        return MINIMUM * 2.0 ** (3 * min([0, *self.powers.values()]))


SHAPES = {
    "": Shape("", 6, 4, 3, 5),  # all different, so that no transpose fits by its shape
    "square": Shape("m = n, where a transposed W fits", 4, 3, 4, 4),
    "single": Shape("B = 1", 5, 1, 3, 4),
    "long": Shape("T = 12, beyond windows of 8", 12, 2, 2, 4),
    "step": Shape("T = 1, where no error of a step spreads to others", 1, 3, 2, 4),
    "tokens": Shape("integer tokens for x", 6, 3, 5, 4, tokens=True),
    "rows": Shape("B = 37: more sequences than a tile has rows, and a rest", 2, 37, 4, 5),
    "units": Shape("m = 19, n = 37, which no tile divides", 2, 3, 19, 37),
    "blocks": Shape("n = 131: several blocks, and a rest", 2, 2, 5, 131),
    "cut": Shape("T = 35, beyond windows of 32", 35, 1, 2, 3),
    "saturated": Shape(
        "pre-activations, and recurrent products, up to 30 and more", 3, 4, 4, 5, powers={"x": 4, "U": 4}
    ),
    "small": Shape("inputs, states and biases about 1e-6", 3, 4, 3, 5, powers={"x": -20, "h": -20, "b": -20}),
    "large": Shape("inputs and states about 1e3", 3, 4, 3, 5, powers={"x": 10, "h": 10}),
}


def cell_cases() -> Iterator[Spec]:
    """Kind cell."""
    for variant, (options, of) in VARIANTS.items():
        config: Config = {"cell": variant.partition("/")[0], **options}
        for name, shape in SHAPES.items():
            if _has(config, name):
                id, why = (beside(f"cell/{variant}", name), f"{of}; {shape.why}") if name else (f"cell/{variant}", of)
                arrays, zeros = _arrays(config, shape, GATES.get(variant, {})), STILL.get(variant, ())
                yield Spec(id, "cell", config, arrays, why, zeros, shape.least)


def _has(config: Config, name: str) -> bool:
    """Not where nothing would be left to see: far beyond its ends neither tanh nor a gate has a gradient."""
    return name != "large" or (config["cell"] in ("elman", "fastrnn") and config["activation"] == "relu")


def _arrays(config: Config, shape: Shape, gates: Mapping[str, float]) -> Ranges:
    """Of every input shape and range."""
    cell, complex = reference.cell_of(config), bool(config.get("complex"))
    T, B, m, n, tokens = shape[1:6]
    powers = {name: {"power": power} for name, power in shape.powers.items()}
    if config.get("activation", "tanh") != "tanh":  # states have no bound: a product grows with them
        powers.pop("U", None)
    pair = [2] if complex else []
    found: Ranges = {}
    for name, own in cell.shapes(m, n).items():
        low, high = _range(name, own, config)
        if name in gates:
            low = high = gates[name]
        kind = "b" if len(own) == 1 else name[0]
        pairs = pair if len(own) == 2 else []
        found[f"weights.{name}"] = ranged([*own, *pairs], low, high, **powers.get(kind, {}))
    if tokens:
        found["x"] = ranged([T, B], 0.0, float(m), integer=True)
    else:
        found["x"] = ranged([T, B, m], -1.0, 1.0, **powers.get("x", {}))
    for state in cell.states:
        found[f"{state}0"] = ranged([B, n, *pair], -1.0, 1.0, **powers.get("h", {}))
        found[f"d{state}_T"] = ranged([B, n, *pair], -1.0, 1.0)
    return found | {"dh": ranged([T, B, n, *pair], -1.0, 1.0)}


def _range(name: str, shape: tuple[int, ...], config: Config) -> tuple[float, float]:
    """By multiples of 1/16; a matrix of n columns hardly grows what it is applied to."""
    if len(shape) == 2:
        limit = max(1, round(16 * min(1.0, 1.5 / np.sqrt(shape[-1])))) / 16
        return -limit, limit
    if config.get("activation") == "modrelu" and name == reference.cell_of(config).phi_bias:
        return -0.75, 0.25
    return -0.5, 0.5
