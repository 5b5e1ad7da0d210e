"""Outside knowledge, end to end on loopback: a search service, sites, the real fetcher, the real reader."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest

from memory.adapters.fetch import FetchBounds, WebFetcher
from memory.adapters.page_process import PageProcess
from memory.adapters.searxng import SearxngSearch
from memory.audit import Note, noted
from memory.config import Settings, load_settings
from memory.config_outside import Outside as OutsideSettings
from memory.outside import Asker, Missed, Outside, OutsideBounds, OutsideParts
from memory.outside_wiring import leaving, outside_of, reach_of
from memory.telemetry import Metrics
from policies.labels import Integrity, Sensitivity
from policies.web_address import Reach
from policies.web_need import FRESH, Known
from tests.web_site import Names, Script, Site, answer, is_here, redirect, site

ASKER = Asker(UUID(int=7), "key-1")
NEWS = "What is the latest version of PostgreSQL?"
NOTHING = Known()
PAGE = "<title>{0}</title><main><p>The newest release is {0}, which came out in autumn and is supported for years.</p>"


@dataclass
class Journal:
    """What was noted, checked as the audit log checks it."""

    notes: list[Note] = field(default_factory=list)

    def note(self, tenant: UUID, actor: str, action: str, **said: Any) -> None:
        self.notes.append(noted(tenant, actor, action, **said))


@dataclass
class World:
    """A search service, a site, and what looks at them."""

    service: Site
    web: Site
    journal: Journal = field(default_factory=Journal)
    metrics: Metrics = field(default_factory=Metrics)
    names: Names = field(default_factory=Names)
    results: list[Mapping[str, Any]] = field(default_factory=list)

    def finds(self, *urls: str) -> None:
        results = [{"url": url, "title": "t", "content": "c"} for url in urls]
        self.service.scripts = Everywhere(answer(json.dumps({"results": results}).encode()))

    def page(self, path: str, script: Script | None = None, host: str = "site.example.org") -> str:
        self.web.scripts[path] = script or answer(PAGE.format(path).encode())
        return self.web.url(path, host)

    def looks(self, bounds: OutsideBounds | None = None, **lists: Sequence[str]) -> Outside:
        reach = Reach(ports=(self.web.port,), **{name: tuple(rules) for name, rules in lists.items()})
        parts = OutsideParts(
            search=SearxngSearch(f"http://127.0.0.1:{self.service.port}", wall_s=10),
            fetcher=WebFetcher(
                reach,
                FetchBounds(page_bytes_max=50_000, head_s=10, total_s=20),
                resolve=self.names,
                is_allowed_ip=is_here,
            ),
            reader=PageProcess(chars_max=1_000),
            redact=leaving(),
            audit=self.journal,
            metrics=self.metrics,
        )
        return Outside(parts, reach, bounds)

    @property
    def queries(self) -> list[str]:
        asked = [urlsplit(head.split(" ")[1]).query for head in self.service.heads]
        return [parse_qs(query)["q"][0] for query in asked]

    def counted(self, metric: str) -> dict[str, float]:
        samples = [sample for family in self.metrics.registry.collect() for sample in family.samples]
        wanted = f"memory_proxy_outside_{metric}_total"
        return {next(iter(one.labels.values())): one.value for one in samples if one.name == wanted}


class Everywhere(dict[str, Script]):
    """One script for every path."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def get(self, path: str, default: Any = None) -> Any:
        return self.script


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with site() as service, site() as web:
        yield World(service, web)


async def test_a_question_that_needs_the_web_gets_pages_with_where_they_are_from(world: World) -> None:
    world.finds(world.page("/17"), world.page("/18", host="other.example.org"))
    gained = await world.looks().look(ASKER, NEWS, NOTHING)
    assert (gained.need, gained.search) == ("news", "found")
    assert [page.url for page in gained.pages] == [world.web.url("/17"), world.web.url("/18", "other.example.org")]
    page = gained.pages[0]
    assert (page.title, page.integrity, page.why) == ("/17", Integrity.WEB, "news")
    assert page.blocks[0].text.startswith("The newest release is /17")
    assert abs(datetime.now(UTC) - page.fetched_at) < timedelta(minutes=1)
    assert world.queries == ["What is the latest version of PostgreSQL"]
    assert world.counted("needs") == {"news": 1}
    assert world.counted("searches") == {"found": 1}
    assert world.counted("pages") == {"read": 2}


async def test_a_page_that_several_results_lead_to_is_one_page(world: World) -> None:
    """It took the places of others, and was stored once for each, each time in place of itself."""
    one = world.page("/17")
    old, older = (world.page(path, redirect(one), f"{path[1:]}.example.org") for path in ("/old", "/older"))
    world.finds(old, one, older, world.page("/18", host="other.example.org"))
    gained = await world.looks(OutsideBounds(pages_max=2)).look(ASKER, NEWS, NOTHING)
    assert [page.url for page in gained.pages] == [one, world.web.url("/18", "other.example.org")]
    assert (gained.missed, world.counted("pages")) == ((), {"read": 2})


