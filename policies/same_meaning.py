"""Whether two facts say the same in other words: two triples with their sentences in, yes or no out.

A vector cannot tell who did what to whom, whether, or how often: such words are small. So two facts are the same only
where nothing is left over. Their predicates must be ways of saying one thing (a closed table, `kin_of`), their objects
the same words once numbers, units and dates are written in one way, and whatever else their sentences say must be said
by both, word for word and in the same order. The cosine of their vectors comes on top, against sentences that tell
something else than their triple. What the table does not know stays two facts: a duplicate costs a line, a false
merge costs a truth.

`better` says which of the two is kept. Pure; refuses nothing. Figures: docs/decisions/0018.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

from policies.labels import Integrity
from policies.text import SIGNS, normalised

COSINE_MIN: Final = 0.8
"""MiniLM over sentences dated half a year apart (python -m bench.duplicates): of 33 pairs that mean the same the least
is .852, of 122 that do not they are .614 to .959. A net behind the words, not a judge."""

SENTENCE_CHARS_MAX: Final = 400
"""A longer sentence says more than a triple; it is never merged."""

# Ways of saying one thing, of anything. Not in it, though near: hometown and home, drives and owns, loves and likes
# (a person is not liked as tea is), company and employer, called and name (who was
# called on the phone?), deadline and due date (of a child?).
_KIN: Final[tuple[frozenset[str], ...]] = tuple(
    frozenset(line.split())
    for line in (
        "lives_in living_in resides_in home_in home_is_in based_in home_city city_of_residence residence",
        "works_at works_for working_at employed_by employed_at employer",
        "job occupation profession works_as job_title employed_as",
        "allergic_to allergy allergies has_allergy has_allergy_to has_condition",
        "birthday birth_date birthdate date_of_birth born_on",
        "born_in birthplace place_of_birth",
        "comes_from originally_from hails_from",
        "hometown home_town",
        "speaks speaks_language",
        "likes enjoys fond_of",
        "dislikes does_not_like",
        "prefers has_preference_for",
        "married_to spouse spouse_name",
        "age aged years_old",
        "email email_address e_mail",
        "written_in programmed_in coded_in",
        "depends_on relies_on",
        "located_at located_in",
        "listens_on listens_on_port",
    )
)
# A person is named by what they are to somebody; an animal or a thing is not ("cat: siamese").
_RELATIVES: Final = frozenset(
    [
        "wife",
        "husband",
        "mother",
        "father",
        "mom",
        "dad",
        "son",
        "daughter",
        "brother",
        "sister",
        "boss",
        "manager",
        "partner",
        "girlfriend",
        "boyfriend",
        "doctor",
        "dentist",
        "lawyer",
        "coach",
        "landlord",
        "therapist",
    ]
)
_NAMED: Final = re.compile(r"_(?:is_called|is_named|name|named)$")
_ALLERGY: Final = re.compile(r"(.+?) allerg(?:y|ies)")
_CONDITION: Final = frozenset({"has_condition"})

_ARTICLES: Final = frozenset({"a", "an", "the"})
# What a sentence needs around its subject, predicate and object. No word that says who, whether, how often or since.
_GLUE: Final = frozenset(
    ["the", "a", "an", "is", "are", "s", "user", "to", "at", "in", "for", "of", "has", "have", "on", "by", "as"]
)
_NUMBERS: Final = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
    if word != "one"  # "one" is also somebody
}
_UNITS: Final = {
    word: unit
    for unit, words in {
        "km": "kilometer kilometers kilometre kilometres",
        "kg": "kilogram kilograms kilo kilos kgs",
        "h": "hour hours hr hrs",
        "min": "minute minutes mins",
        "gb": "gigabyte gigabytes",
        "mb": "megabyte megabytes",
        "%": "percent",
    }.items()
    for word in words.split()
}
_MONTHS: Final = {
    name: f"{number:02}"
    for number, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}
_MONTH_NAME: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY_FIRST: Final = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH_NAME})\b\.?")
_MONTH_FIRST: Final = re.compile(rf"\b({_MONTH_NAME})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)")
_GROUPED: Final = re.compile(r"(?<=\d),(?=\d{3}\b)")
_SYMBOLS: Final = "%$€£¥#+<>=~&@*^"
_WORD: Final = rf"[^\W\d_]+(?:[{SIGNS}]+[^\W\d_]*)*"  # with the signs on its letters: केला is not कोला
_TOKEN: Final = re.compile(rf"\d+(?:[.,:/-]\d+)*|{_WORD}(?:['’-]{_WORD})*|[{re.escape(_SYMBOLS)}]|-(?=\d)")
_POSSESSIVE: Final = re.compile(r"['’]s\b")
_APART: Final = re.compile(r"(?<=\d)(?=[^\W\d_])")


Sense = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Meant:
    """What a fact says: its normalised triple, and the sentence that shows it."""

    subject: str
    predicate: str
    object: str
    statement: str
    negated: bool = False
    aspect: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What speaks for keeping a fact. `kept`: a person pinned or confirmed it. `holds_others`: some stand behind it."""

    memory_id: UUID
    kept: bool
    holds_others: bool
    corrects: bool
    integrity: Integrity
    sayings: int
    confidence: float
    said_at: datetime


