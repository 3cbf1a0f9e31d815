"""Wrong versions of the recurrences, as the kit's mistakes: of inputs, of outputs, or of one function of a step."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, in_precision
from ortho_ref.conformance.linear import delta, diagonal, xlstm
from ortho_ref.conformance.linear.through_time import recurrence_of
from ortho_ref.conformance.mistakes.applies import both, linear
from ortho_ref.conformance.mistakes.changes import Change, conjugate, late, negative, nothing, same, times
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, Predicate, by_case, chained, given, table, without
from ortho_ref.conformance.mistakes.ways import altered, configured, fed, read_as, read_through, squashed, through

CHUNK = 64


def changed(**fields: Any) -> Outputs:
    """Another recurrence; `parts` are added to those that are there."""

    def outputs(case: Case, base: Base) -> Arrays:
        r = recurrence_of(case.config)
        own = replace(r, **{**fields, "parts": {**r.parts, **fields.get("parts", {})}})
        return base(given(case, recurrence=own))

    return outputs


def part(**functions: Any) -> Outputs:
    """Other functions of a step."""
    return changed(parts=functions)


def has(name: str, **options: Any) -> Predicate:
    """A case of a recurrence that has this input and these options."""
    return both(linear(**options), lambda case: name in case.inputs)


# What is kept between two steps


def _bfloat16(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "c":
        return _bfloat16(a.real) + 1j * _bfloat16(a.imag)
    return in_precision(a, "bfloat16").astype(a.dtype)


def _reset_at_borders(case: Case) -> Arrays:
    marks = case.inputs.get("resets", np.zeros(case.inputs["do"].shape[:2], bool)).copy()
    marks[CHUNK::CHUNK] = True
    return {"resets": marks}


def _from_empty(case: Case, base: Base) -> Arrays:
    first = [f"{name}0" for name in recurrence_of(case.config).states]
    return {**base(without(case, *first)), **{f"d_{name}": nothing(case.inputs[name]) for name in first}}


def _square(case: Case) -> bool:
    states = [case.inputs[name] for name in ("dS_T", "dC_T") if name in case.inputs]
    return linear()(case) and any(a.shape[-1] == a.shape[-2] for a in states)


def _turned(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)


# The delta rule: order and removal


def _write_then_decay(S: Any, g: Any, *writes: Any) -> Any:
    P, own = delta.in_turn(S, (delta.decay_then_write, nothing(g), *writes), (delta.decayed, g))

    def back(dP: np.ndarray) -> Any:
        dS, (_, *dwrites), (dg,) = own(dP)
        return dS, dg, *dwrites

    return P, back


def _error_before_decay(S: Any, g: Any, k: Any, v: Any, beta: Any) -> Any:
    """alpha S + beta k (v - S^T k)^T."""
    W, back_W = delta.decay_then_write(S, nothing(g), k, v, beta)
    P, back_g = delta.decayed(S, g)

    def back(dP: np.ndarray) -> Any:
        (kept, dg), (dS, _, *rest) = back_g(dP), back_W(dP)
        return kept + dS - dP, dg, *rest

    return P + W - S, back


def _decay_each_write(S: Any, g: Any, *writes: Any) -> Any:
    steps = [(delta.decay_then_write, g, *(a[None] for a in write)) for write in zip(*writes, strict=True)]
    P, own = delta.in_turn(S, *steps)

    def back(dP: np.ndarray) -> Any:
        dS, *parts = own(dP)
        dg, *dwrites = zip(*parts, strict=True)
        return dS, sum(dg), *map(np.concatenate, dwrites)

    return P, back


def _no_removal(S: Any, g: Any, k: Any, v: Any, beta: Any) -> Any:
    """alpha S + beta k v^T: linear attention with decay."""
    (P, back_g), b = delta.decayed(S, g), beta[..., None]

    def back(dP: np.ndarray) -> Any:
        along = delta.times(dP, v)
        return *back_g(dP), b * along, delta.read(dP, b * k), (k * along).sum(axis=-1)

    return P + delta.outer(b * k, v).sum(axis=0), back


def _one_decay(a: np.ndarray) -> np.ndarray:
    return np.broadcast_to(a.mean(axis=-1, keepdims=True), a.shape)


def _by_float32_sums(case: Case, found: Arrays) -> Arrays:
    """The gradient by the cumulated logarithm, d_g_t - d_g_{t+1}, and its sum from the end, in float32."""
    name = f"d_{recurrence_of(case.config).decay}"
    by_sum = -np.diff(found[name], axis=0, append=0)
    return {name: np.cumsum(by_sum[::-1], axis=0, dtype=np.float32)[::-1].astype(found[name].dtype)}


# RWKV-7


def _roles_exchanged(S: Any, w: Any, reads: Any, writes: Any) -> Any:
    P, own = delta.decay_and_remove(S, w, writes, reads)

    def back(dP: np.ndarray) -> Any:
        dS, dw, dwrites, dreads = own(dP)
        return dS, dw, dreads, dwrites

    return P, back


def _decay_then_remove(S: Any, w: Any, *between: Any) -> Any:
    P, own = delta.in_turn(S, (delta.decayed, w), (delta.decay_and_remove, nothing(w), *between))

    def back(dP: np.ndarray) -> Any:
        dS, (dw,), (_, *rest) = own(dP)
        return dS, dw, *rest

    return P, back


def _minus_exp(w: np.ndarray) -> np.ndarray:
    return -np.exp(w)


# LRU, xLSTM


def _gamma(change: Change) -> Outputs:
    """Another gamma, without a gradient through it."""

    def gamma(config: Any, x: Arrays) -> Any:
        value, name, slope = diagonal.gamma(config, x)
        return change(value), name, nothing(slope)

    return part(gamma=gamma)


def _not_rescaled(log_f: Any, i: Any, m: Any) -> Any:
    """f' = exp(log f)."""
    _, I, new, own = xlstm.stabilised(log_f, i, m)
    F = np.where(np.isfinite(m), np.exp(log_f), 0)

    def back(dF: Any, dI: Any, dnew: Any) -> Any:
        dlog_f, di, dm = own(0 * F, dI, dnew)
        return dlog_f + F * dF, di, dm

    return F, I, new, back


