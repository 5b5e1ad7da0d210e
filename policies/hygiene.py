"""What should not be in a memory: a memory as it is kept in, the rates it counts for out. Pure.

* junk: it says nothing. Nothing is left of it but courtesies (greeting, farewell, thanks, laughter, in the languages of
  COURTESIES), emoji, punctuation and placeholders ("[data: 5 bytes]"). What may be an answer ("yes", "no", "ok", "42",
  "Rex", "later") and what names anybody or any time is none. Of a fact also: it only asks. An episode that only asks
  is what happened: 63 of LoCoMo's 644 and 182 of BEAM-100K's 385 turns of evidence end with a question mark.
* duplicate: the same words, whatever their case and punctuation, as an earlier memory of the kind in the scope.
* contradiction: two facts of one key hold that cannot both, or one that was ruled out is still shown.
* unsupported: a fact that no span of a turn bears, or none in which all words of its object stand.
* loop: it was made of what memory itself had said: of a memory, of a block that memory had placed, or of an answer that
  only repeats what was placed for it.
* never_used: older than so many days and never placed in a prompt.
* secret: the detectors of the write path find something in it (they are the caller's).

Near-duplicates by vector are not counted: two budgets of $5,000 and $6,000 are .92 alike, so that would be noise.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from policies.text import SIGNS

Rate = Literal["junk", "duplicate", "contradiction", "unsupported", "loop", "never_used", "secret"]
RATES: Final[tuple[Rate, ...]] = get_args(Rate)

# Whole utterances that say nothing. No word of assent or denial, no time, no name: these may be evidence ("Alright,
# see you tomorrow!" is one of LoCoMo's).
COURTESIES: Final = (
    r"(?:hi+|hello+|hey+|hiya|howdy|heya|greetings)(?: (?:there|all|everyone|everybody|folks|again))?",
    r"good (?:morning|afternoon|evening|night|day)(?: (?:all|everyone))?",
    r"(?:good ?)?bye(?: bye)?(?: (?:for )?now)?|farewell|ttyl|cya",
    r"(?:see|catch) (?:you|ya|u)(?: (?:soon|later|around|again|then))?|talk (?:to you )?(?:soon|later)",
    r"take care|stay safe|gotta (?:run|go)|have a (?:good|great|nice|lovely|wonderful) (?:day|one|evening|night|time)",
    r"(?:many )?(?:thanks|thank you|thx|thanx|ty|cheers)(?: (?:so|very) much| a (?:lot|bunch|million|ton)| again"
    r"| in advance| anyway)*(?: for (?:everything|that|this|(?:your|the|all your) help))?",
    r"(?:i )?(?:really )?appreciate it|much appreciated|(?:you re|you are) (?:very |most )?welcome|my pleasure",
    r"lol+|lmao|rofl|(?:ha){2,}h?|(?:he){2,}h?|hm+|mhm+|oh+|ah+|aw+|wow+|yay+|ugh+|oops|phew|whoa",
    r"hallo|moin|servus|guten (?:morgen|tag|abend)|gute nacht|tsch(?:ü|ue)ss|auf wiedersehen|bis bald",
    r"(?:vielen |herzlichen )?dank|danke(?: (?:schön|sehr|dir|ihnen))?",
    r"bonjour|bonsoir|salut|coucou|au revoir|(?:à|a) bient[oô]t|merci(?: (?:beaucoup|bien))?",
    r"hola|buen[oa]s (?:d[ií]as|tardes|noches)|adi[oó]s|hasta (?:luego|pronto)|(?:much[ií]simas |muchas )?gracias",
    r"ciao|buongiorno|buonasera|arrivederci|grazie(?: mille)?|ol[aá]|oi|bom dia|boa (?:tarde|noite)|tchau|obrigad[oa]",
    r"dank (?:je|u)(?: wel)?|bedankt|doei|hej|hejdå|tack(?: så mycket)?|(?:mange|tusind) tak",
    r"cze[sś][cć]|dzi[eę]kuj[eę]",
    r"привет|здравствуйте|добрый (?:день|вечер)|доброе утро|спасибо(?: большое)?|до свидания",
    r"你好|您好|嗨|谢谢(?:你|您)?|多谢|再见|拜拜|早上好|早安|晚上好|晚安|哈+",
    r"こんにちは|こんばんは|おはよう(?:ございます)?|ありがとう(?:ございます)?|さようなら|おやすみ(?:なさい)?",
    r"안녕(?:하세요|히 가세요)?|감사합니다|고마워(?:요)?|مرحبا|شكرا",
)
_COURTESY: Final = re.compile(rf"(?:(?:{'|'.join(COURTESIES)})(?: |\Z))+")
# A longer text is no courtesy; 240 characters are 20 of the longest in a row.
COURTESY_CHARS_MAX: Final = 240
_PLACEHOLDER: Final = re.compile(r"\[data: \d+ bytes\]|\[redacted:[a-z-]+\]")
_WORD: Final = re.compile(rf"[^\W_]+(?:[{SIGNS}]+[^\W_]*)*")
_STATES: Final = re.compile(r"[.!。！…\n]")

# So many words in a row that stand in what was placed are a quotation. Three are often a turn of phrase.
RUN_WORDS: Final = 4
# A text so many times as long as all that was placed is more than a quotation, and is not read: a bound on the work.
QUOTED_FACTOR_MAX: Final = 4
# What may stand around quotations and adds nothing to them.
LEAD_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "a about according already also an and are as based before conversation conversations did earlier from have"
        " here i in is it know last me memory mentioned my notes of on our previous previously recall remember said say"
        " so that the this time to told was we were what yes you your",
    )
)
_ITEM_HEAD: Final = re.compile(r"^(?:\[[^\]\n]{1,60}\]|\|) ", re.MULTILINE)
_SPEAKER_CHARS_MAX: Final = 256
_OBJECT_WORD: Final = re.compile(r"[\w.,:/]+")


def is_junk(text: str) -> bool:
    """Whether a text says nothing."""
    said = _PLACEHOLDER.sub(" ", text)
    if _WORD.search(said) is None:
        return True
    return len(said) <= COURTESY_CHARS_MAX and _COURTESY.fullmatch(" ".join(words_of(said))) is not None


def only_asks(text: str) -> bool:
    """Whether a text is questions and nothing else."""
    said = text.strip()
    return len(said) > 1 and said[-1] in "?？" and _STATES.search(said) is None


def words_of(text: str) -> list[str]:
    """The words of a text: casefolded runs of letters and digits."""
    return _WORD.findall(text.casefold())


def words_key(text: str) -> bytes:
    """Eight bytes that are equal for the same words in the same order. Of texts without words: of the text itself."""
    words = words_of(text)
    return hashlib.blake2b(
        "\0".join(words or ("", text.strip())).encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()


def repeats(text: str, placed: Sequence[str]) -> bool:
    """Whether a text only quotes what was placed: every word stands in a run of RUN_WORDS that is there too, or is one
    of LEAD_WORDS; a shorter text stands there as it is. A new word, name or figure makes it a saying of its own.
    """
    if len(text) > QUOTED_FACTOR_MAX * sum(map(len, placed)):
        return False
    words = words_of(_ITEM_HEAD.sub("", text))
    sources = [words_of(_ITEM_HEAD.sub("", one)) for one in placed]
    if not words:
        return False
    if len(words) < RUN_WORDS:
        return any(f" {' '.join(words)} " in f" {' '.join(source)} " for source in sources)
    runs = {tuple(source[at : at + RUN_WORDS]) for source in sources for at in range(len(source) - RUN_WORDS + 1)}
    quoted = [False] * len(words)
    for at in range(len(words) - RUN_WORDS + 1):
        if tuple(words[at : at + RUN_WORDS]) in runs:
            quoted[at : at + RUN_WORDS] = [True] * RUN_WORDS
    return any(quoted) and all(held or word in LEAD_WORDS for word, held in zip(words, quoted, strict=True))


def bears(words: str, object_: str) -> bool:
    """Whether all words of a fact's object stand in the words of its span."""
    said = " ".join(words.replace("’", "'").casefold().split())
    return all(word in said for word in _OBJECT_WORD.findall(object_))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that a memory was made of. `role` is None when it is not there any more.

    `span` are the characters that it rests on, `chars` how many there are, `words` those of the span, or of an answer.
    `in_block`: they stand in a block as memory places it. `placed` are the texts that memory had placed for it.
    """

    source: str  # turn, memory, exchange, document
    role: str | None
    name: str | None = None
    span: tuple[int, int] | None = None
    chars: int = 0
    words: str = ""
    in_block: bool = False
    placed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stated:
    """What a fact states, and whether it holds. `exclusive`: one object at a time."""

    subject: str
    predicate: str
    object: str
    negated: bool
    state: str
    exclusive: bool
    aspect: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory as it is kept. `shown`: recall may show it. `rivals` are other facts of its key that hold."""

    kind: str
    content: str
    created_at: datetime
    injected: int
    shown: bool
    evidence: tuple[Evidence, ...] = ()
    stated: Stated | None = None
    rivals: tuple[Stated, ...] = ()

    @property
    def is_fact(self) -> bool:
        return self.kind == "semantic"

    @property
    def needs_evidence(self) -> bool:
        """Whether it must rest on words that were said, or for a procedure on episodes."""
        return self.kind in ("semantic", "procedural")


