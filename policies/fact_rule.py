"""A rule, and what one finds: a pattern with what it means; the words that it matched in, the finding out.

The tables of rules are in `policies/fact_patterns*.py`, and who reads a text by them says how an object ends. Pure;
refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from policies.fact import Cardinality, Category
from policies.fact_patterns_words import as_object

# How the object is read: see `policies/fact_patterns_objects.py`.
Shape = Literal[
    "name",
    "place",
    "employer",
    "job",
    "proper",
    "event",
    "choice",
    "phrase",
    "liking",
    "list",
    "things",
    "clause",
    "exact",
    "owned",
    "age",
    "person",
    "language",
]
# A fact stated in passing inside a question ("how do I use the budget of $5,000") is likelier to be mistaken.
STATED: Final = 0.8
IN_PASSING: Final = 0.6
_RULED: Final = 0.85


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern and what it means. `says` has {S} the speaker, {P} theirs, {o} the object, {k} the kind."""

    pattern: re.Pattern[str]
    predicate: str
    says: str
    shape: Shape = "phrase"
    category: Category = "fact"
    cardinality: Cardinality = "many"
    importance: float = 0.6
    negated: bool = False
    ended: bool = False


def row(pattern: str, predicate: str, says: str, shape: Shape = "phrase", *flags: str, importance: float = 0.6) -> Rule:
    """A row of a table: the flags name a category, `one`, `negated`, `ended`."""
    categories: tuple[Category, ...] = ("preference", "convention", "topology", "decision")
    return Rule(
        re.compile(pattern, re.IGNORECASE), predicate, says, shape,
        next((one for one in categories if one in flags), "fact"),
        "one" if "one" in flags else "many", importance, "negated" in flags or "ended" in flags, "ended" in flags,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """Rules, all to be matched where `trigger` is found, `opens` ends what stands before it in its sentence, and
    `unreal` finds nothing there.
    """

    trigger: re.Pattern[str]
    opens: re.Pattern[str]
    unreal: re.Pattern[str]
    rules: Sequence[Rule]


@dataclass(frozen=True, slots=True)
class Told:
    """One finding: what a `Fact` needs, except how its speaker is called; `says` has {S} and {P} as rules do."""

    subject: str
    predicate: str
    object: str
    says: str
    span: tuple[int, int]
    category: Category
    cardinality: Cardinality = "many"
    negated: bool = False
    correction: bool = False
    importance: float = 0.6
    confidence: float = STATED
    qualifiers: dict[str, str] = field(default_factory=dict)


def told_by(
    rule: Rule, thing: str, span: tuple[int, int], kind: str = "", *, shown: str = "", says: str = "", of: str = "user"
) -> Told:
    """What a rule finds of a thing; `shown`: as the sentence has it, `says`: that sentence, where it is not the rule's,
    `of`: whom or what it is said of.
    """
    shown = shown or thing
    article = "an" if shown[:1].casefold() in "aeiou" else "a"
    said = (says or rule.says).replace("{a o}", f"{article} {shown}").replace("{o}", shown)
    return Told(
        of,
        rule.predicate.format(k=kind.replace(" ", "_")),
        as_object(thing),
        said.replace("{k}", kind).replace("  ", " "),
        span,
        rule.category,
        rule.cardinality,
        negated=rule.negated,
        importance=rule.importance,
        confidence=_RULED,
        qualifiers={"ended": "yes"} if rule.ended else {},
    )
