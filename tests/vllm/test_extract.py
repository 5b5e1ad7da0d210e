"""A real vLLM is asked for facts: from its prefix cache, in the form of the schema, in the words of the user."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import jsonschema
import pytest

from memory.adapters.vllm_client import VllmClient
from memory.adapters.vllm_load import VllmLoad
from memory.write.ask_facts import SCHEMA, AskForm, ask_body
from memory.write.pace import Limits, Pace, SpentHere
from memory.write.read_facts import UserTurn
from memory.write.thinking import ThinkingOff
from memory.write.vllm_facts import Exchange, VllmFacts
from tests.vllm.model_server import MODEL, ModelServer, post

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

SAID = "By the way, I live in Oslo and my dog is called Biscuit."
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.fixture
async def client(vllm: ModelServer) -> AsyncIterator[VllmClient]:
    asker = VllmClient(vllm.url, wall_s=300)
    yield asker
    await asker.close()


def served(mark: str = "", **more: Any) -> dict[str, Any]:
    """A conversation of about 1,000 tokens that no other test has, as it goes upstream; the same for the same mark."""
    mark = mark or uuid4().hex[:8]
    messages: list[dict[str, Any]] = []
    for part in range(4):
        houses = range(part * 10, part * 10 + 10)
        text = " ".join(f"In house {n} of {mark} street are {n * 7} boats, a lamp and a cat." for n in houses)
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "I see, many boats."}]
    return {"model": MODEL, "messages": [*messages, {"role": "user", "content": SAID}], "max_tokens": 24, **more}


def answered(vllm: ModelServer, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """What the model says, and the prompt's tokens."""
    answer = post(f"{vllm.url}/v1/chat/completions", body)
    return answer["choices"][0]["message"], answer["usage"]["prompt_tokens"]


# The marks are fixed: of random ones the model of 135M gives now and then an answer that is no JSON, which is not what
# is asked here.
@pytest.mark.parametrize(
    "more",
    [{"mark": "0a51c3e7"}, {"mark": "5be0d1f2", "tools": [TOOL]}, {"mark": "c4e8a960", "cache_salt": "a-tenant"}],
    ids=["plain", "tools", "salt"],
)
async def test_nine_tenths_of_the_question_come_from_the_cache(
    vllm: ModelServer, client: VllmClient, more: dict[str, Any]
) -> None:
    load = VllmLoad([f"{vllm.url}/metrics"])
    pace = Pace(Limits(), load, SpentHere(), lambda: datetime.now(UTC))
    facts = VllmFacts(client, pace, ThinkingOff(client.token_ids), max_tokens=96)
    body = served(**more)
    message, tokens = answered(vllm, body)
    assert tokens >= 1000
    outcome = await facts.ask(
        Exchange(uuid4(), datetime.now(UTC), json.dumps(body).encode(), message, [UserTurn(SAID)])
    )
    await load.close()
    assert outcome.why == "heard"
    assert outcome.cached_tokens / outcome.prompt_tokens >= 0.9, outcome
    assert outcome.heard is not None
    for found in outcome.heard.found:
        assert SAID[slice(*found.fact.span)]


async def test_the_answer_keeps_to_the_schema(vllm: ModelServer, client: VllmClient) -> None:
    body = served()
    message, _ = answered(vllm, body)
    question = ask_body(json.dumps(body).encode(), message, AskForm(max_tokens=700))
    assert question is not None
    answer = await client.complete(question)
    if answer.finish_reason == "stop":
        jsonschema.validate(json.loads(answer.text), SCHEMA)
    else:  # a small model goes on and on; what there is of it has the form
        assert answer.text.lstrip().startswith("{")


async def test_the_flag_against_thinking_keeps_the_prefix_of_this_template(client: VllmClient) -> None:
    assert await ThinkingOff(client.token_ids).way(json.dumps(served()).encode()) == "template"
