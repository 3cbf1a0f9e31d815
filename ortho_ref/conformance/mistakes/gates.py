"""Which gate is which, and the weights as they are read: the gradients are those of the wrong forward pass."""

from dataclasses import replace

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import AFTER, BEFORE, either, layer, on, phi, sequence, tokens
from ortho_ref.conformance.mistakes.mistake import (
    Base,
    Family,
    Outputs,
    Predicate,
    exchanged,
    fed,
    given,
    negative,
    nothing,
    read_as,
    same,
    swapped,
    tied,
    times,
    transposed,
)
from ortho_ref.conformance.mistakes.private import private

activations = private("ortho_ref.activations")

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named

BIASES = ("weights.b", "weights.b_*")  # not FastRNN's beta


# Which gate is which


def _as_other(case: Case, base: Base, other: str, names: dict[str, str], signs: dict[str, int]) -> Arrays:
    config = {"cell": other, "activation": case.config["activation"]}
    if other == "gru_reset_after":
        config |= {"reset_gate": True, "update_gate": True, "recurrent_bias": False}
    rest = {name: a for name, a in case.inputs.items() if not name.startswith("weights.")}
    own = {f"weights.{new}": signs[old] * case.inputs[f"weights.{old}"] for old, new in names.items()}
    found = base(replace(case, config=config, inputs={**rest, **own}))
    back = {f"d_weights.{old}": signs[old] * found.pop(f"d_weights.{new}") for old, new in names.items()}
    return {**found, **back}


@named("reset-after", "the reset gate applied after U_c, as PyTorch and cuDNN do", sequence(BEFORE))
def reset_after(case: Case, base: Base) -> Arrays:
    """gru_reset_before computed as gru_reset_after, whose z is 1 - u."""
    names = {f"{kind}_{g}": f"{kind}_{h}" for kind in "WUb" for g, h in zip("ruc", "rzh", strict=True)}
    signs = {name: -1 if name.endswith("_u") else 1 for name in names}
    return _as_other(case, base, "gru_reset_after", names, signs)


def _both_gates(name: str) -> Predicate:
    return lambda case: on("r", name)(case) and on("z", name)(case)


def _without_bias(case: Case) -> bool:
    return _both_gates("gru_reset_after")(case) and not case.config["recurrent_bias"]


@named("reset-before", "the reset gate applied to h before U_h, as Cho et al. do", _without_bias)
def reset_before(case: Case, base: Base) -> Arrays:
    """gru_reset_after computed as gru_reset_before, whose u is 1 - z."""
    names = {f"{kind}_{g}": f"{kind}_{h}" for kind in "WUb" for g, h in zip("rzh", "ruc", strict=True)}
    signs = {name: -1 if name.endswith("_z") else 1 for name in names}
    return _as_other(case, base, "gru_reset_before", names, signs)


@named("no-reset", "no reset gate", on("r", BEFORE, AFTER), fed)
def _reset_gate_open(case: Case) -> Arrays:
    changed = {name: nothing(case.inputs[name]) for name in ("weights.W_r", "weights.U_r")}
    return changed | {"weights.b_r": np.full_like(case.inputs["weights.b_r"], 1e3)}


def _flipped(gate: str) -> Outputs:
    """1 minus a gate: its weights negative, as sigmoid(-a) = 1 - sigmoid(a)."""
    return read_as(negative, negative, *(f"weights.{way}{kind}_{gate}" for way in ("", "layer*.") for kind in "WUb"))


def _written(gate: str, cell: str) -> Predicate:
    """A cell, or layers of it, whose gate that writes is on."""
    return either(on(gate, cell), layer(cell=cell))


M("u-keeps", "u the weight of the old state, h = u h + (1 - u) c", _written("u", BEFORE), _flipped("u"))
M("z-writes", "z the weight of the new content, h = (1 - z) h + z c", _written("z", AFTER), _flipped("z"))


def _has_vector(*gates: str) -> Predicate:
    """A GRU with a vector in place of one of these gates."""
    return lambda case: sequence(AFTER)(case) and any(f"weights.{gate}" in case.inputs for gate in gates)


M(
    "z-vector-writes",
    "the vector z the weight of the new content, h = (1 - z) h + z c",
    _has_vector("z"),
    read_as(lambda z: 1 - z, negative, "weights.z"),
)


@named("vectors-through-sigmoid", "the vectors r and z through a sigmoid", _has_vector("r", "z"))
def _vectors_squashed(case: Case, base: Base) -> Arrays:
    names = [name for name in ("weights.r", "weights.z") if name in case.inputs]
    squashed: Arrays = {name: activations.sigmoid(case.inputs[name]) for name in names}
    found = base(given(case, squashed))
    slopes = {name: y * (1 - y) for name, y in squashed.items()}
    return {**found, **{f"d_{n}": found[f"d_{n}"] * slopes[n] for n in names if f"d_{n}" in found}}


for name, says, applies, taken in (
    ("r-u-swapped", "the weights of r and u exchanged", sequence(BEFORE), {"r": "u", "u": "r"}),
    ("r-z-swapped", "the weights of r and z exchanged", _both_gates(AFTER), {"r": "z", "z": "r"}),
    ("order-ucr", "r, u, c with the weights of u, c, r", sequence(BEFORE), {"r": "u", "u": "c", "c": "r"}),
    ("order-cru", "r, u, c with the weights of c, r, u", sequence(BEFORE), {"r": "c", "u": "r", "c": "u"}),
    ("order-zhr", "r, z, h with the weights of z, h, r", _both_gates(AFTER), {"r": "z", "z": "h", "h": "r"}),
    ("order-hrz", "r, z, h with the weights of h, r, z", _both_gates(AFTER), {"r": "h", "z": "r", "h": "z"}),
):
    M(name, says, applies, exchanged(taken))
