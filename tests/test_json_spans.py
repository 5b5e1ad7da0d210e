"""Span editing keeps every character that was not asked to change. The raw JSON texts here serve other tests too."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.json_spans import (
    Edit,
    JsonUnreadable,
    apply_edits_to_body,
    decode_utf8,
    edit_members,
    elements,
    json_string,
    parse_document,
    replace_value,
)

UNTIMED = settings(deadline=None)  # the machine is shared: a slow example proves nothing

BLANKS = st.text(alphabet=" \t\n\r", max_size=2)
ODD_NUMBERS = (
    "1e999",
    "-1e999",
    "0.1000000000000000055",
    "-0",
    "-0.0",
    "1E+5",
    "1234567890" * 3,
    "NaN",
)
ODD_STRINGS = (
    '"\\ud800"',
    '"a\\/b"',
    '"\\u0041\\u00e9"',
    '"\\ud83d\\ude00"',
    '"😀 é"',
    '"\\\\\\""',
    '"{\\"a\\":[1,"',
    '""',
)


def raw_strings() -> st.SearchStrategy[str]:
    texts = st.text(max_size=8)
    plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    return st.one_of(
        texts.map(json.dumps),
        plain.map(lambda text: json.dumps(text, ensure_ascii=False)),
        st.sampled_from(ODD_STRINGS),
    )


def raw_scalars() -> st.SearchStrategy[str]:
    numbers = st.one_of(st.integers().map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr))
    return st.one_of(raw_strings(), numbers, st.sampled_from((*ODD_NUMBERS, "true", "false", "null")))


@st.composite
def raw_array(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    raws = draw(st.lists(values, max_size=3))
    return "[" + (",".join(draw(BLANKS) + raw + draw(BLANKS) for raw in raws) or draw(BLANKS)) + "]"


@dataclass(frozen=True, slots=True)
class RawObject:
    """A JSON object's text and the raw keys and values it was made of."""

    text: str
    pairs: list[tuple[str, str]]


@st.composite
def raw_objects(draw: st.DrawFn, pairs: st.SearchStrategy[list[tuple[str, str]]]) -> RawObject:
    chosen = draw(pairs)
    parts = [draw(BLANKS) + key + draw(BLANKS) + ":" + draw(BLANKS) + value + draw(BLANKS) for key, value in chosen]
    inside = ",".join(parts) or draw(BLANKS)
    return RawObject("{" + inside + "}", chosen)


def raw_values() -> st.SearchStrategy[str]:
    def deeper(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.lists(st.tuples(raw_strings(), values), max_size=3)
        return st.one_of(raw_array(values), raw_objects(pairs).map(lambda made: made.text))

    return st.recursive(raw_scalars(), deeper, max_leaves=6)


KEYS = st.one_of(raw_strings(), st.sampled_from(('"a"', '"memory"', '"m\\u0065mory"', '"cache_salt"')))
OBJECTS = raw_objects(st.lists(st.tuples(KEYS, raw_values()), max_size=5))


def pairs_of(text: str) -> list[tuple[str, str]]:
    """(key, value) of the members, values dumped again so that NaN equals NaN."""
    seen: list[list[tuple[str, object]]] = []

    def note(pairs: list[tuple[str, object]]) -> dict[str, object]:
        seen.append(pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=note)
    return [(key, json.dumps(value)) for key, value in seen[-1]]


def edited_text(text: str, edits: Sequence[Edit]) -> str:
    return apply_edits_to_body(text.encode(), text, edits).decode()


def naively(text: str, edits: Sequence[Edit]) -> str:
    """The edits done one at a time from the last, which moves no other."""
    for edit in reversed(sorted(edits, key=lambda edit: (edit.start, edit.end))):
        text = text[: edit.start] + edit.replacement + text[edit.end :]
    return text


def undone(edited: str, original: str, edits: list[Edit]) -> str:
    """The edited text with every edit taken back."""
    shift = 0
    back = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        start = edit.start + shift
        back.append(Edit(start, start + len(edit.replacement), original[edit.start : edit.end]))
        shift += len(edit.replacement) - (edit.end - edit.start)
    return edited_text(edited, back)


@UNTIMED
@given(OBJECTS)
def test_every_member_is_found_with_its_exact_place(made: RawObject) -> None:
    members = parse_document(made.text).members
    assert [(json.dumps(m.key), made.text[m.value_start : m.end]) for m in members] == [
        (json.dumps(json.loads(key)), value) for key, value in made.pairs
    ]
    assert [(m.key, json.dumps(m.value)) for m in members] == pairs_of(made.text)


@UNTIMED
@given(OBJECTS, st.data())
def test_removed_members_are_gone_and_all_other_text_stays(made: RawObject, data: st.DataObject) -> None:
    parsed = parse_document(made.text)
    remove = data.draw(st.sets(st.sampled_from(range(len(made.pairs))))) if made.pairs else set()
    append = data.draw(st.lists(st.tuples(st.text(max_size=3), raw_values()), max_size=2))
    edits = edit_members(parsed, remove=remove, append=append)
    edited = edited_text(made.text, edits)
    kept = [pair for index, pair in enumerate(pairs_of(made.text)) if index not in remove]
    added = [(json.loads(json_string(key)), json.dumps(json.loads(raw))) for key, raw in append]
    assert pairs_of(edited) == kept + added
    assert undone(edited, made.text, edits) == made.text
    raws = [made.text[m.start : m.end] for index, m in enumerate(parsed.members) if index not in remove]
    again = parse_document(edited)
    assert [edited[m.start : m.end] for m in again.members][: len(raws)] == raws


@UNTIMED
@given(OBJECTS, st.data())
def test_edits_on_bytes_equal_edits_on_text(made: RawObject, data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(made.text)), max_size=6)))
    spans = zip(places[::2], places[1::2], strict=False)
    edits = [Edit(start, end, data.draw(st.sampled_from(("", "é", "x😀")))) for start, end in spans]
    body = made.text.encode()
    assert apply_edits_to_body(body, made.text, edits) == naively(made.text, edits).encode()


