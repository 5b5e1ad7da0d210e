"""The bytes of a file on their way out: which of them a request asks for."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from proxy.api.artifact_bytes import asked_range

TAG = '"aa"'


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, (0, 100, False)),
        ({"Range": "bytes=10-19"}, (10, 20, True)),
        ({"Range": "bytes=-5"}, (95, 100, True)),
        ({"Range": "bytes=90-"}, (90, 100, True)),
        ({"Range": "bytes=9-1"}, (0, 100, False)),
        ({"Range": "bytes=0-1,4-5"}, (0, 100, False)),
        ({"Range": "lines=0-1"}, (0, 100, False)),
        ({"Range": "bytes=10-19", "If-Range": TAG}, (10, 20, True)),
        ({"Range": "bytes=10-19", "If-Range": '"bb"'}, (0, 100, False)),
        ({"Range": "bytes=10-19", "If-Range": f"W/{TAG}"}, (0, 100, False)),
        ({"Range": "bytes=10-19", "If-Range": "Fri, 27 Nov 2026 08:00:00 GMT"}, (0, 100, False)),
        ({"If-Range": TAG}, (0, 100, False)),
    ],
)
def test_a_part_is_given_where_one_is_asked_for_of_this_very_file(
    headers: dict[str, str], found: tuple[int, int, bool]
) -> None:
    """Else a client would put it to the parts of another that it has (RFC 9110 section 13.1.5)."""
    assert asked_range(make_mocked_request("GET", "/", headers), 100, TAG) == found
