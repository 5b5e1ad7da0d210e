"""Storing imports: the lines of one chunk in, one transaction out, and the lines that conflict.

A line is known by its `source_id`, else by the digest of all of it. Known and equal is done; known and different is a
conflict, or with `on_conflict=update` a new version of the turn's text and of its memory. A chunk is stored once: a
second time it answers as the first. Raises LeaseLost, StoreUnavailable; StoreRefused where what it was made for has
changed since, and another attempt tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch, facts, procedures, rows
from memory.adapters.postgres.batch import Numbered
from memory.adapters.postgres.budgets import Budgets, within_budget
from memory.adapters.postgres.cleaned import cleaned
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.facts import EmbeddingQueries, Heard, Offered
from memory.adapters.postgres.leases import hold_fence
from memory.adapters.postgres.line_updates import (
    Update,
    as_sensitive,
    at_least,
    made_of_risen,
    risen,
    seal_made,
    updates_of,
)
from memory.adapters.postgres.outbox import announce_events
from memory.adapters.postgres.procedure_rows import Offered as Lesson
from memory.adapters.postgres.rows import OpenSession, Place
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.withdrawn import withdraw_summaries
from memory.chain import Digest, is_chained
from memory.errors import StoreRefused, StoreUnavailable
from memory.model import Committed, ImportChunk, LineConflict, Scope, ScopeId, SealedToken, SessionRef
from memory.stored import Digests, ImportItem, ImportProgress, KnownLine, KnownLines, SessionTail
from policies.labels import Sensitivity
from policies.text import storable

_NOTHING_FORGOTTEN: Final = Digests()
_NO_BOUNDS: Final = Budgets()
_CONFLICT: Final = "known with another content (send it with ?on_conflict=update to replace it)"
_LATER: Final = "a line of the same source that came later has its place"
_TAKEN: Final = "its source_id is taken: choose another"
_FORGOTTEN: Final = "was forgotten and is not taken again"


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The lines of a chunk by what becomes of them. `changed` goes by the stored turn's id: the last one wins.
    `labels`, `session_of`: of those turns as they are stored.
    """

    new: list[ImportItem]
    changed: dict[UUID, ImportItem]
    conflicts: list[LineConflict]
    labels: Mapping[UUID, Sensitivity] = field(default_factory=dict)
    session_of: dict[UUID, UUID] = field(default_factory=dict)

    def event_of(self) -> dict[UUID, UUID]:
        """The stored turn of each that takes the place of its text."""
        return {item.turn.event_id: event_id for event_id, item in self.changed.items()}


