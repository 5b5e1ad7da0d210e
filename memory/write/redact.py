"""Redaction of one text: str -> Redacted, before anything open is stored, embedded or shown again.

Comes in: any `str` (NUL and lone surrogates included, any length) and detectors. Goes out: the text with placeholders
and the findings in positions of the text that came in. Redacting the result again changes nothing: a text is scanned
until a scan finds nothing new, because a cut can lay bare what stood hidden beside it.
Refuses: to guess. A text that does not settle in `passes_max` scans is replaced whole (fails closed). No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from policies.redaction import (
    Finding,
    Redacted,
    merge_findings,
    outside_placeholders,
    replace_findings,
    to_original,
)

PASSES_MAX = 8
"""Scans of one text. None of the 481 shared cases, nor all of them joined into one text, needed more than 2."""


class SecretDetector(Protocol):
    """One way of finding secrets."""

    def find(self, text: str) -> Iterable[Finding]:
        """Yield spans of `text` in any order, overlapping or not. Pure, linear in the text, raises nothing."""
        ...


class Redactor:
    """Holds detectors, no state; safe to share between threads."""

    def __init__(self, detectors: Sequence[SecretDetector]) -> None:
        self._detectors = tuple(detectors)

    def redact(self, text: str) -> Redacted:
        """Return `text` without what the detectors find. Idempotent: `redact(redact(t).text)` finds nothing."""
        current = Redacted(text, ())
        for _ in range(PASSES_MAX):
            fresh = self._fresh(current.text)
            if not fresh:
                return current
            current = replace_findings(text, (*current.findings, *to_original(current, fresh)))
        if not self._fresh(current.text):
            return current
        return replace_findings(text, [Finding(0, len(text), "unsettled")])

    def _fresh(self, text: str) -> tuple[Finding, ...]:
        found = merge_findings(finding for detector in self._detectors for finding in detector.find(text))
        return outside_placeholders(text, found)
