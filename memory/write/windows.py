"""A long text as overlapping windows that an embedding model can take: text -> character ranges.

Windows begin and end at paragraphs, sentences or words where one is near, else between two tokens. They are found from
the front, one after the other, each by tokenising only what it may need, so time is linear in the text and bounded by
`windows_max` (5 MB of prose at the defaults: 256 windows from the first 180 kB, 0.2 s). What lies behind the last
window is in no vector: it stays findable by words only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from policies.sentences import ENDS, ENDS_ALONE

WINDOW_TOKENS = 200
"""Tokens of one window, where the model takes as many. Longer ones blur: FACTS, and bench.tune_recall."""

OVERLAP_TOKENS = 40
"""Tokens that neighbours share."""

WINDOWS_MAX = 256
"""Windows of one text: 8 s of one core at 32 ms a window. The longest of 2,028 real assistant chats' turns (348,853
characters) has 184, the next 18."""

CHARS_PER_TOKEN_MAX = 16
"""A window has at most this many characters per token allowed: the embedder cuts there too, before it tokenises."""

# First look: prose has 4.3 characters a token, so most windows need one tokenisation.
_CHARS_PER_TOKEN_LIKELY = 6
# How far back from the last token that fits a better border is looked for, as a share of the window.
_SNAP_SHARE = 0.3

_PARAGRAPH = re.compile(r"\n\s*\n\s*")
_SENTENCE = re.compile(rf"[{ENDS}][\"')\]]*\s+|[{ENDS_ALONE}]+|\n+")
_SPACE = re.compile(r"\s+")


class TextTokenizer(Protocol):
    """Where the tokens of a text lie."""

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Half-open character ranges of the tokens, ascending, without special tokens."""


@runtime_checkable
class OfModel(Protocol):
    """A tokenizer of a model that has a limit."""

    @property
    def window_tokens(self) -> int:
        """Tokens of one window that it embeds whole, beside its date, its prefix and special tokens."""


def split_windows(
    text: str,
    tokenizer: TextTokenizer,
    max_tokens: int | None = None,
    overlap: int | None = None,
    *,
    windows_max: int = WINDOWS_MAX,
) -> list[tuple[int, int]]:
    """Character ranges, in order, that together cover the text from its start; one range for a short text.

    Each has at most `max_tokens` tokens (None: what the tokenizer's model takes); neighbours share up to `overlap`
    tokens (None: 40, or a fifth of a smaller window), so that a sentence cut by one is whole in the other. At most
    `windows_max`. The empty text has one empty window. Raises what the tokenizer raises, and ValueError unless
    0 <= overlap < max_tokens / 2.
    """
    if max_tokens is None:
        max_tokens = tokenizer.window_tokens if isinstance(tokenizer, OfModel) else WINDOW_TOKENS
    if overlap is None:
        overlap = min(OVERLAP_TOKENS, max_tokens // 5)
    if not 0 <= overlap < max_tokens / 2:
        raise ValueError(f"overlap {overlap} must be less than half of max_tokens {max_tokens}")
    windows: list[tuple[int, int]] = []
    start = 0
    while len(windows) < windows_max:
        tokens, known = _look_ahead(text, start, tokenizer, max_tokens)
        end = _window_end(text, start, tokens, known, tokenizer, max_tokens)
        if windows and end <= windows[-1][1]:
            # A start inside a long word can leave no room for more than its neighbour has: go on without overlap.
            start = windows[-1][1]
            continue
        windows.append((start, end))
        if end >= len(text):
            break
        start = _next_start(text, start, end, tokens, overlap)
    return windows


def _look_ahead(
    text: str, start: int, tokenizer: TextTokenizer, max_tokens: int
) -> tuple[Sequence[tuple[int, int]], int]:
    """Tokens from `start` on (positions in the whole text), and where what was tokenised ends.

    More than `max_tokens` of them, unless the text or the bound on characters ends first.
    """
    bound = min(len(text), start + max_tokens * CHARS_PER_TOKEN_MAX)
    known = min(bound, start + max_tokens * _CHARS_PER_TOKEN_LIKELY)
    while True:
        tokens = tokenizer.offsets(text[start:known])
        if len(tokens) > max_tokens or known == bound:
            return [(start + low, start + high) for low, high in tokens], known
        known = bound


def _window_end(
    text: str,
    start: int,
    tokens: Sequence[tuple[int, int]],
    known: int,
    tokenizer: TextTokenizer,
    max_tokens: int,
) -> int:
    """Where the window from `start` ends."""
    if len(tokens) <= max_tokens and known == len(text):
        return known
    # Up to the next token's first character: white space between belongs to this window.
    last = known if len(tokens) <= max_tokens else max(tokens[max_tokens][0], start + 1)
    end = _border(text, start + int((last - start) * (1 - _SNAP_SHARE)), last) or last
    # A piece can have more tokens than it had inside the whole, where the cut divides a word or leaves a space behind.
    while end - start > 1 and len(tokenizer.offsets(text[start:end])) > max_tokens:
        end = _border(text, (start + end) // 2, end - 1) or start + (end - start) * 7 // 8
    return end


def _next_start(text: str, start: int, end: int, tokens: Sequence[tuple[int, int]], overlap: int) -> int:
    """Where the next window begins: up to `overlap` tokens before `end`, behind a border if there is one."""
    inside = [low for low, high in tokens if start < low and high <= end]
    shared = min(overlap, len(inside) // 2)
    if shared == 0:
        return end
    low = inside[-shared]
    for pattern in (_SENTENCE, _SPACE):
        for match in pattern.finditer(text, max(start, low - 1), end):
            if start < match.end() < end:
                return match.end()
    return low


def _border(text: str, low: int, high: int) -> int | None:
    """The last border in (low, high]: of a paragraph, else of a sentence, else of a word."""
    for pattern in (_PARAGRAPH, _SENTENCE, _SPACE):
        ends = [match.end() for match in pattern.finditer(text, low, high)]
        if ends and ends[-1] > low:
            return ends[-1]
    return None


def dated(text: str, occurred_at: datetime | None) -> str:
    """What is embedded for a window: its words under their date (FACTS: the dense arm wants the date)."""
    return f"{occurred_at:%d %B %Y}: {text}" if occurred_at else text
