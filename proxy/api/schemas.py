"""The bodies of the own API, in and out: what is validated, and what `/memory/openapi.json` describes.

Bodies that come in are closed and strict: an unknown member or another type is refused. Times are RFC 3339 with an
offset. Answers are built from these models, so an answer and its description cannot differ. What checks or writes a
body is built when the first of its kind comes (2 ms): there are 160 of them, and few processes meet many.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from memory.audit import Decision
from memory.shared import SharedTo
from proxy.api.asking import ID_FORM, to_rfc3339
from proxy.identity import TIME, rfc3339

CONTENT_CHARS_MAX = 500_000

SensitivityName = Literal["public", "internal", "confidential", "secret"]
ValidationStatus = Literal["unreviewed", "confirmed", "disputed", "rejected"]


_NAME = Annotated[str, Field(min_length=1, max_length=256)]


def _moment(value: object) -> object:
    if isinstance(value, datetime):
        return value
    moment = rfc3339(value) if isinstance(value, str) else None
    if moment is None:
        raise ValueError(f"expected {TIME}")
    return moment


Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    PlainSerializer(to_rfc3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


def matching(pattern: str, expected: str) -> AfterValidator:
    """The whole text is of this pattern; who sends another is told what is expected, in words."""

    def checked(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(checked)


Id = Annotated[
    str,
    matching(ID_FORM, "an id, like 01a205db-37d7-7a8d-8300-d7d3ca9ec6e8"),
    WithJsonSchema({"type": "string", "pattern": f"^{ID_FORM}$"}),
]


class Asked(BaseModel):
    """A body that comes in: closed and strict."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)


class Said(BaseModel):
    """A body that goes out."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


# ---------------------------------------------------------------- memories


class MemorySaid(Said):
    """One memory in its current version."""

    id: str
    version: int = Field(description="Send it as If-Match with a change.")
    kind: str
    collection: str
    content: str
    role: str
    integrity: str
    sensitivity: str
    origin: str
    importance: float
    confidence: float
    pinned: bool
    validation_status: str
    attributes: dict[str, Any]
    quarantine_reason: str | None
    superseded_by: str | None
    superseded_reason: str | None = Field(
        default=None, description="newer value, corrected by the user, no longer, contradiction, or same meaning."
    )
    session: str | None
    occurred_at: Moment | None
    valid_from: Moment | None
    valid_to: Moment | None
    expires_at: Moment | None
    review_due_at: Moment | None = Field(
        description="Since when somebody should look whether it holds; confirm or reject it by validation_status."
    )
    created_at: Moment
    recorded_at: Moment = Field(description="When this version was made.")
    source_ids: list[str]
    event_ids: list[str]


class MemoryList(Said):
    """A page of memories."""

    data: list[MemorySaid]
    next_cursor: str | None


def without_defaults(schema: dict[str, Any]) -> None:
    """A member that is left out stays as it is, so no default is described."""
    for member in schema["properties"].values():
        member.pop("default", None)


class MemoryPatch(Asked):
    """What changes; a member left out stays as it is."""

    model_config = ConfigDict(json_schema_extra=without_defaults)

    content: Annotated[str, Field(min_length=1, max_length=CONTENT_CHARS_MAX)] = Field(
        default="", description="New text; secrets are cut out of it, and it is embedded anew."
    )
    pinned: bool = False
    importance: float = Field(default=0.5, ge=0, le=1)
    sensitivity: SensitivityName = "internal"
    validation_status: ValidationStatus = "unreviewed"
    expires_at: Moment | None = Field(default=None, description="Recalled until then; null: for ever.")
    attributes: dict[str, Any] = Field(default_factory=dict, description="Replaces all attributes.")


class MemoryChanged(Said):
    """A memory that was changed by who may not read it."""

    id: str
    version: int


class MemoryDeleted(Said):
    """A memory that is hidden now; `as_of` still sees it."""

    id: str
    deleted: Literal[True] = True
    deleted_at: Moment
    undo_until: Moment


# ---------------------------------------------------------------- the lifecycle feed


class EventSaid(Said):
    """What became of a memory: ids and labels, never content."""

    cursor: str = Field(description="What `after` takes to go on behind this event.")
    at: Moment
    what: str = Field(
        description="created, updated, superseded, expired, revalidated, shared, deleted (hidden), restored or erased."
    )
    memory_id: str
    version: int | None = Field(description="The version it had then.")
    kind: str | None
    by: str | None = Field(description="The id of the exchange, import or job that did it, or `api`.")
    metadata: dict[str, Any] = Field(description="Labels: integrity, sensitivity, and what the event adds.")


class EventList(Said):
    """Some events, oldest first. At the end `next_cursor` is null: poll with the cursor of the last event seen."""

    data: list[EventSaid]
    next_cursor: str | None
    missed: int = Field(description="Events behind `after` that are not kept any more.")


# ---------------------------------------------------------------- sharing and audit


class ShareAsked(Asked):
    """With whom a memory is shared."""

    to: SharedTo


class SharedSaid(Said):
    """The copy that others see."""

    id: str = Field(description="The copy's id.")
    source_id: str
    to: SharedTo
    shared_at: Moment
    shared: bool = Field(description="False where it was shared already.")


class UnsharedSaid(Said):
    """Copies that nobody is shown any more."""

    ids: list[str]
    to: SharedTo
    unshared_at: Moment


class AuditRowSaid(Said):
    """One row of the audit log: ids and words of ours, never content."""

    seq: int = Field(description="Its number in the tenant's chain, from 1.")
    at: Moment
    actor: str = Field(description="The key's id; `open` without keys.")
    action: str
    decision: Decision
    why: str
    ids: list[str]
    detail: dict[str, Any] = Field(description="What a client chose, like a user's name, is an HMAC here.")
    digest: str


class AuditList(Said):
    """Rows of the tenant's log."""

    data: list[AuditRowSaid]
    next_cursor: str | None


