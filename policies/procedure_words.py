"""The words by which people teach how a thing is done: patterns of leads, of steps and of what joins them. Data only.

English. A lead names what the steps are for ("To deploy", "Whenever a build fails"); it must fill its sentence up to
the steps, so what merely holds such words is none.
"""

from __future__ import annotations

import re
from typing import Final

_COMMANDS_TEXT: Final = """
    ansible apt aws az brew bundle cargo cd chmod cmake curl docker docker-compose gcloud gh git go gradle helm java
    kubectl make mvn node npm npx pip pnpm poetry psql pytest python python3 rsync ruff scp ssh sudo systemctl
    terraform tox uv yarn"""
COMMANDS: Final = frozenset(_COMMANDS_TEXT.split())

# What may stand before a lead, and says nothing of it.
PRELUDE: Final = (
    r"(?:(?:ok(?:ay)?|so|hey|hi|also|and|well|now|btw|by the way|note(?: that)?|fyi|just so you know"
    r"|for (?:the|your|future) (?:record|reference)|remember(?: this| that)?|please(?: remember| note)?(?: this| that)?"
    r"|keep in mind(?: that)?|from now on|going forward|in (?:the )?future|important|one more thing|for next time"
    r"|i(?: want| need|'d like) you to (?:know|remember|learn)|let me (?:tell|teach|show) you)"
    r"[,:.!]?\s+){0,4}"
)
_DO: Final = (
    r"(?:do|follow|use|take|go through|run through)\s+(?:the following|this|these|it like this|as follows)"
    r"(?:\s+(?:steps?|things|procedure|process|order|in order|in this order))?"
)
_HABIT: Final = r"(?:(?:usually|always|normally|typically|generally)\s+)?"
_FOLLOWS: Final = (
    rf"(?:[,;]?\s*(?:please\s+)?(?:(?:you|we)\s+)?(?:(?:should|must|need to|have to|always|will)\s+)?{_DO}"
    r"|[,;]?\s*(?:as follows|like this|like so|the steps are|these are the steps|in this order))?"
)
_PROCESS: Final = (
    r"(?:process|procedure|workflow|work flow|checklist|routine|runbook|run book|protocol|playbook|pipeline|ritual"
    r"|steps|drill|flow)"
)
_WHEN: Final = r"(?:when(?:ever)?|every\s+time|each\s+time|any\s?time|as soon as|before|after|if|once)"
_WE: Final = r"(?=(?:we|you)\s+(?:first|usually|always|normally|should|must|need\s+to|have\s+to)\s)"
_THING: Final = r"[^,;:.!?\n]{2,100}?"
_IS: Final = r"(?:\s+(?:is|are|goes|looks|works)(?:\s+(?:as follows|like this|this|the following|simple|to))?)"

