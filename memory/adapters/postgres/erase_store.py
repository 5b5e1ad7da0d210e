"""Erasure in the store: a target in, what it comes to; and that taken away, in one transaction.

`plan` only reads. `mark` writes tombstones, so that nothing comes in behind; `settled` (erase_jobs) says when all that
began before they were to be seen has ended. `delete` follows what was derived, by the catalogue of tables, so a new
table is not left out; what other sources still support is noted to be made anew. Each is safe to do again. Raises
StoreUnavailable, LeaseLost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import facts, outbox, procedures
from memory.adapters.postgres.blocks import SCOPES_AT_ONCE, SESSIONS_AT_ONCE, placed_since, some_of
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.erase_jobs import IDS_AT_ONCE, LANE, EraseJobs, Tombstone, keep_away, note_items
from memory.adapters.postgres.erase_older import erase_bare, plan_until
from memory.adapters.postgres.erase_tokens import drop_unsaid
from memory.adapters.postgres.facts import EmbeddingQueries
from memory.adapters.postgres.leases import hold_fence
from memory.adapters.postgres.rows import Place
from memory.erasure.model import ID_BYTES, WHOLE, GoneTurn, Items, Job, Labelled, Named, Plan, Target, added
from memory.errors import StoreUnavailable
from memory.ids import id_in
from memory.off_loop import off_loop
from memory.write.tombstones import called

_PAGE_ROWS: Final = 2_000
_ROUNDS_MAX: Final = 8  # two as a rule: until the locks are had, and behind them
Marks = Callable[[Iterable[UUID]], Sequence[Tombstone]]


class EraseStore(EraseJobs):
    """What erasure reads and takes away. `embeddings` is the table of the model in use."""

    def __init__(self, database: Database, embeddings: str) -> None:
        super().__init__(database)
        add = database.queries["add_embedding"].of_table(embeddings)
        self.embeddings = EmbeddingQueries(add, database.queries["copy_embeddings"].of_table(embeddings))

    async def scopes(self, tenant: UUID) -> list[Named]:
        """Every scope of a tenant with its names: 50,000 hold an event loop for .1 s, so no request asks for them."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return [_named(row) for row in await tx.fetch("all_scopes", tenant)]

    async def scope_ids(self, tenant: UUID) -> list[int]:
        """The ids of every scope of a tenant."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            found: list[int] = await tx.value("all_scope_ids", tenant)
        return found

    async def scopes_named(self, tenant: UUID, *, user: str | None = None, project: str | None = None) -> list[Named]:
        """The scopes of a user, or of a project."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return [_named(row) for row in await tx.fetch("scopes_named", tenant, user, project)]

    async def scopes_by_id(self, tenant: UUID, scope_ids: Collection[int]) -> list[Named]:
        """Those of these scopes that are there."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return [_named(row) for row in await tx.fetch("scopes_by_id", tenant, list(scope_ids))]

    async def labels(self, tenant: UUID, scopes: Sequence[int]) -> list[tuple[UUID, int, str]]:
        """The conversations of these scopes: id, scope, label."""
        async with self._database.transaction(tenant, scopes, read_only=True) as tx:
            found = await tx.fetch("labels_of_scopes", tenant, list(scopes))
        return [(row["session_id"], row["scope_id"], row["label"]) for row in found]

    # ------------------------------------------------------------ what is meant

    async def plan(self, target: Target) -> Plan:
        """What this target comes to now; an empty plan where there is nothing of it."""
        tenant = target.scope.tenant
        user = target.value if target.kind == "user" else target.scope.user
        is_of = {"project": target.value} if target.kind == "project" else {"user": user}
        about = await self.scopes_named(tenant, **is_of)
        everything = _first_of(await self.scope_ids(tenant), [one.scope_id for one in about])
        async with self._database.transaction(tenant, everything, read_only=True) as tx:
            if target.until is not None and target.kind == "query":
                return await plan_until(tx, target, Plan(), target.until)  # its ids say all
            meant = await (_whole(tx, target, about) if target.kind in WHOLE else _named_part(tx, target))
            if target.until is None:
                return meant
            await tx.see(tenant, everything)
            return await plan_until(tx, target, meant, target.until)

    async def turns(
        self, tenant: UUID, scopes: Sequence[int], sessions: Sequence[UUID], events: Sequence[UUID], see: Sequence[int]
    ) -> AsyncIterator[list[GoneTurn]]:
        """Turns of these scopes, of sessions beside them and these themselves, in batches; `see`: the scopes that those
        beside lie in. Which they are is asked once: looked for page by page, all of a scope was sorted for each.
        """
        async for seen, of in self._turns_gone(tenant, scopes, sessions, events, see):
            for some in some_of(list(of), _PAGE_ROWS):
                async with self._database.transaction(tenant, seen, read_only=True) as tx:
                    found = await tx.fetch("turns_to_erase", tenant, some)
                if found:
                    yield [_turn(row) for row in found]

    async def turns_named(
        self, tenant: UUID, scopes: Sequence[int], sessions: Sequence[UUID], events: Sequence[UUID], see: Sequence[int]
    ) -> AsyncIterator[dict[UUID, int]]:
        """The same turns without their words, in batches: the scope of each."""
        async for _, of in self._turns_gone(tenant, scopes, sessions, events, see):
            yield of

    async def _turns_gone(
        self, tenant: UUID, scopes: Sequence[int], sessions: Sequence[UUID], events: Sequence[UUID], see: Sequence[int]
    ) -> AsyncIterator[tuple[Sequence[int], dict[UUID, int]]]:
        asked = [(list(some), list[UUID](), list[UUID](), some) for some in some_of(scopes, SCOPES_AT_ONCE)]
        for *wanted, seen in [*asked, (list[int](), list(sessions), list(events), see)]:
            if any(wanted):
                async with self._database.transaction(tenant, seen, read_only=True) as tx:
                    found = await tx.fetch("turns_gone", tenant, *wanted)
                yield seen, {row["event_id"]: row["scope_id"] for row in found}

    async def own_ids(self, tenant: UUID, scopes: Sequence[int]) -> AsyncIterator[list[tuple[UUID, int, datetime]]]:
        """The memories of these scopes whose ids are theirs alone: id, scope, since when; in batches."""
        for some in some_of(scopes, SCOPES_AT_ONCE):
            batch: list[tuple[UUID, int, datetime]] = []
            async with self._database.transaction(tenant, some, read_only=True) as tx:
                async for row in tx.stream("own_ids", tenant, list(some)):
                    batch.append((row["memory_id"], row["scope_id"], row["created_at"]))
                    if len(batch) == _PAGE_ROWS:
                        yield batch
                        batch = []
            if batch:
                yield batch

    async def reach(self, plan: Plan, tenant: UUID, events: Mapping[UUID, int]) -> dict[UUID, int]:
        """Every memory that a plan takes, with these turns, and its scope; copies that others are shown among them."""
        everything = _first_of(await self.scope_ids(tenant), plan.touched)
        whole = frozenset(plan.scope_ids)
        beside = await off_loop(len(events) * ID_BYTES, partial(_beside, events, whole))
        async with self._database.transaction(tenant, everything, read_only=True) as tx:
            await tx.run("plan_each_time")
            inside = {row["memory_id"]: row["scope_id"] async for row in _of_whole(tx, tenant, plan.scope_ids)}
            first = beside | await _made_elsewhere(tx, tenant, [*events, *inside], everything, whole)
            first |= {row["memory_id"] for row in await tx.fetch("memories_of_sessions", tenant, plan.sessions_beside)}
            taken = await _taken_along(tx, tenant, first | plan.memories.keys())
            taken = await _told_again(tx, tenant, taken)
        return await off_loop((len(inside) + len(taken)) * ID_BYTES, partial(_by_id, inside, taken))

    async def labelled(
        self, tenant: UUID, see: Sequence[int], ids: Sequence[UUID], sessions: Sequence[UUID]
    ) -> list[Labelled]:
        """How these memories and turns are labelled now, and what these conversations hold of each label."""
        async with self._database.transaction(tenant, see, read_only=True) as tx:
            found = await tx.fetch("labels_to_erase", tenant, list(ids), list(sessions))
        return [Labelled(row["kind"], row["item_id"], row["sensitivity"], row["session_id"]) for row in found]

    async def said_by(self, tenant: UUID, memories: Mapping[UUID, int]) -> AsyncIterator[list[tuple[UUID, str, bool]]]:
        """All that these memories have ever said, each with whether no turn says it, in batches; by the scopes that
        they lie in.
        """
        for some in some_of(sorted(memories, key=memories.__getitem__), IDS_AT_ONCE):
            async with self._database.transaction(tenant, {memories[one] for one in some}, read_only=True) as tx:
                found = await tx.fetch("versions_to_erase", tenant, list(some))
            yield [(row["memory_id"], row["content"], row["own"]) for row in found]

    async def answers_given(
        self, tenant: UUID, see: Sequence[int], memories: Mapping[UUID, int]
    ) -> list[tuple[UUID, int, str]]:
        """Answers to requests that were given one of these memories, by the scopes that they lie in, with their own."""
        found: list[Any] = []
        ids = [str(one) for one in memories]
        async with self._database.transaction(tenant, see, read_only=True) as tx:
            sessions, since = await _given_to(tx, tenant, list(memories), set(memories.values()), frozenset(see))
            for some in some_of(sessions, SESSIONS_AT_ONCE):
                found += await tx.fetch("answers_given", tenant, some, ids, since)
        return [(row["event_id"], row["scope_id"], row["content"]) for row in found]

    async def said_beside(
        self, tenant: UUID, see: Sequence[int], events: Sequence[UUID]
    ) -> list[tuple[UUID, int, str, bool]]:
        """What is said in the conversations of these turns, with its scope; and whether it is an answer that stands
        behind the first of them that no model said. What models said before that is left out.
        """
        found: list[Any] = []
        async with self._database.transaction(tenant, see, read_only=True) as tx:
            for some in some_of(events, IDS_AT_ONCE):
                found += await tx.fetch("said_beside", tenant, list(some))
        said = [(row, row["role"] == "assistant") for row in found]
        return [
            (row["event_id"], row["scope_id"], row["content"], answers)
            for row, answers in said
            if row["behind"] or not answers
        ]

    # ------------------------------------------------------------ marking

    async def mark(
        self, job: Job, plan: Plan, tombstones: Sequence[Tombstone], subject: UUID | None, now: datetime, fence: int
    ) -> None:
        """Write down what goes and what keeps it away, retire the subject's keys."""
        tenant = job.tenant_id
        rows = [("scope", _with_key(one.scope_id, plan.hot), one.scope_id) for one in plan.scopes]
        rows += [("session", str(one), scope) for one, (scope, _) in plan.sessions.items()]
        rows += [("turn", str(one), scope) for one, scope in plan.turns.items()]
        rows += [("memory", str(one), scope) for one, scope in plan.memories.items()]
        async with self._database.transaction(tenant) as tx:
            await hold_fence(tx, LANE, fence)
            await keep_away(tx, tenant, tombstones, job.requested_at)
            if subject is not None:
                await tx.fetch("retire_keys", tenant, subject, now)
                keys = await tx.fetch("keys_retired", tenant, subject)
                rows += [("key", str(row["key_id"]), 0) for row in keys]
            await note_items(tx, job, rows)
            await tx.run("advance_erasure", tenant, job.erasure_id, "marked", job.counts)

    async def mark_more(self, job: Job, turns: Mapping[UUID, int], tombstones: Sequence[Tombstone], fence: int) -> None:
        """Turns that go too, and what keeps them away."""
        async with self._database.transaction(job.tenant_id) as tx:
            await hold_fence(tx, LANE, fence)
            await keep_away(tx, job.tenant_id, tombstones, job.requested_at)
            await note_items(tx, job, [("turn", str(one), scope) for one, scope in turns.items()])

    # ------------------------------------------------------------ taking it away

    async def delete(
        self, job: Job, items: Items, target: Target, marks: Marks, now: datetime, fence: int
    ) -> dict[str, Any]:
        """Take it away with all that was made of it, and keep that away: `marks` has the tombstones of memories that
        none was made for. Of a user the name goes too. Rows by table.
        """
        everything = _first_of(await self.scope_ids(job.tenant_id), items.touched())
        async with self._database.transaction(job.tenant_id, everything) as tx:
            await hold_fence(tx, LANE, fence)
            await tx.run("plan_each_time")
            counts = Counter(await _Deletion(tx, job, items, self.embeddings, marks, now, everything).run())
            if target.until is not None:
                await tx.see(job.tenant_id, everything)
                counts.update(await erase_bare(tx, target, items, target.until))
            if target.kind == "user":
                counts["subjects"] = await tx.run("erase_subject", job.tenant_id, target.value)
            total = added(job.counts, {name: value for name, value in counts.items() if value})
            await tx.run("advance_erasure", job.tenant_id, job.erasure_id, "deleted", total)
        return total

    async def shred(self, job: Job, keys: Sequence[UUID], now: datetime) -> None:
        """Nothing that these keys sealed can be read again."""
        async with self._database.transaction(job.tenant_id) as tx:
            await tx.run("shred_keys", job.tenant_id, list(keys), now)

    async def drop_unsaid_tokens(self, job: Job) -> int:
        """Drop what stands behind tokens that no text holds any more of those of whom something went. How many."""
        touched, named = set((await self.items(job)).touched()), await self.scopes(job.tenant_id)
        dropped, theirs = 0, dict[str, list[int]]()
        for one in named:
            theirs.setdefault(one.user, []).append(one.scope_id)
        for user in sorted({one.user for one in named if one.scope_id in touched}):
            dropped += await drop_unsaid(self._database, job.tenant_id, theirs[user])
        return dropped

    async def rotate_salt(self, job: Job, now: datetime, before: datetime, fence: int) -> Job:
        """Another prefix cache for the tenant, unless it got one after `before`. The job, in which it is counted."""
        async with self._database.transaction(job.tenant_id) as tx:
            await hold_fence(tx, LANE, fence)
            if await tx.value("rotate_salt", job.tenant_id, now, before) is not None:
                job = replace(job, counts=added(job.counts, {"cache_salt_rotated": 1}))
                await tx.run("advance_erasure", job.tenant_id, job.erasure_id, job.step, job.counts)
        return job


