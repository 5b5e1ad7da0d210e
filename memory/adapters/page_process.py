"""Pages read by a process each: fetched bytes in, their text out; `memory.read_page` does the reading.

A page made to be slow or large costs that process, which is killed at its bounds: seconds of CPU and of the clock,
bytes of memory and of its answer. Few run at once; the others wait within the same wall limit. The process gets no
environment but where our code lies. Raises PageUnreadable; a cancelled call kills its process and waits for its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any, Final, get_args

import memory
from memory.errors import PageUnreadable
from memory.web import Block, BlockKind, Fetched, PageText

AT_ONCE: Final = 2
WALL_S: Final = 10.0
CPU_S: Final = 5.0
MEMORY_BYTES_MAX: Final = 536_870_912
# JSON of the text at 6 bytes a character, and around it: title, date, 2,000 blocks of 32 bytes.
_ANSWER_BYTES_A_CHAR: Final = 6
_ANSWER_BYTES_AROUND: Final = 131_072
_KINDS: Final = frozenset(get_args(BlockKind))


class PageProcess:
    """Reads pages to at most `chars_max` characters of text."""

    def __init__(
        self,
        *,
        chars_max: int,
        wall_s: float = WALL_S,
        cpu_s: float = CPU_S,
        memory_bytes_max: int = MEMORY_BYTES_MAX,
        at_once: int = AT_ONCE,
    ) -> None:
        self._chars_max = chars_max
        self._wall_s = wall_s
        self._bounds = {"chars_max": chars_max, "cpu_s_max": cpu_s, "memory_bytes_max": memory_bytes_max}
        self._turns = asyncio.Semaphore(at_once)

    async def read(self, page: Fetched) -> PageText:
        """The text of a page. Raises PageUnreadable."""
        order = {"media_type": page.media_type, "charset": page.charset, "wall_s_max": self._wall_s, **self._bounds}
        try:
            async with asyncio.timeout(self._wall_s), self._turns:
                raw = await self._ask(json.dumps(order).encode() + b"\n" + page.body)
        except TimeoutError as exc:
            raise PageUnreadable(f"a page was not read within {self._wall_s} s") from exc
        except OSError as exc:
            raise PageUnreadable(f"no process to read a page ({type(exc).__name__})") from exc
        return _page(raw)

    async def _ask(self, said: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "memory.read_page",
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=_environment(),
            cwd="/",
        )
        try:
            writing = asyncio.create_task(_write(process, said))
            try:
                raw = await self._answer(process)
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            code = await process.wait()
        finally:
            await _ended(process)
        if code != 0:
            raise PageUnreadable(f"the process that read a page ended with {code}")
        return raw

    async def _answer(self, process: Process) -> bytes:
        bound = _ANSWER_BYTES_AROUND + _ANSWER_BYTES_A_CHAR * self._chars_max
        raw = bytearray()
        while chunk := await _stream(process.stdout).read(65_536):
            raw += chunk
            if len(raw) > bound:
                raise PageUnreadable(f"a page's text of more than {bound} bytes")
        return bytes(raw)


async def _write(process: Process, said: bytes) -> None:
    pipe = _stream(process.stdin)
    with contextlib.suppress(ConnectionError):  # it was killed: its exit says so
        pipe.write(said)
        await pipe.drain()
    pipe.close()


async def _ended(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _stream(pipe: Any) -> Any:
    if pipe is None:
        raise PageUnreadable("a process without its pipes")
    return pipe


def _environment() -> dict[str, str]:
    """Our own code and nothing else: no key, no proxy, no locale."""
    return {"PYTHONPATH": str(Path(memory.__path__[0]).parent), "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _page(raw: bytes) -> PageText:
    """What the process said; it read a stranger's bytes, so it is not believed either."""
    try:
        said = json.loads(raw)
        blocks = tuple(Block(one["kind"], one["text"]) for one in said["blocks"])
        page = PageText(said["title"], said["published"], blocks, said["cut"])
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise PageUnreadable("the process that read a page said nothing that can be read") from exc
    texts = [page.title, page.published, *(block.text for block in blocks)]
    if not all(isinstance(text, str) for text in texts) or not all(block.kind in _KINDS for block in blocks):
        raise PageUnreadable("the process that read a page said nothing that can be read")
    return page
