"""The cases of kind `layer` that the kit draws: stacks, long and wide ones, and layers whose U a map keeps."""

from collections.abc import Iterator

import numpy as np

from gradients.map_problem import random_map_problem
from ortho_ref.conformance.cases import layered, reference
from ortho_ref.conformance.cases.case import Case, Config
from scripts.maintain.vectors.spec import Ranges, Spec, ranged

AFTER = {"reset_gate": True, "update_gate": True}
#: Name in a case -> the cell's options.
CELLS: dict[str, Config] = {
    "elman": {"cell": "elman", "activation": "tanh", "complex": False},
    "gru_reset_before": {"cell": "gru_reset_before", "activation": "tanh"},
    "gru_reset_after": {"cell": "gru_reset_after", "activation": "tanh", "recurrent_bias": True} | AFTER,
    "lstm": {"cell": "lstm"},
}
PLAIN: Config = {
    "layers": 1,
    "bidirectional": False,
    "bias": True,
    "initial_state": True,
    "padding": None,
    "batch_first": False,
    "parametrized": None,
}
#: What is kept of a map's parameter: skew A, reflections whose j-th begins at j.
FORMS = {"A": "skew", "V": "lower"}
#: Cell, the map that keeps a weight of it, what for.
KEPT: dict[str, tuple[Config, Config, str]] = {
    "urnn": (
        {"cell": "elman", "activation": "modrelu", "complex": True},
        {"weight": "U", "parametrization": "structured_unitary"},
        "uRNN whole: complex states, U of eight factors, gradients of its parameters",
    ),
    "goru": (
        {"cell": "gru_reset_after", "activation": "modrelu", "recurrent_bias": False} | AFTER,
        {"weight": "U_h", "parametrization": "fft_rotations", "complex": False},
        "GORU whole: U_h of FFT rotations, gradients of the angles",
    ),
    "ornn": (
        {"cell": "elman", "activation": "tanh", "complex": False},
        {"weight": "U", "parametrization": "householder", "reflections": 3},
        "oRNN whole: U of reflections, gradients of their vectors",
    ),
    "exprnn": (
        {"cell": "elman", "activation": "modrelu", "complex": False},
        {"weight": "U", "parametrization": "exponential"},
        "expRNN whole: U = exp(A), the gradient of A",
    ),
    "nc_gru": (
        {"cell": "gru_reset_before", "activation": "modrelu"},
        {"weight": "U_c", "parametrization": "scaled_cayley", "negative_ones": 2},
        "NC-GRU whole, U_c by the exact Cayley transform, the gradient of A",
    ),
}
#: The sizes that those are asked in: T, B, m, n, n of the FFT's rotations, what for.
KEPT_SIZES: dict[str, tuple[int, int, int, int, int, str]] = {
    "step": (1, 1, 3, 5, 4, "one step of one sequence"),
    "rows": (2, 37, 3, 5, 4, "B = 37: more sequences than a tile has rows, and a rest"),
    "units": (2, 3, 19, 37, 64, "m = 19 and an n beyond a tile"),
    "cut": (35, 1, 2, 4, 4, "T = 35, beyond windows of 32"),
}
#: Sizes, offsets of biases, what for.  An update gate nearly closed, or a forget gate nearly open, keeps the state over
#: 500 steps; else no gradient would be left to compare.
LARGE: dict[str, tuple[dict[str, int], dict[str, float], str]] = {
    "gru_reset_before/long": ({"T": 500, "B": 2, "m": 2, "n": 4}, {"b_u": -6.0}, "T = 500"),
    "lstm/long": ({"T": 500, "B": 2, "m": 2, "n": 4}, {"b_f": 5.0, "b_i": -2.0}, "T = 500"),
    "gru_reset_after/wide": ({"T": 5, "B": 3, "m": 7, "n": 128}, {}, "n = 128, beyond one tile of a kernel"),
    "elman/wide": ({"T": 5, "B": 3, "m": 7, "n": 128}, {}, "n = 128, beyond one tile of a kernel"),
}
BOTH = {"layers": 2, "bidirectional": True}
#: The same of stacks: sizes T, B, m, n, options, what for.
STACKS: dict[str, tuple[tuple[int, int, int, int], Config, str]] = {
    "three-layers": ((4, 3, 3, 4), {"layers": 3}, "a first layer, a last one, and one between"),
    "three-layers-bidirectional": ((4, 3, 3, 4), {"layers": 3, "bidirectional": True}, "three layers, two directions"),
    "stack-step": ((1, 1, 3, 4), BOTH, "one step of one sequence through two layers and directions"),
    "stack-rows": ((2, 37, 3, 4), {"layers": 2}, "B = 37 through two layers"),
    "stack-units": ((2, 3, 19, 37), BOTH, "m = 19, n = 37, which no tile divides, through two layers and directions"),
    "stack-cut": ((35, 1, 2, 3), BOTH, "T = 35, beyond windows of 32, through two layers and directions"),
    "stack-lengths": (
        (7, 5, 3, 4),
        BOTH | {"padding": "lengths"},
        "sequences of different lengths through two layers and directions",
    ),
}


