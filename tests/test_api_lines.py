"""Import lines: cut anywhere they stay the same lines; what is wrong with one is said; what it leaves out is filled."""

from __future__ import annotations

import codecs
import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.config_sections import Checkpoint
from proxy.api.import_lines import (
    DERIVED_TYPES,
    LINE_BYTES_MAX,
    RECORD_TYPES,
    Defaults,
    Derived,
    Given,
    LineCutter,
    LineRefused,
    RawLine,
    Record,
    read_line,
)
from proxy.api.schemas_records import PARTS_MAX, CheckpointLine

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def cut(*chunks: bytes, bytes_max: int = LINE_BYTES_MAX) -> list[RawLine]:
    cutter = LineCutter(bytes_max)
    return [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.finish()


def read(**members: object) -> Given:
    found = read_line(RawLine(1, json.dumps(members).encode()))
    assert isinstance(found, Given)
    return found


def refusal_of(content: bytes) -> str:
    with pytest.raises(LineRefused) as refused:
        read_line(RawLine(1, content))
    return str(refused.value)


@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b" ").replace(b"\r", b" ")), max_size=8),
    st.lists(st.integers(0, 120), max_size=8),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
)
def test_lines_are_the_same_wherever_the_stream_is_cut(
    lines: list[bytes], cuts: list[int], end: bytes, ended: bool
) -> None:
    whole = end.join(lines) + (end if ended else b"")
    places = sorted({min(place, len(whole)) for place in cuts} | {0, len(whole)})
    chunks = [whole[a:b] for a, b in itertools.pairwise(places)]
    expected = [RawLine(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    assert cut(*chunks) == expected


@given(st.integers(0, 30), st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_a_line_beyond_the_bound_is_named_and_costs_no_other(length: int, sizes: list[int]) -> None:
    whole = b"a\n" + b"x" * length + b"\nb\n"
    chunks, at, turn = [], 0, 0
    while at < len(whole):
        size = sizes[turn % len(sizes)]
        chunks.append(whole[at : at + size])
        at, turn = at + size, turn + 1
    middle = [RawLine(2, b"x" * length if length <= 10 else None)] if length else []
    assert cut(*chunks, bytes_max=10) == [RawLine(1, b"a"), *middle, RawLine(3, b"b")]


def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it() -> None:
    """Editors of Windows write one; the first turn of such a file was refused."""
    mark = codecs.BOM_UTF8
    assert cut(mark[:2], mark[2:] + b"a\n", mark + b"b") == [RawLine(1, b"a"), RawLine(2, mark + b"b")]
    assert cut(mark + b"\r\na") == [RawLine(2, b"a")]


def test_a_line_of_the_bound_with_cr_is_taken() -> None:
    assert cut(b"x" * 10 + b"\r\n", bytes_max=10) == [RawLine(1, b"x" * 10)]
    assert cut(b"x" * 11 + b"\n", bytes_max=10) == [RawLine(1, None)]


@given(st.binary(max_size=60))
def test_no_bytes_at_all_make_the_reader_fail_otherwise(raw: bytes) -> None:
    try:
        read_line(RawLine(1, raw))
    except LineRefused as refused:
        assert str(refused)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["role", "content", "session", "name", "occurred_at", "source_id", "type", "event_id", "other"]
        ),
        json_values | st.sampled_from(["user", "turn", "memory", "2026-11-21T09:30:00Z"]),
        max_size=9,
    )
)
def test_no_json_object_makes_the_reader_fail_otherwise(members: dict[str, object]) -> None:
    try:
        read_line(RawLine(1, json.dumps(members).encode()))
    except LineRefused as refused:
        assert str(refused)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "no JSON"),
        (b'{"role": "us', "no JSON: Unterminated string starting at character 9"),
        (b'{"role": NaN}', "NaN"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"[1]", "one JSON object, not an array"),
        (b'{"content":"x"}', "role must be one of user, assistant, system, tool; it is missing"),
        (b'{"role":"robot","content":"x"}', 'it is "robot"'),
        (b'{"role":"user"}', "content must be a string or a list of parts; it is missing"),
        (b'{"role":"user","content":7}', "it is a number"),
        (b'{"role":"user","content":[7]}', "content[0]"),
        (b'{"role":"user","content":"x","occurred_at":"2026-11-21T09:30:00"}', "occurred_at must be RFC 3339"),
        (b'{"role":"user","content":"x","occurred_at":1700000000}', "occurred_at must be RFC 3339"),
        (b'{"role":"user","content":"x","source_id":""}', "source_id must have 1 to 256 characters"),
        (b'{"role":"user","content":"x","source_id":9}', "source_id must be a string, not a number"),
        (b'{"role":"user","content":"x","session":"a\\u0000"}', "session holds a NUL"),
        (b'{"type":"invoice"}', 'lines of type "invoice" cannot be imported'),
        (b'{"role":' + b"[" * 100_000, "no JSON"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: bytes, said: str) -> None:
    assert said in refusal_of(line)


