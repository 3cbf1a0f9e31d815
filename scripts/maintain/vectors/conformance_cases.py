"""The cases of the conformance kit: config, inputs, what each is there for.  `make_vectors` stores them.

Those of kinds `layer`, `initial` and `linear` are in files of their own; what a case is made from is a `Spec`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradients.map_problem import random_map_problem
from gradients.problem import Problem, random_problem, standard_normal
from ortho_ref import activations, losses, scan
from ortho_ref.activations import ACTIVATIONS
from ortho_ref.cells import CELLS, Cell, lstm
from ortho_ref.cells.cell import parts_of
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case import Arrays, Case, Config, joined, parted
from ortho_ref.parametrizations import GeodesicUnitary, exponential
from ortho_ref.training import optimizers
from scripts.maintain.vectors.cell_shapes import SHAPES, shape_specs
from scripts.maintain.vectors.initial_cases import initial_cases
from scripts.maintain.vectors.layer_cases import layer_cases
from scripts.maintain.vectors.linear_cases import linear_cases
from scripts.maintain.vectors.spec import Draw, Spec, beside, on_grid, source_of

# Cells

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
GATES = {
    "fastrnn/sgornn": {"alpha": -1.5, "beta": 0.25},
    "fastrnn/sgornn-beta-clipped": {"alpha": -1.0, "beta": 2.0},
    "fastrnn/sgornn-alpha-clipped": {"alpha": 1.0, "beta": 0.5},
    "fastrnn/sgornn-as-printed": {"alpha": 1.0, "beta": 0.5},
}
STILL = {
    "fastrnn/sgornn-beta-clipped": ("d_weights.beta",),
    "fastrnn/sgornn-alpha-clipped": ("d_weights.alpha", "d_weights.beta"),
    "fastrnn/sgornn-as-printed": ("d_weights.beta",),
}
GENERIC = {"T": 6, "B": 4, "m": 3, "n": 5}  # all different, so that no transpose fits by its shape
STORED = ("square", "single", "long", "tokens", "step")  # of `SHAPES`, with entries from all of the line
SHAPED = (
    "elman/modrelu",
    "elman/complex",
    "fastrnn/sgornn",
    "gru_reset_before/modrelu",
    "gru_reset_after/recurrent-bias",
    "lstm",
)


def config_of(variant: str) -> Config:
    """The config of a variant."""
    return {"cell": variant.partition("/")[0], **VARIANTS[variant][0]}


def _sequence(variant: str, sizes: dict[str, Any]) -> Draw:
    cell = reference.cell_of(config_of(variant))

    def draw(rng: np.random.Generator) -> Arrays:
        problem = _mixed(variant, cell, rng, sizes)
        arrays = {f"weights.{name}": value for name, value in problem.weights.items()}
        arrays |= {"x": problem.x, "dh": problem.dh}
        for role, state in (("{}0", problem.h0), ("d{}_T", problem.dh_T)):
            arrays |= {role.format(name): part for name, part in zip(cell.states, parts_of(cell, state), strict=True)}
        return arrays

    return draw


def _mixed(variant: str, cell: Cell, rng: np.random.Generator, sizes: dict[str, Any]) -> Problem:
    """A random problem with the variant's gates, and of units that can be off as many off as on, or nearly so."""
    for _ in range(1000):
        problem = random_problem(cell, rng, **sizes)
        problem = replace(problem, weights=_shifted(variant, problem.weights))
        _, tape = scan.forward(cell, problem.weights, problem.x, problem.h0)
        activation = config_of(variant).get("activation", "tanh")
        if cell.phi_bias is None or activation == "tanh":
            return problem
        b = problem.weights[cell.phi_bias]
        values = np.concatenate([ACTIVATIONS[activation].value(cache.a, b) for cache in tape.caches])
        if 0.25 <= (values == 0).mean() <= 0.75:
            return problem
    raise ValueError(f"{variant}: no draw with units on and off")


