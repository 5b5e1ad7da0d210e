"""A page of documents asks for the names of its conversations once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from memory.documents import DocumentRecord, FileFacts, UploadRecord
from memory.model import Scope
from proxy.api.documents import Documents
from proxy.api.sessions import Labels

NOW = datetime(2026, 11, 28, tzinfo=UTC)


class Names:
    """Sessions that are called by their number, and how often it was asked for any."""

    def __init__(self) -> None:
        self.asked = 0

    async def labels(self, scope: Scope, session_ids: Sequence[UUID]) -> dict[UUID, str]:
        self.asked += 1
        return {one: str(one.int) for one in session_ids if one.int != 3}


async def test_the_names_of_all_conversations_of_a_page_are_asked_for_at_once() -> None:
    """A page of 1,000 was 1,000 transactions, one after the other."""
    upload = UploadRecord(UUID(int=1), "done", None, "text/plain", 1, 1, 1, 1, 0, 0, 0, NOW, NOW)
    facts = FileFacts("text/plain", bytes(32), 1, 1, 0, "user", "internal")
    one = DocumentRecord(UUID(int=1), "d", 1, facts, "auto", None, None, 1, NOW, NOW, None, upload)
    two, three = UUID(int=2), UUID(int=3)
    page = [one, replace(one, session_id=two), replace(one, shown_in=two), replace(one, shown_in=three)]
    names, parts = Names(), SimpleNamespace(documents=SimpleNamespace(budget_tokens=1_000))
    own: Any = parts
    told: Any = names
    shown = await Documents(own, Labels(told)).shown(Scope(UUID(int=9), "u", "p", "a"), page)
    assert [said.session for said in shown] == [None, "2", "2", None]
    assert [said.save for said in shown] == ["memory", "session", "memory", "memory"]
    assert names.asked == 1
