"""The ledger of a conversation: its places in, the blocks that stand there again out (DESIGN section 5).

What was placed once stays where it was, byte for byte: an entry is written once for a chain position, sealed under the
subject's key, and read back from Redis, else from Postgres. Each is held against the law of now (policies/ledger.py)
before it is given out; what is withdrawn for good is so in every process. What has taken the place of something quoted
is named, so that the newest message can say so. Raises MemoryProxyFault where the ledger or the law cannot be read: a
block that is not known to be allowed is not sent (fails closed), and the completion goes on (fails open).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from memory.bounded import bounded_at
from memory.chain import Digest
from memory.envelope import Binding, key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable, MemoryProxyFault, StoreUnavailable
from memory.ids import is_words
from memory.keys import KeyRing
from memory.model import (
    SUCCESSORS_FOLLOWED,
    Candidate,
    Entry,
    IndexRow,
    Placed,
    Quoted,
    Scope,
    ScopeVersion,
    SessionRef,
    Withdrawn,
)
from memory.read.candidates import as_candidate
from memory.read.conversation import (
    CUT,
    GIVEN,
    MARKS,
    RESTORE,
    WITHDRAWN,
    Conversation,
    scope_key,
)
from memory.read.entries import EntryCache, packed, print_of, unpacked
from memory.read.hot import HotScope, HotScopes, IndexUnreadable, ScopeTooLarge, item_of
from memory.read.items import Filter, IndexItem
from memory.seldom import Seldom
from memory.telemetry import Metrics, event
from policies.labels import Sensitivity
from policies.ledger import Standing, Withdrawal, is_final, withdrawal

log: Final = logging.getLogger("memory_proxy.ledger")
CONFIRM_S: Final = 0.06
"""How long an index may take to be confirmed before it answers as it is: half of what `ledger.deadline_ms` gives."""
SUMMARY_S: Final = 0.12
"""How long the summary of what a client has dropped is waited for; the next message is told it as well."""
DROPPED: Final = "sums up what the client has dropped of this conversation"
REPLACES: Final = "has taken the place of what this conversation was given"


class HotLedger(Protocol):
    """Entries that may be lost."""

    async def note(
        self,
        scope: Scope,
        scope_key: bytes,
        session_id: UUID,
        entries: Mapping[Digest, bytes],
        withdrawn: Sequence[Digest],
        *,
        anew: bool = False,
    ) -> None:
        """Have the ledger say so; what is there already stays, unless it is withdrawn. Raises QueueUnavailable."""


class LedgerStore(Protocol):
    """Entries for good, and what their memories are now. Every call raises StoreUnavailable."""

    async def ledger(self, scope: Scope, session_id: UUID, chains: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Sealed entries by place, b"" where nothing was placed, WITHDRAWN; none for a place that is not known."""

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        """These memories as they are now, also what no prompt gets."""

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        """The rolling summary of a session; None while it has none that a prompt may get."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the ledger says of one request.

    `blocks` stand again, by index in `messages`; `known` are the places that it has decided about, with or without a
    block; `withdrawn` are not sent again; `owed` is to be said in the newest message whatever it asks: what has taken
    the place of something that stands, and what the client has dropped. `found` is what the hot ledger did not know,
    `restore` the mark of a checkpoint that was loaded and not placed yet; `given`: it was given documents. `fault`: it
    could not be read in time, so nothing stands again. `summaries`: the rolling summaries among what is quoted.
    """

    blocks: Mapping[int, Placed] = field(default_factory=dict)
    known: frozenset[int] = frozenset()
    withdrawn: tuple[Withdrawn, ...] = ()
    owed: tuple[Candidate, ...] = ()
    found: Mapping[Digest, bytes] = field(default_factory=dict)
    restore: bytes | None = None
    given: bool = False
    fault: bool = False
    summaries: frozenset[UUID] = frozenset()

    @property
    def is_summed_up(self) -> bool:
        """Whether a summary of the conversation stands in it."""
        return not self.summaries.isdisjoint(self.memory_ids)

    @property
    def tokens(self) -> int:
        """Tokens of all that stands again."""
        return sum(one.tokens for one in self.blocks.values())

    @property
    def memory_ids(self) -> frozenset[UUID]:
        """The memories that stand again."""
        return frozenset(one for placed in self.blocks.values() for one in placed.memory_ids)


