"""pytest -p tests.device.hostcuda.plugin: CuPy on the host device; where that cannot be had, nothing is run."""

import pytest

from tests.device import hostcuda

try:
    hostcuda.install()
    REASON = None
except hostcuda.UnavailableError as error:
    REASON = str(error)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """End here, and well, where there is no host device."""
    if REASON is not None:
        print(f"skipped, all of it: {REASON}")
        return 0
    return None
