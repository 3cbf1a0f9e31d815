"""One cell and one parametrization per recurrent weight: the only place that knows both.

Here, at the boundary, shapes, dtypes and devices are checked, and that x, h0, dh and dh_T are finite; cells and engines
below trust their input.  Parameters that stop being finite show in the loss and the gradients: the trainer looks there.

A stretch s of a sequence alone, from the cotangent d_s of its last state
    d_{s-1} = (adjoint of its steps at d_s)                        [bp:recompute/g]
    a weight's gradient is the sum of the stretches' parts         [bp:recompute/sum]
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import fused, scan
from ortho_ref.arguments import check_has, check_size, generator, precision
from ortho_ref.backend import Array, complex_dtype, is_array, library_of
from ortho_ref.brief import ArraysByName, brief
from ortho_ref.cells import Cell, State, Weights
from ortho_ref.cells.cell import is_tokens, parts_of, state_of
from ortho_ref.checks import check_finite, check_indices, prefixed
from ortho_ref.fused import persistent
from ortho_ref.initial import Initial, constant
from ortho_ref.parametrizations import Buffers, Free, Parametrization, Params
from ortho_ref.pending import Pending, together
from ortho_ref.schema import kind_of, nearest, not_among, short

NamedBuffers = dict[str, Buffers]
ENGINES: dict[str, ModuleType] = {"fused": fused, "scan": scan, "persistent": persistent}


class RecurrentTape(NamedTuple):
    """What backward needs.

    Attributes
    ----------
    engine : object
        The engine's tape; it refers to x and to the states, which must not be changed before backward.
    cell : Cell
        What ran.
    name_of_engine : str
        By what.
    shape : tuple of int
        (T, B, n).
    from_trained_h0 : bool
        Whether the run began from the trained initial state.
    """

    engine: Any
    cell: Cell
    name_of_engine: str
    shape: tuple[int, int, int]
    from_trained_h0: bool

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
        a GPU, a launch for all steps, of cells that have such kernels (docs/gpu.md).
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
        if self.engine not in ENGINES:
            raise ValueError(not_among("engine", self.engine, ENGINES))
        if self.engine == "persistent" and not persistent.has_form(self.cell):
            raise ValueError(persistent.refusal(self.cell))
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
                check_size(argument, size)
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
                params |= {f"{name}.{key}": value for key, value in own.items()}
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
                check_size(name, value)
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
        check_dicts(params=params, buffers=buffers)
        self._check_own_buffers(buffers, "U")
        constrained = self.constrained
        for name in buffers:
            if name not in constrained:
                raise ValueError(f"buffers holds {name!r}; allowed: {', '.join(constrained) or 'none'}")
        W = self._input_weight(params)
        if W is None or not is_array(W) or W.ndim != 2:
            raise ValueError("params holds no input weight W (n, m)")
        allowed = (np.complex64, np.complex128) if self.cell.complex else (np.float32, np.float64)
        if W.dtype not in allowed:
            names = ", ".join(np.dtype(dtype).name for dtype in allowed)
            raise TypeError(f"the parameters are {W.dtype}; allowed for this layer: {names}")
        library_of(*params.values(), *(own["U"] for own in buffers.values()))
        n, m = W.shape
        shapes = self.cell.shapes(m, n)
        self._check_names(params, (*shapes, *self._h0_names))
        weights = {name: buffers[name]["U"] if name in buffers else _array(params.get(name)) for name in shapes}
        dtype = W.dtype
        if not all(
            is_array(own) and own.shape == shapes[name] and own.real.dtype == W.real.dtype
            for name, own in weights.items()
        ):
            shapes, dtype = self._of_most(weights)
        for name, shape in shapes.items():
            check_array(name, weights[name], shape, dtype if len(shape) == 2 else dtype.type(0).real.dtype)
        for name in self._h0_names:
            check_array(name, params.get(name), (n,), W.dtype)
        return weights

    def _input_weight(self, named: Weights) -> Array:
        """The first input weight W (n, m), which tells sizes, dtype and device; None if there is none."""
        return next((named[name] for name in self.cell.input_weights if name in named), None)

    def _of_most(self, weights: Weights) -> tuple[dict[str, tuple[int, ...]], np.dtype[Any]]:
        """The shapes and the dtype that most of the weights fit, so that an error names the one that does not."""
        arrays = {name: own for name, own in weights.items() if is_array(own)}
        inputs = [arrays[name].shape for name in self.cell.input_weights if name in arrays]
        sizes = [shape for shape in inputs if len(shape) == 2]
        sizes += [self.sizes[::-1]] if self.sizes else []
        every = [self.cell.shapes(m, n) for n, m in sizes]
        shapes = max(every, key=lambda own: sum(array.shape == own[name] for name, array in arrays.items()))
        most = precision_of_most(arrays.values())
        return shapes, complex_dtype(most) if self.cell.complex else most

    def _check_names(self, params: Params, names: tuple[str, ...]) -> None:
        """ValueError unless params holds weights of these names, parametrized ones by their own parameters."""
        for name in self.constrained:
            if name in params:
                raise ValueError(
                    f"params holds {name!r}, which is built from its own parameters; set these and rebuild"
                )
        for name in params:
            weight, dot, _ = name.partition(".")
            if weight not in names or (dot and weight not in self.constrained):
                raise ValueError(f"params holds {name!r}; the weights are {', '.join(names)}")
        for name in self.lacking(params):
            raise ValueError(f"params holds no {name}; the weights are {', '.join(names)}")

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
        return ArraysByName(
            (name, dict(kept.rebuild(_own(params, name), _held(name, buffers))))
            for name, kept in self.constrained.items()
        )

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
        weights = self.weights(params, buffers)
        W = self._input_weight(weights)
        n, m = W.shape
        x = check_input(x, m, W.real)
        batch = x.shape[1]
        from_trained_h0 = h0 is None and self.trained_h0
        if from_trained_h0:
            xp = library_of(x).xp
            h0 = state_of(tuple(xp.broadcast_to(params[name], (batch, n)) for name in self._h0_names))
        elif h0 is not None:
            self._check_state("h0", h0, (batch, n), W)
        return self._run(weights, x, h0, from_trained_h0)

    def go_on(self, params: Params, buffers: NamedBuffers, x: Array, h: State) -> tuple[State, RecurrentTape]:
        """`forward` over the next stretch of a sequence; neither x nor the state is looked at again.

        Parameters
        ----------
        params, buffers, x
            As of `forward`.
        h : Array (B, n), for LSTM a pair
            The state that `forward`, or this, ended with.

        Returns
        -------
        h, tape
            As of `forward`.
        """
        return self._run(self.weights(params, buffers), x, h, False)

    def _run(self, weights: Weights, x: Array, h0: State | None, from_trained_h0: bool) -> tuple[State, RecurrentTape]:
        h, tape = ENGINES[self.engine].forward(self.cell, weights, x, h0)
        shape = (*x.shape[:2], self._input_weight(weights).shape[0])
        return h, RecurrentTape(tape, self.cell, self.engine, shape, from_trained_h0)

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
        weights = self.weights(params, buffers)
        W = self._input_weight(weights)
        if not isinstance(tape, RecurrentTape):
            raise TypeError(f"tape is {kind_of(tape)}; expected what forward returned")
        T, B, n = tape.shape
        if (tape.cell, tape.name_of_engine, n) != (self.cell, self.engine, W.shape[0]):
            raise ValueError(
                f"tape is of {tape.cell} by {tape.name_of_engine} with n = {n}; this layer is {self.cell} by "
                f"{self.engine} with n = {W.shape[0]}"
            )
        library_of(W, dh)
        check_array("dh", dh, (T, B, n), W.dtype)
        check_finite("dh", dh)
        if dh_T is not None:
            self._check_state("dh_T", dh_T, (B, n), W)
        own = ENGINES[self.engine].backward(self.cell, weights, tape.engine, dh, dh_T)
        pulled_back = self.pullback(params, buffers, own.weights, own.h0, tape.from_trained_h0)
        return RecurrentGradients(pulled_back, own.x, own.h0)

    def pullback(
        self, params: Params, buffers: NamedBuffers, dweights: Weights, dh0: State, from_trained_h0: bool
    ) -> Params:
        """The gradients of the parameters from those of the dense weights, summed over all of a sequence.

        Parameters
        ----------
        params, buffers : dict
            Those of `forward`.
        dweights : dict of Array
            Under the cell's names.
        dh0 : Array (B, n), for LSTM a pair
            Of the initial state.
        from_trained_h0 : bool
            Whether the run began from the trained one.

        Returns
        -------
        dict of Array
            Under the parameters' names.
        """
        gradients: Params = ArraysByName()
        for name, gradient in dweights.items():
            if name in buffers:
                own = self.constrained[name].pullback(_own(params, name), _held(name, buffers), gradient)
                gradients |= {f"{name}.{key}": value for key, value in own.items()}
            else:
                gradients[name] = gradient
        for name, part in zip(self._h0_names, parts_of(self.cell, dh0), strict=False):
            summed = part.sum(axis=0)
            gradients[name] = summed if from_trained_h0 else 0 * summed
        return gradients

    def add_gradients(
        self, sums: Weights, weights: Weights, tape: RecurrentTape, t: slice, dh: Array, dh_T: State | None
    ) -> tuple[Array | None, State]:
        """Backward through some steps of a sequence, whose gradients are added to those of the steps after them.

        Taken over the chunks of `fused`, the last first, the sums are the dense weights' gradients to the bit.

        Parameters
        ----------
        sums : dict of Array
            By the names of the dense weights; added to.
        weights : dict of Array
            The dense weights.
        tape : RecurrentTape
            From `forward` or `go_on`.
        t : slice
            The steps, in what the tape is of.
        dh : Array (steps, B, n)
            The loss's own gradient there.
        dh_T : Array (B, n), for LSTM a pair, or None
            That of the state after them, from the steps that follow.

        Returns
        -------
        dx : Array (steps, B, m), or None for tokens
            The gradient by x.
        dh_0 : Array (B, n), for LSTM a pair
            By the state before them: the next dh_T.
        """
        check_finite("dh", dh)
        engine, dx = ENGINES[self.engine], []
        for own in engine.chunks(self.cell, dh):
            part = engine.part(self.cell, tape.engine, slice(t.start + own.start, t.start + own.stop))
            gradients = engine.backward(self.cell, weights, part, dh[own], dh_T)  # [bp:recompute/g]
            for name, gradient in gradients.weights.items():
                sums[name] += gradient  # [bp:recompute/sum]
            dx.append(gradients.x)
            dh_T = gradients.h0
        if dx[0] is None or len(dx) == 1:
            return dx[0], dh_T
        return library_of(dh).xp.concatenate(dx[::-1]), dh_T

    def retract(self, params: Params, buffers: NamedBuffers, deltas: Params) -> tuple[Params, NamedBuffers]:
        """Subtract the optimizer's deltas and update every U.

        On a device the numbers that the weights' updates have to know are read in one copy.

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
        updated: tuple[Params, NamedBuffers] = self.begin_retract(params, buffers, deltas).complete()
        return updated

    def begin_retract(self, params: Params, buffers: NamedBuffers, deltas: Params) -> Pending:
        """`retract` up to what has to be read, for layers whose updates are read together."""
        check_dicts(params=params, buffers=buffers)
        self._check_own_buffers(buffers)
        check_deltas(params, deltas)
        deltas = {name: _array(delta) for name, delta in deltas.items()}
        moved = {
            name: library_of(params[name], deltas[name]).xp.asarray(params[name] - deltas[name])
            for name in params
            if name.partition(".")[0] not in buffers
        }
        pending: dict[str, Pending] = {}
        for name, kept in self.constrained.items():
            with prefixed(f"{name}: "):
                pending[name] = kept.begin_retract(_own(params, name), _held(name, buffers), _own(deltas, name))

        def finish(updated: dict[str, tuple[Params, Buffers]]) -> tuple[Params, NamedBuffers]:
            new_params, new_buffers = dict(moved), ArraysByName(buffers)
            for name, (own, own_buffers) in updated.items():
                new_buffers[name] = dict(own_buffers)
                new_params |= {f"{name}.{key}": value for key, value in own.items()}
            for name in params:
                if name not in new_params:
                    raise ValueError(f"params holds {name!r}; expected what init gives alone")
            return ArraysByName({name: new_params[name] for name in params}), new_buffers

        return together(pending, finish)

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
        W = self._input_weight(params)
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
        return {name: kept.health(_held(name, buffers)) for name, kept in self.constrained.items()}

    def _check_state(self, argument: str, state: State, shape: tuple[int, int], like: Array) -> None:
        parts = (state,) if len(self.cell.states) == 1 else state
        if not isinstance(parts, tuple) or len(parts) != len(self.cell.states):
            raise TypeError(f"{argument} is {kind_of(state)}; expected the tuple ({', '.join(self.cell.states)})")
        for part in parts:
            library_of(part, like)
            check_array(argument, part, shape, like.dtype)
            check_finite(argument, part)