@dataclass(frozen=True, slots=True)
class LawOfNow:
    """What is known of quoted memories, by id; the scopes the caller sees, as an index has them where one is held."""

    items: Mapping[UUID, IndexItem]
    quoted: Mapping[UUID, Quoted]
    where: Filter
    scope_ids: tuple[int, ...]
    hot: HotScope | None

    def is_summary(self, memory_id: UUID) -> bool:
        """Whether it is a rolling summary."""
        item, quoted = self.items.get(memory_id), self.quoted.get(memory_id)
        return (item.kind if item else quoted.row.kind if quoted else "") == "summary"


class Ledgers:
    """The ledgers of all conversations, as one process reads and writes them."""

    def __init__(
        self,
        hot: HotLedger,
        store: LedgerStore,
        scopes: HotScopes,
        keys: KeyRing,
        metrics: Metrics,
        clean: Callable[[IndexRow], IndexRow],
        redact: Callable[[str], str],
        entries: EntryCache | None = None,
    ) -> None:
        self._hot = hot
        self._store = store
        self._scopes = scopes
        self._keys = keys
        self._metrics = metrics
        self._clean = clean
        self._redact = redact
        self._entries = EntryCache() if entries is None else entries
        self._said = Seldom()

    def let_go(self, tenant: UUID) -> None:
        """Hold nothing of a tenant's in process: something was erased."""
        self._entries.let_go(tenant)

    def let_go_of_all(self) -> None:
        """Hold nothing of any tenant's."""
        self._entries.let_go_of_all()

    def drops(self, tenant: UUID) -> int:
        """How often something was let go of: for `note`, of what is recalled from now on."""
        return self._entries.drops(tenant)

    def holding(self, tenant: UUID, memory_ids: Iterable[UUID]) -> int:
        """How many of these ids the entries held in process quote."""
        return self._entries.holding(tenant, frozenset(memory_ids))

    async def kept(
        self,
        scope: Scope,
        conversation: Conversation,
        places: Mapping[int, Digest],
        newest: int | None,
        where: Filter,
        now: datetime,
    ) -> Kept:
        """What stands again at these places, the law of now applied. Of the `newest`, None where the model has gone on
        from it, the store alone does not say that nothing is to stand there: it may have been sent without memory
        before. Raises StoreUnavailable.
        """
        drops = self._entries.drops(scope.tenant)
        raw, found = await self._raw(scope, conversation, places, newest)
        opened = {
            at: await self._opened(scope, conversation.session, digest, value, drops)
            for at, digest in places.items()
            if (value := raw.get(digest)) and value != WITHDRAWN
        }
        entries = {at: entry for at, entry in opened.items() if entry is not None}
        known = frozenset(at for at, digest in places.items() if digest in raw)
        kept = Kept(known=known, found=found, restore=raw.get(RESTORE) or None, given=bool(raw.get(GIVEN)))
        if not entries and not conversation.dropped:
            return kept
        quoted = [one for entry in entries.values() for one in entry.memory_ids]
        law = await self._law(scope, conversation, quoted, where)
        refused = self._refused(entries, law, now)
        if law.hot is not None and any(map(is_final, refused.values())):
            # Once a block, and for good: what was placed may be newer than the index, or of a scope shared since.
            refused = self._refused(entries, await self._law_by(None, scope, quoted, where), now)
        blocks = {at: Placed(at, places[at], one, one.retrieval_id) for at, one in entries.items() if at not in refused}
        for at, why in refused.items():
            self._metrics.ledger("withdrawn", 1, entries[at].tokens, why)
        final = tuple(Withdrawn(places[at], why) for at, why in refused.items() if is_final(why))
        summaries = frozenset(filter(law.is_summary, quoted))
        kept = replace(kept, blocks=blocks, withdrawn=final, summaries=summaries)
        dropped = await self._dropped(scope, conversation, law, now)
        return replace(kept, owed=(*dropped, *_replacing(kept, law, conversation.digests, now)))

    async def _raw(
        self, scope: Scope, conversation: Conversation, places: Mapping[int, Digest], newest: int | None
    ) -> tuple[dict[Digest, bytes], dict[Digest, bytes]]:
        """What there is at these places, sealed; and what of it Redis did not know.

        The store is asked only where Redis has lost some of the history: that it knows nothing of the newest message is
        what happens at every turn, unless the model has read it already. What it has goes before what is at hand, which
        another process may have withdrawn or placed anew since; what it has not may not be stored yet.
        """
        session = conversation.session
        wanted = (*MARKS, *places.values())
        raw = {digest: conversation.ledger[digest] for digest in wanted if digest in conversation.ledger}
        unknown = [digest for digest in wanted if digest not in raw]
        found = self._entries.raw(scope.tenant, session.session_id, unknown)
        undecided = places.get(newest) if newest is not None else None
        lost = [digest for digest in unknown if digest not in (undecided, *MARKS)]
        if lost and not conversation.is_new:
            sure = {one for one, value in found.items() if value == WITHDRAWN or (one == RESTORE and not value)}
            asked = [digest for digest in unknown if digest not in sure]  # of these it hears late
            stored = await self._stored(scope, session.session_id, asked, at_hand=found.keys() >= set(lost))
            may_be_newer = {undecided, *found} - {RESTORE}  # a load is stored before it is told
            found |= {Digest(chain): value for chain, value in stored.items() if value or chain not in may_be_newer}
        elif conversation.named and (unsure := [one for one in (GIVEN, RESTORE) if _is_unsure(one, unknown, found)]):
            found |= await self._marks(scope, session.session_id, unsure)
        return {**raw, **found}, found

    async def _marks(self, scope: Scope, session_id: UUID, places: Sequence[Digest]) -> dict[Digest, bytes]:
        """Whether a conversation was given documents and what was loaded for it, for every process to know again, also
        that there is nothing: its client may send only what is new, so that nothing else is missed where Redis has lost
        a mark.
        """
        try:
            async with asyncio.timeout(CONFIRM_S):
                stored = await self._store.ledger(scope, session_id, places)
                return {one: stored.get(one, b"") for one in places}
        except (StoreUnavailable, TimeoutError):
            return {}

    async def _stored(
        self, scope: Scope, session_id: UUID, chains: Sequence[Digest], *, at_hand: bool
    ) -> Mapping[bytes, bytes]:
        """What the store has at these places. Where all is `at_hand` it has no time to lose and may be away."""
        try:
            async with asyncio.timeout(CONFIRM_S if at_hand else None):
                return await self._store.ledger(scope, session_id, chains)
        except (StoreUnavailable, TimeoutError):
            if not at_hand:
                raise
            return {}

    async def note(
        self,
        scope: Scope,
        session: SessionRef,
        entries: Mapping[Digest, Entry | None],
        found: Mapping[Digest, bytes],
        withdrawn: Sequence[Withdrawn],
        *,
        anew: bool = False,
        cut: bytes | None = None,
        drops: int | None = None,
    ) -> None:
        """Have every process know what is placed now (None: nothing), what was `found` in the store and what was
        withdrawn. What is there already stays, unless it is to be said `anew`, as where a `cut` is new. Not what was
        recalled when there were other `drops`: it may be what was erased, and the write path keeps what may be kept.
        Raises QueueUnavailable, StoreUnavailable.
        """
        drops = self._entries.drops(scope.tenant) if drops is None else drops
        chain_key = await self._keys.chain_key(scope.tenant)
        sealed = {digest: await self.sealed(scope, session, entry) for digest, entry in entries.items()}
        for digest, entry in entries.items():
            self._entries.put(scope.tenant, session.session_id, digest, sealed[digest], entry, drops)
        gone = [one.chain for one in withdrawn]
        for digest in gone:
            self._entries.put(scope.tenant, session.session_id, digest, WITHDRAWN, None)
        if drops != self._entries.drops(scope.tenant):
            found, sealed = {}, _nothing_placed(sealed)
        if cut is not None:
            self._entries.put(scope.tenant, session.session_id, CUT, cut, None)
            sealed[CUT] = cut
        key = scope_key(chain_key, scope)
        if anew and (before := {digest: value for digest, value in found.items() if digest not in sealed}):
            await self._hot.note(scope, key, session.session_id, before, [])  # it may have been withdrawn since
            found = {}
            if drops != self._entries.drops(scope.tenant):
                sealed = _nothing_placed(sealed)
        known = {**found, **sealed}
        if known or gone:
            await self._hot.note(scope, key, session.session_id, known, gone, anew=anew)

    async def in_time(self, reading: asyncio.Task[Kept] | None, deadline_s: float) -> Kept:
        """What a reading of the ledger finds in time; a fault or no time: nothing stands again, and that is said."""
        if reading is None:
            return Kept()
        try:
            async with bounded_at(asyncio.get_running_loop().time() + deadline_s):
                return await reading
        except (MemoryProxyFault, TimeoutError) as fault:
            self._say("ledger_not_read", fault)
            return Kept(fault=True)

    async def noted(self, work: Awaitable[None]) -> None:
        """A note that is lost where Redis is away: the write path keeps the same entry for good."""
        try:
            await work
        except MemoryProxyFault as fault:
            self._say("ledger_not_noted", fault)

    def _say(self, what: str, fault: Exception) -> None:
        """In the log; not for every request, whose own line says that its memory is without the ledger."""
        named = type(fault).__name__
        if self._said.due(f"{what} {named}"):
            event(log, what, logging.WARNING, fault=named)

    async def stored_cuts(self, scope: Scope, conversation: Conversation) -> bytes:
        """The cuts of a conversation as the store has them, for every process to know again: Redis' mark ends a day
        after the cut, and what it knows of older messages may have been looked up since. b"" where nobody can say.
        """
        session_id = conversation.session.session_id
        cuts = (await self._stored(scope, session_id, [CUT], at_hand=True)).get(CUT, b"")
        if cuts:
            await self.noted(self._mark(scope, session_id, CUT, cuts))
        return cuts

    async def mark_restore(self, scope: Scope, session_id: UUID, mark: bytes) -> None:
        """Have a conversation's next message be given what this mark says; b"": nothing any more. Raises
        QueueUnavailable, StoreUnavailable.
        """
        await self._mark(scope, session_id, RESTORE, mark)

    async def mark_given(self, scope: Scope, session_id: UUID, mark: bytes) -> None:
        """Have a conversation's messages be given what its documents say. Raises QueueUnavailable, StoreUnavailable."""
        await self._mark(scope, session_id, GIVEN, mark)

    async def _mark(self, scope: Scope, session_id: UUID, place: Digest, mark: bytes) -> None:
        self._entries.put(scope.tenant, session_id, place, mark, None)
        chain_key = await self._keys.chain_key(scope.tenant)
        await self._hot.note(scope, scope_key(chain_key, scope), session_id, {place: mark}, [], anew=True)

    async def summary(
        self, scope: Scope, conversation: Conversation, where: Filter, now: datetime
    ) -> tuple[Candidate, ...]:
        """The rolling summary of a conversation, where it may be given. Raises StoreUnavailable."""
        law = await self._law(scope, conversation, [], where)
        return await self._summed_up(scope, conversation, law, now)

    async def sealed(self, scope: Scope, session: SessionRef, entry: Entry | None) -> bytes:
        """An entry as it lies in Redis and Postgres; b"" for a place where nothing was placed."""
        if entry is None:
            return b""
        key = await self._keys.subject_key(scope.tenant, scope.user)
        return seal(key, await self._binding(scope, session), packed(entry))

    async def _opened(
        self, scope: Scope, session: SessionRef, digest: Digest, value: bytes, drops: int
    ) -> Entry | None:
        """An entry again; None where its key was shredded or its bytes are spoilt."""
        held = self._entries.entry(scope.tenant, session.session_id, digest, value)
        if held is not None:
            return held
        try:
            key = await self._keys.by_id(scope.tenant, key_id_of(value))
            entry = unpacked(unseal(key, await self._binding(scope, session), value))
        except EnvelopeUnreadable:
            self._metrics.ledger("withdrawn", 1, 0, "unreadable")
            return None
        self._entries.put(scope.tenant, session.session_id, digest, value, entry, drops)
        return entry

    async def _binding(self, scope: Scope, session: SessionRef) -> Binding:
        subject = await self._keys.subject_id(scope.tenant, scope.user)
        return Binding(scope.tenant, subject, session.session_id, "ledger")

    async def _law(
        self, scope: Scope, conversation: Conversation, memory_ids: Sequence[UUID], where: Filter
    ) -> LawOfNow:
        """What is known of these memories now: from the index where it is held, else from the store."""
        return await self._law_by(await self._index(scope, conversation), scope, memory_ids, where)

    async def _law_by(self, hot: HotScope | None, scope: Scope, memory_ids: Sequence[UUID], where: Filter) -> LawOfNow:
        """The same by this index; None: by the store."""
        items: dict[UUID, IndexItem] = {}
        if hot is not None:
            items = {one: item for one in memory_ids if (item := hot.index.held(one)) is not None}
            where, scope_ids = where.among(hot.visibility), list(hot.versions)
        else:
            visible = await self._store.visible_scopes(scope)
            where, scope_ids = where.among({v.scope_id: v.visibility for v in visible}), [v.scope_id for v in visible]
        missing = {one for one in memory_ids if one not in items and not is_words(one)}
        quoted = await self._quoted(hot, scope, scope_ids, missing)
        return LawOfNow(items, quoted, where, tuple(scope_ids), hot)

    async def _quoted(
        self, hot: HotScope | None, scope: Scope, scope_ids: Sequence[int], memory_ids: Set[UUID]
    ) -> dict[UUID, Quoted]:
        """These memories as the store has them; and beside an index what has taken the place of each and was itself
        replaced since, up to what holds now.
        """
        known: dict[UUID, Quoted] = {}
        wanted, asked = memory_ids, set(memory_ids)
        for _ in range(SUCCESSORS_FOLLOWED):
            if hot is not None:  # rows that are put take some out
                known |= {one: found for one in wanted if (found := hot.quoted.get(one)) is not None}
            if missing := sorted(wanted - known.keys(), key=str):
                read_at = hot.versions if hot is not None else None
                rows = await self._store.standing(scope.tenant, scope_ids, missing)
                found_now = {one.row.memory_id: one for one in rows}
                if hot is not None and hot.versions is read_at and not hot.lock.locked():
                    hot.quoted |= found_now  # else it may be of before what was just caught up
                known |= found_now
            if hot is None:
                break
            after = {one.successor for one in known.values() if one.successor is not None} - asked
            wanted = {one for one in after if hot.index.held(one) is None}
            asked |= wanted
            if not wanted:
                break
        return known

    async def _dropped(
        self, scope: Scope, conversation: Conversation, law: LawOfNow, now: datetime
    ) -> tuple[Candidate, ...]:
        """The summary of a conversation whose client has dropped a part of it; none where it is not read in time: what
        stands does not wait for it.
        """
        if not conversation.dropped:
            return ()
        try:
            async with asyncio.timeout(SUMMARY_S):
                return await self._summed_up(scope, conversation, law, now)
        except (StoreUnavailable, TimeoutError):
            return ()

    async def _summed_up(
        self, scope: Scope, conversation: Conversation, law: LawOfNow, now: datetime
    ) -> tuple[Candidate, ...]:
        if not law.scope_ids:
            return ()
        row = await self._store.summary(scope.tenant, law.scope_ids, conversation.session.session_id)
        if row is None:
            return ()
        item = item_of(self._clean(row))
        return (replace(as_candidate(item), why=DROPPED),) if _may_be_given(item, law, now) else ()

    async def _index(self, scope: Scope, conversation: Conversation) -> HotScope | None:
        """The index, where one is held and can be confirmed. One that is late answers as it is while its last
        confirmation holds: what the conversation has had is told it again, and another prefix costs its cache.
        """
        if self._scopes.held(scope) is None:
            return None
        fresh = self._scopes.fresh(scope, conversation.announced)
        if fresh is not None:
            return fresh
        confirming = asyncio.create_task(self._scopes.get(scope, conversation.announced))
        try:
            await asyncio.wait((confirming,), timeout=CONFIRM_S)
            late = self._scopes.late(scope)
            if not confirming.done() and late is not None:
                return late
            return await confirming
        except (ScopeTooLarge, IndexUnreadable):
            return None
        except StoreUnavailable:
            if late is None:
                raise
            return late
        finally:
            confirming.cancel()  # nobody waits for it any more; what it reads goes on

    def _refused(self, entries: Mapping[int, Entry], law: LawOfNow, now: datetime) -> dict[int, Withdrawal]:
        """The blocks that may not be sent again, and why."""
        return {at: why for at, entry in entries.items() if (why := self._refusal(entry, law, now)) is not None}

    def _refusal(self, entry: Entry, law: LawOfNow, now: datetime) -> Withdrawal | None:
        """Why a block may not be sent again: the reason of the first of its memories that may not."""
        for one in entry.shown:
            if is_words(one.memory_id):
                continue  # words of ours: no law speaks of them
            standing, reachable = self._standing(one.memory_id, law)
            why = withdrawal(one.fingerprint, standing, now=now, ceiling=law.where.ceiling)
            if why == "reworded" and law.is_summary(one.memory_id) and self._redact(entry.text) == entry.text:
                why = None  # it is told anew every few turns: what was told before is as true as it was
            if why is not None:
                return why
            if not reachable:
                return "reach"
        return None

    def _standing(self, memory_id: UUID, law: LawOfNow) -> tuple[Standing | None, bool]:
        """A memory as it is now, and whether this caller reaches it."""
        item = law.items.get(memory_id)
        if item is not None:
            known = Standing(print_of(item.content), Sensitivity(item.sensitivity), item.expires_at)
            return known, law.where.reaches(item.scope_id, item.session_id)
        found = law.quoted.get(memory_id)
        if found is None:
            return None, True
        row = self._clean(found.row)
        known = Standing(print_of(row.content), Sensitivity(row.sensitivity), row.expires_at, found.hidden)
        return known, law.where.reaches(row.scope_id, row.session_id)


