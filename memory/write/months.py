"""Episodes made anew and compressed: what is left of a session, or the episodes of one month, in; one memory out.

A month is a few sentences of its episodes, under the day of each, in their own words: at most half of them, and never
longer than they are together. It says of how many it was made, and what they were about. None where nothing is left to
tell. Embeds; asks no other model. Raises EmbedderUnavailable.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memory.ids import derived_id
from memory.model import NewMemory
from memory.ports import Embedder, LanguageDetector
from memory.write.embedding import embedded, ending
from memory.write.episodes import DueSession, ToldTurn, episode_of
from memory.write.windows import TextTokenizer
from policies.labels import Integrity, Sensitivity, derived_integrity, derived_sensitivity
from policies.lifetime import DaysOf
from policies.summary import extract, sentences_of

EXTRACTOR_VERSION: Final = "month-1"
SENTENCES_MAX: Final = 24
TURNS_MAX: Final = 500
"""Of one month: it names every turn that it rests on, to whoever asks where it comes from."""
_LISTED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class OldTold:
    """An episode or a month that is to be told anew, as it stands."""

    memory_id: UUID
    scope_id: int
    collection: str
    session_id: UUID | None
    version: int
    content: str
    occurred_at: datetime | None
    integrity: str
    sensitivity: str
    attributes: dict[str, Any]
    expires_at: datetime | None
    validation_status: str


@dataclass(frozen=True, slots=True)
class OldEpisode:
    """An episode that is told in a month."""

    memory_id: UUID
    version: int
    content: str
    occurred_at: datetime | None
    integrity: str
    sensitivity: str
    attributes: dict[str, Any]

    @property
    def month(self) -> str:
        """ "2026-03", of its end, UTC."""
        return f"{_when(self):%Y-%m}"


@dataclass(frozen=True, slots=True)
class Historian:
    """Tells what is long past."""

    embedder: Embedder
    windows: TextTokenizer
    languages: LanguageDetector
    sentences_max: int  # of an episode
    lives: DaysOf
    clock: Callable[[], datetime]

    async def episode(self, tenant: UUID, old: OldTold, turns: Sequence[ToldTurn]) -> NewMemory | None:
        """The same episode of what may still be told."""
        memory = await asyncio.to_thread(self._episode, tenant, old, turns)
        return None if memory is None else await self._whole(memory)

    async def month(self, episodes: Sequence[OldEpisode]) -> NewMemory | None:
        """The month of these episodes."""
        memory = await asyncio.to_thread(month_of, episodes)
        if memory is None:
            return None
        (made,) = ending([await self._whole(memory)], self.clock(), self.lives)
        return made

    def _episode(self, tenant: UUID, old: OldTold, turns: Sequence[ToldTurn]) -> NewMemory | None:
        if not turns or old.session_id is None:
            return None
        due = DueSession(tenant, old.scope_id, old.session_id, turns[0].seq, turns[-1].seq + 1, idle=True)
        memory = episode_of(due, turns, self.sentences_max, told_in_full=True)
        if memory is None:
            return None
        measured: dict[str, Any] = {name: old.attributes[name] for name in _MEASURED if name in old.attributes}
        return replace(memory, attributes={**memory.attributes, **measured})

    async def _whole(self, memory: NewMemory) -> NewMemory:
        (made,) = await embedded([memory], self.embedder, self.windows)
        return replace(made, language=self.languages.detect(made.content))


# What an episode said of its range does not change with what may be told of it.
_MEASURED: Final[tuple[str, ...]] = ("tokens", "duration_s", "first_seq", "last_seq", "turns")


def by_month(episodes: Sequence[OldEpisode]) -> list[list[OldEpisode]]:
    """The episodes of each month, in order; several lists of one month where they rest on more than TURNS_MAX turns."""
    months: list[list[OldEpisode]] = []
    turns = 0
    for one in sorted(episodes, key=lambda one: (_when(one), one.memory_id)):
        own = one.attributes.get("turns")
        turns += own if isinstance(own, int) else 0
        if not months or months[-1][0].month != one.month or turns > TURNS_MAX:
            months.append([])
            turns = own if isinstance(own, int) else 0
        months[-1].append(one)
    return months


def month_of(episodes: Sequence[OldEpisode]) -> NewMemory | None:
    """The month of these episodes as a memory without vectors; None where they say nothing."""
    content = _told(episodes)
    if not content:
        return None
    first = episodes[0].memory_id
    return NewMemory(
        memory_id=derived_id(first, "month"),
        kind="summary",
        content=content,
        content_key=hashlib.sha256(b"month" + first.bytes).digest(),
        role="assistant",
        integrity=derived_integrity(Integrity(one.integrity) for one in episodes),
        sensitivity=derived_sensitivity(Sensitivity(one.sensitivity) for one in episodes),
        origin="episode",
        importance=0.5,
        confidence=1.0,
        occurred_at=_when(episodes[-1]),
        extractor_version=EXTRACTOR_VERSION,
        source_turns=(),
        attributes={
            "month": episodes[0].month,
            "episodes": len(episodes),
            "topics": _listed(episodes, "topics"),
            "entities": _listed(episodes, "entities"),
            "outcomes": dict(Counter(str(one.attributes.get("outcome", "unknown")) for one in episodes)),
        },
    )


def _told(episodes: Sequence[OldEpisode]) -> str:
    said = [sentence for place, one in enumerate(episodes) for sentence in sentences_of(one.content, "user", place)]
    chosen = extract(said, min(SENTENCES_MAX, (len(said) + 1) // 2))
    most = sum(len(one.content) for one in episodes)
    while chosen:
        by_place: dict[int, list[str]] = {}
        for sentence in chosen:
            by_place.setdefault(sentence.turn, []).append(sentence.text)
        lines = [f"{_when(episodes[place]):%d %B %Y}: {' '.join(texts)}" for place, texts in by_place.items()]
        bare = [" ".join(texts) for texts in by_place.values()]
        for told in ("\n".join(lines), "\n".join(bare)):
            if len(told) <= most:
                return told
        chosen.pop()
    return ""


def _when(one: OldEpisode) -> datetime:
    return (one.occurred_at or datetime.min.replace(tzinfo=UTC)).astimezone(UTC)


def _listed(episodes: Sequence[OldEpisode], name: str) -> list[str]:
    """What most of them name."""
    found: Counter[str] = Counter()
    for one in episodes:
        listed = one.attributes.get(name)
        if isinstance(listed, list):
            found.update(list(dict.fromkeys(word for word in listed if isinstance(word, str))))
    return [word for word, _ in found.most_common(_LISTED_MAX)]
