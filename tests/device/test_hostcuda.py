"""The host device: CuPy's wheel on memory of the host, and what it sees.

    pytest -p tests.device.hostcuda.plugin --device gpu tests/device/test_hostcuda.py

test_persistent.py shows that barriers and orders count; what its libraries compute, every test of a device compares.
"""

import numpy as np
import pytest

STENCIL = r"""
#include <cooperative_groups.h>
extern "C" __global__ void stencil(double* x, double* y, int n) {         // eight steps over the whole grid
  auto grid = cooperative_groups::this_grid();
  for (int step = 0; step < 8; ++step) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
      y[i] = (x[(i + 1) % n] + x[(i + n - 1) % n]) / 2;
    grid.sync();
    double* other = x; x = y; y = other;
  }
}
"""
BY_HAND = STENCIL.replace(
    "grid.sync();",
    """__threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(&arrived, 1u);
      while (atomicAdd(&arrived, 0u) < gridDim.x * (step + 1)) __nanosleep(20);
    }
    __syncthreads();""",
).replace('extern "C"', '__device__ unsigned arrived = 0;\nextern "C"')
OUTSIDE = 'extern "C" __global__ void outside(float* x, int at) { x[at] = 1; }'


@pytest.fixture
def cupy(host_device):
    """CuPy on it; what is freed in a test is gone when it ends."""
    import cupy

    with host_device.guarded():
        yield cupy


def test_a_barrier_in_divergent_code_is_refused(cupy):
    """With the kernel, the line and how many threads came."""
    others = {
        "__syncthreads();": r"kernel two, block \(0, 0, 0\): threads wait at different .*, of lines 1 and 2",
        "__syncwarp();": "kernel two, .* a warp's barrier is not reached by all threads of its mask",
        "while (true) __nanosleep(9);": "kernel two, .*: 0 of 64 threads .*, the others for what does not come",
        "hc_sync_grid();": r"kernel two, .*: __syncthreads\(\) of line 1 is reached by 3 of 64 threads",
    }
    for other, words in others.items():
        source = f'extern "C" __global__ void two(float* x) {{ if (threadIdx.x < 3) __syncthreads();\n else {other} }}'
        with pytest.raises(cupy.cuda.driver.CUDADriverError, match=f"LAUNCH_FAILED: {words}"):
            cupy.RawKernel(source, "two")((1,), (64,), (cupy.zeros(64, "f"),))


def test_a_grid_barrier_needs_a_cooperative_launch_with_room(cupy):
    """As on a device: grid.sync() in another launch is refused, and blocks that wait for one without room are found."""
    arguments = (cupy.zeros(500), cupy.zeros(500), np.int32(500))
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match=r"grid.sync\(\) in a launch that is not cooperative"):
        cupy.RawModule(code=STENCIL).get_function("stencil")((5,), (64,), arguments)
    cooperative = cupy.RawModule(code=STENCIL, enable_cooperative_groups=True).get_function("stencil")
    by_hand = cupy.RawModule(code=f"// more\n{BY_HAND}").get_function("stencil")
    for kernel in (cooperative, by_hand):
        kernel.max_dynamic_shared_size_bytes = 200 << 10  # one block on a multiprocessor
    with pytest.warns(UserWarning, match="reduced from 133 to 132"):  # CuPy asks the device
        cooperative((132 + 1,), (32,), arguments, shared_mem=200 << 10)
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="the others for what does not come"):
        by_hand((132 + 1,), (32,), arguments, shared_mem=200 << 10)


def launch_and_wait(cupy, x, at):
    cupy.RawKernel(OUTSIDE, "outside")((1,), (1,), (x, np.int32(at)))
    cupy.cuda.Device().synchronize()


@pytest.mark.parametrize(("size", "at"), [(10, 10), (10, 13), (10, -1), (1024, 1024), (1024, -1), (10, 1 << 20)])
def test_an_index_out_of_bounds_is_seen(host_device, cupy, size, at):
    """At the launch, by the kernel's name, or, of the bytes that no page guards, where the host next waits."""
    errors = (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError)
    x = cupy.zeros(size, "f")
    with pytest.raises(errors, match=r"kernel outside, block \(0, 0, 0\), thread|next to an allocation of 40 bytes"):
        launch_and_wait(cupy, x, at)
    assert float(x.sum()) == 0  # and all goes on


