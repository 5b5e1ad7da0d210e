"""What is left of a rule's run of characters as its object: (text, range, shape) in, ranges of objects out.

A run ends where the next clause begins; what then is no name, place, trade or phrase is no object. Objects that only
point ("it", "that idea", "you") are refused, and so are runs that go on for longer than a phrase. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from policies.fact_patterns_things import things
from policies.fact_patterns_words import ANAPHORS, AT_PRESENT, CAPITALS, JOBS, LANGUAGES, STOPS, UNCASED, word_set
from policies.fact_rule import Shape
from policies.text import SIGNS

Range = tuple[int, int]

_NEXT_CLAUSE: Final = re.compile(
    r"(?:,? (?:and|but|or|so|then) (?=(?:I|I'm|I've|I'd|we|we're|we've|it|it's|he|she|they|that|this|you"
    r"|can|how|what|am|is|are|was|want|need|also|have|had|hope|my|our|the|now|would|just|really|think|got"
    r"|there|then|so)\b)"
    r"|,? (?:because|since|although|though|while|whereas|which|who|whom|when|whenever|where|if|unless|so"
    r"|but|as|that|due to|thanks to"
    r"|especially|including|considering|given|after|before|until|till|despite|instead of|rather than"
    r"|compared to|even though|however|these days"
    r"|right now|at the moment|at this point|lately|recently|too|as well|so much|very much|a lot|anymore"
    r"|any more|again|last|yesterday|today|tonight|this (?:week|month|year|time|morning)"
    r"|now|already|currently|for (?:about|over|almost|nearly|the past|\d|a (?:few|couple|while|long)"
    r"|several|many|two|three|four|five|six|ten|now)|to (?:help|make|get|be|see|ensure|keep|fully|better"
    r"|understand|grasp|maximi[sz]e|avoid|improve|increase|buy|pay|afford|fund)"
    r"|in (?:19|20)\d\d|every (?:day|week|time)|all the time|more than anything|can you|could you|how|what|and)\b"
    r"| [-–—] | - |[,;] )",
    re.IGNORECASE,
)
_LIST_END: Final = re.compile(
    r"(?:,? (?:and|but|or|so|then) (?=(?:I|I'm|I've|I'd|we|it|it's|he|she|they|that|this|you|can|how|what"
    r"|am|is|are|was|want|need|also|have|had|hope|my|so|there|then|would)\b)"
    r"|,? (?:because|since|although|though|while|which|who|when|whenever|where|if|so|but|that|due to"
    r"|especially|considering|given|until|these days|nowadays|now|currently|at the moment|for now|myself"
    r"|ourselves|too|as well|so much"
    r"|very much|a lot|anymore|any more|again|right now|lately|can you|could you|how|what|even though|after"
    r"|before|as)\b| [-–—] | - )",
    re.IGNORECASE,
)
# What follows a list of things and is none of them: ", I carry an EpiPen", ", unfortunately", ", my wife to milk".
_NO_ITEM: Final = re.compile(
    r"^(?:please|thanks?|sorry|help|unfortunately|fortunately|luckily|sadly|honestly|apparently|obviously|actually|basically"
    r"|mainly|mostly|particularly|severely|possibly|probably|maybe|perhaps|sometimes|always|never|ever|right|okay|ok|lol|haha"
    r"|btw|fyi|said|says|like(?!-)|at least|neither|nor|nothing|well|yes|no|hence|hello|hi)\b"
    r"|\b(?:I|I'm|I've|I'd|I'll|we|we're|you're|don't|doesn't|isn't|aren't|can't|cannot|is|are|was|were|am|have been"
    r"|has|eats?|hates?|likes?|loves?|know|knows|not)\b"
    r"|^(?:my|his|her|our|their) [\w-]+ (?:to|too|\w+s)\b"
    # What one does beside: "I like tea and live in Rome".
    r"|^(?:live|work|have|own|go|come|want|need|play|study|speak|use|prefer|dislike|teach|run) (?!and\b|or\b)\w",
    re.IGNORECASE,
)
_EITHER: Final = re.compile(r"(?:either|both) ", re.IGNORECASE)
_ITEM: Final = re.compile(r",? (?:and|or|as well as|&) |, ")
_NOT_LIKED: Final = re.compile(
    r"^(?:to (?:hear|know|think|say|see|thank|ask|be|get|have|share|go|try|do|learn|discuss)|how|when|if"
    r"|being able|hearing|seeing|knowing|having|your|the (?:idea|sound|look|plan|way|fact|thought|feel"
    r"|part|first"
    r"|second|last|following|results?|other|suggestion|changes?|opportunity|new|title|concept|option"
    r"|format|example|tips?|approach|output|structure|story|code|name)"
    r"|and\b|or\b|more\b|every|all\b|both\b|being\b|when|doing (?:it|that|this|so)|part\b|most\b|just\b"
    r"|about\b|at\b|in\b|by\b|for\b|on\b|not\b|very\b|really\b|so\b|my new|what|as\b|with\b|now\b"
    r"|some (?:of|new|more)|any (?:of|more)|chatting|supporting|catching|finding|trying|(?:two|three|\d+)\b)\b",
    re.IGNORECASE,
)
_NO_PHRASE: Final = re.compile(
    r"^(?:to|and|or|neither|right|nothing|between|hers|his|theirs|mine|except|unless|unlike|apart|more|less|very|so|too|not|been|being|about|that|able|sure|just|also|all|some|no|in|on"
    r"|at|by|for|with|lots|kind|sort|doing|going|getting|having|making|how|why"
    r"|much|many|enough|really|quite|pretty|feeling|of|is|are|was|only|now|out|up|down)\b",
    re.IGNORECASE,
)
# What is liked about the thing at hand, not in general.
_OF_THE_MOMENT: Final = re.compile(
    r"^(?:the (?:[a-z]+ )?(?!beach|ocean|sea|outdoors|mountains?|theat(?:er|re)|rain|snow|city|sun|cold"
    r"|heat|desert|forest|woods|countryside|guitar|piano|violin)[a-z]+|(?:to )?(?:sharing|learning|making"
    r"|going|getting|doing|help|action|texture|colou?rs?|tech|work"
    r"|helping|stories|games|support|design|details?|style|theme|setup|layout|more)|(?:their|my|our) work|- .*)$",
    re.IGNORECASE,
)
_UNCASED: Final = rf"[{UNCASED}][\w{SIGNS}]*(?: [{UNCASED}][\w{SIGNS}]*){{0,3}}"
_CAPITAL: Final = re.compile(
    rf"(?:(?:the|St\.|of|de|la|du|del|los|las|el|upon|and|le|&|a|s) )*[{CAPITALS}][\w'’.&-]*|{_UNCASED}"
)
# "Ana da Silva", "Jan van der Berg": what joins the parts of a name.
_PARTICLE: Final = (
    "(?:(?:van|von)(?: de[rnm]?)?|de(?: la| los| las)?|del|della|di|da|do|dos|das|du|ten|ter|zu|bin|ibn|al|el) "
)
_NAME: Final = re.compile(rf"{_UNCASED}|[^\W\d_][\w'-]*(?: (?:{_PARTICLE})?[{CAPITALS}][\w'-]*\.?){{0,3}}")
_SURNAME: Final = re.compile(rf" (?:{_PARTICLE})?(?P<name>[{CAPITALS}][^\W\d_{CAPITALS}][\w-]*)(?![\w'’])")
_SURNAMES_MAX: Final = 2
_PLACES: Final = re.compile(
    r"(?:an?|the) (?:[a-z-]+ ){0,3}(?:town|city|village|house|apartment|flat|suburbs?|countryside|country"
    r"|cabin|condo|studio|island|farm|mountains|dorm)(?: (?:near|in|outside|of"
    r"|by) (?:the )?[A-Za-z' ]{2,30})?$"
)
_COMPANIES: Final = re.compile(
    r"(?:an?|the) (?:[\w-]+ ){0,4}(?:company|startup|start-up|bank|agency|firm|hospital|school|university"
    r"|college|nonprofit|non-profit|shelter|studio|restaurant|store|shop|clinic|bakery|cafe|café|lab"
    r"|library|museum|newspaper|magazine|ngo|charity|government|city|state)(?: (?:called|named"
    r"|in) [A-Z][\w' ]{1,30})?$"
)
_HAPPENED: Final = re.compile(
    r"(?:(?:my|our|an?) (?!lot\b|few\b|bit\b|couple\b|ton\b|day\b|mind\b|eyes\b)|the (?:first|second"
    r"|third|(?-i:[A-Z]))|(?-i:[A-Z])|(?:vintage|old|rare|yoga|coding|math|english|music)\b)",
    re.IGNORECASE,
)
_BEGUN: Final = re.compile(
    r"\b(?:job|business|company|blog|channel|podcast|course|class|diet|garden|novel|degree|internship"
    r"|startup|store|shop|club|channel|program|school|apprenticeship|studio|charity|page)$",
    re.IGNORECASE,
)
_DEMONYM: Final = re.compile(
    r"(?:ese|ish|ican|adian|alian|ssian|nian|gian|dian|pean|wiss|utch|rench|reek|erman|ilipino|raqi|hai)$"
)
_MOODS: Final = word_set(
    "sorry fine good happy sure here back done ready okay great excited glad trying looking not just"
    " also still really very so going"
)
# What somebody is, not how they are called, with a capital or without.
_BEINGS: Final = word_set(
    "muslim christian catholic buddhist hindu sikh protestant orthodox mormon atheist agnostic vegan vegetarian"
    " pregnant retired divorced married single widowed tired hungry busy sick ill away great happy sad angry mad bored"
    " dead black white"
)
_NO_NAMES: Final = word_set(
    "i the and but he she they it we my is was who has had in on at to for not so just also monday"
    " tuesday wednesday thursday friday saturday"
    " sunday january february march april may june july august september october november december"
    " english american yes no yeah from like that this"
    " christmas god today mr mrs ms miss dr prof professor sir herr frau madame monsieur mme señor señora sr sra ok"
)

# "A former nurse" is none now, "an aspiring writer" something else for now.
_NOT_NOW: Final = word_set("former ex future aspiring wannabe would-be failed erstwhile")
# What stands where a name would: "call me later", "call me cynical, but", "I go by train", "ich heiße Sie willkommen".
_INSTEAD_OF_NAME: Final = word_set(
    "a an on your really very out if when back by crazy"
    " later tomorrow tonight soon again whenever anytime asap first before after maybe whatever anything"
    " old-fashioned lazy cynical naive naïve paranoid skeptical sceptical picky biased stupid dumb silly weird nuts mad"
    " foot train bus car bike bicycle plane taxi tram boat ferry metro subway rail default"
    " sie dich euch ihn ihnen alle uns egal unwichtig programm geheim selten schwierig kompliziert"
    " eigentlich übrigens auch mit wie noch immer nur plus aussi comme toujours encore également también como igual"
    " personne difficile secret compliqué rare difícil complicado raro común secreto largo irrelevante"
)


def objects(said: str, at: Range, shape: Shape) -> list[Range]:
    """The ranges of a run's objects, none where it is not what its rule expects."""
    start, end = at
    if said[end - 1 : end].isalnum() and said[end : end + 1].isalnum():  # the run's bound fell within a word
        end = max(start, said.rfind(" ", start, end))
    return [one for one in _SHAPES[shape](said, (start, end)) if one[0] < one[1]]


