"""Turns of an exchange or an import: what was said in, clean Turn values out.

Each message takes the chain position the proxy computed; system and developer messages take none and become no turn.
Text passes redaction here, before anything open exists (memory.write.parts). Injected memory cannot be among it: the
request captured is the client's own. Pure but for the redactor it is given. Refuses nothing: an odd message has an
empty text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from memory.chain import Digest, extend, is_chained, message_text, told_attachments
from memory.ids import derived_id
from memory.json_spans import is_true
from memory.model import Captured, ImportChunk, ImportLine, Origin, Retrieval, Turn
from memory.ports import LanguageDetector, TokenCounter
from memory.write.parts import PARTS_MAX, Part, Redacts, called, calls_of, clean_short, said_in, told_again, typed
from memory.write.personal import TOKEN
from policies.labels import Integrity, Sensitivity, derived_integrity, derived_sensitivity, integrity_of_role
from policies.text import storable

Body = Mapping[str, Any]
"""What a request has sent, as parsed."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message at one chain position, as it was said. `tool` is the name of the tool whose output it is."""

    chain: Digest
    parent: Digest | None
    position: int
    value: Mapping[str, Any]
    occurred_at: datetime
    tool: str | None = None


def body_of(captured: Captured) -> Body:
    """The body of an exchange's request; empty where there is none. Read once for all that is asked of it: 1 MB takes
    2 to 5 ms.
    """
    try:
        return _mapping(json.loads(captured.request)) if captured.request else {}
    except (ValueError, RecursionError):
        return {}


def messages_of(captured: Captured, body: Body, chain_key: bytes) -> list[Message]:
    """The chained messages of an exchange, its answers included, in order; an answer's parent is the last message. One
    that goes on from what its client had begun is one message with that, as the client sends it again.
    """
    said = _messages_in(body)
    messages: list[Message] = []
    parent: Digest | None = None
    tools: dict[str, str] = {}  # an id may be given again: the last call before an output counts
    for position, (value, digest) in enumerate(zip(said, captured.digests, strict=False)):
        message = _mapping(value)
        tools |= called(message)
        if digest is not None:
            tool = tools.get(str(message.get("tool_call_id"))) if message.get("role") == "tool" else None
            messages.append(Message(digest, parent, position, message, captured.arrived_at, tool))
            parent = digest
    choices = captured.answer.get("choices", [])
    begun = ""
    if (
        choices
        and messages
        and is_true(body.get("continue_final_message"))
        and _role(messages[-1].value) == "assistant"
    ):
        begun, parent = message_text(messages[-1].value), messages.pop().parent
    for choice in choices:
        message = choice["message"]
        if begun and not is_true(body.get("echo")):
            message = {**message, "content": begun + (message.get("content") or "")}
        digest = extend(chain_key, parent, message)
        position = len(said) + int(choice["index"])
        messages.append(Message(digest, parent, position, message, captured.finished_at))
    return messages


def served_texts(captured: Captured) -> list[str]:
    """All that a model could read of an exchange: every message of it, instructions and tools' outputs among them, what
    tools were called with, and its answers.
    """
    messages = [*_messages_in(body_of(captured)), *(one["message"] for one in captured.answer.get("choices", []))]
    texts: list[str] = []
    for message in map(_mapping, messages):
        texts.append(message_text(message))
        for call in calls_of(message):
            body = _mapping(_mapping(call).get("function") or _mapping(call).get("custom"))
            texts += [value for name in ("arguments", "input") if isinstance(value := body.get(name), str)]
    return [text for text in texts if text]


def instructions_of(captured: Captured, body: Body) -> list[str]:
    """The texts of what instructs the model in an exchange: of the messages that are not part of the chain."""
    both = zip(_messages_in(body), captured.digests, strict=False)
    return [message_text(one) for one, digest in both if digest is None]


def as_sensitive_as_given(turns: Sequence[Turn], retrieval: Retrieval | None) -> tuple[Turn, ...]:
    """The turns, what the model said among them at least as sensitive as the memory it was given: it may repeat it."""
    given = retrieval.placed if retrieval else ()
    highest = derived_sensitivity(Sensitivity(one.entry.sensitivity) for one in given)
    return tuple(
        replace(turn, sensitivity=derived_sensitivity((turn.sensitivity, highest)))
        if given and turn.role == "assistant"
        else turn
        for turn in turns
    )