class _Deletion:
    """One deletion inside its transaction. Locks in everybody's order: sessions by label, scopes, memories."""

    def __init__(
        self,
        tx: Transaction,
        job: Job,
        items: Items,
        embeddings: EmbeddingQueries,
        marks: Marks,
        now: datetime,
        everything: Sequence[int],
    ) -> None:
        self._tx = tx
        self._job = job
        self._tenant = job.tenant_id
        self._items = items
        self._whole = frozenset(items.scope_ids())
        self._embeddings = embeddings
        self._marks = marks
        self._now = now
        self._everything = everything  # every scope of the tenant
        self._counts: Counter[str] = Counter()
        self._gone: list[tuple[str, str, int]] = []

    async def run(self) -> dict[str, int]:
        """All of it."""
        tx, tenant, items = self._tx, self._tenant, self._items
        scopes, sessions, turns = items.scope_ids(), items.ids("session"), items.ids("turn")
        gone_turns = await self._turns(scopes, items.sessions_beside(), turns)
        partly = {row["session_id"] for row in gone_turns if row["scope_id"] not in self._whole} - set(sessions)
        made, held, versions = await self._locked(partly)
        others = {one: row for one, row in made.items() if row["scope_id"] not in self._whole}
        touched = sorted({*items.touched(), *(row["scope_id"] for row in others.values())})
        await tx.see(tenant, touched)  # what goes lies here; whoever was given it anywhere
        await keep_away(tx, tenant, self._marks(made), self._job.requested_at)
        await self._note_survivors(list(made), [row["event_id"] for row in gone_turns], held, set(sessions), made)
        await self._let_go(others, versions)
        await tx.see(tenant, self._everything)
        await self._retrievals(made, partly)
        await tx.run("forget_where_shown", tenant, sessions)
        await tx.see(tenant, touched)
        await tx.run("unname_successors", tenant, list(made))
        stay = sorted(set(touched) - set(scopes))  # of the others the feed goes whole
        await tx.run("unname_events", tenant, stay, [str(one) for one in made])
        if scopes:  # before what they are copies of, with which a trigger takes what is left of them, uncounted
            await self._rows("memory_id", list(others))
        # Each has rows in a dozen tables. Those of records go with them: what hangs on a record would not be counted.
        plain = [row for one, row in made.items() if one not in others and row["collection"] == "default"]
        for some in some_of(sorted(plain, key=lambda row: row["scope_id"]), IDS_AT_ONCE):
            await tx.see(tenant, {row["scope_id"] for row in some})
            await self._rows("memory_id", [row["memory_id"] for row in some])
        for some in some_of(scopes, SCOPES_AT_ONCE):
            await tx.see(tenant, some)
            await self._rows("scope_id", some)
        await tx.see(tenant, stay)
        all_gone = [*made, *(row["event_id"] for row in gone_turns)] if stay else []
        for some in some_of(all_gone, IDS_AT_ONCE):
            self._counts["derivations"] += await tx.run("erase_derivations", tenant, some)
        await tx.see(tenant, touched)
        if not scopes:
            await self._rows("memory_id", list(others))
        single = [row for row in gone_turns if row["scope_id"] not in self._whole]
        nodes = ([row["session_id"] for row in single], [row["chain"] for row in single])
        self._counts["ledger"] += await tx.run("erase_nodes", tenant, *nodes)
        await self._rows("event_id", [row["event_id"] for row in single])
        await self._rows("session_id", sessions)
        if any(row["kind"] == "document" for row in others.values()):
            self._counts["documents"] += len(await tx.fetch("erase_empty_documents", tenant, touched))
        await self._empty(partly)
        self._counts["entities"] += await tx.run("drop_nameless_entities", tenant, touched)
        self._gone += [("turn", str(row["event_id"]), row["scope_id"]) for row in gone_turns]
        self._gone += [("memory", str(one), row["scope_id"]) for one, row in made.items() if _is_new(row)]
        await note_items(tx, self._job, self._gone)
        return dict(self._counts)

    async def _locked(self, partly: set[UUID]) -> tuple[dict[UUID, Any], list[Any], dict[int, int]]:
        """Every memory that goes, the sessions and the new versions of the scopes, now that nobody adds to it: who
        makes something of a turn looks behind one of these locks whether it is there. What was made until they were had
        goes too, and has more to be locked where it lies elsewhere; of two who then wait for each other one comes
        again. Raises StoreUnavailable where it does not end.
        """
        scopes, sessions = self._items.scope_ids(), self._items.ids("session")
        wanted = (set[UUID]({*partly, *sessions}), set[int](self._items.touched()))
        had = (set[UUID](), set[int]())
        held, versions = list[Any](), dict[int, int]()
        for _ in range(_ROUNDS_MAX):
            made = await self._made(scopes, self._items.sessions_beside(), self._items.ids("turn"))
            others = [row for row in made.values() if row["scope_id"] not in self._whole]
            wanted[0].update(row["session_id"] for row in others if row["session_id"] is not None)
            wanted[1].update(row["scope_id"] for row in others)
            if wanted == had:
                return made, held, versions
            held += await self._tx.fetch("lock_sessions", self._tenant, sorted(wanted[0] - had[0], key=str))
            found = await self._tx.fetch("lock_scopes", self._tenant, sorted(wanted[1] - had[1]))
            versions |= {row["scope_id"]: row["version"] for row in found}
            had = (set(wanted[0]), set(wanted[1]))
        raise StoreUnavailable("more is made of what is forgotten than can be locked")

    async def _made(self, scopes: list[int], sessions: list[UUID], turns: list[UUID]) -> dict[UUID, Any]:
        """Every memory that goes, with what it is: of these scopes and sessions, and made of any of it."""
        tx, tenant = self._tx, self._tenant
        taken = {row["memory_id"]: row async for row in _of_whole(tx, tenant, scopes)}
        said = [row["event_id"] for row in await self._turns(scopes, [], [])]
        first = await _made_elsewhere(tx, tenant, [*said, *taken], self._everything, self._whole)
        first |= {*turns, *self._items.ids("memory")}
        first |= {row["memory_id"] for row in await tx.fetch("memories_of_sessions", tenant, sessions)}
        first |= {row["event_id"] for row in await self._turns([], sessions, [])}
        taken |= await _taken_along(tx, tenant, first)
        return await _told_again(tx, tenant, taken)

    async def _turns(self, scopes: list[int], sessions: list[UUID], turns: list[UUID]) -> list[Any]:
        """Where the turns stand that go; all scopes are seen behind it."""
        tx, tenant, found = self._tx, self._tenant, list[Any]()
        for some in some_of(scopes, SCOPES_AT_ONCE):
            await tx.see(tenant, some)
            found += await tx.fetch("turns_gone", tenant, some, [], [])
        if scopes:
            await tx.see(tenant, self._everything)
        if sessions or turns:
            found += await tx.fetch("turns_gone", tenant, [], sessions, turns)
        return found

    async def _note_survivors(
        self, made: list[UUID], turns: list[UUID], held: Sequence[Any], whole: set[UUID], rows: Mapping[UUID, Any]
    ) -> None:
        """What has other sources is made anew: facts from their other turns, summaries and episodes from those left.
        Not what a person hid or rejected; its turns stay untold.
        """
        others = [one for one in made if rows[one]["scope_id"] not in self._whole]
        await self._tx.run("keep_untold", self._tenant, others)
        learnt = [one for one in made if rows[one]["kind"] in ("semantic", "procedural")]
        left = [
            row
            for some in some_of(learnt, IDS_AT_ONCE)
            for row in await self._tx.fetch("survivors", self._tenant, some, turns)
        ]
        stay = [row for row in left if row["scope_id"] not in self._whole]
        self._gone += [("learn", str(row["event_id"]), row["scope_id"]) for row in stay]
        here = [row for row in held if row["session_id"] not in whole and row["scope_id"] not in self._whole]
        summed = [row for row in here if row["summary_memory_id"] in rows]
        self._gone += [("summary", f"{row['session_id']}:{row['summarised_seq']}", row["scope_id"]) for row in summed]
        await self._tx.run("sum_up_again", self._tenant, [row["session_id"] for row in summed])
        told = {row["session_id"] for row in rows.values() if row["collection"] in ("episode", "past")}
        again = [row["session_id"] for row in here if row["session_id"] in told]
        await self._tx.run("tell_again", self._tenant, again)
        await self._tx.run("uncompress", self._tenant, made)

    async def _let_go(self, others: Mapping[UUID, Any], versions: Mapping[int, int]) -> None:
        """Tell the feed, and settle what these facts and procedures stood against, before their rows go."""
        for scope_id in {row["scope_id"] for row in others.values()}:
            ids = [one for one, row in others.items() if row["scope_id"] == scope_id]
            place = Place(self._tenant, scope_id, self._job.erasure_id, self._job.erasure_id, self._now)
            version = versions[scope_id]
            hidden = ((self._tenant, one, self._now, version) for one in ids)
            await self._tx.run_many("hide_memory", hidden)
            behind = [row["memory_id"] for row in await self._tx.fetch("stood_behind", self._tenant, ids)]
            about = [*ids, *behind]  # of what is no fact any more, nothing but these says what it was about
            await facts.resettle(self._tx, place, about, changed_version=version, embeddings=self._embeddings)
            await procedures.resettle(self._tx, place, ids, changed_version=version, embeddings=self._embeddings)
            await self._tx.run("stand_behind_none", self._tenant, ids, version)
            await outbox.announce_events(self._tx, place, "erased", ids)
            await self._tx.run("bare_events", self._tenant, [scope_id], ids)

    async def _retrievals(self, made: Mapping[UUID, Any], partly: set[UUID]) -> None:
        tx, tenant = self._tx, self._tenant
        given = await self._unnamed(made)
        self._counts["retrievals_unnamed"] += len(given)
        sessions, retrievals = sorted({row["session_id"] for row in given}), [row["retrieval_id"] for row in given]
        await tx.run("withdraw_nodes", tenant, sessions, retrievals, self._now)
        exchanges = [row["exchange_id"] for row in given]
        await tx.run("unseal_these", tenant, exchanges)
        await tx.run("unseal_told_from", tenant, exchanges)
        await tx.run("unseal_retrievals", tenant, list(partly))
        self._counts["exchanges_unsealed"] += await tx.run("unseal_exchanges", tenant, list(partly))

    async def _unnamed(self, made: Mapping[UUID, Any]) -> list[Any]:
        """The retrievals of conversations that stay and were given any of these: they name it no more. Nor do those
        that named it only as what says another later. Looked for where the scopes that it lies in are seen: all of
        a tenant's are millions.
        """
        tx, tenant = self._tx, self._tenant
        stay = frozenset(self._everything) - set(self._items.scope_ids())
        lies: dict[int, list[UUID]] = {}
        for one, row in made.items():
            lies.setdefault(row["scope_id"], []).append(one)
        found: list[Any] = []
        readers = {row["scope_id"] for row in await tx.fetch("scopes_that_see", tenant, list(lies))}
        if not readers & stay:
            return found
        for scope_id, ids in sorted(lies.items()):
            sessions, since = await _given_to(tx, tenant, ids, {scope_id}, stay)
            for some in some_of(sessions, SESSIONS_AT_ONCE):
                named = await tx.fetch("unname_retrievals", tenant, some, [str(one) for one in ids], since)
                found += [row for row in named if row["given"]]
        return found

    async def _empty(self, partly: set[UUID]) -> None:
        """Exchanges and conversations that nothing is left of."""
        rows = await self._tx.fetch("erase_empty_exchanges", self._tenant, list(partly))
        self._counts["exchanges"] += len(rows)
        left = {row["session_id"] for row in await self._turns([], list(partly), [])} if partly else set()
        await self._rows("session_id", [one for one in partly if one not in left])

    async def _rows(self, member: str, values: Sequence[UUID | int]) -> None:
        if values:
            await self._tx.run("plan_as_usual")
            found = await self._tx.value("erase_rows", self._tenant, member, [str(one) for one in values])
            await self._tx.run("plan_each_time")
            self._counts.update({name: int(count) for name, count in found.items()})


