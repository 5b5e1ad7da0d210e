"""What was placed once stays where it was, byte for byte, for the rest of the conversation; the law beats it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from tests.e2e.talk import UNCOUNTED, Message, Said, ask, tell, turn
from tests.e2e.test_memory_e2e import FACT, QUESTION, sent
from tests.e2e.upstreams import last
from tests.service_fixture import Service

OwnService = Callable[..., AbstractContextManager[Service]]
OTHER = "My brother's boat is called Havbris."
ASKS_OTHER = "What is my brother's boat called?"


class Talk:
    """A client that keeps its own history."""

    def __init__(self, service: Service, upstream: str, user: str, *before: Message) -> None:
        self.service, self.upstream, self.user = service, upstream, user
        self.history: list[Message] = list(before)

    def say(self, text: str, **headers: Any) -> Said:
        """One turn; what the upstream got for it is in `sent`."""
        self.history.append(turn("user", text))
        return self.again(**headers)

    def again(self, **headers: Any) -> Said:
        """The history as it stands, and the answer behind it."""
        said = ask(self.service, self.history, self.user, **headers)
        self.sent = sent(self.upstream)
        self.history = [*self.history, turn("assistant", said.text)]
        return said


@pytest.fixture
def talk(service: Service, upstream: str, user: str) -> Talk:
    tell(service, FACT, user)
    tell(service, OTHER, user)
    return Talk(service, upstream, user, turn("system", "Be brief."))


def flushed(service: Service) -> None:
    """A Valkey that has lost everything but its queue."""
    client = redis.Redis.from_url(json.loads((service.data / "run" / "settings.json").read_text())["redis"]["url"])
    for key in client.scan_iter(match="mp:h:*", count=1000):
        client.delete(key)


def test_a_block_stands_where_it_was_in_every_later_turn(talk: Talk) -> None:
    first = talk.say(QUESTION)
    assert (first.verdict, first.memory("kept")) == ("injected", "0")
    block = talk.sent[1]["content"].removesuffix(QUESTION)
    assert "Lofthus" in block
    before = talk.sent
    for number in range(3):
        said = talk.say(f"say: number {number}")
        assert talk.sent[: len(before)] == before
        assert int(said.memory("kept") or 0) == int(first.memory("count") or 0)
        before = talk.sent


def test_what_stands_is_not_said_again_and_new_memory_comes_behind_it(talk: Talk) -> None:
    first = talk.say(QUESTION)
    given, before = talk.sent[1]["content"], talk.sent
    talk.say(f"{QUESTION} Tell me once more.")
    assert talk.sent[: len(before)] == before
    assert "Lofthus" not in talk.sent[-1]["content"]
    said = talk.say(ASKS_OTHER)
    if "Havbris" not in given:
        assert "Havbris" in talk.sent[-1]["content"]
        assert int(said.memory("count") or 0) > 0
    assert int(said.memory("kept") or 0) >= int(first.memory("count") or 0)


def test_the_same_request_again_is_the_same_prompt(talk: Talk) -> None:
    talk.say(QUESTION)
    talk.say("say: fine")
    history, before = talk.history[:-1], talk.sent
    talk.service.settle()  # what was said is in memory by now, and might be recalled
    talk.history = list(history)
    talk.again()
    assert talk.sent == before


def test_the_same_opening_again_is_the_same_prompt(talk: Talk) -> None:
    talk.say(QUESTION)
    before = talk.sent
    talk.service.settle()
    talk.history = talk.history[:-1]
    talk.again()
    assert talk.sent == before


def test_a_fork_shares_all_that_stood_before_it(talk: Talk) -> None:
    talk.say(QUESTION)
    talk.say("say: one way")
    shared, whole = talk.sent[:3], list(talk.history)
    talk.history = whole[:3]
    talk.say(ASKS_OTHER)
    assert talk.sent[:3] == shared
    talk.history = whole
    talk.say("say: and on the first way")
    assert talk.sent[:3] == shared


def test_an_edited_message_starts_anew_from_there_and_keeps_what_is_before_it(talk: Talk) -> None:
    talk.say(QUESTION)
    talk.say(ASKS_OTHER)
    shared = talk.sent[:3]
    talk.history = [*talk.history[:3], turn("user", f"{ASKS_OTHER} Exactly?")]
    talk.again()
    assert talk.sent[:3] == shared


def test_a_client_that_has_less_of_the_first_answer_than_was_sent_goes_on_in_its_conversation(talk: Talk) -> None:
    first = talk.say(f"{QUESTION}\nsay: It lies by the fjord, and a path leads there.")
    before = talk.sent
    talk.history = [*talk.history[:-1], turn("assistant", "It lies by the")]
    second = talk.say("say: and on")
    assert second.session == first.session
    assert talk.sent[: len(before)] == before
    talk.service.settle()
    turns = talk.service.call("GET", f"/memory/v1/sessions/{first.session}", X_Memory_User=talk.user)["turns"]
    assert [one["role"] for one in turns] == ["user", "assistant", "assistant", "user", "assistant"]


def test_a_tool_loop_changes_nothing_that_the_model_has_read(talk: Talk) -> None:
    talk.history.append(turn("user", QUESTION))
    look = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    body = {"tools": [look]}
    called = ask(talk.service, talk.history, talk.user, body={**body, "tool_choice": "required"})
    before = sent(talk.upstream)
    for number in range(3):
        message = called.json["choices"][0]["message"]
        call_id = message["tool_calls"][0]["id"]
        output = {"role": "tool", "tool_call_id": call_id, "content": f"nothing {number}"}
        talk.history += [message, output]
        called = ask(talk.service, talk.history, talk.user, body={**body, "tool_choice": "required"})
        assert sent(talk.upstream)[: len(before)] == before
        assert (int(called.memory("kept") or 0) > 0, called.memory("count")) == (True, "0")
        before = sent(talk.upstream)


@pytest.mark.parametrize("echo", [False, True])
def test_an_answer_that_its_client_had_begun_is_one_message_of_the_same_conversation(talk: Talk, echo: bool) -> None:
    begun, rest = "It is in", " Lofthus."
    talk.history += [turn("user", f"{QUESTION}\nsay: {begun if echo else ''}{rest}"), turn("assistant", begun)]
    body = {"continue_final_message": True, "add_generation_prompt": False, "echo": echo}
    first = talk.again(body=body)  # vLLM's answer begins with what was begun where it is asked for that
    whole = first.text if echo else begun + first.text
    talk.history = [*talk.history[:-2], turn("assistant", whole)]
    before = talk.sent[:-1]
    second = talk.say("say: thanks")
    assert second.session == first.session
    assert talk.sent[: len(before)] == before


def test_an_answer_that_its_client_had_begun_is_recognised_where_what_came_before_it_is_dropped(talk: Talk) -> None:
    talk.say("say: hello")
    begun, rest = "It is in", " Lofthus."
    talk.history += [turn("user", f"{QUESTION}\nsay:{rest}"), turn("assistant", begun)]
    first = talk.again(body={"continue_final_message": True, "add_generation_prompt": False})
    system, asked = talk.history[0], talk.history[3]
    talk.history = [system, asked, turn("assistant", begun + first.text)]
    assert talk.say("say: thanks").session == first.session


@pytest.mark.parametrize("mode", ["off", "write"])
def test_modes_without_memory_send_none_and_lose_none(talk: Talk, mode: str) -> None:
    talk.say(QUESTION)
    before = talk.sent
    talk.say("say: bare", mode=mode)
    assert talk.sent == talk.history[:-1]
    talk.say("say: and with it again")
    assert talk.sent[: len(before)] == before
    assert talk.sent[len(before) : -1] == talk.history[len(before) : -2]


def test_mode_read_keeps_the_ledger_and_not_the_exchange(talk: Talk) -> None:
    talk.say(QUESTION, mode="read", session=f"{talk.user}-read")
    before = talk.sent
    talk.service.settle()
    flushed(talk.service)
    talk.say("say: next", mode="read", session=f"{talk.user}-read")
    assert talk.sent[: len(before)] == before


def test_a_budget_of_nothing_places_nothing_new_and_keeps_what_stands(talk: Talk) -> None:
    talk.say(QUESTION)
    before = talk.sent
    said = talk.say(ASKS_OTHER, budget="0")
    assert talk.sent == [*before, *talk.history[2:-1]]
    assert (said.verdict, said.memory("count")) == ("injected", "0")


def test_as_of_neither_reads_nor_writes_the_ledger(talk: Talk) -> None:
    talk.say(QUESTION)
    before = talk.sent
    history = list(talk.history)
    talk.say(ASKS_OTHER, as_of="2001-01-01T00:00:00Z")
    assert talk.sent == talk.history[:-1]
    talk.history = history
    talk.say("say: now")
    assert talk.sent[: len(before)] == before


def test_what_as_of_was_given_stands_in_no_later_prompt(talk: Talk) -> None:
    talk.say("say: hello")
    assert talk.say(QUESTION, as_of=datetime.now(UTC).isoformat()).verdict == "injected"
    assert "Lofthus" in talk.sent[-1]["content"]
    talk.service.settle()
    talk.say("say: now")
    assert talk.sent[3] == turn("user", QUESTION)


def test_as_of_shows_what_was_known_then_to_a_message_that_was_sent_before(talk: Talk) -> None:
    talk.say("say: hello")
    then = datetime.now(UTC).isoformat()
    talk.history.append(turn("user", QUESTION))
    history = list(talk.history)
    talk.again()
    talk.history = history
    said = talk.again(as_of=then)
    assert said.verdict == "injected"
    assert "Lofthus" in talk.sent[-1]["content"]


@pytest.mark.long
def test_postgres_answers_where_redis_has_lost_the_ledger(own_service: OwnService, upstream: str, user: str) -> None:
    with own_service() as service:
        tell(service, FACT, user)
        talk = Talk(service, upstream, user, turn("system", "Be brief."))
        talk.say(QUESTION)
        talk.say("say: two")
        before = talk.sent
        service.settle()
        flushed(service)
        service.stop()
        service.restart()  # and the process has lost what it had at hand
        ask(service, "say: warm", f"{user}-other")
        talk.service = service
        talk.say("say: three")
        assert talk.sent[: len(before)] == before
        flushed(service)
        talk.say("say: four")
        assert talk.sent[: len(before)] == before


@pytest.mark.long
def test_postgres_has_what_was_placed_by_a_request_that_vllm_did_not_answer(
    own_service: OwnService, upstream: str, user: str
) -> None:
    with own_service() as service:
        talk = Talk(service, upstream, user)
        talk.say("say: hello")
        tell(service, FACT, user)
        history = [*talk.history, turn("user", QUESTION)]
        assert ask(service, history, user, X_Fake_Status="503").status == 503
        talk.history = history
        assert int(talk.again().memory("kept") or 0) > 0
        before = talk.sent
        assert "Lofthus" in before[2]["content"]
        service.settle()
        flushed(service)
        service.stop()
        service.restart()  # and the process has lost what it had at hand
        ask(service, "say: warm", f"{user}-other")
        talk.say("say: on")
        assert talk.sent[: len(before)] == before


@pytest.mark.long
def test_a_tool_loop_goes_on_with_its_block_where_redis_has_lost_it(
    own_service: OwnService, upstream: str, user: str
) -> None:
    with own_service() as service:
        tell(service, FACT, user)
        look = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
        body = {"tools": [look], "tool_choice": "required"}
        history = [turn("user", QUESTION)]
        called = ask(service, history, user, body=body)
        before = sent(upstream)
        assert "Lofthus" in before[0]["content"]
        for number in range(2):
            service.settle()
            flushed(service)
            service.stop()
            service.restart()  # and the process has lost what it had at hand
            ask(service, "say: warm", f"{user}-other")
            message = called.json["choices"][0]["message"]
            output = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": f"nothing {number}"}
            history += [message, output]
            called = ask(service, history, user, body=body)
            assert sent(upstream)[: len(before)] == before
            before = sent(upstream)


@pytest.mark.long
def test_two_proxy_workers_send_the_same_blocks(own_service: OwnService, upstream: str, user: str) -> None:
    with own_service("--workers", "2") as service:
        tell(service, FACT, user)
        talks = [Talk(service, upstream, user, turn("system", f"Be brief {number}.")) for number in range(4)]
        for one in talks:
            one.say(QUESTION)
        for number in range(4):
            for one in talks:
                before = one.sent
                one.say(f"say: {number}")
                assert one.sent[: len(before)] == before


# ---------------------------------------------------------------- the law


def memory_of(talk: Talk, words: str) -> dict[str, Any]:
    """The first memory that says so."""
    listed = talk.service.call("GET", "/memory/v1/memories?limit=100", X_Memory_User=talk.user)["data"]
    return next(dict(one) for one in listed if words in one["content"] and one["kind"] == "episodic")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"validation_status": "rejected"}, id="rejected"),
        pytest.param({"expires_at": "2020-01-01T00:00:00Z"}, id="expired"),
        pytest.param({"content": "It is somewhere else."}, id="reworded"),
    ],
)
def test_what_the_law_takes_is_never_sent_again(talk: Talk, change: dict[str, Any]) -> None:
    talk.say(QUESTION)
    assert "Lofthus" in talk.sent[1]["content"]
    one = memory_of(talk, "Lofthus")
    path = f"/memory/v1/memories/{one['id']}"
    talk.service.call("PATCH", path, change, X_Memory_User=talk.user, If_Match=str(one["version"]))
    talk.say("say: next")
    assert "Lofthus" not in str(talk.sent[:-1])


def test_what_was_withdrawn_does_not_come_back(talk: Talk) -> None:
    talk.say(QUESTION)
    one = memory_of(talk, "Lofthus")
    talk.service.call("DELETE", f"/memory/v1/memories/{one['id']}", X_Memory_User=talk.user)
    talk.say("say: without")
    assert "Lofthus" not in str(talk.sent)
    talk.service.call("POST", f"/memory/v1/memories/{one['id']}/undelete", X_Memory_User=talk.user)
    talk.service.settle()
    flushed(talk.service)
    talk.say("say: still without")
    assert "Lofthus" not in str(talk.sent)


def test_what_is_forgotten_is_in_no_later_prompt(talk: Talk) -> None:
    talk.say(QUESTION)
    talk.service.settle()
    one = memory_of(talk, "Lofthus")
    talk.service.forget({"memory": one["id"], "dry_run": False}, X_Memory_User=talk.user)
    talk.say("say: gone")
    assert "Lofthus" not in str(talk.sent[1:2])


def test_what_is_superseded_stays_and_the_newest_message_says_what_holds(
    service: Service, upstream: str, user: str
) -> None:
    tell(service, "I live in Trondheim.", user)
    talk = Talk(service, upstream, user)
    talk.say("Where do I live?")
    assert "Trondheim" in talk.sent[0]["content"]
    before = talk.sent
    tell(service, "I moved: I live in Bergen now.", user)  # in another conversation
    talk.say("say: thanks")
    assert talk.sent[: len(before)] == before
    assert "in place of what was quoted above" in talk.sent[-1]["content"]
    assert "Bergen" in talk.sent[-1]["content"]
    before = talk.sent
    talk.say("say: and again")
    assert talk.sent[: len(before)] == before
    assert "in place of what was quoted above" not in talk.sent[-1]["content"]


def test_the_record_names_what_stands_and_since_when(talk: Talk) -> None:
    first = talk.say(QUESTION)
    second = talk.say("say: next")
    talk.service.settle()
    path = f"/memory/v1/retrievals/{second.memory('retrieval')}"
    said = talk.service.call("GET", path, X_Memory_User=talk.user)
    assert [(one["position"], one["since"]) for one in said["placed"]] == [(1, first.memory("retrieval"))]
    assert said["tokens"] > 0


async def test_requests_at_once_for_the_same_place_end_with_one_block(talk: Talk) -> None:
    talk.say("say: hello")
    history = [*talk.history, turn("user", QUESTION)]
    both = await asyncio.gather(*(asyncio.to_thread(ask, talk.service, history, talk.user) for _ in range(4)))
    assert {one.status for one in both} == {200}
    bodies = [one.json["messages"] for one in last(talk.upstream, 4)]
    talk.history = [*history, turn("assistant", both[0].text)]
    talk.say("say: bye")
    kept = talk.sent[: len(history)]
    assert kept in bodies  # what stands is what one of them was given
    talk.say("say: and bye")
    assert talk.sent[: len(history)] == kept


# ---------------------------------------------------------------- clients that drop what is old


LONG = "say: this is an answer of some length, so that it can be told from others, number"


def test_a_client_that_drops_its_oldest_turns_keeps_its_conversation_and_what_stands_in_the_rest(talk: Talk) -> None:
    talk.say(f"{LONG} one")
    first = talk.say(QUESTION)
    before = talk.sent
    for number in range(3):
        talk.say(f"{LONG} {number}")
    talk.history = [talk.history[0], *talk.history[3:]]  # the system message, and what came after the first turn
    said = talk.say(f"{LONG} after the cut")
    assert said.session == first.session
    assert talk.sent[1] == before[3]
    cut = talk.sent
    said = talk.say(f"{LONG} and on")
    assert talk.sent[: len(cut)] == cut
    talk.service.settle()
    turns = talk.service.call("GET", f"/memory/v1/sessions/{first.session}", X_Memory_User=talk.user)["turns"]
    contents = [one["content"] for one in turns if one["role"] == "user"]
    assert len(contents) == len(set(contents)) == 7


def test_what_was_dropped_is_there_as_its_summary(service: Service, upstream: str, user: str) -> None:
    talk = Talk(service, upstream, user)
    for number in range(8):
        talk.say(
            f"The {number}th thing is that my cousin keeps {number + 3} goats on the northern farm.\n{LONG} {number}"
        )
    service.settle()
    talk.history = talk.history[-2:]
    talk.say("say: and now to something else")
    assert "goats" in talk.sent[-1]["content"]


# ---------------------------------------------------------------- conversations that do not fit


def test_a_conversation_that_does_not_fit_is_vllms_own_error_by_default(talk: Talk) -> None:
    words = "and so it went on and on " * 1_000
    said = ask(talk.service, [turn("user", words), turn("assistant", "yes"), turn("user", words)], talk.user)
    assert said.status == 400
    assert "maximum context length" in said.json["error"]["message"]


def too_long(talk: Talk, text: str, **body: Any) -> Said:
    """The next turn of the talk behind far too long instructions, which are no part of the conversation."""
    messages = [turn("system", "w " * 8_300), *talk.history[1:], turn("user", text)]
    return ask(talk.service, messages, talk.user, body=body)


@pytest.mark.parametrize(
    "more", [{"model": "fake-model"}, {"model": None}, UNCOUNTED], ids=["named", "not named", "large"]
)
def test_a_request_that_is_too_long_by_itself_costs_the_conversation_nothing(talk: Talk, more: dict[str, Any]) -> None:
    talk.say(QUESTION)
    before = talk.sent
    refused = too_long(talk, ASKS_OTHER, **more)
    assert (refused.status, refused.memory("status")) == (400, "empty")
    assert (refused.memory("count"), refused.memory("kept"), refused.memory("tokens")) == ("0", "0", "0")
    said = talk.say(ASKS_OTHER)
    assert talk.sent[: len(before)] == before
    assert "Havbris" in str(talk.sent), said.raw


def test_an_answer_that_may_take_all_of_the_window_costs_the_conversation_nothing(talk: Talk) -> None:
    talk.say(QUESTION)
    before = talk.sent
    talk.history.append(turn("user", "say: all of it"))
    talk.again(body={"max_tokens": 8192})
    assert talk.sent[: len(before)] == before
    talk.say("say: and on")
    assert talk.sent[: len(before)] == before


@pytest.mark.long
def test_where_it_is_to_be_summed_up_its_oldest_turns_give_way_in_one_step(
    own_service: OwnService, upstream: str, user: str
) -> None:
    env = {"MEMORY_PROXY_OVERFLOW": "summarise", "MEMORY_PROXY_SUMMARY__EVERY_TURNS": "4"}
    with own_service(env=env) as service:
        talk = Talk(service, upstream, user, turn("system", "Be brief."))
        filler = "and so it went on and on " * 130
        lengths, reasons = [], []
        for number in range(12):
            said = talk.say(f"My cousin keeps {number + 3} goats on the northern farm. {filler}\n{LONG} {number}")
            assert said.status == 200, said.raw.body
            lengths.append(len(talk.sent))
            reasons.append("reason=overflow" in (said.memory("status") or ""))
            service.settle()
        cuts = [at for at, reason in enumerate(reasons) if reason]
        assert len(cuts) in (1, 2), reasons
        first = cuts[0]
        assert lengths[first] < lengths[first - 1]
        assert lengths[first + 1] == lengths[first] + 2  # the same cut again, and nothing is moved
        before = talk.sent
        said = talk.say("say: and on")
        assert talk.sent[: len(before)] == before
        assert talk.sent[0] == talk.history[0]
        assert "<memory>" in talk.sent[1]["content"] and "goats" in talk.sent[1]["content"].partition("</memory>")[0]
        service.settle()
        path = f"/memory/v1/replay/{said.memory('retrieval')}"
        assert service.call("GET", path, X_Memory_User=user)["identical"] is True
