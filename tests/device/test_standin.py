"""The stand-in for a GPU array library refuses what CuPy refuses and computes what NumPy computes."""

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from ortho_ref import activations, backend
from tests.device import standin
from tests.device.standin import NAMES, DeviceArray, linalg, xp

HOST = np.arange(6.0).reshape(2, 3)
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.ipow]


@pytest.fixture
def x() -> DeviceArray:
    return xp.asarray(HOST)


def same(result: Any, expected: Any) -> None:
    """`result` is on the device and equals `expected` in dtype, shape and value."""
    assert type(result) is DeviceArray
    expected = np.asarray(expected)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result.get(), expected)


# Mixing host and device


@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS, *IN_PLACE, operator.matmul, divmod])
@pytest.mark.parametrize("host", [np.ones((3, 3)), np.ones(3), np.array(2.0)], ids=["2-d", "1-d", "0-d"])
def test_operators_refuse_host_arrays(x: DeviceArray, function: Callable[..., Any], host: np.ndarray) -> None:
    with pytest.raises(TypeError):
        function(x, host)
    with pytest.raises(TypeError):
        function(host, x)
    same(x, HOST)


@pytest.mark.parametrize(
    "implicit",
    [
        np.asarray,
        np.array,
        np.tanh,
        np.sum,
        np.linalg.norm,
        scipy.linalg.lu_factor,
        lambda x: np.array([x, x]),
        lambda x: np.concatenate([x, x]),
        lambda x: np.add(HOST, x),
        lambda x: np.add(HOST, HOST, out=x),
        lambda x: HOST[x],
        lambda x: HOST.copy().__setitem__(slice(None), x),
        lambda x: x[np.array([0, 1])],
        lambda x: x[0, np.array(1)],
        lambda x: x.__setitem__(..., HOST),
        lambda x: x.__setitem__(0, np.array(1.0)),
        lambda x: x.__setitem__(0, [1.0, 2.0, 3.0]),
        lambda x: x.__setitem__(np.array([0]), 1.0),
        lambda x: xp.tanh(HOST),
        lambda x: xp.add(x, HOST),
        lambda x: xp.add(x, [1.0, 2.0, 3.0]),
        lambda x: xp.add(x, x, out=HOST.copy()),
        lambda x: xp.where(HOST > 0, x, x),
        lambda x: xp.where(True, x, x),
        lambda x: xp.where(x > 0, HOST, x),
        lambda x: xp.sum(HOST),
        lambda x: xp.sum([1.0, 2.0]),
        lambda x: xp.sum(a=HOST),
        lambda x: xp.concatenate([x, HOST]),
        lambda x: xp.concatenate(((x, HOST),)),
        lambda x: xp.array([x, HOST]),
        lambda x: xp.einsum("ij,kj", x, HOST),
        lambda x: xp.dot(x, HOST.T),
        lambda x: xp.add.at(HOST.copy(), 0, x),
        lambda x: xp.add.reduce(HOST),
        lambda x: x.dot(HOST.T),
        lambda x: x.sum(axis=0, out=np.zeros(3)),
        lambda x: xp.linalg.norm(HOST),
        lambda x: xp.fft.fft(HOST),
        lambda x: linalg.lu_solve((x, HOST), x),
        lambda x: linalg.solve_triangular(np.eye(2), x),
        lambda x: operator.index(x[0, 0]),
        lambda x: range(x[0, 0]),
        lambda x: HOST[: x[0, 0]],
        lambda x: x + None,
        lambda x: x * [1.0, 2.0, 3.0],
    ],
)
def test_no_implicit_copies(x: DeviceArray, implicit: Callable[[DeviceArray], Any]) -> None:
    with pytest.raises(TypeError):
        implicit(x)
    same(x, HOST)


def test_in_place_on_a_host_array(x: DeviceArray) -> None:
    host = HOST.copy()
    with pytest.raises(TypeError):
        host += x


def test_not_a_numpy_array(x: DeviceArray) -> None:
    assert not isinstance(x, np.ndarray)
    assert not hasattr(x, "__array_interface__")
    with pytest.raises(TypeError):
        hash(x)


