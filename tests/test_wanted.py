"""What a probe looks for in a value: ids and words, wherever in it they stand."""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.erasure.shingles import Shingles, spare
from memory.erasure.wanted import Together, Wanted, _strings_of, strings_in

ONE, OTHER = UUID(int=7 << 64), UUID(int=8 << 64)
MORE = "herons like bridges near slow rivers, and the silver heron too"
TEXT = "the silver heron\nnests under the bridge\nin Radovljica"
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)

MARKS = st.text('ab {}[]:,1"\\é', max_size=4)
WRITTEN = st.recursive(
    st.none() | st.integers() | MARKS, lambda inner: st.lists(inner) | st.dictionaries(MARKS, inner), max_leaves=12
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


@given(DOCUMENTS | WRITTEN, st.booleans())
@example({"00": {"0": None}, "": None}, False)
@example([{"a": "}", "b": {"c": None}, "d": "{"}], False)
def test_a_document_says_as_it_is_written_what_it_says(document: Any, in_ascii: bool) -> None:
    assert strings_in(json.dumps(document, ensure_ascii=in_ascii)) == _strings_of(document)
    assert strings_in(json.dumps(document, ensure_ascii=in_ascii, separators=(" ,", " : "))) == _strings_of(document)


def test_a_short_value_that_stands_in_every_row_is_looked_at_once() -> None:
    """Ten such columns were most of what a probe took for a row of a memory."""
    looked = list[Any]()

    class Noting(Wanted):
        def count(self, value: Any) -> int:
            looked.append(value)
            return super().count(value)

    words = Shingles()
    words.add(MORE)
    together, long = Together([Noting([ONE], [], words)]), "what others say " * 8
    for _ in range(3):
        assert not together.count("assistant") and not together.count(long) and not together.count(None)
        assert together.count(str(ONE)) == [(0, 1)]
    assert Counter(looked) == {"assistant": 1, long: 3, str(ONE): 6}


@given(
    st.lists(st.tuples(st.sampled_from("thm"), st.sampled_from([TEXT, MORE, f"{TEXT} {MORE}", f"{ONE}: {TEXT}", ""])))
)
def test_what_sources_say_is_no_trace_and_what_memories_say_spares_what_was_made_of_turns(
    said: list[tuple[str, str]],
) -> None:
    """As in two passes, the first of which spared the words, and the second looked for them."""
    words, made = (Shingles(), Shingles()), (Shingles(), Shingles())
    for of_turns, of_made, (text, another) in zip(words, made, ((TEXT, MORE), (MORE, TEXT)), strict=True):
        of_turns.add(text)
        of_made.add(another)
    before_words, before_made = deepcopy(words), deepcopy(made)
    for kind, text in said:
        spare(text, (*before_words, *before_made) if kind != "m" else before_made)
    before = Together([Wanted([ONE], [], *some) for some in zip(before_words, before_made, strict=True)])
    together = Together([Wanted([ONE], [], *some) for some in zip(words, made, strict=True)], made)
    sources = [(text, together.in_source(text)) for kind, text in said if kind != "m"]
    memories = [(text, together.in_memory(text)) for kind, text in said if kind == "m"]
    for text, found in (*sources, *memories):
        assert list(found) == list(before.count(text))
    assert [one.said_elsewhere for one in (*words, *made)] == [
        one.said_elsewhere for one in (*before_words, *before_made)
    ]


@given(st.lists(DOCUMENTS), st.lists(DOCUMENTS), st.text(), st.text())
def test_no_document_hides_what_stands_in_it(before: list[Any], behind: list[Any], name: str, around: str) -> None:
    document = [*before, {name: [f"{around} {TEXT} {around}"]}, *behind, str(ONE)]
    assert wanted(TEXT).count(document) >= 2
