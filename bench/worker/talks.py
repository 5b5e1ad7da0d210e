"""Real conversations as endless live traffic: sets of recorded ones in, one exchange after the other out.

Many sessions are open at once; the next exchange is of any of them, so that users and lanes are mixed as they are where
many talk. A session is sent as a client does it: its messages so far, then the new ones. Sessions longer than
SESSION_EXCHANGES_MAX go on as another session. When a set has been said it is said again, by other users: what comes
out is new to the store, only its words are not. Deterministic by its seed.

`mixed` takes LoCoMo, ShareGPT and BEAM in shares of 9, 9 and 2, so that an answer has about 250 tokens on the mean, as
those of the Azure trace have 211. Raises SetUnreadable.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.hygiene import Exchange, exchanges_of
from bench.recall.corpus import SetUnreadable, read_objects, read_set

SETS: Final[Mapping[str, Mapping[str, int]]] = {
    "locomo": {"locomo": 1},
    "sharegpt": {"sharegpt": 1},
    "beam": {"beam": 1},
    "mixed": {"locomo": 9, "sharegpt": 9, "beam": 2},
}
SHAREGPT: Final = "sharegpt_300_multiturn.jsonl.xz"
SESSION_EXCHANGES_MAX: Final = 12
OPEN_SESSIONS: Final = 60
USERS: Final = 200
Recorded = tuple[Exchange, ...]


@dataclass(slots=True, eq=False)
class Talk:
    """A session under way. Mutable: `at` is the number of its next exchange, `busy` that one is under way."""

    user: str
    label: str
    exchanges: Recorded
    at: int = 0
    busy: bool = False
    history: list[Mapping[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Next:
    """One exchange to send: its messages, those of the history included, and how it is answered."""

    talk: Talk
    number: int
    messages: tuple[Mapping[str, str], ...]
    fresh: int  # so many of the messages are new
    answer: str


def recorded(data: Path, name: str) -> list[Recorded]:
    """The sessions of one set. Raises SetUnreadable."""
    if name == "sharegpt":
        dialogues = (dialogue["messages"] for dialogue in read_objects(data / SHAREGPT))
        sessions = [[dict(line) for line in lines] for lines in dialogues if lines]
    else:
        of_set = read_set(data, name)
        sessions = []
        for lines in of_set.lines.values():
            groups = itertools.groupby(lines, key=lambda line: line["session"])
            sessions += [[dict(line) for line in group] for _, group in groups]
    found = []
    for session in sessions:
        exchanges = exchanges_of(session)
        parts = range(0, len(exchanges), SESSION_EXCHANGES_MAX)
        found += [tuple(exchanges[start : start + SESSION_EXCHANGES_MAX]) for start in parts]
    if not found:
        raise SetUnreadable(f"{data}: nothing is said in {name}")
    return found


class Traffic:
    """Exchanges without end. `prefix` keeps its users apart from those of other traffic on the same store."""

    def __init__(self, sets: Mapping[str, Sequence[Recorded]], shares: Mapping[str, int], prefix: str) -> None:
        self._prefix = prefix
        self._dice = random.Random(f"traffic {sorted(shares)}")
        self._sessions = {name: _for_ever(sets[name]) for name in shares}
        # By exchanges, not by sessions: one of long sessions is begun less often.
        self._weights = [share * len(sets[name]) / sum(map(len, sets[name])) for name, share in shares.items()]
        self._numbers = itertools.count()
        # Of those open at a time each set has its share, since the next exchange is of any of them.
        self._open = [self._begun(list(shares.values())) for _ in range(OPEN_SESSIONS)]

    @classmethod
    def of(cls, data: Path, mix: str, prefix: str) -> Traffic:
        """One of SETS. Raises SetUnreadable."""
        shares = SETS[mix]
        return cls({name: recorded(data, name) for name in shares}, shares, prefix)

    def take(self) -> Next:
        """The next exchange of a session that waits for no answer; say `answered` when it has come."""
        free = [at for at, talk in enumerate(self._open) if not talk.busy]
        if not free:  # everybody waits: somebody else comes
            self._open.append(self._begun(self._weights))
            free = [len(self._open) - 1]
        at = self._dice.choice(free)
        talk = self._open[at]
        exchange = talk.exchanges[talk.at]
        talk.busy = True
        return Next(talk, talk.at, (*talk.history, *exchange.said), len(exchange.said), exchange.answer)

    def answered(self, sent: Next, answer: str) -> None:
        """The client has the answer, and goes on."""
        talk = sent.talk
        talk.history = [*sent.messages, {"role": "assistant", "content": answer}]
        talk.at, talk.busy = talk.at + 1, False
        if talk.at == len(talk.exchanges):
            self._open[self._open.index(talk)] = self._begun(self._weights)

    def _begun(self, weights: Sequence[float]) -> Talk:
        number = next(self._numbers)
        (name,) = self._dice.choices(list(self._sessions), weights)
        user = f"{self._prefix}-{number % USERS}"
        return Talk(user, f"{self._prefix}-session-{number}", next(self._sessions[name]))


def _for_ever(sessions: Sequence[Recorded]) -> Iterator[Recorded]:
    mixed = list(sessions)
    random.Random(len(mixed)).shuffle(mixed)
    return itertools.cycle(mixed)