# Each fills a sentence from its start to the steps. `goal`: what is to be done; `event`: when it is done; `own` and
# `named`: those who say so speak of their custom, which lets steps be told ("I check it"), and of a process also named
# ("a call").
LEADS: Final = tuple(
    re.compile(PRELUDE + body, re.IGNORECASE)
    for body in (
        rf"to\s+(?P<goal>{_THING}),?\s+{_WE}",
        rf"to\s+(?P<goal>{_THING}){_FOLLOWS}\s*[,:]\s*",
        rf"(?P<named>for\s+)(?P<goal>{_THING})[,;]?\s*(?:please\s+)?(?:always\s+)?{_DO}\s*[,:]\s*",
        rf"(?P<event>{_WHEN}\s+{_THING}),?\s+{_WE}",
        rf"(?:always\s+)?{_DO}\s+(?P<event>{_WHEN}\s+{_THING})\s*:\s*",
        rf"(?:(?:here(?:'s| is)|this is|that(?:'s| is)|remember|learn)\s+)?(?:exactly\s+)?how\s+to\s+(?P<goal>{_THING})"
        rf"{_FOLLOWS}{_IS}?\s*[:,.]\s*",
        rf"(?P<own>(?:here(?:'s| is)|this is|that(?:'s| is)|remember)\s+how\s+(?:we|i|you)\s+){_HABIT}"
        rf"(?P<goal>{_THING}){_FOLLOWS}\s*[:,]\s*",
        rf"(?P<own>the\s+way\s+(?:that\s+)?(?:we|i|you)\s+){_HABIT}(?P<goal>{_THING})(?:{_IS}\s*[:,]?|\s*:)\s*",
        rf"(?P<named>(?:our|my|the(?:\s+team's|\s+usual|\s+standard|\s+official|\s+correct|\s+right)?)\s+(?:[\w'-]+\s+)?"
        rf"{_PROCESS}\s+(?:for|to|of|when|on)\s+)(?P<goal>{_THING})(?:{_IS}\s*[:,]?|\s*:)\s*",
        rf"(?P<named>(?:remember|learn|this is|here(?:'s| is))\s+(?:(?:this|the|our|my)\s+)?{_PROCESS}\s+(?:for|to)\s+)"
        rf"(?P<goal>{_THING})\s*:\s*",
        rf"(?P<named>)(?P<goal>[\w'-]+(?:\s+[\w'-]+){{0,2}})\s+{_PROCESS}\s*:\s*",
        r"(?P<named>)(?P<goal>\w+ing(?:\s+[\w'-]+){0,4})\s+(?:works|goes)\s+like\s+this\s*:\s*",
        rf"(?P<named>(?:our|my|the)\s+)(?P<goal>[\w'-]+(?:\s+[\w'-]+){{0,3}})\s+{_PROCESS}(?:{_IS}\s*[:,]?|\s*:)\s*",
        rf"(?:(?:these|here)\s+are\s+)?(?:the\s+)?steps\s+(?:to|for)\s+(?P<goal>{_THING})(?:{_IS}\s*[:,]?|\s*:)\s*",
        rf"(?P<event>{_WHEN}\s+{_THING}){_FOLLOWS}\s*[,:]\s*",
    )
)
# Said for how a text goes on, for one thing at hand, or of a fault: nothing that anybody would look up.
NO_GOAL: Final = re.compile(
    r"(?:be|sum|summari[sz]e|clarify|recap|conclude|reiterate|reproduce|answer|give you|put it|make it short|elaborate"
    r"|make a long|make matters|add to|get started|name a few|help you|say|have|understand|explain|illustrate|quote"
    r"|tell you|achieve (?:this|that)|do (?:this|that|so|it))\b"
    r"|(?:start|begin|continue|finish|test|see|start (?:off|with)|begin with|kick off)\s*$"
    r"|.*\b(?:it|them|him|her|above|below|following|here|your (?:\w+ )?question)\s*$"
    r"|.*\b(?:this|that|these|those)\b|.*\b(?:we|you|i)\s+(?:first|need|must|should|have|can|could|will|just|might)\b"
    r"|(?:fix|solve|do|achieve|accomplish|address|avoid|prevent|implement|complete|resolve) (?:this|that|these|it)\b"
    r"|(?:fix|solve|resolve|address|avoid|prevent) the (?:issue|problem|error|bug)s?\s*$",
    re.IGNORECASE,
)
# A lead that says how it was done: "our old process", "we used to", "our process was".
NO_MORE: Final = re.compile(
    rf"\b(?:our|my|the)\s+(?:old|previous|former|earlier|outdated)\s+(?:[\w'-]+\s+){{0,3}}{_PROCESS}\b"
    r"|\b(?:i|we|you|they)\s+used\s+to\b|\b(?:was|were)\s*[:,]?\s*\Z",
    re.IGNORECASE,
)
PAST: Final = re.compile(
    r"\b(?:was|were|had|did|got|went|came|said|told|saw|would|could|took|began|became|felt|yesterday|ago|last"
    r"|(?:i|we|he|she|they|you) \w+ed)\b",
    re.IGNORECASE,
)
# Before and after what is joined: "a, then b", "a. After that b", "a and finally c".
JOIN: Final = re.compile(
    r"(?<![\s,;.])[\s,;.]{1,8}(?:and\s{1,4})?(?:then|next|after(?:\s+(?:that|this)|wards?)|finally|lastly|at last"
    r"|in the end|second(?:ly)?|third(?:ly)?|fourth(?:ly)?|last)(?:\s*,)?(?:\s+then)?\s+"
    r"|(?:->|→|⇒|=>)",
    re.IGNORECASE,
)
JOINED: Final = re.compile(
    r"(?:and\s+)?(?:then|next|after(?:\s+(?:that|this)|wards?)|finally|lastly|second(?:ly)?|third(?:ly)?|fourth(?:ly)?)"
    r"\b[,\s]",
    re.IGNORECASE,
)
COMMA: Final = re.compile(r"[;,]\s{0,4}(?:and\s+)?", re.IGNORECASE)
# Before the words of a step.
STEP_HEAD: Final = re.compile(
    r"(?:(?:and|also|please|just|first(?:ly)?(?:\s+of\s+all)?|second(?:ly)?|third(?:ly)?|then|next|finally|lastly"
    r"|start\s+by|begin\s+by|by)\b[,:]?\s*"
    r"|(?:you|we)(?:'ll)?\s+(?:(?:should|must|need\s+to|have\s+to|can|always|first|then|will|usually|just|also)"
    r"\s+){0,2}){0,4}",
    re.IGNORECASE,
)
STEP_HEAD_OWN: Final = re.compile(r"i\s+(?:(?:first|then|always|usually|just)\s+)?", re.IGNORECASE)
# "if it is red, stop", "otherwise go on".
CONDITION: Final = re.compile(r"(?:if|unless|otherwise|else)\b", re.IGNORECASE)
FIRST: Final = re.compile(r"(?:first(?:ly)?(?:\s+of\s+all)?|to\s+begin|start\s+by|begin\s+by)\b", re.IGNORECASE)
AND: Final = re.compile(r"\s+and\s+", re.IGNORECASE)
STEP_ADVERB: Final = re.compile(
    r"(?:(?:always|never|do\s+not|don't|carefully|immediately|manually|quickly|quietly|only|simply|again|once\s+more"
    r"|if\s+[^,]{2,60},|when\s+[^,]{2,60},|in\s+[^,]{2,30},|on\s+[^,]{2,30},|under\s+[^,]{2,30},)\s+){0,2}",
    re.IGNORECASE,
)
ITEM: Final = re.compile(
    r"[ \t]{0,3}(?:step\s+(?P<step>\d{1,2})\s*[:.)]|\(?(?P<number>\d{1,2})[.)]|[-•–])[ \t]+", re.IGNORECASE
)
INLINE_ITEM: Final = re.compile(r"(?:(?<=[\s:])|\A)(?:step\s+(\d{1,2})\s*[:.)]|\(?(\d{1,2})[.)])\s+", re.IGNORECASE)
