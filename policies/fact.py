"""What a fact is: one statement that somebody made, with the words it rests on. Values only; pure; refuses nothing.

A fact is a triple (subject, predicate, object) with the time it holds and how many objects its predicate may have at
once. What two facts of one subject and predicate mean for each other is decided in `policies/reconcile.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Category = Literal["fact", "preference", "convention", "topology", "decision"]
# one: a new object ends the old one ("lives in"). many: objects live side by side ("likes").
Cardinality = Literal["one", "many"]


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
