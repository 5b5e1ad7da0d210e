"""Answers at hand: the newest are kept, each scope has its own, and a session comes back as it was."""

from __future__ import annotations

from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from memory.model import SessionRef
from memory.read.at_hand import AnswersAtHand

ids = st.binary(min_size=32, max_size=32)


@given(st.lists(st.tuples(st.sampled_from([b"a" * 32, b"b" * 32]), ids, st.uuids(), st.text(max_size=20)), max_size=12))
def test_what_was_put_last_is_what_comes_back_and_so_many_are_kept(
    given_: list[tuple[bytes, bytes, UUID, str]],
) -> None:
    held, expected = AnswersAtHand(4), dict[tuple[bytes, bytes], SessionRef]()
    for scope_key, digest, session_id, label in given_:
        expected.pop((scope_key, digest), None)
        expected[scope_key, digest] = SessionRef(session_id, label)
        held.put(scope_key, digest, expected[scope_key, digest])
    newest = list(expected)[-4:]
    assert len(held) == len(newest)
    for key, session in expected.items():
        assert held.get(*key) == (session if key in newest else None)


def test_a_label_that_is_half_of_a_surrogate_pair_comes_back() -> None:
    held, session = AnswersAtHand(), SessionRef(uuid4(), "\ud83c")
    held.put(b"s" * 32, b"d" * 32, session)
    assert held.get(b"s" * 32, b"d" * 32) == session
