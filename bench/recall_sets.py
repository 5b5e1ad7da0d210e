"""Conversation sets with known evidence: files of the evaluation data -> turns, questions, and one ScopeIndex a scope.

Comes in: `{locomo,beam_100K,memsim_zh}.{corpus,queries}.jsonl.xz` and `sharegpt_300_multiturn.jsonl.xz`. Goes out:
values that `bench.tune_recall` asks and scores. Vectors come from the product's own embedder and are kept in a cache
directory under a digest of model and texts. Refuses: a set whose evidence names unknown turns (KeyError).

Turns are laid out as import would: a missing date is the one before it, LoCoMo's speakers stand in the text.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import lzma
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
from numpy.typing import NDArray

from bench.recall.mixed import paired
from bench.recall_facts import facts_of
from memory.adapters.embedder import OnnxEmbedder
from memory.read.index import ScopeIndex
from memory.read.items import IndexItem
from memory.write.windows import split_windows

SETS = ("locomo", "beam_100K", "memsim_zh")
MIXED = {"locomo": "conv-", "beam_100K": "beam"}
CONTEXT_TURNS = 2
_FIRST_ARRIVAL = datetime(2026, 1, 1, tzinfo=UTC)
_MONTH_NAMES = "january february march april may june july august september october november december"
_CHINESE = re.compile(r"(\d{4})年(\d+)月(\d+)日.*?(\d+):(\d+)")
_CHAT = re.compile(r"(\d+):(\d+) (am|pm) on (\d+) (\w+), (\d{4})")
_DAY = re.compile(r"(\w+)-(\d+)-(\d{4})")


@dataclass(frozen=True, slots=True)
class Turn:
    """One past turn; `context` is the text of the turns before it, oldest first."""

    turn_id: str
    scope: str
    session: str
    role: str
    text: str
    context: str
    occurred_at: datetime | None
    speaker: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """One question; `gold` are the turns that answer it, `stale` those that used to. Unanswerable: no gold.

    `answer` is the set's own, in words.
    """

    question_id: str
    scope: str
    kind: str
    text: str
    gold: frozenset[str]
    stale: frozenset[str]
    answerable: bool
    answer: str


@dataclass(frozen=True, slots=True)
class RecallSet:
    """Turns and questions of one set, with the vector of each question, shape [questions, dim]."""

    name: str
    indexes: Mapping[str, ScopeIndex]
    questions: tuple[Question, ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Variant:
    """What an ablation changes in how turns are laid out."""

    context_turns: int = CONTEXT_TURNS
    second_speaker: str = "user"


@dataclass(frozen=True, slots=True)
class Foreign:
    """Questions from elsewhere, with their vectors, shape [questions, dim]."""

    texts: tuple[str, ...]
    vectors: NDArray[np.float32]


class Vectors:
    """Texts to vectors through the embedder, each list of texts computed once and kept."""

    def __init__(self, embedder: OnnxEmbedder, cache: Path) -> None:
        self._embedder = embedder
        self._cache = cache
        cache.mkdir(parents=True, exist_ok=True)

    @property
    def embedder(self) -> OnnxEmbedder:
        """The embedder itself, for its tokenizer and dimension."""
        return self._embedder

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape [len(texts), dim]."""
        digest = hashlib.sha256(self._embedder.digest.encode())
        for text in texts:
            digest.update(text.encode() + b"\0")
        path = self._cache / f"{digest.hexdigest()[:32]}.npy"
        if not path.exists():
            np.save(path, asyncio.run(self._embedder.embed_documents(texts)))
        loaded: NDArray[np.float32] = np.load(path)
        return loaded


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a compressed JSON-lines file."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_set(
    data: Path, name: str, vectors: Vectors, variant: Variant | None = None, *, facts: bool = True
) -> RecallSet:
    """One set, indexed; with the facts that its turns state, unless said otherwise."""
    turns = _turns(read_lines(data / f"{name}.corpus.jsonl.xz"), variant or Variant())
    questions = _questions(read_lines(data / f"{name}.queries.jsonl.xz"), {turn.turn_id for turn in turns})
    items: dict[str, list[IndexItem]] = {}
    for turn, item in zip(turns, items_of(turns, vectors), strict=True):
        items.setdefault(turn.scope, []).append(item)
    indexes = {scope: indexed(of_scope, vectors, facts=facts) for scope, of_scope in items.items()}
    return RecallSet(name, indexes, questions, vectors.of([question.text for question in questions]))


def indexed(items: Sequence[IndexItem], vectors: Vectors, *, facts: bool) -> ScopeIndex:
    """Items of one scope, and the facts that they state."""
    index = ScopeIndex(vectors.embedder.dim)
    for item in items:
        index.put(item)
    stated = facts_of(items) if facts else []
    for (fact, _), vector in zip(stated, vectors.of([text for _, text in stated]) if stated else (), strict=True):
        index.put(replace(fact, vectors=vector[None]))
    return index


