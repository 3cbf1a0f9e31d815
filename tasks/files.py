"""Data sets as files: fetched into a cache, or found in a folder; unpacked; checked by what they hash to.

What is fetched is downloaded and unpacked beside its place in the cache, checked, and renamed: it is there whole, or
not at all.  A download has a limit of bytes and of time.  An archive is unpacked only if it has its published hash, and
of it only the files that the set declares, under the set's names.  No network but in `fetch`.
"""

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ortho_ref.training.task import Named
from tasks.sets import Archive, DataSet, File

#: The environment's variable with the cache's folder.
CACHE = "ORTHO_REF_DATA"
#: Bytes that a file of the user's own has at most.
LARGEST = 1 << 31
#: Seconds without a byte, after which a server is given up; seconds that a piece, and all before the first, may take.
PATIENCE, SLOWEST = 30, 60
#: Bytes that are asked for at once.
PIECE = 1 << 18

Progress = Callable[[str, int, int], None]


def cache() -> Path:
    """Where `fetch` puts data sets: $ORTHO_REF_DATA, or ortho_ref in the user's cache."""
    if own := os.environ.get(CACHE):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ortho_ref"


def how_to_get(own: DataSet) -> str:
    """Where a data set comes from, for errors."""
    if not own.ways:
        return f"it is not fetched ({own.licence}); see {own.page}"
    return f"get it by: python -m scripts.data fetch {own.name}"


class Folder:
    """The files of a data set in a folder, None: that of the cache, each checked as it is read.

    other: whether contents may differ from the published ones: a part of the set, or data of one's own in its form.
    advice: what errors end with.  OSError if there is no such folder.
    """

    def __init__(self, own: DataSet, place: Path | str | None = None, other: bool = False) -> None:
        place = None if place is None else Path(place)
        self.own, self.other, self.advice = own, other, f"; {how_to_get(own)}"
        self.path = cache() / own.name if place is None else place
        self.sha256: dict[str, str] = {}
        self.published: bool | None = None
        if not self.path.is_dir():
            if place is None:
                raise FileNotFoundError(
                    f"{own.name} is not in the cache ({self.path}); {how_to_get(own)}, or give --data"
                )
            kind = "a file" if self.path.exists() else "not there"
            raise FileNotFoundError(f"data is {place}, which is {kind}; expected a folder; {how_to_get(own)}")

    @property
    def named(self) -> Named:
        """What was read so far."""
        return Named(self.own.name, self.published, dict(self.sha256))

    def place_of(self, name: str) -> Path | None:
        """Where a file of the set is, plain or gzipped, or as 7-Zip unpacks MNIST's; None where it is not."""
        for folder in (".", *self.own.folders):
            for own in (name, f"{name}.gz", name.replace("-idx", ".idx")):
                if (path := self.path / folder / own).is_file():
                    return path
        return None

    def read(self, name: str) -> bytes:
        """The contents of a file of the set, unpacked.

        OSError where it is not there, or cannot be read; ValueError where it is empty, damaged, or too large, or not
        what was published, and `other` is False.
        """
        path = self.place_of(name)
        if path is None:
            raise FileNotFoundError(f"{self.path} has no {name}{self._holds()}{self.advice}")
        own = next(file for file in self.own.files if file.name == name)
        try:
            data = contents(path, LARGEST if self.other else own.most)
            if not data:
                raise ValueError("it is empty")
        except ValueError as error:
            raise ValueError(f"{path}: {error}; expected {self.own.name}'s {name}{self.advice}") from None
        self.note(own, data, str(path))
        return data

    def note(self, own: File, data: bytes, where: str) -> None:
        """Note what was read, under the file's name; ValueError where it is not what was published, and has to be."""
        found = hashlib.sha256(data).hexdigest()
        if own.sha256 is not None and found != own.sha256:
            self.refuse(f"{where} is not the published {own.name}: its contents' SHA-256 is {found}, not {own.sha256}")
        if own.lines is not None and (lines := len(data.splitlines())) != own.lines:
            self.refuse(f"{where} has {lines:,} lines; the published {own.name} has {own.lines:,}")
        if own.sha256 is not None and self.published is None:
            self.published = True
        self.sha256[own.name] = found

    def refuse(self, why: str) -> None:
        """ValueError for what was not published so, unless other data are allowed; then that is noted."""
        if not self.other:
            taken = "; or give --other-data, to take it as it is" if self.advice else ""
            raise ValueError(f"{why}{self.advice}{taken}")
        self.published = False

    def _holds(self) -> str:
        """What is in the folder instead, for errors."""
        names = sorted(path.name for path in self.path.iterdir())
        more = f", and {len(names) - 4} more" if len(names) > 4 else ""
        return f"; it has {', '.join(names[:4])[:200]}{more}" if names else "; it is empty"