def _cut(said: str, at: Range, end: re.Pattern[str] = _NEXT_CLAUSE) -> Range:
    found = end.search(said, at[0] + 1, at[1])
    return _tight(said, (at[0], found.start() if found else at[1]))


def _tight(said: str, at: Range) -> Range:
    text = said[at[0] : at[1]]
    start = at[0] + len(text) - len(text.lstrip(" '*_"))
    return start, max(start, at[0] + len(text.rstrip(" .'*_-")))


def whole_name(said: str, at: int, end: int) -> int:
    """Where the name of a person ends whose first part ends at `at`: "Tom Ashby", "Ana da Silva"."""
    for _ in range(_SURNAMES_MAX):
        more = _SURNAME.match(said, at, end)
        if more is None or more["name"].casefold() in _NO_NAMES | LANGUAGES:
            break
        at = more.end()
    return at


def _exact(said: str, at: Range) -> list[Range]:
    return [_tight(said, at)]


def _owned(said: str, at: Range) -> list[Range]:
    """A name or a make; "my doctor is Italian" says what they are, not which one."""
    start, end = _tight(said, at)
    return [] if _DEMONYM.search(said[start:end]) and " " not in said[start:end] else [(start, end)]


def _name(said: str, at: Range) -> list[Range]:
    words = _NAME.match(said[at[0] : at[1]])
    if words is None or words[0].split(" ")[0].casefold() in _NO_NAMES | _INSTEAD_OF_NAME:
        return []
    lower = (
        words[0].islower()
        and at[0] + words.end() < at[1]
        and not re.match(r" (?:and|but|i'm|im|i)\b", said[at[0] + words.end() : at[1]])
    )
    return [] if lower else [_tight(said, (at[0], at[0] + words.end()))]


