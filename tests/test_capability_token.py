"""Capability tokens: whatever is added only ever narrows, and whatever is changed is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import Refused
from policies.api_key import PREFIX_BYTES, SECRET_BYTES, is_intact, looks_damaged, prefix_of, secret_of
from policies.capabilities import ADMIN, CAPABILITIES, allows, expanded, unknown
from policies.capability_token import (
    CAVEATS_MAX,
    NONCE_BYTES,
    Authority,
    Caveat,
    TokenRefused,
    attenuated,
    authority_of,
    is_signed,
    minted,
    narrowed,
    read,
    root_of,
)
from policies.key_limits import KeyLimits
from policies.labels import Sensitivity, within_ceiling
from proxy.cli.parser import build_parser
from proxy.identity import Credential, identify

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SECRET = secret_of(b"\x01\x02\x03\x04", b"\x05" * SECRET_BYTES)
ROOT = root_of(SECRET)
NONCE = b"\x07" * NONCE_BYTES
UNTIL = 1_800_000_000

names = st.sampled_from(["default", "ada", "eve"])
some_names = st.none() | names
capabilities = st.frozensets(st.sampled_from([*CAPABILITIES, "memory:fly"]), max_size=6)
models = st.frozensets(st.sampled_from(["m", "n", "o"]), min_size=1)
levels = st.sampled_from(list(Sensitivity))
caveats = st.builds(
    Caveat,
    user=some_names,
    project=some_names,
    agent=some_names,
    session=some_names,
    capabilities=st.none() | capabilities,
    until=st.none() | st.integers(1, 2_000_000_000),
    ceiling=st.none() | levels,
    injected_tokens_max=st.none() | st.integers(0, 2000),
    models=st.none() | models,
)
said = caveats.filter(lambda caveat: caveat != Caveat())
authorities = st.builds(
    Authority,
    fixed=st.dictionaries(st.sampled_from(["user", "project", "agent"]), names, max_size=2),
    defaults=st.dictionaries(st.sampled_from(["user", "project"]), names, max_size=2),
    capabilities=capabilities,
    until=st.none() | st.integers(1, 2_000_000_000),
    ceiling=levels,
    limits=st.builds(KeyLimits, injected_tokens_max=st.none() | st.integers(0, 2000), models=st.none() | models),
)


def credential(authority: Authority) -> Credential:
    return Credential(
        UUID(int=1), UUID(int=2), authority.fixed, authority.defaults, authority.capabilities, limits=authority.limits
    )


def reach(authority: Authority, member: str) -> set[str | None]:
    """Every value of a scope member that a request can come to act in, by the proxy's own rules."""
    found: set[str | None] = set()
    for asked in (None, "default", "ada", "eve"):
        headers = [] if asked is None else [(f"X-Memory-{member}".encode(), asked.encode())]
        try:
            ask = identify(headers, None, "eve", credential(authority), NOW)
        except Refused:
            continue
        found.add(ask.session if member == "Session" else getattr(ask.scope, member.lower()))
    return found


def may(authority: Authority) -> set[str]:
    return {name for name in CAPABILITIES if allows(authority.capabilities, name)}


def within(held: int | None, before: int | None) -> bool:
    return before is None or (held is not None and held <= before)


@given(authorities, st.lists(caveats, max_size=4))
def test_no_sequence_of_attenuations_widens(key: Authority, several: list[Caveat]) -> None:
    held = key
    for caveat in several:
        try:
            after = narrowed(held, caveat)
        except TokenRefused:
            return
        assert may(after) <= may(held)
        for member in ("User", "Project", "Agent", "Session"):
            assert reach(after, member) <= reach(held, member), (held, caveat)
        assert within(after.until, held.until)
        assert within_ceiling(after.ceiling, held.ceiling)
        assert within(after.limits.injected_tokens_max, held.limits.injected_tokens_max)
        assert held.limits.models is None or (after.limits.models or frozenset()) <= held.limits.models
        assert held.limits.models is None or after.limits.models is not None
        held = after


def test_no_token_is_made_that_is_too_long_to_be_read() -> None:
    models = frozenset(f"organisation/{number:0>48}" for number in range(64))
    with pytest.raises(TokenRefused, match="at most 4096"):
        minted("01020304", ROOT, NONCE, Caveat(until=UNTIL, models=models))


