"""The wall clock of one process jumps a day forth or back under traffic: order stays the order of saying.

By a preloaded library, one process at a time (bench/faults/levers.py); the others and the stores keep true time.
"""

import re
from typing import Any, Final

import asyncpg

from bench.crash.service import Service
from bench.crash.victims import Kind
from bench.faults.levers import Levers
from bench.faults.result import Finding, at_least, none, so
from bench.faults.scene import Place, playing

DAY_S: Final = 86_400
STAY_S: Final = 2.5
JUMPED: Final[tuple[Kind, ...]] = ("proxy worker", "memory worker", "supervisor")
MARK: Final = re.compile(r"mark-(\d{3})-(\d{6})")
_TURNS: Final = (
    "SELECT s.label, t.content FROM turns t JOIN sessions s USING (tenant_id, session_id)"
    " WHERE t.role = 'user' ORDER BY s.label, t.seq"
)


async def clock_jump(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """Nothing is lost, no process ends, and what a session said stands in the order in which it was said."""
    levers = await Levers.made(place.root)
    async with playing(place, env=levers.env, shape={"memory_workers": 1}) as scene:
        before = scene.service.processes()
        for kind in JUMPED:
            pid = before[kind][0]
            for offset_s, what in ((DAY_S, "a day ahead"), (-DAY_S, "a day behind"), (0, "right again")):
                levers.move_clock(pid, offset_s)
                await scene.talk(STAY_S, f"the clock of one {kind} is {what}")
        after = scene.service.processes()
        for kind in JUMPED:
            same = before[kind] == after.get(kind)
            scene.findings.append(so(f"no {kind} ended", same))
        figures = await scene.finish()
        sessions, disordered = await _order(scene.service)
        scene.findings += [
            at_least("sessions looked at", sessions, 5),
            none("sessions whose turns are out of order", len(disordered), ", ".join(disordered[:5])),
            at_least("acknowledged", figures["acknowledged"], 50),
        ]
        return scene.findings, figures


async def _order(service: Service) -> tuple[int, list[str]]:
    connection = await asyncpg.connect(service.owner_dsn())
    try:
        rows = await connection.fetch(_TURNS)
    finally:
        await connection.close()
    return disorder((row["label"], row["content"]) for row in rows)


def disorder(turns: Any) -> tuple[int, list[str]]:
    """How many sessions there are, and those whose marks do not ascend. `turns`: (session, text) by session and seq."""
    said: dict[str, list[str]] = {}
    for label, content in turns:
        said.setdefault(label, []).extend(match[0] for match in MARK.finditer(content))
    return len(said), [label for label, marks in said.items() if marks != sorted(marks)]
