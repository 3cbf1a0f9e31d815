"""Small data sets, made in each format."""

import gzip

import numpy as np
from scipy.io import wavfile

from tasks.sets import BABI_FILES, BABI_TASKS, HAR_CHANNELS

WORDS = {
    "train": " the <unk> sat on the N mats \n a cat 's hat \n" * 40,
    "valid": " the cat sat on a hat \n N mats \n" * 12,
    "test": " a cat \n the hat sat \n" * 9,
}


def draw(task, batch_size, seed=0):
    """One batch of a task whose every step counts: x and y."""
    batch = next(task.batches(np.random.default_rng(seed), batch_size))
    assert (batch.mask, batch.carries_state) == (None, False)
    return batch.x, batch.y


def idx(array):
    """An IDX file of unsigned bytes."""
    header = [0x0800 + array.ndim, *array.shape]
    return np.array(header, ">u4").tobytes() + array.astype(np.uint8).tobytes()


def mnist(folder, counts=(60, 30), zipped=True, seed=0):
    """MNIST's four files; part -> images (N, 28, 28) and digits (N,)."""
    rng, made = np.random.default_rng(seed), {}
    folder.mkdir(parents=True, exist_ok=True)
    for (part, prefix), count in zip((("train", "train"), ("test", "t10k")), counts, strict=True):
        made[part] = rng.integers(0, 256, (count, 28, 28)), rng.integers(0, 10, count)
        for kind, array in zip(("images-idx3", "labels-idx1"), made[part], strict=True):
            name, data = f"{prefix}-{kind}-ubyte", idx(array)
            if zipped:
                (folder / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / name).write_bytes(data)
    return made


def har(folder, counts=(40, 20), seed=0):
    """UCI HAR's layout; part -> signals (N, 128, 9) and labels (N,)."""
    rng, made = np.random.default_rng(seed), {}
    for part, count in zip(("train", "test"), counts, strict=True):
        signals = rng.normal(np.arange(9) / 3, 1 + np.arange(9), (count, 128, 9)).round(4)
        labels = rng.integers(1, 7, count)
        own = folder / part / "Inertial Signals"
        own.mkdir(parents=True, exist_ok=True)
        (folder / part / f"y_{part}.txt").write_text("".join(f"{label}\n" for label in labels))
        for i, channel in enumerate(HAR_CHANNELS):
            lines = ("  " + "  ".join(f"{value: .7e}" for value in row) + "\n" for row in signals[:, :, i])
            (own / f"{channel}_{part}.txt").write_text("".join(lines))
        made[part] = signals, labels
    return made


def ptb(folder):
    """The three files of words."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in WORDS.items():
        (folder / f"ptb.{part}.txt").write_text(text)


def wikitext(folder):
    """The three files of tokens, with empty lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in WORDS.items():
        (folder / f"wiki.{part}.tokens").write_text(" \n = A = \n \n" + text)


PEOPLE, PLACES = ("Mary", "John", "Sandra", "Daniel"), ("bathroom", "hallway", "garden", "office", "bedroom")
MOVES = ("went to the", "moved to the", "journeyed to the", "travelled to the", "went back to the")


def whereabouts(rng, asked):
    """A file of bAbI's first kind, as text: people move, and after every other move it is asked where one is.

    Five questions a story, `asked` in all; the supporting fact is the person's last move.
    """
    lines = []
    while asked:
        at, number = {}, 0
        for _ in range(min(asked, 5)):
            for _ in range(2):
                who, where = (str(rng.choice(names)) for names in (PEOPLE, PLACES))
                number += 1
                at[who] = where, number
                lines.append(f"{number} {who} {rng.choice(MOVES)} {where}.")
            who, number = str(rng.choice(sorted(at))), number + 1
            lines.append(f"{number} Where is {who}? \t{at[who][0]}\t{at[who][1]}")
            asked -= 1
    return "".join(f"{line}\n" for line in lines)


