"""Talking to the model through the service, and seeing what it was really given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.service_fixture import Service
from tests.vllm.model_server import MODEL, ModelServer, client_of


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, its head, and the prompt that the model received."""

    text: str
    head: dict[str, str]
    prompt: str
    prompt_ids: list[int]
    usage: Any

    @property
    def status(self) -> str:
        """The word of X-Memory-Status."""
        return self.head["x-memory-status"].split(";")[0]

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that vLLM had already."""
        return int(self.usage.prompt_tokens_details.cached_tokens or 0)


def ask(
    service: Service,
    vllm: ModelServer,
    messages: str | list[dict[str, Any]],
    *,
    max_tokens: int = 24,
    body: dict[str, Any] | None = None,
    **headers: str,
) -> Reply:
    """One chat completion, greedy. `headers` as X_Memory_User="…"; `body` are further members."""
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    with client_of(service.openai, **headers) as client:
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL,
            messages=said,
            max_tokens=max_tokens,
            temperature=0,
            extra_body={"return_token_ids": True, **(body or {})},
        )
        answer = raw.parse()
    ids: list[int] = answer.model_extra["prompt_token_ids"]
    return Reply(answer.choices[0].message.content or "", dict(raw.headers), vllm.decoded(ids), ids, answer.usage)


def tell(service: Service, vllm: ModelServer, fact: str, **headers: str) -> Reply:
    """Say something in a conversation of its own, and wait until it is remembered."""
    reply = ask(service, vllm, fact, max_tokens=8, body=None, **headers)
    service.settle()
    return reply