def faults(kept: Kept, *, now: datetime, unused_after: timedelta) -> set[Rate]:
    """What a memory counts for, all but `duplicate` and `secret`, which it cannot be asked alone."""
    found: set[Rate] = set()
    if kept.shown and _says_nothing(kept):
        found.add("junk")
    if kept.needs_evidence and not any(_supports(kept, one) for one in kept.evidence):
        found.add("unsupported")
    if kept.shown and _contradicts(kept):
        found.add("contradiction")
    if kept.shown and _is_loop(kept):
        found.add("loop")
    if kept.shown and kept.injected == 0 and is_aged(kept, now, unused_after):
        found.add("never_used")
    return found


def is_aged(kept: Kept, now: datetime, unused_after: timedelta) -> bool:
    """Whether it has had time to be used."""
    return kept.created_at <= now - unused_after


def contradict(one: Stated, other: Stated) -> bool:
    """Whether two facts of one key cannot both hold."""
    if one.object == other.object:
        return one.negated != other.negated
    return one.exclusive and other.exclusive and (one.aspect, one.unit) == (other.aspect, other.unit)


def _says_nothing(kept: Kept) -> bool:
    text = kept.content
    name = kept.evidence[0].name if kept.evidence else None
    if name and len(name) <= _SPEAKER_CHARS_MAX:
        text = text.removeprefix(f"{name}: ")
    return is_junk(text) or (kept.is_fact and only_asks(text))


