"""The body that goes upstream: where the block goes, how much of it, and the record of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from memory.chain import Digest
from memory.config import Settings
from memory.ids import new_id
from memory.keys import tenant_salt
from memory.model import Entry, Placed, Recall, Scope, Shown, Withdrawn
from memory.read.entries import print_of
from memory.read.extract import SentenceCompressor
from memory.read.ledger import Kept
from memory.read.route import ByLength
from memory.telemetry import Metrics
from policies.checkpoint import Section
from proxy.chat import count_sent
from proxy.identity import Ask
from proxy.prompt import Prompt, Rules, assemble, retrieval_record
from proxy.room import ANSWER_TOKENS_RESERVED, Room, block_max, room_for, wanted_tokens
from proxy.wire.chat_request import ChatRequest
from tests.test_assemble import LIMITS, Characters, candidate

ASK = Ask(Scope(UUID(int=1)))
NOTHING_KEPT = Kept()
FOUND = Recall((candidate(1, "The door code is 7719."),), "full")


def request(*messages: dict[str, Any], **more: Any) -> ChatRequest:
    return ChatRequest.parse(json.dumps({"model": "m", "messages": list(messages), **more}).encode())


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


RULES = Rules(LIMITS, Characters(), ByLength(), SentenceCompressor())
CHAIN = Digest(b"c" * 32)


def placed(
    chat: ChatRequest,
    recall: Recall = FOUND,
    *,
    budget: int = 1000,
    salt: str | None = None,
    kept: Kept = NOTHING_KEPT,
    room: Room | None = None,
) -> Prompt:
    return assemble(chat, recall, kept, room or Room(budget), RULES, chain=CHAIN, retrieval_id=UUID(int=9), salt=salt)


class Window:
    """Served models with one window and one count."""

    def __init__(self, window: int | None, counted: int | None = None) -> None:
        self._window = window
        self._counted = counted
        self.asked = 0

    def window(self, model: str | None) -> int | None:
        return self._window

    async def prompt_tokens(self, body: Mapping[str, Any], within_s: float | None = None) -> int | None:
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
    assert (prompt.status, [one.position for one in prompt.placed], prompt.count) == ("injected", [3], 1)


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


async def room(chat: ChatRequest, wanted: int, models: Window, kept: Kept = NOTHING_KEPT, share: float = 1.0) -> Room:
    return await room_for(chat, wanted, kept, share, models)


def test_budget_is_the_smaller_of_asked_and_configured() -> None:
    asked = [wanted_tokens(replace(ASK, budget=budget), 1000) for budget in (None, 300, 9000, 0)]
    assert asked == [1000, 300, 1000, 0]


async def test_a_prompt_that_would_fit_by_itself_alone_is_counted() -> None:
    chat, models = request(user("x" * 400), max_tokens=100), Window(600, counted=300)
    assert 400 < len(chat.body) <= 500
    assert await room(chat, 400, models) == Room(200)
    assert models.asked == 1


@pytest.mark.parametrize(("section", "more"), [("given", 0), ("persona", 300), ("notes", 1_500)])
def test_what_is_restored_has_room_beside_what_is_recalled(section: Section, more: int) -> None:
    settings = Settings()
    restored = [replace(candidate(1, "I like dry words."), section=section)]
    assert block_max(settings, restored) == settings.recall.budget_tokens_max + more


async def test_without_a_known_window_there_is_room_for_all_that_is_wanted() -> None:
    assert await room(request(user("hi")), 300, Window(None)) == Room(300)


async def test_short_prompt_is_not_counted() -> None:
    models = Window(8192, 5)
    assert await room(request(user("hi")), 1000, models) == Room(1000)
    assert models.asked == 0


async def test_near_the_window_memory_gets_what_is_left_beside_the_answer() -> None:
    chat = request(user("x" * 8000), max_tokens=100)
    assert (await room(chat, 1000, Window(4000, 3500))).budget == 400
    assert (await room(chat, 1000, Window(4000, 3950))).budget == 0
    assert (await room(chat, 1000, Window(4000, 9999))).budget == 0


async def test_room_for_an_answer_is_kept_when_the_client_names_no_limit() -> None:
    assert (await room(request(user("x" * 8000)), 1000, Window(4000, 3500))).budget == 500 - ANSWER_TOKENS_RESERVED


async def test_budget_stays_when_the_count_cannot_be_had() -> None:
    assert (await room(request(user("x" * 8000)), 1000, Window(4000, None))).budget == 1000


async def test_large_body_is_not_sent_again_to_be_counted() -> None:
    models = Window(4000, 9999)
    assert (await room(request(user("x" * 1_100_000)), 1000, models)).budget == 1000
    assert models.asked == 0


# ---------------------------------------------------------------- the ledger


def stands(at: int, *numbers: int, tokens: int = 100) -> Placed:
    shown = tuple(Shown(UUID(int=number), 1, b"p" * 8) for number in numbers)
    entry = Entry("<memory>\nold\n</memory>\n\n", tokens, shown, "internal", UUID(int=77))
    return Placed(at, Digest(bytes([at]) * 32), entry, entry.retrieval_id)


def kept_at(*blocks: Placed, known: Sequence[int] = ()) -> Kept:
    return Kept({one.position: one for one in blocks}, frozenset({one.position for one in blocks}.union(known)))


TALK = (user("one"), {"role": "assistant", "content": "A"}, user("two"))


def test_what_was_placed_stands_again_byte_for_byte_and_is_not_said_twice() -> None:
    kept = kept_at(stands(0, 1))
    prompt = placed(request(*TALK), kept=kept)
    messages = json.loads(prompt.body)["messages"]
    assert messages[0]["content"] == kept.blocks[0].text + "one"
    assert messages[2]["content"] == "two"  # candidate 1 is what stands already
    assert (prompt.status, prompt.count, prompt.kept, prompt.tokens) == ("injected", 0, 1, 100)


def test_what_was_worded_otherwise_since_is_said_again_where_the_ledger_does_not_know_yet() -> None:
    """Its index may be a second older than recall's: a task was queued there that is running now."""
    one, words = new_id(), "I moved to Lyon."

    def standing(at: int, shown: Shown) -> Placed:
        block = stands(at)
        return replace(block, entry=replace(block.entry, shown=(shown,)))

    now = replace(candidate(1, words), memory_id=one, version=2)
    old, told = standing(0, Shown(one, 1, b"p" * 8)), standing(2, Shown(one, 2, print_of(words)))
    for found, again in ((now, True), (replace(now, version=1), False), (replace(now, kind="summary"), False)):
        prompt = placed(request(*TALK), Recall((found,)), kept=kept_at(old))
        messages = json.loads(prompt.body)["messages"]
        assert messages[0]["content"] == old.text + "one"
        assert (words in messages[2]["content"]) is again
    more = (*TALK, {"role": "assistant", "content": "B"}, user("three"))
    prompt = placed(request(*more), Recall((now,)), kept=kept_at(old, told))
    assert json.loads(prompt.body)["messages"][4]["content"] == "three"


