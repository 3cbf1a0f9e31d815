"""The switches with which an implementation is asked again: a case with something in it off, and where to look then.

Zeros in place of a weight take away what it multiplies; with one step or one sequence there is nothing to carry or to
mix up; a gate that is 1 or 1/2 whatever its input is takes away how it is computed.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ortho_ref.conformance.case import Arrays, Case

#: A gate's bias at which its sigmoid is 1 to the last bit, and one at which phi is off its kink.
_OPEN, _ON = 40.0, 20.0
ONE_STEP, _ONE_SEQUENCE = "one step (T = 1)", "one sequence (B = 1)"
_AT_HALF, _AT_ONE = " = 1/2", " = 1"
_HALF, _ONE = f"every gate{_AT_HALF}", f"every gate{_AT_ONE}"
_GROUPS = tuple(f"every {letter} = 0" for letter in "UWb")
_STATES = ("h0", "c0")


class Switch(NamedTuple):
    """One thing to turn off.

    Attributes
    ----------
    name : str
        "U_c = 0".
    look : str
        Where to look if what was wrong is right with it: "what multiplies U_c".
    change : callable
        change(case) -> the case with it; the outputs' shapes are set by whoever asks.
    own : tuple of str
        Inputs that it sets: their own gradients say nothing.
    idle : tuple of str
        Further inputs that do not matter with it: r's, where nothing is multiplied by r.
    summed : str
        What gradients are summed over without it: "the steps".
    """

    name: str
    look: str
    change: Callable[[Case], Case]
    own: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    summed: str = ""

    @property
    def takes(self) -> set[str]:
        """All inputs that do not matter with it."""
        return {*self.own, *self.idle}


def _fed(change: Callable[[Case], Arrays], case: Case) -> Case:
    return replace(case, inputs={**case.inputs, **change(case)})


def _nothing(names: Iterable[str]) -> Callable[[Case], Case]:
    own = tuple(names)
    return partial(_fed, lambda case: {name: np.zeros_like(case.inputs[name]) for name in own})


def _off(name: str, look: str, names: Iterable[str]) -> list[Switch]:
    """Inputs that are zero; none where the case has none of them, or all are 0 anyway."""
    own = tuple(names)
    return [Switch(name, look, _nothing(own), own)] if own else []


def _options(name: str, look: str, **changes: object) -> Switch:
    return Switch(name, look, lambda case: replace(case, config={**case.config, **changes}))


def _times(factor: float, names: tuple[str, ...]) -> Callable[[Case], Case]:
    return partial(_fed, lambda case: {n: case.inputs[n] * factor for n in names})


def _some(case: Case, letter: str) -> list[str]:
    return [n for n in case.inputs if n == f"weights.{letter}" or n.startswith(f"weights.{letter}_")]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def first(case: Case, right: Iterable[Switch] = ()) -> list[Switch]:
    """The switches that are tried first, each of one kind of thing.

    Parameters
    ----------
    case : Case
        The case that is asked again.
    right : iterable of Switch
        As for `then`: of none so far.

    Returns
    -------
    list of Switch
        Those that change it.
    """
    switches = _FIRST.get(case.kind, lambda _: [])(case)
    return [switch for switch in switches if _differs(case, switch)]


def then(case: Case, right: Iterable[Switch]) -> list[Switch]:
    """The switches after these, finer: one weight alone of those that made it right together, gates and phi.

    Parameters
    ----------
    case : Case
        The case that is asked again.
    right : iterable of Switch
        Those of `first` with which what was wrong is right.

    Returns
    -------
    list of Switch
        Those that change it.
    """
    if case.kind != "cell":
        return []
    switches: list[Switch] = []
    for switch in right:
        if len(switch.own) > 1 and switch.name in _GROUPS:
            switches += [one for name in switch.own for one in _off(f"{_short(name)} = 0", _where(name), [name])]
    if "r" in _gates(case):
        switches = [s._replace(idle=_gate_inputs("r")) if s.name in ("U_c = 0", "U_h = 0") else s for s in switches]
    gates = _gates(case)
    if any(switch.name == _HALF for switch in right) and len(gates) > 1:
        switches += [_gate(f"{gate} = 1/2", (gate,), 0.0) for gate in gates]
        switches += [_gate(f"{gate} = 1", (gate,), _OPEN) for gate in gates]
    return [switch for switch in switches if _differs(case, switch)]


def look(switch: Switch, wrong: Iterable[Switch], forward: bool) -> str:
    """Where to look, as `Switch.look`; of gates that are right at 1/2 alone, or at 1 alone, that too.

    A gradient is summed over what the forward pass goes through one by one.

    Parameters
    ----------
    switch : Switch
        One with which it is right.
    wrong : iterable of Switch
        All with which it is wrong.
    forward : bool
        Whether the forward pass is wrong.

    Returns
    -------
    str
        In words.
    """
    if switch.summed and not forward:
        return f"{switch.look}, or is summed over {switch.summed}"
    names = {one.name for one in wrong}
    for at, other in ((_AT_HALF, _AT_ONE), (_AT_ONE, _AT_HALF)):
        if switch.own and switch.name.endswith(at) and switch.name.removesuffix(at) + other in names:
            gates = list(dict.fromkeys(_short(name)[2:] for name in switch.own))
            where = f"{' and '.join(gates)} {'is' if len(gates) == 1 else 'are'}{at.replace(' =', '')}"
            return f"{switch.look} and used: right where {where}, wrong where{other.replace(' =', '')}"
    return switch.look


#: What a case is computed from that may be anything, and what is a matter of size alone; beginnings of names.
_ANY = ("x", "h0", "c0", "dh", "dh_T", "dc_T", "dU", "gradient", "a", "dy", "outputs")
_TWICE, _LESS = ("x", "h0", "c0", "a", "outputs"), 0.8


def redrawn(case: Case) -> Case:
    """A case of other values: states, inputs and gradients from above in another order, a map's parameters smaller.

    Inputs and states are twice as large, so that a limit which one case keeps within is passed.

    Parameters
    ----------
    case : Case
        The case that is asked again.

    Returns
    -------
    Case
        Of the same config and shapes.
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
    same = all(
        a.shape == b.shape and (a == b).all() for a, b in zip(case.inputs.values(), other.inputs.values(), strict=True)
    )
    return not same or other.config != case.config


