"""What is cut out of a text, and what stands in its place: findings in, a redacted text out.

Comes in: a text and the spans (`Finding`) that detectors think are secret. Goes out: `Redacted`, the text with
`[redacted:<family>]` in the place of each span, and the spans themselves, always in positions of the original.
Refuses: a finding outside its text, an unknown family, a replacement of a replacement. Finds nothing itself;
`looks_like_placeholder`, `is_word_like` and `shannon_bits` are the law by which detectors judge a candidate.
Pure: standard library, no state, no clock.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

FAMILIES = (
    "password",
    "token",
    "api-key",
    "private-key",
    "jwt",
    "connection",
    "authorization",
    "webhook",
    "aws",
    "azure",
    "gcp",
    "github",
    "gitlab",
    "slack",
    "model-provider",
    "payment",
    "package-registry",
    "messaging",
    "cloud",
    "developer-tool",
    "high-entropy",
    "unsettled",
    "email",
    "phone",
    "iban",
    "card",
    "national-id",
    "address",
)
"""Closed: what may stand behind `redacted:`. A text cannot hide a secret by writing it inside a placeholder."""

RULES = "5"
"""Raised with every change of what a detector finds. A memory version says what it was cleaned by (`memory_versions.
cleaned_by`); what another version cleaned is looked at again before a prompt may have it."""
PLACEHOLDER = re.compile(r"\[redacted:(?:" + "|".join(FAMILIES) + r")\]")
LEFTOVER_ALNUM_MIN = 4
"""Letters and digits a span must keep after placeholders were taken out of it; below this it is punctuation."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Characters [start, end) of a text, and the rule that claims them: `family` or `family/detail`.

    `instead` stands in their place, where a policy wants another word than the placeholder, or nothing.
    """

    start: int
    end: int
    rule: str
    instead: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"a finding needs 0 <= start < end, got [{self.start}, {self.end})")
        if self.family not in FAMILIES:
            raise ValueError(f"unknown rule family {self.family!r}")

    @property
    def family(self) -> str:
        """The part of the rule that is written into the text."""
        return self.rule.partition("/")[0]

    @property
    def replacement(self) -> str:
        """What stands in the text instead."""
        return f"[redacted:{self.family}]" if self.instead is None else self.instead


@dataclass(frozen=True, slots=True)
class Redacted:
    """`text` after replacement; `findings` are disjoint, ascending, in positions of the text before it."""

    text: str
    findings: tuple[Finding, ...]


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Disjoint, ascending. Overlapping spans become one, named by the longest of them; touching spans stay two."""
    merged: list[Finding] = []
    longest = 0
    for finding in sorted(findings, key=lambda f: (f.start, -f.end, f.rule)):
        length = finding.end - finding.start
        if merged and finding.start < merged[-1].end:
            last = merged[-1]
            named = finding if length > longest else last
            merged[-1] = Finding(last.start, max(last.end, finding.end), named.rule, named.instead)
            longest = max(longest, length)
        else:
            merged.append(finding)
            longest = length
    return tuple(merged)


