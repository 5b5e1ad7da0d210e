"""One import under way: lines handed over in chunks in, counts and bad lines out, until all that was taken is stored.

Reading, following the store and telling the client run side by side and never wait for one another, but for the window:
only so much may be accepted and not stored. So a client that sends all before it reads cannot stall the import, and a
store that is away stops the upload instead of filling the queue. What was accepted stays, whatever becomes of the
client. Refuses to go on, with an error line and `complete: false`, when a chunk would not be durable, the process is
draining, or more bad lines wait unread than are held.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from memory.errors import MemoryProxyFault, QueueUnavailable, StoreUnavailable
from memory.ids import new_id
from memory.model import ImportChunk, ImportLine, OnConflict, Scope
from memory.places import Places
from memory.stored import ImportProgress
from memory.write.hand_off import Where
from proxy.api.import_lines import (
    EDITED_TYPE,
    Defaults,
    Derived,
    Given,
    LineCutter,
    LineRefused,
    NotYet,
    RawLine,
    Record,
    read_line,
)
from proxy.api.known_turns import ReadsSessions, stands_there, stored_turns
from proxy.api.parts import ImportProgresses, TakesChunks

CHUNK_LINES_MAX: Final = 64
CHUNK_BYTES_MAX: Final = 262_144
IDLE_S: Final = 0.05
POLL_S: Final = 0.2
CHUNKS_IN_FLIGHT_MAX: Final = 32
# Where the answer does not wait for the store, accepted lines wait in the queue: so much of one import, in bytes.
BYTES_IN_FLIGHT_MAX: Final = 67_108_864
ERRORS_HELD_MAX: Final = 100_000
# Records that name what has not come yet are tried again at the end: so many bytes of them.
LATER_BYTES_MAX: Final = 16_777_216
# Lines longer than this are parsed off the event loop: 1 MiB of JSON takes about 10 ms.
_PARSED_APART_BYTES: Final = 1_048_576
_FIRST_POLL_S: Final = 0.02
# Without progress for so long, it is asked whether anything still waits: else the rest lies among the dead letters.
_STALLED_S: Final = 2.0
# Adding up the chunks of an import of a million lines takes time: asking takes at most a fifth of it.
_ASKING_SHARE: Final = 4
UPLOAD: Final = 0  # the "line" of what concerns the upload as a whole


@dataclass(frozen=True, slots=True)
class Order:
    """What one call wants. `session` is where lines without one go; `ceiling`: above this label it sees nothing."""

    scope: Scope
    session: str
    trusted: bool
    on_conflict: OnConflict
    wait: bool
    now: datetime
    hide: Callable[[str], str] = str
    ceiling: str | None = None


class TakesRecords(Protocol):
    """Keeps the records of an export."""

    async def take(self, record: Record) -> None:
        """Keep one. Raises LineRefused, NotYet for one that names what may come later, StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What an import works with. `waiting` counts entries not stored yet, of everybody; `dead` are those of the tenant
    that will not be; `forgotten`: whether the user or the project of the order was since; `draining`: this process is
    going; `turns` are those of all imports to hand a chunk over, `window` what of all that wait may be handed over and
    not stored: in a lane a chunk stands behind those that came before, whoever sent them.
    """

    capture: TakesChunks
    progress: ImportProgresses
    sessions: ReadsSessions
    waiting: Callable[[], Awaitable[int]]
    dead: Callable[[], Awaitable[Collection[UUID]]]
    forgotten: Callable[[], Awaitable[bool]]
    draining: Callable[[], bool]
    records: TakesRecords
    turns: Places
    window: Places


@dataclass(slots=True)
class _Held:
    """Records that wait for what comes behind them, with their sizes; `size`: bytes of all."""

    records: list[tuple[Record, int]] = field(default_factory=list)
    size: int = 0

    def keep(self, record: Record, size: int) -> None:
        """One more."""
        self.records.append((record, size))
        self.size += size

    def taken_out(self) -> list[tuple[Record, int]]:
        """All; none are left."""
        records, self.records, self.size = self.records, [], 0
        return records


@dataclass(slots=True)
class Counts:
    """Lines so far. `refused` never were accepted; `passed_over` needed nothing; `lost` are dead letters."""

    accepted: int = 0
    passed_over: int = 0
    refused: int = 0
    lost: int = 0
    stored: ImportProgress = field(default_factory=lambda: ImportProgress(0, 0, 0, ()))

    def as_line(self) -> dict[str, int]:
        """The progress line."""
        done = self.passed_over + self.stored.done
        return {"accepted": self.accepted, "done": done, "failed": self.refused + self.stored.failed + self.lost}


class Stopped(Exception):
    """The import cannot go on; the text is for the client."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.why = why


