"""What a turn states by what was said before it: a conversation so far and its next turn in, facts out.

"Sorry, Tuesday." puts a value of the speaker's last turn right, "just kidding" takes that back, "Berlin." answers what
the assistant has just asked. And what was agreed on before makes words no statement: a part that is played until
somebody ends it, a text announced one turn before, what is only supposed and goes on being so. Facts are those of
`policies/extraction.py`, of the sentence that the turn makes with what it refers to; each rests on a range of the turn
itself. What could mean two things means nothing. The assistant's words are never evidence: an assent ("yes, exactly")
states nothing. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from policies import fact_talk_words as words
from policies.brought import own_words
from policies.extraction import facts_in
from policies.fact import Fact
from policies.fact_mended import Mended
from policies.fact_patterns_prose import covered, sentences
from policies.fact_patterns_time import values_in
from policies.fact_patterns_time_elsewhere import DAYS_AND_MONTHS
from policies.fact_patterns_words import CAPITALS, KIN_MANY, KIN_ONE, UNCASED
from policies.sentences import sentence_spans

CHARS_MAX: Final = 2_000
"""A longer turn is read by itself: what puts something right, answers or opens a play is short."""
_ASKED_CHARS: Final = 400
_ANNOUNCED_TURNS: Final = 2  # so many of the next turns may be what was announced
_PASTED_CHARS_MIN: Final = 60
_SENTENCES_READ: Final = 3
_ANSWER_WORDS_MAX: Final = 8
_SPEAKERS_MAX: Final = 8
_ALIKE_CHARS: Final = 3
_ALIKE_LONGER_MAX: Final = 3
_SILENT: Final = re.compile(r"(?<=(.))\1|h")  # the second of two letters, and what is not heard
_WORD_CHARS: Final = 30  # a shorter turn ("thanks a lot!") leaves what was said before it the last that was said
_SAME_END_CHARS: Final = 40
_RIGHT_CHARS_MAX: Final = 200
_CONFIDENCE: Final = 0.7
_KIN: Final = re.compile(
    rf"\b(?:my|our) (?:(?:older|younger|little|big) )?(?:{KIN_ONE}|{KIN_MANY})(?![\w-])", re.IGNORECASE
)
_NAMED: Final = re.compile(rf"[{CAPITALS}{UNCASED}][\w'’.-]*(?: [{CAPITALS}][\w'’.-]*){{0,3}}")
_NAMED_WITHIN: Final = re.compile(rf"(?<![.!?…\n] )\b(?!I\b)[{CAPITALS}][^\W\d_]+")
_NAMES: Final = re.compile(
    r"(?:\w+_)?(?:name|lives_in|works_at)|comes_from|grew_up_in|born_in|hometown|school|uses|boss|doctor|dentist|bank|gym"
)
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_FIGURES: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Meant:
    """An earlier text as it was meant, where it says so, and the range of the turn that does."""

    text: str
    place: tuple[int, int]
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Last:
    """What a speaker said last, the messages whose words it is made of, and where in it something was put right."""

    name: str | None
    text: str = ""
    sources: tuple[UUID, ...] = ()
    put_right: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class _Heard:
    """A speaker's message, `own` their words in it, and what it may mean something by: what the assistant had asked,
    and what the speaker had said before. What it says is read where a later turn means it, which few do. Mutable:
    `read` is what was read.
    """

    name: str | None
    own: str
    sources: tuple[UUID, ...]
    asked: str
    before: _Heard | None
    read: Last | None = None

    def last(self) -> Last:
        """What was said, as it was meant."""
        unread: list[_Heard] = []
        one: _Heard | None = self
        while one is not None and one.read is None:
            unread.append(one)
            one = one.before if one._leans() else None
        read = one.read if one is not None and one.read is not None else Last(self.name)
        for heard in reversed(unread):
            read = heard.read = heard._after(read)
        return read

    def _leans(self) -> bool:
        """Whether it may mean what stands before it."""
        return len(self.own) <= _WORD_CHARS or bool(_rights_in(self.own))

    def _after(self, before: Last) -> Last:
        meant = _meant_by(self.own, before, self.asked, _ANY_TIME)
        if meant is not None:
            return Last(self.name, meant.text, (*before.sources, *self.sources), meant.place)
        if (answer := _answer_in(self.asked, self.own)) is not None:
            return Last(self.name, answer.sentence, self.sources)
        if before.text and len(self.own) <= _WORD_CHARS and not facts_in(self.own, said_at=_ANY_TIME):
            return before
        return Last(self.name, self.own, self.sources)


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact of a turn, and the earlier messages whose words it has too."""

    fact: Fact
    beside: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Talk:
    """What was said so far, as far as the next turn may mean something by it.

    `plays`: parts are being played. `announced`: so many of the next turns may be a text that somebody else wrote.
    `supposed`: what was said last of the speaker is not so; 2: a case was put. `asked`: the assistant's last words,
    where nobody has spoken since. `said`: what each speaker said last.
    """

    plays: bool = False
    announced: int = 0
    supposed: int = 0
    asked: str = ""
    said: tuple[_Heard, ...] = ()

    def after(self, role: str, text: str, name: str | None = None, event_id: UUID | None = None) -> Talk:
        """With one message more. A tool's output changes nothing."""
        if role == "assistant":
            asks = words.ASKS_FOR_TEXT.search(text[-_ASKED_CHARS:]) is not None
            return replace(self, asked=text[-CHARS_MAX:], announced=max(self.announced, int(asks)))
        if role != "user":
            return self
        own = own_words(text) if len(text) <= CHARS_MAX else ""
        opened = _opens_play(own)
        start, end = self._own(text, opened if own == text else _opens_play(text))
        heard = _Heard(name, own, (event_id,) if event_id else (), self.asked, self._heard(name))
        if start >= end:
            heard.read = Last(name)
        others = tuple(one for one in self.said if one.name != name)[-_SPEAKERS_MAX:]
        return Talk(
            plays=opened is not None or (self.plays and words.ENDS_PLAY.search(own) is None),
            announced=self._announced_after(own, text),
            supposed=self._supposes_after(own),
            said=(*others, heard),
        )

    def told(self, role: str, text: str) -> str:
        """What the next message tells of what happened: nothing of a part, nothing pasted or only supposed."""
        if role != "user":
            return "" if self.plays and role == "assistant" else text
        start, end = self._own(text, _opens_play(text))
        return text if start == 0 < end and not self.plays else text[start:end].lstrip(" ,.;:!)")

    def stated(self, text: str, *, said_at: datetime, speaker: str | None = None) -> Iterator[Stated]:
        """What `speaker` states in the next turn: what it says by itself, then what it says of what was said."""
        start, end = self._own(text, _opens_play(text))
        if start >= end:
            return
        own = "\n" * start + text[start:end] + "\n" * (len(text) - end)
        meant = self._put_right_within(own, speaker, said_at)
        found = meant.facts(said_at, speaker) if meant else facts_in(own, said_at=said_at, speaker=speaker)
        yield from (Stated(one) for one in found)
        if len(text) > CHARS_MAX or self.plays:
            return
        known = {_key(one) for one in found}
        answered = map(Stated, _answers(self.asked, own, speaker, said_at))
        for one in (*self._by_earlier(own, speaker, said_at), *answered):
            if _key(one.fact) not in known:
                known.add(_key(one.fact))
                yield one

    def _own(self, text: str, opened: re.Match[str] | None) -> tuple[int, int]:
        """The range of the next turn that its speaker says of themselves; `opened`: where it opens a play."""
        if len(text) > CHARS_MAX:
            return (0, 0) if self.announced or self.plays else (0, len(text))
        if self.plays:
            aside = words.ASIDE.search(text)
            return (_end_of_play(text) or (aside.start() if aside else len(text))), len(text)
        if self.announced and _is_pasted(text):
            return 0, 0
        end = opened.start() if opened else len(text)
        if self.supposed > 1 or (self.supposed and words.GOES_ON.match(text)):
            real = words.REALLY.search(text)
            return (real.start() if real else end), end
        return 0, end

    def _announced_after(self, own: str, text: str) -> int:
        if _has_any(own, words.OF_ANNOUNCING) and words.ANNOUNCES.search(own) and "\n\n" not in own.strip():
            return _ANNOUNCED_TURNS
        return 0 if self.announced and _is_pasted(text) else max(0, self.announced - 1)

    def _supposes_after(self, own: str) -> int:
        if supposes := words.SUPPOSES.search(own):
            return 2 if supposes["case"] else 1
        goes_on = self.supposed > 1 or (self.supposed and words.GOES_ON.match(own))
        return int(bool(goes_on) and words.REALLY.search(own) is None)

    def _heard(self, name: str | None) -> _Heard | None:
        return next((one for one in self.said if one.name == name), None)

    def _by_earlier(self, text: str, speaker: str | None, said_at: datetime) -> Iterator[Stated]:
        """What the turn says of the speaker's last one."""
        heard, back = self._heard(speaker), next(_takes_back(text), None)
        if heard is None or (back is None and not _rights_in(text)):
            return
        before = heard.last()
        meant = _meant_by(text, before, self.asked, said_at)
        if not before.text or (meant is None and back is None):
            return
        stated = [one for one in facts_in(before.text, said_at=said_at, speaker=speaker) if one.subject != "it"]
        found: list[Fact] = []
        if meant is not None:
            found += _instead(stated, facts_in(meant.text, said_at=said_at, speaker=speaker), meant.span)
        if back is not None and not (back["that"] and _asks(before.text)):
            found += _taken_back(stated, before.text, back)
        yield from (Stated(one, before.sources) for one in found)

    def _put_right_within(self, own: str, name: str | None, said_at: datetime) -> Mended | None:
        """The turn with what a sentence of it puts right in the one before: "It is on Monday. No, Friday"."""
        if len(own) > CHARS_MAX:
            return None
        spans = [one for one in sentence_spans(own)[1:] if _may_correct(own, *one)]
        for start, end in spans[:_SENTENCES_READ]:
            # Nobody else has spoken in between: what is wrong is what was said just now.
            meant = _meant_by(own[start:end], Last(name, own[:start]), own[:start], said_at)
            if meant is not None:
                right = (start + meant.span[0], start + meant.span[1])
                mended = meant.text + "\n" * (end - start) + own[end:]
                return Mended(mended, meant.place, right, len(mended) - len(own))
        return None


