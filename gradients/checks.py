"""What is checked: every cell, every parametrization and every model, on generic problems, and how close is close.

Finite differences are the judge of all.  Of a cell there is also `fused` beside `scan`, where it has a fused form, and,
where an oracle is handed in, another form of the equations whose derivatives are not ours.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from gradients.map_problem import MapProblem, free_entries, random_map_problem
from gradients.problem import (
    MARGIN,
    Problem,
    admissible,
    largest_error,
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
from ortho_ref.conformance.differences import compare_gradients
from ortho_ref.losses import cross_entropy
from ortho_ref.network import Network
from ortho_ref.parametrizations import Parametrization, by_name
from ortho_ref.task import Padded

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
    """Gradients by another way, as of scripts/oracle/autograd.py: same names, same convention."""

    def has_form(self, subject: Cell | Parametrization) -> bool:
        """Whether it knows the cell, or the parametrization."""

    def gradients_of(self, problem: Problem) -> Mapping[str, np.ndarray]:
        """Of a problem's loss, by its point."""

    def gradients_of_map(self, problem: MapProblem) -> Mapping[str, np.ndarray]:
        """Of a map problem's loss, by its parameters; 0 in entries that are not free."""


class Result(NamedTuple):
    """Largest relative errors of one subject; None where a comparison does not apply.

    Attributes
    ----------
    subject : str
        What was checked.
    differences, fused, autograd : float or None
        Of `scan`'s gradients, or the pullback, against finite differences, `fused` and the oracle.
    allowed : float
        Between two analytic forms.
    """

    subject: str
    differences: float
    fused: float | None
    autograd: float | None
    allowed: float = TOLERANCE_ANALYTIC

    @property
    def passed(self) -> bool:
        """Every figure is within its tolerance."""
        analytic = [figure for figure in (self.fused, self.autograd) if figure is not None]
        return self.differences <= TOLERANCE_DIFFERENCES and all(f <= self.allowed for f in analytic)


def cells() -> dict[str, Cell]:
    """Every cell of the one list: with every activation, or as it is where it has no such option, and `FURTHER`.

    Returns
    -------
    dict
        What to call it -> the cell.
    """
    named: dict[str, Cell] = {}
    for name, kind in CELLS.items():
        if "activation" in options_of(kind):
            own = {activation: {"activation": activation} for activation in ACTIVATIONS}
        else:
            own = {"": {}}
        for label, options in (own | FURTHER.get(name, {})).items():
            named[f"{kind.__name__} {label}".rstrip()] = kind(**options)
    return named


def parametrizations() -> list[tuple[str, int, bool]]:
    """Every parametrization at small sizes with all cases, and at sizes as large as in use.

    Returns
    -------
    list of tuple
        (name, n, whether it is complex).
    """
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
    """Check a cell: all entries of every weight, of x and h0; T = 6, B = 3, m = 3, n = 5, float64, vectors and tokens.

    Parameters
    ----------
    name : str
        What to call it.
    cell : Cell
        The cell.
    rng : numpy.random.Generator
        Where random numbers come from.
    oracle : Oracle, optional
        Gradients by another way.
    device : str
        Where ours are computed.

    Returns
    -------
    Result
        The worse of vectors and tokens.
    """
    by_differences, by_fused, by_oracle = [], [], []
    for tokens in (False, True):
        problem = random_problem(cell, rng, T=6, tokens=tokens)
        there = problem.on(device)
        ours = to_host(there.gradients(scan))
        options: dict[str, Any] = {"kink_distance": problem.kink_distance, "may_vanish": problem.may_vanish}
        report = compare_gradients(problem.loss, problem.point, ours, **options)
        # a token that does not occur leaves its column of W without a gradient, never all of W
        by_differences.append(float("inf") if any(row.vacuous for row in report.rows) else report.largest)
        if fused.has_form(cell):
            by_fused.append(largest_error(to_host(there.gradients(fused)), ours)[0])
        if oracle is not None and oracle.has_form(cell):
            by_oracle.append(largest_error(ours, oracle.gradients_of(problem))[0])
    return Result(name, max(by_differences), max(by_fused, default=None), max(by_oracle, default=None))


