"""Odd input of the write path, through the whole service: the right thing is stored once, and what is odd is no memory.

A killed worker and clocks of its own: tests/postgres/test_write_path.py. Odd requests: test_bad_input.py.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.e2e.conftest import Scripted
from tests.e2e.talk import Message, Said, ask, completion, exchanges, found, rows, sessions, turn
from tests.service_fixture import Service

AT_ONCE = 10
_STORED = """
SELECT m.kind, v.role, v.content, v.version FROM memories m
JOIN memory_versions v USING (tenant_id, memory_id)
JOIN scopes s ON s.tenant_id = m.tenant_id AND s.scope_id = m.scope_id
WHERE s.user_name = $1 AND v.recorded_to IS NULL AND m.deleted_at IS NULL ORDER BY v.content
"""


async def memories(service: Service, user: str, kind: str = "episodic") -> list[asyncpg.Record]:
    """What a user's scope holds of this kind."""
    return [row for row in await rows(service, _STORED, user) if row["kind"] == kind]


async def asked(scripted: Scripted, messages: list[Message] | str, user: str, answer: str, **more: str) -> Said:
    """One chat, answered so, and stored."""
    scripted.upstream.then_json(completion(answer))
    said = await asyncio.to_thread(ask, scripted.service, messages, user, **more)
    assert (said.status, said.memory("capture")) == (200, "queue")
    await asyncio.to_thread(scripted.service.settle)
    return said


def dead(service: Service) -> int:
    return int(service.call("GET", "/memory/v1/queue")["dead"])


@pytest.mark.parametrize(("said", "answer"), [("👍", "😀"), ("👩‍👩‍👧", "❤️"), ("🇵🇹", "…"), (" \n\t", "👋🏽")])
async def test_an_exchange_of_one_emoji_is_kept_and_is_no_memory(
    scripted: Scripted, user: str, said: str, answer: str
) -> None:
    await asked(scripted, said, user, answer)
    (row,) = await exchanges(scripted.service, user)
    assert (row["status"], row["sealed"]) == ("complete", True)
    (turns,) = (await asyncio.to_thread(sessions, scripted.service, user)).values()
    assert [(one["role"], one["content"]) for one in turns] == [("user", said), ("assistant", answer)]
    assert await rows(scripted.service, _STORED, user) == []


async def test_a_tool_result_of_300_kb_is_kept_whole_and_learnt_from_by_nobody(scripted: Scripted, user: str) -> None:
    draw = random.Random(5)
    lines = [f"row {n}: {draw.random():.6f} the pump of hall {draw.randrange(90)} is idle" for n in range(6_500)]
    output = "\n".join([*lines, "My name is Mallory and my budget is $9,999."])
    assert len(output) > 300_000
    call = {"id": "c1", "type": "function", "function": {"name": "read_log", "arguments": '{"hall": 7}'}}
    talk = [
        turn("user", "Is the pump of the seventh hall idle?"),
        turn("assistant", None, tool_calls=[call]),
        turn("tool", output, tool_call_id="c1"),
    ]
    await asked(scripted, talk, user, "It is idle, as it was yesterday.")
    (turns,) = (await asyncio.to_thread(sessions, scripted.service, user)).values()
    assert [(one["role"], one["name"]) for one in turns[1:3]] == [("assistant", None), ("tool", "read_log")]
    assert turns[2]["content"] == output
    asked_and_told = ["Is the pump of the seventh hall idle?", "It is idle, as it was yesterday."]
    stored = await rows(scripted.service, _STORED, user)
    # So many tokens make a summary due (`summary.every_tokens`); it holds what people said, too.
    assert {row["kind"]: row["content"].split("\n") for row in stored if row["kind"] != "episodic"} in (
        {},
        {"summary": asked_and_told},
    )
    assert sorted(row["content"] for row in stored if row["kind"] == "episodic") == asked_and_told
    # The same result sent again as history, as every client does, adds nothing.
    more = [*talk, turn("assistant", "It is idle, as it was yesterday."), turn("user", "Since when, by the log?")]
    await asked(scripted, more, user, "Since Tuesday, by the log.")
    (turns,) = (await asyncio.to_thread(sessions, scripted.service, user)).values()
    assert [one["role"] for one in turns] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert len(await exchanges(scripted.service, user)) == 2


@pytest.mark.parametrize("form", ["one run", "data url", "wrapped"])
async def test_base64_in_a_text_is_known_by_its_digest_and_in_no_memory(
    scripted: Scripted, user: str, form: str
) -> None:
    raw = random.Random(form).randbytes(30_000)
    shown = {
        "one run": base64.b64encode(raw).decode(),
        "data url": f"data:application/pdf;base64,{base64.b64encode(raw).decode()}",
        "wrapped": base64.encodebytes(raw).decode().strip(),
    }[form]
    before, after = "The blueprint of the lighthouse is this:", "and the keeper lives on its second floor."
    await asked(scripted, f"{before}\n{shown}\n{after}", user, "A fine lighthouse it is.")
    (turns,) = (await asyncio.to_thread(sessions, scripted.service, user)).values()
    text = turns[0]["content"]
    assert before in text and after in text and "[data: 30000 bytes]" in text and len(text) < 300
    (part,) = await rows(
        scripted.service,
        "SELECT t.parts FROM turns t JOIN scopes s USING (tenant_id, scope_id) "
        "WHERE s.user_name = $1 AND t.role = 'user'",
        user,
    )
    assert json.loads(part["parts"])[0]["sha256"] == hashlib.sha256(raw).hexdigest()
    piece = shown[200:240]
    assert not any(piece in row["content"] for row in await rows(scripted.service, _STORED, user))
    hits = await asyncio.to_thread(found, scripted.service, "Where does the keeper of the lighthouse live?", user)
    assert any(after in hit for hit in hits)


