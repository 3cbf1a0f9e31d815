"""The host device: CuPy's wheel on memory of the host, and what it sees.

    pytest -p tests.device.hostcuda.plugin --device gpu tests/device/test_hostcuda.py

Kernels are right in every order of their threads, and wrong in some order where a barrier is taken away.
"""

import itertools
import re
import types

import numpy as np
import pytest

from tests.device.hostcuda import parts

SUM = r"""
extern "C" __global__ void sum(const double* x, double* y, int n) {     // a block's part of a sum, by halves
  __shared__ double part[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (int half = 32; half; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""
WARP_SUM = r"""
extern "C" __global__ void warp_sum(const double* x, double* y, int n) {  // a warp's sum, through shared memory
  __shared__ double part[32];
  part[threadIdx.x] = x[threadIdx.x];
  for (int half = 16; half; half /= 2) {
    __syncwarp();
    double other = threadIdx.x < half ? part[threadIdx.x + half] : 0;
    part[threadIdx.x] += other;
  }
  double own = x[32 + threadIdx.x];
  for (int by = 16; by; by /= 2) own += __shfl_xor_sync(0xffffffff, own, by);
  if (threadIdx.x == 0) { y[0] = part[0]; y[1] = own; }
}
"""
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

ORDERS = [("in order", 0), ("reversed", 0), *(("shuffled", seed) for seed in range(4))]


@pytest.fixture
def cupy(host_device):
    """CuPy on it; what is freed in a test is gone when it ends."""
    import cupy

    with host_device.guarded():
        yield cupy


def run_sum(cupy, source):
    x = np.random.default_rng(0).standard_normal(300)
    out = cupy.zeros(5)
    cupy.RawKernel(source, "sum")((5,), (64,), (cupy.asarray(x), out, np.int32(300)))
    return out.get(), np.add.reduceat(x, range(0, 300, 64))


def run_warp_sum(cupy, source):
    x = np.random.default_rng(0).standard_normal(64)
    out = cupy.zeros(2)
    cupy.RawKernel(source, "warp_sum")((1,), (32,), (cupy.asarray(x), out, np.int32(32)))
    return out.get(), x.reshape(2, 32).sum(axis=1)


def run_stencil(cupy, source):
    x = np.random.default_rng(0).standard_normal(500)
    a, b = cupy.asarray(x), cupy.zeros(500)
    for _ in range(8):
        x = (np.roll(x, 1) + np.roll(x, -1)) / 2
    module = cupy.RawModule(code=source, enable_cooperative_groups=True)  # for `arrived` a new one each time
    module.get_function("stencil")((5,), (64,), (a, b, np.int32(500)))
    return a.get(), x


KERNELS = {
    "sum": (run_sum, SUM),
    "warp sum": (run_warp_sum, WARP_SUM),
    "stencil": (run_stencil, STENCIL),
    "stencil, barrier by hand": (run_stencil, BY_HAND),
}


def wrong_orders(host_device, cupy, run, source):
    """The orders in which a kernel's result is not the expected one, or it is refused."""
    wrong = []
    for kind, seed in ORDERS:
        with host_device.ordered(kind, seed):
            try:
                found, expected = run(cupy, f"// {kind} {seed}\n{source}")
            except cupy.cuda.driver.CUDADriverError:
                wrong.append((kind, seed))
                continue
        if not np.allclose(found, expected, rtol=1e-6 if found.dtype == "f" else 1e-12):
            wrong.append((kind, seed))
    return wrong


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_is_right_in_every_order(host_device, cupy, name):
    """Threads, warps and blocks in order, reversed, and shuffled."""
    run, source = KERNELS[name]
    assert wrong_orders(host_device, cupy, run, source) == []


BARRIERS = [
    (name, found.start(), found[0])
    for name, (_, source) in KERNELS.items()
    for found in re.finditer(r"__syncthreads\(\);|__syncwarp\(\);|grid\.sync\(\);|while \(atomicAdd.*", source)
]


@pytest.mark.parametrize(("name", "start", "barrier"), BARRIERS)
def test_each_barrier_that_is_removed_is_seen(host_device, cupy, name, start, barrier):
    """In one order at least the result is wrong."""
    run, source = KERNELS[name]
    assert wrong_orders(host_device, cupy, run, source[:start] + source[start + len(barrier) :])


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


