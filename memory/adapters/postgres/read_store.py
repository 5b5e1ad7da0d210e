"""Reading for recall: a scope in; the rows of its index, or the nearest memories, out.

Every answer is of one transaction that sees the given scopes only. Batches are read by key, each in a transaction of
its own, so no connection is held while the caller works; a memory that changes meanwhile comes again with the next
catch-up, because scope versions are committed in order. Raises StoreUnavailable.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.scopes import Scopes
from memory.chain import Digest
from memory.checkpoints import NamedPart, Said, ToLoad
from memory.entities import is_name, names_in
from memory.ids import minted_ms
from memory.model import IndexRow, Injections, Quoted, Scope, ScopeVersion, SessionRef, Vector
from memory.read.conversation import WITHDRAWN
from memory.read.items import INDEXED_KINDS
from policies.labels import Sensitivity, labels_up_to

BATCH: Final = 500
COUNTERS_BATCH: Final = 2_000
# Windows asked for at first for each memory wanted, and how many times more when those were too few. Eight at first
# cost 30-50 ms of joins for 200 memories, where 200 windows cost 15.
_WINDOWS_PER_MEMORY: Final = 1.25
_MORE_WINDOWS: Final = 6
_LAST: Final = UUID(int=2**128 - 1)
_NO_SOURCES: Final[tuple[Any, ...]] = ()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What belongs to the memories of one batch, by memory: source turns, less those it was edited away from;
    windows; turns that it has outdated; whom it names.
    """

    sources: Mapping[UUID, Sequence[Any]]
    windows: Mapping[UUID, tuple[tuple[tuple[int, int], ...], NDArray[np.float32]]]
    outdated: Mapping[UUID, Sequence[UUID]]
    entities: Mapping[UUID, UUID]


_NO_PARTS: Final = _Parts({}, {}, {}, {})


class Narrowing(Protocol):
    """What a cold search lets through, before ranking; None lets everything pass. memory.read.index.Filter is one."""

    @property
    def kinds(self) -> frozenset[str] | None:
        """Of these kinds."""

    @property
    def roles(self) -> frozenset[str] | None:
        """Said by these roles."""

    @property
    def scope_ids(self) -> frozenset[int] | None:
        """In these of the given scopes."""

    @property
    def session_id(self) -> UUID | None:
        """Of this session."""

    @property
    def occurred_after(self) -> datetime | None:
        """Not before this moment."""

    @property
    def occurred_before(self) -> datetime | None:
        """Not after this moment."""

    @property
    def ceiling(self) -> Sensitivity | None:
        """At most this sensitive."""

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """With these members among their attributes, each a scalar."""

    @property
    def asking(self) -> frozenset[UUID]:
        """Of what is kept for one conversation alone: only of these."""

    @property
    def exclude_memory_ids(self) -> frozenset[UUID]:
        """None of these."""

    @property
    def exclude_event_ids(self) -> frozenset[UUID]:
        """Not made of any of these turns."""

    @property
    def exclude_session_id(self) -> UUID | None:
        """Nothing of this session but its documents and files."""


