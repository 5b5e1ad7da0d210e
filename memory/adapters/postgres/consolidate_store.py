"""Consolidation in the store: a step and some memories in, one small transaction out.

Reads see one scope, or find out which scopes have anything to do; changes are made scope by scope, at most
ROWS_UNDER_LOCK memories at a time, under the scope's lock, where what is due is asked anew. Each change checks the
leader's fence, so of two that think they lead one changes nothing (LeaseLost), and notes its count in the same
transaction, so a run that was killed knows what it did. Plans are generic: for the ids at hand all of a scope would be
read that seems to hold as little as most do. Raises StoreUnavailable, LeaseLost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch, facts, merging, outbox, rows, weighing
from memory.adapters.postgres.blocks import withdraw_blocks
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.facts import EmbeddingQueries
from memory.adapters.postgres.leadership import Leadership, lane_of_job
from memory.adapters.postgres.leases import hold_fence
from memory.adapters.postgres.merging import Double
from memory.adapters.postgres.told_store import ToldStore, recall_months
from memory.consolidation import (
    ROWS_UNDER_LOCK,
    Changed,
    Counted,
    Due,
    Lead,
    OldSummary,
    Place,
    Progress,
    Run,
    Stands,
    Step,
    Terms,
    Window,
)
from memory.ids import new_id
from memory.model import NewMemory
from memory.stored import StoredTurn
from policies.lifetime import FIRST_SAYINGS_KEPT, LATEST_SAYINGS_KEPT, Use, review_due_at

JOB: Final = "consolidation"
_LANE: Final = lane_of_job(JOB)
RUNS_KEPT: Final = timedelta(days=90)
_SAYINGS_AT_ONCE: Final = 1_000
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
_WALKS: Final[Mapping[Step, str]] = {
    "expired": "walk_expired",
    "superseded": "walk_superseded",
    "duplicates": "walk_facts",
    "repeated": "walk_facts",
    "evidence": "walk_facts",
    "summaries": "walk_summaries",
    "episodes": "walk_told",
    "compressed": "walk_told",
    "past": "walk_told",
    "unused": "walk_memories",
    "bound": "walk_memories",
    "pruned": "walk_pruned",
    "review": "walk_facts",
}
# What their walk finds is due. (What goes before an expired memory is found under the lock.)
_CHECKED_BY_WALK: Final = frozenset({"expired"})
_DUE: Final[Mapping[Step, str]] = {
    "expired": "due_expired",
    "superseded": "due_superseded",
    "evidence": "due_evidence",
    "summaries": "due_summaries",
    "episodes": "due_episodes",
    "compressed": "due_compressed",
    "past": "due_past",
    "unused": "due_unused",
    "bound": "due_over_bound",
    "pruned": "due_pruned",
}


@dataclass(frozen=True, slots=True)
class _Task:
    """One change: where, of what, by whom."""

    tenant: UUID
    scope_id: int
    step: Step
    due: Sequence[Due]
    terms: Terms
    lead: Lead

    @property
    def ids(self) -> list[UUID]:
        return [one.memory_id for one in self.due]

    @property
    def place(self) -> rows.Place:
        return rows.Place(self.tenant, self.scope_id, self.lead.run_id, self.lead.run_id, self.terms.now)


class ConsolidateStore(ToldStore):
    """What consolidation reads and changes. `embeddings` is the table of the model in use."""

    def __init__(self, database: Database, embeddings: str) -> None:
        super().__init__(database, _LANE, database.queries["add_embedding"].of_table(embeddings))
        copy = database.queries["copy_embeddings"].of_table(embeddings)
        self._embeddings = EmbeddingQueries(self._add_embedding, copy)
        self._uses = database.queries["uses_of_memories"].of_table(embeddings)
        self._cosines = database.queries["cosines_of_pairs"].of_table(embeddings)
        self._changes: dict[Step, Callable[[Transaction, _Task], Awaitable[Changed]]] = {
            "expired": self._expire,
            "superseded": self._drop_superseded,
            "duplicates": self._merge,
            "repeated": self._weigh,
            "evidence": self._thin_evidence,
            "unused": self._prune,
            "bound": self._prune,
            "pruned": self._erase_pruned,
            "past": self._recall_months,
            "review": self._set_review,
        }

    # ------------------------------------------------------------ who runs, and how far

    async def lead(self, holder: str, ttl_s: float) -> int | None:
        """The fence of the one that consolidates, this holder; None where another does. Again: stay it."""
        return await Leadership(self._database, JOB, holder).lead(ttl_s)

    async def resign(self, holder: str) -> None:
        """Let another lead at once."""
        await Leadership(self._database, JOB, holder).resign()

    async def runs(self, limit: int, upto: datetime) -> list[Run]:
        """The latest runs that began by then, newest first."""
        async with self._database.transaction(None, read_only=True) as tx:
            return [Run(**row) for row in await tx.fetch("consolidation_runs_recent", limit, upto)]

    async def begin(self, now: datetime) -> Run:
        """A new run; old ones are dropped."""
        run = Run(new_id(), now, None, [])
        async with self._database.transaction(None) as tx:
            await tx.run("drop_consolidations", now - RUNS_KEPT)
            await tx.run("begin_consolidation", run.run_id, now)
        return run

    async def end(self, lead: Lead, now: datetime, report: Sequence[Counted]) -> None:
        """The run is done."""
        async with self._database.transaction(None) as tx:
            await hold_fence(tx, _LANE, lead.fence)
            await tx.run("end_consolidation", lead.run_id, now, [one.as_json() for one in report])

    async def progress(self, tenant: UUID, run_id: UUID) -> dict[Step, Progress]:
        """How far a run is with a tenant."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            found = await tx.fetch("consolidation_progress_of", tenant, run_id)
        return {row["step"]: _progress(row) for row in found}

    async def note(
        self,
        tenant: UUID,
        lead: Lead,
        counted: Counted,
        after: Place | None,
        finished_at: datetime | None,
        cut: list[Any] | None = None,
    ) -> None:
        """A step came so far. What was changed is noted by the changes themselves."""
        place = None if after is None else [*_packed(after), cut]
        async with self._database.transaction(tenant) as tx:
            await hold_fence(tx, _LANE, lead.fence)
            asked = (tenant, lead.run_id, counted.step, place, counted.examined, 0, counted.seconds, finished_at)
            await tx.run("note_progress", *asked)

    # ------------------------------------------------------------ what is due

    async def tenants(self) -> list[UUID]:
        """Every tenant."""
        async with self._database.transaction(None, read_only=True) as tx:
            return [row["tenant_id"] for row in await tx.fetch("all_tenants")]

    async def began_at(self) -> datetime | None:
        """When the first tenant was made; None: there is none yet."""
        async with self._database.transaction(None, read_only=True) as tx:
            began: datetime | None = await tx.value("store_began_at")
        return began

    async def scopes_after(self, tenant: UUID, scope_id: int, limit: int) -> list[int]:
        """The next scopes of a tenant, in order."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return [row["scope_id"] for row in await tx.fetch("scopes_of_tenant", tenant, scope_id, limit)]

    async def scopes_with(self, tenant: UUID, scope_ids: Sequence[int], step: Step, terms: Terms) -> list[int]:
        """Those of these scopes that hold anything the step may want, in order."""
        async with self._database.transaction(tenant, scope_ids, read_only=True) as tx:
            found = await self._walk(tx, tenant, scope_ids, step, None, 1, terms)
        return sorted(row["scope_id"] for row in found)

    async def windows(
        self, tenant: UUID, scope_ids: Sequence[int], step: Step, limit: int, terms: Terms
    ) -> dict[int, Window | None]:
        """All rows of each of these scopes, and which of them are due; None of a scope that holds `limit` or more."""
        async with self._database.transaction(tenant, scope_ids, read_only=True, generic=True) as tx:
            found = await self._walk(tx, tenant, scope_ids, step, None, limit, terms)
            held = dict[int, list[Any]]((scope_id, []) for scope_id in scope_ids)
            for row in found:
                held[row["scope_id"]].append(row)
            of = {row["memory_id"]: row["scope_id"] for row in found if len(held[row["scope_id"]]) < limit}
            due: dict[int, list[Due]] = {}
            for one in await self._due_of(tx, tenant, step, list(of), terms):
                due.setdefault(of[one.memory_id], []).append(one)
        return {
            scope_id: _window(scope_id, rows, due.get(scope_id, ())) if len(rows) < limit else None
            for scope_id, rows in held.items()
        }

    async def window(
        self, tenant: UUID, scope_id: int, step: Step, after: Place | None, limit: int, terms: Terms
    ) -> Window:
        """The next rows of a scope, at most `limit`, and which of them are due."""
        async with self._database.transaction(tenant, [scope_id], read_only=True, generic=True) as tx:
            found = await self._walk(tx, tenant, [scope_id], step, after, limit, terms)
            due = await self._due_of(tx, tenant, step, [row["memory_id"] for row in found], terms)
        return _window(scope_id, found, due)

    async def _due_of(
        self, tx: Transaction, tenant: UUID, step: Step, ids: Sequence[UUID], terms: Terms
    ) -> Sequence[Due]:
        """Which of these that a walk has found are due."""
        if not ids or step in _CHECKED_BY_WALK:
            return [Due(memory_id) for memory_id in ids]
        if step == "duplicates":
            found = await merging.doubles(tx, tenant, ids, self._cosines)
            return [Due(one.gone, kept_id=one.kept) for one in found]
        return await _due(tx, tenant, step, ids, terms, len(ids))

    async def rows_of(self, tenant: UUID, scope_ids: Sequence[int]) -> int:
        """How many memories of these scopes are not hidden."""
        async with self._database.transaction(tenant, scope_ids, read_only=True) as tx:
            found: int = await tx.value("rows_of_scopes", tenant, list(scope_ids))
        return found

    async def uses(
        self, tenant: UUID, scope_id: int, after: Place | None, limit: int, terms: Terms
    ) -> tuple[Place | None, list[tuple[Use, bool]]]:
        """The next memories of a scope that are not hidden, with whether a bound may hide them, and where they end."""
        async with self._database.transaction(tenant, [scope_id], read_only=True, generic=True) as tx:
            found = await self._walk(tx, tenant, [scope_id], "bound", after, limit, terms)
            used = await tx.fetch(self._uses, tenant, [row["memory_id"] for row in found]) if found else []
        last = max(found, key=lambda row: (row["at"], row["memory_id"]), default=None)
        end = None if last is None else Place(scope_id, last["at"], last["memory_id"])
        return end, [(Use(**{name: row[name] for name in Use.__slots__}), row["may_go"]) for row in used]

    async def _walk(
        self,
        tx: Transaction,
        tenant: UUID,
        scope_ids: Sequence[int],
        step: Step,
        after: Place | None,
        limit: int,
        terms: Terms,
    ) -> list[Any]:
        name = _WALKS[step]
        first: datetime | int = -1 if name == "walk_memories" else _FIRST
        begin = (first, UUID(int=0)) if after is None else (after.at, after.memory_id)
        before = () if name == "walk_memories" else (terms.before(step),)
        return await tx.fetch(name, tenant, list(scope_ids), *begin, limit, *before)

    # ------------------------------------------------------------ changes

    async def change(
        self,
        tenant: UUID,
        scope_id: int,
        step: Step,
        due: Sequence[Due],
        terms: Terms,
        lead: Lead,
        stands: Stands | None = None,
    ) -> Changed:
        """Change what of these memories of a scope is still due, at most ROWS_UNDER_LOCK of them. `stands`: from where
        the step goes on then, and with which cut.
        """
        task = _Task(tenant, scope_id, step, due[:ROWS_UNDER_LOCK], terms, lead)
        async with self._database.transaction(tenant, [scope_id], generic=True) as tx:
            await hold_fence(tx, _LANE, lead.fence)
            changed = await self._changes[step](tx, task)
            place = None if stands is None else [*_packed(stands[0]), stands[1]]
            await _note_change(tx, task.tenant, lead, step, changed.rows, place)
        return changed

    async def _expire(self, tx: Transaction, task: _Task) -> Changed:
        await tx.fetch("lock_sessions_of_summaries", task.tenant, task.ids)
        due = await _locked(tx, task, ROWS_UNDER_LOCK + 1)
        gone = due[:ROWS_UNDER_LOCK]
        for name in ("inherit_outdated", "keep_outdated_untold"):
            await tx.run(name, task.tenant, gone)
        await self._erase(tx, task, gone, "expired", "retention")
        return Changed(min(len(due), ROWS_UNDER_LOCK), len(due) > ROWS_UNDER_LOCK)

    async def _drop_superseded(self, tx: Transaction, task: _Task) -> Changed:
        due = await _locked(tx, task, ROWS_UNDER_LOCK)
        if due:
            await tx.run("inherit_outdated", task.tenant, due)
            await tx.run("hand_on_superseded", task.tenant, due)
        await self._erase(tx, task, due, "erased", "superseded")
        return Changed(len(due), 0 < len(due) < len(task.due))

    async def _erase_pruned(self, tx: Transaction, task: _Task) -> Changed:
        due = await _locked(tx, task, ROWS_UNDER_LOCK)
        await self._erase(tx, task, due, "erased", "pruned")
        return Changed(len(due))

    async def _erase(
        self, tx: Transaction, task: _Task, ids: Sequence[UUID], what: outbox.Happening, reason: str
    ) -> None:
        if not ids:
            return
        told: Mapping[UUID, outbox.Labels] = {one: {"reason": reason} for one in ids}
        await outbox.announce_events(tx, task.place, what, ids, metadata=told)
        await withdraw_blocks(tx, task.tenant, task.scope_id, ids, task.terms.now)
        for name in ("keep_untold", "unlink_summaries", "drop_derivations", "drop_entities_of", "erase_memories"):
            await tx.run(name, task.tenant, ids)

    async def _merge(self, tx: Transaction, task: _Task) -> Changed:
        """Under the scope's lock, so that nobody says, corrects or hides any of these meanwhile."""
        await tx.row("lock_scope", task.tenant, task.scope_id)
        asked = [Double(one.memory_id, one.kept_id) for one in task.due if one.kept_id is not None]
        pairs = await merging.still_doubles(tx, task.tenant, asked, self._cosines)
        if pairs:
            version: int = await tx.value("bump_scope", task.tenant, task.scope_id)
            await merging.merge(tx, task.place, pairs, changed_version=version, embeddings=self._embeddings)
        return Changed(len(pairs))

    async def _weigh(self, tx: Transaction, task: _Task) -> Changed:
        await tx.row("lock_scope", task.tenant, task.scope_id)
        return Changed(await weighing.weigh(tx, task.place, task.ids, self._embeddings))

    async def _prune(self, tx: Transaction, task: _Task) -> Changed:
        due = await _locked(tx, task, ROWS_UNDER_LOCK)
        if not due:
            return Changed(0)
        reason = "never used" if task.step == "unused" else "over the bound"
        version: int = await tx.value("bump_scope", task.tenant, task.scope_id)
        await tx.run("prune_memories", task.tenant, due, task.terms.now, reason, version)
        told: Mapping[UUID, outbox.Labels] = {one: {"reason": reason.replace(" ", "_")} for one in due}
        await outbox.announce_events(tx, task.place, "deleted", due, metadata=told)
        await facts.resettle(tx, task.place, due, changed_version=version, embeddings=self._embeddings)
        return Changed(len(due))

    async def _recall_months(self, tx: Transaction, task: _Task) -> Changed:
        due = await _locked(tx, task, ROWS_UNDER_LOCK)
        await recall_months(tx, task.place, due)
        return Changed(len(due))

    async def _thin_evidence(self, tx: Transaction, task: _Task) -> Changed:
        """Without the scope's lock: what ruling reads is not touched, whoever rules meanwhile."""
        gone, more = 0, False
        bounds = (FIRST_SAYINGS_KEPT, LATEST_SAYINGS_KEPT)
        for memory_id in task.ids:
            thinned = await tx.run("thin_sayings", task.tenant, memory_id, *bounds, _SAYINGS_AT_ONCE - gone)
            gone += thinned
            if gone >= _SAYINGS_AT_ONCE:
                more = True
                break
        return Changed(gone, more)

    async def _set_review(self, tx: Transaction, task: _Task) -> Changed:
        await tx.row("lock_scope", task.tenant, task.scope_id)
        set_now = await tx.fetch("set_review", task.tenant, task.ids, [one.review_at for one in task.due])
        return Changed(len(set_now))

    # ------------------------------------------------------------ summaries

    async def old_summary(self, tenant: UUID, scope_id: int, memory_id: UUID) -> OldSummary | None:
        """A session's summary as it stands; None where it is the session's no more."""
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            row = await tx.row("summary_to_rebuild", tenant, memory_id)
        return None if row is None else OldSummary(memory_id, scope_id, **row)

    async def summarised_turns(self, tenant: UUID, old: OldSummary, seq: int, limit: int) -> list[StoredTurn]:
        """The turns from `seq` on that the summary is of, at most `limit`, also those that are not to be shown."""
        async with self._database.transaction(tenant, [old.scope_id], read_only=True) as tx:
            found = await tx.fetch("turns_since", tenant, old.scope_id, old.session_id, seq, limit)
        return [StoredTurn(**row) for row in found if row["seq"] < old.summarised_seq]

    async def turns_not_shown(self, tenant: UUID, old: OldSummary) -> frozenset[UUID]:
        """Turns of the session whose memory its owner hid or rejected."""
        async with self._database.transaction(tenant, [old.scope_id], read_only=True) as tx:
            found = await tx.fetch("turns_not_shown", tenant, old.session_id)
        return frozenset(row["event_id"] for row in found)

    async def put_rebuilt(
        self, tenant: UUID, old: OldSummary, memory: NewMemory | None, terms: Terms, lead: Lead
    ) -> int:
        """Put a new version in the place of a summary, or erase it where nothing is left (None). Returns how many: none
        where the summary went on meanwhile, or a turn that it tells may not be told any more, or under a higher label.
        """
        task = _Task(tenant, old.scope_id, "summaries", [Due(old.memory_id)], terms, lead)
        async with self._database.transaction(tenant, [old.scope_id], generic=True) as tx:
            await hold_fence(tx, _LANE, lead.fence)
            session = await tx.row("lock_session_by_id", tenant, old.session_id)
            await tx.row("lock_scope", tenant, old.scope_id)  # nobody hides anything from here on
            known = await tx.row("current_version_of", tenant, old.memory_id)
            if session is None or session["summary_memory_id"] != old.memory_id or known is None:
                return 0
            if known["changed_version"] != old.changed_version:  # one made anew behind an erasure counts from 1 again
                return 0
            if memory is None:
                await self._erase(tx, task, [old.memory_id], "erased", "nothing_left")
            elif not await batch.may_be_told(tx, tenant, memory):
                return 0
            else:
                version: int = await tx.value("bump_scope", tenant, old.scope_id)
                await tx.run("drop_derivations", tenant, [old.memory_id])
                if known["withdrawn"]:
                    await tx.run("hide_memory", tenant, old.memory_id, None, version)
                    await outbox.announce_events(tx, task.place, "restored", [old.memory_id])
                await batch.replace_memories(
                    tx,
                    task.place,
                    [(old.memory_id, old.version + 1, batch.as_judged(memory, known["validation_status"]))],
                    event_of={},
                    changed_version=version,
                    embeddings=self._add_embedding,
                )
            await _note_change(tx, tenant, lead, "summaries", 1)
        return 1


