"""What is told in one conversation is there in another, for the same user alone, and a fault never fails an answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.e2e.conftest import Scripted
from tests.e2e.raw_http import send
from tests.e2e.talk import UNCOUNTED, ask, completion, exchanges, found, rows, sessions, tell, turn
from tests.e2e.upstreams import last
from tests.service_fixture import Service, frozen
from tests.test_api_e2e import Api
from tests.test_cli_hygiene import counts, report
from tests.waiting import wait_until

OwnService = Callable[..., AbstractContextManager[Service]]
FACT = "My grandmother's cottage is in Lofthus."
QUESTION = "Where is my grandmother's cottage?"


def sent(upstream: str) -> list[Any]:
    """The messages that the upstream received last."""
    return list(last(upstream)[0].json["messages"])


def turn_texts(service: Service, user: str) -> list[str]:
    """What is stored of a user, as it was said."""
    return [t["content"] for turns in sessions(service, user).values() for t in turns]


# ---------------------------------------------------------------- from one conversation into another


def test_fact_of_one_conversation_stands_before_the_question_of_another(
    service: Service, upstream: str, user: str
) -> None:
    told = tell(service, FACT, user)
    asked = ask(service, QUESTION, user)
    assert asked.verdict == "injected"
    assert asked.session != told.session
    (message,) = sent(upstream)
    assert message["content"].startswith("<memory>\n")
    assert message["content"].endswith("</memory>\n\n" + QUESTION)
    assert "Lofthus" in message["content"]
    assert int(asked.memory("count") or 0) == message["content"].count("\n[")
    tokens = int((asked.memory("tokens") or "").lstrip("~"))
    assert 0 < tokens <= 1000


def test_two_chats_that_their_front_end_opens_with_the_same_greeting_are_two(
    service: Service, upstream: str, user: str
) -> None:
    greeting = turn("assistant", "Hello! How can I help you today?")
    told = ask(service, [greeting, turn("user", f"{FACT}\nsay: Noted.")], user)
    service.settle()
    asked = ask(service, [greeting, turn("user", QUESTION)], user)
    assert asked.session != told.session
    assert "Lofthus" in sent(upstream)[-1]["content"]
    service.settle()
    assert [len(turns) for turns in sessions(service, user).values()] == [3, 3]


@pytest.mark.parametrize("mode", ["on", "read"])
def test_a_prompt_that_comes_as_tokens_is_given_no_memory_and_the_head_says_so(
    service: Service, upstream: str, user: str, mode: str
) -> None:
    for given, verdict in (({"prompt_token_ids": [1, 2, 3]}, "off"), ({"do_remote_decode": True}, "empty")):
        asked = ask(service, QUESTION, user, body={"kv_transfer_params": given}, mode=mode)
        assert (asked.verdict, asked.memory("capture") != "off") == (verdict, mode == "on")
        assert sent(upstream) == [turn("user", QUESTION)]


def test_retrieval_says_what_was_given(service: Service, user: str) -> None:
    tell(service, FACT, user)
    asked = ask(service, QUESTION, user)
    service.settle()
    said = service.call("GET", f"/memory/v1/retrievals/{asked.memory('retrieval')}", X_Memory_User=user)
    assert said["status"] == "injected"
    assert said["query"] == QUESTION
    assert "Lofthus" in said["block"]
    assert said["position"] == 0


@pytest.mark.parametrize(
    "other", [{"project": "other"}, {"agent": "other"}, {"user": "other"}, {"user": "OTHER", "project": "x"}]
)
def test_another_user_project_or_agent_sees_nothing(
    service: Service, upstream: str, user: str, other: dict[str, str]
) -> None:
    tell(service, FACT, user)
    named = {"user": user, **{k: f"{user}-{v}" if k == "user" else v for k, v in other.items()}}
    assert found(service, QUESTION, **named) == []
    asked = ask(service, QUESTION, **named)
    assert asked.verdict == "empty"
    assert sent(upstream) == [turn("user", QUESTION)]
    assert FACT not in " ".join(found(service, QUESTION, **named)), "but its own question, once that is stored"
    assert ask(service, QUESTION, user).verdict == "injected"


def test_same_project_and_agent_see_it(service: Service, user: str) -> None:
    tell(service, FACT, user, project="p", agent="a")
    assert ask(service, QUESTION, user, project="p", agent="a").verdict == "injected"


def test_question_of_other_things_is_answered_all_the_same(service: Service, user: str) -> None:
    tell(service, FACT, user)
    assert ask(service, "say: unrelated", user).text == "unrelated"


def test_what_a_person_edits_a_fact_to_is_given_and_the_turn_it_was_said_in_is_not_alone(
    service: Service, upstream: str, user: str
) -> None:
    tell(service, "I live in Trondheim.", user)
    (fact,) = service.call("GET", "/memory/v1/memories?kind=semantic", X_Memory_User=user)["data"]
    path, version = f"/memory/v1/memories/{fact['id']}", str(fact["version"])
    service.call("PATCH", path, {"content": "The user lives in Bergen."}, X_Memory_User=user, If_Match=version)
    assert found(service, "Where do I live?", user)[0] == "The user lives in Bergen."
    ask(service, "Where do I live?", user)
    given = sent(upstream)[-1]["content"]
    assert given.index("Bergen") < (given.index("Trondheim") if "Trondheim" in given else len(given))


# ---------------------------------------------------------------- modes and budget


def test_modes_insert_and_keep_what_they_say(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    for mode, status in (("on", "injected"), ("read", "injected"), ("write", "off"), ("off", "off")):
        text = f"{QUESTION} ({mode})"
        assert ask(service, text, user, mode=mode).verdict == status
        (message,) = sent(upstream)
        assert ("Lofthus" in message["content"]) is (status == "injected"), mode
    service.settle()
    kept = [t["content"] for turns in sessions(service, user).values() for t in turns if t["role"] == "user"]
    assert sorted(text for text in kept if text.startswith(QUESTION)) == [f"{QUESTION} (on)", f"{QUESTION} (write)"]


def test_budget_of_nothing_places_nothing_and_still_keeps(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    asked = ask(service, QUESTION, user, budget="0")
    assert (asked.verdict, asked.memory("count"), asked.memory("tokens")) == ("empty", "0", "0")
    assert sent(upstream) == [turn("user", QUESTION)]
    service.settle()
    assert turn_texts(service, user).count(QUESTION) == 1


def test_small_budget_is_kept(service: Service, user: str) -> None:
    for number in range(6):
        ask(service, f"{FACT} It has room {number} with a view of the fjord.\nsay: Noted.", user)
    service.settle()
    asked = ask(service, QUESTION, user, budget="100")
    assert int((asked.memory("tokens") or "").lstrip("~")) <= 100


# ---------------------------------------------------------------- sessions


def test_second_turn_is_the_same_session_without_being_told(service: Service, user: str) -> None:
    first = ask(service, "say: hello", user)
    history = [turn("user", "say: hello"), turn("assistant", first.text), turn("user", "say: and again")]
    second = ask(service, history, user)
    assert second.session == first.session
    history += [turn("assistant", second.text), turn("user", "say: third")]
    assert ask(service, history, user).session == first.session
    service.settle()
    (turns,) = sessions(service, user).values()
    assert [(t["seq"], t["role"]) for t in turns] == list(enumerate(["user", "assistant"] * 3, turns[0]["seq"]))


def test_second_turn_is_found_after_the_store_alone_knows_it(service: Service, user: str) -> None:
    first = ask(service, "say: hello", user)
    service.settle()
    history = [turn("user", "say: hello"), turn("assistant", first.text), turn("user", "more")]
    edited = [turn("system", "a new system prompt"), *history]
    assert ask(service, edited, user).session == first.session


def test_session_is_found_when_the_client_trims_the_system_prompt_or_spacing(service: Service, user: str) -> None:
    first = ask(service, [turn("system", "one"), turn("user", "say: yes")], user)
    history = [
        turn("user", [{"type": "text", "text": " say: yes \n"}]),
        turn("assistant", "yes"),
        turn("user", "go on"),
    ]
    assert ask(service, history, user).session == first.session


def test_session_header_is_a_label_of_the_scope(service: Service, user: str) -> None:
    label = "caf%C3%A9/42"
    first = ask(service, "say: one", user, session=label)
    second = ask(service, "say: two", user, session=label)
    assert first.session == second.session
    service.settle()
    (named,) = sessions(service, user)
    assert named == "café/42"


def test_said_session_can_be_sent_back_as_the_header(service: Service, user: str) -> None:
    for label in (None, "caf%C3%A9 x".replace(" ", "%20"), "100%25"):
        first = ask(service, "say: one", user, **({"session": label} if label else {}))
        assert ask(service, "something else", user, session=first.session).session == first.session


def test_two_conversations_that_begin_alike_stay_two(service: Service, user: str) -> None:
    """Both say hi; the first goes on before the second begins."""
    first = ask(service, "hi\nsay: hello", user)
    history = [turn("user", "hi\nsay: hello"), turn("assistant", "hello"), turn("user", "one\nsay: first")]
    assert ask(service, history, user).session == first.session
    second = ask(service, "hi\nsay: hello", user)
    assert second.session != first.session
    service.settle()
    assert set(sessions(service, user)) == {first.session, second.session}


def test_regenerated_answer_is_another_attempt_of_the_same_turn(scripted: Scripted, user: str) -> None:
    for text in ("the first answer", "another answer"):
        scripted.upstream.then_json(completion(text))
        ask(scripted.service, "Tell me a story.", user)
    scripted.service.settle()
    (turns,) = sessions(scripted.service, user).values()
    assert [(t["role"], t["content"]) for t in turns] == [
        ("user", "Tell me a story."),
        ("assistant", "the first answer"),
        ("assistant", "another answer"),
    ]
    assert [t["attempt"] for t in turns] == [0, 0, 1]


def test_choices_of_one_answer_are_stored_as_attempts(scripted: Scripted, user: str) -> None:
    scripted.upstream.then_json(completion("left", "right"))
    ask(scripted.service, "Which way?", user, body={"n": 2})
    scripted.service.settle()
    (turns,) = sessions(scripted.service, user).values()
    assert [(t["role"], t["content"], t["attempt"]) for t in turns] == [
        ("user", "Which way?", 0),
        ("assistant", "left", 0),
        ("assistant", "right", 1),
    ]
    for chosen in ("left", "right"):
        scripted.upstream.then_json(completion("on"))
        history = [turn("user", "Which way?"), turn("assistant", chosen), turn("user", f"and after {chosen}?")]
        assert ask(scripted.service, history, user).session in sessions(scripted.service, user)
    assert len(sessions(scripted.service, user)) == 1


def test_equal_choices_are_stored_once(service: Service, user: str) -> None:
    ask(service, "say: same", user, body={"n": 3})
    service.settle()
    (turns,) = sessions(service, user).values()
    assert [t["content"] for t in turns] == ["say: same", "same"]


# ---------------------------------------------------------------- where the block may stand


def test_system_and_developer_messages_are_untouched(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    given = [turn("system", "Be brief."), turn("developer", "Really."), turn("user", QUESTION)]
    assert ask(service, given, user).verdict == "injected"
    assert sent(upstream)[:2] == given[:2]
    assert "Lofthus" in sent(upstream)[2]["content"]


def test_tools_result_last_places_memory_in_the_user_message_before(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    given = [
        turn("user", QUESTION),
        turn("assistant", None, tool_calls=[call]),
        turn("tool", "nothing found", tool_call_id="c1"),
    ]
    assert ask(service, given, user).verdict == "injected"
    assert sent(upstream)[1:] == given[1:]
    assert "Lofthus" in sent(upstream)[0]["content"]


@pytest.mark.parametrize("more", [{}, {"continue_final_message": True, "add_generation_prompt": False}])
def test_assistant_last_places_nothing(service: Service, upstream: str, user: str, more: dict[str, Any]) -> None:
    tell(service, FACT, user)
    given = [turn("user", QUESTION), turn("assistant", "It is in")]
    asked = ask(service, given, user, body=more)
    assert (asked.status, asked.verdict) == (200, "empty")
    assert sent(upstream) == given


def test_no_user_message_places_nothing(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    given = [turn("system", QUESTION)]
    assert ask(service, given, user).verdict == "empty"
    assert sent(upstream) == given


def test_turns_that_the_request_contains_are_not_told_again(service: Service, upstream: str, user: str) -> None:
    first = tell(service, FACT, user)
    history = [turn("user", f"{FACT}\nsay: Noted."), turn("assistant", first.text), turn("user", QUESTION)]
    ask(service, history, user)
    assert all("<memory>" not in message["content"] for message in sent(upstream))


# ---------------------------------------------------------------- what is learnt


async def test_injected_text_is_never_learnt(service: Service, upstream: str, user: str) -> None:
    """Five rounds of telling and asking; what was injected never comes back as something said."""
    await asyncio.to_thread(tell, service, FACT, user)
    for number in range(5):
        asked = await asyncio.to_thread(ask, service, f"{QUESTION} ({number})", user)
        assert asked.verdict == "injected"
        await asyncio.to_thread(service.settle)
    in_scope = "JOIN scopes s USING (tenant_id, scope_id) WHERE s.user_name = $1"
    texts = [row["content"] for row in await rows(service, f"SELECT content FROM turns {in_scope}", user)]
    texts += [row["content"] for row in await rows(service, f"SELECT content FROM memory_versions {in_scope}", user)]
    assert len(texts) > 10
    assert not [text for text in texts if "<memory>" in text or "Quoted from earlier" in text]
    assert [text for text in texts if "Lofthus" in text and FACT not in text] == []


def test_an_answer_that_only_quotes_its_memory_makes_none(scripted: Scripted, user: str) -> None:
    told = "The boat lies in Faro beside the old crane."
    Api(scripted.service.url, user).take_in({"role": "user", "content": told})
    scripted.upstream.then_json(completion(f"You told me: {told}"))
    assert ask(scripted.service, "Where does the boat lie?", user).verdict == "injected"
    scripted.service.settle()
    memories = Api(scripted.service.url, user).get("/memory/v1/memories").json["data"]
    said = [one["content"] for one in memories if one["role"] == "assistant" and one["kind"] == "episodic"]
    assert not [one for one in said if "Faro" in one]


@pytest.mark.long
def test_a_summary_does_not_learn_from_answers_that_quote_memory(scripted: Scripted, user: str) -> None:
    service, told = scripted.service, "The boat lies in Faro beside the old crane."
    Api(service.url, user).take_in({"role": "user", "content": told})
    for number in range(7):
        scripted.upstream.then_json(completion(told))
        assert ask(service, f"Where does the boat lie, number {number}?", user, session="asked").verdict == "injected"
    service.settle()
    session = service.call("GET", "/memory/v1/sessions/asked", X_Memory_User=user)
    assert session["summary"]
    assert told not in session["summary"].splitlines()
    assert "loop" not in counts(report(service, "--user", user))


async def test_every_turn_memory_and_summary_has_its_language_at_birth(service: Service, user: str) -> None:
    german = [f"Am Tag {n} habe ich die Schlüssel meiner Schwester gesucht und nicht gefunden." for n in range(13)]
    talk = [turn("assistant" if n % 2 else "user", text) for n, text in enumerate(german)]
    lines = [{"role": "user", "content": text, "session": "old"} for text in ("Nous avons mangé une tarte.", "ok")]
    await asyncio.to_thread(ask, service, talk, user)
    await asyncio.to_thread(Api(service.url, user).take_in, *lines)
    await asyncio.to_thread(service.settle)
    in_scope = "JOIN scopes s USING (tenant_id, scope_id) WHERE s.user_name = $1"
    turns = await rows(service, f"SELECT content, language FROM turns {in_scope}", user)
    versions = "SELECT content, language, origin FROM memory_versions"
    memories = await rows(service, f"{versions} {in_scope}", user)
    for stored in (turns, memories):
        languages = {row["content"]: row["language"] for row in stored}
        assert {languages[text] for text in german} == {"de"}
        assert languages["Nous avons mangé une tarte."] == "fr"
        assert languages["ok"] is None
    assert [row["language"] for row in memories if row["origin"] == "summary"] == ["de"]


def test_streamed_exchange_is_learnt_like_a_whole_one(service: Service, user: str) -> None:
    ask(service, "I parked at level 7 in Ulriken garage.\nsay: Level seven it is.", user, body={"stream": True})
    service.settle()
    assert [t["content"] for turns in sessions(service, user).values() for t in turns][-1] == "Level seven it is."
    assert ask(service, "Where did I park?", user).verdict == "injected"


def test_compressed_exchange_is_learnt_too(service: Service, user: str) -> None:
    for stream in (True, False):
        ask(service, f"Is it packed? {stream}\nsay: packed {stream}", user, body={"stream": stream}, x_fake_gzip="1")
    service.settle()
    said = [t["content"] for turns in sessions(service, user).values() for t in turns if t["role"] == "assistant"]
    assert sorted(said) == ["packed False", "packed True"]


def test_tool_calls_and_results_are_turns(service: Service, user: str) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    first = ask(service, 'Look it up.\ncall: look {"at": "sky"}', user, body={"tools": tools})
    (call,) = first.json["choices"][0]["message"]["tool_calls"]
    history = [
        turn("user", 'Look it up.\ncall: look {"at": "sky"}'),
        turn("assistant", None, tool_calls=[call]),
        turn("tool", "it is blue", tool_call_id=call["id"]),
    ]
    second = ask(service, history, user, body={"tools": tools, "tool_choice": "none"})
    assert second.session == first.session
    service.settle()
    (turns,) = sessions(service, user).values()
    assert [t["role"] for t in turns] == ["user", "assistant", "tool", "assistant"]
    assert turns[1]["tool_calls"][0]["function"]["name"] == "look"
    assert turns[2]["tool_call_id"] == call["id"]


def test_refused_request_is_no_exchange(service: Service, user: str) -> None:
    assert ask(service, "hi", user, body={"model": "nobody"}).status == 404
    assert ask(service, "hi", user, x_fake_status="503").status == 503
    service.settle()
    assert sessions(service, user) == {}


# ---------------------------------------------------------------- the window


def fill(service: Service, user: str) -> None:
    """A memory that is long in tokens and close to the question."""
    for number in range(4):
        ask(service, f"{FACT} Note {number}: {'the fjord lies below it. ' * 40}\nsay: Noted.", user)
    service.settle()


def long_chat(tokens: int) -> list[Any]:
    """A short question behind so many of the stand-in's tokens."""
    return [turn("system", "w " * tokens), turn("user", QUESTION)]


