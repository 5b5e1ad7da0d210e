"""A chat that asks for pages of the web: who may, and that nothing which fails there costs the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from memory.errors import CapabilityMissing, MemoryInvalid, MemoryProxyFault, RateLimited, ScopeDenied, StoreUnavailable
from memory.ids import new_id
from memory.model import Scope
from memory.outside import Asker, Gained, WebPage
from policies.web_need import Need
from proxy.asked import Asked
from proxy.identity import Ask, Credential
from proxy.outside import LooksOutside, before, require
from proxy.wire.chat_request import ChatRequest

NOW = datetime(2026, 11, 24, 9, tzinfo=UTC)
SCOPE = Scope(UUID(int=1), "ann", "default", "default")
OPEN = Credential(UUID(int=1))
ASKS = Ask(SCOPE, outside=True)
IDS = [UUID(int=n) for n in range(3)]


@dataclass
class World:
    """What is found, kept and stored. `fault`: instead of it."""

    statuses: tuple[str, ...] = ()
    fault: MemoryProxyFault | None = None
    looked: int = 0
    polled: int = 0

    async def look_for(self, asker: Asker, question: str, need: Need) -> Gained:
        self.looked += 1
        return Gained("asked", "found")

    async def keep(self, scope: Scope, actor: str, pages: Sequence[WebPage], now: datetime) -> list[UUID]:
        if self.fault is not None:
            raise self.fault
        return IDS

    async def document(self, _: Scope, document_id: UUID) -> Any:
        at, self.polled = IDS.index(document_id), self.polled + 1
        return SimpleNamespace(document_id=document_id, upload=SimpleNamespace(status=self.statuses[at]))

    def __call__(self) -> LooksOutside:
        return LooksOutside(self, self, self)  # type: ignore[arg-type]  # the three, in one


async def came_of(world: World, body: bytes) -> tuple[Asked, str]:
    chat = ChatRequest.parse(body)
    asked = Asked(new_id(), NOW, perf_counter() - 60, body, chat, ASKS, None, OPEN)
    later, came = await before(world(), asked, chat)
    return later, str(came)


def body_of(*messages: tuple[str, str]) -> bytes:
    said = [{"role": role, "content": text} for role, text in messages]
    return json.dumps({"model": "m", "messages": said}).encode()


QUESTION = body_of(("user", "How high is Triglav?"))


async def test_what_is_stored_is_counted_and_the_deadlines_begin_anew() -> None:
    later, came = await came_of(World(("done", "failed", "done")), QUESTION)
    assert came == "found; pages=2"
    assert perf_counter() - later.started < 30 and later.arrived_at > NOW


async def test_what_is_not_stored_in_time_is_not_waited_for() -> None:
    world = World(("done", "working", "waiting"))
    assert await world().stored(SCOPE, IDS, timeout_s=0.5) == 1
    assert world.polled > 4, "it was asked for again"


@pytest.mark.parametrize(
    ("fault", "says"), [(RateLimited("x"), "busy; pages=0"), (StoreUnavailable("x"), "store; pages=0")]
)
async def test_what_fails_there_is_said_and_costs_nothing_else(fault: MemoryProxyFault, says: str) -> None:
    assert (await came_of(World(fault=fault), QUESTION))[1] == says


@pytest.mark.parametrize("last", [("tool", "2864"), ("assistant", "It is")])
async def test_only_what_the_user_said_last_is_looked_for(last: tuple[str, str]) -> None:
    world = World(("done",) * 3)
    assert (await came_of(world, body_of(("user", "How high is Triglav?"), last)))[1] == "nothing; pages=0"
    assert world.looked == 0


def test_who_may_not_have_pages_is_refused_by_name() -> None:
    outside = World()()
    token = replace(OPEN, key_id=UUID(int=2), fixed={"session": "s"})
    for known, ask, credential, refusal in (
        (None, ASKS, OPEN, MemoryInvalid), (outside, ASKS, token, ScopeDenied),
        (outside, replace(ASKS, mode="read"), OPEN, CapabilityMissing),
    ):  # fmt: skip
        with pytest.raises(refusal) as raised:
            require(known, ask, credential)
        assert raised.value.param == "X-Memory-Outside"
    require(outside, ASKS, OPEN)
    require(None, replace(ASKS, outside=False), OPEN)
