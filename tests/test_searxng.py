"""Searching: results come as values, whatever the service says."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from memory.adapters.searxng import RESULTS_READ_MAX, SearxngSearch
from memory.errors import SearchFailed
from memory.web import Found
from tests.web_site import Script, Site, answer, redirect, site


@pytest.fixture
async def service() -> AsyncIterator[Site]:
    async with site() as running:
        yield running


class Any_(dict[str, Script]):
    """One script for every path."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def get(self, path: str, default: Any = None) -> Any:
        return self.script


def says(service: Site, said: Any, **headers: str) -> None:
    raw = said if isinstance(said, bytes) else json.dumps(said).encode()
    service.scripts = Any_(answer(raw, media_type="application/json", **headers))


def search(service: Site, **bounds: Any) -> SearxngSearch:
    return SearxngSearch(f"http://127.0.0.1:{service.port}/", **{"wall_s": 1.0, **bounds})


async def test_results_come_best_first_with_what_is_known_of_them(service: Site) -> None:
    says(
        service,
        {
            "query": "x",
            "results": [
                {"url": "https://a.org/", "title": "A", "content": "a  page", "publishedDate": "2026-01-02T00:00:00"},
                {"url": "https://b.org/", "title": "B", "content": None},
                {"url": "https://a.org/", "title": "again", "content": "again"},
            ],
        },
    )
    found = await search(service).search("what's new & old? ä=#%")
    assert found == [Found("A", "https://a.org/", "a page", "2026-01-02T00:00:00"), Found("B", "https://b.org/", "")]
    asked = urlsplit(service.heads[0].split(" ")[1])
    assert asked.path == "/search"
    assert parse_qs(asked.query) == {"q": ["what's new & old? ä=#%"], "format": ["json"]}


async def test_no_results_are_no_fault(service: Site) -> None:
    says(service, {"results": []})
    assert await search(service).search("x") == []


@pytest.mark.parametrize(
    "odd",
    [
        None, 3, "x", [], {}, {"url": None}, {"url": 3}, {"url": ""}, {"url": ["https://a.org"]},
        {"url": "https://a.org/" + "a" * 3_000},
    ],
)  # fmt: skip
async def test_a_result_of_another_shape_is_left_out_and_the_others_stay(service: Site, odd: Any) -> None:
    says(service, {"results": [odd, {"url": "https://b.org/", "title": {"a": 1}, "content": 3, "publishedDate": []}]})
    assert await search(service).search("x") == [Found("", "https://b.org/", "")]


async def test_what_a_stranger_wrote_is_cut_and_has_no_controls(service: Site) -> None:
    says(
        service,
        {"results": [{"url": "https://a.org/", "title": "a\u202e\x1b[2J\nb" + "c" * 999, "content": "\ud800x"}]},
    )
    (found,) = await search(service).search("x")
    assert found.title.startswith("a [2J bccc")
    assert len(found.title) == 300
    assert found.snippet == "x"


async def test_no_more_is_given_than_was_asked_for(service: Site) -> None:
    says(service, {"results": [{"url": f"https://a.org/{at}"} for at in range(RESULTS_READ_MAX * 3)]})
    assert [one.url for one in await search(service, results_max=3).search("x")] == [
        f"https://a.org/{at}" for at in range(3)
    ]
    assert len(await search(service, results_max=9_999).search("x")) == RESULTS_READ_MAX


async def _silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (answer(b"<html>no json", media_type="text/html"), "unreadable"),
        (answer(b"[]"), "unreadable"),
        (answer(b"{}"), "unreadable"),
        (answer(b'{"results": {}}'), "unreadable"),
        (answer(b"[" * 100_000), "unreadable"),
        (answer(b"\xff\xfe\x00"), "unreadable"),
        (answer(b"x", content_encoding="gzip"), "unreadable"),
        (answer(b"x" * 2_000_001), "too_large"),
        (answer(b"", status="403 Forbidden"), "http_status"),
        (answer(b"", status="429 Slow"), "http_status"),
        (answer(b"", status="500 Oh"), "http_status"),
        (redirect("http://169.254.169.254/"), "redirects"),
        (b"", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", "unreachable"),
        (_silent, "too_slow"),
    ],
)
async def test_every_failure_has_its_name_and_tells_no_words(service: Site, script: Script, why: str) -> None:
    service.scripts = Any_(script)
    began = time.monotonic()
    with pytest.raises(SearchFailed) as caught:
        await search(service).search("a secret question")
    assert caught.value.reason == why
    assert "secret" not in str(caught.value)
    assert time.monotonic() - began < 5


async def test_a_service_that_is_not_there_is_unreachable() -> None:
    async with site() as gone:
        pass
    with pytest.raises(SearchFailed) as caught:
        await search(gone).search("x")
    assert caught.value.reason == "unreachable"