def _proper(said: str, at: Range) -> list[Range]:
    words = said[at[0] : at[1]].split()
    named = all(word[:1].isupper() and word[1:].islower() for word in words)
    if not named or words[0].casefold() in _NO_NAMES | _MOODS | _BEINGS or _DEMONYM.search(words[0]):
        return []
    return [at]


def _event(said: str, at: Range) -> list[Range]:
    found = _phrase(said, at)
    if not found or not _HAPPENED.match(said[found[0][0] : found[0][1]]):
        return []
    begun = re.search(r"\bstarted $", said[max(0, at[0] - 12) : at[0]]) is not None
    return [] if begun and not _BEGUN.search(said[found[0][0] : found[0][1]]) else found


_IS: Final = re.compile(r"(?:\bis|'s)(?: now)? $")


def _person(said: str, at: Range) -> list[Range]:
    # IGNORECASE is on for the rest of the pattern: the capital is checked here.
    text = said[at[0] : at[1]].removesuffix("'s")
    if not text[:1].isupper() or text.casefold() in _NO_NAMES | _BEINGS | LANGUAGES or not text[1:].islower():
        return []
    if _IS.search(said, max(0, at[0] - 12), at[0]) and (_DEMONYM.search(text) or at[0] + len(text) < at[1]):
        return []  # "my wife is Italian", "my sister is Anna's friend"
    return [(at[0], at[0] + len(text))]


