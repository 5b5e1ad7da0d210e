"""Keys in process: bounded, and what is used stays."""

from __future__ import annotations

import pytest

from memory.ids import new_id
from memory.keys import KeyRing
from tests.test_structural_keys import Table


async def test_a_key_that_is_used_stays_at_hand_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.keys.CACHE_KEYS_MAX", 4)
    tenant, ring = new_id(), KeyRing(Table(), bytes(32))
    key = await ring.subject_key(tenant, "ada")
    ada = await ring.subject_id(tenant, "ada")
    for number in range(8):
        assert ring.at_hand(tenant, ada) == key
        await ring.subject_key(tenant, f"other {number}")
    assert ring.at_hand(tenant, ada) == key
    assert ring.at_hand(tenant, await ring.subject_id(tenant, "other 0")) is None
