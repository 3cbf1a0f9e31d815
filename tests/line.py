"""A line on which the processes that a test starts say where they are, so that no test has to guess it by the clock."""

import socket
import subprocess
from collections.abc import Callable

import pytest

# Seconds for what must happen. Only a test that fails ever waits so long: no machine is too slow to pass.
PATIENCE = 600


class Line:
    """The test's end of it. A process, and every child that it hands `line` to, holds the other end until it ends."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(PATIENCE)
        self._ends: list[socket.socket] = []
        self._heard = b""
        # What a program in Python has to begin with. `hold()` blocks until the test is over, whoever is still there.
        self.source = (
            "import socket, subprocess, sys\n"
            f"line = socket.create_connection({self._server.getsockname()!r})\n"
            "hold = lambda: line.recv(1)\n"
        )

    def hears(self, word: str) -> str:
        """Wait until this is said; everything said so far."""
        while word.encode() not in self._heard:
            more = self._end.recv(4096)
            assert more, f"the process has ended; it said {self._heard!r}"
            self._heard += more
        return self._heard.decode()

    def ended(self) -> bool:
        """Wait until nobody holds the line any more; False if somebody does not let go."""
        try:
            while more := self._end.recv(4096):
                self._heard += more
        except TimeoutError:
            return False
        return True

    @property
    def _end(self) -> socket.socket:
        if not self._ends:
            self._ends.append(self._server.accept()[0])
            self._ends[0].settimeout(PATIENCE)
        return self._ends[0]

    def close(self) -> None:
        """Let go whoever is still held, if a test failed."""
        for end in (self._server, *self._ends):
            end.close()


# A child of the program that holds the line, for `Line.source`.
CHILD = """
waits = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).recv(1)"
child = subprocess.Popen([sys.executable, "-S", "-E", "-c", waits, str(line.fileno())], pass_fds=[line.fileno()])
"""


def limits_begin_at(monkeypatch: pytest.MonkeyPatch, event: Callable[[], object]) -> list[float]:
    """The limits that are set for processes from now on, each of which begins when `event` returns."""
    limits = []

    class Process(subprocess.Popen):
        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None:
                limits.append(timeout)
                event()
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Process)
    return limits
