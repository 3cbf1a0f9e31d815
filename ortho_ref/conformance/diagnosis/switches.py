"""The switches with which an implementation is asked again: a case with something in it off, and where to look then.

Zeros in place of a weight take away what it multiplies; with one step or one sequence there is nothing to carry or to
mix up; a gate that is 1 or 1/2 whatever its input is takes away how it is computed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.mistake import given

#: A gate's bias at which its sigmoid is 1 to the last bit, at -40 it is 0; and one at which phi is off its kink.
_OPEN, _ON = 40.0, 20.0
ONE_STEP, _ONE_SEQUENCE = "one step (T = 1)", "one sequence (B = 1)"
_CROSSES = "what goes from one sequence"
_AT_HALF, _OPENED = "1/2", "open"
_GROWS = "what grows with {}: a series cut short, a power"
_GROUPS = tuple(f"every {letter} = 0" for letter in "UWb")
_STATES = ("h0", "c0")


class Switch(NamedTuple):
    """One thing to turn off."""

    name: str  # "U_c = 0"
    look: str  # where to look if what was wrong is right with it: "what multiplies U_c"
    change: Callable[[Case], Case]  # the case with it; the outputs' shapes are set by whoever asks
    own: tuple[str, ...] = ()  # inputs that it sets: their own gradients say nothing
    summed: str = ""  # what gradients are summed over without it: "the steps"
    #: What gates are that it sets, "1/2" or "open"; the new state is made of the candidate where they are open.
    at: str = ""


def _fed(change: Callable[[Case], Arrays]) -> Callable[[Case], Case]:
    """Other inputs: `change` gives those that differ."""
    return lambda case: given(case, change(case))


def _nothing(names: Sequence[str]) -> Callable[[Case], Case]:
    return _fed(lambda case: {name: np.zeros_like(case.inputs[name]) for name in names})


def _off(case: Case, name: str, look: str, *names: str) -> list[Switch]:
    """Inputs that are zero, as far as the case has them; none where it has none."""
    own = tuple(name for name in names if name in case.inputs)
    return [Switch(name, look, _nothing(own), own)] if own else []


#: Options of a config, what each is where it does nothing, and what it then takes away.
_IDLE = {
    "negative_ones": (0, "what multiplies D"),
    "reset_every": (1, "the series, between the resets"),
    "rebase_every": (1, "A, between the moves of the base"),
}


def _idle(case: Case, *options: str) -> list[Switch]:
    """These options where they do nothing, of those that do something in the case."""
    rows = [(option, *_IDLE[option]) for option in options]
    return [_options(f"{o} = {idle}", look, **{o: idle}) for o, idle, look in rows if case.config.get(o, idle) != idle]


def _options(name: str, look: str, **changes: Any) -> Switch:
    return Switch(name, look, lambda case: given(case, **changes))


def _times(factor: float, *names: str) -> Callable[[Case], Case]:
    return _fed(lambda case: {n: case.inputs[n] * factor for n in names})


def _first_along(case: Case, axes: Mapping[str, int]) -> Arrays:
    """The first entry of inputs along an axis of each, of those that there are."""
    return {name: case.inputs[name].take([0], axis) for name, axis in axes.items() if name in case.inputs}


def _first(axes: Mapping[str, int]) -> Callable[[Case], Case]:
    return _fed(partial(_first_along, axes=axes))


def _some(case: Case, letter: str) -> list[str]:
    weights = [n for n in case.inputs if n.startswith("weights.")]
    return [n for n in weights if _short(n) == letter or _short(n).startswith(f"{letter}_")]


def _every(case: Case, *shorts: str) -> tuple[str, ...]:
    """The weights of these names, of every layer and direction."""
    return tuple(n for n in case.inputs if n.startswith("weights.") and _short(n) in shorts)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def first(case: Case) -> list[Switch]:
    """The switches that are tried first, each of one kind of thing, that change the case."""
    switches = _FIRST.get(case.kind, lambda _: [])(case)
    return [switch for switch in switches if _differs(case, switch)]


def then(case: Case, right: Sequence[Switch]) -> list[Switch]:
    """The switches after these, finer: one weight alone of those that made it right together, gates and phi.

    right are those of `first` with which what was wrong is right.
    """
    if case.kind == "parametrization" and not right:
        return _nothing_of(case, several=False)
    if case.kind not in ("cell", "layer"):
        return []
    shorts = dict.fromkeys(_short(name) for switch in right if switch.name in _GROUPS for name in switch.own)
    switches = [one for own in shorts for one in _off(case, f"{own} = 0", _where(own), *_every(case, own))]
    if not right:
        switches += _off(case, "A = 0", "what is made of A", *_every(case, "A"))
    gates = _gates(case)
    if any(switch.at for switch in right) and len(gates) > 1:
        switches += [one for gate in gates for one in _gate(case, (gate,))]
    return [switch for switch in switches if _differs(case, switch)]


def look(switch: Switch, wrong: Iterable[Switch], forward: bool) -> str:
    """Where to look, as `Switch.look`, by one with which it is right and all with which it is `wrong`.

    Of gates that are right at 1/2 alone, or at 1 alone, that too.  A gradient is summed over what the forward pass goes
    through one by one.
    """
    if switch.summed and not forward:
        return f"{switch.look}, or is summed over {switch.summed}"
    others = [one.at for one in wrong if switch.at and set(one.own) == set(switch.own)]
    if others:
        gates = list(dict.fromkeys(_short(name)[2:] for name in switch.own))
        where = f"{' and '.join(gates)} {'is' if len(gates) == 1 else 'are'}"
        is_at, not_at = (at if at != _OPENED or "z" in gates else "1" for at in (switch.at, others[0]))
        return f"{switch.look} and used: right where {where} {is_at}, wrong where {not_at}"
    return switch.look


#: What a case is computed from that may be anything, and what is a matter of size alone; beginnings of names.
_ANY = ("x", "h0", "c0", "dh", "dh_T", "dc_T", "dU", "gradient", "a", "dy", "outputs")
_TWICE, _LESS = ("x", "h0", "c0", "a", "outputs"), 0.8


def redrawn(case: Case) -> Case:
    """The case with other values: states, inputs and gradients from above in another order, a map's parameters smaller.

    Inputs and states are twice as large, so that a limit which one case keeps within is passed.
    """
    rng = np.random.default_rng(0)

    def change(name: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind != "f":
            return array
        if name in _ANY:
            return rng.permuted(array.ravel()).reshape(array.shape) * (2.0 if name in _TWICE else 1.0)
        return array * _LESS if name.startswith("params.") else array

    return replace(case, inputs={name: change(name, array) for name, array in case.inputs.items()})


def _where(name: str) -> str:
    return f"where {_short(name)} is added" if _short(name)[0] == "b" else f"what multiplies {_short(name)}"


def _differs(case: Case, switch: Switch) -> bool:
    other = switch.change(case)
    if other.inputs.keys() != case.inputs.keys() or other.config != case.config:
        return True
    return not all(np.array_equal(a, other.inputs[name]) for name, a in case.inputs.items())


# Cells


def _gates(case: Case) -> tuple[str, ...]:
    """The sigmoids that have weights."""
    own = dict.fromkeys(_short(name).removeprefix("W_") for name in _some(case, "W"))
    return tuple(gate for gate in own if gate in tuple("ruzifo"))


def gates_in(case: Case, names: Iterable[str]) -> list[str]:
    """The gates of which every weight is among these."""
    own = set(names)
    return [g for g in _gates(case) if own >= {*_every(case, f"W_{g}", f"U_{g}", f"b_{g}")}]


def candidate(case: Case) -> tuple[str, ...]:
    """What is added to phi's argument."""
    return _every(case, "b", "b_c", "b_g" if case.config.get("cell") == "lstm" else "b_h")


