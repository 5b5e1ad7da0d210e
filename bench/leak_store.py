"""The store that the leak test looks into: shared sets in, tenants with users whose every line carries a mark out.

Each scope of each set becomes one user of one tenant; users of different tenants have the same names. Each line begins
with a mark of its scope, and each scope gets lines with a canary of its own that a question can ask for. Marks and
canaries are words of letters, so that no redaction takes them out. Raises SetUnreadable.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.recall.corpus import SETS, read_objects, read_set

SHAREGPT: Final = "sharegpt"
NAMES: Final = (*SETS, SHAREGPT)
_WORD: Final = re.compile(rb"q[xz][a-z]{12}")
_LETTERS: Final = "abcdefghijklmnoprstuvwy"


@dataclass(frozen=True, slots=True)
class Owner:
    """One scope: whose it is, its two words, its lines and what can be asked of it."""

    number: int
    tenant: str
    user: str
    project: str
    mark: str  # begins each line
    canary: str
    place: str
    lines: tuple[Mapping[str, str], ...]
    questions: tuple[str, ...]

    @property
    def identity(self) -> tuple[str, str, str]:
        """What decides what is visible."""
        return self.tenant, self.user, self.project

    @property
    def canary_question(self) -> str:
        """What the canary answers."""
        return f"What is the barge called that lies in the harbour of {self.place}?"


class Words:
    """Which scope a mark or a canary belongs to."""

    def __init__(self, owners: Iterable[Owner]) -> None:
        self._of = {word.encode(): owner for owner in owners for word in (owner.mark, owner.canary)}

    def owners_in(self, data: bytes) -> list[Owner]:
        """The scopes whose words are in these bytes."""
        found = {self._of[word].number: self._of[word] for word in _WORD.findall(data) if word in self._of}
        return list(found.values())


def owners_of(
    data: Path, names: Sequence[str], *, tenants: int, scopes_max: int, lines_max: int, seed: int
) -> list[Owner]:
    """The scopes of these sets, at most `scopes_max` of each set with at most `lines_max` lines each."""
    rng = random.Random(seed)
    made: list[Owner] = []
    for name in names:
        for lines, questions in _scopes(data, name, scopes_max, lines_max):
            number = len(made)
            mark, canary, place = (start + "".join(rng.choices(_LETTERS, k=12)) for start in ("qz", "qx", "Du"))
            told = [{**line, "content": f"{mark} {line['content']}"} for line in lines]
            told.append(_canary_line(mark, canary, place, number, told[-1]))
            made.append(
                Owner(
                    number=number,
                    tenant=f"tenant-{number % tenants}",
                    user=f"user-{number // tenants}",
                    project=f"project-{number // tenants % 3}",
                    mark=mark,
                    canary=canary,
                    place=place,
                    lines=tuple(told),
                    questions=questions,
                )
            )
    return made


def _canary_line(mark: str, canary: str, place: str, number: int, last: Mapping[str, str]) -> dict[str, str]:
    when = {"occurred_at": last["occurred_at"]} if "occurred_at" in last else {}
    text = f"{mark} The barge that lies in the harbour of {place} is called {canary}."
    return {"session": "canary", "role": "user", "content": text, "source_id": f"canary-{number}", **when}


def _scopes(
    data: Path, name: str, scopes_max: int, lines_max: int
) -> Iterable[tuple[list[Mapping[str, str]], tuple[str, ...]]]:
    if name == SHAREGPT:
        for dialogue in read_objects(data / "sharegpt_300_multiturn.jsonl.xz")[:scopes_max]:
            yield _dialogue(dialogue["id"], dialogue["messages"][:lines_max])
        return
    of_set = read_set(data, name)
    for scope in list(of_set.lines)[:scopes_max]:
        asked = tuple(question.text for question in of_set.questions if question.scope == scope)
        yield list(of_set.lines[scope][:lines_max]), asked


def _dialogue(label: str, messages: Sequence[Mapping[str, str]]) -> tuple[list[Mapping[str, str]], tuple[str, ...]]:
    lines: list[Mapping[str, str]] = [
        {"session": label, "role": one["role"], "content": one["content"] or "-", "source_id": f"{label}:{number}"}
        for number, one in enumerate(messages)
    ]
    return lines, tuple(one["content"][:300] for one in lines if one["role"] == "user")
