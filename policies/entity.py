"""People and things: what a fact tells of them, how a name is compared, and the sentence that says one. Pure.

A fact of a closed list of predicates names two of them and what ties them; any other names none, so that a store of
entities holds no junk. What is learnt is never merged on a guess: one whom the user calls their sister and one who is
their boss are two, whatever both are named, until somebody says that they are one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from policies.fact_patterns_words import KIN_MANY, KIN_ONE, PETS, as_name, as_object
from policies.persona import FACETS, LANGUAGES
from policies.persona import checked as checked_facets
from policies.text import shortened

Type = Literal[
    "person",
    "animal",
    "organisation",
    "place",
    "project",
    "repository",
    "host",
    "service",
    "file",
    "product",
    "event",
    "other",
]
_TYPES: Final[tuple[Type, ...]] = get_args(Type)
NAME_CHARS_MAX: Final = 200
NOTES_CHARS_MAX: Final = 4_000
ALIASES_MAX: Final = 32
PROPERTIES_MAX: Final = 32
PROPERTY: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""The name of a property and the type of a relationship."""
VALUE_CHARS_MAX: Final = 500
SHOWN_CHARS_MAX: Final = 400
"""Of the notes, in the sentence that a prompt is given."""
HIERARCHIES: Final = frozenset(
    {"part_of", "member_of", "located_in", "reports_to", "child_of", "parent_of", "manages", "contains", "depends_on"}
)
"""Relationships that go one way: a circle of them is a mistake."""
USER: Final = "user"
"""The name of the one who speaks, as facts have it."""
IS: Final = "is"
"""In a link: both are one, nothing ties them."""

_KIN: Final = re.compile(rf"(?P<kind>{KIN_ONE}|{KIN_MANY}|{PETS}) (?P<what>name|lives in|works at)")
_PET: Final = re.compile(PETS)
_OWN: Final[Mapping[str, Type]] = {
    "doctor": "person",
    "gp": "person",
    "dentist": "person",
    "landlady": "person",
    "coach": "person",
    "trainer": "person",
    "lawyer": "person",
    "accountant": "person",
    "hairdresser": "person",
    "gym": "organisation",
    "bank": "organisation",
    "church": "organisation",
    "employer": "organisation",
}
_TIED: Final[Mapping[str, Type]] = {"lives_in": "place", "works_at": "organisation"}
_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "works_at": ("employer", "company", "firm", "workplace", "office"),
    "lives_in": ("city", "town", "village", "country"),
    "runs_on": ("runs", "host", "server", "machine"),
    "depends_on": ("depends", "dependency"),
    "connects_to": ("connects", "connection"),
}
"""What a question calls the other end of a tie by, where that is not the word of the tie itself."""
_PLACES: Final = frozenset({"lives_in", "comes_from", "grew_up_in", "born_in", "hometown"})
_TIES: Final[Mapping[str, tuple[Type, Type]]] = {
    "runs_on": ("service", "host"),
    "depends_on": ("service", "service"),
    "connects_to": ("service", "service"),
}


@dataclass(frozen=True, slots=True)
class Named:
    """One that a fact speaks of, by the name it has there; `alias`: what the user calls it, "sister"."""

    name: str
    type: Type
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """What a fact says of two of them: `source` stands in this relation to `target`."""

    source: Named
    type: str
    target: Named


@dataclass(frozen=True, slots=True)
class Tie:
    """What ties two, by the names that one memory gives them."""

    source: str
    type: str
    target: str


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of one of them by hand; `properties` and `facets` as a person gave them."""

    name: str
    type: Type
    aliases: Sequence[str] = ()
    properties: Mapping[str, str | int | float | bool] | None = None
    facets: Mapping[str, str] | None = None
    notes: str = ""


def plain(name: str) -> str:
    """A name as it is compared: casefolded, single spaces, no article or possessive in front."""
    return as_name(unicodedata.normalize("NFKC", name).casefold())


def formerly_plain(name: str) -> str:
    """The same as it was until New Mexico was told from Mexico: what is stored since then is found by that."""
    return as_object(unicodedata.normalize("NFKC", name).casefold())


def link_in(subject: str, predicate: str, object_: str, *, negated: bool = False) -> Link | None:
    """What a fact tells of people and things; None where it names none."""
    if negated or not subject or not object_:
        return None
    speaker = Named(subject, "person")
    if kin := _KIN.fullmatch(predicate.replace("_", " ")):
        return _of_kin(speaker, kin["kind"], kin["what"].replace(" ", "_"), object_)
    if predicate in _OWN:
        return Link(speaker, predicate, Named(object_, _OWN[predicate], predicate if subject == USER else ""))
    if predicate in _PLACES:
        return Link(speaker, predicate, Named(object_, "place"))
    if predicate == "works_at":
        return Link(speaker, predicate, Named(object_, "organisation", "employer" if subject == USER else ""))
    if predicate == "school":
        return Link(speaker, predicate, Named(object_, "organisation"))
    if predicate == "name" and subject == USER:
        return Link(Named(object_, "person", USER), IS, speaker)
    if predicate in _TIES and subject != USER:
        mine, theirs = _TIES[predicate]
        return Link(Named(subject, mine), predicate, Named(object_, theirs))
    return None


def told_of(card: object) -> Told:
    """What a card says, member by member: one that is of another shape than a card's says nothing."""
    said = card if isinstance(card, Mapping) else {}
    name, type_, notes = (text_of(said, member) for member in ("name", "type", "notes"))
    aliases, facets = said.get("aliases"), said.get("facets")
    return Told(
        name=name,
        type=next((one for one in _TYPES if one == type_), "other"),
        aliases=tuple(one for one in aliases if isinstance(one, str)) if isinstance(aliases, list) else (),
        properties=scalars_of(said, "properties"),
        facets={name: one for name, one in facets.items() if isinstance(one, str)}
        if isinstance(facets, Mapping)
        else {},
        notes=notes,
    )


