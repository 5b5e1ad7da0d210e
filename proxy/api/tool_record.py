"""The record that a tool's call leaves: who called which tool with what, and what it was given, in; kept durably out.

A call is kept as an exchange of the conversation it was made in. Its request is the tool and its arguments, sealed
under the subject's key like a chat's and with its retention; what was found stands in a retrieval of the status `tool`,
so that `retrievals/{id}` and `replay/{id}` show it. What the call says is the assistant's: a turn of that role, so its
integrity is `assistant` by the same rule as an answer's, and nothing in the call can raise it. Raises StoreUnavailable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from memory.errors import StoreUnavailable
from memory.ids import derived_id, new_id
from memory.model import Candidate, Captured, Retrieval, Rung, Scope, SessionRef
from proxy.capture import Capture

SESSION: Final = "tools"
"""The conversation of calls that name none: one for each scope, so that its hourly write budget bounds them all."""
STATUS: Final = "tool"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool. `says`: what it wants remembered, None where it only asks. `found`: what it was given."""

    exchange_id: UUID
    retrieval_id: UUID
    tool: str
    arguments: BaseModel
    scope: Scope
    session: SessionRef
    arrived_at: datetime
    says: str | None = None
    query: str = ""
    found: tuple[Candidate, ...] = ()
    rung: Rung = "none"
    millis: float = 0.0

    @classmethod
    def of(cls, tool: str, arguments: BaseModel, scope: Scope, session: SessionRef, at: datetime) -> ToolCall:
        """A call that has just come in."""
        return cls(new_id(), new_id(), tool, arguments, scope, session, at)

    @property
    def memory_id(self) -> UUID:
        """The memory that what it says becomes: that of the one turn of its exchange (memory.write.quoted)."""
        return derived_id(derived_id(self.exchange_id, "turn", 0), "episodic")

    @property
    def request(self) -> bytes:
        """The tool and its arguments, the same bytes for the same call."""
        arguments = self.arguments.model_dump(mode="json", exclude_none=True)
        return json.dumps({"tool": self.tool, "arguments": arguments}, sort_keys=True).encode()


class ToolRecords:
    """Keeps calls. One per process."""

    def __init__(self, capture: Capture, config_digest: str, embedding_model: str) -> None:
        self._capture = capture
        self._config_digest = config_digest
        self._embedding_model = embedding_model

    async def keep(self, call: ToolCall) -> None:
        """Make it durable. Raises StoreUnavailable where it is not."""
        if await self._capture.alone(self._captured(call)) == "none":
            raise StoreUnavailable("not durable: queue and spool both refuse; try again", retry_after_s=1)

    def _captured(self, call: ToolCall) -> Captured:
        said = [] if call.says is None else [_message(call.exchange_id, call.says)]
        choices = [{"index": index, "message": one, "finish_reason": "stop"} for index, one in enumerate(said)]
        request = call.request
        return Captured(
            exchange_id=call.exchange_id,
            scope=call.scope,
            session=call.session,
            mode="on",
            status="complete",
            reason=None,
            http_status=200,
            model=None,
            arrived_at=call.arrived_at,
            finished_at=datetime.now(UTC),
            request=request,
            answer={"choices": choices},
            retrieval=Retrieval(
                retrieval_id=call.retrieval_id,
                status=STATUS,
                reason=None,
                rung=call.rung,
                config_digest=self._config_digest,
                embedding_model=self._embedding_model,
                query=call.query,
                candidates=tuple(_records(call)),
                placed=(),
                tokens=0,
                tokens_exact=False,
                millis=call.millis,
                sha256_sent=hashlib.sha256(request).digest(),
                created_at=call.arrived_at,
            ),
            named=True,
        )


def _message(exchange_id: UUID, text: str) -> dict[str, Any]:
    # The id makes its place in the chain its own: equal words remembered twice stay two, as everywhere.
    return {"role": "assistant", "content": text, "tool_call_id": str(exchange_id)}


def _records(call: ToolCall) -> Sequence[dict[str, Any]]:
    if call.says is not None:
        event_id = derived_id(call.exchange_id, "turn", 0)
        return [_record(str(call.memory_id), 1, "episodic", "made by this call", [str(event_id)])]
    return [
        _record(
            str(one.memory_id),
            one.version,
            one.kind,
            one.why,
            list(one.source_ids),
            sensitivity=one.sensitivity,
            score=round(one.score, 6),
            scores={name: round(value, 6) for name, value in one.parts.items()},
            admitted=one.admitted,
            later=str(one.later) if one.later else None,
            event_ids=[str(event_id) for event_id in one.event_ids],
        )
        for one in call.found
    ]


def _record(memory: str, version: int, kind: str, why: str, sources: list[str], **more: Any) -> dict[str, Any]:
    """A candidate as records have it. Nothing of a tool's call stood in a prompt of ours, so nothing is `injected`."""
    return {
        "id": memory,
        "version": version,
        "kind": kind,
        "sensitivity": "internal",
        "score": 0.0,
        "scores": {},
        "admitted": False,
        "injected": False,
        "why": why,
        "later": None,
        "why_not": None,
        "source_ids": sources,
        "event_ids": sources,
        **more,
    }
