"""HTTP/1.1 over a bare socket: bytes out, the answer's bytes back, nothing normalised.

A client library would decode, merge, reorder and retry; what these tests compare is what is on the wire. Refuses
nothing: an answer that breaks off is returned with `whole` False.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

Pairs = Sequence[tuple[bytes, bytes]]
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer trailers"
    b" transfer-encoding upgrade".split()
)
READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer as it was on the wire. `body` has lost its chunk frames; `whole`: it ended as HTTP says."""

    status: int
    reason: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    whole: bool

    def values(self, name: bytes) -> list[bytes]:
        """All values of a header, in order."""
        return [value for known, value in self.headers if known.lower() == name.lower()]

    def text(self, name: str) -> str | None:
        """The one value of a header as text."""
        found = self.values(name.encode())
        return found[0].decode("latin-1") if found else None

    def end_to_end(self) -> list[tuple[bytes, bytes]]:
        """Headers less hop-by-hop ones, the date, and what is the proxy's own."""
        return [
            (name, value)
            for name, value in self.headers
            if name.lower() not in HOP_BY_HOP and name.lower() != b"date" and not name.lower().startswith(b"x-memory-")
        ]


def request_bytes(method: str, target: str, headers: Pairs = (), body: bytes | None = None) -> bytes:
    """A request. Adds Host, and Content-Length where there is a body and none is given."""
    names = {name.lower() for name, _ in headers}
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1")]
    if b"host" not in names:
        lines.append(b"Host: e2e.test")
    lines += [name + b": " + value for name, value in headers]
    if body is not None and not names & {b"content-length", b"transfer-encoding"}:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def chunked(pieces: Iterable[bytes], trailers: bytes = b"") -> bytes:
    """A chunked body of these pieces."""
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n" + trailers + b"\r\n"


def connect(url: str, timeout_s: float = 30) -> socket.socket:
    """A socket to the server of a URL."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 80), timeout_s)


def exchange(url: str, raw: bytes | Iterable[bytes], *, method: str = "GET", timeout_s: float = 30) -> RawAnswer:
    """Send one request, read its answer, hang up."""
    with connect(url, timeout_s) as sock:
        for piece in (raw,) if isinstance(raw, bytes) else raw:
            sock.sendall(piece)
        return read_answer(sock, method=method)


def send(url: str, method: str, target: str, headers: Pairs = (), body: bytes | None = None) -> RawAnswer:
    """`exchange` of a request in parts."""
    return exchange(url, request_bytes(method, target, headers, body), method=method)


def read_head(sock: socket.socket) -> tuple[int, bytes, tuple[tuple[bytes, bytes], ...], bytes]:
    """Status, reason, headers, and what was read behind them. Informational answers are skipped."""
    data = b""
    while True:
        head, mark, rest = data.partition(b"\r\n\r\n")
        if mark:
            first, *lines = head.split(b"\r\n")
            _, status, reason = (*first.split(b" ", 2), b"")[:3]
            if int(status) >= 200:
                pairs = (line.partition(b":") for line in lines)
                return int(status), reason, tuple((name, value.strip()) for name, _, value in pairs), rest
            data = rest
            continue
        piece = sock.recv(READ_BYTES)
        if not piece:
            raise ConnectionError(f"no head before the end: {data!r}")
        data += piece


def read_answer(sock: socket.socket, *, method: str = "GET") -> RawAnswer:
    """The next answer on a socket."""
    status, reason, headers, rest = read_head(sock)
    lowered = {name.lower(): value for name, value in headers}
    if method == "HEAD" or status in (204, 304):
        return RawAnswer(status, reason, headers, b"", True)
    if b"chunked" in lowered.get(b"transfer-encoding", b"").lower():
        body, whole = _chunks(sock, rest)
    elif b"content-length" in lowered:
        body, whole = _exactly(sock, rest, int(lowered[b"content-length"]))
    else:
        body, whole = _until_closed(sock, rest)
    return RawAnswer(status, reason, headers, body, whole)


def _recv(sock: socket.socket) -> bytes:
    try:
        return sock.recv(READ_BYTES)
    except ConnectionError:
        return b""


def _exactly(sock: socket.socket, data: bytes, length: int) -> tuple[bytes, bool]:
    pieces, have = [data], len(data)
    while have < length and (piece := _recv(sock)):
        pieces.append(piece)
        have += len(piece)
    return b"".join(pieces), have == length


def _until_closed(sock: socket.socket, data: bytes) -> tuple[bytes, bool]:
    pieces = [data]
    while True:
        try:
            piece = sock.recv(READ_BYTES)
        except ConnectionError:
            return b"".join(pieces), False
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)


def _chunks(sock: socket.socket, data: bytes) -> tuple[bytes, bool]:
    body = bytearray()
    while True:
        line, mark, rest = data.partition(b"\r\n")
        size = int(line.split(b";")[0], 16) if mark else -1
        if size == 0:
            while b"\r\n" not in rest and (piece := _recv(sock)):
                rest += piece
            return bytes(body), b"\r\n" in rest
        if size > 0 and len(rest) >= size + 2:
            body += rest[:size]
            data = rest[size + 2 :]
            continue
        piece = _recv(sock)
        if not piece:
            return bytes(body + (rest if size > 0 else b"")), False
        data += piece
