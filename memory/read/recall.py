"""Recall for one question: (Scope, question) -> Recall, best first.

Reads through ports only, never writes, and never raises to the caller: past the deadline or on a fault it returns what
it has, and says in `rung` and `reason` how far down it had to go. Fails open: no memory, same answer. No LLM.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, Protocol
from uuid import UUID

from memory.bounded import unheard
from memory.errors import EmbedderUnavailable, MemoryProxyFault, Refused, StoreUnavailable, TimedOut, Unprocessable
from memory.model import Candidate, IndexRow, Recall, Rung, Scope, ScopeVersion, Vector
from memory.passage import took
from memory.ports import QueryEmbedder, QueryTransformer
from memory.read.answers import Answers, Found
from memory.read.candidates import as_candidate, as_style, candidate_of
from memory.read.hot import HotScope, HotScopes, IndexUnreadable, ScopeTooLarge
from memory.read.items import Filter
from memory.read.prepared import Prepared
from memory.read.rerank import Reranking
from memory.read.retaught import without_retaught
from memory.read.tiers import cascaded
from memory.read.transform import FollowUp
from memory.read.words import words_of
from memory.telemetry import Metrics, event, place_of

log: Final = logging.getLogger("memory_proxy.recall")
# Of the deadline, the part that the embedding may take before the lexical rung is taken instead: what is left is
# enough for a lexical search of 10,000 items (bench/tune_recall.py: 4 ms) many times over.
_EMBEDDING_SHARE: Final = 0.6
# How long the event loop stands aside for the thread that has been given a question. Without this that thread waits for
# the interpreter until the loop has nothing to do: it began after .75 ms, and now after .15 (bench/search_times.py, two
# cores: a hot search of 10,000 took 3.4 ms more than the embedding alone, and 2.5 with this).
_HANDED_OVER_S: Final = 50e-6
# The part that a prompt's question waits for the first load of its scope before Postgres answers. A small scope is
# loaded by then; while 10,000 memories were (3 s) Postgres had too little left after .6: 8 of 12 questions got nothing.
_FIRST_LOAD_SHARE: Final = 0.3
# Of a cold scope the nearest memories by cosine are fetched and ranked like a hot one. LoCoMo's recall@10 by cosine
# alone, with the nearest 50, 100, 200 ranked so, and hot: .466, .627, .700, .733, .783; BEAM-100K's .463, .591, .629,
# .647, .653; MemSim's .968, then .988 throughout. The characters bound the time: about .5 ms a thousand.
COLD_CANDIDATES: Final = 200
COLD_CHARS_MAX: Final = 150_000
# When to ask again of the past where no more of it may be read on: 60,000 memories are read in 10 to 20 s.
_OTHERS_READ_S: Final = 10
# A turn that only asks the same has at most so many characters more or less than the question.
_AS_LONG_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the memory of a scope. `known_chains` are turns the prompt already contains."""

    scope: Scope
    text: str
    k: int
    now: datetime
    where: Filter
    searched: str = ""  # by which text it is searched where that is another one: `Recaller.searched_by`
    known_chains: Sequence[bytes] = ()
    announced: Mapping[int, int] | None = None
    as_of: datetime | None = None
    skip_repeats: bool = False  # leave out turns that say no more than the question itself
    replay: tuple[UUID, int] | None = None  # a session, and how many of its last turns are wanted whatever is asked
    strict: bool = False  # confirm the index with the store first: a search reads its own writes
    alike: bool = False  # name all that say the words of what is found, too

    rung: Rung = "full"  # where to begin: lower than full under load

    @property
    def may_be_known(self) -> bool:
        """Whether an answer of a moment ago may be this one's: nothing of it is of another time or this session's."""
        return self.as_of is None and not self.strict and self.replay is None and self.where.attributes is None

    @property
    def decisive(self) -> tuple[Hashable, ...]:
        """What decides the answer beside the scope, the texts and the moment."""
        return self.k, self.where, tuple(self.known_chains), self.skip_repeats