def test_a_user_cannot_be_named_once_the_right_to_was_given_up() -> None:
    key = Authority(capabilities=frozenset({"act:any_user", "memory:read:own"}))
    given_up = narrowed(key, Caveat(capabilities=frozenset({"memory:read:own"})))
    assert narrowed(key, Caveat(user="ada")).fixed == {"user": "ada"}
    with pytest.raises(TokenRefused, match="act:any_user"):
        narrowed(given_up, Caveat(user="ada"))
    assert narrowed(given_up, Caveat(user="default")).fixed == {"user": "default"}


@pytest.mark.parametrize("member", ["user", "project", "agent"])
def test_what_is_for_a_part_of_the_tenant_does_not_administer_it(member: str) -> None:
    """An administrator's token for one user forgot every other, and read the tenant's audit log."""
    key, of_ada = Authority(capabilities=frozenset({ADMIN})), cast(Any, {member: "ada"})
    part = narrowed(key, Caveat(**of_ada))
    assert may(part) == set(CAPABILITIES) - {ADMIN}
    assert may(narrowed(part, Caveat(capabilities=frozenset({ADMIN})))) == may(part)
    own = Authority(fixed={member: "ada"}, capabilities=frozenset({ADMIN}))  # as its operator made it
    assert may(narrowed(own, Caveat(**of_ada, until=UNTIL))) == set(CAPABILITIES)


@pytest.mark.parametrize("held", [{"act:any_user", "memory:read:own"}, {ADMIN}])
def test_one_conversation_is_that_of_one_scope(held: set[str]) -> None:
    """One that was for the session "main" alone went into everybody's of that name, and into every project's."""
    key = Authority(defaults={"user": "desk"}, capabilities=frozenset(held))
    one = narrowed(key, Caveat(session="main"))
    assert reach(one, "Session") == {"main"}
    assert [reach(one, member) for member in ("User", "Project", "Agent")] == [{"desk"}, {"default"}, {"default"}]
    for elsewhere in (Caveat(user="ada"), Caveat(project="kitchen"), Caveat(agent="cook")):
        with pytest.raises(TokenRefused, match="two values"):
            narrowed(one, elsewhere)
    for of_ada in (Caveat(user="ada", session="main"), Caveat(session="main")):
        token = narrowed(narrowed(key, Caveat(user="ada", project="kitchen")), of_ada)
        assert (reach(token, "User"), reach(token, "Project")) == ({"ada"}, {"kitchen"})


@given(st.lists(said, min_size=1, max_size=4))
def test_what_is_added_is_read_back_and_signed(several: list[Caveat]) -> None:
    first = replace(several[0], until=UNTIL)
    token = minted("01020304", ROOT, NONCE, first)
    for caveat in several[1:]:
        token = attenuated(token, caveat)
    known = read(token)
    assert known.caveats == (first, *several[1:])
    assert known.prefix == "01020304" == prefix_of(SECRET)
    assert is_signed(known, ROOT)
    assert not is_signed(known, root_of(SECRET + "x"))


@given(said, st.data())
def test_any_changed_byte_is_refused(caveat: Caveat, data: st.DataObject) -> None:
    token = attenuated(minted("01020304", ROOT, NONCE, Caveat(user="ada", until=UNTIL)), caveat)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(max_codepoint=0x17F).filter(lambda c: c != token[place]))
    changed = token[:place] + other + token[place + 1 :]
    assert not accepted(changed)
    assert not accepted(token[:place])
    assert not accepted(token + other)
    assert accepted(token)


def accepted(token: str) -> bool:
    try:
        known = read(token)
    except TokenRefused:
        return False
    return known.prefix == "01020304" and is_signed(known, ROOT)


@given(st.lists(said, min_size=2, max_size=5), st.data())
def test_no_caveat_can_be_taken_off_or_moved(several: list[Caveat], data: st.DataObject) -> None:
    token = minted("01020304", ROOT, NONCE, Caveat(until=UNTIL))
    for caveat in several:
        token = attenuated(token, caveat)
    head, *parts, signature = token.split(".")
    left = data.draw(st.lists(st.sampled_from(parts), max_size=len(parts)))
    if left != parts:
        assert not accepted(".".join([head, *left, signature]))


@given(st.text(max_size=300))
def test_what_is_no_token_is_refused_by_name(text: str) -> None:
    with pytest.raises(TokenRefused):
        read("mpt-" + text)


