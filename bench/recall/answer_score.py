"""An answer against the known one, without a judge: two texts in, exact match and token F1 out. Pure.

Normalised as SQuAD does (Rajpurkar et al., 2016): lower case, punctuation taken out (`$6,200` is `6200`), no article,
single spaces. Each character of Chinese, Japanese and Korean is a token of its own (as in CMRC 2018); full-width
letters are as good as others, and punctuation is any that Unicode calls so.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from typing import Final

SHORT_TOKENS_MAX: Final = 6.0
_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_TOKEN: Final = re.compile(rf"[{_CJK}]|[^\s{_CJK}]+")
_CJK_TOKEN: Final = re.compile(rf"[{_CJK}]")
_ARTICLES: Final = frozenset({"a", "an", "the"})
_UNKNOWN: Final = re.compile(
    r"\bunknown\b|\b(?:do(?:es)?n't|do(?:es)? not|cannot|can't|unable to) (?:know|say|tell|determine|answer|recall)\b"
    r"|\b(?:not|never|isn't|wasn't) (?:been )?(?:mentioned|stated|specified|provided|given|known|available|discussed)\b"
    r"|\bno (?:information|mention|record)\b"
    r"|不知道|不清楚|未知|没有(?:提到|提及|说|相关|信息)|未提[到及]|无法(?:确定|回答)",
    re.IGNORECASE,
)


def tokens_of(text: str) -> tuple[str, ...]:
    """The tokens that count."""
    kept = "".join(letter for letter in unicodedata.normalize("NFKC", text).lower() if not _is_punctuation(letter))
    return tuple(token for token in _TOKEN.findall(kept) if token not in _ARTICLES)


def _is_punctuation(letter: str) -> bool:
    return letter in string.punctuation or unicodedata.category(letter).startswith("P")


def exact(said: str, known: str) -> float:
    """1 where both have the same tokens in the same order, else 0."""
    return float(tokens_of(said) == tokens_of(known))


def token_f1(said: str, known: str) -> float:
    """The harmonic mean of precision and recall of tokens, each as often as it stands there; of two empty ones 1."""
    given, wanted = tokens_of(said), tokens_of(known)
    if not given or not wanted:
        return float(given == wanted)
    common = sum((Counter(given) & Counter(wanted)).values())
    return 2 * common / (len(given) + len(wanted))


def declined(said: str) -> bool:
    """Whether the answer says that it is not known, by a list of phrases: no more than a hint."""
    return _UNKNOWN.search(said.replace("’", "'")) is not None


def is_short(known: str) -> bool:
    """Whether an answer is of a few words, so that its words can be compared; two characters of CJK count as a word."""
    length = sum(0.5 if _CJK_TOKEN.match(token) else 1.0 for token in tokens_of(known))
    return 0 < length <= SHORT_TOKENS_MAX
