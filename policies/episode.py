"""What became of a conversation: its messages in; outcome with its evidence, task type, and a few of its sentences out.

The outcome goes by the latest sign: what the user says after an answer ("that fixed it", "still broken"), the last
exchange when it failed, the last results of tools when no word of the user came after them. A question, a condition
and the first thing a user says are no sign: they tell of the task, not of its end. Everything is a table of patterns,
in English with the commonest German, French and Spanish forms; what they do not know is `unknown`, never a guess.
Pure; reads at most CHARS_READ_MAX characters of a message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from policies.brought import own_words
from policies.fact_talk import told_in
from policies.sentences import sentence_spans
from policies.summary import Sentence, extract, in_prose, sentences_of
from policies.text import FENCED, SIGNS

Verdict = Literal["success", "failure", "unknown"]
Why = Literal["user_confirmed", "user_thanked", "user_objected", "tool_failed", "exchange_failed", "answer_cut_off"]
TaskType = Literal["question", "coding", "writing", "planning", "analysis", "chat", "other"]

CHARS_READ_MAX: Final = 4_000
CALLS_MAX: Final = 128
_NAME_CHARS: Final = 128


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that was called; `arguments` as text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Said:
    """One message. `status` is that of its exchange: complete, partial, failed; None where there was none."""

    event_id: UUID
    role: str
    text: str
    calls: tuple[Call, ...] = ()
    urls: tuple[str, ...] = ()  # of what was attached
    status: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended, and the message and kind of sign that says so; both None for unknown."""

    verdict: Verdict
    event_id: UUID | None = None
    reason: Why | None = None


def calls_in(tool_calls: Any) -> tuple[Call, ...]:
    """The calls of a message as a client sends them; what has no name is left out. At most CALLS_MAX."""
    found = []
    for call in tool_calls if isinstance(tool_calls, list) else ():
        body = (call.get("function") or call.get("custom")) if isinstance(call, dict) else None
        members = body if isinstance(body, dict) else {}
        name = members.get("name")
        if isinstance(name, str) and name.strip():
            given = members.get("arguments", members.get("input"))
            found.append(Call(name.strip()[:_NAME_CHARS], given if isinstance(given, str) else ""))
    return tuple(found[:CALLS_MAX])


def prose(text: str) -> str:
    """The text without fenced code, at most CHARS_READ_MAX characters of it."""
    return FENCED.sub("\n", text[:CHARS_READ_MAX])


# ---------------------------------------------------------------- outcome