def test_a_session_name_longer_than_its_header_allows_is_refused() -> None:
    assert "256 bytes" in refusal_of(json.dumps({"role": "user", "content": "x", "session": "é" * 129}).encode())


def test_text_parts_are_joined_and_other_parts_left_out() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}, "b"]
    assert read(role="user", content=parts).content == "a\nb"


def test_times_come_out_in_utc() -> None:
    line = read(role="user", content="x", occurred_at="2026-11-21T10:30:00.25+01:00")
    assert line.occurred_at == NOW + timedelta(milliseconds=250)


def test_the_same_line_has_the_same_identity_whatever_its_form() -> None:
    plain = read(role="user", content="a\nb", session="s", occurred_at="2026-11-21T09:30:00Z")
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    formed = read(occurred_at="2026-11-21T10:30:00+01:00", session="s", name=None, content=parts, role="user")
    assert plain.digest == formed.digest


@given(
    st.sampled_from(["role", "content", "session", "name", "occurred_at", "source_id", "idx"]),
    st.sampled_from(["assistant", "tool"]),
)
def test_a_line_that_differs_in_one_member_is_another(member: str, other: str) -> None:
    base = {"role": "user", "content": "x", "session": "s", "occurred_at": "2026-11-21T09:30:00Z", "idx": 1}
    changed = {**base, member: "2026-11-22T09:30:00Z" if member == "occurred_at" else other}
    assert read(**base).digest != read(**changed).digest


def test_what_an_export_adds_makes_no_other_line() -> None:
    event_id = UUID(int=7)
    plain = read(role="user", content="x", session="s", source_id="a")
    exported = read(
        type="turn", event_id=str(event_id), seq=4, origin="live", integrity="user", role="user", content="x",
        session="s", source_id="a", recorded_at="2026-11-21T09:30:00Z",
    )  # fmt: skip
    assert exported.digest == plain.digest
    assert exported.event_id == event_id


def test_an_exported_turn_keeps_its_id_as_its_source() -> None:
    event_id = str(UUID(int=7))
    assert read(type="turn", event_id=event_id, role="user", content="x").source_id == event_id
    assert read(type="turn", event_id=event_id, role="user", content="x", source_id="own").source_id == "own"
    assert read(event_id=event_id, role="user", content="x").source_id is None


@pytest.mark.parametrize(
    ("said", "kept"), [("user", None), (None, None), ("imported", "imported"), ("web", "web"), ("made up", "imported")]
)
def test_an_exported_turn_keeps_the_trust_that_it_had(said: str | None, kept: str | None) -> None:
    exported = read(type="turn", event_id=str(UUID(int=7)), role="user", content="x", integrity=said)
    assert Defaults("new", NOW).line(exported).integrity == kept
    assert read(role="user", content="x", integrity=said).integrity is None


@pytest.mark.parametrize(("said", "kept"), [("none", "none"), ("hidden", "hidden"), ("Hidden", None), (7, None)])
def test_an_exported_turn_says_that_no_memory_is_to_be_made_of_it(said: object, kept: str | None) -> None:
    exported = read(type="turn", event_id=str(UUID(int=7)), role="user", content="x", memory=said)
    assert Defaults("new", NOW).line(exported).memory == kept
    assert read(role="user", content="x", memory=said).memory is None


@pytest.mark.parametrize(("said", "kept"), [({"parent": "a"}, "a"), ({"parent": None}, ""), ({}, None)])
def test_an_exported_turn_says_behind_which_it_stands_and_is_the_same_line_without(
    said: dict[str, Any], kept: str | None
) -> None:
    plain = {"role": "user", "content": "x"}
    exported, bare = (read(type="turn", event_id=str(UUID(int=7)), **plain, **more) for more in (said, {}))
    assert Defaults("new", NOW).line(exported).parent == kept
    assert exported.digest == bare.digest
    assert read(**plain, **said).parent is None
    assert (read(**plain, **said).digest == read(**plain).digest) == (not said.get("parent"))


def test_a_parent_of_an_exported_turn_that_is_no_name_is_refused() -> None:
    with pytest.raises(LineRefused, match="parent must be a string"):
        read(type="turn", event_id=str(UUID(int=7)), role="user", content="x", parent=3)


PICTURE = {"type": "image_url", "media_type": "image/png", "sha256": "0a" * 32, "bytes": 17}