def _is_unsure(place: Digest, unknown: Sequence[Digest], found: Mapping[Digest, bytes]) -> bool:
    """Whether Redis has lost a mark and nothing at hand stands for it; another process may have given a load since."""
    return place in unknown and (place not in found or (place == RESTORE and bool(found[place])))


def _nothing_placed(sealed: Mapping[Digest, bytes]) -> dict[Digest, bytes]:
    """What quotes nobody: the places where nothing stands, and where the conversation is cut."""
    return {digest: value for digest, value in sealed.items() if not value or digest == CUT}


def _may_be_given(item: IndexItem, law: LawOfNow, now: datetime) -> bool:
    standing = Standing(b"", Sensitivity(item.sensitivity), item.expires_at)
    allowed = withdrawal(b"", standing, now=now, ceiling=law.where.ceiling) is None
    return allowed and law.where.reaches(item.scope_id, item.session_id)


def _replacing(kept: Kept, law: LawOfNow, digests: Sequence[Digest | None], now: datetime) -> tuple[Candidate, ...]:
    """What holds now in place of something that stands: once, and not where the prompt says it itself."""
    if law.hot is None:
        return ()
    index = law.hot.index
    told = kept.memory_ids | {one for digest in digests if digest for one in law.hot.chains.get(digest, ())}
    found: dict[UUID, IndexItem] = {}
    for memory_id in sorted(kept.memory_ids, key=str):
        item, gone = law.items.get(memory_id), law.quoted.get(memory_id)
        after = index.replacing(item.event_ids) if item is not None else []
        for _ in range(SUCCESSORS_FOLLOWED):
            if gone is None or gone.successor is None:
                break
            if (successor := index.held(gone.successor)) is not None:
                after.append(successor)
                break
            gone = law.quoted.get(gone.successor)
        for one in after:
            if one.memory_id not in told and _may_be_given(one, law, now):
                found[one.memory_id] = one
    return tuple(replace(as_candidate(one), why=REPLACES, replaces=True) for one in found.values())