async def test_a_question_that_does_not_need_it_leaves_the_house_in_no_part(world: World) -> None:
    for question in ("What is my sister's name?", "Look up what I told you about Oslo", "Thanks!"):
        assert (await world.looks().look(ASKER, question, NOTHING)).need is None
    known = Known((), datetime.now(UTC) - FRESH / 2)
    assert (await world.looks().look(ASKER, NEWS, known)).search == ""
    assert (world.service.heads, world.journal.notes) == ([], [])
    assert world.counted("needs") == {"none": 4}


@pytest.mark.parametrize(
    "secret",
    ["password: hunter2-Xk81!qz", "AWS_SECRET_ACCESS_KEY=q9Jk2mZx8Wv5Tn3Rb7Yc1Ld6Hf4Gs0Pa/Ue+Xi9oK"],
)
async def test_a_question_with_a_secret_is_not_searched_for(world: World, secret: str) -> None:
    gained = await world.looks().look(ASKER, f"Search the web for this: {secret}", NOTHING)
    assert (gained.need, gained.search, gained.pages) == ("asked", "withheld", ())
    assert (world.service.heads, world.journal.notes) == ([], [])
    assert world.counted("searches") == {"withheld": 1}


async def test_a_confidential_question_is_not_searched_for(world: World) -> None:
    for label in (Sensitivity.CONFIDENTIAL, Sensitivity.SECRET):
        gained = await world.looks().look(Asker(UUID(int=7), "open", label), NEWS, NOTHING)
        assert (gained.need, gained.search) == ("news", "withheld")
    assert (world.service.heads, world.journal.notes) == ([], [])


@pytest.mark.parametrize(
    ("question", "search"), [("天气", "found"), ("東京", "found"), ("ok", "withheld"), ("?", "withheld")]
)
async def test_a_question_is_as_long_as_what_it_says(world: World, question: str, search: str) -> None:
    world.finds(world.page("/a"))
    assert (await world.looks().look_for(ASKER, question, "asked")).search == search
    assert world.queries == ([question] if search == "found" else [])


async def test_personal_data_is_taken_out_of_a_query_whatever_the_store_keeps(world: World) -> None:
    world.finds()
    await world.looks().look(ASKER, "Search the web for bob@example.com and the Louvre", NOTHING)
    assert world.queries == ["and the louvre"]
    gained = await world.looks().look(ASKER, "Google bob@example.com", NOTHING)
    assert "bob" not in "".join(world.queries)
    assert gained.pages == ()


async def test_results_that_may_not_be_fetched_are_not_and_say_so(world: World) -> None:
    world.names.answers["inside.example.org"] = [("10.0.0.1",)]
    literal, inside = "http://169.254.169.254/latest/", world.web.url("/", "inside.example.org")
    denied = world.web.url("/", "www.denied.example.com")
    robots = world.page("/robots.txt", answer(b"User-agent: *\nDisallow: /closed"))
    closed, moved, good = world.page("/closed"), world.page("/moved", redirect(literal)), world.page("/good")
    world.finds(literal, inside, denied, "file:///etc/passwd", robots.replace("/robots.txt", "/closed"), moved, good)
    gained = await world.looks(OutsideBounds(pages_max=9), deny=("denied.example.com",)).look(ASKER, NEWS, NOTHING)
    assert gained.pages == ()  # two of a host at most: /closed and /moved
    assert {(one.url, one.reason) for one in gained.missed} == {
        (literal, "refused_address"), (inside, "refused_address"), (denied, "refused_address"),
        ("file:///etc/passwd", "refused_address"), (closed, "robots"), (moved, "refused_address"),
    }  # fmt: skip
    assert world.counted("pages") == {"refused_address": 5, "robots": 1}
    assert "/good" not in world.web.paths


async def test_what_fails_gives_its_place_to_the_next(world: World) -> None:
    hosts = [f"h{at}.example.org" for at in range(6)]
    urls = [
        world.page("/404", answer(b"", status="404 Not Found"), hosts[0]),
        world.page("/pdf", answer(b"%PDF", media_type="application/pdf"), hosts[1]),
        world.page("/empty", answer(b"<p></p>"), hosts[2]),
        world.page("/a", host=hosts[3]),
        world.page("/b", host=hosts[4]),
        world.page("/c", host=hosts[5]),
    ]
    world.finds(*urls)
    gained = await world.looks(OutsideBounds(pages_max=3)).look(ASKER, NEWS, NOTHING)
    assert [page.title for page in gained.pages] == ["/a", "/b", "/c"]
    assert {one.reason for one in gained.missed} == {"http_status", "media_type", "unreadable"}


