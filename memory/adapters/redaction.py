"""Redaction as a program is wired with it: the settings in; one redactor, the mark of what it does, and borders out.

The mark names the rules and the policy together. A memory version that carries another one was cleaned by something
else, and is cleaned again before a prompt may have it (`Again`). One policy for all tenants: `policy_of` is the place
to ask a tenant's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memory.adapters.secret_context import KeyBlockDetector, KeyValueDetector
from memory.adapters.secret_rules import ShapeDetector, secret_detectors
from memory.config import Settings
from memory.model import IndexRow
from memory.write.personal import PersonalRedactor
from memory.write.redact import Redactor
from memory.write.redact_across import Borders
from policies.personal import KINDS, PersonalPolicy
from policies.redaction import RULES, moved


def policy_of(settings: Settings) -> PersonalPolicy:
    """What is done with personal data."""
    personal = settings.personal
    return PersonalPolicy(
        email=personal.email,
        phone=personal.phone,
        iban=personal.iban,
        card=personal.card,
        national_id=personal.national_id,
        address=personal.address,
    )


def redactor_of(settings: Settings) -> PersonalRedactor:
    """Secrets always, personal data by the settings."""
    return PersonalRedactor(Redactor(secret_detectors()), policy_of(settings))


def mark_of(policy: PersonalPolicy) -> str:
    """The word that says by what a text was cleaned."""
    return f"{RULES}.{policy.mark}"


def tokenises(policy: PersonalPolicy) -> bool:
    """Whether somebody has to keep values."""
    return any(policy.action(kind) == "tokenise" for kind in KINDS)


def borders() -> Borders:
    """What looks over the borders of messages."""
    return Borders(ShapeDetector(), KeyBlockDetector(), KeyValueDetector())


def again(settings: Settings) -> Again:
    """What cleans rows as recall loads them."""
    redactor = redactor_of(settings)
    return Again(redactor, mark_of(redactor.policy))


@dataclass(frozen=True, slots=True)
class Again:
    """Redaction on recall: what other rules cleaned is cleaned again as it is loaded; a hot question pays nothing."""

    redactor: PersonalRedactor
    mark: str

    def redacted(self, text: str) -> str:
        """A text as these rules leave it."""
        return self.redactor.redact(text).text

    def cleaned(self, row: IndexRow) -> IndexRow:
        """The row as a prompt may have it. Its windows move with the words; its vectors stay those of the old text, and
        its context too, which is searched and never shown.
        """
        if row.cleaned_by == self.mark or not row.visible:
            return row
        done = self.redactor.redact(row.content)
        if not done.findings:
            return row
        windows = tuple((moved(done, start), moved(done, end, is_end=True)) for start, end in row.windows)
        return replace(row, content=done.text, windows=windows)
