"""What ortho_ref says of what the pages on eigenvalues, Neumann's drift, modReLU and delta rules show.

Each function takes a page's settings, and the arrays that the page draws at random, as the page gives them; it returns
numbers in the page's order.
"""

import math

import numpy as np

from gradients import cayley, gru_reset_before, neumann
from gradients.urnn import modrelu_norm
from ortho_ref.activations import modrelu, modrelu_pullback
from ortho_ref.cells import GRUResetBefore
from ortho_ref.conformance.linear.table import RECURRENCES
from ortho_ref.conformance.linear.through_time import forward
from ortho_ref.parametrizations.cayley import exact_buffers
from ortho_ref.parametrizations.exponential import exponential
from ortho_ref.parametrizations.householder import Householder
from ortho_ref.parametrizations.neumann import NeumannCayley, neumann_inverse
from ortho_ref.parametrizations.parametrization import defect, spectral_norm
from ortho_ref.parametrizations.rotations import TunableRotations
from ortho_ref.training.optimizers import Adam
from scripts.maintain.vectors.linear_cases import config_of


def orthogonal(parameters):
    """The four U: of Cayley with D, the exponential, rotations, reflections."""
    A, D, layers = np.array(parameters["A"], float), np.array(parameters["D"], float), parameters["layers"]
    V = np.array(parameters["vectors"]).T.astype(float)
    free = {"U": np.empty_like(A)}
    angles = {"theta_A": np.array(layers[::2], float), "theta_B": np.array(layers[1::2], float)}
    return [
        exact_buffers(A, D)["U"],
        exponential(A),
        TunableRotations(len(layers)).rebuild(angles, free)["U"],
        Householder(V.shape[1]).rebuild({"V": V}, free)["U"],
    ]


def eigenvalues(parameters):
    """For each U: det U, how many eigenvalues are -1, and the moduli of all angles, the smallest first."""
    rows = []
    for U in orthogonal(parameters):
        angles = np.sort(abs(np.angle(np.linalg.eigvals(U))))
        rows.append([np.linalg.det(U), np.sum(math.pi - angles < 1e-9), *angles])
    return np.array(rows)


def half_turn(short):
    """The entries that a rotation by pi - short needs with D = I, D = -I and the exponential; what a unit turns."""
    c, s = -math.cos(short), math.sin(short)
    U = np.array([[c, -s], [s, c]])
    entries = [abs(cayley.inverse_transform(U, D)[0, 1]) for D in (np.ones(2), -np.ones(2))]
    generator = np.array([[0, 1.0], [-1, 0]])
    turned = [spectral_norm(cayley.differential(a * generator, np.ones(2), generator)) for a in entries]
    return np.array([[entries[0], turned[0]], [entries[1], turned[1]], [math.pi - short, 1]])


