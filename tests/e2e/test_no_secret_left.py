"""A secret through every door of a service leaves no bytes in any store, file, log, page or later prompt."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from bench.secret_hunt import forms, traces_in
from bench.security_secrets import canaries


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_no_secret_is_left_anywhere_that_went_through_a_door() -> None:
    with tempfile.TemporaryDirectory(prefix="mp-secrets-", ignore_cleanup_errors=True) as root:
        Path(root).chmod(0o755)
        hunted = await canaries(Path(root))
    assert hunted.planted >= 35
    assert hunted.traces == ()
    seen = set(hunted.control_places)  # the hunt would have found a secret where it finds this
    assert seen >= {"export", "file under pg", "later prompt", "table memory_versions.content", "table turns.content"}


def test_the_hunt_sees_a_secret_in_every_form_and_at_every_offset() -> None:
    secret = "ghp_" + "Ab1" * 12
    for form, value in forms(secret).items():
        assert {trace.form for trace in traces_in(b"..." + value + b"...", "here", {"s": secret})} >= {form}
