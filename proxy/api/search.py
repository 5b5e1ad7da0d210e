"""`POST /memory/v1/search`: a question in, candidates best first out, by the same recall that serves chats.

The index is confirmed with the store first, so a search reads its own writes; the deadline is an API call's, not a
prompt's. Raises StoreUnavailable and TimedOut where recall had nothing to answer with; without an embedder it answers
by words and says so in `reason`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.documents import Citation
from memory.errors import MemoryConflict, ScopeDenied, StoreUnavailable
from memory.model import Candidate, Recall, Scope
from memory.read.conversation import session_ref
from memory.read.items import Filter
from memory.read.recall import Question
from policies.labels import Sensitivity
from policies.text import storable, storable_json
from proxy.api.answers import json_answer
from proxy.api.asking import Caller, body_as, caller_of, holder_for, parameters
from proxy.api.cited import cited
from proxy.api.parts import OwnParts
from proxy.api.schemas_search import CandidateSaid, Explained, ScopeSaid, SearchAsked, SearchSaid
from proxy.api.search_turns import DEADLINE_S, SearchTurns, late
from proxy.api.sessions import Labels
from proxy.gated import let_through, within
from proxy.remembering import RECALLED_KINDS

_DIGITS: Final = 6


class Search:
    """The handler of searches."""

    def __init__(self, parts: OwnParts, labels: Labels, turns: SearchTurns) -> None:
        self._parts = parts
        self._labels = labels
        self._turns = turns

    async def __call__(self, request: web.Request) -> web.Response:
        """Search the caller's scope."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        parameters(request, ())
        asked = await body_as(request, SearchAsked)
        recall = await self.recalled(caller, asked, why="search")
        labels = await self._labels.of(caller.scope, (c.session_id for c in recall.candidates))
        of_documents = [c.memory_id for c in recall.candidates if c.kind == "document"]
        places = await self._parts.documents.records.citations(caller.scope, of_documents) if of_documents else {}
        candidates = [
            _candidate(c, caller.scope, labels, places.get(c.memory_id), explain=asked.explain)
            for c in recall.candidates
        ]
        answer = SearchSaid(
            candidates=candidates,
            admitted=sum(candidate.admitted for candidate in candidates),
            millis=round(recall.millis, 3),
            rung=recall.rung,
            reason=recall.reason,
        )
        body = answer.model_dump(mode="json")
        if not asked.explain:
            for candidate in body["candidates"]:
                del candidate["explain"]
        return json_answer(body)

    async def recalled(self, caller: Caller, asked: SearchAsked, *, why: str) -> Recall:
        """What is found in the caller's scope, as far as the caller may see it; what is seen in a wider one leaves an
        audit row. Raises ScopeDenied, MemoryConflict, Unprocessable, TimedOut, StoreUnavailable.
        """
        recaller, holder = self._parts.recaller, await holder_for(caller, self._parts.keys)
        question = Question(
            scope=caller.scope,
            text=storable(asked.query),
            k=asked.k,
            now=caller.now,
            where=within(await self._where(caller, asked), holder),
            as_of=_as_of(asked.as_of, caller),
            strict=True,
        )
        async with self._turns.turn(caller.scope):
            recall = await recaller.search(question, DEADLINE_S)
        if (refused := recaller.refused(question, recall, DEADLINE_S)) is not None:
            raise refused
        _refuse_faults(recall)
        recall = let_through(recall, holder)
        crossed = [c.memory_id for c in recall.candidates if c.visibility in ("project", "tenant")]
        if crossed:
            self._parts.journal.note(caller.scope.tenant, caller.actor, "read.shared", why=why, ids=crossed)
        return recall

    async def _where(self, caller: Caller, asked: SearchAsked) -> Filter:
        filters, scope = asked.filters, caller.scope
        named = None if asked.session is None else caller.kept(asked.session)
        if caller.credential.session is not None and named not in (None, caller.credential.session):
            raise ScopeDenied("this token is for one session; leave it out", param="session")
        session_id: UUID | None = None
        if named is not None:
            chain_key = await self._parts.keys.chain_key(scope.tenant)
            session_id = session_ref(chain_key, scope, named).session_id
        ceiling = filters.sensitivity_max if filters else None
        return Filter(
            kinds=frozenset(asked.kinds) if asked.kinds else RECALLED_KINDS,
            roles=frozenset(filters.roles) if filters and filters.roles is not None else None,
            session_id=session_id,
            occurred_after=asked.occurred_after,
            occurred_before=asked.occurred_before,
            ceiling=Sensitivity(ceiling) if ceiling else None,
            attributes=storable_json(filters.attributes) if filters and filters.attributes else None,
        )


def _as_of(asked: datetime | None, caller: Caller) -> datetime | None:
    """The moment of the body or of X-Memory-As-Of; the future means now. Raises MemoryConflict when they differ."""
    in_header = caller.ask.as_of
    moment = in_header if asked is None else min(asked, caller.now)
    if in_header is not None and in_header != moment:
        raise MemoryConflict("X-Memory-As-Of and the member as_of say different times; send one", param="as_of")
    return None if moment is None or moment >= caller.now else moment


def _refuse_faults(recall: Recall) -> None:
    """An empty answer that a fault caused is no answer. Raises TimedOut, StoreUnavailable."""
    if recall.rung != "none":
        return
    if recall.reason == "deadline":
        raise late()
    if recall.reason is not None:
        raise StoreUnavailable(f"memory cannot be searched now ({recall.reason})", retry_after_s=1)


def _scope_of(candidate: Candidate, scope: Scope) -> ScopeSaid:
    """Whose it is: the caller's own, or nobody's where a project or the tenant shares it."""
    if candidate.visibility == "own":
        return ScopeSaid(user=scope.user, project=scope.project, agent=scope.agent)
    return ScopeSaid(
        user=scope.user if candidate.visibility == "user" else "",
        project=scope.project if candidate.visibility == "project" else "",
        agent="",
        visibility=candidate.visibility,
    )


def _explained(candidate: Candidate) -> Explained:
    return Explained(
        why=candidate.why,
        later=str(candidate.later) if candidate.later else None,
        shown=candidate.shown,
        version=candidate.version,
        seq=candidate.seq,
    )


def _candidate(
    candidate: Candidate, scope: Scope, labels: dict[UUID, str], place: Citation | None, *, explain: bool
) -> CandidateSaid:
    why = _explained(candidate) if explain else None
    return CandidateSaid(
        id=str(candidate.memory_id),
        kind=candidate.kind,
        content=candidate.content,
        score=round(candidate.score, _DIGITS),
        scores={name: round(value, _DIGITS) for name, value in candidate.parts.items()},
        occurred_at=candidate.occurred_at,
        scope=_scope_of(candidate, scope),
        integrity=candidate.integrity,
        role=candidate.role,
        session=labels.get(candidate.session_id) if candidate.session_id else None,
        source_ids=list(candidate.source_ids),
        event_ids=[str(event_id) for event_id in candidate.event_ids],
        admitted=candidate.admitted,
        document=None if place is None else cited(place),
        explain=why,
    )