def test_transfers_never_share_memory(x: DeviceArray) -> None:
    host = HOST.copy()
    for move in (xp.asarray, xp.array, standin.LIBRARY.from_host):
        device = move(host)
        device[...] = -1.0
        device.get()[...] = -2.0
        assert (host == HOST).all()
        same(device, np.full_like(HOST, -1.0))
    x.set(np.zeros((2, 3)))
    same(x, np.zeros((2, 3)))
    assert xp.asarray(x) is x
    same(xp.asarray([x[0], x[1]]), np.zeros((2, 3)))
    same(xp.asarray([1, 2], dtype=xp.float32), np.array([1, 2], np.float32))
    with pytest.raises(ValueError, match="dtype"):
        xp.asarray(np.array(["a"]))


# Names and keywords


def test_names_come_from_cupy() -> None:
    assert standin.VERSION.startswith("14.")
    inherited = {*dir(object), "__annotations__", "__getattr__"}
    ours = {name for name in set(dir(DeviceArray)) - inherited if not name.startswith("_host")}
    assert ours <= NAMES["cupy.ndarray"].keys()


@pytest.mark.parametrize("name", ["errstate", "block", "vecdot", "geomspace", "insert", "longdouble", "sigmoid"])
def test_names_that_cupy_lacks(name: str) -> None:
    with pytest.raises(AttributeError, match=f"CuPy .* has no cupy.{name}"):
        getattr(xp, name)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [(xp.linalg, "multi_dot"), (xp.linalg, "outer"), (xp.fft, "sin"), (xp.random, "Generator"), (linalg, "solve")],
)
def test_names_that_cupys_modules_lack(namespace: Any, name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(namespace, name)


def test_attributes_that_cupy_lacks(x: DeviceArray) -> None:
    for name in ("itemset", "resize", "setflags", "newaxis", "tostring", "__index__", "__imatmul__", "__contains__"):
        with pytest.raises(AttributeError):
            getattr(x, name)
    with pytest.raises(AttributeError):
        x.note = 1  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError):
        x.toDlpack()
    with pytest.raises(NotImplementedError):
        xp.RawKernel  # noqa: B018
    with pytest.raises(AttributeError):
        x.flags.writeable  # noqa: B018


@pytest.mark.parametrize(
    "call",
    [
        lambda x: xp.exp(x, where=x > 0),
        lambda x: xp.add(x, x, order="C"),
        lambda x: xp.sum(x, where=x > 0),
        lambda x: xp.sum(x, initial=0),
        lambda x: xp.max(x, initial=0),
        lambda x: xp.mean(x, None, None, None, False, 0),
        lambda x: xp.einsum("ij->i", x, out=x[:, 0]),
        lambda x: xp.full_like(x, 0, subok2=False),
        lambda x: xp.random.normal(generator=1),
        lambda x: x.sum(initial=0),
        lambda x: x.item(0),
        lambda x: x.copy(subok=True),
        lambda x: linalg.lu_factor(x @ x.T, True, True, True),
        lambda x: linalg.solve_triangular(x @ x.T, x, check="no"),
        lambda x: xp.asarray(x, like=x),
        lambda x: xp.array(x, like=x),
    ],
)
def test_parameters_that_cupy_lacks(x: DeviceArray, call: Callable[[DeviceArray], Any]) -> None:
    with pytest.raises(TypeError):
        call(x)


def test_ufunc_methods(x: DeviceArray) -> None:
    xp.add.at(x, (xp.asarray([0, 0]), xp.asarray([1, 1])), 1.0)
    same(x, [[0, 3, 2], [3, 4, 5.0]])
    same(xp.add.reduce(x, axis=1), [5, 12.0])
    same(xp.add.reduceat(x[0], xp.asarray([0, 2])), [3, 2.0])
    same(xp.multiply.outer(x[0], x[1, :2]), np.multiply.outer([0, 3, 2.0], [3, 4.0]))
    for missing in ("reduce", "accumulate", "reduceat"):
        with pytest.raises(NotImplementedError):
            getattr(xp.maximum, missing)
    with pytest.raises(NotImplementedError):
        xp.multiply.at  # noqa: B018
    with pytest.raises(TypeError, match="complex"):
        xp.add.at(x.astype(complex), 0, 1.0)


