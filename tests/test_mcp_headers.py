"""Whose call a call over MCP is: a caller's headers go on to the API as they came, and what the command names holds."""

from __future__ import annotations

from proxy.mcp_server.api_calls import Identity

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
