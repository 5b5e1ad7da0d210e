"""The audit log: what was done, by whom and why in; rows of a chain out, and whether a chain read back is whole.

A row's digest is an HMAC-SHA256 over the row and the digest before it, under a key of the tenant that the database does
not hold: a row that was changed, taken out, put in or put elsewhere does not fit. Names that a client chose (a user, a
project) go in as HMACs, never as they are; contents never. `Journal.note` takes microseconds and waits for nothing;
what it holds is written every half second, alike notes of one actor as one row. Refuses (ValueError) texts where ids
belong.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from memory.errors import MemoryProxyFault
from memory.seldom import Seldom
from memory.telemetry import Metrics, event

log = logging.getLogger("memory_proxy.audit")

Decision = Literal["allowed", "refused", "noted"]
Label = str | int | bool | None

BEGINNING: Final = bytes(32)
"""What stands before the first row of a chain."""
ANCHOR: Final = "audit.anchor"
IDS_MAX: Final = 256
"""Ids that one row names; how many there were stands beside them."""
NOTES_MAX: Final = 10_000
WRITE_EVERY_S: Final = 0.5
LAST_S: Final = 1.0
# A word of ours, an id, a digest: nothing that a sentence fits into.
_WORD: Final = re.compile(r"[\w.:/@+-]{1,64}", re.ASCII)
_WHY_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was done or refused. `names` are what a client chose: only HMACs of them are kept."""

    tenant: UUID
    actor: str
    action: str
    decision: Decision
    why: str
    at: datetime
    ids: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    detail: Mapping[str, Label] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of a tenant's chain as it is stored."""

    seq: int
    at: datetime
    actor: str
    action: str
    decision: Decision
    why: str
    ids: tuple[str, ...]
    detail: Mapping[str, Any]
    prior: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends: the number of its last row, 0 for none, and that one's digest."""

    seq: int = 0
    digest: bytes = BEGINNING

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest.hex()}"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which rows; None lets everything pass. Times are inclusive."""

    action: str | None = None
    actor: str | None = None
    decision: Decision | None = None
    id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Audit(Protocol):
    """Where things are noted: what a command or a handler is given."""

    def note(
        self,
        tenant: UUID,
        actor: str,
        action: str,
        *,
        decision: Decision = "allowed",
        why: str = "",
        ids: Iterable[UUID | str] = (),
        names: Mapping[str, str] | None = None,
        detail: Mapping[str, Label] | None = None,
    ) -> None:
        """Note it; it is written soon. Never waits, never raises for a store that is away."""


class Writes(Protocol):
    """The store of the log."""

    async def record(self, notes: Sequence[Note]) -> None:
        """Make these notes the next rows of their tenants' chains. Raises a MemoryProxyFault; then none was kept of the
        tenant that failed."""


def noted(
    tenant: UUID,
    actor: str,
    action: str,
    *,
    decision: Decision = "allowed",
    why: str = "",
    ids: Iterable[UUID | str] = (),
    names: Mapping[str, str] | None = None,
    detail: Mapping[str, Label] | None = None,
    at: datetime | None = None,
) -> Note:
    """A note, checked. Raises ValueError for what could be a text: the log holds ids and words of ours."""
    every = [_word(str(one)) for one in ids]
    said = {_word(name): _plain(value) for name, value in (detail or {}).items()}
    if len(every) > IDS_MAX:
        said["ids_in_all"] = len(every)
    return Note(
        tenant=tenant,
        actor=_word(actor),
        action=_word(action),
        decision=decision,
        why=why[:_WHY_CHARS_MAX],
        at=at or datetime.now(UTC),
        ids=tuple(every[:IDS_MAX]),
        names={_word(name): value for name, value in (names or {}).items()},
        detail=said,
    )


def row_of(key: bytes, note: Note, head: Head) -> AuditRow:
    """The note as the next row behind `head`."""
    hidden = {name: name_digest(key, name, value) for name, value in note.names.items()}
    row = AuditRow(
        seq=head.seq + 1,
        at=note.at.astimezone(UTC),
        actor=note.actor,
        action=note.action,
        decision=note.decision,
        why=note.why,
        ids=note.ids,
        detail={**note.detail, **hidden},
        prior=head.digest,
        digest=b"",
    )
    return replace(row, digest=digest_of(key, note.tenant, row))


