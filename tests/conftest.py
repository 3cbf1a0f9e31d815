"""One BLAS thread, the device and line fixtures, and hypothesis settings for all tests."""

import os
import signal
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("NUMBA_CACHE_DIR", f"{tempfile.gettempdir()}/ortho_ref-numba-{getattr(os, 'getuid', int)()}")
os.environ.pop("GITHUB_ACTIONS", None)  # where it is true the kit prints annotations below its tables

import pytest
import scipy.linalg  # noqa: F401  loads SciPy's own BLAS; a limit holds for what is loaded
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from ortho_ref import backend
from tests.device import hostcuda
from tests.line import Line

if TYPE_CHECKING:
    from tests.scripts.runs import Forks

# The same draws on every run; --hypothesis-profile=random looks elsewhere, and with --hypothesis-seed at the same place
# again: nothing is drawn from what an earlier run left in a folder.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("fixed", derandomize=True, **_COMMON)
settings.register_profile("random", derandomize=False, database=None, print_blob=True, **_COMMON)


# With --device: a device's arithmetic is what is tested, not the search for an example, which the host has done.
DEVICE_EXAMPLES = 5
settings.register_profile("device", derandomize=True, max_examples=DEVICE_EXAMPLES, **_COMMON)


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "run the tests that have the fixture device or gpu, and only these, on this device"
    parser.addoption("--device", choices=("cpu", "gpu"), help=help)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "device: takes the fixture device or gpu (set by itself)")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background has it, and what is started there
        signal.signal(signal.SIGINT, signal.default_int_handler)
    threadpool_limits(1)
    if config.getoption("--hypothesis-profile", None) is None:
        settings.load_profile("device" if config.getoption("--device") else "fixed")
    if config.getoption("--device") == "gpu":
        config.addinivalue_line("filterwarnings", "default")  # CuPy's own warnings are no failures


def pytest_sessionstart(session: pytest.Session) -> None:
    device = session.config.getoption("--device")
    if device and not session.config.getoption("collectonly"):
        try:
            backend.to_device((), device)
        except backend.DeviceError as error:  # one line, not one for each test
            raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """The name of the device that is tested: the host, or what --device says."""
    return request.config.getoption("--device") or "cpu"


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> str:
    """The name of the device where it runs CuPy: with --device gpu, on a GPU or on the host device."""
    if request.config.getoption("--device") != "gpu":
        pytest.skip("CuPy: pytest --device gpu")
    return "gpu"


@pytest.fixture
def host_device(gpu: str) -> ModuleType:
    """CuPy's device made of host memory, tests.device.hostcuda, where it is installed: `make device`."""
    if not hostcuda.installed():
        pytest.skip("the host device: pytest -p tests.device.hostcuda.plugin --device gpu")
    return hostcuda


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    own, others = [], []
    for item in items:
        has_device = not {"device", "gpu"}.isdisjoint(getattr(item, "fixturenames", ()))
        if has_device:
            item.add_marker("device")
        (own if has_device else others).append(item)
    if config.getoption("--device"):
        for item in own:
            _fewer_examples(getattr(item, "obj", None))
        config.hook.pytest_deselected(items=others)
        items[:] = own


@pytest.fixture
def line() -> Iterator[Line]:
    """A line to the processes that the test starts."""
    own = Line()
    yield own
    own.close()


def _fewer_examples(test: object) -> None:
    """A test's own number of examples goes before the profile's: bring it down to that."""
    name = "_hypothesis_internal_use_settings"
    own = getattr(test, name, None)
    if own is not None and own.max_examples > DEVICE_EXAMPLES:
        setattr(test, name, settings(own, max_examples=DEVICE_EXAMPLES))


@pytest.fixture(scope="session")
def forks() -> Iterator["Forks"]:
    """Programs in forks of one process, which has done their imports."""
    from tests.scripts.runs import Forks

    own = Forks()
    yield own
    own.close()
