"""Data sets as files: found in a folder, fetched from a server on the loopback, unpacked, checked."""

import contextlib
import gzip
import hashlib
import re
import socket

import pytest

from scripts import data as program
from scripts.maintain.timing.peak import traced
from tasks import files
from tasks.files import Folder, cache, check, fetch
from tasks.sets import SETS, DataSet, File
from tests.scripts.runs import call
from tests.tasks import served as servers
from tests.tasks.served import CONTENT, PACKED, served, set_of, sha256, tarred, zipped


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server on the loopback: `have` is path -> bytes and how many are sent; the cache is a folder of the test's."""
    monkeypatch.setenv(files.CACHE, str(tmp_path / "cache"))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    with served() as own:
        yield own


def a_set(server, data, kind="file", member="", paths=("/a",), own_hash=None, content=CONTENT, **more):
    """A set of one file, words.txt, that is to be had under some paths."""
    urls = [server.url + path for path in paths]
    return set_of(urls, own_hash or f"sha256:{sha256(data)}", len(data), kind, member, content, **more)


def left(tmp_path):
    """Every file below the cache."""
    return sorted(str(path.relative_to(tmp_path / "cache")) for path in (tmp_path / "cache").rglob("*"))


@pytest.mark.parametrize("kind", PACKED)
def test_fetched_and_unpacked(server, tmp_path, kind):
    """Whole, in its place, nothing beside it; progress goes up to the size; a second time nothing is asked for, but
    where a file has been damaged since."""
    data, member = PACKED[kind]
    server.have["/a"] = data, None
    own, seen = a_set(server, data, kind, member), []
    assert fetch(own, lambda *step: seen.append(step)) == tmp_path / "cache" / "made"
    assert left(tmp_path) == ["made", "made/words.txt"]
    assert Folder(own).read("words.txt") == CONTENT
    assert seen[-1] == ("archive", len(data), len(data))
    fetch(own)
    assert server.asked == ["/a"]
    (tmp_path / "cache/made/words.txt").write_bytes(CONTENT[:-1] + b"?")
    assert "is not the published words.txt" in check(own, cache() / "made")["words.txt"]
    fetch(own)
    assert Folder(own).read("words.txt") == CONTENT
    assert left(tmp_path) == ["made", "made/words.txt"]


def test_what_else_lies_in_the_folder_stays(server, tmp_path):
    """A person's own files, put beside what is fetched; a file of the set is the new one."""
    data, member = PACKED["zip"]
    server.have["/a"] = data, None
    own, place = a_set(server, data, "zip", member), tmp_path / "cache" / "made"
    (place / "mine").mkdir(parents=True)
    (place / "mine" / "a.txt").write_text("mine")
    (place / "words.txt").write_text("damaged")
    fetch(own)
    assert Folder(own).read("words.txt") == CONTENT
    assert (place / "mine" / "a.txt").read_text() == "mine"
    assert left(tmp_path) == ["made", "made/mine", "made/mine/a.txt", "made/words.txt"]


def test_a_zip_in_a_zip(server):
    """As UCI has it."""
    data = zipped({"inner.zip": zipped({"words.txt": CONTENT}), "licence": b"x"})
    server.have["/a"] = data, None
    own = a_set(server, data, "zip", "words.txt", inner="inner.zip")
    fetch(own)
    assert Folder(own).read("words.txt") == CONTENT
    without = zipped({"other.zip": b"x"})
    server.have["/a"] = without, None
    own = a_set(server, without, "zip", "words.txt", inner="inner.zip", content=CONTENT + b"x")
    with pytest.raises(ValueError, match=r"/a: There is no item named 'inner\.zip' in the archive"):
        fetch(own._replace(name="again"))


def test_mirrors_in_turn(server, tmp_path):
    """The first is gone, the second cut off, the third has another file, the fourth is right; of a set that can be had
    in two ways the second where the first has nothing; where nobody has it, the error says what was wrong with each."""
    server.have |= {"/cut": (CONTENT, 20), "/other": (b"x" * len(CONTENT), None), "/right": (CONTENT, None)}
    own = a_set(server, CONTENT, paths=("/gone", "/cut", "/other", "/right"))
    fetch(own)
    assert server.asked == ["/gone", "/cut", "/other", "/right"]
    bad = a_set(server, CONTENT, paths=("/gone", "/cut", "/other"))
    fetch(own._replace(name="two", ways=(*bad.ways, *own.ways)))
    before = left(tmp_path)
    with pytest.raises(ValueError, match=r"^made cannot be fetched: ") as info:
        fetch(bad._replace(files=(File("words.txt", 9**9, sha256(b"")),)))
    assert f"{server.url}/gone: the server says 404 Not Found" in str(info.value)
    assert f"{server.url}/cut: " in str(info.value)
    assert f"{server.url}/other: what came has another hash than was published" in str(info.value)
    assert left(tmp_path) == before


