"""`GET /memory/v1/audit`: filters and a page in, rows of the tenant's audit log out, newest first.

Wants the capability memory:admin. Rows hold ids, HMACs and words of ours, never content. Raises MemoryInvalid for a
filter that cannot be, CapabilityMissing, StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from memory.audit import AuditFilter, AuditRow, Decision
from memory.errors import MemoryInvalid
from proxy.api.answers import said
from proxy.api.asking import caller_of, moment_in, parameters, require_not_one_session
from proxy.api.paging import PARAMETERS, page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas import AuditList, AuditRowSaid

_TAKES: Final = PARAMETERS | {"action", "actor", "decision", "id", "since", "until"}
_DECISIONS: Final[tuple[Decision, ...]] = ("allowed", "refused", "noted")
_CHARS_MAX: Final = 64


class AuditRows:
    """The handler of the audit log."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def list(self, request: web.Request) -> web.Response:
        """Rows of the caller's tenant."""
        caller = caller_of(request, self._parts.door, "memory:admin")
        require_not_one_session(caller, "the log is the tenant's")
        given = parameters(request, _TAKES)
        page = page_of(given, "audit")
        found = await self._parts.audit.page(
            caller.scope.tenant,
            limit=page.limit,
            cursor=page.cursor,
            oldest_first=page.order == "asc",
            where=_filter(given),
        )
        rows = [_said(row) for row in found.rows]
        return said(AuditList(data=rows, next_cursor=page.next_cursor(found.next_cursor)))


def _filter(given: Mapping[str, str]) -> AuditFilter:
    """What the parameters let pass. Raises MemoryInvalid."""
    for name in ("action", "actor", "id"):
        if len(given.get(name, "")) > _CHARS_MAX or "\x00" in given.get(name, ""):
            raise MemoryInvalid(f"{name} has at most {_CHARS_MAX} characters", param=name)
    return AuditFilter(
        action=given.get("action"),
        actor=given.get("actor"),
        decision=_decision(given.get("decision")),
        id=given.get("id"),
        since=moment_in(given, "since"),
        until=moment_in(given, "until"),
    )


def _decision(raw: str | None) -> Decision | None:
    for decision in _DECISIONS:
        if raw == decision:
            return decision
    if raw is not None:
        raise MemoryInvalid(f"decision must be one of {', '.join(_DECISIONS)}", param="decision")
    return None


def _said(row: AuditRow) -> AuditRowSaid:
    return AuditRowSaid(
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        action=row.action,
        decision=row.decision,
        why=row.why,
        ids=list(row.ids),
        detail=dict(row.detail),
        digest=row.digest.hex(),
    )
