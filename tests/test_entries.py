"""Entries at hand: within their bytes, the least recently used go first, and what is told of their size is true."""

from __future__ import annotations

import tracemalloc
from uuid import UUID

import pytest

from memory.ids import new_id
from memory.model import Entry, Shown
from memory.read.entries import EntryCache, packed, print_of, unpacked

TENANT = new_id()


def entry_of(memories: int, characters: int) -> Entry:
    shown = tuple(Shown(new_id(), 1, print_of(str(number))) for number in range(memories))
    return Entry("x" * characters, characters // 4, shown, "internal", new_id())


def put(cache: EntryCache, session: UUID, entry: Entry) -> bytes:
    sealed = packed(entry)
    cache.put(TENANT, session, b"d" * 32, sealed, unpacked(sealed))
    return sealed


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
        assert cache.entry(TENANT, sessions[0], b"d" * 32, kept) is not None
    assert cache.raw(TENANT, sessions[1], [b"d" * 32]) == {}
    assert cache.raw(TENANT, sessions[-1], [b"d" * 32]) != {}


def test_a_tenant_that_is_let_go_of_gives_its_bytes_back() -> None:
    cache, session = EntryCache(20_000), new_id()
    put(cache, session, entry_of(3, 300))
    cache.let_go(TENANT)
    assert cache.raw(TENANT, session, [b"d" * 32]) == {}
    later = [new_id() for _ in range(8)]
    for one in later:
        put(cache, one, entry_of(3, 300))
    assert all(cache.raw(TENANT, one, [b"d" * 32]) for one in later)
