"""One evaluation set through the service: imported, searched, asked in chats. An EvalSet in, what was found out.

Several users import at once, as they would; searches go one after the other, for their times, chats CHATS_AT_ONCE at a
time. The baselines rank the same turns. Raises CallFailed; a turn of another scope among the answers is no error here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final

import aiohttp
import numpy as np
from numpy.typing import NDArray

from bench.recall.answers import Answered, Probe, sampled
from bench.recall.baseline import FUSED_DEPTH, SingleTurnBm25, SingleTurnDense, dense_text, fused
from bench.recall.chat import Given, Said, ask_answer, ask_chat, served_model, settled, with_sources
from bench.recall.client import Found, import_turns, search
from bench.recall.corpus import EvalSet, Question
from memory.ports import Embedder

Say = Callable[[str], None]
Rankings = Sequence[tuple[str, ...]]
SEARCHED: Final = 20
IMPORTS_AT_ONCE: Final = 8
CHATS_AT_ONCE: Final = 4
SAY_EVERY_S: Final = 5.0
_EMBEDDED_AT_ONCE: Final = 128


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with what the service found for it."""

    question: Question
    found: Found


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was seen of one set. Rankings and chats are in the order of `asked`.

    `given` is empty where the chats were left out; `budgets` are further passes by their X-Memory-Budget, tokens;
    `probe` are answers with and without memory, where they were asked for.
    """

    asked: Sequence[Asked]
    baselines: Mapping[str, Rankings]
    import_s: float
    given: Sequence[Given] = ()
    budgets: Mapping[int, Sequence[Given]] = field(default_factory=dict)
    probe: Probe | None = None


class Progress:
    """Says how far a long step is, now and then."""

    def __init__(self, what: str, total: int, say: Say) -> None:
        self._what = what
        self._total = total
        self._say = say
        self._done = 0
        self._started = self._said_at = perf_counter()

    @property
    def seconds(self) -> float:
        """Since the step began."""
        return perf_counter() - self._started

    def moved(self, by: int) -> None:
        """So many more are done."""
        self._done += by
        now = perf_counter()
        if now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            self._say(f"{self._what}: {self._done} of {self._total}, {self._done / (now - self._started):.1f}/s")


async def import_set(client: aiohttp.ClientSession, url: str, chosen: EvalSet, say: Say) -> float:
    """Import every scope; returns the seconds until all turns were searchable. Raises CallFailed."""
    progress = Progress(f"{chosen.name}: turns imported", chosen.turn_count, say)
    room = asyncio.Semaphore(IMPORTS_AT_ONCE)

    async def one(scope: str) -> None:
        async with room:
            await import_turns(client, url, scope, chosen.lines[scope], progress.moved)

    await asyncio.gather(*map(one, chosen.lines))
    return progress.seconds


async def ask_set(client: aiohttp.ClientSession, url: str, chosen: EvalSet, say: Say) -> list[Asked]:
    """Search for every question, the unanswerable too. Raises CallFailed."""
    progress = Progress(f"{chosen.name}: questions asked", len(chosen.questions), say)
    asked = []
    for question in chosen.questions:
        asked.append(Asked(question, await search(client, url, question.scope, question.text, SEARCHED)))
        progress.moved(1)
    return asked


async def chat_set(
    client: aiohttp.ClientSession, url: str, chosen: EvalSet, budget: int | None, say: Say
) -> list[Given]:
    """One chat for every question; what each was given, in the order of the questions. Raises CallFailed."""
    model = await served_model(client, url)
    progress = Progress(f"{chosen.name}: chats", len(chosen.questions), say)
    room = asyncio.Semaphore(CHATS_AT_ONCE)

    async def one(question: Question) -> Given:
        async with room:
            given = await ask_chat(client, url, model, question.scope, question.text, budget)
        progress.moved(1)
        return given

    async def recorded(question: Question, given: Given) -> Given:
        async with room:
            return await with_sources(client, url, question.scope, given)

    heads = await asyncio.gather(*map(one, chosen.questions))
    await settled(client, url)
    return await asyncio.gather(*map(recorded, chosen.questions, heads))


async def answer_set(
    client: aiohttp.ClientSession,
    url: str,
    chosen: EvalSet,
    count: int,
    say: Say,
    *,
    model: str | None = None,
    budget: int | None = None,
) -> Probe:
    """A sample of `count` questions and some unanswerable ones, each answered with memory and without.

    By `model`, or the first that is served; `budget` in tokens, None: the service's own. Raises CallFailed.
    """
    name = model or await served_model(client, url)
    questions = sampled(chosen, count)
    progress = Progress(f"{chosen.name}: answers", len(questions), say)
    room = asyncio.Semaphore(CHATS_AT_ONCE)

    async def one(question: Question) -> tuple[Said, Said]:
        async with room:
            asked = (client, url, name, question.scope, question.text)
            remembering = await ask_answer(*asked, mode="read", budget=budget)
            bare = await ask_answer(*asked, mode="off", budget=budget)
        progress.moved(1)
        return remembering, bare

    async def recorded(question: Question, said: Said) -> Said:
        async with room:
            return replace(said, given=await with_sources(client, url, question.scope, said.given))

    said = await asyncio.gather(*map(one, questions))
    await settled(client, url)
    remembering = await asyncio.gather(*map(recorded, questions, [first for first, _ in said]))
    bare = [second for _, second in said]
    return Probe(name, tuple(map(Answered, questions, remembering, bare)))


async def baseline_rankings(chosen: EvalSet, embedder: Embedder | None, say: Say) -> dict[str, Rankings]:
    """The baselines' SEARCHED best turns for every question, by name; `dense` and `rrf` only with an embedder.

    Raises EmbedderUnavailable.
    """
    indexes = {scope: SingleTurnBm25(lines) for scope, lines in chosen.lines.items()}
    found: dict[str, Rankings] = {
        "bm25": [indexes[question.scope].ranked(question.text, SEARCHED) for question in chosen.questions]
    }
    if embedder is None:
        return found
    words = [indexes[question.scope].matching(question.text, FUSED_DEPTH) for question in chosen.questions]
    dense = await _dense_rankings(chosen, embedder, say)
    found["dense"] = [ranking[:SEARCHED] for ranking in dense]
    found["rrf"] = [fused(both, SEARCHED) for both in zip(words, dense, strict=True)]
    return found


async def _dense_rankings(chosen: EvalSet, embedder: Embedder, say: Say) -> Rankings:
    texts = list(dict.fromkeys(dense_text(line) for lines in chosen.lines.values() for line in lines))
    progress = Progress(f"{chosen.name}: turns embedded for the dense baseline", len(texts), say)
    parts: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), _EMBEDDED_AT_ONCE):
        parts.append(await embedder.embed_documents(texts[start : start + _EMBEDDED_AT_ONCE]))
        progress.moved(len(parts[-1]))
    vectors, place = np.concatenate(parts), {text: at for at, text in enumerate(texts)}
    indexes = {
        scope: SingleTurnDense([line["source_id"] for line in lines], vectors[[place[dense_text(x)] for x in lines]])
        for scope, lines in chosen.lines.items()
    }
    return [
        indexes[question.scope].ranked(await embedder.embed_query(question.text), FUSED_DEPTH)
        for question in chosen.questions
    ]
