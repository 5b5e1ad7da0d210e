"""The words by which people teach how a thing is done: patterns of leads, of steps and of what joins them. Data only.

English. A lead names what the steps are for ("To deploy", "Whenever a build fails"); it must fill its sentence up to
the steps, so what merely holds such words is none.
"""

from __future__ import annotations

import re
from typing import Final

_VERBS_TEXT: Final = """
    accept access acknowledge activate add adjust agree aim alert align allow amend analyse analyze annotate
    announce anonymise anonymize answer apologise apologize append apply approve archive arrange ask assemble assess
    assign attach audit back backfill backup bake balance batch beat begin benchmark bend bill blend blur boil book
    boot brainstorm branch breathe brew bring browse brush build bump bundle buy calculate calibrate call cancel
    capture carry catch celebrate change charge chart check cherry-pick chill choose chop cite clean clear click
    clone close code collect combine come commit compare compile complete compost compress configure confirm connect
    contact contain contrast convert cook copy cordon count countersign cover create credit critique crop cut
    deactivate deal debit debug decide define delete deliver deploy deposit deprecate describe design develop
    diagnose dial dig disable disassemble disconnect discuss dismiss dispatch display distribute do document
    double-check downgrade download draft drag drain draw dress drive drizzle drop dry dump duplicate edit eject
    email embed enable encrypt end ensure enter eradicate escalate establish estimate evaluate examine execute exit
    expand explain export extract fasten fax feed fertilise fertilize fetch file fill filter find finish fit fix
    flash flip flush focus fold follow fork format forward freeze fry fund garnish gather generate get give go grab
    grant graph greet grep grill grind groom group guide hand handle harvest hash have head heat highlight hire hold
    hook hover identify ignore implement import include increase inform initialise initialize insert inspect install
    integrate interview introduce investigate invite invoice isolate issue iterate jog join keep knead label launch
    lay layer leave lengthen let lie lift limit link lint list listen load locate lock log look loosen lower mail
    make marinate mark mask match measure meditate meet melt memorise memorize merge message migrate minify mix
    monitor mount move mow mute name normalise normalize notarize note notify obfuscate obtain offer onboard open
    optimise optimize order organise organize outline pack package page pallet paste patch pause pay peel perform
    phone pick pin pinch ping place plan plant play plot plug polish post pour practice practise predict prepare
    press preview print process produce profile promote proofread propose prototype provide provision prune publish
    pull purge push put quarantine queue quiz quote raise rake rank rate re-check re-deploy re-open re-read re-run
    reach read reassure rebase reboot rebuild receive recharge recheck recite recommend reconcile record recover
    redact redeploy reduce refactor refer reference refill reformat refresh refund register rehearse reindex reject
    relaunch relax release reload remind remove rename render reopen repeat rephrase replace reply report reproduce
    request reread rerun reserve reset resize resolve respond restart restore retry return revert review revise
    revoke rewrite ring rinse roast roll rollback rotate route run salt sample sanitise sanitize save say scale scan
    schedule score screw scroll scrub seal search season seat seed select sell send separate serve set setup share
    sharpen ship shorten show shred shut sign simmer simplify sit sketch skip slice snapshot soak sort spin splice
    split spread sprinkle squash squat squeeze stage stamp stand start stash state steam step stick stir stop store
    stretch strip submit subtract suggest summarise summarize suspend swap sweep swipe switch sync tabulate tag take
    talk tap taste tell terminate test text thank thaw think throw tick tidy tighten toast toggle top toss trace
    track train transcribe transfer translate transpile treat triage trigger trim try turn type uncordon undo
    uninstall unload unlock unmount unpin unplug unzip update upgrade upload use vaccinate vacuum validate verify
    view visit wait walk warm warn wash watch water weigh welcome whisk wipe wire withdraw work wrap write zip zoom"""
VERBS: Final = frozenset(_VERBS_TEXT.split())
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
_FILLERS_TEXT: Final = """
    a an the my our your their his her its i we you me us to for of on in at with is are be do does when whenever every
    each time any anytime as soon and or new some someone somebody ask asks asked want wants need needs get gets
    please"""
_FILLERS: Final = frozenset(_FILLERS_TEXT.split())
_KEY_WORD: Final = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_ENDING: Final = re.compile(r"(?<=\w{3})(?:ing|ment|s)\Z")


def trigger_key(trigger: str) -> str:
    """What a trigger is about: its words without fillers and endings, each once and sorted; "" for none."""
    words = [word.casefold().replace("’", "'").removesuffix("'s") for word in _KEY_WORD.findall(trigger)]
    own = [word for word in words if word not in _FILLERS] or words
    return " ".join(sorted({_stem(word) for word in own}))


def _stem(word: str) -> str:
    """ "deploying", "deployment", "deploys": one trigger."""
    if word.endswith("ss"):
        return word
    stem = _ENDING.sub("", word)
    stem = stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] and stem != word else stem
    return stem.removesuffix("e") if len(stem) > 3 else stem
