"""A conversation that does not fit: whole turns give way, oldest first, in one large step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cutting import Cut, bytes_of, cut_at, cut_for, first_turn, members_of
from proxy.prompt import edits_of
from proxy.wire.chat_request import ChatRequest

SYSTEM = {"role": "system", "content": "S"}


def chat_of(*messages: dict[str, Any]) -> ChatRequest:
    return ChatRequest.parse(json.dumps({"model": "m", "messages": list(messages)}).encode())


def talk(turns: int, characters: int = 100) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [SYSTEM]
    for turn in range(turns):
        said += [
            {"role": "user", "content": f"{turn:03} " + "u" * characters},
            {"role": "assistant", "content": "a" * characters},
        ]
    return [*said, {"role": "user", "content": "and now?"}]


def test_half_of_the_room_is_free_after_a_cut_and_a_turn_stays_whole() -> None:
    chat = chat_of(*talk(20))
    cut = cut_for(chat, 4_000, None, 3_000)
    assert cut is not None
    assert (cut.start, chat.messages[cut.upto].role) == (1, "user")
    left = members_of(chat, cut)["messages"]
    assert left[0] == SYSTEM and left[1]["role"] == "user"
    assert 1_000 < 4_000 * len(json.dumps(left)) / len(json.dumps(talk(20))) <= 1_600


def test_a_second_cut_goes_on_behind_the_first() -> None:
    chat = chat_of(*talk(20))
    first = Cut(1, 21)
    second = cut_for(chat, 4_000, first, 3_000)
    assert second is not None and second.start == 1 and second.upto > first.upto


def test_the_newest_message_stays_however_long_it_is() -> None:
    chat = chat_of(SYSTEM, {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, *talk(0, 1)[1:])
    assert cut_for(chat, 10**9, None, 100) == Cut(1, 3)
    alone = chat_of(SYSTEM, {"role": "user", "content": "x" * 10_000})
    assert cut_for(alone, 10**9, None, 100) is None


def test_a_room_beyond_all_numbers_is_no_fault() -> None:
    """A client may ask for any `max_tokens`; vLLM refuses it."""
    chat = chat_of(*talk(20))
    assert cut_for(chat, 4_000, None, -(10**4_000)) == Cut(1, 41)
    assert cut_for(chat, 4_000, None, 10**4_000) == Cut(1, 3)


def test_a_message_that_takes_no_block_is_no_place_to_begin_at() -> None:
    odd: list[dict[str, Any]] = [{"role": "user", "content": None}, {"role": "assistant", "content": "a"}]
    chat = chat_of(SYSTEM, *odd, *odd, {"role": "user", "content": "now"})
    assert cut_for(chat, 10_000, None, 10) == Cut(1, 5)


@given(st.integers(0, 12), st.integers(0, 40), st.data())
def test_what_is_sent_is_what_the_client_sent_without_the_part(
    turns: int, characters: int, data: st.DataObject
) -> None:
    messages = talk(turns, characters)
    chat = chat_of(*messages)
    users = [at for at, message in enumerate(messages) if message["role"] == "user"]
    cut = cut_at(chat, data.draw(st.sampled_from(users)))
    body = json.loads(edits_of(chat, None, {users[-1]: "<memory>\n"}, cut))
    kept = messages if cut is None else [*messages[: cut.start], *messages[cut.upto :]]
    assert body["messages"][:-1] == kept[:-1]
    assert body["messages"][-1]["content"] == "<memory>\n" + kept[-1]["content"]
    assert bytes_of(chat, cut) == len(edits_of(chat, None, {}, cut))


@pytest.mark.parametrize("role", ["system", "developer"])
def test_what_instructs_in_the_middle_of_a_talk_is_sent_for_as_long_as_the_client_sends_it(role: str) -> None:
    messages = talk(20)
    messages.insert(7, {"role": role, "content": "From now on answer in French."})
    chat = chat_of(*messages)
    cut = cut_for(chat, 4_000, None, 3_000)
    assert cut is not None and cut.upto > 8
    sent = edits_of(chat, None, {}, cut)
    assert json.loads(sent)["messages"] == [SYSTEM, messages[7], *messages[cut.upto :]]
    assert members_of(chat, cut)["messages"] == json.loads(sent)["messages"]
    assert bytes_of(chat, cut) == len(sent)


@pytest.mark.parametrize("leading", [0, 1, 3])
def test_leading_system_messages_are_not_cut(leading: int) -> None:
    chat = chat_of(*[SYSTEM] * leading, *talk(2)[1:])
    assert first_turn(chat) == leading
    assert cut_at(chat, leading) is None
