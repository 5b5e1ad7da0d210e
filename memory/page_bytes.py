"""Bytes of a page to text: what the server and the page say of their charset in, characters that may be shown out.

Neither is believed before the bytes are: what is valid UTF-8 is UTF-8 whatever was said, a byte order mark comes first,
and only charsets of a list are used (no utf-7, in which a page may hide what it says). Never raises: what cannot be
read becomes U+FFFD. Control characters, and those that turn or hide the text beside them, are left out.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from policies.text import normalised

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META: Final = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{2,40})""", re.IGNORECASE)
_XML: Final = re.compile(rb"""\s*<\?xml[^>]{0,400}?encoding\s*=\s*["']([A-Za-z0-9_:.-]{2,40})""")
_NOT_ASCII: Final = re.compile("[^\x00-\x7f]")
_META_BYTES_READ: Final = 4_096
# By Python's names. As the WHATWG reads them, latin-1 and ASCII mean windows-1252, gb2312 means gb18030.
_CHARSETS: Final = frozenset(
    """utf-8 utf-16 utf-16-le utf-16-be cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp866 cp874
    koi8-r koi8-u iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10 iso8859-13 iso8859-14
    iso8859-15 iso8859-16 mac-cyrillic gb18030 big5hkscs euc_jp shift_jis cp932 euc_kr cp949 iso2022_jp""".split()  # noqa: SIM905
)
_READ_AS: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",
}
# Controls but tab and newline, and the marks that reorder, join or hide: soft hyphen, zero widths, bidi, tags.
_UNSHOWN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def decoded(raw: bytes, said: str) -> str:
    """The text of a page; `said` is the charset of its Content-Type, "" for none."""
    for mark, name in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(name, "replace")
    head = raw[:_META_BYTES_READ]
    found = _META.search(head) or _XML.match(head)
    names = [known for name in (said, found[1].decode("ascii") if found else "") if (known := _known(name))]
    stateful = next((name for name in names if name.startswith(("utf-16", "iso2022"))), None)
    if stateful is not None and _fits(raw, stateful):  # these are valid UTF-8 too, and mean something else
        return raw.decode(stateful, "replace")
    for name in ("utf-8", *names):
        if _fits(raw, name):
            return raw.decode(name)
    # Bytes that fit nothing: UTF-8 where more of its letters are whole than broken, else what was said beside it.
    text = raw.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if len(_NOT_ASCII.findall(text)) > 2 * broken:
        return text
    return raw.decode(next((name for name in names if name != "utf-8"), "cp1252"), "replace")


def plain(text: str) -> str:
    """One line: NFC, runs of space as one, nothing that is not shown."""
    return " ".join(normalised("NFC", _UNSHOWN.sub("", text)).split())


def plain_lines(text: str) -> str:
    """The same with its lines and their indentation, for code."""
    lines = normalised("NFC", _UNSHOWN.sub("", text.replace("\r\n", "\n"))).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _known(name: str) -> str:
    try:
        canonical = codecs.lookup(name.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return ""
    canonical = _READ_AS.get(canonical, canonical)
    return canonical if canonical in _CHARSETS else ""


def _fits(raw: bytes, name: str) -> bool:
    try:
        text = raw.decode(name)
    except UnicodeDecodeError:
        return False
    return "\0" not in text
