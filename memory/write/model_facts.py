"""Facts by a model that did not serve the conversation: one exchange in, what was heard out, or why the rules take it.

It reads the exchange's own user turns as they are stored, redacted, and nothing else of the conversation. Waits for its
turn as VllmFacts does; an answer without JSON is asked for once more. Raises ExtractorUnavailable (come again).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from memory.errors import ChatModelUnavailable, ExtractorUnavailable
from memory.write.ask_facts import SCHEMA, AskForm, other_model_messages
from memory.write.pace import Pace
from memory.write.read_facts import read_answer
from memory.write.vllm_facts import Exchange, Outcome, heard_in

# Libraries of many providers name no count that all of them share: the fewest bytes that a token takes in prose.
BYTES_PER_TOKEN: Final = 3


class Chats(Protocol):
    """A model that answers a conversation."""

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int,
        timeout_s: float,
    ) -> Awaitable[str]:
        """The answer's text. Raises ChatModelUnavailable."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Asks a model. `timeout_s` bounds one question."""

    model: Chats
    pace: Pace
    max_tokens: int
    timeout_s: float

    async def ask(self, exchange: Exchange) -> Outcome:
        """Wait for a turn and ask. Raises ExtractorUnavailable."""
        async with self.pace.turn(exchange.tenant, exchange.finished_at) as granted:
            return await self._asked(exchange) if granted else Outcome("late", tells_cached=False)

    async def _asked(self, exchange: Exchange) -> Outcome:
        outcome = Outcome("unusable", tells_cached=False)
        said = [("user", turn.text) for turn in exchange.turns]
        for again in (False, True):
            messages = other_model_messages(said, AskForm(self.max_tokens, user_turns=len(said), again=again))
            asked_tokens = len(messages[0]["content"].encode()) // BYTES_PER_TOKEN
            await self.pace.spent(exchange.tenant, asked_tokens + self.max_tokens)
            try:
                text = await self.model.complete(
                    messages, schema=SCHEMA, max_tokens=self.max_tokens, timeout_s=self.timeout_s
                )
            except ChatModelUnavailable as exc:
                raise ExtractorUnavailable(str(exc)) from exc
            outcome = replace(
                outcome, prompt_tokens=outcome.prompt_tokens + asked_tokens, questions=outcome.questions + 1
            )
            items = read_answer(text)
            if items is not None:
                return replace(outcome, why="heard", heard=await heard_in(exchange, items))
        return outcome
