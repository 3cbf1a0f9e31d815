"""What four departures of released code do to the numbers: docs/errata.md, at its end.  Four seconds."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: at n = 56 threads only cost

import numpy as np

from ortho_ref import models
from ortho_ref.activations import modrelu, sigmoid
from ortho_ref.cells import GRUResetAfter, GRUResetBefore
from ortho_ref.parametrizations.neumann import neumann_inverse
from ortho_ref.parametrizations.parametrization import defect
from ortho_ref.training.optimizers import Adam
from tasks.parenthesis import Parenthesis

task, n, rate = Parenthesis(length=50), 56, 1e-3


def train(release=None, seed=0, updates=50, **options):
    """Losses; defects of U_c; cosines between the gradients of A_c and A_r.  release: the departure, or None."""
    rng = np.random.default_rng(seed)
    net = models.network("nc-gru", task.input.vocabulary, [n], task.output_size, negative_ones=40, **options)
    params, buffers = net.init(rng, dtype=np.float64)
    adam, losses, defects, cosines = Adam(rate), [], [], []
    for _, batch in zip(range(updates), task.batches(rng, 16), strict=False):
        loss, gradients, _ = net.loss_and_gradients(params, buffers, batch.x, batch.y)
        dA_c, dA_r = gradients["layer0.U_c.A"], gradients.get("layer0.U_r.A")
        if dA_r is not None:
            cosines.append((dA_c * dA_r).sum() / np.linalg.norm(dA_c) / np.linalg.norm(dA_r))
        if release == "one gradient":
            gradients["layer0.U_c.A"] = dA_r
        deltas = {name: adam.delta(name, params[name], gradient) for name, gradient in gradients.items()}
        A_tilde = buffers["layer0.U_c"]["A_tilde"]
        params, buffers = net.retract(params, buffers, deltas)
        if release == "rate * gradient":
            A_tilde = neumann_inverse(A_tilde, A_tilde @ (rate * dA_c), order=2)
            U = A_tilde @ (np.eye(n) - params["layer0.U_c.A"]) * buffers["layer0.U_c"]["D"]
            buffers["layer0.U_c"] = buffers["layer0.U_c"] | {"A_tilde": A_tilde, "U": U}
        losses.append(loss)
        defects.append(defect(buffers["layer0.U_c"]["U"]))
    return np.array(losses), np.array(defects), np.array(cosines)


for release in (None, "rate * gradient"):
    losses, defects, _ = train(release, reset_every=None)
    print(release, "defect after 1, 10, 49:", *(f"{d:.1e}" for d in defects[[0, 9, 48]]))

_, _, cosines = train(orthogonal="rc", exact=True)
print("cosine: median, least, largest", *(f"{f(cosines):.2f}" for f in (np.median, np.min, np.max)))
for release in (None, "one gradient"):
    last = [train(release, seed, orthogonal="rc", exact=True)[0][-5:].mean() for seed in range(3)]
    print(release, "loss of updates 46 to 50, three seeds:", *(f"{loss:.3f}" for loss in last))

rng = np.random.default_rng(0)
params, buffers = models.build("nc-gru", 10, n, negative_ones=40).init(rng, dtype=np.float64)
w = {name: value for name, value in params.items() if name != "U_c.A"} | {"U_c": buffers["U_c"]["U"]}
w |= {b: 0.5 * rng.standard_normal(n) for b in ("b_r", "b_u", "b_c")}
x = rng.standard_normal((100, 16, 10))


def states_of(step):
    """The states of 100 steps from h_0 = 0."""
    h = [np.zeros((16, n))]
    for x_t in x:
        h.append(step(x_t, h[-1]))
    return np.array(h[1:])


def before(w):
    """Reset before U_c: the paper's equation (1), with modReLU."""
    return states_of(lambda x_t, h: GRUResetBefore("modrelu").step_forward(w, x_t, h)[0])


def after(w):
    """Reset after U_c, as in PyTorch and cuDNN."""
    same = {f"{k}_r": w[f"{k}_r"] for k in "WUb"} | {f"{k}_h": w[f"{k}_c"] for k in "WUb"}
    same |= {f"{k}_z": -w[f"{k}_u"] for k in "WUb"}  # z = 1 - u
    return states_of(lambda x_t, h: GRUResetAfter("modrelu").step_forward(same, x_t, h)[0])


def keep(x_t, h):
    """A step whose u weighs the old state."""
    r, u = (sigmoid(x_t @ w[f"W_{g}"].T + h @ w[f"U_{g}"].T + w[f"b_{g}"]) for g in "ru")
    return u * h + (1 - u) * modrelu(x_t @ w["W_c"].T + (r * h) @ w["U_c"].T, w["b_c"])


def apart(a, b):
    """Relative distances of two sequences of states at steps 1, 2, 10 and 100."""
    return " ".join(f"{np.linalg.norm(a[t] - b[t]) / np.linalg.norm(a[t]):.1e}" for t in (0, 1, 9, 99))


print("reset after, steps 1, 2, 10, 100:", apart(before(w), after(w)))
for name, value in (("r = 1", {"b_r": np.full(n, 1e3)}), ("U_c diagonal", {"U_c": np.diag(np.diag(w["U_c"]))})):
    print(f"    {name}:", apart(before(w | value), after(w | value)))
flipped = w | {f"{k}_u": -w[f"{k}_u"] for k in "WUb"}
print("keep gate, as it is:", apart(states_of(keep), before(w)))
print("    with W_u, U_u, b_u negated:", apart(states_of(keep), before(flipped)))
