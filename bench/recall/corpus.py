"""Conversation sets with known evidence: `NAME.{corpus,queries}.jsonl.xz` in, import lines and questions out.

A turn without a date takes the last one of its scope. LoCoMo's speakers are users with a name; others keep their role.
Where an audit corrected a question's evidence or answer, the corrected one counts.
Refuses (SetUnreadable) missing files, unknown date formats, and evidence that names unknown turns.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

SETS: Final = {"locomo": "locomo", "beam": "beam_100K", "memsim": "memsim_zh"}
OPENING: Final = "opening"
"""The kind of a question that opens some conversation and that no memory here has anything for."""
_ROLES: Final = frozenset({"user", "assistant", "system", "tool"})
_MONTHS: Final = tuple(
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_CHINESE: Final = re.compile(r"(\d{4})年(\d+)月(\d+)日.*?(\d+):(\d+)")  # 2024年04月01日 周一 08:43
_CLOCK_FIRST: Final = re.compile(r"(\d+):(\d+) (am|pm) on (\d+) (\w+), (\d{4})")  # 7:31 pm on 21 January, 2022
_MONTH_FIRST: Final = re.compile(r"(\w+)-(\d+)-(\d{4})")  # March-15-2024


class SetUnreadable(Exception):
    """An evaluation set that cannot be used; the text says which file and why."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `gold` are the turns that answer it, `stale` those that did before; no gold: unanswerable.

    `answer` is the known one, as the audit corrected it; empty where there is none.
    """

    question_id: str
    scope: str
    kind: str
    text: str
    gold: frozenset[str]
    stale: frozenset[str]
    answerable: bool
    answer: str = ""


@dataclass(frozen=True, slots=True)
class EvalSet:
    """One set: lines of `POST /memory/v1/import` by scope, in order, and the questions asked of those scopes."""

    name: str
    lines: Mapping[str, tuple[Mapping[str, str], ...]]
    questions: tuple[Question, ...]

    @property
    def turn_count(self) -> int:
        """Turns of all scopes."""
        return sum(map(len, self.lines.values()))

    @property
    def own(self) -> Mapping[str, frozenset[str]]:
        """The ids of each scope's turns."""
        return {scope: frozenset(line["source_id"] for line in lines) for scope, lines in self.lines.items()}

    @property
    def dates(self) -> Mapping[str, str]:
        """The day of each turn that has one, like 2024-03-15, in UTC."""
        turns = (line for lines in self.lines.values() for line in lines)
        return {line["source_id"]: line["occurred_at"][:10] for line in turns if "occurred_at" in line}


def group_of(question: Question) -> str:
    """`answerable`, `unanswerable` (asks for what was not said) or `opening` (asks for something else altogether)."""
    if question.kind == OPENING:
        return OPENING
    return "answerable" if question.answerable else "unanswerable"


def read_set(data: Path, name: str) -> EvalSet:
    """A set by its short name, one of SETS. Raises SetUnreadable."""
    stem = data / SETS[name]
    lines: dict[str, list[Mapping[str, str]]] = {}
    last: dict[str, datetime] = {}
    for turn in read_objects(stem.with_name(f"{stem.name}.corpus.jsonl.xz")):
        scope = str(turn["scope"])
        if turn.get("date"):
            last[scope] = parse_date(str(turn["date"]))
        lines.setdefault(scope, []).append(_line(turn, last.get(scope)))
    known = {line["source_id"] for of_scope in lines.values() for line in of_scope}
    asked = read_objects(stem.with_name(f"{stem.name}.queries.jsonl.xz"))
    questions = tuple(_question(query, known) for query in asked)
    return EvalSet(name, {scope: tuple(of_scope) for scope, of_scope in lines.items()}, questions)


def parse_date(text: str) -> datetime:
    """A set's own way to write a time, as UTC; midnight where only the day is known. Raises SetUnreadable."""
    if found := _CHINESE.search(text):
        year, month, day, hour, minute = map(int, found.groups())
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    if found := _CLOCK_FIRST.search(text):
        hour = int(found[1]) % 12 + (12 if found[3] == "pm" else 0)
        return datetime(int(found[6]), _month(found[5]), int(found[4]), hour, int(found[2]), tzinfo=UTC)
    if found := _MONTH_FIRST.search(text):
        return datetime(int(found[3]), _month(found[1]), int(found[2]), tzinfo=UTC)
    raise SetUnreadable(f"not a date of a known format: {text!r}")


def spoken(line: Mapping[str, str]) -> str:
    """A turn's words under its speaker's name, where it has one."""
    return f"{line['name']}: {line['content']}" if "name" in line else line["content"]


def _month(name: str) -> int:
    if name.lower() not in _MONTHS:
        raise SetUnreadable(f"not a month: {name!r}")
    return _MONTHS.index(name.lower()) + 1


def read_objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a compressed JSON-lines file. Raises SetUnreadable."""
    try:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]
    except (OSError, lzma.LZMAError, ValueError) as exc:
        raise SetUnreadable(f"{path}: {exc}") from exc


def _line(turn: Mapping[str, Any], occurred_at: datetime | None) -> Mapping[str, str]:
    speaker = str(turn["role"])
    line = {"session": str(turn["session"]), "role": speaker, "content": str(turn["text"]), "source_id": turn["id"]}
    if speaker not in _ROLES:
        line |= {"role": "user", "name": speaker}
    if occurred_at is not None:
        line["occurred_at"] = occurred_at.isoformat()
    return line


def _question(query: Mapping[str, Any], known: set[str]) -> Question:
    scope = str(query["scope"])
    audit = query.get("audit") or {}
    gold = _corrected(scope, audit.get("correct_evidence") or ()) or frozenset(query["gold"])
    if not gold <= known:
        raise SetUnreadable(f"{query['qid']}: evidence {sorted(gold - known)} is no turn")
    return Question(
        question_id=str(query["qid"]),
        scope=scope,
        kind=str(query["type"]),
        text=str(query["q"]),
        gold=gold,
        stale=frozenset(query.get("stale") or ()),
        answerable=bool(gold) and not query.get("unanswerable"),
        answer=str(audit.get("correct_answer") or query.get("answer") or ""),
    )


def _corrected(scope: str, evidence: Sequence[str]) -> frozenset[str]:
    """The audit's turn ids, which leave out the scope."""
    prefix = f"{scope}:"
    return frozenset(turn_id if turn_id.startswith(prefix) else prefix + turn_id for turn_id in evidence)
