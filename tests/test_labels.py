"""Labels: who vouches for a text, who may be shown it, and what of both is left in what is derived."""

from __future__ import annotations

import itertools

import pytest

from policies.labels import (
    Integrity,
    Sensitivity,
    derived_integrity,
    derived_sensitivity,
    integrity_of_role,
    is_sealed,
    within_ceiling,
)

BEST_FIRST = [Integrity(name) for name in ("admin", "user", "assistant", "tool", "web", "imported")]
WIDEST_FIRST = [Sensitivity(name) for name in ("public", "internal", "confidential", "secret")]


@pytest.mark.parametrize(
    ("role", "label"),
    [
        ("system", "admin"),
        ("developer", "admin"),
        ("user", "user"),
        ("assistant", "assistant"),
        ("tool", "tool"),
        ("function", "imported"),
        ("", "imported"),
    ],
)
def test_a_turn_has_the_label_of_its_role_and_an_import_only_of_a_trusted_key(role: str, label: str) -> None:
    assert integrity_of_role(role) is integrity_of_role(role, imported=True) is Integrity(label)
    assert integrity_of_role(role, trusted_import=False) is Integrity(label)
    assert integrity_of_role(role, imported=True, trusted_import=False) is Integrity.IMPORTED


def test_what_is_derived_is_as_low_as_its_lowest_source_and_as_sensitive_as_its_highest() -> None:
    for better, worse in itertools.combinations_with_replacement(BEST_FIRST, 2):
        assert derived_integrity([better, worse]) is derived_integrity([worse, better]) is worse
    for wider, closer in itertools.combinations_with_replacement(WIDEST_FIRST, 2):
        assert derived_sensitivity([wider, closer]) is derived_sensitivity([closer, wider]) is closer
        assert within_ceiling(wider, closer)
        assert within_ceiling(closer, wider) == (wider is closer)


def test_what_rests_on_nothing_is_not_trusted_and_not_public() -> None:
    assert derived_integrity([]) is Integrity.IMPORTED
    assert derived_sensitivity([]) is Sensitivity.INTERNAL


def test_what_is_confidential_and_above_is_sealed() -> None:
    assert [is_sealed(label) for label in WIDEST_FIRST] == [False, False, True, True]
