"""The stand-in keeps what it promises: vLLM's wire, exact echoes, faults on demand, honest counters."""

import asyncio
import base64
import hashlib
import io
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from bench.fake_vllm.delivery import ERROR_EVENT, plan_stream
from bench.fake_vllm.launch import fake_vllm_process, running_fake_vllm
from bench.fake_vllm.prefix_cache import PrefixCache
from bench.fake_vllm.settings import Fault, UnknownSetting
from bench.fake_vllm.tokens import chat_prompt, ids_of, pieces_from_ids, pieces_of, text_from_ids, words_of

CHAT = "/v1/chat/completions"
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def events_of(raw: bytes) -> list[Any]:
    """The data of every SSE event; [DONE] stays a string."""
    lines = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def text_of_stream(raw: bytes, index: int = 0, member: str = "content") -> str:
    return "".join(
        choice["delta"].get(member) or ""
        for event in events_of(raw)
        if event != "[DONE]"
        for choice in event.get("choices", [])
        if choice["index"] == index
    )


@pytest.fixture
async def fake() -> AsyncIterator[aiohttp.ClientSession]:
    async with running_fake_vllm() as url, aiohttp.ClientSession(url, auto_decompress=False) as session:
        yield session


async def ask(session: aiohttp.ClientSession, body: dict[str, Any], **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with session.post(CHAT, json=body, headers=named) as answer:
        return answer.status, await answer.read()


async def counters(session: aiohttp.ClientSession) -> dict[str, int]:
    async with session.get("/__counters") as answer:
        found: dict[str, int] = await answer.json()
        return found


async def until(condition: Callable[[dict[str, int]], bool], session: aiohttp.ClientSession) -> dict[str, int]:
    for _ in range(500):
        found = await counters(session)
        if condition(found):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"never came true; counters {found}")


@given(st.text())
def test_tokens_turn_back_into_the_text(text: str) -> None:
    assert text_from_ids(ids_of(pieces_of(text))) == text
    assert pieces_from_ids(ids_of(pieces_of(text))) == pieces_of(text)
    assert "".join(words_of(text)) == text


@given(st.text(), st.text(), st.text())
def test_texts_with_a_common_prefix_share_its_tokens_but_the_last(prefix: str, left: str, right: str) -> None:
    common = pieces_of(prefix)[:-1]
    # A special marker may be completed behind the prefix; then its parts were no marker yet.
    if "<|im" not in prefix:
        assert pieces_of(prefix + left)[: len(common)] == common
        assert pieces_of(prefix + right)[: len(common)] == common


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=60), st.integers(1, 8))
def test_prefix_cache_counts_full_blocks_and_recomputes_the_last_token(tokens: list[bytes], block: int) -> None:
    cache = PrefixCache(block, 10_000)
    first, again, salted = cache.use(tokens, ""), cache.use(tokens, ""), cache.use(tokens, "tenant")
    assert (first.cached, first.created) == (0, len(tokens) // block * block)
    assert again.cached == max(len(tokens) - 1, 0) // block * block
    assert salted.cached == 0


@given(
    st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=20),
    st.integers(0, 50),
    st.integers(1, 7),
    st.floats(0, 9),
    st.booleans(),
)
def test_pace_split_and_gzip_never_change_the_bytes(
    events: list[bytes], split: int, burst: int, token_ms: float, packed: bool
) -> None:
    plan = plan_stream(events, Fault(split=split, burst=burst, token_ms=token_ms, gzip=packed))
    sent = b"".join(write.data for write in plan.writes)
    assert (zlib.decompress(sent, wbits=31) if packed else sent) == b"".join(events)
    assert not plan.dies
    assert not split or all(len(write.data) <= split for write in plan.writes)


