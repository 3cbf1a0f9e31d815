"""The door: what users hand in is checked here, once, where they call us; what stands behind it trusts its arguments.

An error is one line: the argument, what was given, what is allowed.  Shapes and dtypes come first, then values.
Whoever looks at a value on a device waits for it: `Trainer` checks a batch on the host, and goes in behind the door.
"""

import contextlib
import difflib
import math
import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ortho_ref.backend import Array, NotFiniteError, NotOrthogonalError, is_array, library_of, to_host, xp_of

if TYPE_CHECKING:
    from ortho_ref.cells.cell import Cell, State, Weights

# Words.


class _Repr(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        """Python writes no integer of more than 4,300 digits."""
        return super().repr_int(x, level) if x.bit_length() < 10_000 else f"an integer of {x.bit_length():,} bits"


_REPR = _Repr()
_REPR.maxstring = _REPR.maxother = 60
_REPR.maxlist = _REPR.maxdict = 4
_REPR.maxlevel = 2


def short(value: Any) -> str:
    """A value in a message: of a long one the beginning and the end."""
    return _REPR.repr(value)


def kind_of(value: object) -> str:
    """What an error calls a value of a wrong type: None, "an int", "a str"."""
    return "None" if value is None else with_article(type(value).__name__)


def with_article(name: str) -> str:
    """A name after its article, as it is spoken: "a list", "an Adam", "an LSTM", "an ndarray"."""
    spelled = name[:2].isupper() or name.startswith("nd")  # letter by letter
    return f"{'an' if name[:1].upper() in ('AEFHILMNORSX' if spelled else 'AEIO') else 'a'} {name}"


def nearest(name: object, names: Iterable[str]) -> str:
    """What a message says where one of the names is near: (did you mean 'X'?); else nothing."""
    if not isinstance(name, str) or name.isdigit():
        return ""
    every = list(names)
    same = [own for own in every if own.lower() == name.lower()]
    close = same or difflib.get_close_matches(name, every, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def not_among(argument: str, value: object, allowed: Iterable[Any], how: Callable[[Any], str] = repr) -> str:
    """What an error says of a value that is none of those allowed; `how` writes each (`str` on a command line)."""
    every = list(allowed)
    near = nearest(value, [name for name in every if isinstance(name, str)])
    return f"{argument} is {short(value)}{near}; allowed: {', '.join(map(how, every)) or 'none'}"


@contextlib.contextmanager
def named(name: str, separator: str = ": ") -> Iterator[None]:
    """Within, errors begin with the name of the layer or the weight that they are of."""
    try:
        yield
    except (NotFiniteError, NotOrthogonalError) as error:
        raise type(error)(f"{name}{separator}{error}") from error
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError):  # another kind may be made of other arguments
            raise
        raise type(error)(f"{name}: {error}") from error
    except KeyError as error:
        raise ValueError(f"{name} holds no {error.args[0]}; expected all that init gives") from error


# Single values: each raises ValueError or TypeError unless the argument of that name is what it should be.


def is_integer(value: object) -> bool:
    """True for Python's and NumPy's integers, False for bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_integer(argument: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """An integer from least to most."""
    if not is_integer(value) or value < least:
        refuse_dtype(argument, value, f"an integer >= {least}")
        raise ValueError(f"{argument} is {short(value)}; allowed: an integer >= {least}")
    if most is not None and value > most:
        raise ValueError(f"{argument} is {value!r}; allowed: at most {most:,}")


def check_switch(argument: str, value: Any) -> None:
    """True or False; "false" is neither."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{argument} is {short(value)}; allowed: True, False")


