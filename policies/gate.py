"""The gate, a data diode: what a caller may do and what an item is in; allowed, or refused and why, out.

Every read that leaves, every write and every erasure of a part passes `filter_read`, `filter_write` or `filter_erase`.
Pure, deterministic, and closed: what no rule allows is refused. Whoever asks for the tenant's, another user's or a too
sensitive thing is not told that it exists; the reasons are for records, not for answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from policies.capabilities import ADMIN, ERASE, READ_OWN, READ_PROJECT, READ_TENANT, WRITE, allows
from policies.cascade import Visibility
from policies.labels import Sensitivity, within_ceiling

Why = Literal["tenant", "capability", "sensitivity", "session", "lowering"]

_READS: Final[dict[Visibility, str]] = {
    "own": READ_OWN,
    "user": READ_OWN,
    "project": READ_PROJECT,
    "tenant": READ_TENANT,
}
_SHARES: Final[dict[Visibility, str]] = {"project": "memory:share:project", "tenant": "memory:share:tenant"}


@dataclass(frozen=True, slots=True)
class Holder:
    """What a caller may do. `capabilities` None: everything (open mode); `ceiling` None: whatever the sensitivity;
    `session_id`: nothing but this conversation.
    """

    tenant: UUID
    capabilities: frozenset[str] | None = None
    ceiling: Sensitivity | None = None
    session_id: UUID | None = None

    def can(self, capability: str) -> bool:
        """Whether it has this capability."""
        return self.capabilities is None or allows(self.capabilities, capability)


@dataclass(frozen=True, slots=True)
class Item:
    """What something is: whose, how sensitive, why it is seen, and of which conversation, if of one."""

    tenant: UUID
    sensitivity: Sensitivity
    visibility: Visibility = "own"
    session_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`why` is None where it is allowed; `crosses` names the wider scope that it was seen or written in, if any."""

    allowed: bool
    why: Why | None = None
    crosses: Visibility | None = None


def visibilities(holder: Holder) -> frozenset[Visibility]:
    """For what reasons this holder may see things at all: what a search is narrowed to before it ranks."""
    return frozenset(reason for reason, capability in _READS.items() if holder.can(capability))


def filter_read(holder: Holder, item: Item) -> Verdict:
    """Whether an item may leave to this holder."""
    return _judged(holder, item, _READS[item.visibility])


def filter_write(holder: Holder, item: Item, becomes: Sensitivity | None = None) -> Verdict:
    """Whether this holder may make or change an item; `becomes` is its sensitivity afterwards, where that changes.

    What it could not see it cannot change. A lower sensitivity lets a thing out where it could not go before, so it
    takes memory:admin.
    """
    verdict = _judged(holder, item, WRITE)
    if not verdict.allowed:
        return verdict
    share = _SHARES.get(item.visibility)
    if share is not None and not holder.can(share):
        return Verdict(False, "capability", verdict.crosses)
    lowers = becomes is not None and becomes is not item.sensitivity and within_ceiling(becomes, item.sensitivity)
    if lowers and not holder.can(ADMIN):
        return Verdict(False, "lowering", verdict.crosses)
    return verdict


def filter_erase(holder: Holder, item: Item) -> Verdict:
    """Whether this holder may have an item of its own scope forgotten: what it could not see it cannot take away."""
    return _judged(holder, item, ERASE)


def _judged(holder: Holder, item: Item, capability: str) -> Verdict:
    crosses = item.visibility if item.visibility in ("project", "tenant") else None
    why: Why | None = None
    if item.tenant != holder.tenant:
        why = "tenant"
    elif not holder.can(capability):
        why = "capability"
    elif holder.ceiling is not None and not within_ceiling(item.sensitivity, holder.ceiling):
        why = "sensitivity"
    elif holder.session_id is not None and item.session_id != holder.session_id:
        why = "session"
    return Verdict(why is None, why, crosses)
