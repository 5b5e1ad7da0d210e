"""Text and Markdown as blocks: the decoded text in, paragraphs, headings and code with their characters out.

A block is a slice of the text: text[start:end] says what it says. Markdown is read line by line for what a chunk needs
(headings, fences, blank lines), nothing is rendered. Refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memory.parse.blocks import Block, Kind, Sink

_BLANK: Final = re.compile(r"(?<![ \t])(?:[ \t]*\r?\n){2,}|\r\r+|\f")  # a run of spaces is begun once
_ATX: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_SETEXT: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")


def paragraphs(text: str, sink: Sink, *, page: int | None = None, base: int = 0) -> None:
    """Hand on what stands between blank lines; `base` is where `text` begins in the document."""
    at = 0
    for match in _BLANK.finditer(text):
        _slice(text, at, match.start(), "paragraph", sink, page=page, base=base)
        at = match.end()
    _slice(text, at, len(text), "paragraph", sink, page=page, base=base)


def markdown(text: str, sink: Sink) -> None:
    """Hand on headings, fenced code and what stands between blank lines."""
    reading = _Markdown(text, sink)
    for start, end in _lines(text):
        reading.line(start, end)
    reading.end()


class _Markdown:
    """Where a reader of Markdown stands: in a paragraph since `begun`, or behind an open fence since `fenced_at`."""

    def __init__(self, text: str, sink: Sink) -> None:
        self._text = text
        self._sink = sink
        self._begun: int | None = None
        self._first_line_end = 0
        self._fence = ""
        self._fenced_at = 0

    def line(self, start: int, end: int) -> None:
        """The next line."""
        line = self._text[start:end]
        if self._fence:
            self._in_fence(line, end)
            return
        opened, atx, under = _FENCE.match(line), _ATX.match(line), _SETEXT.match(line)
        if under and self._begun is not None and start - self._first_line_end <= 2:  # a line end is all between
            _heading(self._text, self._begun, start, 1 if under[1][0] == "=" else 2, self._sink)
            self._begun = None
            return
        if opened or atx or not line.strip():
            self._end_paragraph(start)
        elif self._begun is None:
            self._begun, self._first_line_end = start, end
        if opened:
            self._fence, self._fenced_at = opened[1], start
        elif atx and (said := _without_closing(line[atx.end() :])):
            _heading(self._text, start + atx.end(), start + atx.end() + len(said), len(atx[1]), self._sink)

    def end(self) -> None:
        """The text is over."""
        if self._fence:
            _slice(self._text, self._fenced_at, len(self._text), "code", self._sink)
        self._end_paragraph(len(self._text))

    def _in_fence(self, line: str, end: int) -> None:
        said = line.strip()
        if said.startswith(self._fence) and not said.strip(self._fence[0]):
            _slice(self._text, self._fenced_at, end, "code", self._sink)
            self._fence = ""

    def _end_paragraph(self, at: int) -> None:
        if self._begun is not None:
            _slice(self._text, self._begun, at, "paragraph", self._sink)
            self._begun = None


def _without_closing(said: str) -> str:
    """The words of a heading, without the space and the run of # that may close it."""
    said = said.rstrip(" \t")
    bare = said.rstrip("#")
    return bare.rstrip(" \t") if bare != said and bare.endswith((" ", "\t")) else said


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Where each line begins and ends, its line end left out."""
    at = 0
    while at < len(text):
        found = text.find("\n", at)
        stop = len(text) if found < 0 else found
        yield at, stop - 1 if stop > at and text[stop - 1] == "\r" else stop
        at = stop + 1


def _heading(text: str, start: int, end: int, level: int, sink: Sink) -> None:
    said = text[start:end].strip()
    first = start + len(text[start:end]) - len(text[start:end].lstrip())
    sink.put(Block(said, "heading", first, first + len(said), level=level))


def _slice(text: str, start: int, end: int, kind: Kind, sink: Sink, *, page: int | None = None, base: int = 0) -> None:
    """Hand on a slice without the blank space around it."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    said = piece.strip()
    sink.put(Block(said, kind, base + start, base + start + len(said), page))