def read_mixed(data: Path, vectors: Vectors, *, facts: bool = True) -> RecallSet:
    """One LoCoMo conversation and one BEAM chat in each scope: a person with two lives, asked about both."""
    items: dict[str, list[IndexItem]] = {}
    asked: dict[str, list[Question]] = {}
    for name in MIXED:
        turns = _turns(read_lines(data / f"{name}.corpus.jsonl.xz"), Variant())
        for turn, item in zip(turns, items_of(turns, vectors), strict=True):
            items.setdefault(turn.scope, []).append(item)
        known = {turn.turn_id for turn in turns}
        for question in _questions(read_lines(data / f"{name}.queries.jsonl.xz"), known):
            asked.setdefault(question.scope, []).append(question)
    talks, chats = ([scope for scope in sorted(items) if scope.startswith(start)] for start in MIXED.values())
    indexes: dict[str, ScopeIndex] = {}
    questions: list[Question] = []
    for both in paired(talks, chats):
        of_both = [item for scope in both for item in items[scope]]
        indexes["+".join(both)] = indexed(of_both, vectors, facts=facts)
        questions += [replace(question, scope="+".join(both)) for scope in both for question in asked[scope]]
    return RecallSet("mixed", indexes, tuple(questions), vectors.of([question.text for question in questions]))


def read_openings(data: Path, vectors: Vectors) -> Foreign:
    """First user turns of ShareGPT dialogues: requests that no scope here has anything for, mostly long."""
    dialogues = read_lines(data / "sharegpt_300_multiturn.jsonl.xz")
    firsts = (next((m["content"] for m in d["messages"] if m["role"] == "user"), "") for d in dialogues)
    texts = tuple(text for text in firsts if text.strip())
    return Foreign(texts, vectors.of([text[-4_000:] for text in texts]))


def dense_text(turn: Turn, start: int, end: int) -> str:
    """What is embedded of one window: its words under their date, as the write path does it."""
    return (f"{turn.occurred_at:%d %B %Y}: " if turn.occurred_at else "") + turn.text[start:end]


def items_of(turns: Sequence[Turn], vectors: Vectors) -> Iterable[IndexItem]:
    """Turns as an index takes them, with the vectors of their windows."""
    windows = [tuple(split_windows(turn.text, vectors.embedder)) for turn in turns]
    texts = [dense_text(turn, *window) for turn, ranges in zip(turns, windows, strict=True) for window in ranges]
    found, at = vectors.of(texts), 0
    for number, (turn, ranges) in enumerate(zip(turns, windows, strict=True)):
        yield _item(turn, number, ranges, found[at : at + len(ranges)])
        at += len(ranges)


def _item(turn: Turn, number: int, ranges: tuple[tuple[int, int], ...], found: NDArray[np.float32]) -> IndexItem:
    return IndexItem(
        memory_id=_uuid(turn.turn_id),
        kind="episodic",
        role=turn.role,
        content=turn.text,
        context=turn.context,
        occurred_at=turn.occurred_at,
        session_id=_uuid(turn.session),
        seq=number,
        integrity="user",
        sensitivity="internal",
        importance=0.5,
        expires_at=None,
        scope_id=1,
        source_ids=(turn.turn_id,),
        event_ids=(_uuid(turn.turn_id),),
        windows=ranges,
        vectors=found,
        created_at=_FIRST_ARRIVAL + timedelta(microseconds=number),
        speaker=turn.speaker,
    )


def _uuid(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, name)


def _turns(lines: Sequence[Mapping[str, Any]], variant: Variant) -> list[Turn]:
    turns: list[Turn] = []
    first_speaker: dict[str, str] = {}
    for line in lines:
        role, text, named = str(line["role"]), str(line["text"]), str(line["role"]) not in ("user", "assistant")
        if named:
            speaker = first_speaker.setdefault(line["scope"], role)
            text, role = f"{role}: {text}", "user" if role == speaker else variant.second_speaker
        last = turns[-1] if turns and turns[-1].scope == line["scope"] else None
        said = _date(line["date"]) or (last.occurred_at if last else None)
        before = [turn.text for turn in turns[-variant.context_turns :] if turn.session == line["session"]]
        context = "\n".join(before if variant.context_turns else [])
        name = str(line["role"]) if named else None
        turns.append(Turn(line["id"], line["scope"], line["session"], role, text, context, said, name))
    return turns


def _questions(lines: Sequence[Mapping[str, Any]], known: set[str]) -> tuple[Question, ...]:
    questions = []
    for line in lines:
        gold = set(line["gold"])
        corrected = (line.get("audit") or {}).get("correct_evidence")
        if corrected:
            prefix = f"{line['scope']}:"
            gold = {turn_id if turn_id.startswith(prefix) else prefix + turn_id for turn_id in corrected}
        if not gold <= known:
            raise KeyError(f"{line['qid']}: evidence {sorted(gold - known)} is no turn")
        answerable = bool(gold) and not line.get("unanswerable")
        stale = frozenset(line.get("stale", ()))
        questions.append(
            Question(
                line["qid"],
                line["scope"],
                line["type"],
                line["q"],
                frozenset(gold),
                stale,
                answerable,
                str(line.get("answer") or ""),
            )
        )
    return tuple(questions)


def _date(text: str | None) -> datetime | None:
    """A set's own way to write a time; UTC, midnight when only the day is known."""
    if not text:
        return None
    if match := _CHINESE.search(text):
        return datetime(*map(int, match.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
    if match := _CHAT.search(text):
        hour = int(match[1]) % 12 + (12 if match[3] == "pm" else 0)
        return datetime(int(match[6]), _month(match[5]), int(match[4]), hour, int(match[2]), tzinfo=UTC)
    if match := _DAY.search(text):
        return datetime(int(match[3]), _month(match[1]), int(match[2]), tzinfo=UTC)
    raise ValueError(f"no date: {text!r}")


def _month(name: str) -> int:
    return _MONTH_NAMES.split().index(name.lower()) + 1
