"""What a probe looks for in a value: ids and words, wherever in it they stand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.erasure.shingles import Shingles
from memory.erasure.wanted import Together, Wanted

ONE, OTHER = UUID(int=7 << 64), UUID(int=8 << 64)
MORE = "herons like bridges near slow rivers, and the silver heron too"
TEXT = "the silver heron\nnests under the bridge\nin Radovljica"
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def wanted(*texts: str) -> Wanted:
    words = Shingles()
    for text in texts:
        words.add(text)
    return Wanted([ONE], [], Shingles(), words)


@pytest.mark.parametrize(
    "value",
    [TEXT, TEXT.encode(), {"said": TEXT}, {TEXT: 1}, [{"parts": [{"text": TEXT}]}], [TEXT], {"a": TEXT, "b": OTHER}],
)
def test_words_are_found_across_the_lines_of_a_text(value: Any) -> None:
    """In JSON as it is written, the n of each line's end stood before the next word, and no run was whole."""
    assert wanted(TEXT).count(value) == 1
    assert wanted("the silver heron likes rivers and sleeps beside them").count(value) == 0


@pytest.mark.parametrize("value", [ONE, str(ONE), ONE.hex, ONE.bytes, [ONE, OTHER], {"a": [str(ONE)]}, {str(ONE): {}}])
def test_an_id_is_found_however_it_is_written(value: Any) -> None:
    assert wanted().count(value) == 1


@pytest.mark.parametrize("value", [None, 7, True, [], {}, OTHER, OTHER.bytes, b"", {"n": [1, None, 2.5]}, b"\xff\xfe"])
def test_what_holds_none_of_it_is_no_trace(value: Any) -> None:
    assert wanted(TEXT).count(value) == 0


@given(st.lists(st.sampled_from([ONE, OTHER.hex, TEXT, TEXT.upper(), MORE, MORE.encode(), OTHER.bytes, 7, None])))
def test_what_several_look_for_at_once_is_what_each_finds_alone(value: list[Any]) -> None:
    each = [wanted(TEXT), wanted(), wanted(MORE, TEXT), Wanted([OTHER], [ONE], Shingles(), Shingles())]
    together = Together(each)
    for one in (value, *value):
        assert dict(together.count(one)) == {at: hits for at, its in enumerate(each) if (hits := its.count(one))}
    assert dict(Together(each[:1]).count(value)) == ({0: hits} if (hits := each[0].count(value)) else {})


@given(st.lists(DOCUMENTS), st.lists(DOCUMENTS), st.text(), st.text())
def test_no_document_hides_what_stands_in_it(before: list[Any], behind: list[Any], name: str, around: str) -> None:
    document = [*before, {name: [f"{around} {TEXT} {around}"]}, *behind, str(ONE)]
    assert wanted(TEXT).count(document) >= 2
