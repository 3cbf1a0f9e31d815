"""One BLAS thread, the device fixture, and hypothesis settings for all tests."""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest
from hypothesis import HealthCheck, settings

from ortho_ref import backend
from scripts.program import limit_threads
from tests import standin

# The same draws on every run; --hypothesis-profile=random looks elsewhere.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("fixed", derandomize=True, **_COMMON)
settings.register_profile("random", derandomize=False, **_COMMON)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", choices=("gpu",), help="also run the array tests on a real GPU")


def pytest_configure(config: pytest.Config) -> None:
    limit_threads(1)
    backend.register("standin", standin.LIBRARY)
    if config.getoption("--hypothesis-profile", None) is None:
        settings.load_profile("fixed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        gpu = ["gpu"] if metafunc.config.getoption("--device") == "gpu" else []
        metafunc.parametrize("device", ["cpu", "stand-in", *gpu], scope="session")