def _rights_in(text: str) -> list[tuple[int, _Right]]:
    """What the first sentences of a turn say is right, each with the place of its sentence."""
    spans = sentence_spans(text)[:_SENTENCES_READ]
    found = ((start, _right_in(text[start:end])) for start, end in spans if _may_correct(text, start, end))
    return [(start, right) for start, right in found if right is not None]


def _meant_by(text: str, last: Last, asked: str, said_at: datetime) -> _Meant | None:
    """The speaker's last turn with what this one puts right in it, at most once."""
    before = last.text
    if not before or len(before) > CHARS_MAX or not (rights := _rights_in(text)):
        return None
    stated = [one for one in facts_in(before, said_at=said_at) if one.subject != "it"]
    for start, right in rights:
        place = _place_of(right, stated, last, asked)
        if place is not None:
            span = (start + right.span[0], start + right.span[1])
            now = (place[0], place[0] + len(right.words))
            return _Meant(before[: place[0]] + right.words + before[place[1] :], now, span)
    return None


def _has_any(text: str, some: Sequence[str]) -> bool:
    """Whether a text has one of these words: without it a long pattern is not tried."""
    folded = text.casefold()
    return any(map(folded.__contains__, some))


def _opens_play(text: str) -> re.Match[str] | None:
    return words.PLAYS.search(text) if _has_any(text, words.OF_PLAYING) else None


