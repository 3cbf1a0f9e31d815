"""What `new` writes for a linear recurrence: a forward pass that is right, in PyTorch or as a scan in JAX.

As `starting_point`: a frame, by the framework, around a step, whose lines are the same in both.
"""

import re
import shlex

from ortho_ref.conformance.linear.table import RECURRENCES

_UNIT = '''
def unit(a, config):
    """a, divided by its length where the case says so."""
    return a / sqrt((a * a).sum(-1, keepdims=True) + config["eps"]) if config["normalise"] else a

'''
_WRITE = '''
def write(S, k, v, beta):
    """(I - beta k k^T) S + beta k v^T."""
    lacking = v - einsum("bhkv,bhk->bhv", S, k)
    return S + einsum("bhk,bhv->bhkv", beta[..., None] * k, lacking)

'''
_LOG_FORGET = '''
def log_forget(f, config):
    """log f of the forget gate's pre-activation."""
    return -logaddexp(0 * f, -f) if config["forget"] == "sigmoid" else f

'''
_DELTA = """(S,) = state
q, k = unit(x["q"], config), unit(x["k"], config)
S = S * exp(x["g"])[DECAY]
WRITE
return einsum("bhkv,bhk->bhv", S, config["scale"] * q), (S,)"""
_ONE = 'S = write(S, k, x["v"], x["beta"])'
_SEVERAL = """for j in range(len(k)):
    S = write(S, k[j], x["v"][j], x["beta"][j])"""
_RWKV = """(S,) = state
kappa = unit(x["kappa"], config)
removed = einsum("bhkv,bhk->bhv", S, kappa)
S = S * exp(x["w"])[..., None] - einsum("bhk,bhv->bhkv", x["a"] * kappa, removed)
S = S + einsum("bhk,bhv->bhkv", x["k"], x["v"])
return einsum("bhkv,bhk->bhv", S, x["r"]), (S,)"""
_LRU = """(h,) = state
nu, theta, u = exp(x["nu_log"]), exp(x["theta_log"]), x["u"]  # complex numbers as pairs
gamma = exp(x["gamma_log"]) if config["gamma"] == "learned" else sqrt(-expm1(-2 * nu))
real, imaginary = exp(-nu) * cos(theta), exp(-nu) * sin(theta)
new_real = real * h[..., 0] - imaginary * h[..., 1] + gamma * u[..., 0]
new_imaginary = real * h[..., 1] + imaginary * h[..., 0] + gamma * u[..., 1]
h = stack([new_real, new_imaginary], -1)
return h, (h,)"""
_MINGRU = """(h,) = state
c = where(x["c"] >= 0, x["c"] + 0.5, sigmoid(x["c"])) if config["activation"] == "g" else x["c"]
h = sigmoid(-x["a"]) * h + sigmoid(x["a"]) * c
return h, (h,)"""
_MLSTM = """C, n, m = state
q, k, log_f = x["q"], config["scale"] * x["k"], log_forget(x["f"], config)
new = maximum(log_f + m, x["i"])
F, I, m = exp(log_f + m - new)[..., None], exp(x["i"] - new)[..., None], new
C, n = F[..., None] * C + einsum("bhk,bhv->bhkv", I * k, x["v"]), F * n + I * k
floor = maximum(abs((n * q).sum(-1)), exp(-m))
return einsum("bhkv,bhk->bhv", C, q) / (floor + config["eps"])[..., None], (C, n, m)"""
_SLSTM = """h, c, n, m = state
i, f, z, o = (x["x_" + g] + einsum("hij,bhj->bhi", x["R_" + g], h) for g in "ifzo")
log_f = log_forget(f, config)
new = maximum(log_f + m, i)
F, I, m = exp(log_f + m - new), exp(i - new), new
c, n = F * c + I * tanh(z), F * n + I
h = sigmoid(o) * c / n
return h, (h, c, n, m)"""
_MATRIX = '0 * einsum("bhk,bhv->bhkv", x["k"], x["v"])'
#: Name -> functions before the step, the empty state, the step's lines.
_STEPS: dict[str, tuple[str, str, str]] = {
    "gated_delta_rule": (
        _UNIT + _WRITE,
        f"({_MATRIX},)",
        _DELTA.replace("DECAY", "..., None, None").replace("WRITE", _ONE),
    ),
    "delta_product": (
        _UNIT + _WRITE,
        f"({_MATRIX.replace(']', '][0]')},)",
        _DELTA.replace("DECAY", "..., None, None").replace("WRITE", _SEVERAL),
    ),
    "kda": (_UNIT + _WRITE, f"({_MATRIX},)", _DELTA.replace("DECAY", "..., None").replace("WRITE", _ONE)),
    "rwkv7": (_UNIT, f"({_MATRIX},)", _RWKV),
    "lru": ("", '(0 * x["u"],)', _LRU),
    "mingru": ("", '(0 * x["a"],)', _MINGRU),
    "mlstm": (_LOG_FORGET, f'({_MATRIX}, 0 * x["k"], 0 * x["i"])', _MLSTM),
    "slstm": (_LOG_FORGET, 'tuple(0 * x["x_i"] + start for start in (0, 0, 0, -inf))', _SLSTM),
}
_HEAD = '''"""The kit's {cell}, {where}.  Put yours in forward, and run

python -m ortho_ref.conformance run --adapter {file} --only 'linear/{cell}/*'

docs/linear.md has its equations, shapes and options.
"""

{imports}

STATES, INPUTS, WEIGHTS = "{states}".split(), "{inputs}".split(), "{weights}".split()

{functions}
def empty(x):
    """The state before the first step, of the shape that a step's inputs say."""
    return {empty}


def step(x, state, config):
    """The output and the new state, from the inputs of a step by name and the state before."""
{step}


'''
_TORCH = '''def forward(x, config):
    """The outputs, from inputs by name, time first; return None for a case that yours does not support."""
    weights, every = {name: x[name] for name in WEIGHTS if name in x}, []
    for t in range(len(x[INPUTS[0]])):
        x_t = weights | {name: x[name][t] for name in INPUTS}
        if t == 0:
            state = tuple(x[f"{name}0"] for name in STATES) if config["initial_state"] else empty(x_t)
        if config["resets"]:  # a sequence begins
            anew = [x["resets"][t].reshape(-1, *[1] * (s.ndim - 1)) for s in state]
            state = tuple(map(where, anew, empty(x_t), state))
        o, state = step(x_t, state, config)
        every.append(o)
    return {"o": stack(every)} | {f"{name}_T": s for name, s in zip(STATES, state, strict=True)}


run = from_torch(forward, cell="CELL")  # gradients by autograd
'''
_JAX = '''def forward(x, config):
    """The outputs, from inputs by name, time first; return None for a case that yours does not support."""
    weights = {name: x[name] for name in WEIGHTS if name in x}

    def one(state, x_t):
        x_t = weights | x_t
        if config["resets"]:  # a sequence begins
            anew = [x_t["resets"].reshape(-1, *[1] * (s.ndim - 1)) for s in state]
            state = tuple(map(where, anew, empty(x_t), state))
        o, state = step(x_t, state, config)
        return state, o

    steps = {name: x[name] for name in (*INPUTS, *(["resets"] if config["resets"] else []))}
    first = weights | {name: a[0] for name, a in steps.items()}
    state = tuple(x[f"{name}0"] for name in STATES) if config["initial_state"] else empty(first)
    state, o = lax.scan(one, state, steps)
    return {"o": o} | {f"{name}_T": s for name, s in zip(STATES, state, strict=True)}


run = from_jax(forward, cell="CELL")  # gradients by jax.grad
'''
_FUNCTIONS = re.compile(r"\b(cos|einsum|exp|expm1|logaddexp|maximum|sigmoid|sin|sqrt|stack|tanh|where)[(,]")
_FRAMES = {"torch": ("in PyTorch", _TORCH), "jax": ("as a scan in JAX", _JAX)}