async def test_stream_has_the_events_of_vllm_in_order(fake: aiohttp.ClientSession) -> None:
    body = {
        "messages": user("memory\nsay: hello wide world"),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    status, raw = await ask(fake, body, X_Request_Id="abc")
    events = events_of(raw)
    assert status == 200
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert {e["id"] for e in events[:-1]} == {"chatcmpl-abc"}
    assert text_of_stream(raw) == "hello wide world"
    assert events[-3]["choices"][0]["finish_reason"] == "stop"
    assert events[-2]["choices"] == []
    assert events[-2]["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert raw.endswith(b"\n\ndata: [DONE]\n\n")


async def test_choices_of_one_stream_are_interleaved(fake: aiohttp.ClientSession) -> None:
    _, raw = await ask(fake, {"messages": user("say: one two three"), "stream": True, "n": 2})
    order = [e["choices"][0]["index"] for e in events_of(raw)[:-1]]
    assert order == [0, 1] * (len(order) // 2)
    assert text_of_stream(raw, 0) == text_of_stream(raw, 1) == "one two three"


async def test_tool_call_streams_its_name_first_and_then_arguments_only(fake: aiohttp.ClientSession) -> None:
    body = {"messages": user('call: weather {"city": "Oslo"}'), "tools": [TOOL], "stream": True}
    _, raw = await ask(fake, body)
    deltas = [e["choices"][0]["delta"]["tool_calls"][0] for e in events_of(raw)[1:-1]]
    assert deltas[0]["type"] == "function"
    assert deltas[0]["function"] == {"name": "weather"}
    assert all(set(d) == {"index", "function"} and set(d["function"]) == {"arguments"} for d in deltas[1:])
    assert "".join(d["function"]["arguments"] for d in deltas[1:]) == '{"city": "Oslo"}'
    assert events_of(raw)[-2]["choices"][0]["finish_reason"] == "tool_calls"
    _, whole = await ask(fake, {**body, "stream": False})
    assert json.loads(whole)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "Oslo"}'


async def test_reasoning_comes_before_content(fake: aiohttp.ClientSession) -> None:
    _, raw = await ask(fake, {"messages": user("say: yes"), "stream": True}, x_fake_reasoning="3")
    assert text_of_stream(raw, member="reasoning") == "The quick brown"
    assert text_of_stream(raw) == "yes"


async def test_answer_without_stream_reports_tokens_that_spell_the_prompt(fake: aiohttp.ClientSession) -> None:
    messages = [{"role": "developer", "content": "Be kind"}, *user("say: ok"), {"role": "user", "content": "say: ja"}]
    _, raw = await ask(fake, {"messages": messages, "return_token_ids": True})
    answer = json.loads(raw)
    assert text_from_ids(answer["prompt_token_ids"]) == chat_prompt(messages)
    assert "<|im_start|>system\nBe kind<|im_end|>" in chat_prompt(messages)
    assert answer["choices"][0]["message"]["content"] == "ja"
    async with fake.post("/tokenize", json={"messages": messages}) as reply:
        counted = await reply.json()
    assert counted["tokens"] == answer["prompt_token_ids"]
    assert counted["count"] == answer["usage"]["prompt_tokens"]
    async with fake.post("/detokenize", json={"tokens": counted["tokens"]}) as reply:
        assert (await reply.json())["prompt"] == chat_prompt(messages)


async def test_next_turn_finds_the_last_turn_in_the_prefix_cache(fake: aiohttp.ClientSession) -> None:
    async def cached(messages: list[dict[str, Any]], salt: str = "") -> tuple[int, int]:
        _, raw = await ask(fake, {"messages": messages, "cache_salt": salt})
        used = json.loads(raw)["usage"]
        return used["prompt_tokens_details"]["cached_tokens"], used["prompt_tokens"]

    first = user("x " * 200 + "\nsay: " + "y" * 200)
    assert (await cached(first))[0] == 0
    follow = [*first, {"role": "assistant", "content": "y" * 200}, *user("and now")]
    found, total = await cached(follow)
    answered = len(pieces_of(chat_prompt([*first, follow[1]], add_generation_prompt=False))) - 2
    assert found == answered // 16 * 16 < total
    assert (await cached(follow, "tenant"))[0] == 0
    async with fake.post("/reset_prefix_cache") as reply:
        assert await reply.json() == {"success": True}
    assert (await cached(follow))[0] == 0
    async with fake.get("/metrics") as reply:
        assert (
            f'vllm:prefix_cache_hits_total{{engine="0",model_name="fake-model"}} {float(found)}' in await reply.text()
        )


async def test_context_overflow_is_refused_in_the_words_of_vllm(fake: aiohttp.ClientSession) -> None:
    status, raw = await ask(fake, {"messages": user("word " * 9000), "stream": True})
    assert status == 400
    assert json.loads(raw) == {
        "error": {
            "message": "This model's maximum context length is 8192 tokens. However, your prompt contains at least "
            "8193 input tokens, which exceeds this limit even without any output tokens. Please reduce the length "
            "of the input prompt. (parameter=input_tokens, value=8193)",
            "type": "BadRequestError",
            "param": "input_tokens",
            "code": 400,
        }
    }


@pytest.mark.parametrize(
    ("body", "status", "kind", "param"),
    [
        (b'{"model": ', 400, "Bad Request", "body.10"),
        (b"[1]", 400, "Bad Request", "body"),
        (b"{}", 400, "Bad Request", "body.messages"),
        (b'{"model": "nope", "messages": []}', 404, "NotFoundError", "model"),
        (b'{"messages": [], "max_tokens": 9000}', 400, "BadRequestError", "max_tokens"),
    ],
)
async def test_bad_requests_are_refused_in_the_shape_of_vllm(
    fake: aiohttp.ClientSession, body: bytes, status: int, kind: str, param: str
) -> None:
    async with fake.post(CHAT, data=body, headers={"Content-Type": "application/json"}) as reply:
        error = (await reply.json())["error"]
        assert (reply.status, error["type"], error["param"], error["code"]) == (status, kind, param, status)


async def test_answer_stops_at_max_tokens(fake: aiohttp.ClientSession) -> None:
    _, raw = await ask(fake, {"messages": user("say: a b c d e"), "max_tokens": 3})
    choice = json.loads(raw)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("a b c", "length")


async def test_other_protocols_end_as_vllm_ends_them(fake: aiohttp.ClientSession) -> None:
    bodies = {
        "/v1/responses": ({"input": "say: hi there", "stream": True}, b"event: response.completed"),
        "/v1/messages": (
            {"messages": user("say: hi there"), "stream": True},
            b"event: message_stop\n",
        ),
        "/v1/completions": ({"prompt": "say: hi there", "stream": True}, b"data: [DONE]"),
    }
    for path, (body, ending) in bodies.items():
        async with fake.post(path, json=body) as reply:
            raw = await reply.read()
        assert raw.rstrip(b"\n").split(b"\n\n")[-1].startswith(ending), path
        assert b'"hi"' in raw
        async with fake.post(path, json={**body, "stream": False}) as reply:
            assert "hi there" in json.dumps(await reply.json()), path


async def test_echo_returns_headers_and_body_digest_exactly(fake: aiohttp.ClientSession) -> None:
    body = bytes(range(256)) * 9000  # over aiohttp's usual 1 MiB cap
    headers = [("X-Twice", "a"), ("X-Twice", "b"), ("X-Long", "l" * 30_000), ("Content-Encoding", "gzip")]
    async with fake.put(URL("/echo/a%2Fb?q=%20", encoded=True), data=io.BytesIO(body), headers=headers) as reply:
        seen = await reply.json()
    assert (seen["method"], seen["target"], seen["length"]) == ("PUT", "/echo/a%2Fb?q=%20", len(body))
    assert seen["sha256"] == hashlib.sha256(body).hexdigest()
    assert [value for name, value in seen["headers"] if name == "X-Twice"] == ["a", "b"]
    assert ["X-Long", "l" * 30_000] in seen["headers"]


async def test_mirror_returns_the_body_under_the_headers_asked_for(fake: aiohttp.ClientSession) -> None:
    headers = [("x-fake-reply-header", "Set-Cookie: a=1"), ("x-fake-reply-header", "Set-Cookie: b=2")]
    async with fake.post("/mirror", data=b"\x00\xff", headers=[*headers, ("x-fake-status", "418")]) as reply:
        assert (reply.status, await reply.read()) == (418, b"\x00\xff")
        assert reply.headers.getall("Set-Cookie") == ["a=1", "b=2"]


async def test_last_requests_are_kept_byte_for_byte(fake: aiohttp.ClientSession) -> None:
    raw = b'{ "messages" : [{"role":"user","content":"say: \\u0068i"}], "seed": 1.50, "seed": 2 }'
    async with fake.post(CHAT, data=raw, headers={"Content-Type": "application/json", "X-A": "b"}) as reply:
        assert reply.status == 200
    async with fake.get("/__last?n=5") as reply:
        (record,) = (await reply.json())["data"]
    assert base64.b64decode(record["body"]) == raw
    assert ["X-A", "b"] in record["headers"]


async def test_status_fault_has_retry_after_and_next_serves_one_request_only(fake: aiohttp.ClientSession) -> None:
    async with fake.post("/__control", json={"next": [{"status": 503, "retry_after": 7}]}) as reply:
        assert reply.status == 200
    async with fake.post(CHAT, json={"messages": user("say: x")}) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (503, "7")
    assert (await ask(fake, {"messages": user("say: x")}))[0] == 200


async def test_unknown_settings_are_refused(fake: aiohttp.ClientSession) -> None:
    status, raw = await ask(fake, {"messages": []}, x_fake_dye_after="1")
    assert status == 400
    assert b"no such setting: dye_after" in raw
    with pytest.raises(UnknownSetting):
        Fault().merged({"first_ms": "soon"})


async def test_death_before_the_first_byte_leaves_no_answer(fake: aiohttp.ClientSession) -> None:
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await ask(fake, {"messages": user("say: x"), "stream": True}, x_fake_die="1")


@pytest.mark.parametrize("stream", [True, False])
async def test_death_in_the_middle_delivers_what_came_before_and_no_end(
    fake: aiohttp.ClientSession, stream: bool
) -> None:
    got = bytearray()
    with pytest.raises(aiohttp.ClientPayloadError):
        async with fake.post(
            CHAT,
            json={"messages": user("say: a b c d e f"), "stream": stream},
            headers={"x-fake-die-after": "3"},
        ) as reply:
            async for chunk in reply.content.iter_any():
                got += chunk
    assert not stream or text_of_stream(bytes(got)) == "a b"


async def test_error_in_mid_stream_is_an_event_and_then_done(fake: aiohttp.ClientSession) -> None:
    status, raw = await ask(fake, {"messages": user("say: a b c"), "stream": True}, x_fake_error_after="2")
    assert status == 200
    assert raw.endswith(ERROR_EVENT + b"data: [DONE]\n\n")
    assert text_of_stream(raw) == "a"


async def test_keep_alive_split_and_gzip_leave_the_same_answer(fake: aiohttp.ClientSession) -> None:
    body = {"messages": user("say: größe zählt"), "stream": True}
    _, raw = await ask(fake, body, x_fake_keep_alive="2", x_fake_split="7")
    assert raw.count(b": keep-alive\n\n") >= 2
    assert text_of_stream(raw) == "größe zählt"
    _, packed = await ask(fake, body, x_fake_gzip="1")
    assert text_of_stream(zlib.decompress(packed, wbits=31)) == "größe zählt"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_before_the_first_token_is_noticed(
    fake: aiohttp.ClientSession, stream: bool
) -> None:
    body = {"messages": user("say: never"), "stream": stream}
    pending = asyncio.create_task(ask(fake, body, x_fake_first_ms="60000"))
    await until(lambda c: c["running"] == 1, fake)
    pending.cancel()
    found = await until(lambda c: c["running"] == 0, fake)
    assert found == {"started": 1, "finished": 0, "cancelled": 1, "running": 0}


async def test_a_client_that_leaves_in_mid_stream_is_noticed(fake: aiohttp.ClientSession) -> None:
    headers = {"x-fake-tokens": "500", "x-fake-token-ms": "20"}
    async with fake.post(CHAT, json={"messages": user("go on"), "stream": True}, headers=headers) as reply:
        await reply.content.readany()
        reply.close()
    found = await until(lambda c: c["running"] == 0, fake)
    assert found == {"started": 1, "finished": 0, "cancelled": 1, "running": 0}


async def test_websocket_echoes_text_and_bytes(fake: aiohttp.ClientSession) -> None:
    async with fake.ws_connect("/v1/realtime") as socket:
        await socket.send_str("hej")
        await socket.send_bytes(b"\x00\x01")
        assert await socket.receive_str() == "hej"
        assert await socket.receive_bytes() == b"\x00\x01"


async def test_api_key_guards_v1_and_nothing_else() -> None:
    async with running_fake_vllm(api_key="k", max_model_len=99) as url, aiohttp.ClientSession(url) as session:
        async with session.get("/v1/models") as reply:
            assert (reply.status, await reply.json()) == (401, {"error": "Unauthorized"})
        async with session.get("/v1/models", headers={"Authorization": "Bearer k"}) as reply:
            assert (await reply.json())["data"][0]["max_model_len"] == 99
        for path in ("/health", "/version", "/ping", "/load", "/metrics"):
            async with session.get(path) as reply:
                assert reply.status == 200
        async with session.get("/nowhere") as reply:
            assert (reply.status, await reply.json()) == (404, {"detail": "Not Found"})
        async with session.get(CHAT, headers={"Authorization": "Bearer k"}) as reply:
            assert (reply.status, await reply.json()) == (405, {"detail": "Method Not Allowed"})


async def test_embeddings_are_unit_vectors_in_both_encodings(fake: aiohttp.ClientSession) -> None:
    async with fake.post("/v1/embeddings", json={"input": ["a", "b"]}) as reply:
        plain = await reply.json()
    assert sum(x * x for x in plain["data"][1]["embedding"]) == pytest.approx(1)
    async with fake.post("/v1/embeddings", json={"input": "a", "encoding_format": "base64"}) as reply:
        assert len(base64.b64decode((await reply.json())["data"][0]["embedding"])) == 4 * 8


async def test_stand_in_runs_as_a_process_of_its_own() -> None:
    async with (
        fake_vllm_process(tokens=5, model_names=("m",)) as (url, pid),
        aiohttp.ClientSession(url) as session,
    ):
        assert pid > 0
        _, raw = await ask(session, {"model": "m", "messages": user("hi")})
        assert json.loads(raw)["usage"]["completion_tokens"] == 5