def answers_of(captured: Captured, body: Body) -> list[Digest]:
    """The chain positions of the answers that the request itself sent again, oldest first."""
    return [
        digest
        for value, digest in zip(_messages_in(body), captured.digests, strict=False)
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
    said = typed(message.value, redactor)
    return Turn(
        event_id=derived_id(exchange_id, "turn", message.position),
        exchange_id=exchange_id,
        chain=message.chain,
        parent_chain=message.parent,
        role=role,
        name=_speaker(message.value.get("name"), role, redactor) or _clean(message.tool, redactor),
        content=said.text,
        tool_calls=said.tool_calls,
        tool_call_id=_clean(message.value.get("tool_call_id"), redactor),
        source_id=None,
        line_digest=None,
        origin="live",
        integrity=integrity_of_role(role),
        sensitivity=Sensitivity.INTERNAL,
        model=model if role == "assistant" else None,
        redactions=said.redactions,
        token_count=counter.count(said.text),
        occurred_at=message.occurred_at,
        language=languages.detect(said.text),
        parts=said.parts,
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
    said = typed({"role": line.role, "content": line.content, "tool_calls": line.tool_calls}, redactor)
    beside = [*told_again(line.parts or (), redactor), *(said.parts or ())]
    origin: Origin = "import"
    of_role = integrity_of_role(line.role, imported=True, trusted_import=chunk.trusted)
    return Turn(
        event_id=derived_id(chunk.exchange_id, "line", line.line),
        exchange_id=chunk.exchange_id,
        chain=chain,
        parent_chain=parent,
        role=line.role,
        name=_speaker(line.name, line.role, redactor),
        content=said.text,
        tool_calls=said.tool_calls,
        tool_call_id=_clean(line.tool_call_id, redactor),
        source_id=line.source_id,
        line_digest=line.line_digest,
        origin=origin,
        integrity=derived_integrity((of_role, Integrity(line.integrity))) if line.integrity else of_role,
        sensitivity=Sensitivity(line.sensitivity),
        model=_clean(line.model, redactor) if line.role == "assistant" else None,
        redactions=said.redactions,
        token_count=counter.count(said.text),
        occurred_at=line.occurred_at,
        language=languages.detect(said.text),
        parts=beside[:PARTS_MAX] or None,
    )


def side_by_side(chunk: ImportChunk, fresh: Sequence[ImportLine], label: str, last: Sequence[str]) -> list[list[str]]:
    """What stands beside what in a session: as it will be stored, behind its last turns, and as it was sent, where that
    is something else, since lines stand between that are known already.
    """
    stored = [*last, *(_said_in(line) for line in fresh if line.session_label == label)]
    sent = [_said_in(line) for line in chunk.lines if line.session_label == label]
    return [stored] if stored[len(last) :] == sent else [stored, sent]


def place_of_line(line: ImportLine, chain_key: bytes, tail: Digest | None) -> tuple[Digest | None, Digest]:
    """What a line stands behind, and its own place in the chain: that of the message, when a client sends it again.
    Instructions, which have none, stand beside it.
    """
    message = _as_message(line)
    if is_chained(message):
        return tail, extend(chain_key, tail, _without_tokens(message), told_attachments(line.parts or ()))
    beside = extend(chain_key, tail, {"role": line.role, "content": line.line_digest.hex()})
    return beside, extend(chain_key, beside, message)


def as_exported(value: Mapping[str, Any], redactor: Redacts) -> tuple[Mapping[str, Any], list[Part]]:
    """A message as a line of an export would have it, and what stands beside its words."""
    said = typed(value, redactor)
    message = {
        "role": _role(value),
        "content": said.text,
        "tool_calls": said.tool_calls,
        "tool_call_id": _clean(value.get("tool_call_id"), redactor),
    }
    return _without_tokens(message), said.parts or []


def as_copied(turns: Iterable[Turn], chain_key: bytes) -> dict[Digest, Digest]:
    """Where an import has put the turns of a whole history, by their places: what was forgotten in a copy is known by
    that.
    """
    found: dict[Digest, Digest] = {}
    before: Digest | None = None
    behind: Digest | None = None
    for turn in turns:
        if turn.parent_chain != before:
            break
        told = told_attachments(turn.parts or ())
        before, behind = turn.chain, extend(chain_key, behind, _without_tokens(_as_message(turn)), told)
        found[before] = behind
    return found


def _as_message(said: ImportLine | Turn) -> dict[str, Any]:
    return {
        "role": said.role,
        "content": said.content,
        "tool_calls": said.tool_calls,
        "tool_call_id": said.tool_call_id,
    }


def _without_tokens(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same where a mask stands for each token: another store has others for the same values."""
    if "[kept:" not in (dumped := json.dumps(message)):
        return message
    return _mapping(json.loads(TOKEN.sub(r"[redacted:\1]", dumped)))


def _said_in(line: ImportLine) -> str:
    return said_in({"role": line.role, "content": line.content})


def _messages_in(body: Body) -> list[Any]:
    said = body.get("messages")
    return said if isinstance(said, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _role(value: Mapping[str, Any]) -> str:
    role = value.get("role")
    return storable(role)[:64] if isinstance(role, str) and role else "unknown"


def _speaker(name: Any, role: str, redactor: Redacts) -> str | None:
    """Who spoke. A name that is the role says nothing: some clients call every user "user"."""
    return _clean(name, redactor) if name != role else None


def _clean(value: Any, redactor: Redacts) -> str | None:
    """A name or an id, which a client may fill with anything."""
    return clean_short(value, redactor).text if isinstance(value, str) and value else None
