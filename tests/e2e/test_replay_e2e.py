"""Every answer's upstream body is rebuilt byte for byte; what is gone says why; a what-if says what would have been."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from tests.e2e.keyed import Keyed
from tests.e2e.raw_http import send
from tests.e2e.talk import UNCOUNTED, ask, connected, rows, tell, turn
from tests.e2e.upstreams import Seen, last
from tests.service_fixture import Service, serving, stand_in

CHAT = "/v1/chat/completions"
FACT = "My grandmother's cottage is in Lofthus."
QUESTION = "Where is my grandmother's cottage?"
_TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
}


def post(service: Service, user: str, body: bytes, **headers: str) -> str:
    """Send these very bytes; the id of the answer's retrieval, stored by then."""
    named = {"X-Memory-User": user, "Content-Type": "application/json", **headers}
    raw = send(service.url, "POST", CHAT, [(k.encode(), v.encode()) for k, v in named.items()], body)
    assert raw.status == 200, raw
    found = raw.text("x-memory-retrieval")
    assert found is not None
    return found


def replay(service: Service, user: str, retrieval: str, query: str = "", **headers: str) -> Any:
    return service.call("GET", f"/memory/v1/replay/{retrieval}{query}", X_Memory_User=user, **headers)


def assert_rebuilt(said: Any, seen: Seen) -> None:
    assert "error" not in said, said
    assert said["request"].encode() == seen.body
    assert said["sha256_sent"] == said["sha256_rebuilt"] == seen.sha256
    assert said["identical"] is True and said["missing"] is None


def of_one(content: str, before: str = "", after: str = "") -> bytes:
    """A body with one user message whose content is this raw JSON."""
    raw = f'{{"model": "fake-model",{before} "messages": [{{"role":"user", "content": {content}}}]{after}}}'
    return raw.encode()


