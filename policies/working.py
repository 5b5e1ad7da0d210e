"""The working context of a conversation: its turns in, one after the other; what it is about at this moment out.

Recent turns within a token budget, the objective, the plan, what is still open, the last outputs of tools. A fold:
`advance` takes what is known and the turns since, and gives the same whether the turns come at once or one by one.
What is known is bounded, so a turn costs the same in a conversation of ten turns and of a thousand; of a long turn the
two ends are read. Precision before recall: what the patterns do not know stays empty. Pure; a turn that was taken in
is passed over when it comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from policies import working_words as words
from policies.brought import brought_in
from policies.working_words import Piece, Step

ENDS_CHARS: Final = 2_000
"""Of each end of a turn; one of twice as many characters is read whole."""
OPENING_TURNS: Final = 4
"""Where the first request stands, if it is one; behind that a request is a step on the way."""
OPEN_TURNS_MAX: Final = 20
OPEN_MAX: Final = 4  # of each side
TOOLS_MAX: Final = 8
TOOLS_OF_ONE_MAX: Final = 3  # one that is called all the time must not push out the others
OUTPUT_CHARS: Final = 300  # of each end
ARGUMENTS_CHARS: Final = 400
CALLS_WAITING_MAX: Final = 16
_RECENT_TURNS_MAX: Final = 200
_BEFORE_MAX: Final = 8  # of the last turns: it is those that are given again
_VOUCHED: Final = frozenset({"admin", "user"})

Asker = Literal["user", "assistant"]
OpenKind = Literal["question", "reference"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that was called: its arguments as text, cut."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A turn as it is read. `head` is all of it, or its first characters; `tail` its last ones, "" where head is all.

    `hidden`: its words must not be told. `chars` is the length of the whole. `attached`: something stands beside it.
    """

    event_id: UUID
    seq: int
    role: str
    head: str
    chars: int
    tail: str = ""
    name: str | None = None
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    chain: bytes = b""
    parent: bytes | None = None
    integrity: str = "user"
    attached: bool = False
    hidden: bool = False
    expires_at: datetime | None = None

    @property
    def ends(self) -> tuple[Piece, ...]:
        """What is at hand of it, as ranges of the whole."""
        first = Piece(0, len(self.head), self.head)
        return (first, Piece(self.chars - len(self.tail), self.chars, self.tail)) if self.tail else (first,)


@dataclass(frozen=True, slots=True)
class Quote:
    """Some characters of a turn, in its own words."""

    event_id: UUID
    seq: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Recent:
    """A turn, whole in one piece or cut in two: its first and its last characters."""

    event_id: UUID
    seq: int
    role: str
    name: str | None
    pieces: tuple[Piece, ...]
    chars: int
    tokens: int
    chain: bytes
    parent: bytes | None


@dataclass(frozen=True, slots=True)
class Planned:
    """A step and the turn that reports it done, None while none does."""

    quote: Quote
    number: int
    done_by: UUID | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps that somebody laid out, in order."""

    role: Asker
    steps: tuple[Planned, ...]

    @property
    def to_do(self) -> tuple[Planned, ...]:
        """The steps that no turn reports done."""
        return tuple(step for step in self.steps if step.done_by is None)


@dataclass(frozen=True, slots=True)
class Open:
    """A question without its answer, or a word that means nothing in this conversation. `missed`: it had its turn."""

    kind: OpenKind
    asked_by: Asker
    quote: Quote
    missed: bool = False

    @property
    def is_left_open(self) -> bool:
        """A user's question that was answered by nothing; one of the assistant's that was passed over."""
        return self.kind == "question" and (self.missed or self.asked_by == "assistant")


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool gave, its two ends, and the call that it answers where that is known."""

    event_id: UUID
    seq: int
    tool: str | None
    pieces: tuple[Piece, ...]
    chars: int
    call: Call | None = None
    call_event_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call whose output has not come."""

    event_id: UUID
    seq: int
    call: Call


@dataclass(frozen=True, slots=True)
class Before:
    """What was known before the turn `seq`: it holds again where another turn takes that one's place."""

    seq: int
    objective: Quote | None
    opened: Quote | None
    plan: Plan | None
    open: tuple[Open, ...]


