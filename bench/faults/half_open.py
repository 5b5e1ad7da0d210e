"""A peer that vanishes without closing: the queue, the database, the upstream, each behind a link that goes silent.

External Postgres and Valkey of our own over TCP (bench/faults/own_stores.py), and links (bench/faults/link.py) before
them and before the upstream. After the link is whole again the old connections stay dead, as after a power cut.
"""

import asyncio
import time
from typing import Any, Final

from bench.faults.link import Link
from bench.faults.own_stores import OwnStores
from bench.faults.result import Finding, at_least, at_most, none, so
from bench.faults.scene import Place, Scene, ask, playing

CALM_S: Final = 4.0
CUT_S: Final = 8.0
BACK_S: Final = 30.0
# recall.deadline_ms, and what a busy machine adds; X-Memory-Millis of the slowest answer must stay below it.
ADDED_MS_MAX: Final = 1000.0
POOL_S: Final = 5.0  # longer than upstream.keepalive_s: what was idle has been let go
PATIENCE_S: Final = 3.0


async def half_open(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """Recall fails open within its deadline, answers go on, capture goes to the spool, all catches up afterwards."""
    async with (
        OwnStores(place.root) as stores,
        Link(*stores.postgres) as postgres,
        Link(*stores.valkey) as valkey,
    ):
        env = stores.env(("127.0.0.1", postgres.port), ("127.0.0.1", valkey.port))
        async with playing(place, env=env, linked=True) as scene:
            phases: dict[str, Any] = {"valkey": await _silent_store(scene, "valkey", "queue", valkey)}
            phases["postgres"] = await _silent_store(scene, "postgres", "postgres", postgres)
            figures = await scene.finish()
            assert scene.link is not None
            phases["upstream"] = await _silent_upstream(scene, scene.link)
            return scene.findings, {**figures, "phases": phases}


async def _silent_store(scene: Scene, name: str, dependency: str, link: Link) -> dict[str, Any]:
    await scene.talk(CALM_S, f"{name} answers")
    link.vanish()
    cutting = asyncio.create_task(scene.talk(CUT_S, f"{name} has vanished: nothing passes, nothing is closed"))
    told_s = await scene.until_ready_says(dependency, False, CUT_S)
    during = await cutting
    link.heal()
    scene.place.say(f"{name} is back, for new connections only")
    back_s = await scene.until_ready_says(dependency, True, BACK_S)
    _, whole_s = await scene.service.whole()
    scene.place.say(f"{name}: ready said so after {back_s or BACK_S:.1f} s, whole after {whole_s:.1f} s more")
    elsewhere = during.captures.get("spool", 0)
    scene.findings += [
        none(f"{name} away: completions failed", during.failures),
        at_least(f"{name} away: answers", len(during.answers), 20),
        at_most(f"{name} away: the most that memory added", during.added_ms(1.0), ADDED_MS_MAX, "ms"),
        so(f"{name} away: ready says so", told_s is not None),
        at_most(f"{name} back: until ready says so", float("inf") if back_s is None else back_s, BACK_S, "s"),
    ]
    if name == "valkey":
        scene.findings.append(at_least("valkey away: captured to the spool", elsewhere, 10))
    return {
        "captures": during.captures,
        "statuses": during.statuses,
        "added_ms_p95": during.added_ms(0.95),
        "added_ms_max": during.added_ms(1.0),
        "told_s": told_s,
        "back_s": back_s,
        "whole_s": whole_s,
    }


async def _silent_upstream(scene: Scene, link: Link) -> dict[str, Any]:
    """Nobody can tell a model that thinks from one that vanished: such completions wait until their client leaves."""
    url = scene.service.url
    link.vanish()
    scene.place.say("the upstream has vanished")
    waited = await ask(url, 8, PATIENCE_S)
    told_s = await scene.until_ready_says("upstream", False, CUT_S)
    began = time.monotonic()
    ready = await scene.service.ready()
    took_s = time.monotonic() - began
    link.heal()
    scene.place.say("the upstream is back, for new connections only")
    await asyncio.sleep(POOL_S)
    answered = await ask(url, 8, PATIENCE_S)
    scene.findings += [
        none(
            "upstream away: completions that ended by themselves as if whole",
            sum(status == 200 for status, _ in waited),
        ),
        so("upstream away: ready says so and stays 200", told_s is not None and ready.get("http") == 200),
        at_most("upstream away: the slowest answer of /memory/ready", took_s, 1.0, "s"),
        none("upstream back: completions not answered", sum(status != 200 for status, _ in answered), answered),
    ]
    return {"told_s": told_s, "waited": waited, "answered": answered}
