"""Mistakes in cells, their backward passes and their activations.  Those that replace functions reach `train` too."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import (
    Base,
    Mistake,
    Patch,
    altered,
    configured,
    conjugate,
    exchanged,
    fed,
    fits,
    negative,
    nothing,
    patched,
    read_as,
    same,
    scaled,
    times,
    transposed,
)
from ortho_ref.conformance.private import private

activations, reference = private("ortho_ref.activations"), private("ortho_ref.conformance.reference")
fastrnn, lstm = private("ortho_ref.cells.fastrnn"), private("ortho_ref.cells.lstm")
before, after = private("ortho_ref.cells.gru_reset_before"), private("ortho_ref.cells.gru_reset_after")
ACTIVATIONS, CELLS = activations.ACTIVATIONS, private("ortho_ref.cells").CELLS

BIASES = ("weights.b", "weights.b_*")  # not FastRNN's beta


def cell(case: Case) -> str:
    """The cell that a case is of, "" for none."""
    of_train = "gru_reset_before" if case.kind == "train" else ""
    return str(case.config.get("cell", of_train)) if case.kind in ("cell", "jacobian", "train") else ""


def phi(case: Case) -> str:
    """The activation that a case is of, "" for none."""
    if case.kind in ("cell", "jacobian", "activation"):
        return str(case.config.get("activation", ""))
    return "modrelu" if case.kind == "train" else ""


def is_complex(case: Case) -> bool:
    """Whether states are complex."""
    return bool(case.config.get("complex"))


def sequence(*cells: str) -> Callable[[Case], bool]:
    """A case of kind cell, of one of these; of any without an argument."""
    return lambda case: case.kind == "cell" and (not cells or cell(case) in cells)


def step(*cells: str) -> Callable[[Case], bool]:
    """A cell over a sequence, or its Jacobian."""
    return lambda case: case.kind in ("cell", "jacobian") and (not cells or cell(case) in cells)


# Forward, with the gradients of the wrong forward pass


def reset_after(case: Case, base: Base) -> Arrays:
    """gru_reset_before computed as gru_reset_after, whose z is 1 - u."""
    names = {f"{kind}_{g}": f"{kind}_{h}" for kind in "WUb" for g, h in zip("ruc", "rzh", strict=True)}
    signs = {name: -1 if name.endswith("_u") else 1 for name in names}
    return _as_other(case, base, "gru_reset_after", names, signs)


def reset_before(case: Case, base: Base) -> Arrays:
    """gru_reset_after computed as gru_reset_before, whose u is 1 - z."""
    names = {f"{kind}_{g}": f"{kind}_{h}" for kind in "WUb" for g, h in zip("rzh", "ruc", strict=True)}
    signs = {name: -1 if name.endswith("_z") else 1 for name in names}
    return _as_other(case, base, "gru_reset_before", names, signs)


def _as_other(case: Case, base: Base, other: str, names: dict[str, str], signs: dict[str, int]) -> Arrays:
    config = {"cell": other, "activation": case.config["activation"]}
    if other == "gru_reset_after":
        config |= {"reset_gate": True, "update_gate": True, "recurrent_bias": False}
    rest = {name: a for name, a in case.inputs.items() if not name.startswith("weights.")}
    own = {f"weights.{new}": signs[old] * case.inputs[f"weights.{old}"] for old, new in names.items()}
    found = base(replace(case, config=config, inputs={**rest, **own}))
    back = {
        f"d_weights.{old}": signs[old] * found.pop(f"d_weights.{new}")
        for old, new in names.items()
        if case.kind == "cell"
    }
    return {**found, **back}


def _reset_gate_open(case: Case) -> Arrays:
    changed = {name: nothing(case.inputs[name]) for name in ("weights.W_r", "weights.U_r")}
    return changed | {"weights.b_r": np.full_like(case.inputs["weights.b_r"], 1e3)}


def one_bias(case: Case, base: Base) -> Arrays:
    """b_hh added outside the reset: with b_h it is one bias."""
    own = {
        "weights.b_h": case.inputs["weights.b_h"] + case.inputs["weights.b_hh"],
        "weights.b_hh": nothing(case.inputs["weights.b_hh"]),
    }
    found = base(replace(case, inputs={**case.inputs, **own}))
    return found | ({"d_weights.b_hh": found["d_weights.b_h"]} if case.kind == "cell" else {})


def bias_inside(case: Case, base: Base) -> Arrays:
    """b_h inside the reset, r * (U_h h + b_h), and none outside."""
    b_h = case.inputs["weights.b_h"]
    inputs = {**case.inputs, "weights.b_hh": b_h, "weights.b_h": nothing(b_h)}
    found = base(replace(case, config={**case.config, "recurrent_bias": True}, inputs=inputs))
    inside = found.pop("d_weights.b_hh", None)
    return found if inside is None else found | {"d_weights.b_h": inside}


def coupled(gate: str, other: str) -> Callable[[Case, Base], Arrays]:
    """A gate that is 1 minus the other, and has no weights of its own."""

    def outputs(case: Case, base: Base) -> Arrays:
        own = {f"weights.{kind}_{gate}": -case.inputs[f"weights.{kind}_{other}"] for kind in "WUb"}
        found = base(replace(case, inputs={**case.inputs, **own}))
        if case.kind != "cell":
            return found
        back = {
            f"d_weights.{k}_{other}": found[f"d_weights.{k}_{other}"] - found[f"d_weights.{k}_{gate}"] for k in "WUb"
        }
        return {**found, **back, **{f"d_weights.{k}_{gate}": nothing(found[f"d_weights.{k}_{gate}"]) for k in "WUb"}}

    return outputs


def _sigmoid(value: Callable[[Any], Any], derivative: Callable[[Any], Any]) -> tuple[Patch, ...]:
    """Another sigmoid in every cell and in the activations; its derivative from its value."""
    modules = (before, after, lstm, fastrnn, reference)
    return tuple(
        patch
        for module in modules
        for patch in (
            (module, "sigmoid", lambda _: value),
            (module, "sigmoid_derivative", lambda _: derivative),
        )
    )


def hard_sigmoid(slope: float) -> tuple[Patch, ...]:
    """clip(slope a + 1/2, 0, 1)."""
    return _sigmoid(lambda a: np.clip(slope * a + 0.5, 0, 1), lambda y: slope * ((y > 0) & (y < 1)))


Radial = Callable[[Any, Any], tuple[Any, Any, Any]]


def modrelu_as(radial: Radial) -> tuple[Patch, ...]:
    """modReLU with another size: radial(|z|, b) gives it, its derivative by |z| and that by b."""

    def value(z: Any, b: Any) -> Any:
        return _phase(z) * radial(abs(z), b)[0]

    def pullback(dy: Any, z: Any, b: Any, y: Any) -> tuple[Any, Any]:
        size, slope, of_b = radial(abs(z), b)
        e = _phase(z)
        along = (e.conj() * dy).real
        return e * along * slope + size / abs(z) * (dy - e * along), along * of_b

    return ((ACTIVATIONS, "modrelu", lambda own: own._replace(value=value, pullback=pullback)),)


def _phase(z: Any) -> Any:
    return z / abs(z)


def in_denominator(epsilon: float) -> Radial:
    """rho / (rho + epsilon) max(rho + b, 0), as uRNN's code."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        on, part = rho + b > 0, rho / (rho + epsilon)
        return part * on * (rho + b), on * (part + epsilon / (rho + epsilon) ** 2 * (rho + b)), on * part

    return radial


