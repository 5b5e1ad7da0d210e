"""What the security benches share: an upstream that remembers what it was sent, callers with keys, a store of its own.

In: the service's store by its owner's address; out: keys of the default tenant, clients that plant texts in one of the
ways in which text reaches the memory. Raises CallFailed when the service refuses or is silent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
from aiohttp import web

from bench.recall.client import CallFailed
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore

NOTED: Final = "Noted."
MAY: Final = ("memory:read:own", "memory:write", "trace:read", "act:any_user")
TRUSTED: Final = (*MAY, "memory:import:trusted")
KEYED: Final = "auth:\n  mode: keys\n"
_OPENAI: Final = "/v1/chat/completions"


@dataclass(slots=True)
class Upstream:
    """The stand-in; mutable. Answers `answers[metadata.answer]`, else NOTED, and keeps the bodies it was sent."""

    answers: dict[str, str] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        """One chat completion."""
        body = await request.json()
        self.bodies.append(body)
        text = self.answers.get(str(body.get("metadata", {}).get("answer")), NOTED)
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return web.json_response({"id": "c", "object": "chat.completion", "model": "m", "choices": choices})

    async def models(self, _request: web.Request) -> web.Response:
        """What is served."""
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 131072}]})


async def new_key(dsn: str, capabilities: Sequence[str], tenant_name: str = "default") -> str:
    """The secret of a new key of a tenant."""
    database = await Database.open(dsn)
    try:
        keys, now = KeyStore(database), datetime.now(UTC)
        tenant = await keys.ensure_tenant(tenant_name, now)
        _, secret = await keys.create_api_key(tenant, "bench", now, capabilities=capabilities)
    finally:
        await database.close()
    return secret


@dataclass(frozen=True, slots=True)
class Caller:
    """One user behind one key (none in open mode)."""

    http: aiohttp.ClientSession
    url: str
    user: str
    key: str | None = None

    def headers(self, **more: str) -> dict[str, str]:
        """Who asks."""
        held = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"X-Memory-User": self.user, **held, **{name.replace("_", "-"): value for name, value in more.items()}}

    async def chat(self, messages: Sequence[Mapping[str, Any]], *, mode: str = "on", answer: str = "") -> str:
        """One request; X-Memory-Status."""
        body = {"model": "m", "messages": messages, "metadata": {"answer": answer}}
        async with self.http.post(f"{self.url}{_OPENAI}", json=body, headers=self.headers(X_Memory_Mode=mode)) as got:
            if got.status != 200:
                raise CallFailed(f"a chat was answered {got.status}: {(await got.text())[:300]}")
            return got.headers["X-Memory-Status"]

    async def bring(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Import lines, and wait until they are searchable."""
        body = "".join(json.dumps(line) + "\n" for line in lines).encode()
        async with self.http.post(f"{self.url}/memory/v1/import", data=body, headers=self.headers()) as got:
            said = [json.loads(raw) for raw in (await got.text()).splitlines()]
            if got.status != 200 or not said[-1].get("complete") or said[-1]["failed"]:
                raise CallFailed(f"import answered {got.status}: {said[:1]} {said[-1:]}")

    async def found(self, query: str, k: int = 20) -> list[dict[str, Any]]:
        """The candidates of a search."""
        asked = {"query": query, "k": k}
        async with self.http.post(f"{self.url}/memory/v1/search", json=asked, headers=self.headers()) as got:
            if got.status != 200:
                raise CallFailed(f"a search was answered {got.status}: {(await got.text())[:300]}")
            found: list[dict[str, Any]] = (await got.json())["candidates"]
            return found

    async def held_back(self) -> list[dict[str, Any]]:
        """The memories that wait for a review because of their words."""
        found: list[dict[str, Any]] = []
        query = {"due": "review", "limit": "1000"}
        while True:
            async with self.http.get(f"{self.url}/memory/v1/memories", params=query, headers=self.headers()) as got:
                page = await got.json()
            found += [one for one in page["data"] if one["quarantine_reason"]]
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]


async def plant(caller: Caller, way: str, texts: Sequence[str], upstream: Upstream) -> None:
    """Texts into a user's memory in one of the ways in WAYS. Not yet searchable: see `bench.recall.chat.settled`."""
    for number, text in enumerate(texts):
        if way == "user turn":
            await caller.chat([{"role": "user", "content": text}])
        elif way == "assistant turn":
            name = upstream.answers.setdefault(f"{caller.user}/{number}", text) and f"{caller.user}/{number}"
            await caller.chat([{"role": "user", "content": f"Tell me something, number {number}."}], answer=name)
        elif way == "tool result":
            await caller.chat(_with_tool(f"Look something up, number {number}.", text))
    if way in IMPORTED:
        lines = [{"session": f"{way} {at}", "content": text, **IMPORTED[way]} for at, text in enumerate(texts)]
        await caller.bring(lines)


IMPORTED: Final[Mapping[str, Mapping[str, str]]] = {
    "document": {"role": "tool", "name": "document"},
    "import": {"role": "user"},
}
WAYS: Final = ("user turn", "assistant turn", "tool result", *IMPORTED)


def _with_tool(asked: str, text: str) -> list[Mapping[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    return [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": text},
    ]