def _gate(case: Case, gates: tuple[str, ...]) -> list[Switch]:
    """Gates that are 1/2 whatever their input, and open: 1, but z, which keeps the old state, 0."""
    own = _every(case, *(f"{letter}_{gate}" for gate in gates for letter in "WUb"))

    def change(bias: float, case: Case) -> Arrays:
        at = {n: bias * (-1.0 if _short(n) == "b_z" else 1.0) * (_short(n)[0] == "b") for n in own}
        return {n: np.full_like(case.inputs[n], at[n]) for n in own}

    look = f"how {' and '.join(gates)} {'is' if len(gates) == 1 else 'are'} computed"
    every = gates[0] if len(gates) == 1 else "every gate"
    opened = "z = 0" if gates == ("z",) else f"{every} = 1{', z = 0' if 'z' in gates else ''}"
    found = [Switch(f"{every} = 1/2", look, _fed(partial(change, 0.0)), own, at=_AT_HALF)]
    if _some(case, "b"):
        found.append(Switch(opened, look, _fed(partial(change, _OPEN)), own, at=_OPENED))
    return found


def _units_on(case: Case) -> Switch:
    """phi's argument above 0 by far, of modReLU its modulus; without the state, which would grow."""
    biases = [n for n in case.inputs if n in ("weights.b", "weights.b_c", "weights.b_h")]
    own = (*biases, *(n for n in case.inputs if n in ("weights.U", "weights.U_c", "weights.U_h")))

    def change(case: Case) -> Arrays:
        return {n: np.full_like(case.inputs[n], _ON if n in biases else 0.0) for n in own}

    return Switch("every unit of phi on", "phi where it is 0", _fed(change), own)