def lists(rng, asked):
    """A file like bAbI's eighth: what somebody carries, none, one thing or several joined by commas."""
    things, lines = ("apple", "football", "milk"), []
    for _ in range(asked):
        held = [thing for thing in things if rng.random() < 0.5]
        lines.append("1 Mary moved to the hallway.")
        lines += [f"{i} Mary took the {thing}." for i, thing in enumerate(held, 2)]
        supporting = " ".join(map(str, range(2, 2 + len(held)))) or "1"
        lines.append(f"{2 + len(held)} What is Mary carrying? \t{','.join(held) or 'nothing'}\t{supporting}")
    return "".join(f"{line}\n" for line in lines)


def babi(folder, counts=(60, 30), seed=0):
    """bAbI's 40 files, the eighth task's of lists, all others of whereabouts; (task, part) -> text."""
    rng, made = np.random.default_rng(seed), {}
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(1, len(BABI_TASKS) + 1):
        for part, count in zip(("train", "test"), counts, strict=True):
            made[i, part] = (lists if i == 8 else whereabouts)(rng, count)
            (folder / BABI_FILES[i, part]).write_text(made[i, part])
    return made


def recording(count, seed=0):
    """A sum of tones and noise, (count,) in -1 .. 1."""
    rng, t = np.random.default_rng(seed), np.arange(count) / 8000
    tones = sum(np.sin(2 * np.pi * f * t) for f in rng.uniform(100, 3500, 3))
    return 0.2 * tones + 0.02 * rng.standard_normal(count)


def wav(path, samples, rate=8000, dtype=np.int16):
    """A WAV file of samples in -1 .. 1."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind, half = np.dtype(dtype).kind, 2.0 ** (8 * np.dtype(dtype).itemsize - 1)
    scaled = samples if kind == "f" else np.rint(samples * (half - 1)) + (half if kind == "u" else 0)
    wavfile.write(path, rate, scaled.astype(dtype))


def sphere(samples, order="01", coding="pcm", width=2, count=None):
    """A NIST SPHERE file, as TIMIT's, of samples (N,) or (N, channels) in -1 .. 1."""
    samples = np.rint(samples.reshape(len(samples), -1) * 32767).astype({"01": "<i2", "10": ">i2"}[order])
    count = len(samples) if count is None else count
    lines = [
        "NIST_1A",
        "   1024",
        "database_id -s5 TIMIT",
        f"channel_count -i {samples.shape[1]}",
        f"sample_count -i {count}",
        "sample_rate -i 16000",
        f"sample_n_bytes -i {width}",
        f"sample_byte_format -s2 {order}",
        f"sample_coding -s{len(coding)} {coding}",
        "end_head",
    ]
    return "".join(f"{line}\n" for line in lines).encode().ljust(1024) + samples.tobytes()


def digits(folder):
    """Spoken digits: two of each of two speakers, takes 3 to 6; name -> samples."""
    made = {}
    for digit, speaker, take in np.ndindex(2, 2, 4):
        name = f"{digit}_{('george', 'theo')[speaker]}_{take + 3}.wav"
        made[name] = recording(900 + 173 * (digit + 2 * speaker + take), seed=len(made))
        wav(folder / "recordings" / name, made[name])
    return made


MAKE = {
    "mnist": mnist,
    "permuted-mnist": mnist,
    "har": har,
    "ptb-char": ptb,
    "ptb-word": ptb,
    "wikitext-2": wikitext,
    "babi": babi,
    "speech": digits,
}
#: Options that go with what is made.
OPTIONS = {
    name: ({} if name == "speech" else {"other_data": True})
    | ({"train_part": "train:10-60", "eval_part": "train:0-10"} if "mnist" in name or name == "babi" else {})
    for name in MAKE
} | {name: {"other_data": True, "length": 7} for name in ("ptb-char", "ptb-word", "wikitext-2")}
