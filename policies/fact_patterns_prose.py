"""Which parts of a text are its speaker's own statements: a text in, ranges of sentences out.

What is pasted is no statement of the one who pastes it: code, quotes, logs, tables, mails, transcripts, encoded data,
what a program brought, and all that follows a request to work on a text or to play a part. Such places are covered,
character for character, so that every offset stays the text's own. Pure; refuses nothing. Linear: of a text above
CHARS_MAX only the first and last CHARS_KEPT are read (people say what they want before or behind what they paste), of a
sentence SENTENCE_MAX.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from policies import fact_patterns_elsewhere as elsewhere
from policies.brought import brought_in
from policies.fact_introduced import introduced
from policies.fact_material import MATERIAL
from policies.fact_worded import first_at, worded
from policies.text import FENCED, SIGNS

CHARS_MAX: Final = 6_000
CHARS_KEPT: Final = 2_000
SENTENCE_MAX: Final = 700
COVER: Final = "\ue000"  # private use, no letter, no space: nothing matches across it

_COVERS: Final = re.compile("[\ue000-\ue0ff]")
_NARROW: Final = re.compile("[\xa0\u2009\u202f]")
_URL: Final = re.compile(r"\b(?:https?|ftp)://\S+|\bwww\.\S+")
_LONG_TOKEN: Final = re.compile(r"\S{60,}")
# Quoted words of more than a title's length, or with somebody's "I" in them, are somebody's words.
_QUOTED: Final = re.compile(r"[\"“”„«»]([^\"“”„«»\n]{2,600})[\"“”«»]")
_OWN_WORDS: Final = re.compile(
    rf"\b(?:i|i'm|my|we|our|you|your|is|are|was|always|never|{elsewhere.OWN_WORDS})\b", re.IGNORECASE
)
_LOG: Final = re.compile(
    r"^\W{0,3}(?:\d{4}-\d\d-\d\d[T ]\d\d:|\d\d:\d\d:\d\d|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d)"
    r"|^\W{0,3}(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE|FATAL|CRITICAL|NOTICE)\b|^Traceback|^\s+at \S|^\s*File \""
    r"|^\S+(?:Error|Exception): "
)
_CODE_START: Final = re.compile(
    r"^\s*(?:[{}<>\[\]#/*@$|+=~^\\%>]|--\s|(?:import|from|def|class|return|const|let|var|function|public"
    r"|private|SELECT|INSERT"
    r"|UPDATE|CREATE|sudo|npm|pip|git|docker|kubectl)\s\S+(?:\s*[=({;]|\s(?:import|from|FROM)\b)"
    r"|\w+\s*=\s|\w+\(.*\)\s*$)"
)
# A call: its bracket stands at a word, or was opened on another line. "In Rome (Italy)", "item(s)" and :) are prose.
_CODE_END: Final = re.compile(r"(?:[;{}\\]|=>|\);|\w\((?!s\))[^()]*\)+|^[^(]*[\w\"'\])]\)|</\w+>)\s*$")
_ENDS_CODE: Final = (";", "{", "}", "\\", ">", ")")
_LINE_END: Final = 160
_EMOJI: Final = "[\u2600-\u27bf\U0001f000-\U0001faff][\ufe0f\u200d]*"
# What is said by the way at the end of a clause, and is no part of what was named: "I prefer tea btw", "my dog Rex 😀".
_ASIDE: Final = re.compile(
    rf"(?<=[\w\"')\]%])(?:[ \t]*(?:,[ \t]*)?(?:(?:{_EMOJI})+|…"
    r"|(?<=[, \t])(?:just )?(?:btw|by the way|fyi|lol+|(?:ha){2,}h?|lmao|rofl|xd|tbh|imo|imho|ngl|fwiw"
    r"|for what it's worth|for the record|(?:just )?so you know|in case (?:that|it) (?:matters|helps)"
    r"|if (?:that|it) (?:matters|helps)"
    r"|as you know|you know|of course|honestly|actually|anyway|obviously|sadly|unfortunately|luckily|fortunately"
    r"|please|thanks?|thx|thank you|ok(?:ay)?|yeah|too|as well|tho(?:ugh)?|still|already|etc)\b)){1,4}"
    r"(?=[ \t]*(?P<then>[,;:.!)\n]|\Z|(?-i:[A-Z])))",
    re.IGNORECASE,
)
_SMILE: Final = re.compile(r"(?<!\S)(?:[:;=][-'^]?[()DPp]{1,3}|<3)(?!\S)")
_MARK: Final = re.compile(rf"(?=[\x00-\u1fff])(?:_|[^\w\s,.'!?{SIGNS}-])")  # of code and tables; a vowel sign is none
_ROLE: Final = re.compile(
    r"^\W{0,3}(?:user|assistant|human|ai|bot|chatgpt|gpt|customer|agent|system|interviewer|interviewee|speaker ?\w?|q|a"
    rf"|host|guest|narrator|client|patient|student|teacher|{elsewhere.ROLES})\s*\d?\s*:",
    re.IGNORECASE,
)
# "Mia (Acme): …", "**Mia:** …", "[10:32] Mia Chen: …"
_CELL: Final = re.compile(r"[^\W\d],[^\W\d]")  # of a file with values parted by commas: two in a line
_LABEL: Final = re.compile(r"^\W{0,3}(?:\d\d?:\d\d[\]) -]{0,3})?[A-Z][\w.' -]{0,30}(?: ?\([^()\n]{1,30}\))?:\**\s")
# As chats are exported and copied: "12.11.26, 14:03 - Mia: …", and "Mia Chen  10:32 AM" above what she wrote, often.
_CHAT: Final = re.compile(r"^\W{0,2}\d{1,4}[./-]\d{1,2}[./-]\d{2,4},? +\d{1,2}:\d\d.{0,12}[-–\]] [^\n:]{1,40}:")
_CHAT_HEAD: Final = re.compile(
    r"^[A-Z][\w.'-]{1,30}(?: [A-Z][\w.'-]{0,30}){0,2}(?: [—–-])? *[ \[(](?:[Tt]oday at |[Yy]esterday at )?\d{1,2}:\d\d"
    r"(?: ?[AaPp][Mm])?[\])]?\s*$",
    re.MULTILINE,
)
# What another says, within a line: "Next ticket. Customer: I moved to York."
_ANOTHER: Final = re.compile(
    r"(?:^|(?<=[.!?,:;] ))(?:the )?(?:customer|client|caller|patient|pt|mother|mom|mum|father|dad|wife|husband|tenant"
    r"|landlord|guest|applicant|candidate|student|teacher|interviewer|boss|manager|agent|doctor|nurse|kund(?:e|in)|patient(?:e|in)|cliente)"
    r"(?: ?#?\d+)?: (?=\S)[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
_BULLET: Final = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)]|[a-z]\))\s+")
_MAIL: Final = re.compile(
    rf"^(?:[^\n:.!?]{{0,40}}:)?\s*(?:dear\s+\w|subject\s*:|from\s*:|to whom it may|{elsewhere.MAIL})", re.IGNORECASE
)
# A greeting that is a line: below other words, or above somebody's "Best regards", a mail begins with it.
_HELLO: Final = re.compile(
    r"^\s*(?:hi|hello|hey|good (?:morning|afternoon|evening)|hallo|guten (?:morgen|tag|abend)|moin|bonjour|bonsoir|hola"
    r"|buen[oa]s (?:d[ií]as|tardes)|ciao|buongiorno)(?: [\w.'-]+){0,3} *[,!]\s*$",
    re.IGNORECASE,
)
_REGARDS: Final = re.compile(
    r"^[ \t]*(?:(?:best|kind|warm|many)(?: regards| wishes)?|regards|sincerely|yours (?:sincerely|faithfully|truly)"
    r"|(?:mit )?(?:freundliche|beste|viele|liebe|herzliche)n? gr(?:ü|ue)(?:ß|ss)en?|cordialement|bien à vous"
    r"|(?:un )?(?:cordial )?saludos?|atentamente)(?: cordiales)? *[,!.]?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
# "Here's how I'll handle it:": what follows is their own.
_DRAFT: Final = re.compile(
    r"\b(?:i'll|i'd|i'm going to|i (?:will|would|want|plan|wrote|drafted|sent|replied|answered)"
    r"|my (?:own )?(?:reply|answer|response|draft))\b[^\n.!?:]{0,60}:[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE_ENDS: Final = ".!?。！？"
_LAST_CHARS: Final = 200  # with the marks and the space behind it
_LAST_WORDS_CHARS: Final = 160
# A last sentence that asks for work on what stands above: "…\n\nTranslate this to German."
_ABOVE: Final = re.compile(
    r"\W*(?:(?:please|now|then|and|can you|could you|would you|bitte|kannst du|peux-tu|por favor|puedes)[, ]+){0,3}"
    r"(?:(?:translate|rewrite|rephrase|reword|paraphrase|proof-?read)\b(?! (?:me|my)\b)"
    r"|continue (?:in the same|(?:the|this|my) (?:story|tale|scene|chapter|text|novel|dialogue))\b"
    r"|(?:correct|improve|polish|shorten|summari[sz]e) (?:this|that|it|the (?:above|text|sentences?))\b"
    r"|(?:correct|improve|fix|check) (?:the|my) (?:grammar|spelling|english|text|sentences?)\b"
    rf"|{elsewhere.ABOVE})[^:：\"“„«「]{{0,100}}\Z"
    rf"|.*(?:{elsewhere.ABOVE_UNSPACED})[^:：\"“„«「]{{0,40}}\Z",
    re.IGNORECASE | re.DOTALL,
)
_WRITE: Final = worded(
    r"\b(?:write|create|generate|draft|compose|make|produce|give me|come up with|craft"
    r"|prepare)\b[^.!?\n]{0,60}\b(?:story"
    r"|stories|poem|song|script|essay|e-?mail|letter|blog|article|speech|dialogue|bio|biography|post|review|tweet|scene"
    r"|message|proposal|statement|paragraph|lyrics|rap|screenplay|monologue|caption|ad|sop|linkedin|summary|toast|vows"
    r"|description|profile|report|abstract|note|response|reply|text|joke|chapter|novel|conversation|memo)\b",
    "write|create|generate|draft|compose|make|produce|give me|come up with|craft|prepare",
)
_END: Final = re.compile(r"[.!?…。！？؟]+(?=[\"')\]*_”’\s]|$)|\n+|[。！？]")
# Its mark of a question, wide or Arabic too, and whatever marks stand beside it: "I live in Rome?!"
_ASKED: Final = re.compile(r"[?？؟][^\w\s]*$")
_ABBREVIATED: Final = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\.g|i\.e|approx|no|inc|ltd|a\.m|p\.m|bzw|ca|nr|usw|mme)|\b[A-Z])$",
    re.I,
)
# "bis zum 31. März"
_GERMAN_DAY: Final = re.compile(
    r"(?<=\d)\. (?:januar|jänner|februar|feber|märz|april|mai|juni|juli|august|september|oktober|november|dezember)\b",
    re.I,
)
_ASKING: Final = (
    r"(?:(?:can|could|would|will) (?:you|u|i|we)|do (?:you|i|we)|did (?:you|i|we)|should (?:i|we)|(?:is"
    r"|was|are|were|am) (?:it|that|this"
    r"|there|i|we|you|they|my|our|the)|how(?:'s| (?:can|do|does|should|would|will|could|might|much|many"
    r"|long|to|about|often|is|are))"
    r"|what(?:'s|'re| (?:is|are|do|does|should|would|can|could|if|about|kind|other|some|specific|steps"
    r"|type|was|were|did|will|else))"
    r"|which (?:one|of|is|are|should|would|do)|why (?:is|are|do|does|did|not)|where (?:can|do|should|is"
    r"|are|did)|who (?:is|are|should|can)"
    r"|when (?:is|are|should|do|did|will|can) (?:i|we|you|the|my|it)|any (?:tips|advice|ideas|suggestions"
    r"|thoughts|recommendations|chance|luck)"
    r"|have you|has (?:it|he|she|anyone)|help me|tell me|show me|give me|let me know|please|wondering"
    r"|curious|i wonder|i'm not sure|not sure"
    r"|are you|don't you|isn't|aren't|right\?|explain|suggest|thoughts)"
)
_ASKS: Final = re.compile(
    rf"(?:^|[,;:—–.-]\s*|\b(?:so|and|but|or|then|also|hey|ok|okay|well|now)\s+){_ASKING}\b", re.IGNORECASE
)
# Where the question of a sentence that ends as one begins, behind what it states: "I'm allergic to nuts, is pesto ok?"
_WH: Final = r"(?:on |in |at |for |with |to )?(?:which|what|where|when|who|how|why)(?:'s)?"
_ASKS_BEHIND: Final = re.compile(
    rf"(?:[,;:–—] *(?:so |and |but |then )?| (?:so|but) )(?:{_WH}|can|could|should|would|will|do|does|did|is|are|am|any"
    r"|anything)\b(?! means\b)",
    re.IGNORECASE,
)
_ASKING_ELSEWHERE: Final = (
    r"(?:kannst|kann|können|könnte[nst]*|welche[nrms]?|was|wo|wann|wie|wer|warum|wieso|soll|darf|gibt es|hast du"
    r"|haben sie|peux-tu|pouvez-vous|puis-je|est-ce que|quel(?:le)?s?|où|quand|comment|pourquoi|y a-t-il|puedes|puede"
    r"|puedo|qué|cuál(?:es)?|dónde|cuándo|cómo|pode|posso|qual|quais|onde|puoi|può|quale|quali|dove|come posso|che cosa"
    r"|cosa|kun je|kunt u|kan ik|welke?|wat|waar|wanneer|hoe|zijn er)\b"
)
# "Vivo en Lima, ¿no?" asks all of it.
_OPENED: Final = re.compile(r"¿(?P<tag>(?:no|verdad|cierto|sí)\W*\Z)?", re.IGNORECASE)
_ASKS_ELSEWHERE: Final = re.compile(
    rf"[,;:–—] *(?:(?:und|aber|et|mais|y|pero|e|mas|ma|en|maar|also) )?{_ASKING_ELSEWHERE}", re.IGNORECASE
)
_ASKS_FIRST_ELSEWHERE: Final = re.compile(
    r"\W*(?:(?:und|aber|et|mais|y|pero|e|mas|ma|en|maar|also|hallo|hola|bonjour|ciao|oi)[, ]+){0,2}"
    rf"{_ASKING_ELSEWHERE}",
    re.IGNORECASE,
)
# "I live in Rome, is that so?": what stands before it is what is asked.
_TAG: Final = re.compile(
    r"\W*(?:(?:so|and|but) )?(?:is|are|am|was|do|does|did|have|has|can|will)(?:n't)?"
    r" (?:it|that|this|i|we|they|he|she|not)(?: (?:so|true|right|correct|not))?\W*\Z",
    re.IGNORECASE,
)
_ASKS_FIRST: Final = re.compile(
    rf"\W*(?:(?:so|and|but|ok(?:ay)?|hey|hi|well|also|then|now)[, ]+){{0,2}}(?:{_WH}|whose|can|could|should|would|will"
    r"|shall|may|do|does|did|is|are|am|was|were|has|have|had|any|or|\w+n't)(?:'re)?\b|.*\b(?:you|they (?:say|said))\b",
    re.IGNORECASE | re.DOTALL,
)
_STATES_AGAIN: Final = re.compile(
    r"\b(?:since|because|considering(?: that)?|given(?: that)?|now that|especially since|seeing as|knowing that|though"
    r"|but|as) (?=(?:i|i've|i'm|we|we've|we're|my|our)\b)|, (?=(?:i|we) (?:prefer|already|recently|just"
    r"|always)\b)",
    re.IGNORECASE,
)
_REQUEST: Final = re.compile(
    r"\W*(?:(?:please|ok|okay|now|then|so|and|hey|hi|also|can you|could you|would you|i (?:want"
    r"|need) you to|i'd like you to)[, ]+){0,3}"
    r"(?:write|create|generate|make|give|explain|tell|show|list|translate|summari[sz]e|rewrite|describe"
    r"|provide|draft|compose"
    r"|find|fix|convert|design|build|develop|add|change|implement|compare|calculate|suggest|recommend"
    r"|consider|imagine|let's"
    r"|continue|generate|define|discuss|outline|identify|prove|solve|simulate|act|pretend)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """The range [start, end) of a sentence; `asks` is the range within it that asks or requests (empty: nothing)."""

    start: int
    end: int
    asks: tuple[int, int]
    bullet: bool

    def states(self, at: int) -> bool:
        """Whether what stands at an offset is stated, not asked or requested."""
        return not self.asks[0] <= at < self.asks[1]


def both_ends(text: str) -> tuple[str, int]:
    """A long text's first and last CHARS_KEPT characters as two paragraphs, and how far offsets behind the first are
    off; else the text itself and 0.
    """
    if len(text) <= CHARS_MAX:
        return text, 0
    return f"{text[:CHARS_KEPT]}\n{text[-CHARS_KEPT:]}", len(text) - 2 * CHARS_KEPT - 1


def covered(text: str) -> str:
    """The text, as long as it was, with everything but its speaker's own prose covered and apostrophes made plain."""
    said = text if text.isascii() else _NARROW.sub(" ", _COVERS.sub(" ", text).replace("’", "'"))
    said = said.replace("\r", "\n")
    said = FENCED.sub(_blank, said)
    for start, end in brought_in(said):
        said = said[:start] + "\n" * (end - start) + said[end:]
    said = _QUOTED.sub(_quote, _LONG_TOKEN.sub(_cover, _URL.sub(_cover, said)))
    said = _lines(_ANOTHER.sub(_blank, said))
    if _ABOVE.match(_last_sentence(said)):
        return "\n" * len(said)
    material = min(first_at(MATERIAL, said), elsewhere.material_at(said))
    for start, end in (*introduced(said), (material, len(said))):
        said = said[:start] + "\n" * (end - start) + said[end:]
    asked = min(first_at((_WRITE,), said), elsewhere.writing_at(said))
    line = said.find("\n", asked)
    end = len(said) if line < 0 or len(said.strip()) > 1_500 else line
    return _ASIDE.sub(_aside, said[:asked] + "\n" * (end - asked) + said[end:])


