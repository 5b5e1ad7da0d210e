"""The cascade over what an index found: hits best first in, the same hits out, some of them no longer admitted.

Knows which tier a hit is of: by its kind, and by why its scope is seen. One that is held in several tiers in the same
words is of the first of them. `policies/cascade.py` decides. No I/O; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from memory.read.hot import HotScope
from memory.read.index import Scored
from memory.read.items import IndexItem
from policies.cascade import Found, Tier, exits, tier_of

ANSWERED: Final = "an earlier tier answers"


def cascaded(hits: Sequence[Scored], hot: HotScope) -> list[Scored]:
    """The hits in their order; what adds nothing to an earlier tier is not admitted, and says so."""
    tiers = [_tier(hit, hot) for hit in hits]
    if len(set(tiers)) < 2:
        return list(hits)
    places = {hit.item.memory_id: at for at, hit in enumerate(hits)}
    found = [
        Found(
            tier=tier,
            admitted=hit.admitted,
            probability=hit.parts["admission"],
            standing=hit.features.standing,
            newer=places.get(hit.later) if hit.later else None,
        )
        for hit, tier in zip(hits, tiers, strict=True)
    ]
    left = exits(found)
    return [replace(hit, admitted=False, why=ANSWERED) if at in left else hit for at, hit in enumerate(hits)]


def _tier(hit: Scored, hot: HotScope) -> Tier:
    """The first tier that holds these words."""
    if not hit.folded:
        return _tier_of(hit.item, hot)
    items = [hit.item, *(item for item in map(hot.index.held, hit.folded) if item is not None)]
    return min(_tier_of(item, hot) for item in items)


def _tier_of(item: IndexItem, hot: HotScope) -> Tier:
    """A scope of which nothing is known is taken for the caller's own."""
    return tier_of(item.kind, hot.visibility.get(item.scope_id, "own"))