def _may_correct(text: str, start: int, end: int) -> bool:
    """Whether a sentence is short and opens as one that puts something right, or denies something."""
    if end - start > _RIGHT_CHARS_MAX:
        return False
    return words.MAY_CORRECT.match(text, start, end) is not None or _has_any(text[start:end], words.OF_DENYING)


def _end_of_play(text: str) -> int:
    """Where a text has said that the play ends, in however many words; 0 where it does not."""
    reached = 0
    while found := words.ENDS_PLAY.search(text, reached, reached + _SAME_END_CHARS if reached else len(text)):
        reached = found.end()
    return reached


def told_in(said: Sequence[tuple[str, str]]) -> list[str]:
    """Of each of these messages, role and text, the words that tell what happened."""
    talk, told = Talk(), []
    for role, text in said:
        told.append(talk.told(role, text))
        talk = talk.after(role, text)
    return told


@dataclass(frozen=True, slots=True)
class _Right:
    """What a sentence says is right. `sure`: it says that something was wrong; `wrong`: and what. `spelt`: it only says
    how something is written. `of`: the thing that has this value.
    """

    words: str
    span: tuple[int, int]
    kind: str
    sure: bool
    wrong: str = ""
    at: str = ""
    of: str = ""
    spelt: bool = False


_STRONG: Final = re.compile(rf"\b{words.STRONG}(?!\w)", re.IGNORECASE)