def _last_sentence(said: str) -> str:
    """The last sentence of a text with what ends it, or as much of that as stands in its last _LAST_CHARS."""
    tail = said[-_LAST_CHARS:]
    end = len(tail)
    while end and (tail[end - 1] in _SENTENCE_ENDS or tail[end - 1].isspace()):
        end -= 1
    start = max(tail.rfind(mark, 0, end) for mark in f"{_SENTENCE_ENDS}\n") + 1
    return tail[max(start, end - _LAST_WORDS_CHARS) :] if end else ""


def sentences(said: str) -> list[Sentence]:
    """The sentences of a covered text, in order."""
    found, start = [], 0
    for end in _ends(said):
        first = start + len(said[start:end]) - len(said[start:end].lstrip(" \n\t" + COVER))
        start, last = end, first + len(said[first:end].rstrip())
        if last > first:
            found.append(_sentence(said, first, min(last, first + SENTENCE_MAX)))
    return found


def _ends(said: str) -> list[int]:
    ends = []
    for found in _END.finditer(said):
        if found[0] == "." and (
            _ABBREVIATED.search(said[max(0, found.start() - 8) : found.start()])
            or _GERMAN_DAY.match(said, found.start())
        ):
            continue
        ends.append(found.end())
    return [*ends, len(said)]


