"""AWD-LSTM's regularizers: what is dropped, and what is added to the loss.

Dropout multiplies by s, 0 with probability p, else 1 / (1 - p).  Variational ("locked") dropout has one s for all steps
of a window; weight dropout one s for a recurrent weight, all steps of a window alike; embedding dropout one number for
every word of the vocabulary.  `network` applies them.

Activation regularization, k (T, B, n) what the readout reads, dropout done, N = T B n
    R = alpha / N sum k^2                                [bp:lm-penalty/ar]
    dk = (2 alpha / N) k                                 [bp:lm-penalty/ar_gradient]

Temporal activation regularization, h the same before dropout, M = (T - 1) B n, d_t = h_{t+1} - h_t
    R = beta / M sum d^2                                 [bp:lm-penalty/tar]
    dh_t = (2 beta / M) (d_{t-1} - d_t), d_0 = d_T = 0   [bp:lm-penalty/tar_gradient]

Merity, Keskar, Socher: Regularizing and Optimizing LSTM Language Models, ICLR 2018.
"""

from dataclasses import dataclass, fields

import numpy as np

from ortho_ref.backend import Array, xp_of
from ortho_ref.boundary import check_number
from ortho_ref.recurrent import Recurrent


@dataclass(frozen=True)
class Regularizers:
    """Rates of dropout, 0 <= rate < 1, and coefficients of penalties, >= 0.  All 0 unless given.

    Parameters
    ----------
    words : float
        Whole words of the embedding, for all of a window.
    inputs : float
        Locked, of the vectors that the first layer reads.
    hidden : float
        Locked, of the outputs of every layer but the last.
    outputs : float
        Locked, of the last layer's.
    weights : float
        Of the recurrent weights, all layers.
    weights_of : tuple of str
        Which, "U_r"; every one unless given.
    alpha : float
        Activation regularization.
    beta : float
        Temporal activation regularization.

    Raises
    ------
    ValueError
        One of them is not allowed.
    """

    words: float = 0.0
    inputs: float = 0.0
    hidden: float = 0.0
    outputs: float = 0.0
    weights: float = 0.0
    weights_of: tuple[str, ...] = ()
    alpha: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("words", "inputs", "hidden", "outputs", "weights"):
            check_number(f"dropout of {name}", getattr(self, name), lambda rate: 0 <= rate < 1, "0 <= rate < 1")
        for name in ("alpha", "beta"):
            check_number(name, getattr(self, name), lambda value: value >= 0, "a finite number >= 0")
            if isinstance(own := getattr(self, name), np.generic):
                object.__setattr__(self, name, own.item())  # a float64 would make the gradients so
        if isinstance(self.weights_of, str):
            raise ValueError(f"weights_of is {self.weights_of!r}; allowed: a tuple of names, ({self.weights_of!r},)")
        object.__setattr__(self, "weights_of", tuple(self.weights_of))
        if self.weights_of and not self.weights:
            raise ValueError(f"weights_of is {', '.join(self.weights_of)}, but no weights are dropped")

    @property
    def penalize(self) -> bool:
        """Whether anything is added to the loss."""
        return bool(self.alpha or self.beta)

    def __str__(self) -> str:
        shown = ((field.name, getattr(self, field.name)) for field in fields(self))
        return ", ".join(f"{name} {value}" for name, value in shown if value)

    def dropped_weights(self, layer: Recurrent) -> tuple[str, ...]:
        """The recurrent weights of a layer that entries are dropped of; ValueError for one that it keeps orthogonal."""
        if not self.weights:
            return ()
        own = layer.cell.recurrent_weights
        for name in self.weights_of or own:
            if name not in own:
                raise ValueError(f"weights_of names {name!r}; {type(layer.cell).__name__} has {', '.join(own)}")
            if name in layer.constrained:
                free = ", ".join(other for other in own if other not in layer.constrained) or "none"
                raise ValueError(
                    f"dropout of weights is {self.weights}, but {name} is kept by {layer.constrained[name]}: with "
                    f"entries set to 0 it would no longer be the matrix that this keeps, orthogonal or unitary; "
                    f"allowed for weights_of: {free}"
                )
        return self.weights_of or own

    def penalty(self, k: Array, h: Array) -> Array | float:
        """What is added to the loss, from k and h (T, B, n): what the readout reads, and the same before dropout."""
        total: Array | float = 0.0
        if self.alpha:
            total = total + self.alpha * (k * k).mean()  # [bp:lm-penalty/ar]
        if self.beta and len(h) > 1:
            d = h[1:] - h[:-1]
            total = total + self.beta * (d * d).mean()  # [bp:lm-penalty/tar]
        return total

    def penalty_gradients(self, k: Array, h: Array) -> tuple[Array | None, Array | None]:
        """dk and dh, by k and by h itself (without what comes through k), (T, B, n); None where nothing is added."""
        dk = dh = None
        if self.alpha:
            dk = (2 * self.alpha / k.size) * k  # [bp:lm-penalty/ar_gradient]
        if self.beta and len(h) > 1:
            d = h[1:] - h[:-1]
            d *= 2 * self.beta / d.size
            dh = xp_of(h).zeros(h.shape, h.dtype)
            dh[1:] += d  # [bp:lm-penalty/tar_gradient]
            dh[:-1] -= d  # [bp:lm-penalty/tar_gradient]
        return dk, dh