def contents(path: Path | str, most: int = LARGEST) -> bytes:
    """What a file holds, at most so many bytes; one that ends in .gz is unpacked.

    OSError where it cannot be read, ValueError where it is damaged, or larger.
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream:
            return unzipped(stream, most) if path.suffix == ".gz" else _read(stream, most)
    except OSError as error:
        raise type(error)(f"{path} cannot be read: {error.strerror or error}") from error


def _read(stream: IO[bytes] | gzip.GzipFile, most: int) -> bytes:
    """All of a stream; ValueError for more than `most` bytes."""
    data = io.BytesIO()
    while piece := stream.read(PIECE):  # of all at once the memory would be asked for first
        if data.write(piece) and data.tell() > most:
            raise ValueError(f"it has more than {most:,} bytes, unpacked")
    return data.getvalue()


def unzipped(stream: IO[bytes], most: int) -> bytes:
    """The contents of a gzipped stream; ValueError where that is damaged, or more than `most` bytes."""
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            return _read(unpacked, most)
    except EOFError:
        raise ValueError("it is cut short") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"it is damaged: {error}") from None


def text_of(data: bytes, where: str) -> str:
    """The text of bytes in UTF-8; ValueError for what is no text, or only the beginning of one."""
    refuse_binary(data, where)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_text(where, error.reason, error.start, data[error.start]) from None


def refuse_binary(data: bytes, where: str, before: int = 0) -> None:
    """ValueError for NUL, which is UTF-8, but no text has it: binary files and UTF-16 do.  before: bytes up to here."""
    if (nul := data.find(0)) >= 0:
        raise ValueError(f"{where} is binary: byte {before + nul} is NUL; expected UTF-8 text")


def not_text(where: str, reason: str, at: int, byte: int) -> ValueError:
    """The error for bytes that are not UTF-8, which cannot be decoded at one of them."""
    if reason == "unexpected end of data":
        return ValueError(f"{where} is cut short: its last character, at byte {at}, is incomplete; expected UTF-8 text")
    return ValueError(f"{where} is not UTF-8 text: byte {at} is {byte:#04x}")


# Fetching


def fetch(own: DataSet, progress: Progress = lambda name, done, total: None) -> Path:
    """Download a data set into the cache, unless it is there; its folder.

    progress gets, as bytes come, the name of what they are of, how many there are, and how many there will be, about.
    ValueError: it is none that is fetched, or nothing that could be downloaded is what it should be.
    OSError: it cannot be written.  ModuleNotFoundError: without pooch.
    """
    if not own.ways:
        raise ValueError(f"{own.name} is not fetched: {own.licence}; see {own.page}")
    place = cache() / own.name
    if place.is_dir() and not any(check(own, place).values()):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{own.name}-", dir=place.parent) as name:
        aside = Path(name)
        tried: list[ValueError] = []
        for archives in own.ways:
            try:
                _fetch_all(own, archives, aside, progress)
                break
            except ValueError as error:
                tried.append(error)
                shutil.rmtree(aside / "new", ignore_errors=True)
        else:
            if all(isinstance(error, Unreachable) for error in tried):
                hosts = ", ".join(dict.fromkeys(host for error in tried for host in getattr(error, "hosts", ())))
                by_hand = f"or get it from {own.page}, and give --data"
                raise ValueError(f"{own.name} cannot be fetched: the network reaches none of {hosts}; {by_hand}")
            raise ValueError(f"{own.name} cannot be fetched: {'; '.join(map(str, tried))}")
        if place.exists():
            os.replace(place, aside / "old")
        os.replace(aside / "new", place)
        _bring_back(aside / "old", place)
    return place


def _bring_back(old: Path, place: Path) -> None:
    """What else lay in a set's folder: a person may have put it there."""
    for path in sorted(old.rglob("*")):
        there = place / path.relative_to(old)
        if path.is_file() and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, there)


def _fetch_all(own: DataSet, archives: tuple[Archive, ...], aside: Path, progress: Progress) -> None:
    """All of a set into aside/new, checked; ValueError where an archive cannot be had, or has not what it should."""
    urls = []
    for archive in archives:
        path, url = download(archive, aside, progress)
        for name, data in unpack(archive._replace(name=url), path):
            file = aside / "new" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        path.unlink()
        urls.append(url)
    for name, wrong in check(own, aside / "new").items():
        if wrong:
            raise ValueError(f"{name} of {', '.join(urls)}: {wrong}")


def download(archive: Archive, folder: Path | str, progress: Progress) -> tuple[Path, str]:
    """Download an archive into a folder from the first mirror that has it as it should be; which that was.

    ValueError says what was wrong with each; `Unreachable` where none of them answers.
    """
    folder = Path(folder)
    try:
        import pooch
    except ModuleNotFoundError:
        message = "pooch is not installed; to fetch data sets: pip install -e '.[data]'"
        raise ModuleNotFoundError(message, name="pooch") from None
    pooch.get_logger().setLevel("ERROR")
    tried, deaf = [], True
    for url in archive.urls:
        downloader = partial(_stream, archive, progress)
        try:
            return Path(pooch.retrieve(url, archive.hash, archive.name, folder, downloader=downloader)), url
        except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong hash is a ValueError
            why = _unreached(error)
            deaf = deaf and why is not None
            tried.append(f"{url}: {why or _why(error)}")
    if deaf:
        raise Unreachable("; ".join(tried), tuple(urlsplit(url).netloc for url in archive.urls))
    raise ValueError("; ".join(tried))