def shapes_of(config: Config, T: int, B: int, m: int, n: int) -> dict[str, tuple[int, ...]]:
    """The inputs of a case but lengths, and their shapes."""
    cell, ways = reference.cell_of(config), list(layered.directions(config))
    count = 1 + config["bidirectional"]
    shapes: dict[str, tuple[int, ...]] = {"x": (T, B, m), "dy": (T, B, count * n)}
    for way in ways:
        own = cell.shapes(m if way.layer == 0 else count * n, n)
        shapes |= {f"weights.{way.name}.{name}": shape for name, shape in own.items()}
    for name in cell.states:
        shapes |= {f"{name}0": (len(ways), B, n), f"d{name}_T": (len(ways), B, n)}
    return shapes


def _kept_ranges(config: Config, sizes: dict[str, int]) -> Ranges:
    """As `_ranges`, a weight by its map's parameters."""
    kept = config["parametrized"]
    weight = f"weights.layer0.{kept['weight']}"
    bias = reference.cell_of(config).phi_bias
    found = _ranges(config, sizes, {bias: -0.25} if bias and config["activation"] == "modrelu" else {})
    del found[weight]
    own = random_map_problem(reference.parametrization_of(kept), sizes["n"], np.random.default_rng(0))
    for name, value in own.params.items():
        form = {"form": FORMS[name]} if name in FORMS else {}
        found[f"{weight}.{name}"] = ranged(value.shape, -1.0, 1.0, **form)
    for name in own.buffers.keys() & set(reference.CONSTANTS):
        constant = own.buffers[name]
        found[f"{weight}.{name}"] = ranged(constant.shape, 0.0, 0.0, listed=constant.ravel().tolist())
    for name in reference.complex_inputs(Case("", "layer", config, dict.fromkeys(found, np.zeros(0)))):
        found[name]["shape"].append(2)
    return found


def _ranges(config: Config, sizes: dict[str, int], offsets: dict[str, float]) -> Ranges:
    """Of every input shape and range, by multiples of 1/16."""
    found = {}
    for name, shape in shapes_of(config, **sizes).items():
        limit = 1.0
        if name.startswith("weights."):
            limit = max(1, round(16 * min(0.5, 1.5 / np.sqrt(shape[-1])))) / 16
        offset = offsets.get(name.rpartition(".")[2], 0.0)
        found[name] = ranged(shape, offset - limit, offset + limit)
    if config["padding"] == "lengths":
        found["lengths"] = ranged([sizes["B"]], 1.0, sizes["T"] + 1.0, integer=True)
    return found


def layer_cases() -> Iterator[Spec]:
    """Kind layer."""
    for name, (own, kept, why) in KEPT.items():
        config = own | PLAIN | {"parametrized": kept}
        for size, (T, B, m, any_n, of_fft, beside) in KEPT_SIZES.items():
            n = of_fft if kept["parametrization"] == "fft_rotations" else any_n
            ranges = _kept_ranges(config, {"T": T, "B": B, "m": m, "n": n})
            yield Spec(f"layer/{name}/parametrized-{size}", "layer", config, ranges, f"{why}; {beside}")
    for id, (sizes, offsets, why) in LARGE.items():
        config = CELLS[id.partition("/")[0]] | PLAIN
        yield Spec(f"layer/{id}", "layer", config, _ranges(config, sizes, offsets), why)
    for name, cell in CELLS.items():
        for variant, (stacked, options, why) in STACKS.items():
            config = cell | PLAIN | options
            ranges = _ranges(config, dict(zip("TBmn", stacked, strict=True)), {})
            yield Spec(f"layer/{name}/{variant}", "layer", config, ranges, why)
