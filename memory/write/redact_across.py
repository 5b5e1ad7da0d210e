"""Secrets that no single message holds whole: the messages of a conversation in, a redactor that knows of them out.

What stands over the border of two messages that follow each other, or of two with one between them (a user's halves
and the answer between), is found on their ends put together: a token of a published shape, a key block that goes on,
a value whose name the message before it ended with. `Borders.beside` gives a redactor that cuts both halves where it
meets these texts, and is otherwise the one it was given. Pure; linear in the messages, a bounded number of joins each.
Refuses: halves further apart, halves in tool calls, and a first half that is stored already (its second half goes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from memory.write.parts import Redacts
from policies.redaction import Finding, Redacted, is_word_like, outside_placeholders, replace_findings, shannon_bits

PIECES_MAX: Final = 6
"""Candidates for a half at each side of a border: 36 joins of 30 us."""
REACH_CHARS: Final = 2_000
"""How far from a border a half is looked for."""
REACH_MESSAGES: Final = 2
"""How many messages on a half is looked for: the next, and the one behind an answer to the first."""
CONTEXT_CHARS: Final = 80
VALUE_CHARS: Final = 600
PIECE_BITS_MIN: Final = 2.7
_PIECE: Final = re.compile(r"[A-Za-z0-9_+/=.~-]{4,400}+", re.ASCII)
_OPENING: Final = "-----BEGIN PRIVATE KEY-----\n"
_KEY_LINE: Final = re.compile(r"(?:(?<=\s)|\A)[A-Za-z0-9+/=]{24,}+(?=\s|\Z)", re.ASCII)
_CUT_LINE: Final = re.compile(r"\s*[A-Za-z0-9+/=]{0,80}\s*", re.ASCII)
_CLOSING: Final = re.compile(r"-END [A-Z0-9 ]{0,48}-{0,5}\s*$")


class Finds(Protocol):
    """A detector of secrets."""

    def find(self, text: str) -> Iterable[Finding]:
        """Yield spans of `text`."""


@dataclass(frozen=True, slots=True)
class Borders:
    """The detectors that borders are looked at with: tokens by shape, key blocks, values by their names."""

    shapes: Finds
    blocks: Finds
    values: Finds

    def beside(self, redactor: Redacts, texts: Sequence[str]) -> Redacts:
        """A redactor that cuts these texts with their neighbours in mind; `texts` in the order of the messages."""
        found: dict[str, list[Finding]] = {}
        for at, text in enumerate(texts):
            for later in texts[at + 1 : at + 1 + REACH_MESSAGES]:
                for side, finding in self._over(text, later):
                    found.setdefault(text if side == 0 else later, []).append(finding)
        for text, finding in self._goes_on(texts):
            found.setdefault(text, []).append(finding)
        for before, text in pairwise(texts):
            for finding in self._named_before(before, text):
                found.setdefault(text, []).append(finding)
        return _Knowing(redactor, found) if found else redactor

    def _over(self, first: str, second: str) -> Iterator[tuple[int, Finding]]:
        """Halves of a token: (0, in the first text) or (1, in the second)."""
        heads = list(_pieces(first, last=True))
        tails = list(_pieces(second, last=False)) if heads else []
        for start, end in heads:
            for low, high in tails:
                head, tail = first[start:end], second[low:high]
                for cut in self.shapes.find(head + tail):
                    if not cut.start < len(head) < cut.end:
                        continue
                    if self._is_whole(head, tail) and not (end == len(first.rstrip()) and _is_rest(second, low, tail)):
                        continue
                    yield 0, Finding(start + cut.start, end, cut.rule)
                    yield 1, Finding(low, low + cut.end - len(head), cut.rule)

    def _is_whole(self, head: str, tail: str) -> bool:
        """Whether one of the two is a secret by itself: then the other need not be part of it."""
        return any(True for side in (head, tail) for _ in self.shapes.find(side))

    def _goes_on(self, texts: Sequence[str]) -> Iterator[tuple[str, Finding]]:
        """Lines of a key block that an earlier message has begun."""
        is_open = 0  # for how many messages yet
        for text in texts:
            ends = [block.end for block in self.blocks.find(text)] if "PRIVATE KEY" in text else []
            line = _KEY_LINE.search(text) if is_open and not ends else None
            if line is not None:
                begun = next(iter(self.blocks.find(_OPENING + text[line.start() :])), None)
                if begun is not None and begun.start == 0:
                    ends = [line.start() + begun.end - len(_OPENING)]
                    yield text, Finding(line.start(), ends[0], "private-key/rest")
            is_open = max(0, is_open - 1)
            if ends and _ends_open(text, ends[-1]):
                is_open = REACH_MESSAGES
                if text[ends[-1] :].strip():  # a line that was cut short
                    yield text, Finding(ends[-1], len(text), "private-key/rest")

    def _named_before(self, before: str, text: str) -> Iterator[Finding]:
        """A value at the head of a message whose name stands at the end of the one before."""
        context = before.rstrip()[-CONTEXT_CHARS:].rpartition("\n")[2]
        if not context:
            return
        joined = f"{context} {text[:VALUE_CHARS]}"
        shift = len(context) + 1
        lead = len(text) - len(text.lstrip())
        for found in self.values.find(joined):
            if lead <= found.start - shift <= lead + 1:  # a quote may stand before it
                yield Finding(found.start - shift, found.end - shift, found.rule)


class _Knowing:
    """A redactor that knows more of some texts."""

    def __init__(self, inner: Redacts, known: Mapping[str, Sequence[Finding]]) -> None:
        self._inner = inner
        self._known = known

    def redact(self, text: str) -> Redacted:
        """As the one inside, and the halves."""
        done = self._inner.redact(text)
        halves = outside_placeholders(text, sorted(self._known.get(text, ())))
        return replace_findings(text, (*done.findings, *halves)) if halves else done


def _pieces(text: str, *, last: bool) -> Iterator[tuple[int, int]]:
    """Where what may be half a token stands, nearest to the border first."""
    low = max(0, len(text) - REACH_CHARS) if last else 0
    spans = [one.span() for one in _PIECE.finditer(text, low, low + REACH_CHARS)]
    found = 0
    for start, end in reversed(spans) if last else spans:
        while end > start and text[end - 1] in "._-" and not last:
            end -= 1
        if end - start >= 4 and _may_be_half(text[start:end], last=last):
            yield start, end
            found += 1
            if found == PIECES_MAX:
                return


def _may_be_half(piece: str, *, last: bool) -> bool:
    """No plain word: something in it that words have not. The head of a token may be its prefix alone (`ghp_`)."""
    plain = piece.rstrip(".")
    if last and plain[-1:] in "_-":
        return True
    return not plain.isalpha() and not plain.isdigit() and (last or not is_word_like(plain) or len(plain) >= 8)


def _is_rest(text: str, start: int, piece: str) -> bool:
    """Whether a piece at the head of a message reads like the rest of a token, not like a word or a number."""
    mixed = any(char.isdigit() for char in piece) and any(char.isalpha() for char in piece)
    at_head = start == len(text) - len(text.lstrip())
    return at_head and mixed and len(piece) >= 8 and not is_word_like(piece) and shannon_bits(piece) >= PIECE_BITS_MIN


def _ends_open(text: str, end: int) -> bool:
    """Whether a block that ends here goes on behind the text's end."""
    return _CUT_LINE.fullmatch(text, end) is not None and not _CLOSING.search(text[max(0, end - 60) : end])