@UNTIMED
@given(OBJECTS, st.data())
def test_what_python_refuses_is_unreadable_and_nothing_else_is(made: RawObject, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(made.text)))
    width = data.draw(st.integers(0, 2))
    put_in = data.draw(st.sampled_from(("", "}", ",", '"', "[", "1", " ", ":", "\x00")))
    text = made.text[:place] + put_in + made.text[place + width :]
    try:
        readable = isinstance(json.loads(text), dict)
    except ValueError:
        readable = False
    try:
        parse_document(text, split=("a", "memory"))
    except JsonUnreadable:
        assert not readable
    else:
        assert readable


@UNTIMED
@given(raw_array(raw_values()))
def test_elements_of_an_array_are_found_with_their_places(text: str) -> None:
    parts, end = elements("  " + text + " ,", 2)
    assert end == 2 + len(text)
    assert json.dumps([part.value for part in parts]) == json.dumps(json.loads(text))
    assert all(json.dumps(json.loads(("  " + text)[p.start : p.end])) == json.dumps(p.value) for p in parts)


@pytest.mark.parametrize(
    ("text", "key", "left"),
    [
        ('{"a":1,"b":2,"c":3}', "a", '{"b":2,"c":3}'),
        ('{"a":1,"b":2,"c":3}', "b", '{"a":1,"c":3}'),
        ('{ "a" : 1 , "b" : 2 , "c" : 3 }', "c", '{ "a" : 1 , "b" : 2 }'),
        ('{ "a" : 1 }', "a", "{  }"),
        ('{"a":1,"a":2}', "a", '{"a":1}'),
    ],
)
def test_a_removed_member_takes_its_comma_along(text: str, key: str, left: str) -> None:
    parsed = parse_document(text)
    assert edited_text(text, edit_members(parsed, remove={parsed.indices(key)[-1]})) == left


def test_the_last_of_duplicate_keys_counts() -> None:
    parsed = parse_document('{"a":1,"\\u0061":2,"b":3}')
    member = parsed.last("a")
    assert member is not None
    assert member.value == 2
    assert edited_text('{"a":1,"\\u0061":2,"b":3}', [replace_value(member, "[]")]) == '{"a":1,"\\u0061":[],"b":3}'


def test_a_member_is_appended_behind_the_last_one() -> None:
    assert edited_text("{ }", edit_members(parse_document("{ }"), append=[("k", "1")])) == '{"k":1 }'
    one = '{"a":1\n}'
    assert edited_text(one, edit_members(parse_document(one), append=[('k"', "1")])) == '{"a":1,"k\\"":1\n}'


def test_only_arrays_that_were_asked_for_are_split() -> None:
    parsed = parse_document('{"a":[1, [2]],"b":[3]}', split=("a",))
    assert [part.value for part in parsed.members[0].elements] == [1, [2]]
    assert parsed.members[0].value == [1, [2]]
    assert parsed.members[1].elements == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"a":1} x',
        b'{"a":1,}',
        b'{"a":\xff}',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"a":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001,
        b'{"a":' + b"1" * 5_000 + b"}",
        b'{"a":"\n"}',
        b'{"a":1',
        b'{"a"',
        b"{",
    ],
)
def test_what_cannot_be_edited_is_one_error(body: bytes) -> None:
    with pytest.raises(JsonUnreadable):
        parse_document(decode_utf8(body))


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        edited_text("abcdef", [Edit(0, 3, ""), Edit(2, 4, "")])


def test_no_edits_give_the_same_bytes_object() -> None:
    body = b'{"a":1}'
    assert apply_edits_to_body(body, body.decode(), []) is body
