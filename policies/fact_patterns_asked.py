"""What somebody asks to have remembered of them, whatever it is: a sentence of covered text in, the finding out.

"Remember that I parked on level three", "merk dir: mein Spind ist 44". It is kept in the words in which it was given,
where no rule knows what it says. Only what is said of oneself counts: "remember that water boils at 100 °C" is of an
exercise, "remember when we met" and "remember, I told you" ask for nothing. Pure; refuses nothing.
"""

# ruff: noqa: E501  one language a line
from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policies.fact_patterns_prose import COVER
from policies.fact_patterns_words import as_object
from policies.fact_rule import Told

_CHARS_MAX: Final = 240
_LEAD: Final = r"\W{0,3}(?:(?:please|pls|also|and|oh|so|hey|hi|ok(?:ay)?|uh|um|btw|by the way|for next time|bitte|und|et|y|e|en)[, ]+){0,3}"
_ASKED: Final = re.compile(
    rf"{_LEAD}(?:"
    r"(?:(?:do |please )?remember|(?:please )?(?:make a )?note|(?:please )?(?:keep|bear) in mind|(?:please )?don't (?:ever )?forget)"
    r"(?: for (?:later|next time|the future|me))?(?:,? that(?! (?:time|day|night|one|thing|guy|when|I (?:told|said|asked)))\b|:|,)?"
    r" (?=(?!when|how|what|why|where|who|if|to\b|(?:that|the) (?:time|day|night|one|thing|guy)\b)(?:[\w'-]+ ){0,2}?(?:I|I'm|I've|my|we|we're|we've|our)\b)"
    r"(?!(?:I|we) (?:told|said|asked|mentioned|showed|sent|gave|wanted|want you))"
    r"|(?:merk dir|merken sie sich|denk(?:e|en sie)? daran|vergiss (?:bitte )?nicht)(?: bitte)?(?:, dass|:) (?=(?:ich|wir|mein\w*|unser\w*)\b)"
    r"|(?:souviens-toi|n'oublie pas|retiens|note)(?: bien)?(?: que| :|:) ?(?=(?:je|j'|mon|ma|mes|nous|notre|nos)\b)"
    r"|(?:recuerda|acuérdate de|ten en cuenta|no olvides)(?: que|:) (?=(?:yo|mis?|nuestr\w+|soy|tengo|estoy|vivo|trabajo|uso|usamos|me|nos|no|nunca)\b)"
    r"|(?:lembr[ae](?:-te)?(?: de)?|não (?:te )?esqueça?s?)(?: que|:) (?=(?:[oa]s? )?(?:eu|meus?|minhas?|sou|tenho|moro|trabalho|uso|nós|nosso)\b)"
    r"|(?:ricorda(?:ti)?|non dimenticare)(?: che|:) (?=(?:io|il mio|la mia|i miei|le mie|mi[oa]|sono|ho|abito|lavoro|uso|noi)\b)"
    r"|(?:onthoud|vergeet niet)(?: dat|:) (?=(?:ik|mijn|wij|we|onze?)\b))",
    re.IGNORECASE,
)


def asked_to_keep(said: str, start: int, end: int) -> Iterator[Told]:
    """What the sentence [start, end) asks to have remembered."""
    found = _ASKED.match(said, start, end)
    told = said[found.end() : end].strip(" .!") if found else ""
    if (
        found is None
        or end - found.end() > _CHARS_MAX
        or COVER in told
        or told.endswith(("?", "？"))
        or " " not in told
    ):
        return
    at = said.index(told, found.end())
    yield Told(
        "user",
        "asked_to_remember",
        as_object(told),
        f"{{S}} asked to remember: “{told}”",
        (at, at + len(told)),
        "fact",
        importance=0.8,
    )
