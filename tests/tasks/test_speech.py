"""Speech: recordings as numbers, which of them are held out, their frames [goru:task-speech]."""

import cmath
import hashlib
import io
import math
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.io import wavfile

from ortho_ref.losses import LOSSES, METRICS
from tasks.sound import resampled, samples_of
from tasks.speech import FORMS, Speech, frames_of
from tasks.utterances import CORE_TEST, DEVELOPMENT, parts_of
from tests.tasks import made

# Files


@pytest.mark.parametrize(
    ("dtype", "step"),
    [(np.uint8, 2**-7), (np.int16, 2**-15), (np.int32, 2**-31), (np.float32, 2**-24), (np.float64, 0)],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_wav(tmp_path, dtype, step, channels):
    """Of every width, full scale 1; of two channels the first."""
    samples = made.recording(700)
    both = samples if channels == 1 else np.stack([samples, -samples], axis=1)
    made.wav(tmp_path / "a.wav", both, 11025, dtype)
    found, rate = samples_of((tmp_path / "a.wav").read_bytes(), "a.wav")
    assert (rate, found.dtype, found.shape) == (11025, np.float64, (700,))
    np.testing.assert_allclose(found, samples, atol=1.51 * step, rtol=0)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_from_a_pipe(tmp_path, size, channels):
    """Its sizes were not known when it was written: it is read to its end, without what is left of a last block."""
    samples = np.stack([made.recording(700)] * channels, axis=1)
    made.wav(tmp_path / "a.wav", samples, 8000, np.int16)
    data = bytearray((tmp_path / "a.wav").read_bytes())
    expected = samples_of(bytes(data), "a.wav")[0]
    unknown = size.to_bytes(4, "little")
    at = data.index(b"data") + 4
    data[4:8], data[at : at + 4] = unknown, unknown
    for rest in (b"", b"x" * (2 * channels - 1)):
        np.testing.assert_array_equal(samples_of(bytes(data) + rest, "a.wav")[0], expected)
    with pytest.raises(ValueError, match="has no samples"):
        samples_of(bytes(data[: at + 4]), "a.wav")


def test_wav_of_24_bits():
    """Three bytes each, which scipy hands over in four."""
    values = np.array([0, 1, -1, 2**22, -(2**23), 2**23 - 1])
    data = b"".join(int(value).to_bytes(3, "little", signed=True) for value in values)
    form = (
        b"fmt "
        + (16).to_bytes(4, "little")
        + b"".join(
            value.to_bytes(size, "little") for value, size in ((1, 2), (1, 2), (48000, 4), (144000, 4), (3, 2), (24, 2))
        )
    )
    body = b"WAVE" + form + b"data" + len(data).to_bytes(4, "little") + data
    found, rate = samples_of(b"RIFF" + len(body).to_bytes(4, "little") + body, "a.wav")
    assert (rate, found.tolist()) == (48000, (values / 2**23).tolist())


@pytest.mark.parametrize("order", ["01", "10"])
@pytest.mark.parametrize("channels", [1, 2])
def test_sphere(order, channels):
    """As TIMIT's files are, in either order of bytes; what stands behind the samples is not read."""
    samples = made.recording(500)
    both = samples if channels == 1 else np.stack([samples, -samples], axis=1)
    found, rate = samples_of(made.sphere(both, order=order) + b"tail", "SA1.WAV")
    assert (rate, found.shape) == (16000, (500,))
    np.testing.assert_allclose(found, samples, atol=2**-15, rtol=0)


def plain(samples, rate=8000, **options):
    file = io.BytesIO()
    wavfile.write(file, rate, np.asarray(samples, **options))
    return file.getvalue()


GOOD = plain(np.arange(50), dtype=np.int16)
HEADER = made.sphere(np.zeros(9))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.wav is empty; expected a WAV file"),
        (b"fLaC\0\0\0\x22more", "a.wav begins with b'fLaC\\x00\\x00\\x00\"'; expected a WAV file, which begins"),
        (b"RI", "a.wav begins with b'RI'; expected a WAV file"),
        (GOOD[:-10], "a.wav is cut short: it has 134 bytes; its header says 144"),
        (GOOD[:30], "a.wav is cut short: it has 30 bytes; its header says 144"),
        (GOOD.replace(b"data", b"date"), "a.wav is damaged, or no WAV file of PCM or floating-point numbers: "),
        (GOOD[:20] + b"\x07" + GOOD[21:], "numbers: Unknown wave file format: MULAW."),
        (GOOD.replace(b"data\x64", b"data\xff"), "numbers: its header says 255 bytes where 100 are left"),
        (HEADER.replace(b"channel_count -i 1", b"channel_count -i 70000"), "a.wav: its header says 9 samples of 70000"),
        (plain([], dtype=np.int16), "a.wav has no samples"),
        (plain([0.0, math.nan]), "a.wav has a sample that is not finite"),
        (plain([1, 2], rate=7, dtype=np.int16), "a.wav has 7 samples a second; allowed: 1,000 to 384,000"),
        (plain([1, 2], rate=10**9, dtype=np.int16), "a.wav has 1,000,000,000 samples a second; allowed"),
        (HEADER[:-1], "a.wav is cut short: it has 1,041 bytes; its header says 1,042"),
        (HEADER[:90], "a.wav begins as a NIST SPHERE file, but its header is damaged or cut short"),
        (HEADER.replace(b"sample_rate", b"sample_mate"), "a.wav begins as a NIST SPHERE file, but its header is"),
        (HEADER.replace(b"-s2 01", b"-s2 12"), "a.wav begins as a NIST SPHERE file, but its header is"),
        (made.sphere(np.zeros(9), count=-1), "a.wav: its header says -1 samples of 1 channels from byte 1024 on"),
        (
            made.sphere(np.zeros(9), coding="pcm,embedded-shorten-v2.00"),
            "a.wav is a NIST SPHERE file of pcm,embedded-shorten-v2.00, 16 bits; expected 16-bit pcm; convert it: "
            "sph2pipe -p -f wav a.wav a.riff.wav",
        ),
        (made.sphere(np.zeros(9), coding="ulaw", width=1), "a.wav is a NIST SPHERE file of ulaw, 8 bits; expected"),
    ],
)
def test_files_that_are_no_recordings(data, message):
    """One line that names the file and what was expected."""
    with pytest.raises(ValueError, match=re.escape(message)) as found:
        samples_of(data, "a.wav")
    assert str(found.value).startswith("a.wav")
    assert "\n" not in str(found.value)


