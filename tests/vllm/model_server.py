"""What tests ask of vLLM itself, past the proxy: metrics, tokens, and what the model was really given."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import openai

MODEL = "smollm2-135m-instruct"
BLOCK_TOKENS = 32


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A vLLM by its base URL."""

    url: str

    def metric(self, name: str) -> float:
        """A gauge or counter of /metrics, summed over its labels."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        values = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        assert values, f"vLLM has no metric {name}"
        return sum(map(float, values))

    def window(self) -> int:
        """The context window, tokens."""
        with urllib.request.urlopen(f"{self.url}/v1/models", timeout=10) as answer:
            return int(json.load(answer)["data"][0]["max_model_len"])

    def running(self) -> float:
        """Requests that hold the model now, the waiting included."""
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")

    def decoded(self, token_ids: list[int]) -> str:
        """The text of tokens."""
        return str(post(f"{self.url}/detokenize", {"model": MODEL, "tokens": token_ids})["prompt"])


def post(url: str, body: Any) -> Any:
    """POST JSON, get JSON."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def client_of(base_url: str, **headers: str) -> openai.OpenAI:
    """The OpenAI SDK as a user sets it up: another base_url, and headers where it likes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=300, default_headers=named)


def seconds_until(reached: Callable[[], bool], at_most_s: float) -> float:
    """How long it takes until something holds; fails when it takes longer."""
    started = time.monotonic()
    while not reached():
        waited = time.monotonic() - started
        assert waited < at_most_s, f"not so after {waited:.1f} s"
        time.sleep(0.05)
    return time.monotonic() - started
