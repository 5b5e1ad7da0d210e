"""/v1/responses and /v1/messages on the wire: (Asked, Answer, Heading) -> bytes of vLLM 0.32.

Both stream `event:` + `data:` pairs without [DONE]; the first ends with `response.completed` (also
when the answer was cut, then with status `incomplete` inside), the second with `message_stop`.
"""

from typing import Any

from bench.fake_vllm.answer import Answer
from bench.fake_vllm.asked import Asked
from bench.fake_vllm.render_chat import Heading, compact

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), compact(data))


def _response(asked: Asked, heading: Heading, status: str, output: list[Any], used: dict[str, Any] | None) -> Any:
    return {
        "id": f"resp_{heading.request_id}",
        "created_at": heading.created,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "metadata": None,
        "model": asked.model,
        "object": "response",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "none",
        "tools": [],
        "top_p": 1.0,
        "background": False,
        "max_output_tokens": asked.output_max,
        "previous_response_id": None,
        "reasoning": None,
        "service_tier": "auto",
        "status": status,
        "text": None,
        "truncation": "disabled",
        "usage": used,
        "user": None,
    }


def _finished_response(asked: Asked, answer: Answer, heading: Heading) -> Any:
    used = {
        "input_tokens": len(asked.tokens),
        "input_tokens_details": {
            "cached_tokens": heading.cache.cached,
            "cache_write_tokens": heading.cache.created,
            "input_tokens_per_turn": [],
            "cached_tokens_per_turn": [],
        },
        "output_tokens": answer.tokens,
        "output_tokens_details": {"reasoning_tokens": len(answer.reasoning), "tool_output_tokens": 0},
        "total_tokens": len(asked.tokens) + answer.tokens,
    }
    status = "incomplete" if answer.finish_reason == "length" else "completed"
    return _response(asked, heading, status, [_item(answer, heading)], used)


def _part(text: str) -> dict[str, Any]:
    return {"annotations": [], "text": text, "type": "output_text", "logprobs": None}


def _item(answer: Answer, heading: Heading) -> dict[str, Any]:
    return {
        "id": f"msg_{heading.request_id}",
        "content": [_part("".join(answer.content))],
        "role": "assistant",
        "status": "completed",
        "type": "message",
        "phase": None,
    }


def responses_body(asked: Asked, answer: Answer, heading: Heading) -> bytes:
    return compact(_finished_response(asked, answer, heading))


def responses_events(asked: Asked, answer: Answer, heading: Heading) -> list[bytes]:
    """All SSE events of a response stream; the last is response.completed."""
    item = _item(answer, heading)
    place = {"item_id": item["id"], "output_index": 0}
    text = "".join(answer.content)
    opened = _response(asked, heading, "in_progress", [], None)
    steps: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": opened}),
        ("response.in_progress", {"response": opened}),
        (
            "response.output_item.added",
            {"item": {**item, "content": [], "status": "in_progress"}, "output_index": 0},
        ),
        ("response.content_part.added", {"content_index": 0, **place, "part": {**_part(""), "logprobs": []}}),
        *(
            ("response.output_text.delta", {"content_index": 0, "delta": word, **place, "logprobs": []})
            for word in answer.content
        ),
        ("response.output_text.done", {"content_index": 0, **place, "logprobs": [], "text": text}),
        ("response.content_part.done", {"content_index": 0, **place, "part": _part(text)}),
        ("response.output_item.done", {"item": item, "output_index": 0}),
        ("response.completed", {"response": _finished_response(asked, answer, heading)}),
    ]
    return [_event(name, {**data, "sequence_number": i, "type": name}) for i, (name, data) in enumerate(steps)]


def _messages_usage(asked: Asked, answer: Answer, heading: Heading) -> dict[str, int]:
    fresh = len(asked.tokens) - heading.cache.cached - heading.cache.created
    return {
        "input_tokens": fresh,
        "output_tokens": answer.tokens,
        "cache_creation_input_tokens": heading.cache.created,
        "cache_read_input_tokens": heading.cache.cached,
    }


def messages_body(asked: Asked, answer: Answer, heading: Heading) -> bytes:
    return compact(
        {
            "id": f"chatcmpl-{heading.request_id}",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "".join(answer.content)}],
            "model": asked.model,
            "stop_reason": _STOP_REASONS[answer.finish_reason],
            "usage": _messages_usage(asked, answer, heading),
        }
    )


def messages_events(asked: Asked, answer: Answer, heading: Heading) -> list[bytes]:
    """All SSE events of a message stream; the last is message_stop."""
    message: dict[str, Any] = {
        "id": f"chatcmpl-{heading.request_id}",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": asked.model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": len(asked.tokens), "output_tokens": 0},
    }
    block = {"content_block": {"type": "text", "text": ""}, "index": 0}
    ended = {
        "delta": {"stop_reason": _STOP_REASONS[answer.finish_reason], "stop_sequence": None},
        "usage": _messages_usage(asked, answer, heading),
    }
    steps: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": message}),
        ("content_block_start", block),
        *(
            ("content_block_delta", {"delta": {"type": "text_delta", "text": word}, "index": 0})
            for word in answer.content
        ),
        ("content_block_stop", {"index": 0}),
        ("message_delta", ended),
        ("message_stop", {}),
    ]
    return [_event(name, {"type": name, **data}) for name, data in steps]
