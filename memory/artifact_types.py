"""What kind of file an artifact is: its first bytes and what it was declared as in, its media type out.

What announces itself (images, PDF, archives, programs) is known by its first bytes; what has none of these and is text
is text. A declared type is kept where the bytes may be that, since of most types nobody can say more. Refuses, with
Unprocessable that names both, a file that was declared as something it is not, and an empty one. Nothing is parsed.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from memory.errors import Unprocessable

HEAD_BYTES: Final = 65_536
TYPE_CHARS_MAX: Final = 127
OCTETS: Final = "application/octet-stream"
TEXT: Final = "text/plain"
_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+")
"""type "/" subtype, each a token (RFC 9110, section 8.3.1): it stands in a sentence that a prompt is given."""
_UNDECLARED: Final = frozenset({"", OCTETS, "binary/octet-stream"})
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-executable"),
)
# What a file of another name may be inside: a .docx is a ZIP, a .tgz is a gzip.
_CONTAINERS: Final = frozenset({"application/zip", "application/gzip"})
_KNOWN: Final = frozenset({*(media_type for _, media_type in _MAGIC), "image/webp"}) - {"application/x-executable"}
_ALSO_CALLED: Final = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "application/x-gzip": "application/gzip",
    "application/x-zip-compressed": "application/zip",
    "application/x-pdf": "application/pdf",
}
_TEXTS: Final = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/x-ndjson", "application/javascript"}
)
_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


def media_type_of(head: bytes, declared: str) -> str:
    """The media type of a file. `head`: its first HEAD_BYTES, or all; `declared`: a Content-Type, "" for none."""
    if not head:
        raise Unprocessable("the file is empty", param="file")
    said, _, members = declared.partition(";")
    wanted = _ALSO_CALLED.get(said.strip().lower(), said.strip().lower())
    found = _found(head[:HEAD_BYTES])
    if wanted in _UNDECLARED:
        return found or OCTETS
    if len(wanted) > TYPE_CHARS_MAX or _TYPE.fullmatch(wanted) is None:
        raise Unprocessable(f"the file's Content-Type is no media type, as image/png is one; {_MEND}", param="file")
    if is_text(wanted):
        if found == TEXT or (found is None and "charset" in members.lower() and b"\0" not in head):
            return wanted
        raise Unprocessable(f"declared as {wanted[:80]}, and is {_named(found)}; {_MEND}", param="file")
    if wanted in _KNOWN:
        if found != wanted:
            raise Unprocessable(f"declared as {wanted}, and is {_named(found)}; {_MEND}", param="file")
    elif found is not None and found not in _CONTAINERS and found != TEXT and wanted != found:
        raise Unprocessable(f"declared as {wanted[:80]}, and is {found}; {_MEND}", param="file")
    return wanted


_MEND: Final = "declare what it is, or nothing"


def is_text(media_type: str) -> bool:
    """Whether an excerpt can be made of a file of this type."""
    return media_type.startswith("text/") or media_type in _TEXTS or media_type.endswith(("+json", "+xml"))


def _found(head: bytes) -> str | None:
    """What the bytes say; None where they say nothing."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    for magic, media_type in _MAGIC:
        if head.startswith(magic):
            return media_type
    if head.startswith(_BOMS):
        return TEXT
    try:  # a character may be cut in two at the end of what was read
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        return None
    return None if b"\0" in head else TEXT


def _named(found: str | None) -> str:
    return "no text in UTF-8 (of another encoding, say the charset) and of no known type" if found is None else found
