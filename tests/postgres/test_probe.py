"""The probe reads less than all of a tenant in its own process, and finds what it found when it read all."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import asyncpg
import pytest

from memory.adapters.postgres import erase_probe
from memory.adapters.postgres.erase_probe import Column, DatabaseProbe, Reading
from memory.adapters.postgres.own_memory import Collection
from memory.adapters.postgres.queries import Query
from memory.adapters.redis_erase import RedisErase
from memory.documents import ORIGIN
from memory.erasure.model import Items
from memory.erasure.probing import Probing, Sought
from memory.erasure.shingles import RUN, SHORT_RUN, Shingles, _runs, _words
from memory.erasure.wanted import Wanted, _strings_of
from tests.postgres.seed import Stores, stores
from tests.postgres_fixture import TestDatabase
from tests.valkey_fixture import ValkeyServer

DERIVATIONS = [
    Column("tenant_id", "uuid"),
    Column("derived_id", "uuid"),
    Column("derived_kind", "text"),
    Column("source_id", "uuid"),
    Column("source_kind", "text"),
]
NOT_LOOKED_AT = {"erasures", "erasure_items", "schema_migrations"}
KEPT_ON_PURPOSE = {"outbox.object_id", "audit_log.ids", "audit_log.detail"}
BY_HAND = (ORIGIN, *get_args(Collection))
COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, NULL)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
ORDER BY c.relname, a.attnum
"""
NO_RULES = """
DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT conrelid::regclass AS t, conname FROM pg_constraint
               WHERE connamespace = 'public'::regnamespace AND contype IN ('f', 'c', 'p', 'u')
               ORDER BY array_position(ARRAY['f', 'c', 'p', 'u'], contype::text) LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I CASCADE', one.t, one.conname);
    END LOOP;
    FOR one IN SELECT indexrelid::regclass AS i FROM pg_index JOIN pg_class c ON c.oid = indrelid
               WHERE indisunique AND c.relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('DROP INDEX %s', one.i);
    END LOOP;
    FOR one IN SELECT attrelid::regclass AS t, attname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
               WHERE attnotnull AND attnum > 0 AND attidentity = '' AND relkind = 'r'
               AND c.relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', one.t, one.attname);
    END LOOP;
END $$
"""


@dataclass
class Gone:
    """What one erasure has taken out."""

    texts: tuple[str, ...]
    made: tuple[str, ...]
    turns: list[UUID] = field(default_factory=lambda: [UUID(bytes=os.urandom(16)) for _ in range(3)])
    memories: list[UUID] = field(default_factory=lambda: [UUID(bytes=os.urandom(16)) for _ in range(3)])
    keys: list[UUID] = field(default_factory=lambda: [UUID(bytes=os.urandom(16))])

    @property
    def ids(self) -> list[UUID]:
        return [*self.turns, *self.memories]

    def sought(self) -> Sought:
        words, made = Shingles(), Shingles()
        for text in self.texts:
            words.add(text)
        for text in self.made:
            made.add(text)
        kinds = {"turn": self.turns, "memory": self.memories, "key": self.keys}
        items = Items({kind: dict.fromkeys(map(str, some), 1) for kind, some in kinds.items()})
        return Sought(UUID(bytes=os.urandom(16)), items, words, made, 0)


