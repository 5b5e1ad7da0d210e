"""What is kept of an exchange, opened: a sealed body and its base in, the exchange as it was captured out.

Raises EnvelopeUnreadable where a key is gone, or bytes are not what was sealed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from uuid import UUID

from memory import payload
from memory.delta import whole_of
from memory.envelope import Binding, key_id_of, unseal
from memory.keys import KeyRing
from memory.model import Base, Captured


async def kept_exchange(
    keys: KeyRing, tenant: UUID, subject_id: UUID, exchange_id: UUID, sealed: bytes, base: Base | None
) -> Captured:
    """The exchange as it was captured. Raises EnvelopeUnreadable, StoreUnavailable."""
    plain = await opened_body(keys, tenant, subject_id, exchange_id, sealed)
    if base is None:
        return await asyncio.to_thread(payload.unpack_captured, plain)
    other = await opened_body(keys, tenant, subject_id, base.exchange_id, base.sealed)
    return await asyncio.to_thread(partial(_put_together, plain, other))


async def opened_body(keys: KeyRing, tenant: UUID, subject_id: UUID, exchange_id: UUID, sealed: bytes) -> bytes:
    """What a sealed body of an exchange holds. Raises EnvelopeUnreadable, StoreUnavailable."""
    key = await keys.by_id(tenant, key_id_of(sealed))
    return unseal(key, Binding(tenant, subject_id, exchange_id, "exchange"), sealed)


def _put_together(delta: bytes, base: bytes) -> Captured:
    return payload.unpack_spread(whole_of(delta, payload.spread(base)))
