"""A summary made anew: the turns that are left in, the memory with its vectors out; None where nothing is left to say.

Read piece by piece, each with the summary of those before it, as the summary grew in the first place
(memory.write.summarise), so a long conversation is never read whole by the extraction. Embeds. Raises
EmbedderUnavailable. No model beside the embedder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.consolidation import OldSummary
from memory.model import NewMemory, SessionRef
from memory.ports import Embedder, LanguageDetector
from memory.stored import StoredTurn
from memory.write.embedding import embedded
from memory.write.summarise import TURNS_READ_MAX, Earlier, summary_of
from memory.write.windows import TextTokenizer
from policies.lifetime import DaysOf, expires_at


@dataclass(frozen=True, slots=True)
class Rebuilder:
    """Makes summaries anew."""

    embedder: Embedder
    windows: TextTokenizer
    languages: LanguageDetector
    sentences_max: int
    lives: DaysOf
    clock: Callable[[], datetime]

    async def __call__(self, old: OldSummary, turns: Sequence[StoredTurn]) -> NewMemory | None:
        """The summary of these turns."""
        memory = await asyncio.to_thread(self._read, SessionRef(old.session_id, old.label), turns)
        if memory is None:
            return None
        (made,) = await embedded([memory], self.embedder, self.windows)
        return replace(
            made,
            language=self.languages.detect(memory.content),
            expires_at=expires_at(memory.kind, self.clock(), self.lives),
        )

    def _read(self, session: SessionRef, turns: Sequence[StoredTurn]) -> NewMemory | None:
        pieces: list[NewMemory] = []
        for start in range(0, len(turns), TURNS_READ_MAX):
            earlier = Earlier.made(pieces[-1]) if pieces else None
            piece = summary_of(session, earlier, turns[start : start + TURNS_READ_MAX], self.sentences_max)
            pieces += [piece] if piece is not None else []
        if not pieces:
            return None
        sources = dict.fromkeys(turn for piece in pieces for turn in piece.source_turns)
        return replace(pieces[-1], source_turns=tuple(sources))