def test_a_rate_that_takes_a_long_filter():
    """A header of one byte that is another: 351 MB and 3 seconds for a filter, were it made."""
    with pytest.raises(
        ValueError, match=r"^it has 383,987 samples a second, which cannot be brought to 8,000: convert"
    ):
        resampled(np.zeros(1), 383_987, 8000)


@given(
    place=st.integers(0, 60), byte=st.integers(0, 255), cut=st.integers(1, 144), kind=st.sampled_from([GOOD, HEADER])
)
def test_damaged_files(place, byte, cut, kind):
    """Whatever byte of a header is another, and wherever a file is cut: samples, or one ValueError."""
    for data in (kind[:place] + bytes([byte]) + kind[place + 1 :], kind[:-cut]):
        try:
            found, rate = samples_of(data, "a.wav")
        except ValueError:
            continue
        assert found.ndim == 1
        assert rate >= 1000


@pytest.mark.parametrize("rate", [16000, 22050, 44100, 8001, 6000])
def test_resampled(rate):
    """A tone of 440 Hz is one at 8 kHz; one of 5 kHz, which 8 kHz cannot have, is gone."""
    t, to = np.arange(rate) / rate, 8000
    found = resampled(np.sin(2 * np.pi * 440 * t), rate, to)
    assert found.shape == (8000,)
    middle = slice(400, -400)
    np.testing.assert_allclose(found[middle], np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)[middle], atol=2e-3)
    if rate > 10000:
        assert abs(resampled(np.sin(2 * np.pi * 5000 * t), rate, to)[middle]).max() < 1e-2
    same = np.arange(5.0)
    assert resampled(same, 8000, 8000) is same


