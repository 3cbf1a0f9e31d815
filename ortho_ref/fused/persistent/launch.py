"""Compiling the CUDA sources of this folder, once for each cell and precision, and launching a recurrence."""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array, library_of
from ortho_ref.fused.persistent.plan import Limits, Plan, padded, plan

ACTIVATIONS = {"tanh": np.int32(0), "relu": np.int32(1), "modrelu": np.int32(2)}
#: Of REAL: its name, and its smallest normal number.
_REALS = {"float32": ("float", "1.17549435e-38f"), "float64": ("double", "2.2250738585072014e-308")}
_SHARED = "MaxSharedMemoryPerBlockOptin"
#: Of a plan, what a kernel is told.
_OF_PLAN = ("rows", "units", "tile", "partial", "own", "spread")


_form: str | None = None


@contextlib.contextmanager
def using(form: str) -> Iterator[None]:
    """Within, in every thread, recurrences take this form of `plan.FORMS`, to compare them, or raise."""
    global _form
    before, _form = _form, form
    try:
        yield
    finally:
        _form = before


class Factor(NamedTuple):
    """The weights of a product that sums over `slots` vectors (n,) and makes `gates`.

    W: (slots padded n, gates n), as the kernels take it, with zeros where n is padded.
    """

    W: Array
    slots: int
    gates: int


def forward_factor(*U: Array) -> Factor:
    """U h of several gates in one product: (n, n) or (G, n, n) each, transposes of the weights -> one slot."""
    xp = library_of(*U).xp
    n = U[0].shape[-1]
    gates = xp.concatenate([own.reshape(-1, n, n) for own in U])
    W = xp.zeros((padded(n), len(gates), n), gates.dtype)
    W[:n] = gates.swapaxes(0, 1)
    return Factor(W.reshape(padded(n), -1), 1, len(gates))


def backward_factor(*U: Array) -> Factor:
    """The sum over gates of U^T da in one product: (n, n) or (G, n, n) each -> one gate, a slot for each weight."""
    xp = library_of(*U).xp
    n = U[0].shape[-1]
    gates = xp.concatenate([own.reshape(-1, n, n) for own in U])
    W = xp.zeros((len(gates), padded(n), n), gates.dtype)
    W[:, :n] = gates
    return Factor(W.reshape(-1, n), len(gates), 1)


def by_value(**fields: int) -> Any:
    """A struct of int, in this order, as a kernel takes it by value."""
    return np.array(tuple(fields.values()), [(name, "i4") for name in fields])[()]


@functools.cache
def source(cell: str) -> str:
    """The CUDA source of a cell's two kernels, CELL_forward and CELL_backward, behind common.cuh; without REAL."""
    folder = resources.files("ortho_ref.fused.persistent")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in ("common.cuh", f"{cell}.cu"))


@functools.cache
def kernel(xp: Any, device: int, cell: str, way: str, dtype: str) -> Any:
    """A cupy.RawKernel of a device, compiled once in a process; it may take all of a block's shared memory."""
    real, tiny = _REALS[dtype]
    code = f"#define REAL {real}\n#define TINY {tiny}\n{source(cell)}"
    module = xp.RawModule(code=code, options=("--std=c++17",), enable_cooperative_groups=True)
    found = module.get_function(f"{cell}_{way}")
    found.max_dynamic_shared_size_bytes = xp.cuda.Device(device).attributes[_SHARED] - found.shared_size_bytes
    return found


@functools.cache
def limits_of(xp: Any, device: int) -> Limits:
    """What `plan` has to know of a device."""
    attributes = xp.cuda.Device(device).attributes
    return Limits(attributes["MultiProcessorCount"], attributes[_SHARED])


def launch(
    cell: str,
    way: str,
    like: Array,
    slots: int,
    factors: tuple[Factor, ...],
    read: tuple[Array, ...],
    *others: Any,
    together: int = 1,
) -> None:
    """A whole recurrence, in one cooperative launch; ValueError for an n that does not fit the device.

    like (T, B, n), real, tells sizes, precision and device; slots and together are as of `plan`.  A kernel takes
    factors, what is read alone, and others: arrays that are written to, by way of a copy where they are not
    contiguous, as the gates of a chunk of time that is shorter than the others are; and scalars.
    """
    xp = library_of(like).xp
    T, B, n = like.shape
    device = xp.cuda.Device().id
    own, limits = kernel(xp, device, cell, way, like.dtype.name), limits_of(xp, device)
    limits = replace(limits, shared=limits.shared - own.shared_size_bytes)  # what a compiler takes for itself
    products = tuple((factor.slots, factor.gates) for factor in factors)
    chosen = plan(B, n, like.itemsize, slots, products, limits, together, _form)
    check_resident(xp, own, chosen, limits)
    sizes = by_value(T=T, B=B, n=n, **{name: getattr(chosen, name) for name in _OF_PLAN})
    written = [xp.ascontiguousarray(other) if isinstance(other, xp.ndarray) else other for other in others]
    arguments = (*(factor.W for factor in factors), *map(xp.ascontiguousarray, read), *written, sizes)
    own((chosen.blocks,), (chosen.threads,), arguments, shared_mem=chosen.shared)
    for other, copy in zip(others, written, strict=True):
        if copy is not other:
            other[...] = copy


def check_resident(xp: Any, own: Any, chosen: Plan, limits: Limits) -> None:
    """RuntimeError unless all blocks can be on the device at once, as barriers of the grid want them."""
    each = xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(own.kernel.ptr, chosen.threads, chosen.shared)
    if chosen.blocks > each * limits.blocks:
        raise RuntimeError(
            f"engine 'persistent': {chosen.blocks} blocks of {chosen.threads} threads and {chosen.shared:,} bytes of "
            f"shared memory, of which the device holds {each * limits.blocks} at once; allowed here: 'fused', 'scan'"
        )
