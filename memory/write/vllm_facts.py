"""Facts by the serving vLLM: one exchange in, what was heard out, or why the heuristic path is to take it.

Waits for its turn, asks, reads; an answer without JSON is asked for once more in other words, thinking turned off by
the template whatever that costs. A question that is given up because users wait goes back to the line. Never raises
for a bad answer; ExtractorUnavailable (the server is away) leaves the exchange to come again, until its time is up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, Protocol
from uuid import UUID

from memory.errors import ExtractorRefused, ExtractorUnavailable
from memory.off_loop import off_loop
from memory.write.ask_facts import AskForm, ask_body
from memory.write.pace import Pace, Yielded
from memory.write.read_facts import Heard, UserTurn, heard, read_answer
from memory.write.thinking import ThinkingOff

# late: its time or its tenant's tokens are up. not_askable, refused, unusable: no answer can be had of it.
Why = Literal["heard", "late", "not_askable", "refused", "unusable"]


class Completed(Protocol):
    """An answer and what it cost, in tokens."""

    @property
    def text(self) -> str: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int | None: ...
    @property
    def cost_tokens(self) -> int: ...


class Completes(Protocol):
    """The serving vLLM."""

    def complete(self, body: bytes) -> Awaitable[Completed]:
        """Raises ExtractorUnavailable, ExtractorRefused."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is asked about. `blocks` and `salt` as in `ask_body`; `turns`: its own user turns as stored, in order."""

    tenant: UUID
    finished_at: datetime
    request: bytes
    answer: Mapping[str, Any] | None
    turns: Sequence[UserTurn]
    blocks: Mapping[int, str] = field(default_factory=dict)
    salt: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: `heard` when `why` says so. Tokens of all its questions; `yielded`: how often it gave way;
    `tells_cached`: whether the model is one that may say how much of its prompt it had.
    """

    why: Why
    heard: Heard | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    questions: int = 0
    yielded: int = 0
    tells_cached: bool = True


async def heard_in(exchange: Exchange, items: Sequence[Any]) -> Heard:
    """What of an answer holds. A quotation is searched for in 300 KB in 10 ms, their words are taken in in 400: no work
    for the event loop.
    """
    size = (40 + len(items)) * sum(len(turn.text) for turn in exchange.turns)
    return await off_loop(size, partial(heard, items, exchange.turns))


class VllmFacts:
    """Asks the serving vLLM."""

    def __init__(self, client: Completes, pace: Pace, thinking: ThinkingOff, *, max_tokens: int) -> None:
        self._client = client
        self._pace = pace
        self._thinking = thinking
        self._max_tokens = max_tokens

    async def ask(self, exchange: Exchange) -> Outcome:
        """Wait for a turn and ask. Raises ExtractorUnavailable."""
        outcome = Outcome("late")
        while True:
            async with self._pace.turn(exchange.tenant, exchange.finished_at) as granted:
                if not granted:
                    return replace(outcome, why="late")
                try:
                    return await self._asked(exchange, outcome)
                except Yielded:
                    outcome = replace(outcome, yielded=outcome.yielded + 1)
                except ExtractorRefused:
                    return replace(outcome, why="refused")

    async def _asked(self, exchange: Exchange, outcome: Outcome) -> Outcome:
        """One turn: a question and, where its answer is none, a second."""
        try:
            way = await self._thinking.way(exchange.request)
        except ValueError:
            return replace(outcome, why="not_askable")
        first = AskForm(self._max_tokens, user_turns=len(exchange.turns), thinking=way)
        again = "template" if way == "grammar" else way
        for form in (first, replace(first, again=True, thinking=again)):
            body = await off_loop(len(exchange.request), partial(_body, exchange, form))
            if body is None:
                return replace(outcome, why="not_askable")
            try:
                answer = await self._pace.unless_others_wait(_call(self._client, body))
            except ExtractorUnavailable:  # it may have worked on it all the same: a slow server is not asked for ever
                await self._pace.spent(exchange.tenant, self._max_tokens)
                raise
            await self._pace.spent(exchange.tenant, answer.cost_tokens)
            outcome = replace(
                outcome,
                prompt_tokens=outcome.prompt_tokens + answer.prompt_tokens,
                cached_tokens=outcome.cached_tokens + (answer.cached_tokens or 0),
                questions=outcome.questions + 1,
            )
            items = read_answer(answer.text)
            if items is not None:
                if form.thinking != way:
                    self._thinking.correct(exchange.request, form.thinking)
                return replace(outcome, why="heard", heard=await heard_in(exchange, items))
        return replace(outcome, why="unusable")


async def _call(client: Completes, body: bytes) -> Completed:
    return await client.complete(body)


def _body(exchange: Exchange, form: AskForm) -> bytes | None:
    return ask_body(exchange.request, exchange.answer, form, blocks=exchange.blocks, salt=exchange.salt)
