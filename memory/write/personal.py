"""Personal data by a tenant's policy: a redactor and a policy in, a redactor that does both out.

Secrets go first, always; then what the policy does not keep is masked, dropped, or put behind a token. A token stands
for one value of one person (`[kept:email:…]`): the same value has the same token, so that what is said of it stays
one thing; the value is sealed under the subject's key, dies with it, and `memory-proxy redact --reveal` shows it.
Where nobody can seal (an edit by the API, a recall) a token is a mask. Text that is clean is not changed again.
Refuses to be turned round: a token is an HMAC under the subject's key, not the value in another form.
"""

from __future__ import annotations

import base64
import hmac
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from memory.envelope import Binding, DataKey, seal, unseal
from memory.model import SealedToken
from memory.write.parts import Redacts
from policies.personal import Kind, PersonalPolicy, find_personal
from policies.redaction import Finding, Redacted, replace_findings, to_original

PASSES_MAX: Final = 3
"""Looks at one text: what stands on both sides of something dropped may make a number together, once."""
TOKEN: Final = re.compile(r"\[kept:([a-z-]{3,12}):([a-z2-7]{26})\]")


class Keeps(Protocol):
    """Keeps values behind tokens."""

    def token(self, kind: Kind, value: str) -> str:
        """The token that stands for a value."""


@dataclass(frozen=True, slots=True)
class PersonalRedactor:
    """Cuts secrets, then what `policy` does not keep. Without `tokens` a token is a mask."""

    inner: Redacts
    policy: PersonalPolicy
    tokens: Keeps | None = None

    @property
    def mark(self) -> str:
        """A word for the policy."""
        return self.policy.mark

    def keeping(self, tokens: Keeps) -> PersonalRedactor:
        """The same, with somebody who keeps values."""
        return PersonalRedactor(self.inner, self.policy, tokens)

    def redact(self, text: str) -> Redacted:
        """Return `text` without secrets, and personal data as the policy says; positions are those of `text`."""
        current = self.inner.redact(text)
        if self.policy.keeps_all:
            return current
        for _ in range(PASSES_MAX):
            fresh = self._fresh(current.text)
            if not fresh:
                break
            current = replace_findings(text, (*current.findings, *to_original(current, fresh)))
        return current

    def _fresh(self, text: str) -> Sequence[Finding]:
        kept = [match.span() for match in TOKEN.finditer(text)] if "[kept:" in text else []
        ends = [end for _, end in kept]
        return [
            Finding(one.start, one.end, one.kind, self._instead(one.kind, text[one.start : one.end]))
            for one in find_personal(text, self.policy)
            if (at := bisect_right(ends, one.start)) == len(kept) or one.end <= kept[at][0]
        ]

    def _instead(self, kind: Kind, value: str) -> str | None:
        action = self.policy.action(kind)
        if action == "drop":
            return ""
        if action == "tokenise" and self.tokens is not None:
            return self.tokens.token(kind, value)
        return None


@dataclass(frozen=True, slots=True)
class SubjectTokens:
    """Values of one subject, sealed under its key as they are met; `kept` is what is to be stored."""

    key: DataKey
    tenant: UUID
    subject: UUID
    kept: dict[str, SealedToken] = field(default_factory=dict)

    def token(self, kind: Kind, value: str) -> str:
        """The token of a value; blanks and case make no difference to which it is."""
        plain = "".join(value.split()).casefold().encode("utf-8", "surrogatepass")
        digest = hmac.digest(self.key.secret, b"personal\x00" + kind.encode("ascii") + b"\x00" + plain, "sha256")[:16]
        token = f"[kept:{kind}:{base64.b32encode(digest).decode('ascii').rstrip('=').lower()}]"
        if token not in self.kept:
            sealed = seal(self.key, self._binding(digest), value.encode("utf-8", "surrogatepass"))
            self.kept[token] = SealedToken(token, kind, sealed)
        return token

    def _binding(self, digest: bytes) -> Binding:
        return Binding(self.tenant, self.subject, UUID(bytes=digest), "token")


def revealed(key: DataKey, tenant: UUID, subject: UUID, token: str, sealed: bytes) -> str:
    """The value behind a token. Raises EnvelopeUnreadable, and ValueError for what is no token."""
    match = TOKEN.fullmatch(token)
    if match is None:
        raise ValueError("not a token")
    digest = base64.b32decode(match[2].upper() + "======")
    return unseal(key, Binding(tenant, subject, UUID(bytes=digest), "token"), sealed).decode("utf-8", "surrogatepass")
