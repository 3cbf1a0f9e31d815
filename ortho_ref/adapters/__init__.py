"""Layers and functions of PyTorch, JAX, Keras, Flax and Equinox as adapters of the conformance kit.

    from ortho_ref import adapters, conformance

    print(conformance.check(adapters.from_torch(torch.nn.GRU), "cell/*"))       # a layer of the framework's own
    adapters.from_torch(MyGRU, cell="gru", weights={"weight": ["W_r", "W_u", "W_c"], ...})  # a module of yours
    adapters.from_jax(forward, cell="gru")                                      # forward(x, h0, weights) -> h

You give the forward pass; the framework takes the gradients.  What each returns is a `run(case)`, as
`conformance.check` takes it and `python -m ortho_ref.conformance run --adapter FILE` looks for it.

`map_from_torch` and `map_from_jax` take an orthogonal map Q -> U, for `conformance.check_map` (docs/maps.md).

`either(run, run, ...)` is several adapters as one.

A framework is imported when its function is called, not before: `ortho_ref` needs none of them.

`cell` says which cell it is: the name of a cell, "gru_reset_before", which has its default options then, of a model,
"gru-cudnn", or a case's config, {"cell": "elman", "activation": "relu"}.

`weights` says what each of your arrays is made of, in the kit's names (docs/check/adapters.md): "W_r", transposed
"W_r.T", with its sign changed "-W_u", or a list of such, one below the other, transposed ones side by side; "0" is a
bias of zeros.  In a list of lists these are joined along the other axis: a kernel for [x, h] is of W and of U.

    {"kernel": ["W_r.T", "W_u.T", "W_c.T"], "bias": ["b_r", "b_u", "b_c"], ...}
    {"kernel": [["W_r.T", "W_u.T"], ["U_r.T", "U_u.T"]], ...}                       # (m + n, 2 n)

Tokens are given as one-hot vectors, complex arrays as the kit has them, with a last axis of 2.
"""

from ortho_ref.adapters.either import either as either
from ortho_ref.adapters.equinox import from_equinox as from_equinox
from ortho_ref.adapters.flax import from_flax as from_flax
from ortho_ref.adapters.jax import from_jax as from_jax
from ortho_ref.adapters.keras import from_keras as from_keras
from ortho_ref.adapters.maps import map_from_jax as map_from_jax, map_from_torch as map_from_torch
from ortho_ref.adapters.torch import from_torch as from_torch
