"""Turns that teach what was taught anew since: hits best first in, the same out, such turns no longer admitted.

Only where the new wording is admitted, and where the turn is about little else. No I/O; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from memory.read.index import Scored
from memory.teachings import SHARE

TAUGHT_ANEW: Final = "its procedure was taught anew"


def without_retaught(hits: Sequence[Scored]) -> list[Scored]:
    """The hits in their order; a turn that teaches an older wording of an admitted procedure is not admitted."""
    newer = [hit.item for hit in hits if hit.item.kind == "procedural" and hit.admitted and hit.item.outdates]
    if not newer:
        return list(hits)
    return [
        replace(hit, admitted=False, why=TAUGHT_ANEW)
        if hit.admitted
        and hit.item.kind == "episodic"
        and any(
            len(hit.item.content) <= SHARE * len(one.content)
            and not set(hit.item.event_ids).isdisjoint(set(one.outdates).difference(one.event_ids))
            for one in newer
        )
        else hit
        for hit in hits
    ]
