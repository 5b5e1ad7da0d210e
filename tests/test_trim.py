"""What was freed between blocks in use is given back to the kernel."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from memory.trim import trim_heap

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

blocks = [bytes(8192) for _ in range(8192)]
kept = blocks[::64]
del blocks
before = resident()
assert trim_heap()
print((before - resident()) >> 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library has no malloc_trim")
def test_free_blocks_between_others_are_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) > 40  # of 63 MiB
