"""The cases of kind `layer`: what users of a layer meet around a cell."""

from collections.abc import Iterator

import numpy as np

from gradients.map_problem import random_map_problem
from gradients.problem import random_problem
from ortho_ref.conformance.cases import layered, reference
from ortho_ref.conformance.cases.case import Arrays, Case, Config
from ortho_ref.converters.framework import is_bias
from scripts.maintain.vectors.spec import Draw, Ranges, Spec, ranged, source_of

AFTER = {"reset_gate": True, "update_gate": True}
#: Name in a case -> the cell's options.
CELLS: dict[str, Config] = {
    "elman": {"cell": "elman", "activation": "tanh", "complex": False},
    "fastrnn": {"cell": "fastrnn", "activation": "tanh", "constraint": None},
    "gru_reset_before": {"cell": "gru_reset_before", "activation": "tanh"},
    "nc_gru": {"cell": "gru_reset_before", "activation": "modrelu"},
    "gru_reset_after": {"cell": "gru_reset_after", "activation": "tanh", "recurrent_bias": True} | AFTER,
    "lstm": {"cell": "lstm"},
    "fastgrnn": {"cell": "fastgrnn"},
    "ugrnn": {"cell": "ugrnn"},
}
ABSENT = ("elman", "fastrnn", "gru_reset_before", "nc_gru", "gru_reset_after", "lstm")
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
SIZES = {"T": 6, "B": 4, "m": 3, "n": 5}
#: Cells that a variant is of: those with gates, Elman's beside them, and of those with gates what PyTorch has.
GATED = ("gru_reset_before", "gru_reset_after", "lstm")
STACKED = ("elman", *GATED)
PYTORCH = ("gru_reset_after", "lstm")
VARIANTS: dict[str, tuple[Config, tuple[str, ...], str]] = {
    "plain": ({}, ("fastgrnn", "ugrnn"), "the cell, which other kinds have no cases of"),
    "no-h0": ({"initial_state": False}, ABSENT, "no initial state: it is 0, and the biases are still there"),
    "no-bias": ({"bias": False}, ABSENT, "no biases: they are 0"),
    "no-h0-no-bias": ({"initial_state": False, "bias": False}, ABSENT, "neither initial state nor biases"),
    "lengths": (
        {"padding": "lengths"},
        STACKED,
        "sequences of different lengths: y is 0 beyond, and the last state is that of each sequence's end",
    ),
    "mask": ({"padding": "mask"}, GATED, "a mask with holes: a step that is masked leaves the state, and y repeats it"),
    "bidirectional": ({"bidirectional": True}, STACKED, "two directions, each with weights and states of its own"),
    "bidirectional-lengths": (
        {"bidirectional": True, "padding": "lengths"},
        GATED,
        "the way back begins at each sequence's own end",
    ),
    "two-layers": ({"layers": 2}, STACKED, "two layers, each with weights and states of its own"),
    "two-layers-bidirectional": (
        {"layers": 2, "bidirectional": True},
        PYTORCH,
        "layers before directions in the states",
    ),
    "resets": (
        {"padding": "resets"},
        STACKED,
        "sequences one after the other in a row: the state is 0 where one begins, and no gradient goes over",
    ),
    "two-layers-resets": (
        {"layers": 2, "padding": "resets"},
        PYTORCH,
        "the states of every layer are 0 where a sequence begins",
    ),
    "two-layers-dropout": (
        {"layers": 2, "dropout": True},
        ("elman", *PYTORCH),
        "factors between the layers: not on x, nor on what the last layer gives",
    ),
    "batch-first": ({"batch_first": True}, GATED, "x, y and the mask with the batch first, states as ever"),
    "batch-first-mask": ({"batch_first": True, "padding": "mask"}, ("gru_reset_after",), "a mask with the batch first"),
}
#: Cell, the map that keeps a weight of it, n, what for.
KEPT: dict[str, tuple[Config, Config, int, str]] = {
    "urnn": (
        {"cell": "elman", "activation": "modrelu", "complex": True},
        {"weight": "U", "parametrization": "structured_unitary"},
        5,
        "uRNN whole: complex states, U of eight factors, gradients of its parameters",
    ),
    "goru": (
        {"cell": "gru_reset_after", "activation": "modrelu", "recurrent_bias": False} | AFTER,
        {"weight": "U_h", "parametrization": "fft_rotations", "complex": False},
        8,
        "GORU whole: U_h of FFT rotations, gradients of the angles",
    ),
    "ornn": (
        {"cell": "elman", "activation": "tanh", "complex": False},
        {"weight": "U", "parametrization": "householder", "reflections": 3},
        5,
        "oRNN whole: U of reflections, gradients of their vectors",
    ),
    "exprnn": (
        {"cell": "elman", "activation": "modrelu", "complex": False},
        {"weight": "U", "parametrization": "exponential"},
        5,
        "expRNN whole: U = exp(A), the gradient of A",
    ),
    "nc_gru": (
        {"cell": "gru_reset_before", "activation": "modrelu"},
        {"weight": "U_c", "parametrization": "scaled_cayley", "negative_ones": 2},
        5,
        "NC-GRU whole, U_c by the exact Cayley transform, the gradient of A",
    ),
}
#: The sizes that those are asked in besides, drawn by the kit: T, B, m, n, n of the FFT's rotations, what for.
KEPT_SIZES: dict[str, tuple[int, int, int, int, int, str]] = {
    "step": (1, 1, 3, 5, 4, "one step of one sequence"),
    "rows": (2, 37, 3, 5, 4, "B = 37: more sequences than a tile has rows, and a rest"),
    "units": (2, 3, 19, 37, 64, "m = 19 and an n beyond a tile"),
    "cut": (35, 1, 2, 4, 4, "T = 35, beyond windows of 32"),
}
#: Cases that the kit draws: sizes, offsets of biases, what for.  An update gate nearly closed, or a forget gate nearly
#: open, keeps the state over 500 steps; else no gradient would be left to compare.
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
    """The inputs of a case but lengths and mask, and their shapes."""
    cell, ways = reference.cell_of(config), list(layered.directions(config))
    count = 1 + config["bidirectional"]
    time = (B, T) if config["batch_first"] else (T, B)
    shapes: dict[str, tuple[int, ...]] = {"x": (*time, m), "dy": (*time, count * n)}
    for way in ways:
        own = cell.shapes(m if way.layer == 0 else count * n, n)
        shapes |= {f"weights.{way.name}.{k}": s for k, s in own.items() if config["bias"] or not is_bias(k)}
    for name in cell.states:
        shapes |= {f"{name}0": (len(ways), B, n)} if config["initial_state"] else {}
        shapes[f"d{name}_T"] = (len(ways), B, n)
    if config.get("dropout"):
        shapes["dropout"] = (config["layers"] - 1, T, B, count * n)
    return shapes