SHAPES = {
    "a plain string": of_one(json.dumps(QUESTION)),
    "a list of parts": of_one(json.dumps([{"type": "text", "text": QUESTION}])),
    "unicode escapes and odd spaces": of_one('"Where\\u0020is my grandmother\\u2019s \\ud83c\\udfe0 \\/cottage?"  '),
    "raw unicode": of_one(json.dumps("Hvor er stua — Where is my grandmother's cottage? ☕", ensure_ascii=False)),
    "duplicate keys and numbers as they were written": of_one(
        '"no", "content": ' + json.dumps(QUESTION), ' "top_p": 1.0, "top_p": 9.90e-1, "x_unknown": {"a":[1,  2]},'
    ),
    "a memory object, first and in the middle": of_one(
        json.dumps(QUESTION), ' "memory": {"budget": 500},', ', "m\\u0065mory": {"budget": 500}, "n": 1'
    ),
    "tools and a system message": json.dumps(
        {
            "tools": [_TOOL],
            "tool_choice": "auto",
            "messages": [turn("system", "Be brief."), turn("user", QUESTION)],
            "model": "fake-model",
        },
        indent=3,
    ).encode(),
    "a tool loop": json.dumps(
        {
            "model": "fake-model",
            "messages": [
                turn("user", "Look it up."),
                turn(
                    "assistant",
                    None,
                    tool_calls=[{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
                ),
                turn("tool", "Lofthus lies by a fjord.", tool_call_id="c1"),
                turn("user", QUESTION),
            ],
            "tools": [_TOOL],
        }
    ).encode(),
    "streamed": of_one(json.dumps(QUESTION), "", ', "stream": true'),
    "a client's own cache_salt": of_one(json.dumps(QUESTION), ' "cache_salt": "mine",'),
}


@pytest.mark.parametrize("shape", list(SHAPES))
def test_what_went_upstream_is_rebuilt_byte_for_byte(service: Service, upstream: str, user: str, shape: str) -> None:
    tell(service, FACT, user)
    retrieval = post(service, user, SHAPES[shape])
    (seen,) = last(upstream)
    assert b"<memory>" in seen.body and seen.body != SHAPES[shape]
    service.settle()
    said = replay(service, user, retrieval)
    assert_rebuilt(said, seen)
    assert said["block"] in json.loads(seen.body)["messages"][-1]["content"] or shape == "a list of parts"
    assert said["diff"] is None


def test_every_turn_of_a_conversation_is_rebuilt(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    tell(service, "My dog Rex is afraid of the sea.", user)
    messages: list[dict[str, Any]] = []
    seen: dict[str, Seen] = {}
    for question in (QUESTION, "What is my dog Rex afraid of?", "say: nothing to recall here", QUESTION):
        messages.append(turn("user", question))
        answer = ask(service, messages, user)
        (seen[answer.memory("retrieval") or ""],) = last(upstream)
        messages.append(turn("assistant", answer.text))
    service.settle()
    for retrieval, sent in seen.items():
        assert_rebuilt(replay(service, user, retrieval), sent)


def test_a_prompt_without_memory_is_rebuilt_too(service: Service, upstream: str, user: str) -> None:
    body = of_one('"say: hello"')
    retrieval = post(service, user, body)
    (seen,) = last(upstream)
    assert seen.body == body
    service.settle()
    said = replay(service, user, retrieval)
    assert_rebuilt(said, seen)
    assert said["placed"] == [] and said["block"] is None


def test_a_young_answer_is_waited_for(service: Service, upstream: str, user: str) -> None:
    retrieval = post(service, user, of_one('"say: hello"'))
    assert_rebuilt(replay(service, user, retrieval), last(upstream)[0])


def test_an_answer_of_another_scope_is_not_there(service: Service, user: str) -> None:
    retrieval = post(service, user, of_one('"say: hello"'))
    service.settle()
    assert replay(service, f"{user}-other", retrieval)["error"]["code"] == "not_found"
    assert replay(service, user, retrieval, "", X_Memory_Project="other")["error"]["code"] == "not_found"
    assert replay(service, user, "no-id")["error"]["code"] == "not_found"


def test_an_overflow_is_rebuilt_as_it_went_the_second_time(service: Service, upstream: str, user: str) -> None:
    for number in range(3):
        tell(service, f"{FACT} Note {number}: {'the fjord lies below it. ' * 40}", user)
    long = [turn("system", "w " * 8100), turn("user", QUESTION)]
    body = json.dumps({"messages": long, "max_tokens": 5, **UNCOUNTED}).encode()
    raw = send(
        service.url, "POST", CHAT, [(b"X-Memory-User", user.encode()), (b"Content-Type", b"application/json")], body
    )
    assert (raw.text("x-memory-status") or "").startswith("degraded; reason=overflow"), raw
    (seen,) = last(upstream)
    service.settle()
    said = replay(service, user, raw.text("x-memory-retrieval") or "")
    assert_rebuilt(said, seen)
    assert said["request"].encode() == body


# ---------------------------------------------------------------- what is gone says why


def assert_gone(said: Any, why: str, seen: Seen) -> None:
    assert said["error"]["code"] == "gone", said
    assert said["error"]["type"] == "memory_proxy_error"
    assert said["why"] == why, said
    assert said["sha256_sent"] == seen.sha256
    assert "Lofthus" not in json.dumps(said)


def test_mode_read_keeps_no_request_and_says_so(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    retrieval = post(service, user, of_one(json.dumps(QUESTION)), **{"X-Memory-Mode": "read"})
    (seen,) = last(upstream)
    service.settle()
    said = replay(service, user, retrieval)
    assert_gone(said, "not_kept", seen)
    assert said["memories"] and said["placed"][0]["memory_ids"]
    record = service.call("GET", f"/memory/v1/retrievals/{retrieval}", X_Memory_User=user)
    assert record["texts"] == "available" and record["block"] and not record["query"], record


def test_what_was_forgotten_cannot_be_rebuilt(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    retrieval = post(service, user, of_one(json.dumps(QUESTION)))
    (seen,) = last(upstream)
    service.settle()
    given = replay(service, user, retrieval)["placed"][0]["memory_ids"]
    gone = service.forget({"memory": given[0], "dry_run": False}, X_Memory_User=user)
    assert gone["complete"] is True, gone
    said = replay(service, user, retrieval)
    assert_gone(said, "erased", seen)
    assert given[0] not in json.dumps(said)


def test_what_was_forgotten_is_not_read_out_of_later_turns_that_quote_the_answer(service: Service, user: str) -> None:
    tell(service, FACT, user)
    messages = [turn("user", QUESTION)]
    first = ask(service, messages, user, x_fake_reply="Your grandmother's cottage is in Lofthus, as you told me once.")
    messages += [turn("assistant", first.text), turn("user", "Thanks. Which day is it?")]
    second = ask(service, messages, user)
    service.settle()
    given = replay(service, user, first.memory("retrieval") or "")["placed"][0]["memory_ids"]
    assert "Lofthus" in replay(service, user, second.memory("retrieval") or "")["request"]
    for memory_id in given:
        service.forget({"memory": memory_id, "dry_run": False}, X_Memory_User=user)
    for answer in (first, second):
        said = replay(service, user, answer.memory("retrieval") or "")
        assert "error" in said and "Lofthus" not in json.dumps(said), said


def test_after_its_retention_digests_and_ids_are_left(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    retrieval = post(service, user, of_one(json.dumps(QUESTION)))
    (seen,) = last(upstream)
    service.settle()
    given = replay(service, user, retrieval)["placed"]
    asyncio.run(_past_retention(service, retrieval))
    said = replay(service, user, retrieval)
    assert_gone(said, "retention", seen)
    assert [one["memory_ids"] for one in said["placed"]] == [one["memory_ids"] for one in given]
    assert {one["id"] for one in said["memories"]} >= set(given[0]["memory_ids"])


async def _past_retention(service: Service, retrieval: str) -> None:
    """As the hourly sweep leaves it: the sealed bytes gone, all else there."""
    async with connected(service) as connection:
        exchange = "(SELECT exchange_id FROM retrievals WHERE retrieval_id = $1)"
        await connection.execute(f"UPDATE exchanges SET sealed = NULL WHERE exchange_id = {exchange}", retrieval)
        await connection.execute("UPDATE retrievals SET sealed = NULL WHERE retrieval_id = $1", retrieval)


@pytest.mark.long
def test_a_request_kept_with_its_data_urls_by_digest_is_not_passed_off_as_what_went(user: str) -> None:
    image = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 400).decode()
    parts = [{"type": "text", "text": "say: hello"}, {"type": "image_url", "image_url": {"url": image}}]
    bound = {"MEMORY_PROXY_QUEUE__REQUEST_BYTES_MAX": "65536"}
    with stand_in(max_model_len=1_000_000) as upstream, serving(upstream, env=bound) as service:
        retrieval = post(service, user, of_one(json.dumps(parts)))
        (seen,) = last(upstream)
        service.settle()
        assert_gone(replay(service, user, retrieval), "not_whole", seen)
        retrieval = post(service, user, of_one(json.dumps("say: " + "long " * 20_000)))
        (seen,) = last(upstream)
        service.settle()
        assert_gone(replay(service, user, retrieval), "not_kept", seen)


def test_what_no_key_opens_any_more_says_so(service: Service, upstream: str, user: str) -> None:
    retrieval = post(service, user, of_one('"say: hello"'))
    (seen,) = last(upstream)
    service.settle()
    asyncio.run(_altered(service, retrieval))
    assert_gone(replay(service, user, retrieval), "key", seen)


async def _altered(service: Service, retrieval: str) -> None:
    """Sealed by a key that this store does not know."""
    async with connected(service) as connection:
        await connection.execute(
            "UPDATE exchanges SET sealed = overlay(sealed PLACING '\\x00112233445566778899aabbccddeeff'::bytea FROM 2) "
            "WHERE exchange_id = (SELECT exchange_id FROM retrievals WHERE retrieval_id = $1)",
            retrieval,
        )


# ---------------------------------------------------------------- what if


def test_what_would_have_been_without_a_memory(service: Service, upstream: str, user: str) -> None:
    tell(service, FACT, user)
    retrieval = post(service, user, of_one(json.dumps(QUESTION)))
    service.settle()
    (given,) = replay(service, user, retrieval)["placed"]
    said = replay(service, user, retrieval, f"?without={','.join(given['memory_ids'])}")
    assert sorted(said["diff"]["removed"]) == sorted(given["memory_ids"])
    assert said["diff"]["kept"] == []
    assert not said["identical"] and said["sha256_sent"] != said["sha256_rebuilt"]
    assert said["block"] is None or "Lofthus" not in said["block"]
    assert "Lofthus" not in json.loads(said["request"])["messages"][0]["content"]
    assert "-[" in said["diff"]["text"]


def test_the_same_recall_of_the_store_as_it_stood_gives_the_same_bytes(
    service: Service, upstream: str, user: str
) -> None:
    tell(service, FACT, user)
    retrieval = post(service, user, of_one(json.dumps(QUESTION)))
    (seen,) = last(upstream)
    service.settle()
    tell(service, "My grandmother's cottage in Lofthus was sold to a painter.", user)
    said = service.call("POST", f"/memory/v1/replay/{retrieval}", {}, X_Memory_User=user)
    assert said["identical"] is True and said["request"].encode() == seen.body
    assert (said["diff"]["added"], said["diff"]["removed"], said["diff"]["text"]) == ([], [], "")
    today = replay(service, user, retrieval, "?as_of=2999-01-01T00:00:00Z")
    assert today["diff"]["added"] and "painter" in today["block"]
    before = replay(service, user, retrieval, "?as_of=2020-01-01T00:00:00Z")
    assert before["block"] is None and before["request"].encode() == of_one(json.dumps(QUESTION))


def test_the_same_recall_tells_a_branch_nothing_of_another(service: Service, upstream: str, user: str) -> None:
    first = ask(service, "say: hello", user)
    history = [turn("user", "say: hello"), turn("assistant", first.text)]
    ask(service, [*history, turn("user", f"{FACT}\nsay: Noted.")], user)
    service.settle()
    retrieval = ask(service, [*history, turn("user", QUESTION)], user).memory("retrieval")
    (seen,) = last(upstream)
    assert b"Lofthus" not in seen.body
    service.settle()
    said = service.call("POST", f"/memory/v1/replay/{retrieval}", {}, X_Memory_User=user)
    assert (said["diff"]["added"], said["request"].encode()) == ([], seen.body)


def test_another_configuration_places_what_it_allows(service: Service, user: str) -> None:
    tell(service, FACT, user)
    retrieval = post(service, user, of_one(json.dumps(QUESTION)))
    service.settle()
    path = f"/memory/v1/replay/{retrieval}"
    none = {"recall.episodes_max": 0, "recall.facts_max": 0, "recall.procedures_max": 0}
    said = service.call("POST", path, {"config": none}, X_Memory_User=user)
    assert said["block"] is None and said["diff"]["removed"]
    for bad in ({"recall.deadline_ms": 5}, {"recall.episodes_max": -1}, {"episodes_max": 1}):
        assert service.call("POST", path, {"config": bad}, X_Memory_User=user)["error"]["code"] == "unprocessable"
    assert service.call("POST", path, {"konfig": {}}, X_Memory_User=user)["error"]["code"] == "unprocessable"
    for query, named in (("?as_of=yesterday", "as_of"), ("?without=x", "without"), ("?config=x", "config")):
        refused = replay(service, user, retrieval, query)["error"]
        assert (refused["code"], refused["param"]) == ("memory_invalid", named)


def test_a_what_if_writes_nothing(service: Service, user: str) -> None:
    tell(service, FACT, user)
    retrieval = post(service, user, of_one(json.dumps(QUESTION)))
    service.settle()
    tables = ("retrievals", "exchanges", "turns", "outbox")
    count = f"SELECT {' + '.join(f'(SELECT count(*) FROM {one})' for one in tables)} AS n"
    before = asyncio.run(rows(service, count))[0]["n"]
    service.call("POST", f"/memory/v1/replay/{retrieval}", {"config": {"recall.facts_max": 1}}, X_Memory_User=user)
    service.settle()
    assert asyncio.run(rows(service, count))[0]["n"] == before


def test_retrievals_are_listed_newest_first_a_page_at_a_time(service: Service, user: str) -> None:
    made = [post(service, user, of_one(f'"say: number {n}"')) for n in range(3)]
    service.settle()
    first = service.call("GET", "/memory/v1/retrievals?limit=2", X_Memory_User=user)
    rest = service.call("GET", f"/memory/v1/retrievals?limit=2&cursor={first['next_cursor']}", X_Memory_User=user)
    assert [one["id"] for one in first["data"] + rest["data"]] == made[::-1]
    assert rest["next_cursor"] is None
    oldest = service.call("GET", "/memory/v1/retrievals?order=asc&limit=1", X_Memory_User=user)
    assert [one["id"] for one in oldest["data"]] == made[:1]


# ---------------------------------------------------------------- keys and the tenant's salt


@pytest.mark.long
def test_the_tenants_salt_is_part_of_what_is_rebuilt_also_after_it_was_rotated(keyed: Keyed, upstream: str) -> None:
    service, of = keyed.service, ("--tenant", "replayed")
    secret = keyed.make("replayed", *of, "--user", "ada")["secret"]
    who = {"Authorization": f"Bearer {secret}"}
    sent = {}
    for body in (of_one('"say: hello"'), of_one('"say: hi"', ' "cache_salt": "mine", "cache_salt": "again",')):
        pairs = [(b"Content-Type", b"application/json"), (b"Authorization", who["Authorization"].encode())]
        raw = send(service.url, "POST", CHAT, pairs, body)
        assert raw.status == 200, raw
        sent[raw.text("x-memory-retrieval") or ""] = last(upstream)[0]
    keyed.settle(secret)
    may = ("--can", "memory:read:own", "--can", "trace:read")
    reader = keyed.make("reader", *of, "--user", "ada", *may)["secret"]

    def assert_all() -> None:
        for retrieval, seen in sent.items():
            said = service.call("GET", f"/memory/v1/replay/{retrieval}", Authorization=f"Bearer {reader}")
            assert_rebuilt(said, seen)
            assert "cache_salt" in seen.json and seen.json["cache_salt"] not in ("mine", "again")

    assert_all()
    refused = service.call("GET", f"/memory/v1/replay/{next(iter(sent))}", **who)
    assert refused["error"]["code"] == "capability_missing"
    other = keyed.make("other", *of, "--user", "bob", *may)["secret"]
    said = service.call("GET", f"/memory/v1/replay/{next(iter(sent))}", Authorization=f"Bearer {other}")
    assert said["error"]["code"] == "not_found"
    asyncio.run(_rotated(service))
    assert_all()


async def _rotated(service: Service) -> None:
    async with connected(service) as connection:
        rotate = "UPDATE tenants SET salt_generation = salt_generation + 3 WHERE name = 'replayed'"
        assert await connection.execute(rotate) == "UPDATE 1"
