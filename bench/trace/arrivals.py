"""Traces of real traffic in, arrivals out: when, in which scope and conversation, which messages, which answer.

    azure      arrival times and lengths of one hour; no sessions, no words
    mooncake   the same, and which blocks of 512 tokens prompts share: sharing more than the first continues a session
    sharegpt   300 dialogues with their words and no times: they begin and go on at times drawn here, always the same

Words come from the evaluation sets (their scopes are imported first, so that recall has something to find): the last
user message is one of that scope's questions with a sentence that makes it unlike all others; each scope is one user's,
and of more users than scopes the others begin with nothing and ask a scope's questions; what else a trace's
prompt has stands in a system message, since no trace says which of it was said when. A token is four characters.
Raises SetUnreadable (bench.recall.corpus).
"""

from __future__ import annotations

import csv
import io
import lzma
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from bench.recall.corpus import EvalSet, SetUnreadable, read_objects, spoken

FILES: Final = {
    "azure": "AzureLLMInferenceTrace_2023_conv.csv.xz",
    "mooncake": "mooncake_conversation_trace.jsonl.xz",
    "sharegpt": "sharegpt_300_multiturn.jsonl.xz",
}
TOKEN_CHARS: Final = 4
BLOCK_TOKENS: Final = 512
# An answer travels in a request header to the stand-in, which takes 64 KiB of them.
ANSWER_CHARS_MAX: Final = 32_000
# ShareGPT has no times: all dialogues begin within this, a turn follows after so long on average.
SHAREGPT_BEGIN_S: Final = 1_500.0
SHAREGPT_TURN_S: Final = 40.0
_ASIDE_WORDS: Final = 12

Message = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a trace. `at_s` from its beginning at x1; `messages` makes them, when they are due.

    `answer` is what the stand-in is to say, `tokens` how long a real model may answer.
    """

    at_s: float
    user: str
    session: str | None
    messages: Callable[[], Sequence[Message]]
    answer: Callable[[], str]
    tokens: int


class Words:
    """Texts of chosen length out of some evaluation sets; the same number gives the same text."""

    def __init__(self, sets: Sequence[EvalSet], scopes_max: int | None, users: int | None = None) -> None:
        self.lines: dict[str, Sequence[Mapping[str, str]]] = {}
        self._questions: dict[str, list[str]] = {}
        for one in sets:
            for scope in list(one.lines)[:scopes_max]:
                self.lines[f"{one.name}-{scope}"] = one.lines[scope]
            for question in one.questions:
                self._questions.setdefault(f"{one.name}-{question.scope}", []).append(question.text)
        self.scopes: Final = [scope for scope in self.lines if self._questions.get(scope)]
        if not self.scopes:
            raise SetUnreadable("the evaluation sets hold no scope with a question")
        self.users: Final = users or len(self.scopes)
        self._said = [" ".join(spoken(line).split()) for scope in self.scopes for line in self.lines[scope]]

    def user(self, number: int) -> tuple[str, str]:
        """The name of a user, and the scope whose questions they ask; the first users are the scopes' own."""
        again, at = divmod(number, len(self.scopes))
        scope = self.scopes[at]
        return (f"{scope}+{again}" if again else scope), scope

    def text(self, number: int, characters: int) -> str:
        """So many characters, from turns drawn by `number`."""
        dice = random.Random(number)
        parts: list[str] = []
        room = characters
        while room > 0:
            parts.append(self._said[dice.randrange(len(self._said))])
            room -= len(parts[-1]) + 1
        return " ".join(parts)[: max(characters, 0)]

    def question(self, scope: str, number: int) -> str:
        """One of the scope's questions, with an aside that no other number has."""
        dice = random.Random(number)
        aside = " ".join(self._said[dice.randrange(len(self._said))].split()[:_ASIDE_WORDS])
        return f"{dice.choice(self._questions[scope])} (I ask since, {number}: {aside})"

    def answer(self, number: int, tokens: int) -> str:
        """An answer of so many tokens, fit for a header."""
        return plain(self.text(-number - 1, tokens * TOKEN_CHARS))


def plain(text: str) -> str:
    """A text as a header can hold it: ASCII, one line, bounded; never empty."""
    return " ".join(text.encode("ascii", "ignore").decode().split())[:ANSWER_CHARS_MAX].strip() or "Yes."