class AllRuns:
    """Runs of words, each looked at."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.of: dict[int, set[int]] = {RUN: set(), SHORT_RUN: set()}
        for words in map(_words, texts):
            length = RUN if len(words) >= RUN else SHORT_RUN
            self.of[length].update(_runs(words, length))

    def spare(self, text: str) -> None:
        for length, runs in self.of.items():
            runs.difference_update(_runs(_words(text), length))

    def found_in(self, text: str) -> bool:
        return any(not runs.isdisjoint(_runs(_words(text), length)) for length, runs in self.of.items())


@dataclass
class InAllOfIt:
    """What each value was asked for one erasure: everything."""

    gone: Gone
    named: set[str]
    words: AllRuns
    made: AllRuns

    def count(self, value: Any) -> int:
        ids = [one for one in self.gone.ids if str(one) not in self.named]
        plain = Wanted(ids, self.gone.keys)
        if value is None or isinstance(value, UUID):
            return plain.count(value)
        if isinstance(value, bytes):
            found = plain.count(value)
            if found or (value[:1] == b"\x01" and len(value) > 64):
                return found
            try:
                value = value.decode()
            except UnicodeDecodeError:
                return 0
        text = value if isinstance(value, str) else _strings_of(value)
        return plain.count(text) + (self.words.found_in(text) or self.made.found_in(text))


@dataclass
class Store:
    """A database without rules, of which every table is filled, and how it was gone through before."""

    made: Stores
    owner: asyncpg.Connection
    columns: dict[str, list[tuple[str, str]]]
    scopes: Sequence[int]

    async def fill(self, draw: random.Random, gone: Sequence[Gone]) -> None:
        await self.owner.execute("SET session_replication_role = replica")
        for table, columns in self.columns.items():
            asked = [one for one in columns if one[1] in VALUES or one[0] == "scope_id"]
            places = ", ".join(f"${at}::text::{kind}" for at, (_, kind) in enumerate(asked, 1))
            names = ", ".join(name for name, _ in asked)
            for _ in range({"turns": 40, "memory_versions": 40}.get(table, 12) if asked else 0):
                by_hand = draw.random() < 0.4
                is_source = table in ("turns", "documents") or by_hand
                of = [replace(one, made=one.made[1:]) for one in gone] if is_source else gone  # only memories say all
                row = [self._value(draw, table, name, kind, of, by_hand) for name, kind in asked]
                more = "OVERRIDING SYSTEM VALUE" if table == "scopes" else ""
                await self.owner.execute(f"INSERT INTO {table} ({names}) {more} VALUES ({places})", *row)

    def _value(
        self, draw: random.Random, table: str, name: str, kind: str, gone: Sequence[Gone], by_hand: bool
    ) -> str | None:
        if name == "tenant_id":
            return str(self.made.tenant)
        if name == "scope_id":
            return str(draw.choice(self.scopes)) if table != "scopes" else str(draw.randrange(1_000, 10**9))
        if name == "origin" and by_hand:
            return str(draw.choice(BY_HAND))
        needed = (table, name) in {("turns", "content"), ("documents", "name")} or table == "memory_versions"
        if draw.random() < 0.3 and not needed:
            return None
        if (table, name) == ("turns", "source_id") and draw.random() < 0.05:
            return str(draw.choice(draw.choice(gone).ids))
        return VALUES[kind](draw, draw.choice(gone))

    async def found_in_all_of_it(self, gone: Sequence[Gone]) -> list[Counter[str]]:
        """Two passes, of which the second reads every value of every row."""
        wanted = [InAllOfIt(one, set(), AllRuns(one.texts), AllRuns(one.made)) for one in gone]
        for content, source_id in await self._all("turns", ["content", "source_id"]):
            for one in wanted:
                one.named.add(source_id)
                one.words.spare(content)
                one.made.spare(content)
        for content, origin, attributes in await self._all("memory_versions", ["content", "origin", "attributes"]):
            for one in wanted:
                one.made.spare(content)
                for text in (content, str(attributes)) if origin in BY_HAND else ():
                    one.words.spare(text)
                    one.made.spare(text)
        for (name,) in await self._all("documents", ["name"]):
            for one in wanted:
                one.words.spare(name)
                one.made.spare(name)
        found = [Counter[str]() for _ in gone]
        for table, columns in self.columns.items():
            names = [name for name, kind in columns if kind in VALUES and f"{table}.{name}" not in KEPT_ON_PURPOSE]
            for row in await self._all(table, names) if table not in NOT_LOOKED_AT else ():
                for name, value in zip(names, row, strict=True):
                    for at, one in enumerate(wanted):
                        found[at][f"{table}.{name}"] += one.count(value)
        return [+one for one in found]

    async def _all(self, table: str, names: Sequence[str]) -> list[Any]:
        query = Query("all", f"SELECT {', '.join(names)} FROM {table}", (), (), tuple(names))
        async with self.made.database.transaction(self.made.tenant, self.scopes, read_only=True) as tx:
            if not await tx._connection.fetchval("SELECT has_table_privilege($1, 'SELECT')", table):
                return []
            return [list(row) async for row in tx.stream(query)]


def text_of(draw: random.Random, gone: Gone) -> str:
    """Something that holds some of it, or seems to."""
    said = draw.choice((*gone.texts, *gone.made))
    words = said.split()
    one, other = str(draw.choice(gone.ids)), str(UUID(int=draw.getrandbits(128)))
    at = draw.randrange(max(1, len(words) - RUN))
    return draw.choice(
        (
            "", "internal", "unreviewed", "org/Model-3.1-8B-Instruct", other, one, one.upper(), one.replace("-", ""),
            f"see {one}, and {other}", said, said.upper(), said.replace(" ", "\n"), f"he says: {said}!",
            " ".join(words[at : at + RUN]), " … ".join(words[at : at + RUN - 1]), " ".join(words[at : at + SHORT_RUN]),
            said.replace(" ", "\\"), said.replace(" ", '"'), "what others say " * draw.randrange(1, 9),
            "日本語" + said, "ᾷ ᾷ a", "中a中a中a",
        )
    )  # fmt: skip


def document_of(draw: random.Random, gone: Gone, depth: int = 0) -> Any:
    leaf: tuple[Any, ...] = (
        None,
        True,
        draw.random(),
        draw.randrange(10**40),
        [],
        {},
        *[text_of(draw, gone) for _ in range(4)],
    )
    if depth == 3 or draw.random() < 0.3:
        return draw.choice(leaf)
    inside = [document_of(draw, gone, depth + 1) for _ in range(draw.randrange(4))]
    return draw.choice((inside, {text_of(draw, gone): one for one in inside}))


def bytes_of(draw: random.Random, gone: Gone) -> str:
    one, key = draw.choice(gone.ids).bytes, draw.choice(gone.keys).bytes
    around = draw.randbytes(draw.randrange(60))
    value = draw.choice(
        (
            b"", draw.randbytes(32), one, around + one + around, draw.randbytes(113) + one, b"\x01" + key,
            b"\x01" + key + draw.randbytes(90), b"\x01" + draw.randbytes(90) + one, text_of(draw, gone).encode(),
        )
    )  # fmt: skip
    return "\\x" + value.hex()


def array_of(values: Iterator[str]) -> str:
    return "{" + ",".join('"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in values) + "}"


def id_of(draw: random.Random, gone: Gone) -> str:
    return str(draw.choice((*gone.ids, *[UUID(int=draw.getrandbits(128)) for _ in gone.ids])))


VALUES: dict[str, Callable[[random.Random, Gone], str]] = {
    "text": text_of,
    "character varying": text_of,
    "uuid": id_of,
    "bytea": bytes_of,
    "jsonb": lambda draw, gone: json.dumps(document_of(draw, gone), ensure_ascii=draw.random() < 0.5),
    "text[]": lambda draw, gone: array_of(text_of(draw, gone) for _ in range(draw.randrange(4))),
    "uuid[]": lambda draw, gone: array_of(id_of(draw, gone) for _ in range(draw.randrange(4))),
}


@pytest.mark.parametrize("asks_ids", [True, False])
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_found_less_than_in_all_of_it(
    postgres: TestDatabase,
    valkey: ValkeyServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    seed: int,
    asks_ids: bool,
) -> None:
    """Copies of words and ids in every column that the catalogue has, of two erasures that are looked for at once."""
    monkeypatch.setattr(erase_probe, "IDS_ASKED_MAX", 10_000 if asks_ids else 1)
    draw = random.Random(seed)
    gone = [
        Gone(
            tuple(
                " ".join(f"w{draw.randrange(60)}{'é' * (draw.random() < 0.1)}" for _ in range(n)) for n in (26, 9, 6, 4)
            ),
            tuple(" ".join(f"w{draw.randrange(60)}" for _ in range(n)) for n in (14, 14, 5)),
        )
        for _ in range(2)
    ]
    redis = RedisErase(valkey.url, valkey.url)
    async with stores(postgres) as made:
        scopes = [await made.write.scope_id(made.scope(user)) for user in ("ada", "eve")]
        owner = await asyncpg.connect(postgres.owner)
        await owner.execute(NO_RULES)
        columns: dict[str, list[tuple[str, str]]] = {}
        for table, name, kind in await owner.fetch(COLUMNS):
            columns.setdefault(table, []).append((name, kind))
        store = Store(made, owner, columns, scopes)
        await store.fill(draw, gone)
        sought = [one.sought() for one in gone]
        probing = Probing(DatabaseProbe(made.database), redis, tmp_path / "spool", lambda _: 0)
        found = await probing.run(made.tenant, scopes, sought)
        before = await store.found_in_all_of_it(gone)
        await owner.close()
        await redis.close()
    for one, its in zip(found, before, strict=True):
        assert dict(its - Counter(one.found)) == dict(Counter(one.found) - its) == {}
    places = set().union(*before)
    assert len(places) > 100 and {"turns.content", "memory_versions.content"} <= places


async def test_ids_that_are_not_looked_for_do_not_leave_the_server_nor_is_all_of_a_table_one_fetch(
    postgres: TestDatabase,
) -> None:
    """Of 250,000 memories two million rows came, and each of their values took the probe's process its time."""
    async with stores(postgres) as made:
        scope_id = await made.write.scope_id(made.scope("ada"))
        postgres.psql(
            "INSERT INTO derivations SELECT tenant_id, gen_random_uuid(), 'memory', "
            f"lpad(to_hex(n), 32, '0')::uuid, 'turn', 0, {scope_id} FROM tenants, generate_series(1, 3000) n"
        )
        rows = list[Any]()
        query = erase_probe._looking("derivations", DERIVATIONS, asks_ids=True)
        reading = Reading(query, ([UUID(int=7)],), rows.append)
        await DatabaseProbe(made.database)._read(made.tenant, [scope_id], [reading])
    found = [row for row in rows if any(value is not None for value in row)]
    assert [dict(row) for row in found] == [
        {"tenant_id": None, "derived_id": None, "derived_kind": None, "source_id": UUID(int=7), "source_kind": None}
    ]
    assert 1 < len(rows) < 300, "enough that each fetch ends, and few"