# ---------------------------------------------------------------- the rest


class QueueSaid(Said):
    """What waits. `pending + in_flight == 0`: everything captured so far is stored and searchable."""

    pending: int
    in_flight: int
    background: int
    dead: int
    oldest_seconds: float


class DeadLetterSaid(Said):
    """An entry that was given up: where it lies and why, never what it holds."""

    id: str = Field(description="What the replay call takes, percent-encoded in its path.")
    exchange_id: str
    reason: str
    attempts: int


class DeadLetterList(Said):
    """The newest dead letters, newest first."""

    data: list[DeadLetterSaid]
    next_cursor: str | None


class ReplayedSaid(Said):
    """A dead letter that waits in its lane again."""

    id: str
    replayed: bool


class DependencySaid(Said):
    """One dependency as last seen."""

    ok: bool
    since: str
    error: str | None


class ReadySaid(Said):
    """Whether this process is in service."""

    status: Literal["ok", "degraded", "starting", "draining"]
    dependencies: dict[str, DependencySaid]


class HealthSaid(Said):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ImportLineAsked(BaseModel):
    """One past turn, one line. Other members are passed over; they count towards the line's identity."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str | list[str | dict[str, Any]] | None = Field(
        default=None, description="Text, or parts, joined by a line feed; only beside tool_calls it may be missing."
    )
    tool_calls: list[Any] | None = Field(default=None, description="As in a chat completion.")
    tool_call_id: str | None = Field(default=None, max_length=256, description="As in a chat completion.")
    session: str | None = Field(default=None, description="Without it: one new session for the call.")
    name: str | None = Field(default=None, max_length=256)
    occurred_at: Moment | None = Field(default=None, description="Without it: that of the line before, else now.")
    source_id: str | None = Field(default=None, min_length=1, max_length=256)
    sensitivity: SensitivityName = Field(
        default="internal", description="Inherited by all that is made of it; from confidential on stored encrypted."
    )


class ImportProgressSaid(Said):
    """How far the import is. `accepted` is durable; `done` is stored and searchable."""

    accepted: int
    done: int
    failed: int
    complete: bool | None = Field(
        default=None, description="On the last line only; false: the upload was not taken in to its end."
    )


class ImportErrorSaid(Said):
    """A line that failed; line 0 is the upload as a whole."""

    line: int
    error: str


class ErrorBody(Said):
    """What went wrong."""

    message: str
    type: Literal["memory_proxy_error"]
    param: str | None = Field(description="The header, parameter or member at fault.")
    code: str


class ErrorSaid(Said):
    """An error of the proxy's own, in OpenAI's form."""

    error: ErrorBody


# ---------------------------------------------------------------- capability tokens


class TokenAsked(Asked):
    """What to leave of the caller's key or token; what is left out stays as it is."""

    user: _NAME | None = None
    project: _NAME | None = None
    agent: _NAME | None = None
    session: _NAME | None = Field(default=None, description="The task: one conversation, and nothing but it.")
    capabilities: list[str] | None = Field(default=None, max_length=64, description="Of those that the caller has.")
    expires_in_s: int | None = Field(default=None, ge=1, le=31_536_000, description="Seconds from now; 3,600.")
    sensitivity_max: SensitivityName | None = None
    injected_tokens_max: int | None = Field(default=None, ge=0, le=1_000_000)
    models: list[_NAME] | None = Field(default=None, min_length=1, max_length=64)


class TokenSaid(Said):
    """A token, to be sent as bearer, and what it allows."""

    token: str
    id: str = Field(description="What logs call it.")
    expires_at: Moment
    capabilities: list[str]
    fixed: dict[str, str]