def _place(said: str, at: Range) -> list[Range]:
    start, end = _tight(said, at)
    text = said[start:end]
    parts = _CAPITAL.match(text)
    if parts is not None:
        last = parts.end()
        while more := _MORE_OF_PLACE.match(text, last):
            last = more.end()
        words = text[:last]
        if words.endswith(("'s", "’s")) and _OWNED_BY.match(text, last):
            return []  # "Google's rival", "Anna's house"
        return [] if words.casefold() in _NO_NAMES or words in ("I", "I'm") else [_tight(said, (start, start + last))]
    cut = _cut(said, (start, end))
    text = said[cut[0] : cut[1]]
    if _PLACES.match(text):
        return [cut]
    alone = re.fullmatch(r"[a-z]{4,}(?: [a-z]{4,})?", text) is not None and cut[1] == end and "ing" not in text
    return (
        [cut]
        if alone and not ANAPHORS.search(text) and not _NO_PHRASE.match(text) and text.split()[0] not in _NO_PLACE
        else []
    )


_NO_PLACE: Final = word_set("fear constant different same constante plena pleine plein permanente")
_MORE_OF_PLACE: Final = re.compile(
    r"(?:,? | )(?:(?:of|de|la|las|los|le|les|the|du|del|dos|di|op|aan den) )*"
    r"(?!(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
    r"|Montag|Dienstag|Mittwoch|Donnerstag|Freitag|Samstag|Sonntag)s?\b|(?:Quatsch|Entschuldigung|Verzeihung)\b)"
    rf"[{CAPITALS}][\w'’.&-]*"
)
_OWNED_BY: Final = re.compile(rf" (?!(?:{'|'.join(sorted(STOPS))})\b)[a-z]")


def _employer(said: str, at: Range) -> list[Range]:
    cut = _cut(said, at)
    text = said[cut[0] : cut[1]]
    if _CAPITAL.match(text):
        return _place(said, at)
    return [cut] if _COMPANIES.match(text) and not ANAPHORS.search(text) else []


def _job(said: str, at: Range) -> list[Range]:
    cut = _cut(said, at)
    text = said[cut[0] : cut[1]]
    head = re.split(
        r" (?:at|in|for|with|from|of|on|by|to|who|specializing|specialising|working|living|based|trying|and"
        r"|looking)\b",
        text,
    )[0]
    words = head.split()
    if (
        not 0 < len(words) <= 4
        or words[0].casefold() in _NOT_NOW
        or not JOBS.search(head)
        or re.search(r"\b(?:fast|quick|visual|good|great|bad|big|better|terrible|decent|slow)\b", head, re.I)
    ):
        return []
    return [(cut[0], cut[0] + len(head))]


def _phrase(said: str, at: Range) -> list[Range]:
    cut = _cut(said, at)
    text = said[cut[0] : cut[1]]
    if (
        text.casefold() in ("hard", "harder", "late", "lots", "online")
        or not 0 < len(text.split()) <= 8
        or len(text) < 2
        or ANAPHORS.search(text)
        or _NO_PHRASE.match(text)
    ):
        return []
    return [cut]


