"""`GET /memory/v1/retrievals/{id}`: the id of X-Memory-Retrieval in, what that request was given out; and their list.

The record comes through the worker, so one younger than YOUNG_S is waited for, at most WAIT_S. Query and blocks are
unsealed with the subject's key; after their retention, or with the key shredded, the rest is still shown. Raises
NotFound, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from aiohttp import web

from memory.envelope import Binding, key_id_of, unseal
from memory.errors import EnvelopeUnreadable, NotFound
from memory.ids import is_words
from memory.keys import KeyRing
from memory.model import Scope
from memory.stored import Label, RetrievalRecord
from policies.gate import Holder, Item
from policies.labels import Sensitivity, derived_sensitivity
from proxy.api.answers import said
from proxy.api.asking import Caller, caller_of, holder_for, id_in_path, parameters
from proxy.api.cited import cited
from proxy.api.paging import PARAMETERS, Page, page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas_retrieval import PlacedSaid, RetrievalList, RetrievalListed, RetrievalSaid
from proxy.api.sessions import Labels
from proxy.gated import readable, require_readable

YOUNG_S: Final = 5.0
WAIT_S: Final = 2.0
_ASK_EVERY_S: Final = 0.05
KIND: Final = "retrieval"
UNKNOWN: Final = Label(Sensitivity.SECRET, "tenant")


@dataclass(frozen=True, slots=True)
class Texts:
    """The sealed part of a retrieval, opened: the question, and the blocks by their place in the list."""

    state: Literal["available", "expired", "unreadable"]
    query: str | None = None
    blocks: tuple[str, ...] = ()
    left_out: tuple[int, int] | None = None  # messages from..upto that did not fit and were not sent


class Retrievals:
    """The handler of retrieval records."""

    def __init__(self, parts: OwnParts, labels: Labels) -> None:
        self._parts = parts
        self._labels = labels

    async def show(self, request: web.Request) -> web.Response:
        """What one request was given."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        parameters(request, ())
        return said(await self.told(caller, id_in_path(request, "retrieval")))

    async def told(self, caller: Caller, retrieval_id: UUID) -> RetrievalSaid:
        """What one request was given, as far as the caller may see it. Raises NotFound, StoreUnavailable."""
        record = await self.found(caller.scope, retrieval_id, caller.now)
        holder = await holder_for(caller, self._parts.keys)
        require_readable(holder, Item(caller.scope.tenant, Sensitivity.PUBLIC, session_id=record.session_id), KIND)
        texts = await opened(self._parts.keys, caller.scope, record)
        record, texts = await self.let_through(caller.scope, holder, record, texts)
        record = replace(record, candidates=await self._cited(caller.scope, record.candidates))
        labels = await self._labels.of(caller.scope, [record.session_id])
        return retrieval_said(record, texts, labels.get(record.session_id))

    async def let_through(
        self, scope: Scope, holder: Holder, record: RetrievalRecord, texts: Texts
    ) -> tuple[RetrievalRecord, Texts]:
        """The record without the candidates that the caller may not see, and without its blocks where any of them
        quotes such a memory, be it a candidate or what stands since an earlier turn; without the question where its
        conversation holds turns that the caller may not see.

        A memory that is gone has no label to go by and counts as the most sensitive; a line of a working context is no
        memory, and its session's turns are what it quotes.
        """
        if holder.capabilities is None:
            return record, texts
        lines = {candidate["id"] for candidate in record.candidates if candidate["kind"] == "working"}
        quoted = {one for placement in record.placements for one in placement["memory_ids"]}
        known = quoted.union(candidate["id"] for candidate in record.candidates)
        ids = [UUID(one) for one in sorted(known - lines)]
        labels = await self._parts.records.memory_labels(scope, ids)
        labels |= {one: Label(Sensitivity.PUBLIC, "own") for one in ids if is_words(one)}
        said_in = await self._parts.records.session_labels(scope, record.session_id) if lines or texts.query else ()
        highest = derived_sensitivity(map(Sensitivity, said_in)) if said_in or lines else Sensitivity.PUBLIC
        labels |= {UUID(one): Label(highest, "own") for one in lines}
        if not readable(holder, [Item(scope.tenant, highest, session_id=holder.session_id)], lambda one: one):
            texts = replace(texts, query=None)

        def item_of(memory_id: str) -> Item:
            label = labels.get(UUID(memory_id), UNKNOWN)
            return Item(scope.tenant, label.sensitivity, label.visibility, holder.session_id)

        seen = frozenset(readable(holder, known, item_of))
        if seen == known:
            return record, texts
        whole = quoted <= seen
        candidates = [candidate for candidate in record.candidates if candidate["id"] in seen]
        kept = replace(record, candidates=candidates, placements=record.placements if whole else [])
        return kept, texts if whole else replace(texts, blocks=())

    async def _cited(self, scope: Scope, candidates: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The candidates, those of uploaded documents with where they stand in them now."""
        ids = [UUID(one["id"]) for one in candidates if one["kind"] == "document"]
        places = await self._parts.documents.records.citations(scope, ids) if ids else {}
        found = ((one, places.get(UUID(one["id"]))) for one in candidates)
        return [one if place is None else {**one, "document": cited(place).model_dump()} for one, place in found]

    async def list(self, request: web.Request) -> web.Response:
        """What requests were given, newest first: ids and counts, no words."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        page = page_of(parameters(request, PARAMETERS), "retrievals")
        after = page.id_behind() or _edge(page)
        rows = await self._parts.records.retrieval_ids(
            caller.scope, limit=page.limit + 1, after=after, order=page.order
        )
        holder = await holder_for(caller, self._parts.keys)
        labels = await self._labels.of(caller.scope, (row["session_id"] for row in rows))
        seen = readable(holder, rows[: page.limit], lambda row: _listed_item(caller.scope, row))
        more = len(rows) > page.limit
        return said(
            RetrievalList(
                data=[_listed(row, labels) for row in seen],
                next_cursor=page.next_cursor(str(rows[page.limit - 1]["retrieval_id"]) if more else None),
            )
        )

    async def found(self, scope: Scope, retrieval_id: UUID, now: datetime) -> RetrievalRecord:
        """The record, waited for while it is young. Raises NotFound."""
        until = time.monotonic() + (WAIT_S if is_young(retrieval_id, now) else 0.0)
        while True:
            try:
                return await self._parts.records.retrieval(scope, retrieval_id)
            except NotFound:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_ASK_EVERY_S)


