"""A client that hangs up frees the model at once, before the first token and after it, streaming or not."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from tests.service_fixture import Service
from tests.vllm.model_server import MODEL, ModelServer, seconds_until

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

FREED_WITHIN_S = 1.5
# vLLM counts a request once its first step is done: 1,600 tokens on a slow CPU, the first time with compiling.
BEGUN_WITHIN_S = 120.0
LONG_PROMPT = "The harbour master counts the boats of the morning. " * 150


@contextmanager
def asked(service: Service, user: str, content: str, *, stream: bool) -> Iterator[http.client.HTTPConnection]:
    """A request for a long answer, sent and not read."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 600,
        "ignore_eos": True,
        "stream": stream,
    }
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=BEGUN_WITHIN_S)
    headers = {"Content-Type": "application/json", "X-Memory-User": user}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_leaving_before_the_first_byte_frees_the_model(
    remembering: Service, vllm: ModelServer, user: str, stream: bool
) -> None:
    seconds_until(lambda: vllm.running() == 0, 30)
    with asked(remembering, user, f"{user} {LONG_PROMPT}" if stream else "Count to a thousand.", stream=stream):
        seconds_until(lambda: vllm.running() == 1, BEGUN_WITHIN_S)
    seconds_until(lambda: vllm.running() == 0, FREED_WITHIN_S)


def test_leaving_amid_the_stream_frees_the_model(remembering: Service, vllm: ModelServer, user: str) -> None:
    seconds_until(lambda: vllm.running() == 0, 30)
    with asked(remembering, user, "Count to a thousand.", stream=True) as connection:
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.readline().startswith(b"data: ")
        assert vllm.running() == 1
        answer.close()
    seconds_until(lambda: vllm.running() == 0, FREED_WITHIN_S)