def test_positional_parameters_are_in_cupys_order(x: DeviceArray) -> None:
    out = xp.zeros(2, dtype=xp.int64)
    x.argmax(1, out)
    same(out, [2, 2])
    with pytest.raises(TypeError):
        xp.argmax(x, 1, None, out)  # CuPy's third parameter is dtype, which NumPy lacks
    same(xp.argmax(x, 1, out=out), [2, 2])


# Values


def test_every_result_is_an_array(x: DeviceArray) -> None:
    same(x[1, 2], 5.0)
    same(x[0].sum(), 3.0)
    same(xp.sum(x), 15.0)
    same(xp.exp(0.0), 1.0)
    same(xp.linalg.norm(x[0]), np.sqrt(5.0))
    same(xp.vdot(x, x), 55.0)
    same(xp.count_nonzero(x), 5)
    same(xp.allclose(x, x), True)
    same(xp.array_equal(x, -x), False)
    same(x.max() > 4, True)
    same(x[0, 0] + 1, 1.0)
    sign, logdet = xp.linalg.slogdet(x @ x.T)
    same(sign, 1.0)
    assert type(xp.linalg.slogdet(x @ x.T)) is tuple
    assert logdet.shape == ()
    assert [type(row) for row in x] == [DeviceArray, DeviceArray]
    assert len(x) == 2
    assert xp.result_type(x, xp.complex64) == np.complex128
    assert (xp.float32, xp.pi, xp.newaxis, xp.finfo(x.dtype).eps) == (np.float32, np.pi, None, np.finfo(float).eps)
    assert isinstance(x, xp.ndarray)


@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
@pytest.mark.parametrize("other", [2, 0.5, np.float32(1.5), True, HOST + 1], ids=repr)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_operators(function: Callable[..., Any], other: Any) -> None:
    host = HOST.astype(np.float32)
    x, device = xp.asarray(host), xp.asarray(other) if isinstance(other, np.ndarray) else other
    on_host = np.power if function is operator.pow else function  # NumPy 2.0's own ** 0.5 is a square root
    same(function(x, device), on_host(host, other))
    same(function(device, x), on_host(other, host))