def _clause(said: str, at: Range) -> list[Range]:
    found = re.compile(
        r",? (?:but|so|because|since|and (?:I|we|it|now|can|how|want|need|then|also)|can you|could you|how"
        r"|what|which|if|although|though|while|after|when|given|considering|reflecting|due to|even though"
        r"|hoping|especially)\b|, (?:and|you know)\b",
        re.I,
    ).search(said, at[0] + 1, at[1])
    cut = _tight(said, (at[0], found.start() if found else at[1]))
    if over := AT_PRESENT.search(said[cut[0] : cut[1]]):
        cut = (cut[0], cut[0] + over.start())
    if ANAPHORS.search(said[cut[0] : cut[1]]):
        cut = _cut(said, cut)
        cut = cut if said[cut[0] : cut[1]].count(" ") >= 3 else (cut[0], cut[0])
    words = said[cut[0] : cut[1]].split()
    if (
        len(words) < 1
        or len(words) > 16
        or ANAPHORS.search(said[cut[0] : cut[1]])
        or words[0].casefold() in ("and", "or", "not", "if", "neither")
    ):
        return []
    return [] if words[-1].casefold() in ("to", "the", "a", "of", "for", "and", "my", "on") else [cut]


def _choice(said: str, at: Range) -> list[Range]:
    """One word alone tells nothing of what it was chosen for, unless it is a name."""
    return [one for one in _clause(said, at) if " " in said[one[0] : one[1]] or said[one[0]].isupper()]


def _list(said: str, at: Range, good: Callable[[str], bool] | None = None) -> list[Range]:
    cut = _cut(said, at, _LIST_END)
    found: list[Range] = []
    start = cut[0]
    ends = [*((m.start(), m.end()) for m in _ITEM.finditer(said, *cut)), (cut[1], cut[1])]
    for number, (end, following) in enumerate(ends):
        item = _tight(said, (start, end))
        if either := _EITHER.match(said, *item):
            item = (either.end(), item[1])
        opened = re.match(r"(?:and|or|also|both|eating|drinking|to) ", said[item[0] : item[1]], re.I)
        if opened and found:
            item = (item[0] + opened.end(), item[1])
        text = said[item[0] : item[1]]
        if not _good_item(text) or not (good is None or good(text)):
            break
        if number and (len(text.split()) > 4 or _NO_ITEM.search(text)):
            break
        if good is not None and _OF_THE_MOMENT.match(text):
            if text.casefold().startswith("the "):
                break  # what follows is of this moment too: "the energy, diversity"
        else:
            found.append(item)
        start = following
    return found


def _good_item(text: str) -> bool:
    words = text.split()
    return (
        0 < len(words) <= 8
        and len(text) > 1
        and words[-1] not in ("to", "of", "in", "for", "with", "the", "a", "my")
        and not ANAPHORS.search(text)
        and not _NO_PHRASE.match(text)
    )


def _liking(said: str, at: Range) -> list[Range]:
    found = _list(
        said,
        at,
        lambda text: not _NOT_LIKED.match(text) and not re.search(r"\b(?:I|we|is|are|was|were|has|have)\b", text),
    )
    # "reading books and to have fun": a verb that goes on from the first item is no item of its own.
    gerunds = [said[a:b].split()[0].endswith("ing") for a, b in found]
    linked = len(found) > 1 and re.search(r" (?:about|of|with|in|for|on) ", said[found[0][0] : found[0][1]]) is not None
    return (
        found[:1] if len(found) > 1 and ((gerunds[0] and not all(gerunds)) or (linked and not all(gerunds))) else found
    )


def _language(said: str, at: Range) -> list[Range]:
    found = []
    for word in re.finditer(r"[A-Za-z]+", said[at[0] : at[1]]):
        if word[0].casefold() in LANGUAGES:
            found.append((at[0] + word.start(), at[0] + word.end()))
        elif word[0].casefold() not in (
            "and",
            "fluently",
            "fluent",
            "native",
            "a",
            "bit",
            "of",
            "some",
            "both",
            "also",
            "little",
            "basic",
            "or",
        ):
            break
    return found


def _age(said: str, at: Range) -> list[Range]:
    return [at] if 0 < int(said[at[0] : at[1]]) < 111 else []


_SHAPES: Final[Mapping[Shape, Callable[[str, Range], list[Range]]]] = {
    "name": _name,
    "person": _person,
    "proper": _proper,
    "event": _event,
    "place": _place,
    "employer": _employer,
    "job": _job,
    "phrase": _phrase,
    "liking": _liking,
    "list": _list,
    "things": things,
    "clause": _clause,
    "choice": _choice,
    "exact": _exact,
    "owned": _owned,
    "age": _age,
    "language": _language,
}
