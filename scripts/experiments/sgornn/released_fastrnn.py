"""SGORNN's released FastRNN: an orthogonal U at the start, alpha = -3.75, and the gates clipped as SGORNN's are."""

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.cells import FastRNN
from ortho_ref.recurrent import Recurrent


def fastrnn(input_size: int, hidden_size: int, *, clip: bool = True) -> Recurrent:
    """FastRNN with ReLU, started as SGORNN: W Glorot uniform, b = 0; U stays free."""
    cell = FastRNN("relu", "sgornn" if clip else None)
    return Recurrent(cell, initial={"U": orthogonal}, sizes=(input_size, hidden_size))


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Uniform over the orthogonal matrices (Mezzadri 2007): Q of a normal matrix, R's diagonal made positive."""
    Q, R = np.linalg.qr(rng.standard_normal(shape))
    return (Q * np.copysign(1, np.diag(R))).astype(dtype)