def test_prompt_that_only_memory_made_too_long_is_sent_again_without_it(
    service: Service, upstream: str, user: str
) -> None:
    """A body that is too large to be counted may leave the block no room."""
    fill(service, user)
    body = json.dumps({"messages": long_chat(8100), "max_tokens": 5, **UNCOUNTED}).encode()
    pairs = [(b"Content-Type", b"application/json"), (b"X-Memory-User", user.encode())]
    answer = send(service.url, "POST", "/v1/chat/completions", pairs, body)
    assert answer.status == 200, answer
    assert (answer.text("x-memory-status") or "").startswith("degraded; reason=overflow")
    assert (answer.text("x-memory-count"), answer.text("x-memory-tokens")) == ("0", "0")
    tried, again = last(upstream, 2)
    assert "<memory>" in tried.json["messages"][1]["content"]
    assert again.body == body


def test_memory_takes_only_what_the_window_leaves(service: Service, upstream: str, user: str) -> None:
    """The window is known, so the block is made small enough and nothing is sent twice."""
    fill(service, user)
    asked = ask(service, long_chat(7800), user, body={"max_tokens": 5})
    assert (asked.status, asked.verdict) == (200, "injected")
    assert "Lofthus" in sent(upstream)[1]["content"]
    tight = ask(service, long_chat(8150), user, body={"max_tokens": 5})
    assert (tight.status, tight.verdict) == (200, "empty")
    assert [seen.json["max_tokens"] for seen in last(upstream, 2)] == [5, 5]


