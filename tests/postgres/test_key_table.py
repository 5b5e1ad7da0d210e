"""The key table on a real Postgres: rotated with a grace, opened for tokens, closed where it is not understood."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.keys import KeyStore, secret_digest
from memory.config import Settings
from memory.errors import StoreUnavailable
from memory.key_command import keys
from memory.key_table import OpenedKeys
from memory.keys import KeyRing
from memory.stored import ApiKey
from policies.capability_token import root_of
from policies.key_limits import KeyLimits
from policies.labels import Sensitivity
from tests.postgres_fixture import TestDatabase

NOW = datetime(2026, 11, 21, tzinfo=UTC)
MASTER = bytes(range(32))
LIMITS = KeyLimits(requests_per_minute=5, models=frozenset({"m"}))


@dataclass(frozen=True, slots=True)
class Made:
    """A key, and how it was made."""

    database: Database
    store: KeyStore
    ring: KeyRing
    tenant: UUID
    key_id: UUID
    secret: str


@pytest.fixture
async def made(postgres: TestDatabase) -> AsyncIterator[Made]:
    database = await Database.open(postgres.app)
    store = KeyStore(database)
    tenant = await store.ensure_tenant("default", NOW)
    ring = KeyRing(store, MASTER)
    key_id, secret = await store.create_api_key(
        tenant, "laptop", NOW, limits=LIMITS, sensitivity_ceiling="confidential", ring=ring
    )
    yield Made(database, store, ring, tenant, key_id, secret)
    await database.close()


async def test_nothing_is_done_to_a_key_that_is_not_noted(
    made: Made, postgres: TestDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.model_validate({"data": {"dir": str(tmp_path)}, "database": {"url": postgres.app}})
    (tmp_path / "master.key").touch(0o600)
    (tmp_path / "master.key").write_bytes(MASTER)
    key = {"name": "tower", "tenant": "default", "capabilities": [], "limits": {}, "fixed": {}, "defaults": {}}
    named: dict[str, Any] = {"key": "tower", "tenant": None, "json": False}
    for asked in (
        {"act": "create", **key, "ceiling": "internal", "expires_in_s": None, "json": False},
        {"act": "rotate", **named, "grace_s": 60, "redo": False},
        {"act": "revoke", **named},
    ):
        postgres.psql("REVOKE INSERT ON audit_log FROM mp_app")
        with pytest.raises(StoreUnavailable):
            await keys(settings, json.dumps(asked))
        postgres.psql("GRANT INSERT ON audit_log TO mp_app")
        assert await keys(settings, json.dumps(asked)) == 0, capsys.readouterr().err
    noted = postgres.psql("SELECT string_agg(action, ' ' ORDER BY seq) FROM audit_log")
    assert noted == "key.create key.rotate key.revoke"


async def test_a_secret_is_shown_by_whoever_made_it_though_the_store_goes_a_moment_later(
    postgres: TestDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.model_validate({"data": {"dir": str(tmp_path)}, "database": {"url": postgres.app}})
    begin, is_done = Database.transaction, False

    @asynccontextmanager
    async def transaction(self: Database, *args: Any, **keywords: Any) -> AsyncIterator[Transaction]:
        nonlocal is_done
        if is_done:
            raise StoreUnavailable("no connection is free")
        async with begin(self, *args, **keywords) as tx:
            yield tx
        is_done = noted() > before

    def noted() -> int:
        return int(postgres.psql("SELECT count(*) FROM audit_log WHERE action LIKE 'key.%'"))

    monkeypatch.setattr(Database, "transaction", transaction)
    key = {"name": "tower", "tenant": "default", "capabilities": [], "limits": {}, "fixed": {}, "defaults": {}}
    named: dict[str, Any] = {"key": "tower", "tenant": None, "json": True}
    shown = []
    for asked in (
        {"act": "create", **key, "ceiling": "internal", "expires_in_s": None, "json": True},
        {"act": "rotate", **named, "grace_s": 60, "redo": False},
        {"act": "revoke", **named},
    ):
        is_done, before = False, noted()
        assert await keys(settings, json.dumps(asked)) == 0
        shown.append(json.loads(capsys.readouterr().out))
    made, rotated, revoked = shown
    assert rotated["former"]["prefix"] == made["prefix"] and made["secret"] != rotated["secret"]
    assert [one["state"] for one in shown] == ["in use", "in use", "revoked"]
    assert revoked["prefix"] == rotated["prefix"] == rotated["secret"][:11]


class _Unheard:
    """Postgres behind a link that dies when it has committed a change of the keys, its answer on the way."""

    def __init__(self, there: Path, committed: Callable[[], None]) -> None:
        self._there, self._committed = str(there / ".s.PGSQL.5432"), committed
        self.carried: set[asyncio.Task[None]] = set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.carried.add(asyncio.current_task())  # type: ignore[arg-type]  # a handler is one
        back, there = await asyncio.open_unix_connection(self._there)
        answers, changes, ends = asyncio.create_task(self._answers(back, writer)), False, False
        while not ends and (asked := await reader.read(65_536)):
            changes |= b"INTO api_keys" in asked or b"UPDATE api_keys" in asked
            if ends := changes and b"COMMIT" in asked:
                answers.cancel()
                await asyncio.wait([answers])
            there.write(asked)
        if ends:
            await back.read(65_536)
            self._committed()
        for end in (there, writer):
            end.close()
            await end.wait_closed()
        await asyncio.wait([answers])

    async def _answers(self, back: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while said := await back.read(65_536):
            writer.write(said)


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_secret_is_shown_before_it_holds_and_who_did_not_hear_the_end_is_told_where_to_look(
    postgres: TestDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """Whatever is killed, and when: a secret that was shown may not hold, and none holds that nobody was shown."""
    shown: list[str] = []
    link = _Unheard(postgres.server.root, lambda: shown.append(capsys.readouterr().out))
    key = {"name": "tower", "tenant": "default", "capabilities": [], "limits": {}, "fixed": {}, "defaults": {}}
    named: dict[str, Any] = {"key": "tower", "tenant": None, "grace_s": 0, "redo": False}
    async with await asyncio.start_unix_server(link.carry, tmp_path / ".s.PGSQL.5432"):
        dsn = f"postgresql://mp_app@/{postgres.name}?host={tmp_path}&port=5432"
        settings = Settings.model_validate({"data": {"dir": str(tmp_path)}, "database": {"url": dsn}})
        for asked in (
            {"act": "create", **key, "ceiling": "internal", "expires_in_s": None},
            {"act": "rotate", **named},
        ):
            with pytest.raises(StoreUnavailable):
                await keys(settings, json.dumps({**asked, "json": as_json}))
            secret = json.loads(shown[-1])["secret"] if as_json else shown[-1].strip()
            told = capsys.readouterr()
            assert (told.out, f"`memory-proxy key list` has {secret[:11]}" in told.err) == ("", True)
            assert postgres.psql("SELECT secret_sha256 FROM api_keys") == rf"\x{secret_digest(secret).hex()}"


async def test_two_commands_at_once_make_one_key_of_a_name(
    made: Made, postgres: TestDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.model_validate({"data": {"dir": str(tmp_path)}, "database": {"url": postgres.app}})
    (tmp_path / "master.key").touch(0o600)
    (tmp_path / "master.key").write_bytes(MASTER)
    key = {"name": "tower", "tenant": "default", "capabilities": [], "limits": {}, "fixed": {}, "defaults": {}}
    asked = json.dumps({"act": "create", **key, "ceiling": "internal", "expires_in_s": None, "json": False})
    assert sorted(await asyncio.gather(*(keys(settings, asked) for _ in range(4)))) == [0, 1, 1, 1]
    assert "has a key named 'tower' already" in capsys.readouterr().err
    assert postgres.psql("SELECT count(*) FROM api_keys WHERE name = 'tower'") == "1"


async def test_every_process_opens_the_same_root_and_limits(made: Made) -> None:
    for ring in (made.ring, KeyRing(made.store, MASTER)):
        opened = (await OpenedKeys(made.store, ring).all_active(NOW))[secret_digest(made.secret)]
        assert opened.token_root == root_of(made.secret)
        assert opened.authority.limits == LIMITS
        assert opened.authority.ceiling is Sensitivity.CONFIDENTIAL
        assert root_of(made.secret).hex() not in repr(opened)


async def test_what_signs_tokens_cannot_be_read_from_the_database(made: Made, postgres: TestDatabase) -> None:
    row = postgres.psql("SELECT api_keys::text FROM api_keys")
    assert root_of(made.secret).hex() not in row
    assert made.secret[12:] not in row
    other = await OpenedKeys(made.store, KeyRing(made.store, bytes(32))).all_active(NOW)
    assert other[secret_digest(made.secret)].token_root is None, "another master key opens no root"


async def test_a_root_moved_to_another_key_opens_nothing(made: Made, postgres: TestDatabase) -> None:
    _, second = await made.store.create_api_key(made.tenant, "second", NOW, ring=made.ring)
    postgres.psql("UPDATE api_keys SET token_key = (SELECT token_key FROM api_keys WHERE name = 'laptop')")
    opened = await OpenedKeys(made.store, made.ring).all_active(NOW)
    assert opened[secret_digest(second)].token_root is None
    assert opened[secret_digest(made.secret)].token_root is not None


async def test_a_rotated_key_is_known_by_both_secrets_for_its_grace(made: Made) -> None:
    until = NOW + timedelta(hours=1)
    new = await made.store.rotate_api_key(made.tenant, made.key_id, NOW, former_until=until, ring=made.ring)
    assert new is not None
    table = OpenedKeys(made.store, made.ring)
    during = await table.all_active(NOW + timedelta(minutes=59))
    old, now = during[secret_digest(made.secret)], during[secret_digest(new)]
    assert (old.key_id, now.key_id, old.expires_at, now.expires_at) == (made.key_id, made.key_id, until, None)
    assert (old.token_root, now.token_root) == (root_of(made.secret), root_of(new))
    assert old.prefix != now.prefix
    assert set(await table.all_active(until)) == {secret_digest(new)}
    [found] = await made.store.api_keys_called(old.prefix)
    assert [found] == await made.store.api_keys_called("laptop") == await made.store.api_keys_called(str(made.key_id))


async def test_a_secret_within_its_grace_is_not_ended_by_a_second_rotation(made: Made) -> None:
    until, rotate = NOW + timedelta(hours=1), made.store.rotate_api_key
    lost = await rotate(made.tenant, made.key_id, NOW, former_until=until)
    assert lost is not None
    assert await rotate(made.tenant, made.key_id, NOW, former_until=until) is None
    again = await rotate(made.tenant, made.key_id, NOW, former_until=until, redo=True)
    assert again is not None
    assert set(await made.store.all_active(NOW)) == {secret_digest(made.secret), secret_digest(again)}
    last = await rotate(made.tenant, made.key_id, NOW, former_until=NOW)
    assert last is not None
    assert set(await made.store.all_active(NOW)) == {secret_digest(last)}


async def test_no_grace_ends_the_former_secret_of_a_rotation_done_again_too(made: Made) -> None:
    until, rotate = NOW + timedelta(hours=1), made.store.rotate_api_key
    assert await rotate(made.tenant, made.key_id, NOW, former_until=until) is not None
    last = await rotate(made.tenant, made.key_id, NOW, former_until=NOW, redo=True)
    assert last is not None
    assert set(await made.store.all_active(NOW)) == {secret_digest(last)}


async def test_revoking_ends_both_secrets_and_no_revoked_key_is_rotated(made: Made) -> None:
    until = NOW + timedelta(hours=1)
    await made.store.rotate_api_key(made.tenant, made.key_id, NOW, former_until=until)
    assert await made.store.revoke_api_key(made.tenant, made.key_id, NOW)
    assert await made.store.all_active(NOW) == {}
    assert await made.store.rotate_api_key(made.tenant, made.key_id, NOW, former_until=until) is None


async def test_a_row_that_is_not_understood_leaves_out_that_key_alone(made: Made, postgres: TestDatabase) -> None:
    _, good = await made.store.create_api_key(made.tenant, "good", NOW)
    postgres.psql("UPDATE api_keys SET limits = '{\"requests_per_fortnight\": 1}' WHERE name = 'laptop'")
    assert set(await OpenedKeys(made.store, made.ring).all_active(NOW)) == {secret_digest(good)}


async def test_the_table_is_opened_once_and_again_when_a_row_changes(made: Made, postgres: TestDatabase) -> None:
    table = OpenedKeys(made.store, made.ring)
    first = (await table.all_active(NOW))[secret_digest(made.secret)]
    assert (await table.all_active(NOW))[secret_digest(made.secret)] is first
    postgres.psql("UPDATE api_keys SET limits = '{}'")
    again = (await table.all_active(NOW))[secret_digest(made.secret)]
    assert again.authority.limits == KeyLimits()


async def test_a_table_that_nobody_has_written_to_is_not_read_again(made: Made) -> None:
    class Counting(KeyStore):
        reads = 0

        async def all_active(self, now: datetime) -> dict[bytes, ApiKey]:
            self.reads += 1
            return await super().all_active(now)

    store = Counting(made.database)
    table = OpenedKeys(store, made.ring)
    first = await table.all_active(NOW)
    assert await table.all_active(NOW + timedelta(seconds=1)) is first
    assert store.reads == 1
    second, _ = await store.create_api_key(made.tenant, "second", NOW, expires_at=NOW + timedelta(hours=1))
    assert len(await table.all_active(NOW)) == 2
    assert len(await table.all_active(NOW + timedelta(hours=1))) == 1, "it has ended, and nothing was written"
    assert len(await table.all_active(NOW)) == 2, "the clock was put back"
    await store.rotate_api_key(made.tenant, second, NOW, former_until=NOW + timedelta(minutes=1))
    assert len(await table.all_active(NOW)) == 3
    await store.revoke_api_key(made.tenant, second, NOW)
    assert len(await table.all_active(NOW)) == 1
    assert store.reads == 6


async def test_an_unreadable_table_says_so(made: Made) -> None:
    table = OpenedKeys(made.store, made.ring)
    await made.database.close()
    with pytest.raises(StoreUnavailable):
        await table.all_active(NOW)
