"""Personas: how answers are asked to be. A name or facets in, the statement that a prompt is given out.

A persona is data like all memory (DESIGN promise 6): it says what the user asks for, it orders nothing, and no word of
a client goes into a facet: interests and descriptions are words, and stand in a saved persona's memory alone. Pure;
refuses (ValueError, naming what is known) what it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policies.text import is_steering, normalised

# Each facet with its values; the sentence that a value adds. "" asks for nothing.
FACETS: Final[Mapping[str, Mapping[str, str]]] = {
    "tone": {
        "neutral": "a neutral tone",
        "warm": "a warm tone",
        "dry": "a dry tone",
        "playful": "a playful tone",
        "encouraging": "an encouraging tone",
    },
    "verbosity": {
        "short": "short answers",
        "normal": "answers of usual length",
        "long": "detailed answers",
    },
    "formality": {
        "casual": "casual language",
        "neutral": "neither casual nor formal language",
        "formal": "formal language",
    },
    "format": {
        "prose": "prose without lists",
        "lists": "lists where they fit",
        "tables": "tables where they fit",
        "code-first": "code before explanations",
    },
}
LANGUAGES: Final[Mapping[str, str]] = {
    "ar": "Arabic",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "hi": "Hindi",
    "hu": "Hungarian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sl": "Slovenian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}
"""ISO 639-1 codes that `language` takes."""
BUILT_IN: Final[Mapping[str, Mapping[str, str]]] = {
    "default": {},
    "concise": {"verbosity": "short", "format": "prose"},
    "playful": {"tone": "playful", "formality": "casual"},
    "formal": {"formality": "formal", "tone": "neutral"},
    "warm": {"tone": "warm"},
    "teacher": {"tone": "encouraging", "verbosity": "long", "format": "lists"},
}
"""Personas that everybody has. `default` asks for nothing, and takes back what was asked for before."""
NOTHING: Final = "The user asks for no particular style from here on."
NAME_CHARS_MAX: Final = 64
DESCRIPTION_CHARS_MAX: Final = 500
INTERESTS_MAX: Final = 16
INTEREST_CHARS_MAX: Final = 80
INTERESTS: Final = "interests"
_RESERVED: Final = re.compile(r"[/=;]")


@dataclass(frozen=True, slots=True)
class Style:
    """What one request asks for: a persona by name, facets, or both. `name` "" names none."""

    name: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)


def name_of(raw: str) -> str:
    """The name as it is kept: NFC. Raises ValueError for one that cannot stand in a header or a path."""
    name = normalised("NFC", raw)
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise ValueError(f"a persona's name has 1 to {NAME_CHARS_MAX} characters, not {len(name)}")
    if name != name.strip() or name in (".", ".."):
        raise ValueError("a persona's name begins and ends with no blank, and is neither . nor ..")
    if _RESERVED.search(name) or any(map(is_steering, name)):
        raise ValueError("a persona's name holds none of / = ;, no control character and no line separator")
    return name


def style_of(text: str) -> Style:
    """What `NAME`, `facet=value;facet=value` or `NAME;facet=value` asks for. Raises ValueError."""
    first, *rest = text.split(";")
    name = "" if "=" in first else name_of(first)
    facets: dict[str, str] = {}
    for one in rest if name else [first, *rest]:
        facet, found, value = (piece.strip() for piece in one.partition("="))
        if not found:
            raise ValueError(f"say facet=value, or one name first; {one.strip()[:40]!r} is neither")
        if facet in facets:
            raise ValueError(f"{facet} is given twice")
        facets[facet] = value
    return Style(name, checked(facets))


def checked(facets: Mapping[str, str]) -> dict[str, str]:
    """The facets, if all are known. Raises ValueError naming what is."""
    for facet, value in facets.items():
        if facet == INTERESTS:
            raise ValueError("interests are words: save a persona that has them, and name that one")
        values = LANGUAGES if facet == "language" else FACETS.get(facet)
        if values is None:
            raise ValueError(f"a facet of that name is not there; known: {', '.join([*FACETS, 'language'])}")
        if value not in values:
            raise ValueError(f"{facet} has no such value; known: {', '.join(values)}")
    return dict(facets)


def rendered(facets: Mapping[str, str], description: str = "", interests: Sequence[str] = ()) -> str:
    """The statement that a prompt is given."""
    wishes = [FACETS[facet][facets[facet]] for facet in FACETS if facet in facets]
    if "language" in facets:
        wishes.append(f"answers in {LANGUAGES[facets['language']]}")
    said = [f"The user asks for {_listed(wishes)}."] if wishes else []
    said += [f"The user is interested in {_listed(interests)}."] if interests else []
    if description.strip():
        said.append(description.strip())
    return " ".join(said) or NOTHING


def _listed(wishes: Sequence[str]) -> str:
    *first, last = wishes
    return f"{', '.join(first)} and {last}" if first else last
