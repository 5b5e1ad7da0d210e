"""What the leak test saw: bytes and whose they may be in, counts and what was foreign out; and the model that looks.

The stand-in model sees every request that reaches the upstream and answers with the whole prompt: whatever was placed
comes back to the client, and is captured.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from bench.leak_store import Owner, Words
from bench.leak_traffic import Call
from bench.leak_walls import Walls

SEEN: Final = ("upstream request", "answer", "export", "stored record")
"""Where callers' own words have to be met, or nothing of another's could have been."""


@dataclass(slots=True)
class Findings:
    """What was seen; mutable. `leaks`: where, of which kind of request, whose, and to whom it went."""

    requests: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    leaks: list[dict[str, str]] = field(default_factory=list)
    served_wrongly: list[dict[str, str]] = field(default_factory=list)
    looked_at: Counter[str] = field(default_factory=Counter)
    own_words: Counter[str] = field(default_factory=Counter)  # that the test sees anything at all
    revoked: int = 0
    deleted: int = 0

    def look(self, where: str, kind: str, data: bytes, sees: tuple[str, str, str] | None, words: Words) -> None:
        """Count what is the caller's own, keep what is not."""
        self.looked_at[where] += 1
        for owner in words.owners_in(data):
            if owner.identity == sees:
                self.own_words[where] += 1
            else:
                self.leaks.append({"where": where, "kind": kind, "of": str(owner.identity), "to": str(sees)})


class Model:
    """The stand-in: looks at every request that reaches it, and answers with the whole prompt."""

    def __init__(self, words: Words, findings: Findings) -> None:
        self._words = words
        self._findings = findings
        self.sent: dict[str, Call] = {}

    async def answer(self, request: web.Request) -> web.Response:
        """One chat completion."""
        raw = await request.read()
        body = json.loads(raw)
        call = self.sent.get(str((body.get("metadata") or {}).get("n")))
        head = "\n".join(f"{name}: {value}" for name, value in request.headers.items()).encode()
        kind, sees = (call.kind, call.sees) if call else ("unknown", None)
        self._findings.look("upstream request", kind, head + raw, sees, self._words)
        text = json.dumps(body["messages"], ensure_ascii=False)
        choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
        return web.json_response({"id": "c", "object": "chat.completion", "model": "m", "choices": choices})

    async def models(self, _request: web.Request) -> web.Response:
        """What is served."""
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 131072}]})


def unseen_in(found: Findings, walls: Walls) -> list[str]:
    """The places in which the test saw nothing at all, so that no leak there is no finding."""
    return [place for place in SEEN if not found.own_words[place]] + ([] if walls.with_power else ["second wall"])


def report_of(concurrency: int, owners: Sequence[Owner], found: Findings, walls: Walls) -> dict[str, Any]:
    """What is printed and written."""
    return {
        "requests": found.requests,
        "concurrency": concurrency,
        "tenants": len({owner.tenant for owner in owners}),
        "scopes": len(owners),
        "turns": sum(len(owner.lines) for owner in owners),
        "keys_revoked_on_the_way": found.revoked,
        "scopes_deleted_on_the_way": found.deleted,
        "kinds": dict(found.kinds.most_common()),
        "statuses": dict(found.statuses.most_common()),
        "looked_at": dict(found.looked_at),
        "own_words_seen": dict(found.own_words),
        "unseen": unseen_in(found, walls),
        "leaks": len(found.leaks),
        "leaks_by_place": dict(Counter(leak["where"] for leak in found.leaks)),
        "leaks_shown": found.leaks[:20],
        "served_that_had_to_be_refused": len(found.served_wrongly),
        "served_wrongly_shown": found.served_wrongly[:20],
        "second_wall_alone": {
            "queries": walls.queries,
            "runs": walls.runs,
            "queries_that_show_foreign_rows_past_it": len(walls.with_power),
            "rows_seen": walls.rows_seen,
            "foreign_rows": len(walls.foreign),
            "foreign_shown": sorted(set(walls.foreign))[:20],
            "refused_their_arguments": walls.refused,
        },
    }


def table(report: Mapping[str, Any]) -> str:
    """The report as a table."""
    wall = report["second_wall_alone"]
    lines = [
        f"{report['requests']} requests, {report['concurrency']} at a time; {report['scopes']} scopes of "
        f"{report['tenants']} tenants, {report['turns']} turns; {report['keys_revoked_on_the_way']} keys revoked and "
        f"{report['scopes_deleted_on_the_way']} scopes deleted on the way",
        "",
        "| looked at | how many | with the caller's own words | foreign |",
        "| --- | --- | --- | --- |",
    ]
    for where, count in report["looked_at"].items():
        foreign = report["leaks_by_place"].get(where, 0)
        lines.append(f"| {where} | {count} | {report['own_words_seen'].get(where, 0)} | {foreign} |")
    lines += [
        "",
        f"leaks {report['leaks']}, served that had to be refused {report['served_that_had_to_be_refused']}",
        f"second wall alone: {wall['queries']} read queries without their filter, {wall['runs']} runs, foreign rows "
        f"{wall['foreign_rows']} (past it {wall['queries_that_show_foreign_rows_past_it']} of them show some)",
        *(f"{place}: nothing was seen, so nothing is shown" for place in report["unseen"]),
    ]
    return "\n".join(lines)
