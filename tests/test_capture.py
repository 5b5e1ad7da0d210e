"""The last byte of an answer waits until the next request, by any process, finds what this one leaves."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from typing import Any, cast

import pytest

from memory.keys import KeyRing
from memory.model import Captured
from memory.ports import Entry
from memory.read.conversation import Conversation
from memory.telemetry import Metrics
from memory.write.hand_off import Where
from proxy import capture
from proxy.capture import Bounds, Capture, Known, within_bounds
from tests.key_table import Table
from tests.test_payload import captured


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


IMAGE = "data:image/png;base64," + base64.encodebytes(os.urandom(6000)).decode()
COMPACT = IMAGE.replace("\n", "")


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (json.dumps({"image": COMPACT, "of": "a"}), '", "of": "a"}'),
        (json.dumps({"image": IMAGE, "of": "a"}), '", "of": "a"}'),
        (json.dumps([json.dumps({"image": COMPACT})]), '\\"}"]'),
        (COMPACT + "\\", "\\"),
        (f'<img src="{COMPACT}"> here', '"> here'),
    ],
    ids=["a tool's JSON", "in lines", "JSON in JSON", "a backslash behind it", "HTML"],
)
@pytest.mark.parametrize("spelled", ["plain", "slashes", "unicode"])
def test_a_large_request_loses_its_images_alone_wherever_they_stand(content: str, left: str, spelled: str) -> None:
    said = json.dumps({"messages": [{"role": "tool", "content": content}]})
    if spelled == "slashes":  # as PHP's json_encode has it
        said = said.replace("/", "\\/")
    elif spelled == "unicode":  # as .NET's has it
        said = said.replace("+", "\\u002B")
    kept = within_bounds(captured(said.encode(), "words"), Bounds(4096, 4096))
    assert (kept.status, kept.reason) == ("complete", capture.DATA_URLS_BY_DIGEST)
    (message,) = json.loads(kept.request)["messages"]
    before, _, behind = message["content"].partition("sha256:")
    assert before == content.partition("data:")[0]
    assert behind[64:] == left


def test_a_large_request_of_many_commas_and_backslashes_is_read_at_once() -> None:
    said = b"data:a," * 200_000 + b"data:a," + b"\\" * 1_000_000
    started = time.perf_counter()
    assert within_bounds(captured(said, "words"), Bounds(4096, 4096)).reason == "request_too_large"
    assert time.perf_counter() - started < 5
