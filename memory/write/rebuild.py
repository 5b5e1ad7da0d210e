"""A summary made anew: the turns that are left in, the memory with its vectors out; None where nothing is left to say.

Read piece by piece (memory.write.summarise), so a long conversation is never read whole by the extraction. Embeds.
Raises EmbedderUnavailable. No model beside the embedder.
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
from memory.write.summarise import summary_anew
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
        session = SessionRef(old.session_id, old.label)
        memory = await asyncio.to_thread(summary_anew, session, turns, self.sentences_max)
        if memory is None:
            return None
        (made,) = await embedded([memory], self.embedder, self.windows)
        return replace(
            made,
            language=self.languages.detect(memory.content),
            expires_at=expires_at(memory.kind, self.clock(), self.lives),
        )
