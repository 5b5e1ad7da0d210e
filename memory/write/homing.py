"""The session an exchange belongs to, decided once more in the write path: a captured exchange in, the same one out.

Where the hot state was away or slow and the store behind, the proxy could not recognise a conversation and minted a
session; to keep that would store the whole history a second time. In the write path it can be known:

    what came before it is stored by now, since a user's exchanges keep to their order: it goes where its history is
    what came after it is stored already (one waited in a spool, the next went straight to the queue): it goes there

A session that the client named stays, and so does one that has any of this exchange. Raises StoreUnavailable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memory.chain import Digest
from memory.model import Captured, Scope, SessionRef
from memory.read.conversation import ANSWERS_LOOKED_UP_MAX
from memory.write.turns import Body, Message, answers_of


class Homes(Protocol):
    """What the store knows of sessions and chain positions."""

    async def known_chains(self, scope: Scope, session_id: UUID, chains: Sequence[Digest]) -> Mapping[Digest, UUID]:
        """Which of these positions the session has, and as which turn. Raises StoreUnavailable."""

    async def session_of_chains(self, scope: Scope, digests: Sequence[Digest]) -> Mapping[bytes, SessionRef]:
        """The latest session of this very scope that has each position. Raises StoreUnavailable."""

    async def session_that_went_on(self, scope: Scope, digests: Sequence[Digest], after: datetime) -> SessionRef | None:
        """The session in which a request that arrived after `after` sent one of these positions as its history.

        Raises StoreUnavailable.
        """


async def at_home(
    store: Homes, captured: Captured, body: Body, messages: Sequence[Message]
) -> tuple[Captured, Mapping[Digest, UUID]]:
    """The exchange, in the session that it continues or that continues it, and which of its `messages` that has."""
    scope, chains = captured.scope, [message.chain for message in messages]
    known = await store.known_chains(scope, captured.session.session_id, chains)
    if captured.named or known:
        return captured, known
    home = await _before(store, scope, answers_of(captured, body))
    if home is None:
        own = [message.chain for message in messages if message.position >= len(captured.digests)]
        home = await store.session_that_went_on(scope, own, captured.finished_at) if own else None
    if home is None:
        return captured, known
    return dataclasses.replace(captured, session=home), await store.known_chains(scope, home.session_id, chains)


async def _before(store: Homes, scope: Scope, answers: Sequence[Digest]) -> SessionRef | None:
    """Where the longest known part of the history is."""
    if not answers:
        return None
    found = await store.session_of_chains(scope, answers[-ANSWERS_LOOKED_UP_MAX:])
    return next((found[digest] for digest in reversed(answers) if digest in found), None)
