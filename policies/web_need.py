"""Whether a question needs the world outside: its words and what recall found in, why it does out; None for most.

`asked`: it says so ("search the web for ..."). `news`: it asks for what is another each day. `stale`: it asks for what
is so now, and what recall found on the web is older than STALE_AFTER. `unknown`: it asks for one name and nothing
else, and nothing that recall found has that name. What is about the asker's own affairs never needs it, however it is
put: a search tells a stranger what was asked. A news question with pages younger than FRESH at hand does not either.

Conservative, since each need costs seconds and a query that leaves the house: of the questions and messages of the
shared conversations at most .14 % of a set need it (`python -m bench.outside_need`). Only what is short is read as a
question. Five languages; in others a question needs nothing. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from policies.newest import kinds_asked
from policies.web_need_words import ASKED, LEAD_IN, NEWS, OWN, PRESENT, UNKNOWN

Need = Literal["asked", "news", "stale", "unknown"]

QUESTION_CHARS_MAX: Final = 300
STALE_AFTER: Final = timedelta(days=7)
FRESH: Final = timedelta(hours=6)
_SPACE: Final = re.compile(r"\s+")
_WORDS_MIN: Final = 2
_TO_WHAT: Final = re.compile(r"^\W*(?:for|about|on|nach|über|pour|sur|por|sobre|acerca de)\s+")
"""What joins "search the web" to what is searched for; it begins no question."""
_WHO: Final = re.compile(r"\W*(?:who|wer|qui|quién)\b")


@dataclass(frozen=True, slots=True)
class Known:
    """What recall admitted for the question: the texts, and when the newest page of the web among them was fetched."""

    texts: Sequence[str] = ()
    web_at: datetime | None = None


def need_of(question: str, known: Known, now: datetime) -> Need | None:
    """Why the question needs the web; None where it does not."""
    asked = _SPACE.sub(" ", question.replace("’", "'")).strip()
    if not asked or len(asked) > QUESTION_CHARS_MAX:
        return None
    said = asked.casefold()
    if OWN.search(LEAD_IN.sub(" ", said)):
        return None
    if ASKED.search(said):
        return "asked"
    age = None if known.web_at is None else now - known.web_at
    if NEWS.search(said):
        return None if age is not None and age < FRESH else "news"
    if age is not None and age > STALE_AFTER and (PRESENT.search(said) or kinds_asked(asked)):
        return "stale"
    found = UNKNOWN.fullmatch(asked)
    return "unknown" if found and _is_public_name(asked, found["name"], known) else None


def query_of(question: str) -> str:
    """The question as words to search by: one line, without what only addresses the assistant."""
    asked = _SPACE.sub(" ", question.replace("’", "'")).strip()
    said = asked.casefold()
    bare = _SPACE.sub(" ", ASKED.sub(" ", LEAD_IN.sub(" ", said).strip(" ,")))
    bare = _TO_WHAT.sub("", bare) if ASKED.search(said) else bare
    kept = asked if bare == said or len(bare.split()) < _WORDS_MIN else bare
    return kept.strip(" ,.;:?!")[:QUESTION_CHARS_MAX].rstrip()


def _is_public_name(asked: str, name: str, known: Known) -> bool:
    """Whether nothing found has the name, and it can be anybody's: a first name alone is somebody of the asker's."""
    if " " not in name and _WHO.match(asked.casefold()):
        return False
    return not _is_known(name, known.texts)


def _is_known(name: str, texts: Sequence[str]) -> bool:
    """Whether what was found has the name, or its longest word."""
    parts = [part for part in re.findall(r"[\w'-]+", name.casefold()) if len(part) > 2] or [name.casefold()]
    most = max(parts, key=len)
    return any(most in text.casefold() for text in texts)