# Which are held out


def empty(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def named(folder):
    return {part: [path.relative_to(folder).as_posix() for path in files] for part, files in parts_of(folder).items()}


@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_timit(tmp_path, case):
    """Speakers of the development and the core test set apart, others of test and the sentences sa left out; a
    converted copy beside an original is not read again; train speakers whose name has "sa" in it are kept."""
    assert (len(DEVELOPMENT), len(CORE_TEST), len(DEVELOPMENT & CORE_TEST)) == (50, 24, 0)
    sentences = ["sa1", "sa2", "si1111", "sx22"]
    speakers = ["train/dr1/fcjf0", "train/dr8/mbsa0"]
    speakers += [f"test/{speaker}" for speaker in ("dr1/faks0", "dr7/mdlf0", "dr1/mdab0", "dr2/mabw0")]
    names = [case(f"timit/{speaker}/{sentence}.wav") for speaker in speakers for sentence in sentences]
    empty(tmp_path, [*names, names[2] + ".wav", "._x.wav", "timit/readme.doc"])
    kept = [name for name in names if "/sa" not in name.lower()]
    assert named(tmp_path) == {"train": kept[:4], "valid": sorted(kept[4:8]), "test": kept[8:10]}


def test_digits(tmp_path):
    """Takes 0 to 4 are the test part, as the set has it; each speaker, and all others, are parts too."""
    empty(tmp_path, [f"{digit}_{name}_{take}.wav" for digit in (0, 9) for name in ("a", "b") for take in (0, 4, 5, 49)])
    parts = named(tmp_path)
    assert parts.keys() == {"train", "test", "a", "no-a", "b", "no-b"}
    assert {len(files) for files in parts.values()} == {8}
    assert {name.split("_")[2] for name in parts["test"]} == {"0.wav", "4.wav"}
    assert {name.split("_")[1] for name in parts["no-a"]} == {"b"}


def test_other_folders(tmp_path):
    """By folders of these names; else every tenth file is held out, in the order of names whatever their case."""
    empty(tmp_path / "a", ["train/x.wav", "dev/y/z.wav", "test/1.wav", "test/0.sph", "train/notes.txt"])
    test = ["test/0.sph", "test/1.wav"]
    assert named(tmp_path / "a") == {"train": ["train/x.wav"], "valid": ["dev/y/z.wav"], "test": test}
    names = [f"{'aB'[i % 2]}{i:02}.wav" for i in range(23)]
    empty(tmp_path / "b", names)
    names.sort(key=str.lower)
    assert named(tmp_path / "b") == {"train": [*names[:9], *names[10:19], *names[20:]], "test": [names[9], names[19]]}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.flac"], r"has no recording; expected files that end in \.wav or \.sph, of any case$"),
        (["1_a_1.wav", "2_a_1.wav", "2_a.wav"], r"2_a\.wav is not DIGIT_SPEAKER_TAKE\.wav, as 2 others are; move"),
        (["train/dr1/fcjf0/si1.wav", "test/dr1/mdab0/si1.wav", "x.wav"], r"x\.wav is not train\|test/DR1-8/SPEAKER"),
        (["1_a_1.wav", "1_test_1.wav", "2_Test_7.wav"], r"1_test_1\.wav is of a speaker 'test', as another part is"),
        (["1_a_1.wav", "1_no-a_1.wav"], r"1_no-a_1\.wav is of a speaker 'no-a', as another part is called; rename"),
        (["train/a.wav", "test/b.wav", "c.wav"], r"c\.wav is not in train, valid or test, as 2 others are; move"),
        (["train/dr1/fcjf0/sa1.wav"], "has no recording of a part: of TIMIT's, only sa sentences or other speakers$"),
    ],
)
def test_folders_that_are_none(tmp_path, names, message):
    """The error names the folder, or the file that is not like the others."""
    empty(tmp_path, names)
    with pytest.raises(ValueError, match=message):
        parts_of(tmp_path)