def test_new_memory_is_added_behind_what_stands() -> None:
    kept = kept_at(stands(0, 5))
    prompt = placed(request(*TALK), kept=kept)
    messages = json.loads(prompt.body)["messages"]
    assert messages[0]["content"] == kept.blocks[0].text + "one"
    (new,) = prompt.newly_placed
    assert messages[2]["content"] == new.text + "two"
    assert (prompt.count, prompt.kept) == (1, 1)
    assert [(one.position, one.kept) for one in record_of(prompt).placed] == [(0, True), (2, False)]


def test_a_message_that_the_ledger_has_decided_about_gets_nothing_new() -> None:
    assert placed(request(*TALK), kept=kept_at(known=[2])).body == request(*TALK).body
    again = placed(request(*TALK), kept=kept_at(stands(2, 5)))
    assert json.loads(again.body)["messages"][2]["content"] == again.placed[0].text + "two"


def test_what_an_opening_is_given_goes_before_what_an_earlier_attempt_was_given() -> None:
    """Of a named conversation it is not asked what that was."""
    prompt = assemble(
        request(user("hi")), FOUND, Kept(), Room(9999), RULES, chain=CHAIN, retrieval_id=new_id(), salt=None, opens=True
    )
    assert [one.anew for one in prompt.placed] == [True]