class ImportStore:
    """The importing side of the store. `embeddings` is the table of the model whose vectors are stored."""

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, budgets: Budgets = _NO_BOUNDS) -> None:
        self._database = database
        self._scopes = scopes
        self._budgets = budgets
        add, copy = database.queries["add_embedding"], database.queries["copy_embeddings"]
        self._embeddings = EmbeddingQueries(add.of_table(embeddings), copy.of_table(embeddings))

    async def known_lines(self, scope: Scope, source_ids: Sequence[str], line_digests: Sequence[bytes]) -> KnownLines:
        """Which of these lines the scope has."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return KnownLines({}, {})
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            return await _known(tx, scope.tenant, scope_id, source_ids, line_digests)

    async def session_tail(self, scope: Scope, ref: SessionRef, turns: int = 0) -> SessionTail:
        """Where a session ends, by its label or, where that was cleaned, its id, with so many of its last turns; number
        0 and no chain for none.
        """
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return SessionTail(None, 0, None)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            row = await tx.row("session_tail", scope.tenant, scope_id, storable(ref.label))
            if row is None:
                row = await tx.row("session_tail_by_id", scope.tenant, scope_id, ref.session_id)
            if row is None:
                return SessionTail(None, 0, None)
            last = await tx.fetch("last_turns", scope.tenant, row["session_id"], turns) if turns else []
        tip, texts = row["tip_chain"], tuple(one["content"] for one in reversed(last))
        chain = None if tip is None else Digest(tip)
        return SessionTail(chain, row["next_seq"], row["last_at"], texts, row["session_id"])

    async def import_progress(self, scope: Scope, import_id: UUID, seen: int = 0) -> ImportProgress:
        """How much of an import is stored, and the lines that failed, by line, but for those of its first `seen`
        chunks: of a large one all would be tens of thousands, each time.
        """
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return ImportProgress(0, 0, 0, ())
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            (row,) = await tx.fetch("import_progress", scope.tenant, import_id)
            found = await tx.fetch("import_errors", scope.tenant, import_id, seen)
        errors = sorted((_error(one) for row in found for one in row["errors"]), key=lambda error: error.line)
        whole = row["chunks"] if row["last"] + 1 == row["chunks"] else 0
        return ImportProgress(row["chunks"], row["done"], row["failed"], tuple(errors), whole)

    async def commit_import(
        self,
        chunk: ImportChunk,
        items: Sequence[ImportItem],
        *,
        subject_id: UUID,
        lane: str,
        fence: int,
        now: datetime,
        digests: Digests = _NOTHING_FORGOTTEN,
        cleaned_by: str = "",
        tokens: Sequence[SealedToken] = (),
    ) -> tuple[Committed, tuple[LineConflict, ...]]:
        """Store a chunk; lines that are not in the list are known and count as done. Also the lines that failed."""
        scope, tenant = chunk.scope, chunk.scope.tenant
        scope_id = await batch.scope_unless_forgotten(self._database, self._scopes, scope, digests, chunk.arrived_at)
        if scope_id is None:
            return Committed(ScopeId(0), 0, 0, False, len(items)), _all_forgotten(items)
        place = Place(tenant, scope_id, subject_id, chunk.exchange_id, now)
        try:
            async with self._database.transaction(tenant, [scope_id], within_ms=batch.COMMIT_MS, generic=True) as tx:
                await hold_fence(tx, lane, fence)
                known = await tx.row("chunk_known", tenant, chunk.import_id, chunk.chunk)
                if known is not None:
                    version = await tx.value("scope_version", tenant, scope_id)
                    return Committed(scope_id, version, 0, True), tuple(map(_error, known["errors"]))
                since = {place.exchange_id: chunk.arrived_at}
                if (await batch.forgotten(tx, place, Digests(digests.scope), since)).all_of_it:
                    return Committed(scope_id, 0, 0, False, len(items)), _all_forgotten(items)
                await tx.run("add_subject", tenant, subject_id, scope.user, now)
                await cleaned(tx, place, cleaned_by, tokens)
                committed, failed = await _Storing(tx, place, chunk, self._embeddings, self._budgets).store(
                    items, digests
                )
                errors = [{"line": one.line, "error": one.error} for one in failed]
                done = len(chunk.lines) - len(failed)
                row = (tenant, chunk.import_id, chunk.chunk, chunk.exchange_id, scope_id, done, len(failed))
                await tx.run("add_chunk", *row, errors, now)
                return committed, failed
        except StoreUnavailable:  # of a refusal the database tells
            self._scopes.drop(scope)
            raise


def _all_forgotten(items: Sequence[ImportItem]) -> tuple[LineConflict, ...]:
    return tuple(LineConflict(item.line, _FORGOTTEN) for item in items)


class _Storing:
    """One chunk inside its transaction."""

    def __init__(
        self, tx: Transaction, place: Place, chunk: ImportChunk, embeddings: EmbeddingQueries, budgets: Budgets
    ) -> None:
        # An import by a key that is trusted with roles is the operator's own.
        self._budgets = _NO_BOUNDS if chunk.trusted else Budgets(budgets.foreign, budgets.foreign)
        self._tx = tx
        self._place = place
        self._chunk = chunk
        self._embeddings = embeddings

    async def store(self, items: Sequence[ImportItem], digests: Digests) -> tuple[Committed, tuple[LineConflict, ...]]:
        """The steps, in the order of locks: sessions, turns, scope version, memories."""
        tx, place = self._tx, self._place
        # A date to come is no later than the line came.
        came = {one.turn.event_id: min(one.turn.occurred_at, self._chunk.arrived_at) for one in items}
        gone = await batch.forgotten(tx, place, digests, came)
        lines = await self._sort(items, gone)
        sessions = await self._open_sessions(lines)  # of what is not stored not even the name
        await self._stand_still(lines.new, sessions.values())
        offered = [(sessions[item.session.label], item.turn) for item in lines.new]
        numbered, given = await batch.number_turns(tx, place, offered)
        hidden = {item.turn.event_id for item in lines.new if item.untold}
        if untold := [event_id for event_id in numbered.new if event_id in hidden]:
            await tx.run("add_untold", place.tenant, untold, place.scope_id)
        lines = await self._as_stored(lines)
        before = await self._memories_of(lines.changed)
        heard = await self._heard(lines, sessions, numbered)
        spoken = (*lines.new, *lines.changed.values())
        sifted, dropped = facts.sift([fact for item in spoken for fact in item.facts], heard, gone.items)
        taught = procedures.sift([one for item in spoken for one in item.procedures], heard, gone.items)
        version, born, learnt, held = await self._store_memories(
            lines, before, sessions, numbered, gone, sifted, taught
        )
        for label, session in sessions.items():
            last = [item.turn for item in lines.new if item.session.label == label]
            if last:
                seq, at = session.next_seq + given[session.session_id], max(turn.occurred_at for turn in last)
                tip = next((turn.chain for turn in reversed(last) if is_chained({"role": turn.role})), None)
                await tx.run("advance_session", place.tenant, session.session_id, seq, tip, at)
        counts = (len(gone.items), born, dropped, learnt, held)
        done = Committed(ScopeId(place.scope_id), version, len(numbered.new), False, *counts)
        return done, tuple(lines.conflicts)

    async def _memories_of(self, event_ids: Collection[UUID]) -> dict[UUID, Any]:
        """What these turns are remembered as, by their id."""
        found = await self._tx.fetch("memories_of_turns", self._place.tenant, list(event_ids)) if event_ids else []
        return {row["event_id"]: row for row in found if row["kind"] == "episodic"}

    async def _as_stored(self, lines: _Sorted) -> _Sorted:
        """Those that take a turn's place no less sensitive than that, and in its session. The turns are locked."""
        if not lines.changed:
            return lines
        found = await self._tx.fetch("turns_to_replace", self._place.tenant, list(lines.changed))
        labels = {row["event_id"]: Sensitivity(row["sensitivity"]) for row in found}
        changed = {
            event_id: as_sensitive(item, labels.get(event_id, item.turn.sensitivity))
            for event_id, item in lines.changed.items()
        }
        session_of = {row["event_id"]: row["session_id"] for row in found}
        return replace(lines, changed=changed, labels=labels, session_of=session_of)

    async def _heard(self, lines: _Sorted, sessions: dict[str, OpenSession], numbered: Numbered) -> dict[UUID, Heard]:
        """The turns that are stored now, with their numbers: the new ones, and those whose text is replaced."""
        heard: dict[UUID, Heard] = {}
        changed = lines.changed
        for item in lines.new:
            turn, seq = item.turn, numbered.seq_of.get(item.turn.event_id)
            if seq is not None and turn.event_id not in changed:  # else a later line of this chunk took its place
                heard[turn.event_id] = Heard(turn, turn.event_id, sessions[item.session.label].session_id, seq, None)
        updates = (rows.replaced_turn_row(self._place, event_id, item.turn) for event_id, item in changed.items())
        for row in await self._tx.fetch_many("replace_turn", updates):
            item, session_id = changed[row["event_id"]], lines.session_of[row["event_id"]]
            heard[item.turn.event_id] = Heard(item.turn, row["event_id"], session_id, row["seq"], None)
        return heard

    async def _open_sessions(self, lines: _Sorted) -> dict[str, OpenSession]:
        """The sessions of the new lines. All are locked in the order of their labels, those of replaced turns too."""
        refs = {item.session.label: item for item in lines.new}
        if lines.session_of:
            known = {*lines.session_of.values(), *(item.session.session_id for item in lines.new)}
            await self._tx.fetch("lock_sessions", self._place.tenant, list(known))
        return {
            label: await batch.open_session(self._tx, self._place, refs[label].session, refs[label].turn.occurred_at)
            for label in sorted(refs)
        }

    async def _stand_still(self, new: Sequence[ImportItem], sessions: Iterable[OpenSession]) -> None:
        """Raise StoreRefused where what these stand behind was put elsewhere while they were embedded: by the first
        request that goes on in a copy (take_places). Another attempt puts them behind it. The sessions are locked.
        """
        behind = {(item.behind, item.turn.parent_chain) for item in new if item.behind is not None}
        behind -= {(session.session_id, session.tip_chain) for session in sessions}  # the tip's turn may be forgotten
        if behind:
            found = await self._tx.fetch("chains_known", self._place.tenant, *map(list, zip(*behind, strict=True)))
            behind -= {(row["session_id"], row["chain"]) for row in found}
        if behind:
            raise StoreRefused("what a line stands behind was put elsewhere meanwhile")

    async def _sort(self, items: Sequence[ImportItem], gone: batch.Forgotten) -> _Sorted:
        """What is new, what replaces, what conflicts; equal lines fall out. Lines of one chunk know each other."""
        sources = [item.turn.source_id for item in items if item.turn.source_id is not None]
        digests = [item.turn.line_digest for item in items if item.turn.line_digest is not None]
        known = await _known(self._tx, self._place.tenant, self._place.scope_id, sources, digests)
        by_source, by_digest = dict(known.by_source), dict(known.by_digest)
        sorted_ = _Sorted([], {}, [])
        for item in items:
            turn = item.turn
            stored = KnownLines(by_source, by_digest).find(turn.source_id, turn.line_digest)
            if gone.all_of_it or turn.event_id in gone.items:
                sorted_.conflicts.append(LineConflict(item.line, _FORGOTTEN))
            elif stored is None:
                sorted_.new.append(item)
            elif stored.line_digest == turn.line_digest:
                continue
            elif stored.is_above(self._chunk.ceiling):
                sorted_.conflicts.append(LineConflict(item.line, _TAKEN))
                continue
            elif self._chunk.on_conflict == "update":
                if stored.came_later(self._place.exchange_id, self._place.now):
                    sorted_.conflicts.append(LineConflict(item.line, _LATER))
                    continue
                sorted_.changed[stored.event_id] = item
                sorted_.session_of[stored.event_id] = stored.session_id
            else:
                sorted_.conflicts.append(LineConflict(item.line, _CONFLICT))
                continue
            event_id = turn.event_id if stored is None else stored.event_id
            label = turn.sensitivity.value if stored is None else stored.sensitivity
            ids, identity = (event_id, item.session.session_id, turn.exchange_id), (turn.source_id, turn.line_digest)
            now_known = KnownLine(*ids, *identity, label, self._place.now, turn.chain)
            if turn.source_id is not None:
                by_source[turn.source_id] = now_known
            elif turn.line_digest is not None:
                by_digest[turn.line_digest] = now_known
        return sorted_

    async def _store_memories(
        self,
        lines: _Sorted,
        before: Mapping[UUID, Any],
        sessions: dict[str, OpenSession],
        numbered: Numbered,
        gone: batch.Forgotten,
        sifted: Sequence[Offered],
        taught: Sequence[Lesson],
    ) -> tuple[int, int, int, int]:
        """Returns the scope's version, raised when there is something new, how many facts and procedures are, and how
        many memories are beyond the import's budget.
        """
        tx, place = self._tx, self._place
        remembered = before.keys() | {item.turn.event_id for item in lines.new if item.memories}
        offered = [
            (sessions[item.session.label].session_id, batch.resting_on_new(item.memories, numbered.new, gone.items))
            for item in lines.new
        ]
        offered += [
            (lines.session_of[one], [at_least(memory, item.turn.sensitivity) for memory in item.memories])
            for one, item in lines.changed.items()
            if one not in remembered
        ]
        fresh = [(session_id, memory) for session_id, made in offered for memory in made]
        if not fresh and not lines.changed and not sifted and not taught:
            version: int = await tx.value("scope_version", place.tenant, place.scope_id)
            return version, 0, 0, 0
        version = await tx.value("bump_scope", place.tenant, place.scope_id)
        made, held = await within_budget(tx, place, fresh, self._budgets, import_id=self._chunk.import_id)
        await batch.store_memories(
            tx,
            place,
            made,
            numbered=replace(numbered, event_of={**numbered.event_of, **lines.event_of()}),
            changed_version=version,
            model=None,
            embeddings=self._embeddings.add,
        )
        standing = await self._memories_of(lines.changed.keys() & remembered)
        changed, import_id = lines.changed, self._chunk.import_id
        updates, more = await updates_of(tx, place, changed, standing, self._budgets, import_id=import_id)
        await self._replace(lines, updates, standing, before, version)
        over = await made_of_risen(tx, place, risen(changed, lines.labels, updates))
        born, learnt = await self._store_stated(sifted, taught, list(lines.changed), version)
        await seal_made(tx, place, over, updates, version)
        return version, born, learnt, held + more

    async def _store_stated(
        self, sifted: Sequence[Offered], taught: Sequence[Lesson], replaced: Sequence[UUID], version: int
    ) -> tuple[int, int]:
        """Facts and procedures, how many of each are new; none of a turn that a person hid or rejected or that is held
        back, for whatever reason.
        """
        tx, place = self._tx, self._place
        told = {one.heard.event_id for one in sifted} | {one.heard.event_id for one in taught}
        found = await tx.fetch("turns_withheld", place.tenant, list(told)) if told else []
        told -= {row["event_id"] for row in found}
        # Both take the evidence of what is replaced away: each of its own memories only.
        learnt = await procedures.store_procedures(
            tx,
            place,
            [one for one in taught if one.heard.event_id in told],
            changed_version=version,
            embeddings=self._embeddings,
            replaced=replaced,
        )
        born = await facts.store_facts(
            tx,
            place,
            [one for one in sifted if one.heard.event_id in told],
            changed_version=version,
            model=None,
            embeddings=self._embeddings,
            replaced=replaced,
        )
        return born, learnt

    async def _replace(
        self,
        lines: _Sorted,
        updates: Sequence[Update],
        remembered: Mapping[UUID, Any],
        before: Mapping[UUID, Any],
        version: int,
    ) -> None:
        """New versions of the memories of turns with a new text. Of words that say nothing there is none: it is hidden,
        and shown again with the next that do. What its owner deleted stays so.
        """
        tx, place = self._tx, self._place
        replaced = [(one.memory_id, one.version, one.memory) for one in updates]
        hidden: list[UUID] = []
        gone: list[UUID] = []
        shown: list[UUID] = []
        for event_id, row in remembered.items():
            unspoken = event_id in before and before[event_id]["unspoken"]
            if not lines.changed[event_id].memories and (row["shown"] or unspoken):
                hidden.append(row["memory_id"])
                gone += [row["memory_id"]] if row["shown"] else []
            elif unspoken:
                shown.append(row["memory_id"])
        await batch.replace_memories(
            tx,
            place,
            replaced,
            event_of=lines.event_of(),
            changed_version=version,
            embeddings=self._embeddings.add,
        )
        times = [*((one, place.now) for one in hidden), *((one, None) for one in shown)]
        await tx.run_many("hide_memory", ((place.tenant, one, at, version) for one, at in times))
        await announce_events(tx, place, "deleted", gone)
        await announce_events(tx, place, "restored", shown)
        untold = [*gone, *(memory_id for memory_id, _, memory in replaced if memory.quarantine)]
        await withdraw_summaries(tx, place.tenant, place.scope_id, untold, at=place.now, changed_version=version)


async def _known(
    tx: Transaction, tenant: UUID, scope_id: int, source_ids: Sequence[str], line_digests: Sequence[bytes]
) -> KnownLines:
    sources = [storable(source_id) for source_id in source_ids]
    by_source = await tx.fetch("lines_by_source", tenant, scope_id, sources) if sources else []
    by_digest = await tx.fetch("lines_by_digest", tenant, scope_id, list(line_digests)) if line_digests else []
    return KnownLines(
        {row["source_id"]: KnownLine(**row) for row in by_source},
        {row["line_digest"]: KnownLine(**row) for row in by_digest},
    )


def _error(stored: Mapping[str, object]) -> LineConflict:
    return LineConflict(int(str(stored["line"])), str(stored["error"]))