def _stream(archive: Archive, progress: Progress, url: str, output: str, _: object) -> None:
    """Download as pooch asks for it, no more than an eighth beyond the archive's size, and none of it slowly."""
    import requests
    from urllib3.exceptions import HTTPError

    def leave(response: Any, **_: object) -> None:
        if response.is_redirect:
            response.close()  # or all of it would be read, however much

    plain, hooks = {"Accept-Encoding": "identity"}, {"response": leave}
    get = partial(requests.get, url, stream=True, timeout=PATIENCE, headers=plain, hooks=hooks)
    response, done, most = _in_time(get), 0, archive.size * 9 // 8
    try:
        response.raise_for_status()
        total = response.raw.length_remaining or archive.size
        with open(output, "wb") as file:
            while piece := _in_time(partial(response.raw.read, PIECE, decode_content=False)):
                done += len(piece)
                if max(done, total) > most:
                    raise ValueError(f"it has {max(done, total):,} bytes or more; allowed: {most:,}")
                file.write(piece)
                progress(archive.name, done, total)
    except (TimeoutError, HTTPError) as error:
        why = str(error) or f"fewer than {PIECE:,} in {SLOWEST} seconds"
        raise ValueError(f"{done:,} of {total:,} bytes came, then {why}") from None
    finally:
        threading.Thread(target=response.close, daemon=True).start()  # it waits for one who still reads


def _in_time(function: Callable[[], Any]) -> Any:
    """What a function gives; TimeoutError after SLOWEST seconds: it is left to itself, and ends with the program."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future.result(SLOWEST)


class Unreachable(ValueError):
    """No server answers; hosts: those asked."""

    def __init__(self, message: str, hosts: tuple[str, ...]) -> None:
        """The message, and the servers asked."""
        super().__init__(message)
        self.hosts = hosts


#: What urllib3 calls it -> in a few words.
_UNREACHED = {
    "NameResolutionError": "its name cannot be looked up",
    "NewConnectionError": "no connection",
    "ConnectTimeoutError": f"no answer in {PATIENCE} seconds",
    "ReadTimeoutError": f"no answer in {PATIENCE} seconds",
    "TimeoutError": f"no answer in {SLOWEST} seconds",
    "ProxyError": "the proxy lets nothing through",
}


def _unreached(error: Exception) -> str | None:
    """Why a server does not answer; None where it did."""
    own = error.args[0] if error.args else None  # requests' errors hold urllib3's, and that its reason
    kinds = [type(one).__name__ for one in (getattr(own, "reason", None), own, error)]
    return next((_UNREACHED[kind] for kind in kinds if kind in _UNREACHED), None)


def _why(error: Exception) -> str:
    """What went wrong, in a few words."""
    if "does not match the known hash" in str(error):
        hashes = str(error).partition("known hash: ")[2].partition(". ")[0]
        return f"what came has another hash than was published, {hashes}: it is damaged, cut short, or another file"
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server says {response.status_code} {response.reason}"
    return (str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}")[:200]


def unpack(archive: Archive, path: Path | str) -> Iterator[tuple[str, bytes]]:
    """The files of an archive that a set declares: the set's name of each, and its contents.

    The archive has its published hash, so that it is whole.  ValueError where it lacks one of the files.
    """
    path = Path(path)
    try:
        if archive.kind == "zip":
            source: Path | IO[bytes] = path
            if archive.inner:
                with zipfile.ZipFile(path) as outer:
                    source = io.BytesIO(outer.read(archive.inner))
            with zipfile.ZipFile(source) as opened:
                for member, name in archive.members.items():
                    yield name, opened.read(member)
        elif archive.kind == "tar":
            wanted = {os.path.normpath(member): name for member, name in archive.members.items()}
            with tarfile.open(path, mode="r:gz") as tar:
                for own in tar:  # in its order: going back in it would unpack it from its beginning
                    if (name := wanted.pop(os.path.normpath(own.name), "")) and (stream := tar.extractfile(own)):
                        yield name, stream.read()
            if wanted:
                raise KeyError(f"it has no {next(iter(wanted))}")
        else:
            data = path.read_bytes()
            yield archive.members[""], gzip.decompress(data) if archive.kind == "gzip" else data
    except KeyError as error:  # as zipfile raises it
        raise ValueError(f"{archive.name}: {error.args[0]}") from None


def check(own: DataSet, place: Path | str) -> dict[str, str]:
    """What is wrong with each file of a data set in a folder that is fetched or there; "" for nothing."""
    place = Path(place)
    folder = Folder(own, place)
    folder.advice = ""
    fetched = {name for archives in own.ways for archive in archives for name in archive.members.values()}
    found: dict[str, str] = {}
    for file in own.files:
        if folder.place_of(file.name) is None:
            found |= {file.name: "it is not there"} if file.name in fetched else {}
        else:
            try:
                folder.read(file.name)
                found[file.name] = ""
            except (OSError, ValueError) as error:
                found[file.name] = str(error)
    return found
