"""Another model is asked for facts: with the user's own words as they are stored, and once more where it babbles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.errors import ChatModelUnavailable, ExtractorUnavailable
from memory.write.model_facts import ModelFacts
from memory.write.pace import Limits, Pace, SpentHere
from memory.write.read_facts import UserTurn
from memory.write.vllm_facts import Exchange

NOW = datetime(2026, 11, 21, tzinfo=UTC)
FACT = {"evidence": "I live in Oslo", "subject": "user", "predicate": "lives_in", "object": "Oslo"}
WHOLE = json.dumps({"facts": [FACT]})


class Quiet:
    async def busy(self, ours: int) -> bool:
        return False


class Model:
    """Says these things, one a question."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        self.asked.append(messages[0]["content"])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def facts_by(model: Model, **limits: Any) -> ModelFacts:
    return ModelFacts(model, Pace(Limits(**limits), Quiet(), SpentHere(), lambda: NOW), max_tokens=64, timeout_s=5.0)


def exchange(age_s: float = 0) -> Exchange:
    turns = [UserTurn("Hello!"), UserTurn("I live in Oslo.")]
    return Exchange(UUID(int=1), NOW - timedelta(seconds=age_s), b"my password is hunter2", None, turns)


async def test_it_reads_the_stored_turns_and_nothing_else() -> None:
    model = Model(WHOLE)
    outcome = await facts_by(model).ask(exchange())
    assert outcome.heard is not None
    assert [(one.turn, one.fact.object) for one in outcome.heard.found] == [(1, "oslo")]
    assert "I live in Oslo." in model.asked[0]
    assert "hunter2" not in model.asked[0]


@pytest.mark.parametrize(("answers", "why"), [(("Sure!", WHOLE), "heard"), (("Sure!", "Well"), "unusable")])
async def test_prose_is_asked_about_once_more(answers: tuple[str, ...], why: str) -> None:
    model = Model(*answers)
    outcome = await facts_by(model).ask(exchange())
    assert (outcome.why, outcome.questions) == (why, 2)
    assert model.asked[0] != model.asked[1]


async def test_a_model_that_is_away_leaves_the_exchange_to_come_again() -> None:
    with pytest.raises(ExtractorUnavailable):
        await facts_by(Model(ChatModelUnavailable("gone"))).ask(exchange())


async def test_what_waited_too_long_and_who_has_spent_the_day_are_not_asked_for() -> None:
    assert (await facts_by(Model(), defer_max_s=60).ask(exchange(61))).why == "late"
    spending = facts_by(Model(WHOLE), tokens_per_day=50, defer_max_s=60)
    await spending.ask(exchange())
    assert (await spending.ask(exchange())).why == "late"
