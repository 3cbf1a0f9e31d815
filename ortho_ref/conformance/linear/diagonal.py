"""Recurrences with a vector state and a diagonal transition; o_t is the state.

LRU (Orvieto et al., arXiv:2303.06349), u_t = B x_t complex, the projections outside
    lambda = exp(-exp(nu_log) + i exp(theta_log));  x_t = lambda x_{t-1} + gamma u_t
    gamma = exp(gamma_log), learned, at first sqrt(1 - |lambda|^2); much public code computes that from lambda at
    every step, and so sends a gradient to nu_log: `gamma` "computed"

minGRU (Feng et al., arXiv:2410.01201)
    h_t = (1 - z_t) h_{t-1} + z_t c_t,  z_t = sigmoid(a_t), z the weight of the new content
    c_t as it is: `activation` "identity"; of the log-space form, which needs c > 0, g(c) = c + 1/2 for c >= 0, else
    sigmoid(c): "g".  The authors' code has "g" throughout, and hands on (h, log h) as the state
"""

from typing import Any

import numpy as np

from ortho_ref.activations import sigmoid
from ortho_ref.conformance.cases.case import Arrays, Config
from ortho_ref.conformance.linear.recurrence import Back, State


def gamma(config: Config, x: Arrays) -> tuple[np.ndarray, str, np.ndarray]:
    """gamma, the input that it is made of, and its derivative by that."""
    if config["gamma"] == "learned":
        value = np.exp(x["gamma_log"])
        return value, "gamma_log", value
    nu = np.exp(x["nu_log"])
    value = np.sqrt(-np.expm1(-2 * nu))  # LRU: sqrt(1 - |lambda|^2), |lambda| = exp(-nu)
    return value, "nu_log", nu * np.exp(-2 * nu) / value


def lru(config: Config, x: Arrays, state: State, gamma: Any = gamma) -> tuple[np.ndarray, State, Back]:
    """LRU.  u (B, D) complex, nu_log, theta_log, gamma_log (D)."""
    (before,), u, nu, theta = state, x["u"], np.exp(x["nu_log"]), np.exp(x["theta_log"])
    eigenvalue = np.exp(-nu + 1j * theta)  # LRU: lambda
    scale, name, slope = gamma(config, x)
    new = eigenvalue * before + scale * u  # LRU: x_t

    def back(do: np.ndarray, d_state: State) -> tuple[Arrays, State]:
        d = do + d_state[0]
        towards = (d.conj() * eigenvalue * before).sum(axis=0)  # Re of it: dL/dlog|lambda|; -Im: by the angle
        found = {"u": scale * d, "nu_log": -nu * towards.real, "theta_log": -theta * towards.imag}
        own = slope * (d.conj() * u).real.sum(axis=0)
        return {**found, name: found.get(name, 0) + own}, (eigenvalue.conj() * d,)

    return new, (new,), back


def mingru(config: Config, x: Arrays, state: State) -> tuple[np.ndarray, State, Back]:
    """minGRU.  a, c (B, D): the pre-activations of gate and content."""
    (before,), a, c = state, x["a"], x["c"]
    z, keeps, s = sigmoid(a), sigmoid(-a), sigmoid(c)  # minGRU: z; 1 - z with all its digits
    content, slope = c, np.ones_like(c)
    if config["activation"] == "g":
        content, slope = np.where(c >= 0, c + 0.5, s), np.where(c >= 0, 1.0, s * (1 - s))
    h = keeps * before + z * content  # minGRU: h_t

    def back(do: np.ndarray, d_state: State) -> tuple[Arrays, State]:
        dh = do + d_state[0]
        return {"a": dh * (content - before) * z * keeps, "c": dh * z * slope}, (dh * keeps,)

    return h, (h,), back
