"""A link opens one artifact of one tenant until its expiry, and nothing that was changed in it opens anything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from memory.artifact_links import LINK_S_MAX, check, link_key, signed
from memory.errors import Gone, MemoryInvalid, ScopeDenied
from policies.labels import Sensitivity, is_sealed

KEY = link_key(b"c" * 32)
TENANT, ARTIFACT, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LINK = signed(KEY, TENANT, ARTIFACT, now=NOW, expires_s=60)
EXPIRES = str(LINK.expires)


def test_a_link_is_good_until_its_expiry_and_gone_after() -> None:
    check(KEY, TENANT, ARTIFACT, EXPIRES, LINK.sig, now=NOW)
    check(KEY, TENANT, ARTIFACT, EXPIRES, LINK.sig, now=NOW + timedelta(seconds=59))
    with pytest.raises(Gone, match=r"expired at 2026-01-01T00:01:00\+00:00"):
        check(KEY, TENANT, ARTIFACT, EXPIRES, LINK.sig, now=NOW + timedelta(seconds=60))


@pytest.mark.parametrize(
    ("key", "tenant", "artifact", "expires", "sig"),
    [
        (link_key(b"d" * 32), TENANT, ARTIFACT, EXPIRES, LINK.sig),
        (b"c" * 32, TENANT, ARTIFACT, EXPIRES, LINK.sig),
        (KEY, OTHER, ARTIFACT, EXPIRES, LINK.sig),
        (KEY, TENANT, OTHER, EXPIRES, LINK.sig),
        (KEY, ARTIFACT, TENANT, EXPIRES, LINK.sig),
        (KEY, TENANT, ARTIFACT, str(LINK.expires + 1), LINK.sig),
        (KEY, TENANT, ARTIFACT, "0" + EXPIRES, LINK.sig),
        (KEY, TENANT, ARTIFACT, EXPIRES + "\n", LINK.sig),
        (KEY, TENANT, ARTIFACT, "", LINK.sig),
        (KEY, TENANT, ARTIFACT, "-1", LINK.sig),
        (KEY, TENANT, ARTIFACT, "9" * 5_000, LINK.sig),
        (KEY, TENANT, ARTIFACT, "٣", LINK.sig),
        (KEY, TENANT, ARTIFACT, EXPIRES, ""),
        (KEY, TENANT, ARTIFACT, EXPIRES, LINK.sig[:-1]),
        (KEY, TENANT, ARTIFACT, EXPIRES, LINK.sig.upper()),
        (KEY, TENANT, ARTIFACT, EXPIRES, "\udcff"),
    ],
)
def test_what_was_not_signed_opens_nothing(key: bytes, tenant: UUID, artifact: UUID, expires: str, sig: str) -> None:
    for now in (NOW, NOW + timedelta(days=1)):
        with pytest.raises(ScopeDenied, match="not signed"):
            check(key, tenant, artifact, expires, sig, now=now)


def test_a_link_says_how_sensitive_its_file_was() -> None:
    for label in Sensitivity:
        link = signed(KEY, TENANT, ARTIFACT, label, now=NOW, expires_s=60)
        ceiling = check(KEY, TENANT, ARTIFACT, EXPIRES, link.sig, now=NOW)
        assert ceiling is (label if is_sealed(label) else Sensitivity.INTERNAL)


@pytest.mark.parametrize("expires_s", [0, -1, LINK_S_MAX + 1])
def test_a_link_has_a_bound(expires_s: int) -> None:
    with pytest.raises(MemoryInvalid, match="1 to 604800 seconds"):
        signed(KEY, TENANT, ARTIFACT, now=NOW, expires_s=expires_s)
