"""The line to the service for chat completions: a request in, pieces of its answer out as they come. Blocking.

One connection a request, closed with it: who stops reading leaves, and what leaves the service frees the GPU. Raises
LineFailed with a Failure that says who refused, who is away and what broke off.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Final
from urllib.parse import urlsplit

from proxy.cli.chat_answer import Answer, AnswerFailed, Piece, error_of
from proxy.cli.chat_words import Failure

CONNECT_S: Final = 10.0
SILENCE_S: Final = 900.0
"""How long nothing may come: a long prompt on a busy server takes minutes before its first token."""
READ_BYTES: Final = 65_536
BODY_BYTES_MAX: Final = 16_777_216
_PREFIX: Final = "x-memory-"


class LineFailed(Exception):
    """There is no answer, or no whole one."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Line:
    """Calls one service as one user. `headers` go with every request."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._https = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._prefix = parts.path.rstrip("/")
        self._headers = {**headers, "Connection": "close"}

    def models(self, timeout_s: float) -> list[str]:
        """The names of the models that are served, the default first. Raises LineFailed."""
        with closing(self._asked("GET", "/v1/models", None, {}, timeout_s)) as call:
            body = call.body()
        try:
            return [str(one["id"]) for one in json.loads(body)["data"]]
        except (ValueError, KeyError, TypeError) as exc:
            raise LineFailed(Failure("refused", "/v1/models names no model; say one with --model", 200)) from exc

    def ask(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> closing[Call]:
        """A chat completion; leaving the block leaves the service. Raises LineFailed, here and from its pieces."""
        raw = json.dumps(body).encode()
        return closing(self._asked("POST", "/v1/chat/completions", raw, headers, SILENCE_S))

    def _asked(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], silence_s: float) -> Call:
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=min(CONNECT_S, silence_s))
        sent = {**self._headers, **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            connection.connect()
            call = Call(connection)
            call.request(method, self._prefix + path, body, sent, silence_s)
        except (http.client.HTTPException, OSError) as fault:
            connection.close()
            raise LineFailed(Failure("away", _said(fault))) from fault
        except ValueError as fault:
            connection.close()
            what = "the key, or a name, holds characters that no header may hold"
            raise LineFailed(Failure("refused", what, 400)) from fault
        except BaseException:  # Ctrl-C above all: whoever was being asked must see us leave
            connection.close()
            raise
        if call.response.status >= 400:
            with closing(call):
                raise LineFailed(_refusal(call))
        return call


class Call:
    """One request and its answer. Closing it closes the socket, whatever else holds a part of it."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._sock: socket.socket = connection.sock
        self.response: http.client.HTTPResponse

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], silence_s: float) -> None:
        """Send it and read the head of the answer. Raises HTTPException, OSError."""
        self._sock.settimeout(silence_s)
        try:
            self._connection.request(method, path, body, dict(headers))
            self.response = self._connection.getresponse()
        except BaseException:
            self._leave()
            raise

    def body(self) -> bytes:
        """The whole body. Raises LineFailed."""
        try:
            raw = self.response.read(BODY_BYTES_MAX + 1)
        except (http.client.HTTPException, OSError) as fault:
            raise LineFailed(Failure("broke", _said(fault))) from fault
        if len(raw) > BODY_BYTES_MAX:
            raise LineFailed(Failure("broke", f"a body of more than {BODY_BYTES_MAX} bytes"))
        return raw

    @property
    def memory(self) -> dict[str, str]:
        """The X-Memory-* headers, by their names without the prefix, small."""
        return {
            name.lower().removeprefix(_PREFIX): value
            for name, value in self.response.getheaders()
            if name.lower().startswith(_PREFIX)
        }

    def pieces(self) -> Iterator[Piece]:
        """The pieces of the answer as they come. Raises LineFailed where it is not whole."""
        answer = Answer()
        try:
            if "text/event-stream" not in (self.response.getheader("Content-Type") or ""):
                yield from answer.whole(self.body())
                return
            while chunk := self.response.read1(READ_BYTES):
                yield from answer.feed(chunk)
        except AnswerFailed as fault:
            raise LineFailed(Failure("broke", str(fault))) from fault
        except (http.client.HTTPException, OSError) as fault:
            if not answer.complete:  # what breaks behind the last event costs nothing
                raise LineFailed(Failure("broke", _said(fault))) from fault
        if not answer.complete:
            raise LineFailed(Failure("broke", "it ended without its last event"))

    def close(self) -> None:
        """Leave."""
        self._leave()
        self.response.close()
        self._connection.close()

    def _leave(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def _refusal(call: Call) -> Failure:
    try:
        message, code, param = error_of(call.body())
    except LineFailed as fault:
        message, code, param = fault.failure.message, "", ""
    head = call.response
    return Failure("refused", message, head.status, code, param, head.getheader("Retry-After") or "")


def _said(fault: BaseException) -> str:
    """A fault in words: what the system says of it, else its name."""
    if isinstance(fault, TimeoutError):
        return "nothing came in time"
    if isinstance(fault, http.client.IncompleteRead):
        return "the connection was cut"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return str(fault) or type(fault).__name__