for name, says, taken in (
    ("order-ifog", "the weights of g and o exchanged", {"g": "o", "o": "g"}),
    ("order-igfo", "the weights of f and g exchanged (TensorFlow 1)", {"f": "g", "g": "f"}),
    ("order-iofg", "i, f, g, o with the weights of i, o, f, g (given in ONNX's order)", {"f": "o", "g": "f", "o": "g"}),
    ("order-igof", "i, f, g, o with the weights of i, g, o, f (read in ONNX's order)", {"f": "g", "g": "o", "o": "f"}),
    ("i-f-swapped", "the weights of i and f exchanged", {"i": "f", "f": "i"}),
):
    M(name, says, sequence("lstm"), exchanged(taken))
M(
    "lstm-coupled",
    "f = 1 - i, without a forget gate of its own",
    sequence("lstm"),
    tied({f"weights.{kind}_f": f"weights.{kind}_i" for kind in "WUb"}, sign=-1),
)


@named("forget-plus-one", "1 added to the forget gate's bias (TensorFlow 1)", sequence("lstm"), fed)
def _forget_plus_one(case: Case) -> Arrays:
    return {"weights.b_f": case.inputs["weights.b_f"] + 1}


@named("h0-c0-swapped", "h_0 and c_0 exchanged", sequence("lstm"))
def _states_swapped(case: Case, base: Base) -> Arrays:
    found = swapped("h0", "c0")(case, base)
    # What was given as h_0 stands before the states of the steps, whatever the steps began with
    return found | {n: np.concatenate([case.inputs[f"{n}0"][None], found[n][1:]]) for n in ("h", "c")}


# Weights


M(
    "U-transposed",
    "every U transposed",
    either(sequence(), layer(parametrized=None)),
    read_as(transposed, transposed, "weights.U*", "weights.layer*.U*"),
)


def _square(case: Case) -> bool:
    return sequence()(case) and all(
        a.shape[0] == a.shape[1] for n, a in case.inputs.items() if n.startswith("weights.W")
    )


M("W-transposed", "every W transposed, where m = n", _square, read_as(transposed, transposed, "weights.W*"))
M("no-bias", "no bias", sequence(), read_as(nothing, nothing, *BIASES))
M(
    "bias-twice",
    "the bias added twice, as two biases that hold the same, with one's gradient",
    sequence(),
    read_as(times(2), same, *BIASES),
)


def _with_bias(case: Case) -> bool:
    return sequence(AFTER)(case) and bool(case.config["recurrent_bias"])


@named("bias-hh-outside", "b_hh outside the reset, one bias with b_h", _with_bias)
def one_bias(case: Case, base: Base) -> Arrays:
    """b_hh added outside the reset: with b_h it is one bias."""
    own = {
        "weights.b_h": case.inputs["weights.b_h"] + case.inputs["weights.b_hh"],
        "weights.b_hh": nothing(case.inputs["weights.b_hh"]),
    }
    found = base(given(case, own))
    return found | {"d_weights.b_hh": found["d_weights.b_h"]}


M("bias-hh-missing", "no b_hh", _with_bias, read_as(nothing, nothing, "weights.b_hh"))


@named(
    "reset-before-two-biases",
    "the reset gate applied to h before U_h, and both biases outside (ONNX, linear_before_reset = 0)",
    _with_bias,
)
def reset_before_one_bias(case: Case, base: Base) -> Arrays:
    """gru_reset_after with b_hh computed as gru_reset_before: b_h + b_hh outside the reset, as all of its bias."""
    b = {"weights.b_h": case.inputs["weights.b_h"] + case.inputs["weights.b_hh"]}
    inputs = {name: a for name, a in case.inputs.items() if name != "weights.b_hh"} | b
    found = reset_before(replace(case, config={**case.config, "recurrent_bias": False}, inputs=inputs), base)
    return found | {"d_weights.b_hh": found["d_weights.b_h"]}


def _tanh_without_bias(case: Case) -> bool:
    return sequence(AFTER)(case) and phi(case) != "modrelu" and not _with_bias(case)


@named("bias-inside-reset", "b_h inside the reset, r (U_h h + b_h)", _tanh_without_bias)
def bias_inside(case: Case, base: Base) -> Arrays:
    """b_h inside the reset, r * (U_h h + b_h), and none outside."""
    b_h = case.inputs["weights.b_h"]
    inputs = {**case.inputs, "weights.b_hh": b_h, "weights.b_h": nothing(b_h)}
    found = base(replace(case, config={**case.config, "recurrent_bias": True}, inputs=inputs))
    inside = found.pop("d_weights.b_hh", None)
    return found if inside is None else found | {"d_weights.b_h": inside}


@named("tokens-one-late", "token k read as k + 1", tokens, fed)
def _rolled(case: Case) -> Arrays:
    columns = next(a.shape[1] for name, a in case.inputs.items() if name.startswith("weights.W"))
    return {"x": (case.inputs["x"] + 1) % columns}


@named("h0-ignored", "h_0 = 0: the initial state is not taken", sequence())
def _without_start(case: Case, base: Base) -> Arrays:
    found = read_as(nothing, nothing, "h0", "c0")(case, base)
    starts = {name: case.inputs[f"{name}0"][None] for name in ("h", "c") if name in found}
    return found | {name: np.concatenate([start, found[name][1:]]) for name, start in starts.items()}
