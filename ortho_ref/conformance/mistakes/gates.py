"""Which gate is which, and the weights as they are read: the gradients are those of the wrong forward pass."""

from dataclasses import replace

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import AFTER, BEFORE, GATES, both, either, layer, on, phi, sequence, tokens
from ortho_ref.conformance.mistakes.changes import negative, nothing, same, times, transposed
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, Predicate, given, table, without
from ortho_ref.conformance.mistakes.ways import exchanged, fed, read_as, squashed, swapped, tied

BIASES = tuple(f"weights.{way}{b}" for way in ("", "layer*.") for b in ("b", "b_*"))  # not FastRNN's beta


def _as_other(case: Case, base: Base) -> Arrays:
    """A GRU that resets before the product as one that resets after it, and the other way round: z is 1 - u."""
    own = case.config["cell"]
    other = AFTER if own == BEFORE else BEFORE
    options = {"reset_gate": True, "update_gate": True, "recurrent_bias": False} if other == AFTER else {}
    config = {"cell": other, "activation": case.config["activation"], **options}
    gates = list(zip(GATES[own], GATES[other], (1, -1, 1), strict=True))
    names = {f"weights.{k}_{old}": (f"weights.{k}_{new}", sign) for old, new, sign in gates for k in "WUb"}
    inputs = {name: a for name, a in case.inputs.items() if not name.startswith("weights.")}
    inputs |= {new: sign * case.inputs[old] for old, (new, sign) in names.items()}
    found = base(replace(case, config=config, inputs=inputs))
    back = {f"d_{old}": sign * found.pop(f"d_{new}") for old, (new, sign) in names.items()}
    return {**found, **back}


_all_gates = both(on("r", AFTER), on("z", AFTER))
two_biases = sequence(AFTER, recurrent_bias=True)
_without_bias = both(_all_gates, sequence(recurrent_bias=False))
_tanh_without_bias = both(sequence(AFTER), lambda case: phi(case) != "modrelu" and not two_biases(case))
_square = both(
    sequence(),
    lambda case: all(a.shape[0] == a.shape[1] for n, a in case.inputs.items() if n.startswith("weights.W")),
)


def _reset_gate_open(case: Case) -> Arrays:
    changed = {name: nothing(case.inputs[name]) for name in ("weights.W_r", "weights.U_r")}
    return changed | {"weights.b_r": np.full_like(case.inputs["weights.b_r"], 1e3)}


def flipped(gate: str) -> Outputs:
    """1 minus a gate: its weights negative, as sigmoid(-a) = 1 - sigmoid(a)."""
    return read_as(negative, *(f"weights.{way}{kind}_{gate}" for way in ("", "layer*.") for kind in "WUb"))


def _has_vector(*gates: str) -> Predicate:
    """A GRU with a vector in place of one of these gates."""
    return both(sequence(AFTER), lambda case: any(f"weights.{gate}" in case.inputs for gate in gates))


def _begun(change: Outputs) -> Outputs:
    """With other initial states; what was given as them stands before the states of the steps, as ever."""

    def outputs(case: Case, base: Base) -> Arrays:
        found = change(case, base)
        given_ones = {n: case.inputs[f"{n}0"][None] for n in ("h", "c") if n in found}
        return found | {n: np.concatenate([first, found[n][1:]]) for n, first in given_ones.items()}

    return outputs


def _one_bias(case: Case, base: Base) -> Arrays:
    """b_hh added outside the reset: with b_h it is one bias."""
    b_h, b_hh = case.inputs["weights.b_h"], case.inputs["weights.b_hh"]
    found = base(given(case, {"weights.b_h": b_h + b_hh, "weights.b_hh": nothing(b_hh)}))
    return found | {"d_weights.b_hh": found["d_weights.b_h"]}


def _reset_before_one_bias(case: Case, base: Base) -> Arrays:
    """gru_reset_after with b_hh computed as gru_reset_before: b_h + b_hh outside the reset, as all of its bias."""
    b = case.inputs["weights.b_h"] + case.inputs["weights.b_hh"]
    found = _as_other(given(without(case, "weights.b_hh"), {"weights.b_h": b}, recurrent_bias=False), base)
    return found | {"d_weights.b_hh": found["d_weights.b_h"]}


def _bias_inside(case: Case, base: Base) -> Arrays:
    """b_h inside the reset, r * (U_h h + b_h), and none outside."""
    b_h = case.inputs["weights.b_h"]
    found = base(given(case, {"weights.b_hh": b_h, "weights.b_h": nothing(b_h)}, recurrent_bias=True))
    inside = found.pop("d_weights.b_hh", None)
    return found if inside is None else found | {"d_weights.b_h": inside}


def _rolled(case: Case) -> Arrays:
    columns = next(a.shape[1] for name, a in case.inputs.items() if name.startswith("weights.W"))
    return {"x": (case.inputs["x"] + 1) % columns}


