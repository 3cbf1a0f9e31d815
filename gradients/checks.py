"""What is checked: every cell, every parametrization and every model, on generic problems, and how close is close.

Finite differences are the judge of all.  Of a cell there is also `fused` beside `scan`, where it has a fused form, and,
where an oracle is handed in, another form of the equations whose derivatives are not ours.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from gradients.map_problem import MapProblem, free_entries, random_map_problem
from gradients.problem import (
    MARGIN,
    Problem,
    admissible,
    errors_by_name,
    network_kink_distance,
    perturbed,
    random_problem,
    skew,
)
from ortho_ref import fused, models, scan
from ortho_ref.activations import ACTIVATIONS
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells import CELLS, Cell
from ortho_ref.cells.by_name import options_of
from ortho_ref.finite_differences import Report, compare_gradients
from ortho_ref.losses import cross_entropy
from ortho_ref.network import Network
from ortho_ref.parametrizations import Parametrization, by_name
from ortho_ref.training.task import Padded

TOLERANCE_DIFFERENCES, TOLERANCE_ANALYTIC, TOLERANCE_PULLBACK = 1e-7, 1e-12, 1e-11

#: Cells with further options than their activation: name -> what to call it -> its options.
FURTHER: dict[str, dict[str, dict[str, Any]]] = {
    "elman": {"modrelu complex": {"activation": "modrelu", "complex": True}},
    "fastrnn": {
        "relu, sgornn": {"activation": "relu", "constraint": "sgornn"},
        "relu, sgornn as printed": {"activation": "relu", "constraint": "sgornn-as-printed"},
    },
    "gru_reset_after": {
        "tanh, b_hh": {"recurrent_bias": True},
        "modrelu, no reset gate": {"activation": "modrelu", "reset_gate": False},
        "modrelu, no update gate": {"activation": "modrelu", "update_gate": False},
        "tanh, no gates, b_hh": {"reset_gate": False, "update_gate": False, "recurrent_bias": True},
    },
}

#: Models with other options than their own.
VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nc-gru", {"orthogonal": "rc"}),
    ("nc-gru", {"orthogonal": "ruc"}),
    ("eurnn", {"style": "fft"}),
    ("eurnn", {"capacity": 4, "complex": False}),
    ("goru", {"style": "tunable", "capacity": 4}),
    ("goru", {"style": "householder", "activation": "tanh"}),
    ("goru", {"reset_gate": False}),
    ("goru", {"update_gate": False}),
    ("sgornn", {"phi": "exp"}),
)

_LOCKED = {"words": 0.2, "inputs": 0.2, "hidden": 0.3, "outputs": 0.3, "alpha": 2.0, "beta": 1.0}
#: Language models, with all regularizers that they can have: model, hidden sizes, what else.
LANGUAGE_MODELS: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    ("lstm", (6, 6, 4), {"tied": True, "regularizers": _LOCKED | {"weights": 0.4}}),
    ("gru", (4, 6, 4), {"tied": True, "dropout": 0.2, "regularizers": _LOCKED | {"weights": 0.4}}),
    ("rnn", (5,), {"regularizers": _LOCKED | {"weights": 0.4}}),
    ("nc-gru", (5, 4), {"tied": True, "regularizers": _LOCKED}),
    ("goru", (6, 4), {"tied": True, "regularizers": _LOCKED | {"weights": 0.4, "weights_of": ("U_r", "U_z")}}),
    ("urnn", (5,), {"regularizers": _LOCKED}),
)

#: Readers of a story and a question: model, hidden sizes, what else.
READERS: tuple[tuple[str, tuple[int, int, int], dict[str, Any]], ...] = (
    ("gru", (3, 2, 3), {"reader": "once"}),
    ("lstm", (2, 3, 3), {"reader": "steps", "tied": True, "regularizers": {"words": 0.2, "weights": 0.4}}),
    ("goru", (4, 2, 2), {"reader": "once", "dropout": 0.2}),
    ("nc-gru", (3, 2, 3), {"reader": "steps", "dropout": 0.2}),
    ("urnn", (2, 3, 2), {"reader": "steps"}),
)


class Oracle(Protocol):
    """Gradients by another way, as of scripts/maintain/oracle/autograd.py: same names, same convention."""

    def has_form(self, subject: Cell | Parametrization) -> bool:
        """Whether it knows the cell, or the parametrization."""

    def gradients_of(self, problem: Problem) -> Mapping[str, np.ndarray]:
        """Of a problem's loss, by its point."""

    def gradients_of_map(self, problem: MapProblem) -> Mapping[str, np.ndarray]:
        """Of a map problem's loss, by its parameters; 0 in entries that are not free."""


