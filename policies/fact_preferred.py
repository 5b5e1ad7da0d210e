"""Which of two somebody prefers: a preference as it was found in, the same as one of its kind out.

"I prefer tabs over spaces" and, weeks later, "I prefer spaces over tabs" cannot both hold: of the same two, whichever
stands first, one is preferred at a time. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from policies.fact_rule import Told

_OVER: Final = re.compile(
    r"(?P<one>.+?) (?:over|rather than|instead of|more than) (?P<other>.+?)"
    r"(?: (?:in|on|for|at|when|while|during|with|by|due to|because|now|after all|these days)\b.*)?",
)


def of_two(one: Told) -> Told:
    """A preference of one thing over another as one at a time of these two; any other finding as it is."""
    found = _OVER.fullmatch(one.object) if one.predicate == "prefers" and not one.negated else None
    if found is None:
        return one
    both = " ".join(sorted({*found["one"].split(), *found["other"].split()}))
    return replace(one, cardinality="one", qualifiers={**one.qualifiers, "of": both})