def test_prompt_that_is_too_long_by_itself_is_vllms_error(service: Service, user: str) -> None:
    fill(service, user)
    asked = ask(service, long_chat(9000), user, body={"max_tokens": 5})
    assert (asked.status, asked.json["error"]["code"]) == (400, 400)
    assert "maximum context length is 8192" in asked.json["error"]["message"]


# ---------------------------------------------------------------- loss of parts


@pytest.mark.long
@pytest.mark.slow
def test_a_worker_begun_while_postgres_hangs_answers_and_is_not_out_of_rotation(
    own_service: OwnService, user: str
) -> None:
    """The service was complete before: a balancer that hears 503 now would stop every completion."""
    with own_service() as service:
        with frozen(service, r"bin/postgres |postgres: "):
            (before,) = service.children(r"proxy\.worker")
            os.kill(before, signal.SIGKILL)
            wait_until(lambda: service.children(r"proxy\.worker") not in ([], [before]), 30, "another worker")
            assert service.call("GET", "/memory/ready")["status"] == "degraded"
            answer = ask(service, f"{QUESTION}\nsay: all the same", user)
            assert (answer.status, answer.text) == (200, "all the same")
        wait_until(lambda: _ok(service), 60, "every dependency is back")


@pytest.mark.long
@pytest.mark.slow
def test_memory_survives_a_restart_and_the_loss_of_its_stores(
    own_service: OwnService, upstream: str, user: str
) -> None:
    """One service for both, since each start costs seconds."""
    with own_service() as service:
        told = tell(service, FACT, user)
        assert ask(service, QUESTION, user).verdict == "injected"
        assert service.stop() == 0
        assert service.process.stdout is not None
        service.process.stdout.close()
        service.restart()
        wait_until(lambda: service.call("GET", "/memory/ready")["status"] == "ok", 60, "ready again")
        assert ask(service, QUESTION, user).verdict == "injected"
        history = [turn("user", f"{FACT}\nsay: Noted."), turn("assistant", "Noted."), turn("user", "Go on.")]
        assert ask(service, history, user).session == told.session
        service.settle()
        without_postgres(service, user)
        killed_postgres(service, user)
        without_valkey(service, user)


