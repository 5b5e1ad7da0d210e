"""A read document as bytes, to be sealed until a worker stores it: Parsed in, bytes out, and its title and blocks back.

Raises EnvelopeUnreadable for bytes that are none of ours.
"""

from __future__ import annotations

import json
import zlib

from memory.documents import Parsed
from memory.errors import EnvelopeUnreadable
from memory.parse.blocks import Block

_LEVEL = 6


def packed(parsed: Parsed) -> bytes:
    """Title and blocks, compressed: running text to about a third."""
    blocks = [[one.text, one.kind, one.start, one.end, one.page, one.level] for one in parsed.blocks]
    said = {"title": parsed.title, "blocks": blocks}
    return zlib.compress(json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(), _LEVEL)


def unpacked(raw: bytes) -> tuple[str, tuple[Block, ...]]:
    """Title and blocks again."""
    try:
        said = json.loads(zlib.decompress(raw))
        return str(said["title"]), tuple(Block(*one) for one in said["blocks"])
    except (ValueError, KeyError, TypeError, zlib.error) as exc:
        raise EnvelopeUnreadable(f"the payload is no document: {type(exc).__name__}") from exc