class ColdStore(Protocol):
    """The store as it answers for a scope that is not held in process."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see. Raises StoreUnavailable."""

    async def nearest(
        self, tenant: UUID, scope_ids: Sequence[int], vector: Vector, k: int, where: Filter, *, now: datetime
    ) -> list[IndexRow]:
        """The k nearest memories by an exact scan, nearest first. Raises StoreUnavailable."""


class Recaller:
    """Answers questions from hot scopes, and from Postgres while a scope is cold."""

    def __init__(
        self,
        hot: HotScopes,
        cold: ColdStore,
        embedder: QueryEmbedder,
        metrics: Metrics,
        *,
        reranking: Reranking | None = None,
        transformer: QueryTransformer | None = None,
        answers: Answers | None = None,
    ) -> None:
        self._hot = hot
        self._cold = cold
        self._embedder = embedder
        self._metrics = metrics
        self._reranking = reranking
        self._transformer = transformer or FollowUp()
        self._answers = answers or Answers(metrics)

    def searched_by(self, text: str, previous: Sequence[str] = ()) -> str:
        """By what a question is searched that stands behind these texts, oldest first: `embed` and `Question.searched`
        are given the same. Reads all of the text (1 to 2 ms at 64 KiB), so it is asked once.
        """
        return self._transformer.transform(text, previous) or text

    def at_hand(self, searched: str) -> asyncio.Future[Vector] | None:
        """The vector of a text, where it was asked for a moment ago: it costs nothing, whatever the load."""
        known = self._embedder.at_hand(searched)
        if known is None:
            return None
        vector: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
        vector.set_result(known)
        return vector

    async def embed(self, searched: str) -> asyncio.Future[Vector]:
        """Start the embedding of what `searched_by` gave; called as soon as the question is known."""
        started = time.perf_counter()
        if (known := self.at_hand(searched)) is not None:
            took("embed", started)
            return known
        task = asyncio.create_task(self._embedder.embed_query(searched))
        task.add_done_callback(unheard)
        task.add_done_callback(lambda _: took("embed", started))
        await asyncio.sleep(0)  # it is handed to its thread
        if not task.done():
            time.sleep(_HANDED_OVER_S)  # noqa: ASYNC251  the loop lets go of the interpreter, which is the point
        return task

    async def search(self, question: Question, deadline_s: float, previous: Sequence[str] = ()) -> Recall:
        """`recall` of a question that nothing was begun for: it stands behind the `previous` texts, oldest first."""
        searched = self.searched_by(question.text, previous)
        return await self.recall(replace(question, searched=searched), await self.embed(searched), deadline_s)

    async def recall(self, question: Question, embedding: asyncio.Future[Vector] | None, deadline_s: float) -> Recall:
        """Answer within `deadline_s` seconds from now; what comes later is dropped, not awaited.

        `embedding` None: by words alone, since there is no time for more.
        """
        started = time.perf_counter()
        try:
            with self._hot.asking():
                found = await self._found(question, embedding, started, deadline_s)
        except Exception as fault:  # noqa: BLE001  never in the way: a defect of ours costs the memory, not the answer
            event(log, "recall_failed", logging.ERROR, fault=type(fault).__name__, at=place_of(fault))
            found = Recall(reason="error")
        millis = (time.perf_counter() - started) * 1000
        self._metrics.recall_seconds.observe(found.rung, millis / 1000)
        return replace(found, millis=millis)

    async def _found(
        self, question: Question, embedding: asyncio.Future[Vector] | None, started: float, deadline_s: float
    ) -> Recall:
        if self._reranking is None or question.rung != "full":
            return _said_of_load(await self._answer(question, embedding, deadline_s), self._reranking, embedding)
        return await self._reranked(self._reranking, question, embedding, started + deadline_s)

    async def _reranked(
        self, reranking: Reranking, question: Question, embedding: asyncio.Future[Vector] | None, deadline: float
    ) -> Recall:
        """The answer, its best in a better order as far as there is time. One from the store stays `no-rerank`. Turns
        that are replayed stand before it, whatever they say, and take no place in it.
        """
        deeper = replace(question, k=max(question.k, reranking.depth))
        answer = await self._answer(deeper, embedding, deadline - time.perf_counter())
        replayed = tuple(one for one in answer.candidates if one.replayed)
        found = replace(answer, candidates=answer.candidates[len(replayed) :])
        if found.rung != "no-rerank":
            asked = question.searched or question.text
            found = await reranking.applied(asked, found, deadline - time.perf_counter())
        return replace(found, candidates=(*replayed, *found.candidates[: question.k]))

    async def _answer(self, question: Question, embedding: asyncio.Future[Vector] | None, deadline_s: float) -> Recall:
        """From what was answered a moment ago where the scope is as it was then, else by a search.

        Each who waits for a shared search leaves at a deadline of its own. One with the deadline of whoever began it
        would end for all of them, and all would begin again.
        """
        began = asyncio.get_running_loop().time()
        search = partial(self._searched, question, embedding, began, deadline_s)
        try:
            async with asyncio.timeout(deadline_s):
                if not question.may_be_known:
                    return (await search()).recall
                by_words = embedding is None
                if recent := self._recent(question) or (self._recent(question, by_words) if by_words else None):
                    return recent
                await self._caught_up(question, began + deadline_s * _EMBEDDING_SHARE)
                if by_words and (known := self._as_it_was(question)) is not None:
                    return known
                key = self._key(question, by_words)
                return await self._answers.of(key, lambda: self._state(question), question.now, search)
        except TimeoutError:
            return Recall(reason="deadline")

    async def _caught_up(self, question: Question, until: float) -> None:
        """Wait until the index is as new as this question wants it, not beyond `until`: many who ask the same share one
        search of it then. Where it fails or is late the search finds that out and says so.
        """
        scope, announced = question.scope, question.announced
        if self._hot.held(scope) is None or self._hot.fresh(scope, announced) is not None:
            return
        reading = asyncio.create_task(self._hot.get(scope, announced))
        reading.add_done_callback(unheard)
        try:
            await asyncio.wait((reading,), timeout=until - asyncio.get_running_loop().time())
        finally:
            reading.cancel()  # nobody waits for it any more; what it reads goes on

    async def styles(self, question: Question, most: int, within_s: float) -> tuple[Candidate, ...]:
        """How the user of a question likes answers to be, by facts of their own scope that are held in this process;
        nothing where the recall thread does not come to it `within_s`, or their index is read anew, or was confirmed
        too long ago: an erasure may not have been heard of.
        """
        hot = self._hot.late(question.scope) if most else None
        if hot is None:
            return ()
        index = hot.index
        work = partial(index.styles, question.where.among(hot.visibility), question.now)
        try:
            async with asyncio.timeout(within_s):
                found = await self._hot.run_at_once(hot, work)
        except TimeoutError:
            return ()
        if not hot.answers_by(index):
            return ()
        own = [one.item for one in found if hot.visibility.get(one.item.scope_id, "own") == "own"]
        return tuple(as_style(item, place) for place, item in enumerate(own[:most]))

    def refused(self, question: Question, recall: Recall, deadline_s: float) -> Refused | None:
        """Why a question of the past was not answered, and when to ask again; None where it was, or is one of now."""
        if question.as_of is None or recall.reason not in ("deadline", "error"):
            return None
        scope, moment = question.scope, question.as_of
        if (given_up := self._hot.given_up(scope, moment)) is not None:
            fault, left_s = given_up
            if isinstance(fault, ScopeTooLarge):
                return Unprocessable(f"{fault}: it cannot be asked as of another time", param="as_of")
            return StoreUnavailable(f"{fault} as of then", retry_after_s=math.ceil(left_s))
        if recall.reason == "error":
            return None
        late = f"it took longer than {deadline_s:g} s to read what was known then"
        if self._hot.is_read_on(scope, moment):
            return TimedOut(f"{late}; the reading goes on: ask again", retry_after_s=1)
        return TimedOut(f"{late}; readings of other moments go on before it", retry_after_s=_OTHERS_READ_S)

    def known(self, question: Question) -> Recall | None:
        """What was answered to it a moment ago, where nothing has changed since; costs nothing."""
        if not question.may_be_known or self._reranking is not None:
            return None
        return self._as_it_was(question) or self._recent(question)

    def _as_it_was(self, question: Question) -> Recall | None:
        return self._answers.known(self._key(question), self._state(question), question.now)

    def _recent(self, question: Question, by_words: bool = False) -> Recall | None:
        """While many ask at once, what was answered to it within the staleness: what is stored meanwhile is found by
        who asks later, and what is erased, or is known here to be taken back, is in no answer.
        """
        since, hot = self._hot.crowded_since, self._hot.late(question.scope)
        if since is None or hot is None:
            return None
        return self._answers.recent(self._key_of(question, None, by_words), since, question.now, partial(_stands, hot))

    def _key(self, question: Question, by_words: bool = False) -> Hashable:
        """What its answer is known by: one from an index that is behind the announced is for who knows no more, one by
        words alone for who has no vector.
        """
        behind: Hashable = None
        if self._state(question) is None:
            late = self._hot.late(question.scope)
            behind = tuple(sorted((question.announced or {}).items())) if late is None else late.index.state
        return self._key_of(question, behind, by_words)

    def _key_of(self, question: Question, behind: Hashable, by_words: bool) -> Hashable:
        rest = (question.scope, behind, by_words, *question.decisive)
        return self._answers.key((question.text, question.searched), rest)

    def _state(self, question: Question) -> object | None:
        """What an answer to this question rests on; None where that must be confirmed first."""
        hot = self._hot.fresh(question.scope, question.announced)
        return None if hot is None else hot.index.state

    async def _searched(
        self, question: Question, embedding: asyncio.Future[Vector] | None, began: float, deadline_s: float
    ) -> Found:
        """The answer of a search whose deadline is `deadline_s` after `began`, seconds of the event loop's clock. Where
        something of its tenant was erased meanwhile it is made anew: rows of the store, and an index that had to make
        room, are held for this one question, where no erasure finds them.
        """
        tenant = question.scope.tenant
        try:
            while True:
                drops = self._hot.drops(tenant)
                found = await self._search(question, embedding, began, deadline_s)
                if drops == self._hot.drops(tenant):
                    return found
        except StoreUnavailable:
            return Found(Recall(reason="store"), None)
        except MemoryProxyFault:
            return Found(Recall(reason="error"), None)
        finally:
            if embedding is not None:
                embedding.cancel()  # nobody waits for it any more: where it has not begun it need not

    async def _search(
        self, question: Question, embedding: asyncio.Future[Vector] | None, began: float, deadline_s: float
    ) -> Found:
        loading = self._loading(question)
        preparing: asyncio.Task[Prepared] | None = None
        if embedding is not None and not embedding.done():  # else there is nothing to do it beside
            preparing = asyncio.create_task(self._prepared(question, loading))
            preparing.add_done_callback(unheard)
        try:
            vector = await self._vector(embedding, began + deadline_s * _EMBEDDING_SHARE)
            until = began + deadline_s * self._index_share(question)
            while (hot := await self._index_or_none(question, loading, vector, until)) is not None:
                prepared = await preparing if preparing is not None else None
                if question.as_of is None:
                    self._metrics.scope_staleness_seconds.observe(time.monotonic() - hot.confirmed_at)
                index, started = hot.index, time.perf_counter()
                found = await self._hot.run_at_once(hot, partial(_ranked, question, hot, prepared, vector))
                took("search", started)
                if hot.answers_by(index):
                    return replace(found, by_words=True) if embedding is None else found
                loading = self._loading(question)  # it was whole when it was given, and is not any more
            return Found(await self._from_store(question, vector), question.now)
        finally:
            loading.cancel()  # nobody waits for it any more; what it reads of now goes on, for others

    async def _prepared(self, question: Question, loading: asyncio.Task[HotScope]) -> Prepared:
        """The question as far as it can be prepared without its vector; runs while that is computed.

        From the index as it is held, before it is confirmed: where that changes it, the question is prepared anew.
        """
        hot = self._hot.held(question.scope) if question.as_of is None else None
        if hot is None:
            hot = await loading
        return await self._hot.run(lambda: _prepared_for(question, hot))

    def _loading(self, question: Question) -> asyncio.Task[HotScope]:
        loading = asyncio.create_task(self._index(question))
        loading.add_done_callback(unheard)
        return loading

    async def _index(self, question: Question) -> HotScope:
        if question.as_of is not None:
            return await self._hot.as_of(question.scope, question.as_of)
        return await self._hot.get(question.scope, question.announced, strict=question.strict)

    def _index_share(self, question: Question) -> float:
        """The part of the deadline to wait for an index; a search of the API has the time to wait for its load. Nothing
        else answers a question of the past.
        """
        if question.as_of is not None:
            return 1.0
        if question.strict or self._hot.held(question.scope) is not None:
            return _EMBEDDING_SHARE
        return _FIRST_LOAD_SHARE

    async def _vector(self, embedding: asyncio.Future[Vector] | None, until: float) -> Vector | None:
        """The question's vector, or None when the embedder fails or takes its share of the deadline: lexical rung."""
        if embedding is None:
            return None
        done, _ = await asyncio.wait((embedding,), timeout=until - asyncio.get_running_loop().time())
        try:
            return embedding.result() if done else None
        except EmbedderUnavailable:
            return None

    async def _index_or_none(
        self, question: Question, loading: asyncio.Task[HotScope], vector: Vector | None, until: float
    ) -> HotScope | None:
        """The index, or None where Postgres must answer. Loading goes on for the next question.

        One that is late though it is held answers as it is while its last confirmation holds: a process that is late
        would be later still with 200 memories from the store for each of its questions.
        """
        await asyncio.wait((loading,), timeout=until - asyncio.get_running_loop().time())
        late = None if question.strict or question.as_of is not None else self._hot.late(question.scope)
        if not loading.done() and (late is not None or vector is not None):
            return late
        try:
            return await asyncio.shield(loading)
        except (ScopeTooLarge, IndexUnreadable):
            if vector is None:
                raise
            return None
        except StoreUnavailable:
            if late is None:
                raise
            return late

    async def _from_store(self, question: Question, vector: Vector | None) -> Recall:
        if vector is None or question.as_of is not None:  # the store's nearest are those of now
            return Recall(reason="deadline")
        visible = await self._cold.visible_scopes(question.scope)
        ids = [v.scope_id for v in visible]
        if not ids:
            return Recall((), "no-rerank")
        where = question.where.among({v.scope_id: v.visibility for v in visible})
        tenant, k = question.scope.tenant, COLD_CANDIDATES
        rows = await self._cold.nearest(tenant, ids, vector, max(k, question.k), where, now=question.now)
        found = await self._hot.run(lambda: self._ranked_alone(question, rows, visible, vector))
        return replace(found, rung="no-rerank")

    def _ranked_alone(
        self, question: Question, rows: Sequence[IndexRow], visible: Sequence[ScopeVersion], vector: Vector
    ) -> Recall:
        """These rows ranked as if the scope held no others; the same as from its index while it holds no others."""
        held = _within(rows, COLD_CHARS_MAX)
        whole = len(held) == len(rows) < COLD_CANDIDATES
        hot = self._hot.index_of(held, part_of=None if whole else len(rows), visible=visible)
        return _ranked(question, hot, _prepared_for(question, hot), vector).recall


