"""Keys that open nothing because a vendor's own documentation shows them: a key in, whether it is one of them out.

The sixteen sample keys of firebase-android-sdk that the gitleaks rule set (MIT) allows in its rule `gcp-api-key`, by
the first 12 bytes of their SHA-256, so that no scanner has anything to say about this file. Refuses to guess: a key
that is not listed is a secret.
"""

from __future__ import annotations

import hashlib
from typing import Final

_SAMPLES: Final = frozenset(
    (
        "f56e323494a6ffc2064e7a95",
        "2037abcaffb2b77785da716c",
        "3f370c9dd8225c63b5c77de1",
        "e4a5542bb7fd7b67e943c71a",
        "a19f89ab3555eac10c40741f",
        "0b476bdf9acf2123d547b5ae",
        "eb540d2b6ee2a0a47c5779bc",
        "37f8f09bdf12c2f2eae4ead7",
        "8731261cb72d86267a32a532",
        "49f777db995e8260da7ca9ff",
        "27a9a42931dff7eb2f8434e2",
        "dc0fcf046c61640cbd1e8b99",
        "4c98242dcadc8b29005c6b4a",
        "ea9bb1082cf95663f5faca23",
        "3a8b61d0f636b007840c0d40",
        "a6c814bc555ae62c7bd8b58e",
    )
)


def is_public_sample(key: str) -> bool:
    """Whether a key is a public sample."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24] in _SAMPLES