def _window(scope_id: int, found: Sequence[Any], due: Sequence[Due]) -> Window:
    last = max(found, key=lambda row: (row["at"], row["memory_id"]), default=None)
    return Window(len(found), tuple(due), None if last is None else Place(scope_id, last["at"], last["memory_id"]))


async def _locked(tx: Transaction, task: _Task, limit: int) -> list[UUID]:
    """What is due now that nobody else writes to the scope."""
    await tx.row("lock_scope", task.tenant, task.scope_id)
    besides = task.ids if task.step == "superseded" else ()
    due = await _due(tx, task.tenant, task.step, task.ids, task.terms, limit, besides)
    return [one.memory_id for one in due]


async def _due(
    tx: Transaction,
    tenant: UUID,
    step: Step,
    ids: Sequence[UUID],
    terms: Terms,
    limit: int,
    besides: Sequence[UUID] = (),
) -> list[Due]:
    """`besides`: a superseded fact waits while one of these has taken its place."""
    if step == "review":
        return _to_review(await tx.fetch("due_review", tenant, ids), terms)
    if step == "repeated":
        return [Due(row["memory_id"]) for row in await weighing.to_weigh(tx, tenant, ids)]
    asked: tuple[Any, ...] = (tenant, ids, terms.before(step), limit)
    if step == "superseded":
        asked = (*asked, besides)
    found = await tx.fetch(_DUE[step], *asked)
    return [Due(row["memory_id"]) for row in found]