def _shifted(variant: str, weights: Arrays) -> Arrays:
    if config_of(variant).get("activation") == "modrelu":
        bias = str(CELLS[config_of(variant)["cell"]].phi_bias)
        weights = weights | {bias: weights[bias] - 0.75}
    return weights | {name: np.array(value) for name, value in GATES.get(variant, {}).items()}


def cells() -> Iterator[Spec]:
    """Kind cell."""
    for variant, (_, why) in VARIANTS.items():
        zeros, config = STILL.get(variant, ()), config_of(variant)
        sources = (scan, source_of(reference.cell_of(config)))
        base = Spec(f"cell/{variant}", "cell", config, _sequence(variant, GENERIC), sources, why, zeros=zeros)
        yield base
        stored = STORED if variant in SHAPED else ()
        yield from shape_specs(base, stored, GATES.get(variant, {}))
        for name in stored:
            draw, own = _sequence(variant, SHAPES[name].sizes), f"{why}; {SHAPES[name].why}"
            yield replace(base, id=beside(base.id, name), draw=draw, why=own)
    sequence = _sequence("lstm", GENERIC)

    def without_dc_T(rng: np.random.Generator) -> Arrays:
        drawn = sequence(rng)
        return drawn | {"dc_T": 0 * drawn["dc_T"]}

    why = "dc_T = 0, for those that take no gradient by c_T"
    yield Spec("cell/lstm/no-dc_T", "cell", config_of("lstm"), without_dc_T, (scan, lstm), why)


# Parametrizations and their updates

MAPS: dict[str, tuple[int, Config, str]] = {
    "scaled_cayley": (5, {"negative_ones": 2}, "n odd, D of both signs"),
    "scaled_cayley/no-negative": (4, {"negative_ones": 0}, "D = I"),
    "scaled_cayley/all-negative": (4, {"negative_ones": 4}, "D = -I"),
    "neumann_cayley": (5, {"negative_ones": 2}, "an A_tilde that is not the exact inverse"),
    "exponential": (5, {}, "n odd"),
    "exponential/even": (4, {}, "n even"),
    "householder": (5, {"reflections": 3}, "fewer reflections than n"),
    "householder/one": (4, {"reflections": 1}, "one reflection"),
    "householder/all": (4, {"reflections": 4}, "as many as n: the last is a sign"),
    "tunable_rotations": (6, {"capacity": 4, "complex": False}, "real"),
    "tunable_rotations/complex": (6, {"capacity": 4, "complex": True}, "complex"),
    "tunable_rotations/full": (4, {"capacity": 4, "complex": False}, "L = n"),
    "fft_rotations": (8, {"complex": False}, "real"),
    "fft_rotations/complex": (8, {"complex": True}, "complex"),
    "volume_preserving": (6, {"sublayers": 3}, "three permutations"),
    "structured_unitary": (5, {}, "uRNN's eight factors"),
    "structured_unitary/even": (4, {}, "n even"),
}


def _map(config: Config, n: int) -> Draw:
    p = reference.parametrization_of(config)

    def draw(rng: np.random.Generator) -> Arrays:
        problem = random_map_problem(p, n, rng)
        arrays = {f"params.{name}": value for name, value in problem.params.items()} | {"dU": problem.dU}
        arrays |= {name: problem.buffers[name] for name in reference.CONSTANTS if name in problem.buffers}
        if config["parametrization"] == "neumann_cayley":
            arrays["A_tilde"] = problem.buffers["A_tilde"] + 0.05 * rng.standard_normal((n, n))
        return arrays

    return draw


def maps() -> Iterator[Spec]:
    """Kind parametrization."""
    for name, (n, options, why) in MAPS.items():
        config = {"parametrization": name.partition("/")[0], **options}
        sources = (source_of(reference.parametrization_of(config)),)
        yield Spec(f"parametrization/{name}", "parametrization", config, _map(config, n), sources, why)


