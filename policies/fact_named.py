"""Whose end a name tells: an ending that only names somebody, and what is known under that name, in; what ends out.

"Hannes and I split up" and "Biscuit died" do not say that Hannes is the boyfriend and Biscuit the dog: that was said
before, under a predicate of its own. Of nobody who is known they tell nothing. Pure; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from policies.fact import Cardinality, Fact

PARTED: Final = "parted_from"
DIED: Final = "died"
"""What a rule says of somebody it knows the name of alone; no fact is kept under these."""
_LOVED: Final = frozenset(
    f"{kind}_name"
    for kind in (
        *("partner", "spouse", "wife", "husband", "girlfriend", "boyfriend"),
        *("fiance", "fiancé", "fiancee", "fiancée"),
    )
)
_NAMING: Final = frozenset({PARTED, DIED, "partner_name"})


def names_only(fact: Fact) -> bool:
    """Whether a fact ends what may be known of its name under another predicate."""
    return fact.predicate in _NAMING and fact.negated and "ended" in fact.qualifiers


def ended_as(fact: Fact, known: Mapping[str, Cardinality]) -> list[Fact]:
    """What such a fact ends of what is `known` under its name: predicates with how many objects they have.

    All who were loved under this name are one; of a name that is a sister's and a dog's nobody has said who died.
    """
    if fact.predicate == DIED:
        found = [name for name in known if name.endswith("_name")]
        found = found if len(found) == 1 else []
    else:
        found = sorted(_LOVED & known.keys())
    if not found and fact.predicate not in (PARTED, DIED):
        return [fact]
    return [replace(fact, predicate=name, cardinality=known[name]) for name in found]
