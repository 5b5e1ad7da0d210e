"""The form of a call's description, and what most calls have in common: nothing in, values out. Pure.

The tables of calls (`calls_memory`, `calls_records` and the like) are written in it; `openapi` makes the document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

JSON: Final = "application/json"

# Every error of the API by its code, with its status (DESIGN section 2).
ERRORS: Final = {
    "memory_invalid": (400, "A header, parameter or body that cannot be understood; `param` names it."),
    "memory_conflict": (400, "Two places say different things."),
    "invalid_api_key": (401, "No key, an unknown one, or one that was revoked or has expired."),
    "scope_denied": (403, "The key fixes a scope and the request names another."),
    "capability_missing": (403, "The key may not do this."),
    "not_found": (404, "Not there, or not inside the caller's scope."),
    "method_not_allowed": (405, "The path exists, the method does not; `Allow` lists what does."),
    "conflict": (409, "The thing changed since it was read."),
    "gone": (410, "It was here and cannot be rebuilt; the message says why, the body what is left of it."),
    "too_large": (413, "Beyond a bound, which the message names."),
    "unprocessable": (422, "A member that does not fit; the message says what was expected."),
    "version_required": (428, "A change without If-Match."),
    "rate_limited": (429, "The key has used up what it may; Retry-After says when to come again."),
    "internal_error": (500, "A defect; the log has its place."),
    "auth_unavailable": (503, "The key table cannot be read."),
    "store_unavailable": (503, "A store does not answer, or was not reached yet."),
    "timeout": (504, "It took longer than its bound."),
}
ADMISSION: Final = ("invalid_api_key", "auth_unavailable")
CALLER: Final = (
    *ADMISSION,
    "memory_invalid",
    "scope_denied",
    "capability_missing",
    "rate_limited",
    "store_unavailable",
    "internal_error",
)
BODY: Final = ("too_large", "unprocessable")


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what it takes, what it answers with, and by which codes it refuses."""

    method: str
    path: str
    name: str
    summary: str
    answer: type[BaseModel] | None = None
    answer_type: str = JSON
    body: type[BaseModel] | None = None
    body_type: str = JSON
    parameters: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    also: tuple[tuple[int, str], ...] = ()  # other statuses with the same body
    or_answer: type[BaseModel] | None = None  # what else a 200 may hold
    waits: type[BaseModel] | None = None  # what a 202 holds where that is another body
