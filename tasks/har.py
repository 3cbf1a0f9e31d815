"""What a person does, from a phone's sensors (sgornn:hyper): UCI HAR, 128 steps of nine signals, read at the end.

Input: body_acc x y z, body_gyro x y z, total_acc x y z, in this order, each standardised: its mean over the steps and
windows that are trained on is subtracted, and what is left divided by its standard deviation there.
Target, at the last step only.  Two classes (HAR-2): 0 for walking upstairs, sitting, laying (labels 2, 4, 6), 1 for
walking, walking downstairs, standing (1, 3, 5), from one logit; loss: binary cross-entropy.  Or all six: label - 1, of
six logits; loss: cross-entropy.

The SGORNN paper says only "a binary classification task derived from" the set: the labels that are merged, the order
of the channels and the standardisation are those of public code (EdgeML, VPRNN, SGORNN).  There the test part is the
validation part as well; so it is here unless told otherwise.
"""

import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np

from ortho_ref.training.task import Batch, Vectors
from tasks.files import text_of
from tasks.sets import HAR, HAR_CHANNELS, DataSet
from tasks.stretches import Stretches

STEPS, ACTIVITIES = 128, 6
#: The class of each label, of two; and of six.
MERGED = {2: [1, 0, 1, 0, 1, 0], 6: list(range(ACTIVITIES))}


def numbers(data: bytes, where: str) -> np.ndarray:
    """The numbers of a text, separated by blanks, (lines, numbers in each); ValueError for anything else."""
    text = text_of(data, where)
    lines = text.splitlines()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy's, for what it could not read
        try:
            found = np.fromstring(text, sep=" ")
        except (DeprecationWarning, ValueError):
            raise ValueError(f"{where} has something that is no number") from None
    width = len(lines[0].split()) if lines else 0
    if found.size != width * len(lines) or any(len(line.split()) != width for line in lines):
        raise ValueError(f"{where} has lines of different lengths; expected {width} numbers on each, as on the first")
    if not np.isfinite(found).all():
        raise ValueError(f"{where} has a number that is not finite")
    return found.reshape(len(lines), width)


class Har(Stretches):
    """Tell an activity from the signals of a phone, of 2 classes or 6; options and errors as of `Stretches`.

    mean, deviation (9,): of each channel, where it is trained on.
    """

    SET: ClassVar[DataSet] = HAR
    name: ClassVar[str] = "har"
    input: ClassVar[Vectors] = Vectors(len(HAR_CHANNELS))
    readout: ClassVar[str] = "last"

    def __init__(
        self,
        data: Path | str | None = None,
        train_part: str = "train",
        eval_part: str = "test",
        classes: int = 2,
        other_data: bool = False,
    ) -> None:
        if classes not in MERGED:
            raise ValueError(f"classes is {classes!r}; allowed: 2, 6")
        self.classes = classes
        super().__init__(data, train_part, eval_part, other_data)
        signals = self._training[0]
        self.mean = signals.mean(axis=(0, 1), dtype=np.float64)
        self.deviation = signals.std(axis=(0, 1), dtype=np.float64)
        if not self.deviation.all():
            still = ", ".join(c for c, deviation in zip(HAR_CHANNELS, self.deviation, strict=True) if not deviation)
            raise ValueError(f"{self._folder.path}: {still} never changes in {train_part}; it cannot be standardised")

    def _read(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Signals (N, 128, 9) and classes (N,)."""
        where = f"{self._folder.path}: {part}/y_{part}.txt"
        labels = numbers(self._folder.read(f"{part}/y_{part}.txt"), where)
        if labels.shape[1] != 1 or not np.isin(labels, np.arange(1, ACTIVITIES + 1)).all():
            raise ValueError(f"{where} has another label than 1 to {ACTIVITIES}, one a line")
        signals = []
        for channel in HAR_CHANNELS:
            name = f"{part}/Inertial Signals/{channel}_{part}.txt"
            own = numbers(self._folder.read(name), f"{self._folder.path}: {name}")
            if own.shape != (len(labels), STEPS):
                raise ValueError(
                    f"{self._folder.path}: {name} has {own.shape[0]:,} windows of {own.shape[1]} steps; expected "
                    f"{len(labels):,} of {STEPS}, as there are labels"
                )
            signals.append(own)
        return np.stack(signals, axis=2), np.array(MERGED[self.classes])[labels[:, 0].astype(np.intp) - 1]

    @property
    def output_size(self) -> int:
        """One logit for two classes; else one for each."""
        return 1 if self.classes == 2 else self.classes

    @property
    def loss(self) -> str:
        """Binary cross-entropy for two classes."""
        return "binary_cross_entropy" if self.classes == 2 else "cross_entropy"

    @property
    def metric(self) -> str:
        """The share that is right."""
        return "binary_accuracy" if self.classes == 2 else "accuracy"

    def batch(self, chosen: np.ndarray, held_out: bool = False) -> Batch:
        """The batch of some windows (B,): x (128, B, 9), y (B,)."""
        signals, labels = self._held_out if held_out else self._training
        x = (signals[chosen].swapaxes(0, 1) - self.mean) / self.deviation
        return Batch(np.ascontiguousarray(x, np.float32), labels[chosen])
