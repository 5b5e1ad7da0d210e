"""What the model really receives: memory inside the user's message, nothing else changed, the prefix cache kept."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.service_fixture import Service, serving
from tests.vllm.conftest import INSTALLED, PATIENT
from tests.vllm.model_server import BLOCK_TOKENS, MODEL, ModelServer, client_of, post
from tests.vllm.talk import Reply, ask, tell
from tests.vllm.test_main_job import WEATHER

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

FACT = "My boat is called Morning Star and lies in Bergen."
QUESTION = "What is my boat called?"
SYSTEM = {"role": "system", "content": "You are the assistant of a small harbour. " * 12 + "Answer in one sentence."}


def common_prefix(first: list[int], second: list[int]) -> int:
    """Tokens that two prompts share from their start."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def test_the_block_stands_inside_the_user_message_before_the_question(
    remembering: Service, vllm: ModelServer, user: str
) -> None:
    tell(remembering, vllm, FACT, X_Memory_User=user)
    reply = ask(remembering, vllm, [SYSTEM, {"role": "user", "content": QUESTION}], X_Memory_User=user)
    messages = re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", reply.prompt, re.DOTALL)
    assert [role for role, _ in messages] == ["system", "user"]
    assert messages[0][1] == SYSTEM["content"]
    assert re.fullmatch(
        rf"<memory>\n.*{re.escape(FACT)}.*</memory>\n\n{re.escape(QUESTION)}", messages[1][1], re.DOTALL
    )


def test_with_memory_off_the_model_receives_the_same_tokens_as_without_us(
    remembering: Service, vllm: ModelServer, user: str
) -> None:
    said: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": f"{QUESTION} ünïcödé 名前 \u2028 👩‍🚀"}]
    with client_of(f"{vllm.url}/v1") as direct:
        answer = direct.chat.completions.create(
            model=MODEL, messages=said, max_tokens=1, extra_body={"return_token_ids": True}
        )
    reply = ask(remembering, vllm, said, max_tokens=1, X_Memory_User=user, X_Memory_Mode="off")
    assert reply.prompt_ids == answer.model_extra["prompt_token_ids"]


def test_the_second_turn_finds_the_first_in_the_prefix_cache(
    remembering: Service, vllm: ModelServer, user: str
) -> None:
    tell(remembering, vllm, FACT, X_Memory_User=user)
    first: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": QUESTION}]
    opened = ask(remembering, vllm, first, X_Memory_User=user)
    assert opened.status == "injected"
    second = [*first, {"role": "assistant", "content": opened.text}, {"role": "user", "content": "And where is it?"}]
    followed = ask(remembering, vllm, second, X_Memory_User=user)
    shared = common_prefix(opened.prompt_ids, followed.prompt_ids)
    assert followed.cached_tokens > 0
    assert followed.cached_tokens >= shared // BLOCK_TOKENS * BLOCK_TOKENS


def test_a_client_without_memories_keeps_all_of_its_prefix(remembering: Service, vllm: ModelServer, user: str) -> None:
    first: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": f"Tell me of the harbour of {user}."}]
    opened = ask(remembering, vllm, first, X_Memory_User=user)
    second = [*first, {"role": "assistant", "content": opened.text}, {"role": "user", "content": "Tell me more."}]
    followed = ask(remembering, vllm, second, X_Memory_User=user)
    before = len(opened.prompt_ids) // BLOCK_TOKENS * BLOCK_TOKENS
    assert followed.cached_tokens >= before, (opened.status, followed.status)


@pytest.mark.parametrize("tools", [None, [WEATHER]], ids=["plain", "tools"])
def test_tokenize_through_us_counts_what_the_model_receives(
    remembering: Service, vllm: ModelServer, user: str, tools: list[Any] | None
) -> None:
    body: dict[str, Any] = {"model": MODEL, "messages": [SYSTEM, {"role": "user", "content": QUESTION}]}
    extra = {"tools": tools, "tool_choice": "none"} if tools else {}
    counted = post(f"{remembering.url}/tokenize", {**body, **({"tools": tools} if tools else {})})
    reply = ask(remembering, vllm, body["messages"], max_tokens=1, body=extra, X_Memory_User=user, X_Memory_Mode="off")
    assert counted["count"] == reply.usage.prompt_tokens == len(reply.prompt_ids)


def test_the_tokens_we_say_are_those_the_prompt_grew_by(vllm: ModelServer, user: str) -> None:
    directory = INSTALLED / "models" / MODEL
    if not directory.exists():
        pytest.skip(f"the served tokenizer is not at hand: {directory}")
    with serving(vllm.url, env={**PATIENT, "MEMORY_PROXY_TOKENIZER__DIRECTORY": str(directory)}) as service:
        tell(service, vllm, FACT, X_Memory_User=user)
        bare: Reply = ask(service, vllm, QUESTION, max_tokens=1, X_Memory_User=user, X_Memory_Mode="off")
        with_memory = ask(service, vllm, QUESTION, max_tokens=1, X_Memory_User=user, X_Memory_Mode="read")
    grown = with_memory.usage.prompt_tokens - bare.usage.prompt_tokens
    # Counted by itself a text may join its neighbour differently: one token, measured.
    assert abs(grown - int(with_memory.head["x-memory-tokens"])) <= 1
