"""What the worker loop asks of the write path: deliveries in, one outcome each out.

In order within the lane, since a subject's later exchanges must not overtake an earlier one. Behind a transient fault
(a store or a model is away) all of the lane waits; behind an entry that is refused and tried again the rest of its
subject does. An envelope that no key opens is poison for good, and nothing waits for it. One whose key was shredded lay
in a spool or an older copy while its subject was forgotten: it goes, as what waited then did. LeaseLost goes up to the
loop.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from memory.errors import (
    EmbedderUnavailable,
    EnvelopeUnreadable,
    KeyShredded,
    QueueUnavailable,
    StoreRefused,
    StoreUnavailable,
)
from memory.ports import Delivery
from memory.telemetry import event
from memory.write.pipeline import WritePath
from memory.write.worker import Outcome, Poison, Stored, Transient

log: Final = logging.getLogger("memory_proxy.write")


class Deliveries:
    """Handles the entries of one lane."""

    def __init__(self, path: WritePath) -> None:
        self._path = path

    async def handle(self, lane: str, fence: int, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Store them in order, under the fence. Raises LeaseLost; any other fault is the loop's to judge."""
        outcomes: list[Outcome] = []
        away, waiting = False, set[tuple[UUID, UUID]]()
        for delivery in deliveries:
            subject = (delivery.entry.tenant_id, delivery.entry.subject_id)
            if away or subject in waiting:
                outcomes.append(Transient("behind one that waits"))
                continue
            outcome = await self._outcome(delivery, fence)
            away = isinstance(outcome, Transient)
            if isinstance(outcome, Poison) and not outcome.final:
                waiting.add(subject)
            outcomes.append(outcome)
        return outcomes

    async def _outcome(self, delivery: Delivery, fence: int) -> Outcome:
        try:
            await self._path.write(delivery, fence)
        except (StoreUnavailable, EmbedderUnavailable, QueueUnavailable) as fault:
            return Transient(f"{type(fault).__name__}: {fault}")
        except KeyShredded:
            event(log, "forgotten_meanwhile", exchange=str(delivery.entry.exchange_id))
            return Stored()
        except EnvelopeUnreadable as fault:
            return Poison(str(fault), final=True)
        except StoreRefused as fault:  # two writers may meet in a constraint: another attempt tells
            return Poison(str(fault))
        return Stored()
