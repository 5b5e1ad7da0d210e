"""What a consolidation did: counts in, a table or JSON out. Pure but for `told`, which writes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from memory.consolidation import Counted, Step
from memory.write.consolidate import Standing

MEANING: Final[Mapping[Step, str]] = {
    "expired": "erased, expired long ago",
    "superseded": "facts erased, something took their place long ago",
    "duplicates": "facts put behind another that says the same",
    "repeated": "facts weighed anew, heard in three sessions or more",
    "evidence": "sayings dropped of facts said more than 64 times",
    "summaries": "made anew without turns that are gone",
    "episodes": "told anew without what was superseded or hidden since",
    "compressed": "old episodes that became one of their month",
    "unused": "hidden, never placed in a prompt",
    "bound": "hidden, worth least while there is too much",
    "pruned": "erased, hidden by a run and not asked back",
    "past": "months recalled from now on, their turns being gone",
    "review": "facts put on the list for review or taken off it",
}


def shown(standing: Standing | None, *, as_json: bool, rehearsed: bool = False) -> str:
    """The report."""
    if as_json:
        return json.dumps(_members(standing, rehearsed), indent=2) + "\n"
    if standing is None:
        return "no run yet\n"
    would = "would change" if rehearsed else "changed"
    lines = [f"{'step':10}  {'looked at':>10}  {would:>12}  {'seconds':>8}"]
    for one in standing.report:
        figures = f"{one['step']:10}  {one['examined']:>10,}  {one['changed']:>12,}  {one['seconds']:>8.1f}"
        lines.append(f"{figures}  {MEANING.get(one['step'], '')}")
    ended = f"ended {standing.finished_at:%Y-%m-%d %H:%M:%S}" if standing.finished_at else "has not ended"
    lines.append(f"began {standing.started_at:%Y-%m-%d %H:%M:%S}, {ended} UTC; seconds are of work, without pauses")
    return "\n".join(lines) + "\n"


def told(tenant: UUID, counted: Counted) -> None:
    """One line of progress on stderr."""
    sys.stderr.write(f"{tenant}  {counted.step}: looked at {counted.examined:,}, changed {counted.changed:,}\n")


def _members(standing: Standing | None, rehearsed: bool) -> dict[str, object] | None:
    if standing is None:
        return None
    return {
        "started_at": standing.started_at.isoformat(),
        "finished_at": standing.finished_at.isoformat() if standing.finished_at else None,
        "dry_run": rehearsed,
        "steps": list(standing.report),
    }
