"""What one message says of the work: a text in; its request, its change of goal, its steps and its questions out.

Each as a piece with its character range. Code and quoted lines are never read. Tables of patterns, in English with the
commonest German, French, Spanish and Chinese forms; what they do not know is not there, never a guess. Pure; every
pattern is linear in what it reads, and callers give at most the two ends of a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from policies.sentences import sentence_spans
from policies.text import SIGNS

STEPS_MAX: Final = 20
STEP_CHARS_MAX: Final = 200
_SENTENCES_MAX: Final = 64
_HIDDEN: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|^[ \t]*>[^\n]*", re.DOTALL | re.MULTILINE)
_WORD: Final = re.compile(rf"[^\W_]+(?:[{SIGNS}]+[^\W_]*)*")
# Letters that say as much as a word, or are one: of Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer.
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_WORDS_MIN: Final = 3
_CJK_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Some characters of a text: `text` is what stands from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a list, its number as it was written (its place where it had none), and whether it is marked done."""

    piece: Piece
    number: int
    done: bool


def sentences_in(text: str, start: int = 0) -> list[Piece]:
    """The sentences of a text without code and quoted lines, at most 32 of each end; it stands at `start`."""
    spans = sentence_spans(_plain(text))
    if len(spans) > _SENTENCES_MAX:  # a paste: what is asked stands before it or behind it
        spans = spans[: _SENTENCES_MAX // 2] + spans[-_SENTENCES_MAX // 2 :]
    return [Piece(start + a, start + b, text[a:b]) for a, b in spans]


def _plain(text: str) -> str:
    """The text with code and quoted lines blanked, every character where it was."""
    return _HIDDEN.sub(lambda match: "\n" * len(match[0]), text)


def says_something(text: str) -> bool:
    """Whether a sentence has words enough to be understood by itself."""
    return len(_WORD.findall(text)) >= _WORDS_MIN or len(_CJK.findall(text)) >= _CJK_MIN


# ---------------------------------------------------------------- request, change of goal

_LEAD: Final = (
    r"[\s\"'“”‘’¡¿*_,.!…-]{0,8}(?:(?:hi|hello|hey|hallo|hola|bonjour|ok(?:ay)?|so|now|well|then|also|and|please|bitte|actually|no|wait"
    r"|today|first)\b(?:\ (?:there|all|team|everyone))?[\s,.!:;-]{0,4}){0,4}"
)
_SURE_VERBS: Final = (
    r"write|rewrite|create|build|implement|develop|explain|translate|summari[sz]e|refactor|generate|analy[sz]e|describe"
    "|calculate|compute|solve|convert|recommend|suggest|compare|optimi[sz]e|install|configure|debug|prove|proofread"
    "|brainstorm|investigate|migrate|deploy|help"
)
_VERBS: Final = (
    r"make|design|fix|add|remove|delete|update|change|review|find|search|list|give|show|tell|plan|organi[sz]e|prepare"
    r"|set\ up|improve|test|check|draw|propose|teach|walk|research|look\ (?:up|into|at)|read|open|run|port|move|rename"
    r"|clean\ up|turn|extract|parse|schedule|book|edit|outline|document|benchmark|upgrade|draft|send|finish|rewrite"
)
_AFTER: Final = (
    r"(?:an?|the|my|our|this|that|these|those|me|us|all|every|some|two|three|\d+|how|why|what|which|for|to|up|out|from)"
)
_REQUEST: Final = re.compile(
    _LEAD
    + rf"""(?:
    (?:can|could|would|will)\ (?:you|we)\ (?!like\b|be\b|have\b|know\b|agree\b|prefer\b|remember\b|recall\b|say\b)\w
    |(?:I|we)(?:['’]d|\ would)\ (?:like|love)\ (?:you\ |your\ help\ |some\ help\ )?(?:to|with)\ \w
    |(?:I|we)\ (?:really\ |just\ |also\ )?(?:want|need|plan|intend|aim)\ (?:you\ )?to\ (?!go\b|leave\b|sleep\b|say\b)\w
    |(?:I['’]m|I\ am|we['’]re|we\ are)\ (?:trying|planning|going|looking)\ to
        \ (?!(?:go|bed|sleep|ask|give|provide|send|paste|tell|show|share)\b)\w
    |(?:I['’]m|I\ am|we['’]re|we\ are)\ working\ on\ \w
    |(?:I|we)\ need\ (?:your\ |some\ )?(?:help|an?\ |the\ )
    |let['’]?s\ (?!see\b|hope\b|say\b)\w|let\ us\ \w
    |(?:my|our|the)\ (?:main\ |overall\ |new\ )?(?:goal|aim|objective|task)\ (?:is|now\ is|here\ is)\ \w
    |how\ (?:do|can|should|would)\ (?:I|we)\ \w
    |(?:{_SURE_VERBS})\ [^\W_]|(?:{_VERBS})\ {_AFTER}\b
    |(?:ich|wir)\ (?:möchte|will|wollen|möchten|muss|müssen|brauche|brauchen|versuche)\b
    |(?:kannst|könntest|können|könnten)\ (?:du|sie|wir)\b|hilf\ mir\b|helfen\ sie\ mir\b|wie\ kann\ ich\b|lass\ uns\b
    |(?:schreib|erstell|bau|übersetz|erklär|fass|prüf|korrigier|vergleich|entwirf)e?
        \ (?:mir|uns|mal|bitte|d[aei][smnr]|ein)
    |je\ (?:veux|voudrais|dois|souhaite)\b|j['’]aimerais\b|(?:peux-tu|pouvez-vous|pourr(?:ais-tu|iez-vous))\b
    |aide[sz]?-moi\b|(?:écri(?:s|vez)|rédige[sz]?|crée[sz]?|tradui(?:s|sez)|explique[sz]?|résume[sz]?|corrige[sz]?)\ \w
    |(?:quiero|necesito|quisiera|me\ gustaría|tengo\ que)\ \w|ayúdame\b|¿?(?:puedes|podrías|cómo\ puedo)\ \w
    |(?:escribe|crea|traduce|explica|resume|corrige|compara)(?:me)?\ \w
    |(?:请|請|帮我|幫我|我想|我要|我需要|能不能|可以帮|麻烦|如何|怎么)\S
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_CHANGE: Final = re.compile(
    _LEAD
    + r"""(?:
    let['’]?s\ (?:now\ )?(?:instead\b|rather\b|switch\b|move\ on\ to\b|focus\ on\b|change\ (?:to|the|our)\b)
    |change\ of\ plans?\b|(?:the\ |my\ |our\ |a\ )?new\ (?:goal|task|objective|topic)\b
    |(?:my|our|the)\ (?:goal|aim|objective|task)\ (?:is\ now|now\ is|has\ changed|changed)\b
    |instead,?\ (?:of\ [^,]{1,80},\ )?(?:I|we|let|please)\b|next\ (?:task|topic)\b
    |(?:switch(?:ing)?|moving\ on)\ to\b
    |neue[srn]?\ (?:aufgabe|ziel|thema)\b|stattdessen\b|lass\ uns\ (?:lieber|stattdessen)\b|planänderung\b
    |nouvel(?:le)?\ (?:tâche|objectif|sujet)\b|changement\ de\ plan\b|à\ la\ place\b
    |nueva\ tarea\b|nuevo\ (?:objetivo|tema)\b|cambio\ de\ planes?\b|en\ lugar\ de\ eso\b
    |换个(?:话题|任务|目标)|新(?:任务|目标)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_DROPS: Final = re.compile(
    _LEAD
    + r"""(?:forget\ (?:about\ )?(?:that|it|this|the)\b|never\ ?mind\b|scrap\ (?:that|it|the)\b|drop\ (?:that|it)\b
    |I(?:['’]ve|\ have)?\ changed\ my\ mind\b|change\ of\ plans?\W*\Z|planänderung\W*\Z
    |vergiss\ (?:das|es)\b(?!.{0,80}\bnicht\b)
    |oublie[sz]?\ (?:ça|cela)\b|olvida(?:te\ de)?\ (?:eso|lo)\b|cambio\ de\ planes?\W*\Z|算了(?!一|下|半|两|几|算))""",
    re.IGNORECASE | re.VERBOSE,
)
_BEHIND_THE_MARK: Final = " \t\n\"'’”»)]*_"
_QUESTION_MARKS: Final = ("?", "？", "؟")


def request_in(said: Sequence[Piece]) -> Piece | None:
    """The first sentence in which somebody asks for something to be done, or says what he is after."""
    return next((one for one in said if _REQUEST.match(one.text) and says_something(one.text)), None)


def change_in(said: Sequence[Piece]) -> Piece | None:
    """The sentence that says that the goal is another now; where one only drops the old, the request behind it."""
    dropped = False
    for one in said:
        if is_question(one.text):
            continue
        if _DROPS.match(one.text):
            dropped = True
        elif (_CHANGE.match(one.text) or (dropped and _REQUEST.match(one.text))) and says_something(one.text):
            return one
    return None


def drops(said: Sequence[Piece]) -> bool:
    """Whether somebody says that what he asked for is not wanted any more."""
    return any(_DROPS.match(one.text) for one in said)


# ---------------------------------------------------------------- questions

_OFFER: Final = re.compile(
    r"""\b(?:would\ you\ like|do\ you\ want|shall\ I|should\ I\ (?:go|continue|proceed)|want\ me\ to|anything\ else
    |does\ (?:that|this)\ (?:help|make\ sense|work|answer)|(?:can|may|could)\ I\ (?:help|assist)|is\ there\ anything
    |let\ me\ know|sound\ good|what\ do\ you\ think|how\ are\ you|isn['’]t\ it|right\?|okay\?
    |soll\ ich|möchtest\ du|möchten\ sie|kann\ ich\ .{0,30}helfen|noch\ etwas|souhaitez-vous|veux-tu|puis-je
    |quieres\ que|te\ gustaría|puedo\ ayudar)|还有什么|需要我""",
    re.IGNORECASE | re.VERBOSE,
)
_NO_ANSWER: Final = re.compile(
    r"""\bI\ (?:really\ |honestly\ )?(?:don['’]?t|do\ not)\ (?:know|have\ (?:any\ |enough\ |that\ |this\ |access))
    |\bI(?:['’]m|\ am)\ (?:not\ (?:sure|certain)|unable\ to|afraid\ I\ (?:don['’]?t|can['’]?t))
    |\bI\ (?:can['’]?t|cannot|could\ not|couldn['’]?t)\ (?:answer|tell|say|determine|find|access|check|verify|know)
    |\b(?:I['’]ll|I\ will|let\ me)\ (?:check|look\ into|find\ out|get\ back|come\ back)
    |\b(?:das\ )?weiß\ ich\ (?:leider\ )?nicht|\bich\ weiß\ (?:es\ |das\ )?nicht|\bje\ ne\ sais\ pas|\bno\ (?:lo\ )?sé\b
    |我不(?:知道|清楚|确定)""",
    re.IGNORECASE | re.VERBOSE,
)
_NO_ANSWER_CHARS: Final = 400
_LAST_SENTENCES: Final = 3
_SHORT_ANSWER_CHARS: Final = 600
_YOU: Final = re.compile(
    r"\b(?:you|your|du|dein\w*|dir|sie|ihr\w*|tu|vous|votre|vos|tú|usted|tus?|quieres|prefieres)\b|[你您]",
    re.IGNORECASE,
)
_ASIDE_WORDS: Final = 12
_POINTS_AT: Final = re.compile(
    r"""\W{0,4}(?:(?:please|now|ok(?:ay)?|can\ you|could\ you|would\ you)[\s,]+){0,3}
    (?:fix|open|read|delete|remove|run|explain|continue|finish|change|update|improve|send|translate|summari[sz]e|check)
    \ (?:it|that|this|them|(?:that|this|the\ (?:above|attached|same|last|previous))
    \ (?:file|one|function|error|bug|page|text|document|script|table))(?:\ (?:please|now|again|for\ me))*\W{0,4}\Z""",
    re.IGNORECASE | re.VERBOSE,
)


def is_question(text: str) -> bool:
    """Whether a sentence ends as a question."""
    return text.rstrip(_BEHIND_THE_MARK).endswith(_QUESTION_MARKS)


def questions_in(said: Sequence[Piece]) -> list[Piece]:
    """Sentences that ask for something; tags ("right?") and offers ("Shall I go on?") do not."""
    return [one for one in said if is_question(one.text) and says_something(one.text) and not _OFFER.search(one.text)]


def questions_back(said: Sequence[Piece], chars: int) -> list[Piece]:
    """Questions at the end of an answer of so many characters that are put to its reader; a tale asks itself many."""
    asked = questions_in(said[-_LAST_SENTENCES:])
    return [one for one in asked if chars <= _SHORT_ANSWER_CHARS or _YOU.search(one.text)]


def states(said: Sequence[Piece]) -> bool:
    """Whether anything is said that is no question."""
    return any(not is_question(one.text) and _WORD.search(one.text) for one in said)


def answers(said: Sequence[Piece]) -> bool:
    """Whether an answer says something: it does not own up to knowing nothing, and is more than a question back."""
    if not said:
        return False
    told = [one.text for one in said if not is_question(one.text)]
    if sum(len(one) for one in told) <= _NO_ANSWER_CHARS and any(_NO_ANSWER.search(one) for one in told):
        return False
    if not questions_in(said):
        return True
    return sum(len(_WORD.findall(one)) + len(_CJK.findall(one)) for one in told) > _ASIDE_WORDS


def points_at_nothing(said: Sequence[Piece]) -> Piece | None:
    """A message that is one short order about "it" or "that file". With nothing before it there is nothing it means."""
    return said[0] if len(said) == 1 and _POINTS_AT.match(said[0].text) else None


def covers(said: Iterable[Piece], question: str) -> bool:
    """Whether at least half of the longer words of a question are in what is said."""
    wanted = {word for word in _WORD.findall(question.casefold()) if len(word) > 3} or set(_CJK.findall(question))
    found: set[str] = set()
    for one in said:
        found.update(_WORD.findall(one.text.casefold()) if wanted else ())
        found.update(_CJK.findall(one.text))
    return bool(wanted) and 2 * len(wanted & found) >= len(wanted)


# ---------------------------------------------------------------- steps

_ITEM: Final = re.compile(
    r"""^(?P<indent>[ \t]{0,12})(?:\#{1,6}[ ])?(?:\*\*)?
    (?:(?P<step>(?:step|schritt|étape|paso)[ ](?P<named>\d{1,2})[:.)\u2013-]*\**)
        |(?P<number>\d{1,2})[.)]|(?P<bullet>[-*•+]))
    [ \t]+(?P<box>\[[ xX✓✔]\][ \t]*)?(?P<text>[^\n]+)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_PLAN: Final = re.compile(
    r"""\b(?:plan(?!\ (?:my|your|our|to)\b)|steps?|road-?map|to-?dos?|milestones|checklist|agenda|phases|stages|tasks
    |how\ (?:we|I)(?:['’]ll|\ will)\ (?:do|proceed|go)|what\ (?:we|I)(?:['’]ll|\ will|\ need\ to)\ do
    |schritte?n?|vorgehen|aufgaben|étapes|pasos|tareas)\b
    |计划|步骤|手順""",
    re.IGNORECASE | re.VERBOSE,
)
_NO_PLAN: Final = re.compile(
    r"\b(?:options?|tips|reasons|examples|benefits|advantages|questions|ways|ideas|factors|ingredients|kinds|types"
    r"|plans|typically|usually|includes?|involves?|broken down|li[fv]e-?cycle)\b",
    re.IGNORECASE,
)
_LEAD_CHARS: Final = 160  # of the line before a list; a longer sentence does not name it
_MARKED: Final = re.compile("✅|☑|✔|~~")
_MARKED_BEHIND: Final = re.compile(
    r"(?:✅|☑|✔️?|[(\[](?:done|completed?|finished|erledigt)[)\]]|[\u2013\u2014-] ?(?:done|erledigt))\W*\Z",
    re.IGNORECASE,
)
_MARK_CHARS: Final = 24
_NUMBERS: Final = r"(?P<{}>\d{{1,2}}(?:\s?(?:-|\u2013|to|through|,|,? and|&|und|bis|et|y)\s?\d{{1,2}}){{0,6}})"
_DONE_WORDS: Final = (
    r"(?:done|completed?|finished|erledigt|fertig|abgeschlossen|terminée?s?|hech[ao]s?|completad[ao]s?)"
)
_DONE: Final = re.compile(
    rf"""\b(?:steps?|schritte?|étapes?|pasos?)\ {_NUMBERS.format("a")}
    \s?(?:(?:is|are|was|were|has\ been|have\ been|ist|sind|est|sont|está|están)\ (?:now\ |all\ |both\ )?{_DONE_WORDS}\b
        |(?:\W{{0,3}}(?:done|✅|✔|☑)))
    |\b(?:done\ with|finished|completed|fertig\ mit)\ (?:with\ )?(?:steps?|schritte?n?)\ {_NUMBERS.format("b")}""",
    re.IGNORECASE | re.VERBOSE,
)
_ALL_DONE: Final = re.compile(
    rf"\ball (?:of )?(?:the )?(?:\w+ )?(?:steps|tasks)\b.{{0,20}}\b{_DONE_WORDS}\b", re.IGNORECASE
)
_NOT_SURE: Final = re.compile(
    r"""\b(?:if|when|once|until|unless|after|before|as\ soon\ as|should|will|would|not|never|to\ be|must|needs?|cannot
    |almost|nearly|half|wenn|falls|sobald|bis|bevor|nicht|fast|beinahe|kaum|ob|pas|quand|si|avant|presque|jamais
    |une\ fois|dès\ que|cuando|aún|antes|casi|nunca|una\ vez)\b|n['’]t\b|[?？]\W*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_STEPPED: Final = re.compile(r"\b(?:steps?|schritte?n?|étapes?|pasos?|tasks)\b", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")
_RANGE: Final = re.compile(r"(?<!\d)(\d{1,9})\s?(?:-|\u2013|to|through|bis)\s?(\d{1,9})(?!\d)", re.IGNORECASE)


def steps_in(text: str, start: int = 0) -> list[Step]:
    """The steps of the longest list of two or more that is called a plan, or written as steps or with boxes to tick."""
    plain = _plain(text)
    runs = _runs(plain, list(_ITEM.finditer(plain)))
    best = max((run for run in runs if _is_plan(plain, run)), key=len, default=[])
    return [_step(match, place, text, start) for place, match in enumerate(best[:STEPS_MAX], 1)]


def _runs(plain: str, items: Sequence[re.Match[str]]) -> list[list[re.Match[str]]]:
    """Items that belong together: numbers that count up, bullets of one depth with nothing unindented between them."""
    runs: list[list[re.Match[str]]] = []
    for item in items:
        last = runs[-1][-1] if runs else None
        if last is not None and _is_below(last, item):
            continue
        if last is not None and _goes_on(plain, runs[-1], item):
            runs[-1].append(item)
        else:
            runs.append([item])
    return [run for run in runs if len(run) > 1]


def _is_below(last: re.Match[str], item: re.Match[str]) -> bool:
    """Whether an item is a point of the one before it and no step of its own."""
    deeper = len(item["indent"]) > len(last["indent"])
    return deeper or (item["bullet"] is not None and last["bullet"] is None and not item["box"])


def _goes_on(plain: str, run: Sequence[re.Match[str]], item: re.Match[str]) -> bool:
    last = run[-1]
    if len(item["indent"]) != len(run[0]["indent"]) or _sort(item) != _sort(last):
        return False
    number, before = _number(item), _number(last)
    if number is not None and (before is None or number != before + 1):
        return False
    between = plain[last.end() : item.start()].split("\n")
    return item["step"] is not None or all(
        not line.strip() or line[0] in " \t" or _ITEM.match(line) is not None for line in between
    )


def _sort(item: re.Match[str]) -> str:
    return "step" if item["step"] else "number" if item["number"] else "bullet"


def _number(item: re.Match[str]) -> int | None:
    written = item["named"] or item["number"]
    return int(written) if written else None


def _is_plan(plain: str, run: Sequence[re.Match[str]]) -> bool:
    first = run[0]
    if _number(first) not in (None, 1):
        return False
    if first["step"] or all(item["box"] for item in run):
        return True
    before = plain[max(0, first.start() - _LEAD_CHARS) : first.start()].rstrip()
    lead = before.rpartition("\n")[2].rpartition(". ")[2]
    called = lead.endswith((":", "：", "*")) or lead.startswith("#")
    return called and _PLAN.search(lead) is not None and _NO_PLAN.search(lead) is None


def _step(match: re.Match[str], place: int, text: str, start: int) -> Step:
    a = match.start("text")
    raw = text[a : match.end("text")].rstrip()
    done = (
        _MARKED.match(raw) is not None
        or _MARKED_BEHIND.search(raw[-_MARK_CHARS:]) is not None
        or (match["box"] or "[ ]")[1] != " "
    )
    b = a + min(len(raw), STEP_CHARS_MAX)
    return Step(Piece(start + a, start + b, text[a:b]), _number(match) or place, done)


def steps_done(said: Sequence[Piece]) -> frozenset[int] | None:
    """The numbers of steps that are reported done; None for all of them. Wishes and doubts report nothing."""
    found: set[int] = set()
    for one in said:
        if not _STEPPED.search(one.text) or _NOT_SURE.search(one.text):
            continue
        if _ALL_DONE.search(one.text):
            return None
        for match in _DONE.finditer(one.text):
            found |= _numbers(match["a"] or match["b"])
    return frozenset(found)


def _numbers(written: str) -> set[int]:
    spans = [(int(a), int(b)) for a, b in _RANGE.findall(written)]
    within = {number for a, b in spans for number in range(a, min(b, a + STEPS_MAX) + 1)}
    return within | {int(number) for number in _NUMBER.findall(written)}