def test_memory_that_is_freed_cannot_be_read(cupy):
    """Its address is nobody's."""
    address = np.uint64(cupy.zeros(10, "f").data.ptr)
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match=r"ILLEGAL_ADDRESS: kernel outside, .*: freed memory"):
        cupy.RawKernel(OUTSIDE, "outside")((1,), (1,), (address, np.int32(3)))


def test_what_no_kernel_has_written_is_nan(host_device):
    """In both precisions, also where memory of CuPy's pool is taken again."""
    import cupy

    for dtype in ("f", "D"):
        cupy.ones(1000, dtype)
        assert cupy.isnan(cupy.empty(1000, dtype)).all()


def test_too_little_memory_is_cupys_error(cupy, host_device):
    """With a pool and without."""
    with host_device.memory(1 << 20):
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
            cupy.zeros(1 << 20)
        with cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc), pytest.raises(cupy.cuda.memory.OutOfMemoryError):
            cupy.zeros(1 << 20)
    assert cupy.zeros(1 << 20).size == 1 << 20


def test_subnormal_numbers_are_zero_in_float32_alone(cupy):
    """As with -ftz=true: operands and results of float32 kernels, not those of float64."""
    for dtype, flushed in (("f", True), ("d", False)):
        tiny = cupy.full(3, np.finfo(dtype).smallest_normal, dtype)
        assert bool((tiny / 2 == 0).all()) is flushed
        assert bool((tiny / 2 * 4 == 0).all()) is flushed
        assert np.all(tiny.get() / 2 > 0)


def test_products_and_sums_are_contracted(cupy):
    """fma(x, x, -round(x^2)) is the rounding error of the product; with -fmad=false it is 0."""
    source = 'extern "C" __global__ void rest(double* x, double* y) { y[0] = x[0] * x[0] - x[1]; }'
    x, out = np.array([1 + 2.0**-30, 0]), cupy.zeros(1)
    x[1] = x[0] * x[0]
    for options, expected in (((), 2.0**-60), (("-fmad=false",), 0.0)):
        cupy.RawKernel(source, "rest", options=options)((1,), (1,), (cupy.asarray(x), out))
        assert float(out[0]) == expected


def test_what_is_asked_of_the_device_is_counted(cupy, host_device):
    """Kernels, products, copies, waits; a plain NumPy array has none of it."""
    x = np.random.default_rng(0).standard_normal((5, 7))
    with host_device.counted() as counts:
        y = cupy.tanh(cupy.asarray(x) @ cupy.asarray(x.T)).sum(axis=0).get()
    np.testing.assert_allclose(y, np.tanh(x @ x.T).sum(axis=0), rtol=1e-12)
    assert (counts.kernels, counts.products, counts.libraries) == (2, 1, 0)
    assert (counts.to_device, counts.to_host, counts.waits) == (2, 1, 1)
    with host_device.counted() as counts:
        cupy.linalg.inv(cupy.eye(3))
    assert counts.libraries >= 2


def test_transposed_sparse_products_in_another_order(cupy, host_device):
    """The same to rounding, and not to the bit; without it the same to the bit."""
    from cupyx.scipy import sparse

    rng = np.random.default_rng(0)
    columns, starts = cupy.arange(1200, dtype="i") % 3, cupy.arange(0, 1201, 3, dtype="i")
    matrix = sparse.csr_matrix((cupy.asarray(rng.standard_normal(1200)), columns, starts), (400, 3))
    other = cupy.asarray(rng.standard_normal((400, 5)))
    first, second = (matrix.T @ other).get(), (matrix.T @ other).get()
    np.testing.assert_array_equal(first, second)
    with host_device.shuffled_sums():
        third = (matrix.T @ other).get()
    np.testing.assert_allclose(third, first, rtol=1e-9)
    assert (third != first).any()
