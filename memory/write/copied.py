"""Conversations of a copy that their clients go on with: what a client sends in, its places in the copy out.

A place in the chain is made of a client's own words, and an export has them redacted, so lines of a copy stand where
their redacted words put them: no digest of a secret travels that guesses could be held against. Here the messages that
a client sends are brought into the same words. Where those lead to turns of a copy, these are given the places that
their client's messages have; from then on they are known as any turn is. Refuses nothing; what other rules have
redacted is not recognised, and is stored once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from memory.chain import Digest, extend, told_attachments
from memory.model import Captured, Scope, SessionRef
from memory.read.conversation import ANSWERS_LOOKED_UP_MAX
from memory.write.homing import Homes
from memory.write.parts import Redacts
from memory.write.turns import Message, as_exported

Kept = tuple[Mapping[str, Any], Sequence[bytes]]
"""A message as an export would have it, and its attachments."""


class Copies(Homes, Protocol):
    """What the store knows of chain positions, and what it is told of those of a copy."""

    async def has_copies(self, scope: Scope) -> bool:
        """Whether anything was imported into this very scope. Raises StoreUnavailable."""

    async def take_places(self, scope: Scope, session_id: UUID, places: Mapping[Digest, Digest]) -> None:
        """Put imported turns of a session from these positions to those. Raises StoreUnavailable."""


def kept(messages: Sequence[object], redactor: Redacts) -> list[Kept]:
    """Messages in the words that are kept of them."""
    found = [as_exported(one if isinstance(one, Mapping) else {}, redactor) for one in messages]
    return [(message, told_attachments(parts)) for message, parts in found]


def chained(chain_key: bytes, messages: Sequence[Kept], behind: Digest | None = None) -> list[Digest]:
    """Where such messages stand in a copy, one behind the other."""
    places: list[Digest] = []
    for message, told in messages:
        behind = extend(chain_key, behind, message, told)
        places.append(behind)
    return places


def copied_chain(redactor: Redacts, chain_key: bytes, messages: Sequence[object]) -> list[Digest]:
    """Where messages that a client sends stand in a copy, where no two of them hold a secret together."""
    return chained(chain_key, kept(messages, redactor))


def unknown_history(captured: Captured, messages: Sequence[Message], known: Mapping[Digest, UUID]) -> list[Message]:
    """What a client has sent before its newest words, where nobody knows the newest answer in it; else nothing."""
    sent = [one for one in messages if one.position < len(captured.digests)]
    newest = max((at for at, one in enumerate(sent) if _is_answer(one)), default=-1)
    return sent if newest >= 0 and sent[newest].chain not in known else []


async def recognised(
    store: Copies,
    captured: Captured,
    sent: Sequence[Message],
    known: Mapping[Digest, UUID],
    chain_key: bytes,
    words: Sequence[Kept],
) -> SessionRef | None:
    """The session of a copy that what was `sent`, and in which `words` it is kept, is of, where its turns have their
    client's places now; None for none.
    """
    scope, chains = captured.scope, chained(chain_key, words)
    last = max((at for at, one in enumerate(sent) if one.chain in known), default=-1)
    session = captured.session
    if not captured.named:
        answers = [chain for at, chain in enumerate(chains) if at > last and _is_answer(sent[at])]
        found = await store.session_of_chains(scope, answers[-ANSWERS_LOOKED_UP_MAX:])
        session = next((found[one] for one in reversed(answers) if one in found), session)
    own = [one.chain for one in sent]
    # What was imported later stands behind turns that have their client's places already.
    behind = [*chains[: last + 1], *chained(chain_key, words[last + 1 :], own[last] if last >= 0 else None)]
    there = await store.known_chains(scope, session.session_id, [*own, *chains, *behind])
    places: dict[Digest, Digest] = {}
    for *copies, one in zip(chains, behind, own, strict=True):
        copy = next((chain for chain in copies if chain in there), None)
        if copy is not None and one not in there:
            places[copy] = one
    if not places:
        return None
    await store.take_places(scope, session.session_id, places)
    return session


def _is_answer(message: Message) -> bool:
    return message.value.get("role") == "assistant"
