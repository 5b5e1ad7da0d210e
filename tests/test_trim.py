"""What was freed between blocks in use is given back to the kernel."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import cast

import pytest

from memory import trim
from memory.trim import Heap, keep_trimming

PROGRAM = """
import asyncio
import resource
from memory import trim

trim.EVERY_S = 0.05

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

async def main():
    task = asyncio.create_task(trim.keep_trimming())
    blocks = [bytes(8192) for _ in range(8192)]
    kept, grown = blocks[::64], resident()
    await asyncio.sleep(0.2)
    assert resident() > grown - (8 << 20)
    del blocks
    async with asyncio.timeout(20):
        while resident() > grown - (40 << 20):  # of 63 MiB
            await asyncio.sleep(0.05)
    assert not task.done() and len(kept) == 128

asyncio.run(main())
"""


@pytest.mark.skipif(not Heap().tells, reason="this C library does not say what is free")
def test_free_blocks_between_others_are_given_back() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], timeout=60, check=True)


class Tells:
    """A heap of which so much is free, one reading after the other."""

    tells = True

    def __init__(self, *mebibytes: int) -> None:
        self._free = list(mebibytes)
        self.trimmed: list[int] = []
        self._now = 0

    def free_bytes(self) -> int:
        if not self._free:
            self.tells = False
            return 0
        self._now = self._free.pop(0)
        return self._now << 20

    def trim(self) -> None:
        self.trimmed.append(self._now)


@pytest.mark.parametrize(
    ("free", "trimmed"),
    [
        ((0, 15, 15, 15), []),
        ((16, 16, 16, 31, 32, 32), [16, 32]),
        ((200, 40, 40, 55, 56), [200, 56]),  # in use again, then freed anew
        ((20, 500, 500), [20, 500]),  # begun while a large body was in use
    ],
)
async def test_what_was_given_back_is_not_given_back_again(
    monkeypatch: pytest.MonkeyPatch, free: tuple[int, ...], trimmed: list[int]
) -> None:
    monkeypatch.setattr(trim, "EVERY_S", 0.0)
    heap = Tells(*free)
    async with asyncio.timeout(20):
        await keep_trimming(cast("Heap", heap))
    assert heap.trimmed == trimmed
