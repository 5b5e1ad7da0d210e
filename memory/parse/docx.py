"""Word documents as blocks: the bytes of a .docx in, headings, paragraphs and table rows with their page out.

Only `word/document.xml` (of whatever number), its notes, the styles (which of them are headings) and the title are
unpacked, each within a bound that counts real bytes, whatever the archive says. A note stands behind the paragraph that
refers to it. XML is read as a stream by defusedxml, which refuses document types and entities: Word writes neither.
Pages are those of the last time the document was laid out. Refuses other archives.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol
from xml.sax import SAXException
from xml.sax.handler import ContentHandler, feature_namespaces
from xml.sax.xmlreader import AttributesNSImpl

from defusedxml.common import DefusedXmlException
from defusedxml.sax import make_parser

from memory.parse.blocks import Kind, Limits, Refusal, Running, Sink, TooMuch, cells
from memory.parse.sniff import WORD_PART

_PIECE_BYTES: Final = 65_536
# As Word writes it, and in the strict form of the standard.
_SPACES: Final = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m",
    "http://purl.oclc.org/ooxml/officeDocument/math": "m",
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc",
    "http://purl.org/dc/elements/1.1/": "dc",
}
_HEADING: Final = re.compile(r"heading ([1-9])", re.I)
_DEPTH_MAX: Final = 256
_NOT: Final = frozenset({"0", "false", "off"})
_WORDS: Final = frozenset({"w:t", "m:t"})  # of text, of a formula
_SAID_ELSEWHERE: Final = frozenset({"mc:Fallback", "w:moveFrom", "w:pPrChange", "w:rPrChange"})
"""For programs that cannot draw what stands beside it; where a tracked change moved words from, and what style was."""
_STYLES: Final = re.compile(r"word/styles[0-9]{0,4}\.xml")
_NOTES: Final = re.compile(r"word/(?:foot|end)notes[0-9]{0,4}\.xml")
_CORE: Final = re.compile(r"docProps/core\.xml")
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, KeyError)


def document(content: bytes, sink: Sink) -> str:
    """Hand on the blocks of a document; returns its title. Raises Refusal, TooMuch."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            styles, notes, core = _Styles(), _Notes(), _Core()
            for name in _named(archive, _STYLES):
                _read(archive, name, styles, sink.limits)
            for name in _named(archive, _NOTES):
                _read(archive, name, _NotesBody(notes), sink.limits)
            body = _Body(Running(sink), styles.levels, notes.said)
            for name in _named(archive, WORD_PART)[:1]:
                _read(archive, name, body, sink.limits)
            for name in _named(archive, _CORE):
                _read(archive, name, core, sink.limits)
    except DefusedXmlException as fault:
        raise Refusal("the Word document declares XML entities or a document type, which none has to") from fault
    except SAXException as fault:
        raise Refusal("the Word document is broken: a part of it is no XML") from fault
    except _BROKEN as fault:
        raise Refusal(f"the Word document is broken or cut off ({type(fault).__name__})") from fault
    return " ".join("".join(core.title).split())[:300]


def _named(archive: zipfile.ZipFile, pattern: re.Pattern[str]) -> list[str]:
    """The parts of such a name."""
    return sorted({name for name in archive.namelist() if pattern.fullmatch(name)})


def _read(archive: zipfile.ZipFile, name: str, handler: ContentHandler, limits: Limits) -> None:
    """Stream one part into a handler. Raises TooMuch."""
    parser = make_parser()
    parser.forbid_dtd = True
    parser.setFeature(feature_namespaces, True)
    parser.setContentHandler(handler)
    left = limits.unpacked_bytes_max
    with archive.open(name) as part:
        while piece := part.read(_PIECE_BYTES):
            left -= len(piece)
            if left < 0:
                raise TooMuch(f"a part of the Word document unpacks to more than {limits.unpacked_bytes_max} bytes")
            parser.feed(piece)
    parser.close()


class _Handler(ContentHandler):
    """Is told names as Word writes them, whatever prefixes a file has."""

    def startElementNS(self, name: tuple[str | None, str], qname: str | None, attrs: AttributesNSImpl) -> None:
        """An element, by the space of its name."""
        self.startElement(_called(name), attrs)  # type: ignore[arg-type]  # `_value` reads them

    def endElementNS(self, name: tuple[str | None, str], qname: str | None) -> None:
        """Its end."""
        self.endElement(_called(name))


@lru_cache(1_024)
def _called(name: tuple[str | None, str]) -> str:
    prefix = _SPACES.get(name[0] or "")
    return f"{prefix}:{name[1]}" if prefix else name[1]


class _Styles(_Handler):
    """Which style is a heading, of which level: by its name, which Word keeps in English whatever its language."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: dict[str, int] = {}
        self._style = ""

    def startElement(self, name: str, attrs: object) -> None:
        """Note a style's id, then its name."""
        if name == "w:style":
            self._style = _value(attrs, "styleId")
        elif name == "w:name" and self._style:
            said = _value(attrs, "val")
            if found := _HEADING.fullmatch(said):
                self.levels[self._style] = min(int(found[1]), 6)
            elif said.lower() == "title":
                self.levels[self._style] = 1

    def endElement(self, name: str) -> None:
        """A style ends."""
        if name == "w:style":
            self._style = ""


