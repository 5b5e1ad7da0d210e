"""The upstreams of these tests: what the stand-in saw and counts, and one that answers with scripted bytes.

The stand-in speaks correct HTTP; `ScriptedUpstream` says what correct servers never say, byte by byte, and can be
closed and opened again on its port. It refuses nothing and parses no more than where a request ends.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import struct
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

KEPT_BODY_BYTES_MAX = 33_554_432


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as an upstream received it. `body` is empty where it was too large to keep."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    sha256: str
    length: int

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    def names(self) -> list[str]:
        """Header names in lower case, in order."""
        return [name.lower() for name, _ in self.headers]

    def value(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for known, value in self.headers if known.lower() == name.lower()), None)


def get_json(url: str) -> Any:
    """A JSON answer."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.loads(answer.read())


def last(upstream: str, n: int = 1) -> list[Seen]:
    """The last n generation requests the stand-in received, oldest first."""
    return [
        Seen(
            entry["method"],
            entry["target"],
            tuple((name, value) for name, value in entry["headers"]),
            body := base64.b64decode(entry["body"]),
            hashlib.sha256(body).hexdigest(),
            len(body),
        )
        for entry in get_json(f"{upstream}/__last?n={n}")["data"]
    ]


def counters(upstream: str) -> dict[str, int]:
    """started, finished, cancelled, running."""
    return get_json(f"{upstream}/__counters")  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Script:
    """What to send to one request: pieces, with a pause before each but the first; then how to end."""

    pieces: Sequence[bytes]
    pause_s: float = 0.0
    reset: bool = False  # RST in place of FIN
    keep: bool = False  # leave the connection open for the next request


class ScriptedUpstream:
    """A threaded server of scripts, first come first served. `/health`, `/v1/models` and `/tokenize` answer alone."""

    def __init__(self) -> None:
        self.scripts: deque[Script] = deque()
        self.seen: deque[Seen] = deque(maxlen=64)
        self._port = 0
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self.open()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> None:
        """Listen, on the same port as before."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen(64)
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on, and cut those there are."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def then(self, *pieces: bytes, pause_s: float = 0.0, reset: bool = False, keep: bool = False) -> None:
        """Answer the next request with these bytes."""
        self.scripts.append(Script(pieces, pause_s, reset, keep))

    def then_json(self, value: object, status: str = "200 OK", head: bytes = b"") -> None:
        """Answer the next request with a JSON body."""
        self.then_whole(json.dumps(value).encode(), status, b"Content-Type: application/json\r\n" + head)

    def then_whole(self, body: bytes, status: str = "200 OK", head: bytes = b"") -> None:
        """Answer the next request with this body, and end the connection, as the head says: what comes next on one
        that ends without a word is lost between two servers that are both right.
        """
        said = (status.encode(), head, len(body), body)
        self.then(b"HTTP/1.1 %b\r\nConnection: close\r\n%bContent-Length: %d\r\n\r\n%b" % said)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        self._open.add(sock)
        with contextlib.suppress(OSError, ValueError), contextlib.ExitStack() as stack:
            stack.enter_context(sock)
            stack.callback(self._open.discard, sock)
            stream = sock.makefile("rb")
            while (seen := _read_request(stream, sock)) is not None:
                script = self._script_for(seen)
                for index, piece in enumerate(script.pieces):
                    if index and script.pause_s:
                        time.sleep(script.pause_s)
                    sock.sendall(piece)
                if script.keep:
                    continue
                if script.reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    sock.shutdown(socket.SHUT_WR)
                stream.close()
                return

    def _script_for(self, seen: Seen) -> Script:
        if seen.target == "/health":
            return Script((b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",), keep=True)
        if seen.target == "/v1/models":
            body = json.dumps({"data": [{"id": "fake-model", "max_model_len": 8192}]}).encode()
            return Script((b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body),), keep=True)
        if seen.target == "/tokenize":
            return Script((b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",), keep=True)
        self.seen.append(seen)
        if self.scripts:
            return self.scripts.popleft()
        return Script((b"HTTP/1.1 500 No Script\r\nContent-Length: 0\r\n\r\n",))


def _read_request(stream: Any, sock: socket.socket) -> Seen | None:
    first = stream.readline()
    if not first:
        return None
    method, target, _ = first.decode("latin-1").split(" ", 2)
    headers: list[tuple[str, str]] = []
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name, value.strip()))
    lowered = {name.lower(): value for name, value in headers}
    digest, length, kept = hashlib.sha256(), 0, []
    for piece in _body(stream, lowered):
        digest.update(piece)
        length += len(piece)
        if length <= KEPT_BODY_BYTES_MAX:
            kept.append(piece)
    body = b"".join(kept) if length <= KEPT_BODY_BYTES_MAX else b""
    return Seen(method, target, tuple(headers), body, digest.hexdigest(), length)


def _body(stream: Any, headers: dict[str, str]) -> Any:
    if "chunked" in headers.get("transfer-encoding", ""):
        while size := int(stream.readline().split(b";")[0], 16):
            yield stream.read(size)
            stream.readline()
        while stream.readline() not in (b"\r\n", b""):
            pass
        return
    left = int(headers.get("content-length", "0"))
    while left:
        piece = stream.read(min(left, 1_048_576))
        if not piece:
            return
        left -= len(piece)
        yield piece
