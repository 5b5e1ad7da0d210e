"""Secrets that do not stand in a text as they are: encoded, or cut in pieces by how a text is written.

Comes in: one `str`, and the detectors that know what a secret looks like. Goes out: `Finding`s over what hides one.
base64 (both alphabets, wrapped lines too) and URL encoding are undone, twice at most, and what they hold is looked at;
a run that holds a secret goes whole. String literals joined in code ("ab" + "cd"), lines continued or wrapped, and
zero-width characters inside a token are left out before it is looked at again.
Refuses: what decodes to no text, and a find that a plain reading makes too. Linear: every run is decoded once a level.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from policies.redaction import Finding, merge_findings

LEVELS_MAX: Final = 2
"""How often an encoding is undone: base64 of base64 is real (data URLs in JSON in a token), three times is not."""
RUN_CHARS_MIN: Final = 20
"""base64 of 15 bytes: no provider issues a shorter secret, and words of a sentence are rarely longer."""
PRINTABLE_MIN: Final = 0.97
"""The part of decoded characters that must be printable. Digests and images stay far below (37 % of bytes are)."""
_BASE64: Final = re.compile(
    rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{RUN_CHARS_MIN},}}+(?:(?:\r?\n|\\n)[A-Za-z0-9+/_-]{{16,}}+)*+={{0,2}}",
    re.ASCII,
)
_PIECE: Final = re.compile(rf"[A-Za-z0-9+_-]{{{RUN_CHARS_MIN},}}+={{0,2}}", re.ASCII)
_LINE: Final = re.compile(r"\r?\n|\\n")
_PERCENT: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_URL_RUN: Final = re.compile(r"[A-Za-z0-9%+/=_.~:;&?@!$'()*,#\[\]-]{6,}+", re.ASCII)
_JOINT: Final = re.compile(
    r"(?<=[A-Za-z0-9+/=_.:-])["
    r"\"'`]\s{0,8}(?:\+|\.|&|\|\||\\)?\s{0,24}[\"'`](?=[A-Za-z0-9+/=_.:-])"  # "ab" + "cd"
    r"|(?<=[A-Za-z0-9+/=_.-])\\\r?\n[ \t]{0,16}(?=[A-Za-z0-9+/=_.-])"  # a line that goes on
    r"|(?<=[A-Za-z0-9+/=_-]{8})\r?\n[ \t>]{0,8}(?=[A-Za-z0-9+/=_-]{8})"  # a token wrapped
    r"|[\u00ad\u200b-\u200d\u2060\ufeff]{1,8}"  # soft hyphen, zero width
)
_BROKEN: Final = re.compile(r"[A-Za-z0-9+/=_.-]{1,40}$", re.ASCII)
_GOES_ON: Final = re.compile(r"[A-Za-z0-9+/=_.-]{1,40}", re.ASCII)


class Looks(Protocol):
    """A detector of plain secrets."""

    def find(self, text: str) -> Iterable[Finding]:
        """Yield spans of `text`."""


class EncodedDetector:
    """Secrets in base64 or URL encoding."""

    def __init__(self, detectors: Sequence[Looks]) -> None:
        self._detectors = tuple(detectors)

    def find(self, text: str) -> Iterator[Finding]:
        """Yield the runs that hold a secret; of URL encoding only the part of a run that is one."""
        yield from self._in_text(text, LEVELS_MAX)

    def _in_text(self, text: str, levels: int) -> Iterator[Finding]:
        if levels == 0:
            return
        yield from self._in_base64(text, levels)
        if _PERCENT.search(text):
            yield from self._in_url(text, levels)

    def _in_base64(self, text: str, levels: int) -> Iterator[Finding]:
        for run in _BASE64.finditer(text):
            rule = self._rule_of(decoded(run.group()), levels)
            if rule:
                yield Finding(*run.span(), rule)
                continue
            for piece in _PIECE.finditer(text, *run.span()) if _splits(run.group()) else ():
                if rule := self._rule_of(decoded(piece.group()), levels):
                    yield Finding(*piece.span(), rule)

    def _in_url(self, text: str, levels: int) -> Iterator[Finding]:
        for run in _URL_RUN.finditer(text):
            if not _PERCENT.search(text, *run.span()):
                continue
            plain, starts = unquoted(run.group())
            for found in (*self._plain(plain), *self._in_text(plain, levels - 1)):
                start, end = starts[found.start], starts[found.end]
                yield Finding(run.start() + start, run.start() + end, f"{found.family}/url")

    def _rule_of(self, plain: str | None, levels: int) -> str | None:
        """What the first secret in it is; None where there is none."""
        if plain is None:
            return None
        for found in (*self._plain(plain), *self._in_text(plain, levels - 1)):
            return f"{found.family}/base64"
        return None

    def _plain(self, text: str) -> Iterator[Finding]:
        for detector in self._detectors:
            yield from detector.find(text)


class JoinedDetector:
    """Secrets that are written in pieces."""

    def __init__(self, detectors: Sequence[Looks]) -> None:
        self._detectors = tuple(detectors)

    def find(self, text: str) -> Iterator[Finding]:
        """Yield what is a secret when the joints inside it are left out, joints included.

        A wrapped line may be two lines that have nothing to do with each other: a secret found without it stays alone.
        """
        joints = [joint.span() for joint in _JOINT.finditer(text) if _may_join(text, *joint.span())]
        if not joints:
            return
        whole, at = [], 0
        cuts: list[int] = []  # where a joint was, in the joined text
        shifts = [0]
        for start, end in joints:
            whole.append(text[at:start])
            cuts.append(start - shifts[-1])
            shifts.append(shifts[-1] + end - start)
            at = end
        whole.append(text[at:])
        plain = merge_findings(found for detector in self._detectors for found in detector.find(text))
        ends = [one.end for one in plain]
        joined = "".join(whole)
        for detector in self._detectors:
            for found in detector.find(joined):
                first, last = bisect_right(cuts, found.start), bisect_right(cuts, found.end - 1)
                if first == last:  # no joint inside it
                    continue
                span = Finding(found.start + shifts[first], found.end + shifts[last], f"{found.family}/joined")
                sure = any(not _is_wrap(text, start) for start, _ in joints[first:last])
                at = bisect_right(ends, span.start)
                if sure or at == len(plain) or span.end <= plain[at].start:
                    yield span


def decoded(run: str) -> str | None:
    """The text that a run of base64 holds; None where it holds none."""
    compact = _LINE.sub("", run).rstrip("=").translate(_STANDARD)
    if len(compact) % 4 == 1:
        compact = compact[:-1]
    try:
        raw = base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
        plain = raw.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
    shown = sum(char.isprintable() or char in "\r\n\t" for char in plain)
    return plain if plain and shown >= PRINTABLE_MIN * len(plain) else None


_STANDARD: Final = str.maketrans("-_", "+/")


def unquoted(run: str) -> tuple[str, list[int]]:
    """A run with its URL encoding undone, and where each character (and the end) of it begins in the run."""
    plain: list[str] = []
    starts: list[int] = []
    at = 0
    for match in re.finditer(r"(?:%[0-9A-Fa-f]{2})+", run):
        plain += run[at : match.start()]
        starts += range(at, match.start())
        text = unquote_to_bytes(match.group()).decode("utf-8", "replace")
        plain += text
        # Of several bytes that make one character the first one counts; U+FFFD stands for one byte.
        place = match.start()
        for char in text:
            starts.append(min(place, match.end() - 3))
            place += 3 * (1 if char == "\ufffd" else len(char.encode("utf-8", "surrogatepass")))
        at = match.end()
    plain += run[at:]
    starts += range(at, len(run) + 1)
    return "".join(plain), starts


def _splits(run: str) -> bool:
    return "/" in run or "\n" in run or "\\n" in run


def _may_join(text: str, start: int, end: int) -> bool:
    """A wrapped line joins only where a token, not a word, stands on both sides: each has a digit."""
    if not _is_wrap(text, start):
        return True
    before = _BROKEN.search(text, max(0, start - 40), start)
    after = _GOES_ON.match(text, end)
    return all(side is not None and any(char.isdigit() for char in side.group()) for side in (before, after))


def _is_wrap(text: str, joint: int) -> bool:
    return text[joint] in "\r\n"