def _said_of_load(found: Recall, reranking: Reranking | None, embedding: asyncio.Future[Vector] | None) -> Recall:
    """The answer, saying where it is less because of load."""
    if embedding is None and found.reason == "embedder":
        return replace(found, reason="overload")
    if reranking is not None and found.rung == "full":
        return replace(found, rung="no-rerank", reason="overload")
    return found


def _prepared_for(question: Question, hot: HotScope) -> Prepared:
    """The question as far as it can be prepared without its vector; turns that the prompt contains are left out."""
    shown = frozenset(one for chain in question.known_chains for one in hot.chains.get(chain, ()))
    text = question.searched or question.text
    where = question.where.among(hot.visibility).without(shown)
    return hot.index.prepare(text, now=question.now, where=where)


def _ranked(question: Question, hot: HotScope, prepared: Prepared | None, vector: Vector | None) -> Found:
    """What an index has, best first; a later tier adds nothing where an earlier one answers."""
    if prepared is None or not hot.index.is_of_now(prepared):  # what of it the prompt contains may have changed too
        prepared = _prepared_for(question, hot)
    asked = words_of(question.text) if question.skip_repeats else ()
    scored = hot.index.rank(prepared, vector, question.k)
    hits = [hit for hit in scored if not (question.skip_repeats and _repeats(hit.item.content, question, asked))]
    replayed = _replayed(question, hot, prepared)
    shown = {candidate.memory_id for candidate in replayed}
    kept = [hit for hit in without_retaught(cascaded(hits, hot)) if hit.item.memory_id not in shown]
    same = partial(hot.index.same_words, prepared=prepared) if question.alike else _none_alike
    found = (candidate_of(hit, same(hit.item.memory_id)) for hit in kept)
    candidates = _seen_for((*replayed, *found), hot)
    expires_at = min((hit.item.expires_at for hit in scored if hit.item.expires_at is not None), default=None)
    if vector is None:
        return Found(Recall(candidates, "lexical", "embedder", terms=prepared.told), expires_at, hot.confirmed_at)
    return Found(Recall(candidates, "full", terms=prepared.told), expires_at, hot.confirmed_at)


