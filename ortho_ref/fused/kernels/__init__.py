"""A device's loops: what stands between two products is one kernel.  `fused` chooses them once, before the loop.

For each cell that has them a file with `forward_loop` and `backward_loop`, the signatures and results of those in
`fused/NAME.py`, and the stages they are made of.  A stage is a kernel's body: element-wise arithmetic, `xp`'s ufuncs
and Python scalars; it returns nothing and writes into arguments, `y[...] = a * b`.

Factors that meet the same vector are one product: U of several gates side by side, (n, G n), and on the way back, where
the gates' cotangents of a step lie side by side too, one below the other, (G n, n).  (B, n) @ (G, n, n) would be four
launches.  A view costs the host as much as half a product: each is made once.

ORTHO_REF_KERNELS=0 in the environment, or `without_kernels()`: the host's loops there too, a kernel for each operation.
"""

from ortho_ref.fused.kernels.launch import are_on, fallen_back, launches, without_kernels

__all__ = ["are_on", "fallen_back", "launches", "without_kernels"]