class _Held(dict[str, Any]):
    """What a parametrization reads, with the error for what it looks for in vain."""

    def __init__(self, entries: Mapping[str, Any], absent: str) -> None:
        super().__init__(entries)
        self._absent = absent

    def __missing__(self, name: str) -> Any:
        raise ValueError(f"{self._absent.format(name)}; expected all that init gives")


def _held(name: str, buffers: NamedBuffers) -> Buffers:
    """The buffers of one parametrized weight."""
    return _Held(buffers[name], f"buffers[{name!r}] holds no {{}}")


def _own(flat: Params, name: str) -> Params:
    """The entries of one parametrized weight, under the parametrization's own names."""
    entries = {key[len(name) + 1 :]: value for key, value in flat.items() if key.startswith(f"{name}.")}
    return _Held(entries, f"params holds no {name}.{{}}")


def check_dicts(**given: Any) -> None:
    """An error unless what `init` gives, and what goes with it, are dicts.

    Parameters
    ----------
    **given
        By the names that the error calls them.

    Raises
    ------
    TypeError
        One of them is none.
    """
    for argument, value in given.items():
        if not isinstance(value, Mapping):
            raise TypeError(f"{argument} is {kind_of(value)}; expected a dict, as init gives it")


def check_deltas(params: Params, deltas: Any) -> None:
    """An error unless there is a delta for each parameter, and no other.

    Parameters
    ----------
    params : dict of Array
        What moves.
    deltas : dict of Array
        What was given to be subtracted.

    Raises
    ------
    ValueError, TypeError
        Where names, shapes, dtypes or devices do not fit.
    """
    check_dicts(deltas=deltas)
    if absent := [name for name in params if name not in deltas]:
        raise ValueError(f"deltas holds no {', no '.join(absent)}; expected one for each parameter")
    for name in deltas:
        if name not in params:
            raise ValueError(f"deltas holds {name!r}{nearest(name, params)}; expected one for each parameter")
    for name, delta in deltas.items():
        check_array(f"delta of {name}", _array(delta), params[name].shape, params[name].dtype)


