"""What a commit is held against the tombstones by: names and texts in, HMACs out.

A tombstone is an HMAC under the tenant's content key of what was forgotten, so the store can recognise it and tells
nobody what it was. The same functions make tombstones when something is forgotten. A session, a source, a text and a
place in the chain are their user's: what one user forgets another may have said. Pure.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from memory.chain import Digest
from memory.model import Retrieval, Scope, TombstoneKind, Turn
from memory.stored import Digests, Given

CONTENT_CHARS_MIN: Final = 16
"""Shorter words ("thanks") are refused at their place in the chain only: their user may say them again."""


def digest(content_key: bytes, kind: TombstoneKind, value: str) -> bytes:
    """The 32 bytes that stand for a forgotten thing of this kind."""
    return hmac.digest(content_key, kind.encode() + b"\x00" + value.encode("utf-8", "surrogatepass"), "sha256")


def session_digest(content_key: bytes, scope: Scope, label: str) -> bytes:
    """The tombstone of a conversation, which is its scope's."""
    return digest(content_key, "session", "\x00".join((scope.user, scope.project, scope.agent, label)))


def memory_marks(content_key: bytes, memories: Iterable[UUID]) -> list[tuple[TombstoneKind, bytes]]:
    """The tombstones of memories by their ids, which are the tenant's."""
    return [("memory", digest(content_key, "memory", str(one))) for one in memories]


def source_mark(content_key: bytes, user: str, name: str) -> tuple[TombstoneKind, bytes]:
    """The tombstone of what lines of a user call so."""
    return "source", digest(content_key, "source", f"{user}\x00{name}")


def called(source_id: str | None, line_digest: bytes | None, event_id: UUID | None = None) -> tuple[str, ...]:
    """What a line of an import calls a turn: its own id for it, else all of the line; and where it comes out of an
    export the id that the turn had there.
    """
    if source_id is not None:
        return (source_id,)
    return (*([line_digest.hex()] if line_digest else ()), *([str(event_id)] if event_id else ()))


def turn_digests(
    content_key: bytes, user: str, content: str, names: Iterable[str], *chains: bytes
) -> tuple[tuple[TombstoneKind, bytes], ...]:
    """What a turn is recognised by: its places in the chain, what it is `called`, and its words where they are more
    than anybody says every day.
    """

    def of(kind: TombstoneKind, value: str) -> tuple[TombstoneKind, bytes]:
        return kind, digest(content_key, kind, f"{user}\x00{value}")

    found = [of("chain", chain.hex()) for chain in chains]
    if len(content) >= CONTENT_CHARS_MIN:
        found.append(of("content", content))
    return (*found, *(source_mark(content_key, user, name) for name in names))


def digests_of(
    content_key: bytes,
    scope: Scope,
    labels: Iterable[str],
    turns: Iterable[Turn],
    label_of: Mapping[UUID, str] | None = None,
    copied: Mapping[Digest, Digest] | None = None,
) -> Digests:
    """The digests of a commit: its scope's names and sessions, and of each turn its place, source and words.

    `label_of`: the session of each turn of an import, by event id. Such a turn happened when its line says, so each is
    held against the names by itself. `copied`: where one stands in a copy, by its place.
    """
    user, project = digest(content_key, "user", scope.user), digest(content_key, "project", scope.project)
    sessions = {label: session_digest(content_key, scope, label) for label in {*labels, *(label_of or {}).values()}}
    of_all: list[tuple[TombstoneKind, bytes]] = [
        ("user", user),
        ("project", project),
        *(("session", sessions[label]) for label in labels),
    ]
    items: dict[UUID, tuple[tuple[TombstoneKind, bytes], ...]] = {}
    for turn in turns:
        names = called(turn.source_id, turn.line_digest)
        chains = {turn.chain, (copied or {}).get(turn.chain, turn.chain)}
        found = turn_digests(content_key, scope.user, turn.content, names, *chains)
        if label_of:
            found = (*found, ("user", user), ("project", project), ("session", sessions[label_of[turn.event_id]]))
        items[turn.event_id] = found
    return Digests(tuple(of_all), items)


def given_of(
    content_key: bytes, retrieval: Retrieval | None, digests: Sequence[Digest | None], turns: Iterable[Turn]
) -> dict[str, Given]:
    """The memories that a live request was given or chosen from. `digests`: the chain at each of its messages; what is
    at none of these the model has answered to all of them.
    """
    if retrieval is None:
        return {}
    quoted_at: dict[str, int] = {}
    for block in sorted(retrieval.placed, key=lambda one: one.position):
        for memory_id in block.memory_ids:
            quoted_at.setdefault(str(memory_id), block.position)
    places = {chain: place for place, chain in enumerate(digests) if chain is not None}
    said = [(turn.event_id, places.get(turn.chain, math.inf)) for turn in turns if turn.role == "assistant"]

    def given(memory_id: str) -> Given:
        at = quoted_at.get(memory_id)
        behind = () if at is None else (event_id for event_id, place in said if place > at)
        return Given(digest(content_key, "memory", memory_id), frozenset(behind))

    chosen_from = (found.get(name) for found in retrieval.candidates for name in ("id", "later"))
    return {one: given(one) for one in dict.fromkeys([*quoted_at, *chosen_from]) if one is not None}
