"""Identifiers: UUIDv7 for what is new, name-derived ids for what must come out the same twice.

Nothing here reads a store. `new_id` reads the clock, the rest are functions of their arguments.
"""

from __future__ import annotations

import hashlib
import hmac
from uuid import UUID

import uuid6


def new_id() -> UUID:
    """A time-ordered UUIDv7 (RFC 9562), minted in the application since Postgres 15 has none."""
    return UUID(int=uuid6.uuid7().int)


def minted_ms(one: UUID) -> int:
    """When a UUIDv7 was minted, in ms since 1970."""
    return int.from_bytes(one.bytes[:6], "big")


def id_in(text: str) -> UUID | None:
    """The id that a text is; None for another text."""
    try:
        return UUID(text)
    except ValueError:
        return None


def derived_id(base: UUID, *names: str | int) -> UUID:
    """The id of a part of `base`: same base and names, same id, so that a retried worker writes the same rows.

    Keeps the 48 time bits of a UUIDv7 base, so ids of parts sort with their whole.
    """
    digest = hashlib.sha256(base.bytes + b"\x00" + "\x00".join(map(str, names)).encode()).digest()
    return _as_v8(base.bytes[:6] + digest[:10])


def keyed_id(key: bytes, *names: str) -> UUID:
    """An id that only the holder of `key` can compute from `names` (length-prefixed, so no two lists collide)."""
    raw = [name.encode("utf-8", "surrogatepass") for name in names]
    said = b"".join(len(one).to_bytes(4, "big") + one for one in raw)
    return _as_v8(hmac.digest(key, said, "sha256")[:16])


def words_id(*names: str) -> UUID:
    """The id of words of ours that are no memory: same words, same id. Its time is 1970, which no memory's is."""
    return _as_v8(bytes(6) + hashlib.sha256("\x00".join(names).encode()).digest()[:10])


def is_words(one: UUID) -> bool:
    """Whether an id stands for words of ours."""
    return not one.int >> 80


def _as_v8(raw: bytes) -> UUID:
    """Version 8 and the RFC variant set on 16 bytes: a custom UUID, which these are."""
    value = int.from_bytes(raw, "big")
    value = (value & ~(0xF << 76)) | (0x8 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return UUID(int=value)
