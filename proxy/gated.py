"""The gate where reads leave and writes come in: a credential and things in, what may pass out.

What may be searched is narrowed before anything is ranked (`within`), and what was found passes `policies.gate` once
more; what is seen in a wider scope than the caller's own is noted in the audit log by who gives it out. In open mode
everything passes and nothing is asked. Scope fails closed: what may not be seen looks like what is not there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from memory.errors import CapabilityMissing, NotFound
from memory.model import Candidate, Recall
from memory.read.items import Filter
from memory.telemetry import event
from policies.cascade import Visibility
from policies.gate import Holder, Item, Verdict, filter_erase, filter_read, filter_write, visibilities
from policies.labels import Sensitivity
from policies.lifetime import never_deleted
from proxy.identity import Ask, Credential

log: Final = logging.getLogger("memory_proxy.gate")
T = TypeVar("T")


def holder_of(credential: Credential, session_id: UUID | None = None) -> Holder:
    """The caller as the gate knows it. `session_id` is that of the one conversation a token is for."""
    if credential.key_id is None:
        return Holder(credential.tenant)
    return Holder(credential.tenant, credential.capabilities, credential.ceiling, session_id)


def mode_within(ask: Ask, credential: Credential) -> Ask:
    """What is asked, as far as the key goes: who may not read is given nothing, who may not write leaves nothing."""
    if credential.key_id is None or ask.mode == "off":
        return ask
    holder, anything = holder_of(credential), Item(credential.tenant, Sensitivity.PUBLIC)
    reads = ask.inserts and filter_read(holder, anything).allowed
    writes = ask.captures and filter_write(holder, anything).allowed
    if (reads, writes) == (ask.inserts, ask.captures):
        return ask
    return replace(ask, mode=("read" if reads else "write" if writes else "off"))


def within(where: Filter, holder: Holder) -> Filter:
    """A filter that lets only through what this holder may see, before anything is ranked."""
    if holder.capabilities is None:
        return where
    ceiling = where.ceiling
    if ceiling is None or (holder.ceiling is not None and ceiling.rank > holder.ceiling.rank):
        ceiling = holder.ceiling
    return replace(
        where,
        ceiling=ceiling,
        visibilities=visibilities(holder),
        session_id=holder.session_id or where.session_id,
    )


def let_through(recall: Recall, holder: Holder) -> Recall:
    """What was found, less what the gate refuses."""
    if holder.capabilities is None:
        return recall
    kept: list[Candidate] = []
    known: dict[tuple[str, Visibility, UUID | None], Verdict] = {}  # one verdict for all that are alike
    for one in recall.candidates:
        alike = (one.sensitivity, one.visibility, one.session_id if holder.session_id else None)
        verdict = known.get(alike)
        if verdict is None:
            verdict = known[alike] = filter_read(holder, _item_of(one, holder.tenant))
        if verdict.allowed:
            kept.append(one)
        else:
            _say_held_back(verdict)
    return recall if len(kept) == len(recall.candidates) else replace(recall, candidates=tuple(kept))


def readable(holder: Holder, rows: Iterable[T], item_of: Callable[[T], Item]) -> Sequence[T]:
    """The rows of a list that may leave."""
    if holder.capabilities is None:
        return list(rows)
    return [row for row in rows if filter_read(holder, item_of(row)).allowed]


def sees(holder: Holder, label: Sensitivity) -> bool:
    """Whether what the holder's tenant keeps with this label may be told of at all."""
    return bool(readable(holder, [label], partial(Item, holder.tenant)))


def require_readable(holder: Holder, item: Item, what: str) -> None:
    """Raise NotFound for what may not be seen: it looks like what is not there."""
    if holder.capabilities is not None and not filter_read(holder, item).allowed:
        raise NotFound(f"there is no such {what} in this scope")


def require_writable(holder: Holder, item: Item, what: str, becomes: Sensitivity | None = None) -> None:
    """Raise NotFound for what may not be seen, CapabilityMissing for what may be seen and not be changed so."""
    if holder.capabilities is None:
        return
    verdict = filter_write(holder, item, becomes)
    if verdict.allowed:
        return
    if verdict.why == "lowering":
        raise CapabilityMissing("to lower a memory's sensitivity takes memory:admin", param="sensitivity")
    if verdict.why == "capability":
        raise CapabilityMissing(f"this key may not change this {what}")
    raise NotFound(f"there is no such {what} in this scope")


def may_erase(holder: Holder, item: Item) -> bool:
    """Whether something of the caller's own scope may be forgotten."""
    return holder.capabilities is None or filter_erase(holder, item).allowed


def may_write(holder: Holder, item_of: Callable[[T], Item], what: str) -> Callable[[T], None]:
    """What `require_writable` says of a record that a store is about to change: then it stays as it was."""

    def may(known: T) -> None:
        require_writable(holder, item_of(known), what)

    return may


def may_bring_back(holder: Holder, item_of: Callable[[T], Item], what: str) -> Callable[[T], None]:
    """The same of a deleted record that a store is about to bring back: who may not see it is told that none is there
    to be.
    """

    def may(known: T) -> None:
        try:
            require_writable(holder, item_of(known), what)
        except NotFound:
            raise NotFound(never_deleted(what)) from None

    return may


def may_show(holder: Holder, item_of: Callable[[T], Item], what: str) -> Callable[[T], None]:
    """What `may_bring_back` does, of a record that is answered with its words: who may not read is told of none."""
    brings_back = may_bring_back(holder, item_of, what)

    def may(known: T) -> None:
        if not readable(holder, [known], item_of):
            raise NotFound(never_deleted(what))
        brings_back(known)

    return may


def _item_of(candidate: Candidate, tenant: UUID) -> Item:
    return Item(tenant, Sensitivity(candidate.sensitivity), candidate.visibility, candidate.session_id)


def _say_held_back(verdict: Verdict) -> None:
    """The search before it should have left it out: a defect of ours, worth a line."""
    event(log, "held_back", logging.ERROR, why=verdict.why)