def test_integer_and_unary_operators(x: DeviceArray) -> None:
    k, host = xp.arange(6), np.arange(6)
    for function in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        same(function(k, 1), function(host, 1))
        same(function(1, k), function(1, host))
    same(~(x > 2), ~(HOST > 2))
    same(-x, -HOST)
    same(abs(-x), HOST)
    same(x @ x.T, HOST @ HOST.T)
    quotient, remainder = divmod(k, 4)
    same(quotient, host // 4)
    same(remainder, host % 4)
    z = x + 1j * x[::-1]
    same(z.conj().real, HOST)
    same(z.imag, HOST[::-1])
    z.imag = 0.0
    same(z, HOST + 0j)


@pytest.mark.parametrize("function", IN_PLACE)
def test_in_place(function: Callable[..., Any]) -> None:
    x, expected = xp.asarray(HOST), HOST.copy()
    row = x[1]
    assert function(row, 2.0) is row
    expected[1] = function(expected[1], 2.0)
    same(x, expected)
    with pytest.raises(TypeError):
        x.astype(int).__itruediv__(2)


def test_matmul_has_no_in_place_form(x: DeviceArray) -> None:
    square = before = x @ x.T
    square @= square  # rebinds, as CuPy does
    assert square is not before


def test_out(x: DeviceArray) -> None:
    out = xp.empty((2, 3))
    assert xp.isnan(out).all()  # uninitialized memory is never mistaken for zeros
    assert xp.add(x, 1.0, out=out) is out
    same(out, HOST + 1)
    xp.multiply(out[0], 2.0, out[0])
    same(out[0], 2 * (HOST[0] + 1))
    square = xp.empty((2, 2))
    assert xp.matmul(x, x.T, out=square) is square
    same(square, HOST @ HOST.T)
    for function in (xp.matmul, xp.dot):
        with pytest.raises(ValueError, match="overlaps"):
            function(square, square, out=square)
    with pytest.raises(TypeError):
        xp.add(x, 1j, out=out)


def test_views_share_memory(x: DeviceArray) -> None:
    for view, index in [
        (x[0], (0, 0)),
        (x[..., 0], (0, 0)),
        (x[0, 0], (0, 0)),
        (x[:, None], (0, 0)),
        (x.T, (0, 0)),
        (x.reshape(3, 2), (0, 0)),
        (x.ravel(), (0, 0)),
        (xp.reshape(x, -1), (0, 0)),
        (xp.swapaxes(x, 0, 1), (0, 0)),
        (x.real, (0, 0)),
    ]:
        before = float(x[index])
        view += 1.0
        assert float(x[index]) == before + 1.0
        assert xp.shares_memory(view, x)
    for copied in (x.copy(), x[xp.asarray([0, 1])], x[[0, 1]], x[x > -1], copy.copy(x), copy.deepcopy(x), +x):
        assert not xp.shares_memory(copied, x)


def test_views_of_another_type() -> None:
    x = xp.ones(3, dtype=xp.float32)
    bits = x.view(xp.int32)
    same(bits, np.ones(3, np.float32).view(np.int32))
    bits[0] = 0
    same(x, np.array([0, 1, 1], np.float32))
    same((x + 1j * x).view(xp.float32), np.array([0, 0, 1, 1, 1, 1], np.float32))


def test_assignment(x: DeviceArray) -> None:
    host = HOST.copy()
    for key, device_key in [((0, 1), (0, 1)), (slice(1, 2), slice(1, 2)), (np.array([1]), xp.asarray([1]))]:
        host[key], x[device_key] = 7.0, 7.0
        same(x, host)
    host[host > 5], x[x > 5] = -1.0, -1.0
    x[0], host[0] = x[1], host[1]
    same(x, host)
    with pytest.raises(IndexError, match="one boolean"):
        x[x[:, 0] > 0, x[0] > 0]


def test_transfers_are_counted(x: DeviceArray) -> None:
    one = x[1, 1]

    def counted(function: Callable[[], Any]) -> int:
        before = standin.transfers
        function()
        return standin.transfers - before

    for reading in (one.get, one.item, lambda: float(one), lambda: int(one), lambda: bool(one), lambda: complex(one)):
        assert counted(reading) == 1
    assert one.item() == float(one) == int(one) == 4
    assert one.reshape(1, 1).item() == 4
    for waiting in (x.tolist, lambda: x[x > 0], lambda: xp.nonzero(x), lambda: xp.where(x), lambda: xp.asnumpy(x)):
        assert counted(waiting) == 1
    for going_on in (lambda: x @ x.T, x.sum, lambda: xp.where(x > 0, x, 0), lambda: x[0], lambda: x[[0, 1]]):
        assert counted(going_on) == 0
    before = standin.waits.copy()
    linalg.lu_factor(x[:2, :2])
    assert standin.waits - before == {"lu_factor": 1}
    with pytest.raises(ValueError, match="size 1"):
        x.item()
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)


def test_uploads_are_counted(x: DeviceArray) -> None:
    def counted(function: Callable[[], Any]) -> int:
        before = standin.uploads
        function()
        return standin.uploads - before

    host = np.ones(x.shape)
    for copying in (lambda: xp.asarray(host), lambda: xp.array(0.5), lambda: xp.array([1, 2]), lambda: x.set(host)):
        assert counted(copying) == 1
    for there in (lambda: xp.asarray(x), lambda: xp.array(x), lambda: xp.full((), 0.5), lambda: x + 1, lambda: x.sum()):
        assert counted(there) == 0


# SciPy