async def _taken_along(tx: Transaction, tenant: UUID, first: Iterable[UUID]) -> dict[UUID, Any]:
    """These memories, all that was made of them, and what was said by hand of those whose names go with them."""
    taken: dict[UUID, Any] = {}
    more = list(first)
    while more:
        for some in some_of(more, IDS_AT_ONCE):
            taken |= {row["memory_id"]: row for row in await tx.fetch("made_of", tenant, some)}
        more = [row["memory_id"] for row in await tx.fetch("ties_of_gone", tenant, list(taken))]
    return taken


async def _of_whole(tx: Transaction, tenant: UUID, scopes: Sequence[int]) -> AsyncIterator[Any]:
    """Every memory of scopes that go whole. What was made of it there, or is tied to it there, is among them: it need
    not be followed, which of 50,000 users took three fifths of a dry run.
    """
    for some in some_of(scopes, SCOPES_AT_ONCE):
        await tx.see(tenant, some)
        for row in await tx.fetch("memories_of_scopes", tenant, some):
            yield row


async def _made_elsewhere(
    tx: Transaction, tenant: UUID, ids: Sequence[UUID], everything: Sequence[int], whole: Set[int]
) -> set[UUID]:
    """What was made of these, of scopes that go whole, in those that stay; every scope is seen behind it."""
    made: set[UUID] = set()
    if whole and (stay := [one for one in everything if one not in whole]):
        await tx.see(tenant, stay)
        for some in some_of(ids, IDS_AT_ONCE):
            made |= {row["derived_id"] for row in await tx.fetch("made_elsewhere", tenant, some)}
    await tx.see(tenant, everything)
    return made