def test_what_an_opening_is_given_in_place_of_what_was_withdrawn_stays_there() -> None:
    kept = replace(kept_at(known=[0]), withdrawn=(Withdrawn(CHAIN, "hidden"), Withdrawn(Digest(b"o" * 32), "hidden")))
    prompt = assemble(
        request(user("hi")), FOUND, kept, Room(1000), RULES, chain=CHAIN, retrieval_id=new_id(), salt=None, opens=True
    )
    (new,) = prompt.newly_placed
    assert (new.chain, new.anew) == (CHAIN, True)
    assert [one.chain for one in prompt.withdrawn] == [b"o" * 32]


LONG = "The door code of the boat house is 7719, and the key hangs in the pantry."


@pytest.mark.parametrize(
    ("said", "messages"),
    [
        ("thanks", [user("thanks")]),
        (LONG, [user(LONG)]),
        (LONG, [{"role": "assistant", "content": f"{LONG}\n\n[NOTE] Some of the conversation was removed."}]),
        (LONG, [{"role": "system", "content": f"[Summary: {LONG}]"}]),
        (LONG, [user([{"type": "text", "text": LONG}])]),
        (f"ada: {LONG}", [{**user(LONG), "name": "ada"}]),
    ],
    ids=["all of a message", "of a user", "with a note", "in instructions", "in parts", "under a name"],
)
def test_what_the_request_says_itself_is_not_quoted_to_it(said: str, messages: list[dict[str, Any]]) -> None:
    prompt = placed(request(*messages, user("What is the code?")), Recall((candidate(1, said),), "full"))
    assert (prompt.status, prompt.count) == ("empty", 0)


@pytest.mark.parametrize("said", ["The code is 7719.", f"{LONG} Ask Ada."])
def test_what_is_a_part_of_what_the_request_says_or_says_more_is_quoted(said: str) -> None:
    asks = user(f"Is that so? The code is 7719. {LONG}")
    assert placed(request(asks), Recall((candidate(1, said),), "full")).count == 1


def test_what_takes_the_place_of_something_that_stands_is_said_in_the_newest_message() -> None:
    newer = replace(candidate(3, "I moved to Lyon."), replaces=True)
    prompt = placed(request(*TALK), Recall(), kept=replace(kept_at(stands(0, 2)), owed=(newer,)))
    said = json.loads(prompt.body)["messages"][2]["content"]
    assert "in place of what was quoted above] I moved to Lyon." in said


def test_a_ledger_that_could_not_be_read_is_said() -> None:
    assert placed(request(*TALK), Recall(), kept=Kept(fault=True)).status == "degraded"
    prompt = placed(request(*TALK), kept=Kept(fault=True))
    assert (prompt.status, prompt.reason) == ("injected", "ledger")


async def test_the_ledger_counts_against_its_ceiling() -> None:
    kept = kept_at(stands(0, 1, tokens=300))
    assert await room(request(*TALK), 1000, Window(4000), kept, 0.1) == Room(100)
    assert await room(request(*TALK), 1000, Window(4000), kept_at(stands(0, 1, tokens=390)), 0.1) == Room(10, full=True)


async def test_what_overflows_gives_way_oldest_first_before_the_clients_own_words() -> None:
    chat = request(user("x" * 8000), {"role": "assistant", "content": "A"}, user("y"), max_tokens=100)
    kept = kept_at(stands(0, 1, tokens=200), stands(2, 2, tokens=200))
    found = await room(chat, 1000, Window(4000, 3600), kept)
    assert found == Room(100, (0,))
    prompt = placed(chat, kept=kept, room=found)
    messages = json.loads(prompt.body)["messages"]
    assert messages[0]["content"] == "x" * 8000
    assert [(one.chain, one.reason) for one in prompt.withdrawn] == [(kept.blocks[0].chain, "overflow")]


