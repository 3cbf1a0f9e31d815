"""Mistakes in parametrizations, in Algorithm 1 and in optimizers.  Those that replace functions reach `train` too."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case, joined, parted
from ortho_ref.conformance.mistake import (
    Base,
    Mistake,
    Patch,
    altered,
    configured,
    conjugate,
    fed,
    negative,
    nothing,
    patched,
    read_as,
    scaled,
    times,
)
from ortho_ref.conformance.private import private

reference, optimizers = private("ortho_ref.conformance.reference"), private("ortho_ref.optimizers")
cayley, neumann = private("ortho_ref.parametrizations.cayley"), private("ortho_ref.parametrizations.neumann")
geodesic, exponential = (
    private("ortho_ref.parametrizations.geodesic"),
    private("ortho_ref.parametrizations.exponential"),
)
rotations, network = private("ortho_ref.parametrizations.rotations"), private("ortho_ref.network")

Predicate = Callable[[Case], bool]
A = "params.A"


def of(*names: str) -> Predicate:
    """A case of kind parametrization, of one of these."""
    return lambda case: case.kind == "parametrization" and case.config["parametrization"] in names


def updates(*algorithms: str) -> Predicate:
    """Updates by one of these; training is by neumann_cayley."""

    def applies(case: Case) -> bool:
        own = {"update": case.config.get("algorithm"), "train": "neumann_cayley"}.get(case.kind)
        return own in algorithms

    return applies


def either(*predicates: Predicate) -> Predicate:
    """One of these at least."""
    return lambda case: any(applies(case) for applies in predicates)


CAYLEY = either(of("scaled_cayley", "neumann_cayley"), updates("scaled_cayley", "neumann_cayley"))
NEUMANN = updates("neumann_cayley")


def _rotating(case: Case) -> bool:
    return of("tunable_rotations", "fft_rotations", "volume_preserving")(case)


def _phased(case: Case) -> bool:
    return of("tunable_rotations", "fft_rotations")(case) and bool(case.config["complex"])


def _complex_map(case: Case) -> bool:
    return _phased(case) or of("structured_unitary")(case)


# The Cayley transform


def _sandwiched(case: Case, base: Base, sign: int) -> Arrays:
    """With A = sign D A' D: D C(A') is C(D A' D) D, and its transpose C(-D A' D) D."""
    n = len(case.inputs[A])
    D = np.diag(reference.signs(n, case.config["negative_ones"], np.float64))
    return read_as(lambda a: sign * D @ a @ D, lambda d: sign * D @ d @ D, A)(case, base)


def D_on_the_left(case: Case, base: Base) -> Arrays:
    """D (I + A)^-1 (I - A)."""
    return _sandwiched(case, base, 1)


def transposed_U(case: Case, base: Base) -> Arrays:
    """U^T in place of U."""
    return _sandwiched(case, base, -1)


def _cayley_pullback(wrong: Callable[..., Any]) -> tuple[Patch, ...]:
    """Another pullback: wrong(right, A_tilde, D, U, dU).  What is not skew any more is not refused."""
    lenient = tuple((module, "check_skew", lambda _: lambda *_: None) for module in (cayley, neumann))
    return (
        tuple(
            (module, "cayley_pullback", lambda own: lambda *arguments: wrong(own, *arguments))
            for module in (cayley, neumann)
        )
        + lenient
    )


def _V(A_tilde: Any, right: Any, dU: Any) -> Any:
    V = A_tilde.T @ dU @ right
    return V.T - V


def _signs(change: Callable[[Any], Any]) -> tuple[Patch, ...]:
    """Another diagonal D."""
    return tuple(
        (module, "signs", lambda own: lambda n, k, dtype: change(own(n, k, dtype)))
        for module in (reference, cayley, neumann)
    )


# Algorithm 1


def _series(wrong: Callable[[Any, Any, int, Any], Any]) -> Callable[[Case, Base], Arrays]:
    """Another series: wrong(A_tilde, P, order, right)."""
    return patched(
        (neumann, "neumann_inverse", lambda own: lambda A_tilde, P, order: wrong(A_tilde, P, order, own)),
    )


#: Layers call `retract` itself, whatever stands there.
AT_ONCE: Patch = (neumann.NeumannCayley, "begin_retract", lambda _: neumann.Parametrization.begin_retract)


def _retracting(change: Callable[..., Any]) -> Callable[[Case, Base], Arrays]:
    """Another update: change(right, parametrization, params, buffers, delta)."""

    def make(own: Any) -> Any:
        def retract(self: Any, params: Any, buffers: Any, delta: Any) -> Any:
            return change(lambda *arguments: own(self, *arguments), self, params, buffers, delta)

        return retract

    return patched((neumann.NeumannCayley, "retract", make), AT_ONCE)


def _sgd_in_the_series(case: Case, base: Base) -> Arrays:
    """The series is fed learning rate * gradient, whatever moved A (NC-GRU's code)."""
    optimizer = case.config["optimizer_A" if case.kind == "train" else "optimizer"]
    seen: dict[int, Any] = {}

    def pullback(own: Any) -> Any:
        def outputs(self: Any, params: Any, buffers: Any, dU: Any) -> Any:
            gradient = own(self, params, buffers, dU)
            seen[id(params["A"])] = gradient["A"]
            return gradient

        return outputs

    def retract(own: Any) -> Any:
        def outputs(self: Any, params: Any, buffers: Any, delta: Any) -> Any:
            fed_delta = optimizer["learning_rate"] * seen[id(params["A"])]
            moved, after = own(self, params, buffers, delta)
            if self.reset_every is not None and after["step"] % self.reset_every == 0:
                return moved, after
            by_sgd = own(self, params, buffers, {"A": fed_delta})[1]["A_tilde"]
            return moved, {**after, "A_tilde": by_sgd, "U": by_sgd @ (np.eye(len(by_sgd)) - moved["A"]) * buffers["D"]}

        return outputs

    return patched((neumann.NeumannCayley, "pullback", pullback), (neumann.NeumannCayley, "retract", retract), AT_ONCE)(
        case, base
    )


def _adam_like(case: Case) -> bool:
    return NEUMANN(case) and case.config["optimizer_A" if case.kind == "train" else "optimizer"]["name"] != "sgd"


def _early(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """The reset comes one update early: the counter starts at 1."""
    moved, after = own(params, {**buffers, "step": buffers["step"] + 1}, delta)
    return moved, {**after, "step": after["step"] - 1}


def _late(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """The reset comes one update late."""
    late = min(buffers["step"], 1)
    moved, after = own(params, {**buffers, "step": buffers["step"] - late}, delta)
    return moved, {**after, "step": after["step"] + late}


def _from_zero(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """Updates are counted from 0, and 0 is a multiple."""
    moved, after = own(params, {**buffers, "step": buffers["step"] - 1}, delta)
    return moved, {**after, "step": after["step"] + 1}


def _inverse_of_c(own: Any) -> Any:
    """U_r's series starts from U_c's A_tilde."""

    def retract(self: Any, params: Any, buffers: Any, deltas: Any) -> Any:
        r = {**buffers["layer0.U_r"], "A_tilde": buffers["layer0.U_c"]["A_tilde"]}
        return own(self, params, {**buffers, "layer0.U_r": r}, deltas)

    return retract


def _old_A(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """Line 8 with the A from before the update."""
    moved, after = own(params, buffers, delta)
    return moved, {**after, "U": after["A_tilde"] @ (np.eye(len(params["A"])) - params["A"]) * buffers["D"]}


def _inverse_unused(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """The exact A_tilde of a reset is used for U, but the series goes on from the approximate one."""
    moved, after = own(params, buffers, delta)
    went_on = neumann.neumann_inverse(buffers["A_tilde"], after["P"], self.order)
    return moved, {**after, "A_tilde": went_on}


def _resets(case: Case) -> bool:
    every = case.config.get("reset_every")
    count = len(case.inputs["x" if case.kind == "train" else "dU"]) if NEUMANN(case) else 0
    return every is not None and 1 < every < count


# Householder, rotations, structured


def _angles(change: Callable[[Any], Any], adjoint: Callable[[Any], Any]) -> Callable[[Case, Base], Arrays]:
    return read_as(change, adjoint, "params.theta*", "params.Theta")


def _transposed_map(case: Case, base: Base) -> Arrays:
    """U^T in place of U: both U and dL/dU exchanged."""
    found = base(replace(case, inputs={**case.inputs, "dU": np.swapaxes(case.inputs["dU"], 0, 1)}))
    return {**found, "U": np.swapaxes(found["U"], 0, 1)}


def _conjugated_map(case: Case, base: Base) -> Arrays:
    """U^* in place of U."""
    found = base(replace(case, inputs={**case.inputs, "dU": case.inputs["dU"] * [1, -1]}))
    return {**found, "U": found["U"] * [1, -1]}


def _layers(change: Callable[[Iterator[Any]], Any], *kinds: Any) -> Callable[[Case, Base], Arrays]:
    """Other layers, or in another order."""

    def make(own: Any) -> Any:
        return lambda self, n, buffers: iter(change(own(self, n, buffers)))

    return patched(*((kind, "_layers", make) for kind in kinds))


STYLES = (rotations.TunableRotations, rotations.FFTRotations, rotations.VolumePreserving)


def _inverse_permutations(case: Case) -> Arrays:
    return {
        name: np.argsort(case.inputs[name], axis=-1) for name in ("permutations", "permutation") if name in case.inputs
    }


def _exchanged_params(first: str, second: str) -> Callable[[Case, Base], Arrays]:
    names = {f"params.{first}": f"params.{second}", f"params.{second}": f"params.{first}"}

    def outputs(case: Case, base: Base) -> Arrays:
        found = base(replace(case, inputs={**case.inputs, **{a: case.inputs[b] for a, b in names.items()}}))
        return {**found, **{f"d_{a}": found[f"d_{b}"] for a, b in names.items()}}

    return outputs


def _by_tangent(case: Case, found: Arrays) -> Arrays:
    """exp's derivative as at A = 0, carried to U: U^T dU, its skew part."""
    W = found["U"].T @ case.inputs["dU"]
    return {"d_params.A": W - W.T}


def _as_at_zero(case: Case, found: Arrays) -> Arrays:
    """exp's derivative as at A = 0."""
    return {"d_params.A": case.inputs["dU"] - case.inputs["dU"].T}


def _derivative_at_A(own: Any) -> Any:
    """The derivative of exp at A in place of A^T."""
    return lambda A, E: own(A.T, E)


def _unprojected(own: Any) -> Any:
    return lambda self, params, buffers, dU: {"A": exponential.exponential_derivative(params["A"].T, dU)}


def _upper_alone(case: Case, found: Arrays) -> Arrays:
    return {"d_params.A": np.triu(found["d_params.A"])}


def _unit_columns(array: np.ndarray) -> np.ndarray:
    return array / np.linalg.norm(array, axis=0)


def _unit_vector(array: np.ndarray) -> np.ndarray:
    return array / np.linalg.norm(array)


def _gradient_at(change: Callable[[Any], Any], *names: str) -> Callable[[Case, Base], Arrays]:
    """The gradients at other parameters; U at these."""

    def outputs(case: Case, base: Base) -> Arrays:
        changed = {name: change(case.inputs[name]) for name in names}
        found = base(replace(case, inputs={**case.inputs, **changed}))
        return {**base(case), **{f"d_{name}": found[f"d_{name}"] for name in names}}

    return outputs


def _last_is_reflection(case: Case) -> Arrays:
    V = case.inputs["params.V"].copy()
    V[-1, -1] = -abs(V[-1, -1])
    return {"params.V": V}


def _all_reflections(case: Case) -> bool:
    return of("householder")(case) and case.config["reflections"] == len(case.inputs["params.V"])


def _other_way_round(pairs: Any, M: Any) -> Any:
    return pairs(M)[::-1]


def _swapped(layers: Iterator[Any]) -> list[Any]:
    return [layer._replace(pairs=partial(_other_way_round, layer.pairs)) for layer in layers]


def _phase_on_upper(case: Case, base: Base) -> Arrays:
    """With the two rows of every pair exchanged and the angles negative the phase is the upper input's."""
    turned = _angles(negative, negative)
    return _layers(_swapped, rotations.TunableRotations, rotations.FFTRotations)(
        case, lambda inner: turned(inner, base)
    )


def _phase_on_row(case: Case, base: Base) -> Arrays:
    """e^{iw} times the adjoint of: the layers backwards, the rows of every pair exchanged, the phases negative."""
    D, dU = np.exp(1j * case.inputs["params.omega"])[:, None], joined(case.inputs["dU"])
    inner = {"params.omega": nothing(case.inputs["params.omega"]), "dU": parted((D.conj() * dU).conj().T)}
    backwards = _layers(lambda layers: _swapped(layers)[::-1], rotations.TunableRotations, rotations.FFTRotations)
    turned = read_as(negative, negative, "params.phi*")
    found = backwards(replace(case, inputs={**case.inputs, **inner}), lambda c: turned(c, base))
    U = D * joined(found["U"]).conj().T
    return {**found, "U": parted(U), "d_params.omega": (dU * U.conj()).imag.sum(axis=1)}


def _reordered(angles: Any, own: Any, kind: str) -> Any:
    row = angles(own, kind)
    return row.T.reshape(-1).reshape(row.shape)


def _columns_by_block(layers: Iterator[Any]) -> list[Any]:
    """FFT style with the angles of a row taken block by block."""
    return [layer._replace(angles=partial(_reordered, layer.angles)) for layer in layers]


def _even_odd(layers: Iterator[Any]) -> list[Any]:
    return [layer._replace(pairs=lambda M: (M[::2], M[1::2])) for layer in layers]


def _B_before_A(layers: Iterator[Any]) -> list[Any]:
    every = list(layers)
    return [layer for pair in zip(every[1::2], every[::2], strict=True) for layer in pair]


def _backwards(layers: Iterator[Any]) -> list[Any]:
    return list(layers)[::-1]


def _transforms_exchanged(case: Case, base: Base) -> Arrays:
    """F and F^-1 exchanged: the conjugate of U at -w and v^*."""
    w, v = ("params.w_1", "params.w_2", "params.w_3"), ("params.v_1", "params.v_2")

    def at_conjugates(inner: Case) -> Arrays:
        turned = read_as(negative, negative, *w)
        return read_as(conjugate, conjugate, *v)(inner, lambda c: turned(c, base))

    return _conjugated_map(case, at_conjugates)


def _jax_cotangent(case: Case, base: Base) -> Arrays:
    """dL/dU read in JAX's convention."""
    found = base(replace(case, inputs={**case.inputs, "dU": conjugate(case.inputs["dU"])}))
    return {**found, "U": base(case)["U"]}


def _geodesic(change: Callable[[Any, Any], Any]) -> Callable[[Case, Base], Arrays]:
    """Another delta of the geodesic step: change(X, delta)."""

    def make(own: Any) -> Any:
        return lambda self, params, buffers, delta: own(self, params, buffers, {"X": change(params["X"], delta["X"])})

    return patched((geodesic.GeodesicUnitary, "retract", make))


def _as_printed(X: Any, delta: Any) -> Any:
    """delta X^H is to be G^H U, whatever rounding has left of U^H U = I."""
    return delta.conj().T @ X @ np.linalg.inv(X.conj().T)


def _additive(own: Any) -> Any:
    """X - delta, not unitary any more."""

    def retract(self: Any, params: Any, buffers: Any, delta: Any) -> Any:
        X = params["X"] - delta["X"]
        return {"X": X}, {**buffers, "U": X}

    return retract


# Optimizers


def stepped(kind: Any, change: Callable[..., Any]) -> Callable[[Case, Base], Arrays]:
    """Another step: change(right, optimizer, rate, k, g, buffers), where right takes all but the first."""

    def make(own: Any) -> Any:
        return lambda self, rate, k, g, buffers: change(own, self, rate, k, g, buffers)

    return patched((kind, "_delta", make))


def optimizing(name: str, good: Predicate = lambda case: True) -> Predicate:
    """Where this optimizer works."""

    def applies(case: Case) -> bool:
        used = [case.config[key] for key in ("optimizer", "optimizer_A") if key in case.config]
        return case.kind in ("optimizer", "update", "train") and any(o["name"] == name for o in used) and good(case)

    return applies


def option(name: str, argument: str, test: Callable[[Any], bool]) -> Predicate:
    """Where this optimizer works with such a value of an argument."""

    def applies(case: Case) -> bool:
        used = [case.config[key] for key in ("optimizer", "optimizer_A") if key in case.config]
        return case.kind in ("optimizer", "update", "train") and any(
            o["name"] == name and test(o[argument]) for o in used
        )

    return applies


def reconfigured(name: str, **changes: Any) -> Callable[[Case, Base], Arrays]:
    """An optimizer with other arguments."""

    def outputs(case: Case, base: Base) -> Arrays:
        config = {
            key: {**value, **changes} if key in ("optimizer", "optimizer_A") and value["name"] == name else value
            for key, value in case.config.items()
        }
        return base(replace(case, config=config))

    return outputs


def _with(self: Any, **changes: Any) -> Any:
    other = copy.copy(self)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def _no_correction(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, 10**9, g, buffers)


def _first_moment_uncorrected(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, k, g, buffers) * (1 - self.beta1**k)


def _k_from_zero(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, max(k - 1, 1), g, buffers)


def _k_from_two(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, k + 1, g, buffers)


def _epsilon_hat(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """epsilon added to the uncorrected root (TensorFlow 1)."""
    return own(_with(self, epsilon=self.epsilon / np.sqrt(1 - self.beta2**k)), rate, k, g, buffers)


def _epsilon_in_root(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    own(self, rate, k, g, buffers)
    m, v = buffers["m"] / (1 - self.beta1**k), buffers["v"] / (1 - self.beta2**k)
    return rate * m / np.sqrt(v + self.epsilon)


def _square_of_new_moment(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """The second moment of the first moment in place of the gradient."""
    v = buffers["v"].copy()
    own(self, rate, k, g, buffers)
    m = buffers["m"]
    buffers["v"][...] = v = self.beta2 * v + (1 - self.beta2) * m * m
    return rate * m / (1 - self.beta1**k) / (np.sqrt(v / (1 - self.beta2**k)) + self.epsilon)


def _over_root(self: Any, step: Any, v: Any) -> Any:
    return step / (np.sqrt(v + self.epsilon) if self.epsilon_inside else np.sqrt(v) + self.epsilon)


def _shared_modulus(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """One second moment |g|^2 for real and imaginary part."""
    own(self, rate, k, g, buffers)
    v = np.repeat(buffers["v"].reshape(-1, 2).sum(axis=1), 2)
    if isinstance(self, optimizers.Adam):
        return rate * buffers["m"] / (1 - self.beta1**k) / (np.sqrt(v / (1 - self.beta2**k)) + self.epsilon)
    return _over_root(self, rate * g, v)


def _complex_moments(name: str) -> Predicate:
    return lambda case: case.kind == "optimizer" and case.config["complex"] and case.config["optimizer"]["name"] == name


def _decay_swapped(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(_with(self, decay=1 - self.decay), rate, k, g, buffers)


def _betas_swapped(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(_with(self, beta1=self.beta2, beta2=self.beta1), rate, k, g, buffers)


def _old_square(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """The running mean from before this gradient."""
    v = buffers["v"].copy()
    own(self, rate, k, g, buffers)
    return _over_root(self, rate * g, v)


def _centered(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """The variance in place of the mean square (PyTorch's centered)."""
    own(self, rate, k, g, buffers)
    mean = buffers["mean"] = self.decay * buffers.get("mean", 0 * g) + (1 - self.decay) * g
    return _over_root(self, rate * g, buffers["v"] - mean * mean)


def _dampened(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, k, (1 - self.momentum) * g, buffers)


def _nesterov(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    own(self, rate, k, g, buffers)
    return rate * (g + self.momentum * buffers["m"])


def _decoupled(own: Any) -> Any:
    """The decay subtracted beside the step, not added to the gradient (AdamW)."""

    def delta(self: Any, name: str, parameter: Any, gradient: Any) -> Any:
        rate = float(self.learning_rate(0))
        return own(_with(self, weight_decay=0.0), name, parameter, gradient) + rate * self.weight_decay * parameter

    return delta


def _decays(case: Case) -> bool:
    return case.kind in ("optimizer", "update") and case.config["optimizer"]["weight_decay"] > 0


def _ascending(own: Any) -> Any:
    return lambda self, name, parameter, gradient: -own(self, name, parameter, gradient)


def _has_D(case: Case) -> bool:
    return CAYLEY(case) and case.config["negative_ones"] > 0


def _mixed_D(case: Case) -> bool:
    n = next((len(case.inputs[name]) for name in ("params.A", "A0", "params.layer0.b_c") if name in case.inputs), 0)
    return CAYLEY(case) and 0 < case.config["negative_ones"] < n


def _mixed_scaled(case: Case) -> bool:
    return of("scaled_cayley")(case) and _mixed_D(case)


def _several_reflections(case: Case) -> bool:
    return of("householder")(case) and case.config["reflections"] > 1


def _skew_gradient(case: Case) -> bool:
    return of("scaled_cayley", "neumann_cayley", "exponential")(case)


def _rmsprop_with(argument: str, value: Any) -> Predicate:
    return option("rmsprop", argument, lambda given: given != value)


def _outside(case: Case) -> bool:
    return option("rmsprop", "epsilon_inside", lambda inside: not inside)(case) and option("rmsprop", "epsilon", bool)(
        case
    )


def _inside(case: Case) -> bool:
    return option("rmsprop", "epsilon_inside", bool)(case)


def _not_exact(case: Case) -> bool:
    return NEUMANN(case) and case.config["reset_every"] != 1


def _forced(case: Case) -> bool:
    """Where the kit has steps that force a reset."""
    return case.id in ("update/neumann_cayley/forced", "update/neumann_cayley/forced-and-due")


def _forced_and_due(case: Case) -> bool:
    return _forced(case) and case.config["reset_every"] is not None


def _restarted(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """A forced reset counts as the one that is due."""
    moved, after = own(params, buffers, delta)
    return moved, {**after, "step": 0} if after["forced_resets"] > buffers["forced_resets"] else after


def _stepping(case: Case) -> bool:
    return case.kind in ("optimizer", "update", "train")


M = Mistake
SCALED, EXP = of("scaled_cayley"), of("exponential")
GEODESIC = updates("geodesic_unitary")
MISTAKES = (
    # The scaled Cayley transform
    M("cayley-no-D", "no D", _has_D, configured(negative_ones=0)),
    M("cayley-D-first", "D's -1 first, not last", _mixed_D, patched(*_signs(lambda D: D[::-1].copy()))),
    M("cayley-D-negative", "D's signs exchanged", _mixed_D, patched(*_signs(negative))),
    M("cayley-D-left", "D on the left, D (I + A)^-1 (I - A)", _mixed_scaled, D_on_the_left),
    M("cayley-transposed", "U^T for U", SCALED, transposed_U),
    M("cayley-half", "(I + A/2)^-1 (I - A/2) D, the half-angle form", SCALED, read_as(times(0.5), times(0.5), A)),
    M("cayley-inverse", "(I - A)^-1 (I + A) D", SCALED, read_as(negative, negative, A)),
    M("cayley-half-inverse", "(I - A/2)^-1 (I + A/2) D (geotorch)", SCALED, read_as(times(-0.5), times(-0.5), A)),
    M("cayley-dU-transposed", "dL/dU transposed", SCALED, fed(lambda case: {"dU": case.inputs["dU"].T})),
    M(
        "cayley-no-projection",
        "V^T for V^T - V",
        CAYLEY,
        patched(*_cayley_pullback(lambda own, S, D, U, dU: (S.T @ dU @ (np.diag(D) + U.T)).T)),
    ),
    M(
        "cayley-gradient-half",
        "(V^T - V) / 2 for V^T - V",
        CAYLEY,
        patched(*_cayley_pullback(lambda own, *a: own(*a) / 2)),
    ),
    M("cayley-gradient-negative", "V - V^T for V^T - V", CAYLEY, patched(*_cayley_pullback(lambda own, *a: -own(*a)))),
    M(
        "cayley-V-without-U",
        "V without U^T, (I + A)^-T dU D",
        CAYLEY,
        patched(*_cayley_pullback(lambda own, S, D, U, dU: _V(S, np.diag(D), dU))),
    ),
    M(
        "cayley-V-without-D",
        "V without D, (I + A)^-T dU U^T",
        CAYLEY,
        patched(*_cayley_pullback(lambda own, S, D, U, dU: _V(S, U.T, dU))),
    ),
    M(
        "cayley-V-only-dU",
        "V without D + U^T, (I + A)^-T dU",
        CAYLEY,
        patched(*_cayley_pullback(lambda own, S, D, U, dU: _V(S, np.eye(len(D)), dU))),
    ),
    M(
        "cayley-V-U",
        "V with U for U^T",
        CAYLEY,
        patched(*_cayley_pullback(lambda own, S, D, U, dU: _V(S, np.diag(D) + U, dU))),
    ),
    M(
        "cayley-V-inverse",
        "V with (I + A)^-1 for (I + A)^-T",
        CAYLEY,
        patched(*_cayley_pullback(lambda own, S, D, U, dU: _V(S.T, np.diag(D) + U.T, dU))),
    ),
    M("skew-gradient-upper", "the gradient above the diagonal alone", _skew_gradient, altered(_upper_alone)),
    # Algorithm 1
    M("neumann-sign", "the series in -A_tilde delta", NEUMANN, _series(lambda S, P, order, own: own(S, -P, order))),
    M(
        "neumann-order-plus-one",
        "one power too many in the series",
        NEUMANN,
        _series(lambda S, P, order, own: own(S, P, order + 1)),
    ),
    M(
        "neumann-order-minus-one",
        "one power too few in the series",
        NEUMANN,
        _series(lambda S, P, order, own: own(S, P, order - 1)),
    ),
    M(
        "neumann-factors",
        "the series multiplied from the right, A_tilde (I + P + ...)",
        NEUMANN,
        _series(lambda S, P, order, own: own(S.T, P.T, order).T),
    ),
    M(
        "neumann-first-power-alone",
        "(I + P) in place of the whole series",
        lambda c: NEUMANN(c) and c.config["order"] > 1,
        configured(order=1),
    ),
    M(
        "neumann-sgd",
        "learning rate times gradient in the series, whatever moved A (NC-GRU's code)",
        _adam_like,
        _sgd_in_the_series,
    ),
    M("neumann-never-reset", "no resets", _resets, configured(reset_every=None)),
    M("neumann-always-exact", "the exact inverse at every update", _not_exact, configured(reset_every=1)),
    M("neumann-reset-early", "resets one update early", _resets, _retracting(_early)),
    M("neumann-reset-late", "resets one update late", _resets, _retracting(_late)),
    M(
        "neumann-reset-from-0",
        "updates counted from 0: resets after the first, and then one update late",
        _resets,
        _retracting(_from_zero),
    ),
    M(
        "neumann-reset-not-kept",
        "the inverse of a reset used for U, but not carried on",
        _resets,
        _retracting(_inverse_unused),
    ),
    M(
        "neumann-not-forced",
        "no reset where ||A_tilde delta|| is 1 or more",
        _forced,
        patched((neumann, "spectral_norm", lambda own: lambda M: 0.0)),
    ),
    M(
        "neumann-forced-by-frobenius",
        "forced resets by the Frobenius norm of A_tilde delta",
        _forced,
        patched((neumann, "spectral_norm", lambda own: lambda M: float(np.linalg.norm(M)))),
    ),
    M(
        "neumann-forced-restarts",
        "updates counted anew after a forced reset",
        _forced_and_due,
        _retracting(_restarted),
    ),
    M(
        "neumann-A_tilde-of-U_c",
        "U_r's series from U_c's A_tilde (NC-GRU's code)",
        lambda case: case.kind == "train" and case.config["orthogonal"] == "rc",
        patched((network.Network, "retract", _inverse_of_c)),
    ),
    M("neumann-old-A", "U from the A before the update", NEUMANN, _retracting(_old_A)),
    # Geodesic steps
    M("geodesic-as-printed", "A = G^H U - U^H G, as printed", GEODESIC, _geodesic(_as_printed)),
    M("geodesic-uphill", "A with its sign flipped", GEODESIC, _geodesic(lambda X, G: -G)),
    M("geodesic-twice", "rate A in place of (rate / 2) A", GEODESIC, _geodesic(lambda X, G: 2 * G)),
    M("geodesic-real-gradient", "the real part of the gradient alone", GEODESIC, _geodesic(lambda X, G: G.real + 0j)),
    M("geodesic-conjugated", "the gradient conjugated (JAX, autograd)", GEODESIC, _geodesic(lambda X, G: G.conj())),
    M(
        "geodesic-additive",
        "U - delta, not a geodesic step",
        GEODESIC,
        patched((geodesic.GeodesicUnitary, "retract", _additive)),
    ),
    # The exponential
    M("exp-transposed", "exp(-A) for exp(A)", EXP, read_as(negative, negative, A)),
    M("exp-half", "exp(A / 2)", EXP, read_as(times(0.5), times(0.5), A)),
    M("exp-gradient-at-0", "exp's derivative as at A = 0", EXP, altered(_as_at_zero)),
    M("exp-gradient-tangent", "U^T dU - dU^T U for the gradient", EXP, altered(_by_tangent)),
    M(
        "exp-derivative-at-A",
        "exp's derivative at A, not at A^T",
        EXP,
        patched((exponential, "exponential_derivative", _derivative_at_A)),
    ),
    M(
        "exp-no-projection",
        "the gradient not made skew",
        EXP,
        patched((exponential.Exponential, "pullback", _unprojected)),
    ),
    M(
        "exp-gradient-half",
        "the projection on skew matrices, half the derivative by the free entries",
        EXP,
        scaled(lambda case: 0.5, "d_params.A"),
    ),
    # Householder
    M("householder-order", "H_m ... H_1 for H_1 ... H_m", _several_reflections, _transposed_map),
    M(
        "householder-length",
        "the gradient by v / |v|, not by v",
        of("householder"),
        _gradient_at(_unit_columns, "params.V"),
    ),
    M(
        "householder-last",
        "the last of n reflections as it is, without the sign that stands for it",
        _all_reflections,
        fed(_last_is_reflection),
    ),
    # Rotations
    M("rotation-sign", "angles with their sign flipped", _rotating, _angles(negative, negative)),
    M("rotation-layers-reversed", "the layers in the opposite order", _rotating, _layers(_backwards, *STYLES)),
    M(
        "tunable-B-first",
        "the layers B A B A ... for A B A B ...",
        of("tunable_rotations"),
        _layers(_B_before_A, rotations.TunableRotations),
    ),
    M(
        "fft-columns",
        "FFT style with the angles of a row taken block by block",
        of("fft_rotations"),
        _layers(_columns_by_block, rotations.FFTRotations),
    ),
    M(
        "volume-even-odd",
        "pairs (0, 1), (2, 3) ... for (i, i + n/2)",
        of("volume_preserving"),
        _layers(_even_odd, rotations.VolumePreserving),
    ),
    M(
        "permutation-inverse",
        "the permutations' inverses",
        of("volume_preserving", "structured_unitary"),
        fed(_inverse_permutations),
    ),
    M("phase-sign", "phases with their sign flipped", _phased, read_as(negative, negative, "params.phi*")),
    M("phase-on-upper", "the phase on the upper input of a pair, not the lower", _phased, _phase_on_upper),
    M("phase-on-row", "the phase on the first row of a rotation (the EUNN paper)", _phased, _phase_on_row),
    M("no-diagonal", "no final diagonal", _phased, read_as(nothing, nothing, "params.omega")),
    # Complex maps
    M("map-conjugated", "U^* for U", _complex_map, _conjugated_map),
    M("map-gradient-conjugated", "dL/dU conjugated (JAX, autograd)", _complex_map, _jax_cotangent),
    M(
        "reflection-conjugate",
        "reflections in the conjugate of v (uRNN's code)",
        of("structured_unitary"),
        read_as(conjugate, conjugate, "params.v_1", "params.v_2"),
    ),
    M(
        "reflection-length",
        "the gradient by v / |v|, not by v",
        of("structured_unitary"),
        _gradient_at(_unit_vector, "params.v_1", "params.v_2"),
    ),
    M(
        "reflection-gradient-conjugated",
        "the gradients of v conjugated",
        of("structured_unitary"),
        altered(lambda case, found: {f"d_params.v_{j}": conjugate(found[f"d_params.v_{j}"]) for j in (1, 2)}),
    ),
    M(
        "reflection-gradient-half",
        "Wirtinger derivatives by v, half the gradient",
        of("structured_unitary"),
        altered(lambda case, found: {f"d_params.v_{j}": found[f"d_params.v_{j}"] / 2 for j in (1, 2)}),
    ),
    M("structured-D1-D3", "D_1 and D_3 exchanged", of("structured_unitary"), _exchanged_params("w_1", "w_3")),
    M("structured-R1-R2", "R_1 and R_2 exchanged", of("structured_unitary"), _exchanged_params("v_1", "v_2")),
    M("structured-F-inverse", "F and F^-1 exchanged", of("structured_unitary"), _transforms_exchanged),
    # Optimizers
    M(
        "step-ascends",
        "the step added, not subtracted",
        _stepping,
        patched((optimizers.Elementwise, "delta", _ascending)),
    ),
    M(
        "adam-no-correction",
        "Adam without bias correction",
        optimizing("adam"),
        stepped(optimizers.Adam, _no_correction),
    ),
    M(
        "adam-m-uncorrected",
        "Adam with the second moment corrected alone",
        optimizing("adam"),
        stepped(optimizers.Adam, _first_moment_uncorrected),
    ),
    M(
        "adam-k-late",
        "Adam's bias correction one update late",
        optimizing("adam"),
        stepped(optimizers.Adam, _k_from_zero),
    ),
    M(
        "adam-k-early",
        "Adam's bias correction one update early",
        optimizing("adam"),
        stepped(optimizers.Adam, _k_from_two),
    ),
    M(
        "adam-epsilon-1e-7",
        "Adam's epsilon 1e-7 (Keras)",
        option("adam", "epsilon", lambda given: given != 1e-7),
        reconfigured("adam", epsilon=1e-7),
    ),
    M(
        "adam-epsilon-hat",
        "Adam's epsilon beside the uncorrected root (TensorFlow 1)",
        optimizing("adam"),
        stepped(optimizers.Adam, _epsilon_hat),
    ),
    M(
        "adam-epsilon-inside",
        "Adam's epsilon inside the root",
        optimizing("adam"),
        stepped(optimizers.Adam, _epsilon_in_root),
    ),
    M(
        "adam-square-of-m",
        "the square of the first moment in Adam's second",
        optimizing("adam"),
        stepped(optimizers.Adam, _square_of_new_moment),
    ),
    M("adam-betas-swapped", "beta1 and beta2 exchanged", optimizing("adam"), stepped(optimizers.Adam, _betas_swapped)),
    M(
        "adam-shared-modulus",
        "one second moment |g|^2 for real and imaginary part",
        _complex_moments("adam"),
        stepped(optimizers.Adam, _shared_modulus),
    ),
    M(
        "rmsprop-initial-0",
        "RMSprop from v = 0 (Keras, PyTorch)",
        _rmsprop_with("initial", 0.0),
        reconfigured("rmsprop", initial=1e-30),
    ),
    M(
        "rmsprop-initial-1",
        "RMSprop from v = 1 (TensorFlow 1)",
        _rmsprop_with("initial", 1.0),
        reconfigured("rmsprop", initial=1.0),
    ),
    M(
        "rmsprop-initial-0.001",
        "RMSprop from v = 0.001 (uRNN)",
        _rmsprop_with("initial", 1e-3),
        reconfigured("rmsprop", initial=1e-3),
    ),
    M(
        "rmsprop-epsilon-inside",
        "RMSprop's epsilon inside the root (TensorFlow 1)",
        _outside,
        reconfigured("rmsprop", epsilon_inside=True),
    ),
    M(
        "rmsprop-epsilon-outside",
        "RMSprop's epsilon outside the root",
        _inside,
        reconfigured("rmsprop", epsilon_inside=False),
    ),
    M(
        "rmsprop-epsilon-1e-7",
        "RMSprop's epsilon 1e-7 (Keras)",
        _rmsprop_with("epsilon", 1e-7),
        reconfigured("rmsprop", epsilon=1e-7),
    ),
    M(
        "rmsprop-decay-0.9",
        "RMSprop's decay 0.9 (TensorFlow, Keras)",
        _rmsprop_with("decay", 0.9),
        reconfigured("rmsprop", decay=0.9),
    ),
    M(
        "rmsprop-decay-0.99",
        "RMSprop's decay 0.99 (PyTorch)",
        _rmsprop_with("decay", 0.99),
        reconfigured("rmsprop", decay=0.99),
    ),
    M(
        "rmsprop-decay-swapped",
        "decay and 1 - decay exchanged",
        optimizing("rmsprop"),
        stepped(optimizers.RMSprop, _decay_swapped),
    ),
    M(
        "rmsprop-old-square",
        "the mean square from before the gradient",
        optimizing("rmsprop"),
        stepped(optimizers.RMSprop, _old_square),
    ),
    M(
        "rmsprop-centered",
        "the variance for the mean square (PyTorch's centered)",
        optimizing("rmsprop"),
        stepped(optimizers.RMSprop, _centered),
    ),
    M(
        "rmsprop-shared-modulus",
        "one mean square |g|^2 for real and imaginary part",
        _complex_moments("rmsprop"),
        stepped(optimizers.RMSprop, _shared_modulus),
    ),
    M(
        "momentum-dampened",
        "momentum with dampening, m = b m + (1 - b) g",
        option("sgd", "momentum", bool),
        stepped(optimizers.SGD, _dampened),
    ),
    M("momentum-nesterov", "Nesterov's momentum", option("sgd", "momentum", bool), stepped(optimizers.SGD, _nesterov)),
    M("no-momentum", "no momentum", option("sgd", "momentum", bool), reconfigured("sgd", momentum=0.0)),
    M(
        "weight-decay-decoupled",
        "weight decay beside the step (AdamW)",
        _decays,
        patched((optimizers.Elementwise, "delta", _decoupled)),
    ),
    M(
        "no-weight-decay",
        "no weight decay",
        _decays,
        patched(
            (optimizers.Elementwise, "delta", lambda own: lambda self, *rest: own(_with(self, weight_decay=0.0), *rest))
        ),
    ),
)
