"""What is made of an answer once and given again: equal to what is made anew, by the very candidates, bounded."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from memory.chain import chain
from memory.ids import new_id
from memory.model import Candidate, Recall, Retrieval
from memory.read.candidates import as_candidate
from memory.read.hot import item_of
from memory.read.ledger import Kept
from proxy.made import MADE_MAX, made_of
from proxy.prompt import Prompt, assemble, retrieval_record
from proxy.room import Room
from proxy.wire.chat_request import ChatRequest
from tests.product_ledger import RULES
from tests.test_recall import row, unit

CHAT = ChatRequest.parse(json.dumps({"messages": [{"role": "user", "content": "What is my boat called?"}]}).encode())
CHAIN = chain(b"k" * 32, [CHAT.messages[0].value])[0]
NOW = datetime(2026, 11, 28, tzinfo=UTC)
RETRIEVAL = new_id()


def candidates(*texts: str) -> tuple[Candidate, ...]:
    return tuple(as_candidate(item_of(row(text, unit(1, 0, 0, 0)))) for text in texts)


BOATS = candidates("My boat is called Halcyon.", "My second boat is called Kittiwake.")


def prompt_of(recall: Recall, budget: int = 1000) -> Prompt:
    return assemble(
        CHAT, recall, Kept(), Room(budget), RULES, chain=CHAIN, retrieval_id=RETRIEVAL, salt=None, opens=True
    )  # fmt: skip


def record_of(prompt: Prompt) -> Retrieval:
    return retrieval_record(
        prompt, retrieval_id=RETRIEVAL, query="?", config_digest="", model="", exact=True, millis=0.0, now=NOW
    )


def test_an_answer_that_is_given_again_becomes_the_same_prompt_and_record_and_is_made_once() -> None:
    anew, again = Recall(BOATS, "full"), Recall(BOATS, "full", made={})
    first, second = prompt_of(again), prompt_of(replace(again, millis=2.0))
    assert second.block is first.block and first.block is not None and first.block.taken == BOATS
    assert first.made is not None and first.made is second.made
    for prompt in (first, second):
        assert prompt == replace(prompt_of(anew), made=prompt.made)
        assert record_of(prompt) == record_of(prompt_of(anew))
    placed = frozenset(first.block.memory_ids)
    assert first.made.records(placed) is first.made.records(placed)
    assert [one["injected"] for one in first.made.records(frozenset())] == [False, False]
    assert prompt_of(anew).made is not prompt_of(anew).made


def test_other_room_other_candidates_and_what_stands_make_another_block() -> None:
    again = Recall(BOATS, "full", made={})
    whole = prompt_of(again)
    assert prompt_of(again, budget=60).block != whole.block
    assert prompt_of(replace(again, candidates=BOATS[:1])).block != whole.block
    reworded = (replace(BOATS[0], content="My boat is called Fulmar."), BOATS[1])  # the same memories
    assert "Fulmar" in str(prompt_of(replace(again, candidates=reworded)).block)
    stands = made_of(again, BOATS, 1000, frozenset({BOATS[0].memory_id}), lambda: RULES.block(BOATS[1:], {}, 1000))
    assert stands.block.taken == BOATS[1:]
    assert prompt_of(again) == replace(whole, made=prompt_of(again).made)


def test_an_answer_holds_a_few_of_what_is_made_of_it() -> None:
    again = Recall(BOATS, "full", made={})
    for budget in range(200, 220):
        assert prompt_of(again, budget).block is not None
        assert again.made is not None and 0 < len(again.made) <= MADE_MAX
