"""The bytes of a file on their way: what is quoted of them, and which of them a request asks for."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientError, web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from memory.artifacts import Blob
from memory.errors import Conflict, EnvelopeUnreadable, RangeUnmet
from memory.telemetry import Metrics
from proxy.api.artifact_bytes import Passing, asked_range, is_at_hand, sent
from proxy.app import guarded
from proxy.passages import Passages, answered

TAG = '"aa"'


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, (0, 100, False)),
        ({"Range": "bytes=10-19"}, (10, 20, True)),
        ({"Range": "bytes=-5"}, (95, 100, True)),
        ({"Range": "bytes=90-"}, (90, 100, True)),
        ({"Range": "bytes=99-500"}, (99, 100, True)),
        ({"Range": "bytes=-500"}, (0, 100, True)),
        ({"Range": "bytes=9-1"}, (0, 100, False)),
        ({"Range": "bytes=0-1,4-5"}, (0, 100, False)),
        ({"Range": "lines=0-1"}, (0, 100, False)),
        ({"Range": "bytes=10-19", "If-Range": TAG}, (10, 20, True)),
        ({"Range": "bytes=10-19", "If-Range": '"bb"'}, (0, 100, False)),
        ({"Range": "bytes=10-19", "If-Range": f"W/{TAG}"}, (0, 100, False)),
        ({"Range": "bytes=10-19", "If-Range": "Fri, 27 Nov 2026 08:00:00 GMT"}, (0, 100, False)),
        ({"If-Range": TAG}, (0, 100, False)),
    ],
)
def test_a_part_is_given_where_one_is_asked_for_of_this_very_file(
    headers: dict[str, str], found: tuple[int, int, bool]
) -> None:
    """Else a client would put it to the parts of another that it has (RFC 9110 section 13.1.5)."""
    assert asked_range(make_mocked_request("GET", "/", headers), 100, TAG) == found


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=-00"])
def test_a_range_in_which_the_file_has_no_byte_is_refused(asked: str) -> None:
    """200 with the whole file would be taken for an answer to another request (RFC 9110 section 15.5.17)."""
    with pytest.raises(RangeUnmet):
        asked_range(make_mocked_request("GET", "/", {"Range": asked}), 100, TAG)


class Nowhere:
    """An upload that is kept nowhere."""

    async def write(self, part: bytes) -> None:
        """Take it."""

    async def keep(self) -> Blob:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("raw", "declared", "said"),
    [
        ("Grüße".encode(), "text/plain", "Grüße"),
        ("Grüße".encode("cp1252"), 'text/plain; charset="Windows-1252"', "Grüße"),
        ("Grüße".encode(), "text/plain; charset=windows-1252", "Grüße"),
        ("日本".encode("shift_jis"), "text/csv; header=present; charset=Shift_JIS", "日本"),
        ("Grüße".encode("cp1252"), "text/plain; charset=x-martian", ""),
        ("Grüße".encode("cp1252"), "text/plain; charset=zlib", ""),
        ("Grüße".encode("cp1252"), "text/plain", ""),
        ("Grüße".encode("utf-8-sig"), "text/plain", "Grüße"),
        ("Grüße".encode("utf-16"), "text/plain", "Grüße"),
        (b"\xfe\xff" + "Grüße".encode("utf-16-be"), "text/plain; charset=utf-8", "Grüße"),
        ("Grüße".encode("utf-32"), "text/plain", "Grüße"),
    ],
)
async def test_no_letter_of_an_excerpt_is_lost(raw: bytes, declared: str, said: str) -> None:
    """A text in another encoding is quoted as it says, or not at all."""
    passing = Passing(Nowhere())
    await passing.take(raw)
    assert passing.ends(str, declared) == said


async def test_a_letter_that_the_end_of_what_is_read_cuts_in_two_makes_no_other_text_of_it() -> None:
    passing, text = Passing(Nowhere()), "ä" * 40_000
    for piece in (b"x", text.encode()):
        await passing.take(piece)
    said = passing.ends(str, "text/plain; charset=latin-1")
    assert said.startswith("xää") and said.endswith("ää") and set(said) <= set("xä\n[…] of80001bytes")


@pytest.mark.parametrize("cut", [0, 1])
async def test_both_ends_of_a_long_text_in_utf_16_are_quoted(cut: int) -> None:
    passing, raw = Passing(Nowhere()), f"begins{'ä' * 70_000}ends".encode("utf-16")
    await passing.take(raw[: len(raw) - cut])
    said = passing.ends(str, "text/plain")
    assert (
        said.startswith("beginsää")
        and said.endswith("äends"[: 5 - cut])
        and set(said) <= set("beginsäd\n[…] of1402bytes3")
    )


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, False),
        ({"If-None-Match": '"other"'}, False),
        ({"If-None-Match": TAG}, True),
        ({"If-None-Match": f'"other", W/{TAG}'}, True),
        ({"If-None-Match": "*"}, True),
        ({"If-Match": TAG}, False),
        ({"If-Match": "*"}, False),
        ({"If-Match": TAG, "If-None-Match": TAG}, True),
    ],
)
def test_bytes_that_the_client_has_are_not_sent_again(asked: dict[str, str], found: bool) -> None:
    assert is_at_hand(make_mocked_request("GET", "/", asked), TAG.strip('"')) is found


@pytest.mark.parametrize("asked", ['"other"', f"W/{TAG}"])
def test_bytes_that_are_not_those_that_were_asked_for_are_not_sent(asked: str) -> None:
    with pytest.raises(Conflict, match="not those of If-Match"):
        is_at_hand(make_mocked_request("GET", "/", {"If-Match": asked}), TAG.strip('"'))


class Spoilt:
    """A store of files of which the second piece cannot be read."""

    async def key_of(self, owner: object, blob: object) -> object:
        return None

    by_id = key_of

    async def read(self, *asked: object) -> AsyncIterator[bytes]:
        yield b"begun"
        raise EnvelopeUnreadable("the rest is spoilt")


async def test_a_file_that_cannot_be_read_to_its_end_cuts_its_client_off_and_the_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    content = SimpleNamespace(sha256="ab" * 32, bytes=100, media_type="text/plain")
    one: Any = SimpleNamespace(
        content=content, owner=SimpleNamespace(tenant_id=None), blob=None, about=SimpleNamespace(name="notes")
    )
    store: Any = Spoilt()

    async def give(request: web.Request) -> web.StreamResponse:
        with Passages(Metrics(), None).of(request, "own") as passage:
            answered(passage, response := await sent(request, one, store, store))
        return response

    app = web.Application()
    app.router.add_get("/memory/v1/artifacts/{id}/content", guarded(give))
    caplog.set_level(logging.INFO, "memory_proxy.request")
    async with TestClient(TestServer(app)) as client:
        with pytest.raises(ClientError):
            async with client.get("/memory/v1/artifacts/7/content") as answer:
                await answer.read()
    (line,) = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "request"]
    assert (line["http"], line["outcome"]) == (200, "failed")
    assert not [one for one in caplog.records if one.exc_info]
    (why,) = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "answer_broken_off"]
    assert why["fault"] == "the rest is spoilt"