def sgd(rate: float, **options: float) -> Config:
    """An optimizer's config."""
    return {"name": "sgd", "learning_rate": rate, "momentum": 0.0, "weight_decay": 0.0, **options}


def adam(rate: float, **options: float) -> Config:
    """An optimizer's config."""
    own = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0}
    return {"name": "adam", "learning_rate": rate, **own, **options}


def rmsprop(rate: float, **options: float | bool) -> Config:
    """An optimizer's config; PyTorch's defaults."""
    own = {"decay": 0.99, "initial": 0.0, "epsilon": 1e-8, "epsilon_inside": False, "weight_decay": 0.0}
    return {"name": "rmsprop", "learning_rate": rate, **own, **options}


TENSORFLOW = {"decay": 0.9, "initial": 1.0, "epsilon": 1e-10, "epsilon_inside": True}
THEANO = {"decay": 0.9, "initial": 1e-3, "epsilon": 0.0}
KERAS = {"decay": 0.9, "epsilon": 1e-7}


def _series(order: int, reset_every: int | None, optimizer: Config) -> Config:
    own = {"algorithm": "neumann_cayley", "negative_ones": 2, "order": order, "reset_every": reset_every}
    return own | {"optimizer": optimizer}


FORCING = sgd(0.25)
UPDATES: dict[str, tuple[Config, str]] = {
    "neumann_cayley/order-1": (_series(1, None, sgd(0.02)), "order 1, SGD, no resets"),
    "neumann_cayley/order-2": (_series(2, None, adam(0.02)), "order 2, Adam, no resets"),
    "neumann_cayley/order-3": (_series(3, None, sgd(0.05, momentum=0.5)), "order 3, momentum, no resets"),
    "neumann_cayley/reset": (_series(2, 3, rmsprop(0.005)), "a reset after every third update"),
    "neumann_cayley/reset-adam": (_series(1, 4, adam(0.02)), "order 1, Adam, resets"),
    "neumann_cayley/tensorflow": (_series(2, 5, rmsprop(0.02, **TENSORFLOW)), "RMSprop as TensorFlow 1 has it"),
    "neumann_cayley/forced": (_series(2, None, FORCING), "steps so long that they force resets"),
    "neumann_cayley/forced-and-due": (
        _series(2, 4, FORCING),
        "forced resets between those that are due, whose count goes on",
    ),
    "neumann_cayley/weight-decay": (_series(2, None, adam(0.02, weight_decay=0.1)), "weight decay of A"),
    "scaled_cayley": (
        {"algorithm": "scaled_cayley", "negative_ones": 2, "optimizer": adam(0.02)},
        "the exact inverse at every update",
    ),
    "geodesic_unitary": ({"algorithm": "geodesic_unitary", "optimizer": sgd(0.05)}, "multiplicative Cayley steps"),
    "geodesic_unitary/rmsprop": (
        {"algorithm": "geodesic_unitary", "optimizer": rmsprop(0.01)},
        "each entry of the gradient scaled first",
    ),
}


def _rebasing(every: int, optimizer: Config) -> Config:
    return {"algorithm": "dynamic_trivialization", "rebase_every": every, "optimizer": optimizer}


REBASED: dict[str, tuple[Config, str]] = {
    "dynamic_trivialization": (_rebasing(3, sgd(0.05)), "U = base exp(A), rebased after every third update"),
    "dynamic_trivialization/adam": (_rebasing(3, adam(0.05)), "Adam, whose moments go on over a rebase"),
    "dynamic_trivialization/every-update": (
        _rebasing(1, sgd(0.05, momentum=0.5)),
        "rebased after every update: a step along the geodesic",
    ),
}


def _rebased(rng: np.random.Generator) -> Arrays:
    return {"U0": np.linalg.qr(rng.standard_normal((5, 5)))[0], "dU": standard_normal(rng, (8, 5, 5), False)}


