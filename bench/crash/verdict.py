"""What is in the store against what was acknowledged: marks in, a Verdict out.

Reads the store as its owner, past row-level security, and opens every sealed exchange with the service's own keys. A
mark must be in one user turn, in one exchange (as its last user message) and in one episodic memory; the numbers of
every session must run from 0 without a gap. Refuses to judge while anything waits: settle first.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg

from bench.crash.traffic import Acknowledged
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.rows import base_of
from memory.kept import kept_exchange
from memory.keys import KeyRing, load_or_create_master_key

MARK: Final = re.compile(r"mark-\d{3}-\d{6}")
SHOWN_MAX: Final = 20
_TURNS: Final = "SELECT content FROM turns WHERE role = 'user'"
_MEMORIES: Final = (
    "SELECT v.content FROM memory_versions v JOIN memories m USING (tenant_id, memory_id)"
    " WHERE m.kind = 'episodic' AND v.role = 'user' AND v.recorded_to IS NULL"
)
_EXCHANGES: Final = """SELECT e.tenant_id, e.subject_id, e.exchange_id, e.sealed, e.base_id, b.sealed AS base_sealed
FROM exchanges e LEFT JOIN exchanges b ON b.tenant_id = e.tenant_id AND b.exchange_id = e.base_id
WHERE e.sealed IS NOT NULL"""
_GAPS: Final = (
    "SELECT s.label FROM sessions s JOIN turns t USING (tenant_id, session_id) GROUP BY s.tenant_id, s.session_id"
    " HAVING count(*) <> max(t.seq) + 1 OR min(t.seq) <> 0 OR s.next_seq <> count(*)"
)


@dataclass(frozen=True, slots=True)
class Compared:
    """Marks against one table: those missing, those there more than once."""

    lost: tuple[str, ...]
    doubled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the store holds. `split`: conversations recognised by their chain that went on in a second session."""

    acknowledged: int
    turns: Compared
    exchanges: Compared
    memories: Compared
    exchange_rows: int
    gaps: tuple[str, ...]
    dead: int
    split: tuple[str, ...] = field(default=())

    @property
    def lost(self) -> int:
        """Acknowledged exchanges that are not whole in the store."""
        return len({*self.turns.lost, *self.exchanges.lost, *self.memories.lost})

    @property
    def doubled(self) -> int:
        """Acknowledged exchanges that are there more than once."""
        return len({*self.turns.doubled, *self.exchanges.doubled, *self.memories.doubled})

    @property
    def kept(self) -> bool:
        """Whether the promise held; one that was never given did not."""
        return self.acknowledged > 0 and not (self.lost or self.doubled or self.gaps or self.dead)


async def judge(dsn: str, data: Path, acknowledged: Sequence[Acknowledged], dead: int) -> Verdict:
    """Read the whole store and compare."""
    marks = {exchange.mark for exchange in acknowledged}
    connection = await asyncpg.connect(dsn)
    try:
        turns = _marks(row["content"] for row in await connection.fetch(_TURNS))
        memories = _marks(row["content"] for row in await connection.fetch(_MEMORIES))
        rows = await connection.fetch(_EXCHANGES)
        gaps = tuple(row["label"] for row in await connection.fetch(_GAPS))
    finally:
        await connection.close()
    return Verdict(
        acknowledged=len(marks),
        turns=compare(marks, turns),
        exchanges=compare(marks, _marks(await _last_user_messages(dsn, data, rows))),
        memories=compare(marks, memories),
        exchange_rows=len(rows),
        gaps=gaps,
        dead=dead,
        split=_split(acknowledged),
    )


def compare(marks: Collection[str], found: Mapping[str, int]) -> Compared:
    """Which marks are missing, which are there more than once."""
    lost = tuple(sorted(mark for mark in marks if not found.get(mark)))
    return Compared(lost, tuple(sorted(mark for mark in marks if found.get(mark, 0) > 1)))


def _marks(texts: Iterable[str]) -> Counter[str]:
    return Counter(mark for text in texts for mark in MARK.findall(text))


async def _last_user_messages(dsn: str, data: Path, rows: Sequence[Any]) -> list[str]:
    """The text of the last user message of every exchange."""
    database = await Database.open(dsn)
    try:
        keys = KeyRing(KeyStore(database), load_or_create_master_key(data / "master.key"))
        found = []
        for row in rows:
            tenant, subject, exchange = (UUID(int=row[one].int) for one in ("tenant_id", "subject_id", "exchange_id"))
            base = base_of(row["base_id"], row["base_sealed"])
            captured = await kept_exchange(keys, tenant, subject, exchange, row["sealed"], base)
            found.append(str(json.loads(captured.request)["messages"][-1]["content"]))
        return found
    finally:
        await database.close()


def _split(acknowledged: Sequence[Acknowledged]) -> tuple[str, ...]:
    sessions: dict[str, set[str]] = {}
    for exchange in acknowledged:
        if exchange.kind == "chained":
            sessions.setdefault(exchange.conversation, set()).add(exchange.session)
    return tuple(sorted(conversation for conversation, labels in sessions.items() if len(labels) > 1))
