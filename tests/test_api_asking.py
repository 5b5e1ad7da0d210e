"""What a call asks: positions of bad JSON, names of bad members, pages, times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from pydantic import BaseModel

from memory.errors import MemoryInvalid, Unprocessable
from memory.ids import new_id
from proxy.api.asking import json_object, moment_in, parameters, to_rfc3339, validated
from proxy.api.documents import _ordinal
from proxy.api.memories import version_in
from proxy.api.paging import page_of
from proxy.api.retrievals import is_young
from proxy.api.schemas import MemoryPatch
from proxy.api.schemas_checkpoint import CheckpointAsked
from proxy.api.schemas_entity import EntityAsked, RelationshipAsked
from proxy.api.schemas_forget import ForgetAsked
from proxy.api.schemas_replay import ReplayAsked
from proxy.api.schemas_search import SearchAsked
from proxy.identity import rfc3339

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "line 1 column 1 (character 0)"),
        (b'{"query": }', "line 1 column 11 (character 10)"),
        (b'{\n "query": x\n}', "line 2 column 11"),
        (b'{"query": "\xff"}', "not UTF-8 at byte 11"),
        (b'{"k": NaN}', "NaN is not a JSON number"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_malformed_json_is_refused_with_its_position(raw: bytes, said: str) -> None:
    with pytest.raises(MemoryInvalid) as refused:
        json_object(raw)
    assert said in refused.value.message


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"x"', b"1", b"true"])
def test_another_json_value_than_an_object_does_not_fit(raw: bytes) -> None:
    with pytest.raises(Unprocessable):
        json_object(raw)


@pytest.mark.parametrize(
    ("raw", "param", "said"),
    [
        (b'{"a": 1, "importance": 1e999}', "importance", "beyond what can be kept"),
        (b'{"attributes": {"a": [-1e999]}}', "attributes", "beyond what can be kept"),
        (b'{"attributes": ' + b"[" * 900 + b"]" * 900 + b"}", "attributes", "nested deeper than 64"),
        (b'{"attributes": ' + b'{"a":' * 65 + b"1" + b"}" * 65 + b"}", "attributes", "nested deeper than 64"),
    ],
)
def test_what_json_can_say_and_no_store_can_keep_is_refused_by_its_member(raw: bytes, param: str, said: str) -> None:
    with pytest.raises(Unprocessable) as refused:
        json_object(raw)
    assert refused.value.param == param
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b'{"user": "ada", "dry_run": true, "dry_run": false}', "dry_run"),
        (b'{"filters": {"kinds": [], "k\\u0069nds": null}}', "kinds"),
        (b'{"' + b"n" * 300 + b'": 1, "' + b"n" * 300 + b'": 1}', "n" * 64),
    ],
)
def test_a_member_that_is_given_twice_is_refused_by_its_name(raw: bytes, param: str) -> None:
    with pytest.raises(Unprocessable) as refused:
        json_object(raw)
    assert (refused.value.param, refused.value.message) == (param, f"{param} was given twice; give it once")


def test_a_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(MemoryInvalid):
        json_object(b'{"k": ' + b"9" * 5_000 + b"}")


def test_what_is_large_and_deep_enough_goes_on() -> None:
    raw = b'{"attributes": ' + b"[" * 64 + b"1.7e308" + b"]" * 64 + b"}"
    assert json_object(raw)["attributes"]


@pytest.mark.parametrize("cursor", ["9" * 5_000, "\u0663", "-1", "1.0", ""])
def test_a_cursor_of_chunks_that_is_no_number_is_refused(cursor: str) -> None:
    with pytest.raises(MemoryInvalid):
        _ordinal(cursor)
    assert (_ordinal(None), _ordinal("17")) == (0, 17)


def test_a_property_beyond_all_numbers_is_refused_by_its_member() -> None:
    with pytest.raises(Unprocessable) as refused:
        validated(EntityAsked, {"name": "x", "type": "host", "properties": {"size": float("inf")}})
    assert refused.value.param == "properties"


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({}, "query", "required"),
        ({"query": ""}, "query", "at least 1"),
        ({"query": 7}, "query", "string"),
        ({"query": "x", "k": 0}, "k", "greater than or equal to 1"),
        ({"query": "x", "k": 201}, "k", "less than or equal to 200"),
        ({"query": "x", "k": "10"}, "k", "integer"),
        ({"query": "x", "k": True}, "k", "integer"),
        ({"query": "x", "kinds": ["fact"]}, "kinds.0", "episodic"),
        ({"query": "x", "limit": 3}, "limit", "not a member"),
        ({"query": "x", "as_of": "yesterday"}, "as_of", "RFC 3339"),
        ({"query": "x", "occurred_after": 17}, "occurred_after", "RFC 3339"),
        ({"query": "x", "filters": {"tenant": "y"}}, "filters.tenant", "not a member"),
        ({"query": "x", "n" * 900_000: 1}, "n" * 64, "not a member"),
    ],
)
def test_a_member_that_does_not_fit_is_named(body: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(Unprocessable) as refused:
        validated(SearchAsked, body)
    assert refused.value.param == param
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("model", "body", "said"),
    [
        (ReplayAsked, {"without": ["m1"]}, "without.0: expected an id, like 01a205db-37d7-7a8d-8300-d7d3ca9ec6e8"),
        (CheckpointAsked, {"name": "n", "memories": [f"{UUID(int=1)}\n"]}, "memories.0: expected an id, like "),
        (RelationshipAsked, {"source": "a", "type": "works at", "target": "b"}, "type: expected small letters, digits"),
    ],
)
def test_what_a_text_is_to_look_like_is_said_in_words(model: type[BaseModel], body: dict[str, Any], said: str) -> None:
    """`String should match pattern '^[0-9a-fA-F]{8}(-…'` was said."""
    with pytest.raises(Unprocessable) as refused:
        validated(model, body)
    assert refused.value.message.startswith(said) and "pattern" not in refused.value.message


def test_a_refusal_of_ours_says_what_is_wrong_and_not_what_kind_of_error_it_was() -> None:
    with pytest.raises(Unprocessable, match=r"^body: name exactly one of user, project, session"):
        validated(ForgetAsked, {"user": "ada", "project": "sea"})


def test_of_a_parameter_that_nobody_knows_no_more_is_repeated_than_names_it() -> None:
    with pytest.raises(MemoryInvalid) as refused:
        parameters(make_mocked_request("GET", f"/x?{'n' * 60_000}=1"), {"limit"})
    assert refused.value.param == "n" * 64
    assert len(refused.value.message) < 200


def test_the_members_of_a_call_are_told_for_an_unknown_one_and_not_for_one_of_a_part_of_it() -> None:
    with pytest.raises(Unprocessable, match="limit is not a member of this call; known: as_of, explain, filters"):
        validated(SearchAsked, {"query": "x", "limit": 3})
    with pytest.raises(Unprocessable, match=r"filters\.role is not a member of this call$"):
        validated(SearchAsked, {"query": "x", "filters": {"role": "user"}})


@pytest.mark.parametrize("said", [["2", "7"], ["2", "2"], ["2", ""], ['"2", "7"']])
def test_a_change_is_made_from_one_version(said: list[str]) -> None:
    head = CIMultiDict(("If-Match", value) for value in said)
    with pytest.raises(MemoryInvalid, match="If-Match"):
        version_in(make_mocked_request("PATCH", "/", headers=head))


@pytest.mark.parametrize("member", ["content", "pinned", "importance", "sensitivity", "attributes"])
def test_only_an_expiry_can_be_set_to_null(member: str) -> None:
    with pytest.raises(Unprocessable):
        validated(MemoryPatch, {member: None})
    assert validated(MemoryPatch, {"expires_at": None}).model_fields_set == {"expires_at"}


@given(st.dictionaries(st.sampled_from([*SearchAsked.model_fields, "x"]), st.none() | st.text() | st.integers()))
def test_no_object_makes_the_validation_fail_otherwise(body: dict[str, Any]) -> None:
    try:
        validated(SearchAsked, body)
    except Unprocessable as refused:
        assert refused.param


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "", "1.5", "１", "99999999999"])
def test_a_limit_outside_its_bounds_is_refused(limit: str) -> None:
    with pytest.raises(MemoryInvalid) as refused:
        page_of({"limit": limit}, "memories")
    assert refused.value.param == "limit"


def test_an_order_is_asc_or_desc() -> None:
    assert page_of({}, "memories").order == "desc"
    assert page_of({"order": "asc"}, "memories").order == "asc"
    with pytest.raises(MemoryInvalid) as refused:
        page_of({"order": "up"}, "memories")
    assert refused.value.param == "order"


@given(st.text(max_size=60))
def test_a_cursor_leads_back_to_the_place_it_was_given_for(inner: str) -> None:
    cursor = page_of({}, "memories").next_cursor(inner)
    assert cursor is not None
    assert page_of({"cursor": cursor}, "memories").cursor == inner
    for given_, what in (({"cursor": cursor}, "sessions"), ({"cursor": cursor, "order": "asc"}, "memories")):
        with pytest.raises(MemoryInvalid) as refused:
            page_of(given_, what)
        assert refused.value.param == "cursor"


@given(st.text(max_size=80))
def test_no_text_makes_the_cursor_fail_otherwise(raw: str) -> None:
    try:
        page_of({"cursor": raw}, "memories")
    except MemoryInvalid as refused:
        assert refused.param == "cursor"


@given(st.datetimes(timezones=st.just(UTC)).filter(lambda moment: FIRST < moment <= LAST))
def test_a_time_that_is_written_is_read_again(moment: datetime) -> None:
    written = to_rfc3339(moment)
    assert written is not None
    assert rfc3339(written) == moment


@pytest.mark.parametrize(
    "text",
    ["", "2026-11-21", "2026-11-21T09:30:00", "20261121T093000Z", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+10:00"],
)
def test_a_time_without_an_offset_is_none(text: str) -> None:
    assert rfc3339(text) is None


def test_an_offset_keeps_its_plus_where_a_query_was_not_percent_encoded() -> None:
    asked = make_mocked_request("GET", "/?since=2026-11-21T09:30:00+01:00&until=2026-11-21T08:30:00%2B00:00")
    given = parameters(asked, {"since", "until"})
    since, until = moment_in(given, "since"), moment_in(given, "until")
    assert since == until == datetime(2026, 11, 21, 8, 30, tzinfo=UTC)
    for odd in ("2026-11-21 09:30", "2026-11-21T09:30:00 ", "2026-11-21 09:30:00"):
        with pytest.raises(MemoryInvalid):
            moment_in({"since": odd}, "since")


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.000001Z"]
)
def test_an_end_of_the_calendar_is_no_time(text: str) -> None:
    assert rfc3339(text) is None


def test_only_a_new_retrieval_is_waited_for() -> None:
    now = datetime.now(UTC)
    assert is_young(new_id(), now)
    assert not is_young(UUID("0190b6f0-0000-7000-8000-000000000000"), now)
    assert not is_young(UUID(int=0), now)


def test_json_numbers_and_names_of_members_survive_the_way_through() -> None:
    value = {"query": "ü \U0001f600", "k": 3}
    assert json_object(json.dumps(value, ensure_ascii=False).encode()) == value
