"""Since when and until when, as it is said in German, French and Spanish: a clause in, the same with those words in
English out, for `policies/fact_patterns_time.py`.

Only what follows the word that says so is read ("bis Ende Juni", "depuis trois ans", "a partir de julio"), up to where
another clause begins. Pure; refuses nothing, a clause without such a word comes back as it was.
"""

from __future__ import annotations

import re
from typing import Final

_SAYS_WHEN: Final = r"(?:bis|ab|seit|jusqu'|depuis|dès|à partir|hasta|desde|a partir)"
_FOUND: Final = re.compile(rf"\b{_SAYS_WHEN}(?=\W|(?<=')\w)", re.IGNORECASE)
_NEXT_CLAUSE: Final = re.compile(
    r"(?:[,;:–—]|\b(?:und|aber|doch|weil|denn|et|mais|car|parce|y|pero|porque)\b)"
    rf"(?! ?(?:(?:und|aber|nur|noch|et|mais|seulement|y|pero|solo|sólo|eso|das|ça) ){{0,3}}{_SAYS_WHEN}(?:\W|(?<=')))",
    re.IGNORECASE,
)
_MONTHS: Final = (
    ("january", "januar|jänner|janvier|enero"), ("february", "februar|feber|février|febrero"),
    ("march", "märz|mars|marzo"), ("april", "avril|abril"), ("may", "mai|mayo"), ("june", "juni|juin|junio"),
    ("july", "juli|juillet|julio"), ("august", "août|agosto"), ("september", "septembre|septiembre|setiembre"),
    ("october", "oktober|octobre|octubre"), ("november", "novembre|noviembre"),
    ("december", "dezember|décembre|diciembre"),
)  # fmt: skip
_DAYS: Final = (
    ("monday", "montag|lundi|lunes"), ("tuesday", "dienstag|mardi|martes"),
    ("wednesday", "mittwoch|mercredi|miércoles"), ("thursday", "donnerstag|jeudi|jueves"),
    ("friday", "freitag|vendredi|viernes"), ("saturday", "samstag|sonnabend|samedi|sábado"),
    ("sunday", "sonntag|dimanche|domingo"), ("tomorrow", "morgen|demain|mañana"), ("yesterday", "gestern|hier|ayer"),
    ("today", r"heute|aujourd'hui|hoy"),
)  # fmt: skip
DAYS_AND_MONTHS: Final = re.compile("|".join(words for _, words in (*_MONTHS, *_DAYS)), re.IGNORECASE)
"""The names of days and months in these languages."""
_UNITS: Final = (
    ("year", "jahr(?:e[sn]?|s)?|ans?|années?|años?"), ("month", "monat(?:e[sn]?|s)?|mois|mes(?:es)?"),
    ("week", "wochen?|semaines?|semanas?"), ("day", "tage?n?|jours?|días?"),
)  # fmt: skip
_NUMBERS: Final = (
    ("a", "eine[mrn]?|une?|un|una"), ("two", "zwei|deux|dos"), ("three", "drei|trois|tres"),
    ("four", "vier|quatre|cuatro"), ("five", "fünf|cinq|cinco"), ("six", "sechs|six|seis"),
    ("seven", "sieben|sept|siete"), ("eight", "acht|huit|ocho"), ("nine", "neun|neuf|nueve"),
    ("ten", "zehn|dix|diez"), ("twelve", "zwölf|douze|doce"), ("twenty", "zwanzig|vingt|veinte"),
)  # fmt: skip
_UNIT: Final = "year|month|week|day"
# In this order: a phrase is put together of words that are English by then.
_ENGLISH: Final = tuple(
    (re.compile(rf"\b(?:{words})\b", re.IGNORECASE), english)
    for english, words in (
        *_MONTHS, *_DAYS, *_UNITS, *_NUMBERS,
        (r"next \1", rf"(?:le |la |l'|el |the )?(?:nächste[nmrs]?|kommende[nmrs]?|próxim[oa]) ({_UNIT}|\w+day)"),
        (r"next \1", rf"(?:le |la |l'|el )?({_UNIT}|\w+day) (?:prochaine?|que viene)"),
        (r"last \1", rf"(?:letzte[nmrs]?|vorige[nmrs]?) ({_UNIT}|\w+day)"),
        (r"last \1", rf"(?:le |la |l'|el )?({_UNIT}|\w+day) (?:dernière?|passée?|pasad[oa])"),
        (r"\1 \2", rf"(\d{{1,2}})(?:er|\.)? (?:de )?({'|'.join(name for name, _ in _MONTHS)})(?: del?)?(?=\W|$)"),
    )
)  # fmt: skip
_SPAN: Final = rf"(?=(?:\d{{1,2}}|[a-z]+) (?:{_UNIT})\b)"
_PHRASES: Final = tuple(
    (re.compile(rf"\b(?:{words})", re.IGNORECASE), english)
    for english, words in (
        ("for ", rf"seit (?:etwa |rund |über |fast )?{_SPAN}"),
        ("for ", rf"(?:depuis|desde hace) (?:environ |plus de |presque |unos |más de |casi )?{_SPAN}"),
        ("from ", r"(?:ab|desde|dès|à partir|a partir)(?: de[lrm]?| du| d'| le| la| el)* ?(?=next|tomorrow)"),
        ("from ", r"ab(?: de[mr])? |dès(?: le| la)? |(?:à|a) partir(?: del?| du| d'| le| el)* ?"),
        ("since ", r"(?:seit(?: de[mr])?|depuis(?: le| la)?|desde(?: el| la)?) "),
        ("until the end of year", r"bis(?: zum)? jahresende\b"),
        ("until the end of month", r"bis(?: zum)? monatsende\b"),
        ("until the end of ", r"bis(?: zum)? ende (?:de[sr] |dieses )?"),
        ("until ", r"bis(?: zum| zur| einschließlich)* "),
        ("until the end of ", r"jusqu'(?:à|en)(?: la)? fin (?:de |du |d')?(?:month de )?(?:le |la |l')?"),
        ("until ", r"jusqu'(?:à |aux? |en )?(?:month de )?(?:le |la )?"),
        ("until the end of ", r"hasta(?: el)? fin(?:al|ales|es)?(?: del?)? "),
        ("until ", r"hasta(?: el| la)* "),
    )
)


def in_english(clause: str) -> str:
    """The clause with its "until", "since" and "from" in English, and what is said of another clause left out."""
    if _FOUND.search(clause) is None:
        return clause
    other = _NEXT_CLAUSE.search(clause)
    said = clause[: other.start()] if other else clause
    for pattern, english in (*_ENGLISH, *_PHRASES):
        said = pattern.sub(english, said)
    return said
