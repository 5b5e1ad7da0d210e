"""The body that goes upstream: where the block goes, how much of it, and the record of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from memory.chain import Digest
from memory.ids import new_id
from memory.keys import tenant_salt
from memory.model import Recall, Scope
from memory.read.extract import SentenceCompressor
from memory.read.route import ByLength
from proxy.identity import Ask
from proxy.prompt import ANSWER_TOKENS_RESERVED, Prompt, assemble, budget_for, retrieval_record
from proxy.wire.chat_request import ChatRequest
from tests.test_assemble import LIMITS, Characters, candidate

ASK = Ask(Scope(UUID(int=1)))
FOUND = Recall((candidate(1, "The door code is 7719."),), "full")


def request(*messages: dict[str, Any], **more: Any) -> ChatRequest:
    return ChatRequest.parse(json.dumps({"model": "m", "messages": list(messages), **more}).encode())


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def placed(chat: ChatRequest, recall: Recall = FOUND, *, budget: int = 1000, salt: str | None = None) -> Prompt:
    return assemble(
        chat,
        recall,
        budget_tokens=budget,
        limits=LIMITS,
        counter=Characters(),
        router=ByLength(),
        compressor=SentenceCompressor(),
        salt=salt,
    )


class Window:
    """Served models with one window and one count."""

    def __init__(self, window: int | None, counted: int | None = None) -> None:
        self._window = window
        self._counted = counted
        self.asked = 0

    def window(self, model: str | None) -> int | None:
        return self._window

    async def prompt_tokens(self, body: Mapping[str, Any]) -> int | None:
        self.asked += 1
        return self._counted


# ---------------------------------------------------------------- placement


def test_block_stands_before_the_clients_text_in_the_newest_user_message() -> None:
    prompt = placed(
        request({"role": "system", "content": "S"}, user("one"), {"role": "assistant", "content": "A"}, user("two"))
    )
    messages = json.loads(prompt.body)["messages"]
    assert [m["content"] for m in messages[:3]] == ["S", "one", "A"]
    assert prompt.block is not None
    assert messages[3]["content"] == prompt.block.text + "two"
    assert (prompt.status, prompt.position, prompt.count) == ("injected", 3, 1)


def test_block_is_the_first_part_of_a_parts_list() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    prompt = placed(request(user([image, {"type": "text", "text": "what?"}])))
    parts = json.loads(prompt.body)["messages"][0]["content"]
    assert parts[1:] == [image, {"type": "text", "text": "what?"}]
    assert prompt.block is not None
    assert parts[0] == {"type": "text", "text": prompt.block.text}


def test_a_tools_result_comes_last_and_memory_goes_to_the_user_before_it() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat = request(
        user("weather?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "rain"},
    )
    messages = json.loads(placed(chat).body)["messages"]
    assert messages[0]["content"].startswith("<memory>")
    assert messages[1:] == json.loads(chat.body)["messages"][1:]


@pytest.mark.parametrize("recall", [Recall(), Recall((replace(FOUND.candidates[0], admitted=False),), "full")])
def test_nothing_admitted_leaves_the_body_as_it_came(recall: Recall) -> None:
    chat = request(user("hi"))
    prompt = placed(chat, recall)
    assert prompt.body is chat.body
    assert (prompt.status, prompt.count, prompt.block) == ("empty", 0, None)


def test_fault_without_candidates_is_degraded_with_its_reason() -> None:
    prompt = placed(request(user("hi")), Recall(reason="deadline"))
    assert (prompt.status, prompt.reason, prompt.rung) == ("degraded", "deadline", "none")


def test_fault_with_candidates_is_injected_and_keeps_its_reason() -> None:
    prompt = placed(request(user("hi")), replace(FOUND, reason="embedder", rung="lexical"))
    assert (prompt.status, prompt.reason, prompt.rung) == ("injected", "embedder", "lexical")


def test_budget_of_nothing_places_nothing() -> None:
    assert placed(request(user("hi")), budget=0).status == "empty"


def test_memory_object_goes_and_the_salt_comes() -> None:
    chat = request(user("hi"), memory={"user": "x"}, cache_salt="client's")
    body = json.loads(placed(chat, Recall(), salt="tenant's").body)
    assert "memory" not in body
    assert body["cache_salt"] == "tenant's"


def test_tenants_salt_differs_by_tenant_and_by_the_clients_own() -> None:
    salts = {tenant_salt(key, own) for key in (b"a" * 32, b"b" * 32) for own in (None, "x", "y", "\ud800")}
    assert len(salts) == 8
    assert tenant_salt(b"a" * 32, None) == tenant_salt(b"a" * 32, "")


# ---------------------------------------------------------------- budget


async def test_budget_is_the_smaller_of_asked_and_configured() -> None:
    chat, unknown = request(user("hi")), Window(None)
    assert await budget_for(chat, ASK, 1000, unknown) == 1000
    assert await budget_for(chat, replace(ASK, budget=300), 1000, unknown) == 300
    assert await budget_for(chat, replace(ASK, budget=9000), 1000, unknown) == 1000
    assert await budget_for(chat, replace(ASK, budget=0), 1000, unknown) == 0


async def test_short_prompt_is_not_counted() -> None:
    models = Window(8192, 5)
    assert await budget_for(request(user("hi")), ASK, 1000, models) == 1000
    assert models.asked == 0


async def test_near_the_window_memory_gets_what_is_left_beside_the_answer() -> None:
    chat = request(user("x" * 8000), max_tokens=100)
    assert await budget_for(chat, ASK, 1000, Window(4000, 3500)) == 400
    assert await budget_for(chat, ASK, 1000, Window(4000, 3950)) == 0
    assert await budget_for(chat, ASK, 1000, Window(4000, 9999)) == 0


async def test_room_for_an_answer_is_kept_when_the_client_names_no_limit() -> None:
    assert await budget_for(request(user("x" * 8000)), ASK, 1000, Window(4000, 3500)) == 500 - ANSWER_TOKENS_RESERVED


async def test_budget_stays_when_the_count_cannot_be_had() -> None:
    assert await budget_for(request(user("x" * 8000)), ASK, 1000, Window(4000, None)) == 1000


async def test_large_body_is_not_sent_again_to_be_counted() -> None:
    models = Window(4000, 9999)
    assert await budget_for(request(user("x" * 1_100_000)), ASK, 1000, models) == 1000
    assert models.asked == 0


# ---------------------------------------------------------------- the record


def record_of(prompt: Prompt) -> Any:
    return retrieval_record(
        prompt,
        retrieval_id=new_id(),
        query="q",
        chain=Digest(b"c" * 32),
        config_digest="d",
        model="m",
        exact=False,
        millis=1.5,
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_record_names_what_was_placed_where_and_the_digest_of_what_was_sent() -> None:
    prompt = placed(request(user("hi")))
    record = record_of(prompt)
    assert prompt.block is not None
    assert record.sha256_sent == hashlib.sha256(prompt.body).digest()
    (block,) = record.placed
    assert (block.position, block.text, block.tokens) == (0, prompt.block.text, prompt.block.tokens)
    assert block.memory_ids == (UUID(int=1),)
    (candidate_said,) = record.candidates
    assert (candidate_said["injected"], candidate_said["why_not"]) == (True, None)


def test_record_of_an_empty_prompt_places_nothing_but_names_the_candidates() -> None:
    recall = Recall((replace(FOUND.candidates[0], admitted=False),), "full")
    record = record_of(placed(request(user("hi")), recall))
    assert (record.placed, record.tokens, record.status) == ((), 0, "empty")
    (candidate_said,) = record.candidates
    assert (candidate_said["injected"], candidate_said["admitted"]) == (False, False)