def in_relu(epsilon: float) -> Radial:
    """max(rho + epsilon + b, 0), as GORU's code."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        on = rho + epsilon + b > 0
        return on * (rho + epsilon + b), 1.0 * on, 1.0 * on

    return radial


def in_both(epsilon: float) -> Radial:
    """rho / m max(m + b, 0) with m = rho + epsilon, as EURNN's complex code."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        m = rho + epsilon
        on = m + b > 0
        return on * rho / m * (m + b), on * (1 + b * epsilon / m**2), on * rho / m

    return radial


def in_root(epsilon: float) -> Radial:
    """rho / (m + epsilon) max(m + b, 0) with m = sqrt(rho^2 + epsilon), as the full-capacity uRNN's code."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        m = np.sqrt(rho**2 + epsilon)
        on, size = m + b > 0, (m + b) / (m + epsilon)
        of_m = (epsilon - b) / (m + epsilon) ** 2
        return on * rho * size, on * (size + rho * of_m * rho / m), on * rho / (m + epsilon)

    return radial


def leaky(rho: Any, b: Any) -> tuple[Any, Any, Any]:
    """Slope 0.1 instead of 0 where rho + b < 0."""
    inside = rho + b
    slope = np.where(inside > 0, 1.0, 0.1)
    return slope * inside, slope, slope


def _pulled(change: Callable[..., tuple[Any, Any]], name: str = "modrelu") -> Callable[[Case, Base], Arrays]:
    """Another pullback of an activation, made from (right pullback, dy, a, b, y)."""

    def make(own: Any) -> Any:
        return own._replace(pullback=lambda dy, a, b, y: change(own.pullback, dy, a, b, y))

    return patched((ACTIVATIONS, name, make))


def _valued(name: str, change: Callable[[Any], Any]) -> Callable[[Case, Base], Arrays]:
    return patched((ACTIVATIONS, name, change))


def _bias_added(own: Any) -> Any:
    """modReLU of a + b without a bias of its own, which is a + b."""
    return own._replace(value=lambda a, b: a + b, pullback=lambda dy, a, b, y: (dy, dy.real))


def _bias_twice(own: Any) -> Any:
    """modReLU of a + b, with b inside as well."""

    def pullback(dy: Any, a: Any, b: Any, y: Any) -> tuple[Any, Any]:
        da, db = own.pullback(dy, a + b, b, y)
        return da, db + da.real

    return own._replace(value=lambda a, b: own.value(a + b, b), pullback=pullback)


# Backward alone: the forward pass is right

StepBackward = Callable[..., tuple[Any, Any, dict[str, Any]]]


def stepping(change: Callable[..., tuple[Any, Any, dict[str, Any]]]) -> Callable[[Case, Base], Arrays]:
    """Another adjoint of a step: change(right, weights, dh, cache), where right takes these three."""

    def outputs(case: Case, base: Base) -> Arrays:
        def make(own: StepBackward) -> StepBackward:
            def step_backward(self: Any, weights: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
                return change(lambda *arguments: own(self, *arguments), weights, dh, cache)

            return step_backward

        return patched((CELLS[cell(case)], "step_backward", make))(case, base)

    return outputs


def without_path(*gates: str) -> Callable[[Case, Base], Arrays]:
    """Nothing comes back to h_{t-1} through these gates' U."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
        dx, _, dweights = own(w, dh, cache)
        cut = {name: nothing(a) if name in _recurrent(gates) else a for name, a in w.items()}
        return dx, own(cut, dh, cache)[1], dweights

    return stepping(change)