Errors = dict[str, float]


class Result(NamedTuple):
    """Largest relative errors of one subject; None where a comparison does not apply."""

    subject: str
    differences: float  # of `scan`'s gradients, or the pullback, against finite differences, `fused` and the oracle
    fused: float | None
    autograd: float | None
    allowed: float = TOLERANCE_ANALYTIC  # between two analytic forms
    errors: Mapping[str, Errors] = {}  # what a comparison is with -> the error of each gradient, by its name
    scale: str = "its largest entry"  # what an error by differences is relative to

    @property
    def passed(self) -> bool:
        """Every figure is within its tolerance."""
        analytic = [figure for figure in (self.fused, self.autograd) if figure is not None]
        return self.differences <= TOLERANCE_DIFFERENCES and all(f <= self.allowed for f in analytic)

    def faults(self) -> list[str]:
        """A line for each comparison that failed: which gradients are wrong, the worst first."""
        lines = []
        for compared, errors in self.errors.items():
            by_differences = compared == DIFFERENCES
            allowed = TOLERANCE_DIFFERENCES if by_differences else self.allowed
            wrong = sorted((name for name, e in errors.items() if not e <= allowed), key=lambda n: -_or_inf(errors[n]))
            if not wrong:
                continue
            worst, *more = (f"{_derivative_by(name)} is off by {errors[name]:.1e}" for name in wrong[:4])
            told = [f"{worst} of {self.scale if by_differences else 'its largest entry'} ({compared})", *more]
            if len(wrong) > 4:
                told.append(f"and {len(wrong) - 4} more")
            if others := [error for name, error in errors.items() if name not in wrong]:
                told.append(f"others <= {max(others):.0e}")
            lines.append(f"{self.subject}: {', '.join(told)}")
        return lines


DIFFERENCES = "finite differences"


def _derivative_by(name: str) -> str:
    return f"dL/d({name})" if "." in name else f"dL/d{name}"