def test_linear_algebra() -> None:
    host = np.array([[2.0, 1.0], [0.5, 3.0]])
    a = xp.asarray(host)
    factors = linalg.lu_factor(a)
    assert [type(part) for part in factors] == [DeviceArray, DeviceArray]
    same(linalg.lu_solve(factors, a, trans=1), scipy.linalg.lu_solve(scipy.linalg.lu_factor(host), host, trans=1))
    same(linalg.solve_triangular(a, a, lower=True), scipy.linalg.solve_triangular(host, host, lower=True))
    same(linalg.expm(a), scipy.linalg.expm(host))
    with pytest.raises(ValueError, match="imaginary"):
        linalg.lu_solve(factors, a + 1j)
    with pytest.raises(ValueError, match="one matrix"):
        linalg.lu_factor(a[None])
    with pytest.raises(ValueError, match="floats"):
        linalg.lu_factor(a.astype(int))


def test_sums_of_segments() -> None:
    """Of rows in an order, also of none; one launch."""
    rows, order, first = HOST.repeat(2, axis=0), np.array([3, 0, 2, 1]), np.array([0, 3, 3, 4])
    before = standin.launches.copy()
    sums = standin.LIBRARY.sum_segments(xp.asarray(rows), xp.asarray(order), xp.asarray(first))
    assert standin.launches - before == {"sum_segments": 1}
    same(sums, np.stack([rows[3] + rows[0] + rows[2], 0 * rows[0], rows[1]]))


# The backend


def test_backend(x: DeviceArray) -> None:
    assert backend.is_array(x)
    assert backend.xp_of(x, 1.0, None) is xp
    with pytest.raises(TypeError, match="different libraries"):
        backend.xp_of(x, HOST)
    moved = backend.to_device({"a": HOST, "b": [HOST, 1]}, "stand-in")
    same(moved["b"][0], HOST)
    assert backend.to_device(moved, "stand-in")["a"] is moved["a"]
    np.testing.assert_array_equal(backend.to_host(moved)["a"], HOST)


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_activations(name: str, dtype: Any) -> None:
    if name == "relu" and dtype is np.complex128:
        return
    phi, rng = activations.activation(name), np.random.default_rng(0)
    a, dy, b = (rng.normal(size=(4, 3)).astype(dtype), rng.normal(size=(4, 3)).astype(dtype), np.ones(3, np.float32))
    y = phi.value(a, b)
    da, db = phi.pullback(dy, a, b, y)
    device = backend.to_device((a, b, dy), "stand-in")
    y_device = phi.value(*device[:2])
    da_device, db_device = phi.pullback(device[2], *device[:2], y_device)
    for one, other in [(y_device, y), (da_device, da), (db_device, db)]:
        same(one, other)


# Fused functions and launches


def fused(function: Callable[..., Any], *arguments: Any) -> None:
    xp.fuse(function)(*arguments)


def test_a_fused_function_writes_into_its_arguments() -> None:
    """One launch; what is written is read again as it is then; broadcast operands, Python scalars, float32."""

    def stage(y: Any, x: Any, b: Any, z: Any) -> None:
        y[...] = xp.tanh(x + b) * 0.5 + 1
        z[...] = xp.sign(y) * xp.maximum(xp.abs(2 - y) / 4 - x, 0)

    x, b = (xp.asarray(np.linspace(-1, 1, n, dtype=np.float32)) for n in (6, 3))
    y, z = xp.empty((2, 3), np.float32), xp.empty((2, 3), np.float32)
    before = standin.launches.copy()
    fused(stage, y, x.reshape(2, 3), b, z)
    assert standin.launches - before == {"fused": 1}
    expected = np.tanh(x.get().reshape(2, 3) + b.get()) * np.float32(0.5) + 1
    np.testing.assert_array_equal(y.get(), expected)
    np.testing.assert_array_equal(z.get(), np.maximum(np.abs(2 - expected) / 4 - x.get().reshape(2, 3), 0))


