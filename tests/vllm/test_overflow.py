"""Memory never makes a conversation fail that fits by itself."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openai
import pytest

from tests.service_fixture import Service, serving
from tests.vllm.conftest import PATIENT
from tests.vllm.model_server import MODEL, ModelServer, post
from tests.vllm.talk import ask, tell

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

FACT = "My boat is called Morning Star and lies in Bergen."
QUESTION = "What is my boat called?"
ANSWER_TOKENS = 8
SPARE_TOKENS = 20


def filled(vllm: ModelServer, spare_tokens: int) -> list[dict[str, Any]]:
    """A question behind so long a talk that the prompt leaves `spare_tokens` of the window beside its answer."""
    room = vllm.window() - ANSWER_TOKENS - spare_tokens

    def talk(words: int) -> list[dict[str, Any]]:
        return [
            {"role": "user", "content": "sea " * words},
            {"role": "assistant", "content": "So it is."},
            {"role": "user", "content": QUESTION},
        ]

    def tokens(words: int) -> int:
        return int(post(f"{vllm.url}/tokenize", {"model": MODEL, "messages": talk(words)})["count"])

    words = room - tokens(1)
    for _ in range(8):
        words += room - tokens(words)
    assert tokens(words) == room
    return talk(words)


@pytest.fixture
def unmeasured(vllm: ModelServer) -> Iterator[str]:
    """The same vLLM where it says neither its window nor its counts, as behind some gateways."""

    class Relay(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != "/v1/chat/completions":
                self.send_error(404)
                return
            request = urllib.request.Request(vllm.url + self.path, body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=300) as answer:
                    status, said = answer.status, answer.read()
            except urllib.error.HTTPError as refused:
                with refused:
                    status, said = refused.code, refused.read()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_where_our_block_made_the_prompt_too_long_it_is_sent_again_without(
    vllm: ModelServer, unmeasured: str, user: str
) -> None:
    question = filled(vllm, SPARE_TOKENS)
    with serving(unmeasured, env=PATIENT) as service:
        tell(service, vllm, FACT, X_Memory_User=user)
        reply = ask(service, vllm, question, max_tokens=ANSWER_TOKENS, X_Memory_User=user)
    assert reply.head["x-memory-status"] == "degraded; reason=overflow"
    assert reply.head["x-memory-count"] == "0"
    assert "<memory>" not in reply.prompt
    assert len(reply.prompt_ids) == vllm.window() - ANSWER_TOKENS - SPARE_TOKENS


@pytest.mark.parametrize("spare_tokens", [SPARE_TOKENS, 300])
def test_where_the_window_is_known_memory_takes_only_what_is_left(
    remembering: Service, vllm: ModelServer, user: str, spare_tokens: int
) -> None:
    tell(remembering, vllm, FACT, X_Memory_User=user)
    reply = ask(remembering, vllm, filled(vllm, spare_tokens), max_tokens=ANSWER_TOKENS, X_Memory_User=user)
    assert reply.status in ("injected", "empty"), reply.head
    assert reply.usage.prompt_tokens + ANSWER_TOKENS <= vllm.window()


def test_what_does_not_fit_by_itself_gets_the_model_servers_own_error(
    remembering: Service, vllm: ModelServer, user: str
) -> None:
    tell(remembering, vllm, FACT, X_Memory_User=user)
    with pytest.raises(openai.BadRequestError) as refused:
        ask(remembering, vllm, filled(vllm, -100), max_tokens=ANSWER_TOKENS, X_Memory_User=user)
    error = json.loads(refused.value.response.text)["error"]
    assert error["code"] == 400
    assert "maximum context length" in error["message"]
