"""What a parser gives: blocks of text with their place, and the one fault that names what is wrong with a file.

`Sink` bounds what leaves: a parser that gives more characters or blocks than it may is stopped with `Refusal`. Offsets
count characters of the text as it was decoded or extracted, from 0. Standard library only: this package runs in a
process of its own and imports nothing of the rest of the program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["heading", "paragraph", "row", "code"]

# As many columns as characters: what comes in its place keeps every offset.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
BLOCKS_MAX: Final = 400_000
BLOCK_CHARS_MAX: Final = 100_000
"""A longer one leaves in pieces, so that no line of what leaves is beyond 1.3 MB."""
_BORDER_CHARS: Final = 1_000
"""A piece ends at a line's or a word's end where one is so near."""
HEADING_CHARS_MAX: Final = 300
"""A longer "heading" is a paragraph: nothing else bounds what a file calls one."""


class Refusal(Exception):
    """The file cannot be taken; the text says what is wrong and how to mend it, never what the file says."""


class TooMuch(Refusal):
    """The file is sound and holds more than may be taken; the text names the bound."""


@dataclass(frozen=True, slots=True)
class Block:
    """Characters [start, end) of the document, as `text` says them. `page` counts from 1, None where there are none.

    `level` is a heading's, 1 the highest. Where `end - start` is not the length of the text (a row that names its
    columns, a table cell joined to others), the place is that of the whole block.
    """

    text: str
    kind: Kind
    start: int
    end: int
    page: int | None = None
    level: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one file: characters and blocks that leave, rows of a table, pages, bytes of an unpacked part."""

    chars_max: int
    blocks_max: int = BLOCKS_MAX
    rows_max: int = 100_000
    pages_max: int = 5_000
    unpacked_bytes_max: int = 67_108_864


@dataclass(slots=True)
class Sink:
    """Takes blocks and hands on each as a line of JSON. Mutable: it counts."""

    write: Callable[[str], object]
    limits: Limits
    chars: int = 0
    blocks: int = 0
    pages: int = 0

    def put(self, block: Block) -> None:
        """Hand a block on, in pieces where it is long; one without words is left out. Raises TooMuch."""
        if len(block.text) > BLOCK_CHARS_MAX:
            for piece in _pieces(block):
                self._put(piece)
        else:
            self._put(block)

    def _put(self, block: Block) -> None:
        text = clean(block.text)
        if not text.strip():
            return
        kind, level = block.kind, block.level
        if kind == "heading" and len(text) > HEADING_CHARS_MAX:
            kind, level = "paragraph", 0
        self.chars += len(text)
        self.blocks += 1
        self.pages = max(self.pages, block.page or 0)
        if self.chars > self.limits.chars_max:
            raise TooMuch(f"the file holds more than {self.limits.chars_max} characters of text")
        if self.blocks > self.limits.blocks_max:
            raise TooMuch(f"the file holds more than {self.limits.blocks_max} paragraphs or rows")
        self.write(line({"t": text, "k": kind, "s": block.start, "e": block.end, "p": block.page, "l": level}))


def _pieces(block: Block) -> Iterator[Block]:
    """A long block as several; where it is a slice of the document, so is each."""
    exact, at = block.end - block.start == len(block.text), 0
    while at < len(block.text):
        text = block.text[at : _border(block.text, at)]
        start, end = (block.start + at, block.start + at + len(text)) if exact else (block.start, block.end)
        yield Block(text, block.kind, start, end, block.page, block.level)
        at += len(text)


def _border(text: str, at: int) -> int:
    """Where the piece that begins at `at` ends."""
    end = at + BLOCK_CHARS_MAX
    if end >= len(text):
        return len(text)
    near = (text.rfind(mark, end - _BORDER_CHARS, end) + 1 for mark in ("\n", " "))
    return next(filter(None, near), end)


def goes_on(before: Block, block: Block) -> bool:
    """Whether a block is the next piece of the one before it, with nothing left out between."""
    where, then = (block.start, block.end), (before.start, before.end)
    is_piece = len(before.text) > BLOCK_CHARS_MAX - _BORDER_CHARS and before.kind == block.kind
    return is_piece and (before.end == block.start or where == then)


def clean(text: str) -> str:
    """The text with control characters but tab and line end as spaces: one for one, so offsets hold."""
    return _CONTROL.sub(" ", text)


def line(value: dict[str, object]) -> str:
    """One line of what leaves: ASCII, so that no text can break a line."""
    return json.dumps(value, separators=(",", ":")) + "\n"


class Running:
    """Places for text that has no offsets of its own: each block stands behind the last, two line ends between."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._at = 0

    def put(self, text: str, kind: Kind, *, page: int | None = None, level: int = 0) -> None:
        """Hand on the next block, without its soft hyphens: they divide no word that is shown. Raises TooMuch."""
        said = text.replace("\u00ad", "").strip()
        if said:
            self._sink.put(Block(said, kind, self._at, self._at + len(said), page, level))
            self._at += len(said) + 2


def cells(row: Sequence[str]) -> str:
    """A table's row without a head, as it is read."""
    return " | ".join(cell for cell in (" ".join(one.split()) for one in row) if cell)