def _cell(case: Case) -> list[Switch]:
    one_step = _first({"x": 0, "dh": 0})
    one_sequence = _first({"x": 1, "dh": 1, **dict.fromkeys(("h0", "c0", "dh_T", "dc_T"), 0)})
    switches = [
        Switch(ONE_STEP, "what is carried from step to step", one_step, summed="the steps"),
        Switch(_ONE_SEQUENCE, f"{_CROSSES} of the batch to another", one_sequence, summed="the batch"),
    ]
    switches += _recurrent(case)
    if case.config.get("activation") in ("relu", "modrelu"):
        switches.append(_units_on(case))
    switches += _off(case, "dh_T = 0", "what is made of dL/dh_T", "dh_T", "dc_T")
    return switches + _off(case, "dh = 0", "what is made of dL/dh_t", "dh")


def _recurrent(case: Case) -> list[Switch]:
    """What a cell has, and a layer around it."""
    states = [name for name in _STATES if name in case.inputs]
    switches = _off(case, f"{' = '.join(states)} = 0", f"what is made of {' and '.join(states)}", *states)
    for letter in "UWb":
        names = _some(case, letter)
        label = f"every {letter} = 0" if len(set(map(_short, names))) > 1 else f"{letter} = 0"
        switches += _off(case, label, _where(letter), *names)
    gates = _gates(case)
    return switches + (_gate(case, gates) if gates else [])


def rest(case: Case) -> Switch | None:
    """All off but phi of its bias, with gates open; of a loss one entry; None where there is no such thing."""
    if case.kind == "loss":
        return Switch("one entry (T = B = 1)", "the loss of one entry", lambda case: _one_of(_one_of(case, 0), 1))
    biases = candidate(case) if case.kind in ("cell", "layer") else ()
    if not biases:
        return None
    gates = [one for one in _gate(case, _gates(case)) if one.at == _OPENED] if _gates(case) else []
    zeros = [n for n in (*_some(case, "U"), *_some(case, "W"), *_every(case, "b_hh"), *_STATES) if n in case.inputs]

    def change(case: Case) -> Case:
        case = _nothing(zeros)(case)
        return gates[0].change(case) if gates else case

    look = "phi, where its bias is added, and how the state is made of it"
    return Switch("phi of the bias alone", look, change, biases)


# Layers


def _layer(case: Case) -> list[Switch]:
    time = int(case.config["batch_first"])
    by_step = dict.fromkeys(("x", "dy", "mask", "resets"), time) | {"dropout": 1}
    by_sequence = dict.fromkeys(("x", "dy", "mask", "resets"), 1 - time) | {"dropout": 2, "lengths": 0}
    by_sequence |= dict.fromkeys(("h0", "c0", "dh_T", "dc_T"), 1)

    def one_step(case: Case) -> Arrays:
        ended = {n: np.ones_like(a) for n, a in case.inputs.items() if n == "lengths"}
        return _first_along(case, by_step) | ended

    def unpadded(case: Case) -> Arrays:
        every = {"lengths": case.inputs["x"].shape[time], "mask": True, "resets": False}
        return {n: np.full_like(case.inputs[n], value) for n, value in every.items() if n in case.inputs}

    whole = "nothing padded", "the padding"
    if case.config["padding"] == "resets":
        whole = "one sequence a row", "where a sequence begins"
    switches = [
        Switch(*whole, _fed(unpadded)),
        Switch("one direction alone", "the other direction", _one_direction),
        Switch("the first layer alone", "what goes from layer to layer", _first_layer),
        Switch(ONE_STEP, "what is carried from step to step", _fed(one_step), summed="the steps"),
        Switch(_ONE_SEQUENCE, f"{_CROSSES} to another", _first(by_sequence), summed="the batch"),
    ]
    return switches + _recurrent(case) + _of_map(case)


def _of_map(case: Case) -> list[Switch]:
    """Of a layer with a skew A in place of a weight: no signs, and a small A."""
    kept, every = case.config["parametrized"], _every(case, "A")
    if not every:
        return []
    small = Switch("A / 1000", _GROWS.format("A"), _times(1e-3, *every))
    if not kept.get("negative_ones"):
        return [small]
    idle, look = _IDLE["negative_ones"]
    return [_options(f"negative_ones = {idle}", look, parametrized={**kept, "negative_ones": idle}), small]


def _one_direction(case: Case) -> Case:
    if not case.config["bidirectional"]:
        return case
    n, own = case.inputs["dh_T"].shape[2], {k: a for k, a in case.inputs.items() if "_reverse." not in k}
    own |= {k: own[k][::2] for k in ("h0", "c0", "dh_T", "dc_T") if k in own} | {"dy": own["dy"][..., :n]}
    own |= {k: a[:, :n] for k, a in own.items() if not k.startswith("weights.layer0.") and _short(k)[0] == "W"}
    return replace(case, inputs=own, config={**case.config, "bidirectional": False})


