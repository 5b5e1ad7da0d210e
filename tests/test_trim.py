"""What was freed between blocks in use is given back to the kernel."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
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
    for _ in range(3):
        async with asyncio.timeout(20):
            while resident() > grown - (40 << 20):  # of 63 MiB
                await asyncio.sleep(0.05)
        [bytes(8192) for _ in range(8192)]  # in what was given back, and gone before anybody looks
    assert not task.done() and len(kept) == 128

asyncio.run(main())
"""


@pytest.mark.skipif(not Heap().tells, reason="this C library does not say what is free")
def test_free_blocks_between_others_are_given_back() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], timeout=60, check=True)


class Tells:
    """A heap that has so much idle, one look after the other, and so much where it was trimmed in between."""

    tells = True

    def __init__(self, looks: Sequence[tuple[int, int]]) -> None:
        self._left = list(looks)
        self._stays: int | None = None
        self._now = 0
        self.trimmed: list[int] = []

    def idle_bytes(self) -> int:
        stays, self._stays = self._stays, None
        if stays is not None:
            return stays << 20
        if not self._left:
            self.tells = False
            return 0
        self._now, self._after = self._left.pop(0)
        return self._now << 20

    def trim(self) -> None:
        self.trimmed.append(self._now)
        self._stays = self._after


@pytest.mark.parametrize(
    ("looks", "trimmed"),
    [
        ([(0, 0), (15, 0), (15, 0)], []),
        ([(16, 0), (0, 0), (15, 0), (16, 0)], [16, 16]),
        ([(200, 40), (40, 40), (55, 40), (56, 40)], [200, 40, 56]),
        ([(60, 50), (70, 69), (80, 79), (86, 85)], [60, 70, 86]),  # what is idle and not free stays so
        ([(60, 60), (75, 60), (40, 40), (56, 40)], [60, 56]),  # it is no more than it was
        ([(60, 50), (200, 90), (90, 51), (60, 51)], [60, 200, 90]),  # freed while the rest was given back
        ([(60, 50), (200, 90), (90, 90), (90, 90)], [60, 200, 90]),  # or not free at all
    ],
)
async def test_what_stays_when_all_that_is_free_was_given_back_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, looks: Sequence[tuple[int, int]], trimmed: list[int]
) -> None:
    monkeypatch.setattr(trim, "EVERY_S", 0.0)
    heap = Tells(looks)
    async with asyncio.timeout(20):
        await keep_trimming(cast("Heap", heap))
    assert heap.trimmed == trimmed
