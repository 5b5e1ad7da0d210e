"""Stored open text, to be cleaned again: a scope in, pages of turns, memories and sessions out; what changed back in.

Pages are read by key and written back page by page, each in a transaction of its own, so that nothing is held while
somebody redacts or embeds, and a sweep that was killed goes on with the next page. A text that was written anew since
it was read is left to whoever wrote it. What a memory is known by (its content key) is made anew of the words it has
then: a hash of the former ones would be left, and the same said in other words or under another policy would meet it.
Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.cleaned import cleaned
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.rows import Place, key_of_its_own
from memory.model import SealedToken
from memory.write.procedures import derived_key
from memory.write.sweep import (
    CleanMemory,
    CleanSession,
    CleanTurn,
    MemoryText,
    ScopeNames,
    SessionText,
    TurnText,
    VersionText,
)
from policies.fact import Fact
from policies.reconcile import content_key
from policies.taught import content_key as procedure_key

PAGE: Final = 200
_SCOPES_PAGE: Final = 500
_BEGIN: Final = (datetime(1, 1, 2, tzinfo=UTC), UUID(int=0))
_BY: Final = "redaction"


class RedactStore:
    """The store, read and rewritten by a sweep. `embeddings` is the table of the model that embeds what is left."""

    def __init__(self, database: Database, embeddings: str, *, page: int = PAGE) -> None:
        self._database = database
        self._page = page
        self._embeddings = embeddings
        self._add = database.queries["add_embedding"].of_table(embeddings)

    async def scopes(self) -> AsyncIterator[ScopeNames]:
        """Every scope of every tenant."""
        async with self._database.transaction(None, read_only=True) as tx:
            tenants = [row["tenant_id"] for row in await tx.fetch("all_tenants")]
        for tenant in tenants:
            after = -1
            while True:
                async with self._database.transaction(tenant, read_only=True) as tx:
                    rows = await tx.fetch("scopes_to_redact", tenant, after, _SCOPES_PAGE)
                for row in rows:
                    yield ScopeNames(tenant, **row)
                if len(rows) < _SCOPES_PAGE:
                    break
                after = rows[-1]["scope_id"]

    async def turns(self, scope: ScopeNames, mark: str, *, again: bool) -> AsyncIterator[list[TurnText]]:
        """The turns of a scope that `mark` has not cleaned, or all of them."""
        at: tuple[UUID, int] = (UUID(int=0), -1)
        while True:
            async with self._reading(scope) as tx:
                rows = await tx.fetch("turns_to_redact", scope.tenant, scope.scope_id, *at, self._page, mark, again)
            yield [
                TurnText(row["event_id"], row["name"], row["content"], row["tool_calls"], row["parts"])
                for row in rows
                if row["due"]
            ]
            if len(rows) < self._page:
                return
            at = (rows[-1]["session_id"], rows[-1]["seq"])

    async def memories(self, scope: ScopeNames, mark: str, *, again: bool) -> AsyncIterator[list[MemoryText]]:
        """The memories of a scope with a version that `mark` has not cleaned, whole."""
        at = _BEGIN
        while True:
            async with self._reading(scope) as tx:
                rows = await tx.fetch("memories_to_redact", scope.tenant, scope.scope_id, *at, self._page, mark, again)
                ids = sorted({row["memory_id"] for row in rows if row["due"]})
                facts = {row["memory_id"]: row for row in await _of(tx, "facts_to_redact", scope.tenant, ids)}
                taught = {row["memory_id"]: row for row in await _of(tx, "procedures_to_redact", scope.tenant, ids)}
            yield [_memory(one, rows, facts.get(one), taught.get(one)) for one in ids]
            if len({row["memory_id"] for row in rows}) < self._page:
                return
            at = (rows[-1]["created_at"], rows[-1]["memory_id"])

    async def sessions(self, scope: ScopeNames) -> AsyncIterator[list[SessionText]]:
        """The sessions of a scope."""
        after = ""
        while True:
            async with self._reading(scope) as tx:
                rows = await tx.fetch("sessions_to_redact", scope.tenant, scope.scope_id, after, self._page)
            yield [SessionText(row["session_id"], row["label"], row["attributes"]) for row in rows]
            if len(rows) < self._page:
                return
            after = rows[-1]["label"]

    async def put_turns(
        self,
        scope: ScopeNames,
        turns: Sequence[CleanTurn],
        clean: Sequence[UUID],
        mark: str,
        tokens: Sequence[SealedToken],
        now: datetime,
    ) -> None:
        """Turns rewritten, and those that were clean, marked. Indexes that show the former text are built anew."""
        tenant = scope.tenant
        async with self._database.transaction(tenant, [scope.scope_id]) as tx:
            await cleaned(tx, _place(scope, now), mark, tokens)
            rows = (
                (tenant, t.event_id, t.name, t.content, t.tool_calls, t.parts, t.found, t.before)
                for t in sorted(turns, key=lambda t: t.event_id)
            )
            await tx.run_many("rewrite_turn", rows)
            await _move_spans(tx, tenant, {t.event_id: t for t in turns if t.cuts})
            if clean:
                await tx.run("turns_are_clean", tenant, sorted(clean), mark)
            if turns:
                await tx.value("read_anew", tenant, scope.scope_id)

    async def put_memories(
        self,
        scope: ScopeNames,
        memories: Sequence[CleanMemory],
        clean: Sequence[tuple[UUID, int]],
        mark: str,
        tokens: Sequence[SealedToken],
        now: datetime,
    ) -> None:
        """Memories rewritten with their vectors, and versions that were clean, marked; a line of the feed for each."""
        tenant, scope_id = scope.tenant, scope.scope_id
        async with self._database.transaction(tenant, [scope_id]) as tx:
            changed = await tx.value("read_anew", tenant, scope_id) if memories else 0
            await cleaned(tx, _place(scope, now), mark, tokens)
            drops = await self._drops(tx)
            for memory in memories:
                await self._rewrite(tx, scope, memory, drops)
                await tx.run("memory_was_redacted", tenant, memory.memory_id, changed)
            if clean:
                ids, versions = zip(*sorted(clean), strict=True)
                await tx.run("versions_are_clean", tenant, list(ids), list(versions), mark)
            told = {memory.memory_id: {"changed": ["content"], "rules": mark} for memory in memories}
            await announce(tx, tenant, scope_id, "updated", list(told), by=_BY, at=now, metadata=told)

    async def _drops(self, tx: Any) -> list[Query]:
        """How vectors are dropped, from a table that came since the sweep began too. The scope is locked: who fills one
        that comes from now on reads what this leaves.
        """
        serving = await tx.row("embedding_serving")
        served = () if serving is None else (serving["table_name"], serving["standby_table"])
        drop = self._database.queries["drop_version_vectors"]
        return [drop.of_table(table) for table in sorted({self._embeddings, *filter(None, served)})]

    async def _rewrite(self, tx: Any, scope: ScopeNames, memory: CleanMemory, drops: Sequence[Query]) -> None:
        tenant, one = scope.tenant, memory.memory_id
        taught = await tx.row("procedure_as_taught", tenant, one)
        for version in memory.versions:
            row = (tenant, one, version.number, version.content, version.attributes)
            if not await tx.run("rewrite_version", *row):
                continue
            for drop in drops if version.vectors is not None else ():
                await tx.run(drop, tenant, one, version.number)
            if version.vectors is not None:
                windows = enumerate(zip(version.windows, version.vectors, strict=True))
                place = (tenant, scope.scope_id, one, version.number)
                await tx.run_many(self._add, ((*place, n, *span, vector) for n, (span, vector) in windows))
        if memory.stated is not None:
            await self._state_anew(tx, scope, one, *memory.stated)
        if memory.trigger is not None:
            await tx.run("rewrite_trigger", tenant, one, memory.trigger)
        if taught is not None:
            await self._teach_anew(tx, scope, one, taught)

    async def _state_anew(self, tx: Any, scope: ScopeNames, memory_id: UUID, subject: str, words: str) -> None:
        """The fact under its words of now; where another is there under these, it is a fact no more."""
        tenant = scope.tenant
        row = await tx.row("fact_under", tenant, memory_id, subject, words)
        if row is None:
            return
        key = content_key(Fact(subject, row["predicate"], words, words, (0, 1), negated=row["negated"]))
        if row["taken"] or await _is_taken(tx, scope, "semantic", key, memory_id):
            await tx.run("drop_fact", tenant, memory_id)
            key = key_of_its_own(_BY.encode(), memory_id)
        else:
            await tx.run("rewrite_fact", tenant, memory_id, subject, words)
        await tx.run("rekey_memory", tenant, memory_id, key)

    async def _teach_anew(self, tx: Any, scope: ScopeNames, memory_id: UUID, before: Any) -> None:
        """The procedure's key of its words of now; one that a person has edited has a key of its own and keeps one."""
        after = await tx.row("procedure_as_taught", scope.tenant, memory_id)
        key = _taught_key(after)
        if bytes(before["content_key"]) != _taught_key(before) or await _is_taken(
            tx, scope, "procedural", key, memory_id
        ):
            key = key_of_its_own(_BY.encode(), memory_id)
        await tx.run("rekey_memory", scope.tenant, memory_id, key)

    async def put_sessions(self, scope: ScopeNames, sessions: Sequence[CleanSession]) -> None:
        """Sessions under other labels."""
        async with self._database.transaction(scope.tenant, [scope.scope_id]) as tx:
            rows = ((scope.tenant, one.session_id, one.label, one.attributes) for one in sessions)
            await tx.run_many("rewrite_session", rows)

    async def token(self, scope: ScopeNames, token: str) -> tuple[UUID, bytes] | None:
        """Whose it is and the sealed value behind a token of this scope."""
        async with self._reading(scope) as tx:
            row = await tx.row("token_of_scopes", scope.tenant, [scope.scope_id], token)
        return None if row is None else (row["subject_id"], row["sealed"])

    def _reading(self, scope: ScopeNames) -> Any:
        return self._database.transaction(scope.tenant, [scope.scope_id], read_only=True)


