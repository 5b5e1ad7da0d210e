"""Stems of words in languages other than English: (word, language) in, the stem without accents out. Snowball's rules.

A word comes in casefolded, composed (NFC) and with its accents, which the rules look at; "Schlüsseln" and "Schluessel"
are both "schlussel". No I/O. PyStemmer is MIT, the rules are BSD. Refuses a language
that is not in `SNOWBALL` (KeyError).
"""

from __future__ import annotations

import re
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
_ACCENTS: Final = re.compile(f"[\u0300-\u036f{_POINTS}]")
# Letters that Unicode does not take apart and people write without: Tromso, Lodz, and the capital of Turkish "ı" is I.
_STRUCK: Final = {"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ħ": "h", "ŧ": "t"}
_STRUCK_LETTER: Final = re.compile(f"[{''.join(_STRUCK)}]")
_STEMS_KEPT: Final = 32_768  # about 6 MB


@lru_cache(_STEMS_KEPT)
def stem_in(word: str, language: str) -> str:
    """The stem of a word. A stemmer is made for each, in .5 us, since one must not be used by two threads."""
    return without_accents(Stemmer.Stemmer(SNOWBALL[language], 0).stemWord(word) or word)


def without_points(text: str) -> str:
    """Without the points of Hebrew and Arabic."""
    return _POINTED.sub("", text)


def without_accents(text: str) -> str:
    """Without the accents and strokes of Latin, Greek and Cyrillic, and the points of Hebrew and Arabic. Dakuten,
    Hangul and what Indic scripts write vowels with stay as they are.
    """
    plain = normalised("NFC", _ACCENTS.sub("", normalised("NFD", text)))
    return _STRUCK_LETTER.sub(lambda struck: _STRUCK[struck[0]], plain)
