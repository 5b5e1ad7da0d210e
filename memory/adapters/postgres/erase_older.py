"""What goes of an older copy: what a target means and when it was wanted in, what came by then out.

Goes by the law of the tombstones: what happened by then was forgotten; what happened since is of somebody who came
back. A turn counts from when it was said or stored, whichever is earlier, so a line with a date to come does not stay;
what was made of turns goes with them, whenever that was. Scopes and conversations without anything newer go whole. All
inside the caller's transaction.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.erasure.model import WHOLE, Items, Plan, Target


async def plan_until(tx: Transaction, target: Target, meant: Plan, until: datetime) -> Plan:
    """Of what a target means that which came by `until`, and what the target names by ids."""
    tenant = target.scope.tenant
    newer = await tx.fetch("newer_than", tenant, meant.touched, until) if meant.touched else []
    partly = {row["scope_id"] for row in newer} & set(meant.scope_ids)
    in_part = {row["session_id"] for row in newer} & meant.sessions.keys()
    some = (tenant, sorted(partly), sorted(in_part))
    turns = await tx.fetch("turns_until", *some, list(target.turn_ids), until)
    memories = await tx.fetch("memories_until", *some, list(target.memory_ids), until)
    return Plan(
        tuple(one for one in meant.scopes if one.scope_id not in partly),
        {one: where for one, where in meant.sessions.items() if one not in in_part},
        {row["event_id"]: row["scope_id"] for row in turns},
        {row["memory_id"]: row["scope_id"] for row in memories},
        stays=bool(partly),
    )


async def erase_bare(tx: Transaction, target: Target, items: Items, until: datetime) -> dict[str, int]:
    """What is left of records whose memories are gone, in scopes and a conversation that stay. Rows by table."""
    tenant = target.scope.tenant
    if target.kind == "session":
        return {
            "checkpoints": len(await tx.fetch("erase_bare_checkpoints", tenant, [], await _session(tx, target), until))
        }
    if target.kind not in WHOLE:
        return {}
    scopes = items.touched()
    return {
        "checkpoints": len(await tx.fetch("erase_bare_checkpoints", tenant, scopes, [], until)),
        "documents": len(await tx.fetch("erase_bare_documents", tenant, scopes, until)),
        "import_chunks": await tx.run("erase_import_chunks", tenant, scopes, until),
    }


async def _session(tx: Transaction, target: Target) -> list[UUID]:
    scope = target.scope
    scope_id = await tx.value("find_scope", scope.tenant, scope.user, scope.project, scope.agent)
    found = await tx.value("session_to_erase", scope.tenant, scope_id, target.value)
    return [] if found is None else [found]
