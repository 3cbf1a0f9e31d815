"""xLSTM (Beck et al., arXiv:2405.04517): exponential input gates, kept finite by a state m that no output sees.

mLSTM, a matrix state C_t, i, f the pre-activations
    m_t = max(log f_t + m_{t-1}, i_t);  f'_t = exp(log f_t + m_{t-1} - m_t);  i'_t = exp(i_t - m_t)
    C_t = f'_t C_{t-1} + i'_t k_t v_t^T;  n_t = f'_t n_{t-1} + i'_t k_t
    o_t = C_t^T q_t / max(|n_t^T q_t|, exp(-m_t))
sLSTM, a vector state and memory mixing R within a head
    c_t = f'_t c_{t-1} + i'_t tanh(z_t);  n_t = f'_t n_{t-1} + i'_t;  h_t = sigmoid(o_t) c_t / n_t
    pre-activations x_g + R_g h_{t-1}, g of i f z o
log f is logsigmoid(f), or f itself: `forget` "sigmoid" or "exp".

The paper prints max(|n q|, 1) before there is an m; C, n carry exp(-m), so the 1 becomes exp(-m).  Its output gate of
the mLSTM, sigmoid(o) * o_t, is outside.  k is scaled by 1/sqrt(K).

Public code.  NX-AI/xlstm and transformers add 1e-6 to the mLSTM's denominator (`eps`), and begin with m = 0; xlstm's
sLSTM has m_1 = i_1 while n is 0, as if m_0 = -inf.  transformers, and xlstm's `chunkwise_simple`, scale q in place of
k: the same o, but C and n sqrt(K) times as large, which xlstm's recurrent step, where k is scaled, misreads.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.activations import sigmoid
from ortho_ref.conformance.cases.case import Arrays, Config
from ortho_ref.conformance.linear.delta import outer, read, times
from ortho_ref.conformance.linear.recurrence import Back, State


def log_forget(config: Config, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log f and its derivative by the pre-activation."""
    return (-np.logaddexp(0, -f), sigmoid(-f)) if config["forget"] == "sigmoid" else (f, np.ones_like(f))


def stabilised(
    log_f: np.ndarray, i: np.ndarray, m: np.ndarray, carries: Any = np.greater_equal
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Callable[..., State]]:
    """f', i' and the new m; back(df', di', dm) -> dlog_f, di, and dm before.

    carries: whether the new m is log f + m, and not i: where it is the larger.
    """
    a = log_f + m
    old = carries(a, i)
    new = np.where(old, a, i)  # xLSTM: m_t
    F, I = np.exp(a - new), np.exp(i - new)  # xLSTM: f'_t, i'_t

    def back(dF: np.ndarray, dI: np.ndarray, dnew: np.ndarray) -> State:
        da, di = F * dF, I * dI
        rest = dnew - da - di  # what goes through m, to the larger of the two
        da, di = da + np.where(old, rest, 0), di + np.where(old, 0, rest)
        return da, di, da

    return F, I, new, back


def floored(s: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """max(|s|, exp(-m)), and its derivatives by s and m."""
    floor = np.exp(-m)
    larger = np.abs(s) >= floor
    return np.where(larger, np.abs(s), floor), np.where(larger, np.sign(s), 0), np.where(larger, 0, -floor)


def mlstm(
    config: Config, x: Arrays, state: State, stabilised: Any = stabilised, floored: Any = floored
) -> tuple[np.ndarray, State, Back]:
    """mLSTM.  q, k (B, H, K), v (B, H, V), i, f (B, H); C (B, H, K, V), n (B, H, K), m (B, H)."""
    (C0, n0, m0), q, v, scale = state, x["q"], x["v"], config["scale"]
    k, (log_f, slope) = scale * x["k"], log_forget(config, x["f"])
    F, I, m, back_m = stabilised(log_f, x["i"], m0)
    F, I = F[..., None], I[..., None]
    C, n = F[..., None] * C0 + outer(I * k, v), F * n0 + I * k  # mLSTM: C_t, n_t
    floor, by_s, by_m = floored((n * q).sum(axis=-1), m)
    o = read(C, q) / (floor + config["eps"])[..., None]  # mLSTM: h_t before its output gate

    def back(do: np.ndarray, d_state: State) -> tuple[Arrays, State]:
        dtop = do / (floor + config["eps"])[..., None]
        dfloor = -(dtop * o).sum(axis=-1)
        ds = (dfloor * by_s)[..., None]
        dC, dn, dm = d_state[0] + outer(q, dtop), d_state[1] + ds * q, d_state[2] + dfloor * by_m
        dk = times(dC, v) + dn  # by i' k
        dF, dI = (dC * C0).sum(axis=(-2, -1)) + (dn * n0).sum(axis=-1), (dk * k).sum(axis=-1)
        dlog_f, di, dm0 = back_m(dF, dI, dm)
        found = {"q": times(C, dtop) + ds * n, "k": scale * I * dk, "v": read(dC, I * k), "i": di, "f": dlog_f * slope}
        return found, (F[..., None] * dC, F * dn, dm0)

    return o, (C, n, m), back


def slstm(config: Config, x: Arrays, state: State, stabilised: Any = stabilised) -> tuple[np.ndarray, State, Back]:
    """sLSTM.  x_i, x_f, x_z, x_o (B, H, D), R_i, R_f, R_z, R_o (H, D, D); h, c, n, m (B, H, D)."""
    h0, c0, n0, m0 = state
    a = {g: x[f"x_{g}"] + np.einsum("hij,bhj->bhi", x[f"R_{g}"], h0) for g in "ifzo"}
    z, out, (log_f, slope) = np.tanh(a["z"]), sigmoid(a["o"]), log_forget(config, a["f"])  # sLSTM: z_t, o_t
    F, I, m, back_m = stabilised(log_f, a["i"], m0)
    c, n = F * c0 + I * z, F * n0 + I  # sLSTM: c_t, n_t
    h = out * c / n  # sLSTM: h_t

    def back(do: np.ndarray, d_state: State) -> tuple[Arrays, State]:
        dh = do + d_state[0]
        dc, dn = d_state[1] + dh * out / n, d_state[2] - dh * h / n
        dlog_f, di, dm0 = back_m(dc * c0 + dn * n0, dc * z + dn, d_state[3])
        da = {"i": di, "f": dlog_f * slope, "z": dc * I * (1 - z * z), "o": dh * h * (1 - out)}
        found = {f"x_{g}": d for g, d in da.items()}
        found |= {f"R_{g}": np.einsum("bhi,bhj->hij", d, h0) for g, d in da.items()}
        dh0 = sum(np.einsum("hij,bhi->bhj", x[f"R_{g}"], d) for g, d in da.items())
        return found, (dh0, F * dc, F * dn, dm0)

    return h, (h, c, n, m), back
