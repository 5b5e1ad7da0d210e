"""The stand-in's routes: HTTP as vLLM 0.32 speaks it, in; the same, out, on aiohttp.

Generation routes: chat/completions, completions, responses, messages. Beside them what a proxy meets:
models, tokenize, detokenize, embeddings, metrics, health, a WebSocket. Of our own, for tests:
`/echo/…` (what arrived, as JSON), `/mirror/…` (the body, sent back as it came), `/__control`,
`/__counters`, `/__last`. Everything else is vLLM's 404. It stores nothing and runs no model.
"""

import asyncio
import base64
import hashlib
import struct
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import WSMsgType, web

from bench.fake_vllm.answer import answer_for
from bench.fake_vllm.asked import Asked, Route, check_model, prompt_of, read_asked
from bench.fake_vllm.delivery import cut_connection, plan_stream, send_body, send_endless, send_stream
from bench.fake_vllm.engine import Engine
from bench.fake_vllm.errors import VllmError, parse_object, validation_error, vllm_error
from bench.fake_vllm.render_chat import (
    Heading,
    chat_body,
    chat_events,
    compact,
    completions_body,
    completions_events,
)
from bench.fake_vllm.render_other import messages_body, messages_events, responses_body, responses_events
from bench.fake_vllm.settings import Fault, Settings, UnknownSetting
from bench.fake_vllm.tokens import chat_prompt, ids_of, no_think_place, pieces_of, text_from_ids

GUARDED_PREFIXES = ("/v1", "/v2", "/inference", "/cohere")
HEADER_BYTES_MAX = 262_144
ENGINE: web.AppKey[Engine] = web.AppKey("engine", Engine)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_EVENTS = {
    "chat": chat_events,
    "completions": completions_events,
    "responses": responses_events,
    "messages": messages_events,
}
_BODY = {
    "chat": chat_body,
    "completions": completions_body,
    "responses": responses_body,
    "messages": messages_body,
}


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=compact(value), status=status, headers={"Content-Type": "application/json"})


def _pairs(headers: Sequence[tuple[bytes, bytes]]) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


