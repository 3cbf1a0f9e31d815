"""Digits, a pixel a step (urnn:task-mnist): 28 x 28 grey levels as 784 steps, the digit at the end.

Input: one number a step, the grey level / 255, row by row, each from left to right; the rows from top to bottom, as
all released code has them, or from bottom to top, as the uRNN paper's text does.
Target, at the last step only: the digit, of 10 classes.  Loss: cross-entropy.

Files: MNIST's own, IDX, gzipped or not.  What trains and what is held out are stretches of its parts, "train" (60,000
images) and "test" (the file's name is t10k; 10,000): by default all of "train" but the first 5,000, and these, as in
the code of full-capacity uRNN.
"""

import math
from pathlib import Path
from typing import ClassVar

import numpy as np

from ortho_ref.training.task import Batch, Vectors, check_choice
from tasks.sets import MNIST, DataSet
from tasks.stretches import Stretches

PREFIXES = {"train": "train", "test": "t10k"}
ROWS = ("top", "bottom")
SIDE, DIGITS = 28, 10
#: IDX: two zeros, 8 for unsigned bytes, the number of axes; then the axes' lengths.
IMAGES, LABELS = 0x0803, 0x0801


def read_idx(data: bytes, magic: int, where: str) -> np.ndarray:
    """The uint8 array of an IDX file whose first four bytes have to be `magic`; ValueError for another."""
    axes = magic & 0xFF
    header = np.frombuffer(data[: 4 * (axes + 1)].ljust(4 * (axes + 1), b"\0"), ">u4")
    if len(data) < 4 * (axes + 1) or header[0] != magic:
        begins = data[:4].hex(" ") or "nothing"
        raise ValueError(f"{where} begins with {begins}; expected an IDX file, which begins with {magic:08x}")
    shape = tuple(map(int, header[1:]))
    if 0 in shape:
        raise ValueError(f"{where} is empty: its header says {shape}")
    if len(data) != 4 * (axes + 1) + math.prod(shape):
        raise ValueError(f"{where} has {len(data):,} bytes; its header says {4 * (axes + 1) + math.prod(shape):,}")
    return np.frombuffer(data, np.uint8, offset=4 * (axes + 1)).reshape(shape)


class Mnist(Stretches):
    """Tell a digit from its pixels, one a step; options and errors as of `Stretches`.

    rows: top or bottom, which row comes first.  order (784,): the pixel, counted row by row from the top left, at each
    step.
    """

    SET: ClassVar[DataSet] = MNIST
    name: ClassVar[str] = "mnist"
    input: ClassVar[Vectors] = Vectors(1)
    classes = DIGITS
    output_size: ClassVar[int] = DIGITS
    loss: ClassVar[str] = "cross_entropy"
    metric: ClassVar[str] = "accuracy"
    readout: ClassVar[str] = "last"

    def __init__(
        self,
        data: Path | str | None = None,
        train_part: str = "train:5000-60000",
        eval_part: str = "train:0-5000",
        rows: str = "top",
        other_data: bool = False,
    ) -> None:
        check_choice("rows", rows, ROWS)
        super().__init__(data, train_part, eval_part, other_data)
        pixels = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
        self.order = (pixels if rows == "top" else pixels[::-1]).reshape(-1)

    def _read(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Images (N, 784) and digits (N,)."""
        prefix = PREFIXES[part]
        names = f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"
        wheres = [f"{self._folder.path}: {name}" for name in names]
        images = read_idx(self._folder.read(names[0]), IMAGES, wheres[0])
        digits = read_idx(self._folder.read(names[1]), LABELS, wheres[1])
        if images.shape[1:] != (SIDE, SIDE):
            raise ValueError(f"{wheres[0]} has images of {images.shape[1:]} pixels; expected {(SIDE, SIDE)}")
        if len(images) != len(digits):
            raise ValueError(f"{wheres[1]} has {len(digits):,} labels for {len(images):,} images")
        if len(digits) and digits.max() >= DIGITS:
            raise ValueError(f"{wheres[1]} has the label {digits.max()}; expected 0 to {DIGITS - 1}")
        return images.reshape(len(images), -1), digits

    def batch(self, chosen: np.ndarray, held_out: bool = False) -> Batch:
        """The batch of some images (B,): x (784, B, 1), y (B,)."""
        images, digits = self._held_out if held_out else self._training
        x = images[chosen][:, self.order].T.astype(np.float32, order="C") / np.float32(255)
        return Batch(x[:, :, None], digits[chosen].astype(np.intp))
