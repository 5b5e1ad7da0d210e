"""The model remembers: what was told in one session is answered from in another, by a client that changed its URL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.service_fixture import Service, serving
from tests.vllm.conftest import PATIENT
from tests.vllm.model_server import MODEL, ModelServer, client_of
from tests.vllm.talk import ask, tell

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

FACTS = [
    ("My dog is called Biscuit.", "What is my dog called?", "Biscuit"),
    ("I work as a carpenter in Oslo.", "In which city do I work?", "Oslo"),
    ("My favourite colour is turquoise.", "What is my favourite colour?", "turquoise"),
    ("My sister Ines plays the violin.", "Which instrument does my sister Ines play?", "violin"),
    ("The code word of our club is nightingale.", "What is the code word of our club?", "nightingale"),
]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_facts_of_one_session_are_answered_in_another(remembering: Service, vllm: ModelServer, user: str) -> None:
    wrong = []
    for number, (fact, question, word) in enumerate(FACTS):
        who = f"{user}-{number}"
        tell(remembering, vllm, fact, X_Memory_User=who)
        reply = ask(remembering, vllm, question, X_Memory_User=who)
        assert reply.status == "injected", reply
        assert fact in reply.prompt, reply
        if word.lower() not in reply.text.lower():
            wrong.append((question, reply.text))
    # A model of 135 M parameters may slip once; without memory it knows none of these.
    assert len(wrong) <= 1, wrong


def test_without_memory_the_model_knows_nothing_of_it(remembering: Service, vllm: ModelServer, user: str) -> None:
    fact, question, word = FACTS[-1]
    tell(remembering, vllm, fact, X_Memory_User=user)
    for who, mode in ((user, "off"), (f"{user}-other", "on")):
        reply = ask(remembering, vllm, question, X_Memory_User=who, X_Memory_Mode=mode)
        assert word not in reply.prompt
        assert word not in reply.text.lower()


def test_memory_outlives_a_restart_of_the_service(vllm: ModelServer, user: str) -> None:
    fact, question, word = FACTS[0]
    with serving(vllm.url, env=PATIENT) as service:
        tell(service, vllm, fact, X_Memory_User=user)
        assert service.stop() == 0, service.tail()
        service.restart()
        reply = ask(service, vllm, question, X_Memory_User=user)
    assert reply.status == "injected", reply
    assert fact in reply.prompt
    assert word in reply.text


def test_a_streamed_conversation_remembers_and_is_remembered(
    remembering: Service, vllm: ModelServer, user: str
) -> None:
    fact, question, word = FACTS[1]
    with client_of(remembering.openai, X_Memory_User=user) as client:
        told = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": fact}], max_tokens=8, temperature=0, stream=True
        )
        said = "".join(chunk.choices[0].delta.content or "" for chunk in told if chunk.choices)
        remembering.settle()
        answered = client.chat.completions.with_raw_response.create(
            model=MODEL,
            messages=[{"role": "user", "content": question}],
            max_tokens=24,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(answered.parse())
    assert answered.headers["x-memory-status"] == "injected"
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert word in "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0
    found = remembering.call("POST", "/memory/v1/search", {"query": f"Who said {said}?", "k": 20}, X_Memory_User=user)
    assert said.strip() in {candidate["content"].strip() for candidate in found["candidates"]}


def test_tools_work_with_memory_in_the_prompt(remembering: Service, vllm: ModelServer, user: str) -> None:
    tell(remembering, vllm, "I live in Lisbon.", X_Memory_User=user)
    question: dict[str, Any] = {"role": "user", "content": "Where do I live?"}
    named = {"type": "function", "function": {"name": "get_weather"}}
    with client_of(remembering.openai, X_Memory_User=user) as client:
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL,
            messages=[question],
            tools=[WEATHER],
            tool_choice=named,
            max_tokens=120,
            temperature=0,
            extra_body={"return_token_ids": True},
        )
        answer = raw.parse()
        prompt = vllm.decoded(answer.model_extra["prompt_token_ids"])
        assert raw.headers["x-memory-status"] == "injected"
        assert "I live in Lisbon." in prompt
        assert json.dumps(WEATHER) in prompt
        [call] = answer.choices[0].message.tool_calls
        assert call.function.name == "get_weather"
        assert isinstance(json.loads(call.function.arguments), dict)
        followed = client.chat.completions.create(
            model=MODEL,
            messages=[
                question,
                answer.choices[0].message.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call.id, "content": "sunny, 24 degrees"},
            ],
            tools=[WEATHER],
            max_tokens=16,
            temperature=0,
        )
    assert followed.choices[0].message.content
