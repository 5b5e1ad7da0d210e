"""What an exchange leaves beside its turns: what was captured in, its row, its retrieval and its ledger nodes out.

What holds words is sealed under the key of its subject. Refuses what is not the entry's own (EnvelopeUnreadable).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from memory import payload
from memory.delta import delta_of
from memory.envelope import Binding, key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable
from memory.kept import opened_body
from memory.keys import KeyRing
from memory.model import Base, Captured, Delta, Entry, LedgerNode, SealedRetrieval, StoredExchange, Turn
from memory.ports import Delivery
from memory.read.conversation import CUT
from memory.read.entries import packed

BASE_BYTES_MIN: Final = 8_192
"""Less than that is kept whole: there is little to win, and a trip to the store for it."""
SMALLER_BY: Final = 8
"""A delta grows by what is said since its base. With those of up to an eighth of the whole, a conversation of whose
requests .1 to 10 % are new takes at most 1.6 times the least that any number of deltas to a base would; with a quarter
2.9, with a sixteenth 2.5.
"""


class Records:
    """Opens what was captured and seals what is kept of it. Raises StoreUnavailable where a key is not at hand."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    async def opened(self, delivery: Delivery) -> bytes:
        """What an entry of the queue holds."""
        entry = delivery.entry
        key = await self._keys.by_id(entry.tenant_id, key_id_of(entry.envelope))
        purpose: Any = entry.kind
        return unseal(key, Binding(entry.tenant_id, entry.subject_id, entry.exchange_id, purpose), entry.envelope)

    async def exchange(self, captured: Captured, delivery: Delivery, base: Base | None = None) -> StoredExchange:
        """The exchange as a row, its body as a delta from `base` too where that is small."""
        choices = captured.answer.get("choices", [])
        sealed = await self._under_subject_key(captured, delivery) if captured.request else None
        return StoredExchange(
            exchange_id=captured.exchange_id,
            subject_id=delivery.entry.subject_id,
            origin="live",
            status=captured.status,
            reason=captured.reason,
            http_status=captured.http_status,
            model=captured.model,
            finish_reasons=tuple(c["finish_reason"] or "" for c in choices),
            usage=captured.answer.get("usage"),
            arrived_at=captured.arrived_at,
            finished_at=captured.finished_at,
            sealed=sealed,
            delta=await self._delta(captured, delivery, base) if sealed and base else None,
        )

    async def _delta(self, captured: Captured, delivery: Delivery, base: Base) -> Delta | None:
        """The body as what its base has not; None where that is not much less, or no key opens the base any more."""
        tenant, subject, whole = captured.scope.tenant, delivery.entry.subject_id, await self.opened(delivery)
        try:
            other = await opened_body(self._keys, tenant, subject, base.exchange_id, base.sealed)
            delta = await asyncio.to_thread(lambda: delta_of(payload.spread(whole), payload.spread(other)))
        except EnvelopeUnreadable:
            return None
        if len(delta) * SMALLER_BY > len(whole):
            return None
        return Delta(base.exchange_id, await self._sealed(captured, captured.exchange_id, "exchange", delta))

    async def _under_subject_key(self, captured: Captured, delivery: Delivery) -> bytes:
        """The envelope as it came, or sealed again where the proxy had only the tenant's key at hand."""
        entry = delivery.entry
        key = await self._keys.subject_key(captured.scope.tenant, captured.scope.user)
        if key_id_of(entry.envelope) == key.key_id:
            return entry.envelope
        binding = Binding(entry.tenant_id, entry.subject_id, entry.exchange_id, "exchange")
        return seal(key, binding, await self.opened(delivery))

    async def retrieval(self, captured: Captured) -> SealedRetrieval | None:
        """The record of what was placed, its words sealed."""
        record = captured.retrieval
        if record is None:
            return None
        placed = [{"position": p.position, "text": p.text} for p in record.placed]
        texts = {"query": record.query, "placed": placed, "left_out": record.left_out}
        sealed = await self._sealed(captured, record.retrieval_id, "retrieval", json.dumps(texts).encode())
        return SealedRetrieval(record, captured.model, sealed)

    async def ledger_nodes(self, captured: Captured, turns: Sequence[Turn]) -> tuple[LedgerNode, ...]:
        """A node for each new chain position, with what was placed at it, be it by an earlier request, which was not
        answered; in mode `read` for the block alone. Of what was asked as of another moment without it.
        """
        record = captured.retrieval if captured.retrieval and not captured.retrieval.apart else None
        tokens = {turn.chain: turn.token_count for turn in turns}
        reads = captured.mode == "read"
        placed = record.placed if record else ()
        blocks = {one.chain: one for one in placed if reads or not one.kept or one.chain in tokens}
        position = {digest: index for index, digest in enumerate(captured.digests) if digest is not None}
        nodes = []
        for chain in dict.fromkeys((*tokens, *blocks)):
            block = blocks.get(chain)
            at = block.position if block else len(captured.digests)
            nodes.append(
                LedgerNode(
                    chain=chain,
                    position=position.get(chain, at),
                    token_count=tokens.get(chain),
                    placed_sealed=await self._sealed_entry(captured, block.entry, record.retrieval_id)
                    if record and block
                    else None,
                    placed_sha256=hashlib.sha256(block.text.encode()).digest() if block else None,
                    placed_tokens=block.tokens if block else None,
                    retrieval_id=record.retrieval_id if record and block else None,
                    anew=block.anew if block else False,
                )
            )
        if record and (cut := record.cut) is not None:
            found = record.retrieval_id
            nodes.append(LedgerNode(CUT, -1, None, cut, hashlib.sha256(cut).digest(), 0, found, anew=True))
        return tuple(nodes)

    async def _sealed_entry(self, captured: Captured, entry: Entry, first: UUID) -> bytes:
        """An entry as the ledger reads it: bound to its conversation, and of the `first` record that there is of it."""
        plain = packed(replace(entry, retrieval_id=first))
        return await self._sealed(captured, captured.session.session_id, "ledger", plain)

    async def _sealed(self, captured: Captured, object_id: UUID, purpose: Any, plaintext: bytes) -> bytes:
        scope = captured.scope
        subject = await self._keys.subject_id(scope.tenant, scope.user)
        key = await self._keys.subject_key(scope.tenant, scope.user)
        return seal(key, Binding(scope.tenant, subject, object_id, purpose), plaintext)