def _s_constant(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Without ds * r; the way through r stays."""
    dx, dh_prev, dweights = own(w, dh, cache)
    without_r = {**w, "U_r": nothing(w["U_r"])}
    cut = own({**without_r, "U_c": nothing(w["U_c"])}, dh, cache)[1]
    return dx, dh_prev - (own(without_r, dh, cache)[1] - cut), dweights


def _recurrent(gates: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"U_{g}" if g else "U" for g in gates)


def constant_gate(gate: str) -> Callable[[Case, Base], Arrays]:
    """A gate that counts as a constant in the backward pass."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
        cut = {name: nothing(a) if name in (f"W_{gate}", f"U_{gate}") else a for name, a in w.items()}
        dx, dh_prev, dweights = own(cut, dh, cache)
        return dx, dh_prev, {n: nothing(d) if n.endswith(f"_{gate}") else d for n, d in dweights.items()}

    return stepping(change)


def _no_carry(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Without the path through what is kept of the old state: what comes back where every U is 0."""
    dx, dh_prev, dweights = own(w, dh, cache)
    carried = own({name: nothing(a) if name[0] == "U" else a for name, a in w.items()}, dh, cache)[1]
    if isinstance(dh_prev, tuple):
        return dx, (dh_prev[0], nothing(dh_prev[1])), dweights
    return dx, dh_prev - carried, dweights


def _detached(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Nothing comes back to the state before."""
    dx, dh_prev, dweights = own(w, dh, cache)
    return dx, tuple(map(nothing, dh_prev)) if isinstance(dh_prev, tuple) else nothing(dh_prev), dweights


def _only_carry(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """dc_{t-1} without what reaches c_t through h_t."""
    dx, (dh_prev, _), dweights = own(w, dh, cache)
    return dx, (dh_prev, dh[1] * cache.f), dweights


def _gradient_of(name: str, **fields: str) -> Callable[[Case, Base], Arrays]:
    """The gradient of one weight formed with another field of the cache in place of the right one."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
        dx, dh_prev, dweights = own(w, dh, cache)
        wrong = cache._replace(**{field: getattr(cache, other) for field, other in fields.items()})
        return dx, dh_prev, {**dweights, name: own(w, dh, wrong)[2][name]}

    return stepping(change)


def _r_gradient_with_s(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """U_r's gradient from s_t for h_{t-1}: what W_r's would be, were s_t the input."""
    dx, dh_prev, dweights = own(w, dh, cache)
    return dx, dh_prev, {**dweights, "U_r": own(w, dh, cache._replace(x=cache.s))[2]["W_r"]}


def _r_gradient_to_c(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    dx, dh_prev, dweights = own(w, dh, cache)
    return dx, dh_prev, {**dweights, "U_c": dweights["U_r"]}


def _not_conjugated(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """U^T in place of U^H."""
    dx, _, dweights = own(w, dh, cache)
    return dx, own({**w, "U": w["U"].conj()}, dh, cache)[1], dweights


def windows(steps: int) -> Callable[[Case, Base], Arrays]:
    """Nothing comes back over the boundaries of windows of so many steps."""

    def outputs(case: Case, base: Base) -> Arrays:
        inputs, T = case.inputs, len(case.inputs["x"])
        names = [name[:-1] for name in ("h0", "c0") if name in inputs]
        firsts = {f"{name}0": inputs[f"{name}0"] for name in names}
        parts = []
        for start in range(0, T, steps):
            stop = min(start + steps, T)
            own = {**inputs, **firsts, "x": inputs["x"][start:stop], "dh": inputs["dh"][start:stop]}
            if stop < T:
                own |= {f"d{name}_T": nothing(inputs[f"d{name}_T"]) for name in names}
            parts.append(base(replace(case, inputs=own)))
            firsts = {f"{name}0": parts[-1][name][-1] for name in names}
        found = dict(parts[0])
        for name in found:
            if name in names:
                found[name] = np.concatenate([parts[0][name], *(part[name][1:] for part in parts[1:])])
            elif name == "d_x":
                found[name] = np.concatenate([part[name] for part in parts])
            elif name.startswith("d_weights."):
                found[name] = np.sum([part[name] for part in parts], axis=0)
        return found

    return outputs


def _conjugated(case: Case, found: Arrays) -> Arrays:
    complex_ones = ("d_h0", "d_weights.W", "d_weights.U", "d_a")
    return {name: found[name] * [1, -1] for name in complex_ones if name in found}


def _straight(own: Any) -> Any:
    """The gates' gradients as if nothing had been clipped."""

    def gates_pullback(self: Any, weights: Any, dalpha: Any, dbeta: Any) -> Any:
        return own(replace(self, constraint=None), weights, dalpha, dbeta)

    return gates_pullback


def _beta_is_rest(case: Case, base: Base) -> Arrays:
    """h = alpha f + (1 - alpha) h: one gate."""
    found = base(replace(case, inputs={**case.inputs, "weights.beta": -case.inputs["weights.alpha"]}))
    if case.kind != "cell":
        return found
    total = found["d_weights.alpha"] - found["d_weights.beta"]
    return {**found, "d_weights.alpha": total, "d_weights.beta": nothing(total)}


def _rolled(by: int) -> Callable[[Case], Arrays]:
    def change(case: Case) -> Arrays:
        columns = next(a.shape[1] for name, a in case.inputs.items() if name.startswith("weights.W"))
        return {"x": (case.inputs["x"] + by) % columns}

    return change


def _tokens(case: Case) -> bool:
    return case.kind == "cell" and case.inputs["x"].dtype.kind == "i"


def _square(case: Case) -> bool:
    return step()(case) and all(a.shape[0] == a.shape[1] for n, a in case.inputs.items() if n.startswith("weights.W"))


def _not_kinks(case: Case) -> bool:
    return not case.config.get("kinks")


def _sigmoids(case: Case) -> bool:
    """Where a sigmoid is computed."""
    of_cell = cell(case) in ("gru_reset_before", "gru_reset_after", "lstm", "fastrnn")
    return phi(case) == "sigmoid" or (
        of_cell and (case.config.get("reset_gate", True) or case.config.get("update_gate", True))
    )


def _several(case: Case) -> bool:
    return case.kind == "cell" and case.inputs["h0"].shape[0] > 1


def batch(case: Case) -> float:
    """B."""
    return float(case.inputs["h0"].shape[0])


def steps(case: Case) -> float:
    """T."""
    return float(case.inputs["x"].shape[0])


def on(gate: str, *cells: str) -> Callable[[Case], bool]:
    """A case, of kind cell or jacobian, of one of these cells, whose gate is on."""
    option = {"r": "reset_gate", "z": "update_gate"}.get(gate, "")
    return lambda case: step(*cells)(case) and bool(case.config.get(option, True))


def trained(gate: str, *cells: str) -> Callable[[Case], bool]:
    """The same, or training of one of these cells."""
    return lambda case: on(gate, *cells)(case) or (case.kind == "train" and cell(case) in cells)


def _through_time(case: Case) -> bool:
    return case.kind in ("cell", "train")


def weights_of(*gates: str) -> tuple[str, ...]:
    """The names of W, U and b of gates."""
    return tuple(f"weights.{kind}_{gate}" for gate in gates for kind in "WUb")


def _both_gates(name: str) -> Callable[[Case], bool]:
    return lambda case: on("r", name)(case) and on("z", name)(case)


def _with_bias(case: Case) -> bool:
    return bool(case.config.get("recurrent_bias")) and step()(case)


def _without_bias(case: Case) -> bool:
    return _both_gates("gru_reset_after")(case) and not case.config["recurrent_bias"]


def _tanh_without_bias(case: Case) -> bool:
    return cell(case) == "gru_reset_after" and phi(case) != "modrelu" and not _with_bias(case) and step()(case)


def _constrained(case: Case) -> bool:
    return step("fastrnn")(case) and case.config["constraint"] is not None


def _sgornn(case: Case) -> bool:
    return step("fastrnn")(case) and case.config["constraint"] == "sgornn"


def _real_modrelu(case: Case) -> bool:
    return phi(case) == "modrelu" and not is_complex(case) and _not_kinks(case)


def _complex_modrelu(case: Case) -> bool:
    return phi(case) == "modrelu" and is_complex(case) and _not_kinks(case)


def _any_modrelu(case: Case) -> bool:
    return phi(case) == "modrelu" and _not_kinks(case)


def _of_activation(name: str) -> Callable[[Case], bool]:
    return lambda case: phi(case) == name and _not_kinks(case)


def _long(length: int) -> Callable[[Case], bool]:
    return lambda case: case.kind == "cell" and len(case.inputs["x"]) > length


def _carries(case: Case) -> bool:
    return cell(case) in ("gru_reset_before", "gru_reset_after", "lstm", "fastrnn")


def _tanh_by_exp(a: Any, b: Any) -> Any:
    e = np.exp(2 * (a + b))
    return (e - 1) / (e + 1)


def _has_vector(*gates: str) -> Callable[[Case], bool]:
    """A GRU with a vector in place of one of these gates."""
    return lambda case: step(AFTER)(case) and any(f"weights.{gate}" in case.inputs for gate in gates)


def _vectors_squashed(case: Case, base: Base) -> Arrays:
    names = [name for name in ("weights.r", "weights.z") if name in case.inputs]
    squashed: Arrays = {name: activations.sigmoid(case.inputs[name]) for name in names}
    found = base(replace(case, inputs={**case.inputs, **squashed}))
    slopes = {name: y * (1 - y) for name, y in squashed.items()}
    return {**found, **{f"d_{n}": found[f"d_{n}"] * slopes[n] for n in names if f"d_{n}" in found}}


def _next_h(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """h_{t-1} is in nothing but the gradients of the LSTM's U."""
    return own(w, dh, cache._replace(h_prev=cache.o * cache.y))


def _flipped(gate: str) -> Callable[[Case, Base], Arrays]:
    """1 minus a gate: its weights negative, as sigmoid(-a) = 1 - sigmoid(a)."""
    return read_as(negative, negative, *weights_of(gate))


def _forget_plus_one(case: Case) -> Arrays:
    return {"weights.b_f": case.inputs["weights.b_f"] + 1}


def _states_swapped(case: Case, base: Base) -> Arrays:
    swapped = {"h0": case.inputs["c0"], "c0": case.inputs["h0"]}
    found = base(replace(case, inputs={**case.inputs, **swapped}))
    # What was given as h_0 stands before the states of the steps, whatever the steps began with
    own = {name: np.concatenate([case.inputs[f"{name}0"][None], found[name][1:]]) for name in ("h", "c")}
    return {**found, **own, "d_h0": found["d_c0"], "d_c0": found["d_h0"]}


def _gates_swapped(case: Case, base: Base) -> Arrays:
    swapped = {"weights.alpha": case.inputs["weights.beta"], "weights.beta": case.inputs["weights.alpha"]}
    found = base(replace(case, inputs={**case.inputs, **swapped}))
    back = {"d_weights.alpha": "d_weights.beta", "d_weights.beta": "d_weights.alpha"}
    return {**found, **{name: found[other] for name, other in back.items() if other in found}}


_RAW_GATES: tuple[Patch, ...] = (
    (fastrnn, "sigmoid", lambda _: lambda a: a),
    (fastrnn, "sigmoid_derivative", lambda _: lambda y: 1.0),
)


def _gates_free(case: Case) -> bool:
    return step("fastrnn")(case) and case.config["constraint"] is None


def _constrained_sequence(case: Case) -> bool:
    return case.kind == "cell" and _constrained(case)


def _stopping(own: Any) -> Any:
    """No gradient to alpha through the bound of beta: dbeta is 0 there, and that is all."""

    def gates_pullback(self: Any, weights: Any, dalpha: Any, dbeta: Any) -> Any:
        free, clipped = replace(self, constraint=None), self.gates(weights)
        return {
            name: gradient * float(before == after)
            for (name, gradient), before, after in zip(
                own(free, weights, dalpha, dbeta).items(), free.gates(weights), clipped, strict=True
            )
        }

    return gates_pullback


def _constant_phase(own: Any, dy: Any, a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    along = own(dy, a, b, y)[1]
    return _phase(a) * along, along


def _sigmoid_derivative(derivative: Callable[[Any], Any]) -> tuple[Patch, ...]:
    return tuple(p for p in _sigmoid(np.tanh, derivative) if p[1] == "sigmoid_derivative")


def _first_bias(case: Case, base: Base) -> Arrays:
    """Biases' gradients of the batch's first sequence; the rest is right."""
    upstream: Arrays = {name: nothing(case.inputs[name]) for name in ("dh", "dh_T", "dc_T") if name in case.inputs}
    for name, array in upstream.items():
        first = (slice(None), 0) if name == "dh" else (0,)
        array[first] = case.inputs[name][first]
    one, found = base(replace(case, inputs={**case.inputs, **upstream})), base(case)
    return {name: one[name] if fits(name.removeprefix("d_"), BIASES) else a for name, a in found.items()}


def _last_alone(case: Case) -> Arrays:
    dh = nothing(case.inputs["dh"])
    dh[-1] = case.inputs["dh"][-1]
    return {"dh": dh}


def _last_ignored(case: Case) -> Arrays:
    dh = case.inputs["dh"].copy()
    dh[-1] = 0
    return {"dh": dh}


def _shifted(case: Case, found: Arrays) -> Arrays:
    return {name: np.concatenate([found[name][1:], found[name][-1:]]) for name in ("h", "c") if name in found}


def _dh_one_early(case: Case, base: Base) -> Arrays:
    """dh[t] taken for the gradient of h[t], not of h[t + 1]."""
    dh = case.inputs["dh"]
    found = base(replace(case, inputs={**case.inputs, "dh": np.concatenate([dh[1:], nothing(dh[:1])])}))
    return {**found, "d_h0": found["d_h0"] + dh[0]}


def _first_step_alone(case: Case, base: Base) -> Arrays:
    """The weights' gradients less those of the steps after the first."""
    found = base(case)
    later = {name: case.inputs[name][1:] for name in ("x", "dh")}
    later |= {f"{name}0": found[name][1] for name in ("h", "c") if name in found}
    rest = base(replace(case, inputs={**case.inputs, **later}))
    return {name: a - rest[name] if name.startswith("d_weights.") else a for name, a in found.items()}


def _complex_case(case: Case) -> bool:
    return is_complex(case) and (case.kind == "cell" or (case.kind == "activation" and _not_kinks(case)))


def _carry_alone(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    dx, _, dweights = own(w, dh, cache)
    return dx, own({name: nothing(a) if name[0] == "U" else a for name, a in w.items()}, dh, cache)[1], dweights


def anywhere_of(name: str) -> Callable[[Case], bool]:
    """A sequence of this cell, in a case of its own or in training."""
    return lambda case: cell(case) == name and case.kind in ("cell", "train")


M = Mistake
BEFORE, AFTER = "gru_reset_before", "gru_reset_after"
MISTAKES = (
    # Which gate is which
    M("reset-after", "the reset gate applied after U_c, as PyTorch and cuDNN do", step(BEFORE), reset_after),
    M("reset-before", "the reset gate applied to h before U_h, as Cho et al. do", _without_bias, reset_before),
    M("no-reset", "no reset gate", on("r", BEFORE, AFTER), fed(_reset_gate_open)),
    M("u-keeps", "u the weight of the old state, h = u h + (1 - u) c", on("u", BEFORE), _flipped("u")),
    M("z-writes", "z the weight of the new content, h = (1 - z) h + z c", on("z", AFTER), _flipped("z")),
    M(
        "z-vector-writes",
        "the vector z the weight of the new content, h = (1 - z) h + z c",
        _has_vector("z"),
        read_as(lambda z: 1 - z, negative, "weights.z"),
    ),
    M("vectors-through-sigmoid", "the vectors r and z through a sigmoid", _has_vector("r", "z"), _vectors_squashed),
    M("r-u-swapped", "the weights of r and u exchanged", step(BEFORE), exchanged({"r": "u", "u": "r"})),
    M("r-z-swapped", "the weights of r and z exchanged", _both_gates(AFTER), exchanged({"r": "z", "z": "r"})),
    M("order-ucr", "r, u, c with the weights of u, c, r", step(BEFORE), exchanged({"r": "u", "u": "c", "c": "r"})),
    M("order-cru", "r, u, c with the weights of c, r, u", step(BEFORE), exchanged({"r": "c", "u": "r", "c": "u"})),
    M(
        "order-zhr",
        "r, z, h with the weights of z, h, r",
        _both_gates(AFTER),
        exchanged({"r": "z", "z": "h", "h": "r"}),
    ),
    M(
        "order-hrz",
        "r, z, h with the weights of h, r, z",
        _both_gates(AFTER),
        exchanged({"r": "h", "z": "r", "h": "z"}),
    ),
    M("order-ifog", "the weights of g and o exchanged", step("lstm"), exchanged({"g": "o", "o": "g"})),
    M("order-igfo", "the weights of f and g exchanged (TensorFlow 1)", step("lstm"), exchanged({"f": "g", "g": "f"})),
    M(
        "order-iofg",
        "i, f, g, o with the weights of i, o, f, g (given in ONNX's order)",
        step("lstm"),
        exchanged({"f": "o", "g": "f", "o": "g"}),
    ),
    M(
        "order-igof",
        "i, f, g, o with the weights of i, g, o, f (read in ONNX's order)",
        step("lstm"),
        exchanged({"f": "g", "g": "o", "o": "f"}),
    ),
    M("i-f-swapped", "the weights of i and f exchanged", step("lstm"), exchanged({"i": "f", "f": "i"})),
    M("lstm-coupled", "f = 1 - i, without a forget gate of its own", step("lstm"), coupled("f", "i")),
    M("forget-plus-one", "1 added to the forget gate's bias (TensorFlow 1)", step("lstm"), fed(_forget_plus_one)),
    M("h0-c0-swapped", "h_0 and c_0 exchanged", sequence("lstm"), _states_swapped),
    # Weights
    M("U-transposed", "every U transposed", step(), read_as(transposed, transposed, "weights.U*")),
    M("W-transposed", "every W transposed, where m = n", _square, read_as(transposed, transposed, "weights.W*")),
    M("no-bias", "no bias", step(), read_as(nothing, nothing, *BIASES)),
    M(
        "bias-twice",
        "the bias added twice, as two biases that hold the same, with one's gradient",
        step(),
        read_as(times(2), same, *BIASES),
    ),
    M("bias-hh-outside", "b_hh outside the reset, one bias with b_h", _with_bias, one_bias),
    M("bias-hh-missing", "no b_hh", _with_bias, read_as(nothing, nothing, "weights.b_hh")),
    M("bias-inside-reset", "b_h inside the reset, r (U_h h + b_h)", _tanh_without_bias, bias_inside),
    M("tokens-one-late", "token k read as k + 1", _tokens, fed(_rolled(1))),
    M("h0-ignored", "h_0 = 0", sequence(), read_as(nothing, nothing, "h0", "c0")),
    # Gates of FastRNN and SGORNN
    M("gates-raw", "alpha and beta used as they are, without the sigmoid", _gates_free, patched(*_RAW_GATES)),
    M("alpha-beta-swapped", "alpha and beta exchanged", step("fastrnn"), _gates_swapped),
    M("beta-is-rest", "beta = 1 - alpha, without a weight of its own", step("fastrnn"), _beta_is_rest),
    M("no-constraint", "alpha and beta not clipped", _constrained, configured(constraint=None)),
    M("constraint-as-printed", "beta clipped, but not alpha", _sgornn, configured(constraint="sgornn-as-printed")),
    M(
        "clip-straight-through",
        "gradients of alpha and beta as if nothing were clipped",
        _constrained_sequence,
        patched((fastrnn.FastRNN, "gates_pullback", _straight)),
    ),
    M(
        "clip-stops",
        "no gradient to alpha through the bound of beta",
        _constrained_sequence,
        patched((fastrnn.FastRNN, "gates_pullback", _stopping)),
    ),
    # Activations
    M("hard-sigmoid-0.2", "clip(0.2 a + 0.5, 0, 1) for the sigmoid (Keras 2)", _sigmoids, patched(*hard_sigmoid(0.2))),
    M(
        "hard-sigmoid-1/6",
        "clip(a / 6 + 0.5, 0, 1) for the sigmoid (PyTorch, Keras 3)",
        _sigmoids,
        patched(*hard_sigmoid(1 / 6)),
    ),
    M(
        "modrelu-epsilon-1e-5",
        "modReLU with |z| + 1e-5 in the denominator (uRNN)",
        _any_modrelu,
        patched(*modrelu_as(in_denominator(1e-5))),
    ),
    M(
        "modrelu-epsilon-0.001",
        "modReLU with |z| + 0.001 in the denominator",
        _any_modrelu,
        patched(*modrelu_as(in_denominator(1e-3))),
    ),
    M(
        "modrelu-epsilon-0.01",
        "modReLU with |z| + 0.01 in the denominator",
        _any_modrelu,
        patched(*modrelu_as(in_denominator(1e-2))),
    ),
    M(
        "modrelu-goru",
        "modReLU of size max(|z| + 0.001 + b, 0) (GORU)",
        _any_modrelu,
        patched(*modrelu_as(in_relu(1e-3))),
    ),
    M(
        "modrelu-eurnn",
        "modReLU of size max(|z| + 0.01 + b, 0) (EURNN, real)",
        _real_modrelu,
        patched(*modrelu_as(in_relu(1e-2))),
    ),
    M(
        "modrelu-eurnn-complex",
        "modReLU with |z| + 0.01 for |z|, also below z (EURNN)",
        _complex_modrelu,
        patched(*modrelu_as(in_both(1e-2))),
    ),
    M(
        "modrelu-root",
        "modReLU with sqrt(|z|^2 + 1e-5) for |z| (full-capacity uRNN)",
        _any_modrelu,
        patched(*modrelu_as(in_root(1e-5))),
    ),
    M(
        "modrelu-bias-outside",
        "modReLU without its bias, added to z instead",
        _any_modrelu,
        _valued("modrelu", _bias_added),
    ),
    M("modrelu-bias-twice", "modReLU's bias inside and added to z", _any_modrelu, _valued("modrelu", _bias_twice)),
    M("modrelu-leaky", "modReLU with slope 0.1 where |z| + b < 0", _any_modrelu, patched(*modrelu_as(leaky))),
    M(
        "modrelu-is-relu",
        "max(z + b, 0) for modReLU",
        _real_modrelu,
        _valued("modrelu", lambda own: ACTIVATIONS["relu"]),
    ),
    M(
        "modrelu-sign-in-dz",
        "modReLU's derivative by z with a sign(z) too many",
        _real_modrelu,
        _pulled(lambda own, dy, a, b, y: (np.sign(a) * own(dy, a, b, y)[0], own(dy, a, b, y)[1])),
    ),
    M(
        "modrelu-no-sign-in-db",
        "modReLU's derivative by b without sign(z)",
        _real_modrelu,
        _pulled(lambda own, dy, a, b, y: (own(dy, a, b, y)[0],) * 2),
    ),
    M(
        "modrelu-phase-constant",
        "the phase z / |z| a constant in modReLU's derivative",
        _complex_modrelu,
        _pulled(_constant_phase),
    ),
    M(
        "modrelu-derivative-1",
        "modReLU's derivative by z taken as 1 everywhere, that by b as z / |z|",
        _any_modrelu,
        _pulled(lambda own, dy, a, b, y: (dy, (_phase(a).conj() * dy).real)),
    ),
    M(
        "tanh-always",
        "tanh whatever the activation (onnx.reference's GRU)",
        lambda case: step()(case) and not is_complex(case) and phi(case) in ("relu", "modrelu"),
        configured(activation="tanh"),
    ),
    M(
        "relu-derivative-1",
        "ReLU's derivative 1 everywhere",
        _of_activation("relu"),
        _pulled(lambda own, dy, a, b, y: (dy, dy), "relu"),
    ),
    M(
        "tanh-by-exp",
        "(e^2a - 1) / (e^2a + 1) for tanh, which overflows",
        lambda case: case.kind == "activation" and phi(case) == "tanh",
        _valued("tanh", lambda own: own._replace(value=_tanh_by_exp)),
    ),
    M(
        "sigmoid-by-exp",
        "e^a / (1 + e^a) for the sigmoid, which overflows",
        lambda case: phi(case) == "sigmoid",
        patched((reference, "sigmoid", lambda own: lambda a: np.exp(a) / (1 + np.exp(a)))),
    ),
    M(
        "tanh-derivative-of-input",
        "1 - a^2 for tanh's derivative 1 - tanh(a)^2",
        _of_activation("tanh"),
        _pulled(lambda own, dy, a, b, y: own(dy, a, b, a + b), "tanh"),
    ),
    M(
        "sigmoid-derivative-1",
        "no derivative of the sigmoid",
        _sigmoids,
        patched(*_sigmoid_derivative(lambda y: 1.0 + 0 * y)),
    ),
    M("db-not-summed-over-batch", "the bias's gradient of one sequence alone", _several, _first_bias),
    # The way back through time
    M("detached", "nothing carried back from a step to the one before", _through_time, stepping(_detached)),
    M("windows-of-8", "nothing carried back over the boundaries of windows of 8 steps", _long(8), windows(8)),
    M("path-U", "no way back through U", on("", "fastrnn"), without_path("")),
    *(
        M(f"path-{gate}", f"no way back through U_{gate}", trained(gate, *cells), without_path(gate))
        for gate, cells in (
            ("r", (BEFORE, AFTER)),
            ("u", (BEFORE,)),
            ("z", (AFTER,)),
            ("h", (AFTER,)),
            ("i", ("lstm",)),
            ("f", ("lstm",)),
            ("g", ("lstm",)),
            ("o", ("lstm",)),
        )
    ),
    M("path-c", "no way back through h_{t-1} in r h_{t-1}", trained("", BEFORE), stepping(_s_constant)),
    *(
        M(f"constant-{gate}", f"{gate} a constant in the backward pass", trained(gate, *cells), constant_gate(gate))
        for gate, cells in (
            ("r", (BEFORE, AFTER)),
            ("u", (BEFORE,)),
            ("z", (AFTER,)),
            ("i", ("lstm",)),
            ("f", ("lstm",)),
            ("o", ("lstm",)),
        )
    ),
    M("path-carried", "no way back through what is kept of the old state", _carries, stepping(_no_carry)),
    M("lstm-c-without-h", "no way from h_t to c_{t-1}", step("lstm"), stepping(_only_carry)),
    M(
        "dU_c-without-reset",
        "U_c's gradient formed with h_{t-1} in place of r h_{t-1}",
        anywhere_of(BEFORE),
        _gradient_of("U_c", s="h_prev"),
    ),
    M(
        "dU_r-with-reset",
        "U_r's gradient formed with r h_{t-1} in place of h_{t-1}",
        anywhere_of(BEFORE),
        stepping(_r_gradient_with_s),
    ),
    M(
        "U_c-fed-U_r",
        "U_c's gradient taken from U_r (NC-GRU's code with two orthogonal weights)",
        anywhere_of(BEFORE),
        stepping(_r_gradient_to_c),
    ),
    M(
        "dU-with-h",
        "U's gradient formed with h_t in place of h_{t-1}",
        sequence("elman"),
        _gradient_of("U", h_prev="h"),
    ),
    M("lstm-dU-with-h", "every U's gradient formed with h_t in place of h_{t-1}", sequence("lstm"), stepping(_next_h)),
    M(
        "dh_T-ignored",
        "dL/dh_T ignored",
        sequence(),
        fed(lambda case: {n: nothing(case.inputs[n]) for n in ("dh_T", "dc_T") if n in case.inputs}),
    ),
    M("dc_T-ignored", "dL/dc_T ignored", sequence("lstm"), fed(lambda case: {"dc_T": nothing(case.inputs["dc_T"])})),
    M("dh-last-only", "dL/dh_t taken at the last step alone", sequence(), fed(_last_alone)),
    M("dh-last-ignored", "dL/dh_t ignored at the last step", sequence(), fed(_last_ignored)),
    M("h0-gradient-lost", "d_h0 = 0", sequence(), scaled(lambda case: 0.0, "d_h0", "d_c0")),
    M("c0-gradient-lost", "d_c0 = 0", sequence("lstm"), scaled(lambda case: 0.0, "d_c0")),
    M(
        "x-gradient-lost",
        "d_x = 0",
        lambda case: sequence()(case) and not _tokens(case),
        scaled(lambda case: 0.0, "d_x"),
    ),
    M(
        "weights-averaged-over-batch",
        "gradients of weights averaged over the batch",
        _several,
        scaled(lambda case: 1 / batch(case), "d_weights.*"),
    ),
    M(
        "weights-averaged-over-time",
        "gradients of weights averaged over time",
        sequence(),
        scaled(lambda case: 1 / steps(case), "d_weights.*"),
    ),
    M(
        "all-averaged-over-batch",
        "every gradient averaged over the batch",
        _several,
        scaled(lambda case: 1 / batch(case), "d_*"),
    ),
    M(
        "weights-first-step-alone",
        "gradients of weights overwritten from step to step, not added",
        _long(1),
        _first_step_alone,
    ),
    M(
        "dU-transposed",
        "the gradient of every U transposed",
        sequence(),
        altered(lambda case, found: {n: transposed(a) for n, a in found.items() if n.startswith("d_weights.U")}),
    ),
    M(
        "d_x-reversed",
        "d_x in the order in which it is computed, the last step first",
        lambda case: sequence()(case) and not _tokens(case),
        altered(lambda case, found: {"d_x": found["d_x"][::-1]}),
    ),
    M("dh-one-early", "dh[t] taken for dL/dh[t], not for dL/dh[t + 1]", sequence(), _dh_one_early),
    M(
        "all-clipped",
        "every entry of every gradient clipped to [-1, 1]",
        sequence(),
        altered(lambda case, found: {n: np.clip(a, -1, 1) for n, a in found.items() if n.startswith("d_")}),
    ),
    M("all-halved", "every gradient halved", sequence(), scaled(lambda case: 0.5, "d_*")),
    M("all-negative", "every gradient with its sign flipped", sequence(), scaled(lambda case: -1.0, "d_*")),
    M("h-shifted", "the states given one step early, h[t] = h_{t+1}, the last twice", sequence(), altered(_shifted)),
    # Complex
    M(
        "gradient-conjugated",
        "gradients of complex arrays conjugated (JAX, autograd)",
        _complex_case,
        altered(_conjugated),
    ),
    M(
        "U^T-for-U^H",
        "U^T in place of U^H on the way back",
        lambda case: sequence("elman")(case) and is_complex(case),
        stepping(_not_conjugated),
    ),
    M(
        "U-conjugated",
        "U conjugated",
        lambda case: sequence("elman")(case) and is_complex(case),
        read_as(conjugate, conjugate, "weights.U"),
    ),
    # Jacobian
    M(
        "J-transposed",
        "J transposed: columns by h_t",
        lambda case: case.kind == "jacobian",
        altered(lambda case, found: {"J": found["J"].T}),
    ),
    M(
        "J-carried-alone",
        "the part of J through what is kept, alone",
        lambda case: case.kind == "jacobian" and _carries(case),
        stepping(_carry_alone),
    ),
)
