"""Leaks: many tenants and users on one service, with a canary in every scope; whose words came out where they must not.

    python -m bench.security_leaks                          20,000 requests, 32 at a time
    python -m bench.security_leaks --requests 2000 --lines-max 20 --scopes-max 40 --json leaks.json

A service of its own with keys and two workers, before a stand-in model that quotes the whole prompt back. Requests
come with true, forged, missing, doubled and oversized identity; keys are revoked and scopes deleted while they run.
Looked at are every upstream request, every answer, the log, the metrics, exports, and each stored record of what a
request was given. Then the second wall alone (bench/leak_walls.py). Exit 1: a foreign word or id anywhere, a request
served that had to be refused, or a place where not even callers' own words were met. Exit 2: it could not run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import aiohttp
import asyncpg

from bench.leak_findings import Findings, Model, report_of, table
from bench.leak_store import NAMES, Owner, Words, owners_of
from bench.leak_traffic import Call, Keys, Traffic
from bench.leak_walls import Attack, Walls, attacked
from bench.overhead.processes import NotStarted
from bench.recall.client import CallFailed, import_turns
from bench.recall.corpus import SetUnreadable
from bench.search_times.service import Served, serving
from bench.standing_in import standing_in
from bench.work_folder import work_folder
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from memory.errors import StoreUnavailable
from proxy.cli.whole_file import file_to_write

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
HOT_BYTES: Final = 512 << 20
SETTLE_S: Final = 1_800.0
DIM: Final = 384
_MAY: Final = ("memory:read:own", "memory:write", "act:any_user")
# What goes at once while a scope is deleted: what the product's own tables hold of it, children first.
_CONTENT: Final = ("derivations", "memories", "turns", "retrievals", "ledger")


@dataclass(frozen=True, slots=True)
class Leaks:
    """One run's parts."""

    args: argparse.Namespace
    owners: Sequence[Owner]
    words: Words
    findings: Findings
    model: Model
    service: Served
    http: aiohttp.ClientSession
    store: KeyStore
    tenants: Mapping[str, UUID]

    async def run(self) -> Walls:
        """Fill, ask, look everywhere, then try the second wall."""
        keys, dying = await self._keys()
        await self._fill(keys)
        ids = await self._ids()
        traffic = Traffic(self.owners, keys, ids, self.args.seed)
        calls = [traffic.next(number) for number in range(self.args.requests)]
        self.model.sent.update({str(number): call for number, call in enumerate(calls)})
        began = time.monotonic()
        await self._ask(calls, dying)
        _say(f"{len(calls)} requests in {time.monotonic() - began:.0f} s")
        await self._settled(keys)
        await self._after(keys)
        return await self._walls()

    async def _keys(self) -> tuple[Keys, Mapping[str, UUID]]:
        any_user, dying, dying_ids = {}, {}, {}
        now = datetime.now(UTC)
        for name, tenant in self.tenants.items():
            _, any_user[name] = await self.store.create_api_key(tenant, "any", now, capabilities=_MAY)
            dying_ids[name], dying[name] = await self.store.create_api_key(tenant, "dies", now, capabilities=_MAY)
        fixed = {}
        for owner in self.owners[::5]:
            names = {"user": owner.user, "project": owner.project}
            _, fixed[owner.number] = await self.store.create_api_key(
                self.tenants[owner.tenant], "fixed", now, fixed=names, capabilities=_MAY[:2]
            )
        await asyncio.sleep(1.5)  # known to every process
        return Keys(any_user, fixed, dying), dying_ids

    async def _fill(self, keys: Keys) -> None:
        gate = asyncio.Semaphore(4)

        async def one(owner: Owner) -> None:
            headers = {"Authorization": f"Bearer {keys.any_user[owner.tenant]}", "X-Memory-Project": owner.project}
            async with gate, aiohttp.ClientSession(headers=headers) as http:
                await import_turns(http, self.service.url, owner.user, owner.lines, lambda _: None)

        began = time.monotonic()
        await asyncio.gather(*(one(owner) for owner in self.owners))
        turns, tenants = sum(len(owner.lines) for owner in self.owners), len(self.tenants)
        _say(f"{turns} turns of {len(self.owners)} scopes of {tenants} tenants, {time.monotonic() - began:.0f} s")

    async def _ids(self) -> dict[int, list[str]]:
        """Ids of memories and sessions by scope number, read past every wall."""
        connection = await asyncpg.connect(self.service.dsn)
        try:
            rows = await connection.fetch(
                "SELECT t.name, s.user_name, s.project, array_agg(m.memory_id::text) AS ids FROM scopes s"
                " JOIN tenants t USING (tenant_id) JOIN memories m USING (tenant_id, scope_id)"
                " WHERE s.visibility = 'own' GROUP BY 1, 2, 3"
            )
        finally:
            await connection.close()
        by_identity = {(row["name"], row["user_name"], row["project"]): list(row["ids"])[:20] for row in rows}
        return {owner.number: by_identity.get(owner.identity, []) for owner in self.owners}

    async def _ask(self, calls: Sequence[Call], dying: Mapping[str, UUID]) -> None:
        gate = asyncio.Semaphore(self.args.concurrency)

        async def one(number: int, call: Call) -> None:
            async with gate:
                await self._send(call)
            if number % 500 == 0:
                _say(f"\r{number} of {len(calls)} ", end="")

        upheaval = asyncio.create_task(self._upheaval(len(calls), dying))
        await asyncio.gather(*(one(number, call) for number, call in enumerate(calls)))
        await upheaval

    async def _send(self, call: Call) -> None:
        url = self.service.url + call.path
        data = None if call.body is None else json.dumps(call.body).encode()
        headers = [("Content-Type", "application/json"), *call.headers]
        self.findings.requests += 1
        self.findings.kinds[call.kind] += 1
        try:
            async with self.http.request(call.method, url, data=data, headers=headers) as answer:
                body = await answer.read()
                head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items()).encode()
        except (aiohttp.ClientError, ValueError, TimeoutError) as exc:
            self.findings.statuses[type(exc).__name__] += 1
            return
        self.findings.statuses[str(answer.status)] += 1
        self.findings.look("answer", call.kind, head + b"\n" + body, call.sees, self.words)
        if call.statuses and answer.status not in call.statuses and answer.status < 500:
            said = {"kind": call.kind, "status": str(answer.status), "said": body[:120].decode("utf-8", "replace")}
            self.findings.served_wrongly.append(said)

    async def _upheaval(self, total: int, dying: Mapping[str, UUID]) -> None:
        """Revoke keys and delete scopes while requests run: at a third and at two thirds of them."""
        while self.findings.requests < total / 3:
            await asyncio.sleep(0.05)
        for name, key_id in dying.items():
            await self.store.revoke_api_key(self.tenants[name], key_id, datetime.now(UTC))
            self.findings.revoked += 1
        while self.findings.requests < total * 2 / 3:
            await asyncio.sleep(0.05)
        connection = await asyncpg.connect(self.service.dsn)
        try:
            for owner in self.owners[::10]:
                await _delete(connection, owner)
                self.findings.deleted += 1
        finally:
            await connection.close()

    async def _settled(self, keys: Keys) -> None:
        headers = {"Authorization": f"Bearer {next(iter(keys.any_user.values()))}"}
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            async with self.http.get(f"{self.service.url}/memory/v1/queue", headers=headers) as answer:
                queue = await answer.json()
            if queue.get("pending", 1) + queue.get("in_flight", 1) == 0:
                return
            await asyncio.sleep(0.2)
        raise CallFailed(f"the queue does not drain in {SETTLE_S:.0f} s")

    async def _after(self, keys: Keys) -> None:
        """The log, the metrics, every scope's export, and the record of what each request was given."""
        assert self.service.data is not None
        log = (self.service.data.parent / "service.log").read_bytes()
        self.findings.look("log", "the whole log", log, None, self.words)
        now = datetime.now(UTC)
        _, admin = await self.store.create_api_key(
            next(iter(self.tenants.values())), "metrics", now, capabilities=("metrics:read",)
        )
        await asyncio.sleep(1.5)
        async with self.http.get(
            f"{self.service.url}/memory/metrics", headers={"Authorization": f"Bearer {admin}"}
        ) as answer:
            page = await answer.read()
        self.findings.look("metrics", "the page", page, None, self.words)
        alerts = [line for line in page.splitlines() if line.startswith(b"memory_proxy_canary_seen_total{")]
        if sum(float(line.rsplit(b" ", 1)[1]) for line in alerts):
            self.findings.leaks.append({"where": "metrics", "kind": "canary alert", "of": "?", "to": "?"})
        for owner in self.owners:
            headers = {
                "Authorization": f"Bearer {keys.any_user[owner.tenant]}",
                "X-Memory-User": quote(owner.user),
                "X-Memory-Project": quote(owner.project),
            }
            async with self.http.get(f"{self.service.url}/memory/v1/export", headers=headers) as answer:
                self.findings.look("export", "export", await answer.read(), owner.identity, self.words)
        await self._records()

    async def _records(self) -> None:
        """Each stored record names only turns and memories of its own scope or of what its tenant shares."""
        connection = await asyncpg.connect(self.service.dsn)
        try:
            rows = await connection.fetch(
                "SELECT r.retrieval_id, count(*) AS ids, count(*) FILTER (WHERE m.memory_id IS NOT NULL"
                " AND (m.tenant_id, m.scope_id) <> (r.tenant_id, r.scope_id)) AS foreign_ids"
                " FROM retrievals r CROSS JOIN LATERAL jsonb_array_elements(r.candidates) c"
                " LEFT JOIN memories m ON m.memory_id = (c ->> 'id')::uuid GROUP BY 1"
            )
        finally:
            await connection.close()
        self.findings.looked_at["stored record"] += len(rows)
        self.findings.own_words["stored record"] += sum(row["ids"] - row["foreign_ids"] for row in rows)
        self.findings.leaks += [
            {"where": "stored record", "kind": str(row["retrieval_id"]), "of": str(row["foreign_ids"]), "to": "?"}
            for row in rows
            if row["foreign_ids"]
        ]

    async def _walls(self) -> Walls:
        connection = await asyncpg.connect(self.service.dsn)
        try:
            table = await connection.fetchval("SELECT table_name FROM embedding_tables LIMIT 1")
            live = [owner for owner in self.owners if owner.number % 10]
            pairs = [(live[n], live[-1 - n]) for n in range(min(self.args.attacks, len(live) // 2))]
            same = [(a, b) for a in live for b in live if a.tenant == b.tenant and a.identity != b.identity]
            attacks = [await _attack(connection, *pair) for pair in (*pairs, *same[: self.args.attacks])]
        finally:
            await connection.close()
        settings = json.loads((Path(str(self.service.data)) / "run" / "settings.json").read_text())
        return await attacked(self.service.dsn, settings["database"]["url"], table, attacks, DIM)


async def _delete(connection: Any, owner: Owner) -> None:
    scope = await connection.fetchrow(
        "SELECT tenant_id, scope_id FROM scopes JOIN tenants USING (tenant_id)"
        " WHERE name = $1 AND user_name = $2 AND project = $3 AND visibility = 'own'",
        *owner.identity,
    )
    async with connection.transaction():
        await connection.execute(
            "UPDATE scope_versions SET version = version + 1, rebuild_version = version + 1"
            " WHERE tenant_id = $1 AND scope_id = $2",
            *scope,
        )
        for name in _CONTENT:
            await connection.execute(f"DELETE FROM {name} WHERE tenant_id = $1 AND scope_id = $2", *scope)


async def _attack(connection: Any, me: Owner, other: Owner) -> Attack:
    async def scope(owner: Owner) -> Any:
        return await connection.fetchrow(
            "SELECT tenant_id, scope_id FROM scopes JOIN tenants USING (tenant_id)"
            " WHERE name = $1 AND user_name = $2 AND project = $3 AND visibility = 'own'",
            *owner.identity,
        )

    mine, theirs = await scope(me), await scope(other)
    ids: list[UUID] = []
    for name, column in (
        ("memories", "memory_id"),
        ("turns", "event_id"),
        ("sessions", "session_id"),
        ("exchanges", "exchange_id"),
        ("retrievals", "retrieval_id"),
    ):
        found = await connection.fetch(
            f"SELECT {column} AS id FROM {name} WHERE tenant_id = $1 AND scope_id = $2 LIMIT 2",
            *theirs,
        )
        ids += [UUID(int=row["id"].int) for row in found]
    chains = await connection.fetch("SELECT chain FROM turns WHERE tenant_id = $1 AND scope_id = $2 LIMIT 5", *theirs)
    label = await connection.fetchval(
        "SELECT label FROM sessions WHERE tenant_id = $1 AND scope_id = $2 LIMIT 1", *theirs
    )
    return Attack(
        tenant=UUID(int=mine["tenant_id"].int),
        scope_ids=(mine["scope_id"],),
        foreign_tenant=UUID(int=theirs["tenant_id"].int),
        foreign_scopes=(theirs["scope_id"],),
        ids=tuple(ids),
        chains=tuple(row["chain"] for row in chains),
        words=(other.mark.encode(), other.canary.encode()),
        label=label,
        names=(other.user, other.project, "default"),
    )


async def measured(args: argparse.Namespace) -> dict[str, Any]:
    """The report of one run. Raises what stops it."""
    owners = owners_of(
        args.data,
        args.sets.split(","),
        tenants=args.tenants,
        scopes_max=args.scopes_max,
        lines_max=args.lines_max,
        seed=args.seed,
    )
    words, findings = Words(owners), Findings()
    model = Model(words, findings)
    more = "  deadline_ms: 5000\nauth:\n  mode: keys\nlisten:\n  workers: 2\n"
    with work_folder(prefix="mp-leaks-") as work:
        async with (
            standing_in(model) as upstream,
            serving(work, upstream, HOT_BYTES, more) as service,
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=120), connector=aiohttp.TCPConnector(limit=args.concurrency)
            ) as http,
        ):
            database = await Database.open(service.dsn)
            try:
                store, now = KeyStore(database), datetime.now(UTC)
                names = sorted({owner.tenant for owner in owners})
                tenants = {name: await store.ensure_tenant(name, now) for name in names}
                leaks = Leaks(args, owners, words, findings, model, service, http, store, tenants)
                walls = await leaks.run()
            finally:
                await database.close()
    return report_of(args.concurrency, owners, findings, walls)


def _say(text: str, end: str = "\n") -> None:
    sys.stderr.write(text + end)
    sys.stderr.flush()


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--tenants", type=int, default=8)
    parser.add_argument("--sets", default=",".join(NAMES), help="default %(default)s")
    parser.add_argument("--scopes-max", type=int, default=300, help="scopes of each set (default %(default)s)")
    parser.add_argument("--lines-max", type=int, default=10_000, help="lines of each scope (default: all)")
    parser.add_argument("--attacks", type=int, default=4, help="pairs that try the second wall, of two kinds (4)")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MP_EVALDATA", DATA)))
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="also write the report there")
    args = parser.parse_args()
    try:
        report = asyncio.run(measured(args))
    except (NotStarted, CallFailed, SetUnreadable, StoreUnavailable, OSError) as exc:
        _say(f"security_leaks: {type(exc).__name__}: {exc}")
        return 2
    print(table(report))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    wrong = (report["leaks"], report["served_that_had_to_be_refused"], report["second_wall_alone"]["foreign_rows"])
    return 1 if any(wrong) or report["unseen"] else 0


if __name__ == "__main__":
    sys.exit(main())
