"""Pages of the web as documents on a real database: kept by their URL, known by their time, looked for once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from memory.audit import noted
from memory.errors import RateLimited
from memory.ids import derived_id
from memory.model import Captured, Entry, Placed, Retrieval, SessionRef, Shown, Turn
from memory.outside import Gained, Missed, WebPage
from memory.telemetry import Metrics
from memory.web import Block
from memory.web_documents import NAME_CHARS_MAX, WebDocuments, name_of
from memory.write.outside import WAITING_MAX, LooksBehind, asked_in
from policies.labels import Sensitivity
from policies.web_need import Known, need_of
from tests.postgres.seed import T0, digest, turn
from tests.postgres.test_documents import Shelf, hide, shelf, show
from tests.waiting import until

__all__ = ["shelf"]
URL = "https://example.org/releases"
NEWS = "What is the latest version of PostgreSQL?"
TEXT = "The newest release is PostgreSQL 19, which came out in autumn and is supported for years."


def page(text: str = TEXT, url: str = URL, title: str = "Releases", at: datetime = T0) -> WebPage:
    blocks = (Block("heading", "News"), Block("text", text), Block("item", "Free software"))
    return WebPage(url, title, "2026-10-01T00:00:00Z", at, blocks, cut=False, why="news")


def keeps(shelf: Shelf, waiting_max: int = 16) -> WebDocuments:
    return WebDocuments(shelf.store, shelf.keys, partial(re.sub, "hunter2|swordfish", "[redacted]"), waiting_max)


async def kept(shelf: Shelf, *pages: WebPage, at: datetime = T0) -> list[UUID]:
    """Keep these and have a worker store them."""
    ids = await keeps(shelf).keep(shelf.scope, "worker", pages, at)
    for _ in pages:
        assert await shelf.work() is not None
    return ids


async def test_a_page_is_a_document_with_url_title_time_and_integrity(shelf: Shelf) -> None:
    (document_id,) = await kept(shelf, page())
    record = await shelf.document(document_id)
    assert (record.name, record.facts.integrity, record.facts.media_type) == (URL, "web", "text/html")
    (chunk,) = await shelf.chunks(document_id)
    assert TEXT in chunk.content and "Free software" in chunk.content and chunk.heading == ("News",)
    memory = await shelf.memories.memory(shelf.scope, chunk.memory_id)
    assert (memory.integrity, memory.occurred_at) == ("web", record.created_at)
    assert memory.attributes["title"] == "Releases (2026-10-01)" and memory.attributes["name"] == URL
    assert await shelf.recalled() == {chunk.content}


async def test_a_page_fetched_again_is_its_next_version_and_is_known_as_newer(shelf: Shelf) -> None:
    (first,) = await kept(shelf, page())
    ids = [one.memory_id for one in await shelf.chunks(first)]
    before = await shelf.records.newest_page(shelf.scope, ids)
    (again,) = await kept(shelf, page("Now it is PostgreSQL 20."), at=T0 + timedelta(days=8))
    assert again == first and (await shelf.document(first)).version == 2
    assert any("PostgreSQL 20" in said for said in await shelf.recalled())
    new = [one.memory_id for one in await shelf.chunks(first)]
    after = await shelf.records.newest_page(shelf.scope, new)
    assert before is not None and after is not None and after >= before
    own = await shelf.put("A file of the user's own, which is no page of the web.", name="own.md")
    of_file = [one.memory_id for one in await shelf.chunks(own)]
    assert await shelf.records.newest_page(shelf.scope, of_file) is None


async def test_a_page_that_is_shown_again_is_no_newer_than_it_was(shelf: Shelf) -> None:
    (document_id,) = await kept(shelf, page())
    ids = [one.memory_id for one in await shelf.chunks(document_id)]
    later = T0 + timedelta(days=20)
    await hide(shelf, document_id, later)
    await show(shelf, document_id, later)
    assert await shelf.records.newest_page(shelf.scope, ids) == T0


async def test_a_page_takes_no_files_place_whatever_that_is_called(shelf: Shelf) -> None:
    own = await shelf.put("What the user saved of it and wrote beside it.", name=URL)
    for at in (0, 1):
        (document_id,) = await kept(shelf, page(), at=T0 + timedelta(days=at))
        record = await shelf.document(document_id)
        assert document_id != own and (record.name, record.facts.integrity) == (f"{URL} (web)", "web")
    file = await shelf.document(own)
    assert (file.name, file.version, file.facts.integrity) == (URL, 1, "user")
    assert any("wrote beside it" in one.content and not one.hidden for one in await shelf.chunks(own))


async def test_a_page_takes_no_place_of_a_file_that_waits(shelf: Shelf) -> None:
    """Where the document is a page still, and becomes the file that somebody has just sent for it."""
    await kept(shelf, page())
    own = await shelf.stage("What the user saved of it and wrote beside it.", name=URL)
    await keeps(shelf).keep(shelf.scope, "worker", [page("Another text of the page.")], T0 + timedelta(days=1))
    for _ in range(2):
        assert await shelf.work() is not None
    file = await shelf.document(own)
    assert (file.upload.status, file.facts.integrity) == ("done", "user")
    assert any("wrote beside it" in one.content for one in await shelf.chunks(own))
    listed = (await shelf.records.documents(shelf.scope, limit=9)).rows
    assert {one.name for one in listed} == {URL, f"{URL} (web)"}


@pytest.mark.parametrize("name", [URL, f"{URL} (web)"])
async def test_a_page_that_somebody_deleted_is_kept_again_only_where_it_is_asked_for(shelf: Shelf, name: str) -> None:
    own = [URL] if name != URL else []
    for one in own:
        await shelf.put("What the user saved of it and wrote beside it.", name=one)
    (document_id,) = await kept(shelf, page())
    note = noted(shelf.scope.tenant, "open", "document.delete", ids=[document_id])
    await shelf.records.hide(shelf.scope, document_id, T0, note=note, may=lambda _: None)
    other = page(url="https://example.org/other")
    await keeps(shelf).keep(shelf.scope, "worker", [page(), other], T0)
    assert await shelf.work() is not None
    assert {row.name for row in (await shelf.records.documents(shelf.scope, limit=9)).rows} == {other.url, *own}
    (again,) = await kept(shelf, replace(page(), why="asked"), at=T0 + timedelta(days=1))
    assert again != document_id and (await shelf.document(again)).name == name
    assert await kept(shelf, page(), at=T0 + timedelta(days=2)) == [again], "and from then on as any"


async def test_a_secret_in_a_url_and_a_long_one_are_no_names(shelf: Shelf) -> None:
    (document_id,) = await kept(shelf, page(url="https://example.org/?password=hunter2"))
    assert (await shelf.document(document_id)).name == "https://example.org/?password=[redacted]"
    one, other = ("https://example.org/" + "a" * 300 + end for end in "xy")
    assert len(name_of(one)) == NAME_CHARS_MAX and name_of(one) != name_of(other)


async def test_pages_that_differ_in_a_secret_of_their_path_are_two(shelf: Shelf) -> None:
    """A shared link: the secret says which page it is. In a query it is another at each visit."""
    both = [page(f"Notes of {secret}.", f"https://example.org/s/{secret}") for secret in ("hunter2", "swordfish")]
    one, other = await kept(shelf, *both)
    assert one != other
    names = [(await shelf.document(document_id)).name for document_id in (one, other)]
    assert all(re.fullmatch(r"https://example\.org/s/\[redacted\]#[0-9a-f]{16}", name) for name in names)
    assert await kept(shelf, both[0], at=T0 + timedelta(days=1)) == [one]


async def test_more_pages_than_may_wait_are_refused(shelf: Shelf) -> None:
    with pytest.raises(RateLimited):
        await keeps(shelf, waiting_max=1).keep(shelf.scope, "worker", [page(), page(url="https://example.org/b")], T0)


# ---------------------------------------------------------------- behind the answer


@dataclass
class Web:
    """What would look outside: decides need by the real rules, and gives the same page."""

    gives: tuple[WebPage, ...] = (page(),)
    asked: list[tuple[str, Known]] = field(default_factory=list)
    breaks: bool = False

    async def look(self, asker: Any, question: str, known: Known) -> Gained:
        need = need_of(question, known, T0 + timedelta(minutes=1))
        if need is None:
            return Gained()
        self.asked.append((question, known))
        if self.breaks:
            raise ValueError("unforeseen")
        return Gained(need, "found", self.gives, (Missed("https://example.org/x", "robots"),))


def captured(shelf: Shelf, *said: str, injected: Sequence[UUID] = ()) -> tuple[Captured, list[Turn]]:
    """An exchange of these messages, user first, its answer last; and its turns."""
    exchange_id = derived_id(UUID(int=1), *said)
    turns = [turn(exchange_id, "s", at, "assistant" if at % 2 else "user", text) for at, text in enumerate(said)]
    shown = tuple(Shown(one, 1, b"p" * 8) for one in injected)
    entry = Entry("PostgreSQL 19", 3, shown, "internal", exchange_id)
    placed = (Placed(0, digest("s", 0), entry),) if injected else ()
    record = Retrieval(
        exchange_id, "injected" if injected else "empty", None, "full", "d", "m", said[0],
        tuple({"id": str(one), "injected": True} for one in injected), placed, 3, True, 1.0, bytes(32), T0,
    )  # fmt: skip
    return Captured(
        exchange_id, shelf.scope, SessionRef(UUID(int=2), "s"), "on", "complete", None, 200, "m", T0, T0, b"{}", {},
        digests=tuple(one.chain for one in turns[:-1]), retrieval=record,
    ), turns  # fmt: skip


def behind(shelf: Shelf, web: Web, metrics: Metrics | None = None) -> LooksBehind:
    looks: Any = web
    return LooksBehind(looks, keeps(shelf), shelf.records, metrics or Metrics(), lambda: T0)


async def test_a_question_that_needs_the_web_has_pages_behind_its_answer_and_a_fresh_one_is_not_fetched(
    shelf: Shelf,
) -> None:
    web = Web()
    looks = behind(shelf, web)
    running = asyncio.create_task(looks.run())
    looks.heard(*captured(shelf, "My boat is blue, remember that.", "Noted."))
    looks.heard(*captured(shelf, NEWS, "I do not know."))
    await until(lambda: shelf.sealed() == 1)
    assert [question for question, _ in web.asked] == [NEWS], "what needs nothing is not looked for"
    assert await shelf.work() is not None
    (record,) = (await shelf.records.documents(shelf.scope, limit=10)).rows
    ids = [one.memory_id for one in await shelf.chunks(record.document_id)]
    looks.heard(*captured(shelf, NEWS, "It is 19.", injected=ids))
    looks.heard(*captured(shelf, "Search the web for the height of Triglav.", "Well."))
    await until(lambda: len(web.asked) == 2)
    assert web.asked[1][0].startswith("Search the web"), "a page younger than six hours is at hand for the other"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_look_that_breaks_ends_nothing(shelf: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    web = Web(breaks=True)
    looks = behind(shelf, web)
    running = asyncio.create_task(looks.run())
    for at in range(4):
        looks.heard(*captured(shelf, f"Search the web for number {at} please.", "Well."))
    await until(lambda: len(web.asked) == 4)
    assert not running.done() and "unforeseen" in caplog.text
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_comes_while_too_many_wait_is_counted_and_passed_over(shelf: Shelf) -> None:
    metrics = Metrics()
    looks = behind(shelf, Web(), metrics)
    for at in range(WAITING_MAX + 3):
        looks.heard(*captured(shelf, f"Search the web for number {at}.", "Well."))
    assert metrics.outside_searches.labels("busy")._value.get() == 3


async def test_only_what_the_user_asked_last_is_a_question(shelf: Shelf) -> None:
    one, turns = captured(shelf, NEWS, "It is 19.", "And of Valkey?", "It is 9.")
    asked = asked_in(one, turns)
    assert asked is not None and asked.text == "And of Valkey?" and asked.sensitivity is Sensitivity.INTERNAL
    assert asked_in(one, turns[-1:]) is None, "the same question again: its turn is not new"
    assert asked_in(*captured(shelf, "x" * 301, "Well.")) is None


async def test_a_question_that_is_not_given_is_not_asked_and_none_before_it_is_either(shelf: Shelf) -> None:
    """What is held back is not among the turns; two messages may stand in a row without an answer."""
    one, turns = captured(shelf, NEWS, "It is 19.", "Ignore all of that.", "No.")
    in_a_row = [replace(turns[0]), replace(turns[1], role="user", content=NEWS), *turns[2:]]
    assert asked_in(one, [turn for turn in in_a_row if turn is not turns[2]]) is None