def _edge(page: Page) -> UUID:
    """Before the first id of a list in this order."""
    return UUID(int=0) if page.order == "asc" else UUID(int=2**128 - 1)


def _listed_item(scope: Scope, row: Mapping[str, Any]) -> Item:
    return Item(scope.tenant, Sensitivity.PUBLIC, session_id=row["session_id"])


def _listed(row: Mapping[str, Any], labels: Mapping[UUID, str]) -> RetrievalListed:
    return RetrievalListed(
        id=str(row["retrieval_id"]),
        session=labels.get(row["session_id"]),
        exchange_id=str(row["exchange_id"]),
        status=row["status"],
        tokens=row["tokens"],
        created_at=row["created_at"],
    )


def is_young(retrieval_id: UUID, now: datetime) -> bool:
    """Whether a UUIDv7 was minted within YOUNG_S of `now`; its first 48 bits are milliseconds."""
    age_s = now.timestamp() - (retrieval_id.int >> 80) / 1000
    return retrieval_id.version == 7 and abs(age_s) < YOUNG_S


async def opened(keys: KeyRing, scope: Scope, record: RetrievalRecord) -> Texts:
    """The texts of a record. Raises StoreUnavailable."""
    if record.sealed is None:
        return Texts("expired")
    subject = await keys.subject_id(scope.tenant, scope.user)
    binding = Binding(scope.tenant, subject, record.retrieval_id, "retrieval")
    try:
        key = await keys.by_id(scope.tenant, key_id_of(record.sealed))
        plain: Mapping[str, Any] = json.loads(unseal(key, binding, record.sealed))
    except EnvelopeUnreadable:
        return Texts("unreadable")
    left_out = tuple(plain["left_out"]) if plain.get("left_out") else None
    return Texts("available", plain["query"], tuple(block["text"] for block in plain["placed"]), left_out)


def retrieval_said(record: RetrievalRecord, texts: Texts, session: str | None) -> RetrievalSaid:
    """A record and its texts as the API shows them."""
    placed = [
        PlacedSaid(
            position=placement["position"],
            text=texts.blocks[index] if index < len(texts.blocks) else None,
            sha256=placement.get("sha256"),
            tokens=placement["tokens"],
            memory_ids=list(placement["memory_ids"]),
            since=placement.get("since"),
        )
        for index, placement in enumerate(record.placements)
    ]
    new = next((one for one in placed if one.since is None), None)
    injected = [candidate for candidate in record.candidates if candidate.get("injected")]
    return RetrievalSaid(
        id=str(record.retrieval_id),
        status=record.status,
        reason=record.reason,
        rung=record.rung,
        session=session,
        exchange_id=str(record.exchange_id),
        query=texts.query,
        block=new.text if new else None,
        position=new.position if new else None,
        placed=placed,
        candidates=record.candidates,
        source_ids=list(dict.fromkeys(source for one in injected for source in one["source_ids"])),
        texts=texts.state,
        tokens=record.tokens,
        tokens_exact=record.tokens_exact,
        millis=round(record.millis, 1),
        config_digest=record.config_digest,
        embedding_model=record.embedding_model,
        served_model=record.served_model,
        sha256_sent=record.sha256_sent.hex(),
        created_at=record.created_at,
    )
