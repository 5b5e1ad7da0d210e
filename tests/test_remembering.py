"""What the ledger is told of one request, before its prompt goes upstream."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory.chain import chain
from memory.config import Settings
from memory.ids import new_id
from memory.model import Recall, SessionRef
from memory.read.conversation import Conversation
from memory.read.ledger import Kept
from proxy.identity import Ask
from proxy.prompt import Prompt, bare_prompt
from proxy.remembering import Asked, Remembered, Remembering
from proxy.wire.chat_request import ChatRequest
from tests.product_ledger import World

Messages = tuple[dict[str, Any], ...]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL: Messages = (
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "rain"},
)
TALK: Messages = (
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello"},
    {"role": "user", "content": "weather?"},
)


class Works:
    """Background work that is waited for."""

    def __init__(self) -> None:
        self.under_way: list[Awaitable[None]] = []

    def in_background(self, work: Awaitable[None]) -> None:
        """Take it on."""
        self.under_way.append(work)


def of(messages: Messages) -> tuple[ChatRequest, Prompt]:
    """A request, and its prompt with nothing placed."""
    chat = ChatRequest.parse(json.dumps({"messages": list(messages)}).encode())
    return chat, bare_prompt(chat, (), "empty", None, "full", None)


async def told(messages: Messages, prompt: Prompt, chat: ChatRequest) -> dict[int, bytes]:
    """What the hot ledger has of each message when this prompt was noted."""
    world, works = World(), Works()
    parts = SimpleNamespace(settings=Settings(), ledgers=world.ledgers, capture=works)
    digests = tuple(chain(b"k" * 32, list(messages)))
    found = Conversation(SessionRef(new_id(), "s"), digests, None, False, None, False)
    asked = Asked(new_id(), datetime.now(UTC), 0.0, chat.body, chat, Ask(world.scope), None, cast(Any, None))
    Remembering(cast(Any, parts)).note(asked, chat, Remembered(found, Kept(), Recall()), prompt)
    for work in works.under_way:
        await work
    return {digests.index(cast(Any, digest)): value for (_, digest), value in world.hot.ledger.items()}


async def test_where_nothing_was_placed_is_told() -> None:
    chat, prompt = of(TALK)
    assert await told(TALK, prompt, chat) == {2: b""}


async def test_what_was_too_long_by_itself_decides_nothing() -> None:
    chat, prompt = of(TALK)
    assert await told(TALK, replace(prompt, fits=False), chat) == {}


@pytest.mark.parametrize("messages", [TALK[2:] + TOOL, TALK + TOOL], ids=["opening", "later"])
async def test_of_a_message_that_the_model_has_read_it_is_not_said_that_it_had_nothing(messages: Messages) -> None:
    chat, prompt = of(messages)
    assert await told(messages, prompt, chat) == {}