def check_choice(argument: str, value: Any, allowed: Collection[str]) -> None:
    """One of the names."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(not_among(argument, value, allowed))


def check_number(argument: str, value: Any, allowed: Callable[[Any], Any], what: str) -> None:
    """A finite number, no bool, for which allowed(value) holds; `what` says so in words."""
    try:
        good = not isinstance(value, bool | np.bool_) and math.isfinite(value) and bool(allowed(value))
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise ValueError(f"{argument} is {short(value)}; allowed: {what}")


def check_has(argument: str, value: Any, method: str, what: str) -> None:
    """An object, no class, of the kind that has this method; `what` says which kind."""
    if isinstance(value, type):
        raise TypeError(f"{argument} is the class {value.__name__}; allowed: {what}, made of it: {value.__name__}(...)")
    if not hasattr(value, method):
        given = short(value) if value is None or isinstance(value, str | int | float) else kind_of(value)
        raise TypeError(f"{argument} is {given}; allowed: {what}")


def generator(rng: Any) -> np.random.Generator:
    """The generator, as it is; TypeError for a seed, a dtype, or anything else."""
    if isinstance(rng, np.random.Generator):
        return rng
    made = "numpy.random.default_rng(0)"
    if is_integer(rng):
        given, made = f"{rng!r}, a seed", f"numpy.random.default_rng({rng})"
    else:
        refuse_dtype("rng", rng, f"a numpy.random.Generator, as {made}")
        given = repr(rng) if rng is None or isinstance(rng, bool) else kind_of(rng)
    raise TypeError(f"rng is {given}; allowed: a numpy.random.Generator, as {made}")


def precision(dtype: Any) -> np.dtype[Any]:
    """float32 or float64, from the dtype, its name or its class; ValueError for any other."""
    own = _dtype_of(dtype)
    if own not in (np.float32, np.float64):
        raise ValueError(f"dtype is {short(dtype) if own is None else own}; allowed: float32, float64")
    return own


def refuse_dtype(argument: str, value: Any, what: str) -> None:
    """TypeError where a dtype stands in the place of another argument."""
    if (own := _dtype_of(value)) is not None:
        raise TypeError(f"{argument} is {own}, a dtype; allowed: {what}; a dtype goes by its name, dtype={own}")


def _dtype_of(value: Any) -> np.dtype[Any] | None:
    """Of a dtype, its name or its class; None of all else, of which NumPy reads None, numbers, [] and any class too."""
    if not isinstance(value, np.dtype | str | type):
        return None
    try:
        own = np.dtype(value)
    except (TypeError, ValueError):
        return None
    return None if own.kind == "O" else own


# Arrays.


def check_dicts(**given: Any) -> None:
    """Each of these arguments is a dict, as what `init` gives is."""
    for argument, value in given.items():
        if not isinstance(value, Mapping):
            raise TypeError(f"{argument} is {kind_of(value)}; expected a dict, as init gives it")


def check_array(argument: str, array: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """An array of this shape and dtype."""
    if not is_array(array):
        raise TypeError(f"{argument} is {kind_of(array)}; expected an array of shape {shape}")
    library_of(array)
    if array.shape != shape:
        raise ValueError(f"{argument} has shape {array.shape}; expected {shape}")
    if array.dtype != dtype:
        raise TypeError(f"{argument} is {array.dtype}; expected {dtype}")


def check_finite(argument: str, array: Array) -> None:
    """Every entry is finite."""
    if not bool(xp_of(array).isfinite(array).all()):
        raise NotFiniteError(f"{argument} has an entry that is not finite")


def check_indices(argument: str, kind: str, values: Array, stop: int) -> None:
    """Integers from 0 to stop - 1; the error calls one of them a `kind`, "token"."""
    low, high = read(values.min(), values.max())
    if low < 0 or high >= stop:
        raise ValueError(f"{argument} holds {kind} {int(low if low < 0 else high)}; allowed: 0 to {stop - 1}")


def as_array(value: Any) -> Any:
    """What arithmetic makes of a 0-d array, a NumPy scalar, as an array again; anything else as it is."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def read(*numbers: Array) -> list[float]:
    """0-d arrays as Python floats; those of a device in one copy."""
    library = library_of(*numbers)
    if library.device == "cpu":
        return [float(number) for number in numbers]
    there = library.xp.stack([number.astype("float64", copy=False) for number in numbers])
    return list(to_host(there).tolist())


# A cell over a sequence.


def is_tokens(x: Array) -> bool:
    """True when x holds integer tokens instead of input vectors."""
    return x.dtype.kind in "iu"


def check_cell(cell: Any) -> None:
    """A cell, and no layer."""
    check_has("cell", cell, "step_forward", "a cell, as cells.by_name('gru_reset_before') or layer.cell")


def check_weights(cell: "Cell", weights: Any) -> Array:
    """All weights of a cell, of one size, dtype and device; its first input weight W (n, m), which tells them."""
    if not isinstance(weights, Mapping):
        raise TypeError(f"weights is {kind_of(weights)}; expected a dict, as the cell's init gives it")
    names = cell.shapes(1, 1)
    _check_names("weights", weights, names, f"the weights are {', '.join(names)}")
    return check_dense(cell, dict(weights))


def _check_names(argument: str, given: Mapping[str, Any], names: Collection[str], expected: str) -> None:
    """All of these names, and no other; `expected` says so in words."""
    if absent := [name for name in names if name not in given]:
        raise ValueError(f"{argument} holds no {', no '.join(absent)}; {expected}")
    for name in given:
        if name not in names:
            raise ValueError(f"{argument} holds {name!r}{nearest(name, names)}; {expected}")


def check_dense(cell: "Cell", weights: "Weights") -> Array:
    """As `check_weights`, of weights whose names are known to be right."""
    arrays = {name: as_array(own) for name, own in weights.items()}
    library_of(*arrays.values())
    W = arrays[cell.input_weights[0]]
    if not (is_array(W) and W.ndim == 2 and _fits(cell, arrays, W.shape[1], W.shape[0], W.real.dtype)):
        m, n, dtype = _most(cell, arrays)
        for name, shape in cell.shapes(m, n).items():
            check_array(name, arrays[name], shape, _dtype(cell, shape, dtype))
    return W


def _fits(cell: "Cell", arrays: "Weights", m: int, n: int, dtype: Any) -> bool:
    return dtype in (np.float32, np.float64) and all(
        is_array(arrays[name]) and arrays[name].shape == shape and arrays[name].dtype == _dtype(cell, shape, dtype)
        for name, shape in cell.shapes(m, n).items()
    )