def _sentence(said: str, start: int, end: int) -> Sentence:
    part = said[start:end]
    bullet = _BULLET.match(part)
    asks = (end, end)
    if _REQUEST.match(part):
        asks = (start, end)
    elif found := _ASKS.search(part):
        asks = (start if _TAG.match(part, found.start()) else start + found.start(), end)
    elif _ASKED.search(part):
        asks = (start + _asks_at(part), end)
    if asks[0] < end and (again := _STATES_AGAIN.search(said, asks[0], end)):
        asks = (asks[0], again.end())
    return Sentence(start, end, asks, bullet is not None)


def _asks_at(part: str) -> int:
    """Where the question of a sentence begins that ends as one: behind what it states, or where all of it begins."""
    if opened := _OPENED.search(part):
        return 0 if opened["tag"] else opened.start()
    behind = _ASKS_BEHIND.search(part)
    if behind is not None:
        return 0 if _ASKS_FIRST.match(part[: behind.start()]) or _TAG.match(part, behind.start()) else behind.start()
    other = _ASKS_ELSEWHERE.search(part)
    return 0 if other is None or _ASKS_FIRST_ELSEWHERE.match(part) else other.start()


def _lines(said: str) -> str:
    kept, mail, labels = [], False, sum(_LABEL.match(line) is not None for line in said.split("\n"))
    below, heads = _REGARDS.search(said) is not None, len(_CHAT_HEAD.findall(said))
    for line in said.split("\n"):
        if not line:  # of a covered place there are many
            kept.append("")
            continue
        begins = (_MAIL, *((_CHAT_HEAD,) if heads > 1 else ()))
        mail = mail or any(one.match(line) for one in begins)
        mail = mail or (below and _HELLO.match(line) is not None and _DRAFT.search(said) is None)
        below = below or bool(line.strip())
        pasted = (
            mail
            or _CHAT.match(line) is not None
            or not is_prose(line)
            or (_LABEL.match(line) is not None and labels > 1)
        )
        kept.append("\n" * len(line) if pasted else line)
    return "\n".join(kept)


def is_prose(line: str) -> bool:
    """Whether a line is words, and not of code, a log, a table or a transcript."""
    line = _SMILE.sub("", line)
    if line.count("|") > 1 or line.count("\t") > 1 or len(_CELL.findall(line)) > 1 or line.startswith((">", "    ")):
        return False
    if (
        _LOG.search(line[:200])
        or _ROLE.match(line)
        or _CODE_START.match(line[:200])
        or (line.rstrip().endswith(_ENDS_CODE) and _CODE_END.search(line[-_LINE_END:]))
    ):
        return False
    return len(_MARK.findall(line)) * 8 < max(len(line), 24)


def _blank(found: re.Match[str]) -> str:
    return "\n" * len(found[0])


def _aside(found: re.Match[str]) -> str:
    """A mark that ends what stands before it, and blanks."""
    return f"{',' if found['then'] in (',', ';', ':', ')') else '.'}{' ' * (len(found[0]) - 1)}"


def _cover(found: re.Match[str]) -> str:
    return COVER * len(found[0])


def _quote(found: re.Match[str]) -> str:
    words = found[1].split()
    return COVER * len(found[0]) if len(words) > 6 or (len(words) > 1 and _OWN_WORDS.search(found[1])) else found[0]