def _set(y: Any, value: Any) -> None:
    y[...] = value


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (lambda y, x, b: _set(y, x @ x), "unsupported operand"),
        (lambda y, x, b: _set(y, x.sum()), "no attribute 'sum'"),
        (lambda y, x, b: _set(y, x.shape[0]), "no attribute 'shape'"),
        (lambda y, x, b: _set(y, xp.matmul(x, x)), "element-wise functions only"),
        (lambda y, x, b: _set(y, xp.sum(x)), "element-wise functions only"),
        (lambda y, x, b: _set(y, xp.where(x, x, y)), "not <class 'tests.device.standin.FusedVariable'>"),
        (lambda y, x, b: _set(y, np.tanh(x)), "NotImplemented|does not support ufuncs"),
        (lambda y, x, b: xp.tanh(x, out=y), "no `out`"),
        (lambda y, x, b: xp.add(x, x, y), "no `out`"),
        (lambda y, x, b: y.__setitem__(0, x), "whole arrays"),
        (lambda y, x, b: _set(y, x if x else y), "cannot branch"),
        (lambda y, x, b: _set(y, x * xp.ones((2, 3))), "DeviceArray in a fused function"),
        (lambda y, x, b: _set(y, x * np.float64(2)), "float64 in a fused function"),
        (lambda y, x, b: _set(y, xp.add(x, np.ones(3))), "ndarray in a fused function"),
        (lambda y, x, b: _set(b, b * 2), "argument 2 .* not of the whole shape"),
        (lambda y, x, b: x * y, "return nothing"),
        (lambda y, x, b: None, "writes nothing"),
    ],
)
def test_what_a_fused_function_may_not_do(stage: Callable[..., Any], message: str) -> None:
    x, y, b = xp.ones((2, 3)), xp.ones((2, 3)), xp.ones(3)
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        fused(stage, y, x, b)


def test_what_a_fused_function_may_not_be_given() -> None:
    """Another dtype than it writes; an argument that it writes, under another name; shapes that do not broadcast."""
    x = xp.ones((3, 3))
    with pytest.raises(TypeError, match="float64 written into float32"):
        fused(_set, xp.ones((3, 3), np.float32), x)
    with pytest.raises(ValueError, match="shares memory with another"):
        fused(_set, x[1:], x[:-1])
    with pytest.raises(ValueError, match="cannot be broadcast"):
        fused(_set, x, xp.ones(2))
    with pytest.raises(TypeError, match="a NumPy array where a device array is needed"):
        fused(_set, x, np.ones((3, 3)))
    fused(_set, x[:1], x[1:2])


def test_launches_are_counted() -> None:
    """What computes or copies is one; views, uninitialized arrays and attributes none."""
    x = xp.ones((2, 3))

    def counted(call: Callable[[], Any]) -> dict[str, int]:
        before = standin.launches.copy()
        call()
        return dict(standin.launches - before)

    for none in (lambda: x[0], lambda: x.T, lambda: x.reshape(3, 2), lambda: xp.empty(3), lambda: xp.empty_like(x)):
        assert counted(none) == {}
    for none in (lambda: xp.broadcast_to(x, (4, 2, 3)), lambda: xp.ascontiguousarray(x), lambda: x.shape, x.view):
        assert counted(none) == {}
    assert counted(lambda: xp.add(x, x, out=x)) == {"add": 1}
    assert counted(lambda: x * 2 + x) == {"multiply": 1, "add": 1}
    assert counted(lambda: 1 - x) == {"subtract": 1}
    assert counted(lambda: -x) == {"negative": 1}
    assert counted(lambda: x.__imul__(2)) == {"multiply": 1}
    assert counted(lambda: x.__setitem__(0, 1)) == {"copy": 1}
    assert counted(lambda: xp.array(x)) == {"copy": 1}
    assert counted(lambda: xp.matmul(x, x.T)) == {"matmul": 1}
    assert counted(lambda: x[:, :2] @ x[:, :2]) == {"matmul": 1, "copy": 2}
    stacked = xp.ones((4, 3, 2))
    assert counted(lambda: xp.matmul(x, stacked)) == {"matmul": 1, "pointers": 3}
    assert counted(lambda: xp.matmul(stacked, stacked.swapaxes(1, 2))) == {"matmul": 1, "copy": 1}
    with pytest.raises(ValueError, match="C-contiguous"):
        xp.dot(x, x.T, out=xp.empty((2, 3))[:, :2])
    assert counted(lambda: xp.sum(x, axis=0, out=xp.empty(3))) == {"sum": 1}
    assert counted(lambda: xp.ascontiguousarray(x.T)) == {"ascontiguousarray": 1}
    assert counted(lambda: xp.zeros(3)) == {"zeros": 1}
