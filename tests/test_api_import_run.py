"""An import under way, against a store that can be slow, away, or lose what it was given."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import pytest

from memory.chain import Digest
from memory.errors import NotFound, StoreUnavailable
from memory.ids import new_id
from memory.model import ImportChunk, LineConflict, Scope
from memory.places import Places
from memory.stored import ImportProgress, Page, SessionRecord, StoredTurn
from proxy.api import import_run
from proxy.api.import_lines import EDITED_TYPE, NotYet, Record
from proxy.api.import_run import CHUNK_LINES_MAX, CHUNKS_IN_FLIGHT_MAX, ImportRun, Order, Tools
from tests.waiting import until

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
SCOPE = Scope(UUID(int=1), "ada")


@dataclass
class Store:
    """A write path in memory: takes chunks, stores them when told to."""

    where: Literal["queue", "spool", "none"] = "queue"
    stores: bool = True
    away: bool = False
    loses: bool = False
    buries: bool = False  # while others have entries that wait
    empties: bool = False  # nothing waits once it was taken
    going: bool = False
    forgets: bool = False
    comes_back_after_s: float = 0.0
    chunks: list[ImportChunk] = field(default_factory=list)
    turns: dict[str, list[StoredTurn]] = field(default_factory=dict)
    conflicts: tuple[LineConflict, ...] = ()
    records: list[Record] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    places: Places = field(default_factory=lambda: Places(4, None))
    window: Places = field(default_factory=lambda: Places(64, 0.05))
    under_way: int = 0
    under_way_most: int = 0

    async def import_chunk(self, chunk: ImportChunk) -> Literal["queue", "spool", "none"]:
        if self.where != "none":
            self.chunks.append(chunk)
        self.under_way += 1
        self.under_way_most = max(self.under_way_most, self.under_way)
        await asyncio.sleep(self.comes_back_after_s)
        self.under_way -= 1
        return self.where

    async def import_progress(self, scope: Scope, import_id: UUID, seen: int = 0) -> ImportProgress:
        assert scope == SCOPE
        if self.away:
            raise StoreUnavailable("away")
        if not self.stores or self.loses or self.buries:
            return ImportProgress(0, 0, 0, ())
        self.asked.append(seen)
        lines = sum(len(chunk.lines) for chunk in self.chunks if chunk.import_id == import_id)
        failed = len(self.conflicts)
        errors = self.conflicts[seen * CHUNK_LINES_MAX :]
        return ImportProgress(len(self.chunks), lines - failed, failed, errors, len(self.chunks))

    async def session(self, scope: Scope, name: str) -> SessionRecord:
        if name not in self.turns:
            raise NotFound("no such session")
        return SessionRecord(UUID(int=2), name, len(self.turns[name]), 0, 0, None, NOW, NOW, None, {})

    async def session_turns(
        self, scope: Scope, session_id: UUID, *, limit: int, after_seq: int = -1
    ) -> Page[StoredTurn]:
        rows = [turn for turn in self.turns["s"] if turn.seq > after_seq][:limit]
        return Page(tuple(rows), None)

    async def waiting(self) -> int:
        return 0 if self.loses or self.empties else len(self.chunks)

    async def dead(self) -> list[UUID]:
        return [chunk.exchange_id for chunk in self.chunks if self.buries]

    async def forgotten(self) -> bool:
        return self.forgets

    async def take(self, record: Record) -> None:
        if record.kind == EDITED_TYPE:
            turns = {line.source_id for chunk in self.chunks for line in chunk.lines} if self.stores else set()
            if record.value["source_ids"][0] not in turns:
                raise NotYet("it is not here")
        self.records.append(record)

    def run(self, *, wait: bool = True, scope: Scope = SCOPE) -> ImportRun:
        order = Order(scope, "new", trusted=True, on_conflict="error", wait=wait, now=NOW)
        tools = Tools(
            self,
            self,
            self,
            self.waiting,
            self.dead,
            self.forgotten,
            lambda: self.going,
            self,
            self.places,
            self.window,
        )
        return ImportRun(order, tools)


def lines(count: int, first: int = 0) -> bytes:
    return b"".join(
        json.dumps({"role": "user", "content": f"line {n}"}).encode() + b"\n" for n in range(first, first + count)
    )


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
        await asyncio.sleep(0)


async def imported(run: ImportRun, *chunks: bytes) -> list[tuple[int, str]]:
    async with asyncio.timeout(30):
        await asyncio.gather(run.feed(stream(*chunks)), run.follow())
    return run.take_errors()


async def test_every_line_is_handed_over_once_and_in_order() -> None:
    store = Store()
    run = store.run()
    errors = await imported(run, lines(70), b"not json\n\n", lines(80, 70))
    taken = [one for chunk in store.chunks for one in chunk.lines]
    assert [one.content for one in taken] == [f"line {n}" for n in range(150)]
    assert [one.line for one in taken] == [*range(1, 71), *range(73, 153)]
    assert [chunk.chunk for chunk in store.chunks] == [0, 1, 2]
    assert max(len(chunk.lines) for chunk in store.chunks) == CHUNK_LINES_MAX
    assert [line for line, _ in errors] == [71]
    assert run.counts.as_line() == {"accepted": 150, "done": 150, "failed": 1}


@pytest.mark.parametrize("other", [Scope(UUID(int=2), "bob"), Scope(UUID(int=1), "eve")])
async def test_many_imports_hand_over_in_turns_and_anothers_has_the_next(other: Scope) -> None:
    store = Store(places=Places(2, None))
    crowd = [store.run(wait=False, scope=SCOPE) for _ in range(20)]
    async with asyncio.timeout(30):
        feeding = [asyncio.create_task(run.feed(stream(lines(200)))) for run in crowd]
        while len(store.chunks) < 8:
            await asyncio.sleep(0)
        before = len(store.chunks)
        await store.run(wait=False, scope=other).feed(stream(lines(10)))
        assert [chunk.scope for chunk in store.chunks].index(other) <= before + 2
        await asyncio.gather(*feeding)
    assert store.under_way_most == 2
    assert len(store.chunks) == 20 * 4 + 1


@pytest.mark.parametrize("other", [Scope(UUID(int=2), "bob"), Scope(UUID(int=1), "eve")])
async def test_what_stands_before_a_small_import_is_bounded_beside_a_hundred_large_ones(other: Scope) -> None:
    store = Store(stores=False, window=Places(8, 60.0))
    crowd = [store.run() for _ in range(100)]
    feeding = [asyncio.create_task(run.feed(stream(lines(300)))) for run in crowd]
    small = store.run(scope=other)
    await until(lambda: store.window._waiting)
    feeding.append(asyncio.create_task(small.feed(stream(lines(10)))))
    await until(lambda: other.user in store.window._waiting.get(other.tenant, {}) and len(store.chunks) >= 8)
    assert len(store.chunks) == 8
    ended = next(run for run in crowd if run._sent)
    ended._sent.popleft()
    ended._let_go()  # one chunk is stored
    await until(lambda: len(store.chunks) == 9)
    assert store.chunks[-1].scope == other
    for task in feeding:
        task.cancel()
    await asyncio.wait(feeding)
    for run in (*crowd, small):
        run.leave()
    assert store.window._taken == 0


async def test_an_import_that_waits_for_the_window_ends_with_its_process() -> None:
    store = Store(window=Places(1, 0.01))
    async with store.window.turn(UUID(int=2), "bob"):
        run = store.run()
        feeding = asyncio.create_task(run.feed(stream(lines(10))))
        await until(lambda: store.window._waiting)
        store.going = True
        await feeding
    assert run.stopped
    assert store.window._taken == 0


def edit(source_id: str, more: str = "") -> bytes:
    value = {"type": "memory", "edited": {}, "source_ids": [source_id], "content": more}
    return json.dumps(value).encode() + b"\n"


def sourced(*source_ids: str) -> bytes:
    said = [{"role": "user", "content": f"I said {one}", "source_id": one} for one in source_ids]
    return b"".join(json.dumps(value).encode() + b"\n" for value in said)


@pytest.mark.parametrize("wait", [True, False])
async def test_edits_are_taken_once_the_turns_of_the_whole_upload_are_stored(wait: bool) -> None:
    store = Store(stores=False)
    run = store.run(wait=wait)
    importing = asyncio.create_task(imported(run, edit("a"), edit("z"), sourced("a", "b"), edit("b")))
    await until(lambda: len(store.chunks) == 1)
    assert store.records == [] and not importing.done()
    store.stores = True
    assert await importing == [(2, "it is not here")]
    assert [one.line for one in store.records] == [1, 5]
    assert (run.counts.accepted, run.counts.refused) == (4, 1)


async def test_edits_that_do_not_fit_are_taken_before_the_upload_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_run, "LATER_BYTES_MAX", 1_000)
    store = Store()
    run = store.run()
    upload = [sourced("a"), edit("a", "x" * 700), edit("b", "x" * 300), edit("c", "x" * 600), sourced("b", "c")]
    assert await imported(run, *upload) == [(4, "it is not here")]
    assert [one.line for one in store.records] == [2, 3]


async def test_lines_that_arrive_and_stop_are_durable_at_once() -> None:
    store = Store()
    run = store.run()
    going_on = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield lines(3)
        yield b""
        await going_on.wait()

    feeding = asyncio.create_task(run.feed(slow()))
    await until(lambda: run.counts.accepted == 3)
    assert [len(chunk.lines) for chunk in store.chunks] == [3]
    going_on.set()
    await feeding


async def test_the_upload_waits_for_the_store_and_goes_on_with_it() -> None:
    store = Store(stores=False)
    run = store.run()
    work = asyncio.gather(run.feed(stream(lines(CHUNK_LINES_MAX * (CHUNKS_IN_FLIGHT_MAX + 5)))), run.follow())
    await until(lambda: len(store.chunks) == CHUNKS_IN_FLIGHT_MAX)
    await asyncio.sleep(0.05)
    assert len(store.chunks) == CHUNKS_IN_FLIGHT_MAX
    store.stores = True
    async with asyncio.timeout(30):
        await work
    assert run.counts.as_line() == {"accepted": 37 * 64, "done": 37 * 64, "failed": 0}
    assert not run.stopped


async def test_a_chunk_that_is_stored_before_its_hand_off_has_come_back_is_stored_all_the_same() -> None:
    store = Store(comes_back_after_s=0.1)
    run = store.run()
    assert await imported(run, lines(CHUNK_LINES_MAX * 3)) == []
    assert run.counts.as_line() == {"accepted": 3 * 64, "done": 3 * 64, "failed": 0}
    assert not run.stopped


async def test_without_wait_the_answer_ends_while_the_store_is_away() -> None:
    store = Store(away=True)
    run = store.run(wait=False)
    assert await imported(run, lines(CHUNK_LINES_MAX * (CHUNKS_IN_FLIGHT_MAX + 5))) == []
    assert run.counts.as_line() == {"accepted": 37 * 64, "done": 0, "failed": 0}
    assert not run.stopped


async def test_a_store_that_comes_back_ends_the_import() -> None:
    store = Store(away=True)
    run = store.run()
    work = asyncio.gather(run.feed(stream(lines(5))), run.follow())
    await until(lambda: run.counts.accepted == 5)
    assert not work.done()
    store.away = False
    async with asyncio.timeout(30):
        await work
    assert run.counts.as_line() == {"accepted": 5, "done": 5, "failed": 0}


async def test_what_is_not_durable_is_not_accepted() -> None:
    store = Store(where="none")
    run = store.run()
    errors = await imported(run, lines(3))
    assert run.stopped
    assert run.counts.accepted == 0
    assert [line for line, _ in errors] == [1]
    assert "not durable" in errors[0][1]


async def test_a_draining_process_says_what_was_not_accepted() -> None:
    store = Store(going=True)
    run = store.run()
    errors = await imported(run, lines(3))
    assert run.stopped
    assert errors[0][0] == import_run.UPLOAD


async def test_a_draining_process_does_not_wait_for_what_is_yet_to_be_stored() -> None:
    store = Store(stores=False)
    run = store.run()
    work = asyncio.gather(run.feed(stream(lines(3))), run.follow())
    await until(lambda: run.counts.accepted == 3)
    store.going = True
    async with asyncio.timeout(5):
        await work
    assert run.stopped
    assert run.counts.as_line() == {"accepted": 3, "done": 0, "failed": 0}
    assert [line for line, why in run.take_errors() if "is kept" in why] == [import_run.UPLOAD]


async def test_a_conflict_that_the_store_found_is_told_once() -> None:
    store = Store(conflicts=(LineConflict(2, "known with another content"),))
    run = store.run()
    assert await imported(run, lines(3)) == [(2, "known with another content")]
    assert run.counts.as_line() == {"accepted": 3, "done": 2, "failed": 1}


async def test_of_chunks_that_are_stored_the_conflicts_are_asked_for_once() -> None:
    """All of them were read each time: of 200,000 lines that failed that held up whatever else the process serves."""
    number = 3 * CHUNK_LINES_MAX
    store = Store(conflicts=tuple(LineConflict(n + 1, "known") for n in range(number)))
    run = store.run()
    going_on = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield lines(number)
        await going_on.wait()

    work = asyncio.gather(run.feed(slow()), run.follow())
    await until(lambda: len(store.asked) > 2)
    going_on.set()
    await work
    assert (store.asked[0], store.asked[-1]) == (0, 3)
    assert [line for line, _ in run.take_errors()] == [*range(1, number + 1)]


@pytest.mark.parametrize("store", [Store(loses=True), Store(buries=True)], ids=["nobody waits", "others wait"])
async def test_dead_letters_end_the_import(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr(import_run, "_STALLED_S", 0.05)
    run = store.run()
    errors = await imported(run, lines(3))
    assert run.stopped
    assert run.counts.as_line() == {"accepted": 3, "done": 0, "failed": 3}
    assert "dead letters" in errors[0][1]


async def test_an_import_whose_user_is_forgotten_ends_and_says_so_while_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is refused as a whole leaves nothing in the store, not even that it was."""
    monkeypatch.setattr(import_run, "_STALLED_S", 0.05)
    run = Store(stores=False, forgets=True).run()
    errors = await imported(run, lines(3))
    assert errors == [(0, "3 lines could not be stored: their user or project was forgotten meanwhile")]
    assert run.counts.as_line() == {"accepted": 3, "done": 0, "failed": 3}