# Cells


def _gates(case: Case) -> list[str]:
    """The sigmoids that have weights."""
    own = [name.removeprefix("weights.b_") for name in case.inputs if name.startswith("weights.b_")]
    return [gate for gate in own if gate in "ruzifo"]


def _gate_inputs(gate: str) -> tuple[str, ...]:
    return tuple(f"weights.{letter}_{gate}" for letter in "WUb")


def _gate(name: str, gates: tuple[str, ...], bias: float) -> Switch:
    """Gates that are sigmoid(bias) whatever their input."""
    own = tuple(name for gate in gates for name in _gate_inputs(gate))

    def change(case: Case) -> Arrays:
        return {n: np.full_like(case.inputs[n], bias if _short(n)[0] == "b" else 0.0) for n in own}

    look = f"how {' and '.join(gates)} {'is' if len(gates) == 1 else 'are'} computed"
    return Switch(name, look, partial(_fed, change), own)


def _one_step(case: Case) -> Arrays:
    return {name: case.inputs[name][:1] for name in ("x", "dh")}


def _one_sequence(case: Case) -> Arrays:
    early = {name: case.inputs[name][:, :1] for name in ("x", "dh")}
    return early | {name: case.inputs[name][:1] for name in ("h0", "c0", "dh_T", "dc_T") if name in case.inputs}


def shortest(case: Case) -> Case:
    """A cell's case of one step of one sequence.

    Parameters
    ----------
    case : Case
        Of kind cell.

    Returns
    -------
    Case
        Of the same config.
    """
    return _fed(_one_sequence, _fed(_one_step, case))


def _units_on(case: Case) -> Switch:
    """phi's argument above 0 by far, of modReLU its modulus; without the state, which would grow."""
    biases = [n for n in case.inputs if n in ("weights.b", "weights.b_c", "weights.b_h")]
    own = (*biases, *(n for n in case.inputs if n in ("weights.U", "weights.U_c", "weights.U_h")))

    def change(case: Case) -> Arrays:
        return {n: np.full_like(case.inputs[n], _ON if n in biases else 0.0) for n in own}

    return Switch("every unit of phi on", "phi where it is 0", partial(_fed, change), own)


def _cell(case: Case) -> list[Switch]:
    switches = [
        Switch(ONE_STEP, "what is carried from step to step", partial(_fed, _one_step), summed="the steps"),
        Switch(
            _ONE_SEQUENCE,
            "what goes from one sequence of the batch to another",
            partial(_fed, _one_sequence),
            summed="the batch",
        ),
    ]
    states = [name for name in _STATES if name in case.inputs]
    switches += _off(f"{' = '.join(states)} = 0", f"what is made of {' and '.join(states)}", states)
    for letter, look in (("U", "what multiplies U"), ("W", "what multiplies W"), ("b", "where b is added")):
        names = _some(case, letter)
        label = f"every {letter} = 0" if len(names) > 1 else f"{letter} = 0"
        switches += _off(label, look, names)
    if gates := tuple(_gates(case)):
        every = "every gate" if len(gates) > 1 else gates[0]
        switches += [_gate(every + _AT_HALF, gates, 0.0), _gate(every + _AT_ONE, gates, _OPEN)]
    if case.config.get("activation") in ("relu", "modrelu"):
        switches.append(_units_on(case))
    switches += _off("dh_T = 0", "what is made of dL/dh_T", [n for n in ("dh_T", "dc_T") if n in case.inputs])
    return switches + _off("dh = 0", "what is made of dL/dh_t", ["dh"])


