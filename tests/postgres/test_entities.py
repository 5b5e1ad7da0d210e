"""People and things in Postgres: what ties them is answered and leaves whole, however much it is."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, get_args
from uuid import UUID

import numpy as np
import pytest

from memory.adapters.postgres import entity_ties, entity_words, own_memory
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.entity_store import EntityStore
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.read_store import ReadStore
from memory.adapters.postgres.records import Records
from memory.audit import Note, noted
from memory.entities import CARD, Entity, NewEntity, NewRelationship, Relationship, prints_of
from memory.errors import Conflict
from memory.ids import new_id
from memory.model import NewMemory, Scope
from memory.off_loop import OFF_LOOP_BYTES
from memory.read.hot import item_of
from memory.read.names import Names
from memory.stored import MemoryChange, Page
from policies.entity import Told, Type
from policies.gate import Holder
from proxy.api import export_records
from tests.postgres.seed import SUBJECT, T0, Stores, key_of, record_memory, stores
from tests.postgres.test_facts import fact, say, shown
from tests.postgres_fixture import TestDatabase

DAY = timedelta(days=1)


def memory(text: str, attributes: dict[str, Any]) -> NewMemory:
    return record_memory(text, "semantic", "entity", attributes)


@dataclass(frozen=True)
class Held:
    """A store of people and things."""

    store: EntityStore
    records: Records
    scope: Scope
    read: ReadStore
    made: Stores

    def new(self, name: str) -> NewEntity:
        card = memory(f"{name} (host).", {CARD: {"name": name, "type": "host"}})
        return NewEntity(new_id(), Told(name, "host"), card, False)

    async def add(self, name: str) -> UUID:
        new = self.new(name)
        return (await self.store.add(self.scope, SUBJECT, new, "open", now=T0, note=self.note())).entity_id

    async def tie(self, source: UUID, target: UUID, what: str = "feeds") -> Relationship:
        said = memory(f"one: {what} another.", {"relationship": {"type": what}})
        new = NewRelationship(new_id(), source, what, target, said, None, None)
        return await self.store.relate(self.scope, SUBJECT, new, now=T0, note=self.note())

    def note(self) -> Note:
        return noted(self.scope.tenant, "test", "entity.add", at=T0)


@pytest.fixture
async def held(postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Held]:
    monkeypatch.setattr(entity_ties, "EDGES_MAX", 3)
    async with stores(postgres) as made:
        audit = AuditLog(made.database, key_of)
        store = EntityStore(made.database, made.scopes, postgres.embeddings, audit)
        yield Held(store, Records(made.database, made.scopes, postgres.embeddings), made.scope(), made.read, made)


async def test_a_tie_is_answered_beyond_what_a_hop_looks_at(held: Held) -> None:
    hub, *others = [await held.add(name) for name in ("hub", "one", "two", "three", "four", "five")]
    for other in others:
        made = await held.tie(hub, other)
        assert (made.source, made.target) == (hub, other)


async def test_new_mexico_is_not_mexico(held: Held) -> None:
    old, new = await held.add("Mexico"), await held.add("the New Mexico")
    for name, one in (("mexico", old), ("New Mexico", new)):
        found = await held.store.named(held.scope, name, limit=9, cursor=None, types=get_args(Type))
        assert [entity.entity_id for entity in found.rows] == [one]


async def test_a_card_that_was_raised_while_it_was_being_changed_is_not_lowered(held: Held) -> None:
    known = await held.store.one(held.scope, await held.add("quay"))
    assert known.card_id is not None
    change = MemoryChange(sensitivity="confidential")
    await held.records.patch_memory(held.scope, known.card_id, 1, change, T0)
    read_before = replace(held.new("quay seven"), entity_id=known.entity_id)
    note = held.note()
    made = await held.store.change(held.scope, SUBJECT, known.version, read_before, "open", now=T0, note=note)
    assert (made.name, made.sensitivity) == ("quay seven", "confidential")


async def test_a_tie_is_as_sensitive_as_either_of_its_ends_becomes(held: Held) -> None:
    quay, mole, pier = [await held.add(name) for name in ("quay", "mole", "pier")]
    ties = [await held.tie(quay, mole), await held.tie(pier, quay), await held.tie(mole, pier)]
    known = await held.store.one(held.scope, quay)
    assert known.card_id is not None
    await held.records.patch_memory(held.scope, known.card_id, 1, MemoryChange(sensitivity="confidential"), T0)
    labels = [(await held.records.memory(held.scope, tie.memory_id)).sensitivity for tie in ties]
    assert labels == ["confidential", "confidential", "internal"]


async def test_a_tie_comes_back_with_its_ends_alone(held: Held) -> None:
    quay, mole = await held.add("quay"), await held.add("mole")
    tie = await held.tie(quay, mole)
    await held.store.delete(held.scope, quay, "open", now=T0, note=held.note())
    with pytest.raises(Conflict, match="deleted entity"):
        await held.records.undelete_memory(held.scope, tie.memory_id, T0)
    await held.store.undelete(held.scope, quay, "open", now=T0, note=held.note(), may=lambda _: None)
    await held.store.unrelate(held.scope, tie.relationship_id, now=T0, note=held.note())
    with pytest.raises(Conflict, match="deleted relationship"):
        await held.records.undelete_memory(held.scope, tie.memory_id, T0)


async def test_a_tie_whose_ends_come_back_one_by_one_is_told_once(held: Held, postgres: TestDatabase) -> None:
    quay, mole = await held.add("quay"), await held.add("mole")
    tie = await held.tie(quay, mole)
    for at, end in enumerate((quay, mole)):
        await held.store.delete(held.scope, end, "open", now=T0 + at * DAY, note=held.note())
    for end in (quay, mole):
        note, now = held.note(), T0 + 2 * DAY
        await held.store.undelete(held.scope, end, "open", now=now, note=note, may=lambda _: None)
    told = f"SELECT event FROM outbox WHERE object_id = '{tie.memory_id}' ORDER BY event_id"
    assert postgres.psql(told).split() == ["created", "deleted", "restored"]


async def test_a_merge_closes_no_circle_where_there_can_be_none(held: Held) -> None:
    room, house, street = [await held.add(name) for name in ("room", "house", "street")]
    await held.tie(room, house, "part_of")
    await held.tie(house, street, "part_of")
    with pytest.raises(Conflict) as refused:
        await held.store.merge(held.scope, room, street, "open", now=T0, note=held.note())
    assert (refused.value.param, str(house) in str(refused.value)) == ("into", True)
    assert (await held.store.one(held.scope, room)).merged_into is None
    both = await held.store.merge(held.scope, room, house, "open", now=T0, note=held.note())
    assert both.same == (room,)


async def test_one_that_is_brought_back_closes_no_circle(held: Held) -> None:
    room, house, street = [await held.add(name) for name in ("room", "house", "street")]
    await held.tie(room, house, "part_of")
    await held.tie(house, street, "part_of")
    await held.store.delete(held.scope, house, "open", now=T0, note=held.note())
    tie = await held.tie(street, room, "part_of")

    async def back() -> Entity:
        return await held.store.undelete(held.scope, house, "open", now=T0, note=held.note(), may=lambda _: None)

    with pytest.raises(Conflict):
        await back()
    await held.store.unrelate(held.scope, tie.relationship_id, now=T0, note=held.note())
    assert (await back()).entity_id == house


async def test_one_comes_back_beside_a_namesake_that_was_changed_meanwhile_and_not_beside_one_that_took_its_name(
    held: Held,
) -> None:
    def called(name: str, one: UUID | None = None) -> NewEntity:
        return replace(held.new(name), entity_id=one or new_id(), namesake=True)

    async def back() -> Entity:
        note = held.note()
        return await held.store.undelete(held.scope, gone, "open", now=T0 + 3 * DAY, note=note, may=lambda _: None)

    async def change(one: UUID, name: str) -> None:
        args = (held.scope, SUBJECT, (await held.store.one(held.scope, one)).version, called(name, one), "open")
        await held.store.change(*args, now=T0 + 2 * DAY, note=held.note())

    gone, other = await held.add("quay"), await held.add("mole")
    namesake = await held.store.add(held.scope, SUBJECT, called("quay"), "open", now=T0, note=held.note())
    await held.store.delete(held.scope, gone, "open", now=T0 + DAY, note=held.note())
    await change(namesake.entity_id, "quay")
    await change(other, "quay")
    with pytest.raises(Conflict, match=str(other)):
        await back()
    await change(other, "mole")
    assert (await back()).entity_id == gone


async def test_a_circle_is_found_among_more_ties_than_a_hop_looks_at(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_ties, "EDGES_MAX", 3)
    house, *rooms = [await held.add(name) for name in ("house", "one", "two", "three", "four", "five")]
    for room in rooms:
        await held.tie(house, room, "contains")
    with pytest.raises(Conflict) as refused:
        await held.tie(rooms[-1], house, "contains")
    assert str(rooms[-1]) in str(refused.value)
    with pytest.raises(Conflict):
        await held.tie(await _merged(held, rooms[-1]), house, "contains")


async def _merged(held: Held, into: UUID) -> UUID:
    """Another name of this one."""
    other = await held.add("parlour")
    return (await held.store.merge(held.scope, other, into, "open", now=T0, note=held.note())).entity_id


async def test_one_named_by_thousands_of_memories_is_not_read_with_all_of_them(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0

    async def counting(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        nonlocal most
        rows = await fetch(tx, query, *arguments)
        most = max(most, len(rows))
        return rows

    async with stores(postgres) as made:
        await say(made, fact("berlin"))
        postgres.psql(_MANY_ALIASES)
        fetch = Transaction.fetch
        monkeypatch.setattr(Transaction, "fetch", counting)
        await say(made, fact("berlin"), day=1)
    assert 0 < most < 100
    assert postgres.psql("SELECT count(DISTINCT entity_id) FROM entity_aliases") == "2"


async def test_whom_very_many_memories_name_is_read_by_parts_and_made_out_beside_the_loop(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, asked, parts = set[int](), Counter[str](), list[int]()

    def noting(said: Any) -> Any:
        ran.add(threading.get_ident())
        return names_in(said)

    def counting(tenant: UUID, scope_id: int, name: str) -> tuple[bytes, bytes]:
        asked[name] += 1
        return prints_of(tenant, scope_id, name)

    async def measuring(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        if query == "memories_standing":
            parts.append(len(arguments[-1]))
        return await fetch(tx, query, *arguments)

    names_in, fetch = entity_words.names_in, Transaction.fetch
    async with stores(postgres) as made:
        brothers = (fact(one, predicate="brother_name", cardinality="many") for one in ("tom", "jan", "ole"))
        await say(made, fact("berlin"), *brothers)
        monkeypatch.setattr(entity_words, "_AS_BYTES", OFF_LOOP_BYTES)
        monkeypatch.setattr(entity_words, "names_in", noting)
        monkeypatch.setattr(entity_words, "prints_of", counting)
        monkeypatch.setattr(own_memory, "STANDING_AT_ONCE", 3)
        monkeypatch.setattr(Transaction, "fetch", measuring)
        store = EntityStore(made.database, made.scopes, postgres.embeddings, AuditLog(made.database, key_of))
        page = await store.page(made.scope(), limit=50, cursor=None, types=get_args(Type))
    assert {one.name for one in page.rows} >= {"user", "berlin"}
    assert sorted(parts) == [1, 3]
    assert ran and threading.get_ident() not in ran
    assert set(asked.values()) == {1}


_MANY_ALIASES = """
SET session_replication_role = replica;
INSERT INTO entity_aliases (tenant_id, entity_id, memory_id, fingerprint, scope_id)
    SELECT tenant_id, entity_id, md5(n::text)::uuid, fingerprint, scope_id
    FROM entity_aliases, generate_series(1, 500) n ON CONFLICT DO NOTHING
