"""The last byte of an answer waits until the next request, by any process, finds what this one leaves."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

import pytest

from memory.keys import KeyRing
from memory.model import Captured
from memory.ports import Entry
from memory.read.conversation import Conversation
from memory.telemetry import Metrics
from proxy import capture
from proxy.capture import Bounds, Capture, Known, Where
from tests.test_payload import captured
from tests.test_structural_keys import Table


class Queue:
    """Takes all at once."""

    async def hand_off(self, entry: Entry) -> Where:
        return "queue"

    def where(self) -> Where:
        return "queue"


class Remembers:
    """Where conversations are remembered."""

    def __init__(self) -> None:
        self.remembered = False

    async def remember(self, *said: object) -> None:
        self.remembered = True


async def exchanged(noting: asyncio.Event) -> tuple[asyncio.Task[None], Remembers]:
    """One exchange under way, whose ledger's note ends with the event."""
    conversations = Remembers()
    keeps = Capture(
        Queue(), cast(Any, conversations), KeyRing(Table(), os.urandom(32)), Bounds(1 << 20, 1 << 20), Metrics()
    )

    async def note() -> None:
        await noting.wait()

    one: Captured = captured(b"{}", "words")
    conversation = Conversation(one.session, one.digests, None, True, None, False)
    known: Known = ([], {})
    work = keeps.exchange(one, conversation, lambda: known, [keeps.in_background(note())])
    return asyncio.create_task(work), conversations


async def test_an_exchange_is_kept_when_the_ledger_has_said_what_stands_in_its_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture, "REMEMBER_HOLD_S", 30.0)
    noting = asyncio.Event()
    exchange, conversations = await exchanged(noting)
    await asyncio.sleep(0.02)
    assert conversations.remembered and not exchange.done()
    noting.set()
    await asyncio.wait_for(exchange, 5)


async def test_a_ledger_that_cannot_be_told_holds_no_answer_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "REMEMBER_HOLD_S", 0.01)
    exchange, _ = await exchanged(asyncio.Event())
    await asyncio.wait_for(exchange, 5)
