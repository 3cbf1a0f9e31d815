"""The recurrences of kind `linear` once more in PyTorch, from docs/linear.md: every step by its transition matrix.

Nothing here is shared with ortho_ref; the derivatives are autograd's.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

Tensors = dict[str, Any]
STATES = {"lru": "x", "mingru": "h", "mlstm": "Cnm", "slstm": "hcnm"}  # of all others S
WEIGHTS = {"nu_log", "theta_log", "gamma_log", "R_i", "R_f", "R_z", "R_o"}  # all other inputs are of a step


def forward(config: Mapping[str, Any], x: Tensors, like: Mapping[str, Any]) -> Tensors:
    """o and the last states, by the kit's names.

    like: do and the gradients by the last states, which have the shapes of o and of the states.
    """
    name = config["recurrence"]
    states, step, T = STATES.get(name, "S"), _STEPS[name], len(like["do"])
    empty = [torch.zeros_like(like[f"d{s}_T"]) for s in states]
    if name == "slstm":
        empty[-1] = empty[-1] - math.inf
    state = [x.get(f"{s}0", e) for s, e in zip(states, empty, strict=True)]
    timed = {n: a for n, a in x.items() if n not in WEIGHTS | {f"{s}0" for s in states}}
    outputs = []
    for t in range(T):
        if "resets" in x:
            pairs = zip(empty, state, strict=True)
            state = [torch.where(x["resets"][t].reshape(-1, *[1] * (s.ndim - 1)), e, s) for e, s in pairs]
        o, *state = step(config, x | {n: a[t] for n, a in timed.items()}, *state)
        outputs.append(o)
    return {"o": torch.stack(outputs)} | {f"{s}_T": a for s, a in zip(states, state, strict=True)}


def _unit(config: Mapping[str, Any], a: Any) -> Any:
    return a * torch.rsqrt((a * a).sum(-1, keepdim=True) + config["eps"]) if config["normalise"] else a


def _outer(a: Any, b: Any) -> Any:
    return torch.einsum("...i,...j->...ij", a, b)


def _delta(config: Mapping[str, Any], x: Tensors, S: Any) -> tuple[Any, ...]:
    """One write, or the N of DeltaProduct: S = A S + b k v^T with the matrix A = I - b k k^T."""
    q, g = config["scale"] * _unit(config, x["q"]), x["g"]
    writes = [_unit(config, x["k"]), x["v"], x["beta"][..., None]]
    alpha = torch.exp(g if g.ndim == q.ndim else g[..., None].expand(q.shape))
    S = torch.diag_embed(alpha) @ S
    if config["recurrence"] != "delta_product":
        writes = [a[None] for a in writes]
    for k, v, beta in zip(*writes, strict=True):
        S = (torch.eye(k.shape[-1], dtype=S.dtype) - _outer(beta * k, k)) @ S + _outer(beta * k, v)
    return torch.einsum("bhkv,bhk->bhv", S, q), S


def _rwkv7(config: Mapping[str, Any], x: Tensors, S: Any) -> tuple[Any, ...]:
    kappa = _unit(config, x["kappa"])
    A = torch.diag_embed(torch.exp(x["w"])) - _outer(x["a"] * kappa, kappa)
    S = A @ S + _outer(x["k"], x["v"])
    return torch.einsum("bhkv,bhk->bhv", S, x["r"]), S


def _lru(config: Mapping[str, Any], x: Tensors, state: Any) -> tuple[Any, ...]:
    modulus, angle = torch.exp(-torch.exp(x["nu_log"])), torch.exp(x["theta_log"])
    gamma = torch.exp(x["gamma_log"]) if config["gamma"] == "learned" else torch.sqrt(1 - modulus**2)
    state = torch.polar(modulus, angle) * state + gamma * x["u"]
    return state, state


def _mingru(config: Mapping[str, Any], x: Tensors, h: Any) -> tuple[Any, ...]:
    z, content = torch.sigmoid(x["a"]), x["c"]
    if config["activation"] == "g":
        content = torch.where(content >= 0, content + 0.5, torch.sigmoid(content))
    h = torch.sigmoid(-x["a"]) * h + z * content
    return h, h


def _stabilised(config: Mapping[str, Any], f: Any, i: Any, m: Any) -> tuple[Any, Any, Any]:
    log_f = torch.nn.functional.logsigmoid(f) if config["forget"] == "sigmoid" else f
    new = torch.maximum(log_f + m, i)
    return torch.exp(log_f + m - new), torch.exp(i - new), new


def _mlstm(config: Mapping[str, Any], x: Tensors, C: Any, n: Any, m: Any) -> tuple[Any, ...]:
    f, i, m = _stabilised(config, x["f"], x["i"], m)
    k, q, f, i = config["scale"] * x["k"], x["q"], f[..., None], i[..., None]
    C, n = f[..., None] * C + _outer(i * k, x["v"]), f * n + i * k
    denominator = torch.maximum(torch.abs((n * q).sum(-1)), torch.exp(-m)) + config["eps"]
    return torch.einsum("bhkv,bhk->bhv", C, q) / denominator[..., None], C, n, m


def _slstm(config: Mapping[str, Any], x: Tensors, h: Any, c: Any, n: Any, m: Any) -> tuple[Any, ...]:
    i, f, z, o = (x[f"x_{g}"] + torch.einsum("hij,bhj->bhi", x[f"R_{g}"], h) for g in "ifzo")
    f, i, m = _stabilised(config, f, i, m)
    c, n = f * c + i * torch.tanh(z), f * n + i
    h = torch.sigmoid(o) * c / n
    return h, h, c, n, m


_STEPS: dict[str, Callable[..., tuple[Any, ...]]] = {
    **dict.fromkeys(("gated_delta_rule", "delta_product", "kda"), _delta),
    "rwkv7": _rwkv7,
    "lru": _lru,
    "mingru": _mingru,
    "mlstm": _mlstm,
    "slstm": _slstm,
}
