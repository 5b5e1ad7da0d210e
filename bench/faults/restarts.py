"""Restarts that nobody may notice: workers replaced one by one, a service that is told to end.

`rolling` under steady traffic; `shutdown` with streams under way. A stream that began is heard to its end in both.
"""

import asyncio
import signal
import time
from collections.abc import Sequence, Set
from typing import Any, Final

import aiohttp

from bench.crash.rounds import settled
from bench.crash.service import Service, Shape
from bench.crash.traffic import DURABLE
from bench.crash.upstream import KeptUpstream
from bench.crash.verdict import MARK
from bench.faults.result import Finding, at_least, none, so
from bench.faults.scene import Place, playing
from bench.faults.streams import Stream, to_the_end

STREAMS: Final = 32
TOKENS: Final = 60
TOKEN_MS: Final = 50.0  # three seconds a stream
BEGUN_S: Final = 1.0
ROLLS: Final = 2
ROLL_S: Final = 60.0


async def rolling(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """Two rolling restarts under traffic: no completion fails, every worker is another one."""
    async with playing(place, clients=8, pause_s=0.4) as scene:
        await scene.talk(2.0, "traffic")
        took = []
        for number in range(ROLLS):
            before = set(scene.service.processes()["proxy worker"])
            scene.place.say(f"SIGHUP, {number + 1} of {ROLLS}")
            scene.service.send(signal.SIGHUP)
            began = time.monotonic()
            while time.monotonic() - began < ROLL_S:
                now = set(scene.service.processes().get("proxy worker", ()))
                if _replaced(before, now, scene.service.shape.proxy_workers):
                    break
                await asyncio.sleep(0.1)
            took.append(time.monotonic() - began)
            whole = _replaced(before, now, scene.service.shape.proxy_workers)
            scene.findings.append(so(f"roll {number + 1} replaced every worker", whole))
            await scene.talk(1.0, "rolled")
        figures = await scene.finish()
        scene.findings.append(at_least("acknowledged", figures["acknowledged"], 50))
        return scene.findings, {**figures, "roll_s": took}


def _replaced(before: Set[int], now: Set[int], workers: int) -> bool:
    """Whether as many workers run as there are to be, none of them an old one."""
    return len(now) == workers and not now & before


async def shutdown(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """SIGTERM with streams under way: each is heard to its end, the service ends with 0, all of it is in the store."""
    async with KeptUpstream() as upstream:
        service = Service(Shape(place.root, upstream.url))
        try:
            await service.start()
            streams, code, stop_s = await ended_under_streams(place, service)
            await service.start()
            lost, settle_s = await not_in_store(service, streams)
        finally:
            await service.stop()
        return [
            *all_whole(streams),
            none("exit code at SIGTERM", code),
            none("acknowledged and lost", len(lost), lost[:3]),
        ], {"stop_s": stop_s, "settle_s": settle_s}


async def ended_under_streams(place: Place, service: Service) -> tuple[list[Stream], int, float]:
    """Streams, SIGTERM once they have begun; the streams, the exit code, and seconds until it ended."""
    talking = [asyncio.create_task(to_the_end(service.url, number, TOKENS, TOKEN_MS)) for number in range(STREAMS)]
    place.say(f"{STREAMS} streams of {TOKENS * TOKEN_MS / 1000:g} s")
    await asyncio.sleep(BEGUN_S)
    place.say("SIGTERM")
    began = time.monotonic()
    code = await service.stop()
    stop_s = time.monotonic() - began
    return list(await asyncio.gather(*talking)), code, stop_s


def all_whole(streams: Sequence[Stream]) -> list[Finding]:
    """None was cut off, and each was acknowledged."""
    return [
        none("streams dropped", sum(not stream.whole for stream in streams)),
        at_least("streams acknowledged", sum(stream.capture in DURABLE for stream in streams), STREAMS),
    ]


async def not_in_store(service: Service, streams: Sequence[Stream]) -> tuple[list[str], float]:
    """Marks of acknowledged streams that the export does not have; seconds until the queue had settled."""
    settle_s, _ = await settled(service)
    lost = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http:
        for stream in streams:
            user = {"X-Memory-User": f"user-{int(stream.mark.split('-')[1])}"}
            async with http.get(f"{service.url}/memory/v1/export", headers=user) as answer:
                found = MARK.findall(await answer.text())
            if stream.capture in DURABLE and stream.whole and stream.mark not in found:
                lost.append(stream.mark)
    return lost, settle_s