async def test_a_store_that_goes_when_all_is_stored_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_run, "_STALLED_S", 0.05)
    store = Store(empties=True)
    run = store.run()
    work = asyncio.create_task(imported(run, lines(3)))
    await until(lambda: bool(store.chunks))
    store.away = True
    await asyncio.sleep(0.5)
    store.away = False
    assert await work == []
    assert run.counts.as_line() == {"accepted": 3, "done": 3, "failed": 0}


async def test_bad_lines_that_nobody_reads_stop_the_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_run, "ERRORS_HELD_MAX", 10)
    run = Store().run()
    errors = await imported(run, b"x\n" * 11, lines(3))
    assert run.stopped
    assert run.counts.accepted == 0
    assert errors[-1][0] == import_run.UPLOAD


HELLO = StoredTurn(
    event_id=UUID(int=9), session_id=UUID(int=2), exchange_id=UUID(int=3), seq=0, chain=Digest(bytes(32)), attempt=0,
    role="user", name=None, content="hello", tool_calls=None, tool_call_id=None, source_id=None, origin="live",
    integrity="user", sensitivity="internal", model=None, redactions=0, token_count=1, occurred_at=NOW,
    recorded_at=NOW,
)  # fmt: skip


def exported(turn: StoredTurn) -> dict[str, Any]:
    """The line of an export."""
    return {
        "type": "turn",
        "event_id": str(turn.event_id),
        "session": "s",
        "seq": turn.seq,
        "role": "user",
        "content": "hello",
        "occurred_at": "2026-11-21T09:30:00Z",
    }


