"""A GRU with a bug of an ordinary day; it needs NumPy alone, so that a program that has it begins quickly."""

import numpy as np


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def forward(case, bug=""):
    """h of a GRU with a bug, and nothing else."""
    x, h = case.inputs["x"], case.inputs["h0"]
    w = {name.removeprefix("weights."): array for name, array in case.inputs.items() if name.startswith("weights.")}
    for name, change in {
        "U_c transposed": {"U_c": w["U_c"].T},
        "U_r transposed": {"U_r": w["U_r"].T},
        "U_u negated": {"U_u": -w["U_u"]},
        "W_u doubled": {"W_u": 2 * w["W_u"]},
        "b_u missing": {"b_u": 0 * w["b_u"]},
        "b_c doubled": {"b_c": 2 * w["b_c"]},
    }.items():
        w = w | change if name == bug else w
    states = [h]
    h = 0 * h if bug == "h0 ignored" else h
    for x_t in x:
        a = {g: x_t @ w[f"W_{g}"].T + w[f"b_{g}"] for g in "ruc"}
        gate = (lambda v: np.clip(sigmoid(v), 0.3, 0.7)) if bug == "gates clipped" else sigmoid
        r, u = (gate(a[g] + h @ w[f"U_{g}"].T) for g in "ru")
        z = a["c"] + (r * h) @ w["U_c"].T
        c = np.tanh(z)
        if case.config["activation"] != "tanh":
            c = np.maximum(z, 0.1 * z) if bug == "relu leaky" else np.maximum(z, 0)
        old = {"first sequence for all": h[:1], "h0 carried": states[0]}.get(bug, h)
        h = (1 - u) * old + u * c
        states.append(h)
    return {"h": np.array(states)}