def _updates(config: Config) -> Draw:
    p = reference.parametrization_of(config)

    def draw(rng: np.random.Generator) -> Arrays:
        params = random_map_problem(p, 5, rng).params
        (name, value), complex = next(iter(params.items())), isinstance(p, GeodesicUnitary)
        return {f"{name}0": value, "dU": standard_normal(rng, (8, 5, 5), complex)}

    def forcing(rng: np.random.Generator) -> Arrays:
        """Of ||A_tilde delta||, steps with both norms below 1, with Frobenius' alone above, and with both above."""
        while True:
            inputs = {name: on_grid(array) for name, array in draw(rng).items()}
            norms = _norms(config, inputs)
            kinds = {(spectral >= 1, frobenius >= 1) for spectral, frobenius in norms}
            clear = all(abs(norm - 1) > 0.02 for pair in norms for norm in pair)
            if len(kinds) == 3 and clear and one_is_due(config["reset_every"], [s >= 1 for s, _ in norms]):
                return inputs

    return forcing if config.get("optimizer") == FORCING else draw


def one_is_due(every: int | None, forced: list[bool]) -> bool:
    """Whether a reset is forced half-way between two that are due, and none between it and the second.

    A count begun anew would miss that one, and is neither early nor late by one update.
    """
    if every is None:
        return True
    half = every // 2
    return any(forced[k - 1] and not any(forced[k : k + half]) for k in range(half, len(forced) - half + 1, every))


def _norms(config: Config, inputs: Arrays) -> list[tuple[float, float]]:
    """The spectral and the Frobenius norm of A_tilde delta in every update."""
    found, A0 = reference.outputs(Case("update", "update", config, inputs)), inputs["A0"]
    A = [A0, *found["A"]]
    A_tilde = [np.linalg.inv(np.eye(len(A0)) + A0), *found["A_tilde"]]
    P = [A_tilde[k] @ (A[k] - A[k + 1]) for k in range(len(A) - 1)]
    return [(float(np.linalg.norm(M, 2)), float(np.linalg.norm(M))) for M in P]


def updates() -> Iterator[Spec]:
    """Kind update."""
    for name, (config, why) in UPDATES.items():
        sources = (source_of(reference.parametrization_of(config)), optimizers)
        yield Spec(f"update/{name}", "update", config, _updates(config), sources, why)
    for name, (config, why) in REBASED.items():
        zeros = ("A",) if config["rebase_every"] == 1 else ()
        yield Spec(f"update/{name}", "update", config, _rebased, (exponential, optimizers), why, zeros=zeros)


OPTIMIZERS: dict[str, tuple[Config, str]] = {
    "sgd": (sgd(0.1), "gradient descent"),
    "sgd/momentum": (sgd(0.1, momentum=0.9), "momentum"),
    "sgd/weight-decay": (sgd(0.1, momentum=0.9, weight_decay=0.1), "momentum and weight decay"),
    "adam": (adam(1e-2), "Adam's own epsilon"),
    "adam/large-epsilon": (adam(1e-2, epsilon=0.1), "an epsilon that shows where it is added"),
    "adam/weight-decay": (adam(1e-2, weight_decay=0.1), "weight decay in the gradient"),
    "adam/complex": (adam(1e-2), "a complex parameter"),
    "rmsprop": (rmsprop(1e-2), "PyTorch's constants"),
    "rmsprop/tensorflow": (rmsprop(1e-2, **TENSORFLOW), "TensorFlow 1's: v from 1, epsilon inside"),
    "rmsprop/theano": (rmsprop(1e-2, **THEANO), "uRNN's code: v from 0.001, no epsilon"),
    "rmsprop/keras": (rmsprop(1e-2, **KERAS), "Keras's"),
    "rmsprop/large-epsilon": (rmsprop(1e-2, epsilon=0.1), "an epsilon that shows that it is outside the root"),
    "rmsprop/large-epsilon-inside": (
        rmsprop(1e-2, epsilon=0.1, epsilon_inside=True),
        "an epsilon that shows that it is inside the root",
    ),
    "rmsprop/weight-decay": (rmsprop(1e-2, weight_decay=0.1), "weight decay in the gradient"),
    "rmsprop/complex": (rmsprop(1e-2), "a complex parameter"),
}


