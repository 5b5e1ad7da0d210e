"""/v1/chat/completions and /v1/completions on the wire: (Asked, Answer, Heading) -> bytes of vLLM 0.32.

Streams come as one `bytes` per SSE event, the events of several choices interleaved token by token.
The spelling (order of members, which nulls are written) is that of answers recorded from vLLM 0.32.
It does no I/O and knows no faults.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from bench.fake_vllm.answer import Answer
from bench.fake_vllm.asked import Asked
from bench.fake_vllm.prefix_cache import CacheUse
from bench.fake_vllm.tokens import ids_of, pieces_of, words_of

FINGERPRINT = "vllm-0.32.0-3fd9f7e2"
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Heading:
    """What identifies one answer. `created` in Unix seconds; `cache`: the prompt's tokens in the prefix cache."""

    request_id: str
    created: int
    cache: CacheUse


def compact(value: object) -> bytes:
    """JSON as vLLM spells it: no spaces, no escapes outside what JSON demands."""
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def prompt_ids(asked: Asked) -> list[int] | None:
    return ids_of(asked.tokens) if asked.return_token_ids else None


def _token_ids(text: str, asked: Asked) -> list[int] | None:
    return ids_of(pieces_of(text)) if asked.return_token_ids else None


def usage(asked: Asked, answer: Answer, heading: Heading) -> dict[str, Any]:
    prompt, completion = len(asked.tokens), answer.tokens * asked.choices
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {
            "cached_tokens": heading.cache.cached,
            "created_cache_tokens": heading.cache.created,
        },
    }


def _message(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(answer.content) if answer.content or not answer.tool_calls else None,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if answer.tool_calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in answer.tool_calls
        ]
    message["reasoning"] = "".join(answer.reasoning) or None
    return message


def _full_usage(asked: Asked, answer: Answer, heading: Heading) -> dict[str, Any]:
    full = usage(asked, answer, heading)
    full["prompt_tokens_details"]["multimodal_tokens"] = None
    full["completion_tokens_details"] = None
    return full


def chat_body(asked: Asked, answer: Answer, heading: Heading) -> bytes:
    text = "".join(answer.content)
    choices = [
        {
            "index": index,
            "message": _message(answer),
            "logprobs": None,
            "finish_reason": answer.finish_reason,
            "stop_reason": None,
            "token_ids": _token_ids(text, asked),
            "routed_experts": None,
        }
        for index in range(asked.choices)
    ]
    return compact(
        {
            "id": f"chatcmpl-{heading.request_id}",
            "object": "chat.completion",
            "created": heading.created,
            "model": asked.model,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": _full_usage(asked, answer, heading),
            "prompt_logprobs": None,
            "prompt_token_ids": prompt_ids(asked),
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }
    )


def _deltas(answer: Answer) -> Iterator[tuple[bytes, str]]:
    """(delta as JSON, its text) for each token after the role."""
    for word in answer.reasoning:
        yield compact({"reasoning": word}), word
    for word in answer.content:
        yield b'{"content":' + compact(word) + b"}", word
    for index, call in enumerate(answer.tool_calls):
        first = {"id": call.id, "type": "function", "index": index, "function": {"name": call.name}}
        yield compact({"tool_calls": [first]}), call.name
        for word in words_of(call.arguments):
            yield compact({"tool_calls": [{"index": index, "function": {"arguments": word}}]}), word


def _choice_events(asked: Asked, answer: Answer, head: bytes, index: int) -> list[bytes]:
    """The token events of one choice; the last one carries finish_reason, as vLLM's does."""
    start = head + b'"choices":[{"index":%d,"delta":' % index
    prompt = len(asked.tokens)
    events: list[bytes] = []
    count = 0
    deltas = list(_deltas(answer))
    if answer.finish_reason == "stop" or not deltas:
        deltas.append((b'{"content":""}', ""))
    for delta, text in deltas:
        count += bool(text)
        last = len(events) == len(deltas) - 1
        finish = b'"%b","stop_reason":null' % answer.finish_reason.encode() if last else b"null"
        ids = b"null" if not asked.return_token_ids else compact(_token_ids(text, asked))
        tail = b'],"system_fingerprint":"%b"' % FINGERPRINT.encode() if last and not asked.include_usage else b"]"
        if asked.continuous_usage:
            tail += b',"usage":' + compact(
                {
                    "prompt_tokens": prompt,
                    "total_tokens": prompt + count,
                    "completion_tokens": count,
                    "completion_tokens_details": None,
                }
            )
        events.append(
            b'%b%b,"logprobs":null,"finish_reason":%b,"token_ids":%b}%b}\n\n' % (start, delta, finish, ids, tail)
        )
    return events


def chat_events(asked: Asked, answer: Answer, heading: Heading) -> list[bytes]:
    """All SSE events of a chat stream, [DONE] included."""
    head = b'data: {"id":"chatcmpl-%b","object":"chat.completion.chunk","created":%d,"model":%b,' % (
        heading.request_id.encode(),
        heading.created,
        compact(asked.model),
    )
    ids = compact(prompt_ids(asked))
    first = (
        b'%b"choices":[{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],'
        b'"prompt_token_ids":%b,"prompt_text":null}\n\n'
    )
    events = [first % (head, index, ids) for index in range(asked.choices)]
    each = [_choice_events(asked, answer, head, index) for index in range(asked.choices)]
    events.extend(each[0] if asked.choices == 1 else (e for e in chain(*zip_longest(*each)) if e))
    if asked.include_usage:
        events.append(
            b'%b"choices":[],"usage":%b,"system_fingerprint":"%b"}\n\n'
            % (head, compact(usage(asked, answer, heading)), FINGERPRINT.encode())
        )
    events.append(DONE)
    return events


def completions_body(asked: Asked, answer: Answer, heading: Heading) -> bytes:
    text = "".join(answer.content)
    choice = {
        "index": 0,
        "text": text,
        "logprobs": None,
        "finish_reason": answer.finish_reason,
        "stop_reason": None,
        "token_ids": _token_ids(text, asked),
        "prompt_logprobs": None,
        "prompt_token_ids": prompt_ids(asked),
        "routed_experts": None,
    }
    return compact(
        {
            "id": f"cmpl-{heading.request_id}",
            "object": "text_completion",
            "created": heading.created,
            "model": asked.model,
            "choices": [{**choice, "index": index} for index in range(asked.choices)],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": _full_usage(asked, answer, heading),
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }
    )


def completions_events(asked: Asked, answer: Answer, heading: Heading) -> list[bytes]:
    """All SSE events of a completion stream, [DONE] included."""
    base = {
        "id": f"cmpl-{heading.request_id}",
        "object": "text_completion",
        "created": heading.created,
        "model": asked.model,
    }
    words = list(answer.content) + ([""] if answer.finish_reason == "stop" or not answer.content else [])
    events: list[bytes] = []
    for position, word in enumerate(words):
        last = position == len(words) - 1
        for index in range(asked.choices):
            choice = {
                "index": index,
                "text": word,
                "logprobs": None,
                "finish_reason": answer.finish_reason if last else None,
                "stop_reason": None,
                "prompt_token_ids": prompt_ids(asked) if position == 0 else None,
                "token_ids": _token_ids(word, asked),
            }
            events.append(b"data: " + compact({**base, "choices": [choice]}) + b"\n\n")
    if asked.include_usage:
        tail = {**base, "choices": [], "usage": usage(asked, answer, heading), "system_fingerprint": FINGERPRINT}
        events.append(b"data: " + compact(tail) + b"\n\n")
    events.append(DONE)
    return events
