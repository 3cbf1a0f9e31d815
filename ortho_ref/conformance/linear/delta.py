"""Recurrences with a matrix state S (B, H, K, V) that is read by keys: o_t = S_t^T q_t.

Gated DeltaNet (Yang, Kautz, Hatamizadeh, arXiv:2412.06464), the paper's S_t transposed, g = log alpha
    S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T
DeltaProduct (Siems et al., arXiv:2502.10297): N writes a step; gated: one decay before them
    S_t = (prod_j (I - beta_tj k_tj k_tj^T)) alpha_t S_{t-1} + sum_j (prod_{l>j} ...) beta_tj k_tj v_tj^T
KDA (Kimi Team, arXiv:2510.26692): a decay for each channel of a key
    S_t = (I - beta_t k_t k_t^T) Diag(alpha_t) S_{t-1} + beta_t k_t v_t^T
RWKV-7 (Peng et al., arXiv:2503.14456), transposed, w the log of the paper's decay; what is removed is read before it
    S_t = (Diag(exp w_t) - (a_t * kappa_t) kappa_t^T) S_{t-1} + k_t v_t^T

Public code.  flash-linear-attention (fla) and transformers scale q by 1/sqrt(K), and divide q and k by
sqrt(|.|^2 + 1e-6) where `use_qk_l2norm_in_kernel` is set; decays come as logarithms, and decay comes before the write.
fla's DeltaProduct has the writes of a step one after another on the time axis.  RWKV-7: fla takes w as here, kk for
kappa and a; its chunked form takes -kk and kk * a.  RWKV-LM's kernels take w' with decay exp(-exp(w')), and keep S^T.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Config
from ortho_ref.conformance.linear.recurrence import Back, State

Change: TypeAlias = Callable[[np.ndarray], np.ndarray]


def outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b^T."""
    return a[..., :, None] * b[..., None, :]


def read(S: np.ndarray, k: np.ndarray) -> np.ndarray:
    """S^T k."""
    return (k[..., None, :] @ S)[..., 0, :]


def times(S: np.ndarray, v: np.ndarray) -> np.ndarray:
    """S v."""
    return (S @ v[..., :, None])[..., 0]


def unit(config: Config, x: np.ndarray) -> tuple[np.ndarray, Change]:
    """x / sqrt(|x|^2 + eps), if so configured, and its adjoint."""
    if not config["normalise"]:
        return x, lambda dy: dy
    r = 1 / np.sqrt((x * x).sum(axis=-1, keepdims=True) + config["eps"])
    y = x * r
    return y, lambda dy: r * (dy - y * (y * dy).sum(axis=-1, keepdims=True))


def decayed(S: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], State]]:
    """Diag(exp g) S, g (B, H) or (B, H, K); back(dP) -> dS, dg."""
    alpha = np.exp(g).reshape(*g.shape[:2], -1, 1)
    P = alpha * S  # Gated DeltaNet, KDA: decay comes first

    def back(dP: np.ndarray) -> State:
        dg = (dP * P).sum(axis=-1)
        return alpha * dP, dg if g.ndim == 3 else dg.sum(axis=-1)

    return P, back


def written(
    S: np.ndarray, k: np.ndarray, v: np.ndarray, beta: np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray], State]]:
    """(I - beta k k^T) S + beta k v^T, as S + beta k e^T; back(dP) -> dS, dk, dv, dbeta."""
    e, b = v - read(S, k), beta[..., None]  # Gated DeltaNet, KDA: what S lacks of v

    def back(dP: np.ndarray) -> State:
        de, along = read(dP, b * k), times(dP, e)  # of P = S + beta k e^T
        dk = b * along - times(S, de)  # k stands in e = v - S^T k, too
        return dP - outer(k, de), dk, de, (k * along).sum(axis=-1)

    return S + outer(b * k, e), back


def in_turn(S: np.ndarray, *steps: Any) -> tuple[np.ndarray, Callable[[np.ndarray], Any]]:
    """Steps (function, *arguments) of S; back(dP) -> dS, and for each step the gradients by its arguments."""
    backs = []
    for function, *arguments in steps:
        S, back_j = function(S, *arguments)
        backs.append(back_j)

    def back(dP: np.ndarray) -> Any:
        parts = []
        for back_j in reversed(backs):
            dP, *part = back_j(dP)
            parts.append(part)
        return dP, *reversed(parts)

    return S, back