def _or_inf(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _result(
    subject: str, errors: Mapping[str, Errors], allowed: float = TOLERANCE_ANALYTIC, scale: str = "its largest entry"
) -> Result:
    """The result of these errors, by what a comparison is with; NaN is the largest there is."""
    largest = {compared: max(map(_or_inf, own.values())) for compared, own in errors.items() if own}
    figures = (largest[DIFFERENCES], largest.get("fused"), largest.get("autograd"))
    return Result(subject, *figures, allowed, errors, scale)


def _worse(one: Errors, other: Errors) -> Errors:
    """Of each name the larger error."""
    return {name: max(_or_inf(own.get(name, 0.0)) for own in (one, other)) for name in one | other}


def _errors_of(report: Report, vacuous: bool = True) -> Errors:
    """The errors of a report; infinite where nothing was checked, unless that does not matter."""
    return {row.tensor: math.inf if row.vacuous and vacuous else row.error for row in report.rows}


def cells() -> dict[str, Cell]:
    """What to call it -> every cell of the one list: with every activation, where it has that option, and `FURTHER`."""
    named: dict[str, Cell] = {}
    for name, kind in CELLS.items():
        own: dict[str, dict[str, Any]] = {"": {}}
        if "activation" in options_of(kind):
            own = {activation: {"activation": activation} for activation in ACTIVATIONS}
        for label, options in (own | FURTHER.get(name, {})).items():
            named[f"{kind.__name__} {label}".rstrip()] = kind(**options)
    return named


def parametrizations() -> list[tuple[str, int, bool]]:
    """Every parametrization at small sizes with all cases, and as large as in use: name, n, whether it is complex."""
    cayley = [(f"{kind}:{k}", n) for k, n in ((2, 5), (0, 8), (40, 56)) for kind in ("scaled_cayley", "neumann_cayley")]
    real = [*cayley, ("exponential", 5), ("exponential", 30)]
    real += [("householder:1", 5), ("householder:4", 5), ("householder:5", 5), ("householder:16", 56)]
    real += [("volume_preserving:1", 6), ("volume_preserving", 6), ("volume_preserving", 56), ("fft_rotations", 64)]
    either = [("tunable_rotations:2", 6), ("tunable_rotations:6", 6), ("tunable_rotations:6", 20)]
    either += [("fft_rotations", 2), ("fft_rotations", 8)]
    unitary = [("structured_unitary", 2), ("structured_unitary", 7), ("structured_unitary", 57)]
    unitary += [("geodesic_unitary", 6)]
    return [(*row, False) for row in real + either] + [(*row, True) for row in either + unitary]


def check_cell(
    name: str, cell: Cell, rng: np.random.Generator, oracle: Oracle | None = None, device: str = "cpu"
) -> Result:
    """A cell, called `name`: all entries of every weight, of x and h0; the worse of vectors and tokens.

    T = 6, B = 3, m = 3, n = 5, float64.  Ours are computed on the device.
    """
    errors: dict[str, Errors] = {DIFFERENCES: {}, "fused": {}, "autograd": {}}
    for tokens in (False, True):
        problem = random_problem(cell, rng, T=6, tokens=tokens)
        there = problem.on(device)
        ours = to_host(there.gradients(scan))
        options: dict[str, Any] = {"kink_distance": problem.kink_distance, "may_vanish": problem.may_vanish}
        # a token that does not occur leaves its column of W without a gradient, never all of W
        found = {DIFFERENCES: _errors_of(compare_gradients(problem.loss, problem.point, ours, **options))}
        if fused.has_form(cell):
            found["fused"] = errors_by_name(to_host(there.gradients(fused)), ours)
        if oracle is not None and oracle.has_form(cell):
            found["autograd"] = errors_by_name(ours, oracle.gradients_of(problem))
        errors |= {compared: _worse(errors[compared], own) for compared, own in found.items()}
    return _result(name, errors)


def check_parametrization(
    name: str, n: int, complex: bool, rng: np.random.Generator, oracle: Oracle | None = None, device: str = "cpu"
) -> Result:
    """A parametrization, by its name: the pullback of Re sum(dU^* U) at a generic point, all free entries."""
    problem = random_map_problem(by_name(name, n, complex), n, rng)
    ours = to_host(problem.on(device).gradients())
    errors = {DIFFERENCES: _errors_of(problem.compare(ours))}
    if oracle is not None and oracle.has_form(problem.p):
        errors["autograd"] = errors_by_name(free_entries(ours), oracle.gradients_of_map(problem))
    return _result(_subject_of_map(name, n, complex), errors, TOLERANCE_PULLBACK)


def check_network(
    name: str, m: int, n: int, T: int, rng: np.random.Generator, device: str = "cpu", **options: Any
) -> Result:
    """A whole network of the model, two layers and cross-entropy, along three random directions of every parameter."""
    network = models.network(name, m, (n, n), 7, **options)

    def draw() -> tuple[Any, np.ndarray]:
        return rng.standard_normal((T, 3, m)), rng.integers(0, 7, (T, 3))

    margin = 4 * MARGIN if n < 20 else MARGIN / 2  # at real size some unit is always nearer
    how: dict[str, Any] = {"directions": 3, "size": 0.6 / math.sqrt(n), "margin": margin, "least": 0.0}
    return _check_drawn(_subject_of_network(name, n, options), network, draw, rng, device, **how)


def check_language_model(
    name: str, sizes: tuple[int, ...], rng: np.random.Generator, device: str = "cpu", **options: Any
) -> Result:
    """A language model: embedding, readout, every regularizer; all entries of every parameter.

    Loss and penalty, the same dropout in every evaluation, V = 7, embedding 4, T = 5, B = 3.
    """
    network = models.network(name, 7, sizes, 7, embedding=4, **options)

    def draw() -> tuple[Any, np.ndarray]:
        return rng.integers(0, 7, (5, 3)), rng.integers(0, 7, (5, 3))

    return _check_drawn(_subject_of_language_model(name, sizes), network, draw, rng, device)


def check_reader(
    name: str, sizes: tuple[int, int, int], rng: np.random.Generator, device: str = "cpu", **options: Any
) -> Result:
    """A reader along three random directions of every parameter; stories and questions of different lengths.

    The same dropout in every evaluation, V = 5, embedding 3, stories of 1 to 4 words, questions of 1 and 2, B = 3.
    sizes: of the story's encoder, the question's, and the third layer.
    """
    network = models.network(name, 5, sizes, 5, embedding=3, readout="last", **options)

    def draw() -> tuple[Any, np.ndarray]:
        story = Padded(rng.integers(0, 5, (4, 3)), np.array([4, 1, 3]))
        return (story, Padded(rng.integers(0, 5, (2, 3)), np.array([2, 1, 2]))), rng.integers(0, 5, 3)

    # from the zero state, one step: nothing recurrent has a gradient, nor have gates of the past alone
    may_vanish = "layer2." if options["reader"] == "once" else None
    how: dict[str, Any] = {"directions": 3, "size": 1.0, "may_vanish": may_vanish}
    return _check_drawn(_subject_of_reader(name, options), network, draw, rng, device, **how)


def _check_drawn(
    subject: str,
    network: Network,
    draw: Callable[[], tuple[Any, np.ndarray]],
    rng: np.random.Generator,
    device: str,
    *,
    directions: int | None = None,
    size: float = 0.5,
    margin: float = 4 * MARGIN,
    least: float = 1e-3,
    may_vanish: str | None = None,
) -> Result:
    """Loss and penalty on x and y that are drawn, all entries unless so many directions are given.

    size: of what is added to every parameter.  margin: how far from a kink.  least: of a gradient's largest entry; what
    is tiny cannot be told from the loss's rounding.  may_vanish: what names begin with whose gradient may be 0.
    """
    distance = smallest = -math.inf
    while distance < margin or smallest < least:
        params, buffers = network.init(rng, dtype=np.float64)
        params = perturbed(params, rng, size)
        buffers = network.rebuild(params, buffers)
        (x, y), seed = draw(), int(rng.integers(2**32))
        distance = network_kink_distance(network, params, buffers, x, np.random.default_rng(seed))
        gradients = network.loss_and_gradients(params, buffers, x, y, rng=np.random.default_rng(seed))[1]
        vanishing = [
            name for name, g in gradients.items() if may_vanish and name.startswith(may_vanish) and not g.any()
        ]
        smallest = min(float(abs(gradient).max()) for name, gradient in gradients.items() if name not in vanishing)
    there, own_buffers, own_x, own_y = to_device((params, buffers, x, y), device)
    drawn = np.random.default_rng(seed)
    ours = to_host(network.loss_and_gradients(there, own_buffers, own_x, own_y, rng=drawn)[1])

    def loss(p: Any) -> Any:
        p = admissible(p)
        outputs, _, tape = network.forward(p, network.rebuild(p, buffers), x, rng=np.random.default_rng(seed))
        k = tape.features if tape.scales[-1] is None else tape.scales[-1] * tape.features
        return cross_entropy(outputs, y)[0] + network.regularizers.penalty(k, tape.features)

    how: dict[str, Any] = {"skew": skew(params), "kink_distance": lambda _: distance, "margin": min(margin, MARGIN)}
    how |= {"may_vanish": vanishing, "directions": directions, "rng": rng}
    errors = _errors_of(compare_gradients(loss, params, ours, **how), vacuous=least > 0)
    return _result(subject, {DIFFERENCES: errors}, scale="its largest entry" if directions is None else "its norm")


def _subject_of_reader(name: str, options: Mapping[str, Any]) -> str:
    return f"reader, {name}, {options['reader']}"


def _subject_of_language_model(name: str, sizes: tuple[int, ...]) -> str:
    return f"language model, {name} {'-'.join(map(str, sizes))}"


def _subject_of_map(name: str, n: int, complex: bool) -> str:
    return f"{name}, n = {n}{', complex' if complex else ''}"


def _subject_of_network(name: str, n: int, options: Mapping[str, Any]) -> str:
    extra = "".join(f" {key}={value}" for key, value in options.items())
    return f"2 x {name}{extra}{f', n = {n}' if n >= 20 else ''}"


def results(
    rng: np.random.Generator, oracle: Oracle | None = None, device: str = "cpu", only: str = ""
) -> list[Result]:
    """Every check there is, or those of subjects with `only` in them, with ours computed on the device."""
    networks: list[tuple[str, int, int, int, dict[str, Any]]] = [(name, 4, 6, 5, {}) for name in models.names()]
    networks += [(name, 4, 8, 5, options) for name, options in VARIANTS] + [("nc-gru", 22, 56, 6, {})]
    every: list[tuple[str, Callable[..., Result]]] = []
    every += [(name, partial(check_cell, name, cell, rng, oracle, device)) for name, cell in cells().items()]
    for row in parametrizations():
        every.append((_subject_of_map(*row), partial(check_parametrization, *row, rng, oracle, device)))
    for name, m, n, T, options in networks:
        every.append(
            (_subject_of_network(name, n, options), partial(check_network, name, m, n, T, rng, device, **options))
        )
    for name, sizes, options in LANGUAGE_MODELS:
        subject = _subject_of_language_model(name, sizes)
        every.append((subject, partial(check_language_model, name, sizes, rng, device, **options)))
    for name, own_sizes, options in READERS:
        every.append(
            (_subject_of_reader(name, options), partial(check_reader, name, own_sizes, rng, device, **options))
        )
    return [check() for subject, check in every if only in subject]
