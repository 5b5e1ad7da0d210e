"""`POST /memory/v1/import`: NDJSON of any size in, as it arrives; NDJSON of progress and bad lines out, side by side.

The head of the answer goes out at once. Progress is told each half second, bad lines as they are found, the last line
says whether the upload was taken in to its end. Refuses compressed uploads (422) and unknown parameters (400).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final
from uuid import UUID

from aiohttp import StreamReader, web

from memory.errors import MemoryInvalid, ScopeDenied
from memory.ids import new_id
from memory.model import OnConflict
from memory.places import Places
from policies.gate import Item
from policies.labels import Sensitivity
from proxy.api.answers import dumped
from proxy.api.asking import caller_of, is_waiting, parameters, refuse_encodings
from proxy.api.exports import NDJSON
from proxy.api.import_records import RecordTaker
from proxy.api.import_run import IDLE_S, ImportRun, Order, Tools
from proxy.api.parts import OwnParts
from proxy.api.queue import DEAD_LETTERS_MAX, waiting
from proxy.gated import holder_of, require_writable

TELL_S: Final = 0.5
CHUNKS_AT_ONCE: Final = 4
"""Of all imports of one process: so many share a write of the queue, and reading and sealing them takes some 10 ms."""

WINDOW_CHUNKS: Final = 32
"""Of all imports of one process that wait: handed over and not stored. What comes stands behind no more than these."""
LOOK_S: Final = 1.0
"""How long who waits for the window does not look whether the process is going."""


class Import:
    """The handler of imports."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts
        self._turns = Places(CHUNKS_AT_ONCE, None)
        self._window = Places(WINDOW_CHUNKS, LOOK_S)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Take an upload in."""
        caller = caller_of(request, self._parts.door, "memory:write")
        if caller.credential.session is not None:
            raise ScopeDenied("this token is for one session, and an import may name any")
        require_writable(holder_of(caller.credential), Item(caller.scope.tenant, Sensitivity.PUBLIC), "scope")
        given = parameters(request, ("wait", "on_conflict"))
        refuse_encodings(request)
        order = Order(
            scope=caller.scope,
            session=caller.ask.session or str(new_id()),
            trusted=caller.credential.can("memory:import:trusted"),
            on_conflict=_on_conflict(given.get("on_conflict", "error")),
            wait=is_waiting(given, default=True),
            now=caller.now,
            hide=caller.credential.hide,
            ceiling=caller.credential.ceiling.value if caller.credential.ceiling is not None else None,
        )
        names = {"user": order.scope.user, "project": order.scope.project, "agent": order.scope.agent}
        said = {"trusted": order.trusted, "on_conflict": order.on_conflict}
        self._parts.journal.note(order.scope.tenant, caller.actor, "import", names=names, detail=said)
        records = RecordTaker(self._parts, caller, trusted=order.trusted, on_conflict=order.on_conflict)
        run = ImportRun(order, self._tools(order, records))
        response = web.StreamResponse(headers={"Content-Type": NDJSON})
        await response.prepare(request)
        working = {asyncio.create_task(run.feed(arriving(request.content))), asyncio.create_task(run.follow())}
        try:
            await _tell(run, response, working)
        finally:
            for task in working:
                task.cancel()
            run.leave()
        await response.write_eof()
        return response

    def _tools(self, order: Order, records: RecordTaker) -> Tools:
        parts = self._parts
        return Tools(
            capture=parts.capture,
            progress=parts.progress,
            sessions=parts.records,
            waiting=self._waiting,
            dead=partial(self._dead, order.scope.tenant),
            forgotten=partial(self._forgotten, order),
            draining=lambda: parts.readiness.draining,
            records=records,
            turns=self._turns,
            window=self._window,
        )

    async def _waiting(self) -> int:
        depth = await waiting(self._parts.hand_off, self._parts.spooled, self._parts.queue)
        return depth.pending + depth.in_flight

    async def _forgotten(self, order: Order) -> bool:
        unless = await self._parts.forgets.unless(order.scope, (), None, order.now)
        return await self._parts.forgets.kept_away(order.scope.tenant, unless)

    async def _dead(self, tenant: UUID) -> frozenset[UUID]:
        letters = await self._parts.queue.dead_letters(DEAD_LETTERS_MAX, tenant)
        return frozenset(letter.exchange_id for letter in letters)


async def arriving(content: StreamReader) -> AsyncIterator[bytes]:
    """What arrives, as it arrives; b"" when nothing does for IDLE_S. Raises what the connection raises."""
    while not content.at_eof():
        try:
            async with asyncio.timeout(IDLE_S):
                chunk = await content.readany()
        except TimeoutError:
            chunk = b""
        yield chunk


async def _tell(run: ImportRun, response: web.StreamResponse, working: set[asyncio.Task[None]]) -> None:
    """Tell the client until the work is done. A client that does not read holds up only this."""
    pending = working
    while pending:
        done, pending = await asyncio.wait(pending, timeout=TELL_S, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        if pending:
            await response.write(_lines(run, run.counts.as_line()))
    await response.write(_lines(run, {**run.counts.as_line(), "complete": not run.stopped}))


def _lines(run: ImportRun, last: dict[str, Any]) -> bytes:
    errors = [{"line": line, "error": error} for line, error in run.take_errors()]
    return b"".join(dumped(value) + b"\n" for value in (*errors, last))


def _on_conflict(raw: str) -> OnConflict:
    if raw == "error":
        return "error"
    if raw == "update":
        return "update"
    raise MemoryInvalid("on_conflict must be error or update", param="on_conflict")
