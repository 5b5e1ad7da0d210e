"""What is known of a file without asking anybody: an image's size from its header, the ends of a text, its sentence.

Pure. Reads no further than it says, takes nothing a header says for true that the format forbids, and gives None
for what it does not know. Decodes no pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HEADER_BYTES: Final = 65_536
"""So many first bytes of a file are looked at. A JPEG whose size stands behind more metadata has no size here."""
EXCERPT_HEAD_CHARS: Final = 600
EXCERPT_TAIL_CHARS: Final = 600
"""Both ends, since a log says at its head what ran and at its tail how it ended."""
METADATA_SHOWN_CHARS: Final = 400
"""Of what a file's giver knows of it, in the sentence that a prompt is given."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_SEGMENTS_MAX: Final = 256
_SIDE_MAX: Final = 2**31 - 1
"""Of a PNG (its specification, section 11.2.2); of the others less."""
# Start-of-frame markers of JPEG (T.81, table B.1) but DHT C4, JPG C8 and DAC CC, which share their range.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers that stand alone, without a length: TEM, RST0..7, SOI.
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD9)})


@dataclass(frozen=True, slots=True)
class Image:
    """What an image's header says: its media type, width and height in pixels, both at least 1."""

    media_type: str
    width: int
    height: int


def image(head: bytes) -> Image | None:
    """What kind of image these first bytes begin, None where they begin none whose size can be read."""
    head = head[:HEADER_BYTES]
    for media_type, size in (("image/png", _png), ("image/gif", _gif), ("image/webp", _webp), ("image/jpeg", _jpeg)):
        found = size(head)
        if found is not None:
            width, height = found
            return Image(media_type, width, height) if 0 < width <= _SIDE_MAX and 0 < height <= _SIDE_MAX else None
    return None


def excerpt(text: str, head_chars: int = EXCERPT_HEAD_CHARS, tail_chars: int = EXCERPT_TAIL_CHARS) -> str:
    """A text's two ends, whole lines where they are short, with the number of characters left out between them."""
    text = text.strip()
    if len(text) <= head_chars + tail_chars:
        return text
    head, tail = text[:head_chars], text[len(text) - tail_chars :]
    if (cut := head.rfind("\n")) >= head_chars // 2:
        head = head[:cut]
    if 0 <= (cut := tail.find("\n")) < tail_chars // 2:
        tail = tail[cut + 1 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"


def told(
    artifact_id: object,
    name: str,
    media_type: str,
    size: int,
    caption: str = "",
    text: str = "",
    metadata: Mapping[str, object] | None = None,
) -> str:
    """A file as a prompt is given it: what it is, where it is to be had, what is known of it and what stands in it."""
    said = [f"File {name} ({media_type}, {_size(size)}; artifact {artifact_id})." if name else f"File ({media_type})."]
    said += [caption] if caption else []
    known = " ".join(f"{name.replace('_', ' ').capitalize()}: {value}." for name, value in (metadata or {}).items())
    said += [known[:METADATA_SHOWN_CHARS]] if known else []
    said += [f"In it:\n{excerpt(text)}"] if text else []
    return "\n".join(said)


def _size(count: int) -> str:
    """Bytes in the unit that they are spoken of in."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def _png(head: bytes) -> tuple[int, int] | None:
    if not head.startswith(_PNG) or head[12:16] != b"IHDR" or len(head) < 24:
        return None
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


def _gif(head: bytes) -> tuple[int, int] | None:
    if head[:6] not in (b"GIF87a", b"GIF89a") or len(head) < 10:
        return None
    return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")


def _webp(head: bytes) -> tuple[int, int] | None:
    """The three forms of WebP: lossy, lossless, extended (RFC 9649, sections 2.5 to 2.7)."""
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP" or len(head) < 30:
        return None
    form, body = head[12:16], head[20:30]
    if form == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF
    if form == b"VP8L" and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    """Over the segments to the frame header: each step goes forward by at least two bytes, so it ends."""
    if not head.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
    for _ in range(_SEGMENTS_MAX):
        while head[at : at + 2] == b"\xff\xff":  # fill bytes
            at += 1
        if head[at : at + 1] != b"\xff" or at + 4 > len(head):
            return None
        marker, length = head[at + 1], int.from_bytes(head[at + 2 : at + 4], "big")
        if marker in _BARE:
            at += 2
            continue
        if marker in _FRAMES:
            size = head[at + 5 : at + 9]
            return (int.from_bytes(size[2:], "big"), int.from_bytes(size[:2], "big")) if len(size) == 4 else None
        if marker in (0xD9, 0xDA) or length < 2:  # the end, or pixels before any frame
            return None
        at += 2 + length
    return None
