"""Credentials: the Authorization header in, a Credential out.

`open`: one tenant, every capability, the header is not ours. `keys`: the bearer token's SHA-256 is looked up in a table
that every process holds and refreshes; while the store cannot be read a known key stays valid for `stale_max_s`
seconds, unless Redis tells that it was ended meanwhile. A capability token is checked against the key that it names, in
the same table: it dies with it. Fails closed: no key or two of them, an unknown, revoked or expired one is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import UUID

from aiohttp import web

from memory.errors import AuthUnavailable, InvalidApiKey, QueueUnavailable, StoreUnavailable
from memory.key_table import OpenedKey, Secret
from memory.seldom import Seldom
from memory.telemetry import event
from policies.api_key import looks_damaged
from policies.capability_token import MARK, Authority, TokenRefused, authority_of, is_signed, read
from proxy.identity import Credential

log = logging.getLogger("memory_proxy.auth")
# Revocation reaches all processes within 1 s (DESIGN section 2): the table is read twice as often.
REFRESH_S: Final = 0.5
# Between two readings, and while one is under way, the table is not one that cannot be read.
READ_S: Final = 4 * REFRESH_S
# A reading takes milliseconds: a table that is older cannot be read just now.
_LATE_S: Final = 1.5 * REFRESH_S
# Before the first complete start there is no tenant, hence no key and no memory: requests go on without.
UNKNOWN_TENANT: Final = UUID(int=0)


class KeyTable(Protocol):
    """Where active keys are read from."""

    async def all_active(self, now: datetime) -> Mapping[bytes, OpenedKey]:
        """Every key that may be used now, by the SHA-256 of its secret. Raises StoreUnavailable."""


class EndedSecrets(Protocol):
    """Where secrets that hold no more are told of, also to who cannot read the table."""

    async def known(self) -> Set[Secret]:
        """Those that hold no more by now. Raises QueueUnavailable."""


class OpenDoor:
    """`open` mode: everybody is the one tenant, which is known once the store has been asked."""

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        self._hide = hide
        self._credential = Credential(UNKNOWN_TENANT, hide=hide)

    def opens_to(self, tenant: UUID) -> None:
        """From now on callers are this tenant."""
        self._credential = Credential(tenant, hide=self._hide)

    def admit(self, request: web.Request) -> Credential:
        """The one credential."""
        return self._credential


class KeyedDoor:
    """`keys` mode: whoever holds a key."""

    def __init__(
        self,
        table: KeyTable,
        *,
        stale_max_s: float,
        hide: Callable[[str], str] = str,
        told: EndedSecrets | None = None,
    ) -> None:
        self._table = table
        self._told = told
        self._hide = hide
        self._stale_max_s = stale_max_s
        self._keys: Mapping[bytes, OpenedKey] = {}
        self._signers: Mapping[str, tuple[OpenedKey, ...]] = {}  # by prefix: two keys may have the same one
        self._read_at = float("-inf")
        self._ended: Set[Secret] = frozenset()  # that the table, as it was read, need not know of
        self._heard_at = float("-inf")
        self._said = Seldom()

    async def keep_reading(self) -> None:
        """Read the table for ever; run as a task."""
        while True:
            await self.read()
            await asyncio.sleep(REFRESH_S)

    async def read(self) -> None:
        """Read the table once; an unreadable one leaves what is held, and so does one that was asked for before it."""
        asked_at = time.monotonic()
        try:
            keys = await self._table.all_active(datetime.now(UTC))
        except StoreUnavailable as fault:
            if self._said.due():
                event(log, "key_table_unreadable", logging.WARNING, fault=str(fault))
            return
        if asked_at < self._read_at:
            return
        if keys is not self._keys:
            self._keys, self._signers = keys, _by_prefix(keys.values())
        self._read_at = asked_at
        if self._heard_at < asked_at:  # else it may be the table of before
            self._ended = frozenset()

    async def keep_hearing(self) -> None:
        """Hear of secrets that are ended while the table cannot be read, for ever; run as a task."""
        while True:
            await asyncio.sleep(REFRESH_S)
            if time.monotonic() - self._read_at > _LATE_S:
                await self.hear()

    async def hear(self) -> None:
        """Ask once which secrets hold no more; what was heard before stays where nobody answers."""
        with suppress(QueueUnavailable):  # the other of the two stores: the key is good for `stale_max_s` now
            self._ended = await self._told.known() if self._told is not None else frozenset()
            self._heard_at = time.monotonic()

    def admit(self, request: web.Request) -> Credential:
        """The caller's credential. Raises InvalidApiKey, AuthUnavailable."""
        secret = bearer_of(request)
        now = datetime.now(UTC)
        if secret.startswith(MARK):
            key, authority, token = self._by_token(secret, now)
        else:
            key, authority, token = self._by_secret(secret), None, None
        if key.secret in self._ended:
            raise InvalidApiKey("this key was revoked or rotated")
        if key.expires_at is not None and key.expires_at <= now:
            raise InvalidApiKey("this key has expired")
        age_s = time.monotonic() - self._read_at
        if age_s > max(self._stale_max_s, READ_S):
            raise AuthUnavailable(f"the key table could not be read for {int(age_s)} s", retry_after_s=5)
        return _credential(key, authority or key.authority, token, self._hide)

    def _by_secret(self, secret: str) -> OpenedKey:
        known = self._keys.get(hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest())
        if known is not None:
            return known
        self._refuse_unread()
        if looks_damaged(secret):
            raise InvalidApiKey("this key is cut or mistyped: its checksum is wrong")
        raise InvalidApiKey("this key is unknown, revoked or has expired")

    def _by_token(self, text: str, now: datetime) -> tuple[OpenedKey, Authority, str]:
        """The key that made a token, and what the token leaves of it."""
        self._refuse_unread()
        try:
            token = read(text)
            for key in self._signers.get(token.prefix, ()):
                if key.token_root is not None and is_signed(token, key.token_root):
                    authority = authority_of(key.authority, token.caveats)
                    break
            else:
                raise InvalidApiKey("this token is forged, or its key is revoked, rotated or has expired")
        except TokenRefused as fault:
            raise InvalidApiKey(f"this token cannot be used: {fault}") from None
        if authority.until is not None and authority.until <= now.timestamp():
            raise InvalidApiKey("this token has expired")
        return key, authority, token.nonce

    def _refuse_unread(self) -> None:
        if self._read_at == float("-inf"):
            raise AuthUnavailable("the key table has not been read yet; try again", retry_after_s=1)


def bearer_of(request: web.Request) -> str:
    """The bearer's text. Raises InvalidApiKey; two headers are one too many: who looks at which is anybody's guess."""
    given = request.headers.getall("Authorization", ())
    if len(given) > 1:
        raise InvalidApiKey("Authorization was sent more than once; send it once")
    scheme, _, secret = (given[0] if given else "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise InvalidApiKey("send a key of this proxy as `Authorization: Bearer mp-…` (memory-proxy key create)")
    return secret.strip()


def _by_prefix(keys: Iterable[OpenedKey]) -> Mapping[str, tuple[OpenedKey, ...]]:
    found: dict[str, tuple[OpenedKey, ...]] = {}
    for key in keys:
        found[key.prefix] = (*found.get(key.prefix, ()), key)
    return found


def _credential(key: OpenedKey, authority: Authority, token: str | None, hide: Callable[[str], str]) -> Credential:
    return Credential(
        key.tenant_id,
        key.key_id,
        authority.fixed,
        authority.defaults,
        authority.capabilities,
        ceiling=authority.ceiling,
        limits=authority.limits,
        token=token,
        until=authority.until,
        hide=hide,
    )
