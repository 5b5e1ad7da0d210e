"""Searching by a SearXNG-compatible service: words in, results out; `GET {base}/search?q=…&format=json`.

The service is the operator's own and may stand on a private address; what it names may not, and is judged when it is
fetched. Nothing of its answer is believed: results of another shape are left out, texts are cut, controls removed, at
most so many are read of at most so many bytes. A redirect is a fault: the query goes where the operator said. No
cookies, no retries. Raises SearchFailed; neither the query nor an answer's words are in it.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from memory.adapters.unpack import ENCODINGS, Unpacker
from memory.errors import FetchFailed, SearchFailed
from memory.web import Found
from policies.web_address import URL_CHARS_MAX

ANSWER_BYTES_MAX: Final = 2_000_000
RESULTS_READ_MAX: Final = 100
TITLE_CHARS_MAX: Final = 300
SNIPPET_CHARS_MAX: Final = 1_000
_DATE_CHARS_MAX: Final = 40
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


class SearxngSearch:
    """One service. `base`: its address without /search; `results_max`: results given; `wall_s`: for one search."""

    def __init__(self, base: str, *, results_max: int = 10, wall_s: float = 5.0) -> None:
        self._base = base.rstrip("/")
        self._results_max = results_max
        self._wall_s = wall_s

    async def search(self, query: str) -> list[Found]:
        """Results, best first, each URL once. Raises SearchFailed."""
        try:
            async with asyncio.timeout(self._wall_s):
                raw = await self._ask(query)
        except TimeoutError as exc:
            raise SearchFailed("too_slow", f"no whole answer of the search service within {self._wall_s} s") from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise SearchFailed("unreachable", f"the search service is not reached ({type(exc).__name__})") from exc
        except FetchFailed as exc:
            raise SearchFailed(exc.reason, f"the search service: {exc}") from exc
        return self._results(raw)

    async def _ask(self, query: str) -> bytes:
        url = URL(f"{self._base}/search?{urlencode({'q': query, 'format': 'json'})}", encoded=True)
        headers = {"Accept": "application/json", "Accept-Encoding": ENCODINGS, "User-Agent": "memory-proxy/1"}
        async with (
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
            ) as session,
            session.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            if 300 <= answer.status < 400:
                raise SearchFailed("redirects", "the search service redirects: give outside.search_url as it answers")
            if answer.status == 403:
                raise SearchFailed("http_status", "the search service says 403: has it json in search.formats?")
            if answer.status != 200:
                raise SearchFailed("http_status", f"the search service says {answer.status}")
            unpacker = Unpacker(answer.headers.get("Content-Encoding", ""), ANSWER_BYTES_MAX)
            async for chunk in answer.content.iter_any():
                unpacker.feed(chunk)
                if unpacker.over:
                    raise SearchFailed("too_large", f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            return unpacker.body()

    def _results(self, raw: bytes) -> list[Found]:
        try:
            said = json.loads(raw)
        except (ValueError, RecursionError) as exc:
            raise SearchFailed("unreadable", "the search service's answer is no JSON") from exc
        listed = said.get("results") if isinstance(said, dict) else None
        if not isinstance(listed, list):
            raise SearchFailed("unreadable", "the search service's answer has no list of results")
        found: dict[str, Found] = {}
        for one in map(_found, listed[:RESULTS_READ_MAX]):
            if one is not None:
                found.setdefault(one.url, one)
        return list(found.values())[: self._results_max]


def _found(said: Any) -> Found | None:
    """One result; None where it names no address."""
    if not isinstance(said, dict):
        return None
    url = said.get("url")
    if not isinstance(url, str) or not url or len(url) > URL_CHARS_MAX:
        return None
    return Found(
        title=_text(said.get("title"), TITLE_CHARS_MAX),
        url=url,
        snippet=_text(said.get("content"), SNIPPET_CHARS_MAX),
        published=_text(said.get("publishedDate"), _DATE_CHARS_MAX),
    )


def _text(value: Any, chars_max: int) -> str:
    """A string of a stranger as one line; "" for anything else."""
    return " ".join(_CONTROLS.sub(" ", value[: 4 * chars_max]).split())[:chars_max] if isinstance(value, str) else ""