async def test_some_lines_of_an_export_are_known_however_far_apart_they_stand() -> None:
    turns = [dataclasses.replace(HELLO, event_id=UUID(int=n + 1), seq=n) for n in range(6_000)]
    store = Store(turns={"s": turns})
    run = store.run()
    some = [0, 1, 2, *range(100, 6_000, 100), 5_998, 5_999]
    assert await imported(run, b"\n".join(json.dumps(exported(turns[n])).encode() for n in some)) == []
    assert (store.chunks, run.counts.as_line()["done"]) == ([], len(some))


async def test_what_was_exported_from_here_is_known_here() -> None:
    event_id, line = HELLO.event_id, exported(HELLO)
    store = Store(turns={"s": [HELLO]})
    run = store.run()
    assert await imported(run, json.dumps(line).encode()) == []
    assert store.chunks == []
    assert run.counts.as_line() == {"accepted": 1, "done": 1, "failed": 0}
    of_a_copy = {**line, "event_id": str(new_id()), "source_id": str(event_id)}
    back = store.run()
    assert await imported(back, json.dumps(of_a_copy).encode()) == []
    assert (store.chunks, back.counts.as_line()) == ([], {"accepted": 1, "done": 1, "failed": 0})
    changed = store.run()
    await imported(changed, json.dumps({**line, "content": "other"}).encode())
    assert [one.source_id for chunk in store.chunks for one in chunk.lines] == [str(event_id)]