def test_a_token_ends_and_has_bounds() -> None:
    with pytest.raises(TokenRefused, match="end"):
        minted("01020304", ROOT, NONCE, Caveat(user="ada"))
    with pytest.raises(TokenRefused, match="end"):
        authority_of(Authority(), [Caveat(user="default")])
    token = minted("01020304", ROOT, NONCE, Caveat(until=UNTIL))
    with pytest.raises(TokenRefused, match="narrow something"):
        attenuated(token, Caveat())
    with pytest.raises(TokenRefused, match="NFC"):
        attenuated(token, Caveat(user="e\u0301"))
    for _ in range(CAVEATS_MAX - 1):
        token = attenuated(token, Caveat(until=UNTIL))
    with pytest.raises(TokenRefused, match="at most 16"):
        attenuated(token, Caveat(until=UNTIL))


@pytest.mark.parametrize(
    "part",
    [
        '{"fly":1}',
        '{"user":"a","user":"b"}',
        "[]",
        "{}",
        '{"until":true}',
        '{"until":253402300800}',  # the year 10000
        '{"can":"x"}',
        '{"can":[["x"]]}',
        '{"user":""}',
        '{"user":"a\\u0000"}',
        '{"user":"' + "\\u00e9" * 129 + '"}',  # 258 bytes
        "\x00",
    ],
)
def test_a_caveat_that_is_not_understood_is_refused(part: str) -> None:
    import base64

    token = minted("01020304", ROOT, NONCE, Caveat(until=UNTIL))
    head, caveat, signature = token.split(".")
    odd = base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode()
    with pytest.raises(TokenRefused):
        read(".".join([head, caveat, odd, signature]))


def test_a_token_that_is_larger_than_any_of_ours_is_refused_before_it_is_looked_into() -> None:
    head, caveat, signature = minted("01020304", ROOT, NONCE, Caveat(until=UNTIL)).split(".")
    with pytest.raises(TokenRefused, match="at most 16"):
        read(".".join([head, *[caveat] * (CAVEATS_MAX + 1), signature]))
    with pytest.raises(TokenRefused, match="at most 4096 characters"):
        read(".".join([head, caveat, signature]) + "=" * 4_096)
    with pytest.raises(TokenRefused, match="it is cut"):
        read(".".join([head, caveat, signature[:-3]]))


def test_a_key_of_one_user_may_name_that_user() -> None:
    key = Authority(fixed={"user": "ada"}, capabilities=frozenset({"memory:read:own"}))
    assert narrowed(key, Caveat(user="ada")).fixed == {"user": "ada"}
    with pytest.raises(TokenRefused, match="two values of user"):
        narrowed(key, Caveat(user="eve"))


# ---------------------------------------------------------------- secrets and capabilities


@given(st.binary(min_size=PREFIX_BYTES, max_size=PREFIX_BYTES), st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES))
def test_a_secret_tells_its_prefix_and_when_it_is_damaged(prefix: bytes, random: bytes) -> None:
    secret = secret_of(prefix, random)
    assert prefix_of(secret) == prefix.hex()
    assert is_intact(secret) and not looks_damaged(secret)
    for place in range(3, len(secret)):
        changed = secret[:place] + ("a" if secret[place] != "a" else "b") + secret[place + 1 :]
        assert prefix_of(changed) is None
    assert looks_damaged(secret[:-1]) and looks_damaged(secret + "x")


@given(capabilities)
def test_what_is_expanded_is_what_is_allowed(held: frozenset[str]) -> None:
    assert {name for name in CAPABILITIES if allows(held, name)} == expanded(held) & CAPABILITIES.keys()
    assert not allows({ADMIN}, "memory:fly")


def test_an_unknown_capability_names_its_nearest() -> None:
    assert "did you mean memory:read:own?" in (unknown(["memory:read:won"]) or "")
    assert (unknown(["zzz"]) or "").startswith("'zzz' is not a capability. Known: memory:read:own, ")
    assert unknown(CAPABILITIES) is None


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_a_key_is_found_by_its_name_in_whatever_letters(verb: str) -> None:
    said, stored = "Cafe\u0301", "Caf\u00e9"
    made = build_parser().parse_args(["key", "create", said, "--tenant", said])
    asked = build_parser().parse_args(["key", verb, said, "--tenant", said])
    listed = build_parser().parse_args(["key", "list", "--tenant", said])
    assert made.asks(made)["name"] == asked.asks(asked)["key"] == stored
    assert made.asks(made)["tenant"] == asked.asks(asked)["tenant"] == listed.asks(listed)["tenant"] == stored