async def test_no_more_pages_are_asked_for_than_are_wanted_and_no_address_twice(world: World) -> None:
    urls = [world.page(f"/{at}", host=f"h{at}.example.org") for at in range(9)]
    world.finds(urls[0], urls[0] + "#part", *urls)
    gained = await world.looks(OutsideBounds(pages_max=2)).look(ASKER, NEWS, NOTHING)
    assert [page.title for page in gained.pages] == ["/0", "/1"]
    assert sorted(world.web.paths) == ["/0", "/1"]


@pytest.mark.parametrize(
    ("script", "why"),
    [(answer(b"", status="500 Oh"), "http_status"), (answer(b"no json"), "unreadable"), (b"", "unreachable")],
)
async def test_a_search_that_fails_costs_the_pages_and_says_why(world: World, script: bytes, why: str) -> None:
    world.service.scripts = Everywhere(script)
    gained = await world.looks().look(ASKER, NEWS, NOTHING)
    assert (gained.need, gained.search, gained.pages) == ("news", why, ())
    assert world.counted("searches") == {why: 1}


async def _silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def test_past_its_time_what_is_there_is_given(world: World) -> None:
    slow = world.page("/slow", _silent, "slow.example.org")
    world.finds(slow, world.page("/a"))
    gained = await world.looks(OutsideBounds(total_s=5)).look(ASKER, NEWS, NOTHING)
    assert [page.title for page in gained.pages] == ["/a"]
    assert gained.missed == (Missed(slow, "too_slow"),)
    world.service.scripts = Everywhere(_silent)
    assert (await world.looks(OutsideBounds(total_s=0.2)).look(ASKER, NEWS, NOTHING)).search == "too_slow"


async def test_a_caller_that_leaves_ends_the_work(world: World) -> None:
    world.finds(world.page("/slow", _silent))
    work = asyncio.create_task(world.looks().look(ASKER, NEWS, NOTHING))
    while "/slow" not in world.web.paths:
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            while world.web.open:
                await asyncio.sleep(0.01)
    assert world.web.open == 0


async def test_every_search_and_every_fetch_leaves_a_row_without_words(world: World) -> None:
    world.names.answers["inside.example.org"] = [("10.0.0.1",)]
    world.finds(world.web.url("/x", "inside.example.org"), world.page("/a"))
    await world.looks().look(ASKER, NEWS, NOTHING)
    rows = [(note.action, note.decision, note.why, sorted(note.names)) for note in world.journal.notes]
    assert sorted(rows) == [
        ("outside.fetch", "allowed", "news", ["host", "url"]),
        ("outside.fetch", "allowed", "news", ["host", "url"]),
        ("outside.fetch", "refused", "refused_address", ["host", "url"]),
        ("outside.search", "allowed", "news", ["query"]),
    ]
    for note in world.journal.notes:  # names go into the log as HMACs; nothing else may hold words
        assert (note.tenant, note.actor, note.ids, note.detail) == (ASKER.tenant, ASKER.actor, (), {})


async def test_a_redirect_leaves_a_row_of_the_host_that_it_leads_to(world: World) -> None:
    there = world.page("/there", host="other.example.org")
    world.finds(world.page("/here", redirect(there)))
    await world.looks().look(ASKER, NEWS, NOTHING)
    rows = [one.names for one in world.journal.notes if one.action == "outside.fetch"]
    expected = [("site.example.org", world.web.url("/here")), ("other.example.org", there)]
    assert rows == [{"host": host, "url": url} for host, url in expected]


async def test_it_is_off_until_it_is_turned_on_and_then_is_built_of_the_settings() -> None:
    metrics, journal = Metrics(), Journal()
    assert outside_of(Settings(), journal, metrics) is None
    on = OutsideSettings(enabled=True, search_url="http://127.0.0.1:8888", deny=("203.0.113.0/24", "example.com"))
    settings = Settings(outside=on)
    assert isinstance(outside_of(settings, journal, metrics), Outside)
    assert [str(rule) for rule in reach_of(settings).deny] == ["203.0.113.0/24", "example.com"]


def test_the_settings_of_the_page_load_and_its_snippet_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "outside-knowledge.md").read_text()
    (config,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "config.yaml").write_text(config)
    settings = load_settings(tmp_path / "config.yaml", {}, {})
    assert outside_of(settings, Journal(), Metrics()) is not None
    (snippet,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(snippet, "outside-knowledge.md", "exec"), {})


async def test_wired_by_the_settings_it_reaches_no_address_of_loopback(world: World) -> None:
    """The same page that the tests above fetch, asked for as a program asks."""
    on = OutsideSettings(enabled=True, search_url=f"http://127.0.0.1:{world.service.port}", ports=(80, world.web.port))
    world.finds(f"http://127.0.0.1:{world.web.port}/a", world.web.url("/a", "localhost"))
    world.page("/a")
    looks = outside_of(Settings(outside=on), world.journal, world.metrics)
    assert looks is not None
    gained = await looks.look(ASKER, NEWS, NOTHING)
    assert {one.reason for one in gained.missed} == {"refused_address"}
    assert world.web.heads == []