def text_of(said: object, member: str) -> str:
    """This member of a JSON value, where that is an object and the member a text; else nothing."""
    found = said.get(member) if isinstance(said, Mapping) else None
    return found if isinstance(found, str) else ""


def scalars_of(said: object, member: str) -> dict[str, str | int | float | bool]:
    """The texts, numbers and truths in this member of a JSON value, by name; nothing where it is no object."""
    found = said.get(member) if isinstance(said, Mapping) else None
    members = found.items() if isinstance(found, Mapping) else ()
    return {name: one for name, one in members if isinstance(one, str | int | float)}


def tie_of(attributes: Mapping[str, Any]) -> Tie | None:
    """What a memory of these attributes says of two who are not the user: a fact, or a tie that was made by hand."""
    by_hand = attributes.get("relationship")
    if isinstance(by_hand, Mapping):
        said = [str(by_hand.get(name, "")) for name in ("source", "type", "target")]
        return Tie(*said) if all(said) else None
    subject, predicate, object_ = (str(attributes.get(name, "")) for name in ("subject", "predicate", "object"))
    link = link_in(subject, predicate, object_, negated=attributes.get("negated") is True)
    if link is None or link.type == IS or link.source.name == USER:
        return None
    return Tie(link.source.name, link.type, link.target.name)


def words_for(type_: str) -> Sequence[str]:
    """Words by which a question asks for the other end of such a tie."""
    return _WORDS.get(type_) or type_.split("_")


def _of_kin(speaker: Named, kind: str, what: str, object_: str) -> Link:
    """What is said of a relative, a friend or a pet: their name, or whom or what they are tied to."""
    if what in _TIED:
        return Link(Named(kind, "person", kind), what, Named(object_, _TIED[what]))
    type_: Type = "animal" if _PET.fullmatch(kind) else "person"
    return Link(speaker, kind.replace(" ", "_"), Named(object_, type_, kind if speaker.name == USER else ""))


def shown(name: str, statement: str) -> str:
    """A name in the letters that a statement writes it in."""
    at = statement.casefold().rfind(name)
    return statement[at : at + len(name)] if at >= 0 and len(statement.casefold()) == len(statement) else name


def names_of_fact(subject: str, predicate: str, object_: str, statement: str) -> Mapping[str, tuple[str, bool]]:
    """By their plain form the names that a fact gives, as they are shown; true: it is but what the user calls them."""
    link = link_in(subject, predicate, object_)
    if link is None:
        return {}
    found: dict[str, tuple[str, bool]] = {}
    for one in (link.source, link.target):
        if one.alias:
            found[one.alias] = (one.alias, True)
        if one.name != one.alias:
            found[one.name] = (shown(one.name, statement), one.name == USER)
    return found


def fault_in(told: Told) -> tuple[str, str] | None:
    """The member that cannot be kept, and why, in words for whoever asked; None where all can."""
    if not plain(told.name):
        return "name", "a name has letters or digits beside articles"
    if any(not plain(one) for one in told.aliases):
        return "aliases", "an alias has letters or digits beside articles"
    if told.facets and told.type != "person":
        return "facets", "only a person has facets"
    try:
        checked_facets(told.facets or {})
    except ValueError as fault:
        return "facets", str(fault)
    return None


def statement(told: Told) -> str:
    """One of them as a prompt is given it."""
    said = [f"{told.name} ({told.type})."]
    said += [f"Also called: {', '.join(told.aliases)}."] if told.aliases else []
    said += [f"{name.replace('_', ' ').capitalize()}: {value}." for name, value in (told.properties or {}).items()]
    asked = [LANGUAGES[v] if f == "language" else FACETS[f][v] for f, v in (told.facets or {}).items()]
    said += [f"Prefers {', '.join(asked)}."] if asked else []
    said += [shortened(told.notes, SHOWN_CHARS_MAX)] if told.notes else []
    return " ".join(said)


def related(source: str, type_: str, target: str, properties: Mapping[str, Any] | None = None) -> str:
    """A relationship as a prompt is given it."""
    more = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in (properties or {}).items())
    return f"{source}: {type_.replace('_', ' ')} {target}{f' ({more})' if more else ''}."
