"""The application: what a worker has at hand in, an aiohttp Application out.

One table of routes: `/memory/` is ours, the generation routes are ours to look into, everything else is vLLM's, byte
for byte. The middleware admits, turns faults into OpenAI's error form, and is the first of three places where any
exception is caught (STYLE 14): it logs, counts and answers 500.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol
from urllib.parse import unquote

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from memory.audit import Audit
from memory.errors import CapabilityMissing, EncodingRefused, Refused, UpstreamUnreachable
from memory.off_loop import off_loop
from memory.passage import note
from memory.telemetry import Metrics, event
from proxy.auth import REFRESH_S, UNKNOWN_TENANT
from proxy.chat import CREDENTIAL, USE, ChatCompletions, within_limits
from proxy.generation import Generation
from proxy.identity import Credential
from proxy.in_flight import BODY, InFlight, read_body
from proxy.limits import KeyUse, require_model, spent_by_size
from proxy.passages import Passages, answered
from proxy.relay import Upstream, cut, pass_through
from proxy.websocket import is_websocket, tunnel

log = logging.getLogger("memory_proxy.http")
CHAT_ROUTE: Final = "/v1/chat/completions"
# Generation without memory: the salt and the `memory` object are handled, nothing is recalled or captured.
GENERATION_ROUTES: Final = frozenset(
    {
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/chat/completions/batch",
        "/invocations",
        "/inference/v1/generate",
    }
)
_ANY_PATH: Final = "/{tail}"  # as aiohttp calls the resource of everything that is vLLM's
_LATER: Final = "/v1/responses/"  # an answer made in the background is fetched by its id
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ANYBODY: Final = Credential(UNKNOWN_TENANT)
"""Who asks what a browser asks before it sends a key: whether it may. vLLM answers that without one, too."""


class Door(Protocol):
    """Admits callers."""

    def admit(self, request: web.Request) -> Credential:
        """The caller's credential. Raises InvalidApiKey, AuthUnavailable."""


class Front:
    """Routes of one worker. `own` serves `/memory/` and does its own admission for health and readiness."""

    def __init__(
        self,
        *,
        door: Door,
        chat: ChatCompletions,
        generation: Generation,
        upstream: Upstream,
        metrics: Metrics,
        use: KeyUse | None,
        journal: Audit,
        in_flight: InFlight,
        passages: Passages,
    ) -> None:
        self._door = door
        self._in_flight = in_flight
        self._passages = passages
        self._chat = chat
        self._generation = generation
        self._upstream = upstream
        self._metrics = metrics
        self._use = use
        self._journal = journal

    def handler_for(self, request: web.Request) -> tuple[str, Handler]:
        """The route's label and its handler, for everything outside `/memory/`."""
        if is_websocket(request):
            return "websocket", self._tunnel
        path = request.rel_url.raw_path
        if "%" in path:  # vLLM's server looks for the route of the decoded path, a line feed at its end or not
            path = unquote(path).removesuffix("\n")
        if request.method == "POST" and path == CHAT_ROUTE:
            return "chat", self._chat
        if request.method == "POST" and path in GENERATION_ROUTES:
            return "generation", self._generation
        return "other", self._pass

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one request that is vLLM's."""
        route, handler = self.handler_for(request)
        with self._passages.of(request, route) as passage:
            response = await self._answer(request, handler)
            answered(passage, response)
        return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            credential = request[CREDENTIAL] = ANYBODY if is_preflight(request) else self._door.admit(request)
            require_plain_transfer(request)
            with self._in_flight.one(credential.tenant) as request[BODY]:
                if self._use is not None and (asked := self._use.begin(credential)) is not None:
                    request[USE] = asked
                return await handler(request)
        except Refused as refused:
            if has_begun(request):
                raise
            note_refusal(self._journal, request, refused)
            if isinstance(refused, UpstreamUnreachable):
                self._metrics.upstream_failures.labels("connect").inc()
            return refusal(refused)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        if self._use is None:
            return await pass_through(request, self._upstream, self._metrics)
        await within_limits(request)
        credential, body = request[CREDENTIAL], None
        if credential.limits.models is not None and request.body_exists:
            body = await read_body(request)
            require_model(credential, await off_loop(len(body), partial(model_in, body)))
        counted = request.body_exists or request.path.startswith(_LATER)
        with spent_by_size(self._use if counted else None, request, credential):
            return await pass_through(request, self._upstream, self._metrics, body=body)

    async def _tunnel(self, request: web.Request) -> web.StreamResponse:
        await within_limits(request)
        credential = request[CREDENTIAL]
        if credential.limits.models is not None or credential.limits.tokens_per_day is not None:
            raise CapabilityMissing("this key has limits that cannot be kept to over a WebSocket")
        keyed = credential.key_id is not None
        return await tunnel(request, self._upstream, partial(self._refused, request) if keyed else None)

    async def _refused(self, request: web.Request) -> None:
        """Return when the key that a request came with is not let in any more."""
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                self._door.admit(request)
            except Refused:
                return