def _array(value: Any) -> Any:
    """What arithmetic makes of a 0-d array, a NumPy scalar, as an array again; anything else as it is."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def precision_of_most(arrays: Iterable[Any]) -> np.dtype[Any]:
    """float32 or float64, whichever more of the arrays have, so that an error names the one that has the other.

    Parameters
    ----------
    arrays : iterable of Array
        One of them has one of the two; what is no array does not count.

    Returns
    -------
    dtype
        That of real numbers.
    """
    found = Counter(own.real.dtype for own in arrays if is_array(own))
    return max((np.dtype(np.float32), np.dtype(np.float64)), key=lambda dtype: found[dtype])


def check_array(argument: str, array: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """An error unless it is an array of this shape and dtype.

    Parameters
    ----------
    argument : str
        What the error calls it.
    array : Array
        What was given.
    shape : tuple of int
        That it has to have.
    dtype : dtype
        That it has to have.

    Raises
    ------
    ValueError, TypeError
        It is none, or has others.
    """
    if not is_array(array):
        raise TypeError(f"{argument} is {kind_of(array)}; expected an array of shape {shape}")
    library_of(array)
    if array.shape != shape:
        raise ValueError(f"{argument} has shape {array.shape}; expected {shape}")
    if array.dtype != dtype:
        raise TypeError(f"{argument} is {array.dtype}; expected {dtype}")


def check_input(x: Array, input_size: int, like: Array) -> Array:
    """Refuse an input that does not fit.

    Parameters
    ----------
    x : Array (T, B, input_size), or integer tokens (T, B) below input_size
        The input.
    input_size : int
        m.
    like : Array
        Of the dtype and on the device that vectors must have.

    Returns
    -------
    Array
        x, or what `check_indices` makes of it.

    Raises
    ------
    ValueError, TypeError
        For another shape, dtype, device, or a value that is not finite or out of range.
    """
    if not is_array(x):
        raise TypeError(f"x is {kind_of(x)}; expected an array (T, B, {input_size}) or integer tokens (T, B)")
    library_of(x, like)
    if is_tokens(x):
        if x.ndim != 2 or 0 in x.shape:
            vectors = f"; vectors (T, B, {input_size}) are {like.dtype}" if x.ndim == 3 else ""
            raise ValueError(f"x holds tokens of shape {x.shape}; expected (T, B), both at least 1{vectors}")
        return check_indices("x", "token", x, input_size)
    if x.ndim != 3 or x.shape[2] != input_size or 0 in x.shape:
        raise ValueError(f"x has shape {x.shape}; expected (T, B, {input_size}), T and B at least 1")
    if x.dtype != like.dtype:
        raise TypeError(f"x is {x.dtype}; expected {like.dtype}, or integer tokens (T, B)")
    check_finite("x", x)
    return x