def test_what_an_exported_turn_held_beside_its_words_travels_and_makes_it_no_other_line() -> None:
    plain: dict[str, Any] = {"role": "user", "content": "x"}
    exported, bare = (
        read(type="turn", event_id=str(UUID(int=7)), **plain, **more)
        for more in ({"parts": [{**PICTURE, "unknown": []}]}, {})
    )
    assert Defaults("new", NOW).line(exported).parts == [PICTURE]
    assert exported.digest == bare.digest
    assert read(**plain, parts=3).parts is None


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({}, "parts must be a list of at most 64 objects"),
        ([PICTURE] * 65, "parts must be a list of at most 64 objects"),
        (["x"], "parts must be a list of at most 64 objects"),
        ([PICTURE, {"sha256": "0a" * 32}], r"parts\[1\] must have a type"),
        ([{"type": "refusal", "text": 3}], r"parts\[0\] must have a type"),
        ([{**PICTURE, "sha256": "0g" * 32}], r"parts\[0\].sha256 must have 64 hexadecimal digits"),
        ([{**PICTURE, "bytes": -1}], r"parts\[0\].bytes must be a number of bytes"),
    ],
)
def test_parts_of_an_exported_turn_that_are_none_are_refused(parts: object, error: str) -> None:
    with pytest.raises(LineRefused, match=error):
        read(type="turn", event_id=str(UUID(int=7)), role="user", content="x", parts=parts)


def test_an_image_in_a_line_is_told_by_its_digest_and_nothing_that_a_cut_went_through() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    named = {"type": "file", "file": {"filename": "x" * 250 + "sk-" + "a" * 40, "file_data": "aGk="}}
    parts = read(role="user", content=[{"type": "text", "text": "Look."}, image, named]).parts or []
    assert [one["type"] for one in parts] == ["image_url", "file"]
    assert (parts[0]["media_type"], parts[0]["bytes"]) == ("image/png", 8)
    assert parts[1].keys() == {"type", "sha256", "bytes"}


def test_another_image_under_the_same_words_makes_another_line() -> None:
    said = [{"type": "text", "text": "What is this?"}]
    one, other = (
        read(role="user", content=[*said, {"type": "image_url", "image_url": {"url": f"https://a.example/{n}.png"}}])
        for n in range(2)
    )
    assert one.content == other.content and one.digest != other.digest
    assert read(role="user", content=said).digest == read(role="user", content="What is this?").digest


def test_an_exported_turn_may_have_any_role_a_client_sent() -> None:
    assert read(type="turn", event_id=str(UUID(int=7)), role="function", content="").role == "function"


@pytest.mark.parametrize("kind", sorted(DERIVED_TYPES))
def test_derived_lines_of_an_export_are_passed_over(kind: str) -> None:
    assert read_line(RawLine(3, json.dumps({"type": kind, "content": "x"}).encode())) == Derived(3)


@pytest.mark.parametrize("kind", sorted(RECORD_TYPES))
def test_records_of_an_export_are_lines_of_their_own(kind: str) -> None:
    value = {"type": kind, "id": "x"}
    assert read_line(RawLine(3, json.dumps(value).encode())) == Record(3, kind, value)


def test_a_checkpoint_of_an_export_may_be_as_large_as_the_configuration_lets_one_be() -> None:
    one = {"part": "fact", "content": "It is said at length. " * 2_000, "memory_id": str(UUID(int=7))}
    line = {"id": str(UUID(int=8)), "name": "pier", "parts": [one] * 1_000}
    assert len(CheckpointLine.model_validate(line).parts) == 1_000
    metadata = next(one for one in Checkpoint.model_fields["parts_max"].metadata if hasattr(one, "le"))
    assert metadata.le == PARTS_MAX


def test_a_message_that_only_calls_tools_needs_no_content_as_in_a_chat_completion() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    for line in (read(role="assistant", content=None, tool_calls=calls), read(role="assistant", tool_calls=calls)):
        assert (line.content, line.tool_calls) == ("", calls)
    for calls_none in (b'"tool_calls":[]', b'"tool_calls":null'):
        assert "content" in refusal_of(b'{"role":"assistant","content":null,' + calls_none + b"}")


def test_missing_sessions_are_one_and_missing_times_are_those_of_the_line_before() -> None:
    defaults = Defaults("new", NOW)
    first = defaults.line(read(role="user", content="a"))
    second = defaults.line(read(role="user", content="b", session="own", occurred_at="2025-01-01T00:00:00Z"))
    third = defaults.line(read(role="user", content="c"))
    assert (first.session_label, first.occurred_at) == ("new", NOW)
    assert (second.session_label, third.session_label) == ("own", "new")
    assert third.occurred_at == second.occurred_at == datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "said"),
    [("1e999", "content: a number in it"), ("[" * 900 + "]" * 900, "content: it is nested deeper than 64 levels")],
)
def test_a_line_with_what_no_store_can_keep_is_refused_by_its_member(content: str, said: str) -> None:
    with pytest.raises(LineRefused, match=said):
        read_line(RawLine(1, f'{{"role": "user", "content": {content}}}'.encode()))
