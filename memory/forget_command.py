"""`python -m memory forget`: what to forget in, its receipt on stdout out, with the files scrubbed behind it.

Leads the erasure itself, since only the process that read the forgotten words can look for them in files. Broken off,
the service finishes the erasure at the logical level. Also: what older copies of a database need before they may serve.
Exit codes: 0 complete; 1 not; 2 it cannot be; 75 a store is away or another leads: come again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import uvloop

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.language import LanguageModel
from memory.adapters.postgres.audit import AuditLog, Witness
from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.erase_jobs import JOB
from memory.adapters.postgres.erase_store import EraseStore
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.scrub import data_directory, left_over, scrub
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.postgres.write_store import WriteStore
from memory.adapters.redaction import redactor_of
from memory.adapters.redis_erase import RedisErase
from memory.audit import noted
from memory.config import Settings
from memory.consolidation import lives_of
from memory.erase_wiring import anew_of, erasing_on
from memory.erasure.asking import Asking
from memory.erasure.files import Looked, look
from memory.erasure.job import Erasing
from memory.erasure.loop import leading
from memory.erasure.model import WHOLE, Target, TargetKind
from memory.erasure.reapply import reapply
from memory.erasure.receipt import signed
from memory.erasure.shingles import Shingles
from memory.errors import TRY_AGAIN, ConfigInvalid, StoreUnavailable
from memory.key_wiring import with_keys
from memory.keys import KeyRing
from memory.model import Scope
from memory.names import Names, kept_name
from memory.step_back import step_back
from memory.telemetry import Metrics
from memory.wiring import holder_name, prepared
from memory.write.facts import facts_of, no_facts
from memory.write.procedures import finder, no_procedures
from policies.text import normalised

NEEDLES_MAX: Final = 20_000
_BOUNDS: Final = Bounds(connections_max=4, acquire_timeout_s=10.0, statement_timeout_ms=600_000)
_LED_WITHIN_S: Final = 30.0
_REWRITTEN_WITHIN_S: Final = 600.0
_EXTERNAL: Final = """\
the database is not the embedded one of this data directory, so its files are not ours to rewrite. What is forgotten is
gone from it at the logical level. Its administrator has to: VACUUM FULL every table of this schema and pg_statistic,
ANALYZE, pg_switch_wal and CHECKPOINT, then remove archived WAL, base backups, replicas and snapshots from before; and
BGREWRITEAOF (and drop RDB files) on Redis.
"""
_NOTHING_TO_LOOK_FOR: Final = """\
the files are rewritten, and that nothing of it is left in them is not proved: there were no words of it to look for. It
was not there, had been forgotten before (this was broken off and run again), or says only what others say too.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for, and in whose scope."""

    tenant: str
    kind: TargetKind
    value: str
    user: str
    project: str
    agent: str


def target_of(asked: Asked, tenant: UUID, hide: Callable[[str], str]) -> Target:
    """What is to go, by the names that it is stored under."""
    kept = partial(kept_name, hide=hide)
    value = kept(asked.value) if asked.kind in WHOLE or asked.kind == "session" else asked.value
    return Target(asked.kind, value, Scope(tenant, kept(asked.user), kept(asked.project), kept(asked.agent)))


async def forgotten(settings: Settings, asked: Asked) -> int:
    """Forget, scrub, print the receipt. The exit code."""
    step_back()
    root, owner_url = settings.data.dir, settings.database.owner_url
    if root is None or settings.database.url is None:
        raise ConfigInvalid("unresolved settings: this command works beside a running service")
    async with contextlib.AsyncExitStack() as closing:
        database, keys = await _opened(settings, closing)
        serving = await ServingStore(database).serving()
        if serving is None:
            raise StoreUnavailable("the store has not been started yet")
        embedder, languages = await asyncio.gather(
            asyncio.to_thread(prepared, settings, serving.model), asyncio.to_thread(LanguageModel)
        )
        closing.callback(embedder.close)
        store = EraseStore(database, serving.model.table)
        anew = _anew(settings, database, serving.model.table, keys, embedder, languages)
        erasing, redis = erasing_on(settings, store, database, keys, anew, Metrics(), closing)
        tenant = await _tenant(KeyStore(database), normalised("NFC", asked.tenant))
        target = target_of(asked, tenant, Names(redactor_of(settings), await keys.names_key()))
        words = Shingles(NEEDLES_MAX)
        note = noted(tenant, "operator", "forget", why=target.kind, names={target.kind: target.value})
        witness = await AuditLog(database, keys.audit_key).witness(note)
        receipt = await _led(erasing, Asking(store, keys), database, target, words, witness)
        if receipt is None:
            sys.stderr.write("another process leads the erasures and does not let go; try again\n")
            return TRY_AGAIN
        if owner_url is None or await data_directory(owner_url.get_secret_value()) != root / "pg":
            sys.stderr.write(f"memory-proxy forget: {_EXTERNAL}")
            return _shown(receipt) or 1
        whole = await _scrubbed(receipt, owner_url.get_secret_value(), redis, root, words, keys)
        job = await store.get(tenant, UUID(whole["id"]))
        if job is not None:
            await store.note_receipt(job, whole)
        if whole["level"] == "logical":
            sys.stderr.write(f"memory-proxy forget: {_NOTHING_TO_LOOK_FOR}")
            return _shown(whole) or 1
        return _shown(whole)


async def _tenant(store: KeyStore, name: str) -> UUID:
    """Its id. Raises ConfigInvalid for one that is not there, so that a slip of the pen makes none."""
    names = await store.tenant_names()
    found = [tenant for tenant, its in names.items() if its == name]
    if not found:
        raise ConfigInvalid(f"there is no tenant {name!r}; known: {', '.join(sorted(names.values())) or 'none'}")
    return found[0]


async def _led(
    erasing: Erasing, asking: Asking, database: Database, target: Target, words: Shingles, witness: Witness
) -> dict[str, Any] | None:
    leader = Leadership(database, JOB, holder_name())
    for _ in range(round(_LED_WITHIN_S)):
        async with leading(leader) as fence:
            if fence is not None:
                erasure_id = await asking.ask(target, datetime.now(UTC), witness)
                job = await erasing.run(target.scope.tenant, erasure_id, fence, words=words)
                return None if job is None else job.receipt
        await asyncio.sleep(1)
    return None


async def _scrubbed(
    receipt: dict[str, Any], owner_url: str, redis: RedisErase, root: Path, words: Shingles, keys: KeyRing
) -> dict[str, Any]:
    """The receipt of the physical level; of the logical one still where there was nothing to look for in the files."""
    began_s = time.monotonic()
    rewritten = await redis.rewrite_log(_REWRITTEN_WITHIN_S)
    tables = await scrub(owner_url)
    for path in await left_over(owner_url):
        (root / "pg" / path).unlink(missing_ok=True)
    needles = words.needles()
    looked: Looked = await asyncio.to_thread(look, root, needles)
    said = {
        "tables": tables,
        "log_rewritten": rewritten,
        "word_runs": len(needles),
        "files": looked.files,
        "bytes": looked.bytes,
        "traces": len(looked.found),
        "found": list(looked.found[:20]),
        "seconds": round(time.monotonic() - began_s, 1),
    }
    members = {name: value for name, value in receipt.items() if name not in ("signature", "key", "version")}
    complete = bool(receipt["complete"] and rewritten and not looked.found)
    level = "physical" if needles else "logical"
    return signed({**members, "level": level, "complete": complete, "scrub": said}, await keys.receipt_seed())


async def cleaned(settings: Settings) -> None:
    """Take out of an older copy of the database what the journal says was erased since; before anybody is answered.
    Raises StoreUnavailable, QueueUnavailable, LeaseLost: then nobody may be yet.
    """
    async with contextlib.AsyncExitStack() as closing:
        database, keys = await _opened(settings, closing)
        serving = await ServingStore(database).serving()
        if serving is None:
            return
        store = EraseStore(database, serving.model.table)
        erasing, _ = erasing_on(settings, store, database, keys, None, Metrics(), closing)
        await reapply(erasing, Asking(store, keys), Leadership(database, JOB, holder_name()))


async def _opened(settings: Settings, closing: contextlib.AsyncExitStack) -> tuple[Database, KeyRing]:
    if settings.database.url is None:
        raise ConfigInvalid("database.url is not resolved")
    database, keys = with_keys(settings, await Database.open(settings.database.url.get_secret_value(), _BOUNDS))
    closing.push_async_callback(database.close)
    return database, keys


def _anew(
    settings: Settings, database: Database, table: str, keys: KeyRing, embedder: OnnxEmbedder, languages: LanguageModel
) -> Any:
    off = settings.extract.by == "off"
    return anew_of(
        settings,
        database,
        table,
        WriteStore(database, Scopes(database), table),
        keys,
        embedder,
        languages,
        no_facts if off else facts_of,
        no_procedures if off else finder(settings.procedure.approve),
        lives_of(settings),
    )


def _shown(receipt: dict[str, Any]) -> int:
    sys.stdout.write(json.dumps(receipt, indent=2, ensure_ascii=False) + "\n")
    return 0 if receipt["complete"] else 1


def command(settings: Settings, given: argparse.Namespace) -> int:
    """Forget a target. The exit code."""
    wanted = Asked(given.tenant or "default", given.kind, given.value, given.as_user, given.as_project, given.as_agent)
    return uvloop.run(forgotten(settings, wanted))
