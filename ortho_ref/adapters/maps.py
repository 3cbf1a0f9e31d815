"""Orthogonal maps of PyTorch and JAX for `ortho_ref.conformance.check_map`: the framework takes the gradient."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ortho_ref.adapters.jax import jax_and_numpy, precision
from ortho_ref.installed import needed

#: map(Q) -> U and pullback(Q, dU) -> dL/dQ, of NumPy arrays.
MapAndPullback: TypeAlias = tuple[Callable[[Any], np.ndarray], Callable[[Any, Any], np.ndarray]]


def map_from_torch(function: Callable[[Any], Any]) -> MapAndPullback:
    """A map Q -> U in PyTorch, for `check_map(*map_from_torch(f))` and for an adapter's file.

        map, pullback = map_from_torch(f)

    Parameters
    ----------
    function : callable
        function(Q) -> U, tensors on the CPU; a module is one.

    Returns
    -------
    callable
        map(Q) -> U.
    callable
        pullback(Q, dU) -> dL/dQ, by autograd.

    Raises
    ------
    ImportError
        PyTorch is not installed.
    TypeError
        function is none.
    """
    with needed("torch", "pip install torch"):
        import torch
    _check(function)

    def map(Q: Any) -> np.ndarray:
        """U, with as many bits as bfloat16 has where it is in that."""
        U = function(torch.from_numpy(np.array(Q))).detach().cpu()
        return (U.float() if U.dtype in (torch.bfloat16, torch.float16) else U).resolve_conj().numpy()

    def pullback(Q: Any, dU: Any) -> np.ndarray:
        """dL/dQ."""
        leaf = torch.from_numpy(np.array(Q)).requires_grad_()
        U = function(leaf)
        if not U.requires_grad:
            raise ValueError("no gradient can be taken of what was returned: it is detached from Q")
        (dQ,) = torch.autograd.grad(U, leaf, torch.from_numpy(np.array(dU)).to(U.dtype))
        return dQ.cpu().resolve_conj().numpy()

    return map, pullback


def map_from_jax(function: Callable[[Any], Any]) -> MapAndPullback:
    """As `map_from_torch`, of a function in JAX, jitted or not; the pullback is by jax.vjp.

    float64 is switched on while it runs, and off again after.
    """
    jax, jnp = jax_and_numpy()
    _check(function)

    def map(Q: Any) -> np.ndarray:
        """U."""
        with precision("float64"):
            U = function(jnp.asarray(Q))
            return np.asarray(U.astype(jnp.float32) if U.dtype in (jnp.bfloat16, jnp.float16) else U)

    def pullback(Q: Any, dU: Any) -> np.ndarray:
        """dL/dRe + i dL/dIm, of which JAX has the conjugate."""
        with precision("float64"):
            U, back = jax.vjp(function, jnp.asarray(Q))
            (dQ,) = back(jnp.asarray(dU).conj().astype(U.dtype))
            return np.asarray(dQ).conj()

    return map, pullback


def _check(function: Any) -> None:
    if not callable(function):
        raise TypeError(f"function is {function!r}; allowed: a function Q -> U")