def optimizer_cases() -> Iterator[Spec]:
    """Kind optimizer."""
    for name, (own, why) in OPTIMIZERS.items():
        complex = name.endswith("complex")

        def draw(rng: np.random.Generator, complex: bool = complex) -> Arrays:
            shape = (3, 4)
            return {
                "parameter0": standard_normal(rng, shape, complex),
                "gradient": standard_normal(rng, (6, *shape), complex),
            }

        config = {"optimizer": own, "complex": complex}
        yield Spec(f"optimizer/{name}", "optimizer", config, draw, (optimizers,), why)


# Activations


def _activation(name: str, complex: bool) -> Draw:
    def draw(rng: np.random.Generator) -> Arrays:
        a, dy = (standard_normal(rng, (6, 5), complex) for _ in range(2))
        if name == "sigmoid":
            a[:2] *= 8
            return {"a": a, "dy": dy}
        shift = 0.75 if name == "modrelu" else 0.0
        return {"a": a, "b": rng.standard_normal(5) / 2 - shift, "dy": dy}

    return draw


def _scaled(draw: Draw) -> Draw:
    """Rows of a thousands, of both signs, beside the others."""

    def large(rng: np.random.Generator) -> Arrays:
        drawn = draw(rng)
        a = drawn["a"].copy()
        a[:2] = np.sign(a[:2]) * 1000 + a[:2]
        return drawn | {"a": a}

    return large


_B = np.array([-0.5, 0.5, 0.25, -1.25, 0.0])


def _on_kinks(name: str, complex: bool) -> Draw:
    """a + b = 0, and of modReLU a = 0 and |a| + b = 0; the last row is off the kinks."""

    def draw(rng: np.random.Generator) -> Arrays:
        if complex:  # numbers whose modulus is exact; at 0 with b > 0 there is no derivative
            a = np.array([3, 4j, -5, -3j, 3 + 4j])[None] * np.array([1, 1, 1, 2])[:, None]
            return {"a": a, "b": -np.abs(a[0]), "dy": standard_normal(rng, a.shape, True)}
        if name == "relu":
            a = np.stack([-_B, -_B, -_B, 1 - _B])
        else:
            a = np.stack([abs(_B), -abs(_B), 0 * _B, 0 * _B, 2 + abs(_B)])
        return {"a": a, "b": _B, "dy": rng.standard_normal(a.shape)}

    return draw


def _between(name: str, complex: bool) -> Callable[[Arrays], tuple[Arrays, Arrays]]:
    """The one-sided values and derivatives, the smaller and the larger."""

    def limits(inputs: Arrays) -> tuple[Arrays, Arrays]:
        a, b, dy = inputs["a"], inputs["b"], inputs["dy"]
        if complex:
            a, dy = joined(a), joined(dy)
        sides = [_side(name, a, b, dy, at_kink, sign) for at_kink in (0.0, 1.0) for sign in (1.0, -1.0)]
        stacked = {key: np.stack([parted(side[key]) for side in sides]) for key in sides[0]}
        low, high = ({key: f(value, axis=0) for key, value in stacked.items()} for f in (np.min, np.max))
        for one in (low, high):
            one["d_b"] = one["d_b"].sum(axis=0)
        return low, high

    return limits


def _side(name: str, a: np.ndarray, b: np.ndarray, dy: np.ndarray, at_kink: float, sign: float) -> Arrays:
    """Value and derivatives, with slope at_kink on a kink and, at 0, the phase sign; d_b not summed."""
    if name == "relu":
        slope = np.where(a + b == 0, at_kink, a + b > 0)
        return {"y": np.maximum(a + b, 0), "d_a": slope * dy, "d_b": slope * dy}
    rho, at_0 = abs(a), a == 0
    slope = np.where(rho + b == 0, at_kink, np.where(at_0, at_kink * (b >= 0), rho + b > 0))
    e = np.where(at_0, sign, a / np.where(at_0, 1, rho))
    along = (e.conj() * dy).real
    across = (1 + b / np.where(at_0, np.inf, rho)) * (dy - e * along)  # 0 of real numbers
    return {"y": e * np.maximum(rho + b, 0), "d_a": slope * (e * along + across), "d_b": slope * along}


