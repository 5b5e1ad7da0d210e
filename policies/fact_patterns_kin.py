"""Who "she" is: the sentences of a text one by one in, the one person that a pronoun can mean out.

A pronoun is resolved only where the text has spoken of one relative or friend so far ("my sister"), who can be called
so, and of nobody else: a name that stands outside of what was understood makes it nobody. Mutable; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from policies.fact_patterns_words import CAPITALS, KIN_MANY, KIN_ONE, UNCASED, normalised, word_set

_MENTION: Final = re.compile(rf"\b(?:my|our) (?:[a-z]+ )?(?P<k>{KIN_ONE}|{KIN_MANY})(?![\w-])", re.IGNORECASE)
_HER: Final = word_set(
    "wife mother mom mum fiancee fiancée girlfriend landlady daughter sister aunt niece grandmother grandma"
    " stepdaughter half-sister"
)
_HIM: Final = word_set(
    "husband father dad fiance fiancé boyfriend son brother uncle nephew grandfather grandpa stepson half-brother"
)
_NAME: Final = re.compile(rf"\b[{CAPITALS}][^\W\d_{CAPITALS}]{{2,}}|[{UNCASED}]+")
_NO_NAME: Final = word_set(
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August"
    " September October November December English German French Spanish Italian Christmas Easter She He Her His"
)


class Antecedent:
    """Whom a text has spoken of so far."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._strangers = False

    def of(self, pronoun: str) -> str | None:
        """The kind of the one whom a pronoun means; None where it could be another."""
        if self._strangers or len(self._kinds) != 1:
            return None
        (kind,) = self._kinds
        others = _HIM if pronoun.casefold() == "she" else _HER
        return None if kind in others else kind

    def read(self, sentence: str, understood: Iterable[tuple[int, int]]) -> None:
        """The next sentence; `understood`: the ranges of it that facts rest on."""
        known = list(understood)
        self._kinds |= {normalised(found["k"]) for found in _MENTION.finditer(sentence)}
        for found in _NAME.finditer(sentence, 1):  # the first word has a capital letter whatever it is
            within = any(start <= found.start() < end for start, end in known)
            self._strangers = self._strangers or not (within or found[0] in _NO_NAME)