# Frames


def slow_powers(samples):
    """|X|^2 of every frame, by the definition of the transform."""
    hann = [0.5 - 0.5 * math.cos(2 * math.pi * n / 256) for n in range(256)]
    frames = []
    for start in range(0, len(samples) - 255, 128):
        window = [w * s for w, s in zip(hann, samples[start : start + 256], strict=True)]
        turns = [[cmath.exp(-2j * math.pi * k * n / 256) for n in range(256)] for k in (0, 1, 17, 128)]
        frames.append([abs(sum(w * turn for w, turn in zip(window, own, strict=True))) ** 2 for own in turns])
    return frames


@pytest.mark.parametrize("count", [384, 1000, 1024])
def test_frames_number_by_number(count):
    """Both forms against the definitions: frames in the recording, logarithm over the largest; or zeros on either side,
    decibels, and a frame of silence at the end [goru:task-speech]."""
    samples = made.recording(count)
    found = frames_of(samples)
    logarithms = np.log(np.maximum(slow_powers(32768 * samples), 1))
    assert found.shape == ((count - 256) // 128 + 1, 129)
    assert (found.dtype, found.max()) == (np.float32, 1)
    windows = [32768 * samples[start : start + 256] * np.hanning(257)[:-1] for start in range(0, count - 255, 128)]
    largest = np.log(abs(np.fft.fft(windows)).max() ** 2)
    np.testing.assert_allclose(found[:, [0, 1, 17, 128]], logarithms / largest, rtol=1e-6)
    found = frames_of(samples, "released")
    padded = [0.0] * 256 + samples.tolist() + [0.0] * (256 + -count % 128)
    decibels = [[10 * math.log10(power + 1e-5) for power in frame] for frame in slow_powers(padded)]
    assert len(found) == -(-count // 128) + 4 == len(decibels) + 1
    np.testing.assert_allclose(found[:-1, [0, 1, 17, 128]], decibels, rtol=1e-6)
    np.testing.assert_allclose(found[[0, -2, -1]], -50, rtol=1e-6)


def test_recordings_without_frames():
    """Too short for a frame and the next; silent; the released form takes both."""
    with pytest.raises(ValueError, match=r"^it has 383 samples at 8 kHz; a frame and the next take 384$"):
        frames_of(made.recording(383))
    with pytest.raises(ValueError, match=r"^it is silent: nothing in it is louder than a step of 16 bits$"):
        frames_of(np.zeros(999))
    assert frames_of(np.zeros(0), "released").shape == (4, 129)


# The task


@pytest.mark.parametrize("form", FORMS)
def test_batches_written_out(tmp_path, form):
    """At a step a frame, its target the next; behind the end silence that does not count; the held-out part in the
    order of names; each utterance once in a pass [goru:task-speech]."""
    own = made.digits(tmp_path)
    task = Speech(tmp_path, form=form)
    held_out = [name for name in sorted(own) if int(name[-5]) < 5]
    (batch,) = task.evaluation()
    frames = [frames_of(np.rint(own[name] * 32767) / 32768, form) for name in held_out]
    assert batch.x.shape == (max(map(len, frames)) - 1, 8, 129)
    for b, expected in enumerate(frames):
        steps = len(expected) - 1
        np.testing.assert_array_equal(batch.x[:steps, b], expected[:-1])
        np.testing.assert_array_equal(batch.y[:steps, b], expected[1:])
        assert (batch.x[steps:, b] == FORMS[form]).all()
        assert batch.mask[:, b].tolist() == [True] * steps + [False] * (len(batch.x) - steps)
    drawn = [own for _, own in zip(range(2), task.batches(np.random.default_rng(0), 4), strict=False)]
    lengths = sorted(int(own.mask[:, b].sum()) for own in drawn for b in range(4))
    trained = [name for name in own if int(name[-5]) >= 5]
    assert lengths == sorted(len(frames_of(own[name], form)) - 1 for name in trained)


@pytest.mark.parametrize("form", FORMS)
def test_a_solver_and_the_baseline(tmp_path, form):
    """The targets themselves have loss 0; the frame before has the baseline, by the loss of the batch and number by
    number."""
    made.digits(tmp_path)
    task = Speech(tmp_path, form=form)
    (batch,) = task.evaluation()
    assert LOSSES[task.loss](batch.y, batch.y, batch.mask)[0] == 0
    x, y = batch.x.astype(float), batch.y.astype(float)
    still = LOSSES[task.loss](x, y, batch.mask)[0]
    assert math.isclose(task.baseline, still, rel_tol=1e-12)
    errors = [float((a - b) ** 2) for a, b in zip(x[batch.mask].ravel(), y[batch.mask].ravel(), strict=True)]
    assert math.isclose(task.baseline, math.fsum(errors) / len(errors), rel_tol=1e-12)
    assert METRICS[task.metric](task.baseline, x, y, batch.mask) == math.sqrt(task.baseline)


def test_rates_and_formats_give_the_same_frames(tmp_path):
    """A recording as WAV at 8 and 16 kHz and as SPHERE: frames within what 16 bits and the filter leave."""
    t = np.arange(32000) / 16000
    samples = sum(0.2 * np.sin(2 * np.pi * f * t) for f in (300, 1100, 2300))
    for i in range(10):
        made.wav(tmp_path / "a" / f"{i}.wav", samples[::2], 8000)
        made.wav(tmp_path / "b" / f"{i}.wav", samples, 16000, np.float32)
        (tmp_path / "c").mkdir(exist_ok=True)
        (tmp_path / "c" / f"{i}.WAV").write_bytes(made.sphere(samples))
    one, two, three = (next(Speech(tmp_path / name, form="released").evaluation()) for name in "abc")
    loud = one.x[10:-10] > 0
    np.testing.assert_allclose(two.x[10:-10][loud], one.x[10:-10][loud], atol=0.05)
    np.testing.assert_allclose(three.x[10:-10], two.x[10:-10], atol=1)


def test_parts_and_names(tmp_path):
    """Stretches and speakers; the hash is of what was read, in order, wherever it is called what; the held-out part
    unless given."""
    made.digits(tmp_path)
    task = Speech(tmp_path, "no-theo:0-3", "theo")
    assert task.sizes == (3, 8)
    files = sorted((tmp_path / "recordings").glob("*_theo_*"))
    digest = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()
    assert (task.data.set, task.data.published, task.data.sha256["theo"]) == ("speech", None, digest)
    assert set(task.on("george:3-4").data.sha256) == {"no-theo:0-3", "theo", "george:3-4"}
    empty_parts = tmp_path / "b"
    for name in ("train", "valid", "test"):
        made.wav(empty_parts / name / "a.wav", made.recording(900, seed=len(name)))
    assert set(Speech(empty_parts).data.sha256) == {"train", "valid"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "db"}, "form is 'db'; allowed: 'paper', 'released'"),
        ({"train_part": "all"}, "train_part is 'all'; allowed: "),
        ({"train_part": "train:0-9"}, "train_part is train:0-9; train has 8 examples here"),
        ({"eval_part": "theo"}, "eval_part is theo, of which 4 files are trained on, 0_theo_5.wav among them"),
        ({"eval_part": "train:7-"}, "eval_part is train:7-, of which 1 files are trained on, 1_theo_6.wav among them"),
    ],
)
def test_parts_that_cannot_be(tmp_path, options, message):
    """The error names the option, what was given and what there is."""
    made.digits(tmp_path)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Speech(tmp_path, **options)


def test_a_file_that_cannot_be_used(tmp_path):
    """It is named; no folder, no set."""
    made.digits(tmp_path)
    path = tmp_path / "recordings/1_theo_6.wav"
    for data, message in (
        (b"", f"{path} is empty"),
        (plain(np.ones(99), dtype=np.int16), f"{path}: it has 99 samples at"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=re.escape(message)):
            Speech(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"which is not there; expected a folder; it is not fetched \(TIMIT is"):
        Speech(tmp_path / "none")