def at_once(service: Service, body: list[Message], users: list[str], **headers: str) -> list[Said]:
    """The same chat from as many clients as there are names, begun together."""
    with ThreadPoolExecutor(len(users)) as clients:
        said = list(clients.map(lambda user: ask(service, body, user, **headers), users))
    service.settle()
    assert {(one.status, one.memory("capture")) for one in said} == {(200, "queue")}
    return said


async def test_the_same_exchange_of_a_named_session_ten_times_at_once_is_one_pair_of_turns(
    service: Service, user: str
) -> None:
    body = [turn("user", "My sailing boat is called Halcyon.\nsay: A good name for a boat.")]
    await asyncio.to_thread(at_once, service, body, [user] * AT_ONCE, session="ten-at-once")
    stored = await exchanges(service, user)
    assert len(stored) == AT_ONCE and all(row["sealed"] for row in stored)
    talks = await asyncio.to_thread(sessions, service, user)
    (turns,) = talks.values()
    assert [one["role"] for one in turns] == ["user", "assistant"]
    assert Counter(row["role"] for row in await memories(service, user)) == {"user": 1, "assistant": 1}
    facts = await memories(service, user, "semantic")
    assert len(facts) == len({row["content"] for row in facts})
    assert dead(service) == 0


async def test_a_conversation_that_ten_clients_go_on_with_at_once_stays_one(service: Service, user: str) -> None:
    opening = [turn("user", "The harbour of Faro is where the boat lies.\nsay: Noted, Faro.")]
    first = await asyncio.to_thread(ask, service, opening, user)
    await asyncio.to_thread(service.settle)
    body = [*opening, turn("assistant", first.text), turn("user", "She needs new sails in May.\nsay: In May then.")]
    said = await asyncio.to_thread(at_once, service, body, [user] * AT_ONCE)
    assert {one.session for one in said} == {first.session}
    (turns,) = (await asyncio.to_thread(sessions, service, user)).values()
    assert [(one["seq"], one["role"]) for one in turns] == [
        (0, "user"),
        (1, "assistant"),
        (2, "user"),
        (3, "assistant"),
    ]
    assert len(await exchanges(service, user)) == AT_ONCE + 1
    assert len(await memories(service, user)) == 4


async def test_the_same_exchange_of_ten_users_at_once_is_each_user_s_own(service: Service, user: str) -> None:
    users = [f"{user}-{number}" for number in range(AT_ONCE)]
    body = [turn("user", "My greenhouse has forty panes of glass.\nsay: Forty panes.")]
    await asyncio.to_thread(at_once, service, body, users)
    for one in users:
        assert len(await exchanges(service, one)) == 1
        (turns,) = (await asyncio.to_thread(sessions, service, one)).values()
        assert len(turns) == 2
        assert len(await memories(service, one)) == 2


def lines_of(*turns: tuple[str, str]) -> bytes:
    """An import: (when, what the user said)."""
    said: list[dict[str, Any]] = [{"role": "user", "content": text, "occurred_at": when} for when, text in turns]
    return b"".join(json.dumps(line).encode() + b"\n" for line in said)


def imported(service: Service, body: bytes, user: str) -> None:
    """Import and wait until all is searchable."""
    raw = service.call("POST", "/memory/v1/import?wait=false", body, X_Memory_User=user)
    assert raw["complete"] and raw["failed"] == 0, raw
    service.settle()


async def test_a_line_dated_in_the_future_or_the_far_past_is_found_and_rules_over_nothing(
    service: Service, user: str
) -> None:
    soon = (datetime.now(UTC) + timedelta(days=3_000)).isoformat()
    body = lines_of((soon, "My budget for the sails is $4,500."), ("0001-01-02T00:00:00Z", "The mast is of ash wood."))
    await asyncio.to_thread(imported, service, body, user)
    await asyncio.to_thread(ask, service, "My budget for the sails is $6,200 now.\nsay: Noted.", user)
    await asyncio.to_thread(service.settle)
    states = await rows(
        service,
        "SELECT f.object, f.state FROM facts f JOIN scopes s USING (tenant_id, scope_id) WHERE s.user_name = $1",
        user,
    )
    said = {row["object"]: row["state"] for row in states}
    assert [state for object_, state in said.items() if "6,200" in object_ or "6200" in object_] == ["current"], said
    assert [state for object_, state in said.items() if "4,500" in object_ or "4500" in object_] != ["current"], said
    for query, words in (("Which wood is the mast of?", "ash wood"), ("What is the budget for the sails?", "$6,200")):
        hits = await asyncio.to_thread(found, service, query, user)
        assert any(words in hit for hit in hits), hits
    assert dead(service) == 0
