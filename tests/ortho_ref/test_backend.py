"""The array library follows the arrays; moves are explicit; nothing heavy is imported."""

import contextlib
import importlib.util
import platform
import re
import subprocess
import sys
import types
from typing import NamedTuple

import numpy as np
import pytest

from ortho_ref import backend
from ortho_ref.printing import ArraysByName
from ortho_ref.subnormals import subnormals_as_zero
from tests.device import Foreign


class Pair(NamedTuple):
    a: object
    b: object


def test_library_follows_the_arrays(device):
    """xp_of skips scalars and None; without arrays it is NumPy."""
    array = backend.to_device(np.ones(2), device)
    assert backend.library_of(array, 1.0, None, np.float32(2)).device == device
    assert backend.xp_of(2.0, None) is np


def test_mixtures_raise():
    """Host and device arrays in one call: an error that names both libraries."""
    with pytest.raises(TypeError, match="different libraries in one call: cupy, numpy"):
        backend.xp_of(np.ones(2).view(Foreign), np.ones(2))


def test_trees_move_there_and_back(device):
    """Dicts, tuples, named tuples and lists keep their shape; scalars and None pass; values survive."""
    tree = {"x": np.arange(3.0), "p": Pair(np.int64(3), [np.ones(1), None]), "t": (np.zeros(2), "s", 1)}
    there = backend.to_device(ArraysByName(tree), device)
    assert (type(there), type(there["p"])) == (ArraysByName, Pair)
    assert backend.library_of(there["x"], there["p"].b[0], there["t"][0]).device == device
    back = backend.to_host(there)
    np.testing.assert_array_equal(back["x"], tree["x"])
    assert (back["p"].a, back["p"].b[1], back["t"][1:]) == (3, None, ("s", 1))


@pytest.mark.parametrize("order", ["C", "F"])
def test_moves_keep_the_order_of_memory(device, order):
    """An array by columns stays by columns there and back: products of the other order round differently."""
    array = np.asarray(np.arange(6.0).reshape(2, 3), order=order)
    there = backend.to_device(array, device)
    back = backend.to_host(there)
    assert there.flags.f_contiguous == back.flags.f_contiguous == (order == "F")


def test_floats_in_another_precision(device):
    """Real ones of a tree alone, which is built as it was."""
    tree = backend.to_device((np.ones(2), [np.ones(2, np.float32), None], np.ones(2, int), np.ones(2, complex)), device)
    double, (single, nothing), integers, complexes = backend.with_floats_as(tree, np.float32)
    kinds = [own.dtype for own in (double, single, integers, complexes)]
    assert kinds == [np.float32, np.float32, np.int64, np.complex128]
    assert nothing is None


def test_moving_home_is_the_only_transfer(host_device):
    """to_host makes one copy for each array and nothing else does."""
    tree = backend.to_device({"a": np.ones(2), "b": np.ones(3)}, "gpu")
    with host_device.counted() as count:
        backend.to_device(tree, "gpu")
    assert count.to_host == count.to_device == count.waits == 0
    with host_device.counted() as count:
        backend.to_host(tree)
    assert (count.to_host, count.to_device) == (2, 0)


@pytest.mark.parametrize("device", ["tpu", ["cpu"]], ids=str)
def test_unknown_device(device):
    """The error lists the devices."""
    with pytest.raises(ValueError, match=re.escape(f"device is {device!r}; allowed: 'cpu', 'gpu'")):
        backend.to_device(np.ones(1), device)


@pytest.fixture
def anew():
    """ortho_ref.backend as it is when it has just been imported, with no library loaded."""
    spec = importlib.util.find_spec("ortho_ref.backend")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_gpu_without_cupy(anew, monkeypatch):
    """A device that cannot be had says what to install."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(anew.DeviceError, match="pip install cupy-cuda13x"):
        anew.to_device(np.ones(1), "gpu")


class CUDARuntimeError(RuntimeError):
    """cupy.cuda.runtime.CUDARuntimeError."""


def raising(message):
    """A function that ends in the runtime's error."""

    def call():
        raise CUDARuntimeError(message)

    return call


@pytest.fixture
def with_cupy(monkeypatch):
    """Puts a module of that name where CuPy would be, with this runtime."""

    def put(**runtime):
        runtime = types.SimpleNamespace(CUDARuntimeError=CUDARuntimeError, **runtime)
        cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
        monkeypatch.setitem(sys.modules, "cupy", cupy)

    return put


OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        (
            {"getDeviceCount": raising("cudaErrorNoDevice: no CUDA-capable device is detected")},
            "device 'gpu' finds no usable GPU: cudaErrorNoDevice: no CUDA-capable device is detected",
        ),
        ({"getDeviceCount": lambda: 0}, "device 'gpu' finds no usable GPU: CUDA counts 0 devices"),
        (
            {
                "getDeviceCount": raising(OLD),
                "driverGetVersion": lambda: 12040,
                "runtimeGetVersion": lambda: 13000,
            },
            "device 'gpu': the NVIDIA driver is too old: it serves CUDA 12.4, CuPy needs CUDA 13.0; update the driver, "
            "or install the CuPy that fits it: pip install cupy-cuda13x (CUDA 13) or cupy-cuda12x (CUDA 12)",
        ),
        (
            {"getDeviceCount": raising(OLD), "driverGetVersion": lambda: 0, "runtimeGetVersion": raising(OLD)},
            "device 'gpu': the NVIDIA driver is too old: it serves CUDA none, CuPy needs CUDA of its own version; .*",
        ),
    ],
    ids=["no device", "count of 0", "old driver", "old driver, no versions"],
)
def test_cupy_without_gpu(anew, with_cupy, runtime, message):
    """CuPy where there is no device, or a driver too old for it: what is there and what is needed, in one line."""
    with_cupy(**runtime)
    with pytest.raises(anew.DeviceError) as caught:
        anew.to_device(np.ones(1), "gpu")
    assert re.fullmatch(message.replace("(", "\\(").replace(")", "\\)"), str(caught.value)), caught.value


def test_cupy_that_cannot_be_loaded(anew, monkeypatch, tmp_path):
    """Installed, but a library it needs is missing: the first line of what it says, not "install CuPy"."""
    (tmp_path / "cupy.py").write_text(
        'raise ImportError("""\\n=====\\nFailed to import CuPy.\\n\\nlibnvrtc.so.13: cannot open""")\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    message = r"^device 'gpu': CuPy is installed but cannot be loaded: Failed to import CuPy\.$"
    with pytest.raises(anew.DeviceError, match=message):
        anew.to_device(np.ones(1), "gpu")


@pytest.mark.parametrize("array", [np.array([None]), np.array(["a"]), np.ones(1, np.longdouble)], ids=str)
def test_numbers_that_devices_do_not_have(monkeypatch, array):
    """Objects, strings, longdouble: one line with what is allowed; on the host they stay what they are."""
    monkeypatch.setitem(backend._LOADED, "cupy", backend.ArrayLibrary("gpu", None, None, pytest.fail, pytest.fail))
    with pytest.raises(TypeError, match=r"cannot be on device 'gpu'; allowed: bool, integers, float16 to float64"):
        backend.to_device({"a": array}, "gpu")
    assert backend.to_device(array, "cpu") is array


def test_importing_ortho_ref_imports_neither_cupy_nor_torch():
    """Not by any of its modules; nor matplotlib, typer, rich, pytest."""
    code = (
        "import pkgutil, sys, importlib, ortho_ref\n"
        "for m in pkgutil.walk_packages(ortho_ref.__path__, 'ortho_ref.'): importlib.import_module(m.name)\n"
        "print(sorted({'cupy', 'torch', 'matplotlib', 'typer', 'rich', 'pytest'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="only x86-64 Linux is slow with subnormal numbers"
)
def test_subnormals_as_zero():
    """Results and operands below the smallest normal number are 0 within, also after an error, and not outside."""
    smallest = np.finfo(np.float32).tiny

    def results():
        subnormal = np.array([1], np.int32).view(np.float32)
        return (np.full(9, smallest) * np.float32(0.5))[-1], (subnormal * np.float32(2**30))[0]

    assert all(result > 0 for result in results())
    for _ in range(2):
        with contextlib.suppress(KeyError), subnormals_as_zero():
            with subnormals_as_zero():
                pass
            assert results() == (0, 0)
            assert np.float32(smallest) * np.float32(1.5) > smallest
            raise KeyError
        assert all(result > 0 for result in results())