def _stands(hot: HotScope, found: Recall) -> bool:
    """Whether the index has each of these memories as it was given: not withdrawn, reworded or relabelled since."""
    now = ((one, hot.index.held(one.memory_id)) for one in found.candidates)
    return all(
        item is not None and (item.version, item.sensitivity) == (one.version, one.sensitivity) for one, item in now
    )


def _seen_for(candidates: tuple[Candidate, ...], hot: HotScope) -> tuple[Candidate, ...]:
    """The candidates, each with the reason why its scope is seen where that is not its being the caller's own."""
    if not hot.visibility or set(hot.visibility.values()) == {"own"}:
        return candidates
    why = hot.visibility
    return tuple(replace(one, visibility=why.get(one.scope_id, "own")) for one in candidates)


def _replayed(question: Question, hot: HotScope, prepared: Prepared) -> tuple[Candidate, ...]:
    """The last turns of the conversation that its client does not send again, newest first."""
    if question.replay is None or not hot.index.is_of_now(prepared):  # it is read anew by now, and will be asked again
        return ()
    said = hot.index.last_said(*question.replay, prepared)
    return tuple(replace(as_candidate(item), why="said before in this conversation", replayed=True) for item in said)


def _within(rows: Sequence[IndexRow], chars_max: int) -> Sequence[IndexRow]:
    """The first rows that together have at most so many characters, one at least."""
    left = chars_max
    for at, row in enumerate(rows):
        left -= len(row.content) + len(row.context)
        if left < 0:
            return rows[: max(at, 1)]
    return rows


def _repeats(content: str, question: Question, asked: Sequence[str]) -> bool:
    """Whether a text says the words of the question and no more: an earlier turn that only asked the same answers
    nothing. Looks only at texts of about its length.
    """
    return abs(len(content) - len(question.text)) <= _AS_LONG_CHARS and words_of(content) == asked


def _none_alike(_: UUID) -> tuple[UUID, ...]:
    return ()