def name_digest(key: bytes, name: str, value: str) -> str:
    """What the log holds of a name that a client chose: 128 bits of an HMAC, the same for the same name."""
    mac = hmac.digest(key, name.encode() + b"\x00" + value.encode("utf-8", "surrogatepass"), "sha256")
    return f"hmac:{mac[:16].hex()}"


def digest_of(key: bytes, tenant: UUID, row: AuditRow) -> bytes:
    """The 32 bytes that a row of this tenant must carry."""
    said = [
        str(tenant),
        row.seq,
        row.at.astimezone(UTC).isoformat(timespec="microseconds"),
        row.actor,
        row.action,
        row.decision,
        row.why,
        list(row.ids),
        dict(row.detail),
    ]
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.digest(key, row.prior + text.encode(), "sha256")


class Examination:
    """Reads one chain from its oldest row on; mutable. `fault`: the first thing that does not fit, None while whole.

    `head` is where the store said, before the rows were read, that the chain ends; `kept` what somebody outside has
    written down of it. Rows that were added since are no fault, nor those that retention dropped meanwhile.
    """

    def __init__(self, key: bytes, tenant: UUID, head: Head | None, kept: Head | None = None) -> None:
        self._key = key
        self._tenant = tenant
        self._head = head
        self._wanted = {one.seq: one.digest for one in (head, kept) if one is not None and one.seq}
        self._first: AuditRow | None = None
        self._last = Head()
        self._anchored: set[tuple[str, str]] = set()
        self._behind_gaps: list[tuple[int, AuditRow]] = []  # with the number of the first row that is gone
        self.rows = 0
        self.fault: tuple[int, str] | None = None

    def look(self, rows: Iterable[AuditRow]) -> None:
        """The next rows, in the order of their numbers."""
        for row in rows:
            if self.fault is None:
                self.fault = self._fault_of(row)
                self.rows += 1
                self._last = Head(row.seq, row.digest)
            if row.action == ANCHOR:
                self._anchored.add((str(row.detail.get("through")), str(row.detail.get("digest"))))

    def ended(self) -> tuple[int, str] | None:
        """The number of the first bad row and what is wrong with it; None for a whole chain."""
        gone = (number for number, row in self._behind_gaps if not self._is_anchored(row))
        if (number := next(gone, None)) is not None:
            return number, "this row is gone"
        if self.fault is not None:
            return self.fault
        first = self._first
        if first is not None and first.seq > 1 and not self._is_anchored(first):
            return first.seq, "rows before it are gone, and no anchor row speaks of them"
        if self._head is None and self.rows:
            return self._last.seq, "nothing says where the chain ends"
        if any(seq > self._last.seq for seq in self._wanted):
            return self._last.seq + 1, f"the rows up to {max(self._wanted)}, which were there, are gone"
        return None

    def _is_anchored(self, row: AuditRow) -> bool:
        """Whether retention has dropped all rows before this one, and said so."""
        return (str(row.seq - 1), row.prior.hex()) in self._anchored

    def _fault_of(self, row: AuditRow) -> tuple[int, str] | None:
        if self._first is None:
            self._first = row
            if row.seq == 1 and row.prior != BEGINNING:
                return row.seq, "it is not the beginning of the chain"
        elif row.seq != self._last.seq + 1:
            self._behind_gaps.append((self._last.seq + 1, row))
        elif row.prior != self._last.digest:
            return row.seq, "it does not follow the row before it"
        if not hmac.compare_digest(row.digest, digest_of(self._key, self._tenant, row)):
            return row.seq, "it was changed"
        if self._wanted.get(row.seq, row.digest) != row.digest:
            return row.seq, "it is another than was there"
        return None


