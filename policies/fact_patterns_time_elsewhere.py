"""Since when and until when, as it is said in German, French, Spanish, Portuguese, Italian and Dutch: a clause in, the
same with those words in English out, for `policies/fact_patterns_time.py`.

Only what follows the word that says so is read ("bis Ende Juni", "depuis trois ans", "a partir de julio"), up to where
another clause begins. Pure; refuses nothing, a clause without such a word comes back as it was.
"""

# ruff: noqa: E501  what is one in several languages stands in one line
from __future__ import annotations

import re
from typing import Final

# "Tot" and "dal" are English words too.
_SAYS_WHEN: Final = (
    r"(?:bis|ab|seit|jusqu'|depuis|dès|à partir|hasta|desde|a partire?|até|fino|vanaf|sinds|dal(?= \d)"
    r"|tot(?= (?:en met|(?:het )?einde?|\d|volgende?|januari|februari|maart|april|mei|ju[nl]i|augustus|\w+ber|\w+dag)\b))"
)
_FOUND: Final = re.compile(rf"\b{_SAYS_WHEN}(?=\W|(?<=')\w)", re.IGNORECASE)
_NEXT_CLAUSE: Final = re.compile(
    r"(?:[,;:–—]|\b(?:und|aber|doch|weil|denn|et|mais|car|parce|y|pero|porque)\b)"
    rf"(?! ?(?:(?:und|aber|nur|noch|et|mais|seulement|y|pero|solo|sólo|eso|das|ça) ){{0,3}}{_SAYS_WHEN}(?:\W|(?<=')))",
    re.IGNORECASE,
)
_MONTHS: Final = (
    ("january", "januari?|jänner|janvier|enero|janeiro|gennaio"), ("february", "februari?|feber|février|febrero|fevereiro|febbraio"),
    ("march", "märz|mars|marzo|março|maart"), ("april", "avril|abril|aprile"), ("may", "mai|mayo|maio|maggio|mei"), ("june", "juni|juin|junio|junho|giugno"),
    ("july", "juli|juillet|julio|julho|luglio"), ("august", "août|agosto|augustus"), ("september", "septembre|septiembre|setiembre|setembro|settembre"),
    ("october", "oktober|octobre|octubre|outubro|ottobre"), ("november", "novembre|noviembre|novembro"),
    ("december", "dezember|décembre|diciembre|dezembro|dicembre"),
)  # fmt: skip
_DAYS: Final = (
    ("monday", "montag|lundi|lunes|segunda-feira|lunedì|maandag"), ("tuesday", "dienstag|mardi|martes|terça-feira|martedì|dinsdag"),
    ("wednesday", "mittwoch|mercredi|miércoles|quarta-feira|mercoledì|woensdag"), ("thursday", "donnerstag|jeudi|jueves|quinta-feira|giovedì|donderdag"),
    ("friday", "freitag|vendredi|viernes|sexta-feira|venerdì|vrijdag"), ("saturday", "samstag|sonnabend|samedi|sábado|sabato|zaterdag"),
    ("sunday", "sonntag|dimanche|domingo|domenica|zondag"), ("tomorrow", "morgen|demain|mañana|amanhã|domani"), ("yesterday", "gestern|hier|ayer|ontem|ieri|gisteren"),
    ("today", r"heute|aujourd'hui|hoy|hoje|oggi|vandaag"),
)  # fmt: skip
DAYS_AND_MONTHS: Final = re.compile("|".join(words for _, words in (*_MONTHS, *_DAYS)), re.IGNORECASE)
"""The names of days and months in these languages."""
_UNITS: Final = (
    ("year", "jahr(?:e[sn]?|s)?|ans?|années?|años?|anos?|ann[oi]|jaar|jaren"), ("month", "monat(?:e[sn]?|s)?|mois|mes(?:es)?|mês|mes[ei]|maand(?:en)?"),
    ("week", "wochen?|semaines?|semanas?|settiman[ae]|weken"), ("day", "tage?n?|jours?|días?|dias?|giorn[oi]|dag(?:en)?"),
)  # fmt: skip
_NUMBERS: Final = (
    ("a", "eine[mrn]?|une?|un[ao]?|uma?|een"), ("two", "zwei|deux|dos|dois|duas|due|twee"), ("three", "drei|trois|tres|três|tre|drie"),
    ("four", "vier|quatre|cuatro|quatro|quattro"), ("five", "fünf|cinq|cinco|cinque|vijf"), ("six", "sechs|six|seis|sei|zes"),
    ("seven", "sieben|sept|siete|sete|sette|zeven"), ("eight", "acht|huit|ocho|oito|otto"), ("nine", "neun|neuf|nueve|nove|negen"),
    ("ten", "zehn|dix|diez|dez|dieci|tien"), ("twelve", "zwölf|douze|doce"), ("twenty", "zwanzig|vingt|veinte"),
)  # fmt: skip
_UNIT: Final = "year|month|week|day"
# In this order: a phrase is put together of words that are English by then.
_ENGLISH: Final = tuple(
    (re.compile(rf"\b(?:{words})\b", re.IGNORECASE), english)
    for english, words in (
        *_MONTHS, *_DAYS, *_UNITS, *_NUMBERS,
        (r"next \1", rf"(?:le |la |l'|el |the )?(?:nächste[nmrs]?|kommende[nmrs]?|próxim[oa]|prossim[oa]|volgende?) ({_UNIT}|\w+day)"),
        (r"next \1", rf"(?:le |la |l'|el )?({_UNIT}|\w+day) (?:prochaine?|que viene|que vem|prossim[oa])"),
        (r"last \1", rf"(?:letzte[nmrs]?|vorige[nmrs]?|afgelopen|scors[oa]) ({_UNIT}|\w+day)"),
        (r"last \1", rf"(?:le |la |l'|el )?({_UNIT}|\w+day) (?:dernière?|passée?|pasad[oa]|passad[oa]|scors[oa])"),
        (r"\1 \2", rf"(\d{{1,2}})(?:er|\.)? (?:de )?({'|'.join(name for name, _ in _MONTHS)})(?: del?)?(?=\W|$)"),
    )
)  # fmt: skip
_SPAN: Final = rf"(?=(?:\d{{1,2}}|[a-z]+) (?:{_UNIT})\b)"
_PHRASES: Final = tuple(
    (re.compile(rf"\b(?:{words})", re.IGNORECASE), english)
    for english, words in (
        ("for ", rf"seit (?:etwa |rund |über |fast )?{_SPAN}"),
        ("for ", rf"(?:depuis|desde h(?:ace|á)|sinds) (?:environ |plus de |presque |unos |más de |casi )?{_SPAN}"),
        ("from ", r"(?:ab|desde|dès|à partir|a partir)(?: de[lrm]?| du| d'| le| la| el)* ?(?=next|tomorrow)"),
        ("from ", r"ab(?: de[mr])? |dès(?: le| la)? |(?:à|a) partir(?: del?| du| d'| le| el)* ?"),
        ("from ", r"vanaf |a partire da(?:l|lla)? "),
        ("since ", r"(?:sinds|dal) "),
        ("since ", r"(?:seit(?: de[mr])?|depuis(?: le| la)?|desde(?: el| la)?) "),
        ("until the end of year", r"bis(?: zum)? jahresende\b"),
        ("until the end of month", r"bis(?: zum)? monatsende\b"),
        ("until the end of ", r"bis(?: zum)? ende (?:de[sr] |dieses )?"),
        ("until ", r"bis(?: zum| zur| einschließlich)* "),
        ("until the end of ", r"jusqu'(?:à|en)(?: la)? fin (?:de |du |d')?(?:month de )?(?:le |la |l')?"),
        ("until ", r"jusqu'(?:à |aux? |en )?(?:month de )?(?:le |la )?"),
        (
            "until the end of ",
            r"(?:até(?: ao?)?|fino alla|tot(?: het)?) (?:fim|final|fine|einde?) (?:d[eo] |di |van )?(?:month (?:d[eio]|van) )?",
        ),
        ("until ", r"(?:até(?: ao?| à)?|fino a(?:d|l|lla)?|tot(?: en met)?) "),
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