def starting_linear(framework: str, cell: str, file: str) -> str:
    """The text of an adapter of a recurrence, in a `file` of that name; ValueError for another framework."""
    if framework not in _FRAMES:
        raise ValueError(f"{cell} is a linear recurrence; allowed: --torch, --jax")
    (functions, empty, step), (where, frame), own = _STEPS[cell], _FRAMES[framework], RECURRENCES[cell]
    timed = [name for name, one in own.inputs.items() if one.axes[0] == "T"]
    head = _HEAD.format(
        cell=cell,
        where=where,
        file=shlex.quote(file),
        imports=_imports(framework, functions + empty + step + frame),
        states=" ".join(own.states),
        inputs=" ".join(timed),
        weights=" ".join(name for name in own.inputs if name not in timed),
        functions=functions,
        empty=empty,
        step="\n".join(f"    {line}" for line in step.splitlines()),
    )
    return head + frame.replace("CELL", cell)


def _imports(framework: str, code: str) -> str:
    """The lines that import what a file uses."""
    used = sorted(set(_FUNCTIONS.findall(code)))
    lines = ["from math import inf", ""] if "-inf" in code else []
    if framework == "torch":
        lines.append(f"from torch import {', '.join(used)}")
    else:
        lines += ["from jax import lax", *imports_of_jax(used)]
    return "\n".join([*lines, "", f"from ortho_ref.adapters import from_{framework}"])


def imports_of_jax(used: list[str]) -> list[str]:
    """The lines that import these functions."""
    of_nn = ("relu", "sigmoid")
    places = {"nn": [name for name in used if name in of_nn], "numpy": [name for name in used if name not in of_nn]}
    return [f"from jax.{place} import {', '.join(sorted(names))}" for place, names in places.items() if names]
