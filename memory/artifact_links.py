"""Links to an artifact's bytes for whoever has no key: an artifact and an expiry in, a signature out, and back.

The signature is an HMAC over tenant, artifact and expiry under a key derived from the tenant's own: it opens this one
artifact until then, while it is no more sensitive than it was, and nothing else. Refuses, before it looks anything up:
ScopeDenied for one that was not made here, Gone for one that has expired. A link says nothing of what still stands: who
serves it asks the store as for any call.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from memory.errors import Gone, MemoryInvalid, ScopeDenied
from memory.master import hkdf
from policies.labels import Sensitivity, is_sealed

LINK_S_MAX: Final = 7 * 86_400
LINK_S_DEFAULT: Final = 3_600
_CEILINGS: Final = (Sensitivity.INTERNAL, Sensitivity.CONFIDENTIAL, Sensitivity.SECRET)
_EXPIRES: Final = re.compile(r"[1-9][0-9]{0,11}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Link:
    """The two members of a link's query. `expires`: seconds since 1970, UTC. `sig`: 64 lower-case hex digits."""

    expires: int
    sig: str


def link_key(content_key: bytes) -> bytes:
    """32 bytes that a tenant's links are signed with, of the tenant's content key (`KeyRing.content_key`)."""
    return hkdf(content_key, b"artifact links")


def signed(
    key: bytes,
    tenant: UUID,
    artifact_id: UUID,
    label: Sensitivity = Sensitivity.INTERNAL,
    *,
    now: datetime,
    expires_s: int = LINK_S_DEFAULT,
) -> Link:
    """A link that is good for `expires_s` seconds, of a file that is labelled so. Raises MemoryInvalid."""
    if not 1 <= expires_s <= LINK_S_MAX:
        raise MemoryInvalid(f"expires_s must be 1 to {LINK_S_MAX} seconds", param="expires_s")
    expires = int((now + timedelta(seconds=expires_s)).timestamp())
    return Link(expires, _signature(key, tenant, artifact_id, expires, label))


def check(key: bytes, tenant: UUID, artifact_id: UUID, expires: str, sig: str, *, now: datetime) -> Sensitivity:
    """The most sensitive that a file may be for this link to open it. Raises ScopeDenied, Gone.

    The signature is looked at first, in constant time: an expired link that nobody signed is a wrong one.
    """
    known = _EXPIRES.match(expires) is not None
    given, until = sig.encode("utf-8", "surrogatepass"), int(expires) if known else 0
    due = {label: _signature(key, tenant, artifact_id, until, label) for label in _CEILINGS}
    good = [label for label, one in due.items() if hmac.compare_digest(one.encode(), given)]
    if not good or not known:
        raise ScopeDenied("this link was not signed for this artifact and expiry: ask for a new one", param="sig")
    if now.timestamp() >= int(expires):
        at = datetime.fromtimestamp(int(expires), UTC).isoformat()
        raise Gone(f"this link expired at {at}: ask for a new one", param="expires")
    return good[0]


def _signature(key: bytes, tenant: UUID, artifact_id: UUID, expires: int, label: Sensitivity) -> str:
    """Over fixed widths and, from confidential on, a label at the end: no two links share a form."""
    words = b"artifact link\0" + tenant.bytes + artifact_id.bytes + expires.to_bytes(8, "big")
    words += label.value.encode() if is_sealed(label) else b""
    return hmac.digest(key, words, "sha256").hex()
