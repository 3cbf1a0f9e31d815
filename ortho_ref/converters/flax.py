"""Flax linen's SimpleCell, LSTMCell, OptimizedLSTMCell and GRUCell: the tree under "params"; n units, m inputs.

{"ir": {"kernel": (m, n), "bias": (n,)}, "hr": {"kernel": (n, n)}, ...}
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ortho_ref.converters.framework import BOTH, Arrays, Blocks, Framework, Layout, Layouts
from ortho_ref.trees import nested


class Flax(Framework):
    """A dense layer for each gate's input, "ir", and state, "hr"; the bias is the input's, of an LSTM the state's."""

    title = "Flax"
    #: What the dense layer of an LSTM's forget gate is called, of the input.
    input_forget: ClassVar[str] = "if"
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("r", "z", "h"), BOTH),
    }

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the kernels of the first gate, whose rows are inputs."""
        kernel, recurrent, *_ = self._names(layout)[0]
        return (recurrent, 0), (kernel, 0)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """Kernels transposed; the inner bias is 0 but a GRU's candidate's."""
        kernels, recurrents, biases, inners = zip(*self._names(layout), strict=True)
        W, U = (np.stack([w[name].T for name in names]) for names in (kernels, recurrents))
        b = np.stack([w[name] for name in biases])
        return Blocks(W, U, b, np.stack([w[name] if name else np.zeros_like(b[0]) for name in inners]))

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`; of inner biases the candidate's alone."""
        arrays: Arrays = {}
        for (kernel, recurrent, bias, inner), W, U, b, b_hh in zip(self._names(layout), *blocks, strict=True):
            arrays |= {kernel: W.T, recurrent: U.T, bias: b} | ({inner: b_hh} if inner else {})
        return arrays

    def flat(self, tree: Mapping[str, Any]) -> Mapping[str, Any]:
        """{"ir": {"kernel": ...}} -> {"ir/kernel": ...}; ValueError unless the tree is two levels deep."""
        for dense, leaves in tree.items():
            if not isinstance(leaves, Mapping):
                raise ValueError(f"Flax: {dense} is {type(leaves).__name__}; expected a dict of kernel and bias")
        return {f"{dense}/{leaf}": array for dense, leaves in tree.items() for leaf, array in leaves.items()}

    def nested(self, arrays: Arrays) -> dict[str, Any]:
        """{"ir/kernel": ...} -> {"ir": {"kernel": ...}}."""
        return nested(arrays)

    def _names(self, layout: Layout) -> list[tuple[str, str, str, str]]:
        """By gate: the paths of the kernel of the input, the recurrent one, the bias, and the inner bias or ""."""
        lstm = "f" in layout.gates
        names = []
        for gate in layout.gates:
            i, h = (side + ("n" if gate == "h" else gate) for side in "ih")
            i = self.input_forget if i == "if" else i
            inner = f"{h}/bias" if gate == "h" else ""
            names.append((f"{i}/kernel", f"{h}/kernel", f"{h if lstm else i}/bias", inner))
        return names


class NNXByGate(Flax):
    """LSTMCell of Flax nnx: linen's layout with the attribute if_ for the dense layer if, a word of Python's."""

    title = "Flax nnx's LSTMCell"
    layouts: ClassVar[Layouts] = {"lstm": Flax.layouts["lstm"]}
    input_forget: ClassVar[str] = "if_"