def plus_one(name: str) -> Outputs:
    """1 added to an input."""
    return fed(lambda case: {name: case.inputs[name] + 1})


def with_layers(cells: Predicate, cell: str) -> Predicate:
    """These cases, and layers of that cell."""
    return either(cells, layer(cell=cell, parametrized=None))


LSTM = sequence("lstm")
every_before, every_after = with_layers(sequence(BEFORE), BEFORE), with_layers(_all_gates, AFTER)
every_lstm = with_layers(LSTM, "lstm")

MISTAKES = table(
    ("reset-after", "the reset gate applied after U_c, as PyTorch and cuDNN do", sequence(BEFORE), _as_other),
    ("reset-before", "the reset gate applied to h before U_h, as Cho et al. do", _without_bias, _as_other),
    ("no-reset", "no reset gate", on("r", BEFORE, AFTER), fed(_reset_gate_open)),
    ("u-keeps", "u the weight of the old state, h = u h + (1 - u) c",
     either(on("u", BEFORE), layer(cell=BEFORE)), flipped("u")),
    ("z-writes", "z the weight of the new content, h = (1 - z) h + z c",
     either(on("z", AFTER), layer(cell=AFTER)), flipped("z")),
    ("z-vector-writes", "the vector z the weight of the new content, h = (1 - z) h + z c",
     _has_vector("z"), read_as(lambda z: 1 - z, "weights.z", adjoint=negative)),
    ("vectors-through-sigmoid", "the vectors r and z through a sigmoid", _has_vector("r", "z"),
     squashed("weights.r", "weights.z")),
    ("r-u-swapped", "the weights of r and u exchanged", every_before, exchanged(r="u", u="r")),
    ("r-z-swapped", "the weights of r and z exchanged", every_after, exchanged(r="z", z="r")),
    ("order-ucr", "r, u, c with the weights of u, c, r", every_before, exchanged(r="u", u="c", c="r")),
    ("order-cru", "r, u, c with the weights of c, r, u", every_before, exchanged(r="c", u="r", c="u")),
    ("order-zhr", "r, z, h with the weights of z, h, r", every_after, exchanged(r="z", z="h", h="r")),
    ("order-hrz", "r, z, h with the weights of h, r, z", every_after, exchanged(r="h", z="r", h="z")),
    ("order-ifog", "the weights of g and o exchanged", every_lstm, exchanged(g="o", o="g")),
    ("order-igfo", "the weights of f and g exchanged (TensorFlow 1)", every_lstm, exchanged(f="g", g="f")),
    ("order-iofg", "i, f, g, o with the weights of i, o, f, g (given in ONNX's order)",
     every_lstm, exchanged(f="o", g="f", o="g")),
    ("order-igof", "i, f, g, o with the weights of i, g, o, f (read in ONNX's order)",
     every_lstm, exchanged(f="g", g="o", o="f")),
    ("i-f-swapped", "the weights of i and f exchanged", every_lstm, exchanged(i="f", f="i")),
    ("lstm-coupled", "f = 1 - i, without a forget gate of its own",
     LSTM, tied({f"weights.{kind}_f": f"weights.{kind}_i" for kind in "WUb"}, sign=-1)),
    ("forget-plus-one", "1 added to the forget gate's bias (TensorFlow 1)", LSTM, plus_one("weights.b_f")),
    ("h0-c0-swapped", "h_0 and c_0 exchanged", LSTM, _begun(swapped("h0", "c0"))),
    ("U-transposed", "every U transposed",
     either(sequence(), layer(parametrized=None)), read_as(transposed, "weights.U*", "weights.layer*.U*")),
    ("W-transposed", "every W transposed, where m = n", _square, read_as(transposed, "weights.W*")),
    ("no-bias", "no bias", sequence(), read_as(nothing, *BIASES)),
    ("bias-twice", "the bias added twice, as two biases that hold the same, with one's gradient",
     sequence(), read_as(times(2), *BIASES, adjoint=same)),
    ("bias-hh-outside", "b_hh outside the reset, one bias with b_h", two_biases, _one_bias),
    ("bias-hh-missing", "no b_hh", two_biases, read_as(nothing, "weights.b_hh")),
    ("reset-before-two-biases",
     "the reset gate applied to h before U_h, and both biases outside (ONNX, linear_before_reset = 0)",
     two_biases, _reset_before_one_bias),
    ("bias-inside-reset", "b_h inside the reset, r (U_h h + b_h)", _tanh_without_bias, _bias_inside),
    ("tokens-one-late", "token k read as k + 1", tokens, fed(_rolled)),
    ("h0-ignored", "h_0 = 0: the initial state is not taken", sequence(), _begun(read_as(nothing, "h0", "c0"))),
)  # fmt: skip
