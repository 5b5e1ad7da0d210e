"""Stems of words in languages other than English: (word, language) in, the stem without accents out. Snowball's rules.

A word comes in casefolded, composed (NFC) and with its accents, which the rules look at; "Schlüsseln" and "Schluessel"
are both "schlussel". No I/O. PyStemmer is MIT, the rules are BSD. Refuses a language
that is not in `SNOWBALL` (KeyError).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

import Stemmer

from policies.text import normalised

# By the codes that the detector gives. Left out although Snowball has them: Hindi, Nepali, Tamil and Yiddish.
SNOWBALL: Final = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "tr": "turkish",
}
# Hebrew and Arabic are written with and without these: points, vowels, and the stroke that makes a word longer.
_POINTS: Final = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u0652\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
)
_POINTED: Final = re.compile(f"[{_POINTS}]")
_ACCENTS: Final = re.compile(f"[\u0300-\u036f\u0653-\u0655{_POINTS}]")
# Letters that Unicode does not take apart and people write otherwise: Tromso, Lodz, the capital of Turkish "ı" is I;
# those of which Arabic and Persian keyboards have one each; the apostrophe inside Ukrainian words, which is a letter.
_ALIKE: Final = {
    "ı": "i",
    "ł": "l",
    "ø": "o",
    "đ": "d",
    "ħ": "h",
    "ŧ": "t",
    "\u064a": "\u06cc",
    "\u0649": "\u06cc",
    "\u0643": "\u06a9",
    "\u0629": "\u0647",
    "\u02bc": "'",
    "\u02bb": "'",
}
_OTHERWISE: Final = re.compile(rf"[{''.join(_ALIKE)}]|[^\D0-9]")
_STEMS_KEPT: Final = 32_768  # about 6 MB


@lru_cache(_STEMS_KEPT)
def stem_in(word: str, language: str) -> str:
    """The stem of a word. A stemmer is made for each, in .5 us, since one must not be used by two threads."""
    return without_accents(Stemmer.Stemmer(SNOWBALL[language], 0).stemWord(word) or word)


def without_points(text: str) -> str:
    """Without the points of Hebrew and Arabic."""
    return _POINTED.sub("", text)


def without_accents(text: str) -> str:
    """Without the accents and strokes of Latin, Greek and Cyrillic, and the points and hamzas of Hebrew and Arabic, its
    digits those of ASCII. Dakuten, Hangul and what Indic scripts write vowels with stay as they are.
    """
    plain = normalised("NFC", _ACCENTS.sub("", normalised("NFD", text)))
    return _OTHERWISE.sub(_as_written_by_most, plain)


def _as_written_by_most(found: re.Match[str]) -> str:
    return _ALIKE.get(found[0]) or str(unicodedata.decimal(found[0]))