def activation_cases() -> Iterator[Spec]:
    """Kind activation."""
    for name, complex in (("sigmoid", False), ("tanh", False), ("relu", False), ("modrelu", False), ("modrelu", True)):
        id = f"activation/{name}{'/complex' if complex else ''}"
        config = {"activation": name, "complex": complex, "kinks": False}
        why = "value and derivative off the kinks" if "relu" in name else "value and derivative"
        yield Spec(id, "activation", config, _activation(name, complex), (activations,), why)
        if name in ("sigmoid", "tanh"):
            large = _scaled(_activation(name, complex))
            why = "inputs whose exponential overflows"
            yield Spec(beside(id, "large"), "activation", config, large, (activations,), why)
        if "relu" in name:
            yield Spec(
                beside(id, "kinks"),
                "activation",
                config | {"kinks": True},
                _on_kinks(name, complex),
                (activations,),
                "on the kinks: NaN and wild values fail, any one-sided derivative passes",
                smooth=False,
                between=_between(name, complex),
            )


# Losses


def _loss(config: Config, q: int, size: float = 1.0) -> Draw:
    def draw(rng: np.random.Generator) -> Arrays:
        T, B, groups = 4, 3, config["groups"]
        arrays: Arrays = {"outputs": size * rng.standard_normal((T, B, q))}
        if config["targets"] == "numbers":
            arrays["y"] = rng.standard_normal((T, B, q))
        else:
            y = rng.integers(0, 2 if config["targets"] == "yes or no" else q // groups, (T, B, groups))
            arrays["y"] = y if groups > 1 else y[..., 0]
        if config["masked"]:
            arrays["mask"] = rng.random((T, B)) < 0.6
        return arrays

    return draw


def loss_cases() -> Iterator[Spec]:
    """Kind loss."""
    plain = {"groups": 1, "masked": False, "targets": "classes"}
    ce, mse = {"loss": "cross_entropy"} | plain, {"loss": "mean_squared_error"} | plain
    bce = {"loss": "binary_cross_entropy"} | plain | {"targets": "yes or no"}
    for name, config, q, size, why in (
        ("cross_entropy", ce, 5, 1.0, "one class of five"),
        ("cross_entropy/masked", ce | {"masked": True}, 5, 1.0, "a mask"),
        ("cross_entropy/groups", ce | {"groups": 3, "masked": True}, 12, 1.0, "three groups of classes, a mask"),
        ("cross_entropy/large", ce, 5, 2000.0, "logits whose exponential overflows"),
        ("mean_squared_error", mse | {"targets": "numbers"}, 2, 1.0, "numbers"),
        ("mean_squared_error/masked", mse | {"targets": "numbers", "masked": True}, 2, 1.0, "numbers, a mask"),
        ("mean_squared_error/classes", mse | {"groups": 3}, 12, 1.0, "one-hot classes in three groups"),
        ("binary_cross_entropy", bce, 1, 1.0, "one logit"),
        ("binary_cross_entropy/masked", bce | {"groups": 3, "masked": True}, 3, 1.0, "three logits, a mask"),
        ("binary_cross_entropy/large", bce, 1, 2000.0, "logits whose exponential overflows"),
    ):
        yield Spec(f"loss/{name}", "loss", config, _loss(config, q, size), (losses,), why)


def specs() -> list[Spec]:
    """Every case, in the order of the manifest."""
    parts = (
        cells,
        layer_cases,
        maps,
        updates,
        optimizer_cases,
        activation_cases,
        loss_cases,
        initial_cases,
        linear_cases,
    )
    return [spec for part in parts for spec in part()]
