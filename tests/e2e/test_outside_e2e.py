"""Outside knowledge on a running service: asked for, asked for behind an answer, and off.

What it finds here stands on loopback, which nothing lifts: the pages are refused, and that is what is seen.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.e2e.talk import ask
from tests.e2e.test_documents_e2e import call
from tests.e2e.upstreams import wait_until
from tests.service_fixture import Service, serving, stand_in
from tests.web_site import Site, answer, site

QUESTION = "Search the web for the height of Triglav."


class Anywhere(dict[str, bytes]):
    """One answer for every path."""

    def get(self, path: str, default: object = None) -> bytes:  # type: ignore[override]
        results = [{"url": "http://127.0.0.1:9/triglav", "title": "t", "content": "c"}]
        return answer(json.dumps({"results": results}).encode(), media_type="application/json")


@pytest.fixture(scope="module")
def searched() -> Iterator[Site]:
    """A search service, on a thread of its own."""
    ready, over, found = threading.Event(), asyncio.Event(), []
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with site() as made:
            made.scripts = Anywhere()
            found.append(made)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert ready.wait(10)
    yield found[0]
    loop.call_soon_threadsafe(over.set)
    thread.join(10)
    loop.close()


@pytest.fixture(scope="module")
def outward(searched: Site) -> Iterator[Service]:
    env = {
        "MEMORY_PROXY_OUTSIDE__ENABLED": "true",
        "MEMORY_PROXY_OUTSIDE__SEARCH_URL": f"http://127.0.0.1:{searched.port}",
    }
    with stand_in() as upstream, serving(upstream, env=env) as service:
        yield service


def queries(searched: Site) -> list[str]:
    return [parse_qs(urlsplit(head.split(" ")[1]).query)["q"][0] for head in searched.heads]


def look(service: Service, user: str, **asked: str) -> tuple[int, dict[str, object]]:
    body = json.dumps({"question": QUESTION, **asked}).encode()
    return call(service, "POST", "/memory/v1/outside", user, body, Content_Type="application/json")


def test_who_asks_is_told_what_came_of_each_page(outward: Service, searched: Site, user: str) -> None:
    status, said = look(outward, user)
    assert status == 200, said
    assert said["search"] == "found" and said["pages"] == []
    assert said["missed"] == [{"url": "http://127.0.0.1:9/triglav", "reason": "refused_address"}]
    assert queries(searched)[-1] == "the height of triglav"
    status, said = look(outward, user, sensitivity="confidential")
    assert (status, said["search"]) == (200, "withheld"), "what is confidential leaves no machine"


def test_a_question_of_a_chat_is_looked_for_behind_its_answer(outward: Service, searched: Site, user: str) -> None:
    before = len(searched.heads)
    ask(outward, "My boat is called Halcyon and it is blue.", user)
    ask(outward, "Search the web for the depth of lake Bohinj.", user)
    wait_until(lambda: len(searched.heads) > before, 15, "the search")
    assert queries(searched)[before:] == ["the depth of lake bohinj"]


def test_every_search_leaves_a_row_without_the_words(outward: Service, user: str) -> None:
    look(outward, user)
    rows: list[dict[str, object]] = []

    def noted() -> bool:
        rows[:] = call(outward, "GET", "/memory/v1/audit?action=outside.search", user)[1]["data"]
        return bool(rows)

    wait_until(noted, 5, "the row")
    assert "triglav" not in json.dumps(rows).casefold()


def test_where_it_is_off_a_question_is_404_and_says_how_to_turn_it_on(service: Service, user: str) -> None:
    status, said = look(service, user)
    assert status == 404 and "outside.enabled" in json.dumps(said)
    assert look(service, user, question="")[0] == 422
