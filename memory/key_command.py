"""`python -m memory key JSON`: what the command line asks for in, done on the store; a new secret or a list out.

A secret goes to stdout, once, and what is said about it to stderr, so `KEY=$(memory-proxy key create …)` works. It is
shown before it holds: a kill in between leaves a secret that opens nothing, none that opens and nobody has. Exit
codes: 0 done; 1 it cannot be, with the remedy; 75 a store does not answer. Refuses to guess which key is meant.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import uvloop

from memory.adapters.postgres.audit import AuditLog, Witness
from memory.adapters.postgres.database import NIGHTLY, Database, Transaction
from memory.adapters.postgres.keys import KeyStore, keys_of_tenant
from memory.adapters.redis_ended import RedisEnded
from memory.at_terminal import say_no_more
from memory.audit import noted
from memory.config import Settings
from memory.errors import ConfigInvalid, QueueUnavailable
from memory.ids import new_id
from memory.key_table import ended
from memory.key_wiring import master_of
from memory.keys import KeyRing
from memory.stored import ApiKey
from policies.capabilities import unknown
from policies.capability_token import TokenRefused, scope_name
from policies.key_limits import LimitsInvalid, limits_of
from policies.text import REPLACEMENT, is_steering, storable

_TOLD_WITHIN_S: Final = 2.0
_PREFIX: Final = re.compile(r"mp-([0-9a-f]{8})(?:-|$)", re.ASCII)


class KeyRefused(Exception):
    """Says what is wrong with what was asked, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Here:
    """The store that it is about, and what is asked."""

    store: KeyStore
    ring: KeyRing
    audit: AuditLog
    asked: Mapping[str, Any]
    now: datetime
    told: RedisEnded | None  # none where this command is not given the service's Redis


async def keys(settings: Settings, text: str) -> int:
    """Do what is asked for; the exit code. Raises ConfigInvalid, StoreUnavailable, StartFailed."""
    asked = json.loads(text)
    if settings.database.url is None or settings.data.dir is None:
        raise ConfigInvalid("database.url or data.dir is not resolved")
    master = await asyncio.to_thread(master_of, settings)
    redis_url = settings.redis.url
    told = RedisEnded(redis_url.get_secret_value(), timeout_s=_TOLD_WITHIN_S) if redis_url is not None else None
    database = await Database.open(settings.database.url.get_secret_value(), NIGHTLY)
    try:
        store = KeyStore(database)
        ring = KeyRing(store, master)
        here = Here(store, ring, AuditLog(database, ring.audit_key), asked, datetime.now(UTC), told)
        act = {"create": _create, "list": _list, "rotate": _rotate, "revoke": _revoke}[asked["act"]]
        code = await act(here)
    except KeyRefused as refused:
        sys.stderr.write(f"memory-proxy: {refused}\n")
        return 1
    finally:
        if told is not None:
            await told.close()
        await database.close()
    if settings.auth.mode == "open":
        sys.stderr.write("note: this service runs with auth.mode open and asks nobody for a key\n")
    return code


async def _create(here: Here) -> int:
    asked = here.asked
    if (fault := unknown(asked["capabilities"])) is not None:
        raise KeyRefused(fault)
    try:
        limits = limits_of(asked["limits"])
    except LimitsInvalid as exc:
        raise KeyRefused(str(exc)) from exc
    try:
        for member in ("fixed", "defaults"):
            for name, value in asked[member].items():
                scope_name(name, value)
        for name in ("name", "tenant"):
            if _one_line(scope_name(name, asked[name])) != asked[name]:
                raise KeyRefused(f"{name} holds no control character and no line break")
    except TokenRefused as exc:
        raise KeyRefused(str(exc)) from exc
    names = await here.store.tenant_names()
    is_new = asked["tenant"] not in names.values()
    tenant = await here.store.ensure_tenant(asked["tenant"], here.now)
    ends = None if asked["expires_in_s"] is None else here.now + timedelta(seconds=asked["expires_in_s"])
    key_id = new_id()
    act = await _acted(here, tenant, asked["tenant"], key_id, "key.create")
    with _doubted(act):
        await here.store.create_api_key(
            tenant,
            asked["name"],
            here.now,
            fixed=asked["fixed"],
            defaults=asked["defaults"],
            capabilities=asked["capabilities"],
            sensitivity_ceiling=asked["ceiling"],
            expires_at=ends,
            limits=limits,
            ring=here.ring,
            key_id=key_id,
            beside=partial(_refuse_namesake, here),
            witness=act,
            show=act.show,
        )
    if is_new:
        sys.stderr.write(f"the tenant {asked['tenant']!r} is new\n")
    act.say_done()
    return 0


