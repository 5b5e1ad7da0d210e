"""An imported conversation that its client goes on with: what it sends again is known, whoever said it and how."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bench.hygiene import Exchange
from bench.worker.envelopes import captured_of
from bench.worker.talks import Next, Talk
from memory import payload
from memory.adapters.secret_rules import secret_detectors
from memory.chain import chain
from memory.envelope import Binding, seal
from memory.errors import StoreRefused
from memory.ids import new_id
from memory.model import ImportChunk, ImportLine, Scope, SessionRef
from memory.ports import Delivery, Entry
from memory.write.pipeline import WritePath
from memory.write.redact import Redactor
from tests.postgres.seed import T0, digest
from tests.postgres.test_write_path import Life, Workshop, workshop

__all__ = ["workshop"]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "the pier"}'}}
BEFORE: list[dict[str, Any]] = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Is the pier open?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "open until nine", "tool_call_id": "c1"},
    {"role": "assistant", "content": "Until nine."},
    {"role": "system", "content": "You are terse."},
]

SECRET = "The key of the pier is ghp_16C7e42F292c6912E7710c838347Ae178B4a."
MASKED = Redactor(secret_detectors()).redact(SECRET).text


async def deliver(workshop: Workshop, entry: Entry, path: WritePath | None = None) -> None:
    lane, fence = next(iter(workshop.fences.items()))
    await (path or workshop.path(Life(float("inf")))).write(Delivery(entry, lane, "1", 1), fence)


async def sealed(workshop: Workshop, scope: Scope, kind: Any, given: Any, packed: bytes) -> Entry:
    subject = await workshop.keys.subject_id(scope.tenant, scope.user)
    key = await workshop.keys.subject_key(scope.tenant, scope.user)
    envelope = seal(key, Binding(scope.tenant, subject, given.exchange_id, kind), packed)
    return Entry(given.exchange_id, scope.tenant, subject, kind, "live", envelope)


async def bring(workshop: Workshop, scope: Scope, label: str, first: int, *messages: dict[str, Any]) -> None:
    """One chunk of these messages."""
    await deliver(workshop, await chunk_of(workshop, scope, label, first, *messages))


async def chunk_of(
    workshop: Workshop, scope: Scope, label: str, first: int, *messages: dict[str, Any], told: bool = False
) -> Entry:
    """The chunk, as it waits in the queue. `told`: as of an export, each line says which one it stands behind."""
    lines = tuple(
        ImportLine(at, label, one["role"], None, one["content"] or "", T0, f"line {at}", digest(at),
                   one.get("tool_calls"), one.get("tool_call_id"), parent=f"line {at - 1}" if told else None)
        for at, one in enumerate(messages, first)
    )  # fmt: skip
    chunk = ImportChunk(new_id(), new_id(), first, scope, True, "error", T0, lines)
    return await sealed(workshop, scope, "import", chunk, payload.pack_import(chunk))


async def test_who_goes_on_with_an_imported_conversation_sends_nothing_new_of_it(workshop: Workshop) -> None:
    scope, talk = Scope(workshop.store.tenant, "ada"), Talk("ada", "s", (Exchange((), ""),))
    await bring(workshop, scope, "s", 1, *BEFORE[:1])
    await bring(workshop, scope, "s", 2, *BEFORE[1:])
    said = [*BEFORE[:-1], {"role": "user", "content": "And tomorrow?"}]
    chain_key = await workshop.keys.chain_key(scope.tenant)
    captured = captured_of(Next(talk, 1, tuple(said), 1, "Until ten."), scope, chain_key)
    await deliver(workshop, await sealed(workshop, scope, "exchange", captured, payload.pack_captured(captured)))
    rows = await workshop.eyes.fetch("SELECT role, content, attempt, tool_calls FROM turns ORDER BY seq")
    assert [(row["role"], row["content"]) for row in rows] == [
        *((one["role"], one["content"] or "") for one in BEFORE),
        ("user", "And tomorrow?"),
        ("assistant", "Until ten."),
    ]
    assert {row["attempt"] for row in rows} == {0} and json.loads(rows[2]["tool_calls"]) == [CALL]


async def test_redacted_words_that_only_the_write_path_recognises_bring_their_conversation_home(
    workshop: Workshop,
) -> None:
    """Of a long history the request does not look among what was imported: it has a session of its own."""
    scope, talk = Scope(workshop.store.tenant, "ada"), Talk("ada", "s", (Exchange((), ""),))
    said = [{"role": "user", "content": SECRET}, {"role": "assistant", "content": "Noted."}]
    await bring(workshop, scope, "s", 1, {"role": "user", "content": MASKED}, said[1])
    chain_key = await workshop.keys.chain_key(scope.tenant)
    for at, answer in enumerate(("Until nine.", "Until ten.")):
        said.append({"role": "user", "content": f"And on day {at}?"})
        captured = captured_of(Next(talk, 1, tuple(said), 1, answer), scope, chain_key)
        guessed = replace(captured, named=False, session=SessionRef(new_id(), "guessed"))
        await deliver(workshop, await sealed(workshop, scope, "exchange", guessed, payload.pack_captured(guessed)))
        said.append({"role": "assistant", "content": answer})
    rows = await workshop.eyes.fetch(
        "SELECT content, chain, parent_chain, s.label, s.tip_chain FROM turns "
        "JOIN sessions s USING (session_id) ORDER BY seq"
    )
    assert [(row["label"], row["content"]) for row in rows] == [
        ("s", MASKED),
        *(("s", one["content"]) for one in said[1:]),
    ]
    assert [row["chain"] for row in rows] == chain(chain_key, said)
    assert [row["parent_chain"] for row in rows] == [None, *(row["chain"] for row in rows[:-1])]
    assert rows[0]["tip_chain"] == rows[-1]["chain"]


async def test_an_imported_errand_of_a_front_end_is_remembered_by_nobody_as_a_live_one_is_not(
    workshop: Workshop,
) -> None:
    scope = Scope(workshop.store.tenant, "ada")
    errand = "### Task:\nGenerate a concise title.\n<chat_history>\nUSER: Is the pier open?\n</chat_history>"
    said = [
        {"role": "user", "content": "Is the pier open on Sundays?"},
        {"role": "assistant", "content": "It is open until nine."},
        {"role": "user", "content": errand},
        {"role": "assistant", "content": '{"title": "Hours of the pier"}'},
    ]
    await bring(workshop, scope, "s", 1, *said)
    turns = await workshop.eyes.fetch("SELECT content FROM turns ORDER BY seq")
    assert [row["content"] for row in turns] == [one["content"] for one in said]
    kept = await workshop.eyes.fetch("SELECT content FROM memory_versions ORDER BY occurred_at, content")
    assert {row["content"] for row in kept} == {one["content"] for one in said[:2]}


async def test_a_line_that_is_an_error_line_is_not_counted_as_stored(workshop: Workshop) -> None:
    scope, path = Scope(workshop.store.tenant, "ada"), workshop.path(Life(float("inf")))
    counted = path.parts.metrics.registry.get_sample_value
    for number, text in enumerate(("The pier is open until nine.", "The pier is open until ten.")):
        line = ImportLine(1, "s", "user", None, text, T0, "a", digest(number))
        chunk = ImportChunk(new_id(), new_id(), 0, scope, True, "error", T0, (line,))
        await deliver(workshop, await sealed(workshop, scope, "import", chunk, payload.pack_import(chunk)), path)
    assert counted("memory_proxy_turns_total") == 1
    assert counted("memory_proxy_memories_total", {"kind": "episodic"}) == 1


async def test_a_chunk_stands_behind_what_a_client_has_moved_while_it_was_made(workshop: Workshop) -> None:
    """To embed a chunk takes seconds, and the first request that goes on in a copy moves its turns."""
    scope, talk = Scope(workshop.store.tenant, "ada"), Talk("ada", "s", (Exchange((), ""),))
    said = [
        {"role": "user", "content": SECRET},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "Is the pier open on Sundays?"},
        {"role": "assistant", "content": "Until five."},
    ]
    await bring(workshop, scope, "s", 1, {"role": "user", "content": MASKED}, said[1])
    chain_key = await workshop.keys.chain_key(scope.tenant)
    goes_on = (*said, {"role": "user", "content": "And on Monday?"})
    captured = captured_of(Next(talk, 1, goes_on, 1, "Until six."), scope, chain_key)
    request = await sealed(workshop, scope, "exchange", captured, payload.pack_captured(captured))
    chunk = await chunk_of(workshop, scope, "s", 3, *said[2:], told=True)
    parts = workshop.path(Life(float("inf"))).parts
    path = WritePath(replace(parts, lines=Meanwhile(parts.lines, lambda: deliver(workshop, request))))
    with pytest.raises(StoreRefused):
        await deliver(workshop, chunk, path)
    await deliver(workshop, chunk, path)
    rows = await workshop.eyes.fetch("SELECT content, chain, parent_chain FROM turns ORDER BY seq")
    assert [row["content"] for row in rows] == [
        MASKED, *(one["content"] for one in said[1:]), "And on Monday?", "Until six."
    ]  # fmt: skip
    assert [row["parent_chain"] for row in rows] == [None, *(row["chain"] for row in rows[:-1])]


async def test_a_chunk_stands_behind_a_turn_that_was_forgotten(workshop: Workshop) -> None:
    scope = Scope(workshop.store.tenant, "ada")
    await bring(workshop, scope, "s", 1, *BEFORE[1:2])
    await workshop.eyes.execute("DELETE FROM turns")
    await bring(workshop, scope, "s", 2, *BEFORE[4:5])
    rows = await workshop.eyes.fetch("SELECT content, parent_chain FROM turns")
    assert [row["content"] for row in rows] == ["Until nine."] and rows[0]["parent_chain"] is not None


class Meanwhile:
    """What stores lines, where something else is stored once between their reading and their storing."""

    def __init__(self, inner: Any, other: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._others = [other]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit_import(self, *given: Any, **named: Any) -> Any:
        while self._others:
            await self._others.pop()()
        return await self._inner.commit_import(*given, **named)
