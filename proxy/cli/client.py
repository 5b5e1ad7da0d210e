"""A small client of the proxy's own API: a call in, parsed JSON out. Blocking, standard library only.

Raises CallFailed with a text for people: what the service said, or that it does not answer and how to start it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

from proxy.cli.chat_words import printable

KEY_VARIABLE: Final = "MEMORY_PROXY_KEY"
URL: Final = "http://127.0.0.1:8080"
"""Where a service is that no option names."""
_KEY: Final = re.compile(r"[!-~]+", re.ASCII)
_PIECE_BYTES: Final = 65_536
_NDJSON: Final = "application/x-ndjson"
_ITSELF: Final = re.compile(r"https?://(127\.[\d.]+|localhost|\[::1\])(:\d+)?(/|$)")


class CallFailed(Exception):
    """The service refused, with this status, or is not there (None)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Reads(Protocol):
    """A file that is sent as it is read."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; b"" at the end."""


class _Said(dict[str, Any]):
    """An object of an answer; who asks it for a member that it has not was answered by another program."""

    url: str

    def __missing__(self, name: str) -> Any:
        raise CallFailed(
            f"{self.url} did not answer as a memory-proxy does: {name!r} is missing; is it one, as new as this? (--url)"
        )


def without_v1(url: str) -> str:
    """A service's address, also where it is said as an OpenAI client has it: `base_url` ends with /v1."""
    return re.sub(r"/v1/*\Z", "", url)


def with_service(parser: argparse.ArgumentParser) -> None:
    """The options of a command that speaks to a running service: where it is, whose memory, with which key."""
    parser.add_argument("--url", type=without_v1, default=URL, help="the running proxy (default %(default)s)")
    parser.add_argument("--user", help="whose memory (X-Memory-User)")
    parser.add_argument("--project", help="project scope (X-Memory-Project)")
    parser.add_argument("--agent", help="agent namespace (X-Memory-Agent)")
    parser.add_argument("--key", help=f"API key, where the proxy runs with auth.mode keys; or in ${KEY_VARIABLE}")


