"""Which recordings of a folder are trained on and which are held out: TIMIT's layout, that of spoken digits, any other.

TIMIT: .../{train,test}/dr1..dr8/SPEAKER/SENTENCE.wav, in capitals or not.  Parts: train, 462 speakers; valid, the 50
    speakers that are commonly the development set; test, the 24 of the core test set.  The sentences sa1 and sa2, which
    everybody reads, are left out: 3,696, 400 and 192 utterances.  (Wisdom's code leaves out every path with "sa" in it,
    and with that 7 speakers: 3,640.)
Spoken digits (the Free Spoken Digit Dataset): DIGIT_SPEAKER_TAKE.wav.  Parts: test, takes 0 to 4, and train, the
    others, as the set has it; those of each SPEAKER, and no-SPEAKER, those of all others.
Folders train, valid (or dev) and test: these.
Any other folder: test, every tenth file by name, and train, the others.
"""

import re
from collections import defaultdict
from pathlib import Path

#: Beside each other: files called .wav and .sph, whatever they are inside.
SUFFIXES = (".wav", ".sph")

_TIMIT = re.compile(r"(?:.*/)?(train|test)/dr[1-8]/([fm][a-z]{3}\d)/(s[aix]\d+)(?:\.wav|\.sph)+")
_DIGIT = re.compile(r"(?:.*/)?(\d)_([^_/]+)_(\d+)\.wav")
_FOLDER = re.compile(r"(train|valid|dev|test)/.*")

_DEVELOPMENT = (
    "faks0 fdac1 fjem0 mgwt0 mjar0 mmdb1 mmdm2 mpdf0 fcmh0 fkms0 mbdg0 mbwm0 mcsh0 fadg0 fdms0 fedw0 mgjf0 mglb0 mrtk0 "
    "mtaa0 mtdt0 mthc0 mwjg0 fnmr0 frew0 fsem0 mbns0 mmjr0 mdls0 mdlf0 mdvc0 mers0 fmah0 fdrw0 mrcs0 mrjm4 fcal1 mmwh0 "
    "fjsj0 majc0 mjsw0 mreb0 fgjd0 fjmg0 mroa0 mteb0 mjfc0 mrjr0 fmml0 mrws1"
)
_CORE_TEST = (
    "mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 mbpm0 mklt0 fnlp0 mcmj0 mjdh0 fmgd0 mgrt0 "
    "mnjm0 fdhc0 mjln0 mpam0 fmld0"
)
DEVELOPMENT, CORE_TEST = frozenset(_DEVELOPMENT.split()), frozenset(_CORE_TEST.split())

Parts = dict[str, list[Path]]


def parts_of(folder: Path | str) -> Parts:
    """Part -> its files in a folder and all folders in it, in the order of their paths, capital letters as small ones.

    No part is empty.  ValueError: there is no recording, or one that is not named as the others are.
    """
    folder = Path(folder)
    files = {
        path.relative_to(folder).as_posix().lower(): path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    }
    if not files:
        raise ValueError(f"{folder} has no recording; expected files that end in {' or '.join(SUFFIXES)}, of any case")
    for pattern, expected, sort in (
        (_TIMIT, "train|test/DR1-8/SPEAKER/SENTENCE.wav", _timit),
        (_DIGIT, "DIGIT_SPEAKER_TAKE.wav", _digits),
        (_FOLDER, "in train, valid or test", _folders),
    ):
        found = [(match, path) for name, path in sorted(files.items()) if (match := pattern.fullmatch(name))]
        if len(found) <= len(files) / 2:
            continue
        if len(found) < len(files):
            other = min(path for name, path in files.items() if not pattern.fullmatch(name))
            raise ValueError(f"{other} is not {expected}, as {len(found):,} others are; move it away")
        if not (parts := sort(found)):
            raise ValueError(f"{folder} has no recording of a part: of TIMIT's, only sa sentences or other speakers")
        return parts
    return _tenths([path for _, path in sorted(files.items())])


_Found = list[tuple[re.Match[str], Path]]


def _timit(files: _Found) -> Parts:
    parts: Parts = defaultdict(list)
    seen = set()
    for match, path in files:
        part, speaker, sentence = match.groups()
        if sentence.startswith("sa") or (part, speaker, sentence) in seen:  # converted ones lie beside the originals
            continue
        seen.add((part, speaker, sentence))
        if part == "train":
            parts["train"].append(path)
        elif speaker in DEVELOPMENT | CORE_TEST:
            parts["valid" if speaker in DEVELOPMENT else "test"].append(path)
    return parts


def _digits(files: _Found) -> Parts:
    parts: Parts = defaultdict(list)
    speakers = sorted({match[2] for match, _ in files})
    taken = {"train", "test", *(f"no-{speaker}" for speaker in speakers)}
    if both := sorted(taken.intersection(speakers)):
        other = min(path for match, path in files if match[2] == both[0])
        raise ValueError(f"{other} is of a speaker {both[0]!r}, as another part is called; rename that speaker's files")
    for match, path in files:
        parts["test" if int(match[3]) < 5 else "train"].append(path)
        for speaker in speakers:
            parts[speaker if speaker == match[2] else f"no-{speaker}"].append(path)
    return parts


def _folders(files: _Found) -> Parts:
    parts: Parts = defaultdict(list)
    for match, path in files:
        parts["valid" if match[1] == "dev" else match[1]].append(path)
    return parts


def _tenths(files: list[Path]) -> Parts:
    parts = {"train": [path for i, path in enumerate(files) if i % 10 != 9], "test": files[9::10]}
    return {name: own for name, own in parts.items() if own}
