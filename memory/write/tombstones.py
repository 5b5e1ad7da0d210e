"""What a commit is held against the tombstones by: names and texts in, HMACs out.

A tombstone is an HMAC under the tenant's content key of what was forgotten, so the store can recognise it and tells
nobody what it was. The same functions make tombstones when something is forgotten. Pure.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from uuid import UUID

from memory.model import Scope, Turn
from memory.stored import Digests, TombstoneKind


def digest(content_key: bytes, kind: TombstoneKind, value: str) -> bytes:
    """The 32 bytes that stand for a forgotten thing of this kind."""
    return hmac.digest(content_key, kind.encode() + b"\x00" + value.encode("utf-8", "surrogatepass"), "sha256")


def digests_of(content_key: bytes, scope: Scope, labels: Iterable[str], turns: Iterable[Turn]) -> Digests:
    """The digests of a commit: its scope's names and sessions, and each turn's source and words."""
    names: list[tuple[TombstoneKind, bytes]] = [
        ("user", digest(content_key, "user", scope.user)),
        ("project", digest(content_key, "project", scope.project)),
        *(("session", digest(content_key, "session", label)) for label in labels),
    ]
    items: dict[UUID, tuple[tuple[TombstoneKind, bytes], ...]] = {}
    for turn in turns:
        found: list[tuple[TombstoneKind, bytes]] = [("content", digest(content_key, "content", turn.content))]
        if turn.source_id is not None:
            found.append(("source", digest(content_key, "source", turn.source_id)))
        items[turn.event_id] = tuple(found)
    return Digests(tuple(names), items)
