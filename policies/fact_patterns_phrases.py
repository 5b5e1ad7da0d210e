"""Noun phrases beside a value: the words left or right of it in, the phrase out.

No tagger: a phrase ends at a word of a closed class or at a verb that often follows nouns. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from typing import Final

from policies.fact_patterns_kinds import DOING, EVENT_LINKS
from policies.fact_patterns_words import DETERMINERS, STATES, STOPS

_WORDS_MAX: Final = 5


def phrase_before(left: str) -> str:
    """The noun phrase that ends a text, without its determiner; empty where none does."""
    words: list[str] = []
    for word in reversed(left.split(" ")[-(_WORDS_MAX + 2) :]):
        if not word and not words:
            continue
        if not re.fullmatch(r"[\w'&+#/-]+", word) or word.casefold() in STOPS or len(words) >= _WORDS_MAX:
            break
        words.insert(0, word)
    while words and (words[0].casefold() in STATES | DOING):
        words.pop(0)
    return " ".join(words)


def phrase_after(right: str) -> str:
    """The noun phrase that opens a text, with one that follows on for/of/in/with; empty where none does."""
    found, rest = _phrase(right)
    linked = re.match(r" ?(for|of|in|with|on|to(?= (?:the|my|our|a|[A-Z]))) ", rest)
    if found and linked:
        more, _ = _phrase(rest[linked.end() :])
        if more:
            found = f"{found} {linked[1]} {more}"
    return found


def _phrase(text: str) -> tuple[str, str]:
    words: list[str] = []
    at = 0
    for match in re.finditer(r"\s*([\w'&+#/-]+)([,.;:!?)]*)", text[:90]):
        if match.start() != at:
            break
        word = match[1]
        if word.casefold() in STOPS and not (word.casefold() in DETERMINERS and not words):
            break
        words.append(word)
        at = match.end()
        if match[2] or len(words) > _WORDS_MAX:
            break
    while words and words[0].casefold() in STATES | DETERMINERS:
        words.pop(0)
    return " ".join(words), text[at:]


def goes_on(tail: str) -> bool:
    """Whether what stands between an event and its date is part of its name: "with the director", no other clause."""
    words = [word for word in re.findall(r"[\w'-]+", tail.casefold()) if word not in DETERMINERS]
    return all(word not in STOPS or word in EVENT_LINKS for word in words)