def test_no_network(server, tmp_path, monkeypatch):
    """One line: no name can be looked up, or no server answers; beside one that does the error says why of each."""
    own = a_set(server, CONTENT, paths=("/gone",))
    (archive,) = own.ways[0]
    closed = archive._replace(urls=("http://127.0.0.1:9/a", "http://example.org/a"))

    def no_name(host, *arguments, **options):
        if host == "example.org":
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return look_up(host, *arguments, **options)

    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    with pytest.raises(ValueError, match="made") as info:
        fetch(own._replace(ways=((closed,), (closed,))))
    assert str(info.value) == (
        "made cannot be fetched: the network reaches none of 127.0.0.1:9, example.org; or get it from "
        "https://example.org, and give --data"
    )
    with pytest.raises(ValueError, match="made") as info:
        fetch(own._replace(ways=((closed,), (archive,))))
    assert "http://example.org/a: its name cannot be looked up; http://127" in str(info.value)
    assert "http://127.0.0.1:9/a: no connection; " in str(info.value)
    assert "/gone: the server says 404 Not Found" in str(info.value)
    assert left(tmp_path) == []


def test_md5(server):
    """Where that is all that was published."""
    server.have["/a"] = CONTENT, None
    known = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
    assert fetch(a_set(server, CONTENT, own_hash=known)).is_dir()
    with pytest.raises(ValueError, match="another hash"):
        fetch(a_set(server, CONTENT, own_hash="md5:" + "0" * 32)._replace(name="b"))


LACKING = {
    "another file in a zip": ("zip", zipped({"letters.txt": CONTENT}), "words.txt", "named 'words.txt' in the archive"),
    "another file in a tar": ("tar", tarred({"letters.txt": CONTENT}), "words.txt", "it has no words.txt"),
    "other contents": ("file", b"?" + CONTENT[1:], "", "is not the published words.txt"),
    "too much": ("gzip", gzip.compress(CONTENT * 2), "", "it has more than 550 bytes, unpacked"),
    "nothing": ("file", b"", "", "it is empty"),
}


@pytest.mark.parametrize("name", LACKING)
def test_archives_without_the_file(server, tmp_path, name):
    """With the right hash of their own: one line that names the archive or the file, and nothing is left."""
    kind, data, member, message = LACKING[name]
    server.have["/a"] = data, None
    with pytest.raises(ValueError, match=re.escape(message)) as info:
        fetch(a_set(server, data, kind, member))
    assert "\n" not in str(info.value)
    assert str(info.value).startswith("made cannot be fetched: ")
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("endless", "/endless: it has 262,144 bytes or more; allowed: 618"),
        ("boasts", "/boasts: it has 1,000,000,000,000 bytes or more; allowed: 618"),
        ("drips", "/drips: 0 of 550 bytes came, then fewer than 262,144 in 0.3 seconds"),
        ("idle", "/idle: 0 of 550 bytes came, then "),
        ("drips_headers", "the network reaches none of "),
        ("redirects", "/redirects: the server says 302 Found"),
        ("one_chunk", "/one_chunk: 0 of 550 bytes came, then "),
        ("encoded", "/encoded: it has 16,"),
        ("no_http", "/no_http: "),
        ("hangs_up", "/hangs_up: "),
    ],
)
def test_hostile_servers(server, tmp_path, monkeypatch, name, message):
    """One line that names the set, the url, what came and what may; nothing is left; the next mirror has it."""
    assert name in servers.HOSTILE
    monkeypatch.setattr(files, "SLOWEST", 0.3 if "drips" in name else files.SLOWEST)
    monkeypatch.setattr(files, "PATIENCE", 0.3 if name == "idle" else files.PATIENCE)
    with pytest.raises(ValueError, match=re.escape(message)) as info:
        fetch(a_set(server, CONTENT, paths=(f"/{name}",)))
    assert str(info.value).startswith("made cannot be fetched: ")
    assert "\n" not in str(info.value)
    assert left(tmp_path) == []
    server.have["/right"] = CONTENT, None
    if "drips" not in name:
        assert fetch(a_set(server, CONTENT, paths=(f"/{name}", "/right"))).is_dir()


