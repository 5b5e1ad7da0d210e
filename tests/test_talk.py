"""What was said together lends weight."""

from __future__ import annotations

from uuid import UUID

import numpy as np

from memory.read.talk import Talk
from tests.test_scope_index import item

MORNING, EVENING = UUID(int=1), UUID(int=2)


def test_a_turn_borrows_from_what_a_person_said_next_in_its_session() -> None:
    talk = Talk()
    turns = [
        item("0", "a", session_id=MORNING, seq=0),
        item("1", "b", session_id=MORNING, seq=1),
        item("2", "c", session_id=MORNING, seq=2, role="assistant"),
        item("3", "d", session_id=EVENING, seq=1),
        item("4", "e", session_id=None, seq=1),
        item("5", "f", session_id=MORNING, seq=1, kind="semantic"),
    ]
    for slot, turn in enumerate(turns):
        talk.put(slot, turn)
    visible = np.arange(6)
    scores = np.array([0.1, 0.7, 0.9, 0.5, 0.4, 0.3], np.float32)
    np.testing.assert_allclose(talk.among(visible).said_next(scores), [0.7, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(talk.among(visible).best_of_session(scores), [0.9, 0.9, 0.9, 0.5, 0.4, 0.3], rtol=1e-6)


def test_what_is_hidden_or_taken_out_lends_nothing_in_whatever_order_it_came() -> None:
    talk = Talk()
    first, second = item("0", "a", session_id=MORNING, seq=0), item("1", "b", session_id=MORNING, seq=1)
    talk.put(1, second)
    talk.put(0, first)
    assert talk.among(np.array([0, 1])).said_next(np.array([0.1, 0.7], np.float32))[0] == np.float32(0.7)
    assert talk.among(np.array([0])).said_next(np.array([0.1], np.float32))[0] == 0.0
    assert talk.among(np.array([0, 1])).said_next(np.array([0.1, -0.7], np.float32))[0] == 0.0
    talk.drop(1, second)
    assert talk.among(np.array([0, 1])).said_next(np.array([0.1, 0.7], np.float32))[0] == 0.0


def test_a_slot_that_is_used_again_belongs_to_its_new_session() -> None:
    talk = Talk()
    old, new = item("0", "a", session_id=MORNING, seq=0), item("1", "b", session_id=EVENING, seq=4)
    talk.put(0, old)
    talk.put(1, item("2", "c", session_id=MORNING, seq=1))
    talk.drop(0, old)
    talk.put(0, new)
    scores = np.array([0.2, 0.8], np.float32)
    np.testing.assert_allclose(talk.among(np.array([0, 1])).best_of_session(scores), scores)
    np.testing.assert_allclose(talk.among(np.array([0, 1])).said_next(scores), [0, 0])