def check_parametrization(
    name: str,
    n: int,
    complex: bool,
    rng: np.random.Generator,
    oracle: Oracle | None = None,
    device: str = "cpu",
) -> Result:
    """Check a parametrization: the pullback of Re sum(dU^* U) at a generic point, all free entries.

    Parameters
    ----------
    name : str
        As of `ortho_ref.parametrizations.by_name`.
    n : int
        Size of U.
    complex : bool
        Whether U is complex.
    rng : numpy.random.Generator
        Where random numbers come from.
    oracle : Oracle, optional
        Gradients by another way.
    device : str
        Where ours are computed.

    Returns
    -------
    Result
        Without `fused`, which maps do not have.
    """
    problem = random_map_problem(by_name(name, n, complex), n, rng)
    ours = to_host(problem.on(device).gradients())
    by_oracle = None
    if oracle is not None and oracle.has_form(problem.p):
        by_oracle = largest_error(free_entries(ours), oracle.gradients_of_map(problem))[0]
    report = problem.compare(ours)
    differences = float("inf") if any(row.vacuous for row in report.rows) else report.largest
    return Result(_subject_of_map(name, n, complex), differences, None, by_oracle, TOLERANCE_PULLBACK)


def check_network(
    name: str, m: int, n: int, T: int, rng: np.random.Generator, device: str = "cpu", **options: Any
) -> Result:
    """Check a whole network, two layers and cross-entropy, along three random directions of every parameter.

    Parameters
    ----------
    name : str
        The model.
    m, n, T : int
        Inputs, hidden size, steps.
    rng : numpy.random.Generator
        Where random numbers come from.
    device : str
        Where ours are computed.
    **options
        Of the model.

    Returns
    -------
    Result
        Against finite differences alone.
    """
    network = models.network(name, m, (n, n), 7, **options)
    margin = 4 * MARGIN if n < 20 else MARGIN / 2  # at real size some unit is always nearer
    distance = 0.0
    while distance < margin:
        params, buffers = network.init(rng, dtype=np.float64)
        params = perturbed(params, rng, 0.6 / np.sqrt(n))
        buffers = network.rebuild(params, buffers)
        x, y = rng.standard_normal((T, 3, m)), rng.integers(0, 7, (T, 3))
        distance = network_kink_distance(network, params, buffers, x)
    ours = to_host(network.loss_and_gradients(*to_device((params, buffers, x, y), device))[1])

    def loss(p: Any) -> Any:
        p = admissible(p)
        return network.loss_and_gradients(p, network.rebuild(p, buffers), x, y)[0]

    options_of_check: dict[str, Any] = {"skew": skew(params), "kink_distance": lambda _: distance, "margin": margin}
    report = compare_gradients(loss, params, ours, directions=3, rng=rng, **options_of_check)
    return Result(_subject_of_network(name, n, options), report.largest, None, None)


def check_language_model(
    name: str, sizes: tuple[int, ...], rng: np.random.Generator, device: str = "cpu", **options: Any
) -> Result:
    """Check a language model: embedding, readout, every regularizer; all entries of every parameter.

    Loss and penalty, the same dropout in every evaluation, V = 7, embedding 4, T = 5, B = 3.

    Parameters
    ----------
    name : str
        The model.
    sizes : tuple of int
        Of the layers.
    rng : numpy.random.Generator
        Where random numbers come from.
    device : str
        Where ours are computed.
    **options
        Of `models.network`.

    Returns
    -------
    Result
        Against finite differences alone.
    """
    network = models.network(name, 7, sizes, 7, embedding=4, **options)

    def draw() -> tuple[Any, np.ndarray]:
        return rng.integers(0, 7, (5, 3)), rng.integers(0, 7, (5, 3))

    return _check_drawn(_subject_of_language_model(name, sizes), network, draw, rng, device)


