"""Facts: what was said in, memories that hold, are superseded or disputed out, inside the caller's transaction.

A fact that is new becomes a memory; one said before gets one evidence more. Then everything known of its subject and
predicate is ruled on anew (policies/reconcile.py), and what changed is written: a version with other labels, a pointer
to what took its place, a line of the feed. A memory whose successor goes comes back the same way (`resettle`).

The caller has raised the scope's version: its row lock keeps two writers of a scope apart. Facts that their turn does
not support are left out by `sift`, and counted. Raises StoreUnavailable, StoreRefused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch, fact_rows, outbox
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.entity_learning import learn
from memory.adapters.postgres.fact_rows import Labels, labels_for, labels_of
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.rows import Place
from memory.errors import StoreRefused
from memory.ids import derived_id
from memory.model import NewFact, Turn
from policies.fact import Cardinality, Fact, aspect_of
from policies.fact_named import Known, ended_as, names_only
from policies.reconcile import (
    Saying,
    Standing,
    Statement,
    concerned,
    content_key,
    fact_key,
    moment,
    settle,
    statement_of,
    unfit,
)

# Of one key, and of one statement: the first sayings tell what was old at a correction, the latest what holds.
STATEMENTS_MAX: Final = 200
FIRST_SAYINGS_MAX: Final = 8
LATEST_SAYINGS_MAX: Final = 56

Key = tuple[str, str]  # subject, predicate
_Spot = tuple[Key, str, bool]  # key, object, negated: where a statement stands in the book


@dataclass(frozen=True, slots=True)
class EmbeddingQueries:
    """The two queries on the table of vectors: one more, and those of a version carried over to the next."""

    add: Query
    copy: Query


@dataclass(frozen=True, slots=True)
class Heard:
    """A turn that facts rest on, as it is stored now. `behind`: when the latest was said of the turns that it was said
    behind; None where that is not after the turn.
    """

    turn: Turn
    event_id: UUID
    session_id: UUID
    seq: int
    behind: datetime | None


@dataclass(frozen=True, slots=True)
class Offered:
    """A fact with the turn that supports it."""

    new: NewFact
    heard: Heard


@dataclass(slots=True)
class _Entry:
    """One statement: as the store has it (`labels`), or about to be born of `offered`. `said`: what is said now."""

    memory_id: UUID
    key: Key
    statement: Statement
    labels: Labels | None = None
    offered: Offered | None = None
    sayings: list[Saying] = field(default_factory=list)
    said: list[tuple[Saying, Offered]] = field(default_factory=list)

    @property
    def counts(self) -> bool:
        """Whether what it says is heard: not that of a deleted or rejected memory."""
        return bool(self.sayings) and (self.labels is None or self.labels.counts)


_Book = dict[_Spot, _Entry]


def sift(facts: Iterable[NewFact], heard: Mapping[UUID, Heard], without: frozenset[UUID]) -> tuple[list[Offered], int]:
    """Facts whose turn is stored now and not forgotten, and how many of these their turn does not support."""
    offered: list[Offered] = []
    dropped = 0
    for new in facts:
        found = heard.get(new.event_id)
        if found is None or not without.isdisjoint((new.event_id, new.memory.memory_id)):
            continue
        if unfit(new.fact, found.turn.content, found.turn.role) is None:
            offered.append(Offered(new, found))
        else:
            dropped += 1
    return offered, dropped


async def store_facts(
    tx: Transaction,
    place: Place,
    offered: Sequence[Offered],
    *,
    changed_version: int,
    model: str | None,
    embeddings: EmbeddingQueries,
    replaced: Sequence[UUID] = (),
) -> int:
    """Store these facts and settle what they are about; returns how many are new memories.

    What was said in the turns `replaced` counts no more: their text is another now.
    """
    told = [one for one in offered if not one.new.beside or await _may_be_told(tx, place, one.new)]
    offered = await _under_what_is_known(tx, place, told)
    lost = await _unsaid(tx, place, replaced)
    asked = await _about(tx, place, lost) | {
        (fact_key(one.new.fact.subject, one.new.fact.predicate), statement_of(one.new.fact).object) for one in offered
    }
    if not asked:
        return 0
    book = await _open(tx, place, asked)
    _hear(book, offered, place.now)
    await _revive(tx, place, book, changed_version)
    settling = _Settling(tx, place, book, changed_version, model, embeddings)
    born = await settling.write(asked)
    if settling.parted:
        await resettle(tx, place, list(settling.parted), changed_version=changed_version, embeddings=embeddings)
    await learn(tx, place, [(one.new.fact, entry.memory_id) for entry in book.values() for _, one in entry.said])
    if lost:
        hidden = await tx.fetch("hide_unsupported", place.tenant, lost, place.now, changed_version)
        await outbox.announce_events(tx, place, "deleted", [row["memory_id"] for row in hidden])
    return born


async def _may_be_told(tx: Transaction, place: Place, new: NewFact) -> bool:
    """Whether the earlier turns whose words a fact has may be told, under its own label."""
    return await batch.may_be_told(tx, place.tenant, replace(new.memory, source_turns=new.beside))


async def _under_what_is_known(tx: Transaction, place: Place, offered: Sequence[Offered]) -> list[Offered]:
    """These, endings that say somebody's name or what they are alone under what was told of them; of nobody known they
    are left out.
    """
    wanted = {_whom(one.new.fact) for one in offered if names_only(one.new.fact)}
    if not wanted:
        return list(offered)
    known: dict[tuple[str, str], dict[tuple[str, str], Cardinality]] = {one: {} for one in wanted}
    words = sorted(wanted)
    asked = [subject for subject, _ in words], [word for _, word in words]
    for row in await tx.fetch("told_of_names", place.tenant, place.scope_id, *asked):
        known[row["subject"], row["word"]][row["predicate"], row["object"]] = row["cardinality"]
    for fact in (one.new.fact for one in offered if not one.new.fact.negated):
        key, (subject, name) = fact_key(fact.subject, fact.predicate), _whom(fact)
        for word in (name, key[1].removesuffix("_name")):
            known.get((subject, word), {}).setdefault((key[1], name), fact.cardinality)
    return [each for one in offered for each in _ended(one, known.get(_whom(one.new.fact), {}))]


def _whom(fact: Fact) -> tuple[str, str]:
    return fact_key(fact.subject, fact.predicate)[0], statement_of(fact).object


def _ended(one: Offered, known: Known) -> Iterator[Offered]:
    """An offered fact under each predicate that it is of."""
    if not names_only(one.new.fact):
        yield one
        return
    for number, fact in enumerate(ended_as(one.new.fact, known)):
        memory_id = derived_id(one.new.memory.memory_id, number) if number else one.new.memory.memory_id
        memory = replace(one.new.memory, memory_id=memory_id, content_key=content_key(fact))
        yield replace(one, new=replace(one.new, memory=memory, fact=fact))


async def resettle(
    tx: Transaction, place: Place, memory_ids: Sequence[UUID], *, changed_version: int, embeddings: EmbeddingQueries
) -> None:
    """Rule again on what these facts are about, after one was deleted, rejected or shown again. Others: nothing."""
    asked = await _about(tx, place, memory_ids)
    if asked:
        book = await _open(tx, place, asked)
        settling = _Settling(tx, place, book, changed_version, None, embeddings)
        await settling.write(asked)
        if settling.parted:  # nothing stands behind one that stands behind another, so this ends here
            await resettle(tx, place, list(settling.parted), changed_version=changed_version, embeddings=embeddings)


async def _unsaid(tx: Transaction, place: Place, replaced: Sequence[UUID]) -> list[UUID]:
    """Take back what was said in these turns; returns the facts that rested on them."""
    if not replaced:
        return []
    lost = list({row["memory_id"] for row in await tx.fetch("drop_sayings", place.tenant, replaced)})
    await tx.run("drop_evidence", place.tenant, lost, replaced)
    return lost


async def _about(tx: Transaction, place: Place, memory_ids: Sequence[UUID]) -> set[tuple[Key, str]]:
    found = await tx.fetch("keys_of_facts", place.tenant, memory_ids) if memory_ids else []
    return {((row["subject"], row["predicate"]), row["object"]) for row in found}


async def _open(tx: Transaction, place: Place, asked: Iterable[tuple[Key, str]]) -> _Book:
    """All that is known and bears on these keys and objects."""
    wanted = sorted(asked)
    names = [key[0] for key, _ in wanted], [key[1] for key, _ in wanted], [text for _, text in wanted]
    book: _Book = {}
    for row in await tx.fetch("facts_of_keys", place.tenant, place.scope_id, *names, STATEMENTS_MAX):
        key, statement = (
            (row["subject"], row["predicate"]),
            Statement(row["object"], row["negated"], row["cardinality"]),
        )
        book.setdefault(_spot(key, statement), _Entry(row["memory_id"], key, statement, labels_of(row)))
    of = {entry.memory_id: entry for entry in book.values()}
    limits = (FIRST_SAYINGS_MAX, LATEST_SAYINGS_MAX)
    for row in await tx.fetch("sayings_of_facts", place.tenant, list(of), *limits) if of else []:
        entry = of[row["memory_id"]]
        entry.sayings.append(fact_rows.saying_of(entry.statement, row))
    return book


def _hear(book: _Book, offered: Sequence[Offered], now: datetime) -> None:
    """Enter what is said now; a statement that nobody made before is about to become a memory."""
    last: dict[Key, datetime] = {}
    for entry in book.values():
        for saying in entry.sayings:
            last[entry.key] = max(saying.said_at, last.get(entry.key, saying.said_at))
    arrived = int(now.timestamp() * 1_000_000)
    for arrival, one in enumerate(offered, arrived):
        fact = one.new.fact
        key, statement = fact_key(fact.subject, fact.predicate), statement_of(fact)
        born = _Entry(one.new.memory.memory_id, key, statement, offered=one)
        entry = book.setdefault(_spot(key, statement), born)
        saying = _saying(entry.statement, one, last.get(key), now, arrival)
        entry.sayings.append(saying)
        entry.said.append((saying, one))


def _saying(statement: Statement, one: Offered, key_last: datetime | None, now: datetime, arrival: int) -> Saying:
    """What is said of one day in several sessions is told apart by its arrival: a session's own numbers cannot."""
    fact, heard, memory = one.new.fact, one.heard, one.new.memory
    turn = heard.turn
    return Saying(
        statement=statement,
        said_at=moment(
            turn.occurred_at,
            live=turn.origin == "live",
            behind=heard.behind,
            key_last=key_last,
            now=now,
        ),
        integrity=memory.integrity,
        seq=arrival,
        at=fact.span[0],
        correction=fact.correction,
        sensitivity=memory.sensitivity,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        aspect=aspect_of(fact),
    )


