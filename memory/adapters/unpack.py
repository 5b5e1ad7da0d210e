"""A body as it comes to what it unpacks to, under a bound: chunks in, bytes out.

Takes no encoding, gzip and deflate (with and without its head); others were not asked for. Neither what comes nor what
it unpacks to passes the bound by more than a chunk: a bomb is cut when it begins to grow. What follows the end of a
compressed body is not looked at. Raises FetchFailed: media_type for another encoding, unreadable for a broken one.
"""

from __future__ import annotations

import zlib
from typing import Final

from memory.errors import FetchFailed

ENCODINGS: Final = "gzip, deflate"
_GZIP: Final = 16 + zlib.MAX_WBITS


class Unpacker:
    """One body. `over` once more than `bytes_max` came, or came out."""

    def __init__(self, encoding: str, bytes_max: int) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise FetchFailed("media_type", "a body in an encoding that was not asked for")
        self._name = name
        self._bytes_max = bytes_max
        self._body = bytearray()
        self._came = 0
        self._unzip = zlib.decompressobj(_GZIP) if name.endswith("gzip") else None

    @property
    def over(self) -> bool:
        """Whether the bound is passed."""
        return len(self._body) > self._bytes_max or self._came > self._bytes_max

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes. Past the bound they are dropped."""
        self._came += len(chunk)
        if self.over or not chunk:
            return
        if self._name in ("", "identity"):
            self._body += chunk
            return
        if self._unzip is None:
            self._unzip = zlib.decompressobj(zlib.MAX_WBITS if chunk[0] & 0x0F == 8 else -zlib.MAX_WBITS)
        try:
            self._body += self._unzip.decompress(chunk, self._bytes_max + 1 - len(self._body))
        except zlib.error as exc:
            raise FetchFailed("unreadable", "a body that does not unpack") from exc

    def body(self) -> bytes:
        """What came of it, at most `bytes_max` bytes. Raises FetchFailed where a compressed body ended too early."""
        if not self.over and self._unzip is not None and not self._unzip.eof:
            raise FetchFailed("unreadable", "a body that ends before its end")
        return bytes(self._body[: self._bytes_max])
