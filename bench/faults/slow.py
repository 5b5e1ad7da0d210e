"""Slow ends: an upstream of one byte a second, clients of one KiB a second. The proxy's memory stays bounded.

64 at once of each, for some seconds; resident memory of all proxy workers before and at its highest, and whether
somebody else is answered meanwhile.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from bench.crash.service import Service, Shape
from bench.crash.upstream import KeptUpstream
from bench.faults.result import Finding, at_least, at_most, none
from bench.faults.scene import Place, ask
from bench.faults.streams import dripping, sip

CLIENTS: Final = 64
HOLD_S: Final = 15.0
CLIENT_BYTES_S: Final = 1024
TOKENS: Final = 20_000
# One MiB for each client: what a connection may buffer on both of its sides, and the copy that is captured.
GROWTH_MIB_MAX: Final = 64.0
OTHERS_S: Final = 2.0


async def slow_upstream(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """64 clients of an upstream that gives one byte a second."""
    async with dripping(1.0) as upstream:
        service = Service(Shape(place.root, upstream))
        try:
            await service.start()
            place.say(f"{CLIENTS} clients wait for one byte a second")
            work = [sip(service.url, number, 0, bytes_s=65536, seconds=HOLD_S) for number in range(CLIENTS)]
            before, most, streams, _ = await _held(service, work, others=False)
            ready = await service.ready()
        finally:
            code = await service.stop()
    return [
        at_least("streams held", sum(stream.status == 200 for stream in streams), CLIENTS),
        at_most("growth of the proxy workers", most - before, GROWTH_MIB_MAX, "MiB"),
        none("ready was not 200", int(ready.get("http") != 200)),
        none("exit code", code),
    ], {"rss_mib_before": before, "rss_mib_most": most}


async def slow_clients(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """64 clients that read one KiB a second of long, fast answers, and another one who wants an answer."""
    async with KeptUpstream() as upstream:
        service = Service(Shape(place.root, upstream.url))
        try:
            await service.start()
            place.say(f"{CLIENTS} clients read {CLIENT_BYTES_S} bytes a second of {TOKENS} tokens each")
            work = [
                sip(service.url, number, TOKENS, bytes_s=CLIENT_BYTES_S, seconds=HOLD_S) for number in range(CLIENTS)
            ]
            before, most, streams, others = await _held(service, work, others=True)
        finally:
            code = await service.stop()
    return [
        at_least("streams held", sum(stream.status == 200 and not stream.whole for stream in streams), CLIENTS),
        at_most("growth of the proxy workers", most - before, GROWTH_MIB_MAX, "MiB"),
        none("others not answered meanwhile", sum(status != 200 for status, _ in others)),
        at_most("the slowest of the others", max(seconds for _, seconds in others), OTHERS_S, "s"),
        none("exit code", code),
    ], {"rss_mib_before": before, "rss_mib_most": most}


async def _held(service: Service, work: list[Any], *, others: bool) -> tuple[float, float, list[Any], list[Any]]:
    """Resident MiB before and at its most, the streams, and what somebody else was answered."""
    await ask(service.url, 4, 10.0) if others else None
    pids = service.processes()["proxy worker"]
    before = most = _resident_mib(pids)
    holding = asyncio.gather(*work)
    asked: list[Any] = []
    while not holding.done():
        await asyncio.sleep(0.5)
        most = max(most, _resident_mib(pids))
        if others:
            asked += await ask(service.url, 1, 10.0)
    return before, most, await holding, asked


def _resident_mib(pids: list[int]) -> float:
    """Resident memory of processes that live."""
    total_kib = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total_kib += int(line.split()[1])
    return total_kib / 1024
