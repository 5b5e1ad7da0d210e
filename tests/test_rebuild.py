"""A sent body is made again from its parts, whatever blocks it held; what cannot be says why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.chain import chain
from memory.config import Settings
from memory.keys import tenant_salt
from memory.model import Captured, Recall, Scope, SessionRef
from memory.read.candidates import as_candidate
from memory.read.hot import item_of
from memory.read.recall import Question
from memory.stored import RetrievalRecord, SealedExchange
from policies.checkpoint import Section
from policies.gate import Holder
from proxy.api.replay import Kept, _replayed
from proxy.cli.shadow import bare_of
from proxy.cutting import Cut
from proxy.identity import Ask
from proxy.prompt import edits_of
from proxy.rebuild import Placement, blocks_of, placements_of, rebuilt, why_gone
from proxy.what_if import Asked, WhatIf
from proxy.wire.chat_request import ChatRequest
from tests.product_ledger import RULES
from tests.test_recall import row, unit
from tests.test_remembering import LONG, Narrow

NOW = datetime(2026, 11, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
KEYS = (b"new" * 10, b"old" * 10, b"first" * 6)
RECORD = RetrievalRecord(
    retrieval_id=UUID(int=1),
    session_id=UUID(int=2),
    exchange_id=UUID(int=3),
    status="injected",
    reason=None,
    rung="full",
    config_digest="c",
    embedding_model="e",
    served_model="m",
    candidates=[],
    placements=[],
    tokens=0,
    tokens_exact=False,
    millis=1.0,
    sha256_sent=b"",
    sealed=b"x",
    created_at=NOW,
)
EXCHANGE = SealedExchange(UUID(int=3), UUID(int=2), UUID(int=4), "complete", None, b"x", b"d", NOW)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def body(said: list[Any], **more: Any) -> bytes:
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
    return json.dumps({"model": "m", "messages": messages, "memory": {"budget": 5}, **more}).encode()


@given(
    said=st.lists(texts, min_size=1, max_size=7),
    blocks=st.dictionaries(st.integers(0, 3).map(lambda at: at * 2), texts.map(lambda t: f"<memory>{t}"), max_size=4),
    salt=st.sampled_from([None, *KEYS]),
    own_salt=st.none() | texts,
)
def test_any_number_of_blocks_at_any_turns_with_any_salt_of_the_tenant(
    said: list[str], blocks: dict[int, str], salt: bytes | None, own_salt: str | None
) -> None:
    blocks = {at: text for at, text in blocks.items() if at < len(said)}
    chat = ChatRequest.parse(body(said, **({} if own_salt is None else {"cache_salt": own_salt})))
    sent = edits_of(chat, None if salt is None else tenant_salt(salt, chat.cache_salt), blocks)
    made = rebuilt(chat, blocks, KEYS, hashlib.sha256(sent).digest())
    assert made.body == sent
    assert made.sha256 == hashlib.sha256(sent).digest()


def test_a_digest_that_nothing_fits_is_not_passed_off_as_the_same() -> None:
    chat = ChatRequest.parse(body(["a"]))
    made = rebuilt(chat, {0: "<m>"}, KEYS, b"another")
    assert made.sha256 != b"another" and made.salt is None


def test_a_block_where_none_can_stand_is_refused() -> None:
    with pytest.raises(ValueError, match="does not take a block"):
        rebuilt(ChatRequest.parse(body(["a", "b"])), {1: "<m>"}, KEYS, b"")


def test_kept_and_new_blocks_stand_in_the_order_in_which_they_were_placed() -> None:
    rows = [
        {"position": 0, "tokens": 1, "memory_ids": ["a"], "since": "x"},
        {"position": 2, "tokens": 1, "memory_ids": ["b"], "since": "x"},
        {"position": 2, "tokens": 2, "memory_ids": ["c"]},
    ]
    placed = placements_of(replace(RECORD, placements=rows), ["A", "B", "C"])
    assert placed[1:] == (Placement(2, "B", 1, ("b",), kept=True), Placement(2, "C", 2, ("c",), kept=False))
    assert blocks_of(placed) == {0: "A", 2: "BC"}


@pytest.mark.parametrize(
    ("record", "exchange", "why"),
    [
        ({}, {}, None),
        ({"sealed": None}, {"sealed": None}, "retention"),
        ({"sealed": None}, {"sealed": None, "sealed_sha256": None}, "erased"),
        ({}, {"sealed": None, "sealed_sha256": None}, "erased"),
        ({"sealed": None}, {}, "erased"),
        ({}, {"sealed": None, "sealed_sha256": None, "status": "refused", "reason": "mode read"}, "not_kept"),
        ({"sealed": None, "created_at": NOW - WEEK}, {}, "retention"),
        ({"created_at": NOW - WEEK}, {}, "retention"),
        ({}, {"status": "refused", "reason": "answer_too_large"}, None),
    ],
    ids=[
        "there",
        "swept",
        "unsealed",
        "request erased",
        "blocks erased",
        "mode read",
        "half swept",
        "not swept yet",
        "answer too large",
    ],
)
def test_what_is_gone_says_why(record: dict[str, Any], exchange: dict[str, Any], why: str | None) -> None:
    gone = why_gone(replace(RECORD, **record), replace(EXCHANGE, **exchange), NOW, WEEK)
    assert (gone and gone[0]) == why
    assert gone is None or "mode read" not in exchange.values() or "mode read" in gone[1]


def test_where_the_oldest_turns_gave_way_a_block_stands_at_its_place_in_what_went() -> None:
    said = [{"role": role, "content": f"{role} {at}"} for at, role in enumerate(["system", *["user", "assistant"] * 2])]
    chat = ChatRequest.parse(json.dumps({"messages": [*said, {"role": "user", "content": "and now?"}]}).encode())
    cut = Cut(1, 3)  # not sent: a question and its answer
    placed = (Placement(3, "<kept>", 1, (str(UUID(int=1)),), kept=True), Placement(5, "<new>", 1, (), kept=False))
    made = rebuilt(chat, blocks_of(placed), [], b"", cut)
    told = _replayed(Kept(RECORD, cast(Captured, None), chat, placed, made, cut))
    messages = json.loads(told.request)["messages"]
    assert [messages[one.position]["content"].startswith(one.text) for one in told.placed] == [True, True]
    assert told.position == told.placed[-1].position == 3
    bare = bare_of("s", told.request, [one.model_dump() for one in told.placed])
    assert [one["content"] for one in bare.messages] == ["system 0", "user 3", "assistant 4", "and now?"]


class Recalls:
    """A recaller that finds one memory for everything; `asked` is what it was asked, and behind which texts."""

    def __init__(self) -> None:
        self.asked: list[tuple[Question, Sequence[str]]] = []

    async def search(self, question: Question, _: float, previous: Sequence[str]) -> Recall:
        """The memory."""
        self.asked.append((question, previous))
        return Recall((as_candidate(item_of(row("My boat is called Halcyon.", unit(1, 0, 0, 0)))),), "full")

    def refused(self, *_: object) -> None:
        """It always has it."""


@pytest.mark.parametrize("before", [True, False])
async def test_what_would_have_been_given_to_a_conversation_that_was_cut_has_room_for_what_it_was_given(
    before: bool,
) -> None:
    talk = (*LONG, {"role": "user", "content": "What is my boat called?"})
    chat = ChatRequest.parse(json.dumps({"model": "m", "max_tokens": 10, "messages": talk}).encode())
    digests, recaller, scope = tuple(chain(bytes(32), talk)), Recalls(), Scope(UUID(int=1))
    captured = Captured(
        UUID(int=3),
        scope,
        SessionRef(UUID(int=2), "s"),
        "on",
        "complete",
        None,
        200,
        "m",
        NOW,
        NOW,
        chat.body,
        {},
        digests,
    )
    record = replace(RECORD, reason=None if before else "overflow")
    kept = Kept(record, captured, chat, (), rebuilt(chat, {}, [], b"", Cut(0, 4)), Cut(0, 4))
    sent_from = kept.cut_before.upto if kept.cut_before else 0
    asked = Asked(NOW, cut=kept.cut, sent_from=sent_from)
    roomy = Settings().ledger.model_copy(update={"tokens_max_share": 0.5})
    what_if = WhatIf(Settings().model_copy(update={"ledger": roomy}), cast(Any, recaller), RULES, Narrow())
    _, block = await what_if.block(captured, chat, asked, ask=Ask(scope), holder=Holder(scope.tenant), now=NOW)
    assert "Halcyon" in block.text
    ((question, previous),) = recaller.asked
    assert list(question.known_chains) == list(digests[4:] if before else digests)
    assert previous == chat.earlier_texts != ()


@pytest.mark.parametrize(("section", "has_room"), [("notes", True), ("given", False), ("persona", False)])
async def test_what_would_have_been_given_has_the_room_that_the_request_had(section: Section, has_room: bool) -> None:
    talk = ({"role": "user", "content": "What is my boat called?"},)
    chat, scope = ChatRequest.parse(json.dumps({"model": "m", "messages": talk}).encode()), Scope(UUID(int=1))
    session = SessionRef(UUID(int=2), "s")
    captured = Captured(UUID(int=3), scope, session, "on", "complete", None, 200, "m", NOW, NOW, chat.body, {}, (None,))
    found = as_candidate(item_of(row("Some words that were kept. " * 26, unit(1, 0, 0, 0))))
    restored = replace(found, section=section, memory_id=UUID(int=9 << 90))
    settings = Settings()
    small = settings.recall.model_copy(update={"budget_tokens_max": 300})
    roomy = settings.ledger.model_copy(update={"tokens_max_share": 0.9})
    settings = settings.model_copy(update={"recall": small, "ledger": roomy})
    what_if = WhatIf(settings, cast(Any, Recalls()), RULES, Narrow())
    who = {"ask": Ask(scope), "holder": Holder(scope.tenant), "now": NOW}
    _, block = await what_if.block(captured, chat, Asked(NOW), restored=[restored], **who)  # type: ignore[arg-type]
    assert (restored.memory_id in block.memory_ids) is has_room
