"""Sealed envelopes open for the right key, row and purpose, and for nothing else."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.envelope import Binding, DataKey, key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable
from memory.ids import new_id

KEY = DataKey(new_id(), os.urandom(32))
BINDING = Binding(new_id(), new_id(), new_id(), "exchange")


@settings(deadline=None)
@given(st.binary(max_size=4_096))
def test_what_was_sealed_opens(plaintext: bytes) -> None:
    sealed = seal(KEY, BINDING, plaintext)
    assert sealed[0] == 1
    assert key_id_of(sealed) == KEY.key_id
    assert unseal(KEY, BINDING, sealed) == plaintext
    assert plaintext == b"" or len(plaintext) < 4 or plaintext not in sealed


@pytest.mark.parametrize("member", ["tenant_id", "subject_id", "object_id", "purpose"])
def test_an_envelope_moved_to_another_place_does_not_open(member: str) -> None:
    moved = {"tenant_id": BINDING.tenant_id, "subject_id": BINDING.subject_id, "object_id": BINDING.object_id}
    other = Binding(
        **{**moved, **({member: new_id()} if member != "purpose" else {})},
        purpose="retrieval" if member == "purpose" else "exchange",
    )
    with pytest.raises(EnvelopeUnreadable):
        unseal(KEY, other, seal(KEY, BINDING, b"secret"))


def test_another_key_an_altered_byte_and_a_short_one_do_not_open() -> None:
    sealed = seal(KEY, BINDING, b"secret")
    with pytest.raises(EnvelopeUnreadable):
        unseal(DataKey(new_id(), os.urandom(32)), BINDING, sealed)
    for at in range(len(sealed)):
        altered = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(EnvelopeUnreadable):
            unseal(KEY, BINDING, altered)
    for length in range(len(sealed)):
        with pytest.raises(EnvelopeUnreadable):
            unseal(KEY, BINDING, sealed[:length])


def test_two_seals_of_one_text_differ() -> None:
    assert seal(KEY, BINDING, b"same") != seal(KEY, BINDING, b"same")


def test_a_key_does_not_show_itself() -> None:
    assert KEY.secret.hex() not in repr(KEY)
