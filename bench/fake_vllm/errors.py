"""vLLM's own error answers, as recorded from vLLM 0.32 (November 2026): what went wrong -> status and body."""

import json
from typing import Any


class VllmError(Exception):
    """An answer other than 200, in vLLM's shape; `body` is the JSON that goes out."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body


def vllm_error(status: int, message: str, kind: str, param: str | None = None) -> VllmError:
    return VllmError(status, {"error": {"message": message, "type": kind, "param": param, "code": status}})


def validation_error(detail: str, param: str | None) -> VllmError:
    return vllm_error(400, f"1 validation error:\n  {detail}", "Bad Request", param)


def missing_field(name: str, members: int) -> VllmError:
    loc = f"body.{name}"
    detail = {"type": "missing", "loc": loc, "msg": "Field required", "input": f"<dict of {members} items>"}
    return validation_error(str(detail), loc)


def model_not_found(name: object, served: tuple[str, ...]) -> VllmError:
    message = f"The model `{name}` does not exist. Valid aliases: {', '.join(served)}."
    return vllm_error(404, message, "NotFoundError", "model")


def context_overflow(window: int) -> VllmError:
    """vLLM stops counting one token past the window, so the number is always window + 1, "at least"."""
    message = (
        f"This model's maximum context length is {window} tokens. However, your prompt contains at least "
        f"{window + 1} input tokens, which exceeds this limit even without any output tokens. "
        f"Please reduce the length of the input prompt. (parameter=input_tokens, value={window + 1})"
    )
    return vllm_error(400, message, "BadRequestError", "input_tokens")


def output_overflow(name: str, asked: int, window: int) -> VllmError:
    message = (
        f"{name}={asked} cannot be greater than max_model_len={window}. "
        f"Please request fewer output tokens. (parameter={name}, value={asked})"
    )
    return vllm_error(400, message, "BadRequestError", name)


def parse_object(body: bytes) -> dict[str, Any]:
    """A request body as an object. Raises VllmError in the words of vLLM's validation."""
    try:
        parsed = json.loads(body)
    except json.JSONDecodeError as exc:
        loc = f"body.{exc.pos}"
        detail = {
            "type": "json_invalid",
            "loc": loc,
            "msg": "JSON decode error",
            "input": "<dict of 0 items>",
            "ctx": {"error": exc.msg},
        }
        raise validation_error(str(detail), loc) from exc
    except UnicodeDecodeError as exc:
        raise vllm_error(400, "There was an error parsing the body", "Bad Request") from exc
    if not isinstance(parsed, dict):
        size = f"<{type(parsed).__name__} of {len(parsed)} items>" if isinstance(parsed, list) else repr(parsed)
        detail = {
            "type": "model_attributes_type",
            "loc": "body",
            "msg": "Input should be a valid dictionary or object to extract fields from",
            "input": size,
        }
        raise validation_error(str(detail), "body")
    return parsed