@dataclass(frozen=True, slots=True)
class WorkingContext:
    """What a conversation is about after its turns below `upto_seq`. Empty members are not known.

    `opened` is the first request, which holds again where a later change of the objective was taken back.
    `expires_at`: by then one of the turns has expired, and all of this is to be made anew.
    """

    upto_seq: int = 0
    recent: tuple[Recent, ...] = ()
    objective: Quote | None = None
    plan: Plan | None = None
    open: tuple[Open, ...] = ()
    tools: tuple[Output, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    opened: Quote | None = None
    begun: bool = True  # whether it was read from its first turn on; else nobody knows what was asked for first
    expires_at: datetime | None = None
    before: tuple[Before, ...] = ()  # of the last of the recent turns that may be given again


@dataclass(frozen=True, slots=True)
class _Read:
    """A turn with its sentences, those of both ends."""

    turn: Heard
    said: tuple[Piece, ...] = field(default=())

    def quote(self, piece: Piece) -> Quote:
        return Quote(self.turn.event_id, self.turn.seq, piece.start, piece.end, piece.text)


def advance(
    known: WorkingContext, turns: Iterable[Heard], *, budget_tokens: int, count: Callable[[str], int]
) -> WorkingContext:
    """What is known after these turns too, in the order of their numbers. `count` gives the tokens of a text."""
    for turn in turns:
        if turn.seq >= known.upto_seq:
            known = _heard(known, turn, budget_tokens, count)
    return known


def _heard(known: WorkingContext, turn: Heard, budget_tokens: int, count: Callable[[str], int]) -> WorkingContext:
    known = _without_what_it_replaces(known, turn)
    before = Before(turn.seq, known.objective, known.opened, known.plan, known.open)
    known = replace(known, upto_seq=turn.seq + 1, expires_at=_sooner(known.expires_at, turn.expires_at))
    if turn.role in ("tool", "function"):
        return _after_output(known, turn)
    if turn.role not in ("user", "assistant"):
        return known
    read = _Read(turn, () if turn.hidden else _sentences(turn))
    known = _after_user(known, read) if turn.role == "user" else _after_assistant(known, read)
    fresh = tuple(one for one in known.open if one.quote.seq > turn.seq - OPEN_TURNS_MAX)
    known = replace(known, open=fresh, plan=_planned(known.plan, read))
    if turn.hidden or not turn.head.strip():
        return known
    recent = _fitting((*known.recent, _recent(turn, budget_tokens, count)), budget_tokens)
    kept = known.before if turn.parent is None else (*known.before, before)[-_BEFORE_MAX:]
    return replace(known, recent=recent, before=kept)


def _sooner(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _sentences(turn: Heard) -> tuple[Piece, ...]:
    """The sentences of both ends; where it is cut the broken ones are left out."""
    said = words.sentences_in(turn.head)
    if turn.tail:
        said = [*said[:-1], *words.sentences_in(turn.tail, turn.chars - len(turn.tail))[1:]]
    return tuple(_own(turn, said))


def _own(turn: Heard, pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces of a turn that no program brought into a user's message: a tool's output there is not the user's."""
    if turn.role != "user":
        return list(pieces)
    head, behind = len(turn.head), turn.chars - len(turn.head) - len(turn.tail)
    brought = [(a + behind * (a >= head), b + behind * (b > head)) for a, b in brought_in(turn.head + turn.tail)]
    return [one for one in pieces if not any(a < one.end and one.start < b for a, b in brought)]


# ---------------------------------------------------------------- answers given again


def _without_what_it_replaces(known: WorkingContext, turn: Heard) -> WorkingContext:
    """An answer given again takes the place of the last one; a question that was edited, of all that followed it.

    Only where that is sure: clients that send their newest message alone have every one of them at the first place.
    """
    place = _replaced(known.recent, turn)
    if place is None:
        return known
    first = known.recent[place].seq
    was = next((one for one in known.before if one.seq == first), None) or _before(known, known.recent[place:])
    return replace(
        known,
        recent=known.recent[:place],
        before=tuple(one for one in known.before if one.seq < first),
        objective=was.objective,
        opened=was.opened,
        plan=was.plan,
        open=was.open,
        tools=tuple(one for one in known.tools if one.seq < first),
        waiting=tuple(one for one in known.waiting if one.seq < first),
    )


def _before(known: WorkingContext, dropped: Sequence[Recent]) -> Before:
    """What was known before these turns as far as it can be told from what is known now: they are long ago."""
    first = dropped[0].seq
    plan = known.plan if known.plan and known.plan.steps[0].quote.seq < first else None
    objective = known.objective if known.objective and known.objective.seq < first else None
    opened = known.opened if known.opened and known.opened.seq < first else None
    return Before(
        first,
        objective or opened,
        opened,
        plan and Plan(plan.role, tuple(_undone(step, dropped) for step in plan.steps)),
        tuple(one for one in known.open if one.quote.seq < first),
    )


def _replaced(recent: Sequence[Recent], turn: Heard) -> int | None:
    """The place of the first recent turn that this one stands instead of."""
    if turn.parent is None or not recent:
        return None
    if turn.role == "assistant":
        last = recent[-1]
        return len(recent) - 1 if (last.role, last.parent) == ("assistant", turn.parent) else None
    same = (n for n, one in enumerate(recent) if one.role == turn.role and one.parent == turn.parent)
    return next(same, None)


def _undone(step: Planned, dropped: Sequence[Recent]) -> Planned:
    gone = step.done_by is not None and any(one.event_id == step.done_by for one in dropped)
    return replace(step, done_by=None) if gone else step


# ---------------------------------------------------------------- objective, plan, what is open


def _after_user(known: WorkingContext, read: _Read) -> WorkingContext:
    """Words of a user answer what the assistant asked, and may ask, say what he is after, or change it."""
    still = known.open
    if read.turn.hidden or words.states(read.said):
        still = tuple(one for one in still if one.asked_by == "user")
    if words.drops(read.said):
        still = ()
    vouched = read.turn.integrity in _VOUCHED
    asked = [Open("question", "user", read.quote(piece)) for piece in words.questions_in(read.said) if vouched]
    pointing = words.points_at_nothing(read.said)
    if pointing and read.turn.seq == 0 and not read.turn.attached and pointing.text == read.turn.head.strip():
        asked.append(Open("reference", "user", read.quote(pointing)))
    return replace(_with_objective(known, read), open=_with_open(still, asked))


def _with_objective(known: WorkingContext, read: _Read) -> WorkingContext:
    """Nothing below a user's own words says what he is after (DESIGN section 7)."""
    if read.turn.integrity not in _VOUCHED:
        return known
    change = words.change_in(read.said)
    if change is not None and (known.opened or not known.begun):
        return replace(known, objective=read.quote(change))
    if known.opened is None and known.begun and read.turn.seq < OPENING_TURNS:
        first = words.request_in(read.said) or change
        if first is not None and words.points_at_nothing(read.said) is None:
            return replace(known, objective=read.quote(first), opened=read.quote(first))
    return known


def _after_assistant(known: WorkingContext, read: _Read) -> WorkingContext:
    """An answer closes what the user asked, unless it says that it has none; it may call tools and ask back."""
    turn = read.turn
    calls = tuple(Waiting(turn.event_id, turn.seq, call) for call in turn.calls)
    known = replace(known, waiting=(*known.waiting, *calls)[-CALLS_WAITING_MAX:])
    if turn.hidden:
        return replace(known, open=tuple(one for one in known.open if one.asked_by == "assistant" or one.missed))
    if not turn.head.strip():
        return known
    answered = words.answers(read.said) or not read.said
    still = (_judged(one, read, answered) for one in known.open)
    asked = [Open("question", "assistant", read.quote(piece)) for piece in words.questions_back(read.said, turn.chars)]
    return replace(known, open=_with_open([one for one in still if one is not None], asked))


def _judged(one: Open, read: _Read, answered: bool) -> Open | None:
    """What becomes of something open when the assistant has spoken; None: it is closed."""
    if one.asked_by == "assistant":
        return one
    if one.missed:
        return None if answered and words.covers(read.said, one.quote.text) else one
    return None if answered else replace(one, missed=True)


def _with_open(still: Sequence[Open], asked: Sequence[Open]) -> tuple[Open, ...]:
    """What is open, a question once, the latest OPEN_MAX of each side."""
    again = {one.quote.text.casefold() for one in asked}
    kept = [*(one for one in still if one.quote.text.casefold() not in again), *asked]
    chosen: list[Open] = []
    for side in ("user", "assistant"):
        chosen += [one for one in kept if one.asked_by == side][-OPEN_MAX:]
    return tuple(sorted(chosen, key=lambda one: (one.quote.seq, one.quote.start)))


def _planned(plan: Plan | None, read: _Read) -> Plan | None:
    """The plan after a turn: laid out anew, with steps reported done, or as it was."""
    turn = read.turn
    if turn.hidden:
        return plan
    steps = [step for end in turn.ends for step in words.steps_in(end.text, end.start)]
    own = _own(turn, (step.piece for step in steps))
    steps = [step for step in steps if step.piece in own]
    if steps and turn.integrity != "imported":
        plan = Plan("user" if turn.role == "user" else "assistant", _laid_out(plan, steps[: words.STEPS_MAX], read))
    if plan is None:
        return None
    done = words.steps_done(read.said)
    if done is not None and not done:
        return plan
    marked = (
        replace(one, done_by=turn.event_id) if one.done_by is None and (done is None or one.number in done) else one
        for one in plan.steps
    )
    return Plan(plan.role, tuple(marked))


def _laid_out(old: Plan | None, steps: Sequence[Step], read: _Read) -> tuple[Planned, ...]:
    """Steps of a new list; one that was in the old list and done stays so."""
    done = {one.quote.text.casefold(): one.done_by for one in old.steps if one.done_by} if old else {}
    return tuple(
        Planned(
            read.quote(step.piece),
            step.number,
            read.turn.event_id if step.done else done.get(step.piece.text.casefold()),
        )
        for step in steps
    )


# ---------------------------------------------------------------- tools, recent turns


def _after_output(known: WorkingContext, turn: Heard) -> WorkingContext:
    """A tool's output, with the call that it answers."""
    asked = next((one for one in reversed(known.waiting) if turn.call_id and one.call.call_id == turn.call_id), None)
    known = replace(known, waiting=tuple(one for one in known.waiting if one is not asked))
    if turn.hidden or not turn.head.strip():
        return known
    output = Output(
        turn.event_id,
        turn.seq,
        turn.name or (asked.call.name if asked else None),
        _two_ends(turn, OUTPUT_CHARS),
        turn.chars,
        asked.call if asked else None,
        asked.event_id if asked else None,
    )
    same = [one for one in known.tools if one.tool == output.tool][-(TOOLS_OF_ONE_MAX - 1) :]
    kept = [one for one in known.tools if one.tool != output.tool or one in same]
    return replace(known, tools=(*kept, output)[-TOOLS_MAX:])


def _recent(turn: Heard, budget_tokens: int, count: Callable[[str], int]) -> Recent:
    """A turn as it is kept: whole, or cut at its ends to at most half of the budget."""
    most = max(1, budget_tokens // 2)
    pieces: tuple[Piece, ...] = turn.ends
    tokens = sum(count(piece.text) for piece in pieces)
    side = min(ENDS_CHARS, turn.chars)
    while tokens > most and side > 1:
        # Aimed a little below, so that once or twice is enough; text is not equally dense, so it is counted again.
        side = max(1, min(side * 3 // 4, int(side * most / tokens * 0.95)))
        pieces = _two_ends(turn, side)
        tokens = sum(count(piece.text) for piece in pieces)
    return Recent(turn.event_id, turn.seq, turn.role, turn.name, pieces, turn.chars, tokens, turn.chain, turn.parent)


def _two_ends(turn: Heard, side: int) -> tuple[Piece, ...]:
    """The first and the last `side` characters of a turn; all of it where that is no more."""
    if turn.chars <= 2 * side and not turn.tail:
        return (Piece(0, len(turn.head), turn.head),)
    last = (turn.tail or turn.head)[-side:]
    head = turn.head[:side]
    return (Piece(0, len(head), head), Piece(turn.chars - len(last), turn.chars, last))


def _fitting(turns: Sequence[Recent], budget_tokens: int) -> tuple[Recent, ...]:
    """The latest turns that together fit into the budget."""
    left = budget_tokens
    first = len(turns)
    for turn in reversed(turns[-_RECENT_TURNS_MAX:]):
        left -= turn.tokens
        if left < 0:
            break
        first -= 1
    return tuple(turns[first:])
