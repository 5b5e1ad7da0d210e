"""Entries come back from bytes, those at hand keep within theirs: the least recently used go first, sizes are true."""

from __future__ import annotations

import json
import tracemalloc
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.chain import Digest
from memory.errors import EnvelopeUnreadable
from memory.ids import new_id
from memory.model import Entry, Shown
from memory.read.entries import EntryCache, packed, print_of, unpacked

TENANT = new_id()
PLACE = Digest(b"d" * 32)


def entry_of(memories: int, characters: int) -> Entry:
    shown = tuple(Shown(new_id(), 1, print_of(str(number))) for number in range(memories))
    return Entry("x" * characters, characters // 4, shown, "internal", new_id())


def put(cache: EntryCache, session: UUID, entry: Entry) -> bytes:
    sealed = packed(entry)
    cache.put(TENANT, session, PLACE, sealed, unpacked(sealed))
    return sealed


@given(
    text=st.text(st.characters(codec=None), max_size=300),
    memories=st.lists(st.tuples(st.uuids(), st.integers(0, 2**32 - 1), st.binary(min_size=8, max_size=8)), max_size=5),
    label=st.sampled_from(["public", "internal", "confidential", "secret"]),
    tokens=st.integers(0, 2**32 - 1),
)
def test_an_entry_comes_back_as_it_was(
    text: str, memories: list[tuple[UUID, int, bytes]], label: str, tokens: int
) -> None:
    entry = Entry(text, tokens, tuple(Shown(*one) for one in memories), label, new_id())
    assert unpacked(packed(entry)) == entry


def test_an_entry_that_an_older_version_wrote_is_read() -> None:
    raw = b'["caf\\u00e9",7,[["%s",3,"AQIDBAUGBwg="]],"internal","%s"]' % (b"1" * 32, b"2" * 32)
    shown = (Shown(UUID("1" * 32), 3, bytes(range(1, 9))),)
    assert unpacked(raw) == Entry("café", 7, shown, "internal", UUID("2" * 32))


def test_what_is_no_entry_is_refused() -> None:
    whole = packed(entry_of(2, 100))
    for raw in (
        b"",
        b"\x02",
        b"\x03" + whole[1:],
        b"[]",
        b"[1,2,3,4,5]",
        b"-",
        *(whole[:cut] for cut in range(1, len(whole))),
    ):
        with pytest.raises(EnvelopeUnreadable):
            unpacked(raw)


def test_an_entry_takes_less_than_half_of_what_its_words_and_ids_take_in_json() -> None:
    lines = [
        f"[2024-03-{day:02d} user] On day {day} we planted {day * 3} trees behind the old mill." for day in range(1, 11)
    ]
    shown = tuple(Shown(new_id(), 1, print_of(line)) for line in lines)
    entry = Entry("\n".join(lines), 250, shown, "internal", new_id())
    in_json = json.dumps([entry.text, [[one.memory_id.hex, one.version, one.fingerprint.hex()] for one in shown]])
    assert len(packed(entry)) < len(in_json) / 2


@pytest.mark.parametrize(("memories", "characters", "count"), [(3, 300, 2_000), (35, 4_000, 500)])
def test_what_is_held_is_within_the_bytes_that_were_given(memories: int, characters: int, count: int) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cache = EntryCache(1 << 20)
        for _ in range(count):
            put(cache, new_id(), entry_of(memories, characters))
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.85 * (1 << 20) < held < 1.15 * (1 << 20)


def test_who_was_asked_for_last_stays() -> None:
    cache, sessions = EntryCache(20_000), [new_id() for _ in range(20)]
    kept = put(cache, sessions[0], entry_of(3, 300))
    for session in sessions[1:]:
        put(cache, session, entry_of(3, 300))
        assert cache.entry(TENANT, sessions[0], PLACE, kept) is not None
    assert cache.raw(TENANT, sessions[1], [PLACE]) == {}
    assert cache.raw(TENANT, sessions[-1], [PLACE]) != {}


def test_a_tenant_that_is_let_go_of_gives_its_bytes_back() -> None:
    cache, session = EntryCache(20_000), new_id()
    put(cache, session, entry_of(3, 300))
    cache.let_go(TENANT)
    assert cache.raw(TENANT, session, [PLACE]) == {}
    later = [new_id() for _ in range(8)]
    for one in later:
        put(cache, one, entry_of(3, 300))
    assert all(cache.raw(TENANT, one, [PLACE]) for one in later)
