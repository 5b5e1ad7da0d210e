"""The upstream's name is never answered, or unknown: 502 within the bound, and recovery when it is again. Once it was
known, no answer about it changes nothing for some minutes, and the answer that it is gone is believed. Where Valkey's
is never answered, the upstream's does not wait behind it. (Of Postgres dbmate asks too, by a resolver of its own.)

By a preloaded library (bench/faults/levers.py). No traffic: what a pooled connection hides must not hide it here.
"""

import asyncio
import time
from typing import Any, Final

from bench.crash.service import Service, Shape
from bench.crash.upstream import KeptUpstream
from bench.faults.levers import NAME, STORE, Levers
from bench.faults.own_stores import OwnStores
from bench.faults.result import Finding, at_most, none, so
from bench.faults.scene import Place, ask

QUICK_S: Final = 2.0
CONNECT_TIMEOUT_S: Final = 2.0  # upstream.connect_timeout_s, shorter than its default so that the run is
HANG_S: Final = CONNECT_TIMEOUT_S + 1.5
BACK_S: Final = 10.0
PROBED_S: Final = 4.5  # /memory/ready says what was found by the last probe: each 2 s, of 2 s at most
CACHED_S: Final = 11.0  # the resolved name is kept for 10 s (proxy/pool.py)
STALE_S: Final = CONNECT_TIMEOUT_S / 2 + 1.5  # the wait for a new address before the old one is taken
HUNG_S: Final = 10.0  # by then all that waits for a store's name does, at the threads that look names up
WHOLE_S: Final = 30.0
ASKED: Final = 4
PATIENCE_S: Final = 30.0


async def dns(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """502 in time, ready degraded, answers again once the name has an address, and by that one while none is told."""
    levers = await Levers.made(place.root)
    levers.names("hangs")
    async with KeptUpstream() as upstream:
        url = upstream.url.replace("127.0.0.1", NAME)
        env = {**levers.env, "MEMORY_PROXY_UPSTREAM__CONNECT_TIMEOUT_S": str(CONNECT_TIMEOUT_S)}
        service = Service(Shape(place.root, url, env=env))
        try:
            place.say(f"{NAME} is never answered, from the start")
            await service.start()
            hangs = await _refused(service, "never answered", HANG_S)
            back = await _answered(service, levers, place)
            levers.names("hangs")
            await asyncio.sleep(CACHED_S)
            place.say(f"{NAME} is never answered, and the upstream was restarted: no pooled connection is left")
            await upstream.restart()
            stale = await _served_on(service)
            levers.names("unknown")
            await asyncio.sleep(CACHED_S)
            place.say(f"{NAME} is unknown, and the upstream was restarted")
            await upstream.restart()
            unknown = await _refused(service, "unknown", QUICK_S)
            again = await _answered(service, levers, place)
            parts = {"hangs": hangs, "back": back, "stale": stale, "unknown": unknown, "again": again}
            findings = [finding for found, _ in parts.values() for finding in found]
            return findings, {name: figures for name, (_, figures) in parts.items()}
        finally:
            levers.names("answers")
            await service.stop()


async def store_name(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """The upstream's name gets an address while Valkey's is never answered: completions are, and are kept."""
    levers = await Levers.made(place.root)
    levers.names("unknown")
    levers.names("hangs", STORE)
    async with KeptUpstream() as upstream, OwnStores(place.root) as stores:
        names = stores.env(valkey=(STORE, stores.valkey[1]))
        url = upstream.url.replace("127.0.0.1", NAME)
        service = Service(Shape(place.root, url, env={**names, **levers.env}))
        try:
            place.say(f"{STORE} is never answered, from the start, and {NAME} unknown")
            starting = asyncio.create_task(service.start())
            while not starting.done() and not all(status for status, _ in await ask(service.url, 1, PATIENCE_S)):
                await asyncio.sleep(0.1)  # nobody listens yet
            await asyncio.sleep(HUNG_S)
            found, answered_s = await _answered(service, levers, place)
            levers.names("answers", STORE)
            place.say(f"{STORE} has an address again")
            began = time.monotonic()
            await starting
            whole_s = time.monotonic() - began
        finally:
            levers.names("answers", STORE)
            await service.stop()
    findings = [*found, at_most("the store named again: until it is whole", whole_s, WHOLE_S, "s")]
    return findings, {"answered_s": answered_s, "whole_s": whole_s}


async def _served_on(service: Service) -> tuple[list[Finding], list[float]]:
    asked = await ask(service.url, ASKED, PATIENCE_S)
    took = [seconds for _, seconds in asked]
    return [
        none("known and never answered: completions that were not 200", sum(one != 200 for one, _ in asked), asked),
        at_most("known and never answered: the slowest", max(took), STALE_S, "s"),
    ], took


async def _refused(service: Service, how: str, bound_s: float) -> tuple[list[Finding], list[float]]:
    asked = await ask(service.url, ASKED, PATIENCE_S)
    took = [seconds for _, seconds in asked]
    await asyncio.sleep(PROBED_S)
    ready = await service.ready()
    upstream = ready.get("dependencies", {}).get("upstream", {})
    return [
        none(f"{how}: completions that were not 502", sum(status != 502 for status, _ in asked), asked),
        at_most(f"{how}: the slowest 502", max(took), bound_s, "s"),
        so(
            f"{how}: ready is 200, degraded",
            (ready.get("http"), upstream.get("ok")) == (200, False),
            upstream.get("error"),
        ),
    ], took


async def _answered(service: Service, levers: Levers, place: Place) -> tuple[list[Finding], float]:
    levers.names("answers")
    place.say(f"{NAME} has an address again")
    began = time.monotonic()
    passed_s = float("inf")
    while time.monotonic() - began < BACK_S:
        if all(status == 200 for status, _ in await ask(service.url, ASKED, PATIENCE_S)):
            passed_s = time.monotonic() - began
            break
    return [at_most("until completions are answered again", passed_s, BACK_S, "s")], passed_s
