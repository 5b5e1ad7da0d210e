"""A generation request: the parsed JSON of one of four routes -> Asked, or vLLM's refusal (VllmError).

Only what the stand-in acts on is read; unknown fields are accepted and ignored, as vLLM does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.fake_vllm.errors import (
    VllmError,
    context_overflow,
    missing_field,
    model_not_found,
    output_overflow,
    vllm_error,
)
from bench.fake_vllm.settings import Settings
from bench.fake_vllm.tokens import chat_prompt, no_think_place, pieces_from_ids, pieces_of, text_of_content

Route = Literal["chat", "completions", "responses", "messages"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the engine sees it. `tokens` are the prompt's, `output_max` counts tokens."""

    route: Route
    model: str
    tokens: Sequence[bytes]
    salt: str
    last_user: str
    stream: bool
    include_usage: bool
    continuous_usage: bool
    choices: int
    output_max: int
    return_token_ids: bool
    wants_json: bool
    schema: dict[str, Any] | None
    tool_name: str | None
    tools_offered: bool


def _last_user_text(messages: Sequence[dict[str, Any]]) -> str:
    return next((text_of_content(m.get("content")) for m in reversed(messages) if m.get("role") == "user"), "")


def _tool_asked(body: dict[str, Any]) -> str | None:
    """The tool that tool_choice forces: named, or the first one where it says `required`."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    if isinstance(choice, dict):
        return str(choice.get("function", choice).get("name"))
    if choice == "required" and tools:
        return str(tools[0].get("function", tools[0]).get("name"))
    return None


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if messages is None:
        raise missing_field("messages", len(body))
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise vllm_error(400, "messages must be a list of objects", "Bad Request", "body.messages")
    return messages


def _chat_text(body: dict[str, Any], thinking_template: str = "none") -> tuple[str, str]:
    messages = _messages(body)
    continues = bool(body.get("continue_final_message"))
    if continues and body.get("add_generation_prompt"):
        text = "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
        raise vllm_error(400, text, "BadRequestError")
    if continues and (not messages or messages[-1].get("role") != "assistant"):
        text = "continue_final_message is set but the final message is not by the assistant"
        raise vllm_error(400, text, "BadRequestError")
    prompt = chat_prompt(
        messages,
        body.get("tools"),
        add_generation_prompt=body.get("add_generation_prompt", True) is not False,
        continue_final_message=continues,
        no_think=no_think_place(body, thinking_template),
    )
    return prompt, _last_user_text(messages)


def _completions_text(body: dict[str, Any]) -> tuple[str, str]:
    prompt = body.get("prompt")
    if prompt is None:
        raise missing_field("prompt", len(body))
    text = prompt if isinstance(prompt, str) else "".join(str(part) for part in prompt)
    return text, text


def _responses_text(body: dict[str, Any]) -> tuple[str, str]:
    given = body.get("input")
    if given is None:
        raise missing_field("input", len(body))
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if body.get("instructions"):
        messages = [{"role": "system", "content": body["instructions"]}, *messages]
    return chat_prompt(messages, body.get("tools")), _last_user_text(messages)


def _messages_text(body: dict[str, Any]) -> tuple[str, str]:
    messages = _messages(body)
    if body.get("system"):
        messages = [{"role": "system", "content": body["system"]}, *messages]
    return chat_prompt(messages, body.get("tools")), _last_user_text(messages)


_TEXT: dict[Route, Callable[[dict[str, Any]], tuple[str, str]]] = {
    "completions": _completions_text,
    "responses": _responses_text,
    "messages": _messages_text,
}
_LIMIT_NAMES: dict[Route, tuple[str, ...]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "completions": ("max_tokens",),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}


def _output_max(route: Route, body: dict[str, Any], prompt_tokens: int, window: int) -> int:
    """Tokens the answer may have: the request's limit, clipped to what the window leaves."""
    room = window - prompt_tokens
    for name in _LIMIT_NAMES[route]:
        asked = body.get(name)
        if isinstance(asked, int):
            if asked > window:
                raise output_overflow(name, asked, window)
            return min(asked, room)
    return room


def check_model(body: dict[str, Any], settings: Settings) -> str:
    """The model to answer as; none given means the served one. Raises VllmError 404."""
    model = body.get("model")
    if model is not None and model not in settings.model_names:
        raise model_not_found(model, settings.model_names)
    return model or settings.model_names[0]


def _check_priority(body: dict[str, Any], settings: Settings) -> None:
    priority = body.get("priority")
    if isinstance(priority, int) and priority and settings.scheduling_policy != "priority":
        raise vllm_error(400, f"Got priority {priority} but Priority scheduling is not enabled.", "BadRequestError")


def _schema_of(answer_format: dict[str, Any]) -> dict[str, Any] | None:
    schema = (answer_format.get("json_schema") or {}).get("schema")
    return schema if answer_format.get("type") == "json_schema" and isinstance(schema, dict) else None


def prompt_of(route: Route, body: dict[str, Any], thinking_template: str = "none") -> tuple[Sequence[bytes], str]:
    """Prompt tokens and the last user text of a request body. Raises VllmError."""
    prompt = body.get("prompt")
    if route == "completions" and isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
        try:
            tokens = pieces_from_ids(prompt)
        except ValueError as exc:
            raise vllm_error(400, str(exc), "BadRequestError", "prompt") from exc
        return tokens, b"".join(tokens).decode("utf-8", "replace")
    try:
        text, last_user = _chat_text(body, thinking_template) if route == "chat" else _TEXT[route](body)
    except (AttributeError, KeyError, TypeError) as exc:
        raise vllm_error(400, f"1 validation error:\n  {exc}", "Bad Request", "body") from exc
    return pieces_of(text), last_user


def read_asked(route: Route, body: dict[str, Any], settings: Settings) -> Asked:
    """Check one request as vLLM does. Raises VllmError."""
    model = check_model(body, settings)
    _check_priority(body, settings)
    tokens, last_user = prompt_of(route, body, settings.thinking_template)
    if len(tokens) > settings.max_model_len:
        raise context_overflow(settings.max_model_len)
    options = body.get("stream_options") or {}
    answer_format = body.get("response_format") or {}
    return Asked(
        route=route,
        model=model,
        tokens=tokens,
        salt=str(body.get("cache_salt") or ""),
        last_user=last_user,
        stream=bool(body.get("stream")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")),
        choices=body.get("n") or 1,
        output_max=_output_max(route, body, len(tokens), settings.max_model_len),
        return_token_ids=bool(body.get("return_token_ids")),
        schema=_schema_of(answer_format),
        wants_json=answer_format.get("type") in ("json_object", "json_schema"),
        tool_name=_tool_asked(body),
        tools_offered=bool(body.get("tools")),
    )


__all__ = ["Asked", "Route", "VllmError", "check_model", "prompt_of", "read_asked"]