class ImportRun:
    """One import: `feed` and `follow` run side by side, `take_errors` and `counts` are what is told."""

    def __init__(self, order: Order, tools: Tools) -> None:
        self._order = order
        self._tools = tools
        self._import_id = new_id()
        self._defaults = Defaults(order.session, order.now, order.hide)
        self._cutter = LineCutter()
        self._lines: list[tuple[Given, ImportLine]] = []
        self._bytes = 0
        self._chunks = 0
        self._later = _Held()
        self._edits = _Held()
        self._sent: deque[int] = deque()  # bytes of the chunks not known to be stored, oldest first
        self._sent_bytes = 0
        self._in_window = 0
        self._is_coming = False
        self._ids: set[UUID] = set()  # of every chunk
        self._room = asyncio.Event()
        self._fed = False
        self._errors: deque[tuple[int, str]] = deque()
        self._told: set[int] = set()
        self._seen = 0  # chunks, from the first on, whose bad lines are told
        self._handing_over: set[asyncio.Task[Where]] = set()
        self.counts = Counts()
        self.stopped = False

    def take_errors(self) -> list[tuple[int, str]]:
        """The bad lines that have not been told yet."""
        taken = list(self._errors)
        self._errors.clear()
        return taken

    async def feed(self, arriving: AsyncIterator[bytes]) -> None:
        """Take the upload in. `arriving` yields what came, and b"" when nothing did for IDLE_S."""
        try:
            async for arrived in arriving:
                for raw in self._cutter.feed(arrived):
                    await self._take(raw)
                if not arrived:
                    await self._hand_over()
                self._check()
            for raw in self._cutter.finish():
                await self._take(raw)
            await self._hand_over()
            await self._take_later()
            await self._take_edits(last=True)
        except Stopped as stop:
            self._stop(stop.line, stop.why)
        except MemoryProxyFault as fault:
            self._stop(UPLOAD, f"the import cannot go on: {fault}")
        self._fed = True

    async def follow(self) -> None:
        """Follow the store until all that was accepted is stored; without `wait`, until all was accepted."""
        delay, moved_at = _FIRST_POLL_S, time.monotonic()
        while not self._is_over():
            await asyncio.sleep(delay)
            if self._fed and self._tools.draining():
                self._stop(UPLOAD, "this process is going; what was accepted is kept and will be stored")
                return
            before, asked_at = self.counts.stored.chunks, time.monotonic()
            await self._ask_store()
            now = time.monotonic()
            if self.counts.stored.chunks != before or not self._sent:
                moved_at = now
            elif now - moved_at > _STALLED_S:
                await self._look_for_lost()
                moved_at = now
            delay = max(min(delay * 2, POLL_S), _ASKING_SHARE * (now - asked_at))

    def _is_over(self) -> bool:
        return self._fed and (self.stopped or not self._order.wait or not self._sent)

    def _stop(self, line: int, why: str) -> None:
        self.stopped = True
        self._errors.append((line, why))

    def _check(self) -> None:
        """Raise Stopped where the upload cannot be taken further."""
        if self._tools.draining():
            raise Stopped(UPLOAD, "this process is going; send what was not accepted again")
        if len(self._errors) > ERRORS_HELD_MAX:
            raise Stopped(UPLOAD, f"over {ERRORS_HELD_MAX} bad lines wait unread; read the answer while sending")

    # ------------------------------------------------------------ lines

    async def _take(self, raw: RawLine) -> None:
        """One line: validated, counted, and kept for the next chunk."""
        size = len(raw.content or b"")
        try:
            found = await asyncio.to_thread(read_line, raw) if size > _PARSED_APART_BYTES else read_line(raw)
        except LineRefused as refused:
            self._refuse(raw.number, refused)
            return
        if isinstance(found, Record) and found.kind == EDITED_TYPE:
            await self._keep_edit(found, size)
            return
        if isinstance(found, Record):
            await self._take_record(found, size, self._later, LATER_BYTES_MAX)
            return
        if isinstance(found, Derived):
            self.counts.accepted += 1
            self.counts.passed_over += 1
            return
        self._lines.append((found, self._defaults.line(found)))
        self._bytes += size
        if len(self._lines) >= CHUNK_LINES_MAX or self._bytes >= CHUNK_BYTES_MAX:
            await self._hand_over()

    def _refuse(self, line: int, why: LineRefused) -> None:
        self.counts.refused += 1
        self._errors.append((line, str(why)))

    async def _take_record(self, record: Record, size: int, held: _Held, bytes_max: int) -> None:
        """A record is stored, and so searchable, when it was taken. One that names what is not here yet is held, where
        no more than `bytes_max` are.
        """
        try:
            await self._tools.records.take(record)
        except NotYet as missing:
            if held.size + size > bytes_max:
                self._refuse(record.line, missing)
            else:
                held.keep(record, size)
        except LineRefused as refused:
            self._refuse(record.line, refused)
        else:
            self.counts.accepted += 1
            self.counts.passed_over += 1

    async def _keep_edit(self, edit: Record, size: int) -> None:
        """An edit waits for the turns behind it, as long as there is room."""
        self._edits.keep(edit, size)
        if self._edits.size > LATER_BYTES_MAX:
            await self._take_edits(last=False)

    async def _take_edits(self, *, last: bool) -> None:
        """Edits are of memories that are made of turns: these are stored first. What finds none is tried once more,
        unless this is the `last` time or it would fill half the room.
        """
        edits = self._edits.taken_out()
        if edits:
            await self._hand_over()
            await self._wait_for_stored()
        for edit, size in edits:
            self._check()
            await self._take_record(edit, size, self._edits, 0 if last else LATER_BYTES_MAX // 2)

    async def _take_later(self) -> None:
        """What named something that came behind it, until a round brings nothing."""
        before = -1
        while len(self._later.records) not in (0, before):
            later = self._later.taken_out()
            before = len(later)
            for record, size in later:
                self._check()
                await self._take_record(record, size, self._later, LATER_BYTES_MAX)
        for record, _ in self._later.records:
            self._refuse(record.line, NotYet("it names what is neither here nor in this upload"))

    async def _hand_over(self) -> None:
        """Make the lines kept so far durable. Raises Stopped when they are not, StoreUnavailable.

        In turns: a hundred imports whose chunks were accepted in the same moment would each read, pack and seal the
        next one before the event loop came to anybody else.
        """
        if not self._lines:
            return
        await self._wait_for_room()
        try:
            async with self._tools.turns.turn(self._order.scope.tenant, self._order.scope.user):
                await self._take_chunk()
        finally:
            self._is_coming = False
            self._let_go()

    async def _take_chunk(self) -> None:
        kept, size = self._lines, self._bytes
        self._lines, self._bytes = [], 0
        lines = await self._without_known(kept)
        if not lines:
            return
        order = self._order
        chunk = ImportChunk(
            exchange_id=new_id(),
            import_id=self._import_id,
            chunk=self._chunks,
            scope=order.scope,
            trusted=order.trusted,
            on_conflict=order.on_conflict,
            arrived_at=order.now,
            lines=lines,
            ceiling=order.ceiling,
        )
        if await self._shielded(chunk) == "none":
            raise Stopped(lines[0].line, "not durable: queue and spool both refuse; send from this line on again")
        self._chunks += 1
        self._ids.add(chunk.exchange_id)
        self._sent.append(size)
        self._sent_bytes += size
        self.counts.accepted += len(lines)
        self._settle()

    async def _shielded(self, chunk: ImportChunk) -> Where:
        """The hand-off, which a client that leaves does not cut short."""
        task = asyncio.create_task(self._handed_over(chunk))
        self._handing_over.add(task)
        task.add_done_callback(self._handing_over.discard)
        return await asyncio.shield(task)

    async def _handed_over(self, chunk: ImportChunk) -> Where:
        return await self._tools.capture.import_chunk(chunk)

    async def _wait_for_room(self) -> None:
        await self._wait_for_own_room()
        scope = self._order.scope
        if not self._order.wait:
            return
        while not await self._tools.window.take(scope.tenant, scope.user):
            self._check()
        self._in_window += 1
        self._is_coming = True

    async def _wait_for_own_room(self) -> None:
        while self._is_full():
            await self._moved()

    async def _wait_for_stored(self) -> None:
        """Until all that was handed over is stored, or known to be lost. Raises Stopped."""
        while self._sent:
            await self._moved()

    async def _moved(self) -> None:
        """The store was asked once more, or a second is over. Raises Stopped."""
        self._check()
        self._room.clear()
        try:
            async with asyncio.timeout(1.0):
                await self._room.wait()
        except TimeoutError:
            return

    def _is_full(self) -> bool:
        if self._order.wait:
            return len(self._sent) >= CHUNKS_IN_FLIGHT_MAX
        return self._sent_bytes >= BYTES_IN_FLIGHT_MAX

    async def _without_known(self, kept: list[tuple[Given, ImportLine]]) -> tuple[ImportLine, ...]:
        """Leaves out lines that were exported from this very scope, or a copy, and say what it has: they are done."""
        known = await stored_turns(self._tools.sessions, self._order.scope, (given for given, _ in kept))
        lines = tuple(line for given, line in kept if not stands_there(given, line, known))
        self.counts.accepted += len(kept) - len(lines)
        self.counts.passed_over += len(kept) - len(lines)
        return lines

    # ------------------------------------------------------------ the store

    async def _ask_store(self) -> bool:
        """How far it is; False where the store is away: it is asked again later."""
        try:
            progress = await self._tools.progress.import_progress(self._order.scope, self._import_id, self._seen)
        except StoreUnavailable:
            return False
        self.counts.stored = progress
        self._seen = max(self._seen, progress.whole)
        self._settle()
        for conflict in progress.errors:
            if conflict.line not in self._told:
                self._told.add(conflict.line)
                self._errors.append((conflict.line, conflict.error))
        self._room.set()
        return True

    def _settle(self) -> None:
        """Let go of what is known to be stored. A lane has one order, so chunks are stored as they were sent; one may
        be stored, and the store asked, before its hand-off has come back here.
        """
        while self._sent and self._chunks - len(self._sent) < self.counts.stored.chunks:
            self._sent_bytes -= self._sent.popleft()
        self._let_go()

    def leave(self) -> None:
        """It is over, however: nothing is waited for any more."""
        self._sent.clear()
        self._let_go()

    def _let_go(self) -> None:
        """Of the window so much is held as was sent and is not stored, and what is on its way."""
        scope = self._order.scope
        while self._in_window > len(self._sent) + self._is_coming:
            self._in_window -= 1
            self._tools.window.give_back(scope.tenant, scope.user)

    async def _look_for_lost(self) -> None:
        """Where nothing waits any more and lines are missing, they will not come: they are dead letters. Others keep a
        busy service waiting for ever, so those are looked for first, and whether all of it was forgotten, which leaves
        no trace in the store.
        """
        try:
            forgotten = await self._tools.forgotten()
            dead = self._ids.intersection(await self._tools.dead())
            if not forgotten and len(dead) < len(self._sent) and await self._tools.waiting():
                return
        except (QueueUnavailable, StoreUnavailable):
            return
        if await self._ask_store() and self._sent:
            counts = self.counts
            counts.lost = counts.accepted - counts.passed_over - counts.stored.done - counts.stored.failed
            self._sent_bytes = 0
            self.leave()
            why = "their user or project was forgotten meanwhile" if forgotten else "they lie among the dead letters"
            self._stop(UPLOAD, f"{counts.lost} lines could not be stored: {why}")
            self._room.set()