async def test_what_comes_back_from_a_copy_is_known_by_the_source_id_that_it_has_of_its_client() -> None:
    """Its first line may have said less than an export does, so no digest tells that it is the same."""
    store = Store(turns={"s": [dataclasses.replace(HELLO, source_id="mail-7")]})
    of_a_copy = {**exported(HELLO), "event_id": str(new_id()), "source_id": "mail-7"}
    back, changed = store.run(), store.run()
    assert await imported(back, json.dumps(of_a_copy).encode()) == []
    assert (store.chunks, back.counts.as_line()) == ([], {"accepted": 1, "done": 1, "failed": 0})
    await imported(changed, json.dumps({**of_a_copy, "content": "other"}).encode())
    assert [one.source_id for chunk in store.chunks for one in chunk.lines] == ["mail-7"]


async def test_a_client_that_leaves_costs_nothing_that_was_accepted() -> None:
    store = Store()
    run = store.run()
    gate = asyncio.Event()

    async def left() -> AsyncIterator[bytes]:
        yield lines(3)
        yield b""
        gate.set()
        await asyncio.sleep(60)

    feeding = asyncio.create_task(run.feed(left()))
    await gate.wait()
    feeding.cancel()
    await asyncio.wait([feeding])
    assert [one.content for chunk in store.chunks for one in chunk.lines] == ["line 0", "line 1", "line 2"]
