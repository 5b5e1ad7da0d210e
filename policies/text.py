"""Text as it may be stored: Postgres takes no NUL and UTF-8 has no lone surrogates, clients send both.

And Unicode's normal forms in linear time, whatever stands in the text. Pure. All else in a text stays as it came.
"""

from __future__ import annotations

import re
import unicodedata
from functools import partial
from itertools import chain, groupby
from math import isfinite
from typing import Any, Final, Literal

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
REPLACEMENT: Final = "\ufffd"
# Enough characters in a row that may be combining marks: below U+0300 none is, and of letters these two alone.
_MARKS: Final = re.compile(r"(?:[^\w\x00-\u02ff]|[\uff9e\uff9f]){32,}")


def normalised(form: Form, text: str) -> str:
    """What `unicodedata.normalize` gives, in time linear in the text.

    It sorts the marks behind a letter by insertion: 32,000 in disorder took 1.0 s, with every thread stopped. Whether a
    text is in that form already, as nearly all are, is told without: .5 ms of 400,000 characters, where to look for
    such marks takes 12. (It says no at the first mark in disorder.)
    """
    if text.isascii() or unicodedata.is_normalized(form, text):
        return text
    in_order = _MARKS.sub(partial(_in_order, "NFKD" if "K" in form else "NFD"), text)
    return unicodedata.normalize(form, in_order)


def _in_order(form: Form, run: re.Match[str]) -> str:
    apart = "".join(unicodedata.normalize(form, one) for one in run[0])
    groups = groupby(apart, key=lambda one: unicodedata.combining(one) > 0)
    return "".join("".join(sorted(group, key=unicodedata.combining)) for _, group in groups)


def is_steering(char: str) -> bool:
    """Whether a character breaks a line, steers a terminal, or is half of one."""
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")


def is_sign(code: int) -> bool:
    """Whether a character stands on another one: an accent, a vowel sign, a tone."""
    return unicodedata.category(chr(code)) in ("Mn", "Mc")


def whole_at(text: str, low: int, at: int) -> int:
    """The last place in (low, at] that parts no letter from the signs on it, and no emoji from what it is made of; `at`
    where there is none.
    """
    place = at
    while low < place < len(text) and (_goes_on(text[place]) or text[place - 1] == "\u200d"):
        place -= 1
    return place if place > low else at


def shortened(text: str, chars_max: int) -> str:
    """The text, or its beginning and an ellipsis, `chars_max` characters at most."""
    return text if len(text) <= chars_max else text[: whole_at(text, 0, chars_max - 1)].rstrip() + "…"


def _goes_on(char: str) -> bool:
    return char == "\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff" or is_sign(ord(char))


FENCED: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
"""Code between fences of Markdown, to the end of the text where none closes it."""
SIGNS: Final = "".join(map(chr, filter(is_sign, chain(range(0x300, 0x1D00), range(0xA800, 0xAC00)))))
SIGNED_WORD: Final = re.compile(f"[\\w{SIGNS}]+")
"""A word with the signs on its letters, which are no word characters: to \\w+ a word of Hindi is several letters."""


_THOUGHT: Final = re.compile(r"\s*<(think|thinking|thought|reasoning)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)


def without_thought(text: str) -> str:
    """An answer without the thought it opens with, which a server that knows no reasoning leaves in its text."""
    thought = _THOUGHT.match(text)
    return text[thought.end() :] if thought else text


def storable(text: str) -> str:
    """The text with every NUL and lone surrogate replaced by U+FFFD."""
    return _UNSTORABLE.sub(REPLACEMENT, text)


def storable_json(value: Any) -> Any:
    """A JSON value whose strings, keys included, are all storable; null for NaN and infinities, which are no JSON."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, list | tuple):
        return [storable_json(item) for item in value]
    if isinstance(value, dict):
        return {storable(str(key)): storable_json(item) for key, item in value.items()}
    return value
