"""The labels of indexed items as arrays: (slot, item) in, one mask of visible slots out.

Bookkeeping of ScopeIndex: it owns the slot numbers, this holds what filters test. No I/O, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.read.items import PAST, Filter, IndexItem
from policies.labels import Sensitivity
from policies.ranking import faded, prior, strength
from policies.standing import standing

_SENSITIVITY: Final = {label: rank for rank, label in enumerate(Sensitivity)}
_LOW_BITS: Final = 2**64 - 1
_START: Final = 16  # slots of an empty index

A = TypeVar("A", bound=np.generic)


def grown(values: NDArray[A], fill: Any) -> NDArray[A]:
    """A copy twice as long, the new half filled."""
    return np.concatenate([values, np.full_like(values, fill)])


_VOUCHED: Final = frozenset({"admin", "user"})  # whose standing instructions hold


@dataclass(frozen=True, slots=True)
class Visible:
    """The slots that take part in a search, in order. `pick` takes theirs out of an array, as a view where all do."""

    pick: slice | NDArray[np.intp]
    count: int

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> Visible:
        """Those where the mask is true."""
        count = int(np.count_nonzero(mask))
        return cls(slice(0, count) if count == len(mask) else np.flatnonzero(mask), count)

    def has(self, slot: int) -> bool:
        """Whether a slot takes part."""
        at = self.position(slot)
        return at < self.count and (isinstance(self.pick, slice) or int(self.pick[at]) == slot)

    def position(self, slot: int) -> int:
        """The position of a slot that takes part."""
        return slot if isinstance(self.pick, slice) else int(np.searchsorted(self.pick, slot))

    def positions(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """The positions of those of these slots that take part."""
        if isinstance(self.pick, slice) or not len(slots):
            return slots
        at = np.searchsorted(self.pick, slots)
        inside = at < self.count
        at, slots = at[inside], slots[inside]
        found: NDArray[np.intp] = at[self.pick[at] == slots]
        return found

    def slots(self, positions: NDArray[np.intp] | Sequence[int]) -> list[int]:
        """The slots at these positions."""
        at = np.asarray(positions, np.intp)
        found: list[int] = (at if isinstance(self.pick, slice) else self.pick[at]).tolist()
        return found


@dataclass(frozen=True, slots=True)
class Traits:
    """What the columns say of some slots, whatever is asked: arrays in the order of the slots, or one for all of them.

    `standing` are the positions of standing instructions.
    """

    demotion: NDArray[np.float32]
    prior: NDArray[np.float32] | float
    reinforcement: NDArray[np.float32] | float
    standing: NDArray[np.intp]


@dataclass(slots=True)
class _Seen:
    """What any slot has or had, so never too little: `expires` is the soonest expiry, seconds since 1970."""

    kinds: set[int] = field(default_factory=set)
    roles: set[int] = field(default_factory=set)
    scopes: set[int] = field(default_factory=set)
    expires: float = np.inf
    prior: bool = False
    injected: bool = False
    alone: bool = False

    def note(self, *, kind: int, role: int, scope: int, expires: float, prior: bool, alone: bool) -> None:
        self.kinds.add(kind)
        self.roles.add(role)
        self.scopes.add(scope)
        self.expires = min(self.expires, expires)
        self.prior |= prior
        self.alone |= alone


def _keep(mask: NDArray[np.bool_], column: NDArray[Any], seen: Collection[int], wanted: Collection[int]) -> None:
    """Hide what is not of these. A column has few values: each that is left out costs one comparison."""
    for one in set(seen).difference(wanted):
        mask &= column != one


class Columns:
    """One array per label, indexed by slot. Times are seconds since 1970; an absent time is -inf, no expiry +inf.

    What all slots had from the first on is known beside them, so that a filter reads no array that hides nothing: each
    costs 10-20 us of 10,000 slots where other work has emptied the caches.
    """

    def __init__(self) -> None:
        self.alive: NDArray[np.bool_] = np.zeros(_START, np.bool_)
        self.occurred: NDArray[np.float64] = np.zeros(_START, np.float64)
        self._demotion: NDArray[np.float32] = np.zeros(_START, np.float32)
        self.standing: NDArray[np.bool_] = np.zeros(_START, np.bool_)
        self._prior: NDArray[np.float32] = np.zeros(_START, np.float32)
        self._strength: NDArray[np.float32] = np.zeros(_START, np.float32)
        self._injected: NDArray[np.float64] = np.zeros(_START, np.float64)
        self.identity: NDArray[np.uint64] = np.zeros(_START, np.uint64)  # an order that no way of loading changes
        self._expires: NDArray[np.float64] = np.zeros(_START, np.float64)
        self._scope: NDArray[np.int64] = np.zeros(_START, np.int64)
        self._kind: NDArray[np.int32] = np.zeros(_START, np.int32)
        self._role: NDArray[np.int32] = np.zeros(_START, np.int32)
        self._session: NDArray[np.int32] = np.zeros(_START, np.int32)
        self._sensitivity: NDArray[np.int8] = np.zeros(_START, np.int8)
        self._alone: NDArray[np.bool_] = np.zeros(_START, np.bool_)  # of its conversation alone
        self._unsaid: NDArray[np.bool_] = np.zeros(_START, np.bool_)  # by any message of its conversation
        self._codes: dict[str | UUID, int] = {}
        self._seen = _Seen()

    @property
    def bytes_held(self) -> int:
        """Bytes of the arrays."""
        return len(self.alive) * 73

    def put(self, slot: int, item: IndexItem, sensitivity: Sensitivity, demotion: float) -> None:
        """Fill a slot."""
        if slot >= len(self.alive):
            self._grow()
        self.alive[slot] = True
        self.occurred[slot] = item.occurred_at.timestamp() if item.occurred_at else -np.inf
        self._demotion[slot] = demotion
        self._prior[slot] = known = prior(item.importance, item.validation_status)
        self.count(slot, item.injected, item.last_injected_at)
        self.standing[slot] = item.integrity in _VOUCHED and standing(item.role, item.content) is not None
        self.identity[slot] = item.memory_id.int & _LOW_BITS
        self._expires[slot] = item.expires_at.timestamp() if item.expires_at else np.inf
        self._scope[slot] = item.scope_id
        self._kind[slot] = self._code(item.recalled_as)
        self._role[slot] = self._code(item.role)
        self._session[slot] = -2 if item.session_id is None else self._code(item.session_id)
        self._sensitivity[slot] = _SENSITIVITY[sensitivity]
        self._alone[slot] = item.of_session_alone
        self._unsaid[slot] = item.is_unsaid
        self._seen.note(
            kind=int(self._kind[slot]),
            role=int(self._role[slot]),
            scope=item.scope_id,
            expires=float(self._expires[slot]),
            prior=known != 0.0,
            alone=item.of_session_alone,
        )

    def count(self, slot: int, injected: int, last: datetime | None) -> None:
        """How often a slot's memory was injected, and when last."""
        self._strength[slot] = strength(injected) if last else 0.0
        self._seen.injected |= last is not None
        self._injected[slot] = last.timestamp() if last else 0.0

    def traits(self, visible: Visible, now: datetime) -> Traits:
        """What ranking asks of these slots, as of now."""
        pick = visible.pick
        return Traits(
            demotion=self._demotion[pick],
            prior=self._prior[pick] if self._seen.prior else 0.0,
            reinforcement=self._reinforcement(visible, now) if self._seen.injected else 0.0,
            standing=visible.positions(np.flatnonzero(self.standing)),
        )

    def _reinforcement(self, visible: Visible, now: datetime) -> NDArray[np.float32]:
        """What their injections are worth by now, 0..1, in their order."""
        worth = np.zeros(visible.count, np.float32)
        slots = np.flatnonzero(self._strength)  # most were never injected, and powers are dear
        at = visible.positions(slots)
        slots = at if isinstance(visible.pick, slice) else visible.pick[at]
        age_s = np.maximum(now.timestamp() - self._injected[slots], 0.0)
        worth[at] = faded(self._strength[slots], age_s)
        return worth

    def drop(self, slot: int) -> None:
        """Hide a slot until it is filled again."""
        self.alive[slot] = False
        self.standing[slot] = False
        self._strength[slot] = 0.0

    def mask(self, count: int, where: Filter, now: datetime) -> NDArray[np.bool_]:
        """Which of the first `count` slots may be seen: alive, unexpired, and let through by every label filter."""
        part, seen = slice(0, count), self._seen
        latest = (now if where.unexpired_at is None else max(now, where.unexpired_at)).timestamp()
        mask: NDArray[np.bool_] = self.alive[part].copy()
        if seen.expires <= latest:
            mask &= self._expires[part] > latest
        kinds = where.kinds and (where.kinds | {PAST} if "summary" in where.kinds else where.kinds)
        if kinds is not None:
            _keep(mask, self._kind[part], seen.kinds, self._known(kinds))
        if where.roles is not None:
            _keep(mask, self._role[part], seen.roles, self._known(where.roles))
        if where.scope_ids is not None:
            _keep(mask, self._scope[part], seen.scopes, where.scope_ids)
        if where.ceiling is not None:
            mask &= self._sensitivity[part] <= _SENSITIVITY[where.ceiling]
        if where.occurred_after is not None:
            mask &= self.occurred[part] >= where.occurred_after.timestamp()
        if where.occurred_before is not None:
            mask &= np.isfinite(self.occurred[part]) & (self.occurred[part] <= where.occurred_before.timestamp())
        self._keep_sessions(mask, where)
        return mask

    def _keep_sessions(self, mask: NDArray[np.bool_], where: Filter) -> None:
        """Hide what this conversation, or another, is not to see."""
        count, excluded = len(mask), where.exclude_session_id
        if where.session_id is not None:
            mask &= self.of_session(where.session_id, count)
        if excluded is not None and excluded in self._codes:
            said = np.flatnonzero(self.of_session(excluded, count))
            mask[said[~self._unsaid[said]]] = False  # what no message says the prompt lacks
        if self._seen.alone:
            asking = [self._codes.get(one, -1) for one in where.asking]
            mask &= ~self._alone[:count] | np.isin(self._session[:count], asking)

    def of_session(self, session_id: UUID, count: int) -> NDArray[np.bool_]:
        """Which of the first `count` slots belong to a session."""
        mine: NDArray[np.bool_] = self._session[:count] == self._codes.get(session_id, -1)
        return mine

    def _known(self, names: Collection[str]) -> set[int]:
        return {self._codes[name] for name in names if name in self._codes}

    def _code(self, name: str | UUID) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def _grow(self) -> None:
        self.alive = grown(self.alive, False)
        self.occurred = grown(self.occurred, 0.0)
        self._demotion = grown(self._demotion, 0.0)
        self.standing = grown(self.standing, False)
        self._prior = grown(self._prior, 0.0)
        self._strength = grown(self._strength, 0.0)
        self._injected = grown(self._injected, 0.0)
        self.identity = grown(self.identity, 0)
        self._expires = grown(self._expires, 0.0)
        self._scope = grown(self._scope, 0)
        self._kind = grown(self._kind, 0)
        self._role = grown(self._role, 0)
        self._session = grown(self._session, 0)
        self._sensitivity = grown(self._sensitivity, 0)
        self._alone = grown(self._alone, False)
        self._unsaid = grown(self._unsaid, False)
