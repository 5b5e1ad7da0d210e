"""Searches of the API beside chats: a flood of one tenant's takes neither the embedder nor the turns of others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from memory.erasure.model import Labelled, Plan
from memory.ids import new_id
from memory.model import Recall, Scope
from memory.read.recall import Question
from proxy.api.asking import Caller
from proxy.api.forget import Forget
from proxy.api.parts import OwnParts
from proxy.api.schemas_forget import ForgetAsked
from proxy.api.schemas_search import SearchAsked
from proxy.api.search import Search
from proxy.api.search_turns import AT_ONCE, SearchTurns, search_places
from proxy.api.sessions import Labels
from proxy.identity import Ask, Credential

ADA, BOB = new_id(), new_id()


class Slow:
    """A recaller whose embedder is asked and does not answer yet."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = asyncio.Semaphore(0)

    async def search(self, question: Question, _: float) -> Recall:
        self.asked.append(question.text)
        await self.answers.acquire()
        return Recall()

    def refused(self, *_: object) -> None:
        """It asks of now."""


def caller(tenant: UUID) -> Caller:
    return Caller(Credential(tenant), Ask(Scope(tenant, "u", "p", "a")), datetime.now(UTC))


class Nothing:
    """A store in which a query finds nothing that could be forgotten."""

    async def named(self, *_: Any) -> tuple[Plan, list[Labelled]]:
        return Plan(), []

    async def remembered(self, *_: Any) -> tuple[Plan, list[str], list[str]]:
        return Plan(), [], []

    async def labels(self, *_: Any) -> list[Labelled]:
        return []

    async def content_key(self, _: UUID) -> bytes:
        return bytes(32)


@pytest.mark.parametrize("flooded", ["search", "forget"])
async def test_a_flood_of_one_tenants_searches_leaves_the_embedder_to_chats_and_the_next_turn_to_others(
    flooded: str,
) -> None:
    slow, nothing, turns = Slow(), Nothing(), SearchTurns(search_places())
    parts = cast(OwnParts, SimpleNamespace(recaller=slow, keys=nothing, forgets=nothing))
    search, forget = Search(parts, cast(Labels, None), turns), Forget(parts, turns)

    async def asked(tenant: UUID, query: str, by: str = "search") -> object:
        if by == "forget":
            return await forget.forgotten(caller(tenant), ForgetAsked(query=query))
        return await search.recalled(caller(tenant), SearchAsked(query=query), why="search")

    flood = [asyncio.create_task(asked(ADA, f"flood {number}", flooded)) for number in range(100)]
    await asyncio.sleep(0.01)
    assert len(slow.asked) == AT_ONCE
    modest = asyncio.create_task(asked(BOB, "modest"))
    await asyncio.sleep(0.01)
    slow.answers.release()
    await asyncio.sleep(0.01)
    assert slow.asked[AT_ONCE:] == ["modest"]
    for _ in range(100):
        slow.answers.release()
    assert await modest == Recall()
    assert len(await asyncio.gather(*flood)) == 100