def _right_in(sentence: str) -> _Right | None:
    """What a sentence puts in the place of something, where it does nothing else."""
    if far := words.CORRECTS_CJK.fullmatch(sentence):
        group = "zh" if far["zh"] else "ja"
        return _Right(far[group], far.span(group), "name", sure=True)
    found = words.CORRECTS.fullmatch(sentence)
    if found is None:
        return None
    right, openers, link = found["right"].strip(), found["openers"], found["link"]
    wrong = found["wrong"] or found["wrong2"] or ""
    kind = _kind_of(right)
    of = found["of"] or ""
    sure = _STRONG.search(openers) is not None or bool(wrong)
    if not kind or not (openers or wrong or link) or (of and not sure):
        return None
    start = found.start("right")
    return _Right(right, (start, start + len(right)), kind, sure, wrong, found["at"] or "", of, spelt=not openers)


def _kind_of(said: str) -> str:
    """The kind of a value, "kin" or "name"; "" for words that are none of them alone."""
    masked, values = values_in(said)
    if len(values) == 1 and not re.sub(rf"[{values[0].kind}\s]", "", masked):
        return values[0].kind
    if _KIN.fullmatch(said):
        return "kin"
    return "name" if _NAMED.fullmatch(said) and not DAYS_AND_MONTHS.fullmatch(said) else ""


def _place_of(right: _Right, stated: Sequence[Fact], last: Last, asked: str) -> tuple[int, int] | None:
    """Which words of the earlier text are put right; None where that could be several, or none. What was put right
    before is what is put right again.
    """
    before = last.text
    places = {place: fact for fact in stated for place in _places(right, fact, before)}
    if last.put_right in places:
        places = {last.put_right: places[last.put_right]}
    elif right.of:
        places = {one: fact for one, fact in places.items() if right.of.casefold() in fact.statement.casefold()}
    elif right.wrong:
        places = {one: fact for one, fact in places.items() if right.wrong.casefold() in before[slice(*one)].casefold()}
    elif right.kind == "name":
        alike = {one: fact for one, fact in places.items() if _alike(before[slice(*one)], right.words)}
        # Who is called by their name is answered, and nothing is said of it.
        echoed = {
            one
            for one, fact in places.items()
            if fact.predicate != "name" and before[slice(*one)].casefold() in asked.casefold()
        }
        if alike or right.spelt:
            places = alike
        elif _named_beside(before, stated):
            return None
        elif not right.sure or (len(places) > 1 and len(echoed) == 1):
            places = {one: fact for one, fact in places.items() if one in echoed}
        if right.at and len(places) > 1:
            homes = {one: fact for one, fact in places.items() if fact.predicate.endswith("_in") == (right.at != "at")}
            places = homes or places
    elif right.kind != "kin" and not right.sure and _other_value(right, before, asked):
        return None
    found = [one for one in places if before[slice(*one)].casefold() != right.words.casefold()]
    return found[0] if len(found) == len(places) == 1 else None