def _refuse_namesake(here: Here, one: ApiKey) -> None:
    """Raise KeyRefused where a key of the tenant has the name of the one that is made."""
    name, tenant = here.asked["name"], here.asked["tenant"]
    if one.name == name and _in_use(one, here):
        raise KeyRefused(
            f"the tenant {tenant!r} has a key named {name!r} already (mp-{one.prefix}); rotate or revoke that one, or "
            "give this one another name"
        )


async def _list(here: Here) -> int:
    names = await here.store.tenant_names()
    wanted = here.asked["tenant"]
    if wanted is not None and wanted not in names.values():
        raise KeyRefused(f"there is no tenant {wanted!r}; known: {', '.join(sorted(names.values())) or 'none'}")
    found: list[tuple[str, ApiKey]] = []
    for tenant, name in sorted(names.items(), key=lambda one: one[1]):
        if wanted in (None, name):
            found += [(name, key) for key in await here.store.list_api_keys(tenant)]
    shown = [(name, key) for name, key in found if here.asked["all"] or _in_use(key, here)]
    if here.asked["json"]:
        sys.stdout.write(json.dumps([_members(key, name, here) for name, key in shown], indent=2) + "\n")
        return 0
    for name, key in shown:
        sys.stdout.write(_line(key, name, here) + "\n")
    if not shown:
        what = "no key in use; --all shows all" if found else "no key yet: memory-proxy key create NAME"
        sys.stderr.write(f"{what}\n")
    return 0


async def _rotate(here: Here) -> int:
    key, tenant = await _meant(here)
    until = here.now + timedelta(seconds=here.asked["grace_s"])
    act = await _acted(here, key.tenant_id, tenant, key.key_id, "key.rotate")
    with _doubted(act):
        secret = await here.store.rotate_api_key(
            key.tenant_id,
            key.key_id,
            here.now,
            former_until=until,
            redo=here.asked["redo"],
            ring=here.ring,
            witness=act,
            show=act.show,
        )
    if secret is None and _in_use(key, here):
        raise KeyRefused(
            f"the secret that {key.name} had before (mp-{key.former_prefix}) holds until {_time(key.former_until)}: "
            "wait, or say --redo to replace the newest one and leave that its time, or --grace 0 to end both"
        )
    if secret is None:
        raise KeyRefused(f"mp-{key.prefix} ({key.name}) is {_state(key, here)}; make another: memory-proxy key create")
    await _tell(here, key, act.key)
    act.say_done()
    return 0


async def _revoke(here: Here) -> int:
    key, tenant = await _meant(here)
    act = await _acted(here, key.tenant_id, tenant, key.key_id, "key.revoke")
    if not await here.store.revoke_api_key(key.tenant_id, key.key_id, here.now, act):
        await _tell(here, key, key)  # Redis may have been away when it was revoked
        raise KeyRefused(f"mp-{key.prefix} ({key.name}) is revoked already")
    await _tell(here, key, act.key)
    if here.asked["json"]:
        sys.stdout.write(json.dumps(_members(act.key, tenant, here), indent=2) + "\n")
    else:
        sys.stderr.write(f"mp-{key.prefix} ({key.name}) and its tokens are refused by every process within a second\n")
    return 0


async def _tell(here: Here, before: ApiKey, after: ApiKey) -> None:
    """Say in Redis which secrets are ended, for a process that cannot read the table just now."""
    try:
        if here.told is None:
            raise QueueUnavailable("redis.url is not set here")
        await here.told.tell(ended(before, after, here.now), here.now)
    except QueueUnavailable as fault:
        sys.stderr.write(
            f"note: it is done, and Redis was not told ({fault}): a process that cannot reach Postgres just now goes "
            "on with the secret until it can, or for auth.stale_max_s\n"
        )


class _Act:
    """Notes what is done to a key, and reads what it is then, in the transaction that does it: a store that goes a
    moment later does not keep a secret, which is shown once, from whoever asked for it.
    """

    def __init__(self, here: Here, tenant: UUID, named: str, key_id: UUID, notes: Witness) -> None:
        self._here, self._tenant, self._named, self._key_id, self._notes = here, tenant, named, key_id, notes
        self.is_shown = False
        self.key: ApiKey  # once it is done

    async def __call__(self, tx: Transaction, /, *_of: UUID) -> None:
        await self._notes(tx)
        self.key = next(one for one in await keys_of_tenant(tx, self._tenant) if one.key_id == self._key_id)

    def show(self, secret: str) -> None:
        """Hand it over, before it holds. Raises KeyRefused where it cannot be written: then it never does."""
        members = {"secret": secret, **_members(self.key, self._named, self._here)}
        try:
            sys.stdout.write((json.dumps(members, indent=2) if self._here.asked["json"] else secret) + "\n")
            sys.stdout.flush()
        except OSError as fault:
            say_no_more()
            raise KeyRefused(f"the secret cannot be written, and nothing was changed: {fault.strerror}") from fault
        self.is_shown = True

    def say_done(self) -> None:
        """What the secret that was shown is of."""
        if not self._here.asked["json"]:
            line = _line(self.key, self._named, self._here)
            sys.stderr.write(f"{line}\nthis is the only time that the secret is shown; keep it\n")


