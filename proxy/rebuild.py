"""What went upstream, made again: a kept exchange and the record of what it was given in, the sent bytes out.

By the very edits that the live path makes (`proxy.prompt.edits_of`): blocks in, `memory` out, the tenant's salt set.
The digest of what was sent is in the record, so it is known whether the bytes are the same. Which salt was used is not
kept: the body without one, then with each salt the tenant ever had, is tried until the digest fits. Pure, no I/O.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from memory.keys import tenant_salt
from memory.model import Captured
from memory.stored import RetrievalRecord, SealedExchange
from proxy.capture import DATA_URLS_BY_DIGEST
from proxy.cutting import Cut
from proxy.prompt import edits_of
from proxy.wire.chat_request import ChatRequest

Why = Literal["retention", "erased", "key", "not_kept", "not_whole"]
# What stands in a kept request in place of a data URL (`proxy.capture.within_bounds`).
_DIGEST_OF_URL: Final = re.compile(rb'"sha256:[0-9a-f]{64}')


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A body as it went upstream, with the salt that fits its digest."""

    body: bytes
    sha256: bytes
    salt: str | None


@dataclass(frozen=True, slots=True)
class Placement:
    """A block of a prompt. `kept`: it was placed at an earlier turn and stands there again."""

    position: int
    text: str
    tokens: int
    memory_ids: tuple[str, ...]
    kept: bool


def placements_of(record: RetrievalRecord, texts: Sequence[str]) -> tuple[Placement, ...]:
    """The blocks of a record with their unsealed texts, in the order in which they were placed."""
    return tuple(
        Placement(one["position"], text, one["tokens"], tuple(one["memory_ids"]), bool(one.get("since")))
        for one, text in zip(record.placements, texts, strict=True)
    )


def blocks_of(placements: Iterable[Placement]) -> dict[int, str]:
    """What stands before the client's own text at each message; several at one message in their order."""
    blocks: dict[int, str] = {}
    for one in placements:
        blocks[one.position] = blocks.get(one.position, "") + one.text
    return blocks


def rebuilt(
    chat: ChatRequest, blocks: Mapping[int, str], salt_keys: Sequence[bytes], sent: bytes, cut: Cut | None = None
) -> Rebuilt:
    """The body whose SHA-256 is `sent`; the one without a salt where none is. `cut` did not fit and was not sent.
    Raises ValueError for a block at a message that takes none.
    """
    bare = _made(chat, blocks, None, cut)
    if bare.sha256 == sent:
        return bare
    salted = (_made(chat, blocks, tenant_salt(key, chat.cache_salt), cut) for key in salt_keys)
    return next((made for made in salted if made.sha256 == sent), bare)


def _made(chat: ChatRequest, blocks: Mapping[int, str], salt: str | None, cut: Cut | None) -> Rebuilt:
    body = edits_of(chat, salt, blocks, cut)
    return Rebuilt(body, hashlib.sha256(body).digest(), salt)


def why_gone(
    record: RetrievalRecord, exchange: SealedExchange, now: datetime, retention: timedelta
) -> tuple[Why, str] | None:
    """Why the sealed parts of an answer are not to be opened, and in words; None where they are."""
    past: tuple[Why, str] = "retention", "its sealed parts are past their retention (replay.retention_days)"
    is_past = record.created_at + retention <= now
    if record.sealed is not None and exchange.sealed is not None:
        return past if is_past else None  # the sweep comes once an hour
    if exchange.sealed is None and exchange.sealed_sha256 is not None:
        return past
    if exchange.sealed is None and exchange.status == "refused":
        return "not_kept", f"the request was not kept: {exchange.reason}"
    if is_past:
        return past
    return "erased", "its sealed parts were erased with a memory, a conversation or a user that was forgotten"


def is_whole(captured: Captured, *, identical: bool) -> bool:
    """Whether the kept request is the one that came: a very large one is kept with its data URLs by digest."""
    if captured.reason == DATA_URLS_BY_DIGEST:
        return False
    return identical or _DIGEST_OF_URL.search(captured.request) is None
