"""A document's blocks in, the chunks that are remembered of it out: cut at paragraphs, each under its headings.

A chunk begins and ends at a paragraph, a row or a heading where it can, else at a sentence, a word, and only in a text
without any in the middle of one. What is cut inside a paragraph says its last sentence again in the next chunk. Every
character of every block is in a chunk; `pieces` say which, so offsets lead back. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from policies.sentences import ENDS, ENDS_ALONE
from policies.text import whole_at

CHARS_MAX: Final = 800
"""Characters of a chunk. The embedding reads windows of 200 tokens: of running prose (the licence texts of Debian) 99 %
of chunks of this size are one window, of this project's own dense pages 40 %, the rest two; at 1,000 it is 93 and 17 %.
A smaller one says too little to be understood by itself, and is another row to store and to rank."""
OVERLAP_CHARS: Final = 160
"""At most so much is said again: a long sentence, and the 40 tokens that windows share."""
SECTION_CHARS_MIN: Final = 240
"""A heading begins a new chunk where the one under way has at least so much; shorter sections stand together."""
PATH_CHARS_MAX: Final = 200
"""Of the headings above a chunk, that are said with it: the innermost where they are longer together."""
_SENTENCE: Final = re.compile(rf"[{ENDS}][\"')\]»”’]*\s+|[{ENDS_ALONE}]+[」』）”’]*|\n+")
_SPACE: Final = re.compile(r"\s+")
_BETWEEN: Final = " > "


class BlockOfText(Protocol):
    """A paragraph, heading or row: characters [start, end) of the document."""

    @property
    def text(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def page(self) -> int | None: ...
    @property
    def level(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters [start, end) of one block's text. `again`: the chunk before has them too."""

    block: int
    start: int
    end: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is remembered as one. `headings` are those above it, outermost first, `section` those above its first
    paragraph: the ones that it begins with too. `start`, `end` and the pages are where it stands in the document, with
    what it says again.
    """

    text: str
    headings: tuple[str, ...]
    section: tuple[str, ...]
    start: int
    end: int
    page: int | None
    page_to: int | None
    pieces: tuple[Piece, ...]

    @property
    def content(self) -> str:
        """The text under its headings, as it is embedded, recalled and quoted."""
        path = path_of(self.headings)
        return f"{path}\n{self.text}" if path else self.text


def path_of(headings: Sequence[str]) -> str:
    """Headings in one line, the innermost where all are too long."""
    path = _BETWEEN.join(headings)
    while len(path) > PATH_CHARS_MAX and len(headings) > 1:
        headings = headings[1:]
        path = _BETWEEN.join(headings)
    return path[:PATH_CHARS_MAX]


def chunked(blocks: Sequence[BlockOfText], chars_max: int = CHARS_MAX, overlap: int = OVERLAP_CHARS) -> list[Chunk]:
    """The chunks of a document, in order. Raises ValueError unless 0 <= overlap < chars_max / 2."""
    if not 0 <= overlap < chars_max / 2:
        raise ValueError(f"overlap {overlap} must be less than half of chars_max {chars_max}")
    cutting = _Cutting(blocks, chars_max, overlap)
    for number, block in enumerate(blocks):
        if block.kind == "heading":
            cutting.heading(number)
        else:
            cutting.body(number)
    return cutting.finished()


@dataclass(slots=True)
class _Cutting:
    """Where the cutting of a document stands: the chunk under way, and the headings that hold. Mutable."""

    blocks: Sequence[BlockOfText]
    chars_max: int
    overlap: int
    path: list[tuple[int, str]] = field(default_factory=list)  # level, words
    pieces: list[Piece] = field(default_factory=list)
    above: tuple[str, ...] = ()  # the headings above the first piece of the chunk under way
    section: tuple[str, ...] | None = None  # those above its first paragraph, once it has one
    chars: int = 0
    found: list[Chunk] = field(default_factory=list)

    def heading(self, number: int) -> None:
        """A heading: the first words of its section, and above all that follows in it."""
        block = self.blocks[number]
        if self.chars >= min(SECTION_CHARS_MIN, self.chars_max // 2):
            self._flush()
        while self.path and self.path[-1][0] >= block.level:
            self.path.pop()
        self._take(Piece(number, 0, len(block.text)))
        self.path.append((block.level, " ".join(block.text.split())))

    def body(self, number: int) -> None:
        """A paragraph or row, in parts where it is long."""
        block, at = self.blocks[number], 0
        while at < len(block.text):
            room = self.chars_max - self.chars - 2
            left = len(block.text) - at
            if left > room and self.chars and (left <= self.chars_max or room < self.chars_max // 4):
                self._flush()
                self._say_again(number, at)
                room = self.chars_max - self.chars - 2
            end = at + left if left <= room else _border(block.text, at, at + max(room, 1))
            self._take(Piece(number, at, end))
            at = end

    def finished(self) -> list[Chunk]:
        """All of them."""
        self._flush()
        return self.found

    def _take(self, piece: Piece) -> None:
        if not self.pieces:
            self.above, self.section = self._said(), None
        if self.section is None and self.blocks[piece.block].kind != "heading":
            self.section = self._said()
        self.pieces.append(piece)
        self.chars += piece.end - piece.start + 2

    def _say_again(self, number: int, at: int) -> None:
        """Begin a chunk inside a paragraph with the end of what came before in it."""
        block = self.blocks[number]
        if at == 0 or not self.overlap or block.kind == "row":
            return
        begin = max(0, at - self.overlap)
        first = next((match.end() for match in _SENTENCE.finditer(block.text, begin, at) if match.end() < at), None)
        if first is None:
            first = next((match.end() for match in _SPACE.finditer(block.text, begin, at) if match.end() < at), at)
        if first < at:
            self._take(Piece(number, first, at, again=True))

    def _flush(self) -> None:
        """The chunk under way is whole; one of blank space alone is none."""
        if any(self.blocks[piece.block].text[piece.start : piece.end].strip() for piece in self.pieces):
            section = self._said() if self.section is None else self.section
            self.found.append(_chunk(self.blocks, self.pieces, self.above, section))
        self.pieces, self.chars = [], 0

    def _said(self) -> tuple[str, ...]:
        return tuple(words for _, words in self.path)


def _chunk(
    blocks: Sequence[BlockOfText], pieces: Iterable[Piece], above: tuple[str, ...], section: tuple[str, ...]
) -> Chunk:
    kept = tuple(pieces)
    first, last = kept[0], kept[-1]
    begins, ends = blocks[first.block], blocks[last.block]
    pages = [page for piece in kept if (page := blocks[piece.block].page) is not None]
    return Chunk(
        text=_joined(blocks, kept),
        headings=above,
        section=section,
        start=begins.start + first.start if _is_slice(begins) else begins.start,
        end=ends.start + last.end if _is_slice(ends) else ends.end,
        page=min(pages, default=None),
        page_to=max(pages, default=None),
        pieces=kept,
    )


def _joined(blocks: Sequence[BlockOfText], pieces: Sequence[Piece]) -> str:
    said: list[str] = []
    before: Piece | None = None
    for piece in pieces:
        block = blocks[piece.block]
        if before is not None and before.block != piece.block:
            rows = block.kind == "row" and blocks[before.block].kind == "row"
            said.append("\n" if rows else "\n\n")
        said.append(block.text[piece.start : piece.end])
        before = piece
    return "".join(said).strip()


def _is_slice(block: BlockOfText) -> bool:
    """Whether its characters are those of the document; a piece of one that is not points at the whole of it."""
    return block.end - block.start == len(block.text)


def _border(text: str, low: int, high: int) -> int:
    """The last border in (low, high]: of a sentence in the second half, else of a word, else `high` itself."""
    for pattern, begin in ((_SENTENCE, low + (high - low) // 2), (_SPACE, low)):
        ends = [match.end() for match in pattern.finditer(text, begin, high)]
        if ends and low < ends[-1] <= high:
            return ends[-1]
    return whole_at(text, low, high)
