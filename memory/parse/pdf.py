"""PDF as blocks: the bytes in, the paragraphs of each page with its number out, under the titles of the outline.

By pypdf, which has bounds of its own for what a stream may unpack to: a file with a page beyond them is refused whole.
In the place of a page that is broken stands a line that says so, for who reads the text and for the model; a file of
which none can be read is refused, as is one that wants a password. A scan without text is refused too: there is nothing
to find in it, and nobody here reads pictures.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable
from typing import Any, Final

from pypdf import PdfReader
from pypdf.errors import DependencyError, LimitReachedError, PyPdfError

from memory.parse.blocks import HEADING_CHARS_MAX, Block, Refusal, Sink, TooMuch
from memory.parse.plain import paragraphs

_OUTLINE_MAX: Final = 5_000
_DIVIDED: Final = re.compile(r"\u00ad[ \t]*\n[ \t]*")
_UNREAD: Final = "[Page {} of this PDF is broken and could not be read.]"
# What pypdf raises for a broken file beside its own errors: it reads what it is told by the file.
_BROKEN: Final = (
    PyPdfError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    RecursionError,
    AssertionError,
    ArithmeticError,
    OSError,
    LookupError,
    NotImplementedError,
    ImportError,
)


def document(content: bytes, sink: Sink) -> str:
    """Hand on the pages of a file; returns its title. Raises Refusal, TooMuch."""
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = _opened(content)
    count = sink.pages = _pages(reader, sink)
    titles = _outline(reader)
    base, unread, said = 0, 0, 0
    for number in range(count):
        for level, title in titles.get(number, ()):
            sink.put(Block(title, "heading", base, base, number + 1, level))
        try:
            text = undivided(reader.pages[number].extract_text())
        except LimitReachedError as fault:
            raise TooMuch(
                f"page {number + 1} of the PDF unpacks to more than a page may: save it again from what made it"
            ) from fault
        except _BROKEN:
            text, unread = "", unread + 1
            sink.put(Block(_UNREAD.format(number + 1), "paragraph", base, base, number + 1))
        before = sink.blocks
        paragraphs(text, sink, page=number + 1, base=base)
        said += sink.blocks - before
        base += len(text) + 1
    if not said:
        if unread:
            raise Refusal(f"the PDF is broken: none of its {count} pages can be read")
        raise Refusal("the PDF has no text (a scan?): run it through text recognition first")
    return _title(reader)


def undivided(text: str) -> str:
    """A page's text with the words whole that the ends of its lines divide; a soft hyphen within a line is shown."""
    return _DIVIDED.sub("", text).replace("\u00ad", "-")


def _opened(content: bytes) -> PdfReader:
    try:
        reader = PdfReader(io.BytesIO(content), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Refusal("the PDF is encrypted: save it without a password")
    except DependencyError as fault:
        raise Refusal("the PDF is encrypted in a way that is not known: save it without a password") from fault
    except _BROKEN as fault:
        raise Refusal(f"the PDF is broken or cut off ({type(fault).__name__})") from fault
    return reader


def _pages(reader: PdfReader, sink: Sink) -> int:
    try:
        count = len(reader.pages)
    except _BROKEN as fault:
        raise Refusal(f"the PDF is broken or cut off ({type(fault).__name__})") from fault
    if count == 0:
        raise Refusal("the PDF has no pages")
    if count > sink.limits.pages_max:
        raise TooMuch(f"the PDF has more than {sink.limits.pages_max} pages")
    return count


def _outline(reader: PdfReader) -> dict[int, list[tuple[int, str]]]:
    """Titles of the outline by page from 0, with their level; nothing of one that is broken."""
    found: dict[int, list[tuple[int, str]]] = {}
    try:
        for level, one in _flat(reader.outline):
            page = reader.get_destination_page_number(one)
            title = " ".join(str(one.title).split())[:HEADING_CHARS_MAX]
            if page is not None and page >= 0 and title:
                found.setdefault(page, []).append((level, title))
    except _BROKEN:
        return found
    return found


def _flat(outline: Iterable[Any]) -> Iterable[tuple[int, Any]]:
    """The entries of a nested list with their depth, at most _OUTLINE_MAX."""
    waiting: list[tuple[int, Any]] = [(1, one) for one in reversed(list(outline))]
    given = 0
    while waiting and given < _OUTLINE_MAX:
        level, one = waiting.pop()
        if isinstance(one, list):
            waiting += [(level + 1, inner) for inner in reversed(one)]
        else:
            given += 1
            yield min(level, 6), one


def _title(reader: PdfReader) -> str:
    try:
        said = reader.metadata.title if reader.metadata else None
    except _BROKEN:
        return ""
    return " ".join(str(said).split())[:300] if said else ""
