"""The set `mixed`: LoCoMo, BEAM and ShareGPT in, scopes out that hold a person with two lives.

Each scope holds one LoCoMo conversation and one BEAM chat, paired in order of their names, and is asked the questions
of both. The first user turns of ShareGPT's dialogues are asked too, one scope each, in turn: requests that no memory
here has anything for, mostly long. Sessions and source ids stay, so a conversation that is in two scopes has the same
ids in both: a leak between those two would not show here, and their intervals are a little too narrow.
Refuses (SetUnreadable) what the sets themselves refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.recall.corpus import OPENING, EvalSet, Question, SetUnreadable, read_objects, read_set

NAME: Final = "mixed"
_OPENINGS: Final = "sharegpt_300_multiturn.jsonl.xz"


def read_mixed(data: Path) -> EvalSet:
    """The set. Raises SetUnreadable."""
    talks, chats = read_set(data, "locomo"), read_set(data, "beam")
    lines: dict[str, tuple[Mapping[str, str], ...]] = {}
    questions: list[Question] = []
    for talk, chat in paired(sorted(talks.lines), sorted(chats.lines)):
        scope = f"{talk}+{chat}"
        lines[scope] = (*talks.lines[talk], *chats.lines[chat])
        asked = (q for q in (*talks.questions, *chats.questions) if q.scope in (talk, chat))
        questions += [replace(question, scope=scope) for question in asked]
    dialogues = read_objects(data / _OPENINGS)
    return EvalSet(NAME, lines, (*questions, *openings(dialogues, tuple(lines))))


def paired(talks: Sequence[str], chats: Sequence[str]) -> list[tuple[str, str]]:
    """A talk for each chat, the talks over again where they are fewer. Raises SetUnreadable without any."""
    if not talks or not chats:
        raise SetUnreadable("a mixed set needs a conversation and a chat at least")
    return [(talks[number % len(talks)], chat) for number, chat in enumerate(chats)]


def openings(dialogues: Sequence[Mapping[str, Any]], scopes: Sequence[str]) -> list[Question]:
    """The first user turn of each dialogue that has one, asked of the scopes in turn. Nothing answers them."""
    firsts = (
        (dialogue, next((m["content"] for m in dialogue["messages"] if m["role"] == "user"), ""))
        for dialogue in dialogues
    )
    said = [(str(dialogue["id"]), text) for dialogue, text in firsts if text.strip()]
    return [
        Question(
            question_id=f"opening-{name}",
            scope=scopes[number % len(scopes)],
            kind=OPENING,
            text=text,
            gold=frozenset(),
            stale=frozenset(),
            answerable=False,
        )
        for number, (name, text) in enumerate(said)
    ]
