"""Whether what was quoted to a conversation may be sent to the model again: a memory as quoted and as it stands now in,
why not out.

The law beats the ledger, taste does not (DESIGN section 5): what is erased, held back, rejected, past its end, out of
the caller's reach or worded otherwise now is withdrawn; what is superseded, outranked or doubted stays, byte for byte.
Pure; refuses nothing. Fails closed: a memory of which nothing is known is withdrawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from policies.labels import Sensitivity, within_ceiling

# gone: erased, or no longer shared with the caller. reach: above a ceiling, or out of this caller's reach.
Withdrawal = Literal["gone", "hidden", "quarantined", "rejected", "expired", "reworded", "reach", "unreadable"]
FINAL: frozenset[Withdrawal] = frozenset({"gone", "hidden", "quarantined", "rejected", "expired", "reworded"})
"""Withdrawn for the whole conversation and for good; the others hold for one request."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A memory as it is now. `fingerprint` is that of its content, `hidden` why no prompt gets it, "" for nothing."""

    fingerprint: bytes
    sensitivity: Sensitivity
    expires_at: datetime | None
    hidden: Literal["", "hidden", "quarantined", "rejected"] = ""


def withdrawal(
    quoted: bytes, standing: Standing | None, *, now: datetime, ceiling: Sensitivity | None
) -> Withdrawal | None:
    """Why a memory that was quoted with the fingerprint `quoted` may not be sent again; None: it may."""
    if standing is None:
        return "gone"
    if standing.hidden:
        return standing.hidden
    if standing.fingerprint != quoted:
        return "reworded"
    if standing.expires_at is not None and standing.expires_at <= now:
        return "expired"
    if ceiling is not None and not within_ceiling(standing.sensitivity, ceiling):
        return "reach"
    return None


def is_final(reason: Withdrawal) -> bool:
    """Whether what is withdrawn for this reason stays so."""
    return reason in FINAL