# Maps, updates, optimizers


def _map(case: Case) -> list[Switch]:
    switches: list[Switch] = []
    if case.config.get("negative_ones"):
        switches.append(_options("negative_ones = 0", "what multiplies D", negative_ones=0))
    params = [name for name in case.inputs if name.startswith("params.") and not _short(name).lower().startswith("v")]
    for name in params if len(params) > 1 else []:
        switches += _off(f"{_short(name)} = 0", f"what is made of {_short(name)}", [name])
    every = tuple(name for name in case.inputs if name.startswith("params."))
    names = ", ".join(map(_short, every))
    if "A_tilde" not in case.inputs:
        small = _times(1e-3, every)
        switches.append(Switch(f"{names} / 1000", f"what grows with {names}: a series cut short, a power", small))
        switches.append(Switch(f"{names} times 1000", f"a constant added beside {names}", _times(1e3, every)))
    return switches


def _update(case: Case) -> list[Switch]:
    switches = [
        Switch(
            "the first update alone",
            "what is carried from update to update, and what is done at some updates only",
            partial(_fed, lambda case: {"dU": case.inputs["dU"][:1]}),
        )
    ]
    if case.config.get("negative_ones"):
        switches.append(_options("negative_ones = 0", "what multiplies D", negative_ones=0))
    if "A0" in case.inputs:
        switches += _off("A0 = 0", "what multiplies A", ["A0"])
    if case.config.get("reset_every", 1) != 1:
        switches.append(_options("reset_every = 1", "the series, between the resets", reset_every=1))
    if case.config.get("rebase_every", 1) != 1:
        switches.append(_options("rebase_every = 1", "A, between the moves of the base", rebase_every=1))
    switches += _of_optimizer(case)
    tiny = partial(_fed, lambda case: {"dU": case.inputs["dU"] * 1e-3})
    return [*switches, Switch("dU / 1000", "what is of second order in an update", tiny)]


def _of_optimizer(case: Case) -> list[Switch]:
    own = case.config["optimizer"]
    switches = []
    for option in ("momentum", "weight_decay"):
        if own.get(option):
            switches.append(
                _options(f"{option} = 0", f"the {option.replace('_', ' ')}", optimizer={**own, option: 0.0})
            )
    if own["name"] != "sgd":
        plain = {"name": "sgd", "learning_rate": own["learning_rate"], "momentum": 0.0, "weight_decay": 0.0}
        switches.append(_options("plain SGD for the optimizer", f"the optimizer, {own['name']}", optimizer=plain))
    return switches


def _optimizer(case: Case) -> list[Switch]:
    one = partial(_fed, lambda case: {"gradient": case.inputs["gradient"][:1]})
    large = partial(_fed, lambda case: {"gradient": case.inputs["gradient"] * 1e6})
    own = [switch for switch in _of_optimizer(case) if "SGD" not in switch.name]
    return [
        Switch("the first update alone", "what is carried from update to update", one),
        *own,
        Switch("gradients times 1e6", "epsilon", large),
        *_off("parameter0 = 0", "what is made of the parameter itself", ["parameter0"]),
    ]


# Functions


def _activation(case: Case) -> list[Switch]:
    def on(case: Case) -> Arrays:
        return {"b": np.full_like(case.inputs["b"], _ON)} if "b" in case.inputs else {}

    small = partial(_fed, lambda case: {"a": case.inputs["a"] * 0.1})
    kinked = case.config["activation"] in ("relu", "modrelu")
    return [
        *([Switch("every unit on", "phi where it is 0", partial(_fed, on))] if kinked else []),
        *(_off("b = 0", "where b is added", ["b"]) if "b" in case.inputs else []),
        Switch("a / 10", "large arguments", small),
    ]


def _loss(case: Case) -> list[Switch]:
    def of(part: slice, axis: int) -> Callable[[Case], Case]:
        cut = (slice(None),) * axis + (part,)
        return partial(_fed, lambda case: {name: array[cut] for name, array in case.inputs.items()})

    def unmasked(case: Case) -> Arrays:
        return {"mask": np.ones_like(case.inputs["mask"])} if "mask" in case.inputs else {}

    small = partial(_fed, lambda case: {"outputs": case.inputs["outputs"] * 0.01})
    return [
        Switch(ONE_STEP, "what is summed or averaged over the steps", of(slice(1), 0)),
        Switch(_ONE_SEQUENCE, "what is summed or averaged over the batch", of(slice(1), 1)),
        Switch("nothing masked", "the mask", partial(_fed, unmasked)),
        Switch("outputs / 100", "large outputs", small),
    ]


_FIRST: dict[str, Callable[[Case], list[Switch]]] = {
    "cell": _cell,
    "parametrization": _map,
    "update": _update,
    "optimizer": _optimizer,
    "activation": _activation,
    "loss": _loss,
}