def _drawing(config: Config) -> Draw:
    T, B = SIZES["T"], SIZES["B"]

    def draw(rng: np.random.Generator) -> Arrays:
        arrays: Arrays = {}
        for name, shape in shapes_of(config, **SIZES).items():
            last = name.rpartition(".")[2]
            spread = 1.0 if not name.startswith("weights.") else 1.2 / np.sqrt(shape[-1]) if len(shape) > 1 else 0.5
            arrays[name] = np.asarray(spread * rng.standard_normal(shape))
            if config.get("activation") == "modrelu" and last == "b_c":
                arrays[name] -= 0.25
        if config["padding"] == "lengths":
            arrays["lengths"] = rng.permutation([T, T - 1, T - 3, 2])
        if config["padding"] == "mask":
            mask = np.ones((T, B), bool)
            mask[1:] = rng.permuted(np.repeat([[True, True, True, False, False]], B, axis=0), axis=1).T
            arrays["mask"] = mask.T if config["batch_first"] else mask
        if config["padding"] == "resets":
            arrays["resets"] = rng.permuted(np.arange(T)[:, None] % 3 == np.zeros((1, B)), axis=0)
        if config.get("dropout"):
            arrays["dropout"] = 1.5 * (arrays["dropout"] > -0.4)
        return arrays

    return draw


def _kept(config: Config, n: int) -> Draw:
    """As `_drawing`, a weight by its map's parameters, complex numbers where the cell has them."""
    kept, cell = config["parametrized"], reference.cell_of(config)
    p, T, B, m = reference.parametrization_of(kept), SIZES["T"], SIZES["B"], SIZES["m"]
    weight = f"weights.layer0.{kept['weight']}"

    def draw(rng: np.random.Generator) -> Arrays:
        problem, own = random_problem(cell, rng, T=T, B=B, m=m, n=n), random_map_problem(p, n, rng)
        arrays = {f"weights.layer0.{name}": a for name, a in problem.weights.items()}
        if cell.phi_bias is not None and config.get("activation") == "modrelu":
            arrays[f"weights.layer0.{cell.phi_bias}"] -= 0.25
        del arrays[weight]
        arrays |= {f"{weight}.{name}": a for name, a in own.params.items()}
        arrays |= {f"{weight}.{name}": own.buffers[name] for name in reference.CONSTANTS if name in own.buffers}
        return arrays | {"x": problem.x, "dy": problem.dh, "h0": problem.h0[None], "dh_T": problem.dh_T[None]}

    return draw


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


def _spec(id: str, config: Config, draw: Draw | Ranges, why: str) -> Spec:
    sources = [source_of(reference.cell_of(config))]
    if config["parametrized"]:
        sources.append(source_of(reference.parametrization_of(config["parametrized"])))
    return Spec(f"layer/{id}", "layer", config, draw, tuple(sources), why)


def layer_cases() -> Iterator[Spec]:
    """Kind layer."""
    for variant, (options, names, why) in VARIANTS.items():
        for name in names:
            config = CELLS[name] | PLAIN | options
            yield _spec(f"{name}/{variant}", config, _drawing(config), why)
    for name, (own, kept, n, why) in KEPT.items():
        config = own | PLAIN | {"parametrized": kept}
        yield _spec(f"{name}/parametrized", config, _kept(config, n), why)
        for size, (T, B, m, any_n, of_fft, beside) in KEPT_SIZES.items():
            n = of_fft if kept["parametrization"] == "fft_rotations" else any_n
            ranges = _kept_ranges(config, {"T": T, "B": B, "m": m, "n": n})
            yield _spec(f"{name}/parametrized-{size}", config, ranges, f"{why}; {beside}")
    for id, (sizes, offsets, why) in LARGE.items():
        config = CELLS[id.partition("/")[0]] | PLAIN
        yield _spec(id, config, _ranges(config, sizes, offsets), why)
    for name in STACKED:
        for variant, (stacked, options, why) in STACKS.items():
            config = CELLS[name] | PLAIN | options
            ranges = _ranges(config, dict(zip("TBmn", stacked, strict=True)), {})
            yield _spec(f"{name}/{variant}", config, ranges, why)
