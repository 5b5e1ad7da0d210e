"""Captions by the model of `chat_model`, asked in a process of its own: a picture in, what the model says of it out.

One at a time in this process of ours, each with its clock; the others wait, in turns that are fair by tenant and user.
Raises RateLimited, StoreUnavailable where the model gives no caption; neither names a word of the picture.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memory.errors import RateLimited, StoreUnavailable
from memory.model import Scope
from memory.places import Places

_ROOT: Final = str(Path(__file__).resolve().parents[2])
_STARTING_S: Final = 30  # the library loads in 3 to 11 s, here on two busy cores
_WAIT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class CaptionModel:
    """Which model is asked, where, and how long it may take."""

    model: str
    api_base: str
    api_key: str | None
    timeout_s: float


class CaptionProcess:
    """Asks for captions. One per process of ours."""

    def __init__(self, model: CaptionModel) -> None:
        self._model = model
        self._places = Places(1, _WAIT_S)

    async def caption(self, scope: Scope, media_type: str, picture: bytes) -> str:
        """What the model says of a picture, in at most three sentences."""
        async with self._places.turn(scope.tenant, scope.user) as taken:
            if not taken:
                raise RateLimited("too many captions are being asked for; send it again", retry_after_s=10)
            return await self._run(media_type, picture)

    async def _run(self, media_type: str, picture: bytes) -> str:
        model = self._model
        given = {
            "model": model.model,
            "api_base": model.api_base,
            "api_key": model.api_key,
            "timeout_s": model.timeout_s,
            "media_type": media_type,
            "data": base64.b64encode(picture).decode(),
        }
        process = await _started()
        try:
            async with asyncio.timeout(model.timeout_s + _STARTING_S):
                said, _ = await process.communicate(json.dumps(given).encode())
        except TimeoutError:
            raise StoreUnavailable(f"the chat model gave no caption in {model.timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                await process.wait()
        return _read(said)


async def _started() -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-s", "-m", "memory.caption"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": _ROOT, "PYTHONUTF8": "1"},
            cwd="/",
            start_new_session=True,
        )
    except OSError as exc:
        why = exc.strerror or type(exc).__name__
        raise StoreUnavailable(f"the process that asks the chat model cannot be started: {why}") from exc


def _read(said: bytes) -> str:
    try:
        answer = json.loads(said)
        caption = answer.get("caption")
        fault = answer.get("fault", "no answer")
    except (ValueError, AttributeError):
        raise StoreUnavailable("the process that asks the chat model ended without an answer") from None
    if not isinstance(caption, str) or not caption.strip():
        raise StoreUnavailable(f"the chat model gave no caption: {fault}")
    return caption.strip()
