"""A caption that cannot be asked for is said to be none, not a fault of ours."""

from __future__ import annotations

import sys
from uuid import UUID

import pytest

from memory.adapters.caption_process import CaptionModel, CaptionProcess
from memory.errors import StoreUnavailable
from memory.model import Scope


async def test_a_process_that_cannot_be_started_gives_no_caption(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there is no memory for one more, or the program was replaced while it ran."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    captions = CaptionProcess(CaptionModel("openai/m", "http://127.0.0.1:9/v1", None, 1.0))
    for _ in range(8):
        with pytest.raises(StoreUnavailable, match="cannot be started"):
            await captions.caption(Scope(UUID(int=1)), "image/png", b"picture")