class ReadStore:
    """The reading side of the store. `embeddings` is the table of the model that questions are embedded with."""

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, *, dim: int) -> None:
        self._database = database
        self._scopes = scopes
        self._vectors = database.queries["vectors_of_memories"].of_table(embeddings)
        self._nearest = database.queries["nearest_windows"].of_table(embeddings)
        self._none = np.zeros((0, dim), dtype=np.float32)
        self._zero = np.zeros((1, dim), dtype=np.float32)

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see, with their versions: own, user-general, project- and tenant-shared."""
        return await self._scopes.visible(scope)

    async def index_rows(
        self,
        tenant: UUID,
        scope_ids: Sequence[int],
        *,
        after: Mapping[int, int] | None = None,
        as_of: datetime | None = None,
        kinds: Sequence[str] = INDEXED_KINDS,
        batch: int = BATCH,
    ) -> AsyncIterator[list[IndexRow]]:
        """Rows that changed after these scope versions (0: all), at most `batch` at a time; or as of a moment.

        All of `scope_ids` may be seen: what a row quotes may lie in another scope. Of one that `after` does not name
        nothing is read; None names all of them with 0.
        """
        for scope_id in scope_ids if after is None else after:
            since = version = (after or {}).get(scope_id, 0)
            last, hidden = _LAST, await self._hidden_then(tenant, scope_id, as_of)
            while True:
                # What has changed and what was then are two statements: a memory may not move on between them.
                apart = as_of is not None
                async with self._database.transaction(tenant, scope_ids, read_only=True, snapshot=apart) as tx:
                    asked = (tenant, scope_id, version, last, list(kinds), batch)
                    if as_of is None:
                        found = await tx.fetch("changed_memories", *asked)
                    else:
                        found = await _page_then(tx, asked, as_of, hidden, also_gone=since > 0)
                    parts = await self._parts(tx, tenant, found, as_of)
                if found:
                    yield [self._index_row(row, parts) for row in found if row["visible"] or since or as_of is None]
                if len(found) < batch:
                    break
                version, last = found[-1]["changed_version"], found[-1]["memory_id"]

    async def injections(
        self, tenant: UUID, after: Mapping[int, int], *, batch: int = COUNTERS_BATCH
    ) -> AsyncIterator[list[Injections]]:
        """Counters that changed after these scope versions, at most `batch` at a time; without their memories' rows.

        Every exchange changes up to 35: to catch up with as many took 5 ms so, and 86 with their rows and vectors.
        """
        for scope_id, version in after.items():
            last = _LAST
            while True:
                async with self._database.transaction(tenant, list(after), read_only=True) as tx:
                    found = await tx.fetch("injections_since", tenant, scope_id, version, last, batch)
                if found:
                    yield [Injections(row["memory_id"], row["injected"], row["last_injected_at"]) for row in found]
                if len(found) < batch:
                    break
                version, last = found[-1]["changed_version"], found[-1]["memory_id"]

    async def nearest(
        self,
        tenant: UUID,
        scope_ids: Sequence[int],
        vector: Vector,
        k: int,
        where: Narrowing,
        *,
        now: datetime | None = None,
    ) -> list[IndexRow]:
        """The k nearest memories by the cosine of their best window, nearest first, by an exact scan.

        Asks for more windows until k memories pass the filters or there are no more, so filters come before ranking.
        """
        scopes = [one for one in scope_ids if where.scope_ids is None or one in where.scope_ids]
        asked = (_listed(where.kinds), _listed(where.roles), where.session_id, where.occurred_after)
        shown = (where.occurred_before, _below(where.ceiling), list(where.exclude_memory_ids))
        law = (list(where.exclude_event_ids), now or datetime.now(UTC), where.attributes)
        rest = (*law, sorted(where.asking), where.exclude_session_id)
        windows = math.ceil(k * _WINDOWS_PER_MEMORY)
        async with self._database.transaction(tenant, scopes, read_only=True) as tx:
            while True:
                found = await tx.fetch(self._nearest, tenant, scopes, vector, windows, *asked, *shown, *rest)
                hits = _best_windows(found, k)
                if len(hits) == k or len(found) < windows:
                    break
                windows *= _MORE_WINDOWS
            ids, versions = list(hits), [hit["version"] for hit in hits.values()]
            records = await tx.fetch("memories_by_id", tenant, ids, versions) if hits else []
            parts = await self._parts(tx, tenant, records)
        by_id = {row["memory_id"]: self._index_row(row, parts) for row in records}
        return [by_id[memory_id] for memory_id in ids]

    async def session_of_chains(self, scope: Scope, digests: Sequence[bytes]) -> Mapping[bytes, SessionRef]:
        """Sessions of this very scope by chain digest, the latest where several have it."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None or not digests:
            return {}
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("session_of_chains", scope.tenant, scope_id, list(digests))
        return {row["chain"]: SessionRef(row["session_id"], row["label"]) for row in found}

    async def has_copies(self, scope: Scope) -> bool:
        """Whether anything was imported into this very scope."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return False
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            (row,) = await tx.fetch("has_copies", scope.tenant, scope_id)
        return bool(row["has_copies"])

    async def ledger(self, scope: Scope, session_id: UUID, chains: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """What the ledger has at these places of a conversation, as the hot ledger writes it: the sealed entry,
        nothing, or WITHDRAWN.
        """
        scope_id = await self._scopes.find(scope)
        if scope_id is None or not chains:
            return {}
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("ledger_of_session", scope.tenant, scope_id, session_id, list(chains))
        return {row["chain"]: WITHDRAWN if row["withdrawn"] else row["placed_sealed"] or b"" for row in found}

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        """The rolling summary of a session; None while it has none that a prompt may get."""
        if not scope_ids:
            return None
        async with self._database.transaction(tenant, scope_ids, read_only=True) as tx:
            row = await tx.row("rolling_summary", tenant, list(scope_ids), session_id)
        return None if row is None else self._index_row(row, _NO_PARTS)

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        """These memories as they are now, also what no prompt gets; those that are not there are not in the list."""
        if not scope_ids or not memory_ids:
            return []
        async with self._database.transaction(tenant, scope_ids, read_only=True) as tx:
            found = await tx.fetch("memories_standing", tenant, list(scope_ids), list(memory_ids))
        return [Quoted(self._index_row(row, _NO_PARTS), row["hidden"], row["successor_id"]) for row in found]

    async def checkpoint(self, scope: Scope, name: str, as_of: datetime | None) -> ToLoad | None:
        """What a checkpoint of this very scope names, now or as it was recorded at a moment; None for no such one."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return None
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            if as_of is None:
                return _to_load(await tx.fetch("checkpoint_to_load", scope.tenant, scope_id, name))
            return _to_load(await tx.fetch("checkpoint_then", scope.tenant, scope_id, name, as_of))

    async def checkpoint_version(self, scope: Scope, checkpoint_id: UUID, version: int) -> ToLoad | None:
        """What a version of a checkpoint names; None where it is gone or deleted."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return None
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            return _to_load(await tx.fetch("parts_to_load", scope.tenant, scope_id, checkpoint_id, version))

    async def given(self, scope: Scope, session_id: UUID, chars_max: int, limit: int) -> list[UUID]:
        """The chunks of the documents that a conversation of this very scope is given whole, in order: of those that
        are to be, and of those of at most `chars_max`. Where there are more, of those that were stored last.
        """
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return []
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("chunks_given", scope.tenant, scope_id, session_id, chars_max, limit)
        return [row["memory_id"] for row in found]

    async def persona(self, scope: Scope, name: str) -> UUID | None:
        """The memory of the persona of this name in this very scope; None for no such one."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return None
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            row = await tx.row("persona_by_name", scope.tenant, scope_id, name)
        return None if row is None else UUID(int=row["memory_id"].int)

    async def words(self, tenant: UUID, scope_ids: Sequence[int], versions: Mapping[UUID, int]) -> Mapping[UUID, Said]:
        """What memories said in these versions."""
        if not scope_ids or not versions:
            return {}
        async with self._database.transaction(tenant, scope_ids, read_only=True) as tx:
            found = await tx.fetch("versions_by_number", tenant, list(versions), list(versions.values()))
        return {row["memory_id"]: Said(row["content"], row["sensitivity"], row["cleaned_by"]) for row in found}

    async def quoted(self, scope: Scope, memory_ids: Sequence[UUID]) -> Mapping[UUID, frozenset[bytes]]:
        """Where in the chain the turns stand that these memories of this very scope quote; none of what quotes none."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return {}
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await sources_of(tx, scope.tenant, memory_ids)
        return {one: frozenset(bytes(row["chain"]) for row in rows if row["chain"]) for one, rows in found.items()}

    async def _hidden_then(self, tenant: UUID, scope_id: int, as_of: datetime | None) -> frozenset[UUID]:
        if as_of is None:
            return frozenset()
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            return frozenset(row["memory_id"] for row in await tx.fetch("hidden_then", tenant, scope_id, as_of))

    async def _parts(
        self, tx: Transaction, tenant: UUID, found: Sequence[Any], as_of: datetime | None = None
    ) -> _Parts:
        shown = [row for row in found if row["visible"]]
        if not shown:
            return _NO_PARTS
        ids, versions = [row["memory_id"] for row in shown], [row["version"] for row in shown]
        outdated: dict[UUID, list[UUID]] = {}
        corrected: set[tuple[UUID, UUID]] = set()
        if facts := [row["memory_id"] for row in shown if row["kind"] in ("semantic", "procedural")]:
            told = (tenant, facts) if as_of is None else (tenant, facts, as_of)
            for row in await tx.fetch("turns_outdated_by" if as_of is None else "turns_outdated_then", *told):
                outdated.setdefault(row["memory_id"], []).append(row["event_id"])
                if row["corrected"]:
                    corrected.add((row["memory_id"], row["event_id"]))
        sources = await sources_of(tx, tenant, ids)
        if as_of is not None:
            sources = {one: [turn for turn in of if _was_there(turn, as_of)] for one, of in sources.items()}
        for memory_id in {memory_id for memory_id, _ in corrected}:
            kept = [one for one in sources.get(memory_id, ()) if (memory_id, one["event_id"]) not in corrected]
            sources[memory_id] = kept
        windows = _windows(await tx.fetch(self._vectors, tenant, ids, versions))
        return _Parts(sources, windows, outdated, await _entities(tx, tenant, shown))

    def _index_row(self, row: Any, parts: _Parts) -> IndexRow:
        memory_id, visible = row["memory_id"], row["visible"]
        sources = parts.sources.get(memory_id, _NO_SOURCES)
        primary = sources[0] if sources else None
        windows, vectors = parts.windows.get(memory_id) or ((), self._none)
        if visible and not windows:
            # Its vectors lie with another model (a switch that this process has not followed yet): by its words alone.
            windows, vectors = ((0, len(row["content"])),), self._zero
        return IndexRow(
            memory_id=memory_id,
            version=row["version"],
            kind=row["kind"],
            role=row["role"],
            content=row["content"] if visible else "",
            context=(primary["context"] or "") if primary else "",
            occurred_at=row["occurred_at"],
            created_at=row["created_at"],
            attributes=row["attributes"] if visible else {},
            validation_status=row["validation_status"],
            injected=row["injected"],
            last_injected_at=row["last_injected_at"],
            speaker=primary["speaker"] if primary else None,
            language=row["language"],
            session_id=row["session_id"],
            seq=primary["seq"] if primary and primary["seq"] is not None else -1,
            integrity=row["integrity"],
            sensitivity=row["sensitivity"],
            importance=row["importance"],
            expires_at=row["expires_at"],
            scope_id=row["scope_id"],
            source_ids=tuple(source["source_id"] or str(source["event_id"]) for source in sources),
            event_ids=tuple(source["event_id"] for source in sources),
            windows=windows,
            vectors=vectors,
            visible=visible,
            cleaned_by=row["cleaned_by"],
            changed_version=row["changed_version"],
            chain=Digest(primary["chain"]) if primary and primary["chain"] is not None else None,
            pinned=row["pinned"],
            outdates=tuple(sorted(set(parts.outdated.get(memory_id, ())))),
            entity=parts.entities.get(memory_id),
        )


def _to_load(found: Sequence[Any]) -> ToLoad | None:
    """The newest of the checkpoints that these rows are of."""
    if not found:
        return None
    first = found[0]
    parts = tuple(
        NamedPart(row["part"], row["memory_id"], row["memory_version"], row["own"])
        for row in found
        if row["memory_id"] is not None and row["checkpoint_id"] == first["checkpoint_id"]
    )
    return ToLoad(first["checkpoint_id"], first["version"], first["session_id"], parts)


async def sources_of(tx: Transaction, tenant: UUID, ids: Sequence[UUID]) -> dict[UUID, list[Any]]:
    """The source turns of these memories, primary first."""
    sources: dict[UUID, list[Any]] = {}
    for row in await tx.fetch("sources_of_memories", tenant, ids) if ids else []:
        sources.setdefault(row["memory_id"], []).append(row)
    for several in sources.values():
        if len(several) > 1:
            several.sort(key=itemgetter("ordinal", "event_id"))
    return sources


async def _entities(tx: Transaction, tenant: UUID, shown: Sequence[Any]) -> dict[UUID, UUID]:
    """Whom these memories name, where that is known."""
    named = {
        row["memory_id"]: (row["scope_id"], names[0])
        for row in shown
        if row["kind"] == "semantic" and (names := names_in(row["attributes"]))
    }
    found = await tx.fetch("entities_of_memories", tenant, list(named)) if named else []
    return {
        row["memory_id"]: row["root"] for row in found if is_name(row["fingerprint"], tenant, *named[row["memory_id"]])
    }


def _was_there(source: Any, moment: datetime) -> bool:
    """Whether a source was recorded at a moment already; one whose turn is gone was. A line that says something else
    since is recorded anew: what was made of it first was there if its id was.
    """
    if source["recorded_at"] is None or source["recorded_at"] <= moment:
        return True
    return source["ordinal"] == 0 and minted_ms(source["event_id"]) <= moment.timestamp() * 1000


def _best_windows(found: Sequence[Any], k: int) -> dict[UUID, Any]:
    """The nearest window of each of the k nearest memories that pass, nearest first."""
    best: dict[UUID, Any] = {}
    for row in found:
        if len(best) == k:
            break
        if row["passes"]:
            best.setdefault(row["memory_id"], row)
    return best


def _listed(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _below(ceiling: Sensitivity | None) -> list[str] | None:
    return None if ceiling is None else labels_up_to(ceiling)


def _windows(found: Sequence[Any]) -> dict[UUID, tuple[tuple[tuple[int, int], ...], NDArray[np.float32]]]:
    """Spans and vectors by memory, rows in the order of memory and window; one conversion for all of them."""
    if not found:
        return {}
    raw = np.frombuffer(b"".join(row["vector"] for row in found), dtype=np.uint8).reshape(len(found), -1)
    vectors = np.ascontiguousarray(raw[:, 4:]).view(">f2").astype(np.float32)
    windows: dict[UUID, tuple[tuple[tuple[int, int], ...], NDArray[np.float32]]] = {}
    start = 0
    for end in range(1, len(found) + 1):
        if end == len(found) or found[end]["memory_id"] != found[start]["memory_id"]:
            spans = tuple((row["span_start"], row["span_end"]) for row in found[start:end])
            windows[found[start]["memory_id"]] = (spans, vectors[start:end])
            start = end
    return windows


async def _page_then(
    tx: Transaction, asked: tuple[Any, ...], as_of: datetime, hidden: Container[UUID], *, also_gone: bool
) -> list[Any]:
    """A page of what was recorded at a moment; `also_gone`: and of what changed and is not of it (any more), which an
    index may have from before. Every row of the moment is among the changed, and they are in one order.
    """
    changed = await tx.fetch("changed_memories", *asked) if also_gone else []
    then = await tx.fetch("memories_as_of", *asked, as_of)
    if also_gone:
        shown = {row["memory_id"]: row for row in then}
        then = [shown.get(row["memory_id"]) or _gone(row) for row in changed]
    return [_gone(row) if row["memory_id"] in hidden else row for row in then]


def _gone(row: Any) -> dict[str, Any]:
    return {**row, "visible": False}
