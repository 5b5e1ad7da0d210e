"""The form of an API key's secret: random bytes in, a text with a prefix and a checksum out, and back.

`mp-<prefix, 8 hexadecimal>-<43 characters, 256 random bits><checksum, 8 hexadecimal>`. The prefix may be seen and
names the key; the checksum (CRC-32 of all before it) tells a mistyped or cut key from an unknown one without asking
anybody, and is no protection. Pure.
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import Final

PREFIX_BYTES: Final = 4
SECRET_BYTES: Final = 32
_FORM: Final = re.compile(r"mp-([0-9a-f]{8})-[A-Za-z0-9_-]{43}([0-9a-f]{8})", re.ASCII)
_BEGINNING: Final = re.compile(r"mp-[0-9a-f]{8}-", re.ASCII)


def secret_of(prefix: bytes, random: bytes) -> str:
    """The secret of PREFIX_BYTES and SECRET_BYTES random bytes. Raises ValueError for other lengths."""
    if len(prefix) != PREFIX_BYTES or len(random) != SECRET_BYTES:
        raise ValueError(f"a secret is made of {PREFIX_BYTES} and {SECRET_BYTES} bytes")
    body = f"mp-{prefix.hex()}-{base64.urlsafe_b64encode(random).rstrip(b'=').decode()}"
    return body + _checksum(body)


def prefix_of(secret: str) -> str | None:
    """The prefix that may be seen; None for a text that is no secret of this form."""
    found = _FORM.fullmatch(secret)
    return found[1] if found and is_intact(secret) else None


def is_intact(secret: str) -> bool:
    """Whether it has the form and its checksum is right."""
    found = _FORM.fullmatch(secret)
    return found is not None and found[2] == _checksum(secret[:-8])


def looks_damaged(secret: str) -> bool:
    """Whether it begins like a key of ours and is not whole: cut, mistyped, or pasted with something else."""
    return _BEGINNING.match(secret) is not None and not is_intact(secret)


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode('ascii')):08x}"