def _dtype(cell: "Cell", shape: tuple[int, ...], real: Any) -> np.dtype[Any]:
    """That of a weight: matrices of a complex cell are complex, biases real."""
    return np.result_type(real, np.complex64) if cell.complex and len(shape) == 2 else np.dtype(real)


def _most(cell: "Cell", arrays: "Weights") -> tuple[int, int, np.dtype[Any]]:
    """m, n and the real dtype that most weights have, so that an error names the one that does not fit."""
    arrays = {name: own for name, own in arrays.items() if is_array(own)}
    rows = Counter(own.shape[0] for own in arrays.values() if own.ndim)
    n = rows.most_common(1)[0][0] if rows else 1
    inputs = [arrays[name].shape for name in cell.input_weights if name in arrays and arrays[name].ndim == 2]
    widths = Counter(shape[1] if shape[0] == n else shape[0] for shape in inputs)
    m = widths.most_common(1)[0][0] if widths else 1
    return max(m, 1), max(n, 1), precision_of_most(arrays.values())


def precision_of_most(arrays: Iterable[Any]) -> np.dtype[Any]:
    """float32 or float64, whichever more of the arrays have; TypeError where none has either."""
    dtypes = [own.real.dtype for own in arrays if is_array(own)]
    found = Counter(own for own in dtypes if own in (np.float32, np.float64))
    if not found:
        given = ", ".join(sorted({own.name for own in dtypes})) or "no arrays"
        raise TypeError(f"the weights are {given}; allowed: float32, float64")
    return found.most_common(1)[0][0]


def check_input(x: Any, input_size: int, like: Array) -> None:
    """x (T, B, input_size) of the dtype of `like` and beside it, finite; or integer tokens (T, B) below input_size."""
    if not is_array(x):
        raise TypeError(f"x is {kind_of(x)}; expected an array (T, B, {input_size}) or integer tokens (T, B)")
    library_of(x, like)
    if is_tokens(x):
        if x.ndim != 2 or 0 in x.shape:
            vectors = f"; vectors (T, B, {input_size}) are {like.dtype}" if x.ndim == 3 else ""
            raise ValueError(f"x holds tokens of shape {x.shape}; expected (T, B), both at least 1{vectors}")
        check_indices("x", "token", x, input_size)
        return
    if x.ndim != 3 or x.shape[2] != input_size or 0 in x.shape:
        raise ValueError(f"x has shape {x.shape}; expected (T, B, {input_size}), T and B at least 1")
    if x.dtype != like.dtype:
        raise TypeError(f"x is {x.dtype}; expected {like.dtype}, or integer tokens (T, B)")
    check_finite("x", x)


def check_state(argument: str, cell: "Cell", state: "State", batch: int, like: Array) -> None:
    """A state of the cell, (B, n) each, of the dtype of its weight `like` (n, m) and beside it, finite."""
    parts = (state,) if len(cell.states) == 1 else state
    if not isinstance(parts, tuple) or len(parts) != len(cell.states):
        raise TypeError(f"{argument} is {kind_of(state)}; expected the tuple ({', '.join(cell.states)})")
    for part in parts:
        library_of(part, like)
        check_array(argument, part, (batch, len(like)), like.dtype)
        check_finite(argument, part)


def check_forward(cell: Any, weights: Any, x: Any, h0: Any) -> None:
    """What an engine's `forward` takes."""
    check_cell(cell)
    W = check_weights(cell, weights)
    check_input(x, W.shape[1], W.real)
    if h0 is not None:
        check_state("h0", cell, h0, x.shape[1], W)


def check_backward(cell: Any, weights: Any, tape: Any, kind: type[Any], dh: Any, dh_T: Any) -> None:
    """What an engine's `backward` takes; `kind` is its tape's class."""
    check_cell(cell)
    check_cotangents(cell, check_weights(cell, weights), tape, kind, dh, dh_T)


def check_cotangents(cell: "Cell", W: Array, tape: Any, kind: type[Any], dh: Any, dh_T: Any) -> None:
    """A tape of this cell and size, dh (T, B, n) and dh_T."""
    if not isinstance(tape, kind):
        raise TypeError(f"tape is {kind_of(tape)}; expected what forward returned")
    T, B, n = tape.shape
    if (tape.cell, n) != (cell, len(W)):
        raise ValueError(f"tape is of {tape.cell} with n = {n}; this is {cell} with n = {len(W)}")
    library_of(W, dh)
    check_array("dh", dh, (T, B, n), W.dtype)
    check_finite("dh", dh)
    if dh_T is not None:
        check_state("dh_T", cell, dh_T, B, W)


def check_deltas(params: Mapping[str, Array], deltas: Any) -> None:
    """A delta for each parameter, of its shape and dtype, and no other."""
    check_dicts(deltas=deltas)
    _check_names("deltas", deltas, params, "expected one for each parameter")
    for name, delta in deltas.items():
        check_array(f"delta of {name}", as_array(delta), params[name].shape, params[name].dtype)