class Journal:
    """Notes of one process that no request waits for; an `Audit`. Mutable, for one event loop."""

    def __init__(self, store: Writes, metrics: Metrics, *, notes_max: int = NOTES_MAX) -> None:
        self._store = store
        self._metrics = metrics
        self._notes: deque[Note] = deque()
        self._notes_max = notes_max
        self._joined = False  # since the last writing
        self._said = Seldom()

    def note(
        self,
        tenant: UUID,
        actor: str,
        action: str,
        *,
        decision: Decision = "allowed",
        why: str = "",
        ids: Iterable[UUID | str] = (),
        names: Mapping[str, str] | None = None,
        detail: Mapping[str, Label] | None = None,
    ) -> None:
        """Note it; written within WRITE_EVERY_S while the store is there. At the bound alike notes become one; past it
        a note is counted and dropped.
        """
        if len(self._notes) >= self._notes_max and not self._joined:
            self._notes, self._joined = deque(together(tuple(self._notes))), True
        if len(self._notes) >= self._notes_max:
            self._metrics.audit.labels("dropped").inc()
            return
        self._notes.append(
            noted(tenant, actor, action, decision=decision, why=why, ids=ids, names=names, detail=detail)
        )

    async def write(self) -> None:
        """Write what is held, by tenant; of a tenant that fails, or when it is cancelled, it stays."""
        waiting: dict[UUID, list[Note]] = {}
        for note in together(tuple(self._notes)):
            waiting.setdefault(note.tenant, []).append(note)
        self._notes.clear()
        self._joined = False
        failed: list[Note] = []
        try:
            for tenant, notes in list(waiting.items()):
                recording = asyncio.create_task(self._store.record(notes))
                try:
                    await asyncio.shield(recording)
                    self._metrics.audit.labels("written").inc(len(notes))
                except MemoryProxyFault as fault:
                    failed += notes
                    if self._said.due(str(tenant)):
                        event(log, "audit_postponed", logging.WARNING, tenant=str(tenant), fault=type(fault).__name__)
                except asyncio.CancelledError:
                    if await _was_done(recording):
                        del waiting[tenant]
                    raise
                del waiting[tenant]
        finally:
            self._hold([*failed, *(note for notes in waiting.values() for note in notes)])

    def _hold(self, notes: Sequence[Note]) -> None:
        """Hold these again, before what came since, as far as there is room."""
        room = max(0, self._notes_max - len(self._notes))
        self._notes.extendleft(reversed(notes[:room]))
        self._metrics.audit.labels("dropped").inc(len(notes[room:]))

    async def keep_writing(self, every_s: float = WRITE_EVERY_S) -> None:
        """Write for ever; run as a task. What is held when it is cancelled is for `write` to write."""
        while True:
            await asyncio.sleep(every_s)
            await self.write()


async def _was_done(recording: asyncio.Task[None]) -> bool:
    """Whether it was, or is within LAST_S: what is ended in the middle of its commit may be kept, and then twice."""
    await asyncio.wait([recording], timeout=LAST_S)
    return not recording.cancel() and not recording.cancelled() and recording.exception() is None


def together(notes: Sequence[Note]) -> list[Note]:
    """Notes that differ in nothing but time and ids as one, with how often it was: a flood makes one row."""
    joined: dict[tuple[object, ...], Note] = {}
    times: dict[tuple[object, ...], int] = {}
    named: dict[tuple[object, ...], int] = {}
    for note in notes:
        plain = {name: value for name, value in note.detail.items() if name not in ("times", "ids_in_all")}
        alike = (
            note.tenant,
            note.actor,
            note.action,
            note.decision,
            note.why,
            tuple(sorted(note.names.items())),
            tuple(sorted((name, repr(value)) for name, value in plain.items())),
        )
        times[alike] = times.get(alike, 0) + int(note.detail.get("times") or 1)
        named[alike] = named.get(alike, 0) + int(note.detail.get("ids_in_all") or len(note.ids))
        known = joined.get(alike)
        ids = tuple(dict.fromkeys((*known.ids, *note.ids))) if known else note.ids
        detail = dict(known.detail if known else note.detail)
        if times[alike] > 1:
            detail["times"] = times[alike]
        if len(ids) >= IDS_MAX:
            detail["ids_in_all"] = named[alike]
        joined[alike] = replace(known or note, ids=ids[:IDS_MAX], detail=detail)
    return list(joined.values())


def _plain(value: Label) -> Label:
    return _word(value) if isinstance(value, str) else value


def _word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise ValueError("the audit log takes ids and words of at most 64 characters, no text")
    return text
