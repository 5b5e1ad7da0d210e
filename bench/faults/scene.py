"""The stage of a scenario: a place and how to run the service in, traffic against it, and the findings of its end out.

`playing` starts an upstream, a service and its clients; `Scene.finish` lets the clients end, waits for the queue, and
judges the store: nothing acknowledged lost or doubled, no completion failed. Raises NotWhole.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.crash.rounds import settled
from bench.crash.service import Service, Shape
from bench.crash.traffic import Answer, Traffic
from bench.crash.upstream import KeptUpstream
from bench.crash.verdict import judge
from bench.faults.link import Link
from bench.faults.result import Finding, none
from bench.stats import quantile

POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a scenario runs: a directory of its own, and who hears what it does. `rounds`, `resume`: of the rounds."""

    root: Path
    say: Callable[[str], None]
    seed: int = 1
    rounds: int = 6
    leg: int = 25
    progress: Path | None = None
    old: str | None = None


@dataclass(slots=True)
class Scene:
    """A service under traffic. Mutable: what was found so far."""

    place: Place
    service: Service
    upstream: KeptUpstream
    link: Link | None
    traffic: Traffic
    stop: asyncio.Event
    talking: asyncio.Task[None]
    findings: list[Finding] = field(default_factory=list)

    async def talk(self, seconds: float, what: str) -> "Span":
        """Say what is so now and let the clients talk; what was answered meanwhile."""
        self.place.say(what)
        began_s = time.monotonic()
        await asyncio.sleep(seconds)
        return Span(began_s, time.monotonic(), self.traffic)

    async def until_ready_says(self, name: str, ok: bool, timeout_s: float) -> float | None:
        """Seconds until /memory/ready says so of a dependency; None: never."""
        began = time.monotonic()
        while (passed_s := time.monotonic() - began) < timeout_s:
            said = (await self.service.ready()).get("dependencies", {}).get(name)
            if said is not None and said["ok"] is ok:
                return passed_s
            await asyncio.sleep(POLL_S)
        return None

    async def quiet(self) -> None:
        """End the clients; what is under way is heard to its end."""
        self.stop.set()
        await self.talking

    async def finish(self) -> dict[str, Any]:
        """End the clients and judge; the findings are added, the figures returned."""
        await self.quiet()
        settle_s, dead = await settled(self.service)
        self.place.say(f"the clients have ended, the queue settled in {settle_s:.1f} s")
        traffic = self.traffic
        verdict = await judge(self.service.owner_dsn(), self.service.data, traffic.acknowledged, dead)
        self.findings += [
            none("acknowledged and lost", verdict.lost),
            none("acknowledged and stored twice", verdict.doubled),
            none("sessions with gaps", len(verdict.gaps)),
            none("dead letters", verdict.dead),
            none("completions failed", len(traffic.failures), counted(failure.why for failure in traffic.failures)),
        ]
        return {
            "acknowledged": verdict.acknowledged,
            "sent": traffic.sent,
            "refusals": dict(traffic.refusals.most_common()),
            "captures": counted(answer.capture for answer in traffic.answers),
            "statuses": counted(answer.status for answer in traffic.answers),
            "settle_s": settle_s,
        }


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time and what was answered within it."""

    began_s: float
    ended_s: float
    traffic: Traffic

    @property
    def answers(self) -> Sequence[Answer]:
        """Whole answers."""
        return [answer for answer in self.traffic.answers if self.began_s <= answer.ended_s <= self.ended_s]

    @property
    def failures(self) -> int:
        """Completions that did not arrive whole."""
        return sum(self.began_s <= failure.ended_s <= self.ended_s for failure in self.traffic.failures)

    @property
    def captures(self) -> dict[str, int]:
        """Answers by X-Memory-Capture."""
        return counted(answer.capture for answer in self.answers)

    @property
    def statuses(self) -> dict[str, int]:
        """Answers by X-Memory-Status."""
        return counted(answer.status for answer in self.answers)

    def added_ms(self, share: float) -> float:
        """A quantile of X-Memory-Millis; infinite without an answer, which no bound takes."""
        answers = self.answers
        return quantile([answer.added_ms for answer in answers], share) if answers else float("inf")


async def ask(url: str, number: int, patience_s: float) -> list[tuple[int, float]]:
    """So many completions side by side: status (0: none came whole in time) and seconds of each."""
    body = {"model": "fake-model", "messages": [{"role": "user", "content": "Is anybody there?"}]}

    async def one(http: aiohttp.ClientSession) -> tuple[int, float]:
        began = time.monotonic()
        try:
            async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
                await answer.read()
                return answer.status, time.monotonic() - began
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0, time.monotonic() - began

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=patience_s)) as http:
        return list(await asyncio.gather(*(one(http) for _ in range(number))))


def counted(words: Iterable[str]) -> dict[str, int]:
    """How often each."""
    return dict(Counter(words).most_common())


@asynccontextmanager
async def playing(
    place: Place,
    *,
    clients: int = 12,
    pause_s: float = 0.4,
    env: Mapping[str, str] | None = None,
    linked: bool = False,
    shape: Mapping[str, Any] | None = None,
) -> AsyncIterator[Scene]:
    """A service of one's own under traffic; everything ends with the block. `linked`: its upstream is behind a link."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(KeptUpstream())
        link = await stack.enter_async_context(Link("127.0.0.1", upstream.port)) if linked else None
        url = upstream.url if link is None else f"http://127.0.0.1:{link.port}"
        made = Shape(place.root, url, env=env or {}, **(shape or {}))
        service = Service(made)
        stop = asyncio.Event()
        talking: asyncio.Task[None] | None = None
        try:
            await service.start()
            traffic = Traffic(service.url, clients, pause_s, place.seed)
            talking = asyncio.create_task(traffic.run(stop))
            yield Scene(place, service, upstream, link, traffic, stop, talking)
        finally:
            if talking is not None:
                talking.cancel()
                await asyncio.wait([talking])
            await service.stop()