async def _revive(tx: Transaction, place: Place, book: _Book, changed_version: int) -> None:
    """A deleted fact that is said anew, after it was deleted, is one again; an old turn does not bring it back."""
    back: list[UUID] = []
    for entry in book.values():
        labels = entry.labels
        if labels is None or labels.deleted_at is None:
            continue
        if any(saying.said_at > labels.deleted_at for saying, _ in entry.said):
            await tx.run("hide_memory", place.tenant, entry.memory_id, None, changed_version)
            entry.labels = replace(labels, deleted_at=None)
            back.append(entry.memory_id)
    await outbox.announce_events(tx, place, "restored", back)


@dataclass(frozen=True, slots=True)
class _Ruled:
    """A statement and the labels it gets."""

    entry: _Entry
    standing: Standing
    labels: Labels


class _Settling:
    """One ruling on a book, written."""

    def __init__(
        self,
        tx: Transaction,
        place: Place,
        book: _Book,
        changed_version: int,
        model: str | None,
        embeddings: EmbeddingQueries,
    ) -> None:
        self._tx = tx
        self._place = place
        self._book = book
        self._changed_version = changed_version
        self._model = model
        self._embeddings = embeddings
        self.parted: set[UUID] = set()  # facts that others stood behind, which stand for themselves now

    async def write(self, asked: Iterable[tuple[Key, str]]) -> int:
        """What leaves force goes first, for the index that lets only one of a key be current. Returns the births."""
        objects: dict[Key, set[str]] = {}
        for key, text in asked:
            objects.setdefault(key, set()).add(text)
        unheard: list[UUID] = []
        ruled: list[_Ruled] = []
        for key, texts in objects.items():
            self._rule(key, texts, ruled, unheard)
        known = [one for one in ruled if one.entry.labels is not None]
        born = [one for one in ruled if one.entry.labels is None]
        if unheard:
            await self._tx.run("withdraw_facts", self._place.tenant, unheard)
        await self._restate([one for one in known if one.standing.state != "current"])
        await self._bear(born)
        await self._restate([one for one in known if one.standing.state == "current"])
        await self._add_evidence([entry for entry in self._book.values() if entry.said])
        return len(born)

    def _rule(self, key: Key, texts: set[str], ruled: list[_Ruled], unheard: list[UUID]) -> None:
        """Enter the statements of one key that the question concerns: with their standing, or as not heard."""
        entries = [entry for entry in self._book.values() if entry.key == key]
        within = concerned((entry.statement for entry in entries), texts)
        standings = settle(saying for entry in entries if entry.counts for saying in entry.sayings)
        for entry in entries:
            standing = standings.get(entry.statement)
            if entry.statement.object not in within:
                continue
            if standing is None:
                unheard.append(entry.memory_id)
                continue
            by = standing.by if standing.state == "superseded" else None
            by_id = None if by is None else self._book[_spot(key, by)].memory_id
            labels = labels_for(standing, by_id, entry.labels, (saying for saying, _ in entry.said))
            ruled.append(_Ruled(entry, standing, labels))

    async def _bear(self, born: Sequence[_Ruled]) -> None:
        """First versions, with the labels of their standing, and what they state."""
        tx, place = self._tx, self._place
        offered = [(one, one.entry.offered) for one in born if one.entry.offered is not None]
        made = [
            (first.heard.session_id, fact_rows.memory_of(first.new, first.heard.event_id, one.labels))
            for one, first in offered
        ]
        kept = await batch.store_memories(
            tx,
            place,
            made,
            numbered=batch.Numbered((), {}),
            changed_version=self._changed_version,
            model=self._model,
            embeddings=self._embeddings.add,
        )
        if kept < len(made):
            raise StoreRefused("a fact is stored as a memory and not among the facts")
        facts = ((one.entry.memory_id, first.new.fact, one.standing) for one, first in offered)
        await tx.run_many("add_fact", (fact_rows.fact_row(place, *fact) for fact in facts))
        await tx.run_many("point_fact", (self._pointer(one, 1) for one in born if one.labels.superseded_by))
        await self._tell(born)

    async def _restate(self, known: Sequence[_Ruled]) -> None:
        """Write what has changed of facts that the store has; one that was only said again shows its new evidence."""
        tx, place = self._tx, self._place
        changed = [one for one in known if one.entry.said or one.labels != one.entry.labels]
        await tx.run_many(
            "set_fact",
            (fact_rows.set_row(place, one.entry.memory_id, one.entry.statement, one.standing) for one in changed),
        )
        renewed = [one for one in changed if _needs_version(one, place.now)]
        old = [(place.tenant, one.entry.memory_id, one.labels.version) for one in renewed]
        await tx.run_many("close_version", ((place.tenant, one.entry.memory_id, place.now) for one in renewed))
        versions = ((*which, place.now, *one.labels.of_version) for which, one in zip(old, renewed, strict=True))
        await tx.run_many("next_fact_version", versions)
        await tx.run_many("copy_provenance", ((*which, place.now, "reconcile") for which in old))
        await tx.run_many(self._embeddings.copy, old)
        points = (self._pointer(one, one.labels.version + _needs_version(one, place.now)) for one in changed)
        await tx.run_many("point_fact", points)
        await tx.run_many("renew_expiry", (self._renewal(one) for one in changed if one.entry.said))
        await self._part([one for one in changed if one.entry.labels is not None and one.entry.labels.is_merged])
        await self._tell(changed)

    async def _part(self, merged: Sequence[_Ruled]) -> None:
        """Facts that stand behind another no more take back what they gave it."""
        for one in merged:
            behind = None if one.entry.labels is None else one.entry.labels.superseded_by
            if behind is None or one.labels.superseded_by == behind:
                continue
            for name in ("take_sayings_back", "take_evidence_back"):
                await self._tx.run(name, self._place.tenant, behind, one.entry.memory_id)
            await self._tx.run("touch_memory", self._place.tenant, behind, self._changed_version)
            self.parted.add(behind)

    def _pointer(self, one: _Ruled, version: int) -> tuple[Any, ...]:
        """Parameters of point_fact."""
        by = (one.labels.superseded_by, one.labels.reason if one.labels.superseded_by else None)
        return (self._place.tenant, one.entry.memory_id, version, self._changed_version, *by, self._place.now)

    def _renewal(self, one: _Ruled) -> tuple[Any, ...]:
        """Parameters of renew_expiry."""
        _, latest = one.entry.said[-1]
        version = one.labels.version + _needs_version(one, self._place.now)
        return (self._place.tenant, one.entry.memory_id, version, latest.new.memory.expires_at)

    async def _tell(self, ruled: Sequence[_Ruled]) -> None:
        """Lines of the feed for what was superseded, and for what holds again."""
        superseded: dict[UUID, outbox.Labels] = {}
        revalidated: list[UUID] = []
        for one in ruled:
            before = None if one.entry.labels is None else one.entry.labels.superseded_by
            now = one.labels.superseded_by
            if now is not None and before is None:
                reason = (one.labels.reason or "").replace(" ", "_")
                superseded[one.entry.memory_id] = {"superseded_by": now, "reason": reason}
            elif now is None and before is not None:
                revalidated.append(one.entry.memory_id)
        await outbox.announce_events(self._tx, self._place, "superseded", superseded, metadata=superseded)
        await outbox.announce_events(self._tx, self._place, "revalidated", revalidated)

    async def _add_evidence(self, entries: Sequence[_Entry]) -> None:
        """Where and when each fact was said now, and the turns that its memory rests on from now on."""
        said = [(entry.memory_id, saying, one) for entry in entries for saying, one in entry.said]
        sayings = (fact_rows.saying_row(self._place, of, one.heard.event_id, saying) for of, saying, one in said)
        await self._tx.run_many("add_saying", sayings)
        place = self._place
        evidence = (
            (place.tenant, entry.memory_id, one.heard.event_id, place.scope_id, *one.new.fact.span)
            for entry in entries
            for _, one in entry.said
            if one is not entry.offered  # a new memory rests on its first turn already
        )
        await self._tx.run_many("add_evidence", evidence)


def _spot(key: Key, statement: Statement) -> _Spot:
    return key, statement.object, statement.negated


def _needs_version(one: _Ruled, now: datetime) -> bool:
    """Where its labels change, and where it is said anew behind its end: as of between the two it was not there."""
    old = one.entry.labels
    if old is None:
        return False
    has_ended = bool(one.entry.said) and old.expires_at is not None and old.expires_at <= now
    return has_ended or old.of_version != one.labels.of_version