def _by_id(inside: Mapping[UUID, int], taken: Mapping[UUID, Any]) -> dict[UUID, int]:
    found = {**inside} | {one: row["scope_id"] for one, row in taken.items()}
    return {one: found[one] for one in sorted(found, key=attrgetter("int"))}


def _beside(events: Mapping[UUID, int], whole: Set[int]) -> set[UUID]:
    """Turns of scopes that stay."""
    return {one for one, scope_id in events.items() if scope_id not in whole}


def _told(made: Mapping[UUID, Any]) -> set[UUID | None]:
    """The conversations that these have episodes of."""
    return {row["session_id"] for row in made.values() if row["collection"] in ("episode", "past")}


async def _told_again(tx: Transaction, tenant: UUID, made: dict[UUID, Any]) -> dict[UUID, Any]:
    """These memories, and all other episodes of the conversations of which they have one: all are told again."""
    again = await off_loop(len(made) * ID_BYTES, partial(_told, made))
    more = await tx.fetch("told_of_sessions", tenant, sorted(one for one in again if one is not None))
    extra = {row["memory_id"] for row in more} - made.keys()
    return made | await _taken_along(tx, tenant, extra) if extra else made


async def _given_to(
    tx: Transaction, tenant: UUID, memory_ids: Sequence[UUID], scope_ids: Set[int], among: Set[int]
) -> tuple[list[UUID], datetime | None]:
    """The conversations that these memories of these scopes may have been given to, of those in the scopes `among`, and
    since when: those of years are millions, and seldom is forgotten what is as old.
    """
    readers = among & {row["scope_id"] for row in await tx.fetch("scopes_that_see", tenant, sorted(scope_ids))}
    since = await placed_since(tx, tenant, memory_ids) if readers else None
    if since is None:
        return [], None
    return [row["session_id"] for row in await tx.fetch("sessions_since", tenant, sorted(readers), since)], since


