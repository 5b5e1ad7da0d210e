"""How a call of the own API is described, for the tables that `/memory/openapi.json` is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

JSON: Final = "application/json"
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