async def _move_spans(tx: Any, tenant: UUID, cut: Mapping[UUID, CleanTurn]) -> None:
    """The ranges that memories rest on, of turns that say what was left of them: they were those of the former text."""
    said = [one.content for one in cut.values()]
    found = await tx.fetch("spans_of_turns", tenant, list(cut), said) if cut else []
    moved = ((row, cut[row["event_id"]].span(row["span_start"], row["span_end"])) for row in found)
    await tx.run_many("move_span", ((tenant, row["derived_id"], row["event_id"], *span) for row, span in moved))


async def _of(tx: Any, name: str, tenant: UUID, ids: Sequence[UUID]) -> list[Any]:
    found: list[Any] = await tx.fetch(name, tenant, ids) if ids else []
    return found


async def _is_taken(tx: Any, scope: ScopeNames, kind: str, key: bytes, memory_id: UUID) -> bool:
    """Whether another memory of the scope is known by this key."""
    other = await tx.row("memory_of_content_key", scope.tenant, scope.scope_id, kind, key)
    return other is not None and other["memory_id"] != memory_id


def _taught_key(row: Any) -> bytes:
    """What a procedure's words make its key. Its owner may have written anything into the attributes."""
    if row["origin"] == "derived":
        return derived_key(row["trigger"])
    steps = row["attributes"].get("steps")
    told = [one.get("text") for one in steps if isinstance(one, dict)] if isinstance(steps, list) else []
    return procedure_key(row["trigger"], [text for text in told if isinstance(text, str)])


def _memory(memory_id: UUID, rows: Sequence[Any], fact: Any, procedure: Any) -> MemoryText:
    mine = [row for row in rows if row["memory_id"] == memory_id]
    return MemoryText(
        memory_id,
        mine[0]["kind"],
        tuple(VersionText(row["version"], row["content"], row["attributes"], row["occurred_at"]) for row in mine),
        None if fact is None else (fact["subject"], fact["object"]),
        None if procedure is None else procedure["trigger"],
    )


def _place(scope: ScopeNames, now: datetime) -> Place:
    return Place(scope.tenant, scope.scope_id, scope.subject_id, UUID(int=0), now)