_BAD: Final = re.compile(
    r"""\bstill\ (?:broken|failing|fails|wrong|crash\w*|happen\w*|stuck|hangs?
        |(?:get|see)(?:ting|ing|s)?\b.{0,20}\berror|(?:the\ )?same|(?:does|is|did|can|do)(?:\ not|n['’]?t)\b|not\b)
    |\b(?:does|did|do|is|are|was|wo)(?:\ not|n['’]?t)\ (?:really\ |quite\ |even\ )?
        (?:work\w*|help\w*|fix\w*|solve\w*|compil\w*|right\b|correct\b|what\ i\b)
    |\bnot\ (?:working|fixed|solved|right|correct|helpful|what\ i\ (?:asked|wanted|meant|needed))
    |\b(?:that|this|it)(?:['’]s|\ is|\ was)\ (?:still\ |all\ |just\ |completely\ )?(?:wrong|incorrect|false|broken)\b
    |\byou(?:['’]re|\ are|\ were)\ wrong\b|\byou\ (?:misunderst\w+|got\ (?:it|that|this)\ wrong|made\ a\ mistake)
    |\bsame\ (?:error|exception|crash|problem|issue)\b|\banother\ error\b|\bwrong\ answer\b|\bmade\ it\ worse\b
    |\bno\ luck\b|\bno\ longer\ (?:works?|compiles?|runs?)\b
    |\b(?:(?:funktioniert|klappt|läuft)(?:\ es|\ das)?|geht|stimmt|hilft)\ (?:(?:immer|noch|leider|so|auch|aber|jetzt
        |nun|wieder|gar|überhaupt|einfach|trotzdem)\ ){0,4}nicht\b
    |\bimmer\ noch\ (?:kaputt|falsch|(?:der|die|das)selbe)|\bdas\ (?:ist|war)\ (?:leider\ )?falsch\b
    |\b(?:ne|ça|cela)\ (?:marche|fonctionne)\ (?:(?:toujours|encore|vraiment|même)\ ){0,2}
        (?:pas(?!\ mal\b)|plus(?=\ du\ tout\b|\W*\Z|[,;])|jamais|mal)\b|\bc['’]est\ faux\b
    |\bno\ funciona\b|\bsigue\ (?:sin\ funcionar|fallando)\b|\bes(?:tá)?\ (?:mal|incorrecto)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_GOOD: Final = re.compile(
    r"""\b(?:it|that|this|which|everything|all)?\ ?(?:now\ )?(?:works?|worked|runs|compiles|passes)[ ]
        (?:now|again|perfectly|great|fine|well|like\ a\ charm|as\ expected)\b
    |\b(?:that|this|it|you)(?:['’]s|['’]ve|\ has|\ have|\ is)?\ (?:now\ )?
        (?:fixed|solved|resolved|worked|works|helped|did\ the\ trick|did\ it|nailed\ it)\b
    |\b(?:problem|issue|bug)\ (?:is\ )?(?:now\ )?(?:solved|fixed|resolved|gone)\b
    |\ball\ (?:the\ )?tests\ (?:now\ )?pass\b
    |\b(?:it|that|this|everything)(?:['’]s|\ is)\ (?:now\ )?(?:fixed|solved|resolved|working)\b(?!\ on)
    |\bno\ longer\ (?:broken|fail\w*|crash\w*|happen\w*|an?\ (?:issue|problem))
    |\bexactly\ what\ i\ (?:needed|wanted|meant)\b|\bthat(?:['’]s|\ is|\ was)\ (?:perfect|great|brilliant|excellent)\b
    |\A\W*(?:perfect|excellent|awesome|brilliant|great\ job|well\ done|perfekt|parfait|perfecto)\b
    |\b(?:funktioniert|geht|klappt|läuft)\ (?:jetzt|nun|wieder|super|prima)\b(?!.{0,40}\b(?:nicht|nie|kaum|nur)\b)
    |\b(?:ça|cela)\ (?:marche|fonctionne)\b(?!\ (?:presque|moins|à\ moitié|qu))|\bya\ funciona\b""",
    re.IGNORECASE | re.VERBOSE,
)
_THANKS: Final = re.compile(
    r"\b(?:thanks|thank you|thx|cheers|danke|dankeschön|merci|gracias)\b"
    r"(?!.{0,20}\b(?:in advance|im voraus|d'avance))",
    re.IGNORECASE,
)
_NO_SIGN: Final = re.compile(
    r"""\?\W*\Z|\A\W*(?:if|when|once|until|unless|whenever|make\ sure|check|ensure|suppose|why|how|wenn|falls|si)\b
    |\b(?:should|would|must|needs?\ to|has\ to|so\ that|in\ case|if\ (?:it|that|this)|before|previously|used\ to)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_TOOL_ERROR: Final = re.compile(
    r"""^Traceback\ \(most\ recent\ call\ last\)|^(?:[\w.]{1,80}\.)?\w{0,60}(?:Error|Exception):
    |^(?:error|fatal|panic)\b\s*[:(\[]|\bexit(?:ed)?\ (?:with\ )?(?:code|status)[:=]?\s*[1-9]\d{0,3}\b
    |:\ command\ not\ found\b|:\ No\ such\ file\ or\ directory\b|:\ Permission\ denied\b
    |"(?:is_error|isError)":\s*true|"error":\s*(?:"[^"]|\{|true)|"success":\s*false
    |^(?:=+\ )?(?:FAILED\b|[1-9]\d{0,6}\ failed\b)""",
    re.MULTILINE | re.VERBOSE,
)
_TOOL_HEAD: Final = 400
_TOOL_TAIL: Final = 1_200
_SENTENCES_JUDGED: Final = 24


def outcome_of(said: Sequence[Said]) -> Outcome:
    """How these messages ended, by the latest sign."""
    first_answer = next((i for i, one in enumerate(said) if one.role in ("assistant", "tool")), len(said))
    tools_judged = False
    for place in range(len(said) - 1, -1, -1):
        one = said[place]
        if place == len(said) - 1 and one.status in ("failed", "partial"):
            return Outcome("failure", one.event_id, "exchange_failed" if one.status == "failed" else "answer_cut_off")
        if one.role == "tool" and not tools_judged:
            tools_judged = True
            if tool_failed(one.text):
                return Outcome("failure", one.event_id, "tool_failed")
        if one.role == "user":
            tools_judged = True  # the user went on after older results
            reason = user_sign(one.text) if place > first_answer else None
            if reason is not None:
                return Outcome("failure" if reason == "user_objected" else "success", one.event_id, reason)
    return Outcome("unknown")


def user_sign(text: str) -> Why | None:
    """What a user's words after an answer say of it; an objection outweighs thanks. A tool's output is none of them."""
    plain = prose(own_words(text))
    read = [plain[start:end] for start, end in sentence_spans(plain)[:_SENTENCES_JUDGED] if plain[start] != ">"]
    telling = [sentence for sentence in read if not _NO_SIGN.search(sentence)]
    if any(_BAD.search(sentence) for sentence in telling):
        return "user_objected"
    if any(_GOOD.search(sentence) for sentence in telling):
        return "user_confirmed"
    return "user_thanked" if any(_THANKS.search(sentence) for sentence in telling) else None


def tool_failed(result: str) -> bool:
    """Whether a tool's output begins or ends like a fault; a page that tells of one in its middle does not."""
    return any(_TOOL_ERROR.search(part) for part in (result[:_TOOL_HEAD], result[-_TOOL_TAIL:]))


# ---------------------------------------------------------------- task type

_CODING: Final = re.compile(
    r"""```|^[ \t]*(?:def\ \w+\(|class\ \w+[:({]|from\ [\w.]+\ import|function\ \w*\(|const\ \w+\ ?=|Traceback\ \()
    |\b\w{1,80}\.(?:py|js|ts|tsx|go|rs|java|cpp|sql|sh)\b|\bc\+\+
    |\b(?:code|coding|bugs?|debug\w*|compil(?:e[sdr]?|ing)|refactor\w*|unit\ tests?|pytest|regex|stack\ ?trace
        |python|javascript|typescript|golang|java|kotlin|bash|docker\w*|kubernetes|git|api|endpoint|sql|postgres
        |css|html|repository|pull\ request|segfault|async|linter|mypy|algorithm)\b""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_RULES: Final[tuple[tuple[TaskType, re.Pattern[str]], ...]] = (
    ("coding", _CODING),
    (
        "writing",
        re.compile(
            r"\b(?:write|draft|rewrite|rephrase|proof-?read|translate|paraphrase|shorten|schreib\w*|übersetz\w*)\b"
            r"|\b(?:essay|poem|story|cover letter|blog ?post|newsletter|speech|haiku|lyrics)\b|\bsummari[sz]e\b",
            re.IGNORECASE,
        ),
    ),
    (
        "planning",
        re.compile(
            r"\b(?:plan|planning|schedule|itinerary|agenda|roadmap|timeline|milestones?|to-?do list|checklist"
            r"|organi[sz]e|prepare for|meal plan|budget|reise\w*plan\w*|planen)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "analysis",
        re.compile(
            r"\b(?:analy[sz]\w*|analysis|compar\w+|evaluat\w+|assess\w*|pros and cons|trade-?offs?|trends?|correlat\w+"
            r"|statistic\w*|data ?set|csv|forecast|root cause|vergleich\w*|auswert\w*)\b",
            re.IGNORECASE,
        ),
    ),
)
_ASKING: Final = re.compile(
    r"\?|\A\W*(?:who|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|tell me|explain"
    r"|wer|wann|wo|warum|wie)\b",
    re.IGNORECASE,
)
_CODING_TOOL: Final = re.compile(
    r"bash|shell|exec|edit|patch|write_?file|read_?file|grep|glob|git|python|run_|terminal|notebook", re.IGNORECASE
)
_SMALL_TALK_WORDS: Final = 3
_TASK_SHARE: Final = 1 / 4
"""Of the user's messages, how many must speak of a task for it to be one: most of a task's messages are about its
details. A guess, to be measured with labelled sessions."""


def task_of(said: Sequence[Said]) -> TaskType:
    """What most of the user's messages were after; tools that only coding needs decide for it."""
    votes = Counter(_vote(one.text) for one in said if one.role == "user")
    users = sum(votes.values())
    if any(_CODING_TOOL.search(call.name) for one in said for call in one.calls):
        return "coding"
    tasks = [(votes[kind], -place, kind) for place, (kind, _) in enumerate(_RULES) if votes[kind]]
    if tasks and max(tasks)[0] >= users * _TASK_SHARE:
        return max(tasks)[2]
    if not users:
        return "other"
    return "question" if votes["question"] >= votes["chat"] and votes["question"] else "chat"


def _vote(text: str) -> TaskType:
    read = text[:CHARS_READ_MAX]
    for kind, pattern in _RULES:
        if pattern.search(read):
            return kind
    asks = _ASKING.search(read) and len(read.split()) >= _SMALL_TALK_WORDS
    return "question" if asks and not _GREETING.fullmatch(read.strip()) else "chat"


# ---------------------------------------------------------------- summary

_GREETING: Final = re.compile(
    r"\W*(?:hi|hello|hey|good (?:morning|evening|afternoon|night)|hallo|guten (?:morgen|tag|abend)"
    r"|bonjour|hola|ciao|servus|how are (?:you|things)|what['’]s up"
    r"|how['’]s it going|thanks|thank you|danke|merci|gracias|bye|goodbye|ok(?:ay)?|yes|no|sure|please"
    r"|you['’]re welcome)\b"
    r"(?:\W+(?:there|all|again|you|very|much|so|everyone|lot|a|how|are|is|it|going|can|may|i|help|assist|today|with))*\W*",
    re.IGNORECASE,
)
_OFFER: Final = re.compile(
    r"\b(?:how (?:can|may) i (?:help|assist)|let me know if|feel free to|happy to help|you['’]re welcome"
    r"|glad (?:to|i|it))\b",
    re.IGNORECASE,
)
# Where no space parts words, so many characters are one: of kana and Han two, of Thai, Lao, Khmer and Burmese four.
_CONTENT_WORD: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]{2}|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{4,8}"
    rf"|(?:[^\W\d_]|[{SIGNS}]){{3,}}|\d{{2,}}"
)
_WORDS_MIN: Final = 2


def sentences_told(said: Sequence[Said], most: int) -> list[Sentence]:
    """At most `most` sentences of user and assistant, and at most half of all, in their order; `turn` is an index.

    Greetings, offers of help, code, what a program brought into a user's message, what is said in a part that is
    played, pasted or only supposed, and what was said before in the same words are left out. Together they are never
    longer than what they were taken from.
    """
    seen: set[str] = set()
    kept: list[Sentence] = []
    chars = 0
    spoken = told_in([(one.role, own_words(one.text) if one.role == "user" else one.text) for one in said])
    for place, (one, text) in enumerate(zip(said, spoken, strict=True)):
        if one.role not in ("user", "assistant"):
            continue
        chars += len(one.text)
        for sentence in sentences_of(prose(text), one.role, place):
            folded = sentence.text.casefold()
            if folded not in seen and not _GREETING.fullmatch(sentence.text) and not _OFFER.search(sentence.text):
                seen.add(folded)
                kept.append(sentence)
    chosen = extract(in_prose(kept), min(most, (len(kept) + 1) // 2))
    while chosen and len(told(chosen)) > chars:
        chosen.pop()
    return chosen


def told(sentences: Sequence[Sentence]) -> str:
    """The sentences as one text, a line each."""
    return "\n".join(sentence.text for sentence in sentences)


def worth_telling(said: Sequence[Said]) -> bool:
    """Whether something happened: a tool was called, or the user said more than a greeting, a word or a sign."""
    if any(one.calls for one in said):
        return True
    words: set[str] = set()
    for one in said:
        if one.role == "user":
            plain = one.text[:CHARS_READ_MAX]
            for start, end in sentence_spans(plain):
                if not _GREETING.fullmatch(plain[start:end]):
                    words.update(_CONTENT_WORD.findall(plain[start:end].casefold()))
    return len(words) >= _WORDS_MIN