@web.middleware
async def _vllm_manners(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The key check, and every refusal in vLLM's shape."""
    key = request.app[ENGINE].settings.api_key
    guarded = request.path.startswith(GUARDED_PREFIXES) and request.method != "OPTIONS"
    if key is not None and guarded and request.headers.get("Authorization") != f"Bearer {key}":
        return _json({"error": "Unauthorized"}, 401)
    try:
        return await handler(request)
    except VllmError as exc:
        return _json(exc.body, exc.status)
    except UnknownSetting as exc:
        return _json({"error": {"message": str(exc), "type": "fake_vllm", "param": None, "code": 400}}, 400)
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as exc:
        return _json({"detail": exc.reason}, exc.status)


async def _stamp(request: web.Request, response: web.StreamResponse) -> None:
    """vLLM's headers on every answer (--enable-request-id-headers)."""
    response.headers["Server"] = "uvicorn"
    response.headers["Vary"] = "Origin"
    response.headers["X-Request-Id"] = request.headers.get("X-Request-Id") or uuid.uuid4().hex


def _check_media_type(request: web.Request) -> None:
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise validation_error("Unsupported Media Type: Only 'application/json' is allowed", None)


async def _refuse(request: web.Request, fault: Fault) -> web.StreamResponse:
    status = fault.status or 500
    headers = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
    response = _json(vllm_error(status, f"fake fault {status}", "FakeFault").body, status)
    response.headers.update(headers)
    return response


async def _generate(
    request: web.Request, engine: Engine, route: Route, body: bytes, fault: Fault
) -> web.StreamResponse:
    if (fault.die or fault.status is not None) and fault.first_ms:
        await asyncio.sleep(fault.first_ms / 1000)
    if fault.die:
        await cut_connection(request)
        return web.Response()
    if fault.status is not None:
        return await _refuse(request, fault)
    _check_media_type(request)
    asked = read_asked(route, parse_object(body), engine.settings)
    answer = answer_for(asked, fault)
    request_id = request.headers.get("X-Request-Id") or uuid.uuid4().hex[:16]
    heading = Heading(request_id, int(time.time()), engine.cache.use(asked.tokens, asked.salt))
    if fault.endless and not asked.stream:
        return await send_endless(request)
    if asked.stream:
        response = await send_stream(request, plan_stream(_EVENTS[route](asked, answer, heading), fault), fault)
    else:
        response = await send_body(request, _BODY[route](asked, answer, heading), answer.tokens, fault)
    _remember(engine, asked, "".join(answer.content))
    return response


def _remember(engine: Engine, asked: Asked, text: str) -> None:
    engine.cache.store([*asked.tokens, *pieces_of(text)], asked.salt)


def _generation(route: Route) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        engine = request.app[ENGINE]
        body = await request.read()
        engine.record(request.method, request.raw_path, request.raw_headers, body)
        fault = engine.next_fault().from_headers(request.raw_headers)
        try:
            with engine.counters.track():
                return await _generate(request, engine, route, body, fault)
        except ConnectionResetError:
            return web.Response()  # the client is gone: nobody reads this

    return handle


async def _models(request: web.Request) -> web.Response:
    settings = request.app[ENGINE].settings
    cards: list[dict[str, Any]] = [
        {
            "id": name,
            "object": "model",
            "created": 1_790_000_000,
            "owned_by": "vllm",
            "root": settings.model_names[0],
            "parent": None,
            "max_model_len": settings.max_model_len,
            "permission": [],
        }
        for name in settings.model_names
    ]
    return _json({"object": "list", "data": cards})


async def _tokenize(request: web.Request) -> web.Response:
    settings = request.app[ENGINE].settings
    body = parse_object(await request.read())
    check_model(body, settings)
    if "messages" in body:
        text = chat_prompt(
            body["messages"],
            body.get("tools"),
            add_generation_prompt=body.get("add_generation_prompt", True) is not False,
            continue_final_message=bool(body.get("continue_final_message")),
            no_think=no_think_place(body, settings.thinking_template),
        )
    else:
        text = str(body.get("prompt", ""))
    pieces = pieces_of(text)
    texts = [p.decode("utf-8", "replace") for p in pieces] if body.get("return_token_strs") else None
    return _json(
        {"count": len(pieces), "max_model_len": settings.max_model_len, "tokens": ids_of(pieces), "token_strs": texts}
    )


async def _detokenize(request: web.Request) -> web.Response:
    body = parse_object(await request.read())
    try:
        return _json({"prompt": text_from_ids(body.get("tokens", []))})
    except (ValueError, TypeError, AttributeError) as exc:
        raise vllm_error(400, str(exc), "BadRequestError", "tokens") from exc


async def _count_tokens(request: web.Request) -> web.Response:
    tokens, _ = prompt_of("messages", parse_object(await request.read()))
    return _json({"input_tokens": len(tokens), "context_management": {"original_input_tokens": len(tokens)}})


def _vector(text: str, dims: int) -> list[float]:
    digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(dims * 2)
    raw = [value / 32768 for value in struct.unpack(f"<{dims}h", digest)]
    norm = sum(value * value for value in raw) ** 0.5 or 1.0
    return [value / norm for value in raw]


async def _embeddings(request: web.Request) -> web.Response:
    settings = request.app[ENGINE].settings
    body = parse_object(await request.read())
    model = check_model(body, settings)
    given = body.get("input", [])
    texts = [given] if isinstance(given, str) else [str(item) for item in given]
    vectors = [_vector(text, int(body.get("dimensions") or settings.embedding_dims)) for text in texts]
    packed: list[list[float] | str] = [*vectors]
    if body.get("encoding_format") == "base64":
        packed = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
    used = sum(len(pieces_of(text)) for text in texts)
    return _json(
        {
            "id": f"embd-{request.headers.get('X-Request-Id') or uuid.uuid4().hex[:16]}",
            "object": "list",
            "created": int(time.time()),
            "model": model,
            "data": [{"index": i, "object": "embedding", "embedding": v} for i, v in enumerate(packed)],
            "usage": {"prompt_tokens": used, "total_tokens": used, "completion_tokens": 0},
        }
    )


async def _metrics(request: web.Request) -> web.Response:
    text = request.app[ENGINE].metrics_text()
    return web.Response(body=text.encode(), headers={"Content-Type": "text/plain; version=1.0.0; charset=utf-8"})


async def _empty(request: web.Request) -> web.Response:
    return web.Response()


async def _version(request: web.Request) -> web.Response:
    return _json({"version": "0.32.0"})


async def _load(request: web.Request) -> web.Response:
    return _json({"server_load": request.app[ENGINE].counters.running})


async def _reset_prefix_cache(request: web.Request) -> web.Response:
    request.app[ENGINE].cache.reset()
    return _json({"success": True})


async def _realtime(request: web.Request) -> web.WebSocketResponse:
    """Echo every message, text or binary, until the client closes."""
    socket = web.WebSocketResponse(max_msg_size=0)
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await socket.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


async def _echo(request: web.Request) -> web.Response:
    """What arrived: method, raw target, headers in order, size and SHA-256 of the body."""
    digest, length = hashlib.sha256(), 0
    async for chunk in request.content.iter_any():
        digest.update(chunk)
        length += len(chunk)
    return _json(
        {
            "method": request.method,
            "target": request.raw_path,
            "headers": _pairs(request.raw_headers),
            "sha256": digest.hexdigest(),
            "length": length,
        }
    )


async def _mirror(request: web.Request) -> web.Response:
    """The body back, with x-fake-status and every `x-fake-reply-header: Name: value` of the request."""
    body = await request.read()
    response = web.Response(body=body, status=int(request.headers.get("x-fake-status", "200")))
    response.headers.popall("Content-Type", None)
    for line in request.headers.getall("x-fake-reply-header", []):
        name, _, value = line.partition(":")
        response.headers.add(name.strip(), value.strip())
    return response


async def _control(request: web.Request) -> web.Response:
    """Change the defaults: {"first_ms": 20, "die": null}. Members of another kind:

    "reset": true (settings, counters, records, cache as at the start), "waiting": n (the metric),
    "next": [{…}, {…}] (faults for the next generation requests, one each).
    """
    engine = request.app[ENGINE]
    body = parse_object(await request.read())
    if body.pop("reset", False):
        engine.reset()
    engine.waiting = int(body.pop("waiting", engine.waiting))
    upcoming = body.pop("next", [])
    engine.fault = engine.fault.merged({k: None if v is None else str(v) for k, v in body.items()})
    for item in upcoming:
        engine.upcoming.append(engine.fault.merged({k: None if v is None else str(v) for k, v in item.items()}))
    return _json({"ok": True})


async def _counters(request: web.Request) -> web.Response:
    c = request.app[ENGINE].counters
    return _json({"started": c.started, "finished": c.finished, "cancelled": c.cancelled, "running": c.running})


async def _last(request: web.Request) -> web.Response:
    """The last `?n=` (1) generation requests, oldest first: headers in order, body in base64."""
    records = list(request.app[ENGINE].records)[-int(request.query.get("n", "1")) :]
    return _json({"data": [record.as_json() for record in records]})


def make_app(settings: Settings) -> web.Application:
    """The application of one server; its state is an Engine of its own."""
    app = web.Application(middlewares=[_vllm_manners], client_max_size=0)
    app[ENGINE] = Engine(settings)
    app.on_response_prepare.append(_stamp)
    app.add_routes(
        [
            web.post("/v1/chat/completions", _generation("chat")),
            web.post("/v1/completions", _generation("completions")),
            web.post("/v1/responses", _generation("responses")),
            web.post("/v1/messages", _generation("messages")),
            web.post("/v1/messages/count_tokens", _count_tokens),
            web.post("/v1/embeddings", _embeddings),
            web.get("/v1/models", _models),
            web.get("/v1/realtime", _realtime),
            web.post("/tokenize", _tokenize),
            web.post("/detokenize", _detokenize),
            web.post("/reset_prefix_cache", _reset_prefix_cache),
            web.get("/metrics", _metrics),
            web.get("/health", _empty),
            web.get("/ping", _empty),
            web.post("/ping", _empty),
            web.get("/version", _version),
            web.get("/load", _load),
            web.route("*", "/echo{tail:.*}", _echo),
            web.route("*", "/mirror{tail:.*}", _mirror),
            web.post("/__control", _control),
            web.get("/__counters", _counters),
            web.get("/__last", _last),
        ]
    )
    return app


def make_runner(settings: Settings) -> web.AppRunner:
    """A runner that notices clients who leave, takes any body and leaves bodies as they are."""
    return web.AppRunner(
        make_app(settings),
        access_log=None,
        handler_cancellation=True,
        auto_decompress=False,
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
        shutdown_timeout=0.5,
    )
