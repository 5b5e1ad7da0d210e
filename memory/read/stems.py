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

# By the codes that the detector gives. Left out although Snowball has them: Hindi, Nepali, Tamil and Yiddish, whose
# words are cut at their vowel signs before they come here, as they are without stems.
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
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_STEMS_KEPT: Final = 32_768  # about 6 MB


@lru_cache(_STEMS_KEPT)
def stem_in(word: str, language: str) -> str:
    """The stem of a word. A stemmer is made for each, in .5 us, since one must not be used by two threads."""
    return without_accents(Stemmer.Stemmer(SNOWBALL[language], 0).stemWord(word) or word)


def without_accents(text: str) -> str:
    """Without the accents of Latin, Greek and Cyrillic. Dakuten and Hangul stay as they are."""
    return normalised("NFC", _ACCENTS.sub("", normalised("NFD", text)))
