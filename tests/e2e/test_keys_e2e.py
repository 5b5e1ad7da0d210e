"""Keys as people meet them: made by the command line, used by the OpenAI SDK, in front of two workers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import aiohttp
import openai
import pytest

from memory.adapters.redis_ended import RedisEnded
from memory.key_table import Secret
from policies.capability_token import Caveat, attenuated
from policies.labels import Sensitivity
from tests.e2e.keyed import MODEL, Keyed
from tests.e2e.raw_http import RawAnswer, chunked, connect, request_bytes, send
from tests.e2e.talk import rows
from tests.e2e.upstreams import last
from tests.service_fixture import frozen

FACT = "The lighthouse keeper of Norrvik hides the spare key inside the bell."
QUESTION = "Where does the lighthouse keeper of Norrvik hide the spare key?"
TELLTALE = "inside the bell"
NOBODY = "redis://127.0.0.1:1"


def refused(call: Any) -> tuple[int, str]:
    """Status and code of what the SDK was refused by."""
    with pytest.raises(openai.APIStatusError) as fault:
        call()
    body: Any = fault.value.response.json()
    return fault.value.status_code, body["error"]["code"]


def test_a_key_is_shown_once_and_found_by_its_prefix(keyed: Keyed) -> None:
    done = keyed.cli("create", "shown", "--user", "ada", "--expires", "90d")
    secret = done.stdout.strip()
    assert secret.startswith("mp-") and "\n" not in secret
    assert secret not in done.stderr
    listed = json.loads(keyed.act("list", "--json")[1])
    mine = next(one for one in listed if one["name"] == "shown")
    assert secret.startswith(mine["prefix"] + "-")
    assert secret[12:] not in keyed.act("list", "--all")[1] + json.dumps(listed)
    stored = asyncio.run(rows(keyed.service, "SELECT api_keys::text AS row FROM api_keys"))
    assert not [row for row in stored if secret[12:] in row["row"]]
    assert secret[12:] not in keyed.service.log.read_text()
    assert keyed.act("revoke", mine["prefix"])[0] == 0
    assert keyed.cli("revoke", mine["prefix"], ok=False).stderr.strip().endswith("is revoked already")


def test_what_is_done_with_keys_and_what_is_forgotten_leaves_a_row(keyed: Keyed) -> None:
    made = keyed.make("audited", "--can", "memory:erase", "--can", "memory:admin", "--user", "audit-me")
    keyed.own(made["secret"], "POST", "/memory/v1/forget", {"user": "audit-me", "dry_run": False})
    assert keyed.act("revoke", "audited")[0] == 0
    argv = [sys.executable, "-m", "proxy", "audit", "list", "--limit", "500", "--json", "--data-dir"]
    listed = subprocess.run([*argv, str(keyed.service.data)], capture_output=True, text=True, timeout=60)
    assert listed.returncode == 0, listed.stderr
    rows_of_log = [json.loads(line) for line in listed.stdout.splitlines()]
    of_key = [row["action"] for row in rows_of_log if made["id"] in row["ids"]]
    assert sorted(of_key) == ["key.create", "key.revoke"]
    forgotten = [row for row in rows_of_log if row["action"] == "forget"]
    assert [row["why"] for row in forgotten] == ["user"]
    assert "audit-me" not in listed.stdout


def test_redis_is_told_of_secrets_that_are_ended_and_who_cannot_tell_it_says_so(keyed: Keyed) -> None:
    async def ended() -> frozenset[Secret]:
        settings = json.loads((keyed.service.data / "run" / "settings.json").read_text())
        told = RedisEnded(settings["redis"]["url"], timeout_s=5)
        try:
            return await told.known()
        finally:
            await told.close()

    made = keyed.make("told of")
    first = Secret(UUID(made["id"]), made["prefix"].removeprefix("mp-"))
    assert first not in asyncio.run(ended())
    _, said, _ = keyed.act("rotate", "told of", "--grace", "0", "--json")
    second = Secret(first.key_id, json.loads(said)["prefix"].removeprefix("mp-"))
    assert {first, second} & asyncio.run(ended()) == {first}
    _, said, warned = keyed.act("rotate", "told of", "--grace", "0", "--json", cache_url=NOBODY)
    third = Secret(first.key_id, json.loads(said)["prefix"].removeprefix("mp-"))
    assert {first, second, third} & asyncio.run(ended()) == {first, second}
    assert "Redis was not told" not in warned
    with frozen(keyed.service, "valkey-server"):
        code, _, warned = keyed.act("revoke", "told of")
    assert code == 0 and "Redis was not told" in warned
    assert third not in asyncio.run(ended())
    code, _, warned = keyed.act("revoke", "told of")
    assert code == 1 and "is revoked already" in warned
    assert third in asyncio.run(ended())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("create", "x", "--can", "memory:raed:own"), "did you mean memory:read:own?"),
        (("create", "x", "--expires", "soon"), "say it like 90d"),
        (("revoke", "caf\udce9"), "no key has the prefix, id or name 'caf\ufffd'"),  # typed in Latin-1
    ],
)
def test_the_command_line_names_a_fault_with_its_remedy(keyed: Keyed, words: tuple[str, ...], says: str) -> None:
    assert says in keyed.cli(*words, ok=False).stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("create", "x", "--requests-per-minute", "0"), "requests_per_minute must be a whole number from 1"),
        (("create", ""), "name must be a text"),
        (("create", "a\nb"), "name holds no control character"),
        (("create", "x", "--tenant", "\x1b[2J"), "tenant holds no control character"),
        (("rotate", "mp-00000000"), "key list --all"),
        (("revoke", "nobody"), "key list --all"),
        (("list", "--tenant", "nowhere"), "there is no tenant 'nowhere'"),
    ],
)
def test_a_fault_is_named_with_its_remedy(keyed: Keyed, words: tuple[str, ...], says: str) -> None:
    code, _, warned = keyed.act(*words)
    assert code == 1 and says in warned


def test_a_key_of_an_odd_scope_is_listed_on_one_line(keyed: Keyed) -> None:
    keyed.act("create", "odd scope", "--tenant", "odd", "--user", "ada\x1b[2J\nmp-00000000  forged")
    listed = keyed.act("list", "--tenant", "odd")[1]
    assert listed.count("\n") == 1 and "user=ada\ufffd[2J\ufffdmp-00000000" in listed


@pytest.mark.long
def test_two_keys_of_one_name_are_not_guessed_between(keyed: Keyed) -> None:
    one, two = ("twin", "--tenant", "one"), ("twin", "--tenant", "two")
    assert keyed.act("create", *one)[0] == 0
    code, _, warned = keyed.act("create", *one)
    assert code == 1 and "another name" in warned
    assert keyed.act("create", *two)[0] == 0
    code, _, warned = keyed.act("revoke", "twin")
    assert code == 1 and "name one by its prefix" in warned
    assert keyed.act("revoke", *one)[0] == 0


def test_a_key_remembers_and_another_tenants_key_is_told_nothing(keyed: Keyed, upstream: str) -> None:
    ours, theirs = (
        keyed.make("ours", "--tenant", "north")["secret"],
        keyed.make("theirs", "--tenant", "south")["secret"],
    )
    keyed.ask(ours, f"{FACT}\nsay: Noted.")
    keyed.settle(ours)
    assert keyed.ask(ours, QUESTION).headers["x-memory-status"].startswith("injected")
    # Searched before they ask: their own question is a memory a moment later.
    assert keyed.own(theirs, "POST", "/memory/v1/search", {"query": QUESTION})["candidates"] == []
    assert keyed.ask(theirs, QUESTION).headers["x-memory-status"].startswith("empty")
    assert TELLTALE.encode() not in last(upstream)[0].body


def test_an_expired_key_is_refused(keyed: Keyed) -> None:
    made = keyed.make("short", "--expires", "8s")
    assert keyed.ask(made["secret"], "say: in").status_code == 200
    time.sleep(7)
    assert refused(lambda: keyed.ask(made["secret"], "say: in")) == (401, "invalid_api_key")


def test_a_rotated_keys_old_secret_holds_until_its_grace_is_ended(keyed: Keyed) -> None:
    old = keyed.make("turning")["secret"]
    new = json.loads(keyed.act("rotate", "turning", "--grace", "1h", "--json")[1])["secret"]
    time.sleep(1.2)
    assert keyed.ask(old, "say: in").status_code == keyed.ask(new, "say: in").status_code == 200
    assert "--redo" in keyed.act("rotate", "turning")[2]
    newest = json.loads(keyed.act("rotate", "turning", "--grace", "0", "--json")[1])["secret"]
    time.sleep(1.2)
    for ended in (old, new):
        assert refused(lambda secret=ended: keyed.ask(secret, "say: in")) == (401, "invalid_api_key")
    assert keyed.ask(newest, "say: in").status_code == 200


def test_a_key_revoked_during_an_answer_ends_that_answer_and_begins_no_other(keyed: Keyed, upstream: str) -> None:
    secret = keyed.make("leaving")["secret"]
    begun, pieces = threading.Event(), []

    def talk() -> None:
        with keyed.client(secret) as client:
            for chunk in client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "say: " + "word " * 40}],
                stream=True,
                extra_headers={"X-Fake-Token-Ms": "60"},
            ):
                if chunk.choices and chunk.choices[0].delta.content:
                    pieces.append(chunk.choices[0].delta.content)
                    begun.set()

    talking = threading.Thread(target=talk)
    talking.start()
    assert begun.wait(20)
    assert keyed.act("revoke", "leaving")[0] == 0
    time.sleep(1.0)
    for _ in range(8):  # new connections: both workers take some
        assert refused(lambda: keyed.ask(secret, "say: in")) == (401, "invalid_api_key")
    talking.join(30)
    assert "".join(pieces).split() == ["word"] * 40


@pytest.mark.parametrize("wrong", ["cut", "changed", "joined", "other"])
def test_a_damaged_key_is_told_from_an_unknown_one(keyed: Keyed, wrong: str) -> None:
    secret = keyed.make(f"damaged {wrong}")["secret"]
    changed = secret[:20] + ("A" if secret[20] != "A" else "B") + secret[21:]
    sent = {"cut": secret[:-1], "changed": changed, "joined": f"{secret}, Bearer {secret}", "other": "sk-abc"}[wrong]
    with pytest.raises(openai.AuthenticationError) as fault:
        keyed.ask(sent, "say: in")
    assert ("mistyped" in str(fault.value)) == (wrong != "other")
    assert secret[12:] not in str(fault.value)


def test_two_authorizations_are_refused(keyed: Keyed) -> None:
    secret = keyed.make("twice")["secret"].encode()
    pairs = [(b"Authorization", b"Bearer " + secret), (b"authorization", b"Bearer " + secret)]
    answer = send(keyed.service.url, "GET", "/v1/models", pairs)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (401, "invalid_api_key")


def test_a_browsers_preflight_is_vllms_to_answer_and_nothing_else_goes_without_a_key(keyed: Keyed) -> None:
    asks = [(b"Origin", b"https://chat.example"), (b"Access-Control-Request-Method", b"POST")]
    there, here = (
        send(url, "OPTIONS", "/v1/chat/completions", asks) for url in (keyed.service.upstream, keyed.service.url)
    )
    assert (here.status, here.body) == (there.status, there.body) != (401, b"")
    upgrade = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    for method, head, body in [
        ("OPTIONS", asks[:1], None),
        ("OPTIONS", asks[1:], None),
        ("OPTIONS", asks, b"{}"),
        ("OPTIONS", [*asks, *upgrade], None),
        ("GET", asks, None),
        ("POST", asks, b"{}"),
    ]:
        answer = send(keyed.service.url, method, "/v1/chat/completions", head, body)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (401, "invalid_api_key"), (method, head)


# ---------------------------------------------------------------- limits


def test_requests_a_minute_are_counted_for_all_workers_together(keyed: Keyed) -> None:
    secret = keyed.make("busy", "--requests-per-minute", "6")["secret"]

    def one(_: int) -> int:
        try:
            return int(keyed.ask(secret, "say: in").status_code)
        except openai.RateLimitError as fault:
            assert 1 <= int(fault.response.headers["retry-after"]) <= 120
            assert fault.response.json()["error"]["code"] == "rate_limited"
            return int(fault.status_code)

    while time.time() % 60 > 40:  # a minute that ends in between lets one more in
        time.sleep(0.5)
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(one, range(30)))
    assert sorted(set(answers)) == [200, 429]
    assert answers.count(200) == 6
    assert (
        send(keyed.service.url, "GET", "/memory/v1/sessions", [(b"Authorization", b"Bearer " + secret.encode())]).status
        == 429
    )
    assert (
        send(keyed.service.url, "GET", "/v1/models", [(b"Authorization", b"Bearer " + secret.encode())]).status == 429
    )


def test_tokens_a_day_end_the_day(keyed: Keyed) -> None:
    secret = keyed.make("thrifty", "--tokens-per-day", "60")["secret"]
    assert keyed.ask(secret, "say: " + "word " * 60).status_code == 200
    time.sleep(0.5)
    with pytest.raises(openai.RateLimitError) as fault:
        keyed.ask(secret, "say: in")
    assert 1 <= int(fault.value.response.headers["retry-after"]) <= 86_400


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_tokens_of_an_answer_that_its_client_left_are_counted(keyed: Keyed, path: str, mode: str) -> None:
    secret = keyed.make(f"left {path} {mode}", "--tokens-per-day", "40")["secret"]
    own = [(b"Authorization", b"Bearer " + secret.encode()), (b"X-Memory-Mode", mode.encode())]
    slow = [(b"Content-Type", b"application/json"), (b"x-fake-tokens", b"4000"), (b"x-fake-token-ms", b"5")]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "long"}], "prompt": "long", "stream": True}
    with connect(keyed.service.url) as sock:
        sock.sendall(request_bytes("POST", path, [*own, *slow], json.dumps(body).encode()))
        data = b""
        while data.count(b"data:") < 200:
            data += sock.recv(65_536)
    time.sleep(0.5)
    assert send(keyed.service.url, "GET", "/v1/models", own).status == 429


def test_tokens_of_a_body_whose_length_nobody_said_are_counted(keyed: Keyed) -> None:
    secret = keyed.make("chunked", "--tokens-per-day", "1000")["secret"]
    own = [(b"Authorization", b"Bearer " + secret.encode())]
    body = chunked([json.dumps({"model": MODEL, "input": "word " * 2000}).encode()])
    assert send(keyed.service.url, "POST", "/v1/embeddings", [*own, (b"Transfer-Encoding", b"chunked")], body).whole
    time.sleep(0.5)
    assert send(keyed.service.url, "GET", "/v1/models", own).status == 429


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings", "/v1/chat/completions"])
def test_another_model_is_refused_by_name_on_every_route(keyed: Keyed, upstream: str, path: str) -> None:
    secret = keyed.make(f"one model {path}", "--model", MODEL)["secret"]
    pairs = [(b"Authorization", b"Bearer " + secret.encode()), (b"Content-Type", b"application/json")]
    messages = [{"role": "user", "content": "say: in"}]
    before = last(upstream)
    bodies: list[bytes] = [
        json.dumps({"model": "big-model", "input": "x", "prompt": "x", "messages": messages}).encode(),
        b'{"model": "fake-model", "prompt": "x", "input": "x", "messages": [], "model": "big-model"}',
        json.dumps({"prompt": "x", "input": "x", "messages": messages}).encode(),
        b"not json at all",
    ]
    for body in bodies:
        answer = send(keyed.service.url, "POST", path, [*pairs, (b"X-Memory-Mode", b"off")], body)
        assert answer.status in (400, 403), (body, answer)
        if b"big-model" in body:
            error = json.loads(answer.body)["error"]
            assert (answer.status, error["code"], error["param"]) == (403, "capability_missing", "model")
            assert "'big-model'" in error["message"]
    assert last(upstream) == before
    allowed = json.dumps({"model": MODEL, "input": "x", "prompt": "say: in", "messages": messages}).encode()
    assert send(keyed.service.url, "POST", path, pairs, allowed).status == 200
    assert send(keyed.service.url, "GET", "/v1/models", pairs).status == 200


def test_injected_tokens_are_capped(keyed: Keyed, upstream: str) -> None:
    free = keyed.make("free", "--tenant", "capped")["secret"]
    none = keyed.make("none", "--tenant", "capped", "--injected-tokens-max", "0")["secret"]
    keyed.ask(free, f"{FACT}\nsay: Noted.")
    keyed.settle(free)
    assert keyed.ask(free, QUESTION).headers["x-memory-status"].startswith("injected")
    assert keyed.ask(none, f"{QUESTION} Tell me.").headers["x-memory-status"].startswith("empty")
    assert TELLTALE.encode() not in last(upstream)[0].body


# ---------------------------------------------------------------- capabilities and sensitivity


def test_what_is_above_the_ceiling_is_nowhere(keyed: Keyed, upstream: str) -> None:
    high = keyed.make("high", "--tenant", "levels", "--sensitivity-max", "secret")["secret"]
    low = keyed.make("low", "--tenant", "levels")["secret"]
    keyed.ask(high, f"{FACT}\nsay: Noted.")
    keyed.settle(high)
    before = datetime.now(UTC).isoformat()
    for memory in keyed.own(high, "GET", "/memory/v1/memories")["data"]:
        if TELLTALE in memory["content"]:
            patch = {"sensitivity": "confidential"}
            changed = keyed.own(high, "PATCH", f"/memory/v1/memories/{memory['id']}", patch, If_Match="1")
            assert changed["sensitivity"] == "confidential", changed
            raised = memory["id"]
    shown = keyed.ask(high, QUESTION)
    assert shown.headers["x-memory-status"].startswith("injected"), "the cleared key has it, or this proves nothing"
    assert TELLTALE.encode() in last(upstream)[0].body
    keyed.settle(high)
    answered = (
        "SELECT t.sensitivity FROM turns t JOIN retrievals USING (tenant_id, exchange_id) "
        "WHERE retrieval_id = $1 AND t.role = 'assistant'"
    )
    labels = asyncio.run(rows(keyed.service, answered, UUID(shown.headers["x-memory-retrieval"])))
    assert [row["sensitivity"] for row in labels] == ["confidential"], "an answer may repeat what it was given"
    assert keyed.ask(low, QUESTION).status_code == 200
    assert TELLTALE.encode() not in last(upstream)[0].body
    assert TELLTALE not in json.dumps(keyed.own(low, "POST", "/memory/v1/search", {"query": QUESTION, "k": 200}))
    assert TELLTALE not in json.dumps(keyed.own(low, "GET", "/memory/v1/memories"))
    exported = send(keyed.service.url, "GET", "/memory/v1/export", [(b"Authorization", f"Bearer {low}".encode())])
    assert exported.status == 200 and TELLTALE.encode() not in exported.body, "the turn it was made of neither"
    for session in keyed.own(low, "GET", "/memory/v1/sessions")["data"]:
        assert TELLTALE not in json.dumps(keyed.own(low, "GET", f"/memory/v1/sessions/{quote(session['id'])}"))
    past = {"query": QUESTION, "k": 200, "as_of": before}
    assert TELLTALE in json.dumps(keyed.own(high, "POST", "/memory/v1/search", past)), "it was there then"
    assert TELLTALE not in json.dumps(keyed.own(low, "POST", "/memory/v1/search", past))
    for method, body in (("GET", None), ("PATCH", {"sensitivity": "public"}), ("DELETE", None)):
        answer = keyed.own(low, method, f"/memory/v1/memories/{raised}", body, If_Match="2")
        assert answer["error"]["code"] == "not_found", (method, answer)
    given = keyed.own(low, "GET", f"/memory/v1/retrievals/{shown.headers['x-memory-retrieval']}")
    assert TELLTALE not in json.dumps(given["placed"]) and raised not in json.dumps(given)
    reads = ("--tenant", "levels", "--can", "memory:read:own", "--can", "trace:read")
    above = keyed.make("above", *reads, "--sensitivity-max", "secret")["secret"]
    below = keyed.make("below", *reads)["secret"]
    replayed = f"/memory/v1/replay/{shown.headers['x-memory-retrieval']}"
    assert keyed.own(below, "GET", replayed)["error"]["code"] == "not_found"
    past_retention = "UPDATE retrievals SET sealed = NULL, created_at = created_at - interval '9 days'"
    asyncio.run(rows(keyed.service, f"{past_retention} WHERE retrieval_id = $1", UUID(replayed.rpartition("/")[2])))
    left = keyed.own(above, "GET", replayed)
    assert left["why"] == "retention" and raised in json.dumps(left["placed"]), left
    left = keyed.own(below, "GET", replayed)
    assert left["why"] == "retention" and raised not in json.dumps(left) and left["placed"] == [], left
    lowered = keyed.own(high, "PATCH", f"/memory/v1/memories/{raised}", {"sensitivity": "public"}, If_Match="2")
    assert lowered["error"]["code"] == "capability_missing"


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("tasks", {"tasks": [{"title": f"Find the key {TELLTALE}", "sensitivity": "confidential"}]}, "id"),
        ("entities", {"name": f"Keeper {TELLTALE}", "type": "person", "sensitivity": "confidential"}, "id"),
        ("personas", {"name": "keeper", "description": f"Say {TELLTALE}.", "sensitivity": "confidential"}, "name"),
    ],
)
def test_what_is_above_the_ceiling_is_not_brought_back(keyed: Keyed, path: str, body: Any, key: str) -> None:
    high = keyed.make("high", "--tenant", f"back-{path}", "--sensitivity-max", "secret")["secret"]
    low = keyed.make("low", "--tenant", f"back-{path}")["secret"]
    kept = keyed.own(high, "POST", f"/memory/v1/{path}", body)
    kept = kept["data"][0] if "data" in kept else kept
    one = f"/memory/v1/{path}/{kept[key]}"
    assert "deleted_at" in keyed.own(high, "DELETE", one)
    refused_ = keyed.own(low, "POST", f"{one}/undelete")
    assert refused_["error"]["code"] == "not_found" and TELLTALE not in json.dumps(refused_)
    assert keyed.own(high, "GET", one)["error"]["code"] == "not_found", "it is as deleted as it was"
    assert keyed.own(high, "POST", f"{one}/undelete")[key] == kept[key]


def test_a_token_of_one_conversation_brings_back_nothing_of_another(keyed: Keyed) -> None:
    whole = keyed.make("whole", "--tenant", "conversations")["secret"]
    token = mint(keyed, whole, session="harbour")
    keyed.ask(whole, "say: in", session="field")
    keyed.settle(whole)
    keyed.own(whole, "POST", "/memory/v1/checkpoints", {"name": "camp", "notes": TELLTALE, "session": "field"})
    titles = {"tasks": [{"title": f"Find it {TELLTALE}"}], "session": "field"}
    task = keyed.own(whole, "POST", "/memory/v1/tasks", titles)["data"][0]["id"]
    for one in ("checkpoints/camp", f"tasks/{task}"):
        assert "deleted_at" in keyed.own(whole, "DELETE", f"/memory/v1/{one}")
        refused_ = keyed.own(token, "POST", f"/memory/v1/{one}/undelete")
        assert refused_["error"]["code"] == "not_found" and TELLTALE not in json.dumps(refused_), refused_
        assert keyed.own(whole, "GET", f"/memory/v1/{one}")["error"]["code"] == "not_found"
        assert "error" not in keyed.own(whole, "POST", f"/memory/v1/{one}/undelete")
    for name in ("camp", "nowhere"):  # nor is it told by a chat whether there is one
        assert refused(lambda: keyed.ask(token, "Go on.", checkpoint=name)) == (404, "not_found")  # noqa: B023
    assert keyed.ask(whole, "Go on.", checkpoint="camp").http_response.status_code == 200


def test_who_may_not_read_is_given_nothing_and_who_may_not_write_leaves_nothing(keyed: Keyed, upstream: str) -> None:
    writes = keyed.make("writes", "--tenant", "halves", "--can", "memory:write")["secret"]
    reads = keyed.make("reads", "--tenant", "halves", "--can", "memory:read:own")["secret"]
    told = keyed.ask(writes, f"{FACT}\nsay: Noted.")
    assert told.headers["x-memory-capture"] in ("queue", "spool")
    asked = keyed.ask(reads, "I have a tale of my own, of a red kite over Vard.\nsay: Ah.")
    assert asked.headers["x-memory-capture"] == "off"
    keyed.settle(reads)
    assert keyed.ask(reads, QUESTION).headers["x-memory-status"].startswith("injected")
    assert "red kite" not in json.dumps(keyed.own(reads, "GET", "/memory/v1/memories"))
    assert keyed.ask(writes, QUESTION).headers["x-memory-status"] == "off"
    assert TELLTALE.encode() not in last(upstream)[0].body
    assert keyed.own(writes, "GET", "/memory/v1/export")["error"]["code"] == "capability_missing"


# ---------------------------------------------------------------- tokens


def mint(keyed: Keyed, secret: str, **asked: Any) -> str:
    made = keyed.own(secret, "POST", "/memory/v1/tokens", asked, Content_Type="application/json")
    assert "token" in made, made
    return str(made["token"])


def test_a_token_acts_for_its_user_and_no_other(keyed: Keyed, upstream: str) -> None:
    secret = keyed.make(
        "service",
        "--tenant",
        "minting",
        *("--can", "memory:read:own", "--can", "memory:write", "--can", "act:any_user"),
    )["secret"]
    ada, eve = mint(keyed, secret, user="ada"), mint(keyed, secret, user="eve")
    keyed.ask(ada, f"{FACT}\nsay: Noted.")
    keyed.settle(secret)
    assert keyed.ask(ada, QUESTION).headers["x-memory-status"].startswith("injected")
    assert keyed.ask(secret, QUESTION, user="ada").headers["x-memory-status"].startswith("injected")
    assert keyed.ask(eve, QUESTION).headers["x-memory-status"].startswith("empty")
    assert refused(lambda: keyed.ask(eve, QUESTION, user="ada")) == (403, "scope_denied")
    assert TELLTALE.encode() not in last(upstream)[0].body
    seen = last(upstream)[0]
    assert not [value for _, value in seen.headers if eve in value or secret in value]


def test_a_token_is_narrowed_offline_and_never_widened(keyed: Keyed) -> None:
    secret = keyed.make("narrowing", "--tenant", "narrow")["secret"]
    env = {"MEMORY_PROXY_KEY": secret}
    argv = [sys.executable, "-m", "proxy", "key", "token", "--expires", "1h"]
    token = subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ, **env}).stdout.strip()
    assert keyed.ask(token, "say: in").status_code == 200
    reading = attenuated(token, Caveat(capabilities=frozenset({"memory:read:own"}), ceiling=Sensitivity.PUBLIC))
    assert keyed.ask(reading, "say: in").headers["x-memory-capture"] == "off"
    wider = attenuated(reading, Caveat(capabilities=frozenset({"memory:read:own", "memory:write", "memory:admin"})))
    assert keyed.ask(wider, "say: in").headers["x-memory-capture"] == "off"
    answer = keyed.own(wider, "POST", "/memory/v1/tokens", {"capabilities": ["memory:admin"], "expires_in_s": 60})
    assert answer["capabilities"] == ["memory:read:own"]
    gone = attenuated(wider, Caveat(capabilities=frozenset()))
    assert keyed.own(gone, "GET", "/memory/v1/sessions")["error"]["code"] == "capability_missing"
    # A key that may name no user cannot make a token that does.
    assert keyed.own(secret, "POST", "/memory/v1/tokens", {"user": "ada"})["error"]["code"] == "unprocessable"
    assert refused(lambda: keyed.ask(attenuated(token, Caveat(user="ada")), "say: in")) == (401, "invalid_api_key")


def test_a_forged_or_cut_token_is_refused(keyed: Keyed) -> None:
    secret = keyed.make("forging", "--tenant", "forge")["secret"]
    token = mint(keyed, secret, capabilities=["memory:read:own"])
    head, caveat, signature = token.split(".")
    other = mint(keyed, keyed.make("other", "--tenant", "forge")["secret"])
    forged = [
        token[:-1],
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        f"{head}.{signature}",
        f"{head}.{caveat}.{other.split('.')[-1]}",
        f"{other.split('.')[0]}.{caveat}.{signature}",
        head,
        f"{head}.{caveat}.{caveat}.{signature}",
        "mpt-",
        "mpt-" + "a" * 10_000,
    ]
    for text in forged:
        assert refused(lambda text=text: keyed.ask(text, "say: in")) == (401, "invalid_api_key"), text
    assert keyed.ask(token, "say: in").status_code == 200


@pytest.mark.parametrize("ends", ["the key is revoked", "the token ends"])
async def test_a_websocket_ends_with_the_key_that_opened_it(keyed: Keyed, ends: str) -> None:
    made = await asyncio.to_thread(keyed.make, f"speaking until {ends}")
    ends_by_itself = ends == "the token ends"
    secret = await asyncio.to_thread(mint, keyed, made["secret"], expires_in_s=4) if ends_by_itself else made["secret"]
    head = {"Authorization": f"Bearer {secret}"}
    url = f"{keyed.service.url}/v1/realtime?model={MODEL}"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, headers=head) as socket:
        await socket.send_str("one")
        assert await socket.receive_str(timeout=10) == "one"
        if not ends_by_itself:
            await asyncio.to_thread(keyed.cli, "revoke", made["prefix"])
        closing = await socket.receive(timeout=10)
        assert (closing.type, closing.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.POLICY_VIOLATION)


def test_a_token_dies_with_its_key_and_with_its_time(keyed: Keyed) -> None:
    made = keyed.make("parent", "--tenant", "family")
    token, brief = mint(keyed, made["secret"]), mint(keyed, made["secret"], expires_in_s=1)
    assert keyed.ask(token, "say: in").status_code == 200
    time.sleep(1.5)
    assert refused(lambda: keyed.ask(brief, "say: in")) == (401, "invalid_api_key")
    assert keyed.act("revoke", made["prefix"])[0] == 0
    time.sleep(1.0)
    assert refused(lambda: keyed.ask(token, "say: in")) == (401, "invalid_api_key")


def test_a_token_for_one_task_sees_that_conversation_alone(keyed: Keyed, upstream: str) -> None:
    secret = keyed.make("tasks", "--tenant", "tasks")["secret"]
    keyed.ask(secret, f"{FACT}\nsay: Noted.", session="task-one")
    keyed.ask(secret, "The tide table of Norrvik hangs in the smithy.\nsay: Noted.", session="task-two")
    keyed.settle(secret)
    token = mint(keyed, secret, session="task-two")
    assert keyed.ask(secret, QUESTION).headers["x-memory-status"].startswith("injected")
    keyed.ask(token, QUESTION)
    assert TELLTALE.encode() not in last(upstream)[0].body
    assert refused(lambda: keyed.ask(token, QUESTION, session="task-one")) == (403, "scope_denied")
    asked = {"query": QUESTION, "k": 200}
    assert TELLTALE not in json.dumps(keyed.own(token, "POST", "/memory/v1/search", asked))
    assert "smithy" in json.dumps(keyed.own(token, "POST", "/memory/v1/search", {"query": "the tide table", "k": 200}))
    assert keyed.own(token, "GET", "/memory/v1/sessions/task-one")["error"]["code"] == "not_found"
    assert [one["id"] for one in keyed.own(token, "GET", "/memory/v1/sessions")["data"]] == ["task-two"]
    assert TELLTALE not in json.dumps(keyed.own(token, "GET", "/memory/v1/memories"))
    exported = send(keyed.service.url, "GET", "/memory/v1/export", [(b"Authorization", f"Bearer {token}".encode())])
    assert TELLTALE.encode() not in exported.body and b"smithy" in exported.body
    imported = keyed.own(token, "POST", "/memory/v1/import", b'{"role":"user","content":"x","session":"task-one"}\n')
    assert imported["error"]["code"] == "scope_denied"


def test_a_key_says_what_becomes_of_a_conversation_that_does_not_fit(keyed: Keyed, upstream: str) -> None:
    words = "and so it went on and on " * 1_000
    messages = [{"role": role, "content": words} for role in ("user", "assistant", "user")]
    body = json.dumps({"model": MODEL, "messages": messages}).encode()

    def asked(name: str, *more: str) -> RawAnswer:
        secret = keyed.make(name, *more)["secret"]
        # Nothing of it is kept: 21,000 tokens take the worker 15 s, minutes beside all else, and the next test waits.
        named = {b"Authorization": b"Bearer " + secret.encode(), b"X-Memory-Mode": b"read"}
        pairs = [*named.items(), (b"Content-Type", b"application/json")]
        return send(keyed.service.url, "POST", "/v1/chat/completions", pairs, body)

    answer = asked("strict")
    assert answer.status == 400 and b"maximum context length" in answer.body
    answer = asked("lenient", "--overflow", "summarise")
    assert answer.status == 200, answer.body
    sent = json.loads(last(upstream)[0].body)["messages"]
    assert [one["role"] for one in sent] == ["user"]
    assert sent[0]["content"].endswith(words)


def test_a_checkpoint_of_another_project_takes_the_capability_and_no_fixed_project(keyed: Keyed) -> None:
    def key(name: str, *more: str) -> str:
        return str(keyed.make(name, "--user", "ida", *more)["secret"])

    def call(secret: str, path: str, body: Any, project: str) -> Any:
        named = {} if project == "" else {"X_Memory_Project": project}
        return keyed.service.call("POST", f"/memory/v1{path}", body, Authorization=f"Bearer {secret}", **named)

    can = [word for one in ("memory:read:own", "memory:write", "checkpoint:any_project") for word in ("--can", one)]
    usual, may = key("usual"), key("may", *can)
    fixed = key("fixed", "--project", "land", *can)
    assert call(usual, "/checkpoints", {"name": "camp", "notes": "The jetty waits."}, "sea")["name"] == "camp"
    taking = {"name": "camp", "from_project": "sea"}
    assert call(usual, "/checkpoints/camp/branch", taking, "land")["error"]["code"] == "capability_missing"
    assert call(fixed, "/checkpoints/camp/branch", taking, "")["error"]["code"] == "scope_denied"
    assert call(may, "/checkpoints/camp/branch", taking, "land")["parts"][0]["content"] == "The jetty waits."
    loading = {"session": "pier", "from_project": "sea", "name": "loaded"}
    assert call(usual, "/checkpoints/camp/load", loading, "land")["error"]["code"] == "capability_missing"
    assert call(fixed, "/checkpoints/camp/load", loading, "")["error"]["code"] == "scope_denied"
    keyed.ask(usual, "Where do we stand?", session="pier", project="land")
    assert "The jetty waits." not in str(last(keyed.service.upstream)[0].json), "nothing was loaded"
    head = {"Authorization": f"Bearer {usual}", "X_Memory_Project": "land"}
    there = [one["name"] for one in keyed.service.call("GET", "/memory/v1/checkpoints", **head)["data"]]
    assert there == ["camp"], "nor kept"
    tool = {"name": "camp", "new_name": "tooled", "from_project": "sea"}
    assert call(usual, "/tools/checkpoint_branch", tool, "land")["error"]["code"] == "capability_missing"
    assert call(may, "/tools/checkpoint_branch", tool, "land")["checkpoint"]["name"] == "tooled"
    assert call(may, "/checkpoints/camp/load", loading, "land")["parts"] == 1
    keyed.ask(usual, "And now?", session="pier", project="land")
    assert "The jetty waits." in str(last(keyed.service.upstream)[0].json)


def test_a_task_says_no_name_of_a_checkpoint_that_the_caller_may_not_see(keyed: Keyed) -> None:
    key = str(keyed.make("tasks", "--user", "iris")["secret"])

    def call(secret: str, method: str, path: str, body: Any = None, **head: str) -> Any:
        return keyed.service.call(method, f"/memory/v1{path}", body, Authorization=f"Bearer {secret}", **head)

    token = call(key, "POST", "/tokens", {"session": "harbour"})["token"]
    keyed.ask(key, "The boat lies at berth nine.\nsay: Noted.", session="elsewhere")
    keyed.settle(key)
    call(key, "POST", "/checkpoints", {"name": "diagnosis", "notes": "It is bad.", "session": "elsewhere"})
    task = {"title": "Call the doctor", "checkpoint": "diagnosis"}
    (one,) = call(key, "POST", "/tasks", {"tasks": [task], "session": "harbour"})["data"]
    assert one["checkpoint"] == "diagnosis"
    for said in (call(token, "GET", f"/tasks/{one['id']}"), call(token, "POST", "/tools/task_list", {})):
        assert "doctor" in str(said) and "diagnosis" not in str(said)
    for secret, told in ((key, True), (token, False)):
        head = {"Authorization": f"Bearer {secret}"}
        request = urllib.request.Request(f"{keyed.service.url}/memory/v1/export", headers=head)
        with urllib.request.urlopen(request, timeout=30) as answer:
            lines = [json.loads(line) for line in answer.read().splitlines()]
        (exported,) = [line for line in lines if line["type"] == "task"]
        assert (exported.get("checkpoint") == "diagnosis") is ("diagnosis" in str(lines)) is told
    for name in ("diagnosis", "nowhere"):
        refused = call(token, "PATCH", f"/tasks/{one['id']}", {"checkpoint": name}, If_Match="1")["error"]
        assert (refused["code"], refused["param"]) == ("not_found", "checkpoint"), "it looks like what is not there"
    assert call(key, "GET", f"/tasks/{one['id']}")["checkpoint"] == "diagnosis"


def test_a_link_to_a_file_opens_it_without_a_key(keyed: Keyed) -> None:
    secret = keyed.make("files", "--user", "ida")["secret"]
    edge = "edge"
    head = f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="plan.txt"\r\n\r\n'
    body = f"{head}Oak, four metres.\r\n--{edge}--\r\n".encode()
    of = {"Authorization": f"Bearer {secret}"}
    kind = f"multipart/form-data; boundary={edge}"
    made = keyed.service.call("POST", "/memory/v1/artifacts", body, Content_Type=kind, **of)
    path = f"/memory/v1/artifacts/{made['id']}"
    assert keyed.service.call("GET", f"{path}/content")["error"]["code"] == "invalid_api_key"
    link = keyed.service.call("POST", f"{path}/link", {}, **of)["url"]
    with urllib.request.urlopen(keyed.service.url + link, timeout=30) as answer:
        assert answer.read() == b"Oak, four metres."


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that takes nothing")
def test_a_secret_that_could_not_be_written_never_holds(keyed: Keyed) -> None:
    """Nobody has it: the key that was to be made is not there, and the one that was to be rotated stays as it was."""
    keyed.make("unturned")

    def standing() -> list[dict[str, Any]]:
        return [one for one in json.loads(keyed.act("list", "--json")[1]) if one["name"] in ("unseen", "unturned")]

    before, audit = standing(), "SELECT count(*) AS rows FROM audit_log WHERE action LIKE 'key.%'"
    noted = asyncio.run(rows(keyed.service, audit))
    for words in (("create", "unseen"), ("rotate", "unturned", "--grace", "0")):
        argv = [sys.executable, "-m", "proxy", "key", *words, "--data-dir", str(keyed.service.data)]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert done.stderr == (
            "memory-proxy: the secret cannot be written, and nothing was changed: No space left on device\n"
        )
    assert standing() == before and len(before) == 1
    assert asyncio.run(rows(keyed.service, audit)) == noted, "what was not done is not noted"
