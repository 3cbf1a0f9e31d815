"""Values that note what is computed of them as nodes of ONNX: a cell's own step, given these, makes its graph.

NumPy hands them its functions (`__array_ufunc__`, `__array_function__`), so that no equation is written a second time.
A node is named after the equations of the line that computes it, "ncgru:1/r Sigmoid".
"""

import linecache
import re
import traceback
from collections import Counter
from types import FunctionType
from typing import Any

import numpy as np

from ortho_ref.boundary import not_among
from ortho_ref.cells import Cell, State
from ortho_ref.converters.framework import UnsupportedError

#: NumPy's function -> ONNX's operator.
_OPERATORS: dict[Any, str] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.divide: "Div",
    np.negative: "Neg",
    np.absolute: "Abs",
    np.sign: "Sign",
    np.sqrt: "Sqrt",
    np.exp: "Exp",
    np.tanh: "Tanh",
    np.maximum: "Max",
    np.minimum: "Min",
    np.greater: "Greater",
    np.where: "Where",
}
_TAG = re.compile(r"\[(\w+:[^\]\s]+)\]")


class Nodes:
    """The nodes of one graph, and its constants; `prefix` is of the names of its values, dtype float32 or float64."""

    def __init__(self, prefix: str, dtype: Any) -> None:
        self.prefix, self.dtype = prefix, np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self._names: Counter[str] = Counter()

    def value(self, name: str, dtype: Any = None) -> "Traced":
        """What has this name already: an input, or a constant of this graph or of one around it."""
        return Traced(self, name, self.dtype if dtype is None else dtype)

    def constant(self, value: Any, dtype: Any = None) -> "Traced":
        """A constant, of the graph's precision unless given."""
        array = np.asarray(value, self.dtype if dtype is None else dtype)
        name = f"{self.prefix}constant {array.tolist()}"
        self.constants[name] = array
        return self.value(name, array.dtype)

    def add(self, operator: str, *inputs: Any, name: str = "", dtype: Any = None, **attributes: Any) -> "Traced":
        """A node of one output, of this name; unless given, of that of the equation.  Numbers become constants."""
        from onnx import helper

        own = [(a if isinstance(a, Traced) else self.constant(a)).name for a in inputs]
        if not name:
            title = f"{_tags()} {operator}".strip()
            self._names[title] += 1
            name = self.prefix + (title if self._names[title] == 1 else f"{title} {self._names[title]}")
        self.nodes.append(helper.make_node(operator, own, [name], name, **attributes))
        return self.value(name, dtype)

    def tensors(self) -> list[Any]:
        """The constants as ONNX has them."""
        from onnx import numpy_helper

        return [numpy_helper.from_array(np.array(a, order="C"), name) for name, a in self.constants.items()]


def _tags() -> str:
    """The equations of the innermost line on the stack that names any."""
    for frame, line in traceback.walk_stack(None):
        comment = linecache.getline(frame.f_code.co_filename, line).partition("  # ")[2]
        if found := _TAG.findall(comment):
            return " ".join(found)
    return ""


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """A real value of a graph; `turned` where it stands for the transpose of that."""

    def __init__(self, graph: Nodes, name: str, dtype: Any, turned: bool = False) -> None:
        self.graph, self.name, self.dtype, self.turned = graph, name, np.dtype(dtype), turned

    @property
    def T(self) -> "Traced":
        """The transpose, of which a product makes an attribute."""
        return Traced(self.graph, self.name, self.dtype, not self.turned)

    @property
    def real(self) -> "Traced":
        """Itself."""
        return self

    def __getitem__(self, rows: "Traced") -> "Traced":
        """The rows (B, n) that the tokens (B,) name, of W.T."""
        return self.graph.add("Transpose", self.graph.add("Gather", self, rows, axis=1), perm=[1, 0])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any) -> Any:
        if any(isinstance(a, TracedComplex | complex) for a in inputs):
            return _of_complex(ufunc, *inputs)
        if ufunc is np.matmul:
            return self.graph.add("Gemm", *inputs, transB=int(inputs[1].turned))
        return self.graph.add(_operator(ufunc), *inputs, dtype=bool if ufunc is np.greater else None)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        return self.graph.add(_operator(function), *inputs)


class TracedComplex(np.lib.mixins.NDArrayOperatorsMixin):
    """A complex value, by its parts; None for a part that is 0."""

    dtype = np.dtype(np.complex128)

    def __init__(self, real: Any, imag: Any) -> None:
        self.real, self.imag = real, imag

    @property
    def T(self) -> "TracedComplex":
        """The transpose."""
        return TracedComplex(self.real.T, self.imag.T)

    def __getitem__(self, rows: Traced) -> "TracedComplex":
        """As of each part."""
        return TracedComplex(self.real[rows], self.imag[rows])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any) -> Any:
        return _of_complex(ufunc, *inputs)


def _of_complex(ufunc: Any, *inputs: Any) -> Any:
    """Modulus, sum, product and matrix product, of which one may be real."""
    parts: list[tuple[Any, Any]] = [
        (own.real or None, own.imag or None) if isinstance(own, TracedComplex | complex) else (own, None)
        for own in inputs
    ]
    (a, b), (c, d) = parts[0], parts[-1]
    if ufunc is np.absolute:
        return np.sqrt(a * a + b * b)
    if ufunc is np.add:
        return TracedComplex(_sum(a, c), _sum(b, d))
    if ufunc not in (np.multiply, np.matmul):
        raise UnsupportedError(
            not_among("function of a complex state", ufunc.__name__, ("add", "multiply", "matmul"), str)
        )

    def times(x: Any, y: Any) -> Any:
        return None if x is None or y is None else ufunc(x, y)

    squared = times(b, d)
    return TracedComplex(_sum(times(a, c), None if squared is None else -squared), _sum(times(a, d), times(b, c)))


def _sum(a: Any, b: Any) -> Any:
    """a + b, where None is 0."""
    return b if a is None else a if b is None else a + b


def _operator(function: Any) -> str:
    if function not in _OPERATORS:
        allowed = [own.__name__ for own in _OPERATORS]
        raise UnsupportedError(not_among("function of the cell's step", function.__name__, allowed, str))
    return _OPERATORS[function]


def _sigmoid(a: Traced) -> Traced:
    return a.graph.add("Sigmoid", a)


def step(cell: Cell, weights: dict[str, Any], x: Traced, state: State) -> State:
    """The new state, by the cell's own `step_forward` with ONNX's operator for sigmoid; weights of one number stay."""
    written = type(cell).step_forward
    own = FunctionType(written.__code__, written.__globals__ | {"sigmoid": _sigmoid}, closure=written.__closure__)
    return own(cell, weights, x, state)[0]
