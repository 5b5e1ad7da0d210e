"""The routes of the own API: a table in, an application's router out.

Every call is admitted, counted and bounded here; faults leave in OpenAI's error form. An unknown path is 404 not_found,
a known one by another method 405 with Allow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from memory.errors import Conflict, NotFound, Refused, StoreRefused
from memory.telemetry import event
from proxy.api.answers import json_answer
from proxy.api.artifacts import ArtifactCalls
from proxy.api.audit import AuditRows
from proxy.api.calls_memory import DOCUMENT_PATH
from proxy.api.checkpoint_tools import CheckpointTools
from proxy.api.checkpoints import Checkpoints
from proxy.api.documents import Documents
from proxy.api.entities import EntityCalls
from proxy.api.events import Events
from proxy.api.exports import Export
from proxy.api.forget import Forget
from proxy.api.health import Health
from proxy.api.imports import Import
from proxy.api.memories import Memories
from proxy.api.openapi import document
from proxy.api.outside import OutsideCalls
from proxy.api.parts import OwnParts
from proxy.api.personas import PersonaCalls
from proxy.api.preferences import PreferenceCalls
from proxy.api.queue import DeadLetters, Waiting
from proxy.api.replay import Replay
from proxy.api.retrievals import Retrievals
from proxy.api.search import Search
from proxy.api.sessions import Labels, Sessions
from proxy.api.sharing import SharingCalls
from proxy.api.task_tools import TaskTools
from proxy.api.tasks import TaskCalls
from proxy.api.tokens import Tokens
from proxy.api.tool_table import TOOLS, TOOLS_PATH
from proxy.api.tools import Tools
from proxy.app import expected, guarded, has_begun, note_refusal, refusal, route_of
from proxy.chat import CREDENTIAL
from proxy.passages import answered

__all__ = ["OwnApi", "OwnParts"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# A session's label may hold any character, a slash as %2F.
_ID: Final = "{id:[^/]+}"
# What counts as a request of a key; health, readiness, metrics, links to files and the description do not.
log: Final = logging.getLogger("memory_proxy.api")
_COUNTED: Final = "/memory/v1/"


SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class MethodNotAllowed(Refused):
    """The path exists, the method does not."""

    status, code = 405, "method_not_allowed"


@dataclass(frozen=True, slots=True)
class Route:
    """One call of the API. `path` is as OpenAPI writes it."""

    method: str
    path: str
    handler: Handler


class OwnApi:
    """Everything under `/memory/`. One per process."""

    def __init__(self, parts: OwnParts) -> None:
        self._passages = parts.passages
        self._door, self._use = parts.door, parts.use
        self._journal = parts.journal
        self._canaries = parts.canaries
        self.routes = self._table(parts)

    def register(self, app: web.Application) -> None:
        """Add the routes to an application."""
        methods: dict[str, list[str]] = {}
        add = partial(app.router.add_route, expect_handler=expected)
        for route in self.routes:
            methods.setdefault(route.path, []).append(route.method)
            add(route.method, _pattern(route.path), self._served(route.handler))
        for path, allowed in methods.items():
            add("*", _pattern(path), self._served(_only(allowed)))
        add("*", "/memory/{tail:(?s:.*)}", self._served(_unknown))
        app.on_response_prepare.append(_secured)

    def _table(self, parts: OwnParts) -> tuple[Route, ...]:
        labels = Labels(parts.records)
        health, memories, sessions = Health(parts), Memories(parts, labels), Sessions(parts)
        turns = parts.searches
        dead, sharing, forget = DeadLetters(parts), SharingCalls(parts), Forget(parts, turns)
        retrievals, checkpoints = Retrievals(parts, labels), Checkpoints(parts, labels)
        replay, personas = Replay(parts, retrievals, turns), PersonaCalls(parts)
        documents, outside = Documents(parts, labels), OutsideCalls(parts)
        search = Search(parts, labels, turns)
        tools = Tools(parts, labels, search, forget, retrievals)
        tasks, preferences, entities = TaskCalls(parts, labels), PreferenceCalls(parts), EntityCalls(parts)
        artifacts = ArtifactCalls(parts, labels)
        handlers = {**tools.handlers, **TaskTools(parts, tasks).handlers}
        handlers |= CheckpointTools(parts, checkpoints).handlers
        return (
            Route("GET", "/memory/health", health.health),
            Route("HEAD", "/memory/health", health.health),
            Route("GET", "/memory/ready", health.ready),
            Route("HEAD", "/memory/ready", health.ready),
            Route("GET", "/memory/metrics", health.metrics),
            Route("GET", DOCUMENT_PATH, self._openapi),
            Route("POST", "/memory/v1/import", Import(parts)),
            Route("GET", "/memory/v1/export", Export(parts)),
            Route("POST", "/memory/v1/search", search),
            Route("GET", "/memory/v1/memories", memories.list),
            Route("GET", "/memory/v1/memories/{id}", memories.show),
            Route("PATCH", "/memory/v1/memories/{id}", memories.change),
            Route("DELETE", "/memory/v1/memories/{id}", memories.hide),
            Route("POST", "/memory/v1/memories/{id}/undelete", memories.undelete),
            Route("POST", "/memory/v1/memories/{id}/share", sharing.share),
            Route("POST", "/memory/v1/memories/{id}/unshare", sharing.unshare),
            Route("POST", "/memory/v1/checkpoints", checkpoints.save),
            Route("GET", "/memory/v1/checkpoints", checkpoints.list),
            Route("GET", "/memory/v1/checkpoints/{id}", checkpoints.show),
            Route("PATCH", "/memory/v1/checkpoints/{id}", checkpoints.change),
            Route("DELETE", "/memory/v1/checkpoints/{id}", checkpoints.delete),
            Route("POST", "/memory/v1/checkpoints/{id}/undelete", checkpoints.undelete),
            Route("POST", "/memory/v1/checkpoints/{id}/branch", checkpoints.branch),
            Route("POST", "/memory/v1/checkpoints/{id}/load", checkpoints.load),
            Route("GET", "/memory/v1/checkpoints/{id}/diff", checkpoints.diff),
            Route("GET", "/memory/v1/personas", personas.list),
            Route("POST", "/memory/v1/personas", personas.save),
            Route("GET", "/memory/v1/personas/{id}", personas.show),
            Route("PATCH", "/memory/v1/personas/{id}", personas.change),
            Route("DELETE", "/memory/v1/personas/{id}", personas.delete),
            Route("POST", "/memory/v1/personas/{id}/undelete", personas.undelete),
            Route("POST", "/memory/v1/documents", documents.upload),
            Route("GET", "/memory/v1/documents", documents.list),
            Route("GET", "/memory/v1/documents/{id}", documents.show),
            Route("DELETE", "/memory/v1/documents/{id}", documents.hide),
            Route("POST", "/memory/v1/documents/{id}/undelete", documents.undelete),
            Route("GET", "/memory/v1/preferences", preferences.list),
            Route("POST", "/memory/v1/preferences/reset", preferences.reset),
            Route("POST", "/memory/v1/tasks", tasks.add),
            Route("GET", "/memory/v1/tasks", tasks.list),
            Route("GET", "/memory/v1/tasks/graph", tasks.graph),
            Route("GET", "/memory/v1/tasks/{id}", tasks.show),
            Route("GET", "/memory/v1/tasks/{id}/history", tasks.history),
            Route("PATCH", "/memory/v1/tasks/{id}", tasks.change),
            Route("DELETE", "/memory/v1/tasks/{id}", tasks.delete),
            Route("POST", "/memory/v1/tasks/{id}/undelete", tasks.undelete),
            Route("POST", "/memory/v1/artifacts", artifacts.add),
            Route("GET", "/memory/v1/artifacts", artifacts.list),
            Route("GET", "/memory/v1/artifacts/{id}", artifacts.show),
            Route("GET", "/memory/v1/artifacts/{id}/content", artifacts.content),
            Route("POST", "/memory/v1/artifacts/{id}/link", artifacts.link),
            Route("GET", "/memory/links/{tenant}/{scope}/{id}", artifacts.open_link),
            Route("POST", "/memory/v1/artifacts/{id}/caption", artifacts.caption),
            Route("PATCH", "/memory/v1/artifacts/{id}", artifacts.change),
            Route("DELETE", "/memory/v1/artifacts/{id}", artifacts.delete),
            Route("POST", "/memory/v1/artifacts/{id}/undelete", artifacts.undelete),
            Route("POST", "/memory/v1/entities", entities.add),
            Route("GET", "/memory/v1/entities", entities.list),
            Route("GET", "/memory/v1/entities/{id}", entities.show),
            Route("GET", "/memory/v1/entities/{id}/history", entities.history),
            Route("GET", "/memory/v1/entities/{id}/neighbours", entities.neighbours),
            Route("GET", "/memory/v1/entities/{id}/paths", entities.paths),
            Route("PATCH", "/memory/v1/entities/{id}", entities.change),
            Route("POST", "/memory/v1/entities/{id}/merge", entities.merge),
            Route("POST", "/memory/v1/entities/{id}/split", entities.split),
            Route("DELETE", "/memory/v1/entities/{id}", entities.delete),
            Route("POST", "/memory/v1/entities/{id}/undelete", entities.undelete),
            Route("POST", "/memory/v1/relationships", entities.relate),
            Route("DELETE", "/memory/v1/relationships/{id}", entities.unrelate),
            Route("POST", "/memory/v1/outside", outside.look),
            Route("GET", "/memory/v1/audit", AuditRows(parts).list),
            Route("GET", "/memory/v1/events", Events(parts).list),
            Route("GET", "/memory/v1/sessions", sessions.list),
            Route("GET", "/memory/v1/sessions/{id}", sessions.show),
            Route("POST", "/memory/v1/sessions/{id}/end", sessions.end),
            Route("GET", "/memory/v1/retrievals", retrievals.list),
            Route("GET", "/memory/v1/retrievals/{id}", retrievals.show),
            Route("GET", "/memory/v1/replay/{id}", replay.show),
            Route("POST", "/memory/v1/replay/{id}", replay.ask),
            Route("POST", "/memory/v1/tokens", Tokens(parts).mint),
            Route("POST", "/memory/v1/forget", forget.start),
            Route("GET", "/memory/v1/forget", forget.listed),
            Route("GET", "/memory/v1/forget/{id}", forget.show),
            Route("GET", "/memory/v1/queue", Waiting(parts).show),
            Route("GET", "/memory/v1/queue/dead", dead.list),
            Route("POST", "/memory/v1/queue/dead/{id}/replay", dead.replay),
            Route("GET", TOOLS_PATH, tools.list),
            *(Route("POST", tool.path, handlers[tool.name]) for tool in TOOLS),
        )

    async def _openapi(self, request: web.Request) -> web.Response:
        return json_answer(await asyncio.to_thread(document))

    def _served(self, handler: Handler) -> Handler:
        """The handler with faults as answers, counted and guarded."""

        async def serve(request: web.Request) -> web.StreamResponse:
            with self._passages.of(request, "own") as passage:
                response = await self._answer(request, handler)
                answered(passage, response)
            caller, body = request.get(CREDENTIAL), getattr(response, "body", None)
            if caller is not None and isinstance(body, bytes):
                self._canaries.look(caller.tenant, "api", body)
            return response

        return guarded(serve)

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if self._use is not None and request.path.startswith(_COUNTED):
                await self._use.admit(self._door.admit(request))
            return await handler(request)
        except Refused as refused:
            if has_begun(request):
                raise
            note_refusal(self._journal, request, refused)
            return refusal(refused)
        except StoreRefused as fault:  # its user or project was forgotten while this was on its way
            if has_begun(request):
                raise
            event(log, "store_refused", logging.WARNING, route=route_of(request), fault=str(fault)[:200])
            return refusal(Conflict("what this belongs to was changed or forgotten meanwhile: send it again"))


async def _secured(request: web.Request, response: web.StreamResponse) -> None:
    """What a browser is told of our own answers: neither guess their type, nor frame, nor keep, nor run them. Another
    site's script may not read them: no Access-Control header is ever sent. vLLM's answers are left as they are.
    """
    if request.path.startswith("/memory/"):
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)


def _pattern(path: str) -> str:
    return path.replace("{id}", _ID)


def _only(allowed: list[str]) -> Handler:
    async def refuse(request: web.Request) -> web.StreamResponse:
        response = refusal(MethodNotAllowed(f"{request.method[:16]} is not served here"))
        response.headers["Allow"] = ", ".join(allowed)
        return response

    return refuse


async def _unknown(request: web.Request) -> web.StreamResponse:
    raise NotFound("there is no such path under /memory/; /memory/openapi.json lists what there is")