def is_preflight(request: web.Request) -> bool:
    """Whether it is a browser's question before a request of another site (CORS), which never has a key with it."""
    asks = "Origin" in request.headers and "Access-Control-Request-Method" in request.headers
    return request.method == "OPTIONS" and asks and not request.body_exists and not is_websocket(request)


def require_plain_transfer(request: web.Request) -> None:
    """That a body is in no transfer coding but `chunked`: the others are of this hop, and nothing here undoes them.
    Raises EncodingRefused.
    """
    coding = request.headers.get("Transfer-Encoding", "chunked").strip().lower()
    if coding != "chunked":
        raise EncodingRefused("send the body in no Transfer-Encoding but chunked", param="Transfer-Encoding")


def model_in(body: bytes) -> object:
    """The model that a JSON body names, as vLLM reads it: the last of several; None for none, or for another body."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value.get("model") if isinstance(value, dict) else None


def note_refusal(journal: Audit, request: web.Request, refused: Refused) -> None:
    """Say a refusal in the request's line; leave an audit row of a 403, where it is known whose it is."""
    note(outcome="refused", code=refused.code, exchange=None, retrieval=None)  # neither is kept
    caller = request.get(CREDENTIAL)
    if refused.status == 403 and caller is not None and caller.tenant.int:
        resource = request.match_info.route.resource
        place = "" if resource is None else f" at {resource.canonical}"
        journal.note(caller.tenant, caller.actor, "refused", decision="refused", why=refused.code + place)


def route_of(request: web.Request) -> str:
    """Where a request went, for the log: of a path of ours without the names in it, which somebody chose."""
    resource = request.match_info.route.resource
    if resource is None or resource.canonical == _ANY_PATH:
        return request.path[:64]
    return resource.canonical


def has_begun(request: web.BaseRequest) -> bool:
    """Whether some of an answer has gone out: another would be read as part of it."""
    return request.writer.output_size > 0


def refusal(refused: Refused) -> web.Response:
    """A fault of ours in OpenAI's error form."""
    error = {"message": refused.message, "type": "memory_proxy_error", "param": refused.param, "code": refused.code}
    headers: CIMultiDict[str] = CIMultiDict()
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(refused.retry_after_s)
    return web.Response(
        status=refused.status,
        body=json.dumps({"error": error}).encode(),
        content_type="application/json",
        headers=headers,
    )


async def expected(request: web.Request) -> None:
    """A client that waits for a `100 Continue` gets one; what else it expects is passed over, as vLLM's server does.
    aiohttp would refuse that before anybody counts it, and repeat it.
    """
    if request.version == HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


def guarded(handler: Handler) -> Handler:
    """A handler behind which nothing is unforeseen: faults are logged with their place and answered 500 in OpenAI's
    form, never with their text. Behind a head that has gone out nothing can be answered: the connection is cut. A plain
    wrapper, since aiohttp builds its middlewares' chain for every request."""

    async def serve(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as fault:
            begun = has_begun(request)
            if isinstance(fault, Refused) and not begun:
                return refusal(fault)
            event(log, "unforeseen", logging.ERROR, route=route_of(request), fault=type(fault).__name__)
            log.exception("unforeseen fault")
            if begun:
                cut(request)
                raise ConnectionResetError("an answer has begun, no other can be sent") from fault
            if request.transport is None or request.transport.is_closing():
                raise
            return refusal(Unforeseen("the proxy failed on this request; its log has the place"))

    return serve


class Unforeseen(Refused):
    """A defect of ours, not the caller's."""

    status, code = 500, "internal_error"


def build_app(front: Front, own: Callable[[web.Application], None]) -> web.Application:
    """The application. `own` adds the routes under `/memory/`."""
    app = web.Application(client_max_size=0)
    own(app)
    app.router.add_route("*", "/{tail:(?s:.*)}", guarded(front.serve), expect_handler=expected)
    return app