def decay_then_write(
    S: np.ndarray, g: np.ndarray, k: np.ndarray, v: np.ndarray, beta: np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray], State]]:
    """From S_{t-1} to S_t, with k, v, beta of N writes; back(dS_t) -> dS_{t-1}, dg, dk, dv, dbeta."""
    writes = [(written, *write) for write in zip(k, v, beta, strict=True)]  # DeltaProduct: one factor after another
    P, own = in_turn(S, (decayed, g), *writes)

    def back(dP: np.ndarray) -> State:
        dS, (dg,), *parts = own(dP)
        return dS, dg, *(np.stack(each) for each in zip(*parts, strict=True))

    return P, back


def delta_product(
    config: Config, x: Arrays, state: State, transition: Any = decay_then_write
) -> tuple[np.ndarray, State, Back]:
    """Gated DeltaProduct.  q (B, H, K), k (N, B, H, K), v (N, B, H, V), beta (N, B, H), g (B, H)."""
    (S,), scale = state, config["scale"]
    (q, back_q), (k, back_k) = unit(config, x["q"]), unit(config, x["k"])
    S, back_S = transition(S, x["g"], k, x["v"], x["beta"])

    def back(do: np.ndarray, d_state: State) -> tuple[Arrays, State]:
        dS, dg, dk, dv, dbeta = back_S(d_state[0] + outer(scale * q, do))  # of o = S^T (scale q)
        return {"q": back_q(scale * times(S, do)), "k": back_k(dk), "v": dv, "beta": dbeta, "g": dg}, (dS,)

    return read(S, scale * q), (S,), back


def gated_delta_rule(config: Config, x: Arrays, state: State, **parts: Any) -> tuple[np.ndarray, State, Back]:
    """Gated DeltaNet, g (B, H), and KDA, g (B, H, K): one write.  q, k (B, H, K), v (B, H, V), beta (B, H)."""
    one = {name: x[name][None] for name in ("k", "v", "beta")}
    o, state, back_one = delta_product(config, {**x, **one}, state, **parts)

    def back(do: np.ndarray, d_state: State) -> tuple[Arrays, State]:
        d, before = back_one(do, d_state)
        return {name: a[0] if name in one else a for name, a in d.items()}, before

    return o, state, back


def decay_and_remove(
    S: np.ndarray, w: np.ndarray, reads: np.ndarray, writes: np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray], State]]:
    """(Diag(exp w) - writes reads^T) S; back(dP) -> dS, dw, dreads, dwrites."""
    (P, before), s = decayed(S, w), read(S, reads)

    def back(dP: np.ndarray) -> State:
        (dS, dw), ds = before(dP), -read(dP, writes)
        return dS + outer(reads, ds), dw, times(S, ds), -times(dP, s)

    return P - outer(writes, s), back


def rwkv7(
    config: Config, x: Arrays, state: State, transition: Any = decay_and_remove
) -> tuple[np.ndarray, State, Back]:
    """RWKV-7's wkv, without its bonus.  r, w, k, kappa, a (B, H, K), v (B, H, V)."""
    (S,), r, k, v, a = state, x["r"], x["k"], x["v"], x["a"]
    kappa, back_kappa = unit(config, x["kappa"])
    P, back_P = transition(S, x["w"], kappa, a * kappa)  # RWKV-7: Diag(w) - (a * kappa) kappa^T
    S = P + outer(k, v)  # RWKV-7: + k v^T

    def back(do: np.ndarray, d_state: State) -> tuple[Arrays, State]:
        dP = d_state[0] + outer(r, do)
        dS, dw, dreads, dwrites = back_P(dP)
        d = {"r": times(S, do), "w": dw, "k": times(dP, v), "v": read(dP, k), "a": kappa * dwrites}
        return {**d, "kappa": back_kappa(dreads + a * dwrites)}, (dS,)

    return read(S, r), (S,), back