@pytest.mark.parametrize("found", [Room(100, (0,)), Room(0, left_out=(0,))], ids=["for good", "this once"])
def test_a_block_that_has_no_room_is_counted_as_withdrawn(found: Room) -> None:
    kept, metrics = kept_at(stands(0, 1, tokens=200), stands(2, 2, tokens=300)), Metrics()
    count_sent(metrics, placed(request(*TALK), Recall(), kept=kept, room=found))
    value, withdrawn = metrics.registry.get_sample_value, {"what": "withdrawn"}
    assert value("memory_proxy_ledger_withdrawn_total", {"reason": "overflow"}) == 1
    assert value("memory_proxy_ledger_blocks_total", withdrawn) == 1
    assert value("memory_proxy_ledger_tokens_total", withdrawn) == 200
    assert value("memory_proxy_ledger_blocks_total", {"what": "kept"}) == 1
    assert value("memory_proxy_ledger_tokens_total", {"what": "kept"}) == 300
    assert value("memory_proxy_injected_tokens_total") == 0


@pytest.mark.parametrize(
    ("max_tokens", "counted", "left_out"),
    [
        (4000, 3000, ()),  # a server that clips what is asked for answers this one
        (4000, 3500, (0,)),  # there the answer still has its room
        (4000, 9999, (0, 2)),
        (None, 3950, (0, 2)),
        (100, 3950, (0, 2)),
    ],
)
async def test_a_request_that_is_too_long_by_itself_withdraws_nothing(
    max_tokens: int | None, counted: int, left_out: tuple[int, ...]
) -> None:
    chat = request(user("x" * 8000), {"role": "assistant", "content": "A"}, user("y"), max_tokens=max_tokens)
    kept = kept_at(stands(0, 1, tokens=200), stands(2, 2, tokens=200))
    found = await room(chat, 1000, Window(4000, counted), kept)
    assert (found.budget, found.give_way, found.left_out, found.fits) == (0, (), left_out, False)
    prompt = placed(chat, kept=kept, room=found)
    assert [one.position for one in prompt.placed] == [at for at in kept.blocks if at not in left_out]
    assert (prompt.withdrawn, prompt.reason) == ((), None)


@pytest.mark.parametrize(
    ("cut_to", "window", "counted", "budget", "left_out"),
    [
        (9000, None, None, 1000, ()),  # the bytes say that all of it fits
        (4500, None, 4000, 100, ()),
        (4300, None, 4000, 100, (0,)),
        (4000, None, 4000, 0, (0, 2)),
        (3000, None, 4000, 0, (0, 2)),  # the client's own words are cut as it is
        (4500, None, None, 0, (0, 2)),  # nobody can say
        (4500, 32_000, 4000, 100, ()),
        (-1, 9000, 4000, 1000, ()),
        (-1, 4600, 4000, 100, ()),
        (-1, None, None, 0, (0, 2)),
        (-1, None, 4000, 0, (0, 2)),
    ],
)
async def test_memory_costs_a_prompt_that_vllm_cuts_none_of_its_clients_words(
    cut_to: int, window: int | None, counted: int | None, budget: int, left_out: tuple[int, ...]
) -> None:
    said = (user("x" * 12_000), {"role": "assistant", "content": "A"}, user("y"))
    chat = request(*said, max_tokens=100, truncate_prompt_tokens=cut_to)
    kept = kept_at(stands(0, 1, tokens=200), stands(2, 2, tokens=200))
    found = await room(chat, 1000, Window(window, counted), kept)
    assert (found.budget, found.left_out, found.give_way) == (budget, left_out, ())
    assert found.fits is (left_out != (0, 2))
    assert placed(chat, kept=kept, room=found).withdrawn == ()


# ---------------------------------------------------------------- the record


def record_of(prompt: Prompt) -> Any:
    return retrieval_record(
        prompt,
        retrieval_id=new_id(),
        query="q",
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
