"""What the stand-in says: (Asked, Fault) -> Answer, always the same for the same question.

The settings' `reply` goes first. Then the last user message decides: a line `say: X` is answered with X, a
line `call: NAME {json}` with a tool call where tools are offered. Otherwise so many filler tokens as the settings say,
the least value that fits the schema of a `response_format`, or a sentence on what was asked. It
never looks at earlier messages, so it shows nothing of the memory it was given.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from bench.fake_vllm.asked import Asked
from bench.fake_vllm.settings import Fault
from bench.fake_vllm.tokens import words_of

_SAY = re.compile(r"^\s*say:[ \t]*(.*?)\s*$", re.MULTILINE)
_CALL = re.compile(r"^\s*call:[ \t]*(\w+)[ \t]*(\{.*\})?\s*$", re.MULTILINE)
_FILLER = ("The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", " and", " rests", ".")


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer in tokens; every choice of a request is given the same one."""

    reasoning: tuple[str, ...]
    content: tuple[str, ...]
    tool_calls: tuple[ToolCall, ...]
    finish_reason: Literal["stop", "length", "tool_calls"]

    @property
    def tokens(self) -> int:
        calls = sum(1 + len(words_of(call.arguments)) for call in self.tool_calls)
        return len(self.reasoning) + len(self.content) + calls


@lru_cache(maxsize=64)
def _filler(count: int) -> tuple[str, ...]:
    return tuple(_FILLER[i % len(_FILLER)] if i else "The" for i in range(count))


def least_value(schema: dict[str, Any]) -> object:
    """The smallest value that fits a JSON schema, as far as structured outputs use one."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            members = schema.get("properties") or {}
            return {name: least_value(members.get(name) or {}) for name in schema.get("required") or ()}
        case "array":
            return [least_value(schema.get("items") or {}) for _ in range(int(schema.get("minItems") or 0))]
        case "boolean":
            return False
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "null":
            return None
        case _:
            return "x" * int(schema.get("minLength") or 0)


def _content(asked: Asked, fault: Fault) -> tuple[str, ...]:
    if fault.reply is not None:
        return tuple(words_of(fault.reply))
    said = _SAY.findall(asked.last_user)
    if said:
        return tuple(words_of(said[-1]))
    if fault.tokens is not None:
        return _filler(fault.tokens)
    if asked.schema is not None:
        return tuple(words_of(json.dumps(least_value(asked.schema))))
    first = asked.last_user.strip().splitlines()[-1:] or ["nothing"]
    text = f"{len(asked.tokens)} prompt tokens, ending with: {first[0][:200]}"
    return tuple(words_of(json.dumps({"answer": text}) if asked.wants_json else text))


def _calls(asked: Asked, fault: Fault) -> tuple[ToolCall, ...]:
    written = _CALL.findall(asked.last_user) if asked.tools_offered else []
    if not written and not fault.tool_calls and asked.tool_name is None:
        return ()
    name, arguments = written[-1] if written else (asked.tool_name or "lookup", "")
    arguments = arguments or json.dumps({"query": asked.last_user[:40]})
    seed = hashlib.sha256(b"".join(asked.tokens)).hexdigest()
    count = max(fault.tool_calls, 1)
    return tuple(ToolCall(f"chatcmpl-tool-{seed[i : i + 16]}", name, arguments) for i in range(count))


def answer_for(asked: Asked, fault: Fault) -> Answer:
    """The answer, cut at the request's output limit (finish_reason `length`)."""
    calls = _calls(asked, fault)
    reasoning = _filler(fault.reasoning)
    content = () if calls else _content(asked, fault)
    room = asked.output_max
    if len(reasoning) + len(content) > room:
        return Answer(reasoning[:room], content[: max(room - len(reasoning), 0)], (), "length")
    return Answer(reasoning, content, calls, "tool_calls" if calls else "stop")
