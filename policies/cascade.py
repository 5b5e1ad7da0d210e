"""The cascade: a question's candidates with their tiers in, which of them add nothing to an earlier tier out.

Tiers in order: documents of the user, conversation memory of the user, what the project shares, what the tenant shares.
An earlier tier answers for a later tier's candidate when its best is `AHEAD` likelier to be evidence. All tiers lie in
one index and are ranked together, so this saves places in the block and noise, not time.

What stays whatever an earlier tier has: standing instructions (one of the project applies although the user's memory
answers); what says a statement that stays otherwise, and later (`policies/newest.py`), else the old value were given as
today's. Neither answers for others: an instruction is no answer, and one that is said otherwise later is an old one.
Never admits, never reorders. Pure; refuses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

Visibility = Literal["own", "user", "project", "tenant"]

# Log-odds, 400 to 1. That a tier's best reaches a bound does not tell that it answers, only that it is about the thing:
# with LoCoMo's sessions dealt to two tiers, and the second dropped where the first one's best reaches admission's gate,
# the block of a question whose evidence lies in the second holds .166 of it in place of .864 (BEAM-100K: .158 of .772);
# at a bound of .999 it holds .500 (.500). So each is dropped by itself, where the first one's best is likelier by 0,
# 2, 4, 6: .738, .833, .862, .864 (.561, .680, .706, .772). Where the evidence lies in the first, .848, .828, .822,
# .819 in place of .815 (.808, .788, .769, .769 of .769). 6 is the first that loses none of the second's, by words alone
# too; of evidence in both it leaves .405 of .409 (.384 of .383). Admitted fall by .1 to 1.7 of 18, the characters of a
# block hardly: others take the places (`python -m bench.tune_cascade`). To be measured again on documents and shared
# memories of real use, of which there are none yet.
AHEAD: Final = 6.0
_CERTAIN: Final = 1e-12


class Tier(IntEnum):
    """Where a memory comes from, the first to be asked first."""

    DOCUMENTS = 0
    CONVERSATION = 1
    PROJECT = 2
    TENANT = 3


@dataclass(frozen=True, slots=True)
class Found:
    """One candidate: its tier, whether it is admitted and how likely it is evidence (0..1), whether it is a standing
    instruction, and the place among the given of what says it otherwise later.
    """

    tier: Tier
    admitted: bool
    probability: float
    standing: bool = False
    newer: int | None = None


def tier_of(kind: str, visibility: Visibility) -> Tier:
    """The tier of a memory of this kind in a scope that is seen for this reason."""
    if visibility == "tenant":
        return Tier.TENANT
    if visibility == "project":
        return Tier.PROJECT
    return Tier.DOCUMENTS if kind == "document" else Tier.CONVERSATION


def exits(found: Sequence[Found], ahead: float = AHEAD) -> frozenset[int]:
    """The places of those that add nothing to an earlier tier; none where all are of one tier."""
    if len({one.tier for one in found}) < 2:
        return frozenset()
    best = {tier: _best([one for one in found if one.tier < tier]) for tier in Tier}
    left = {
        at
        for at, one in enumerate(found)
        if one.admitted and not one.standing and _log_odds(one.probability) < best[one.tier] - ahead
    }
    while held := {one.newer for at, one in enumerate(found) if one.admitted and at not in left} & left:
        left -= held
    return frozenset(left)


def _best(earlier: Sequence[Found]) -> float:
    """The log-odds of the best that answers; minus infinity for none."""
    answers = (one for one in earlier if one.admitted and not one.standing and one.newer is None)
    return max((_log_odds(one.probability) for one in answers), default=-math.inf)


def _log_odds(probability: float) -> float:
    held = min(max(probability, _CERTAIN), 1.0 - _CERTAIN)
    return math.log(held / (1.0 - held))
