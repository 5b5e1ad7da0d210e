"""`python -m memory redact`: sweep what is stored with the rules of now, or show what stands behind a token.

Counts by rule on stdout, progress on stderr, never the content; `reveal` alone shows one value, to whoever may read the
data directory's master key. Ctrl-C stops after the page in hand. Exit codes: 0 done; 75 come again (stopped, a store is
away); 2 it cannot be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

import uvloop

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import NIGHTLY, Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.redact_store import RedactStore
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.redaction import mark_of, redactor_of, tokenises
from memory.audit import noted
from memory.config import Settings
from memory.envelope import key_id_of
from memory.errors import TRY_AGAIN, ConfigInvalid, EnvelopeUnreadable
from memory.key_wiring import master_of
from memory.keys import KeyRing
from memory.serving import Serving
from memory.step_back import step_back
from memory.wiring import prepared
from memory.write.personal import TOKEN, SubjectTokens, revealed
from memory.write.sweep import ScopeNames, Sweep, SweepParts, Swept

MODES: Final = ("scan", "apply", "reveal")
SAY_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class RedactAsked:
    """What the command line asks for. `token` is what `reveal` shows the value of."""

    mode: str
    again: bool
    token: str | None
    as_json: bool


async def redacted(settings: Settings, asked: RedactAsked) -> int:
    """Do what is asked for; the exit code. Raises ConfigInvalid, ModelFileInvalid, StoreUnavailable."""
    if asked.mode not in MODES:
        raise ConfigInvalid(f"redact --mode is one of {', '.join(MODES)}")
    if settings.database.url is None or settings.data.dir is None:
        raise ConfigInvalid("unresolved settings: this command goes beside `memory-proxy serve`")
    step_back()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    database = await Database.open(settings.database.url.get_secret_value(), NIGHTLY)
    try:
        keys = KeyRing(KeyStore(database), master_of(settings))
        if asked.mode == "reveal":
            return await _reveal(database, keys, asked.token or "")
        serving = await ServingStore(database).serving()
        if serving is None:
            raise ConfigInvalid("the store has not been started by this version yet: start the service once")
        return await _sweep(settings, asked, database, keys, serving, stop)
    finally:
        await database.close()


async def _sweep(
    settings: Settings, asked: RedactAsked, database: Database, keys: KeyRing, serving: Serving, stop: asyncio.Event
) -> int:
    redactor, apply = redactor_of(settings), asked.mode == "apply"
    embedder: OnnxEmbedder | None = None
    if apply:
        embedder = await asyncio.to_thread(prepared, settings, serving.model)
    sweep = Sweep(
        SweepParts(
            store=RedactStore(database, serving.model.table),
            redactor=redactor,
            keeper=partial(_tokens, keys) if tokenises(redactor.policy) else None,
            keeping=redactor.keeping,
            embedder=embedder,
            windows=embedder,
            mark=mark_of(redactor.policy),
            apply=apply,
            again=asked.again,
            clock=partial(datetime.now, UTC),
            stop=stop,
            say=_Teller(),
        )
    )
    try:
        ended = await sweep.run()
    finally:
        if embedder is not None:
            embedder.close()
    sys.stdout.write(shown(sweep.swept, apply=apply, as_json=asked.as_json))
    if not ended:
        sys.stderr.write("stopped; the same command goes on where this stood\n")
    return 0 if ended else TRY_AGAIN


async def _tokens(keys: KeyRing, scope: ScopeNames) -> SubjectTokens:
    key = await keys.subject_key(scope.tenant, scope.user_name)
    return SubjectTokens(key, scope.tenant, await keys.subject_id(scope.tenant, scope.user_name))


async def _reveal(database: Database, keys: KeyRing, token: str) -> int:
    """Show what stands behind a token, in whichever scope it was made; the audit log has it before anybody."""
    if TOKEN.fullmatch(token) is None:
        raise ConfigInvalid("a token looks like [kept:email:…]")
    store = RedactStore(database, "memory_embeddings_none")
    async for scope in store.scopes():
        found = await store.token(scope, token)
        if found is not None:
            subject, sealed = found
            try:
                key = await keys.by_id(scope.tenant, key_id_of(sealed))
                value = revealed(key, scope.tenant, subject, token, sealed)
            except EnvelopeUnreadable as exc:
                raise ConfigInvalid("its key is gone: whoever it was about has been forgotten") from exc
            note = noted(scope.tenant, "operator", "personal.reveal", ids=[subject], at=datetime.now(UTC))
            await AuditLog(database, keys.audit_key).record([note])
            sys.stdout.write(value + "\n")
            return 0
    sys.stderr.write("nobody keeps this token (or its person was forgotten)\n")
    return 2


def shown(swept: Swept, *, apply: bool, as_json: bool) -> str:
    """The counts, by rule; nothing of what was found."""
    if as_json:
        return json.dumps({"applied": apply, **swept.as_json()}, indent=2) + "\n"
    verb = "rewritten" if apply else "would be rewritten"
    lines = [f"{swept.scopes:,} scopes looked at"]
    lines += [
        f"{what:<10}{swept.looked_at[what]:>10,} looked at{swept.changed[what]:>10,} {verb}"
        for what in ("turns", "memories", "sessions")
    ]
    lines += [f"  {rule:<28}{count:>8,}" for rule, count in swept.rules.most_common()]
    if swept.left:
        lines.append(f"{swept.left:,} names of users, projects or agents hold a secret: `forget` them")
    if swept.changed.total() and not apply:
        lines.append("nothing was changed; --apply rewrites")
    return "\n".join(lines) + "\n"


class _Teller:
    """Progress on stderr, a line at most every SAY_EVERY_S."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def __call__(self, swept: Swept) -> None:
        now = time.monotonic()
        if now - self._said_at < SAY_EVERY_S:
            return
        self._said_at = now
        seen = f"{swept.looked_at['turns']:,} turns and {swept.looked_at['memories']:,} memories looked at"
        sys.stderr.write(f"{seen} in {swept.scopes:,} scopes, {swept.changed.total():,} changes\n")
        sys.stderr.flush()


def command(settings: Settings, given: argparse.Namespace) -> int:
    """Sweep what is stored by the rules of now, or show what a token stands for. The exit code."""
    return uvloop.run(redacted(settings, RedactAsked(given.mode, given.again, given.token, given.json)))
