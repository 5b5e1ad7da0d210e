"""Episodes: a session that ended in, one memory of what happened in it out (docs/decisions/0011).

A session has ended when nobody spoke in it for `idle_s`, or when so many turns are untold. The next episode goes on
where the last one ended, so a conversation of weeks is told in ranges that neither overlap nor leave anything out.
Read, tell, embed, put: nothing is held between the steps, and the store takes a range once, under the leader's fence.
A range in which nothing happened (a greeting, a sign) is passed over without a memory. Raises StoreUnavailable,
EmbedderUnavailable (come again), LeaseLost (another leads now). No model but the embedder.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import UUID

from memory.errors import StoreRefused
from memory.ids import derived_id
from memory.model import NewMemory
from memory.ports import Embedder, LanguageDetector
from memory.write.embedding import embedded, ending
from memory.write.procedures import Approve, PastRun, embedded_procedures, proposal
from memory.write.windows import TextTokenizer
from policies.brought import is_errand
from policies.episode import Said, calls_in, outcome_of, sentences_told, task_of, told, worth_telling
from policies.episode_words import entities_of, files_of, tools_of, topics_of, urls_of
from policies.labels import Integrity, Sensitivity, derived_integrity, derived_sensitivity
from policies.lifetime import DaysOf
from policies.procedure_runs import pattern_of, sequence_of

COLLECTION: Final = "episode"
EXTRACTOR_VERSION: Final = "episode-1"
TURN_CHARS_MAX: Final = 20_000
"""Of each turn; of a tool's output of 300 kB nothing behind it is read."""


@dataclass(frozen=True, slots=True)
class DueSession:
    """A session with turns from `first_seq` on that no episode tells. `idle`: it ended by itself, not by its size."""

    tenant: UUID
    scope_id: int
    session_id: UUID
    first_seq: int
    next_seq: int
    idle: bool


@dataclass(frozen=True, slots=True)
class ToldTurn:
    """A turn as an episode reads it. `hidden`: its words must not be told again. `unlearnt`: an answer that says
    nothing, or only what memory had said: what it called counts, its words do not.
    """

    event_id: UUID
    exchange_id: UUID
    seq: int
    role: str
    content: str
    tool_calls: list[Any] | None
    parts: list[dict[str, Any]] | None
    integrity: str
    sensitivity: str
    token_count: int | None
    occurred_at: datetime
    recorded_at: datetime
    status: str | None
    usage: dict[str, Any] | None
    hidden: bool
    unlearnt: bool = False


@dataclass(frozen=True, slots=True)
class Episode:
    """What is put: the range from `first` to `last`, and its memory, None where nothing is worth telling. `proposal`:
    the procedure that it shows together with earlier ones.
    """

    turns: tuple[ToldTurn, ...]
    memory: NewMemory | None
    proposal: NewMemory | None = None

    @property
    def upto_seq(self) -> int:
        """The number of the first turn behind it."""
        return self.turns[-1].seq + 1


class EpisodeStore(Protocol):
    """Where ended sessions are found and episodes are put."""

    async def tenants(self) -> tuple[UUID, ...]:
        """Whose sessions there may be. Raises StoreUnavailable."""

    async def due(self, tenant: UUID, *, idle_s: float, turns_max: int, limit: int) -> tuple[DueSession, ...]:
        """Sessions that ended, at most `limit`. Raises StoreUnavailable."""

    async def turns(self, due: DueSession, *, limit: int, chars_max: int) -> tuple[ToldTurn, ...]:
        """Its untold turns, in order. Raises StoreUnavailable."""

    async def past_runs(self, due: DueSession, pattern: str) -> tuple[PastRun, ...]:
        """Earlier episodes in which the same was called in the same order; none where that has a procedure already.

        Raises StoreUnavailable.
        """

    async def put(self, due: DueSession, episode: Episode, *, fence: int, now: datetime) -> bool:
        """Store it and move on behind it; False where the range is told already or not as it was read any more.

        Raises StoreUnavailable, StoreRefused, LeaseLost.
        """

    async def pass_over(self, due: DueSession, *, fence: int) -> bool:
        """Move on behind a range that no turn is left of; False where one is there, or somebody moved on before.

        Raises StoreUnavailable, LeaseLost.
        """


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a session has ended, and how much is told at once."""

    idle_s: float
    turns_max: int
    tokens_max: int
    sentences_max: int
    sessions_max: int  # episodes of one sweep


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did: episodes, ranges in which nothing happened or whose turns are gone, ranges that the store
    refused.
    """

    stored: int = 0
    empty: int = 0
    refused: int = 0

    @property
    def told(self) -> int:
        """Ranges that sessions moved on by."""
        return self.stored + self.empty + self.refused


