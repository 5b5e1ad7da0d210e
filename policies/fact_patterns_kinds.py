"""The vocabulary of values that change: kinds of value, events, and the words that tie a value to its thing.

Data only, for `policies/fact_patterns_values.py`; every run of characters is bounded, and what must stand next to the
value is anchored at it.
"""

from __future__ import annotations

import re
from typing import Final

from policies.fact_patterns_time import ANY_VALUE
from policies.fact_patterns_words import DETERMINERS, STATES, word_set

KINDS: Final[dict[str, str]] = {
    "deadline": "deadline", "due date": "deadline", "cutoff": "deadline", "cut-off": "deadline",
    "budget": "budget", "accuracy rate": "accuracy", "accuracy percentage": "accuracy", "accuracy": "accuracy",
    "success rate": "success_rate", "completion rate": "completion_rate", "response rate": "response_rate",
    "conversion rate": "conversion_rate", "retention rate": "retention_rate", "error rate": "error_rate",
    "interest rate": "interest_rate", "hourly rate": "hourly_rate", "pass rate": "pass_rate",
    "quiz score": "quiz_score", "test score": "test_score", "credit score": "credit_score", "score": "score",
    "coverage": "coverage", "gpa": "gpa", "grade": "grade", "rating": "rating", "ranking": "ranking",
    "price": "price", "cost": "cost", "salary": "salary", "pay": "salary", "income": "income",
    "rent": "rent", "fee": "fee", "fees": "fee", "savings": "savings", "debt": "debt", "mortgage": "mortgage",
    "allowance": "allowance", "balance": "balance", "revenue": "revenue", "expenses": "expenses",
    "goal": "goal", "target": "goal", "quota": "goal", "limit": "limit", "cap": "limit", "threshold": "threshold",
    "version": "version", "weight": "weight", "height": "height", "word count": "word_count",
    "page count": "page_count", "size": "size", "length": "length",
    "duration": "duration", "latency": "latency", "response time": "response_time", "load time": "load_time",
    "timeout": "timeout", "speed": "speed", "temperature": "temperature", "capacity": "capacity", "port": "port",
    "start date": "start_date", "launch date": "launch_date", "release date": "release_date", "end date": "end_date",
    "launch": "launch_date", "release": "release_date", "birthday": "birthday", "anniversary": "anniversary",
}  # fmt: skip
EVENTS: Final = (
    "meeting|call|appointment|interview|flight|exam|session|webinar|workshop|conference|presentation|demo|lesson"
    "|review|checkup|check-up|surgery|wedding|party|concert|game|match|race|marathon|trip|reservation|consultation"
    "|kickoff|retro|retrospective|stand-?up|audit|hearing|ceremony|festival|hackathon|screening|rehearsal|class|course"
    "|seminar|lecture|test|quiz|tournament|visit|delivery|event|premiere|shoot|gig|recital|audition|move|submission"
)
KIND: Final = "|".join(sorted(map(re.escape, KINDS), key=len, reverse=True))
KIND_RE: Final = re.compile(rf"\b({KIND})\b", re.I)
EVENT_RE: Final = re.compile(rf"\b(?:{EVENTS})s?\b", re.I)
# "A birthday party", "the release notes", "a salary increase": what is of a kind of value, and none itself.
NO_KIND: Final = re.compile(
    rf" (?:{EVENTS}|present|gift|cake|dinner|lunch|brunch|notes?|celebration|video|post|e-?mail|announcement"
    r"|increase|raise|rise|bump|hike|cut|decrease|reduction|drop|difference|gap)s?\b",
    re.I,
)
APPROX: Final = (
    r"(?:about|around|roughly|approximately|nearly|almost|only|just|exactly|now|over|above|under|below"
    r"|at least|at most|up to|a)"
)
OF_VALUE: Final = re.compile(
    rf"\b({KIND})(?: of| at| above| below| over| under|:) (?:{APPROX} )?$|\b({KIND}) \($", re.I
)
PREFIX: Final = re.compile(rf"^(?: (?:{'|'.join(sorted(STATES))}))? ({KIND})\b(?! of\b)", re.I)
FOR_THING: Final = re.compile(r"^(?:,? (?:for|on)| (?:in|of|to)) ", re.I)
WITH: Final = re.compile(r" (?:with|at)(?: an?| the)?((?: [a-z]+){0,2}) $| (?:with|at)$", re.I)
BE: Final = word_set("is are 's has have had been got gets stands sits went goes")
TURNED: Final = word_set(
    "increased decreased improved raised lowered reduced dropped rose grew grown risen fell fallen"
    " climbed jumped"
    " changed adjusted updated upgraded moved shifted pushed extended postponed rescheduled delayed bumped cut set"
    " revised advanced brought reached hit scheduled booked planned due rated estimated expanded went"
)
LINKS: Final = (
    word_set("now currently actually already just officially still only about around to at up down on for by from"
    " back was were")
    | word_set("until be recently finally roughly also all the way in out almost nearly approximately over")
    | BE | TURNED
)  # fmt: skip
MOVING: Final = re.compile(
    r"\b(?:mov(?:e|ed|ing)|reschedul(?:e|ed|ing)|postpon(?:e|ed|ing)|push(?:ed|ing)?|chang(?:e|ed|ing)|shift(?:ed|ing)?"
    r"|extend(?:ed|ing)?|increas(?:e|ed|ing)|rais(?:e|ed|ing)|lower(?:ed|ing)?|cut(?:ting)?|reduc(?:e|ed"
    r"|ing)|bump(?:ed|ing)?"
    rf"|adjust(?:ed|ing)?|updat(?:e|ed|ing)|put(?=[^,;:.]{{3,70}} (?:up|down) to $)|upgrad(?:e|ed"
    rf"|ing)) ([^,;:.{ANY_VALUE}]{{3,70}}?)(?: from [{ANY_VALUE}]+)? (?:back |up |down )?(?:to|until) $",
    re.I,
)
# "They had to call it off": who calls off, and behind the verb what.
CALLING_OFF: Final = re.compile(
    r"\b(?:i|we|they|he|she|(?-i:[A-Z])\w+)(?: have| has|'ve| just| already| finally){0,2} $", re.I
)
LONG_AGO: Final = re.compile(r" (?:last|in (?:19|20)\d\d|back (?:in|then)|(?:[\w-]+ ){1,3}ago)\b", re.I)
CALLED: Final = re.compile(
    r" (?:my|our|the)\b[^,;:.!?\n]{2,80}?(?=[,;:.!?\n]|$| (?:and|but|because|since|so|last|this|yesterday|today)\b)",
    re.I,
)
ON: Final = re.compile(
    r"(?:,? (?:which |that )?(?:is |was |are |'s )?(?:been )?(?:scheduled|set|booked|planned|coming up"
    r"|happening|taking place|due|rescheduled|confirmed))?"
    r" (?:on|at|for|by|this|next|to) $",
    re.I,
)
EACH: Final = re.compile(r"(?:every|each) ", re.I)
DUTY: Final = re.compile(
    r"\b(?:submit(?:ting)?|finish(?:ing)?|complet(?:e|ing)|deliver(?:ing)?|finali[sz](?:e|ing)"
    r"|launch(?:ing)?|hand in|turn in"
    rf"|fil(?:e|ing)|ship(?:ping)?) ((?:[^,;:.?!{ANY_VALUE}\s]+ ){{1,7}})by $",
    re.I,
)
DID: Final = (
    "completed|finished|secured|written|wrote|read|solved|attended|submitted|applied to|applied for|received|collected"
    "|sold|visited|published|recorded|edited|built|implemented|passed|won|reviewed|tested|interviewed|mentored|hired"
    "|earned|drafted|fixed|closed|merged|deployed|watched|run|ran|lost|gained|saved|booked|scheduled|landed"
)
COUNTING: Final = re.compile(
    rf"\b(?:i|we)(?:'ve| have|'d)? (?:now |already |also |just |recently |only |successfully |have "
    rf"|finally ){{0,3}}({DID}|have|had|got|own|manage|lead)"
    rf"(?: (?:all|only|about|around|over|exactly|a total of|now|up to|nearly|almost|at least))* $|\bafter completing $"
    rf"|\b(?:recently|already|just|successfully) ({DID}) $",
    re.I,
)
TOTAL: Final = re.compile(
    r"\b(?:\b(?:i|we|my|our)\b[^.;!?]{0,60} a total of|(?:now|so) there(?: are|'re|'s)|there are(?: now"
    r"| currently| already))(?: about| only)? $",
    re.I,
)
HOLDS: Final = re.compile(
    r"(?:\b(?:my|our)|\b(?:i|i'm|i've|we|we're|we've)\b[^.;!?]{0,60} the) ((?:[a-z][\w-]* ){1,4})(?:with"
    r"|has|have|contains|includes) $",
    re.I,
)
SPENT: Final = re.compile(
    r"\b(allocated|budgeted|set aside|earmarked|paid|spent|paying|spending|spend|pay"
    r"|allocate)(?: (?:about|around|only|up to|over))? $",
    re.I,
)
EARNED: Final = re.compile(r"\b(?:earn|earning|make|making|salary (?:is|of))(?: (?:about|around|only))? $", re.I)
PER: Final = re.compile(
    r"^ (?:a|per|each|every|/) ?(day|week|month|year|hour|night)\b|^ (daily|weekly|monthly|yearly"
    r"|annually)\b",
    re.I,
)
PERIODS: Final = {
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "yearly": "year",
    "annual": "year",
    "annually": "year",
}
MEASURES: Final = word_set(
    "minute second hour day week month year night time cm mm km m kg g mile meter metre foot inch pound"
    " lb percent point"
    " px pixel am pm degree ms mb gb kb tb step way thing option reason example tip lot bit year-old mph star cup tbsp"
    " o'clock dollar euro more of and or to year-olds kilometer oz ounce gram liter litre unit pair tablespoon teaspoon"
    " type kind part sentence paragraph word line chapter people person"
)
EVENT_LINKS: Final = word_set("with for on about at of in to and coming up scheduled set planned booked")
# Verbs that stand before the thing they are done to.
DOING: Final = word_set(
    "using having moving adjusting increasing keeping managing setting tracking spending completing"
    " finishing targeting improving achieving"
    " updating finalizing finalising scheduling attending preparing planning reducing meeting hitting"
    " reaching block blocking"
) - {"meeting"}
TIME_UNITS: Final = word_set("second minute hour day week month year time")
# Kinds that a person has; any other kind needs a thing whose kind it is.
OWN_KINDS: Final = word_set(
    "accuracy budget salary score quiz_score test_score credit_score goal rent weight height savings"
    " debt income gpa deadline"
    " launch_date release_date conversion_rate retention_rate error_rate interest_rate pass_rate"
    " success_rate completion_rate response_rate hourly_rate mortgage allowance birthday anniversary"
    " count_per_day"
    " count_per_week count_per_month count_per_year grade"
)
# "The number of tuples is 1000" is an exercise; "the number of my tickets", "is now", "is down to" are somebody's.
NUMBER_OF_OURS: Final = re.compile(
    r"\b(?:i|my|our|we|i've|we've|now|up to|down to|already|went|grew|rose|dropped)\b", re.IGNORECASE
)
OPENED: Final = re.compile(rf"\b(?:{'|'.join(sorted(DETERMINERS | STATES))}|\w+'s) $", re.IGNORECASE)
OPENING: Final = re.compile(
    r"\s*(?:(?:so|and|but|also|ok(?:ay)?|well|now|hey|hi|oh|btw|fyi|yeah|yes|no|then|unfortunately|sadly|luckily),? )*",
    re.I,
)
MINE: Final = re.compile(r"\b(?:my|our)\b", re.I)
OWNED: Final = re.compile(
    r"\b(?:my|our|the (?:new|updated|revised|increased|deadline|budget|launch|release)|(?:i"
    r"|we) (?:now )?have an?|(?:i've"
    r"|we've) (?:got )?an?|set an?|meet an?|earn\w*|have a)\b",
    re.I,
)
# "From 3 pm to 4 pm", "between $500 and $600": the end of a span is no value by itself, unless something moved there.
SPAN_END: Final = re.compile(
    rf"[{ANY_VALUE}],? ?(?:to|until|till|through|[-–]) ?(?:the )?$|\bbetween [{ANY_VALUE}]+ and $", re.I
)
MOVED: Final = re.compile(
    r"\b(?:mov|reschedul|postpon|push|chang|shift|exten|increas|rais|lower|cut|reduc|bump|adjust|updat|upgrad|improv"
    r"|decreas|drop|ros|ris|went|go|grew|grow|fell|fall|climb|jump|delay|brought|bring|expan|switch|cross|up\b|down\b)",
    re.I,
)
CHANGED: Final = re.compile(r"\b(?:new|updated|revised|increased|reduced|now|no longer|instead)\b", re.I)
JUST_NAMED: Final = re.compile(
    r"(?:\b(?:my|our|an?)|\b(?:wrong|mistaken|confused|worried|nervous|excited|happy) about the) (?:[\w'-]+ ){0,3}?"
    rf"(?P<event>{EVENTS})[,:]? (?:and |but |so )?(?:it|that)(?:'s| is)? (?:actually |really |now |just )*"
    r"(?:(?:moved|scheduled|set|planned|pushed|rescheduled) )?(?:on |at |to |for )?$",
    re.I,
)
PUT_RIGHT: Final = re.compile(r"\b(?:wrong|mistaken|mixed up|confused|correction|actually|now|moved|pushed)\b", re.I)
PRONOUN: Final = re.compile(r"\b(?:it|that)(?:'s)?$", re.I)
VERBS_OF_COUNT: Final = word_set("have had got own manage lead")
