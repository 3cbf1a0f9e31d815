"""Recordings as numbers: WAV and NIST SPHERE files, of their first channel the samples, at another rate.

WAV: PCM of 8, 16, 24 or 32 bits, or floating-point numbers, read by scipy.io.wavfile.  SPHERE, the format of TIMIT's
own files, which are called .WAV too: a text header of lines "name -type value", then 16-bit PCM.  Integers are divided
by half their range, so that full scale is 1; floating-point numbers are taken as they are.

scipy.signal and scipy.io take seconds to import: they are imported where a recording is read, not with the other tasks.
"""

import io
import math
import struct
import warnings
from pathlib import PurePath
from typing import Literal

import numpy as np

RATES = (1_000, 384_000)
#: Numerator and denominator that a rate has at most, over the one it is brought to.
LONGEST = 50_000


def samples_of(data: bytes, where: str) -> tuple[np.ndarray, int]:
    """The samples of a file's first channel, float64, full scale 1, and how many there are in a second.

    ValueError: it is no recording, empty, damaged, cut short or compressed.
    """
    if not data:
        raise ValueError(f"{where} is empty; expected a WAV file")
    if data[:4] in (b"RIFF", b"RIFX", b"RF64"):
        samples, rate = _of_wav(data, where)
    elif data[:8] == b"NIST_1A\n":
        samples, rate = _of_sphere(data, where)
    else:
        raise ValueError(
            f"{where} begins with {data[:8]!r}; expected a WAV file, which begins with RIFF, or NIST SPHERE, NIST_1A"
        )
    if not RATES[0] <= rate <= RATES[1]:
        raise ValueError(f"{where} has {rate:,} samples a second; allowed: {RATES[0]:,} to {RATES[1]:,}")
    if samples.size == 0:
        raise ValueError(f"{where} has no samples")
    first = samples[:, 0] if samples.ndim == 2 else samples
    kind, bits = first.dtype.kind, 8 * first.dtype.itemsize
    if kind == "f":
        if not np.isfinite(first).all():
            raise ValueError(f"{where} has a sample that is not finite")
        return first.astype(np.float64), rate
    zero, full = (1 << (bits - 1) if kind == "u" else 0), 1 << (bits - 1)
    return (first.astype(np.float64) - zero) / full, rate


class _Whole(io.BytesIO):
    """A file's bytes; ValueError for more, in place of as many as there are."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if size is not None and len(data) < size and size > 8:  # a chunk's own header may be missing at the end
            raise ValueError(f"its header says {size:,} bytes where {len(data):,} are left")
        return data


#: What a program that writes into a pipe leaves for sizes that it cannot know.
_UNKNOWN = (0, 0xFFFFFFFF)


def _with_sizes(data: bytes) -> bytes:
    """A WAV file that was written into a pipe, with its sizes: the samples go to its end, in whole blocks."""
    order: Literal["big", "little"] = "big" if data[:4] == b"RIFX" else "little"

    def number(at: int, width: int = 4) -> int:
        return int.from_bytes(data[at : at + width], order)

    if data[:4] == b"RF64" or number(4) not in _UNKNOWN:
        return data
    at, block = 12, 1
    while at + 8 <= len(data):
        name, size, begin = data[at : at + 4], number(at + 4), at + 8
        if name == b"fmt ":
            block = max(number(begin + 12, 2), 1)
        if name == b"data":
            size = (len(data) - begin) // block * block if size in _UNKNOWN else size
            head = data[:4] + (begin + size - 8).to_bytes(4, order) + data[8 : at + 4] + size.to_bytes(4, order)
            return head + data[begin : begin + size]
        at = begin + size + size % 2
    return data


#: What SciPy raises for a file that is none.
_NO_WAV = (ValueError, TypeError, ArithmeticError, LookupError, NameError, EOFError, struct.error)


def _of_wav(data: bytes, where: str) -> tuple[np.ndarray, int]:
    from scipy.io import wavfile

    data = _with_sizes(data)
    size = 8 + int.from_bytes(data[4:8], "big" if data[:4] == b"RIFX" else "little")
    if data[:4] != b"RF64" and size > len(data):
        raise ValueError(f"{where} is cut short: it has {len(data):,} bytes; its header says {size:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # a chunk that it does not know
            warnings.filterwarnings("error", "Reached EOF", wavfile.WavFileWarning)
            rate, samples = wavfile.read(_Whole(data))
    except (*_NO_WAV, wavfile.WavFileWarning) as error:
        raise ValueError(
            f"{where} is damaged, or no WAV file of PCM or floating-point numbers: {str(error)[:200]}"
        ) from None
    return samples, int(rate)


def _of_sphere(data: bytes, where: str) -> tuple[np.ndarray, int]:
    try:
        begin = int(data[8:16])
        lines = data[16:begin].decode("ascii").splitlines()
        fields = {line.split()[0]: line.split(maxsplit=2)[-1] for line in lines[: lines.index("end_head")] if line}
        coding = fields.get("sample_coding", "pcm")
        count, rate, channels, width = (
            int(fields[name]) for name in ("sample_count", "sample_rate", "channel_count", "sample_n_bytes")
        )
        order = {"01": "<", "10": ">"}[fields["sample_byte_format"]] if coding == "pcm" else ""
    except (ValueError, LookupError):
        raise ValueError(f"{where} begins as a NIST SPHERE file, but its header is damaged or cut short") from None
    if coding != "pcm" or width != 2:
        name = PurePath(where).name
        raise ValueError(
            f"{where} is a NIST SPHERE file of {coding}, {8 * width} bits; expected 16-bit pcm; convert it: "
            f"sph2pipe -p -f wav {name} {PurePath(name).stem}.riff.wav"
        )
    if count < 0 or not 1 <= channels < 1 << 16 or begin < 16:
        raise ValueError(f"{where}: its header says {count} samples of {channels} channels from byte {begin} on")
    if begin + 2 * count * channels > len(data):
        raise ValueError(
            f"{where} is cut short: it has {len(data):,} bytes; its header says {begin + 2 * count * channels:,}"
        )
    samples = np.frombuffer(data, f"{order}i2", count * channels, begin)
    return samples.reshape(count, channels), rate


def resampled(samples: np.ndarray, rate: int, to: int) -> np.ndarray:
    """Samples (N,) at another rate, (ceil(N to / rate),); at the same rate the samples themselves.

    Low-pass filtered and interpolated by scipy.signal.resample_poly, whose filter is that of MATLAB's resample.
    """
    if rate == to:
        return samples
    shared = math.gcd(rate, to)
    if max(rate, to) // shared > LONGEST:  # a filter twenty times as long
        raise ValueError(f"it has {rate:,} samples a second, which cannot be brought to {to:,}: convert it before")
    from scipy import signal

    return signal.resample_poly(samples, to // shared, rate // shared)
