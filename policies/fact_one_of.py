"""What holds one at a time though its predicate has many objects: a finding in, the same marked so out.

"I prefer tabs over spaces" and, weeks later, "I prefer spaces over tabs" cannot both hold: of the same two, whichever
stands first, one is preferred. Nor is one vegetarian and pescatarian, beside whatever else one is. Pure; refuses
nothing.
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
_DIET: Final = re.compile(r"vegan|v[eé]g[eé]ta[rl]i|pescatari|végane|吃素|素食|ベジタリアン|ヴィーガン|ビーガン|菜食")


def one_at_a_time(one: Told) -> Told:
    """A preference of one thing over another, or a diet, as one at a time of its kind; any other finding as it is."""
    if one.predicate == "status" and _DIET.search(one.object):
        return replace(one, cardinality="one")
    found = _OVER.fullmatch(one.object) if one.predicate == "prefers" and not one.negated else None
    if found is None:
        return one
    both = " ".join(sorted({*found["one"].split(), *found["other"].split()}))
    return replace(one, cardinality="one", qualifiers={**one.qualifiers, "of": both})
