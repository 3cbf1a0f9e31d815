"""Every hand-derived gradient against finite differences and, where torch is installed, autograd."""

import importlib.util
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from gradients.finite_difference import check
from gradients.map_problem import free_entries, random_map_problem
from gradients.problem import MARGIN, admissible, largest_error, network_kink_distance, random_problem, skew
from ortho_ref import fused, models, scan
from ortho_ref.activations import ACTIVATIONS
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells import LSTM, Cell, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.parametrizations import by_name
from scripts.program import BAD_INPUT, check_device, device_option, fail, limit_threads, run

TOLERANCE_DIFFERENCES, TOLERANCE_ANALYTIC, TOLERANCE_PULLBACK = 1e-7, 1e-12, 1e-11


class Result(NamedTuple):
    """Largest relative errors of one subject; None where a comparison does not apply.

    allowed: between two analytic forms.
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
    """Every cell with every activation and, for one activation each, with every option."""
    named: dict[str, Cell] = {"LSTM": LSTM(), "Elman modrelu complex": Elman("modrelu", complex=True)}
    for kind in (GRUResetBefore, GRUResetAfter, Elman, FastRNN):
        named |= {f"{kind.__name__} {activation}": kind(activation) for activation in ACTIVATIONS}
    named |= {
        "GRUResetAfter tanh, b_hh": GRUResetAfter(recurrent_bias=True),
        "GRUResetAfter modrelu, no reset gate": GRUResetAfter("modrelu", reset_gate=False),
        "GRUResetAfter modrelu, no update gate": GRUResetAfter("modrelu", update_gate=False),
        "GRUResetAfter tanh, no gates, b_hh": GRUResetAfter("tanh", False, False, True),
        "FastRNN relu, sgornn": FastRNN("relu", "sgornn"),
        "FastRNN relu, sgornn as printed": FastRNN("relu", "sgornn-as-printed"),
    }
    return named


def parametrizations() -> list[tuple[str, int, bool]]:
    """Every parametrization by its name, at sizes n, real or complex: small with all cases, and as large as in use."""
    cayley = [(f"{kind}:{k}", n) for k, n in ((2, 5), (0, 8), (40, 56)) for kind in ("scaled_cayley", "neumann_cayley")]
    real = [*cayley, ("exponential", 5), ("exponential", 30)]
    real += [("householder:1", 5), ("householder:4", 5), ("householder:5", 5), ("householder:16", 56)]
    real += [("volume_preserving:1", 6), ("volume_preserving", 6), ("volume_preserving", 56), ("fft_rotations", 64)]
    either = [("tunable_rotations:2", 6), ("tunable_rotations:6", 6), ("tunable_rotations:6", 20)]
    either += [("fft_rotations", 2), ("fft_rotations", 8)]
    unitary = [("structured_unitary", 2), ("structured_unitary", 7), ("structured_unitary", 57)]
    unitary += [("geodesic_unitary", 6)]
    return [(*row, False) for row in real + either] + [(*row, True) for row in either + unitary]


def check_cell(name: str, cell: Cell, rng: np.random.Generator, torch: bool, device: str = "cpu") -> Result:
    """All entries of every weight, of x and h0; T = 6, B = 3, m = 3, n = 5, float64, vectors and tokens."""
    by_differences, by_fused, by_autograd = [], [], []
    for tokens in (False, True):
        problem = random_problem(cell, rng, T=6, tokens=tokens)
        there = problem.on(device)
        ours = to_host(there.gradients(scan))
        options: dict[str, Any] = {"kink_distance": problem.kink_distance, "may_vanish": problem.may_vanish}
        report = check(problem.loss, problem.point, ours, **options)
        # a token that does not occur leaves its column of W without a gradient, never all of W
        by_differences.append(float("inf") if any(row.vacuous for row in report.rows) else report.largest)
        by_fused.append(largest_error(to_host(there.gradients(fused)), ours)[0])
        if torch:
            from scripts.oracle import autograd as oracle

            by_autograd.append(largest_error(ours, oracle.gradients_of(problem))[0])
    return Result(name, max(by_differences), max(by_fused), max(by_autograd) if torch else None)


def check_parametrization(
    name: str, n: int, complex: bool, rng: np.random.Generator, torch: bool, device: str = "cpu"
) -> Result:
    """Pullback of Re sum(dU^* U) at a generic point, all free entries."""
    problem = random_map_problem(by_name(name, n, complex), n, rng)
    ours = to_host(problem.on(device).gradients())
    autograd = None
    if torch:
        from scripts.oracle import autograd as oracle

        autograd = largest_error(free_entries(ours), oracle.gradients_of_map(problem))[0]
    report = problem.check(ours)
    differences = float("inf") if any(row.vacuous for row in report.rows) else report.largest
    subject = f"{name}, n = {n}{', complex' if complex else ''}"
    return Result(subject, differences, None, autograd, TOLERANCE_PULLBACK)


def check_network(
    name: str, m: int, n: int, T: int, rng: np.random.Generator, device: str = "cpu", **options: Any
) -> Result:
    """A whole network, two layers and cross-entropy, along three random directions of every parameter."""
    network = models.network(name, m, (n, n), 7, **options)
    margin = 4 * MARGIN if n < 20 else MARGIN / 2  # at real size some unit is always nearer
    distance = 0.0
    while distance < margin:
        params, buffers = network.init(rng, np.float64)
        for key, value in params.items():
            if not value.ndim:  # scalar gates start almost shut, which leaves gradients of nothing but rounding
                params[key] = np.asarray(-1 + 0.3 * rng.standard_normal())
            elif "." not in key.partition(".")[2]:  # orthogonal weights' own parameters stay as they are drawn
                params[key] = value + 0.6 * rng.standard_normal(value.shape) / np.sqrt(value.shape[-1])
        x, y = rng.standard_normal((T, 3, m)), rng.integers(0, 7, (T, 3))
        distance = network_kink_distance(network, params, buffers, x)
    ours = to_host(network.loss_and_gradients(*to_device((params, buffers, x, y), device))[1])

    def loss(p: Any) -> Any:
        p = admissible(p)
        return network.loss_and_gradients(p, network.rebuild(p, buffers), x, y)[0]

    options_of_check: dict[str, Any] = {"skew": skew(params), "kink_distance": lambda _: distance, "margin": margin}
    report = check(loss, params, ours, directions=3, rng=rng, **options_of_check)
    extra = "".join(f" {key}={value}" for key, value in options.items())
    return Result(f"2 x {name}{extra}{f', n = {n}' if n >= 20 else ''}", report.largest, None, None)


def results(rng: np.random.Generator, torch: bool, device: str = "cpu") -> list[Result]:
    """All of them."""
    rows = [check_cell(name, cell, rng, torch, device) for name, cell in cells().items()]
    rows += [check_parametrization(*row, rng, torch, device) for row in parametrizations()]
    for name in models.names():
        rows.append(check_network(name, 4, 6, 5, rng, device))
    for name, options in VARIANTS:
        rows.append(check_network(name, 4, 8, 5, rng, device, **options))
    rows.append(check_network("nc-gru", 22, 56, 6, rng, device))
    return rows


#: Models with other options than their own.
VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nc-gru", {"orthogonal": "rc"}),
    ("nc-gru", {"orthogonal": "ruc"}),
    ("eurnn", {"style": "fft_rotations"}),
    ("eurnn", {"capacity": 4, "complex": False}),
    ("goru", {"style": "tunable_rotations", "capacity": 4}),
    ("goru", {"style": "householder", "activation": "tanh"}),
    ("goru", {"reset_gate": False}),
    ("goru", {"update_gate": False}),
    ("sgornn", {"phi": "exp"}),
)


def main(
    seed: Annotated[int, typer.Option(min=0, help="Of weights, inputs and directions.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="BLAS threads.")] = 1,
    device: Annotated[
        str, device_option("cpu or gpu: of the gradients checked; differences and autograd are the host's.")
    ] = "cpu",
) -> None:
    """Largest relative error of every cell, parametrization and model in float64; exit code 1 above tolerance."""
    limit_threads(threads)
    try:
        check_device(device)
    except BAD_INPUT as error:
        fail(error)
    torch = importlib.util.find_spec("torch") is not None
    rows = results(np.random.default_rng(seed), torch, device)
    title = f"Largest relative error of hand-derived gradients, float64, seed {seed}, {device}"
    caption = (
        f"against finite differences (allowed: {TOLERANCE_DIFFERENCES:.0e}); "
        f"of fused against scan, and against autograd ({TOLERANCE_ANALYTIC:.0e}, pullbacks {TOLERANCE_PULLBACK:.0e})"
    )
    table = Table(title=title, caption=caption, padding=(0, 0, 0, 1), box=SIMPLE)  # 80 columns hold all of it
    table.add_column("subject", no_wrap=True)
    for heading in ("numeric", "fused", "autograd"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        figures = ("" if figure is None else f"{figure:.1e}" for figure in row[1:4])
        table.add_row(row.subject, *figures, "[green]ok" if row.passed else "[red]FAIL")
    console = Console()
    console.print(table)
    if not torch:
        message = "torch is not installed: no comparison with autograd (pip install -e '.[crosscheck]')"
        console.print(message, markup=False, highlight=False)
    if not all(row.passed for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
