"""The host device: CuPy's wheel on memory of the host. `pytest -p tests.device.hostcuda.plugin --device gpu`."""

import numpy as np


def test_cupy_computes_on_the_host_device(host_device):
    """A fused function, a product, a reduction; and they are counted."""
    import cupy

    x = np.random.default_rng(0).standard_normal((5, 7))
    with host_device.counted() as counts:
        y = cupy.tanh(cupy.asarray(x) @ cupy.asarray(x.T)).sum(axis=0).get()
    np.testing.assert_allclose(y, np.tanh(x @ x.T).sum(axis=0), rtol=1e-12)
    assert (counts.kernels, counts.products, counts.to_device, counts.to_host) == (2, 1, 2, 1)
