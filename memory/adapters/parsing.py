"""Parsing in a process of its own: the bytes of a file in, its blocks out, or a refusal that says what is wrong.

One `python -m memory.parse` for each file, with a bare environment and its own limits; here are those that it could
not be trusted with: the clock, how much it may say, and that what it says has the form of blocks. At most `parallel` at
once in this process; the others wait for `wait_s`, in turns that are fair by tenant and user. Raises Unprocessable,
TooLarge, RateLimited, StoreUnavailable. What the file says is in no error and no log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from memory.documents import Parsed
from memory.errors import RateLimited, Refused, StoreUnavailable, TooLarge, Unprocessable
from memory.model import Scope
from memory.parse.blocks import BLOCKS_MAX, Block
from memory.places import Places
from memory.telemetry import event

log = logging.getLogger("memory_proxy.documents")

_ROOT: Final = str(Path(__file__).resolve().parents[2])
_WALL_MORE_S: Final = 2  # the process ends itself by its own clock first
_LINE_BYTES_MAX: Final = 2_097_152
_NO_PARSER: Final = "documents cannot be read here now: the parser does not start"
_KINDS: Final = frozenset({"heading", "paragraph", "row", "code"})


@dataclass(frozen=True, slots=True)
class ParseBounds:
    """What one file may take."""

    memory_bytes: int = 536_870_912
    wall_s: int = 60
    cpu_s: int = 45
    chars_max: int = 20_000_000
    rows_max: int = 100_000
    parallel: int = 1
    wait_s: float = 120.0


class ParseProcess:
    """Parses files. One per process of ours."""

    def __init__(self, bounds: ParseBounds) -> None:
        self._bounds = bounds
        self._places = Places(bounds.parallel, bounds.wait_s)

    async def parse(self, scope: Scope, content: bytes, name: str, declared: str) -> Parsed:
        """The blocks of a file. `declared` is its Content-Type, "" for none."""
        async with self._places.turn(scope.tenant, scope.user) as taken:
            if not taken:
                raise RateLimited("too many documents are being read; send it again", retry_after_s=5)
            return await self._run(content, _ending(name), declared[:200])

    async def _run(self, content: bytes, suffix: str, declared: str) -> Parsed:
        process = await self._started(suffix, declared)
        said, given = process.stdout, process.stdin
        if said is None or given is None:  # they are pipes
            raise StoreUnavailable("documents cannot be read here now: no pipe to the parser")
        feeding = asyncio.create_task(_feed(given, content))
        try:
            async with asyncio.timeout(self._bounds.wall_s + _WALL_MORE_S):
                blocks, last = await self._read(said)
                code = await process.wait()
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)  # Process.kill may reap it before whoever waits for it
                await process.wait()
        if last is None:
            raise self._died(code)
        return _finished(last, blocks)

    async def _started(self, suffix: str, declared: str) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command(suffix, declared),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PYTHONPATH": _ROOT, "PYTHONUTF8": "1", "PATH": os.defpath, "LANG": "C.UTF-8"},
                cwd="/",
                limit=_LINE_BYTES_MAX,
                start_new_session=True,
            )
        except OSError as fault:  # no file or process left to be had, no memory
            event(log, "parser_does_not_start", logging.ERROR, fault=str(fault))
            raise StoreUnavailable(_NO_PARSER, retry_after_s=30) from fault

    def _command(self, suffix: str, declared: str) -> list[str]:
        bounds = self._bounds
        return [
            sys.executable,
            "-P",
            "-s",
            "-m",
            "memory.parse",
            f"--suffix={suffix}",
            f"--declared={declared}",
            f"--memory-bytes={bounds.memory_bytes}",
            f"--cpu-s={bounds.cpu_s}",
            f"--wall-s={bounds.wall_s}",
            f"--chars-max={bounds.chars_max}",
            f"--rows-max={bounds.rows_max}",
        ]

    async def _read(self, said: asyncio.StreamReader) -> tuple[tuple[Block, ...], dict[str, Any] | None]:
        """What it says: blocks, and the last line, None where it ended without one. Raises Unprocessable."""
        blocks: list[Block] = []
        chars = 0
        last: dict[str, Any] | None = None
        while raw := await _line(said):
            value = _object(raw)
            if last is not None or chars > self._bounds.chars_max or len(blocks) > BLOCKS_MAX:
                raise _odd()
            if "t" in value:
                blocks.append(_block(value))
                chars += len(blocks[-1].text)
            else:
                last = value
        return tuple(blocks), last

    def _too_slow(self) -> TooLarge:
        return TooLarge(
            f"the file takes longer than {self._bounds.wall_s} s to be read; send it in parts", param="file"
        )

    def _died(self, code: int) -> Refused:
        """Why a process ended without its last line."""
        if code in (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL):
            return self._too_slow()
        if code < 0:
            return Unprocessable("the file cannot be read: what parses it broke", param="file")
        event(log, "parser_does_not_start", logging.ERROR, status=code)
        return StoreUnavailable(_NO_PARSER, retry_after_s=30)


def _ending(name: str) -> str:
    """The ending of a name, where it may say what a file is; a process takes no other as an argument."""
    ending = PurePath(name).suffix[:16]
    return ending if ending[1:].isascii() and ending[1:].isalnum() else ""


async def _feed(given: asyncio.StreamWriter, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended: its last line, or none, says why
        given.write(content)
        await given.drain()
        given.close()
        await given.wait_closed()


async def _line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError as fault:  # longer than the limit
        raise _odd() from fault


def _object(raw: bytes) -> dict[str, Any]:
    try:
        said = json.loads(raw)
    except ValueError as fault:
        raise _odd() from fault
    if not isinstance(said, dict):
        raise _odd()
    return said


def _block(said: dict[str, Any]) -> Block:
    try:
        text, kind, start, end, page, level = (said[name] for name in ("t", "k", "s", "e", "p", "l"))
    except KeyError as fault:
        raise _odd() from fault
    numbers = [start, end, level, *([] if page is None else [page])]
    sound = isinstance(text, str) and kind in _KINDS and all(type(one) is int and 0 <= one < 2**31 for one in numbers)
    if not sound or end < start:
        raise _odd()
    return Block(text, kind, start, end, page, level)


def _finished(last: dict[str, Any], blocks: tuple[Block, ...]) -> Parsed:
    if "refused" in last:
        refused, why = TooLarge if last.get("status") == 413 else Unprocessable, str(last["refused"])[:500]
        raise refused(why, param="file")
    try:
        media_type, title, chars, pages = (last[name] for name in ("type", "title", "chars", "pages"))
    except KeyError as fault:
        raise _odd() from fault
    return Parsed(str(media_type), str(title)[:300], blocks, int(chars), int(pages))


def _odd() -> Unprocessable:
    """It does not speak as it should: a file has got hold of it, or it is another version's."""
    return Unprocessable("the file cannot be read: what parses it said something odd", param="file")