def outside_placeholders(text: str, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The parts of disjoint `findings` that are not already placeholders and still hold something worth hiding."""
    fixed = [m.span() for m in PLACEHOLDER.finditer(text)] if "[redacted:" in text else []
    if not fixed:
        return tuple(findings)
    left: list[Finding] = []
    at = 0
    for finding in findings:
        while at < len(fixed) and fixed[at][1] <= finding.start:
            at += 1
        start, scan = finding.start, at
        while scan < len(fixed) and fixed[scan][0] < finding.end:
            left.extend(_kept(text, start, fixed[scan][0], finding.rule, whole=False))
            start = fixed[scan][1]
            scan += 1
        left.extend(_kept(text, start, finding.end, finding.rule, whole=start == finding.start))
    return tuple(left)


def _kept(text: str, start: int, end: int, rule: str, *, whole: bool) -> Iterator[Finding]:
    if start < end and (whole or sum(c.isalnum() for c in text[start:end]) >= LEFTOVER_ALNUM_MIN):
        yield Finding(start, end, rule)


def replace_findings(text: str, findings: Iterable[Finding]) -> Redacted:
    """Merge, then replace. Raises ValueError for a finding that ends behind the text."""
    merged = merge_findings(findings)
    if merged and merged[-1].end > len(text):
        raise ValueError(f"a finding ends at {merged[-1].end}, the text at {len(text)}")
    parts: list[str] = []
    at = 0
    for finding in merged:
        parts += (text[at : finding.start], finding.replacement)
        at = finding.end
    parts.append(text[at:])
    return Redacted("".join(parts), merged)


def to_original(redacted: Redacted, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings made in `redacted.text`, in positions of the text before it; a replacement maps to all it replaced."""
    starts: list[int] = []  # of each replacement, in redacted.text
    shift = 0
    shifts = [0]  # original minus redacted position, before the first, after the first, ...
    for cut in redacted.findings:
        starts.append(cut.start - shift)
        shift += cut.end - cut.start - len(cut.replacement)
        shifts.append(shift)

    def back(position: int, *, is_end: bool) -> int:
        behind = bisect_right(starts, position - 1 if is_end else position)
        if behind:
            cut, at = redacted.findings[behind - 1], starts[behind - 1]
            if position < at + len(cut.replacement):
                return cut.end if is_end else cut.start
        return position + shifts[behind]

    return tuple(Finding(back(f.start, is_end=False), back(f.end, is_end=True), f.rule, f.instead) for f in findings)


def moved(redacted: Redacted, position: int, *, is_end: bool = False) -> int:
    """A position of the original as one of `redacted.text`; inside a finding the nearer edge of what stands there."""
    shift = 0
    for cut in redacted.findings:
        if position <= cut.start:
            break
        if position < cut.end:
            return cut.start + shift + (len(cut.replacement) if is_end else 0)
        shift += len(cut.replacement) - (cut.end - cut.start)
    return position + shift


def windows(length: int, size: int, overlap: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut [0, length) into owned ranges of `size`, each seen with `overlap` on both sides: (own, own_end, low, high).

    A finding belongs to the window that owns its start, so one of up to `overlap` characters is found whole,
    once, wherever it lies, and never because a border cut it to size.
    """
    if size < 1 or overlap < 0:
        raise ValueError("size must be at least 1 and overlap at least 0")
    for own in range(0, length, size):
        end = min(own + size, length)
        yield own, end, max(0, own - overlap), min(length, end + overlap)


def shannon_bits(value: str) -> float:
    """Entropy of the characters of `value`, in bits a character; 0.0 for the empty string."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())


_STOP = (
    r"example|your[_\-. ]|your(?:api|secret|token|key|pass)|_your|put[_-]?your|my[_-]?(?:pass|secret|token|api|key|pwd)"
    r"|changeme|change[_-]me|change[_-]this|placeholder|redacted|dummy|todo|insert|replace|\bhere\b|_here|here_?$"
    r"|faketoken|undefined|sample|omitted|enter[_-]"
)
_PLACEHOLDER_WORD = re.compile(_STOP, re.IGNORECASE)
_REFERENCE = re.compile(
    r"^\$\$?[A-Za-z_][\w.:/$'>\\-]*$|^\$\d?$|\$[{(]|^[%@]\w+%?$|\{\{|^\{[^{}]*\}$|%[sdv](?![A-Za-z0-9])|%\(|^<[^<>]*>$"
    r"|^\[[^\[\]]*\]$|^#\{|^&\w|^`|\.\.\.|…|•"
)
_REPEATED = re.compile(r"([^A-Za-z])\1{6,}|([A-Za-z])\2{5,}|[xX*]{4,}|\b(\w{3,8})[-_.]\3[-_.]\3\b")
_GENERIC_WORDS = re.compile(
    r"(?:my|user|the|some)?[-_ ]?(?:pass|password|passwd|passwort|passphrase|pwd|secrets?|token|key|api[-_]?key)\d?"
    r"|user|username|login|string|str|text|none|null|nil|true|false|value|var|variable|required|optional|hidden|varchar"
    r"|invalid|valid|yes|no|n/a|bearer|basic|digest|empty|default|any|object|number|integer|bytes|boolean|char|foo|bar"
    r"|baz|xxx|yyy|zzz|abc|test",
    re.IGNORECASE,
)
_STAIRS = ("0123456789abcdefghijklmnopqrstuvwxyz0123456789", "12345678901234567890", "9876543210")
STAIR_CHARS = 9
LONG_STAIR_CHARS = 16
"""No random value counts so far (36 ** -15), however long it is."""


def _pieces(chars: int) -> frozenset[str]:
    return frozenset(s[at : at + chars] for s in _STAIRS for at in range(len(s) - chars + 1))


_STAIR_PIECES = _pieces(STAIR_CHARS)
_LONG_PIECES = _pieces(LONG_STAIR_CHARS)


def looks_like_placeholder(value: str) -> bool:
    """True for what people write where a secret would stand: `xxxx`, `<token>`, `$TOKEN`, `your-key-here`."""
    if _GENERIC_WORDS.fullmatch(value) or _PLACEHOLDER_WORD.search(value) or _REFERENCE.search(value):
        return True
    return bool(_REPEATED.search(value)) or has_stair(value)


STAIR_VALUE_CHARS_MAX = 24
LONG_STAIR_VALUE_CHARS_MAX = 48


def has_stair(value: str) -> bool:
    """True when a good part of a short `value` counts upwards or downwards (`12345678`, `abcdefghij`).

    A longer value that counts is cut all the same, unless sixteen of its characters count: hiding a made-up key costs
    nothing, showing a weak one does.
    """
    low = value.lower()
    if 2 * STAIR_CHARS <= len(low) <= STAIR_VALUE_CHARS_MAX and _holds(low, STAIR_CHARS, _STAIR_PIECES):
        return True
    return len(low) <= LONG_STAIR_VALUE_CHARS_MAX and _holds(low, LONG_STAIR_CHARS, _LONG_PIECES)


def _holds(low: str, chars: int, pieces: frozenset[str]) -> bool:
    return any(low[at : at + chars] in pieces for at in range(len(low) - chars + 1))


_WORD_PART = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)\d{0,3}|\d{1,10}|v\d+")


def is_word_like(value: str) -> bool:
    """True for what a person would read aloud: `prod-db-1`, `user.session.token`, `CamelCaseName`, `2024-05-01`."""
    parts = [p for p in re.split(r"[-_./: ]+", value) if p]
    if len(parts) > 1:
        return all(_WORD_PART.fullmatch(p) for p in parts)
    camel = re.findall(r"[A-Z][a-z]{2,}|^[a-z]{3,}|\d{1,2}$", value)
    return sum(map(len, camel)) == len(value)
