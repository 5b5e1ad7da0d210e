"""What is named and yet not so: the words around an event, a value or a version in; whether it is denied, somebody
else's, or only the difference to what it is, out.

"I don't have a meeting on Friday", "my flight on Friday was cancelled", "my sister has an exam on Friday", "my rent
rose by $100", "I don't earn $5,000 a month", "we haven't upgraded to Node 20.1", "we want to use Node 20.1". Only words
of the same clause count. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from typing import Final

from policies.fact_patterns_words import CAPITALS, KIN_MANY, KIN_ONE

_WORK: Final = (
    "client|customer|competitor|rival|vendor|supplier|patient|student|teacher|tenant|employee|intern|teammate|classmate"
)
_OTHERS: Final = rf"\b(?:(?:my|our|his|her|their) (?:{KIN_ONE}|{KIN_MANY}|{_WORK})s?|he|she|they)"
_NOT: Final = r"(?:n't|\bnot|\bnever|\bno longer)"
_CLAUSE_ENDS: Final = re.compile(r"[,;:]\s|\b(?:and|but|because|so)\b", re.IGNORECASE)
_UNREAL: Final = re.compile(
    r"\b(?:if|wish|assuming|suppose|supposing|imagine)(?: that)? (?:[\w'-]+ ){1,5}"
    r"(?:is|was|were|had|have|has) (?:on |at )?$|\b(?:i|we) had (?:only |about )?$"
    r"|\b(?:might|(?:should|shall|could) (?:i|we)) (?:move|push|postpone|reschedule) ",
    re.IGNORECASE,
)
# "I couldn't move my meeting to Friday", "they refused to raise our budget to $500": it is not there.
_NOT_MOVED: Final = re.compile(
    rf"(?:{_NOT}|\b(?:if|might|may|would|could|refus\w+|unable|failed|tried|trying|wants?|wanted|hop(?:es?|ed|ing)|wish\w*"
    r"|promis\w+|suggest\w*|propos\w+|asked|asks|think(?:ing)? (?:of|about)|thought about|consider\w*|declin\w+)\b)"
    r"[^,;:]{0,60}?\b(?:mov|push|postpon|reschedul|chang|shift|exten|increas|rais|lower|cut|reduc|bump|adjust|updat|upgrad)"
    r"[^,;:]{3,80} (?:to|until) $",
    re.IGNORECASE,
)
_NO_EVENT: Final = re.compile(
    rf"{_NOT} (?:[a-z]+ )?(?:have|has|had|got|schedul\w+|book\w*|plan\w*)\b|\b(?:might|supposed to|used to) have\b"
    rf"|\bcancell?(?:ed|ing)?\b|\bcall(?:ed|ing)? off\b|{_OTHERS} (?:[a-z]+ )?(?:has|have|had|got)\b",
    re.IGNORECASE,
)
_CALLED_OFF: Final = re.compile(
    r"[^,;:.!?]{0,40}\b(?:cancell?ed|called off)\b"
    r"|(?: just| already)?"
    r" (?:(?:was|were)(?! (?:just |finally |already )?(?:confirmed|booked|scheduled|approved|set)\b)"
    r"|went|fell through|(?:isn't|is not|won't be) happening|didn't happen|is off"
    r"|(?:has been|got|is) (?:postponed|moved|rescheduled|pushed|delayed))\b",
    re.IGNORECASE,
)
# "I had a meeting on Friday", "I passed my exam on Friday": it lies behind.
_OVER: Final = re.compile(
    r"\b(?:i|we|i've|we've) (?:[a-z]+ )?(?:had|missed|skipped|attended|passed|failed|aced|survived|enjoyed"
    r"|won|came back from|got back from|returned from) (?:my|our|an?|the|this|that|another)\b"
    r"(?!.*\b(?:scheduled|rescheduled|moved|booked|planned|set|pushed)\b)",
    re.IGNORECASE,
)
_DOUBTED: Final = re.compile(
    rf"\bdoubt(?:s|ed)?\b|{_NOT} (?:[a-z]+ )?(?:think|thought|believed?|say|said|claim(?:ed)?|sure)\b"
    r"|(?:\bnot|n't|\bhardly|\bnever) (?:been )?true\b|\b(?:untrue|false|wrong|mistaken) that\b"
    r"|\b(?:nobody|no one|none|nothing|neither|maybe|perhaps)\b",
    re.IGNORECASE,
)
_OF_OTHERS: Final = re.compile(
    r"\b(?:his|her|their) (?!(?:an?|the|my|our|this|that)\b)(?:[\w-]+ ){0,2}$"
    rf"|{_OTHERS} (?:[a-z]+ )?(?:has|have|had|got|gets|earns|wants|needs) (?:[\w-]+ ){{0,3}}$",
    re.IGNORECASE,
)
_PAST: Final = re.compile(r"(?<![\w-])(?:old|previous|former|earlier|prior) (?:[\w-]+ ){0,2}$", re.IGNORECASE)
_DIFFERENCE: Final = re.compile(
    r"\s(?:too (?:high|low|much|many|little|few|long|short|expensive)"
    r"|lower|higher|less|more|fewer|better|worse|below|above|faster|slower|bigger|smaller|larger|cheaper|off|short)\b",
    re.IGNORECASE,
)
# "My rent went up $100": with a "to" it is what the rent is now.
_BY: Final = re.compile(
    r"(?<!\bmy )(?<!\bour )(?<!\bthe )(?<!\ba )(?<!\ban )"
    r"\b(?:(?:increas|decreas|rais|reduc|improv)(?:e|es|ed)|lower(?:s|ed)?|drop(?:s|ped)?|climb(?:s|ed)?|jump(?:s|ed)?"
    r"|go|goes|went|gone|rise|rises|rose|risen|grows?|grew|grown|falls?|fell|fallen"
    r"|(?:is|are|was|were|been) (?:up|down|cut)) (?:up |down )?"
    r"(?:by |about |around |almost |nearly |another )*$",
    re.IGNORECASE,
)
_NO_VALUE: Final = re.compile(
    rf"(?:{_NOT}|'d|\b(?:would|could|might|should)|\b(?:want|wish|hope|hoping|like|need|plan|planning|going|trying) to)"
    r" (?:[a-z]+ )?"
    r"(?:earn|make|making|spend|spent|pay|paid|paying|do|read|write|run) (?:[a-z]+ )?$"
    rf"|{_NOT} (?:[a-z]+ )?$|{_NOT} (?:[a-z]+ )?(?:have|got|has|need|want) an? (?:[\w-]+ ){{1,4}}of $"
    r"|\bsay (?:my|our) (?:[\w-]+ ){1,4}(?:is|was) $"
    rf"|{_OTHERS} (?:[a-z]+ )?(?:has|have|had|contains|includes) (?:[a-z]+ )?$",
    re.IGNORECASE,
)
_NO_VERSION: Final = re.compile(
    rf"(?:{_NOT}|\b(?:without|rather than|instead of)) (?:[\w-]+ ){{0,3}}$"
    rf"|(?:\b(?:should|will|might|may|(?:want|wish|plan|planning|going|hoping) to)|'ll) (?:[a-z]+ )?$"
    rf"|{_OTHERS} (?:[a-z]+ )?$"
    r"|\b(?:stopped|quit|dropped|avoid|avoided|hate|used to) (?:[a-z]+ )?$|\b(?:was|were) (?:still |also )?$",
    re.IGNORECASE,
)

# "I live in Berlin, no, Munich", "I have a dog, but not any more", "I love Mondays, not!".
_TAKEN_BACK: Final = re.compile(
    r"\W{0,5}(?:wait,? )?(?:(?:or )?no,? (?:wait|sorry|i meant?|make that)\b"
    r"|(?:or )?no, (?!(?:really|seriously|honestly|i|i'm|it's|thanks?)\b)|wait,? no\b"
    rf"|(?:sorry|i meant?|i mean to say),? (?:in |at |to |for |from )?(?=(?-i:[{CAPITALS}\d$€£¥]))(?!I\b)|or rather\b"
    r"|scratch that\b|make that\b|(?:but )?not (?:really|any ?more)\b|(?:but )?no (?:longer|more)\b"
    r"|or (?:was|did|used to)\b)"
    r"|\W{0,5}(?:nein|ich meine|ähm?|quatsch|entschuldigung|verzeihung|besser gesagt|vielmehr|oder besser|non|euh|enfin"
    r"|je veux dire|(?:ou )?plutôt|pardon|désolée?|perdón|perdona|bueno|digo|mejor dicho|quiero decir),?"
    r" (?:in |bei |à |chez |en )?"
    rf"(?=(?-i:[{CAPITALS}\d]))"
    rf"|\W{{0,5}}(?:well|correction)[,:]? (?:in |at |to |for |from )?(?=(?-i:[{CAPITALS}\d]))(?!I\b)"
    r"|,? (?:or )?so (?:they|he|she|people) says?\b|,? (?:supposedly|allegedly|in theory|in my dreams|i wish)\b"
    r"|\W{0,5}(?:lol,? )?not(?:[!.)]|$)",
    re.IGNORECASE,
)
# "I bought a house but sold it", "I quit smoking but started again": what is said last is so.
_UNDONE: Final = re.compile(
    r",? but (?:i |we |i've |we've )?(?:have |then |later |since |soon ){0,2}(?:quit"
    r"|left(?! (?:my|our|the|an?|it|them)\b)|(?:sold|returned|lost) (?:it|them)"
    r"|gave (?:it|them) (?:up|back|away)|got rid of (?:it|them)|renewed it"
    r"|changed (?:my|our) minds?|(?:started|began) (?:it )?again|(?:went|moved|switched|came) back"
    r"|(?:got|was) (?:fired|laid off|divorced))\b"
    # "I moved to Rome in 2010 and to Milan in 2015", "I quit smoking and started again".
    r"|(?: in (?:19|20)\d\d| last \w+| [a-z]+ \w+ ago)?,?(?: and)?(?: then| later)*"
    rf" (?:(?:moved )?(?:back )?to (?-i:[{CAPITALS}])[\w' -]{{1,30}} in (?:19|20)\d\d\b|(?:moved |came |went )back\b"
    r"|(?:started|began) (?:it )?again\b|(?:sold|returned|lost) (?:it|them)\b"
    r"|(?:left|quit|divorced)(?: again)?(?: (?:in (?:19|20)\d\d|this|last|[a-z]+ \w+ (?:ago|later))\b|(?=[.,!])|$))"
    rf"|,?(?: and)? then (?:back )?to (?-i:[{CAPITALS}])",
    re.IGNORECASE,
)
# "Rome or Milan": it is one of them, and nobody has said which. "Or so", "or I fail" name no other.
_ONE_OF_TWO: Final = re.compile(
    r" (?:or|oder|ou|o|u) (?!(?:so|less|more|thereabouts|lower|higher|fewer|earlier|later|sooner|before|after|better"
    r"|near|nearby|around|even|something|somewhere|else|otherwise|i|we|you|he|she|it|they)\b"
    r"|[^,.;:]{1,30} for short\b)",
    re.IGNORECASE,
)
# "Is my flight on Friday?", "Did our launch move to June 3?" ask for the value, "Is my budget of $500 enough?" has it.
_ASKS_WHETHER: Final = re.compile(
    r"\W*(?:(?:so|and|but|or|then|also|wait|hey|hi|ok(?:ay)?|oh|btw|sorry|hmm?|well|now),? ){0,3}"
    r"(?:is|are|was|were|do|does|did|has|have|had|will|would|could|can|should|shall|might)(?:n't)? (?:not )?"
    r"(?:(?:i|we|you|they|he|she) )?(?:(?:still|really|actually|already|also|now|not|have|had|got|need|there) ){0,3}"
    r"(?:(?:an?|the|my|our|your|their|that|this|any) )*",
    re.IGNORECASE,
)
_NOTHING_BEHIND: Final = re.compile(
    r"(?: (?:still|yet|now|again|then|right|correct|too|instead|already|after all|as planned|by any chance|or not))*"
    r" *(?:[,;:?!—–-]|$)",
    re.IGNORECASE,
)
_TO_ANOTHER: Final = re.compile(r" (?:to|[-–]) ?[$€£¥]?\d|[-–][$€£¥]?\d")
_JOKE: Final = re.compile(
    r"\W{1,5}(?:(?:oh|oops|no|sorry|wait|actually)[,.!]? ){0,3}(?:i meant?|i mean to say|correction|make that"
    rf"|scratch that)[,:]? (?:in |at |to |for |from |it's )?(?=(?-i:[{CAPITALS}\d$€£¥]))(?!I\b)|"
    # A sentence of its own that is a name: "My boss is Priya. Sorry, Priyanka."
    rf"\W{{1,5}}(?:oh,? |oops,? )?sorry,? (?!I\b)"
    rf"(?=(?-i:[{CAPITALS}])[\w'-]+(?: (?-i:[{CAPITALS}])[\w'-]+)?[.!]?(?:\s|$))|"
    r"\W{0,5}(?:(?:no, )?(?:just |only |i'm |i am |was |i was )*(?:kidding|joking)\b(?! aside)|no,? wait\b"
    r"|(?:nur |war |kleiner |ein ){0,3}(?:scherz|witz|spaß|spass)\b|(?:(?:es |era )?(?:una )?broma|mentira)\b"
    r"|(?:non,? )?je (?:plaisante|rigole|blague|déconne)\b|(?:c'est |c'était )?une blague\b"
    r"|(?:actually,? |but |sorry,? |oh,? )?(?:scratch|ignore|forget|disregard) that\b(?! (?:i|we|my|our|the)\b)"
    r"|(?:actually,? |but |sorry,? |oh,? )?(?:it|that)(?:'s| is| was| got| has been) (?:just |already )?cancell?ed\b"
    # "I work at Google. Well, at a supplier of theirs": near what was said, and another.
    r"|\W{1,5}(?:well|i mean|or rather|naja|na ja|besser gesagt|vielmehr|enfin|bueno|o sea|mejor dicho|cioè|anzi"
    r"|quer dizer|nou ja),? (?:actually |really |just |eher |plutôt |más bien |piuttosto )?"
    r"(?:(?:in|at|for|with|bei|chez|pour|dans|en|para|a|presso|per|em|numa?|bij|voor)"
    r" (?:(?:an?|one|the|einem?r?|der|une?|una?|uma?|l[ae]|el|een|de) )+(?-i:[a-zß-ÿ-])"
    r"|(?:near|outside|close to|not far from|in der nähe|nahe|près|à côté|cerca|vicino|perto|vlak ?bij)\b)"
    r"|(?:jk|not!)(?!\w)|not\W*(?:\n|\Z))",
    re.IGNORECASE,
)

# "Oh great, I love Mondays", "I love Mondays /s": the contrary is meant.
_IRONY_BEFORE: Final = re.compile(
    r"\W*(?:oh|yeah|wow|ah|well|ach|na)[, ]+(?:just )?(?:great|sure|right|joy|yay|lovely|fantastic|wonderful|brilliant"
    r"|awesome|toll|super|klasse|prima|génial|genial|estupendo|ótimo|fantastico)\b",
    re.IGNORECASE,
)
_IRONY_BEHIND: Final = re.compile(
    r"\s[/#]s(?:arcasm)?(?!\w)|\U0001f644|\bsaid no ?(?:one|body) ever\b|[(*](?:sarcasm|irony|ironie|sarcasmo|not)[)*]",
    re.IGNORECASE,
)

# "We dropped Django in the new service": elsewhere it is in use still; "from our stack" is everywhere.
_IN_PART: Final = re.compile(
    r"(?: (?:for|with|by) [\w+#.-]+)? (?:in|from|on|for) (?:the|one|some|an?|our|this|that|these|those) "
    r"(?!(?:[\w-]+ )?(?:stack|set-?up|projects?|code ?base|team|company|product|end|moment|time being|sake|future|whole"
    r"|entire)\b)",
    re.IGNORECASE,
)


def in_part(behind: str) -> bool:
    """Whether the words behind what ended say that it ended in one place."""
    return _IN_PART.match(behind) is not None


def ironic(before: str, behind: str) -> bool:
    """Whether the words that open a sentence, or what stands in its line behind what it likes, say the contrary."""
    return _IRONY_BEFORE.match(before) is not None or _IRONY_BEHIND.search(behind) is not None


def no_event(before: str, behind: str) -> bool:
    """Whether an event between these words of its sentence is denied, called off, over or that of somebody else."""
    clause = _last_clause(before)
    return (
        any(one.search(clause) for one in (_NO_EVENT, _UNREAL, _OVER, _NOT_MOVED))
        or _CALLED_OFF.match(behind) is not None
    )


def no_date(before: str) -> bool:
    """Whether a day behind these words of its sentence is only supposed."""
    clause = _last_clause(before)
    return _UNREAL.search(clause) is not None or _NOT_MOVED.search(clause) is not None


def doubted(before: str) -> bool:
    """Whether these words of a sentence deny or doubt what stands behind them, whatever that is."""
    return _DOUBTED.search(_last_clause(before)) is not None


def taken_back(said: str, at: int, end: int) -> bool:
    """Whether what a sentence that ends at `end` has said up to `at` is unsaid in the same breath."""
    return _TAKEN_BACK.match(said, at, end) is not None or _JOKE.match(said, at) is not None


def one_of_two(said: str, at: int, end: int) -> bool:
    """Whether a sentence that ends at `end` leaves open whether what it has said up to `at` is so or another."""
    return _ONE_OF_TWO.match(said, at, end) is not None


def asks_whether(before: str, behind: str) -> bool:
    """Whether a question asks if the value between these words is the one: it has no other predicate."""
    return _ASKS_WHETHER.fullmatch(before) is not None and _NOTHING_BEHIND.match(behind) is not None


def undone(said: str, at: int, end: int) -> bool:
    """Whether the same sentence says that what it has said up to `at` did not last."""
    return _UNDONE.match(said, at, end) is not None


def of_others(before: str) -> bool:
    """Whether these words say that the kind of value behind them is that of somebody else: "her", "my wife has a"."""
    return _OF_OTHERS.search(before[-140:]) is not None


def no_value(before: str, behind: str) -> bool:
    """Whether a sum, a share or a number between these words of its sentence is not what the thing is."""
    if _TO_ANOTHER.match(behind) or before.endswith("by ") or _BY.search(before[-140:]) or _DIFFERENCE.match(behind):
        return True
    clause = _last_clause(before)
    return any(one.search(clause) for one in (_NO_VALUE, _UNREAL, _NOT_MOVED))


def of_the_past(before: str) -> bool:
    """Whether these words say that the kind of value behind them is what it was: "my previous"."""
    return _PAST.search(before[-140:]) is not None


def no_version(before: str) -> bool:
    """Whether what is said next to be in use is not, or not yet, or not by the one who speaks."""
    return _NO_VERSION.search(_last_clause(before)) is not None


def _last_clause(before: str) -> str:
    return _CLAUSE_ENDS.split(before[-140:])[-1]