def _first_layer(case: Case) -> Case:
    own = {k: a for k, a in case.inputs.items() if not k.startswith("weights.") or k.startswith("weights.layer0")}
    own.pop("dropout", None)
    places = 1 + case.config["bidirectional"]
    own |= {k: own[k][:places] for k in ("h0", "c0", "dh_T", "dc_T") if k in own}
    return replace(case, inputs=own, config={**case.config, "layers": 1})


# Maps, updates, optimizers


def _map(case: Case) -> list[Switch]:
    switches = _idle(case, "negative_ones") + _nothing_of(case, several=True)
    every = tuple(name for name in case.inputs if name.startswith("params."))
    names = ", ".join(map(_short, every))
    if "A_tilde" not in case.inputs:
        switches.append(Switch(f"{names} / 1000", _GROWS.format(names), _times(1e-3, *every)))
        switches.append(Switch(f"{names} times 1000", f"a constant added beside {names}", _times(1e3, *every)))
    return switches


def _nothing_of(case: Case, several: bool) -> list[Switch]:
    """Each of several parameters of a map 0, or the one; not vectors, which are divided by their length."""
    params = [name for name in case.inputs if name.startswith("params.") and not _short(name).lower().startswith("v")]
    off = [one for n in params for one in _off(case, f"{_short(n)} = 0", f"what is made of {_short(n)}", n)]
    return off if (len(params) > 1) == several else []


def _update(case: Case) -> list[Switch]:
    carried = "what is carried from update to update, and what is done at some updates only"
    return [
        Switch("the first update alone", carried, _first({"dU": 0})),
        *_idle(case, "negative_ones"),
        *_off(case, "A0 = 0", "what multiplies A", "A0"),
        *_idle(case, "reset_every", "rebase_every"),
        *_of_optimizer(case),
        Switch("dU / 1000", "what is of second order in an update", _times(1e-3, "dU")),
    ]


def _of_optimizer(case: Case) -> list[Switch]:
    own = case.config["optimizer"]
    switches = []
    for option in ("momentum", "weight_decay"):
        if own.get(option):
            look = f"the {option.replace('_', ' ')}"
            switches.append(_options(f"{option} = 0", look, optimizer={**own, option: 0.0}))
    if own["name"] != "sgd":
        plain = {"name": "sgd", "learning_rate": own["learning_rate"], "momentum": 0.0, "weight_decay": 0.0}
        switches.append(_options("plain SGD for the optimizer", f"the optimizer, {own['name']}", optimizer=plain))
    return switches


def _optimizer(case: Case) -> list[Switch]:
    return [
        Switch("the first update alone", "what is carried from update to update", _first({"gradient": 0})),
        *(switch for switch in _of_optimizer(case) if "SGD" not in switch.name),
        Switch("gradients times 1e6", "epsilon", _times(1e6, "gradient")),
        Switch("gradients / 1000", "what is done with large gradients", _times(1e-3, "gradient")),
        *_off(case, "parameter0 = 0", "what is made of the parameter itself", "parameter0"),
    ]


# Functions


def _activation(case: Case) -> list[Switch]:
    def on(case: Case) -> Arrays:
        return {"b": np.full_like(case.inputs["b"], _ON)} if "b" in case.inputs else {}

    kinked = case.config["activation"] in ("relu", "modrelu")
    return [
        *([Switch("every unit on", "phi where it is 0", _fed(on))] if kinked else []),
        *_off(case, "b = 0", "where b is added", "b"),
        Switch("a / 10", "large arguments", _times(0.1, "a")),
    ]


def _one_of(case: Case, axis: int) -> Case:
    """A loss of one step, or of one sequence."""
    return _first(dict.fromkeys(case.inputs, axis))(case)


def _loss(case: Case) -> list[Switch]:
    def unmasked(case: Case) -> Arrays:
        return {"mask": np.ones_like(case.inputs["mask"])} if "mask" in case.inputs else {}

    return [
        Switch(ONE_STEP, "what is summed or averaged over the steps", partial(_one_of, axis=0)),
        Switch(_ONE_SEQUENCE, "what is summed or averaged over the batch", partial(_one_of, axis=1)),
        Switch("nothing masked", "the mask", _fed(unmasked)),
        Switch("outputs / 100", "large outputs", _times(0.01, "outputs")),
    ]


_FIRST: dict[str, Callable[[Case], list[Switch]]] = {
    "cell": _cell,
    "layer": _layer,
    "parametrization": _map,
    "update": _update,
    "optimizer": _optimizer,
    "activation": _activation,
    "loss": _loss,
}
