"""Which preferences are about how answers are written: a fact in, the facet that it speaks of out. Pure.

A closed list of wishes about answers, replies, explanations and their form. Tastes ("short films", "German food") are
none: a wish names the answers, or begins with a form ("bullet points"). Of the 6,241 turns of people in LoCoMo,
BEAM-100K and MemSim and 1,462 of ShareGPT none states one: "I prefer using bullet points" there is of a resume.
"""

from __future__ import annotations

import re
from typing import Final

_OF_ANSWERS: Final = r"(?:answers?|repl(?:y|ies)|responses?|explanations?|summar(?:y|ies)|sentences)"
_FACETS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (facet, re.compile(pattern, re.IGNORECASE))
    for facet, pattern in (
        (
            "verbosity",
            rf"\b(?:short(?:er)?|brief|concise|terse|succinct|detailed|long(?:er)?|thorough|in-depth|comprehensive"
            rf"|one-line|high-level)\b(?:[ ,]+(?:and |but )?[\w-]+){{0,2}}? {_OF_ANSWERS}\b",
        ),
        (
            "tone",
            r"\b(?:formal|informal|casual|friendly|warm|dry|neutral|playful|humorous|direct|blunt|professional|polite"
            r"|encouraging|plain|simple)\b(?:[ ,]+(?:and |but )?[\w-]+){0,2}?"
            rf" (?:{_OF_ANSWERS}|tone|language|wording)\b",
        ),
        (
            "format",
            r"^(?:bullet(?:ed)? (?:points?|lists?)|bullets|numbered (?:lists?|steps)|markdown|plain text|emojis?"
            r"|(?:prose|lists?|tables?) (?:over|to|instead of|rather than) (?:prose|lists?|tables?|bullet points?)"
            r"|code (?:before|first|over))\b"
            rf"|\b{_OF_ANSWERS} (?:as|in|with) (?:a )?(?:tables?|lists?|prose|bullet points?|markdown|code)\b"
            rf"|\bstep[- ]by[- ]step {_OF_ANSWERS}\b",
        ),
        (
            "language",
            rf"\b{_OF_ANSWERS} (?:to be )?in (?:english|german|french|spanish|italian|portuguese|dutch|polish|russian"
            r"|ukrainian|turkish|arabic|hindi|chinese|japanese|korean|swedish|danish|norwegian|finnish|czech|greek"
            r"|hungarian|romanian|slovenian)\b",
        ),
    )
)
_PREDICATES: Final = frozenset({"prefers", "likes"})


def facet_of(predicate: str, object_: str) -> str | None:
    """The facet of style that a preference speaks of, wished for or not; None for a taste in anything else."""
    if predicate not in _PREDICATES:
        return None
    return next((facet for facet, pattern in _FACETS if pattern.search(object_)), None)