def _places(right: _Right, fact: Fact, before: str) -> list[tuple[int, int]]:
    """Where a fact's words hold something of this kind."""
    start, end = fact.span
    if right.kind == "kin":
        return [one.span() for one in _KIN.finditer(before, start, end)]
    if right.kind == "name":
        at = before[start:end].casefold().rfind(fact.object)
        if _FIGURES.match(right.words):  # "5月13日"
            meant = _FIGURES.sub("0", fact.object) == _FIGURES.sub("0", right.words)
        else:
            meant = _NAMES.fullmatch(fact.predicate) is not None and not before[start + at].islower()
        return [(start + at, start + at + len(fact.object))] if at >= 0 and meant else []
    values = [one for one in values_in(before[start:end])[1] if one.kind == right.kind]
    return [(start + one.start, start + one.end) for one in values] if len(values) == 1 else []


def _named_beside(before: str, stated: Sequence[Fact]) -> bool:
    """Whether a text names something beside what it states, which may be meant: "Is Lyon nice? I live in Rome"."""
    within = [fact.span for fact in stated]
    return any(
        found.start() and not any(start <= found.start() < end for start, end in within)
        for found in _NAMED_WITHIN.finditer(before)
    )


def _other_value(right: _Right, before: str, asked: str) -> bool:
    """Whether the assistant has named a value of this kind that the speaker had not: it may be that which is wrong."""
    said = {one.words.casefold() for one in values_in(before)[1] if one.kind == right.kind}
    named = {one.words.casefold() for one in values_in(asked)[1] if one.kind == right.kind}
    return not named <= said


def _alike(one: str, other: str) -> bool:
    """Whether two names may be one, written in two ways: "Cathrine" and "Catherine", "Ana" and "Anna"."""
    first, second = one.casefold(), other.casefold()
    if first == second or abs(len(first) - len(second)) > _ALIKE_LONGER_MAX:
        return False
    return first[:_ALIKE_CHARS] == second[:_ALIKE_CHARS] or _SILENT.sub("", first) == _SILENT.sub("", second)


def _instead(stated: Sequence[Fact], meant: Sequence[Fact], span: tuple[int, int]) -> Iterator[Fact]:
    """What is so, and what is not that was said."""
    known = {_key(one) for one in stated}
    right = [one for one in meant if _key(one) not in known and one.subject != "it"]
    for fact in right:
        changed = {**fact.qualifiers, "changed": "yes"} if fact.cardinality == "one" else fact.qualifiers
        yield replace(fact, span=span, correction=True, qualifiers=changed)
    kept = {_key(one) for one in meant}
    replaced = {(one.subject, one.predicate) for one in right if one.cardinality == "one"}
    for fact in stated:
        if _key(fact) not in kept and not fact.negated and (fact.subject, fact.predicate) not in replaced:
            shown = fact.statement
            shown = f"the user{shown[8:]}" if shown.startswith("The user") else shown
            yield _denied(fact, f"It is not so that {shown}", span)


