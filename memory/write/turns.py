"""Turns of an exchange or an import: what was said in, clean Turn values out.

Each message takes the chain position the proxy computed; system and developer messages take none and become no turn.
Text passes redaction here, before anything open exists. Injected memory cannot be among it: the request captured is
the client's own. Pure but for the redactor it is given. Refuses nothing: an odd message has an empty text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from memory.chain import Digest, extend, message_text
from memory.ids import derived_id
from memory.model import Captured, ImportChunk, ImportLine, Origin, Turn
from memory.ports import LanguageDetector, TokenCounter
from policies.labels import Sensitivity, integrity_of_role
from policies.redaction import Redacted
from policies.text import storable, storable_json


class Redacts(Protocol):
    """Cuts secrets out of a text."""

    def redact(self, text: str) -> Redacted:
        """The text without its secrets, and where they were."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message at one chain position, as it was said."""

    chain: Digest
    parent: Digest | None
    position: int
    value: Mapping[str, Any]
    occurred_at: datetime


def messages_of(captured: Captured, chain_key: bytes) -> list[Message]:
    """The chained messages of an exchange, its answers included, in order; an answer's parent is the last message."""
    said = _request_messages(captured.request)
    messages: list[Message] = []
    parent: Digest | None = None
    for position, (value, digest) in enumerate(zip(said, captured.digests, strict=False)):
        if digest is not None:
            messages.append(Message(digest, parent, position, _mapping(value), captured.arrived_at))
            parent = digest
    for choice in captured.answer.get("choices", []):
        digest = extend(chain_key, parent, choice["message"])
        position = len(said) + int(choice["index"])
        messages.append(Message(digest, parent, position, choice["message"], captured.finished_at))
    return messages


def answers_of(captured: Captured) -> list[Digest]:
    """The chain positions of the answers that the request itself sent again, oldest first."""
    said = _request_messages(captured.request)
    return [
        digest
        for value, digest in zip(said, captured.digests, strict=False)
        if digest is not None and _mapping(value).get("role") == "assistant"
    ]


def turn_of(
    message: Message,
    exchange_id: UUID,
    *,
    model: str | None,
    redactor: Redacts,
    counter: TokenCounter,
    languages: LanguageDetector,
) -> Turn:
    """The clean turn of a live message."""
    role = _role(message.value)
    text = redactor.redact(storable(message_text(message.value)))
    calls, in_calls = _clean_calls(message.value.get("tool_calls"), redactor)
    return Turn(
        event_id=derived_id(exchange_id, "turn", message.position),
        exchange_id=exchange_id,
        chain=message.chain,
        parent_chain=message.parent,
        role=role,
        name=_short(message.value.get("name")),
        content=text.text,
        tool_calls=calls,
        tool_call_id=_short(message.value.get("tool_call_id")),
        source_id=None,
        line_digest=None,
        origin="live",
        integrity=integrity_of_role(role),
        sensitivity=Sensitivity.INTERNAL,
        model=model if role == "assistant" else None,
        redactions=len(text.findings) + in_calls,
        token_count=counter.count(text.text),
        occurred_at=message.occurred_at,
        language=languages.detect(text.text),
    )


def turn_of_line(
    line: ImportLine,
    chunk: ImportChunk,
    chain: Digest,
    parent: Digest | None,
    *,
    redactor: Redacts,
    counter: TokenCounter,
    languages: LanguageDetector,
) -> Turn:
    """The clean turn of one import line."""
    text = redactor.redact(storable(line.content))
    origin: Origin = "import"
    return Turn(
        event_id=derived_id(chunk.exchange_id, "line", line.line),
        exchange_id=chunk.exchange_id,
        chain=chain,
        parent_chain=parent,
        role=line.role,
        name=_short(line.name),
        content=text.text,
        tool_calls=None,
        tool_call_id=None,
        source_id=line.source_id,
        line_digest=line.line_digest,
        origin=origin,
        integrity=integrity_of_role(line.role, imported=True, trusted_import=chunk.trusted),
        sensitivity=Sensitivity.INTERNAL,
        model=None,
        redactions=len(text.findings),
        token_count=counter.count(text.text),
        occurred_at=line.occurred_at,
        language=languages.detect(text.text),
    )


def _request_messages(request: bytes) -> list[Any]:
    if not request:
        return []
    try:
        body = json.loads(request)
    except (ValueError, RecursionError):
        return []
    said = body.get("messages") if isinstance(body, dict) else None
    return said if isinstance(said, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _role(value: Mapping[str, Any]) -> str:
    role = value.get("role")
    return storable(role)[:64] if isinstance(role, str) and role else "unknown"


def _short(value: Any) -> str | None:
    return storable(value)[:256] if isinstance(value, str) and value else None


def _clean_calls(calls: Any, redactor: Redacts) -> tuple[list[Any] | None, int]:
    if not isinstance(calls, list) or not calls:
        return None, 0
    text = redactor.redact(json.dumps(storable_json(calls), ensure_ascii=False))
    try:
        return json.loads(text.text), len(text.findings)
    except ValueError:  # a replacement that broke the JSON: the text is kept, as text
        return [text.text], len(text.findings)