def scope_headers(options: argparse.Namespace) -> dict[str, str]:
    """Whose memory, and the key, as headers: that of the environment where none is named, which no list of processes
    shows. Raises CallFailed; what the key is, is never told.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip() if options.key is None else options.key
    headers = {
        f"X-Memory-{name.capitalize()}": _escaped(value)
        for name in ("user", "project", "agent")
        if (value := getattr(options, name)) is not None
    }
    if key:
        if _KEY.fullmatch(key) is None:
            raise CallFailed("the key has a space, or a character that no key has: was it copied whole, and alone?")
        headers["Authorization"] = f"Bearer {key}"
    return headers


def quoted(name: str) -> str:
    """A name or an id as a part of a path; one that is not UTF-8 is the service's to refuse. Raises CallFailed for an
    empty one, as a variable that was never set gives: its path is that of something else.
    """
    if not name:
        raise CallFailed("a name or an id is given and empty: say it, or leave it out")
    return _escaped(name)


def _escaped(said: str) -> str:
    return quote(said, safe="", errors="surrogateescape")


def _address(url: str) -> str:
    """Where the service is. Raises CallFailed."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return url.rstrip("/")
    except ValueError:  # a bracket that stays open, a port beyond 65535
        pass
    raise CallFailed(f"--url must be an http:// or https:// URL, not {url}")


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key and what is sent are for the one service that was named."""

    def redirect_request(self, *_: Any) -> None:
        """Another request: none."""


def _opener_for(url: str) -> urllib.request.OpenerDirector:
    """As the environment has it; this machine is asked itself, whatever HTTP_PROXY says."""
    if _ITSELF.match(url):
        return urllib.request.build_opener(_Stays, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_Stays)


class Client:
    """Calls one running proxy inside one scope."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._base = _address(options.url)
        self._opener = _opener_for(self._base)
        self._headers = scope_headers(options)
        if getattr(options, "budget", None) is not None:
            self._headers["X-Memory-Budget"] = str(options.budget)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """GET, parsed. What the answer has not raises CallFailed when it is asked for."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self._read(self._open("GET", path + (f"?{urlencode(given, errors='surrogateescape')}" if given else "")))

    def send(self, method: str, path: str, body: Any = None, *, version: int | None = None) -> Any:
        """POST, PATCH or DELETE with a JSON body, made from `version`."""
        return self._read(self._open(method, path, json.dumps(body).encode() if body is not None else None, version))

    def lines(self, method: str, path: str, body: Reads | None = None, session: str | None = None) -> Iterator[bytes]:
        """An NDJSON answer line by line; `body` is streamed. Raises CallFailed where it is none."""
        answer, rest = self._open(method, path, body, session=session), b""
        if not answer.headers.get("Content-Type", _NDJSON).startswith(_NDJSON):
            raise _stranger(self._base)
        for piece in self._pieces(answer):
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line + b"\n" for line in whole)
        if rest:
            yield rest

    @property
    def url(self) -> str:
        """Where the proxy is."""
        return self._base

    def pieces(self, path: str) -> Iterator[bytes]:
        """GET, the answer's bytes as they come."""
        return self._pieces(self._open("GET", path))

    def upload(self, path: str, fields: Mapping[str, str], name: str, kind: str, content: bytes) -> Any:
        """POST a file with these other parts, parsed."""
        boundary = secrets.token_hex(16)
        parts = [_utf8(f'Content-Disposition: form-data; name="{one}"\r\n\r\n{value}') for one, value in fields.items()]
        escaped = name.translate({34: "%22", 13: "%0D", 10: "%0A"})
        head = f'Content-Disposition: form-data; name="file"; filename="{escaped}"\r\nContent-Type: {kind}\r\n\r\n'
        parts.append(_utf8(head) + content)
        edge = f"--{boundary}\r\n".encode()
        body = b"".join(edge + part + b"\r\n" for part in parts) + f"--{boundary}--\r\n".encode()
        return self._read(self._open("POST", path, body, kind=f"multipart/form-data; boundary={boundary}"))

    def _read(self, answer: Any) -> Any:
        """The whole answer, parsed, an object."""
        return self.parsed(b"".join(self._pieces(answer)))

    def parsed(self, raw: bytes) -> Any:
        """An answer, or a line of one, as an object. Raises CallFailed for what is none."""
        try:
            said = json.loads(raw, object_pairs_hook=self._said)
        except (ValueError, RecursionError) as fault:
            raise _stranger(self._base) from fault
        if not isinstance(said, _Said):
            raise _stranger(self._base)
        return said

    def _said(self, members: list[tuple[str, Any]]) -> _Said:
        said = _Said(members)
        said.url = self._base
        return said

    def _pieces(self, answer: Any) -> Iterator[bytes]:
        """An answer to its end. http.client takes the end of a connection for that of the answer, in `readline` and
        `read(n)`: here one that is cut is CallFailed.
        """
        left: int | None = answer.length
        try:
            while left != 0 and (piece := answer.read1(_PIECE_BYTES)):
                left = None if left is None else left - len(piece)
                yield piece
        except (http.client.HTTPException, OSError) as fault:
            raise CallFailed(f"{self._base} broke off in the middle of its answer ({fault})") from fault
        if left:
            raise CallFailed(f"{self._base} broke off in the middle of its answer ({left} bytes are missing)")

    def _open(
        self,
        method: str,
        path: str,
        body: bytes | Reads | None = None,
        version: int | None = None,
        kind: str | None = None,
        session: str | None = None,
    ) -> Any:
        headers = dict(self._headers)
        if session is not None:
            headers["X-Memory-Session"] = session
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        if body is not None:
            headers["Content-Type"] = kind or ("application/json" if isinstance(body, bytes) else _NDJSON)
        request = urllib.request.Request(self._base + path, data=body, method=method, headers=headers)  # noqa: S310  checked above
        try:
            return self._opener.open(request)
        except urllib.error.HTTPError as refused:
            with refused:
                raise CallFailed(_reason(refused), refused.code) from refused
        except (urllib.error.URLError, http.client.HTTPException, OSError, UnicodeError) as fault:
            cause = fault.reason if isinstance(fault, urllib.error.URLError) else fault
            why = getattr(cause, "strerror", None) or cause
            raise CallFailed(
                f"{self._base} does not answer ({why}); is `memory-proxy serve` running there? (--url says where)"
            ) from fault


def _stranger(url: str) -> CallFailed:
    return CallFailed(f"{url} did not answer as a memory-proxy does; is it one? (--url)")


def _utf8(text: str) -> bytes:
    """What is not UTF-8 in it, as the name of a file may be, is written as an escape."""
    return text.encode(errors="backslashreplace")


def _reason(refused: urllib.error.HTTPError) -> str:
    """Why, in words that steer no terminal: a name or a member that was sent may stand in them."""
    return printable(_told(refused))


def _told(refused: urllib.error.HTTPError) -> str:
    try:
        error = json.load(refused)["error"]
        return f"{refused.code} {error['code']}: {error['message']}"
    except (ValueError, RecursionError, KeyError, TypeError, http.client.HTTPException, OSError):
        said = f"{refused.code} {refused.reason}"
        if elsewhere := refused.headers.get("Location"):
            return f"{said}: it is at {elsewhere}, which --url may say"
        return f"{said}, and not as a memory-proxy says it; is it one? (--url)" if refused.code == 404 else said
