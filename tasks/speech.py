"""Speech spectrum prediction (goru:task-speech): from the frames of an utterance so far, the next one.

A recording (`tasks.sound`) is brought to 8 kHz and cut into frames of 256 samples, 32 ms, one every 128; a frame is
multiplied by a periodic Hann window and transformed to 129 frequencies, X.
Input at a step: a frame's 129 numbers.  Target: those of the next.  Loss: mean squared error, the mean over the steps
that there are: utterances are filled up to the longest of their batch, and a mask leaves out what was filled up.
Metric: the square root of it.

Two forms:
    paper     frames that lie in the recording; log|X| over the largest log|X| of the utterance
    released  as in Wisdom's code for the full-capacity uRNN, with which GORU's task began: zeros up to a multiple of
              128 samples, and 256 more on either side; 10 log10(|X|^2 + 1e-5), of samples whose full scale is 1, as it
              is.  The last frame's target is one more of silence, -50 dB, and counts.  Their mean divides by the frames
              that were filled up as well: their figures are smaller, by the share of the frames that are there.

What is left open: the GORU paper says neither the unit of |X| nor what log 0 is, and a largest logarithm of 0 or less
cannot be divided by.  Here |X| is of samples in steps of 16 bits (full scale 32,768) and at least 1, so that the
numbers lie between 0 and 1.  A mean squared error of such numbers is below 1; the paper's table has 41 to 60, which are
errors in another unit, decibels presumably.  Which 2,400, 600 and 1,000 utterances of TIMIT it took is not said either;
parts here are those of `tasks.utterances`.
"""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from ortho_ref.training.examples import Examples
from ortho_ref.training.task import Batch, Named, Vectors, check_choice
from tasks.files import Folder, contents
from tasks.parts import copy_without_baseline, part_of
from tasks.sets import SPEECH
from tasks.sound import resampled, samples_of
from tasks.utterances import parts_of

RATE, WINDOW, HOP, BINS = 8_000, 256, 128, 129
#: Of each form what an utterance is filled up with: silence.
FORMS = {"paper": 0.0, "released": -50.0}
_HANN = (1 - np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)) / 2


def frames_of(samples: np.ndarray, form: str = "paper") -> np.ndarray:
    """The frames (frames, 129), float32, of samples at 8 kHz, full scale 1; the last is only a target.

    ValueError: too few samples for a frame and the next, or, in the paper's form, only silence.
    """
    if form == "released":
        ends = (WINDOW, WINDOW + -len(samples) % HOP + HOP)  # the last HOP of zeros: the frame behind the last
        return (10 * np.log10(_powers(np.pad(samples, ends)) + 1e-5)).astype(np.float32)
    if len(samples) < WINDOW + HOP:
        raise ValueError(f"it has {len(samples)} samples at 8 kHz; a frame and the next take {WINDOW + HOP}")
    logarithms = np.log(np.maximum(_powers(32_768 * samples), 1))
    if not (largest := logarithms.max()):
        raise ValueError("it is silent: nothing in it is louder than a step of 16 bits")
    return (logarithms / largest).astype(np.float32)


def _powers(samples: np.ndarray) -> np.ndarray:
    """|X|^2 of each frame, (frames, 129)."""
    windows = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP]
    return abs(np.fft.rfft(windows * _HANN)) ** 2


class Speech(Examples):
    """Predict the next frame of an utterance's spectrum; data and errors as of `Stretches`, form as above.

    Parts are those of `tasks.utterances`, or a stretch of one, train:0-2400; what is held out unless given is valid
    where there is such a part, else test.
    """

    name: ClassVar[str] = "speech"
    input: ClassVar[Vectors] = Vectors(BINS)
    output_size: ClassVar[int] = BINS
    loss: ClassVar[str] = "mean_squared_error"
    metric: ClassVar[str] = "root_mean_squared_error"
    readout: ClassVar[str] = "every"

    def __init__(
        self,
        data: Path | str | None = None,
        train_part: str = "train",
        eval_part: str | None = None,
        form: str = "paper",
    ) -> None:
        check_choice("form", form, FORMS)
        self.form = form
        self.path = Folder(SPEECH, data).path
        self._parts = parts_of(self.path)
        self.data = Named(SPEECH.name, None, {})
        self._trained = self._files(train_part, "train_part")
        eval_part = eval_part or ("valid" if "valid" in self._parts else "test")
        self._training = self._read(train_part, self._trained)
        self._held_out = self._read(eval_part, self._apart(eval_part, "eval_part"))

    def _files(self, text: str, option: str) -> list[Path]:
        """The files of a stretch of a part."""
        part = part_of(text, self._parts, option)
        start, stop = part.bounds(len(self._parts[part.name]), option)
        return self._parts[part.name][start:stop]

    def _apart(self, text: str, option: str) -> list[Path]:
        """The files of a stretch of a part, of which none may be trained on."""
        files = self._files(text, option)
        if shared := set(files) & set(self._trained):
            raise ValueError(
                f"{option} is {text}, of which {len(shared):,} files are trained on, {min(shared).name} among them; "
                "give them apart"
            )
        return files

    def _read(self, text: str, files: list[Path]) -> list[np.ndarray]:
        """The frames of each file; what was read is noted under the part's name."""
        digest, utterances = hashlib.sha256(), []
        for path in files:
            data = contents(path)
            digest.update(hashlib.sha256(data).digest())
            samples, rate = samples_of(data, str(path))
            try:
                utterances.append(frames_of(resampled(samples, rate, RATE), self.form))
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        self.data = self.data._replace(sha256=self.data.sha256 | {text: digest.hexdigest()})
        return utterances

    @property
    def sizes(self) -> tuple[int, int]:
        """Utterances that are trained on, and held out."""
        return len(self._training), len(self._held_out)

    @cached_property
    def baseline(self) -> float:
        """The loss of a predictor that takes the next frame to be as this one."""
        errors = [np.square(np.diff(own.astype(np.float64), axis=0)) for own in self._held_out]
        return float(sum(own.sum() for own in errors) / sum(own.size for own in errors))

    def batch(self, chosen: np.ndarray, held_out: bool = False) -> Batch:
        """The batch of some utterances (B,): x and y (T, B, 129), mask (T, B); T is the longest one's."""
        utterances = [(self._held_out if held_out else self._training)[i] for i in chosen]
        steps = np.array([len(own) - 1 for own in utterances])
        shape = (int(steps.max()), len(steps), BINS)
        x, y = (np.full(shape, FORMS[self.form], np.float32) for _ in range(2))
        for b, own in enumerate(utterances):
            x[: len(own) - 1, b], y[: len(own) - 1, b] = own[:-1], own[1:]
        return Batch(x, y, np.arange(shape[0])[:, None] < steps)

    def on(self, part: str) -> "Speech":
        """The same task with another part held out; OSError and ValueError as above."""
        other = copy_without_baseline(self)
        other._held_out = other._read(part, other._apart(part, "part"))
        return other
