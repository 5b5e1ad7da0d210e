"""Does a text address the model? A text and whose words it is in, a verdict with its reasons out.

What a person says in their own scope may speak of injection, and is held back only where it is one; what a tool, a
page, a document or an untrusted import says is judged strictly, since nothing there has a reason to address a model.
The reason names rules, never what was said. Pure, linear in the text, no model; a classifier joins as a `Detector`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from policies.injection.encoded import hidden_in
from policies.injection.normal import Normal, broken, normal
from policies.injection.rules import RULES, Rule
from policies.labels import Integrity

Origin = Literal["own", "model", "foreign"]
CHARS_MAX: Final = 400_000
"""Of a longer text its two ends are read; the longest turn of BEAM has 348,853 characters."""
# What the findings must weigh together. A rule counts once, however often it is found.
THRESHOLDS: Final[dict[Origin, float]] = {"own": 1.0, "model": 1.0, "foreign": 0.6}
# What is said in a writing that people do not read weighs more: nobody writes so by chance.
ENCODED: Final = 0.5
REASON: Final = "injection"
# Characters without width or of the other direction, in so many places, hide something from who reads it.
_BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_HIDDEN_RUN: Final = re.compile("[\u200b-\u200d\u2060\u2062-\u2064\ufeff]{4,}|[\U000e0020-\U000e007e]{4,}")


@dataclass(frozen=True, slots=True)
class Found:
    """One finding: the rule, the range of the original text, and what it weighs for this origin."""

    rule: str
    span: tuple[int, int]
    weight: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a text is held back, and for which rules, heaviest first, as `reason` says them."""

    quarantined: bool
    weight: float
    findings: tuple[Found, ...]

    @property
    def reason(self) -> str:
        """Rule names, heaviest first: what is stored and shown for review."""
        names = dict.fromkeys(one.rule for one in sorted(self.findings, key=lambda one: -one.weight))
        return f"{REASON}: {', '.join(names)}" if names else ""


def rules_of(reason: str) -> list[str]:
    """The rules that a reason names; none for one that is no injection's."""
    head, _, names = reason.partition(": ")
    return names.split(", ") if head == REASON and names else []


class Detector(Protocol):
    """Another way of finding what addresses the model: a classifier, say."""

    def find(self, text: str, origin: Origin) -> Iterable[Found]:
        """Findings with weights on the scale of THRESHOLDS (1.0 holds back anything). Raises nothing."""


def origin_of(integrity: Integrity) -> Origin:
    """Whose words a text of this label is in."""
    if integrity in (Integrity.ADMIN, Integrity.USER):
        return "own"
    return "model" if integrity is Integrity.ASSISTANT else "foreign"


def judge(text: str, origin: Origin, detectors: Sequence[Detector] = ()) -> Judgement:
    """The verdict on a text."""
    if len(text) > CHARS_MAX:
        half = CHARS_MAX // 2
        text = f"{text[:half]}\n{text[-half:]}"
    read = normal(text)
    found = [*_by_rules(read, origin), *_hidden(read, origin)]
    for detector in detectors:
        found += detector.find(text, origin)
    heaviest: dict[str, float] = {}
    for one in found:
        heaviest[one.rule] = max(one.weight, heaviest.get(one.rule, 0.0))
    weight = sum(heaviest.values())
    return Judgement(weight >= THRESHOLDS[origin], weight, tuple(found))


def _by_rules(read: Normal, origin: Origin) -> list[Found]:
    """One finding a rule: where it is first found."""
    matched = [(rule, span) for rule in RULES if (span := _first(rule, read.text, origin)) is not None]
    spans = read.spans([span for _, span in matched])
    return [Found(rule.name, span, _weight(rule, origin)) for (rule, _), span in zip(matched, spans, strict=True)]


def _first(rule: Rule, text: str, origin: Origin) -> tuple[int, int] | None:
    if not _weight(rule, origin) or not any(stem in text for stem in rule.stems):
        return None
    return next((span for sought in rule.sought if (span := sought.first(text)) is not None), None)


def _weight(rule: Rule, origin: Origin) -> float:
    return rule.foreign if origin == "foreign" else rule.own


def _heaviest(text: str) -> float:
    """What the heaviest rule found in a text weighs in foreign words, 0 for none."""
    return max((_weight(rule, "foreign") for rule in RULES if _first(rule, text, "foreign")), default=0.0)


def _hidden(read: Normal, origin: Origin) -> list[Found]:
    """What is said in another writing, and writing that hides."""
    found = []
    for hidden in hidden_in(broken(read.original), read.text):
        inside = normal(hidden.text)
        if inside.text == read.text:
            continue
        weighs = _heaviest(inside.text)
        if hidden.writing == "digits" and _heaviest(read.text) >= weighs:
            continue
        if weighs:
            ends = (hidden.start, min(hidden.end, len(read.original)))
            found.append(Found(f"encoded-{hidden.writing}", ends, weighs + ENCODED))
    if read.tagged and (match := _HIDDEN_RUN.search(read.original)):
        found.append(Found("encoded-tags", match.span(), 1.0))
    elif match := _HIDDEN_RUN.search(read.original):
        found.append(Found("zero-width", match.span(), 0.3 if origin == "own" else 0.6))
    if (match := _BIDI.search(read.original)) and origin == "foreign":
        found.append(Found("bidi", match.span(), 0.3))
    return found
