"""Links to an artifact's bytes for whoever has no key: an artifact and an expiry in, a signature out, and back.

The signature is an HMAC over tenant, artifact and expiry under a key derived from the tenant's own: it opens this one
artifact until then, and nothing else. Refuses, before it looks anything up: ScopeDenied for one that was not made here,
Gone for one that has expired. A link says nothing of what still stands: who serves it asks the store as for any call.
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

LINK_S_MAX: Final = 7 * 86_400
LINK_S_DEFAULT: Final = 3_600
_EXPIRES: Final = re.compile(r"[1-9][0-9]{0,11}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Link:
    """The two members of a link's query. `expires`: seconds since 1970, UTC. `sig`: 64 lower-case hex digits."""

    expires: int
    sig: str


def link_key(content_key: bytes) -> bytes:
    """32 bytes that a tenant's links are signed with, of the tenant's content key (`KeyRing.content_key`)."""
    return hkdf(content_key, b"artifact links")


def signed(key: bytes, tenant: UUID, artifact_id: UUID, *, now: datetime, expires_s: int = LINK_S_DEFAULT) -> Link:
    """A link that is good for `expires_s` seconds. Raises MemoryInvalid."""
    if not 1 <= expires_s <= LINK_S_MAX:
        raise MemoryInvalid(f"expires_s must be 1 to {LINK_S_MAX} seconds", param="expires_s")
    expires = int((now + timedelta(seconds=expires_s)).timestamp())
    return Link(expires, _signature(key, tenant, artifact_id, expires))


def check(key: bytes, tenant: UUID, artifact_id: UUID, expires: str, sig: str, *, now: datetime) -> None:
    """Return where the link is good. Raises ScopeDenied, Gone.

    The signature is looked at first, in constant time: an expired link that nobody signed is a wrong one.
    """
    known = _EXPIRES.match(expires) is not None
    due = _signature(key, tenant, artifact_id, int(expires) if known else 0)
    if not hmac.compare_digest(due.encode(), sig.encode("utf-8", "surrogatepass")) or not known:
        raise ScopeDenied("this link was not signed for this artifact and expiry: ask for a new one", param="sig")
    if now.timestamp() >= int(expires):
        at = datetime.fromtimestamp(int(expires), UTC).isoformat()
        raise Gone(f"this link expired at {at}: ask for a new one", param="expires")


def _signature(key: bytes, tenant: UUID, artifact_id: UUID, expires: int) -> str:
    """Over fixed widths: no two links share a form."""
    words = b"artifact link\0" + tenant.bytes + artifact_id.bytes + expires.to_bytes(8, "big")
    return hmac.digest(key, words, "sha256").hex()