def without_postgres(service: Service, user: str) -> None:
    """Postgres hangs: answers go on, captures wait in the queue, and all is stored when it is back."""
    with frozen(service, r"bin/postgres |postgres: "):
        answers = [ask(service, f"{QUESTION} frozen {number}\nsay: {number}", user) for number in range(4)]
        assert [a.text for a in answers] == ["0", "1", "2", "3"]
        assert all(a.memory("capture") in ("queue", "spool") for a in answers)
        statuses = [a.memory("status") or "" for a in answers]
        assert all(s.startswith(("injected", "degraded")) for s in statuses), statuses
        stranger = ask(service, QUESTION, f"{user}-new")
        assert stranger.status == 200
        assert (stranger.memory("status") or "").startswith("degraded; reason="), stranger
    stored_after(service, user, "frozen", 4)


def killed_postgres(service: Service, user: str) -> None:
    """Postgres dies by kill -9: answers go on, the supervisor starts it again, nothing captured is lost."""
    (postmaster,) = [pid for pid in service.children(r"bin/postgres ")]
    os.kill(postmaster, signal.SIGKILL)
    answers = [ask(service, f"{QUESTION} killed {number}\nsay: {number}", user) for number in range(4)]
    assert [a.text for a in answers] == ["0", "1", "2", "3"]
    assert all(a.memory("capture") in ("queue", "spool") for a in answers)
    stored_after(service, user, "killed", 4)


