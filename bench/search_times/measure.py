"""The measurement: a filled service in, times by number of memories in scope out.

Every question is asked once only, since the service keeps the vectors of questions it has seen. Hot: in blocks, the
same questions first to the product's embedder in this process, then as searches, then others as chats, so that whatever
the machine does hits all alike. Raises CallFailed, EmbedderUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter

import aiohttp

from bench.overhead.fill import question
from bench.overhead.processes import used_between
from bench.search_times.calls import Timed, chat, hot_bytes, search
from bench.search_times.fill import Say
from bench.search_times.service import Served
from memory.ports import Embedder

BLOCK = 20
LOAD_MAX_S = 300.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What all measurements share: the service, a client of it, its model, fresh questions, who hears of progress."""

    served: Served
    http: aiohttp.ClientSession
    model: str
    say: Say
    numbers: Iterator[int] = field(default_factory=count)

    def questions(self, number: int) -> list[str]:
        """Questions nobody has asked yet."""
        return [question(next(self.numbers)) for _ in range(number)]

    async def search(self, user: str, text: str) -> Timed:
        """One search. Raises CallFailed."""
        return await search(self.http, self.served.url, user, text)

    async def chat(self, user: str, text: str) -> Timed:
        """One chat. Raises CallFailed."""
        return await chat(self.http, self.served.url, self.model, user, text)


@dataclass(frozen=True, slots=True)
class Hot:
    """Searches and chats in a scope held in process; embedding_ms[i] and searches[i] are of one question.

    CPU in ms a search, by kind of process, the embedding included; empty where there is no meter.
    """

    embedding_ms: Sequence[float]
    searches: Sequence[Timed]
    chats: Sequence[Timed]
    cpu_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class First:
    """The first chat of a scope that nobody asked yet, and what its load cost.

    `load_s` from that chat to a search answered from the index, None when it never was; `held_bytes` what it took.
    """

    chat: Timed
    load_s: float | None
    held_bytes: int


async def measure_first(ground: Ground, user: str) -> First:
    """A chat in a scope that is not loaded, then searches until it is. Raises CallFailed."""
    held = await hot_bytes(ground.http, ground.served.url)
    began = perf_counter()
    [text] = ground.questions(1)
    asked = await ground.chat(user, text)
    while perf_counter() - began < LOAD_MAX_S:
        found = await ground.search(user, ground.questions(1)[0])  # waits itself for the load, some seconds
        if found.answered == "full":
            load_s = perf_counter() - began
            return First(asked, load_s, await hot_bytes(ground.http, ground.served.url) - held)
        ground.say(f"{user}: still loading after {perf_counter() - began:.0f} s")
    return First(asked, None, 0)


async def measure_hot(ground: Ground, embedder: Embedder, user: str, number: int) -> Hot:
    """So many searches, and as many chats, in a scope that is loaded. Raises CallFailed, EmbedderUnavailable."""
    await warm_up(ground, embedder, user)
    embedding: list[float] = []
    searches: list[Timed] = []
    chats: list[Timed] = []
    cpu_s: dict[str, float] = {}
    while len(searches) < number:
        texts = ground.questions(min(BLOCK, number - len(searches)))
        for text in texts:
            began = perf_counter()
            await embedder.embed_query(text)
            embedding.append((perf_counter() - began) * 1000)
        before = ground.served.meter.sample() if ground.served.meter else {}
        searches += [await ground.search(user, text) for text in texts]
        after = ground.served.meter.sample() if ground.served.meter else {}
        for kind, used_s in used_between(before, after).items():
            cpu_s[kind] = cpu_s.get(kind, 0.0) + used_s
        chats += [await ground.chat(user, text) for text in ground.questions(len(texts))]
        ground.say(f"{user}: {len(searches)} of {number} searches")
    return Hot(embedding, searches, chats, {kind: used_s * 1000 / number for kind, used_s in cpu_s.items()})


async def warm_up(ground: Ground, embedder: Embedder, user: str) -> None:
    """Some questions that nobody counts."""
    for text in ground.questions(BLOCK):
        await embedder.embed_query(text)
        await ground.search(user, text)
    for text in ground.questions(BLOCK):
        await ground.chat(user, text)


async def measure_never_held(ground: Ground, user: str, number: int) -> list[Timed]:
    """So many chats in a scope that the service may not hold: Postgres answers each. Raises CallFailed."""
    for text in ground.questions(3):
        await ground.chat(user, text)
    found = []
    for text in ground.questions(number):
        found.append(await ground.chat(user, text))
        ground.say(f"{user}: {len(found)} of {number} chats without an index")
    return found
