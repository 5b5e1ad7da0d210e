"""Bytes that stand in a text: base64 of either alphabet, and data URLs (RFC 2397); None where the base64 is broken."""

import base64
import binascii
from typing import Final
from urllib.parse import unquote_to_bytes

_SCHEME: Final = "data:"
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_BLANKS: Final = b" \t\r\n"


def is_data_url(text: str) -> bool:
    """Whether it begins as one does."""
    return text[: len(_SCHEME)].lower() == _SCHEME


def decode_data_url(url: str) -> tuple[str, bytes | None]:
    """The media type as it is stated, "" where none is, and the bytes of what begins as such a URL."""
    head, comma, payload = url.partition(",")
    if not comma:
        return "", None
    encoded = payload.encode("utf-8", "surrogatepass")
    raw = unquote_to_bytes(encoded) if "%" in payload else encoded
    is_base64 = head.lower().rstrip().endswith(";base64")
    return head[len(_SCHEME) :].partition(";")[0], decode_base64(raw) if is_base64 else raw


def decode_base64(text: str | bytes) -> bytes | None:
    """Both alphabets, with or without padding and line breaks."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if b"-" in raw or b"_" in raw:
        raw = raw.translate(_URL_SAFE)
    if any(blank in raw for blank in _BLANKS):
        raw = raw.translate(None, _BLANKS)
    compact = raw.rstrip(b"=")
    try:
        return base64.b64decode(compact + b"=" * (-len(compact) % 4), validate=True)
    except binascii.Error:
        return None
