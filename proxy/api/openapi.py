"""`/memory/openapi.json`: nothing in, the OpenAPI 3.1 document of the own API out.

Schemas come from the models that bodies are checked against and answers are built from, calls from the tables of
`calls_*`; parameters are the table below, with that of the tools. A test holds the calls against the routes and the
document against the specification.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from memory.model import Kind
from proxy.api import schemas, schemas_replay
from proxy.api.call import ERRORS, JSON, Call
from proxy.api.calls_artifacts import ARTIFACT_CALLS
from proxy.api.calls_documents import DOCUMENT_CALLS
from proxy.api.calls_entities import ENTITY_CALLS
from proxy.api.calls_memory import MEMORY_CALLS
from proxy.api.calls_outside import OUTSIDE_CALLS
from proxy.api.calls_records import RECORDS
from proxy.api.calls_tasks import TASK_CALLS
from proxy.api.calls_tools import TOOL_CALLS, TOOL_PARAMETERS
from proxy.api.exports import NDJSON

_REF: Final = "#/components/schemas/{model}"

CALLS: Final = (
    *MEMORY_CALLS,
    *RECORDS,
    *TOOL_CALLS,
    *DOCUMENT_CALLS,
    *OUTSIDE_CALLS,
    *TASK_CALLS,
    *ENTITY_CALLS,
    *ARTIFACT_CALLS,
)


@cache
def document() -> dict[str, Any]:
    """The whole document. Made once, when it is first asked for: a quarter of a second."""
    models = {schemas.ErrorSaid, schemas.ImportErrorSaid, schemas_replay.GoneSaid}
    models |= {
        model for call in CALLS for model in (call.answer, call.or_answer, call.waits, call.body) if model is not None
    }
    inputs: list[tuple[Any, Literal["validation", "serialization"]]] = [
        (model, "serialization" if issubclass(model, schemas.Said) else "validation")
        for model in sorted(models, key=lambda model: model.__name__)
    ]
    _, definitions = models_json_schema(inputs, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "memory-proxy",
            "version": "1",
            "summary": "The proxy's own API. Everything outside /memory/ is vLLM's.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "parameters": {**_PARAMETERS, **TOOL_PARAMETERS},
            "responses": {code: _error(code) for code in ERRORS},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of this proxy, in auth.mode keys."}
            },
        },
    }


def _operation(call: Call) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": call.name, "summary": call.summary}
    names = [name for asked in call.parameters for name in (_SCOPE if asked == "scope" else (asked,))]
    if names:
        operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in names]
    if call.body is not None:
        # No lines are an import of nothing.
        needed = call.body_type != NDJSON
        operation["requestBody"] = {"required": needed, "content": {call.body_type: {"schema": _schema(call.body)}}}
    operation["responses"] = _responses(call)
    return operation


def _responses(call: Call) -> dict[str, Any]:
    content = {call.answer_type: {"schema": _answer_schema(call)}}
    responses: dict[str, Any] = {"200": {"description": call.summary, "content": content}}
    for status, why in call.also:
        other = {JSON: {"schema": _schema(call.waits)}} if call.waits and status == 202 else content
        responses[str(status)] = {"description": why, "content": other}
    by_status: dict[int, list[str]] = {}
    for code in (*call.errors, "method_not_allowed"):
        by_status.setdefault(ERRORS[code][0], []).append(code)
    for status, codes in sorted(by_status.items()):
        if len(codes) == 1:
            responses[str(status)] = {"$ref": f"#/components/responses/{codes[0]}"}
        else:
            text = " ".join(f"`{code}`: {ERRORS[code][1]}" for code in dict.fromkeys(codes))
            responses[str(status)] = {"description": text, "content": _error_content(codes)}
    return responses


def _answer_schema(call: Call) -> dict[str, Any]:
    if call.name == "importTurns":
        return {"oneOf": [_schema(schemas.ImportProgressSaid), _schema(schemas.ImportErrorSaid)]}
    if call.answer is not None and call.or_answer is not None:
        return {"oneOf": [_schema(call.answer), _schema(call.or_answer)]}
    if call.answer is not None:
        return _schema(call.answer)
    return {"type": "object"} if call.answer_type == JSON else {"type": "string"}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": _REF.format(model=model.__name__)}


def _error(code: str) -> dict[str, Any]:
    return {"description": f"`{code}`: {ERRORS[code][1]}", "content": _error_content([code])}


def _error_content(codes: list[str]) -> dict[str, Any]:
    narrowed = {"properties": {"error": {"properties": {"code": {"enum": codes}}}}}
    model = schemas_replay.GoneSaid if codes == ["gone"] else schemas.ErrorSaid
    return {JSON: {"schema": {"allOf": [_schema(model), narrowed]}}}


def _parameter(where: str, name: str, schema: dict[str, Any], text: str, *, required: bool = False) -> dict[str, Any]:
    return {"in": where, "name": name, "schema": schema, "description": text, "required": required}


_LABEL: Final = {"type": "string", "minLength": 1, "maxLength": 256}
_SCOPE: Final = ("user", "project", "agent")
_PARAMETERS: Final = {
    "user": _parameter("header", "X-Memory-User", _LABEL, "Whose memory; percent-encoded UTF-8."),
    "project": _parameter("header", "X-Memory-Project", _LABEL, "Project scope."),
    "agent": _parameter("header", "X-Memory-Agent", _LABEL, "Agent namespace."),
    "session_header": _parameter("header", "X-Memory-Session", _LABEL, "Where lines without a session go."),
    "session_of_tasks": _parameter("header", "X-Memory-Session", _LABEL, "The conversation that the tasks come from."),
    "task_status": _parameter(
        "query",
        "status",
        {"type": "string", "pattern": "^[a-z]+(,[a-z]+)*$"},
        "open, or some of queued, running, blocked, validating, done, failed, cancelled, with commas.",
    ),
    "link_tenant": _parameter(
        "path", "tenant", {"type": "string", "format": "uuid"}, "As the link has it.", required=True
    ),
    "link_scope": _parameter("path", "scope", {"type": "integer"}, "As the link has it.", required=True),
    "expires": _parameter("query", "expires", {"type": "integer"}, "As the link has it.", required=True),
    "sig": _parameter("query", "sig", {"type": "string"}, "As the link has it.", required=True),
    "entity_type": _parameter(
        "query", "type", {"type": "string", "pattern": "^[a-z]+(,[a-z]+)*$"}, "Of these types, with commas."
    ),
    "entity_name": _parameter(
        "query", "name", {"type": "string", "minLength": 1, "maxLength": 200}, "Those that have this name."
    ),
    "relationship_types": _parameter(
        "query", "type", {"type": "string", "pattern": "^[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*)*$"}, "By these ties alone."
    ),
    "hops": _parameter("query", "hops", {"type": "integer", "minimum": 1, "maximum": 3}, "How far; 1 by default."),
    "path_to": _parameter(
        "query", "to", {"type": "string", "format": "uuid"}, "The one that the ways lead to.", required=True
    ),
    "at": _parameter("query", "at", {"type": "string", "format": "date-time"}, "What held then; now by default."),
    "session_of_checkpoint": _parameter(
        "header", "X-Memory-Session", _LABEL, "The conversation to save, where the body names none."
    ),
    "as_of_header": _parameter(
        "header", "X-Memory-As-Of", {"type": "string", "format": "date-time"}, "Search as the store stood then."
    ),
    "budget_header": _parameter(
        "header", "X-Memory-Budget", {"type": "integer", "minimum": 0}, "What the request said there: it is not kept."
    ),
    "as_of": _parameter("query", "as_of", {"type": "string", "format": "date-time"}, "Recall as the store stood then."),
    "without": _parameter(
        "query", "without", {"type": "string"}, "Ids of memories to leave out, with commas between them."
    ),
    "limit": _parameter(
        "query", "limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}, "Rows of a page."
    ),
    "turns_limit": _parameter(
        "query", "limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 1000}, "Turns of a page."
    ),
    "cursor": _parameter("query", "cursor", {"type": "string"}, "`next_cursor` of the page before."),
    "after": _parameter("query", "after", {"type": "string"}, "The `cursor` of the last event seen."),
    "of": _parameter(
        "query", "of", {"enum": ["scope", "user"], "default": "scope"}, "user: every scope of the user, in one file."
    ),
    "order": _parameter(
        "query", "order", {"enum": ["asc", "desc"], "default": "desc"}, "desc: newest first; asc: oldest first."
    ),
    "kind": _parameter(
        "query",
        "kind",
        {"enum": list(get_args(Kind))},
        "Only memories of this kind.",
    ),
    "session": _parameter("query", "session", _LABEL, "Only what belongs to this conversation."),
    "due": _parameter(
        "query",
        "due",
        {"enum": ["review"]},
        "Only what somebody should look at: facts, proposed procedures, what is held back.",
    ),
    "action": _parameter("query", "action", {"type": "string"}, "Only rows of this action, like `share.project`."),
    "actor": _parameter("query", "actor", {"type": "string"}, "Only rows of this key's id."),
    "decision": _parameter("query", "decision", {"enum": ["allowed", "refused", "noted"]}, "Only these rows."),
    "audited_id": _parameter("query", "id", {"type": "string"}, "Only rows that name this id."),
    "since": _parameter("query", "since", {"type": "string", "format": "date-time"}, "Only rows of then or later."),
    "until": _parameter("query", "until", {"type": "string", "format": "date-time"}, "Only rows of then or earlier."),
    "wait": _parameter(
        "query", "wait", {"enum": ["true", "false"], "default": "true"}, "false: end when all is accepted."
    ),
    "wait_stored": _parameter(
        "query", "wait", {"enum": ["true", "false"], "default": "false"}, "true: answer when it is stored, or failed."
    ),
    "on_conflict": _parameter(
        "query",
        "on_conflict",
        {"enum": ["error", "update"], "default": "error"},
        "What a known line with another content is: an error, or a change.",
    ),
    "id": _parameter("path", "id", {"type": "string", "format": "uuid"}, "The id.", required=True),
    "session_id": _parameter("path", "id", _LABEL, "The value of X-Memory-Session, percent-encoded.", required=True),
    "checkpoint": _parameter(
        "path",
        "id",
        {"type": "string", "minLength": 1, "maxLength": 128},
        "The checkpoint's name, percent-encoded.",
        required=True,
    ),
    "persona": _parameter(
        "path",
        "id",
        {"type": "string", "minLength": 1, "maxLength": 64},
        "The persona's name, percent-encoded.",
        required=True,
    ),
    "version": _parameter("query", "version", {"type": "integer", "minimum": 1}, "That version, not the current one."),
    "with": _parameter("query", "with", {"type": "string"}, "The checkpoint to compare with; without it the same one."),
    "from_version": _parameter(
        "query", "from", {"type": "integer", "minimum": 1}, "Compare this version; without it the current one."
    ),
    "to_version": _parameter(
        "query", "to", {"type": "integer", "minimum": 1}, "With this version; without it the current one."
    ),
    "dead_id": _parameter(
        "path", "id", {"type": "string"}, "A dead letter's id, percent-encoded: `live-03%2F…`.", required=True
    ),
    "if_match": _parameter(
        "header", "If-Match", {"type": "string"}, "The version the change was made from.", required=True
    ),
    "if_match_optional": _parameter("header", "If-Match", {"type": "string"}, "Only where it has this version."),
}