_DELTA = ("gated_delta_rule", "delta_product", "kda")
_delta, _matrix, _xlstm = linear(*_DELTA), linear(*_DELTA, "rwkv7"), linear("mlstm", "slstm")

#: The words stand after "your outputs equal the recurrence with".
MISTAKES = table(
    ("linear-state-bfloat16", "the state kept in bfloat16 between steps: keep it in float32",
     linear(), changed(kept=_bfloat16)),
    ("linear-chunk-drops-state", "the state dropped every 64 steps: hand it on from chunk to chunk",
     both(linear(), lambda case: len(case.inputs["do"]) > CHUNK), fed(_reset_at_borders)),
    ("linear-initial-ignored", "the initial state ignored", linear(initial_state=True), _from_empty),
    ("linear-state-transposed", "the matrix state as (V, K), given and returned: it is (K, V)",
     _square, through(_turned, ("S0", "C0", "dS_T", "dC_T"), ("S_T", "C_T", "d_S0", "d_C0"))),
    ("linear-final-gradient-ignored", "the gradient by the final state left out of the backward pass",
     linear(), read_as(nothing, "d*_T")),
    ("linear-resets-ignored", "resets ignored: states run on into the next sequence",
     has("resets"), read_as(nothing, "resets")),
    ("linear-resets-late", "resets one step late: a mark empties the state before its own step",
     has("resets"), read_as(late, "resets")),
    ("linear-decay-gradient-float32", "the decay's gradient summed in float32, from that of its cumulated logarithm",
     _matrix, altered(_by_float32_sums)),
    ("linear-scale-left-out", "1/sqrt(K) left out", has("q"), configured(scale=1.0)),
    ("delta-write-before-decay", "the decay after the write: decay the old state, then write",
     _delta, part(transition=_write_then_decay)),
    ("delta-error-before-decay", "v - S^T k taken of the state before its decay: decay it first",
     _delta, part(transition=_error_before_decay)),
    ("delta-no-removal", "beta k v^T added and nothing removed: write beta k (v - S^T k)^T",
     _delta, part(transition=_no_removal)),
    ("delta-beta-doubled", "2 beta in place of beta: beta comes in its final range", _delta, read_as(times(2), "beta")),
    ("delta-beta-halved", "beta / 2 in place of beta: beta may go up to 2, for negative eigenvalues",
     _delta, read_as(times(0.5), "beta")),
    ("delta-beta-sigmoid-again", "sigmoid(beta) in place of beta: the sigmoid is taken already",
     _delta, squashed("beta")),
    ("delta-unnormalised", "q and k as they are: divide them by sqrt(|.|^2 + eps)",
     has("beta", normalise=True), configured(normalise=False)),
    ("delta-eps-left-out", "q and k divided by |.|, without eps below the root",
     has("beta", normalise=True), configured(eps=0.0)),
    ("delta-product-decay-each-write", "the decay before every write of a step: it comes once, before the first",
     linear("delta_product"), part(transition=_decay_each_write)),
    ("delta-product-writes-reversed", "the writes of a step in the opposite order",
     linear("delta_product"), read_as(lambda a: a[:, ::-1], "k", "v", "beta")),
    ("kda-one-decay", "one decay for a head, the mean over its channels: every channel has its own",
     linear("kda"), read_as(_one_decay, "g")),
    ("rwkv7-no-removal", "the removal term left out: subtract (a * kappa) (S^T kappa)^T",
     linear("rwkv7"), read_as(nothing, "a")),
    ("rwkv7-roles-exchanged", "the state read by a * kappa and written at kappa: it is the other way round",
     linear("rwkv7"), part(transition=_roles_exchanged)),
    ("rwkv7-remove-after-decay", "what is removed read from the decayed state, as KDA does: read it before",
     linear("rwkv7"), part(transition=_decay_then_remove)),
    ("rwkv7-exp-exp", "the decay exp(-exp(w)): w is the logarithm of the decay", linear("rwkv7"),
     read_through(_minus_exp, _minus_exp, "w")),
    ("rwkv7-unnormalised", "kappa as it is: divide it by its length",
     linear("rwkv7", normalise=True), configured(normalise=False)),
    ("lru-gamma-left-out", "gamma left out: x_t = lambda x_{t-1} + gamma u_t", linear("lru"), _gamma(np.ones_like)),
    ("lru-gamma-no-gradient", "no gradient to nu_log through gamma", linear("lru", gamma="computed"), _gamma(same)),
    ("lru-conjugate-gradients", "complex gradients conjugated, as JAX has them", linear("lru"),
     through(conjugate, (), ("d_u", "d_x0"))),
    ("mingru-z-keeps", "z as the weight of the old state: it weighs the new content",
     linear("mingru"), read_as(negative, "a")),
    ("mingru-content-identity", "the content as it is: take g of it",
     linear("mingru", activation="g"), configured(activation="identity")),
    ("mingru-content-g", "g of the content: it is used as it is",
     linear("mingru", activation="identity"), configured(activation="g")),
    ("xlstm-stabiliser-without-max", "m = log f + m, without the maximum with i: gates overflow",
     _xlstm, part(stabilised=partial(xlstm.stabilised, carries=lambda log_f, i: np.isfinite(log_f)))),
    ("xlstm-forget-not-rescaled", "f' = exp(log f): multiply it by exp(m_{t-1} - m_t)",
     _xlstm, part(stabilised=_not_rescaled)),
    ("xlstm-forget-exp", "an exponential forget gate: take the sigmoid",
     linear("mlstm", "slstm", forget="sigmoid"), configured(forget="exp")),
    ("xlstm-forget-sigmoid", "a sigmoid forget gate: take the exponential",
     linear("mlstm", "slstm", forget="exp"), configured(forget="sigmoid")),
    ("mlstm-floor-one", "max(|n q|, 1) in the denominator: C and n carry exp(-m), so the 1 becomes exp(-m)",
     linear("mlstm"), part(floored=lambda s, m: (*xlstm.floored(s, nothing(m))[:2], nothing(m)))),
    ("mlstm-floor-left-out", "|n q| alone in the denominator: take max(|n q|, exp(-m))",
     linear("mlstm"), part(floored=lambda s, m: (np.abs(s), np.sign(s), nothing(m)))),
    ("mlstm-absolute-left-out", "max(n q, exp(-m)) in the denominator: take |n q|",
     linear("mlstm"), part(floored=lambda s, m: xlstm.floored(np.maximum(s, 0), m))),
    ("mlstm-eps", "1e-6 added to the denominator, as in NX-AI/xlstm", linear("mlstm", eps=0.0), configured(eps=1e-6)),
    ("mlstm-scaled-queries", "q scaled in place of k, as in xlstm's chunkwise_simple: C and n are sqrt(K) times larger",
     linear("mlstm"), chained(by_case(lambda case: read_as(times(case.config["scale"]), "q")), configured(scale=1.0))),
    ("mlstm-m-from-minus-infinity", "m = i after the first step: the empty state has m = 0",
     linear("mlstm"), changed(empty={"m": -np.inf})),
    ("slstm-m-from-zero", "m = 0 in the empty state: m = i after the first step", linear("slstm"), changed(empty={})),
    ("slstm-no-mixing", "R left out: no memory mixing", linear("slstm"), read_as(nothing, "R_*")),
    ("slstm-mixing-transposed", "R transposed within each head", linear("slstm"), read_as(_turned, "R_*")),
)  # fmt: skip