def _takes_back(text: str) -> Iterator[re.Match[str]]:
    """Where the turn says that something was not so, or is not to be remembered."""
    for start, end in sentence_spans(text)[:_SENTENCES_READ]:
        found = words.TAKES_BACK.match(text, start, end)
        if found is not None and (not found["that"] or words.NO_MORE.match(text, found.end(), end)):
            yield found


def _taken_back(stated: Sequence[Fact], before: str, back: re.Match[str]) -> Iterator[Fact]:
    """What is so no more."""
    about = set(_WORD.findall((back["about"] or back["thing"] or "").casefold()))
    for fact in stated:
        told = f"{fact.statement} {before[slice(*fact.span)]}".casefold()
        if not fact.negated and (not about or any(word in told for word in about)):
            of = f"{'' if fact.subject == 'user' else f'{fact.subject} '}{fact.predicate}".replace("_", " ")
            yield _denied(fact, f"The user took back what they had said: {of}.", back.span())


def _asks(text: str) -> bool:
    """Whether a text asks or requests something, too: that is what may be taken back."""
    return any(one.asks[0] < one.asks[1] for one in sentences(covered(text)))


def _denied(fact: Fact, statement: str, span: tuple[int, int]) -> Fact:
    return replace(
        fact,
        statement=statement,
        span=span,
        negated=True,
        correction=True,
        valid_from=None,
        valid_to=None,
        importance=0.4,
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    """The sentence that an answer is half of, what that may tell, where the answer stands in the turn, and how much
    further behind it is there than in the sentence.
    """

    sentence: str
    tells: Sequence[str]
    span: tuple[int, int]
    shift: int


def _answers(asked: str, text: str, speaker: str | None, said_at: datetime) -> list[Fact]:
    """What a turn of a word or two tells by the question that it answers."""
    answer = _answer_in(asked, text)
    return [
        replace(one, span=_within(one.span, answer), confidence=_CONFIDENCE)
        for one in (facts_in(answer.sentence, said_at=said_at, speaker=speaker) if answer else ())
        if answer and any(re.fullmatch(name.replace("*", r"\w+"), one.predicate) for name in answer.tells)
    ]


def _answer_in(asked: str, text: str) -> _Answer | None:
    """The one question that was asked last, answered; None where it is not, or several were asked."""
    spans = sentence_spans(text)
    tail = [asked[start:end] for start, end in sentence_spans(asked[-_ASKED_CHARS:])][-2:]
    questions = [one for one in tail if one.rstrip(" *_)\"'").endswith(("?", "？", "か。", "か"))]
    if not spans or len(questions) != 1:
        return None
    start, end = spans[0]
    opened = words.ANSWERS_WITH.match(text, start, end)
    start = opened.end() if opened else start
    said = words.ANSWER_ENDS.sub("", text[start:end])
    if not said or len(said.split()) > _ANSWER_WORDS_MAX or words.NO_ANSWER.search(text[spans[0][0] : end]):
        return None
    of = [(found, says, tells) for asks, says, tells in words.QUESTIONS if (found := asks.search(questions[0]))]
    if len(of) != 1:
        return None
    found, says, tells = of[0]
    before, behind = says.replace("{k}", found.groupdict().get("k") or "").split("{a}")
    return _Answer(f"{before}{said}{behind}", tells, (start, start + len(said)), start - len(before))


def _within(span: tuple[int, int], answer: _Answer) -> tuple[int, int]:
    """The range of a fact of the whole sentence, in the turn that says half of it."""
    start, end = max(span[0] + answer.shift, answer.span[0]), min(span[1] + answer.shift, answer.span[1])
    return (start, end) if start < end else answer.span


def _is_pasted(text: str) -> bool:
    """Whether a turn may be a text that was announced, no word between."""
    return len(text.strip()) >= _PASTED_CHARS_MIN or "\n" in text.strip()


def _key(fact: Fact) -> tuple[str, str, str, bool]:
    return fact.subject, fact.predicate, fact.object, fact.negated