class _Core(_Handler):
    """The title among the document's properties."""

    def __init__(self) -> None:
        super().__init__()
        self.title: list[str] = []
        self._inside = False

    def startElement(self, name: str, attrs: object) -> None:
        """The title begins."""
        self._inside = name == "dc:title"

    def endElement(self, name: str) -> None:
        """It ends."""
        self._inside = False

    def characters(self, content: str) -> None:
        """A part of it."""
        if self._inside and len(self.title) < 100:
            self.title.append(content)


@dataclass(slots=True)
class _Paragraph:
    text: list[str] = field(default_factory=list)
    level: int = 0
    page: int = 0  # of its first words
    notes: list[str] = field(default_factory=list)


class _Takes(Protocol):
    def put(self, text: str, kind: Kind, *, page: int | None = None, level: int = 0) -> None: ...


class _Notes:
    """What each note says, in paragraphs. Mutable: `note` is the one that is read."""

    def __init__(self) -> None:
        self.said: dict[str, list[str]] = {}
        self.note = ""

    def put(self, text: str, kind: Kind, *, page: int | None = None, level: int = 0) -> None:
        """Take the next paragraph."""
        self.said.setdefault(self.note, []).append(text)


class _Body(_Handler):
    """The paragraphs and rows, in order."""

    def __init__(self, out: _Takes, levels: dict[str, int], notes: dict[str, list[str]]) -> None:
        super().__init__()
        self._out = out
        self._levels = levels
        self._notes = notes
        self._page = 1
        self._is_ended = False  # the page, by hand, and no word stands on the next one
        self._open: list[_Paragraph] = []
        self._row: list[str] = []
        self._row_page = 0
        self._rows = 0
        self._cell: list[str] = []
        self._in_text = False
        self._is_hidden = False  # the run
        self._depth = 0
        self._beside = 0

    def startElement(self, name: str, attrs: object) -> None:
        """What Word's elements begin."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise Refusal(f"the Word document is nested deeper than {_DEPTH_MAX} elements")
        if self._beside or name in _SAID_ELSEWHERE:
            self._beside += 1
        elif name == "w:p":
            self._open.append(_Paragraph())
        elif name in _WORDS:
            self._in_text = not self._is_hidden
        elif name in ("w:r", "m:r"):
            self._is_hidden = False
        elif name == "w:vanish":
            self._is_hidden = _value(attrs, "val") not in _NOT
        elif name == "w:tr":
            self._rows += 1
        elif self._open:
            self._mark(name, attrs)

    def endElement(self, name: str) -> None:
        """What they end."""
        self._depth -= 1
        if self._beside:
            self._beside -= 1
        elif name in _WORDS:
            self._in_text = False
        elif name == "w:p" and self._open:
            self._ended(self._open.pop())
        elif name == "w:tc":
            self._row.append(" ".join(self._cell))
            self._cell = []
        elif name == "w:tr":
            self._rows -= 1
            if self._rows == 0:
                self._out.put(cells(self._row), "row", page=self._row_page or self._page)
                self._row, self._row_page = [], 0

    def characters(self, content: str) -> None:
        """Words."""
        if self._in_text and self._open:
            self._open[-1].text.append(content)
            self._open[-1].page = self._open[-1].page or self._page
            self._is_ended = False

    def _mark(self, name: str, attrs: object) -> None:
        """What stands inside a paragraph beside its words."""
        said = self._open[-1].text
        if name in ("w:tab", "w:ptab"):
            said.append("\t")
        elif name == "w:noBreakHyphen":
            said.append("-")
        elif name in ("w:br", "w:cr"):
            self._is_ended = _value(attrs, "type") == "page"
            self._page += self._is_ended
            said.append("\n")
        elif name == "w:lastRenderedPageBreak":
            self._page += not self._is_ended  # else it was counted where it was ended
            self._is_ended = False
        elif name == "w:pStyle":
            self._open[-1].level = self._levels.get(_value(attrs, "val"), 0)
        elif name in ("w:footnoteReference", "w:endnoteReference"):
            note = name.removesuffix("Reference") + _value(attrs, "id")
            self._open[-1].notes += self._notes.pop(note, [])

    def _ended(self, one: _Paragraph) -> None:
        text, page = "".join(one.text), one.page or self._page
        if self._rows:
            self._cell += (" ".join(said.split()) for said in (text, *one.notes))
            self._row_page = self._row_page or one.page
            return
        self._out.put(text, "heading" if one.level else "paragraph", page=page, level=one.level)
        for note in one.notes:
            self._out.put(note, "paragraph", page=page)


class _NotesBody(_Body):
    """The notes, each as it would be in the text."""

    def __init__(self, notes: _Notes) -> None:
        super().__init__(notes, {}, {})
        self._into = notes

    def startElement(self, name: str, attrs: object) -> None:
        """Note which one begins."""
        if name in ("w:footnote", "w:endnote"):
            self._into.note = name + _value(attrs, "id")
        super().startElement(name, attrs)


def _value(attrs: object, name: str) -> str:
    """An attribute by its own name, whatever its space."""
    given = attrs.items() if isinstance(attrs, AttributesNSImpl) else ()
    return next((str(value) for (_, called), value in given if called == name), "")
