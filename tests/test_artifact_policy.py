"""What a file's bytes say of themselves: sizes of images from their headers, both ends of a text."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.artifact import Image, excerpt, image

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 12, 34) + b"\0\0\0"
_APP0 = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9
JPEG = b"\xff\xd8" + _APP0 + b"\xff\xff\xc2" + struct.pack(">HBHH", 17, 8, 300, 400) + b"\x03"
LOSSY = b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 4 + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 550, 368)
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 4 + b"\x2f" + struct.pack("<I", (99 << 14) | 199) + b"\0" * 8
EXTENDED = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (1_023).to_bytes(3, "little") + (767).to_bytes(3, "little")


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (PNG, Image("image/png", 640, 480)),
        (GIF, Image("image/gif", 12, 34)),
        (JPEG, Image("image/jpeg", 400, 300)),
        (LOSSY, Image("image/webp", 550, 368)),
        (LOSSLESS, Image("image/webp", 200, 100)),
        (EXTENDED, Image("image/webp", 1_024, 768)),
        (PNG[:-8] + b"\0" * 8, None),
        (PNG[:-8] + struct.pack(">II", 2**31 - 1, 1), Image("image/png", 2**31 - 1, 1)),
        (PNG[:-8] + struct.pack(">II", 2**31, 1), None),
        (PNG[:-8] + struct.pack(">II", 1, 2**32 - 1), None),
        (b"", None),
        (b"2026-11-23 ERROR", None),
    ],
)
def test_an_images_size_is_read_from_its_header(head: bytes, found: Image | None) -> None:
    assert image(head) == found


@pytest.mark.parametrize("head", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_a_header_that_is_cut_off_anywhere_has_no_wrong_size(head: bytes) -> None:
    whole = image(head)
    assert {image(head[:end]) for end in range(len(head))} <= {None, whole}


@given(st.sampled_from([b"", PNG[:12], GIF[:6], b"\xff\xd8\xff", LOSSY[:16], LOSSLESS[:16]]), st.binary(max_size=2_000))
def test_any_bytes_give_a_size_that_can_be_or_none(head: bytes, rest: bytes) -> None:
    found = image(head + rest)
    assert found is None or (0 < found.width < 2**31 and 0 < found.height < 2**31)


def test_a_jpeg_of_empty_segments_is_given_up() -> None:
    assert image(b"\xff\xd8" + b"\xff\xe1\x00\x02" * 16_000) is None


def test_an_excerpt_has_both_ends_and_says_what_is_left_out() -> None:
    log = "\n".join(f"line {number}" for number in range(1_000))
    ends = excerpt(log, 100, 100)
    head, between, tail = ends.split("\n[… ")[0], ends.split("[… ")[1].split(" …]")[0], ends.split("…]\n")[1]
    assert log.startswith(head + "\n")
    assert log.endswith("\n" + tail)
    assert between == f"{len(log) - len(head) - len(tail)} characters left out"
    assert excerpt("short") == "short"


@given(st.text(max_size=3_000), st.integers(1, 200), st.integers(1, 200))
def test_an_excerpt_is_bounded(text: str, head: int, tail: int) -> None:
    assert len(excerpt(text, head, tail)) <= head + tail + 50
