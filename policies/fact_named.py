"""Whose end a name or a word for them tells: an ending that says no more and what is known under it in, what ends out.

"Hannes and I split up" and "Biscuit died" do not say that Hannes is the boyfriend and Biscuit the dog, and "my dog
died" not how he was called: that was said before, under a predicate of its own. Of nobody who is known they tell
nothing. Pure; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from policies.fact import Cardinality, Fact

PARTED: Final = "parted_from"
DIED: Final = "died"
"""What a rule says of somebody it knows by a name or a word ("dog") alone; no fact is kept under these."""
_LOVED: Final = frozenset(
    f"{kind}_name"
    for kind in (
        *("partner", "spouse", "wife", "husband", "girlfriend", "boyfriend"),
        *("fiance", "fiancé", "fiancee", "fiancée"),
    )
)
_NAMING: Final = frozenset({PARTED, DIED, "partner_name"})


Known = Mapping[tuple[str, str], Cardinality]
"""Predicates with an object, and how many objects they have."""


def names_only(fact: Fact) -> bool:
    """Whether a fact ends what may be known of its object under another predicate."""
    return fact.predicate in _NAMING and fact.negated and "ended" in fact.qualifiers


def ended_as(fact: Fact, known: Known) -> list[Fact]:
    """What such a fact ends of what is `known` under its name or word.

    All who were loved under one name are one; of a name that is a sister's and a dog's, and of two dogs, nobody has
    said who died.
    """
    called = [(name, whose) for name, whose in known if name == f"{fact.object}_name"]
    if fact.predicate == DIED:
        found = called or [(name, whose) for name, whose in known if name.endswith("_name") and whose == fact.object]
        found = found if len(found) == 1 else []
    else:
        found = sorted((name, whose) for name, whose in known if name in _LOVED)
    if not found and fact.predicate not in (PARTED, DIED):
        return [fact]
    return [replace(fact, predicate=name, object=whose, cardinality=known[name, whose]) for name, whose in found]
