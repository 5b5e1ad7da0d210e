"""What a text says in another writing: base64, hex, escapes, bits, rot13, spaced letters, digits for letters, tags.

A text as it reads in, the plain texts hidden in it out, each with where it stands. Only what decodes to printable
words is given back. Bounded: RUNS_MAX runs that say something, of 8,192 characters. Pure; refuses nothing.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

RUNS_MAX: Final = 256
BASE64_CHARS_MIN: Final = 24
ROT13_CHARS_MAX: Final = 20_000
_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,8192}={0,2}", re.ASCII)
# As mail, PEM and base64(1) break it into lines.
_LINES: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{40,76}\s{1,12}){1,110}[A-Za-z0-9+/_-]{1,76}={0,2}", re.ASCII
)
_HEX: Final = re.compile(r"(?<![0-9A-Fa-f])(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[\s,:]{0,6}){12,4096}", re.ASCII)
_ESCAPES: Final = re.compile(r"(?:\\u[0-9A-Fa-f]{4}|&#x?[0-9A-Fa-f]{2,6};){8,1366}", re.ASCII)
_ONE_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|&#x([0-9A-Fa-f]{2,6});|&#([0-9]{2,6});", re.ASCII)
_BITS: Final = re.compile(r"(?<![01])(?:[01]{8}\s{0,2}){8,1024}", re.ASCII)
_PERCENT: Final = re.compile(r"(?:%[0-9A-Fa-f]{2}|[A-Za-z.+]){16,2048}", re.ASCII)
# Single letters, one sign between two of a word and up to three between two words.
_SPACED: Final = re.compile(r"(?<![^\W_])[^\W_](?:[ .\-_*|\n]{1,3}[^\W_](?![^\W_])){10,1024}")
_BETWEEN_WORDS: Final = re.compile(r"[ .\-_*|\n]{2,3}")
_BETWEEN_SIGNED: Final = re.compile(r"[ .\-_*|\n]{2,3}|[ \n]")
_SIGNED: Final = re.compile(r"\w[.\-_*|]\w")
_LEET: Final = re.compile(r"[a-z][013457@$][a-z]|\b[013457@$][a-z]{2}")
_LEET_LETTERS: Final = str.maketrans("013457@$", "oieastas")
# "ignore", "disregard", "instructions", "system", "prompt" as rot13 writes them.
_ROT13_SIGNS: Final = re.compile(r"vtaber|qvfertneq|vafgehpgvba|cerivbhf|flfgrz|sbetrg|erirny|birevqr")


class Hidden(NamedTuple):
    """A text that stood in another writing: which, its range in the text, and what it says."""

    writing: str
    start: int
    end: int
    text: str


def hidden_in(text: str, lower: str) -> Iterator[Hidden]:
    """What `text` says in other writings; `lower` is the same as it reads."""
    yield from _runs("base64", _BASE64, text, _base64)
    yield from _runs("base64", _LINES, text, lambda run: _decoded("".join(run.split())))
    if "\\u" in text or "&#" in text:
        yield from _runs("escapes", _ESCAPES, text, _escapes)
    yield from _runs("hex", _HEX, text, _hex)
    yield from _runs("bits", _BITS, text, _bits)
    if "%" in text:
        yield from _runs("percent", _PERCENT, text, lambda run: unquote(run) if run.count("%") >= 3 else None)
    yield from _runs("spaced", _SPACED, lower, _spaced)
    if _ROT13_SIGNS.search(lower):
        yield Hidden("rot13", 0, len(lower), codecs.encode(lower[:ROT13_CHARS_MAX], "rot13"))
    if len(lower) <= ROT13_CHARS_MAX and _LEET.search(lower):
        yield Hidden("digits", 0, len(lower), lower.translate(_LEET_LETTERS))


def _runs(writing: str, pattern: re.Pattern[str], text: str, decode: Callable[[str], str | None]) -> Iterator[Hidden]:
    told = 0
    for run in pattern.finditer(text):
        said = decode(run[0])
        if said and _is_words(said):
            yield Hidden(writing, run.start(), run.end(), said)
            told += 1
            if told == RUNS_MAX:
                return


def _is_words(said: str) -> bool:
    return sum(one.isprintable() or one.isspace() for one in said) >= 0.95 * len(said)


def _base64(run: str) -> str | None:
    """What a run says; of one that says nothing, as the path of a URL, what its parts say."""
    said = _decoded(run)
    if said is None and "/" in run:
        parts = [_decoded(part) for part in run.split("/") if len(part) >= BASE64_CHARS_MIN]
        said = "\n".join(part for part in parts if part and _is_words(part)) or None
    return said


def _decoded(run: str) -> str | None:
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4)).decode("utf-8")
    except (binascii.Error, ValueError):
        return None


def _spaced(run: str) -> str:
    """Words of single letters put together; a blank parts words where another sign parts letters."""
    words = (_BETWEEN_SIGNED if _SIGNED.search(run) else _BETWEEN_WORDS).split(run)
    return " ".join(re.sub(r"[ .\-_*|\n]", "", word) for word in words)


def _hex(run: str) -> str | None:
    digits = re.sub(r"0x|\\x|[\s,:]", "", run)
    try:
        return bytes.fromhex(digits).decode("utf-8", "ignore")  # the end of a word before it may read as hex too
    except ValueError:
        return None


def _bits(run: str) -> str | None:
    digits = re.sub(r"\s", "", run)
    try:
        return bytes(int(digits[at : at + 8], 2) for at in range(0, len(digits) - 7, 8)).decode("utf-8")
    except ValueError:
        return None


def _escapes(run: str) -> str | None:
    found = []
    for four, more, decimal in _ONE_ESCAPE.findall(run):
        point = int(decimal) if decimal else int(four or more, 16)
        if point >= 0x110000 or 0xD800 <= point < 0xE000:
            return None
        found.append(chr(point))
    return "".join(found)
