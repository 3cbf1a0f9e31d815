"""pytest -p tests.device.hostcuda.plugin --device gpu: the real CuPy on host memory."""

from tests.device import hostcuda

hostcuda.install()