class Teller:
    """Makes the episodes of sessions that ended."""

    def __init__(
        self,
        store: EpisodeStore,
        embedder: Embedder,
        windows: TextTokenizer,
        languages: LanguageDetector,
        bounds: Bounds,
        clock: Callable[[], datetime],
        lives: DaysOf,
        approve: Approve = "taught",
    ) -> None:
        self._store = store
        self._approve = approve
        self._embedder = embedder
        self._windows = windows
        self._languages = languages
        self._bounds = bounds
        self._clock = clock
        self._lives = lives
        self._first = 0  # the tenant that the next sweep begins with

    async def sweep(self, lead: Callable[[], Awaitable[int | None]]) -> Swept:
        """Tell what is due, at most `sessions_max` ranges; before each `lead` says under which fence, None to stop."""
        swept, tenants = Swept(), await self._store.tenants()
        first = self._first % len(tenants) if tenants else 0
        for place, tenant in enumerate((*tenants[first:], *tenants[:first])):
            while (left := self._bounds.sessions_max - swept.told) > 0:
                before = swept
                for one in await self._due(tenant, left):
                    fence = await lead()
                    if fence is None:
                        return swept
                    swept = await self._tell(one, fence, swept)
                if swept == before:
                    break
            else:
                self._first = first + place + 1  # the next sweep begins with those whose turn did not come
                break
        return swept

    async def _due(self, tenant: UUID, limit: int) -> tuple[DueSession, ...]:
        bounds = self._bounds
        return await self._store.due(tenant, idle_s=bounds.idle_s, turns_max=bounds.turns_max, limit=limit)

    async def _tell(self, due: DueSession, fence: int, swept: Swept) -> Swept:
        """One range. One that the store refuses, or whose turns are gone, is passed over, so that it cannot stand in
        the way of the others.
        """
        episode = await self.episode(due)
        if episode is None:
            passed = await self._store.pass_over(due, fence=fence)
            return replace(swept, empty=swept.empty + 1) if passed else swept
        try:
            put = await self._store.put(due, episode, fence=fence, now=self._clock())
        except StoreRefused:
            nothing = replace(episode, memory=None, proposal=None)
            passed = await self._store.put(due, nothing, fence=fence, now=self._clock())
            return replace(swept, refused=swept.refused + 1) if passed else swept
        if not put:
            return swept
        if episode.memory is None:
            return replace(swept, empty=swept.empty + 1)
        return replace(swept, stored=swept.stored + 1)

    async def episode(self, due: DueSession) -> Episode | None:
        """The next range of a session, told and embedded; None where its turns are gone."""
        bounds = self._bounds
        read = await self._store.turns(due, limit=bounds.turns_max + 1, chars_max=TURN_CHARS_MAX)
        turns = cut_range(read, bounds.turns_max, bounds.tokens_max)
        if not turns:
            return None
        told_in_full = len(turns) == len(read) or read[len(turns)].exchange_id != turns[-1].exchange_id
        memory = await asyncio.to_thread(self._memory, due, turns, told_in_full)
        if memory is None:
            return Episode(turns, None)
        (made,) = ending(await embedded([memory], self._embedder, self._windows), self._clock(), self._lives)
        return Episode(turns, made, await self._proposal(due, memory))

    async def _proposal(self, due: DueSession, memory: NewMemory) -> NewMemory | None:
        """The procedure that this episode completes; the store counts again when it puts it."""
        pattern = pattern_of(memory.attributes)
        if pattern is None:
            return None
        offered = proposal(memory, await self._store.past_runs(due, pattern), self._approve)
        made = await embedded_procedures([offered] if offered else [], self._embedder, self._windows)
        return ending(made, self._clock(), self._lives)[0] if made else None

    def _memory(self, due: DueSession, turns: Sequence[ToldTurn], told_in_full: bool) -> NewMemory | None:
        memory = episode_of(due, turns, self._bounds.sentences_max, told_in_full=told_in_full)
        return memory and replace(memory, language=self._languages.detect(memory.content))


