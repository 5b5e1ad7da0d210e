"""Storing: one Commit in, one transaction out, or nothing. (Of a long history the oldest turns go ahead.)

What a commit writes is idempotent by its exchange id: a second one changes nothing. Session numbers have no gaps,
because they are given out under the session's row lock. A worker whose lane has moved on stores nothing (LeaseLost).
Raises StoreUnavailable, after which the same commit may be tried again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch, facts, procedures, rows
from memory.adapters.postgres.ahead import in_parts, together
from memory.adapters.postgres.batch import Numbered
from memory.adapters.postgres.budgets import Budgets, within_budget
from memory.adapters.postgres.cleaned import cleaned
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.extraction_store import mark_due
from memory.adapters.postgres.facts import EmbeddingQueries, Heard
from memory.adapters.postgres.given import unsealed, without_given
from memory.adapters.postgres.leases import hold_fence
from memory.adapters.postgres.outbox import announce_events, drop_old_events
from memory.adapters.postgres.procedure_rows import Offered as Lesson
from memory.adapters.postgres.rows import OpenSession, Place
from memory.adapters.postgres.scopes import Scopes
from memory.chain import Digest
from memory.errors import StoreUnavailable
from memory.model import Base, Commit, Committed, NewMemory, Scope, ScopeId, SealedRetrieval, SessionRef
from memory.read.conversation import RESTORE
from memory.stored import Digests, StoredTurn, SummaryState

_SCOPES_AT_ONCE: Final = 1_000
_SEALED_AT_ONCE: Final = 1_000
_CHUNKS_KEPT: Final = timedelta(days=30)
"""A chunk that is delivered once more after that is known by its lines."""
_NOTHING_FORGOTTEN: Final = Digests()
_NO_BOUNDS: Final = Budgets()


class WriteStore:
    """The writing side of the store. `embeddings` is the table of the model whose vectors are stored."""

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, budgets: Budgets = _NO_BOUNDS) -> None:
        self._database = database
        self._scopes = scopes
        self._budgets = budgets
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)
        copy = database.queries["copy_embeddings"].of_table(embeddings)
        self._embeddings = EmbeddingQueries(self._add_embedding, copy)

    async def scope_id(self, scope: Scope) -> ScopeId:
        """The id of a scope, made when it is new."""
        return await self._scopes.ensure(scope)

    async def known_chains(self, scope: Scope, session_id: UUID, chains: Sequence[Digest]) -> dict[Digest, UUID]:
        """Which of these positions the session has, and as which turn: nothing need be embedded for them."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return {}
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True, generic=True) as tx:
            found = await tx.fetch("chains_known", scope.tenant, [session_id] * len(chains), list(chains))
        return {Digest(row["chain"]): row["event_id"] for row in found}

    async def base(self, scope: Scope, session_id: UUID, subject_id: UUID, since: datetime, least: int) -> Base | None:
        """The latest body of the session that came at `since` or later and is kept whole, of `least` bytes or more."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return None
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True, generic=True) as tx:
            row = await tx.row("base_of_session", scope.tenant, session_id, subject_id, since, least)
        return None if row is None else Base(**row)

    async def take_places(self, scope: Scope, session_id: UUID, places: Mapping[Digest, Digest]) -> None:
        """Put imported turns of a session from these positions to those, and what stands behind them."""
        scope_id = await self._scopes.ensure(scope)
        moved = (scope.tenant, session_id, list(places), list(places.values()))
        async with self._database.transaction(scope.tenant, [scope_id]) as tx:
            await tx.fetch("lock_sessions", scope.tenant, [session_id])
            if taken := [row["taken"] for row in await tx.fetch("take_places", *moved)]:
                sent = {to: at for at, to in places.items()}
                behind = ([sent[one] for one in taken], taken)
                await tx.run("stand_behind", scope.tenant, session_id, *behind)
                await tx.run("end_at", scope.tenant, session_id, *behind)

    async def session_of_chains(self, scope: Scope, digests: Sequence[Digest]) -> dict[bytes, SessionRef]:
        """Sessions of this very scope by chain digest, the latest where several have it."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None or not digests:
            return {}
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True, generic=True) as tx:
            found = await tx.fetch("session_of_chains", scope.tenant, scope_id, list(digests))
        return {row["chain"]: SessionRef(row["session_id"], row["label"]) for row in found}

    async def has_copies(self, scope: Scope) -> bool:
        """Whether anything was imported into this very scope."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return False
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True, generic=True) as tx:
            (row,) = await tx.fetch("has_copies", scope.tenant, scope_id)
        return bool(row["has_copies"])

    async def chains_elsewhere(self, scope: Scope, session_id: UUID, chains: Sequence[Digest]) -> frozenset[bytes]:
        """Which of these positions another session of this very scope has."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return frozenset()
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True, generic=True) as tx:
            found = await tx.fetch("chains_elsewhere", scope.tenant, scope_id, session_id, list(chains))
        return frozenset(row["chain"] for row in found)

    async def session_that_went_on(self, scope: Scope, digests: Sequence[Digest], after: datetime) -> SessionRef | None:
        """The session in which a request that arrived after `after` sent one of these positions as its history."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return None
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True, generic=True) as tx:
            row = await tx.row("session_that_went_on", scope.tenant, scope_id, list(digests), after)
        return None if row is None else SessionRef(row["session_id"], row["label"])

    async def commit(self, commit: Commit, *, now: datetime, digests: Digests = _NOTHING_FORGOTTEN) -> Committed:
        """Store an exchange and all it leaves behind, recorded at `now`. Raises LeaseLost, StoreUnavailable."""
        done: list[Committed] = []
        for part, own in in_parts(commit, digests):
            left = unsealed(part) if any(one.erased for one in done) else part
            done.append(await self._commit(left, now, own))
        return together(done)

    async def _commit(self, commit: Commit, now: datetime, digests: Digests) -> Committed:
        tenant, exchange = commit.scope.tenant, commit.exchange
        scope_id = await batch.scope_unless_forgotten(
            self._database, self._scopes, commit.scope, digests, exchange.arrived_at
        )
        if scope_id is None:
            return _refused(ScopeId(0), commit)
        place = Place(tenant, scope_id, exchange.subject_id, exchange.exchange_id, now)
        try:
            async with self._database.transaction(tenant, [scope_id], within_ms=batch.COMMIT_MS, generic=True) as tx:
                await hold_fence(tx, commit.lane, commit.fence)
                if await tx.value("exchange_known", tenant, exchange.exchange_id):
                    return Committed(scope_id, await tx.value("scope_version", tenant, scope_id), 0, True)
                gone = await _forgotten(tx, place, commit, digests)
                if gone.all_of_it:  # no row of it either: it would name the session, which was forgotten with it
                    return _refused(scope_id, commit)
                left = without_given(unsealed(commit) if gone.items else commit, gone.given, gone.unsaid)
                await cleaned(tx, place, left.cleaned_by, left.tokens)
                return await self._store(tx, place, left, gone)
        except StoreUnavailable:  # of a refusal the database tells
            self._scopes.drop(commit.scope)  # its row may be gone: a forgotten project
            raise

    async def _store(self, tx: Transaction, place: Place, commit: Commit, gone: batch.Forgotten) -> Committed:
        session = await batch.open_session(tx, place, commit.session, commit.exchange.arrived_at)
        await tx.run("add_subject", place.tenant, place.subject_id, commit.scope.user, place.now)
        if not commit.ahead:
            delta = commit.exchange.delta
            stays = delta is not None and await tx.value("base_stays", place.tenant, delta.base_id)
            exchange = commit.exchange if stays else replace(commit.exchange, delta=None)
            await tx.run("add_exchange", *rows.exchange_row(place, session.session_id, exchange))
        allowed = [(session, turn) for turn in commit.turns if turn.event_id not in gone.items]
        numbered, given = await batch.number_turns(tx, place, allowed)
        new = [turn for turn in commit.turns if turn.event_id in numbered.seq_of]
        behind = await batch.said_behind(tx, place, session, new)
        heard = {
            turn.event_id: Heard(turn, turn.event_id, session.session_id, numbered.seq_of[turn.event_id], behind)
            for turn in new
        }
        if commit.facts_due and not commit.ahead:
            await mark_due(tx, place, session, behind, commit.exchange.finished_at)
        offered, dropped = facts.sift(commit.facts, heard, gone.items)
        taught = procedures.sift(commit.procedures, heard, gone.items)
        version, born, learnt, held = await self._store_memories(
            tx, place, session, commit, numbered, gone, offered, taught
        )
        await self._store_injected(tx, place, session, commit, version)
        tip = new[-1].chain if new else None
        next_seq = session.next_seq + given[session.session_id]
        await tx.run("advance_session", place.tenant, session.session_id, next_seq, tip, commit.exchange.arrived_at)
        erased = len(gone.items)
        counts = (erased, born, dropped, learnt, held)
        return Committed(ScopeId(place.scope_id), version, len(numbered.new), False, *counts)

    async def _store_memories(
        self,
        tx: Transaction,
        place: Place,
        session: OpenSession,
        commit: Commit,
        numbered: Numbered,
        gone: batch.Forgotten,
        offered: Sequence[facts.Offered],
        taught: Sequence[Lesson],
    ) -> tuple[int, int, int, int]:
        """Returns the scope's version, raised when readers have something new to see (memories, counters), how many
        facts and procedures are new, and how many memories are beyond their source's budget. Of a turn whose memory is
        held back nothing is stated or taught.
        """
        kept = batch.resting_on_new(commit.memories, numbered.new, gone.items)
        changes = kept or offered or taught or _injected(commit.retrieval)
        version: int = await tx.value("bump_scope" if changes else "scope_version", place.tenant, place.scope_id)
        held = 0
        if kept:
            made, held = await within_budget(
                tx, place, [(session.session_id, memory) for memory in kept], self._budgets
            )
            await batch.store_memories(
                tx,
                place,
                made,
                numbered=numbered,
                changed_version=version,
                model=commit.exchange.model,
                embeddings=self._add_embedding,
            )
            waits = {event_id for _, memory in made if memory.quarantine for event_id in memory.source_turns}
            offered = [one for one in offered if one.heard.turn.event_id not in waits]
            taught = [one for one in taught if one.heard.turn.event_id not in waits]
        born = await facts.store_facts(
            tx, place, offered, changed_version=version, model=commit.exchange.model, embeddings=self._embeddings
        )
        learnt = await procedures.store_procedures(
            tx, place, taught, changed_version=version, embeddings=self._embeddings
        )
        return version, born, learnt, held

    async def _store_injected(
        self, tx: Transaction, place: Place, session: OpenSession, commit: Commit, version: int
    ) -> None:
        """The ledger's nodes, the record of what the request was given, and one injection more for each of that.

        Memories shared by another scope are not counted: what one user asks is no other user's ranking.
        """
        await tx.run_many("add_ledger_node", (rows.node_row(place, session, node) for node in commit.nodes))
        if commit.retrieval is None:
            return
        await tx.run("add_retrieval", *rows.retrieval_row(place, session.session_id, commit.retrieval))
        if (mark := commit.retrieval.record.restored) is not None:  # once: a load that came since stays
            await tx.run("take_mark_off", place.tenant, session.session_id, RESTORE, mark)
        gone = [one.chain for one in commit.retrieval.record.withdrawn]
        if gone:
            await tx.run("withdraw_places", place.tenant, session.session_id, gone, place.now)
        if injected := _injected(commit.retrieval):
            at = commit.retrieval.record.created_at
            await tx.run("add_injections", place.tenant, injected, at, version)

    async def turns_since(
        self, scope: Scope, session_id: UUID, seq: int, *, limit: int = 1_000
    ) -> tuple[StoredTurn, ...]:
        """The turns of a session from number `seq` on, in order, at most `limit`."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return ()
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("turns_since", scope.tenant, scope_id, session_id, seq, limit)
        return tuple(StoredTurn(**row) for row in found)

    async def learnt(self, scope: Scope, event_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of these turns that a memory of their own was made of."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None or not event_ids:
            return frozenset()
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            return frozenset(row["event_id"] for row in await tx.fetch("turns_learnt", scope.tenant, event_ids))

    async def untold(self, scope: Scope, event_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of these turns whose words must not be told."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None or not event_ids:
            return frozenset()
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            return frozenset(row["event_id"] for row in await tx.fetch("turns_untold", scope.tenant, event_ids))

    async def summary_state(self, scope: Scope, session_id: UUID) -> SummaryState | None:
        """The rolling summary of a session and how far it reaches; None for an unknown session."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return None
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            row = await tx.row("summary_state", scope.tenant, scope_id, session_id)
        return (
            None if row is None else SummaryState(**{name: value for name, value in row.items() if name != "version"})
        )

    async def put_summary(
        self,
        scope: Scope,
        session_id: UUID,
        memory: NewMemory,
        upto_seq: int,
        made_of: int | None = None,
        *,
        subject_id: UUID,
        now: datetime,
        lane: str | None = None,
        fence: int = 0,
        beside: Callable[[Transaction, int], Awaitable[None]] | None = None,
    ) -> int | None:
        """The rolling summary of all turns below `upto_seq`: a new version of the session's one summary memory.

        Returns its version number; None when a summary that reaches as far is there already (a retry), or another than
        the one it was `made_of` (that `changed_version`; None: of turns alone, where there was none): what was
        forgotten meanwhile would come back with its words. The next one is made of what is there then. `beside` writes
        in the same transaction that there is one.
        Raises LeaseLost, StoreUnavailable.
        """
        scope_id = await self._scopes.ensure(scope)
        place = Place(scope.tenant, scope_id, subject_id, memory.memory_id, now)
        async with self._database.transaction(scope.tenant, [scope_id]) as tx:
            if lane is not None:
                await hold_fence(tx, lane, fence)
            session = await tx.row("lock_session_by_id", scope.tenant, session_id)
            if session is None or session["summarised_seq"] >= upto_seq:
                return None
            known = session["summary_memory_id"]
            standing = None if known is None else await tx.row("current_version_of", scope.tenant, known)
            if (standing and standing["changed_version"]) != made_of:
                return None
            await tx.row("lock_scope", scope.tenant, scope_id)  # nobody hides anything from here on
            if not await batch.may_be_told(tx, scope.tenant, memory):
                return None  # erased, hidden or confidential since it was read: the next is made of what there is now
            version = await tx.value("bump_scope", scope.tenant, scope_id)
            if standing is None:
                await self._put_first(tx, place, session_id, memory, version)
            else:
                await self._put_next(tx, place, known, standing, memory, version)
            summary_id = memory.memory_id if standing is None else known
            await tx.run("mark_summarised", scope.tenant, session_id, summary_id, upto_seq)
            if beside is not None:
                await beside(tx, 1)
        return 1 if standing is None else 1 + int(standing["version"])

    async def _put_first(
        self, tx: Transaction, place: Place, session_id: UUID, memory: NewMemory, changed_version: int
    ) -> None:
        await batch.store_memories(
            tx,
            place,
            [(session_id, memory)],
            numbered=Numbered((), {}),
            changed_version=changed_version,
            model=None,
            embeddings=self._add_embedding,
        )

    async def _put_next(
        self, tx: Transaction, place: Place, known: UUID, standing: Any, memory: NewMemory, changed_version: int
    ) -> None:
        """The version behind the `standing` one; one that was withdrawn is shown again."""
        if standing["withdrawn"]:  # made anew, so of nothing that it was made of before
            await tx.run("drop_derivations", place.tenant, [known])
            await tx.run("hide_memory", place.tenant, known, None, changed_version)
            await announce_events(tx, place, "restored", [known])
        await batch.replace_memories(
            tx,
            place,
            [(known, 1 + standing["version"], batch.as_judged(memory, standing["validation_status"]))],
            event_of={},
            changed_version=changed_version,
            embeddings=self._add_embedding,
        )

    async def drop_expired_sealed(self, now: datetime, retention: timedelta) -> int:
        """Drop the sealed parts of exchanges and retrievals older than `retention`, of all tenants. Returns how many.

        Old lines of the lifecycle feed go with them, after their own time (memory.adapters.postgres.outbox), and what
        was noted of the progress of imports: nobody waits for one so long.

        Ids, digests and labels stay. The ledger's sealed blocks stay too: conversations still send them. A tenant at
        which it fails holds up no other; what it failed with is raised behind the last.
        """
        dropped = 0
        fault: StoreUnavailable | None = None
        async with self._database.transaction(None, read_only=True) as tx:
            tenants = [row["tenant_id"] for row in await tx.fetch("all_tenants")]
        for tenant in tenants:
            try:
                dropped += await self._drop_expired_of(tenant, now, now - retention)
            except StoreUnavailable as exc:
                fault = exc
        if fault is not None:
            raise fault
        return dropped

    async def _drop_expired_of(self, tenant: UUID, now: datetime, before: datetime) -> int:
        dropped, after = 0, -1
        while True:
            async with self._database.transaction(tenant) as tx:
                found = await tx.fetch("scopes_of_tenant", tenant, after, _SCOPES_AT_ONCE)
                ids = [row["scope_id"] for row in found]
                await tx.see(tenant, ids)
                await tx.run("drop_source_writes", tenant, now - timedelta(days=1))
            for what in ("drop_sealed_exchanges", "drop_sealed_retrievals"):
                dropped += await self._drop_some(what, tenant, ids, before)
            await self._drop_some("drop_import_chunks", tenant, ids, now - _CHUNKS_KEPT)
            await drop_old_events(self._database, tenant, ids, now)
            if len(ids) < _SCOPES_AT_ONCE:
                return dropped
            after = ids[-1]

    async def _drop_some(self, what: str, tenant: UUID, scope_ids: Sequence[int], before: datetime) -> int:
        """Some at a time: each is as large as a conversation, and a statement that takes too long has dropped none."""
        dropped = 0
        while True:
            async with self._database.transaction(tenant, scope_ids) as tx:
                gone = await tx.run(what, tenant, before, _SEALED_AT_ONCE)
            dropped += gone
            if gone < _SEALED_AT_ONCE:
                return dropped


async def _forgotten(tx: Transaction, place: Place, commit: Commit, digests: Digests) -> batch.Forgotten:
    """What of a commit was forgotten; what its model said with a forgotten memory before it is kept away from here on,
    since its client sends it again as history.
    """
    at = {turn.event_id: turn.occurred_at for turn in commit.turns}
    at[place.exchange_id] = commit.exchange.arrived_at
    gone = await batch.forgotten(tx, place, digests, at)
    if gone.unsaid and not gone.all_of_it:
        pairs = [pair for one in sorted(gone.unsaid) for pair in digests.items.get(one, ())]
        kinds, values = [kind for kind, _ in pairs], [value for _, value in pairs]
        await tx.run("add_tombstones", place.tenant, kinds, values, place.now)
    return gone


def _refused(scope_id: ScopeId, commit: Commit) -> Committed:
    return Committed(scope_id, 0, 0, False, len(commit.turns) + len(commit.memories))


def _injected(retrieval: SealedRetrieval | None) -> list[UUID]:
    """The memories that a request was newly given, each once, in order."""
    return sorted({one for placed in retrieval.record.placed for one in placed.new_ids}) if retrieval else []