async def _named_part(tx: Transaction, target: Target) -> Plan:
    names = (target.scope.user, target.scope.project, target.scope.agent)
    scope_id = await tx.value("find_scope", target.scope.tenant, *names)
    return Plan() if scope_id is None else await _part(tx, target, scope_id)


async def _whole(tx: Transaction, target: Target, scopes: Sequence[Named]) -> Plan:
    tenant, sessions = target.scope.tenant, dict[UUID, tuple[int, str]]()
    for some in some_of([one.scope_id for one in scopes], SCOPES_AT_ONCE):
        await tx.see(tenant, some)
        found = await tx.fetch("labels_of_scopes", tenant, some)
        sessions |= {row["session_id"]: (row["scope_id"], row["label"]) for row in found}
    return Plan(scopes=tuple(scopes), sessions=sessions)


async def _part(tx: Transaction, target: Target, scope_id: int) -> Plan:
    tenant = target.scope.tenant
    if target.kind == "session":
        session_id = await tx.value("session_to_erase", tenant, scope_id, target.value)
        return Plan() if session_id is None else Plan(sessions={session_id: (scope_id, target.value)})
    if target.kind == "source_id":
        found = await tx.fetch("turns_of_source", tenant, scope_id, target.value, id_in(target.value))
        return Plan(turns={row["event_id"]: scope_id for row in found})
    wanted = target.memory_ids if target.kind == "query" else (UUID(target.value),)
    known = [one for one in wanted if await tx.value("known_memory", tenant, scope_id, one) is not None]
    turns = await tx.fetch("turns_behind", tenant, known, scope_id) if known else []
    events = {*target.turn_ids, *(row["event_id"] for row in turns)}
    return Plan(turns=dict.fromkeys(events, scope_id), memories=dict.fromkeys(known, scope_id))


def _is_new(row: Any) -> bool:
    """Whether another memory made anew could not have this id: summaries and episodes have their session's."""
    return row["kind"] != "summary" and row["collection"] not in ("episode", "past", "month")


def _first_of(scopes: Sequence[int], first: Sequence[int]) -> list[int]:
    """These scopes, some at the head: Postgres goes through them for each row until it finds its own."""
    head = dict.fromkeys(first)
    return [*head, *(one for one in scopes if one not in head)]


def _with_key(scope_id: int, keys: Mapping[int, bytes]) -> str:
    return f"{scope_id}:{keys[scope_id].hex()}" if scope_id in keys else str(scope_id)


def _named(row: Any) -> Named:
    return Named(row["scope_id"], row["user_name"], row["project"], row["agent"], row["visibility"])


def _turn(row: Any) -> GoneTurn:
    return GoneTurn(
        row["event_id"],
        row["scope_id"],
        row["session_id"],
        row["exchange_id"],
        bytes(row["chain"]),
        row["role"],
        called(row["source_id"], row["line_digest"], row["event_id"]),
        row["content"],
        row["came"],
    )
