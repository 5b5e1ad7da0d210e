"""No two identities make one key: whatever characters their names hold, and wherever a separator might be read in.

Names are cut and joined at every place (`a:b` and `c` against `a` and `b:c`); the keys under which things of a scope
lie must differ whenever the scopes do, in Redis, in process, in derived ids and in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory.adapters.redis_hot import _prefix, _version_key
from memory.audit import Head, digest_of, name_digest, noted, row_of
from memory.canary import token_of
from memory.errors import MemoryProxyFault
from memory.ids import keyed_id
from memory.keys import KeyRing, tenant_salt
from memory.model import Scope
from memory.read.conversation import scope_key, session_ref
from proxy.identity import Credential, identify
from tests.key_table import Table

KEY = b"k" * 32
SEPARATORS = [":", "/", "-", ".", "_", " ", "|", ",", "{", "}", "\x1f", "\n", "%", "é", "e\u0301", "\u200b", "0"]
names = st.lists(st.sampled_from(["a", "b", "default", "", *SEPARATORS]), min_size=1, max_size=5).map("".join)
named = names.filter(bool)
tenants = st.sampled_from([UUID(int=1), UUID(int=2), UUID(int=16)])
scopes = st.builds(Scope, tenant=tenants, user=named, project=named, agent=named)


@st.composite
def shifted(draw: st.DrawFn) -> tuple[Scope, Scope]:
    """Two scopes whose names are the same text, cut at different places."""
    text = draw(st.lists(st.sampled_from(["a", "b", *SEPARATORS]), min_size=4, max_size=12))

    def cut() -> Scope:
        first = draw(st.integers(1, len(text) - 2))
        second = draw(st.integers(first + 1, len(text) - 1))
        return Scope(UUID(int=1), "".join(text[:first]), "".join(text[first:second]), "".join(text[second:]))

    return cut(), cut()


pairs = st.one_of(shifted(), st.tuples(scopes, scopes))


RING = KeyRing(Table(), KEY)


def subject_of(scope: Scope) -> UUID:
    return asyncio.run(RING.subject_id(UUID(int=1), scope.user))


WAYS: dict[str, Callable[[Scope], Any]] = {
    "scope key": lambda scope: (scope.tenant, scope_key(KEY, scope)),
    "redis prefix": lambda scope: _prefix(scope.tenant, scope_key(KEY, scope)),
    "session": lambda scope: (scope.tenant, session_ref(KEY, scope, "s").session_id),
    "held in process": hash,
}


@pytest.mark.parametrize("way", WAYS)
@given(pair=pairs)
def test_two_scopes_never_make_one_key(way: str, pair: tuple[Scope, Scope]) -> None:
    one, other = pair
    assume(one != other)
    assert WAYS[way](one) != WAYS[way](other)
    assert len({one: 1, other: 2}) == 2


@given(pair=pairs, labels=st.tuples(named, named))
def test_a_session_label_cannot_stand_in_for_a_part_of_the_scope(
    pair: tuple[Scope, Scope], labels: tuple[str, str]
) -> None:
    assume((pair[0], labels[0]) != (pair[1], labels[1]))
    made = [(one.tenant, session_ref(KEY, one, label).session_id) for one, label in zip(pair, labels, strict=True)]
    assert made[0] != made[1]


@given(one=named, other=named)
def test_two_users_are_two_subjects(one: str, other: str) -> None:
    assume(one != other)
    assert subject_of(Scope(UUID(int=1), one)) != subject_of(Scope(UUID(int=1), other))


@given(lists=st.tuples(st.lists(names, max_size=4), st.lists(names, max_size=4)))
def test_keyed_ids_of_different_lists_differ(lists: tuple[list[str], list[str]]) -> None:
    assume(lists[0] != lists[1])
    assert keyed_id(KEY, *lists[0]) != keyed_id(KEY, *lists[1])


@given(one=tenants, other=tenants, numbers=st.tuples(st.integers(0, 10**18), st.integers(0, 10**18)))
def test_announced_versions_of_two_scopes_lie_under_two_keys(one: UUID, other: UUID, numbers: tuple[int, int]) -> None:
    assume((one, numbers[0]) != (other, numbers[1]))
    assert _version_key(one, numbers[0]) != _version_key(other, numbers[1])


@given(salts=st.tuples(st.none() | names, st.none() | names))
def test_a_clients_salt_never_makes_another_tenants_salt(salts: tuple[str | None, str | None]) -> None:
    assert tenant_salt(b"a" * 32, salts[0]) != tenant_salt(b"b" * 32, salts[1])
    if (salts[0] or "") != (salts[1] or ""):
        assert tenant_salt(KEY, salts[0]) != tenant_salt(KEY, salts[1])


@given(one=st.tuples(named, named), other=st.tuples(named, named))
def test_audit_rows_of_different_names_differ(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(one != other)
    rows = [
        row_of(
            KEY,
            noted(UUID(int=1), "k", "a", names={"user": user, "project": project}, at=datetime(2026, 1, 1, tzinfo=UTC)),
            Head(),
        )
        for user, project in (one, other)
    ]
    assert rows[0].detail != rows[1].detail
    assert rows[0].digest != rows[1].digest
    assert digest_of(KEY, UUID(int=2), rows[0]) != rows[0].digest, "nor does a row pass for another tenant's"
    assert name_digest(KEY, "user", one[0]) != name_digest(KEY, "project", one[0])


@given(one=tenants, other=tenants)
def test_canaries_of_two_tenants_differ(one: UUID, other: UUID) -> None:
    assume(one != other)
    assert token_of(KEY, one) != token_of(KEY, other)


@given(pair=pairs)
def test_what_two_requests_name_is_one_scope_only_where_the_names_are_equal(pair: tuple[Scope, Scope]) -> None:
    """From the header's bytes on: percent-decoding and NFC make equal only what is equal text."""
    made = [_asked(scope) for scope in pair]
    assume(None not in made)
    assert (made[0] == made[1]) == (_normal(pair[0]) == _normal(pair[1]))


def _asked(scope: Scope) -> Scope | None:
    headers = [
        (f"X-Memory-{name}".encode(), "".join(f"%{byte:02X}" for byte in value.encode()).encode())
        for name, value in (("User", scope.user), ("Project", scope.project), ("Agent", scope.agent))
    ]
    try:
        return identify(headers, None, None, Credential(scope.tenant), datetime.now(UTC)).scope
    except MemoryProxyFault:
        return None


def _normal(scope: Scope) -> Scope:
    def nfc(text: str) -> str:
        return text.replace("e\u0301", "é")

    return Scope(scope.tenant, nfc(scope.user), nfc(scope.project), nfc(scope.agent))
