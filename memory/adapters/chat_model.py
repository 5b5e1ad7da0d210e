"""Background calls to a generative model other than the serving vLLM, through LiteLLM: messages -> text.

The only module that imports litellm (3-11 s, 170 MiB), so only the worker wires it, and only when `chat_model.model` is
configured. Never on the read path: calls to the serving vLLM go by the pooled client, since LiteLLM rewrites tools.

One attempt, no retries, a wall limit. Every failure is ChatModelUnavailable: the heuristic path takes over. Neither
prompts nor answers are logged, no price list is fetched, nothing is reported to anyone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from memory.errors import ChatModelUnavailable

# Read at import: without it litellm fetches its price list from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

# The library's switches are its module's attributes: no message text in logs, no advertising on standard output.
litellm.turn_off_message_logging = True
litellm.suppress_debug_info = True

_LITELLM_ERRORS: tuple[type[Exception], ...] = tuple(litellm.exceptions.LITELLM_EXCEPTION_TYPES)


class ChatModel(Protocol):
    """A model that answers a conversation."""

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        """The answer's text; with `schema`, JSON meant to fit it (not validated). Raises ChatModelUnavailable."""


class LiteLlmChatModel:
    """ChatModel over LiteLLM. Temperature 0, so that a retried extraction finds the same facts."""

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        concurrency_max: int = 2,
    ) -> None:
        """`model` as LiteLLM spells it (`openai/<name>` for any compatible server, whose `api_base` ends in `/v1`).

        `concurrency_max`: calls at once; more wait inside their own `timeout_s`.
        """
        self._model = model
        self._api_base = api_base
        self._api_key = api_key
        self._places = asyncio.Semaphore(concurrency_max)

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        """See ChatModel. An answer cut at `max_tokens` is refused when a schema asks for whole JSON."""
        try:
            async with asyncio.timeout(timeout_s), self._places:
                answer = await litellm.acompletion(**self._call(messages, schema, max_tokens, timeout_s))
        except TimeoutError as exc:
            raise ChatModelUnavailable(f"{self._model}: no answer within {timeout_s} s") from exc
        except _LITELLM_ERRORS as exc:
            # Not the text: providers quote the prompt in theirs.
            status = getattr(exc, "status_code", None)
            raise ChatModelUnavailable(f"{self._model}: {type(exc).__name__} ({status})") from exc
        choice = answer.choices[0] if answer.choices else None
        text = choice.message.content if choice is not None else None
        if choice is None or not isinstance(text, str) or not text:
            raise ChatModelUnavailable(f"{self._model}: an answer without text")
        if schema is not None and choice.finish_reason == "length":
            raise ChatModelUnavailable(f"{self._model}: JSON cut at {max_tokens} tokens")
        return text

    async def close(self) -> None:
        """Close the library's pooled connections, which all instances of this process share."""
        await litellm.close_litellm_async_clients()

    def _call(
        self, messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any] | None, max_tokens: int, timeout_s: float
    ) -> dict[str, Any]:
        call: dict[str, Any] = {
            "model": self._model,
            "messages": [dict(message) for message in messages],
            "max_tokens": max_tokens,
            "temperature": 0,
            # Ours is the limit; this one only ends what ours has abandoned.
            "timeout": timeout_s + 1,
            "max_retries": 0,
            "num_retries": 0,
            "api_base": self._api_base,
            # Servers without keys still need a header value here, else the library refuses to call.
            "api_key": self._api_key or "none",
            # A memory-proxy, this service itself for one, would keep the question as what its user said.
            "extra_headers": {"X-Memory-Mode": "off"},
        }
        if schema is not None:
            form = {"name": "answer", "schema": dict(schema), "strict": True}
            call["response_format"] = {"type": "json_schema", "json_schema": form}
        return call
