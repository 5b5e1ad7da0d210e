"""Who asks, and for what: precedence, refusals and their names (DESIGN section 2)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import CapabilityMissing, MemoryConflict, MemoryInvalid, Refused, ScopeDenied
from proxy.identity import Ask, Credential, identify, openai_user_of, require_clear, rfc3339

TENANT = UUID(int=1)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OPEN = Credential(TENANT)
MEMBERS = ("user", "project", "agent", "session", "mode", "checkpoint", "persona", "as_of", "budget")


def key(
    *capabilities: str, fixed: Mapping[str, str] | None = None, defaults: Mapping[str, str] | None = None
) -> Credential:
    """A credential of `keys` mode."""
    return Credential(TENANT, UUID(int=9), fixed or {}, defaults or {}, frozenset(capabilities))


def header_of(member: str) -> str:
    return "X-Memory-" + "-".join(part.capitalize() for part in member.split("_"))


def asked(
    headers: dict[str, str] | list[tuple[bytes, bytes]] | None = None,
    memory: dict[str, Any] | None = None,
    openai_user: str | None = None,
    credential: Credential = OPEN,
) -> Ask:
    pairs = headers if isinstance(headers, list) else [(n.encode(), v.encode()) for n, v in (headers or {}).items()]
    return identify(pairs, memory, openai_user, credential, NOW)


def refused(fault: type[Refused], **given_parts: Any) -> str | None:
    """The `param` of the refusal."""
    with pytest.raises(fault) as raised:
        asked(**given_parts)
    return raised.value.param


def test_without_anything_all_names_are_default_and_memory_is_on() -> None:
    ask = asked()
    assert (ask.scope.tenant, ask.scope.user, ask.scope.project, ask.scope.agent) == (TENANT, *["default"] * 3)
    assert (ask.mode, ask.inserts, ask.captures) == ("on", True, True)
    assert (ask.session, ask.checkpoint, ask.persona, ask.as_of, ask.budget) == (None,) * 5


def test_every_name_that_is_a_secret_is_asked_for_as_it_is_stored() -> None:
    credential = Credential(TENANT, hide=lambda name: name.replace("s3cret", "hidden"))
    named = ("user", "project", "agent", "session", "checkpoint", "persona")
    ask = asked({header_of(member): f"{member}-s3cret" for member in named}, credential=credential)
    said = (ask.scope.user, ask.scope.project, ask.scope.agent, ask.session, ask.checkpoint)
    assert (*said, ask.persona and ask.persona.name) == tuple(f"{member}-hidden" for member in named)


@pytest.mark.parametrize("member", ["user", "project", "agent"])
def test_each_scope_name_is_taken_from_its_header_or_its_member(member: str) -> None:
    assert getattr(asked({header_of(member): "x"}).scope, member) == "x"
    assert getattr(asked(memory={member: "x"}).scope, member) == "x"


@pytest.mark.parametrize(
    ("mode", "inserts", "captures"),
    [("on", True, True), ("read", True, False), ("write", False, True), ("off", False, False)],
)
def test_modes_say_what_is_inserted_and_what_is_kept(mode: str, inserts: bool, captures: bool) -> None:
    ask = asked({"X-Memory-Mode": mode})
    assert (ask.inserts, ask.captures) == (inserts, captures)


# ---------------------------------------------------------------- precedence


def test_precedence_is_fixed_header_object_default_openai_default() -> None:
    anyone = key("act:any_user", defaults={"user": "from key"})
    assert asked(openai_user="oa", credential=anyone).scope.user == "from key"
    assert asked(memory={"user": "obj"}, openai_user="oa", credential=anyone).scope.user == "obj"
    assert asked({"X-Memory-User": "head"}, openai_user="oa", credential=anyone).scope.user == "head"
    assert asked(openai_user="oa").scope.user == "oa"
    assert asked(credential=key(fixed={"user": "fixed"}), openai_user="oa").scope.user == "fixed"


def test_header_and_object_that_agree_are_one_statement() -> None:
    assert asked({"X-Memory-User": "a%20b"}, {"user": "a b"}).scope.user == "a b"


def test_header_and_object_that_say_different_members_are_both_heard_among_whatever_else_is_sent() -> None:
    headers = {"Host": "x", "X-Memory-Project": "p", "Accept": "*/*", "X-Memory-Agent": "a", "X-Memory-Odd": "1"}
    scope = asked(headers, {"session": None, "budget": 7, "user": "u"}).scope
    assert (scope.user, scope.project, scope.agent) == ("u", "p", "a")


@pytest.mark.parametrize("member", MEMBERS)
def test_header_and_object_that_differ_are_a_conflict(member: str) -> None:
    value: Any = {"budget": 7, "mode": "on", "as_of": "2026-01-01T00:00:00Z"}.get(member, "one")
    other = {"budget": "8", "mode": "off", "as_of": "2026-01-02T00:00:00Z"}.get(member, "two")
    assert refused(MemoryConflict, headers={header_of(member): other}, memory={member: value}) == f"memory.{member}"


def test_openai_user_names_only_the_user() -> None:
    scope = asked(openai_user="oa").scope
    assert (scope.project, scope.agent) == ("default", "default")


def test_openai_user_needs_the_capability_to_name_any_user() -> None:
    assert asked(openai_user="oa", credential=key()).scope.user == "default"
    assert asked(openai_user="oa", credential=key("act:any_user")).scope.user == "oa"


def test_safety_identifier_goes_before_user_and_what_is_no_name_is_passed_over() -> None:
    assert openai_user_of({"user": "u", "safety_identifier": "s"}) == "s"
    assert openai_user_of({"user": "u", "safety_identifier": 7}) == "u"
    assert openai_user_of({"user": "u", "safety_identifier": ""}) == "u"
    for odd in (None, 7, "", ["u"]):
        assert openai_user_of({"user": odd}) is None


def test_those_whose_openai_user_can_be_no_name_have_each_a_memory_of_their_own() -> None:
    """They were all `default`: what one had said was given to the others."""
    odd = ["x" * 257, "x" * 258, "\u00e9" * 129, "a\x00b", "a\x00c", "\ud800", "\ud801"]
    names = [openai_user_of({"user": one}) for one in odd]
    assert len({*names, None}) == len(odd) + 1
    assert names[0] == f"sha256-{hashlib.sha256(b'x' * 257).hexdigest()}"
    assert openai_user_of({"user": "u", "safety_identifier": odd[0]}) == names[0]
    assert asked({"X-Memory-User": names[0] or ""}).scope.user == names[0]
    assert openai_user_of({"user": "e\u0301" * 129}) == names[2]


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize("member", ["user", "project", "agent"])
def test_fixed_value_cannot_be_overridden_only_repeated(member: str) -> None:
    fixed = key("act:any_user", fixed={member: "mine"})
    assert getattr(asked(credential=fixed).scope, member) == "mine"
    assert getattr(asked({header_of(member): "mine"}, credential=fixed).scope, member) == "mine"
    assert refused(ScopeDenied, headers={header_of(member): "theirs"}, credential=fixed) == header_of(member)
    assert refused(ScopeDenied, memory={member: "theirs"}, credential=fixed) == header_of(member)


def test_naming_a_user_needs_the_capability_where_the_key_fixes_none() -> None:
    assert refused(CapabilityMissing, headers={"X-Memory-User": "x"}, credential=key()) == "X-Memory-User"
    assert refused(CapabilityMissing, memory={"user": "x"}, credential=key("memory:write")) == "X-Memory-User"
    assert asked({"X-Memory-User": "me"}, credential=key(fixed={"user": "me"})).scope.user == "me"
    for capability in ("act:any_user", "memory:admin"):
        assert asked({"X-Memory-User": "x"}, credential=key(capability)).scope.user == "x"


# ---------------------------------------------------------------- what is refused, and by which name


@pytest.mark.parametrize("member", MEMBERS)
def test_header_twice_empty_long_or_not_ascii_is_refused_by_its_name(member: str) -> None:
    name = header_of(member).encode()
    for pairs in (
        [(name, b"1"), (name.upper(), b"1")],
        [(name, b"")],
        [(name, b"x" * 257)],
        [(name, b"caf\xc3\xa9")],
        [(name, b"a b")],
        [(name, b"a\tb")],
        [(name, b"%ff")],
        [(name, b"%00")],
        [(name, b"a%ED%A0%80")],
    ):
        assert refused(MemoryInvalid, headers=pairs) == header_of(member), pairs


@pytest.mark.parametrize("member", MEMBERS)
def test_object_member_of_a_wrong_type_or_size_is_refused_by_its_name(member: str) -> None:
    odd: list[Any] = [True, [], {}, 1.5, "", "x" * 257, "é" * 129, "a\x00b", "\ud800"]
    odd += ["7"] if member == "budget" else [7]
    for value in odd:
        assert refused(MemoryInvalid, memory={member: value}) == f"memory.{member}", value


def test_null_in_the_object_is_as_if_it_were_absent() -> None:
    assert asked(memory=dict.fromkeys(MEMBERS)) == asked()


def test_unknown_member_is_refused_and_unknown_header_is_not() -> None:
    assert refused(MemoryInvalid, memory={"usr": "x"}) == "memory.usr"
    assert refused(MemoryInvalid, memory={"n" * 9_000: "x"}) == "memory." + "n" * 64
    assert asked({"X-Memory-Usr": "x", "X-Memory-": "y"}) == asked()


@pytest.mark.parametrize("mode", ["ON", "of", "yes", "on,off"])
def test_unknown_mode_is_refused(mode: str) -> None:
    assert refused(MemoryInvalid, headers={"X-Memory-Mode": mode}) == "X-Memory-Mode"


@pytest.mark.parametrize("budget", ["-1", "1.5", "1e3", "%D9%A3", "+1", "0x10", "1_000"])
def test_budget_that_is_no_whole_number_is_refused(budget: str) -> None:
    assert refused(MemoryInvalid, headers={"X-Memory-Budget": budget}) == "X-Memory-Budget"


def test_budget_is_taken_from_both_places() -> None:
    assert (asked({"X-Memory-Budget": "0"}).budget, asked(memory={"budget": 250}).budget) == (0, 250)
    assert asked({"X-Memory-Budget": "9" * 9}).budget == 999_999_999
    assert refused(MemoryInvalid, memory={"budget": -1}) is not None


def test_budget_larger_than_any_prompt_is_a_whole_number_too() -> None:
    for value in (2**31, 2**63, 10**40):
        assert asked({"X-Memory-Budget": str(value)}).budget == asked(memory={"budget": value}).budget == value


ODD_MOMENTS = [
    "2026-11-21",
    "2026-11-21T09:30:00",
    "2026-11-21 09:30:00Z",
    "yesterday",
    "T",
    "7",
    "20261121T093000+0000",
    "2026-W12-1T00:00:00Z",
    "2026-11-21T09:30Z",
]
NOWHERE = ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"]


@pytest.mark.parametrize("moment", ODD_MOMENTS + NOWHERE)
def test_as_of_without_date_time_and_offset_is_refused(moment: str) -> None:
    assert refused(MemoryInvalid, headers={"X-Memory-As-Of": quote(moment)}) == "X-Memory-As-Of"


def test_as_of_is_utc_and_the_future_means_now() -> None:
    past = asked({"X-Memory-As-Of": "2026-11-21T09:30:00+02:00"}).as_of
    assert past == datetime(2026, 11, 21, 7, 30, tzinfo=UTC)
    assert asked({"X-Memory-As-Of": "2026-11-21t07:30:00.0000000z"}).as_of == past
    assert asked({"X-Memory-As-Of": (NOW + timedelta(days=3)).isoformat().replace("+", "%2B")}).as_of == NOW


def test_a_time_is_one_from_the_second_behind_the_first_to_the_last() -> None:
    ends = [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00.000001Z",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59.000001Z",
    ]
    assert [rfc3339(moment) is not None for moment in ends] == [False, True, True, False]


def test_pages_of_the_web_are_asked_for_now_by_who_reads_and_writes_now() -> None:
    assert not asked({"X-Memory-Mode": "on"}).outside
    for more in ({}, {"X-Memory-Mode": "on"}, {"X-Memory-User": "u"}):
        assert asked({"X-Memory-Outside": "now", **more}).outside and asked(more, {"outside": "now"}).outside
    modes = [{"X-Memory-Mode": mode} for mode in ("read", "write", "off")]
    for more in (*modes, {"X-Memory-As-Of": "2026-11-21T09:30:00Z"}):
        assert refused(MemoryInvalid, headers={"X-Memory-Outside": "now", **more}) == "X-Memory-Outside"
    assert refused(MemoryInvalid, headers={"X-Memory-Outside": "later"}) == "X-Memory-Outside"


# ---------------------------------------------------------------- text


def test_names_are_compared_after_nfc() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    spellings = [asked({"X-Memory-User": quote(text)}) for text in (composed, decomposed)]
    assert spellings[0] == spellings[1] == asked(memory={"user": decomposed})
    assert asked({"X-Memory-User": quote(composed)}, {"user": decomposed}).scope.user == composed


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=60))
def test_any_text_reaches_its_place_by_header_as_by_object(text: str) -> None:
    sent = quote(text, safe="")
    if len(text.encode()) > 256:
        return
    assert asked({"X-Memory-Project": sent}) == asked(memory={"project": text})


@pytest.mark.parametrize("letter", ["x", "é", "会", "😀"])
def test_a_name_may_be_as_long_in_its_header_as_in_the_object(letter: str) -> None:
    longest = letter * (256 // len(letter.encode()))
    assert asked({"X-Memory-User": quote(longest)}).scope.user == asked(memory={"user": longest}).scope.user == longest
    assert refused(MemoryInvalid, headers=[(b"X-Memory-User", quote(longest + letter).encode())]) == "X-Memory-User"


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=300)), max_size=6), st.booleans())
def test_no_header_makes_it_fail_otherwise_than_by_refusing(pairs: list[tuple[bytes, bytes]], ours: bool) -> None:
    named = [((b"X-Memory-User" if ours else name), value) for name, value in pairs]
    try:
        asked(named)
    except Refused as refusal:
        assert refusal.status == 400


_VALUES = st.sampled_from(["off", "on", "", "ann", "%ff", "2026-11-21T09:30:00Z", "7", "now", "x y", "a" * 300])
_CALLERS = [OPEN, key(), key("act:any_user"), key("act:any_user", fixed={"user": "ann"}), key(fixed={"session": "s"})]


@given(st.lists(st.tuples(st.sampled_from([*MEMBERS, "outside", "other"]), _VALUES), max_size=4))
def test_a_head_is_clear_where_it_can_be_understood_and_nowhere_else(said: list[tuple[str, str]]) -> None:
    pairs = [(header_of(member).encode(), value.encode()) for member, value in said]
    for caller in _CALLERS:
        found: list[tuple[object, ...]] = []
        for look in (
            lambda one=caller: identify(pairs, None, None, one, NOW),
            lambda one=caller: require_clear(pairs, one, NOW),
        ):
            try:
                look()
                found.append(())
            except Refused as refusal:
                found.append((type(refusal), refusal.param, refusal.message))
        assert found[0] == found[1]


def test_differing_case_is_another_user() -> None:
    assert asked({"X-Memory-User": "Ann"}).scope.user != asked({"X-Memory-User": "ann"}).scope.user


def test_a_tokens_session_is_known_by_the_name_it_is_kept_by() -> None:
    token = Credential(TENANT, key_id=UUID(int=9), fixed={"session": "secret"}, hide=lambda name: name.upper())
    assert token.session == "SECRET"
    for headers in ({}, {"X-Memory-Session": "secret"}, {"X-Memory-Session": "SECRET"}):
        assert asked(headers, credential=token).session == "SECRET"
    assert refused(ScopeDenied, headers={"X-Memory-Session": "other"}, credential=token) == "X-Memory-Session"
