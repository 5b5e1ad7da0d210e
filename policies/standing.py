"""Standing instructions: a person's words in, whether they are meant to hold from now on.

"Always show the units", "Never use tables when I ask about prices". Such a sentence shares no word with the questions
it is meant for, so neither similarity nor BM25 finds it: of the evidence for BEAM-100K's instruction questions .344 was
among the first ten, with the place that ranking gives to standing instructions .771. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from policies.brought import own_words

Standing = Literal["always", "when asked"]

# A longer text is a task that holds such a sentence, not an instruction.
CHARS_MAX: Final = 400
_OPENING: Final = re.compile(
    r"\W*(?:please,? )?(?:always|never(?! ?mind\b)|from now on|going forward|in (?:the )?future|whenever|every time"
    r"|when(?:ever)? i ask|don't ever|remember to (?:always|never)"
    r"|i(?:'d| would)? (?:want|like|need) you to (?:always|never))\b"
)
_CONDITION: Final = re.compile(r"\b(?:when|whenever|if|every time|each time)\b")
_ASIDE: Final = re.compile(r"\b(?:always|never)\b[^.!?]{0,80}\bwhen(?:ever)? i (?:ask|say|talk|mention|request)\b")


def standing(role: str, text: str) -> Standing | None:
    """Whether a turn is a standing instruction of a person, in their own words: one for every question, or for some."""
    if role != "user" or len(text) > CHARS_MAX:
        return None
    return _standing(own_words(text)) if _standing(text) else None  # most say none, and are not read twice


def _standing(text: str) -> Standing | None:
    said = text.casefold()
    if _ASIDE.search(said):
        return "when asked"
    if not _OPENING.match(said):
        return None
    return "when asked" if _CONDITION.search(said) else "always"