@contextmanager
def _doubted(act: _Act) -> Iterator[None]:
    """Say of a secret that was shown, where the end was not heard (a store that goes, Ctrl-C), that it may not hold."""
    is_kept = False
    try:
        yield
        is_kept = True
    finally:
        if act.is_shown and not is_kept:
            sys.stderr.write(
                f"memory-proxy: whether that was kept is not known: the secret that was shown holds if `memory-proxy "
                f"key list` has mp-{act.key.prefix}\n"
            )


async def _acted(here: Here, tenant: UUID, named: str, key_id: UUID, action: str) -> _Act:
    """Who runs the command has the data directory's rights and no key: `operator`."""
    note = noted(tenant, "operator", action, ids=[key_id], at=here.now)
    return _Act(here, tenant, named, key_id, await here.audit.witness(note))


async def _meant(here: Here) -> tuple[ApiKey, str]:
    """The key that was named, and its tenant's name. Raises KeyRefused for none and for several."""
    called = storable(str(here.asked["key"]))
    # A whole secret is taken as its prefix: whoever found one in a log wants it revoked.
    beginning = _PREFIX.match(called)
    short = beginning[1] if beginning else called
    found = await here.store.api_keys_called(short)
    names = await here.store.tenant_names()
    if here.asked["tenant"] is not None:
        found = [key for key in found if names.get(key.tenant_id) == here.asked["tenant"]]
    if len(found) > 1:
        found = [key for key in found if _in_use(key, here)] or found
    if not found:
        raise KeyRefused(f"no key has the prefix, id or name {short!r}; memory-proxy key list --all shows them")
    if len(found) > 1:
        said = ", ".join(f"mp-{key.prefix} of tenant {names[key.tenant_id]}" for key in found[:8])
        raise KeyRefused(f"{len(found)} keys are called {short!r} ({said}); name one by its prefix")
    return found[0], names[found[0].tenant_id]


def _in_use(key: ApiKey, here: Here) -> bool:
    return _state(key, here) == "in use"


def _state(key: ApiKey, here: Here) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= here.now else "in use"


def _has_former(key: ApiKey, here: Here) -> bool:
    return key.former_until is not None and key.former_until > here.now and key.revoked_at is None


def _members(key: ApiKey, tenant: str, here: Here) -> dict[str, Any]:
    grace = _has_former(key, here)
    return {
        "id": str(key.key_id),
        "prefix": f"mp-{key.prefix}",
        "name": key.name,
        "tenant": tenant,
        "state": _state(key, here),
        "fixed": key.fixed,
        "defaults": key.defaults,
        "capabilities": list(key.capabilities),
        "sensitivity_ceiling": key.sensitivity_ceiling,
        "limits": key.limits,
        "tokens": key.token_key is not None,
        "created_at": _time(key.created_at),
        "expires_at": _time(key.expires_at),
        "rotated_at": _time(key.rotated_at),
        "revoked_at": _time(key.revoked_at),
        "former": {"prefix": f"mp-{key.former_prefix}", "until": _time(key.former_until)} if grace else None,
    }


def _line(key: ApiKey, tenant: str, here: Here) -> str:
    whose = [f"{name}={value}" for name, value in sorted(key.fixed.items())]
    whose += [f"{name}~{value}" for name, value in sorted(key.defaults.items())]
    parts: Sequence[str] = (
        f"mp-{key.prefix}",
        key.name,
        tenant,
        _state(key, here),
        f"until {_time(key.expires_at)}" if key.expires_at else "without end",
        " ".join(whose) or "any scope",
        f"<= {key.sensitivity_ceiling}",
        " ".join(key.capabilities) or "no capability",
        *(f"{name}={','.join(value) if isinstance(value, list) else value}" for name, value in key.limits.items()),
        *((f"mp-{key.former_prefix} until {_time(key.former_until)}",) if _has_former(key, here) else ()),
    )
    return _one_line("  ".join(parts))


def _one_line(text: str) -> str:
    """Without what breaks a line or steers a terminal; the names of scopes may hold it."""
    return "".join(REPLACEMENT if is_steering(one) else one for one in text)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def command(settings: Settings, given: argparse.Namespace) -> int:
    """Make, list, rotate or revoke a key. The exit code."""
    return uvloop.run(keys(settings, given.asked))
