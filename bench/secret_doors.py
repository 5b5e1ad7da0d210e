"""Every door of the service, with a secret of its own pushed through each: a service's address in, the secrets out.

Chat (user, assistant, tool result, tool call, names, a stream cut anywhere, halves in two messages), encoded forms,
imports, headers, session names, malformed JSON, an upstream error that echoes the request, searches and bad paths. The
upstream (`Echo`) answers with what the last message asks it to say, in chunks that cut wherever they like, and keeps
every prompt it was sent. Refuses nothing; says nothing of what it plants but by name.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import urllib.parse
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from aiohttp import web

from bench.secret_hunt import made_up

CONTROL: Final = "quixotically"
"""Said beside secrets, and no secret: where it is found, a secret would have been."""
SAY: Final = "please say: "
QUESTIONS: Final = ("what did I tell you the deployment uses?", "what is the key, the token or the password?")


@dataclass(slots=True)
class Echo:
    """An upstream. Mutable: `prompts` are the bodies it was sent, `fails` makes it answer 400 with the body quoted."""

    prompts: list[bytes] = field(default_factory=list)
    fails: bool = False
    rng: random.Random = field(default_factory=lambda: random.Random(3))

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Say what the last message asks for."""
        raw = await request.read()
        self.prompts.append(raw)
        try:
            body = json.loads(raw)
        except ValueError:
            return web.json_response({"error": {"message": f"no JSON: {raw!r}", "code": 400}}, status=400)
        if self.fails:
            return web.json_response({"error": {"message": f"cannot serve {raw!r}", "code": 400}}, status=400)
        last = str(body["messages"][-1].get("content"))
        text = last.rpartition(SAY)[2] if SAY in last else "I see."
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            return web.json_response({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})
        return await self._stream(request, text)

    async def _stream(self, request: web.Request, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        at, events = 0, [_event({"role": "assistant", "content": ""})]
        while at < len(text):
            step = self.rng.randint(1, 7)
            events.append(_event({"content": text[at : at + step]}))
            at += step
        raw = b"".join((*events, _event({}, "stop"), b"data: [DONE]\n\n"))
        at = 0
        while at < len(raw):  # writes cut events anywhere too
            step = self.rng.randint(1, 400)
            await response.write(raw[at : at + step])
            at += step
        await response.write_eof()
        return response

    def app(self) -> web.Application:
        """What serves it."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/v1/models", _models)
        app.router.add_get("/health", _healthy)
        return app


@asynccontextmanager
async def served(echo: Echo) -> AsyncIterator[str]:
    """The upstream on a port of its own."""
    runner = web.AppRunner(echo.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"data": [{"id": "m", "max_model_len": 32768}]})


async def _healthy(_: web.Request) -> web.Response:
    return web.Response()


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


@dataclass(slots=True)
class Doors:
    """The doors of one service. Mutable: `planted` names every secret that went through one, `pages` what came back."""

    http: aiohttp.ClientSession
    url: str
    echo: Echo
    planted: dict[str, str] = field(default_factory=dict)
    pages: dict[str, bytes] = field(default_factory=dict)

    def secret(self, door: str, shape: str) -> str:
        """A new secret for a door."""
        name = f"{door} ({shape})"
        return self.planted.setdefault(name, made_up(shape, 100 + len(self.planted)))

    async def open_all(self) -> None:
        """Push a secret through each."""
        await self.said()
        await self.streamed()
        await self.in_halves()
        await self.encoded()
        await self.imported()
        await self.tools()
        await self.records()
        await self.named()
        await self.broken()

    async def chat(self, messages: Sequence[dict[str, Any]], *, stream: bool = False, **headers: str) -> bytes:
        """One exchange."""
        body = {"model": "m", "messages": list(messages), "stream": stream}
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body, headers=sent) as answer:
            return await answer.read()

    async def said(self) -> None:
        """User, assistant, tool results and calls, and the names of messages."""
        for shape in ("github", "openai", "aws", "jwt", "slack"):
            await self.chat([_user(f"the deployment uses, {CONTROL}, {self.secret('user', shape)} since May")])
        await self.chat([_user(f"the deployment's password is {self.secret('user', 'password')}")])
        await self.chat([_user(f"it runs on postgres://app:{self.secret('user', 'url password')}@db.local/app")])
        await self.chat([_user(f"{SAY}your key is {self.secret('answer', 'github')}")])
        arguments = json.dumps({"token": self.secret("tool call", "openai")})
        call = {"id": "c1", "type": "function", "function": {"name": "deploy", "arguments": arguments}}
        result = {"role": "tool", "tool_call_id": "c1", "content": f"export TOKEN={self.secret('tool', 'slack')}"}
        asked = {"role": "assistant", "content": None, "tool_calls": [call]}
        await self.chat([_user("deploy it"), asked, result, _user("and now?")])
        await self.chat([{**_user("hello there, it is me"), "name": self.secret("name", "github")}])
        parts = [{"type": "text", "text": f"key: {self.secret('part', 'openai')}"}]
        await self.chat([{"role": "user", "content": parts}])

    async def streamed(self) -> None:
        """Answers in a stream that is cut anywhere."""
        for shape in ("github", "openai", "jwt"):
            await self.chat([_user(f"{SAY}take {self.secret('stream', shape)} for it")], stream=True)
        secret = self.secret("stream", "password")
        await self.chat([_user(f"{SAY}the password is {secret} for now")], stream=True)

    async def in_halves(self) -> None:
        """Two messages that hold a secret together."""
        first = self.secret("halves, two user messages", "github")
        await self.chat([_user(f"first half of the key: {first[:20]}"), _user(f"second half: {first[20:]}")])
        second = self.secret("halves, user and answer", "github")
        await self.chat([_user(f"{SAY}{second[18:]}"), _user(f"go on from {second[:18]} {SAY}{second[18:]}")])

    async def encoded(self) -> None:
        """base64 and URL encoding."""
        token = self.secret("base64", "github")
        await self.chat([_user(f"decode {base64.b64encode(token.encode()).decode()} for the deployment")])
        token = self.secret("base64 in context", "openai")
        await self.chat([_user(f"the file says {base64.b64encode(f'token={token}'.encode()).decode()}")])
        token = self.secret("url", "slack")
        await self.chat([_user(f"open {urllib.parse.quote(f'https://a.b/?token={token}', safe='')} please")])

    async def imported(self) -> None:
        """The import, with good lines and with bad ones."""
        lines = [
            {"role": "user", "content": f"imported key {self.secret('import', 'github')} of the deployment"},
            {"role": "assistant", "content": "ok", "name": self.secret("import name", "openai")},
            {"role": "user", "content": "in this session", "session": self.secret("import session", "github")},
            {"role": self.secret("import role", "slack"), "content": "a role that is none"},
        ]
        raw = (
            "".join(json.dumps(line) + "\n" for line in lines) + f"{{broken {self.secret('import broken', 'openai')}\n"
        )
        async with self.http.post(f"{self.url}/memory/v1/import", data=raw.encode()) as answer:
            self.pages["import's answer"] = await answer.read()

    async def tools(self) -> None:
        """The tools of agents: what they keep, what they ask for, and arguments that are none."""
        kept = {"content": f"the pipeline signs with {self.secret('tool memory', 'github')} since May"}
        await self._tool("memory_remember", kept)
        await self._tool("memory_search", {"query": f"what is {self.secret('tool search', 'openai')}?"})
        self.pages["tool's error"] = await self._tool(
            "memory_search", {"query": "x", "k": self.secret("tool k", "aws")}
        )

    async def records(self) -> None:
        """Documents, files, tasks, people, checkpoints, personas: their words, their names, bodies that are refused."""
        form = aiohttp.FormData()
        text = f"# Deployment\n\nThe service signs with {self.secret('document', 'github')} since May.\n"
        form.add_field("file", text.encode(), filename=f"{self.secret('file name', 'openai')}.md")
        async with self.http.post(f"{self.url}/memory/v1/documents?wait=true", data=form) as answer:
            self.pages["document's answer"] = await answer.read()
        form = aiohttp.FormData()
        form.add_field(
            "file",
            text.replace("since", self.secret("artifact", "aws")).encode(),
            content_type="text/plain",
            filename=f"{self.secret('artifact name', 'openai')}.log",
        )
        for member in ("caption", "text"):
            form.add_field(member, f"signed with {self.secret(f'artifact {member}', 'github')}")
        async with self.http.post(f"{self.url}/memory/v1/artifacts", data=form) as answer:
            self.pages["artifact's answer"] = await answer.read()
        form = aiohttp.FormData()
        form.add_field("file", b"x", filename="x", content_type=f"text/{self.secret('artifact type', 'github')}")
        async with self.http.post(f"{self.url}/memory/v1/artifacts", data=form) as answer:
            self.pages["artifact's refusal"] = await answer.read()
        words = ("title", "notes", "input", "output")
        task = {name: f"deploy with {self.secret(f'task {name}', 'github')}" for name in words}
        await self._sent("/memory/v1/tasks", {"tasks": [{**task, "name": self.secret("task name", "slack")}]})
        await self._sent("/memory/v1/tasks", {"tasks": [{"title": "x", "needs": [self.secret("task need", "openai")]}]})
        await self._tool("task_add", {"title": f"rotate {self.secret('task tool', 'github')} today"})
        camp = {"name": self.secret("checkpoint name", "github"), "notes": f"use {self.secret('notes', 'openai')}"}
        await self._sent("/memory/v1/checkpoints", {**camp, "entities": [f"{self.secret('entity', 'slack')}: a key"]})
        ana = {
            "name": f"Ana {self.secret('entity name', 'github')}",
            "type": "person",
            "notes": self.secret("entity notes", "openai"),
        }
        known = {
            "aliases": [f"Annie {self.secret('alias', 'slack')}"],
            "properties": {"key": self.secret("property", "github")},
        }
        await self._sent("/memory/v1/entities", {**ana, **known})
        for odd in ({self.secret("property name", "github"): 1}, {"k": [self.secret("property value", "openai")]}):
            await self._sent("/memory/v1/entities", {"name": "x", "type": "place", "properties": odd})
        await self._sent("/memory/v1/entities", {"name": "x", "type": self.secret("entity type", "github")})
        tie = {"source": self.secret("tie source", "openai"), "type": self.secret("tie type", "github"), "target": "y"}
        await self._sent("/memory/v1/relationships", tie)
        desk = {"name": self.secret("persona name", "github"), "facets": {"tone": "dry"}}
        await self._sent("/memory/v1/personas", {**desk, "description": f"likes {self.secret('persona', 'openai')}"})
        await self._sent("/memory/v1/personas", {"name": "x", "facets": {self.secret("facet", "github"): "dry"}})

    async def _sent(self, path: str, body: dict[str, Any]) -> None:
        async with self.http.post(self.url + path, json=body) as answer:
            self.pages[f"{path[11:]}'s answer"] = await answer.read()

    async def _tool(self, tool: str, arguments: dict[str, Any]) -> bytes:
        async with self.http.post(f"{self.url}/memory/v1/tools/{tool}", json=arguments) as answer:
            return await answer.read()

    async def named(self) -> None:
        """Header values: session, user, project and agent names, request ids, authorisation."""
        await self.chat([_user("hello from a session")], X_Memory_Session=self.secret("session name", "github"))
        await self.chat([_user("hello from a user")], X_Memory_User=self.secret("user name", "openai"))
        await self.chat([_user("hello from a project")], X_Memory_Project=self.secret("project name", "slack"))
        await self.chat([_user("hello with a key")], Authorization=f"Bearer {self.secret('authorization', 'openai')}")
        await self.chat([_user("hello with an id")], X_Request_Id=self.secret("request id", "github"))
        await self.chat([_user("hello in a mode")], X_Memory_Mode=self.secret("bad mode", "github"))
        await self.chat([_user("hello to a model")], X_Memory_As_Of=self.secret("bad time", "openai"))

    async def broken(self) -> None:
        """Malformed JSON, unknown routes, errors that echo, the API's own errors."""
        chat = f"{self.url}/v1/chat/completions"
        raw = f'{{"model": "m", "messages": [{{"role": "user", "content": "{self.secret("malformed", "github")}"'
        async with self.http.post(chat, data=raw.encode()) as answer:
            await answer.read()
        self.echo.fails = True
        await self.chat([_user(f"this fails: {self.secret('upstream error', 'openai')}")])
        self.echo.fails = False
        for path in (
            f"/memory/v1/memories/{self.secret('path', 'github')}",
            f"/memory/{self.secret('route', 'github')}",
        ):
            async with self.http.get(self.url + path) as answer:
                self.pages[path[:18]] = await answer.read()
        query = {"query": f"where is {self.secret('search', 'openai')}?"}
        async with self.http.post(f"{self.url}/memory/v1/search", json=query) as answer:
            await answer.read()
        bad = {"query": "x", "k": self.secret("search k", "github")}
        async with self.http.post(f"{self.url}/memory/v1/search", json=bad) as answer:
            self.pages["search's error"] = await answer.read()

    async def ask_again(self) -> bytes:
        """What later prompts hold: everything the upstream is sent by questions that hold no secret."""
        before = len(self.echo.prompts)
        for question in QUESTIONS:
            await self.chat([_user(question)])
        return b"\n".join(self.echo.prompts[before:])

    async def settled(self, timeout_s: float = 90) -> None:
        """Wait until everything captured is stored."""
        async with asyncio.timeout(timeout_s):
            while True:
                async with self.http.get(f"{self.url}/memory/v1/queue") as answer:
                    queue = await answer.json()
                if queue["pending"] + queue["in_flight"] == 0:
                    return
                await asyncio.sleep(0.1)

    async def page(self, name: str, path: str) -> None:
        """Keep what a page says."""
        async with self.http.get(self.url + path) as answer:
            self.pages[name] = await answer.read()


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}
