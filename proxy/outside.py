"""Outside knowledge that somebody waits for: a question in, pages of the web kept for it as documents out.

`LooksOutside` looks and keeps; `before` does so for a chat request that asks for it (`X-Memory-Outside: now`) and waits
until a worker has stored the pages, so that this very answer's recall finds them as it finds any document. Both take
seconds: of requests, none pays that has not asked. `require` refuses a request that may not have them, before anything
is looked for; from there on a request fails open, and what became of its pages is said in the head of its answer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Final, Literal
from uuid import UUID

from memory.errors import CapabilityMissing, MemoryInvalid, MemoryProxyFault, RateLimited, ScopeDenied
from memory.model import Scope
from memory.outside import Asker, Gained, Outside, SearchOutcome
from memory.passage import lap, note
from memory.places import Places
from memory.telemetry import event
from memory.web_documents import WebDocuments
from policies.labels import Sensitivity
from policies.text import storable
from proxy.asked import Asked
from proxy.following import KnowsDocuments, followed
from proxy.identity import Ask, Credential
from proxy.turns import Turns
from proxy.wire.chat_request import ChatRequest

log: Final = logging.getLogger("memory_proxy.outside")
HEADER: Final = "X-Memory-Outside"
AT_ONCE: Final = 4
"""Questions under way in one process."""
WAIT_S: Final = 5.0
STORED_S: Final = 10.0
"""How long a request waits for a worker to store its pages; with search and page it took .5 to 1.3 s (0032)."""
OFF: Final = "looking outside is off here: outside.enabled and outside.search_url turn it on"
ONE_SESSION: Final = "this token is for one session, and pages are kept for the whole scope"


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of a question, and the documents that its pages are, in their order."""

    gained: Gained
    documents: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a chat request's question: the search's outcome, and how many of its pages recall can find."""

    search: SearchOutcome | Literal["busy", "store"]
    pages: int = 0

    def __str__(self) -> str:
        """As the head says it."""
        return f"{self.search}; pages={self.pages}"


class LooksOutside:
    """One per process."""

    def __init__(self, looks: Outside, keeps: WebDocuments, documents: KnowsDocuments) -> None:
        self._looks = looks
        self._keeps = keeps
        self._documents = documents
        self._turns = Turns(Places(AT_ONCE, WAIT_S), _late)

    async def keep(
        self, scope: Scope, actor: str, question: str, now: datetime, sensitivity: Sensitivity = Sensitivity.INTERNAL
    ) -> Looked:
        """Look, and have what is found stored in this scope. Raises RateLimited, StoreUnavailable."""
        async with self._turns.turn(scope):
            gained = await self._looks.look_for(Asker(scope.tenant, actor, sensitivity), storable(question), "asked")
        return Looked(gained, tuple(await self._keeps.keep(scope, actor, gained.pages, now)))

    async def stored(self, scope: Scope, documents: Sequence[UUID], timeout_s: float = STORED_S) -> int:
        """How many of these are stored, waiting for those that are not yet. Raises NotFound, StoreUnavailable."""
        until, done = perf_counter() + timeout_s, 0
        for one in documents:
            record = await self._documents.document(scope, one)
            record = await followed(self._documents, scope, record, until - perf_counter())
            done += record.upload.status == "done"
        return done


def _late() -> RateLimited:
    return RateLimited(f"{AT_ONCE} questions are being looked for here; ask again", retry_after_s=5)


def require(outside: LooksOutside | None, ask: Ask, credential: Credential) -> None:
    """Raise MemoryInvalid, ScopeDenied or CapabilityMissing where a request asks for pages that it may not have."""
    if not ask.outside:
        return
    if outside is None:
        raise MemoryInvalid(OFF, param=HEADER)
    if credential.session is not None:
        raise ScopeDenied(ONE_SESSION, param=HEADER)
    if ask.mode != "on":
        raise CapabilityMissing(
            "this key may not both read and write memory, and pages are kept and read", param=HEADER
        )


async def before(outside: LooksOutside, asked: Asked, chat: ChatRequest) -> tuple[Asked, Came]:
    """Look for what the newest message asks. The request as it goes on, its deadlines beginning now. Never raises."""
    scope = asked.ask.scope
    # Tools that answer ask nothing, and where nothing is placed no page is needed.
    question = chat.query_text if chat.placeable and not chat.has_gone_on else ""
    came = Came("nothing")
    try:
        if question:
            looked = await outside.keep(scope, asked.credential.actor, question, asked.arrived_at)
            came = Came(looked.gained.search, await outside.stored(scope, looked.documents))
    except RateLimited:
        came = Came("busy")
    except MemoryProxyFault as fault:
        event(log, "outside_not_kept", logging.WARNING, fault=type(fault).__name__)
        came = Came("store")
    note(outside=came.search, pages=came.pages)
    lap("outside")
    return replace(asked, started=perf_counter(), arrived_at=datetime.now(UTC)), came
