"""Windows of a long text: they cover it, in order, within the model's length, and cut where people would."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.adapters.model_files import locate
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.adapters.tokenizer import LocalTokenizer
from memory.write.embedding import embedded
from memory.write.windows import CHARS_PER_TOKEN_MAX, split_windows
from tests.postgres.seed import Words, memory_of, turn


class WordTokenizer:
    """Words of at most four letters and single signs; counts what it is given to read."""

    def __init__(self) -> None:
        self.read_chars = 0

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        self.read_chars += len(text)
        return [match.span() for match in re.finditer(r"\w{1,4}|[^\w\s]", text)]


def wordpiece() -> LocalTokenizer:
    spec = read_registry()[DEFAULT_MODEL]
    return LocalTokenizer(locate(spec, spec.file("tokenizer")).parent)


WORDPIECE = wordpiece()

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(
            ["word ", "a. ", "\n\n", "。", "日本語", "x" * 300, " " * 200, "😀", "https://a.b/c?d=e&f ", "\x00"]
        ),
    ),
    max_size=60,
).map("".join)


@given(text=TEXTS, max_tokens=st.integers(4, 40), data=st.data())
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("tokenizer", [WordTokenizer(), WORDPIECE], ids=["words", "wordpiece"])
def test_windows_cover_the_text_in_order_and_fit(
    tokenizer: WordTokenizer | LocalTokenizer, text: str, max_tokens: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, (max_tokens - 1) // 2))
    windows = split_windows(text, tokenizer, max_tokens, overlap, windows_max=10_000)
    assert windows[0][0] == 0
    assert windows[-1][1] == len(text)
    assert windows[-1][1] == len(text)
    for (start, end), (next_start, next_end) in pairwise(windows):
        assert start < next_start <= end < next_end
    for start, end in windows:
        assert len(tokenizer.offsets(text[start:end])) <= max_tokens
        assert end - start <= max_tokens * CHARS_PER_TOKEN_MAX


@given(text=TEXTS, windows_max=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_what_the_bound_leaves_out_is_counted(text: str, windows_max: int) -> None:
    windows = split_windows(text, WordTokenizer(), 10, 3, windows_max=windows_max)
    assert len(windows) <= windows_max
    assert windows == split_windows(text, WordTokenizer(), 10, 3, windows_max=10_000)[:windows_max]


@pytest.mark.parametrize("text", ["", "Hello.", " ", "a b c"])
def test_short_text_is_one_window(text: str) -> None:
    assert split_windows(text, WordTokenizer()) == [(0, len(text))]


@pytest.mark.parametrize(
    "sentence",
    ["The keys are on the shelf by the door.", "चाबियाँ दरवाज़े के पास रखी हैं।", "هل المفاتيح على الرف بجانب الباب؟"],
)
def test_windows_begin_and_end_at_sentences(sentence: str) -> None:
    text = f"{sentence} " * 60
    windows = split_windows(text, WORDPIECE, 200, 80)
    assert len(windows) > 3
    assert all(text[start:end].startswith(sentence) for start, end in windows)
    assert all(text[start:end].rstrip().endswith(sentence) for start, end in windows)


def test_paragraphs_go_before_sentences() -> None:
    paragraph = "One two three four. Five six seven eight."
    text = "\n\n".join([paragraph] * 12)
    windows = split_windows(text, WordTokenizer(), 40, 0)
    assert all(text[:end].endswith("\n\n") for _, end in windows[:-1])


def test_neighbours_share_the_sentence_between_them() -> None:
    text = " ".join(f"Fact number {n} is here." for n in range(200))
    windows = split_windows(text, WORDPIECE, 100, 30)
    assert all(next_start < end for (_, end), (next_start, _) in pairwise(windows))


@pytest.mark.parametrize("text", ["word " * 200_000, "x" * 1_000_000, " " * 1_000_000, "日" * 300_000])
def test_what_is_tokenised_grows_with_the_windows_not_with_their_square(text: str) -> None:
    tokenizer = WordTokenizer()
    windows = split_windows(text, tokenizer, 200, 40, windows_max=100_000)
    assert windows[-1][1] == len(text)
    assert tokenizer.read_chars <= 8 * len(text)


def test_a_huge_text_costs_no_more_than_its_windows() -> None:
    tokenizer = WordTokenizer()
    text = "The quick brown fox jumps over the lazy dog. " * 120_000
    windows = split_windows(text, tokenizer)
    assert len(windows) == 256
    assert tokenizer.read_chars < 1_000_000
    assert len(text) - windows[-1][1] > 5_000_000


@pytest.mark.parametrize("overlap", [-1, 100])
def test_overlap_without_progress_is_refused(overlap: int) -> None:
    with pytest.raises(ValueError, match="overlap"):
        split_windows("text", WordTokenizer(), 200, overlap)


async def test_windows_are_looked_for_off_the_event_loop() -> None:
    """A commit may have thousands of long turns, and the loop renews the lanes' leases meanwhile."""
    threads: set[int] = set()

    class Watched(Words):
        def offsets(self, text: str) -> Sequence[tuple[int, int]]:
            threads.add(threading.get_ident())
            return super().offsets(text)

    (made,) = await embedded([memory_of(turn(UUID(int=1), "s", 0, "user", "said"))], Watched(), Watched())
    assert made.windows == ((0, 4),) and threads and threading.get_ident() not in threads
