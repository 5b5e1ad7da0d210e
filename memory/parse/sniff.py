"""What a file is, by what it holds: bytes, a name and a declared type in, the media type and its text out.

Bytes that announce themselves (PDF, ZIP, images, …) are known by their first ones; all else must be text in a known
encoding, and is held against what was declared: JSON must parse, HTML must have its tags, a table must not be either.
Refuses what is not taken and what was declared as something else, naming both.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from memory.parse.blocks import Refusal

TEXT: Final = "text/plain"
MARKDOWN: Final = "text/markdown"
CSV: Final = "text/csv"
JSON: Final = "application/json"
HTML: Final = "text/html"
PDF: Final = "application/pdf"
DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
TAKEN: Final = (TEXT, MARKDOWN, CSV, JSON, PDF, HTML, DOCX)
UNDECLARED: Final = frozenset({"", "application/octet-stream", "binary/octet-stream"})

_BY_SUFFIX: Final = {
    ".txt": TEXT,
    ".text": TEXT,
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".csv": CSV,
    ".tsv": CSV,
    ".json": JSON,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".pdf": PDF,
    ".docx": DOCX,
}
_ALSO_CALLED: Final = {
    "text/x-markdown": MARKDOWN,
    "application/csv": CSV,
    "application/vnd.ms-excel": CSV,  # what browsers on Windows call a .csv
    "text/tab-separated-values": CSV,
    "text/json": JSON,
    "application/xhtml+xml": HTML,
    "application/x-pdf": PDF,
}
_OLE: Final = b"\xd0\xcf\x11\xe0"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
"""Names the part of an OLE file that a Word document with a password is."""
_MAGIC: Final = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF file (image, sound or video)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program (ELF)"),
    (_OLE, "an old Office document or another OLE file; save it as .docx"),
    (b"{\\rtf", "an RTF document; save it as .docx"),
    (b"%!PS", "a PostScript document"),
    (b"SQLite format", "a SQLite database"),
)
_ALSO_WORDS: Final = frozenset({b"GIF8", b"RIFF", b"BZh", b"Rar!", b"SQLite format"})
"""A text may begin so too; the files that do have bytes that no text has."""
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark begins alike
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PROLOGUE: Final = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?", re.I)
_SPACE: Final = re.compile(r"\s*")
_OPENING_TAG: Final = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.I)
_ANY_TAG: Final = re.compile(
    r"<(?:html|head|body|title|p|div|span|h[1-6]|ul|ol|li|table|tr|td|a|br|pre|section|article|main)\b[^<>]*>", re.I
)
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w:.-]{1,40})", re.I)
_HEAD_BYTES: Final = 1_024
WORD_PART: Final = re.compile(r"word/document[0-9]{0,4}\.xml")
"""Where the words of a Word document are; Word for the web numbers it."""
# By Python's names: what is named by a part of it, as the WHATWG and all browsers read it.
_READ_AS: Final = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What the file is; `text` is None for what is not text."""

    media_type: str
    text: str | None = None


def recognised(content: bytes, name: str, declared: str) -> Found:
    """The type of a file. `declared` is a Content-Type, "" for none. Raises Refusal."""
    if not content:
        raise Refusal("the file is empty")
    media_type, charset = _declared(declared)
    wanted = _wanted(media_type, name)
    binary = _binary(content, wanted)
    if binary is not None:
        return Found(_held_against(wanted, binary))
    if wanted in (PDF, DOCX):
        raise Refusal(f"declared as {wanted}, and holds no such document: {_looks(content)}")
    text = _decoded(content, charset, html=wanted == HTML or b"<" in content[:_HEAD_BYTES])
    if "\r" in text and "\n" not in text:  # as many characters, so that places hold
        text = text.replace("\r", "\n")
    return Found(_text_type(text, wanted), text)


def _declared(declared: str) -> tuple[str, str | None]:
    """The media type and the charset of a Content-Type."""
    head, *members = declared.split(";")
    media_type = head.strip().lower()
    media_type = _ALSO_CALLED.get(media_type, media_type)
    for member in members:
        name, _, value = member.partition("=")
        if name.strip().lower() == "charset":
            return media_type, value.strip().strip("\"'") or None
    return media_type, None


def _wanted(media_type: str, name: str) -> str:
    """The type that the file is said to be: declared, or by its name; "" where neither says. Raises Refusal."""
    by_name = _BY_SUFFIX.get(PurePath(name).suffix.lower(), "")
    if media_type in UNDECLARED:
        return by_name
    if media_type == TEXT and by_name in (MARKDOWN, CSV):
        return by_name
    if media_type not in TAKEN:
        raise Refusal(f"{media_type[:80]} is not taken; taken are {', '.join(TAKEN)}")
    return media_type


def _binary(content: bytes, wanted: str) -> str | None:
    """PDF or DOCX, None for what may be text. Raises Refusal for what is neither."""
    said = f"declared as {wanted}, and is" if wanted else "the file is"
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip(content, said)
    if b"%PDF-" in content[:_HEAD_BYTES] and _is_pdf(content, wanted):
        return PDF
    if content.startswith(_OLE) and _ENCRYPTED in content:
        raise Refusal(f"{said} an encrypted Office document: save it without a password")
    for magic, what in _MAGIC:
        if content.startswith(magic) and not (magic in _ALSO_WORDS and _reads(content)):
            raise Refusal(f"{said} {what}, which is not taken; taken are {', '.join(TAKEN)}")
    return None


