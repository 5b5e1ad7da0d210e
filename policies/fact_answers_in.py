"""In which language one wants to be answered: an instruction as it was found in, the same as one of its kind out.

"From now on please answer in German" and "Back to English please" cannot both hold, as other instructions can, beside
which they stand. One that says more than a language, or only for some cases, stays as it is. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from policies.fact_patterns_elsewhere import LANGUAGES
from policies.fact_patterns_words import as_object, word_set
from policies.fact_rule import Told

_LANGUAGE: Final = re.compile(LANGUAGES, re.IGNORECASE)
_BESIDE: Final = word_set(
    "from now on going forward in the future please always only just answer answers reply replies respond write speak"
    " talk use to me with us back again switch go let's your remember"
    " ab jetzt sofort von nun an in zukunft bitte immer nur antworte antworten schreib schreibe schreiben sprich mit"
    " mir auf wieder zurück zu zum"
    " à partir de maintenant désormais dorénavant toujours s'il te vous plaît plait réponds répondez écris écrivez"
    " parle parlez moi en uniquement"
    " a desde ahora adelante siempre por favor responde respóndeme contesta contéstame escribe escríbeme habla háblame"
    " solo otra vez nuevo nouveau retour au"
)
_BACK_TO: Final = re.compile(
    r"\W{0,3}(?:please,? |ok(?:ay)?,? )?(?:(?:(?:go|switch|let's (?:go|switch)) )?back to|in(?= \w+ again\b))"
    rf" (?:{LANGUAGES})\b(?: again)?(?:,? (?:now|please|from now on))*(?=\s*(?:[,.!;]|$))"
    r"|\W{0,3}(?:bitte )?(?:(?:wieder|zurück) (?:auf|zu|zum)|retour (?:au|en)|otra vez en|de nuevo en|de nouveau en)"
    rf" (?:{LANGUAGES})\w{{0,2}}\b(?:,? (?:bitte|s'il te plaît|por favor))?(?=\s*(?:[,.!;]|$))",
    re.IGNORECASE,
)


def back_to_a_language(said: str, start: int, end: int) -> Iterator[Told]:
    """The sentence [start, end) where it asks for the language of before: "Back to English please"."""
    found = _BACK_TO.match(said, start, end)
    if found is not None:
        text = found[0].strip(" .,!")
        says = f"{{S}} said: “{text}”"
        yield Told("user", "instruction", as_object(text), says, found.span(), "convention", importance=0.85)


def in_one_language(one: Told) -> Told:
    """An instruction in which language to answer as one at a time; any other finding as it is."""
    if one.predicate != "instruction":
        return one
    named = _LANGUAGE.findall(one.object)
    words = set(re.findall(r"[\w']+", _LANGUAGE.sub(" ", one.object)))
    if len(named) != 1 or not words <= _BESIDE:
        return one
    return replace(one, cardinality="one")
