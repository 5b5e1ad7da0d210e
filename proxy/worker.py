"""A proxy worker: resolved settings and an inherited socket in, requests served until SIGTERM.

Serves at once where no other does: /memory/health answers, completions go through without memory until stores and
model are there. On SIGTERM it stops accepting, finishes its streams, hands off what it holds, and exits 0.
`python -m proxy.worker`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import uvloop
from aiohttp import web

from memory.beside import beside, kept_going
from memory.config import Settings, settings_from_environ
from memory.errors import REFUSED, ConfigInvalid, MemoryProxyFault, ModelFileInvalid, StartFailed
from memory.seldom import Lasting
from memory.serving import ModelMoved
from memory.telemetry import Metrics, configure_logging, event, last_words
from proxy.app import build_app
from proxy.collector import warm
from proxy.guarded import GuardedSite, Patience
from proxy.relay import LINE_BYTES_MAX
from proxy.wiring.wire import Wired, bring_up, close, wire

log = logging.getLogger("memory_proxy.worker")
_RETRY_S: Final = 0.5
# A connection that was accepted just now has not sent its request yet: it would be closed as an idle one.
ACCEPTED_S: Final = 0.25
REPLACES: Final = "MEMORY_PROXY_REPLACES"
SERVES: Final = b"1"
COMPLETE: Final = b"2"
REPLACES_WAIT_S: Final = 8.0
# Who asks before the store has answered is sent on without memory, and nothing of it is kept. It takes some 30 ms of a
# start, up to a second on a machine that is busy; without a store the next worker serves after so long.
OPENS_WAIT_S: Final = 2.0
FIRST: Final = asyncio.FIRST_COMPLETED


def main() -> int:
    """Entry point of the process."""
    try:
        settings = settings_from_environ(os.environ)
    except ConfigInvalid as fault:
        sys.stderr.write(f"memory-proxy worker: {fault}\n")
        return REFUSED
    configure_logging(settings.log.level, settings.log.format)
    try:
        uvloop.run(serve(settings))
    except (ConfigInvalid, ModelFileInvalid, StartFailed) as fault:
        last_words("worker", fault, settings.log.format)
        return REFUSED
    return 0


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    listening = socket.socket(fileno=int(os.environ["MEMORY_PROXY_LISTEN_FD"]))
    wired = await wire(settings, Metrics(), listening.getsockname()[:2])
    runner = web.AppRunner(
        build_app(wired.front, wired.own.register),
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=settings.listen.drain_s,
    )
    await runner.setup()
    async with beside(wired.background, wired.base.metrics):
        await _served(wired, runner, guarded_site(runner, listening, settings), stop)
    await close(wired)


async def _served(wired: Wired, runner: web.AppRunner, site: GuardedSite, stop: asyncio.Event) -> None:
    """Bring everything up, serve meanwhile, drain."""
    starting = _task(begun(wired, stop))
    opened, leaving = _task(_set(wired.opened)), _task(_set(stop))
    # Where another worker serves meanwhile no request is taken from it before memory is there.
    awaited, wait_s = (starting, REPLACES_WAIT_S) if REPLACES in os.environ else (opened, OPENS_WAIT_S)
    await asyncio.wait((awaited, leaving), timeout=wait_s, return_when=FIRST)
    opened.cancel()
    leaving.cancel()
    await site.start()
    _say(SERVES)
    starting.add_done_callback(lambda _: _say(COMPLETE) if wired.readiness.started else None)
    await stop.wait()
    wired.readiness.draining = True
    event(log, "draining")
    await site.stop()
    await asyncio.sleep(ACCEPTED_S)
    await runner.cleanup()
    await wired.capture.drained()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)


def guarded_site(runner: web.AppRunner, sock: socket.socket, settings: Settings) -> GuardedSite:
    """The listening socket with its bounds."""
    limits = settings.limits
    return GuardedSite(
        runner,
        sock,
        Patience(limits.head_timeout_s, limits.body_idle_timeout_s, limits.answer_idle_timeout_s),
        backlog=1024,
        access_log=None,
        auto_decompress=False,
        max_line_size=LINE_BYTES_MAX,
        max_field_size=LINE_BYTES_MAX,
        max_headers=limits.headers_max,
        keepalive_timeout=settings.listen.keepalive_s,
    )


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def begun(wired: Wired, stop: asyncio.Event) -> None:
    """Start, also where that fails in an unforeseen way at first."""
    await kept_going("start", partial(_start, wired, stop), wired.base.metrics)


async def _start(wired: Wired, stop: asyncio.Event) -> None:
    """Bring everything up, again and again until it is. Another model than ours is served: end, to begin with that."""
    lasting = Lasting()
    while not wired.readiness.started:
        try:
            await bring_up(wired)
        except ModelMoved as moved:
            event(log, "model_moved", fault=str(moved))
            stop.set()
            return
        except MemoryProxyFault as fault:
            level = logging.WARNING if lasting.due(str(fault)) else logging.DEBUG
            event(log, "not_up_yet", level, fault=str(fault))
            await asyncio.sleep(_RETRY_S)
    warm(wired.base.metrics)
    event(log, "ready")


def _task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)
    task.add_done_callback(_say_failure)
    return task


def _say_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("background task failed", exc_info=fault)


def _say(what: bytes) -> None:
    """Tell the supervisor, where it listens for it; COMPLETE is the last word."""
    fd = os.environ.get("MEMORY_PROXY_READY_FD")
    if fd is not None:
        with contextlib.suppress(OSError):
            os.write(int(fd), what)
            if what == COMPLETE:
                os.close(int(fd))


if __name__ == "__main__":
    sys.exit(main())