def without_valkey(service: Service, user: str) -> None:
    """Valkey hangs: answers go on, captures go to the spool, and come from there when it is back."""
    with frozen(service, "valkey-server"):
        answers = [ask(service, f"{QUESTION} spooled {number}\nsay: {number}", user) for number in range(4)]
        assert [a.text for a in answers] == ["0", "1", "2", "3"]
        assert answers[-1].memory("capture") == "spool"
    stored_after(service, user, "spooled", 4)


def stored_after(service: Service, user: str, word: str, count: int) -> None:
    """All exchanges with this word are stored once and recalled, and nothing was given up."""

    def stored() -> int:
        texts = [t["content"] for turns in sessions(service, user).values() for t in turns if t["role"] == "user"]
        return len([text for text in texts if word in text])

    wait_until(lambda: "dependencies" in (service.call("GET", "/memory/ready") or {}), 30, "it answers")
    wait_until(lambda: _ok(service), 60, "every dependency is back")
    service.settle(90)
    assert stored() == count
    assert service.call("GET", "/memory/v1/queue")["dead"] == 0
    assert ask(service, QUESTION, user).verdict == "injected"


def _ok(service: Service) -> bool:
    return bool(service.call("GET", "/memory/ready")["status"] == "ok")


async def test_exchange_of_an_error_event_is_kept_as_failed(service: Service, user: str) -> None:
    import asyncio

    body = {"stream": True}
    said = await asyncio.to_thread(
        ask, service, "It breaks.\nsay: a b c d e f g", user, body=body, x_fake_error_after="4"
    )
    assert b'"error"' in said.raw.body
    assert said.raw.whole
    await asyncio.to_thread(service.settle)
    assert [row["status"] for row in await exchanges(service, user)] == ["failed"]


