"""The sentence that a memory of a fact shows: what was found and who speaks in, the words that can be read alone out.

Pure; refuses nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from policies.fact_patterns_values import Stated
from policies.fact_patterns_words import PERSONS, as_object, in_third_person, normalised


@dataclass(frozen=True, slots=True)
class Voice:
    """Who speaks: the subject of their facts, and how a statement names them."""

    subject: str
    shown: str

    @property
    def owning(self) -> str:
        return f"{self.shown}'s"


def in_voice(says: str, voice: Voice) -> str:
    """The sentence with its speaker in it, who has a capital letter within it only where that is a name."""
    first, rest = says[: len("{S}")], says[len("{S}") :]
    within = "the user" if voice.subject == "user" else voice.shown
    first = first.replace("{S}", voice.shown).replace("{P}", voice.owning)
    return first + rest.replace("{S}", within).replace("{P}", f"{within}'s")


def value_sentence(one: Stated, voice: Voice) -> str:
    """What is said of a value."""
    thing, words = in_third_person(one.thing), one.value.words.strip().removesuffix(".")  # "3 p.m.", "5 May."
    per = f" a {one.unit}" if one.unit else ""
    if one.shape == "did":
        return _did(one, voice, thing, words)
    if one.shape == "count":
        return f"The number of {thing} is {words}."
    if one.shape == "time":
        return _when(voice, thing, words)
    if one.predicate.startswith("count_per_"):
        return f"{voice.owning} number of {thing or 'units'} per {one.predicate.rpartition('_')[2]} is {words}."
    kind = one.predicate.replace("_", " ")
    if thing.endswith("'s"):
        return f"{_whose(voice, thing)} {kind} is {words}{per}."
    if not thing:
        return f"{voice.owning} {kind} is {words}{per}."
    return f"{voice.owning} {kind} for {_with_article(thing)} is {words}{per}."


def _whose(voice: Voice, owner: str) -> str:
    """ "Bob's", "the project's", "the user's sister's": whose it is, at the beginning of a sentence."""
    if owner[:1].isupper():
        return owner
    return f"{voice.owning} {owner}" if PERSONS.fullmatch(owner.removesuffix("'s")) else f"The {owner}"


def _did(one: Stated, voice: Voice, thing: str, words: str) -> str:
    verb = one.verb.removesuffix("s")
    if verb in ("have", "had", "got", "ha"):
        return f"{voice.shown} has {words} {thing}."
    if verb in ("own", "manage", "lead", "run"):
        return f"{voice.shown} {verb}s {words} {thing}."
    perfect = {"wrote": "written", "ran": "run"}.get(verb, verb)
    return f"{voice.shown} has {perfect} {words} {thing}".rstrip() + "."


def _when(voice: Voice, thing: str, words: str) -> str:
    link = "at " if re.match(r"\d{1,2}(?::\d\d)? ?[ap]\.?m|\d{1,2}:\d\d|noon", words, re.I) else "on "
    link = (
        "" if re.match(r"next|this|coming|tomorrow|tonight|every|each|cancell?ed|called off|off", words, re.I) else link
    )
    owner = (
        ""
        if re.match(r"[A-Z][\w-]*'s ", thing)
        else ("The " if re.match(r"[A-Z][a-z]+ [A-Z]", thing) else f"{voice.owning} ")
    )
    core = re.split(r" (?:with|for|on|about|at|of|in|to) ", thing)[0]
    return f"{owner}{thing} {'are' if normalised(core) != as_object(core) else 'is'} {link}{words}."


def _with_article(thing: str) -> str:
    """A thing as the object of "for": with its article where it is one thing without a name."""
    core = re.split(r" (?:with|for|on|about|at|of|in|to) ", thing)[0]
    plain = thing[:1].islower() and normalised(core) == as_object(core) and not thing.startswith("their ")
    return f"the {thing}" if plain else thing