def _supports(kept: Kept, one: Evidence) -> bool:
    if kept.kind == "procedural" and one.source == "memory":
        return True
    if one.role is None or one.span is None:
        return False
    start, end = one.span
    if not 0 <= start < end <= one.chars or not one.words.strip():
        return False
    return kept.stated is None or bears(one.words, kept.stated.object)


def _contradicts(kept: Kept) -> bool:
    stated = kept.stated
    if stated is None:
        return False
    if stated.state in ("superseded", "withdrawn"):
        return True
    return stated.state == "current" and any(contradict(stated, rival) for rival in kept.rivals)


def _is_loop(kept: Kept) -> bool:
    """One piece of evidence that is not memory's own words is enough; for a summary one that is, is too much."""
    if kept.kind == "summary":
        return any(one.role == "assistant" and repeats(one.words, one.placed) for one in kept.evidence)
    return bool(kept.evidence) and all(_is_own(kept, one) for one in kept.evidence)


def _is_own(kept: Kept, one: Evidence) -> bool:
    if one.source == "memory":
        return kept.kind != "procedural"  # what was done alike in several episodes is made of these
    if one.in_block:
        return True
    if one.role != "assistant":
        return False
    of_user = kept.is_fact and (kept.stated is None or kept.stated.subject == "user")
    return of_user or repeats(one.words if kept.is_fact else kept.content, one.placed)


@dataclass(slots=True)
class SeenWords:
    """The words met so far, to tell duplicates; mutable. Holds at most `most` keys and then begins anew (12 MB)."""

    most: int = 200_000
    _keys: set[bytes] = field(default_factory=set)

    def known(self, place: tuple[object, ...], text: str) -> bool:
        """Whether these words were met before in this place (a scope and a kind); they are from now on."""
        key = hashlib.blake2b(repr(place).encode() + words_key(text), digest_size=8).digest()
        if key in self._keys:
            return True
        if len(self._keys) >= self.most:
            self._keys.clear()
        self._keys.add(key)
        return False


@dataclass(slots=True)
class Tally:
    """Counts of a walk; mutable. `facts` with procedures; `aged` are shown memories that have had time to be used."""

    memories: int = 0
    facts: int = 0
    aged: int = 0
    found: dict[Rate, int] = field(default_factory=lambda: dict.fromkeys(RATES, 0))

    def add(self, kept: Kept, rates: Iterable[Rate], *, aged: bool) -> None:
        """Count one memory."""
        self.memories += kept.shown
        self.facts += kept.needs_evidence
        self.aged += kept.shown and aged
        for rate in rates:
            self.found[rate] += 1

    def of(self, rate: Rate) -> int:
        """How many memories this rate is a share of."""
        if rate in ("contradiction", "unsupported"):
            return self.facts
        return self.aged if rate == "never_used" else self.memories

    def share(self, rate: Rate) -> float:
        """0..1; 0 of none."""
        return self.found[rate] / max(1, self.of(rate))

    def sum_of(self, rates: Sequence[Rate]) -> float:
        """The shares of several rates together."""
        return sum(self.share(rate) for rate in rates)
