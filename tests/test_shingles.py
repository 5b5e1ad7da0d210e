"""What a forgotten text is looked for by: runs of its words, in any script."""

from __future__ import annotations

import pytest

from memory.erasure.shingles import Shingles


def found(forgotten: str, other: str) -> bool:
    looked_for = Shingles()
    looked_for.add(forgotten)
    return looked_for.found_in(other)


@pytest.mark.parametrize(
    ("forgotten", "other"),
    [
        ("मैं सरकारी अस्पताल में हर दिन काम करता हूँ।", "वह सरकारी अस्पताल में हर दिन सोता है।"),
        ("दिल्ली सुंदर शहर", "दिल्ली सुंदर है"),
        ("நான் சென்னையில் வசிக்கிறேன்", "அவர் சென்னையில் வேலை செய்கிறார்"),
        ("I work every day in a public hospital near here", "He sleeps every day in a public hospital"),
    ],
)
def test_a_few_words_in_common_are_no_trace(forgotten: str, other: str) -> None:
    assert not found(forgotten, other)


@pytest.mark.parametrize(
    "text",
    [
        "मैं सरकारी अस्पताल में हर दिन काम करता हूँ",
        "நான் சென்னையில் ஒரு பெரிய மருத்துவமனையில் வேலை செய்கிறேன்",
        "I work every day in a public hospital near here",
        "我每天在市中心的公立医院工作",
    ],
)
def test_the_words_themselves_are_found_within_others(text: str) -> None:
    assert found(text, f"… {text}, …")
