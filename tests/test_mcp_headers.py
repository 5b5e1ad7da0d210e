"""Whose call a call over MCP is: a caller's headers go on to the API as they came, and what the command names holds."""

from __future__ import annotations

import aiohttp
import pytest

from proxy.mcp_server.api_calls import ApiCalls, Identity
from proxy.mcp_server.run import Refused, _refuse_lending
from tests.test_cli_client import answering

KEY = "Bearer mp-own"


def given(identity: Identity, *headers: tuple[str, str]) -> list[tuple[str, str]]:
    return sorted((name.lower(), value) for name, value in identity.with_caller(headers).items())


def test_a_header_that_is_sent_twice_goes_on_twice_for_the_api_to_refuse() -> None:
    both = [("x-memory-user", "ada"), ("x-memory-user", "bob")]
    assert given(Identity({}), *both) == both
    keys = [("authorization", KEY), ("authorization", "Bearer mp-two")]
    assert given(Identity.of("mp-lent", {}), *keys) == keys


def test_what_the_command_names_holds_and_its_key_is_lent_to_whoever_has_none() -> None:
    identity = Identity.of("mp-lent", {"user": "ada", "project": None})
    own = [("authorization", KEY), ("x-memory-user", "bob"), ("x-memory-project", "land")]
    assert given(identity, *own) == [("authorization", KEY), ("x-memory-project", "land"), ("x-memory-user", "ada")]
    assert given(identity) == [("authorization", "Bearer mp-lent"), ("x-memory-user", "ada")]


def test_the_time_that_a_caller_asks_about_goes_on_and_nothing_else_of_theirs() -> None:
    moment = ("x-memory-as-of", "2026-11-21T09:30:00Z")
    assert given(Identity({}), moment, ("cookie", "a=b"), ("host", "h"), ("x-memory-mode", "off")) == [moment]


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (200, "asks for no keys"),
        (503, "answers 503, so it is not known whether it asks for keys"),
        (302, "answers 302, so it is not known"),
        (404, "answers 404, so it is not known"),
    ],
)
async def test_of_a_service_that_is_going_down_nobody_says_that_it_is_open(status: int, says: str) -> None:
    with answering(b"HTTP/1.1 %d Said\r\nContent-Length: 0\r\n\r\n" % status) as url:
        async with aiohttp.ClientSession() as http:
            with pytest.raises(Refused, match=says):
                await _refuse_lending(ApiCalls(http, url, Identity({}), ""), "0.0.0.0", lends=False)