@pytest.mark.long
def test_a_client_that_sends_only_its_newest_message_has_the_last_turns_quoted(
    own_service: OwnService, upstream: str, user: str
) -> None:
    with own_service(env={"MEMORY_PROXY_SESSION__REPLAY_TURNS": "3"}) as service:
        for text in (
            "Shall we name the boat?\nsay: Yes.",
            "Petrel or Gannet.\nsay: Gannet.",
            "Why that?\nsay: It dives.",
        ):
            ask(service, text, user, session="boat")
            service.settle()
        ask(service, "So be it, which one?", user, session="boat")
        (message,) = sent(upstream)
        said = message["content"].partition("Earlier in this conversation:\n")[2].partition("</memory>")[0]
        assert [line.partition("] ")[2] for line in said.splitlines() if line.startswith("[")] == [
            "Gannet.",
            "Why that?",
            "It dives.",
        ]
        talk = [turn("user", "Hello there"), turn("assistant", "Hello."), turn("user", "So be it, which one?")]
        for messages, named in ((talk, {"session": "boat"}), (talk[-1:], {})):  # the whole of it, or of no name
            ask(service, messages, user, **named)
            assert "Earlier in this conversation" not in json.dumps(sent(upstream))


def test_who_asks_while_the_one_worker_begins_anew_waits_for_the_store_and_is_kept(
    own_service: OwnService, user: str
) -> None:
    """It was sent on without memory and kept by nobody: whatever was said first behind each death of a worker."""
    with own_service() as service, ThreadPoolExecutor() as pool:
        (worker,) = service.children("proxy.worker")
        with frozen(service, "postgres"):
            os.kill(worker, signal.SIGKILL)
            wait_until(lambda: service.children("proxy.worker") not in ([], [worker]))
            asking = pool.submit(ask, service, "I keep a heron.", user)
            time.sleep(1.5)  # longer than a request waits for a store
        assert asking.result().memory("capture") == "queue"