def test_linear_algebra_is_that_of_the_host(cupy):
    """Products in all types with strides, LU, QR, singular values, FFT, sorting: each held to NumPy."""
    rng = np.random.default_rng(0)
    for dtype in "fdFD":
        a, b = (rng.standard_normal((6, 6)) + 1j * (rng.standard_normal((6, 6)) if dtype in "FD" else 0) for _ in "ab")
        a, b = ((x if dtype in "FD" else x.real).astype(dtype) for x in (a, b))
        x, y = cupy.asarray(a), cupy.asarray(b)
        close = {"rtol": 1e-3 if dtype in "fF" else 1e-10, "atol": 1e-4 if dtype in "fF" else 1e-11}
        pairs = {
            "product": (x @ y, a @ b),
            "of views": (x.T[1:5] @ y[:, ::2].conj(), a.T[1:5] @ b[:, ::2].conj()),
            "batched": (cupy.stack([x, y]) @ y.T, np.stack([a, b]) @ b.T),
            "into a view": (cupy.matmul(x, y, out=cupy.empty((12, 6), dtype)[::2]), a @ b),
            "inverse": (cupy.linalg.inv(x), np.linalg.inv(a)),
            "solution": (cupy.linalg.solve(x, y), np.linalg.solve(a, b)),
            "R": (cupy.abs(cupy.linalg.qr(x)[1]), np.abs(np.linalg.qr(a)[1])),
            "singular values": (cupy.linalg.svd(x)[1], np.linalg.svd(a)[1]),
            "norm": (cupy.linalg.norm(x), np.linalg.norm(a)),
            "inner product": (cupy.vdot(x, y), np.vdot(a, b)),
            "transform": (cupy.fft.ifft(cupy.fft.fft(x)[:, ::-1]), np.fft.ifft(np.fft.fft(a)[:, ::-1])),
            "sorted": (cupy.sort(x.real, axis=0), np.sort(a.real, axis=0)),
            "order": (cupy.argsort(x.real), np.argsort(a.real)),
        }
        for name, (ours, theirs) in pairs.items():
            np.testing.assert_allclose(ours.get(), theirs, err_msg=f"{name} {dtype}", **close)


def test_triangular_solves(cupy):
    """Every side and form that CuPy asks of cuBLAS."""
    import scipy.linalg
    from cupyx.scipy.linalg import solve_triangular

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 5)) + 5 * np.eye(5), rng.standard_normal((5, 3))
    for lower, trans, unit in itertools.product((False, True), (0, 1, 2), (False, True)):
        how = {"lower": lower, "trans": trans, "unit_diagonal": unit}
        ours = solve_triangular(cupy.asarray(a), cupy.asarray(b), **how)
        np.testing.assert_allclose(ours.get(), scipy.linalg.solve_triangular(a, b, **how), rtol=1e-10, err_msg=str(how))


def test_what_is_not_there_says_its_name(cupy, capfd):
    """A function of a library, on standard error; one of the runtime, in its error."""
    with pytest.raises(RuntimeError, match="CUSOLVER"):
        cupy.linalg.eigh(cupy.eye(3))
    assert re.search(r"hostcuda: cusolver\w+ is not there", capfd.readouterr().err)
    with pytest.raises(NotImplementedError, match="hostcuda: the runtime's mallocManaged is not there"):
        cupy.cuda.runtime.mallocManaged(16)


def test_a_kernel_that_does_not_compile(cupy):
    """CuPy's own error, with the line in the source."""
    with pytest.raises(cupy.cuda.compiler.CompileException, match=r"<stdin>:2:\d+: error"):
        cupy.RawKernel('\nextern "C" __global__ void bad() { nonsense; }', "bad").compile()


def test_what_moved_in_another_cupy_is_said():
    """Every part that differs or is gone, by its name, with what was found; without CuPy and without a compiler."""

    class Compiler:
        CompileException = _NVRTCProgram = _get_nvrtc_version = staticmethod(lambda: None)

    modules = {name.partition(":")[0]: types.SimpleNamespace() for name in parts.AFTER_IMPORT}
    modules["cupy.cuda.compiler"] = Compiler
    with pytest.raises(parts.MovedError) as caught:
        parts.check(parts.AFTER_IMPORT, modules.__getitem__)
    lines = str(caught.value).splitlines()
    assert lines[0] == "hostcuda is not made for this CuPy. What moved:"
    assert len(lines) == len(parts.AFTER_IMPORT)  # one part is as expected
    assert any("compiler:_NVRTCProgram is '', not 'src, name, " in line for line in lines)
    assert any("cuda.pathfinder:load_nvidia_dynamic_lib is not there" in line for line in lines)
    modules[parts.RUNTIME] = types.SimpleNamespace(__pyx_capi__={})
    with pytest.raises(parts.MovedError, match="runtime:malloc is not there"):
        parts.check(parts.BEFORE_IMPORT, modules.__getitem__)