"""


async def test_an_export_has_every_tie_once_beyond_what_a_hop_looks_at(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(*_: Any) -> list[Any]:
        return []

    async def nothing(*_: Any, **__: Any) -> Page[Any]:
        return Page((), None)

    monkeypatch.setattr(export_records, "_PAGE_ROWS", 2)
    hub, *others = [await held.add(name) for name in ("hub", "one", "two", "three", "four", "five", "six")]
    for other in others:
        await held.tie(hub, other)
    await held.tie(others[0], hub)
    await held.store.merge(held.scope, others[0], others[1], "open", now=T0, note=held.note())
    empty, personas = SimpleNamespace(page=nothing, some=nobody), SimpleNamespace(all_of=nobody)
    checkpoints = SimpleNamespace(store=empty)
    parts: Any = SimpleNamespace(
        personas=personas, entities=held.store, tasks=empty, checkpoints=checkpoints, records=None
    )
    pages = export_records.record_lines(parts, held.scope, Holder(held.scope.tenant))
    lines = [line async for page in pages for line in page]
    ties = [line["id"] for line in lines if line["type"] == "relationship"]
    assert (len(ties), len(set(ties))) == (7, 7)
    assert sum(line["type"] == "entity" for line in lines) == 6


async def test_a_merge_and_a_split_are_told_to_recall(held: Held) -> None:
    at, known = 0, dict[str, UUID | None]()

    async def whom() -> dict[str, UUID | None]:
        """Whom each memory names, by what recall is told since the last time."""
        nonlocal at
        (scope,) = await held.read.visible_scopes(held.scope)
        after: dict[int, int] = {scope.scope_id: at}
        async for rows in held.read.index_rows(held.scope.tenant, [scope.scope_id], after=after):
            known.update((row.content, row.entity) for row in rows if row.visible)
        at = scope.version
        return known

    anna, annie = await held.add("anna"), await held.add("annie")
    assert list((await whom()).values()) == [anna, annie]
    await held.store.merge(held.scope, annie, anna, "open", now=T0, note=held.note())
    assert list((await whom()).values()) == [anna, anna]
    await held.store.split(held.scope, annie, "open", now=T0, note=held.note())
    assert list((await whom()).values()) == [anna, annie]


async def test_a_name_that_is_added_to_one_who_was_learnt_is_known_to_recall_as_that_ones(held: Held) -> None:
    anna = fact("anna", predicate="sister_name", statement="The user's sister is called Anna.")
    await say(held.made, anna, fact("maribor", subject="sister", statement="The user's sister lives in Maribor."))
    (learnt,) = [row.entity for row in await shown(held.made) if row.attributes["object"] == "anna"]
    assert learnt is not None
    told = Told("Anna", "person", ("Annie",))
    card = memory(
        "Anna (person). Also called: Annie.", {CARD: {"name": "Anna", "type": "person", "aliases": ["Annie"]}}
    )
    new = NewEntity(learnt, told, card)
    await held.store.change(held.scope, SUBJECT, 1, new, "open", now=T0, note=held.note())
    rows = await shown(held.made)
    assert {row.entity for row in rows if "Anna" in row.content} == {learnt}
    names = Names()
    for slot, row in enumerate(rows):
        names.put(slot, item_of(row))
    asked = names.expanded({"anni": ()}, np.ones(len(rows), np.bool_))
    assert asked["anni"] == ("anna", "sister")
