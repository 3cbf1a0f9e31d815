"""Archives, and a server on the loopback, as it should be and hostile, for tests of downloads."""

import contextlib
import functools
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile

from tasks.sets import Archive, DataSet, File

CONTENT = b"some words\n" * 50
#: Bytes of a hostile server's piece.
PIECE = bytes(1 << 16)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def set_of(urls, known, size, kind="file", member="", content=CONTENT, **more):
    """A set of one file, words.txt, in an archive that is to be had there."""
    archive = Archive("archive", tuple(urls), known, size, kind, {member: "words.txt"}, **more)
    file = File("words.txt", len(content), sha256(content))
    return DataSet("made", "words", "anybody's", "https://example.org", (file,), ((archive,),))


def zipped(members):
    """A zip of names and contents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as own:
        for name, data in members.items():
            own.writestr(name, data)
    return stream.getvalue()


def tarred(members):
    """A gzipped tar of names and contents."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as own:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            own.addfile(info, io.BytesIO(data))
    return stream.getvalue()


#: As an archive should be, by its kind: and what of it is words.txt.
PACKED = {
    "file": (CONTENT, ""),
    "gzip": (gzip.compress(CONTENT), ""),
    "zip": (zipped({"folder/words.txt": CONTENT, "folder/more": b"x"}), "folder/words.txt"),
    "tar": (tarred({"./folder/words.txt": CONTENT, "./folder/more": b"x"}), "folder/words.txt"),
}


def _endless(handler):
    """No length, no end."""
    handler.start()
    while True:
        handler.wfile.write(PIECE)


def _boasts(handler):
    """It says that there is a terabyte, and sends it."""
    handler.start(Content_Length=10**12)
    while True:
        handler.wfile.write(PIECE)


def _drips(handler):
    """A byte now and then, for ever."""
    handler.start(Content_Length=550)
    handler.drip()


def _idle(handler):
    """No byte."""
    handler.start(Content_Length=550)
    handler.server.over.wait()


def _drips_headers(handler):
    """A header's line that does not end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    handler.drip()


def _redirects(handler):
    """To itself, each time with a body without end."""
    handler.start(302, Location=handler.path)
    while True:
        handler.wfile.write(PIECE)


def _one_chunk(handler):
    """A chunk's size that is a line without end."""
    handler.start(Transfer_Encoding="chunked")
    while True:
        handler.wfile.write(b"0" * len(PIECE))


def _encoded(handler):
    """Zeros, packed as nobody asked for."""
    data = gzip.compress(bytes(1 << 24))
    handler.start(Content_Encoding="gzip", Content_Length=len(data))
    handler.wfile.write(data)


def _no_http(handler):
    handler.wfile.write(b"\0\xff" * 999)


def _hangs_up(handler):
    pass


#: How a server is hostile.
HOSTILE = {
    own.__name__[1:]: own
    for own in (
        *(_endless, _boasts, _drips, _idle, _drips_headers),
        *(_redirects, _one_chunk, _encoded, _no_http, _hangs_up),
    )
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives what its server has under a path: bytes, whole or cut short, or what a hostile one does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.close_connection = True
        self.server.asked.append(self.path)
        if own := HOSTILE.get(self.path[1:]):
            with contextlib.suppress(OSError):  # nobody reads any more
                own(self)
            return
        data, sent = self.server.have.get(self.path, (None, None))
        if data is None:
            self.send_error(404)
            return
        self.start(Content_Length=len(data))
        self.wfile.write(data[:sent])

    def start(self, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def drip(self):
        while not self.server.over.wait(0.05):
            self.wfile.write(b"x")

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def served():
    """A server: `have` is path -> bytes and how many are sent, `asked` the paths so far, `over` ends what drips."""
    own = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own.have, own.asked, own.over = {}, [], threading.Event()
    own.url = f"http://127.0.0.1:{own.server_port}"
    thread = threading.Thread(target=functools.partial(own.serve_forever, poll_interval=0.01))
    thread.start()
    try:
        yield own
    finally:
        own.over.set()
        own.shutdown()
        thread.join()
        own.server_close()
