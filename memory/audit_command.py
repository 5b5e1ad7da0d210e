"""`python -m memory audit`: settings in; a verdict on each tenant's chain, or rows of the log, on stdout.

Reads the store and the key ring of the service; changes nothing. The exit code: 0 for whole chains, 1 where one is
broken (its first bad row is named), 2 for a tenant that is not there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import uvloop

from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from memory.audit import BEGINNING, AuditFilter, AuditRow, Examination, Head
from memory.config import Settings
from memory.errors import ConfigInvalid
from memory.key_wiring import master_of
from memory.keys import KeyRing

LIMIT_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class AuditAsked:
    """What the command line wants. `head`: a chain's end as somebody wrote it down, "seq:digest"."""

    mode: str
    tenant: str | None = None
    action: str | None = None
    actor: str | None = None
    id: str | None = None
    limit: int = 50
    head: str | None = None
    as_json: bool = False


async def audited(settings: Settings, asked: AuditAsked) -> int:
    """Verify or list. Raises ConfigInvalid, StoreUnavailable."""
    if settings.database.url is None or settings.data.dir is None:
        raise ConfigInvalid("unresolved settings: this process is started by `memory-proxy audit`")
    kept = head_of(asked.head)
    if kept is not None and asked.tenant is None:
        raise ConfigInvalid("--head is of one chain: say --tenant")
    master = await asyncio.to_thread(master_of, settings)
    database = await Database.open(settings.database.url.get_secret_value())
    try:
        keys = KeyRing(KeyStore(database), master)
        log = AuditLog(database, keys.audit_key)
        tenants = [one for one in await log.tenants() if asked.tenant in (None, one[1], str(one[0]))]
        if not tenants and asked.tenant is not None:
            sys.stderr.write(f"there is no tenant {asked.tenant}\n")
            return 2
        if asked.mode == "list":
            return await _listed(log, tenants, asked)
        return await _verified(log, keys, tenants, kept, as_json=asked.as_json)
    finally:
        await database.close()


def head_of(text: str | None) -> Head | None:
    """A chain's end as `verify` says it, "seq:digest". Raises ConfigInvalid."""
    if text is None:
        return None
    seq, _, digest = text.partition(":")
    try:
        head = Head(int(seq), bytes.fromhex(digest))
    except ValueError as exc:
        raise ConfigInvalid("--head is a number and a digest, as `memory-proxy audit verify` says them") from exc
    if len(head.digest) != len(BEGINNING):
        raise ConfigInvalid("--head is a number and a digest, as `memory-proxy audit verify` says them")
    return head


async def _verified(
    log: AuditLog, keys: KeyRing, tenants: list[tuple[UUID, str]], kept: Head | None, *, as_json: bool
) -> int:
    verdicts: list[dict[str, Any]] = []
    for tenant, name in tenants:
        head = await log.head(tenant)  # before the rows: one that is added meanwhile is no fault
        examination = Examination(await keys.audit_key(tenant), tenant, head, kept)
        async for rows in log.chain(tenant):
            examination.look(rows)
        fault = examination.ended()
        verdicts.append(
            {
                "tenant": name,
                "tenant_id": str(tenant),
                "rows": examination.rows,
                "head": str(head or Head()),
                "whole": fault is None,
                "first_bad_row": fault[0] if fault else None,
                "why": fault[1] if fault else None,
            }
        )
    if as_json:
        sys.stdout.write(json.dumps({"chains": verdicts}, indent=2) + "\n")
    else:
        sys.stdout.writelines(_told(one) for one in verdicts)
    return 0 if all(one["whole"] for one in verdicts) else 1


def _told(verdict: dict[str, Any]) -> str:
    if verdict["whole"]:
        return f"{verdict['tenant']}: whole, {verdict['rows']} rows, head {verdict['head']}\n"
    return f"{verdict['tenant']}: BROKEN at row {verdict['first_bad_row']}: {verdict['why']}\n"


async def _listed(log: AuditLog, tenants: list[tuple[UUID, str]], asked: AuditAsked) -> int:
    where, listed = AuditFilter(action=asked.action, actor=asked.actor, id=asked.id), 0
    for tenant, name in tenants:
        left, cursor = min(max(asked.limit, 1), LIMIT_MAX), None
        while left:
            page = await log.page(tenant, limit=left, cursor=cursor, where=where)
            for row in page.rows:
                sys.stdout.write(_as_json(name, row) if asked.as_json else _line(name, row))
            left -= len(page.rows)
            listed += len(page.rows)
            if (cursor := page.next_cursor) is None:
                break
    if not listed and not asked.as_json:
        sys.stdout.write("none\n")
    return 0


def _as_json(tenant: str, row: AuditRow) -> str:
    said = {
        "tenant": tenant,
        "seq": row.seq,
        "at": row.at.isoformat(),
        "actor": row.actor,
        "action": row.action,
        "decision": row.decision,
        "why": row.why,
        "ids": list(row.ids),
        "detail": dict(row.detail),
        "digest": row.digest.hex(),
    }
    return json.dumps(said) + "\n"


def _line(tenant: str, row: AuditRow) -> str:
    ids = " ".join(row.ids[:3]) + (f" and {len(row.ids) - 3} more" if len(row.ids) > 3 else "")
    detail = " ".join(f"{name}={value}" for name, value in sorted(row.detail.items()))
    parts = (tenant, str(row.seq), f"{row.at:%Y-%m-%d %H:%M:%S}", row.actor, row.action, row.decision, row.why)
    return "  ".join(part for part in (*parts, ids, detail) if part) + "\n"


def command(settings: Settings, given: argparse.Namespace) -> int:
    """List the audit, or verify it. The exit code."""
    named = {name: getattr(given, name) for name in ("tenant", "action", "actor", "id", "head", "limit")}
    return uvloop.run(audited(settings, AuditAsked(given.mode, as_json=given.json, **named)))