def cut_range(turns: Sequence[ToldTurn], turns_max: int, tokens_max: int) -> tuple[ToldTurn, ...]:
    """The first of these turns that one episode tells: as many as the bounds allow, and whole exchanges unless that
    leaves less than half of them (an import has exchanges of 64 lines).

    Always at least one turn, so that a single large one cannot stop a session.
    """
    tokens, whole, fits = 0, 0, 0
    for place, turn in enumerate(turns):
        if place and turn.exchange_id != turns[place - 1].exchange_id:
            whole = place
        tokens += turn.token_count or 0
        if place == turns_max or (place and tokens > tokens_max):
            break
        fits = place + 1
    return tuple(turns[: whole if fits < len(turns) and 2 * whole > fits else fits])


def episode_of(
    due: DueSession, turns: Sequence[ToldTurn], sentences_max: int, *, told_in_full: bool
) -> NewMemory | None:
    """The episode of these turns as a memory without vectors, or None where nothing is worth telling.

    `told_in_full`: the last turn ends its exchange, else its cost belongs to the next episode.
    """
    open_turns = [turn for turn in turns if not turn.hidden]
    said = [_said(turn) for turn in open_turns]
    if not worth_telling(said):
        return None
    chosen = sentences_told(said, sentences_max)
    if not chosen:
        return None
    first_seq = turns[0].seq
    identity = b"episode" + due.session_id.bytes + first_seq.to_bytes(8, "big")
    return NewMemory(
        memory_id=derived_id(due.session_id, "episode", first_seq),
        kind="episodic",
        content=told(chosen),
        content_key=hashlib.sha256(identity).digest(),
        role="assistant",
        integrity=derived_integrity(Integrity(turn.integrity) for turn in open_turns),
        sensitivity=derived_sensitivity(Sensitivity(turn.sensitivity) for turn in open_turns),
        origin="episode",
        importance=0.5,
        confidence=1.0,
        occurred_at=turns[-1].occurred_at,
        extractor_version=EXTRACTOR_VERSION,
        source_turns=tuple(
            turn.event_id
            for turn, one in zip(open_turns, said, strict=True)
            if not turn.unlearnt or files_of([one]) or urls_of([one])
        ),
        attributes={**_about(said), **_measured(turns, told_in_full)},
    )


def _said(turn: ToldTurn) -> Said:
    parts = turn.parts if isinstance(turn.parts, list) else []
    urls = tuple(part["url"] for part in parts if isinstance(part, dict) and isinstance(part.get("url"), str))
    is_silent = turn.unlearnt or (turn.role == "user" and is_errand(turn.content))
    text = "" if is_silent else turn.content
    return Said(turn.event_id, turn.role, text, calls_in(turn.tool_calls), urls, turn.status)


def _about(said: Sequence[Said]) -> dict[str, Any]:
    outcome = outcome_of(said)
    evidence = {"event_id": str(outcome.event_id), "reason": outcome.reason} if outcome.event_id else None
    return {
        "topics": topics_of(said),
        "task_type": task_of(said),
        "outcome": outcome.verdict,
        "outcome_evidence": evidence,
        "entities": entities_of(said),
        "tools": tools_of(said),
        "tool_sequence": sequence_of(call.name for one in said for call in one.calls),
        "files": files_of(said),
        "urls": urls_of(said),
    }


def _measured(turns: Sequence[ToldTurn], told_in_full: bool) -> dict[str, Any]:
    """Cost in tokens as the upstream counted it, of the exchanges that end in this range; duration in seconds."""
    exchanges = {turn.exchange_id: turn.usage for turn in turns}
    if not told_in_full:
        del exchanges[turns[-1].exchange_id]
    counted = [usage for usage in exchanges.values() if isinstance(usage, dict)]
    times = [turn.occurred_at for turn in turns]
    return {
        "tokens": {name: sum(_whole(usage.get(name)) for usage in counted) for name in _USAGE} if counted else None,
        "duration_s": round((max(times) - min(times)).total_seconds(), 3),
        "first_seq": turns[0].seq,
        "last_seq": turns[-1].seq,
        "turns": len(turns),
    }


_USAGE: Final = ("prompt_tokens", "completion_tokens", "total_tokens")


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