def check_reader(
    name: str, sizes: tuple[int, int, int], rng: np.random.Generator, device: str = "cpu", **options: Any
) -> Result:
    """Check a reader along three random directions of every parameter; stories and questions of different lengths.

    The same dropout in every evaluation, V = 5, embedding 3, stories of 1 to 4 words, questions of 1 and 2, B = 3.

    Parameters
    ----------
    name : str
        The model.
    sizes : tuple of int
        Of the story's encoder, the question's, and the third layer.
    rng : numpy.random.Generator
        Where random numbers come from.
    device : str
        Where ours are computed.
    **options
        Of `models.network`, the reader's join among them.

    Returns
    -------
    Result
        Against finite differences alone.
    """
    network = models.network(name, 5, sizes, 5, embedding=3, readout="last", **options)

    def draw() -> tuple[Any, np.ndarray]:
        story = Padded(rng.integers(0, 5, (4, 3)), np.array([4, 1, 3]))
        return (story, Padded(rng.integers(0, 5, (2, 3)), np.array([2, 1, 2]))), rng.integers(0, 5, 3)

    # from the zero state, one step: nothing recurrent has a gradient, nor have gates of the past alone
    may_vanish = "layer2." if options["reader"] == "once" else None
    subject = _subject_of_reader(name, options)
    return _check_drawn(subject, network, draw, rng, device, directions=3, size=1.0, may_vanish=may_vanish)


def _check_drawn(
    subject: str,
    network: Network,
    draw: Callable[[], tuple[Any, np.ndarray]],
    rng: np.random.Generator,
    device: str,
    *,
    directions: int | None = None,
    size: float = 0.5,
    may_vanish: str | None = None,
) -> Result:
    """Loss and penalty on x and y that are drawn, all entries unless so many directions are given.

    size: of what is added to every parameter.  may_vanish: what names begin with whose gradient may be 0.
    """
    distance = smallest = 0.0
    while distance < 4 * MARGIN or smallest < 1e-3:  # what is tiny cannot be told from the loss's rounding
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

    options_of_check: dict[str, Any] = {"skew": skew(params), "kink_distance": lambda _: distance, "margin": MARGIN}
    options_of_check |= {"may_vanish": vanishing, "directions": directions, "rng": rng}
    report = compare_gradients(loss, params, ours, **options_of_check)
    largest = float("inf") if any(row.vacuous for row in report.rows) else report.largest
    return Result(subject, largest, None, None)


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
    """Every check there is, or those of some subjects.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where random numbers come from.
    oracle : Oracle, optional
        Gradients by another way.
    device : str
        Where ours are computed.
    only : str
        Subjects with this in them; every one has "".

    Returns
    -------
    list of Result
        Cells, parametrizations, models, models with other options, language models, and readers.
    """
    networks: list[tuple[str, int, int, int, dict[str, Any]]] = [(name, 4, 6, 5, {}) for name in models.names()]
    networks += [(name, 4, 8, 5, options) for name, options in VARIANTS] + [("nc-gru", 22, 56, 6, {})]
    rows = [check_cell(name, cell, rng, oracle, device) for name, cell in cells().items() if only in name]
    rows += [
        check_parametrization(*row, rng, oracle, device) for row in parametrizations() if only in _subject_of_map(*row)
    ]
    for name, m, n, T, options in networks:
        if only in _subject_of_network(name, n, options):
            rows.append(check_network(name, m, n, T, rng, device, **options))
    for name, sizes, options in LANGUAGE_MODELS:
        if only in _subject_of_language_model(name, sizes):
            rows.append(check_language_model(name, sizes, rng, device, **options))
    for name, own_sizes, options in READERS:
        if only in _subject_of_reader(name, options):
            rows.append(check_reader(name, own_sizes, rng, device, **options))
    return rows