def _to_review(found: Sequence[Any], terms: Terms) -> list[Due]:
    """Those whose mark is to change: due by now and not marked so, or marked and not due any more."""
    changes: list[Due] = []
    for row in found:
        due_at = review_due_at(row["category"], row["seen_at"], terms.review_days)
        wanted = due_at if due_at is not None and due_at <= terms.now else None
        if wanted != row["review_due_at"]:
            changes.append(Due(row["memory_id"], wanted))
    return changes


async def _note_change(
    tx: Transaction, tenant: UUID, lead: Lead, step: Step, count: int, place: list[Any] | None = None
) -> None:
    if count:
        await tx.run("note_progress", tenant, lead.run_id, step, place, 0, count, 0.0, None)


def _packed(place: Place) -> list[Any]:
    at = place.at.isoformat() if isinstance(place.at, datetime) else place.at
    return [place.scope_id, at, str(place.memory_id)]


def _progress(row: Any) -> Progress:
    counted = Counted(row["step"], row["examined"], row["changed"], row["seconds"])
    place, cut = None, None
    if row["after"] is not None:
        scope_id, at, memory_id, *rest = row["after"]
        cut = rest[0] if rest else None
        place = Place(scope_id, datetime.fromisoformat(at) if isinstance(at, str) else at, UUID(memory_id))
    return Progress(counted, place, row["finished_at"] is not None, cut)
