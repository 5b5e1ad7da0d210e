"""What a checkpoint gives a prompt: in its order, under the law of now, and nothing where it cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest

from memory.checkpoints import NamedPart, Restored, Said, ToLoad
from memory.errors import NotFound, StoreUnavailable
from memory.ids import is_words, new_id
from memory.model import IndexRow, Quoted, Scope, ScopeId, ScopeVersion
from memory.read.items import Filter
from memory.read.personas import Personas
from memory.read.restore import InPrompt, Restorer, mark_of, parts_placed, read_mark, restored_in_time, styled_in_time
from policies.checkpoint import Part
from policies.labels import Sensitivity
from policies.persona import style_of

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
SCOPE = Scope(UUID(int=1))
SESSION = UUID(int=9)
IDS = [UUID(int=(1 << 100) + n) for n in range(8)]


def row(memory_id: UUID, text: str, *, kind: str = "working", sensitivity: str = "internal", ends: int = 0) -> IndexRow:
    return IndexRow(
        memory_id=memory_id,
        version=1,
        kind=kind,
        role="user",
        content=text,
        context="",
        occurred_at=NOW,
        session_id=SESSION,
        seq=0,
        integrity="user",
        sensitivity=sensitivity,
        importance=0.5,
        expires_at=NOW + timedelta(hours=ends) if ends else None,
        scope_id=7,
        source_ids=(),
        event_ids=(),
        windows=((0, len(text)),),
        vectors=np.zeros((1, 4), np.float32),
        visible=True,
        changed_version=1,
        chain=None,
    )


@dataclass
class Store:
    """A store of one checkpoint and one persona."""

    parts: list[tuple[Part, UUID]]
    rows: dict[UUID, Quoted]
    saved: dict[UUID, Said] = field(default_factory=dict)
    turns: dict[UUID, frozenset[bytes]] = field(default_factory=dict)
    away: bool = False

    def _here(self) -> None:
        if self.away:
            raise StoreUnavailable("away")

    async def checkpoint(self, scope: Scope, name: str, as_of: datetime | None) -> ToLoad | None:
        self._here()
        return await self.checkpoint_version(scope, UUID(int=3), 1) if name == "camp" else None

    async def checkpoint_version(self, scope: Scope, checkpoint_id: UUID, version: int) -> ToLoad | None:
        parts = tuple(NamedPart(part, one, 1, own=True) for part, one in self.parts)
        return ToLoad(checkpoint_id, version, SESSION, parts) if checkpoint_id == UUID(int=3) else None

    async def persona(self, scope: Scope, name: str) -> UUID | None:
        self._here()
        return IDS[7] if name == "own" else None

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        return [self.rows[one] for one in memory_ids if one in self.rows]

    async def words(self, tenant: UUID, scope_ids: Sequence[int], versions: Mapping[UUID, int]) -> Mapping[UUID, Said]:
        return {one: self.saved[one] for one in versions if one in self.saved}

    async def given(self, scope: Scope, session_id: UUID, chars_max: int, limit: int) -> list[UUID]:
        return []

    async def quoted(self, scope: Scope, memory_ids: Sequence[UUID]) -> Mapping[UUID, frozenset[bytes]]:
        return {one: self.turns[one] for one in memory_ids if one in self.turns}

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return (ScopeVersion(ScopeId(7), 1, 0),)


def standing(memory_id: UUID, text: str, successor: UUID | None = None, **more: object) -> Quoted:
    hidden = more.pop("hidden", "")
    return Quoted(row(memory_id, text, **more), hidden, successor)  # type: ignore[arg-type]


def camp() -> Store:
    parts: list[tuple[Part, UUID]] = [("notes", IDS[0]), ("goal", IDS[1]), ("fact", IDS[2])]
    texts = {IDS[0]: "the ford", IDS[1]: "Alnwick", IDS[2]: "Bess is a mule"}
    rows = {one: standing(one, text, kind="semantic" if one == IDS[2] else "working") for one, text in texts.items()}
    return Store(parts, rows)


async def given(store: Store, where: Filter | None = None, **more: object) -> list[tuple[str, str]]:
    restorer = Restorer(store, lambda one: one)
    found = await restorer.of(SCOPE, "camp", where or Filter(), now=NOW, **more)  # type: ignore[arg-type]
    return [(one.role, one.content) for one in found.candidates]


async def test_parts_come_in_their_order_each_with_what_it_is() -> None:
    assert await given(camp()) == [("user, notes", "the ford"), ("user, goal", "Alnwick"), ("user", "Bess is a mule")]


@pytest.mark.parametrize("why", ["hidden", "quarantined", "rejected"])
async def test_what_no_prompt_gets_is_left_out(why: str) -> None:
    store = camp()
    store.rows[IDS[1]] = standing(IDS[1], "Alnwick", hidden=why)
    assert [text for _, text in await given(store)] == ["the ford", "Bess is a mule"]


async def test_what_is_gone_expired_or_too_sensitive_is_left_out() -> None:
    store = camp()
    del store.rows[IDS[0]]
    store.rows[IDS[1]] = standing(IDS[1], "Alnwick", ends=-1)
    store.rows[IDS[2]] = standing(IDS[2], "Bess is a mule", kind="semantic", sensitivity="confidential")
    assert await given(store, Filter(ceiling=Sensitivity.INTERNAL)) == []
    assert [text for _, text in await given(store)] == ["Bess is a mule"]
    with pytest.raises(NotFound):  # of another conversation than the token's: as if there were none
        await given(store, Filter(session_id=UUID(int=8)))


async def test_what_was_superseded_comes_as_what_holds_and_not_twice() -> None:
    store = camp()
    store.parts.append(("fact", IDS[3]))
    store.rows[IDS[2]] = standing(IDS[2], "Bess is a mule", IDS[3], kind="semantic")
    store.rows[IDS[3]] = standing(IDS[3], "Bess is a horse", IDS[4], kind="semantic")
    store.rows[IDS[4]] = standing(IDS[4], "Bess is a pony", kind="semantic")
    assert [text for _, text in await given(store)] == ["the ford", "Alnwick", "Bess is a pony"]


async def test_a_circle_of_successors_ends() -> None:
    store = camp()
    store.rows[IDS[2]] = standing(IDS[2], "one", IDS[3], kind="semantic")
    store.rows[IDS[3]] = standing(IDS[3], "two", IDS[2], kind="semantic")
    assert len(await given(store)) == 3


async def test_as_of_gives_the_words_that_were_saved_and_no_successor() -> None:
    store = camp()
    store.rows[IDS[2]] = standing(IDS[2], "Bess is a horse", IDS[3], kind="semantic")
    store.saved = {IDS[2]: Said("Bess is a mule", "internal", ""), IDS[0]: Said("the bridge", "internal", "")}
    assert [text for _, text in await given(store, as_of=NOW)] == ["the bridge", "Alnwick", "Bess is a mule"]


async def test_words_of_then_are_as_sensitive_as_they_were_and_cleaned_by_the_rules_of_now() -> None:
    store = camp()
    store.rows = {one: replace(known, row=replace(known.row, cleaned_by="new")) for one, known in store.rows.items()}
    store.saved = {
        IDS[0]: Said("the gate's code is 4711", "confidential", "new"),
        IDS[2]: Said("call 555", "internal", "old"),
    }

    def clean(one: IndexRow) -> IndexRow:
        return one if one.cleaned_by == "new" else replace(one, content=one.content.replace("555", "[phone]"))

    restorer, where = Restorer(store, clean), Filter(ceiling=Sensitivity.INTERNAL)
    found = await restorer.of(SCOPE, "camp", where, now=NOW, as_of=NOW)
    assert [one.content for one in found.candidates] == ["Alnwick", "call [phone]"]
    everything = await restorer.of(SCOPE, "camp", Filter(), now=NOW, as_of=NOW)
    assert everything.candidates[0].sensitivity == "confidential"


async def test_the_conversation_itself_is_not_told_its_own_goal() -> None:
    store, held = camp(), frozenset({b"one", b"two"})
    store.turns = {IDS[1]: frozenset({b"two", b"gone"}), IDS[2]: frozenset({b"two"})}
    assert [role for role, _ in await given(store, in_prompt=InPrompt(SESSION, held))] == ["user, notes", "user"]
    assert len(await given(store, in_prompt=InPrompt(UUID(int=4), held))) == 3


@pytest.mark.parametrize("turns", [{}, {IDS[1]: frozenset({b"of another branch"})}], ids=["own words", "a branch"])
async def test_the_conversation_itself_is_told_what_its_prompt_does_not_say(
    turns: dict[UUID, frozenset[bytes]],
) -> None:
    store = camp()
    store.turns = turns
    assert len(await given(store, in_prompt=InPrompt(SESSION, frozenset({b"one", b"two"})))) == 3


async def test_a_mark_says_which_version_and_what_is_gone_is_nothing() -> None:
    restorer = Restorer(camp(), lambda one: one)
    assert read_mark(mark_of(UUID(int=3), 70_000)) == (UUID(int=3), 70_000)
    loaded = await restorer.pending(SCOPE, mark_of(UUID(int=3), 1), Filter(), now=NOW)
    assert len(loaded.candidates) == 3 and loaded.pending
    gone = await restorer.pending(SCOPE, mark_of(UUID(int=4), 1), Filter(), now=NOW)
    assert gone == Restored(pending=True)


async def test_a_record_says_what_was_placed_but_for_words_of_ours() -> None:
    restorer = Restorer(camp(), lambda one: one)
    found = await restorer.of(SCOPE, "camp", Filter(), now=NOW)
    (style,) = await Personas(camp(), lambda one: one).of(SCOPE, style_of("concise"), Filter(), NOW)
    record = [
        {"id": str(one.memory_id), "version": one.version, "kind": one.kind, "section": one.section, "injected": True}
        for one in (*found.candidates, style)
    ]
    parts = parts_placed([*record, {**record[0], "id": str(new_id()), "injected": False}])
    assert [(one.part, one.memory_id) for one in parts] == [("notes", IDS[0]), ("goal", IDS[1]), ("fact", IDS[2])]
    again = await restorer.again(SCOPE, parts, Filter(), now=NOW, as_of=NOW)
    assert [replace(one, why="") for one in again] == [replace(one, why="") for one in found.candidates]


async def test_a_name_that_is_not_there_is_said_and_a_store_that_is_away_costs_only_the_checkpoint() -> None:
    store = camp()
    restorer = Restorer(store, lambda one: one)
    with pytest.raises(NotFound):
        await restored_in_time(restorer.of(SCOPE, "nowhere", Filter(), now=NOW), 1)
    store.away = True
    assert (await restored_in_time(restorer.of(SCOPE, "camp", Filter(), now=NOW), 1)).fault == "store"

    async def never() -> Restored:
        await asyncio.sleep(60)
        return Restored()

    assert (await restored_in_time(never(), 0.01)).fault == "deadline"


async def test_a_style_that_cannot_be_read_leaves_what_was_restored() -> None:
    store = camp()
    store.rows[IDS[7]] = standing(IDS[7], "The user asks for a dry tone.")
    personas, restorer = Personas(store, lambda one: one), Restorer(store, lambda one: one)
    restored = await restorer.of(SCOPE, "camp", Filter(), now=NOW)
    styled = await styled_in_time(restored, personas.of(SCOPE, style_of("own;verbosity=short"), Filter(), NOW), 1)
    assert [one.content for one in styled.candidates[3:]] == [
        "The user asks for a dry tone.",
        "The user asks for short answers.",
    ]
    assert [is_words(one.memory_id) for one in styled.candidates[3:]] == [False, True]
    with pytest.raises(NotFound):
        await styled_in_time(restored, personas.of(SCOPE, style_of("nobody"), Filter(), NOW), 1)
    store.away = True
    kept = await styled_in_time(restored, personas.of(SCOPE, style_of("own"), Filter(), NOW), 1)
    assert (kept.fault, kept.candidates) == ("store", restored.candidates)


async def test_who_leaves_in_the_moment_in_which_it_is_read_has_left() -> None:
    asked, here = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def reading() -> Restored:
        asked.set()
        await here
        return Restored()

    waiting = asyncio.create_task(restored_in_time(reading(), 60))
    await asked.wait()
    here.set_result(None)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