def same_meaning(one: Meant, other: Meant, cosine: float) -> bool:
    """Whether both say the same, so that one of them is enough."""
    sense = sense_of(one)
    return cosine >= COSINE_MIN and sense is not None and sense == sense_of(other)


def sense_of(one: Meant) -> Sense | None:
    """What it says, equal for all that says the same by its words; None for what is compared with nothing."""
    if len(one.statement) > SENTENCE_CHARS_MAX:
        return None
    said = _predicate_and_object(one)
    if not said[1]:
        return None
    return (one.subject, one.negated, one.aspect, one.unit, *said, _left_over(one))


@lru_cache(4_096)
def kin_of(predicate: str) -> frozenset[str]:
    """The predicates under which the same may be said, this one among them."""
    plain = _plain(predicate)
    found = next((kin for kin in _KIN if plain in kin), frozenset({plain}))
    if plain.endswith("_name"):
        found |= {plain.removesuffix("name") + word for word in ("named", "is_called", "is_named")}
        found |= {plain.removesuffix("_name")} & _RELATIVES
    return found | {f"is_{one}" for one in found} | {predicate}


def better(one: Grounds, other: Grounds) -> bool | None:
    """Whether `one` is the one to keep; None where neither may go: a person kept both, or others stand behind both."""
    for left, right in ((one.kept, other.kept), (one.holds_others, other.holds_others)):
        if left and right:
            return None
    if (one.kept and other.holds_others) or (other.kept and one.holds_others):
        return None
    return _weight(one) > _weight(other)


def _weight(one: Grounds) -> tuple[object, ...]:
    """Larger is kept. What was said first and often, by whom one may believe; the id only so that all agree."""
    rank = -list(Integrity).index(one.integrity)
    return (
        one.kept,
        one.holds_others,
        one.corrects,
        rank,
        one.sayings,
        round(one.confidence, 6),
        -one.said_at.timestamp(),
        one.memory_id.bytes,
    )


def _plain(predicate: str) -> str:
    plain = predicate.removeprefix("is_")
    named = _NAMED.sub("_name", plain)
    return f"{named}_name" if named in _RELATIVES else named


@lru_cache(4_096)  # predicates are a model's own words: without a bound they would fill a worker
def _kin_number(plain: str) -> str:
    return next((f"#{number}" for number, kin in enumerate(_KIN) if plain in kin), plain)


def _predicate_and_object(one: Meant) -> tuple[str, tuple[str, ...]]:
    """Both in one way of writing."""
    predicate, words = _plain(one.predicate), one.object
    if predicate in _CONDITION:
        allergy = _ALLERGY.fullmatch(words)
        if allergy is None:
            return predicate, _object(words)
        predicate, words = "allergic_to", allergy[1]
    tokens = _object(words)
    if _kin_number(predicate) == _kin_number("allergic_to"):
        tokens = tuple(_singular(token) for token in tokens)  # of an allergy a plural says nothing
    return _kin_number(predicate), tokens


def _object(text: str) -> tuple[str, ...]:
    return tuple(token for token in _tokens(text) if token not in _ARTICLES)


def _left_over(one: Meant) -> tuple[str, ...]:
    """What its sentence says beside the triple, in order."""
    spent = list(_tokens(one.object))
    known = _GLUE | set(_tokens(one.subject)) | _words_of_kin(one.predicate)
    left: list[str] = []
    for token in _tokens(one.statement):
        if token in spent:
            spent.remove(token)
        elif token not in known:
            left.append(token)
    # An object whose words the sentence does not show is not what the sentence says.
    return (*left, *(f"missing {token}" for token in spent if token not in _ARTICLES))


def _words_of_kin(predicate: str) -> frozenset[str]:
    """The words that any way of saying it is made of, in the forms of a sentence."""
    words = {word for kin in kin_of(predicate) for word in kin.split("_")}
    words |= {word.removesuffix("s") for word in words if len(word) > 3}
    return frozenset(words - _SMALL)


# Words of a predicate that say something by themselves wherever else they stand.
_SMALL: Final = frozenset({"not", "does", "no", "from"})


def _tokens(text: str) -> tuple[str, ...]:
    """Its words, numbers and signs, casefolded, each written in one way."""
    plain = normalised("NFKC", text).casefold().replace("’", "'")
    plain = _GROUPED.sub("", _POSSESSIVE.sub(" s", plain))
    plain = _MONTH_FIRST.sub(lambda found: f" {_MONTHS[found[1]]}-{int(found[2]):02} ", plain)
    plain = _DAY_FIRST.sub(lambda found: f" {_MONTHS[found[2]]}-{int(found[1]):02} ", plain)
    found = _TOKEN.findall(_APART.sub(" ", plain))
    return tuple(_UNITS.get(token, _NUMBERS.get(token, token)) for token in found)


def _singular(token: str) -> str:
    if len(token) > 3 and token.endswith("s") and not token.endswith(("ss", "us", "is")):
        return token.removesuffix("s")
    return token
