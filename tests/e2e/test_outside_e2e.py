"""Outside knowledge on a running service: asked for, asked for before and behind an answer, and off.

What it finds here stands on loopback, which nothing lifts: the pages are refused, and that is what is seen. Pages that
are had stand in a network of its own (tests/e2e/small_internet.py).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.e2e.talk import ask
from tests.e2e.test_documents_e2e import call
from tests.service_fixture import Service, serving, stand_in
from tests.waiting import wait_until
from tests.web_site import Script, Site, answer, site

pytestmark = pytest.mark.long  # a service of its own

QUESTION = "Search the web for the height of Triglav."


class Anywhere(dict[str, Script]):
    """One answer for every path."""

    def get(self, path: str, default: object = None) -> bytes:
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


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What a service saw in a network of its own, with a public site in it."""
    enter = ["unshare", "--net"]
    if os.geteuid() != 0 or shutil.which("ip") is None or subprocess.run([*enter, "true"], check=False).returncode:
        pytest.skip("needs root, iproute2 and a network namespace")
    command = [*enter, sys.executable, "-m", "tests.e2e.small_internet", "walker"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_a_request_that_asks_for_the_web_has_its_pages_in_its_very_prompt(seen: dict[str, Any]) -> None:
    assert seen["bare"]["outside"] is None and "2864" not in seen["bare"]["prompt"]
    for how in ("with", "body"):
        assert (seen[how]["status"], seen[how]["outside"]) == (200, "found; pages=1"), seen
        assert "2864 metres" in seen[how]["prompt"] and seen[how]["prompt"].endswith("How high is Triglav?")
    assert [one["name"] for one in seen["documents"]] == ["http://93.184.215.14/triglav"]
    assert seen["log"], "the request's line says what came of it"


def test_what_a_tool_answers_is_not_searched_for_and_nothing_is_searched_for_twice(seen: dict[str, Any]) -> None:
    assert (seen["loop"]["status"], seen["loop"]["outside"]) == (200, "nothing; pages=0")
    # The question alone needs no search ("How high is …" is none of the needs), and what was looked for before its
    # answer is not looked for behind it.
    assert seen["searches"] == 2


def test_a_page_that_is_refused_costs_the_answer_nothing(outward: Service, searched: Site, user: str) -> None:
    before = len(searched.heads)
    said = ask(outward, QUESTION, user, outside="now")
    assert (said.status, said.memory("outside"), said.memory("capture")) == (200, "found; pages=0", "queue")
    outward.settle()
    assert len(searched.heads) == before + 1, "the worker looks for nothing that was looked for already"


def test_a_question_with_a_secret_is_answered_and_not_searched_for(outward: Service, searched: Site, user: str) -> None:
    before = len(searched.heads)
    said = ask(outward, f"Search the web for the key sk-{'aB3dE5gH7jK9' * 3}", user, outside="now")
    assert (said.status, said.memory("outside")) == (200, "withheld; pages=0")
    assert len(searched.heads) == before


@pytest.mark.parametrize(
    "headers",
    [{"outside": "later"}, {"outside": "now", "mode": "read"}, {"outside": "now", "as_of": "2026-01-01T00:00:00Z"}],
)
def test_what_cannot_be_is_refused(outward: Service, user: str, headers: dict[str, str]) -> None:
    said = ask(outward, QUESTION, user, **headers)
    assert (said.status, said.json["error"]["code"]) == (400, "memory_invalid")
    assert said.json["error"]["param"] == "X-Memory-Outside"


def test_where_it_is_off_a_chat_that_asks_for_it_is_told_how_to_turn_it_on(service: Service, user: str) -> None:
    said = ask(service, QUESTION, user, outside="now")
    assert said.status == 400 and "outside.enabled" in said.json["error"]["message"]
    body = {"model": "fake-model", "prompt": "x", "memory": {"outside": "now"}}
    assert service.call("POST", "/v1/completions", body)["error"]["param"] == "X-Memory-Outside"
