"""One cell and one parametrization per recurrent weight: the only place that knows both.

Every method that users call is a door: names, shapes, dtypes and devices are checked, and that x, h0, dh and dh_T are
finite.  Parameters that stop being finite show in the loss and the gradients: the trainer looks there.  `run`,
`run_back` and `move` are what stands behind the door, for a network that has checked its own.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import fused, scan
from ortho_ref.backend import Array, complex_dtype, library_of
from ortho_ref.boundary import (
    as_array,
    check_array,
    check_choice,
    check_cotangents,
    check_deltas,
    check_dense,
    check_dicts,
    check_has,
    check_input,
    check_integer,
    check_state,
    check_switch,
    generator,
    kind_of,
    named,
    precision,
    short,
)
from ortho_ref.cells import Cell, State, Weights
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.fused import compiled, factored, persistent
from ortho_ref.initial import Initial, constant
from ortho_ref.parametrizations import Buffers, Free, Parametrization, Params
from ortho_ref.printing import ArraysByName, brief
from ortho_ref.trees import prefixed, under

NamedBuffers = dict[str, Buffers]
ENGINES = ("fused", "scan", "persistent", "compiled", "factored")
#: Those that some cells and some machines have: modules that say of which they are.
_OF_SOME = {"persistent": persistent, "compiled": compiled, "factored": factored}


class RecurrentTape(NamedTuple):
    """What backward needs."""

    engine: Any  # the engine's tape; it refers to x and to the states, which must not be changed before backward
    name_of_engine: str  # what ran
    from_trained_h0: bool  # whether the run began from the trained initial state

    @property
    def cell(self) -> Cell:
        """What ran."""
        return self.engine.cell

    @property
    def shape(self) -> tuple[int, int, int]:
        """(T, B, n)."""
        return self.engine.shape

    def __repr__(self) -> str:
        return brief(self)


class RecurrentGradients(NamedTuple):
    """Gradients.

    Attributes
    ----------
    params : dict of Array
        Under the parameters' names.
    x : Array (T, B, m), or None for tokens
        Of the input.
    h0 : Array (B, n), for LSTM a pair
        Of the initial state.
    """

    params: Params
    x: Array | None
    h0: State

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class Recurrent:
    """A recurrent layer.

    Parameters
    ----------
    cell : Cell
        From `ortho_ref.cells`.
    parametrizations : mapping of str to Parametrization
        Recurrent weight -> how it is kept, {"U_c": NeumannCayley(...)}; the others are free.
    trained_h0 : bool
        Learn the initial state: parameters h0 (and c0) of shape (n,), zero unless `initial` says otherwise.
    engine : str
        "fused"; "scan" for the step-by-step reference, which also runs cells that have no fused form; "persistent" on
        a GPU, a launch for all steps, of cells that have such kernels (docs/gpu.md); "compiled" on the host, by Numba,
        several times as fast for small n (the extra `fast`, docs/performance.md); "factored" on the host for urnn,
        eurnn, vprnn and sgornn, U by its factors, several times as fast for large n.
    initial : mapping of str to callable
        Weight -> its initial value, where a model departs from the cell's own.
    sizes : tuple of int, optional
        (input_size, hidden_size) that `init` takes when it is given none.
    name : str, optional
        Of the model, where it is one of `models`; two layers that differ in it alone are equal.

    Raises
    ------
    ValueError
        For names that the cell does not have, a complex parametrization on a real cell or the other way round, and an
        engine that is none or has nothing for the cell.

    Notes
    -----
    Parameters are a flat dict: "W_r", "b_r", ...; for a parametrized weight "U_c.A".  Buffers are what is no parameter,
    {"U_c": {"U": ..., ...}}.  The dense U follows its parameters in `init` and `retract`; after setting them by hand,
    `rebuild`.
    """

    cell: Cell
    parametrizations: Mapping[str, Parametrization] = field(default_factory=dict)
    trained_h0: bool = False
    engine: str = "fused"
    initial: Mapping[str, Initial] = field(default_factory=dict)
    sizes: tuple[int, int] | None = None
    name: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._check_kinds()
        check_choice("engine", self.engine, ENGINES)
        check_switch("trained_h0", self.trained_h0)
        if (reason := self.refusal(self.engine)) is not None:
            raise ValueError(reason)
        for argument, given, allowed in (
            ("parametrizations", self.parametrizations, self.cell.recurrent_weights),
            ("initial", self.initial, self.free),
        ):
            for name in given:
                if name not in allowed:
                    raise ValueError(
                        f"{argument} names {name!r}; allowed for {type(self.cell).__name__}: {', '.join(allowed)}"
                    )
        for name, kept in self.parametrizations.items():
            what = "a parametrization, as parametrizations.by_name('householder:8', n)"
            check_has(f"parametrizations[{name!r}]", kept, "pullback", what)
        kinds = {False: "real", True: "complex"}
        for name, parametrization in self.constrained.items():
            if parametrization.complex != self.cell.complex:
                raise ValueError(
                    f"parametrizations puts the {kinds[parametrization.complex]} {parametrization} on {name} of the "
                    f"{kinds[self.cell.complex]} {type(self.cell).__name__}; allowed: one that is "
                    f"{kinds[self.cell.complex]}"
                )

    def refusal(self, engine: str) -> str | None:
        """Why an engine cannot run the layer; None where it can."""
        if engine == "factored":
            return factored.refusal(self.cell, self.parametrizations.get("U"))
        return _OF_SOME[engine].refusal(self.cell) if engine in _OF_SOME else None

    def _check_kinds(self) -> None:
        """An error unless cell, parametrizations, initial and sizes are what they are called."""
        check_has("cell", self.cell, "step_forward", "a cell, as cells.by_name('gru_reset_before')")
        for argument, given in (("parametrizations", self.parametrizations), ("initial", self.initial)):
            if not isinstance(given, Mapping):
                raise TypeError(f"{argument} is {kind_of(given)}; allowed: a dict by the weights' names, as 'U_c'")
        if self.sizes is not None:
            if not isinstance(self.sizes, list | tuple) or len(self.sizes) != 2:
                raise ValueError(f"sizes is {short(self.sizes)}; allowed: a pair, (input_size, hidden_size)")
            for argument, size in zip(("input_size", "hidden_size"), self.sizes, strict=True):
                check_integer(argument, size)
            object.__setattr__(self, "sizes", tuple(self.sizes))

    def __repr__(self) -> str:
        parts = [f"{self.name}: {self.cell}" if self.name else f"{self.cell}"]
        if self.sizes is not None:
            parts.append("{} -> {}".format(*self.sizes))
        parts += [f"{name}: {kept}" for name, kept in self.constrained.items()]
        if self.trained_h0:
            parts.append(f"trained {', '.join(self._h0_names)}")
        if self.engine == "scan" or not fused.has_form(self.cell):
            parts.append("by scan")
        elif self.engine != "fused":
            parts.append(f"by {self.engine}")
        if self.free_parameters is not None:
            parts.append(f"{self.free_parameters:,} parameters")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def constrained(self) -> dict[str, Parametrization]:
        """The weights that are not free, and how they are kept."""
        return {name: p for name, p in self.parametrizations.items() if not isinstance(p, Free)}

    @property
    def free(self) -> tuple[str, ...]:
        """The weights that nothing keeps, and the trained initial states."""
        return tuple(name for name in (*self.cell.shapes(1, 1), *self._h0_names) if name not in self.constrained)

    @property
    def _h0_names(self) -> tuple[str, ...]:
        return tuple(f"{name}0" for name in self.cell.states) if self.trained_h0 else ()

    def init(
        self,
        rng: np.random.Generator,
        input_size: int | None = None,
        hidden_size: int | None = None,
        *,
        dtype: Any = np.float32,
    ) -> tuple[Params, NamedBuffers]:
        """Parameters and buffers, on the host.

        Parameters
        ----------
        rng : numpy.random.Generator
            Every weight is drawn from its own child of it.
        input_size, hidden_size : int, optional
            m and n; those of the layer unless given.
        dtype : dtype
            The real precision, float32 or float64.

        Returns
        -------
        params : dict of Array
            By name, "W_r", "U_c.A".
        buffers : dict of dict
            Parametrized weight -> its buffers.

        Raises
        ------
        TypeError
            rng is no generator, but a seed, say.
        ValueError
            For other dtypes, sizes below 1, and sizes that are missing or differ from the layer's own.
        """
        rng, (m, n), dtype = generator(rng), self._sizes(input_size, hidden_size), precision(dtype)
        names = self.cell.shapes(m, n)
        cell_rng, *children = rng.spawn(1 + len(names))
        weights = self.cell.init(cell_rng, m, n, dtype=dtype)
        params: Params = ArraysByName()
        buffers: NamedBuffers = ArraysByName()
        for name, child in zip(names, children, strict=True):
            if name in self.constrained:
                own, buffers[name] = self.constrained[name].init(child, n, dtype=dtype)
                params |= prefixed(f"{name}.", own)
            elif name in self.initial:
                params[name] = self.initial[name](child, weights[name].shape, weights[name].dtype)
            else:
                params[name] = weights[name]
        h0_dtype = complex_dtype(dtype) if self.cell.complex else dtype
        for name, child in zip(self._h0_names, rng.spawn(len(self._h0_names)), strict=True):
            params[name] = self.initial.get(name, constant(0.0))(child, (n,), h0_dtype)
        return params, buffers

    def _sizes(self, input_size: int | None, hidden_size: int | None) -> tuple[int, int]:
        given = (input_size, hidden_size)
        fixed = self.sizes or (None, None)
        for name, value, own in zip(("input_size", "hidden_size"), given, fixed, strict=True):
            if value is None and own is None:
                raise ValueError(f"{name} is missing; allowed: an integer >= 1, as the layer was built without sizes")
            if value is not None:
                check_integer(name, value)
            if value is not None and own is not None and value != own:
                raise ValueError(f"{name} is {value}; this layer was built for {own}")
        return tuple(own if value is None else value for value, own in zip(given, fixed, strict=True))  # type: ignore[return-value]

    def weights(self, params: Params, buffers: NamedBuffers) -> Weights:
        """The dense weights the cell sees.

        Parameters
        ----------
        params, buffers : dict
            As `init` gives them, on any device.

        Returns
        -------
        dict of Array
            Under the cell's names.

        Raises
        ------
        ValueError, TypeError
            If parameters and buffers do not fit this layer.
        """
        self._checked(params, buffers)
        return self.dense(params, buffers)

    def _checked(self, params: Params, buffers: NamedBuffers) -> tuple[Weights, Array]:
        """What the engine takes, and W (n, m), the first input weight; an error unless all fits this layer."""
        check_dicts(params=params, buffers=buffers)
        self._check_own_buffers(buffers, "U")
        constrained = self.constrained
        for name in buffers:
            if name not in constrained:
                raise ValueError(f"buffers holds {name!r}; allowed: {', '.join(constrained) or 'none'}")
        names = (*self.cell.shapes(1, 1), *self._h0_names)
        if not any(name in params for name in self.cell.input_weights):
            raise ValueError("params holds no input weight W (n, m)")
        for name in constrained:
            if name in params:
                raise ValueError(
                    f"params holds {name!r}, which is built from its own parameters; set these and rebuild"
                )
        for name in params:
            weight, dot, _ = name.partition(".")
            if weight not in names or (dot and weight not in constrained):
                raise ValueError(f"params holds {name!r}; the weights are {', '.join(names)}")
        for name in self.lacking(params):
            raise ValueError(f"params holds no {name}; the weights are {', '.join(names)}")
        W = check_dense(self.cell, self.dense(params, buffers))
        library_of(*params.values(), W)
        for name in self._h0_names:
            check_array(name, params[name], (len(W),), W.dtype)
        return self.run_on(params, buffers), W

    def dense(self, params: Params, buffers: NamedBuffers) -> Weights:
        """`weights` of what has been checked."""
        return {
            name: buffers[name]["U"] if name in buffers else as_array(params[name]) for name in self.cell.shapes(1, 1)
        }

    def run_on(self, params: Params, buffers: NamedBuffers) -> Weights:
        """What the engine takes: the dense weights, or U as its factors."""
        weights = self.dense(params, buffers)
        if self.engine == "factored":
            weights["U"] = factored.Factors(self.constrained["U"], under("U.", params), buffers["U"])
        return weights

    def lacking(self, params: Params) -> list[str]:
        """What a layer needs and params does not hold: free weights, and "U_c.*" of a parametrized one."""
        names, constrained = (*self.cell.shapes(1, 1), *self._h0_names), self.constrained
        kept = {name.partition(".")[0] for name in params if "." in name}
        return [
            f"{name}.*" if name in constrained else name
            for name in names
            if name not in (kept if name in constrained else params)
        ]

    def _check_own_buffers(self, buffers: NamedBuffers, *needed: str) -> None:
        """An error unless there are buffers of every parametrized weight, and these among them."""
        if absent := [name for name in self.constrained if name not in buffers]:
            raise ValueError(f"buffers holds no {', no '.join(absent)}; expected all that init gives")
        for name in self.constrained:
            check_dicts(**{f"buffers[{name!r}]": buffers[name]})
            for key in needed:
                if key not in buffers[name]:
                    raise ValueError(f"buffers[{name!r}] holds no {key}; expected all that init gives")

    def rebuild(self, params: Params, buffers: NamedBuffers) -> NamedBuffers:
        """Buffers with every U afresh from the parameters, for parameters that were set by hand."""
        check_dicts(params=params, buffers=buffers)
        self._check_own_buffers(buffers)
        rebuilt: NamedBuffers = ArraysByName()
        for name, kept in self.constrained.items():
            with named(name):
                rebuilt[name] = dict(kept.rebuild(under(f"{name}.", params), buffers[name]))
        return rebuilt

    def forward(
        self, params: Params, buffers: NamedBuffers, x: Array, h0: State | None = None
    ) -> tuple[State, RecurrentTape]:
        """Run over a sequence.

        Parameters
        ----------
        params, buffers : dict
            As `init` gives them, on any device.
        x : Array (T, B, m), or integer tokens (T, B)
            The input.
        h0 : Array (B, n), for LSTM a pair, optional
            Where to begin: the trained initial state, or zeros, unless given.

        Returns
        -------
        h : Array (T+1, B, n), for LSTM a pair
            The states; entry 0 is h0.
        tape : RecurrentTape
            For `backward`.

        Raises
        ------
        ValueError, TypeError
            Naming the argument, for wrong shapes, dtypes, devices and values.
        """
        weights, W = self._checked(params, buffers)
        check_input(x, W.shape[1], W.real)
        if h0 is not None:
            check_state("h0", self.cell, h0, x.shape[1], W)
        return self.run(params, weights, x, h0)

    def run(self, params: Params, weights: Weights, x: Array, h0: State | None) -> tuple[State, RecurrentTape]:
        """`forward` of what has been checked; weights are those of `run_on`."""
        from_trained_h0 = h0 is None and self.trained_h0
        if from_trained_h0:
            xp, n = library_of(x).xp, len(params[self._h0_names[0]])
            h0 = state_of(tuple(xp.broadcast_to(params[name], (x.shape[1], n)) for name in self._h0_names))
        h, tape = self.loops.unroll(self.cell, weights, x, h0)
        return h, RecurrentTape(tape, self.engine, from_trained_h0)

    @property
    def loops(self) -> ModuleType:
        """The module whose `unroll` and `unroll_back` run the cell."""
        if self.engine == "fused":
            return fused.form_of(self.cell)
        return _OF_SOME.get(self.engine, scan)

    def backward(
        self, params: Params, buffers: NamedBuffers, tape: RecurrentTape, dh: Array, dh_T: State | None = None
    ) -> RecurrentGradients:
        """Gradients of every parameter, of x and of h0.

        Parameters
        ----------
        params, buffers : dict
            Those of `forward`.
        tape : RecurrentTape
            From `forward`.
        dh : Array (T, B, n)
            The loss's own gradient by h[1:]; of an LSTM by its h only.
        dh_T : Array (B, n), for LSTM a pair, optional
            A further one by the last state.

        Returns
        -------
        RecurrentGradients
            A trained initial state's gradient is summed over the batch.

        Raises
        ------
        ValueError, TypeError
            Naming the argument, for wrong shapes, dtypes, devices and values, and another layer's tape.
        """
        weights, W = self._checked(params, buffers)
        check_cotangents(self.cell, W, tape, RecurrentTape, dh, dh_T)
        if tape.name_of_engine != self.engine:
            raise ValueError(f"tape is by {tape.name_of_engine}; this layer is by {self.engine}")
        return self.run_back(params, buffers, weights, tape, dh, dh_T)

    def run_back(
        self,
        params: Params,
        buffers: NamedBuffers,
        weights: Weights,
        tape: RecurrentTape,
        dh: Array,
        dh_T: State | None = None,
    ) -> RecurrentGradients:
        """`backward` of what has been checked; weights are those of `run_on`."""
        own = self.loops.unroll_back(self.cell, weights, tape.engine, dh, dh_T)
        gradients: Params = ArraysByName()
        for name, gradient in own.weights.items():
            if name in buffers:
                pulled = gradient
                if not isinstance(gradient, dict):  # "factored" gives those of the parameters themselves
                    with named(name):
                        pulled = self.constrained[name].pullback(under(f"{name}.", params), buffers[name], gradient)
                gradients |= prefixed(f"{name}.", pulled)
            else:
                gradients[name] = gradient
        for name, part in zip(self._h0_names, parts_of(self.cell, own.h0), strict=False):
            summed = part.sum(axis=0)
            gradients[name] = summed if tape.from_trained_h0 else 0 * summed
        return RecurrentGradients(gradients, own.x, own.h0)

    def retract(self, params: Params, buffers: NamedBuffers, deltas: Params) -> tuple[Params, NamedBuffers]:
        """Subtract the optimizer's deltas and update every U.

        Parameters
        ----------
        params, buffers : dict
            As they are.
        deltas : dict of Array
            Under the parameters' names: what is subtracted, learning rate included.

        Returns
        -------
        params, buffers : dict
            New ones; those given keep their values.

        Raises
        ------
        ValueError, TypeError
            Where names, shapes or dtypes do not fit, or a parametrization refuses its delta.
        """
        check_dicts(params=params, buffers=buffers)
        self._check_own_buffers(buffers)
        check_deltas(params, deltas)
        return self.move(params, buffers, {name: as_array(delta) for name, delta in deltas.items()})

    def move(self, params: Params, buffers: NamedBuffers, deltas: Params) -> tuple[Params, NamedBuffers]:
        """`retract` of what has been checked."""
        moved = {
            name: library_of(value, deltas[name]).xp.asarray(value - deltas[name])
            for name, value in params.items()
            if name.partition(".")[0] not in buffers
        }
        new_buffers: NamedBuffers = ArraysByName(buffers)
        for name, kept in self.constrained.items():
            with named(name):
                own, own_buffers = kept.retract(under(f"{name}.", params), buffers[name], under(f"{name}.", deltas))
            moved |= prefixed(f"{name}.", own)
            new_buffers[name] = dict(own_buffers)
        for name in params:
            if name not in moved:
                raise ValueError(f"params holds {name!r}; expected what init gives alone")
        return ArraysByName({name: moved[name] for name in params}), new_buffers

    @property
    def output_size(self) -> int | None:
        """How many real numbers a state is read on as: n, or 2 n for a complex cell; None without sizes."""
        return None if self.sizes is None else self.sizes[1] * (2 if self.cell.complex else 1)

    @property
    def free_parameters(self) -> int | None:
        """What `count` counts, from the sizes alone; None without them, or where a parametrization refuses n."""
        try:
            return None if self.sizes is None else self._count(*self.sizes)
        except ValueError:  # `init` will say why
            return None

    def count(self, params: Params) -> int:
        """Free real parameters: n (n - 1) / 2 for a skew A, two for each complex number."""
        check_dicts(params=params)
        W = params.get(self.cell.input_weights[0])
        if W is None:
            raise ValueError("params holds no input weight W (n, m)")
        n, m = W.shape
        return self._count(m, n)

    def _count(self, m: int, n: int) -> int:
        """Of these sizes; of a complex cell matrices and states are complex, biases are not."""
        twice = 2 if self.cell.complex else 1
        shapes = {name: shape for name, shape in self.cell.shapes(m, n).items() if name not in self.constrained}
        free = sum(math.prod(shape) * (twice if len(shape) == 2 else 1) for shape in shapes.values())
        free += twice * n * len(self._h0_names)
        return free + sum(parametrization.count(n) for parametrization in self.constrained.values())

    def health(self, buffers: NamedBuffers) -> dict[str, dict[str, float]]:
        """Weight -> the figures its parametrization watches: defect, Neumann condition, forced resets."""
        check_dicts(buffers=buffers)
        self._check_own_buffers(buffers, "U")
        figures = {}
        for name, kept in self.constrained.items():
            with named(name):
                figures[name] = kept.health(buffers[name])
        return figures
