"""The beginning of a body that another sends: its stream in, at most so many bytes out, all of it where it is shorter.

aiohttp's own `read(n)` gives what has come by then (128 kB and less), not n bytes. Raises what the stream does.
"""

from __future__ import annotations

import aiohttp


async def beginning(content: aiohttp.StreamReader, bytes_max: int) -> bytes:
    """The first `bytes_max` bytes."""
    raw = bytearray()
    while len(raw) < bytes_max and (piece := await content.read(bytes_max - len(raw))):
        raw += piece
    return bytes(raw)
