"""What a fact is: one statement that somebody made, with the words it rests on. Values only; pure; refuses nothing.

A fact is a triple (subject, predicate, object) with the time it holds and how many objects its predicate may have at
once. What two facts of one subject and predicate mean for each other is decided in `policies/reconcile.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

Category = Literal["fact", "preference", "convention", "topology", "decision"]
# one: a new object ends the old one ("lives in"). many: objects live side by side ("likes").
Cardinality = Literal["one", "many"]
# People have many meetings and costs at once: one without a name replaces another only where a change is spoken of.
_OF_MANY: Final = frozenset({"time", "cost", "price", "fee"})
_FIGURES: Final = re.compile(r"[\d.,:T/-]+")


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement. `subject`, `predicate` and `object` are normalised: casefolded, single spaces, no articles.

    `subject` is "user" for the one who speaks of themselves, else a name or a thing. `statement` is how a memory shows
    it, a sentence that can be read alone. `span` is the character range of the text it rests on, never empty.
    """

    subject: str
    predicate: str  # lower_snake_case: "lives_in", "deadline_of"
    object: str
    statement: str
    span: tuple[int, int]
    category: Category = "fact"
    cardinality: Cardinality = "many"
    negated: bool = False  # "no longer", "not any more": the object ends, nothing takes its place
    correction: bool = False  # "actually", "no, it is": beats what was said before, whenever that was
    valid_from: datetime | None = None  # of the world; None: since it was said
    valid_to: datetime | None = None
    confidence: float = 0.8  # 0..1
    importance: float = 0.5  # 0..1
    qualifiers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Aspect:
    """What tells a thing from its like: "the first sprint", a share or a sum.

    `of` are words, sorted; `of_many`: people have many such things at once; `changed`: a change was spoken of.
    """

    of: str = ""
    unit: str = ""
    of_many: bool = False
    changed: bool = False

    @property
    def is_one(self) -> bool:
        """Whether nothing else can be of this very aspect at the same time."""
        return bool(self.of) or not self.of_many

    def replaces(self, older: Aspect) -> bool:
        """Whether a newer value of this aspect ends an older one: what tells the thing apart is said by one of them
        only, or by both alike. "The sprint" may be the first sprint; the first sprint is not the second one.
        """
        if self.unit != older.unit:
            return False
        mine, theirs = set(self.of.split()), set(older.of.split())
        if self.of_many and not (mine and theirs) and not self.changed:
            return False
        return mine <= theirs or theirs <= mine


def aspect_of(fact: Fact) -> Aspect:
    """What a fact's qualifiers say of it."""
    return Aspect(
        of=" ".join(sorted(fact.qualifiers.get("of", "").casefold().split())),
        unit=_FIGURES.sub("", fact.qualifiers.get("value", "")),
        of_many=fact.predicate in _OF_MANY,
        changed="changed" in fact.qualifiers,
    )
