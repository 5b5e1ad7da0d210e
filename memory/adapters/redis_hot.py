"""Session state that may be lost: chain digests in, the sessions they belong to out, in one round trip.

    mp:h:{tenant:scope}:c:<digest>   the session whose answer has this digest: 16 bytes of id, then its label
    mp:h:{tenant:scope}:o:<digest>   the session opened by these messages: "1" when somebody has gone on from it,
                                     else "0"; then as above
    mp:h:{tenant:scope}:p:<digest>   where a message and its answer stand: 16 bytes of the session's id, the digests of
                                     both in its chain, its label
    mp:h:{tenant:scope}:l:<session>:<digest>   what the ledger has at this place of the conversation: the sealed entry,
                                     nothing, or "-" for what was withdrawn
    mp:h:{tenant}:v:<scope id>       the version of a scope that was announced last
    mp:h:{tenant:scope}:w:<session>  a working context: the scope's version and the turns it is of, 20 digits each, then
                                     the envelope it is sealed in
    mp:h:{tenant}:t:<day>            tokens that extraction has cost the tenant on a UTC day
    mp:h:announced (channel)         "tenant scope_id version" as it is announced

A <digest> in a key is its first 12 bytes in hex, enough to tell a billion in one scope apart; a label that is a UUID
is 0xff and its 16 bytes. What an older version named by whole digests is not found: the store answers.

Ids, digests, labels and what is sealed; every key has a time to live. Fails open: past its bound, or when the server
does not answer, each call raises QueueUnavailable, and the store or a new session stands in.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from memory.adapters import redis_scripts
from memory.adapters.redis_client import connect, faults, heard_on, refused
from memory.adapters.redis_cluster import Cluster
from memory.adapters.redis_line import Command, line_to
from memory.chain import DIGEST_BYTES, Digest
from memory.model import Announcement, Scope, SessionRef
from memory.read.conversation import WITHDRAWN, Asked, Hot
from memory.read.dropped import Joint
from memory.read.working import Known
from memory.telemetry import event

log: Final = logging.getLogger("memory_proxy.hot")
_VERSION_TTL_S: Final = 3600  # far beyond the staleness bound; afterwards the store says it
_SPENT_TTL_S: Final = 2 * 86_400
_CHANNEL: Final = "mp:h:announced"
# A connection that says nothing for so long is asked whether it lives, seconds.
_SILENCE_S: Final = 15.0
# Places of one conversation whose entries are read from here, newest first; older ones are read from the store.
_MARKS_MAX: Final = 2_000
_MARK: Final = 40  # characters before the envelope of a working context
_NAME_BYTES: Final = 12
_UUID_MARK: Final = b"\xff"


class RedisHot:
    """The hot state of one process. `timeout_ms` bounds `find`, which a request waits for; `keep_timeout_ms` the rest.

    `session_ttl_s`: after it a conversation is found in the store. `opening_ttl_s`: within it a repeated opening is
    another attempt; 0: none is.
    """

    def __init__(
        self,
        url: str,
        *,
        opening_ttl_s: float = 600,
        session_ttl_s: float = 86_400,
        timeout_ms: float = 60,
        keep_timeout_ms: float = 50,
    ) -> None:
        self._client = connect(url)
        self._line = line_to(url, self._client)
        self._opening_ttl_s = max(1, round(opening_ttl_s)) if opening_ttl_s else 0
        self._session_ttl_s = max(1, round(session_ttl_s))
        self._timeout_s = timeout_ms / 1000
        self._keep_timeout_s = keep_timeout_ms / 1000

    async def close(self) -> None:
        """Close the connections."""
        await self._line.close()
        await self._client.aclose()

    async def find(self, scope: Scope, scope_key: bytes, asked: Asked) -> Hot:
        """What is known of these digests, this opening, these scopes and this ledger, in one round trip. Raises
        QueueUnavailable.
        """
        prefix = _prefix(scope.tenant, scope_key)
        keys = [f"{prefix}:c:{_name(digest)}" for digest in asked.answers]
        keys += [f"{prefix}:o:{_name(asked.opening)}"] if asked.opening is not None else []
        keys += [f"{prefix}:l:"]
        session = "" if asked.session_id is None else asked.session_id.hex
        marks = [_name(digest) for digest in asked.marks[-_MARKS_MAX:]]
        told: list[str] = [str(len(keys)), *keys, str(len(asked.answers)), session, *marks]
        commands: list[Command] = [("EVAL", redis_scripts.FIND, *told)]
        versions = [_version_key(scope.tenant, scope_id) for scope_id in asked.scope_ids]
        if versions:
            commands.append(("MGET", *versions))
        (values, used, entries), *announced = await self._ask("find session", commands, self._timeout_s)
        opened = values[len(asked.answers)] if asked.opening is not None else None
        known = announced[0] if announced else []
        return Hot(
            sessions={
                digest: _session(value)
                for digest, value in zip(asked.answers, values, strict=False)
                if value is not None
            },
            opening=_session(opened[1:]) if opened is not None else None,
            opening_continued=opened is not None and opened[:1] == b"1",
            versions={
                scope_id: int(value)
                for scope_id, value in zip(asked.scope_ids, known, strict=False)
                if value is not None
            },
            ledger_of=UUID(hex=used.decode()) if used else None,
            ledger={
                digest: value
                for digest, value in zip(asked.marks[-_MARKS_MAX:], entries, strict=False)
                if value is not None
            },
        )

    async def note(
        self,
        scope: Scope,
        scope_key: bytes,
        session_id: UUID,
        entries: Mapping[Digest, bytes],
        withdrawn: Sequence[Digest],
        *,
        anew: bool = False,
    ) -> None:
        """Have the ledger say so at these places of a conversation; what is there already stays, unless it is
        withdrawn, or an opening is given something `anew`. Raises QueueUnavailable.
        """
        prefix = f"{_prefix(scope.tenant, scope_key)}:l:{session_id.hex}"
        once = () if anew else ("NX",)
        lives = ("EX", self._session_ttl_s)
        commands: list[Command] = [
            ("SET", f"{prefix}:{_name(digest)}", value, *once, *lives) for digest, value in entries.items()
        ]
        commands += [("SET", f"{prefix}:{_name(digest)}", WITHDRAWN, *lives) for digest in withdrawn]
        if commands:
            await self._ask("note ledger", commands, self._keep_timeout_s)

    async def keep(
        self,
        scope: Scope,
        scope_key: bytes,
        answers: Sequence[bytes],
        opening: bytes | None,
        opens: bool,
        ref: SessionRef,
        pairs: Mapping[Digest, Joint],
    ) -> None:
        """Remember whose answers these are, and where pairs stand; the latest session wins. With `opens` the opening is
        remembered too, else it is marked as gone on from. Raises QueueUnavailable.
        """
        prefix = _prefix(scope.tenant, scope_key)
        label = _packed_label(ref.label)
        value = ref.session_id.bytes + label
        lives = ("EX", self._session_ttl_s)
        commands: list[Command] = [("SET", f"{prefix}:c:{_name(digest)}", value, *lives) for digest in answers]
        for pair, joint in pairs.items():
            place = ref.session_id.bytes + joint.before + joint.answer + label
            commands.append(("SET", f"{prefix}:p:{_name(pair)}", place, *lives))
        if opening is not None and self._opening_ttl_s:
            key = f"{prefix}:o:{_name(opening)}"
            opened = ("EVAL", redis_scripts.OPEN, 1, key, value, self._opening_ttl_s)
            commands.append(opened if opens else ("EVAL", redis_scripts.CONTINUE, 1, key, value))
        if commands:
            await self._ask("keep session", commands, self._keep_timeout_s)

    async def joints(self, scope: Scope, scope_key: bytes, pairs: Sequence[Digest]) -> Mapping[Digest, Joint]:
        """Where these pairs stand, as far as it is known. Raises QueueUnavailable."""
        prefix = _prefix(scope.tenant, scope_key)
        values = await self._get([f"{prefix}:p:{_name(pair)}" for pair in pairs])
        return {pair: _joint(value) for pair, value in zip(pairs, values, strict=True) if value is not None}

    async def working(self, scope: Scope, scope_key: bytes, session_id: UUID) -> tuple[int, bytes] | None:
        """The working context of a session: the version of its scope, the envelope. Raises QueueUnavailable."""
        found = (await self._get([f"{_prefix(scope.tenant, scope_key)}:w:{session_id.hex}"]))[0]
        if found is None or not found[:_MARK].isdigit():
            return None
        return int(found[: _MARK // 2]), found[_MARK:]

    async def keep_working(
        self, scope: Scope, scope_key: bytes, session_id: UUID, known: Known, sealed: bytes, ttl_s: int
    ) -> None:
        """Keep a working context unless a newer one is there. Raises QueueUnavailable."""
        key = f"{_prefix(scope.tenant, scope_key)}:w:{session_id.hex}"
        mark = f"{known.version:020d}{known.upto_seq:020d}"
        step: Command = ("EVAL", redis_scripts.KEEP_NEWER, 1, key, mark, sealed, ttl_s)
        await self._ask("keep working context", [step], self._keep_timeout_s)

    async def drop_working(self, scope: Scope, scope_key: bytes, session_id: UUID) -> None:
        """Keep no working context of a session. Raises QueueUnavailable."""
        key = f"{_prefix(scope.tenant, scope_key)}:w:{session_id.hex}"
        await self._ask("drop working context", [("DEL", key)], self._keep_timeout_s)

    async def spend(self, tenant: UUID, day: date, tokens: int) -> int:
        """Add so many tokens (0: only ask) to what all workers have spent for the tenant on that day; the sum.
        Raises QueueUnavailable.
        """
        key = f"mp:h:{{{tenant.hex}}}:t:{day.isoformat()}"
        commands: list[Command] = [("INCRBY", key, tokens), ("EXPIRE", key, _SPENT_TTL_S)]
        return int((await self._ask("count tokens", commands, self._keep_timeout_s))[0])

    async def announce(self, tenant: UUID, scope_id: int, version: int) -> None:
        """Tell readers that a scope has reached `version`; an older one changes nothing. Raises QueueUnavailable."""
        message = f"{tenant.hex} {scope_id} {version}"
        step: Command = ("EVAL", redis_scripts.ANNOUNCE, 1, _version_key(tenant, scope_id))
        await self._ask("announce version", [(*step, version, _VERSION_TTL_S, _CHANNEL, message)], self._keep_timeout_s)

    async def announcements(self) -> AsyncIterator[Announcement]:
        """What is announced from now on, until the connection is lost. Raises QueueUnavailable then.

        What is announced while nobody listens is not said again: whoever must know asks `find` or the store.
        """
        with faults("listen for versions"):
            async with contextlib.aclosing(heard_on(self._client, _CHANNEL, _SILENCE_S)) as listening:
                async for heard in listening:
                    if heard is None or heard["type"] != "message":
                        continue
                    if (said := _announcement(heard["data"])) is not None:
                        yield said

    async def _get(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values of keys of several slots, in one round trip."""
        if not keys:
            return []
        if isinstance(self._client, Cluster):
            return await self._ask("find session", [("GET", key) for key in keys], self._timeout_s)
        values: list[bytes | None] = (await self._ask("find session", [("MGET", *keys)], self._timeout_s))[0]
        return values

    async def _ask(self, doing: str, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        """The replies, in one round trip. Raises QueueUnavailable, for a command that was refused too."""
        replies = await self._line.ask(doing, commands, timeout_s)
        for reply in replies:
            if isinstance(reply, Exception):
                raise refused(doing, reply) from reply
        return replies


def _name(digest: bytes) -> str:
    """A digest in a key."""
    return digest[:_NAME_BYTES].hex()


def _packed_label(label: str) -> bytes:
    """A label; one that is a UUID as we write it (a session that nobody named) in 17 bytes, the first no UTF-8."""
    with contextlib.suppress(ValueError):
        if str(made := UUID(label)) == label:
            return _UUID_MARK + made.bytes
    return label.encode()


def _label(packed: bytes) -> str:
    return str(UUID(bytes=packed[1:])) if packed[:1] == _UUID_MARK else packed.decode()


def _prefix(tenant: UUID, scope_key: bytes) -> str:
    return f"mp:h:{{{tenant.hex}:{scope_key.hex()}}}"


def _version_key(tenant: UUID, scope_id: int) -> str:
    return f"mp:h:{{{tenant.hex}}}:v:{scope_id}"


def _announcement(message: bytes) -> Announcement | None:
    """What was announced; None for what is no announcement: the server may be shared, and listening goes on."""
    try:
        tenant, scope_id, version = message.split()
        return Announcement(UUID(tenant.decode()), int(scope_id), int(version))
    except ValueError:
        event(log, "announcement_unreadable", logging.WARNING, channel=_CHANNEL, bytes=len(message))
        return None


def _joint(value: bytes) -> Joint:
    session = SessionRef(UUID(bytes=value[:16]), _label(value[16 + 2 * DIGEST_BYTES :]))
    before, answer = value[16 : 16 + DIGEST_BYTES], value[16 + DIGEST_BYTES : 16 + 2 * DIGEST_BYTES]
    return Joint(session, Digest(before), Digest(answer))


def _session(value: bytes) -> SessionRef:
    return SessionRef(UUID(bytes=value[:16]), _label(value[16:]))
