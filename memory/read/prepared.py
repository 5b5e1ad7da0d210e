"""A question made ready but for its vector: which slots take part, and all of the score that needs no vector.

Values only: ScopeIndex makes them in `prepare` and reads them in `rank`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.read.arms import Floats, Part
from memory.read.columns import Traits, Visible
from memory.read.items import Filter
from memory.read.speakers import Named
from memory.read.talk import Together
from policies import ranking

QUERY_CHARS_JUDGED: Final = 4_096


def judged(query: str) -> str:
    """What of a query is read for what it asks: its end, since the question comes last."""
    return query[-QUERY_CHARS_JUDGED:]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Good for one index in one `state` only: `rank` looks. Arrays by item are of the visible, in their order.

    `terms` maps each term to its idf, `forms` one that is held in several forms to the others. `unaided` is the part of
    the score that needs neither the vector nor other scores; `parts` are what it and the score by words alone are made
    of, by name.
    """

    query: str
    now: datetime
    where: Filter
    state: object
    terms: dict[str, float]
    forms: dict[str, tuple[str, ...]]
    personal: bool
    unspaced: bool
    weights: ranking.Weights
    named: Named | None
    timely: bool  # it asks what was at a time, naming little else
    allowed: NDArray[np.bool_]  # which slots the filter lets pass, facts that their turns speak for included
    visible: Visible
    traits: Traits
    together: Together
    unit_lexical: Floats
    unit_holds: NDArray[np.uint64]  # which of the terms, one bit each
    lexical: Floats
    parts: dict[str, Part]
    unaided: Floats

    @property
    def told(self) -> dict[str, float]:
        """The idf of each term in all its forms."""
        forms = ((form, idf) for term, idf in self.terms.items() for form in self.forms.get(term, ()))
        return {**dict(forms), **self.terms} if self.forms else self.terms
