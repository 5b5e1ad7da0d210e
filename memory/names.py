"""Names that hold a secret: what a client calls its users, projects, agents and sessions in, a name to store it by out.

Names are stored and shown open, and clients put keys into them (`X-Memory-Session: <their API key>`). Such a name is
replaced by a keyed digest, always the same one, so that the conversation is found again and nobody reads the key. Of
names only tokens of a known shape are found: a password alone looks like any word. Refuses nothing, keeps at most
`NAMES_MAX` answers; a name that was seen before costs a digest. No name lies here: it would outlive who is forgotten.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from policies.redaction import Redacted
from policies.text import normalised, storable

NAMES_MAX: Final = 4_096
CHARS_MIN: Final = 12
"""No secret of a known shape is shorter."""


def kept_name(name: str, hide: Callable[[str], str]) -> str:
    """A name as it is kept, however it was written: NFC, and a secret by another name (`hide`, a `Names`)."""
    return hide(normalised("NFC", storable(name)))


class Redacts(Protocol):
    """Finds secrets."""

    def redact(self, text: str) -> Redacted:
        """The text without them, and where they were."""


class Names:
    """Hides names that are secrets. `key`: 32 bytes that nobody outside has."""

    def __init__(self, redactor: Redacts, key: bytes) -> None:
        self._redactor = redactor
        self._key = key
        self._known: OrderedDict[bytes, bool] = OrderedDict()  # by digest, whether it is a secret

    def __call__(self, name: str) -> str:
        """The name to store it by."""
        if len(name) < CHARS_MIN:
            return name
        digest = hmac.digest(self._key, b"name\x00" + name.encode("utf-8", "surrogatepass"), "sha256")[:16]
        secret = self._known.get(digest)
        if secret is None:
            secret = self._known[digest] = bool(self._redactor.redact(name).findings)
            if len(self._known) > NAMES_MAX:
                self._known.popitem(last=False)
        return f"hidden-{digest.hex()}" if secret else name