def _is_pdf(content: bytes, wanted: str) -> bool:
    """Of a file that names the format: whether it has it, or is a text about it that says what it is."""
    if content.startswith(b"%PDF-") or b"\0" in content:
        return True
    return b"endobj" in content and not (wanted in (TEXT, MARKDOWN, HTML) and _reads(content))


def _reads(content: bytes) -> bool:
    """Whether it is text in UTF-8."""
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _zip(content: bytes, said: str) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = set(archive.namelist()[:10_000])
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as fault:
        raise Refusal(f"{said} a ZIP archive that cannot be read: broken or cut off") from fault
    if any(WORD_PART.fullmatch(name) for name in names):
        return DOCX
    raise Refusal(f"{said} a ZIP archive and no Word document; taken are {', '.join(TAKEN)}")


def _held_against(wanted: str, found: str) -> str:
    if wanted not in ("", found):
        raise Refusal(f"declared as {wanted}, and is {found}; declare what it is")
    return found


def _looks(content: bytes) -> str:
    return "it is cut off or broken" if b"\0" in content[:_HEAD_BYTES] else "it looks like text"


def _decoded(content: bytes, charset: str | None, *, html: bool) -> str:
    """The text of bytes: by their mark, as UTF-8, or as they are declared. Raises Refusal."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return _as(content[len(mark) :], encoding)
    if charset is None and html:
        charset = _named_in(content)
    if charset is not None:
        return _not_binary(_as(content, charset))
    try:
        return _not_binary(content.decode("utf-8"))
    except UnicodeDecodeError as fault:
        if b"\0" in content[:65_536]:
            raise Refusal("the file is binary and of no known type") from fault
        raise Refusal(
            f"the text is not UTF-8 (byte {fault.start}): save it as UTF-8, or say its encoding, like"
            ' "text/plain; charset=windows-1252"'
        ) from fault


def _named_in(content: bytes) -> str | None:
    """The encoding that a page names; None for what is UTF-8 whatever it says. One that is all ASCII is believed."""
    found = _META_CHARSET.search(content[:_HEAD_BYTES])
    named = None if found is None else found[1].decode("ascii").lower()
    if named is None or named.startswith("iso-2022"):
        return named
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return named
    return None


def _as(content: bytes, charset: str) -> str:
    name = charset.strip().lower().removeprefix("x-").removesuffix("-i")
    try:
        known = codecs.lookup(re.sub(r"^windows-(?=\d)", "cp", name)).name
        try:
            return content.decode(_READ_AS.get(known, known))
        except UnicodeDecodeError:
            return content.decode(known)  # LookupError too where it decodes to no text ("zlib")
    except (LookupError, ValueError, OSError) as fault:  # OSError: one that was not loaded before files were shut
        if isinstance(fault, UnicodeDecodeError):
            raise Refusal(f"the text is not {charset[:40]} as it says (byte {fault.start})") from fault
        raise Refusal(f"the encoding {charset[:40]!r} is unknown; UTF-8 always works") from fault


def _not_binary(text: str) -> str:
    at = text.find("\0")
    if at >= 0:
        raise Refusal(f"the file is binary and of no known type (a NUL at character {at})")
    return text


def _text_type(text: str, wanted: str) -> str:
    """Which kind of text it is, held against what it is said to be. Raises Refusal."""
    if not text.strip():
        raise Refusal("the file has no text in it")
    if wanted in (TEXT, MARKDOWN):  # any text may be read as such
        return wanted
    is_html = _opens_html(text[:65_536])
    if wanted == HTML:
        if not is_html and _ANY_TAG.search(text) is None:
            raise Refusal(f"declared as {HTML}, and has no HTML in it: it is {TEXT}")
        return HTML
    fault = _no_json(text)
    if wanted == JSON and fault:
        raise Refusal(f"declared as {JSON}, and is {HTML if is_html else TEXT}: {fault}")
    if wanted == CSV and (is_html or (fault == "" and text.lstrip()[:1] in "{[")):
        raise Refusal(f"declared as {CSV}, and is {HTML if is_html else JSON}")
    if wanted:
        return wanted
    if is_html:
        return HTML
    return JSON if fault == "" else TEXT


def _opens_html(text: str) -> bool:
    """Whether the first tag is HTML's own. Comments before it are stepped over: a pattern tried each end for each."""
    at = _ends(_PROLOGUE, text, 0)
    while text.startswith("<!--", at):
        closed = text.find("-->", at + 4)
        if closed < 0:
            return False
        at = _ends(_SPACE, text, closed + 3)
    return _OPENING_TAG.match(text, at) is not None


def _ends(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _no_json(text: str) -> str:
    """Why a text is no JSON document, "" where it is one: an object or a list, as a number alone is any text."""
    if text.lstrip("\ufeff \t\r\n")[:1] not in ("{", "["):
        return "it begins with neither { nor ["
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        return f"no JSON, {fault.msg} at character {fault.pos}"
    except RecursionError:
        return "it is nested too deep"
    except ValueError:
        return "a number in it is too long"
    return ""