def test_no_more_memory_than_there_is_to_read(tmp_path):
    """A small file that may be a large one, plain or packed."""
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x"))

    def read():
        assert {files.contents(tmp_path / name) for name in ("a", "a.gz")} == {b"x"}

    assert traced(read) < 2**23


MADE = DataSet(
    "made",
    "words",
    "anybody's",
    "https://example.org",
    (File("words.txt", len(CONTENT), sha256(CONTENT)), File("counted.txt", 100, lines=2), File("free.txt", 100)),
    ((),),
    ("inside",),
)
TAKEN = "or give --other-data, to take it as it is"
ADVICE = "get it by: python -m scripts.data fetch made"
MADES = f"expected made's words.txt; {ADVICE}"


def test_files_of_a_folder(tmp_path):
    """Plain or gzipped, on top or where other programs leave them; which were read is noted by their contents."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/words.txt.gz").write_bytes(gzip.compress(CONTENT))
    (tmp_path / "free.txt").write_bytes(b"mine")
    folder = Folder(MADE, tmp_path)
    assert folder.named == ("made", None, {})
    assert (folder.read("free.txt"), folder.named.published) == (b"mine", None)
    assert (folder.read("words.txt"), folder.named.published) == (CONTENT, True)
    assert folder.named.sha256 == {"free.txt": sha256(b"mine"), "words.txt": sha256(CONTENT)}


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        ("words.txt", {}, "{folder} has no words.txt; it is empty; " + ADVICE),
        ("words.txt", {"Words.TXT": CONTENT, "b": b""}, "{folder} has no words.txt; it has Words.TXT, b; " + ADVICE),
        ("words.txt", {"words.txt": b""}, "{folder}/words.txt: it is empty; " + MADES),
        (
            "words.txt",
            {"words.txt": CONTENT[:-1] + b"?"},
            f"{{folder}}/words.txt is not the published words.txt: its contents' SHA-256 is "
            f"{sha256(CONTENT[:-1] + b'?')}, not {sha256(CONTENT)}; {ADVICE}; {TAKEN}",
        ),
        ("words.txt", {"words.txt": CONTENT * 2}, "{folder}/words.txt: it has more than 550 bytes, unpacked; " + MADES),
        (
            "words.txt",
            {"words.txt.gz": gzip.compress(CONTENT)[:-5]},
            "{folder}/words.txt.gz: it is cut short; " + MADES,
        ),
        (
            "counted.txt",
            {"counted.txt": b"a\nb\nc\n"},
            f"{{folder}}/counted.txt has 3 lines; the published counted.txt has 2; {ADVICE}; {TAKEN}",
        ),
    ],
)
def test_what_a_folder_may_not_hold(tmp_path, name, written, message):
    """Misnamed, empty, damaged, too large, cut short, incomplete: one line that names the file and where to get it."""
    for file, data in written.items():
        (tmp_path / file).write_bytes(data)
    with pytest.raises((ValueError, OSError), match=f"^{re.escape(message.format(folder=tmp_path))}$"):
        Folder(MADE, tmp_path).read(name)


def test_other_data(tmp_path):
    """Taken where that is said, and noted; what is empty or cannot be unpacked is still refused."""
    (tmp_path / "words.txt").write_bytes(b"my own\n" * 200)
    folder = Folder(MADE, tmp_path, other=True)
    assert folder.read("words.txt") == b"my own\n" * 200
    assert folder.named == ("made", False, {"words.txt": sha256(b"my own\n" * 200)})
    (tmp_path / "words.txt").write_bytes(b"")
    with pytest.raises(ValueError, match="it is empty"):
        folder.read("words.txt")


def test_no_folder(tmp_path, monkeypatch):
    """A folder that is not there, a file in its place, an empty cache, a set that is never fetched."""
    monkeypatch.setenv(files.CACHE, str(tmp_path / "cache"))
    (tmp_path / "file").write_text("x")
    for place, message in (
        (tmp_path / "none", f"data is {tmp_path / 'none'}, which is not there; expected a folder; {ADVICE}"),
        (tmp_path / "file", f"data is {tmp_path / 'file'}, which is a file; expected a folder; {ADVICE}"),
        (None, f"made is not in the cache ({tmp_path / 'cache/made'}); {ADVICE}, or give --data"),
    ):
        with pytest.raises(FileNotFoundError, match=f"^{re.escape(message)}$"):
            Folder(MADE, place)
    with pytest.raises(ValueError, match=r"^made is not fetched: anybody's; see https://example\.org$"):
        fetch(MADE._replace(ways=()))
    monkeypatch.delenv(files.CACHE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert str(cache()) == "/x/ortho_ref"


@pytest.mark.parametrize("name", SETS)
def test_the_declarations(name):
    """Every archive has mirrors, a hash of a known kind and members that are files of the set; each way has the same
    files."""
    own = SETS[name]
    assert own.name == name
    known = {file.name for file in own.files}
    ways = [{file for archive in way for file in archive.members.values()} for way in own.ways]
    assert all(way == ways[0] and way <= known for way in ways)
    for archive in (archive for way in own.ways for archive in way):
        assert re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", archive.hash)
        assert archive.urls
        assert archive.kind in PACKED
        assert archive.size > 0
    for file in own.files:
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)


# python -m scripts.data


@pytest.fixture
def only_made(server, monkeypatch):
    """A set that the server has, as the only one."""
    own = a_set(server, CONTENT)
    server.have["/a"] = CONTENT, None
    monkeypatch.setattr(program, "SETS", {"made": own})
    return own


def test_list(tmp_path, monkeypatch):
    """Every set with what is downloaded, its licence and page; no network."""
    monkeypatch.setenv(files.CACHE, str(tmp_path))
    (tmp_path / "mnist").mkdir()
    code, out, err = call(program.main, "list")
    assert (code, err) == (0, f"cache: {tmp_path}\n")
    for own in SETS.values():
        assert own.licence in out
        assert f"{own.size / 1e6:.1f} MB to download" in out or not own.ways
    assert "speech: a folder of recordings" in out
    assert "mnist (in the cache): " in out


def test_fetch_says_licence_and_size_first(server, only_made, tmp_path):
    """Before the bar; what is given is the folder."""
    code, out, err = call(program.main, "fetch", "made")
    assert (code, out) == (0, f"{tmp_path / 'cache/made'}\n")
    assert err.startswith("made: words; 0.0 MB to download\nlicence: anybody's; https://example.org\n")
    server.have.clear()
    (tmp_path / "cache/made/words.txt").write_text("x")
    code, out, err = call(program.main, "fetch", "made")
    assert (code, out) == (2, "")
    assert "error: made cannot be fetched: " in err
    assert (tmp_path / "cache/made/words.txt").read_text() == "x"  # as it was


@pytest.mark.parametrize(("name", "own"), [("ptb-char", "ptb"), ("permuted-mnist", "mnist"), ("har", "har")])
def test_a_set_by_a_task_that_reads_it(name, own):
    """As well as by its own name."""
    assert program.set_of(name) is SETS[own]


def test_what_is_not_fetched():
    """One line, no size; a task without a set is no set."""
    own = SETS["speech"]
    said = f"error: speech is not fetched: {own.licence}; see {own.page}\n"
    assert call(program.main, "fetch", "speech") == (2, "", said)
    with pytest.raises(ValueError, match=r"^name is 'adding'; allowed: mnist, ptb, "):
        program.set_of("adding")


def test_check_a_folder(only_made, tmp_path):
    """Exit 0 where everything is as published, else 1, with a line for each file."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "words.txt").write_bytes(CONTENT)
    assert call(program.main, "check", folder) == (0, "made  words.txt: its contents are those published\n", "")
    (folder / "words.txt").write_bytes(b"x")
    code, out, err = call(program.main, "check", folder)
    assert (code, err) == (1, "")
    assert "words.txt is not the published words.txt: its contents' SHA-256 is " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch"], "fetch needs NAME, a data set"),
        (["fetch", "cifar"], "name is 'cifar'; allowed: made"),
        (["check"], "check needs DIR, a folder"),
        (["check", "none"], "dir is none, which is not there"),
        (["check", "."], ". has no file of made"),
        (["list", "made"], "list takes no argument; given: 'made'"),
    ],
)
def test_bad_command_lines(only_made, tmp_path, monkeypatch, arguments, message):
    """One line, exit 2."""
    (tmp_path / "empty").mkdir()
    with contextlib.chdir(tmp_path / "empty"):
        assert call(program.main, *arguments) == (2, "", f"error: {message}\n")
