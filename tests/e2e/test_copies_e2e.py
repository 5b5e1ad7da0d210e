"""Conversations go on in a copy: what a client sends again is known there, also where an export has only its redacted
words, or names an image that it does not have.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.e2e.talk import Message, ask, turn
from tests.e2e.test_memories_travel_e2e import moved, turns
from tests.e2e.test_records_travel_e2e import send
from tests.service_fixture import Service
from tests.test_api_e2e import Api

SECRET = "My password is hunter2x and my cat is called Momo."
PIXEL = "data:image/png;base64," + base64.b64encode(b"\x89PNG one grey cat").decode()
OTHER_PIXEL = "data:image/png;base64," + base64.b64encode(b"\x89PNG one red cat").decode()
SIGNED = "https://pictures.example/cat.png?signature=5f3a9c"


def shown(url: str, words: str = "What is in this picture?") -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}, {"type": "image_url", "image_url": {"url": url}}]


CALL = {"id": "c1", "type": "function", "function": {"name": "login", "arguments": '{"password": "hunter2x"}'}}
BEGINNINGS: dict[str, list[Message]] = {
    "redacted words": [turn("user", SECRET)],
    "an image by its bytes": [turn("user", shown(PIXEL))],
    "an image by an address that is a credential": [turn("user", shown(SIGNED))],
    "a secret in a call": [
        turn("user", "Log me in, please."),
        turn("assistant", None, tool_calls=[CALL]),
        turn("tool", "You are in; the session ends at noon.", tool_call_id="c1"),
    ],
    "data in the text": [turn("user", "Read this file: " + base64.b64encode(bytes(range(256)) * 8).decode())],
}


@pytest.fixture
def api(service: Service, user: str) -> Api:
    return Api(service.url, user)


@pytest.fixture
def other(service: Service, user: str) -> Api:
    return Api(service.url, f"{user}-2")


def goes_on(
    service: Service, history: list[Message], words: str, user: str, **headers: str
) -> tuple[list[Message], str]:
    """One more message behind a history; what the client has then, and the conversation it was."""
    asked = [*history, turn("user", words)] if words else history
    said = ask(service, asked, user, **headers)
    assert said.status == 200
    service.settle()
    return [*asked, turn("assistant", said.text)], said.session


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_conversation_goes_on_in_a_copy_and_nothing_of_it_is_kept_twice(
    service: Service, user: str, api: Api, other: Api, beginning: str, named: bool
) -> None:
    head = {"session": "talk"} if named else {}
    history, session = goes_on(service, BEGINNINGS[beginning], "", user, **head)
    history, _ = goes_on(service, history, "And what is a mooring?", user, **head)
    moved(api, other)
    before = turns(other)
    assert [line["content"] for line in before] == [line["content"] for line in turns(api)]
    seen = []
    for words in ("How deep is the harbour?", "Go on.", "And then?"):
        history, found = goes_on(service, history, words, f"{user}-2", **head)
        seen.append(found)
    assert len(turns(other)) == len(before) + 6
    assert seen == [session] * 3
    parents = {line["parent"] for line in turns(other)}
    assert len(parents) == len(turns(other))  # one behind the other


def test_two_images_under_the_same_words_stay_two_in_a_copy(service: Service, user: str, api: Api, other: Api) -> None:
    for url in (PIXEL, OTHER_PIXEL):
        goes_on(service, [turn("user", shown(url))], "", user, session="talk")
    moved(api, other)
    kept = [[(line["role"], line.get("parts")) for line in turns(one)] for one in (api, other)]
    assert kept[0] == kept[1]
    for url in (PIXEL, OTHER_PIXEL):
        goes_on(service, [turn("user", shown(url)), turn("assistant", "A cat.")], "Sure?", f"{user}-2", session="talk")
    assert len([line for line in turns(other) if line["role"] == "user"]) == 4


def test_another_secret_in_its_place_is_another_message(service: Service, user: str, api: Api, other: Api) -> None:
    """What is redacted is recognised once: then it stands where its client's own words put it."""
    other_secret = [turn("user", SECRET.replace("hunter2x", "swordfish9")), turn("assistant", "Noted.")]
    history, _ = goes_on(service, [turn("user", SECRET), turn("assistant", "Noted.")], "Go on.", user, session="talk")
    moved(api, other)
    before = len(turns(other))
    goes_on(service, history, "And then?", f"{user}-2", session="talk")
    assert len(turns(other)) == before + 2
    goes_on(service, other_secret, "Go on.", f"{user}-2", session="talk")
    assert len(turns(other)) == before + 2 + 4


@pytest.mark.parametrize("opening", [SECRET, "My cat is called Momo."])
def test_what_was_forgotten_in_a_copy_stays_so_when_its_client_goes_on(
    service: Service, user: str, api: Api, other: Api, opening: str
) -> None:
    """Words that anybody may say again are refused at their place only, and redacted words put them elsewhere."""
    said = [turn("user", opening), turn("assistant", "Noted."), turn("user", "I am pregnant.")]
    history, session = goes_on(service, said, "", user)
    moved(api, other)
    assert service.forget({"session": session}, **other._scope)["complete"] is True
    goes_on(service, history, "How deep is the harbour?", f"{user}-2")
    first, _ = turns(other)
    assert first["content"] == "How deep is the harbour?"


@pytest.mark.parametrize("opening", [SECRET, "My cat is called Momo."])
def test_one_message_that_was_forgotten_in_a_copy_stays_so_when_its_client_goes_on(
    service: Service, user: str, api: Api, other: Api, opening: str
) -> None:
    said = [turn("user", opening), turn("assistant", "Noted."), turn("user", "I am pregnant.")]
    history, _ = goes_on(service, said, "", user)
    moved(api, other)
    (gone,) = [line for line in turns(other) if line["content"] == said[2]["content"]]
    assert service.forget({"source_id": gone["source_id"]}, **other._scope)["complete"] is True
    goes_on(service, history, "How deep is the harbour?", f"{user}-2")
    assert said[2]["content"] not in [line["content"] for line in turns(other)]
    assert len(turns(other)) == 5


def test_ways_on_that_come_to_a_copy_later_stand_behind_what_it_has(
    service: Service, user: str, api: Api, other: Api
) -> None:
    opening = [turn("user", SECRET), turn("assistant", "Noted, Momo.")]
    first, _ = goes_on(service, opening, "What does Momo eat?", user, session="talk")
    moved(api, other)
    goes_on(service, first, "Go on.", f"{user}-2", session="talk")
    second, _ = goes_on(service, opening, "My password is swordfish9 now.", user, session="talk")
    second, _ = goes_on(service, second, "Where does Momo sleep?", user, session="talk")
    moved(api, other)
    before = len(turns(other))
    assert before == len(turns(api)) + 2
    goes_on(service, second, "And then?", f"{user}-2", session="talk")
    assert len(turns(other)) == before + 2


def test_a_conversation_with_an_image_that_no_export_wrote_goes_on_too(service: Service, user: str, api: Api) -> None:
    history = [turn("user", shown(PIXEL)), turn("assistant", "A grey cat.")]
    assert send(api, [{**one, "session": "talk"} for one in history])[0] == []
    (picture,) = turns(api)[0]["parts"]
    assert (picture["type"], picture["media_type"]) == ("image_url", "image/png")
    goes_on(service, history, "Sure?", user)
    assert len(turns(api)) == 4