def read_trace(data: Path, name: str, words: Words) -> list[Arrival]:
    """A trace by its short name, one of FILES, in the order of its times."""
    made = {"azure": _azure, "mooncake": _mooncake, "sharegpt": _sharegpt}[name]
    return sorted(made(data / FILES[name], words), key=lambda arrival: arrival.at_s)


def _lone(
    words: Words, number: int, at_s: float, lengths: tuple[int, int], context: Callable[[int], str], session: str | None
) -> Arrival:
    """A request of which only lengths are known: (tokens of the prompt, tokens of the answer)."""
    asked, answered = lengths
    # A conversation stays with its user.
    user, scope = words.user(random.Random(session or number).randrange(words.users))

    def messages() -> Sequence[Message]:
        question = words.question(scope, number)
        before = context(asked * TOKEN_CHARS - len(question))
        asks = {"role": "user", "content": question}
        return [{"role": "system", "content": before}, asks] if before else [asks]

    return Arrival(at_s, user, session, messages, lambda: words.answer(number, answered), answered)


def _azure(path: Path, words: Words) -> Iterator[Arrival]:
    began: datetime | None = None
    try:
        rows = list(csv.DictReader(io.StringIO(lzma.decompress(path.read_bytes()).decode())))
    except (OSError, lzma.LZMAError, ValueError) as exc:
        raise SetUnreadable(f"{path}: {exc}") from exc
    for number, row in enumerate(rows):
        when = datetime.fromisoformat(row["TIMESTAMP"][:26])  # only differences are taken
        began = began or when
        lengths = (int(row["ContextTokens"]), int(row["GeneratedTokens"]))

        def context(characters: int, number: int = number) -> str:
            return words.text(number, characters)

        yield _lone(words, number, (when - began).total_seconds(), lengths, context, None)


def _mooncake(path: Path, words: Words) -> Iterator[Arrival]:
    sessions: dict[tuple[int, ...], str] = {}
    for number, row in enumerate(read_objects(path)):
        blocks = tuple(int(block) for block in row["hash_ids"])
        session = _session_of(sessions, blocks, f"mooncake-{number}")
        for length in range(2, len(blocks) + 1):
            sessions[blocks[:length]] = session

        def context(characters: int, blocks: tuple[int, ...] = blocks) -> str:
            size = BLOCK_TOKENS * TOKEN_CHARS
            return "".join(words.text(block, size).ljust(size) for block in blocks)[: max(characters, 0)]

        lengths = (int(row["input_length"]), int(row["output_length"]))
        yield _lone(words, number, row["timestamp"] / 1000, lengths, context, session)


def _session_of(sessions: Mapping[tuple[int, ...], str], blocks: tuple[int, ...], new: str) -> str:
    """Whose prompt this one begins with; the first block is every prompt's, so it tells nothing."""
    for length in range(len(blocks), 1, -1):
        if (known := sessions.get(blocks[:length])) is not None:
            return known
    return new


def _sharegpt(path: Path, words: Words) -> Iterator[Arrival]:
    dice = random.Random(20_260_301)
    for number, row in enumerate(read_objects(path)):
        user, _ = words.user(number % words.users)
        at_s = dice.uniform(0, SHAREGPT_BEGIN_S)
        said = _alternating(row["messages"])
        for place in range(0, len(said) - 1, 2):
            history, answer = said[: place + 1], said[place + 1]["content"]

            yield Arrival(at_s, user, None, partial(_same, history), partial(_same, answer), _tokens(answer))
            at_s += dice.expovariate(1 / SHAREGPT_TURN_S)


def _alternating(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The dialogue from its first user message on, while user and assistant take turns; answers as the stand-in can
    give them, so that the client sends back what it was given.
    """
    found: list[Message] = []
    for message in messages:
        role = "assistant" if len(found) % 2 else "user"
        if message["role"] == role:
            content = str(message["content"]) if role == "user" else plain(str(message["content"]))
            found.append({"role": role, "content": content})
        elif found:
            break
    return found


def _same(value: T) -> T:
    return value


def _tokens(text: str) -> int:
    return max(len(text) // TOKEN_CHARS, 1)
