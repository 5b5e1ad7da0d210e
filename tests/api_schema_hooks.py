"""What schemathesis needs to know of this API: lines of JSON, and ids of things that are there."""

from __future__ import annotations

import json
import os
from typing import Any

import schemathesis

NDJSON = "application/x-ndjson"
# By the beginning of a path: ids of rows that exist, which half of the requests are about.
KNOWN: dict[str, list[str]] = json.loads(os.environ.get("API_SCHEMA_KNOWN", "{}"))

# Members by which queries and bodies name a person or a thing.
_ENTITIES = ("to", "into", "source", "target")


@schemathesis.serializer(NDJSON)
def lines(_: Any, value: Any) -> bytes:
    """A body of lines; what is generated is one of them, or text."""
    said = value if isinstance(value, list) else [value]
    return "".join(json.dumps(one) + "\n" for one in said).encode("utf-8", "surrogatepass")


@schemathesis.deserializer(NDJSON)
def last_line(context: Any, response: Any) -> Any:
    """The last line of an import: the others are progress of the same form. An export is a text."""
    if context.operation.path.endswith("/export"):
        return response.content.decode()
    found = [line for line in response.content.split(b"\n") if line.strip()]
    return json.loads(found[-1]) if found else {}


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:
    """About something that exists, for every second case that names a thing by its path, its query or its body."""
    for path, ids in KNOWN.items():
        if case.path.startswith(path) and "id" in (case.path_parameters or {}) and ids:
            case.path_parameters["id"] = _known(str(case.path_parameters["id"]), ids)
    for given in (case.query, case.body):
        for member in _ENTITIES:
            said = given.get(member) if isinstance(given, dict) else None
            if isinstance(said, str) and 1 <= len(said) <= 64:  # else it is one that must be refused
                given[member] = _known(said, KNOWN.get("/memory/v1/entities/", [said]))
    return case


def _known(given: str, ids: list[str]) -> str:
    odd = sum(given.encode("utf-8", "surrogatepass")) % 2
    return ids[len(given) % len(ids)] if odd else given