def start(A, order, reset_every):
    """The map, with its parameters and buffers at A; of its -1s the defect is none."""
    of = NeumannCayley(len(A) // 2, order, reset_every)
    _, buffers = of.init(np.random.default_rng(0), len(A), dtype=np.float64)
    return of, {"A": A}, of.rebuild({"A": A}, buffers)


def algorithm_1(A, gradients, rate, order, reset_every):
    """||P||_2 and the defect after each update by Adam's step, with the forced reset."""
    of, params, buffers = start(A, order, reset_every)
    adam, rows = Adam(rate), []
    for gradient in gradients:
        params, buffers = of.retract(params, buffers, {"A": adam.delta("A", params["A"], gradient)})
        rows.append([spectral_norm(buffers["P"]), defect(buffers["U"])])
    return np.array(rows)


def released(A, gradients, rate, order, reset_every):
    """The defect after each update that feeds the series rate * gradient, while Adam moves A."""
    adam, D = Adam(rate), exact_buffers(A, np.ones(len(A)))["D"]
    A_tilde, defects = exact_buffers(A, D)["A_tilde"], []
    for k, gradient in enumerate(gradients, 1):
        A = A - adam.delta("A", A, gradient)
        due = reset_every is not None and k % reset_every == 0
        carried = neumann_inverse(A_tilde, A_tilde @ (rate * gradient), order)
        A_tilde = exact_buffers(A, D)["A_tilde"] if due else carried
        defects.append(defect(A_tilde @ (np.eye(len(A)) - A)))
    return np.array(defects)


def one_update(A, delta):
    """||P||_2 and the defect of orders 1, 2 and 3 after one update from the exact inverse."""
    M, I = np.linalg.inv(np.eye(len(A)) + A), np.eye(len(A))
    defects = [defect(neumann.series(M, delta, order) @ (I - A + delta)) for order in (1, 2, 3)]
    return np.array([spectral_norm(M @ delta), *defects])


def modrelu_at(z, b, h):
    """Value, derivatives, distance from a kink, jump, difference, complex norm, released code's value."""
    z_, b_ = np.array([z]), np.array([b])
    y = modrelu(z_, b_)
    (dz,), (db,) = modrelu_pullback(np.ones(1), z_, b_, y)
    across = modrelu(np.array([-h, h, -5e-324, 5e-324]), np.full(4, b))
    distance = min(abs(z), abs(abs(z) + b))
    jump, difference = across[3] - across[2], (across[1] - across[0]) / (2 * h)
    softened = max(abs(z) + b, 0) / (abs(z) + 1e-5) * z
    return np.array([y[0], dz, db, distance, jump, difference, modrelu_norm(z_.astype(complex), b_), softened])


def jacobians(angle, kind, a, alike=False):
    """A tanh GRU's, of two units at h = 0 whose gates are at a and -a by turns."""
    c, s = math.cos(angle), math.sin(angle)
    w = {name: np.zeros(shape) for name, shape in GRUResetBefore("tanh").shapes(2, 2).items()}
    w["U_c"] = np.array([[c, -s], [s, c]] if kind == "rotation" else [[c, s], [s, -c]])
    side = np.array([-a, -a if alike else a])
    w |= {"W_u": np.stack([side, -side], 1), "b_r": np.full(2, 60.0)}
    return [gru_reset_before.step(GRUResetBefore("tanh"), w, x, np.zeros(2)).J for x in np.eye(2)]


def gates(angle, kind, a):
    """Norm of one step, growth a step in the long run; the products' norms with mixed gates and with gates alike."""
    mixed = jacobians(angle, kind, a)
    growth = math.sqrt(abs(np.linalg.eigvals(mixed[1] @ mixed[0])).max())
    return np.array([spectral_norm(mixed[0]), growth]), np.stack(
        [products(mixed), products(jacobians(angle, kind, a, alike=True))], 1
    )


def products(pair):
    """||J_t ... J_1||_2 for t = 1 to 100, the two of a pair by turns."""
    product, norms = np.eye(2), []
    for k in range(100):
        product = pair[k % 2] @ product
        norms.append(spectral_norm(product))
    return np.array(norms)


def delta_rule(drawn, rule):
    """||dL/dh_t||, the largest and the smallest singular value of J_T ... J_{t+1}, t = 0 to T, by the kit's adjoint.

    The columns of a matrix state do not meet: one is the gradient, the others are unit vectors.
    """
    keys = np.array(drawn["keys"], float)
    T, K = keys.shape
    dS = np.column_stack([drawn["last"], np.eye(K)])[None, None]
    k = keys[:, None, None]
    gates = {"beta": np.full((T, 1, 1), rule["beta"]), "g": np.full((T, 1, 1), math.log(rule["alpha"]))}
    inputs = {"q": k, "k": k, "v": np.zeros((T, 1, 1, K + 1)), **gates}
    config = config_of(RECURRENCES["gated_delta_rule"], {"K": K}, normalise=False)
    rows = []
    for back in [*reversed(forward(config, inputs)[1]), None]:
        values = np.linalg.svd(dS[0, 0, :, 1:], compute_uv=False)
        rows.insert(0, [np.linalg.norm(dS[0, 0, :, 0]), values[0], values[-1]])
        if back is not None:
            _, (dS,) = back(np.zeros((1, 1, K + 1)), (dS,))
    return np.array(rows)
